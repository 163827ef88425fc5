/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Partial all-reduces: carry, drop, window, resynchronization, stopped ranks, drain, averages,
 * cutoff; refused arguments, ranks that differ. Sums over many steps are in
 * test_partial_conserve.c, deaths in tests/fault/test_partial_deaths.c.
 */
#include "config.h"

#include "tests/mp/coll/partial.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

/* ---- a rank that comes late ---- */

/* Until this rank knows so many rounds. */
static int await_rounds(struct mp_job *job, struct tutti_partial *p, uint64_t rounds)
{
	struct tutti_partial_stats s = {.size = sizeof(s)};
	double end = mp_now() + 30;

	for (;;) {
		MP_OK(tutti_partial_stats_get(p, &s));
		if (s.rounds >= rounds)
			return 0;
		TT_EXPECT(mp_now() < end);
		mp_sleep_ms(1);
	}
}

static int32_t one_to(struct tutti_partial *p, uint64_t *first, uint64_t *last, unsigned char *map)
{
	int32_t v = 1;

	return tutti_partial_allreduce(p, TUTTI_IN_PLACE, &v, map, first, last) ? -1 : v;
}

/* Rank 0 decides 5 rounds alone; then the others come. */
static int carry_body(struct mp_job *job)
{
	struct tutti_partial_config config = config_of(1, 0, TUTTI_PARTIAL_CARRY);
	struct tutti_partial_stats s = {.size = sizeof(s)};
	struct tutti_comm *dup;
	struct tutti_partial *p;
	unsigned char map = 0;
	uint64_t first, last;
	int32_t v = 77;
	int i;

	MP_OK(tutti_comm_dup(job->world, &dup));
	MP_OK(tutti_partial_create(dup, 1, TUTTI_INT32, TUTTI_SUM, &config, &p));
	for (i = 1; i <= 5 && !job->rank; i++) {
		TT_EXPECT(one_to(p, &first, &last, &map) == 1);
		TT_EXPECT(first == (uint64_t)i && last == first && map == 1);
	}
	mp_meet(job);
	if (job->rank) { /* the results are on their way */
		TT_EXPECT(one_to(p, &first, &last, &map) >= 1);
		TT_EXPECT(first == 1 && map == 1);
		TT_EXPECT(!await_rounds(job, p, 5));
		MP_OK(tutti_partial_resync(p, &last));
		TT_EXPECT(last == 5);
	}
	MP_OK(tutti_partial_stats_get(p, &s));
	TT_EXPECT(s.rounds == 5 && s.calls == (job->rank ? 1 : 5) && s.late == !!job->rank);
	TT_EXPECT(s.carried_bytes == (job->rank ? 4 : 0));
	mp_meet(job);
	MP_ERR(tutti_partial_free(p), -EBUSY);
	if (!job->rank) {
		MP_SAID("tutti_partial_free: another rank has a carry");
	} else {
		MP_SAID("tutti_partial_free: 4 bytes of this rank's carry");
		MP_ERR(tutti_comm_free(dup), -EBUSY);
		MP_SAID("tutti_comm_free: 4 bytes that a partial all-reduce carries");
		MP_ERR(tutti_finalize(job->ctx), -EBUSY);
		MP_SAID("tutti_finalize: 4 bytes that a partial all-reduce carries");
	}
	mp_meet(job);
	MP_OK(tutti_partial_drain(p, &v, &map, &first, &last));
	TT_EXPECT(v == job->n - 1 && first == 6 && last == 6 && map == (1 << job->n) - 2);
	v = 77; /* nothing is left */
	MP_OK(tutti_partial_drain(p, &v, &map, &first, &last));
	TT_EXPECT(v == 77 && first == 7 && last == 6);
	MP_ERR(tutti_finalize(job->ctx), -EBUSY);
	MP_SAID("tutti_finalize: a partial all-reduce still exists; call tutti_partial_free");
	MP_OK(tutti_comm_free(dup)); /* p keeps it */
	MP_OK(tutti_partial_free(p));
	return 0;
}

static void carry(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = carry_body));
	TT_CHECK(!MP_RUN(.n = 5, .env = SHM, .fn = carry_body));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 3, .env = OFI, .fn = carry_body));
}

/* The last rank has its contribution in round 1, then sleeps for more rounds than are kept. */
static int resync_body(struct mp_job *job)
{
	struct tutti_partial_config config = config_of(job->n - 1, 0, TUTTI_PARTIAL_CARRY);
	struct tutti_partial_stats s = {.size = sizeof(s)};
	uint64_t first = 1, last, round = 0;
	struct tutti_partial *p;
	int64_t v = 1, total = 0;
	bool slow = job->rank == job->n - 1;
	int i, rounds = TUTTI_PARTIAL_WINDOW + 9;

	MP_OK(tutti_partial_create(job->world, 1, TUTTI_INT64, TUTTI_SUM, &config, &p));
	for (i = 0; i < rounds && !slow; i++, total += v, v = 1)
		MP_OK(tutti_partial_allreduce(p, TUTTI_IN_PLACE, &v, NULL, NULL, NULL));
	mp_meet(job);
	if (slow) {
		TT_EXPECT(!await_rounds(job, p, (uint64_t)rounds));
		first = last = 99;
		MP_ERR(tutti_partial_allreduce(p, TUTTI_IN_PLACE, &v, NULL, &first, &last),
		       -ESTALE);
		MP_SAID("round 1 is not kept any more: 25 rounds are decided");
		MP_ERR(tutti_partial_drain(p, &v, NULL, &first, &last), -ESTALE);
		MP_ERR(tutti_partial_result(p, 9, &v, NULL), -ESTALE);
		TT_EXPECT(v == 1 && first == 99 && last == 99);
		MP_OK(tutti_partial_result(p, 10, &v, NULL));
		TT_EXPECT(v == job->n - 1);
		MP_OK(tutti_partial_resync(p, &round));
		TT_EXPECT(round == (uint64_t)rounds);
		total = round * (uint64_t)(job->n - 1); /* a model that has them */
		MP_OK(tutti_partial_stats_get(p, &s));
		TT_EXPECT(s.skipped == round && s.calls == 1 && s.carried_bytes == 8);
	}
	mp_meet(job);
	v = 1;
	if (!slow)
		MP_OK(tutti_partial_allreduce(p, TUTTI_IN_PLACE, &v, NULL, NULL, NULL));
	else /* round 26 may be known here already; then this is late */
		MP_OK(tutti_partial_allreduce(p, TUTTI_IN_PLACE, &v, NULL, &first, &last));
	total += v;
	MP_OK(tutti_partial_drain(p, &v, NULL, &first, &last));
	total += last >= first ? v : 0;
	TT_EXPECT(total == (int64_t)rounds * (job->n - 1) + job->n + 1);
	MP_OK(tutti_partial_free(p));
	return 0;
}

static void resync(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .fn = resync_body));
	TT_CHECK(!MP_RUN(.n = 5, .env = SHM, .fn = resync_body));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 3, .env = OFI, .fn = resync_body));
}

/* More rounds than may be on their way to a rank that is stopped. */
static int stopped_body(struct mp_job *job)
{
	enum { ROUNDS = 100 };
	struct tutti_partial_config config = config_of(job->n - 1, 0, TUTTI_PARTIAL_CARRY);
	size_t count = *(const size_t *)job->arg;
	int64_t *v = calloc(count, sizeof(*v)), total = 0;
	bool victim = job->rank == job->n - 1;
	atomic_int *word = job->shared->word;
	uint64_t first, last, round;
	struct tutti_partial *p;
	int i, err;

	MP_OK(tutti_partial_create(job->world, count, TUTTI_INT64, TUTTI_SUM, &config, &p));
	v[0] = v[count - 1] = 1;
	MP_OK(tutti_partial_allreduce(p, TUTTI_IN_PLACE, v, NULL, NULL, NULL));
	total = v[count - 1]; /* the decider has heard of all */
	mp_meet(job);
	if (job->rank == 0) {
		TT_EXPECT(!mp_stop(job->shared->pid[job->n - 1]));
		atomic_store(&word[0], 1);
	}
	TT_EXPECT(mp_await(&word[victim], 1, 30000));
	for (i = 0; i < ROUNDS && !victim; i++, total += v[count - 1]) {
		v[0] = v[count - 1] = 1;
		MP_OK(tutti_partial_allreduce(p, TUTTI_IN_PLACE, v, NULL, NULL, NULL));
	}
	atomic_fetch_add(&word[2], 1);
	if (job->rank == 0) {
		TT_EXPECT(mp_await(&word[2], job->n - 1, 30000));
		atomic_store(&word[1], 1);
		TT_EXPECT(!kill(job->shared->pid[job->n - 1], SIGCONT));
	}
	v[0] = v[count - 1] = 1;
	err = victim ? tutti_partial_allreduce(p, TUTTI_IN_PLACE, v, NULL, NULL, NULL) : 0;
	TT_EXPECT(!err || err == -ESTALE); /* and is offered in both cases */
	for (i = 0; i < 20 && (err = tutti_partial_drain(p, v, NULL, &first, &last)) == -ESTALE;
	     i++)
		MP_OK(tutti_partial_resync(p, &round));
	TT_EXPECT(!err);
	total += last >= first ? v[count - 1] : 0;
	TT_EXPECT(victim || total == (int64_t)(ROUNDS + 1) * (job->n - 1) + 2);
	MP_OK(tutti_partial_free(p));
	free(v);
	return 0;
}

static void stopped(void)
{
	static const size_t counts[] = {1, 20000};
	int i;

	for (i = 0; i < 2; i++) {
		TT_CHECK(!MP_RUN(.n = 4, .fn = stopped_body, .arg = (void *)(uintptr_t)&counts[i]));
		if (!mp_no_ofi())
			TT_CHECK(!MP_RUN(.n = 3, .env = OFI, .fn = stopped_body,
					 .arg = (void *)(uintptr_t)&counts[i]));
	}
}

/* Backup workers: of 3, 2 count. The third is late by a round, and in time for the next. */
static int drop_body(struct mp_job *job)
{
	struct tutti_partial_config config = config_of(2, 0, TUTTI_PARTIAL_DROP);
	struct tutti_partial_stats s = {.size = sizeof(s)};
	struct tutti_partial *p;
	unsigned char map = 0;
	uint64_t first, last;
	int32_t v = 1;

	MP_OK(tutti_partial_create(job->world, 1, TUTTI_INT32, TUTTI_SUM, &config, &p));
	if (job->rank < 2)
		TT_EXPECT(one_to(p, &first, &last, &map) == 2 && map == 3);
	mp_meet(job);
	if (job->rank == 2) {
		TT_EXPECT(!await_rounds(job, p, 1));
		TT_EXPECT(one_to(p, &first, &last, &map) == 2 && map == 3 && last == 1);
		MP_OK(tutti_partial_stats_get(p, &s));
		TT_EXPECT(s.calls == 1 && s.late == 1 && s.dropped == 1 && !s.carried_bytes);
	}
	mp_meet(job);
	if (job->rank)
		TT_EXPECT(one_to(p, &first, &last, &map) == 2 && map == 6 && last == 2);
	mp_meet(job); /* a rank that drains counts for the quorum */
	MP_OK(tutti_partial_drain(p, &v, &map, &first, &last));
	TT_EXPECT(last == 2 && (job->rank ? first == 3 : v == 2));
	MP_OK(tutti_partial_free(p));
	return 0;
}

/* One rank calls four times in vain. The first two are offered to the next round, two are late. */
static int vain_body(struct mp_job *job)
{
	struct tutti_partial_config config = config_of(2, 0, TUTTI_PARTIAL_DROP);
	int vain = *(int *)job->arg, helper = vain ? 0 : 1, i;
	struct tutti_partial_stats s = {.size = sizeof(s)};
	struct tutti_partial *p;
	struct tutti_comm *dup;
	unsigned char map = 0;
	uint64_t first, last;
	int32_t v = 1;

	MP_OK(tutti_comm_dup(job->world, &dup));
	MP_OK(tutti_comm_set_timeout(dup, 50));
	MP_OK(tutti_partial_create(dup, 1, TUTTI_INT32, TUTTI_SUM, &config, &p));
	for (i = 0; i < 4 && job->rank == vain; i++) {
		MP_ERR(tutti_partial_allreduce(p, TUTTI_IN_PLACE, &v, &map, &first, &last),
		       -ETIMEDOUT);
		MP_SAID("the contribution takes part if it is decided, or is dropped");
	}
	mp_meet(job);
	MP_OK(tutti_comm_set_timeout(dup, 20000));
	if (job->rank == helper)
		TT_EXPECT(one_to(p, &first, &last, &map) == 3 && map == (1 | 1 << (vain ? 2 : 1)));
	mp_meet(job);
	MP_OK(tutti_partial_drain(p, &v, &map, &first, &last));
	TT_EXPECT(last == 1 && (job->rank == helper ? first == 2 : v == 3));
	MP_OK(tutti_partial_stats_get(p, &s));
	TT_EXPECT(s.calls == (job->rank == vain ? 4 : job->rank == helper));
	TT_EXPECT(s.dropped == (job->rank == vain ? 2 : 0));
	MP_OK(tutti_partial_free(p));
	return tutti_comm_free(dup);
}

static void drop(void)
{
	static const int vain[] = {0, 2};
	int i;

	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = drop_body));
	for (i = 0; i < 2; i++)
		TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = vain_body, .arg = (void *)&vain[i]));
}

/* Rank 0 gives 6 alone, then ranks 1 to n - 1 give 6 each in the drain. */
static int average_body(struct mp_job *job)
{
	const bool by_size = *(bool *)job->arg;
	struct tutti_partial_config config = config_of(1, 0, TUTTI_PARTIAL_CARRY);
	struct tutti_partial *p;
	float v[3] = {6, 12, -6};
	uint64_t first, last;
	int i;

	config.divide = by_size ? TUTTI_PARTIAL_BY_SIZE : TUTTI_PARTIAL_BY_TAKING_PART;
	MP_OK(tutti_partial_create(job->world, 3, TUTTI_FLOAT32, TUTTI_AVG, &config, &p));
	if (!job->rank) {
		MP_OK(tutti_partial_allreduce(p, TUTTI_IN_PLACE, v, NULL, NULL, NULL));
		for (i = 0; i < 3; i++)
			TT_EXPECT(v[i] == (i == 0   ? 6.0f
					   : i == 1 ? 12.0f
						    : -6.0f) /
						  (by_size ? (float)job->n : 1.0f));
	}
	mp_meet(job);
	if (job->rank)
		MP_OK(tutti_partial_allreduce(p, TUTTI_IN_PLACE, v, NULL, &first, &last));
	MP_OK(tutti_partial_drain(p, v, NULL, &first, &last));
	TT_EXPECT(first == 2 && last == 2);
	TT_EXPECT(v[1] == (by_size ? 12.0f * (float)(job->n - 1) / (float)job->n : 12.0f));
	MP_OK(tutti_partial_free(p));
	return 0;
}

static void average(void)
{
	bool by_size;

	for (by_size = false;; by_size = true) {
		TT_CHECK(!MP_RUN(.n = 3, .fn = average_body, .arg = &by_size));
		TT_CHECK(!MP_RUN(.n = 4, .fn = average_body, .arg = &by_size));
		if (by_size)
			break;
	}
}

/* All ranks are wanted, but the last one comes only when the others have gone on. */
static int cutoff_body(struct mp_job *job)
{
	struct tutti_partial_config config = config_of(0, 20000, TUTTI_PARTIAL_CARRY);
	bool slow = job->rank == job->n - 1;
	struct tutti_partial *p;
	unsigned char map = 0;
	uint64_t first, last;
	int32_t v = 1;

	MP_OK(tutti_partial_create(job->world, 1, TUTTI_INT32, TUTTI_SUM, &config, &p));
	mp_meet(job);
	if (!slow) {
		TT_EXPECT(one_to(p, &first, &last, &map) >= 1 && map < 1 << (job->n - 1));
		atomic_fetch_add(&job->shared->word[0], 1);
	}
	TT_EXPECT(mp_await(&job->shared->word[0], job->n - 1, 30000));
	if (slow)
		TT_EXPECT(one_to(p, &first, &last, &map) >= 1);
	MP_OK(tutti_partial_drain(p, &v, &map, &first, &last));
	MP_OK(tutti_partial_free(p));
	return 0;
}

/* A call on which too few ranks meet ends at its deadline; its contribution is carried. */
static int deadline_body(struct mp_job *job)
{
	struct tutti_partial *p;
	unsigned char map = 0;
	uint64_t first, last;
	int32_t v = 1;

	MP_OK(tutti_partial_create(job->world, 1, TUTTI_INT32, TUTTI_SUM, NULL, &p));
	if (!job->rank) {
		MP_OK(tutti_comm_set_timeout(job->world, 100));
		MP_ERR(tutti_partial_allreduce(p, &v, &(int32_t){0}, &map, &first, &last),
		       -ETIMEDOUT);
		MP_SAID("within 100 ms: round 1 is not decided");
		MP_SAID("2 of 2 living ranks");
		MP_OK(tutti_comm_set_timeout(job->world, 0));
	}
	mp_meet(job);
	/* rank 0 has offered twice, rank 1 once */
	TT_EXPECT(one_to(p, &first, &last, &map) >= 2 && map == 3 && last == 1);
	MP_OK(tutti_partial_drain(p, &v, &map, &first, &last));
	MP_OK(tutti_partial_free(p));
	return 0;
}

/* Drains until all ranks do so at once. */
static int drain_again(struct mp_job *job, struct tutti_partial *p, int32_t *v, uint64_t *first,
		       uint64_t *last)
{
	int i, err = -ETIMEDOUT;

	for (i = 0; i < 100 && err == -ETIMEDOUT; i++)
		err = tutti_partial_drain(p, v, NULL, first, last);
	MP_OK(err);
	return 0;
}

/*
 * Drains end at their deadlines: what they have got by then comes again, and they end when all
 * ranks repeat them, also a rank for which the others have waited no more.
 */
static int repeat_body(struct mp_job *job)
{
	struct tutti_partial_config config = config_of(1, 0, TUTTI_PARTIAL_CARRY);
	struct tutti_partial *p;
	uint64_t first, last;
	int32_t v = 77;
	int turn;

	MP_OK(tutti_partial_create(job->world, 1, TUTTI_INT32, TUTTI_SUM, &config, &p));
	for (turn = 1; turn <= 2; turn++) {
		if (!job->rank)
			TT_EXPECT(one_to(p, &first, &last, NULL) == 1);
		mp_meet(job);
		TT_EXPECT(!await_rounds(job, p, (uint64_t)turn));
		MP_OK(tutti_comm_set_timeout(job->world, 50));
		first = last = 99;
		if (job->rank == 1)
			MP_ERR(tutti_partial_drain(p, &v, NULL, &first, &last), -ETIMEDOUT);
		TT_EXPECT(first == 99 && last == 99);
		mp_meet(job);
		if (job->rank == 1)
			mp_sleep_ms(20); /* the others have begun */
		TT_EXPECT(!drain_again(job, p, &v, &first, &last));
		TT_EXPECT(last == (uint64_t)turn && first == last + !job->rank);
		TT_EXPECT(!job->rank || v == 1);
		MP_OK(tutti_comm_set_timeout(job->world, 0));
		mp_meet(job);
	}
	MP_OK(tutti_partial_free(p));
	return 0;
}

/* Rank 0 has voted that it has no carry, so it may not get one before the others vote. */
static int freed_body(struct mp_job *job)
{
	struct tutti_partial *p;
	int32_t v = 1;

	MP_OK(tutti_partial_create(job->world, 1, TUTTI_INT32, TUTTI_SUM, NULL, &p));
	if (!job->rank) {
		MP_ERR(tutti_partial_free(p), -ETIMEDOUT);
		MP_SAID("tutti_partial_free did not finish within 1500 ms");
		MP_ERR(tutti_partial_allreduce(p, TUTTI_IN_PLACE, &v, NULL, NULL, NULL), -EBUSY);
		MP_SAID("tutti_partial_free has timed out here");
		MP_ERR(tutti_partial_drain(p, &v, NULL, NULL, NULL), -EBUSY);
	}
	mp_meet(job);
	MP_OK(tutti_partial_free(p));
	return 0;
}

static void *allocates(void *unused)
{
	(void)unused;
	return malloc(1 << 10);
}

/*
 * A thread that has ended leaves an arena of 64 MiB of address space, out of which malloc may serve
 * other threads where nothing else is left. A thread of the library may have ended, or not.
 */
static int leave_arena(void)
{
	pthread_t thread;
	void *block;

	TT_EXPECT(!pthread_create(&thread, NULL, allocates, NULL));
	TT_EXPECT(!pthread_join(thread, &block) && block);
	free(block);
	return 0;
}

/* One rank has no memory any more, nor for a list of failures: all get the error, and say where. */
static int no_memory_body(struct mp_job *job)
{
	enum { BLOCK = 16 << 10, BLOCKS = 16384 };
	static void *taken[BLOCKS];
	const size_t n = 4 << 20;
	struct tutti_partial *p = NULL;
	int32_t *v = calloc(n, sizeof(*v));
	int i, err = 0;

	TT_EXPECT(v);
	MP_OK(tutti_partial_create(job->world, n, TUTTI_INT32, TUTTI_SUM, NULL, &p));
	TT_EXPECT(!leave_arena());
	if (job->rank == 1) {
		TT_EXPECT(mp_limit_memory(4 << 20));
		for (i = 0; i < BLOCKS && (taken[i] = malloc(BLOCK)); i++)
			;
		TT_EXPECT(i < BLOCKS);
	}
	mp_meet(job);
	for (i = 0; !err && i < 3; i++) /* the decider may get a result first */
		err = tutti_partial_allreduce(p, TUTTI_IN_PLACE, v, NULL, NULL, NULL);
	MP_ERR(err, -ENOMEM);
	MP_SAID("Cannot allocate memory");
	if (job->rank != 1)
		MP_SAID("rank 1");
	for (i = 0; i < BLOCKS; i++)
		free(taken[i]);
	MP_OK(tutti_partial_free(p));
	free(v);
	return mp_leave_failed(job);
}

static void no_memory(void)
{
	if (mp_no_limit())
		TT_SKIP("%s", mp_no_limit());
	if (mp_no_ofi()) /* over shm it could not map the memory of peers either */
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=ofi", .fn = no_memory_body));
}

static void limits(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM "TUTTI_TIMEOUT=1500ms", .fn = freed_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = repeat_body));
	TT_CHECK(!MP_RUN(.n = 4, .env = SHM, .fn = cutoff_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = deadline_body));
}

/* ---- refusals ---- */

#define REFUSED(say, ...)                                                                          \
	do {                                                                                       \
		struct tutti_partial_config c = {.size = sizeof(c), __VA_ARGS__};                  \
                                                                                                   \
		MP_ERR(tutti_partial_create(job->world, 4, TUTTI_INT32, TUTTI_SUM, &c, &p),        \
		       -EINVAL);                                                                   \
		MP_SAID(say);                                                                      \
	} while (0)

static int bad_vectors(struct mp_job *job)
{
	struct tutti_partial *p = NULL;

	MP_ERR(tutti_partial_create(NULL, 1, TUTTI_INT32, TUTTI_SUM, NULL, &p), -EINVAL);
	MP_ERR(tutti_partial_create(job->world, 0, TUTTI_INT32, TUTTI_SUM, NULL, &p), -EINVAL);
	MP_SAID("count is 0");
	MP_ERR(tutti_partial_create(job->world, 1, (enum tutti_datatype)999, TUTTI_SUM, NULL, &p),
	       -EINVAL);
	MP_SAID("999 is not a datatype");
	MP_ERR(tutti_partial_create(job->world, SIZE_MAX / 4, TUTTI_INT32, TUTTI_SUM, NULL, &p),
	       -EINVAL);
	MP_ERR(tutti_partial_create(job->world, (size_t)1 << 50, TUTTI_INT32, TUTTI_SUM, NULL, &p),
	       -ENOMEM);
	MP_ERR(tutti_partial_create(job->world, 1, TUTTI_INT32, TUTTI_MAX, NULL, &p), -EINVAL);
	MP_SAID("sum or avg");
	MP_ERR(tutti_partial_create(job->world, 1, TUTTI_INT32, TUTTI_SUM, NULL, NULL), -EINVAL);
	MP_SAID("partial is NULL");
	REFUSED("quorum is 3; it must be 1 to 2", .quorum = 3);
	REFUSED("quorum is -2", .quorum = -2);
	REFUSED("cutoff_us is -1", .cutoff_us = -1);
	REFUSED("late is 2", .late = (enum tutti_partial_late)2);
	REFUSED("divide is 2", .divide = (enum tutti_partial_divide)2);
	TT_EXPECT(!p);
	return 0;
}

static int refusals_body(struct mp_job *job)
{
	struct tutti_partial_stats s = {.size = 3};
	struct tutti_partial *p = NULL;
	int32_t v[8] = {0};
	uint64_t round;

	TT_EXPECT(!bad_vectors(job));
	MP_OK(tutti_partial_free(NULL));
	MP_ERR(tutti_partial_allreduce(NULL, v, v, NULL, NULL, NULL), -EINVAL);
	MP_OK(tutti_partial_create(job->world, 4, TUTTI_INT32, TUTTI_SUM, NULL, &p));
	MP_ERR(tutti_partial_allreduce(p, NULL, v, NULL, NULL, NULL), -EINVAL);
	MP_ERR(tutti_partial_allreduce(p, v, NULL, NULL, NULL, NULL), -EINVAL);
	MP_ERR(tutti_partial_allreduce(p, v, TUTTI_IN_PLACE, NULL, NULL, NULL), -EINVAL);
	MP_ERR(tutti_partial_allreduce(p, v, v + 3, NULL, NULL, NULL), -EINVAL);
	MP_SAID("overlap");
	MP_ERR(tutti_partial_drain(p, NULL, NULL, NULL, NULL), -EINVAL);
	MP_ERR(tutti_partial_result(p, 0, v, NULL), -EINVAL);
	MP_ERR(tutti_partial_result(p, 1, v, NULL), -EINVAL);
	MP_SAID("tutti_partial_result: round 1 is not decided");
	MP_ERR(tutti_partial_resync(p, NULL), -EINVAL);
	MP_OK(tutti_partial_resync(p, &round));
	TT_EXPECT(round == 0);
	MP_ERR(tutti_partial_stats_get(p, NULL), -EINVAL);
	MP_ERR(tutti_partial_stats_get(p, &s), -EINVAL);
	MP_OK(tutti_group_start());
	MP_ERR(tutti_partial_allreduce(p, v, v + 4, NULL, NULL, NULL), -EINVAL);
	MP_OK(tutti_group_end());
	MP_OK(tutti_partial_free(p));
	return 0;
}

/* Ranks that pass different configs all get the error, and the communicator stays. */
static int differ_body(struct mp_job *job)
{
	struct tutti_partial_config config = config_of(1 + job->rank / 2, 0, TUTTI_PARTIAL_CARRY);
	struct tutti_partial *p = NULL;
	int32_t v = 1;

	MP_ERR(tutti_partial_create(job->world, 1, TUTTI_INT32, TUTTI_SUM, &config, &p),
	       -TUTTI_EMISMATCH);
	MP_SAID("quorum is 1 on rank 0, 2 on rank 2");
	MP_ERR(tutti_partial_create(job->world, 1 + (size_t)job->rank, TUTTI_INT32, TUTTI_SUM, NULL,
				    &p),
	       -TUTTI_EMISMATCH);
	MP_SAID("count is 1 on rank 0, 2 on rank 1");
	MP_ERR(tutti_partial_create(job->world, 1, job->rank == 1 ? TUTTI_FLOAT32 : TUTTI_INT32,
				    TUTTI_SUM, NULL, &p),
	       -TUTTI_EMISMATCH);
	MP_SAID("datatype is int32 on rank 0, float32 on rank 1");
	MP_ERR(tutti_partial_create(job->world, 1, TUTTI_INT32,
				    job->rank == 1 ? TUTTI_AVG : TUTTI_SUM, NULL, &p),
	       -TUTTI_EMISMATCH);
	MP_SAID("op is sum on rank 0, avg on rank 1");
	config = config_of(1, 0, job->rank ? TUTTI_PARTIAL_DROP : TUTTI_PARTIAL_CARRY);
	MP_ERR(tutti_partial_create(job->world, 1, TUTTI_INT32, TUTTI_SUM, &config, &p),
	       -TUTTI_EMISMATCH);
	MP_SAID("late is TUTTI_PARTIAL_CARRY on rank 0, TUTTI_PARTIAL_DROP on rank 1");
	/* one rank's arguments are wrong: all fail */
	MP_ERR(tutti_partial_create(job->world, 1, TUTTI_INT32, TUTTI_SUM, NULL,
				    job->rank == 1 ? NULL : &p),
	       -EINVAL);
	MP_SAID("partial is NULL");
	config = config_of(job->rank == 2 ? 9 : 1, 0, TUTTI_PARTIAL_CARRY);
	MP_ERR(tutti_partial_create(job->world, 1, TUTTI_INT32, TUTTI_SUM, &config, &p), -EINVAL);
	MP_SAID("quorum is 9; it must be 1 to 3");
	TT_EXPECT(!p);
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &v, 1, TUTTI_INT32, TUTTI_SUM, job->world));
	return 0;
}

static void refusals(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = refusals_body));
	TT_CHECK(!MP_RUN(.n = 3, .fn = differ_body));
}

/* ---- trace ---- */

static int trace_body(struct mp_job *job)
{
	struct tutti_partial *p;
	uint64_t first, last;
	unsigned char map;
	char path[200], line[2000];
	int i, rounds = 0;
	FILE *f;

	MP_OK(tutti_partial_create(job->world, 1, TUTTI_INT32, TUTTI_SUM, NULL, &p));
	for (i = 0; i < 3; i++)
		TT_EXPECT(one_to(p, &first, &last, &map) == job->n);
	MP_OK(tutti_partial_free(p));
	MP_OK(mp_leave(job));
	snprintf(path, sizeof(path), "%s/trace.%d.json", job->shared->dir, job->rank);
	f = fopen(path, "r");
	TT_EXPECT(f);
	while (fgets(line, sizeof(line), f))
		rounds += strstr(line, "\"partial_round\"") && strstr(line, "\"took_part\":\"07\"");
	fclose(f);
	TT_EXPECT(rounds == 3);
	return 0;
}

static void trace(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRACE=%d/trace", .fn = trace_body));
}

static const struct tt_test tests[] = {
	{"carry", carry},     {"resync", resync}, {"stopped", stopped},	    {"drop", drop},
	{"average", average}, {"limits", limits}, {"no_memory", no_memory}, {"refusals", refusals},
	{"trace", trace},     {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("partial", tests, argc, argv);
}
