/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuses small allreduces of one group: packs them into a vector of the pool, combines it once, and
 * unpacks the result.
 *
 * The bits must equal those of separate calls. Integer operations do not depend on the order in
 * which an element's operands are combined. Float operations do, and in most algorithms the order
 * depends on the place in the vector. Float calls are fused only if all of them, and the whole,
 * use algorithms with the same order for every element.
 */
#include <errno.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/copy.h"
#include "lib/base/hash.h"
#include "lib/engine/engine.h"

#define FUSE_MAX ((size_t)32 << 10) /* bytes that are fused */

static struct tt_plan_req *plan_req(struct tutti_request *r)
{
	return tt_container(r, struct tt_plan_req, r);
}

static size_t bytes_of(const struct tt_plan_req *req)
{
	return req->fields.count * req->elem;
}

/*
 * The order in which an algorithm combines all elements, whatever their place; NULL: it depends on
 * the place. Both algorithms in a host's memory combine in rank order.
 */
static const char *order_of(const char *algo)
{
	static const char *const order[][2] = {
		{"recursive_doubling", "doubling"},
		{"radix", "radix"},
		{"single_master", "master"},
		{"node_slots", "ranks"},
		{"node_pull", "ranks"},
		{"hier_leader", "levels"},
	};
	size_t i;

	for (i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		if (!strcmp(algo, order[i][0]))
			return order[i][1];
	return NULL;
}

static bool is_integer(const struct tt_fields *f)
{
	return f->datatype <= TUTTI_UINT64;
}

/* Algorithms are chosen by values equal on all ranks, so all ranks decide alike. */
static bool same_order(const struct tt_plan_req *a, const struct tt_plan_req *b)
{
	const char *x = order_of(a->plan->algo), *y = order_of(b->plan->algo);

	return is_integer(&a->fields) || (x && y && !strcmp(x, y));
}

/* A held allreduce whose bits do not depend on the other elements of the vector. */
static bool fusible(struct tutti_request *r)
{
	const struct tt_fields *f = &plan_req(r)->fields;

	if (!r->ops->plan || atomic_load(&r->state) != TT_REQ_HELD || r->persistent)
		return false;
	return f->coll == TT_COLL_ALLREDUCE && f->op < TUTTI_NUM_OPS && !f->codec &&
	       (is_integer(f) || order_of(plan_req(r)->plan->algo)) && f->count &&
	       bytes_of(plan_req(r)) <= FUSE_MAX;
}

static bool alike(struct tutti_request *a, struct tutti_request *b)
{
	const struct tt_fields *f = &plan_req(a)->fields, *g = &plan_req(b)->fields;

	return a->comm == b->comm && f->op == g->op && f->datatype == g->datatype &&
	       same_order(plan_req(a), plan_req(b));
}

/* Gives the members their results, or the failure. */
static void unpack(struct tutti_request *r)
{
	struct tt_wire *wire = r->comm->ctx->wire;
	struct tt_plan_req *req, *next;
	char *data = plan_req(r)->base[TT_BUF_RECV], *from = data;

	for (req = plan_req(r)->fused; req; req = next) {
		next = req->fused;
		if (!r->status) {
			tt_copy_data(req->base[TT_BUF_RECV], from, bytes_of(req));
			tt_wire_stats(wire)->copied_bytes += bytes_of(req);
		}
		from += bytes_of(req);
		req->carrier = NULL;
		req->r.status = r->status;
		atomic_store(&req->r.state, TT_REQ_DONE);
	}
	tt_request_free(r);
	tt_mem_free(tt_wire_memory(wire), data);
}

/*
 * Chains, in order, the requests that can be fused with first (same context). Returns their bytes.
 */
static size_t gather(struct tutti_request *first, struct tutti_request *rest)
{
	struct tt_plan_req *last = plan_req(first);
	size_t bytes = bytes_of(last);
	struct tutti_request *r;

	last->fused = NULL;
	for (r = rest; r && r->comm->ctx == first->comm->ctx; r = r->in_group) {
		if (!fusible(r) || !alike(first, r) || bytes + bytes_of(plan_req(r)) > FUSE_MAX)
			continue;
		bytes += bytes_of(plan_req(r));
		last->fused = plan_req(r);
		last = last->fused;
		last->fused = NULL;
	}
	return bytes;
}

/* The earliest deadline of the members, and its timeout. */
static void take_deadline(struct tt_plan_req *all)
{
	const struct tt_plan_req *member;

	all->r.deadline = TT_NEVER;
	for (member = all->fused; member; member = member->fused) {
		if (member->r.deadline > all->r.deadline)
			continue;
		tt_request_due(&all->r, member->r.deadline);
		all->r.timeout = member->r.timeout;
		all->r.timed_by_call = member->r.timed_by_call;
	}
}

/* The deadlines and the highest priority of the members. */
static void take_options(struct tt_plan_req *all)
{
	uint64_t now = tt_now_ns(), timeout;
	struct tt_plan_req *member;

	all->r.priority = all->fused->r.priority;
	for (member = all->fused; member; member = member->fused) {
		if (member->r.priority > all->r.priority)
			all->r.priority = member->r.priority;
		timeout = tt_request_timeout(&member->r);
		tt_request_due(&member->r, timeout == TT_NEVER ? TT_NEVER : now + timeout);
		member->carrier = all;
	}
	take_deadline(all);
}

void tt_fuse_timed(struct tutti_request *req)
{
	if (plan_req(req)->carrier)
		take_deadline(plan_req(req)->carrier);
}

bool tt_fuse(struct tutti_request *first, struct tutti_request *rest)
{
	struct tt_plan_req *req = plan_req(first);
	struct tt_wire *wire = first->comm->ctx->wire;
	struct tutti_request *all;
	struct tt_call call;
	uint64_t places = 0;
	void *data;
	char *to;
	int err;

	if (!fusible(first))
		return false;
	call = (struct tt_call){.coll = TT_COLL_ALLREDUCE,
				.in_place = true,
				.count = gather(first, rest) / req->elem,
				.datatype = (enum tutti_datatype)req->fields.datatype,
				.op = (enum tutti_op)req->fields.op};
	if (!req->fused || tt_mem_alloc(tt_wire_memory(wire), call.count * req->elem, &data, NULL))
		return false;
	call.recvbuf = data;
	err = tt_request_new(first->comm, &call, false, &all);
	if (!err && !same_order(req, plan_req(all))) {
		tt_request_free(all);
		err = -EAGAIN;
	}
	if (err) {
		tt_mem_free(tt_wire_memory(wire), data);
		return false;
	}
	plan_req(all)->fused = req;
	all->ended = unpack;
	take_options(plan_req(all));
	for (to = data; req; req = req->fused) {
		tt_copy_data(to, req->base[TT_BUF_SEND], bytes_of(req));
		to += bytes_of(req);
		places = tt_hash_add(places, req->fields.in_place);
		atomic_store(&req->r.state, TT_REQ_RUNNING);
	}
	plan_req(all)->fields.in_place =
		(uint32_t)(places ^ places >> 32); /* all ranks fuse calls in the same places */
	tt_wire_stats(wire)->copied_bytes += call.count * plan_req(first)->elem;
	err = tt_request_start(all); /* which may free it */
	if (err) {
		all->status = err;
		unpack(all);
	}
	return true;
}
