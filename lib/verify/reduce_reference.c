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
	return t == TUTTI_INT8 || t == TUTTI_INT16 || t == TUTTI_INT32 || t == TUTTI_INT64;
}

static bool is_single(enum tutti_datatype t)
{
	return t == TUTTI_FLOAT16 || t == TUTTI_BFLOAT16 || t == TUTTI_FLOAT32;
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
	else if (tutti_datatype_size(t) == 2)
		v.u = t == TUTTI_INT16 ? (uint64_t)(int16_t)raw.h : raw.h;
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
	} else if (tutti_datatype_size(t) == 2) {
		h = (uint16_t)v.u;
		memcpy(p, &h, sizeof(h));
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
	case TUTTI_LAND:
		return x.u && y.u;
	case TUTTI_LOR:
		return x.u || y.u;
	case TUTTI_LXOR:
		return !x.u != !y.u;
	default:
		return x.u + y.u;
	}
}

#define COMBINE(type, nan)                                                                         \
	static type combine_##type(enum tutti_op op, type x, type y)                               \
	{                                                                                          \
		if (x != x || y != y)                                                              \
			return nan;                                                                \
		switch (op) {                                                                      \
		case TUTTI_PROD:                                                                   \
			return x * y;                                                              \
		case TUTTI_MIN:                                                                    \
			return y < x ? y : x;                                                      \
		case TUTTI_MAX:                                                                    \
			return y > x ? y : x;                                                      \
		default:                                                                           \
			return x + y;                                                              \
		}                                                                                  \
	}
COMBINE(float, __builtin_nanf(""))
COMBINE(double, __builtin_nan(""))

static union value combine(enum tutti_datatype t, enum tutti_op op, union value x, union value y)
{
	if (t == TUTTI_FLOAT64)
		x.d = combine_double(op, x.d, y.d);
	else if (is_single(t))
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
	} else if (is_single(t)) {
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
	else if (is_single(t) && x.f != x.f)
		x.f = __builtin_nanf("");
	return x;
}

/* ---- elements of two values: complex numbers and value-index pairs ---- */

struct two {
	union value re, im; /* or value and index */
};

/* Of one half of the element. */
static enum tutti_datatype half_type(enum tutti_datatype t, bool second)
{
	switch (t) {
	case TUTTI_COMPLEX64:
		return TUTTI_FLOAT32;
	case TUTTI_COMPLEX128:
		return TUTTI_FLOAT64;
	case TUTTI_FLOAT32_INDEX:
		return second ? TUTTI_INT32 : TUTTI_FLOAT32;
	case TUTTI_FLOAT64_INDEX:
		return second ? TUTTI_INT64 : TUTTI_FLOAT64;
	default:
		return t == TUTTI_INT32_INDEX ? TUTTI_INT32 : TUTTI_INT64;
	}
}

static struct two load_two(enum tutti_datatype t, const char *p)
{
	size_t half = tutti_datatype_size(t) / 2;

	return (struct two){load(half_type(t, false), p), load(half_type(t, true), p + half)};
}

static void store_two(enum tutti_datatype t, char *p, struct two x)
{
	store(half_type(t, false), p, x.re);
	store(half_type(t, true), p + tutti_datatype_size(t) / 2, x.im);
}

/* As a schoolbook writes it: infinities and NaNs are not repaired. */
static struct two times(enum tutti_datatype t, struct two x, struct two y)
{
	struct two r = {{0}, {0}};

	if (t == TUTTI_COMPLEX64) {
		r.re.f = x.re.f * y.re.f - x.im.f * y.im.f;
		r.im.f = x.re.f * y.im.f + x.im.f * y.re.f;
	} else {
		r.re.d = x.re.d * y.re.d - x.im.d * y.im.d;
		r.im.d = x.re.d * y.im.d + x.im.d * y.re.d;
	}
	return r;
}

/* Whether y takes x's place. A NaN is before every number. */
static bool y_first(enum tutti_datatype t, enum tutti_op op, struct two x, struct two y)
{
	bool less, more, nan_x = false, nan_y = false;

	if (t == TUTTI_FLOAT32_INDEX || t == TUTTI_FLOAT64_INDEX) {
		double a = t == TUTTI_FLOAT32_INDEX ? (double)x.re.f : x.re.d;
		double b = t == TUTTI_FLOAT32_INDEX ? (double)y.re.f : y.re.d;

		nan_x = a != a;
		nan_y = b != b;
		less = b < a;
		more = b > a;
	} else {
		less = y.re.i < x.re.i;
		more = y.re.i > x.re.i;
	}
	if (nan_x != nan_y)
		return nan_y;
	if (less != more)
		return op == TUTTI_MINLOC ? less : more;
	return y.im.i < x.im.i;
}

static struct two combine_two(enum tutti_datatype t, enum tutti_op op, struct two x, struct two y)
{
	enum tutti_datatype half = half_type(t, false);

	if (op == TUTTI_MINLOC || op == TUTTI_MAXLOC)
		return y_first(t, op, x, y) ? y : x;
	if (op == TUTTI_PROD)
		return times(t, x, y);
	return (struct two){combine(half, op, x.re, y.re), combine(half, op, x.im, y.im)};
}

static void reduce_two(const struct tt_reduce_job *job, enum tutti_datatype t)
{
	enum tutti_datatype re = half_type(t, false), im = half_type(t, true);
	size_t at, size = tutti_datatype_size(t);
	struct two x;
	int k;

	for (at = job->from; at < job->to; at += size) {
		x = load_two(t, (const char *)job->src[0] + at);
		for (k = 1; k < job->nsrc; k++)
			x = combine_two(t, job->op, x, load_two(t, (const char *)job->src[k] + at));
		if (job->divide_by) {
			x.re = divide(re, x.re, job->divide_by);
			x.im = divide(im, x.im, job->divide_by);
		}
		x.re = canonical(re, x.re);
		x.im = canonical(im, x.im);
		for (k = 0; k < job->ndst; k++)
			store_two(t, (char *)job->dst[k] + at, x);
	}
}

static void reduce(const struct tt_reduce_job *job, enum tutti_datatype t)
{
	union value x;
	size_t at, size = tutti_datatype_size(t);
	int k;

	if (t >= TUTTI_COMPLEX64) {
		reduce_two(job, t);
		return;
	}
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

void tt_reduce_add_reference(void)
{
	static const struct tt_kernels truth = {
		.weigh = tt_weigh_reference, .mix = tt_mix_reference, .xxh = tt_xxh_base};

	tt_reduce_truth = reduce;
	tt_kernels_truth = &truth;
}
