/* SPDX-License-Identifier: BSD-3-Clause */
/* A send, a receive or a probe as a request. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/engine/launch.h"
#include "lib/p2p/p2p.h"

static struct tt_p2p_req *p2p_req(const struct tutti_request *r)
{
	return tt_container(r, struct tt_p2p_req, r);
}

static int p2p_start(struct tutti_request *r)
{
	struct tt_p2p_req *req = p2p_req(r);
	int err = tt_request_begin(r);

	if (err)
		return err;
	/* A long unregistered buffer borrows its registration from the cache, if that is on. */
	if (!req->region && req->bytes > (size_t)r->comm->ctx->env.eager.number)
		req->region = tt_mem_borrow(tt_wire_memory(r->comm->ctx->wire), req->call.buf,
					    req->bytes);
	if (req->call.kind == TT_P2P_SEND)
		tt_p2p_send(req);
	else
		tt_p2p_recv(req);
	return 0;
}

static void p2p_cancel(struct tutti_request *r)
{
	struct tt_p2p_req *req = p2p_req(r);
	int i;

	tt_list_del(&req->link);
	if (req->call.kind == TT_P2P_SEND && req->kept.key[0])
		tt_wire_unkeep(r->comm->ctx->wire);
	for (i = 0; i < TT_P2P_PIECES; i++)
		tt_wire_cancel(r->comm->ctx->wire, &req->piece[i].x);
}

/* A receive that any rank may match waits for each of them. */
static int p2p_needs(const struct tutti_request *r)
{
	const struct tt_p2p_req *req = p2p_req(r);

	return tt_comm_dead(r->comm, req->peer >= 0 ? req->peer : req->call.rank);
}

static void p2p_ended(struct tutti_request *r)
{
	struct tt_p2p_req *req = p2p_req(r);

	tt_p2p_end_payload(req);
	if (!req->region || !req->region->cached)
		return;
	tt_mem_return(req->region);
	req->region = NULL;
}

static void p2p_free(struct tutti_request *r)
{
	struct tt_p2p_req *req = p2p_req(r);

	tt_list_add(&req->p2p->idle, &r->link);
	if (!req->renewable)
		return;
	req->renewable = false;
	req->p2p->renewable--;
	tt_p2p_freed(r->comm);
}

/* A short send carries its payload with its head, so it is packed at once. */
static int pack_short(struct tt_p2p_req *req)
{
	struct tt_wire *wire = req->r.comm->ctx->wire;
	struct tt_place place = {0};
	int err;

	if (req->call.kind != TT_P2P_SEND || req->bytes > tt_wire_eager_max(&req->r.comm->ctx->env))
		return 0;
	err = tt_mem_alloc(tt_wire_memory(wire), req->bytes, &req->call.buf, NULL);
	if (err)
		return err;
	tt_byte_blocks_gather(req->layout, &place, req->base, req->call.buf, req->bytes);
	tt_wire_stats(wire)->copied_bytes += req->bytes;
	return 0;
}

static void layout_ended(struct tutti_request *r)
{
	struct tt_p2p_req *req = p2p_req(r);

	tt_p2p_end_payload(req);
	if (req->call.buf)
		tt_mem_free(tt_wire_memory(r->comm->ctx->wire), req->call.buf);
	req->call.buf = NULL;
}

static void layout_free(struct tutti_request *r)
{
	p2p_req(r)->layout = NULL;
	p2p_free(r);
}

static int layout_start(struct tutti_request *r)
{
	struct tt_p2p_req *req = p2p_req(r);
	int err = pack_short(req);

	if (!err)
		err = tt_request_begin(r);
	if (err)
		layout_ended(r);
	else if (req->call.kind == TT_P2P_SEND)
		tt_p2p_send(req);
	else
		tt_p2p_recv(req);
	return err;
}

static const char *p2p_call(const struct tutti_request *r)
{
	static const char *const name[] = {"send", "recv", "probe"};
	const struct tt_p2p_call *call = &p2p_req(r)->call;

	return call->sync ? "ssend" : name[call->kind];
}

/* A type of another rank may be anything. */
static const char *type_text(enum tutti_datatype type, char *buf, size_t size)
{
	if (!tutti_datatype_size(type))
		return "an unknown datatype";
	tt_datatype_text(type, buf, size);
	return buf;
}

static const char *p2p_text(const struct tutti_request *r, char *buf, size_t size)
{
	const struct tt_p2p_call *call = &p2p_req(r)->call;
	char who[32] = "any rank", tag[32] = "any tag", count[80] = "", type[32];

	if (call->rank >= 0)
		snprintf(who, sizeof(who), "rank %d", call->rank);
	if (call->tag >= 0)
		snprintf(tag, sizeof(tag), "tag %d", call->tag);
	tt_datatype_text(call->datatype, type, sizeof(type));
	if (call->kind != TT_P2P_PROBE)
		snprintf(count, sizeof(count), ", %s%zu %s",
			 call->kind == TT_P2P_RECV ? "up to " : "", call->count, type);
	snprintf(buf, size, "%s %s %s (%s%s)", p2p_call(r),
		 call->kind == TT_P2P_SEND ? "to" : "from", who, tag, count);
	return buf;
}

/* For a receive without a match: the messages that wait with other tags, as a hint. */
static void others(const struct tt_p2p_req *req, char *buf, size_t size)
{
	struct tt_p2p *p2p = req->p2p;
	int rank = req->call.rank, n = 0;
	struct tt_list *l, *tmp, *list = rank < 0 ? &p2p->arrived : &p2p->peer[rank]->arrived;
	struct tutti_message *first;

	tt_list_each(l, tmp, list) n++;
	if (!n)
		return;
	first = rank < 0 ? tt_container(list->next, struct tutti_message, all)
			 : tt_container(list->next, struct tutti_message, link);
	snprintf(buf, size, "; %d message%s with other tags wait%s, the first with tag %d", n,
		 n == 1 ? "" : "s", n == 1 ? "s" : "", first->tag);
}

static int p2p_waits(const struct tutti_request *r, char *buf, size_t size)
{
	const struct tt_p2p_req *req = p2p_req(r);
	int rank = req->peer >= 0 ? req->peer : req->call.rank;
	int world = rank < 0 ? -1 : r->comm->world[rank];
	const char *host = rank < 0 ? "" : tt_boot_host(r->comm->ctx->boot, world);
	char more[96] = "";

	if (req->peer < 0)
		others(req, more, sizeof(more));
	if (req->peer < 0 && rank < 0)
		snprintf(buf, size, "; no rank has sent it%s", more);
	else if (req->peer < 0)
		snprintf(buf, size, "; rank %d on host %s has not sent it%s", world, host, more);
	else if (req->call.kind == TT_P2P_RECV)
		snprintf(buf, size,
			 "; it came from rank %d on host %s, but not all of its %zu bytes", world,
			 host, req->total);
	else
		snprintf(buf, size,
			 "; rank %d on host %s has not received it; the errors there say whether a "
			 "receive was refused",
			 world, host);
	return world;
}

/* A receive or probe that no message has matched ends alone. */
static bool p2p_expire(struct tutti_request *r)
{
	if (p2p_req(r)->peer >= 0)
		return false;
	p2p_cancel(r);
	tt_request_end(r, -ETIMEDOUT);
	return true;
}

static int explain_dead(const struct tutti_request *r)
{
	int dead = p2p_needs(r);
	char text[128], what[256];

	p2p_text(r, text, sizeof(text));
	snprintf(what, sizeof(what), "%s%s", text,
		 p2p_req(r)->peer < 0 && p2p_req(r)->call.rank < 0
			 ? " (until tutti_comm_ack_failed)"
			 : "");
	if (dead < 0) /* acknowledged in the meantime */
		return tt_fail(r->status, "%s: a rank that could have sent it has failed", text);
	return tt_comm_needs_dead(r->comm, dead, what);
}

static int p2p_explain(const struct tutti_request *r)
{
	const struct tt_p2p_req *req = p2p_req(r);
	char text[128], sent[32], received[32], name[TT_COMM_NAME];
	int world;

	if (r->status == -TUTTI_EPEER)
		return explain_dead(r);
	if (r->status == -ETIMEDOUT)
		return tt_request_waited_out(r);
	if (r->status == -ECANCELED)
		return tt_fail(r->status, "%s was cancelled", p2p_text(r, text, sizeof(text)));
	if (r->status == -EINVAL)
		return tt_fail(r->status, "%s: the message has been received already",
			       p2p_text(r, text, sizeof(text)));
	world = r->comm->world[req->peer];
	if (r->status == -EACCES)
		return tt_fail_rank(r->status, world, tt_boot_host(r->comm->ctx->boot, world),
				    "%s: rank %d on host %s has freed %s without receiving it",
				    p2p_text(r, text, sizeof(text)), world,
				    tt_boot_host(r->comm->ctx->boot, world),
				    tt_comm_name(r->comm, name, sizeof(name)));
	if (r->status == -TUTTI_EMISMATCH)
		return tt_fail_rank(
			r->status, world, tt_boot_host(r->comm->ctx->boot, world),
			"%s: rank %d sent %s (tag %d, %zu bytes), this rank (%d) receives %s; the "
			"message was dropped",
			p2p_text(r, text, sizeof(text)), req->peer,
			type_text(tt_p2p_type(req->head), sent, sizeof(sent)), req->tag, req->total,
			r->comm->rank, type_text(req->call.datatype, received, sizeof(received)));
	return tt_fail_rank(
		r->status, world, tt_boot_host(r->comm->ctx->boot, world),
		"%s: the message from rank %d (tag %d) has %zu bytes, the buffer %zu; it was "
		"dropped (tutti_probe tells the length beforehand)",
		p2p_text(r, text, sizeof(text)), req->peer, req->tag, req->total, req->bytes);
}

/* Pieces under way do not count. */
static uint64_t p2p_where(struct tutti_request *r, char *phase, size_t size)
{
	const struct tt_p2p_req *req = p2p_req(r);
	size_t most = req->most ? req->most : req->p2p->most;
	uint64_t moved = req->next, under_way = (uint64_t)req->pieces * most;

	snprintf(phase, size, "%s",
		 req->call.kind == TT_P2P_SEND ? "waiting for the receiver"
		 : req->peer < 0	       ? "waiting for the message"
					       : "receiving");
	return moved > under_way ? moved - under_way : 0;
}

static void p2p_record(const struct tutti_request *r, struct tt_flight_op *op,
		       enum tutti_datatype *type)
{
	const struct tt_p2p_call *call = &p2p_req(r)->call;

	op->peer = call->rank;
	op->tag = call->tag;
	if (call->kind == TT_P2P_PROBE)
		return;
	op->count = call->count;
	*type = call->datatype;
}

#define P2P_OPS                                                                                    \
	.call = p2p_call, .cancel = p2p_cancel, .needs = p2p_needs, .text = p2p_text,              \
	.record = p2p_record, .waits = p2p_waits, .where = p2p_where, .explain = p2p_explain

#define PLAIN_OPS P2P_OPS, .start = p2p_start, .ended = p2p_ended, .free = p2p_free
#define LAYOUT_OPS P2P_OPS, .start = layout_start, .ended = layout_ended, .free = layout_free

static const struct tt_request_ops send_ops = {PLAIN_OPS, .list = TT_ACTIVE_OTHER};
static const struct tt_request_ops recv_ops = {PLAIN_OPS, .list = TT_ACTIVE_RECV,
					       .expire = p2p_expire}; /* and of probes */
static const struct tt_request_ops layout_send_ops = {LAYOUT_OPS, .list = TT_ACTIVE_OTHER};
static const struct tt_request_ops layout_recv_ops = {LAYOUT_OPS, .list = TT_ACTIVE_RECV,
						      .expire = p2p_expire};

int tt_p2p_cancel(struct tutti_request *r)
{
	if (r->ops != &recv_ops && r->ops != &layout_recv_ops)
		return tt_fail(-EINVAL, "tutti_cancel: the request is not a receive (it is %s)",
			       r->ops->call(r));
	if (atomic_load(&r->state) != TT_REQ_RUNNING || p2p_req(r)->peer >= 0)
		return 0;
	p2p_cancel(r);
	tt_request_end(r, -ECANCELED);
	return 0;
}

static struct tt_p2p_req *req_get(struct tt_p2p *p2p)
{
	struct tt_p2p_req *req;
	int i;

	if (!tt_list_empty(&p2p->idle)) {
		req = tt_container(p2p->idle.next, struct tt_p2p_req, r.link);
		tt_list_del(&req->r.link);
		return req;
	}
	req = tt_request_alloc(p2p->comm->ctx, sizeof(*req), 0);
	if (!req)
		return NULL;
	req->p2p = p2p;
	req->renewable = false;
	tt_list_init(&req->link);
	for (i = 0; i < TT_P2P_PIECES; i++)
		req->piece[i].req = req;
	return req;
}

struct tutti_request *tt_p2p_ended(struct tt_p2p *p2p, enum tt_p2p_kind kind)
{
	struct tt_p2p_req *req = req_get(p2p);

	if (!req)
		return NULL;
	tt_request_init(&req->r, kind == TT_P2P_SEND ? &send_ops : &recv_ops, p2p->comm, false);
	req->r.phase[0] = 0;
	req->region = NULL;
	req->call.kind = kind; /* for texts */
	req->call.sync = false;
	atomic_store_explicit(&req->r.state, TT_REQ_DONE, memory_order_release);
	return &req->r;
}

#define NEED_NONE 1024 /* bytes: shorter messages are not worth a look at the table of regions */

/* The registration of the buffer, NULL: none. A short brief message needs none. */
static int find_region(struct tutti_comm *comm, const struct tt_p2p_call *call, size_t bytes,
		       struct tt_region **region)
{
	struct tt_memory *memory = tt_wire_memory(comm->ctx->wire);
	static const char *const name[] = {"send", "recv", "probe"};

	*region = NULL;
	if (bytes <= NEED_NONE && bytes <= tt_wire_eager_max(&comm->ctx->env) && call->rank >= 0 &&
	    tt_wire_has_brief(comm->ctx->wire, comm->world[call->rank]) &&
	    tt_p2p_is_whole(comm->p2p, call->buf, bytes))
		return 0;
	if (bytes && !tt_mem_find_buffer(memory, call->buf, bytes, region))
		return tt_fail(
			-EINVAL,
			"%s: the buffer is only partly in memory of tutti_alloc: %zu bytes at %p",
			name[call->kind], bytes, call->buf);
	return 0;
}

int tt_p2p_new(struct tutti_comm *comm, const struct tt_p2p_call *call, bool persistent,
	       struct tutti_request **out)
{
	size_t bytes = call->count * tutti_datatype_size(call->datatype);
	struct tt_region *region;
	struct tt_p2p_req *req;
	struct tt_p2p *p2p;
	int err;

	err = tt_p2p_get(comm, &p2p);
	if (!err)
		err = find_region(comm, call, bytes, &region);
	if (err)
		return err;
	if (call->rank >= 0 && !tt_p2p_peer(p2p, call->rank))
		return tt_fail(-ENOMEM, "no memory for messages with rank %d", call->rank);
	req = req_get(p2p);
	if (!req)
		return tt_fail(-ENOMEM, "no memory for a request");
	req->call = *call;
	req->bytes = bytes;
	req->region = region;
	req->renewable = call->kind == TT_P2P_RECV && (persistent || tt_group_is_open());
	p2p->renewable += req->renewable;
	tt_request_init(&req->r, call->kind == TT_P2P_SEND ? &send_ops : &recv_ops, comm,
			persistent);
	*out = &req->r;
	return 0;
}

/* Finds out whether peer's messages of so many bytes come whole. */
static bool may_post(struct tt_p2p_peer *peer, size_t bytes)
{
	struct tutti_comm *comm = peer->p2p->comm;
	size_t most = tt_wire_eager_max(&comm->ctx->env);

	if (tt_wire_has_brief(comm->ctx->wire, comm->world[peer->rank]))
		peer->post_below = (most < NEED_NONE ? most : NEED_NONE) + 1;
	return bytes < peer->post_below;
}

struct tutti_request *tt_p2p_post(struct tt_p2p_peer *peer, const struct tt_p2p_call *call,
				  size_t bytes)
{
	struct tt_p2p *p2p = peer->p2p;
	struct tutti_comm *comm = p2p->comm;
	struct tt_flight_op op = {
		.comm = comm->uid, .count = call->count, .peer = call->rank, .tag = call->tag};
	struct tt_p2p_req *req;

	if ((bytes >= peer->post_below && !may_post(peer, bytes)) ||
	    !tt_p2p_is_whole(p2p, call->buf, bytes))
		return NULL;
	req = req_get(p2p);
	if (!req)
		return NULL;
	req->call = *call;
	req->bytes = bytes;
	req->region = NULL;
	tt_request_init(&req->r, &recv_ops, comm, false);
	tt_request_under_way(&req->r);
	req->r.flight = tt_record_call(comm->ctx, "recv", call->datatype, &op);
	tt_p2p_await(req, peer);
	if (comm->ctx->thread_runs)
		tt_wire_started(comm->ctx->wire);
	return &req->r;
}

int tt_p2p_new_layout(struct tutti_comm *comm, const struct tt_p2p_call *call,
		      const struct tt_byte_blocks *layout, bool persistent,
		      struct tutti_request **out)
{
	struct tt_p2p_call rest = *call;
	struct tt_p2p_req *req;
	int err;

	if (layout->count <= 1) {
		rest.buf = (char *)call->buf + layout->low;
		return tt_p2p_new(comm, &rest, persistent, out);
	}
	rest.buf = NULL;
	rest.count = 0;
	err = tt_p2p_new(comm, &rest, persistent, out);
	if (err)
		return err;
	req = p2p_req(*out);
	req->call.count = call->count;
	req->bytes = layout->bytes;
	req->base = call->buf;
	req->blocks = *layout;
	req->layout = &req->blocks;
	req->r.ops = call->kind == TT_P2P_SEND ? &layout_send_ops : &layout_recv_ops;
	return 0;
}
