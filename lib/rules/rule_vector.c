/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The update rules in vectors; built once for each level of instructions (local.mk). Values,
 * updates and state are each read once and written once, in one pass.
 */
#include <math.h>

#include "lib/reduce/isa.h"

#include "lib/rules/rule.h"

#define REAL float
#define VEC vec_f32
#define SQRT sqrt_vec_f32
#define NOT_A_NUMBER __builtin_nanf("")
#define NAME(what) what##_f32
#include "lib/rules/rule_steps.h"
#undef REAL
#undef VEC
#undef SQRT
#undef NOT_A_NUMBER
#undef NAME
#define REAL double
#define VEC vec_f64
#define SQRT sqrt_vec_f64
#define NOT_A_NUMBER __builtin_nan("")
#define NAME(what) what##_f64
#include "lib/rules/rule_steps.h"

INLINE vec_f32 load_f16(const void *p)
{
	return widen_f16(load_half(p));
}

INLINE void store_f16(void *p, vec_f32 x)
{
	store_half(p, narrow_f16(x));
}

INLINE vec_f32 load_bf16(const void *p)
{
	return widen_bf16(load_half(p));
}

INLINE void store_bf16(void *p, vec_f32 x)
{
	store_half(p, narrow_bf16(x));
}

static void of_f16(const struct tt_rule_job *job)
{
	static const struct form_f32 form = {TT_VEC / 2, load_f16, store_f16};

	apply_f32(job, &form);
}

static void of_bf16(const struct tt_rule_job *job)
{
	static const struct form_f32 form = {TT_VEC / 2, load_bf16, store_bf16};

	apply_f32(job, &form);
}

static void of_f32(const struct tt_rule_job *job)
{
	static const struct form_f32 form = {TT_VEC, load_f32, store_f32};

	apply_f32(job, &form);
}

static void of_f64(const struct tt_rule_job *job)
{
	static const struct form_f64 form = {TT_VEC, load_f64, store_f64};

	apply_f64(job, &form);
}

void AT_LEVEL(tt_rule)(const struct tt_rule_job *job)
{
	switch (job->datatype) {
	case TUTTI_FLOAT16:
		return of_f16(job);
	case TUTTI_BFLOAT16:
		return of_bf16(job);
	case TUTTI_FLOAT64:
		return of_f64(job);
	default:
		return of_f32(job);
	}
}
