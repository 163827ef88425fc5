/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A partial all-reduce is made and freed here; and the thread of each, which advances it while its
 * callers compute: as a member it offers and takes results, as the decider it decides rounds and
 * watches the cutoff. A caller that waits advances it too.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/clock.h"
#include "lib/base/datatype.h"
#include "lib/base/spawn.h"
#include "lib/engine/vote.h"
#include "lib/partial/partial.h"

/* ---- progress ---- */

/* A failure of one rank, for want of memory, is that of all, which would wait for its messages. */
static void tell_failure(struct tutti_partial *p)
{
	struct tutti_context *ctx = p->comm->ctx;
	int rank = p->comm->world[p->comm->rank];

	if (!atomic_load(&p->comm->failed))
		tt_comm_fail(p->comm, p->failed, rank, "partial_allreduce", 0, "",
			     "a partial all-reduce has failed on rank %d on host %s: %s", rank,
			     tt_boot_host(ctx->boot, rank), tutti_strerror(p->failed));
}

void tt_partial_step(struct tutti_partial *p)
{
	do {
		p->stirred = false;
		tt_partial_arrivals(p);
		if (atomic_load(&p->comm->failed) && !p->failed)
			p->failed = atomic_load(&p->comm->failed);
		if (p->failed)
			break;
		tt_partial_takeover(p);
		tt_partial_offer(p);
		tt_partial_decide(p);
	} while (p->stirred);
	if (p->failed) {
		tell_failure(p);
		tt_partial_carry(p);
	}
	tt_wire_wake_ready(p->comm->ctx->wire);
}

int tt_partial_check(struct tutti_partial *p)
{
	int err = tt_comm_check(p->comm);

	if (!err && p->failed)
		err = tt_fail(p->failed, "a partial all-reduce has failed: %s",
			      tutti_strerror(p->failed));
	return err;
}

static bool thread_has_work(void *arg)
{
	const struct tutti_partial *p = arg;

	return p->stop || (!p->attended && !p->failed &&
			   (p->stirred || p->cutoff_at < p->wakes_at || p->pass_at < p->wakes_at));
}

uint64_t tt_partial_next_look(const struct tutti_partial *p)
{
	uint64_t look;

	if (p->failed)
		return TT_NEVER;
	look = tt_passed(p->cutoff_at) ? tt_now_ns() + TT_MS /* nothing can be decided yet */
				       : p->cutoff_at;
	return look < p->pass_at ? look : p->pass_at;
}

static void *thread_main(void *arg)
{
	struct tutti_partial *p = arg;
	struct tutti_context *ctx = p->comm->ctx;
	uint64_t until = TT_NEVER;
	bool stop = false;

	tt_spawned_brief();
	while (!stop) {
		tt_engine_wait_beside(ctx, thread_has_work, p, until);
		tt_wire_lock(ctx->wire);
		tt_partial_step(p);
		until = p->wakes_at = tt_partial_next_look(p);
		stop = p->stop;
		tt_wire_unlock(ctx->wire);
	}
	return NULL;
}

/* ---- making ---- */

enum word { COUNT, DATATYPE, OP, QUORUM, CUTOFF, LATE, DIVIDE, CONFIG_WORDS };

/* As the caller wrote it. */
static const char *word_text(enum word word, uint64_t value, char *buf, size_t size)
{
	if (word == DATATYPE)
		tt_datatype_text((enum tutti_datatype)value, buf, size);
	else if (word == OP)
		snprintf(buf, size, "%s", tt_op_name((enum tutti_op)value));
	else if (word == QUORUM && (int)value == TUTTI_PARTIAL_MAJORITY)
		snprintf(buf, size, "TUTTI_PARTIAL_MAJORITY");
	else if (word == LATE)
		snprintf(buf, size, "TUTTI_PARTIAL_%s",
			 value == TUTTI_PARTIAL_CARRY ? "CARRY" : "DROP");
	else if (word == DIVIDE)
		snprintf(buf, size, "TUTTI_PARTIAL_%s",
			 value == TUTTI_PARTIAL_BY_SIZE ? "BY_SIZE" : "BY_TAKING_PART");
	else
		snprintf(buf, size, "%lld", (long long)value);
	return buf;
}

static int differs(const struct tutti_comm *comm, const uint64_t *all)
{
	static const char *const name[CONFIG_WORDS] = {"count",	    "datatype", "op",	 "quorum",
						       "cutoff_us", "late",	"divide"};
	char a[40], b[40];
	int r, i;

	for (r = 1; r < comm->size; r++)
		for (i = 0; i < CONFIG_WORDS; i++)
			if (all[r * CONFIG_WORDS + i] != all[i])
				return tt_comm_blame_rank(
					comm, -TUTTI_EMISMATCH, r,
					"tutti_partial_create: %s is %s on rank %d, %s on rank %d",
					name[i], word_text((enum word)i, all[i], a, sizeof(a)),
					comm->world[0],
					word_text((enum word)i, all[r * CONFIG_WORDS + i], b,
						  sizeof(b)),
					comm->world[r]);
	return 0;
}

/* All ranks come to the same verdict. */
static int compare(struct tutti_comm *comm, const struct tutti_partial *p, uint64_t *all)
{
	const struct tutti_partial_config *c = &p->config;
	const uint64_t mine[CONFIG_WORDS] = {p->count,
					     (uint64_t)p->datatype,
					     (uint64_t)p->op,
					     (uint64_t)(int64_t)c->quorum,
					     (uint64_t)c->cutoff_us,
					     (uint64_t)c->late,
					     (uint64_t)c->divide};
	int err = tt_exchange(comm, mine, all, CONFIG_WORDS);

	return err ? err : differs(comm, all);
}

static bool make_memory(struct tutti_partial *p, int n)
{
	int i;

	p->peer = calloc((size_t)n, sizeof(*p->peer));
	p->consumed = calloc((size_t)n, sizeof(*p->consumed));
	p->took = calloc(1, p->bitmap_len);
	if (!p->peer || !p->consumed || !p->took)
		return false;
	for (i = 0; i < n; i++) {
		p->peer[i].p = p;
		p->peer[i].rank = i;
		p->peer[i].head = calloc(1, p->head_max);
		if (!p->peer[i].head)
			return false;
	}
	for (i = 0; i < TUTTI_PARTIAL_WINDOW; i++) {
		p->slot[i].head = calloc(1, p->head_max);
		if (!p->slot[i].head)
			return false;
	}
	return true;
}

static void free_memory(struct tutti_partial *p)
{
	int i;

	for (i = 0; p->peer && i < p->living; i++)
		free(p->peer[i].head);
	for (i = 0; i < TUTTI_PARTIAL_WINDOW; i++)
		free(p->slot[i].head);
	free(p->peer);
	free(p->consumed);
	free(p->took);
	p->magic = 0;
	free(p);
}

static struct tutti_partial *make(struct tutti_comm *comm, const struct tutti_partial *like)
{
	struct tutti_partial *p = malloc(sizeof(*p));
	size_t n = (size_t)comm->size;

	if (!p)
		return NULL;
	*p = *like;
	p->magic = TT_PARTIAL_MAGIC;
	p->parent = comm;
	p->bytes = p->count * tutti_datatype_size(p->datatype);
	p->bitmap_len = (n + 7) / 8;
	p->head_max = sizeof(struct tt_partial_head) + n * sizeof(uint64_t) + p->bitmap_len;
	p->living = comm->size;
	p->decider = p->fetches_from = -1;
	p->cutoff_at = p->pass_at = p->wakes_at = TT_NEVER;
	p->stats.size = sizeof(p->stats);
	tt_list_init(&p->spare);
	tt_list_init(&p->sent);
	if (make_memory(p, comm->size))
		return p;
	free_memory(p);
	return NULL;
}

static int start(struct tutti_partial *p)
{
	struct tutti_context *ctx = p->comm->ctx;
	struct tt_partial_vec *vec;
	int r, err;

	tt_wire_lock(ctx->wire);
	vec = tt_partial_vec_get(p); /* that there is memory */
	if (vec)
		tt_partial_vec_put(p, vec);
	for (r = 0; r < p->comm->size && vec; r++)
		if (r != p->comm->rank)
			tt_partial_receive(&p->peer[r]);
	err = tt_partial_check(p);
	p->stirred = true;
	p->parent->partials++;
	p->runs = !err; /* before the thread, which reads what is beside it */
	tt_wire_unlock(ctx->wire);
	if (err)
		return err;
	err = tt_spawn(&p->thread, thread_main, p, "the thread of a partial all-reduce");
	if (err)
		p->runs = false;
	return err;
}

static void dispose(struct tutti_partial *p);

#define FREEING_VOTES 2 /* in tt_partial_free */

int tt_partial_new(struct tutti_comm *comm, const struct tutti_partial *like, int err,
		   struct tutti_partial **out)
{
	static const char call[] = "tutti_partial_create";
	struct tutti_partial *p = err ? NULL : make(comm, like);
	uint64_t *all = calloc((size_t)comm->size, CONFIG_WORDS * sizeof(*all));
	struct tutti_comm *own = NULL;

	if (!err && (!p || !all))
		err = tt_fail(-ENOMEM, "no memory for a partial all-reduce");
	err = tt_agree(comm, call, err);
	if (!err)
		err = compare(comm, p, all);
	free(all);
	if (!err)
		err = tutti_comm_dup(comm, &own);
	if (err) {
		if (p)
			free_memory(p);
		return err;
	}
	p->comm = own;
	err = start(p);
	if (!err)
		err = tt_vote_reserve(own, FREEING_VOTES);
	err = tt_agree(own, call, err);
	if (err) {
		dispose(p);
		return err;
	}
	own->owner = "a partial all-reduce";
	own->owner_free = "tutti_partial_free";
	*out = p;
	return 0;
}

/* ---- freeing ---- */

static const char freeing_call[] = "tutti_partial_free";

static void stop(struct tutti_partial *p)
{
	struct tt_wire *wire = p->comm->ctx->wire;

	if (!p->runs)
		return;
	tt_wire_lock(wire);
	p->stop = true;
	tt_wire_unlock(wire);
	tt_wire_wake(wire);
	pthread_join(p->thread, NULL);
}

/* Ends all requests. Sends that are left are to ranks that do not receive any more. */
static void end_requests(struct tutti_partial *p)
{
	int r, i;

	for (r = 0; r < p->comm->size; r++) {
		struct tt_partial_peer *peer = &p->peer[r];

		if (peer->req && !peer->over) {
			peer->req->ops->cancel(peer->req);
			tt_request_end(peer->req, -ECANCELED);
		}
		if (peer->req)
			tt_request_free(peer->req);
		tt_partial_vec_put(p, peer->vec);
		tt_partial_vec_put(p, peer->offered);
	}
	for (i = 0; i <= TT_PARTIAL_OFFERS; i++) {
		tt_partial_vec_put(p, p->offer[i].vec);
		p->offer[i].vec = NULL;
	}
	for (i = 0; i < TUTTI_PARTIAL_WINDOW; i++)
		tt_partial_vec_put(p, p->slot[i].vec);
	tt_partial_carry(p);
}

static void cancel_sends(struct tutti_comm *comm)
{
	struct tutti_request *req;

	while (!tt_list_empty(&comm->active[TT_ACTIVE_OTHER])) {
		req = tt_container(comm->active[TT_ACTIVE_OTHER].next, struct tutti_request, link);
		req->ops->cancel(req);
		tt_request_end(req, -ECANCELED);
	}
}

static void dispose(struct tutti_partial *p)
{
	struct tutti_context *ctx = p->comm->ctx;

	stop(p);
	tt_wire_lock(ctx->wire);
	p->failed = p->failed ? p->failed : -ECANCELED;
	cancel_sends(p->comm);
	tt_partial_arrivals(p);
	end_requests(p);
	tt_partial_vec_free_all(p);
	if (!--p->parent->partials && p->parent->freed)
		ctx->reap_due = true;
	p->living = p->comm->size; /* how many peers there are */
	tt_wire_unlock(ctx->wire);
	tutti_comm_free(p->comm);
	free_memory(p);
}

static bool all_sent(void *arg)
{
	const struct tutti_partial *p = arg;

	return !p->sends || p->failed;
}

/* All living ranks agree that no rank has a carry. */
static int vote(struct tutti_partial *p)
{
	uint64_t empty;
	size_t bytes;
	int err;

	tt_wire_lock(p->comm->ctx->wire);
	bytes = p->carried;
	tt_wire_unlock(p->comm->ctx->wire);
	empty = !bytes;
	err = tt_comm_agree(p->comm, freeing_call, TUTTI_BAND, &empty);
	if (err || empty)
		return err;
	return bytes ? tt_fail(-EBUSY,
			       "tutti_partial_free: %zu bytes of this rank's carry are in no "
			       "result; call tutti_partial_drain first",
			       bytes)
		     : tt_fail(-EBUSY, "tutti_partial_free: another rank has a carry that is in no "
				       "result; call tutti_partial_drain first");
}

int tt_partial_free(struct tutti_partial *p)
{
	struct tutti_context *ctx = p->comm->ctx;
	uint64_t all = 1;
	int err, failed;

	tt_wire_lock(ctx->wire);
	failed = p->failed;
	tt_wire_unlock(ctx->wire);
	if (!failed && !atomic_load(&p->comm->failed)) {
		err = vote(p);
		p->freeing = err == -ETIMEDOUT;
		if (err && !atomic_load(&p->comm->failed))
			return err;
		tt_engine_wait(ctx, all_sent, p, tt_deadline_ms(ctx->env.timeout.number));
		(void)tt_comm_agree(p->comm, freeing_call, TUTTI_BAND,
				    &all); /* no rank sends any more */
	}
	dispose(p);
	return 0;
}
