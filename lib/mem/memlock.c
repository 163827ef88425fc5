/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Why memory cannot be registered: the limit on locked memory, which new users of registered memory
 * often hit, or nothing is mapped there.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/mem/mem.h"

int tt_mem_fail_memlock(size_t need, const char *what)
{
	struct rlimit limit = {0};
	char allowed[48];

	getrlimit(RLIMIT_MEMLOCK, &limit);
	if (limit.rlim_cur == RLIM_INFINITY)
		snprintf(allowed, sizeof(allowed), "unlimited");
	else
		snprintf(allowed, sizeof(allowed), "%llu bytes",
			 (unsigned long long)limit.rlim_cur);
	return tt_fail(
		-ENOMEM,
		"%s needs %zu more bytes of locked memory, but the limit RLIMIT_MEMLOCK of this "
		"process is %s, for all it locks together; raise it with 'ulimit -l unlimited', "
		"with 'memlock' in /etc/security/limits.conf, or LimitMEMLOCK= of a service",
		what, need, allowed);
}

bool tt_mem_is_mapped(const void *addr, size_t len)
{
	uintptr_t off = (uintptr_t)addr % (uintptr_t)sysconf(_SC_PAGESIZE);

	return !msync((char *)addr - off, len + off, MS_ASYNC) || errno != ENOMEM;
}
