/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prints the counts of a pipeline, and a drawing: a row for each stage, time from left to right, in
 * bands that fit a line.
 *
 *	stage 0 |F0-F1-F2-F3-..................B0====F4-
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/sim/pipeline.h"
#include "tools/values.h"

#define CELL_MAX 12   /* times the width of a name: the longer of F and B at most */
#define LINES_MAX 400 /* of a drawing */
#define MARK 8	      /* characters between two times above the rows, at least */
#define PREFIX 32     /* of a row: "stage 4095 |" */

/* ---- counts ---- */

static void print_bytes(const struct pipe_options *opt)
{
	const struct tt_hop *link = &opt->model.link[TT_LEVEL_LEAF];

	if (opt->sized)
		printf("messages of %zu bytes: alpha %g us, %g GB/s a port, overhead %g us\n",
		       opt->bytes, link->alpha / 1e3, 1 / link->beta, opt->model.overhead / 1e3);
	else
		printf("messages take no time\n");
}

static void print_head(const struct pipe_options *opt, const struct pipe_table *t,
		       const struct pipe_result *r)
{
	printf("# %s: %d stage%s, %d micro-batch%s, %d chunk%s; forward %g ms, backward %g ms; ",
	       opt->read ? opt->read : pipe_schedule(opt), t->stages, t->stages > 1 ? "s" : "",
	       t->micros, t->micros > 1 ? "es" : "", t->chunks, t->chunks > 1 ? "s" : "",
	       opt->forward / 1e6, opt->backward / 1e6);
	print_bytes(opt);
	printf("# time %.6g ms, bubble %.2f %%", r->last / 1e6, 100 * r->bubble);
	if (r->formula >= 0)
		printf(", by (p-1)/(%sm+p-1) %.2f %%", t->chunks > 1 ? "v*" : "", 100 * r->formula);
	printf("; %lld messages", r->sends);
	if (opt->sized)
		printf(", %.0f bytes", (double)r->sends * (double)opt->bytes);
	if (r->deadlock)
		printf("\n# deadlock if messages are longer than --eager: %s\n", r->deadlock);
	else
		printf("\n# no deadlock, also if every message waits for its receive\n");
}

static void print_stages(const struct pipe_table *t, const struct pipe_result *r)
{
	const struct pipe_stage *s;
	char formula[16];
	int i;

	printf("# %5s %12s %12s %11s %7s %11s %9s\n", "stage", "busy (ms)", "idle (ms)",
	       "bubble (%)", "held", "by formula", "sends");
	for (i = 0; i < t->stages; i++) {
		s = &r->stages[i];
		snprintf(formula, sizeof(formula), s->formula < 0 ? "-" : "%d", s->formula);
		printf("  %5d %12.6g %12.6g %11.2f %7d %11s %9lld\n", i, s->busy / 1e6,
		       (r->last - s->busy) / 1e6, 100 * (1 - s->busy / r->last), s->held, formula,
		       s->sends);
	}
}

/* ---- the drawing ---- */

struct canvas {
	double scale; /* characters per ns */
	int cell;     /* characters of the shortest step */
	size_t columns, band;
	char *cells; /* a row of columns for the times, then one for each stage */
};

static char *row_of(const struct canvas *c, int row)
{
	return c->cells + (size_t)row * c->columns;
}

static size_t column(const struct canvas *c, double ns)
{
	size_t at = (size_t)(ns * c->scale + 0.5);

	return at < c->columns ? at : c->columns;
}

static size_t next_band(const struct canvas *c, size_t at)
{
	return (at / c->band + 1) * c->band;
}

/* A text that the end of a band would cut moves to the next band; one that is too long is left out.
 */
static void put(const struct canvas *c, int row, size_t from, size_t to, const char *text)
{
	size_t len = strlen(text);

	if (from + len > next_band(c, from))
		from = next_band(c, from);
	if (from + len <= to)
		memcpy(row_of(c, row) + from, text, len);
}

static void choose_scale(const struct pipe_options *opt, const struct pipe_table *t,
			 struct canvas *c)
{
	const struct tutti_pipeline_step last = {.micro = t->micros - 1, .chunk = t->chunks - 1};
	double shorter = fmin(opt->forward, opt->backward) / t->chunks;
	double longer = fmax(opt->forward, opt->backward) / t->chunks;
	char name[PIPE_NAME];

	c->cell = pipe_name(t, &last, name) + 1;
	c->scale = fmin(c->cell / shorter, (double)CELL_MAX * c->cell / longer);
}

static void draw_stage(const struct pipe_table *t, const struct pipe_result *r, int stage,
		       struct canvas *c)
{
	size_t first = (size_t)stage * (size_t)t->n, i, from, to;
	char *row = row_of(c, stage + 1), name[PIPE_NAME];

	memset(row, '.', c->columns);
	for (i = first; i < first + (size_t)t->n; i++) {
		from = column(c, r->times[i].start);
		to = column(c, r->times[i].end);
		to += to == from && to < c->columns; /* a step is never without a trace */
		memset(row + from, t->steps[i].backward ? '=' : '-', to - from);
		pipe_name(t, &t->steps[i], name);
		put(c, stage + 1, from, to, name);
	}
}

/* Times above the rows, at round numbers of milliseconds. */
static void draw_times(struct canvas *c)
{
	double least = MARK / c->scale, tick = pow(10, floor(log10(least)));
	char text[32];
	size_t at, end;
	int i;

	tick *= tick * 2 >= least ? 2 : tick * 5 >= least ? 5 : 10;
	memset(row_of(c, 0), ' ', c->columns);
	for (i = 0; (at = column(c, tick * i)) < c->columns; i++) {
		snprintf(text, sizeof(text), "%g", tick * i / 1e6);
		end = next_band(c, at);
		put(c, 0, at, end < c->columns ? end : c->columns, text);
	}
}

/* One line of a band, without blanks at its end. */
static void print_row(const char *prefix, const char *row, size_t from, size_t n)
{
	while (n && row[from + n - 1] == ' ')
		n--;
	printf("%s%.*s\n", prefix, (int)n, row + from);
}

static void print_bands(const struct pipe_table *t, const struct canvas *c, int digits)
{
	char prefix[PREFIX];
	size_t from, n;
	int stage;

	for (from = 0; from < c->columns; from += c->band) {
		n = c->columns - from < c->band ? c->columns - from : c->band;
		snprintf(prefix, sizeof(prefix), "\n%5s %*s |", "ms", digits, "");
		print_row(prefix, row_of(c, 0), from, n);
		for (stage = 0; stage < t->stages; stage++) {
			snprintf(prefix, sizeof(prefix), "stage %*d |", digits, stage);
			print_row(prefix, row_of(c, stage + 1), from, n);
		}
	}
}

/* A drawing that would be too long becomes one band, in which names have no room. */
static size_t choose_columns(const struct pipe_table *t, double last, struct canvas *c)
{
	double band = (double)c->band, columns = ceil(last * c->scale);
	double lines = ceil(columns / band);

	if (lines > 1 && lines * (t->stages + 2) > LINES_MAX) {
		c->scale = band / last;
		columns = band;
		printf("# drawn short: a character is %.3g ms\n", 1e-6 / c->scale);
	}
	return columns < 1 ? 1 : (size_t)columns;
}

int pipe_draw(const struct pipe_options *opt, const struct pipe_table *t,
	      const struct pipe_result *r)
{
	int digits = snprintf(NULL, 0, "%d", t->stages - 1), stage;
	struct canvas c;

	print_head(opt, t, r);
	print_stages(t, r);
	if (!opt->width)
		return 0;
	choose_scale(opt, t, &c);
	c.band = (size_t)opt->width - 8 - (size_t)digits;
	c.band -= c.band > (size_t)c.cell ? c.band % (size_t)c.cell : 0; /* of whole short steps */
	c.columns = choose_columns(t, r->last, &c);
	c.cells = malloc(c.columns * (size_t)(t->stages + 1));
	if (!c.cells)
		return cli_fail("no memory for a drawing of %zu columns", c.columns);
	draw_times(&c);
	for (stage = 0; stage < t->stages; stage++)
		draw_stage(t, r, stage, &c);
	print_bands(t, &c, digits);
	free(c.cells);
	return 0;
}
