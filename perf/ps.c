/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measuring the parameter server: the last --servers ranks serve, all others work at once. Pull beside plain
 * reads of the same bytes from windows of the servers; pushes applied by SGD; what the servers' processors
 * do for a pull.
 */
#include "perf/perf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct run {
	struct perf *perf;
	int workers, servers;
	bool worker;
	struct perf_buffer buf[3]; /* update, values, what servers expose for plain reads */
	struct tutti_win *win;
	struct tutti_ps *ps;
	struct tutti_ps_table *table;
	size_t size;
	double pushed; /* by each worker to the table */
};

static const struct perf_column columns[] = {
	{"bytes", "#bytes", "", 14, 0, PERF_INT},
	{"iterations", "#iterations", "", 12, 0, PERF_INT},
	{"get_mib_s", "get", "[MiB/sec]", 11, 2, PERF_FIXED},
	{"pull_mib_s", "pull", "[MiB/sec]", 11, 2, PERF_FIXED},
	{"pull_us", "pull", "[usec]", 11, 2, PERF_FIXED},
	{"push_mib_s", "push", "[MiB/sec]", 11, 2, PERF_FIXED},
	{"push_pull_us", "push_pull", "[usec]", 11, 2, PERF_FIXED},
	{"cpu_us", "cpu/pull", "[usec]", 10, 3, PERF_FIXED},
	{"wrong", "#wrong", "", 7, 0, PERF_INT},
};
#define COLUMNS ((int)(sizeof(columns) / sizeof(columns[0])))

enum step { GET, PULL, PUSH, PUSH_PULL, STEPS };

static size_t elements(const struct run *r)
{
	return r->size / sizeof(float);
}

/* A server's share of the bytes, from each. */
static int plain_get(const struct run *r)
{
	size_t part = r->size / (size_t)r->servers;
	int k, err = 0;

	for (k = 0; k < r->servers && !err; k++)
		err = tutti_get(r->win, r->workers + k, r->buf[1].data + (size_t)k * part, part, 0);
	return err ? err : tutti_win_flush_all(r->win);
}

static int once(struct run *r, enum step step)
{
	void *update = r->buf[0].data, *values = r->buf[1].data;
	int err;

	if (step == GET)
		return plain_get(r);
	if (step == PULL)
		return tutti_ps_pull(r->table, values, 0, elements(r), TUTTI_FLOAT32);
	r->pushed++;
	err = step == PUSH ? tutti_ps_push(r->table, update, 0, elements(r), TUTTI_FLOAT32)
			   : tutti_ps_push_pull(r->table, update, values, 0, elements(r), TUTTI_FLOAT32);
	return err;
}

static double cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* n times, all workers at once: seconds of the slowest, and the servers' processors' together. */
static int timed(struct run *r, enum step step, int n, double *seconds, double *cpu)
{
	uint64_t start;
	int i, err;

	err = tutti_barrier(r->perf->world);
	*cpu = r->worker ? 0 : cpu_seconds();
	start = perf_now_ns();
	for (i = 0; i < n && r->worker && !err; i++)
		err = once(r, step);
	if (step == PUSH && r->worker && !err) /* what was pushed is applied when it can be read */
		err = tutti_ps_pull(r->table, r->buf[1].data, 0, elements(r), TUTTI_FLOAT32);
	*seconds = r->worker ? (double)(perf_now_ns() - start) / 1e9 : 0;
	if (!err)
		err = tutti_barrier(r->perf->world);
	*cpu = r->worker ? 0 : cpu_seconds() - *cpu;
	if (err)
		return perf_call_failed(r->perf, "ps", err);
	err = perf_agree(r->perf, seconds, TUTTI_MAX);
	return err ? err : perf_agree(r->perf, cpu, TUTTI_SUM);
}

/* Every update was 1, at a rate of 1: what is there now is known. */
static int check(struct run *r, double *wrong)
{
	const float *v = (const float *)(const void *)r->buf[1].data;
	float want = (float)(-r->pushed * r->workers);
	size_t i;
	int err = 0;

	*wrong = 0;
	perf_guard_set(&r->buf[1], r->size);
	if (r->worker)
		err = tutti_ps_pull(r->table, r->buf[1].data, 0, elements(r), TUTTI_FLOAT32);
	if (err)
		return perf_call_failed(r->perf, "ps_pull", err);
	for (i = 0; i < elements(r) && r->worker; i++)
		*wrong += v[i] != want;
	r->perf->totals.out_of_bounds += perf_guard_violations(&r->buf[1], r->size);
	return perf_agree(r->perf, wrong, TUTTI_SUM);
}

static int one_row(struct run *r)
{
	const struct perf_options *opt = &r->perf->opt;
	double seconds[STEPS], cpu[STEPS], unused, all, wrong = 0;
	struct perf_cell cells[COLUMNS] = {{0}};
	size_t i;
	int step, err = 0;

	perf_progress(r->perf, "measuring");
	for (i = 0; i < elements(r); i++)
		((float *)(void *)r->buf[0].data)[i] = 1;
	for (step = 0; step < STEPS && !err; step++) {
		err = timed(r, (enum step)step, opt->warmup, &unused, &unused);
		if (!err)
			err = timed(r, (enum step)step, opt->iters, &seconds[step], &cpu[step]);
	}
	if (!err && opt->check)
		err = check(r, &wrong);
	r->perf->totals.wrong += (uint64_t)wrong;
	if (err || r->perf->rank)
		return err;
	all = (double)r->size / (1 << 20) * opt->iters * r->workers;
	cells[0].number = (int64_t)r->size;
	cells[1].number = opt->iters;
	cells[2].real = all / seconds[GET];
	cells[3].real = all / seconds[PULL];
	cells[4].real = seconds[PULL] / opt->iters * 1e6;
	cells[5].real = all / seconds[PUSH];
	cells[6].real = seconds[PUSH_PULL] / opt->iters * 1e6;
	cells[7].real = cpu[PULL] / opt->iters / r->workers * 1e6;
	cells[8].number = (int64_t)wrong;
	cells[8].absent = !opt->check;
	return perf_table_row(&r->perf->table, cells);
}

static int all_sizes(struct run *r)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .rule = TUTTI_PS_SGD, .rate = 1,
				       .init = TUTTI_PS_ZERO};
	char name[32];
	int err;

	r->size = r->perf->opt.minbytes;
	do {
		r->size = (r->size + sizeof(float) - 1) / sizeof(float) * sizeof(float);
		r->pushed = 0;
		perf_progress_row(r->perf, r->size);
		snprintf(name, sizeof(name), "%zu", r->size);
		err = tutti_ps_dense(r->ps, name, elements(r), TUTTI_FLOAT32, &opt, &r->table);
		if (err)
			return perf_call_failed(r->perf, "ps_dense", err);
		err = one_row(r);
		r->size = perf_next_size(&r->perf->opt, r->size);
	} while (!err && r->size);
	return err;
}

static int with_server(struct run *r)
{
	struct tutti_ps_config config = {.size = sizeof(config),
					 .staleness = TUTTI_PS_ASYNC,
					 .role = r->worker ? TUTTI_PS_WORKER : TUTTI_PS_SERVER};
	struct perf *perf = r->perf;
	int err, end;

	memset(r->buf[2].data, 1, r->buf[2].size); /* memory that is there, not pages of zeros */
	err = tutti_win_create(perf->world, r->buf[2].data, r->buf[2].size, 0, &r->win);
	if (err)
		return perf_call_failed(perf, "win_create", err);
	err = tutti_ps_open(perf->world, &config, &r->ps);
	if (err)
		return perf_call_failed(perf, "ps_open", err);
	perf_table_begin(&perf->table, columns, COLUMNS);
	if (!perf->rank)
		perf_table_heading(&perf->table);
	err = all_sizes(r);
	if (err)
		return err;
	end = tutti_ps_close(r->ps);
	if (!end)
		end = tutti_win_free(r->win);
	return end ? perf_call_failed(perf, "ps_close", end) : 0;
}

int perf_run_ps(struct perf *perf)
{
	struct run r = {.perf = perf, .servers = perf->opt.servers};
	int err;

	r.workers = perf->nranks - r.servers;
	r.worker = perf->rank < r.workers;
	if (r.workers < 1) {
		if (!perf->rank)
			fprintf(stderr, "tutti_perf: %d ranks are too few for %d servers and a worker\n",
				perf->nranks, r.servers);
		return -EINVAL;
	}
	err = perf_buffers_get(perf, r.buf, 3, perf->opt.maxbytes + sizeof(float));
	if (err)
		return err;
	err = with_server(&r);
	perf_buffers_put(r.buf, 3);
	return err;
}
