/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pulling: reductions and copies straight out of peers' memory.
 *
 * Mapped memory is an operand of the kernel directly. Ordinary memory is read with
 * process_vm_readv, in pieces that stay in the cache until the kernel has used them; results are
 * written with process_vm_writev.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/copy.h"
#include "lib/node/node_internal.h"

#define TMP_BYTES ((size_t)512 << 10) /* of all pieces: much of a second-level cache */
#define PIECE_MIN ((size_t)16 << 10)
#define BACK_PIECE ((size_t)32 << 10) /* handed back while it is in a near cache */
#define PIECE_MAX ((size_t)128 << 10) /* longer pieces cost more misses than calls */

/* A part of a rank's buffer: mapped, or ordinary memory of a peer. */
struct part {
	int rank;
	char *ptr;
	uint64_t addr; /* with ptr NULL */
	struct node_peer *peer;
	unsigned measure; /* 0: none */
	bool back;	  /* to be handed back: no other rank reads it */
};

struct pull {
	struct tt_node_group *g;
	const struct tt_node_reduce *r;
	struct part src[TT_NODE_RANKS], dst[TT_NODE_RANKS];
	int nsrc, ndst, plain_src, plain_dst;
	bool back;   /* a source */
	char *place; /* of this rank's result, where the only plain source is read to; or NULL */
	struct tt_node_count *count;
	int *gone;
};

/* r: the reduction it is for, if rings are possible */
static int look(struct tt_node_group *g, uint64_t turn, int rank, struct tt_node_ref ref,
		size_t len, const struct tt_node_reduce *r, struct part *part)
{
	struct node_rank *nr = &g->area->rank[rank];
	struct node_buf buf;

	*part = (struct part){.rank = rank, .peer = g->peer[rank]};
	if (ref.which == TT_NODE_SLOTS) {
		part->ptr = nr->slot[turn % 2].data + ref.off;
		part->back = g->size == 2 && rank != g->rank && len >= TT_NODE_BACK_LEAST;
		return 0;
	}
	if (rank == g->rank) {
		part->ptr = g->own[turn % 2][ref.which] + ref.off;
		return 0;
	}
	buf = nr->buf[turn % 2][ref.which]; /* a copy, which the peer cannot change */
	part->measure = buf.kind == NODE_POOL ? 0 : buf.slab;
	part->back = (buf.ring & NODE_RING_HERE) && r && r->ring.piece;
	if (part->back)
		ref.off = tt_node_ring_place(g, &r->ring, rank, g->rank, r->number);
	if (ref.off > buf.len || len > buf.len - ref.off)
		return tt_fail(-EPROTO, "process %d published %zu bytes, not %zu",
			       (int)part->peer->pid, (size_t)buf.len, ref.off + len);
	if (buf.kind == NODE_SLOT && buf.off <= sizeof(nr->slot[0].data) &&
	    buf.len <= sizeof(nr->slot[0].data) - buf.off) {
		part->ptr = nr->slot[turn % 2].data + buf.off + ref.off;
		part->back |= g->size == 2 && len >= TT_NODE_BACK_LEAST;
	} else if (buf.kind == NODE_POOL) {
		int err = tt_node_map(part->peer, &buf, &part->ptr);

		if (err)
			return err;
		part->ptr += ref.off;
	} else if (buf.kind == NODE_PLAIN) {
		part->addr = buf.off + ref.off;
	} else {
		return tt_fail(-EPROTO, "process %d published nothing", (int)part->peer->pid);
	}
	return 0;
}

/* Announces the access, then checks for permission; seq_cst both, as in Dekker's algorithm. */
int tt_node_claim(struct tt_node_group *g, int *gone)
{
	int i;

	atomic_store(&g->area->rank[g->rank].busy, 1);
	for (i = 0; i < g->size; i++) {
		if (!atomic_load(&g->area->rank[i].withdrawn))
			continue;
		atomic_store_explicit(&g->area->rank[g->rank].busy, 0, memory_order_release);
		*gone = i;
		return -EPIPE;
	}
	return 0;
}

void tt_node_release(struct tt_node_group *g)
{
	atomic_store_explicit(&g->area->rank[g->rank].busy, 0, memory_order_release);
}

static int plain_copy(const struct part *p, size_t off, char *local, size_t len, bool write)
{
	return tt_shm_vm_copy(p->peer->pid, local, p->addr + off, len, write);
}

static char *tmp_of(struct tt_node_group *g, size_t len)
{
	if (g->tmp_len >= len)
		return g->tmp;
	free(g->tmp);
	g->tmp_len = 0;
	g->tmp = aligned_alloc(4096, (len + 4095) & ~(size_t)4095);
	if (g->tmp)
		g->tmp_len = len;
	return g->tmp;
}

/* By the user-defined operator, pair by pair, into acc. */
static void combine_pairs(const struct tt_node_reduce *r, char *acc, const void *const *src, int n,
			  size_t count)
{
	int i;

	if (n == 1)
		tt_copy_data(acc, src[0], count * r->elem);
	else
		r->fn(r->arg, acc, src[0], src[1], count);
	for (i = 2; i < n; i++)
		r->fn(r->arg, acc, acc, src[i], count);
}

/* One vector that is the result as it is, to or from ordinary memory: needs no piece in between. */
static bool is_copy(const struct pull *p)
{
	return p->nsrc == 1 && p->ndst == 1 && !p->src[0].ptr != !p->dst[0].ptr && !p->r->divide_by;
}

static int copy_whole(struct pull *p, size_t len)
{
	bool write = p->src[0].ptr;
	const struct part *far = write ? &p->dst[0] : &p->src[0];

	*p->gone = far->rank;
	return plain_copy(far, 0, write ? p->src[0].ptr : p->dst[0].ptr, len, write);
}

/* len bytes from off on; each place of tmp has room for so many. tmp is NULL if not needed. */
static int reduce_piece(struct pull *p, size_t off, size_t len, char *tmp, size_t room)
{
	const struct tt_node_reduce *r = p->r;
	const void *src[TT_NODE_RANKS];
	void *dst[TT_NODE_RANKS];
	int i, n = 0, err;

	tmp = p->place ? p->place + off : tmp;
	for (i = 0; i < p->nsrc; i++) {
		src[i] = p->src[i].ptr + off;
		if (p->src[i].ptr)
			continue;
		err = plain_copy(&p->src[i], off, tmp, len, false);
		if (err) {
			*p->gone = p->src[i].rank;
			return err;
		}
		src[i] = tmp;
		tmp += room;
	}
	for (i = 0; i < p->ndst && !r->fn; i++)
		if (p->dst[i].ptr)
			dst[n++] = p->dst[i].ptr + off;
	if (!n)
		dst[n++] = tmp;
	if (r->fn)
		combine_pairs(r, tmp, src, p->nsrc, len / r->elem);
	else
		tt_reduce_multi(dst, n, src, p->nsrc, len / r->elem, r->datatype, r->op,
				r->divide_by, r->flags);
	for (i = 0; p->back && i < p->nsrc; i++)
		if (p->src[i].back)
			tt_hand_back(p->src[i].ptr + off, len);
	for (i = 0; i < p->ndst; i++) {
		if (p->dst[i].ptr && r->fn)
			tt_copy_data(p->dst[i].ptr + off, tmp, len);
		if (p->dst[i].ptr)
			continue;
		err = plain_copy(&p->dst[i], off, dst[0], len, true);
		if (err) {
			*p->gone = p->dst[i].rank;
			return err;
		}
	}
	return 0;
}

/* Needs no memory in between, which would take room in the cache; not in place. */
static char *find_place(const struct pull *p)
{
	char *place = NULL;
	int i;

	for (i = 0; i < p->ndst; i++)
		place = p->dst[i].rank == p->g->rank ? p->dst[i].ptr : place;
	for (i = 0; i < p->nsrc; i++)
		place = p->src[i].ptr == place ? NULL : place;
	return p->plain_src == 1 && !p->r->fn ? place : NULL;
}

static int reduce_all(struct pull *p, size_t len)
{
	int places = p->plain_src + (p->r->fn || p->plain_dst == p->ndst);
	size_t room = len, off, n;
	char *tmp = NULL;
	int err;

	if (p->back)
		room = p->r->elem < BACK_PIECE ? BACK_PIECE - BACK_PIECE % p->r->elem : p->r->elem;
	p->place = NULL;
	if (is_copy(p))
		return copy_whole(p, len);
	if (places) {
		room = TMP_BYTES / (size_t)places;
		room = room < PIECE_MIN ? PIECE_MIN : room > PIECE_MAX ? PIECE_MAX : room;
		room = room < p->r->elem ? p->r->elem : room - room % p->r->elem;
		p->place = find_place(p);
		tmp = p->place ? p->place : tmp_of(p->g, room * (size_t)places);
		if (!tmp)
			return tt_fail(-ENOMEM, "no memory for pieces of other ranks' vectors");
	}
	for (off = 0; off < len; off += n) {
		n = len - off < room ? len - off : room;
		err = reduce_piece(p, off, n, tmp, room);
		if (err)
			return err;
	}
	return 0;
}

static void count_reduce(const struct pull *p, size_t len)
{
	bool own = p->g->rank < p->nsrc; /* not in an exscan */
	int mapped = p->nsrc - p->plain_src - own;

	p->count->pulled += (uint64_t)mapped * len;
	p->count->reduced += len;
	p->count->copied += (uint64_t)(p->plain_src + p->plain_dst) * len;
	if (p->r->fn)
		p->count->copied += (uint64_t)(p->ndst - p->plain_dst) * len;
}

int tt_node_pull_reduce(struct tt_node_group *g, uint64_t turn, struct tt_node_ref src, int to,
			struct tt_node_ref dst, size_t len, const struct tt_node_reduce *r,
			struct tt_node_count *count, int *gone)
{
	int i, err = tt_node_claim(g, gone);
	const struct part *measured = NULL;
	struct pull p; /* long, and mostly unused */
	uint64_t began;

	if (err)
		return err;
	p.g = g;
	p.r = r;
	p.nsrc = r->ranks ? r->ranks : g->size;
	p.ndst = p.plain_src = p.plain_dst = 0;
	p.back = false;
	p.count = count;
	p.gone = gone;
	for (i = 0; !err && i < g->size; i++) {
		*gone = i;
		if (i < p.nsrc) {
			err = look(g, turn, i, src, len, r, &p.src[i]);
			p.plain_src += !err && !p.src[i].ptr;
			measured = p.src[i].measure ? &p.src[i] : measured;
			p.src[i].back &= to != TT_NODE_ALL && to != i; /* else replaced */
			p.back |= !err && p.src[i].back;
		}
		if (err || (to != TT_NODE_ALL && to != i))
			continue;
		err = look(g, turn, i, dst, len, r, &p.dst[p.ndst]);
		p.plain_dst += !err && !p.dst[p.ndst].ptr;
		p.ndst++;
	}
	began = measured ? tt_ticks() : 0;
	if (!err)
		err = reduce_all(&p, len);
	tt_node_release(g);
	if (err)
		return err;
	if (began)
		tt_node_taken(g, measured->measure, !measured->ptr, len, began);
	count_reduce(&p, len);
	return 0;
}

int tt_node_pull_copy(struct tt_node_group *g, uint64_t turn, int from, struct tt_node_ref src,
		      void *dst, size_t len, struct tt_node_count *count, int *gone)
{
	struct part part;
	uint64_t began;
	int err = tt_node_claim(g, gone);

	if (err)
		return err;
	*gone = from;
	if (src.which == TT_NODE_INPUT && tt_node_has_stream(g, turn, from)) {
		err = tt_node_stream_whole(g, turn, from, src, dst, len);
		tt_node_release(g);
		count->pulled += err ? 0 : len;
		return err;
	}
	err = look(g, turn, from, src, len, NULL, &part);
	began = !err && part.measure ? tt_ticks() : 0;
	if (!err && part.back)
		tt_copy_out(dst, part.ptr, len);
	else if (!err && part.ptr)
		tt_copy_near(dst, part.ptr, len);
	else if (!err)
		err = plain_copy(&part, 0, dst, len, false);
	tt_node_release(g);
	if (err)
		return err;
	if (began)
		tt_node_taken(g, part.measure, !part.ptr, len, began);
	*(part.ptr ? &count->pulled : &count->copied) += len;
	return 0;
}

static int push_one(struct tt_node_group *g, uint64_t turn, int to, struct tt_node_ref dst,
		    const void *src, size_t len, struct tt_node_count *count)
{
	struct part part;
	int err = look(g, turn, to, dst, len, NULL, &part);

	if (!err && part.ptr)
		tt_copy_near(part.ptr, src, len);
	else if (!err)
		err = plain_copy(&part, 0, (char *)src, len, true);
	if (!err)
		*(part.ptr ? &count->pulled : &count->copied) += len;
	return err;
}

int tt_node_push(struct tt_node_group *g, uint64_t turn, int to, struct tt_node_ref dst,
		 const void *src, size_t len, struct tt_node_count *count, int *gone)
{
	int i, err = tt_node_claim(g, gone);

	if (err)
		return err;
	for (i = 0; !err && i < g->size; i++) {
		if (i == g->rank || (to != TT_NODE_ALL && to != i))
			continue;
		*gone = i;
		err = push_one(g, turn, i, dst, src, len, count);
	}
	tt_node_release(g);
	return err;
}

void tt_node_reduce_slots(struct tt_node_group *g, uint64_t turn, void *dst, size_t off, size_t len,
			  int ranks, const struct tt_node_reduce *r)
{
	const void *src[TT_NODE_RANKS];
	int i, n = ranks ? ranks : g->size;

	for (i = 0; i < n; i++)
		src[i] = g->area->rank[i].slot[turn % 2].data + off;
	tt_reduce_multi(&dst, 1, src, n, len / r->elem, r->datatype, r->op, r->divide_by, r->flags);
	if (g->size == 2 && n > !g->rank && len >= TT_NODE_BACK_LEAST) /* the peer's was read */
		tt_hand_back(g->area->rank[!g->rank].slot[turn % 2].data + off, len);
}
