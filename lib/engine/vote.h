/* SPDX-License-Identifier: BSD-3-Clause */
/* What collective calls that make something do besides; vote.c. */
#ifndef TT_VOTE_H
#define TT_VOTE_H

#include "lib/engine/engine.h"

/* Every rank's `mine`, of so many 64-bit words, in `all`, by rank. */
int tt_exchange(struct tutti_comm *comm, const void *mine, void *all, size_t words);
/*
 * Whether all ranks have got so far; else all of them fail, with the error of the lowest that has
 * not. What failed here is told already.
 */
int tt_agree(struct tutti_comm *comm, const char *call, int mine);
/* The same without a deadline of this rank's own: the first rank that has one tells all. */
int tt_agree_patient(struct tutti_comm *comm, const char *call, int mine);

#endif
