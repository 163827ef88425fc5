/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators in the memory of one host: calls that differ, ranks that give up, areas that are
 * made and freed often, late or not at all, and roots that are turns ahead.
 */
#include "config.h"

#include "lib/comm/comm.h"
#include "lib/engine/node/node_ops.h"
#include "lib/node/node_internal.h"
#include "tests/mp/job.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

#define COUNT 300000 /* float32 */

/* Ranks that call something else. */
static int mismatched(struct mp_job *job)
{
	size_t big = *(size_t *)job->arg;
	float *v = calloc(big + 1, 4);

	MP_ERR(tutti_allreduce(TUTTI_IN_PLACE, v, job->rank == 1 ? big + 1 : big, TUTTI_FLOAT32,
			       TUTTI_SUM, job->world),
	       -TUTTI_EMISMATCH);
	MP_SAID("rank 1");
	MP_SAID("count");
	free(v);
	mp_leave(job);
	return 0;
}

static void mismatch(void)
{
	size_t big[] = {7, 1024, 100000}; /* both short; one short, one long; both long */
	int i;

	for (i = 0; i < 3; i++)
		TT_CHECK(!MP_RUN(.n = 3, .fn = mismatched, .arg = &big[i]));
}

/* Rank 0 gives up; ranks that come later must not write into its buffer. */
static int late(struct mp_job *job)
{
	bool pool = *(bool *)job->arg;
	float *v;
	int i;

	if (pool)
		MP_OK(tutti_alloc(job->ctx, COUNT * 4, (void **)&v));
	else
		v = malloc(COUNT * 4);
	for (i = 0; i < COUNT; i++)
		v[i] = 1;
	mp_meet(job);
	if (job->rank == 0) {
		MP_ERR(tutti_allreduce(TUTTI_IN_PLACE, v, COUNT, TUTTI_FLOAT32, TUTTI_SUM,
				       job->world),
		       -ETIMEDOUT);
		for (i = 0; i < COUNT; i++)
			v[i] = 7;
		atomic_store(&job->shared->word[0], 1);
	} else {
		TT_EXPECT(mp_await(&job->shared->word[0], 1, 20000));
		TT_EXPECT(tutti_allreduce(TUTTI_IN_PLACE, v, COUNT, TUTTI_FLOAT32, TUTTI_SUM,
					  job->world) < 0);
	}
	mp_meet(job);
	for (i = 0; i < COUNT; i++)
		TT_EXPECT(v[i] == (job->rank ? 1 : 7));
	mp_leave(job);
	return 0;
}

static void withdrawn(void)
{
	bool pool;

	for (pool = false;; pool = true) {
		TT_CHECK(!MP_RUN(.n = 2, .fn = late, .env = "TUTTI_TIMEOUT=1500", .arg = &pool));
		if (pool)
			break;
	}
}

/* Communicators come and go, some of them never used. */
static int split_often(struct mp_job *job)
{
	struct tutti_comm *comm;
	int64_t v;
	int k;

	for (k = 0; k < 60; k++) {
		MP_OK(tutti_comm_split(job->world, job->rank % (k % 3 + 1), -job->rank, &comm));
		if (k % 4) {
			v = 1;
			MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &v, 1, TUTTI_INT64, TUTTI_SUM, comm));
			TT_EXPECT(v == tutti_comm_size(comm));
		}
		MP_OK(tutti_comm_free(comm));
	}
	return 0;
}

static void communicators(void)
{
	TT_CHECK(!MP_RUN(.n = 5, .fn = split_often));
}

static int dup_often(struct mp_job *job)
{
	struct tutti_comm *comm[100], *brief;
	int k;

	for (k = 0; k < 100; k++)
		MP_OK(tutti_comm_dup(job->world, &comm[k]));
	for (k = 0; k < 100; k++) {
		MP_OK(tutti_comm_dup(job->world, &brief));
		MP_OK(tutti_comm_free(brief));
	}
	while (k--)
		MP_OK(tutti_comm_free(comm[k]));
	return 0;
}

/* A rank that waits for an area still sends the data that other ranks need to get there. */
static void held_back(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .fn = dup_often,
			 .env = "TUTTI_NODE=on TUTTI_TRANSPORT=fault:shm "
				"TUTTI_FAULT=seed=1,hold=0.3 "
				"TUTTI_ALGO=allgather:ring TUTTI_TIMEOUT=5000"));
}

#define LOOKS 30 /* calls */

/* Stops the root when it sleeps in call k; false: it sleeps in a later one, as it is ahead. */
static bool stop_asleep(struct mp_job *job, const _Atomic uint32_t *sleeping, int k)
{
	int pid = atomic_load(&job->shared->pid[0]);

	for (;; mp_sleep_ms(1)) {
		if (!atomic_load(sleeping))
			continue;
		if (atomic_load(&job->shared->word[0]) > k)
			return false;
		if (mp_stop(pid) ||
		    (atomic_load(sleeping) && atomic_load(&job->shared->word[0]) == k))
			return true;
		kill(pid, SIGCONT);
	}
}

/*
 * Rank 1's. Rank 2 is through, so the root's vector is there. A stopped root can not get up by
 * itself, as it does after a while.
 */
static int last_bcast(struct mp_job *job, int64_t *v, int k)
{
	const _Atomic uint32_t *sleeping = &job->world->node->group->peer[0]->seg->sleeping;
	atomic_int *at = job->shared->word;
	bool stopped, woken;
	int err;

	TT_EXPECT(mp_await(&at[0], k, MP_HANG_MS) && mp_await(&at[2], k + 1, MP_HANG_MS));
	stopped = stop_asleep(job, sleeping, k);
	err = tutti_bcast(v, 1, TUTTI_INT64, 0, job->world);
	woken = !atomic_load(sleeping);
	if (stopped) {
		kill(atomic_load(&job->shared->pid[0]), SIGCONT);
		atomic_fetch_add(&at[3], 1);
		TT_EXPECT(woken);
	}
	return err;
}

/* Roots that are turns ahead. Rank 0 sleeps until the others have finished theirs. */
static int one_way(struct mp_job *job)
{
	int64_t v, all[3];
	int k;

	MP_OK(tutti_barrier(job->world));
	for (k = 0; k < 500; k++) {
		v = k < 300 && job->rank ? -1 : k;
		atomic_store(&job->shared->word[job->rank], k);
		if (k < LOOKS && job->rank == 1)
			MP_OK(last_bcast(job, &v, k));
		else if (k < 300)
			MP_OK(tutti_bcast(&v, 1, TUTTI_INT64, 0, job->world));
		else if (k < 400)
			MP_OK(tutti_gather(&v, all, 1, TUTTI_INT64, 1, job->world));
		else
			MP_OK(tutti_reduce(&v, all, 1, TUTTI_INT64, TUTTI_MAX, 2, job->world));
		TT_EXPECT(v == k);
	}
	if (job->arg) /* the root of node_pull awaits the others in every third turn */
		TT_EXPECT(atomic_load(&job->shared->word[3]));
	return 0;
}

static void gated(void)
{
	int pull;

	TT_CHECK(!MP_RUN(.n = 3, .fn = one_way,
			 .env = "TUTTI_WAIT=sleep TUTTI_ALGO=bcast:node_slots;gather:node_slots;"
				"reduce:node_slots"));
	TT_CHECK(!MP_RUN(.n = 3, .fn = one_way, .arg = &pull,
			 .env = "TUTTI_WAIT=sleep TUTTI_ALGO=bcast:node_pull;gather:node_pull"));
}

/*
 * This rank's split and, if that worked, the first call on the new communicator, which goes to
 * *kept if that works, too: the memory of one that is freed would serve the next.
 */
static int split_and_use(struct mp_job *job, int color, struct tutti_comm **kept)
{
	struct tutti_comm *comm = (void *)job;
	int64_t v = 1;
	int err = tutti_comm_split(job->world, color, 0, &comm);

	*kept = NULL;
	if (err) {
		TT_EXPECT(comm == (void *)job);
		return err;
	}
	err = tutti_allreduce(TUTTI_IN_PLACE, &v, 1, TUTTI_INT64, TUTTI_SUM, comm);
	TT_EXPECT(err || v == tutti_comm_size(comm));
	if (err)
		MP_OK(tutti_comm_free(comm));
	else
		*kept = comm;
	return err;
}

#define SPLITS 300

/*
 * One rank has no descriptor for its part of a communicator, so no rank can use it. A communicator
 * without that rank works.
 */
static int short_of_files(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct rlimit old, low;
	struct tutti_comm *comm, *kept[SPLITS];
	int k, r, err;
	int64_t v;

	MP_OK(tutti_comm_dup(job->world, &comm)); /* the pool has its memory */
	TT_EXPECT(!getrlimit(RLIMIT_NOFILE, &old));
	low = (struct rlimit){.rlim_cur = 3, .rlim_max = old.rlim_max};
	for (k = 0; k < SPLITS; k++) {
		r = k % job->n;
		TT_EXPECT(job->rank != r || !setrlimit(RLIMIT_NOFILE, &low));
		err = split_and_use(job, k % 2 ? 0 : job->rank / 2, &kept[k]);
		TT_EXPECT((err < 0) == (k % 2 || job->rank / 2 == r / 2));
		MP_OK(err && job->rank != r && tutti_last_error(&info));
		if (err && job->rank != r)
			TT_EXPECT(info.rank == r && strstr(info.text, "could not make its part"));
		TT_EXPECT(!setrlimit(RLIMIT_NOFILE, &old));
		v = 1;
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &v, 1, TUTTI_INT64, TUTTI_SUM, job->world));
	}
	MP_OK(tutti_comm_free(comm));
	for (k = 0; k < SPLITS; k++)
		MP_OK(kept[k] ? tutti_comm_free(kept[k]) : 0);
	MP_OK(tutti_comm_dup(job->world, &comm));
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &v, 1, TUTTI_INT64, TUTTI_SUM, comm));
	TT_EXPECT(v == job->n * job->n);
	MP_OK(tutti_comm_free(comm));
	return 0;
}

static void one_fails(void)
{
	TT_CHECK(!MP_RUN(.n = 4, .fn = short_of_files, .env = "TUTTI_TIMEOUT=10000"));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"mismatch", mismatch},
		{"withdrawn", withdrawn},
		{"communicators", communicators},
		{"held_back", held_back},
		{"gated", gated},
		{"one_fails", one_fails},
		{NULL, NULL},
	};

	return tt_test_main("node_comms", tests, argc, argv);
}
