/* SPDX-License-Identifier: BSD-3-Clause */
/* The interval tree of spans.h. */
#include "lib/mem/spans.h"

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/hash.h"

static bool before(const struct tt_span *a, const struct tt_span *b)
{
	return a->start != b->start ? a->start < b->start : (uintptr_t)a < (uintptr_t)b;
}

static void update(struct tt_span *t)
{
	t->reach = t->end;
	if (t->left && t->left->reach > t->reach)
		t->reach = t->left->reach;
	if (t->right && t->right->reach > t->reach)
		t->reach = t->right->reach;
}

/* Splits t into the entries before key, and the rest. */
static void split(struct tt_span *t, const struct tt_span *key, struct tt_span **left,
		  struct tt_span **right)
{
	if (!t) {
		*left = *right = NULL;
		return;
	}
	if (before(t, key)) {
		split(t->right, key, &t->right, right);
		*left = t;
	} else {
		split(t->left, key, left, &t->left);
		*right = t;
	}
	update(t);
}

/* All of a comes before all of b. */
static struct tt_span *merge(struct tt_span *a, struct tt_span *b)
{
	if (!a || !b)
		return a ? a : b;
	if (a->priority > b->priority) {
		a->right = merge(a->right, b);
		update(a);
		return a;
	}
	b->left = merge(a, b->left);
	update(b);
	return b;
}

static struct tt_span *insert(struct tt_span *t, struct tt_span *span)
{
	if (!t || span->priority > t->priority) {
		split(t, span, &span->left, &span->right);
		update(span);
		return span;
	}
	if (before(span, t))
		t->left = insert(t->left, span);
	else
		t->right = insert(t->right, span);
	update(t);
	return t;
}

void tt_spans_insert(struct tt_span **root, struct tt_span *span)
{
	span->priority = tt_hash_add(span->start, (uintptr_t)span);
	*root = insert(*root, span);
}

static struct tt_span *drop(struct tt_span *t, struct tt_span *span)
{
	if (t == span)
		return merge(t->left, t->right);
	if (before(span, t))
		t->left = drop(t->left, span);
	else
		t->right = drop(t->right, span);
	update(t);
	return t;
}

void tt_spans_remove(struct tt_span **root, struct tt_span *span)
{
	*root = drop(*root, span);
}

struct tt_span *tt_spans_covering(struct tt_span *t, uintptr_t start, uintptr_t end)
{
	while (t && t->reach >= end) {
		if (t->start > start) {
			t = t->left;
			continue;
		}
		if (t->end >= end)
			return t;
		/* All to the left start early enough, too: one of them reaches, or none does. */
		t = t->left && t->left->reach >= end ? t->left : t->right;
	}
	return NULL;
}

struct tt_span *tt_spans_overlap(struct tt_span *t, uintptr_t start, uintptr_t end)
{
	while (t && t->reach > start) {
		/* One on the left reaches beyond start; if it starts too late, so do all others. */
		if (t->left && t->left->reach > start)
			t = t->left;
		else if (t->start >= end)
			return NULL;
		else if (t->end > start)
			return t;
		else
			t = t->right;
	}
	return NULL;
}
