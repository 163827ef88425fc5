/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of the process that is kept for work that other ranks wait in: an exchange, an agreement,
 * a message of the control thread. Where malloc has none, such work takes a block of it.
 */
#ifndef TT_RESERVE_H
#define TT_RESERVE_H

#include <stddef.h>

/*
 * Makes up for blocks that were taken, if it can; for jobs of up to nranks, or of as many as any
 * job had so far.
 */
void tt_reserve_fill(int nranks);
/* In a child of fork: another thread may have been filling. */
void tt_reserve_in_child(void);
/*
 * Between enter and leave, allocations of this thread take blocks if malloc fails. May be nested.
 */
void tt_reserve_enter(void);
void tt_reserve_leave(void);
/* One such allocation. */
void *tt_reserve_malloc(size_t size);
/* A block for free(); NULL: none is large enough, or the thread may not have one. */
void *tt_reserve_take(size_t size);

#endif
