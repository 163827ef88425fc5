/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes and frees mailboxes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/engine/vote.h"
#include "lib/gossip/gossip.h"

static const char call[] = "tutti_gossip_create";
static const struct tt_gossip_kind kind = {call, "a mailbox", "tutti_gossip_free"};

/* Rank a lists b, and b does not list a. */
static int unmatched(int a, int b, const char *list, const char *other)
{
	return tt_fail(-EINVAL,
		       "%s: rank %d lists rank %d as %s-neighbour, but rank %d does not list rank "
		       "%d as %s-neighbour",
		       call, a, b, list, b, a, other);
}

/* Which slot each rank has here: its place in `in` + 1, or 0; and the same of this rank there. */
static int exchange_slots(struct tutti_comm *comm, const struct tutti_gossip_config *config,
			  uint64_t *here, uint64_t *there)
{
	int i, err;

	memset(here, 0, (size_t)comm->size * sizeof(*here));
	for (i = 0; i < config->nin; i++)
		here[config->in[i]] = (uint64_t)i + 1;
	err = tutti_alltoall(here, there, 1, TUTTI_UINT64, comm);
	for (i = 0; !err && i < config->nout; i++)
		if (!there[config->out[i]])
			err = unmatched(comm->rank, config->out[i], "out", "in");
	return err;
}

/* The converse: every rank that has a slot for this rank is an out-neighbour. */
static int check_slots(const struct tutti_comm *comm, const struct tutti_gossip_config *config,
		       const uint64_t *there)
{
	int i, k;

	for (i = 0; i < comm->size; i++) {
		for (k = 0; there[i] && k < config->nout && config->out[k] != i; k++)
			;
		if (there[i] && k == config->nout)
			return unmatched(i, comm->rank, "in", "out");
	}
	return 0;
}

static void release(struct tutti_gossip *g)
{
	tutti_free(g->staging);
	free(g->users);
	free(g->copy);
	free(g->sum);
	free(g->in);
	free(g->out);
	pthread_mutex_destroy(&g->lock);
	g->magic = 0;
	free(g);
}

static int reserve(struct tutti_context *ctx, struct tutti_gossip *g)
{
	void *staging;
	int err;

	g->in = calloc((size_t)g->nin + 1, sizeof(*g->in));
	g->out = calloc((size_t)g->nout + 1, sizeof(*g->out));
	g->users = calloc((size_t)g->nout + 1, sizeof(*g->users));
	g->copy = malloc(g->len + 1);
	g->sum = malloc(g->count * sizeof(*g->sum) + 1);
	if (!g->in || !g->out || !g->users || !g->copy || !g->sum)
		return tt_fail(-ENOMEM, "%s: no memory for %zu elements", call, g->count);
	err = tutti_alloc(ctx, g->pitch * ((size_t)g->nout + 1), &staging);
	if (!err)
		g->staging = memset(staging, 0, g->pitch * ((size_t)g->nout + 1));
	return err;
}

static int new_state(struct tutti_comm *comm, const struct tutti_gossip_config *config,
		     struct tutti_gossip **gossip)
{
	struct tutti_gossip *g = calloc(1, sizeof(*g));
	int err;

	if (!g)
		return tt_fail(-ENOMEM, "%s: no memory", call);
	g->count = config->count;
	g->datatype = (enum tutti_datatype)config->datatype;
	g->len = g->count * tutti_datatype_size(g->datatype);
	g->pitch = sizeof(struct tt_gossip_head) +
		   (g->len + TT_GOSSIP_LINE - 1) / TT_GOSSIP_LINE * TT_GOSSIP_LINE;
	g->nin = config->nin;
	g->nout = config->nout;
	pthread_mutex_init(&g->lock, NULL);
	err = reserve(comm->ctx, g);
	if (err)
		release(g);
	else
		*gossip = g;
	return err;
}

static void set_neighbors(struct tutti_gossip *g, const struct tutti_gossip_config *config,
			  const uint64_t *there)
{
	int i;

	for (i = 0; i < g->nin; i++) {
		g->in[i].rank = config->in[i];
		g->in[i].weight = config->weights ? config->weights[i] : 1.0 / (g->nin + 1);
	}
	for (i = 0; i < g->nout; i++) {
		g->out[i].rank = config->out[i];
		g->out[i].at = (there[config->out[i]] - 1) * 2 * g->pitch;
	}
}

int tt_gossip_new(struct tutti_comm *comm, const struct tutti_gossip_config *config, int err,
		  struct tutti_gossip **gossip)
{
	uint64_t *here = calloc((size_t)comm->size * 2, sizeof(*here)), *there;
	struct tutti_gossip *g = NULL;

	if (!err && !here)
		err = tt_fail(-ENOMEM, "%s: no memory for %d ranks", call, comm->size);
	if (!err)
		err = new_state(comm, config, &g);
	err = tt_agree(comm, call, err);
	if (!err)
		err = tt_gossip_agree(comm, call, config->count, config->datatype);
	if (!err) {
		there = here + comm->size;
		err = exchange_slots(comm, config, here, there);
		if (!err)
			err = check_slots(comm, config, there);
		if (!err)
			set_neighbors(g, config, there);
		err = tt_gossip_base_new(comm, &kind, err, (size_t)g->nin * 2 * g->pitch, &g->base);
	}
	free(here);
	if (err && g)
		release(g);
	if (err)
		return err;
	g->magic = TT_GOSSIP_MAGIC;
	*gossip = g;
	return 0;
}

/* The last puts must be over before their memory is freed. */
static int settle(struct tutti_gossip *g)
{
	int i, err = 0, end;

	for (i = 0; i < g->nout; i++) {
		end = g->out[i].put ? tutti_wait(&g->out[i].put) : 0;
		if (end && end != -TUTTI_EPEER && !err)
			err = end;
	}
	return err;
}

int tt_gossip_free(struct tutti_gossip *g)
{
	struct tutti_error_info why = {.size = sizeof(why)};
	int err = settle(g), end;

	if (err)
		tutti_last_error(&why);
	end = tt_gossip_base_free(&g->base, "tutti_gossip_free");
	release(g);
	return err ? tt_fail_info(&why) : end;
}
