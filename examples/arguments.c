/* SPDX-License-Identifier: BSD-3-Clause */
/* See arguments.h. */
#include "examples/arguments.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int parse_integer(const char *text, int least, int most, int *to)
{
	size_t len = strspn(text, "-0123456789");
	char *end;
	long n;

	errno = 0;
	n = strtol(text, &end, 10);
	if (!len || end != text + len || *end || errno || n < least || n > most)
		return -1;
	*to = (int)n;
	return 0;
}

int parse_real(const char *text, double least, double most, double *to)
{
	size_t len = strspn(text, "-+.0123456789eE");
	char *end;
	double x = strtod(text, &end);

	if (!len || *text == '+' || end != text + len || *end || !(x >= least && x <= most))
		return -1;
	*to = x;
	return 0;
}

int parse_seed(const char *text, uint64_t *to)
{
	unsigned long long n;

	errno = 0;
	n = strtoull(text, NULL, 10);
	if (!*text || strspn(text, "0123456789") != strlen(text) || errno)
		return -1;
	*to = n;
	return 0;
}

int argument_wrong(const char *program, const char *option, const char *value, const char *why)
{
	fprintf(stderr, "%s: --%s%s%s: %s\n", program, option, *value ? " " : "", value, why);
	return -EINVAL;
}

int argument_integer(const char *program, const char *option, int least, int most, int *to)
{
	char why[64];

	if (!parse_integer(optarg, least, most, to))
		return 0;
	snprintf(why, sizeof(why), "not a number from %d to %d", least, most);
	return argument_wrong(program, option, optarg, why);
}

int argument_real(const char *program, const char *option, double most, double *to)
{
	char why[64];

	if (!parse_real(optarg, 0, most, to))
		return 0;
	snprintf(why, sizeof(why), "not a number from 0 to %g", most);
	return argument_wrong(program, option, optarg, why);
}
