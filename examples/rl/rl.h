/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reinforcement learning on cart-pole over tutti, in three shapes; see rl(1). Files:
 *
 *	rl.c, rl_options.c   the program
 *	a3c.c		     workers with asynchronous gradients on a parameter server
 *	impala.c	     actors with a queue of trajectories to one learner
 *	seed.c		     actors without weights, which ask the learner for actions
 *	queue.c		     the bounded queue, over windows with notifications
 *	ask.c		     requests and answers, likewise
 *	deaths.c	     when actors die
 *	learner.c	     gradients of trajectories, the optimizer, the returns
 *	vtrace.c	     V-trace targets
 *	policy.c	     policy and value, two small perceptrons
 *	cartpole.c	     the environment
 */
#ifndef RL_H
#define RL_H

#include <stdbool.h>
#include <stdint.h>
#include <tutti/tutti.h>

/* ---- cartpole.c ---- */

enum { OBSERVED = 4, ACTIONS = 2, LONGEST = 200 };

struct cartpole {
	double at[OBSERVED]; /* position, speed, angle, turning speed */
	int steps;	     /* of this episode, each of which gives a reward of 1 */
	uint64_t random;
};

void cartpole_begin(struct cartpole *c);
/* true: the episode has ended, after c->steps steps. */
bool cartpole_step(struct cartpole *c, int action);
/* The input of a policy: numbers of about 1. */
void cartpole_observe(const struct cartpole *c, double *seen);

/* ---- policy.c ---- */

enum { HIDDEN = 32, WEIGHTS = 2 * HIDDEN * (OBSERVED + 1) + ACTIONS * (HIDDEN + 1) + HIDDEN + 1 };

struct policy_out {
	double hidden[2][HIDDEN]; /* of policy and value */
	double p[ACTIONS];	  /* probabilities */
	double value;
};

struct policy_loss { /* -advantage log p(action) + cost (target - value)^2 / 2 - entropy H(p) */
	int action;
	double advantage, target, cost, entropy;
};

void policy_start(double *w, uint64_t seed);
void policy_forward(const double *w, const double *seen, struct policy_out *out);
/* Adds the gradient of the loss to g. */
void policy_backward(const double *w, const double *seen, const struct policy_out *out,
		     const struct policy_loss *loss, double *g);
int policy_sample(const struct policy_out *out, uint64_t *random);

/* ---- vtrace.c ---- */

struct vtrace_step {
	double pi, mu; /* probabilities of the action: now, and when it was taken */
	double reward;
	double discount; /* of what follows; 0: the episode ended with this step */
	double value;	 /* of the state before the step */
};

struct vtrace_config {
	double rho, c, lambda; /* clipping of pi / mu in differences and in traces; decay */
};

/*
 * last: value of the state after the n steps. Writes the n targets of values, and the n advantages
 * rho_t (r_t + discount_t target_t+1 - value_t) of actions.
 */
void vtrace(const struct vtrace_config *config, const struct vtrace_step *step, int n, double last,
	    double *target, double *advantage);

/* ---- learner.c ---- */

enum { UNROLL = 32, EPISODES = 100, LAGS = 32 };

/* The steps of an actor: UNROLL of them, which may cross the ends of episodes. */
struct trajectory {
	uint64_t version; /* updates of the weights that acted */
	double seen[UNROLL + 1][OBSERVED];
	double mu[UNROLL]; /* probability of the action */
	int32_t action[UNROLL];
	int32_t ended[UNROLL]; /* the return of the episode that ended with this step; 0: none did
				*/
};

struct options {
	int shape, seed, steps, batch, lag, slots;
	double rate, gamma, entropy, goal;
	bool no_vtrace;
};

struct learner {
	const struct options *o;
	double w[WEIGHTS], gradient[WEIGHTS], state1[WEIGHTS], state2[WEIGHTS];
	uint64_t updates, steps; /* of weights, of environments */
	int returns[EPISODES];	 /* of the last episodes */
	uint64_t episodes;
	uint64_t lags[LAGS + 1]; /* how many trajectories had each policy lag; last: longer ones */
	uint64_t most_lag;
};

/* Adds the gradient of a trajectory to g, divided by steps. */
void trajectory_gradient(const struct options *o, const double *w, const struct trajectory *t,
			 double steps, double *g);
void learner_start(struct learner *l, const struct options *o);
/* Counts its episodes, its steps and its policy lag, and adds its gradient. */
void learner_take(struct learner *l, const struct trajectory *t);
/* The optimizer's step with the gradients of a batch. */
int learner_update(struct learner *l);
/* Of the last EPISODES episodes; 0: there were not so many yet. */
double learner_mean(const struct learner *l);
/* Prints the mean now and then. */
void learner_follow(const struct learner *l);
bool learner_done(const struct learner *l); /* the goal is reached, or the steps are used up */
int learner_tell(const struct learner *l);  /* 0: the goal is reached */

uint64_t actor_seed(const struct options *o, int rank);
/* An actor's steps with its weights. version: of them. */
void act(struct cartpole *c, const double *w, uint64_t version, struct trajectory *t);

/* ---- queue.c: from all other ranks of a communicator to rank 0 ---- */

struct queue;

/* Collective. Every rank but 0 has `slots` places for items of `size` bytes at rank 0. */
int queue_create(struct tutti_comm *comm, size_t size, int slots, struct queue **queue);
int queue_free(struct queue *q);
/*
 * Actors: *item is memory for the next item, once this actor has a free place at the learner;
 * queue_send sends it. 1: the learner has closed the queue. more: another item follows at once, so
 * this one may wait for it: until half of the places is held back, or an item without more is
 * sent. An actor that dies takes along the items that it held back.
 */
int queue_begin(struct queue *q, void **item);
int queue_send(struct queue *q, bool more);
/*
 * The learner: waits for an item. *item is valid until queue_done. Half of an actor's places are
 * freed at once: the actor may send again when as many of its items are done. *from: its rank. The
 * items of an actor come in order, and actors take turns, each with the items of one put.
 * -TUTTI_EPEER: all are dead.
 */
int queue_take(struct queue *q, const void **item, int *from);
int queue_done(struct queue *q);
/* The learner: queue_begin returns 1 at all actors that live. */
int queue_close(struct queue *q);

/* ---- ask.c: requests of all other ranks, which rank 0 answers ---- */

struct ask;

/* Collective; request, answer: their bytes, whole words of 8. Free it after a failure, too. */
int ask_create(struct tutti_comm *comm, size_t request, size_t answer, struct ask **ask);
int ask_free(struct ask *a);
/* A client: memory for its request; sends that and waits for the answer. */
void *ask_request(struct ask *a);
int ask_send(struct ask *a, const void **answer);
/*
 * The server: waits for a request and takes all that are there; from: the ranks, with room for all.
 * -TUTTI_EPEER: all clients are dead.
 */
int ask_gather(struct ask *a, int *from, int *n);
const void *ask_of(const struct ask *a, int rank);
void *ask_answer(struct ask *a, int rank); /* memory for its answer */
int ask_reply(struct ask *a, int rank, bool last);
int ask_clients(const struct ask *a); /* that live, and have not had their last answer */

/* ---- rl.c ---- */

enum shape { A3C, IMPALA, SEED };

int options_read(struct options *o, int argc, char **argv); /* 1: all is done */

/* The death of an actor is no error for the others. */
static inline bool only_death(int err)
{
	return err == -TUTTI_EPEER;
}

/*
 * deaths.c: after -TUTTI_EPEER, acknowledges the deaths, and marks dead ranks (NULL: not wanted).
 * -TUTTI_EPEER: all other ranks are dead.
 */
int leave_dead(struct tutti_comm *comm, bool *dead);

/* The shapes: 0, a negative code, or 1: the goal was not reached. */
int a3c(struct tutti_comm *world, const struct options *o);
int impala(struct tutti_comm *world, const struct options *o);
int seed(struct tutti_comm *world, const struct options *o);

#endif
