/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers in options and variables: decimal, with no space and no '+' before them. Each function
 * returns what follows the number; NULL: there is no number, or it does not fit. Header only, so
 * that tools can use it without the library.
 */
#ifndef TT_NUMBER_H
#define TT_NUMBER_H

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static inline const char *tt_number_digits(const char *s, uint64_t *value)
{
	uint64_t v = 0;

	if (*s < '0' || *s > '9')
		return NULL;
	for (; *s >= '0' && *s <= '9'; s++)
		if (__builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
			return NULL;
	*value = v;
	return s;
}

static inline const char *tt_number_whole(const char *s, int64_t *value)
{
	bool minus = *s == '-';
	uint64_t v = 0;

	s = tt_number_digits(s + minus, &v);
	if (!s || v > INT64_MAX)
		return NULL;
	*value = minus ? -(int64_t)v : (int64_t)v;
	return s;
}

/* Bytes: K, M and G, of either case, are powers of 1024; a B may follow. */
static inline const char *tt_number_size(const char *s, uint64_t *value)
{
	static const char units[] = "KMG";
	const char *unit;
	uint64_t v = 0;
	int shift;

	s = tt_number_digits(s, &v);
	if (!s)
		return NULL;
	unit = *s ? strchr(units, toupper((unsigned char)*s)) : NULL;
	shift = unit ? 10 * (int)(unit - units + 1) : 0;
	if (v > UINT64_MAX >> shift)
		return NULL;
	*value = v << shift;
	s += unit != NULL;
	return s + (toupper((unsigned char)*s) == 'B');
}

/*
 * A number of these characters only: strtod takes spaces, 0x10, inf and nan as well, and a point
 * where LC_NUMERIC has one.
 */
static inline const char *tt_number_of(const char *s, const char *chars, double *value)
{
	size_t len = strspn(s, chars);
	char *end;

	if (!len || *s == '+')
		return NULL;
	*value = strtod(s, &end);
	return end == s + len ? end : NULL;
}

/* With a point and an exponent, as in 2.5e-3. */
static inline const char *tt_number_real(const char *s, double *value)
{
	return tt_number_of(s, "+-.0123456789eE", value);
}

/* With a point: of a time, whose unit follows. */
static inline const char *tt_number_time(const char *s, double *value)
{
	return tt_number_of(s, ".0123456789", value);
}

#endif
