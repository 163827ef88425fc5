/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pairwise averaging: the rank that calls takes both locks, the lower rank's first, reads the other
 * vector, writes it back, then changes its own. It waits for the write to be in place before it
 * gives the locks back. If the other rank dies meanwhile, its own vector stays as it was.
 *
 * X. Lian, W. Zhang, C. Zhang, J. Liu, "Asynchronous Decentralized Parallel Stochastic Gradient
 * Descent", ICML 2018.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/copy.h"
#include "lib/engine/vote.h"
#include "lib/gossip/gossip.h"
#include "lib/reduce/mix.h"

static void release(struct tutti_pair *pair)
{
	tutti_free(pair->room);
	pthread_mutex_destroy(&pair->lock);
	pthread_mutex_destroy(&pair->hold);
	pair->magic = 0;
	free(pair);
}

static int new_state(struct tutti_comm *comm, const char *call, size_t count,
		     enum tutti_datatype datatype, struct tutti_pair **pair)
{
	struct tutti_pair *p = calloc(1, sizeof(*p));
	void *room;
	int err;

	if (!p)
		return tt_fail(-ENOMEM, "%s: no memory", call);
	p->count = count;
	p->len = count * tutti_datatype_size(datatype);
	p->datatype = datatype;
	p->random = (uint64_t)comm->rank * 0x9e3779b97f4a7c15ull + 1;
	p->held = -1;
	pthread_mutex_init(&p->lock, NULL);
	pthread_mutex_init(&p->hold, NULL);
	err = tutti_alloc(comm->ctx, 2 * p->len + 1, &room);
	if (err) {
		release(p);
		return err;
	}
	p->room = room;
	*pair = p;
	return 0;
}

int tt_pair_new(struct tutti_comm *comm, size_t count, enum tutti_datatype datatype, int err,
		struct tutti_pair **pair)
{
	static const char call[] = "tutti_pair_create";
	static const struct tt_gossip_kind kind = {call, "a pair", "tutti_pair_free"};
	struct tutti_pair *p = NULL;

	if (!err)
		err = new_state(comm, call, count, datatype, &p);
	err = tt_agree(comm, call, err);
	if (!err)
		err = tt_gossip_agree(comm, call, count, (int)datatype);
	if (!err)
		err = tt_gossip_base_new(comm, &kind, 0, TT_GOSSIP_LINE + p->len, &p->base);
	if (err) {
		if (p)
			release(p);
		return err;
	}
	p->magic = TT_PAIR_MAGIC;
	*pair = p;
	return 0;
}

int tt_pair_free(struct tutti_pair *pair)
{
	int err = tt_gossip_base_free(&pair->base, "tutti_pair_free");

	release(pair);
	return err;
}

/* xorshift64 */
static uint64_t draw(struct tutti_pair *pair)
{
	uint64_t x = pair->random;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	pair->random = x;
	return x;
}

/* A live rank at random, not this one; -1: there is none. */
static int pick(struct tutti_pair *pair)
{
	int n = pair->base.comm->size, me = pair->base.comm->rank, i, r;

	r = (int)(draw(pair) % (uint64_t)n);
	for (i = 0; i < n; i++, r = (r + 1) % n)
		if (r != me && !tt_gossip_dead(&pair->base, r))
			return r;
	return -1;
}

/* Both locks are held. */
static int exchange(struct tutti_pair *pair, int rank)
{
	struct tt_gossip_base *base = &pair->base;
	char *mine = base->mem + TT_GOSSIP_LINE, *theirs = pair->room, *ours = theirs + pair->len;
	bool lower = base->comm->rank < rank;
	int err = tutti_get(base->win, rank, theirs, pair->len, TT_GOSSIP_LINE);

	if (!err)
		err = tutti_win_flush(base->win, rank);
	if (err)
		return err;
	tt_copy_data(ours, mine, pair->len);
	tt_reduce_halve(lower ? ours : theirs, lower ? theirs : ours, pair->count, pair->datatype);
	err = tutti_put(base->win, rank, theirs, pair->len, TT_GOSSIP_LINE);
	if (!err)
		err = tutti_win_flush(base->win, rank);
	if (err)
		return err;
	tt_copy_data(mine, ours, pair->len);
	tt_gossip_copied(base, 2 * pair->len);
	pair->averages++;
	return 0;
}

static int average(struct tutti_pair *pair, int rank)
{
	static const char call[] = "tutti_pair_average";
	int me = pair->base.comm->rank;
	int low = me < rank ? me : rank, high = me < rank ? rank : me, err, end;

	err = tt_pair_take(pair, low, call);
	if (err)
		return tt_pair_error(pair, rank, call, err);
	err = tt_pair_take(pair, high, call);
	if (!err) {
		err = exchange(pair, rank);
		end = tt_pair_give(pair, high);
		err = err ? err : end;
	}
	end = tt_pair_give(pair, low);
	return tt_pair_error(pair, rank, call, err ? err : end);
}

int tt_pair_average(struct tutti_pair *pair, int rank, int *partner)
{
	int err, r = rank;

	pthread_mutex_lock(&pair->lock);
	do {
		if (rank == TUTTI_PAIR_ANY)
			r = pick(pair);
		err = r < 0 ? tt_fail(-TUTTI_EPEER, "tutti_pair_average: no other rank lives")
			    : average(pair, r);
		/* A rank that was chosen and has died meanwhile is not chosen again. */
	} while (err == -TUTTI_EPEER && rank == TUTTI_PAIR_ANY && r >= 0 &&
		 tt_gossip_dead(&pair->base, r));
	pthread_mutex_unlock(&pair->lock);
	if (!err && partner)
		*partner = r;
	return err;
}
