/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank learns of a death after the others: they have given up their collectives in shared memory
 * when it comes to its part of them. The rank must not take a rank that lives for lost.
 *
 * The last ranks die while rank LATE, which all others wait for, is in a user-defined operator and
 * keeps its control thread from handling the news. When the others have ended their collectives,
 * the operator returns, and LATE goes on with all of its collectives before it hears the news.
 */
#include "config.h"

#include "tests/fault/survive.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define LATE 2
#define ROUNDS 30 /* of ROUND_MS: a verdict about a lost connection takes 1 s */
#define ROUND_MS 60
#define MESSAGES 3  /* fewer than the receiver has slots */
#define COUNT 12000 /* elements: longer than the slot of a rank in shared memory */
#define SHORT 1000  /* shorter */

/* Of the shared words. */
enum { STARTED = 1, INSIDE, ENDED };

struct death {
	int n, victims; /* the last ranks */
};

/* Each twice: in memory from tutti_alloc, and from malloc. */
static const enum tutti_coll kind[] = {TUTTI_COLL_ALLREDUCE, TUTTI_COLL_BCAST,
				       TUTTI_COLL_REDUCE,    TUTTI_COLL_REDUCE_SCATTER_BLOCK,
				       TUTTI_COLL_ALLGATHER, TUTTI_COLL_GATHER,
				       TUTTI_COLL_SCATTER,   TUTTI_COLL_ALLTOALL,
				       TUTTI_COLL_SCAN,	     TUTTI_COLL_ALLREDUCE,
				       TUTTI_COLL_ALLREDUCE};

enum { NKIND = sizeof(kind) / sizeof(kind[0]), KINDS = 2 * NKIND };

struct work {
	struct mp_job *job;
	const struct death *death;
	struct tutti_comm *tolerant, *pair; /* pair: LATE and the rank before it */
	struct tutti_win *win;
	uint64_t *mem; /* by origin: its last round */
	struct tutti_request *gate;
	int32_t gate_buf[SHORT];
	struct tutti_comm *comm[KINDS]; /* each kind has its own, as its operations come in order */
	struct tutti_request *req[KINDS];
	int32_t *in[KINDS], *out[KINDS];
};

static int alive(const struct work *w)
{
	return w->death->n - w->death->victims;
}

static int32_t *buffer(struct work *w, bool pool, size_t count)
{
	void *p = NULL;

	if (!pool)
		return calloc(count, sizeof(int32_t));
	if (tutti_alloc(w->job->ctx, count * sizeof(int32_t), &p))
		return NULL;
	memset(p, 0, count * sizeof(int32_t));
	return p;
}

/* The second last is short, the last persistent. */
static int start_kind(struct work *w, int k)
{
	int i = k % NKIND;
	bool rooted = kind[i] == TUTTI_COLL_REDUCE || kind[i] == TUTTI_COLL_GATHER;
	bool reduces = kind[i] == TUTTI_COLL_ALLREDUCE || kind[i] == TUTTI_COLL_REDUCE ||
		       kind[i] == TUTTI_COLL_REDUCE_SCATTER_BLOCK || kind[i] == TUTTI_COLL_SCAN;
	struct tutti_call call = {.size = sizeof(call),
				  .coll = kind[i],
				  .sendbuf = w->in[k],
				  .recvbuf = w->out[k],
				  .count = i == NKIND - 2 ? SHORT : COUNT,
				  .datatype = TUTTI_INT32,
				  .op = reduces ? TUTTI_SUM : 0,
				  .root = rooted ? LATE : 0};

	if (kind[i] == TUTTI_COLL_BCAST)
		call.sendbuf = NULL;
	if (i == NKIND - 1 && !w->req[k]) {
		call.flags = TUTTI_CALL_PERSISTENT;
		return tutti_call(w->comm[k], &call, &w->req[k]);
	}
	return i == NKIND - 1 ? tutti_start(w->req[k]) : tutti_call(w->comm[k], &call, &w->req[k]);
}

/* Sleeps at LATE, under the lock of the context, until the other ranks have ended their
 * collectives. */
static void slow_sum(const void *a, void *b, size_t count, enum tutti_datatype type, void *arg)
{
	struct work *w = arg;
	const int32_t *x = a;
	int32_t *y = b;
	size_t i;

	(void)type;
	for (i = 0; i < count; i++)
		y[i] += x[i];
	if (w->job->rank != LATE)
		return;
	atomic_store(&w->job->shared->word[INSIDE], 1);
	mp_await(&w->job->shared->word[ENDED], alive(w) - 1, 20000);
}

static int open_comms(struct work *w)
{
	struct tutti_comm_config how = {.size = sizeof(how), .flags = TUTTI_COMM_TOLERANT};
	struct mp_job *job = w->job;
	bool paired = job->rank == LATE || job->rank == LATE - 1;
	int k;

	w->tolerant = job->world;
	if (!getenv("TUTTI_TOLERANT"))
		MP_OK(tutti_comm_create(job->world, &how, &w->tolerant));
	MP_OK(tutti_comm_split(w->tolerant, paired ? 1 : TUTTI_UNDEFINED, 0, &w->pair));
	MP_OK(tutti_win_allocate(w->tolerant, MP_MAX * sizeof(*w->mem), 0, (void **)&w->mem,
				 &w->win));
	memset(w->mem, 0, MP_MAX * sizeof(*w->mem));
	for (k = 0; k < KINDS; k++) {
		w->comm[k] = w->tolerant; /* the first: also the window's */
		if (k)
			MP_OK(tutti_comm_dup(w->tolerant, &w->comm[k]));
		w->in[k] = buffer(w, k < NKIND, (size_t)COUNT * (size_t)job->n);
		w->out[k] = buffer(w, k < NKIND, (size_t)COUNT * (size_t)job->n);
		TT_EXPECT(w->in[k] && w->out[k]);
		if (k % NKIND == NKIND - 1)
			MP_OK(start_kind(w, k)); /* makes it */
		MP_OK(start_kind(w, k));
		MP_OK(tutti_wait(&w->req[k]));
		MP_OK(tutti_barrier(w->comm[k]));
	}
	return 0;
}

static int start_all(struct work *w)
{
	struct mp_job *job = w->job;
	struct tutti_call gate = {.size = sizeof(gate),
				  .coll = TUTTI_COLL_ALLREDUCE,
				  .sendbuf = TUTTI_IN_PLACE,
				  .recvbuf = w->gate_buf,
				  .count = SHORT,
				  .datatype = TUTTI_INT32,
				  .priority = 1};
	enum tutti_op op;
	int k, i, done;

	MP_OK(tutti_op_create(job->ctx, slow_sum, w, 1, &op));
	gate.op = op;
	if (job->rank == LATE && !mp_await(&job->shared->word[STARTED], job->n - 1, 20000))
		return 1;
	MP_OK(tutti_group_start());
	if (w->pair)
		MP_OK(tutti_call(w->pair, &gate, &w->gate));
	for (k = 0; k < KINDS; k++)
		MP_OK(start_kind(w, k));
	MP_OK(tutti_group_end());
	for (k = 0; job->rank != LATE && k < KINDS; k++)
		for (i = 0; i < 2; i++)
			MP_OK(tutti_test(&w->req[k], &done));
	atomic_fetch_add(&job->shared->word[STARTED], 1);
	return 0;
}

static int end_all(struct work *w)
{
	struct mp_job *job = w->job;
	int k, err, lost = 0;

	for (k = 0; k < KINDS; k++) {
		err = tutti_wait(&w->req[k]);
		lost += err == -TUTTI_EPEER;
		if (err && err != -TUTTI_EPEER)
			MP_OK(err);
	}
	atomic_fetch_add(&job->shared->word[ENDED], 1);
	TT_EXPECT(lost > KINDS / 2);
	if (w->gate)
		MP_OK(tutti_wait(&w->gate));
	return 0;
}

/* Puts, gets and messages between all ranks that live. */
static int round_with(struct work *w, int r, uint64_t round)
{
	struct mp_job *job = w->job;
	uint64_t mine = round, got = 0, in = 0;
	struct tutti_request *send;

	MP_OK(tutti_put(w->win, r, &mine, sizeof(mine), (uint64_t)job->rank * 8));
	MP_OK(tutti_win_flush(w->win, r));
	MP_OK(tutti_get(w->win, r, &got, sizeof(got), (uint64_t)job->rank * 8));
	MP_OK(tutti_win_flush(w->win, r));
	TT_EXPECT(got == round);
	MP_OK(tutti_isend(&mine, 1, TUTTI_UINT64, r, (int)round, w->tolerant, &send));
	MP_OK(tutti_recv(&in, 1, TUTTI_UINT64, r, (int)round, w->tolerant, NULL));
	MP_OK(tutti_wait(&send));
	TT_EXPECT(in == round);
	return 0;
}

static int go_on(struct work *w)
{
	struct tutti_comm_state state = {.size = sizeof(state)};
	struct mp_job *job = w->job;
	uint64_t all = 1;
	int i, r;

	for (i = 1; i <= ROUNDS; i++) {
		for (r = 0; r < alive(w); r++)
			TT_EXPECT(!round_with(w, r, (uint64_t)i));
		if (!job->rank) /* the others wait for it: timers run */
			mp_sleep_ms(ROUND_MS);
	}
	MP_OK(tutti_comm_agree(w->tolerant, TUTTI_BAND, &all));
	MP_OK(tutti_comm_state(w->tolerant, &state));
	TT_EXPECT(!state.code && state.coll_code == -TUTTI_EPEER);
	TT_EXPECT(state.failed == w->death->victims);
	return 0;
}

static int close_all(struct work *w)
{
	struct mp_job *job = w->job;
	struct tutti_comm *comm;
	int k;

	MP_OK(tutti_comm_shrink(w->tolerant, &comm));
	TT_EXPECT(!check_sum(job, comm, (1u << alive(w)) - 1));
	for (k = NKIND - 1; k < KINDS; k += NKIND)
		MP_OK(tutti_request_free(w->req[k]));
	for (k = NKIND; k < KINDS; k++) {
		free(w->in[k]);
		free(w->out[k]);
	}
	MP_ERR(tutti_win_free(w->win), -TUTTI_EPEER);
	MP_OK(tutti_barrier(comm));
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

static int late_body(struct mp_job *job)
{
	static struct work w;

	w.job = job;
	w.death = job->arg;
	TT_EXPECT(!open_comms(&w));
	TT_EXPECT(!start_all(&w));
	if (job->rank >= alive(&w)) {
		mp_await(&job->shared->word[INSIDE], 1, 20000);
		kill(getpid(), SIGKILL);
	}
	TT_EXPECT(!end_all(&w));
	TT_EXPECT(!go_on(&w));
	TT_EXPECT(!close_all(&w));
	return 0;
}

static void run_death(const char *env, struct death d)
{
	unsigned killed = ((1u << d.victims) - 1) << (d.n - d.victims);

	TT_CHECK(!MP_RUN(.n = d.n, .env = env, .fn = late_body, .arg = &d, .killed = killed,
			 .timeout_ms = 60000));
}

static void one(void)
{
	run_death("TUTTI_NODE=on", (struct death){.n = 4, .victims = 1});
}

static void two(void)
{
	run_death("TUTTI_NODE=on TUTTI_TOLERANT=1", (struct death){.n = 5, .victims = 2});
}

/*
 * Messages of a rank that dies afterwards; the receiver makes no call from before they are sent
 * until it has heard of the death.
 */
static int arrived_body(struct mp_job *job)
{
	atomic_int *ready = &job->shared->word[STARTED], *sent = &job->shared->word[INSIDE];
	int32_t i, x = job->rank;

	if (job->rank == 1) /* the connection is there */
		MP_OK(tutti_send(&x, 1, TUTTI_INT32, 0, 0, job->world));
	else
		MP_OK(tutti_recv(&x, 1, TUTTI_INT32, 1, 0, job->world, NULL));
	atomic_fetch_add(ready, 1);
	if (job->rank == 1) {
		mp_await(ready, 2, 20000);
		for (i = 1; i <= MESSAGES; i++)
			MP_OK(tutti_send(&i, 1, TUTTI_INT32, 0, 1, job->world));
		atomic_store(sent, 1);
		kill(getpid(), SIGKILL);
	}
	TT_EXPECT(mp_await(sent, 1, 20000));
	TT_EXPECT(mp_log_await(job, "rank 1 on host"));
	for (i = 1; i <= MESSAGES; i++) {
		MP_OK(tutti_recv(&x, 1, TUTTI_INT32, 1, 1, job->world, NULL));
		TT_EXPECT(x == i);
	}
	MP_ERR(tutti_recv(&x, 1, TUTTI_INT32, 1, 1, job->world, NULL), -TUTTI_EPEER);
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

static void arrived(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm TUTTI_TOLERANT=1", .fn = arrived_body,
			 .killed = 2, .timeout_ms = 60000));
}

/* The victim is alone on its host, or NUMA node; LATE shares one with a rank that lives. */
static void hosts(void)
{
	run_death("TUTTI_HOST_ID=%h", (struct death){.n = 5, .victims = 1});
}

static void numa(void)
{
	run_death("TUTTI_NUMA=%h", (struct death){.n = 5, .victims = 1});
}

/* ---- a connection that is refused before the death of the peer is known ---- */

#define DIES 1
#define DEAF 2

/* As when this process is gone. The transport's socket is newer than the control tree's. */
static bool stop_listening(void)
{
	int fd, listens, domain;

	for (fd = 1024; fd > STDERR_FILENO; fd--) {
		socklen_t len = sizeof(listens), dlen = sizeof(domain);

		if (!getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) && listens &&
		    !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &dlen) && domain != AF_UNIX)
			return !shutdown(fd, SHUT_RDWR);
	}
	return false;
}

/* A failed call names the rank; an unreachable rank that lives is no dead rank. */
static int says(struct mp_job *job, int err, int rank)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	char name[16];

	snprintf(name, sizeof(name), "rank %d", rank);
	tutti_last_error(&info);
	MP_ERR(err, rank == DIES ? -TUTTI_EPEER : -TUTTI_ETRANSPORT);
	TT_EXPECT(info.code == err && info.rank == rank && strstr(info.text, name));
	TT_EXPECT(rank == DIES || strstr(info.text, "refused"));
	return 0;
}

/* Each rank comes with another call. */
static int first_contact(struct mp_job *job, struct tutti_win *win, int rank)
{
	uint64_t x = 1, old;
	struct tutti_request *req = NULL;
	int err;

	if (job->rank == 3) {
		err = tutti_iput(win, rank, &x, sizeof(x), 0, &req);
		return says(job, err ? err : tutti_wait(&req), rank);
	}
	if (job->rank == 4)
		return says(job, tutti_put(win, rank, &x, sizeof(x), 0), rank);
	return says(job, tutti_fetch_add(win, rank, 1, 0, &old), rank);
}

static int refused_body(struct mp_job *job)
{
	atomic_int *ready = &job->shared->word[STARTED], *ended = &job->shared->word[ENDED];
	struct tutti_win *win;
	void *mem;

	mp_log_level(job, TUTTI_LOG_INFO);
	MP_OK(tutti_win_allocate(job->world, 8, 0, &mem, &win));
	mp_meet(job);
	if (job->rank == DIES || job->rank == DEAF)
		TT_EXPECT(stop_listening());
	mp_meet(job);
	if (job->rank == DIES) {
		mp_await(ready, 3, 20000);
		mp_sleep_ms(200); /* by then all three have been refused */
		kill(getpid(), SIGKILL);
	}
	if (job->rank <= DEAF) {
		mp_await(ended, 3, 20000);
	} else {
		TT_EXPECT(!mp_log_has(job, "rank 1 is reached"));
		TT_EXPECT(!mp_log_has(job, "rank 2 is reached"));
		atomic_fetch_add(ready, 1);
		TT_EXPECT(!first_contact(job, win, DIES));
		TT_EXPECT(!first_contact(job, win, DIES)); /* it is known now */
		TT_EXPECT(!first_contact(job, win, DEAF));
		atomic_fetch_add(ended, 1);
	}
	mp_leave_failed(job);
	return 0;
}

static void refused(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 6, .env = "TUTTI_TRANSPORT=ofi TUTTI_IF=lo TUTTI_TOLERANT=1",
			 .fn = refused_body, .killed = 1 << DIES, .timeout_ms = 60000));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"one", one},	      {"two", two},	    {"hosts", hosts}, {"numa", numa},
		{"arrived", arrived}, {"refused", refused}, {NULL, NULL}};

	return tt_test_main("late_news", tests, argc, argv);
}
