/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives of --coll at all sizes, float32 sums from one buffer to another: overlap, forms.
 */
#include "perf/coll.h"

#include <errno.h>
#include <stdlib.h>

static int all_sizes(struct perf_coll_job *job, int (*row)(void *), void *arg)
{
	const struct perf_options *opt = &job->perf->opt;
	size_t size = opt->minbytes;
	int err;

	do {
		perf_coll_resize(job, size, true);
		perf_progress_row(job->perf, job->bytes);
		err = row(arg);
		size = perf_next_size(opt, size, job->bytes + perf_coll_width(job));
	} while (!err && size && job->coll != PERF_BARRIER);
	return err;
}

static int all_colls(struct perf_coll_job *job, struct perf_buffer *bufs, int (*row)(void *),
		     void *arg)
{
	int coll, err = 0;

	for (coll = 0; coll < PERF_COLLS && !err; coll++) {
		if (!(job->perf->opt.colls >> coll & 1))
			continue;
		job->coll = coll;
		job->kind = &perf_coll_kinds[coll];
		job->send = bufs;
		job->recv = job->kind->places == PERF_IN_PLACE ? bufs : bufs + 1;
		err = all_sizes(job, row, arg);
	}
	return err;
}

int perf_coll_each(struct perf_coll_job *job, int (*row)(void *), void *arg)
{
	struct perf *perf = job->perf;
	struct perf_oracle oracle = {.nranks = perf->nranks};
	size_t least = sizeof(float) * (size_t)perf->nranks;
	struct perf_buffer bufs[2];
	int err = perf_oracle_init(&oracle);

	if (err)
		return perf_call_failed(perf, "making test data", err);
	job->oracle = &oracle;
	job->datatype = TUTTI_FLOAT32;
	job->op = TUTTI_SUM;
	job->counts = calloc((size_t)perf->nranks, sizeof(*job->counts));
	err = job->counts ? 0 : perf_call_failed(perf, "making room for counts", -ENOMEM);
	if (!err)
		err = perf_buffers_get(perf, bufs, 2,
				       perf->opt.maxbytes > least ? perf->opt.maxbytes : least);
	if (!err) {
		err = all_colls(job, bufs, row, arg);
		perf_buffers_put(bufs, 2);
	}
	free(job->counts);
	perf_oracle_free(&oracle);
	return err;
}
