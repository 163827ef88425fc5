/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tutti_comm_grow. The tables of a job (ranks, cards, control tree, channels) have a fixed size, so
 * a job does not grow: the live ranks and the new processes start a new job together. The old job
 * stays until its ranks finalize it. The steps:
 *
 *	agree        on the live ranks, and that all want the same (lib/comm/agree.c)
 *	gather       the leader (lowest live rank) waits at the gate for the new processes
 *	             (lib/boot/rendezvous/admission.c)
 *	tell         the leader makes a unique id and sends it to the live ranks over the
 *	             control tree, and to the new processes
 *	start        all start the new job, the leader as rank 0
 *	agree again  all live ranks have started it, or none keeps it
 *	meet         in a barrier of the new world, by which new processes learn that it is kept;
 *	             if it fails, they return to the gate, and the world has failed elsewhere
 *
 * If a rank fails before the new start, the other ranks would wait for it there. A failing rank
 * therefore reports to the leader, which tells all ranks, and all ranks watch the old job during
 * the new start. Reports may be lost with a rank on their way, and are repeated after each
 * failure.
 *
 * The id and its secret are sent over authenticated, encrypted links only. A rank that was taken
 * for dead takes part in neither agreement and is sent nothing, so it does not learn the new
 * secret.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "lib/job/job.h"
#include "lib/base/clock.h"
#include "lib/boot/rendezvous/discover.h"
#include "lib/boot/rendezvous/admission.h"

#define BOOT_MS 5000   /* for the start of the new job, at least */
#define SLACK_MS 10000 /* until the leader's message has arrived */
#define LOCK_MS 50
/* The ballots of the second agreement; or a shortage. */
#define STARTED UINT64_MAX
#define NOT_STARTED (UINT64_MAX - 1)

struct tt_growth {
	struct tutti_comm *comm;
	int nranks, timeout_ms;
	uint64_t deadline;
	const unsigned char *left_out; /* bits by rank of comm */
	int living, leader, place;     /* count; rank of comm; this rank among them */
	struct tt_grown told;	       /* from the leader, or this rank's own report */
	uint64_t
		lack; /* a shortage that this rank met: rank << 32 | code, as in ballots; 0: none */
};

static bool lives(const struct tt_growth *g, int rank)
{
	return !(g->left_out[rank / 8] >> (rank % 8) & 1);
}

static int count(struct tt_growth *g)
{
	int i;

	g->leader = -1;
	for (i = 0; i < g->comm->size; i++) {
		if (!lives(g, i))
			continue;
		if (g->leader < 0)
			g->leader = i;
		if (i == g->comm->rank)
			g->place = g->living;
		g->living++;
	}
	if (g->living <= g->nranks)
		return 0;
	return tt_fail(-EINVAL,
		       "tutti_comm_grow: nranks is %d, but %d ranks live; to leave some out, use "
		       "tutti_comm_split",
		       g->nranks, g->living);
}

/* A report of another rank in this call; NULL: none. Under the lock. */
static const struct tt_grown *heard_of(const struct tt_growth *g)
{
	const struct tt_grown *told = g->comm->grown;

	return told && told->number == g->comm->votes ? told : NULL;
}

static int told_why(const struct tt_growth *g, const struct tt_grown *told)
{
	return tt_fail_rank(told->code, told->rank,
			    told->rank < 0 ? "" : tt_boot_host(g->comm->ctx->boot, told->rank),
			    "%s", told->text);
}

static int find_dead(const struct tt_growth *g)
{
	struct tutti_comm *comm = g->comm;
	struct tt_boot *boot = comm->ctx->boot;
	char why[TT_GONE_WHY];
	int i;

	for (i = 0; i < comm->size; i++)
		if (lives(g, i) && tt_boot_gone(boot, comm->world[i], why, sizeof(why)))
			return tt_fail_rank(
				-TUTTI_EPEER, comm->world[i], tt_boot_host(boot, comm->world[i]),
				"rank %d on host %s died while the job grew: %s", comm->world[i],
				tt_boot_host(boot, comm->world[i]), why);
	return 0;
}

/* A participating rank has died or failed, or this rank is cut off. */
static int stopped(const struct tt_growth *g)
{
	const struct tt_grown *told;
	int err;

	tt_wire_lock(g->comm->ctx->wire);
	told = heard_of(g);
	if (tt_out_of_it(g->comm))
		err = tt_why_out(g->comm);
	else if (told && told->code < 0)
		err = told_why(g, told);
	else
		err = find_dead(g);
	tt_wire_unlock(g->comm->ctx->wire);
	return err;
}

/*
 * The same as a poll, also in the new job's control thread: it must not wait for the old job's
 * lock.
 */
static int watch(void *arg)
{
	const struct tt_growth *g = arg;
	int err;

	if (!tt_wire_lock_within(g->comm->ctx->wire, LOCK_MS))
		return 0;
	err = stopped(g);
	tt_wire_unlock(g->comm->ctx->wire);
	return err;
}

/* The leader tells all ranks; any other rank tells the leader. Under the lock. */
static void say(const struct tt_growth *g)
{
	struct tutti_comm *comm = g->comm;
	int i;

	for (i = 0; i < comm->size; i++)
		if (lives(g, i) && i != comm->rank && (g->leader == comm->rank || g->leader == i))
			tt_ctl_send(comm->ctx->boot, comm->world[i], TT_CTL_GROW, &g->told,
				    sizeof(g->told));
}

/* Reports that the new job is to be started, or the last error (err). */
static void tell(struct tt_growth *g, int err)
{
	struct tutti_error_info info = {.size = sizeof(info), .rank = -1};
	struct tutti_comm *comm = g->comm;

	if (err)
		tutti_last_error(&info);
	tt_wire_lock(comm->ctx->wire);
	g->told.comm = comm->uid;
	g->told.number = comm->votes;
	g->told.code = err;
	g->told.rank = info.rank;
	snprintf(g->told.text, sizeof(g->told.text), "%.399s", info.text);
	comm->growing = g;
	say(g);
	tt_wire_unlock(comm->ctx->wire);
}

void tt_grow_again(struct tutti_context *ctx)
{
	struct tt_list *l, *tmp;

	tt_ctx_lock(ctx);
	tt_list_each(l, tmp, &ctx->comms)
	{
		struct tutti_comm *comm = tt_container(l, struct tutti_comm, link);

		if (comm->growing)
			say(comm->growing);
	}
	tt_ctx_unlock(ctx);
}

/* If code is a shortage of this rank of the world, all ranks fail with it. -EAGAIN: of threads. */
static void note_lack(struct tt_growth *g, int code, int rank)
{
	tt_ctx_lacks(g->comm->ctx, code);
	if ((tt_is_shortage(code) || code == -EAGAIN) && rank >= 0)
		g->lack = (uint64_t)rank << 32 | (unsigned)-code;
}

/* ---- the leader ---- */

/* The listening address: the old job's, or that of TUTTI_IF if the old job has one process. */
static const char *own_address(const struct tutti_context *ctx)
{
	return ctx->boot_params.nranks > 1 ? ctx->local_addr : ctx->env.iface.text;
}

static int lead(struct tt_growth *g)
{
	struct tutti_context *ctx = g->comm->ctx;
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tt_gate *gate = NULL;
	int err = 0;

	if (g->nranks > g->living)
		err = tt_gate_open(&ctx->env, own_address(ctx), g->nranks - g->living, &gate);
	if (!err && gate)
		err = tt_gate_wait(gate, g->deadline, watch, g);
	if (!err)
		err = tt_unique_id_make(own_address(ctx), &g->told.id);
	note_lack(g, err, ctx->boot_params.rank);
	g->told.boot_ms = tt_left_ms(g->deadline, 1 << 30);
	if (g->told.boot_ms < BOOT_MS)
		g->told.boot_ms = BOOT_MS;
	if (err)
		tutti_last_error(&info);
	tell(g, err);
	if (!err && gate)
		tt_gate_admit(gate, g->living, g->nranks, g->told.boot_ms, &g->told.id);
	if (gate)
		tt_gate_close(gate);
	return err ? tt_fail_info(&info) : 0;
}

/* ---- the other ranks ---- */

/* Keeps the first error, even if earlier messages arrive again. */
static void keep(struct tutti_comm *comm, const struct tt_grown *msg)
{
	if (!comm->grown)
		comm->grown = calloc(1, sizeof(*comm->grown));
	if (comm->grown && (comm->grown->number != msg->number || !comm->grown->code))
		*comm->grown = *msg;
}

void tt_grow_msg(void *arg, int from, const void *data, size_t len)
{
	struct tutti_context *ctx = arg;
	struct tutti_comm *comm;
	struct tt_grown msg;

	if (len != sizeof(msg))
		return;
	memcpy(&msg, data, sizeof(msg));
	msg.from = from;
	msg.text[sizeof(msg.text) - 1] = 0;
	if (msg.rank < -1 || msg.rank >= ctx->boot_params.nranks)
		return;
	tt_ctx_lock(ctx);
	comm = tt_comm_find(ctx, msg.comm);
	if (comm && tt_comm_rank_of(comm, from) >= 0 && msg.number >= comm->votes)
		keep(comm, &msg);
	tt_wire_wake(ctx->wire);
	tt_ctx_unlock(ctx);
	sodium_memzero(&msg, sizeof(msg));
}

/* Under the lock. */
static bool has_told(const struct tt_growth *g)
{
	const struct tt_grown *told = heard_of(g);

	return told && told->from == g->comm->world[g->leader];
}

static bool heard(void *arg)
{
	struct tt_growth *g = arg;
	struct tutti_context *ctx = g->comm->ctx;

	return has_told(g) || tt_out_of_it(g->comm) ||
	       tt_boot_gone(ctx->boot, g->comm->world[g->leader], NULL, 0);
}

static int follow(struct tt_growth *g)
{
	struct tutti_context *ctx = g->comm->ctx;
	int leader = g->comm->world[g->leader], err;
	bool told;

	tt_engine_wait(ctx, heard, g, g->deadline + SLACK_MS * TT_MS);
	tt_wire_lock(ctx->wire);
	told = has_told(g);
	if (told)
		g->told = *g->comm->grown;
	tt_wire_unlock(ctx->wire);
	if (told)
		return g->told.code < 0 ? told_why(g, &g->told) : 0;
	err = stopped(g);
	return err ? err
		   : tt_fail_rank(-ETIMEDOUT, leader, tt_boot_host(ctx->boot, leader),
				  "tutti_comm_grow: rank %d, which gathers new processes, has said "
				  "nothing for "
				  "%d ms",
				  leader, g->timeout_ms + SLACK_MS);
}

/* ---- all ranks ---- */

/* The rank of the world that is at this place in the new job; -1: a new process. */
static int rank_at(const struct tt_growth *g, int place)
{
	int i;

	for (i = 0; i < g->comm->size; i++)
		if (lives(g, i) && place-- == 0)
			return g->comm->world[i];
	return -1;
}

/* Without the number that the rank of a report has in the new job. */
static const char *reason(const char *text)
{
	static const char says[] = " cannot start: ";
	const char *why = strstr(text, says);

	return why ? why + strlen(says) : text;
}

/* Translates the new job's error, or the reason to give it up, to this job's rank numbers. */
static int start_failed(struct tt_growth *g, int err)
{
	struct tutti_context *ctx = g->comm->ctx;
	struct tutti_error_info info = {.size = sizeof(info)};
	int me = ctx->boot_params.rank, why;

	tutti_last_error(&info);
	why = stopped(g);
	if (why && (why == err || err == -TUTTI_EBOOT)) {
		tell(g, why);
		return why;
	}
	if (info.rank >= 0)
		info.rank = rank_at(g, info.rank);
	else if (!info.call[0]) /* no report of another rank */
		info.rank = me;
	note_lack(g, err, info.rank);
	if (g->lack) {
		tell(g, tt_fail_rank(err, info.rank, tt_boot_host(ctx->boot, info.rank),
				     "rank %d could not start the new job: %.300s", info.rank,
				     reason(info.text)));
		return err;
	}
	tell(g, tt_fail_rank(-TUTTI_EBOOT, me, tt_boot_host(ctx->boot, me),
			     "rank %d could not start the new job: %.300s", me, info.text));
	return tt_fail_info(&info);
}

static int start(struct tt_growth *g, struct tutti_context **newctx)
{
	struct tt_env *env = &g->comm->ctx->env;
	struct tutti_config config = {.size = sizeof(config),
				      .tolerant = g->comm->tolerant ? 1 : -1,
				      .nranks = g->nranks,
				      .rank = g->place,
				      .id = &g->told.id,
				      .transport = env->transport.text,
				      .timeout_ms = (int)env->timeout.number,
				      .progress_thread =
					      strcmp(env->progress.text, "thread") ? -1 : 1};
	struct tt_start how = {.timeout_ms = g->told.boot_ms, .env = env, .stop = watch, .arg = g};
	int err = tt_init(&config, &how, newctx);

	return err ? start_failed(g, err) : 0;
}

/* Leaves a new job that this rank, or another rank, cannot keep; no rank waits for it. */
static void discard(struct tutti_context *newctx)
{
	tutti_comm_abort(tutti_world(newctx), 0);
	tutti_finalize(newctx);
}

/* The shortage of the lowest rank. mine: this rank's own error. */
static int lacked(const struct tt_growth *g, uint64_t lack, const struct tutti_error_info *mine)
{
	int code = -(int)(uint32_t)lack, rank = (int)(lack >> 32);
	const char *host = tt_boot_host(g->comm->ctx->boot, rank);

	if (mine->code == code && mine->rank == rank)
		return tt_fail_info(mine);
	return tt_fail_rank(code, rank, host, "rank %d on host %s could not start the new job: %s",
			    rank, host, tutti_strerror(code));
}

/* Whether all live ranks have come so far; err is this rank's own error. */
static int settle(struct tt_growth *g, int err)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tt_ballot ballot = {.kind = TT_VOTE_LEAST,
				   .all = g->lack ? g->lack
					  : err	  ? NOT_STARTED
						  : STARTED};
	int all;

	if (err)
		tutti_last_error(&info);
	all = tt_vote(g->comm, "tutti_comm_grow", &ballot, NULL);
	if (!all && ballot.all < NOT_STARTED)
		return lacked(g, ballot.all, &info);
	if (err)
		return tt_fail_info(&info);
	if (all)
		return all;
	return ballot.all == STARTED
		       ? 0
		       : tt_fail(-TUTTI_EBOOT, "another rank could not start the new job");
}

static int grow(struct tt_growth *g, struct tutti_context **newctx)
{
	struct tutti_context *ctx = g->comm->ctx, *made = NULL;
	struct tutti_error_info info = {.size = sizeof(info)};
	bool leads = g->leader == g->comm->rank;
	int err = leads ? lead(g) : follow(g);

	if (!err)
		err = start(g, &made);
	err = settle(g, err);
	if (!err) {
		*newctx = made;
		tt_kin_join(ctx, made);
		if (g->nranks > g->living) /* new processes wait for this in tutti_init */
			tutti_barrier(tutti_world(made));
		return 0;
	}
	tutti_last_error(&info);
	if (leads)
		tt_unique_id_drop(&g->told.id);
	if (made)
		discard(made);
	tt_log_set_rank(ctx->boot_params.rank);
	return tt_fail_info(&info);
}

/*
 * Stops the repeats and wipes the secret. Late messages belong to a finished agreement and are
 * dropped.
 */
static void forget(struct tt_growth *g)
{
	tt_wire_lock(g->comm->ctx->wire);
	g->comm->growing = NULL;
	if (g->comm->grown)
		sodium_memzero(g->comm->grown, sizeof(*g->comm->grown));
	tt_wire_unlock(g->comm->ctx->wire);
	sodium_memzero(&g->told, sizeof(g->told));
}

int tt_comm_grow(struct tutti_comm *comm, int nranks, int timeout_ms, struct tutti_context **newctx)
{
	uint64_t wish = (uint64_t)(unsigned)timeout_ms << 32 | (unsigned)nranks;
	struct tt_ballot ballot = {.kind = TT_VOTE_GROW, .all = wish, .any = wish};
	struct tt_growth g = {.comm = comm, .nranks = nranks, .timeout_ms = timeout_ms};
	unsigned char left_out[TT_CTL_MSG_MAX];
	int err;

	g.left_out = left_out;
	if (!timeout_ms)
		g.timeout_ms = (int)comm->ctx->env.init_timeout.number;
	err = tt_vote(comm, "tutti_comm_grow", &ballot, left_out);
	g.deadline = tt_deadline_ms(g.timeout_ms);
	if (!err && ballot.all != ballot.any)
		err = tt_fail(
			-TUTTI_EMISMATCH,
			"tutti_comm_grow: ranks gave different values of nranks or timeout_ms");
	if (!err)
		err = count(&g);
	if (!err)
		err = grow(&g, newctx);
	forget(&g);
	return err;
}
