/* SPDX-License-Identifier: BSD-3-Clause */
/* Update rules in the caller's memory. */
#include "lib/api/api.h"

#include <errno.h>
#include <tutti/extend.h>

#include "lib/base/datatype.h"
#include "lib/rules/rule_numbers.h"

int tutti_rule_states(int rule)
{
	if (rule < TUTTI_PS_SGD || rule > TUTTI_PS_ADAMW)
		return tt_fail(-EINVAL,
			       "tutti_rule_states: rule is %d; it must be TUTTI_PS_SGD (%d) to "
			       "TUTTI_PS_ADAMW (%d)",
			       rule, TUTTI_PS_SGD, TUTTI_PS_ADAMW);
	return tt_rule_states(rule);
}

static int check_vectors(const char *call, const struct tt_rule_job *job)
{
	int states = tt_rule_states(job->opt->rule);

	switch (job->datatype) {
	case TUTTI_FLOAT16:
	case TUTTI_BFLOAT16:
	case TUTTI_FLOAT32:
	case TUTTI_FLOAT64:
		break;
	default:
		return tt_fail(-EINVAL, "%s: datatype is %s; it must be a float", call,
			       tt_datatype_name(job->datatype));
	}
	if (job->count && (!job->x || !job->u))
		return tt_fail(-EINVAL, "%s: %s is NULL", call, job->x ? "u" : "x");
	if (job->count && ((states > 0 && !job->s1) || (states > 1 && !job->s2)))
		return tt_fail(-EINVAL, "%s: state%d is NULL; %s has %d vector(s) of state", call,
			       job->s1 ? 2 : 1, tt_rule_name(job->opt->rule), states);
	return 0;
}

int tutti_rule_apply(const struct tutti_rule *rule, enum tutti_datatype datatype, void *x,
		     const void *u, void *state1, void *state2, size_t count, uint64_t step)
{
	static const struct tt_sized sized = TT_SIZED("rule", tutti_rule, weight_decay);
	struct tutti_ps_options opt = {.size = sizeof(opt)};
	struct tt_rule_job job = {.opt = &opt,
				  .datatype = datatype,
				  .x = x,
				  .u = u,
				  .s1 = state1,
				  .s2 = state2,
				  .count = count};
	struct tutti_rule own;
	int err;

	rule = tt_sized_read(&sized, __func__, rule, &own);
	if (!rule)
		return -EINVAL;
	err = tutti_rule_states(rule->rule);
	if (err < 0)
		return err;
	if (rule->pad)
		return tt_fail(-EINVAL, "%s: pad is %d; it must be 0", __func__, rule->pad);
	opt.rule = rule->rule;
	opt.rate = rule->rate;
	opt.momentum = rule->momentum;
	opt.beta1 = rule->beta1;
	opt.beta2 = rule->beta2;
	opt.epsilon = rule->epsilon;
	opt.weight_decay = rule->weight_decay;
	err = check_vectors(__func__, &job);
	if (!err)
		err = tt_rule_check(__func__, &opt, datatype);
	if (!err && !step)
		err = tt_fail(-EINVAL, "%s: step is 0; the first one is 1", __func__);
	if (err)
		return err;
	tt_rule_defaults(&opt);
	tt_rule_set_step(&job, step);
	tt_rule_apply(&job);
	return 0;
}
