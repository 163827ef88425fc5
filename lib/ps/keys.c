/* SPDX-License-Identifier: BSD-3-Clause */
/* A map from 64-bit keys to places: open addressing, at most three quarters full. Nothing is taken out. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/hash.h"
#include "lib/ps/ps.h"

struct entry {
	uint64_t key;
	uint32_t place; /* TT_PS_NOWHERE: empty */
};

struct tt_ps_keys {
	struct entry *entry;
	size_t size, used;
};

static struct entry *table_new(size_t size)
{
	struct entry *e = malloc(size * sizeof(*e));
	size_t i;

	for (i = 0; e && i < size; i++)
		e[i].place = TT_PS_NOWHERE;
	return e;
}

int tt_ps_keys_new(struct tt_ps_keys **out)
{
	struct tt_ps_keys *keys = calloc(1, sizeof(*keys));

	if (keys) {
		keys->size = 64;
		keys->entry = table_new(keys->size);
	}
	if (!keys || !keys->entry) {
		free(keys);
		return tt_fail(-ENOMEM, "no memory for a table of keys");
	}
	*out = keys;
	return 0;
}

void tt_ps_keys_free(struct tt_ps_keys *keys)
{
	if (keys)
		free(keys->entry);
	free(keys);
}

/* Where key is, or would go. */
static struct entry *slot_of(struct entry *entry, size_t size, uint64_t key)
{
	size_t i = (size_t)tt_mix64(key) & (size - 1);

	while (entry[i].place != TT_PS_NOWHERE && entry[i].key != key)
		i = (i + 1) & (size - 1);
	return &entry[i];
}

uint32_t tt_ps_keys_find(const struct tt_ps_keys *keys, uint64_t key)
{
	return slot_of(keys->entry, keys->size, key)->place;
}

static int grow(struct tt_ps_keys *keys)
{
	struct entry *e = table_new(keys->size * 2);
	size_t i;

	if (!e)
		return tt_fail(-ENOMEM, "no memory for %zu keys", keys->used + 1);
	for (i = 0; i < keys->size; i++)
		if (keys->entry[i].place != TT_PS_NOWHERE)
			*slot_of(e, keys->size * 2, keys->entry[i].key) = keys->entry[i];
	free(keys->entry);
	keys->entry = e;
	keys->size *= 2;
	return 0;
}

int tt_ps_keys_add(struct tt_ps_keys *keys, uint64_t key, uint32_t place)
{
	struct entry *e;
	int err = keys->used + 1 > keys->size / 4 * 3 ? grow(keys) : 0;

	if (err)
		return err;
	e = slot_of(keys->entry, keys->size, key);
	keys->used += e->place == TT_PS_NOWHERE;
	*e = (struct entry){.key = key, .place = place};
	return 0;
}
