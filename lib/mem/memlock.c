/* SPDX-License-Identifier: BSD-3-Clause */
/* The error text for the limit on locked memory, which new users of registered memory often hit. */
#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>

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
