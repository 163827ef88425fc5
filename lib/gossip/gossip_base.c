/* SPDX-License-Identifier: BSD-3-Clause */
/* The communicator and the window that mailboxes and pairs stand on. */
#include <errno.h>
#include <stdlib.h>

#include "lib/base/datatype.h"
#include "lib/engine/vote.h"
#include "lib/gossip/gossip.h"

bool tt_gossip_dead(const struct tt_gossip_base *base, int rank)
{
	struct tt_wire *wire = base->comm->ctx->wire;
	bool dead;

	tt_wire_lock(wire);
	dead = tt_comm_dead(base->comm, rank) >= 0;
	tt_wire_unlock(wire);
	return dead;
}

void tt_gossip_copied(const struct tt_gossip_base *base, size_t bytes)
{
	struct tt_wire *wire = base->comm->ctx->wire;

	tt_wire_lock(wire);
	tt_wire_stats(wire)->copied_bytes += bytes;
	tt_wire_unlock(wire);
}

int tt_gossip_agree(struct tutti_comm *comm, const char *call, size_t count, int datatype)
{
	uint64_t mine[2] = {count, (uint64_t)datatype}, *all = calloc((size_t)comm->size, 16);
	int i, err = tt_agree(comm, call, all ? 0 : tt_fail(-ENOMEM, "%s: no memory", call));

	if (!err)
		err = tt_exchange(comm, mine, all, 2);
	for (i = 1; !err && i < comm->size; i++)
		if (all[2 * i] != all[0] || all[2 * i + 1] != all[1])
			err = tt_comm_blame_rank(
				comm, -EINVAL, i,
				"%s: rank %d passes count %llu and datatype %s, rank %d passes "
				"count %llu and datatype %s",
				call, comm->world[i], (unsigned long long)all[2 * i],
				tt_datatype_name((enum tutti_datatype)all[2 * i + 1]),
				comm->world[0], (unsigned long long)all[0],
				tt_datatype_name((enum tutti_datatype)all[1]));
	free(all);
	return err;
}

int tt_gossip_base_new(struct tutti_comm *comm, const struct tt_gossip_kind *kind, int err,
		       size_t size, struct tt_gossip_base *base)
{
	const char *call = kind->create;
	struct tutti_comm_config config = {.size = sizeof(config), .flags = TUTTI_COMM_TOLERANT};
	struct tt_gossip_base made = {0};
	void *mem;

	err = tt_agree(comm, call, err);
	if (!err)
		err = tutti_comm_create(comm, &config, &made.comm);
	if (err)
		return err;
	err = tt_agree(made.comm, call, tt_vote_reserve(made.comm, 1));
	if (!err)
		err = tutti_win_allocate(made.comm, size, 0, &mem, &made.win);
	if (err) {
		tutti_comm_free(made.comm);
		return err;
	}
	made.mem = mem;
	made.comm->owner = kind->owner;
	made.comm->owner_free = kind->free;
	*base = made;
	return 0;
}

/*
 * The live ranks agree when all of them have come: then no operation is under way, also if some of
 * them know of a death that others have yet to learn of.
 */
int tt_gossip_base_free(struct tt_gossip_base *base, const char *call)
{
	struct tutti_error_info why = {.size = sizeof(why)};
	uint64_t all = 1;
	int err = tt_comm_agree(base->comm, call, TUTTI_BAND, &all), end;

	if (err)
		tutti_last_error(&why);
	end = tutti_win_free(base->win);
	if (end == -TUTTI_EPEER)
		end = 0;
	tutti_comm_free(base->comm);
	return err ? tt_fail_info(&why) : end;
}
