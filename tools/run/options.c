/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of tutti_run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/error.h>

#include "lib/base/number.h"
#include "tools/cli.h"
#include "tools/run/run.h"

#define MAX_RANKS (1 << 20)
#define MOST_HOURS 100000

enum {
	OPT_HOSTFILE = 256,
	OPT_SSH,
	OPT_TAG,
	OPT_TIMEOUT,
	OPT_WDIR,
	OPT_BIND,
	OPT_REPLACE,
	OPT_AGENT,
	OPT_KEEPER
};

static const struct option long_options[] = {{"np", required_argument, NULL, 'n'},
					     {"host", required_argument, NULL, 'H'},
					     {"hostfile", required_argument, NULL, OPT_HOSTFILE},
					     {"ssh", required_argument, NULL, OPT_SSH},
					     {"export", required_argument, NULL, 'x'},
					     {"tag-output", no_argument, NULL, OPT_TAG},
					     {"timeout", required_argument, NULL, OPT_TIMEOUT},
					     {"wdir", required_argument, NULL, OPT_WDIR},
					     {"bind", required_argument, NULL, OPT_BIND},
					     {"replace", required_argument, NULL, OPT_REPLACE},
					     {"verbose", no_argument, NULL, 'v'},
					     {"version", no_argument, NULL, 'V'},
					     {"help", no_argument, NULL, 'h'},
					     {"agent", no_argument, NULL, OPT_AGENT},
					     {"keeper", no_argument, NULL, OPT_KEEPER},
					     {0}};

static const char usage[] =
	"usage: tutti_run [options] PROGRAM [ARGUMENTS]\n"
	"Start a job: N processes of PROGRAM that find each other through tutti_init.\n"
	"\n"
	"  -n, --np N             number of ranks; default: one a slot, without hosts 1\n"
	"  -H, --host LIST        hosts and slots: HOST[:SLOTS],HOST[:SLOTS],...\n"
	"      --hostfile FILE    the same from a file of lines: HOST [slots=N]\n"
	"      --ssh COMMAND      the remote shell; default: ssh -T -o BatchMode=yes\n"
	"  -x, --export VAR[=VALUE]  pass a variable on to every rank (TUTTI_* go by themselves)\n"
	"      --tag-output       put [RANK]: in front of every line of output\n"
	"      --timeout TIME     end the job after TIME (30, 30s, 500ms, 5m): status 124\n"
	"      --wdir DIR         run in DIR; default: here\n"
	"      --bind share|core|none  share: bind each rank to its part of the CPUs (default); "
	"core: to\n"
	"                         one CPU, in turn\n"
	"      --replace N        go on when a rank is killed; put a new process in its place, N "
	"times at most\n"
	"  -v, --verbose          say what is started where\n"
	"      --version          print the version\n"
	"  -h, --help             print this\n"
	"\n"
	"PROGRAM is looked for in PATH, then beside tutti_run. The exit status is that of the rank "
	"that\n"
	"failed first, 128 + N if signal N ended it, 1 if the job could not be started, 2 for\n"
	"wrong options.\n"
	"See tutti_run(1).\n";

static int parse_number(const char *what, const char *text, long lo, long hi, long *value)
{
	int64_t v = 0;
	const char *end = tt_number_whole(text, &v);

	*value = (long)v;
	if (!end || *end || v < lo || v > hi)
		return fail("%s: a number from %ld to %ld, not '%s'%s", what, lo, hi, text,
			    strcmp(text, "p") ? "" : "; write -n N or --np N, not -np N");
	return 0;
}

static int parse_time(const char *text, int64_t *ms)
{
	double v = 0;
	const char *end = tt_number_time(text, &v);
	double unit = !end			   ? 0
		      : !strcmp(end, "ms")	   ? 1
		      : !*end || !strcmp(end, "s") ? 1000
		      : !strcmp(end, "m")	   ? 60000
		      : !strcmp(end, "h")	   ? 3600000
						   : 0;

	if (!unit || !(v * unit >= 1) || v * unit > MOST_HOURS * 3600000.0)
		return fail("--timeout: a time from 1ms to %dh such as 30, 30s, 500ms or 5m, not "
			    "'%s'",
			    MOST_HOURS, text);
	*ms = (int64_t)(v * unit);
	return 0;
}

static int parse_bind(const char *text, enum bind *bind)
{
	static const char *const names[] = {"share", "core", "none"};
	int i;

	for (i = 0; i <= BIND_NONE; i++)
		if (!strcmp(text, names[i])) {
			*bind = (enum bind)i;
			return 0;
		}
	return fail("--bind: share, core or none, not '%s'", text);
}

static int add_env(struct options *opt, const char *text)
{
	size_t len = strcspn(text, "="), n = 0;
	const char *value;
	char *item;

	if (!len)
		return fail("-x: expected VAR or VAR=VALUE, not '%s'", text);
	if (text[len]) {
		item = must_strdup(text);
	} else {
		value = getenv(text);
		if (!value)
			return fail(
				"-x %s: there is no such variable here; -x %s=VALUE gives it one",
				text, text);
		item = must_alloc(len + strlen(value) + 2);
		sprintf(item, "%s=%s", text, value);
	}
	while (opt->env && opt->env[n])
		n++;
	opt->env = realloc(opt->env, (n + 2) * sizeof(*opt->env));
	if (!opt->env) {
		fail("no memory");
		exit(STATUS_LAUNCHER);
	}
	opt->env[n] = item;
	opt->env[n + 1] = NULL;
	return 0;
}

static int parse_one(void *into, int c, char *arg)
{
	struct options *opt = into;
	long n;

	switch (c) {
	case 'n':
		if (parse_number("-n", arg, 1, MAX_RANKS, &n))
			return -1;
		opt->nranks = (int)n;
		return 0;
	case 'H':
		return hosts_parse_list(&opt->hosts, arg);
	case OPT_HOSTFILE:
		return hosts_parse_file(&opt->hosts, arg);
	case OPT_SSH:
		opt->ssh = arg;
		return *arg ? 0 : fail("--ssh: an empty command");
	case 'x':
		return add_env(opt, arg);
	case OPT_TAG:
		opt->tag = true;
		return 0;
	case OPT_TIMEOUT:
		return parse_time(arg, &opt->timeout_ms);
	case OPT_WDIR:
		opt->wdir = arg;
		return 0;
	case OPT_BIND:
		return parse_bind(arg, &opt->bind);
	case OPT_REPLACE:
		if (parse_number("--replace", arg, 0, MAX_RANKS, &n))
			return -1;
		opt->replace = (int)n;
		return 0;
	case 'v':
		opt->verbose = true;
		return 0;
	case OPT_AGENT:
		opt->agent = true;
		return 0;
	case OPT_KEEPER:
		opt->keeper = true;
		return 0;
	}
	return -1;
}

int options_parse(struct options *opt, int argc, char **argv)
{
	static const struct cli cli = {PROG, usage, "+:n:H:x:vh", long_options, parse_one, NULL};
	int err;

	*opt = (struct options){.ssh = "ssh -T -o BatchMode=yes", .replace = -1};
	opt->env = must_alloc(sizeof(*opt->env));
	err = cli_options(&cli, argc, argv, opt);
	opt->argv = argv + optind;
	if (err || opt->agent || opt->keeper)
		return err;
	if (!*opt->argv)
		return fail("no program is given; try tutti_run -n 2 PROGRAM, or tutti_run --help");
	return hosts_place(&opt->hosts, &opt->nranks);
}

void options_free(struct options *opt)
{
	hosts_free(&opt->hosts);
	strs_free(opt->env);
}
