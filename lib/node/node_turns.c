/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The turns of a communicator's area: what ranks publish in it, the flags they signal with and wait
 * for, and the fence that takes published memory back.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/copy.h"
#include "lib/base/proc.h"
#include "lib/node/node_internal.h"

#define FENCE_MS 5000ull /* a peer stopped in the middle of a pull for longer is killed */
#define GRACE_MS 10ull	 /* the same of a peer that is taken for dead */
#define LOOK_MS 5ull	 /* counted of the time between two looks, at most */

bool tt_node_may_begin(struct tt_node_group *g, uint64_t turn)
{
	uint64_t least = UINT64_MAX, done;
	int i;

	if (turn <= g->all_done + 2)
		return true;
	for (i = 0; i < g->size; i++) {
		done = atomic_load_explicit(&g->area->rank[i].done, memory_order_acquire);
		least = done < least ? done : least;
	}
	g->all_done = least > g->all_done ? least : g->all_done;
	return turn <= g->all_done + 2;
}

int tt_node_behind(const struct tt_node_group *g, int from, uint64_t turn)
{
	int i;

	for (i = from; i < g->size; i++)
		if (i != g->rank &&
		    turn > atomic_load_explicit(&g->area->rank[i].done, memory_order_relaxed) + 2)
			return i;
	return -1;
}

void *tt_node_slot(struct tt_node_group *g, uint64_t turn)
{
	return g->area->rank[g->rank].slot[turn % 2].data;
}

void *tt_node_slot_of(const struct tt_node_group *g, int rank, uint64_t turn)
{
	return g->area->rank[rank].slot[turn % 2].data;
}

const struct tt_mr *tt_node_mr(const struct tt_node_group *g, const struct tt_region *region)
{
	int i;

	for (i = 0; region && i < TT_TP_MAX; i++)
		if (region->mr[i] && region->mr[i]->tp == &g->node->keeper)
			return region->mr[i];
	return NULL;
}

bool tt_node_maps(const struct tt_node_group *g, const struct tt_region *region)
{
	return tt_node_mr(g, region);
}

struct node_buf tt_node_pool_buf(const struct tt_mr *mr, const void *addr, size_t len)
{
	return (struct node_buf){.kind = NODE_POOL,
				 .slab = (uint32_t)mr->rkey.word[1],
				 .id = mr->rkey.word[0],
				 .off = (uint64_t)(uintptr_t)addr - mr->rkey.word[2],
				 .len = len};
}

bool tt_node_direct(const struct tt_node_group *g)
{
	return g->plain && g->size == 2;
}

static struct node_buf copy_to_slot(struct tt_node_group *g, uint64_t turn, const void *addr,
				    size_t len, unsigned measure)
{
	uint64_t from = measure ? tt_ticks() : 0;

	tt_copy_data(tt_node_slot(g, turn), addr, len);
	if (measure)
		tt_node_copied_in(g, measure, len, from);
	return (struct node_buf){.kind = NODE_SLOT, .slab = measure, .len = len};
}

int tt_node_publish(struct tt_node_group *g, uint64_t turn, enum tt_node_which which, void *addr,
		    size_t len, const struct tt_region *region, enum tt_node_how how)
{
	struct node_buf *buf = &g->area->rank[g->rank].buf[turn % 2][which];
	struct node_buf b = {.kind = NODE_PLAIN, .off = (uint64_t)(uintptr_t)addr, .len = len};
	const struct tt_mr *mr = tt_node_mr(g, region);
	bool fits = which == TT_NODE_INPUT && len <= g->slot && how != TT_NODE_STAYS;

	b.slab = !mr && fits ? tt_node_measure(g, how, len) : 0;
	if (!len)
		b.kind = NODE_NONE;
	else if (mr)
		b = tt_node_pool_buf(mr, addr, len);
	else if (fits && !(b.slab && tt_node_is_read(g, &b.slab)))
		b = copy_to_slot(g, turn, addr, len, b.slab);
	else if (!g->plain)
		return -EOPNOTSUPP;
	g->own[turn % 2][which] = addr;
	tt_node_put_buf(buf, &b);
	return b.kind == NODE_SLOT ? (int)len : 0;
}

void tt_node_own(struct tt_node_group *g, uint64_t turn, enum tt_node_which which, void *addr)
{
	g->own[turn % 2][which] = addr;
}

void tt_node_wake_all(struct tt_node_group *g)
{
	int i;

	/*
	 * Makes all stores visible before the check for sleepers; tt_node_lie_down has the
	 * matching fence.
	 */
	atomic_thread_fence(memory_order_seq_cst);
	for (i = 0; i < g->size; i++)
		if (g->peer[i] &&
		    atomic_load_explicit(&g->peer[i]->seg->sleeping, memory_order_relaxed))
			tt_shm_wake(&g->peer[i]->seg->sleeping, g->peer[i]->wake_fd);
}

/*
 * Publishes the core this rank runs on, for ranks that wait for it. If the system does not know,
 * all ranks are on one core.
 */
static void seen_here(struct tt_node_group *g)
{
	int core = sched_getcpu();

	if (core == g->core)
		return;
	g->core = core;
	atomic_store_explicit(&g->area->rank[g->rank].core, core, memory_order_relaxed);
}

void tt_node_tell(struct tt_node_group *g, uint64_t turn, unsigned step, uint64_t fprint)
{
	struct node_slot *slot = &g->area->rank[g->rank].slot[turn % 2];

	slot->fprint = fprint;
	atomic_store_explicit(&slot->flag, tt_node_flag(turn, step), memory_order_release);
	seen_here(g);
}

void tt_node_signal(struct tt_node_group *g, uint64_t turn, unsigned step, uint64_t fprint)
{
	tt_node_tell(g, turn, step, fprint);
	tt_node_wake_all(g);
}

bool tt_node_reached(struct tt_node_group *g, int peer, uint64_t turn, unsigned step,
		     uint64_t fprint, bool *differs)
{
	const struct node_slot *slot = &g->area->rank[peer].slot[turn % 2];
	uint64_t flag = atomic_load_explicit(&slot->flag, memory_order_acquire);

	if (flag < tt_node_flag(turn, step))
		return false;
	*differs = flag >> 8 != turn || slot->fprint != fprint;
	return true;
}

int tt_node_missing(struct tt_node_group *g, int from, int end, uint64_t turn, unsigned step,
		    uint64_t fprint, bool *differs)
{
	const struct node_slot *slot;
	uint64_t flag;

	for (; from < end; from++) {
		if (from == g->rank)
			continue;
		slot = &g->area->rank[from].slot[turn % 2];
		flag = atomic_load_explicit(&slot->flag, memory_order_acquire);
		if (flag < tt_node_flag(turn, step))
			break;
		*differs = flag >> 8 != turn || slot->fprint != fprint;
		if (*differs)
			break;
	}
	return from;
}

bool tt_node_shares(struct tt_node_group *g, int from, int end, uint64_t turn, unsigned step)
{
	const struct node_rank *rank = g->area->rank;
	uint64_t flag = tt_node_flag(turn, step);
	int i;

	seen_here(g);
	for (i = from; i < end; i++)
		if (i != g->rank &&
		    atomic_load_explicit(&rank[i].core, memory_order_relaxed) == g->core &&
		    atomic_load_explicit(&rank[i].slot[turn % 2].flag, memory_order_relaxed) < flag)
			return true;
	return false;
}

int tt_node_cores(struct tt_node_group *g, uint16_t *on, int n)
{
	int i, core;

	seen_here(g);
	memset(on, 0, (size_t)n * sizeof(*on));
	for (i = 0; i < g->size; i++) {
		core = atomic_load_explicit(&g->area->rank[i].core, memory_order_relaxed);
		if (core >= 0 && core < n)
			on[core]++;
	}
	return g->core < n ? g->core : -1;
}

/*
 * Ranks that need nothing of each other, such as two that both are root of a broadcast, see no
 * differing flag. Their calls are therefore compared again when all have finished. A peer is at
 * most two turns ahead, so four places are enough.
 */
void tt_node_began(struct tt_node_group *g, uint64_t turn, uint64_t fprint)
{
	atomic_store_explicit(&g->area->rank[g->rank].called[turn % 4], fprint,
			      memory_order_relaxed);
}

/* Whether the ranks, or those that have finished turn t, have made this rank's call in it. */
static bool made_same(const struct tt_node_group *g, uint64_t t, bool finished)
{
	uint64_t own =
		atomic_load_explicit(&g->area->rank[g->rank].called[t % 4], memory_order_relaxed);
	int i;

	for (i = 0; i < g->size; i++) {
		struct node_rank *nr = &g->area->rank[i];

		if ((!finished || atomic_load_explicit(&nr->done, memory_order_acquire) >= t) &&
		    atomic_load_explicit(&nr->called[t % 4], memory_order_relaxed) != own)
			return false;
	}
	return true;
}

bool tt_node_agreed(struct tt_node_group *g, uint64_t upto, uint64_t *turn)
{
	uint64_t t = g->agreed + 1;

	if (t > upto)
		return true;
	for (t = t + 1 < upto ? upto - 1 : t; t <= upto; t++) {
		*turn = t;
		if (!made_same(g, t, false))
			return false;
		g->agreed = t;
	}
	return true;
}

bool tt_node_last_agreed(struct tt_node_group *g, uint64_t last, uint64_t *turn)
{
	uint64_t t = last > g->agreed + 1 ? last - 1 : last;

	/* of two ranks that come at the same time, at least one sees the other's turn as done */
	atomic_thread_fence(memory_order_seq_cst);
	for (; t > g->agreed && t <= last; t++) {
		*turn = t;
		if (!made_same(g, t, true))
			return false;
	}
	return true;
}

bool tt_node_end_turns(struct tt_node_group *g, uint64_t turns)
{
	uint64_t other;
	int i;

	atomic_store(&g->area->rank[g->rank].ended, turns + 1);
	for (i = 0; i < g->size; i++) {
		other = atomic_load(&g->area->rank[i].ended);
		if (other && other != turns + 1)
			return false;
	}
	return true;
}

void tt_node_all_began(struct tt_node_group *g, uint64_t turn)
{
	g->agreed = turn;
	if (turn - 1 > g->all_done)
		g->all_done = turn - 1;
}

void tt_node_finish(struct tt_node_group *g, uint64_t turn)
{
	atomic_store_explicit(&g->area->rank[g->rank].done, turn, memory_order_release);
}

/* ---- the fence ---- */

static void end_peer(struct node_peer *peer)
{
	if (peer->ended)
		return;
	peer->ended = true;
	tt_warn("process %d has been stopped for %d s, or was taken for dead, in the middle of "
		"reading or writing this process's buffers; it is ended, so that they can be used "
		"again",
		(int)peer->pid, (int)(FENCE_MS / 1000));
	kill(peer->pid, SIGKILL);
}

/* Whether rank i may access buffers of this rank. Ends a process that does not let go of them. */
static bool is_claimed(struct tt_node_group *g, int i)
{
	struct node_peer *peer = g->peer[i];

	if (!peer || !atomic_load(&g->area->rank[i].busy) || tt_proc_gone(peer->pid))
		return false;
	if (g->awaited >= FENCE_MS * TT_MS ||
	    (g->awaited >= GRACE_MS * TT_MS && g->gone(g->arg, g->world[i])))
		end_peer(peer);
	/* then even a kill does not help: it is stuck in the kernel, not in user code */
	return g->awaited < 2 * FENCE_MS * TT_MS;
}

/*
 * A later claim is refused, but is seen until then. So a rank counts as stopped only after many
 * looks without a long time between them.
 */
bool tt_node_try_withdraw(struct tt_node_group *g)
{
	uint64_t now = tt_now_ns(), since = now - g->looked;

	g->looked = now;
	if (atomic_exchange(&g->area->rank[g->rank].withdrawn, 1))
		g->awaited += since < LOOK_MS * TT_MS ? since : LOOK_MS * TT_MS;
	for (; g->fenced < g->size; g->fenced++) {
		if (is_claimed(g, g->fenced))
			return false;
		g->awaited = 0;
	}
	return true;
}

void tt_node_withdraw(struct tt_node_group *g)
{
	int turn;

	while (!tt_node_try_withdraw(g)) {
		for (turn = 0; turn < 64; turn++)
			tt_cpu_relax();
		sched_yield();
	}
}
