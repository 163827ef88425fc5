/* SPDX-License-Identifier: BSD-3-Clause */
/* Draws the results with gnuplot: one panel per question that they can answer. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "tools/sim/sim.h"
#include "tools/values.h"

struct panel {
	const char *title, *x_label, *y_label;
	bool by_ranks, bandwidth;
	int nranks;   /* of a panel by size */
	size_t bytes; /* of a panel by ranks */
};

/* gnuplot's terminal for a file name, without the height; NULL: there is none. */
static const char *terminal(const char *path)
{
	const char *dot = strrchr(path, '.');

	if (dot && !strcmp(dot, ".png"))
		return "pngcairo size 900,";
	if (dot && !strcmp(dot, ".svg"))
		return "svg size 900,";
	if (dot && !strcmp(dot, ".pdf"))
		return "pdfcairo size 9,";
	return NULL;
}

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
	fprintf(g, "set format x '%s'\n", panel->by_ranks ? "%.0f" : "%.0b%B");
	fprintf(g, "set logscale x 2\n%s logscale y\n", panel->bandwidth ? "unset" : "set");
	fprintf(g, "set yrange [%s:*]\nplot", panel->bandwidth ? "0" : "*");
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
		panels[n] = (struct panel){titles[n], "size (bytes)", "bus bandwidth (GB/s)",
					   false,     true,	      last->nranks,
					   0};
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
	const char *term = terminal(opt->plot), *c;
	struct panel panels[3];
	char titles[3][96];
	int i, n, status;
	FILE *g;

	if (!term)
		return cli_fail("--plot: the name ends in .png, .svg or .pdf, not '%s'", opt->plot);
	if (strchr(opt->plot, '\n'))
		return cli_fail("--plot: the file name must be one line");
	if (!points->n)
		return cli_fail("--plot: there is nothing to draw");
	n = choose_panels(opt, points, panels, titles);
	signal(SIGPIPE, SIG_IGN); /* its status has the reason */
	g = popen("gnuplot", "we");
	if (!g)
		return cli_fail("gnuplot cannot be started: %s", strerror(errno));
	fprintf(g, "set terminal %s%d\n", term, (strstr(term, "pdf") ? 6 : 550) * n);
	fprintf(g, "set output '");
	for (c = opt->plot; *c; c++)
		fprintf(g, *c == '\'' ? "''" : "%c", *c);
	fprintf(g, "'\nset grid\nset key top left noenhanced\n");
	fprintf(g, "set xtics rotate by -45\nset multiplot layout %d,1\n", n);
	for (i = 0; i < n; i++)
		draw(g, points, &panels[i]);
	fprintf(g, "unset multiplot\nset output\n");
	status = pclose(g);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127) /* the shell's */
		return cli_fail("--plot: gnuplot is not installed (Debian package "
				"gnuplot-nox)");
	return status ? cli_fail("--plot: gnuplot could not draw %s", opt->plot) : 0;
}
