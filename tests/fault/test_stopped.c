/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Live ranks that answer nobody for a while: stopped, in the middle of a transfer too, or busy. One
 * that is stopped for longer than the limit of the heartbeats is taken for dead; one that is busy
 * lives.
 */
#include "config.h"

#include "lib/base/clock.h"
#include "lib/base/proc.h"
#include "lib/boot/control/control.h"
#include "lib/comm/comm.h"
#include "lib/engine/node/node_ops.h"
#include "lib/node/node_internal.h"
#include "lib/wire/wire_internal.h"
#include "tests/fault/survive.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define HALF " TUTTI_HEARTBEAT=100ms TUTTI_HEARTBEAT_LIMIT=500ms"

/* ---- stopped beyond the deadline of a call, and not for too long ---- */

struct unheard {
	int first;    /* this rank's call begins first, and ends first; -1: any */
	int after_ms; /* the other calls' begin */
	bool further; /* rank 0 is one call further: it waits for rank 1 */
	bool stream;  /* short calls that wait for no rank but one that is two calls behind */
	bool splits, layouts; /* other calls */
};

static int exchange_layouts(struct tutti_comm *comm)
{
	static float in[2000], out[2000];
	const struct tutti_layout one = {
		.size = sizeof(one), .datatype = TUTTI_FLOAT32, .count = 1, .block = 1000};
	const struct tutti_layout *layouts[] = {&one, &one};
	const size_t counts[] = {1, 1};
	const ptrdiff_t displs[] = {0, sizeof(in) / 2};

	return tutti_alltoallw(in, counts, displs, layouts, out, counts, displs, layouts, comm);
}

static int wait_for_others(struct mp_job *job, const struct unheard *u)
{
	static float in[100000], out[100000];
	struct tutti_comm *made;
	int err = 0, i;

	if (u->splits)
		return tutti_comm_split(job->world, 0, job->rank, &made);
	if (u->layouts)
		return exchange_layouts(job->world);

	for (i = 0; u->stream && i < 10 && !err; i++)
		err = tutti_bcast(in, 5000, TUTTI_FLOAT32, 0, job->world);
	if (u->stream)
		return err;
	if (!u->further)
		return tutti_allreduce(in, out, 100000, TUTTI_FLOAT32, TUTTI_SUM, job->world);
	err = tutti_gather(in, out, 1000, TUTTI_FLOAT32, 1, job->world);
	return err ? err : tutti_bcast(in, 1000, TUTTI_FLOAT32, 1, job->world);
}

/* The last rank stops; calls of the others end at their deadlines, and name it. */
static int unheard_body(struct mp_job *job)
{
	const struct unheard *u = job->arg;
	struct tutti_error_info info = {.size = sizeof(info)};
	int victim = job->n - 1, err;
	static float in[100000], out[100000];
	char text[64];

	MP_OK(tutti_allreduce(in, out, 100000, TUTTI_FLOAT32, TUTTI_SUM, job->world));
	mp_meet(job);
	if (job->rank == victim) {
		raise(SIGSTOP);
		return mp_leave_failed(job);
	}
	if (u->first >= 0 && job->rank != u->first)
		mp_sleep_ms(u->after_ms);
	err = wait_for_others(job, u);
	if (atomic_fetch_add(&job->shared->word[0], 1) == job->n - 2) /* the last one */
		kill(atomic_load(&job->shared->pid[victim]), SIGCONT);
	MP_ERR(err, -ETIMEDOUT);
	MP_OK(tutti_comm_error(job->world, &info));
	snprintf(text, sizeof(text), "rank %d on host", victim);
	TT_EXPECT(info.rank == victim && mp_said(text) && mp_said("it may be stopped"));
	return mp_leave_failed(job);
}

#define PATIENT "TUTTI_TIMEOUT=5s TUTTI_LATE_AFTER=10s TUTTI_NODE=on"
#define FAR "TUTTI_TIMEOUT=5s TUTTI_NODE=off TUTTI_TRANSPORT=shm TUTTI_ALGO=allreduce:ring"

static void unheard(void)
{
	struct unheard any = {.first = -1}, behind = {.further = true, .after_ms = 300}, over;
	struct unheard stream = {.first = -1, .stream = true};
	struct unheard soon = {.further = true, .after_ms = 3700};
	struct unheard patient = {.further = true, .after_ms = 300};
	struct unheard splits = {.first = -1, .splits = true}, layouts = {.layouts = true};

	TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_TIMEOUT=5s TUTTI_NODE=on", .fn = unheard_body,
			 .arg = &any));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TIMEOUT=5s TUTTI_NODE=off TUTTI_TRANSPORT=shm",
			 .fn = unheard_body, .arg = &any));
	for (over = (struct unheard){.first = 1, .after_ms = 300}; over.first < 4; over.first += 2)
		TT_CHECK(!MP_RUN(.n = 6, .env = FAR, .fn = unheard_body, .arg = &over));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TIMEOUT=5s TUTTI_NODE=on", .fn = unheard_body,
			 .arg = &behind));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TIMEOUT=5s TUTTI_NODE=on", .fn = unheard_body,
			 .arg = &stream));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TIMEOUT=5s TUTTI_NODE=on", .fn = unheard_body,
			 .arg = &soon));
	TT_CHECK(!MP_RUN(.n = 3, .env = PATIENT, .fn = unheard_body, .arg = &patient));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TIMEOUT=5s", .fn = unheard_body, .arg = &splits));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TIMEOUT=5s", .fn = unheard_body, .arg = &layouts));
}

/*
 * Rank 1 is late, and rank 2 stopped: the call of rank 0, which is told that rank 1 is late, names
 * rank 2, and rank 1 only if that has not come until the deadline.
 */
struct beside {
	bool comes, stream; /* rank 1 comes; rank 0 waits for its turn only */
};

static int wait_beside(struct mp_job *job, const struct beside *b)
{
	static float in[1000], out[3000];
	struct tutti_request *req;
	int err = 0, i, done = 0;

	for (i = 0; b->stream && i < 10 && !err; i++)
		err = tutti_bcast(in, 1000, TUTTI_FLOAT32, 0, job->world);
	if (b->stream)
		return err;
	MP_OK(tutti_igather(in, out, 1000, TUTTI_FLOAT32, 0, job->world, &req));
	while (!done && !mp_log_has(job, "waits for rank 1 on host"))
		MP_OK(tutti_test(&req, &done));
	TT_EXPECT(!done);
	atomic_store(&job->shared->word[1], 1);
	return tutti_wait(&req);
}

static int beside_body(struct mp_job *job)
{
	const struct beside *b = job->arg;
	struct tutti_error_info info = {.size = sizeof(info)};
	static float in[1000], out[3000];

	MP_OK(tutti_gather(in, out, 1000, TUTTI_FLOAT32, 0, job->world));
	MP_OK(tutti_barrier(job->world));
	mp_meet(job);
	if (job->rank == 2)
		raise(SIGSTOP);
	if (job->rank == 1 && b->comes && mp_await(&job->shared->word[1], 1, MP_HANG_MS))
		MP_OK(tutti_gather(in, out, 1000, TUTTI_FLOAT32, 0, job->world));
	if (job->rank) {
		TT_EXPECT(mp_await(&job->shared->word[0], 1, MP_HANG_MS));
		return mp_leave_failed(job);
	}
	MP_ERR(wait_beside(job, b), -ETIMEDOUT);
	atomic_store(&job->shared->word[0], 1);
	kill(atomic_load(&job->shared->pid[2]), SIGCONT);
	MP_OK(tutti_comm_error(job->world, &info));
	TT_EXPECT(info.rank == 2 && mp_said("rank 2 on host") && mp_said("it may be stopped"));
	TT_EXPECT(mp_said("waits for rank 1 on host") == !b->comes);
	return mp_leave_failed(job);
}

static void beside_late(void)
{
	struct beside comes = {.comes = true}, away = {0}, stream = {.stream = true};

#define SOON "TUTTI_TIMEOUT=5s TUTTI_LATE_AFTER=100ms "
	TT_CHECK(!MP_RUN(.n = 3, .env = SOON "TUTTI_NODE=on", .fn = beside_body, .arg = &comes));
	TT_CHECK(!MP_RUN(.n = 3, .env = SOON "TUTTI_NODE=off TUTTI_TRANSPORT=shm",
			 .fn = beside_body, .arg = &comes));
	TT_CHECK(!MP_RUN(.n = 3, .env = SOON "TUTTI_NODE=on", .fn = beside_body, .arg = &away));
	TT_CHECK(!MP_RUN(.n = 3, .env = SOON "TUTTI_NODE=off TUTTI_TRANSPORT=shm",
			 .fn = beside_body, .arg = &away));
	TT_CHECK(!MP_RUN(.n = 3, .env = SOON "TUTTI_NODE=on", .fn = beside_body, .arg = &stream));
}

/*
 * The last rank is stopped. Rank 0, or the ranks that hear of its failure first, exit at once, as a
 * program does that has failed; the others still hear of the stopped rank, not of these.
 */
static int exit_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	int victim = job->n - 1, quick = *(int *)job->arg;
	static float in[1000], out[1000];
	int err;

	MP_OK(tutti_allreduce(in, out, 1000, TUTTI_FLOAT32, TUTTI_SUM, job->world));
	if (job->rank == quick)
		MP_OK(tutti_comm_set_timeout(job->world, 1500));
	mp_meet(job);
	while (job->rank == victim) /* until it is killed */
		pause();
	if (job->rank == quick) {
		TT_EXPECT(!mp_stop(atomic_load(&job->shared->pid[victim])));
		atomic_store(&job->shared->word[1], 1);
	}
	TT_EXPECT(mp_await(&job->shared->word[1], 1, MP_HANG_MS));
	err = tutti_allreduce(in, out, 1000, TUTTI_FLOAT32, TUTTI_SUM, job->world);
	if (atomic_fetch_add(&job->shared->word[0], 1) == job->n - 2) /* the last one */
		kill(atomic_load(&job->shared->pid[victim]), SIGKILL);
	if (job->rank < 3 && err == -ETIMEDOUT)
		_exit(0);
	MP_ERR(err, -ETIMEDOUT);
	MP_OK(tutti_comm_error(job->world, &info));
	TT_EXPECT(info.rank == victim);
	return mp_leave_failed(job);
}

static void exits(void)
{
	int i, quick;

	for (i = 0; i < 6; i++) {
		quick = i % 3;
		TT_CHECK(!MP_RUN(.n = 6, .env = "TUTTI_TIMEOUT=5s TUTTI_HEARTBEAT_LIMIT=60s",
				 .fn = exit_body, .arg = &quick, .killed = 1u << 5,
				 .timeout_ms = 30000));
	}
}

/* ---- stopped for too long ---- */

struct stop {
	int victim, ms;
	const char *env;
};

static int evicted(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_comm *next;
	uint64_t value = 1;
	float v = 1;
	int err;

	do
		err = tutti_allreduce(TUTTI_IN_PLACE, &v, 1, TUTTI_FLOAT32, TUTTI_SUM, job->world);
	while (!err);
	MP_ERR(err, -TUTTI_EPEER);
	MP_OK(tutti_comm_error(job->world, &info));
	TT_EXPECT(info.rank == job->rank && strstr(info.text, "taken for dead"));
	MP_ERR(tutti_comm_agree(job->world, TUTTI_BAND, &value), -TUTTI_EPEER);
	MP_ERR(tutti_comm_shrink(job->world, &next), -TUTTI_EPEER);
	atomic_store(&job->shared->word[1], 1);
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

static int stop_body(struct mp_job *job)
{
	const struct stop *s = job->arg;
	unsigned all = (1u << job->n) - 1;
	struct tutti_comm *next;
	double t0 = mp_now();

	TT_EXPECT(!check_sum(job, job->world, all));
	mp_meet(job);
	if (job->rank == s->victim) {
		atomic_store(&job->shared->word[0], 1);
		raise(SIGSTOP);
		return evicted(job);
	}
	if (until_death(job, job->world, s->victim))
		return 1;
	t0 = mp_now() - t0;
	if (job->rank == (s->victim + 1) % job->n)
		printf("  rank %d stopped: known after %.0f ms (limit 500 ms), %s\n", s->victim,
		       t0 * 1e3, s->env);
	fflush(stdout);
	MP_OK(tutti_comm_shrink(job->world, &next));
	TT_EXPECT(!check_sum(job, next, all & ~(1u << s->victim)));
	if (job->rank == (s->victim + 1) % job->n)
		kill(atomic_load(&job->shared->pid[s->victim]), SIGCONT);
	TT_EXPECT(mp_await(&job->shared->word[1], 1, MP_HANG_MS));
	TT_EXPECT(!check_sum(job, next, all & ~(1u << s->victim)));
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

/* Continues this process when ranks 2 and 3 have ended. */
static pid_t wake_when_alone(struct mp_job *job)
{
	pid_t me = getpid(), child = fork();
	int ms;

	if (child)
		return child;
	for (ms = 0; ms < MP_HANG_MS && (!tt_proc_gone(atomic_load(&job->shared->pid[2])) ||
					 !tt_proc_gone(atomic_load(&job->shared->pid[3])));
	     ms += 10)
		usleep(10000);
	kill(me, SIGCONT);
	_exit(0);
}

/*
 * Ranks 0 and 1 are stopped, the others go on without them and end. Nobody is left to tell them:
 * neither takes itself for the only survivor.
 */
static int alone_body(struct mp_job *job)
{
	struct tutti_comm *next;
	pid_t child;

	TT_EXPECT(!check_sum(job, job->world, 0xf));
	mp_meet(job);
	if (job->rank < 2) {
		child = wake_when_alone(job);
		TT_EXPECT(child > 0);
		raise(SIGSTOP);
		waitpid(child, NULL, 0);
		return evicted(job);
	}
	if (until_death(job, job->world, 0))
		return 1;
	MP_OK(tutti_comm_shrink(job->world, &next));
	TT_EXPECT(!check_sum(job, next, 0xc));
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

static void stopped(void)
{
	struct stop s = {0};

	for (s.victim = 0; s.victim < 3; s.victim++) {
		s.env = "TUTTI_TRANSPORT=shm" HALF;
		TT_CHECK(!MP_RUN(.n = 3, .env = s.env, .fn = stop_body, .arg = &s));
		s.env = "TUTTI_TRANSPORT=ofi" HALF;
		if (!mp_no_ofi())
			TT_CHECK(!MP_RUN(.n = 3, .env = s.env, .fn = stop_body, .arg = &s));
	}
	TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_TRANSPORT=shm" HALF, .fn = alone_body));
}

/*
 * A rank is stopped while it writes to another's memory. That one ends it, as it would go on when
 * it is continued, and is not taken for dead meanwhile.
 */
static int middle_body(struct mp_job *job)
{
	const size_t len = (size_t)64 << 20;
	struct tutti_comm *next;
	struct tutti_win *win;
	char *mem, *own;

	MP_OK(tutti_alloc(job->ctx, len, (void **)&mem));
	if (job->arg)
		MP_OK(tutti_win_allocate(job->world, len, 0, (void **)&own, &win));
	else
		MP_OK(tutti_win_create(job->world, mem, len, 0, &win));
	while (job->rank == 1) /* until it is killed */
		MP_OK(tutti_put(win, 0, mem, len, 0));
	mp_sleep_ms(job->rank ? 100 : 0);
	if (job->rank)
		kill(atomic_load(&job->shared->pid[1]), SIGSTOP);
	TT_EXPECT(!until_death(job, job->world, 1));
	TT_EXPECT(!check_list(job, job->world, 1));
	MP_OK(tutti_comm_shrink(job->world, &next));
	TT_EXPECT(!check_sum(job, next, 5));
	MP_ERR(tutti_win_free(win), -TUTTI_EPEER);
	if (!job->rank)
		TT_EXPECT(tt_proc_gone(atomic_load(&job->shared->pid[1])));
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

static void in_the_middle(void)
{
	int allocated = 1;

	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm TUTTI_NODE=off" HALF,
			 .fn = middle_body, .killed = 2));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm TUTTI_NODE=off" HALF,
			 .fn = middle_body, .arg = &allocated, .killed = 2));
}

/*
 * A rank that still reads another's memory when their communicator fails: that one's call returns
 * only afterwards, and leaves the lock to other threads, and to the control thread, meanwhile.
 */
#define LOOKS 20

/* Rank 0's. Rank 2 dies when the call has begun; the claim ends after LOOKS. */
static void *look(void *arg)
{
	struct mp_job *job = arg;
	struct tutti_comm *world = job->world;
	double until = mp_now() + 10;
	int n = 0;

	while (n < LOOKS && mp_now() < until) {
		if (tt_wire_lock_within(job->ctx->wire, 100)) {
			if (job->ctx->running || atomic_load(&world->node->in_short))
				atomic_store(&job->shared->word[2], 1);
			n += atomic_load(&world->failed) != 0;
			tt_wire_unlock(job->ctx->wire);
		}
		mp_sleep_ms(2);
	}
	atomic_store(&job->shared->word[1], n == LOOKS ? 1 : 2);
	return NULL;
}

static int reading_body(struct mp_job *job)
{
	struct tt_node_group *g;
	struct tutti_comm *next;
	pthread_t thread;

	TT_EXPECT(!check_sum(job, job->world, 7));
	g = job->world->node->group;
	mp_meet(job);
	if (job->rank == 1) {
		atomic_store(&g->area->rank[1].busy, 1);
		atomic_store(&job->shared->word[0], 1);
		TT_EXPECT(mp_await(&job->shared->word[1], 1, 20000));
		atomic_store(&g->area->rank[1].busy, 0);
	} else if (job->rank == 2) {
		TT_EXPECT(mp_await(&job->shared->word[2], 1, 20000));
		kill(getpid(), SIGKILL);
	} else {
		TT_EXPECT(mp_await(&job->shared->word[0], 1, MP_HANG_MS));
		TT_EXPECT(!pthread_create(&thread, NULL, look, job));
	}
	TT_EXPECT(!until_death(job, job->world, 2));
	TT_EXPECT(atomic_load(&job->shared->word[1]) == 1);
	if (!job->rank)
		pthread_join(thread, NULL);
	MP_OK(tutti_comm_shrink(job->world, &next));
	TT_EXPECT(!check_sum(job, next, 3));
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

static void reading(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_NODE=on", .fn = reading_body, .killed = 4));
}

/*
 * The same with a rank that is in the middle of reading: in the operator of the call, which
 * combines pieces of the others' vectors.
 */
#define EACH ((size_t)5 << 18) /* elements that a rank combines: it does not read all at once */
#define USED_AGAIN 1000000     /* a value that no vector has in the call */

static struct mp_job *holding; /* rank 1's, until it has held on */

static void hold(const void *in, void *inout, size_t count, enum tutti_datatype datatype, void *arg)
{
	struct mp_job *job = holding;
	const int32_t *x = in;
	int32_t *sum = inout;
	size_t i;

	(void)datatype;
	holding = NULL;
	if (job) {
		struct node_area *area = job->world->node->group->area;
		double until = mp_now() + 20;

		atomic_store(&job->shared->word[0], 1);
		while (!atomic_load(&area->rank[0].withdrawn) && mp_now() < until)
			mp_sleep_ms(1);
		mp_sleep_ms(200); /* it returns now if it does not wait */
		atomic_store(&job->shared->word[1], 1);
	}
	for (i = 0; i < count; i++) {
		*(bool *)arg |= x[i] >= USED_AGAIN || sum[i] >= USED_AGAIN;
		sum[i] += x[i];
	}
}

/* Rank 2's: dies in the middle of the call. */
static void *die_then(void *arg)
{
	struct mp_job *job = arg;

	mp_await(&job->shared->word[0], 1, 20000);
	kill(getpid(), SIGKILL);
	return NULL;
}

static int held_body(struct mp_job *job)
{
	size_t n = EACH * (size_t)job->n, i;
	struct tutti_comm *next;
	bool changed = false;
	enum tutti_op op;
	pthread_t thread;
	int32_t *v;

	MP_OK(tutti_alloc(job->ctx, 2 * n * sizeof(*v), (void **)&v));
	for (i = 0; i < n; i++)
		v[i] = (int32_t)(i % 1000);
	MP_OK(tutti_op_create(job->ctx, hold, &changed, 1, &op));
	MP_OK(tutti_allreduce(v, v + n, n, TUTTI_INT32, op, job->world));
	if (job->rank == 1)
		holding = job;
	if (job->rank == 2)
		TT_EXPECT(!pthread_create(&thread, NULL, die_then, job));
	MP_ERR(tutti_allreduce(v, v + n, n, TUTTI_INT32, op, job->world), -TUTTI_EPEER);
	TT_EXPECT(atomic_load(&job->shared->word[1]) == 1);
	for (i = 0; i < n; i++)
		v[i] = USED_AGAIN;
	TT_EXPECT(!changed);
	MP_OK(tutti_comm_shrink(job->world, &next));
	TT_EXPECT(!check_sum(job, next, 3));
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

static void held(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_NODE=on", .fn = held_body, .killed = 4));
}

/* A pause shorter than the limit is nothing. */
static int pause_body(struct mp_job *job)
{
	unsigned all = (1u << job->n) - 1;
	int i;

	for (i = 0; i < 3; i++) {
		if (job->rank == 0 && i)
			TT_EXPECT(!kill(atomic_load(&job->shared->pid[1]), SIGSTOP));
		if (job->rank == 0) {
			mp_sleep_ms(200);
			kill(atomic_load(&job->shared->pid[1]), SIGCONT);
		}
		TT_EXPECT(!check_sum(job, job->world, all));
	}
	return 0;
}

static void paused(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_HEARTBEAT=100ms TUTTI_HEARTBEAT_LIMIT=2s",
			 .fn = pause_body));
}

/* ---- busy under the library's own lock is alive, too ---- */

static void slow_op(const void *in, void *inout, size_t count, enum tutti_datatype datatype,
		    void *arg)
{
	(void)in, (void)inout, (void)count, (void)datatype, (void)arg;
	mp_sleep_ms(1500);
}

/* As for tutti_ras. */
static void *ask_often(void *arg)
{
	struct mp_job *job = arg;
	unsigned char ask[8] = {0};
	int i;

	for (i = 0; i < 30; i++) {
		tt_ctl_send(job->ctx->boot, TT_CTL_ALL, TT_CTL_ASK, ask, sizeof(ask));
		mp_sleep_ms(50);
	}
	return NULL;
}

static int busy_body(struct mp_job *job)
{
	pthread_t thread;
	enum tutti_op op;
	int32_t v = 1;

	MP_OK(tutti_op_create(job->ctx, slow_op, NULL, 1, &op));
	if (!job->rank)
		TT_EXPECT(!pthread_create(&thread, NULL, ask_often, job));
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &v, 1, TUTTI_INT32, op, job->world));
	if (!job->rank)
		pthread_join(thread, NULL);
	MP_OK(tutti_op_free(job->ctx, op));
	return 0;
}

static void busy(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm" HALF, .fn = busy_body));
}

/* Data to rank 1 has not been taken for longer than the limit. */
static bool stuck_for_long(struct mp_job *job)
{
	struct tt_wire_link link[2] = {0};
	double end = mp_now() + 5;
	int n = 0;

	while (mp_now() < end) {
		tt_wire_lock(job->ctx->wire);
		n = tt_wire_links(job->ctx->wire, 1, link, 2);
		tt_wire_unlock(job->ctx->wire);
		if (n == 1 && link[0].silence.bytes && link[0].silence.ns > 600 * TT_MS)
			return true;
		mp_sleep_ms(20);
	}
	return false;
}

/* A rank that is busy for longer than the limit takes nothing from its sockets, which fill up, and
 * lives. */
static int computing_body(struct mp_job *job)
{
	const size_t len = (size_t)64 << 20;
	struct tutti_win *win;
	char *mem;

	MP_OK(tutti_alloc(job->ctx, len, (void **)&mem));
	MP_OK(tutti_win_create(job->world, mem, len, 0, &win));
	TT_EXPECT(!check_sum(job, job->world, (1u << job->n) - 1));
	if (job->rank) {
		tt_wire_lock(job->ctx->wire); /* its progress thread is busy, too */
		mp_meet(job);
		TT_EXPECT(mp_await(&job->shared->word[0], 1, 20000));
		mp_sleep_ms(800);
		tt_wire_unlock(job->ctx->wire);
	} else {
		mp_meet(job);
		MP_OK(tutti_put(win, 1, mem, len, 0));
		TT_EXPECT(stuck_for_long(job));
		atomic_store(&job->shared->word[0], 1);
		MP_OK(tutti_win_flush(win, 1));
	}
	TT_EXPECT(!check_sum(job, job->world, (1u << job->n) - 1));
	MP_OK(tutti_win_free(win));
	return 0;
}

static void computing(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=ofi" HALF, .fn = computing_body));
}

/* ---- stopped beyond the deadline of its own call, which needs more than one look ---- */

static int own_body(struct mp_job *job)
{
	enum { LONG = 64 << 20 };
	char *mine = calloc(1, LONG), *got = calloc(1, LONG);
	struct tutti_request *req;
	struct tutti_win *win;

	TT_EXPECT(mine && got);
	memset(mine, 1 + job->rank, LONG);
	MP_OK(tutti_win_create(job->world, mine, LONG, 0, &win));
	atomic_store(&job->shared->pid[job->rank], (int)getpid());
	mp_meet(job);
	if (job->rank == 1) {
		mp_sleep_ms(200); /* the progress thread has begun to wait */
		MP_OK(tutti_iget(win, 0, got, LONG, 0, &req));
		raise(SIGSTOP);
		MP_OK(tutti_wait(&req));
		TT_EXPECT(got[0] == 1 && got[LONG - 1] == 1);
	} else {
		mp_sleep_ms(1900);
		kill(atomic_load(&job->shared->pid[1]), SIGCONT);
	}
	MP_OK(tutti_win_free(win));
	free(mine);
	free(got);
	return 0;
}

/* It has a moment to catch up before it blames rank 0. */
static void own(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(
		!MP_RUN(.n = 2, .fn = own_body, .env = "TUTTI_TRANSPORT=ofi TUTTI_TIMEOUT=1200ms"));
}

/*
 * Stopped between two calls, over shm without a thread of the library that waits: the push that it
 * began before is over its deadline when it goes on, and needs many answers.
 */
static int between_body(struct mp_job *job)
{
	enum { LONG = 2 << 20 };
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	float *v = calloc(LONG, sizeof(*v));
	struct tutti_request *req;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;

	TT_EXPECT(v != NULL);
	MP_OK(mp_ps_open(job, 1, TUTTI_PS_ASYNC, &ps));
	MP_OK(tutti_ps_dense(ps, "t", LONG, TUTTI_FLOAT32, &opt, &t));
	atomic_store(&job->shared->pid[job->rank], (int)getpid());
	mp_meet(job);
	if (job->rank) {
		TT_EXPECT(!job->ctx->thread_runs || job->arg);
		MP_OK(tutti_ps_ipush(t, v, 0, LONG, TUTTI_FLOAT32, &req));
		atomic_store(&job->shared->word[0], 1);
		raise(SIGSTOP);
		MP_OK(tutti_wait(&req));
	} else {
		TT_EXPECT(mp_await(&job->shared->word[0], 1, MP_HANG_MS));
		mp_sleep_ms(3500);
		kill(atomic_load(&job->shared->pid[1]), SIGCONT);
	}
	MP_OK(tutti_ps_close(ps));
	free(v);
	return 0;
}

static void between(void)
{
	int thread = 1;

	TT_CHECK(
		!MP_RUN(.n = 2, .fn = between_body, .env = "TUTTI_TRANSPORT=shm TUTTI_TIMEOUT=3s"));
	if (!mp_no_ofi() && !mp_brief())
		TT_CHECK(!MP_RUN(.n = 2, .fn = between_body, .arg = &thread,
				 .env = "TUTTI_TRANSPORT=ofi TUTTI_TIMEOUT=3s"));
}

/*
 * Stopped while it waits, for longer than its timeout: it looks again for a moment after it goes
 * on, until what it waits for comes.
 */

/* Stops rank 1 once it waits, and lets it go on. */
static int stop_for_long(struct mp_job *job)
{
	TT_EXPECT(mp_await(&job->shared->word[0], 1, MP_HANG_MS));
	mp_sleep_ms(100);
	TT_EXPECT(!mp_stop(atomic_load(&job->shared->pid[1])));
	mp_sleep_ms(2500);
	kill(atomic_load(&job->shared->pid[1]), SIGCONT);
	mp_sleep_ms(200);
	return 0;
}

static int lock_body(struct mp_job *job)
{
	struct tutti_pair *pair;
	int64_t *x;

	MP_OK(tutti_pair_create(job->world, 1, TUTTI_INT64, (void **)&x, &pair));
	atomic_store(&job->shared->pid[job->rank], (int)getpid());
	if (!job->rank)
		MP_OK(tutti_pair_lock(pair, 1));
	mp_meet(job);
	if (job->rank)
		atomic_store(&job->shared->word[0], 1);
	else
		TT_EXPECT(!stop_for_long(job));
	if (job->rank)
		MP_OK(tutti_pair_average(pair, 0, NULL));
	else
		MP_OK(tutti_pair_unlock(pair));
	MP_OK(tutti_pair_free(pair));
	return 0;
}

/* Receives of two contexts. */
static int turns_body(struct mp_job *job)
{
	struct tutti_config config = {.size = sizeof(config), .nranks = job->n, .rank = job->rank};
	struct tutti_request *req[2];
	struct tutti_context *ctx;
	struct tutti_comm *world[2] = {job->world};
	struct tutti_unique_id id;
	int i, x[2];

	if (!job->rank)
		MP_OK(tutti_unique_id_get(&id));
	MP_OK(tutti_bcast(&id, sizeof(id), TUTTI_UINT8, 0, job->world));
	config.id = &id;
	MP_OK(tutti_init(&config, &ctx));
	world[1] = tutti_world(ctx);
	atomic_store(&job->shared->pid[job->rank], (int)getpid());
	mp_meet(job);
	if (job->rank)
		atomic_store(&job->shared->word[0], 1);
	else
		TT_EXPECT(!stop_for_long(job));
	for (i = 1; i >= 0; i--)
		if (job->rank)
			MP_OK(tutti_irecv(&x[i], 1, TUTTI_INT32, 0, 4, world[i], NULL, &req[i]));
		else
			MP_OK(tutti_send(&i, 1, TUTTI_INT32, 1, 4, world[i]));
	if (job->rank)
		MP_OK(tutti_waitall(2, req));
	TT_EXPECT(!job->rank || (!x[0] && x[1] == 1));
	MP_OK(tutti_finalize(ctx));
	return 0;
}

static void waiting(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = lock_body,
			 .env = "TUTTI_TRANSPORT=shm TUTTI_TIMEOUT=1500ms"));
	TT_CHECK(!MP_RUN(.n = 2, .fn = turns_body,
			 .env = "TUTTI_TRANSPORT=shm TUTTI_TIMEOUT=1500ms"));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"unheard", unheard},
		{"beside_late", beside_late},
		{"exits", exits},
		{"stopped", stopped},
		{"in_the_middle", in_the_middle},
		{"reading", reading},
		{"held", held},
		{"paused", paused},
		{"busy", busy},
		{"computing", computing},
		{"own", own},
		{"between", between},
		{"waiting", waiting},
		{NULL, NULL},
	};

	return tt_test_main("stopped", tests, argc, argv);
}
