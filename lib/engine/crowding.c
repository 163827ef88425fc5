/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that crowd on one core while another has fewer of them.
 *
 * The kernel leaves them there for a long time: who gives its core away all the time never seems
 * to want more than it has. Each hand-over costs more than a short collective itself, so ranks
 * that wait for one on their own core look where all of them are, and move. One in each turn may,
 * so that they don't all go to the same place; and only while nothing but ranks wants to run, as a
 * core without a rank may be another program's.
 */
#include "lib/base/clock.h"
#include "lib/engine/node/node_ops.h"
#include "lib/topo/topo.h"

#define CORES 1024
#define AGAIN_NS TT_MS	       /* after it was not possible */
#define SETTLE_NS (10 * TT_MS) /* after a move */

void tt_spread(const struct tutti_context *ctx, struct tt_node_comm *nc, uint64_t turn)
{
	uint16_t on[CORES];
	uint64_t now;
	int here;

	if (ctx->wait_forced || turn % (uint64_t)nc->n != (uint64_t)nc->member_here)
		return;
	now = tt_now_ns();
	if (now < nc->spread_at)
		return;
	nc->spread_at = now + AGAIN_NS;
	here = tt_node_cores(nc->group, on, CORES);
	if (tt_topo_runnable() > nc->n)
		return;
	if (tt_topo_spread(on, CORES, here) != here)
		nc->spread_at = now + SETTLE_NS;
}
