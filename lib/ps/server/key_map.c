/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A map from 64-bit keys to places: open addressing, at most three quarters full. Nothing is taken
 * out but all at once.
 */
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

void tt_ps_keys_clear(struct tt_ps_keys *keys)
{
	size_t i;

	for (i = 0; i < keys->size; i++)
		keys->entry[i].place = TT_PS_NOWHERE;
	keys->used = 0;
}

int tt_ps_met_new(const struct tutti_ps_table *t, struct tt_ps_met *met)
{
	int err;

	if (t->count >= UINT32_MAX)
		return tt_fail(-EINVAL, "table '%s' is too large to accumulate its rows' updates",
			       t->name);
	err = tt_ps_keys_new(&met->units);
	if (err)
		return err;
	met->key = calloc((size_t)t->count + 1, sizeof(*met->key));
	return met->key ? 0 : tt_fail(-ENOMEM, "no memory for the keys of table '%s'", t->name);
}

void tt_ps_met_free(struct tt_ps_met *met)
{
	tt_ps_keys_free(met->units);
	free(met->key);
	*met = (struct tt_ps_met){0};
}

int tt_ps_met_unit(const struct tutti_ps_table *t, struct tt_ps_met *met, uint64_t key,
		   uint32_t *unit)
{
	int err;

	*unit = tt_ps_keys_find(met->units, key);
	if (*unit != TT_PS_NOWHERE)
		return 0;
	if (met->n == t->count)
		return tt_fail(
			-ENOSPC,
			"table '%s' has %llu rows, and this worker has met as many keys; make "
			"the table with more (tutti_ps_rows)",
			t->name, (unsigned long long)t->count);
	err = tt_ps_keys_add(met->units, key, met->n);
	if (err)
		return tt_fail(err, "no memory for the keys of table '%s'", t->name);
	*unit = met->n++;
	met->key[*unit] = key;
	return 0;
}

void tt_ps_met_clear(struct tt_ps_met *met)
{
	tt_ps_keys_clear(met->units);
	met->n = 0;
}
