/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decides what counts as the same host. Containers and network namespaces share the boot id and
 * often the host name, so neither is enough. Processes that reach each other only over a (virtual)
 * network count as different hosts unless TUTTI_HOST_ID says otherwise; so do processes that cannot
 * see each other in /proc, which shared memory needs.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/topo/topo.h"

int tt_host_get(const char *host_id, struct tt_host *host)
{
	struct stat st;
	FILE *f;

	if (host_id && strlen(host_id) >= sizeof(host->override))
		return tt_fail(-EINVAL, "TUTTI_HOST_ID has %zu characters; at most %zu are allowed",
			       strlen(host_id), sizeof(host->override) - 1);
	memset(host, 0, sizeof(*host)); /* padding too: it is sent */
	host->uid = getuid();
	if (host_id)
		strcpy(host->override, host_id);
	if (!stat("/proc/self/ns/net", &st))
		host->netns = st.st_ino;
	if (host->netns && !stat("/proc/self/ns/pid", &st))
		host->netns |= (uint64_t)st.st_ino << 32;
	f = fopen("/proc/sys/kernel/random/boot_id", "re");
	if (!f)
		return 0;
	if (fgets(host->boot_id, sizeof(host->boot_id), f))
		host->boot_id[strcspn(host->boot_id, "\n")] = 0;
	fclose(f);
	return 0;
}

static bool same_text(const char *a, const char *b, size_t size)
{
	return !strncmp(a, b, size);
}

bool tt_host_same(const struct tt_host *a, const struct tt_host *b, const char **why)
{
	const char *none;

	if (!why)
		why = &none;
	if (a->override[0] || b->override[0]) {
		bool same = same_text(a->override, b->override, sizeof(a->override));

		*why = same				  ? "TUTTI_HOST_ID is equal"
		       : a->override[0] && b->override[0] ? "TUTTI_HOST_ID differs"
							  : "only one of them sets TUTTI_HOST_ID";
		return same;
	}
	if (!a->boot_id[0] || !b->boot_id[0] || !a->netns || !b->netns) {
		*why = "boot id or network namespace is unknown";
		return false;
	}
	if (!same_text(a->boot_id, b->boot_id, sizeof(a->boot_id))) {
		*why = "boot ids differ";
		return false;
	}
	*why = a->netns == b->netns			  ? "boot id and namespaces are the same"
	       : (uint32_t)a->netns == (uint32_t)b->netns ? "process namespaces differ"
							  : "network namespaces differ";
	return a->netns == b->netns;
}
