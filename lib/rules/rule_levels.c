/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of the update rules, their state, and the choice of kernels. */
#include "config.h"
#include "lib/rules/rule.h"

static tt_rule_fn *const rules[TT_REDUCE_LEVELS] = {
	[TT_REDUCE_BASE] = tt_rule_base,
#ifdef TT_HAVE_AVX2
	[TT_REDUCE_AVX2] = tt_rule_avx2,
#endif
#ifdef TT_HAVE_AVX512
	[TT_REDUCE_AVX512] = tt_rule_avx512,
#endif
};

tt_rule_fn *tt_rule_truth;

void tt_rule_apply(const struct tt_rule_job *job)
{
	enum tt_reduce_level level = tt_reduce_level();

	(level == TT_REDUCE_TRUTH ? tt_rule_truth : rules[level])(job);
}

const char *tt_rule_name(int rule)
{
	static const char *const name[TUTTI_PS_NUM_RULES] = {
		"sum",	   "assign",  "SGD",  "momentum", "Nesterov",
		"Adagrad", "RMSProp", "Adam", "AdamW",	  "callback"};

	return name[rule];
}

int tt_rule_states(int rule)
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
