/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of (index, value): checking, decoding and merging of received ones. */
#include "lib/codec/sparse_list.h"

#include "lib/codec/codec_kernels.h"

struct reader {
	const unsigned char *at, *end;
	uint64_t left;	    /* entries */
	size_t next, count; /* the lowest index that may follow; elements */
	bool nan;	    /* all elements are NaN */
};

static const char *open_list(struct reader *r, const void *in, size_t len, size_t count)
{
	*r = (struct reader){.at = (const unsigned char *)in + TT_LIST_HEAD,
			     .end = (const unsigned char *)in + len,
			     .count = count};
	if (len < TT_LIST_HEAD)
		return "the number of entries is cut off";
	memcpy(&r->left, in, TT_LIST_HEAD);
	r->nan = r->left == TT_LIST_NAN;
	if (r->nan)
		r->left = 0;
	return r->left > count ? "more entries than elements" : NULL;
}

/* The next entry of r, which has one left. */
static const char *next_entry(struct reader *r, size_t *index, float *value)
{
	uint64_t gap = 0;
	unsigned shift = 0, byte;

	do {
		if (r->at == r->end || shift > 56)
			return "an index is cut off or too long";
		byte = *r->at++;
		gap |= (uint64_t)(byte & 127) << shift;
		shift += 7;
	} while (byte & 128);
	if (gap >= r->count - r->next)
		return "an index is beyond the last element";
	if ((size_t)(r->end - r->at) < sizeof(*value))
		return "a value is cut off";
	memcpy(value, r->at, sizeof(*value));
	r->at += sizeof(*value);
	*index = r->next + gap;
	r->next = *index + 1;
	r->left--;
	return NULL;
}

static const char *close_list(const struct reader *r)
{
	return r->at == r->end ? NULL : "bytes follow the last entry";
}

/* Checks what is left of a list. */
static const char *walk(struct reader *r)
{
	const char *why = NULL;
	size_t index;
	float value;

	while (!why && r->left)
		why = next_entry(r, &index, &value);
	return why ? why : close_list(r);
}

static void fill_nan(float *out, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		out[i] = tt_f32_from_bits(TT_CODEC_NAN);
}

static float sum(float a, float b)
{
	float s = a + b;

	return s == s ? s : tt_f32_from_bits(TT_CODEC_NAN);
}

int tt_list_decode(const struct tutti_codec *c, const void *in, size_t len, size_t first,
		   size_t count, float *out, bool add)
{
	struct reader r;
	const char *why = open_list(&r, in, len, count);
	size_t index;
	float value;

	(void)first;
	if (!why && r.nan)
		fill_nan(out, count);
	else if (!why && !add)
		memset(out, 0, count * sizeof(*out));
	while (!why && r.left) {
		why = next_entry(&r, &index, &value);
		if (!why)
			out[index] = add ? sum(out[index], value) : value;
	}
	if (!why)
		why = close_list(&r);
	return why ? tt_codec_refuse(c, len, count, why) : 0;
}

size_t tt_codec_list_bound(size_t entries, size_t count)
{
	size_t bytes = TT_LIST_HEAD, most;

	entries = entries < count ? entries : count;
	bytes += entries * (1 + sizeof(float));
	/* A gap of 2^7 and more takes a second byte, one of 2^14 and more a third: not all can. */
	for (most = count >> 7; most; most >>= 7)
		bytes += entries < most ? entries : most;
	return bytes;
}

/* The list that is not yet at its end, or has the lower index, first. */
struct side {
	struct reader r;
	size_t index;
	float value;
	bool ended;
};

static const char *step(struct side *s)
{
	s->ended = !s->r.left;
	return s->ended ? close_list(&s->r) : next_entry(&s->r, &s->index, &s->value);
}

static const char *merge(struct side *a, struct side *b, struct tt_list_writer *w)
{
	const char *why = step(a);

	if (!why)
		why = step(b);
	while (!why && !(a->ended && b->ended)) {
		bool left = !a->ended && (b->ended || a->index <= b->index),
		     right = !b->ended && (a->ended || b->index <= a->index);

		tt_list_put(w, left ? a->index : b->index,
			    left && right ? sum(a->value, b->value)
			    : left	  ? a->value
					  : b->value);
		if (left)
			why = step(a);
		if (right && !why)
			why = step(b);
	}
	return why;
}

int tt_codec_merge(const struct tutti_codec *c, const void *a, size_t alen, const void *b,
		   size_t blen, size_t count, void *out, size_t *len)
{
	struct tt_list_writer w = tt_list_begin(out);
	struct side left, right;
	const char *why;
	bool nan;

	if (!count) {
		*len = 0;
		return alen + blen ? tt_codec_refuse(c, alen + blen, 0, "must be empty") : 0;
	}
	why = open_list(&left.r, a, alen, count);
	if (!why)
		why = open_list(&right.r, b, blen, count);
	nan = !why && (left.r.nan || right.r.nan);
	if (nan) {
		why = walk(&left.r);
		why = why ? why : walk(&right.r);
	} else if (!why) {
		why = merge(&left, &right, &w);
	}
	if (why)
		return tt_codec_refuse(c, alen + blen, count, why);
	*len = nan ? tt_list_all_nan(out) : tt_list_end(&w);
	return 0;
}
