/* SPDX-License-Identifier: BSD-3-Clause */
/* A circular doubly linked list; links live in the objects. */
#ifndef TT_LIST_H
#define TT_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct tt_list {
	struct tt_list *next, *prev;
};

#define tt_container(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* Walks head; the current link may be removed in the body. */
#define tt_list_each(pos, tmp, head)                                                               \
	for ((pos) = (head)->next, (tmp) = (pos)->next; (pos) != (head);                           \
	     (pos) = (tmp), (tmp) = (pos)->next)

static inline void tt_list_init(struct tt_list *l)
{
	l->next = l->prev = l;
}

static inline bool tt_list_empty(const struct tt_list *l)
{
	return l->next == l;
}

/* Insert item before head: at the tail of the list. */
static inline void tt_list_add(struct tt_list *head, struct tt_list *item)
{
	item->prev = head->prev;
	item->next = head;
	head->prev->next = item;
	head->prev = item;
}

/* Remove item; removing it again is harmless. */
static inline void tt_list_del(struct tt_list *item)
{
	item->prev->next = item->next;
	item->next->prev = item->prev;
	tt_list_init(item);
}

#endif
