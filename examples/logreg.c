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
 */
#define _POSIX_C_SOURCE 200809L
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <tutti/tutti.h>

#define BATCH 16
#define WORDS 8192 /* most different words in a batch */

/* A text: the keys of its words, each once. */
struct text {
	uint64_t *key;
	int keys, label;
};

struct texts {
	struct text *text;
	int n;
};

struct learner {
	struct tutti_comm *world;
	struct tutti_ps *ps;
	struct tutti_ps_table *table;
	int rank, nranks;
	uint64_t key[WORDS]; /* of the batch, sorted */
	float weight[WORDS], gradient[WORDS];
	size_t keys;
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

/* ---- texts ---- */

static int by_key(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Sorted, each once; returns how many are left. */
static size_t unique(uint64_t *key, size_t n)
{
	size_t i, kept = 0;

	qsort(key, n, sizeof(*key), by_key);
	for (i = 0; i < n; i++)
		if (!i || key[i] != key[i - 1])
			key[kept++] = key[i];
	return kept;
}

/* FNV-1a: the same on all machines. The hash of the empty word stands for the bias. */
static uint64_t hash(const char *word, size_t len)
{
	uint64_t h = 14695981039346656037u;

	while (len--)
		h = (h ^ (unsigned char)tolower((unsigned char)*word++)) * 1099511628211u;
	return h;
}

/* A line of the data: 'text',label with \' and \n in the text. */
static int parse(const char *line, struct text *t)
{
	size_t len = strlen(line), words = 1, start;
	const char *end = strrchr(line, ','), *p = line;

	if (line[0] != '\'' || !end || end < line + 2 || (end[1] != '0' && end[1] != '1'))
		return -1;
	t->label = end[1] == '1';
	t->key = malloc((len / 2 + 2) * sizeof(*t->key));
	if (!t->key)
		return -1;
	t->key[0] = hash("", 0);
	while (p < end) {
		if (*p == '\\') /* including escapes */
			p += 2;
		for (start = 0; p + start < end && isalpha((unsigned char)p[start]); start++)
			;
		if (start > 1)
			t->key[words++] = hash(p, start);
		p += start ? start : p < end && *p != '\\';
	}
	t->keys = (int)unique(t->key, words);
	return 0;
}

static int load(const char *path, struct texts *texts)
{
	FILE *f = fopen(path, "r");
	char *line = NULL;
	size_t room = 0;
	int data = 0, err = 0;

	if (!f)
		return perror(path), -1;
	while (!err && getline(&line, &room, f) >= 0) {
		struct text *more;

		if (!data || line[0] != '\'') {
			data = data || !strncasecmp(line, "@data", 5);
			continue;
		}
		more = realloc(texts->text, (size_t)(texts->n + 1) * sizeof(*more));
		if (more)
			texts->text = more;
		err = !more || parse(line, &texts->text[texts->n]);
		texts->n += !err;
	}
	free(line);
	fclose(f);
	if (!err && texts->n)
		return 0;
	fprintf(stderr, "logreg: %s: text %d is not a quoted string and a 0 or 1\n", path,
		texts->n + 1);
	return -1;
}

static void forget(struct texts *texts)
{
	int i;

	for (i = 0; i < texts->n; i++)
		free(texts->text[i].key);
	free(texts->text);
}

/* ---- learning ---- */

static size_t place(const struct learner *l, uint64_t key)
{
	const uint64_t *p = bsearch(&key, l->key, l->keys, sizeof(key), by_key);

	return (size_t)(p - l->key);
}

/*
 * The weights of all words in these texts; returns how many of the texts there was room for, or
 * -1.
 */
static int pull(struct learner *l, const struct text *const *text, int n)
{
	int i;

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
	l->keys = unique(l->key, l->keys);
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

static int step(struct learner *l, const struct text *const *text, int n, struct totals *sum)
{
	int i, j;

	n = pull(l, text, n);
	if (n < 0)
		return -1;
	memset(l->gradient, 0, sizeof(l->gradient));
	for (i = 0; i < n; i++) {
		double p = predict(l, text[i]), g = (p - text[i]->label) / sqrt(text[i]->keys);

		count(text[i], p, sum);
		for (j = 0; j < text[i]->keys; j++)
			l->gradient[place(l, text[i]->key[j])] += (float)g;
	}
	if (tutti_ps_push_rows(l->table, l->key, l->keys, l->gradient, TUTTI_FLOAT32))
		return failed(l, "pushing gradients");
	return tutti_ps_clock(l->ps) ? failed(l, "telling the clock") : 0;
}

/* Texts rank, rank + nranks, ... are this rank's; all make as many steps. */
static int epoch(struct learner *l, const struct texts *texts, struct totals *sum)
{
	int steps = (texts->n + BATCH * l->nranks - 1) / (BATCH * l->nranks), s, i, n, at = l->rank;
	const struct text *batch[BATCH];

	for (s = 0; s < steps; s++) {
		for (n = i = 0; i < BATCH && at < texts->n; i++, at += l->nranks)
			batch[n++] = &texts->text[at];
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

static int learn(struct learner *l, const struct texts *train, const struct texts *check,
		 int epochs)
{
	struct totals sum;
	char what[32];
	int e;

	for (e = 1; e <= epochs; e++) {
		sum = (struct totals){0};
		snprintf(what, sizeof(what), "epoch %d", e);
		if (epoch(l, train, &sum) || tell(l, what, &sum))
			return -1;
	}
	/*
	 * A pull after this sees all pushes before it: every worker ends as many clocks as another
	 * may be behind.
	 */
	for (e = 0; e < 3; e++)
		if (tutti_ps_clock(l->ps))
			return failed(l, "telling the clock");
	sum = (struct totals){0};
	return test(l, check, &sum) || tell(l, "test", &sum);
}

static int run(struct learner *l, char **path, int epochs)
{
	struct tutti_ps_config config = {.size = sizeof(config), .staleness = 2};
	struct tutti_ps_options opt = {
		.size = sizeof(opt), .rule = TUTTI_PS_ADAGRAD, .rate = 0.5, .init = TUTTI_PS_ZERO};
	struct texts train = {0}, check = {0};
	int32_t bad = load(path[0], &train) || load(path[1], &check);
	int err;

	if (tutti_allreduce(TUTTI_IN_PLACE, &bad, 1, TUTTI_INT32, TUTTI_MAX, l->world))
		bad = failed(l, "starting");
	err = bad;
	if (!bad && (tutti_ps_open(l->world, &config, &l->ps) ||
		     tutti_ps_rows(l->ps, "weights", 1, 1 << 17, TUTTI_FLOAT32, &opt, &l->table)))
		err = failed(l, "making the table");
	if (!err)
		err = learn(l, &train, &check, epochs);
	if (err && !bad)
		tutti_comm_abort(l->world, 1); /* the others need not wait for this rank */
	if (l->ps && tutti_ps_close(l->ps) && !err)
		err = failed(l, "closing the parameter server");
	forget(&train);
	forget(&check);
	return err;
}

int main(int argc, char **argv)
{
	static struct learner l;
	struct tutti_context *ctx;
	int err, epochs = argc > 3 ? atoi(argv[3]) : 6;

	if (argc < 3 || argc > 4 || epochs < 1) {
		fprintf(stderr, "usage: tutti_run -n RANKS logreg TRAIN.arff TEST.arff [EPOCHS]\n");
		return 2;
	}
	err = tutti_init(NULL, &ctx);
	if (err)
		return failed(&l, "tutti_init"), 1;
	l.world = tutti_world(ctx);
	l.rank = tutti_comm_rank(l.world);
	l.nranks = tutti_comm_size(l.world);
	err = run(&l, argv + 1, epochs);
	return tutti_finalize(ctx) || err ? 1 : 0;
}
