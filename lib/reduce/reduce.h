/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduction kernels: combine many sources element by element, from left to right.
 *
 * float16 and bfloat16 are widened to float32, combined, and rounded to nearest even at the end.
 * Integer sums and products wrap. min and max of floats: a NaN in any source gives NaN; of equal
 * values, the left one. The scalar kernel in lib/verify/reduce_reference.c is the reference; the
 * faster ones (chosen at run time) give the same bits.
 */
#ifndef TT_REDUCE_H
#define TT_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <tutti/coll.h>

#include "lib/base/datatype.h"

/*
 * Every dst[j] = src[0] op src[1] op ... op src[nsrc - 1]; then, unless divide_by is 0, divided by
 * it: as floats (16-bit ones in float32, before they are rounded), integers cut off toward zero.
 * TUTTI_AVG is the sum; only sums can be divided. A NaN in the result is the one quiet NaN. nsrc
 * and ndst are at least 1; a dst may be a src, exactly, or share no byte with any; addresses need
 * no alignment.
 *
 * TT_REDUCE_STREAM: the result is not read again soon, so store it around the cache, where that is
 * possible and no loss: not into a src, which is in the cache already. When the function returns,
 * the result is ordered for other threads as if it had been stored plainly.
 */
enum { TT_REDUCE_STREAM = 1 };
#define TT_REDUCE_ELEM_MAX 8192 /* bytes of an opaque element that operators take */
void tt_reduce_multi(void *const *dst, int ndst, const void *const *src, int nsrc, size_t count,
		     enum tutti_datatype datatype, enum tutti_op op, int divide_by, unsigned flags);
bool tt_reduce_valid(enum tutti_datatype datatype, enum tutti_op op);

/* dst = a + b, of float32; as tt_reduce_multi. */
void tt_reduce_sum(float *dst, const void *a, const void *b, size_t count);

/* dst = src * *scalar, an element of datatype; as a product of two sources. dst may be src. */
void tt_reduce_scale(void *dst, const void *src, size_t count, enum tutti_datatype datatype,
		     const void *scalar);

/*
 * dst = weight[0] * src[0] + weight[1] * src[1] + ... + weight[n - 1] * src[n - 1], from left to
 * right; of the float types that are no complex numbers. float16 and bfloat16 are added up in
 * float32 and rounded once. A NaN in the result is the one quiet NaN. dst may be one of src,
 * exactly.
 */
void tt_reduce_weigh(void *dst, const void *const *src, const double *weight, int n, size_t count,
		     enum tutti_datatype datatype);
bool tt_reduce_weighs(enum tutti_datatype datatype);

/* For tests and measurements: the kernels of another level than the best that this CPU has. */
enum tt_reduce_level {
	TT_REDUCE_TRUTH,
	TT_REDUCE_BASE, /* vectors of 16 bytes, as the compiler makes them for any CPU of the family
			 */
	TT_REDUCE_AVX2,
	TT_REDUCE_AVX512,
	TT_REDUCE_LEVELS
};
bool tt_reduce_use(enum tt_reduce_level level); /* from now on; false: not here */
enum tt_reduce_level tt_reduce_best(void);
enum tt_reduce_level tt_reduce_level(void); /* the level in use */
/* lib/verify/reduce_reference.c: makes TT_REDUCE_TRUTH known. */
void tt_reduce_add_reference(void);

#endif
