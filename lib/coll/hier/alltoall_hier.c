/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-to-all in two levels, H hosts with m ranks each: the blocks of all ranks of a host for one
 * rank of another host travel as one message.
 *
 *	host 0  0: 0->2 ─┐                      the rank at place j collects, from all inputs of
 *		1: 1->2 ─┴ 0: 0->2 1->2 ──> 2   its host, the blocks for the ranks at place j of
 *						the other hosts, and sends them there
 *
 * Blocks for ranks of the same host are read in place. An in-place call overwrites its inputs with
 * arriving blocks, so it receives nothing before all ranks of the host have read their blocks.
 *
 *	Cost, blocks of B bytes: n B read, (H-1) m B sent in H - 1 messages, two waits for the
 *	ranks of the host; where the ranks of a host do not follow one another, what arrives is
 *	copied to its places.
 */
#include "lib/coll/coll.h"
#include "lib/coll/hier/hier.h"

#define ALLTOALL_HIER_MOST                                                                         \
	((size_t)4                                                                                 \
	 << 20) /* of scratch; longer blocks have messages of their own that are long enough */

struct work {
	struct tt_builder *b;
	const struct tt_plan_args *a;
	size_t len, out, in; /* a block; scratch for the blocks sent, and for those that arrive */
};

bool tt_can_alltoall_hier(const struct tt_plan_args *a)
{
	return a->hosts && a->count * a->elem * (size_t)a->nranks <= ALLTOALL_HIER_MOST;
}

/* Collects the host's blocks for a rank in scratch, one after the other, from `to` on. */
static void collect(const struct work *w, int rank, size_t to)
{
	struct tt_ref block = TT_SENDBUF((size_t)rank * w->len);
	int i, near;

	for (i = 0; i < tt_hier_size(w->a); i++, to += w->len) {
		near = tt_hier_near(w->a, i);
		if (near == w->a->rank)
			tt_copy(w->b, TT_SCRATCH(to), block, w->len);
		else
			tt_pull_copy(w->b, near, TT_SCRATCH(to), block, w->len);
	}
}

/*
 * This rank's blocks from its own host. In place their destination is still input for other ranks,
 * so they go through scratch.
 */
static void collect_near(const struct work *w)
{
	struct tt_ref own = TT_SENDBUF((size_t)w->a->rank * w->len), dst;
	int i, near;

	if (w->a->in_place) {
		collect(w, w->a->rank, w->in);
		return;
	}
	for (i = 0; i < tt_hier_size(w->a); i++) {
		near = tt_hier_near(w->a, i);
		dst = TT_RECVBUF((size_t)near * w->len);
		if (near == w->a->rank)
			tt_copy(w->b, dst, own, w->len);
		else
			tt_pull_copy(w->b, near, dst, own, w->len);
	}
}

/* The blocks of a host's ranks, out of scratch. */
static void spread(const struct work *w, int host, size_t from)
{
	int i;

	for (i = 0; i < w->a->hosts->size[host]; i++, from += w->len)
		tt_copy(w->b, TT_RECVBUF((size_t)tt_hier_rank(w->a, host, i) * w->len),
			TT_SCRATCH(from), w->len);
}

/* Sends to the ranks at this rank's places on a host. Returns the end of the blocks sent. */
static size_t each_of(const struct work *w, int host, size_t from, bool send)
{
	size_t part = (size_t)tt_hier_size(w->a) * w->len;
	int place, rank;

	for (place = tt_hier_place(w->a); place < w->a->hosts->size[host];
	     place = tt_hier_next_place(w->a, place), from += part) {
		rank = tt_hier_own(w->a, host, place);
		if (send)
			tt_send_long(w->b, rank, TT_SCRATCH(from), part);
		else
			collect(w, rank, from);
	}
	return from;
}

static void across(const struct work *w, int host)
{
	const struct tt_plan_args *a = w->a;
	int hosts = a->hosts->hosts, k, from;
	size_t out = w->out;

	for (k = 1; k < hosts; k++) {
		out = each_of(w, (host + k) % hosts, out, true);
		from = (host - k + hosts) % hosts;
		tt_recv_long(w->b, tt_hier_rank(a, from, tt_hier_place(a)),
			     a->hosts->in_order
				     ? TT_RECVBUF((size_t)tt_hier_own(a, from, 0) * w->len)
				     : TT_SCRATCH(w->in + (size_t)a->nranks * w->len * (size_t)k),
			     (size_t)a->hosts->size[from] * w->len);
		tt_round(w->b);
	}
	for (k = 1; k < hosts && !a->hosts->in_order; k++) {
		from = (host - k + hosts) % hosts;
		spread(w, from, w->in + (size_t)a->nranks * w->len * (size_t)k);
	}
}

void tt_alltoall_hier(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct work w = {.b = b, .a = a, .len = a->count * a->elem};
	int host = tt_hier_host(a), hosts = a->hosts->hosts, k;
	size_t out;

	if (!w.len)
		return;
	tt_meet(b, 1, TT_SENDBUF(0), TT_NONE);
	w.in = tt_scratch(b, (size_t)a->nranks * w.len * (a->hosts->in_order ? 1 : (size_t)hosts));
	w.out = out = tt_scratch(b, 0);
	collect_near(&w);
	for (k = 1; k < hosts; k++)
		out = each_of(&w, (host + k) % hosts, out, false);
	tt_scratch(b, out - w.out);
	tt_signal(b, 2, TT_NONE, TT_NONE);
	if (a->in_place) {
		tt_wait(b, TT_ALL_RANKS, 2);
		spread(&w, host, w.in);
	}
	across(&w, host);
	if (!a->in_place)
		tt_wait(b, TT_ALL_RANKS, 2);
}
