/* SPDX-License-Identifier: BSD-3-Clause */
/* Creates and frees communicators, and keeps their history of calls. */
#include "lib/comm/comm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/hash.h"
#include "lib/base/reserve.h"

#define PORT_SALT 0x703270ull

static void record(struct tutti_comm *comm)
{
	comm->flight = comm->ctx->flight ? tt_flight_comm(comm->ctx->flight, comm->uid, comm->id,
							  comm->rank, comm->size, comm->world)
					 : NULL;
}

static void free_arrays(struct tutti_comm *comm)
{
	free(comm->world);
	free(comm->dead);
	tt_map_free(&comm->series);
	comm->world = NULL;
	comm->dead = NULL;
}

static void free_shell(struct tutti_comm *comm)
{
	free(comm->history);
	free(comm->ended);
	free(comm);
}

int tt_comm_new(struct tutti_context *ctx, const int *world, int size,
		const struct tt_comm_kind *kind, struct tutti_comm **out)
{
	struct tutti_comm *comm = calloc(1, sizeof(*comm));
	int i;

	if (!comm)
		return tt_fail(-ENOMEM, "no memory for a communicator");
	comm->world = malloc((size_t)size * sizeof(int));
	comm->history = calloc(TT_HISTORY, sizeof(*comm->history));
	comm->dead = kind->tolerant ? calloc((size_t)size, 1) : NULL;
	if (!comm->world || !comm->history || (kind->tolerant && !comm->dead)) {
		free_arrays(comm);
		free_shell(comm);
		return tt_fail(-ENOMEM, "no memory for a communicator of %d ranks", size);
	}
	comm->magic = TT_COMM_MAGIC;
	comm->ctx = ctx;
	comm->id = kind->id;
	comm->uid = kind->uid;
	comm->tolerant = kind->tolerant;
	comm->timeout = kind->timeout;
	comm->size = size;
	comm->rank = -1;
	comm->suspect = -1;
	for (i = 0; i < size; i++) {
		comm->world[i] = world ? world[i] : i;
		if (comm->world[i] == ctx->boot_params.rank)
			comm->rank = i;
	}
	for (i = 0; i < TT_ACTIVE_LISTS; i++)
		tt_list_init(&comm->active[i]);
	tt_wire_lock(ctx->wire);
	record(comm);
	tt_list_init(&comm->link);
	tt_list_init(&comm->spare_votes);
	tt_list_add(&ctx->comms, &comm->link);
	if (kind->id >= ctx->next_comm_id)
		ctx->next_comm_id = kind->id + 1;
	tt_reserve_fill(ctx->boot_params.nranks);
	tt_comm_inherit_failure(comm);
	tt_comm_expect_poll(comm, 0);
	tt_wire_unlock(ctx->wire);
	*out = comm;
	return 0;
}

struct tutti_error_info tt_comm_untold(const struct tutti_comm *comm)
{
	struct tutti_error_info none = {0};

	return atomic_load(&comm->failed) == -TUTTI_EMISMATCH && !comm->told ? comm->failure : none;
}

static struct tutti_comm *oldest_dead(struct tutti_context *ctx)
{
	return tt_container(ctx->dead.next, struct tutti_comm, link);
}

static void free_oldest_dead(struct tutti_context *ctx)
{
	struct tutti_comm *comm = oldest_dead(ctx);

	if (!ctx->untold.code)
		ctx->untold = tt_comm_untold(comm);
	tt_list_del(&comm->link);
	free_shell(comm);
	ctx->ndead--;
}

static void drop_counts(struct tt_past *history)
{
	int i;

	for (i = 0; history && i < TT_HISTORY; i++) {
		tt_counts_put(history[i].counts);
		history[i].counts = NULL;
	}
}

uint64_t tt_comm_port(const struct tutti_comm *comm)
{
	return tt_hash_add(comm->uid, PORT_SALT);
}

/* Messages that no rank received may have come after it was freed. */
static void forget_late(struct tutti_context *ctx, const struct tutti_comm *comm)
{
	tt_wire_forget_comm(ctx->wire, comm->uid);
	tt_wire_forget_comm(ctx->wire, tt_comm_port(comm));
}

void tt_comm_bury(struct tutti_comm *comm)
{
	struct tutti_context *ctx = comm->ctx;

	tt_wire_lock(ctx->wire);
	comm->magic = TT_COMM_DEAD;
	tt_vote_forget(comm);
	tt_wire_forget_comm(ctx->wire, comm->uid);
	drop_counts(comm->history);
	drop_counts(comm->ended);
	tt_list_del(&comm->link);
	tt_list_add(&ctx->dead, &comm->link);
	if (++ctx->ndead > TT_DEAD_MAX) {
		forget_late(ctx, oldest_dead(ctx));
		free_oldest_dead(ctx);
	}
	free_arrays(comm);
	if (comm->grown)
		explicit_bzero(comm->grown, sizeof(*comm->grown));
	free(comm->grown);
	comm->grown = NULL;
	tt_wire_unlock(ctx->wire);
}

void tt_comm_free_dead(struct tutti_context *ctx)
{
	while (ctx->ndead)
		free_oldest_dead(ctx);
}

const char *tt_comm_name(const struct tutti_comm *comm, char *buf, size_t size)
{
	const char *open = comm->name[0] ? " (" : "", *close = comm->name[0] ? ")" : "";

	if (comm == comm->ctx->world)
		snprintf(buf, size, "the world%s%s%s", open, comm->name, close);
	else
		snprintf(buf, size, "communicator %u%s%s%s", comm->id, open, comm->name, close);
	return buf;
}

static struct tutti_comm *find(struct tt_list *comms, uint64_t uid)
{
	struct tt_list *l, *tmp;

	tt_list_each(l, tmp, comms)
	{
		struct tutti_comm *comm = tt_container(l, struct tutti_comm, link);

		if (comm->uid == uid)
			return comm;
	}
	return NULL;
}

struct tutti_comm *tt_comm_find(struct tutti_context *ctx, uint64_t uid)
{
	return find(&ctx->comms, uid);
}

struct tutti_comm *tt_comm_find_any(struct tutti_context *ctx, uint64_t uid)
{
	struct tutti_comm *comm = find(&ctx->comms, uid);

	return comm ? comm : find(&ctx->dead, uid);
}

/* The part of the fingerprint that all calls with these fields share. */
uint64_t tt_comm_mix(const struct tutti_comm *comm, const struct tt_fields *f)
{
	uint64_t h = tt_hash_add(comm->uid, (uint64_t)f->coll << 48 |
						    (uint64_t)(f->datatype & 0xff) << 40 |
						    (uint64_t)f->op << 32 | (uint32_t)f->root);

	h = tt_hash_add(h, f->count);
	if (f->datatype > 0xff) /* opaque */
		h = tt_hash_add(h, f->datatype);
	if (f->counts)
		h = tt_hash_add(h, f->counts);
	if (f->in_place | f->init)
		h = tt_hash_add(h, (uint64_t)f->init << 32 | f->in_place);
	if (f->codec)
		h = tt_hash_add(h, f->codec);
	return h;
}

static bool same_fields(const struct tt_fields *a, const struct tt_fields *b)
{
	return a->coll == b->coll && a->datatype == b->datatype && a->op == b->op &&
	       a->root == b->root && a->count == b->count && a->counts == b->counts &&
	       a->in_place == b->in_place && a->codec == b->codec;
}

uint64_t tt_comm_called(struct tutti_comm *comm, const struct tt_fields *fields,
			struct tt_counts *counts)
{
	const struct tt_past *before = &comm->history[comm->seq % TT_HISTORY];

	/* a call mostly repeats the previous one */
	return tt_comm_called_mixed(comm, fields,
				    before->seq && same_fields(fields, &before->fields)
					    ? before->mixed
					    : tt_comm_mix(comm, fields),
				    counts);
}

uint64_t tt_comm_called_mixed(struct tutti_comm *comm, const struct tt_fields *fields,
			      uint64_t mixed, struct tt_counts *counts)
{
	struct tt_past *past = &comm->history[++comm->seq % TT_HISTORY];

	past->mixed = mixed;
	past->seq = comm->seq;
	past->fields = *fields;
	if (past->counts)
		tt_counts_put(past->counts);
	past->counts = counts ? tt_counts_get(counts) : NULL;
	past->fprint = tt_hash_add(past->mixed, comm->seq);
	if (comm->seq == comm->polled_seq) {
		tt_stuck_came(comm, comm->seq, fields);
		tt_comm_expect_poll(comm, 0);
	}
	return past->fprint;
}
