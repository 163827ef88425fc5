/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cards: what every rank tells all others about its host and transports, and the choice that follows
 * from two of them. Both ends of a pair come to the same list, best first; the endpoints' own
 * connection set-up then has the last word (a probe of shared memory may fail).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/topo/topo.h"
#include "lib/wire/internal.h"

struct card {
	struct tt_host host;
	uint32_t ntps;
	char tp[TT_TP_MAX][16];
};
_Static_assert(sizeof(struct card) <= TT_CARD_MAX, "fits the bootstrap");

size_t tt_wire_card(struct tt_wire *wire, void *buf, size_t max)
{
	struct card card = {0};
	int i;

	if (tt_host_get(wire->env->host_id.text, &card.host))
		memset(&card.host, 0, sizeof(card.host));
	for (i = 0; tt_transports[i]; i++)
		if (tt_usable_place(wire, i))
			snprintf(card.tp[card.ntps++], sizeof(card.tp[0]), "%s",
				 tt_transports[i]->name);
	memcpy(buf, &card, sizeof(card));
	return sizeof(card);
}

static bool card_of(struct tt_wire *wire, int rank, struct card *card)
{
	const void *data;
	size_t len;

	data = tt_boot_card(wire->boot, rank, &len);
	if (!data || len < sizeof(*card))
		return false;
	memcpy(card, data, sizeof(*card));
	card->ntps = card->ntps > TT_TP_MAX ? TT_TP_MAX : card->ntps;
	return true;
}

bool tt_wire_same_host(struct tt_wire *wire, int rank, char *why, size_t size)
{
	const char *text = "its card is unreadable";
	struct card mine, its;
	bool same = false;

	if (card_of(wire, wire->params.rank, &mine) && card_of(wire, rank, &its))
		same = tt_host_same(&mine.host, &its.host, &text);
	if (why)
		snprintf(why, size, "%s", text);
	return same;
}

int tt_wire_local_ranks(struct tt_wire *wire)
{
	int i, n = 0;

	for (i = 0; i < wire->params.nranks; i++)
		n += i == wire->params.rank || tt_wire_same_host(wire, i, NULL, 0);
	return n;
}

uint64_t tt_wire_host_key(struct tt_wire *wire, int rank)
{
	struct card card;
	uint64_t h = 1;
	const char *p;

	if (!card_of(wire, rank, &card))
		return 0;
	p = card.host.override[0] ? card.host.override : card.host.boot_id;
	for (; *p; p++)
		h = tt_hash_add(h, (unsigned char)*p);
	return card.host.override[0] ? h : tt_hash_add(h, card.host.netns);
}

/* The transports this pair may use, best first; why: the reason if there are none. */
int tt_card_transports(struct tt_wire *wire, int rank, int *places, int max, char *why, size_t size)
{
	struct card its;
	bool same = tt_wire_same_host(wire, rank, why, size);
	int n = 0, i, k;

	if (!card_of(wire, rank, &its))
		return 0;
	for (i = 0; tt_transports[i]; i++) {
		const char *name = tt_transports[i]->name;

		if (!tt_usable_place(wire, i) || !strcmp(name, "self") ||
		    (!strcmp(name, "shm") && !same))
			continue;
		for (k = 0; k < (int)its.ntps; k++)
			if (!strncmp(its.tp[k], name, sizeof(its.tp[k])))
				break;
		if (k < (int)its.ntps && n < max)
			places[n++] = i;
	}
	return n;
}
