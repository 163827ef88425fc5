/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators: queries, dup, split, free, errors, abort, and recovery after failures. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/api/api.h"
#include "lib/job/job.h"

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

int tt_check_waiting(const char *call, const struct tutti_comm *comm)
{
	int err = tt_check_comm(comm);

	return err ? err : tt_group_refuse(call);
}

int tt_check_object(const char *call, const char *name, const void *object, bool valid,
		    const char *what)
{
	if (!object)
		return tt_fail(-EINVAL, "%s: %s is NULL", call, name);
	if (!valid)
		return tt_fail(-EINVAL, "%s: %s is not a valid %s, or has been freed", call, name,
			       what);
	return 0;
}

struct tutti_comm *tutti_world(struct tutti_context *ctx)
{
	return tt_check_ctx(ctx) ? NULL : ctx->world;
}

struct tutti_comm *tutti_self(struct tutti_context *ctx)
{
	struct tutti_comm *self = NULL;

	return tt_check_ctx(ctx) || tt_comm_self(ctx, &self) ? NULL : self;
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

static int check_rank(const char *name, const struct tutti_comm *comm, int rank)
{
	if (rank >= 0 && rank < comm->size)
		return 0;
	return tt_fail(-EINVAL, "%s: %d is not a rank of the communicator (0 to %d)", name, rank,
		       comm->size - 1);
}

int tutti_comm_world_rank(const struct tutti_comm *comm, int rank)
{
	int err = tt_check_comm(comm);

	if (!err)
		err = check_rank(__func__, comm, rank);
	return err ? err : comm->world[rank];
}

int tutti_comm_translate_ranks(const struct tutti_comm *comm, int n, const int *ranks,
			       const struct tutti_comm *other, int *theirs)
{
	int i, err = tt_check_comm(comm);

	if (!err)
		err = tt_check_comm(other);
	if (err)
		return err;
	if (n < 0 || (n && (!ranks || !theirs)))
		return tt_fail(-EINVAL, "%s: %s", __func__,
			       n < 0   ? "n is negative"
			       : ranks ? "theirs is NULL"
				       : "ranks is NULL");
	if (comm->ctx != other->ctx)
		return tt_fail(-EINVAL, "%s: the communicators belong to different contexts",
			       __func__);
	for (i = 0; i < n && !err; i++)
		err = check_rank(__func__, comm, ranks[i]);
	for (i = 0; i < n && !err; i++)
		theirs[i] = tt_comm_rank_of(other, comm->world[ranks[i]]);
	return err;
}

int tutti_comm_set_timeout(struct tutti_comm *comm, int ms)
{
	int err = tt_check_comm(comm);

	if (err)
		return err;
	if (ms < TUTTI_NEVER)
		return tt_fail(-EINVAL,
			       "tutti_comm_set_timeout: ms is %d; it must be 0 or more, or "
			       "TUTTI_NEVER",
			       ms);
	tt_wire_lock(comm->ctx->wire);
	comm->timeout = ms < 0 ? TT_NEVER : (uint64_t)ms * TT_MS;
	comm->mixed_timeouts = true;
	tt_wire_unlock(comm->ctx->wire);
	return 0;
}

_Static_assert(TT_FLIGHT_COMM_NAME > TUTTI_COMM_NAME_MAX, "the recorder has room for a name");

static int check_name(const char *call, const char *name)
{
	size_t i;

	for (i = 0; name[i]; i++)
		if (i == TUTTI_COMM_NAME_MAX || name[i] < ' ' || name[i] > '~')
			return tt_fail(-EINVAL,
				       "%s: a name has up to %d printable ASCII characters", call,
				       TUTTI_COMM_NAME_MAX);
	return 0;
}

static void set_name(struct tutti_comm *comm, const char *name)
{
	tt_wire_lock(comm->ctx->wire);
	snprintf(comm->name, sizeof(comm->name), "%s", name);
	tt_flight_name_comm(comm->flight, comm->uid, name);
	tt_wire_unlock(comm->ctx->wire);
}

int tutti_comm_set_name(struct tutti_comm *comm, const char *name)
{
	int err = tt_check_comm(comm);

	if (!err)
		err = name ? check_name(__func__, name)
			   : tt_fail(-EINVAL, "tutti_comm_set_name: name is NULL");
	if (!err)
		set_name(comm, name);
	return err;
}

int tutti_comm_set_owner(struct tutti_comm *comm, const char *owner, const char *free_call)
{
	int err = tt_check_comm(comm);

	if (err)
		return err;
	if (comm == comm->ctx->world || comm == comm->ctx->self)
		return tt_fail(-EINVAL,
			       "tutti_comm_set_owner: %s belongs to the context; pass a "
			       "communicator that tutti_comm_free frees",
			       comm == comm->ctx->world ? "the world" : "tutti_self");
	if (!owner || !owner[0] || !free_call || !free_call[0])
		return tt_fail(-EINVAL, "tutti_comm_set_owner: %s is NULL or empty",
			       owner && owner[0] ? "free_call" : "owner");
	tt_wire_lock(comm->ctx->wire);
	comm->owner = owner;
	comm->owner_free = free_call;
	tt_wire_unlock(comm->ctx->wire);
	return 0;
}

int tutti_comm_get_name(struct tutti_comm *comm, char *name, size_t size)
{
	int err = tt_check_comm(comm);

	if (err)
		return err;
	if (!name)
		return tt_fail(-EINVAL, "tutti_comm_get_name: name is NULL");
	tt_wire_lock(comm->ctx->wire);
	if (strlen(comm->name) < size)
		memcpy(name, comm->name, strlen(comm->name) + 1);
	else
		err = tt_fail(-ERANGE, "tutti_comm_get_name: the name needs %zu bytes, not %zu",
			      strlen(comm->name) + 1, size);
	tt_wire_unlock(comm->ctx->wire);
	return err;
}

/*
 * call is the whole name, as in all texts; part->call is without its prefix. request: NULL is
 * refused.
 */
static int check_split(const char *call, struct tutti_comm *comm, struct tt_comm_part *part,
		       struct tutti_comm **newcomm, struct tutti_request **request)
{
	int err = tt_group_refuse(call);

	if (!err && !newcomm)
		err = tt_fail(-EINVAL, "%s: newcomm is NULL", call);
	if (!err && part->color < TUTTI_UNDEFINED)
		err = tt_fail(-EINVAL, "%s: color is %d; it must be 0 or more, or TUTTI_UNDEFINED",
			      call, part->color);
	if (!err && !request)
		err = tt_fail(-EINVAL, "%s: request is NULL", call);
	if (err)
		tt_comm_refused(comm, TT_REFUSED + part->inner, TT_FORM_CALL, err);
	part->call = tt_short_name(call);
	return err;
}

static int split(const char *call, struct tutti_comm *comm, struct tt_comm_part part,
		 struct tutti_comm **newcomm)
{
	struct tutti_request *req;
	uint64_t begin = 0;
	int err = check_split(call, comm, &part, newcomm, &req);

	if (!err)
		err = tt_comm_isplit(comm, &part, newcomm, &req);
	return err ? err : tt_wait_blocking(&req, &begin);
}

static int isplit(const char *call, struct tutti_comm *comm, struct tt_comm_part part,
		  struct tutti_comm **newcomm, struct tutti_request **request)
{
	int err = check_split(call, comm, &part, newcomm, request);

	return err ? err : tt_comm_isplit(comm, &part, newcomm, request);
}

static struct tt_comm_part part_of(const struct tutti_comm *comm, enum tt_inner inner, int color,
				   int key)
{
	return (struct tt_comm_part){.color = color,
				     .key = key,
				     .flags = comm->tolerant ? TUTTI_COMM_TOLERANT : 0,
				     .inner = inner};
}

int tutti_comm_split(struct tutti_comm *comm, int color, int key, struct tutti_comm **newcomm)
{
	int err = tt_check_comm(comm);

	return err ? err
		   : split(__func__, comm, part_of(comm, TT_INNER_SPLIT, color, key), newcomm);
}

int tutti_comm_isplit(struct tutti_comm *comm, int color, int key, struct tutti_comm **newcomm,
		      struct tutti_request **request)
{
	int err = tt_check_comm(comm);

	return err ? err
		   : isplit(__func__, comm, part_of(comm, TT_INNER_SPLIT, color, key), newcomm,
			    request);
}

static int read_config(const char *call, const struct tutti_comm_config *config,
		       struct tutti_comm_config *c)
{
	static const struct tt_sized sized = TT_SIZED("config", tutti_comm_config, name);

	memset(c, 0, sizeof(*c));
	if (config) {
		config = tt_sized_read(&sized, call, config, c);
		if (!config)
			return -EINVAL;
		*c = *config;
	}
	if (c->flags & ~(unsigned)TUTTI_COMM_TOLERANT)
		return tt_fail(-EINVAL, "%s: unknown flags %#x", call, c->flags);
	return check_name(call, c->name ? c->name : "");
}

/* The fields that say which ranks of a group are left at 0: else the caller wants such a group. */
static int check_no_group(const struct tutti_comm_config *c)
{
	const struct {
		const char *name;
		bool set;
	} field[] = {{"nranks", c->nranks},
		     {"ranks", c->ranks},
		     {"first", c->first},
		     {"stride", c->stride},
		     {"tag", c->tag}};
	size_t i;

	for (i = 0; i < sizeof(field) / sizeof(field[0]); i++)
		if (field[i].set)
			return tt_fail(-EINVAL,
				       "tutti_comm_create: %s is set, but only "
				       "tutti_comm_create_group takes it; call that, or leave it 0",
				       field[i].name);
	return 0;
}

int tutti_comm_create(struct tutti_comm *comm, const struct tutti_comm_config *config,
		      struct tutti_comm **newcomm)
{
	struct tutti_comm *made = NULL;
	struct tutti_comm_config c;
	int err = tt_check_comm(comm);

	if (err)
		return err;
	err = read_config(__func__, config, &c);
	if (!err)
		err = check_no_group(&c);
	if (err)
		tt_comm_refused(comm, TT_REFUSED + TT_INNER_CREATE, TT_FORM_CALL, err);
	else
		err = split(__func__, comm,
			    (struct tt_comm_part){.color = c.color,
						  .key = c.key,
						  .flags = c.flags,
						  .inner = TT_INNER_CREATE},
			    newcomm ? &made : NULL);
	if (err)
		return err;
	if (made && c.name)
		set_name(made, c.name);
	*newcomm = made;
	return 0;
}

int tutti_comm_create_group(struct tutti_comm *comm, const struct tutti_comm_config *config,
			    struct tutti_comm **newcomm)
{
	struct tutti_comm_config c;
	struct tutti_comm *made;
	int err = tt_check_comm(comm);

	if (err)
		return err;
	err = tt_group_refuse(__func__);
	if (!err)
		err = read_config(__func__, config, &c);
	if (!err && !newcomm)
		err = tt_fail(-EINVAL, "%s: newcomm is NULL", __func__);
	if (!err && (c.nranks < 1 || c.nranks > comm->size || c.tag < 0))
		err = tt_fail(-EINVAL, "%s: %s is %d; it must be %s", __func__,
			      c.tag < 0 ? "tag" : "nranks", c.tag < 0 ? c.tag : c.nranks,
			      c.tag < 0 ? "0 or more" : "from 1 to the size of comm");
	if (err) {
		tt_comm_group_refused(comm, err);
		return err;
	}
	err = tt_comm_subset(comm,
			     &(struct tt_comm_subset){.ranks = c.ranks,
						      .nranks = c.nranks,
						      .first = c.first,
						      .stride = c.stride ? c.stride : 1,
						      .tag = c.tag,
						      .flags = c.flags},
			     &made);
	if (err)
		return err;
	if (c.name)
		set_name(made, c.name);
	*newcomm = made;
	return 0;
}

int tutti_comm_dup(struct tutti_comm *comm, struct tutti_comm **newcomm)
{
	int err = tt_check_comm(comm);

	return err ? err
		   : split(__func__, comm, part_of(comm, TT_INNER_DUP, 0, comm->rank), newcomm);
}

int tutti_comm_idup(struct tutti_comm *comm, struct tutti_comm **newcomm,
		    struct tutti_request **request)
{
	int err = tt_check_comm(comm);

	return err ? err
		   : isplit(__func__, comm, part_of(comm, TT_INNER_DUP, 0, comm->rank), newcomm,
			    request);
}

int tutti_comm_split_host(struct tutti_comm *comm, int key, struct tutti_comm **newcomm)
{
	uint64_t mine;
	int err, i;

	err = tt_check_comm(comm);
	if (err)
		return err;
	/* The color of a host is its lowest rank. */
	mine = tt_wire_host_key(comm->ctx->wire, comm->world[comm->rank]);
	for (i = 0; i < comm->rank; i++)
		if (tt_wire_host_key(comm->ctx->wire, comm->world[i]) == mine)
			break;
	return split(__func__, comm,
		     part_of(comm, TT_INNER_SPLIT_HOST, key == TUTTI_UNDEFINED ? key : i, key),
		     newcomm);
}

int tutti_comm_free(struct tutti_comm *comm)
{
	int err = tt_check_comm(comm);

	if (err)
		return err;
	if (comm == comm->ctx->world || comm == comm->ctx->self)
		return tt_fail(-EINVAL, "%s is freed by tutti_finalize",
			       comm == comm->ctx->self ? "self" : "the world");
	if (comm->in_grid)
		return tt_fail(-EINVAL,
			       "%s: the communicator is a grid's; tutti_grid_free frees it",
			       __func__);
	err = tt_comm_carries(comm, __func__);
	if (!err)
		tt_comm_free(comm);
	return err;
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
	if (!atomic_load(&comm->coll_failed) && info && tt_sized_fits(&tt_error_info_sized, info))
		return tutti_last_error(info);
	tt_wire_lock(comm->ctx->wire);
	err = tt_sized_write(&tt_error_info_sized, __func__, info, &comm->failure);
	tt_wire_unlock(comm->ctx->wire);
	return err;
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
	static const struct tt_sized sized = TT_SIZED("stats", tutti_stats, copied_bytes);
	struct tutti_stats now;
	struct tt_mem_stats mem;
	int err = tt_check_ctx(ctx);

	if (err)
		return err;
	tt_wire_lock(ctx->wire);
	now = tt_wire_stats_now(ctx->wire);
	tt_wire_unlock(ctx->wire);
	tt_memory_stats(tt_wire_memory(ctx->wire), &mem);
	now.registrations = mem.registrations;
	now.allocations += mem.allocations;
	now.cache_hits = mem.cache_hits;
	now.cache_misses = mem.cache_misses;
	now.cache_evictions = mem.cache_evictions;
	now.cache_stale = mem.cache_stale;
	now.cache_bytes = mem.cache_bytes;
	return tt_sized_write(&sized, __func__, stats, &now);
}

int tutti_comm_failed(struct tutti_comm *comm, struct tutti_failed *list, int max, int *n)
{
	int err = tt_check_comm(comm);

	if (err)
		return err;
	if (!n || max < 0 || (max && !list))
		return tt_fail(-EINVAL, "tutti_comm_failed: %s",
			       !n	 ? "n is NULL"
			       : max < 0 ? "max is negative"
					 : "list is NULL");
	*n = tt_comm_failed(comm, list, max);
	return 0;
}

int tutti_comm_ack_failed(struct tutti_comm *comm, const struct tutti_failed *list, int n)
{
	int err = tt_check_comm(comm);

	if (err)
		return err;
	if (n < 0 || (n && !list))
		return tt_fail(-EINVAL, "tutti_comm_ack_failed: %s",
			       n < 0 ? "n is negative" : "list is NULL");
	return tt_comm_ack_failed(comm, list, n);
}

int tutti_comm_state(struct tutti_comm *comm, struct tutti_comm_state *state)
{
	static const struct tt_sized sized = TT_SIZED("state", tutti_comm_state, code);
	struct tutti_comm_state now;
	int err = tt_check_comm(comm);

	if (err)
		return err;
	tt_comm_state(comm, &now);
	return tt_sized_write(&sized, __func__, state, &now);
}

int tutti_comm_revoke(struct tutti_comm *comm)
{
	int err = tt_check_comm(comm);

	if (!err)
		tt_comm_revoke(comm);
	return err;
}

/* For calls that wait for the other ranks. */
static int check_waits(struct tutti_comm *comm, const char *call)
{
	int err = tt_check_comm(comm);

	if (err)
		return err;
	err = tt_group_refuse(call);
	if (err)
		tt_vote_refused(comm, err);
	return err;
}

int tutti_comm_agree(struct tutti_comm *comm, enum tutti_op op, uint64_t *value)
{
	int err = check_waits(comm, __func__);

	if (err)
		return err;
	if (!value || (op != TUTTI_BAND && op != TUTTI_BOR)) {
		tt_vote_refused(comm, -EINVAL);
		return tt_fail(-EINVAL, "tutti_comm_agree: %s",
			       value ? "op must be TUTTI_BAND or TUTTI_BOR" : "value is NULL");
	}
	return tt_comm_agree(comm, __func__, op, value);
}

int tutti_comm_shrink(struct tutti_comm *comm, struct tutti_comm **newcomm)
{
	int err = check_waits(comm, __func__);

	if (err)
		return err;
	if (!newcomm) {
		tt_vote_refused(comm, -EINVAL);
		return tt_fail(-EINVAL, "tutti_comm_shrink: newcomm is NULL");
	}
	return tt_comm_shrink(comm, newcomm);
}
