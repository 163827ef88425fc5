/* SPDX-License-Identifier: BSD-3-Clause */
/* Values, times, sizes and types of gossip, pair, partial and elastic. */
#include "perf/averages.h"

#include <errno.h>
#include <stdlib.h>

#include "tools/graphs.h"

#define VALUES 1024

double averages_given(int rank, size_t i)
{
	return (double)((i % AVERAGES_PERIOD * 37 + (size_t)rank * 101) % VALUES);
}

double averages_load(const void *x, size_t i, int datatype)
{
	switch (datatype) {
	case TUTTI_INT32:
		return ((const int32_t *)x)[i];
	case TUTTI_INT64:
		return (double)((const int64_t *)x)[i];
	case TUTTI_FLOAT32:
		return ((const float *)x)[i];
	default:
		return ((const double *)x)[i];
	}
}

static void store(void *x, size_t i, int datatype, double value)
{
	switch (datatype) {
	case TUTTI_INT32:
		((int32_t *)x)[i] = (int32_t)value;
		break;
	case TUTTI_INT64:
		((int64_t *)x)[i] = (int64_t)value;
		break;
	case TUTTI_FLOAT32:
		((float *)x)[i] = (float)value;
		break;
	default:
		((double *)x)[i] = value;
	}
}

void averages_fill(const struct averages *r, void *x, int rank)
{
	size_t i;

	for (i = 0; i < r->count; i++)
		store(x, i, r->datatype, averages_given(rank, i));
}

size_t averages_bytes(const struct averages *r)
{
	return r->count * tutti_datatype_size((enum tutti_datatype)r->datatype);
}

bool averages_integers(int datatype)
{
	return datatype == TUTTI_INT32 || datatype == TUTTI_INT64;
}

/* How much a value may be off: of values up to VALUES times terms. */
double averages_room(const struct averages *r, int terms)
{
	double each = r->datatype == TUTTI_FLOAT64 ? 0x1p-50 : 0x1p-21;

	return averages_integers(r->datatype) ? 0 : each * VALUES * terms;
}

int averages_failed(const struct averages *r, const char *call, int err)
{
	return err ? perf_call_failed(r->perf, call, err) : 0;
}

/* The median of this rank's times, then the greatest of all ranks. */
int averages_slowest(const struct averages *r, double *times, double *median)
{
	struct perf_summary sum;

	perf_summarize(times, (size_t)r->perf->opt.iters, &sum);
	*median = sum.median;
	return perf_agree(r->perf, median, TUTTI_MAX);
}

double averages_usec_since(uint64_t *from)
{
	uint64_t now = perf_now_ns(), start = *from;

	*from = now;
	return (double)(now - start) / 1e3;
}

int averages_each(struct averages *r, int (*one)(struct averages *), const int *types, int ntypes)
{
	const struct perf_options *opt = &r->perf->opt;
	size_t size, bytes = opt->minbytes, least;
	int t, err = 0;

	do {
		least = bytes + 1;
		for (t = 0; t < ntypes && !err; t++) {
			if (opt->datatype != PERF_ALL && opt->datatype != types[t])
				continue;
			r->datatype = types[t];
			size = tutti_datatype_size((enum tutti_datatype)types[t]);
			r->count = bytes < size ? 1 : bytes / size;
			perf_progress_row(r->perf, bytes);
			err = one(r);
			if (least < (r->count + 1) * size)
				least = (r->count + 1) * size;
		}
	} while (!err && (bytes = perf_next_size(opt, bytes, least)));
	return err;
}

int averages_begin(struct averages *r, int graph, const struct perf_column *columns,
		   size_t ncolumns)
{
	struct perf *perf = r->perf;
	int err = graph == AVERAGES_NO_GRAPH ? 0 : cli_graph_make(graph, perf->nranks, &r->graph);

	if (err)
		return averages_failed(r, "making the graph", err);
	r->times = calloc((size_t)perf->opt.iters * AVERAGES_TIMES, sizeof(*r->times));
	if (!r->times)
		return averages_failed(r, "making room for times", -ENOMEM);
	perf_table_begin(&perf->table, columns, (int)ncolumns);
	if (!perf->rank)
		perf_table_heading(&perf->table);
	return 0;
}

void averages_end(struct averages *r)
{
	tutti_graph_free(r->graph);
	free(r->in);
	free(r->weights);
	free(r->times);
}
