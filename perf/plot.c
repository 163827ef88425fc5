/* SPDX-License-Identifier: BSD-3-Clause */
/* --plot: draws the figure of a table by gnuplot. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "perf/figure.h"
#include "tools/graphs.h"
#include "tools/plot.h"

/* The parameters that all rows share. */
static void put_title(const struct figure *f)
{
	char title[LABEL], settings[LABEL];
	int i;

	snprintf(title, sizeof(title), "tutti_perf %s", f->perf->opt.cmd->name);
	if (f->perf->opt.cmd->uses & PERF_USE_GRAPH)
		label_add(title, ", ", "%s", cli_graph_names[f->perf->opt.graph]);
	if (f->perf->opt.cmd->uses & PERF_USE_ALPHA)
		label_add(title, ", ", "alpha %g", perf_elastic_alpha(f->perf));
	if (f->perf->opt.cmd->uses & PERF_USE_PARTIAL) {
		perf_partial_settings(f->perf, settings, sizeof(settings));
		label_add(title, ", ", "%s", settings);
	}
	label_add(title, ", ", "%d rank%s", f->perf->nranks, f->perf->nranks == 1 ? "" : "s");
	for (i = 0; i < f->table->ncolumns; i++)
		if (figure_names(f, i) && !figure_varies(f->table, i) &&
		    figure_value(f->table, 0, i) >= 0)
			label_cell(f, 0, i, title);
	fprintf(f->g, "set title ");
	plot_quote(f->g, title);
	fprintf(f->g, " noenhanced\n");
}

static void put_axes(const struct figure *f, const struct panel *p)
{
	const char *unit = strchr(p->axis->label, '(');
	char label[LABEL] = "";

	if (p->ncolumns == 1)
		label_column(&f->table->columns[p->column[0]], label);
	if (p->axis->end[0] != '_')
		*label = 0;
	if (*label && unit)
		label_add(label, " ", "%s%s", strncmp(label, "time", 4) ? "time " : "", unit);
	else if (*label)
		label_add(label, " ", "(%s)", p->axis->label);
	else
		snprintf(label, sizeof(label), "%s", p->axis->label);
	fprintf(f->g, "set ylabel ");
	plot_quote(f->g, label);
	fprintf(f->g, " noenhanced\nset format y '%%g'\n");
	fprintf(f->g, p->axis->linear ? "unset logscale\nset yrange [0:*]\n"
				      : "unset logscale\nset yrange [*:*]\nset logscale y\n");
}

/* ---- curves ---- */

static void curve_points(const struct figure *f, const struct panel *p, size_t first, int column)
{
	size_t row;
	double y;

	for (row = first; row < f->table->nrows; row++) {
		y = figure_value(f->table, row, column);
		if (f->first[row] == first && figure_value(f->table, row, f->x) > 0 &&
		    (y > 0 || p->axis->linear) && !figure_cell(f->table, row, column)->absent)
			fprintf(f->g, "%.9g %.9g\n", figure_value(f->table, row, f->x), y);
	}
	fprintf(f->g, "e\n");
}

static void curve_title(const struct figure *f, const struct panel *p, size_t first, int column)
{
	char label[LABEL], more[LABEL];

	label_row(f, first, label);
	label_column(&f->table->columns[column], more);
	if (p->ncolumns > 1 || !*label)
		label_add(label, ", ", "%s", more);
	plot_quote(f->g, label);
}

/* Sizes of at most 8 tics, powers of 2, as "64 KiB". */
static void put_size_tics(const struct figure *f)
{
	int64_t least = INT64_MAX, most = 1, v, tic;
	const char *sep = "set xtics (";
	char label[LABEL];
	int step = 1;
	size_t row;

	for (row = 0; row < f->table->nrows; row++) {
		v = figure_cell(f->table, row, f->x)->number;
		least = v > 0 && v < least ? v : least;
		most = v > most ? v : most;
	}
	for (tic = 1; tic < least; tic *= 2)
		;
	while (tic <= most >> (8 * step))
		step++;
	for (; tic > 0 && tic <= most; tic <<= step, sep = ", ") {
		*label = 0;
		label_size(tic, label);
		fprintf(f->g, "%s'%s' %" PRId64, sep, label, tic);
	}
	fputs(*sep == 's' ? "set xtics\n" : ")\n", f->g);
	fprintf(f->g, "set xrange [%g:%g]\n", (double)least * 0.9, (double)most * 1.1);
}

static void draw_curves(const struct figure *f, const struct panel *p)
{
	bool sizes = strcmp(f->table->columns[f->x].key, "threads");
	const char *sep = "plot";
	size_t row;
	int i;

	fprintf(f->g, "set logscale x 2\nset xlabel '%s'\n",
		sizes ? "size" : "threads of each rank");
	if (sizes)
		put_size_tics(f);
	for (row = 0; row < f->table->nrows; row++)
		for (i = 0; i < p->ncolumns && f->first[row] == row; i++, sep = ",") {
			fprintf(f->g, "%s '-' with linespoints linewidth 1.5 title ", sep);
			curve_title(f, p, row, p->column[i]);
		}
	fputc('\n', f->g);
	for (row = 0; row < f->table->nrows; row++)
		for (i = 0; i < p->ncolumns && f->first[row] == row; i++)
			curve_points(f, p, row, p->column[i]);
}

/* ---- bars ---- */

/* On a logarithmic axis bars stand on the power of ten below the least value. */
static double floor_of(const struct figure *f, const struct panel *p)
{
	double least = 0, base = 1, v;
	size_t row;
	int i;

	for (row = 0; row < f->table->nrows; row++)
		for (i = 0; i < p->ncolumns; i++) {
			v = figure_value(f->table, row, p->column[i]);
			if (v > 0 && (v < least || !least))
				least = v;
		}
	while (base * 10 < least)
		base *= 10;
	while (base >= least)
		base /= 10;
	return base;
}

/* Whether the names of the bars need more than a line. */
static bool long_labels(const struct figure *f)
{
	char label[LABEL];
	size_t row, most = 0;

	for (row = 0; row < f->table->nrows; row++) {
		label_row(f, row, label);
		most = strlen(label) > most ? strlen(label) : most;
	}
	return most * f->table->nrows > 60;
}

static void draw_bars(const struct figure *f, const struct panel *p)
{
	char label[LABEL];
	size_t row;
	int i;

	fprintf(f->g, "unset xlabel\nset style data histograms\nset style fill solid 0.8\n");
	fprintf(f->g, "set xtics noenhanced%s\n", long_labels(f) ? " rotate by -30" : "");
	if (!p->axis->linear)
		fprintf(f->g, "set yrange [%g:*]\n", floor_of(f, p));
	for (i = 0; i < p->ncolumns; i++) {
		label_column(&f->table->columns[p->column[i]], label);
		fprintf(f->g, "%s '-' using 2:xtic(1) title ", i ? "," : "plot");
		plot_quote(f->g, label);
	}
	fputc('\n', f->g);
	for (i = 0; i < p->ncolumns; i++) {
		for (row = 0; row < f->table->nrows; row++) {
			label_row(f, row, label);
			fprintf(f->g, "\"%s\" %.9g\n", *label ? label : f->perf->opt.cmd->name,
				figure_value(f->table, row, p->column[i]));
		}
		fprintf(f->g, "e\n");
	}
}

static int complain(const char *why, const char *path)
{
	fprintf(stderr, "tutti_perf: --plot: %s: %s\n", why, path);
	return -EIO;
}

/* NULL, or why not. */
static const char *draw(struct figure *f, const char *path)
{
	int i;

	f->g = plot_begin(path, f->npanels);
	if (!f->g)
		return "gnuplot cannot be started";
	put_title(f);
	for (i = 0; i < f->npanels; i++) {
		put_axes(f, &f->panel[i]);
		if (f->x < 0)
			draw_bars(f, &f->panel[i]);
		else
			draw_curves(f, &f->panel[i]);
		fprintf(f->g, "unset title\n");
	}
	return plot_end(f->g);
}

int perf_plot(const struct perf *perf)
{
	struct figure f = {.perf = perf, .table = &perf->table};
	const char *path = perf->opt.plot, *why;

	if (!path)
		return 0;
	f.first = calloc(f.table->nrows + 1, sizeof(*f.first));
	if (!f.first)
		return complain("out of memory", path);
	if (f.table->nrows)
		figure_choose(&f);
	why = f.npanels ? draw(&f, path) : "there is nothing to draw";
	free(f.first);
	return why ? complain(why, path) : 0;
}
