/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce of neighbours in two levels: the ranks of a host act as one rank of a graph of hosts.
 *
 * The vector has a part for each place of a host. A host with fewer ranks than the largest assigns
 * its ranks to places in turn, so that the ranks at a place pair up across hosts. Of part p, on
 * host h with ranks 0, 1, 2 of which 1 is at place p:
 *
 *	1. to the place	 0 ──x──> 1 <──x── 2	m = (x_0 + x_1 + x_2) / 3
 *	2. across hosts	 1 ──m──> the rank at this place of each out-neighbour of h
 *			 y = w_hh m + w_hj m_j + ...
 *	3. back		 0 <──y── 1 ──y──> 2
 *
 * A slice of all parts takes these rounds together; slices are in lanes, as in neighbors.c. The
 * result of a slice is written after its input has been sent, so it may replace the input. Messages
 * carry everything: the ranks of a host need not share memory.
 *
 * Cost, N bytes, H hosts of m ranks: N (m-1)/m sent within the host to the places, and back;
 * out-degree x N/m sent across by each rank, so out-degree x N by each host.
 */
#include "lib/coll/p2p/neighbors.h"

struct level {
	struct tt_builder *b;
	const struct tt_plan_args *a;
	const struct tt_hosts *h;
	int host, size, local; /* this rank's */
	int in, out;	       /* hosts */
	size_t slices, slice;
	size_t stride; /* bytes of the longest slice */
	size_t lane;   /* where its scratch begins: for each place the mean, then the slots */
	size_t slots;  /* of a place: for the other ranks, then for the in-neighbours */
};

static struct tt_span part(const struct level *l, int place)
{
	return tt_pieces(tt_node_part_of(l->a, l->h->places, place), l->a->elem, l->slices,
			 l->slice, 1);
}

static int rank_at(const struct level *l, int host, int place)
{
	return l->h->rank[host * l->h->places + place];
}

static bool own(const struct level *l, int place)
{
	return place % l->size == l->local;
}

static size_t mean_at(const struct level *l, int place)
{
	return l->lane + (size_t)(place / l->size) * (1 + l->slots) * l->stride;
}

static size_t slot_at(const struct level *l, int place, int i)
{
	return mean_at(l, place) + (size_t)(1 + i) * l->stride;
}

/* A rank that is alone has the mean in its input. */
static struct tt_ref mean_of(const struct level *l, int place)
{
	return l->size > 1 ? TT_SCRATCH(mean_at(l, place)) : TT_SENDBUF(part(l, place).off);
}

static void weigh(const struct level *l, int place, struct tt_ref dst, struct tt_ref own,
		  int others, unsigned flags)
{
	tt_add(l->b, &(struct tt_op){.kind = TT_OP_WEIGH,
				     .flags = flags,
				     .peer = others,
				     .index = (uint32_t)(l->stride / l->a->elem),
				     .dst = dst,
				     .a = own,
				     .b = others ? TT_SCRATCH(slot_at(l, place, 0)) : TT_NONE,
				     .len = part(l, place).len});
}

/* Step 1. */
static void average(const struct level *l)
{
	struct tt_span at;
	int i, slot, place;

	for (place = 0; place < l->h->places; place++) {
		at = part(l, place);
		if (!own(l, place))
			tt_send(l->b, rank_at(l, l->host, place), TT_SENDBUF(at.off), at.len);
		for (i = slot = 0; i < l->size && own(l, place); i++)
			if (i != l->local)
				tt_recv(l->b, rank_at(l, l->host, i),
					TT_SCRATCH(slot_at(l, place, slot++)), at.len);
	}
	tt_round(l->b);
	for (place = l->local; place < l->h->places && l->size > 1; place += l->size)
		weigh(l, place, mean_of(l, place), TT_SENDBUF(part(l, place).off), l->size - 1,
		      TT_OPF_HOST);
}

/* Step 2, of one place: the messages. */
static void exchange(const struct level *l, int place)
{
	const struct tt_edges *e = l->a->edges;
	size_t len = part(l, place).len;
	int i;

	for (i = 0; i < l->out; i++)
		tt_send(l->b, rank_at(l, e->out[e->out_at[l->host] + (size_t)i], place),
			mean_of(l, place), len);
	for (i = 0; i < l->in; i++)
		tt_recv(l->b, rank_at(l, e->in[e->in_at[l->host] + (size_t)i], place),
			TT_SCRATCH(slot_at(l, place, i)), len);
}

/* Step 3. */
static void give_back(const struct level *l)
{
	struct tt_span at;
	int place, i;

	for (place = 0; place < l->h->places; place++) {
		at = part(l, place);
		for (i = 0; i < l->size && own(l, place); i++)
			if (i != l->local)
				tt_send(l->b, rank_at(l, l->host, i), TT_RECVBUF(at.off), at.len);
		if (!own(l, place))
			tt_recv(l->b, rank_at(l, l->host, place), TT_RECVBUF(at.off), at.len);
	}
}

static void add_slice(const struct level *l)
{
	int place;

	tt_round(l->b);
	average(l);
	tt_round(l->b);
	for (place = l->local; place < l->h->places; place += l->size)
		exchange(l, place);
	tt_round(l->b);
	for (place = l->local; place < l->h->places; place += l->size)
		weigh(l, place, TT_RECVBUF(part(l, place).off), mean_of(l, place), l->in, 0);
	tt_round(l->b);
	give_back(l);
}

/* The longest slice of any part, as all parts are cut in as many; the first of a part is it. */
static size_t longest(struct level *l)
{
	size_t most = 0;
	int place;

	l->slice = 0;
	for (place = 0; place < l->h->places; place++)
		most = part(l, place).len > most ? part(l, place).len : most;
	return most;
}

/* So that the slots of the rank with the most of them fit. */
static size_t longest_slice(const struct tt_plan_args *a)
{
	size_t places = (size_t)((a->hosts->places + a->hosts->least - 1) / a->hosts->least);

	return tt_neighbor_slice(a, a->hosts->places - 1, places);
}

void tt_neighbor_hier_allreduce(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	const struct tt_hosts *h = a->hosts;
	struct level l = {.b = b, .a = a, .h = h, .host = h->host[a->rank], .slices = 1};
	size_t lanes, bytes, base;

	l.size = h->size[l.host];
	l.local = h->local[a->rank];
	l.in = tt_edges_in(a->edges, l.host);
	l.out = tt_edges_out(a->edges, l.host);
	l.slots = (size_t)(l.in > l.size - 1 ? l.in : l.size - 1);
	l.slices = tt_num_pieces(longest(&l), a->elem, longest_slice(a));
	if (!l.slices)
		return;
	l.stride = longest(&l);
	lanes = (size_t)tt_num_lanes(a, l.slices);
	bytes = (size_t)((h->places - l.local + l.size - 1) / l.size) * (1 + l.slots) * l.stride;
	base = tt_scratch(b, lanes * bytes);
	for (; l.slice < l.slices; l.slice++) {
		tt_lane(b, (int)(l.slice % lanes));
		l.lane = base + l.slice % lanes * bytes;
		add_slice(&l);
	}
}
