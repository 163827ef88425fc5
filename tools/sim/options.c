/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of tutti_sim. */
#include <math.h>
#include <string.h>
#include <tutti/error.h>

#include "lib/base/env.h"
#include "lib/base/error.h"
#include "lib/codec/codec.h"
#include "tools/cli.h"
#include "tools/plot.h"
#include "tools/sim/model_options.h"
#include "tools/sim/sim.h"
#include "tools/values.h"

enum {
	OPT_CHUNK = 256,
	OPT_LANES,
	OPT_TABLE,
	OPT_SERVERS,
	OPT_STEPS,
	OPT_WITHOUT,
	OPT_FULL,
	OPT_CSV,
	OPT_JSON,
	OPT_PLOT,
	OPT_SKEW,
	OPT_CODEC,
	OPT_DENSITY
};

static const struct option long_options[] = {{"ranks", required_argument, NULL, 'n'},
					     {"minbytes", required_argument, NULL, 'b'},
					     {"maxbytes", required_argument, NULL, 'e'},
					     {"stepfactor", required_argument, NULL, 'f'},
					     {"algorithm", required_argument, NULL, 'a'},
					     {"root", required_argument, NULL, 'r'},
					     {"chunk", required_argument, NULL, OPT_CHUNK},
					     {"lanes", required_argument, NULL, OPT_LANES},
					     {"check", no_argument, NULL, 'c'},
					     {"table", no_argument, NULL, OPT_TABLE},
					     {"servers", required_argument, NULL, OPT_SERVERS},
					     {"steps", required_argument, NULL, OPT_STEPS},
					     {"without", required_argument, NULL, OPT_WITHOUT},
					     {"full", no_argument, NULL, OPT_FULL},
					     {"csv", required_argument, NULL, OPT_CSV},
					     {"json", required_argument, NULL, OPT_JSON},
					     {"plot", required_argument, NULL, OPT_PLOT},
					     {"gamma", required_argument, NULL, OPT_GAMMA},
					     {"buffer", required_argument, NULL, OPT_BUFFER},
					     {"rails", required_argument, NULL, OPT_RAILS},
					     {"cores", required_argument, NULL, OPT_CORES},
					     {"oversub", required_argument, NULL, OPT_OVERSUB},
					     {"skew", required_argument, NULL, OPT_SKEW},
					     {"codec", required_argument, NULL, OPT_CODEC},
					     {"coding", required_argument, NULL, OPT_CODING},
					     {"density", required_argument, NULL, OPT_DENSITY},
					     SIM_LINK_OPTIONS,
					     {"help", no_argument, NULL, 'h'},
					     {"version", no_argument, NULL, 'V'},
					     {0}};

static const char usage[] =
	"usage: tutti_sim [COLLECTIVE] [options]\n"
	"       tutti_sim --table [-n RANKS] [-b SIZE] [--servers K[,K...]]\n"
	"       tutti_sim --steps Q:DELAY_MS[:COMPUTE_MS] [-n RANKS] [-b SIZE]\n"
	"       tutti_sim pipeline [options]   see tutti_sim pipeline --help\n"
	"Simulate the plans of a collective (default allreduce) on a modelled cluster.\n"
	"\n"
	"  -n, --ranks MIN[:MAX[:FACTOR]]  numbers of ranks (default 16; factor 2)\n"
	"  -b, --minbytes SIZE             smallest size (default 8; K, M, G)\n"
	"  -e, --maxbytes SIZE             largest (default: the same)\n"
	"  -f, --stepfactor FACTOR         from one size to the next (default 2)\n"
	"  -a, --algorithm NAME[,NAME...]  default: all that can do it\n"
	"  -r, --root RANK                 root of rooted collectives (default 0)\n"
	"      --skew X                        counts per rank: the largest is X times the "
	"smallest\n"
	"      --codec NAME                also all-reduces whose vectors travel encoded\n"
	"      --density PERCENT           elements that its lists name (default: the most)\n"
	"      --chunk SIZE, --lanes N     as TUTTI_CHUNK and TUTTI_LANES\n"
	"  -c, --check                     prove the plans, too (up to 1024 ranks)\n"
	"      --table                     the literature's table, computed from the plans\n"
	"      --servers K[,K...]          numbers of dedicated servers in it (default 1,2,4)\n"
	"      --steps Q:DELAY_MS[:COMPUTE_MS]  times of training steps in which a rank is slow\n"
	"                                  with probability Q (default computing: 10 ms)\n"
	"      --without N                 ranks that a quorum does without (default 1)\n"
	"      --full                      never take the recurrence\n"
	"      --csv FILE, --json FILE     write the results there too\n"
	"      --plot FILE                 draw them (png, svg, pdf) by gnuplot\n"
	"The cluster:\n"
	"      --alpha LEAF[,FAR[,HOST]]   latencies in us (default 2,3,0.3)\n"
	"      --bw LEAF[,FAR[,HOST]]      bandwidths of a port in GB/s (default 12.5,12.5,10)\n"
	"      --gamma GBPS                speed of reducing in GB/s (default 10)\n"
	"      --coding ENCODE[,DECODE]    speeds of the codec in GB/s of the vector (default "
	"4,6)\n"
	"      --overhead US               processor time of a message at either end (default "
	"0.1)\n"
	"      --eager SIZE|inf            longer messages wait for their receive (default 8K)\n"
	"      --buffer SIZE               what a port takes off a sender's hands (default 0)\n"
	"      --ranks-per-host N, --hosts-per-leaf N, --rails N, --oversub X\n"
	"      --cores N                   processors that the ranks of a host share (default: one "
	"each)\n"
	"      --straggler RANK:DELAY_US[:FACTOR], --jitter US, --seed N\n"
	"  -h, --help                      show this\n"
	"  -V, --version                   show the version\n"
	"See tutti_sim(1).\n";

/* ---- options of some length ---- */

static int parse_ranks(struct options *opt, char *text)
{
	double v[3] = {0, 0, 2};
	int n;

	if (cli_numbers("-n", text, ":", 1, MAX_RANKS, v, 3, &n))
		return -1;
	if (v[0] != floor(v[0]) || v[1] != floor(v[1]))
		return cli_fail("-n: whole numbers of ranks, not %g",
				v[0] != floor(v[0]) ? v[0] : v[1]);
	opt->min_ranks = (int)v[0];
	opt->max_ranks = n > 1 ? (int)v[1] : (int)v[0];
	opt->rank_factor = v[2];
	if (opt->max_ranks < opt->min_ranks)
		return cli_fail("-n: %d is more than %d", opt->min_ranks, opt->max_ranks);
	if (n > 2 && v[2] <= 1)
		return cli_fail("-n: a factor above 1, not %g", v[2]);
	return 0;
}

static int parse_servers(struct options *opt, char *text)
{
	int i;

	if (cli_numbers("--servers", text, ",", 1, MAX_RANKS, opt->servers, MAX_SERVERS,
			&opt->nservers))
		return -1;
	for (i = 0; i < opt->nservers; i++)
		if (opt->servers[i] != floor(opt->servers[i]))
			return cli_fail("--servers: whole numbers, not %g", opt->servers[i]);
	return 0;
}

/* Q:DELAY_MS[:COMPUTE_MS] */
static int parse_steps(struct options *opt, char *text)
{
	double v[3] = {0, 0, opt->steps.compute};
	int n;

	if (cli_numbers("--steps", text, ":", 0, 1e9, v, 3, &n))
		return -1;
	if (n < 2 || v[0] > 1 || !(v[1] > 0))
		return cli_fail("--steps: Q:DELAY_MS[:COMPUTE_MS], Q from 0 to 1 and the delay "
				"more than 0");
	opt->steps.q = v[0];
	opt->steps.delay = v[1];
	opt->steps.compute = v[2];
	return 0;
}

static int parse_codec(struct options *opt, const char *name)
{
	struct tutti_codec *codec;
	int err = tutti_codec_create(name, &codec), choices;

	if (err)
		return cli_fail("--codec: %s", tt_fail_text(err));
	if (tt_codec_choices(codec, &choices))
		return cli_fail("--codec: %s is for jobs; see tutti_explain codec", name);
	opt->codec = TT_PLAN_CODEC(codec);
	opt->codec.encode = opt->codec.decode = 0; /* by --coding */
	return 0;
}

static int parse_one(void *into, int c, char *arg)
{
	struct options *opt = into;

	switch (c) {
	case 'n':
		return parse_ranks(opt, arg);
	case 'b':
		opt->sized = true;
		return cli_bytes("-b", arg, 0, MAX_BYTES, &opt->min_bytes);
	case 'e':
		return cli_bytes("-e", arg, 1, MAX_BYTES, &opt->max_bytes);
	case 'f':
		return cli_number("-f", arg, 1.001, 1e6, &opt->byte_factor);
	case 'a':
		opt->algorithms = arg;
		return 0;
	case 'r':
		return cli_integer("-r", arg, 0, MAX_RANKS - 1, &opt->root);
	case OPT_CHUNK:
		return cli_bytes("--chunk", arg, ELEM, MAX_BYTES, &opt->chunk);
	case OPT_LANES:
		return cli_integer("--lanes", arg, 1, 32, &opt->lanes);
	case 'c':
		opt->check = true;
		return 0;
	case OPT_SKEW:
		return cli_number("--skew", arg, 1, 1e6, &opt->skew);
	case OPT_CODEC:
		return parse_codec(opt, arg);
	case OPT_DENSITY:
		return cli_number("--density", arg, 1e-6, 100, &opt->density);
	case OPT_TABLE:
		opt->table = true;
		return 0;
	case OPT_SERVERS:
		return parse_servers(opt, arg);
	case OPT_STEPS:
		return parse_steps(opt, arg);
	case OPT_WITHOUT:
		return cli_integer("--without", arg, 0, MAX_RANKS, &opt->steps.less);
	case OPT_FULL:
		opt->full = true;
		return 0;
	case OPT_CSV:
		opt->csv = arg;
		return 0;
	case OPT_JSON:
		opt->json = arg;
		return 0;
	case OPT_PLOT:
		opt->plot = arg;
		return 0;
	default:
		return sim_model_option(&opt->model, c, arg);
	}
}

/* ---- the whole ---- */

/* A collective; the other word that may stand there comes first. */
static int find_word(struct options *opt, const char *word)
{
	static const char pipeline[] = "pipeline";
	const char *names[] = {pipeline, NULL};

	if (!tt_coll_find(word, &opt->coll, &names[1]))
		return 0;
	if (!strcmp(word, pipeline))
		return cli_fail("pipeline comes before the options");
	if (tt_nearest(word, names, names[1] ? 2 : 1) == pipeline)
		return cli_fail("no collective is called %s; did you mean pipeline?", word);
	return cli_coll(word, &opt->coll);
}

static int check_whole(struct options *opt, int argc, char **argv)
{
	if (optind < argc && find_word(opt, argv[optind]))
		return -1;
	if (optind + 1 < argc)
		return cli_fail("unexpected argument '%s'", argv[optind + 1]);
	if (opt->skew > 1 && !tt_coll_counts(opt->coll))
		return cli_fail("--skew: %s has no counts per rank", tt_coll_name(opt->coll));
	if (!opt->max_bytes)
		opt->max_bytes = opt->min_bytes;
	if (opt->max_bytes < opt->min_bytes)
		return cli_fail("-e %zu is less than -b %zu", opt->max_bytes, opt->min_bytes);
	if (opt->root >= opt->min_ranks)
		return cli_fail("-r %d: not a rank of %d (0 to %d)", opt->root, opt->min_ranks,
				opt->min_ranks - 1);
	if (opt->model.straggler >= opt->min_ranks)
		return cli_fail("--straggler %d: not a rank of %d (0 to %d)", opt->model.straggler,
				opt->min_ranks, opt->min_ranks - 1);
	if (opt->density > 0 && !opt->codec.sparse)
		return cli_fail("--density: needs a --codec of lists");
	if (opt->codec.codec && opt->coll != TT_COLL_ALLREDUCE)
		return cli_fail("--codec: only for allreduce");
	if (opt->steps.delay > 0 && (opt->table || opt->coll != TT_COLL_ALLREDUCE))
		return cli_fail("--steps: only for allreduce, and without --table");
	if (opt->table && opt->coll != TT_COLL_ALLREDUCE)
		return cli_fail("--table: only for allreduce");
	if (opt->coll == TT_COLL_ALLTOALLV && opt->max_ranks > ALLTOALLV_MAX)
		return cli_fail("alltoallv: at most %d ranks, not %d", ALLTOALLV_MAX,
				opt->max_ranks);
	if (opt->plot && !plot_can(opt->plot))
		return cli_fail("--plot: the name ends in " PLOT_FORMATS ", not '%s'", opt->plot);
	if (opt->plot && strchr(opt->plot, '\n'))
		return cli_fail("--plot: the file name must be one line");
	opt->chunk -= opt->chunk % ELEM;
	return 0;
}

int sim_parse(struct options *opt, int argc, char **argv)
{
	static const struct cli cli = {cli_prog,     usage,	":n:b:e:f:a:r:chV",
				       long_options, parse_one, NULL};
	int err;

	*opt = (struct options){.coll = TT_COLL_ALLREDUCE,
				.min_ranks = 16,
				.max_ranks = 16,
				.rank_factor = 2,
				.min_bytes = 8,
				.byte_factor = 2,
				.skew = 1,
				.servers = {1, 2, 4},
				.nservers = 3,
				.steps = {.compute = 10, .less = 1},
				.chunk = 256 << 10,
				.lanes = 4};
	tt_model_default(&opt->model);
	err = cli_options(&cli, argc, argv, opt);
	return err ? err : check_whole(opt, argc, argv);
}
