/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens and closes a parameter server, collectively. Its tables are in ps_tables.c. */
#include "lib/ps/essp/essp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ps/ps_open.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/ps/worker/accumulate.h"
#include "lib/topo/topo.h"

/*
 * The default of TUTTI_PS_GRACE in microseconds where all ranks share memory: most blocks are
 * copied in less, and another look at the stamp takes no message.
 */
#define NEAR_GRACE 20
#define CARD_WORDS (sizeof(struct tt_ps_card) / sizeof(uint64_t))

/* ---- open ---- */

int tt_ps_read_config(const char *call, const struct tutti_ps_config *user, int last_role,
		      struct tutti_ps_config *c)
{
	static const struct tt_sized sized = TT_SIZED("config", tutti_ps_config, staleness);

	memset(c, 0, sizeof(*c));
	if (user) {
		user = tt_sized_read(&sized, call, user, c);
		if (!user)
			return -EINVAL;
		*c = *user;
	}
	if (!c->role)
		c->role = TUTTI_PS_BOTH;
	if (c->role < 0 || c->role > last_role)
		return tt_fail(-EINVAL, "%s: %d is no role", call, c->role);
	if (c->copies < 0 || c->copies > TT_PS_REPLICAS)
		return tt_fail(-EINVAL, "%s: copies is %d; it must be 0 to %d", call, c->copies,
			       TT_PS_REPLICAS);
	if (c->pad)
		return tt_fail(-EINVAL, "%s: pad is %d; it must be 0", call, c->pad);
	if (c->backup < 0 || (c->backup && (c->staleness || c->copies > 1)))
		return tt_fail(-EINVAL,
			       "%s: backup is %d; it must be 0 or more, and more than 0 needs a "
			       "staleness of 0 and one copy",
			       call, c->backup);
	if (c->weight < 0 || c->weight > TT_PS_WEIGHT)
		return tt_fail(-EINVAL, "%s: weight is %d; it must be 0 to %d", call, c->weight,
			       TT_PS_WEIGHT);
	if (c->workers < 0 || c->servers < 0 || c->staleness < TUTTI_PS_ASYNC)
		return tt_fail(-EINVAL, "%s: %s is negative", call,
			       c->workers < 0	? "workers"
			       : c->servers < 0 ? "servers"
						: "staleness");
	return 0;
}

static int check_cards(const char *call, const struct tutti_comm *comm,
		       const struct tt_ps_card *card, int workers, int servers)
{
	int r;

	for (r = 0; r < comm->size; r++) {
		if (card[r].workers && card[r].workers != (uint64_t)workers)
			return tt_comm_blame_rank(
				comm, -EINVAL, r,
				"%s: there are %d workers, but rank %d declared %d", call, workers,
				comm->world[r], (int)card[r].workers);
		if (card[r].servers && card[r].servers != (uint64_t)servers)
			return tt_comm_blame_rank(
				comm, -EINVAL, r,
				"%s: there are %d servers, but rank %d declared %d", call, servers,
				comm->world[r], (int)card[r].servers);
		if (card[r].staleness != card[0].staleness)
			return tt_comm_blame_rank(
				comm, -TUTTI_EMISMATCH, r,
				"%s: the staleness is %d on rank %d, %d on rank %d", call,
				(int)card[0].staleness, comm->world[0], (int)card[r].staleness,
				comm->world[r]);
		if (card[r].copies != card[0].copies)
			return tt_comm_blame_rank(comm, -TUTTI_EMISMATCH, r,
						  "%s: copies is %d on rank %d, %d on rank %d",
						  call, (int)card[0].copies, comm->world[0],
						  (int)card[r].copies, comm->world[r]);
	}
	for (r = 1; r < comm->size; r++)
		if (card[r].backup != card[0].backup)
			return tt_comm_blame_rank(comm, -TUTTI_EMISMATCH, r,
						  "%s: backup is %d on rank %d, %d on rank %d",
						  call, (int)card[0].backup, comm->world[0],
						  (int)card[r].backup, comm->world[r]);
	if (workers && card[0].backup >= (uint64_t)workers)
		return tt_fail(-EINVAL, "%s: %d backup workers are too many: there are %d workers",
			       call, (int)card[0].backup, workers);
	if (card[0].copies > (uint64_t)servers)
		return tt_fail(-EINVAL, "%s: %d copies need as many servers, and there are %d",
			       call, (int)card[0].copies, servers);
	if (!workers || !servers)
		return tt_fail(-EINVAL, "%s: no rank is a %s", call, workers ? "server" : "worker");
	return 0;
}

/* Assign roles from the cards of all ranks; the result is the same on all ranks. */
static int take_roles(const char *call, struct tutti_ps *ps, const struct tt_ps_card *card)
{
	struct tutti_comm *comm = ps->comm;
	uint32_t total = 0;
	bool near = true;
	int r;

	ps->my_worker = ps->my_server = -1;
	for (r = 0; r < comm->size; r++) {
		if (card[r].role & TUTTI_PS_WORKER) {
			if (r == comm->rank)
				ps->my_worker = ps->nworkers;
			ps->worker[ps->nworkers++] = r;
		}
		if (card[r].role & TUTTI_PS_SERVER) {
			if (r == comm->rank)
				ps->my_server = ps->nservers;
			total += (uint32_t)card[r].weight;
			ps->upto[ps->nservers] = total;
			ps->server[ps->nservers++] = r;
		}
	}
	for (r = 0; r < comm->size; r++) {
		ps->host[r] = card[r].host;
		near = near && card[r].near;
	}
	ps->role = (int)card[comm->rank].role;
	ps->copies = card[0].copies ? (int)card[0].copies : 1;
	ps->backup = (int)card[0].backup;
	ps->generation = card[0].generation;
	ps->grace_ns = (near ? card[0].near_grace : card[0].grace) * 1000;
	ps->verify = card[0].verify;
	ps->relay = (int)card[0].relay;
	if (ps->relay && ps->relay < ps->nworkers) {
		ps->parents = TT_PS_PARENTS;
		ps->children = TT_PS_CHILDREN;
	}
	return check_cards(call, comm, card, ps->nworkers, ps->nservers);
}

static int open_memory(struct tutti_ps *ps)
{
	int err;

	ps->load = calloc((size_t)ps->nservers, sizeof(*ps->load));
	ps->lost = calloc((size_t)ps->nservers, sizeof(*ps->lost));
	ps->worker_lost = calloc((size_t)ps->nworkers, sizeof(*ps->worker_lost));
	err = ps->load && ps->lost && ps->worker_lost
		      ? tt_ps_box_open(ps)
		      : tt_fail(-ENOMEM, "no memory for a parameter server");
	if (!err && ps->my_server >= 0)
		err = tt_ps_server_new(ps);
	return err || ps->inherits ? err : tt_ps_trace_open(ps, ps->comm->ctx->env.ps_trace.text);
}

static int tell_tokens(struct tutti_ps *ps, struct tt_ps_card *all)
{
	struct tt_ps_card mine = {.in = ps->my_in, .back = ps->my_back};
	int r, err = tt_exchange(ps->coll, &mine, all, CARD_WORDS);

	for (r = 0; !err && r < ps->comm->size; r++) {
		ps->in_token[r] = (uint32_t)all[r].in;
		ps->back_token[r] = (uint32_t)all[r].back;
	}
	return err;
}

/*
 * Equal for ranks of one host. 0 if the host is unknown: relayed blocks may then travel between
 * hosts more than once.
 */
static uint64_t host_number(const struct tutti_context *ctx)
{
	struct tt_host host;
	uint64_t h = 0, word;
	size_t i;

	memset(&host, 0, sizeof(host));
	if (tt_host_get(ctx->env.host_id.text, &host))
		return 0;
	if (host.override[0]) {
		memset(host.boot_id, 0, sizeof(host.boot_id));
		host.netns = 0;
	}
	host.uid = 0;
	for (i = 0; i < sizeof(host) / sizeof(word); i++) {
		memcpy(&word, (const char *)&host + i * sizeof(word), sizeof(word));
		h = tt_hash_add(h, word);
	}
	return h;
}

static bool shares_memory_with_all(const struct tutti_comm *comm)
{
	bool shares = true;
	int r;

	tt_wire_lock(comm->ctx->wire);
	for (r = 0; r < comm->size && shares; r++)
		shares = tt_wire_shares_memory(comm->ctx->wire, comm->world[r]);
	tt_wire_unlock(comm->ctx->wire);
	return shares;
}

int tt_ps_open_on(const char *call, struct tutti_ps *ps, const struct tutti_ps_config *c,
		  struct tt_ps_card *all)
{
	struct tutti_context *ctx = ps->comm->ctx;
	uint64_t grace = (uint64_t)ctx->env.ps_grace.number;
	struct tt_ps_card mine = {.role = (uint64_t)c->role,
				  .workers = (uint64_t)c->workers,
				  .servers = (uint64_t)c->servers,
				  .staleness = (uint64_t)(int64_t)c->staleness,
				  .copies = (uint64_t)c->copies,
				  .weight = c->weight ? (uint64_t)c->weight : 1,
				  .generation = tt_hash_add(ps->comm->uid, tt_now_ns()),
				  .grace = grace,
				  .near_grace = ctx->env.ps_grace.is_set ? grace : NEAR_GRACE,
				  .near = shares_memory_with_all(ps->comm),
				  .verify = ctx->env.ps_verify.number || ctx->env.checksum.number,
				  .backup = (uint64_t)c->backup,
				  .relay = (uint64_t)ctx->env.ps_relay.number,
				  .host = host_number(ctx)};
	int err;

	ps->staleness = c->staleness;
	err = tt_exchange(ps->coll, &mine, all, CARD_WORDS);
	if (!err)
		err = take_roles(call, ps, all); /* all ranks come to the same verdict */
	if (err)
		return err;
	err = tt_agree(ps->coll, call, open_memory(ps));
	if (!err)
		err = tt_win_make(ps->comm, ps->coll, ps->box, tt_ps_box_size(ps), 0, &ps->win);
	if (!err)
		err = tell_tokens(ps, all);
	if (err)
		return err;
	tt_wire_lock(ctx->wire);
	ps->comm->lost = tt_ps_lost;
	ps->comm->awaits = tt_ps_awaits;
	ps->comm->lost_arg = ps;
	ps->comm->owner = "a parameter server";
	ps->comm->owner_free = "tutti_ps_close";
	tt_wire_unlock(ctx->wire);
	return 0;
}

/* The parameter server is being freed; no rank matters to it any more. */
static bool lost_in_the_end(void *arg, int rank)
{
	(void)arg;
	(void)rank;
	return true;
}

void tt_ps_free(struct tutti_ps *ps)
{
	uint32_t i;

	tt_ps_server_stop(ps);
	if (ps->comm) {
		tt_wire_lock(ps->comm->ctx->wire); /* the control thread may be asking */
		ps->comm->lost = ps->comm->lost ? lost_in_the_end : NULL;
		ps->comm->awaits = NULL;
		ps->comm->inside = NULL;
		tt_wire_unlock(ps->comm->ctx->wire);
	}
	for (i = 0; i < ps->ntables; i++) {
		tt_ps_versions_drop(ps->table[i]);
		if (ps->table[i]->win)
			tt_win_drop(ps->table[i]->win);
	}
	if (ps->win)
		tt_win_drop(ps->win);
	for (i = 0; i < ps->ntables; i++)
		tt_ps_table_free(ps->table[i]);
	tt_ps_server_free(ps);
	tt_ps_box_close(ps);
	tt_ps_trace_close(ps);
	free(ps->worker);
	free(ps->server);
	free(ps->in_token);
	free(ps->back_token);
	free(ps->load);
	free(ps->upto);
	free(ps->lost);
	free(ps->trace_id);
	free(ps->worker_lost);
	free(ps->host);
	if (ps->coll)
		tutti_comm_free(ps->coll);
	if (ps->comm)
		tutti_comm_free(ps->comm);
	ps->magic = 0;
	free(ps);
}

struct tutti_ps *tt_ps_new(int n, struct tt_ps_card **all)
{
	struct tutti_ps *ps = calloc(1, sizeof(*ps));

	*all = calloc((size_t)n, sizeof(**all));
	if (!ps)
		return NULL;
	ps->magic = TT_PS_MAGIC;
	tt_list_init(&ps->queue);
	ps->worker = calloc((size_t)n, sizeof(int));
	ps->server = calloc((size_t)n, sizeof(int));
	ps->in_token = calloc((size_t)n, sizeof(uint32_t));
	ps->back_token = calloc((size_t)n, sizeof(uint32_t));
	ps->upto = calloc((size_t)n, sizeof(uint32_t));
	ps->host = calloc((size_t)n, sizeof(uint64_t));
	if (*all && ps->host && ps->worker && ps->server && ps->in_token && ps->back_token &&
	    ps->upto)
		return ps;
	tt_ps_free(ps);
	return NULL;
}

/*
 * All ranks have it, or none. A rank that cannot make its part of it, which others can, fails the
 * new communicator only.
 */
static int new_comm(struct tutti_comm *comm, struct tutti_comm **out)
{
	uint64_t calls = comm->seq;
	int err = tutti_comm_create(comm, NULL, out);

	if (err && comm->seq == calls) /* not begun: others wait in it */
		return tt_tell_unable(comm, "tutti_ps_open", err);
	return tt_agree(comm, "tutti_ps_open", err);
}

int tt_ps_open(struct tutti_comm *comm, const struct tutti_ps_config *config, struct tutti_ps **out)
{
	struct tutti_ps *ps = NULL;
	struct tutti_ps_config c;
	struct tt_ps_card *all = NULL;
	int err;

	err = out ? tt_ps_read_config("tutti_ps_open", config, TUTTI_PS_BOTH, &c)
		  : tt_fail(-EINVAL, "tutti_ps_open: ps is NULL");
	if (!err) {
		ps = tt_ps_new(comm->size, &all);
		err = ps ? 0 : tt_fail(-ENOMEM, "no memory for a parameter server");
	}
	err = tt_agree(comm, "tutti_ps_open", err);
	if (!err)
		err = new_comm(comm, &ps->comm);
	if (!err)
		err = new_comm(comm, &ps->coll);
	if (!err)
		err = tt_ps_open_on("tutti_ps_open", ps, &c, all);
	if (!err)
		err = tt_agree(ps->coll, "tutti_ps_open", ps->srv[0] ? tt_ps_server_start(ps) : 0);
	free(all);
	if (err) {
		if (ps)
			tt_ps_free(ps);
		return err;
	}
	*out = ps;
	return 0;
}

/* ---- close ---- */

static bool answered(void *arg)
{
	const struct tutti_request *bye = arg;

	return atomic_load(&bye->state) == TT_REQ_DONE;
}

/* The answer comes in its turn, which other workers may take long to reach. */
static int say_bye(struct tutti_ps *ps)
{
	struct tutti_request *bye = NULL;
	int err = tt_ps_send_accrued(ps, UINT64_MAX);

	if (!err)
		err = tt_ps_flush_due(ps, UINT64_MAX, "ps_close");
	if (!err)
		err = tt_ps_bye(ps, &bye);
	if (err)
		return err;
	tt_ps_await_servers(ps, answered, bye);
	return tutti_wait(&bye);
}

static bool served(void *arg)
{
	struct tutti_ps *ps = arg;

	return (tt_ps_server_done(ps) && tt_ps_servers_ended(ps)) || atomic_load(&ps->comm->failed);
}

static int wait_for_workers(struct tutti_ps *ps)
{
	int err;

	/* Wait for all workers while one works. A worker that has failed counts as having left. */
	tt_ps_await_servers(ps, served, ps);
	tt_wire_lock(ps->comm->ctx->wire);
	if (ps->comm->failed == -ETIMEDOUT) /* other ranks wait in coll */
		tt_comm_fail(ps->coll, -ETIMEDOUT, -1, "ps_close", 0, "", "%s",
			     ps->comm->failure.text);
	err = tt_comm_check(ps->comm);
	tt_wire_unlock(ps->comm->ctx->wire);
	return err;
}

int tt_ps_settle_own(struct tutti_ps *ps)
{
	int err = ps->win ? tt_win_wait(ps->win, -1) : 0, end;
	uint32_t i;

	for (i = 0; i < ps->ntables; i++) {
		end = ps->table[i]->win ? tt_win_wait(ps->table[i]->win, -1) : 0;
		err = err ? err : end;
	}
	return err;
}

int tt_ps_settle(struct tutti_ps *ps)
{
	struct tutti_context *ctx = ps->comm->ctx;
	int err, end;

	tt_wire_lock(ctx->wire);
	if (!atomic_load(&ps->comm->failed))
		tt_ps_relay_leave(ps);
	tt_wire_unlock(ctx->wire);
	err = tt_ps_await_relays(ps);
	tt_wire_lock(ctx->wire);
	ps->parted = true; /* a batch that is heard of later: its sender may have gone */
	tt_wire_unlock(ctx->wire);
	end = tt_ps_settle_own(ps);
	return err ? err : end;
}

/*
 * Every rank was told that all workers have left. Until every live rank knows, a replica here may
 * still have to take over.
 */
static int leave_together(struct tutti_ps *ps)
{
	int err;

	tt_wire_lock(ps->comm->ctx->wire);
	err = tt_comm_check(ps->comm);
	tt_wire_unlock(ps->comm->ctx->wire);
	if (err)
		return err;
	if (!tt_vote_fits(ps->comm)) {
		err = atomic_load(&ps->coll->failed) ? 0 : tutti_barrier(ps->coll);
		return ps->dead ? 0 : err;
	}
	err = tt_ps_last_meeting(ps);
	tt_ps_server_stop(ps);
	(void)tt_ps_settle_own(ps); /* what a replica told workers that had left */
	return err;
}

/* Keeps the last error, which tells why: a rank that is stopped can hold up the free as well. */
static int free_after(struct tutti_ps *ps, int err)
{
	struct tutti_error_info info = {.size = sizeof(info)};

	if (!err || tutti_last_error(&info) || info.code != err)
		info.code = 0;
	tt_ps_free(ps);
	return info.code ? tt_fail_info(&info) : err;
}

int tt_ps_close(struct tutti_ps *ps)
{
	int err = 0, end;

	tt_ps_budget_rest(ps); /* no caller waits for the budgets' requests */
	if (ps->tasks)
		return tt_fail(-EBUSY, "tutti_ps_close: %d requests have not been waited for",
			       ps->tasks);
	tt_wire_lock(ps->comm->ctx->wire);
	ps->comm->inside = "ps_close";
	tt_wire_unlock(ps->comm->ctx->wire);
	if (ps->my_worker >= 0)
		err = say_bye(ps);
	end = wait_for_workers(ps);
	err = err ? err : end;
	end = tt_ps_settle(ps);
	err = err ? err : end;
	if (!err || !atomic_load(&ps->comm->failed)) { /* it can have failed since */
		end = leave_together(ps);
		err = err ? err : end;
	}
	if (!err)
		err = tt_ps_refusal(ps);
	return free_after(ps, err);
}
