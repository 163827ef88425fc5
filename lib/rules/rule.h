/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The update rules' kernels, one set for each instruction level of lib/reduce, all with the same
 * bits: every step is one IEEE operation, rounded separately, in the order of
 * lib/verify/rule_loops.h, and every stored NaN is the same quiet NaN.
 */
#ifndef TT_RULE_H
#define TT_RULE_H

#include <stddef.h>
#include <tutti/ps.h>

#include "lib/reduce/reduce.h"

/* float64 is computed in double, with double state; all other types in float, with float state. */
struct tt_rule_job {
	const struct tutti_ps_options *opt;
	enum tutti_datatype datatype;
	void *x;
	const void *u;
	void *s1, *s2; /* state; NULL where the rule has none */
	size_t count;
	double bias1, bias2; /* Adam: 1 - beta1^step, 1 - beta2^step */
};

typedef void tt_rule_fn(const struct tt_rule_job *job);

tt_rule_fn tt_rule_base;
tt_rule_fn tt_rule_avx2;   /* only with TT_HAVE_AVX2 */
tt_rule_fn tt_rule_avx512; /* only with TT_HAVE_AVX512 */

/* rule_levels.c: applies a rule from SGD to AdamW, at the level that lib/reduce uses. */
void tt_rule_apply(const struct tt_rule_job *job);
/* lib/verify/rule_reference.c sets TT_REDUCE_TRUTH. */
extern tt_rule_fn *tt_rule_truth;
void tt_rule_add_reference(void);
const char *tt_rule_name(int rule);
int tt_rule_states(int rule);

#endif
