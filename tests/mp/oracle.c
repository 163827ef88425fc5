/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The expected result of an all-reduce, bit for bit. The ring combines block b of n as (((x[b+1] .
 * x[b+2]) . x[b+3]) ...) . x[b], rounding to the element's type at every hop; an average is
 * divided at the end, which is one step with the last sum where 16-bit floats are rounded. The
 * arithmetic here shares nothing with lib/reduce.
 */
#include <complex.h>
#include <math.h>

#include "tests/mp/job.h"

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static uint64_t draw(unsigned seed, int rank, size_t i)
{
	return mix((uint64_t)seed << 40 ^ (uint64_t)rank << 32 ^ i * 0x9e3779b97f4a7c15ull);
}

/* Of either sign, magnitude in [0.5, 2): sums and products of a few stay finite in every type. */
static double draw_real(uint64_t h)
{
	double m = 0.5 + (double)(h >> 12) * 0x1p-52 * 1.5;

	return h & 1 ? -m : m;
}

/* ---- 16-bit floats through double: nearest even ---- */

static double half_value(uint16_t h)
{
	int exp = h >> 10 & 31;
	double m = exp ? ldexp(1024 + (h & 1023), exp - 25) : ldexp(h & 1023, -24);

	if (exp == 31)
		m = h & 1023 ? NAN : INFINITY;
	return h & 0x8000 ? -m : m;
}

static uint16_t half_of(double v)
{
	uint16_t sign = signbit(v) ? 0x8000 : 0;
	double a = fabs(v);
	int exp;
	long m;

	if (a >= 65520)
		return sign | 0x7c00;
	frexp(a, &exp);
	exp = exp < -13 ? -13 : exp;
	m = lrint(ldexp(a, 11 - exp)); /* nearest even is the default rounding */
	if (m == 2048) {
		m = 1024;
		exp++;
	}
	return m < 1024 ? (uint16_t)(sign | m) : (uint16_t)(sign | (exp + 14) << 10 | (m - 1024));
}

static float bf_value(uint16_t h)
{
	uint32_t u = (uint32_t)h << 16;
	float f;

	memcpy(&f, &u, sizeof(f));
	return f;
}

/* Normal numbers only, which draw_real sees to. */
static uint16_t bf_of(float f)
{
	int exp;
	double m = frexp((double)f, &exp); /* 0.5 <= |m| < 1: 8 significant bits are kept */
	float r = (float)ldexp(nearbyint(m * 256), exp - 8);
	uint32_t u;

	memcpy(&u, &r, sizeof(u));
	return (uint16_t)(u >> 16);
}

/* ---- input ---- */

#define FILL(type, expr)                                                                           \
	for (i = 0; i < count; i++) {                                                              \
		uint64_t h = draw(seed, rank, from + i);                                           \
                                                                                                   \
		type value = expr;                                                                 \
                                                                                                   \
		((type *)buf)[i] = value;                                                          \
	}                                                                                          \
	break

static double draw_exact(uint64_t h)
{
	static const double value[] = {-2, -1, 1, 2};

	return value[h >> 20 & 3];
}

/*
 * 2 + i, turned by some right angles: no product of such numbers has a part of 0, whose sign would
 * depend on the order.
 */
static double complex draw_complex(uint64_t h)
{
	static const double part[] = {2, 1, -2, -1};

	return CMPLX(part[h >> 9 & 3], part[((h >> 9) + 1) & 3]);
}

/* A pair of few values, so that many are equal and the index decides. */
#define DRAW_PAIR(h) (int)((h) % 3) - 1, (int)((h) >> 16 & 1023)

static void fill_two(enum tutti_datatype type, unsigned seed, int rank, size_t from, size_t count,
		     void *buf)
{
	size_t i;

	switch (type) {
	case TUTTI_COMPLEX64:
		FILL(float complex, (float complex)draw_complex(h));
	case TUTTI_COMPLEX128:
		FILL(double complex, draw_complex(h));
	case TUTTI_INT32_INDEX:
		FILL(struct tutti_int32_index, ((struct tutti_int32_index){DRAW_PAIR(h)}));
	case TUTTI_INT64_INDEX:
		FILL(struct tutti_int64_index, ((struct tutti_int64_index){DRAW_PAIR(h)}));
	case TUTTI_FLOAT32_INDEX:
		FILL(struct tutti_float32_index, ((struct tutti_float32_index){DRAW_PAIR(h)}));
	case TUTTI_FLOAT64_INDEX:
		FILL(struct tutti_float64_index, ((struct tutti_float64_index){DRAW_PAIR(h)}));
	default:
		break;
	}
}

/* Elements from .. from + count of rank's input. */
static void fill_part(enum tutti_datatype type, unsigned seed, int rank, size_t from, size_t count,
		      void *buf)
{
	size_t i;

	switch (type) {
	case TUTTI_INT8:
	case TUTTI_UINT8:
		FILL(uint8_t, h);
	case TUTTI_BOOL:
		FILL(uint8_t, h & 3 ? 0 : h >> 8);
	case TUTTI_INT16:
	case TUTTI_UINT16:
		FILL(uint16_t, h);
	case TUTTI_INT32:
	case TUTTI_UINT32:
		FILL(uint32_t, h);
	case TUTTI_INT64:
	case TUTTI_UINT64:
		FILL(uint64_t, h);
	case TUTTI_FLOAT16:
		FILL(uint16_t, half_of(draw_real(h)));
	case TUTTI_BFLOAT16:
		FILL(uint16_t, bf_of((float)draw_real(h)));
	case TUTTI_FLOAT32:
		FILL(float, draw_real(h));
	case TUTTI_FLOAT64:
		FILL(double, draw_real(h));
	default:
		fill_two(type, seed, rank, from, count, buf);
	}
}

void mp_fill(enum tutti_datatype type, unsigned seed, int rank, size_t count, void *buf)
{
	fill_part(type, seed, rank, 0, count, buf);
}

/* ---- combining ---- */

#define EACH(type, expr)                                                                           \
	for (i = 0; i < count; i++) {                                                              \
		type x = ((const type *)a)[i], y = ((const type *)b)[i];                           \
                                                                                                   \
		((type *)a)[i] = (type)(expr);                                                     \
	}                                                                                          \
	return

/* a = a . b; w is the unsigned type, where overflow is defined. */
#define INT_COMBINE(name, type, w)                                                                 \
	static void name(void *a, const void *b, enum tutti_op op, size_t count)                   \
	{                                                                                          \
		size_t i;                                                                          \
                                                                                                   \
		switch (op) {                                                                      \
		case TUTTI_PROD:                                                                   \
			EACH(type, (w)x *(w)y);                                                    \
		case TUTTI_MIN:                                                                    \
			EACH(type, x < y ? x : y);                                                 \
		case TUTTI_MAX:                                                                    \
			EACH(type, x > y ? x : y);                                                 \
		case TUTTI_BAND:                                                                   \
			EACH(type, x &y);                                                          \
		case TUTTI_BOR:                                                                    \
			EACH(type, x | y);                                                         \
		case TUTTI_BXOR:                                                                   \
			EACH(type, x ^ y);                                                         \
		case TUTTI_LAND:                                                                   \
			EACH(type, x &&y);                                                         \
		case TUTTI_LOR:                                                                    \
			EACH(type, x || y);                                                        \
		case TUTTI_LXOR:                                                                   \
			EACH(type, !x != !y);                                                      \
		default:                                                                           \
			EACH(type, (w)x + (w)y);                                                   \
		}                                                                                  \
	}
INT_COMBINE(i8_combine, int8_t, unsigned)
INT_COMBINE(u8_combine, uint8_t, unsigned)
INT_COMBINE(i16_combine, int16_t, unsigned)
INT_COMBINE(u16_combine, uint16_t, unsigned)
INT_COMBINE(i32_combine, int32_t, uint32_t)
INT_COMBINE(u32_combine, uint32_t, uint32_t)
INT_COMBINE(i64_combine, int64_t, uint64_t)
INT_COMBINE(u64_combine, uint64_t, uint64_t)

/* get and put convert to and from the type computed in, c. */
#define FLOAT_COMBINE(name, type, c, get, put)                                                     \
	static void name(void *a, const void *b, enum tutti_op op, size_t count)                   \
	{                                                                                          \
		size_t i;                                                                          \
                                                                                                   \
		for (i = 0; i < count; i++) {                                                      \
			c x = get(((const type *)a)[i]), y = get(((const type *)b)[i]), r;         \
                                                                                                   \
			r = op == TUTTI_PROD  ? x * y                                              \
			    : op == TUTTI_MIN ? (x < y ? x : y)                                    \
			    : op == TUTTI_MAX ? (x > y ? x : y)                                    \
					      : x + y;                                             \
			((type *)a)[i] = put(r);                                                   \
		}                                                                                  \
	}
FLOAT_COMBINE(f16_combine, uint16_t, float, (float)half_value, half_of)
FLOAT_COMBINE(bf16_combine, uint16_t, float, bf_value, bf_of)
FLOAT_COMBINE(f32_combine, float, float, , )
FLOAT_COMBINE(f64_combine, double, double, , )

/* Sums and products of complex numbers. The values are small: every result is exact. */
#define COMPLEX_COMBINE(name, type)                                                                \
	static void name(void *a, const void *b, enum tutti_op op, size_t count)                   \
	{                                                                                          \
		size_t i;                                                                          \
                                                                                                   \
		EACH(type, op == TUTTI_PROD ? x * y : x + y);                                      \
	}
COMPLEX_COMBINE(c64_combine, float complex)
COMPLEX_COMBINE(c128_combine, double complex)

#define PAIR_COMBINE(name, type)                                                                   \
	static void name(void *a, const void *b, enum tutti_op op, size_t count)                   \
	{                                                                                          \
		const type *y = b;                                                                 \
		type *x = a;                                                                       \
		size_t i;                                                                          \
		bool take;                                                                         \
                                                                                                   \
		for (i = 0; i < count; i++) {                                                      \
			take = op == TUTTI_MINLOC ? y[i].value < x[i].value                        \
						  : y[i].value > x[i].value;                       \
			if (take || (y[i].value == x[i].value && y[i].index < x[i].index))         \
				x[i] = y[i];                                                       \
		}                                                                                  \
	}
PAIR_COMBINE(i32x_combine, struct tutti_int32_index)
PAIR_COMBINE(i64x_combine, struct tutti_int64_index)
PAIR_COMBINE(f32x_combine, struct tutti_float32_index)
PAIR_COMBINE(f64x_combine, struct tutti_float64_index)

typedef void combine_fn(void *a, const void *b, enum tutti_op op, size_t count);
static combine_fn *const combine[TUTTI_NUM_DATATYPES] = {
	i8_combine,   u8_combine,   i16_combine,  u16_combine,	i32_combine,
	u32_combine,  i64_combine,  u64_combine,  u8_combine,	f16_combine,
	bf16_combine, f32_combine,  f64_combine,  c64_combine,	c128_combine,
	i32x_combine, i64x_combine, f32x_combine, f64x_combine,
};

#define DIVIDE(type, expr)                                                                         \
	for (i = 0; i < count; i++) {                                                              \
		type x = ((type *)a)[i];                                                           \
                                                                                                   \
		((type *)a)[i] = (type)(expr);                                                     \
	}                                                                                          \
	break

static void divide(void *a, enum tutti_datatype type, int n, size_t count)
{
	size_t i;

	switch (type) {
	case TUTTI_INT8:
		DIVIDE(int8_t, x / n);
	case TUTTI_UINT8:
		DIVIDE(uint8_t, x / n);
	case TUTTI_INT16:
		DIVIDE(int16_t, x / n);
	case TUTTI_UINT16:
		DIVIDE(uint16_t, x / n);
	case TUTTI_COMPLEX64:
		DIVIDE(float complex, CMPLXF(crealf(x) / (float)n, cimagf(x) / (float)n));
	case TUTTI_COMPLEX128:
		DIVIDE(double complex, CMPLX(creal(x) / n, cimag(x) / n));
	case TUTTI_INT32:
		DIVIDE(int32_t, x / n);
	case TUTTI_UINT32:
		DIVIDE(uint32_t, x / (uint32_t)n);
	case TUTTI_INT64:
		DIVIDE(int64_t, x / n);
	case TUTTI_UINT64:
		DIVIDE(uint64_t, x / (uint64_t)n);
	case TUTTI_FLOAT16:
		DIVIDE(uint16_t, half_of((float)half_value(x) / (float)n));
	case TUTTI_BFLOAT16:
		DIVIDE(uint16_t, bf_of(bf_value(x) / (float)n));
	case TUTTI_FLOAT32:
		DIVIDE(float, x / (float)n);
	case TUTTI_FLOAT64:
		DIVIDE(double, x / n);
	default:
		break;
	}
}

/* a = (a + b) / n of 16-bit floats, which are rounded once: then true. */
static bool last_of_average(void *a, const void *b, enum tutti_datatype type, int n, size_t count)
{
	uint16_t *x = a;
	const uint16_t *y = b;
	size_t i;

	for (i = 0; i < count && type == TUTTI_FLOAT16; i++)
		x[i] = half_of((float)(half_value(x[i]) + half_value(y[i])) / (float)n);
	for (i = 0; i < count && type == TUTTI_BFLOAT16; i++)
		x[i] = bf_of((bf_value(x[i]) + bf_value(y[i])) / (float)n);
	return type == TUTTI_FLOAT16 || type == TUTTI_BFLOAT16;
}

bool mp_op_valid(enum tutti_datatype type, enum tutti_op op)
{
	if (op == TUTTI_MINLOC || op == TUTTI_MAXLOC)
		return type >= TUTTI_INT32_INDEX;
	if (type < TUTTI_BOOL)
		return true;
	if (type == TUTTI_BOOL)
		return op >= TUTTI_LAND && op <= TUTTI_LXOR;
	if (type < TUTTI_COMPLEX64)
		return op <= TUTTI_AVG;
	return type < TUTTI_INT32_INDEX && (op == TUTTI_SUM || op == TUTTI_PROD || op == TUTTI_AVG);
}

enum tutti_op mp_op_of(enum tutti_datatype type, enum tutti_op op)
{
	if (mp_op_valid(type, op))
		return op;
	if (mp_op_valid(type, TUTTI_SUM))
		return TUTTI_SUM;
	return type == TUTTI_BOOL ? TUTTI_LOR : TUTTI_MAXLOC;
}

/* Blocks are as even as whole elements allow, the longer ones first. */
static size_t block_begin(size_t count, int n, int b)
{
	size_t q = count / (size_t)n, r = count % (size_t)n;

	return q * (size_t)b + ((size_t)b < r ? (size_t)b : r);
}

void mp_allreduce_expect(enum tutti_datatype type, enum tutti_op op, unsigned seed, int n,
			 size_t count, void *out)
{
	size_t size = tutti_datatype_size(type), from, len;
	char *x = malloc(count * size + 1), *acc;
	int b, k;

	for (k = 1; k <= n; k++) {
		/* in step k block b combines the operand of rank b + k */
		for (b = 0; b < n; b++) {
			from = block_begin(count, n, b);
			len = block_begin(count, n, b + 1) - from;
			acc = (char *)out + from * size;
			fill_part(type, seed, (b + k) % n, from, len, k == 1 ? acc : x);
			if (k > 1 && k == n && op == TUTTI_AVG &&
			    last_of_average(acc, x, type, n, len))
				continue;
			if (k > 1)
				combine[type](acc, x, op, len);
			if (k == n && op == TUTTI_AVG)
				divide(acc, type, n, len);
		}
	}
	free(x);
}

void mp_fill_exact(enum tutti_datatype type, unsigned seed, int rank, size_t from, size_t count,
		   void *buf)
{
	size_t i;

	switch (type) {
	case TUTTI_FLOAT16:
		FILL(uint16_t, half_of(draw_exact(h)));
	case TUTTI_BFLOAT16:
		FILL(uint16_t, bf_of((float)draw_exact(h)));
	case TUTTI_FLOAT32:
		FILL(float, draw_exact(h));
	case TUTTI_FLOAT64:
		FILL(double, draw_exact(h));
	default: /* integers wrap around */
		fill_part(type, seed, rank, from, count, buf);
	}
}

void mp_combine(enum tutti_datatype type, enum tutti_op op, void *a, const void *b, size_t count)
{
	combine[type](a, b, op, count);
}

void mp_reduce_expect(enum tutti_datatype type, enum tutti_op op, unsigned seed, int first,
		      int last, int n, size_t from, size_t count, void *out)
{
	char *x = malloc(count * tutti_datatype_size(type) + 1);
	int rank;

	mp_fill_exact(type, seed, first, from, count, out);
	for (rank = first + 1; rank <= last; rank++) {
		mp_fill_exact(type, seed, rank, from, count, x);
		combine[type](out, x, op, count);
	}
	if (op == TUTTI_AVG)
		divide(out, type, n, count);
	free(x);
}
