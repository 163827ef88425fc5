/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the listening ranks of this host by their sockets in /proc/net/unix. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/boot/control/ras.h"
#include "tools/ras/ras.h"

#define DOORS_MAX 65536

static bool parse(const char *name, struct door *door)
{
	int at = 0;

	*door = (struct door){.rank = -1};
	if (strlen(name) >= sizeof(door->name) ||
	    sscanf(name, TT_RAS_PREFIX "%u/%32[0-9a-f]/%d/%d%n", &door->uid, door->job, &door->rank,
		   &door->pid, &at) != 4 ||
	    name[at] || door->rank < 0)
		return false;
	strcpy(door->name, name);
	return true;
}

static bool wanted(const struct wish *w, const struct door *door)
{
	if (w->pid)
		return door->pid == w->pid;
	if (*w->job)
		return !strncmp(door->job, w->job, strlen(w->job));
	return w->list || door->uid == geteuid();
}

static int by_job_and_rank(const void *a, const void *b)
{
	const struct door *x = a, *y = b;
	int c = strcmp(x->job, y->job);

	return c ? c : (x->rank > y->rank) - (x->rank < y->rank);
}

/* There is a line for the listening socket, and one for each that it has accepted. */
static int once_each(struct door *list, int n)
{
	int i, kept = 0;

	for (i = 0; i < n; i++)
		if (!kept || strcmp(list[i].name, list[kept - 1].name))
			list[kept++] = list[i];
	return kept;
}

int find_doors(const struct wish *w, struct door **list)
{
	FILE *f = fopen("/proc/net/unix", "r");
	struct door door, *more;
	char line[512], *name;
	int n = 0;

	*list = NULL;
	if (!f) {
		fprintf(stderr, "tutti_ras: /proc/net/unix: %s\n", strerror(errno));
		return -1;
	}
	while (n < DOORS_MAX && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		name = strstr(line, " @" TT_RAS_PREFIX);
		if (!name || !parse(name + 2, &door) || !wanted(w, &door))
			continue;
		more = n % 64 ? *list : realloc(*list, ((size_t)n + 64) * sizeof(*more));
		if (!more)
			break;
		*list = more;
		more[n++] = door;
	}
	fclose(f);
	if (n)
		qsort(*list, (size_t)n, sizeof(**list), by_job_and_rank);
	return once_each(*list, n);
}

bool door_is_open(const struct door *door)
{
	struct wish w = {.pid = door->pid, .job = ""};
	struct door *list;
	int n = find_doors(&w, &list), i;
	bool open = n < 0;

	for (i = 0; i < n; i++)
		open |= !strcmp(list[i].name, door->name);
	free(list);
	return open;
}
