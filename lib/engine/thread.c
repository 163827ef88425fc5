/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The optional progress thread advances operations while the callers compute. The standby thread
 * only takes notifications: a process with windows has one if its transports need no calls at the
 * target. A device and a ring hold a hundred notifications or fewer; the puts behind them wait
 * until some are taken. The standby thread polls when no other thread has since its last look, and
 * sleeps longer while nothing comes.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/spawn.h"
#include "lib/engine/engine.h"

#define STANDBY_MAX_MS 16 /* between two looks */

static bool stop_asked(void *arg)
{
	struct tutti_context *ctx = arg;

	return atomic_load(&ctx->thread_stop);
}

static void *run(void *arg)
{
	struct tutti_context *ctx = arg;

	tt_spawned_brief();
	tt_engine_relieve(ctx, stop_asked, ctx);
	return NULL;
}

int tt_thread_start(struct tutti_context *ctx)
{
	int err = 0;

	tt_wire_lock(ctx->wire); /* two communicators may create windows at once */
	if (!ctx->thread_runs && !atomic_load(&ctx->thread_stop)) {
		err = tt_spawn(&ctx->thread, run, ctx, "the progress thread");
		ctx->thread_runs = !err;
	}
	tt_wire_unlock(ctx->wire);
	return err;
}

static void *stand_by(void *arg)
{
	struct tutti_context *ctx = arg;
	struct pollfd end = {.fd = ctx->standby_fd, .events = POLLIN};
	uint64_t seen = 0;
	int ms = 1, n;

	tt_spawned_brief();
	while (poll(&end, 1, ms) <= 0) {
		n = 0;
		tt_wire_lock(ctx->wire);
		if (tt_wire_looks(ctx->wire) == seen && !tt_wire_asleep(ctx->wire))
			n = tt_engine_progress(ctx);
		seen = tt_wire_looks(ctx->wire);
		tt_wire_unlock(ctx->wire);
		ms = n > 0 ? 0 : ms ? 2 * ms : 1;
		ms = ms < STANDBY_MAX_MS ? ms : STANDBY_MAX_MS;
	}
	return NULL;
}

int tt_standby_start(struct tutti_context *ctx)
{
	int err = 0;

	tt_wire_lock(ctx->wire);
	if (!ctx->standby_runs && !ctx->thread_runs && !atomic_load(&ctx->thread_stop)) {
		ctx->standby_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (ctx->standby_fd < 0)
			err = tt_fail(-errno, "eventfd: %s", strerror(errno));
		else if ((err = tt_spawn(&ctx->standby, stand_by, ctx, "the standby thread")))
			close(ctx->standby_fd);
		ctx->standby_runs = !err;
	}
	tt_wire_unlock(ctx->wire);
	return err;
}

static void stop_standby(struct tutti_context *ctx)
{
	uint64_t one = 1;

	if (!ctx->standby_runs)
		return;
	(void)!write(ctx->standby_fd, &one, sizeof(one));
	pthread_join(ctx->standby, NULL);
	close(ctx->standby_fd);
	ctx->standby_runs = false;
}

void tt_thread_stop(struct tutti_context *ctx)
{
	bool runs;

	tt_wire_lock(ctx->wire); /* the control thread may be about to start it */
	atomic_store(&ctx->thread_stop, true);
	runs = ctx->thread_runs;
	tt_wire_unlock(ctx->wire);
	stop_standby(ctx);
	if (!runs)
		return;
	tt_wire_wake(ctx->wire);
	pthread_join(ctx->thread, NULL);
	ctx->thread_runs = false;
}
