/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti_run starts the ranks of a job, here and over ssh; see tools/run/run.h and tutti_run(1). */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/cli.h"
#include "tools/run/run.h"

int fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	cli_complain(PROG, fmt, ap);
	va_end(ap);
	return -1;
}

void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	cli_complain(PROG, fmt, ap);
	va_end(ap);
}

void *must_alloc(size_t size)
{
	void *p = calloc(1, size ? size : 1);

	if (!p) {
		fail("no memory");
		exit(STATUS_LAUNCHER);
	}
	return p;
}

char *must_strdup(const char *s)
{
	char *copy = must_alloc(strlen(s) + 1);

	return strcpy(copy, s);
}

int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int main(int argc, char **argv)
{
	struct options opt;
	int status = options_parse(&opt, argc, argv);

	if (status)
		status = cli_end_parsing(PROG, status);
	else
		status = opt.keeper  ? keeper_main(*opt.argv)
			 : opt.agent ? agent_main()
				     : job_run(&opt);
	options_free(&opt);
	return status;
}
