/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that transports access directly. Buffers from tutti_alloc, or registered with
 * tutti_register, are sent and received without a copy; all other buffers work too, but are
 * staged.
 */
#ifndef TUTTI_MEM_H
#define TUTTI_MEM_H

#include <tutti/comm.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

struct tutti_region;

/**
 * tutti_alloc - size bytes from the context's registered pool, aligned to 64 bytes (to the page
 * from one page on), on the NUMA node of the caller. Contents undefined. Thread-safe.
 */
int tutti_alloc(struct tutti_context *ctx, size_t size, void **ptr);

/**
 * tutti_free - give back memory of tutti_alloc. NULL is allowed; -EINVAL for other memory.
 */
int tutti_free(void *ptr);

/**
 * tutti_register - register [addr, addr + len) with every open transport until tutti_deregister.
 * The memory must stay mapped that long. Thread-safe.
 */
int tutti_register(struct tutti_context *ctx, void *addr, size_t len, struct tutti_region **region);
int tutti_deregister(struct tutti_region *region);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
