/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Partial all-reduce: an all-reduce that does not wait for slow ranks. What comes late is carried
 * into a later round, or dropped.
 *
 * Calls join rounds 1, 2, ... of an object. A round is decided once: when enough ranks have
 * offered, or when time is up. Its result is the sum or average over the ranks that took part, the
 * same bits on all ranks. tutti_partial_create(3) has the rules.
 */
#ifndef TUTTI_PARTIAL_H
#define TUTTI_PARTIAL_H

#include <tutti/coll.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

struct tutti_partial;

#define TUTTI_PARTIAL_WINDOW 16	    /* results that are kept at most */
#define TUTTI_PARTIAL_MAJORITY (-1) /* as quorum: more than half of the living ranks */

/* Treatment of a contribution that comes after its round was decided. */
enum tutti_partial_late {
	TUTTI_PARTIAL_CARRY, /* added to this rank's offer for the next round */
	TUTTI_PARTIAL_DROP   /* counted and discarded: backup workers */
};

/* The divisor of an average. */
enum tutti_partial_divide {
	TUTTI_PARTIAL_BY_TAKING_PART, /* the ranks that took part in the round */
	TUTTI_PARTIAL_BY_SIZE	      /* all ranks of the communicator */
};

/* Zero always means the default. The same on all ranks. */
struct tutti_partial_config {
	size_t size;   /* sizeof(struct tutti_partial_config) */
	int quorum;    /* ranks that decide a round; 0: all living; or TUTTI_PARTIAL_MAJORITY */
	int cutoff_us; /* a round waits so long at most after its first caller; 0: no limit */
	enum tutti_partial_late late;
	enum tutti_partial_divide divide;
};

/**
 * tutti_partial_create - make a partial all-reduce of vectors of count elements. op is TUTTI_SUM or
 * TUTTI_AVG. Starts a thread of the library. Collective. config NULL: all living ranks, no cutoff.
 */
int tutti_partial_create(struct tutti_comm *comm, size_t count, enum tutti_datatype datatype,
			 enum tutti_op op, const struct tutti_partial_config *config,
			 struct tutti_partial **partial);

/**
 * tutti_partial_allreduce - contribute sendbuf (or TUTTI_IN_PLACE) to the newest open round, and
 * wait until a round is decided that this rank has not seen; none if there is one already. recvbuf
 * gets the sum of the results of rounds *first to *last, in this order. bitmap gets the ranks that
 * took part in round *last, bit r % 8 of byte r / 8 for rank r: (ranks + 7) / 8 bytes. bitmap,
 * first and last may be NULL. -ESTALE: this rank is too far behind; tutti_partial_resync.
 */
int tutti_partial_allreduce(struct tutti_partial *partial, const void *sendbuf, void *recvbuf,
			    unsigned char *bitmap, uint64_t *first, uint64_t *last);

/**
 * tutti_partial_drain - wait for all living ranks to call this, and deliver every carry. recvbuf
 * gets the sum of the results that this rank has not seen: rounds *first to *last; if there are
 * none, it is untouched and *first is *last + 1. Collective over the living ranks.
 */
int tutti_partial_drain(struct tutti_partial *partial, void *recvbuf, unsigned char *bitmap,
			uint64_t *first, uint64_t *last);

/**
 * tutti_partial_result - the result of one of the last TUTTI_PARTIAL_WINDOW rounds that this rank
 * knows, and who took part in it (bitmap may be NULL). -ESTALE: not kept any more. Local.
 */
int tutti_partial_result(struct tutti_partial *partial, uint64_t round, void *recvbuf,
			 unsigned char *bitmap);

/**
 * tutti_partial_resync - skip to the last round that this rank knows: the next call gets the rounds
 * after *round. The caller takes over a model that has all results up to *round. Local.
 */
int tutti_partial_resync(struct tutti_partial *partial, uint64_t *round);

/* Of this rank since tutti_partial_create, but for `rounds`, `lost` and `decider`. */
struct tutti_partial_stats {
	size_t size;		/* sizeof(struct tutti_partial_stats) */
	uint64_t rounds;	/* decided, as far as this rank knows */
	uint64_t calls;		/* of tutti_partial_allreduce that contributed */
	uint64_t late;		/* contributions that were late */
	uint64_t dropped;	/* of these: discarded */
	uint64_t skipped;	/* results that tutti_partial_resync left out */
	uint64_t carried_bytes; /* in this rank's carry now */
	uint64_t lost;		/* offers of dead ranks that a decider held and discarded */
	int decider;		/* its rank */
	int living;		/* ranks that have not failed */
};

/** tutti_partial_stats_get - the counters. Local. */
int tutti_partial_stats_get(struct tutti_partial *partial, struct tutti_partial_stats *stats);

/**
 * tutti_partial_free - free partial. Collective over the living ranks. -EBUSY on all ranks, with
 * nothing freed, while a rank has a carry: tutti_partial_drain. NULL is no error.
 */
int tutti_partial_free(struct tutti_partial *partial);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
