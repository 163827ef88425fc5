/* SPDX-License-Identifier: BSD-3-Clause */
/* Walks over blocks of bytes as one stream. */
#include <stdint.h>
#include <string.h>

#include "lib/base/byte_blocks.h"
#include "lib/base/copy.h"

bool tt_byte_blocks_vector(struct tt_byte_blocks *b, size_t block, size_t count, ptrdiff_t stride)
{
	ptrdiff_t last = 0;
	size_t bytes;

	*b = (struct tt_byte_blocks){.elem = 1, .unit = 1};
	if (!count || !block)
		return true;
	if (__builtin_mul_overflow(count, block, &bytes) || bytes > PTRDIFF_MAX ||
	    __builtin_mul_overflow(count - 1, stride, &last))
		return false;
	b->low = last < 0 ? last : 0;
	if (__builtin_add_overflow(last < 0 ? 0 : last, block, &b->high) ||
	    __builtin_sub_overflow(b->high, b->low, &last))
		return false;
	if (stride == (ptrdiff_t)block) {
		block = bytes;
		count = 1;
	}
	b->count = count;
	b->block = b->longest = block;
	b->stride = stride;
	b->bytes = bytes;
	return true;
}

static size_t length(const struct tt_byte_blocks *b, size_t number)
{
	return b->blocks ? b->blocks[number] * b->elem : b->block;
}

size_t tt_byte_blocks_run(const struct tt_byte_blocks *b, struct tt_place *place, ptrdiff_t *at)
{
	size_t i, len = 0;

	while (place->number < b->count && place->in == (len = length(b, place->number))) {
		place->number++;
		place->in = 0;
	}
	i = place->number;
	if (i == b->count)
		return 0;
	*at = b->displs ? b->displs[i] * (ptrdiff_t)b->unit : (ptrdiff_t)i * b->stride;
	*at += (ptrdiff_t)place->in;
	return len - place->in;
}

void tt_byte_blocks_skip(const struct tt_byte_blocks *b, struct tt_place *place, size_t len)
{
	size_t run;

	if (!b->blocks && b->count) {
		place->in += len;
		place->number += place->in / b->block;
		place->in %= b->block;
		return;
	}
	while (len && place->number < b->count) {
		run = length(b, place->number) - place->in;
		if (len < run) {
			place->in += len;
			return;
		}
		len -= run;
		place->number++;
		place->in = 0;
	}
}

/* Between the blocks and len bytes at p. */
static inline void copy(const struct tt_byte_blocks *b, struct tt_place *place, char *base, char *p,
			size_t len, bool gather)
{
	ptrdiff_t at;
	size_t run;

	while (len && (run = tt_byte_blocks_run(b, place, &at))) {
		run = run < len ? run : len;
		tt_copy_data(gather ? p : base + at, gather ? base + at : p, run);
		p += run;
		len -= run;
		place->in += run;
	}
}

void tt_byte_blocks_gather(const struct tt_byte_blocks *b, struct tt_place *place, const void *base,
			   void *to, size_t len)
{
	copy(b, place, (char *)base, to, len, true);
}

void tt_byte_blocks_scatter(const struct tt_byte_blocks *b, struct tt_place *place, void *base,
			    const void *from, size_t len)
{
	copy(b, place, base, (char *)from, len, false);
}
