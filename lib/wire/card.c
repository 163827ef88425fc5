/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cards: what every rank publishes about its host and transports, and the choice of transports for
 * a pair. Both ends of a pair derive the same list, best first. The connection set-up of the
 * endpoints may still reject an entry (a probe of shared memory may fail).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/topo/topo.h"
#include "lib/wire/wire_internal.h"

struct card {
	struct tt_host host;
	uint32_t ntps;
	char tp[TT_TP_MAX][16];
	uint64_t longest; /* longest put that all its transports carry */
	uint64_t cpu_set; /* which CPUs the process may use, and how many */
	uint32_t cpus;
	uint32_t numa; /* the process's NUMA node + 1; 0: unknown, or several */
};
_Static_assert(sizeof(struct card) <= TT_CARD_MAX, "fits the bootstrap");
_Static_assert(sizeof(struct card) == 280, "doc/WIRE.md");

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
	card.cpus = (uint32_t)tt_topo_cpu_set(&card.cpu_set);
	card.numa = 1 + (uint32_t)(wire->env->numa.number >= 0 ? wire->env->numa.number
							       : tt_topo_home());
	card.longest = SIZE_MAX;
	for (i = 0; i < wire->ntps; i++)
		if (wire->tp[i].tp->max_put && wire->tp[i].tp->max_put < card.longest)
			card.longest = wire->tp[i].tp->max_put;
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

void tt_card_longest(struct tt_wire *wire)
{
	struct card card;
	int i;

	wire->longest = SIZE_MAX;
	for (i = 0; i < wire->params.nranks; i++)
		if (card_of(wire, i, &card) && card.longest < wire->longest)
			wire->longest = card.longest;
}

size_t tt_wire_longest(const struct tt_wire *wire)
{
	return wire->longest;
}

void tt_wire_sharers(struct tt_wire *wire, struct tt_wire_sharers *sharers)
{
	struct card mine, its;
	int i;

	*sharers = (struct tt_wire_sharers){.first = -1, .second = -1};
	if (!card_of(wire, wire->params.rank, &mine))
		return;
	sharers->cpus = (int)mine.cpus;
	for (i = 0; i < wire->params.nranks; i++) {
		if (!card_of(wire, i, &its) || !tt_host_same(&mine.host, &its.host, NULL))
			continue;
		sharers->host_ranks++;
		if (its.cpu_set != mine.cpu_set)
			continue;
		if (sharers->ranks < 2)
			*(sharers->ranks ? &sharers->second : &sharers->first) = i;
		sharers->ranks++;
	}
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

int tt_wire_numa(struct tt_wire *wire, int rank)
{
	struct card card;

	return card_of(wire, rank, &card) ? (int)(card.numa & 0x1ffff) - 1 : -1;
}

static int by_key(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static bool names(const struct card *card, const char *name)
{
	uint32_t k;

	for (k = 0; k < card->ntps; k++)
		if (!strncmp(card->tp[k], name, sizeof(card->tp[k])))
			return true;
	return false;
}

bool tt_card_has(struct tt_wire *wire, int rank, const char *name)
{
	struct card card;

	return card_of(wire, rank, &card) && names(&card, name);
}

/* Whether all ranks have this transport. */
static bool all_have(struct tt_wire *wire, const int *ranks, int n, const char *name)
{
	int i;

	for (i = 0; i < n; i++)
		if (!tt_card_has(wire, ranks[i], name))
			return false;
	return true;
}

/* The CPUs that the ranks on the first rank's host may use; the sets of bound ranks add up. */
static int host_cpus(struct tt_wire *wire, const int *ranks, int n, uint64_t *sets)
{
	struct card first, its;
	int i, k, nsets = 0, cpus = 0;

	if (!card_of(wire, ranks[0], &first))
		return 1;
	for (i = 0; i < n; i++) {
		if (!card_of(wire, ranks[i], &its) || !tt_host_same(&first.host, &its.host, NULL))
			continue;
		for (k = nsets; k && sets[k - 1] != its.cpu_set; k--)
			;
		if (k)
			continue;
		sets[nsets++] = its.cpu_set;
		cpus += (int)(its.cpus & 0xffff);
	}
	return cpus ? cpus : 1;
}

/* The number of different keys, and how often the most frequent key occurs. */
static int count_groups(uint64_t *keys, int n, int *most)
{
	int i, run = 0, groups = 0;

	qsort(keys, (size_t)n, sizeof(*keys), by_key);
	for (*most = i = 0; i < n; i++) {
		run = i && keys[i] == keys[i - 1] ? run + 1 : 1;
		groups += run == 1;
		*most = run > *most ? run : *most;
	}
	return groups;
}

/* For ranks on one host. */
static void spread_numa(struct tt_wire *wire, const int *ranks, int n, uint64_t *keys,
			struct tt_wire_spread *spread)
{
	int i, node;

	for (i = 0; i < n; i++) {
		node = tt_wire_numa(wire, ranks[i]);
		if (node < 0)
			return;
		keys[i] = (uint64_t)node;
	}
	spread->numa = count_groups(keys, n, &spread->numa_most);
}

int tt_wire_spread(struct tt_wire *wire, const int *ranks, int n, struct tt_wire_spread *spread)
{
	uint64_t *keys = malloc(((size_t)n + 1) * sizeof(*keys));
	int i;

	if (!keys)
		return tt_fail(-ENOMEM, "no memory for the hosts of %d ranks", n);
	for (i = 0; i < n; i++)
		keys[i] = tt_wire_host_key(wire, ranks[i]);
	*spread = (struct tt_wire_spread){.inside = "", .between = ""};
	spread->hosts = count_groups(keys, n, &spread->most);
	spread->numa = 1;
	spread->numa_most = spread->most;
	if (spread->hosts == 1)
		spread_numa(wire, ranks, n, keys, spread);
	spread->cpus = n ? host_cpus(wire, ranks, n, keys) : 1;
	free(keys);
	for (i = 0; tt_transports[i]; i++)
		;
	while (i--) { /* whatever is open here now: all ranks must get the same result */
		const char *name = tt_transports[i]->name;

		if (!strcmp(name, "self") || !all_have(wire, ranks, n, name))
			continue;
		spread->inside = name;
		spread->between = strcmp(name, "shm") ? name : spread->between;
	}
	return 0;
}

int tt_card_transports(struct tt_wire *wire, int rank, int *places, int max)
{
	struct card its;
	bool same = tt_wire_same_host(wire, rank, NULL, 0);
	int n = 0, i;

	if (!card_of(wire, rank, &its))
		return 0;
	for (i = 0; tt_transports[i]; i++) {
		const char *name = tt_transports[i]->name;

		if (!tt_usable_place(wire, i) || !strcmp(name, "self") ||
		    (!strcmp(name, "shm") && !same))
			continue;
		if (names(&its, name) && n < max)
			places[n++] = i;
	}
	return n;
}

/* Why place is none of tt_card_transports; its: the card of rank. */
static void refusal(struct tt_wire *wire, int rank, const struct card *its, int place, char *why,
		    size_t size)
{
	const char *name = tt_transports[place]->name;
	char hosts[100];

	if (wire->left_out[place][0]) {
		snprintf(why, size, "%s", wire->left_out[place]);
	} else if (!tt_usable_place(wire, place) && wire->asked) {
		snprintf(why, size, "%s: not in TUTTI_TRANSPORT of rank %d", name,
			 wire->params.rank);
	} else if (!tt_usable_place(wire, place)) {
		snprintf(why, size, "%s: there is no device", name);
	} else if (!names(its, name)) {
		snprintf(why, size, "%s: not open at rank %d", name, rank);
	} else {
		tt_wire_same_host(wire, rank, hosts, sizeof(hosts));
		snprintf(why, size, "%s: %s", name, hosts);
	}
}

void tt_card_refusals(struct tt_wire *wire, int rank, char *why, size_t size)
{
	int places[TT_TP_MAX], n = tt_card_transports(wire, rank, places, TT_TP_MAX), i, k;
	struct card its = {0};
	char one[200];
	size_t used;

	card_of(wire, rank, &its);
	for (i = 0; tt_transports[i]; i++) {
		for (k = 0; k < n && places[k] != i; k++)
			;
		if (k < n || !strcmp(tt_transports[i]->name, "self"))
			continue;
		refusal(wire, rank, &its, i, one, sizeof(one));
		used = strlen(why);
		snprintf(why + used, size - used, "%s%s", used ? "; " : "", one);
	}
}
