/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels that reduce.c chooses from, one set per instruction level. */
#ifndef TT_KERNELS_H
#define TT_KERNELS_H

#include <stdint.h>

#include "lib/reduce/reduce.h"

/* The arguments of tt_reduce_multi, for the bytes from `from` to `to` of every buffer. */
struct tt_reduce_job {
	void *const *dst;
	const void *const *src;
	int ndst, nsrc;
	size_t from, to;
	enum tutti_op op;
	int divide_by;
	bool stream; /* store around the cache; every dst + from is aligned to TT_REDUCE_LINE */
};

#define TT_REDUCE_LINE 64

typedef void tt_kernel_fn(const struct tt_reduce_job *job);

/* The arguments of tt_reduce_weigh. */
struct tt_weigh_job {
	void *dst;
	const void *const *src;
	const double *weight;
	int n;
	size_t bytes; /* of each vector */
	enum tutti_datatype datatype;
};

typedef void tt_weigh_fn(const struct tt_weigh_job *job);

/* The arguments of the functions of mix.h, in their order. */
struct tt_mix_job {
	enum { TT_MIX_DIFFER, TT_MIX_EXCHANGE, TT_MIX_HALVE, TT_MIX_GATHER } what;
	void *p[3];
	double weight;
	size_t count;
	enum tutti_datatype datatype;
	unsigned flags;
};

typedef void tt_mix_fn(const struct tt_mix_job *job);

typedef uint64_t tt_xxh_fn(const void *data, size_t len, uint64_t seed);

tt_xxh_fn tt_xxh_base;
tt_xxh_fn tt_xxh_avx2;	 /* only with TT_HAVE_AVX2 */
tt_xxh_fn tt_xxh_avx512; /* only with TT_HAVE_AVX512 */

struct tt_kernels {
	tt_kernel_fn *of[TUTTI_NUM_DATATYPES]; /* each has all operators of its datatype */
	tt_weigh_fn *weigh;
	tt_mix_fn *mix;
	tt_xxh_fn *xxh;
};

extern const struct tt_kernels tt_kernels_base;
extern const struct tt_kernels tt_kernels_avx2;	  /* only with TT_HAVE_AVX2 */
extern const struct tt_kernels tt_kernels_avx512; /* only with TT_HAVE_AVX512 */

/* TT_REDUCE_TRUTH, for every datatype; NULL without tt_reduce_add_reference. */
typedef void tt_reduce_truth_fn(const struct tt_reduce_job *job, enum tutti_datatype datatype);
extern tt_reduce_truth_fn *tt_reduce_truth;
extern const struct tt_kernels *tt_kernels_truth; /* without `of` */
tt_weigh_fn tt_weigh_reference;			  /* lib/verify */
tt_mix_fn tt_mix_reference;

/* Of the level in use. */
const struct tt_kernels *tt_reduce_kernels(void);

#endif
