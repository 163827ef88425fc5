/* SPDX-License-Identifier: BSD-3-Clause */
/* CPUs and memory that this process may use; see topo.h. */
#include "lib/topo/topo.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/resource.h>

#include "lib/base/hash.h"

/* The first line of a file without its newline; false if there is none. */
static bool read_line(const char *path, char *buf, size_t size)
{
	FILE *f = fopen(path, "re");
	bool ok;

	if (!f)
		return false;
	ok = fgets(buf, (int)size, f) != NULL;
	fclose(f);
	if (ok)
		buf[strcspn(buf, "\n")] = 0;
	return ok;
}

/* The cgroup v2 folder of this process; false on systems without. */
static bool own_cgroup(char *dir, size_t size)
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	char line[512];
	bool found = false;

	if (!f)
		return false;
	while (!found && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		if (strncmp(line, "0::/", 4))
			continue;
		found = (size_t)snprintf(dir, size, TT_SYSFS "/fs/cgroup%s", line + 3) < size;
	}
	fclose(f);
	return found;
}

int tt_topo_cgroup_cpus(const char *dir)
{
	char path[700], line[64];
	long long quota, period;

	snprintf(path, sizeof(path), "%s/cpu.max", dir);
	if (!read_line(path, line, sizeof(line)) ||
	    sscanf(line, "%lld %lld", &quota, &period) != 2 || quota <= 0 || period <= 0)
		return 0; /* "max 100000" too */
	return (int)((quota + period - 1) / period);
}

uint64_t tt_topo_cgroup_memory(const char *dir)
{
	char path[700], line[64];

	snprintf(path, sizeof(path), "%s/memory.max", dir);
	if (!read_line(path, line, sizeof(line)))
		return 0;
	return strtoull(line, NULL, 10); /* "max" is 0 */
}

/* *id: a number made of the mask. */
static int affinity_cpus(uint64_t *id)
{
	int max, n = 0, i;
	cpu_set_t *set;

	/* the kernel refuses a mask shorter than its own, whose length it does not tell */
	for (max = 1024; max <= 1 << 20 && !n; max *= 2) {
		set = CPU_ALLOC(max);
		if (!set)
			break;
		if (!sched_getaffinity(0, CPU_ALLOC_SIZE(max), set))
			n = CPU_COUNT_S(CPU_ALLOC_SIZE(max), set);
		for (i = 0; n && i < max; i++)
			if (CPU_ISSET_S((size_t)i, CPU_ALLOC_SIZE(max), set))
				*id = tt_hash_add(*id, (uint64_t)i);
		CPU_FREE(set);
	}
	if (!n)
		n = (int)sysconf(_SC_NPROCESSORS_ONLN);
	return n < 1 ? 1 : n;
}

int tt_topo_cpu_set(uint64_t *id)
{
	int n, quota;
	char dir[600];

	*id = 0;
	n = affinity_cpus(id);
	quota = own_cgroup(dir, sizeof(dir)) ? tt_topo_cgroup_cpus(dir) : 0;
	return quota && quota < n ? quota : n;
}

int tt_topo_cpus(void)
{
	uint64_t id;

	return tt_topo_cpu_set(&id);
}

uint64_t tt_topo_memory(void)
{
	uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE), max;
	char dir[600];

	max = own_cgroup(dir, sizeof(dir)) ? tt_topo_cgroup_memory(dir) : 0;
	return max && max < all ? max : all;
}

/* The address space that RLIMIT_AS leaves. */
static uint64_t address_space_left(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	unsigned long long pages = 0;
	struct rlimit l;
	uint64_t used;

	if (f && fscanf(f, "%llu", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	if (getrlimit(RLIMIT_AS, &l) || l.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	used = pages * (uint64_t)sysconf(_SC_PAGESIZE);
	return used < l.rlim_cur ? l.rlim_cur - used : 0;
}

uint64_t tt_topo_memory_available(void)
{
	FILE *f = fopen("/proc/meminfo", "re");
	unsigned long long kib;
	uint64_t bytes = UINT64_MAX, left = address_space_left();
	char line[128];

	if (!f)
		return left;
	while (bytes == UINT64_MAX && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
			bytes = kib << 10;
	fclose(f);
	return bytes < left ? bytes : left;
}
