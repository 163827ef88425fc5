/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that die, stop or abort in the middle of calls: the others' calls end, and name them. One
 * that goes on waiting ends with -ETIMEDOUT instead.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

struct death {
	int victim, signal;
	size_t count;
};

static void *die_later(void *arg)
{
	struct mp_job *job = arg;
	const struct death *d = job->arg;

	mp_sleep_ms(30 + 10 * job->rank);
	kill(getpid(), d->signal);
	return NULL;
}

static int survivor(struct mp_job *job, const struct death *d)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_request *req = (void *)job;
	float *v;
	char name[32];
	int err;
	double t0;

	MP_OK(tutti_alloc(job->ctx, d->count * 4, (void **)&v));
	memset(v, 0, d->count * 4);
	do
		err = tutti_allreduce(TUTTI_IN_PLACE, v, d->count, TUTTI_FLOAT32, TUTTI_SUM,
				      job->world);
	while (!err);
	MP_ERR(err, -TUTTI_EPEER);
	snprintf(name, sizeof(name), "rank %d on", d->victim);
	MP_OK(tutti_comm_error(job->world, &info));
	if (info.rank != d->victim || !strstr(info.text, name))
		fprintf(stderr, "rank %d of %d: %s (rank %d is dead)\n", job->rank, job->n,
			info.text, d->victim);
	TT_EXPECT(info.code == -TUTTI_EPEER && info.rank == d->victim && strstr(info.text, name));
	TT_EXPECT(info.host[0]);
	MP_ERR(tutti_barrier(job->world), -TUTTI_EPEER);
	MP_ERR(tutti_iallreduce(TUTTI_IN_PLACE, v, 1, TUTTI_FLOAT32, TUTTI_SUM, job->world, &req),
	       -TUTTI_EPEER);
	TT_EXPECT(req == (void *)job);
	MP_OK(tutti_free(v));
	if (d->signal == SIGSTOP)
		kill(atomic_load(&job->shared->pid[d->victim]), SIGKILL);
	t0 = mp_now();
	mp_leave(job);
	TT_EXPECT(mp_now() - t0 < 20); /* of TUTTI_TIMEOUT's 30 */
	return 0;
}

static int death_body(struct mp_job *job)
{
	const struct death *d = job->arg;
	pthread_t thread;
	float *v;

	mp_meet(job);
	if (job->rank != d->victim)
		return survivor(job, d);
	MP_OK(tutti_alloc(job->ctx, d->count * 4, (void **)&v));
	memset(v, 0, d->count * 4);
	TT_EXPECT(!pthread_create(&thread, NULL, die_later, job));
	for (;;)
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, v, d->count, TUTTI_FLOAT32, TUTTI_SUM,
				      job->world));
}

/* Longer than TUTTI_TIMEOUT: a death is not known by silence. */
#define LONG_LIMIT " TUTTI_HEARTBEAT_LIMIT=100s"

static void deaths(const char *env, int signal)
{
	static const size_t counts[] = {16, 50000, 1000000};
	int victim, files = mp_shm_files();
	struct death d;
	size_t i;

	for (victim = 0; victim < 4; victim++)
		for (i = 0; i < 3; i++) {
			if (signal == SIGSTOP && i != (size_t)victim % 3)
				continue;
			d = (struct death){victim, signal, counts[i]};
			TT_CHECK(!MP_RUN(.n = 4, .env = env, .fn = death_body, .arg = &d,
					 .killed = 1u << victim));
		}
	TT_CHECK(mp_shm_files() <= files);
}

static void kill_shm(void)
{
	deaths("TUTTI_TRANSPORT=shm" LONG_LIMIT, SIGKILL);
}

static void kill_node(void)
{
	deaths("TUTTI_NODE=on" LONG_LIMIT, SIGKILL);
}

static void kill_ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	deaths("TUTTI_TRANSPORT=ofi" LONG_LIMIT, SIGKILL);
}

/* In an emulated guest: one death is enough there. */
static void kill_verbs(void)
{
	struct death d = {1, SIGKILL, 50000};

	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_TRANSPORT=verbs" LONG_LIMIT, .fn = death_body,
			 .arg = &d, .killed = 1u << d.victim));
}

static void kill_rdm(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	deaths("TUTTI_TRANSPORT=ofi TUTTI_OFI_EP=rdm TUTTI_OFI_PROVIDER=tcp;ofi_rxm" LONG_LIMIT,
	       SIGKILL);
}

static void kill_thread(void)
{
	deaths("TUTTI_TRANSPORT=shm TUTTI_PROGRESS=thread" LONG_LIMIT, SIGKILL);
}

static void stopped(void)
{
	deaths("TUTTI_TRANSPORT=shm TUTTI_HEARTBEAT=100ms TUTTI_HEARTBEAT_LIMIT=1s", SIGSTOP);
}

/* A rank dies as soon as it has joined, while others may still be in tutti_init. */
static int start_body(struct mp_job *job)
{
	struct tutti_config config = {0};
	float v = 1;
	int err;

	err = mp_join(job, MP_ID, &config);
	if (job->rank == *(int *)job->arg)
		kill(getpid(), SIGKILL);
	while (!err)
		err = tutti_allreduce(TUTTI_IN_PLACE, &v, 1, TUTTI_FLOAT32, TUTTI_SUM, job->world);
	mp_leave(job);
	if (err != -TUTTI_EPEER && err != -TUTTI_EBOOT)
		mp_failed(job, "a rank died", err, __FILE__, __LINE__);
	return err != -TUTTI_EPEER && err != -TUTTI_EBOOT;
}

static void at_start(void)
{
	int victim, i;

	for (i = 0; i < 5; i++)
		for (victim = 0; victim < 4; victim++)
			TT_CHECK(!MP_RUN(.n = 4, .fn = start_body, .arg = &victim, .no_init = true,
					 .killed = 1u << victim, .timeout_ms = 15000));
}

/* ---- abort ---- */

static void *abort_later(void *arg)
{
	struct mp_job *job = arg;

	mp_sleep_ms(100);
	tutti_comm_abort(job->world, 42);
	return NULL;
}

/* Rank 0 does not call before the others are back: they hang in the call until rank 1 aborts. */
static int abort_body(struct mp_job *job)
{
	struct tutti_comm *dup;
	pthread_t thread;
	float v[10] = {0};
	int err;

	MP_OK(tutti_comm_dup(job->world, &dup));
	if (job->rank == 1)
		TT_EXPECT(!pthread_create(&thread, NULL, abort_later, job));
	if (job->rank == 0)
		TT_EXPECT(mp_await(&job->shared->word[0], job->n - 1, MP_HANG_MS));
	do /* what the others gave may be enough for rank 0's first call */
		err = tutti_allreduce(TUTTI_IN_PLACE, v, 10, TUTTI_FLOAT32, TUTTI_SUM, dup);
	while (!err && job->rank == 0);
	MP_ERR(err, -TUTTI_EABORTED);
	MP_SAID("42");
	MP_SAID("rank 1");
	atomic_fetch_add(&job->shared->word[0], 1);
	MP_ERR(tutti_barrier(job->world), -TUTTI_EABORTED);
	if (job->rank == 1)
		pthread_join(thread, NULL);
	MP_OK(tutti_comm_free(dup));
	mp_leave(job);
	return 0;
}

static void aborts(void)
{
	TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_TRANSPORT=shm", .fn = abort_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_PROGRESS=thread", .fn = abort_body));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=ofi", .fn = abort_body));
}

/* Rank 1 aborts and exits at once, while the others wait for each other: they learn the code. */
static int abort_exit_body(struct mp_job *job)
{
	int other = 2 - job->rank;
	float v = 0;

	mp_meet(job);
	if (job->rank == 1) {
		tutti_comm_abort(job->world, 7);
		_exit(0);
	}
	MP_ERR(tutti_recv(&v, 1, TUTTI_FLOAT32, other, 1, job->world, NULL), -TUTTI_EABORTED);
	MP_SAID("rank 1 aborted the job with code 7");
	mp_leave(job);
	return 0;
}

static void abort_exits(void)
{
	static const char *const env[] = {"TUTTI_TRANSPORT=shm TUTTI_TIMEOUT=5s",
					  "TUTTI_TRANSPORT=shm TUTTI_TIMEOUT=5s TUTTI_TOLERANT=1"};
	int i, failed = 0;

	for (i = 0; i < 20 && !failed; i++)
		failed = MP_RUN(.n = 3, .env = env[i % 2], .fn = abort_exit_body);
	TT_CHECK(!failed);
}

/* ---- a rank that leaves without a word ---- */

static int exit_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	float v = 0;

	MP_OK(tutti_barrier(job->world));
	mp_meet(job); /* or its exit is seen before the end of the barrier */
	if (job->rank == 1)
		_exit(0);
	MP_ERR(tutti_allreduce(TUTTI_IN_PLACE, &v, 1, TUTTI_FLOAT32, TUTTI_SUM, job->world),
	       -TUTTI_EPEER);
	MP_OK(tutti_comm_error(job->world, &info));
	TT_EXPECT(info.rank == 1);
	mp_leave(job);
	return 0;
}

static void exits(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .fn = exit_body));
}

/* ---- how far the call had come ---- */

#define PIECE 4096
#define PIECES 256

/* The last failed call: rank 0 is dead, and which call of the communicator it was. */
static int told(struct mp_job *job, const char *call, uint64_t sequence,
		struct tutti_error_info *info)
{
	*info = (struct tutti_error_info){.size = sizeof(*info)};
	MP_OK(tutti_last_error(info));
	TT_EXPECT(info->code == -TUTTI_EPEER && info->rank == 0 && info->host[0]);
	TT_EXPECT(!strcmp(info->call, call) && info->sequence == sequence);
	return 0;
}

/*
 * The root dies after some of its messages; each is sent when the one before has arrived, so some
 * have.
 */
static int how_far_body(struct mp_job *job)
{
	static unsigned char v[PIECE * PIECES];
	struct tutti_request *bcast, *reduce, *recv;
	struct tutti_error_info info;
	unsigned char w[7] = {0}, x[7];
	size_t i;

	memset(v, job->rank ? 0 : 5, sizeof(v));
	MP_OK(tutti_ibcast(v, sizeof(v), TUTTI_UINT8, 0, job->world, &bcast));
	if (!job->rank)
		return tutti_wait(&bcast) || 1; /* it dies in it */
	MP_OK(tutti_iallreduce(TUTTI_IN_PLACE, w, 7, TUTTI_UINT8, TUTTI_SUM, job->world, &reduce));
	MP_OK(tutti_irecv(x, 7, TUTTI_UINT8, 0, 3, job->world, NULL, &recv));
	MP_ERR(tutti_wait(&bcast), -TUTTI_EPEER);
	TT_EXPECT(!told(job, "bcast", 1, &info));
	TT_EXPECT(!strncmp(info.phase, "round ", 6) && strstr(info.phase, " of 256"));
	TT_EXPECT(info.bytes >= PIECE && info.bytes < sizeof(v) && info.bytes % PIECE == 0);
	TT_EXPECT(atoi(info.phase + 6) == (int)(info.bytes / PIECE) + 1);
	for (i = 0; i < info.bytes; i++)
		TT_EXPECT(v[i] == 5);
	/* the others that were pending, and later ones */
	MP_ERR(tutti_wait(&reduce), -TUTTI_EPEER);
	TT_EXPECT(!told(job, "allreduce", 2, &info) && info.phase[0] && !info.bytes);
	MP_ERR(tutti_wait(&recv), -TUTTI_EPEER);
	TT_EXPECT(!told(job, "recv", 0, &info) && info.phase[0] && !info.bytes);
	MP_ERR(tutti_barrier(job->world), -TUTTI_EPEER);
	TT_EXPECT(!told(job, "barrier", 3, &info) && !strcmp(info.phase, "not started") &&
		  !info.bytes);
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

static void how_far(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = how_far_body, .killed = 1,
			 .env = "TUTTI_TRANSPORT=fault:shm TUTTI_FAULT=die_after=150,rank=0 "
				"TUTTI_EAGER=0 "
				"TUTTI_ALGO=bcast:chain TUTTI_CHUNK=4096 TUTTI_LANES=1"));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"kill_shm", kill_shm}, {"kill_node", kill_node},     {"kill_ofi", kill_ofi},
		{"kill_rdm", kill_rdm}, {"stopped", stopped},	      {"kill_thread", kill_thread},
		{"aborts", aborts},	{"abort_exits", abort_exits}, {"exits", exits},
		{"at_start", at_start}, {"kill_verbs", kill_verbs},   {"how_far", how_far},
		{NULL, NULL},
	};

	return tt_test_main("kill", tests, argc, argv);
}
