/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Spreads ranks that share a core while another core has fewer ranks.
 *
 * The kernel leaves such ranks together for a long time: a rank that yields all the time never
 * seems to want more than it has. Each hand-over costs more than a short collective. Ranks that
 * wait for a rank on their own core therefore look where all ranks are, and move. One rank may
 * move per turn, so that they do not all go to the same place. They move only while nothing but
 * ranks wants to run, as a core without a rank may be another program's.
 */
#include "lib/base/clock.h"
#include "lib/engine/node/node_ops.h"
#include "lib/topo/topo.h"

#define CORES 1024
#define AGAIN_NS TT_MS	       /* after a move was not possible */
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
