/* SPDX-License-Identifier: BSD-3-Clause */
/* The sets of kernels that reduce.c chooses from, one per instruction set. */
#ifndef TT_KERNELS_H
#define TT_KERNELS_H

#include "lib/reduce/reduce.h"

typedef void tt_divide_fn(void *dst, const void *src, size_t count, int n);
typedef void tt_scale_fn(void *dst, const void *src, size_t count, const void *scalar);

struct tt_kernels {
	tt_reduce_fn *op[TUTTI_NUM_DATATYPES][TUTTI_NUM_OPS];
	tt_divide_fn *divide[TUTTI_NUM_DATATYPES];
	tt_scale_fn *scale[TUTTI_NUM_DATATYPES];
};

extern const struct tt_kernels tt_kernels_scalar;
extern const struct tt_kernels tt_kernels_avx2; /* only with TT_HAVE_AVX2 */

/* truth.c */
void tt_reduce_truth(void *const *dst, int ndst, const void *const *src, int nsrc, size_t count,
		     enum tutti_datatype datatype, enum tutti_op op, int divide_by);

#endif
