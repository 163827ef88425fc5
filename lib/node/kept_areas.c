/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Areas that their ranks have left are kept for the next communicator of the same ranks: to make,
 * open and map a memfd takes longer than all else that a communicator needs. The home decides. It
 * keeps a few, and gives one a new uid when all its ranks have left it. Other ranks keep theirs
 * until the home says that it has dropped it, so they have it when the home uses it again.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/node/node_internal.h"

#define KEPT 4		   /* areas of a home */
#define LONGEST (1u << 20) /* bytes of one */

struct node_kept {
	struct tt_list link; /* in node->kept, the longest kept one first */
	struct node_area *area;
	size_t len;
	uint64_t ino;
	bool home;   /* this process is its home */
	pid_t pid[]; /* of its ranks; the first is the home's */
};

static struct node_kept *kept_of(struct tt_list *link)
{
	return tt_container(link, struct node_kept, link);
}

static pid_t pid_of(const struct tt_node_group *g, int rank)
{
	return g->peer[rank] ? g->peer[rank]->pid : getpid();
}

static bool same_ranks(const struct node_kept *k, const struct tt_node_group *g)
{
	int i;

	if (!k->home || k->area->size != g->size || k->len != g->area_len)
		return false;
	for (i = 0; i < g->size; i++)
		if (k->pid[i] != pid_of(g, i))
			return false;
	return true;
}

static void forget(struct node_kept *k)
{
	tt_list_del(&k->link);
	free(k);
}

static void drop(struct node_kept *k)
{
	munmap(k->area, k->len);
	forget(k);
}

void tt_node_drop_stale(struct tt_node *node)
{
	struct tt_list *l, *tmp;

	tt_list_each(l, tmp, &node->kept)
	{
		if (atomic_load(&kept_of(l)->area->dropped))
			drop(kept_of(l));
	}
}

void tt_node_drop_all(struct tt_node *node)
{
	while (!tt_list_empty(&node->kept))
		drop(kept_of(node->kept.next));
}

/* Of this home: the number kept; the one kept longest that all ranks have mapped, or have not. */
static int count_own(const struct tt_node *node, bool handed, struct node_kept **longest)
{
	struct tt_list *l, *tmp;
	int n = 0;

	*longest = NULL;
	tt_list_each(l, tmp, &node->kept)
	{
		n += kept_of(l)->home;
		if (kept_of(l)->home && !*longest &&
		    tt_node_is_handed(node, kept_of(l)->area) == handed)
			*longest = kept_of(l);
	}
	return n;
}

static void make_room(struct tt_node *node)
{
	struct node_kept *k;

	if (count_own(node, false, &k) < KEPT)
		return;
	if (!k)
		count_own(node, true, &k);
	tt_node_let_go(node, k->area, k->len, true);
	forget(k);
}

bool tt_node_keep(struct tt_node_group *g)
{
	struct node_kept *k;
	int i;

	if (g->area_len > LONGEST || atomic_load(&g->area->dropped))
		return false;
	k = malloc(sizeof(*k) + (size_t)g->size * sizeof(*k->pid));
	if (!k)
		return false;
	if (!g->rank)
		make_room(g->node);
	*k = (struct node_kept){
		.area = g->area, .len = g->area_len, .ino = g->ino, .home = !g->rank};
	for (i = 0; i < g->size; i++)
		k->pid[i] = pid_of(g, i);
	tt_list_init(&k->link);
	tt_list_add(&g->node->kept, &k->link);
	atomic_fetch_add(&g->area->left, 1);
	return true;
}

/* As new, but for the data in slots, which ranks write before others read them. */
static void clear(struct node_area *area)
{
	int i;

	for (i = 0; i < area->size; i++) {
		struct node_rank *r = &area->rank[i];

		memset(r, 0, offsetof(struct node_rank, slot[0].data));
		memset(&r->slot[1], 0, offsetof(struct node_slot, data));
		memset(r->first, 0, sizeof(r->first));
		memset(r->second, 0, sizeof(r->second));
	}
	atomic_store(&area->attached, 0);
	atomic_store(&area->left, 0);
}

static void take(struct tt_node_group *g, struct node_kept *k)
{
	g->area = k->area;
	g->ino = k->ino;
	forget(k);
}

bool tt_node_reuse(struct tt_node_group *g)
{
	struct tt_list *l, *tmp;

	tt_list_each(l, tmp, &g->node->kept)
	{
		struct node_kept *k = kept_of(l);

		if (!same_ranks(k, g) || atomic_load(&k->area->left) != (uint32_t)g->size ||
		    tt_node_is_handed(g->node, k->area)) /* the last rank has just mapped it */
			continue;
		take(g, k);
		clear(g->area);
		return true;
	}
	return false;
}

bool tt_node_find_kept(struct tt_node_group *g, uint64_t ino, uint64_t uid)
{
	struct tt_list *l, *tmp;

	tt_list_each(l, tmp, &g->node->kept)
	{
		struct node_kept *k = kept_of(l);

		if (k->pid[0] != g->peer[0]->pid || k->ino != ino || k->area->uid != uid)
			continue;
		take(g, k);
		return true;
	}
	return false;
}
