/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tables with priorities: pushes and pulls overtake those of other tables that are under way, but
 * no clock and no call of their own table; every update is applied once. All by counters.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <stdio.h>
#include <stdlib.h>

#define KIB 1024
#define SMALL ((size_t)1 << 20) /* elements: 4 MiB */
#define WINDOW (512 * KIB)
#define SLACK (64 * KIB) /* heads, directories, clocks */
#define TRIES 40	 /* as many as a busy machine needs: most end with the first */
#define OFI "TUTTI_TRANSPORT=ofi TUTTI_IF=lo"

struct set {
	struct tutti_ps *ps;
	size_t count;				   /* of big */
	struct tutti_ps_table *big, *small, *fast; /* only fast has a priority */
	int32_t *low, *high;			   /* of big's, and of the others' length */
	int pushes[3];				   /* of each table */
};

static uint64_t moved(struct mp_job *job)
{
	struct tutti_stats s = {.size = sizeof(s)};

	tutti_stats_get(job->ctx, &s);
	return s.put_bytes + s.got_bytes;
}

static int make(struct mp_job *job, struct set *s, const char *name, size_t n, int priority,
		struct tutti_ps_table **t)
{
	struct tutti_ps_options o = {
		.size = sizeof(o), .init = TUTTI_PS_ZERO, .priority = job->rank ? priority : 0};

	return tutti_ps_dense(s->ps, name, n, TUTTI_INT32, &o, t);
}

/* The updates of t in one push. */
static void fill(struct set *s, const struct tutti_ps_table *t)
{
	size_t n = t == s->big ? s->count : SMALL, i;
	int32_t *v = t == s->big ? s->low : s->high;

	for (i = 0; i < n; i++)
		v[i] = (int32_t)i % 1000 + 1;
	s->pushes[t == s->big ? 0 : t == s->small ? 1 : 2]++;
}

static int start(struct set *s, struct tutti_ps_table *t, bool push, struct tutti_request **req)
{
	size_t n = t == s->big ? s->count : SMALL;
	int32_t *v = t == s->big ? s->low : s->high;

	return push ? tutti_ps_ipush(t, v, 0, n, TUTTI_INT32, req)
		    : tutti_ps_ipull(t, v, 0, n, TUTTI_INT32, req);
}

/*
 * A call on t while one on the big table is under way. *between: bytes that moved from its begin to
 * its end beyond its own; *over: whether the big one had ended by then.
 */
static int overtake(struct mp_job *job, struct set *s, struct tutti_ps_table *t, bool push,
		    uint64_t *between, int *over)
{
	struct tutti_request *req[2] = {NULL, NULL};
	uint64_t begin = moved(job);

	*over = 0;
	if (push) {
		fill(s, s->big);
		fill(s, t);
	}
	MP_OK(start(s, s->big, push, &req[0]));
	while (!*over && moved(job) - begin < s->count)
		MP_OK(tutti_request_get_status(req[0], over)); /* a quarter of it */
	begin = moved(job);
	MP_OK(start(s, t, push, &req[1]));
	MP_OK(tutti_wait(&req[1]));
	*between = moved(job) - begin - SMALL * sizeof(int32_t);
	MP_OK(tutti_request_get_status(req[0], over));
	MP_OK(tutti_wait(&req[0]));
	return 0;
}

/* The values are the sums of all pushes so far. */
static int check(struct mp_job *job, struct set *s)
{
	struct tutti_ps_table *const table[3] = {s->big, s->small, s->fast};
	size_t n, i;
	int k;

	for (k = 0; k < 3; k++) {
		n = k ? SMALL : s->count;
		MP_OK(tutti_ps_pull(table[k], s->low, 0, n, TUTTI_INT32));
		for (i = 0; i < n; i++)
			TT_EXPECT(s->low[i] == s->pushes[k] * ((int32_t)i % 1000 + 1));
	}
	return 0;
}

/* A push of high priority does not go before a clock that was called earlier. */
static int behind_clock(struct mp_job *job, struct set *s)
{
	struct tutti_request *req[3] = {NULL, NULL, NULL};
	int over;

	fill(s, s->big);
	fill(s, s->fast);
	MP_OK(start(s, s->big, true, &req[0]));
	MP_OK(tutti_ps_iclock(s->ps, &req[1]));
	MP_OK(start(s, s->fast, true, &req[2]));
	MP_OK(tutti_wait(&req[2]));
	MP_OK(tutti_request_get_status(req[0], &over));
	TT_EXPECT(over);
	return tutti_waitall(2, req);
}

/*
 * The least of several tries: while the caller waits for a processor the worker's thread may go on
 * with the big one, even to its end. Tries in which it has ended do not count.
 */
static int least(struct mp_job *job, struct set *s, bool push, uint64_t *bytes)
{
	uint64_t between;
	int i, over;

	*bytes = UINT64_MAX;
	for (i = 0; *bytes > WINDOW + SLACK && i < TRIES; i++) {
		MP_OK(overtake(job, s, s->fast, push, &between, &over));
		if (!over && between < *bytes)
			*bytes = between;
	}
	return 0;
}

/* Without a priority: the most, as the big one may have nearly ended before the call begins. */
static int most(struct mp_job *job, struct set *s, bool push, uint64_t enough, uint64_t *bytes)
{
	uint64_t between;
	int i, over;

	*bytes = 0;
	for (i = 0; i < TRIES && *bytes <= enough; i++) {
		MP_OK(overtake(job, s, s->small, push, &between, &over));
		*bytes = between > *bytes ? between : *bytes;
	}
	return 0;
}

static int work(struct mp_job *job, struct set *s)
{
	const uint64_t enough[2] = {s->count * 2, 4 * WINDOW};
	uint64_t equal[2], urgent[2];
	int k;

	for (k = 0; k < 2; k++) {
		MP_OK(most(job, s, !k, enough[k], &equal[k]));
		MP_OK(least(job, s, !k, &urgent[k]));
	}
	printf("  bytes of the long call during one of %zu KiB: pushes %llu KiB, %llu KiB with "
	       "priority; pulls %llu KiB, %llu KiB\n",
	       SMALL * 4 / KIB, (unsigned long long)equal[0] / KIB,
	       (unsigned long long)urgent[0] / KIB, (unsigned long long)equal[1] / KIB,
	       (unsigned long long)urgent[1] / KIB);
	TT_EXPECT(equal[0] > enough[0] && urgent[0] <= WINDOW + SLACK);
	TT_EXPECT(equal[1] > enough[1] && urgent[1] <= WINDOW + SLACK);
	TT_EXPECT(!check(job, s));
	MP_OK(behind_clock(job, s));
	return check(job, s);
}

static int body(struct mp_job *job)
{
	struct tutti_ps_config c = {.size = sizeof(c),
				    .role = job->rank ? TUTTI_PS_WORKER : TUTTI_PS_SERVER,
				    .staleness = TUTTI_PS_ASYNC};
	struct set s = {.count = *(const size_t *)job->arg};
	int err;

	s.low = malloc(s.count * sizeof(*s.low));
	s.high = malloc(SMALL * sizeof(*s.high));
	TT_EXPECT(s.low && s.high);
	MP_OK(tutti_ps_open(job->world, &c, &s.ps));
	MP_OK(make(job, &s, "big", s.count, 0, &s.big));
	MP_OK(make(job, &s, "small", SMALL, 0, &s.small));
	MP_OK(make(job, &s, "fast", SMALL, 7, &s.fast));
	err = job->rank ? work(job, &s) : 0;
	MP_OK(tutti_ps_close(s.ps));
	free(s.low);
	free(s.high);
	return err;
}

static void over_tcp(void)
{
	size_t count = (size_t)8 << 20; /* 32 MiB */

	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 2, .fn = body, .env = OFI, .arg = &count));
}

static void over_verbs(void)
{
	size_t count = (size_t)4 << 20; /* emulated devices are slow */

	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	TT_CHECK(!MP_RUN(.n = 2, .fn = body, .env = "TUTTI_TRANSPORT=verbs", .arg = &count));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"over_tcp", over_tcp}, {"over_verbs", over_verbs}, {NULL, NULL}};

	return tt_test_main("ps_priority", tests, argc, argv);
}
