/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gather and scatter of short blocks in two levels: the rank at the root's place on each host
 * sends or receives the blocks of its host as one message. Long blocks use the flat algorithms:
 * two levels would not save any bytes.
 *
 *	gather	host 0	0 <───────────────┐ 2+3		scatter	host 0	0 ───────────────┐ 2+3
 *			1 ─ slot ─┘ 0	  │				1 <─ 0 stores	 │
 *		host 1  2 <─ slot of 3 ───┘                     host 1  2 <──────────────┘
 *								(2 stores 3's)
 *
 * Cost, blocks of B bytes: H - 1 messages of m B received or sent by the root; in the gather the
 * other ranks copy their block into their slot and are done, in the scatter they publish their
 * recvbuf and wait.
 */
#include "lib/coll/coll.h"
#include "lib/coll/hier/hier.h"

struct work {
	struct tt_builder *b;
	const struct tt_plan_args *a;
	int place; /* the root's */
	size_t len;
};

bool tt_can_gather_hier(const struct tt_plan_args *a)
{
	return a->hosts && a->count * a->elem <= tt_slot_bytes(a);
}

static struct work work_of(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);

	return (struct work){b, a, a->hosts->local[a->root], a->count * a->elem};
}

/* A host's blocks are contiguous in the root's buffer, or gathered in scratch. */
static struct tt_ref blocks_of(const struct work *w, int host, struct tt_ref buf, size_t scratch)
{
	if (!w->a->hosts->in_order)
		return TT_SCRATCH(scratch + (size_t)(host * w->a->hosts->places) * w->len);
	return (struct tt_ref){buf.buf, (size_t)tt_hier_own(w->a, host, 0) * w->len};
}

/* Between scratch and the root's buffer. */
static void rearrange(const struct work *w, struct tt_ref buf, size_t scratch, bool gather)
{
	const struct tt_hosts *h = w->a->hosts;
	struct tt_ref block, piece;
	int host, i;

	for (host = 0; host < h->hosts && !h->in_order; host++)
		for (i = 0; host != tt_hier_host(w->a) && i < h->size[host]; i++) {
			piece = blocks_of(w, host, buf, scratch);
			piece.off += (size_t)i * w->len;
			block = (struct tt_ref){buf.buf,
						(size_t)tt_hier_own(w->a, host, i) * w->len};
			tt_copy(w->b, gather ? block : piece, gather ? piece : block, w->len);
		}
	tt_round(w->b);
}

/* The root's messages, all at once. */
static void root_messages(const struct work *w, struct tt_ref buf, bool gather)
{
	const struct tt_hosts *h = w->a->hosts;
	size_t scratch =
		       h->in_order ? 0 : tt_scratch(w->b, (size_t)(h->hosts * h->places) * w->len),
	       len;
	struct tt_ref ref;
	int host, peer;

	if (!gather)
		rearrange(w, buf, scratch, gather);
	for (host = 0; host < h->hosts; host++) {
		ref = blocks_of(w, host, buf, scratch);
		len = (size_t)h->size[host] * w->len;
		peer = tt_hier_rank(w->a, host, w->place);
		if (host == tt_hier_host(w->a))
			continue;
		if (gather)
			tt_recv_long(w->b, peer, ref, len);
		else
			tt_send_long(w->b, peer, ref, len);
	}
	tt_round(w->b);
	if (gather)
		rearrange(w, buf, scratch, gather);
}

/*
 * Copies the blocks of this host's ranks from their slots to scratch, or to their places in the
 * root's recvbuf.
 */
static void collect(const struct work *w, size_t to)
{
	bool root = w->a->rank == w->a->root;
	struct tt_ref dst;
	int i, near;

	for (i = 0; i < tt_hier_size(w->a); i++) {
		near = tt_hier_near(w->a, i);
		dst = root ? TT_RECVBUF((size_t)near * w->len)
			   : TT_SCRATCH(to + (size_t)i * w->len);
		if (near != w->a->rank)
			tt_pull_copy(w->b, near, dst, TT_SLOT(0), w->len);
		else if (!root || !w->a->in_place)
			tt_copy(w->b, dst, tt_input(w->a), w->len);
	}
	tt_round(w->b);
}

void tt_gather_hier_leader(struct tt_builder *b)
{
	struct work w = work_of(b);
	const struct tt_plan_args *a = w.a;
	size_t to, len = (size_t)tt_hier_size(a) * w.len;

	if (!w.len)
		return;
	if (a->rank != tt_hier_near(a, w.place)) {
		tt_copy(b, TT_SLOT(0), tt_input(a), w.len);
		tt_signal(b, 1, TT_NONE, TT_NONE);
		return;
	}
	tt_meet(b, 1, TT_NONE, TT_NONE);
	to = a->rank == a->root ? 0 : tt_scratch(b, len);
	collect(&w, to);
	if (a->rank == a->root)
		root_messages(&w, TT_RECVBUF(0), true);
	else
		tt_send_long(b, a->root, TT_SCRATCH(to), len);
}

/* Stores the received blocks, or the root's, at the other ranks of this host. */
static void store(const struct work *w, size_t from)
{
	const struct tt_plan_args *a = w->a;
	bool root = a->rank == a->root;
	struct tt_ref block;
	int i, near;

	tt_wait(w->b, TT_ALL_RANKS, 1);
	for (i = 0; i < tt_hier_size(a); i++) {
		near = tt_hier_near(a, i);
		block = root ? TT_SENDBUF((size_t)near * w->len)
			     : TT_SCRATCH(from + (size_t)i * w->len);
		if (near != a->rank)
			tt_push(w->b, near, TT_RECVBUF(0), block, w->len);
		else if (!root || !a->in_place)
			tt_copy(w->b, TT_RECVBUF(0), block, w->len);
	}
	tt_signal(w->b, 2, TT_NONE, TT_NONE);
}

void tt_scatter_hier_leader(struct tt_builder *b)
{
	struct work w = work_of(b);
	const struct tt_plan_args *a = w.a;
	int lead = tt_hier_near(a, w.place);
	size_t from = 0;

	if (!w.len)
		return;
	if (a->rank != lead) {
		tt_signal(b, 1, TT_NONE, TT_RECVBUF(0));
		tt_wait(b, lead, 2);
		return;
	}
	tt_signal(b, 1, TT_NONE, TT_NONE);
	if (a->rank == a->root) {
		root_messages(&w, TT_SENDBUF(0), false);
	} else {
		from = tt_scratch(b, (size_t)tt_hier_size(a) * w.len);
		tt_recv_long(b, a->root, TT_SCRATCH(from), (size_t)tt_hier_size(a) * w.len);
	}
	store(&w, from);
}
