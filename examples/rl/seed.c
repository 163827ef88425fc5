/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SEED (Espeholt et al., 2020): actors have no weights. Each step an actor sends what it sees and
 * waits for the action (ask.c). The learner answers all requests that have come in one batch, and
 * puts the trajectories together that it learns from.
 *
 * The weights may change within a trajectory; V-trace corrects for that, and the policy lag is that
 * of the trajectory's first step.
 */
#include "examples/rl/rl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STOP = -1 };

struct request {
	double seen[OBSERVED];
	int64_t ended; /* by the last action: the episode's return; 0: it goes on */
};

struct answer {
	int64_t action;
};

/* An actor, as the learner sees it. */
struct client {
	struct trajectory t;
	int n; /* its steps so far */
};

struct seed {
	struct ask *ask;
	struct client *client; /* by rank */
	int *batch, n;	       /* ranks whose requests are being answered */
	uint64_t random, requests, batches;
	struct learner l;
};

/* ---- an actor ---- */

static int run_actor(struct ask *ask, const struct options *o, int rank)
{
	struct cartpole c = {.random = actor_seed(o, rank)};
	struct request *r = ask_request(ask);
	const struct answer *a;
	const void *answer;
	int err;

	cartpole_begin(&c);
	r->ended = 0;
	for (;;) {
		cartpole_observe(&c, r->seen);
		err = ask_send(ask, &answer);
		a = answer;
		if (err || a->action == STOP)
			return err;
		r->ended = cartpole_step(&c, (int)a->action) ? c.steps : 0;
		if (r->ended)
			cartpole_begin(&c);
	}
}

/* ---- the learner ---- */

/* The request ends a step of the actor's trajectory, and begins the next. */
static void take(struct seed *s, struct client *c, const struct request *r)
{
	if (c->n)
		c->t.ended[c->n - 1] = (int32_t)r->ended;
	if (c->n == UNROLL) {
		memcpy(c->t.seen[UNROLL], r->seen, sizeof(r->seen));
		learner_take(&s->l, &c->t);
		c->n = 0;
	}
	if (!c->n)
		c->t.version = s->l.updates;
	memcpy(c->t.seen[c->n], r->seen, sizeof(r->seen));
}

static int answer(struct seed *s, int rank, int64_t action)
{
	struct answer *a = ask_answer(s->ask, rank);

	a->action = action;
	return ask_reply(s->ask, rank, action == STOP);
}

/* Inference for a batch of requests. */
static int answer_all(struct seed *s)
{
	struct policy_out out;
	int err = 0, i;

	for (i = 0; i < s->n && !err; i++) {
		struct client *c = &s->client[s->batch[i]];
		struct trajectory *t = &c->t;

		policy_forward(s->l.w, t->seen[c->n], &out);
		t->action[c->n] = policy_sample(&out, &s->random);
		t->mu[c->n] = out.p[t->action[c->n]];
		err = answer(s, s->batch[i], t->action[c->n++]);
	}
	s->requests += (uint64_t)s->n;
	s->batches++;
	return err;
}

static int learn(struct seed *s)
{
	uint64_t full = (uint64_t)s->l.o->batch * UNROLL, used = 0;
	int err = 0, i;

	while (!err && !learner_done(&s->l)) {
		err = ask_gather(s->ask, s->batch, &s->n);
		for (i = 0; i < s->n && !err; i++)
			take(s, &s->client[s->batch[i]], ask_of(s->ask, s->batch[i]));
		if (!err && s->l.steps - used >= full) {
			used = s->l.steps;
			err = learner_update(&s->l);
			learner_follow(&s->l);
		}
		if (!err)
			err = answer_all(s);
	}
	return err;
}

/* Each actor that lives sends one more request, which ends it. */
static int stop(struct seed *s)
{
	int err = 0, i;

	while (!err && ask_clients(s->ask)) {
		err = ask_gather(s->ask, s->batch, &s->n);
		for (i = 0; i < s->n && !err; i++)
			err = answer(s, s->batch[i], STOP);
	}
	return only_death(err) ? 0 : err;
}

static int run_learner(struct seed *s, const struct options *o)
{
	int err, end;

	learner_start(&s->l, o);
	s->random = actor_seed(o, 0);
	err = learn(s);
	end = stop(s);
	err = err ? err : end;
	if (err)
		return err;
	printf("inference: %llu requests in batches of %.2f\n", (unsigned long long)s->requests,
	       (double)s->requests / (double)(s->batches ? s->batches : 1));
	return learner_tell(&s->l);
}

int seed(struct tutti_comm *world, const struct options *o)
{
	size_t n = (size_t)tutti_comm_size(world);
	int rank = tutti_comm_rank(world), err, end;
	struct seed *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->client = calloc(n, sizeof(*s->client));
	s->batch = calloc(n, sizeof(*s->batch));
	err = s->client && s->batch ? 0 : -ENOMEM;
	end = ask_create(world, sizeof(struct request), sizeof(struct answer), &s->ask);
	err = err ? err : end;
	if (!err)
		err = rank ? run_actor(s->ask, o, rank) : run_learner(s, o);
	end = ask_free(s->ask);
	err = err ? err : end;
	free(s->client);
	free(s->batch);
	free(s);
	return err;
}
