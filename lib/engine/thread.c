/* SPDX-License-Identifier: BSD-3-Clause */
/* The optional progress thread: advances operations while the callers compute. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/engine/engine.h"

static bool stop_asked(void *arg)
{
	struct tutti_context *ctx = arg;

	return atomic_load(&ctx->thread_stop);
}

static void *run(void *arg)
{
	struct tutti_context *ctx = arg;

	tt_engine_wait(ctx, stop_asked, ctx, TT_NEVER);
	return NULL;
}

int tt_thread_start(struct tutti_context *ctx)
{
	sigset_t all, old;
	int err = 0;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	tt_wire_lock(ctx->wire); /* windows of two communicators may be made at once */
	if (!ctx->thread_runs && !atomic_load(&ctx->thread_stop)) {
		err = pthread_create(&ctx->thread, NULL, run, ctx);
		ctx->thread_runs = !err;
	}
	tt_wire_unlock(ctx->wire);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		return tt_fail(-err, "can't start the progress thread: %s", strerror(err));
	return 0;
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
