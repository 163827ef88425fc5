/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams, used for inputs that peers can neither map nor read (lib/engine/node/stream_input.c):
 * that calls use them, with all kinds of calls and memory, with a rank that is busy, and with calls
 * that fail in the middle, after which no rank accesses their buffers.
 */
#include "config.h"

#include "lib/base/copy.h"
#include "lib/base/hash.h"
#include "tests/mp/coll/colls.h"
#include "tests/mp/coll/torn.h"

/* As mp_run does, where no process may read or write another one's memory. */
static int join(struct mp_job *job)
{
	struct tutti_config config = {0};

	TT_EXPECT(!mp_forbid_vm());
	MP_OK(mp_join(job, MP_ID, &config));
	return 0;
}

static int meet_once(struct mp_job *job, enum colls_kind kind, size_t count, unsigned mix)
{
	unsigned mine = mix >> 3 * job->rank;
	struct coll c = {.kind = kind,
			 .type = TUTTI_INT32,
			 .op = TUTTI_SUM,
			 .root = (int)(mix >> 20) % job->n,
			 .count = count,
			 .in_place = mix >> 21 & mix >> 22 & 1,
			 .displs = mix >> 23 & 1,
			 .memory = mine & 3 ? MP_PLAIN : MP_POOL};

	return colls_once(job, &c,
			  mix >> 18 & mix >> 19 & 1 ? F_PERSISTENT
			  : mine & 4		    ? F_NONBLOCKING
						    : F_BLOCKING);
}

#define KINDS (C_KINDS - C_REDUCING) /* of calls that copy */
#define COUNTS 4
#define PLAIN 03333u /* a mix: of all ranks, in blocking calls */

/* Streams meet memory that is mapped; short ones, and such as use a place often. */
static int meet_body(struct mp_job *job)
{
	static const size_t counts[COUNTS] = {9000, 20011, 70001, 300007};
	uint64_t seed = 42;
	unsigned mix;
	int k;

	TT_EXPECT(!join(job));
	for (k = 0; k < KINDS * COUNTS * 3; k++) {
		mix = k < KINDS * COUNTS ? PLAIN : (unsigned)(tt_random(&seed) >> 36);
		TT_EXPECT(!meet_once(job, (enum colls_kind)(C_REDUCING + k % KINDS),
				     counts[k / KINDS % COUNTS], mix));
	}
	for (k = 0; k < COUNTS; k++) /* of two ranks it is a copy */
		TT_EXPECT(!meet_once(job, C_EXSCAN, counts[k], PLAIN));
	MP_OK(mp_leave(job));
	return 0;
}

static void meet(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = meet_body, .env = "TUTTI_NODE=on", .no_init = true));
	TT_CHECK(!MP_RUN(.n = 3, .fn = meet_body, .env = "TUTTI_NODE=on", .no_init = true));
	TT_CHECK(!MP_RUN(.n = 2, .fn = meet_body, .env = "TUTTI_NODE=on TUTTI_PROGRESS=thread",
			 .no_init = true));
	TT_CHECK(!MP_RUN(.n = 4, .fn = meet_body, .env = "TUTTI_NODE=on TUTTI_WAIT=sleep",
			 .no_init = true));
}

/* ---- the reader begins before the owner has copied its input ---- */

/*
 * Rank 0 makes a few steps of the call, in each of which it moves 4 MiB at most, and goes on when
 * rank 1 has a part of its input. It could not have copied all of it by then.
 */
static int begin_early(struct mp_job *job, enum colls_kind kind, int nth)
{
	bool all = kind >= C_ALLTOALL; /* its own block first */
	struct coll c = {.kind = kind,
			 .type = TUTTI_INT32,
			 .op = TUTTI_SUM,
			 .root = kind == C_GATHER || kind == C_GATHERV,
			 .count = (size_t)(all ? 2 : 3) << 20,
			 .memory = MP_PLAIN};
	struct tutti_stats a = {.size = sizeof(a)}, b = a;
	struct tutti_request *req;
	int done = 0, steps;

	TT_EXPECT(!colls_new(job, &c));
	colls_fill(job, &c, (unsigned)kind);
	mp_meet(job); /* no rank is in the call before */
	MP_OK(tutti_stats_get(job->ctx, &a));
	MP_OK(colls_issue(job, &c, F_NONBLOCKING, &req));
	for (steps = job->rank ? 0 : all ? 3 : 1; steps; steps--)
		MP_OK(tutti_test(&req, &done));
	if (!job->rank)
		TT_EXPECT(!done && mp_await(&job->shared->word[0], nth, 20000));
	for (; job->rank && b.pulled_bytes <= a.pulled_bytes;) {
		MP_OK(tutti_test(&req, &done));
		TT_EXPECT(!done);
		MP_OK(tutti_stats_get(job->ctx, &b));
	}
	atomic_store(&job->shared->word[0], nth);
	MP_OK(tutti_wait(&req));
	TT_EXPECT(!colls_check(job, &c));
	return colls_free(job, &c);
}

static int early_body(struct mp_job *job)
{
	int kind, nth = 0;

	TT_EXPECT(!join(job));
	MP_OK(tutti_barrier(job->world)); /* which has memory of the host from then on */
	for (kind = C_EXSCAN; kind < C_KINDS; kind++)
		TT_EXPECT(!begin_early(job, (enum colls_kind)kind, ++nth));
	MP_OK(mp_leave(job));
	return 0;
}

static void early(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = early_body, .env = "TUTTI_NODE=on TUTTI_WAIT=spin",
			 .no_init = true));
}

#define LONG ((size_t)6 << 20)

/* Rank 1 has begun a bcast and does nothing for it until rank 2 has its result. */
static int busy_body(struct mp_job *job)
{
	char *v = malloc(LONG);
	struct tutti_request *req;
	size_t i;

	TT_EXPECT(v && !join(job));
	for (i = 0; i < LONG; i++)
		v[i] = (char)(job->rank ? 0 : i % 251);
	if (job->rank == 1) {
		MP_OK(tutti_ibcast(v, LONG, TUTTI_INT8, 0, job->world, &req));
		TT_EXPECT(mp_await(&job->shared->word[0], 1, 20000));
		MP_OK(tutti_wait(&req));
	} else {
		MP_OK(tutti_bcast(v, LONG, TUTTI_INT8, 0, job->world));
		if (job->rank == 2)
			atomic_store(&job->shared->word[0], 1);
	}
	for (i = 0; i < LONG; i++)
		TT_EXPECT(v[i] == (char)(i % 251));
	free(v);
	MP_OK(mp_leave(job));
	return 0;
}

static void busy(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .fn = busy_body, .env = "TUTTI_NODE=on TUTTI_WAIT=spin",
			 .no_init = true));
	TT_CHECK(!MP_RUN(.n = 3, .fn = busy_body, .env = "TUTTI_NODE=on TUTTI_WAIT=sleep",
			 .no_init = true));
}

/* ---- ended in the middle ---- */

static int call(const struct mp_job *job, struct tutti_comm *comm, int kind, char *v)
{
	size_t each = LONG / (size_t)job->n;

	return kind % 4 == 0   ? tutti_alltoall(v, v + LONG, each, TUTTI_INT8, comm)
	       : kind % 4 == 1 ? tutti_allgather(v, v + LONG, each, TUTTI_INT8, comm)
	       : kind % 4 == 2 ? tutti_bcast(v, LONG, TUTTI_INT8, 1, comm)
			       : tutti_gather(v, v + LONG, each, TUTTI_INT8, 1, comm);
}

static int begin(const struct mp_job *job, char *v, struct tutti_request **req)
{
	return tutti_iallgather(v, v + LONG, LONG / (size_t)job->n, TUTTI_INT8, job->world, req);
}

static void torn(void)
{
	struct torn t = {.call = call,
			 .begin = begin,
			 .join = join,
			 .bytes = LONG,
			 .block = (size_t)7 << 20,
			 .blocks = 3,
			 .rounds = 16};

	TT_CHECK(!MP_RUN(.n = 3, .fn = torn_late, .arg = &t,
			 .env = "TUTTI_NODE=on TUTTI_TIMEOUT=400", .no_init = true));
	TT_CHECK(!MP_RUN(.n = 3, .fn = torn_revoked, .arg = &t, .env = "TUTTI_NODE=on",
			 .no_init = true));
	TT_CHECK(!MP_RUN(.n = 3, .fn = torn_revoked, .arg = &t,
			 .env = "TUTTI_NODE=on TUTTI_PROGRESS=thread", .no_init = true));
	for (t.us = 1000; t.us < 9000; t.us += 1101)
		TT_CHECK(!MP_RUN(.n = 3, .fn = torn_killed, .arg = &t, .env = "TUTTI_NODE=on",
				 .no_init = true, .killed = 1u << 1));
}

/*
 * Rank 1 shuts itself in before the first trials of other ways, which it would not survive: calls
 * that go through slots and rings go on, and those that rank 0 can make directly.
 */
static int later_body(struct mp_job *job)
{
	static int32_t in[16384], out[16384];
	const size_t all = 16384, some = 4096;
	size_t i;
	int k;

	for (k = 0; k < 300; k++) {
		if (k == 4 && job->rank)
			TT_EXPECT(!mp_forbid_vm());
		for (i = 0; i < all; i++)
			in[i] = (int32_t)i + k + job->rank;
		MP_OK(tutti_allreduce(in, out, all, TUTTI_INT32, TUTTI_SUM, job->world));
		for (i = 0; i < all; i++)
			TT_EXPECT(out[i] == 2 * ((int32_t)i + k) + 1);
		MP_OK(tutti_scan(in, out, some, TUTTI_INT32, TUTTI_SUM, job->world));
		for (i = 0; i < some; i++)
			TT_EXPECT(out[i] == (1 + job->rank) * ((int32_t)i + k) + job->rank);
		MP_OK(tutti_bcast(in, some, TUTTI_INT32, k % 2, job->world));
		for (i = 0; i < some; i++)
			TT_EXPECT(in[i] == (int32_t)i + k + k % 2);
	}
	return 0;
}

static void later(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = later_body, .env = "TUTTI_NODE=on"));
}

/* ---- inputs that the peer could read ---- */

/* Past the first trial, as of two ranks; then ranks differ in memory and kind of call. */
static int chosen_body(struct mp_job *job)
{
	static const size_t counts[] = {9000, 70001};
	uint64_t seed = 43;
	int k;

	for (k = 0; k < 2 * KINDS * 18; k++)
		TT_EXPECT(!meet_once(job, (enum colls_kind)(C_REDUCING + k / 36),
				     counts[k / 18 % 2], PLAIN));
	for (k = 0; k < 2 * KINDS * 8; k++)
		TT_EXPECT(!meet_once(job, (enum colls_kind)(C_REDUCING + k % KINDS),
				     counts[k / KINDS % 2], (unsigned)(tt_random(&seed) >> 36)));
	for (k = 0; k < 36; k++)
		TT_EXPECT(!meet_once(job, C_EXSCAN, counts[k / 18], PLAIN));
	return 0;
}

/* Rank 1 gets a stream in all calls before the first trial, and none in it. */
static int used_body(struct mp_job *job)
{
	struct tutti_stats a = {.size = sizeof(a)}, b = a;
	static char v[3 << 16], out[6 << 16];
	int k, kind;

	for (kind = 0; kind < 5; kind++)
		for (k = 0; k < 16; k++) {
			memset(v, job->rank + 1, sizeof(v));
			MP_OK(tutti_barrier(job->world));
			MP_OK(tutti_stats_get(job->ctx, &a));
			if (!kind)
				MP_OK(tutti_bcast(v, sizeof(v), TUTTI_INT8, 0, job->world));
			else if (kind == 1)
				MP_OK(tutti_scatter(v, out, sizeof(v) / 2, TUTTI_INT8, 0,
						    job->world));
			else if (kind == 2)
				MP_OK(tutti_gather(v, out, sizeof(v), TUTTI_INT8, 1, job->world));
			else if (kind == 3)
				MP_OK(tutti_allgather(v, out, sizeof(v), TUTTI_INT8, job->world));
			else
				MP_OK(tutti_exscan(v, out, sizeof(v) / 2, TUTTI_INT8, TUTTI_SUM,
						   job->world));
			MP_OK(tutti_stats_get(job->ctx, &b));
			if (job->rank) /* what the kernel copies is no pulled memory */
				TT_EXPECT((b.pulled_bytes > a.pulled_bytes) ==
					  (tt_hands_back() && k < 8));
			TT_EXPECT(!kind && job->rank ? v[sizeof(v) - 1] == 1
				  : kind == 1	     ? out[sizeof(v) / 2 - 1] == 1
				  : kind == 2	     ? !job->rank || out[sizeof(v) - 1] == 1
				  : kind == 3	     ? out[2 * sizeof(v) - 1] == 2
				  : kind == 4	     ? !job->rank || out[sizeof(v) / 2 - 1] == 1
						     : v[0] == 1);
		}
	return 0;
}

static int no_room_body(struct mp_job *job)
{
	static char v[4 << 20];
	int k;

	for (k = 0; k < 20; k++) {
		memset(v, job->rank + k, sizeof(v));
		MP_OK(tutti_bcast(v, sizeof(v), TUTTI_INT8, 0, job->world));
		TT_EXPECT(v[0] == k && v[sizeof(v) - 1] == k);
	}
	return 0;
}

static void chosen(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = chosen_body, .env = "TUTTI_NODE=on TUTTI_WAIT=spin"));
	TT_CHECK(!MP_RUN(.n = 2, .fn = chosen_body,
			 .env = "TUTTI_NODE=on TUTTI_WAIT=spin TUTTI_PROGRESS=thread"));
	TT_CHECK(!MP_RUN(.n = 2, .fn = used_body, .env = "TUTTI_NODE=on TUTTI_WAIT=spin"));
	TT_CHECK(!MP_RUN(.n = 2, .fn = no_room_body,
			 .env = "TUTTI_NODE=on TUTTI_WAIT=spin TUTTI_POOL_MAX=2M"));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"early", early}, {"meet", meet},     {"busy", busy}, {"torn", torn},
		{"later", later}, {"chosen", chosen}, {NULL, NULL}};

	return tt_test_main("streams", tests, argc, argv);
}
