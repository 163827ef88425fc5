/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reference for all kernels of the update rules, which match it bit for bit: one element at a
 * time.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/reduce/half.h"
#include "lib/rules/rule.h"

#define REAL float
#define SQRT sqrtf
#define NOT_A_NUMBER __builtin_nanf("")
#define NAME(what) what##_f32
#include "lib/verify/rule_loops.h"
#undef REAL
#undef SQRT
#undef NOT_A_NUMBER
#undef NAME
#define REAL double
#define SQRT sqrt
#define NOT_A_NUMBER __builtin_nan("")
#define NAME(what) what##_f64
#include "lib/verify/rule_loops.h"

#define PIECE 256 /* 16-bit values widened at once */

static void apply_16(const struct tt_rule_job *job)
{
	bool half = job->datatype == TUTTI_FLOAT16;
	float fx[PIECE], fu[PIECE], *s1 = job->s1, *s2 = job->s2;
	const uint16_t *u = job->u;
	uint16_t *x = job->x;
	size_t at, n, i;

	for (at = 0; at < job->count; at += n) {
		n = job->count - at < PIECE ? job->count - at : PIECE;
		for (i = 0; i < n; i++) {
			fx[i] = half ? tt_half_widen(x[at + i]) : tt_bfloat_widen(x[at + i]);
			fu[i] = half ? tt_half_widen(u[at + i]) : tt_bfloat_widen(u[at + i]);
		}
		apply_f32(job, fx, fu, s1 ? s1 + at : NULL, s2 ? s2 + at : NULL, n);
		for (i = 0; i < n; i++)
			x[at + i] = half ? tt_half_narrow(fx[i]) : tt_bfloat_narrow(fx[i]);
	}
}

static void apply(const struct tt_rule_job *job)
{
	if (job->datatype == TUTTI_FLOAT64)
		apply_f64(job, job->x, job->u, job->s1, job->s2, job->count);
	else if (job->datatype == TUTTI_FLOAT32)
		apply_f32(job, job->x, job->u, job->s1, job->s2, job->count);
	else
		apply_16(job);
}

void tt_rule_add_reference(void)
{
	tt_rule_truth = apply;
}
