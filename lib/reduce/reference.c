/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reference that every kernel must match bit for bit: one element at a time, written as plainly
 * as possible. Integers are computed in 64 bits: for sums and products the low bits are those of
 * the narrower type, for other operators the value is the same. 16-bit floats are computed in
 * float32.
 */
#include "lib/reduce/half.h"
#include "lib/reduce/kernels.h"

union value {
	uint64_t u;
	int64_t i; /* the signed types: extended by the sign */
	float f;   /* float16, bfloat16 and float32 */
	double d;
};

static bool is_signed(enum tutti_datatype t)
{
	return t == TUTTI_INT8 || t == TUTTI_INT32 || t == TUTTI_INT64;
}

static union value load(enum tutti_datatype t, const void *p)
{
	union value v = {.u = 0};
	union {
		uint8_t b;
		uint16_t h;
		uint32_t w;
		uint64_t q;
	} raw;

	memcpy(&raw, p, tutti_datatype_size(t));
	if (t == TUTTI_FLOAT16)
		v.f = tt_half_widen(raw.h);
	else if (t == TUTTI_BFLOAT16)
		v.f = tt_bfloat_widen(raw.h);
	else if (tutti_datatype_size(t) == 8)
		v.u = raw.q;
	else if (tutti_datatype_size(t) == 4)
		v.u = t == TUTTI_INT32 ? (uint64_t)(int32_t)raw.w : raw.w;
	else
		v.u = t == TUTTI_INT8 ? (uint64_t)(int8_t)raw.b : raw.b;
	return v;
}

static void store(enum tutti_datatype t, void *p, union value v)
{
	uint16_t h;
	uint32_t w = (uint32_t)v.u;
	uint8_t b = (uint8_t)v.u;

	if (t == TUTTI_FLOAT16 || t == TUTTI_BFLOAT16) {
		h = t == TUTTI_FLOAT16 ? tt_half_narrow(v.f) : tt_bfloat_narrow(v.f);
		memcpy(p, &h, sizeof(h));
	} else if (tutti_datatype_size(t) == 8) {
		memcpy(p, &v, sizeof(v));
	} else if (tutti_datatype_size(t) == 4) {
		memcpy(p, t == TUTTI_FLOAT32 ? (void *)&v.f : (void *)&w, sizeof(w));
	} else {
		memcpy(p, &b, sizeof(b));
	}
}

static uint64_t combine_int(enum tutti_op op, bool sign, union value x, union value y)
{
	bool less = sign ? y.i < x.i : y.u < x.u, more = sign ? y.i > x.i : y.u > x.u;

	switch (op) {
	case TUTTI_PROD:
		return x.u * y.u;
	case TUTTI_MIN:
		return less ? y.u : x.u;
	case TUTTI_MAX:
		return more ? y.u : x.u;
	case TUTTI_BAND:
		return x.u & y.u;
	case TUTTI_BOR:
		return x.u | y.u;
	case TUTTI_BXOR:
		return x.u ^ y.u;
	default:
		return x.u + y.u;
	}
}

static float combine_float(enum tutti_op op, float x, float y)
{
	if (x != x || y != y)
		return __builtin_nanf("");
	switch (op) {
	case TUTTI_PROD:
		return x * y;
	case TUTTI_MIN:
		return y < x ? y : x;
	case TUTTI_MAX:
		return y > x ? y : x;
	default:
		return x + y;
	}
}

static double combine_double(enum tutti_op op, double x, double y)
{
	if (x != x || y != y)
		return __builtin_nan("");
	switch (op) {
	case TUTTI_PROD:
		return x * y;
	case TUTTI_MIN:
		return y < x ? y : x;
	case TUTTI_MAX:
		return y > x ? y : x;
	default:
		return x + y;
	}
}

static union value combine(enum tutti_datatype t, enum tutti_op op, union value x, union value y)
{
	if (t == TUTTI_FLOAT64)
		x.d = combine_double(op, x.d, y.d);
	else if (t >= TUTTI_FLOAT16)
		x.f = combine_float(op, x.f, y.f);
	else
		x.u = combine_int(op, is_signed(t), x, y);
	return x;
}

/*
 * Of an integer, which comes from a sum, only the bits of its type count; the quotient is cut off.
 */
static union value divide(enum tutti_datatype t, union value x, int n)
{
	char cut[8];

	if (t == TUTTI_FLOAT64) {
		x.d /= n;
	} else if (t >= TUTTI_FLOAT16) {
		x.f /= (float)n;
	} else {
		store(t, cut, x);
		x = load(t, cut);
		if (is_signed(t))
			x.i /= n;
		else
			x.u /= (uint64_t)n;
	}
	return x;
}

/* There is one NaN: which of two operands' survives depends on the compiler. */
static union value canonical(enum tutti_datatype t, union value x)
{
	if (t == TUTTI_FLOAT64 && x.d != x.d)
		x.d = __builtin_nan("");
	else if (t >= TUTTI_FLOAT16 && t != TUTTI_FLOAT64 && x.f != x.f)
		x.f = __builtin_nanf("");
	return x;
}

void tt_reduce_truth(const struct tt_reduce_job *job, enum tutti_datatype t)
{
	union value x;
	size_t at, size = tutti_datatype_size(t);
	int k;

	for (at = job->from; at < job->to; at += size) {
		x = load(t, (const char *)job->src[0] + at);
		for (k = 1; k < job->nsrc; k++)
			x = combine(t, job->op, x, load(t, (const char *)job->src[k] + at));
		if (job->divide_by)
			x = divide(t, x, job->divide_by);
		x = canonical(t, x);
		for (k = 0; k < job->ndst; k++)
			store(t, (char *)job->dst[k] + at, x);
	}
}
