/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A communicator of some ranks of another one, made by these ranks alone. Its unique id follows
 * from the ranks, the tag and how often these have been used before, which all members know, so
 * the members need no exchange to agree on it. One reduction over the new communicator follows: it
 * agrees on the number shown in texts, compares the flags, and ends when all members have made
 * their part.
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/base/reserve.h"
#include "lib/engine/launch.h"
#include "lib/job/job.h"

#define SALT 0x737562736574

struct tt_subset_use {
	struct tt_subset_use *next;
	uint64_t key, times;
};

static int64_t member_of(const struct tt_comm_subset *s, int i)
{
	return s->ranks ? s->ranks[i] : s->first + (int64_t)i * s->stride;
}

/* Also translates to ranks of the world. A call for other ranks is none that this one has missed.
 */
static int check(struct tutti_comm *comm, const struct tt_comm_subset *s, int *world)
{
	bool *seen = calloc((size_t)comm->size, sizeof(*seen));
	int i, err = 0;
	int64_t r;

	if (!seen)
		return tt_fail(-ENOMEM, "no memory for a communicator");
	for (i = 0; i < s->nranks && !err; i++) {
		r = member_of(s, i);
		if (r < 0 || r >= comm->size || seen[r])
			err = tt_fail(-EINVAL, "tutti_comm_create_group: rank %lld is %s (0 to %d)",
				      (long long)r,
				      r < 0 || r >= comm->size ? "not one of the communicator"
							       : "listed twice",
				      comm->size - 1);
		else
			seen[r] = true;
		if (!err)
			world[i] = comm->world[r];
	}
	if (err)
		tt_comm_group_refused(comm, err);
	else if (!seen[comm->rank])
		err = tt_fail(-EINVAL,
			      "tutti_comm_create_group: this rank, %d, is not among the ranks",
			      comm->rank);
	free(seen);
	return err;
}

/*
 * The unique id of the new communicator, from how often this group of comm has been made before;
 * counts this time.
 */
static int count_use(struct tutti_comm *comm, const struct tt_comm_subset *s, const int *world,
		     uint64_t *uid)
{
	uint64_t key = tt_hash_add(tt_hash_add(comm->uid, SALT), (uint64_t)s->tag);
	struct tt_subset_use *use;
	int i;

	for (i = 0; i < s->nranks; i++)
		key = tt_hash_add(key, (uint64_t)world[i]);
	for (use = comm->subsets; use && use->key != key; use = use->next)
		;
	if (!use) {
		use = calloc(1, sizeof(*use));
		if (!use)
			return tt_fail(-ENOMEM, "no memory for a communicator");
		use->key = key;
		use->next = comm->subsets;
		comm->subsets = use;
	}
	*uid = tt_hash_add(key, use->times++);
	return 0;
}

void tt_comm_forget_subsets(struct tutti_comm *comm)
{
	struct tt_subset_use *use;

	while ((use = comm->subsets)) {
		comm->subsets = use->next;
		free(use);
	}
}

/*
 * A rank that has not come knows nothing of the communicator, and does not answer unless its call
 * was refused.
 */
static int incomplete(const struct tutti_comm *comm, const struct tt_comm_subset *s)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	int rank = tutti_last_error(&info) ? -1 : info.rank;

	return tt_fail_rank(-ETIMEDOUT, rank, info.host,
			    "tutti_comm_create_group: not all of the %d ranks have called it with "
			    "the same ranks in the same order and tag %d: %.250s",
			    s->nranks, s->tag, info.text);
}

#define VALUES 3

static struct tt_call most_call(uint64_t *most)
{
	return (struct tt_call){.coll = TT_COLL_ALLREDUCE,
				.in_place = true,
				.recvbuf = most,
				.count = VALUES,
				.datatype = TUTTI_UINT64,
				.op = TUTTI_MAX,
				.inner = TT_INNER_CREATE_GROUP};
}

/* The greatest of each of the values of all ranks. */
static int find_most(struct tutti_comm *comm, uint64_t *most)
{
	struct tt_call call = most_call(most);
	struct tutti_request *req;
	uint64_t begin = 0;
	int err;

	tt_wire_lock(comm->ctx->wire);
	err = tt_comm_check(comm); /* one that has failed may lack its parts */
	if (!err)
		err = tt_request_new(comm, &call, false, &req);
	if (!err)
		err = tt_request_launch(req);
	tt_wire_unlock(comm->ctx->wire);
	if (!err)
		return tt_wait_blocking(&req, &begin);
	tt_record_due(comm->ctx);
	return tt_tell_unable(comm, "comm_create_group", err);
}

static int meet(struct tutti_comm *comm, const struct tt_comm_subset *s)
{
	/* the largest of the last two, of which the second is inverted, show whether flags differ
	 */
	uint64_t most[VALUES] = {0, s->flags, ~(uint64_t)s->flags};
	int err;

	tt_wire_lock(comm->ctx->wire);
	most[0] = comm->id;
	tt_wire_unlock(comm->ctx->wire);
	err = find_most(comm, most);
	if (err == -ETIMEDOUT)
		return incomplete(comm, s);
	if (err)
		return err;
	if (most[1] != ~most[2])
		return tt_fail(-TUTTI_EMISMATCH,
			       "tutti_comm_create_group: the ranks passed different flags");
	tt_wire_lock(comm->ctx->wire);
	comm->timeout = 0;
	comm->id = (uint32_t)most[0];
	if (comm->flight && comm->flight->uid == comm->uid)
		comm->flight->id = comm->id;
	if (most[0] >= comm->ctx->next_comm_id)
		comm->ctx->next_comm_id = (uint32_t)most[0] + 1;
	tt_wire_unlock(comm->ctx->wire);
	return 0;
}

/* The members meet for the first time: those that wait for the lowest of a host ask why it is late.
 */
static void finish(struct tutti_comm *made)
{
	struct tutti_context *ctx = made->ctx;
	struct tt_call call = most_call(NULL);

	tt_wire_lock(ctx->wire);
	made->stuck = tt_call_fields(made, &call, NULL);
	made->ask_at = tt_now_ns() + (uint64_t)ctx->env.late_after.number * TT_MS;
	tt_wire_unlock(ctx->wire);
	tt_comm_finish(made, "comm_create_group");
	tt_wire_lock(ctx->wire);
	made->ask_at = 0;
	tt_wire_unlock(ctx->wire);
}

/* *given_up: the others have begun this attempt, and ended it, before this rank came. */
static int make(struct tutti_comm *comm, const struct tt_comm_subset *s, const int *world,
		const struct tt_comm_kind *kind, struct tutti_comm **out, bool *given_up)
{
	struct tutti_comm *made;
	int err = tt_comm_begin(comm->ctx, world, s->nranks, kind, "comm_create_group", &made);

	if (err)
		return err;
	finish(made);
	*given_up = atomic_load(&made->failed) == -ETIMEDOUT;
	err = meet(made, s);
	if (err)
		tt_comm_free(made);
	else
		*out = made;
	return err;
}

/* The ranks in the world, which the caller frees, and the unique id. */
static int prepare(struct tutti_comm *comm, const struct tt_comm_subset *s, int **world,
		   uint64_t *uid)
{
	int err;

	*world = malloc((size_t)s->nranks * sizeof(**world));
	err = *world ? check(comm, s, *world) : tt_fail(-ENOMEM, "no memory for a communicator");
	if (!err)
		err = count_use(comm, s, *world, uid);
	if (err)
		free(*world);
	return err;
}

void tt_comm_group_refused(struct tutti_comm *comm, int code)
{
	tt_ctx_lacks(comm->ctx, code);
	tt_wire_lock(comm->ctx->wire);
	comm->groups_missed++;
	comm->group_why = code;
	tt_wire_unlock(comm->ctx->wire);
}

static int attempt(struct tutti_comm *comm, const struct tt_comm_subset *s, struct tutti_comm **out,
		   bool *given_up)
{
	struct tutti_context *ctx = comm->ctx;
	struct tt_comm_kind kind = {.tolerant = s->flags & TUTTI_COMM_TOLERANT,
				    .timeout = comm->timeout};
	int *world, err;

	*given_up = false;
	tt_wire_lock(ctx->wire);
	tt_reserve_fill(ctx->boot_params.nranks);
	kind.id = ctx->next_comm_id;
	tt_reserve_enter();
	err = prepare(comm, s, &world, &kind.uid);
	tt_reserve_leave();
	tt_wire_unlock(ctx->wire);
	if (err == -ENOMEM)
		tt_comm_group_refused(comm, err);
	if (err)
		return err;
	err = make(comm, s, world, &kind, out, given_up);
	free(world);
	return err;
}

/* Whether a refused call of this rank is left to make up for; several threads may ask. */
static bool missed_one(struct tutti_comm *comm)
{
	unsigned n = atomic_load(&comm->groups_missed);

	while (n && !atomic_compare_exchange_weak(&comm->groups_missed, &n, n - 1))
		;
	return n;
}

/*
 * The others may have given up attempts, which count, while calls of this rank were refused. A late
 * call, which was not, is over with the attempt that it was for.
 */
int tt_comm_subset(struct tutti_comm *comm, const struct tt_comm_subset *s, struct tutti_comm **out)
{
	uint64_t begin = tt_now_ns();
	bool given_up;
	int err;

	do {
		err = attempt(comm, s, out, &given_up);
	} while (err && given_up && tt_now_ns() - begin < tt_comm_timeout(comm) &&
		 missed_one(comm));
	if (!err)
		comm->groups_missed = 0;
	return err;
}
