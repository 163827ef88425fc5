/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deadlines of receives and probes: those of the waits for them, of the job, a communicator or a
 * request; what a wait reports at its deadline, and that the communicator goes on.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "lib/engine/engine.h"

#define PATIENCE 30000 /* ms */
#define ANSWERED 1000  /* the source answers within half of this */
#define SHM "TUTTI_TRANSPORT=shm "
#define OFI "TUTTI_TRANSPORT=ofi TUTTI_IF=lo "

static void on_both(mp_fn *fn, const char *env)
{
	char both[256];

	snprintf(both, sizeof(both), SHM "%s", env);
	TT_CHECK(!MP_RUN(.n = 2, .env = both, .fn = fn));
	if (mp_no_ofi())
		return;
	snprintf(both, sizeof(both), OFI "%s", env);
	TT_CHECK(!MP_RUN(.n = 2, .env = both, .fn = fn));
}

/*
 * A number goes to the other rank and back over comm, and a barrier. With patience, here and
 * wherever a deadline is not the subject: the machine may be busy.
 */
static int works(struct mp_job *job, struct tutti_comm *comm)
{
	int out = job->rank + 40, in = 0;

	MP_OK(tutti_comm_set_timeout(comm, PATIENCE));
	MP_OK(tutti_sendrecv(&out, 1, TUTTI_INT32, !job->rank, 77, &in, 1, TUTTI_INT32, !job->rank,
			     77, comm, NULL));
	TT_EXPECT(in == !job->rank + 40);
	MP_OK(tutti_barrier(comm));
	return 0;
}

/* ---- a receive that is posted early ---- */

/*
 * Its message comes long after the job's timeout; other messages and collectives do not suffer.
 * Rank 0 decides by the clock when to end.
 */
static int early_body(struct mp_job *job)
{
	struct tutti_request *req;
	int got = 0, more = 1, v = 12;
	double end = mp_now() + 0.6;

	MP_OK(tutti_irecv(&got, 1, TUTTI_INT32, !job->rank, 1, job->world, NULL, &req));
	MP_OK(tutti_comm_set_timeout(job->world, PATIENCE)); /* of the calls in the loop */
	while (more) {
		more = mp_now() < end;
		MP_OK(tutti_bcast(&more, 1, TUTTI_INT32, 0, job->world));
		TT_EXPECT(!works(job, job->world));
	}
	MP_OK(tutti_send(&v, 1, TUTTI_INT32, !job->rank, 1, job->world));
	MP_OK(tutti_wait(&req));
	TT_EXPECT(got == 12);
	return 0;
}

static void early(void)
{
	on_both(early_body, "TUTTI_TIMEOUT=300ms");
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM "TUTTI_TIMEOUT=300ms TUTTI_PROGRESS=thread",
			 .fn = early_body));
}

/* ---- the text, and the communicator afterwards ---- */

enum { RECV, WAIT, PROBE, WAITALL, WAITANY, GROUP, HOWS };

static int wait_in_vain(struct mp_job *job, int how, int *buf)
{
	struct tutti_request *req[2] = {NULL, NULL};
	int index = -7, err = 0;

	if (how == RECV)
		return tutti_recv(buf, 1, TUTTI_INT32, 1, 5, job->world, NULL);
	if (how == PROBE)
		return tutti_probe(1, 5, job->world, NULL);
	if (how == GROUP) {
		MP_OK(tutti_group_start());
		MP_OK(tutti_recv(buf, 1, TUTTI_INT32, 1, 5, job->world, NULL));
		MP_OK(tutti_recv(buf + 1, 1, TUTTI_INT32, 1, 6, job->world, NULL));
		return tutti_group_end();
	}
	MP_OK(tutti_irecv(buf, 1, TUTTI_INT32, 1, 5, job->world, NULL, &req[1]));
	if (how == WAIT)
		err = tutti_wait(&req[1]);
	else if (how == WAITALL)
		err = tutti_waitall(2, req);
	else
		err = tutti_waitany(2, req, &index);
	TT_EXPECT(!req[1] && (how != WAITANY || index == 1));
	return err;
}

/* Receives in vain until the text has these words: a busy source may be slow to call or answer. */
static int vain_says(struct mp_job *job, int *buf, const char *words)
{
	int i;

	for (i = 0; i < 10; i++) {
		MP_ERR(tutti_recv(buf, 1, TUTTI_INT32, 1, 5, job->world, NULL), -ETIMEDOUT);
		if (mp_said(words))
			return 0;
	}
	mp_failed(job, words, 0, __FILE__, __LINE__);
	return 1;
}

static int vain_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	int how, v = 3, buf[2] = {0x55, 0x55}, got = 0;

	for (how = 0; how < HOWS; how++) {
		TT_EXPECT(!works(job, job->world));
		if (job->rank == 0) {
			MP_OK(tutti_comm_set_timeout(job->world, how == RECV ? ANSWERED : 0));
			MP_ERR(wait_in_vain(job, how, buf), -ETIMEDOUT);
			if (how == RECV)
				TT_EXPECT(!vain_says(job, buf, "; it is in barrier #"));
			else
				MP_SAID("timed out after 200 ms (TUTTI_TIMEOUT)");
			MP_SAID("rank 1 on host");
			MP_SAID("has not sent it");
			MP_OK(tutti_comm_set_timeout(job->world, PATIENCE));
			TT_EXPECT(!mp_said("Connection"));
			MP_OK(tutti_last_error(&info));
			TT_EXPECT(info.rank == 1 && info.host[0]);
			TT_EXPECT(!strcmp(info.call, how == PROBE ? "probe" : "recv"));
		}
		MP_OK(tutti_barrier(job->world));
		/* the cancelled receive takes nothing */
		if (job->rank == 1)
			MP_OK(tutti_send(&v, 1, TUTTI_INT32, 0, 5, job->world));
		else
			MP_OK(tutti_recv(&got, 1, TUTTI_INT32, 1, 5, job->world, NULL));
		TT_EXPECT(job->rank || (got == 3 && buf[0] == 0x55 && buf[1] == 0x55));
	}
	return 0;
}

/* The source makes no call, or does not run at all. */
static int idle_body(struct mp_job *job)
{
	int v;

	TT_EXPECT(!works(job, job->world));
	if (job->rank == 0) {
		MP_OK(tutti_comm_set_timeout(job->world, ANSWERED));
		TT_EXPECT(!vain_says(job, &v,
				     "it has nothing under way; its last call, barrier, ended"));
		MP_OK(tutti_comm_set_timeout(job->world, 0));
		TT_EXPECT(!mp_stop(job->shared->pid[1]));
		MP_ERR(tutti_recv(&v, 1, TUTTI_INT32, 1, 5, job->world, NULL), -ETIMEDOUT);
		kill(job->shared->pid[1], SIGCONT);
		MP_SAID("it does not answer when asked what it is doing");
		MP_ERR(tutti_recv(&v, 1, TUTTI_INT32, 0, 5, job->world, NULL), -ETIMEDOUT);
		MP_SAID("rank 0 on host");
		MP_ERR(tutti_recv(&v, 1, TUTTI_INT32, TUTTI_ANY_SOURCE, 5, job->world, NULL),
		       -ETIMEDOUT);
		MP_SAID("no rank has sent it");
	}
	mp_meet(job);
	return works(job, job->world);
}

static void vain(void)
{
	on_both(vain_body, "TUTTI_TIMEOUT=200ms");
	on_both(idle_body, "TUTTI_TIMEOUT=200ms");
}

/* ---- timeouts of a communicator and of a request ---- */

static int timeouts_body(struct mp_job *job)
{
	struct tutti_comm *dup;
	struct tutti_request *req;
	int v = 0, i;

	MP_OK(tutti_comm_dup(job->world, &dup));
	if (job->rank == 0) {
		MP_OK(tutti_comm_set_timeout(dup, 150));
		MP_ERR(tutti_recv(&v, 1, TUTTI_INT32, 1, 5, dup, NULL), -ETIMEDOUT);
		MP_SAID("timed out after 150 ms (tutti_comm_set_timeout)");
		MP_OK(tutti_recv_init(&v, 1, TUTTI_INT32, 1, 5, dup, NULL, &req));
		MP_OK(tutti_request_set_timeout(req, 120));
		for (i = 0; i < 3; i++) {
			MP_OK(tutti_start(req));
			MP_ERR(tutti_wait(&req), -ETIMEDOUT);
			MP_SAID("timed out after 120 ms (tutti_request_set_timeout)");
			TT_EXPECT(req != NULL);
		}
		MP_OK(tutti_request_set_timeout(req, 0));
		MP_OK(tutti_start(req));
		MP_ERR(tutti_wait(&req), -ETIMEDOUT);
		MP_SAID("150 ms (tutti_comm_set_timeout)");
		MP_OK(tutti_request_free(req));
		MP_ERR(tutti_comm_set_timeout(dup, -2), -EINVAL);
		MP_OK(tutti_comm_set_timeout(dup, 0));
	}
	mp_meet(job);
	TT_EXPECT(!works(job, dup));
	/* a send of a request with a short timeout fails its communicator, behind a patient one */
	if (job->rank == 0) {
		static char big[100000];
		struct tutti_request *slow, *fast;

		MP_OK(tutti_isend(big, sizeof(big), TUTTI_UINT8, 1, 8, dup, &slow));
		MP_OK(tutti_isend(big, sizeof(big), TUTTI_UINT8, 1, 8, dup, &fast));
		MP_OK(tutti_request_set_timeout(slow, TUTTI_NEVER));
		MP_OK(tutti_request_set_timeout(fast, 200));
		MP_ERR(tutti_wait(&slow), -ETIMEDOUT);
		MP_SAID("did not finish within 200 ms (tutti_request_set_timeout)");
		MP_ERR(tutti_wait(&fast), -ETIMEDOUT);
	}
	mp_meet(job);
	TT_EXPECT(!works(job, job->world));
	MP_OK(tutti_comm_free(dup));
	return 0;
}

/* Longer than the job's timeout, because the caller wants it so. */
static int never_body(struct mp_job *job)
{
	struct tutti_request *req;
	int v = 7, got = 0;

	if (job->rank) /* a short send does not wait, but its connection may */
		MP_OK(tutti_comm_set_timeout(job->world, PATIENCE));

	if (job->rank == 0) {
		MP_OK(tutti_irecv(&got, 1, TUTTI_INT32, 1, 1, job->world, NULL, &req));
		MP_OK(tutti_request_set_timeout(req, TUTTI_NEVER));
		MP_OK(tutti_wait(&req));
		MP_OK(tutti_comm_set_timeout(job->world, TUTTI_NEVER));
		MP_OK(tutti_recv(&got, 1, TUTTI_INT32, 1, 2, job->world, NULL));
		TT_EXPECT(got == 7);
	} else {
		mp_sleep_ms(450);
		MP_OK(tutti_send(&v, 1, TUTTI_INT32, 0, 1, job->world));
		mp_sleep_ms(450);
		MP_OK(tutti_send(&v, 1, TUTTI_INT32, 0, 2, job->world));
	}
	mp_meet(job);
	return works(job, job->world);
}

static void timeouts(void)
{
	on_both(timeouts_body, "");
	on_both(never_body, "TUTTI_TIMEOUT=200ms");
}

/* ---- a message that has matched, but does not come ---- */

/* The wait ends, the request stays; a test or the second wait finds the message. */
static int matched_body(struct mp_job *job)
{
	size_t n = 3u << 20, i;
	struct tutti_request *req[2] = {NULL, NULL};
	struct tutti_status status;
	atomic_int *here = &job->shared->word[0]; /* messages whose header rank 0 has */
	int index = -1, all, done;
	char *buf;

	MP_OK(tutti_alloc(job->ctx, n, (void **)&buf));
	for (all = 0; all < 3; all++) {
		TT_EXPECT(!works(job, job->world));
		memset(buf, job->rank ? 9 + all : 0, n);
		if (job->rank == 1) {
			MP_OK(tutti_isend(buf, n, TUTTI_UINT8, 0, 3, job->world, &req[1]));
			while (atomic_load(here) <= all)
				MP_OK(tutti_test(&req[1], &done));
			mp_meet(job);
			mp_meet(job); /* no call until rank 0's wait has ended */
			MP_OK(tutti_wait(&req[1]));
			continue;
		}
		MP_OK(tutti_probe(1, 3, job->world, &status));
		atomic_store(here, all + 1);
		mp_meet(job);
		status.source = -1;
		MP_OK(tutti_irecv(buf, n, TUTTI_UINT8, 1, 3, job->world, &status, &req[1]));
		MP_OK(tutti_request_set_timeout(req[1], 300));
		MP_ERR(all == 0	  ? tutti_wait(&req[1])
		       : all == 1 ? tutti_waitall(2, req)
				  : tutti_waitany(2, req, &index),
		       -ETIMEDOUT);
		MP_SAID("it came from rank 1");
		MP_SAID("but not all of its 3145728 bytes");
		TT_EXPECT(req[1] && status.source == 1 && (all < 2 || index == 1));
		MP_OK(tutti_cancel(req[1])); /* without effect */
		mp_meet(job);
		MP_OK(tutti_request_set_timeout(req[1], 0));
		do /* a test makes progress, too */
			MP_OK(all ? tutti_wait(&req[1]) : tutti_test(&req[1], &done));
		while (req[1]);
		for (i = 0; i < n; i++)
			TT_EXPECT(buf[i] == 9 + all);
	}
	TT_EXPECT(!works(job, job->world));
	MP_OK(tutti_free(buf));
	return 0;
}

static void matched(void)
{
	on_both(matched_body, "");
}

/* ---- deaths ---- */

/* Of the source, or of a third rank: the wait ends because of it, before its deadline. */
static int death_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_request *req;
	int v, source = *(const int *)job->arg;
	double start;

	MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_irecv(&v, 1, TUTTI_INT32, source, 5, job->world, NULL, &req));
	MP_OK(tutti_request_set_timeout(req, TUTTI_NEVER));
	mp_meet(job);
	if (job->rank == 2)
		raise(SIGKILL);
	start = mp_now();
	MP_ERR(tutti_wait(&req), -TUTTI_EPEER);
	TT_EXPECT(!req && mp_now() - start < 40);
	MP_OK(tutti_comm_error(job->world, &info));
	TT_EXPECT(info.rank == 2);
	mp_leave(job);
	return 0;
}

static void deaths(void)
{
	int source;

	for (source = 1; source <= 2; source++) {
		TT_CHECK(
			!MP_RUN(.n = 3, .env = SHM, .fn = death_body, .killed = 4, .arg = &source));
		if (!mp_no_ofi())
			TT_CHECK(!MP_RUN(.n = 3, .env = OFI, .fn = death_body, .killed = 4,
					 .arg = &source));
	}
}

static int alone_body(struct mp_job *job)
{
	struct tutti_request *req;
	int v = 4, got = 0;

	MP_ERR(tutti_recv(&got, 1, TUTTI_INT32, 0, 1, job->world, NULL), -ETIMEDOUT);
	MP_OK(tutti_comm_set_timeout(job->world, PATIENCE));
	MP_OK(tutti_irecv(&got, 1, TUTTI_INT32, 0, 1, job->world, NULL, &req));
	MP_OK(tutti_send(&v, 1, TUTTI_INT32, 0, 1, job->world));
	MP_OK(tutti_wait(&req));
	TT_EXPECT(got == 4);
	return 0;
}

struct mover {
	struct tt_stalled stalled;
	struct tutti_context *ctx;
	unsigned step, each;
};

static void move(struct tt_stalled *stalled)
{
	struct mover *mover = tt_container(stalled, struct mover, stalled);

	mover->ctx->moves += mover->step++ % mover->each == 0;
}

/* Progress of other operations, in every step or in every other, does not put the deadline off. */
static int moving_body(struct mp_job *job)
{
	struct mover mover = {.stalled.again = move, .ctx = job->ctx, .each = 1};
	int v;

	tt_list_init(&mover.stalled.link);
	tt_wire_lock(job->ctx->wire);
	tt_list_add(&job->ctx->stalled, &mover.stalled.link);
	tt_wire_unlock(job->ctx->wire);
	for (; mover.each <= 2; mover.each++) {
		MP_ERR(tutti_recv(&v, 1, TUTTI_INT32, 0, 1, job->world, NULL), -ETIMEDOUT);
		MP_SAID("timed out after 200 ms");
	}
	tt_wire_lock(job->ctx->wire);
	tt_list_del(&mover.stalled.link);
	tt_wire_unlock(job->ctx->wire);
	return 0;
}

static void self(void)
{
	TT_CHECK(!MP_RUN(.n = 1, .env = "TUTTI_TIMEOUT=200ms", .fn = alone_body));
	TT_CHECK(!MP_RUN(.n = 1, .env = "TUTTI_TIMEOUT=200ms TUTTI_WAIT=spin", .fn = moving_body,
			 .timeout_ms = 20000));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"early", early},   {"vain", vain}, {"timeouts", timeouts}, {"matched", matched},
		{"deaths", deaths}, {"self", self}, {NULL, NULL},
	};

	return tt_test_main("deadlines", tests, argc, argv);
}
