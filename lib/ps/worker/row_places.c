/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The places of a call's row keys. A worker asks the servers for the places of keys that are new to
 * it, and servers make missing rows. Places never change, so the worker keeps them.
 */
#include <errno.h>
#include <string.h>

#include "lib/ps/ps.h"

size_t tt_ps_places_size(const struct tutti_ps_table *t)
{
	return (size_t)t->ps->nservers * sizeof(size_t);
}

void tt_ps_places_set(const struct tt_ps_task *task, struct tt_ps_places *places,
		      const uint64_t *keys, size_t n, bool push, size_t *cursor)
{
	const struct tutti_ps_table *t = task->table;

	*places = (struct tt_ps_places){.keys = keys, .n = n, .push = push, .cursor = cursor};
	places->create = push || t->opt.init != TUTTI_PS_UNSET;
	memset(cursor, 0, tt_ps_places_size(t));
}

uint32_t tt_ps_place_of(const struct tutti_ps_table *t, const struct tt_ps_places *places,
			uint64_t key)
{
	uint32_t place = tt_ps_key_place(&t->places, key);

	if (place == TT_PS_NOWHERE || !(place & TT_PS_UNSEEN))
		return place;
	return places->push ? place & ~TT_PS_UNSEEN : TT_PS_NOWHERE;
}

/* Ask server k for the places of as many unknown keys as fit in a message; false: no slot. */
static bool ask(struct tt_ps_task *task, struct tt_ps_places *places, int k)
{
	struct tutti_ps_table *t = task->table;
	struct tt_ps_out *out = tt_ps_out_get(&task->ps->link[k]);
	struct tt_ps_msg msg = {.kind = TT_PS_LOOKUP, .table = t->index, .first = places->create};
	uint64_t *key;
	size_t *i = &places->cursor[k];

	if (!out)
		return false;
	/* the rows of a clock are known at its end */
	if (tt_ps_rows_late(t) && task->ps->link[k].min_clock < places->need)
		return false;
	key = (uint64_t *)(void *)(out->staging + sizeof(msg));
	for (; *i < places->n && msg.count < TT_PS_KEYS; ++*i)
		if (tt_ps_server_of(task->ps, places->keys[*i]) == k &&
		    tt_ps_place_of(t, places, places->keys[*i]) == TT_PS_NOWHERE)
			key[msg.count++] = places->keys[*i];
	msg.len = msg.count * (uint32_t)sizeof(*key);
	if (msg.count)
		tt_ps_send(task, out, msg, NULL, true);
	return true;
}

/*
 * The answer came over the network: check that it has as many places as keys were asked, and that
 * these places exist.
 */
void tt_ps_places_told(struct tt_ps_task *task, const struct tt_ps_places *places,
		       struct tt_ps_out *out, const struct tt_ps_credit *credit, const void *data)
{
	struct tutti_ps_table *t = task->table;
	const struct tt_ps_msg *msg = (const struct tt_ps_msg *)(const void *)out->staging;
	const uint64_t *key = (const uint64_t *)(const void *)(msg + 1);
	uint64_t room = t->part[out->link->index].elems / t->width;
	const uint32_t *answer = data;
	int rank = task->ps->comm->world[out->link->rank];
	uint32_t i, place;

	if (msg->kind != TT_PS_LOOKUP) /* a push or a subscription, which may be waited for */
		return;
	if (credit->len != msg->count * sizeof(*answer)) {
		tt_ps_task_fail(task, -EPROTO, "rank %d answered %llu bytes of places of %u keys",
				rank, (unsigned long long)credit->len, msg->count);
		return;
	}
	for (i = 0; i < msg->count; i++) {
		if (answer[i] == TT_PS_NOWHERE)
			continue;
		place = answer[i] & ~TT_PS_UNSEEN;
		if (place >= room) {
			tt_ps_task_fail(task, -EPROTO,
					"rank %d has room for %llu rows, and says that one "
					"is at place %u",
					rank, (unsigned long long)room, place);
			return;
		}
		if (answer[i] & TT_PS_UNSEEN)
			tt_ps_floor(t, out->link->index,
				    (uint64_t)place * t->width / t->block_elems, credit->sequence);
		if (places->push && tt_ps_rows_late(t))
			place = answer[i];
		if (tt_map_set(&t->places, key[i], place))
			tt_ps_task_fail(task, -ENOMEM, "no memory for the places of keys");
	}
}

int tt_ps_places_ask(struct tt_ps_task *task, struct tt_ps_places *places)
{
	struct tutti_ps_table *t = task->table;
	bool left = false;
	size_t i;
	int k;

	for (k = 0; k < task->ps->nservers && !task->status; k++) {
		while (places->cursor[k] < places->n && ask(task, places, k))
			;
		left = left || places->cursor[k] < places->n;
	}
	if (task->answers || (left && !task->status))
		return -EAGAIN;
	if (task->status)
		return task->status;
	for (i = 0; i < places->n; i++)
		if (tt_ps_place_of(t, places, places->keys[i]) == TT_PS_NOWHERE)
			return tt_ps_task_fail(
				task, -ENOENT,
				"table '%s' has no row of key %llu, and no initial values", t->name,
				(unsigned long long)places->keys[i]);
	memset(places->cursor, 0, tt_ps_places_size(t));
	return 0;
}
