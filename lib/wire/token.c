/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tokens: the 32-bit notes that peers ring. A token names an entry of a table. Its upper bits hold
 * a generation, so that a late note for a receive taken back finds nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/wire/wire_internal.h"

#define RANK_MASK ((1u << TT_TOKEN_RANK_BITS) - 1)
#define INDEX_MASK TT_TOKEN_INDEX_MASK
#define GENERATION_MASK TT_TOKEN_GENERATION_MASK
#define NO_TOKEN UINT32_MAX

uint32_t tt_slot_token(const struct tt_chan *chan, int slot)
{
	uint32_t generation = chan->generation << TT_TOKEN_RANK_BITS;

	return TT_TOKEN_SLOT |
	       (generation | ((uint32_t)chan->peer & RANK_MASK)) << TT_TOKEN_SLOT_BITS |
	       (uint32_t)slot;
}

/* NULL: the token belongs to a closed connection. */
struct tt_chan *tt_slot_chan(struct tt_wire *wire, uint32_t token, int *slot)
{
	uint32_t peer = token >> TT_TOKEN_SLOT_BITS & RANK_MASK;
	struct tt_chan *chan = peer < (uint32_t)wire->params.nranks ? wire->chan[peer] : NULL;

	*slot = (int)(token & ((1u << TT_TOKEN_SLOT_BITS) - 1));
	return chan && tt_slot_token(chan, *slot) == token ? chan : NULL;
}

static int grow(struct tt_wire *wire)
{
	uint32_t n = wire->ntokens ? wire->ntokens * 2 : 256, i;
	struct tt_token *t;

	if (n > INDEX_MASK + 1)
		return tt_fail(-ENOMEM, "more than %u receives are posted at once", INDEX_MASK + 1);
	t = realloc(wire->token, n * sizeof(*t));
	if (!t)
		return tt_fail(-ENOMEM, "no memory for %u tokens", n);
	memset(t + wire->ntokens, 0, (n - wire->ntokens) * sizeof(*t));
	for (i = wire->ntokens; i < n; i++)
		t[i].next_free = i + 1 < n ? i + 1 : NO_TOKEN;
	wire->free_token = wire->ntokens;
	wire->token = t;
	wire->ntokens = n;
	wire->stats.allocations++;
	return 0;
}

int tt_token_new(struct tt_wire *wire, enum tt_token_kind kind, void *target, uint32_t *token)
{
	struct tt_token *t;
	uint32_t i;
	int err;

	if (!wire->ntokens || wire->free_token == NO_TOKEN) {
		err = grow(wire);
		if (err)
			return err;
	}
	i = wire->free_token;
	t = &wire->token[i];
	wire->free_token = t->next_free;
	t->kind = kind;
	t->target = target;
	*token = (t->generation & GENERATION_MASK) << TT_TOKEN_INDEX_BITS | i;
	return 0;
}

void tt_token_free(struct tt_wire *wire, uint32_t token)
{
	struct tt_token *t = tt_token_find(wire, token);

	if (!t)
		return;
	t->kind = TT_TOKEN_FREE;
	t->target = NULL;
	t->generation++;
	t->next_free = wire->free_token;
	wire->free_token = (uint32_t)(t - wire->token);
}

/* Entries of a run get the highest generation of all: so far ahead no late note comes for a token.
 */
#define SPAN (GENERATION_MASK / 2)

/*
 * The first of n free adjacent entries, whose generations are near each other: the highest is in
 * *generation. NO_TOKEN: none.
 */
static uint32_t find_run(const struct tt_wire *wire, uint32_t n, uint32_t *generation)
{
	uint32_t i, len = 0, low = 0, high = 0;

	for (i = 0; i < wire->ntokens; i++) {
		const struct tt_token *t = &wire->token[i];

		if (t->kind != TT_TOKEN_FREE) {
			len = 0;
			continue;
		}
		low = len && low < t->generation ? low : t->generation;
		high = len && high > t->generation ? high : t->generation;
		len++;
		if (high - low > SPAN) { /* the run begins anew with this one */
			low = high = t->generation;
			len = 1;
		}
		if (len < n)
			continue;
		*generation = high;
		return i + 1 - n;
	}
	return NO_TOKEN;
}

/* Rebuilds the list of free tokens, lowest first. */
static void relink(struct tt_wire *wire)
{
	uint32_t i;

	wire->free_token = NO_TOKEN;
	for (i = wire->ntokens; i-- > 0;) {
		if (wire->token[i].kind != TT_TOKEN_FREE)
			continue;
		wire->token[i].next_free = wire->free_token;
		wire->free_token = i;
	}
}

/* Rare enough to scan the whole table. */
int tt_wire_tokens_new(struct tt_wire *wire, struct tt_bell *const *bells, int n, uint32_t *token)
{
	uint32_t first, generation = 0;
	int i, err = 0;

	while ((first = find_run(wire, (uint32_t)n, &generation)) == NO_TOKEN && !err)
		err = grow(wire);
	for (i = 0; !err && i < n; i++) {
		struct tt_token *t = &wire->token[first + (uint32_t)i];

		t->kind = TT_TOKEN_BELL;
		t->target = bells[i];
		t->generation = generation;
	}
	relink(wire);
	if (!err)
		*token = (wire->token[first].generation & GENERATION_MASK) << TT_TOKEN_INDEX_BITS |
			 first;
	return err;
}

void tt_wire_token_free(struct tt_wire *wire, uint32_t token)
{
	tt_token_free(wire, token);
}
