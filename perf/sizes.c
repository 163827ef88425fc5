/* SPDX-License-Identifier: BSD-3-Clause */
/* The message sizes of a run: from -b to -e, by -i bytes or by -f times. */
#include "perf/perf.h"

#include <errno.h>

#include "lib/base/number.h"

int perf_parse_size(const char *text, size_t *size)
{
	uint64_t value = 0;
	const char *end = tt_number_size(text, &value);

	if (!end || *end || value > PERF_MOST_SIZE)
		return -EINVAL;
	*size = value;
	return 0;
}

size_t perf_next_size(const struct perf_options *opt, size_t size, size_t least)
{
	double grown = (double)size * opt->stepfactor;
	size_t next;

	if (!opt->stepfactor)
		next = size + opt->stepbytes;
	else if (grown >= (double)opt->maxbytes + 1)
		return 0;
	else
		next = (size_t)grown;
	if (next < least)
		next = least;
	return next > opt->maxbytes ? 0 : next;
}

size_t perf_size_count(const struct perf_options *opt)
{
	size_t size = opt->minbytes, n = 1;

	if (!opt->stepfactor)
		return 1 + (opt->maxbytes - opt->minbytes) / opt->stepbytes;
	while ((size = perf_next_size(opt, size, size + 1)))
		n++;
	return n;
}
