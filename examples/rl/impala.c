/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * IMPALA (Espeholt et al., 2018): actors send trajectories to one learner, and take its weights.
 *
 * Rank 0 is the learner, and keeps the weights as a table of a parameter server. After each update
 * it writes them as a whole version, which actors read without its processor. An actor that acted
 * with older weights is corrected for by V-trace; how many updates older they were is the policy
 * lag, which is counted for every trajectory.
 */
#include "examples/rl/rl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TABLE = WEIGHTS + 1, LATEST = 64 }; /* the last element: the number of updates */

struct weights {
	struct tutti_ps *ps;
	struct tutti_ps_table *table;
	double *latest; /* the learner: the last LATEST weights; an actor: its weights */
};

/* Only rank 0 serves, so that no other rank is needed. */
static int weights_open(struct weights *w, struct tutti_comm *world)
{
	int learner = !tutti_comm_rank(world), err;
	struct tutti_ps_config config = {.size = sizeof(config),
					 .role = learner ? TUTTI_PS_BOTH : TUTTI_PS_WORKER,
					 .staleness = TUTTI_PS_ASYNC};
	struct tutti_ps_options opt = {.size = sizeof(opt), .versions = 4};

	w->latest = calloc((size_t)TABLE * LATEST, sizeof(*w->latest));
	if (!w->latest)
		return -ENOMEM;
	err = tutti_ps_open(world, &config, &w->ps);
	return err ? err : tutti_ps_dense(w->ps, "weights", TABLE, TUTTI_FLOAT64, &opt, &w->table);
}

static int weights_close(struct weights *w)
{
	int err = w->ps ? tutti_ps_close(w->ps) : 0;

	free(w->latest);
	return only_death(err) ? 0 : err;
}

/* Those of `lag` updates ago: 0 but for experiments. */
static int weights_write(struct weights *w, const struct learner *l)
{
	uint64_t lag = (uint64_t)l->o->lag, from = l->updates > lag ? l->updates - lag : 0;
	double *now = w->latest + l->updates % LATEST * TABLE;

	memcpy(now, l->w, sizeof(l->w));
	now[WEIGHTS] = (double)l->updates;
	return tutti_ps_push_version(w->table, w->latest + from % LATEST * TABLE, TABLE,
				     TUTTI_FLOAT64, NULL);
}

static int learn(struct learner *l, struct weights *w, struct queue *q)
{
	const void *item;
	int err = 0, i, from;

	while (!err && !learner_done(l)) {
		for (i = 0; i < l->o->batch && !err; i++) {
			err = queue_take(q, &item, &from);
			if (err)
				break;
			learner_take(l, item);
			err = queue_done(q);
		}
		if (!err)
			err = learner_update(l);
		if (!err)
			err = weights_write(w, l);
		if (!err)
			learner_follow(l);
	}
	return err;
}

static int run_learner(struct tutti_comm *world, const struct options *o, struct weights *w,
		       struct queue *q)
{
	struct learner *l = malloc(sizeof(*l));
	int err = l ? 0 : -ENOMEM, end;

	if (l)
		learner_start(l, o);
	if (!err)
		err = weights_write(w, l);
	end = tutti_barrier(world); /* actors find a version */
	if (!err && !end)
		err = learn(l, w, q);
	end = queue_close(q);
	err = err ? err : end;
	err = err ? err : learner_tell(l);
	free(l);
	return err;
}

static int run_actor(struct tutti_comm *world, const struct options *o, struct weights *w,
		     struct queue *q)
{
	struct cartpole c = {.random = actor_seed(o, tutti_comm_rank(world))};
	int err = tutti_barrier(world), closed;
	uint64_t version = 0;
	void *item;

	cartpole_begin(&c);
	while (!err) {
		closed = queue_begin(q, &item);
		if (closed)
			return closed < 0 ? closed : 0;
		err = tutti_ps_pull_version(w->table, w->latest, TABLE, TUTTI_FLOAT64, &version);
		if (err)
			break;
		act(&c, w->latest, (uint64_t)w->latest[WEIGHTS], item);
		err = queue_send(q, false);
	}
	return err;
}

int impala(struct tutti_comm *world, const struct options *o)
{
	struct weights w = {0};
	struct queue *q = NULL;
	int err = weights_open(&w, world), end;

	if (!err)
		err = queue_create(world, sizeof(struct trajectory), o->slots, &q);
	if (!err)
		err = tutti_comm_rank(world) ? run_actor(world, o, &w, q)
					     : run_learner(world, o, &w, q);
	end = weights_close(&w);
	err = err ? err : end;
	end = q ? queue_free(q) : 0;
	return err ? err : end;
}
