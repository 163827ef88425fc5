/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes the flight recorder as lines of JSON. This code may run in a signal handler of a thread
 * that holds any lock, so it takes no locks, allocates nothing and formats by itself.
 */
#include "lib/observe/dump.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/observe/json.h"

#define ARMED_MAX 8
#define LINE 2048
#define DISARM_MS 5000

struct tt_dump_clock tt_dump_clock(const struct tt_flight *f)
{
	struct tt_dump_clock c = {.ticks0 = f->head->ticks0, .real0 = f->head->real0, .ns = 1};
	struct timespec now;
	uint64_t ticks = tt_ticks(), real;

	clock_gettime(CLOCK_REALTIME, &now);
	real = (uint64_t)now.tv_sec * TT_SEC + (uint64_t)now.tv_nsec;
	if (ticks > c.ticks0 && real > c.real0)
		c.ns = (double)(real - c.real0) / (double)(ticks - c.ticks0);
	return c;
}

uint64_t tt_dump_real(const struct tt_dump_clock *c, uint64_t ticks)
{
	return ticks < c->ticks0 ? c->real0
				 : c->real0 + (uint64_t)((double)(ticks - c->ticks0) * c->ns);
}

static int write_all(int fd, const char *p, size_t len)
{
	ssize_t n;

	while (len) {
		n = write(fd, p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

struct out {
	int fd, err;
	size_t len;
	char buf[8192];
};

static void flush(struct out *o)
{
	if (!o->err)
		o->err = write_all(o->fd, o->buf, o->len);
	o->len = 0;
}

static void begin(struct out *o, struct tt_json *j)
{
	if (sizeof(o->buf) - o->len < LINE)
		flush(o);
	tt_json_begin(j, o->buf + o->len, LINE);
}

static void end(struct out *o, struct tt_json *j)
{
	tt_json_end(j);
	o->len += j->len;
}

static void put_uid(struct tt_json *j, uint64_t uid)
{
	char text[17];
	int i;

	for (i = 15; i >= 0; i--, uid >>= 4)
		text[i] = "0123456789abcdef"[uid & 15];
	text[16] = 0;
	tt_json_str(j, "uid", text);
}

static void write_head(struct out *o, const struct tt_flight *f, const struct tt_dump_clock *clock,
		       const char *reason)
{
	const struct tt_flight_head *h = f->head;
	struct tt_json j;

	begin(o, &j);
	tt_json_u64(&j, "tutti_dump", 1);
	tt_json_i64(&j, "rank", h->rank);
	tt_json_i64(&j, "nranks", h->nranks);
	tt_json_str(&j, "host", h->host);
	tt_json_i64(&j, "pid", h->pid);
	tt_json_str(&j, "job", h->job);
	tt_json_time(&j, "time", tt_dump_real(clock, tt_ticks()));
	tt_json_str(&j, "reason", reason);
	tt_json_u64(&j, "operations", atomic_load(&h->last));
	tt_json_u64(&j, "kept", TT_FLIGHT_RECORDS);
	end(o, &j);
}

static void put_failure(struct tt_json *j, const struct tt_flight_comm *c,
			const struct tt_dump_clock *clock)
{
	if (!c->code)
		return;
	tt_json_i64(j, "error", c->code);
	tt_json_i64(j, "error_rank", c->culprit);
	tt_json_str(j, "error_call", c->call);
	tt_json_u64(j, "error_sequence", c->fail_seq);
	tt_json_str(j, "error_field", c->field);
	tt_json_time(j, "error_time", tt_dump_real(clock, c->fail_time));
}

static void write_comm(struct out *o, const struct tt_flight_comm *c,
		       const struct tt_dump_clock *clock)
{
	struct tt_json j;
	uint32_t i;

	begin(o, &j);
	tt_json_u64(&j, "communicator", c->id);
	if (c->name[0])
		tt_json_str(&j, "name", c->name);
	put_uid(&j, c->uid);
	tt_json_i64(&j, "rank", c->rank);
	tt_json_u64(&j, "size", c->size);
	tt_json_u64(&j, "calls", c->seq);
	tt_json_open(&j, "members", '[');
	for (i = 0; i < c->size && i < TT_FLIGHT_MEMBERS; i++)
		tt_json_i64(&j, NULL, c->member[i]);
	tt_json_close(&j, ']');
	put_failure(&j, c, clock);
	if (c->nlate) {
		if (tt_flight_init_of(c->late_seq))
			tt_json_u64(&j, "late_init", tt_flight_init_of(c->late_seq));
		tt_json_u64(&j, "late_sequence", tt_flight_seq_of(c->late_seq));
		tt_json_open(&j, "late", '[');
		for (i = 0; i < c->nlate && i < 4; i++)
			tt_json_i64(&j, NULL, c->late[i]);
		tt_json_close(&j, ']');
	}
	if (c->code) /* last: if it is too long, everything after it is left out too */
		tt_json_str(&j, "error_text", c->text);
	end(o, &j);
}

static const char *state_name(uint8_t state)
{
	static const char *const name[] = {"free", "running", "done", "failed"};

	return state < 4 ? name[state] : "?";
}

static void write_rec(struct out *o, const struct tt_flight *f, const struct tt_flight_rec *r,
		      uint64_t number, const struct tt_dump_clock *clock)
{
	uint32_t init = tt_flight_init_of(r->seq);
	struct tt_json j;

	begin(o, &j);
	tt_json_u64(&j, "operation", number);
	tt_json_str(&j, "call", tt_flight_name_of(f, r->call));
	tt_json_u64(&j, "communicator", tt_flight_comm_id(f, r->comm));
	put_uid(&j, r->comm);
	if (init)
		tt_json_u64(&j, "init", init);
	if (r->seq)
		tt_json_u64(&j, "sequence", tt_flight_seq_of(r->seq));
	if (r->type)
		tt_json_str(&j, "type", tt_flight_name_of(f, r->type));
	if (r->op)
		tt_json_str(&j, "op", tt_flight_name_of(f, r->op));
	if (r->count != TT_FLIGHT_NO_COUNT)
		tt_json_u64(&j, "count", r->count);
	if (r->peer >= 0)
		tt_json_i64(&j, r->seq ? "root" : "peer", r->peer);
	if (r->tag >= 0)
		tt_json_i64(&j, "tag", r->tag);
	if (r->in_place)
		tt_json_u64(&j, "in_place", 1);
	if (r->alg)
		tt_json_str(&j, "algorithm", tt_flight_name_of(f, r->alg));
	tt_json_u64(&j, "rounds", r->rounds);
	if (r->of)
		tt_json_u64(&j, "of", r->of);
	tt_json_u64(&j, "bytes", r->bytes);
	tt_json_time(&j, "start", tt_dump_real(clock, r->start));
	if (r->end)
		tt_json_time(&j, "end", tt_dump_real(clock, r->end));
	tt_json_str(&j, "state", state_name(r->state));
	if (r->status)
		tt_json_i64(&j, "status", r->status);
	end(o, &j);
}

static int write_lines(struct out *o, const struct tt_flight *f, const char *reason)
{
	struct tt_dump_clock clock = tt_dump_clock(f);
	uint64_t last = atomic_load_explicit(&f->head->last, memory_order_acquire), i;
	struct tt_flight_comm c;
	struct tt_flight_rec r;

	write_head(o, f, &clock, reason);
	for (i = 0; i < TT_FLIGHT_COMMS; i++)
		if (tt_flight_read_comm(f, i, &c))
			write_comm(o, &c, &clock);
	for (i = last < TT_FLIGHT_RECORDS ? 1 : last - TT_FLIGHT_RECORDS + 1; i <= last; i++)
		if (tt_flight_read(f, i, &r))
			write_rec(o, f, &r, i, &clock);
	flush(o);
	return o->err;
}

/* PREFIX.RANK and the name it has until it is complete. */
static int make_paths(const char *prefix, int rank, char *path, char *tmp, size_t size)
{
	char digits[12];
	int n = sizeof(digits) - 1;
	unsigned left = (unsigned)rank;
	size_t len = strlen(prefix);

	digits[n] = 0;
	do {
		digits[--n] = (char)('0' + left % 10);
		left /= 10;
	} while (left);
	if (len + sizeof(digits) + 8 > size)
		return -ENAMETOOLONG;
	memcpy(path, prefix, len);
	path[len++] = '.';
	strcpy(path + len, digits + n);
	strcpy(tmp, path);
	strcat(tmp, ".new");
	return 0;
}

static int write_new(struct out *o, const char *path, const char *tmp, const struct tt_flight *f,
		     const char *reason)
{
	int err;

	unlink(tmp); /* left by a process that died while writing */
	o->fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (o->fd < 0)
		return -errno;
	o->len = 0;
	o->err = 0;
	err = write_lines(o, f, reason);
	if (close(o->fd) && !err)
		err = -errno;
	if (!err && rename(tmp, path))
		err = -errno;
	if (err)
		unlink(tmp);
	return err;
}

int tt_dump_file(const char *prefix, struct tt_flight *f, const char *reason, bool own)
{
	static atomic_flag busy = ATOMIC_FLAG_INIT;
	/*
	 * Not on the stack: a signal takes whichever thread it finds, and its stack may be small.
	 */
	static char path[PATH_MAX], tmp[PATH_MAX];
	static struct out out;
	int err;

	if (atomic_flag_test_and_set(&busy))
		return -EBUSY;
	err = make_paths(prefix, f->head->rank, path, tmp, sizeof(path));
	if (!err)
		err = write_new(&out, path, tmp, f, reason);
	if (!err && own)
		atomic_store(&f->head->dumped, atomic_load(&f->head->last) + 1);
	atomic_flag_clear(&busy);
	return err;
}

/* ---- by signal ---- */

static struct armed {
	_Atomic(struct tt_flight *) f;
	const char *prefix;
} armed[ARMED_MAX];
static int armed_signal;
static pthread_mutex_t arming =
	PTHREAD_MUTEX_INITIALIZER; /* of the two above; handlers only read */
static atomic_int handling;

static void on_signal(int signo)
{
	int i, saved = errno;

	atomic_fetch_add(&handling, 1); /* before it looks: tt_dump_disarm */
	for (i = 0; i < ARMED_MAX; i++) {
		struct tt_flight *f = atomic_load(&armed[i].f);

		if (f)
			tt_dump_file(armed[i].prefix, f, "signal", false);
	}
	atomic_fetch_sub(&handling, 1);
	errno = saved;
	(void)signo;
}

static void take_signal(int signo)
{
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_ONSTACK}, old;

	if (!signo || armed_signal == signo || sigaction(signo, NULL, &old))
		return;
	if (old.sa_handler != SIG_DFL) {
		tt_warn("signal %d is the program's own: TUTTI_DUMP is written on errors only",
			signo);
		return;
	}
	sigfillset(&sa.sa_mask);
	if (!sigaction(signo, &sa, NULL))
		armed_signal = signo;
}

static void leave_signal(void)
{
	struct sigaction sa;

	if (armed_signal && !sigaction(armed_signal, NULL, &sa) && sa.sa_handler == on_signal)
		signal(armed_signal, SIG_DFL); /* else the program has taken it since */
	armed_signal = 0;
}

void tt_dump_arm(struct tt_flight *f, const char *prefix, int signo)
{
	int i;

	pthread_mutex_lock(&arming);
	for (i = 0; i < ARMED_MAX && atomic_load(&armed[i].f); i++)
		;
	if (i < ARMED_MAX) {
		armed[i].prefix = prefix;
		atomic_store(&armed[i].f, f);
		take_signal(signo);
	}
	pthread_mutex_unlock(&arming);
}

bool tt_dump_disarm(struct tt_flight *f)
{
	uint64_t deadline = tt_deadline_ms(DISARM_MS);
	bool any = false;
	int i;

	pthread_mutex_lock(&arming);
	for (i = 0; i < ARMED_MAX; i++) {
		if (atomic_load(&armed[i].f) == f)
			atomic_store(&armed[i].f, NULL);
		any |= atomic_load(&armed[i].f) != NULL;
	}
	if (!any)
		leave_signal();
	pthread_mutex_unlock(&arming);
	while (atomic_load(&handling) && !tt_passed(deadline))
		usleep(1000);
	return !atomic_load(&handling);
}
