/* SPDX-License-Identifier: BSD-3-Clause */
/* The deaths of actors, of which a learner takes note: its waits then need the others only. */
#include <errno.h>
#include <stdlib.h>

#include "examples/rl/rl.h"

int leave_dead(struct tutti_comm *comm, bool *dead)
{
	int size = tutti_comm_size(comm), n = 0, err, i;
	struct tutti_failed *list = malloc((size_t)size * sizeof(*list));

	if (!list)
		return -ENOMEM;
	err = tutti_comm_failed(comm, list, size, &n);
	if (!err)
		err = tutti_comm_ack_failed(comm, list, n);
	for (i = 0; dead && !err && i < n; i++)
		dead[list[i].rank] = true;
	free(list);
	return !err && n == size - 1 ? -TUTTI_EPEER : err;
}
