/* SPDX-License-Identifier: BSD-3-Clause */
/* The passes over a vector of sparse codecs. Included by codec_vector.c. */

INLINE bool is_finite(float x)
{
	return (tt_f32_bits(x) & 0x7fffffff) < TT_CODEC_INF;
}

static bool all_finite(const float *in, const float *v, const float *u, float m, size_t n)
{
	vec_i32 bad = {0};
	vec_f32 p;
	size_t i;
	float x;
	int k;

	for (i = 0; i + WIDTH <= n; i += WIDTH) {
		p = load_f32(in + i);
		if (u)
			p = m * load_f32(u + i) + p;
		if (v)
			p = load_f32(v + i) + p;
		bad |= not_finite(p);
	}
	for (k = 0; k < WIDTH; k++)
		if (bad[k])
			return false;
	for (; i < n; i++) {
		x = u ? m * u[i] + in[i] : in[i];
		if (!is_finite(v ? v[i] + x : x))
			return false;
	}
	return true;
}

static void advance(const float *in, float *v, float *u, float m, size_t n)
{
	vec_f32 x;
	size_t i;

	for (i = 0; i + WIDTH <= n; i += WIDTH) {
		x = load_f32(in + i);
		if (u) {
			x = m * load_f32(u + i) + x;
			store_f32(u + i, x);
		}
		store_f32(v + i, load_f32(v + i) + x);
	}
	for (; i < n; i++) {
		if (u)
			u[i] = m * u[i] + in[i];
		v[i] += u ? u[i] : in[i];
	}
}

static size_t gather(const float *p, size_t at, size_t n, uint32_t least, uint64_t *keys,
		     size_t room, size_t *got)
{
	size_t k = 0, i;
	vec_i32 x[VECS];
	unsigned bits;
	uint32_t m;
	int v;

	for (; at + GROUP <= n && k + GROUP <= room; at += GROUP) {
		for (EACH(v))
			x[v] = magnitudes(load_f32(p + at + (size_t)v * WIDTH)) >= (int32_t)least;
		for (bits = sign_bits(x); bits; bits &= bits - 1) {
			i = at + (size_t)__builtin_ctz(bits);
			keys[k++] = tt_codec_sort_key(tt_f32_bits(p[i]) & 0x7fffffff, i);
		}
	}
	for (; at < n && k < room; at++) {
		m = tt_f32_bits(p[at]) & 0x7fffffff;
		if (m >= least)
			keys[k++] = tt_codec_sort_key(m, at);
	}
	*got = k;
	return at;
}
