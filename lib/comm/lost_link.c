/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Live ranks that have lost the connection between them.
 *
 * Communicators need both ranks, so one of them has to fail. Each end that notices reports it to
 * the lowest live rank, which decides, and repeats the report until a rank has failed. The decider
 * records every reported connection, and decides about a connection when an end repeats its
 * report: by then all connections that broke at about the same time have been reported. The end
 * that has lost more connections fails, because the fault is probably there. If both have lost the
 * same number, the higher rank fails, so a decision never depends on one end's word or on the
 * order of reports. Connections to ranks already failed count too: a rank whose connections break
 * one by one takes at most one other rank with it. The verdict quotes both ends: often one knows
 * the reason, and the other only that the connection was closed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/comm/comm.h"

#define BROKEN_MAX 65536 /* above: decide on the first report */

/* In TT_CTL_ACCUSE. */
struct accuse_msg {
	int32_t rank, by;
	char why[256];
};
_Static_assert(sizeof(struct accuse_msg) == 264, "doc/WIRE.md");

struct tt_broken {
	int end[2];	  /* lower rank first */
	uint64_t said[2]; /* when that end first reported; 0: not yet */
	char why[2][256]; /* its reason; empty: none yet */
	bool judged;
};

void tt_ctx_lost(struct tutti_context *ctx, int rank, const char *why)
{
	struct accuse_msg msg = {.rank = rank, .by = ctx->boot_params.rank};

	snprintf(msg.why, sizeof(msg.why), "%s", why);
	tt_ctl_send(ctx->boot, tt_boot_lowest(ctx->boot), TT_CTL_ACCUSE, &msg, sizeof(msg));
}

void tt_ctx_cut(void *arg, int rank, const char *why)
{
	struct tutti_context *ctx = arg;
	struct tt_list *l, *tmp;

	tt_list_each(l, tmp, &ctx->comms)
	{
		struct tutti_comm *comm = tt_container(l, struct tutti_comm, link);

		if (atomic_load(&comm->failed) || comm->suspect >= 0 ||
		    tt_comm_rank_of(comm, rank) < 0)
			continue;
		comm->suspect = rank;
		comm->suspect_code = -TUTTI_EPEER;
		comm->suspect_until = tt_now_ns();
		snprintf(comm->suspect_why, sizeof(comm->suspect_why), "%s", why);
		ctx->suspicions = true;
	}
}

static struct tt_broken *find(const struct tutti_context *ctx, int low, int high)
{
	unsigned i;

	for (i = 0; i < ctx->nbroken; i++)
		if (ctx->broken[i].end[0] == low && ctx->broken[i].end[1] == high)
			return &ctx->broken[i];
	return NULL;
}

/* Finds or adds an entry; NULL: no room. */
static struct tt_broken *connection(struct tutti_context *ctx, int a, int b)
{
	int low = a < b ? a : b, high = a < b ? b : a;
	struct tt_broken *c = find(ctx, low, high);

	if (c || ctx->nbroken == BROKEN_MAX)
		return c;
	if (!(ctx->nbroken & (ctx->nbroken - 1))) { /* 0, 1, 2, 4, 8 ... */
		c = realloc(ctx->broken, (ctx->nbroken ? 2 * ctx->nbroken : 1) * sizeof(*c));
		if (!c)
			return NULL;
		ctx->broken = c;
	}
	c = &ctx->broken[ctx->nbroken++];
	*c = (struct tt_broken){.end = {low, high}};
	return c;
}

/* The number of connections that rank has lost. */
static int lost_by(const struct tutti_context *ctx, int rank)
{
	unsigned i;
	int n = 0;

	for (i = 0; i < ctx->nbroken; i++)
		n += ctx->broken[i].end[0] == rank || ctx->broken[i].end[1] == rank;
	return n;
}

static int who_goes(const struct tutti_context *ctx, int a, int b)
{
	int of_a = lost_by(ctx, a), of_b = lost_by(ctx, b);

	if (of_a != of_b)
		return of_a > of_b ? a : b;
	return a > b ? a : b;
}

static void judge(struct tutti_context *ctx, const struct accuse_msg *msg)
{
	struct tt_broken *c = msg->by == msg->rank ? NULL : connection(ctx, msg->by, msg->rank);
	int side = msg->by > msg->rank, out;
	uint64_t now = tt_now_ns();
	char why[TT_GONE_WHY];
	size_t n;

	if (c && c->judged)
		return;
	if (c)
		snprintf(c->why[side], sizeof(c->why[side]), "%s", msg->why);
	if (c && !c->said[side])
		c->said[side] = now;
	if (c && now - c->said[side] < TT_ACCUSE_AGAIN / 2)
		return;
	out = who_goes(ctx, msg->by, msg->rank);
	if (out == msg->rank)
		snprintf(why, sizeof(why), "rank %d reports: %s", msg->by, msg->why);
	else if (lost_by(ctx, out) > lost_by(ctx, msg->rank))
		snprintf(why, sizeof(why), "it lost %d connections, rank %d lost %d: %s",
			 lost_by(ctx, out), msg->rank, lost_by(ctx, msg->rank), msg->why);
	else
		snprintf(why, sizeof(why), "it lost its connection to rank %d: %s", msg->rank,
			 msg->why);
	n = strlen(why);
	if (c && c->why[!side][0])
		snprintf(why + n, sizeof(why) - n, "; rank %d reports: %s", msg->rank,
			 c->why[!side]);
	if (!tt_boot_evict(ctx->boot, out, why) && c)
		c->judged = true;
}

/* A rank that is not the lowest (any more) forwards the message. */
void tt_ctx_accuse_msg(void *arg, int from, const void *data, size_t len)
{
	struct tutti_context *ctx = arg;
	int me = ctx->boot_params.rank, n = ctx->boot_params.nranks, lowest;
	struct accuse_msg msg;

	(void)from;
	if (len != sizeof(msg))
		return;
	memcpy(&msg, data, sizeof(msg));
	msg.why[sizeof(msg.why) - 1] = 0;
	if (msg.rank < 0 || msg.rank >= n || msg.by < 0 || msg.by >= n)
		return;
	tt_ctx_lock(ctx);
	lowest = ctx->boot ? tt_boot_lowest(ctx->boot) : n;
	if (lowest < me)
		tt_ctl_send(ctx->boot, lowest, TT_CTL_ACCUSE, &msg, sizeof(msg));
	else if (lowest == me && !tt_boot_gone(ctx->boot, msg.by, NULL, 0) &&
		 !tt_boot_gone(ctx->boot, msg.rank, NULL, 0))
		judge(ctx, &msg);
	tt_ctx_unlock(ctx);
}
