/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses what a figure of any table shows. Columns with the same unit share a panel. Rows that
 * differ only in their size make a curve; parameters that vary among the rows name it. A table of
 * one size, or without sizes, becomes bars.
 */
#include "perf/figure.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#define CURVES 12 /* in a panel, if its columns can have panels of their own */

/* Units, by the ends of keys. */
static const struct axis axes[] = {
	{"_us", "time (us)", false},
	{"_gbs", "GB/s", false},
	{"_mib_s", "MiB/s", false},
	{"_mb_s", "MB/s", false},
	{"_mpps", "million messages/s", false},
	{"msg_rate", "messages/s", false},
	{"_per_ms", "calls/ms", false},
	{"_percent", "%", true},
	{"percent", "% of the copy", true},
	{"speedup", "speedup", true},
	{"ratio", "ratio of times", true},
	{"gain", "times as fast", true},
	{"fewer_bytes", "times fewer bytes", true},
	{"_bytes", "bytes", false},
	{"bits", "bits of an element", true},
	{"participants", "ranks that took part", true},
};

/* Numbers that tell rows apart; all texts do, too. */
static const char *const parameters[] = {"root",     "sources", "threads", "rows", "cols",
					 "products", "rank",	"pairs",   NULL};

const struct perf_cell *figure_cell(const struct perf_table *t, size_t row, int column)
{
	return &t->cells[row * (size_t)t->ncolumns + (size_t)column];
}

double figure_value(const struct perf_table *t, size_t row, int column)
{
	const struct perf_cell *c = figure_cell(t, row, column);

	if (c->absent)
		return 0;
	return t->columns[column].kind == PERF_INT ? (double)c->number : c->real;
}

static bool ends(const char *key, const char *end)
{
	size_t n = strlen(key), m = strlen(end);

	return n >= m && !strcmp(key + n - m, end);
}

static const struct axis *axis_of(const struct perf_column *c)
{
	size_t i;

	if (c->kind == PERF_TEXT || !strcmp(c->key, "t_stdev_us"))
		return NULL;
	for (i = 0; i < sizeof(axes) / sizeof(axes[0]); i++)
		if (ends(c->key, axes[i].end))
			return &axes[i];
	return NULL;
}

static bool same(const struct perf_table *t, int column, size_t a, size_t b)
{
	const struct perf_cell *x = figure_cell(t, a, column), *y = figure_cell(t, b, column);

	if (x->absent || y->absent)
		return x->absent == y->absent;
	if (t->columns[column].kind == PERF_TEXT)
		return !strcmp(x->text, y->text);
	return x->number == y->number;
}

bool figure_varies(const struct perf_table *t, int column)
{
	size_t row;

	for (row = 1; row < t->nrows; row++)
		if (!same(t, column, 0, row))
			return true;
	return false;
}

/* A parameter that is not on the x axis. */
bool figure_names(const struct figure *f, int column)
{
	const struct perf_column *c = &f->table->columns[column];

	return column != f->x && (c->kind == PERF_TEXT || perf_name_find(c->key, parameters) >= 0 ||
				  !strcmp(c->key, "size") || !strcmp(c->key, "bytes"));
}

static size_t find_first(const struct figure *f, size_t row)
{
	size_t other;
	int i;

	for (other = 0; other < row; other++) {
		for (i = 0; i < f->table->ncolumns; i++)
			if (figure_names(f, i) && !same(f->table, i, other, row))
				break;
		if (i == f->table->ncolumns)
			break;
	}
	return other;
}

void label_add(char *label, const char *sep, const char *fmt, ...)
{
	size_t n = strlen(label);
	va_list ap;

	n += (size_t)snprintf(label + n, LABEL - n, "%s", n ? sep : "");
	va_start(ap, fmt);
	if (n < LABEL)
		vsnprintf(label + n, LABEL - n, fmt, ap);
	va_end(ap);
}

/* "64 KiB" */
void label_size(int64_t bytes, char *label)
{
	static const char unit[] = "KMGT";
	int i = -1;

	for (; bytes && bytes % 1024 == 0 && i < 3; i++)
		bytes /= 1024;
	if (i < 0)
		label_add(label, ", ", "%" PRId64 " B", bytes);
	else
		label_add(label, ", ", "%" PRId64 " %ciB", bytes, unit[i]);
}

void label_cell(const struct figure *f, size_t row, int column, char *label)
{
	const struct perf_column *c = &f->table->columns[column];
	const struct perf_cell *v = figure_cell(f->table, row, column);

	if (v->absent)
		return;
	if (c->kind == PERF_TEXT)
		label_add(label, ", ", "%s", v->text);
	else if (perf_name_find(c->key, parameters) < 0)
		label_size(v->number, label);
	else
		label_add(label, ", ", "%s %" PRId64, c->key, v->number);
}

/* The values of the parameters that vary. */
void label_row(const struct figure *f, size_t row, char *label)
{
	int i;

	*label = 0;
	for (i = 0; i < f->table->ncolumns; i++)
		if (figure_names(f, i) && figure_varies(f->table, i))
			label_cell(f, row, i, label);
}

/* "oop_busbw_gbs": "busbw out of place" */
void label_column(const struct perf_column *c, char *label)
{
	const struct axis *axis = axis_of(c);
	const char *key = c->key, *place = "";
	size_t len, i;

	if (!strncmp(key, "oop_", 4))
		place = " out of place", key += 4;
	else if (!strncmp(key, "ip_", 3))
		place = " in place", key += 3;
	if (!strncmp(key, "t_", 2))
		key += 2;
	len = strlen(key);
	if (*axis->end == '_')
		len -= strlen(axis->end);
	snprintf(label, LABEL, "%.*s%s", (int)len, key, place);
	for (i = 0; i < len; i++)
		if (label[i] == '_')
			label[i] = ' ';
}

/* As algbw and busbw of two ranks. */
static bool repeats(const struct figure *f, int column)
{
	const struct axis *axis = axis_of(&f->table->columns[column]);
	size_t row;
	int i;

	for (i = 0; i < column; i++) {
		for (row = 0; row < f->table->nrows; row++)
			if (figure_value(f->table, row, i) < figure_value(f->table, row, column) ||
			    figure_value(f->table, row, i) > figure_value(f->table, row, column))
				break;
		if (row == f->table->nrows && axis_of(&f->table->columns[i]) == axis)
			return true;
	}
	return false;
}

static bool drawable(const struct figure *f, int column)
{
	size_t row;

	if (column == f->x || !axis_of(&f->table->columns[column]) || repeats(f, column))
		return false;
	for (row = 0; row < f->table->nrows; row++)
		if (figure_value(f->table, row, column) > 0)
			return true;
	return false;
}

static struct panel *panel_of(struct figure *f, const struct axis *axis, int room)
{
	struct panel *p;
	int i;

	for (i = 0; i < f->npanels; i++) {
		p = &f->panel[i];
		if (p->axis == axis && p->ncolumns < room)
			return p;
	}
	if (f->npanels == PANELS)
		return NULL;
	p = &f->panel[f->npanels++];
	*p = (struct panel){.axis = axis};
	return p;
}

void figure_choose(struct figure *f)
{
	const struct perf_table *t = f->table;
	int i, curves = 0, room;
	struct panel *p;
	size_t row;

	f->x = -1;
	for (i = t->ncolumns - 1; i >= 0; i--)
		if (t->columns[i].kind == PERF_INT && figure_varies(t, i) &&
		    (!strcmp(t->columns[i].key, "size") || !strcmp(t->columns[i].key, "bytes") ||
		     !strcmp(t->columns[i].key, "threads")))
			f->x = i;
	for (row = 0; row < t->nrows; row++) {
		f->first[row] = find_first(f, row);
		curves += f->first[row] == row;
	}
	room = f->x < 0 || curves <= 1 ? 16 : curves > CURVES ? 1 : (CURVES + curves - 1) / curves;
	for (i = 0; i < t->ncolumns; i++) {
		p = drawable(f, i) ? panel_of(f, axis_of(&t->columns[i]), room) : NULL;
		if (p && p->ncolumns < 16)
			p->column[p->ncolumns++] = i;
	}
}
