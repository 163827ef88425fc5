/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams, which replace inputs that peers cannot map, nor read as fast; node.h.
 * lib/engine/node/stream_input.c runs them.
 *
 * A stream is memory that peers map: a directory, then for each lane its head, its readers'
 * counters, the place of each piece, and the places. The owner writes all of it but the counters.
 * There is a place for each piece, but the owner prefers those that all readers have left, so that
 * few places are used and stay in the cache.
 */
#include <errno.h>
#include <string.h>

#include "lib/base/copy.h"
#include "lib/node/node_internal.h"

#define PIECE_MOST ((size_t)128 << 10)
#define PIECE_LEAST ((size_t)16 << 10)
#define PIECES 8 /* of a shorter lane: the copies of the first and the last do not overlap */

struct directory {
	uint64_t lanes, at[]; /* at: from the beginning of the stream */
};

struct lane_head {
	_Alignas(LINE) struct tt_node_lane span;
	uint32_t used, reused; /* places so far; pieces whose places have been used again */
	bool asks;	       /* as in tt_node_publish_stream */
	_Alignas(LINE) _Atomic uint32_t filled; /* pieces that have been put in */
};

struct counter {
	_Alignas(LINE) _Atomic uint32_t taken; /* pieces that a reader has copied */
};

/* A lane, as a process has it mapped. */
struct lane {
	struct lane_head *head;
	struct counter *counter; /* of the one reader, or by rank */
	uint32_t *place;	 /* by piece */
	char *places;
	size_t piece;
	uint32_t pieces;
};

static size_t lines(size_t bytes)
{
	return (bytes + LINE - 1) & ~(size_t)(LINE - 1);
}

static size_t piece_of(size_t len)
{
	size_t piece = (len / PIECES + 4095) & ~(size_t)4095;

	return piece < PIECE_LEAST ? PIECE_LEAST : piece > PIECE_MOST ? PIECE_MOST : piece;
}

static size_t pieces_of(size_t len)
{
	return (len + piece_of(len) - 1) / piece_of(len);
}

size_t tt_node_stream_next(size_t len, size_t at)
{
	return len - at < piece_of(len) ? len - at : piece_of(len);
}

static size_t counters_of(const struct tt_node_group *g, const struct tt_node_lane *span)
{
	return span->reader == TT_NODE_ALL ? (size_t)g->size : 1;
}

/* From the beginning of a lane. */
static size_t table_at(const struct tt_node_group *g, const struct tt_node_lane *span)
{
	return sizeof(struct lane_head) + counters_of(g, span) * sizeof(struct counter);
}

static size_t places_at(const struct tt_node_group *g, const struct tt_node_lane *span)
{
	return lines(table_at(g, span) + pieces_of(span->len) * sizeof(uint32_t));
}

static size_t lane_bytes(const struct tt_node_group *g, const struct tt_node_lane *span)
{
	return places_at(g, span) + lines(span->len);
}

static size_t directory_bytes(int lanes)
{
	return lines(sizeof(struct directory) + (size_t)lanes * sizeof(uint64_t));
}

static struct lane lane_at(const struct tt_node_group *g, char *at, const struct tt_node_lane *span)
{
	return (struct lane){.head = (struct lane_head *)at,
			     .counter = (struct counter *)(at + sizeof(struct lane_head)),
			     .place = (uint32_t *)(at + table_at(g, span)),
			     .places = at + places_at(g, span),
			     .piece = piece_of(span->len),
			     .pieces = (uint32_t)pieces_of(span->len)};
}

/* ---- the owner ---- */

size_t tt_node_stream_bytes(const struct tt_node_group *g, const struct tt_node_lane *span, int n)
{
	size_t bytes = directory_bytes(n);
	int i;

	for (i = 0; i < n; i++)
		bytes += lane_bytes(g, &span[i]);
	return bytes;
}

void tt_node_publish_stream(struct tt_node_group *g, uint64_t turn, void *mem, size_t bytes,
			    const struct tt_region *region, const struct tt_node_lane *span, int n,
			    bool asks)
{
	struct node_buf b = tt_node_pool_buf(tt_node_mr(g, region), mem, bytes);
	struct directory *dir = mem;
	size_t at = directory_bytes(n);
	int i;

	dir->lanes = (uint64_t)n;
	for (i = 0; i < n; i++) {
		dir->at[i] = at;
		memset((char *)mem + at, 0, table_at(g, &span[i]));
		((struct lane_head *)((char *)mem + at))->span = span[i];
		((struct lane_head *)((char *)mem + at))->asks = asks;
		at += lane_bytes(g, &span[i]);
	}
	b.ring = NODE_STREAM;
	tt_node_put_buf(&g->area->rank[g->rank].buf[turn % 2][TT_NODE_INPUT], &b);
}

static struct lane own_lane(const struct tt_node_group *g, char *stream, int i)
{
	char *at = stream + ((struct directory *)stream)->at[i];

	return lane_at(g, at, &((struct lane_head *)at)->span);
}

/* The pieces that all readers have copied. */
static uint32_t left_by_all(const struct tt_node_group *g, const struct lane *lane)
{
	size_t i, n = counters_of(g, &lane->head->span);
	uint32_t least = UINT32_MAX, taken;

	for (i = 0; i < n; i++) {
		if (n > 1 && i == (size_t)g->rank)
			continue;
		taken = atomic_load_explicit(&lane->counter[i].taken, memory_order_acquire);
		least = taken < least ? taken : least;
	}
	return least;
}

/* For the next piece; false: so many are in use. */
static bool find_place(const struct tt_node_group *g, const struct lane *lane, uint32_t most,
		       uint32_t *place)
{
	struct lane_head *head = lane->head;

	if (head->reused < left_by_all(g, lane)) {
		*place = lane->place[head->reused++];
		return true;
	}
	*place = head->used;
	head->used += head->used < most;
	return *place < most;
}

size_t tt_node_stream_fill(struct tt_node_group *g, char *stream, int i, const char *input,
			   size_t most)
{
	struct lane lane = own_lane(g, stream, i);
	struct lane_head *head = lane.head;
	uint32_t k = atomic_load_explicit(&head->filled, memory_order_relaxed), place;
	size_t at = k * lane.piece, len;

	most = most / lane.piece < lane.pieces ? most / lane.piece : lane.pieces;
	if (k == lane.pieces || !find_place(g, &lane, (uint32_t)most, &place))
		return 0;
	len = tt_node_stream_next(head->span.len, at);
	tt_copy_near(lane.places + place * lane.piece, input + head->span.off + at, len);
	lane.place[k] = place;
	atomic_store_explicit(&head->filled, k + 1, memory_order_release);
	return len;
}

bool tt_node_stream_full(const struct tt_node_group *g, char *stream)
{
	int i, n = (int)((struct directory *)stream)->lanes;
	struct lane lane;

	for (i = 0; i < n; i++) {
		lane = own_lane(g, stream, i);
		if (atomic_load_explicit(&lane.head->filled, memory_order_relaxed) < lane.pieces)
			return false;
	}
	return true;
}

/* ---- a reader ---- */

bool tt_node_has_stream(const struct tt_node_group *g, uint64_t turn, int rank)
{
	return g->area->rank[rank].buf[turn % 2][TT_NODE_INPUT].ring & NODE_STREAM;
}

/* Under a claim: the lane that a peer has published for this rank, if it lies within the stream. */
static int find_lane(struct tt_node_group *g, uint64_t turn, int from, struct tt_node_ref src,
		     size_t len, struct lane *lane)
{
	/* a copy, which the peer cannot change */
	struct node_buf buf = g->area->rank[from].buf[turn % 2][TT_NODE_INPUT];
	size_t i = (size_t)(g->rank - from - 1 + g->size) % (size_t)g->size, at;
	struct tt_node_lane span;
	char *stream;
	int err = tt_node_map(g->peer[from], &buf, &stream);

	if (err)
		return err;
	i = ((struct directory *)stream)->lanes > 1 ? i : 0;
	at = directory_bytes((int)i + 1) <= buf.len ? ((struct directory *)stream)->at[i] : buf.len;
	if (at % LINE || at > buf.len || buf.len - at < sizeof(struct lane_head))
		return tt_fail(-EPROTO, "process %d published no stream", (int)g->peer[from]->pid);
	span = ((struct lane_head *)(stream + at))->span;
	if (span.off != src.off || span.len != len || buf.len - at < lane_bytes(g, &span))
		return tt_fail(-EPROTO, "process %d published %zu bytes, not %zu",
			       (int)g->peer[from]->pid, span.len, len);
	*lane = lane_at(g, stream + at, &span);
	if (span.reader == TT_NODE_ALL)
		lane->counter += g->rank;
	return 0;
}

/* Whether the piece is there that begins at this byte. */
static bool is_there(const struct lane *lane, size_t at)
{
	return atomic_load_explicit(&lane->head->filled, memory_order_acquire) > at / lane->piece;
}

bool tt_node_stream_there(struct tt_node_group *g, uint64_t turn, int from, struct tt_node_ref src,
			  size_t len, size_t at)
{
	struct lane lane;
	bool there;
	int gone;

	if (tt_node_claim(g, &gone))
		return true; /* so the next pull fails */
	there = find_lane(g, turn, from, src, len, &lane) || is_there(&lane, at);
	tt_node_release(g);
	return there;
}

/* n bytes of it. */
static int take(struct tt_node_group *g, const struct lane *lane, int from, char *dst, size_t at,
		size_t len, size_t n)
{
	uint32_t k = (uint32_t)(at / lane->piece);
	size_t place = lane->place[k] * lane->piece;

	if (place + n > len)
		return tt_fail(-EPROTO, "process %d published no place", (int)g->peer[from]->pid);
	if (lane->head->span.reader != TT_NODE_ALL || g->size == 2)
		tt_copy_out(dst + at, lane->places + place, n);
	else
		tt_copy_near(dst + at, lane->places + place, n);
	atomic_store_explicit(&lane->counter->taken, k + 1, memory_order_release);
	if (at + n == len && lane->head->asks)
		tt_node_try_reach(g);
	return 0;
}

/* This rank has copied nothing of it yet, so no place has been used again. */
int tt_node_stream_whole(struct tt_node_group *g, uint64_t turn, int from, struct tt_node_ref src,
			 void *dst, size_t len)
{
	struct lane lane;
	size_t at, n;
	int err = find_lane(g, turn, from, src, len, &lane);

	if (!err && !is_there(&lane, len - 1))
		err = -EAGAIN;
	for (at = 0; !err && at < len; at += n) {
		n = tt_node_stream_next(len, at);
		err = take(g, &lane, from, dst, at, len, n);
	}
	return err;
}

int tt_node_stream_take(struct tt_node_group *g, uint64_t turn, int from, struct tt_node_ref src,
			void *dst, size_t at, size_t len, size_t *took, int *gone)
{
	struct lane lane;
	int err = tt_node_claim(g, gone);

	*took = 0;
	if (err)
		return err;
	*gone = from;
	err = find_lane(g, turn, from, src, len, &lane);
	if (!err && is_there(&lane, at)) {
		*took = tt_node_stream_next(len, at);
		err = take(g, &lane, from, dst, at, len, *took);
	}
	tt_node_release(g);
	return err;
}
