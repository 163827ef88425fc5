/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short messages between ranks of one host: the transport carries them whole (tt_wire_brief), and a
 * blocking call ends here without a request. A send ends if it may go now. A receive ends if its
 * message has come whole, or is the next of its peer and no other receive, probe or message has a
 * claim before it; it looks for that message for a few microseconds. A nonblocking send that may go
 * now, and a nonblocking receive whose message is there, get a request that has ended; another
 * receive of a short message gets one that waits. Of a long message only the head is brief.
 * Everything else, errors included, is left to requests of the usual way: what a call finds here
 * stays where it is.
 */
#include <string.h>

#include "lib/base/copy.h"
#include "lib/p2p/p2p.h"

#define LOOKS 512	/* for a message; a few microseconds */
#define LOCKED_LOOKS 32 /* without giving up the lock */
#define PAUSE_LOOKS 8	/* between pauses of the core */
#define POLLS 16	/* receives between looks at everything else */
/* Longest nonblocking brief message from memory that the peer can read in place: above it, one copy
   by the peer is faster. */
#define MOST (TT_BRIEF_MAX / 2)

/* Nothing waits for a call to take care of it, and nobody wants to see each step. */
static bool is_calm(const struct tutti_comm *comm)
{
	const struct tutti_context *ctx = comm->ctx;

	return !atomic_load_explicit(&comm->failed, memory_order_relaxed) && !comm->ndead &&
	       !ctx->reap_due && !ctx->trace &&
	       !atomic_load_explicit(&ctx->dump_due, memory_order_relaxed);
}

static void record(struct tutti_comm *comm, const struct tt_p2p_call *call, uint64_t start)
{
	struct tt_flight_op op = {
		.comm = comm->uid, .count = call->count, .peer = call->rank, .tag = call->tag};

	tt_record_brief(comm->ctx, call->kind == TT_P2P_SEND ? "send" : "recv", call->datatype, &op,
			start);
}

/* ---- sending ---- */

static inline bool push(struct tt_p2p_peer *peer, const struct tt_p2p_call *call, uint32_t seq,
			uint32_t bare, const void *data, size_t len)
{
	struct tutti_comm *comm = peer->p2p->comm;
	struct tt_brief head = {.comm = peer->p2p->port.comm,
				.seq = seq,
				.lane = (uint32_t)call->tag | bare,
				.index = (uint32_t)comm->rank,
				.port = tt_p2p_head(call)};

	return peer->open &&
	       tt_wire_brief(comm->ctx->wire, comm->world[peer->rank], &head, data, len);
}

static bool send_brief(struct tt_p2p_peer *peer, const struct tt_p2p_call *call, uint32_t seq,
		       size_t bytes)
{
	return (int32_t)(seq - peer->whole) < 0 && push(peer, call, seq, 0, call->buf, bytes);
}

bool tt_p2p_announce_brief(struct tt_p2p_peer *peer, const struct tt_p2p_call *call, uint32_t seq,
			   size_t bytes, struct tt_kept *kept)
{
	struct tutti_comm *comm = peer->p2p->comm;
	struct tt_bare bare = {.total = bytes};

	if (call->buf && tt_wire_has_brief(comm->ctx->wire, comm->world[peer->rank]))
		bare.kept = tt_wire_keep(comm->ctx->wire, comm->world[peer->rank], call->buf);
	if (!push(peer, call, seq, TT_BRIEF_BARE, &bare, sizeof(bare)))
		return false;
	*kept = bare.kept;
	return true;
}

bool tt_p2p_send_brief(struct tt_p2p_peer *peer, const struct tt_p2p_call *call, uint32_t seq,
		       size_t bytes, const struct tt_region *region)
{
	return bytes <= (region ? MOST : TT_BRIEF_MAX) && (call->buf || !bytes) &&
	       send_brief(peer, call, seq, bytes);
}

static bool send_now(struct tt_p2p *p2p, struct tt_p2p_peer *peer, const struct tt_p2p_call *call,
		     size_t bytes, size_t most)
{
	if (bytes > most || !tt_list_empty(&peer->held) ||
	    (int32_t)(peer->seq - peer->limit) >= 0 || !tt_p2p_is_whole(p2p, call->buf, bytes) ||
	    !send_brief(peer, call, peer->seq, bytes))
		return false;
	peer->seq++;
	record(p2p->comm, call, 0);
	return true;
}

/* ---- receiving ---- */

/* A message of peer that comes now is the next for a receive that starts now. */
static bool is_next(const struct tt_p2p *p2p, const struct tt_p2p_peer *peer)
{
	return tt_list_empty(&peer->arrived) && tt_list_empty(&peer->ahead) &&
	       tt_list_empty(&peer->posted) && tt_list_empty(&p2p->any) &&
	       tt_list_empty(&p2p->probes);
}

static bool fits(const struct tt_p2p *p2p, const struct tt_p2p_peer *peer,
		 const struct tt_p2p_call *call, size_t bytes, const struct tt_brief_peek *peek)
{
	const struct tt_brief *head = peek->head;

	return head->comm == p2p->port.comm && head->index == (uint32_t)peer->rank &&
	       head->seq == peer->expected && head->lane <= TUTTI_TAG_MAX &&
	       (call->tag < 0 || head->lane == (uint32_t)call->tag) && peek->len <= bytes &&
	       !(head->port & TT_P2P_SYNC) &&
	       (!peek->len || tt_p2p_type(head->port) == call->datatype);
}

static void receive(struct tt_p2p *p2p, struct tt_p2p_peer *peer, const struct tt_p2p_call *call,
		    const struct tt_brief_peek *peek)
{
	struct tutti_comm *comm = p2p->comm;

	if (peek->len)
		tt_copy_data(call->buf, peek->data, peek->len);
	tt_p2p_tell(call->status, peer->rank, (int)peek->head->lane, peek->len, peek->head->port);
	tt_wire_stats(comm->ctx->wire)->copied_bytes += peek->len;
	tt_wire_brief_take(comm->ctx->wire, comm->world[peer->rank]);
	peer->expected++;
	tt_p2p_grant(peer);
}

/* Everything else that has come, and what it makes ready. */
static void look_around(struct tutti_context *ctx)
{
	tt_engine_progress(ctx);
	tt_wire_leave(ctx->wire);
}

static bool recv_soon(struct tt_p2p *p2p, struct tt_p2p_peer *peer, const struct tt_p2p_call *call,
		      size_t bytes)
{
	struct tutti_context *ctx = p2p->comm->ctx;
	bool spin = ctx->wait_mode == TT_WAIT_SPIN &&
		    !atomic_load_explicit(&ctx->shares_core, memory_order_relaxed);
	int look, world = p2p->comm->world[peer->rank];
	struct tutti_message *msg;
	struct tt_brief_peek peek;
	uint64_t start = tt_ticks();

	if (!tt_p2p_is_whole(p2p, call->buf, bytes))
		return false;
	if (ctx->running || ++p2p->briefs % POLLS == 0)
		look_around(ctx);
	for (look = 1; is_calm(p2p->comm) && is_next(p2p, peer); look++) {
		switch (tt_wire_brief_peek(ctx->wire, world, &peek)) {
		case TT_PEEK_BRIEF:
			if (fits(p2p, peer, call, bytes, &peek)) {
				receive(p2p, peer, call, &peek);
				record(p2p->comm, call, start);
				return true;
			}
			look_around(ctx);
			break;
		case TT_PEEK_OTHER:
			look_around(ctx);
			break;
		default:
			break;
		}
		if (!spin || look == LOOKS)
			return false;
		if (look % PAUSE_LOOKS == 0)
			tt_cpu_relax();
		if (look % LOCKED_LOOKS == 0) {
			tt_wire_unlock(ctx->wire);
			tt_wire_lock(ctx->wire);
		}
	}
	msg = is_calm(p2p->comm) ? tt_p2p_arrived_whole(peer, call, bytes) : NULL;
	if (!msg)
		return false;
	tt_p2p_recv_arrived(call, msg);
	record(p2p->comm, call, start);
	return true;
}

static struct tutti_request *send_at_once(struct tt_p2p *p2p, struct tt_p2p_peer *peer,
					  const struct tt_p2p_call *call, size_t bytes)
{
	struct tutti_request *req = tt_p2p_ended(p2p, TT_P2P_SEND);

	if (req && !send_now(p2p, peer, call, bytes, MOST)) {
		tt_request_free(req);
		return NULL;
	}
	return req;
}

/* One look, if messages have come before their receives; what has not come is waited for. */
static struct tutti_request *recv_at_once(struct tt_p2p *p2p, struct tt_p2p_peer *peer,
					  const struct tt_p2p_call *call, size_t bytes)
{
	struct tutti_context *ctx = p2p->comm->ctx;
	struct tutti_message *msg = NULL;
	struct tutti_request *req;
	struct tt_brief_peek peek;
	bool came;

	if (!peer->early)
		return NULL;
	if (is_next(p2p, peer)) {
		came = tt_wire_brief_peek(ctx->wire, p2p->comm->world[peer->rank], &peek) ==
			       TT_PEEK_BRIEF &&
		       fits(p2p, peer, call, bytes, &peek);
		peer->early = came;
	} else {
		msg = tt_p2p_arrived_whole(peer, call, bytes);
		came = msg;
	}
	if (!came || !tt_p2p_is_whole(p2p, call->buf, bytes))
		return NULL;
	req = tt_p2p_ended(p2p, TT_P2P_RECV);
	if (!req)
		return NULL;
	if (msg)
		tt_p2p_recv_arrived(call, msg);
	else
		receive(p2p, peer, call, &peek);
	record(p2p->comm, call, 0);
	if (++p2p->briefs % POLLS == 0)
		look_around(ctx);
	return req;
}

struct tutti_request *tt_p2p_start_brief(struct tutti_comm *comm, const struct tt_p2p_call *call)
{
	struct tt_p2p_peer *peer =
		comm->p2p && call->rank >= 0 ? comm->p2p->peer[call->rank] : NULL;
	size_t bytes = call->count * tutti_datatype_size(call->datatype);
	struct tutti_request *req;

	if (!peer || !peer->open || call->sync || !is_calm(comm))
		return NULL;
	if (call->kind == TT_P2P_SEND)
		return send_at_once(comm->p2p, peer, call, bytes);
	if (call->kind == TT_P2P_PROBE || call->taken)
		return NULL;
	req = recv_at_once(comm->p2p, peer, call, bytes);
	return req || !tt_list_empty(&peer->arrived) ? req : tt_p2p_post(peer, call, bytes);
}

bool tt_p2p_at_once(struct tutti_comm *comm, const struct tt_p2p_call *call)
{
	size_t bytes = call->count * tutti_datatype_size(call->datatype);
	struct tt_p2p_peer *peer;
	bool over = false;

	if (call->rank < 0 || call->sync || call->kind == TT_P2P_PROBE)
		return false;
	tt_wire_lock(comm->ctx->wire);
	peer = comm->p2p ? comm->p2p->peer[call->rank] : NULL;
	if (peer && peer->open && is_calm(comm))
		over = call->kind == TT_P2P_SEND
			       ? send_now(comm->p2p, peer, call, bytes, TT_BRIEF_MAX)
			       : recv_soon(comm->p2p, peer, call, bytes);
	tt_wire_unlock(comm->ctx->wire);
	return over;
}

bool tt_p2p_send_of_both(struct tutti_comm *comm, const struct tt_p2p_call *send,
			 const struct tt_p2p_call *recv)
{
	size_t bytes = recv->count * tutti_datatype_size(recv->datatype);
	bool over;

	tt_wire_lock(comm->ctx->wire);
	over = comm->p2p && tt_p2p_is_whole(comm->p2p, recv->buf, bytes) &&
	       tt_p2p_at_once(comm, send);
	tt_wire_unlock(comm->ctx->wire);
	return over;
}
