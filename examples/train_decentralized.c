/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Training without a centre, or with one that nobody waits for: a perceptron on each rank learns
 * to read handwritten digits from its part of the data.
 *
 *	tutti_run -n 8 train_decentralized --method gossip
 *
 * examples/decentral.c has the methods. Rank 0 prints and writes how its own loss falls with time
 * and bytes; the accuracy at the end is that of the common result. With --slow the last rank takes
 * longer for each step, so that methods differ in who waits for it.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/arguments.h"
#include "examples/decentral.h"
#include "examples/digits.h"
#include "examples/random.h"
#include "examples/seconds.h"

struct options {
	const char *method, *data, *csv;
	int epochs, hidden;
	double compute_ms, slow;
	uint64_t seed;
};

struct program {
	struct options opt;
	struct tutti_context *ctx;
	struct decentral d;
	const struct decentral_method *method;
	struct digit *digits;
	int *order, ntrain, ntest, mine; /* mine: digits of this rank */
	double *input, start, apart;	 /* apart: seconds that do not count */
	uint8_t *labels;
	FILE *out;
};

static const char help[] =
	"usage: tutti_run -n RANKS train_decentralized [OPTION...]\n"
	"Train a perceptron on handwritten digits without waiting for all ranks.\n\n"
	"  --method NAME    allreduce, gossip, pairwise, easgd, easgd-sync, neighbor, local or\n"
	"                   partial (default gossip)\n"
	"  --epochs N       times that a rank goes through its part of the data (default 25)\n"
	"  --batch N        digits in a step of a rank (default 8)\n"
	"  --hidden N       width of the hidden layers (default 64)\n"
	"  --rate R         learning rate (default 0.1)\n"
	"  --momentum M     (default 0.5)\n"
	"  --tau N          easgd, local: steps between exchanges (default 4)\n"
	"  --alpha A        easgd: share of the difference (default 0.9 / ranks)\n"
	"  --quorum N       partial: ranks that a step waits for (default ranks - 1)\n"
	"  --compute MS     what a step is made to take in addition (default 1)\n"
	"  --slow F         the last rank takes F times as long (default 1)\n"
	"  --data FILE      digits.csv or digits.csv.gz\n"
	"  --csv FILE       write epoch, seconds, bytes, loss and accuracy of rank 0\n"
	"  --seed N         of the data and the first weights (default 1)\n";

static int failed(struct program *p)
{
	struct tutti_error_info info = {.size = sizeof(info)};

	tutti_last_error(&info);
	fprintf(stderr, "train_decentralized: %s: %s\n", p->d.doing, info.text);
	return -1;
}

static int take(struct program *p, int c)
{
	struct options *o = &p->opt;
	struct decentral *d = &p->d;

	switch (c) {
	case 'm':
		o->method = optarg;
		return 0;
	case 'e':
		return parse_integer(optarg, 1, INT_MAX, &o->epochs);
	case 'b':
		return parse_integer(optarg, 1, INT_MAX, &d->batch);
	case 'H':
		return parse_integer(optarg, 1, INT_MAX, &o->hidden);
	case 'r':
		return parse_real(optarg, 0, 1e9, &d->rate) || !(d->rate > 0);
	case 'M':
		return parse_real(optarg, 0, 1, &d->momentum) || !(d->momentum < 1);
	case 't':
		return parse_integer(optarg, 1, INT_MAX, &d->tau);
	case 'a':
		return parse_real(optarg, 0, 1, &d->alpha) || !(d->alpha > 0);
	case 'q':
		return parse_integer(optarg, 1, INT_MAX, &d->quorum);
	case 'c':
		return parse_real(optarg, 0, 1e9, &o->compute_ms);
	case 's':
		return parse_real(optarg, 1, 1e9, &o->slow);
	case 'd':
		o->data = optarg;
		return 0;
	case 'o':
		o->csv = optarg;
		return 0;
	default:
		return parse_seed(optarg, &o->seed);
	}
}

/* 0; 1: help was wanted; -1: wrong. */
static int parse(struct program *p, int argc, char **argv)
{
	static const struct option names[] = {{"help", no_argument, NULL, 'h'},
					      {"method", required_argument, NULL, 'm'},
					      {"epochs", required_argument, NULL, 'e'},
					      {"batch", required_argument, NULL, 'b'},
					      {"hidden", required_argument, NULL, 'H'},
					      {"rate", required_argument, NULL, 'r'},
					      {"momentum", required_argument, NULL, 'M'},
					      {"tau", required_argument, NULL, 't'},
					      {"alpha", required_argument, NULL, 'a'},
					      {"quorum", required_argument, NULL, 'q'},
					      {"compute", required_argument, NULL, 'c'},
					      {"slow", required_argument, NULL, 's'},
					      {"data", required_argument, NULL, 'd'},
					      {"csv", required_argument, NULL, 'o'},
					      {"seed", required_argument, NULL, 'S'},
					      {NULL, 0, NULL, 0}};
	int c, i;

	p->opt = (struct options){.method = "gossip",
				  .epochs = 25,
				  .hidden = 64,
				  .compute_ms = 1,
				  .slow = 1,
				  .seed = 1};
	p->d.batch = 8;
	p->d.rate = 0.1;
	p->d.momentum = 0.5;
	p->d.tau = 4;
	while ((c = getopt_long(argc, argv, "h", names, &i)) != -1) {
		if (c == 'h')
			return 1;
		if (c == '?')
			return -1;
		if (take(p, c))
			return fprintf(stderr, "train_decentralized: --%s cannot be '%s'\n",
				       names[i].name, optarg),
			       -1;
	}
	p->method = decentral_find(p->opt.method);
	if (!p->method)
		return fprintf(stderr,
			       "train_decentralized: unknown method '%s'; the methods are %s\n",
			       p->opt.method, decentral_names()),
		       -1;
	return optind < argc ? -1 : 0;
}

/* Rank 0 reads the data for all. */
static int load(struct program *p)
{
	int32_t n = -1;
	int i;

	if (p->d.rank == 0)
		n = digits_load(p->opt.data, &p->digits);
	p->d.doing = "sending the digits";
	if (tutti_bcast(&n, 1, TUTTI_INT32, 0, p->d.comm))
		return failed(p);
	if (n < 10 * p->d.nranks)
		return -1;
	if (p->d.rank)
		p->digits = malloc((size_t)n * sizeof(*p->digits));
	p->order = malloc((size_t)n * sizeof(*p->order));
	p->input = malloc((size_t)n * DIGIT_PIXELS * sizeof(double));
	p->labels = malloc((size_t)n);
	if (!p->digits || !p->order || !p->input || !p->labels)
		return fprintf(stderr, "train_decentralized: no memory for %d digits\n", n), -1;
	if (tutti_bcast(p->digits, (size_t)n * sizeof(*p->digits), TUTTI_UINT8, 0, p->d.comm))
		return failed(p);
	for (i = 0; i < n; i++)
		p->order[i] = i;
	shuffle(p->order, n, p->opt.seed);
	p->ntrain = n * 8 / 10;
	p->ntest = n - p->ntrain;
	p->mine = p->ntrain / p->d.nranks;
	if (p->d.batch > p->mine)
		p->d.batch = p->mine;
	return 0;
}

static int make_model(struct program *p)
{
	struct decentral *d = &p->d;
	void **buffers[] = {(void **)&d->weights, (void **)&d->gradient, (void **)&d->before,
			    (void **)&d->work};
	size_t at = 0, i;
	int l;

	if (mlp_init(&d->net, DIGIT_PIXELS, p->opt.hidden, DIGIT_CLASSES, p->ntrain))
		return fprintf(stderr, "train_decentralized: no memory for the model\n"), -1;
	for (l = 0; l < MLP_LAYERS; l++)
		d->size += (size_t)d->net.layers[l].size;
	d->doing = "allocating the model";
	for (i = 0; i < sizeof(buffers) / sizeof(buffers[0]); i++)
		if (tutti_alloc(p->ctx, d->size * sizeof(double), buffers[i]))
			return failed(p);
	for (l = 0; l < MLP_LAYERS; l++) {
		d->net.layers[l].weights = d->weights + at;
		d->net.layers[l].gradient = d->gradient + at;
		at += (size_t)d->net.layers[l].size;
	}
	mlp_random_weights(&d->net, p->opt.seed);
	return p->method->begin(d) ? failed(p) : 0;
}

/* The loss of n digits, and how many are right. */
static double look(struct program *p, const int *order, int n, int *right)
{
	int r, i;

	for (r = 0; r < n; r++) {
		p->labels[r] = p->digits[order[r]].label;
		for (i = 0; i < DIGIT_PIXELS; i++)
			p->input[r * DIGIT_PIXELS + i] = p->digits[order[r]].pixels[i] / 16.0;
	}
	mlp_forward(&p->d.net, p->input, n);
	return mlp_loss(&p->d.net, p->labels, right);
}

static double test(struct program *p)
{
	int right = 0;

	look(p, p->order + p->ntrain, p->ntest, &right);
	return (double)right / p->ntest;
}

/* Adds the loss of the step's digits. */
static int step(struct program *p, const int *order, double *loss)
{
	double ms = p->opt.compute_ms;
	int l, right;

	*loss += look(p, order, p->d.batch, &right);
	for (l = MLP_LAYERS - 1; l >= 0; l--) {
		mlp_gradient(&p->d.net, l);
		if (l)
			mlp_backward(&p->d.net, l);
	}
	if (p->d.rank == p->d.nranks - 1)
		ms *= p->opt.slow;
	if (ms > 0)
		sleep_ms(ms);
	return p->method->step(&p->d) ? failed(p) : 0;
}

static void report(struct program *p, int epoch, double loss, double seconds, double accuracy)
{
	if (p->out)
		fprintf(p->out, "%s,%d,%.6f,%llu,%.9g,%.6f\n", p->method->name, epoch, seconds,
			(unsigned long long)p->d.bytes, loss, accuracy);
}

static int run_epoch(struct program *p, int epoch, double *loss)
{
	int *mine = p->order + p->d.rank * p->mine, i, steps = p->mine / p->d.batch;
	double sum = 0, before;

	shuffle(mine, p->mine, p->opt.seed + (uint64_t)(epoch * 1000 + p->d.rank));
	for (i = 0; i < steps; i++)
		if (step(p, mine + i * p->d.batch, &sum))
			return -1;
	*loss = sum / (steps * p->d.batch);
	before = now();
	if (p->d.rank == 0)
		report(p, epoch, *loss, before - p->start - p->apart, test(p));
	p->apart += now() - before;
	return 0;
}

static int train(struct program *p)
{
	double seconds, loss = 0;
	int epoch;

	if (load(p) || make_model(p))
		return -1;
	p->d.doing = "beginning together";
	if (tutti_barrier(p->d.comm))
		return failed(p);
	p->start = now();
	for (epoch = 1; epoch <= p->opt.epochs; epoch++)
		if (run_epoch(p, epoch, &loss))
			return -1;
	seconds = now() - p->start - p->apart;
	p->d.doing = "collecting the result";
	if (p->method->result(&p->d))
		return failed(p);
	if (p->d.rank == 0)
		printf("%-10s  %2d ranks  %8.3f s  %10llu bytes  loss %9.6f  accuracy %6.2f %%\n",
		       p->method->name, p->d.nranks, seconds, (unsigned long long)p->d.bytes, loss,
		       100 * test(p));
	p->d.doing = "ending";
	return p->method->end(&p->d) ? failed(p) : 0;
}

/* Of rank 0. All ranks fail if it cannot be opened. */
static int open_csv(struct program *p)
{
	int32_t err = 0;

	if (!p->opt.csv)
		return 0;
	p->out = p->d.rank ? NULL : fopen(p->opt.csv, "w");
	if (!p->d.rank && !p->out) {
		err = -1;
		fprintf(stderr, "train_decentralized: --csv %s: %s\n", p->opt.csv, strerror(errno));
	}
	p->d.doing = "opening the file of --csv";
	if (tutti_bcast(&err, 1, TUTTI_INT32, 0, p->d.comm))
		return failed(p);
	if (p->out)
		fputs("method,epoch,seconds,bytes,loss,accuracy\n", p->out);
	return err;
}

static int clean_up(struct program *p)
{
	int err = p->out && fclose(p->out);

	if (err)
		perror(p->opt.csv);
	tutti_free(p->d.weights);
	tutti_free(p->d.gradient);
	tutti_free(p->d.before);
	tutti_free(p->d.work);
	mlp_free(&p->d.net);
	free(p->digits);
	free(p->order);
	free(p->input);
	free(p->labels);
	return tutti_finalize(p->ctx) || err;
}

int main(int argc, char **argv)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	static struct program p;
	int err = parse(&p, argc, argv);

	if (err) {
		fputs(help, err > 0 ? stdout : stderr);
		return err > 0 ? 0 : 2;
	}
	if (tutti_init(NULL, &p.ctx)) {
		tutti_last_error(&info);
		fprintf(stderr, "train_decentralized: %s\n", info.text);
		return 1;
	}
	p.d.comm = tutti_world(p.ctx);
	p.d.rank = tutti_comm_rank(p.d.comm);
	p.d.nranks = tutti_comm_size(p.d.comm);
	if (!(p.d.alpha > 0))
		p.d.alpha = 0.9 / p.d.nranks;
	if (!p.d.quorum)
		p.d.quorum = p.d.nranks > 1 ? p.d.nranks - 1 : 1;
	err = open_csv(&p) || train(&p);
	return clean_up(&p) || err ? 1 : 0;
}
