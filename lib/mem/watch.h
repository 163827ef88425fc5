/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Watches user memory for being unmapped, moved or emptied, so that a registration is not used for
 * other pages that later lie at the same address.
 *
 * Uses userfaultfd in write-protect mode. No page is write-protected, so faults do not change, but
 * the kernel reports every munmap, mmap over the range, mremap, brk and madvise, and lets the
 * caller return only when a thread here has read the report. That thread allocates nothing and
 * takes no lock that may be held while memory is freed.
 */
#ifndef TT_WATCH_H
#define TT_WATCH_H

#include <stdint.h>

#define TT_WATCH_MAX 64 /* ranges that tt_watch_changes gives out at once */

struct tt_watch;

struct tt_range {
	uintptr_t start, end;
};

/* -EOPNOTSUPP, or another code, with a text: this system does not let us. */
int tt_watch_new(struct tt_watch **watch);
void tt_watch_free(struct tt_watch *watch);
/*
 * Watch whole pages [start, end). Only private anonymous memory that can be written: the pages of
 * files and of shared memory can be taken away through other doors. Else -EOPNOTSUPP, or -EINVAL,
 * after which all of it is watched and to be removed; both without a text.
 */
int tt_watch_add(struct tt_watch *watch, uintptr_t start, uintptr_t end);
/* Ends the watch; only for memory that has not changed since it was added. */
void tt_watch_remove(struct tt_watch *watch, uintptr_t start, uintptr_t end);
/*
 * Fills range[0..n) with the ranges changed since the last call, n at most TT_WATCH_MAX; with
 * more, one range stands for everything. Complete: includes every change whose system call has
 * returned in any thread, or whose effect may have been visible. -EBUSY: a change is under way and
 * does not end.
 */
int tt_watch_changes(struct tt_watch *watch, struct tt_range *range, int *n);

#endif
