/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An interval tree: address spans, which may overlap, found by the addresses they cover. A treap
 * ordered by start, where each node holds the highest end below it, so all calls take O(log n)
 * expected steps (no caller chooses priorities). Spans are embedded; nothing is allocated here.
 */
#ifndef TT_SPANS_H
#define TT_SPANS_H

#include <stdint.h>

struct tt_span {
	uintptr_t start, end; /* [start, end) */
	uintptr_t reach;      /* highest end of this node and those below */
	uint64_t priority;
	struct tt_span *left, *right;
};

/* start and end are set; *root is NULL to begin with. */
void tt_spans_insert(struct tt_span **root, struct tt_span *span);
/* It must be in the tree. */
void tt_spans_remove(struct tt_span **root, struct tt_span *span);
/* One that covers all of [start, end), or NULL. */
struct tt_span *tt_spans_covering(struct tt_span *root, uintptr_t start, uintptr_t end);
/* The one with the lowest start that shares a byte with [start, end), or NULL. */
struct tt_span *tt_spans_overlap(struct tt_span *root, uintptr_t start, uintptr_t end);

#endif
