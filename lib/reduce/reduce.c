/* SPDX-License-Identifier: BSD-3-Clause */
/* Choice of the kernels for this CPU, and the names of datatypes and operators. */
#include "config.h"
#include "lib/reduce/reduce.h"

#include "lib/reduce/half.h"
#include "lib/reduce/kernels.h"

static const struct tt_kernels *best(void)
{
#ifdef TT_HAVE_AVX2
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c"))
		return &tt_kernels_avx2;
#endif
	return &tt_kernels_scalar;
}

static tt_reduce_fn *look_up(const struct tt_kernels *k, unsigned datatype, unsigned op)
{
	return datatype < TUTTI_NUM_DATATYPES && op < TUTTI_NUM_OPS ? k->op[datatype][op] : NULL;
}

tt_reduce_fn *tt_reduce_get(enum tutti_datatype datatype, enum tutti_op op)
{
	return look_up(best(), datatype, op);
}

tt_reduce_fn *tt_reduce_scalar(enum tutti_datatype datatype, enum tutti_op op)
{
	return look_up(&tt_kernels_scalar, datatype, op);
}

bool tt_reduce_valid(enum tutti_datatype datatype, enum tutti_op op)
{
	return look_up(&tt_kernels_scalar, datatype, op) != NULL;
}

void tt_reduce_multi(void *const *dst, int ndst, const void *const *src, int nsrc, size_t count,
		     enum tutti_datatype datatype, enum tutti_op op, int divide_by, unsigned flags)
{
	tt_reduce_truth(dst, ndst, src, nsrc, count, datatype, op, divide_by);
}

void tt_reduce_divide(void *dst, const void *src, size_t count, enum tutti_datatype datatype, int n)
{
	best()->divide[datatype](dst, src, count, n);
}

void tt_reduce_scale(void *dst, const void *src, size_t count, enum tutti_datatype datatype,
		     const void *scalar)
{
	best()->scale[datatype](dst, src, count, scalar);
}

void tt_reduce_scale_scalar(void *dst, const void *src, size_t count, enum tutti_datatype datatype,
			    const void *scalar)
{
	tt_kernels_scalar.scale[datatype](dst, src, count, scalar);
}

float tt_f16_to_f32(uint16_t h)
{
	return tt_half_widen(h);
}

uint16_t tt_f32_to_f16(float f)
{
	return tt_half_narrow(f);
}

float tt_bf16_to_f32(uint16_t h)
{
	return tt_bfloat_widen(h);
}

uint16_t tt_f32_to_bf16(float f)
{
	return tt_bfloat_narrow(f);
}

const char *tt_datatype_name(enum tutti_datatype datatype)
{
	static const char *const names[] = {"int8",   "uint8",	 "int32",    "uint32",	"int64",
					    "uint64", "float16", "bfloat16", "float32", "float64"};

	return (unsigned)datatype < TUTTI_NUM_DATATYPES ? names[datatype] : "invalid";
}

const char *tt_op_name(enum tutti_op op)
{
	static const char *const names[] = {"sum", "prod", "min", "max",
					    "avg", "band", "bor", "bxor"};

	return (unsigned)op < TUTTI_NUM_OPS ? names[op] : "invalid";
}
