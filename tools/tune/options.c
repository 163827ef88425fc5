/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of tutti_tune. */
#include <string.h>
#include <tutti/error.h>

#include "tools/cli.h"
#include "tools/tune/tune.h"
#include "tools/values.h"

enum { OPT_LINKS = 256, OPT_VERIFY, OPT_INSTALL };

static const struct option long_options[] = {{"output", required_argument, NULL, 'o'},
					     {"install", no_argument, NULL, OPT_INSTALL},
					     {"collectives", required_argument, NULL, 'c'},
					     {"maxbytes", required_argument, NULL, 'e'},
					     {"stepfactor", required_argument, NULL, 'f'},
					     {"time", required_argument, NULL, 't'},
					     {"links", no_argument, NULL, OPT_LINKS},
					     {"verify", no_argument, NULL, OPT_VERIFY},
					     {"help", no_argument, NULL, 'h'},
					     {"version", no_argument, NULL, 'V'},
					     {0}};

static const char usage[] =
	"usage: tutti_run -n RANKS [...] tutti_tune [options]\n"
	"Measure what messages cost between these ranks (at least 2) and how long each algorithm "
	"takes.\n"
	"Without -o or --install nothing is written.\n"
	"\n"
	"  -o, --output FILE        write the table there\n"
	"      --install            write it where jobs on the same hosts look for it from then "
	"on: to\n"
	"                           tutti/tune.json in XDG_CONFIG_HOME or ~/.config\n"
	"  -c, --collectives LIST   default allreduce,bcast,reduce,allgather,alltoall; all\n"
	"  -e, --maxbytes SIZE      largest size (default 16M)\n"
	"  -f, --stepfactor X       from one size to the next (default 4)\n"
	"  -t, --time SECONDS       of measuring, for each size (default 0.05)\n"
	"      --links              only what messages cost, no algorithms\n"
	"      --verify             measure again: what is picked against every algorithm\n"
	"  -h, --help               show this\n"
	"  -V, --version            show the version\n"
	"See tutti_tune(1).\n";

static int check_list(const char *list)
{
	enum tt_coll coll;
	char name[32];
	size_t len;

	for (; *list && strcmp(list, "all") != 0; list += len + (list[len] == ',')) {
		len = strcspn(list, ",");
		snprintf(name, sizeof(name), "%.*s", (int)len, list);
		if (tt_coll_find(name, &coll, NULL) || !tune_measured(coll))
			return cli_fail(
				"-c: names of collectives without counts per rank, not '%s'", name);
	}
	return 0;
}

static int parse_one(void *into, int c, char *arg)
{
	struct options *opt = into;

	switch (c) {
	case 'o':
	case OPT_INSTALL:
		if (opt->output)
			return cli_fail("-o and --install: give one of them, once");
		opt->output = c == 'o' ? arg : "";
		return c != 'o' || *arg ? 0 : cli_fail("-o: a file, not ''");
	case 'c':
		opt->collectives = arg;
		return check_list(arg);
	case 'e':
		return cli_bytes("-e", arg, 64, (size_t)16 << 30, &opt->max_bytes);
	case 'f':
		return cli_number("-f", arg, 1.1, 1000, &opt->factor);
	case 't':
		return cli_number("-t", arg, 0.001, 60, &opt->seconds);
	case OPT_LINKS:
		opt->links_only = true;
		return 0;
	default:
		opt->verify = true;
		return 0;
	}
}

int tune_parse(struct options *opt, int argc, char **argv)
{
	static const struct cli cli = {cli_prog,     usage,	":o:c:e:f:t:hV",
				       long_options, parse_one, NULL};
	int err;

	*opt = (struct options){.collectives = "allreduce,bcast,reduce,allgather,alltoall",
				.max_bytes = 16 << 20,
				.factor = 4,
				.seconds = 0.05};
	err = cli_options(&cli, argc, argv, opt);
	if (!err && optind < argc)
		return cli_fail("unexpected argument '%s'", argv[optind]);
	return err;
}
