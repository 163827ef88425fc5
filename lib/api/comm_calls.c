/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators: queries, dup, split, free, errors, abort. */
#include "lib/p2p/p2p.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/api/api.h"
#include "lib/base/hash.h"
#include "lib/engine/node/node_ops.h"

int tt_check_comm(const struct tutti_comm *comm)
{
	if (!comm)
		return tt_fail(-EINVAL, "the communicator is NULL");
	if (comm->magic == TT_COMM_DEAD)
		return tt_fail(-EINVAL, "the communicator has been freed");
	if (comm->magic != TT_COMM_MAGIC)
		return tt_fail(-EINVAL, "the pointer given is not a communicator");
	return 0;
}

/* By what all ranks know alike. */
static int new_chooser(struct tutti_comm *comm, const struct tt_agreed *agreed,
		       struct tt_chooser **chooser)
{
	size_t longest = tt_wire_longest(comm->ctx->wire);
	struct tt_chooser_params params = {
		.rules = agreed->algo,
		.chunk = agreed->chunk < longest ? agreed->chunk : longest,
		.lanes = agreed->lanes,
		.nranks = comm->size,
		.tune = comm->ctx->tune};
	struct tt_wire_spread spread;
	int err = tt_wire_spread(comm->ctx->wire, comm->world, comm->size, &spread);

	if (err)
		return err;
	params.layout = (struct tt_layout){
		.hosts = spread.hosts, .ranks_per_host = spread.most, .cores = spread.cpus,
		.numa = spread.numa, .ranks_per_numa = spread.numa_most};
	params.inside = spread.inside;
	params.between = spread.between;
	return tt_chooser_by_table(&params, chooser);
}

int tt_comm_choose(struct tutti_comm *comm, const struct tt_agreed *agreed)
{
	struct tt_plan_cache *plans;
	struct tt_chooser *chooser;
	int err = new_chooser(comm, agreed, &chooser);

	if (err)
		return err;
	err = tt_plans_new(comm, &plans);
	if (err) {
		tt_chooser_free(chooser);
		return err;
	}
	tt_wire_lock(comm->ctx->wire);
	tt_plans_free(comm->plans);
	tt_chooser_free(comm->chooser);
	comm->plans = plans;
	comm->chooser = chooser;
	if (comm->node) /* what the one before would have chosen */
		memset(comm->node->known, 0, sizeof(comm->node->known));
	tt_wire_unlock(comm->ctx->wire);
	return 0;
}

int tt_comm_equip(struct tutti_comm *comm, const struct tt_agreed *agreed)
{
	int err = tt_comm_choose(comm, agreed);

	return err ? err : tt_node_comm_new(comm);
}

void tt_comm_strip(struct tutti_comm *comm)
{
	tt_wire_lock(comm->ctx->wire);
	tt_plans_free(comm->plans);
	comm->plans = NULL;
	tt_node_comm_free(comm);
	tt_p2p_free(comm->p2p);
	comm->p2p = NULL;
	tt_chooser_free(comm->chooser);
	comm->chooser = NULL;
	tt_wire_unlock(comm->ctx->wire);
}

struct tutti_comm *tutti_world(struct tutti_context *ctx)
{
	return tt_check_ctx(ctx) ? NULL : ctx->world;
}

int tutti_comm_rank(const struct tutti_comm *comm)
{
	int err = tt_check_comm(comm);

	return err ? err : comm->rank;
}

int tutti_comm_size(const struct tutti_comm *comm)
{
	int err = tt_check_comm(comm);

	return err ? err : comm->size;
}

struct tutti_context *tutti_comm_context(const struct tutti_comm *comm)
{
	return tt_check_comm(comm) ? NULL : comm->ctx;
}

/* What every rank tells the others when a communicator is split. */
struct part {
	int64_t color, key, next_id;
};

/* All ranks' parts: for few ranks log2 messages of a rank, and never more bytes than there are parts. */
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

/* The world ranks of one color, in order; returns how many. */
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

int tt_comm_make(struct tutti_context *ctx, const int *world, int n, uint32_t id, uint64_t uid,
		 const char *call, struct tutti_comm **out)
{
	struct tutti_comm *comm = NULL;
	struct tt_agreed agreed;
	int err;

	err = world ? tt_agreed_get(ctx, &agreed) : tt_fail(-ENOMEM, "no memory for a communicator");
	if (!err)
		err = tt_comm_new(ctx, world, n, id, uid, &comm);
	if (!err)
		err = tt_comm_equip(comm, &agreed);
	if (err && !(comm && atomic_load(&comm->failed))) {
		tt_wire_lock(ctx->wire);
		tt_comm_unmade(ctx, uid, err, call);
		tt_wire_unlock(ctx->wire);
	}
	if (!comm)
		return err;
	*out = comm;
	return 0;
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
	err = tt_comm_check(comm);
	if (!err) {
		*out = comm;
		return 0;
	}
	tt_comm_strip(comm);
	tt_comm_bury(comm);
	return err;
}

int tutti_comm_split(struct tutti_comm *comm, int color, int key, struct tutti_comm **newcomm)
{
	struct part *all;
	int err;

	err = tt_check_comm(comm);
	if (!err)
		err = tt_group_refuse("tutti_comm_split");
	if (err)
		return err;
	if (!newcomm)
		return tt_fail(-EINVAL, "tutti_comm_split: newcomm is NULL");
	if (color < TUTTI_UNDEFINED)
		return tt_fail(-EINVAL,
			       "tutti_comm_split: color is %d; it must be 0 or more, or TUTTI_UNDEFINED",
			       color);
	err = exchange(comm, color, key, &all);
	if (err)
		return err;
	if (color == TUTTI_UNDEFINED)
		*newcomm = NULL;
	else
		err = make(comm, all, color, newcomm);
	tutti_free(all);
	return err;
}

int tutti_comm_dup(struct tutti_comm *comm, struct tutti_comm **newcomm)
{
	int err = tt_check_comm(comm);

	return err ? err : tutti_comm_split(comm, 0, comm->rank, newcomm);
}

int tutti_comm_split_host(struct tutti_comm *comm, int key, struct tutti_comm **newcomm)
{
	uint64_t mine;
	int err, i;

	err = tt_check_comm(comm);
	if (err)
		return err;
	/* The color of a host is the lowest rank on it. */
	mine = tt_wire_host_key(comm->ctx->wire, comm->world[comm->rank]);
	for (i = 0; i < comm->rank; i++)
		if (tt_wire_host_key(comm->ctx->wire, comm->world[i]) == mine)
			break;
	return tutti_comm_split(comm, i, key, newcomm);
}

int tutti_comm_free(struct tutti_comm *comm)
{
	int err = tt_check_comm(comm);

	if (err)
		return err;
	if (comm == comm->ctx->world)
		return tt_fail(-EINVAL, "the world is freed by tutti_finalize");
	tt_wire_lock(comm->ctx->wire);
	if (comm->requests)
		err = tt_fail(-EBUSY,
			      "tutti_comm_free: %d request%s not been waited for or freed",
			      comm->requests, comm->requests == 1 ? " has" : "s have");
	else if (comm->windows)
		err = tt_fail(-EBUSY, "tutti_comm_free: %d window%s not been freed", comm->windows,
			      comm->windows == 1 ? " has" : "s have");
	tt_wire_unlock(comm->ctx->wire);
	if (err)
		return err;
	tt_comm_strip(comm);
	tt_comm_bury(comm);
	return 0;
}

int tutti_comm_abort(struct tutti_comm *comm, int code)
{
	int err = tt_check_comm(comm);

	return err ? err : tt_ctx_abort(comm->ctx, code);
}

int tutti_comm_error(struct tutti_comm *comm, struct tutti_error_info *info)
{
	int err = tt_check_comm(comm);

	if (err)
		return err;
	if (!info || info->size < sizeof(info->size) + sizeof(info->code))
		return tt_fail(-EINVAL, "tutti_comm_error: set info->size first");
	if (!atomic_load(&comm->failed))
		return tutti_last_error(info);
	tt_wire_lock(comm->ctx->wire);
	tt_error_copy(info, &comm->failure);
	tt_wire_unlock(comm->ctx->wire);
	return 0;
}

void tutti_comm_perror(struct tutti_comm *comm, const char *what)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	int rank = comm ? tutti_comm_rank(comm) : -1;

	if (!comm || tutti_comm_error(comm, &info))
		tutti_last_error(&info);
	fprintf(stderr, "%s: rank %d: %s\n", what ? what : "tutti", rank,
		info.text[0] ? info.text : tutti_strerror(info.code));
}

int tutti_stats_get(struct tutti_context *ctx, struct tutti_stats *stats)
{
	struct tutti_stats now;
	struct tt_mem_stats mem;
	int err = tt_check_ctx(ctx);

	if (err)
		return err;
	if (!stats || stats->size < 2 * sizeof(size_t))
		return tt_fail(-EINVAL, "tutti_stats_get: set stats->size first");
	tt_wire_lock(ctx->wire);
	now = *tt_wire_stats(ctx->wire);
	tt_wire_unlock(ctx->wire);
	tt_memory_stats(tt_wire_memory(ctx->wire), &mem);
	now.registrations = mem.registrations;
	now.allocations += mem.allocations;
	now.cache_hits = mem.cache_hits;
	now.cache_misses = mem.cache_misses;
	now.cache_evictions = mem.cache_evictions;
	now.cache_stale = mem.cache_stale;
	now.cache_bytes = mem.cache_bytes;
	now.size = stats->size;
	memcpy(stats, &now, stats->size < sizeof(now) ? stats->size : sizeof(now));
	return 0;
}
