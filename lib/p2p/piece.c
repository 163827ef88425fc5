/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Payloads that stayed with their sender travel in pieces, a few at a time, each into memory
 * offered by the receiver. Unregistered memory thus passes through a bounded part of the pool, and
 * so do layouts: a sender packs a piece when it has an offer for it, a receiver unpacks a piece
 * when it is there. Both ends cut in the same way: if both have brief messages, the sender learns
 * from the first offer how long the pieces are.
 */
#include "lib/base/copy.h"
#include "lib/p2p/p2p.h"

#define PAYLOAD 0x80000000u /* in the lane of the key */
#define LONG_PIECES 2	    /* of p2p->most bytes, under way together */
/* bytes of pieces that are cut short, but of long messages */
#define CUT_LEAST (8u << 10)
#define CUT_MOST (64u << 10)
#define CUT_SHARE 32 /* of a long message at least 1 / this */

static void piece_over(struct tt_xfer *x, const void *data, int status);

static void pack(const struct tt_source *source, void *to, size_t len)
{
	const struct tt_p2p_piece *piece = tt_container(source, struct tt_p2p_piece, source);
	struct tt_place place = piece->place;

	tt_byte_blocks_gather(piece->req->layout, &place, piece->req->base, to, len);
}

void tt_p2p_unpack(struct tt_p2p_req *req, struct tt_place place, const void *data, size_t len)
{
	tt_byte_blocks_scatter(req->layout, &place, req->base, data, len);
}

/* Where the piece of x->len bytes is here. */
static void set_memory(struct tt_p2p_piece *piece)
{
	struct tt_p2p_req *req = piece->req;
	struct tt_xfer *x = &piece->x;

	x->region = req->region;
	x->fill = req->layout && req->call.kind == TT_P2P_SEND;
	if (!req->layout) {
		x->buf = (char *)req->call.buf + req->next;
		return;
	}
	x->buf = x->fill ? &piece->source : NULL;
	piece->source.fill = pack;
	piece->place = req->place;
	tt_byte_blocks_skip(req->layout, &req->place, x->len);
}

static int world_rank(const struct tt_p2p_req *req)
{
	return req->p2p->comm->world[req->peer];
}

/* Its payload goes through the pool here, and through caches that both ranks use. */
static bool bounces(const struct tt_p2p_req *req)
{
	return req->call.kind == TT_P2P_RECV && !req->region &&
	       tt_wire_has_brief(req->p2p->comm->ctx->wire, world_rank(req));
}

static struct tt_p2p_peer *peer_of(const struct tt_p2p_req *req)
{
	return req->p2p->peer[req->peer];
}

/*
 * The receiver's choice. If a message goes through the pool alone, shorter pieces let this rank
 * copy one while the sender copies the next; while others are under way that happens anyway.
 */
static size_t length_of_pieces(const struct tt_p2p_req *req)
{
	size_t len = req->total / TT_P2P_PIECES, most = req->p2p->most;

	if (peer_of(req)->bounce ||
	    !tt_wire_hears_brief(req->p2p->comm->ctx->wire, world_rank(req)))
		return most;
	len = len < CUT_LEAST ? CUT_LEAST : len > CUT_MOST ? CUT_MOST : len;
	if (len < req->total / CUT_SHARE)
		len = req->total / CUT_SHARE;
	len &= ~(size_t)(TT_OFFER_LEAST - 1);
	return len < most ? len : most;
}

static void start_piece(struct tt_p2p_piece *piece)
{
	struct tt_p2p_req *req = piece->req;
	struct tutti_comm *comm = req->p2p->comm;
	bool send = req->call.kind == TT_P2P_SEND;
	size_t left = req->total - req->next, most = req->most ? req->most : req->p2p->most;
	struct tt_xfer *x = &piece->x;

	x->kind = TT_XFER_OFFER;
	x->peer = comm->world[req->peer];
	x->key = tt_p2p_key(req->p2p, (int)(req->next / most), req->seq, req->tag);
	x->key.lane |= PAYLOAD;
	x->key.port = 0;
	x->fprint = req->total;
	x->len = left < most ? left : most;
	x->shorter = !req->most;
	x->fn = piece_over;
	set_memory(piece);
	req->next += x->len;
	req->pieces++;
	if (send)
		tt_wire_send(comm->ctx->wire, x);
	else
		tt_wire_recv(comm->ctx->wire, x);
}

static void over(struct tt_p2p_req *req)
{
	tt_list_del(&req->link);
	tt_request_end(&req->r, 0);
}

/* As many pieces as may be under way, but those before `from`. */
static void start_pieces(struct tt_p2p_req *req, int from)
{
	int i, n = !req->most ? 1 : req->most < req->p2p->most ? TT_P2P_PIECES : LONG_PIECES;

	for (i = from; i < n && req->next < req->total; i++)
		start_piece(&req->piece[i]);
}

/* The first piece has been sent: all are as long, but the last. */
static void learn_length(struct tt_p2p_req *req, size_t len)
{
	req->most = req->next = len;
	if (req->layout) {
		req->place = (struct tt_place){0};
		tt_byte_blocks_skip(req->layout, &req->place, len);
	}
	start_pieces(req, 1);
}

static void piece_over(struct tt_xfer *x, const void *data, int status)
{
	struct tt_p2p_piece *piece = tt_container(x, struct tt_p2p_piece, x);
	struct tt_p2p_req *req = piece->req;

	if (status) {
		tt_request_broken(&req->r, x->peer, status);
		return;
	}
	if (req->call.kind == TT_P2P_RECV && data != x->buf) {
		if (req->layout)
			tt_p2p_unpack(req, piece->place, data, x->len);
		else if (tt_wire_has_brief(req->p2p->comm->ctx->wire, x->peer))
			tt_copy_out(x->buf, (void *)data, x->len); /* of the pool */
		else
			tt_copy_long(x->buf, data, x->len);
		tt_wire_stats(req->p2p->comm->ctx->wire)->copied_bytes += x->len;
	}
	req->r.progressed = true;
	if (!req->most)
		learn_length(req, x->len);
	req->pieces--;
	if (req->next < req->total)
		start_piece(piece);
	else if (!req->pieces)
		over(req);
}

/* The count starts at one too many, as pieces may end while others start. */
static void start(struct tt_p2p_req *req)
{
	req->next = 0;
	req->place = (struct tt_place){0};
	req->pieces = 1;
	start_pieces(req, 0);
	if (--req->pieces == 0)
		over(req);
}

/* At most this many bytes of the pool are taken at once. */
static size_t share_of(const struct tt_p2p_req *req)
{
	size_t most = req->most < req->p2p->most ? TT_P2P_PIECES * req->most
						 : LONG_PIECES * req->p2p->most;

	return req->total < most ? req->total : most;
}

static void start_bounce(struct tt_p2p_req *req)
{
	req->most = length_of_pieces(req);
	req->bounce = share_of(req);
	peer_of(req)->bounce += req->bounce;
	peer_of(req)->longer += req->total > TT_P2P_SHORT;
	start(req);
}

static void pulled(struct tt_p2p_req *req)
{
	tt_p2p_came(req);
	tt_p2p_say(req, TT_P2P_DONE);
	over(req);
}

/* A short payload does not wait for those before it. */
static void bring_now(struct tt_p2p_req *req)
{
	req->next = 0;
	if (tt_p2p_pulls(req) && tt_p2p_read_piece(req))
		pulled(req);
	else
		start_bounce(req);
}

static void bring_next(struct tt_p2p_peer *peer, bool may_read);

static void go_on(struct tt_stalled *stalled)
{
	bring_next(tt_container(stalled, struct tt_p2p_peer, pull), true);
}

/* The first one is read, a piece for each look at the transports, so that others get a turn. */
static void read_later(struct tt_p2p_peer *peer)
{
	struct tutti_context *ctx = peer->p2p->comm->ctx;

	peer->pull.again = go_on;
	tt_list_del(&peer->pull.link);
	tt_list_add(&ctx->stalled, &peer->pull.link);
	if (ctx->thread_runs)
		tt_wire_started(ctx->wire);
}

/*
 * Starts payloads that wait. All that go through the pool share a part of it. Longer ones and one
 * that is read wait for each other, as otherwise none could be measured.
 */
static void bring_next(struct tt_p2p_peer *peer, bool may_read)
{
	const struct tutti_comm *comm = peer->p2p->comm;

	tt_list_del(&peer->pull.link);
	if (atomic_load(&comm->failed) || (comm->ndead && tt_comm_dead(comm, peer->rank) >= 0))
		return; /* what waits ends with an error */
	while (!tt_list_empty(&peer->waiting) && peer->bounce < TT_P2P_BOUNCE) {
		struct tt_p2p_req *req = tt_container(peer->waiting.next, struct tt_p2p_req, link);

		if (req->waits)
			req->pulls = tt_p2p_pulls(req);
		req->waits = false;
		if (!req->pulls) {
			tt_list_del(&req->link);
			start_bounce(req);
		} else if (peer->longer) {
			return;
		} else if (!may_read) {
			read_later(peer);
			return;
		} else if (!tt_p2p_read_piece(req)) {
			req->pulls = false;
		} else {
			may_read = false;
			if (req->next == req->total)
				pulled(req);
		}
	}
}

void tt_p2p_payload(struct tt_p2p_req *req)
{
	bool learns = req->call.kind == TT_P2P_SEND &&
		      tt_wire_has_brief(req->p2p->comm->ctx->wire, world_rank(req));

	if (!bounces(req)) {
		req->most = learns ? 0 : req->p2p->most;
		start(req);
	} else if (req->total <= TT_P2P_SHORT) {
		bring_now(req);
	} else {
		struct tt_p2p_peer *peer = peer_of(req);

		req->next = 0;
		req->pieces = 0;
		req->waits = true;
		tt_list_add(&peer->waiting, &req->link);
		bring_next(peer, tt_list_empty(&peer->pull.link));
	}
}

void tt_p2p_end_payload(struct tt_p2p_req *req)
{
	struct tt_p2p_peer *peer;

	if (!req->bounce)
		return;
	tt_p2p_came(req);
	peer = peer_of(req);
	peer->bounce -= req->bounce;
	peer->longer -= req->total > TT_P2P_SHORT;
	req->bounce = 0;
	bring_next(peer, false);
}
