/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that the collector of stuck.c has asked for before this rank made them: they are reported
 * when this rank makes them. The communicator, or the persistent operation, may still have to be
 * made here.
 */
#include <stdlib.h>

#include "lib/comm/comm.h"

#define POLLED_MAX 64 /* the oldest are forgotten */

struct tt_polled {
	uint64_t uid, seq;
	uint32_t init;
};

/* The lowest number above seq that is asked for; 0: none. */
static uint64_t next_polled(const struct tutti_context *ctx, uint64_t uid, uint32_t init,
			    uint64_t seq)
{
	const struct tt_polled *p = ctx->polled;
	uint64_t lowest = 0;
	int i;

	for (i = 0; p && i < POLLED_MAX; i++)
		if (p[i].uid == uid && p[i].init == init && p[i].seq > seq &&
		    (!lowest || p[i].seq < lowest))
			lowest = p[i].seq;
	return lowest;
}

void tt_comm_poll(struct tutti_context *ctx, uint64_t uid, uint32_t init, uint64_t seq)
{
	int i;

	if (!ctx->polled)
		ctx->polled = calloc(POLLED_MAX, sizeof(*ctx->polled));
	for (i = 0; ctx->polled && i < POLLED_MAX; i++)
		if (ctx->polled[i].uid == uid && ctx->polled[i].init == init &&
		    ctx->polled[i].seq == seq)
			return;
	if (ctx->polled)
		ctx->polled[ctx->npolled++ % POLLED_MAX] =
			(struct tt_polled){.uid = uid, .init = init, .seq = seq};
}

uint64_t tt_comm_polled(const struct tutti_comm *comm, uint32_t init)
{
	return next_polled(comm->ctx, comm->uid, init, tt_comm_calls(comm, init));
}

bool tt_comm_awaited(const struct tutti_comm *comm, uint32_t *init, uint64_t *seq)
{
	const struct tt_polled *p = comm->ctx->polled;
	int i;

	for (i = 0; p && i < POLLED_MAX; i++)
		if (p[i].uid == comm->uid && p[i].seq > tt_comm_calls(comm, p[i].init)) {
			*init = p[i].init;
			*seq = p[i].seq;
			return true;
		}
	return false;
}
