/* SPDX-License-Identifier: BSD-3-Clause */
/* See arguments.h. */
#include "examples/arguments.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

int argument_wrong(const char *program, const char *option, const char *value, const char *why)
{
	fprintf(stderr, "%s: --%s%s%s: %s\n", program, option, *value ? " " : "", value, why);
	return -EINVAL;
}

int argument_integer(const char *program, const char *option, int least, int most, int *to)
{
	char why[64], *end;
	long n;

	errno = 0;
	n = strtol(optarg, &end, 10);
	if (end == optarg || *end || errno || n < least || n > most) {
		snprintf(why, sizeof(why), "not a number from %d to %d", least, most);
		return argument_wrong(program, option, optarg, why);
	}
	*to = (int)n;
	return 0;
}

int argument_real(const char *program, const char *option, double most, double *to)
{
	char why[64], *end;
	double x = strtod(optarg, &end);

	if (end == optarg || *end || !(x >= 0 && x <= most)) {
		snprintf(why, sizeof(why), "not a number from 0 to %g", most);
		return argument_wrong(program, option, optarg, why);
	}
	*to = x;
	return 0;
}
