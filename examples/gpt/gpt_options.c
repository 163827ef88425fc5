/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of gpt; see gpt(1). */
#include "examples/arguments.h"
#include "examples/gpt/gpt.h"

#include <errno.h>
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

enum {
	OPT_DATA = 256,
	OPT_PIPELINE,
	OPT_TENSOR,
	OPT_CHUNKS,
	OPT_MICRO,
	OPT_BATCH,
	OPT_STEPS,
	OPT_LAYERS,
	OPT_HIDDEN,
	OPT_HEADS,
	OPT_LENGTH,
	OPT_WRITE,
	OPT_SEED,
	OPT_DIGITS,
	OPT_ZERO,
	OPT_SERVERS,
	OPT_STRAGGLE,
	OPT_TEXT,
	OPT_CODEC,
	OPT_SAVE,
	OPT_LOAD,
	OPT_SCHEDULE,
	OPT_STALENESS,
	OPT_RATE,
	OPT_DECAY,
	OPT_SEQUENCE_PARALLEL,
	OPT_GATHER_AGAIN
};
/* clang-format off */
static const struct option options[] = {
	{"data", 1, NULL, OPT_DATA}, {"pipeline", 1, NULL, OPT_PIPELINE},
	{"tensor", 1, NULL, OPT_TENSOR}, {"chunks", 1, NULL, OPT_CHUNKS},
	{"micro", 1, NULL, OPT_MICRO}, {"batch", 1, NULL, OPT_BATCH},
	{"steps", 1, NULL, OPT_STEPS}, {"layers", 1, NULL, OPT_LAYERS},
	{"hidden", 1, NULL, OPT_HIDDEN}, {"heads", 1, NULL, OPT_HEADS},
	{"length", 1, NULL, OPT_LENGTH}, {"write", 1, NULL, OPT_WRITE},
	{"seed", 1, NULL, OPT_SEED}, {"digits", 1, NULL, OPT_DIGITS}, {"zero", 1, NULL, OPT_ZERO},
	{"servers", 1, NULL, OPT_SERVERS}, {"straggle", 1, NULL, OPT_STRAGGLE},
	{"text", 1, NULL, OPT_TEXT}, {"codec", 1, NULL, OPT_CODEC}, {"save", 1, NULL, OPT_SAVE},
	{"load", 1, NULL, OPT_LOAD}, {"schedule", 1, NULL, OPT_SCHEDULE},
	{"staleness", 1, NULL, OPT_STALENESS}, {"rate", 1, NULL, OPT_RATE},
	{"decay", 1, NULL, OPT_DECAY}, {"sequence-parallel", 0, NULL, OPT_SEQUENCE_PARALLEL},
	{"gather-again", 0, NULL, OPT_GATHER_AGAIN}, {"help", 0, NULL, 'h'},
	{"version", 0, NULL, 'V'}, {NULL, 0, NULL, 0},
};
/* clang-format on */

static int wrong(const char *option, const char *value, const char *why)
{
	return argument_wrong("gpt", option, value, why);
}

static int read_rate(struct options *o)
{
	int err = argument_real("gpt", "rate", 1, &o->rate);

	return err || o->rate > 0 ? err : wrong("rate", optarg, "not above 0");
}

static int read_staleness(struct options *o)
{
	if (!strcmp(optarg, "async"))
		o->staleness = TUTTI_PS_ASYNC;
	else if (parse_integer(optarg, 0, 65536, &o->staleness))
		return wrong("staleness", optarg, "not a number from 0 to 65536, or async");
	o->downpour = 1;
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

static int read_codec(struct options *o)
{
	o->codec = strcmp(optarg, "none") != 0 ? optarg : NULL;
	if (sizeof(real) == sizeof(float) || !o->codec)
		return 0;
	return wrong("codec", optarg, "gpt_double has no float32 to encode");
}

static int read_integer(struct options *o, int c, const char *name)
{
	switch (c) {
	case OPT_DATA:
		return argument_integer("gpt", name, 1, 65536, &o->dims[DATA]);
	case OPT_PIPELINE:
		return argument_integer("gpt", name, 1, 65536, &o->dims[PIPELINE]);
	case OPT_TENSOR:
		return argument_integer("gpt", name, 1, 65536, &o->dims[TENSOR]);
	case OPT_CHUNKS:
		return argument_integer("gpt", name, 2, 65536, &o->chunks);
	case OPT_MICRO:
		return argument_integer("gpt", name, 1, 65536, &o->micro);
	case OPT_BATCH:
		return argument_integer("gpt", name, 1, 1 << 20, &o->batch);
	case OPT_STEPS:
		return argument_integer("gpt", name, 0, INT_MAX, &o->steps);
	case OPT_LAYERS:
		return argument_integer("gpt", name, 1, 4096, &o->layers);
	case OPT_HIDDEN:
		return argument_integer("gpt", name, 1, 65536, &o->hidden);
	case OPT_HEADS:
		return argument_integer("gpt", name, 1, 4096, &o->heads);
	case OPT_LENGTH:
		return argument_integer("gpt", name, 1, 65536, &o->length);
	case OPT_WRITE:
		return argument_integer("gpt", name, 0, 1000000, &o->write);
	case OPT_SEED:
		return argument_integer("gpt", name, 0, INT_MAX, &o->seed);
	case OPT_DIGITS:
		return argument_integer("gpt", name, 0, 17, &o->digits);
	case OPT_ZERO:
		return argument_integer("gpt", name, 0, 2, &o->zero);
	case OPT_SERVERS:
		return argument_integer("gpt", name, 1, 65536, &o->servers);
	case OPT_STRAGGLE:
		return argument_integer("gpt", name, 0, 1000000, &o->straggle);
	default:
		return -EINVAL;
	}
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
	case '?':
		fprintf(stderr, "see gpt --help\n");
		return -EINVAL;
	case OPT_SEQUENCE_PARALLEL:
		o->sequence_parallel = 1;
		return 0;
	case OPT_GATHER_AGAIN:
		o->gather_again = 1;
		return 0;
	case OPT_TEXT:
		o->text = optarg;
		return 0;
	case OPT_SAVE:
		o->save = optarg;
		return 0;
	case OPT_LOAD:
		o->load = optarg;
		return 0;
	case OPT_CODEC:
		return read_codec(o);
	case OPT_SCHEDULE:
		return read_schedule(o);
	case OPT_STALENESS:
		return read_staleness(o);
	case OPT_RATE:
		return read_rate(o);
	case OPT_DECAY:
		return argument_real("gpt", "decay", 1, &o->decay);
	default:
		return read_integer(o, c, name);
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
	if (!o->downpour && o->servers)
		return wrong("servers", "", "only with --staleness");
	if (!o->downpour)
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
	if (!err && o->gather_again && !o->sequence_parallel)
		err = wrong("gather-again", "", "only with --sequence-parallel");
	if (!err)
		err = check_servers(o);
	return err ? err : check_chunks(o);
}
