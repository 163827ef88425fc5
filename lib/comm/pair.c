/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Detects mismatched block lengths in gatherv, scatterv, alltoallv and alltoallw: only the two
 * ranks of a pair know the length of a block, and in alltoallw its datatype, and they may disagree.
 *
 * The expected length of a block is part of the fingerprint of its messages, so a block never
 * arrives where another length is expected. A rank that receives such a message, or makes no
 * progress, asks the peer over the control tree {count sent, count expected} (PAIR). The peer
 * compares this with its own call of that sequence number, which its history still has, and
 * reports a difference to rank 0 (MISMATCH, stuck.c), which tells all ranks.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/base/hash.h"
#include "lib/comm/comm.h"

struct pair_msg {
	uint64_t uid, seq;
	int32_t rank; /* the asking rank, in the world */
	uint32_t coll, datatype;
	int32_t root;
	uint64_t sends, expects; /* elements, */
	uint32_t stype, rtype;	 /* and their datatypes */
	uint32_t init, zero;	 /* see struct tt_fields */
};
_Static_assert(sizeof(struct pair_msg) == 64, "doc/WIRE.md");

static size_t copy_array(struct tt_counts *c, size_t at, const size_t **array)
{
	size_t n = (size_t)c->args.nranks;

	if (!*array)
		return at;
	memcpy(c->data + at, *array, n * sizeof(size_t));
	*array = c->data + at;
	return at + n;
}

/* Displacements that the caller left out: blocks are contiguous. */
static size_t fill_displs(struct tt_counts *c, size_t at, const size_t *counts,
			  const size_t **displs)
{
	size_t n = (size_t)c->args.nranks, i, end = 0;

	if (!counts || *displs)
		return copy_array(c, at, displs);
	for (i = 0; i < n; i++) {
		c->data[at + i] = end;
		end += counts[i];
	}
	*displs = c->data + at;
	return at + n;
}

struct tt_counts *tt_counts_new(const struct tt_plan_args *args)
{
	size_t arrays = 4 * (size_t)args->nranks, at = 0;
	struct tt_counts *c = malloc(sizeof(*c) + arrays * sizeof(size_t));

	if (!c)
		return NULL;
	c->refs = 1;
	c->args = *args;
	c->stypes = c->rtypes = NULL;
	at = copy_array(c, at, &c->args.scounts);
	at = fill_displs(c, at, c->args.scounts, &c->args.sdispls);
	at = copy_array(c, at, &c->args.rcounts);
	fill_displs(c, at, c->args.rcounts, &c->args.rdispls);
	return c;
}

struct tt_counts *tt_counts_typed(enum tt_coll coll, size_t n)
{
	struct tt_counts *c = malloc(sizeof(*c) + 4 * n * sizeof(size_t));

	if (!c)
		return NULL;
	c->refs = 1;
	c->args = (struct tt_plan_args){
		.coll = coll, .nranks = (int)n, .scounts = c->data, .rcounts = c->data + n};
	c->stypes = c->data + 2 * n;
	c->rtypes = c->data + 3 * n;
	return c;
}

struct tt_counts *tt_counts_get(struct tt_counts *counts)
{
	if (counts)
		counts->refs++;
	return counts;
}

void tt_counts_put(struct tt_counts *counts)
{
	if (counts && --counts->refs == 0)
		free(counts);
}

/* Elements that this rank sends to peer, and expects of it. */
static size_t sends_to(const struct tt_plan_args *a, int peer)
{
	if (a->coll == TT_COLL_GATHERV)
		return peer == a->root ? a->count : 0;
	return a->scounts ? a->scounts[peer] : 0;
}

static size_t expects_of(const struct tt_plan_args *a, int peer)
{
	if (a->coll == TT_COLL_SCATTERV)
		return peer == a->root ? a->count : 0;
	return a->rcounts ? a->rcounts[peer] : 0;
}

static uint32_t type_of(const struct tt_past *past, int peer, bool sends)
{
	const size_t *types = sends ? past->counts->stypes : past->counts->rtypes;

	return types ? (uint32_t)types[peer] : past->fields.datatype;
}

uint64_t tt_pair_fprint(uint64_t fprint, const struct tt_counts *counts, int peer, bool sends)
{
	const size_t *types = sends ? counts->stypes : counts->rtypes;

	fprint = tt_hash_add(fprint, sends ? sends_to(&counts->args, peer)
					   : expects_of(&counts->args, peer));
	return types ? tt_hash_add(fprint, types[peer]) : fprint;
}

int tt_comm_rank_of(const struct tutti_comm *comm, int world)
{
	int i;

	if (world >= 0 && world < comm->size && comm->world[world] == world)
		return world;
	for (i = 0; i < comm->size; i++)
		if (comm->world[i] == world)
			return i;
	return -1;
}

void tt_pair_ask(struct tutti_comm *comm, const struct tt_past *past, int peer)
{
	const struct tt_plan_args *a = &past->counts->args;
	struct pair_msg msg = {.uid = comm->uid,
			       .init = past->fields.init,
			       .seq = past->seq,
			       .rank = comm->ctx->boot_params.rank,
			       .coll = past->fields.coll,
			       .datatype = past->fields.datatype,
			       .root = past->fields.root,
			       .sends = sends_to(a, peer),
			       .expects = expects_of(a, peer),
			       .stype = type_of(past, peer, true),
			       .rtype = type_of(past, peer, false)};

	tt_ctl_send(comm->ctx->boot, comm->world[peer], TT_CTL_PAIR, &msg, sizeof(msg));
}

/* Empty blocks have no datatype that could differ. */
static bool differ(const struct tt_pair_end *a, const struct tt_pair_end *b)
{
	return a->elements != b->elements || (a->elements && a->datatype != b->datatype);
}

static void compare(struct tutti_comm *comm, const struct pair_msg *msg)
{
	struct tt_past past;
	int peer = tt_comm_rank_of(comm, msg->rank), me = comm->ctx->boot_params.rank;
	const struct tt_pair_end its_send = {msg->rank, msg->sends, msg->stype},
				 its_recv = {msg->rank, msg->expects, msg->rtype};
	struct tt_pair_end send, recv;

	if (peer < 0 || !tt_comm_past(comm, msg->init, msg->seq, &past) || !past.counts ||
	    past.fields.coll != msg->coll || past.fields.datatype != msg->datatype ||
	    past.fields.root != msg->root)
		return; /* not called yet, or another call: stuck.c reports that */
	send = (struct tt_pair_end){me, sends_to(&past.counts->args, peer),
				    type_of(&past, peer, true)};
	recv = (struct tt_pair_end){me, expects_of(&past.counts->args, peer),
				    type_of(&past, peer, false)};
	if (differ(&its_send, &recv))
		tt_pair_differ(comm, &past, &its_send, &recv);
	else if (differ(&send, &its_recv))
		tt_pair_differ(comm, &past, &send, &its_recv);
}

void tt_pair_msg(void *arg, int from, const void *data, size_t len)
{
	struct tutti_context *ctx = arg;
	struct tutti_comm *comm;
	struct pair_msg msg;

	if (len != sizeof(msg))
		return;
	memcpy(&msg, data, sizeof(msg));
	if (msg.rank != from)
		return;
	tt_ctx_lock(ctx);
	comm = ctx->boot ? tt_comm_find(ctx, msg.uid) : NULL;
	if (comm)
		compare(comm, &msg);
	tt_ctx_unlock(ctx);
}
