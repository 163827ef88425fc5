/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mailboxes: memory in which servers receive messages, and workers receive answers and the clock.
 *
 * server's:       [worker 0: slot 0 .. 3] [worker 1: ...]         a slot: head, payload
 * worker's:       [server 0: answer 0 .. 3, note] [server 1: ...] an answer: credit, data
 *
 * Each replica of a server has its own areas, so that a rank wrongly taken for dead cannot
 * overwrite what its successor writes. A server has the same slots again for messages that other
 * servers pass on, and words in which they acknowledge them.
 *
 * A rank with both roles has the two parts one after the other. Sends start from memory that is not
 * exposed to other ranks.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ps/ps.h"

#define IN_SLOT (sizeof(struct tt_ps_msg) + TT_PS_BLOCK)
#define BACK_SLOT (sizeof(struct tt_ps_credit) + TT_PS_REPLY)
#define BACK_SERVER (TT_PS_SLOTS * BACK_SLOT + sizeof(struct tt_ps_note))

size_t tt_ps_box_in(const struct tutti_ps *ps, int copy, int worker, int slot)
{
	return ((size_t)(copy * ps->nworkers + worker) * TT_PS_SLOTS + (size_t)slot) * IN_SLOT;
}

size_t tt_ps_box_log(const struct tutti_ps *ps, int copy, int worker, int slot)
{
	return tt_ps_box_in(ps, ps->copies + copy - 1, worker, slot);
}

size_t tt_ps_box_ack(const struct tutti_ps *ps, int copy, int after)
{
	return tt_ps_box_log(ps, ps->copies, 0, 0) +
	       (size_t)(copy * ps->copies + after) * TT_PS_LINE;
}

size_t tt_ps_box_credit(const struct tutti_ps *ps, int server, int copy, int slot)
{
	return (size_t)(server * ps->copies + copy) * BACK_SERVER + (size_t)slot * BACK_SLOT;
}

void tt_ps_put(struct tutti_win *win, int rank, const void *from, size_t len, uint64_t to,
	       uint32_t token, struct tt_win_end *end)
{
	struct tt_win_access a = {.rank = rank,
				  .local = (void *)from,
				  .len = len,
				  .offset = to,
				  .note = true,
				  .token = &token};
	int err = tt_win_op_start(win, &a, end);

	if (err)
		end->over(end, err);
}

int tt_ps_bell_in(const struct tutti_ps *ps, int copy, int worker, int slot, int payload)
{
	return ((copy * ps->nworkers + worker) * TT_PS_SLOTS + slot) * 2 + payload;
}

int tt_ps_bell_log(const struct tutti_ps *ps, int copy, int worker, int slot)
{
	return tt_ps_bell_in(ps, ps->copies, 0, 0, 0) +
	       ((copy - 1) * ps->nworkers + worker) * TT_PS_SLOTS + slot;
}

int tt_ps_bell_ack(const struct tutti_ps *ps, int copy, int after)
{
	return tt_ps_bell_log(ps, ps->copies, 0, 0) + copy * ps->copies + after;
}

int tt_ps_bells(const struct tutti_ps *ps)
{
	return tt_ps_bell_ack(ps, ps->copies, 0);
}

int tt_ps_bell_credit(const struct tutti_ps *ps, int server, int copy, int slot)
{
	return (server * ps->copies + copy) * (TT_PS_SLOTS + 1) + slot;
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
	return is_in(ps->server, ps->nservers, rank) ? tt_ps_box_ack(ps, ps->copies, 0) : 0;
}

size_t tt_ps_box_size(const struct tutti_ps *ps)
{
	return tt_ps_box_back(ps, ps->comm->rank) +
	       (ps->my_worker >= 0 ? tt_ps_box_credit(ps, ps->nservers, 0, 0) : 0);
}

/* The worker's end of the slots at a server. */
static void open_link(struct tutti_ps *ps, int k, char *staging)
{
	struct tt_ps_link *link = &ps->link[k];
	int j, c;

	link->ps = ps;
	link->index = k;
	link->rank = ps->server[k];
	link->ready = true;
	for (c = 0; c < ps->copies; c++)
		link->note[c] =
			(struct tt_ps_back_bell){{.ring = tt_ps_note_ring}, link, NULL, c, false};
	for (j = 0; j < TT_PS_SLOTS; j++) {
		for (c = 0; c < ps->copies; c++)
			link->out[j].bell[c] = (struct tt_ps_back_bell){
				{.ring = tt_ps_credit_ring}, link, &link->out[j], c, false};
		link->out[j].link = link;
		link->out[j].staging = staging + ((size_t)k * TT_PS_SLOTS + (size_t)j) * IN_SLOT;
	}
}

static int back_bells(struct tutti_ps *ps)
{
	int n = tt_ps_bell_credit(ps, ps->nservers, 0, 0), k, c, j, i = 0, err;
	struct tt_bell **bells = malloc((size_t)n * sizeof(struct tt_bell *));

	if (!bells)
		return tt_fail(-ENOMEM, "no memory for a parameter server");
	for (k = 0; k < ps->nservers; k++)
		for (c = 0; c < ps->copies; c++) {
			for (j = 0; j < TT_PS_SLOTS; j++)
				bells[i++] = &ps->link[k].out[j].bell[c].bell;
			bells[i++] = &ps->link[k].note[c].bell;
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
		for (i = 0; i < tt_ps_bell_credit(ps, ps->nservers, 0, 0); i++)
			tt_wire_token_free(ps->comm->ctx->wire, ps->my_back + (uint32_t)i);
		tt_wire_unlock(ps->comm->ctx->wire);
	}
	free(ps->link);
	tt_ps_units_free(ps);
	tutti_free(ps->staging);
	tutti_free(ps->box);
}
