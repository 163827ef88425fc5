/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several calls at once, which share credits, offer rings and the pieces under way of each pair.
 *
 * tt_plan_check_orders runs the calls again and again. Each run follows the choices of the one
 * before but for the last that can be made otherwise, which is (depth first). It ends where another
 * run has been: what follows depends on the state alone, which is how far each message, lane and
 * start is. Two states pass for one if their 64-bit hashes are equal.
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/verify/check_int.h"

static int build_all(const struct tt_check_call *calls, int ncalls, struct tt_plan ***plans)
{
	int i, err = 0;

	for (i = 0; !err && i < ncalls; i++) {
		if (calls[i].comm < 0 || calls[i].comm > ncalls)
			return tt_fail(-EINVAL, "call %d is of communicator %d of %d", i,
				       calls[i].comm, ncalls);
		err = calls[i].args->nranks == calls[0].args->nranks
			      ? tt_ck_build(calls[i].alg, calls[i].args, &plans[i])
			      : tt_fail(-EINVAL, "call %d has %d ranks, call 0 has %d", i,
					calls[i].args->nranks, calls[0].args->nranks);
	}
	return err;
}

static uint64_t hash_call(const struct tt_checker *c)
{
	uint64_t h = (uint64_t)c->number;
	uint32_t i;
	int k;

	for (k = 0; k < c->n; k++)
		h = tt_hash_add(h, 2 * (uint64_t)c->turn[k] + c->started[k]);
	for (k = 0; k < c->nlanes; k++)
		h = tt_hash_add(h, (uint64_t)c->lanes[k].round);
	for (i = 0; i < c->nops; i++)
		h = tt_hash_add(h, c->ops[i].done);
	for (i = 0; i < c->nmsgs; i++)
		h = tt_hash_add(h, c->msgs[i].state);
	return h;
}

static uint64_t hash_cut(const struct ck_cut *cut)
{
	uint64_t h = tt_hash_add((uint64_t)cut->c->number, cut->msg);

	return tt_hash_add(tt_hash_add(h, cut->sent), cut->landed);
}

/* Credits and offers in use follow from the states of messages. */
static uint64_t hash_state(const struct ck_net *net)
{
	const struct ck_cut *cut;
	uint64_t h = 0;
	int i;

	for (i = 0; i < 2 * net->ncalls * net->n; i++)
		h = tt_hash_add(tt_hash_add(h, (uint64_t)net->slots[i].data),
				(uint64_t)net->slots[i].flag);
	for (i = 0; i < net->n * net->n; i++)
		for (cut = net->pairs[i].cuts; cut; cut = cut->next)
			h += hash_cut(cut); /* in any order */
	for (i = 0; i < net->ncalls; i++)
		h = tt_hash_add(h, hash_call(&net->call[i]));
	return h;
}

static int grow(struct ck_script *s)
{
	int room = s->room ? 2 * s->room : 64, *choice, *of;

	choice = realloc(s->choice, (size_t)room * sizeof(*choice));
	s->choice = choice ? choice : s->choice;
	of = realloc(s->of, (size_t)room * sizeof(*of));
	s->of = of ? of : s->of;
	if (!choice || !of)
		return -ENOMEM;
	s->room = room;
	return 0;
}

int tt_ck_choose(struct ck_net *net, int n, int *choice)
{
	struct ck_script *s = net->script;
	uint64_t *seen;

	if (s->at == s->n) {
		seen = tt_map_at(&s->states, hash_state(net));
		if (!seen || (s->n == s->room && grow(s)))
			return -ENOMEM;
		s->known = *seen != TT_MAP_NONE;
		*seen = 0;
		if (s->known)
			return 0;
		s->choice[s->n] = 0;
		s->of[s->n++] = n;
	}
	*choice = s->choice[s->at++];
	return 1;
}

/* The next run's choices; false: there are no others. */
static bool next_script(struct ck_script *s)
{
	while (s->n && s->choice[s->n - 1] + 1 == s->of[s->n - 1])
		s->n--;
	if (!s->n)
		return false;
	s->choice[s->n - 1]++;
	s->at = 0;
	s->known = false;
	return true;
}

/* One run. */
static int check(const struct tt_check_call *calls, int ncalls, struct tt_plan ***plans,
		 struct ck_net *net)
{
	int i, n = 0, err = 0;

	net->nqueue = 0;
	for (i = 0; !err && i < ncalls; i++) {
		err = tt_ck_prepare(&net->call[i], plans[i], net->n, &net->opts);
		net->call[i].number = i;
		net->call[i].after = calls[i].after;
		net->call[i].comm = calls[i].comm;
		n++;
	}
	if (!err)
		err = tt_ck_run(net);
	for (i = 0; i < n; i++) {
		if (!err && !(net->script && net->script->known))
			err = tt_ck_verdict(&net->call[i]);
		tt_ck_free(&net->call[i]);
	}
	return err;
}

static int check_calls(const struct tt_check_call *calls, int ncalls, struct ck_net *net,
		       uint64_t most)
{
	struct tt_plan ***plans = calloc((size_t)ncalls, sizeof(*plans));
	uint64_t run;
	int i, err;

	net->call = calloc((size_t)ncalls, sizeof(*net->call));
	net->ncalls = ncalls;
	net->n = calls[0].args->nranks;
	err = plans && net->call ? build_all(calls, ncalls, plans) : -ENOMEM;
	for (run = 0; !err && run < most; run++) {
		err = check(calls, ncalls, plans, net);
		if (!err && net->script && !next_script(net->script))
			break;
	}
	for (i = 0; plans && i < ncalls; i++)
		tt_ck_plans_free(plans[i], net->n);
	free(plans);
	free(net->call);
	if (err == -ENOMEM)
		return tt_fail(err, "no memory to check %d calls of %d ranks", ncalls, net->n);
	return !err && run == most && net->script
		       ? tt_fail(-E2BIG, "there are more orders than %llu runs can try",
				 (unsigned long long)most)
		       : err;
}

int tt_plan_check_calls(const struct tt_check_call *calls, int ncalls,
			const struct tt_check_opts *opts)
{
	struct ck_net net = {.opts = *opts};

	return check_calls(calls, ncalls, &net, 1);
}

int tt_plan_check_orders(const struct tt_check_call *calls, int ncalls,
			 const struct tt_check_opts *opts, uint64_t most, size_t *states)
{
	struct ck_script script = {0};
	struct ck_net net = {.opts = *opts, .script = &script};
	int err = check_calls(calls, ncalls, &net, most);

	*states = script.states.used;
	tt_map_free(&script.states);
	free(script.choice);
	free(script.of);
	return err;
}
