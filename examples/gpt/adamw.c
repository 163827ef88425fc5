/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * AdamW on all parameters of this rank: I. Loshchilov, F. Hutter, "Decoupled Weight Decay
 * Regularization", ICLR 2019. Every replica does the same to the same gradients.
 */
#include "examples/gpt/gpt.h"

int adamw_step(struct gpt *g)
{
	struct tutti_rule rule = {.size = sizeof(rule),
				  .rule = TUTTI_PS_ADAMW,
				  .rate = g->o.rate,
				  .beta1 = 0.9,
				  .beta2 = 0.99,
				  .weight_decay = g->o.decay};

	g->doing = "changing the parameters";
	return tutti_rule_apply(&rule, REAL, g->value, g->grad, g->m, g->v, g->count,
				(uint64_t)g->step + 1);
}
