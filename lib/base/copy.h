/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of data that another processor reads next. */
#ifndef TT_COPY_H
#define TT_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/*
 * memcpy of what another processor reads next, and has read there before: stored around the
 * caches. Plain stores would first have to take each line back from that processor's cache, which
 * may take ten times as long as the copy (see doc/ARCHITECTURE.md). When it returns, the bytes are
 * ordered for other threads as if they had been stored plainly.
 */
void tt_copy_away(void *to, const void *from, size_t len);

/*
 * memcpy, or memmove to a lower address, through the caches at any length.
 * The C library stores long pieces around them. TT_COPY_LONG and more go as by tt_copy_long.
 */
void tt_copy_near(void *to, const void *from, size_t len);

#define TT_COPY_LONG ((size_t)512 << 10) /* bytes from which the way to copy matters */

/* memmove of TT_COPY_LONG and more, by the processor's own copy where that is faster. */
void tt_copy_by_string(void *to, const void *from, size_t len);

/*
 * memcpy out of memory that another processor has written and will write again, such as a slot.
 * Hands it back.
 */
void tt_copy_out(void *to, void *from, size_t len);

/*
 * Stores a byte of each line of such memory, its own value, after this processor has read it: on
 * AMD's processors a store takes five to seven times as long to a line that the other one has read
 * as to one that it has written (doc/MEASUREMENTS.md). Does nothing on others. No process may store
 * there meanwhile: that could be undone.
 */
void tt_hand_back(void *from, size_t len);
bool tt_hands_back(void); /* whether it does anything */

/* memmove; a short one is inline, so that the compiler knows what it is. */
static inline void tt_copy_long(void *to, const void *from, size_t len)
{
	if (len < TT_COPY_LONG)
		memmove(to, from, len);
	else
		tt_copy_by_string(to, from, len);
}

#endif
