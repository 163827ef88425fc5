/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of low and high priority at once: whatever the order in which their pieces are sent and
 * arrive, and in which ranks start them and wait for them, none waits for ever, and all results are
 * right. Small cases in all orders, the algorithms in orders by dice. Calls of one communicator
 * that use the memory of hosts are turns there, beside those of others, and share its slots.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/verify/check.h"
#include "tests/plan/whole.h"
#include "tests/test.h"

#define ELEM 4
#define CALLS 4
#define MAX_N 6
#define MOST 1000000

/* A call of count elements, in one message for each of its steps. */
static struct tt_plan_args args_of(enum tt_coll coll, int nranks, size_t count)
{
	return (struct tt_plan_args){.coll = coll,
				     .nranks = nranks,
				     .count = count,
				     .elem = ELEM,
				     .chunk = 1 << 20,
				     .lanes = 1};
}

static struct tt_check_call call_of(const char *name, const struct tt_plan_args *a,
				    const int *after)
{
	struct tt_check_call call = {tt_alg_find(a->coll, name), a, after, 0};

	if (!call.alg)
		abort();
	return call;
}

/* Two calls of the same ranks. */
struct pair {
	const char *name[2];
	enum tt_coll coll[2];
	int n;
	size_t count;
};

static void pair_of(const struct pair *p, struct tt_plan_args *a, struct tt_check_call *two)
{
	int i;

	for (i = 0; i < 2; i++) {
		a[i] = args_of(p->coll[i], p->n, p->count);
		two[i] = call_of(p->name[i], &a[i], NULL);
	}
}

/* Pieces of one element; so few credits and offers that calls must share them. */
static struct tt_check_opts narrow(int window)
{
	return (struct tt_check_opts){.credits = 1, .offers = 1, .window = window, .piece = ELEM};
}

static bool all_orders(const struct tt_check_call *calls, int ncalls,
		       const struct tt_check_opts *opts, size_t *states)
{
	int err = tt_plan_check_orders(calls, ncalls, opts, MOST, states);

	if (err)
		printf("  %s\n", tt_fail_text(err));
	return !err;
}

/* ---- all orders ---- */

/*
 * One message of two pieces. Ranks that have started: none, one of them, or both; then 1 is sent, 1
 * has come, both are sent, or only the second is to come. With a window of 1, 2 are never under
 * way.
 */
static void test_states(void)
{
	struct tt_plan_args a = args_of(TT_COLL_BCAST, 2, 2);
	struct tt_check_call call = call_of("binomial", &a, NULL);
	struct tt_check_opts o = narrow(2);
	size_t states = 0;

	TT_CHECK(all_orders(&call, 1, &o, &states));
	TT_CHECK(states == 8);
	o.window = 1;
	TT_CHECK(all_orders(&call, 1, &o, &states));
	TT_CHECK(states == 7);
}

/* Which ranks wait for call 0 before they start call 1: each set of them. */
static bool any_waits(const struct tt_check_call *two, const struct tt_check_opts *o, size_t *most)
{
	struct tt_check_call calls[2] = {two[0], two[1]};
	int n = two[0].args->nranks, after[MAX_N], set, r;
	size_t states;

	for (set = 0; set < 1 << n; set++) {
		for (r = 0; r < n; r++)
			after[r] = set >> r & 1 ? 0 : -1;
		calls[1].after = after;
		if (!all_orders(calls, 2, o, &states))
			return false;
		if (states > *most)
			*most = states;
	}
	return true;
}

static void test_all(void)
{
	static const struct pair cases[] = {
		{{"recursive_doubling", "recursive_doubling"},
		 {TT_COLL_ALLREDUCE, TT_COLL_ALLREDUCE},
		 2,
		 2},
		{{"ring", "binomial"}, {TT_COLL_ALLREDUCE, TT_COLL_BCAST}, 2, 4},
		{{"chain", "binomial"}, {TT_COLL_BCAST, TT_COLL_BCAST}, 3, 2},
		{{"single_master", "chain"}, {TT_COLL_ALLREDUCE, TT_COLL_BCAST}, 3, 3},
		{{"linear", "pairwise"}, {TT_COLL_GATHER, TT_COLL_ALLTOALL}, 2, 2},
	};
	size_t i, most;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tt_plan_args a[2];
		struct tt_check_call two[2];
		struct tt_check_opts o = narrow(1);

		most = 0;
		pair_of(&cases[i], a, two);
		TT_CHECK(any_waits(two, &o, &most));
		o.window = 2;
		o.eager = ELEM;
		TT_CHECK(any_waits(two, &o, &most));
		printf("  %s and %s of %d ranks: %zu states at most\n", cases[i].name[0],
		       cases[i].name[1], cases[i].n, most);
	}
}

/* Two turns of one communicator, or one turn each of two, of ranks on these hosts. */
static void test_turns(void)
{
	static const struct {
		struct pair calls;
		uint64_t host[4];
	} cases[] = {
		{{{"node_slots", "node_pull"}, {TT_COLL_ALLREDUCE, TT_COLL_BCAST}, 3, 3},
		 {0, 0, 0}},
		{{{"hier_leader", "hier_leader"}, {TT_COLL_ALLREDUCE, TT_COLL_BCAST}, 3, 1},
		 {0, 1, 0}},
		{{{"hier_ring", "hier_leader"}, {TT_COLL_ALLREDUCE, TT_COLL_REDUCE}, 3, 2},
		 {0, 0, 1}},
		{{{"hier_leader", "binomial"}, {TT_COLL_ALLREDUCE, TT_COLL_BCAST}, 3, 2},
		 {0, 0, 1}},
	};
	size_t i, most;
	int comm;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tt_plan_args a[2];
		struct tt_check_call two[2];
		struct tt_check_opts o = narrow(1);
		struct tt_hosts *hosts;

		pair_of(&cases[i].calls, a, two);
		TT_REQUIRE(!tt_hosts_new(cases[i].host, cases[i].calls.n, &hosts));
		a[0].hosts = a[1].hosts = hosts;
		a[0].node = a[1].node = !hosts;
		most = 0;
		for (comm = 1; comm <= 2; comm++) {
			two[0].comm = 1;
			two[1].comm = comm;
			TT_CHECK(any_waits(two, &o, &most));
		}
		printf("  %s and %s of %d ranks: %zu states at most\n", cases[i].calls.name[0],
		       cases[i].calls.name[1], cases[i].calls.n, most);
		free(hosts);
	}
}

/* Turns of one communicator of n ranks on one host. */
struct turns {
	const char *name[CALLS];
	enum tt_coll coll[CALLS];
	int n, ncalls;
	unsigned copies;
	bool direct;
};

static const struct turns slot_cases[] = {
	{{"node_slots", "node_slots", "node_slots", "node_slots"},
	 {TT_COLL_BCAST, TT_COLL_BCAST, TT_COLL_BCAST, TT_COLL_BCAST},
	 3,
	 4,
	 0,
	 false},
	{{"node_pull", "node_pull", "node_pull"},
	 {TT_COLL_BCAST, TT_COLL_BCAST, TT_COLL_BCAST},
	 3,
	 3,
	 7,
	 false},
	{{"node_pull", "node_slots", "node_pull", "node_slots"},
	 {TT_COLL_SCATTER, TT_COLL_BCAST, TT_COLL_SCATTER, TT_COLL_SCATTER},
	 3,
	 4,
	 1,
	 false},
	{{"node_slots", "node_slots", "node_slots"},
	 {TT_COLL_GATHER, TT_COLL_REDUCE, TT_COLL_GATHER},
	 3,
	 3,
	 0,
	 false},
	{{"node_slots", "node", "node_slots"},
	 {TT_COLL_ALLREDUCE, TT_COLL_BARRIER, TT_COLL_ALLREDUCE},
	 3,
	 3,
	 0,
	 false},
	{{"node_pull", "node_slots", "node_pull"},
	 {TT_COLL_GATHER, TT_COLL_GATHER, TT_COLL_GATHER},
	 3,
	 3,
	 0,
	 true},
};

static int check_slots(const struct turns *t, struct tt_check_opts o, size_t *states)
{
	struct tt_plan_args a[CALLS];
	struct tt_check_call calls[CALLS];
	int i;

	for (i = 0; i < t->ncalls; i++) {
		a[i] = args_of(t->coll[i], t->n, 2);
		a[i].node = true;
		a[i].direct = t->direct;
		calls[i] = call_of(t->name[i], &a[i], NULL);
		calls[i].comm = 1;
	}
	o.copies = t->copies;
	return tt_plan_check_orders(calls, t->ncalls, &o, MOST, states);
}

/* Ranks that are far ahead write no slot that others still read, in any order of all ops. */
static void test_slots(void)
{
	struct tt_check_opts o = narrow(1);
	size_t i, states, found = 0;
	int err;

	o.any_lane = true;
	for (i = 0; i < sizeof(slot_cases) / sizeof(slot_cases[0]); i++) {
		err = check_slots(&slot_cases[i], o, &states);
		printf("  case %zu: %zu states; %s\n", i, states,
		       err ? tt_fail_text(err) : "right");
		TT_CHECK(!err);
		/* a turn that begins too early */
		o.early = 1;
		err = check_slots(&slot_cases[i], o, &states);
		printf("  early: %s\n", err ? tt_fail_text(err) : "right");
		found += err == -EINVAL && strstr(tt_fail_text(err), "hazard: call ");
		o.early = 0;
	}
	TT_CHECK(found == 4);
}

/* ---- orders by dice ---- */

static uint64_t dice = 1;
static size_t turns;

static size_t roll(size_t sides)
{
	return (size_t)(tt_random(&dice) % sides);
}

/* Ranks on hosts by dice; NULL: all on one. */
static struct tt_hosts *any_hosts(int n)
{
	struct tt_hosts *h = NULL;
	uint64_t by[MAX_N];
	int r;

	for (r = 0; r < n; r++)
		by[r] = roll(3);
	return roll(2) && !tt_hosts_new(by, n, &h) ? h : NULL;
}

/* Another collective each time; an algorithm of it that can do the call. */
static const struct tt_alg *any_call(int n, const struct tt_hosts *hosts, struct tt_whole *w)
{
	static const size_t chunks[] = {ELEM, 3 * ELEM, 1 << 20};
	struct tt_plan_args a = {.nranks = n, .elem = ELEM, .count = roll(8)};
	const struct tt_alg *alg, *found = NULL;
	size_t seen = 0;

	a.coll = (enum tt_coll)roll(TT_NUM_COLLS);
	a.root = (int)roll((size_t)n);
	a.chunk = chunks[roll(3)];
	a.lanes = 1 + (int)roll(3);
	a.ordered = tt_coll_reduces(a.coll) && roll(2);
	tt_whole_init(w, &a, (int)roll((size_t)tt_whole_shapes(a.coll)));
	w->args.hosts = hosts;
	w->args.node = !hosts;
	for (alg = tt_algs; alg->name; alg++)
		if (alg->coll == a.coll && tt_alg_can(alg, &w->args) && !roll(++seen))
			found = alg;
	turns += found && (strstr(found->name, "node") || strstr(found->name, "hier"));
	return found;
}

static bool check_any(struct tt_whole *w, const struct tt_hosts *hosts, int n)
{
	int after[CALLS][MAX_N], ncalls = 2 + (int)roll(CALLS - 1);
	struct tt_check_opts o = tt_whole_opts((unsigned)roll(TT_WHOLE_OPTS), ELEM);
	struct tt_check_call calls[CALLS];
	int i, r;

	o.window = 1 + (int)roll(4);
	o.piece = ELEM * (1 + roll(2));
	o.seed += roll(1 << 20);
	o.copies = (unsigned)roll((size_t)1 << n);
	for (i = 0; i < ncalls; i++) {
		for (r = 0; r < n; r++)
			after[i][r] = roll(2) ? (int)roll((size_t)i + 1) - 1 : -1;
		calls[i] = (struct tt_check_call){any_call(n, hosts, &w[i]), &w[i].args, after[i],
						  (int)roll(3)};
		if (!calls[i].alg)
			return false;
	}
	if (!tt_plan_check_calls(calls, ncalls, &o))
		return true;
	for (i = 0; i < ncalls; i++)
		tt_whole_describe(calls[i].alg, calls[i].args, &o);
	return false;
}

static void test_any(void)
{
	struct tt_whole *w = calloc(CALLS, sizeof(*w));
	struct tt_hosts *hosts;
	int i, n;

	TT_REQUIRE(w != NULL);
	for (i = 0; i < 20000; i++) {
		n = 2 + (int)roll(MAX_N - 1);
		hosts = any_hosts(n);
		TT_CHECK(check_any(w, hosts, n));
		free(hosts);
	}
	free(w);
	printf("  %zu calls were turns\n", turns);
	TT_CHECK(turns > 10000);
}

/* ---- planted faults ---- */

/* Places for two pieces, which a message keeps until it is there: two messages have one each. */
static void test_places(void)
{
	struct tt_plan_args a = args_of(TT_COLL_BCAST, 2, 2);
	struct tt_check_call two[2] = {call_of("binomial", &a, NULL),
				       call_of("binomial", &a, NULL)};
	struct tt_check_opts o = narrow(2);
	int err, seed, found = 0;
	size_t states;

	TT_CHECK(all_orders(two, 1, &o, &states));
	TT_CHECK(all_orders(two, 2, &o, &states));
	o.places = 2;
	TT_CHECK(all_orders(two, 1, &o, &states));
	err = tt_plan_check_orders(two, 2, &o, MOST, &states);
	TT_CHECK(err == -EINVAL && strstr(tt_fail_text(err), "deadlock, 4 lanes are stuck"));
	TT_CHECK(strstr(tt_fail_text(err), "call 1, rank 0") != NULL);
	TT_CHECK(strstr(tt_fail_text(err), "some pieces can't be sent") != NULL);
	for (seed = 0; seed < 100; seed++) {
		o.seed = (uint64_t)seed;
		found += tt_plan_check_calls(two, 2, &o) == -EINVAL;
	}
	TT_CHECK(found > 10 && found < 90);
	o.places = 3; /* one more is enough for two messages */
	TT_CHECK(all_orders(two, 2, &o, &states));
}

/* Rank 0 waits for call 0 before it starts call 1, and rank 1 the other way round. */
static void test_crossed(void)
{
	static const int first[2] = {-1, 1}, second[2] = {0, -1};
	struct tt_plan_args a = args_of(TT_COLL_ALLREDUCE, 2, 2);
	struct tt_check_call two[2] = {call_of("recursive_doubling", &a, first),
				       call_of("recursive_doubling", &a, second)};
	struct tt_check_opts o = narrow(2);
	size_t states;
	int err = tt_plan_check_orders(two, 2, &o, MOST, &states);

	TT_CHECK(err == -EINVAL && strstr(tt_fail_text(err), "2 wait to start"));
	two[0].after = NULL;
	TT_CHECK(all_orders(two, 2, &o, &states));
}

/* Ranks that take turns of one memory in different orders wait for each other for ever. */
static void test_turn_order(void)
{
	struct tt_plan_args a = args_of(TT_COLL_ALLREDUCE, 2, 2);
	struct tt_check_call two[2] = {call_of("node_slots", &a, NULL),
				       call_of("node_pull", &a, NULL)};
	struct tt_check_opts o = narrow(2);
	size_t states;
	int err;

	a.node = true;
	o.any_turn = true;
	TT_CHECK(all_orders(two, 2, &o, &states)); /* in memories of their own */
	two[0].comm = two[1].comm = 1;
	err = tt_plan_check_orders(two, 2, &o, MOST, &states);
	TT_CHECK(err == -EINVAL && strstr(tt_fail_text(err), "2 lanes are stuck and 2 wait"));
	TT_CHECK(strstr(tt_fail_text(err), "a step that is never reached") != NULL);
	o.any_turn = false;
	TT_CHECK(all_orders(two, 2, &o, &states));
	two[0].comm = 3;
	TT_CHECK(tt_plan_check_orders(two, 2, &o, MOST, &states) == -EINVAL);
}

/* More orders than may be tried are said to be so, and are not all. */
static void test_too_many(void)
{
	struct tt_plan_args a = args_of(TT_COLL_ALLREDUCE, 2, 4);
	struct tt_check_call two[2] = {call_of("ring", &a, NULL), call_of("ring", &a, NULL)};
	struct tt_check_opts o = narrow(2);
	size_t states;

	TT_CHECK(tt_plan_check_orders(two, 2, &o, 10, &states) == -E2BIG);
	TT_CHECK(strstr(tt_fail_text(-E2BIG), "more orders than 10 runs") != NULL);
	a.nranks = 3;
	two[1].args = &(struct tt_plan_args){.coll = TT_COLL_ALLREDUCE, .nranks = 2};
	TT_CHECK(tt_plan_check_orders(two, 2, &o, 10, &states) == -EINVAL);
}

static const struct tt_test tests[] = {{"states", test_states},	    {"all", test_all},
				       {"turns", test_turns},	    {"slots", test_slots},
				       {"any", test_any},	    {"places", test_places},
				       {"crossed", test_crossed},   {"turn_order", test_turn_order},
				       {"too_many", test_too_many}, {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("orders", tests, argc, argv);
}
