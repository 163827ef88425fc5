/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulator's containers: a heap of events, and messages by name. */
#include <errno.h>
#include <stdlib.h>

#include "lib/base/hash.h"
#include "lib/base/heap.h"
#include "lib/verify/sim_int.h"

static bool before(const void *a, const void *b, const void *arg)
{
	const struct sim_event *e = a, *than = b;

	(void)arg;
	return e->at < than->at || (e->at == than->at && e->order < than->order);
}

static const struct tt_heap_kind kind = {sizeof(struct sim_event), before, NULL};

int tt_sim_push(struct sim_queue *q, double at, enum sim_what what, uint32_t which)
{
	struct sim_event ev = {.at = at, .order = q->order++, .what = what, .which = which};

	if (q->n == q->cap) {
		uint32_t cap = q->cap ? 2 * q->cap : 1024;
		struct sim_event *heap = realloc(q->heap, cap * sizeof(*heap));

		if (!heap)
			return -ENOMEM;
		q->heap = heap;
		q->cap = cap;
	}
	tt_heap_up(&kind, q->heap, q->n++, &ev, NULL);
	return 0;
}

bool tt_sim_pop(struct sim_queue *q, struct sim_event *ev)
{
	if (!q->n)
		return false;
	*ev = q->heap[0];
	q->n--;
	if (q->n)
		tt_heap_down(&kind, q->heap, q->n, 0, &q->heap[q->n], NULL);
	return true;
}

/* Mixes a message's name; messages whose names mix to the same are linked. */
static uint64_t key_of(int src, int dst, uint32_t lane, uint32_t index)
{
	return tt_hash_add((uint64_t)(uint32_t)src << 32 | (uint32_t)dst,
			   (uint64_t)lane << 32 | index);
}

static int grow(struct sim_table *t)
{
	uint32_t cap = t->cap ? 2 * t->cap : 1024, i;
	struct sim_msg *msg = realloc(t->msg, cap * sizeof(*msg));

	if (!msg)
		return -ENOMEM;
	t->free = SIM_NONE; /* all are in use */
	for (i = cap; i-- > t->cap;) {
		msg[i].next = t->free;
		t->free = i;
	}
	t->msg = msg;
	t->cap = cap;
	return 0;
}

uint32_t tt_sim_msg(struct sim_table *t, int src, int dst, uint32_t lane, uint32_t index)
{
	uint64_t *first = NULL;
	uint32_t i;

	if (t->used < t->cap || !grow(t))
		first = tt_map_at(&t->first, key_of(src, dst, lane, index));
	if (!first)
		return SIM_NONE;
	for (i = (uint32_t)*first; i != SIM_NONE; i = t->msg[i].next)
		if (t->msg[i].src == src && t->msg[i].dst == dst && t->msg[i].lane == lane &&
		    t->msg[i].index == index)
			return i;
	i = t->free;
	t->free = t->msg[i].next;
	t->msg[i] = (struct sim_msg){.src = src,
				     .dst = dst,
				     .lane = lane,
				     .index = index,
				     .send = SIM_NONE,
				     .recv = SIM_NONE,
				     .next = (uint32_t)*first};
	*first = i;
	t->used++;
	return i;
}

void tt_sim_msg_free(struct sim_table *t, uint32_t m)
{
	const struct sim_msg *msg = &t->msg[m];
	uint64_t key = key_of(msg->src, msg->dst, msg->lane, msg->index);
	uint64_t *first = tt_map_at(&t->first, key);
	uint32_t i = (uint32_t)*first;

	if (i != m) {
		while (t->msg[i].next != m)
			i = t->msg[i].next;
		t->msg[i].next = msg->next;
	} else if (msg->next != SIM_NONE) {
		*first = msg->next;
	} else {
		tt_map_remove(&t->first, key);
	}
	t->msg[m].next = t->free;
	t->free = m;
	t->used--;
}
