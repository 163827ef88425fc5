/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory the transports can reach directly. Buffers from tutti_alloc, or registered with
 * tutti_register, travel without being copied; any other buffer is correct too, but staged.
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
 * tutti_register - make [addr, addr + len) known to every open transport until tutti_deregister.
 * The memory must stay mapped that long. Thread-safe.
 */
int tutti_register(struct tutti_context *ctx, void *addr, size_t len, struct tutti_region **region);
int tutti_deregister(struct tutti_region *region);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
