/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs gnuplot; see plot.h. */
#include "tools/plot.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WIDTH 1000 /* pixels */
#define PANEL 400
#define INCH 100 /* pixels of a PDF's inch */

/* gnuplot's terminal for a file name; NULL: there is none. */
static const char *terminal(const char *path)
{
	const char *dot = strrchr(path, '.');

	if (dot && !strcmp(dot, ".png"))
		return "pngcairo";
	if (dot && !strcmp(dot, ".svg"))
		return "svg";
	return dot && !strcmp(dot, ".pdf") ? "pdfcairo" : NULL;
}

bool plot_can(const char *path)
{
	return terminal(path) != NULL;
}

bool plot_has_gnuplot(void)
{
	const char *path = getenv("PATH");
	char file[4096];
	size_t len;

	for (; path && *path; path += len + (path[len] == ':')) {
		len = strcspn(path, ":");
		if (len + sizeof("/gnuplot") > sizeof(file))
			continue;
		snprintf(file, sizeof(file), "%.*s/gnuplot", (int)len, path);
		if (!access(file, X_OK))
			return true;
	}
	return false;
}

void plot_quote(FILE *g, const char *text)
{
	fputc('\'', g);
	for (; *text; text++)
		fprintf(g, *text == '\'' ? "''" : "%c", *text);
	fputc('\'', g);
}

FILE *plot_begin(const char *path, int panels)
{
	const char *term = terminal(path);
	FILE *g;

	signal(SIGPIPE, SIG_IGN); /* gnuplot's status has the reason */
	g = popen("gnuplot", "we");
	if (!g)
		return NULL;
	if (strcmp(term, "pdfcairo"))
		fprintf(g, "set terminal %s size %d,%d font 'sans,11' background 'white'\n", term,
			WIDTH, PANEL * panels);
	else
		fprintf(g, "set terminal %s size %d,%d font 'sans,11'\n", term, WIDTH / INCH,
			PANEL / INCH * panels);
	fprintf(g, "set output ");
	plot_quote(g, path);
	/* the legend is beside the curves, never on them */
	fprintf(g, "\nset grid\nset key at graph 1.02,graph 0.5 left center Left reverse "
		   "noenhanced\n");
	fprintf(g, "set linetype 5 linecolor rgb '#b8860b'\n"); /* yellow is too faint */
	fprintf(g, "set lmargin at screen 0.09\nset rmargin at screen 0.70\n");
	fprintf(g, "set multiplot layout %d,1\n", panels);
	return g;
}

const char *plot_end(FILE *g)
{
	int status;

	fprintf(g, "unset multiplot\nset output\n");
	status = pclose(g);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127) /* the shell's */
		return "gnuplot is not installed (Debian package gnuplot-nox)";
	return status ? "gnuplot could not draw" : NULL;
}
