/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Priorities over transports: long messages travel in pieces, what is urgent overtakes what is
 * under way, bytes under way to a peer are bounded; results have the bits that they have without.
 * All by counters.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <stdio.h>

#define KIB 1024
#define PIECE (64 * KIB)
#define WINDOW (256 * KIB) /* the default */
#define LOW_COUNT ((size_t)8 << 20)
#define HIGH_COUNT ((size_t)1 << 20)
#define OFI "TUTTI_TRANSPORT=ofi TUTTI_IF=lo"

static uint64_t sent(struct mp_job *job)
{
	struct tutti_stats s = {.size = sizeof(s)};

	tutti_stats_get(job->ctx, &s);
	return s.put_bytes;
}

/* ---- a call of high priority overtakes a broadcast that is under way ---- */

static int bcast(struct mp_job *job, int32_t *v, size_t count, int priority,
		 struct tutti_request **req)
{
	struct tutti_call call = {.size = sizeof(call),
				  .coll = TUTTI_COLL_BCAST,
				  .recvbuf = v,
				  .count = count,
				  .datatype = TUTTI_INT32,
				  .priority = priority};

	return tutti_call(job->world, &call, req);
}

/* *between: bytes of the low call that rank 0 sent between the begin and the end of the high one.
 */
static int overtake(struct mp_job *job, int priority, int32_t *low, int32_t *high,
		    uint64_t *between)
{
	struct tutti_request *req[2] = {NULL, NULL};
	uint64_t begin = sent(job);
	size_t i;
	int done = 0;

	for (i = 0; i < LOW_COUNT; i++)
		low[i] = job->rank ? 0 : (int32_t)i * 3;
	for (i = 0; i < HIGH_COUNT; i++)
		high[i] = job->rank ? 0 : (int32_t)i * 5 + 1;
	mp_meet(job);
	MP_OK(bcast(job, low, LOW_COUNT, 0, &req[0]));
	while (!job->rank && !done && sent(job) - begin < LOW_COUNT)
		MP_OK(tutti_request_get_status(req[0], &done)); /* a quarter of it */
	begin = sent(job);
	MP_OK(bcast(job, high, HIGH_COUNT, priority, &req[1]));
	MP_OK(tutti_wait(&req[1]));
	*between = sent(job) - begin - HIGH_COUNT * 4;
	MP_OK(tutti_wait(&req[0]));
	for (i = 0; i < LOW_COUNT; i++)
		TT_EXPECT(low[i] == (int32_t)i * 3);
	for (i = 0; i < HIGH_COUNT; i++)
		TT_EXPECT(high[i] == (int32_t)i * 5 + 1);
	return 0;
}

static int overtake_body(struct mp_job *job)
{
	struct tutti_stats s = {.size = sizeof(s)};
	uint64_t before, equal, urgent;
	int32_t *low, *high, x = 1;

	MP_OK(tutti_alloc(job->ctx, LOW_COUNT * 4, (void **)&low));
	MP_OK(tutti_alloc(job->ctx, HIGH_COUNT * 4, (void **)&high));
	TT_EXPECT(!overtake(job, 0, low, high, &before));
	MP_OK(tutti_stats_get(job->ctx, &s));
	TT_EXPECT(!s.pieces && !s.window_most);
	MP_OK(tutti_barrier(job->world));
	MP_OK(bcast(job, &x, 1, 1, NULL)); /* from now on priorities are in use */
	TT_EXPECT(!overtake(job, 0, low, high, &equal));
	MP_OK(tutti_barrier(job->world));
	TT_EXPECT(!overtake(job, 9, low, high, &urgent));
	MP_OK(tutti_stats_get(job->ctx, &s));
	if (!job->rank) {
		printf("  low bytes during a call of %zu KiB: %llu KiB at equal priority, %llu KiB "
		       "below it; %llu pieces, %llu KiB under way\n",
		       HIGH_COUNT * 4 / KIB, (unsigned long long)equal / KIB,
		       (unsigned long long)urgent / KIB, (unsigned long long)s.pieces,
		       (unsigned long long)s.window_most / KIB);
		TT_EXPECT(equal > 8 * WINDOW && urgent <= 2 * WINDOW);
		TT_EXPECT(s.pieces >= 2 * (LOW_COUNT + HIGH_COUNT) * 4 / PIECE);
		TT_EXPECT(s.window_most <= WINDOW && s.window_most > PIECE);
	}
	MP_OK(tutti_free(low));
	MP_OK(tutti_free(high));
	return 0;
}

static void overtakes(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	/* calls of one message, so that low pieces find no gap between those of the high call */
	TT_CHECK(!MP_RUN(.n = 2, .fn = overtake_body, .env = OFI " TUTTI_CHUNK=32M"));
}

static void overtakes_verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	TT_CHECK(!MP_RUN(.n = 2, .fn = overtake_body,
			 .env = "TUTTI_TRANSPORT=verbs TUTTI_CHUNK=32M"));
}

/* ---- the same bits, whatever the priorities ---- */

#define CALLS 8
#define LONG 150001

struct set {
	float *in, *out[CALLS], *want[CALLS];
};

static size_t length(int k)
{
	return k % 3 == 2 ? 40 : k % 3 ? 20000 : LONG;
}

static int start(struct mp_job *job, struct set *s, int k, int priority, float **out,
		 struct tutti_request **req)
{
	static const enum tutti_coll coll[] = {TUTTI_COLL_ALLREDUCE, TUTTI_COLL_BCAST,
					       TUTTI_COLL_REDUCE, TUTTI_COLL_ALLREDUCE};
	struct tutti_call call = {.size = sizeof(call),
				  .coll = coll[k % 4],
				  .recvbuf = out[k],
				  .count = length(k),
				  .datatype = TUTTI_FLOAT32,
				  .priority = priority};

	if (call.coll == TUTTI_COLL_BCAST) {
		memcpy(out[k], s->in, length(k) * sizeof(float));
	} else {
		call.sendbuf = s->in;
		call.op = TUTTI_SUM;
	}
	return tutti_call(job->world, &call, req);
}

static int calls(struct mp_job *job, struct set *s, int round, float **out)
{
	struct tutti_request *req[CALLS];
	int k;

	for (k = 0; k < CALLS; k++) {
		memset(out[k], 0, LONG * sizeof(float));
		MP_OK(start(job, s, k, round ? (k * 7 + 3 * job->rank + round) % 5 - 2 : 0, out,
			    &req[k]));
	}
	MP_OK(tutti_waitall(CALLS, req));
	return 0;
}

static int same_body(struct mp_job *job)
{
	struct tutti_stats stats = {.size = sizeof(stats)};
	struct set s;
	int i, k, round;

	MP_OK(tutti_alloc(job->ctx, LONG * sizeof(float), (void **)&s.in));
	for (i = 0; i < LONG; i++)
		s.in[i] = (float)((i * 37 + job->rank * 11) % 1000) / 7.0f;
	for (k = 0; k < CALLS; k++) {
		if (k % 2) /* memory that the library does not know, too */
			s.out[k] = malloc(LONG * sizeof(float));
		else
			MP_OK(tutti_alloc(job->ctx, LONG * sizeof(float), (void **)&s.out[k]));
		s.want[k] = malloc(LONG * sizeof(float));
		TT_EXPECT(s.out[k] && s.want[k]);
	}
	TT_EXPECT(!calls(job, &s, 0, s.want));
	for (round = 1; round < 5; round++) {
		TT_EXPECT(!calls(job, &s, round, s.out));
		for (k = 0; k < CALLS; k++)
			TT_EXPECT(!memcmp(s.out[k], s.want[k], LONG * sizeof(float)));
	}
	MP_OK(tutti_stats_get(job->ctx, &stats));
	TT_EXPECT(stats.pieces > 20);
	for (k = 0; k < CALLS; k++) {
		if (k % 2)
			free(s.out[k]);
		else
			MP_OK(tutti_free(s.out[k]));
		free(s.want[k]);
	}
	MP_OK(tutti_free(s.in));
	return 0;
}

static void same(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .fn = same_body, .env = "TUTTI_NODE=off"));
	TT_CHECK(!MP_RUN(.n = 3, .fn = same_body,
			 .env = "TUTTI_NODE=off TUTTI_CHUNK=1M TUTTI_CHECKSUM=1"));
	TT_CHECK(!MP_RUN(.n = 3, .fn = same_body,
			 .env = "TUTTI_TRANSPORT=fault:shm TUTTI_PRIORITY_WINDOW=1K TUTTI_CHUNK=1M "
				"TUTTI_FAULT=seed=5,delay=0.1:200,reorder=0.4,again=0.3"));
	if (mp_no_ofi())
		return;
	TT_CHECK(!MP_RUN(.n = 3, .fn = same_body, .env = OFI));
	TT_CHECK(!MP_RUN(.n = 2, .fn = same_body,
			 .env = "TUTTI_TRANSPORT=fault:ofi TUTTI_IF=lo TUTTI_CHUNK=1M "
				"TUTTI_FAULT=seed=8,delay=0.1:200,reorder=0.4,again=0.2"));
}

static void same_verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	TT_CHECK(!MP_RUN(.n = 3, .fn = same_body, .env = "TUTTI_TRANSPORT=verbs TUTTI_CHUNK=1M"));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"overtakes", overtakes},
		{"overtakes_verbs", overtakes_verbs},
		{"same", same},
		{"same_verbs", same_verbs},
		{NULL, NULL},
	};

	return tt_test_main("priority", tests, argc, argv);
}
