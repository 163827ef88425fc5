/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A waiting thread does not go to sleep while an operation of its own process can advance: the
 * counter of such sleeps stays 0 for every kind of wait.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>

#include "lib/engine/engine.h"
#include "lib/wire/wire_internal.h"

#define ROWS 40000
#define WIDTH 4
#define ELEMS (1 << 20)
#define BYTES ((size_t)4 << 20)
#define ROUNDS 3

static int late_sleeps(struct mp_job *job, uint64_t *n)
{
	struct tutti_stats s = {.size = sizeof(s)};

	MP_OK(tutti_stats_get(job->ctx, &s));
	*n = s.late_sleeps;
	return 0;
}

/* Since the process began. */
static int none_was_late(struct mp_job *job)
{
	uint64_t n;

	TT_EXPECT(!late_sleeps(job, &n));
	if (n)
		fprintf(stderr, "rank %d slept %llu times while it could go on\n", job->rank,
			(unsigned long long)n);
	TT_EXPECT(!n);
	return 0;
}

static int work(struct mp_job *job, struct tutti_ps *ps, struct tutti_ps_table *rows,
		struct tutti_ps_table *dense)
{
	uint64_t *key = malloc(ROWS * sizeof(*key));
	float *v = calloc(ELEMS, sizeof(*v));
	int i;

	for (i = 0; i < ROWS; i++)
		key[i] = (uint64_t)i * 7919;
	for (i = 0; i < ROUNDS; i++) {
		MP_OK(tutti_ps_pull_rows(rows, key, ROWS, v, TUTTI_FLOAT32));
		MP_OK(tutti_ps_push_rows(rows, key, ROWS / 4, v, TUTTI_FLOAT32));
		MP_OK(tutti_ps_push(dense, v, 0, ELEMS, TUTTI_FLOAT32));
		MP_OK(tutti_ps_pull(dense, v, 0, ELEMS, TUTTI_FLOAT32));
		MP_OK(tutti_ps_clock(ps));
	}
	free(key);
	free(v);
	return 0;
}

static int ps_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {
		.size = sizeof(opt), .init = TUTTI_PS_ZERO, .essp = *(const int *)job->arg};
	struct tutti_ps_table *rows, *dense;
	struct tutti_ps *ps;
	int err = 0;

	MP_OK(mp_ps_open(job, job->n - 1, 1, &ps));
	MP_OK(tutti_ps_rows(ps, "rows", WIDTH, ROWS, TUTTI_FLOAT32, &opt, &rows));
	MP_OK(tutti_ps_dense(ps, "dense", ELEMS, TUTTI_FLOAT32, &opt, &dense));
	if (job->rank == job->n - 1)
		err = work(job, ps, rows, dense);
	MP_OK(tutti_ps_close(ps));
	return err || none_was_late(job);
}

static void ps_pulls(void)
{
	int essp;

	for (essp = 0; essp < 2; essp++) {
		TT_CHECK(!MP_RUN(.n = 2, .fn = ps_body, .arg = &essp));
		TT_CHECK(!MP_RUN(.n = 3, .fn = ps_body, .arg = &essp)); /* two servers */
	}
}

static int windows_body(struct mp_job *job)
{
	int next = (job->rank + 1) % job->n, i;
	struct tutti_request *req[4];
	struct tutti_win *win;
	uint64_t old;
	char *mem, *v;

	MP_OK(tutti_alloc(job->ctx, 4 * BYTES, (void **)&mem));
	MP_OK(tutti_alloc(job->ctx, 4 * BYTES, (void **)&v));
	MP_OK(tutti_win_create(job->world, mem, 4 * BYTES, 0, &win));
	for (i = 0; i < 4; i++)
		MP_OK(tutti_iput(win, next, v + (size_t)i * BYTES, BYTES, (uint64_t)i * BYTES,
				 &req[i]));
	MP_OK(tutti_waitall(4, req));
	MP_OK(tutti_win_flush_all(win));
	MP_OK(tutti_barrier(job->world));
	for (i = 0; i < 4; i++)
		MP_OK(tutti_iget(win, next, v + (size_t)i * BYTES, BYTES, (uint64_t)i * BYTES,
				 &req[i]));
	MP_OK(tutti_waitall(4, req));
	for (i = 0; i < 100; i++)
		MP_OK(tutti_fetch_add(win, next, 1, 0, &old));
	MP_OK(tutti_win_free(win));
	MP_OK(tutti_free(v));
	MP_OK(tutti_free(mem));
	return none_was_late(job);
}

static int messages_body(struct mp_job *job)
{
	int next = (job->rank + 1) % job->n, prev = (job->rank + job->n - 1) % job->n, i;
	char *v = calloc(2, BYTES);

	for (i = 0; i < 5; i++) {
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, v, BYTES / 4, TUTTI_FLOAT32, TUTTI_SUM,
				      job->world));
		MP_OK(tutti_sendrecv(v, BYTES, TUTTI_UINT8, next, 1, v + BYTES, BYTES, TUTTI_UINT8,
				     prev, 1, job->world, NULL));
	}
	free(v);
	return none_was_late(job);
}

static void windows(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .fn = windows_body));
	TT_CHECK(!MP_RUN(.n = 3, .fn = messages_body));
}

static void over_ofi(void)
{
	int essp = 0;

	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 2, .fn = ps_body, .arg = &essp, .env = "TUTTI_TRANSPORT=ofi"));
	TT_CHECK(!MP_RUN(.n = 3, .fn = windows_body, .env = "TUTTI_TRANSPORT=ofi"));
	TT_CHECK(!MP_RUN(.n = 3, .fn = messages_body, .env = "TUTTI_TRANSPORT=ofi TUTTI_NODE=off"));
}

/* ---- the library's threads sleep between events, as where another thread needs their core ---- */

static int crowded_body(struct mp_job *job)
{
	int essp = 0, err;

	atomic_store(&job->ctx->crowded_until, UINT64_MAX);
	job->arg = &essp;
	err = windows_body(job);
	if (!err)
		err = messages_body(job);
	return err ? err : ps_body(job);
}

static void crowded(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = crowded_body, .env = "TUTTI_PROGRESS=thread"));
	TT_CHECK(
		!MP_RUN(.n = 3, .fn = crowded_body, .env = "TUTTI_PROGRESS=thread TUTTI_NODE=off"));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 3, .fn = crowded_body,
				 .env = "TUTTI_PROGRESS=thread TUTTI_TRANSPORT=ofi"));
}

/* ---- the start of a long collective is left to the progress thread ---- */

/* Puts all threads of this process on one core; 0: done. */
static int use_one_core(void)
{
	DIR *dir = opendir("/proc/self/task");
	int cpu = sched_getcpu(), err = !dir || cpu < 0;
	struct dirent *d;
	cpu_set_t set;

	CPU_ZERO(&set);
	if (!err)
		CPU_SET((size_t)cpu, &set);
	while (!err && (d = readdir(dir)))
		if (d->d_name[0] != '.')
			err = sched_setaffinity(atoi(d->d_name), sizeof(set), &set);
	if (dir)
		closedir(dir);
	return err;
}

/* From now on this thread does or does not run before all others of its core; 0: done. */
static int go_first(bool on)
{
	struct sched_param param = {.sched_priority = on};

	return sched_setscheduler(0, on ? SCHED_FIFO : SCHED_OTHER, &param);
}

static int messages_so_far(struct mp_job *job, uint64_t *n)
{
	struct tutti_stats s = {.size = sizeof(s)};

	MP_OK(tutti_stats_get(job->ctx, &s));
	*n = s.eager_messages + s.put_messages + s.control_messages;
	return 0;
}

/*
 * After a pause, in which the progress thread has gone to sleep; it cannot run meanwhile. *sent:
 * the messages of the start. *woken: whether it has woken the thread at once, although there is a
 * timer for that.
 */
static int start_sum(struct mp_job *job, float *v, size_t count, struct tutti_request **req,
		     uint64_t *sent, bool *woken)
{
	const struct tt_wire *wire = job->ctx->wire;
	uint64_t before;

	mp_meet(job);
	mp_sleep_ms(75);
	TT_EXPECT(!go_first(true));
	*woken = wire->soon_fd >= 0 && !atomic_load(&wire->signalled);
	TT_EXPECT(!messages_so_far(job, &before));
	MP_OK(tutti_iallreduce(TUTTI_IN_PLACE, v, count, TUTTI_FLOAT32, TUTTI_MAX, job->world,
			       req));
	*woken = *woken && atomic_load(&wire->signalled);
	TT_EXPECT(!messages_so_far(job, sent));
	TT_EXPECT(!go_first(false));
	*sent -= before;
	return 0;
}

/* Ends the all-reduce without a call. */
static int ends(struct mp_job *job, const volatile float *last, struct tutti_request **req)
{
	int waited = 0;

	while (*last != (float)job->n && waited++ < MP_HANG_MS)
		mp_sleep_ms(1);
	MP_OK(tutti_wait(req));
	TT_EXPECT(*last == (float)job->n && waited < MP_HANG_MS);
	return 0;
}

/*
 * A short call is started at once. A long one is not, but where this thread has to wait for the
 * lock because the other one has just woken. The thread would take the core from a start that wakes
 * it: it wakes later.
 */
static int left_body(struct mp_job *job)
{
	struct tutti_request *req;
	uint64_t sent, least = UINT64_MAX;
	size_t i, count = BYTES / 4;
	bool woken;
	float *v;

	MP_OK(tutti_alloc(job->ctx, BYTES, (void **)&v));
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, v, 2, TUTTI_FLOAT32, TUTTI_SUM, job->world));
	if (use_one_core() || go_first(true) || go_first(false)) {
		*(bool *)job->arg = true;
		return 0;
	}
	TT_EXPECT(!start_sum(job, v, 2, &req, &sent, &woken));
	TT_EXPECT(sent);
	MP_OK(tutti_wait(&req));
	for (i = 0; i < 5; i++) {
		v[count - 1] = (float)job->rank + 1;
		TT_EXPECT(!start_sum(job, v, count, &req, &sent, &woken));
		TT_EXPECT(!woken);
		TT_EXPECT(!ends(job, &v[count - 1], &req));
		least = sent < least ? sent : least;
	}
	TT_EXPECT(!least);
	TT_EXPECT(job->ctx->wire->soon_fd >= 0); /* it was needed */
	MP_OK(tutti_free(v));
	return none_was_late(job);
}

static void left(void)
{
	bool *forbidden = mp_shared_mem(sizeof(*forbidden));

	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 2, .fn = left_body, .arg = forbidden,
			 .env = "TUTTI_TRANSPORT=ofi TUTTI_NODE=off TUTTI_PROGRESS=thread"));
	if (*forbidden)
		TT_SKIP("no real-time class for this user");
	munmap(forbidden, sizeof(*forbidden));
}

/* ---- the progress thread stays away while its rank makes calls ---- */

#define EXCHANGE_S 0.3

/* Seconds that the thread has had a processor. */
static double spent(pthread_t thread)
{
	struct timespec t = {0};
	clockid_t clock;

	if (!pthread_getcpuclockid(thread, &clock))
		clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int exchange(struct mp_job *job)
{
	int next = (job->rank + 1) % job->n, prev = (job->rank + job->n - 1) % job->n, i;
	char in[8], out[8] = "";

	for (i = 0; i < 500; i++)
		MP_OK(tutti_sendrecv(out, sizeof(out), TUTTI_UINT8, next, 1, in, sizeof(in),
				     TUTTI_UINT8, prev, 1, job->world, NULL));
	return 0;
}

/* Of the time of many short messages the thread takes a small part. */
static int exchanges_body(struct mp_job *job)
{
	double before, begin = mp_now(), took = 0, ran;

	TT_EXPECT(job->ctx->thread_runs);
	before = spent(job->ctx->thread);
	while (took < EXCHANGE_S) {
		TT_EXPECT(!exchange(job));
		took = mp_now() - begin;
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &took, 1, TUTTI_FLOAT64, TUTTI_MAX,
				      job->world));
	}
	ran = spent(job->ctx->thread) - before;
	if (ran > took / 4)
		fprintf(stderr, "rank %d: the thread ran for %.3f of %.3f s\n", job->rank, ran,
			took);
	TT_EXPECT(ran <= took / 4);
	return none_was_late(job);
}

static void naps(void)
{
	TT_CHECK(!MP_RUN(.n = 1, .fn = exchanges_body, .env = "TUTTI_PROGRESS=thread"));
	TT_CHECK(!MP_RUN(.n = 2, .fn = exchanges_body,
			 .env = "TUTTI_TRANSPORT=shm TUTTI_PROGRESS=thread"));
}

/* ---- a pull is left to the progress thread while it sleeps ---- */

#define AWAY_S 0.02 /* less than is left of a sleep */

/*
 * After a pause, in which the thread has gone to sleep; makes no call until the pull has ended.
 * *least: of all so far.
 */
static int pull_away(struct mp_job *job, struct tutti_ps_table *dense, float *v, double *least)
{
	struct tutti_request *req;
	double took, begin;
	int waited = 0;

	mp_sleep_ms(60);
	begin = mp_now();
	MP_OK(tutti_ps_ipull(dense, v, 0, ELEMS, TUTTI_FLOAT32, &req));
	while (!tt_request_finished(req) && waited++ < MP_HANG_MS)
		mp_sleep_ms(1);
	took = mp_now() - begin;
	*least = took < *least ? took : *least;
	MP_OK(tutti_wait(&req));
	TT_EXPECT(waited < MP_HANG_MS);
	return 0;
}

static int away_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	bool is_worker = job->rank == job->n - 1;
	struct tutti_ps_table *dense;
	struct tutti_ps *ps;
	float *v = calloc(ELEMS, sizeof(*v));
	double least = AWAY_S * is_worker;
	int i, err = 0;

	MP_OK(mp_ps_open(job, job->n - 1, 1, &ps));
	MP_OK(tutti_ps_dense(ps, "dense", ELEMS, TUTTI_FLOAT32, &opt, &dense));
	if (is_worker)
		MP_OK(tutti_ps_pull(dense, v, 0, ELEMS, TUTTI_FLOAT32));
	for (i = 0; i < 8 && least == AWAY_S && !err; i++)
		err = pull_away(job, dense, v, &least);
	MP_OK(tutti_ps_close(ps));
	free(v);
	TT_EXPECT(least < AWAY_S);
	return err || none_was_late(job);
}

static void away(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = away_body,
			 .env = "TUTTI_TRANSPORT=shm TUTTI_PROGRESS=thread"));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"ps", ps_pulls}, {"windows", windows}, {"ofi", over_ofi},    {"left", left},
		{"naps", naps},	  {"away", away},	{"crowded", crowded}, {NULL, NULL}};

	return tt_test_main("waits", tests, argc, argv);
}
