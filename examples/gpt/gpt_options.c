/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of gpt; see gpt(1). */
#include "examples/gpt/gpt.h"

#include <errno.h>
#include <float.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
	"usage: tutti_run -n RANKS gpt [OPTION]...\n"
	"Train a small GPT on a text, byte by byte, on a grid of data x pipeline x tensor "
	"ranks.\n\n"
	"  --data N          replicas (default: the ranks that are left)\n"
	"  --pipeline N      stages of the pipeline (default 1)\n"
	"  --tensor N        ranks that share each layer (default 1)\n"
	"  --sequence-parallel\n"
	"                    tensor ranks divide the positions outside the matrices of layers\n"
	"  --gather-again    ... and gather inputs of matrices again backward, not keep them\n"
	"  --schedule NAME   gpipe, 1f1b or interleaved (default gpipe)\n"
	"  --chunks N        runs of layers of a stage, interleaved only (default 2)\n"
	"  --zero N          1 or 2: replicas divide the optimizer's state (2: and gradients)\n"
	"  --staleness N     replicas push to a parameter server, at most N steps apart, or async\n"
	"  --servers N       ranks that are servers, with --staleness (default 1)\n"
	"  --straggle MS     the last replica takes longer for each step (default 0)\n"
	"  --micro N         micro-batches of a step (default: up to twice the stages)\n"
	"  --batch N         sequences of a step, over all replicas (default 16)\n"
	"  --steps N         steps up to the end (default 100)\n"
	"  --layers N --hidden N --heads N --length N\n"
	"                    the model (default 4, 128, 4 and sequences of 64 bytes)\n"
	"  --rate X          learning rate (default 0.001)\n"
	"  --decay X         weight decay (default 0.01)\n"
	"  --codec NAME      gradients travel encoded, with feedback (tutti_codec(7))\n"
	"  --text FILE       what to learn (default build/data/bible.txt)\n"
	"  --save FILE       save a checkpoint at the end\n"
	"  --load FILE       go on from a checkpoint, of any grid\n"
	"  --write N         bytes that the model writes at the end (default 200)\n"
	"  --seed N          of the model and the order of the text (default 1)\n"
	"  --digits N        of the printed loss (default 4)\n"
	"  -h, --help        show this\n"
	"  -V, --version     show the version\n";

enum { TEXTS = 512, REALS = 768 }; /* kinds of options: integers below */

/* clang-format off */
enum number { N_DATA, N_PIPELINE, N_TENSOR, N_CHUNKS, N_MICRO, N_BATCH, N_STEPS, N_LAYERS,
	      N_HIDDEN, N_HEADS, N_LENGTH, N_WRITE, N_SEED, N_DIGITS, N_ZERO,
	      N_SERVERS, N_STRAGGLE, NUMBERS };
static const struct option options[] = {
	{"data", 1, NULL, 256 + N_DATA}, {"pipeline", 1, NULL, 256 + N_PIPELINE},
	{"tensor", 1, NULL, 256 + N_TENSOR}, {"chunks", 1, NULL, 256 + N_CHUNKS},
	{"micro", 1, NULL, 256 + N_MICRO}, {"batch", 1, NULL, 256 + N_BATCH},
	{"steps", 1, NULL, 256 + N_STEPS}, {"layers", 1, NULL, 256 + N_LAYERS},
	{"hidden", 1, NULL, 256 + N_HIDDEN}, {"heads", 1, NULL, 256 + N_HEADS},
	{"length", 1, NULL, 256 + N_LENGTH}, {"write", 1, NULL, 256 + N_WRITE},
	{"seed", 1, NULL, 256 + N_SEED}, {"digits", 1, NULL, 256 + N_DIGITS},
	{"zero", 1, NULL, 256 + N_ZERO}, {"servers", 1, NULL, 256 + N_SERVERS},
	{"straggle", 1, NULL, 256 + N_STRAGGLE}, {"staleness", 1, NULL, TEXTS + 5},
	{"text", 1, NULL, TEXTS}, {"codec", 1, NULL, TEXTS + 1}, {"save", 1, NULL, TEXTS + 2},
	{"load", 1, NULL, TEXTS + 3}, {"schedule", 1, NULL, TEXTS + 4},
	{"rate", 1, NULL, REALS}, {"decay", 1, NULL, REALS + 1},
	{"sequence-parallel", 0, NULL, 's'}, {"gather-again", 0, NULL, 'g'},
	{"help", 0, NULL, 'h'}, {"version", 0, NULL, 'V'}, {NULL, 0, NULL, 0},
};
/* clang-format on */

static const int least[NUMBERS] = {[N_DATA] = 1,  [N_PIPELINE] = 1, [N_TENSOR] = 1, [N_CHUNKS] = 2,
				   [N_MICRO] = 1, [N_BATCH] = 1,    [N_LAYERS] = 1, [N_HIDDEN] = 1,
				   [N_HEADS] = 1, [N_LENGTH] = 1,   [N_SERVERS] = 1};
static const int most[NUMBERS] = {65536,   65536, 65536, 65536, 65536,	1 << 20,
				  INT_MAX, 4096,  65536, 4096,	65536,	1000000,
				  INT_MAX, 17,	  2,	 65536, 1000000};

static int wrong(const char *what, const char *value, const char *why)
{
	fprintf(stderr, "gpt: --%s%s%s: %s\n", what, *value ? " " : "", value, why);
	return -EINVAL;
}

static int read_number(struct options *o, const char *name, int which)
{
	int *const places[NUMBERS] = {
		&o->dims[DATA], &o->dims[PIPELINE], &o->dims[TENSOR], &o->chunks, &o->micro,
		&o->batch,	&o->steps,	    &o->layers,	      &o->hidden, &o->heads,
		&o->length,	&o->write,	    &o->seed,	      &o->digits, &o->zero,
		&o->servers,	&o->straggle};
	char why[64], *end;
	long n;

	errno = 0;
	n = strtol(optarg, &end, 10);
	if (end == optarg || *end || errno || n < least[which] || n > most[which]) {
		snprintf(why, sizeof(why), "not a number from %d to %d", least[which], most[which]);
		return wrong(name, optarg, why);
	}
	*places[which] = (int)n;
	return 0;
}

static int read_real(const char *name, double above, double *x)
{
	char *end;

	*x = strtod(optarg, &end);
	if (end == optarg || *end || !(*x > above && *x <= 1))
		return wrong(name, optarg,
			     above < 0 ? "not a number from 0 to 1" : "not above 0, up to 1");
	return 0;
}

static int read_staleness(struct options *o)
{
	char *end;
	long n = strtol(optarg, &end, 10);

	if (!strcmp(optarg, "async"))
		n = TUTTI_PS_ASYNC;
	else if (end == optarg || *end || n < 0 || n > 65536)
		return wrong("staleness", optarg, "not a number from 0 to 65536, or async");
	o->staleness = (int)n;
	o->serve = 1;
	return 0;
}

static int read_schedule(struct options *o)
{
	static const char *const names[] = {"gpipe", "1f1b", "interleaved"};
	int i;

	for (i = 0; i < 3; i++)
		if (!strcmp(optarg, names[i])) {
			o->schedule = (enum tutti_pipeline_schedule)i;
			return 0;
		}
	return wrong("schedule", optarg, "not gpipe, 1f1b or interleaved");
}

static int read_one(struct options *o, int c, const char *name)
{
	switch (c) {
	case 'h':
		fputs(help, stdout);
		return 1;
	case 'V':
		printf("gpt (tutti) %s\n", tutti_version());
		return 1;
	case 's':
		o->sequence_parallel = 1;
		return 0;
	case 'g':
		o->gather_again = 1;
		return 0;
	case '?':
		fprintf(stderr, "see gpt --help\n");
		return -EINVAL;
	case TEXTS:
		o->text = optarg;
		return 0;
	case TEXTS + 1:
		o->codec = strcmp(optarg, "none") != 0 ? optarg : NULL;
		return sizeof(real) == sizeof(float) || !o->codec
			       ? 0
			       : wrong(name, optarg, "gpt_double has no float32 to encode");
	case TEXTS + 2:
		o->save = optarg;
		return 0;
	case TEXTS + 3:
		o->load = optarg;
		return 0;
	case TEXTS + 4:
		return read_schedule(o);
	case TEXTS + 5:
		return read_staleness(o);
	case REALS:
		return read_real(name, 0, &o->rate);
	case REALS + 1:
		return read_real(name, -DBL_MIN, &o->decay);
	default:
		return read_number(o, name, c - 256);
	}
}

static int check_chunks(struct options *o)
{
	if (o->schedule == TUTTI_PIPELINE_INTERLEAVED)
		o->chunks = o->chunks ? o->chunks : 2;
	else if (o->chunks)
		return wrong("chunks", "", "only --schedule interleaved has chunks");
	else
		o->chunks = 1;
	return 0;
}

static int check_servers(struct options *o)
{
	if (!o->serve && o->servers)
		return wrong("servers", "", "only with --staleness");
	if (!o->serve)
		return 0;
	o->servers = o->servers ? o->servers : 1;
	if (!o->zero)
		return 0;
	return wrong("zero", "", "not with --staleness: its servers have the optimizer's state");
}

int options_read(struct options *o, int argc, char **argv)
{
	int c, which = 0, err = 0;

	*o = (struct options){.dims = {0, 1, 1},
			      .layers = 4,
			      .hidden = 128,
			      .heads = 4,
			      .length = 64,
			      .batch = 16,
			      .steps = 100,
			      .seed = 1,
			      .write = 200,
			      .rate = 1e-3,
			      .decay = 0.01,
			      .text = "build/data/bible.txt",
			      .digits = 4};
	while (!err && (c = getopt_long(argc, argv, "hV", options, &which)) != -1)
		err = read_one(o, c, c > 255 ? options[which].name : "");
	if (!err && optind < argc) {
		fprintf(stderr, "gpt: unexpected argument %s; see gpt --help\n", argv[optind]);
		err = -EINVAL;
	}
	if (!err && o->zero && o->codec)
		err = wrong("codec", o->codec, "not with --zero");
	if (!err && o->gather_again && !o->sequence_parallel)
		err = wrong("gather-again", "", "only with --sequence-parallel");
	if (!err)
		err = check_servers(o);
	return err ? err : check_chunks(o);
}
