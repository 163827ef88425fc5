/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Applies a push to values. float64 is computed in double, all other floats in float: 16-bit values
 * are widened before and rounded afterwards. The state of a rule has the precision of the
 * computation.
 */
#include <string.h>

#include "lib/base/copy.h"
#include "lib/ps/ps.h"
#include "lib/rules/rule_numbers.h"

size_t tt_ps_state_size(enum tutti_datatype datatype)
{
	return datatype == TUTTI_FLOAT64 ? sizeof(double) : sizeof(float);
}

static void by_rule(const struct tutti_ps_table *t, void *value, const void *update, void *state1,
		    void *state2, size_t count, uint64_t step)
{
	struct tt_rule_job job = {.opt = &t->opt,
				  .datatype = t->datatype,
				  .x = value,
				  .u = update,
				  .s1 = state1,
				  .s2 = state2,
				  .count = count};

	tt_rule_set_step(&job, step);
	tt_rule_apply(&job);
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
		tt_copy_data(value, update, count * t->elem);
		break;
	case TUTTI_PS_CALLBACK:
		t->opt.update(value, update, count, t->datatype, t->opt.arg);
		break;
	default:
		by_rule(t, value, update, state1, state2, count, step);
	}
}
