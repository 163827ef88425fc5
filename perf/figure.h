/* SPDX-License-Identifier: BSD-3-Clause */
/* A table as a figure: its axes, panels, curves and their names. plot.c draws it. */
#ifndef PERF_FIGURE_H
#define PERF_FIGURE_H

#include <stdio.h>

#include "perf/perf.h"

#define PANELS 16
#define LABEL 192

struct axis {
	const char *end, *label;
	bool linear;
};

struct figure {
	const struct perf *perf;
	const struct perf_table *table;
	FILE *g;
	int x;	       /* column; -1: bars */
	size_t *first; /* of each row, the first row of its curve */
	int npanels;
	struct panel {
		const struct axis *axis;
		int column[16], ncolumns;
	} panel[PANELS];
};

/* Chooses the x axis and the panels; f->table and f->first, of nrows elements, are set before. */
void figure_choose(struct figure *f);

const struct perf_cell *figure_cell(const struct perf_table *t, size_t row, int column);
double figure_value(const struct perf_table *t, size_t row, int column); /* 0: absent */
/* A parameter that is not on the x axis; whether it has several values. */
bool figure_names(const struct figure *f, int column);
bool figure_varies(const struct perf_table *t, int column);

/* Labels have room for LABEL bytes. Those with a separator add to what is there. */
void label_add(char *label, const char *sep, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void label_size(int64_t bytes, char *label);
void label_cell(const struct figure *f, size_t row, int column, char *label);
void label_row(const struct figure *f, size_t row, char *label);
void label_column(const struct perf_column *c, char *label);

#endif
