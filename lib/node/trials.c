/* SPDX-License-Identifier: BSD-3-Clause */
#include <stddef.h>

#include "lib/node/trials.h"

#define FIRST 8	   /* call with which the first trial begins */
#define SECOND 256 /* and the second one; */
#define AGAIN 1024 /* the others begin every so many */
#define TRIAL 8	   /* calls of a trial; as many before it are measured, too */

/* The first call of the trial that call n belongs to, or else of the next one. */
static uint64_t trial_at(uint64_t n)
{
	if (n < FIRST + TRIAL)
		return FIRST;
	if (n < SECOND + TRIAL)
		return SECOND;
	return n % AGAIN < TRIAL ? n - n % AGAIN : n - n % AGAIN + AGAIN;
}

struct tt_trial tt_trial_of(uint64_t n)
{
	uint64_t trial = trial_at(n);

	return (struct tt_trial){
		.decides = n == FIRST + TRIAL || n == SECOND + TRIAL ||
			   (n > AGAIN && n % AGAIN == TRIAL),
		.measured = n + TRIAL >= trial && n != trial,
		.tried = n >= trial,
		.first = n + TRIAL == trial,
	};
}

#define MOST (UINT32_MAX / 8)

/* Low times count for more, as others have waited for a core or a page. */
uint32_t tt_trial_mean(uint32_t mean, uint64_t ticks, size_t len)
{
	uint64_t pace = ticks * 1024 / len;
	uint32_t t = pace < MOST ? (uint32_t)pace | 1 : MOST;

	if (!mean)
		return t;
	if (t < mean)
		return (mean + t) / 2;
	t = t < 4 * mean ? t : 4 * mean;
	return t < MOST ? mean + (t - mean) / 4 : MOST;
}
