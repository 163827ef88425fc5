/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that need a server which is stopped, or has died: the error names the call, the table and
 * the server; that of a pull from a dead one names only the server. tutti_ps_close then reports the
 * server, not a worker whose death was tolerated. Calls that wait at a live server, for another
 * worker or a replica that is stopped, name that rank.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define COUNT 3000

enum which { PULL, PULL_VERSION, PUSH_VERSION };

struct plan {
	enum which call;
	int signal; /* to server 1; a stopped server is out of time, a dead one is gone */
	const char *says;
};

static int call_of(enum which call, struct tutti_ps_table *t)
{
	static float v[COUNT];
	uint64_t version = 0;

	switch (call) {
	case PULL:
		return tutti_ps_pull(t, v, 0, COUNT, TUTTI_FLOAT32);
	case PULL_VERSION:
		return tutti_ps_pull_version(t, v, COUNT, TUTTI_FLOAT32, &version);
	case PUSH_VERSION:
		return tutti_ps_push_version(t, v, COUNT, TUTTI_FLOAT32, &version);
	}
	return 0;
}

static int names_server(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};

	MP_SAID("rank 1");
	MP_OK(tutti_last_error(&info));
	TT_EXPECT(info.rank == 1);
	return 0;
}

/* Worker 0, after the death of worker 1, which is tolerated. */
static int work(struct mp_job *job, const struct plan *p, struct tutti_ps_table *t)
{
	int server = atomic_load(&job->shared->pid[1]), err = 0;
	double end = mp_now() + MP_HANG_MS / 1000;

	TT_EXPECT(!mp_await_death(job));
	if (p->signal == SIGSTOP)
		TT_EXPECT(!mp_stop(server));
	else
		TT_EXPECT(!kill(server, p->signal));
	while (!err && mp_now() < end)
		err = call_of(p->call, t);
	TT_EXPECT(err == (p->signal == SIGSTOP ? -ETIMEDOUT : -TUTTI_EPEER));
	TT_EXPECT(mp_said(p->says));
	return names_server(job);
}

static int body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO, .versions = 2};
	struct tutti_error_info info = {.size = sizeof(info)};
	const struct plan *p = job->arg;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;

	MP_OK(mp_ps_open(job, 2, TUTTI_PS_ASYNC, &ps));
	MP_OK(tutti_ps_dense(ps, "weights", COUNT, TUTTI_FLOAT32, &opt, &t));
	if (job->rank == 2) {
		MP_OK(call_of(PUSH_VERSION, t)); /* makes the connections */
		MP_OK(call_of(PULL, t));
	}
	mp_meet(job);
	if (job->rank == 3)
		raise(SIGKILL);
	if (job->rank == 2) {
		TT_EXPECT(!work(job, p, t));
		atomic_store(&job->shared->word[0], 1);
		TT_EXPECT(tutti_ps_close(ps));
		MP_OK(tutti_last_error(&info));
		TT_EXPECT(info.rank == 1);
		kill(atomic_load(&job->shared->pid[1]), SIGKILL);
	} else { /* serves meanwhile */
		TT_EXPECT(mp_await(&job->shared->word[0], 1, 30000));
		TT_EXPECT(tutti_ps_close(ps));
	}
	mp_leave_failed(job);
	return 0;
}

static void run(enum which call, int signal, const char *says)
{
	struct plan p = {.call = call, .signal = signal, .says = says};

	TT_CHECK(!MP_RUN(.n = 4, .fn = body, .arg = &p, .killed = 1u << 1 | 1u << 3,
			 .env = "TUTTI_TRANSPORT=ofi TUTTI_TIMEOUT=2s TUTTI_HEARTBEAT_LIMIT=60s"));
}

static void stopped(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	run(PULL, SIGSTOP, "ps_pull of table 'weights'");
	run(PULL_VERSION, SIGSTOP, "ps_pull_version of table 'weights'");
	run(PUSH_VERSION, SIGSTOP, "ps_push_version of table 'weights'");
}

static void dead(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	run(PULL, SIGKILL, "rank 1");
	run(PULL_VERSION, SIGKILL, "ps_pull_version of table 'weights'");
	run(PUSH_VERSION, SIGKILL, "ps_push_version of table 'weights'");
}

/* ---- one call, and one rank that is stopped ---- */

struct halt {
	int n, servers, copies, staleness;
	int victim, caller;
	int (*call)(struct tutti_ps *ps, struct tutti_ps_table *t, const char *dir);
	const char *says, *lacks;
};

static int push(struct tutti_ps *ps, struct tutti_ps_table *t, const char *dir)
{
	static float v[COUNT];

	(void)ps, (void)dir;
	return tutti_ps_push(t, v, 0, COUNT, TUTTI_FLOAT32);
}

static int tick(struct tutti_ps *ps, struct tutti_ps_table *t, const char *dir)
{
	(void)t, (void)dir;
	return tutti_ps_clock(ps);
}

static int save(struct tutti_ps *ps, struct tutti_ps_table *t, const char *dir)
{
	char path[128];

	(void)t;
	snprintf(path, sizeof(path), "%s/checkpoint", dir);
	return tutti_ps_save(ps, path);
}

static int call_alone(struct mp_job *job, const struct halt *h, struct tutti_ps *ps,
		      struct tutti_ps_table *t)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	double end = mp_now() + MP_HANG_MS / 1000;
	int err = 0;

	TT_EXPECT(!mp_stop(atomic_load(&job->shared->pid[h->victim])));
	while (!err && mp_now() < end)
		err = h->call(ps, t, job->shared->dir);
	MP_ERR(err, -ETIMEDOUT);
	MP_OK(tutti_last_error(&info));
	TT_EXPECT(info.rank == h->victim && mp_said(h->says) && mp_said("it may be stopped"));
	TT_EXPECT(!h->lacks || !mp_said(h->lacks));
	return 0;
}

static int halt_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	const struct halt *h = job->arg;
	struct tutti_ps_config config = {.size = sizeof(config),
					 .copies = h->copies,
					 .staleness = h->staleness,
					 .role = job->rank < h->servers ? TUTTI_PS_SERVER
									: TUTTI_PS_WORKER};
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	int err = 0;

	MP_OK(tutti_ps_open(job->world, &config, &ps));
	MP_OK(tutti_ps_dense(ps, "weights", COUNT, TUTTI_FLOAT32, &opt, &t));
	mp_meet(job);
	while (job->rank == h->victim) /* until it is killed */
		pause();
	if (job->rank == h->caller) {
		err = call_alone(job, h, ps, t);
		atomic_store(&job->shared->word[0], 1);
	}
	TT_EXPECT(mp_await(&job->shared->word[0], 1, MP_HANG_MS)); /* servers serve meanwhile */
	TT_EXPECT(tutti_ps_close(ps));
	atomic_fetch_add(&job->shared->word[1], 1);
	TT_EXPECT(mp_await(&job->shared->word[1], job->n - 1, MP_HANG_MS));
	if (job->rank == h->caller)
		kill(atomic_load(&job->shared->pid[h->victim]), SIGKILL);
	mp_leave_failed(job);
	return err;
}

#define WAITS " TUTTI_TIMEOUT=2s TUTTI_HEARTBEAT_LIMIT=60s"

static int halted(struct halt h, const char *env)
{
	return MP_RUN(.n = h.n, .fn = halt_body, .arg = &h, .killed = 1u << h.victim, .env = env);
}

#define ASYNC TUTTI_PS_ASYNC

/* Rank 4 has no connection to rank 1 yet: what it sends waits for that. */
static void unconnected(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!halted((struct halt){.n = 6,
				       .servers = 2,
				       .staleness = ASYNC,
				       .victim = 1,
				       .caller = 4,
				       .call = push,
				       .says = "server 1 (rank 1 on"},
			 "TUTTI_TRANSPORT=ofi" WAITS));
	TT_CHECK(!halted((struct halt){.n = 6,
				       .servers = 2,
				       .staleness = ASYNC,
				       .victim = 1,
				       .caller = 4,
				       .call = tick,
				       .says = "server 1 (rank 1 on"},
			 "TUTTI_TRANSPORT=ofi" WAITS));
}

/* The clock of a stopped server does not move, but no worker is slow. */
static void clocks(void)
{
	TT_CHECK(!halted((struct halt){.n = 3,
				       .servers = 2,
				       .victim = 1,
				       .caller = 2,
				       .call = tick,
				       .says = "server 1 (rank 1 on",
				       .lacks = "slowest"},
			 "TUTTI_TRANSPORT=shm" WAITS));
	TT_CHECK(!halted((struct halt){.n = 3,
				       .servers = 1,
				       .victim = 2,
				       .caller = 1,
				       .call = tick,
				       .says = "the slowest is at 0: worker 1"},
			 "TUTTI_TRANSPORT=shm" WAITS));
}

/*
 * Worker 0 is the slowest at first, and the server has told so. Then it ends its clock, and only
 * worker 1 has not: it is stopped.
 */
static int overtaken_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_request *request;
	struct tutti_ps *ps;

	MP_OK(mp_ps_open(job, 1, 0, &ps));
	mp_meet(job);
	while (job->rank == 2) /* until it is killed */
		pause();
	if (job->rank == 3) {
		TT_EXPECT(!mp_stop(atomic_load(&job->shared->pid[2])));
		MP_OK(tutti_ps_iclock(ps, &request));
		atomic_store(&job->shared->word[0], 1);
		MP_ERR(tutti_wait(&request), -ETIMEDOUT);
		MP_OK(tutti_last_error(&info));
		TT_EXPECT(info.rank == 2 &&
			  mp_said("the slowest is at 0: worker 1, rank 2 on host"));
		atomic_store(&job->shared->word[0], 2);
	} else if (job->rank == 1) {
		TT_EXPECT(mp_await(&job->shared->word[0], 1, MP_HANG_MS));
		mp_sleep_ms(500);
		MP_ERR(tutti_ps_clock(ps), -ETIMEDOUT);
	}
	TT_EXPECT(mp_await(&job->shared->word[0], 2, MP_HANG_MS));
	TT_EXPECT(tutti_ps_close(ps));
	if (atomic_fetch_add(&job->shared->word[1], 1) == 2)
		kill(atomic_load(&job->shared->pid[2]), SIGKILL);
	TT_EXPECT(mp_await(&job->shared->word[1], 3, MP_HANG_MS));
	mp_leave_failed(job);
	return 0;
}

static void overtaken(void)
{
	TT_CHECK(!MP_RUN(.n = 4, .fn = overtaken_body, .killed = 1u << 2,
			 .env = "TUTTI_TRANSPORT=shm" WAITS));
}

/* Server 1 answers when rank 2, with its replica, has what it was sent. */
static void replica(void)
{
	TT_CHECK(!halted((struct halt){.n = 4,
				       .servers = 3,
				       .copies = 2,
				       .staleness = ASYNC,
				       .victim = 2,
				       .caller = 3,
				       .call = push,
				       .says = "server 1 (rank 1 on"},
			 "TUTTI_TRANSPORT=shm" WAITS));
}

static void meeting(void)
{
	TT_CHECK(!halted((struct halt){.n = 3,
				       .servers = 1,
				       .victim = 2,
				       .caller = 1,
				       .call = save,
				       .says = "worker 1, rank 2 on host"},
			 "TUTTI_TRANSPORT=shm" WAITS));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"stopped", stopped},	     {"dead", dead},
					       {"unconnected", unconnected}, {"clocks", clocks},
					       {"overtaken", overtaken},     {"replica", replica},
					       {"meeting", meeting},	     {NULL, NULL}};

	return tt_test_main("ps_silent", tests, argc, argv);
}
