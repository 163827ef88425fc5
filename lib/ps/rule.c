/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a push does to a value. float64 is computed in double, all other floats in float, to which 16-bit
 * values are widened and from which they are rounded; the state of a rule has the precision of the computation.
 */
#include "config.h"
#include <math.h>
#include <string.h>

#include "lib/ps/ps.h"
#include "lib/ps/rule.h"

/* By the level that lib/reduce uses. */
static tt_ps_rule_fn *const rules[TT_REDUCE_LEVELS] = {
	[TT_REDUCE_TRUTH] = tt_ps_rule_truth,
	[TT_REDUCE_BASE] = tt_ps_rule_base,
#ifdef TT_HAVE_AVX2
	[TT_REDUCE_AVX2] = tt_ps_rule_avx2,
#endif
#ifdef TT_HAVE_AVX512
	[TT_REDUCE_AVX512] = tt_ps_rule_avx512,
#endif
};

const char *tt_ps_rule_name(int rule)
{
	static const char *const name[TUTTI_PS_NUM_RULES] = {
		"sum", "assign", "SGD", "momentum", "Nesterov",
		"Adagrad", "RMSProp", "Adam", "AdamW", "callback"};

	return name[rule];
}

int tt_ps_rule_states(int rule)
{
	switch (rule) {
	case TUTTI_PS_MOMENTUM:
	case TUTTI_PS_NESTEROV:
	case TUTTI_PS_ADAGRAD:
	case TUTTI_PS_RMSPROP:
		return 1;
	case TUTTI_PS_ADAM:
	case TUTTI_PS_ADAMW:
		return 2;
	default:
		return 0;
	}
}

size_t tt_ps_state_size(enum tutti_datatype datatype)
{
	return datatype == TUTTI_FLOAT64 ? sizeof(double) : sizeof(float);
}

static void by_rule(const struct tutti_ps_table *t, void *value, const void *update, void *state1,
		    void *state2, size_t count, uint64_t step)
{
	struct tt_ps_rule_job job = {.opt = &t->opt, .datatype = t->datatype, .x = value, .u = update,
				     .s1 = state1, .s2 = state2, .count = count};

	if (tt_ps_rule_states(t->opt.rule) == 2) {
		job.bias1 = 1 - pow(t->opt.beta1, (double)step);
		job.bias2 = 1 - pow(t->opt.beta2, (double)step);
	}
	rules[tt_reduce_level()](&job);
}

void tt_ps_apply(const struct tutti_ps_table *t, void *value, const void *update, void *state1,
		 void *state2, size_t count, uint64_t step)
{
	const void *both[] = {value, update};

	switch (t->opt.rule) {
	case TUTTI_PS_SUM:
		tt_reduce_multi(&value, 1, both, 2, count, t->datatype, TUTTI_SUM, 0, 0);
		break;
	case TUTTI_PS_ASSIGN:
		memcpy(value, update, count * t->elem);
		break;
	case TUTTI_PS_CALLBACK:
		t->opt.update(value, update, count, t->datatype, t->opt.arg);
		break;
	default:
		by_rule(t, value, update, state1, state2, count, step);
	}
}
