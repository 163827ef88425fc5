/* SPDX-License-Identifier: BSD-3-Clause */
/* Internals of the wire for test_late.c. */
#include "tests/mp/comm/late.h"

#include "lib/wire/wire_internal.h"

char *late_offered(struct tt_wire *wire)
{
	struct tt_list *l, *tmp;
	char *addr = NULL;
	int i;

	tt_wire_lock(wire);
	for (i = 0; i < TT_BUCKETS; i++)
		tt_list_each(l, tmp, &wire->posted.bucket[i])
		{
			struct tt_xfer *x = tt_container(l, struct tt_xfer, link);

			if (x->state == TT_X_OFFERED)
				addr = x->bounce_region ? x->bounce : x->buf;
		}
	tt_wire_unlock(wire);
	return addr;
}
