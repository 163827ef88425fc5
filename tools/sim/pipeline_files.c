/* SPDX-License-Identifier: BSD-3-Clause */
/* The results of a pipeline as CSV, JSON and a figure. */
#include <errno.h>
#include <string.h>

#include "tools/plot.h"
#include "tools/sim/pipeline.h"
#include "tools/sim/sim.h"
#include "tools/values.h"

#define NAMES_MAX 400	 /* of steps in a figure */
#define PLOT_MAX 1000000 /* steps in a figure */

static const char *direction(const struct tutti_pipeline_step *s)
{
	return s->backward ? "backward" : "forward";
}

int pipe_write_csv(const struct pipe_options *opt, const struct pipe_table *t,
		   const struct pipe_result *r)
{
	FILE *f = sim_create(opt->csv);
	const struct tutti_pipeline_step *s = t->steps;
	int stage, i;

	if (!f)
		return -1;
	fprintf(f, "stage,direction,micro_batch,chunk,start_ms,end_ms\n");
	for (stage = 0; stage < t->stages; stage++)
		for (i = 0; i < t->n; i++, s++)
			fprintf(f, "%d,%s,%d,%d,%.9g,%.9g\n", stage, direction(s), s->micro,
				s->chunk, r->times[s - t->steps].start / 1e6,
				r->times[s - t->steps].end / 1e6);
	return sim_finish(f, opt->csv);
}

/* ---- JSON ---- */

static json_t *json_stage(const struct pipe_table *t, const struct pipe_result *r, int stage)
{
	const struct pipe_stage *c = &r->stages[stage];
	size_t i, first = (size_t)stage * (size_t)t->n;
	json_t *steps = json_array();

	for (i = first; i < first + (size_t)t->n; i++)
		json_array_append_new(
			steps, json_pack("{s:s,s:i,s:i,s:f,s:f}", "direction",
					 direction(&t->steps[i]), "micro_batch", t->steps[i].micro,
					 "chunk", t->steps[i].chunk, "start_ms",
					 r->times[i].start / 1e6, "end_ms", r->times[i].end / 1e6));
	return json_pack("{s:i,s:f,s:f,s:i,s:o*,s:I,s:o}", "stage", stage, "busy_ms", c->busy / 1e6,
			 "bubble", 1 - c->busy / r->last, "held", c->held, "held_formula",
			 c->formula < 0 ? NULL : json_integer(c->formula), "sends",
			 (json_int_t)c->sends, "steps", steps);
}

static json_t *json_all(const struct pipe_options *opt, const struct pipe_table *t,
			const struct pipe_result *r)
{
	json_t *stages = json_array();
	int stage;

	for (stage = 0; stage < t->stages; stage++)
		json_array_append_new(stages, json_stage(t, r, stage));
	return json_pack("{s:s,s:i,s:i,s:f,s:f,s:I,s:o*,s:f,s:f,s:o*,s:I,s:s*,s:o}", "schedule",
			 opt->read ? opt->read : pipe_schedule(opt), "micro_batches", t->micros,
			 "chunks", t->chunks, "forward_ms", opt->forward / 1e6, "backward_ms",
			 opt->backward / 1e6, "bytes", (json_int_t)opt->bytes, "model",
			 opt->sized ? sim_json_model(&opt->model) : NULL, "time_ms", r->last / 1e6,
			 "bubble", r->bubble, "bubble_formula",
			 r->formula < 0 ? NULL : json_real(r->formula), "messages",
			 (json_int_t)r->sends, "deadlock_if_not_eager", r->deadlock, "stages",
			 stages);
}

int pipe_write_json(const struct pipe_options *opt, const struct pipe_table *t,
		    const struct pipe_result *r)
{
	json_t *json = json_all(opt, t, r);

	if (!json && opt->read)
		return cli_fail("--json: cannot name %s: no memory, or not UTF-8", opt->read);
	return sim_write_json_to(opt->json, json);
}

/* ---- the figure ---- */

/* Boxes of forward or backward steps of a chunk: x and y of the middle, and the corners. */
static void plot_boxes(FILE *g, const struct pipe_table *t, const struct pipe_result *r, int chunk,
		       int backward)
{
	const struct tutti_pipeline_step *s = t->steps;
	const struct pipe_time *time = r->times;
	int stage, i;

	for (stage = 0; stage < t->stages; stage++)
		for (i = 0; i < t->n; i++, s++, time++)
			if (s->chunk == chunk && !s->backward == !backward)
				fprintf(g, "%.9g %d %.9g %.9g %.2f %.2f\n",
					(time->start + time->end) / 2e6, stage, time->start / 1e6,
					time->end / 1e6, stage - 0.4, stage + 0.4);
	fprintf(g, "e\n");
}

static void plot_names(FILE *g, const struct pipe_table *t, const struct pipe_result *r)
{
	const struct tutti_pipeline_step *s = t->steps;
	const struct pipe_time *time = r->times;
	int stage, i;

	for (stage = 0; stage < t->stages; stage++)
		for (i = 0; i < t->n; i++, s++, time++)
			fprintf(g, "%.9g %d %d\n", (time->start + time->end) / 2e6, stage,
				s->micro);
	fprintf(g, "e\n");
}

/* Chunks differ in brightness. */
static void plot_style(FILE *g, const struct pipe_table *t, int chunk, int backward)
{
	int pale = t->chunks > 1 ? 120 * chunk / (t->chunks - 1) : 0;

	fprintf(g, "'-' with boxxyerror fillstyle solid border rgb 'white' linecolor rgb ");
	if (backward)
		fprintf(g, "'#%02x%02x%02x'", 60 + pale, 150 + pale * 3 / 4, 80 + pale);
	else
		fprintf(g, "'#%02x%02x%02x'", 70 + pale, 120 + pale * 3 / 4, 200 + pale / 3);
	if (t->chunks > 1)
		fprintf(g, " title '%s, chunk %d'", backward ? "backward" : "forward", chunk);
	else
		fprintf(g, " title '%s'", backward ? "backward" : "forward");
}

static void plot_all(FILE *g, const struct pipe_options *opt, const struct pipe_table *t,
		     const struct pipe_result *r)
{
	bool names = (double)t->stages * t->n <= NAMES_MAX;
	char title[256];
	int k;

	snprintf(title, sizeof(title), "%.128s: %d stages, %d micro-batches, bubble %.2f %%",
		 opt->read ? opt->read : pipe_schedule(opt), t->stages, t->micros, 100 * r->bubble);
	fprintf(g, "set title ");
	plot_quote(g, title);
	fprintf(g,
		" noenhanced\nset xlabel 'time (ms)'\nset ylabel 'stage'\nset ytics %d\n"
		"set grid noytics\nset xrange [0:%.9g]\nset yrange [%d.5:-0.5]\nplot ",
		(t->stages + 31) / 32, r->last / 1e6, t->stages - 1);
	for (k = 0; k < 2 * t->chunks; k++) {
		fprintf(g, "%s", k ? ", " : "");
		plot_style(g, t, k / 2, k % 2);
	}
	fprintf(g, "%s\n", names ? ", '-' with labels font 'sans,8' notitle" : "");
	for (k = 0; k < 2 * t->chunks; k++)
		plot_boxes(g, t, r, k / 2, k % 2);
	if (names)
		plot_names(g, t, r);
}

int pipe_plot(const struct pipe_options *opt, const struct pipe_table *t,
	      const struct pipe_result *r)
{
	size_t steps = (size_t)t->stages * (size_t)t->n;
	const char *why;
	FILE *g;

	if (steps > PLOT_MAX)
		return cli_fail("--plot: %zu steps are too many to draw; at most %d are drawn, and "
				"--csv writes all",
				steps, PLOT_MAX);
	g = plot_begin(opt->plot, 1);
	if (!g)
		return cli_fail("gnuplot cannot be started: %s", strerror(errno));
	plot_all(g, opt, t, r);
	why = plot_end(g);
	return why ? cli_fail("--plot: %s %s", why, opt->plot) : 0;
}
