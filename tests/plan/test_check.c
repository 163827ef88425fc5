/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checker is only worth something if it finds faults: each kind is planted here and must be
 * named.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/verify/check.h"
#include "tests/plan/whole.h"
#include "tests/test.h"

#define ELEM 4
#define N 4

static const struct tt_check_opts unlimited = {.eager = SIZE_MAX};
static const struct tt_check_opts no_eager = {.eager = 0};

static const struct tt_plan_args ring_args = {.coll = TT_COLL_ALLREDUCE,
					      .nranks = N,
					      .count = 16,
					      .elem = ELEM,
					      .divide = true,
					      .chunk = 2 * ELEM,
					      .lanes = 2};
static const struct tt_plan_args bcast_args = {.coll = TT_COLL_BCAST,
					       .nranks = N,
					       .count = 6,
					       .elem = ELEM,
					       .chunk = 6 * ELEM,
					       .lanes = 1};

static struct tt_plan *plans[N];

static bool build(const char *name, struct tt_plan_args a)
{
	for (a.rank = 0; a.rank < a.nranks; a.rank++)
		if (tt_plan_build(tt_alg_find(a.coll, name), &a, &plans[a.rank]))
			return false;
	return true;
}

/* An op of a built plan, to be tampered with. */
static struct tt_op *op_at(int rank, int lane, int round, int i)
{
	const struct tt_op *ops;

	if (i >= tt_plan_ops(plans[rank], lane, round, NULL, &ops))
		abort();
	return (struct tt_op *)&ops[i];
}

/* Make rank's plan again without op i of a round; the builder numbers the rest anew. */
static void drop_op(int rank, int lane, int round, int i)
{
	struct tt_plan *old = plans[rank];
	struct tt_builder *b = tt_builder_new(&old->args, old->algo);
	const struct tt_op *ops;
	int l, r, k, n;

	tt_scratch(b, old->scratch);
	for (l = 0; l < old->nlanes; l++) {
		tt_lane(b, l);
		for (r = 0; r < tt_plan_rounds(old, l); r++) {
			tt_round(b);
			n = tt_plan_ops(old, l, r, NULL, &ops);
			for (k = 0; k < n; k++)
				if (l != lane || r != round || k != i)
					tt_add(b, &ops[k]);
		}
	}
	if (tt_plan_finish(b, &plans[rank]))
		abort();
	tt_plan_free(old);
}

/* The plans must be refused, in these words; they are freed. */
static bool refused(int n, const struct tt_check_opts *opts, const char *words)
{
	int err = tt_plan_check_plans(plans, n, opts), r;
	bool ok = err == -EINVAL && strstr(tt_fail_text(err), words);

	if (!ok)
		printf("  expected \"%s\", got: %s\n", words, err ? tt_fail_text(err) : "no error");
	for (r = 0; r < n; r++)
		tt_plan_free(plans[r]);
	return ok;
}

static bool accepted(int n, const struct tt_check_opts *opts)
{
	int err = tt_plan_check_plans(plans, n, opts), r;

	if (err)
		printf("  refused: %s\n", tt_fail_text(err));
	for (r = 0; r < n; r++)
		tt_plan_free(plans[r]);
	return !err;
}

/* Plans written by hand: begin(rank) ... end(rank). */
static struct tt_builder *begin(struct tt_plan_args a, int rank)
{
	a.rank = rank;
	return tt_builder_new(&a, "by hand");
}

static void end(struct tt_builder *b, int rank)
{
	if (tt_plan_finish(b, &plans[rank]))
		abort();
}

static const struct tt_plan_args pair_args = {.coll = TT_COLL_ALLREDUCE,
					      .nranks = 2,
					      .count = 3,
					      .elem = ELEM,
					      .chunk = 3 * ELEM,
					      .lanes = 2};

/* Both ranks of a pair send all they have and combine; rank 0's part on the left. */
static void exchange(int rank, bool swap)
{
	struct tt_builder *b = begin(pair_args, rank);
	bool own_left = (rank == 0) != swap;

	tt_send(b, !rank, TT_SENDBUF(0), 3 * ELEM);
	tt_recv_reduce(b, !rank, TT_RECVBUF(0), own_left ? TT_SENDBUF(0) : TT_NET,
		       own_left ? TT_NET : TT_SENDBUF(0), 3 * ELEM, 0);
	end(b, rank);
}

static void test_operand_order(void)
{
	exchange(0, false);
	exchange(1, false);
	TT_CHECK(accepted(2, &unlimited));
	exchange(0, false);
	exchange(1, true);
	TT_CHECK(refused(2, &unlimited, "another order"));
}

static void test_dropped_ops(void)
{
	TT_REQUIRE(build("ring", ring_args));
	TT_CHECK(accepted(N, &unlimited));
	TT_REQUIRE(build("ring", ring_args));
	drop_op(2, 1, 5, 0); /* the last send */
	TT_CHECK(refused(N, &unlimited, "never sent"));
	TT_REQUIRE(build("ring", ring_args));
	drop_op(1, 0, 5, 1); /* the last receive */
	TT_CHECK(refused(N, &unlimited, "is never received"));
	TT_REQUIRE(build("ring", ring_args));
	drop_op(0, 0, 3, 1); /* one in between, on both sides: block 3 is not passed on */
	drop_op(3, 0, 3, 0);
	TT_CHECK(refused(N, &unlimited, "is not written before"));
}

static void test_messages(void)
{
	TT_REQUIRE(build("ring", ring_args));
	op_at(1, 0, 2, 0)->len -= ELEM;
	TT_CHECK(refused(N, &unlimited, "lengths differ"));
	TT_REQUIRE(build("ring", ring_args));
	op_at(1, 0, 2, 0)->index = 0;
	TT_CHECK(refused(N, &unlimited, "used twice"));
	TT_REQUIRE(build("ring", ring_args));
	op_at(1, 0, 2, 1)->index = 0;
	TT_CHECK(refused(N, &unlimited, "received twice"));
	TT_REQUIRE(build("ring", ring_args));
	op_at(1, 0, 2, 0)->peer = 1;
	TT_CHECK(refused(N, &unlimited, "no such peer"));
	TT_REQUIRE(build("ring", ring_args));
	op_at(1, 0, 2, 0)->len *= 2;
	TT_CHECK(refused(N, &unlimited, "longer than the chunk"));
}

static void test_values(void)
{
	TT_REQUIRE(build("ring", ring_args));
	op_at(3, 0, 1, 1)->b.off += ELEM; /* another element's contribution */
	TT_CHECK(refused(N, &unlimited, "exactly once"));
	TT_REQUIRE(build("ring", ring_args));
	op_at(3, 0, 2, 1)->flags = 0;
	TT_CHECK(refused(N, &unlimited, "never"));
	TT_REQUIRE(build("ring", ring_args));
	op_at(3, 0, 1, 1)->flags = TT_OPF_DIVIDE;
	TT_CHECK(refused(N, &unlimited, "too often or too early"));
	TT_REQUIRE(build("ring", ring_args));
	op_at(2, 0, 1, 0)->a.off = op_at(2, 0, 3, 1)->dst.off; /* sent before it comes */
	TT_CHECK(refused(N, &unlimited, "is not written before"));
}

static void test_wrong_root(void)
{
	struct tt_plan_args a = bcast_args;
	int r;

	a.root = 1;
	TT_REQUIRE(build("binomial", a));
	for (r = 0; r < N; r++)
		plans[r]->args.root = 0; /* all do as if 1 were the root */
	TT_CHECK(refused(N, &unlimited, "is not written before"));
	TT_REQUIRE(build("binomial", bcast_args));
	tt_plan_free(plans[3]);
	a.rank = 3;
	TT_REQUIRE(!tt_plan_build(tt_alg_find(a.coll, "binomial"), &a, &plans[3]));
	TT_CHECK(refused(N, &unlimited, "other arguments"));
	TT_REQUIRE(build("binomial", bcast_args));
	tt_plan_free(plans[3]);
	TT_REQUIRE(!tt_plan_build(tt_alg_find(a.coll, "binomial"), &a, &plans[3]));
	plans[3]->args.root = 0;
	TT_CHECK(refused(N, &unlimited, "never sent"));
	TT_REQUIRE(build("binomial", bcast_args));
	drop_op(0, 0, 0, 0); /* 0 no longer sends to 2, nor 2 waits for it */
	drop_op(2, 0, 0, 0);
	TT_CHECK(refused(N, &unlimited, "is not written before"));
	TT_REQUIRE(build("binomial", bcast_args));
	drop_op(0, 0, 1, 0); /* nor 1, which passes nothing on */
	drop_op(1, 0, 0, 0);
	TT_CHECK(refused(N, &unlimited, "never written"));
	TT_REQUIRE(build("binomial", bcast_args)); /* a leaf gets the message shifted */
	op_at(0, 0, 1, 0)->a.off = ELEM;
	op_at(0, 0, 1, 0)->len = op_at(1, 0, 0, 0)->len = 5 * ELEM;
	TT_CHECK(refused(N, &unlimited,
			 "rank 1: element 0 of the result is not element 0 of rank 0"));
}

static void test_hazards(void)
{
	struct tt_builder *b;

	TT_REQUIRE(build("ring", ring_args)); /* two lanes write the same bytes */
	op_at(1, 1, 4, 1)->dst.off = op_at(1, 0, 4, 1)->dst.off;
	TT_CHECK(refused(N, &unlimited, "hazard"));
	TT_REQUIRE(build("ring", ring_args)); /* a lane reads what another one writes */
	op_at(1, 1, 4, 0)->a.off = op_at(1, 0, 4, 1)->dst.off;
	TT_CHECK(refused(N, &unlimited, "hazard"));
	TT_REQUIRE(build("ring", ring_args)); /* a round sends the data that it receives */
	op_at(1, 0, 4, 0)->a.off = op_at(1, 0, 4, 1)->dst.off;
	TT_CHECK(refused(N, &unlimited, "hazard"));

	b = begin(pair_args, 0); /* an operand shifted against the result */
	tt_copy(b, TT_RECVBUF(0), TT_SENDBUF(0), 3 * ELEM);
	tt_round(b);
	tt_reduce(b, TT_RECVBUF(0), TT_RECVBUF(ELEM), TT_SENDBUF(0), 2 * ELEM, 0);
	end(b, 0);
	end(begin(pair_args, 1), 1);
	TT_CHECK(refused(2, &unlimited, "overlaps its result"));
}

static void test_bounds(void)
{
	TT_REQUIRE(build("ring", ring_args));
	op_at(0, 0, 4, 1)->dst.off = 15 * ELEM;
	TT_CHECK(refused(N, &unlimited, "outside of recvbuf"));
	TT_REQUIRE(build("ring", ring_args));
	op_at(0, 0, 4, 1)->dst.off = SIZE_MAX - ELEM + 1;
	TT_CHECK(refused(N, &unlimited, "outside of recvbuf"));
	TT_REQUIRE(build("ring", ring_args));
	op_at(0, 0, 4, 1)->dst = TT_SCRATCH(0);
	TT_CHECK(refused(N, &unlimited, "outside of scratch"));
	TT_REQUIRE(build("ring", ring_args));
	op_at(0, 0, 4, 1)->dst = TT_SENDBUF(0);
	TT_CHECK(refused(N, &unlimited, "writes to the caller's sendbuf"));
	TT_REQUIRE(build("ring", ring_args));
	op_at(0, 0, 4, 0)->a.off += 1;
	TT_CHECK(refused(N, &unlimited, "inside an element"));
	TT_REQUIRE(build("ring", ring_args));
	op_at(0, 0, 1, 1)->b = TT_NET;
	TT_CHECK(refused(N, &unlimited, "exactly one operand"));
	TT_REQUIRE(build("ring", ring_args));
	plans[1]->max_ops = 1;
	TT_CHECK(refused(N, &unlimited, "at most 1"));
	TT_REQUIRE(build("ring", ring_args));
	op_at(0, 0, 1, 1)->kind = TT_OP_WAIT + 1;
	TT_CHECK(refused(N, &unlimited, "does not know"));
}

static void test_uninitialised(void)
{
	struct tt_builder *b = begin(bcast_args, 0);
	int r;

	tt_scratch(b, 4 * ELEM);
	tt_copy(b, TT_RECVBUF(0), TT_SCRATCH(0), ELEM);
	end(b, 0);
	for (r = 1; r < N; r++)
		end(begin(bcast_args, r), r);
	TT_CHECK(refused(N, &unlimited, "byte 0 of scratch"));
}

/* Each rank of a pair waits for the other before it sends. */
static void wait_first(int rank)
{
	struct tt_builder *b = begin(pair_args, rank);

	tt_recv(b, !rank, TT_RECVBUF(0), ELEM);
	tt_round(b);
	tt_send(b, !rank, TT_SENDBUF(0), ELEM);
	end(b, rank);
}

/* Each sends twice, then receives: needs room for two eager messages. */
static void send_first(int rank)
{
	struct tt_builder *b = begin(pair_args, rank);

	tt_send(b, !rank, TT_SENDBUF(0), ELEM);
	tt_round(b);
	tt_send(b, !rank, TT_SENDBUF(ELEM), 2 * ELEM);
	tt_round(b);
	tt_recv_reduce(b, !rank, TT_RECVBUF(0), rank ? TT_NET : TT_SENDBUF(0),
		       rank ? TT_SENDBUF(0) : TT_NET, ELEM, 0);
	tt_round(b);
	tt_recv_reduce(b, !rank, TT_RECVBUF(ELEM), rank ? TT_NET : TT_SENDBUF(ELEM),
		       rank ? TT_SENDBUF(ELEM) : TT_NET, 2 * ELEM, 0);
	end(b, rank);
}

static bool send_first_under(const struct tt_check_opts *opts, bool fine)
{
	send_first(0);
	send_first(1);
	return fine ? accepted(2, opts) : refused(2, opts, "deadlock, 2 lanes are stuck");
}

static void test_deadlock(void)
{
	const struct tt_check_opts two_credits = {.credits = 2, .eager = SIZE_MAX};
	const struct tt_check_opts one_credit = {.credits = 1, .eager = SIZE_MAX};

	wait_first(0);
	wait_first(1);
	TT_CHECK(refused(2, &unlimited, "rank 1, lane 0, round 0, receive of 4 bytes from rank 0"));
	TT_CHECK(send_first_under(&unlimited, true));
	TT_CHECK(send_first_under(&two_credits, true));
	TT_CHECK(send_first_under(&one_credit, false));
	TT_CHECK(send_first_under(&no_eager, false));
}

static void test_barrier(void)
{
	struct tt_plan_args a = {.coll = TT_COLL_BARRIER, .nranks = N};
	int r;

	TT_REQUIRE(build("dissemination", a));
	TT_CHECK(accepted(N, &no_eager));
	TT_REQUIRE(build("dissemination", a));
	for (r = 0; r < N; r++) { /* the last round is missing */
		drop_op(r, 0, 1, 1);
		drop_op(r, 0, 1, 0);
	}
	TT_CHECK(refused(N, &unlimited, "may leave the barrier before"));
	TT_REQUIRE(build("dissemination",
			 a)); /* all in one round: no rank waits for the data that it passes on */
	for (r = 0; r < N; r++) {
		struct tt_builder *b = tt_builder_new(&plans[r]->args, "by hand");

		tt_scratch(b, 3);
		tt_send(b, (r + 1) % N, TT_SCRATCH(0), 1);
		tt_recv(b, (r + 3) % N, TT_SCRATCH(1), 1);
		tt_send(b, (r + 2) % N, TT_SCRATCH(0), 1);
		tt_recv(b, (r + 2) % N, TT_SCRATCH(2), 1);
		tt_plan_free(plans[r]);
		end(b, r);
	}
	TT_CHECK(refused(N, &unlimited, "may leave the barrier before"));
}

static const struct tt_plan_args four = {
	.nranks = N, .count = 4, .elem = ELEM, .chunk = 1 << 20, .lanes = 1};

/* Plans of a whole call of four elements a rank. */
static bool build_whole(enum tt_coll coll, const char *name, int shape, struct tt_plan_args a)
{
	static struct tt_whole w;
	struct tt_plan_args mine;
	int r;

	a.coll = coll;
	tt_whole_init(&w, &a, shape);
	for (r = 0; r < N; r++) {
		tt_plan_args_of(&w.args, r, &mine);
		if (tt_plan_build(tt_alg_find(coll, name), &mine, &plans[r]))
			return false;
	}
	return true;
}

/* Make rank's plan again with one more copy in the end. */
static void append_copy(int rank, struct tt_ref dst, struct tt_ref src, size_t len)
{
	struct tt_plan *old = plans[rank];
	struct tt_builder *b = tt_builder_new(&old->args, old->algo);
	const struct tt_op *ops;
	int r, k, n;

	tt_scratch(b, old->scratch);
	for (r = 0; old->nlanes && r < tt_plan_rounds(old, 0); r++) {
		tt_round(b);
		n = tt_plan_ops(old, 0, r, NULL, &ops);
		for (k = 0; k < n; k++)
			tt_add(b, &ops[k]);
	}
	tt_round(b);
	tt_copy(b, dst, src, len);
	if (tt_plan_finish(b, &plans[rank]))
		abort();
	tt_plan_free(old);
}

static void test_rank_order(void)
{
	struct tt_plan_args a = four;
	int r;

	a.root = 1; /* numbers of a binomial tree begin at the root if the operator commutes */
	TT_REQUIRE(build_whole(TT_COLL_REDUCE, "binomial", 0, a));
	for (r = 0; r < N; r++)
		plans[r]->args.ordered = true;
	TT_CHECK(refused(N, &unlimited, "not combined in the order of ranks"));
	a.ordered = true;
	TT_REQUIRE(build_whole(TT_COLL_REDUCE, "binomial", 0, a));
	TT_CHECK(accepted(N, &unlimited));
	TT_REQUIRE(build_whole(TT_COLL_SCAN, "chain", 0, a));
	op_at(2, 0, 0, 0)->a = TT_SENDBUF(0);
	op_at(2, 0, 0, 0)->b = TT_NET;
	TT_CHECK(refused(N, &unlimited, "not combined in the order of ranks"));
	a.ordered = false;
	TT_REQUIRE(build_whole(TT_COLL_SCAN, "chain", 0, a));
	op_at(2, 0, 0, 0)->a = TT_SENDBUF(0);
	op_at(2, 0, 0, 0)->b = TT_NET;
	TT_CHECK(accepted(N, &unlimited));
}

static void test_untouched(void)
{
	struct tt_plan_args a = four;

	TT_REQUIRE(build_whole(TT_COLL_EXSCAN, "chain", 0, a));
	append_copy(0, TT_RECVBUF(0), TT_SENDBUF(0), ELEM);
	TT_CHECK(refused(N, &unlimited, "rank 0: element 0 of recvbuf is no part of the result"));
	a.in_place = true;
	TT_REQUIRE(build_whole(TT_COLL_EXSCAN, "doubling", 0, a));
	append_copy(0, TT_RECVBUF(ELEM), TT_RECVBUF(0), ELEM);
	TT_CHECK(refused(N, &unlimited, "rank 0: element 1 of recvbuf is no part of the result"));
	a.in_place = false;
	TT_REQUIRE(
		build_whole(TT_COLL_GATHERV, "linear", 2, a)); /* blocks with gaps between them */
	append_copy(0, TT_RECVBUF(0), TT_SENDBUF(0), 0);
	TT_CHECK(accepted(N, &unlimited));
	TT_REQUIRE(build_whole(TT_COLL_ALLGATHERV, "ring", 3, a));
	append_copy(1, TT_RECVBUF(plans[1]->args.rdispls[0] * ELEM - ELEM), TT_SENDBUF(0), ELEM);
	TT_CHECK(refused(N, &unlimited, "is no part of the result"));
	a.in_place = true; /* the root's sendbuf is still the caller's */
	TT_REQUIRE(build_whole(TT_COLL_SCATTER, "linear", 0, a));
	append_copy(0, TT_SENDBUF(0), TT_SENDBUF(4 * ELEM), ELEM);
	TT_CHECK(refused(N, &unlimited, "writes to the caller's sendbuf"));
	TT_REQUIRE(build_whole(TT_COLL_SCATTER, "linear", 0, a));
	append_copy(0, TT_RECVBUF(0), TT_SENDBUF(0), ELEM);
	TT_CHECK(refused(N, &unlimited, "outside of recvbuf"));
}

static void test_wrong_blocks(void)
{
	TT_REQUIRE(build_whole(TT_COLL_ALLTOALL, "pairwise", 0, four));
	op_at(1, 0, 1, 0)->a.off = 0; /* 1 sends 3 the data for 0 */
	TT_CHECK(refused(N, &unlimited, "of rank 1's input"));
	TT_REQUIRE(build_whole(TT_COLL_SCATTER, "linear", 0, four));
	op_at(0, 0, 0, 1)->a.off += ELEM;
	TT_CHECK(refused(N, &unlimited, "of rank 0's input"));
	TT_REQUIRE(build_whole(TT_COLL_GATHER, "linear", 0, four));
	op_at(0, 0, 0, 1)->dst.off = 12 * ELEM;
	op_at(0, 0, 0, 2)->dst.off = 8 * ELEM; /* 2 and 3 are in each other's place */
	TT_CHECK(refused(N, &unlimited, "element 8 of the result is not element 0 of rank 2"));
	TT_REQUIRE(build_whole(TT_COLL_ALLGATHER, "direct", 0, four));
	drop_op(2, 0, 0, 0); /* its own block is not copied */
	TT_CHECK(refused(N, &unlimited, "rank 2: element 8 of the result is never written"));
	TT_REQUIRE(build_whole(TT_COLL_REDUCE_SCATTER_BLOCK, "direct", 0, four));
	op_at(3, 0, 0, 1)->b.off = 0;
	TT_CHECK(refused(N, &unlimited, "exactly once"));
	TT_REQUIRE(build_whole(TT_COLL_REDUCE, "linear", 0, four));
	op_at(0, 0, 1, 0)->a = TT_SENDBUF(0); /* the sum is lost */
	TT_CHECK(refused(N, &unlimited, "exactly once"));
	TT_REQUIRE(build_whole(TT_COLL_ALLTOALLV, "linear", 1, four)); /* gaps are not to be read */
	append_copy(0, TT_RECVBUF(0), TT_SENDBUF(plans[0]->args.sdispls[1] * ELEM - ELEM), ELEM);
	TT_CHECK(refused(N, &unlimited, "is not written before"));
}

static void test_counts_disagree(void)
{
	static const size_t other[N] = {1, 2, 3, 5};

	TT_REQUIRE(build_whole(TT_COLL_GATHERV, "linear", 1, four));
	plans[2]->args.count++;
	TT_CHECK(refused(N, &unlimited, "ranks 2 and 0 disagree on a count"));
	TT_REQUIRE(build_whole(TT_COLL_SCATTERV, "linear", 1, four));
	plans[1]->args.count++;
	TT_CHECK(refused(N, &unlimited, "ranks 0 and 1 disagree on a count"));
	TT_REQUIRE(build_whole(TT_COLL_REDUCE_SCATTER, "ring", 0, four));
	plans[1]->args.rcounts = other;
	TT_CHECK(refused(N, &unlimited, "disagree on a count"));
	TT_REQUIRE(build_whole(TT_COLL_ALLTOALLV, "linear", 0, four));
	plans[1]->args.rcounts = other;
	TT_CHECK(refused(N, &unlimited, "disagree on a count"));
}

static bool bad_args(enum tt_coll coll, const char *name, struct tt_plan_args a, const char *words)
{
	struct tt_plan *plan = NULL;
	int err;

	a.coll = coll;
	err = tt_plan_build(tt_alg_find(coll, name), &a, &plan);
	if (err == -EINVAL && !plan && strstr(tt_fail_text(err), words))
		return true;
	printf("  expected \"%s\", got: %s\n", words, err ? tt_fail_text(err) : "no error");
	return false;
}

static void test_v_args(void)
{
	static const size_t counts[N] = {4, 4, 4, 4}, displs[N] = {0, 4, 8, 12};
	static const size_t huge[N] = {4, SIZE_MAX / 3, 4, 4}, far[N] = {0, 4, SIZE_MAX, 12};
	size_t many[N] = {4, 0, 4, 4};
	struct tt_plan_args a = four;

	a.count = SIZE_MAX / 12;
	TT_CHECK(bad_args(TT_COLL_ALLGATHER, "ring", a, "is too large"));
	a.count = ((size_t)1 << 25) * a.chunk / a.elem;
	TT_CHECK(bad_args(TT_COLL_SCATTERV, "linear", a, "more than 16777216 messages"));
	many[1] = a.count;
	a.count = 4;
	a.rcounts = many;
	TT_CHECK(bad_args(TT_COLL_ALLGATHERV, "ring", a, "block of rank 1"));
	TT_CHECK(bad_args(TT_COLL_ALLGATHERV, "ring", a, "more than 16777216 messages"));
	a.rcounts = NULL;
	TT_CHECK(bad_args(TT_COLL_REDUCE_SCATTER, "ring", a, "needs the counts"));
	TT_CHECK(bad_args(TT_COLL_SCATTERV, "linear", a, "needs the counts"));
	TT_CHECK(bad_args(TT_COLL_ALLTOALLV, "linear", a, "needs the counts"));
	a.rcounts = counts;
	TT_CHECK(bad_args(TT_COLL_GATHERV, "linear", a, "needs the displacements"));
	a.rdispls = displs;
	TT_CHECK(bad_args(TT_COLL_ALLTOALLV, "linear", a, "needs the counts"));
	a.count = 5;
	TT_CHECK(bad_args(TT_COLL_GATHERV, "linear", a, "own count is 5"));
	a.rcounts = huge;
	TT_CHECK(bad_args(TT_COLL_ALLGATHERV, "ring", a, "block of rank 1"));
	a.rcounts = counts;
	a.rdispls = far;
	TT_CHECK(bad_args(TT_COLL_GATHERV, "linear", a, "block of rank 2"));
	a.divide = true;
	TT_CHECK(bad_args(TT_COLL_SCAN, "chain", a, "no average"));
}

/* ---- in the memory of a host ---- */

enum node_fault {
	RIGHT,
	NOT_PUBLISHED,
	NOT_WAITED,
	RETURNS,
	TWICE,
	OLD_STEP,
	NO_STEP,
	TO_ITSELF,
	TO_SLOT,
	TOO_LONG,
	NODE_FAULTS
};

/* A broadcast of two: rank 1 publishes its buffer, rank 0 stores there and signals. */
static void store(enum node_fault fault)
{
	struct tt_plan_args a = bcast_args;
	struct tt_ref to = fault == TO_SLOT ? TT_SLOT(0) : TT_RECVBUF(fault == TOO_LONG ? ELEM : 0);
	struct tt_builder *b;
	int peer = fault != TO_ITSELF;

	a.nranks = 2;
	b = begin(a, 0);
	if (fault != NOT_WAITED)
		tt_wait(b, 1, 1);
	tt_push(b, peer, to, TT_RECVBUF(0), 6 * ELEM);
	if (fault == TWICE)
		tt_push(b, peer, to, TT_RECVBUF(0), ELEM);
	tt_signal(b, 1, TT_NONE, TT_NONE);
	if (fault == OLD_STEP)
		tt_signal(b, 1, TT_NONE, TT_NONE);
	end(b, 0);
	b = begin(a, 1);
	tt_signal(b, 1, TT_NONE, fault == NOT_PUBLISHED ? TT_NONE : TT_RECVBUF(0));
	if (fault != RETURNS)
		tt_wait(b, 0, fault == NO_STEP ? 2 : 1);
	end(b, 1);
}

static void test_node(void)
{
	static const char *const words[NODE_FAULTS] = {
		[NOT_PUBLISHED] = "has not published recvbuf by then",
		[NOT_WAITED] = "has not published recvbuf by then",
		[RETURNS] = "may have returned",
		[TWICE] = "may run together",
		[OLD_STEP] = "not a new step",
		[NO_STEP] = "never reached",
		[TO_ITSELF] = "not what can be pushed",
		[TO_SLOT] = "slot is not to be touched",
		[TOO_LONG] = "are not elements of recvbuf",
	};
	int fault;

	store(RIGHT);
	TT_CHECK(accepted(2, &unlimited));
	for (fault = RIGHT + 1; fault < NODE_FAULTS; fault++) {
		store((enum node_fault)fault);
		TT_CHECK(refused(2, &unlimited, words[fault]));
	}
}

enum release_fault {
	RELEASES,
	NOT_LAST,
	MORE_LANES,
	HAS_RESULT,
	TWO_INPUTS,
	NO_INPUT,
	OF_ONE,
	RELEASE_FAULTS
};

/*
 * A broadcast of three: the others copy out of rank 0's buffer and signal, which rank 0 need not
 * wait for if that is a copy.
 */
static void release(enum release_fault fault)
{
	struct tt_ref result = fault == HAS_RESULT ? TT_RECVBUF(0) : TT_NONE;
	struct tt_plan_args a = bcast_args;
	struct tt_builder *b;
	int r;

	a.nranks = 3;
	a.lanes = 2;
	b = begin(a, 0);
	if (fault == TWO_INPUTS)
		tt_signal(b, 1, TT_RECVBUF(0), TT_NONE);
	tt_signal(b, 2, fault == NO_INPUT ? TT_NONE : TT_RECVBUF(0), result);
	tt_wait_release(b, fault == OF_ONE ? 1 : TT_ALL_RANKS, 2);
	if (fault == NOT_LAST)
		tt_signal(b, 3, TT_NONE, TT_NONE);
	if (fault == MORE_LANES) {
		tt_lane(b, 1);
		tt_wait(b, TT_ALL_RANKS, 2);
	}
	end(b, 0);
	for (r = 1; r < 3; r++) {
		b = begin(a, r);
		tt_wait(b, 0, 2);
		tt_pull_copy(b, 0, TT_RECVBUF(0), TT_SENDBUF(0), 6 * ELEM);
		tt_signal(b, 2, TT_NONE, TT_NONE);
		end(b, r);
	}
}

static void test_release(void)
{
	static const char *const words[RELEASE_FAULTS] = {
		[NOT_LAST] = "only the last op of a rank may be a release",
		[MORE_LANES] = "only the last op of a rank may be a release",
		[HAS_RESULT] = "peers may still store to the result of rank 0",
		[TWO_INPUTS] = "releases one input, but rank 0 has published 2",
		[NO_INPUT] = "releases one input, but rank 0 has published 0",
		[OF_ONE] = "may have returned",
	};
	int fault;

	release(RELEASES);
	TT_CHECK(accepted(3, &unlimited));
	for (fault = RELEASES + 1; fault < RELEASE_FAULTS; fault++) {
		release((enum release_fault)fault);
		TT_CHECK(refused(3, &unlimited, words[fault]));
	}
}

/* Through the front door. */
static void test_check_alg(void)
{
	TT_CHECK(!tt_plan_check(tt_alg_find(TT_COLL_ALLREDUCE, "ring"), &ring_args, &unlimited));
	TT_CHECK(!tt_plan_check(tt_alg_find(TT_COLL_BCAST, "chain"), &bcast_args, NULL));
	TT_CHECK(tt_plan_check(tt_alg_find(TT_COLL_ALLREDUCE, "single"), &ring_args, NULL) ==
		 -EINVAL);
}

static const struct tt_test tests[] = {{"operand_order", test_operand_order},
				       {"dropped_ops", test_dropped_ops},
				       {"messages", test_messages},
				       {"values", test_values},
				       {"wrong_root", test_wrong_root},
				       {"hazards", test_hazards},
				       {"bounds", test_bounds},
				       {"uninitialised", test_uninitialised},
				       {"deadlock", test_deadlock},
				       {"barrier", test_barrier},
				       {"rank_order", test_rank_order},
				       {"untouched", test_untouched},
				       {"wrong_blocks", test_wrong_blocks},
				       {"counts_disagree", test_counts_disagree},
				       {"v_args", test_v_args},
				       {"node", test_node},
				       {"release", test_release},
				       {"check_alg", test_check_alg},
				       {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("check", tests, argc, argv);
}
