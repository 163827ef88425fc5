/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Codecs beside a copy of their input, in turns; medians. Encoding and decoding of one vector by
 * one thread of each rank, without communication.
 */
#include "perf/perf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SAMPLE_BYTES (4u << 20) /* of the vector, at least between two looks at the clock */

/* The things that are timed. */
enum what { ENCODE, FEEDBACK, DECODE, DECODE_ADD, COPY, WHATS };
enum { INPUT, DECODED, STATE, ENCODED, BUFFERS };

struct codec_job {
	struct perf *perf;
	struct perf_buffer buf[BUFFERS];
	struct tutti_codec *codec;
	const char *name;
	double *times[WHATS];
	size_t count, size, len;
};

static const struct perf_column columns[] = {
	{"size", "size", "(B)", 13, 0, PERF_INT},
	{"codec", "codec", "", 33, 0, PERF_TEXT},
	{"bits", "bits", "(/elem)", 8, 3, PERF_FIXED},
	{"encode_us", "encode", "(us)", 11, 0, PERF_USEC},
	{"encode_percent", "encode", "(%copy)", 8, 1, PERF_FIXED},
	{"feedback_percent", "feedbck", "(%copy)", 8, 1, PERF_FIXED},
	{"decode_us", "decode", "(us)", 11, 0, PERF_USEC},
	{"decode_percent", "decode", "(%copy)", 8, 1, PERF_FIXED},
	{"add_percent", "add", "(%copy)", 8, 1, PERF_FIXED},
	{"copy_us", "copy", "(us)", 11, 0, PERF_USEC},
	{"wrong", "#wrong", "", 7, 0, PERF_INT},
};

static const char *const usual[] = {"fp16",	      "bf16",	    "fp8:e4m3", "fp8:e5m2",
				    "int8",	      "qsgd",	    "onebit",	"topk:1%",
				    "threshold:1e-2", "randomk:1%", "dgc:0.1%"};

static double cpu_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void fill(struct codec_job *job)
{
	perf_fill_random((void *)job->buf[INPUT].data, job->count, job->perf->rank);
	memset(job->buf[STATE].data, 0, (size_t)tutti_codec_states(job->codec) * job->size);
	memset(job->buf[DECODED].data, 0, job->size);
}

static int once(struct codec_job *job, enum what what)
{
	void *in = job->buf[INPUT].data, *out = job->buf[ENCODED].data,
	     *decoded = job->buf[DECODED].data;

	switch (what) {
	case ENCODE:
		return tutti_codec_encode(job->codec, in, job->count, TUTTI_FLOAT32, NULL, 1, out,
					  &job->len);
	case FEEDBACK:
		return tutti_codec_encode(job->codec, in, job->count, TUTTI_FLOAT32,
					  (void *)job->buf[STATE].data, 1, out, &job->len);
	case DECODE:
		return tutti_codec_decode(job->codec, out, job->len, decoded, job->count,
					  TUTTI_FLOAT32);
	case DECODE_ADD:
		return tutti_codec_decode_add(job->codec, out, job->len, decoded, job->count,
					      TUTTI_FLOAT32);
	default:
		memcpy(decoded, in, job->size);
		__asm__ volatile("" : : "r"(decoded) : "memory"); /* or it is left out */
		return 0;
	}
}

static int measure(struct codec_job *job, struct perf_summary sums[WHATS])
{
	const struct perf_options *opt = &job->perf->opt;
	int reps = 1 + (int)(SAMPLE_BYTES / job->size), i, k, what, err = 0;
	double begin;

	for (i = -opt->warmup; i < opt->iters; i++)
		for (what = 0; what < WHATS; what++) {
			begin = cpu_us();
			for (k = 0; k < reps && !err; k++)
				err = once(job, (enum what)what);
			if (err)
				return perf_call_failed(job->perf, job->name, err);
			if (i >= 0)
				job->times[what][i] = (cpu_us() - begin) / reps;
		}
	for (what = 0; what < WHATS; what++)
		perf_summarize(job->times[what], (size_t)opt->iters, &sums[what]);
	return 0;
}

/* With feedback from 0, the residual is what decoding does not give back. */
static int check(struct codec_job *job, double *wrong)
{
	const float *in = (void *)job->buf[INPUT].data, *residual = (void *)job->buf[STATE].data,
		    *decoded = (void *)job->buf[DECODED].data;
	size_t i;
	int err;

	*wrong = 0;
	if (!job->perf->opt.check)
		return 0;
	fill(job);
	err = once(job, FEEDBACK);
	if (!err)
		err = once(job, DECODE);
	if (err)
		return perf_call_failed(job->perf, job->name, err);
	for (i = 0; i < job->count; i++)
		*wrong += residual[i] != in[i] - decoded[i];
	return perf_agree_found(job->perf, wrong, 0);
}

static int one_row(struct codec_job *job)
{
	struct perf_summary sums[WHATS];
	double wrong, copy;
	size_t len;
	int err;

	perf_progress_row(job->perf, job->size);
	fill(job);
	err = measure(job, sums);
	len = job->len;
	if (!err)
		err = check(job, &wrong);
	if (err || job->perf->rank)
		return err;
	copy = 100 * sums[COPY].median;
	return perf_table_row(&job->perf->table,
			      (struct perf_cell[]){{.number = (int64_t)job->size},
						   {.text = job->name},
						   {.real = 8 * (double)len / (double)job->count},
						   {.real = sums[ENCODE].median},
						   {.real = copy / sums[ENCODE].median},
						   {.real = copy / sums[FEEDBACK].median},
						   {.real = sums[DECODE].median},
						   {.real = copy / sums[DECODE].median},
						   {.real = copy / sums[DECODE_ADD].median},
						   {.real = sums[COPY].median},
						   {.number = (int64_t)wrong}});
}

static int all_sizes(struct codec_job *job)
{
	const struct perf_options *opt = &job->perf->opt;
	size_t size = opt->minbytes;
	int err;

	do {
		job->count = size / sizeof(float) ? size / sizeof(float) : 1;
		job->size = job->count * sizeof(float);
		err = one_row(job);
	} while (!err && (size = perf_next_size(opt, size, job->size + sizeof(float))));
	return err;
}

static int one_codec(struct codec_job *job, const char *name)
{
	size_t most = job->perf->opt.maxbytes > 8 ? job->perf->opt.maxbytes : 8;
	int err = tutti_codec_create(name, &job->codec), states;

	if (err)
		return perf_call_failed(job->perf, "tutti_codec_create", err);
	job->name = name;
	states = tutti_codec_states(job->codec);
	err = perf_buffers_get(job->perf, &job->buf[INPUT], 2, most);
	if (err)
		goto free_codec;
	err = perf_buffers_get(job->perf, &job->buf[STATE], 1, (size_t)states * most);
	if (err)
		goto put_vectors;
	err = perf_buffers_get(job->perf, &job->buf[ENCODED], 1,
			       tutti_codec_bound(job->codec, most / sizeof(float)));
	if (err)
		goto put_state;
	err = all_sizes(job);
	perf_buffers_put(&job->buf[ENCODED], 1);
put_state:
	perf_buffers_put(&job->buf[STATE], 1);
put_vectors:
	perf_buffers_put(&job->buf[INPUT], 2);
free_codec:
	tutti_codec_free(job->codec);
	return err;
}

int perf_run_codec(struct perf *perf)
{
	double *times = calloc((size_t)perf->opt.iters * WHATS, sizeof(*times));
	struct codec_job job = {.perf = perf};
	size_t i;
	int err = 0, what;

	if (!times)
		return perf_call_failed(perf, "making room for times", -ENOMEM);
	for (what = 0; what < WHATS; what++)
		job.times[what] = times + what * perf->opt.iters;
	perf_table_begin(&perf->table, columns, sizeof(columns) / sizeof(*columns));
	if (!perf->rank)
		perf_table_heading(&perf->table);
	if (perf->opt.codec)
		err = one_codec(&job, perf->opt.codec);
	for (i = 0; !perf->opt.codec && i < sizeof(usual) / sizeof(*usual) && !err; i++)
		err = one_codec(&job, usual[i]);
	free(times);
	return err;
}
