/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pieces: once priorities are in use, a message for an offer is cut, and each channel has a bounded
 * number of bytes under way. The piece of highest priority goes next; of one priority, the oldest.
 *
 * A cut message has its offer, so its memory at the receiver is reserved: it never waits for
 * another message, whatever the order. Each piece of a message of several rings the offer's token
 * with TT_TOKEN_PIECE. The receiver counts them, as they come in any order; TT_PIECE is the same
 * everywhere. A message of one piece rings the token as if it were not cut.
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/wire/wire_internal.h"

/* By default: 2 ms of a line of 1 Gbit/s, and more than is under way on it. */
#define WINDOW (4 * TT_PIECE)

struct tt_piece {
	struct tt_wr wr;
	struct tt_xfer *x;
	struct tt_piece *next; /* in wire->free_pieces */
	size_t len;
};

/* Of a send that is cut. */
struct tt_rest {
	struct tt_rest *next; /* in wire->free_rests */
	size_t posted;	      /* bytes handed to the transport */
	uint64_t remote;      /* the offer */
	struct tt_rkey rkey;
	int status; /* of the first piece that failed */
};

static uint64_t count(size_t len)
{
	return (len + TT_PIECE - 1) / TT_PIECE;
}

/* ---- sending ---- */

static struct tt_piece *piece_get(struct tt_wire *wire)
{
	struct tt_piece *p = wire->free_pieces;

	if (p) {
		wire->free_pieces = p->next;
		return p;
	}
	wire->stats.allocations++;
	return malloc(sizeof(*p));
}

static void piece_put(struct tt_piece *p)
{
	struct tt_chan *chan = p->x->chan;
	struct tt_wire *wire = chan->wire;

	p->x->pieces--;
	chan->under_way -= p->len;
	p->next = wire->free_pieces;
	wire->free_pieces = p;
}

static void rest_put(struct tt_xfer *x)
{
	struct tt_wire *wire = x->chan->wire;

	x->rest->next = wire->free_rests;
	wire->free_rests = x->rest;
	x->rest = NULL;
	x->cut = false;
}

static void end(struct tt_xfer *x, int status)
{
	rest_put(x);
	tt_xfer_end(x, NULL, status);
}

/* x sends no more pieces; it ends with the last of those under way. */
static void stop(struct tt_xfer *x, int status)
{
	x->rest->status = status;
	tt_list_del(&x->link);
	if (!x->pieces)
		end(x, status);
}

static void piece_done(struct tt_wr *wr, int status)
{
	struct tt_piece *p = tt_container(wr, struct tt_piece, wr);
	struct tt_xfer *x = p->x;
	struct tt_chan *chan = x->chan;
	size_t len = p->len;

	piece_put(p);
	if (!status)
		chan->wire->stats.put_bytes += len;
	if (status || x->rest->status) {
		stop(x, x->rest->status ? x->rest->status : status);
	} else if (!x->pieces && x->rest->posted == x->len) {
		chan->wire->stats.put_messages++;
		end(x, 0);
	}
	if (!status)
		tt_pieces_flush(chan);
}

/* To the front of its priority (again: it was there), or behind those of the same priority. */
static void enqueue(struct tt_chan *chan, struct tt_xfer *x, bool again)
{
	struct tt_list *at = &chan->pieceq;

	while (at->prev != &chan->pieceq) {
		int before = tt_container(at->prev, struct tt_xfer, link)->priority;

		if (before > x->priority || (before == x->priority && !again))
			break;
		at = at->prev;
	}
	tt_list_add(at, &x->link);
}

static void count_piece(struct tt_chan *chan, struct tt_xfer *x, size_t len)
{
	struct tutti_stats *stats = &chan->wire->stats;

	x->pieces++;
	x->rest->posted += len;
	chan->under_way += len;
	stats->pieces++;
	if (chan->under_way > stats->window_most)
		stats->window_most = chan->under_way;
}

/* The next piece of x, of len bytes; false: the transport has no room now. */
static bool post(struct tt_chan *chan, struct tt_xfer *x, size_t len)
{
	struct tt_rma rma = {.len = len,
			     .remote = x->rest->remote + x->rest->posted,
			     .rkey = &x->rest->rkey,
			     .note = x->len > TT_PIECE ? x->token | TT_TOKEN_PIECE : x->token,
			     .flags = TT_RMA_NOTE | TT_RMA_SENT};
	struct tt_piece *p = piece_get(chan->wire);
	int rc = p ? tt_send_source(chan, x, &rma.local, &rma.mr) : -ENOMEM;

	if (rc) {
		free(p);
		tt_chan_fail(chan, rc, "no memory for a piece of a message");
		return true;
	}
	rma.local = (char *)rma.local + x->rest->posted;
	*p = (struct tt_piece){.x = x, .len = len, .wr.done = piece_done};
	tt_list_init(&p->wr.link);
	count_piece(chan, x, len);
	if (x->rest->posted == x->len)
		tt_list_del(&x->link); /* x may end within the call */
	rc = tt_chan_rma(chan, &rma, &p->wr, false);
	if (rc >= 0)
		return true;
	chan->wire->stats.pieces--;
	x->rest->posted -= len;
	piece_put(p);
	if (rc == -EAGAIN) {
		if (tt_list_empty(&x->link))
			enqueue(chan, x, true);
		return false;
	}
	stop(x, tt_chan_refusal(rc));
	tt_chan_refused(chan, rc);
	return true;
}

bool tt_pieces_flush(struct tt_chan *chan)
{
	bool room = true;

	if (chan->pouring || chan->state != TT_CHAN_OPEN)
		return true;
	chan->pouring = true; /* a piece may be done within the call that posts it */
	while (room && !tt_list_empty(&chan->pieceq) && chan->state == TT_CHAN_OPEN) {
		struct tt_xfer *x = tt_container(chan->pieceq.next, struct tt_xfer, link);
		size_t len = x->len - x->rest->posted;

		if (len > TT_PIECE)
			len = TT_PIECE;
		if (chan->under_way && chan->under_way + len > chan->wire->window)
			break; /* the end of one under way calls again */
		room = post(chan, x, len);
	}
	chan->pouring = false;
	if (!room)
		tt_chan_busy(chan);
	return room;
}

static struct tt_rest *rest_get(struct tt_wire *wire)
{
	struct tt_rest *rest = wire->free_rests;

	if (rest) {
		wire->free_rests = rest->next;
		return rest;
	}
	wire->stats.allocations++;
	return malloc(sizeof(*rest));
}

void tt_pieces_start(struct tt_chan *chan, struct tt_xfer *x, const struct tt_ctrl *offer)
{
	struct tt_rest *rest = rest_get(chan->wire);

	if (!rest) {
		tt_xfer_end(x, NULL, -ENOMEM);
		return;
	}
	*rest = (struct tt_rest){.remote = offer->addr, .rkey = offer->rkey};
	x->state = TT_X_PUTTING;
	x->token = offer->token;
	x->cut = true;
	x->rest = rest;
	x->pieces = 0;
	tt_list_del(&x->link);
	enqueue(chan, x, false);
	tt_pieces_flush(chan);
}

bool tt_pieces_begun(const struct tt_xfer *x)
{
	return x->rest->posted;
}

void tt_pieces_cancel(struct tt_xfer *x)
{
	struct tt_wire *wire = x->chan->wire;
	struct tt_list *l, *tmp;

	tt_list_each(l, tmp, &x->chan->inflight)
	{
		struct tt_wr *wr = tt_container(l, struct tt_wr, link);

		if (wr->done != piece_done || tt_container(wr, struct tt_piece, wr)->x != x)
			continue;
		tt_wire_drop_events(wire, NULL, wr);
		tt_list_del(&wr->link);
		wire->inflight--;
		piece_put(tt_container(wr, struct tt_piece, wr));
	}
	rest_put(x);
}

void tt_pieces_fail(struct tt_chan *chan, int status)
{
	while (!tt_list_empty(&chan->pieceq))
		stop(tt_container(chan->pieceq.next, struct tt_xfer, link), status);
}

void tt_pieces_free(struct tt_wire *wire)
{
	struct tt_piece *p;
	struct tt_rest *rest;

	while ((p = wire->free_pieces)) {
		wire->free_pieces = p->next;
		free(p);
	}
	while ((rest = wire->free_rests)) {
		wire->free_rests = rest->next;
		free(rest);
	}
}

void tt_wire_pace(struct tt_wire *wire)
{
	if (!wire->window)
		wire->window = WINDOW;
	wire->paced = true;
}

size_t tt_wire_window(const struct tt_wire *wire)
{
	return wire->paced ? wire->window : 0;
}

/* ---- receiving ---- */

void tt_piece_landed(struct tt_wire *wire, uint32_t token)
{
	struct tt_token *t = tt_token_find(wire, token);
	struct tt_xfer *x;

	if (t && t->kind == TT_TOKEN_ORPHAN) {
		tt_orphan_piece(wire, t->target);
		return;
	}
	if (!t || t->kind != TT_TOKEN_XFER)
		return;
	x = t->target;
	if (!x->cut) {
		x->cut = true;
		x->pieces = 0;
	}
	if (++x->pieces == count(x->len))
		tt_xfer_landed(wire, x);
}

uint64_t tt_pieces_missing(const struct tt_xfer *x)
{
	return x->cut ? count(x->len) - x->pieces : count(x->len);
}
