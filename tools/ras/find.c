/* SPDX-License-Identifier: BSD-3-Clause */
/* The jobs that have their rank 0 on this host: their sockets are in /proc/net/unix. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/boot/ras.h"
#include "tools/ras/ras.h"

static bool parse(const char *name, struct job *job)
{
	int at = 0;

	*job = (struct job){0};
	if (strlen(name) >= sizeof(job->name) ||
	    sscanf(name, TT_RAS_PREFIX "%*u/%32[0-9a-f]/%d%n", job->id, &job->pid, &at) != 2 ||
	    name[at])
		return false;
	strcpy(job->name, name);
	return true;
}

/* A line for the listening socket, and one for each that it has accepted. */
static bool known(const struct job *job, const struct job *list, int n)
{
	while (n--)
		if (!strcmp(list[n].name, job->name))
			return true;
	return false;
}

int find_jobs(const char *prefix, int pid, struct job *list, int max)
{
	FILE *f = fopen("/proc/net/unix", "r");
	char line[512], *name;
	struct job job;
	int n = 0;

	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		name = strstr(line, " @" TT_RAS_PREFIX);
		if (!name || !parse(name + 2, &job))
			continue;
		if (strncmp(job.id, prefix, strlen(prefix)) || (pid && job.pid != pid) ||
		    known(&job, list, n < max ? n : max))
			continue;
		if (n < max)
			list[n] = job;
		n++;
	}
	if (f)
		fclose(f);
	return n;
}
