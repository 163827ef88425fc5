/* SPDX-License-Identifier: BSD-3-Clause */
/* NUMA, CPUs and memory of this process, a made-up sysfs tree, and what counts as the same host. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/topo/topo.h"
#include "tests/test.h"
#include "tests/unit/made_up.h"

/* Without descriptors, in a process that has not used libnuma yet: nothing is written. */
static void test_no_files(void)
{
	struct rlimit none;
	int fd[2], status;
	char text[160] = "";
	pid_t pid;

	TT_REQUIRE(!pipe(fd) && !getrlimit(RLIMIT_NOFILE, &none));
	none.rlim_cur = 3; /* the hard limit stays: valgrind does not allow a change */
	pid = fork();
	if (!pid) {
		if (dup2(fd[1], 2) != 2 || setrlimit(RLIMIT_NOFILE, &none))
			_exit(1);
		_exit(tt_topo_home() == -1 && tt_topo_node() == -1 ? 0 : 2);
	}
	close(fd[1]);
	TT_CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status));
	TT_CHECK(read(fd[0], text, sizeof(text) - 1) == 0);
	if (text[0])
		printf("  written: %s\n", text);
	close(fd[0]);
}

static void test_cgroup(void)
{
	made_up_start();
	TT_CHECK(tt_topo_cgroup_cpus(made_up_root) == 0 &&
		 tt_topo_cgroup_memory(made_up_root) == 0);
	made_up_put("cpu.max", "max 100000\n");
	made_up_put("memory.max", "max\n");
	TT_CHECK(tt_topo_cgroup_cpus(made_up_root) == 0 &&
		 tt_topo_cgroup_memory(made_up_root) == 0);
	made_up_put("cpu.max", "250000 100000\n");
	made_up_put("memory.max", "1073741824\n");
	TT_CHECK(tt_topo_cgroup_cpus(made_up_root) == 3 &&
		 tt_topo_cgroup_memory(made_up_root) == 1 << 30);
	made_up_put("cpu.max", "5000 100000\n");
	TT_CHECK(tt_topo_cgroup_cpus(made_up_root) == 1);
	made_up_remove();
}

static void put_cache(int index, const char *level, const char *type, const char *size,
		      const char *cpus)
{
	const char *file[] = {"level", "type", "size", "shared_cpu_list"};
	const char *text[] = {level, type, size, cpus};
	char path[128];
	int i;

	for (i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "devices/system/cpu/cpu%d/cache/index%d/%s",
			 sched_getcpu(), index, file[i]);
		made_up_put(path, text[i]);
	}
}

static void test_cache(void)
{
	cpu_set_t before, one;
	int cpus = 0;

	TT_REQUIRE(!sched_getaffinity(0, sizeof(before), &before));
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	TT_REQUIRE(!sched_setaffinity(0, sizeof(one), &one));
	made_up_start();
	TT_CHECK(tt_topo_cache(made_up_root, &cpus) == 0 && cpus == 1);
	put_cache(0, "1\n", "Data\n", "48K\n", "0\n");
	put_cache(1, "1\n", "Instruction\n", "64K\n", "0\n");
	TT_CHECK(tt_topo_cache(made_up_root, &cpus) == 48 << 10 && cpus == 1);
	put_cache(2, "3\n", "Unified\n", "30M\n", "0-3,8-11,40\n");
	put_cache(3, "2\n", "Unified\n", "2048K\n", "0,8\n");
	TT_CHECK(tt_topo_cache(made_up_root, &cpus) == 30 << 20 && cpus == 9);
	made_up_remove();
	TT_CHECK(!sched_setaffinity(0, sizeof(before), &before));
}

static void test_cpus(void)
{
	cpu_set_t before, one;
	int cpu = sched_getcpu();
	uint64_t id[2];

	TT_REQUIRE(cpu >= 0 && !sched_getaffinity(0, sizeof(before), &before));
	TT_CHECK(tt_topo_cpus() >= 1 && tt_topo_cpus() <= CPU_COUNT(&before));
	TT_CHECK(tt_topo_cpu_set(&id[0]) == tt_topo_cpus());
	TT_CHECK(tt_topo_cpu_set(&id[1]) == tt_topo_cpus() && id[0] == id[1]);
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	TT_REQUIRE(!sched_setaffinity(0, sizeof(one), &one));
	TT_CHECK(tt_topo_cpus() == 1 && tt_topo_cpu_set(&id[1]) == 1);
	TT_CHECK(CPU_COUNT(&before) == 1 || id[0] != id[1]); /* another set */
	TT_CHECK(!sched_setaffinity(0, sizeof(before), &before));
}

/* From a CPU with two to one with none, where this thread may; and it may go back. */
static void test_spread(void)
{
	uint16_t on[CPU_SETSIZE] = {0};
	cpu_set_t before, after, one;
	int here, other = -1, cpu;

	TT_CHECK(tt_topo_runnable() > 0);
	TT_REQUIRE(!sched_getaffinity(0, sizeof(before), &before));
	here = sched_getcpu();
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		on[cpu] = 2;
		if (cpu != here && CPU_ISSET(cpu, &before))
			other = cpu;
	}
	if (here < 0 || other < 0)
		TT_SKIP("one CPU");
	CPU_ZERO(&one);
	CPU_SET(here, &one);
	TT_REQUIRE(!sched_setaffinity(0, sizeof(one), &one));
	TT_CHECK(tt_topo_spread(on, CPU_SETSIZE, here) == here);
	on[other] = 1; /* not worth it */
	TT_CHECK(tt_topo_spread(on, CPU_SETSIZE, here) == here);
	on[other] = 0; /* it may not */
	TT_CHECK(tt_topo_spread(on, CPU_SETSIZE, here) == here);
	TT_CHECK(tt_topo_spread(on, CPU_SETSIZE, -1) == -1);
	TT_REQUIRE(!sched_setaffinity(0, sizeof(before), &before));
	TT_CHECK(tt_topo_spread(on, CPU_SETSIZE, here) == other);
	TT_REQUIRE(!sched_getaffinity(0, sizeof(after), &after));
	TT_CHECK(CPU_EQUAL(&before, &after));
}

static void test_memory(void)
{
	size_t len = 1 << 20;
	char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	TT_CHECK(tt_topo_memory() > 64 << 20);
	TT_CHECK(tt_topo_memory_available() > 1 << 20);
	TT_REQUIRE(p != MAP_FAILED);
	TT_CHECK(tt_topo_node() >= -1);
	TT_CHECK(tt_topo_bind(p, len, -1) == 0);
	TT_CHECK(tt_topo_bind(p, len, tt_topo_node()) == 0);
	TT_CHECK(tt_topo_bind(p, len, 0) == 0);
	memset(p, 1, len);
	munmap(p, len);
}

static bool same(const struct tt_host *a, const struct tt_host *b, const char *want)
{
	const char *why = "", *back = "";
	bool yes = tt_host_same(a, b, &why);

	TT_CHECK(tt_host_same(b, a, &back) == yes && !strcmp(why, back));
	TT_CHECK(tt_host_same(a, b, NULL) == yes);
	TT_CHECK(strstr(why, want) != NULL);
	return yes;
}

static void test_same_host(void)
{
	struct tt_host a, b;

	TT_REQUIRE(!tt_host_get("", &a) && !tt_host_get(NULL, &b));
	TT_CHECK(strlen(a.boot_id) == 36 && a.netns && a.uid == getuid());
	TT_CHECK(!memcmp(&a, &b, sizeof(a)));
	TT_CHECK(same(&a, &b, "are the same"));
	b.uid++;
	TT_CHECK(same(&a, &b, "are the same"));
	b.netns++;
	TT_CHECK(!same(&a, &b, "namespaces differ"));
	b = a;
	b.netns += 1ull << 32;
	TT_CHECK(!same(&a, &b, "process namespaces differ"));
	b = a;
	b.boot_id[3] ^= 1;
	TT_CHECK(!same(&a, &b, "boot ids differ"));
	b = a;
	a.netns = b.netns = 0;
	TT_CHECK(!same(&a, &b, "unknown"));
}

static void test_host_id(void)
{
	struct tt_host a, b, c;
	char longest[65];

	TT_REQUIRE(!tt_host_get("x", &a) && !tt_host_get("x", &b) && !tt_host_get(NULL, &c));
	b.netns++;
	b.boot_id[0] ^= 1;
	TT_CHECK(same(&a, &b, "is equal"));
	TT_CHECK(!same(&a, &c, "only one"));
	b = a;
	strcpy(b.override, "xy");
	TT_CHECK(!same(&a, &b, "TUTTI_HOST_ID differs"));
	memset(longest, 'q', 64);
	longest[64] = 0;
	TT_CHECK(tt_host_get(longest, &a) == -EINVAL);
	longest[63] = 0;
	TT_CHECK(tt_host_get(longest, &a) == 0);
}

/* A process in another network namespace of this machine is on another host. */
static int in_namespace(int rank, int nranks, void *arg)
{
	const struct tt_host *outside = arg;
	struct tt_host here;
	const char *why;

	if (unshare(CLONE_NEWNET))
		return 0; /* not allowed here */
	TT_EXPECT(!tt_host_get(NULL, &here));
	TT_EXPECT(!tt_host_same(&here, outside, &why) && strstr(why, "namespaces differ"));
	return 0;
}

static void test_namespace(void)
{
	struct tt_host host;

	TT_REQUIRE(!tt_host_get(NULL, &host));
	TT_CHECK(tt_run_ranks(1, in_namespace, &host, 10000, 0) == 0);
}

static const struct tt_test tests[] = {
	{"no_files", test_no_files}, /* first */
	{"cgroup", test_cgroup},     {"cache", test_cache},	    {"cpus", test_cpus},
	{"spread", test_spread},     {"memory", test_memory},	    {"same_host", test_same_host},
	{"host_id", test_host_id},   {"namespace", test_namespace}, {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("topo", tests, argc, argv);
}
