/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Splits a communicator: all ranks exchange color and key, then the ranks of each color make one.
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/base/hash.h"
#include "lib/job/job.h"

/* A rank's contribution to a split. */
struct part {
	int64_t color, key, next_id, flags;
};

/*
 * Gathers all ranks' parts. With few ranks a rank sends log2 messages; no rank sends more bytes
 * than there are parts.
 */
static int exchange(struct tutti_comm *comm, const struct tt_comm_part *mine, struct part **out)
{
	size_t count = sizeof(struct part) / sizeof(int64_t);
	struct part *all;
	int err;

	err = tutti_alloc(comm->ctx, (size_t)comm->size * sizeof(*all), (void **)&all);
	if (err)
		return err;
	all[comm->rank] =
		(struct part){.color = mine->color, .key = mine->key, .flags = mine->flags};
	tt_wire_lock(comm->ctx->wire);
	all[comm->rank].next_id = comm->ctx->next_comm_id;
	tt_wire_unlock(comm->ctx->wire);
	err = tutti_allgather(TUTTI_IN_PLACE, all, count, TUTTI_INT64, comm);
	if (err) {
		tutti_free(all);
		return err;
	}
	*out = all;
	return 0;
}

struct member {
	int64_t key;
	int rank;
};

static int by_key(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->rank - y->rank;
}

/* The world ranks of one color, in order; returns their number. */
static int members(const struct tutti_comm *comm, const struct part *all, int color, int *world)
{
	struct member *m = malloc((size_t)comm->size * sizeof(*m));
	int i, n = 0;

	if (!m)
		return tt_fail(-ENOMEM, "no memory to split a communicator");
	for (i = 0; i < comm->size; i++)
		if (all[i].color == color)
			m[n++] = (struct member){.key = all[i].key, .rank = i};
	qsort(m, (size_t)n, sizeof(*m), by_key);
	for (i = 0; i < n; i++)
		world[i] = comm->world[m[i].rank];
	free(m);
	return n;
}

static int make(struct tutti_comm *parent, const struct part *all, int color,
		struct tutti_comm **out)
{
	struct tt_comm_kind kind = {.tolerant = all[parent->rank].flags & TUTTI_COMM_TOLERANT};
	int *world = malloc((size_t)parent->size * sizeof(int));
	struct tutti_comm *comm;
	int i, n = 0, err;

	for (i = 0; i < parent->size; i++)
		if ((uint32_t)all[i].next_id > kind.id)
			kind.id = (uint32_t)all[i].next_id;
	kind.uid = tt_hash_add(tt_hash_add(parent->uid, parent->seq), (uint64_t)color);
	if (world && (n = members(parent, all, color, world)) < 0) {
		free(world);
		world = NULL;
	}
	err = tt_comm_make(parent->ctx, world, n, &kind, "comm_split", &comm);
	free(world);
	if (err)
		return err;
	tt_wire_lock(comm->ctx->wire); /* the control thread may be writing the failure */
	err = tt_comm_check(comm);
	tt_wire_unlock(comm->ctx->wire);
	if (!err) {
		*out = comm;
		return 0;
	}
	tt_comm_strip(comm);
	tt_comm_bury(comm);
	return err;
}

/* Ranks of one color pass the same flags: all of them come to the same verdict. */
static int check_flags(const struct tutti_comm *comm, const struct part *all, int color)
{
	int i, first = -1;

	for (i = 0; i < comm->size; i++) {
		if (all[i].color != color)
			continue;
		first = first < 0 ? i : first;
		if (all[i].flags == all[first].flags)
			continue;
		return tt_fail_rank(-TUTTI_EMISMATCH, comm->world[i],
				    tt_boot_host(comm->ctx->boot, comm->world[i]),
				    "comm_create: flags are %#llx on rank %d and %#llx on rank %d",
				    (unsigned long long)all[first].flags, comm->world[first],
				    (unsigned long long)all[i].flags, comm->world[i]);
	}
	return 0;
}

int tt_comm_split(struct tutti_comm *comm, const struct tt_comm_part *part,
		  struct tutti_comm **newcomm)
{
	struct part *all;
	int err = exchange(comm, part, &all);

	if (err)
		return err;
	if (part->color != TUTTI_UNDEFINED)
		err = check_flags(comm, all, part->color);
	if (!err && part->color == TUTTI_UNDEFINED)
		*newcomm = NULL;
	else if (!err)
		err = make(comm, all, part->color, newcomm);
	tutti_free(all);
	return err;
}
