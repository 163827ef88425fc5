/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers among the arguments of programs of one measurement each. */
#ifndef PERF_WHOLE_NUMBER_H
#define PERF_WHOLE_NUMBER_H

#include <limits.h>

#include "lib/base/number.h"

/* The whole number from 0 to most that text is; -1: it is none, or NULL. */
static inline long long whole_up_to(const char *text, long long most)
{
	uint64_t value = 0;
	const char *end = text ? tt_number_digits(text, &value) : NULL;

	return end && !*end && value <= (uint64_t)most ? (long long)value : -1;
}

static inline int whole_number(const char *text)
{
	return (int)whole_up_to(text, INT_MAX);
}

/* Seconds, which may have a point; -1: text is no number, or below 0. */
static inline double seconds_of(const char *text)
{
	double value = 0;
	const char *end = tt_number_real(text, &value);

	return end && !*end && value >= 0 ? value : -1;
}

#endif
