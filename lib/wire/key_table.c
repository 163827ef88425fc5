/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables of keyed objects: fixed buckets of lists, so that nothing is allocated per message. */
#include "lib/wire/wire_internal.h"

void tt_table_init(struct tt_table *table)
{
	int i;

	for (i = 0; i < TT_BUCKETS; i++)
		tt_list_init(&table->bucket[i]);
}

struct tt_list *tt_table_bucket(struct tt_table *table, int peer, const struct tt_key *key)
{
	uint64_t h = tt_hash_add(key->comm ^ tt_key_series(key),
				 (uint64_t)(unsigned)peer << 32 | key->seq);

	h = tt_hash_add(h, (uint64_t)key->lane << 32 | key->index);
	return &table->bucket[h % TT_BUCKETS];
}
