/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Boxes: where servers get messages, and workers answers and the clock.
 *
 *	server's:	[worker 0: slot 0 .. 3] [worker 1: ...]		a slot: head, payload
 *	worker's:	[server 0: answer 0 .. 3, note] [server 1: ...]	an answer: credit, data
 *
 * A rank that is both has the one after the other. What is sent from lies in memory that nobody else reaches.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ps/ps.h"

#define IN_SLOT (sizeof(struct tt_ps_msg) + TT_PS_BLOCK)
#define BACK_SLOT (sizeof(struct tt_ps_credit) + TT_PS_REPLY)
#define BACK_SERVER (TT_PS_SLOTS * BACK_SLOT + sizeof(struct tt_ps_note))

size_t tt_ps_box_in(const struct tutti_ps *ps, int worker, int slot)
{
	(void)ps;
	return ((size_t)worker * TT_PS_SLOTS + (size_t)slot) * IN_SLOT;
}

size_t tt_ps_box_credit(int server, int slot)
{
	return (size_t)server * BACK_SERVER + (size_t)slot * BACK_SLOT;
}

size_t tt_ps_box_note(int server)
{
	return tt_ps_box_credit(server, TT_PS_SLOTS);
}

static bool is_in(const int *ranks, int n, int rank)
{
	int i;

	for (i = 0; i < n; i++)
		if (ranks[i] == rank)
			return true;
	return false;
}

size_t tt_ps_box_back(const struct tutti_ps *ps, int rank)
{
	return is_in(ps->server, ps->nservers, rank) ? tt_ps_box_in(ps, ps->nworkers, 0) : 0;
}

size_t tt_ps_box_size(const struct tutti_ps *ps)
{
	return tt_ps_box_back(ps, ps->comm->rank) +
	       (ps->my_worker >= 0 ? (size_t)ps->nservers * BACK_SERVER : 0);
}

/* The worker's end of the slots at a server. */
static void open_link(struct tutti_ps *ps, int k, char *staging)
{
	struct tt_ps_link *link = &ps->link[k];
	int j;

	link->ps = ps;
	link->index = k;
	link->rank = ps->server[k];
	link->note.ring = tt_ps_note_ring;
	for (j = 0; j < TT_PS_SLOTS; j++) {
		link->out[j].bell.ring = tt_ps_credit_ring;
		link->out[j].link = link;
		link->out[j].staging = staging + ((size_t)k * TT_PS_SLOTS + (size_t)j) * IN_SLOT;
	}
}

static int back_bells(struct tutti_ps *ps)
{
	int n = ps->nservers * (TT_PS_SLOTS + 1), k, j, i = 0, err;
	struct tt_bell **bells = malloc((size_t)n * sizeof(struct tt_bell *));

	if (!bells)
		return tt_fail(-ENOMEM, "no memory for a parameter server");
	for (k = 0; k < ps->nservers; k++) {
		for (j = 0; j < TT_PS_SLOTS; j++)
			bells[i++] = &ps->link[k].out[j].bell;
		bells[i++] = &ps->link[k].note;
	}
	tt_wire_lock(ps->comm->ctx->wire);
	err = tt_wire_tokens_new(ps->comm->ctx->wire, bells, n, &ps->my_back);
	tt_wire_unlock(ps->comm->ctx->wire);
	free(bells);
	return err;
}

int tt_ps_box_open(struct tutti_ps *ps)
{
	size_t size = tt_ps_box_size(ps);
	int k, err;

	err = tutti_alloc(ps->comm->ctx, size, (void **)&ps->box);
	if (err)
		return err;
	memset(ps->box, 0, size);
	ps->box_back = tt_ps_box_back(ps, ps->comm->rank);
	if (ps->my_worker < 0)
		return 0;
	ps->link = calloc((size_t)ps->nservers, sizeof(*ps->link));
	if (!ps->link)
		return tt_fail(-ENOMEM, "no memory for a parameter server");
	err = tutti_alloc(ps->comm->ctx, (size_t)ps->nservers * TT_PS_SLOTS * IN_SLOT,
			  (void **)&ps->staging);
	if (err) {
		free(ps->link);
		ps->link = NULL;
		return err;
	}
	for (k = 0; k < ps->nservers; k++)
		open_link(ps, k, ps->staging);
	err = back_bells(ps);
	if (err) {
		free(ps->link);
		ps->link = NULL;
	}
	return err;
}

void tt_ps_box_close(struct tutti_ps *ps)
{
	int i;

	if (ps->link) {
		tt_wire_lock(ps->comm->ctx->wire);
		for (i = 0; i < ps->nservers * (TT_PS_SLOTS + 1); i++)
			tt_wire_token_free(ps->comm->ctx->wire, ps->my_back + (uint32_t)i);
		tt_wire_unlock(ps->comm->ctx->wire);
	}
	free(ps->link);
	tt_ps_landings_free(ps);
	tutti_free(ps->staging);
	tutti_free(ps->box);
}
