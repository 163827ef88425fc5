/* SPDX-License-Identifier: BSD-3-Clause */
/* The optional progress thread: advances operations while the callers compute. */
#include "lib/base/clock.h"
#include "lib/base/spawn.h"
#include "lib/engine/engine.h"

static bool stop_asked(void *arg)
{
	struct tutti_context *ctx = arg;

	return atomic_load(&ctx->thread_stop);
}

static void *run(void *arg)
{
	struct tutti_context *ctx = arg;

	tt_spawned_brief();
	tt_engine_wait(ctx, stop_asked, ctx, TT_NEVER);
	return NULL;
}

int tt_thread_start(struct tutti_context *ctx)
{
	int err = 0;

	tt_wire_lock(ctx->wire); /* windows of two communicators may be made at once */
	if (!ctx->thread_runs && !atomic_load(&ctx->thread_stop)) {
		err = tt_spawn(&ctx->thread, run, ctx, "the progress thread");
		ctx->thread_runs = !err;
	}
	tt_wire_unlock(ctx->wire);
	return err;
}

void tt_thread_stop(struct tutti_context *ctx)
{
	bool runs;

	tt_wire_lock(ctx->wire); /* the control thread may be about to start it */
	atomic_store(&ctx->thread_stop, true);
	runs = ctx->thread_runs;
	tt_wire_unlock(ctx->wire);
	if (!runs)
		return;
	tt_wire_wake(ctx->wire);
	pthread_join(ctx->thread, NULL);
	ctx->thread_runs = false;
}
