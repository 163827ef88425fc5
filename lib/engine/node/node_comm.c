/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ranks with which a communicator's rank shares memory: all ranks, the ranks of its host if
 * there are several hosts, and the ranks of its NUMA node if one host has several. Each of these
 * groups has its own area (lib/node/node.h).
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/engine/node/node_ops.h"

static void ask_if_due(struct tutti_comm *comm)
{
	if (!comm->ask_at || tt_now_ns() < comm->ask_at)
		return;
	tt_stuck_ask(comm, 1, &comm->stuck);
	comm->ask_at = tt_now_ns() + TT_SEC;
}

/*
 * Called during a wait: makes the progress that other ranks need to get here, such as the last
 * bytes of a split.
 */
static bool has_failed(void *arg)
{
	struct tutti_comm *comm = arg;

	tt_wire_lock(comm->ctx->wire);
	tt_engine_progress(comm->ctx);
	ask_if_due(comm);
	tt_wire_leave(comm->ctx->wire);
	tt_wire_unlock(comm->ctx->wire);
	return atomic_load(&comm->coll_failed);
}

static bool is_gone(void *arg, int world)
{
	struct tutti_comm *comm = arg;

	return tt_boot_gone(comm->ctx->boot, world, NULL, 0);
}

static bool is_due(void *arg, uint64_t deadline)
{
	const struct tutti_comm *comm = arg;

	return tt_engine_due(comm->ctx, deadline);
}

struct tt_node_params tt_node_params_of(struct tutti_comm *comm, const struct tt_node_comm *nc,
					const int *world, const int *numa)
{
	uint64_t timeout = tt_comm_timeout(comm);

	return (struct tt_node_params){.uid = nc->uid,
				       .rank = nc->member_here,
				       .size = nc->n,
				       .world = world,
				       .numa = numa,
				       .plain = comm->ctx->node_can & TT_NODE_READS,
				       .deadline = timeout == TT_NEVER ? TT_NEVER
								       : tt_now_ns() + timeout,
				       .due = is_due,
				       .failed = has_failed,
				       .gone = is_gone,
				       .arg = comm};
}

/*
 * The group of the ranks that share this rank's host or NUMA node; of all ranks if hosts is NULL.
 */
static int new_group(struct tutti_comm *comm, const struct tt_hosts *hosts, uint64_t uid,
		     struct tt_node_comm **out)
{
	int host = hosts ? hosts->host[comm->rank] : 0, n = hosts ? hosts->size[host] : comm->size,
	    i;
	struct tt_node_comm *nc = calloc(1, sizeof(*nc) + 3 * (size_t)n * sizeof(int));
	int *world, *numa;

	if (!nc)
		return tt_fail(-ENOMEM, "no memory for a communicator");
	nc->n = n;
	nc->uid = uid;
	nc->stores.cache = comm->ctx->cache;
	tt_list_init(&nc->batches);
	nc->member = (int *)(nc + 1); /* then the group's world and numa */
	nc->member_here = hosts ? hosts->local[comm->rank] : comm->rank;
	world = nc->member + n;
	numa = world + n;
	for (i = 0; i < n; i++) {
		nc->member[i] = hosts ? hosts->rank[host * hosts->places + i] : i;
		world[i] = comm->world[nc->member[i]];
		numa[i] = tt_wire_numa(comm->ctx->wire, world[i]);
	}
	tt_short_new(nc);
	*out = nc;
	return 0;
}

/* Shares the area of one group, NULL: there is none. */
static int share(struct tutti_comm *comm, struct tt_node_comm *nc, bool now)
{
	struct tt_node_params p;

	if (!nc || nc->group)
		return 0;
	p = tt_node_params_of(comm, nc, nc->member + nc->n, nc->member + 2 * nc->n);
	p.now = now;
	return tt_node_group_new(comm->ctx->node, &p, &nc->group);
}

/*
 * As hosts, for NUMA nodes; *hosts is NULL if all ranks are on one node, each is alone, or a node
 * is unknown.
 */
static int find_numa(const struct tutti_comm *comm, uint64_t *key, struct tt_hosts **hosts)
{
	int i, node;

	*hosts = NULL;
	for (i = 0; i < comm->size; i++) {
		node = tt_wire_numa(comm->ctx->wire, comm->world[i]);
		if (node < 0)
			return 0;
		key[i] = (uint64_t)node;
	}
	return tt_hosts_new(key, comm->size, hosts);
}

/*
 * *hosts is NULL if all ranks share one host (*numa may then be set), or if each rank is alone on
 * its host (*alone).
 */
static int find_hosts(const struct tutti_comm *comm, struct tt_hosts **hosts,
		      struct tt_hosts **numa, bool *alone)
{
	uint64_t *key = malloc((size_t)comm->size * sizeof(*key));
	bool one = true;
	int i, err;

	*hosts = *numa = NULL;
	*alone = false;
	if (!key)
		return tt_fail(-ENOMEM, "no memory for a communicator");
	for (i = 0; i < comm->size; i++) {
		key[i] = tt_wire_host_key(comm->ctx->wire, comm->world[i]);
		one &= key[i] == key[0];
	}
	err = one ? find_numa(comm, key, numa) : tt_hosts_new(key, comm->size, hosts);
	*alone = !one && !*hosts;
	free(key);
	return err;
}

#define UID_NEAR 0x6e656172 /* of a NUMA node's area, as its lowest rank may be comm's lowest */

int tt_node_comm_new(struct tutti_comm *comm)
{
	bool alone = false;
	int err;

	if (!(comm->ctx->node_can & TT_NODE_MAPS) || comm->size < 2)
		return 0;
	err = find_hosts(comm, &comm->hosts, &comm->numa, &alone);
	if (err || alone || (comm->hosts ? comm->hosts->places : comm->size) > TT_NODE_RANKS) {
		tt_node_comm_free(comm);
		return err;
	}
	err = new_group(comm, comm->hosts, comm->uid, &comm->node);
	if (!err && comm->numa)
		err = new_group(comm, comm->numa, tt_hash_add(comm->uid, UID_NEAR), &comm->near);
	if (err)
		tt_node_comm_free(comm);
	return err;
}

int tt_node_comm_share(struct tutti_comm *comm, bool now)
{
	int err = share(comm, comm->node, now);

	if (!err)
		err = share(comm, comm->near, now);
	if (err == -EAGAIN && atomic_load(&comm->coll_failed))
		err = tt_fail_info(&comm->failure);
	if (err == -ETIMEDOUT)
		err = tt_node_comm_late(comm);
	if (err && err != -EAGAIN)
		tt_node_comm_free(comm);
	return err;
}

void tt_node_comm_cache(struct tutti_comm *comm, size_t cache)
{
	if (comm->node)
		comm->node->stores.cache = cache;
	if (comm->near)
		comm->near->stores.cache = cache;
}

int tt_node_comm_late(const struct tutti_comm *comm)
{
	const struct tt_node_comm *nc = comm->node->group ? comm->near : comm->node;
	int i, rank = comm->world[nc->member[0]];
	char why[224] = "";

	if (!nc->member_here)
		return tt_fail(-ETIMEDOUT, "no room for the communicator's area: other ranks of "
					   "this host did not come for theirs in time");
	for (i = 0; i < comm->nlate; i++)
		if (comm->late[i] == rank)
			tt_late_why_text(&comm->late_why[i], why, sizeof(why));
	return tt_comm_blame_rank(comm, -ETIMEDOUT, nc->member[0],
				  "rank %d on host %s made no area for the communicator in time%s",
				  rank, tt_boot_host(comm->ctx->boot, rank), why);
}

static void free_group(struct tutti_comm *comm, struct tt_node_comm **nc)
{
	if (!*nc)
		return;
	tt_node_check_last(comm, *nc);
	tt_node_batches_free(comm, *nc);
	if (atomic_load(&comm->coll_failed)) { /* on all ranks: those that have not come for its
						  area never will */
		tt_node_forget(comm->ctx->node, (*nc)->uid);
		tt_node_group_free((*nc)->group);
	} else {
		tt_node_group_leave((*nc)->group);
	}
	tt_short_free(*nc);
	free(*nc);
	*nc = NULL;
}

void tt_node_comm_free(struct tutti_comm *comm)
{
	free_group(comm, &comm->node);
	free_group(comm, &comm->near);
	free(comm->hosts);
	free(comm->numa);
	comm->hosts = comm->numa = NULL;
}
