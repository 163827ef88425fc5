/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Splits a communicator: all ranks exchange color and key, then the ranks of each color make one.
 * The request has two steps: an all-gather, which is a request of its own, and the new
 * communicator, which is ready when its ranks share the memory of their host. A rank may finish and
 * send messages on it before another has made its part: the wire keeps them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/hash.h"
#include "lib/base/reserve.h"
#include "lib/engine/node/node_ops.h"
#include "lib/job/job.h"
#include "lib/p2p/p2p.h"

/* A rank's contribution to a split. */
struct part {
	int64_t color, key, next_id, flags;
};

struct split {
	struct tutti_request r;
	struct tt_stalled stalled; /* its next step may be possible */
	const char *call;
	enum tt_inner inner;
	struct tutti_request *gather; /* NULL: it has succeeded */
	struct tutti_comm **newcomm, *made;
	int color;
	struct tutti_error_info why; /* code 0: the parent has failed */
	struct part all[];	     /* by rank; not of the pool, which may need a descriptor */
};

static size_t parts_size(const struct tutti_comm *comm)
{
	return (size_t)comm->size * sizeof(struct part);
}

static struct split *split_of(const struct tutti_request *r)
{
	return tt_container(r, struct split, r);
}

struct member {
	int64_t key;
	int rank;
};

static int by_key(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->rank - y->rank;
}

/* The world ranks of one color, in order; returns their number. */
static int members(const struct tutti_comm *comm, const struct part *all, int color, int *world)
{
	struct member *m = malloc((size_t)comm->size * sizeof(*m));
	int i, n = 0;

	if (!m)
		return tt_fail(-ENOMEM, "no memory to split a communicator");
	for (i = 0; i < comm->size; i++)
		if (all[i].color == color)
			m[n++] = (struct member){.key = all[i].key, .rank = i};
	qsort(m, (size_t)n, sizeof(*m), by_key);
	for (i = 0; i < n; i++)
		world[i] = comm->world[m[i].rank];
	free(m);
	return n;
}

static uint64_t new_uid(const struct split *s)
{
	return tt_hash_add(tt_hash_add(s->r.comm->uid, s->r.seq), (uint64_t)s->color);
}

/* Begins the new communicator. */
static int begin_comm(struct split *s)
{
	struct tutti_comm *parent = s->r.comm;
	struct tt_comm_kind kind = {.uid = new_uid(s),
				    .tolerant = s->all[parent->rank].flags & TUTTI_COMM_TOLERANT};
	int *world = malloc((size_t)parent->size * sizeof(int));
	int i, n = 0, err;

	for (i = 0; i < parent->size; i++)
		if ((uint32_t)s->all[i].next_id > kind.id)
			kind.id = (uint32_t)s->all[i].next_id;
	if (world && (n = members(parent, s->all, s->color, world)) < 0) {
		free(world);
		world = NULL;
	}
	err = tt_comm_begin(parent->ctx, world, n, &kind, s->call, &s->made);
	free(world);
	return err;
}

/* Ranks of one color pass the same flags: all of them come to the same verdict. */
static int check_flags(const struct tutti_comm *comm, const struct part *all, int color)
{
	int i, first = -1;

	for (i = 0; i < comm->size; i++) {
		if (all[i].color != color)
			continue;
		first = first < 0 ? i : first;
		if (all[i].flags == all[first].flags)
			continue;
		return tt_fail_rank(-TUTTI_EMISMATCH, comm->world[i],
				    tt_boot_host(comm->ctx->boot, comm->world[i]),
				    "comm_create: flags are %#llx on rank %d and %#llx on rank %d",
				    (unsigned long long)all[first].flags, comm->world[first],
				    (unsigned long long)all[i].flags, comm->world[i]);
	}
	return 0;
}

/* ---- the request ---- */

/* Other ranks may have made their part: they learn that this rank has none. */
static void drop(struct split *s, int err)
{
	struct tutti_context *ctx = s->r.comm->ctx;

	tt_list_del(&s->stalled.link);
	if (s->color == TUTTI_UNDEFINED)
		return;
	if (!s->made || !atomic_load(&s->made->failed))
		tt_comm_unmade(ctx, new_uid(s), err, s->call);
	if (!s->made)
		return;
	s->made->freed = true; /* not now: the caller may walk through the communicators */
	s->made->magic = TT_COMM_DEAD;
	tt_p2p_freed(s->made);
	s->made = NULL;
	ctx->reap_due = true;
}

/* The all-gather, which is in a list before this request's, has been taken back. */
static void split_cancel(struct tutti_request *r)
{
	struct split *s = split_of(r);

	drop(s, tt_fail_info(&r->comm->failure));
}

static uint64_t split_where(struct tutti_request *r, char *phase, size_t size)
{
	const struct split *s = split_of(r);

	if (s->gather)
		snprintf(phase, size, "%s", s->gather->phase);
	return s->gather ? s->gather->bytes : 0;
}

/*
 * Failures in a row must not come faster than the news of them leaves: the other ranks would take
 * part in more and more calls whose outcome they do not know.
 */
static void end_failed(struct split *s)
{
	struct tutti_context *ctx = s->r.comm->ctx;

	tt_list_del(&s->stalled.link);
	if (tt_comm_told(ctx, new_uid(s)))
		tt_request_end(&s->r, s->why.code);
	else
		tt_list_add(&ctx->stalled, &s->stalled.link);
}

static void fail(struct split *s, int err)
{
	tutti_last_error(&s->why);
	drop(s, err);
	end_failed(s);
}

static void succeed(struct split *s)
{
	tt_list_del(&s->stalled.link);
	*s->newcomm = s->made;
	tt_request_end(&s->r, 0);
}

/* The two requests count as one. */
static void free_gather(struct split *s)
{
	s->r.comm->requests++;
	tt_request_free(s->gather);
	s->gather = NULL;
}

/* The all-gather has succeeded. */
static int take_parts(struct split *s)
{
	int err;

	free_gather(s);
	if (s->color == TUTTI_UNDEFINED)
		return 0;
	err = check_flags(s->r.comm, s->all, s->color);
	return err ? err : begin_comm(s);
}

/*
 * A rank that has the communicator already called on it, and the call failed: the next call on this
 * rank reports that. Deaths, aborts and lost connections name no call, and tt_comm_unmade names the
 * call that makes the communicator, without a number.
 */
static bool later_call_failed(const struct tutti_comm *made)
{
	const struct tutti_error_info *why = &made->failure;

	if (!atomic_load(&made->failed))
		return false;
	if (!why->call[0])
		return why->code == -TUTTI_EREVOKED;
	return why->sequence || strncmp(why->call, "comm_", strlen("comm_")) != 0;
}

static void step(struct tt_stalled *stalled)
{
	struct split *s = tt_container(stalled, struct split, stalled);
	int err = 0;

	if (s->why.code) {
		end_failed(s);
		return;
	}
	if (s->gather && s->gather->status) {
		split_where(&s->r, s->r.phase, sizeof(s->r.phase));
		split_cancel(&s->r);
		tt_request_end(&s->r, s->gather->status);
		return;
	}
	if (s->gather)
		err = take_parts(s);
	if (!err && s->made) {
		if (!tt_comm_ready(s->made, s->call)) {
			s->r.comm->ctx->refusals++; /* no event tells that it is */
			return;
		}
		if (!later_call_failed(s->made))
			err = tt_comm_check(s->made);
	}
	if (err)
		fail(s, err);
	else
		succeed(s);
}

static void gathered(struct tutti_request *gather)
{
	struct split *s = gather->ended_arg;

	tt_list_del(&s->stalled.link);
	tt_list_add(&s->r.comm->ctx->stalled, &s->stalled.link);
}

static const char *split_call(const struct tutti_request *r)
{
	return split_of(r)->call;
}

/* An all-gather that is still being left ends this request later. */
static bool split_abandon(struct tutti_request *r)
{
	struct split *s = split_of(r);

	if (s->gather && !tt_request_finished(s->gather))
		return false;
	split_cancel(r);
	return true;
}

static void split_free(struct tutti_request *r)
{
	struct split *s = split_of(r);

	if (s->gather)
		free_gather(s);
	tt_request_release(r->comm->ctx, r, sizeof(*s) + parts_size(r->comm));
}

static const char *split_text(const struct tutti_request *r, char *buf, size_t size)
{
	snprintf(buf, size, "%s", split_of(r)->call);
	return buf;
}

static int split_waits(const struct tutti_request *r, char *buf, size_t size)
{
	const struct split *s = split_of(r);

	return s->gather ? s->gather->ops->waits(s->gather, buf, size) : -1;
}

/* The all-gather, which has no deadline, reports itself. */
static void split_late(struct tutti_request *r)
{
	const struct split *s = split_of(r);

	if (s->gather && !tt_request_finished(s->gather))
		tt_late_ask(s->gather, 0, r->deadline);
}

/* Without its host's memory, only the new communicator fails. */
static bool split_expire(struct tutti_request *r)
{
	struct split *s = split_of(r);

	if (!s->why.code && (s->gather || !s->made))
		return false;
	if (!s->why.code) {
		fail(s, tt_node_comm_late(s->made));
	} else {
		tt_list_del(&s->stalled.link);
		tt_request_end(&s->r, s->why.code);
	}
	return true;
}

static int split_explain(const struct tutti_request *r)
{
	const struct split *s = split_of(r);

	if (s->why.code)
		return tt_fail_info(&s->why);
	return tt_comm_failure(r->comm, s->call, r->seq, r->phase, r->bytes);
}

static const struct tt_request_ops split_ops = {.list = TT_ACTIVE_OTHER,
						.call = split_call,
						.cancel = split_cancel,
						.abandon = split_abandon,
						.free = split_free,
						.late = split_late,
						.text = split_text,
						.waits = split_waits,
						.where = split_where,
						.expire = split_expire,
						.kept = true,
						.explain = split_explain};

/* NULL: no memory. */
static struct split *split_new(struct tutti_comm *comm, const struct tt_comm_part *part)
{
	struct split *s = tt_request_alloc(comm->ctx, sizeof(*s), parts_size(comm));

	if (!s)
		return NULL;
	tt_list_init(&s->stalled.link);
	s->stalled.again = step;
	s->call = part->call;
	s->inner = part->inner;
	s->color = part->color;
	s->why.size = sizeof(s->why);
	s->all[comm->rank] =
		(struct part){.color = part->color, .key = part->key, .flags = part->flags};
	return s;
}

/* With few ranks a rank sends log2 messages; no rank sends more bytes than there are parts. */
static int new_gather(struct tutti_comm *comm, struct split *s)
{
	struct tt_call call = {.coll = TT_COLL_ALLGATHER,
			       .in_place = true,
			       .recvbuf = s->all,
			       .count = sizeof(*s->all) / sizeof(int64_t),
			       .datatype = TUTTI_INT64,
			       .inner = s->inner};
	int err = tt_comm_check_call(comm, TT_ACTIVE_COLL, s->call);

	if (!err)
		err = tt_request_new(comm, &call, false, &s->gather);
	if (err)
		return err;
	comm->requests--;
	s->gather->inner = true;
	s->gather->ended = gathered;
	s->gather->ended_arg = s;
	tt_request_set_timeout(s->gather, TUTTI_NEVER); /* the split's holds */
	return 0;
}

/* All memory that the exchange needs. */
static int make(struct tutti_comm *comm, const struct tt_comm_part *part, struct split **out)
{
	struct split *s = split_new(comm, part);
	int err = s ? new_gather(comm, s) : tt_fail(-ENOMEM, "no memory to split a communicator");

	if (!err)
		tt_request_init(&s->r, &split_ops, comm, false);
	else if (s)
		tt_request_release(comm->ctx, &s->r, sizeof(*s) + parts_size(comm));
	*out = s;
	return err;
}

/* Begins both requests; the state of comm has been checked. */
static int start(struct split *s)
{
	int err = tt_request_begin(&s->r);

	if (err)
		return err;
	s->all[s->r.comm->rank].next_id = s->r.comm->ctx->next_comm_id++;
	err = tt_request_start(s->gather);
	s->r.seq = s->gather->seq;
	if (err)
		tt_request_end(&s->r, err);
	else if (tt_request_finished(s->gather))
		step(&s->stalled);
	return err;
}

int tt_comm_isplit(struct tutti_comm *comm, const struct tt_comm_part *part,
		   struct tutti_comm **newcomm, struct tutti_request **out)
{
	struct tutti_context *ctx = comm->ctx;
	struct split *s;
	int err, made;

	tt_wire_lock(ctx->wire);
	tt_reserve_fill(ctx->boot_params.nranks);
	tt_reserve_enter();
	err = make(comm, part, &s);
	made = err;
	if (!err) {
		s->newcomm = newcomm;
		err = start(s);
		if (err)
			tt_request_free(&s->r);
	}
	tt_reserve_leave();
	if (!err)
		*out = &s->r;
	if (ctx->thread_runs)
		tt_wire_wake(ctx->wire);
	tt_wire_unlock(ctx->wire);
	if (made)
		tt_comm_refused(comm, TT_REFUSED + part->inner, TT_FORM_CALL, made);
	if (err)
		tt_record_due(ctx);
	return err;
}
