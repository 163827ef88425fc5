/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sparse logistic regression on a parameter server: which news are about corn?
 *
 *	tutti_run -n 4 logreg ReutersCorn-train.arff ReutersCorn-test.arff
 *
 * Every rank is server and worker. A weight is a row of one number in a table, keyed by a hash of
 * its word, and created when a worker first pulls it. A step pulls and pushes only the weights of
 * the words in its batch. The servers apply Adagrad, which gives rare words larger steps. Workers
 * are at most two clocks apart (SSP).
 *
 *	tutti_run -n 4 logreg --codec onebit ReutersCorn-train.arff ReutersCorn-test.arff
 *
 * With --allreduce, which --codec includes, every rank holds all weights instead: an all-reduce
 * sums the gradients, which may travel encoded, and every rank takes the same step.
 */
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/arguments.h"
#include "examples/coded_sum.h"
#include "examples/random.h"
#include "examples/texts.h"
#include <tutti/tutti.h>

#define BATCH 16
#define WORDS 8192 /* most different words in a batch */
#define RATE 0.5

struct learner {
	struct tutti_comm *world;
	struct tutti_ps *ps;
	struct tutti_ps_table *table;
	int rank, nranks;
	uint64_t *key; /* of the batch, sorted; with all-reduces, of all texts */
	size_t keys;
	float *weight, *gradient;
	int epochs, allreduce;
	uint64_t seed; /* of the order of texts; 0: as they are in the file */
	struct coding coding;
	/* with all-reduces */
	struct coded_sum sum;
	float *squares; /* Adagrad's */
};

/* Sums over all ranks. */
struct totals {
	double n, loss, right, positives, found, claimed;
};

static int failed(struct learner *l, const char *what)
{
	struct tutti_error_info info = {.size = sizeof(info)};

	tutti_last_error(&info);
	fprintf(stderr, "logreg: rank %d: %s: %s\n", l->rank, what, info.text);
	return -1;
}

/* ---- learning ---- */

/* Of a word without a weight: the place after all weights, which has 0. */
static size_t place(const struct learner *l, uint64_t key)
{
	const uint64_t *p = bsearch(&key, l->key, l->keys, sizeof(key), texts_by_key);

	return p ? (size_t)(p - l->key) : l->keys;
}

/*
 * The weights of all words in these texts; returns how many of the texts there was room for, or
 * -1.
 */
static int pull(struct learner *l, const struct text *const *text, int n)
{
	int i;

	if (l->allreduce)
		return n;
	l->keys = 0;
	for (i = 0; i < n && l->keys + (size_t)text[i]->keys <= WORDS; i++) {
		memcpy(l->key + l->keys, text[i]->key, (size_t)text[i]->keys * sizeof(uint64_t));
		l->keys += (size_t)text[i]->keys;
	}
	if (n && !i) {
		fprintf(stderr, "logreg: a text has %d different words, and there is room for %d\n",
			text[0]->keys, WORDS);
		return -1;
	}
	l->keys = texts_unique(l->key, l->keys);
	return tutti_ps_pull_rows(l->table, l->key, l->keys, l->weight, TUTTI_FLOAT32)
		       ? failed(l, "pulling weights")
		       : i;
}

/*
 * The probability of a yes; every word counts for 1 / sqrt(words), so that long texts are no
 * surer.
 */
static double predict(const struct learner *l, const struct text *t)
{
	double sum = 0;
	int i;

	for (i = 0; i < t->keys; i++)
		sum += l->weight[place(l, t->key[i])];
	return 1 / (1 + exp(-sum / sqrt(t->keys)));
}

static void count(const struct text *t, double p, struct totals *sum)
{
	double q = t->label ? p : 1 - p;

	sum->n++;
	sum->loss -= log(q > 1e-12 ? q : 1e-12);
	sum->right += (p > 0.5) == t->label;
	sum->positives += t->label;
	sum->claimed += p > 0.5;
	sum->found += p > 0.5 && t->label;
}

static int push(struct learner *l)
{
	if (tutti_ps_push_rows(l->table, l->key, l->keys, l->gradient, TUTTI_FLOAT32))
		return failed(l, "pushing gradients");
	return tutti_ps_clock(l->ps) ? failed(l, "telling the clock") : 0;
}

/* The step that the servers would take. */
static int reduce(struct learner *l)
{
	size_t i;

	if (coded_sum_start(&l->sum, NULL))
		return failed(l, "summing gradients");
	for (i = 0; i < l->keys; i++) {
		l->squares[i] += l->gradient[i] * l->gradient[i];
		l->weight[i] -= (float)RATE * l->gradient[i] / (sqrtf(l->squares[i]) + 1e-10f);
	}
	return 0;
}

static int step(struct learner *l, const struct text *const *text, int n, struct totals *sum)
{
	int i, j;

	n = pull(l, text, n);
	if (n < 0)
		return -1;
	memset(l->gradient, 0, l->keys * sizeof(float));
	for (i = 0; i < n; i++) {
		double p = predict(l, text[i]), g = (p - text[i]->label) / sqrt(text[i]->keys);

		count(text[i], p, sum);
		for (j = 0; j < text[i]->keys; j++)
			l->gradient[place(l, text[i]->key[j])] += (float)g;
	}
	return l->allreduce ? reduce(l) : push(l);
}

/* Texts rank, rank + nranks, ... are this rank's; all make as many steps. */
static int epoch(struct learner *l, const struct texts *texts, const int *order, struct totals *sum)
{
	int steps = (texts->n + BATCH * l->nranks - 1) / (BATCH * l->nranks), s, i, n, at = l->rank;
	const struct text *batch[BATCH];

	for (s = 0; s < steps; s++) {
		for (n = i = 0; i < BATCH && at < texts->n; i++, at += l->nranks)
			batch[n++] = &texts->text[order[at]];
		if (step(l, batch, n, sum))
			return -1;
	}
	return 0;
}

static int test(struct learner *l, const struct texts *texts, struct totals *sum)
{
	const struct text *t;
	int at;

	for (at = l->rank; at < texts->n; at += l->nranks) {
		t = &texts->text[at];
		if (pull(l, &t, 1) < 0)
			return -1;
		count(t, predict(l, t), sum);
	}
	return 0;
}

static int tell(struct learner *l, const char *what, struct totals *sum)
{
	if (tutti_allreduce(TUTTI_IN_PLACE, sum, sizeof(*sum) / sizeof(double), TUTTI_FLOAT64,
			    TUTTI_SUM, l->world))
		return failed(l, "adding up");
	if (!l->rank)
		printf("%s: loss %.4f, %.2f %% right; of %.0f that are, %.0f found, %.0f wrongly; "
		       "F1 %.3f\n",
		       what, sum->loss / sum->n, 100 * sum->right / sum->n, sum->positives,
		       sum->found, sum->claimed - sum->found,
		       2 * sum->found / (sum->positives + sum->claimed + 1e-9));
	return 0;
}

/* A pull after this sees all pushes: each worker ends as many clocks as one may be behind. */
static int meet(struct learner *l)
{
	int i;

	for (i = 0; !l->allreduce && i < 3; i++)
		if (tutti_ps_clock(l->ps))
			return failed(l, "telling the clock");
	return 0;
}

static int learn(struct learner *l, const struct texts *train, const struct texts *check)
{
	int *order = malloc((size_t)train->n * sizeof(*order)), e, i, err = !order;
	struct totals sum;
	char what[32];

	for (i = 0; order && i < train->n; i++)
		order[i] = i;
	for (e = 1; !err && e <= l->epochs; e++) {
		sum = (struct totals){0};
		snprintf(what, sizeof(what), "epoch %d", e);
		if (l->seed)
			shuffle(order, train->n, l->seed * 1000 + (uint64_t)e);
		err = epoch(l, train, order, &sum) || tell(l, what, &sum) || meet(l);
		sum = (struct totals){0};
		if (!err && (e == l->epochs || l->allreduce))
			err = test(l, check, &sum) || tell(l, "test", &sum);
	}
	free(order);
	return err ? -1 : 0;
}

/* ---- where the weights are ---- */

static int make_room(struct learner *l, size_t room)
{
	l->key = malloc(room * sizeof(*l->key));
	l->weight = calloc(room + 1, sizeof(float));
	return l->key && l->weight ? 0 : -1;
}

/* Weights of the words of these texts, on each rank. */
static int hold_weights(struct learner *l, struct tutti_context *ctx, const struct texts *texts)
{
	size_t n = 0;
	int i;

	for (i = 0; i < texts->n; i++)
		n += (size_t)texts->text[i].keys;
	if (make_room(l, n))
		return fprintf(stderr, "logreg: no memory\n"), -1;
	for (i = 0; i < texts->n; i++) {
		memcpy(l->key + l->keys, texts->text[i].key,
		       (size_t)texts->text[i].keys * sizeof(*l->key));
		l->keys += (size_t)texts->text[i].keys;
	}
	l->keys = texts_unique(l->key, l->keys);
	l->squares = calloc(l->keys, sizeof(float));
	if (!l->squares)
		return fprintf(stderr, "logreg: no memory\n"), -1;
	if (coded_sum_open(&l->sum, ctx, l->world, &l->coding, l->keys))
		return failed(l, "making room for the gradient");
	l->gradient = l->sum.data;
	return 0;
}

/* A table at the servers. */
static int serve_weights(struct learner *l)
{
	struct tutti_ps_config config = {.size = sizeof(config), .staleness = 2};
	struct tutti_ps_options opt = {
		.size = sizeof(opt), .rule = TUTTI_PS_ADAGRAD, .rate = RATE, .init = TUTTI_PS_ZERO};

	l->gradient = calloc(WORDS, sizeof(float));
	if (make_room(l, WORDS) || !l->gradient)
		return fprintf(stderr, "logreg: no memory\n"), -1;
	if (tutti_ps_open(l->world, &config, &l->ps) ||
	    tutti_ps_rows(l->ps, "weights", 1, 1 << 17, TUTTI_FLOAT32, &opt, &l->table))
		return failed(l, "making the table");
	return 0;
}

static void drop_weights(struct learner *l)
{
	if (l->gradient != l->sum.data)
		free(l->gradient);
	coded_sum_close(&l->sum);
	free(l->squares);
	free(l->weight);
	free(l->key);
}

static int run(struct learner *l, struct tutti_context *ctx, char **path)
{
	struct texts train = {0}, check = {0};
	int32_t bad = texts_load(path[0], &train) || texts_load(path[1], &check);
	struct coded_sent before;
	int err;

	if (tutti_allreduce(TUTTI_IN_PLACE, &bad, 1, TUTTI_INT32, TUTTI_MAX, l->world))
		bad = failed(l, "starting");
	err = bad;
	if (!err)
		err = l->allreduce ? hold_weights(l, ctx, &train) : serve_weights(l);
	before = coded_sum_sent(ctx);
	if (!err)
		err = learn(l, &train, &check);
	if (!err && l->rank == 0)
		coded_sum_tell(ctx, 0, before);
	if (err && !bad)
		tutti_comm_abort(l->world, 1); /* the others need not wait for this rank */
	if (l->ps && tutti_ps_close(l->ps) && !err)
		err = failed(l, "closing the parameter server");
	drop_weights(l);
	texts_free(&train);
	texts_free(&check);
	return err;
}

static int parse(struct learner *l, int argc, char **argv)
{
	static const struct option names[] = {{"allreduce", no_argument, NULL, 'a'},
					      {"codec", required_argument, NULL, 'c'},
					      {"no-feedback", no_argument, NULL, 'f'},
					      {"seed", required_argument, NULL, 's'},
					      {NULL, 0, NULL, 0}};
	int c, left;

	l->epochs = 6;
	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1)
		switch (c) {
		case 'a':
			l->allreduce = 1;
			break;
		case 'c':
			l->coding.codec = optarg;
			l->allreduce = 1;
			break;
		case 'f':
			l->coding.no_feedback = 1;
			break;
		case 's':
			if (parse_seed(optarg, &l->seed))
				return -1;
			break;
		default:
			return -1;
		}
	left = argc - optind;
	if (left == 3 && parse_integer(argv[optind + 2], 1, INT_MAX, &l->epochs))
		return -1;
	return left < 2 || left > 3;
}

int main(int argc, char **argv)
{
	static struct learner l;
	struct tutti_context *ctx;
	int err;

	if (parse(&l, argc, argv)) {
		fprintf(stderr, "usage: tutti_run -n RANKS logreg [--allreduce] [--codec NAME] "
				"[--no-feedback] [--seed N] TRAIN.arff TEST.arff [EPOCHS]\n");
		return 2;
	}
	err = tutti_init(NULL, &ctx);
	if (err)
		return failed(&l, "tutti_init"), 1;
	l.world = tutti_world(ctx);
	l.rank = tutti_comm_rank(l.world);
	l.nranks = tutti_comm_size(l.world);
	err = run(&l, ctx, argv + optind);
	return tutti_finalize(ctx) || err ? 1 : 0;
}
