/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tutti_ps_close while a rank is stopped: the error names that rank, whichever ranks wait for it
 * and report it (one that does not call: test_ps_errors). After a server that was stopped goes on,
 * the call succeeds if no push was lost.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "lib/ps/server/server.h"

#define COUNT 4096
#define BOTH (-1)
#define ASYNC TUTTI_PS_ASYNC
#define WAITS " TUTTI_TIMEOUT=2s TUTTI_HEARTBEAT_LIMIT=60s"
#define SHM "TUTTI_TRANSPORT=shm" WAITS

struct cell {
	int n, first, servers, staleness, copies, essp; /* first: rank of a server */
	int victim; /* not between others in the control tree: they would not hear of the error */
};

static float v[COUNT];

/* The server on this rank; -1: none. */
static int server_of(const struct mp_job *job, const struct cell *c)
{
	int server = job->rank - c->first;

	return server < c->servers ? server : -1;
}

static int open_ps(struct mp_job *job, const struct cell *c, struct tutti_ps **ps,
		   struct tutti_ps_table **t)
{
	struct tutti_ps_options opt = {
		.size = sizeof(opt), .init = TUTTI_PS_ZERO, .block = 4096, .essp = c->essp};
	struct tutti_ps_config config = {
		.size = sizeof(config), .staleness = c->staleness, .copies = c->copies};

	config.role = c->servers == BOTH       ? TUTTI_PS_BOTH
		      : server_of(job, c) >= 0 ? TUTTI_PS_SERVER
					       : TUTTI_PS_WORKER;
	MP_OK(tutti_ps_open(job->world, &config, ps));
	MP_OK(tutti_ps_dense(*ps, "t", COUNT, TUTTI_FLOAT32, &opt, t));
	return 0;
}

/* Connections are made, and with ESSP workers have subscribed. */
static int warm_up(struct mp_job *job, const struct cell *c, struct tutti_ps *ps,
		   struct tutti_ps_table *t)
{
	int i;

	for (i = 0; i < 2 && server_of(job, c) < 0; i++) {
		MP_OK(tutti_ps_push(t, v, 0, COUNT, TUTTI_FLOAT32));
		MP_OK(tutti_ps_clock(ps));
		MP_OK(tutti_ps_pull(t, v, 0, COUNT, TUTTI_FLOAT32));
	}
	mp_meet(job);
	return 0;
}

/* As the server on this rank, or its replica, sees it. */
static bool has_left(struct tutti_ps *ps, int worker)
{
	bool left;

	tt_wire_lock(ps->comm->ctx->wire);
	left = ps->srv[0]->client[worker].leaves || atomic_load(&ps->comm->failed);
	tt_wire_unlock(ps->comm->ctx->wire);
	return left;
}

static int await_leave(struct tutti_ps *ps, int worker)
{
	double end = mp_now() + MP_HANG_MS * 1e-3;

	while (!has_left(ps, worker) && mp_now() < end)
		mp_sleep_ms(1);
	TT_EXPECT(has_left(ps, worker) && !atomic_load(&ps->comm->failed));
	return 0;
}

/* Fails, and names the victim. */
static int close_for(struct mp_job *job, struct tutti_ps *ps, int victim)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	char name[32];

	MP_ERR(tutti_ps_close(ps), -ETIMEDOUT);
	MP_OK(tutti_last_error(&info));
	snprintf(name, sizeof(name), "rank %d", victim);
	if (info.rank != victim || !mp_said(name))
		mp_failed(job, name, info.rank, __FILE__, __LINE__);
	return info.rank != victim || !mp_said(name);
}

#define CLOSED 0 /* words: ranks whose call has returned */
#define READY 1	 /* the scene is set */

/* The last of the others ends the victim. */
static int leave(struct mp_job *job, int victim, int err)
{
	if (atomic_fetch_add(&job->shared->word[CLOSED], 1) == job->n - 2)
		kill(atomic_load(&job->shared->pid[victim]), SIGKILL);
	TT_EXPECT(mp_await(&job->shared->word[CLOSED], job->n - 1, MP_HANG_MS));
	mp_leave_failed(job);
	return err;
}

static int halted(mp_fn *fn, struct cell c, const char *env)
{
	int failed = MP_RUN(.n = c.n, .fn = fn, .arg = &c, .killed = 1u << c.victim, .env = env);

	if (failed)
		printf("  %d ranks, %d servers, staleness %d, copies %d, essp %d, victim %d\n", c.n,
		       c.servers, c.staleness, c.copies, c.essp, c.victim);
	return failed;
}

/* ---- a rank that stops before the others call ---- */

static int stopped_body(struct mp_job *job)
{
	const struct cell *c = job->arg;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;

	TT_EXPECT(!open_ps(job, c, &ps, &t));
	TT_EXPECT(!warm_up(job, c, ps, t));
	while (job->rank == c->victim) /* until it is killed */
		pause();
	if (!job->rank) {
		TT_EXPECT(!mp_stop(atomic_load(&job->shared->pid[c->victim])));
		atomic_store(&job->shared->word[READY], 1);
	}
	TT_EXPECT(mp_await(&job->shared->word[READY], 1, MP_HANG_MS));
	return leave(job, c->victim, close_for(job, ps, c->victim));
}

static void stopped(void)
{
	static const struct cell cell[] = {
		{.n = 4, .first = 2, .servers = 2, .staleness = 1, .victim = 2},
		{.n = 4, .servers = 2, .staleness = 0, .victim = 3},
		{.n = 4, .first = 2, .servers = 2, .staleness = 0, .copies = 2, .victim = 3},
		{.n = 3, .servers = BOTH, .staleness = ASYNC, .copies = 2, .victim = 1},
		{.n = 4, .first = 2, .servers = 2, .staleness = 0, .victim = 3},
		{.n = 4, .first = 2, .servers = 2, .staleness = 1, .essp = 1, .victim = 2},
		{.n = 4, .first = 2, .servers = 2, .staleness = 1, .copies = 2, .victim = 2},
		{.n = 4, .servers = 2, .staleness = ASYNC, .copies = 2, .victim = 3},
		{.n = 3, .servers = BOTH, .staleness = 0, .victim = 2},
	};
	size_t i;

	for (i = 0; i < (mp_brief() ? 4 : sizeof(cell) / sizeof(*cell)); i++)
		TT_CHECK(!halted(stopped_body, cell[i], SHM));
}

/* ---- a server that is stopped, and a worker that waits for it ---- */

static bool has_room(struct tutti_ps *ps)
{
	bool room;

	tt_wire_lock(ps->comm->ctx->wire);
	room = tt_ps_out_get(&ps->link[0]);
	tt_wire_unlock(ps->comm->ctx->wire);
	return room;
}

/* Pushes to server 0, which is stopped, until it has no room for another message. */
static int fill(struct mp_job *job, struct tutti_ps *ps, struct tutti_ps_table *t)
{
	TT_EXPECT(t->part[0].elems && t->part[1].elems);
	while (has_room(ps))
		MP_OK(tutti_ps_push(t, v, 0, 1, TUTTI_FLOAT32));
	return 0;
}

/*
 * Server 0, on rank 2, has no room for the good-bye of rank 1. Server 1 gets it all the same, so it
 * does not wait for rank 1.
 */
static int full_body(struct mp_job *job)
{
	const struct cell *c = job->arg;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;

	TT_EXPECT(!open_ps(job, c, &ps, &t));
	TT_EXPECT(!warm_up(job, c, ps, t));
	while (job->rank == c->victim)
		pause();
	if (job->rank == 1) {
		TT_EXPECT(!mp_stop(atomic_load(&job->shared->pid[c->victim])));
		TT_EXPECT(!fill(job, ps, t));
	}
	if (job->rank == 3) {
		TT_EXPECT(!await_leave(ps, 1));
		atomic_store(&job->shared->word[READY], 1);
	}
	if (!job->rank)
		TT_EXPECT(mp_await(&job->shared->word[READY], 1, MP_HANG_MS));
	return leave(job, c->victim, close_for(job, ps, c->victim));
}

static const struct cell worker_waits = {
	.n = 4, .first = 2, .servers = 2, .staleness = 1, .victim = 2};

static void full(void)
{
	TT_CHECK(!halted(full_body, worker_waits, SHM));
}

/*
 * Rank 1 cannot call, as its push waits for server 0. Its deadline passes after that of server 1,
 * which waits for rank 1.
 */
static int in_call_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	const struct cell *c = job->arg;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;

	TT_EXPECT(!open_ps(job, c, &ps, &t));
	TT_EXPECT(!warm_up(job, c, ps, t));
	while (job->rank == c->victim)
		pause();
	if (job->rank == 1) {
		TT_EXPECT(!mp_stop(atomic_load(&job->shared->pid[c->victim])));
		TT_EXPECT(!fill(job, ps, t));
		atomic_store(&job->shared->word[READY], 1);
		mp_sleep_ms(200);
		MP_ERR(tutti_ps_push(t, v, 0, 1, TUTTI_FLOAT32), -ETIMEDOUT);
		MP_OK(tutti_last_error(&info));
		TT_EXPECT(info.rank == c->victim && mp_said("rank 2 on host"));
	}
	TT_EXPECT(mp_await(&job->shared->word[READY], 1, MP_HANG_MS));
	return leave(job, c->victim, close_for(job, ps, c->victim));
}

static void in_call(void)
{
	TT_CHECK(!halted(in_call_body, worker_waits, SHM));
}

/* ---- a rank that stops in the call ---- */

/* The victim has said good-bye. Then it stops, and the others call. */
static int in_close_body(struct mp_job *job)
{
	const struct cell *c = job->arg;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;

	TT_EXPECT(!open_ps(job, c, &ps, &t));
	TT_EXPECT(!warm_up(job, c, ps, t));
	if (job->rank == c->victim) {
		(void)tutti_ps_close(ps);
		while (true)
			pause();
	}
	if (job->rank < c->servers) {
		TT_EXPECT(!await_leave(ps, c->victim - c->servers));
		atomic_fetch_add(&job->shared->word[READY + 1], 1);
	}
	if (!job->rank) {
		TT_EXPECT(mp_await(&job->shared->word[READY + 1], c->servers, MP_HANG_MS));
		mp_sleep_ms(50); /* the answers */
		TT_EXPECT(!mp_stop(atomic_load(&job->shared->pid[c->victim])));
		atomic_store(&job->shared->word[READY], 1);
	}
	TT_EXPECT(mp_await(&job->shared->word[READY], 1, MP_HANG_MS));
	return leave(job, c->victim, close_for(job, ps, c->victim));
}

/* At the last meeting; or servers have notes to it under way, and do not come to the meeting. */
static void in_close(void)
{
	static const struct cell c = {.n = 4, .servers = 2, .staleness = 1, .victim = 3};

	TT_CHECK(!halted(in_close_body, c, SHM));
	if (!mp_no_ofi())
		TT_CHECK(!halted(in_close_body, c, "TUTTI_TRANSPORT=ofi" WAITS));
}

/* Other workers wait until it relays no more to them, or they to it. */
static void relay(void)
{
	TT_CHECK(!halted(
		in_close_body,
		(struct cell){.n = 6, .servers = 2, .staleness = 1, .essp = 1, .victim = 3}, SHM));
}

/* ---- a server that is stopped for longer than a call waits ---- */

struct late {
	struct cell c;
	bool lost; /* a push finds no room in time */
};

/* A clock that has timed out lost nothing: the push before it arrives later. */
static int clock_late(struct mp_job *job, struct tutti_ps *ps, struct tutti_ps_table *t)
{
	float one = 1, got = 0;

	MP_OK(tutti_ps_push(t, &one, 0, 1, TUTTI_FLOAT32));
	MP_ERR(tutti_ps_clock(ps), -ETIMEDOUT);
	TT_EXPECT(!kill(atomic_load(&job->shared->pid[1]), SIGCONT));
	MP_OK(tutti_ps_clock_to(ps, 3));
	MP_OK(tutti_ps_pull(t, &got, 0, 1, TUTTI_FLOAT32));
	TT_EXPECT(got == 1);
	return 0;
}

static int push_late(struct mp_job *job, struct tutti_ps *ps, struct tutti_ps_table *t)
{
	TT_EXPECT(!fill(job, ps, t));
	MP_ERR(tutti_ps_push(t, v, 0, 1, TUTTI_FLOAT32), -ETIMEDOUT);
	TT_EXPECT(!kill(atomic_load(&job->shared->pid[1]), SIGCONT));
	return 0;
}

static int late_body(struct mp_job *job)
{
	const struct late *l = job->arg;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;

	TT_EXPECT(!open_ps(job, &l->c, &ps, &t));
	TT_EXPECT(!warm_up(job, &l->c, ps, t));
	if (!job->rank) {
		TT_EXPECT(!mp_stop(atomic_load(&job->shared->pid[1])));
		TT_EXPECT(!(l->lost ? push_late(job, ps, t) : clock_late(job, ps, t)));
		atomic_store(&job->shared->word[READY], 1);
	}
	TT_EXPECT(mp_await(&job->shared->word[READY], 1, MP_HANG_MS));
	MP_ERR(tutti_ps_close(ps), l->lost ? -ETIMEDOUT : 0);
	if (l->lost)
		mp_leave_failed(job);
	return 0;
}

static void late(void)
{
	struct late l = {.c = {.n = 3, .first = 1, .servers = 2}};

	TT_CHECK(!MP_RUN(.n = 3, .fn = late_body, .arg = &l, .env = SHM));
	l.lost = true;
	TT_CHECK(!MP_RUN(.n = 3, .fn = late_body, .arg = &l, .env = SHM));
}

/* ---- rank 0 is stopped, by way of which the others would hear of each other ---- */

#define SOON " TUTTI_TIMEOUT=4s TUTTI_HEARTBEAT_LIMIT=10s"

/* Those whose calls have failed exit at once, as a program does. */
static int alone_body(struct mp_job *job)
{
	const struct cell *c = job->arg;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	int err;

	TT_EXPECT(!open_ps(job, c, &ps, &t));
	TT_EXPECT(!warm_up(job, c, ps, t));
	while (!job->rank)
		pause();
	if (job->rank == 1) {
		TT_EXPECT(!mp_stop(atomic_load(&job->shared->pid[0])));
		atomic_store(&job->shared->word[READY], 1);
	}
	TT_EXPECT(mp_await(&job->shared->word[READY], 1, MP_HANG_MS));
	err = close_for(job, ps, 0);
	if (atomic_fetch_add(&job->shared->word[CLOSED], 1) == job->n - 2)
		kill(atomic_load(&job->shared->pid[0]), SIGKILL);
	_exit(err != 0);
}

/*
 * The servers give up first. A worker that has not heard of it learns from its control thread that
 * they have ended, before its own deadline.
 */
static void alone(void)
{
	struct cell c = {.n = 4, .first = 2, .servers = 2, .staleness = 1};

	TT_CHECK(!halted(alone_body, c, "TUTTI_TRANSPORT=shm" SOON));
	if (!mp_no_ofi())
		TT_CHECK(!halted(alone_body, c, "TUTTI_TRANSPORT=ofi" SOON));
	c.essp = 1;
	if (!mp_brief())
		TT_CHECK(!halted(alone_body, c, "TUTTI_TRANSPORT=shm" SOON));
}

/* ---- ranks that wait for each other ---- */

/*
 * Rank 2 waits in a barrier for rank 3, which waits in tutti_ps_close for rank 2. No server is
 * named, but the worker that has not called, and both calls.
 */
static int circle_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	const struct cell *c = job->arg;
	struct tutti_comm *workers;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;

	MP_OK(tutti_comm_split(job->world, job->rank >= c->servers, job->rank, &workers));
	MP_OK(tutti_comm_set_timeout(workers, MP_HANG_MS));
	TT_EXPECT(!open_ps(job, c, &ps, &t));
	TT_EXPECT(!warm_up(job, c, ps, t));
	if (job->rank == 2)
		tutti_barrier(workers);
	MP_ERR(tutti_ps_close(ps), -ETIMEDOUT);
	MP_OK(tutti_last_error(&info));
	if (info.rank != 2)
		mp_failed(job, info.text, info.rank, __FILE__, __LINE__);
	TT_EXPECT(info.rank == 2 && mp_said("worker 0 (rank 2 on host"));
	TT_EXPECT(mp_said("it is in barrier #") && mp_said("waits for rank 3"));
	TT_EXPECT(mp_said("which is in ps_close of"));
	if (job->rank == 3)
		tutti_barrier(workers);
	MP_OK(tutti_comm_free(workers));
	/* between hosts, who frees memory of a server that has failed cuts its connection */
	return mp_leave_failed(job);
}

static void circle(void)
{
	struct cell c = {.n = 4, .servers = 2, .staleness = 0};

	TT_CHECK(!MP_RUN(.n = 4, .fn = circle_body, .arg = &c, .env = SHM));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 4, .fn = circle_body, .arg = &c,
				 .env = "TUTTI_TRANSPORT=ofi" WAITS));
	c.staleness = ASYNC; /* the good-bye is answered at once */
	TT_CHECK(!MP_RUN(.n = 4, .fn = circle_body, .arg = &c, .env = SHM));
}

/* Ranks have both roles. Rank 2, for which rank 1 waits, is in no call: it is named. */
static int idle_body(struct mp_job *job)
{
	const struct cell *c = job->arg;
	struct tutti_comm *others;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;

	MP_OK(tutti_comm_split(job->world, job->rank > 0, job->rank, &others));
	MP_OK(tutti_comm_set_timeout(others, MP_HANG_MS));
	TT_EXPECT(!open_ps(job, c, &ps, &t));
	TT_EXPECT(!warm_up(job, c, ps, t));
	if (job->rank == 0) {
		TT_EXPECT(!close_for(job, ps, 2));
		atomic_store(&job->shared->word[CLOSED], 1);
	} else {
		if (job->rank == 2)
			TT_EXPECT(mp_await(&job->shared->word[CLOSED], 1, MP_HANG_MS));
		MP_OK(tutti_barrier(others));
		MP_ERR(tutti_ps_close(ps), -ETIMEDOUT);
	}
	MP_OK(tutti_comm_free(others));
	return 0;
}

static void idle(void)
{
	struct cell c = {.n = 3, .servers = BOTH, .staleness = 1};

	TT_CHECK(!MP_RUN(.n = 3, .fn = idle_body, .arg = &c, .env = SHM));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"stopped", stopped}, {"full", full}, {"in_call", in_call}, {"in_close", in_close},
		{"relay", relay},     {"late", late}, {"alone", alone},	    {"idle", idle},
		{"circle", circle},   {NULL, NULL}};

	return tt_test_main("ps_close", tests, argc, argv);
}
