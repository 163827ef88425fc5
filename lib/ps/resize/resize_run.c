/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tutti_ps_resize: a new parameter server on other ranks takes the tables of the old one. All ranks
 * complete a step before any rank begins the next step (tell, hush and rest: resize_begin.c):
 *
 *	tell	 ranks exchange their old and new roles; all reach the same verdict
 *	end	 staleness 0: the clock has ended everywhere
 *	hush	 leaving workers push what they hold back, and servers answer all messages of
 *		 workers, so nothing is under way to a server
 *	rest	 servers apply, pass on and publish the rest, then their threads stop
 *	open	 ranks open the new parameter server, with the same tables, empty
 *	move	 values move to the new tables: lib/ps/resize/resize.c
 *	start	 the new servers' threads start
 *	vote	 tt_comm_agree: all live ranks accept the new parameter server, or none does
 *
 * Until the vote the old parameter server keeps all its values, with what leaving workers have
 * pushed in hush: with staleness 0 that is a step of its own. If the vote fails, its servers'
 * threads start again, and the new one is dropped. A rank that dies after the vote is an ordinary
 * failure in the new parameter server.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ps/resize/resize_run.h"
#include "lib/base/clock.h"
#include "lib/engine/vote.h"
#include "lib/ps/worker/accumulate.h"

/* A table's description for new ranks, without its functions. */
struct described {
	char name[TT_PS_NAME];
	char codec[TUTTI_CODEC_NAME_MAX], publish[TUTTI_CODEC_NAME_MAX]; /* empty: none */
	uint64_t rows, datatype, elem, width, count;
	struct tutti_ps_options opt;
};

static int read_arguments(struct tt_ps_resize *r, const struct tutti_ps_config *config,
			  struct tutti_ps **out)
{
	int err = out ? 0 : tt_fail(-EINVAL, TT_PS_RESIZE ": newps is NULL");

	if (!err)
		err = tt_ps_read_config(TT_PS_RESIZE, config, TUTTI_PS_LEAVE, &r->config);
	if (err || config || !r->old)
		return err;
	r->config.role = r->old->role;
	return 0;
}

/* ---- open ---- */

/* Existing workers keep their clock; new ones start at the minimum. */
static int set_clocks(struct tt_ps_resize *r)
{
	uint64_t min = UINT64_MAX, served = r->old && r->old->srv[0] ? tt_ps_rest_clock(r->old) : 0;
	int i, n = 0, err;

	err = tutti_allreduce(TUTTI_IN_PLACE, &served, 1, TUTTI_UINT64, TUTTI_MAX, r->comm);
	if (err)
		return err;
	for (i = 0; i < r->comm->size; i++)
		if (tt_ps_stays(&r->was[i]) && r->was[i].worker &&
		    r->was[i].role & TUTTI_PS_WORKER && r->was[i].clock < min)
			min = r->was[i].clock;
	r->min_clock = min == UINT64_MAX ? served : min;
	for (i = 0; i < r->comm->size; i++)
		if (tt_ps_stays(&r->was[i]) && r->was[i].role & TUTTI_PS_WORKER)
			r->clock[n++] = r->was[i].worker ? r->was[i].clock : r->min_clock;
	return 0;
}

/* New workers get new trace numbers. */
static int number_traces(struct tt_ps_resize *r)
{
	struct tutti_ps *fresh = r->fresh;
	int i, n = 0, last = 0;

	fresh->trace_id = calloc((size_t)r->comm->size, sizeof(*fresh->trace_id));
	if (!fresh->trace_id)
		return tt_fail(-ENOMEM, "no memory for " TT_PS_RESIZE);
	for (i = 0; i < r->comm->size; i++)
		if (r->was[i].trace_ids > (uint64_t)last)
			last = (int)r->was[i].trace_ids;
	for (i = 0; i < r->comm->size; i++)
		if (tt_ps_stays(&r->was[i]) && r->was[i].role & TUTTI_PS_WORKER)
			fresh->trace_id[n++] = r->was[i].worker ? (int)r->was[i].trace_id : last++;
	fresh->trace_ids = last;
	return 0;
}

/* Of the ranks that stay: one communicator for windows and calls, one for collectives. */
static int split(struct tt_ps_resize *r)
{
	int color = tt_ps_stays(&r->was[r->comm->rank]) ? 0 : TUTTI_UNDEFINED, err = 0, end;
	struct tutti_comm_config how = {.size = sizeof(how), .color = color, .key = r->comm->rank};
	struct tutti_comm *none = NULL;

	if (!color) {
		r->fresh = tt_ps_new(r->comm->size, &r->cards);
		err = r->fresh ? number_traces(r)
			       : tt_fail(-ENOMEM, "no memory for a parameter server");
	}
	err = tt_ps_resize_agree(r, err);
	if (err)
		return err;
	if (r->fresh)
		r->fresh->inherits = true;
	err = tutti_comm_create(r->comm, &how, r->fresh ? &r->fresh->comm : &none);
	end = tutti_comm_create(r->comm, &how, r->fresh ? &r->fresh->coll : &none);
	return tt_ps_resize_agree(r, err ? err : end);
}

static void describe(const struct tutti_ps_table *t, struct described *d)
{
	memset(d, 0, sizeof(*d));
	memcpy(d->name, t->name, sizeof(d->name));
	d->rows = t->rows;
	d->datatype = (uint64_t)t->datatype;
	d->elem = t->elem;
	d->width = t->width;
	d->count = t->count;
	d->opt = t->opt;
	d->opt.update = NULL;
	d->opt.fill = NULL;
	d->opt.arg = NULL;
	d->opt.codec = NULL;
	if (t->opt.codec)
		snprintf(d->codec, sizeof(d->codec), "%s", tt_codec_name(t->opt.codec));
	d->opt.publish = NULL;
	if (t->opt.publish)
		snprintf(d->publish, sizeof(d->publish), "%s", tt_codec_name(t->opt.publish));
}

/* A rank that has the table has its codec, too; a new rank makes it from its name. */
static int make_table(struct tt_ps_resize *r, const struct described *d,
		      struct tutti_ps_table *like)
{
	struct tutti_codec *codec = NULL, *publish = like->opt.publish;
	struct tutti_ps_table *t;
	int err = 0;

	if (like->opt.codec)
		codec = tt_codec_hold(like->opt.codec);
	else if (d->codec[0] && tt_codec_new(d->codec, &codec))
		return tt_fail(-EOPNOTSUPP,
			       TT_PS_RESIZE ": new ranks cannot make the user-defined codec '%s' "
					    "of table '%s'",
			       d->codec, d->name);
	like->opt.codec = codec;
	if (publish)
		tt_codec_hold(publish);
	else if (d->publish[0])
		err = tt_codec_new(d->publish, &publish);
	like->opt.publish = publish;
	if (!err)
		err = tt_ps_make_table(r->fresh, like, &t);
	if (codec)
		tt_codec_release(codec);
	if (publish)
		tt_codec_release(publish);
	return err;
}

static int make_tables(struct tt_ps_resize *r, const struct described *d)
{
	uint64_t i;
	int err = 0;

	for (i = 0; i < r->ntables && !err; i++, d++) {
		struct tutti_ps_table like = {.rows = d->rows,
					      .moved = true,
					      .datatype = (enum tutti_datatype)d->datatype,
					      .elem = d->elem,
					      .width = d->width,
					      .count = d->count,
					      .opt = d->opt};

		memcpy(like.name, d->name, sizeof(like.name));
		if (r->old) {
			like.opt.update = r->old->table[i]->opt.update;
			like.opt.fill = r->old->table[i]->opt.fill;
			like.opt.arg = r->old->table[i]->opt.arg;
			like.opt.codec = r->old->table[i]->opt.codec;
			like.opt.publish = r->old->table[i]->opt.publish;
			like.opt.priority = r->old->table[i]->opt.priority;
		}
		err = make_table(r, d, &like);
	}
	return err;
}

static int open_tables(struct tt_ps_resize *r)
{
	int root = (int)(r->first - r->was), err;
	struct described *d = calloc((size_t)r->ntables + 1, sizeof(*d));
	uint64_t i;

	for (i = 0; d && r->comm->rank == root && i < r->ntables; i++)
		describe(r->old->table[i], &d[i]);
	err = tt_ps_resize_agree(r, d ? 0 : tt_fail(-ENOMEM, "no memory for " TT_PS_RESIZE));
	if (!err && r->ntables)
		err = tutti_bcast(d, (size_t)r->ntables * sizeof(*d), TUTTI_UINT8, root, r->comm);
	if (!err && r->fresh)
		err = make_tables(r, d);
	free(d);
	return tt_ps_resize_agree(r, err);
}

static int open_fresh(struct tt_ps_resize *r)
{
	int err = split(r);

	if (!err)
		err = tt_ps_resize_agree(
			r,
			r->fresh ? tt_ps_open_on(TT_PS_RESIZE, r->fresh, &r->config, r->cards) : 0);
	if (!err)
		err = set_clocks(r);
	return err ? err : open_tables(r);
}

/* ---- start, vote ---- */

static const char *trace_of(const struct tt_ps_resize *r)
{
	return r->comm->ctx->env.ps_trace.text;
}

static int start(struct tt_ps_resize *r)
{
	struct tutti_ps *fresh = r->fresh;
	int err = 0;

	if (!fresh)
		return 0;
	if (fresh->my_worker >= 0 && !r->was[r->comm->rank].worker)
		err = tt_ps_trace_join(fresh, trace_of(r));
	if (!err && fresh->srv[0])
		err = tt_ps_server_start(fresh);
	return err;
}

/*
 * Whether this rank only serves, and live workers may compute for any time before they call. The
 * rank then waits without a deadline until the first worker comes; from then on that worker's
 * deadline applies, and fails the call on all ranks.
 */
static bool only_serves(const struct tutti_ps *old)
{
	bool worker = false;
	int w;

	if (!old || old->my_worker >= 0)
		return false;
	tt_wire_lock(old->comm->ctx->wire);
	for (w = 0; w < old->nworkers; w++)
		worker = worker || !old->worker_lost[w];
	worker = worker && !atomic_load(&old->comm->failed);
	tt_wire_unlock(old->comm->ctx->wire);
	return worker;
}

static int arrive(const struct tt_ps_resize *r, int mine)
{
	return only_serves(r->old) ? tt_agree_patient(r->comm, TT_PS_RESIZE, mine)
				   : tt_ps_resize_agree(r, mine);
}

static int steps(struct tt_ps_resize *r, const struct tutti_ps_config *config)
{
	int err = tt_ps_resize_meet(r, config);

	if (!err)
		err = tt_ps_resize_quieten(r);
	if (!err)
		err = open_fresh(r);
	if (!err)
		err = tt_ps_move_all(r);
	return err ? err : tt_ps_resize_agree(r, start(r));
}

/* Updates that n_push or a codec holds back move to the new table, as do their counters. */
static void keep_own(struct tutti_ps_table *from, struct tutti_ps_table *to)
{
	struct tt_ps_sum sum = to->accrued;
	struct tt_ps_row_units met = to->accrued_rows;

	to->taus = from->taus;
	to->answered = from->answered;
	to->exact = from->exact;
	tt_ps_feedback_keep(from, to);
	if (!sum.sums || !from->accrued.sums)
		return;
	to->accrued = from->accrued;
	from->accrued = sum;
	to->accrued_rows = from->accrued_rows;
	from->accrued_rows = met;
}

static void go_on(struct tt_ps_resize *r)
{
	struct tutti_ps *old = r->old, *fresh = r->fresh;
	uint64_t i;

	for (i = 0; old && fresh && i < r->ntables; i++)
		keep_own(old->table[i], fresh->table[i]);
	if (old && fresh && fresh->my_worker >= 0 && old->my_worker >= 0) {
		tt_wire_lock(old->comm->ctx->wire);
		tt_ps_trace_on(fresh, old);
		tt_wire_unlock(old->comm->ctx->wire);
	} else if (old && old->my_worker >= 0) {
		tt_wire_lock(old->comm->ctx->wire);
		tt_ps_trace(old, "leave %llu\n", (unsigned long long)tt_now_ns());
		tt_wire_unlock(old->comm->ctx->wire);
	}
	if (old)
		(void)tt_ps_settle(old);
	if (!atomic_load(&r->comm->failed)) /* all are done, or a rank has failed since */
		(void)tutti_barrier(r->comm);
	if (old)
		tt_ps_free(old);
}

/* A vote that does not end is dropped: the next agreement of comm belongs to its user. */
static int all_agree(struct tutti_comm *comm, uint64_t *fine)
{
	int err = tt_comm_agree(comm, TT_PS_RESIZE, TUTTI_BAND, fine);

	if (err == -ETIMEDOUT) {
		tt_wire_lock(comm->ctx->wire);
		tt_vote_drop(comm);
		tt_wire_unlock(comm->ctx->wire);
	}
	return err;
}

/*
 * A rank must not free memory that another rank's server still writes: the transport would report a
 * fault and close the connection, and one of two live ranks would be dropped. So all ranks that
 * voted meet before they free, unless that vote did not end.
 */
static void free_fresh(struct tt_ps_resize *r)
{
	struct tutti_error_info why = {.size = sizeof(why)};
	uint64_t none = 0;

	tutti_last_error(&why);
	if (r->fresh) {
		tt_ps_trace_undo(r->fresh, trace_of(r));
		tt_ps_server_stop(r->fresh);
		(void)tt_ps_settle_own(r->fresh);
	}
	if (r->voted)
		(void)all_agree(r->comm, &none);
	if (r->fresh)
		tt_ps_free(r->fresh);
	(void)tt_fail_info(&why);
}

static void go_back(struct tt_ps_resize *r)
{
	struct tutti_ps *old = r->old;

	free_fresh(r);
	if (!old)
		return;
	tt_ps_rest_wanted(old, false);
	tt_wire_lock(old->comm->ctx->wire);
	old->present = NULL;
	tt_wire_unlock(old->comm->ctx->wire);
	if (r->stopped && old->srv[0] && tt_ps_server_restart(old))
		tt_err("cannot restart a server's thread: %s", tt_fail_text(-EAGAIN));
}

/* This rank succeeded and others did not: report the failed rank. */
static int say_who(struct tutti_comm *comm)
{
	struct tutti_failed dead;
	int n = 0;

	if (!tutti_comm_failed(comm, &dead, 1, &n) && n)
		return tt_fail_rank(-TUTTI_EPEER, dead.world_rank, dead.host,
				    TT_PS_RESIZE ": rank %d on host %s has failed: %s",
				    dead.world_rank, dead.host, dead.reason);
	return tt_fail(-TUTTI_EPEER, TT_PS_RESIZE ": another rank failed to resize");
}

/* Every rank votes, also after an error; otherwise the other ranks would wait. */
static int vote(struct tt_ps_resize *r, int err)
{
	struct tutti_error_info why = {.size = sizeof(why)};
	uint64_t fine = !err;
	int end;

	tutti_last_error(&why);
	end = all_agree(r->comm, &fine);
	r->voted = !end;
	if (err)
		return tt_fail_info(&why);
	if (end)
		return end;
	return fine ? 0 : say_who(r->comm);
}

static void free_resize(struct tt_ps_resize *r)
{
	free(r->was);
	free(r->cards);
	free(r->rank_of);
	free(r->present);
	free(r->copy);
	free(r->clock);
	free(r->to.words);
}

int tt_ps_resize(struct tutti_ps *ps, struct tutti_comm *comm, const struct tutti_ps_config *config,
		 struct tutti_ps **newps)
{
	struct tt_ps_resize r = {.comm = comm, .old = ps};
	size_t n = (size_t)comm->size;
	int err;

	r.was = calloc(n, sizeof(*r.was));
	r.rank_of = calloc(n, sizeof(*r.rank_of));
	r.clock = calloc(n, sizeof(*r.clock));
	err = r.was && r.rank_of && r.clock ? read_arguments(&r, config, newps)
					    : tt_fail(-ENOMEM, "no memory for " TT_PS_RESIZE);
	err = arrive(&r, err);
	if (!err)
		err = steps(&r, config);
	err = vote(&r, err);
	if (err) {
		go_back(&r);
	} else {
		go_on(&r);
		*newps = r.fresh;
	}
	free_resize(&r);
	return err;
}
