/* SPDX-License-Identifier: BSD-3-Clause */
/* Casts to 16 and 8 bits, by groups. Included by codec_vector.c. */

/* Of a group: the encoding, and back. */
typedef void narrow_fn(const vec_f32 *x, unsigned char *out);
typedef void widen_fn(const unsigned char *in, vec_f32 *x);

INLINE vec_i32 not_finite(vec_f32 x)
{
	return magnitudes(x) >= (int32_t)TT_CODEC_INF;
}

INLINE vec_f32 limit(vec_f32 x, float most)
{
	vec_f32 top = (vec_f32){0} + most;

	x = pick(x > top, top, x);
	return pick(x < -top, -top, x);
}

/* Finite, or the one NaN. */
INLINE vec_f32 prepare(vec_f32 x, float most)
{
	return pick(not_finite(x), (vec_f32)((vec_i32){0} + (int32_t)TT_CODEC_NAN), limit(x, most));
}

INLINE void narrow_fp16(const vec_f32 *x, unsigned char *out)
{
	int i;

	for (EACH(i))
		store_half(out + i * (TT_VEC / 2), narrow_f16(prepare(x[i], TT_FP16_MOST)));
}

INLINE void widen_fp16(const unsigned char *in, vec_f32 *x)
{
	int i;

	for (EACH(i))
		x[i] = widen_f16(load_half(in + i * (TT_VEC / 2)));
}

INLINE void narrow_to_bf16(const vec_f32 *x, unsigned char *out)
{
	int i;

	for (EACH(i))
		store_half(out + i * (TT_VEC / 2), narrow_bf16(prepare(x[i], TT_BF16_MOST)));
}

/* A signalling NaN, which only a foreign encoding has, becomes quiet, as in the reference. */
INLINE void widen_from_bf16(const unsigned char *in, vec_f32 *x)
{
	vec_f32 w;
	int i;

	for (EACH(i)) {
		w = widen_bf16(load_half(in + i * (TT_VEC / 2)));
		x[i] = pick(w == w, w, (vec_f32)((vec_i32)w | 0x400000));
	}
}

/* As the reference's narrow_fp8. */
INLINE vec_i32 narrow_fp8(vec_f32 x, const int mbits, const int bias, const float most,
			  const int nan)
{
	vec_i32 sign = (vec_i32)((vec_u32)x >> 24) & 0x80, bad = not_finite(x), u, mag;
	vec_f32 grid = (vec_f32)((vec_i32){0} + ((151 - bias - mbits) << 23)),
		top = (vec_f32){0} + most, low = (vec_f32)((vec_i32){0} + ((128 - bias) << 23)), m;

	m = (vec_f32)magnitudes(x);
	m = pick(m > top, top, m);
	u = (vec_i32)m;
	u = (u + ((1 << (22 - mbits)) - 1) + (u >> (23 - mbits) & 1)) >> (23 - mbits);
	mag = pick_int(m < low, (vec_i32)(m + grid) - (vec_i32)grid, u - ((127 - bias) << mbits));
	mag = pick_int(bad, (vec_i32){0} + nan, sign | mag);
	return (vec_i32)((vec_u32)mag << 24) >> 24; /* signed, for pack_bytes */
}

INLINE void narrow_e4m3(const vec_f32 *x, unsigned char *out)
{
	vec_i32 q[VECS];
	int i;

	for (EACH(i))
		q[i] = narrow_fp8(x[i], 3, 7, TT_E4M3_MOST, TT_E4M3_NAN);
	pack_bytes(q, out);
}

INLINE void narrow_e5m2(const vec_f32 *x, unsigned char *out)
{
	vec_i32 q[VECS];
	int i;

	for (EACH(i))
		q[i] = narrow_fp8(x[i], 2, 15, TT_E5M2_MOST, TT_E5M2_NAN);
	pack_bytes(q, out);
}

INLINE void widen_e4m3(const unsigned char *in, vec_f32 *x)
{
	vec_i32 b, mag, u;
	int i;

	for (EACH(i)) {
		b = unpack_bytes(in, i);
		mag = b & 0x7f;
		u = (mag << 20) + (120 << 23);
		u = pick_int(mag < 8, (vec_i32)(__builtin_convertvector(mag, vec_f32) * 0x1p-9f),
			     u);
		u = pick_int(mag == TT_E4M3_NAN, (vec_i32){0} + (int32_t)TT_CODEC_NAN, u);
		x[i] = (vec_f32)(u | (b & (int32_t)0x80000000));
	}
}

/* They are the upper bytes of 16-bit numbers; as there, a NaN becomes quiet. */
INLINE void widen_e5m2(const unsigned char *in, vec_f32 *x)
{
	vec_i32 b, mag, u;
	int i;

	for (EACH(i)) {
		b = unpack_bytes(in, i);
		mag = b & 0x7f;
		u = (mag << 21) + (112 << 23);
		u = pick_int(mag < 4, (vec_i32)(__builtin_convertvector(mag, vec_f32) * 0x1p-16f),
			     u);
		u = pick_int(mag >= 0x7c, 0x7f800000 | mag << 21, u);
		u = pick_int(mag > 0x7c, u | 0x400000, u);
		x[i] = (vec_f32)(u | (b & (int32_t)0x80000000));
	}
}

INLINE void narrow_group(narrow_fn *narrow, widen_fn *widen, const float *in, float *residual,
			 unsigned char *out)
{
	vec_f32 p[VECS], d[VECS], r;
	int i;

	for (EACH(i)) {
		p[i] = load_f32(in + i * WIDTH);
		if (residual)
			p[i] += load_f32(residual + i * WIDTH);
	}
	narrow(p, out);
	if (!residual)
		return;
	widen(out, d);
	for (EACH(i)) {
		r = load_f32(residual + i * WIDTH);
		store_f32(residual + i * WIDTH, pick(not_finite(p[i]), r, p[i] - d[i]));
	}
}

/* size: bytes of an encoded element. The last elements are made a group with zeros. */
INLINE void narrow_all(narrow_fn *narrow, widen_fn *widen, const size_t size, const float *in,
		       float *residual, unsigned char *out, size_t n)
{
	float x[GROUP] = {0}, r[GROUP] = {0};
	unsigned char q[2 * GROUP];
	size_t i;

	if (residual)
		for (i = 0; i + GROUP <= n; i += GROUP)
			narrow_group(narrow, widen, in + i, residual + i, out + i * size);
	else
		for (i = 0; i + GROUP <= n; i += GROUP)
			narrow_group(narrow, widen, in + i, NULL, out + i * size);
	if (i == n)
		return;
	memcpy(x, in + i, (n - i) * sizeof(*x));
	if (residual)
		memcpy(r, residual + i, (n - i) * sizeof(*r));
	narrow_group(narrow, widen, x, residual ? r : NULL, q);
	memcpy(out + i * size, q, (n - i) * size);
	if (residual)
		memcpy(residual + i, r, (n - i) * sizeof(*r));
}

INLINE void widen_groups(widen_fn *widen, const size_t size, const unsigned char *in, float *out,
			 size_t n, const bool add)
{
	vec_f32 x[VECS];
	size_t i;
	int k;

	for (i = 0; i < n; i += GROUP) {
		widen(in + i * size, x);
		for (EACH(k))
			put_vec(out + i + (size_t)k * WIDTH, x[k], add);
	}
}

INLINE void widen_all(widen_fn *widen, const size_t size, const unsigned char *in, float *out,
		      size_t n, bool add)
{
	size_t whole = n / GROUP * GROUP, rest = n - whole;
	unsigned char q[2 * GROUP] = {0};
	float x[GROUP] = {0};

	if (add)
		widen_groups(widen, size, in, out, whole, true);
	else
		widen_groups(widen, size, in, out, whole, false);
	if (!rest)
		return;
	memcpy(q, in + whole * size, rest * size);
	memcpy(x, out + whole, rest * sizeof(*x));
	widen_groups(widen, size, q, x, GROUP, add);
	memcpy(out + whole, x, rest * sizeof(*x));
}

#define CAST(name, size, narrow, widen)                                                            \
	static void narrow_all_##name(const float *in, float *residual, unsigned char *out,        \
				      size_t n)                                                    \
	{                                                                                          \
		narrow_all(narrow, widen, size, in, residual, out, n);                             \
	}                                                                                          \
	static void widen_all_##name(const unsigned char *in, float *out, size_t n, bool add)      \
	{                                                                                          \
		widen_all(widen, size, in, out, n, add);                                           \
	}
CAST(fp16, 2, narrow_fp16, widen_fp16)
CAST(bf16, 2, narrow_to_bf16, widen_from_bf16)
CAST(e4m3, 1, narrow_e4m3, widen_e4m3)
CAST(e5m2, 1, narrow_e5m2, widen_e5m2)
#undef CAST
