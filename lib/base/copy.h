/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of data that another processor reads next. */
#ifndef TT_COPY_H
#define TT_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TT_COPY_SHORT 2048 /* bytes; the C library copies so few in vectors */

/*
 * From 2 KiB on the C library copies by `rep movsb`, the kernel always. Where the destination lies
 * 1 to 15 bytes after the source, modulo a page, that takes 4 to 25 times as long on AMD's
 * processors, and up to 31 bytes after it up to twice as long (doc/MEASUREMENTS.md).
 */
static inline bool tt_copy_lags(const void *to, const void *from)
{
	return ((uintptr_t)to - (uintptr_t)from) % 4096 - 1 < 31;
}

/* memcpy in vectors. */
void tt_copy_by_vector(void *to, const void *from, size_t len);

/* memcpy of a user's data, as fast whatever the addresses are. */
static inline void tt_copy_data(void *to, const void *from, size_t len)
{
	if (len > TT_COPY_SHORT && tt_copy_lags(to, from))
		tt_copy_by_vector(to, from, len);
	else
		memcpy(to, from, len);
}

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

/* memmove of more than TT_COPY_SHORT, in the way that is fastest for the length and addresses. */
void tt_copy_by_length(void *to, const void *from, size_t len);

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
	if (len <= TT_COPY_SHORT)
		memmove(to, from, len);
	else
		tt_copy_by_length(to, from, len);
}

#endif
