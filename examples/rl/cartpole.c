/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pole on a cart of Barto, Sutton and Anderson (1983), with the constants of OpenAI Gym's
 * CartPole-v0: episodes of at most 200 steps, solved at a mean return of 195 over 100 episodes.
 */
#include "examples/rl/rl.h"

#include <math.h>

#include "examples/random.h"

#define GRAVITY 9.8
#define CART 1.0 /* masses */
#define POLE 0.1
#define HALF 0.5 /* length of the pole */
#define FORCE 10.0
#define TICK 0.02 /* seconds */
#define FAR 2.4
#define STEEP (12 * 2 * 3.14159265358979323846 / 360)

void cartpole_begin(struct cartpole *c)
{
	int i;

	for (i = 0; i < OBSERVED; i++)
		c->at[i] = 0.1 * random_uniform(&c->random) - 0.05;
	c->steps = 0;
}

bool cartpole_step(struct cartpole *c, int action)
{
	double *at = c->at, sine = sin(at[2]), cosine = cos(at[2]);
	double push =
		((action ? FORCE : -FORCE) + POLE * HALF * at[3] * at[3] * sine) / (CART + POLE);
	double turn = (GRAVITY * sine - cosine * push) /
		      (HALF * (4.0 / 3 - POLE * cosine * cosine / (CART + POLE)));
	double move = push - POLE * HALF * turn * cosine / (CART + POLE);

	at[0] += TICK * at[1];
	at[1] += TICK * move;
	at[2] += TICK * at[3];
	at[3] += TICK * turn;
	c->steps++;
	return fabs(at[0]) > FAR || fabs(at[2]) > STEEP || c->steps == LONGEST;
}

void cartpole_observe(const struct cartpole *c, double *seen)
{
	seen[0] = c->at[0] / FAR;
	seen[1] = c->at[1] / 2;
	seen[2] = c->at[2] / STEEP;
	seen[3] = c->at[3] / 2;
}
