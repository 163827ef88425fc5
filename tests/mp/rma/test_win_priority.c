/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Priorities of windows over transports: what is urgent overtakes long puts and gets that are under
 * way, bytes under way to a peer are bounded, and all bytes arrive before their notification. All
 * by counters.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <stdio.h>

#define KIB ((size_t)1024)
#define WINDOW (256 * KIB) /* the default */
#define LOW (32 * KIB * KIB)
#define HIGH (4 * KIB * KIB)
#define SHORT (64 * KIB)
#define OFI "TUTTI_TRANSPORT=ofi TUTTI_IF=lo"
#define VERBS "TUTTI_TRANSPORT=verbs"

static struct tutti_stats stats_of(struct mp_job *job)
{
	struct tutti_stats s = {.size = sizeof(s)};

	tutti_stats_get(job->ctx, &s);
	return s;
}

static uint64_t moved(struct mp_job *job, bool get)
{
	struct tutti_stats s = stats_of(job);

	return get ? s.got_bytes : s.put_bytes;
}

static void fill(uint32_t *v, size_t bytes, uint32_t with)
{
	size_t i;

	for (i = 0; i < bytes / sizeof(*v); i++)
		v[i] = (uint32_t)i * with;
}

static size_t wrong(const uint32_t *v, size_t bytes, uint32_t with)
{
	size_t i, n = 0;

	for (i = 0; i < bytes / sizeof(*v); i++)
		n += v[i] != (uint32_t)i * with;
	return n;
}

/* Two windows of the same size: one of them becomes urgent. */
struct pair {
	struct tutti_win *low, *high;
	uint32_t *at[2], *here; /* the windows' memory; as much of this rank */
};

static int pair_new(struct mp_job *job, struct pair *p)
{
	MP_OK(tutti_win_allocate(job->world, LOW, 0, (void **)&p->at[0], &p->low));
	MP_OK(tutti_win_allocate(job->world, HIGH, 0, (void **)&p->at[1], &p->high));
	MP_OK(tutti_alloc(job->ctx, LOW + HIGH, (void **)&p->here));
	return 0;
}

static int pair_free(struct mp_job *job, struct pair *p)
{
	MP_OK(tutti_win_free(p->high));
	MP_OK(tutti_win_free(p->low));
	return tutti_free(p->here);
}

/* As operations of so many bytes each. */
static int start(struct mp_job *job, struct tutti_win *win, bool get, uint32_t *local, size_t len,
		 size_t each, struct tutti_request **req)
{
	size_t at;

	for (at = 0; at < len; at += each, req++) {
		*req = NULL;
		if (get)
			MP_OK(tutti_iget(win, 1, local + at / sizeof(*local), each, at, req));
		else
			MP_OK(tutti_iput(win, 1, local + at / sizeof(*local), each, at, req));
	}
	return 0;
}

/*
 * *between: bytes of the low operations, of so many each, that rank 0 moved between the begin and
 * the end of the high one.
 */
static int overtake(struct mp_job *job, struct pair *p, bool get, size_t each, uint64_t *between)
{
	static struct tutti_request *low[LOW / SHORT];
	struct tutti_request *urgent;
	uint32_t *high = p->here + LOW / sizeof(*p->here);
	uint64_t begin;

	fill(job->rank == get ? p->here : p->at[0], LOW, job->rank == get ? 3 : 0);
	fill(job->rank == get ? high : p->at[1], HIGH, job->rank == get ? 5 : 0);
	if (get && job->rank) {
		memcpy(p->at[0], p->here, LOW);
		memcpy(p->at[1], high, HIGH);
	}
	MP_OK(tutti_barrier(job->world));
	if (!job->rank) {
		TT_EXPECT(!start(job, p->low, get, p->here, LOW, each, low));
		begin = moved(job, get);
		TT_EXPECT(!start(job, p->high, get, high, HIGH, HIGH, &urgent));
		MP_OK(tutti_wait(&urgent));
		*between = moved(job, get) - begin - HIGH;
		TT_EXPECT(!get || !wrong(high, HIGH, 5));
		MP_OK(tutti_waitall(LOW / each, low));
		TT_EXPECT(!get || !wrong(p->here, LOW, 3));
	}
	MP_OK(tutti_barrier(job->world));
	TT_EXPECT(get || !job->rank || (!wrong(p->at[1], HIGH, 5) && !wrong(p->at[0], LOW, 3)));
	return 0;
}

static int overtake_body(struct mp_job *job)
{
	struct tutti_stats s;
	uint64_t equal = 0, urgent = 0, shorter = 0;
	bool strict = job->arg && *(bool *)job->arg;
	struct pair p;
	int get;

	TT_EXPECT(!pair_new(job, &p));
	for (get = 0; get < 2; get++) {
		MP_OK(tutti_win_set_priority(p.low, -1)); /* from now on priorities are in use */
		MP_OK(tutti_win_set_priority(p.high, -1));
		TT_EXPECT(!overtake(job, &p, get, LOW, &equal));
		MP_OK(tutti_win_set_priority(p.high, 7));
		TT_EXPECT(!overtake(job, &p, get, LOW, &urgent));
		TT_EXPECT(!overtake(job, &p, get, SHORT, &shorter));
		if (job->rank)
			continue;
		s = stats_of(job);
		printf("  low bytes during a %s of %zu KiB: %llu KiB at equal priority, %llu KiB "
		       "below it, %llu KiB of short ones; %llu pieces, %llu KiB under way\n",
		       get ? "get" : "put", HIGH / KIB, (unsigned long long)equal / KIB,
		       (unsigned long long)urgent / KIB, (unsigned long long)shorter / KIB,
		       (unsigned long long)s.pieces, (unsigned long long)s.window_most / KIB);
		TT_EXPECT(!strict ||
			  (equal > 8 * WINDOW && urgent <= 2 * WINDOW && shorter <= 2 * WINDOW));
		TT_EXPECT(!strict || s.pieces == (1 + (size_t)get) * (2 * LOW + 3 * HIGH) / WINDOW);
		TT_EXPECT(s.pieces >= (LOW + HIGH) / WINDOW && s.window_most == WINDOW);
	}
	return pair_free(job, &p);
}

/* Strict where one thread makes progress, and each piece ends by a later event. */
static void overtakes(void)
{
	static bool strict = true;

	TT_CHECK(
		!MP_RUN(.n = 2, .fn = overtake_body, .arg = &strict,
			.env = "TUTTI_TRANSPORT=fault:shm TUTTI_FAULT=seed=3,finish=1,delay=1:50"));
	TT_CHECK(!MP_RUN(.n = 2, .fn = overtake_body, .arg = &strict,
			 .env = "TUTTI_TRANSPORT=fault:shm "
				"TUTTI_FAULT=seed=5,finish=1,delay=1:50,again=0.2"));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 2, .fn = overtake_body, .env = OFI));
}

/* ---- the blocks of a put keep the priority that it had at its call ---- */

#define BLOCK (32 * KIB)

static int blocks_body(struct mp_job *job)
{
	struct tutti_strides blocks = {.size = sizeof(blocks),
				       .block = BLOCK,
				       .count = HIGH / BLOCK / 2,
				       .local_stride = 2 * BLOCK,
				       .stride = 2 * BLOCK};
	struct tutti_request *low, *urgent;
	uint64_t between = 0;
	struct pair p;

	TT_EXPECT(!pair_new(job, &p));
	MP_OK(tutti_barrier(job->world));
	if (!job->rank) {
		MP_OK(tutti_win_set_priority(p.high, 7));
		MP_OK(tutti_iput(p.low, 1, p.here, LOW, 0, &low));
		between = moved(job, false);
		MP_OK(tutti_iput_strided(p.high, 1, p.here, 0, &blocks, &urgent));
		MP_OK(tutti_win_set_priority(p.high, -7));
		MP_OK(tutti_wait(&urgent));
		between = moved(job, false) - between - HIGH / 2;
		printf("  %zu KiB of a low put during one of blocks\n", (size_t)between / KIB);
		MP_OK(tutti_wait(&low));
	}
	TT_EXPECT(between <= 4 * WINDOW);
	return pair_free(job, &p);
}

static void blocks(void)
{
	TT_CHECK(
		!MP_RUN(.n = 2, .fn = blocks_body,
			.env = "TUTTI_TRANSPORT=fault:shm TUTTI_FAULT=seed=3,finish=1,delay=1:50"));
}

/* ---- operations without a priority wait between those that have one ---- */

#define AMOS 64

static int between_body(struct mp_job *job)
{
	static struct tutti_request *low[LOW / SHORT], *amo[AMOS];
	struct tutti_request *urgent;
	uint64_t between = 0, old[AMOS];
	struct pair p;
	int i;

	TT_EXPECT(!pair_new(job, &p));
	MP_OK(tutti_win_set_priority(p.high, 7));
	MP_OK(tutti_barrier(job->world));
	if (!job->rank) {
		TT_EXPECT(!start(job, p.low, false, p.here, LOW, SHORT, low));
		for (i = 0; i < AMOS; i++)
			MP_OK(tutti_ifetch_add(p.high, 1, 1, HIGH - 8, &old[i], &amo[i]));
		between = moved(job, false);
		TT_EXPECT(!start(job, p.high, false, p.here, SHORT, SHORT, &urgent));
		MP_OK(tutti_wait(&urgent));
		between = moved(job, false) - between - SHORT;
		printf("  %zu KiB of low puts during a high one behind atomics\n",
		       (size_t)between / KIB);
		MP_OK(tutti_waitall(LOW / SHORT, low));
		MP_OK(tutti_waitall(AMOS, amo));
	}
	TT_EXPECT(between <= 2 * WINDOW);
	return pair_free(job, &p);
}

static void past_others(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = between_body,
			 .env = "TUTTI_TRANSPORT=fault:shm "
				"TUTTI_FAULT=seed=3,finish=1,delay=1:50,again=0.9"));
}

/* ---- a long put among short ones of its priority ---- */

#define TURNS 4
#define LONG (1024 * KIB)
#define SHORTER (48 * KIB)
#define SHORTS_MOST 1000

/* *shorts: so many of them ended while the long one did; each is followed by the next. */
static int turns(struct mp_job *job, struct pair *p, int *shorts)
{
	struct tutti_request *req[TURNS] = {NULL}, *whole;
	int i, over = 0, ended;

	for (i = 0; i < TURNS; i++)
		MP_OK(tutti_iput(p->high, 1, p->here, SHORTER, (uint64_t)i * SHORTER, &req[i]));
	MP_OK(tutti_iput(p->low, 1, p->here, LONG, 0, &whole));
	for (*shorts = 0; !over && *shorts < SHORTS_MOST;) {
		for (i = 0; i < TURNS; i++) {
			MP_OK(tutti_test(&req[i], &ended));
			if (!ended)
				continue;
			++*shorts;
			MP_OK(tutti_iput(p->high, 1, p->here, SHORTER, (uint64_t)i * SHORTER,
					 &req[i]));
		}
		MP_OK(tutti_test(&whole, &over));
	}
	MP_OK(tutti_waitall(TURNS, req));
	return over ? 0 : tutti_wait(&whole);
}

static int turns_body(struct mp_job *job)
{
	struct pair p;
	int shorts = 0;

	TT_EXPECT(!pair_new(job, &p));
	MP_OK(tutti_win_set_priority(p.low, 1));
	MP_OK(tutti_win_set_priority(p.high, 1));
	MP_OK(tutti_barrier(job->world));
	if (!job->rank) {
		MP_OK(turns(job, &p, &shorts));
		printf("  %d short puts beside a long one\n", shorts);
	}
	TT_EXPECT(shorts <= 100);
	return pair_free(job, &p);
}

/* Each round of the short ones lets one piece of the long one pass. */
static void take_turns(void)
{
	TT_CHECK(
		!MP_RUN(.n = 2, .fn = turns_body,
			.env = "TUTTI_TRANSPORT=fault:shm TUTTI_FAULT=seed=3,finish=1,delay=1:50"));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 2, .fn = turns_body, .env = OFI));
}

/* ---- any priorities: all bytes are in place before their notification ---- */

#define MANY 12
#define PART ((size_t)300001)

/* Of each rank to the other one, in an order by their priorities; blocking ones as well. */
static int many_body(struct mp_job *job)
{
	static const int priorities[MANY] = {0, 3, -2, 3, 1, 0, 7, -2, 1, 5, 0, 2};
	struct tutti_win *win;
	int other = 1 - job->rank, i, round;
	unsigned char *mine, *put;
	size_t k;

	MP_OK(tutti_win_allocate(job->world, MANY * PART, 0, (void **)&mine, &win));
	MP_OK(tutti_alloc(job->ctx, MANY * PART, (void **)&put));
	for (round = 1; round < 4; round++) {
		for (k = 0; k < MANY * PART; k++)
			put[k] = (unsigned char)(k * 7 + (size_t)round + (size_t)job->rank);
		for (i = 0; i < MANY; i++) {
			MP_OK(tutti_win_set_priority(win, priorities[i] * round));
			MP_OK(tutti_put_notify_id(win, other, put + (size_t)i * PART, PART,
						  (uint64_t)i * PART, i));
		}
		for (i = MANY; i-- > 0;) {
			MP_OK(tutti_wait_notify_id(win, i, 1));
			for (k = (size_t)i * PART; k < (size_t)(i + 1) * PART; k++)
				TT_EXPECT(mine[k] ==
					  (unsigned char)(k * 7 + (size_t)round + (size_t)other));
		}
		MP_OK(tutti_win_flush_all(win));
		MP_OK(tutti_barrier(job->world));
		for (i = 0; i < MANY; i++)
			MP_OK(tutti_get(win, other, put + (size_t)i * PART, PART,
					(uint64_t)i * PART));
		MP_OK(tutti_win_flush(win, other));
		for (k = 0; k < MANY * PART; k++)
			TT_EXPECT(put[k] ==
				  (unsigned char)(k * 7 + (size_t)round + (size_t)job->rank));
		MP_OK(tutti_barrier(job->world));
	}
	TT_EXPECT(stats_of(job).pieces > 3 * MANY && stats_of(job).window_most <= WINDOW);
	MP_OK(tutti_free(put));
	return tutti_win_free(win);
}

static void many(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = many_body,
			 .env = "TUTTI_TRANSPORT=fault:shm "
				"TUTTI_FAULT=seed=9,delay=0.2:100,reorder=0.3,again=0.2"));
	TT_CHECK(!MP_RUN(.n = 2, .fn = many_body,
			 .env = "TUTTI_TRANSPORT=fault:shm TUTTI_PRIORITY_WINDOW=1K "
				"TUTTI_FAULT=seed=4,delay=0.2:100,max_put=50001"));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 2, .fn = many_body, .env = OFI " TUTTI_CHECKSUM=1"));
}

/* ---- in the memory of one host nothing is cut ---- */

static int host_body(struct mp_job *job)
{
	uint64_t between;
	struct pair p;

	TT_EXPECT(!pair_new(job, &p));
	MP_OK(tutti_win_set_priority(p.high, 7));
	fill(p.here, LOW, 3);
	if (!job->rank) {
		MP_OK(tutti_put(p.low, 1, p.here, LOW, 0));
		MP_OK(tutti_put(p.high, 1, p.here, HIGH, 0));
		MP_OK(tutti_win_flush_all(p.low));
		MP_OK(tutti_win_flush_all(p.high));
	}
	MP_OK(tutti_barrier(job->world));
	TT_EXPECT(!job->rank || (!wrong(p.at[0], LOW, 3) && !wrong(p.at[1], HIGH, 3)));
	between = stats_of(job).pieces;
	TT_EXPECT(!between);
	MP_ERR(tutti_win_set_priority(NULL, 1), -EINVAL);
	return pair_free(job, &p);
}

static void on_a_host(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = host_body, .env = "TUTTI_TRANSPORT=shm"));
}

/*
 * Over a device, which goes on by itself between two polls, so that low bytes during a high
 * operation have no strict bound; the second takes longer.
 */
static void verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	TT_CHECK(!MP_RUN(.n = 2, .fn = turns_body, .env = VERBS));
	TT_CHECK(!MP_RUN(.n = 2, .fn = many_body,
			 .env = VERBS " TUTTI_PRIORITY_WINDOW=16K TUTTI_CHECKSUM=1"));
}

static void verbs_long(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	TT_CHECK(!MP_RUN(.n = 2, .fn = overtake_body, .env = VERBS));
}

static const struct tt_test tests[] = {{"overtakes", overtakes},
				       {"take_turns", take_turns},
				       {"blocks", blocks},
				       {"past_others", past_others},
				       {"many", many},
				       {"on_a_host", on_a_host},
				       {"verbs", verbs},
				       {"verbs_long", verbs_long},
				       {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("win_priority", tests, argc, argv);
}
