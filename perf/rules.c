/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The update rules of a parameter server beside a copy of the update to the values. The kernels
 * are the library's own, linked in besides.
 */
#include "perf/perf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/rules/rule.h"

#define SAMPLE_BYTES (4u << 20) /* of values, at least between two looks at the clock */

enum { VALUES, UPDATE, STATE1, STATE2, TRUTH, BUFFERS };

struct rules {
	struct perf *perf;
	struct perf_buffer buf[BUFFERS];
	struct tutti_ps_options opt;
	double *times[2];	   /* rule, copy */
	size_t size, count, state; /* bytes of values; of an element's state */
	int level;
};

static const struct perf_column columns[] = {
	{"size", "size", "(B)", 13, 0, PERF_INT},
	{"type", "type", "", 9, 0, PERF_TEXT},
	{"rule", "rule", "", 9, 0, PERF_TEXT},
	{"level", "level", "", 7, 0, PERF_TEXT},
	{"time_us", "time", "(us)", 11, 0, PERF_USEC},
	{"traffic_gbs", "traffic", "(GB/s)", 8, 2, PERF_FIXED},
	{"copy_gbs", "copy", "(GB/s)", 8, 2, PERF_FIXED},
	{"percent", "rule", "(%copy)", 8, 1, PERF_FIXED},
	{"wrong", "#wrong", "", 7, 0, PERF_INT},
};

static void apply(const struct rules *r, int values)
{
	struct tt_rule_job job = {.opt = &r->opt,
				  .datatype = (enum tutti_datatype)r->perf->opt.datatype,
				  .x = r->buf[values].data,
				  .u = r->buf[UPDATE].data,
				  .s1 = r->buf[STATE1].data,
				  .s2 = r->buf[STATE2].data,
				  .count = r->count,
				  .bias1 = 0.1,
				  .bias2 = 0.001};

	tt_rule_apply(&job);
}

/* Numbers that every type has, so that no rule comes to infinities. */
static void fill(struct rules *r, int values)
{
	const unsigned char ones[TUTTI_NUM_DATATYPES][8] = {
		[TUTTI_FLOAT16] = {0, 0x3c},
		[TUTTI_BFLOAT16] = {0x80, 0x3f},
		[TUTTI_FLOAT32] = {0, 0, 0x80, 0x3f},
		[TUTTI_FLOAT64] = {0, 0, 0, 0, 0, 0, 0xf0, 0x3f}};
	size_t elem = r->size / r->count, i;

	for (i = 0; i < r->count; i++) {
		memcpy(r->buf[values].data + i * elem, ones[r->perf->opt.datatype], elem);
		memcpy(r->buf[UPDATE].data + i * elem, ones[r->perf->opt.datatype], elem);
		if (i % 3 == 0)
			r->buf[UPDATE].data[i * elem + elem - 1] ^=
				0x80; /* the sign, where bytes go up */
	}
	memset(r->buf[STATE1].data, 0, r->count * r->state);
	memset(r->buf[STATE2].data, 0, r->count * r->state);
}

static double cpu_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void measure(struct rules *r, struct perf_summary sums[2])
{
	const struct perf_options *opt = &r->perf->opt;
	int reps = 1 + (int)(SAMPLE_BYTES / r->size), i, k;
	double begin, middle;

	for (i = -opt->warmup; i < opt->iters; i++) {
		begin = cpu_us();
		for (k = 0; k < reps; k++)
			apply(r, VALUES);
		middle = cpu_us();
		for (k = 0; k < reps; k++)
			memcpy(r->buf[TRUTH].data, r->buf[UPDATE].data, r->size);
		if (i >= 0) {
			r->times[1][i] = (cpu_us() - middle) / reps;
			r->times[0][i] = (middle - begin) / reps;
		}
	}
	for (k = 0; k < 2; k++)
		perf_summarize(r->times[k], (size_t)opt->iters, &sums[k]);
}

/* Twice, so that the second begins with some state. */
static int check(struct rules *r, double *wrong)
{
	size_t elem = r->size / r->count, i;
	int which, k;

	*wrong = 0;
	if (!r->perf->opt.check)
		return 0;
	for (which = 0; which < 2; which++) {
		tt_reduce_use(which ? (enum tt_reduce_level)r->level : TT_REDUCE_TRUTH);
		fill(r, which ? VALUES : TRUTH);
		for (k = 0; k < 2; k++)
			apply(r, which ? VALUES : TRUTH);
	}
	for (i = 0; i < r->count; i++)
		*wrong += !!memcmp(r->buf[VALUES].data + i * elem, r->buf[TRUTH].data + i * elem,
				   elem);
	return perf_agree_found(r->perf, wrong, 0);
}

static int one_rule(struct rules *r)
{
	struct perf_summary sums[2];
	double wrong, bytes;
	int err;

	fill(r, VALUES);
	measure(r, sums);
	err = check(r, &wrong);
	if (err || r->perf->rank)
		return err;
	bytes = 3.0 * (double)r->size +
		2.0 * tt_rule_states(r->opt.rule) * (double)(r->count * r->state);
	return perf_table_row(
		&r->perf->table,
		(struct perf_cell[]){{.number = (int64_t)r->size},
				     {.text = perf_type_name(r->perf->opt.datatype)},
				     {.text = tt_rule_name(r->opt.rule)},
				     {.text = perf_level_names[r->level]},
				     {.real = sums[0].median},
				     {.real = bytes / sums[0].median / 1e3},
				     {.real = 2.0 * (double)r->size / sums[1].median / 1e3},
				     {.real = 100 * bytes / sums[0].median * sums[1].median /
					      (2.0 * (double)r->size)},
				     {.number = (int64_t)wrong}});
}

static int all_rules(struct rules *r, size_t size)
{
	const struct perf_options *opt = &r->perf->opt;
	size_t elem = tutti_datatype_size((enum tutti_datatype)opt->datatype);
	int level = opt->level == PERF_BEST ? (int)tt_reduce_best() : opt->level, err = 0;

	r->count = size / elem ? size / elem : 1;
	r->size = r->count * elem;
	for (r->opt.rule = TUTTI_PS_SGD; r->opt.rule <= TUTTI_PS_ADAMW && !err; r->opt.rule++)
		for (r->level = 0; r->level < PERF_LEVELS && !err; r->level++)
			if ((r->level == level || level == PERF_ALL) &&
			    tt_reduce_use((enum tt_reduce_level)r->level))
				err = one_rule(r);
	return err;
}

static int refuse(struct perf *perf, const char *why)
{
	if (!perf->rank)
		fprintf(stderr, "tutti_perf: %s\n", why);
	return -EINVAL;
}

int perf_run_rules(struct perf *perf)
{
	struct rules r = {.perf = perf,
			  .opt = {.rate = 1e-3,
				  .momentum = 0.5,
				  .beta1 = 0.9,
				  .beta2 = 0.999,
				  .epsilon = 1e-6,
				  .weight_decay = 1e-3}};
	size_t size = perf->opt.minbytes;
	int err;

	tt_reduce_add_reference();
	tt_rule_add_reference();
	if (perf->opt.datatype < TUTTI_FLOAT16)
		return refuse(perf, "update rules are for floats, one type at a time");
	if (perf->opt.level >= 0 && !tt_reduce_use((enum tt_reduce_level)perf->opt.level))
		return refuse(perf, "this CPU does not have what --level asks for");
	r.state = perf->opt.datatype == TUTTI_FLOAT64 ? sizeof(double) : sizeof(float);
	r.times[0] = calloc((size_t)perf->opt.iters * 2, sizeof(double));
	if (!r.times[0])
		return perf_call_failed(perf, "making room for times", -ENOMEM);
	r.times[1] = r.times[0] + perf->opt.iters;
	err = perf_buffers_get(perf, r.buf, BUFFERS,
			       2 * (perf->opt.maxbytes > 8 ? perf->opt.maxbytes : 8));
	if (err)
		goto free_times;
	perf_table_begin(&perf->table, columns, sizeof(columns) / sizeof(*columns));
	if (!perf->rank)
		perf_table_heading(&perf->table);
	do {
		perf_progress_row(perf, size);
		err = all_rules(&r, size);
		perf_progress(perf, "measuring");
	} while (!err && (size = perf_next_size(&perf->opt, size, r.size + r.size / r.count)));
	perf_buffers_put(r.buf, BUFFERS);
free_times:
	free(r.times[0]);
	return err;
}
