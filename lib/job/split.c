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
	int64_t color, key, next_id;
};

/*
 * Gathers all ranks' parts. With few ranks a rank sends log2 messages; no rank sends more bytes
 * than there are parts.
 */
static int exchange(struct tutti_comm *comm, int color, int key, struct part **out)
{
	size_t count = sizeof(struct part) / sizeof(int64_t);
	struct part *all;
	int err;

	err = tutti_alloc(comm->ctx, (size_t)comm->size * sizeof(*all), (void **)&all);
	if (err)
		return err;
	all[comm->rank] = (struct part){.color = color, .key = key};
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
	int *world = malloc((size_t)parent->size * sizeof(int));
	struct tutti_comm *comm;
	uint32_t id = 0;
	uint64_t uid;
	int i, n = 0, err;

	for (i = 0; i < parent->size; i++)
		if ((uint32_t)all[i].next_id > id)
			id = (uint32_t)all[i].next_id;
	uid = tt_hash_add(tt_hash_add(parent->uid, parent->seq), (uint64_t)color);
	if (world && (n = members(parent, all, color, world)) < 0) {
		free(world);
		world = NULL;
	}
	err = tt_comm_make(parent->ctx, world, n, id, uid, "comm_split", &comm);
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

int tt_comm_split(struct tutti_comm *comm, int color, int key, struct tutti_comm **newcomm)
{
	struct part *all;
	int err = exchange(comm, color, key, &all);

	if (err)
		return err;
	if (color == TUTTI_UNDEFINED)
		*newcomm = NULL;
	else
		err = make(comm, all, color, newcomm);
	tutti_free(all);
	return err;
}
