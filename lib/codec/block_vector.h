/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Codecs of blocks that share a scale, by groups. Included by codec_vector.c. A block whose length
 * is no multiple of a group is made one with zeros, which change no maximum and no sum.
 */

/* A block: its elements, in place or in own, and the groups that they are. */
struct block {
	const float *p;
	size_t n, groups;
	float own[TT_CODEC_BLOCK_MAX];
};

INLINE void load_block(struct block *b, const float *in, const float *residual, size_t n)
{
	size_t i, whole = n / GROUP * GROUP;

	b->n = n;
	b->groups = (n + GROUP - 1) / GROUP;
	b->p = residual || whole < n ? b->own : in;
	if (residual)
		for (i = 0; i < whole; i += WIDTH)
			store_f32(b->own + i, load_f32(in + i) + load_f32(residual + i));
	else if (whole < n)
		memcpy(b->own, in, whole * sizeof(*in));
	if (whole == n)
		return;
	memset(b->own + whole, 0, GROUP * sizeof(*in));
	for (i = whole; i < n; i++)
		b->own[i] = residual ? in[i] + residual[i] : in[i];
}

INLINE void load_group(const struct block *b, size_t g, vec_f32 *x)
{
	int i;

	for (EACH(i))
		x[i] = load_f32(b->p + g * GROUP + (size_t)i * WIDTH);
}

/* Stores the rest that the encoding leaves out in own, which holds the elements with a residual. */
INLINE void leave_group(struct block *b, size_t g, const vec_f32 *x)
{
	int i;

	for (EACH(i))
		store_f32(b->own + g * GROUP + (size_t)i * WIDTH, x[i]);
}

/* The greatest magnitude, as its bits. */
INLINE uint32_t most_of(const struct block *b)
{
	vec_i32 most[VECS] = {{0}}, m;
	uint32_t all = 0;
	vec_f32 x[VECS];
	size_t g;
	int i, k;

	for (g = 0; g < b->groups; g++) {
		load_group(b, g, x);
		for (EACH(i)) {
			m = magnitudes(x[i]);
			most[i] = pick_int(m > most[i], m, most[i]);
		}
	}
	for (EACH(i))
		for (k = 0; k < WIDTH; k++)
			all = (uint32_t)most[i][k] > all ? (uint32_t)most[i][k] : all;
	return all;
}

/* To the nearest whole number, even of two; |x| < 2^22. */
INLINE vec_f32 round_even(vec_f32 x)
{
	return (x + 0x1.8p23f) - 0x1.8p23f;
}

/* out has room for whole groups. */
INLINE void int8_groups(struct block *b, float step, unsigned char *out, const bool leave)
{
	vec_f32 divisor = (vec_f32){0} + (step > 0 ? step : 1), x[VECS], q;
	vec_i32 bytes[VECS];
	size_t g;
	int i;

	for (g = 0; g < b->groups; g++) {
		load_group(b, g, x);
		for (EACH(i)) {
			q = limit(round_even(x[i] / divisor), 127);
			bytes[i] = __builtin_convertvector(q, vec_i32);
			x[i] -= q * step;
		}
		pack_bytes(bytes, out + g * GROUP);
		if (leave)
			leave_group(b, g, x);
	}
}

static void int8_block(struct block *b, float *residual, unsigned char *out)
{
	unsigned char q[TT_CODEC_BLOCK_MAX], *to = b->n % GROUP ? q : out + sizeof(float);
	uint32_t most = most_of(b);
	float step = tt_f32_from_bits(TT_CODEC_NAN);

	if (most < TT_CODEC_INF)
		step = tt_codec_step(tt_f32_from_bits(most), 127);
	memcpy(out, &step, sizeof(step));
	if (most >= TT_CODEC_INF) {
		memset(out + sizeof(step), 0, b->n);
		return;
	}
	if (residual)
		int8_groups(b, step, to, true);
	else
		int8_groups(b, step, to, false);
	if (to == q)
		memcpy(out + sizeof(step), q, b->n);
	if (residual)
		memcpy(residual, b->own, b->n * sizeof(*residual));
}

static void int8_encode(const float *in, float *residual, unsigned char *out, size_t n,
			size_t block)
{
	struct block b;
	size_t at, len;

	for (at = 0; at < n; at += block) {
		len = n - at < block ? n - at : block;
		load_block(&b, in + at, residual ? residual + at : NULL, len);
		int8_block(&b, residual ? residual + at : NULL, out);
		out += sizeof(float) + len;
	}
}

INLINE void int8_widen(const unsigned char *in, float step, float *out, size_t n, const bool add)
{
	size_t g;
	int i;

	for (g = 0; g < n; g += GROUP)
		for (EACH(i))
			put_vec(out + g + (size_t)i * WIDTH,
				__builtin_convertvector(unpack_bytes(in + g, i), vec_f32) * step,
				add);
}

INLINE void int8_decode_all(const unsigned char *in, float *out, size_t n, size_t block,
			    const bool add)
{
	size_t at, len, whole, rest;
	unsigned char q[GROUP] = {0};
	float x[GROUP] = {0}, step;

	for (at = 0; at < n; at += block) {
		len = n - at < block ? n - at : block;
		whole = len / GROUP * GROUP;
		rest = len - whole;
		memcpy(&step, in, sizeof(step));
		in += sizeof(step);
		int8_widen(in, step, out + at, whole, add);
		if (rest) {
			memcpy(q, in + whole, rest);
			memcpy(x, out + at + whole, rest * sizeof(*x));
			int8_widen(q, step, x, GROUP, add);
			memcpy(out + at + whole, x, rest * sizeof(*x));
		}
		in += len;
	}
}

static void int8_decode(const unsigned char *in, float *out, size_t n, size_t block, bool add)
{
	if (add)
		int8_decode_all(in, out, n, block, true);
	else
		int8_decode_all(in, out, n, block, false);
}
