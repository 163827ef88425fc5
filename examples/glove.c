/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GloVe word vectors (Pennington, Socher, Manning, 2014) on a parameter server.
 *
 *	tutti_run -n 6 glove --servers 2 bible.txt
 *
 * Every worker counts which words stand near each other in its part of the lines, and adds the
 * counts to rows at the servers, one for each word. Then it pulls the rows of its share of the
 * words, and for each pair in them, in random order, makes w_i . c_j + b_i + b_j approach log
 * x_ij, with weight (x/100)^0.75, at most 1. The servers apply Adagrad; workers are at most two
 * clocks apart.
 *
 *	tutti_run -n 4 glove --codec onebit bible.txt
 *
 * With --allreduce, which --codec includes, there are no servers: every rank holds all vectors, an
 * all-reduce sums the gradients of a batch, which may travel encoded, and every rank takes the same
 * step.
 */
#include <ctype.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/arguments.h"
#include "examples/coded_sum.h"
#include "examples/random.h"
#include <tutti/tutti.h>

#define DIM 32
#define ROW (DIM + 1) /* a vector and its bias */
#define WINDOW 8
#define BATCH                                                                                      \
	512 /* pairs, of all workers together: so what is learnt depends little on how many there  \
	       are */

#define RATE 0.1

struct word {
	char text[24];
	int count;
};

struct pair {
	int i, j;
	float x;
};

struct glove {
	const char *path, *out;
	int servers, vocabulary, epochs;
	struct tutti_comm *world, *workers;
	struct tutti_ps *ps;
	struct tutti_ps_table *counts, *words, *contexts;
	int rank, me, nworkers;
	struct word *word;
	int nwords, lines;
	int *token, tokens, *line; /* indices of words, -1: rare; where lines begin */
	struct pair *pair;
	int pairs;
	int *slot[2]; /* of a word in the batch, by side; -1: is not in it */
	uint64_t key[2][BATCH], seed, state;
	float *row[2], *gradient[2]; /* of the words in the batch; with all-reduces, of all */
	int keys[2];
	int allreduce;
	struct coding coding;
	/* with all-reduces */
	struct coded_sum sum; /* the gradients of both sides */
	float *squares;	      /* Adagrad's */
};

static int failed(struct glove *g, const char *what)
{
	struct tutti_error_info info = {.size = sizeof(info)};

	tutti_last_error(&info);
	fprintf(stderr, "glove: rank %d: %s: %s\n", g->rank, what, info.text);
	return -1;
}

/* ---- text ---- */

static int by_text(const void *a, const void *b)
{
	return strcmp(((const struct word *)a)->text, ((const struct word *)b)->text);
}

static int by_count(const void *a, const void *b)
{
	const struct word *x = a, *y = b;

	return x->count != y->count ? y->count - x->count : by_text(a, b);
}

/*
 * The next word of *p, in lower case; skips words that do not start with a letter, such as verse
 * numbers.
 */
static int next_word(const char **p, char *word)
{
	int n = 0;

	while (**p && **p != '\n' && !isalpha((unsigned char)**p))
		++*p;
	while (isalpha((unsigned char)**p)) {
		if (n < 23)
			word[n++] = (char)tolower((unsigned char)**p);
		++*p;
	}
	word[n] = 0;
	return n;
}

static char *read_all(const char *path)
{
	FILE *f = fopen(path, "r");
	char *text = NULL;
	long size;

	if (f && !fseek(f, 0, SEEK_END) && (size = ftell(f)) > 0 && !fseek(f, 0, SEEK_SET)) {
		text = malloc((size_t)size + 1);
		if (text && fread(text, 1, (size_t)size, f) == (size_t)size) {
			text[size] = 0;
		} else {
			free(text);
			text = NULL;
		}
	}
	if (!text)
		perror(path);
	if (f)
		fclose(f);
	return text;
}

/* The most frequent words, in the same order on all ranks. */
static int find_words(struct glove *g, const char *text)
{
	struct word *all = malloc((strlen(text) / 2 + 1) * sizeof(*all));
	size_t n = 0, i, kept = 0;
	const char *p = text;

	if (!all)
		return -1;
	while (*p) {
		if (next_word(&p, all[n].text))
			all[n++].count = 1;
		else if (*p)
			p++;
	}
	qsort(all, n, sizeof(*all), by_text);
	for (i = 0; i < n; i++)
		if (kept && !by_text(&all[kept - 1], &all[i]))
			all[kept - 1].count++;
		else
			all[kept++] = all[i];
	qsort(all, kept, sizeof(*all), by_count);
	g->nwords = (int)kept < g->vocabulary ? (int)kept : g->vocabulary;
	qsort(all, (size_t)g->nwords, sizeof(*all), by_text);
	g->word = all;
	return g->nwords ? 0 : -1;
}

static int tokenize(struct glove *g, const char *text)
{
	size_t n = strlen(text) / 2 + 2;
	const char *p = text;
	struct word w, *found;

	g->token = malloc(n * sizeof(int));
	g->line = malloc(n * sizeof(int));
	if (!g->token || !g->line)
		return -1;
	g->line[0] = 0;
	while (*p) {
		if (next_word(&p, w.text)) {
			found = bsearch(&w, g->word, (size_t)g->nwords, sizeof(w), by_text);
			g->token[g->tokens++] = found ? (int)(found - g->word) : -1;
		} else if (*p++ == '\n') {
			g->line[++g->lines] = g->tokens;
		}
	}
	g->line[++g->lines] = g->tokens;
	return 0;
}

/* ---- counting ---- */

static void count_line(const struct glove *g, float *x, int line)
{
	int a, b;

	for (a = g->line[line]; a < g->line[line + 1]; a++)
		for (b = a + 1; b < g->line[line + 1] && b <= a + WINDOW; b++) {
			int i = g->token[a], j = g->token[b];

			if (i < 0 || j < 0)
				continue;
			x[(size_t)i * (size_t)g->nwords + (size_t)j] += 1.0f / (float)(b - a);
			x[(size_t)j * (size_t)g->nwords + (size_t)i] += 1.0f / (float)(b - a);
		}
}

/* The pulls of all workers after this see the pushes of all workers before it. */
static int meet(struct glove *g)
{
	int i;

	for (i = 0; i < 3; i++)
		if (tutti_ps_clock(g->ps))
			return failed(g, "telling the clock");
	return 0;
}

/* The pairs of this worker's words. */
static int take_pairs(struct glove *g, float *x)
{
	size_t v = (size_t)g->nwords, mine = 0, i, j, n = 0;
	uint64_t *key = malloc(v * sizeof(*key));

	if (!key)
		return -1;
	for (i = (size_t)g->me; i < v; i += (size_t)g->nworkers, mine++) {
		key[mine] = i;
		if (g->allreduce)
			memmove(x + mine * v, x + i * v, v * sizeof(*x));
	}
	if (!g->allreduce && tutti_ps_pull_rows(g->counts, key, mine, x, TUTTI_FLOAT32)) {
		free(key);
		return failed(g, "pulling counts");
	}
	for (i = 0; i < mine * v; i++)
		n += x[i] > 0;
	g->pair = malloc((n + 1) * sizeof(*g->pair));
	for (i = 0; g->pair && i < mine; i++)
		for (j = 0; j < v; j++)
			if (x[i * v + j] > 0)
				g->pair[g->pairs++] =
					(struct pair){(int)key[i], (int)j, x[i * v + j]};
	free(key);
	return g->pair ? 0 : -1;
}

/* The counts of all workers. */
static int sum_counts(struct glove *g, float *x)
{
	size_t v = (size_t)g->nwords, i;
	uint64_t *key;
	int err;

	if (g->allreduce)
		return tutti_allreduce(TUTTI_IN_PLACE, x, v * v, TUTTI_FLOAT32, TUTTI_SUM,
				       g->workers)
			       ? failed(g, "summing counts")
			       : 0;
	key = malloc(v * sizeof(*key));
	if (!key)
		return fprintf(stderr, "glove: no memory\n"), -1;
	for (i = 0; i < v; i++)
		key[i] = i;
	err = tutti_ps_push_rows(g->counts, key, v, x, TUTTI_FLOAT32);
	free(key);
	return err ? failed(g, "pushing counts") : meet(g);
}

static int count_pairs(struct glove *g)
{
	size_t v = (size_t)g->nwords;
	float *x = calloc(v * v, sizeof(*x));
	int line, err;

	if (!x)
		return fprintf(stderr, "glove: no memory\n"), -1;
	for (line = g->me; line < g->lines; line += g->nworkers)
		count_line(g, x, line);
	err = sum_counts(g, x) || take_pairs(g, x) ? -1 : 0;
	free(x);
	return err;
}

/* ---- training ---- */

static int slot_of(struct glove *g, int side, int word)
{
	if (g->slot[side][word] < 0) {
		g->slot[side][word] = g->keys[side];
		g->key[side][g->keys[side]++] = (uint64_t)word;
	}
	return g->slot[side][word];
}

/* Loss of a pair; its gradients are added to those of its rows. */
static double learn_pair(struct glove *g, const struct pair *p)
{
	float *w = g->row[0] + g->slot[0][p->i] * ROW, *c = g->row[1] + g->slot[1][p->j] * ROW;
	float *gw = g->gradient[0] + g->slot[0][p->i] * ROW,
	      *gc = g->gradient[1] + g->slot[1][p->j] * ROW;
	float diff = w[DIM] + c[DIM] - logf(p->x),
	      weight = p->x < 100 ? powf(p->x / 100, 0.75f) : 1, f;
	int d;

	for (d = 0; d < DIM; d++)
		diff += w[d] * c[d];
	f = weight * diff;
	for (d = 0; d < DIM; d++) {
		gw[d] += f * c[d];
		gc[d] += f * w[d];
	}
	gw[DIM] += f;
	gc[DIM] += f;
	return (double)(f * diff);
}

static int push_or_pull(struct glove *g, int push)
{
	struct tutti_ps_table *table[2] = {g->words, g->contexts};
	int side, err = 0;

	for (side = 0; side < 2 && !err; side++)
		err = push ? tutti_ps_push_rows(table[side], g->key[side], (size_t)g->keys[side],
						g->gradient[side], TUTTI_FLOAT32)
			   : tutti_ps_pull_rows(table[side], g->key[side], (size_t)g->keys[side],
						g->row[side], TUTTI_FLOAT32);
	return err ? failed(g, push ? "pushing gradients" : "pulling vectors") : 0;
}

/* learns: whether anything is pushed. */
static int batch_served(struct glove *g, const struct pair *p, int n, int learns, double *loss)
{
	int side, i;

	g->keys[0] = g->keys[1] = 0;
	for (i = 0; i < n; i++) {
		slot_of(g, 0, p[i].i);
		slot_of(g, 1, p[i].j);
	}
	if (n && push_or_pull(g, 0))
		return -1;
	for (side = 0; side < 2; side++)
		memset(g->gradient[side], 0, (size_t)g->keys[side] * ROW * sizeof(float));
	for (i = 0; i < n; i++)
		*loss += learn_pair(g, &p[i]);
	for (side = 0; side < 2; side++)
		for (i = 0; i < g->keys[side]; i++)
			g->slot[side][g->key[side][i]] = -1;
	if (!learns)
		return 0;
	if (n && push_or_pull(g, 1))
		return -1;
	return tutti_ps_clock(g->ps) ? failed(g, "telling the clock") : 0;
}

/* The step that the servers would take. */
static int batch_reduced(struct glove *g, const struct pair *p, int n, int learns, double *loss)
{
	float *v = g->sum.data;
	size_t i;

	memset(v, 0, g->sum.count * sizeof(*v));
	while (n--)
		*loss += learn_pair(g, p++);
	if (!learns)
		return 0;
	if (coded_sum_start(&g->sum, NULL))
		return failed(g, "summing gradients");
	for (i = 0; i < g->sum.count; i++) {
		g->squares[i] += v[i] * v[i];
		g->row[0][i] -= (float)RATE * v[i] / (sqrtf(g->squares[i]) + 1e-10f);
	}
	return 0;
}

/*
 * All workers end the same number of clocks, whatever their share of the pairs, so no worker waits
 * for one that is done.
 */
static int all_pairs(struct glove *g, int learns, double *loss)
{
	int most = BATCH / g->nworkers > 0 ? BATCH / g->nworkers : 1, at = 0, n;
	int32_t steps = (g->pairs + most - 1) / most, step;

	*loss = 0;
	if (tutti_allreduce(TUTTI_IN_PLACE, &steps, 1, TUTTI_INT32, TUTTI_MAX, g->workers))
		return failed(g, "counting steps");
	for (step = 0; step < steps; step++, at += n) {
		n = g->pairs - at < most ? g->pairs - at : most;
		if ((g->allreduce ? batch_reduced : batch_served)(g, g->pair + at, n, learns, loss))
			return -1;
	}
	return 0;
}

/* The mean over all pairs of all workers. */
static int tell(struct glove *g, const char *what, double loss)
{
	double sum[2] = {loss, g->pairs};

	if (tutti_allreduce(TUTTI_IN_PLACE, sum, 2, TUTTI_FLOAT64, TUTTI_SUM, g->workers))
		return failed(g, "adding up");
	if (!g->me) {
		printf("%s: loss %.5f of %.0f pairs\n", what, sum[0] / sum[1], sum[1]);
		fflush(stdout);
	}
	return 0;
}

static int train(struct glove *g, struct tutti_context *ctx)
{
	struct coded_sent before = coded_sum_sent(ctx);
	char what[32];
	double loss;
	int e, i, j;

	for (e = 1; e <= g->epochs; e++) {
		for (i = g->pairs - 1; i > 0; i--) {
			struct pair p = g->pair[i];

			j = (int)(random_next(&g->state) % (uint64_t)(i + 1));
			g->pair[i] = g->pair[j];
			g->pair[j] = p;
		}
		snprintf(what, sizeof(what), "epoch %d", e);
		if (all_pairs(g, 1, &loss) || tell(g, what, loss))
			return -1;
	}
	if (g->me == 0)
		coded_sum_tell(ctx, g->rank, before);
	if (!g->allreduce && meet(g))
		return -1;
	return all_pairs(g, 0, &loss) || tell(g, "at the end", loss);
}

/* ---- results ---- */

static double dot(const float *a, const float *b)
{
	double sum = 0;
	int d;

	for (d = 0; d < DIM; d++)
		sum += a[d] * b[d];
	return sum;
}

static void neighbours(const struct glove *g, const float *vector, const char *text)
{
	const struct word *found, key = {0};
	struct word w = key;
	int taken[4] = {-1, -1, -1, -1}, k, i, j, me;

	snprintf(w.text, sizeof(w.text), "%s", text);
	found = bsearch(&w, g->word, (size_t)g->nwords, sizeof(w), by_text);
	if (!found)
		return;
	me = (int)(found - g->word);
	printf("%s:", text);
	for (k = 0; k < 4; k++) {
		double best = -2, cosine;

		for (i = 0; i < g->nwords; i++) {
			for (j = 0; j < k && taken[j] != i; j++)
				;
			cosine = dot(vector + me * ROW, vector + i * ROW) /
				 sqrt(dot(vector + i * ROW, vector + i * ROW) + 1e-12);
			if (i != me && j == k && cosine > best) {
				best = cosine;
				taken[k] = i;
			}
		}
		if (taken[k] >= 0)
			printf(" %s", g->word[taken[k]].text);
	}
	printf("\n");
}

/* A word and its numbers on each line: the sum of its two vectors. */
static int save(const struct glove *g, const float *vector)
{
	FILE *f = fopen(g->out, "w");
	int i, d;

	if (!f)
		return perror(g->out), -1;
	for (i = 0; i < g->nwords; i++) {
		fputs(g->word[i].text, f);
		for (d = 0; d < DIM; d++)
			fprintf(f, " %.6f", (double)vector[i * ROW + d]);
		fputc('\n', f);
	}
	if (ferror(f) | fclose(f))
		return perror(g->out), -1;
	return 0;
}

static int finish(struct glove *g)
{
	static const char *const show[] = {"king", "son",  "water", "heaven",
					   "two",  "gold", "david", "wife"};
	size_t v = (size_t)g->nwords, i;
	float *w = malloc(2 * v * ROW * sizeof(*w)), *c = w + v * ROW;
	uint64_t *key = malloc(v * sizeof(*key));
	int err = -1;

	for (i = 0; key && i < v; i++)
		key[i] = i;
	if (!w || !key)
		fprintf(stderr, "glove: no memory\n");
	else if (g->allreduce)
		memcpy(w, g->row[0], 2 * v * ROW * sizeof(*w)), err = 0;
	else if (tutti_ps_pull_rows(g->words, key, v, w, TUTTI_FLOAT32) ||
		 tutti_ps_pull_rows(g->contexts, key, v, c, TUTTI_FLOAT32))
		failed(g, "pulling vectors");
	else
		err = 0;
	for (i = 0; !err && i < v * ROW; i++)
		w[i] += c[i];
	for (i = 0; !err && i < sizeof(show) / sizeof(show[0]); i++)
		neighbours(g, w, show[i]);
	if (!err && g->out)
		err = save(g, w);
	free(w);
	free(key);
	return err;
}

static int make_tables(struct glove *g)
{
	int both = tutti_comm_size(g->world) == 1;
	struct tutti_ps_config config = {.size = sizeof(config),
					 .staleness = 2,
					 .role = both	     ? TUTTI_PS_BOTH
						 : g->me < 0 ? TUTTI_PS_SERVER
							     : TUTTI_PS_WORKER};
	struct tutti_ps_options zero = {.size = sizeof(zero), .init = TUTTI_PS_ZERO};
	struct tutti_ps_options learn = {.size = sizeof(learn),
					 .rule = TUTTI_PS_ADAGRAD,
					 .rate = RATE,
					 .init = TUTTI_PS_UNIFORM,
					 .init_a = -0.5 / DIM,
					 .init_b = 0.5 / DIM,
					 .seed = 2 * g->seed + 1};
	uint64_t v = (uint64_t)g->nwords;

	if (tutti_ps_open(g->world, &config, &g->ps) ||
	    tutti_ps_rows(g->ps, "counts", v, v, TUTTI_FLOAT32, &zero, &g->counts) ||
	    tutti_ps_rows(g->ps, "words", ROW, v, TUTTI_FLOAT32, &learn, &g->words))
		return failed(g, "making tables");
	learn.seed = 2 * g->seed + 2;
	return tutti_ps_rows(g->ps, "contexts", ROW, v, TUTTI_FLOAT32, &learn, &g->contexts)
		       ? failed(g, "making tables")
		       : 0;
}

/* Vectors of all words on this rank; those of contexts follow those of words. */
static int hold_vectors(struct glove *g, struct tutti_context *ctx)
{
	size_t half = (size_t)g->nwords * ROW, i;
	uint64_t state = g->seed;

	g->row[0] = malloc(2 * half * sizeof(float));
	g->squares = calloc(2 * half, sizeof(float));
	if (!g->row[0] || !g->squares)
		return fprintf(stderr, "glove: no memory\n"), -1;
	if (coded_sum_open(&g->sum, ctx, g->workers, &g->coding, 2 * half))
		return failed(g, "making room for the gradients");
	for (i = 0; i < 2 * half; i++)
		g->row[0][i] = (float)((random_uniform(&state) - 0.5) / DIM);
	g->row[1] = g->row[0] + half;
	g->gradient[0] = g->sum.data;
	g->gradient[1] = g->sum.data + half;
	return 0;
}

/* Of the words of a batch. */
static int make_rows(struct glove *g)
{
	g->row[0] = malloc(4 * BATCH * ROW * sizeof(float));
	if (!g->row[0])
		return fprintf(stderr, "glove: no memory\n"), -1;
	g->row[1] = g->row[0] + BATCH * ROW;
	g->gradient[0] = g->row[1] + BATCH * ROW;
	g->gradient[1] = g->gradient[0] + BATCH * ROW;
	return 0;
}

static void drop_vectors(struct glove *g)
{
	coded_sum_close(&g->sum);
	free(g->squares);
	free(g->row[0]);
}

static int work(struct glove *g, struct tutti_context *ctx, const char *text)
{
	int i;

	g->slot[0] = malloc(2 * (size_t)g->nwords * sizeof(int));
	if (!g->slot[0] || tokenize(g, text))
		return fprintf(stderr, "glove: no memory\n"), -1;
	g->slot[1] = g->slot[0] + g->nwords;
	for (i = 0; i < 2 * g->nwords; i++)
		g->slot[0][i] = g->allreduce ? i % g->nwords : -1;
	g->state = (uint64_t)g->me + 1000 * g->seed;
	if ((g->allreduce ? hold_vectors(g, ctx) : make_rows(g)) || count_pairs(g) || train(g, ctx))
		return -1;
	return g->me == 0 ? finish(g) : 0;
}

static int run(struct glove *g, struct tutti_context *ctx)
{
	char *text = read_all(g->path);
	int32_t bad = !text || find_words(g, text);
	int err, n = tutti_comm_size(g->world);

	if (n == 1 || g->allreduce)
		g->servers = 0;
	g->me = g->rank < g->servers ? -1 : g->rank - g->servers;
	g->nworkers = n - g->servers;
	if (tutti_allreduce(TUTTI_IN_PLACE, &bad, 1, TUTTI_INT32, TUTTI_MAX, g->world))
		bad = failed(g, "starting");
	err = bad;
	if (!bad &&
	    tutti_comm_split(g->world, g->me < 0 ? TUTTI_UNDEFINED : 0, g->rank, &g->workers))
		err = failed(g, "splitting off the workers");
	if (!err && !g->allreduce)
		err = make_tables(g);
	if (!err && g->me >= 0)
		err = work(g, ctx, text);
	if (g->ps && tutti_ps_close(g->ps) && !err)
		err = failed(g, "closing the parameter server");
	drop_vectors(g);
	if (g->workers)
		tutti_comm_free(g->workers);
	free(text);
	free(g->word);
	free(g->token);
	free(g->line);
	free(g->pair);
	free(g->slot[0]);
	return err;
}

static int parse(struct glove *g, int argc, char **argv)
{
	static const struct option names[] = {{"servers", required_argument, NULL, 's'},
					      {"words", required_argument, NULL, 'w'},
					      {"epochs", required_argument, NULL, 'e'},
					      {"vectors", required_argument, NULL, 'o'},
					      {"allreduce", no_argument, NULL, 'a'},
					      {"codec", required_argument, NULL, 'c'},
					      {"no-feedback", no_argument, NULL, 'f'},
					      {"seed", required_argument, NULL, 'S'},
					      {NULL, 0, NULL, 0}};
	int c, wrong = 0;

	g->servers = 1;
	g->vocabulary = 2000;
	g->epochs = 10;
	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1)
		switch (c) {
		case 's':
			wrong |= parse_integer(optarg, 1, INT_MAX, &g->servers);
			break;
		case 'w':
			wrong |= parse_integer(optarg, 2, 60000, &g->vocabulary);
			break;
		case 'e':
			wrong |= parse_integer(optarg, 1, INT_MAX, &g->epochs);
			break;
		case 'o':
			g->out = optarg;
			break;
		case 'a':
			g->allreduce = 1;
			break;
		case 'c':
			g->coding.codec = optarg;
			g->allreduce = 1;
			break;
		case 'f':
			g->coding.no_feedback = 1;
			break;
		case 'S':
			wrong |= parse_seed(optarg, &g->seed);
			break;
		default:
			return -1;
		}
	g->path = optind == argc - 1 ? argv[optind] : NULL;
	return wrong || !g->path;
}

int main(int argc, char **argv)
{
	static struct glove g;
	struct tutti_context *ctx;
	int err;

	if (parse(&g, argc, argv)) {
		fprintf(stderr, "usage: tutti_run -n RANKS glove [--servers N] [--words N] "
				"[--epochs N] [--vectors FILE] [--allreduce] [--codec NAME] "
				"[--no-feedback] [--seed N] TEXT\n");
		return 2;
	}
	if (tutti_init(NULL, &ctx))
		return failed(&g, "tutti_init"), 1;
	g.world = tutti_world(ctx);
	g.rank = tutti_comm_rank(g.world);
	if (tutti_comm_size(g.world) > 1 && !g.allreduce && g.servers >= tutti_comm_size(g.world)) {
		fprintf(stderr, "glove: %d ranks are too few for %d servers and a worker\n",
			tutti_comm_size(g.world), g.servers);
		return tutti_finalize(ctx), 2;
	}
	err = run(&g, ctx);
	return tutti_finalize(ctx) || err ? 1 : 0;
}
