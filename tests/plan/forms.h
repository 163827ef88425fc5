/* SPDX-License-Identifier: BSD-3-Clause */
/* The stored form of a plan against its generated form, and the plans of all ranks together. */
#ifndef TT_TESTS_FORMS_H
#define TT_TESTS_FORMS_H

#include <stdint.h>
#include <string.h>

#include "lib/plan/plan.h"

#define TT_FORMS_RANKS 33

static inline void tt_free_plans(struct tt_plan **plans, int n)
{
	int r;

	for (r = 0; r < n; r++)
		tt_plan_free(plans[r]);
	memset(plans, 0, (size_t)n * sizeof(*plans));
}

static inline bool tt_same_ref(struct tt_ref a, struct tt_ref b)
{
	return a.buf == b.buf && a.off == b.off;
}

static inline bool tt_same_op(const struct tt_op *a, const struct tt_op *b)
{
	return a->kind == b->kind && a->flags == b->flags && a->peer == b->peer &&
	       a->index == b->index && a->len == b->len && tt_same_ref(a->dst, b->dst) &&
	       tt_same_ref(a->a, b->a) && tt_same_ref(a->b, b->b);
}

/* The generated form may have rounds without ops; otherwise all is equal. */
static inline bool tt_same_lane(const struct tt_plan *s, const struct tt_plan *g, int lane)
{
	struct tt_op tmp[2 * TT_FORMS_RANKS], tmp2[2 * TT_FORMS_RANKS];
	const struct tt_op *a, *b;
	int r, i, n, m, k = 0;

	for (r = 0; r < tt_plan_rounds(g, lane); r++) {
		m = tt_plan_ops(g, lane, r, tmp2, &b);
		if (!m)
			continue;
		n = k < tt_plan_rounds(s, lane) ? tt_plan_ops(s, lane, k++, tmp, &a) : 0;
		if (n != m)
			return false;
		for (i = 0; i < n; i++)
			if (!tt_same_op(&a[i], &b[i]))
				return false;
	}
	return k == tt_plan_rounds(s, lane);
}

/* 0: they differ; 1: they are equal; 2: and the generator was used. */
static inline int tt_same_forms(const struct tt_alg *alg, const struct tt_plan_args *a)
{
	size_t max = tt_plan_store_max;
	struct tt_plan *stored = NULL, *generated = NULL;
	int lane, same;

	tt_plan_store_max = SIZE_MAX;
	same = !tt_plan_build(alg, a, &stored);
	tt_plan_store_max = 0;
	same = same && !tt_plan_build(alg, a, &generated);
	tt_plan_store_max = max;
	same = same && !stored->generated && stored->nlanes == generated->nlanes &&
	       stored->scratch == generated->scratch && stored->max_ops <= generated->max_ops;
	for (lane = 0; same && lane < stored->nlanes; lane++)
		same = tt_same_lane(stored, generated, lane);
	same = same ? 1 + generated->generated : 0;
	tt_plan_free(stored);
	tt_plan_free(generated);
	return same;
}

#endif
