/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending: heads as credit allows, in order; then the payload, if it was not sent along. */
#include <errno.h>

#include "lib/p2p/p2p.h"

/* The head has left: short messages are done, longer ones wait for a match. */
static void head_left(struct tt_xfer *x, const void *data, int status)
{
	struct tt_p2p_req *req = tt_container(x, struct tt_p2p_piece, x)->req;

	(void)data;
	if (status) {
		tt_request_broken(&req->r, x->peer, status);
		return;
	}
	req->r.progressed = true;
	if (x->whole && !req->call.sync) {
		tt_request_end(&req->r, 0);
		return;
	}
	tt_list_add(&req->p2p->peer[req->peer]->announced, &req->link);
	if (!x->whole)
		tt_p2p_payload(req);
}

static void announce(struct tt_p2p_req *req)
{
	struct tt_p2p_peer *peer = req->p2p->peer[req->peer];
	struct tutti_comm *comm = req->p2p->comm;
	struct tt_xfer *x = &req->piece[0].x;

	x->whole = tt_p2p_send_brief(peer, &req->call, req->seq, req->total, req->region);
	if (x->whole ||
	    (req->total > (size_t)comm->ctx->env.eager.number &&
	     tt_p2p_announce_brief(peer, &req->call, req->seq, req->total, &req->kept))) {
		head_left(x, NULL, 0);
		return;
	}
	x->kind = TT_XFER_PORT;
	x->bare = (int32_t)(req->seq - peer->whole) >= 0;
	x->peer = comm->world[req->peer];
	x->key = tt_p2p_key(req->p2p, comm->rank, req->seq, req->tag);
	x->key.port = tt_p2p_head(&req->call);
	x->fprint = x->len = req->total;
	x->buf = req->call.buf;
	x->region = req->region;
	x->fn = head_left;
	tt_wire_send(comm->ctx->wire, x);
}

void tt_p2p_send(struct tt_p2p_req *req)
{
	struct tt_p2p_peer *peer = req->p2p->peer[req->call.rank];

	req->peer = req->call.rank;
	req->kept.key[0] = 0;
	if (req->p2p->comm->ndead && tt_comm_dead(req->p2p->comm, req->peer) >= 0) {
		tt_request_end(&req->r, -TUTTI_EPEER);
		return;
	}
	if (peer->freed) {
		tt_request_end(&req->r, -EACCES);
		return;
	}
	req->tag = req->call.tag;
	req->total = req->bytes;
	req->seq = peer->seq++;
	if (tt_list_empty(&peer->held) && (int32_t)(req->seq - peer->limit) < 0)
		announce(req);
	else
		tt_list_add(&peer->held, &req->link);
}

static void credit(struct tt_p2p_peer *peer, uint32_t limit, uint32_t whole)
{
	if ((int32_t)(limit - peer->limit) > 0)
		peer->limit = limit;
	if ((int32_t)(whole - peer->whole) > 0)
		peer->whole = whole;
	while (!tt_list_empty(&peer->held)) {
		struct tt_p2p_req *req = tt_container(peer->held.next, struct tt_p2p_req, link);

		if ((int32_t)(req->seq - peer->limit) >= 0)
			break;
		tt_list_del(&req->link);
		announce(req);
	}
}

static void end_announced(struct tt_p2p_peer *peer, uint32_t seq, int status)
{
	struct tt_list *l, *tmp;

	tt_list_each(l, tmp, &peer->announced)
	{
		struct tt_p2p_req *req = tt_container(l, struct tt_p2p_req, link);

		if (req->seq != seq)
			continue;
		req->kept.key[0] = 0; /* the receiver reads it no more */
		req->r.ops->cancel(&req->r);
		tt_request_end(&req->r, status);
		return;
	}
}

/*
 * The receiver has dropped this message. Unless it still waits for others (more), those that wait
 * for credit need not be sent.
 */
static void freed(struct tt_p2p_peer *peer, uint32_t seq, bool more)
{
	end_announced(peer, seq, -EACCES);
	if (more)
		return;
	peer->freed = true;
	while (!tt_list_empty(&peer->held)) {
		struct tt_p2p_req *req = tt_container(peer->held.next, struct tt_p2p_req, link);

		tt_list_del(&req->link);
		tt_request_end(&req->r, -EACCES);
	}
}

void tt_p2p_said(struct tt_port *port, int from, uint32_t what, const struct tt_key *key,
		 uint64_t a, uint64_t b)
{
	struct tt_p2p *p2p = tt_container(port, struct tt_p2p, port);
	struct tt_p2p_peer *peer;

	if (key->index >= (uint32_t)p2p->comm->size || p2p->comm->world[key->index] != from)
		return;
	peer = p2p->peer[key->index];
	if (!peer)
		return;
	if (what == TT_P2P_FREED)
		freed(peer, key->seq, a);
	peer->open = !peer->freed;
	if (what == TT_P2P_CREDIT)
		credit(peer, (uint32_t)a, (uint32_t)b);
	/* read, dropped, as it does not fit, or matched after it went whole: complete here */
	else if (what == TT_P2P_DONE || what == TT_P2P_MATCHED)
		end_announced(peer, key->seq, 0);
}
