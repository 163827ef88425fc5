/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * V-trace (Espeholt et al., IMPALA, 2018): targets for the values of a policy pi from steps that an
 * older policy mu has taken. With rho_t = min(rho, pi / mu), c_t = lambda min(c, pi / mu) and
 * delta_t = rho_t (r_t + gamma_t V(x_t+1) - V(x_t)),
 *
 *	v_s = V(x_s) + sum over t >= s of (product of gamma_i c_i over s <= i < t) delta_t
 *
 * which is computed from the end: v_s - V(x_s) = delta_s + gamma_s c_s (v_s+1 - V(x_s+1)). With
 * pi = mu and lambda 1 the targets are the n-step returns.
 */
#include "examples/rl/rl.h"

static double at_most(double x, double limit)
{
	return x < limit ? x : limit;
}

void vtrace(const struct vtrace_config *config, const struct vtrace_step *step, int n, double last,
	    double *target, double *advantage)
{
	double next = last, next_target = last; /* value and target of the state after step t */
	double ratio, rho, c;
	int t;

	for (t = n - 1; t >= 0; t--) {
		const struct vtrace_step *s = &step[t];

		ratio = s->pi / s->mu;
		rho = at_most(ratio, config->rho);
		c = config->lambda * at_most(ratio, config->c);
		advantage[t] = rho * (s->reward + s->discount * next_target - s->value);
		target[t] = s->value + rho * (s->reward + s->discount * next - s->value) +
			    s->discount * c * (next_target - next);
		next = s->value;
		next_target = target[t];
	}
}
