/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The areas of persistent operations: each has its own flags, small slots and turns, so that
 * operations start in any order. The lowest rank of a host makes areas in batches, in the _init
 * call that needs the first of a batch. Another rank maps the batch in one of its _init calls if
 * the batch is there by then, else when it first starts an operation in it. So an _init call waits
 * for no other rank. Batch and place follow from the number of the _init call, which is the same on
 * all ranks. No place is used twice: other ranks may still look at the flags of an operation that
 * this rank has freed.
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/base/hash.h"
#include "lib/engine/node/node_ops.h"

#define BATCH_RANKS 256 /* ranks in all areas of a batch, at least one area */
#define BATCH_MOST 64	/* areas */
#define UID_BATCH 0x62617463

struct node_batch {
	struct tt_list link; /* in the batches of the communicator's ranks */
	uint32_t number;
	int areas, users;
	struct tt_node_group *group; /* NULL: not mapped yet */
};

static int areas_of(const struct tt_node_comm *base)
{
	int n = BATCH_RANKS / base->n;

	return n < 1 ? 1 : n > BATCH_MOST ? BATCH_MOST : n;
}

static uint64_t uid_of(const struct tt_node_comm *base, const struct node_batch *b)
{
	return tt_hash_add(tt_hash_add(base->uid, UID_BATCH), b->number);
}

/* The lowest rank makes the areas. 0, -EAGAIN: not there yet; or an error. */
static int map_batch(struct tutti_comm *comm, const struct tt_node_comm *base, struct node_batch *b)
{
	const int *world = base->member + base->n;
	struct tt_node_params p;
	int err;

	if (b->group)
		return 0;
	p = tt_node_params_of(comm, base, world, NULL);
	p.uid = uid_of(base, b);
	p.areas = b->areas;
	p.now = true;
	err = tt_node_group_new(comm->ctx->node, &p, &b->group);
	if (!err && !base->member_here)
		tt_node_wake_all(b->group); /* ranks may wait for it */
	return err;
}

static struct node_batch *batch_of(struct tt_node_comm *base, uint32_t init)
{
	uint32_t number = (init - 1) / (uint32_t)areas_of(base);
	struct tt_list *l, *tmp;
	struct node_batch *b;

	tt_list_each(l, tmp, &base->batches)
	{
		b = tt_container(l, struct node_batch, link);
		if (b->number == number)
			return b;
	}
	b = calloc(1, sizeof(*b));
	if (!b)
		return NULL;
	b->number = number;
	b->areas = areas_of(base);
	tt_list_init(&b->link);
	tt_list_add(&base->batches, &b->link);
	return b;
}

static void free_batch(struct tutti_comm *comm, struct tt_node_comm *base, struct node_batch *b)
{
	if (atomic_load(&comm->coll_failed)) /* on all ranks: no more of them come for it */
		tt_node_forget(comm->ctx->node, uid_of(base, b));
	tt_node_group_free(b->group);
	tt_list_del(&b->link);
	free(b);
}

/*
 * Maps the batches that are there by now, as the lowest rank can hand out a limited number at once,
 * and frees those that this rank has finished with: no later _init call uses a place of them. The
 * lowest rank keeps an area until all ranks have mapped it, so they map even what they do not need,
 * or try again later.
 */
static void tidy(struct tutti_comm *comm, struct tt_node_comm *base)
{
	struct tt_list *l, *tmp;
	int err;

	tt_list_each(l, tmp, &base->batches)
	{
		struct node_batch *b = tt_container(l, struct node_batch, link);

		err = map_batch(comm, base, b);
		if (b->users || comm->inits < (b->number + 1) * (uint32_t)b->areas)
			continue;
		if (!err || atomic_load(&comm->coll_failed))
			free_batch(comm, base, b);
	}
}

static struct tt_node_comm *base_of(const struct tutti_comm *comm, const struct tt_plan *plan)
{
	return comm->numa && plan->args.hosts ? comm->near : comm->node;
}

/* Finds the area of a persistent operation. 0, -EAGAIN: not there yet; or an error. */
static int enter(struct tutti_comm *comm, struct tt_node_comm *nc)
{
	struct node_batch *b = nc->batch;
	int err = map_batch(comm, nc->base, b);

	if (err)
		return err;
	return tt_node_group_part(b->group, (int)((nc->init - 1) % (uint32_t)b->areas), &nc->group);
}

int tt_node_series_new(struct tt_plan_req *req)
{
	struct tutti_comm *comm = req->r.comm;
	struct tt_node_comm *base = base_of(comm, req->plan), *nc;
	uint32_t init = comm->inits + 1;
	struct node_batch *b;
	int err;

	tidy(comm, base);
	b = batch_of(base, init);
	nc = b ? calloc(1, sizeof(*nc)) : NULL;
	if (!nc)
		return tt_fail(-ENOMEM, "no memory for a persistent operation");
	nc->uid = base->uid;
	nc->n = base->n;
	nc->member = base->member;
	nc->member_here = base->member_here;
	nc->init = init;
	nc->base = base;
	nc->batch = b;
	err = enter(comm, nc);
	if (err && err != -EAGAIN) {
		free(nc);
		return err;
	}
	b->users++;
	req->node = nc;
	return 0;
}

bool tt_node_series_there(struct tutti_comm *comm, struct tt_node_comm *nc)
{
	int err = enter(comm, nc);

	if (err && err != -EAGAIN && !atomic_load(&comm->failed))
		tt_comm_fail(comm, err, -1, "", 0, "", "%s", tt_fail_text(err));
	return !err;
}

void tt_node_series_free(struct tutti_comm *comm, struct tt_node_comm *nc)
{
	tt_node_check_last(comm, nc);
	tt_node_group_free(nc->group);
	nc->batch->users--;
	tidy(comm, nc->base);
	free(nc);
}

void tt_node_batches_free(struct tutti_comm *comm, struct tt_node_comm *nc)
{
	struct tt_list *l, *tmp;

	tt_list_each(l, tmp, &nc->batches)
	{
		struct node_batch *b = tt_container(l, struct node_batch, link);

		map_batch(comm, nc, b); /* as in tidy */
		free_batch(comm, nc, b);
	}
}
