/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short blocking all-reduces, and barriers, in the memory of a host, without a request: what their plan says, done
 * here and now.
 *
 * It ends up the same in every way: a turn of its own, a place in the history, the same bits. If the other ranks do not come
 * at once, the call goes on as a request that does the same things again, which changes nothing.
 */
#include <sched.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/engine/node.h"

#define SPINS 2000    /* with a core per rank */
#define NEAR 32	      /* of these, until sleepers are woken, if there are any */
#define EARLY 128     /* and then again from so many to so many: does one that is missing share the core? */
#define YIELDS 50     /* with fewer */
#define LOOKS 64      /* for each of these, if the ranks that are missing run elsewhere */
#define PROGRESS 32   /* other communication is looked after every so many calls */

/* The algorithm whose plan says what is done here. */
static const char *alg_of(enum tt_coll coll)
{
	return coll == TT_COLL_BARRIER ? "node" : "node_slots";
}

static struct tt_quick_known *known_of(struct tutti_comm *comm, const struct tt_call *call)
{
	struct tt_node_comm *nc = comm->node;
	struct tt_quick_known *known =
		&nc->known[(call->count + call->datatype) % (sizeof(nc->known) / sizeof(nc->known[0]))];
	struct tt_plan_args args;

	if (known->known && known->coll == call->coll && known->count == call->count &&
	    known->datatype == call->datatype && known->op == call->op)
		return known;
	args = tt_call_args(comm, call);
	*known = (struct tt_quick_known){.known = true,
					 .coll = call->coll,
					 .count = call->count,
					 .datatype = call->datatype,
					 .op = call->op};
	known->quick = !strcmp(tt_choose(comm->chooser, &args)->name, alg_of(call->coll));
	return known;
}

static bool applies(struct tutti_comm *comm, const struct tt_call *call)
{
	bool fits = call->coll == TT_COLL_BARRIER;

	if (call->coll == TT_COLL_ALLREDUCE)
		fits = call->op < TUTTI_NUM_OPS && call->count &&
		       call->count * tutti_datatype_size(call->datatype) <= TT_NODE_SLOT;
	return fits && comm->node && !comm->hosts && known_of(comm, call)->quick;
}

/* What the counters say of it; sign -1 takes it back. */
static void count(struct tutti_comm *comm, size_t bytes, int sign)
{
	struct tutti_stats *stats = tt_wire_stats(comm->ctx->wire);
	uint64_t add = (uint64_t)((int64_t)bytes * sign);

	stats->copied_bytes += add;
	stats->reduced_bytes += add;
	stats->pulled_bytes += add * (uint64_t)(comm->size - 1);
}

/* The others can see it: this before anything is written down, which then takes no time of theirs. */
static void tell(struct tutti_comm *comm, const struct tt_quick *q, const struct tt_call *call)
{
	struct tt_node_group *g = comm->node->group;

	if (q->bytes)
		memcpy(tt_node_slot(g, q->turn), call->in_place ? call->recvbuf : call->sendbuf,
		       q->bytes);
	tt_node_tell(g, q->turn, 1, q->fprint);
}

/* Under the lock: the call is made, unless something is in the way; then false. */
static bool begin(struct tutti_comm *comm, struct tt_quick *q, const struct tt_call *call)
{
	struct tt_node_comm *nc = comm->node;
	struct tutti_context *ctx = comm->ctx;

	if (++nc->quick % PROGRESS == 0)
		tt_engine_progress(ctx);
	if (atomic_load(&comm->failed) || ctx->running || nc->running || nc->begun != nc->turn ||
	    !tt_node_may_begin(nc->group, nc->turn + 1))
		return false;
	q->fields = (struct tt_fields){.coll = call->coll,
				       .datatype = call->datatype,
				       .op = call->op,
				       .root = call->root,
				       .count = call->count};
	q->fprint = tt_comm_called(comm, &q->fields, NULL);
	q->seq = comm->seq;
	q->turn = nc->begun = ++nc->turn;
	tell(comm, q, call);
	q->flight = tt_record_quick(comm, q, call, alg_of(call->coll));
	count(comm, q->bytes, 1);
	return true;
}

/* A wait for the others. */
struct meeting {
	bool spins, yields; /* neither: go to sleep soon */
	bool woken; /* those that sleep: when this takes longer, or else in the end */
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
 * Rank j has not come yet. If one that is missing was last seen on this core, it needs it; else looking is better than giving
 * way to a rank that waits as well, which costs as much as several calls.
 */
static void linger(struct tutti_comm *comm, const struct tt_quick *q, int j, struct meeting *m)
{
	struct tt_node_group *g = comm->node->group;
	bool forced = comm->ctx->wait_forced, look, give;

	m->looks++;
	if (!m->woken && (!m->spins || m->looks >= NEAR)) {
		tt_node_wake_all(g);
		m->woken = true;
	}
	look = !forced && (m->yields || m->looks % EARLY == NEAR);
	give = !m->spins && (forced || m->looks % LOOKS == 0);
	if (look && tt_node_shares(g, j, comm->size, q->turn, 1)) {
		tt_spread(comm->ctx, comm->node, q->turn);
		give = true;
	}
	m->left -= give || m->spins;
	if (give)
		sched_yield();
	else
		tt_cpu_relax();
}

/* Whether all have come, within a moment. */
static bool meet(struct tutti_comm *comm, const struct tt_quick *q)
{
	struct meeting m = meeting_of(comm->ctx);
	bool differs = false;
	uint64_t other;
	int j = 0;

	while (j < comm->size && m.left > 0) {
		if (!tt_node_reached(comm->node->group, j, q->turn, 1, q->fprint, &differs)) {
			linger(comm, q, j, &m);
			continue;
		}
		if (differs)
			return false; /* a request gives the same signal once more */
		j++;
	}
	if (!m.woken)
		tt_node_wake_all(comm->node->group);
	return j == comm->size && tt_node_agreed(comm->node->group, q->turn - 1, &other);
}

static void finish(struct tutti_comm *comm, const struct tt_quick *q, const struct tt_call *call)
{
	struct tt_node_group *g = comm->node->group;
	struct tt_node_reduce r = {.datatype = call->datatype,
				   .op = call->op,
				   .divide_by = call->op == TUTTI_AVG ? comm->size : 0};

	tt_node_all_began(g, q->turn);
	if (q->bytes)
		tt_node_reduce_slots(g, q->turn, call->recvbuf, call->count, &r);
	tt_node_finish(g, q->turn);
	tt_flight_more(comm->ctx->flight, q->flight, 1, q->bytes);
	tt_flight_end(comm->ctx->flight, q->flight, 0);
}

static void trace(struct tutti_comm *comm, const struct tt_quick *q)
{
	tt_wire_lock(comm->ctx->wire);
	tt_trace_call(comm->ctx->trace, q->flight, 0);
	tt_wire_unlock(comm->ctx->wire);
}

/* Under the lock: go on as a request. */
static int resume(struct tutti_comm *comm, const struct tt_quick *q, const struct tt_call *call,
		  struct tutti_request **out)
{
	struct tutti_request *req;
	int err;

	count(comm, q->bytes, -1);
	err = tt_request_new(comm, call, false, &req);
	if (err) { /* the others have begun it */
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
	if (err) /* no request will end its record */
		tt_flight_end(comm->ctx->flight, q->flight, err);
	return err;
}

int tt_quick_run(struct tutti_comm *comm, const struct tt_call *call, struct tutti_request **out)
{
	struct tt_quick q;
	bool begun;
	int err;

	*out = NULL;
	if (!applies(comm, call))
		return TT_QUICK_NOT;
	q.bytes = call->count * tutti_datatype_size(call->datatype);
	tt_wire_lock(comm->ctx->wire);
	begun = begin(comm, &q, call);
	tt_wire_unlock(comm->ctx->wire);
	if (!begun)
		return TT_QUICK_NOT;
	if (meet(comm, &q)) {
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
