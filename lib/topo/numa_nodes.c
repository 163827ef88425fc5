/* SPDX-License-Identifier: BSD-3-Clause */
/* NUMA nodes that this process may use; see topo.h. */
#include <errno.h>
#include <fcntl.h>
#include <numa.h>
#include <numaif.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/topo/topo.h"

#define ROOM (16 << 10) /* more than what libnuma asks malloc for */

/*
 * libnuma is there and can read /sys, without which (perhaps as no descriptor is left) it writes to
 * stderr and takes all CPUs to be on one node for good. Without memory it ends the process.
 */
static bool can_ask_numa(void)
{
	void *room = malloc(ROOM);
	int fd;

	free(room);
	if (!room || numa_available() < 0)
		return false;
	fd = open("/sys/devices/system/node/node0/cpumap", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	close(fd);
	return true;
}

int tt_topo_node(void)
{
	int cpu;

	if (numa_available() < 0 || numa_num_configured_nodes() < 2 || !can_ask_numa())
		return -1;
	cpu = sched_getcpu();
	return cpu < 0 ? -1 : numa_node_of_cpu(cpu);
}

int tt_topo_home(void)
{
	struct bitmask *may;
	int node, home = -1;

	may = can_ask_numa() ? numa_get_run_node_mask() : NULL;
	if (!may)
		return -1;
	for (node = 0; numa_bitmask_weight(may) == 1 && home < 0; node++)
		home = numa_bitmask_isbitset(may, (unsigned)node) ? node : -1;
	numa_free_nodemask(may);
	return home;
}

int tt_topo_bind(void *addr, size_t len, int node)
{
	struct bitmask *mask;
	int err = 0;

	if (node < 0 || numa_available() < 0)
		return 0;
	if (node > numa_max_node())
		return -EINVAL;
	mask = numa_allocate_nodemask();
	if (!mask)
		return -ENOMEM;
	numa_bitmask_setbit(mask, (unsigned)node);
	/* preferred, not bound: a full node means slower memory, not a killed process */
	if (mbind(addr, len, MPOL_PREFERRED, mask->maskp, mask->size + 1, 0))
		err = -errno;
	numa_free_nodemask(mask);
	return err;
}
