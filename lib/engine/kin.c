/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts of one process that tutti_comm_grow has made out of each other. A wait in one of them
 * that finds nothing to do advances the others, as their peers may wait for this process. Contexts
 * with a progress thread advance by themselves.
 */
#include <pthread.h>

#include "lib/engine/engine.h"

/* Guards the rings. Held while a wait looks at kin, so that none of them is freed meanwhile. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

void tt_kin_join(struct tutti_context *ctx, struct tutti_context *made)
{
	pthread_mutex_lock(&mutex);
	tt_list_add(&ctx->kin, &made->kin);
	atomic_store(&ctx->has_kin, true);
	atomic_store(&made->has_kin, true);
	pthread_mutex_unlock(&mutex);
}

void tt_kin_leave(struct tutti_context *ctx)
{
	if (!atomic_load(&ctx->has_kin))
		return;
	pthread_mutex_lock(&mutex);
	tt_list_del(&ctx->kin);
	atomic_store(&ctx->has_kin, false);
	pthread_mutex_unlock(&mutex);
}

/* Returns the amount of progress. */
static int look_at(struct tutti_context *ctx, bool *busy)
{
	int n = 0;

	if (!tt_wire_lock_within(ctx->wire, 0))
		return 0;
	if (!ctx->thread_runs) {
		n = tt_engine_progress(ctx);
		tt_engine_timers(ctx);
		*busy |= ctx->running || !tt_list_empty(&ctx->stalled);
		tt_wire_leave(ctx->wire);
	}
	tt_wire_unlock(ctx->wire);
	return n;
}

int tt_kin_progress(struct tutti_context *ctx, bool *busy)
{
	struct tt_list *l;
	int n = 0;

	*busy = false;
	if (pthread_mutex_trylock(&mutex))
		return 0;
	for (l = ctx->kin.next; l != &ctx->kin; l = l->next)
		n += look_at(tt_container(l, struct tutti_context, kin), busy);
	pthread_mutex_unlock(&mutex);
	return n;
}
