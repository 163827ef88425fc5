/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a thread may run, and moving it away from a crowded CPU; see topo.h. */
#include "lib/topo/topo.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/log.h"

int tt_topo_runnable(void)
{
	FILE *f = fopen("/proc/loadavg", "re");
	int n = -1;

	if (!f)
		return -1;
	if (fscanf(f, "%*f %*f %*f %d", &n) != 1)
		n = -1;
	fclose(f);
	return n;
}

int tt_topo_bindable(void)
{
	cpu_set_t had, most;

	if (sched_getaffinity(0, sizeof(had), &had))
		return -1;
	memset(&most, 0xff, sizeof(most));
	if (sched_setaffinity(0, sizeof(most), &most) || sched_getaffinity(0, sizeof(most), &most))
		most = had;
	if (sched_setaffinity(0, sizeof(had), &had))
		tt_warn("a thread is no longer bound as it was: %s", strerror(errno));
	return CPU_COUNT(&most);
}

int tt_topo_spread(const uint16_t *on, int ncpus, int here)
{
	int cpu, best = here;
	cpu_set_t may, one;

	/* -EINVAL: a machine of more CPUs than fit in the set */
	if (here < 0 || here >= ncpus || sched_getaffinity(0, sizeof(may), &may))
		return here;
	for (cpu = 0; cpu < ncpus && cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &may) && on[cpu] + 2 <= on[here] &&
		    (best == here || on[cpu] < on[best] ||
		     (on[cpu] == on[best] && abs(cpu - here) < abs(best - here))))
			best = cpu;
	if (best == here)
		return here;
	CPU_ZERO(&one);
	CPU_SET(best, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		return here;
	if (sched_setaffinity(0, sizeof(may), &may))
		tt_warn("a thread that moved to CPU %d stays bound to it: %s", best,
			strerror(errno));
	return best;
}
