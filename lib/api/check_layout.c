/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks a caller's layout and gives it the form that the library walks over. */
#include <errno.h>

#include "lib/api/api.h"
#include "lib/base/byte_blocks.h"
#include "lib/base/sized.h"

struct check {
	const char *call, *what;
	const struct tutti_layout *l;
	bool written;
};

static int check_fields(const struct check *c)
{
	const struct tutti_layout *l = c->l;

	if (!tutti_datatype_size(l->datatype))
		return tt_fail(-EINVAL, "%s: %s->datatype: %d is not a datatype", c->call, c->what,
			       (int)l->datatype);
	if (l->flags & ~TUTTI_LAYOUT_BYTES)
		return tt_fail(-EINVAL, "%s: %s->flags: 0x%x is unknown", c->call, c->what,
			       l->flags & ~TUTTI_LAYOUT_BYTES);
	if (l->displs && l->stride)
		return tt_fail(-EINVAL, "%s: %s has displs and a stride; set one of them", c->call,
			       c->what);
	if (l->blocks && l->block)
		return tt_fail(-EINVAL, "%s: %s has blocks and a block; set one of them", c->call,
			       c->what);
	if (l->blocks && !l->displs)
		return tt_fail(-EINVAL, "%s: %s has blocks, but no displs", c->call, c->what);
	return 0;
}

static int too_large(const struct check *c)
{
	return tt_fail(-EINVAL, "%s: the %zu blocks of %s do not fit into an address space",
		       c->call, c->l->count, c->what);
}

static int make_vector(const struct check *c, struct tt_byte_blocks *b)
{
	size_t elem = b->elem, unit = b->unit, block, gap;
	ptrdiff_t stride;

	if (__builtin_mul_overflow(c->l->block, elem, &block) ||
	    __builtin_mul_overflow(c->l->stride, unit, &stride) ||
	    !tt_byte_blocks_vector(b, block, c->l->count, stride))
		return too_large(c);
	gap = stride < 0 ? 0 - (size_t)stride : (size_t)stride;
	if (c->written && b->count > 1 && gap < block)
		return tt_fail(-EINVAL,
			       "%s: blocks of %s overlap where they are written: %zu bytes each, "
			       "%td apart",
			       c->call, c->what, block, stride);
	return 0;
}

/* Block i, which has len bytes, at `at`; the one before it is in [*low, *high). */
static int add_block(const struct check *c, struct tt_byte_blocks *b, size_t i, size_t len,
		     ptrdiff_t *low, ptrdiff_t *high)
{
	ptrdiff_t at, end;

	if (__builtin_mul_overflow(b->displs[i], b->unit, &at) ||
	    __builtin_add_overflow(at, len, &end) ||
	    __builtin_add_overflow(b->bytes, len, &b->bytes) || b->bytes > PTRDIFF_MAX)
		return too_large(c);
	if (c->written && b->longest && at < *high && *low < end)
		return tt_fail(-EINVAL,
			       "%s: block %zu of %s (%zu bytes at %td) overlaps the block before "
			       "it where it is written",
			       c->call, i, c->what, len, at);
	b->low = b->longest && b->low < at ? b->low : at;
	b->high = b->longest && b->high > end ? b->high : end;
	b->longest = b->longest > len ? b->longest : len;
	*low = at;
	*high = end;
	return 0;
}

static int make_indexed(const struct check *c, struct tt_byte_blocks *b)
{
	ptrdiff_t low = 0, high = 0, span;
	size_t i, len;
	int err = 0;

	b->displs = c->l->displs;
	b->blocks = c->l->blocks;
	if (__builtin_mul_overflow(c->l->block, b->elem, &b->block))
		return too_large(c);
	for (i = 0; !err && i < c->l->count; i++) {
		if (__builtin_mul_overflow(b->blocks ? b->blocks[i] : c->l->block, b->elem, &len))
			return too_large(c);
		if (len)
			err = add_block(c, b, i, len, &low, &high);
	}
	if (!err && __builtin_sub_overflow(b->high, b->low, &span))
		return too_large(c);
	b->count = b->bytes ? c->l->count : 0;
	return err;
}

int tt_check_layout(const char *call, const char *what, const struct tutti_layout *layout,
		    bool written, struct tt_byte_blocks *b)
{
	const struct tt_sized sized = TT_SIZED(what, tutti_layout, displs);
	struct check c = {.call = call, .what = what, .written = written};
	struct tutti_layout own;
	int err;

	c.l = layout = tt_sized_read(&sized, call, layout, &own);
	if (!layout)
		return -EINVAL;
	err = check_fields(&c);
	if (err)
		return err;
	*b = (struct tt_byte_blocks){.elem = tutti_datatype_size(layout->datatype)};
	b->unit = layout->flags & TUTTI_LAYOUT_BYTES ? 1 : b->elem;
	return layout->displs ? make_indexed(&c, b) : make_vector(&c, b);
}
