/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line: a subcommand, then the options of nccl-tests and a few of our own. */
#include "perf/options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli.h"
#include "tools/graphs.h"

static const char short_options[] = ":b:e:i:f:n:w:c:d:o:r:a:A:q:S:T:hV";
static const struct option long_options[] = {
	{"minbytes", required_argument, NULL, 'b'},
	{"maxbytes", required_argument, NULL, 'e'},
	{"stepbytes", required_argument, NULL, 'i'},
	{"stepfactor", required_argument, NULL, 'f'},
	{"iters", required_argument, NULL, 'n'},
	{"warmup_iters", required_argument, NULL, 'w'},
	{"check", required_argument, NULL, 'c'},
	{"datatype", required_argument, NULL, 'd'},
	{"op", required_argument, NULL, 'o'},
	{"root", required_argument, NULL, 'r'},
	{"average", required_argument, NULL, 'a'},
	{"tx-depth", required_argument, NULL, 'q'},
	{"atomic", required_argument, NULL, 'A'},
	{"transport", required_argument, NULL, 'T'},
	{"servers", required_argument, NULL, 'S'},
	{"colocated", required_argument, NULL, OPT_COLOCATED},
	{"weights", required_argument, NULL, OPT_WEIGHTS},
	{"tables", required_argument, NULL, OPT_TABLES},
	{"call", required_argument, NULL, OPT_CALL},
	{"softsync", no_argument, NULL, OPT_SOFTSYNC},
	{"sources", required_argument, NULL, OPT_SOURCES},
	{"level", required_argument, NULL, OPT_LEVEL},
	{"stores", required_argument, NULL, OPT_STORES},
	{"codec", required_argument, NULL, OPT_CODEC},
	{"fill", required_argument, NULL, OPT_FILL},
	{"rotate", required_argument, NULL, OPT_ROTATE},
	{"rows", required_argument, NULL, OPT_ROWS},
	{"cols", required_argument, NULL, OPT_COLS},
	{"products", required_argument, NULL, OPT_PRODUCTS},
	{"rank", required_argument, NULL, OPT_RANK},
	{"coll", required_argument, NULL, OPT_COLL},
	{"graph", required_argument, NULL, OPT_GRAPH},
	{"partner", required_argument, NULL, OPT_PARTNER},
	{"alpha", required_argument, NULL, OPT_ALPHA},
	{"quorum", required_argument, NULL, OPT_QUORUM},
	{"cutoff", required_argument, NULL, OPT_CUTOFF},
	{"late", required_argument, NULL, OPT_LATE},
	{"drop", no_argument, NULL, OPT_DROP},
	{"stat", no_argument, NULL, OPT_STAT},
	{"malloc", no_argument, NULL, OPT_MALLOC},
	{"json", required_argument, NULL, OPT_JSON},
	{"csv", required_argument, NULL, OPT_CSV},
	{"plot", required_argument, NULL, OPT_PLOT},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{NULL, 0, NULL, 0},
};

bool perf_is_rank0(void)
{
	static const char *const variables[] = {"TUTTI_RANK", "RANK", "PMIX_RANK", "PMI_RANK"};
	const char *rank;
	unsigned int i;

	for (i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		rank = getenv(variables[i]);
		if (rank)
			return !strcmp(rank, "0");
	}
	return true;
}

/* Every rank reads the same command line; one of them complains. */
int perf_bad(const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	if (!perf_is_rank0())
		return -EINVAL;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	/* in one write: a process that cannot tell its rank complains, too */
	fprintf(stderr, "tutti_perf: %s\nTry 'tutti_perf --help'.\n", text);
	return -EINVAL;
}

int perf_unknown(const char *what, const char *word, const char *const *names)
{
	const char *nearest = perf_nearest(word, names);
	char list[200] = "";
	size_t len = 0;

	if (nearest)
		return perf_bad("unknown %s '%s'; did you mean '%s'?", what, word, nearest);
	for (; *names && len < sizeof(list); names++)
		len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s", len ? ", " : "",
					*names);
	if (len >= sizeof(list)) /* --help lists so many */
		return perf_bad("unknown %s '%s'", what, word);
	return perf_bad("unknown %s '%s'; it is one of %s", what, word, list);
}

/* After '?': an unknown option, or one with a value that takes none. word: where it was. */
static int bad_option(const char *word)
{
	const char *names[sizeof(long_options) / sizeof(long_options[0])], *nearest;
	const struct option *given = optopt ? cli_given_value(long_options) : NULL;
	char name[64];
	int i;

	if (given)
		return perf_bad("option '--%s' takes no value", given->name);
	if (optopt)
		return perf_bad("unknown option '-%c'", optopt);
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
	for (i = 0; long_options[i].name; i++)
		names[i] = long_options[i].name;
	names[i] = NULL;
	nearest = perf_nearest(name, names);
	if (nearest)
		return perf_bad("unknown option '--%s'; did you mean '--%s'?", name, nearest);
	return perf_bad("unknown option '--%s'", name);
}

static int show_version(void)
{
	if (perf_is_rank0())
		printf("tutti_perf %s\n", tutti_version());
	return PERF_DONE;
}

/* A command must use this for the option to mean something. */
static unsigned use_of(int option)
{
	switch (option) {
	case 'b':
	case 'e':
	case 'i':
	case 'f':
		return PERF_USE_SIZE;
	case 'c':
		return PERF_USE_CHECK;
	case 'd':
		return PERF_USE_TYPE;
	case 'o':
		return PERF_USE_OP;
	case 'r':
		return PERF_USE_ROOT;
	case 'a':
	case OPT_STAT:
		return PERF_USE_AVERAGE;
	case 'A':
		return PERF_USE_ATOMIC;
	case 'q':
		return PERF_USE_DEPTH;
	case 'S':
	case OPT_COLOCATED:
	case OPT_WEIGHTS:
	case OPT_TABLES:
	case OPT_SOFTSYNC:
	case OPT_CALL:
		return PERF_USE_SERVERS;
	case OPT_SOURCES:
	case OPT_STORES:
		return PERF_USE_SOURCES;
	case OPT_LEVEL:
		return PERF_USE_LEVEL;
	case OPT_CODEC:
		return PERF_USE_CODEC;
	case OPT_FILL:
	case OPT_ROTATE:
		return PERF_USE_FILL;
	case OPT_COLL:
		return PERF_USE_COLL;
	case OPT_GRAPH:
		return PERF_USE_GRAPH;
	case OPT_PARTNER:
		return PERF_USE_PARTNER;
	case OPT_ALPHA:
		return PERF_USE_ALPHA;
	case OPT_QUORUM:
	case OPT_CUTOFF:
	case OPT_LATE:
	case OPT_DROP:
		return PERF_USE_PARTIAL;
	case OPT_ROWS:
	case OPT_COLS:
		return PERF_USE_MATRIX;
	case OPT_PRODUCTS:
		return PERF_USE_PRODUCTS;
	case OPT_RANK:
		return PERF_USE_RANK;
	case OPT_MALLOC:
		return PERF_USE_MALLOC;
	default:
		return 0;
	}
}

/* Reads the options again: the command can be behind them. */
static int check_uses(const struct perf_command *cmd, int argc, char **argv)
{
	const struct option *o;
	int option;

	optind = 1;
	while ((option = getopt_long(argc, argv, short_options, long_options, NULL)) != -1) {
		if (!(use_of(option) & ~cmd->uses))
			continue;
		for (o = long_options; o->val != option; o++)
			;
		return perf_bad("%s does not use --%s", cmd->name, o->name);
	}
	return 0;
}

/* --codec, whose results are not exact, and --fill. */
static int complete_fill(struct perf_options *opt)
{
	if (!(opt->cmd->uses & PERF_USE_FILL))
		return 0;
	if (opt->fill < 0)
		opt->fill = opt->codec ? PERF_RANDOM : PERF_ZERO;
	if (opt->codec)
		opt->check = 0;
	if (opt->codec && opt->op != TUTTI_SUM && opt->op != TUTTI_AVG)
		return perf_bad("--codec is for --op sum and avg");
	if ((opt->codec || opt->fill == PERF_RANDOM) && opt->datatype != TUTTI_FLOAT32)
		return perf_bad("%s is for -d float", opt->codec ? "--codec" : "--fill random");
	return 0;
}

/* gossip, pair, partial and elastic take few types; mailboxes are made for one graph. */
static int check_gossip(const struct perf_options *opt)
{
	bool gossip = opt->cmd->run == perf_run_gossip;
	bool floats = gossip || opt->cmd->run == perf_run_elastic;
	int type = opt->datatype;

	if (opt->cmd->group != PERF_GOSSIP)
		return 0;
	if (type != PERF_ALL && type != TUTTI_FLOAT32 && type != TUTTI_FLOAT64 &&
	    (floats || (type != TUTTI_INT32 && type != TUTTI_INT64)))
		return perf_bad("%s is for %sfloat and double, not for %s", opt->cmd->name,
				floats ? "" : "int32, int64, ", perf_type_name(type));
	if (gossip && !strcmp(cli_graph_names[opt->graph], "one_peer"))
		return perf_bad("gossip needs a graph that stays the same, and one_peer changes in "
				"each step");
	return 0;
}

/* Defaults that depend on the subcommand, and what only makes sense for some of them. */
static int complete(struct perf_options *opt)
{
	const struct perf_command *cmd = opt->cmd;
	const size_t unset = SIZE_MAX;

	if (opt->stepbytes != unset && opt->stepfactor)
		return perf_bad("--stepbytes and --stepfactor exclude each other; give one");
	if (cmd->most && opt->minbytes == unset && opt->maxbytes == unset) {
		opt->maxbytes = cmd->most;
		if (!opt->stepfactor && opt->stepbytes == unset)
			opt->stepfactor = cmd->factor;
	}
	if (opt->minbytes == unset)
		opt->minbytes = opt->maxbytes != unset && opt->maxbytes < cmd->bytes ? opt->maxbytes
										     : cmd->bytes;
	if (opt->maxbytes == unset)
		opt->maxbytes = opt->minbytes > cmd->bytes ? opt->minbytes : cmd->bytes;
	if (opt->maxbytes < opt->minbytes)
		return perf_bad("--maxbytes %zu is less than --minbytes %zu", opt->maxbytes,
				opt->minbytes);
	if (opt->stepbytes == unset)
		opt->stepbytes = 1 << 20;
	if (opt->iters < 0)
		opt->iters = cmd->iters;
	if (opt->warmup < 0)
		opt->warmup = cmd->warmup;
	if (!opt->colls)
		opt->colls = cmd->colls;
	if (opt->depth < 0)
		opt->depth = cmd->depth ? cmd->depth : 128;
	if (opt->op == TUTTI_AVG && (strstr(cmd->name, "scan") || strstr(cmd->name, "acc_lat")))
		return perf_bad("operation avg has no meaning for %s", cmd->name);
	if (opt->op != PERF_ALL && opt->datatype != PERF_ALL && cmd->uses & PERF_USE_OP &&
	    !perf_op_fits(opt->datatype, opt->op))
		return perf_bad("operation %s has no meaning for -d %s", perf_op_name(opt->op),
				perf_type_name(opt->datatype));
	if (!strcmp(cmd->name, "neighbor_allreduce") && opt->datatype != PERF_ALL &&
	    !perf_type_averages(opt->datatype))
		return perf_bad("neighbor_allreduce is for half, bfloat16, float and double, not "
				"for %s",
				perf_type_name(opt->datatype));
	return check_gossip(opt) ? -EINVAL : complete_fill(opt);
}

int perf_options_parse(struct perf_options *opt, int argc, char **argv)
{
	int option, err;

	*opt = (struct perf_options){.minbytes = SIZE_MAX,
				     .maxbytes = SIZE_MAX,
				     .stepbytes = SIZE_MAX,
				     .iters = -1,
				     .warmup = -1,
				     .check = 1,
				     .depth = -1,
				     .average = 1,
				     .servers = 1,
				     .tables = 1,
				     .rotate = 1,
				     .rows = 1024,
				     .cols = 1024,
				     .products = 32,
				     .rank = 4,
				     .fill = -1,
				     .alpha = -1,
				     .weights = {1, 1},
				     .call = PERF_ALL,
				     .level = PERF_BEST,
				     .datatype = TUTTI_FLOAT32,
				     .op = TUTTI_SUM};
	opterr = 0;
	while ((option = getopt_long(argc, argv, short_options, long_options, NULL)) != -1) {
		if (option == 'h')
			return perf_help();
		if (option == 'V')
			return show_version();
		if (option == ':')
			return perf_bad("option '%s' needs a value", argv[optind - 1]);
		if (option == '?')
			return bad_option(argv[optind - 1]);
		err = perf_option_take(opt, option);
		if (err)
			return err;
	}
	if (optind == argc)
		return perf_bad(
			"which command? allreduce, bcast, alltoall, put, put_lat or another");
	err = perf_command_find(argv[optind], &opt->cmd);
	if (err)
		return err;
	if (optind + 1 < argc)
		return perf_bad("one command at a time, please: '%s' is too much",
				argv[optind + 1]);
	err = check_uses(opt->cmd, argc, argv);
	return err ? err : complete(opt);
}
