/* SPDX-License-Identifier: BSD-3-Clause */
/* Pool memory and user registrations. */
#include <errno.h>

#include "lib/api/api.h"

int tutti_alloc(struct tutti_context *ctx, size_t size, void **ptr)
{
	int err = tt_check_ctx(ctx);

	if (err)
		return err;
	if (!ptr)
		return tt_fail(-EINVAL, "tutti_alloc: ptr is NULL");
	return tt_mem_alloc(tt_wire_memory(ctx->wire), size, ptr, NULL);
}

int tutti_free(void *ptr)
{
	struct tt_memory *memory;

	if (!ptr)
		return 0;
	memory = tt_mem_owner(ptr);
	if (!memory)
		return tt_fail(-EINVAL,
			       "tutti_free: %p did not come from tutti_alloc, or was freed", ptr);
	return tt_mem_free(memory, ptr);
}

int tutti_register(struct tutti_context *ctx, void *addr, size_t len, struct tutti_region **region)
{
	struct tt_region *r;
	int err = tt_check_ctx(ctx);

	if (err)
		return err;
	if (!addr || !len || !region)
		return tt_fail(-EINVAL, "tutti_register: %s",
			       !region ? "region is NULL" : "the memory is empty");
	err = tt_mem_register(tt_wire_memory(ctx->wire), addr, len,
			      TT_ACCESS_READ | TT_ACCESS_WRITE, &r);
	if (!err)
		*region = (struct tutti_region *)r;
	return err;
}

int tutti_deregister(struct tutti_region *region)
{
	if (!region)
		return tt_fail(-EINVAL, "tutti_deregister: region is NULL");
	return tt_mem_deregister((struct tt_region *)region);
}
