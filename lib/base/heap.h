/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The library's binary heap, in an array of items of any type: the first item comes before all
 * others. The functions are inlined where they are used, with the functions of a constant
 * struct tt_heap_kind.
 */
#ifndef TT_HEAP_H
#define TT_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define TT_HEAP_ITEM 64 /* the largest item */
#define TT_HEAP_INLINE static inline __attribute__((always_inline))

struct tt_heap_kind {
	size_t size; /* of an item */
	bool (*before)(const void *a, const void *b, const void *arg);
	/* An item has this place now; NULL: places need not be known. */
	void (*placed)(const void *item, size_t place, void *arg);
};

TT_HEAP_INLINE void tt_heap_place(const struct tt_heap_kind *kind, char *heap, size_t at,
				  const void *item, void *arg)
{
	memcpy(heap + at * kind->size, item, kind->size);
	if (kind->placed)
		kind->placed(item, at, arg);
}

/* Moves item, which is in no place yet, up from the free place `at`. */
TT_HEAP_INLINE void tt_heap_up(const struct tt_heap_kind *kind, void *heap, size_t at,
			       const void *item, void *arg)
{
	char *base = heap, moving[TT_HEAP_ITEM];
	size_t parent;

	memcpy(moving, item, kind->size);
	for (; at; at = parent) {
		parent = (at - 1) / 2;
		if (!kind->before(moving, base + parent * kind->size, arg))
			break;
		tt_heap_place(kind, base, at, base + parent * kind->size, arg);
	}
	tt_heap_place(kind, base, at, moving, arg);
}

/* Likewise down, in a heap of n items. */
TT_HEAP_INLINE void tt_heap_down(const struct tt_heap_kind *kind, void *heap, size_t n, size_t at,
				 const void *item, void *arg)
{
	char *base = heap, moving[TT_HEAP_ITEM];
	size_t child;

	memcpy(moving, item, kind->size);
	for (; (child = 2 * at + 1) < n; at = child) {
		if (child + 1 < n &&
		    kind->before(base + (child + 1) * kind->size, base + child * kind->size, arg))
			child++;
		if (!kind->before(base + child * kind->size, moving, arg))
			break;
		tt_heap_place(kind, base, at, base + child * kind->size, arg);
	}
	tt_heap_place(kind, base, at, moving, arg);
}

#endif
