/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers of collective calls that create objects; vote.c. */
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

#endif
