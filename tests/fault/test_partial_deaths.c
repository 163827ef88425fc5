/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Partial all-reduces while ranks die: every set of one or two ranks of those that matter, the
 * decider and its successors included, by SIGKILL at a random moment of their calls or of their
 * threads. In integers, of each contribution of a rank that lives exactly one copy is in the
 * results; of a dead rank, exactly its first ones are. All survivors have the same sums.
 */
#include "config.h"

#include "tests/fault/survive.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define RANKS 8
#define LONG 40000 /* elements: the vector of a round is still on its way when the decider dies */
#define STEPS 150
#define ROUNDS_MAX (RANKS * STEPS + 16)

struct set {
	int n, quorum;
	unsigned victims;
	size_t count;
	bool apart; /* ranks may be further apart than results are kept */
	bool drain; /* the victims die in the drain, or soon before it */
};

/*
 * By round: the elements of all ranks; took: 0: no rank has got it. What only ranks that die have
 * got counts if a survivor knows of the round but was too far behind to get it.
 */
static struct shared {
	struct round {
		atomic_int took;
		_Atomic int64_t v[RANKS];
	} round[ROUNDS_MAX], mortal[ROUNDS_MAX];
	atomic_llong offered[RANKS]; /* before the call that contributes it */
	atomic_ullong next[RANKS];
} * shared;

struct work {
	struct mp_job *job;
	struct set set;
	struct tutti_partial *p;
	int64_t *v;
	uint64_t next;
};

static bool dies(const struct work *w, int rank)
{
	return w->set.victims >> rank & 1;
}

/* Contribution number i of a rank, from 1; the sums of the first ones all differ. */
static int64_t value_of(int rank, int64_t i)
{
	return (rank + 1) * 1000 + i % 7;
}

static int note(struct work *w, uint64_t round, int map)
{
	struct round *s = &shared->round[round];
	int r, none = 0;
	bool first;

	if (dies(w, w->job->rank)) { /* its round may be decided again */
		s = &shared->mortal[round];
		atomic_store(&s->took, map);
		for (r = 0; r < w->set.n; r++)
			atomic_store(&s->v[r], w->v[r]);
		return 0;
	}

	TT_EXPECT(round > 0 && round < ROUNDS_MAX && map > 0 && map < 1 << w->set.n);
	first = atomic_compare_exchange_strong(&s->took, &none, map);
	TT_EXPECT(first || none == map);
	for (r = 0; r < w->set.n; r++) {
		int64_t none64 = 0;

		if (!atomic_compare_exchange_strong(&s->v[r], &none64, w->v[r]))
			TT_EXPECT(none64 == w->v[r]);
		TT_EXPECT(!(map >> r & 1) == !w->v[r]);
	}
	for (r = w->set.n; r < (int)w->set.count; r++)
		TT_EXPECT(w->v[r] == __builtin_popcount((unsigned)map) ||
			  w->v[r] > __builtin_popcount((unsigned)map));
	return 0;
}

/*
 * A round has a caller that waits for it, so no survivor is left behind by more than this. A drain
 * takes results as they come.
 */
static void stay_together(const struct work *w, bool drain)
{
	double end = mp_now() + 20;
	int r;

	atomic_store(&shared->next[w->job->rank], drain ? ROUNDS_MAX : w->next);
	for (r = 0; r < w->set.n && !w->set.apart && !drain; r++)
		while (!dies(w, r) && mp_now() < end &&
		       w->next > atomic_load(&shared->next[r]) + TUTTI_PARTIAL_WINDOW / 2)
			sched_yield();
}

static int one_step(struct work *w, bool drain, int64_t i)
{
	struct mp_job *job = w->job;
	uint64_t first, last, round;
	unsigned char map = 0;
	int err;
	size_t k;

	stay_together(w, drain);
	do {
		for (k = 0; k < w->set.count; k++)
			w->v[k] = k >= (size_t)w->set.n;
		w->v[job->rank] = value_of(job->rank, i);
		if (!drain)
			atomic_fetch_add(&shared->offered[job->rank], w->v[job->rank]);
		err = drain ? tutti_partial_drain(w->p, w->v, &map, &first, &last)
			    : tutti_partial_allreduce(w->p, TUTTI_IN_PLACE, w->v, &map, &first,
						      &last);
		if (err != -ESTALE)
			break;
		MP_OK(tutti_partial_resync(w->p, &round));
		w->next = round + 1;
	} while (drain);
	if (err == -ESTALE) { /* it has contributed */
		TT_EXPECT(w->set.apart || dies(w, job->rank));
		return 0;
	}
	MP_OK(err);
	TT_EXPECT(first == w->next && (last >= first || drain));
	w->next = last + 1;
	if (first == last)
		TT_EXPECT(!note(w, last, map));
	for (round = first; first != last && round <= last; round++) {
		err = tutti_partial_result(w->p, round, w->v, &map);
		if (!err)
			TT_EXPECT(!note(w, round, map));
		else
			MP_ERR(err, -ESTALE);
	}
	return 0;
}

/* That sum is that of the first contributions of a rank, and no more than it has made. */
static int check_dead(int rank, int64_t sum)
{
	int64_t i, part = 0;

	for (i = 1; part < sum; i++)
		part += value_of(rank, i);
	TT_EXPECT(part == sum && sum <= atomic_load(&shared->offered[rank]));
	return 0;
}

static int check_sums(const struct work *w)
{
	int64_t sum[RANKS] = {0};
	struct round *s;
	uint64_t t;
	int r;

	for (t = 1; t < w->next; t++) {
		s = &shared->round[t];
		s = atomic_load(&s->took) ? s : &shared->mortal[t];
		if (!atomic_load(&s->took) && w->set.apart)
			return 0; /* only a rank that has died has got it */
		TT_EXPECT(atomic_load(&s->took));
		for (r = 0; r < w->set.n; r++)
			sum[r] += atomic_load(&s->v[r]);
	}
	for (r = 0; r < w->set.n; r++)
		if (dies(w, r))
			TT_EXPECT(!check_dead(r, sum[r]));
		else
			TT_EXPECT(sum[r] == atomic_load(&shared->offered[r]));
	return 0;
}

/* The decider may have heard of a death before this rank has. */
static int all_heard(struct work *w, int living, struct tutti_partial_stats *s)
{
	struct mp_job *job = w->job;
	double end = mp_now() + 30;

	do {
		mp_sleep_ms(1);
		MP_OK(tutti_partial_stats_get(w->p, s));
	} while (s->living != living && mp_now() < end);
	TT_EXPECT(s->living == living);
	return 0;
}

static int deaths_body(struct mp_job *job)
{
	struct tutti_partial_stats s = {.size = sizeof(s)};
	struct work w = {.job = job, .set = *(struct set *)job->arg, .next = 1};
	struct tutti_partial_config config = {.size = sizeof(config), .quorum = w.set.quorum};
	int step, at = w.set.drain ? STEPS : 20 + 13 * job->rank,
		  deaths = __builtin_popcount(w.set.victims);
	pthread_t thread;

	srand((unsigned)getpid());
	w.v = malloc(w.set.count * sizeof(*w.v));
	TT_EXPECT(w.v);
	MP_OK(tutti_partial_create(job->world, w.set.count, TUTTI_INT64, TUTTI_SUM, &config, &w.p));
	for (step = 1; step <= STEPS; step++) {
		if (dies(&w, job->rank) && step == at)
			TT_EXPECT(!pthread_create(&thread, NULL, die_soon, NULL));
		TT_EXPECT(!one_step(&w, false, step));
	}
	while (dies(&w, job->rank) && !w.set.drain) /* it has been fast */
		pause();
	TT_EXPECT(!one_step(&w, true, 0));
	while (dies(&w, job->rank)) /* the drain has been fast */
		pause();
	TT_EXPECT(!all_heard(&w, w.set.n - deaths, &s));
	TT_EXPECT(s.carried_bytes == 0 && s.rounds == w.next - 1 && !dies(&w, s.decider));
	atomic_fetch_add(&job->shared->word[0], 1);
	TT_EXPECT(mp_await(&job->shared->word[0], w.set.n - deaths, 30000));
	TT_EXPECT(!check_sums(&w));
	MP_OK(tutti_partial_free(w.p));
	free(w.v);
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

static void one_set(const char *env, struct set s)
{
	shared = mp_shared_mem(sizeof(*shared));
	TT_REQUIRE(shared);
	TT_CHECK(!MP_RUN(.n = s.n, .env = env, .fn = deaths_body, .arg = &s, .killed = s.victims));
	munmap(shared, sizeof(*shared));
}

/* The decider; its successor; both; another; the last; the decider and another. */
static void each_set(const char *env)
{
	static const unsigned victims[] = {1, 2, 3, 4, 16, 5};
	static const int quorum[] = {1, TUTTI_PARTIAL_MAJORITY, 0};
	struct set s = {.n = 5, .count = RANKS + 2};
	size_t i;

	for (i = 0; i < sizeof(victims) / sizeof(victims[0]); i++) {
		s.victims = victims[i];
		s.quorum = quorum[i % 3];
		one_set(env, s);
	}
	s.apart = true;
	for (s.victims = 1; s.victims <= 3; s.victims += 2)
		one_set(env, s);
	s.apart = false;
	s.drain = true;
	for (s.victims = 1; s.victims <= 5; s.victims++)
		one_set(env, s);
	s.drain = false;
	s.quorum = TUTTI_PARTIAL_MAJORITY;
	s.count = LONG;
	for (s.victims = 1; s.victims <= 3; s.victims += 2)
		one_set(env, s);
	one_set(env, (struct set){.n = 8, .quorum = 0, .victims = 0x13, .count = RANKS + 2});
	one_set(env, (struct set){.n = 2, .quorum = 0, .victims = 1, .count = RANKS + 2});
}

static void shm(void)
{
	each_set("TUTTI_TOLERANT=1 TUTTI_TRANSPORT=shm");
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	each_set("TUTTI_TOLERANT=1 TUTTI_TRANSPORT=ofi TUTTI_IF=lo");
}

/*
 * The quorum cannot be reached any more: a caller that waits, and later calls. With arg late
 * contributions are dropped: each is in a result or counted.
 */
static int quorum_body(struct mp_job *job)
{
	struct tutti_partial_config config = {.size = sizeof(config), .quorum = 3};
	bool drops = job->arg != NULL;
	struct tutti_partial_stats s = {.size = sizeof(s)};
	struct tutti_partial *p;
	int32_t v = 1, sum = 0;
	uint64_t first, last;
	int i;

	config.late = drops ? TUTTI_PARTIAL_DROP : TUTTI_PARTIAL_CARRY;
	MP_OK(tutti_partial_create(job->world, 1, TUTTI_INT32, TUTTI_SUM, &config, &p));
	mp_meet(job);
	if (job->rank == 0)
		raise(SIGKILL);
	MP_ERR(tutti_partial_allreduce(p, &v, &sum, NULL, NULL, NULL), -EINVAL);
	MP_SAID("quorum is 3, and 2 ranks are left");
	MP_ERR(tutti_partial_allreduce(p, &v, &sum, NULL, NULL, NULL), -EINVAL);
	MP_OK(tutti_partial_stats_get(p, &s));
	TT_EXPECT(s.living == 2 && s.decider == 1 && s.rounds == 0 && s.calls == 2);
	TT_EXPECT(s.carried_bytes == (drops ? 0 : 4));
	MP_OK(tutti_partial_drain(p, &sum, NULL, &first, &last));
	MP_OK(tutti_partial_stats_get(p, &s));
	atomic_fetch_add(&job->shared->word[0], (int)s.dropped);
	atomic_fetch_add(&job->shared->word[1], 1);
	for (i = 0; atomic_load(&job->shared->word[1]) < 2 && i < 10000; i++)
		mp_sleep_ms(1);
	TT_EXPECT(first == 1 && (drops || last >= 1));
	TT_EXPECT(sum + atomic_load(&job->shared->word[0]) == 4);
	MP_OK(tutti_partial_free(p));
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

/* Without tolerance a death ends the partial all-reduce, too; it can be freed. */
static int intolerant_body(struct mp_job *job)
{
	struct tutti_partial_config config = {.size = sizeof(config), .quorum = 1};
	struct tutti_partial *p;
	int32_t v = 1, sum;
	int err = 0;

	MP_OK(tutti_partial_create(job->world, 1, TUTTI_INT32, TUTTI_SUM, &config, &p));
	mp_meet(job);
	if (job->rank == 1)
		raise(SIGKILL);
	while (!err || err == -ESTALE)
		err = tutti_partial_allreduce(p, &v, &sum, NULL, NULL, NULL);
	MP_ERR(err, -TUTTI_EPEER);
	MP_SAID("rank 1 on host");
	MP_ERR(tutti_partial_drain(p, &sum, NULL, NULL, NULL), -TUTTI_EPEER);
	MP_OK(tutti_partial_free(p));
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

static void rest(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TOLERANT=1", .fn = quorum_body, .killed = 1));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TOLERANT=1", .fn = quorum_body, .killed = 1,
			 .arg = (void *)1));
	TT_CHECK(!MP_RUN(.n = 3, .fn = intolerant_body, .killed = 2));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"shm", shm}, {"ofi", ofi}, {"rest", rest}, {NULL, NULL}};

	return tt_test_main("partial_deaths", tests, argc, argv);
}
