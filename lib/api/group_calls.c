/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups of calls; lib/engine/launch.c. */
#include <errno.h>

#include "lib/api/api.h"

int tutti_group_start(void)
{
	tt_group_begin();
	return 0;
}

int tutti_group_end(void)
{
	if (!tt_group_is_open())
		return tt_fail(-EINVAL, "tutti_group_end: no group was started by this thread");
	return tt_group_end();
}
