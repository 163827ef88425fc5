/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Training on a parameter server with workers that are sometimes slow: rank 0 keeps the weights,
 * all others learn to read handwritten digits from parts of the data.
 *
 *	tutti_run -n 5 ps_digits --staleness 3 --csv loss.csv
 *
 * Workers are at most --staleness clocks apart. A worker keeps its pulled weights as long as they
 * are fresh enough (its clock less the staleness), and applies its own steps to them. With --essp
 * the server sends the weights whenever the slowest worker has advanced, and every step uses the
 * newest. The two differ in the age of the weights that gradients are computed from, not in how
 * long workers wait. make perf-staleness draws the difference.
 *
 * With --second N rank 1 serves, too, from clock N on: half of the weights, and the state of their
 * rule, move to rank 1.
 */
#define _POSIX_C_SOURCE 200809L
#include <getopt.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>

#include "examples/arguments.h"
#include "examples/digits.h"
#include "examples/mlp.h"
#include "examples/random.h"
#include "examples/seconds.h"

struct options {
	int staleness, fetch; /* fetch: without a bound, clocks from one pull to the next */
	int essp, aware;
	int clocks, batch, hidden, every, second;
	double rate, compute_ms, straggle_ms, straggle;
	const char *data, *csv;
	uint64_t seed;
};

struct snapshot {
	double seconds, *weights;
	int clock;
};

struct worker {
	struct options opt;
	struct tutti_context *ctx;
	struct tutti_comm *world;
	struct tutti_ps *ps;
	struct tutti_ps_table *table;
	struct mlp net;
	size_t size;		    /* of all weights */
	double *weights, *gradient; /* of all layers, one after the other */
	struct digit *digits;
	int *order, ndigits, rank, workers;
	double *input, waited;
	uint8_t *labels;
	struct snapshot *shot; /* rank 1 */
	int shots, failed;
	int64_t fetches;
};

static int failed(struct worker *w, const char *what)
{
	struct tutti_error_info info = {.size = sizeof(info)};

	tutti_last_error(&info);
	fprintf(stderr, "ps_digits: %s: %s\n", what, info.text);
	w->failed = 1;
	return -1;
}

static const char help[] =
	"usage: tutti_run -n RANKS ps_digits [OPTION...]\n"
	"Train a perceptron on handwritten digits; rank 0 keeps the weights.\n\n"
	"  --staleness S    clocks that workers may be apart (default 0), or async\n"
	"  --fetch N        async: pull every N clocks (default 1)\n"
	"  --essp           the server sends the weights when the slowest worker has moved\n"
	"  --aware          divide the rate by how late a gradient comes\n"
	"  --clocks N       steps of each worker (default 200)\n"
	"  --batch N        digits in a step (default 16)\n"
	"  --hidden N       width of the hidden layers (default 32)\n"
	"  --rate R         learning rate (default 0.05)\n"
	"  --compute MS     what a step is made to take at least (default 2)\n"
	"  --straggle MS    how long every eighth step, on average, takes in addition (default 0)\n"
	"  --second N       from clock N on rank 1 serves, too\n"
	"  --every N        clocks from one look at the loss to the next (default 5)\n"
	"  --data FILE      digits.csv or digits.csv.gz\n"
	"  --csv FILE       write clock, seconds and loss\n"
	"  --seed N         of data and stragglers (default 1)\n";

enum kind { FLAG, INT, REAL, TEXT, SEED, STALENESS };

/* Values of the options above. */
static const struct choice {
	const char *name;
	enum kind kind;
	int least; /* of INT */
	size_t at;
} choices[] = {
#define CHOICE(name, kind, least, field)                                                           \
	{                                                                                          \
		name, kind, least, offsetof(struct options, field)                                 \
	}
	CHOICE("staleness", STALENESS, 0, staleness),
	CHOICE("fetch", INT, 1, fetch),
	CHOICE("essp", FLAG, 0, essp),
	CHOICE("aware", FLAG, 0, aware),
	CHOICE("clocks", INT, 1, clocks),
	CHOICE("batch", INT, 1, batch),
	CHOICE("hidden", INT, 1, hidden),
	CHOICE("rate", REAL, 0, rate),
	CHOICE("compute", REAL, 0, compute_ms),
	CHOICE("straggle", REAL, 0, straggle_ms),
	CHOICE("second", INT, 0, second),
	CHOICE("every", INT, 1, every),
	CHOICE("data", TEXT, 0, data),
	CHOICE("csv", TEXT, 0, csv),
	CHOICE("seed", SEED, 0, seed),
#undef CHOICE
};
#define CHOICES ((int)(sizeof(choices) / sizeof(choices[0])))

static int set(struct options *o, const struct choice *c, const char *text)
{
	void *field = (char *)o + c->at;

	switch (c->kind) {
	case FLAG:
		*(int *)field = 1;
		return 0;
	case INT:
		return parse_integer(text, c->least, INT_MAX, field);
	case REAL:
		return parse_real(text, 0, 1e9, field);
	case TEXT:
		*(const char **)field = text;
		return 0;
	case SEED:
		return parse_seed(text, field);
	default: /* STALENESS */
		if (strcmp(text, "async"))
			return parse_integer(text, 0, INT_MAX, field);
		*(int *)field = TUTTI_PS_ASYNC;
		return 0;
	}
}

static int parse(struct options *o, int argc, char **argv)
{
	struct option names[CHOICES + 2] = {{"help", no_argument, NULL, 'h'}};
	int i, c;

	for (i = 0; i < CHOICES; i++)
		names[i + 1] = (struct option){choices[i].name,
					       choices[i].kind ? required_argument : no_argument,
					       NULL, 256 + i};
	*o = (struct options){.clocks = 200,
			      .batch = 16,
			      .hidden = 32,
			      .rate = 0.05,
			      .compute_ms = 2,
			      .every = 5,
			      .fetch = 1,
			      .straggle = 0.125,
			      .seed = 1};
	while ((c = getopt_long(argc, argv, "h", names, NULL)) != -1) {
		if (c < 256)
			return c == 'h' ? 1 : -1;
		if (set(o, &choices[c - 256], optarg))
			return fprintf(stderr, "ps_digits: --%s cannot be '%s'\n",
				       choices[c - 256].name, optarg),
			       -1;
	}
	return optind < argc ? -1 : 0;
}

/* Rank 0 reads the data for all. */
static int load(struct worker *w)
{
	int32_t n = -1;
	int i;

	if (w->rank == 0)
		n = digits_load(w->opt.data, &w->digits);
	if (tutti_bcast(&n, 1, TUTTI_INT32, 0, w->world))
		return failed(w, "sending the number of digits");
	if (n < 1)
		return -1;
	if (w->rank)
		w->digits = malloc((size_t)n * sizeof(*w->digits));
	w->order = malloc((size_t)n * sizeof(*w->order));
	w->input = malloc((size_t)n * DIGIT_PIXELS * sizeof(double));
	w->labels = malloc((size_t)n);
	if (!w->digits || !w->order || !w->input || !w->labels)
		return fprintf(stderr, "ps_digits: no memory for %d digits\n", n), -1;
	if (tutti_bcast(w->digits, (size_t)n * sizeof(*w->digits), TUTTI_UINT8, 0, w->world))
		return failed(w, "sending the digits");
	for (i = 0; i < n; i++)
		w->order[i] = i;
	shuffle(w->order, n, w->opt.seed);
	w->ndigits = n;
	return 0;
}

static int make_model(struct worker *w)
{
	size_t at = 0;
	int l;

	if (mlp_init(&w->net, DIGIT_PIXELS, w->opt.hidden, DIGIT_CLASSES, w->ndigits))
		return fprintf(stderr, "ps_digits: no memory for the model\n"), -1;
	for (l = 0; l < MLP_LAYERS; l++)
		w->size += (size_t)w->net.layers[l].size;
	if (tutti_alloc(w->ctx, w->size * sizeof(double), (void **)&w->weights) ||
	    tutti_alloc(w->ctx, w->size * sizeof(double), (void **)&w->gradient))
		return failed(w, "allocating the model");
	for (l = 0; l < MLP_LAYERS; l++) {
		w->net.layers[l].weights = w->weights + at;
		w->net.layers[l].gradient = w->gradient + at;
		at += (size_t)w->net.layers[l].size;
	}
	mlp_random_weights(&w->net, w->opt.seed);
	return 0;
}

static int make_table(struct worker *w)
{
	struct tutti_ps_config config = {.size = sizeof(config),
					 .staleness = w->opt.staleness,
					 .role = w->rank ? TUTTI_PS_WORKER : TUTTI_PS_SERVER};
	struct tutti_ps_options opt = {.size = sizeof(opt),
				       .rule = TUTTI_PS_SGD,
				       .rate = w->opt.rate,
				       .essp = w->opt.essp,
				       .staleness_aware = w->opt.aware};

	if (tutti_ps_open(w->world, &config, &w->ps) ||
	    tutti_ps_dense(w->ps, "weights", w->size, TUTTI_FLOAT64, &opt, &w->table))
		return failed(w, "making the parameter server");
	if (w->rank == 1 && tutti_ps_set(w->table, w->weights, w->size, TUTTI_FLOAT64))
		return failed(w, "setting the first weights");
	return tutti_barrier(w->world) ? failed(w, "waiting for the first weights") : 0;
}

static void gather(struct worker *w, const int *order, int n)
{
	int r, i;

	for (r = 0; r < n; r++) {
		w->labels[r] = w->digits[order[r]].label;
		for (i = 0; i < DIGIT_PIXELS; i++)
			w->input[r * DIGIT_PIXELS + i] = w->digits[order[r]].pixels[i] / 16.0;
	}
}

static void compute(struct worker *w, int step)
{
	int per = w->ndigits / w->workers, mine = (w->rank - 1) * per, right, l, i, order[256];
	int n = w->opt.batch < 256 ? w->opt.batch : 256;

	for (i = 0; i < n; i++)
		order[i] = w->order[mine + (step * n + i) % per];
	gather(w, order, n);
	mlp_forward(&w->net, w->input, n);
	mlp_loss(&w->net, w->labels, &right);
	for (l = MLP_LAYERS - 1; l >= 0; l--) {
		mlp_gradient(&w->net, l);
		if (l)
			mlp_backward(&w->net, l);
	}
	for (i = 0; (size_t)i < w->size; i++)
		w->gradient[i] /= n;
}

/* The weights are kept while they contain all that they must. */
static int fetch(struct worker *w, int step, uint64_t *fresh)
{
	struct tutti_ps_read read = {.size = sizeof(read)};
	int s = w->opt.staleness;

	if (step && !w->opt.essp &&
	    (s < 0 ? step % w->opt.fetch : *fresh + (uint64_t)s >= (uint64_t)step))
		return 0;
	w->fetches++;
	if (tutti_ps_pull(w->table, w->weights, 0, w->size, TUTTI_FLOAT64) ||
	    tutti_ps_last_read(w->table, &read))
		return failed(w, "pulling");
	*fresh = read.min_clock;
	return 0;
}

static int snapshot(struct worker *w, int clock, double start)
{
	struct snapshot *s = &w->shot[w->shots];

	s->weights = malloc(w->size * sizeof(double));
	if (!s->weights)
		return fprintf(stderr, "ps_digits: no memory\n"), -1;
	s->seconds = now() - start;
	s->clock = clock;
	w->shots++;
	return tutti_ps_pull(w->table, s->weights, 0, w->size, TUTTI_FLOAT64) ? failed(w, "pulling")
									      : 0;
}

/* All ranks call it; rank 0 at once, as it serves until the others come. */
static int second_server(struct worker *w)
{
	struct tutti_ps_config config = {.size = sizeof(config),
					 .staleness = w->opt.staleness,
					 .role = w->rank == 0	? TUTTI_PS_SERVER
						 : w->rank == 1 ? TUTTI_PS_BOTH
								: TUTTI_PS_WORKER};
	uint64_t bytes[2];

	if (tutti_ps_resize(w->ps, w->world, &config, &w->ps) ||
	    tutti_ps_find(w->ps, "weights", &w->table) ||
	    tutti_ps_server_bytes(w->ps, 0, &bytes[0]) ||
	    tutti_ps_server_bytes(w->ps, 1, &bytes[1]))
		return failed(w, "going on with two servers");
	if (w->rank == 1)
		printf("from clock %d on two servers, with %llu and %llu bytes\n", w->opt.second,
		       (unsigned long long)bytes[0], (unsigned long long)bytes[1]);
	return 0;
}

static int train(struct worker *w)
{
	uint64_t state = w->opt.seed * 1000 + (uint64_t)w->rank, fresh = 0;
	double start = now(), before;
	size_t i;
	int step;

	w->shot = malloc(((size_t)w->opt.clocks / (size_t)w->opt.every + 2) * sizeof(*w->shot));
	if (!w->shot)
		return fprintf(stderr, "ps_digits: no memory\n"), -1;
	for (step = 0; step < w->opt.clocks; step++) {
		if (step && step == w->opt.second && second_server(w))
			return -1;
		if (w->rank == 1 && step % w->opt.every == 0 && snapshot(w, step, start))
			return -1;
		if (fetch(w, step, &fresh))
			return -1;
		compute(w, step);
		sleep_ms(w->opt.compute_ms +
			 (random_uniform(&state) < w->opt.straggle ? w->opt.straggle_ms : 0));
		if (tutti_ps_push(w->table, w->gradient, 0, w->size, TUTTI_FLOAT64))
			return failed(w, "pushing");
		for (i = 0; i < w->size; i++) /* its own steps are in its kept values */
			w->weights[i] -= w->opt.rate * w->gradient[i];
		before = now();
		if (tutti_ps_clock(w->ps))
			return failed(w, "telling the clock");
		w->waited += now() - before;
	}
	return w->rank == 1 ? snapshot(w, step, start) : 0;
}

/* Of all digits, afterwards, so that it takes no time from training. */
static double loss_of(struct worker *w, const double *weights, double *accuracy)
{
	double loss;
	int right;

	memcpy(w->weights, weights, w->size * sizeof(double));
	gather(w, w->order, w->ndigits);
	mlp_forward(&w->net, w->input, w->ndigits);
	loss = mlp_loss(&w->net, w->labels, &right) / w->ndigits;
	*accuracy = (double)right / w->ndigits;
	return loss;
}

static int report(struct worker *w)
{
	struct tutti_ps_read read = {.size = sizeof(read)};
	FILE *f = w->opt.csv ? fopen(w->opt.csv, "w") : NULL;
	double loss = 0, accuracy = 0, total = w->shot[w->shots - 1].seconds;
	int i, err = 0;

	if (w->opt.csv && !f)
		return perror(w->opt.csv), -1;
	if (f)
		fputs("clock,seconds,loss\n", f);
	for (i = 0; i < w->shots; i++) {
		loss = loss_of(w, w->shot[i].weights, &accuracy);
		if (f)
			fprintf(f, "%d,%.4f,%.6g\n", w->shot[i].clock, w->shot[i].seconds, loss);
		free(w->shot[i].weights);
	}
	if (f)
		err = fclose(f);
	tutti_ps_last_read(w->table, &read);
	printf("%d clocks in %.2f s: loss %.4f, accuracy %.1f %%; of the time %.0f %% waiting; "
	       "%lld pulls; "
	       "gradients %.1f versions late\n",
	       w->opt.clocks, total, loss, 100 * accuracy, 100 * w->waited / total,
	       (long long)w->fetches, read.tau);
	return err ? -1 : 0;
}

static int run(struct worker *w)
{
	int err;

	w->rank = tutti_comm_rank(w->world);
	w->workers = tutti_comm_size(w->world) - 1;
	if (w->workers < 1) {
		fprintf(stderr, "ps_digits: it takes two ranks at least\n");
		return -1;
	}
	if (load(w) || make_model(w) || make_table(w))
		return -1;
	if (w->rank)
		err = train(w);
	else
		err = w->opt.second > 0 && w->opt.second < w->opt.clocks ? second_server(w) : 0;
	if (!err && w->rank == 1)
		err = report(w);
	if (tutti_ps_close(w->ps) && !w->failed)
		err = failed(w, "closing the parameter server");
	return err;
}

int main(int argc, char **argv)
{
	static struct worker w;
	int err, parsed = parse(&w.opt, argc, argv);

	if (parsed) {
		fputs(help, parsed > 0 ? stdout : stderr);
		return parsed > 0 ? 0 : 2;
	}
	err = tutti_init(NULL, &w.ctx);
	if (err)
		return failed(&w, "tutti_init"), 1;
	w.world = tutti_world(w.ctx);
	err = run(&w);
	mlp_free(&w.net);
	tutti_free(w.weights);
	tutti_free(w.gradient);
	free(w.digits);
	free(w.order);
	free(w.input);
	free(w.labels);
	free(w.shot);
	return tutti_finalize(w.ctx) || err ? 1 : 0;
}
