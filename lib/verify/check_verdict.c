/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checker's verdict: whether every rank's recvbuf holds the result of the collective, and
 * whether the rest of recvbuf is unchanged.
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/verify/check_int.h"

/* A part of a rank's recvbuf: one rank's input, or the combination of several ranks' inputs. */
struct want {
	struct tt_span at; /* bytes of recvbuf */
	size_t from;	   /* byte of the input it begins with */
	int rank;	   /* whose input; -1: all ranks', or all up to this one's of a scan */
};

/* State of the verdict from rank to rank. */
struct verdict {
	const struct tt_checker *c;
	uint64_t *sum; /* of the ranks' inputs that belong into the result, by element */
	int hi;	       /* the ranks below */
	bool *judged;  /* elements of this rank's recvbuf */
};

/* How many parts the result of a rank has. */
static int num_wants(const struct tt_plan_args *a)
{
	bool root = a->rank == a->root;

	switch (a->coll) {
	case TT_COLL_BARRIER:
		return 0;
	case TT_COLL_REDUCE:
		return root;
	case TT_COLL_GATHER:
	case TT_COLL_GATHERV:
		return root ? a->nranks : 0;
	case TT_COLL_SCATTER:
	case TT_COLL_SCATTERV:
		return !a->in_place;
	case TT_COLL_ALLGATHER:
	case TT_COLL_ALLGATHERV:
	case TT_COLL_ALLTOALL:
	case TT_COLL_ALLTOALLV:
		return a->nranks;
	case TT_COLL_NEIGHBOR_ALLGATHER:
	case TT_COLL_NEIGHBOR_ALLTOALL:
		return tt_edges_in(a->edges, a->rank);
	case TT_COLL_EXSCAN:
		return a->rank > 0;
	default:
		return 1;
	}
}

static struct want want_at(const struct tt_checker *c, int rank, int i)
{
	const struct tt_plan_args *a = &c->plans[rank]->args;
	struct want w = {.at = {0, a->count * a->elem}, .rank = -1};

	switch (a->coll) {
	case TT_COLL_BCAST:
		w.rank = a->root;
		break;
	case TT_COLL_REDUCE_SCATTER_BLOCK:
	case TT_COLL_REDUCE_SCATTER:
		w.at.len = tt_send_block(a, rank).len;
		w.from = tt_send_block(a, rank).off;
		break;
	case TT_COLL_SCATTER:
	case TT_COLL_SCATTERV:
		w.rank = a->root;
		w.from = tt_send_block(&c->plans[a->root]->args, rank).off;
		break;
	case TT_COLL_ALLTOALL:
	case TT_COLL_ALLTOALLV:
		w.from = tt_send_block(&c->plans[i]->args, rank).off; /* fall through */
	case TT_COLL_ALLGATHER:
	case TT_COLL_ALLGATHERV:
	case TT_COLL_GATHER:
	case TT_COLL_GATHERV:
		w.at = tt_recv_block(a, i);
		w.rank = i;
		break;
	case TT_COLL_NEIGHBOR_ALLTOALL:
	case TT_COLL_NEIGHBOR_ALLGATHER:
		w.rank = a->edges->in[a->edges->in_at[rank] + (size_t)i];
		w.at.off = (size_t)i * w.at.len;
		if (a->coll == TT_COLL_NEIGHBOR_ALLTOALL)
			w.from = (size_t)tt_ck_out_index(c, w.rank, rank) * w.at.len;
		break;
	default:
		break;
	}
	return w;
}

/* The sum of what all ranks keep of an element for later calls, beyond what they had. */
static uint64_t kept(const struct tt_checker *c, size_t e)
{
	uint64_t sum = 0;
	int r;

	for (r = 0; r < c->n; r++)
		if (tt_ck_buf(c, r, TT_BUF_RESIDUAL)->n)
			sum += tt_ck_buf(c, r, TT_BUF_RESIDUAL)->val[e].sum -
			       tt_ck_residual(r, e).sum;
	return sum;
}

/* A combination: each contribution once, divided as told, in an order that is right. */
static int judge_reduced(const struct verdict *v, int rank, size_t e, size_t from,
			 const struct ck_val *val)
{
	const struct tt_checker *c = v->c;
	/* Dividing by one rank changes nothing, so it may be left out. */
	uint32_t divided = c->args.divide && (c->n > 1 || c->args.codec);
	uint32_t quantized = !c->args.codec ? 0 : c->n > 1 && !c->args.codec->varies ? 2 : 1;

	if (val->coded || val->quantized != quantized)
		return tt_fail(-EINVAL,
			       "rank %d: element %zu of the result is quantized %u times, not %u",
			       rank, e, val->quantized, quantized);
	if (val->sum + kept(c, e) != v->sum[from])
		return tt_fail(-EINVAL,
			       "rank %d: element %zu of the result does not contain every "
			       "rank's contribution exactly once",
			       rank, e);
	if (val->divided != divided)
		return tt_fail(-EINVAL, "rank %d: element %zu of the result is divided %s", rank, e,
			       val->divided ? "too often or too early" : "never");
	if (c->args.ordered && (val->lo != 0 || val->hi != v->hi))
		return tt_fail(-EINVAL,
			       "rank %d: element %zu of the result is not combined in the order "
			       "of ranks",
			       rank, e);
	if (c->args.coll == TT_COLL_ALLREDUCE &&
	    val->tree != tt_ck_buf(c, 0, TT_BUF_RECV)->val[e].tree)
		return tt_fail(-EINVAL,
			       "rank %d: element %zu of the result is combined in another order "
			       "than on rank 0",
			       rank, e);
	return 0;
}

/* A weighted sum of neighbours. */
static int judge_weighed(const struct verdict *v, int rank, size_t e, const struct ck_val *val)
{
	if (val->sum == tt_ck_weighed_sum(v->c, rank, e))
		return 0;
	return tt_fail(-EINVAL,
		       "rank %d: element %zu of the result does not contain every neighbour's "
		       "contribution exactly once with its weight",
		       rank, e);
}

static int judge(struct verdict *v, int rank, const struct want *w)
{
	size_t elem = v->c->args.elem, e = w->at.off / elem, from = w->from / elem, i;
	const struct ck_val *val = tt_ck_buf(v->c, rank, TT_BUF_RECV)->val;
	int err = 0;

	for (i = 0; !err && i < w->at.len / elem; i++, e++, from++) {
		v->judged[e] = true;
		if (!val[e].set)
			err = tt_fail(-EINVAL,
				      "rank %d: element %zu of the result is never written", rank,
				      e);
		else if (v->c->args.coll == TT_COLL_NEIGHBOR_ALLREDUCE ||
			 v->c->args.coll == TT_COLL_NEIGHBOR_HIER_ALLREDUCE)
			err = judge_weighed(v, rank, e, &val[e]);
		else if (w->rank < 0)
			err = judge_reduced(v, rank, e, from, &val[e]);
		else if (val[e].tree != tt_ck_input(w->rank, from).tree)
			err = tt_fail(-EINVAL,
				      "rank %d: element %zu of the result is not element %zu of "
				      "rank %d's input",
				      rank, e, from, w->rank);
	}
	return err;
}

/*
 * Bytes of recvbuf that are no result are the caller's, but for the rest of a reduce-scatter's in
 * place.
 */
static int judge_rest(struct verdict *v, int rank)
{
	const struct tt_plan_args *a = &v->c->plans[rank]->args;
	const struct ck_buf *b = tt_ck_buf(v->c, rank, TT_BUF_RECV);
	bool spoils = a->in_place && (a->coll == TT_COLL_REDUCE_SCATTER ||
				      a->coll == TT_COLL_REDUCE_SCATTER_BLOCK);
	size_t e;

	for (e = 0; e < b->n; e++) {
		if (!v->judged[e] && b->val[e].written && !spoils)
			return tt_fail(-EINVAL,
				       "rank %d: element %zu of recvbuf is no part of the result, "
				       "but written to",
				       rank, e);
		v->judged[e] = false;
	}
	return 0;
}

/* The inputs of one more rank belong into the results that follow. */
static void add_rank(struct verdict *v, size_t n)
{
	size_t e;

	for (e = 0; e < n; e++)
		v->sum[e] += tt_ck_input(v->hi, e).sum;
	v->hi++;
}

static int judge_all(struct verdict *v, size_t inputs)
{
	const struct tt_checker *c = v->c;
	bool scan = c->args.coll == TT_COLL_SCAN || c->args.coll == TT_COLL_EXSCAN;
	struct want w;
	int r, i, upto, err = 0;

	for (r = 0; !err && r < c->n; r++) {
		upto = scan ? r + (c->args.coll == TT_COLL_SCAN) : c->n;
		while (tt_coll_reduces(c->args.coll) && v->hi < upto)
			add_rank(v, inputs);
		for (i = 0; !err && i < num_wants(&c->plans[r]->args); i++) {
			w = want_at(c, r, i);
			err = judge(v, r, &w);
		}
		if (!err)
			err = judge_rest(v, r);
	}
	return err;
}

static int barrier_verdict(const struct tt_checker *c)
{
	uint64_t seen;
	int rank, other, l;

	for (rank = 0; rank < c->n; rank++)
		for (other = 0; other < c->n; other++) {
			seen = other == rank;
			for (l = c->rank_lanes[rank]; l < c->rank_lanes[rank + 1]; l++)
				seen |= c->known[(size_t)l * c->words + (size_t)other / 64] >>
						other % 64 &
					1;
			if (!seen)
				return tt_fail(-EINVAL,
					       "rank %d may leave the barrier before rank %d "
					       "has entered it",
					       rank, other);
		}
	return 0;
}

int tt_ck_verdict(const struct tt_checker *c)
{
	struct verdict v = {.c = c};
	size_t inputs = tt_send_bytes(&c->args) / c->args.elem, most = 0;
	int r, err = -ENOMEM;

	if (c->args.coll == TT_COLL_BARRIER)
		return barrier_verdict(c);
	for (r = 0; r < c->n; r++) {
		size_t n = tt_ck_buf(c, r, TT_BUF_RECV)->n;

		most = n > most ? n : most;
	}
	v.sum = calloc(inputs + 1, sizeof(*v.sum));
	v.judged = calloc(most + 1, sizeof(*v.judged));
	if (v.sum && v.judged)
		err = judge_all(&v, inputs);
	free(v.sum);
	free(v.judged);
	return err;
}
