/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits, memory, CPUs and the clock of this node. */
#include "tools/doctor/doctor.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "lib/topo/topo.h"

#define MIB (1ull << 20)
#define FILES_FEW 1024
#define FILES_TOO_FEW 128
#define SHM_LITTLE (64 * MIB)
#define MEMORY_LITTLE (1024 * MIB)

static bool has_rdma(void)
{
	DIR *dir = opendir("/sys/class/infiniband");
	struct dirent *entry;
	bool any = false;

	while (dir && !any && (entry = readdir(dir)))
		any = entry->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return any;
}

/* Only RDMA devices lock memory; without one a low limit still hides trouble to come. */
static void check_memlock(struct findings *f)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY)
		found_ok(f, "memlock", "locked memory is not limited");
	else if (has_rdma())
		found(f, "memlock", LEVEL_FAIL, "transport verbs does not open, and jobs use TCP",
		      "ulimit -l unlimited; for good: '* - memlock unlimited' in "
		      "/etc/security/limits.conf, LimitMEMLOCK=infinity for slurmd",
		      "locked memory is limited to %llu KiB, and there is an RDMA device",
		      (unsigned long long)limit.rlim_cur >> 10);
	else if (limit.rlim_cur < MIB)
		found(f, "memlock", LEVEL_WARN, "nothing before this node gets an RDMA device",
		      "ulimit -l unlimited", "locked memory is limited to %llu KiB",
		      (unsigned long long)limit.rlim_cur >> 10);
	else
		found_ok(f, "memlock", "no RDMA device locks memory (limit %llu KiB)",
			 (unsigned long long)limit.rlim_cur >> 10);
}

static void check_nofile(struct findings *f)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= FILES_FEW)
		found_ok(f, "nofile", "a process may open %llu files",
			 (unsigned long long)limit.rlim_cur);
	else
		found(f, "nofile", limit.rlim_cur < FILES_TOO_FEW ? LEVEL_FAIL : LEVEL_WARN,
		      "rank 0 needs a descriptor for each rank; jobs of more ranks do not start",
		      "ulimit -n 65536; for good: '* - nofile 65536' in /etc/security/limits.conf",
		      "a process may open only %llu files", (unsigned long long)limit.rlim_cur);
}

static void check_shm(struct findings *f)
{
	struct statvfs s;
	unsigned long long size;

	if (statvfs("/dev/shm", &s) || access("/dev/shm", W_OK)) {
		found(f, "shm", LEVEL_WARN,
		      "MPI libraries and data loaders of a job have no shared memory; tutti itself "
		      "uses memfd",
		      "mount -t tmpfs tmpfs /dev/shm", "/dev/shm cannot be used: %s",
		      strerror(errno));
		return;
	}
	size = (unsigned long long)s.f_bavail * s.f_frsize;
	if (size < SHM_LITTLE)
		found(f, "shm", LEVEL_WARN,
		      "data loaders of PyTorch and MPI libraries fail for lack of shared memory",
		      "mount -o remount,size=50% /dev/shm; containers: --shm-size",
		      "/dev/shm has %llu MiB left", size / MIB);
	else
		found_ok(f, "shm", "/dev/shm has %llu MiB left", size / MIB);
}

static void check_memory(struct findings *f)
{
	uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t usable = tt_topo_memory();

	if (usable < MEMORY_LITTLE || usable < all / 8)
		found(f, "memory", LEVEL_WARN,
		      "the kernel kills ranks whose tensors and pool do not fit",
		      "raise memory.max of the cgroup: srun --mem, docker --memory, systemd "
		      "MemoryMax",
		      "only %llu of %llu MiB may be used", (unsigned long long)(usable / MIB),
		      (unsigned long long)(all / MIB));
	else
		found_ok(f, "memory", "%llu of %llu MiB may be used",
			 (unsigned long long)(usable / MIB), (unsigned long long)(all / MIB));
}

static void check_hugepages(struct findings *f)
{
	char line[128];

	if (!read_line_of("/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof(line)))
		found(f, "hugepages", LEVEL_WARN,
		      "large vectors take up to a third longer: more page-table misses",
		      "a kernel with CONFIG_TRANSPARENT_HUGEPAGE",
		      "the kernel says nothing of huge pages");
	else if (strstr(line, "[never]"))
		found(f, "hugepages", LEVEL_WARN,
		      "large vectors take up to a third longer: more page-table misses",
		      "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled",
		      "transparent huge pages are off");
	else
		found_ok(f, "hugepages", "transparent huge pages: %s", line);
}

static void check_binding(struct findings *f)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	int may = tt_topo_cpus();

	if (may == 1 && online > 1)
		found(f, "binding", LEVEL_WARN,
		      "all ranks that are started here share one CPU and wait for each other",
		      "taskset -cp 0-$(($(nproc --all) - 1)) $$; srun --cpus-per-task, docker "
		      "--cpus",
		      "only 1 of %ld CPUs may be used here", online);
	else
		found_ok(f, "binding", "%d of %ld CPUs may be used", may, online);
}

static void check_clock(struct findings *f)
{
	static const char *const slow[] = {"hpet", "acpi_pm", "jiffies"};
	char line[64] = "unknown";
	size_t i;

	read_line_of("/sys/devices/system/clocksource/clocksource0/current_clocksource", line,
		     sizeof(line));
	for (i = 0; i < sizeof(slow) / sizeof(slow[0]); i++)
		if (!strcmp(line, slow[i])) {
			found(f, "clock", LEVEL_WARN,
			      "each look at the clock is a system call of a microsecond",
			      "echo tsc >/sys/devices/system/clocksource/clocksource0/"
			      "current_clocksource",
			      "the clock source is %s", line);
			return;
		}
	found_ok(f, "clock", "the clock source is %s", line);
}

void check_limits(struct findings *f)
{
	check_memlock(f);
	check_nofile(f);
	check_shm(f);
	check_memory(f);
	check_hugepages(f);
	check_binding(f);
	check_clock(f);
}
