/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Probes, and agrees on, the memory access that works between the ranks of a host when the job
 * starts.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/engine/node/node_ops.h"

struct node_msg {
	uint32_t can;
	uint32_t verdict; /* rank 0's, to all */
};
_Static_assert(sizeof(struct node_msg) == 8, "doc/WIRE.md");

/*
 * Under the lock, at rank 0. The last report may come before tt_boot_join has returned there:
 * then rank 0's own is the last.
 */
static void count_report(struct tutti_context *ctx, uint32_t can)
{
	struct node_msg msg = {.verdict = 1};

	ctx->node_all = ctx->node_reports++ ? ctx->node_all & can : can;
	msg.can = ctx->node_all;
	if (ctx->node_reports == ctx->boot_params.nranks && ctx->boot)
		tt_ctl_send(ctx->boot, TT_CTL_ALL, TT_CTL_NODE, &msg, sizeof(msg));
}

void tt_node_msg(void *arg, int from, const void *data, size_t len)
{
	struct tutti_context *ctx = arg;
	struct node_msg msg;

	if (len != sizeof(msg))
		return;
	memcpy(&msg, data, sizeof(msg));
	tt_ctx_lock(ctx);
	if (!msg.verdict) {
		count_report(ctx, msg.can);
	} else if (from == 0) {
		ctx->node_can = msg.can;
		atomic_store(&ctx->node_agreed, true);
		tt_wire_wake(ctx->wire);
	}
	tt_ctx_unlock(ctx);
}

/* Sorts host keys, to find two ranks on one host. All ranks see the same cards. */
static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int shares_host(struct tutti_context *ctx, bool *shares)
{
	int i, n = ctx->boot_params.nranks;
	uint64_t *key = malloc((size_t)n * sizeof(*key));

	if (!key)
		return tt_fail(-ENOMEM, "no memory to compare hosts");
	for (i = 0; i < n; i++)
		key[i] = tt_wire_host_key(ctx->wire, i);
	qsort(key, (size_t)n, sizeof(*key), by_number);
	for (i = 1; i < n; i++)
		*shares |= key[i] == key[i - 1];
	free(key);
	return 0;
}

static int attach(struct tutti_context *ctx, int (*card)(void *, int, struct tt_node_card *),
		  unsigned *can)
{
	int i, me = ctx->boot_params.rank, err = 0;
	struct tt_node_card c;
	uint64_t mine = tt_wire_host_key(ctx->wire, me);

	*can = ctx->node ? TT_NODE_MAPS | TT_NODE_READS : 0;
	for (i = 0; !err && *can && i < ctx->boot_params.nranks; i++) {
		if (i == me || tt_wire_host_key(ctx->wire, i) != mine)
			continue;
		err = card(ctx, i, &c);
		if (!err)
			err = tt_node_attach(ctx->node, i, ctx->boot_params.nranks, &c, can);
	}
	return err;
}

static bool agreed(void *arg)
{
	struct tutti_context *ctx = arg;

	return atomic_load(&ctx->node_agreed) || atomic_load(&ctx->world->failed);
}

static int too_late(struct tutti_context *ctx)
{
	long long ms = (long long)ctx->env.init_timeout.number;
	int came, n = ctx->boot_params.nranks;

	tt_wire_lock(ctx->wire);
	came = ctx->node_reports;
	tt_wire_unlock(ctx->wire);
	if (ctx->boot_params.rank)
		return tt_fail(-ETIMEDOUT,
			       "the ranks did not agree on shared memory within %lld ms "
			       "(TUTTI_INIT_TIMEOUT): rank 0 has not said that all have come",
			       ms);
	return tt_fail(-ETIMEDOUT,
		       "the ranks did not agree on shared memory within %lld ms "
		       "(TUTTI_INIT_TIMEOUT): %d of %d have come",
		       ms, came, n);
}

int tt_node_agree(struct tutti_context *ctx, int (*card)(void *, int, struct tt_node_card *))
{
	uint64_t deadline = tt_deadline_ms(ctx->env.init_timeout.number);
	struct node_msg msg = {0};
	bool shares = false;
	int err;

	err = shares_host(ctx, &shares);
	if (err || !shares)
		return err;
	err = attach(ctx, card, &msg.can);
	if (err)
		msg.can = 0; /* the other ranks wait for a report */
	if (ctx->boot_params.rank) {
		int unsent = tt_ctl_send(ctx->boot, 0, TT_CTL_NODE, &msg, sizeof(msg));

		err = err ? err : unsent; /* leave now: the other ranks would wait for it */
	} else {
		tt_wire_lock(ctx->wire);
		count_report(ctx, msg.can);
		tt_wire_unlock(ctx->wire);
	}
	if (!err && tt_engine_wait(ctx, agreed, ctx, deadline))
		err = too_late(ctx);
	/* later failures are reported by later calls */
	return err || atomic_load(&ctx->node_agreed) ? err : tt_comm_check(ctx->world);
}
