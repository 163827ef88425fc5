/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gives each rank of this host its share of the CPUs.
 *
 * The CPUs are sorted by NUMA node and core and cut into pieces of equal length, none of which
 * crosses a node if there are more ranks than nodes. Where more pieces fit than there are ranks,
 * those on which other programs run are left out. Processes that start together would otherwise
 * share a core until the kernel moves one of them.
 */
#include <ctype.h>
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/topo/topo.h"
#include "tools/run/run.h"

/* The smallest share: a core, or one of its threads if there are more ranks than cores. */
struct unit {
	cpu_set_t cpus;
	int node, core; /* the core's first CPU */
	int busy;	/* threads of other programs that run there */
};

struct units {
	struct unit *v;
	int n;
};

static int node_of(const char *sysfs, int cpu)
{
	char path[PATH_MAX];
	struct dirent *e;
	int node = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/devices/system/cpu/cpu%d", sysfs, cpu);
	dir = opendir(path);
	while (dir && (e = readdir(dir)) != NULL)
		if (!strncmp(e->d_name, "node", 4) && isdigit((unsigned char)e->d_name[4]))
			node = atoi(e->d_name + 4);
	if (dir)
		closedir(dir);
	return node;
}

static int core_of(const char *sysfs, int cpu)
{
	char path[PATH_MAX];
	int core = cpu;
	FILE *f;

	snprintf(path, sizeof(path), "%s/devices/system/cpu/cpu%d/topology/thread_siblings_list",
		 sysfs, cpu);
	f = fopen(path, "re");
	if (f && fscanf(f, "%d", &core) != 1)
		core = cpu;
	if (f)
		fclose(f);
	return core;
}

static int by_place(const void *a, const void *b)
{
	const struct unit *u = a, *v = b;

	return u->node != v->node ? u->node - v->node : u->core - v->core;
}

/* One unit for each of the CPUs in may, in the order of nodes and cores. */
static struct units read_cpus(const char *sysfs, const cpu_set_t *may)
{
	struct units u = {.v = must_alloc((size_t)CPU_COUNT(may) * sizeof(*u.v))};
	int cpu;

	for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, may))
			continue;
		CPU_ZERO(&u.v[u.n].cpus);
		CPU_SET(cpu, &u.v[u.n].cpus);
		u.v[u.n].node = node_of(sysfs, cpu);
		u.v[u.n++].core = core_of(sysfs, cpu);
	}
	qsort(u.v, (size_t)u.n, sizeof(*u.v), by_place);
	return u;
}

/* Makes one unit of the CPUs of a core if there are enough cores for count ranks. */
static void join_threads(struct units *u, int count)
{
	int i, cores = 0;

	for (i = 0; i < u->n; i++)
		cores += !i || by_place(&u->v[i - 1], &u->v[i]);
	if (cores < count)
		return;
	cores = 0;
	for (i = 0; i < u->n; i++)
		if (!i || by_place(&u->v[cores - 1], &u->v[i]))
			u->v[cores++] = u->v[i];
		else
			CPU_OR(&u->v[cores - 1].cpus, &u->v[cores - 1].cpus, &u->v[i].cpus);
	u->n = cores;
}

/* Counts the thread whose stat file this is, if it runs. */
static void count_thread(const char *path, struct units *u)
{
	char state = 0, line[1024];
	int cpu = -1, i;
	size_t len;
	FILE *f = fopen(path, "re");
	char *at;

	if (!f)
		return; /* it has ended */
	len = fread(line, 1, sizeof(line) - 1, f);
	fclose(f);
	line[len] = 0;
	at = strrchr(line, ')'); /* the name before it may hold anything */
	if (!at || sscanf(at, ") %c", &state) != 1 || state != 'R')
		return;
	/* Field 3 is the state, field 39 the CPU. */
	for (i = 2; at && i < 39; i++)
		at = strchr(at + 1, ' ');
	if (!at || sscanf(at, "%d", &cpu) != 1 || cpu < 0 || cpu >= CPU_SETSIZE)
		return;
	for (i = 0; i < u->n; i++)
		u->v[i].busy += CPU_ISSET(cpu, &u->v[i].cpus) ? 1 : 0;
}

static void count_process(const char *proc, const char *pid, struct units *u)
{
	char path[PATH_MAX];
	struct dirent *e;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/%s/task", proc, pid);
	dir = opendir(path);
	while (dir && (e = readdir(dir)) != NULL) {
		snprintf(path, sizeof(path), "%s/%s/task/%s/stat", proc, pid, e->d_name);
		if (isdigit((unsigned char)e->d_name[0]))
			count_thread(path, u);
	}
	if (dir)
		closedir(dir);
}

/* Finds where threads of other programs run. */
static void count_busy(const char *proc, struct units *u)
{
	DIR *dir = opendir(proc);
	struct dirent *e;

	while (dir && (e = readdir(dir)) != NULL)
		if (isdigit((unsigned char)e->d_name[0]) && atoi(e->d_name) != getpid())
			count_process(proc, e->d_name, u);
	if (dir)
		closedir(dir);
}

static int busy_of(const struct units *u, int first, int len)
{
	int i, busy = 0;

	for (i = first; i < first + len; i++)
		busy += u->v[i].busy;
	return busy;
}

/* The units of one node, or several, that pieces may not cross. */
struct span {
	int first, n;
};

static int find_nodes(const struct units *u, struct span *node)
{
	int i, n = 0;

	for (i = 0; i < u->n; i++) {
		if (!i || u->v[i].node != u->v[i - 1].node)
			node[n++] = (struct span){.first = i};
		node[n - 1].n++;
	}
	return n;
}

static int fit(const struct span *node, int nnodes, int len)
{
	int i, n = 0;

	for (i = 0; i < nnodes; i++)
		n += node[i].n / len;
	return n;
}

/* Cuts each node into pieces of len units; those left over are at its busier end. */
static int cut(const struct units *u, const struct span *node, int nnodes, int len,
	       struct span *piece)
{
	int i, k, n = 0, first, left;

	for (i = 0; i < nnodes; i++) {
		left = node[i].n % len;
		first = node[i].first;
		if (busy_of(u, first, left) > busy_of(u, first + node[i].n - left, left))
			first += left;
		for (k = 0; k < node[i].n / len; k++)
			piece[n++] = (struct span){first + k * len, len};
	}
	return n;
}

/* Removes the busiest pieces until count are left, the last one of several. */
static void drop_busiest(const struct units *u, struct span *piece, int n, int count)
{
	int i, worst;

	for (; n > count; n--) {
		worst = 0;
		for (i = 1; i < n; i++)
			if (busy_of(u, piece[i].first, piece[i].n) >=
			    busy_of(u, piece[worst].first, piece[worst].n))
				worst = i;
		memmove(&piece[worst], &piece[worst + 1], (size_t)(n - worst - 1) * sizeof(*piece));
	}
}

/* As long pieces as possible for count ranks. Returns how many there are in piece. */
static int cut_all(const struct units *u, int count, struct span *piece)
{
	struct span *node = must_alloc((size_t)u->n * sizeof(*node));
	int nnodes = find_nodes(u, node), n, i, len = u->n / count;

	if (count <= nnodes) {
		len = nnodes / count;
		for (n = 0; n < nnodes / len; n++) {
			piece[n] = node[n * len];
			for (i = 1; i < len; i++)
				piece[n].n += node[n * len + i].n;
		}
	} else {
		while (fit(node, nnodes, len) < count)
			len--;
		n = cut(u, node, nnodes, len, piece);
	}
	free(node);
	return n;
}

static int units_in(const struct span *piece, int count)
{
	int i, n = 0;

	for (i = 0; i < count; i++)
		n += piece[i].n;
	return n;
}

int bind_shares(const char *sysfs, const char *proc, const cpu_set_t *may, int count,
		cpu_set_t *share)
{
	struct units u;
	struct span *piece;
	int i, k, n;

	if (count < 2 || count > CPU_COUNT(may))
		return 0;
	u = read_cpus(sysfs, may);
	join_threads(&u, count);
	piece = must_alloc((size_t)u.n * sizeof(*piece));
	n = cut_all(&u, count, piece);
	if (units_in(piece, count) < u.n) { /* some stay free */
		count_busy(proc, &u);
		n = cut_all(&u, count, piece);
	}
	drop_busiest(&u, piece, n, count);
	for (i = 0; i < count; i++) {
		CPU_ZERO(&share[i]);
		for (k = piece[i].first; k < piece[i].first + piece[i].n; k++)
			CPU_OR(&share[i], &share[i], &u.v[k].cpus);
	}
	free(piece);
	free(u.v);
	return count;
}

/* The CPUs in may in turn, one for each rank. */
static int one_each(const cpu_set_t *may, int count, cpu_set_t *share)
{
	int i, cpu = -1;

	for (i = 0; i < count; i++) {
		do
			cpu = (cpu + 1) % CPU_SETSIZE;
		while (!CPU_ISSET(cpu, may));
		CPU_ZERO(&share[i]);
		CPU_SET(cpu, &share[i]);
	}
	return count;
}

cpu_set_t *bind_ranks(enum bind how, int count)
{
	cpu_set_t may, *share;
	int n = 0;

	/* -EINVAL: a machine of more CPUs than fit in the set */
	if (how == BIND_NONE || sched_getaffinity(0, sizeof(may), &may) || !CPU_COUNT(&may))
		return NULL;
	share = must_alloc((size_t)count * sizeof(*share));
	if (how == BIND_CORE)
		n = one_each(&may, count, share);
	else if (CPU_COUNT(&may) == sysconf(_SC_NPROCESSORS_ONLN) && /* not bound by the caller */
		 count <= tt_topo_cpus())
		n = bind_shares("/sys", "/proc", &may, count, share);
	if (n)
		return share;
	free(share);
	return NULL;
}
