/* SPDX-License-Identifier: BSD-3-Clause */
/* The numbers of the update rules: defaults, permitted ranges, bias correction. */
#ifndef TT_RULE_NUMBERS_H
#define TT_RULE_NUMBERS_H

#include "lib/rules/rule.h"

/* Numbers that are 0 become the rule's defaults. */
void tt_rule_defaults(struct tutti_ps_options *opt);
/* 0, or -EINVAL with a text that begins with what; 0 stands for a default here. */
int tt_rule_check(const char *what, const struct tutti_ps_options *opt, enum tutti_datatype type);
/* The bias correction of the application that is number step, from 1. */
void tt_rule_set_step(struct tt_rule_job *job, uint64_t step);

#endif
