/* SPDX-License-Identifier: BSD-3-Clause */
/* Builds messages of several blocks; see blocks.h. */
#include "lib/coll/blocks.h"

struct tt_ref tt_block_ref(const struct tt_plan_args *a, const struct tt_blocks *s, int i,
			   size_t *len)
{
	struct tt_span t = tt_slice(a, s->of(a, i % a->nranks), s->slices, s->slice);

	*len = t.len;
	if (s->packed_first < 0)
		return (struct tt_ref){s->buf, t.off};
	i = (i - s->packed_first + a->nranks) % a->nranks;
	return TT_SCRATCH(s->packed + (size_t)i * t.len); /* block form: all as long */
}

static bool together(const struct tt_plan_args *a, const struct tt_blocks *s)
{
	return s->slices == 1 && a->coll != TT_COLL_ALLGATHERV;
}

typedef void long_fn(struct tt_builder *b, int peer, struct tt_ref ref, size_t len);

static void move(struct tt_builder *b, const struct tt_blocks *s, int peer, int first, int n,
		 long_fn *fn)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_ref ref;
	size_t len;
	int run;

	for (first %= a->nranks; n > 0; n -= run, first = (first + run) % a->nranks) {
		run = a->nranks - first < n ? a->nranks - first : n;
		run = together(a, s) ? run : 1;
		ref = tt_block_ref(a, s, first, &len);
		fn(b, peer, ref, (size_t)run * len);
	}
}

void tt_send_blocks(struct tt_builder *b, const struct tt_blocks *s, int peer, int first, int n)
{
	move(b, s, peer, first, n, tt_send_long);
}

void tt_recv_blocks(struct tt_builder *b, const struct tt_blocks *s, int peer, int first, int n)
{
	move(b, s, peer, first, n, tt_recv_long);
}
