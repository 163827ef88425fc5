/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that are there when a rank of a tolerant communicator dies: those of the dead rank, and
 * those of live ranks while the death is not acknowledged. The receivers make no call between the
 * arrival and their receive.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#define RANKS 3
#define VICTIM 2
#define SERIES 20
#define AHEAD 36
#define AHEAD_SHM 28 /* of its ring's 252 lines, and 16 entries are taken at a time */
#define LONG 30000   /* elements: several times the eager limit */

enum tag {
	RECV,
	FROM_ANY,
	IRECV,
	PROBE,
	IPROBE,
	MPROBE,
	IMPROBE,
	WAITED,
	TESTED,
	KINDS,
	IN_SERIES = KINDS,
	TOO_LONG,
	WARM,
	LIVE, /* and the tags from here on */
};

/* Words of the job. */
enum { SENT = 1, MET, LIVE_SENT };

struct set {
	bool cold; /* no connections and no posted receives before the victim sends */
	int ahead; /* messages before the one that is awaited */
};

static int32_t value_of(int from, int tag)
{
	return from * 1000 + tag;
}

static int send_one(struct mp_job *job, int to, int tag)
{
	int32_t x = value_of(job->rank, tag);

	MP_OK(tutti_send(&x, 1, TUTTI_INT32, to, tag, job->world));
	return 0;
}

static int recv_one(struct mp_job *job, int source, int from, int tag)
{
	struct tutti_status status = {0};
	int32_t x = -1;

	MP_OK(tutti_recv(&x, 1, TUTTI_INT32, source, tag, job->world, &status));
	TT_EXPECT(x == value_of(from, tag) && status.source == from);
	return 0;
}

/* So that all ranks are connected. */
static int warm(struct mp_job *job)
{
	int r;

	for (r = 0; r < RANKS; r++)
		if (r != job->rank)
			TT_EXPECT(!send_one(job, r, WARM));
	for (r = 0; r < RANKS; r++)
		if (r != job->rank)
			TT_EXPECT(!recv_one(job, r, r, WARM));
	return 0;
}

static void die(struct mp_job *job)
{
	int i, found;

	for (i = 0; i < 20; i++) { /* what other ranks have sent is read */
		(void)tutti_iprobe(job->rank, WARM, job->world, &found, NULL);
		mp_sleep_ms(1);
	}
	atomic_store(&job->shared->word[SENT], 1);
	kill(getpid(), SIGKILL);
}

static int send_and_die(struct mp_job *job)
{
	static int32_t many[LONG];
	struct tutti_request *request;
	int tag, i, r;

	for (r = 0; r < VICTIM; r++) {
		for (tag = 0; tag < KINDS; tag++)
			TT_EXPECT(!send_one(job, r, tag));
		MP_OK(tutti_isend(many, LONG, TUTTI_INT32, r, TOO_LONG, job->world, &request));
		for (i = 0; i < SERIES; i++)
			MP_OK(tutti_send(&i, 1, TUTTI_INT32, r, IN_SERIES, job->world));
	}
	die(job);
	return 1;
}

/* Waits for the death, without a call that receives. */
static int hear(struct mp_job *job)
{
	struct tutti_failed list[RANKS];
	double until = mp_now() + 30;
	int n = 0;

	TT_EXPECT(mp_await(&job->shared->word[SENT], 1, 30000));
	while (!n && mp_now() < until) {
		MP_OK(tutti_comm_failed(job->world, list, RANKS, &n));
		mp_sleep_ms(1);
	}
	TT_EXPECT(n == 1 && list[0].rank == VICTIM);
	mp_sleep_ms(30); /* the communicator hears of it, too */
	return 0;
}

/* The survivors. */
static void meet(struct mp_job *job)
{
	atomic_fetch_add(&job->shared->word[MET], 1);
	mp_await(&job->shared->word[MET], VICTIM, 30000);
}

static int probed(struct mp_job *job, int source, int from, int first)
{
	struct tutti_status status = {0};
	struct tutti_message *message = NULL;
	int32_t x = -1;
	int found = 0;

	MP_OK(tutti_probe(source, first, job->world, &status));
	TT_EXPECT(status.source == from && status.bytes == 4);
	TT_EXPECT(!recv_one(job, source, from, first));
	MP_OK(tutti_iprobe(source, first + 1, job->world, &found, &status));
	TT_EXPECT(found && status.source == from);
	TT_EXPECT(!recv_one(job, source, from, first + 1));
	MP_OK(tutti_mprobe(source, first + 2, job->world, &message, &status));
	MP_OK(tutti_mrecv(&x, 1, TUTTI_INT32, &message, NULL));
	TT_EXPECT(x == value_of(from, first + 2));
	MP_OK(tutti_improbe(source, first + 3, job->world, &found, &message, &status));
	TT_EXPECT(found);
	MP_OK(tutti_mrecv(&x, 1, TUTTI_INT32, &message, NULL));
	TT_EXPECT(x == value_of(from, first + 3));
	return 0;
}

/* Of the dead rank: everything but the payload that it kept. */
static int of_the_dead(struct mp_job *job)
{
	struct tutti_request *request;
	static int32_t many[LONG];
	int32_t x = -1;
	int i, found;

	TT_EXPECT(!recv_one(job, VICTIM, VICTIM, RECV));
	TT_EXPECT(!recv_one(job, TUTTI_ANY_SOURCE, VICTIM, FROM_ANY));
	MP_OK(tutti_irecv(&x, 1, TUTTI_INT32, VICTIM, IRECV, job->world, NULL, &request));
	MP_OK(tutti_wait(&request));
	TT_EXPECT(x == value_of(VICTIM, IRECV));
	TT_EXPECT(!probed(job, VICTIM, VICTIM, PROBE));
	for (i = 0; i < SERIES; i++) {
		MP_OK(tutti_recv(&x, 1, TUTTI_INT32, VICTIM, IN_SERIES, job->world, NULL));
		TT_EXPECT(x == i);
	}
	MP_ERR(tutti_recv(many, LONG, TUTTI_INT32, VICTIM, TOO_LONG, job->world, NULL),
	       -TUTTI_EPEER);
	MP_ERR(tutti_recv(&x, 1, TUTTI_INT32, VICTIM, RECV, job->world, NULL), -TUTTI_EPEER);
	MP_ERR(tutti_iprobe(VICTIM, RECV, job->world, &found, NULL), -TUTTI_EPEER);
	return 0;
}

/* Of a live rank, and of this one, while the death is not acknowledged. */
static int of_the_living(struct mp_job *job)
{
	int tag, found;
	int32_t x;

	meet(job);
	for (tag = LIVE; !job->rank && tag < LIVE + 5; tag++)
		TT_EXPECT(!send_one(job, 1, tag));
	if (!job->rank)
		atomic_store(&job->shared->word[LIVE_SENT], 1);
	TT_EXPECT(mp_await(&job->shared->word[LIVE_SENT], 1, 30000));
	if (job->rank) {
		TT_EXPECT(!recv_one(job, TUTTI_ANY_SOURCE, 0, LIVE));
		TT_EXPECT(!probed(job, TUTTI_ANY_SOURCE, 0, LIVE + 1));
	}
	for (tag = LIVE; tag < LIVE + 5; tag++)
		TT_EXPECT(!send_one(job, job->rank, tag));
	TT_EXPECT(!recv_one(job, TUTTI_ANY_SOURCE, job->rank, LIVE));
	TT_EXPECT(!probed(job, TUTTI_ANY_SOURCE, job->rank, LIVE + 1));
	MP_ERR(tutti_recv(&x, 1, TUTTI_INT32, TUTTI_ANY_SOURCE, LIVE, job->world, NULL),
	       -TUTTI_EPEER);
	MP_SAID("tutti_comm_ack_failed");
	MP_ERR(tutti_iprobe(TUTTI_ANY_SOURCE, LIVE, job->world, &found, NULL), -TUTTI_EPEER);
	return 0;
}

static int arrived_body(struct mp_job *job)
{
	const struct set *set = job->arg;
	struct tutti_request *waited = NULL, *tested = NULL;
	int32_t x = -1, y = -1;
	int done = 0;

	if (!set->cold)
		TT_EXPECT(!warm(job));
	if (!set->cold && job->rank != VICTIM) {
		MP_OK(tutti_irecv(&x, 1, TUTTI_INT32, VICTIM, WAITED, job->world, NULL, &waited));
		MP_OK(tutti_irecv(&y, 1, TUTTI_INT32, VICTIM, TESTED, job->world, NULL, &tested));
	}
	mp_meet(job);
	if (job->rank == VICTIM)
		return send_and_die(job);
	TT_EXPECT(!hear(job));
	while (tested && !done)
		MP_OK(tutti_test(&tested, &done));
	if (waited)
		MP_OK(tutti_wait(&waited));
	TT_EXPECT(set->cold || (x == value_of(VICTIM, WAITED) && y == value_of(VICTIM, TESTED)));
	TT_EXPECT(!of_the_dead(job));
	TT_EXPECT(!of_the_living(job));
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

/* More than one look at the transports handles, then the message itself. */
static int send_posted(struct mp_job *job, int ahead)
{
	int i;

	for (i = 0; i < ahead; i++)
		TT_EXPECT(!send_one(job, 1, LIVE + 1));
	TT_EXPECT(!send_one(job, 1, LIVE));
	atomic_store(&job->shared->word[LIVE_SENT], 1);
	return 0;
}

/* A receive from any source that was posted before the death, and its message came later. */
static int posted_body(struct mp_job *job)
{
	int i, ahead = ((const struct set *)job->arg)->ahead;
	struct tutti_status status = {0};
	struct tutti_request *posted = NULL;
	int32_t x = -1;

	TT_EXPECT(!warm(job));
	if (job->rank == 1)
		MP_OK(tutti_irecv(&x, 1, TUTTI_INT32, TUTTI_ANY_SOURCE, LIVE, job->world, &status,
				  &posted));
	mp_meet(job);
	if (job->rank == VICTIM)
		die(job);
	TT_EXPECT(!hear(job));
	if (!job->rank)
		TT_EXPECT(!send_posted(job, ahead));
	TT_EXPECT(mp_await(&job->shared->word[LIVE_SENT], 1, 30000));
	if (job->rank) {
		MP_OK(tutti_wait(&posted));
		TT_EXPECT(x == value_of(0, LIVE) && !status.source);
	}
	for (i = 0; job->rank && i < ahead; i++)
		TT_EXPECT(!recv_one(job, TUTTI_ANY_SOURCE, 0, LIVE + 1));
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

static int run_one(const char *env, mp_fn *fn, struct set set)
{
	return MP_RUN(.n = RANKS, .env = env, .fn = fn, .arg = &set, .killed = 1 << VICTIM);
}

/* TUTTI_SLOTS: the victim can send everything to a rank that makes no call. */
#define ENV(rest) "TUTTI_TOLERANT=1 TUTTI_SLOTS=40 " rest

static void shm(void)
{
	TT_CHECK(!run_one(ENV("TUTTI_TRANSPORT=shm"), arrived_body, (struct set){0}));
	TT_CHECK(!run_one(ENV("TUTTI_TRANSPORT=shm"), posted_body,
			  (struct set){.ahead = AHEAD_SHM}));
}

static void cold(void)
{
	TT_CHECK(!run_one(ENV("TUTTI_NODE=on"), arrived_body, (struct set){.cold = true}));
}

static void thread(void)
{
	TT_CHECK(!run_one(ENV("TUTTI_PROGRESS=thread"), arrived_body, (struct set){0}));
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!run_one(ENV("TUTTI_TRANSPORT=ofi TUTTI_IF=lo"), arrived_body, (struct set){0}));
	TT_CHECK(!run_one(ENV("TUTTI_TRANSPORT=ofi TUTTI_IF=lo"), posted_body,
			  (struct set){.ahead = AHEAD}));
}

static void verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	TT_CHECK(!run_one(ENV("TUTTI_TRANSPORT=verbs"), arrived_body, (struct set){0}));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"shm", shm}, {"cold", cold},   {"thread", thread},
					       {"ofi", ofi}, {"verbs", verbs}, {NULL, NULL}};

	return tt_test_main("arrived", tests, argc, argv);
}
