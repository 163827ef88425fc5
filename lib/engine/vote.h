/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers of collective calls that create and free objects; vote.c, live_vote.c. */
#ifndef TT_VOTE_H
#define TT_VOTE_H

#include "lib/engine/engine.h"

/*
 * Returns err, of a collective on comm. If this rank could not begin it, comm fails on all ranks,
 * which would wait for this rank until their deadline.
 */
int tt_tell_unable(struct tutti_comm *comm, const char *call, int err);
/* Every rank's `mine`, of so many 64-bit words, into `all`, by rank. */
int tt_exchange(struct tutti_comm *comm, const void *mine, void *all, size_t words);
/*
 * Whether all ranks have got this far; otherwise all fail with the error of the lowest rank that
 * has not. An error of this rank has been reported when this returns.
 */
int tt_agree(struct tutti_comm *comm, const char *call, int mine);
/* The same without a deadline of this rank: the first rank with a deadline fails all. */
int tt_agree_patient(struct tutti_comm *comm, const char *call, int mine);

/*
 * live_vote.c: agreement among the live ranks of comm, until TUTTI_TIMEOUT; call is for the texts
 * of errors. left_out: bits by rank, or NULL.
 */
int tt_vote(struct tutti_comm *comm, const char *call, struct tt_ballot *ballot,
	    unsigned char *left_out);
/* *value becomes the AND (op TUTTI_BAND) or the OR (TUTTI_BOR) of the live ranks' values. */
int tt_comm_agree(struct tutti_comm *comm, const char *call, enum tutti_op op, uint64_t *value);
/* This rank was cut off, or the job aborted: no rank will answer. */
bool tt_out_of_it(const struct tutti_comm *comm);
int tt_why_out(const struct tutti_comm *comm); /* the error in that case */

#endif
