/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The machine of this process: NUMA nodes, usable CPUs and memory, and the identity of the host.
 *
 * Everything here is a hint except tt_host: on machines that hide their topology the answers are
 * "unknown" (-1) or the whole machine, never an error. All calls are thread-safe.
 */
#ifndef TT_TOPO_H
#define TT_TOPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TT_SYSFS "/sys"

/* The NUMA node of the CPU the calling thread runs on, -1: unknown or the machine has only one. */
int tt_topo_node(void);
/* The one that all CPUs this process may use are on, -1: unknown, or they are on several. */
int tt_topo_home(void);
/*
 * Prefer node for the pages of [addr, addr + len) not there yet; node -1: nothing to do. 0 or
 * -errno.
 */
int tt_topo_bind(void *addr, size_t len, int node);

/* CPUs this process may use: affinity mask and cgroup quota (rounded up). At least 1. */
int tt_topo_cpus(void);
/*
 * The same, and *id is equal for processes that may use the very same CPUs. Processes of one host
 * are taken to have the same CPUs or none in common.
 */
int tt_topo_cpu_set(uint64_t *id);
/* Threads of the whole machine that run or could, -1: unknown. */
int tt_topo_runnable(void);
/*
 * CPUs that this thread could be bound to: those of the machine, or of the cpuset that it is in;
 * -1: unknown.
 */
int tt_topo_bindable(void);
/*
 * Move the calling thread to the nearest of the emptiest CPUs that it may use, if that is worth
 * it: on[cpu] of those it is to be apart from are on each, two more on `here`, its own, than
 * there. It may use the same ones as before. Where it is afterwards.
 */
int tt_topo_spread(const uint16_t *on, int ncpus, int here);
/* Bytes of memory this process may use at all: the machine's, or its cgroup's limit if lower. */
uint64_t tt_topo_memory(void);
/* Bytes that could be taken now without swapping (MemAvailable); UINT64_MAX: unknown. */
uint64_t tt_topo_memory_available(void);

/* The same from a cgroup v2 folder: CPUs of cpu.max, bytes of memory.max; 0: no limit there. */
int tt_topo_cgroup_cpus(const char *dir);
uint64_t tt_topo_cgroup_memory(const char *dir);

/*
 * Bytes of the largest cache of the CPU that the calling thread runs on, as told below a folder
 * such as TT_SYSFS; *cpus: how many CPUs share it. 0: unknown.
 */
size_t tt_topo_cache(const char *sysfs, int *cpus);

/*
 * The identity of this process's host, sent to other ranks: plain bytes, zero padded. Two processes
 * with different uids can be on the same host; uid only decides whether they can share memory.
 */
struct tt_host {
	char boot_id[40]; /* of the running kernel; "" if it can't be read */
	uint64_t netns;	  /* inode of the network namespace, and of the process namespace << 32; 0:
			     unknown */
	uint32_t uid;
	char override[64]; /* TUTTI_HOST_ID, "" if unset */
};

/* host_id: the value of TUTTI_HOST_ID, "" or NULL: unset. -EINVAL if it is too long. */
int tt_host_get(const char *host_id, struct tt_host *host);
/*
 * Same host = same boot id, network and process namespace (memory is shared through /proc/PID);
 * TUTTI_HOST_ID overrides all. Symmetric. *why (may be NULL) receives the reason, a constant
 * string that goes after "because".
 */
bool tt_host_same(const struct tt_host *a, const struct tt_host *b, const char **why);

#endif
