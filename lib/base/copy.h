/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of data that another processor reads next. */
#ifndef TT_COPY_H
#define TT_COPY_H

#include <stddef.h>

/*
 * memcpy of what another processor reads next, and has read there before: stored around the
 * caches. Plain stores would first have to take each line back from that processor's cache, which
 * may take ten times as long as the copy (see doc/ARCHITECTURE.md). When it returns, the bytes are
 * ordered for other threads as if they had been stored plainly.
 */
void tt_copy_away(void *to, const void *from, size_t len);

/*
 * memmove of bytes that do not move up over a part of themselves, through the caches at any length.
 * The C library stores long pieces around them. From 512 KiB on as tt_copy_long.
 */
void tt_copy_near(void *to, const void *from, size_t len);

/* memmove, from 512 KiB on by the processor's own copy where that is faster. */
void tt_copy_long(void *to, const void *from, size_t len);

#endif
