/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulator against times worked out by hand, against itself (the recurrence), and its model's
 * parts one by one.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/verify/sim.h"
#include "tests/test.h"

#define ALPHA 1000.0
#define BETA 0.1
#define GAMMA 0.05

/* One rank a host, one switch, nothing but alpha, beta and gamma. */
static struct tt_model plain(void)
{
	struct tt_model m;

	tt_model_default(&m);
	m.link[TT_LEVEL_LEAF] = (struct tt_hop){ALPHA, BETA};
	m.link[TT_LEVEL_FAR] = (struct tt_hop){ALPHA, BETA};
	m.gamma = GAMMA;
	m.copy = 0;
	m.overhead = 0;
	m.eager = SIZE_MAX;
	return m;
}

static struct tt_plan_args args_of(enum tt_coll coll, int n, size_t count)
{
	return (struct tt_plan_args){
		.coll = coll, .nranks = n, .count = count, .elem = 4, .chunk = 1 << 20, .lanes = 1};
}

static bool near(double a, double b)
{
	return fabs(a - b) <= 1e-9 * (fabs(a) + fabs(b)) + 1e-6;
}

static double run(const char *name, const struct tt_plan_args *a, const struct tt_model *m)
{
	struct tt_sim_result r = {0};

	TT_CHECK(tt_sim(tt_alg_find(a->coll, name), a, m, &r) == 0);
	return r.last;
}

/* 2(n-1) steps of a block each; in the first n-1 it is also reduced. */
static void test_ring(void)
{
	struct tt_model m = plain();
	struct tt_plan_args a;
	struct tt_sim_result r;
	double block;
	int n;

	for (n = 2; n <= 33; n++) {
		a = args_of(TT_COLL_ALLREDUCE, n, (size_t)n * 100);
		block = 400;
		TT_REQUIRE(tt_sim(tt_alg_find(a.coll, "ring"), &a, &m, &r) == 0);
		TT_CHECK(near(r.last,
			      2 * (n - 1) * (ALPHA + BETA * block) + (n - 1) * GAMMA * block));
		TT_CHECK(near(r.first, r.last));
		TT_CHECK(r.messages == (uint64_t)n * 2 * (uint64_t)(n - 1));
		TT_CHECK(r.bytes == r.messages * 400 && !r.recurrence);
	}
}

/* The way down to the last leaf has log2 n hops. */
static void test_binomial(void)
{
	struct tt_model m = plain();
	struct tt_plan_args a;
	int k;

	for (k = 1; k <= 6; k++) {
		a = args_of(TT_COLL_BCAST, 1 << k, 1000);
		TT_CHECK(near(run("binomial", &a, &m), k * (ALPHA + BETA * 4000)));
	}
}

/* A message's overheads, its rendezvous, a second port. */
static void test_message(void)
{
	struct tt_plan_args a = args_of(TT_COLL_BCAST, 2, 1000);
	struct tt_model m = plain();

	m.overhead = 70;
	TT_CHECK(near(run("binomial", &a, &m), 70 + ALPHA + BETA * 4000 + 70));
	m.eager = 3999;
	TT_CHECK(near(run("binomial", &a, &m), ALPHA + ALPHA + BETA * 4000 + 70));
	m.eager = 4000;
	TT_CHECK(near(run("binomial", &a, &m), 70 + ALPHA + BETA * 4000 + 70));
}

/* The sender is done with bytes that its port has buffered. */
static void test_buffer(void)
{
	struct tt_plan_args a = args_of(TT_COLL_BCAST, 3, 1000);
	struct tt_model m = plain();

	/*
	 * rank 0 sends to two; the second message waits at the port, whether its sender waits or
	 * not
	 */
	m.overhead = 70;
	TT_CHECK(near(run("binomial", &a, &m), 70 + BETA * 4000 + 70 + ALPHA + BETA * 4000 + 70));
	m.buffer = 4000;
	TT_CHECK(near(run("binomial", &a, &m), 70 + BETA * 4000 + ALPHA + BETA * 4000 + 70));
	/* of another leaf: the same, over its uplink */
	m.hosts_per_leaf = 1;
	m.link[TT_LEVEL_FAR] = (struct tt_hop){3 * ALPHA, BETA};
	TT_CHECK(near(run("binomial", &a, &m), 70 + BETA * 4000 + 3 * ALPHA + BETA * 4000 + 70));
	/* within a host no port takes anything over */
	m.ranks_per_host = 3;
	m.link[TT_LEVEL_HOST] = (struct tt_hop){ALPHA, BETA};
	TT_CHECK(near(run("binomial", &a, &m), 70 + BETA * 4000 + 70 + ALPHA + BETA * 4000 + 70));
}

/* Each port has its own; if all ranks do the same, one stands for all here too. */
static void test_buffer_rails(void)
{
	const struct tt_alg *ring = tt_alg_find(TT_COLL_ALLREDUCE, "ring");
	struct tt_plan_args a = args_of(TT_COLL_BCAST, 2, 1000);
	struct tt_sim_result full, one;
	struct tt_model m = plain();
	int buffer;

	a.chunk = 2000;
	a.lanes = 2;
	m.buffer = 1000;
	m.overhead = 70;
	/* the processor is at it twice; the last byte of the second is its port's only */
	m.rails = 2;
	TT_CHECK(near(run("chain", &a, &m), 2 * 70 + ALPHA + BETA * 2000 + 70));
	for (m.rails = 1; m.rails <= 2; m.rails++)
		for (buffer = 0; buffer <= 40000; buffer += 4000) {
			a = args_of(TT_COLL_ALLREDUCE, 8, 80000);
			a.lanes = 2;
			m.buffer = (size_t)buffer;
			TT_REQUIRE(!tt_sim(ring, &a, &m, &full));
			TT_REQUIRE(!tt_sim_recurrence(ring, &a, &m, &one));
			TT_CHECK(near(full.last, one.last));
		}
}

static void test_rails(void)
{
	struct tt_plan_args a = args_of(TT_COLL_BCAST, 2, 1000);
	struct tt_model m = plain();

	a.chunk = 2000;
	a.lanes = 2;
	TT_CHECK(near(run("chain", &a, &m),
		      ALPHA + BETA * 4000)); /* one port: one after the other */
	m.rails = 2;
	TT_CHECK(near(run("chain", &a, &m), ALPHA + BETA * 2000));
}

/* Ranks 0, 1 on a host; hosts 0, 1 on a leaf; two leaves. The chain passes each level. */
static void test_levels(void)
{
	struct tt_plan_args a = args_of(TT_COLL_BCAST, 8, 10);
	struct tt_model m = plain();

	m.ranks_per_host = 2;
	m.hosts_per_leaf = 2;
	m.link[TT_LEVEL_HOST] = (struct tt_hop){10, 1};
	m.link[TT_LEVEL_LEAF] = (struct tt_hop){100, 2};
	m.link[TT_LEVEL_FAR] = (struct tt_hop){1000, 3};
	TT_CHECK(near(run("chain", &a, &m), 4 * (10 + 40) + 2 * (100 + 80) + 1000 + 120));
}

/* Four hosts a leaf send to the other leaf at once: the uplink serves them one after the other. */
static void emit_across(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t len = a->count * a->elem;

	tt_lane(b, 0);
	if (a->rank < 4)
		tt_send(b, a->rank + 4, TT_SENDBUF(0), len);
	else
		tt_recv(b, a->rank - 4, TT_RECVBUF(0), len);
}

static void test_oversubscription(void)
{
	static const struct tt_alg across = {TT_COLL_ALLREDUCE, "across", emit_across, NULL, NULL};
	struct tt_plan_args a = args_of(TT_COLL_ALLREDUCE, 8, 1000);
	struct tt_model m = plain();
	struct tt_sim_result r;

	m.hosts_per_leaf = 4;
	TT_REQUIRE(tt_sim(&across, &a, &m, &r) == 0);
	/* the uplink is as fast as all four ports */
	TT_CHECK(near(r.last, ALPHA + BETA * 4000));
	m.oversub = 4;
	TT_REQUIRE(tt_sim(&across, &a, &m, &r) == 0);
	TT_CHECK(near(r.first, BETA * 4000)); /* a sender, when all has left */
	TT_CHECK(near(r.last, ALPHA + BETA * 4000 * 4));
}

/* An uplink slower than a port slows a single message by as much. */
static void test_slow_uplink(void)
{
	struct tt_plan_args a = args_of(TT_COLL_BCAST, 2, 1000);
	struct tt_model m = plain();

	m.hosts_per_leaf = 1;
	TT_CHECK(near(run("binomial", &a, &m), ALPHA + BETA * 4000));
	m.oversub = 100;
	TT_CHECK(near(run("binomial", &a, &m), ALPHA + BETA * 4000 * 100));
}

/* Ranks 4, 8, 12 and 16, each alone in using its leaf, send to 0 ... 3: to one leaf. */
static void emit_into_one_leaf(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t len = a->count * a->elem;

	tt_lane(b, 0);
	if (a->rank < 4)
		tt_recv(b, 4 * (a->rank + 1), TT_RECVBUF(0), len);
	else if (a->rank % 4 == 0)
		tt_send(b, a->rank / 4 - 1, TT_SENDBUF(0), len);
}

static void test_downlink(void)
{
	static const struct tt_alg inward = {TT_COLL_ALLREDUCE, "inward", emit_into_one_leaf, NULL,
					     NULL};
	struct tt_plan_args a = args_of(TT_COLL_ALLREDUCE, 20, 1000000);
	struct tt_model m = plain();
	struct tt_sim_result one, eight;

	m.hosts_per_leaf = 4;
	TT_REQUIRE(tt_sim(&inward, &a, &m, &one) == 0);
	TT_CHECK(near(one.last, ALPHA + BETA * 4e6));
	m.oversub = 8;
	TT_REQUIRE(tt_sim(&inward, &a, &m, &eight) == 0);
	TT_CHECK(near(eight.last, ALPHA + BETA * 4e6 * 8));
	TT_CHECK(eight.last >= 7.5 * one.last);
}

/* Ranks of a host on two processors, which copy: as long as all that is to be done, halved. */
static void test_cores(void)
{
	struct tt_plan_args a = args_of(TT_COLL_ALLREDUCE, 8, 8000);
	struct tt_model m = plain();
	double work = 14 * (4000 * BETA + 50 + 50) + 7 * 4000 * GAMMA; /* of a rank */

	m.ranks_per_host = 8;
	m.link[TT_LEVEL_HOST] = (struct tt_hop){0, BETA};
	m.overhead = 50;
	m.cores = 8;
	TT_CHECK(near(run("ring", &a, &m), work));
	m.cores = 2;
	TT_CHECK(fabs(run("ring", &a, &m) - work * 8 / 2) < 0.05 * work * 8 / 2);
	a = args_of(TT_COLL_BCAST, 2,
		    1000); /* one message; one rank is never faster than one processor */
	TT_CHECK(near(run("binomial", &a, &m), 50 + BETA * 4000 + 50));
}

static void test_straggler(void)
{
	struct tt_plan_args a = args_of(TT_COLL_ALLREDUCE, 8, 800);
	struct tt_model m = plain();
	double usual = run("ring", &a, &m);

	m.straggler = 3;
	m.straggler_delay = 12345;
	TT_CHECK(near(run("ring", &a, &m), usual + 12345));
	m.straggler_delay = 0;
	m.straggler_factor = 10;
	/* its reduction of a block takes ten times as long; each block passes it once */
	TT_CHECK(run("ring", &a, &m) > usual + 9 * GAMMA * 400 - 1e-6);
}

static void test_jitter(void)
{
	struct tt_plan_args a = args_of(TT_COLL_ALLREDUCE, 16, 1600);
	struct tt_model m = plain();
	double usual = run("ring", &a, &m), one, two;

	m.jitter = 500;
	m.seed = 1;
	one = run("ring", &a, &m);
	TT_CHECK(one > usual && near(one, run("ring", &a, &m)));
	m.seed = 2;
	two = run("ring", &a, &m);
	TT_CHECK(two > usual && !near(one, two));
}

/* Both methods agree: exactly with even blocks, else within an element for each step. */
static void test_recurrence(void)
{
	struct tt_model m = plain();
	struct tt_sim_result full, rec;
	struct tt_plan_args a;
	const struct tt_alg *ring = tt_alg_find(TT_COLL_ALLREDUCE, "ring");
	int n;

	m.overhead = 30;
	m.eager = 256;
	for (n = 2; n <= 96; n += n < 16 ? 1 : 16) {
		a = args_of(TT_COLL_ALLREDUCE, n, (size_t)n * 500);
		a.chunk = 1000;
		a.lanes = 2;
		TT_REQUIRE(tt_sim(ring, &a, &m, &full) == 0);
		TT_REQUIRE(tt_sim_recurrence(ring, &a, &m, &rec) == 0);
		TT_CHECK(near(full.last, rec.last));
		TT_CHECK(rec.recurrence && rec.messages == full.messages &&
			 rec.bytes == full.bytes);
		a.count += 7;
		TT_REQUIRE(tt_sim(ring, &a, &m, &full) == 0);
		TT_REQUIRE(tt_sim_recurrence(ring, &a, &m, &rec) == 0);
		TT_CHECK(fabs(full.last - rec.last) < 0.02 * full.last);
	}
}

static void test_no_recurrence(void)
{
	struct tt_plan_args a = args_of(TT_COLL_BCAST, 8, 100);
	struct tt_model m = plain();
	struct tt_sim_result r;

	TT_CHECK(tt_sim_recurrence(tt_alg_find(TT_COLL_BCAST, "binomial"), &a, &m, &r) ==
		 -EOPNOTSUPP);
	TT_CHECK(strstr(tt_fail_text(-EOPNOTSUPP), "binomial") != NULL);
	a = args_of(TT_COLL_ALLREDUCE, 8, 100);
	m.straggler = 1;
	TT_CHECK(tt_sim_recurrence(tt_alg_find(TT_COLL_ALLREDUCE, "ring"), &a, &m, &r) ==
		 -EOPNOTSUPP);
}

/* Rank 1 waits for a message that no rank sends. */
static void emit_stuck(struct tt_builder *b)
{
	tt_lane(b, 0);
	if (tt_builder_args(b)->rank == 1)
		tt_recv(b, 0, TT_RECVBUF(0), 4);
}

static void emit_left(struct tt_builder *b)
{
	tt_lane(b, 0);
	if (tt_builder_args(b)->rank == 1)
		tt_send(b, 0, TT_RECVBUF(0), 4);
}

static void test_stopped(void)
{
	static const struct tt_alg stuck = {TT_COLL_ALLREDUCE, "stuck", emit_stuck, NULL, NULL};
	static const struct tt_alg left = {TT_COLL_ALLREDUCE, "left", emit_left, NULL, NULL};
	struct tt_plan_args a = args_of(TT_COLL_ALLREDUCE, 4, 10);
	struct tt_model m = plain();
	struct tt_sim_result r;

	TT_CHECK(tt_sim(&stuck, &a, &m, &r) == -EDEADLK);
	TT_CHECK(strstr(tt_fail_text(-EDEADLK), "1 lanes wait") != NULL);
	TT_CHECK(tt_sim(&left, &a, &m, &r) == -EDEADLK);
	TT_CHECK(strstr(tt_fail_text(-EDEADLK), "1 messages are left") != NULL);
}

/* Ranks 0 and 1 have nothing to do, and are ready at once. */
static void emit_idle(struct tt_builder *b)
{
	tt_lane(b, 0);
	if (tt_builder_args(b)->rank == 2)
		tt_send(b, 3, TT_RECVBUF(0), 4);
	if (tt_builder_args(b)->rank == 3)
		tt_recv(b, 2, TT_RECVBUF(0), 4);
}

static void test_idle(void)
{
	static const struct tt_alg idle = {TT_COLL_ALLREDUCE, "idle", emit_idle, NULL, NULL};
	struct tt_plan_args a = args_of(TT_COLL_ALLREDUCE, 4, 10);
	struct tt_model m = plain();
	struct tt_sim_result r;

	TT_REQUIRE(tt_sim(&idle, &a, &m, &r) == 0);
	TT_CHECK(near(r.first, 0) && near(r.last, ALPHA + 4 * BETA));
}

/* Every algorithm comes to its end, at any number of ranks. */
static void test_all(void)
{
	struct tt_model m = plain();
	const struct tt_alg *alg;
	struct tt_plan_args a;
	struct tt_sim_result r;
	int n;

	for (alg = tt_algs; alg->name; alg++)
		for (n = 1; n <= 17; n++) {
			a = args_of(alg->coll, n, 1001);
			a.chunk = 400;
			a.lanes = 3;
			if (strchr(tt_coll_name(alg->coll), 'v') ||
			    alg->coll == TT_COLL_REDUCE_SCATTER)
				continue; /* would need counts */
			if (alg->can && !alg->can(&a))
				continue;
			TT_CHECK(tt_sim(alg, &a, &m, &r) == 0);
			TT_CHECK(n == 1 || r.last > 0);
		}
}

static const struct tt_test tests[] = {
	{"ring", test_ring},
	{"binomial", test_binomial},
	{"message", test_message},
	{"buffer", test_buffer},
	{"buffer_rails", test_buffer_rails},
	{"rails", test_rails},
	{"levels", test_levels},
	{"oversubscription", test_oversubscription},
	{"slow_uplink", test_slow_uplink},
	{"downlink", test_downlink},
	{"cores", test_cores},
	{"straggler", test_straggler},
	{"jitter", test_jitter},
	{"recurrence", test_recurrence},
	{"no_recurrence", test_no_recurrence},
	{"stopped", test_stopped},
	{"idle", test_idle},
	{"all", test_all},
	{NULL, NULL},
};

int main(int argc, char **argv)
{
	return tt_test_main("sim", tests, argc, argv);
}
