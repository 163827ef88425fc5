/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-to-all of layouts. The elements of a block travel as one stream of bytes, cut into pieces in
 * the same way at both ends. Each piece goes into memory that its receiver offers: memory of the
 * pool where the layout has gaps, so that no block is packed as a whole, and the caller's memory,
 * if it is registered, where it has none. There is no plan.
 *
 * In step k a rank sends to the k-th rank after it and receives from the k-th rank before it; step
 * 0 is the rank itself. Each side starts its pieces in this order, and has a bounded number of them
 * under way. It cannot deadlock: take the first piece, by step and then by number, that has not
 * arrived. All that its sender and its receiver start before it is over, so both have started it.
 */
#include "lib/engine/alltoallw.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define PIECE ((size_t)1 << 20)
#define PIECES 8	    /* of a side under way, */
#define AT_ONCE (2 * PIECE) /* and their bytes, unless it is one piece */
#define ASK_MAX 8	    /* peers asked at a time by a stuck request */

enum { SEND, RECV };

/* In the stream of a block. */
struct place {
	size_t rep, in; /* the repetition, and the byte of its stream */
	struct tt_place at;
};

struct piece {
	struct tt_xfer x;
	struct tt_source source;
	struct side *side;
	const struct tt_w_block *block;
	struct place place;
	bool busy;
};

struct side {
	struct tt_w_req *w;
	int step;
	size_t next;	 /* byte of the step's block from which no piece has started */
	uint32_t number; /* of the next piece of the block */
	struct place place;
	int busy;	/* pieces under way, */
	size_t bytes;	/* and their bytes */
	uint64_t moved; /* bytes of pieces that are over */
	struct piece piece[PIECES];
};

struct tt_w_req {
	struct tutti_request r;
	struct tt_w_req *idle; /* the next one in comm->alltoallw */
	struct tt_fields fields;
	struct tt_counts *counts;
	size_t most; /* bytes of a piece, the same on all ranks */

	/* this run */
	uint64_t fprint;
	bool starting, again; /* pieces are being started, and one has ended meanwhile */
	bool broken;	      /* no more pieces start */
	int leaving;	      /* abandoned: pieces still under way, plus 1; else 0 */
	struct side side[2];

	struct tt_w_block *block; /* of SEND by rank, then of RECV */
};

static struct tt_w_req *w_req(const struct tutti_request *r)
{
	return tt_container(r, struct tt_w_req, r);
}

static int peer_of(const struct side *s)
{
	const struct tutti_comm *comm = s->w->r.comm;
	bool sends = s == &s->w->side[SEND];

	return (comm->rank + (sends ? s->step : comm->size - s->step)) % comm->size;
}

static struct tt_w_block *block_of(const struct side *s)
{
	struct tt_w_req *w = s->w;

	return &w->block[peer_of(s) + (s == &w->side[SEND] ? 0 : w->r.comm->size)];
}

/* ---- pieces ---- */

enum way { SKIP, GATHER, SCATTER };

/* Moves a place on by len bytes, which are copied to or from mem. */
static void walk(const struct tt_w_block *b, struct place *p, enum way way, char *mem, size_t len)
{
	size_t n;

	for (; len; len -= n) {
		char *base = b->base + (ptrdiff_t)p->rep * b->span;

		n = b->blocks.bytes - p->in < len ? b->blocks.bytes - p->in : len;
		if (way == GATHER)
			tt_byte_blocks_gather(&b->blocks, &p->at, base, mem, n);
		else if (way == SCATTER)
			tt_byte_blocks_scatter(&b->blocks, &p->at, base, mem, n);
		else
			tt_byte_blocks_skip(&b->blocks, &p->at, n);
		mem = mem ? mem + n : NULL;
		p->in += n;
		if (p->in == b->blocks.bytes)
			*p = (struct place){.rep = p->rep + 1};
	}
}

static bool has_gaps(const struct tt_w_block *b)
{
	return b->times > 1 || b->blocks.count > 1;
}

static void pack(const struct tt_source *source, void *to, size_t len)
{
	const struct piece *piece = tt_container(source, struct piece, source);
	struct place place = piece->place;

	walk(piece->block, &place, GATHER, to, len);
}

static void advance(struct tt_w_req *w);

static void piece_over(struct tt_xfer *x, const void *data, int status)
{
	struct piece *piece = tt_container(x, struct piece, x);
	struct side *s = piece->side;
	struct tt_w_req *w = s->w;
	struct place place = piece->place;

	if (status) {
		w->broken = true;
		tt_request_broken(&w->r, x->peer, status);
		return; /* the sweep ends the request */
	}
	if (s == &w->side[RECV] && data != x->buf) {
		walk(piece->block, &place, SCATTER, (char *)data, x->len);
		tt_wire_stats(w->r.comm->ctx->wire)->copied_bytes += x->len;
	}
	tt_flight_more(w->r.comm->ctx->flight, w->r.flight, 0, x->len);
	w->r.progressed = true;
	piece->busy = false;
	s->busy--;
	s->bytes -= x->len;
	s->moved += x->len;
	advance(w);
}

static struct piece *free_piece(struct side *s)
{
	int i;

	for (i = 0; i < PIECES; i++)
		if (!s->piece[i].busy)
			return &s->piece[i];
	return NULL;
}

/* A free piece for the next len bytes; NULL: all have started, or enough are under way. */
static struct piece *next_piece(struct side *s, size_t *len)
{
	struct tt_w_req *w = s->w;

	while (s->step < w->r.comm->size && s->next == block_of(s)->bytes) {
		s->step++;
		s->next = s->number = 0;
		s->place = (struct place){0};
	}
	if (w->broken || s->step == w->r.comm->size)
		return NULL;
	*len = block_of(s)->bytes - s->next;
	*len = *len < w->most ? *len : w->most;
	return s->busy && s->bytes + *len > AT_ONCE ? NULL : free_piece(s);
}

/* Where the piece is here. Receives of a tolerant communicator land in memory of the library. */
static void set_memory(struct piece *piece, size_t next)
{
	const struct tt_w_block *b = piece->block;
	struct tt_xfer *x = &piece->x;
	struct side *s = piece->side;
	bool sends = s == &s->w->side[SEND];

	piece->place = s->place;
	walk(b, &s->place, SKIP, NULL, x->len);
	x->fill = sends && has_gaps(b);
	x->region = sends || !s->w->r.comm->tolerant ? b->region : NULL;
	if (has_gaps(b))
		x->buf = x->fill ? &piece->source : NULL;
	else
		x->buf = b->base + next;
}

static struct tt_key key_of(const struct tt_w_req *w, uint32_t number)
{
	return (struct tt_key){.comm = w->r.comm->uid, .seq = (uint32_t)w->r.seq, .index = number};
}

static void start_piece(struct piece *piece, size_t len)
{
	struct side *s = piece->side;
	struct tt_w_req *w = s->w;
	struct tutti_comm *comm = w->r.comm;
	struct tt_xfer *x = &piece->x;
	int peer = peer_of(s);

	piece->block = block_of(s);
	x->kind = TT_XFER_OFFER;
	x->priority = w->r.priority;
	x->peer = comm->world[peer];
	x->key = key_of(w, s->number++);
	x->fprint = tt_pair_fprint(w->fprint, w->counts, peer, s == &w->side[SEND]);
	x->len = len;
	x->fn = piece_over;
	set_memory(piece, s->next);
	s->next += len;
	s->busy++;
	s->bytes += len;
	piece->busy = true;
	if (s == &w->side[SEND])
		tt_wire_send(comm->ctx->wire, x);
	else
		tt_wire_recv(comm->ctx->wire, x);
}

static bool is_over(const struct side *s)
{
	return s->step == s->w->r.comm->size && !s->busy;
}

/* Starts pieces, receives first; pieces may end while others start. Ends the request. */
static void advance(struct tt_w_req *w)
{
	struct piece *piece;
	size_t len;

	w->again = true;
	if (w->starting)
		return;
	for (w->starting = true; w->again;) {
		w->again = false;
		while ((piece = next_piece(&w->side[RECV], &len)))
			start_piece(piece, len);
		while ((piece = next_piece(&w->side[SEND], &len)))
			start_piece(piece, len);
	}
	w->starting = false;
	if (!w->broken && is_over(&w->side[SEND]) && is_over(&w->side[RECV]))
		tt_request_end(&w->r, 0);
}

/* ---- the request ---- */

static void reset(struct tt_w_req *w)
{
	int i, k;

	w->starting = w->again = w->broken = false;
	w->leaving = 0;
	for (i = SEND; i <= RECV; i++) {
		struct side *s = &w->side[i];

		s->w = w;
		s->step = s->busy = 0;
		s->next = s->number = 0;
		s->bytes = s->moved = 0;
		s->place = (struct place){0};
		for (k = 0; k < PIECES; k++) {
			s->piece[k].busy = false;
			s->piece[k].side = s;
			s->piece[k].source.fill = pack;
		}
	}
}

static int w_start(struct tutti_request *r)
{
	struct tt_w_req *w = w_req(r);
	int err = tt_request_begin(r);
	struct tt_key call;

	if (err)
		return err;
	reset(w);
	w->fprint = tt_comm_called(r->comm, &w->fields, w->counts);
	r->seq = r->comm->seq;
	tt_record_fields(r, &w->fields);
	call = key_of(w, 0);
	tt_wire_early_again(r->comm->ctx->wire, &call);
	advance(w);
	return 0;
}

/* Receives into memory of the library need no fence. */
static void w_cancel(struct tutti_request *r)
{
	struct tt_wire *wire = r->comm->ctx->wire;
	struct tt_w_req *w = w_req(r);
	int i, k;

	w->broken = true;
	for (i = SEND; i <= RECV; i++)
		for (k = 0; k < PIECES; k++) {
			struct piece *piece = &w->side[i].piece[k];

			if (piece->busy && i == RECV && !piece->x.region)
				tt_wire_abandon(wire, &piece->x);
			else if (piece->busy)
				tt_wire_cancel(wire, &piece->x);
		}
}

static void left(struct tt_xfer *x, const void *data, int status)
{
	struct tt_w_req *w = tt_container(x, struct piece, x)->side->w;

	(void)data;
	(void)status;
	if (--w->leaving == 1)
		tt_request_end(&w->r, -TUTTI_EPEER);
}

static bool w_abandon(struct tutti_request *r)
{
	struct tt_w_req *w = w_req(r);
	int i, k;

	if (w->leaving)
		return false;
	w->broken = true;
	for (w->leaving = 1, i = SEND; i <= RECV; i++)
		for (k = 0; k < PIECES; k++) {
			struct piece *piece = &w->side[i].piece[k];

			if (!piece->busy || !piece->x.state ||
			    tt_wire_abandon(r->comm->ctx->wire, &piece->x))
				continue;
			piece->x.fn = left;
			w->leaving++;
		}
	return w->leaving == 1;
}

static void w_free(struct tutti_request *r)
{
	tt_alltoallw_put(w_req(r));
}

/* Asks the peers of pieces under way, which may disagree on them. */
static void w_late(struct tutti_request *r)
{
	struct tt_w_req *w = w_req(r);
	struct tt_past past;
	int i, k, n = 0;

	tt_late_ask(r, w->fields.init, r->deadline);
	tt_stuck_ask(r->comm, r->seq, &w->fields);
	tt_late_remind(r->comm, r->seq, &w->fields);
	if (!tt_comm_past(r->comm, 0, r->seq, &past) || !past.counts)
		return;
	for (i = SEND; i <= RECV; i++)
		for (k = 0; k < PIECES && n < ASK_MAX; k++)
			if (w->side[i].piece[k].busy) {
				tt_pair_ask(r->comm, &past,
					    tt_comm_rank_of(r->comm, w->side[i].piece[k].x.peer));
				n++;
			}
}

static const char *w_call(const struct tutti_request *r)
{
	(void)r;
	return tt_coll_name(TT_COLL_ALLTOALLW);
}

static const char *w_text(const struct tutti_request *r, char *buf, size_t size)
{
	return tt_fields_text(&w_req(r)->fields, r->seq, buf, size);
}

static int w_waits(const struct tutti_request *r, char *buf, size_t size)
{
	return tt_late_text(r, w_req(r)->fields.init, buf, size);
}

static int w_awaits(const struct tutti_request *r, int *ranks, int max)
{
	struct tt_w_req *w = w_req(r);
	int i, k, n = 0;

	for (i = RECV; i >= SEND; i--)
		for (k = 0; k < PIECES && n < max; k++)
			if (w->side[i].piece[k].busy)
				ranks[n++] = w->side[i].piece[k].x.peer;
	return n;
}

static uint64_t w_where(struct tutti_request *r, char *phase, size_t size)
{
	const struct tt_w_req *w = w_req(r);
	int sent = w->side[SEND].step, got = w->side[RECV].step, step = sent < got ? sent : got;

	step += step < r->comm->size;
	snprintf(phase, size, "step %d of %d", step, r->comm->size);
	return w->side[RECV].moved;
}

static const struct tt_request_ops w_ops = {.list = TT_ACTIVE_COLL,
					    .call = w_call,
					    .start = w_start,
					    .cancel = w_cancel,
					    .abandon = w_abandon,
					    .free = w_free,
					    .late = w_late,
					    .text = w_text,
					    .waits = w_waits,
					    .awaits = w_awaits,
					    .where = w_where};

/* ---- making it ---- */

int tt_alltoallw_get(struct tutti_comm *comm, struct tt_w_req **out, struct tt_w_block **block)
{
	struct tt_w_req *w = comm->alltoallw;
	size_t most;

	if (w) {
		comm->alltoallw = w->idle;
	} else {
		w = tt_request_alloc(comm->ctx, sizeof(*w), 0);
		if (w)
			w->block = calloc(2 * (size_t)comm->size, sizeof(w->block[0]));
		if (!w || !w->block) {
			if (w)
				tt_request_release(comm->ctx, &w->r, sizeof(*w));
			return tt_fail(-ENOMEM, "alltoallw: no memory for a request");
		}
		tt_wire_stats(comm->ctx->wire)->allocations++;
		most = tt_wire_longest(comm->ctx->wire);
		w->most = most < PIECE ? most : PIECE;
		w->fields = (struct tt_fields){.coll = TT_COLL_ALLTOALLW, .datatype = TUTTI_UINT8};
		w->r.comm = comm;
	}
	*out = w;
	*block = w->block;
	return 0;
}

void tt_alltoallw_put(struct tt_w_req *w)
{
	w->idle = w->r.comm->alltoallw;
	w->r.comm->alltoallw = w;
}

void tt_alltoallw_free(struct tutti_comm *comm)
{
	struct tt_w_req *w;

	while ((w = comm->alltoallw)) {
		comm->alltoallw = w->idle;
		tt_counts_put(w->counts);
		free(w->block);
		tt_request_release(comm->ctx, &w->r, sizeof(*w));
	}
}

/* The elements and datatypes of the blocks, for the other ranks' questions. */
static int set_counts(struct tt_w_req *w)
{
	size_t n = (size_t)w->r.comm->size, i;
	const size_t *old = w->counts ? w->counts->data : NULL;
	struct tt_counts *c;
	bool same = old;

	for (i = 0; i < 2 * n && same; i++)
		same = old[i] == w->block[i].elements && old[2 * n + i] == w->block[i].datatype;
	if (same)
		return 0;
	c = tt_counts_typed(TT_COLL_ALLTOALLW, n);
	if (!c)
		return tt_fail(-ENOMEM, "alltoallw: no memory for the counts");
	tt_wire_stats(w->r.comm->ctx->wire)->allocations++;
	for (i = 0; i < 2 * n; i++) {
		c->data[i] = w->block[i].elements;
		c->data[2 * n + i] = w->block[i].datatype;
	}
	tt_counts_put(w->counts);
	w->counts = c;
	return 0;
}

static int find_region(struct tt_w_req *w, struct tt_w_block *b)
{
	struct tt_memory *memory = tt_wire_memory(w->r.comm->ctx->wire);

	b->region = NULL;
	if (!b->bytes || has_gaps(b))
		return 0;
	if (tt_mem_find_buffer(memory, b->base, b->bytes, &b->region))
		return 0;
	return tt_fail(-EINVAL,
		       "alltoallw: the block of rank %td in %s is only partly in memory of "
		       "tutti_alloc: %zu bytes at %p",
		       (b - w->block) % w->r.comm->size,
		       b - w->block < w->r.comm->size ? "sendbuf" : "recvbuf", b->bytes,
		       (void *)b->base);
}

int tt_alltoallw_new(struct tt_w_req *w, struct tutti_request **out)
{
	int i, err = set_counts(w);

	for (i = 0; i < 2 * w->r.comm->size && !err; i++)
		err = find_region(w, &w->block[i]);
	if (err) {
		tt_alltoallw_put(w);
		return err;
	}
	tt_request_init(&w->r, &w_ops, w->r.comm, false);
	*out = &w->r;
	return 0;
}
