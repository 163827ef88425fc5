/* SPDX-License-Identifier: BSD-3-Clause */
/* A table of results, printed row by row as it grows. */
#include "perf/perf.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void perf_table_begin(struct perf_table *table, const struct perf_column *columns, int ncolumns)
{
	memset(table, 0, sizeof(*table));
	table->columns = columns;
	table->ncolumns = ncolumns;
}

void perf_table_heading(const struct perf_table *table)
{
	int i, line;

	for (line = 0; line < 2; line++) {
		printf("#");
		for (i = 0; i < table->ncolumns; i++)
			printf(" %*s", table->columns[i].width - (i == 0),
			       line ? table->columns[i].unit : table->columns[i].name);
		printf("\n");
	}
	fflush(stdout);
}

/* Microseconds with as many decimals as nccl-tests gives them. */
static int usec_decimals(double usec)
{
	return usec >= 10000 ? 0 : usec >= 100 ? 1 : 2;
}

static void print_cell(const struct perf_column *column, const struct perf_cell *cell)
{
	if (cell->absent)
		printf(" %*s", column->width, "N/A");
	else if (column->kind == PERF_INT)
		printf(" %*" PRId64, column->width, cell->number);
	else if (column->kind == PERF_TEXT)
		printf(" %*s", column->width, cell->text);
	else if (column->kind == PERF_USEC)
		printf(" %*.*f", column->width, usec_decimals(cell->real), cell->real);
	else
		printf(" %*.*f", column->width, column->precision, cell->real);
}

static int keep(struct perf_table *table, const struct perf_cell *cells)
{
	size_t room = table->room ? 2 * table->room : 32;
	struct perf_cell *bigger;

	if (table->nrows == table->room) {
		bigger = reallocarray(table->cells, room * (size_t)table->ncolumns, sizeof(*cells));
		if (!bigger)
			return -ENOMEM;
		table->cells = bigger;
		table->room = room;
	}
	memcpy(table->cells + table->nrows++ * (size_t)table->ncolumns, cells,
	       (size_t)table->ncolumns * sizeof(*cells));
	return 0;
}

int perf_table_row(struct perf_table *table, const struct perf_cell *cells)
{
	int i;

	perf_progress_clear();
	for (i = 0; i < table->ncolumns; i++)
		print_cell(&table->columns[i], &cells[i]);
	printf("\n");
	fflush(stdout);
	return keep(table, cells);
}

void perf_table_free(struct perf_table *table)
{
	free(table->cells);
	table->cells = NULL;
}
