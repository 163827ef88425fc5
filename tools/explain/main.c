/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tutti_explain: which algorithm a call would take, and why. Links the library's internal plan
 * code.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/error.h>

#include "lib/base/env.h"
#include "lib/base/error.h"
#include "lib/node/node.h"
#include "lib/node/stores.h"
#include "lib/topo/topo.h"
#include "tools/cli.h"
#include "tools/explain/explain.h"
#include "tools/graphs.h"
#include "tools/values.h"

const char cli_prog[] = "tutti_explain";

static const char usage[] =
	"usage: tutti_explain [COLLECTIVE] [options]\n"
	"       tutti_explain ps [options]		see tutti_explain ps --help\n"
	"       tutti_explain codec [options] [CODEC...]   see tutti_explain codec --help\n"
	"Print which algorithm, chunk and lanes a call (default allreduce) would take, and why.\n"
	"\n"
	"  -n, --ranks N          number of ranks (default: the table's, or 2)\n"
	"  -H, --hosts N|N,N...   on so many hosts (default: the table's, or 1), or so many ranks "
	"on each\n"
	"  -N, --numa N           one host, the ranks on so many NUMA nodes of it (default 1)\n"
	"  -b, --minbytes SIZE    smallest size (default 8; K, M, G)\n"
	"  -e, --maxbytes SIZE    largest (default: the same)\n"
	"  -f, --stepfactor X     from one size to the next (default 2)\n"
	"  -t, --transport NAME   between hosts: verbs or ofi (default: the table's, or ofi)\n"
	"  -c, --cores N          processors of a host (default: those of this one)\n"
	"  -r, --root RANK        root of rooted collectives (default 0)\n"
	"  -T, --table FILE       tuning table (default: as TUTTI_TUNE_FILE)\n"
	"  -g, --graph NAME       of neighbor_...: ring (default), torus, star, complete, "
	"exponential or one_peer\n"
	"  -a, --all              every algorithm that can do it, not the best three only\n"
	"  -h, --help             show this\n"
	"  -V, --version          show the version\n"
	"TUTTI_ALGO, TUTTI_CHUNK and TUTTI_LANES count as in a job. See tutti_explain(1).\n";

static const struct option long_options[] = {{"ranks", required_argument, NULL, 'n'},
					     {"hosts", required_argument, NULL, 'H'},
					     {"numa", required_argument, NULL, 'N'},
					     {"minbytes", required_argument, NULL, 'b'},
					     {"maxbytes", required_argument, NULL, 'e'},
					     {"stepfactor", required_argument, NULL, 'f'},
					     {"transport", required_argument, NULL, 't'},
					     {"cores", required_argument, NULL, 'c'},
					     {"root", required_argument, NULL, 'r'},
					     {"table", required_argument, NULL, 'T'},
					     {"graph", required_argument, NULL, 'g'},
					     {"all", no_argument, NULL, 'a'},
					     {"help", no_argument, NULL, 'h'},
					     {"version", no_argument, NULL, 'V'},
					     {0}};

/* How many hosts, or how many ranks on each. */
static int parse_hosts(struct explain_options *opt, char *arg)
{
	double size[EXPLAIN_HOSTS];
	int i, n;

	memset(opt->sizes, 0, sizeof(opt->sizes));
	opt->listed = 0;
	if (!strchr(arg, ','))
		return cli_integer("-H", arg, 1, 1 << 20, &opt->hosts);
	if (cli_numbers("-H", arg, ",", 1, 1 << 20, size, EXPLAIN_HOSTS, &n))
		return -1;
	opt->hosts = n;
	for (i = 0; i < n; i++) {
		if (size[i] != floor(size[i]))
			return cli_fail("-H: whole numbers of ranks, not %g", size[i]);
		opt->listed += opt->sizes[i] = (int)size[i];
	}
	return 0;
}

static int parse_graph(const char *arg, int *graph)
{
	const char *near;

	for (*graph = 0; cli_graph_names[*graph]; ++*graph)
		if (!strcmp(cli_graph_names[*graph], arg))
			return 0;
	near = tt_nearest(arg, cli_graph_names, CLI_GRAPHS);
	return near ? cli_fail("-g: no graph is called %s; did you mean %s?", arg, near)
		    : cli_fail("-g: no graph is called %s", arg);
}

/* Collectives of neighbours are not among those of cli_coll. */
static int parse_coll(const char *arg, enum tt_coll *coll)
{
	const char *names[TT_ALL_COLLS - TT_COLL_NEIGHBOR_ALLREDUCE], *near;
	int i, n = TT_ALL_COLLS - TT_COLL_NEIGHBOR_ALLREDUCE;

	if (strncmp(arg, "neigh", 5))
		return cli_coll(arg, coll);
	for (i = 0; i < n; i++) {
		*coll = (enum tt_coll)(TT_COLL_NEIGHBOR_ALLREDUCE + i);
		names[i] = tt_coll_name(*coll);
		if (!strcmp(names[i], arg))
			return 0;
	}
	near = tt_nearest(arg, names, n);
	return cli_fail("no collective is called %s; did you mean %s?", arg,
			near ? near : names[0]);
}

/* Options that do not go together. */
static int check_options(const struct explain_options *opt)
{
	const char *name = tt_coll_name(opt->coll);

	if (!tt_coll_neighbors(opt->coll))
		return opt->graph < 0 ? 0 : cli_fail("-g: %s does not use a graph", name);
	if (opt->numa > 1 || opt->root || opt->all)
		return cli_fail("%s: %s does not use it",
				opt->all    ? "-a"
				: opt->root ? "-r"
					    : "-N",
				name);
	return 0;
}

static int parse_one(void *into, int c, char *arg)
{
	struct explain_options *opt = into;

	switch (c) {
	case 'n':
		return cli_integer("-n", arg, 1, 1 << 20, &opt->nranks);
	case 'H':
		return parse_hosts(opt, arg);
	case 'N':
		return cli_integer("-N", arg, 1, 1 << 10, &opt->numa);
	case 'b':
		return cli_bytes("-b", arg, 0, (size_t)1 << 46, &opt->min_bytes);
	case 'e':
		return cli_bytes("-e", arg, 0, (size_t)1 << 46, &opt->max_bytes);
	case 'f':
		return cli_number("-f", arg, 1.001, 1e6, &opt->factor);
	case 't':
		opt->between = arg;
		return tt_link_default(arg) && strcmp(arg, "shm")
			       ? 0
			       : cli_fail("-t: verbs or ofi, not '%s'", arg);
	case 'c':
		return cli_integer("-c", arg, 1, 1 << 16, &opt->cores);
	case 'r':
		return cli_integer("-r", arg, 0, (1 << 20) - 1, &opt->root);
	case 'T':
		opt->file = arg;
		return 0;
	case 'g':
		return parse_graph(arg, &opt->graph);
	default:
		opt->all = true;
		return 0;
	}
}

/* 0, 1: done, or negative. */
static int parse(struct explain_options *opt, int argc, char **argv)
{
	static const struct cli cli = {cli_prog,     usage,	":n:H:N:b:e:f:t:c:r:T:g:ahV",
				       long_options, parse_one, NULL};
	int err;

	*opt = (struct explain_options){
		.min_bytes = 8, .factor = 2, .numa = 1, .cores = tt_topo_cpus(), .graph = -1};
	err = cli_options(&cli, argc, argv, opt);
	if (err)
		return err;
	if (optind < argc && parse_coll(argv[optind], &opt->coll))
		return -1;
	if (optind + 1 < argc)
		return cli_fail("unexpected argument '%s'", argv[optind + 1]);
	if (opt->listed && opt->nranks && opt->listed != opt->nranks)
		return cli_fail("-H: %d ranks on its hosts, but -n %d", opt->listed, opt->nranks);
	opt->nranks = opt->listed ? opt->listed : opt->nranks;
	opt->max_bytes = opt->max_bytes ? opt->max_bytes : opt->min_bytes;
	if (opt->max_bytes < opt->min_bytes)
		return cli_fail("-e %zu is less than -b %zu", opt->max_bytes, opt->min_bytes);
	if (tt_env_load(&opt->env))
		return cli_fail("%s", tt_fail_text(-EINVAL));
	return check_options(opt);
}

/* A table of one rank has no costs of messages. */
static bool is_of(const struct tt_tune *tune, int nranks, int nhosts)
{
	return tune->nranks > 1 && (!nranks || tune->nranks == nranks) &&
	       (!nhosts || tune->nhosts == nhosts);
}

const struct tt_tune *explain_fitting(const struct tt_tunes *tunes, int nranks, int nhosts)
{
	int i;

	for (i = 0; i < tunes->n; i++)
		if (is_of(tunes->tune[i], nranks, nhosts))
			return tunes->tune[i];
	for (i = 0; i < tunes->n; i++)
		if (is_of(tunes->tune[i], 0, nhosts))
			return tunes->tune[i];
	return NULL;
}

int explain_load(const char *asked, struct tt_tunes *tunes, char *path, size_t size)
{
	int err = tt_tune_path(asked, path, size);

	*tunes = (struct tt_tunes){0};
	if (!err && path[0])
		err = tt_tunes_load(path, tunes);
	if (err == -ENOENT && !*asked)
		err = path[0] = 0;
	return err ? cli_fail("%s", tt_fail_text(err)) : 0;
}

static int by_time(const void *a, const void *b)
{
	double x = ((const struct tt_candidate *)a)->time,
	       y = ((const struct tt_candidate *)b)->time;

	return x < y ? -1 : x > y;
}

void explain_cut(const struct tt_candidate *c, struct tt_plan_args *args)
{
	bool hier = !strncmp(c->alg->name, "hier", 4);

	args->chunk = c->chunk;
	args->lanes = c->lanes;
	args->node = args->node && !hier;
	args->hosts = hier ? args->hosts : NULL;
	args->rcounts = NULL;
}

static void print_counts(const struct tt_candidate *c, const struct tt_plan_args *args)
{
	struct tt_plan_args cut = *args;
	struct tt_plan_cost most;

	explain_cut(c, &cut);
	if (explain_count(c->alg, &cut, &most))
		printf(" %7d %14llu %14llu %14llu\n", most.steps,
		       (unsigned long long)most.bytes_sent, (unsigned long long)most.bytes_received,
		       (unsigned long long)most.bytes_reduced);
	else
		printf(" %7s %14s %14s %14s\n", "-", "-", "-", "-");
}

static void print_row(const struct tt_candidate *c, bool taken, const struct tt_plan_args *args)
{
	char measured[32] = "-";

	if (c->measured > 0)
		snprintf(measured, sizeof(measured), "%.1f", c->measured / 1e3);
	printf("%c %12zu %-23s %9zu %5d %14.1f %13s %12.1f", taken ? '*' : ' ',
	       args->count * EXPLAIN_ELEM, c->alg->name, c->chunk, c->lanes, c->predicted / 1e3,
	       measured, c->time / 1e3);
	print_counts(c, args);
}

/* The most ranks on any host. */
static int most_of(const struct explain_options *opt)
{
	int i, most = 0;

	for (i = 0; i < EXPLAIN_HOSTS; i++)
		most = opt->sizes[i] > most ? opt->sizes[i] : most;
	return most ? most : (opt->nranks + opt->hosts - 1) / opt->hosts;
}

/* The same of NUMA nodes. */
static int most_near(const struct explain_options *opt)
{
	return (opt->nranks + opt->numa - 1) / opt->numa;
}

struct tt_hosts *explain_hosts(const struct explain_options *opt)
{
	int each = opt->numa > 1 ? most_near(opt) : most_of(opt);
	struct tt_hosts *hosts;

	if (each > TT_NODE_RANKS || !strcmp(opt->env.node.text, "off") ||
	    (opt->sizes[0] ? tt_hosts_sized(opt->nranks, opt->sizes, opt->hosts, &hosts)
			   : tt_hosts_blocks(opt->nranks, each, &hosts)))
		return NULL;
	return hosts;
}

struct tt_plan_args explain_args(const struct explain_options *opt, enum tt_coll coll, size_t size)
{
	bool node = opt->hosts == 1 && opt->nranks > 1 && opt->nranks <= TT_NODE_RANKS &&
		    strcmp(opt->env.node.text, "off") != 0;

	return (struct tt_plan_args){.coll = coll,
				     .nranks = opt->nranks,
				     .root = opt->root,
				     .node = node,
				     .direct = node, /* as on most hosts */
				     .elem = EXPLAIN_ELEM,
				     .count = size / EXPLAIN_ELEM + (size % EXPLAIN_ELEM > 0)};
}

static int explain(const struct explain_options *opt, const struct tt_chooser *chooser, size_t size)
{
	struct tt_plan_args args = explain_args(opt, opt->coll, size);
	struct tt_candidate list[TT_CANDIDATES];
	struct tt_plan_args cut;
	size_t *counts = calloc((size_t)opt->nranks, sizeof(*counts));
	struct tt_hosts *hosts = explain_hosts(opt);
	const struct tt_alg *taken;
	int n, i, shown = 0;

	if (!counts) {
		free(hosts);
		return cli_fail("no memory for %d ranks", opt->nranks);
	}
	for (i = 0; i < opt->nranks; i++)
		counts[i] = args.count;
	args.hosts = hosts;
	args.rcounts = counts; /* v forms: equal counts */
	cut = args;
	n = tt_candidates(chooser, &args, list, TT_CANDIDATES);
	taken = tt_choose(chooser, &cut);
	for (i = 0; tt_coll_own_counts(opt->coll) && i < n;
	     i++) { /* cut in the same way for every candidate */
		list[i].chunk = cut.chunk;
		list[i].lanes = cut.lanes;
	}
	qsort(list, (size_t)n, sizeof(list[0]), by_time);
	for (i = 0; i < n; i++)
		if (opt->all || list[i].alg == taken || shown < 3) {
			print_row(&list[i], list[i].alg == taken, &args);
			shown++;
		}
	free(counts);
	free(hosts);
	return 0;
}

static void print_cache(const struct explain_options *opt, size_t measured)
{
	const char *by = opt->env.cache.number ? "by TUTTI_CACHE"
			 : measured	       ? "as tutti_tune has measured"
					       : "as the kernel describes the caches";

	printf("# inside a host: stores around the cache if a rank has used more than %.1f "
	       "MiB since the last call on the buffers (%s)\n",
	       (double)tt_stores_share(&opt->env, measured, most_of(opt)) / (1 << 20), by);
}

/* The first lines, of all collectives. */
static void print_place(const struct explain_options *opt, const struct tt_tune *tune,
			const char *path)
{
	const struct tt_link_costs *in = tt_tune_link(tune, false, "shm"),
				   *out = tt_tune_link(tune, true, opt->between);

	printf("# %s of %d ranks on %d host%s", tt_coll_name(opt->coll), opt->nranks, opt->hosts,
	       opt->hosts == 1 ? "" : "s");
	if (opt->numa > 1)
		printf(" of %d NUMA nodes", opt->numa);
	if (tune)
		printf(", by %s (hosts %s, %d ranks, %d times)\n", path, tune->hosts, tune->nranks,
		       tune->npoints);
	else
		printf(", by the defaults; tutti_tune measures\n");
	printf("# inside a host (shm): alpha %.2f us, %.2f GB/s; between hosts (%s): alpha %.2f "
	       "us, "
	       "%.2f GB/s\n",
	       in->hop.alpha / 1e3, 1 / in->hop.beta, opt->between, out->hop.alpha / 1e3,
	       1 / out->hop.beta);
}

static void print_head(const struct explain_options *opt, const struct tt_tune *tune)
{
	printf("# TUTTI_ALGO=\"%s\" TUTTI_CHUNK=%lld TUTTI_LANES=%lld; *: taken; time: what is "
	       "compared\n",
	       opt->env.algo.text, (long long)opt->env.chunk.number,
	       (long long)opt->env.lanes.number);
	if (tt_coll_reduces(opt->coll))
		print_cache(opt, tune ? tune->cache : 0);
	printf("# of the busiest rank, counted in the plans: rounds of the longest lane, sent, "
	       "inbound, reduced; "
	       "-: too many to count\n");
	printf("# %12s %-23s %9s %5s %14s %13s %12s %7s %14s %14s %14s\n", "size (B)", "algorithm",
	       "chunk (B)", "lanes", "predicted (us)", "measured (us)", "time (us)", "rounds",
	       "sent (B)", "inbound (B)", "reduced (B)");
}

size_t explain_next(const struct explain_options *opt, size_t size)
{
	size_t next = (size_t)((double)size * opt->factor);

	next = next > size ? next : size + EXPLAIN_ELEM;
	return next > opt->max_bytes ? 0 : next;
}

static int run(struct explain_options *opt, const struct tt_tune *tune, const char *path)
{
	struct tt_chooser_params params = {.rules = opt->env.algo.text,
					   .chunk = (size_t)opt->env.chunk.number,
					   .lanes = (int)opt->env.lanes.number,
					   .inside = "shm",
					   .tune = tune};
	struct tt_chooser *chooser;
	size_t size = opt->min_bytes;
	int err = 0;

	if (!opt->between)
		opt->between = tune && tune->nlinks[1] ? tune->links[1][0].name : "ofi";
	opt->nranks = opt->nranks ? opt->nranks : tune ? tune->nranks : 2;
	opt->hosts = opt->hosts ? opt->hosts : tune ? tune->nhosts : 1;
	if (opt->hosts > opt->nranks)
		return cli_wrong("-H: %d ranks cannot be on %d hosts", opt->nranks, opt->hosts);
	if (opt->numa > 1 && (opt->hosts > 1 || opt->numa > opt->nranks))
		return cli_wrong("-N %d: needs one host, with at least one rank on each NUMA node",
				 opt->numa);
	if (opt->root >= opt->nranks)
		return cli_wrong("-r %d: not a rank of %d (0 to %d)", opt->root, opt->nranks,
				 opt->nranks - 1);
	if (tt_coll_neighbors(opt->coll) && opt->nranks > EXPLAIN_NEIGHBORS)
		return cli_wrong("-n: at most %d ranks of %s, not %d", EXPLAIN_NEIGHBORS,
				 tt_coll_name(opt->coll), opt->nranks);
	params.nranks = opt->nranks;
	params.between = opt->between;
	params.layout = (struct tt_layout){.hosts = opt->hosts,
					   .ranks_per_host = most_of(opt),
					   .cores = opt->cores,
					   .numa = opt->numa,
					   .ranks_per_numa = most_near(opt)};
	if (tt_chooser_by_table(&params, &chooser))
		return cli_wrong("%s", tt_fail_text(-EINVAL));
	print_place(opt, tune, path);
	if (tt_coll_neighbors(opt->coll)) {
		err = explain_neighbors(opt, &params, chooser);
	} else {
		print_head(opt, tune);
		do
			err = explain(opt, chooser, size);
		while (!err && (size = explain_next(opt, size)));
	}
	tt_chooser_free(chooser);
	return err;
}

int main(int argc, char **argv)
{
	struct tt_tunes tunes;
	struct explain_options opt;
	char path[4096];
	int err;

	if (argc > 1 && !strcmp(argv[1], "ps"))
		return explain_ps(argc - 1, argv + 1);
	if (argc > 1 && !strcmp(argv[1], "codec"))
		return explain_codec(argc - 1, argv + 1);
	err = parse(&opt, argc, argv);
	if (err)
		return cli_end_parsing(cli_prog, err);
	err = explain_load(opt.file ? opt.file : opt.env.tune_file.text, &tunes, path,
			   sizeof(path));
	if (!err) {
		err = run(&opt, explain_fitting(&tunes, opt.nranks, opt.hosts), path);
		tt_tunes_free(&tunes);
	}
	tt_env_free(&opt.env);
	return cli_end(cli_prog, err);
}
