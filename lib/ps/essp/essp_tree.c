/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ESSP relay trees: which process sends a block to which worker. The first TUTTI_PS_RELAY
 * subscribers of a block get it from the server. A later subscriber gets it from an earlier one
 * that has a free place: preferably a worker that already sends it other blocks, else a worker on
 * its own host, else a worker near the server. So the workers of a block form trees, the server
 * sends to the roots, and a worker receives only blocks that it asked for. If no worker has a free
 * place, the server sends. A worker that subscribes again has lost its parent, and gets the block
 * from the server; so there is no cycle.
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/ps/essp/essp.h"

/* A worker. */
struct node {
	int parent[TT_PS_PARENTS];
	uint32_t place[TT_PS_PARENTS]; /* index of the slot at that parent */
	int parents, near, far;	       /* children on its host, and on other hosts */
	int level;
	uint64_t host;
	uint64_t *has; /* bits: blocks that it has subscribed to */
};

struct tt_ps_tree {
	struct node *node;
	int n, most;
	uint16_t *roots; /* by block: how many workers the server sends to */
};

bool tt_ps_tree_relayed(const struct tt_ps_tree *tree, int worker)
{
	return tree->node[worker].parents > 0;
}

static bool has(const struct node *node, uint64_t block)
{
	return node->has[block / 64] >> block % 64 & 1;
}

/* Lower is better; -1: no free place. */
static int rank_of(const struct node *me, const struct node *other)
{
	bool near = me->host == other->host;
	int children = near ? other->near : other->far;

	if (children == (near ? TT_PS_NEAR : TT_PS_CHILDREN - TT_PS_NEAR))
		return -1;
	return (near ? 0 : 1 << 24) + other->level * TT_PS_CHILDREN + children;
}

static uint32_t new_parent(struct tt_ps_tree *tree, int worker, uint64_t block, const bool *living)
{
	struct node *me = &tree->node[worker], *parent;
	int w, best = -1, rank, least = 0;
	bool near;

	if (me->parents == TT_PS_PARENTS)
		return TT_PS_BY_SERVER;
	for (w = 0; w < tree->n; w++) {
		if (w == worker || !living[w] || !has(&tree->node[w], block))
			continue;
		rank = rank_of(me, &tree->node[w]);
		if (rank >= 0 && (best < 0 || rank < least)) {
			best = w;
			least = rank;
		}
	}
	if (best < 0)
		return TT_PS_BY_SERVER;
	parent = &tree->node[best];
	near = parent->host == me->host;
	me->parent[me->parents] = best;
	me->place[me->parents] =
		(uint32_t)best << 8 | (uint32_t)(near ? parent->near : TT_PS_NEAR + parent->far);
	parent->near += near;
	parent->far += !near;
	if (me->level <= parent->level)
		me->level = parent->level + 1;
	return me->place[me->parents++];
}

uint32_t tt_ps_tree_feeder(struct tt_ps_tree *tree, int worker, uint64_t block, const bool *living)
{
	struct node *me = &tree->node[worker];
	int i;

	if (has(me, block))
		return TT_PS_BY_SERVER;
	me->has[block / 64] |= 1ull << block % 64;
	if (tree->roots[block] < tree->most) {
		tree->roots[block]++;
		return TT_PS_BY_SERVER;
	}
	for (i = 0; i < me->parents; i++)
		if (living[me->parent[i]] && has(&tree->node[me->parent[i]], block))
			return me->place[i];
	return new_parent(tree, worker, block, living);
}

int tt_ps_tree_new(const struct tt_ps_store *s, struct tt_ps_tree **out)
{
	const struct tutti_ps *ps = s->t->ps;
	struct tt_ps_tree *tree = calloc(1, sizeof(*tree));
	int w;

	*out = tree;
	if (!tree)
		return -ENOMEM;
	tree->n = ps->nworkers;
	tree->most = ps->relay;
	tree->node = calloc((size_t)tree->n, sizeof(*tree->node));
	tree->roots = calloc((size_t)s->part->blocks + 1, sizeof(*tree->roots));
	if (!tree->node || !tree->roots)
		return -ENOMEM;
	for (w = 0; w < tree->n; w++) {
		tree->node[w].host = ps->host[ps->worker[w]];
		tree->node[w].has = calloc((size_t)s->part->blocks / 64 + 1, sizeof(uint64_t));
		if (!tree->node[w].has)
			return -ENOMEM;
	}
	return 0;
}

void tt_ps_tree_free(struct tt_ps_tree *tree)
{
	int w;

	if (!tree)
		return;
	for (w = 0; tree->node && w < tree->n; w++)
		free(tree->node[w].has);
	free(tree->node);
	free(tree->roots);
	free(tree);
}
