/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti_doctor checks a node, or the hosts of a job, before the job; see doctor.h. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/number.h"
#include "tools/cli.h"
#include "tools/doctor/doctor.h"

#undef PROG
#define PROG "tutti_doctor"
#define STATUS_WRONG 3

static const struct option options[] = {
	{"hostfile", required_argument, NULL, 'f'}, {"host", required_argument, NULL, 'H'},
	{"ssh", required_argument, NULL, 's'},	    {"timeout", required_argument, NULL, 't'},
	{"json", no_argument, NULL, 'j'},	    {"quiet", no_argument, NULL, 'q'},
	{"agent", no_argument, NULL, 'a'},	    {"version", no_argument, NULL, 'V'},
	{"help", no_argument, NULL, 'h'},	    {0}};

static const char usage[] =
	"usage: tutti_doctor [--json] [--quiet] [-H HOST,... | --hostfile FILE]\n"
	"Check this node, or these hosts, before a job: each finding with what it costs and the "
	"command that mends it.\n"
	"\n"
	"  -H, --host HOST,...   check these hosts, and whether they reach each other\n"
	"      --hostfile FILE   the same, lines as for tutti_run: HOST [slots=N]\n"
	"      --ssh COMMAND     the remote shell (default: ssh -o BatchMode=yes)\n"
	"      --timeout SECONDS for all hosts together (default 30)\n"
	"      --json            an array of findings\n"
	"  -q, --quiet           only what is not in order\n"
	"      --version         print the version\n"
	"  -h, --help            print this\n"
	"Status: 0 all in order, 1 warnings, 2 failures, 3 wrong options.\n"
	"See tutti_doctor(1).\n";

struct wish {
	struct hosts hosts;
	const char *ssh;
	long timeout;
	bool json, quiet, agent;
};

int fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	cli_complain(PROG, fmt, ap);
	va_end(ap);
	return -1;
}

void *must_alloc(size_t size)
{
	void *p = calloc(1, size ? size : 1);

	if (!p) {
		fail("no memory");
		exit(STATUS_WRONG);
	}
	return p;
}

char *must_strdup(const char *s)
{
	return strcpy(must_alloc(strlen(s) + 1), s);
}

int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int take(void *into, int option, char *value)
{
	struct wish *w = into;
	int64_t seconds = 0;
	const char *end;

	switch (option) {
	case 'f':
		return hosts_parse_file(&w->hosts, value);
	case 'H':
		return hosts_parse_list(&w->hosts, value);
	case 's':
		w->ssh = value;
		return *value ? 0 : fail("--ssh names no command");
	case 't':
		end = tt_number_whole(value, &seconds);
		if (!end || *end || seconds < 1 || seconds > 3600)
			return fail("--timeout: a number of seconds from 1 to 3600, not '%s'",
				    value);
		w->timeout = (long)seconds;
		return 0;
	}
	w->json |= option == 'j';
	w->quiet |= option == 'q';
	w->agent |= option == 'a';
	return 0;
}

static int check(const struct wish *w)
{
	struct findings f = {0};
	int err = 0;

	if (w->hosts.n) {
		err = check_cluster(&f, &w->hosts, w->ssh, w->timeout * 1000);
	} else {
		gethostname(f.host, sizeof(f.host) - 1);
		check_devices(&f);
		check_limits(&f);
		check_network(&f);
	}
	if (!err)
		findings_print(&f, w->json, !w->quiet);
	err = err || cli_flush(PROG) ? STATUS_WRONG : (int)findings_worst(&f);
	findings_free(&f);
	return err;
}

int main(int argc, char **argv)
{
	static const struct cli cli = {PROG, usage, ":hqH:", options, take, NULL};
	struct wish w = {.ssh = "ssh -o BatchMode=yes", .timeout = 30};
	int status = cli_options(&cli, argc, argv, &w);

	if (status)
		status = status < 0 || cli_flush(PROG) ? STATUS_WRONG : 0;
	else if (optind < argc)
		status = fail("unexpected argument %s; " PROG " --help", argv[optind])
				 ? STATUS_WRONG
				 : 0;
	else
		status = w.agent ? agent() : check(&w);
	hosts_free(&w.hosts);
	return status;
}
