/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows whose memory the library allocates, and windows shared by the ranks of a host. */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/rma/rma.h"

/* ---- allocated ---- */

static size_t size_of(int rank, int round)
{
	return rank == 1 ? 0 : (size_t)(rank + 1) * 1000 + (size_t)round * 300;
}

static int one_window(struct mp_job *job, int round, bool shared)
{
	size_t size = size_of(job->rank, round), its, i;
	unsigned char *mine = (unsigned char *)job, one = (unsigned char)(job->rank + 1), got;
	struct tutti_win *win;
	int to;

	if (shared)
		MP_OK(tutti_win_allocate_shared(job->world, size, 0, (void **)&mine, &win));
	else
		MP_OK(tutti_win_allocate(job->world, size, 0, (void **)&mine, &win));
	TT_EXPECT(!size == !mine);
	for (i = 0; i < size; i++)
		TT_EXPECT(mine[i] == 0); /* though used in the round before */
	MP_OK(tutti_barrier(job->world));
	for (to = 0; to < job->n; to++) {
		its = size_of(to, round);
		MP_ERR(tutti_put(win, to, &one, 1, its), -ERANGE);
		if (!its)
			continue;
		MP_OK(tutti_put_notify(win, to, &one, 1, its - 1 - (size_t)job->rank));
		MP_OK(tutti_win_flush(win, to));
		MP_OK(tutti_get(win, to, &got, 1, its - 1 - (size_t)job->rank));
		MP_OK(tutti_win_flush(win, to));
		TT_EXPECT(got == one);
	}
	for (i = 0; size && i < (size_t)job->n; i++) {
		MP_OK(tutti_wait_notify(win, (int)i, 1));
		TT_EXPECT(mine[size - 1 - i] == i + 1);
	}
	MP_OK(tutti_barrier(job->world));
	if (size)
		memset(mine, 0xff, size);
	MP_OK(tutti_win_free(win));
	return 0;
}

static int allocate_errors(struct mp_job *job, bool shared)
{
	int (*make)(struct tutti_comm *, size_t, unsigned, void **, struct tutti_win **) =
		shared ? tutti_win_allocate_shared : tutti_win_allocate;
	struct tutti_win *win = NULL;
	void *base = NULL;
	int bad;

	for (bad = 0; bad < job->n; bad++) { /* of one rank: fails on all */
		bool me = job->rank == bad;

		MP_ERR(make(job->world, 64, me ? 1u << 31 : 0, &base, &win), -EINVAL);
		MP_ERR(make(job->world, 64, 0, me ? NULL : &base, &win), -EINVAL);
		MP_ERR(make(job->world, 64, 0, &base, me ? NULL : &win), -EINVAL);
		MP_ERR(make(job->world, me ? SIZE_MAX - 100 : 64, 0, &base, &win), -ENOMEM);
		TT_EXPECT(!win && !base);
	}
	MP_ERR(make(NULL, 64, 0, &base, &win), -EINVAL);
	return 0;
}

static int allocate_body(struct mp_job *job)
{
	struct tutti_win *win;
	uint64_t *mine, old;
	void *base;
	size_t size;
	int round;

	TT_EXPECT(!allocate_errors(job, false));
	for (round = 0; round < 8; round++)
		TT_EXPECT(!one_window(job, round, false));
	MP_OK(tutti_win_allocate(job->world, 64, TUTTI_WIN_READ_ONLY, (void **)&mine, &win));
	MP_ERR(tutti_put(win, 0, &old, 8, 0), -EACCES);
	MP_ERR(tutti_win_shared_query(win, 0, &base, &size), -EINVAL);
	MP_SAID("tutti_win_allocate_shared");
	MP_OK(tutti_win_free(win));
	MP_OK(tutti_win_allocate(job->world, 64, 0, (void **)&mine, &win));
	MP_OK(tutti_fetch_add(win, 0, 1, 0, &old));
	MP_OK(tutti_barrier(job->world));
	if (job->rank == 0)
		MP_OK(tutti_fetch_add(win, 0, 0, 0, &old));
	TT_EXPECT(old == (uint64_t)job->n || job->rank);
	MP_OK(tutti_win_free(win));
	return 0;
}

#define CROSSINGS 30000
#define LINE 8 /* words */

/*
 * Both ranks put a word at the other and flush at the same time, then look for the other's word:
 * at least one of them finds it, as what was put is in place after a flush.
 */
static int crossing_body(struct mp_job *job)
{
	uint64_t i, one = 1, *mine, *seen = calloc(2 * CROSSINGS, sizeof(*seen));
	atomic_ulong *words;
	volatile unsigned d, delay = 1;
	struct tutti_win *win;
	int peer = !job->rank, spin;

	MP_OK(tutti_win_allocate(job->world, CROSSINGS * LINE * 8, 0, (void **)&mine, &win));
	words = (atomic_ulong *)mine;
	MP_OK(tutti_barrier(job->world));
	for (i = 1; i < CROSSINGS; i++) {
		MP_OK(tutti_put(win, peer, &i, 8, 0)); /* meet */
		for (spin = 0; atomic_load(&words[0]) < i; spin++)
			if (spin > 1000)
				sched_yield();
		for (d = delay = (delay * 1103515245u + 12345u) >> 4; d % 32; d--)
			;
		MP_OK(tutti_put(win, peer, &one, 8, i * LINE * 8));
		MP_OK(tutti_win_flush(win, peer));
		seen[i + (uint64_t)job->rank * CROSSINGS] =
			atomic_load_explicit(&words[i * LINE], memory_order_relaxed);
	}
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, seen, 2 * CROSSINGS, TUTTI_UINT64, TUTTI_SUM,
			      job->world));
	for (i = 1; i < CROSSINGS; i++)
		TT_EXPECT(seen[i] || seen[CROSSINGS + i]);
	free(seen);
	MP_OK(tutti_win_free(win));
	return 0;
}

static void crossing(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm", .fn = crossing_body));
}

/* ---- shared ---- */

/* A table that all ranks fill in all parts, by plain stores, and read. */
static int table(struct mp_job *job)
{
	enum { WORDS = 700 };
	uint64_t *part[MP_MAX], *mine;
	struct tutti_win *win;
	size_t size;
	int r, i, from;

	MP_OK(tutti_win_allocate_shared(job->world, WORDS * 8, 0, (void **)&mine, &win));
	for (r = 0; r < job->n; r++) {
		MP_OK(tutti_win_shared_query(win, r, (void **)&part[r], &size));
		TT_EXPECT(size == WORDS * 8);
	}
	TT_EXPECT(part[job->rank] == mine);
	for (r = 0; r < job->n; r++)
		for (i = job->rank; i < WORDS; i += job->n)
			part[r][i] = (uint64_t)(r * 1000000 + i);
	MP_OK(tutti_barrier(job->world));
	for (r = 0; r < job->n; r++)
		for (i = 0; i < WORDS; i++)
			TT_EXPECT(part[r][i] == (uint64_t)(r * 1000000 + i));
	MP_OK(tutti_barrier(job->world));
	/* stores, then a notification; and a put that the target's peers load */
	part[(job->rank + 1) % job->n][0] = 77 + (uint64_t)job->rank;
	MP_OK(tutti_put_notify_id(win, (job->rank + 1) % job->n, NULL, 0, 0, 3));
	MP_OK(tutti_wait_notify_id(win, 3, 1));
	from = (job->rank + job->n - 1) % job->n;
	TT_EXPECT(mine[0] == 77 + (uint64_t)from);
	MP_OK(tutti_put(win, 0, &part[job->rank][5], 8, 8 * (uint64_t)(100 + job->rank)));
	MP_OK(tutti_win_flush(win, 0));
	MP_OK(tutti_barrier(job->world));
	for (r = 0; r < job->n; r++)
		TT_EXPECT(part[0][100 + r] == (uint64_t)(r * 1000000 + 5));
	MP_ERR(tutti_win_shared_query(win, job->n, (void **)&mine, &size), -EINVAL);
	MP_ERR(tutti_win_shared_query(win, 0, NULL, &size), -EINVAL);
	MP_OK(tutti_win_free(win));
	MP_ERR(tutti_win_shared_query(win, 0, (void **)&mine, &size), -EINVAL);
	return 0;
}

/* A counter that all ranks add to, by the CPU's own atomics. */
static int counter(struct mp_job *job)
{
	atomic_ulong *word;
	struct tutti_win *win;
	size_t size;
	void *base;
	int i;

	MP_OK(tutti_win_allocate_shared(job->world, job->rank ? 0 : sizeof(*word), 0, &base, &win));
	MP_OK(tutti_win_shared_query(win, 0, (void **)&word, &size));
	TT_EXPECT(size == sizeof(*word) && word);
	if (job->n > 1) {
		MP_OK(tutti_win_shared_query(win, 1, &base, &size));
		TT_EXPECT(!size && !base);
	}
	for (i = 0; i < 10000; i++)
		atomic_fetch_add(word, 1);
	MP_OK(tutti_barrier(job->world));
	TT_EXPECT(atomic_load(word) == 10000ul * (unsigned long)job->n);
	MP_OK(tutti_win_free(win));
	return 0;
}

/* Whether a store to p kills a child of this process. */
static bool faults(volatile char *p)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		signal(SIGSEGV, SIG_DFL);
		*p = 1;
		_exit(0);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status);
}

/* Rank 0's part is read-only: it stores, the others may load. */
static int read_only(struct mp_job *job)
{
	struct tutti_win *win;
	char *mine, *its;
	size_t size;

	MP_OK(tutti_win_allocate_shared(job->world, 10, job->rank ? 0 : TUTTI_WIN_READ_ONLY,
					(void **)&mine, &win));
	MP_OK(tutti_win_shared_query(win, 0, (void **)&its, &size));
	if (job->rank == 0)
		mine[9] = 'x';
	MP_OK(tutti_barrier(job->world));
	TT_EXPECT(its[9] == 'x');
	if (job->rank && !mp_sanitized())
		TT_EXPECT(faults(its));
	MP_OK(tutti_win_free(win));
	return 0;
}

static int shared_body(struct mp_job *job)
{
	int round;

	TT_EXPECT(!allocate_errors(job, true));
	for (round = 0; round < 3; round++)
		TT_EXPECT(!one_window(job, round, true));
	TT_EXPECT(!table(job));
	TT_EXPECT(!counter(job));
	TT_EXPECT(!read_only(job));
	return 0;
}

/* A rank that cannot map another's memory: all ranks learn why, the other rank is blamed there. */
static int unmapped(struct mp_job *job, int code, const char *said)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_win *win = NULL;
	void *base = NULL;
	const char *hint;

	MP_ERR(tutti_win_allocate_shared(job->world, 4096, 0, &base, &win), code);
	MP_OK(tutti_last_error(&info));
	TT_EXPECT(info.rank == !job->rank && info.host[0]);
	hint = strstr(info.text, said);
	TT_EXPECT(hint && !strstr(hint + 1, said));
	TT_EXPECT(!win && !base);
	return 0;
}

static int unmapped_body(struct mp_job *job)
{
	struct rlimit old, none;
	struct tutti_win *win;
	void *base;

	MP_OK(tutti_win_allocate(job->world, 64, 0, &base, &win)); /* the pool has its memory */
	MP_OK(tutti_win_free(win));
	TT_EXPECT(!getrlimit(RLIMIT_NOFILE, &old));
	none = (struct rlimit){.rlim_cur = 3, .rlim_max = old.rlim_max};
	TT_EXPECT(!job->rank || !setrlimit(RLIMIT_NOFILE, &none));
	TT_EXPECT(!unmapped(job, -EMFILE, "ulimit -n"));
	TT_EXPECT(!setrlimit(RLIMIT_NOFILE, &old));
	/* two users, unless both are an ordinary one */
	TT_EXPECT(!job->rank || geteuid() || !seteuid(65534));
	TT_EXPECT(job->rank || !prctl(PR_SET_DUMPABLE, 0));
	mp_meet(job);
	TT_EXPECT(!unmapped(job, -EPERM, "change users before"));
	TT_EXPECT(!seteuid(getuid()) && !prctl(PR_SET_DUMPABLE, 1));
	return 0;
}

/*
 * Rank 0 has no descriptor to map the memory of rank 1, or to connect; a put, a get and an atomic
 * say what to do, or go another way, and later ones work, unless no connection came about.
 */
static int no_files_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	bool connected = *(const int *)job->arg & 1, vm = *(const int *)job->arg & 2;
	struct tutti_config config = {0};
	struct rlimit old, none;
	uint64_t word = 7, was;
	struct tutti_win *win;
	void *base;
	int i, err;

	TT_EXPECT(vm || !mp_forbid_vm());
	MP_OK(mp_join(job, MP_ID, &config));
	MP_OK(tutti_win_allocate(job->world, 64, 0, &base, &win));
	if (connected)
		MP_OK(job->rank ? tutti_recv(&was, 1, TUTTI_UINT64, 0, 0, job->world, NULL)
				: tutti_send(&word, 1, TUTTI_UINT64, 1, 0, job->world));
	TT_EXPECT(!getrlimit(RLIMIT_NOFILE, &old));
	none = (struct rlimit){.rlim_cur = 3, .rlim_max = old.rlim_max};
	for (i = 0; !job->rank && i < 3; i++) {
		TT_EXPECT(!setrlimit(RLIMIT_NOFILE, &none));
		err = i == 0   ? tutti_put(win, 1, &word, 8, 0)
		      : i == 1 ? tutti_get(win, 1, &was, 8, 0)
			       : tutti_fetch_add(win, 1, 1, 0, &was);
		if (!err)
			err = tutti_win_flush(win, 1);
		TT_EXPECT(!setrlimit(RLIMIT_NOFILE, &old));
		MP_ERR(err, vm && i < 2 ? 0 : -EMFILE);
		TT_EXPECT(!err || (!tutti_last_error(&info) && strstr(info.text, "ulimit -n")));
	}
	mp_meet(job);
	if (connected && !job->rank)
		MP_OK(tutti_fetch_add(win, 1, 1, 0, &was));
	return tutti_win_free(win);
}

/* Ranks of several hosts have none: the error names one, and the next collective works. */
static int hosts_body(struct mp_job *job)
{
	struct tutti_win *win = NULL;
	struct tutti_comm *host;
	void *base = NULL;

	MP_ERR(tutti_win_allocate_shared(job->world, 64, 0, &base, &win), -EINVAL);
	MP_SAID("tutti_comm_split_host");
	TT_EXPECT(!win && !base);
	MP_OK(tutti_comm_split_host(job->world, 0, &host));
	MP_OK(tutti_win_allocate_shared(host, 64, 0, &base, &win));
	MP_OK(tutti_win_free(win));
	MP_OK(tutti_comm_free(host));
	return 0;
}

/* The pool does not give out [p, p + size) again: other ranks may still write there. */
static int kept(struct mp_job *job, const char *p, size_t size)
{
	enum { BLOCKS = 200 };
	char *block[BLOCKS];
	int i;

	for (i = 0; i < BLOCKS; i++) {
		MP_OK(tutti_alloc(job->ctx, size, (void **)&block[i]));
		TT_EXPECT(block[i] + size <= p || block[i] >= p + size);
	}
	for (i = 0; i < BLOCKS; i++)
		MP_OK(tutti_free(block[i]));
	return 0;
}

/*
 * After a death the parts can still be loaded and stored, and the windows can be freed; ranks that
 * have not heard of the death may still put.
 */
static int dead_body(struct mp_job *job)
{
	struct tutti_win *win, *plain;
	char *mine, *its, *own;
	size_t size;
	int err = 0;

	MP_OK(tutti_win_allocate_shared(job->world, 100, 0, (void **)&mine, &win));
	MP_OK(tutti_win_shared_query(win, 0, (void **)&its, &size));
	MP_OK(tutti_win_allocate(job->world, 100, 0, (void **)&own, &plain));
	MP_OK(tutti_put(plain, 0, &err, sizeof(err), 8 * (uint64_t)job->rank));
	MP_OK(tutti_win_flush(plain, 0));
	mp_meet(job);
	if (job->rank == 0)
		kill(getpid(), SIGKILL);
	do
		err = tutti_barrier(job->world);
	while (!err);
	TT_EXPECT(err == -TUTTI_EPEER || err == -TUTTI_EABORTED);
	MP_ERR(tutti_put(plain, 0, mine, 1, 0), err);
	MP_ERR(tutti_get(plain, 1, mine, 1, 0), err);
	its[99] = 1;
	TT_EXPECT(its[99] == 1);
	TT_EXPECT(tutti_win_free(win) < 0 && tutti_win_free(plain) < 0);
	TT_EXPECT(!kept(job, mine, 100) && !kept(job, own, 100));
	mp_leave(job);
	return 0;
}

/* A tolerant communicator: after a death, puts to that rank fail, and others work. */
static int tolerant_body(struct mp_job *job)
{
	struct tutti_comm_config how = {.size = sizeof(how), .flags = TUTTI_COMM_TOLERANT};
	int err, to, other = job->rank == 1 ? 2 : 1;
	char *mine, word[8] = "a word", got[8];
	struct tutti_comm *comm;
	uint64_t old;
	struct tutti_win *win;

	MP_OK(tutti_comm_create(job->world, &how, &comm));
	MP_OK(tutti_win_allocate(comm, 100, 0, (void **)&mine, &win));
	for (to = 0; to < job->n; to++)
		MP_OK(tutti_put(win, to, word, 8, 8 * (uint64_t)job->rank));
	MP_OK(tutti_win_flush_all(win));
	MP_OK(tutti_fetch_add(win, 0, 1, 64, &old));
	mp_meet(job);
	if (job->rank == 0)
		kill(getpid(), SIGKILL);
	do {
		err = tutti_put(win, 0, word, 8, 0);
		if (!err)
			err = tutti_win_flush(win, 0);
	} while (!err);
	TT_EXPECT(err == -TUTTI_EPEER);
	MP_ERR(tutti_put(win, 0, word, 8, 0), -TUTTI_EPEER);
	MP_ERR(tutti_get(win, 0, got, 8, 0), -TUTTI_EPEER);
	MP_ERR(tutti_fetch_add(win, 0, 1, 0, &old), -TUTTI_EPEER);
	MP_OK(tutti_put(win, other, "further", 8, 40 + 8 * (uint64_t)job->rank));
	MP_OK(tutti_win_flush(win, other));
	MP_OK(tutti_get(win, other, got, 8, 40 + 8 * (uint64_t)job->rank));
	MP_OK(tutti_win_flush(win, other));
	TT_EXPECT(!strcmp(got, "further"));
	MP_OK(tutti_sendrecv(word, 8, TUTTI_UINT8, other, 0, got, 8, TUTTI_UINT8, other, 0, comm,
			     NULL)); /* both have put */
	mp_leave(job);
	return 0;
}

/* Statistics count the bytes of puts and gets exactly, while a window is open and after that. */
static int counted_body(struct mp_job *job)
{
	struct tutti_stats a = {.size = sizeof(a)}, b = {.size = sizeof(b)};
	struct tutti_win *win[2];
	char *mine[2], buf[300];
	int i, w, to, exact = 0;

	for (w = 0; w < 2; w++)
		MP_OK(tutti_win_allocate(job->world, 300, 0, (void **)&mine[w], &win[w]));
	memset(buf, 1, sizeof(buf));
	for (i = 0; i < 5; i++) {
		MP_OK(tutti_stats_get(job->ctx, &a));
		for (w = 0; w < 2; w++)
			for (to = 0; to < job->n; to++) {
				MP_OK(tutti_put(win[w], to, buf, 200, 0));
				MP_OK(tutti_put(win[w], to, buf, 100, 200));
				MP_OK(tutti_get(win[w], to, buf, 70, 30));
			}
		MP_OK(tutti_stats_get(job->ctx, &b));
		/* a thread of the library may send something else in between */
		TT_EXPECT(b.put_bytes - a.put_bytes >= 600u * (unsigned)job->n);
		exact += b.put_bytes - a.put_bytes == 600u * (unsigned)job->n;
		TT_EXPECT(b.got_bytes - a.got_bytes == 140u * (unsigned)job->n);
	}
	TT_EXPECT(exact);
	MP_OK(tutti_win_free(win[0]));
	MP_OK(tutti_win_free(win[1]));
	MP_OK(tutti_stats_get(job->ctx, &b));
	TT_EXPECT(b.put_bytes - a.put_bytes >= 600u * (unsigned)job->n);
	TT_EXPECT(b.got_bytes - a.got_bytes == 140u * (unsigned)job->n);
	return 0;
}

/* Atomics of all ranks on one word, in memory that they map; exact, and the old values, too. */
static int words_body(struct mp_job *job)
{
	enum { ROUNDS = 40000 };
	uint64_t *mine, old, want, last = 0, sum = 0, n = (uint64_t)job->n * ROUNDS;
	struct tutti_win *win;
	int i;

	MP_OK(tutti_win_allocate(job->world, 64, 0, (void **)&mine, &win));
	for (i = 0; i < ROUNDS; i++) {
		if (i % 200 == 0) /* all at once, again and again */
			MP_OK(tutti_barrier(job->world));
		MP_OK(tutti_fetch_add(win, 0, 1, 8, &old));
		TT_EXPECT(!i || old > last);
		last = old;
		sum += old;
		for (want = 0;; want = old) { /* which another rank has changed meanwhile */
			MP_OK(tutti_compare_swap(win, 0, want, want + 3, 24, &old));
			if (old == want)
				break;
		}
	}
	TT_EXPECT(win->maps[0].reached);
	MP_OK(tutti_barrier(job->world));
	TT_EXPECT(job->rank || (mine[1] == n && mine[3] == 3 * n));
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &sum, 1, TUTTI_UINT64, TUTTI_SUM, job->world));
	TT_EXPECT(sum == n * (n - 1) / 2);
	MP_OK(tutti_win_free(win));
	return 0;
}

#define SMALL 32 /* windows */

/* Of pool memory: a sanitizer maps for itself. Negative: unknown. */
static int mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0;

	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f))
		n += strstr(line, "/memfd:tutti-pool") != NULL;
	fclose(f);
	return n;
}

/* The memory of another rank is mapped once, by copies or by the transport, until it is freed. */
static int mapped_body(struct mp_job *job)
{
	int before = mappings(), other = !job->rank, notify, i, k;
	struct tutti_win *win[SMALL];
	void *mine;

	TT_EXPECT(before >= 0);
	for (notify = 0; notify < 2; notify++) {
		for (i = 0; i < SMALL; i++) {
			MP_OK(tutti_win_allocate(job->world, 8, 0, &mine, &win[i]));
			for (k = 0; k < 3; k++)
				MP_OK((notify ? tutti_put_notify : tutti_put)(win[i], other, "word",
									      5, 0));
			MP_OK(tutti_win_flush(win[i], other));
		}
		TT_EXPECT(mappings() < before + SMALL + SMALL / 2);
		MP_OK(tutti_barrier(job->world));
		for (i = 0; i < SMALL; i++)
			MP_OK(tutti_win_free(win[i]));
		if (!notify)
			TT_EXPECT(mappings() < before + SMALL / 2);
	}
	return 0;
}

/* The library's view of an open window: whether it copies to that rank, and where it marks that. */
static _Atomic uint32_t *mark_of(const struct tutti_win *win, int rank)
{
	return win->maps[rank].reached ? win->maps[rank].mark : NULL;
}

/*
 * More windows than marks, one of which is the context's: no two have the same, some go by the
 * transport, and every put lands. A mark that a window gives back is used again.
 */
static int marks_body(struct mp_job *job)
{
	enum { WINDOWS = TT_TP_COPYING + 3 };
	static struct tutti_win *win[WINDOWS];
	static int *mine[WINDOWS];
	int other = !job->rank, i, k, value, without = 0;

	for (i = 0; i < WINDOWS; i++) {
		value = 10 * i + job->rank;
		MP_OK(tutti_win_allocate(job->world, 8, 0, (void **)&mine[i], &win[i]));
		MP_OK(tutti_put(win[i], other, &value, sizeof(value), 0));
		MP_OK(tutti_win_flush(win[i], other));
		without += !mark_of(win[i], other);
		for (k = 0; k < i; k++)
			TT_EXPECT(!mark_of(win[i], other) ||
				  mark_of(win[i], other) != mark_of(win[k], other));
	}
	TT_EXPECT(without == 4);
	MP_OK(tutti_barrier(job->world));
	for (i = 0; i < WINDOWS; i++)
		TT_EXPECT(*mine[i] == 10 * i + other);
	MP_OK(tutti_win_free(win[7]));
	MP_OK(tutti_win_allocate(job->world, 8, 0, (void **)&mine[7], &win[7]));
	MP_OK(tutti_put(win[7], other, &value, sizeof(value), 0));
	TT_EXPECT(mark_of(win[7], other) != NULL);
	for (i = 0; i < WINDOWS; i++)
		MP_OK(tutti_win_free(win[i]));
	return 0;
}

static void run(const char *env)
{
	bool few = mp_few_sizes(env);
	int n;

	for (n = few ? 3 : 1; n <= (few ? 3 : 4); n++) {
		int failed = MP_RUN(.n = n, .env = env, .fn = allocate_body) +
			     MP_RUN(.n = n, .env = env, .fn = shared_body);

		if (failed)
			fprintf(stderr, "%d ranks, %s\n", n, env);
		TT_CHECK(!failed);
	}
	TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = dead_body, .killed = 1));
	TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = tolerant_body, .killed = 1));
}

static void shm(void)
{
	static int how[] = {0, 1, 2, 3};
	int i;

	run("TUTTI_TRANSPORT=shm");
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm", .fn = counted_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm", .fn = mapped_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm", .fn = marks_body));
	TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_TRANSPORT=shm", .fn = words_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm", .fn = unmapped_body));
	for (i = 0; i < 4; i++)
		TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm", .fn = no_files_body,
				 .no_init = true, .arg = &how[i]));
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	run("TUTTI_TRANSPORT=ofi TUTTI_IF=lo");
	TT_CHECK(!MP_RUN(.n = 4, .fn = hosts_body,
			 .env = "TUTTI_TRANSPORT=shm,ofi TUTTI_IF=lo TUTTI_HOST_ID=h%h"));
}

static void verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	run("TUTTI_TRANSPORT=verbs TUTTI_TIMEOUT=30s");
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"shm", shm}, {"crossing", crossing}, {"ofi", ofi}, {"verbs", verbs}, {NULL, NULL}};

	return tt_test_main("allocate", tests, argc, argv);
}
