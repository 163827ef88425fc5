/* SPDX-License-Identifier: BSD-3-Clause */
/* Receiving: puts messages in order, matches them, and grants credit. */
#include <errno.h>
#include <string.h>

#include "lib/base/copy.h"
#include "lib/p2p/p2p.h"

/* ---- credit ---- */

/*
 * Sends peer its new limit if that changed enough; waits: a receive has found no matching message.
 */
static void grant(struct tt_p2p *p2p, struct tt_p2p_peer *peer, bool waits)
{
	uint32_t whole = peer->matched + TT_P2P_WINDOW, limit = peer->said_limit;
	struct tutti_comm *comm = p2p->comm;
	struct tt_key key;

	if ((int32_t)(whole - limit) > 0)
		limit = whole;
	if (waits && (int32_t)(peer->expected + TT_P2P_WINDOW / 2 - limit) >= 0)
		limit = peer->expected + TT_P2P_WINDOW;
	if (limit - peer->said_limit < TT_P2P_WINDOW / 2 &&
	    whole - peer->said_whole < TT_P2P_WINDOW / 2)
		return;
	peer->said_limit = limit;
	peer->said_whole = whole;
	key = tt_p2p_key(p2p, comm->rank, 0, 0);
	tt_wire_port_say(comm->ctx->wire, comm->world[peer->rank], TT_P2P_CREDIT, &key, limit,
			 whole);
}

/* The first message of peer, which may send brief messages once it knows that this port is open. */
static void greet(struct tt_p2p *p2p, struct tt_p2p_peer *peer)
{
	struct tutti_comm *comm = p2p->comm;
	struct tt_key key = tt_p2p_key(p2p, comm->rank, 0, 0);

	peer->greeted = true;
	if (tt_wire_has_brief(comm->ctx->wire, comm->world[peer->rank]))
		tt_wire_port_say(comm->ctx->wire, comm->world[peer->rank], TT_P2P_CREDIT, &key,
				 peer->said_limit, peer->said_whole);
}

void tt_p2p_grant(struct tt_p2p_peer *peer)
{
	peer->matched++;
	grant(peer->p2p, peer, false);
}

/* A receive or probe matches no arrived message. */
static void want(struct tt_p2p *p2p, int rank)
{
	int i;

	if (rank >= 0) {
		grant(p2p, p2p->peer[rank], true);
		return;
	}
	/* no peer can be out of credit before that many wait */
	for (i = 0; p2p->narrived >= TT_P2P_WINDOW / 4 && i < p2p->comm->size; i++)
		if (p2p->peer[i])
			grant(p2p, p2p->peer[i], true);
}

/* ---- matching ---- */

static bool fits(const struct tt_p2p_req *req, const struct tt_p2p_peer *peer, int tag)
{
	return (req->call.rank < 0 || req->call.rank == peer->rank) &&
	       (req->call.tag < 0 || req->call.tag == tag);
}

static struct tt_p2p_req *first_fit(struct tt_list *list, const struct tt_p2p_peer *peer, int tag)
{
	struct tt_list *l, *tmp;

	tt_list_each(l, tmp, list)
	{
		struct tt_p2p_req *req = tt_container(l, struct tt_p2p_req, link);

		if (fits(req, peer, tag))
			return req;
	}
	return NULL;
}

/* The earliest posted receive that matches a message from peer. */
static struct tt_p2p_req *find_posted(struct tt_p2p *p2p, struct tt_p2p_peer *peer, int tag)
{
	struct tt_p2p_req *own = first_fit(&peer->posted, peer, tag), *any;

	if (tt_list_empty(&p2p->any))
		return own;
	any = first_fit(&p2p->any, peer, tag);
	if (!own || !any)
		return own ? own : any;
	return own->stamp < any->stamp ? own : any;
}

/* Its sender has failed and kept the payload. */
static bool is_lost(const struct tt_p2p *p2p, const struct tutti_message *msg)
{
	return p2p->comm->ndead && msg->total && !msg->data &&
	       tt_comm_dead(p2p->comm, msg->peer->rank) >= 0;
}

/* A message that must be received before msg is lost. */
static bool follows_lost(const struct tt_p2p *p2p, const struct tutti_message *msg, int tag)
{
	struct tt_list *l, *tmp;

	if (!p2p->comm->ndead)
		return false;
	tt_list_each(l, tmp, &msg->peer->arrived)
	{
		const struct tutti_message *before = tt_container(l, struct tutti_message, link);

		if (before == msg)
			return false;
		if ((tag < 0 || before->tag == tag) && is_lost(p2p, before))
			return true;
	}
	return false;
}

/* A lost message is not passed over: a receive of the next one would take it for the lost one. */
static struct tutti_message *find_arrived(struct tt_p2p *p2p, int rank, int tag)
{
	struct tt_list *l, *tmp, *list = rank < 0 ? &p2p->arrived : &p2p->peer[rank]->arrived;

	tt_list_each(l, tmp, list)
	{
		struct tutti_message *msg = rank < 0 ? tt_container(l, struct tutti_message, all)
						     : tt_container(l, struct tutti_message, link);

		if ((tag < 0 || msg->tag == tag) && !is_lost(p2p, msg) &&
		    !follows_lost(p2p, msg, tag))
			return msg;
	}
	return NULL;
}

void tt_p2p_tell(struct tutti_status *status, int source, int tag, size_t bytes, uint32_t head)
{
	if (!status)
		return;
	status->source = source;
	status->tag = tag;
	status->bytes = bytes;
	status->datatype = tt_p2p_type(head);
}

void tt_p2p_say(const struct tt_p2p_req *req, uint32_t what)
{
	struct tutti_comm *comm = req->p2p->comm;
	struct tt_key key = tt_p2p_key(req->p2p, comm->rank, req->seq, req->tag);

	tt_wire_port_say(comm->ctx->wire, comm->world[req->peer], what, &key, 0, 0);
}

/*
 * req gets this message: its data (NULL: none), or the payload that its sender keeps. A message
 * without a payload has no elements that could differ in type.
 */
static void take(struct tt_p2p_req *req, const struct tutti_message *msg, const void *data)
{
	struct tutti_comm *comm = req->p2p->comm;
	struct tt_p2p_peer *peer = msg->peer;
	bool differs = msg->total && tt_p2p_type(msg->head) != req->call.datatype;
	size_t total = msg->total;

	tt_list_del(&req->link);
	req->peer = peer->rank;
	req->seq = msg->seq;
	req->tag = msg->tag;
	req->total = total;
	req->head = msg->head;
	req->kept = msg->kept;
	req->r.progressed = true;
	tt_p2p_tell(req->call.status, peer->rank, msg->tag, total, msg->head);
	if (msg->head & TT_P2P_SYNC && (data || !total))
		tt_p2p_say(req, TT_P2P_MATCHED);
	if (differs || total > req->bytes) {
		if (!data)
			tt_p2p_say(req, TT_P2P_DONE);
		tt_request_end(&req->r, differs ? -TUTTI_EMISMATCH : -EMSGSIZE);
	} else if (data) {
		if (req->layout)
			tt_p2p_unpack(req, (struct tt_place){0}, data, total);
		else
			tt_copy_data(req->call.buf, data, total);
		tt_wire_stats(comm->ctx->wire)->copied_bytes += total;
		tt_request_end_at(&req->r, 0, tt_wire_ticks(comm->ctx->wire));
	} else if (!total) {
		tt_request_end(&req->r, 0);
	} else {
		tt_p2p_payload(req);
	}
	tt_p2p_grant(peer);
}

/* Fast path of take(): a short message that fits, and whose sender does not wait for the match. */
static inline bool take_short(struct tt_p2p_req *req, struct tt_p2p_peer *peer,
			      const struct tt_key *key, const void *data, uint32_t len)
{
	struct tt_wire *wire = peer->p2p->comm->ctx->wire;

	if (!len || len > req->bytes || req->layout || key->port & TT_P2P_SYNC ||
	    tt_p2p_type(key->port) != req->call.datatype)
		return false;
	tt_list_del(&req->link);
	req->peer = peer->rank;
	tt_p2p_tell(req->call.status, peer->rank, (int)key->lane, len, key->port);
	tt_copy_data(req->call.buf, data, len);
	tt_wire_stats(wire)->copied_bytes += len;
	tt_request_end_at(&req->r, 0, tt_wire_ticks(wire));
	tt_p2p_grant(peer);
	return true;
}

struct tutti_message *tt_p2p_arrived_whole(struct tt_p2p_peer *peer, const struct tt_p2p_call *call,
					   size_t bytes)
{
	struct tutti_message *msg = find_arrived(peer->p2p, call->rank, call->tag);

	return msg && msg->data && msg->total <= bytes && !(msg->head & TT_P2P_SYNC) &&
			       tt_p2p_type(msg->head) == call->datatype
		       ? msg
		       : NULL;
}

void tt_p2p_recv_arrived(const struct tt_p2p_call *call, struct tutti_message *msg)
{
	struct tt_p2p_peer *peer = msg->peer;
	struct tt_p2p *p2p = peer->p2p;

	tt_copy_data(call->buf, msg->data, msg->total);
	tt_wire_stats(p2p->comm->ctx->wire)->copied_bytes += msg->total;
	tt_p2p_tell(call->status, peer->rank, msg->tag, msg->total, msg->head);
	p2p->narrived--;
	tt_p2p_drop(p2p, msg);
	tt_p2p_grant(peer);
}

void tt_p2p_take(struct tt_p2p *p2p, struct tutti_message *msg)
{
	tt_list_del(&msg->link);
	tt_list_del(&msg->all);
	tt_list_add(&p2p->taken, &msg->link);
	atomic_store(&msg->taken, true);
	p2p->narrived--;
}

/* The probe req finds this message. */
static void found(struct tt_p2p_req *req, struct tutti_message *msg)
{
	tt_list_del(&req->link);
	tt_p2p_tell(req->call.status, msg->peer->rank, msg->tag, msg->total, msg->head);
	if (req->call.message) {
		tt_p2p_take(req->p2p, msg);
		*req->call.message = msg;
	}
	tt_request_end(&req->r, 0);
}

/* A receive of a message that a matched probe has taken out, perhaps before its sender failed. */
static void recv_taken(struct tt_p2p_req *req, struct tutti_message *msg)
{
	if (!atomic_load(&msg->taken)) { /* by another call of its group, or in another thread */
		tt_request_end(&req->r, -EINVAL);
		return;
	}
	tt_list_del(&msg->link);
	if (is_lost(req->p2p, msg))
		tt_request_end(&req->r, -TUTTI_EPEER);
	else
		take(req, msg, msg->data);
	tt_p2p_drop(req->p2p, msg);
}

static bool needs_dead(const struct tt_p2p *p2p, int rank)
{
	return p2p->comm->ndead && tt_comm_dead(p2p->comm, rank) >= 0;
}

/*
 * Before a call fails because of a dead rank. What that rank has sent came before its connection
 * was closed, but messages of live ranks may be there.
 */
static void look_again(struct tt_p2p *p2p, int rank)
{
	if (rank < 0)
		tt_wire_drain(p2p->comm->ctx->wire);
}

/* req is posted, and fails unless it matches at once. */
static void give_up(struct tt_p2p_req *req)
{
	look_again(req->p2p, req->call.rank);
	if (req->peer >= 0 || atomic_load(&req->r.state) != TT_REQ_RUNNING)
		return;
	tt_list_del(&req->link);
	tt_request_end(&req->r, -TUTTI_EPEER);
}

void tt_p2p_recv(struct tt_p2p_req *req)
{
	struct tt_p2p *p2p = req->p2p;
	bool probe = req->call.kind == TT_P2P_PROBE;
	struct tutti_message *msg;

	req->peer = -1;
	req->stamp = p2p->stamp++;
	if (req->call.taken) {
		recv_taken(req, req->call.taken);
		return;
	}
	msg = find_arrived(p2p, req->call.rank, req->call.tag);
	if (msg && probe) {
		found(req, msg);
		return;
	}
	if (msg) {
		tt_list_del(&msg->link);
		tt_list_del(&msg->all);
		p2p->narrived--;
		take(req, msg, msg->data);
		tt_p2p_drop(p2p, msg);
		return;
	}
	tt_list_add(probe		 ? &p2p->probes
		    : req->call.rank < 0 ? &p2p->any
					 : &p2p->peer[req->call.rank]->posted,
		    &req->link);
	if (needs_dead(p2p, req->call.rank))
		give_up(req);
	else
		want(p2p, req->call.rank);
}

void tt_p2p_await(struct tt_p2p_req *req, struct tt_p2p_peer *peer)
{
	req->peer = -1;
	req->stamp = req->p2p->stamp++;
	tt_list_add(&peer->posted, &req->link);
	grant(req->p2p, peer, true);
}

struct tutti_message *tt_p2p_find(struct tt_p2p *p2p, int rank, int tag)
{
	struct tutti_message *msg = find_arrived(p2p, rank, tag);

	if (!msg && needs_dead(p2p, rank)) {
		look_again(p2p, rank);
		msg = find_arrived(p2p, rank, tag);
	}
	if (!msg)
		want(p2p, rank);
	return msg;
}

/* ---- arrival ---- */

static void out_of_memory(struct tt_p2p *p2p, struct tt_p2p_peer *peer)
{
	tt_comm_fail(p2p->comm, -ENOMEM, p2p->comm->world[peer->rank], "recv", 0, "",
		     "no memory for an unexpected message");
}

/* The first of several matched probes gets the message; the others wait on. */
static void answer_probes(struct tt_p2p *p2p, struct tutti_message *msg)
{
	struct tt_list *l, *tmp;
	struct tt_p2p_req *req, *takes = NULL;

	tt_list_each(l, tmp, &p2p->probes)
	{
		req = tt_container(l, struct tt_p2p_req, link);
		if (!fits(req, msg->peer, msg->tag))
			continue;
		if (!req->call.message)
			found(req, msg);
		else if (!takes)
			takes = req;
	}
	if (takes)
		found(takes, msg);
}

/* It is msg's turn, and no receive matches: it waits for one. */
static void wait_for_receive(struct tt_p2p *p2p, struct tutti_message *msg)
{
	struct tt_p2p_peer *peer = msg->peer;

	if (tt_p2p_is_over(p2p)) {
		tt_p2p_refuse(p2p, msg);
		tt_p2p_grant(peer);
		tt_p2p_drop(p2p, msg);
		return;
	}
	peer->early = true;
	tt_list_add(&peer->arrived, &msg->link);
	tt_list_add(&p2p->arrived, &msg->all);
	p2p->narrived++;
	answer_probes(p2p, msg);
	grant(p2p, peer,
	      !tt_list_empty(&peer->posted) || !tt_list_empty(&p2p->any) ||
		      !tt_list_empty(&p2p->probes));
}

/* Handles early messages that are now next in order. */
static void catch_up(struct tt_p2p *p2p, struct tt_p2p_peer *peer)
{
	struct tt_list *l, *tmp;

	for (l = peer->ahead.next; l != &peer->ahead; l = tmp) {
		struct tutti_message *msg = tt_container(l, struct tutti_message, link);
		struct tt_p2p_req *req;

		tmp = l->next;
		if (msg->seq != peer->expected)
			continue;
		peer->expected++;
		tt_list_del(&msg->link);
		req = find_posted(p2p, peer, msg->tag);
		if (req) {
			take(req, msg, msg->data);
			tt_p2p_drop(p2p, msg);
		} else {
			wait_for_receive(p2p, msg);
		}
		tmp = peer->ahead.next; /* the next message may precede it in the list */
	}
}

/* The message that has come with key from peer, without its data. */
static void describe(struct tutti_message *msg, struct tt_p2p_peer *peer, const struct tt_key *key,
		     uint64_t total, const struct tt_kept *kept)
{
	msg->peer = peer;
	msg->seq = key->seq;
	msg->head = key->port;
	msg->tag = (int)key->lane;
	msg->total = total;
	msg->kept = kept ? *kept : (struct tt_kept){0};
}

/* It is in ahead, or among the arrived ones. */
static void line_up(struct tt_p2p *p2p, struct tutti_message *msg)
{
	struct tt_p2p_peer *peer = msg->peer;

	if (msg->seq == peer->expected) {
		peer->expected++;
		wait_for_receive(p2p, msg);
	} else {
		tt_list_add(&peer->ahead, &msg->link);
	}
}

void tt_p2p_message(struct tt_port *port, int from, const struct tt_key *key, uint64_t total,
		    const void *data, uint32_t len, const struct tt_kept *kept)
{
	struct tt_p2p *p2p = tt_container(port, struct tt_p2p, port);
	struct tutti_comm *comm = p2p->comm;
	struct tt_p2p_req *req = NULL;
	struct tutti_message come, *msg;
	struct tt_p2p_peer *peer;

	if (key->index >= (uint32_t)comm->size || comm->world[key->index] != from ||
	    key->lane > TUTTI_TAG_MAX || (len && len != total) || atomic_load(&comm->failed))
		return;
	peer = tt_p2p_peer(p2p, (int)key->index);
	if (!peer)
		return;
	peer->open = !peer->freed;
	if (!peer->greeted)
		greet(p2p, peer);
	if (key->seq == peer->expected)
		req = find_posted(p2p, peer, (int)key->lane);
	if (req) {
		peer->expected++;
		if (!take_short(req, peer, key, data, len)) {
			describe(&come, peer, key, total, kept);
			take(req, &come, len ? data : NULL);
		}
	} else {
		msg = tt_p2p_keep(p2p, data, len);
		if (!msg) {
			out_of_memory(p2p, peer);
			return;
		}
		describe(msg, peer, key, total, kept);
		line_up(p2p, msg);
	}
	if (!tt_list_empty(&peer->ahead))
		catch_up(p2p, peer);
}
