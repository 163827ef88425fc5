/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of rl; see rl(1). */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "examples/arguments.h"
#include "examples/rl/rl.h"

static const char help[] =
	"usage: tutti_run -n RANKS rl --shape a3c|impala|seed [OPTION]...\n"
	"Learn to balance a pole on a cart.\n\n"
	"  --shape NAME      a3c: asynchronous gradients on a parameter server\n"
	"                    impala: actors send trajectories to rank 0 and take its weights\n"
	"                    seed: actors ask rank 0 for each action\n"
	"  --goal X          stop at this mean return of 100 episodes (default 195)\n"
	"  --steps N         stop after so many steps of all environments (default 1000000)\n"
	"  --batch N         trajectories of 32 steps to an update (default 8; a3c: 1)\n"
	"  --rate X          learning rate (default 0.005; a3c: 0.002)\n"
	"  --gamma X         discount (default 0.99)\n"
	"  --entropy X       weight of the entropy (default 0.01)\n"
	"  --slots N         impala: trajectories of an actor in the queue (default 2)\n"
	"  --lag N           impala: actors get weights of N updates ago, at most 63 (default 0)\n"
	"  --no-vtrace       targets without correction for the policy lag\n"
	"  --seed N          of weights, environments and actions (default 1)\n"
	"  -h, --help        show this\n"
	"  -V, --version     show the version\n";

/* clang-format off */
enum { GOAL = 256, RATE, GAMMA, ENTROPY, STEPS_MAX, BATCH, SLOTS, LAG, START, SHAPE, NO_VTRACE };
static const struct option options[] = {
	{"shape", 1, NULL, SHAPE}, {"goal", 1, NULL, GOAL}, {"steps", 1, NULL, STEPS_MAX},
	{"batch", 1, NULL, BATCH}, {"rate", 1, NULL, RATE}, {"gamma", 1, NULL, GAMMA},
	{"entropy", 1, NULL, ENTROPY}, {"slots", 1, NULL, SLOTS}, {"lag", 1, NULL, LAG},
	{"no-vtrace", 0, NULL, NO_VTRACE}, {"seed", 1, NULL, START},
	{"help", 0, NULL, 'h'}, {"version", 0, NULL, 'V'}, {NULL, 0, NULL, 0},
};
/* clang-format on */

static int wrong(const char *option, const char *value, const char *why)
{
	return argument_wrong("rl", option, value, why);
}

static int read_shape(struct options *o)
{
	static const char *const names[] = {"a3c", "impala", "seed"};

	for (o->shape = A3C; o->shape <= SEED; o->shape++)
		if (!strcmp(optarg, names[o->shape]))
			return 0;
	return wrong("shape", optarg, "not a3c, impala or seed");
}

static int read_one(struct options *o, int c)
{
	switch (c) {
	case 'h':
		fputs(help, stdout);
		return 1;
	case 'V':
		printf("rl (tutti) %s\n", tutti_version());
		return 1;
	case SHAPE:
		return read_shape(o);
	case GOAL:
		return argument_real("rl", "goal", LONGEST, &o->goal);
	case RATE:
		return argument_real("rl", "rate", 1, &o->rate);
	case GAMMA:
		return argument_real("rl", "gamma", 1, &o->gamma);
	case ENTROPY:
		return argument_real("rl", "entropy", 1, &o->entropy);
	case STEPS_MAX:
		return argument_integer("rl", "steps", 1, INT_MAX, &o->steps);
	case BATCH:
		return argument_integer("rl", "batch", 1, 4096, &o->batch);
	case SLOTS:
		return argument_integer("rl", "slots", 1, 4096, &o->slots);
	case LAG:
		return argument_integer("rl", "lag", 0, 63, &o->lag);
	case START:
		return argument_integer("rl", "seed", 0, INT_MAX, &o->seed);
	case NO_VTRACE:
		o->no_vtrace = true;
		return 0;
	default:
		fprintf(stderr, "see rl --help\n");
		return -EINVAL;
	}
}

int options_read(struct options *o, int argc, char **argv)
{
	int c, err = 0;

	*o = (struct options){.shape = -1,
			      .seed = 1,
			      .steps = 1000000,
			      .slots = 2,
			      .gamma = 0.99,
			      .entropy = 0.01,
			      .goal = 195};
	while (!err && (c = getopt_long(argc, argv, "hV", options, NULL)) != -1)
		err = read_one(o, c);
	if (!err && optind < argc) {
		fprintf(stderr, "rl: unexpected argument %s; see rl --help\n", argv[optind]);
		err = -EINVAL;
	}
	if (!err && o->shape < 0)
		err = wrong("shape", "", "missing: a3c, impala or seed");
	o->batch = o->batch ? o->batch : o->shape == A3C ? 1 : 8;
	o->rate = o->rate > 0 ? o->rate : o->shape == A3C ? 0.002 : 0.005;
	if (!err && o->shape == A3C && o->batch > 1)
		err = wrong("batch", "", "a3c pushes the gradient of each trajectory");
	return err;
}
