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
