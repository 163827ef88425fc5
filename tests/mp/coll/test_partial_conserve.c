/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Partial all-reduces: conservation in integers over 1,000 steps with ranks that are late at
 * random, for each setting, and the same result and the same ranks in a round on all ranks.
 */
#include "config.h"

#include "tests/mp/coll/partial.h"

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/hash.h"

#define FAULT                                                                                      \
	"TUTTI_TRANSPORT=fault:shm "                                                               \
	"TUTTI_FAULT=seed=5,delay=0.1:100,reorder=0.3,again=0.2,max_put=70001"
#define MAX_N 8
#define STEPS 1000
#define ROUNDS_MAX (MAX_N * STEPS + 16)

#define SHOWN 5 /* elements of a result that are compared one by one, the rest by a hash */

/* A round; the first rank that gets it writes it. */
struct seen {
	_Atomic uint64_t hash;
	atomic_int took; /* bits, + 1 << 16 */
	_Atomic int64_t v[SHOWN];
};

static struct shared {
	atomic_llong offered, dropped;
	struct seen round[ROUNDS_MAX];
} * shared;

struct plan {
	struct tutti_partial_config config;
	size_t count;
	int steps;
	int lateness; /* of a call: one in so many, 0: none */
};

/* The result and the ranks of a round are those that any other rank has. */
static int same_round(struct mp_job *job, uint64_t round, const int64_t *v, size_t count, int map)
{
	uint64_t hash = 7, other = 0;
	struct seen *s = &shared->round[round];
	int none = 0;
	size_t i;

	TT_EXPECT(round > 0 && round < ROUNDS_MAX && map > 0 && map < 1 << job->n);
	for (i = 0; i < count; i++)
		hash = tt_hash_add(hash, (uint64_t)v[i]);
	if (!atomic_compare_exchange_strong(&s->hash, &other, hash))
		TT_EXPECT(other == hash);
	if (!atomic_compare_exchange_strong(&s->took, &none, map | 1 << 16))
		TT_EXPECT(none == (map | 1 << 16));
	for (i = 0; i < SHOWN && i < count; i++)
		atomic_store(&s->v[i], v[i]);
	return 0;
}

static void be_late(unsigned *seed, int lateness)
{
	if (lateness && rand_r(seed) % lateness == 0)
		usleep((unsigned)rand_r(seed) % 2000);
	else if (lateness && rand_r(seed) % 3 == 0)
		sched_yield();
}

struct walk {
	struct mp_job *job;
	const struct plan *plan;
	struct tutti_partial *p;
	int64_t *v;
	uint64_t next;	    /* the first round that this rank has not got */
	int64_t got[SHOWN]; /* the sum of those it has got */
	bool missed[ROUNDS_MAX];
};

/*
 * One step, or the drain, with contribution g. The waiting caller of a round gets that alone, so of
 * each round at least one rank compares the result itself.
 */
static int one_step(struct walk *w, bool drain, int64_t g)
{
	struct mp_job *job = w->job;
	uint64_t first, last, round;
	unsigned char map;
	int err;
	size_t i;

	do {
		for (i = 0; i < w->plan->count; i++)
			w->v[i] = g + (int64_t)i;
		err = drain ? tutti_partial_drain(w->p, w->v, &map, &first, &last)
			    : tutti_partial_allreduce(w->p, TUTTI_IN_PLACE, w->v, &map, &first,
						      &last);
		if (err != -ESTALE)
			break;
		MP_OK(tutti_partial_resync(w->p, &round));
		for (; w->next <= round; w->next++)
			w->missed[w->next] = true;
	} while (drain);
	if (err == -ESTALE) /* it has contributed */
		return 0;
	MP_OK(err);
	TT_EXPECT(first == w->next && (last >= first || drain));
	w->next = last + 1;
	for (i = 0; i < SHOWN && last >= first; i++)
		w->got[i] += w->v[i];
	if (first == last)
		TT_EXPECT(!same_round(job, last, w->v, w->plan->count, map));
	for (round = first; first != last && round <= last; round++) {
		err = tutti_partial_result(w->p, round, w->v, &map);
		if (!err)
			TT_EXPECT(!same_round(job, round, w->v, w->plan->count, map));
		else
			MP_ERR(err, -ESTALE); /* more have come meanwhile */
	}
	return 0;
}

/* All rounds together, and what this rank has got of them. */
static int check_sums(const struct walk *w)
{
	long long offered = atomic_load(&shared->offered), dropped = atomic_load(&shared->dropped);
	int64_t all[SHOWN] = {0}, mine[SHOWN] = {0};
	struct mp_job *job = w->job;
	uint64_t t;
	int i;

	for (t = 1; t < w->next; t++)
		for (i = 0; i < SHOWN; i++) {
			TT_EXPECT(atomic_load(&shared->round[t].took));
			all[i] += atomic_load(&shared->round[t].v[i]);
			mine[i] += w->missed[t] ? 0 : atomic_load(&shared->round[t].v[i]);
		}
	TT_EXPECT(!memcmp(mine, w->got, sizeof(mine)));
	for (i = 1; i < SHOWN; i++) /* each contribution has i more there */
		TT_EXPECT(all[i] - all[0] ==
			  ((int64_t)w->plan->steps * job->n - dropped) * (int64_t)i);
	if (w->plan->config.late == TUTTI_PARTIAL_CARRY)
		TT_EXPECT(dropped == 0 && all[0] == offered);
	return 0;
}

static int conserve_body(struct mp_job *job)
{
	const struct plan *plan = job->arg;
	struct tutti_partial_stats s = {.size = sizeof(s)};
	struct walk *w = calloc(1, sizeof(*w));
	unsigned seed = (unsigned)job->rank + 1;
	int64_t g, mine = 0, missed = 0;
	int step;
	uint64_t t;

	TT_EXPECT(w);
	*w = (struct walk){.job = job, .plan = plan, .next = 1};
	w->v = malloc(plan->count * sizeof(*w->v));
	TT_EXPECT(w->v);
	MP_OK(tutti_partial_create(job->world, plan->count, TUTTI_INT64, TUTTI_SUM, &plan->config,
				   &w->p));
	for (step = 0; step < plan->steps; step++, mine += g) {
		be_late(&seed, plan->lateness);
		g = rand_r(&seed) % 20001 - 10000;
		TT_EXPECT(!one_step(w, false, g));
	}
	TT_EXPECT(!one_step(w, true, 0));
	for (t = 1; t < w->next; t++)
		missed += w->missed[t];
	MP_OK(tutti_partial_stats_get(w->p, &s));
	TT_EXPECT(s.calls == (uint64_t)plan->steps && s.carried_bytes == 0);
	TT_EXPECT(s.skipped == (uint64_t)missed && s.rounds == w->next - 1);
	TT_EXPECT(s.lost == 0 && s.living == job->n && s.decider == 0 && s.dropped <= s.late);
	atomic_fetch_add(&shared->offered, mine);
	atomic_fetch_add(&shared->dropped, (long long)s.dropped);
	mp_meet(job);
	TT_EXPECT(!check_sums(w));
	MP_OK(tutti_partial_free(w->p));
	free(w->v);
	free(w);
	return 0;
}

static void conserve(const char *env, int n, struct plan plan)
{
	shared = mp_shared_mem(sizeof(*shared));
	TT_REQUIRE(shared);
	TT_CHECK(!MP_RUN(.n = n, .env = env, .fn = conserve_body, .arg = &plan));
	munmap(shared, sizeof(*shared));
}

static void settings(const char *env)
{
	static const struct {
		int n, quorum, cutoff_us;
		enum tutti_partial_late late;
	} set[] = {{8, 1, 0, TUTTI_PARTIAL_CARRY},
		   {8, 7, 0, TUTTI_PARTIAL_CARRY},
		   {5, TUTTI_PARTIAL_MAJORITY, 0, TUTTI_PARTIAL_CARRY},
		   {4, 0, 300, TUTTI_PARTIAL_CARRY},
		   {3, 2, 0, TUTTI_PARTIAL_DROP},
		   {2, 0, 0, TUTTI_PARTIAL_CARRY},
		   {1, 1, 0, TUTTI_PARTIAL_CARRY}};
	size_t i;

	for (i = 0; i < sizeof(set) / sizeof(set[0]); i++)
		conserve(env, set[i].n,
			 (struct plan){
				 .config = config_of(set[i].quorum, set[i].cutoff_us, set[i].late),
				 .count = 5,
				 .steps = STEPS,
				 .lateness = 20});
}

static void conserve_shm(void)
{
	settings(SHM);
}

static void conserve_ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	settings(OFI);
}

/* Vectors of several pieces; reordered notes. */
static void conserve_long(void)
{
	struct plan plan = {.config = config_of(3, 0, TUTTI_PARTIAL_CARRY),
			    .count = 300000,
			    .steps = 20,
			    .lateness = 5};

	conserve(SHM, 4, plan);
	if (!mp_no_ofi())
		conserve(OFI, 4, plan);
	plan.count = 20000;
	plan.steps = 60;
	conserve(FAULT, 4, plan);
}

static const struct tt_test tests[] = {
	{"shm", conserve_shm}, {"ofi", conserve_ofi}, {"long", conserve_long}, {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("partial_conserve", tests, argc, argv);
}
