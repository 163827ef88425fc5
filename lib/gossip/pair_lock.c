/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lock of a vector: a word of its window with two ranks, each + 1 or 0, changed by compare and
 * swap: the holder, and the next one. A rank that has waited for a while names itself as the next
 * one, and the holder hands the lock to it; else a rank that takes its own lock again and again
 * would starve ranks whose compare and swap goes over a network. No thread names its rank as the
 * next one while another thread of that rank has the lock: it tries again.
 *
 * A rank that holds one lock only waits for locks of higher ranks, so no ring of waiting ranks
 * comes about. The lock of a holder that is known to be dead goes to the first that asks: the word
 * names the dead rank, which cannot take it again, so only one of them gets it.
 */
#include <errno.h>
#include <sched.h>
#include <time.h>

#include "lib/base/clock.h"
#include "lib/gossip/gossip.h"

#define SPINS 64		   /* tries before the first sleep */
#define SLEEP_MOST (500 * 1000ull) /* ns */

static void pause_for(int tries)
{
	uint64_t ns = 1000ull << (tries - SPINS > 9 ? 9 : tries - SPINS);
	struct timespec t = {.tv_nsec = (long)(ns < SLEEP_MOST ? ns : SLEEP_MOST)};

	nanosleep(&t, NULL);
}

static uint64_t holder_of(uint64_t word)
{
	return word & UINT32_MAX;
}

static uint64_t next_of(uint64_t word)
{
	return word >> 32;
}

static uint64_t word_of(uint64_t holder, uint64_t next)
{
	return holder | next << 32;
}

static bool is_dead(const struct tutti_pair *pair, uint64_t id)
{
	return id && tt_gossip_dead(&pair->base, (int)id - 1);
}

/* One try to take the lock. */
struct
try {
	struct tutti_pair *pair;
	int rank;
	uint64_t me;
	uint64_t word; /* as last seen */
	bool queued;   /* this thread is the next one */
	bool got, broke;
};

/* The new value of the word; the old one if this rank can only wait. */
static uint64_t wanted(const struct try *t, bool patient)
{
	uint64_t holder = holder_of(t->word), next = next_of(t->word);

	if (!holder)
		return word_of(t->me, next);
	if (is_dead(t->pair, holder))
		return word_of(t->me, t->queued && next == t->me ? 0 : next);
	/* Behind its own rank, the word would not tell which thread has the lock. */
	if (!t->queued && !patient && holder != t->me && (!next || is_dead(t->pair, next)))
		return word_of(holder, t->me);
	return t->word;
}

static int try_once(struct try *t, bool patient)
{
	uint64_t want = wanted(t, patient), old;
	bool taken = holder_of(want) == t->me && holder_of(t->word) != t->me;
	int err = tutti_compare_swap(t->pair->base.win, t->rank, t->word, want, 0, &old);

	if (err)
		return err;
	if (old == t->word && taken) {
		t->got = true;
		t->broke = holder_of(t->word);
	} else if (old == t->word && want != t->word) {
		t->queued = true;
	}
	t->word = old == t->word ? want : old;
	/* handed over by the holder */
	t->got = t->got || (t->queued && holder_of(t->word) == t->me && next_of(t->word) != t->me);
	return 0;
}

/* Leaves the place of the next one. The lock may have been handed over meanwhile: gives it on. */
static int leave_queue(struct try *t)
{
	uint64_t old;
	int err = 0;

	while (!err && t->queued && next_of(t->word) == t->me) {
		err = tutti_compare_swap(t->pair->base.win, t->rank, t->word,
					 word_of(holder_of(t->word), 0), 0, &old);
		t->queued = err || old != t->word;
		t->word = old;
	}
	return !err && t->queued && holder_of(t->word) == t->me ? tt_pair_give(t->pair, t->rank)
								: err;
}

static int too_late(struct try *t, const char *call)
{
	struct tutti_comm *comm = t->pair->base.comm;
	int holder = (int)holder_of(t->word) - 1;

	leave_queue(t);
	return tt_comm_blame_rank(comm, -ETIMEDOUT, holder,
				  "%s: rank %d has the lock of rank %d's vector, for which this "
				  "rank has waited %lld ms (TUTTI_TIMEOUT); call tutti_pair_unlock "
				  "there",
				  call, comm->world[holder], t->rank,
				  (long long)comm->ctx->env.timeout.number);
}

int tt_pair_take(struct tutti_pair *pair, int rank, const char *call)
{
	struct try t = {.pair = pair, .rank = rank, .me = (uint64_t)pair->base.comm->rank + 1};
	uint64_t due = tt_deadline_ms(pair->base.comm->ctx->env.timeout.number);
	int tries, err;

	for (tries = 0;; tries++) {
		err = try_once(&t, tries < SPINS);
		if (err)
			return err;
		if (t.got)
			break;
		atomic_fetch_add(&pair->waits, !tries);
		/* without a holder it has just become free */
		if (holder_of(t.word) && tt_engine_due(pair->base.comm->ctx, due))
			return too_late(&t, call);
		if (tries < SPINS)
			sched_yield();
		else
			pause_for(tries);
	}
	atomic_fetch_add(&pair->broken, t.broke);
	return 0;
}

int tt_pair_give(struct tutti_pair *pair, int rank)
{
	uint64_t word = word_of((uint64_t)pair->base.comm->rank + 1, 0), old;
	int err;

	for (;;) {
		err = tutti_compare_swap(pair->base.win, rank, word, word_of(next_of(word), 0), 0,
					 &old);
		if (err || old == word)
			return err;
		word = old;
	}
}

int tt_pair_error(const struct tutti_pair *pair, int rank, const char *call, int err)
{
	struct tutti_comm *comm = pair->base.comm;

	if (err != -TUTTI_EPEER || !tt_gossip_dead(&pair->base, rank))
		return err;
	tt_wire_lock(comm->ctx->wire);
	err = tt_comm_needs_dead(comm, rank, call);
	tt_wire_unlock(comm->ctx->wire);
	return err;
}

bool tt_pair_holds(struct tutti_pair *pair)
{
	bool holds;

	pthread_mutex_lock(&pair->hold);
	holds = pair->held >= 0 && pthread_equal(pair->holder, pthread_self());
	pthread_mutex_unlock(&pair->hold);
	return holds;
}

int tt_pair_held(struct tutti_pair *pair)
{
	int rank;

	pthread_mutex_lock(&pair->hold);
	rank = pair->held;
	pthread_mutex_unlock(&pair->hold);
	return rank;
}

int tt_pair_hold(struct tutti_pair *pair, int rank)
{
	static const char call[] = "tutti_pair_lock";
	int err = tt_pair_take(pair, rank, call);
	bool other;

	if (err)
		return tt_pair_error(pair, rank, call, err);
	pthread_mutex_lock(&pair->hold);
	other = pair->held >= 0;
	if (!other) {
		pair->held = rank;
		pair->holder = pthread_self();
	}
	pthread_mutex_unlock(&pair->hold);
	if (!other)
		return 0;
	err = tt_pair_give(pair, rank);
	return err ? tt_pair_error(pair, rank, call, err)
		   : tt_fail(-EBUSY, "%s: another thread of this rank has a lock; unlock it first",
			     call);
}

int tt_pair_release(struct tutti_pair *pair)
{
	int rank;

	pthread_mutex_lock(&pair->hold);
	rank = pair->held;
	pair->held = -1;
	pthread_mutex_unlock(&pair->hold);
	return tt_pair_error(pair, rank, "tutti_pair_unlock", tt_pair_give(pair, rank));
}
