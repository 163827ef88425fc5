/* SPDX-License-Identifier: BSD-3-Clause */
/* The results as files: CSV with one heading line, JSON as one object with an array of rows. */
#include "perf/perf.h"
#include "tools/graphs.h"
#include "tools/plot.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static int cannot_write(const char *option, const char *path, int err)
{
	fprintf(stderr, "tutti_perf: %s: cannot write '%s': %s\n", option, path, strerror(err));
	return -err;
}

static int open_one(const char *option, const char *path, void **file)
{
	if (!path)
		return 0;
	*file = fopen(path, "we");
	return *file ? 0 : cannot_write(option, path, errno);
}

/* Before anything is measured for it. */
static int check_plot(const char *path)
{
	FILE *f;

	if (!path)
		return 0;
	if (!plot_has_gnuplot()) {
		fprintf(stderr, "tutti_perf: --plot: gnuplot is not installed (Debian package "
				"gnuplot-nox)\n");
		return -ENOENT;
	}
	f = fopen(path, "ae");
	return f ? fclose(f) : cannot_write("--plot", path, errno);
}

int perf_files_open(struct perf *perf)
{
	const struct perf_options *opt = &perf->opt;
	double failed = 0;
	int err;

	if (perf->rank == 0 && (check_plot(opt->plot) || open_one("--csv", opt->csv, &perf->csv) ||
				open_one("--json", opt->json, &perf->json)))
		failed = 1;
	err = perf_agree(perf, &failed, TUTTI_MAX);
	if (err)
		return err;
	return failed ? -EIO : 0;
}

static void csv_cell(FILE *f, const struct perf_column *column, const struct perf_cell *cell)
{
	if (cell->absent)
		return;
	if (column->kind == PERF_INT)
		fprintf(f, "%" PRId64, cell->number);
	else if (column->kind == PERF_TEXT)
		fputs(cell->text, f);
	else
		fprintf(f, "%.9g", cell->real);
}

static void write_csv(const struct perf_table *table, FILE *f)
{
	const struct perf_cell *cell = table->cells;
	size_t row;
	int i;

	for (i = 0; i < table->ncolumns; i++)
		fprintf(f, "%s%s", i ? "," : "", table->columns[i].key);
	fputc('\n', f);
	for (row = 0; row < table->nrows; row++) {
		for (i = 0; i < table->ncolumns; i++, cell++) {
			if (i)
				fputc(',', f);
			csv_cell(f, &table->columns[i], cell);
		}
		fputc('\n', f);
	}
}

static json_t *json_cell(const struct perf_column *column, const struct perf_cell *cell)
{
	if (cell->absent)
		return json_null();
	if (column->kind == PERF_INT)
		return json_integer(cell->number);
	if (column->kind == PERF_TEXT)
		return json_string(cell->text);
	return json_real(cell->real);
}

static json_t *json_rows(const struct perf_table *table)
{
	const struct perf_cell *cell = table->cells;
	json_t *rows = json_array(), *object;
	size_t row;
	int i;

	for (row = 0; row < table->nrows; row++) {
		object = json_object();
		for (i = 0; i < table->ncolumns; i++, cell++)
			json_object_set_new(object, table->columns[i].key,
					    json_cell(&table->columns[i], cell));
		json_array_append_new(rows, object);
	}
	return rows;
}

static void json_partial(const struct perf *perf, json_t *root)
{
	const struct perf_options *opt = &perf->opt;

	json_object_set_new(root, "quorum", json_integer(perf_partial_quorum(perf)));
	json_object_set_new(root, "cutoff_us",
			    opt->cutoff_us ? json_integer(opt->cutoff_us) : json_null());
	json_object_set_new(root, "late_rank",
			    opt->late_us ? json_integer(opt->late_rank) : json_null());
	json_object_set_new(root, "late_us", json_integer(opt->late_us));
	json_object_set_new(root, "late", json_string(opt->drop ? "drop" : "carry"));
}

static int write_json(const struct perf *perf, FILE *f)
{
	const struct perf_options *opt = &perf->opt;
	const struct perf_totals *totals = &perf->totals;
	json_t *root, *busbw;
	int err;

	busbw = totals->busbw_count ? json_real(totals->busbw_sum / (double)totals->busbw_count)
				    : json_null();
	/* clang-format off */
	root = json_pack("{s:s, s:s, s:i, s:s, s:i, s:i, s:i, s:b, s:s, s:o, s:I, s:I, s:o}",
			 "version", tutti_version(),
			 "command", opt->cmd->name,
			 "ranks", perf->nranks,
			 "transport", opt->transport ? opt->transport : "",
			 "iters", opt->iters,
			 "warmup_iters", opt->warmup,
			 "check", opt->check,
			 "per_iteration_times", opt->stat ? 1 : 0,
			 "buffers", opt->plain_buffers ? "malloc" : "tutti_alloc",
			 "results", json_rows(&perf->table),
			 "wrong", (json_int_t)totals->wrong,
			 "out_of_bounds", (json_int_t)totals->out_of_bounds,
			 "avg_busbw", busbw);
	/* clang-format on */
	if (!root)
		return -ENOMEM;
	if (opt->cmd->uses & PERF_USE_GRAPH)
		json_object_set_new(root, "graph", json_string(cli_graph_names[opt->graph]));
	if (opt->cmd->uses & PERF_USE_ALPHA)
		json_object_set_new(root, "alpha", json_real(perf_elastic_alpha(perf)));
	if (opt->cmd->uses & PERF_USE_PARTIAL)
		json_partial(perf, root);
	err = json_dumpf(root, f, JSON_INDENT(2)) ? -EIO : 0;
	fputc('\n', f);
	json_decref(root);
	return err;
}

static int close_one(const char *option, const char *path, void **file, int err)
{
	FILE *f = *file;

	*file = NULL;
	if (!f)
		return 0;
	if (ferror(f))
		err = -EIO;
	if (fclose(f))
		err = -errno;
	return err ? cannot_write(option, path, -err) : 0;
}

int perf_files_write(struct perf *perf)
{
	int err = 0, csv_err;

	if (perf->csv)
		write_csv(&perf->table, perf->csv);
	csv_err = close_one("--csv", perf->opt.csv, &perf->csv, 0);
	if (perf->json)
		err = write_json(perf, perf->json);
	err = close_one("--json", perf->opt.json, &perf->json, err);
	return csv_err ? csv_err : err;
}
