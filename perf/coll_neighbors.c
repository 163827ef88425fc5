/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives of neighbours: the graph of --graph, the neighbours of a step, and the expected
 * weighted sums. Weights such as 1/3 are not exact, so results are compared with sums in float64,
 * with room for the roundings of the datatype.
 */
#include "perf/coll.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/graphs.h"

static int find(struct perf_coll_job *job, int rank)
{
	int n = job->perf->nranks, err;

	err = tutti_graph_in(job->graph, job->step, rank, job->in, n, &job->nin);
	if (!err)
		err = tutti_graph_out(job->graph, job->step, rank, job->out, n, &job->nout);
	return err ? perf_call_failed(job->perf, "finding neighbours", err) : 0;
}

int perf_neighbors_find(struct perf_coll_job *job)
{
	return find(job, job->perf->rank);
}

int perf_neighbors_begin(struct perf_coll_job *job)
{
	struct perf *perf = job->perf;
	int rank, err;

	err = cli_graph_make(perf->opt.graph, perf->nranks, &job->graph);
	if (err)
		return perf_call_failed(perf, "making the graph", err);
	job->in = calloc(2 * (size_t)perf->nranks, sizeof(*job->in));
	if (!job->in)
		return perf_call_failed(perf, "making room for neighbours", -ENOMEM);
	job->out = job->in + perf->nranks;
	for (; job->step < (uint64_t)tutti_graph_period(job->graph); job->step++)
		for (rank = 0; rank < perf->nranks; rank++) {
			err = find(job, rank);
			if (err)
				return err;
			job->degree = job->nin > job->degree ? job->nin : job->degree;
			job->degree = job->nout > job->degree ? job->nout : job->degree;
		}
	return 0;
}

void perf_neighbors_end(struct perf_coll_job *job)
{
	tutti_graph_free(job->graph);
	free(job->in);
}

/* ---- sums ---- */

static double from_float16(uint16_t half)
{
	int exponent = half >> 10 & 31;
	double value = half & 0x3ff;

	value = exponent ? ldexp(value + 1024, exponent - 25) : ldexp(value, -24);
	return half & 0x8000 ? -value : value;
}

static double from_bfloat16(uint16_t half)
{
	uint32_t bits = (uint32_t)half << 16;
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static double load(const void *src, size_t i, int datatype)
{
	switch (datatype) {
	case TUTTI_FLOAT16:
		return from_float16(((const uint16_t *)src)[i]);
	case TUTTI_BFLOAT16:
		return from_bfloat16(((const uint16_t *)src)[i]);
	case TUTTI_FLOAT32:
		return ((const float *)src)[i];
	default:
		return ((const double *)src)[i];
	}
}

/* Of a sum whose terms' magnitudes add up to 1: that of each term, and that of the result. */
static double rounding(int datatype, int terms)
{
	double each = datatype == TUTTI_FLOAT64 ? 0x1p-52 : 0x1p-23;

	if (datatype == TUTTI_FLOAT16)
		return terms * each + 0x1p-11;
	if (datatype == TUTTI_BFLOAT16)
		return terms * each + 0x1p-8;
	return terms * each;
}

struct sum {
	double value, magnitude;
};

static void add(const struct perf_coll_job *job, uint64_t seed, int from, struct sum *sums)
{
	double weight = tutti_graph_weight(job->graph, job->step, job->perf->rank, from), term;
	size_t i;

	perf_coll_prepare(job, seed, 0);
	perf_oracle_given(job->oracle, job->count, from);
	for (i = 0; i < job->oracle->period; i++) {
		term = weight * load(job->oracle->input, i, job->datatype);
		sums[i].value += term;
		sums[i].magnitude += fabs(term);
	}
}

size_t perf_neighbors_wrong(const struct perf_coll_job *job, uint64_t seed)
{
	struct sum *sums = (struct sum *)job->oracle->expected; /* as large */
	double room = rounding(job->datatype, job->nin + 2), off;
	const struct sum *want;
	size_t i, wrong = 0;
	int k;

	memset(sums, 0, PERF_PERIOD * sizeof(*sums));
	add(job, seed, job->perf->rank, sums);
	for (k = 0; k < job->nin; k++)
		add(job, seed, job->in[k], sums);
	for (i = 0; i < job->count; i++) {
		want = &sums[i % job->oracle->period];
		off = fabs(load(job->recv->data, i, job->datatype) - want->value);
		wrong += !(off <= room * want->magnitude); /* NaN, too */
	}
	return wrong;
}
