/* SPDX-License-Identifier: BSD-3-Clause */
/* The learner of trajectories: gradients with V-trace, Adam, the last returns. */
#include "examples/rl/rl.h"

#include <stdio.h>
#include <string.h>

#define VALUE_COST 0.5
#define FOLLOW 50  /* updates from one line of output to the next */
#define REWARD 0.1 /* of a step: values stay below 10 */

void trajectory_gradient(const struct options *o, const double *w, const struct trajectory *t,
			 double steps, double *g)
{
	static const struct vtrace_config config = {.rho = 1, .c = 1, .lambda = 1};
	double target[UNROLL], advantage[UNROLL];
	struct vtrace_step step[UNROLL];
	struct policy_out out[UNROLL + 1];
	int i;

	for (i = 0; i <= UNROLL; i++)
		policy_forward(w, t->seen[i], &out[i]);
	for (i = 0; i < UNROLL; i++) {
		double pi = out[i].p[t->action[i]];

		step[i] = (struct vtrace_step){.pi = pi,
					       .mu = o->no_vtrace ? pi : t->mu[i],
					       .reward = REWARD,
					       .discount = t->ended[i] ? 0 : o->gamma,
					       .value = out[i].value};
	}
	vtrace(&config, step, UNROLL, out[UNROLL].value, target, advantage);
	for (i = 0; i < UNROLL; i++) {
		struct policy_loss loss = {.action = t->action[i],
					   .advantage = advantage[i] / steps,
					   .target = target[i],
					   .cost = VALUE_COST / steps,
					   .entropy = o->entropy / steps};

		policy_backward(w, t->seen[i], &out[i], &loss, g);
	}
}

uint64_t actor_seed(const struct options *o, int rank)
{
	return (uint64_t)o->seed * 1000003 + (uint64_t)rank;
}

void act(struct cartpole *c, const double *w, uint64_t version, struct trajectory *t)
{
	struct policy_out out;
	bool ended;
	int i;

	t->version = version;
	for (i = 0; i < UNROLL; i++) {
		cartpole_observe(c, t->seen[i]);
		policy_forward(w, t->seen[i], &out);
		t->action[i] = policy_sample(&out, &c->random);
		t->mu[i] = out.p[t->action[i]];
		ended = cartpole_step(c, t->action[i]);
		t->ended[i] = ended ? c->steps : 0;
		if (ended)
			cartpole_begin(c);
	}
	cartpole_observe(c, t->seen[UNROLL]);
}

void learner_start(struct learner *l, const struct options *o)
{
	*l = (struct learner){.o = o};
	policy_start(l->w, (uint64_t)o->seed);
}

void learner_take(struct learner *l, const struct trajectory *t)
{
	uint64_t lag = l->updates - t->version;
	int i;

	for (i = 0; i < UNROLL; i++)
		if (t->ended[i])
			l->returns[l->episodes++ % EPISODES] = t->ended[i];
	l->steps += UNROLL;
	l->lags[lag < LAGS ? lag : LAGS]++;
	if (lag > l->most_lag)
		l->most_lag = lag;
	trajectory_gradient(l->o, l->w, t, (double)l->o->batch * UNROLL, l->gradient);
}

int learner_update(struct learner *l)
{
	struct tutti_rule rule = {.size = sizeof(rule), .rule = TUTTI_PS_ADAM, .rate = l->o->rate};
	int err = tutti_rule_apply(&rule, TUTTI_FLOAT64, l->w, l->gradient, l->state1, l->state2,
				   WEIGHTS, ++l->updates);

	memset(l->gradient, 0, sizeof(l->gradient));
	return err;
}

double learner_mean(const struct learner *l)
{
	double sum = 0;
	int i;

	for (i = 0; i < EPISODES; i++)
		sum += l->returns[i];
	return l->episodes < EPISODES ? 0 : sum / EPISODES;
}

void learner_follow(const struct learner *l)
{
	if (l->updates % FOLLOW)
		return;
	printf("update %llu: %llu steps, mean return %.1f\n", (unsigned long long)l->updates,
	       (unsigned long long)l->steps, learner_mean(l));
	fflush(stdout);
}

bool learner_done(const struct learner *l)
{
	return learner_mean(l) >= l->o->goal || l->steps >= (uint64_t)l->o->steps;
}

int learner_tell(const struct learner *l)
{
	uint64_t n = 0, sum = 0, i;

	for (i = 0; i <= LAGS; i++) {
		n += l->lags[i];
		sum += i * l->lags[i];
	}
	printf("policy lag: %.2f updates on average, %llu at most, of %llu trajectories\n",
	       n ? (double)sum / (double)n : 0, (unsigned long long)l->most_lag,
	       (unsigned long long)n);
	printf("mean return %.1f of %d episodes after %llu steps, %llu updates\n", learner_mean(l),
	       EPISODES, (unsigned long long)l->steps, (unsigned long long)l->updates);
	return learner_mean(l) >= l->o->goal ? 0 : 1;
}
