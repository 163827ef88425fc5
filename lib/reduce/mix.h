/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loops of averages that move vectors towards each other, of float32 and float64. Each operation
 * rounds by itself, and a NaN in a result is the one quiet NaN. A result may be an operand,
 * exactly.
 */
#ifndef TT_MIX_H
#define TT_MIX_H

#include <stddef.h>
#include <tutti/coll.h>

/* dst = weight * (a - b) */
void tt_reduce_differ(void *dst, const void *a, const void *b, double weight, size_t count,
		      enum tutti_datatype datatype);
/* x -= weight * (x - center), and center += sum, with the center before */
void tt_reduce_exchange(void *x, void *center, const void *sum, double weight, size_t count,
			enum tutti_datatype datatype);
/*
 * Both become their average. Also of int32 and int64: low its floor, high the rest of the sum.
 */
void tt_reduce_halve(void *low, void *high, size_t count, enum tutti_datatype datatype);

/*
 * sum += weight * (s - x), in float64. TT_MIX_FIRST: sum is 0 before, whatever it holds.
 * TT_MIX_LAST: then x += sum, rounded once, and sum is not stored. Without TT_MIX_ADD s is left
 * out.
 */
enum { TT_MIX_FIRST = 1, TT_MIX_ADD = 2, TT_MIX_LAST = 4 };
void tt_reduce_gather(void *x, double *sum, const void *s, double weight, size_t count,
		      enum tutti_datatype datatype, unsigned flags);

#endif
