/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulator's containers: a heap of events, a hash table of messages. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/hash.h"
#include "lib/verify/sim_int.h"

static bool before(const struct sim_event *a, const struct sim_event *b)
{
	return a->at < b->at || (a->at == b->at && a->order < b->order);
}

int tt_sim_push(struct sim_queue *q, double at, enum sim_what what, uint32_t which)
{
	struct sim_event ev = {.at = at, .order = q->order++, .what = what, .which = which};
	uint32_t i, parent;

	if (q->n == q->cap) {
		uint32_t cap = q->cap ? 2 * q->cap : 1024;
		struct sim_event *heap = realloc(q->heap, cap * sizeof(*heap));

		if (!heap)
			return -ENOMEM;
		q->heap = heap;
		q->cap = cap;
	}
	for (i = q->n++; i; i = parent) {
		parent = (i - 1) / 2;
		if (!before(&ev, &q->heap[parent]))
			break;
		q->heap[i] = q->heap[parent];
	}
	q->heap[i] = ev;
	return 0;
}

bool tt_sim_pop(struct sim_queue *q, struct sim_event *ev)
{
	struct sim_event last;
	uint32_t i, child;

	if (!q->n)
		return false;
	*ev = q->heap[0];
	last = q->heap[--q->n];
	for (i = 0; (child = 2 * i + 1) < q->n; i = child) {
		if (child + 1 < q->n && before(&q->heap[child + 1], &q->heap[child]))
			child++;
		if (!before(&q->heap[child], &last))
			break;
		q->heap[i] = q->heap[child];
	}
	q->heap[i] = last;
	return true;
}

static uint32_t bucket_of(const struct sim_table *t, int src, int dst, uint32_t lane,
			  uint32_t index)
{
	uint64_t h = tt_hash_add((uint64_t)(uint32_t)src << 32 | (uint32_t)dst,
				 (uint64_t)lane << 32 | index);

	return (uint32_t)h & (t->buckets - 1);
}

/* Twice the room, and the buckets anew. */
static int grow(struct sim_table *t)
{
	uint32_t cap = t->cap ? 2 * t->cap : 1024, i, b;
	struct sim_msg *msg = realloc(t->msg, cap * sizeof(*msg));
	uint32_t *bucket = malloc(cap * sizeof(*bucket));

	if (msg)
		t->msg = msg;
	if (!msg || !bucket) {
		free(bucket);
		return -ENOMEM;
	}
	free(t->bucket);
	t->bucket = bucket;
	t->buckets = cap;
	memset(bucket, 0xff, cap * sizeof(*bucket));
	for (i = 0; i < t->cap; i++) { /* all in use, or there would be no need to grow */
		b = bucket_of(t, msg[i].src, msg[i].dst, msg[i].lane, msg[i].index);
		msg[i].next = bucket[b];
		bucket[b] = i;
	}
	for (i = cap; i-- > t->cap;) {
		msg[i].next = t->free;
		t->free = i;
	}
	t->cap = cap;
	return 0;
}

uint32_t tt_sim_msg(struct sim_table *t, int src, int dst, uint32_t lane, uint32_t index)
{
	uint32_t b, i;

	if (!t->cap) {
		t->free = SIM_NONE;
		if (grow(t))
			return SIM_NONE;
	}
	b = bucket_of(t, src, dst, lane, index);
	for (i = t->bucket[b]; i != SIM_NONE; i = t->msg[i].next)
		if (t->msg[i].src == src && t->msg[i].dst == dst && t->msg[i].lane == lane &&
		    t->msg[i].index == index)
			return i;
	if (t->free == SIM_NONE) {
		if (grow(t))
			return SIM_NONE;
		b = bucket_of(t, src, dst, lane, index);
	}
	i = t->free;
	t->free = t->msg[i].next;
	t->msg[i] = (struct sim_msg){.src = src,
				     .dst = dst,
				     .lane = lane,
				     .index = index,
				     .send = SIM_NONE,
				     .recv = SIM_NONE,
				     .next = t->bucket[b]};
	t->bucket[b] = i;
	t->used++;
	return i;
}

void tt_sim_msg_free(struct sim_table *t, uint32_t m)
{
	struct sim_msg *msg = &t->msg[m];
	uint32_t *link = &t->bucket[bucket_of(t, msg->src, msg->dst, msg->lane, msg->index)];

	while (*link != m)
		link = &t->msg[*link].next;
	*link = msg->next;
	msg->next = t->free;
	t->free = m;
	t->used--;
}
