/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The encoding of sparse codecs: the number of entries in 8 bytes, then the entries in ascending
 * order of index. An entry is the gap to the index before, in 7 bits a byte, the lowest first, with
 * bit 7 in all bytes but the last, then the value as a float32: 5 bytes up to a gap of 127. The
 * number TT_LIST_NAN alone: all elements are NaN.
 */
#ifndef TT_SPARSE_LIST_H
#define TT_SPARSE_LIST_H

#include <string.h>

#include "lib/codec/codec_kind.h"

#define TT_LIST_HEAD 8
#define TT_LIST_NAN UINT64_MAX

struct tt_list_writer {
	unsigned char *out, *at;
	uint64_t entries;
	size_t next; /* the lowest index that may follow */
};

static inline struct tt_list_writer tt_list_begin(void *out)
{
	return (struct tt_list_writer){.out = out, .at = (unsigned char *)out + TT_LIST_HEAD};
}

static inline void tt_list_put(struct tt_list_writer *w, size_t index, float value)
{
	size_t gap = index - w->next;

	for (; gap > 127; gap >>= 7)
		*w->at++ = (unsigned char)(gap | 128);
	*w->at++ = (unsigned char)gap;
	memcpy(w->at, &value, sizeof(value));
	w->at += sizeof(value);
	w->next = index + 1;
	w->entries++;
}

/* Returns the bytes written. */
static inline size_t tt_list_end(struct tt_list_writer *w)
{
	memcpy(w->out, &w->entries, TT_LIST_HEAD);
	return (size_t)(w->at - w->out);
}

/* All elements are NaN. */
static inline size_t tt_list_all_nan(void *out)
{
	const uint64_t entries = TT_LIST_NAN;

	memcpy(out, &entries, TT_LIST_HEAD);
	return TT_LIST_HEAD;
}

/* sparse_list.c: the functions of all sparse codecs. */
int tt_list_decode(const struct tutti_codec *c, const void *in, size_t len, size_t first,
		   size_t count, float *out, bool add);

/*
 * topk.c, also for dgc: with feedback v = state[0] becomes v + in, or v + u after u = momentum * u
 * + in; the elements of the greatest magnitudes in v are sent, and cleared in v and u.
 */
int tt_topk_run(const struct tutti_codec *c, const struct tt_codec_job *job, float *u,
		float momentum, void *out, size_t *len);
size_t tt_topk_bound(const struct tutti_codec *c, size_t count);
size_t tt_topk_align(const struct tutti_codec *c);

#endif
