/* SPDX-License-Identifier: BSD-3-Clause */
/* The message sizes of a run: from -b to -e, by -i bytes or by -f times. */
#include "perf/perf.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

int perf_parse_size(const char *text, size_t *size)
{
	static const struct {
		char letter;
		int shift;
	} units[] = {{'K', 10}, {'M', 20}, {'G', 30}};
	unsigned long long value;
	unsigned int i;
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno)
		return -EINVAL;
	for (i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (toupper((unsigned char)*end) != units[i].letter)
			continue;
		if (value > (SIZE_MAX >> units[i].shift))
			return -EINVAL;
		value <<= units[i].shift;
		end++;
		break;
	}
	if (toupper((unsigned char)*end) == 'B')
		end++;
	if (*end || value > PERF_MOST_SIZE)
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
