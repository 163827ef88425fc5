/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory and changes of the hash table of hash_map.h. */
#include "lib/base/hash_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/hash.h"

#define LEAST 64 /* entries of the first table */

/* The entry of key, or the free one where key would go. The map has memory. */
static struct tt_map_entry *slot(const struct tt_map *map, uint64_t key)
{
	size_t i = (size_t)tt_mix64(key) & (map->size - 1);

	while (map->entry[i].value != TT_MAP_NONE && map->entry[i].key != key)
		i = (i + 1) & (map->size - 1);
	return &map->entry[i];
}

uint64_t tt_map_find(const struct tt_map *map, uint64_t key)
{
	return map->size ? slot(map, key)->value : TT_MAP_NONE;
}

static int resize(struct tt_map *map, size_t size)
{
	struct tt_map old = *map;
	size_t i;

	map->entry = malloc(size * sizeof(*map->entry));
	if (!map->entry) {
		*map = old;
		return -ENOMEM;
	}
	map->size = size;
	memset(map->entry, 0xff, size * sizeof(*map->entry));
	for (i = 0; i < old.size; i++)
		if (old.entry[i].value != TT_MAP_NONE)
			*slot(map, old.entry[i].key) = old.entry[i];
	free(old.entry);
	return 0;
}

int tt_map_reserve(struct tt_map *map, size_t entries)
{
	size_t size = map->size ? map->size : LEAST;

	while (entries > size / 4 * 3)
		size *= 2;
	return size > map->size ? resize(map, size) : 0;
}

uint64_t *tt_map_at(struct tt_map *map, uint64_t key)
{
	struct tt_map_entry *e = map->size ? slot(map, key) : NULL;

	if (e && e->value != TT_MAP_NONE)
		return &e->value;
	if (map->used >= map->size / 4 * 3) {
		if (tt_map_reserve(map, map->used + 1))
			return NULL;
		e = slot(map, key);
	}
	e->key = key;
	map->used++;
	return &e->value;
}

int tt_map_set(struct tt_map *map, uint64_t key, uint64_t value)
{
	uint64_t *at = tt_map_at(map, key);

	if (!at)
		return -ENOMEM;
	*at = value;
	return 0;
}

/* Closes the gap: moves back entries that were pushed beyond it from their own places. */
void tt_map_remove(struct tt_map *map, uint64_t key)
{
	size_t mask = map->size - 1, gap, i, home;

	if (!map->size)
		return;
	gap = (size_t)(slot(map, key) - map->entry);
	if (map->entry[gap].value == TT_MAP_NONE)
		return;
	for (i = (gap + 1) & mask; map->entry[i].value != TT_MAP_NONE; i = (i + 1) & mask) {
		home = (size_t)tt_mix64(map->entry[i].key) & mask;
		if (((i - home) & mask) < ((i - gap) & mask))
			continue;
		map->entry[gap] = map->entry[i];
		gap = i;
	}
	map->entry[gap].value = TT_MAP_NONE;
	map->used--;
}

void tt_map_clear(struct tt_map *map)
{
	if (map->size)
		memset(map->entry, 0xff, map->size * sizeof(*map->entry));
	map->used = 0;
}

void tt_map_free(struct tt_map *map)
{
	free(map->entry);
	*map = (struct tt_map){0};
}
