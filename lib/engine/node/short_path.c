/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short blocking allreduces, and barriers, in the memory of a host, without a request: runs the
 * steps of their plan directly. By slots; or each rank combines its part, straight out of mapped
 * vectors, or out of rings (ring_reduce.c) in the slots.
 *
 * The outcome equals that of a request: a turn of its own, a place in the history, the same bits.
 * If the other ranks do not come at once, the call goes on as a request that repeats the same
 * steps, which changes nothing. Two steps are not repeated: combining its part, which in place
 * would be wrong, and filling its ring, which holds other ranks' results.
 */
#include <sched.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/engine/node/node_ops.h"

#define SPINS 2000 /* with a core per rank */
#define NEAR 32	   /* after so many, */
#define EARLY 128  /* and from then on every so many: check for a missing rank on this core */
#define YIELDS 50  /* oversubscribed */
#define LOOKS 64   /* for each of these, if the missing ranks run elsewhere */
#define PULL_MOST ((size_t)256 << 10) /* above this size the cost of a request is negligible */
#define PROGRESS 32		      /* other communication progresses every so many calls */

/* The algorithm whose plan is run here. */
static const char *alg_of(enum tt_coll coll, enum tt_quick_way way)
{
	return coll == TT_COLL_BARRIER ? "node" : way == TT_QUICK_PULL ? "node_pull" : "node_slots";
}

static enum tt_quick_way way_of(enum tt_coll coll, const char *alg)
{
	enum tt_quick_way way;

	for (way = TT_QUICK_PULL; way > TT_QUICK_NO; way--)
		if (!strcmp(alg, alg_of(coll, way)))
			break;
	return coll == TT_COLL_BARRIER && way ? TT_QUICK_SLOTS : way;
}

static void learn(struct tutti_comm *comm, const struct tt_call *call, struct tt_quick_known *known)
{
	struct tt_plan_args args = tt_call_args(comm, call);

	*known = (struct tt_quick_known){.known = true,
					 .fields = {.coll = call->coll,
						    .datatype = call->datatype,
						    .op = call->op,
						    .root = call->root,
						    .count = call->count},
					 .bytes = call->count * args.elem,
					 .reduce = {.datatype = call->datatype,
						    .op = call->op,
						    .elem = args.elem,
						    .divide_by = args.divide ? comm->size : 0}};
	known->way = way_of(call->coll, tt_choose(comm->chooser, &args)->name);
	if (!known->way)
		return;
	if (known->way == TT_QUICK_PULL) {
		known->args = args;
		known->part = tt_node_part(&args, comm->rank);
		known->reduce.ring = tt_ring_of_one_piece(&args);
		known->ring_bytes = tt_node_ring_bytes(comm->node->group, &known->reduce.ring);
	}
	tt_wire_lock(comm->ctx->wire);
	known->record = tt_record_quick(comm, &known->fields, alg_of(call->coll, known->way));
	tt_wire_unlock(comm->ctx->wire);
}

static bool is_of(const struct tt_quick_known *known, const struct tt_call *call)
{
	const struct tt_fields *f = &known->fields;

	return known->known && f->coll == call->coll && f->count == call->count &&
	       f->datatype == call->datatype && f->op == call->op;
}

static struct tt_quick_known *known_of(struct tutti_comm *comm, const struct tt_call *call)
{
	struct tt_node_comm *nc = comm->node;
	uint64_t mixed = call->count << 8 | (uint64_t)call->datatype << 4 | (uint64_t)call->op;
	struct tt_quick_known *set = nc->known[mixed * 0x9e3779b97f4a7c15 >> 62];
	int i;

	for (i = 0; i < TT_QUICK_SET; i++)
		if (is_of(&set[i], call))
			return &set[i];
	i = (int)(nc->learned++ % TT_QUICK_SET);
	learn(comm, call, &set[i]);
	return &set[i];
}

/* Whether the call qualifies; then *known says how it is run. */
static bool applies(struct tutti_comm *comm, const struct tt_call *call,
		    struct tt_quick_known **known)
{
	bool fits = call->coll == TT_COLL_BARRIER;

	if (call->coll == TT_COLL_ALLREDUCE)
		fits = call->op < TUTTI_NUM_OPS && call->count &&
		       call->count * tutti_datatype_size(call->datatype) <= PULL_MOST;
	if (!fits || !comm->node || comm->hosts)
		return false;
	*known = known_of(comm, call);
	return (*known)->way;
}

/* Counters for the use of slots; sign -1 undoes it. */
static void count(struct tutti_comm *comm, size_t bytes, int sign)
{
	struct tutti_stats *stats = tt_wire_stats(comm->ctx->wire);
	uint64_t add = (uint64_t)((int64_t)bytes * sign);

	stats->copied_bytes += add;
	stats->reduced_bytes += add;
	stats->pulled_bytes += add * (uint64_t)(comm->size - 1);
}

/* Copies the other ranks' parts of a vector into the ring or out of it. */
static void move(struct tutti_comm *comm, const struct tt_quick *q, char *vector, bool in)
{
	tt_wire_stats(comm->ctx->wire)->copied_bytes += tt_ring_move(
		comm->node->group, &q->known->args, &q->known->reduce.ring, q->ring, vector, 0, in);
}

static void publish(struct tutti_comm *comm, const struct tt_quick *q, enum tt_node_which which,
		    void *vector, const struct tt_region *region, bool by_ring)
{
	struct tt_node_group *g = comm->node->group;
	size_t copied;

	if (by_ring)
		tt_node_publish_ring(g, q->turn, which, vector, q->ring, q->known->ring_bytes,
				     NULL);
	else
		tt_node_publish(g, q->turn, which, vector, q->known->bytes, region, &copied);
}

/*
 * Makes the call visible to the other ranks, before any bookkeeping, which then costs them no
 * time.
 */
static void tell(struct tutti_comm *comm, const struct tt_quick *q, const struct tt_call *call)
{
	void *in = call->in_place ? call->recvbuf : (void *)call->sendbuf;
	struct tt_node_group *g = comm->node->group;

	if (q->known->way == TT_QUICK_PULL) {
		publish(comm, q, TT_NODE_INPUT, in, q->in, q->in_ring);
		publish(comm, q, TT_NODE_RESULT, call->recvbuf, q->out, q->out_ring);
		if (q->in_ring)
			move(comm, q, in, true);
	} else if (q->known->bytes) {
		memcpy(tt_node_slot(g, q->turn), in, q->known->bytes);
	}
	tt_node_tell(g, q->turn, 1, q->fprint);
}

/* Whether peers can map both vectors, or a ring for them. */
static bool find_memory(struct tutti_comm *comm, struct tt_quick *q, const struct tt_call *call)
{
	struct tt_memory *memory = tt_wire_memory(comm->ctx->wire);
	struct tt_node_comm *nc = comm->node;
	size_t bytes = q->known->bytes;

	q->out = tt_mem_find(memory, call->recvbuf, bytes);
	q->in = call->in_place ? q->out : tt_mem_find(memory, call->sendbuf, bytes);
	q->in_ring = !tt_node_maps(nc->group, q->in);
	q->out_ring = !tt_node_maps(nc->group, q->out);
	if (q->in_ring || q->out_ring)
		q->ring = tt_node_ring_slot(nc->group, nc->turn + 1, q->known->ring_bytes);
	return q->ring || !(q->in_ring || q->out_ring);
}

/*
 * Whether a request would refuse a vector without a region; then one is made, to report the error.
 */
static bool refused(struct tutti_comm *comm, const struct tt_quick *q, const struct tt_call *call)
{
	struct tt_memory *memory = tt_wire_memory(comm->ctx->wire);
	size_t bytes = q->known->bytes;

	return bytes &&
	       ((!q->out && tt_mem_partly_given(memory, call->recvbuf, bytes)) ||
		(!q->in && !call->in_place && tt_mem_partly_given(memory, call->sendbuf, bytes)));
}

static void record(struct tutti_comm *comm, struct tt_quick *q, const struct tt_call *call)
{
	q->known->record.in_place = call->in_place;
	if (comm->flight && comm->flight->uid == comm->uid)
		comm->flight->seq = q->seq;
	q->flight = tt_flight_begin(comm->ctx->flight, &q->known->record, q->seq);
}

/* Under the lock: makes the call, unless something is in the way; then false. */
static bool begin(struct tutti_comm *comm, struct tt_quick *q, const struct tt_call *call)
{
	struct tt_node_comm *nc = comm->node;
	struct tutti_context *ctx = comm->ctx;

	if (++nc->quick % PROGRESS == 0)
		tt_engine_progress(ctx);
	if (atomic_load(&comm->failed) || ctx->running || nc->running || nc->begun != nc->turn ||
	    !tt_node_may_begin(nc->group, nc->turn + 1) ||
	    (q->known->way == TT_QUICK_PULL && !find_memory(comm, q, call)) ||
	    refused(comm, q, call))
		return false;
	q->fprint = tt_comm_called(comm, &q->known->fields, NULL);
	q->seq = comm->seq;
	q->turn = nc->begun = ++nc->turn;
	tell(comm, q, call);
	record(comm, q, call);
	if (q->known->way == TT_QUICK_SLOTS)
		count(comm, q->known->bytes, 1);
	return true;
}

/* A wait for the other ranks. */
struct meeting {
	bool spins, yields; /* neither: sleep soon */
	int left;
	unsigned looks;
};

static struct meeting meeting_of(const struct tutti_context *ctx)
{
	struct meeting m = {.spins = ctx->wait_mode == TT_WAIT_SPIN,
			    .yields = ctx->wait_mode == TT_WAIT_YIELD};

	m.left = m.spins ? SPINS : m.yields ? YIELDS : 1;
	return m;
}

/*
 * Rank j has not come yet. If a missing rank was last seen on this core, it needs the core.
 * Otherwise polling is better than yielding to another waiting rank, which costs as much as
 * several calls.
 */
static void linger(struct tutti_comm *comm, const struct tt_quick *q, int j, unsigned step,
		   struct meeting *m)
{
	struct tt_node_group *g = comm->node->group;
	bool forced = comm->ctx->wait_forced, look, give;

	m->looks++;
	look = !forced && (m->yields || m->looks % EARLY == NEAR);
	give = !m->spins && (forced || m->looks % LOOKS == 0);
	if (look && tt_node_shares(g, j, comm->size, q->turn, step)) {
		tt_spread(comm->ctx, comm->node, q->turn);
		give = true;
	}
	m->left -= give || m->spins;
	if (give)
		sched_yield();
	else
		tt_cpu_relax();
}

/* Whether all ranks reach a step within a moment. */
static bool meet(struct tutti_comm *comm, const struct tt_quick *q, unsigned step)
{
	struct tt_node_group *g = comm->node->group;
	struct meeting m = meeting_of(comm->ctx);
	bool differs = false;
	uint64_t other;
	int j;

	/* while the signal travels; makes it visible before the check for sleepers */
	tt_node_wake_all(g);
	j = tt_node_missing(g, 0, q->turn, step, q->fprint, &differs);
	while (j < comm->size && !differs && m.left > 0) {
		linger(comm, q, j, step, &m);
		j = tt_node_missing(g, j, q->turn, step, q->fprint, &differs);
	}
	/* if they differ, a request repeats the same signal */
	return j == comm->size && !differs && tt_node_agreed(g, q->turn - 1, &other);
}

/* Combines this rank's part and signals all ranks; false: not done, and nothing has changed. */
static bool pull(struct tutti_comm *comm, struct tt_quick *q)
{
	struct tt_node_group *g = comm->node->group;
	struct tt_span part = q->known->part;
	struct tt_node_ref src = {TT_NODE_INPUT, part.off}, dst = {TT_NODE_RESULT, part.off};
	struct tt_node_count count = {0};
	int gone;

	tt_wire_lock(comm->ctx->wire); /* published memory may have to be mapped */
	q->pulled = tt_node_all_mapped(g, q->turn) &&
		    (!part.len || !tt_node_pull_reduce(g, q->turn, src, TT_NODE_ALL, dst, part.len,
						       &q->known->reduce, &count, &gone));
	if (q->pulled)
		tt_node_count_bytes(comm->ctx, &count);
	tt_wire_unlock(comm->ctx->wire);
	if (q->pulled)
		tt_node_tell(g, q->turn, 2, q->fprint);
	return q->pulled;
}

/* When all ranks are done: takes their results out of the ring. */
static void take_out(struct tutti_comm *comm, const struct tt_quick *q, const struct tt_call *call)
{
	tt_wire_lock(comm->ctx->wire);
	move(comm, q, call->recvbuf, false);
	tt_wire_unlock(comm->ctx->wire);
}

static void finish(struct tutti_comm *comm, const struct tt_quick *q, const struct tt_call *call)
{
	struct tt_node_group *g = comm->node->group;

	tt_node_all_began(g, q->turn);
	if (q->out_ring)
		take_out(comm, q, call);
	if (q->known->bytes && q->known->way == TT_QUICK_SLOTS)
		tt_node_reduce_slots(g, q->turn, call->recvbuf, call->count, &q->known->reduce);
	tt_node_finish(g, q->turn);
	tt_flight_more(comm->ctx->flight, q->flight, 1, q->known->bytes);
	tt_flight_end(comm->ctx->flight, q->flight, 0);
}

static void trace(struct tutti_comm *comm, const struct tt_quick *q)
{
	tt_wire_lock(comm->ctx->wire);
	tt_trace_call(comm->ctx->trace, q->flight, 0);
	tt_wire_unlock(comm->ctx->wire);
}

/* Under the lock: goes on as a request. */
static int resume(struct tutti_comm *comm, const struct tt_quick *q, const struct tt_call *call,
		  struct tutti_request **out)
{
	struct tutti_request *req;
	int err;

	if (q->known->way == TT_QUICK_SLOTS)
		count(comm, q->known->bytes, -1);
	err = tt_request_new(comm, call, false, &req);
	if (err) { /* the other ranks have begun it */
		tt_comm_fail(comm, err, -1, tt_coll_name(call->coll), q->seq, "", "%s",
			     tt_fail_text(err));
	} else {
		comm->node->begun--;
		err = tt_request_resume(req, q);
		if (err)
			tt_request_free(req);
		else
			*out = req;
	}
	if (err) { /* no request will end its record, or take back what it has published */
		tt_flight_end(comm->ctx->flight, q->flight, err);
		tt_node_withdraw(comm->node->group);
	}
	return err;
}

int tt_quick_run(struct tutti_comm *comm, const struct tt_call *call, struct tutti_request **out)
{
	struct tt_quick q = {.pulled = false};
	bool begun;
	int err;

	*out = NULL;
	if (!applies(comm, call, &q.known))
		return TT_QUICK_NOT;
	tt_wire_lock(comm->ctx->wire);
	begun = begin(comm, &q, call);
	tt_wire_unlock(comm->ctx->wire);
	if (!begun)
		return TT_QUICK_NOT;
	if (meet(comm, &q, 1) &&
	    (q.known->way == TT_QUICK_SLOTS || (pull(comm, &q) && meet(comm, &q, 2)))) {
		finish(comm, &q, call);
		if (comm->ctx->trace)
			trace(comm, &q);
		return 0;
	}
	tt_wire_lock(comm->ctx->wire);
	err = resume(comm, &q, call, out);
	tt_wire_unlock(comm->ctx->wire);
	return err;
}
