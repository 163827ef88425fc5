/* SPDX-License-Identifier: BSD-3-Clause */
/* The caches of a CPU; see topo.h. */
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "lib/topo/topo.h"

#define INDEXES 8 /* of the folders of one CPU's caches, more than there are */

/* The first line of a file of cache `index`; "" if there is none. */
static const char *line_of(const char *sysfs, int index, const char *name, char *line, size_t size)
{
	int cpu = sched_getcpu();
	char path[300];
	FILE *f;

	snprintf(path, sizeof(path), "%s/devices/system/cpu/cpu%d/cache/index%d/%s", sysfs,
		 cpu < 0 ? 0 : cpu, index, name);
	line[0] = 0;
	f = fopen(path, "re");
	if (!f)
		return line;
	if (!fgets(line, (int)size, f))
		line[0] = 0;
	fclose(f);
	return line;
}

/* "32768K" */
static size_t parse_size(const char *text)
{
	unsigned long long size = 0;
	char unit = 0;

	if (sscanf(text, "%llu%c", &size, &unit) < 1)
		return 0;
	return (size_t)size << (unit == 'G' ? 30 : unit == 'M' ? 20 : unit == 'K' ? 10 : 0);
}

/* "0-3,8": 5 */
static int count_list(const char *list)
{
	int n = 0, first, last, len;

	for (; *list; list += strcspn(list, ","), list += *list == ',') {
		len = sscanf(list, "%d-%d", &first, &last);
		n += len == 2 && last >= first ? last - first + 1 : len >= 1;
	}
	return n;
}

size_t tt_topo_cache(const char *sysfs, int *cpus)
{
	int i, level, highest = 0;
	size_t size, most = 0;
	char line[4096];

	*cpus = 1;
	for (i = 0; i < INDEXES; i++) {
		if (sscanf(line_of(sysfs, i, "level", line, sizeof(line)), "%d", &level) != 1 ||
		    level <= highest ||
		    !strncmp(line_of(sysfs, i, "type", line, sizeof(line)), "Instruction", 11))
			continue;
		size = parse_size(line_of(sysfs, i, "size", line, sizeof(line)));
		if (!size)
			continue;
		highest = level;
		most = size;
		*cpus = count_list(line_of(sysfs, i, "shared_cpu_list", line, sizeof(line)));
		*cpus = *cpus < 1 ? 1 : *cpus;
	}
	return most;
}
