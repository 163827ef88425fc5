/* SPDX-License-Identifier: BSD-3-Clause */
/* qsgd and onebit: blocks of a few bits for each element. Included by codec_vector.c. */
#include <endian.h>

typedef float half_f32 __attribute__((vector_size(TT_VEC / 2)));
typedef int32_t half_i32 __attribute__((vector_size(TT_VEC / 2)));

/* Of magnitudes or of their squares, as add_lanes of the reference. */
INLINE double add_lanes(const struct block *b, const bool square)
{
	double lane[TT_CODEC_LANES];
	vec_f64 sum[2 * VECS] = {{0}}, x;
	half_i32 h;
	size_t g, i, step;
	int k;

	for (g = 0; g < b->groups; g++)
		for (k = 0; k < 2 * VECS; k++) {
			memcpy(&h, b->p + g * GROUP + (size_t)k * (WIDTH / 2), sizeof(h));
			x = __builtin_convertvector((half_f32)(h & 0x7fffffff), vec_f64);
			sum[k] += square ? x * x : x;
		}
	memcpy(lane, sum, sizeof(lane));
	for (step = TT_CODEC_LANES / 2; step; step /= 2)
		for (i = 0; i < step; i++)
			lane[i] += lane[i + step];
	return lane[0];
}

INLINE bool sum_is_finite(double sum)
{
	return sum <= DBL_MAX;
}

INLINE vec_u32 mix(vec_u32 x)
{
	x = (x ^ x >> 16) * TT_CODEC_MIX1;
	x = (x ^ x >> 15) * TT_CODEC_MIX2;
	return x ^ x >> 16;
}

/* From 0 to less than 1, of the WIDTH elements from index on. */
INLINE vec_f32 uniform(uint64_t key, uint32_t index)
{
	vec_u32 x = {0};
	int k;

	for (k = 0; k < WIDTH; k++)
		x[k] = (uint32_t)k;
	x = mix(mix(x + (index + (uint32_t)key)) ^ (uint32_t)(key >> 32)) >> 8;
	return __builtin_convertvector((vec_i32)x, vec_f32) * 0x1p-24f;
}

/* The lowest `bits` bits of 8 bytes, one after the other. */
INLINE uint64_t squeeze(uint64_t x, int bits)
{
	x = (x & 0x00ff00ff00ff00ff) | (x & 0xff00ff00ff00ff00) >> (8 - bits);
	x = (x & 0x0000ffff0000ffff) | (x & 0xffff0000ffff0000) >> (16 - 2 * bits);
	return (x & 0x00000000ffffffff) | (x & 0xffffffff00000000) >> (32 - 4 * bits);
}

INLINE uint64_t lanes_of(uint64_t x, uint64_t lanes, int bits)
{
	return x & lanes * ((1ull << bits) - 1);
}

INLINE uint64_t spread(uint64_t x, int bits)
{
	x = lanes_of(x, 1, 4 * bits) | lanes_of(x >> 4 * bits, 1, 4 * bits) << 32;
	x = lanes_of(x, 0x0000000100000001, 2 * bits) |
	    lanes_of(x >> 2 * bits, 0x0000000100000001, 2 * bits) << 16;
	return lanes_of(x, 0x0001000100010001, bits) | lanes_of(x >> bits, 0x0001000100010001, bits)
							       << 8;
}

/* n <= 8 bytes of a word, the lowest first, on every machine. */
INLINE uint64_t load_bytes(const unsigned char *in, size_t n)
{
	uint64_t x = 0;

	memcpy(&x, in, n);
	return le64toh(x);
}

INLINE void store_bytes(unsigned char *out, uint64_t x, size_t n)
{
	x = htole64(x);
	memcpy(out, &x, n);
}

/* The codes of a block, one in a byte; x becomes what they leave out. */
INLINE void qsgd_group(const struct tt_qsgd *q, float step, float sent, uint64_t index, vec_f32 *x,
		       unsigned char *codes)
{
	uint64_t key = tt_codec_key_at(q->key, index);
	vec_f32 divisor = (vec_f32){0} + (step > 0 ? step : 1), a, low;
	vec_i32 level[VECS], negative;
	int i;

	for (EACH(i)) {
		a = (vec_f32)magnitudes(x[i]) / divisor;
		level[i] = __builtin_convertvector(a, vec_i32);
		low = __builtin_convertvector(level[i], vec_f32);
		/* The comparison gives -1. */
		level[i] -= uniform(key, (uint32_t)index + (uint32_t)i * WIDTH) < a - low;
		level[i] = pick_int(level[i] > q->levels, (vec_i32){0} + q->levels, level[i]);
		negative = x[i] < 0;
		x[i] -= __builtin_convertvector((level[i] ^ negative) - negative, vec_f32) * sent;
		level[i] |= negative & (level[i] > 0) & (1 << (q->bits - 1));
		level[i] = (vec_i32)((vec_u32)level[i] << 24) >> 24; /* signed, for pack_bytes */
	}
	pack_bytes(level, codes);
}

static void qsgd_block(const struct tt_qsgd *q, uint64_t first, struct block *b, float *residual,
		       unsigned char *out)
{
	unsigned char codes[TT_CODEC_BLOCK_MAX];
	double squares = add_lanes(b, true);
	float step = tt_f32_from_bits(TT_CODEC_NAN), sent;
	uint64_t squeezed;
	vec_f32 x[VECS];
	size_t g, i, left = tt_qsgd_bytes(q, b->n) - sizeof(sent), n;

	if (sum_is_finite(squares))
		step = tt_qsgd_step(q, squares);
	sent = residual ? step * q->shrink : step;
	memcpy(out, &sent, sizeof(sent));
	out += sizeof(sent);
	if (!sum_is_finite(squares)) {
		memset(out, 0, left);
		return;
	}
	for (g = 0; g < b->groups; g++) {
		load_group(b, g, x);
		qsgd_group(q, step, sent, first + g * GROUP, x, codes + g * GROUP);
		if (residual)
			leave_group(b, g, x);
	}
	for (i = 0; left; i += 8, left -= n) {
		n = left < (size_t)q->bits ? left : (size_t)q->bits;
		squeezed = squeeze(load_bytes(codes + i, 8), q->bits);
		if (left >= 8) /* one store, of which the next one replaces the end */
			store_bytes(out, squeezed, 8);
		else
			store_bytes(out, squeezed, n);
		out += n;
	}
	if (residual)
		memcpy(residual, b->own, b->n * sizeof(*residual));
}

static void qsgd_encode(const struct tt_qsgd *q, const float *in, float *residual,
			unsigned char *out, size_t n)
{
	struct block b;
	size_t at, len;

	for (at = 0; at < n; at += q->block) {
		len = n - at < q->block ? n - at : q->block;
		load_block(&b, in + at, residual ? residual + at : NULL, len);
		qsgd_block(q, q->first + at, &b, residual ? residual + at : NULL, out);
		out += tt_qsgd_bytes(q, len);
	}
}

/* len bytes, of n elements. */
INLINE void qsgd_widen(const struct tt_qsgd *q, const unsigned char *in, size_t len, float step,
		       float *out, size_t n, const bool add)
{
	unsigned char codes[GROUP];
	const int sign = 1 << (q->bits - 1);
	vec_i32 code, level, negative;
	float rest[GROUP] = {0}, *to;
	size_t g, i, k, bytes;
	uint64_t word;
	int v;

	for (g = 0; g < n; g += GROUP) {
		for (i = 0; i < GROUP; i += 8) {
			bytes = len < (size_t)q->bits ? len : (size_t)q->bits;
			word = len >= 8 ? load_bytes(in, 8) : load_bytes(in, bytes);
			store_bytes(codes + i, spread(word, q->bits), 8);
			in += bytes;
			len -= bytes;
		}
		k = n - g < GROUP ? n - g : GROUP;
		to = k < GROUP ? rest : out + g;
		if (k < GROUP)
			memcpy(rest, out + g, k * sizeof(*rest));
		for (EACH(v)) {
			code = unpack_bytes(codes, v);
			level = code & (sign - 1);
			negative = (code & sign) != 0;
			put_vec(to + (size_t)v * WIDTH,
				__builtin_convertvector((level ^ negative) - negative, vec_f32) *
					step,
				add);
		}
		if (k < GROUP)
			memcpy(out + g, rest, k * sizeof(*rest));
	}
}

static void qsgd_decode(const struct tt_qsgd *q, const unsigned char *in, float *out, size_t n,
			bool add)
{
	size_t at, len, bytes;
	float step;

	for (at = 0; at < n; at += q->block) {
		len = n - at < q->block ? n - at : q->block;
		bytes = tt_qsgd_bytes(q, len);
		memcpy(&step, in, sizeof(step));
		qsgd_widen(q, in + sizeof(step), bytes - sizeof(step), step, out + at, len, add);
		in += bytes;
	}
}

INLINE void onebit_groups(struct block *b, float mean, unsigned char *out, const bool leave)
{
	vec_i32 sign, with = (vec_i32)((vec_f32){0} + mean), raw[VECS];
	vec_f32 x[VECS];
	unsigned bits;
	size_t g;
	int i;

	for (g = 0; g < b->groups; g++) {
		load_group(b, g, x);
		for (EACH(i))
			raw[i] = (vec_i32)x[i];
		bits = sign_bits(raw);
		out[2 * g] = (unsigned char)bits;
		out[2 * g + 1] = (unsigned char)(bits >> 8);
		if (!leave)
			continue;
		for (EACH(i)) {
			sign = (vec_i32)x[i] & (int32_t)0x80000000;
			x[i] -= (vec_f32)(with | sign);
		}
		leave_group(b, g, x);
	}
}

static void onebit_block(struct block *b, float *residual, unsigned char *out)
{
	unsigned char bits[TT_CODEC_BLOCK_MAX / 8 + 2];
	double sum = add_lanes(b, false);
	float mean = (float)(sum / (double)b->n);
	size_t bytes = (b->n + 7) / 8;

	if (!sum_is_finite(sum))
		mean = tt_f32_from_bits(TT_CODEC_NAN);
	memcpy(out, &mean, sizeof(mean));
	out += sizeof(mean);
	if (!sum_is_finite(sum)) {
		memset(out, 0, bytes);
		return;
	}
	if (residual)
		onebit_groups(b, mean, bits, true);
	else
		onebit_groups(b, mean, bits, false);
	memcpy(out, bits, bytes);
	if (residual)
		memcpy(residual, b->own, b->n * sizeof(*residual));
}

INLINE size_t onebit_bytes(size_t n)
{
	return sizeof(float) + (n + 7) / 8;
}

static void onebit_encode(const float *in, float *residual, unsigned char *out, size_t n,
			  size_t block)
{
	struct block b;
	size_t at, len;

	for (at = 0; at < n; at += block) {
		len = n - at < block ? n - at : block;
		load_block(&b, in + at, residual ? residual + at : NULL, len);
		onebit_block(&b, residual ? residual + at : NULL, out);
		out += onebit_bytes(len);
	}
}

/* A group of means, negative where the bit is set. */
INLINE void onebit_widen(unsigned bits, float mean, float *out, const bool add)
{
	const int32_t same = (int32_t)tt_f32_bits(mean); /* a sum would change a foreign NaN */
	vec_i32 place, set;
	int i, k;

	for (EACH(i)) {
		for (k = 0; k < WIDTH; k++)
			place[k] = 1 << k;
		place <<= WIDTH * i;
		set = (place & (int32_t)bits) != 0;
		put_vec(out + (size_t)i * WIDTH, (vec_f32)((set & (int32_t)0x80000000) ^ same),
			add);
	}
}

INLINE void onebit_decode_all(const unsigned char *in, float *out, size_t n, size_t block,
			      const bool add)
{
	size_t at, len, g, rest;
	float mean, x[GROUP] = {0};
	unsigned bits;

	for (at = 0; at < n; at += block) {
		len = n - at < block ? n - at : block;
		memcpy(&mean, in, sizeof(mean));
		in += sizeof(mean);
		for (g = 0; g + GROUP <= len; g += GROUP, in += 2)
			onebit_widen(in[0] | (unsigned)in[1] << 8, mean, out + at + g, add);
		rest = len - g;
		if (!rest)
			continue;
		bits = in[0] | (rest > 8 ? (unsigned)in[1] << 8 : 0);
		memcpy(x, out + at + g, rest * sizeof(*x));
		onebit_widen(bits, mean, x, add);
		memcpy(out + at + g, x, rest * sizeof(*x));
		in += (rest + 7) / 8;
	}
}

static void onebit_decode(const unsigned char *in, float *out, size_t n, size_t block, bool add)
{
	if (add)
		onebit_decode_all(in, out, n, block, true);
	else
		onebit_decode_all(in, out, n, block, false);
}
