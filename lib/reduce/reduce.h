/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduction kernels: dst = a op b, element by element, a on the left.
 *
 * dst may be a or b (exactly, not shifted). float16 and bfloat16 are widened to float32, combined, and
 * rounded to nearest even. Integer sums and products wrap. min/max of floats: a NaN on either side
 * gives NaN. The scalar kernels are the truth; faster ones (chosen at run time) give the same bits.
 */
#ifndef TT_REDUCE_H
#define TT_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <tutti/coll.h>

typedef void tt_reduce_fn(void *dst, const void *a, const void *b, size_t count);

/* The kernel; TUTTI_AVG gives that of TUTTI_SUM (scaling is separate). NULL: no such combination. */
tt_reduce_fn *tt_reduce_get(enum tutti_datatype datatype, enum tutti_op op);
/* The scalar kernel, for tests. */
tt_reduce_fn *tt_reduce_scalar(enum tutti_datatype datatype, enum tutti_op op);
bool tt_reduce_valid(enum tutti_datatype datatype, enum tutti_op op);

/*
 * Every dst[j] = src[0] op src[1] op ... op src[nsrc - 1], from left to right, element by element; then,
 * unless divide_by is 0, divided by it as tt_reduce_divide does (op is a sum then, and TUTTI_AVG is one).
 * 16-bit floats are widened once, combined and divided in float32, and rounded once at the end. A NaN in
 * the result is the one quiet NaN. nsrc and ndst are at least 1; a dst may be a src, exactly, or share
 * no byte with any; addresses need no alignment.
 *
 * TT_REDUCE_STREAM: the result is larger than the cache and not read again soon, so store around the
 * cache where that is possible (not into a src, which is in the cache already). All stores are visible
 * to others as plain ones are, after a release.
 */
enum { TT_REDUCE_STREAM = 1 };
void tt_reduce_multi(void *const *dst, int ndst, const void *const *src, int nsrc, size_t count,
		     enum tutti_datatype datatype, enum tutti_op op, int divide_by, unsigned flags);

/* dst = src / n: floats are divided (16-bit ones in float32), integers truncate toward zero. dst may be src. */
void tt_reduce_divide(void *dst, const void *src, size_t count, enum tutti_datatype datatype, int n);

/* dst = src * *scalar, an element of datatype; 16-bit floats in float32, integers wrap. dst may be src. */
void tt_reduce_scale(void *dst, const void *src, size_t count, enum tutti_datatype datatype,
		     const void *scalar);
/* The scalar kernel, for tests. */
void tt_reduce_scale_scalar(void *dst, const void *src, size_t count, enum tutti_datatype datatype,
			    const void *scalar);

float tt_f16_to_f32(uint16_t h);
uint16_t tt_f32_to_f16(float f);
float tt_bf16_to_f32(uint16_t h);
uint16_t tt_f32_to_bf16(float f);

const char *tt_datatype_name(enum tutti_datatype datatype); /* "float32" */
const char *tt_op_name(enum tutti_op op);		    /* "sum" */

#endif
