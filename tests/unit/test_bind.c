/* SPDX-License-Identifier: BSD-3-Clause */
/* The CPUs that tutti_run gives to its ranks, on machines that are made up below a folder. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/test.h"
#include "tests/unit/made_up.h"
#include "tools/run/run.h"

void *must_alloc(size_t size)
{
	void *p = calloc(1, size);

	if (!p)
		abort();
	return p;
}

/*
 * A machine as Linux often numbers it: first one thread of each core, node by node, and then the
 * other threads in the same order.
 */
static void make_machine(int nodes, int cores, int threads)
{
	int n = nodes * cores, cpu;
	char path[96], text[96];

	made_up_start();
	made_up_put("proc/", "");
	for (cpu = 0; cpu < n * threads; cpu++) {
		snprintf(path, sizeof(path), "devices/system/cpu/cpu%d/node%d/", cpu,
			 cpu % n / cores);
		made_up_put(path, "");
		snprintf(path, sizeof(path),
			 "devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
		snprintf(text, sizeof(text), threads == 2 ? "%d,%d\n" : "%d\n", cpu % n,
			 cpu % n + n);
		made_up_put(path, text);
	}
}

/* A thread of another program; its name holds what could be taken for the end of it. */
static void make_thread(int id, char state, int cpu)
{
	char path[64], text[256];

	snprintf(path, sizeof(path), "proc/%d/task/%d/stat", 100 + id / 10, id);
	snprintf(
		text, sizeof(text),
		"%d (a) R (b) %c 1 1 1 0 -1 4194304 1 0 0 0 7 8 0 0 20 0 1 0 5 6 7 8 9 10 11 12 13 "
		"14 15 16 17 18 0 0 17 %d 0 0 0 0 0\n",
		id, state, cpu);
	made_up_put(path, text);
}

/* The CPUs of all ranks: 0-3,8/4-7 for two ranks. "": not bound. */
static const char *shares(int ncpus, int count)
{
	static char text[512];
	char proc[80];
	cpu_set_t may, share[16];
	int i, cpu, last, n;
	size_t len = 0;

	CPU_ZERO(&may);
	for (cpu = 0; cpu < ncpus; cpu++)
		CPU_SET(cpu, &may);
	snprintf(proc, sizeof(proc), "%s/proc", made_up_root);
	n = bind_shares(made_up_root, proc, &may, count, share);
	TT_CHECK(!n || n == count);
	text[0] = 0;
	for (i = 0; i < n; i++) {
		len += (size_t)sprintf(text + len, i ? "/" : "");
		for (cpu = 0, last = -1; cpu < ncpus; cpu = last < cpu ? cpu + 1 : last + 1) {
			for (last = cpu - 1; last + 1 < ncpus && CPU_ISSET(last + 1, &share[i]);)
				last++;
			if (last > cpu)
				len += (size_t)sprintf(text + len, "%d-%d ", cpu, last);
			else if (last == cpu)
				len += (size_t)sprintf(text + len, "%d ", cpu);
		}
		while (len && text[len - 1] == ' ')
			text[--len] = 0;
	}
	return text;
}

static void expect(int ncpus, int count, const char *wanted)
{
	const char *found = shares(ncpus, count);

	if (strcmp(found, wanted))
		printf("  %d ranks on %d CPUs: %s instead of %s\n", count, ncpus, found, wanted);
	TT_CHECK(!strcmp(found, wanted));
}

static void test_cores(void)
{
	make_machine(1, 8, 1);
	expect(8, 1, "");
	expect(8, 2, "0-3/4-7");
	expect(8, 3, "0-1/2-3/4-5");
	expect(8, 5, "0/1/2/3/4");
	expect(8, 8, "0/1/2/3/4/5/6/7");
	expect(8, 9, "");
	made_up_remove();
}

static void test_threads_of_cores(void)
{
	make_machine(1, 4, 2);
	expect(8, 2, "0-1 4-5/2-3 6-7");
	expect(8, 4, "0 4/1 5/2 6/3 7");
	/* Neighbours share a core only if there are more ranks than cores. */
	expect(8, 5, "0/4/1/5/2");
	expect(8, 8, "0/4/1/5/2/6/3/7");
	made_up_remove();
}

static void test_nodes(void)
{
	make_machine(2, 4, 1);
	expect(8, 2, "0-3/4-7");
	expect(8, 3, "0-1/2-3/4-5"); /* not 2-3 and 4 together */
	expect(8, 4, "0-1/2-3/4-5/6-7");
	expect(8, 6, "0/1/2/3/4/5");
	made_up_remove();
	make_machine(4, 2, 1);
	expect(8, 2, "0-3/4-7");
	expect(8, 3, "0-1/2-3/4-5");
	expect(7, 7, "0/1/2/3/4/5/6"); /* not all of the machine */
	made_up_remove();
}

static void test_busy(void)
{
	make_machine(1, 8, 1);
	make_thread(1, 'R', 0);
	make_thread(2, 'S', 7);
	expect(8, 3, "2-3/4-5/6-7");
	make_thread(3, 'R', 7);
	make_thread(4, 'R', 6);
	expect(8, 3, "0-1/2-3/4-5");
	expect(8, 7, "0/1/2/3/4/5/6");
	make_thread(5, 'R', 3);
	make_thread(6, 'R', 3);
	expect(8, 7, "0/1/2/4/5/6/7");
	expect(8, 8, "0/1/2/3/4/5/6/7");
	made_up_remove();
	/* Pieces of two, as none of three would cross a node: two of the six stay free. */
	make_machine(3, 4, 1);
	expect(12, 4, "0-1/2-3/4-5/6-7");
	make_thread(7, 'R', 2);
	expect(12, 4, "0-1/4-5/6-7/8-9");
	made_up_remove();
}

/* Without /sys and /proc each CPU is a core. */
static void test_hidden(void)
{
	snprintf(made_up_root, sizeof(made_up_root), "/tmp/tutti-bind-none");
	expect(4, 2, "0-1/2-3");
	expect(4, 3, "0/1/2");
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"cores", test_cores},	 {"threads_of_cores", test_threads_of_cores},
		{"nodes", test_nodes},	 {"busy", test_busy},
		{"hidden", test_hidden}, {NULL, NULL},
	};

	return tt_test_main("bind", tests, argc, argv);
}
