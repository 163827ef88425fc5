/* SPDX-License-Identifier: BSD-3-Clause */
/* Draws the results with gnuplot: one panel per question that they can answer. */
#include <errno.h>
#include <string.h>

#include "tools/plot.h"
#include "tools/sim/sim.h"
#include "tools/values.h"

struct panel {
	const char *title, *x_label, *y_label;
	bool by_ranks, bandwidth;
	int nranks;   /* of a panel by size */
	size_t bytes; /* of a panel by ranks */
};

static bool in_panel(const struct panel *panel, const struct point *p)
{
	return panel->by_ranks ? p->bytes == panel->bytes : p->nranks == panel->nranks;
}

/* The k-th different algorithm among the points; NULL: there are no more. */
static const char *algorithm(const struct points *points, int k)
{
	const struct point *p, *q;

	for (p = points->p; p < points->p + points->n; p++) {
		for (q = points->p; q < p && q->alg != p->alg; q++)
			;
		if (q == p && k-- == 0)
			return p->alg->name;
	}
	return NULL;
}

static void draw(FILE *g, const struct points *points, const struct panel *panel)
{
	const struct point *p;
	const char *name;
	int k;

	fprintf(g, "set title '%s' noenhanced\nset xlabel '%s'\nset ylabel '%s'\n", panel->title,
		panel->x_label, panel->y_label);
	fprintf(g, "set format x '%s'\n", panel->by_ranks ? "%.0f" : "%.0b %BB");
	fprintf(g, "set logscale x 2\nset logscale y\nset format y '%%g'\nplot");
	for (k = 0; (name = algorithm(points, k)); k++)
		fprintf(g, "%s '-' with linespoints title '%s'", k ? "," : "", name);
	fputc('\n', g);
	for (k = 0; (name = algorithm(points, k)); k++) {
		for (p = points->p; p < points->p + points->n; p++)
			if (!strcmp(p->alg->name, name) && in_panel(panel, p))
				fprintf(g, "%.9g %.9g\n",
					panel->by_ranks ? p->nranks : (double)p->bytes,
					panel->bandwidth ? p->busbw : p->result.last / 1e3);
		fprintf(g, "e\n");
	}
}

static int choose_panels(const struct options *opt, const struct points *points,
			 struct panel panels[3], char titles[3][96])
{
	const struct point *first = points->p, *last = points->p + points->n - 1;
	bool ranks = first->nranks != last->nranks, sizes = first->bytes != last->bytes;
	const char *coll = tt_coll_name(opt->coll);
	int n = 0;

	if (ranks || !sizes) {
		panels[n] = (struct panel){titles[n], "ranks", "time (us)", true,
					   false,     0,       first->bytes};
		snprintf(titles[n++], 96, "%s of %zu bytes", coll, first->bytes);
	}
	if (sizes) {
		panels[n] = (struct panel){
			titles[n], "size", "bus bandwidth (GB/s)", false, true, last->nranks, 0};
		snprintf(titles[n++], 96, "%s of %d ranks", coll, last->nranks);
	}
	if (ranks && sizes) {
		panels[n] = (struct panel){
			titles[n], "ranks", "bus bandwidth (GB/s)", true, true, 0, last->bytes};
		snprintf(titles[n++], 96, "%s of %zu bytes", coll, last->bytes);
	}
	return n;
}

int sim_plot(const struct options *opt, const struct points *points)
{
	struct panel panels[3];
	char titles[3][96];
	const char *why;
	int i, n;
	FILE *g;

	if (!points->n)
		return cli_fail("--plot: there is nothing to draw");
	n = choose_panels(opt, points, panels, titles);
	g = plot_begin(opt->plot, n);
	if (!g)
		return cli_fail("gnuplot cannot be started: %s", strerror(errno));
	for (i = 0; i < n; i++)
		draw(g, points, &panels[i]);
	why = plot_end(g);
	return why ? cli_fail("--plot: %s %s", why, opt->plot) : 0;
}
