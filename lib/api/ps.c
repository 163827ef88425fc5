/* SPDX-License-Identifier: BSD-3-Clause */
/* The parameter server: making one, and its tables, which all ranks do together. The rest is lib/ps. */
#include "lib/ps/eager.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/api/ps_open.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/topo/topo.h"

#define CARD_WORDS (sizeof(struct tt_ps_card) / sizeof(uint64_t))

/* ---- open ---- */

int tt_ps_read_config(const char *call, const struct tutti_ps_config *user, int last_role,
		      struct tutti_ps_config *c)
{
	size_t size = sizeof(*c);

	memset(c, 0, size);
	if (user && (user->size < sizeof(size_t) || user->size > 4096))
		return tt_fail(-EINVAL, "%s: config.size is %zu; set it to sizeof(struct "
					"tutti_ps_config), %zu", call, user->size, size);
	if (user)
		memcpy(c, user, user->size < size ? user->size : size);
	if (!c->role)
		c->role = TUTTI_PS_BOTH;
	if (c->role < 0 || c->role > last_role)
		return tt_fail(-EINVAL, "%s: %d is no role", call, c->role);
	if (c->copies < 0 || c->copies > TT_PS_CHAIN)
		return tt_fail(-EINVAL, "%s: copies is %d; it must be 0 to %d", call, c->copies,
			       TT_PS_CHAIN);
	if (c->weight < 0 || c->weight > TT_PS_WEIGHT)
		return tt_fail(-EINVAL, "%s: weight is %d; it must be 0 to %d", call, c->weight,
			       TT_PS_WEIGHT);
	if (c->workers < 0 || c->servers < 0 || c->staleness < TUTTI_PS_ASYNC)
		return tt_fail(-EINVAL, "%s: %s is negative", call,
			       c->workers < 0 ? "workers" : c->servers < 0 ? "servers" : "staleness");
	return 0;
}

static int check_cards(const char *call, const struct tutti_comm *comm, const struct tt_ps_card *card,
		       int workers, int servers)
{
	int r;

	for (r = 0; r < comm->size; r++) {
		if (card[r].workers && card[r].workers != (uint64_t)workers)
			return tt_fail_rank(-EINVAL, r, NULL,
					    "%s: there are %d workers, but rank %d declared %d", call,
					    workers, r, (int)card[r].workers);
		if (card[r].servers && card[r].servers != (uint64_t)servers)
			return tt_fail_rank(-EINVAL, r, NULL,
					    "%s: there are %d servers, but rank %d declared %d", call,
					    servers, r, (int)card[r].servers);
		if (card[r].staleness != card[0].staleness)
			return tt_fail_rank(-TUTTI_EMISMATCH, r, NULL,
					    "%s: the staleness is %d on rank 0, %d on rank %d", call,
					    (int)card[0].staleness, (int)card[r].staleness, r);
		if (card[r].copies != card[0].copies)
			return tt_fail_rank(-TUTTI_EMISMATCH, r, NULL,
					    "%s: copies is %d on rank 0, %d on rank %d", call,
					    (int)card[0].copies, (int)card[r].copies, r);
	}
	if (card[0].copies > (uint64_t)servers)
		return tt_fail(-EINVAL, "%s: %d copies need as many servers, and there are %d", call,
			       (int)card[0].copies, servers);
	if (!workers || !servers)
		return tt_fail(-EINVAL, "%s: no rank is a %s", call,
			       workers ? "server" : "worker");
	return 0;
}

/* Who is what; the same on all ranks. */
static int take_roles(const char *call, struct tutti_ps *ps, const struct tt_ps_card *card)
{
	struct tutti_comm *comm = ps->comm;
	uint32_t total = 0;
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
	for (r = 0; r < comm->size; r++)
		ps->host[r] = card[r].host;
	ps->role = (int)card[comm->rank].role;
	ps->copies = card[0].copies ? (int)card[0].copies : 1;
	ps->generation = card[0].generation;
	ps->grace_ns = card[0].grace * 1000;
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
	err = ps->load && ps->lost && ps->worker_lost ? tt_ps_box_open(ps) : tt_fail(-ENOMEM, "no memory for a parameter server");
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

/* Equal for ranks of one host; 0 where that can't be told, which costs copies of what is relayed at most. */
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

int tt_ps_open_on(const char *call, struct tutti_ps *ps, const struct tutti_ps_config *c,
		  struct tt_ps_card *all)
{
	struct tutti_context *ctx = ps->comm->ctx;
	struct tt_ps_card mine = {.role = (uint64_t)c->role,
			    .workers = (uint64_t)c->workers,
			    .servers = (uint64_t)c->servers,
			    .staleness = (uint64_t)(int64_t)c->staleness,
			    .copies = (uint64_t)c->copies,
			    .weight = c->weight ? (uint64_t)c->weight : 1,
			    .generation = tt_hash_add(ps->comm->uid, tt_now_ns()),
			    .grace = (uint64_t)ctx->env.ps_grace.number,
			    .verify = ctx->env.ps_verify.number || ctx->env.checksum.number,
			    .relay = (uint64_t)ctx->env.ps_relay.number,
			    .host = host_number(ctx)};
	int err;

	ps->staleness = c->staleness;
	err = tt_exchange(ps->coll, &mine, all, CARD_WORDS);
	if (!err)
		err = take_roles(call, ps, all); /* the same verdict on all ranks */
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
	ps->comm->lost_arg = ps;
	tt_wire_unlock(ctx->wire);
	return 0;
}

void tt_ps_free(struct tutti_ps *ps)
{
	uint32_t i;

	tt_ps_server_stop(ps);
	for (i = 0; i < ps->ntables; i++)
		if (ps->table[i]->win)
			tt_win_drop(ps->table[i]->win);
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
	free(ps);
}

struct tutti_ps *tt_ps_new(int n, struct tt_ps_card **all)
{
	struct tutti_ps *ps = calloc(1, sizeof(*ps));

	*all = calloc((size_t)n, sizeof(**all));
	if (!ps)
		return NULL;
	tt_list_init(&ps->queue);
	ps->worker = calloc((size_t)n, sizeof(int));
	ps->server = calloc((size_t)n, sizeof(int));
	ps->in_token = calloc((size_t)n, sizeof(uint32_t));
	ps->back_token = calloc((size_t)n, sizeof(uint32_t));
	ps->upto = calloc((size_t)n, sizeof(uint32_t));
	ps->host = calloc((size_t)n, sizeof(uint64_t));
	if (*all && ps->host && ps->worker && ps->server && ps->in_token && ps->back_token && ps->upto)
		return ps;
	tt_ps_free(ps);
	return NULL;
}

int tutti_ps_open(struct tutti_comm *comm, const struct tutti_ps_config *config,
		  struct tutti_ps **out)
{
	struct tutti_ps *ps = NULL;
	struct tutti_ps_config c;
	struct tt_ps_card *all = NULL;
	int err;

	err = tt_check_comm(comm);
	if (!err)
		err = tt_group_refuse("tutti_ps_open");
	if (err)
		return err;
	err = out ? tt_ps_read_config("tutti_ps_open", config, TUTTI_PS_BOTH, &c) : tt_fail(-EINVAL, "tutti_ps_open: ps is NULL");
	if (!err) {
		ps = tt_ps_new(comm->size, &all);
		err = ps ? 0 : tt_fail(-ENOMEM, "no memory for a parameter server");
	}
	err = tt_agree(comm, "tutti_ps_open", err);
	if (!err)
		err = tutti_comm_dup(comm, &ps->comm);
	if (!err)
		err = tutti_comm_dup(comm, &ps->coll);
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

/* The answer comes in its turn, which other workers may be long away from. */
static int say_bye(struct tutti_ps *ps)
{
	struct tutti_request *bye = NULL;
	int err = tt_ps_send_accrued(ps, UINT64_MAX);

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

	return (tt_ps_server_done(ps) && tt_ps_told_end(ps)) || atomic_load(&ps->comm->failed);
}

static int wait_for_workers(struct tutti_ps *ps)
{
	int err;

	/* Everybody, as long as one works; one that dies has left, too. */
	tt_ps_await_servers(ps, served, ps);
	tt_wire_lock(ps->comm->ctx->wire);
	if (ps->comm->failed == -ETIMEDOUT) /* or the others wait in it */
		tt_comm_fail(ps->coll, -ETIMEDOUT, -1, "ps_close", 0, "", "%s", ps->comm->failure.text);
	err = tt_comm_check(ps->comm);
	tt_wire_unlock(ps->comm->ctx->wire);
	return err;
}

int tt_ps_settle_own(struct tutti_ps *ps)
{
	int err = tt_win_wait(ps->win, -1), end;
	uint32_t i;

	for (i = 0; i < ps->ntables; i++) {
		end = tt_win_wait(ps->table[i]->win, -1);
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
	err = tt_engine_wait(ctx, tt_ps_relay_left, ps,
			     tt_deadline_ms(ctx->env.timeout.number));
	if (err) {
		tt_wire_lock(ctx->wire);
		tt_comm_fail(ps->comm, err, -1, "ps_close", 0, "",
			     "workers did not end what they pass on to each other within %lld ms (TUTTI_TIMEOUT)",
			     (long long)ctx->env.timeout.number);
		tt_wire_unlock(ctx->wire);
	}
	end = tt_ps_settle_own(ps);
	return err ? err : end;
}

/* What was told last is that all have left. Until all that live know, who dies may be followed by a copy here. */
static int leave_together(struct tutti_ps *ps)
{
	int err;

	if (!tt_vote_fits(ps->comm)) {
		err = atomic_load(&ps->coll->failed) ? 0 : tutti_barrier(ps->coll);
		return ps->dead ? 0 : err;
	}
	err = tt_ps_last_meeting(ps);
	tt_ps_server_stop(ps);
	(void)tt_ps_settle_own(ps); /* what a copy that took over has told those who had left */
	return err;
}

int tutti_ps_close(struct tutti_ps *ps)
{
	int err = 0, end;

	if (!ps)
		return tt_fail(-EINVAL, "tutti_ps_close: ps is NULL");
	err = tt_group_refuse("tutti_ps_close");
	if (err)
		return err;
	tt_ps_budget_rest(ps); /* its requests are nobody's to wait for */
	if (ps->tasks)
		return tt_fail(-EBUSY, "tutti_ps_close: %d requests have not been waited for",
			       ps->tasks);
	if (ps->my_worker >= 0)
		err = say_bye(ps);
	end = wait_for_workers(ps);
	err = err ? err : end;
	end = tt_ps_settle(ps);
	err = err ? err : end;
	if (!atomic_load(&ps->comm->failed)) {
		end = leave_together(ps);
		err = err ? err : end;
	}
	if (!err)
		err = tt_ps_refusal(ps);
	tt_ps_free(ps);
	return err;
}

/* ---- tables ---- */

static double or_default(double value, double other)
{
	return value != 0 ? value : other;
}

static void defaults(struct tutti_ps_options *o, bool rows)
{
	o->rate = or_default(o->rate, 0.01);
	o->momentum = or_default(o->momentum, 0.9);
	o->beta1 = or_default(o->beta1, 0.9);
	o->beta2 = or_default(o->beta2, o->rule == TUTTI_PS_RMSPROP ? 0.99 : 0.999);
	o->epsilon = or_default(o->epsilon, o->rule == TUTTI_PS_ADAGRAD ? 1e-10 : 1e-8);
	if (!o->block)
		o->block = rows ? TT_PS_ROW_BLOCK : TT_PS_BLOCK;
	if (o->block > TT_PS_BLOCK)
		o->block = TT_PS_BLOCK;
}

static bool is_float(enum tutti_datatype type)
{
	return type == TUTTI_FLOAT16 || type == TUTTI_BFLOAT16 || type == TUTTI_FLOAT32 ||
	       type == TUTTI_FLOAT64;
}

static int check_options(const struct tutti_ps *ps, const struct tutti_ps_options *o,
			 enum tutti_datatype type)
{
	if ((unsigned)o->rule >= TUTTI_PS_NUM_RULES || (unsigned)o->combine >= TUTTI_PS_NUM_COMBINES ||
	    (unsigned)o->init >= TUTTI_PS_NUM_INITS)
		return tt_fail(-EINVAL, "a table's options: there is no %s of that number",
			       (unsigned)o->rule >= TUTTI_PS_NUM_RULES ? "rule"
			       : (unsigned)o->init >= TUTTI_PS_NUM_INITS ? "init" : "combine");
	if (o->rule >= TUTTI_PS_SGD && o->rule <= TUTTI_PS_ADAMW && !is_float(type))
		return tt_fail(-EINVAL, "a table's options: rule %s is for floats, not %s",
			       tt_ps_rule_name(o->rule), tt_datatype_name(type));
	if (o->combine && ps->staleness)
		return tt_fail(-EINVAL, "a table's options: pushes can be combined with staleness 0 "
					"only, and it is %d", ps->staleness);
	if (o->rule == TUTTI_PS_CALLBACK && !o->update && ps->my_server >= 0)
		return tt_fail(-EINVAL, "a table's options: update is NULL");
	if (o->init == TUTTI_PS_FILL && !o->fill && ps->my_server >= 0)
		return tt_fail(-EINVAL, "a table's options: fill is NULL");
	return 0;
}

/* How pushes are grouped and weighted, and how often they go. */
static int check_modes(const struct tutti_ps *ps, const struct tutti_ps_table *t)
{
	const struct tutti_ps_options *o = &t->opt;

	if (o->softsync < 0 || (o->softsync > ps->nworkers && !t->kept))
		return tt_fail(-EINVAL, "a table's options: softsync is %d, and there are %d workers",
			       o->softsync, ps->nworkers);
	if (o->softsync && ps->staleness >= 0)
		return tt_fail(-EINVAL, "a table's options: softsync is for TUTTI_PS_ASYNC, and the "
					"staleness is %d", ps->staleness);
	if (o->staleness_aware && (t->rows || ps->staleness == 0))
		return tt_fail(-EINVAL, "a table's options: staleness_aware is for dense tables, and for a "
					"staleness other than 0");
	if (o->staleness_aware && o->rule != TUTTI_PS_SUM && o->rule != TUTTI_PS_SGD &&
	    o->rule != TUTTI_PS_MOMENTUM && o->rule != TUTTI_PS_NESTEROV)
		return tt_fail(-EINVAL, "a table's options: staleness_aware divides the rate, which rule %s "
					"does not allow", tt_ps_rule_name(o->rule));
	if (o->staleness_aware && !is_float(t->datatype))
		return tt_fail(-EINVAL, "a table's options: staleness_aware is for floats, not %s",
			       tt_datatype_name(t->datatype));
	if (o->n_fetch < 0 || o->n_push < 0)
		return tt_fail(-EINVAL, "a table's options: n_fetch and n_push are %d and %d; they can't be "
					"negative", o->n_fetch, o->n_push);
	if (o->threads < 0 || o->threads > TT_PS_THREADS)
		return tt_fail(-EINVAL, "a table's options: threads is %d; it must be 0 to %d", o->threads,
			       TT_PS_THREADS);
	if (o->n_push > 1 && o->rule == TUTTI_PS_ASSIGN)
		return tt_fail(-EINVAL, "a table's options: n_push adds updates up, and rule assign does not");
	if (!(o->budget >= 0) || !isfinite(o->budget) || (o->budget > 0 && (o->n_push > 1 || o->rule == TUTTI_PS_ASSIGN)))
		return tt_fail(-EINVAL, "a table's options: budget is %g; it is bytes per second, not for rule assign, "
					"and not with n_push", o->budget);
	return 0;
}

static int check_table(struct tutti_ps *ps, const char *name, const struct tutti_ps_options *user,
		       struct tutti_ps_table *like)
{
	struct tutti_ps_options *o = &like->opt;
	uint32_t i;
	int err;

	if (!name || !name[0] || strlen(name) >= TT_PS_NAME)
		return tt_fail(-EINVAL, "a table's name must have 1 to %d characters", TT_PS_NAME - 1);
	if (!like->elem)
		return tt_fail(-EINVAL, "table '%s': %d is not a datatype", name, (int)like->datatype);
	if (!like->count || !like->width || like->count > (uint64_t)INT64_MAX / like->elem / like->width)
		return tt_fail(-EINVAL, "table '%s': its size is %s", name,
			       like->count && like->width ? "more than memory can hold" : "0");
	if (like->rows && (like->width * like->elem + 16 > TT_PS_BLOCK || like->count > INT32_MAX))
		return tt_fail(-EINVAL, "table '%s': rows have at most %zu bytes, and there are at most %d",
			       name, TT_PS_BLOCK - 16, INT32_MAX);
	for (i = 0; i < ps->ntables && !like->kept; i++) {
		like->kept = !strcmp(ps->table[i]->name, name);
		if (like->kept && !ps->table[i]->kept)
			return tt_fail(-EEXIST, "there is a table '%s' already", name);
	}
	if (!like->kept && ps->ntables == TT_PS_TABLES)
		return tt_fail(-ENOSPC, "there are %d tables already", TT_PS_TABLES);
	if (user && (user->size < sizeof(size_t) || user->size > 4096))
		return tt_fail(-EINVAL, "table '%s': options.size is %zu; set it to sizeof(struct "
					"tutti_ps_options), %zu", name, user->size, sizeof(*o));
	if (user)
		memcpy(o, user, user->size < sizeof(*o) ? user->size : sizeof(*o));
	strcpy(like->name, name);
	err = check_options(ps, o, like->datatype);
	return err ? err : check_modes(ps, like);
}

/* What must be equal on all ranks, as one number. */
static uint64_t fingerprint(const struct tutti_ps_table *t)
{
	struct tutti_ps_options o = t->opt;
	uint64_t h = tt_hash_add(t->rows, t->count), word;
	size_t i;

	o.size = 0;
	o.update = NULL;
	o.fill = NULL;
	o.arg = NULL;
	h = tt_hash_add(tt_hash_add(h, t->width), (uint64_t)t->datatype);
	for (i = 0; i < sizeof(t->name) / sizeof(word); i++) {
		memcpy(&word, t->name + i * sizeof(word), sizeof(word));
		h = tt_hash_add(h, word);
	}
	h = tt_hash_add(tt_hash_add(tt_hash_add(h, (uint64_t)o.rule), (uint64_t)o.combine),
			(uint64_t)o.init);
	for (i = offsetof(struct tutti_ps_options, rate); i < offsetof(struct tutti_ps_options, update);
	     i += sizeof(word)) {
		memcpy(&word, (const char *)&o + i, sizeof(word));
		h = tt_hash_add(h, word);
	}
	h = tt_hash_add(tt_hash_add(h, (uint64_t)o.softsync), (uint64_t)o.staleness_aware);
	h = tt_hash_add(tt_hash_add(h, (uint64_t)o.n_fetch), (uint64_t)o.n_push);
	h = tt_hash_add(tt_hash_add(h, (uint64_t)o.essp), (uint64_t)o.threads);
	memcpy(&word, &o.budget, sizeof(word));
	h = tt_hash_add(h, word);
	return tt_hash_add(h, o.block) >> 1; /* a maximum and a minimum of it fit in one word each */
}

static int all_same(struct tutti_ps *ps, const struct tutti_ps_table *like)
{
	uint64_t both[2] = {fingerprint(like), ~fingerprint(like)};
	int err = tutti_allreduce(TUTTI_IN_PLACE, both, 2, TUTTI_UINT64, TUTTI_MAX, ps->coll);

	if (err || both[0] == ~both[1])
		return err;
	return tt_fail(-TUTTI_EMISMATCH, "ranks made different tables, or with different options; "
					 "here it is '%s'", like->name);
}

static void count_load(struct tutti_ps *ps, const struct tutti_ps_table *t)
{
	int k;

	for (k = 0; k < ps->nservers; k++)
		ps->load[k] += t->part[k].elems * t->elem;
}

/* Whom to ring for what servers send, and for having it. */
static int tell_cache(struct tutti_ps *ps, struct tutti_ps_table *t)
{
	uint64_t mine[1 + TT_PS_CHAIN] = {t->my_cache};
	size_t n = (size_t)ps->comm->size, r;
	uint64_t *all = calloc(n, sizeof(mine));
	int err, c;

	for (c = 0; c < TT_PS_CHAIN; c++)
		mine[1 + c] = tt_ps_acks(t, c);

	t->cache_token = calloc(n, sizeof(uint32_t));
	t->sub_token = calloc(n * TT_PS_CHAIN, sizeof(uint32_t));
	err = tt_agree(ps->coll, "making a table", all && t->cache_token && t->sub_token ? 0
		    : tt_fail(-ENOMEM, "no memory for table '%s'", t->name));
	if (!err)
		err = tt_exchange(ps->coll, mine, all, 1 + TT_PS_CHAIN);
	for (r = 0; !err && r < n; r++) {
		t->cache_token[r] = (uint32_t)all[(1 + TT_PS_CHAIN) * r];
		for (c = 0; c < TT_PS_CHAIN; c++)
			t->sub_token[r * TT_PS_CHAIN + (size_t)c] = (uint32_t)all[(1 + TT_PS_CHAIN) * r + 1 + (size_t)c];
	}
	free(all);
	return err;
}

int tt_ps_make_table(struct tutti_ps *ps, const struct tutti_ps_table *like,
		     struct tutti_ps_table **out)
{
	struct tutti_ps_table *t = NULL;
	int err = tt_agree(ps->coll, "making a table", tt_ps_table_new(ps, like, &t));

	if (!err)
		err = tt_win_make(ps->comm, ps->coll, t->mem, t->size, 0, &t->win);
	if (!err && t->opt.essp)
		err = tell_cache(ps, t);
	if (err) {
		if (t && t->win)
			tt_win_drop(t->win);
		if (t)
			tt_ps_table_free(t);
		return err;
	}
	tt_wire_lock(ps->comm->ctx->wire);
	count_load(ps, t);
	ps->table[ps->ntables] = t;
	atomic_fetch_add(&ps->ntables, 1);
	tt_wire_unlock(ps->comm->ctx->wire);
	err = tutti_barrier(ps->coll); /* servers know it before workers use it */
	if (!err)
		*out = t;
	return err;
}

/* A table that has come with a resize, and is made again: it is there, but for what a new rank did not know. */
static int take_over(struct tutti_ps *ps, const struct tutti_ps_table *like, struct tutti_ps_table **out)
{
	struct tutti_ps_table *t;
	int err = tutti_ps_find(ps, like->name, &t);

	if (err)
		return err;
	if (t->rows != like->rows || t->count != like->count || t->width != like->width ||
	    t->datatype != like->datatype)
		return tt_fail(-EINVAL, "table '%s' was made before tutti_ps_resize: %llu %s%s of %s, width %zu",
			       t->name, (unsigned long long)t->count, t->rows ? "rows" : "elements",
			       t->rows ? "" : ", dense,", tt_datatype_name(t->datatype), t->width);
	if (fingerprint(t) != fingerprint(like))
		return tt_fail(-EINVAL, "table '%s' was made before tutti_ps_resize, with other options",
			       t->name);
	tt_wire_lock(ps->comm->ctx->wire);
	t->opt.update = like->opt.update;
	t->opt.fill = like->opt.fill;
	t->opt.arg = like->opt.arg;
	t->kept = false;
	tt_wire_unlock(ps->comm->ctx->wire);
	*out = t;
	return tutti_barrier(ps->coll);
}

static int make_table(struct tutti_ps *ps, const char *name, struct tutti_ps_table *like,
		      const struct tutti_ps_options *options, struct tutti_ps_table **out)
{
	int err;

	like->elem = tutti_datatype_size(like->datatype);
	err = check_table(ps, name, options, like);
	if (!err && !out)
		err = tt_fail(-EINVAL, "table '%s': table is NULL", name);
	defaults(&like->opt, like->rows);
	err = tt_agree(ps->coll, "making a table", err);
	if (!err)
		err = all_same(ps, like);
	if (err)
		return err;
	return like->kept ? take_over(ps, like, out) : tt_ps_make_table(ps, like, out);
}

static int check_ps(const char *call, const struct tutti_ps *ps)
{
	return ps ? tt_group_refuse(call) : tt_fail(-EINVAL, "%s: ps is NULL", call);
}

int tutti_ps_dense(struct tutti_ps *ps, const char *name, size_t count,
		   enum tutti_datatype datatype, const struct tutti_ps_options *options,
		   struct tutti_ps_table **table)
{
	struct tutti_ps_table like = {.count = count, .width = 1, .datatype = datatype};
	int err = check_ps("tutti_ps_dense", ps);

	return err ? err : make_table(ps, name, &like, options, table);
}

int tutti_ps_rows(struct tutti_ps *ps, const char *name, size_t width, uint64_t rows,
		  enum tutti_datatype datatype, const struct tutti_ps_options *options,
		  struct tutti_ps_table **table)
{
	struct tutti_ps_table like = {
		.rows = true, .count = rows, .width = width, .datatype = datatype};
	int err = check_ps("tutti_ps_rows", ps);

	return err ? err : make_table(ps, name, &like, options, table);
}

int tutti_ps_find(struct tutti_ps *ps, const char *name, struct tutti_ps_table **table)
{
	uint32_t i;

	if (!ps || !name || !table)
		return tt_fail(-EINVAL, "tutti_ps_find: %s is NULL",
			       !ps ? "ps" : name ? "table" : "name");
	for (i = 0; i < ps->ntables; i++)
		if (!strcmp(ps->table[i]->name, name)) {
			*table = ps->table[i];
			return 0;
		}
	return tt_fail(-ENOENT, "there is no table '%s'", name);
}

int tutti_ps_load(struct tutti_ps *ps, int index, uint64_t *bytes)
{
	if (!ps || !bytes)
		return tt_fail(-EINVAL, "tutti_ps_load: %s is NULL", ps ? "bytes" : "ps");
	if (index < 0 || index >= ps->nservers)
		return tt_fail(-EINVAL, "tutti_ps_load: %d is no server (0 to %d)", index,
			       ps->nservers - 1);
	*bytes = ps->load[index];
	return 0;
}
