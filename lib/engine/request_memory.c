/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of requests. The context keeps it for later requests until it ends, so a call with a copy
 * of the pointer to a freed request finds TT_REQ_FREED there, unless the memory is that of a new
 * request. Sizes are powers of two; of each size the context has as many as ever existed at once.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/engine/engine.h"

#define LEAST ((size_t)256)
#define LARGE ((size_t)1 << 20) /* from here on, unused memory but one goes back to the system */

static int class_of(size_t size)
{
	int i = 0;

	while (LEAST << i < size)
		i++;
	return i;
}

void *tt_request_alloc(struct tutti_context *ctx, size_t size, size_t more)
{
	struct tutti_request *req;
	struct tt_list *link;
	int i = class_of(size + more);

	link = i < TT_REQUEST_SIZES ? ctx->request_memory[i] : NULL;
	if (link) {
		ctx->request_memory[i] = link->next;
		req = tt_container(link, struct tutti_request, link);
	} else {
		req = i < TT_REQUEST_SIZES ? malloc(LEAST << i) : NULL;
		if (!req)
			return NULL;
		tt_wire_stats(ctx->wire)->allocations++;
	}
	memset((void *)req, 0, size);
	atomic_store_explicit(&req->state, TT_REQ_FREED, memory_order_relaxed);
	return req;
}

/* All of it but the request itself. */
static void give_pages_back(struct tutti_request *req, size_t size)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), end = (uintptr_t)req + size;
	uintptr_t from = ((uintptr_t)(req + 1) + page - 1) / page * page;

	madvise((void *)from, end / page * page - from, MADV_DONTNEED);
}

void tt_request_release(struct tutti_context *ctx, struct tutti_request *req, size_t size)
{
	int i = class_of(size);

	atomic_store_explicit(&req->state, TT_REQ_FREED, memory_order_relaxed);
	if (LEAST << i >= LARGE && ctx->request_memory[i]) /* one is kept whole */
		give_pages_back(req, LEAST << i);
	req->link.next = ctx->request_memory[i];
	ctx->request_memory[i] = &req->link;
}

void tt_request_memory_free(struct tutti_context *ctx)
{
	struct tt_list *link;
	int i;

	for (i = 0; i < TT_REQUEST_SIZES; i++)
		while ((link = ctx->request_memory[i])) {
			ctx->request_memory[i] = link->next;
			free(tt_container(link, struct tutti_request, link));
		}
}
