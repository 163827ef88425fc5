/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of tutti_sim pipeline. */
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lib/base/env.h"
#include "tools/cli.h"
#include "tools/plot.h"
#include "tools/sim/model_options.h"
#include "tools/sim/pipeline.h"
#include "tools/values.h"

#define SCHEDULES 3
#define WIDTH_MIN 40
#define WIDTH_MAX 10000
#define MS_MAX 1e9

static const char *const schedules[SCHEDULES] = {
	[TUTTI_PIPELINE_GPIPE] = "gpipe",
	[TUTTI_PIPELINE_1F1B] = "1f1b",
	[TUTTI_PIPELINE_INTERLEAVED] = "interleaved",
};

enum { OPT_READ = 256, OPT_WIDTH, OPT_CSV, OPT_JSON, OPT_PLOT };

static const char usage[] =
	"usage: tutti_sim pipeline [options]\n"
	"Draw the schedule of a pipeline, and count its bubble, messages and held activations.\n"
	"\n"
	"  -S, --schedule NAME        gpipe, 1f1b (default) or interleaved\n"
	"      --read FILE            or the steps of FILE: a line for each stage, such as F0 F1 "
	"B0 B1\n"
	"  -n, --stages N             default 4\n"
	"  -m, --micro-batches N      default 8\n"
	"  -c, --chunks N             of the model on each stage (default 2 if interleaved, else "
	"1)\n"
	"  -F, --forward MS           a stage's time for a micro-batch (default 1)\n"
	"  -B, --backward MS          (default 2)\n"
	"  -b, --bytes SIZE           of the activations that pass (default: messages take no "
	"time)\n"
	"      --width N              characters of a line (default: the terminal's, or 120; 0: no "
	"drawing)\n"
	"      --csv FILE             write the times of all steps there\n"
	"      --json FILE            write all results there\n"
	"      --plot FILE            draw them (png, svg, pdf) by gnuplot\n"
	"The cluster, as in tutti_sim --help; stages are ranks:\n"
	"      --alpha LEAF[,FAR[,HOST]], --bw LEAF[,FAR[,HOST]], --overhead US, --eager "
	"SIZE|inf,\n"
	"      --ranks-per-host N, --hosts-per-leaf N, --straggler STAGE:DELAY_US[:FACTOR],\n"
	"      --jitter US, --seed N\n"
	"  -h, --help                 show this\n"
	"  -V, --version              show the version\n"
	"See tutti_sim(1).\n";

static const struct option long_options[] = {{"schedule", required_argument, NULL, 'S'},
					     {"read", required_argument, NULL, OPT_READ},
					     {"stages", required_argument, NULL, 'n'},
					     {"micro-batches", required_argument, NULL, 'm'},
					     {"chunks", required_argument, NULL, 'c'},
					     {"forward", required_argument, NULL, 'F'},
					     {"backward", required_argument, NULL, 'B'},
					     {"bytes", required_argument, NULL, 'b'},
					     {"width", required_argument, NULL, OPT_WIDTH},
					     {"csv", required_argument, NULL, OPT_CSV},
					     {"json", required_argument, NULL, OPT_JSON},
					     {"plot", required_argument, NULL, OPT_PLOT},
					     SIM_LINK_OPTIONS,
					     {"help", no_argument, NULL, 'h'},
					     {"version", no_argument, NULL, 'V'},
					     {0}};

struct asked {
	struct pipe_options *opt;
	bool schedule, shape;	/* -S; -n, -m or -c were given */
	const char *of_message; /* an option that counts with messages only, or NULL */
};

const char *pipe_schedule(const struct pipe_options *opt)
{
	return schedules[opt->schedule];
}

static int parse_schedule(struct pipe_options *opt, const char *word)
{
	const char *near = tt_nearest(word, schedules, SCHEDULES);
	int i;

	for (i = 0; i < SCHEDULES; i++)
		if (!strcmp(word, schedules[i])) {
			opt->schedule = (enum tutti_pipeline_schedule)i;
			return 0;
		}
	return near ? cli_fail("-S: no schedule is called %s; did you mean %s?", word, near)
		    : cli_fail("-S: no schedule is called %s; there are gpipe, 1f1b and "
			       "interleaved",
			       word);
}

static int parse_time(const char *what, const char *text, double *ns)
{
	double ms;

	if (cli_number(what, text, 1e-6, MS_MAX, &ms))
		return -1;
	*ns = ms * 1e6;
	return 0;
}

static int parse_width(const char *text, int *width)
{
	if (cli_integer("--width", text, 0, WIDTH_MAX, width))
		return -1;
	return !*width || *width >= WIDTH_MIN ? 0
					      : cli_fail("--width: 0, or from %d to %d, not %d",
							 WIDTH_MIN, WIDTH_MAX, *width);
}

static int parse_model(struct asked *a, int c, char *arg)
{
	const struct option *o = long_options;

	while (o->val != c)
		o++;
	if (c != OPT_STRAGGLER && c != OPT_SEED)
		a->of_message = o->name;
	return sim_model_option(&a->opt->model, c, arg);
}

static int parse_shape(struct pipe_options *opt, int c, const char *arg)
{
	switch (c) {
	case 'n':
		return cli_integer("-n", arg, 1, STAGES_MAX, &opt->stages);
	case 'm':
		return cli_integer("-m", arg, 1, 65536, &opt->micros);
	default:
		return cli_integer("-c", arg, 1, 65536, &opt->chunks);
	}
}

static int parse_one(void *into, int c, char *arg)
{
	struct asked *a = into;
	struct pipe_options *opt = a->opt;

	switch (c) {
	case 'S':
		a->schedule = true;
		return parse_schedule(opt, arg);
	case 'n':
	case 'm':
	case 'c':
		a->shape = true;
		return parse_shape(opt, c, arg);
	case 'F':
		return parse_time("-F", arg, &opt->forward);
	case 'B':
		return parse_time("-B", arg, &opt->backward);
	case 'b':
		opt->sized = true;
		return cli_bytes("-b", arg, 1, MAX_BYTES, &opt->bytes);
	case OPT_WIDTH:
		return parse_width(arg, &opt->width);
	case OPT_READ:
		opt->read = arg;
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
		return parse_model(a, c, arg);
	}
}

/* ---- the whole ---- */

static int check_interleaved(const struct pipe_options *opt)
{
	int p = opt->stages, m = opt->micros, below = m / p * p;

	if (p < 2)
		return cli_fail("-n %d: interleaved needs at least 2 stages", p);
	if (opt->chunks < 2)
		return cli_fail("-c %d: interleaved needs at least 2 chunks; 1f1b has one",
				opt->chunks);
	if (m % p && below)
		return cli_fail("-m %d: interleaved needs a multiple of the %d stages; the "
				"nearest are %d and %d",
				m, p, below, below + p);
	return m % p ? cli_fail("-m %d: interleaved needs a multiple of the %d stages; the first "
				"is %d",
				m, p, p)
		     : 0;
}

static int check_shape(struct pipe_options *opt)
{
	bool interleaved = opt->schedule == TUTTI_PIPELINE_INTERLEAVED;

	if (!opt->chunks)
		opt->chunks = interleaved ? 2 : 1;
	if (interleaved && check_interleaved(opt))
		return -1;
	if (!interleaved && opt->chunks > 1)
		return cli_fail("-c %d: %s has one chunk; did you mean -S interleaved?",
				opt->chunks, schedules[opt->schedule]);
	if (opt->schedule != TUTTI_PIPELINE_GPIPE && opt->micros < opt->stages)
		return cli_fail("-m %d: %s needs at least as many as the %d stages; gpipe takes "
				"any number",
				opt->micros, schedules[opt->schedule], opt->stages);
	if (2.0 * opt->stages * opt->micros * opt->chunks > STEPS_MAX)
		return cli_fail("%d stages, %d micro-batches and %d chunks are more than %d steps",
				opt->stages, opt->micros, opt->chunks, STEPS_MAX);
	return 0;
}

static int check_whole(const struct asked *a, int argc, char **argv)
{
	struct pipe_options *opt = a->opt;

	if (optind < argc)
		return cli_fail("unexpected argument '%s'", argv[optind]);
	if (opt->plot && !plot_can(opt->plot))
		return cli_fail("--plot: the name ends in " PLOT_FORMATS ", not '%s'", opt->plot);
	if (opt->plot && strchr(opt->plot, '\n'))
		return cli_fail("--plot: the file name must be one line");
	if (a->of_message && !opt->sized)
		return cli_fail("--%s: of messages that take no time; give their bytes with -b",
				a->of_message);
	if (opt->read)
		return a->schedule || a->shape ? cli_fail("--read: the file has the whole "
							  "schedule; leave out -S, -n, -m and -c")
					       : 0;
	return check_shape(opt);
}

static int default_width(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_col < WIDTH_MIN)
		return 120;
	return size.ws_col < WIDTH_MAX ? size.ws_col : WIDTH_MAX;
}

int pipe_parse(struct pipe_options *opt, int argc, char **argv)
{
	static const struct cli cli = {cli_prog,     usage,	":S:n:m:c:F:B:b:hV",
				       long_options, parse_one, "pipeline"};
	struct asked a = {.opt = opt};
	int err;

	*opt = (struct pipe_options){.schedule = TUTTI_PIPELINE_1F1B,
				     .stages = 4,
				     .micros = 8,
				     .forward = 1e6,
				     .backward = 2e6,
				     .width = default_width()};
	tt_model_default(&opt->model);
	err = cli_options(&cli, argc, argv, &a);
	return err ? err : check_whole(&a, argc, argv);
}
