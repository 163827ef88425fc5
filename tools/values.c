/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses values on command lines; see values.h. */
#include "tools/values.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/number.h"
#include "tools/cli.h"

static void complain(const char *fmt, va_list ap)
{
	fflush(stdout);
	cli_complain(cli_prog, fmt, ap);
}

int cli_fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	complain(fmt, ap);
	va_end(ap);
	return -1;
}

int cli_wrong(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	complain(fmt, ap);
	va_end(ap);
	return CLI_WRONG;
}

int cli_integer(const char *what, const char *text, long lo, long hi, int *value)
{
	int64_t v = 0;
	const char *end = tt_number_whole(text, &v);

	if (!end || *end || v < lo || v > hi)
		return cli_fail("%s: a whole number from %ld to %ld, not '%s'", what, lo, hi, text);
	*value = (int)v;
	return 0;
}

int cli_number(const char *what, const char *text, double lo, double hi, double *value)
{
	double v = 0;
	const char *end = tt_number_real(text, &v);

	if (!end || *end || !(v >= lo && v <= hi))
		return cli_fail("%s: a number from %.10g to %.10g, not '%s'", what, lo, hi, text);
	*value = v;
	return 0;
}

int cli_bytes(const char *what, const char *text, size_t lo, size_t hi, size_t *value)
{
	uint64_t v = 0;
	const char *end = tt_number_size(text, &v);

	if (!end || *end || v < lo || v > hi)
		return cli_fail("%s: a size from %zu to %zu bytes such as 64K or 1M, not '%s'",
				what, lo, hi, text);
	*value = (size_t)v;
	return 0;
}

int cli_numbers(const char *what, char *text, const char *sep, double lo, double hi, double *value,
		int n, int *given)
{
	char *word;

	*given = 0;
	while ((word = strsep(&text, sep))) {
		if (!*word)
			return cli_fail("%s: a value is missing; each is a number from %.10g to "
					"%.10g",
					what, lo, hi);
		if (*given == n)
			return cli_fail("%s: at most %d values", what, n);
		if (cli_number(what, word, lo, hi, &value[(*given)++]))
			return -1;
	}
	return 0;
}

int cli_coll(const char *word, enum tt_coll *coll)
{
	const char *near;

	if (!tt_coll_find(word, coll, &near))
		return 0;
	return near ? cli_fail("no collective is called %s; did you mean %s?", word, near)
		    : cli_fail("no collective is called %s; see %s(1)", word, cli_prog);
}
