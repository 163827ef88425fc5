/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures the parameter server. The last --servers ranks only serve; all other ranks work at
 * once, and the first --colocated of them also serve. Compares pulls with plain reads of the same
 * bytes from windows of the servers, and pushes, applied by SGD, with plain writes; measures the
 * CPU time of dedicated servers for a pull.
 */
#include "perf/perf.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define APPLIED_STEP ((64 << 10) / sizeof(float)) /* elements, fewer than a block has */

struct run {
	struct perf *perf;
	int workers, servers, colocated;
	bool worker;
	struct perf_buffer
		buf[3]; /* update, values, what servers expose for plain reads and writes */
	struct tutti_win *win;
	struct tutti_ps *ps;
	struct tutti_ps_table *table[PERF_TABLES];
	struct tutti_request *req[2 * PERF_TABLES]; /* of each: its push, its pull */
	size_t size;
	double pushed;		   /* by each worker to the tables */
	struct tutti_codec *codec; /* NULL: nothing is encoded */
};

static const struct perf_column columns[] = {
	{"bytes", "#bytes", "", 14, 0, PERF_INT},
	{"iterations", "#iterations", "", 12, 0, PERF_INT},
	{"get_mib_s", "get", "[MiB/sec]", 11, 2, PERF_FIXED},
	{"pull_mib_s", "pull", "[MiB/sec]", 11, 2, PERF_FIXED},
	{"pull_us", "pull", "[usec]", 11, 2, PERF_FIXED},
	{"put_mib_s", "put", "[MiB/sec]", 11, 2, PERF_FIXED},
	{"push_mib_s", "push", "[MiB/sec]", 11, 2, PERF_FIXED},
	{"push_pull_us", "push_pull", "[usec]", 11, 2, PERF_FIXED},
	{"cpu_us", "cpu/pull", "[usec]", 10, 3, PERF_FIXED},
	{"wrong", "#wrong", "", 7, 0, PERF_INT},
	{"push_bytes", "push", "[bytes]", 11, 0, PERF_FIXED}, /* this and the next: with a codec */
	{"pull_bytes", "pull", "[bytes]", 11, 0, PERF_FIXED},
};
#define COLUMNS ((int)(sizeof(columns) / sizeof(columns[0])))
#define CODED 2
#define LARGEST 128 /* update with a codec */

enum step { GET, PULL, PUT, PUSH, PUSH_PULL, STEPS };
const char *const perf_ps_calls[] = {"get", "pull", "put", "push", "push_pull", NULL};
static const int of_column[COLUMNS] = {0, 0, GET, PULL, PULL, PUT, PUSH, PUSH_PULL, PULL};

static size_t elements(const struct run *r)
{
	return r->size / sizeof(float);
}

/* The offset of a table's elements in the buffers. */
static size_t begin_of(const struct run *r, int table)
{
	return elements(r) * (size_t)table / (size_t)r->perf->opt.tables;
}

static size_t count_of(const struct run *r, int table)
{
	return begin_of(r, table + 1) - begin_of(r, table);
}

static float *at(const struct run *r, int buffer, int table)
{
	return (float *)(void *)r->buf[buffer].data + begin_of(r, table);
}

/* The offset of the bytes of server k; co-located servers come first. */
static size_t cut(const struct run *r, int k)
{
	const int *w = r->perf->opt.weights;
	size_t colocated = (size_t)(k < r->colocated ? k : r->colocated),
	       dedicated = (size_t)k - colocated;
	size_t all = (size_t)r->servers * (size_t)w[0] + (size_t)r->colocated * (size_t)w[1];

	return r->size * (dedicated * (size_t)w[0] + colocated * (size_t)w[1]) / all;
}

/* A server's share of the bytes, from or to each. */
static int plain(const struct run *r, enum step step)
{
	int k, rank, err = 0;

	for (k = 0; k < r->servers + r->colocated && !err; k++) {
		size_t from = cut(r, k), len = cut(r, k + 1) - from;

		rank = k < r->colocated ? k : r->workers + k - r->colocated;
		if (step == GET)
			err = tutti_get(r->win, rank, r->buf[1].data + from, len, 0);
		else
			err = tutti_put(r->win, rank, r->buf[0].data + from, len, 0);
	}
	return err ? err : tutti_win_flush_all(r->win);
}

/*
 * A table is pushed and pulled again when it has been: so those of the next iteration begin before
 * this one ends.
 */
static int once(struct run *r, enum step step)
{
	int t, err = 0;

	if (step == GET || step == PUT)
		return plain(r, step);
	for (t = 0; t < r->perf->opt.tables && !err; t++) {
		err = tutti_waitall(2, &r->req[2 * t]);
		if (!err && step != PULL)
			err = tutti_ps_ipush(r->table[t], at(r, 0, t), 0, count_of(r, t),
					     TUTTI_FLOAT32, &r->req[2 * t]);
		if (!err && step != PUSH)
			err = tutti_ps_ipull(r->table[t], at(r, 1, t), 0, count_of(r, t),
					     TUTTI_FLOAT32, &r->req[2 * t + 1]);
	}
	r->pushed += step != PULL;
	return err;
}

/* Something of every block can be read, so the pushes to it have been applied. */
static int applied(struct run *r)
{
	size_t i;
	int t, err = 0;

	for (t = 0; t < r->perf->opt.tables; t++)
		for (i = 0; i < count_of(r, t) && !err; i += APPLIED_STEP)
			err = tutti_ps_pull(r->table[t], at(r, 1, t) + i, i, 1, TUTTI_FLOAT32);
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
	int i, err, end;

	err = tutti_barrier(r->perf->world);
	*cpu = r->worker ? 0 : cpu_seconds(); /* of ranks that only serve */
	start = perf_now_ns();
	for (i = 0; i < n && r->worker && !err; i++)
		err = once(r, step);
	end = tutti_waitall(2 * r->perf->opt.tables, r->req);
	err = err ? err : end;
	if (step == PUSH && r->worker && !err)
		err = applied(r);
	*seconds = r->worker ? (double)(perf_now_ns() - start) / 1e9 : 0;
	if (!err)
		err = tutti_barrier(r->perf->world);
	*cpu = r->worker ? 0 : cpu_seconds() - *cpu;
	if (err)
		return perf_call_failed(r->perf, "ps", err);
	err = perf_agree(r->perf, seconds, TUTTI_MAX);
	return err ? err : perf_agree(r->perf, cpu, TUTTI_SUM);
}

/*
 * Updates are 1, so that sums are exact with every rule; for codecs, whose speed depends on the
 * data, multiples of 1/256 in no order, whose sums are exact, too.
 */
static float update_of(const struct run *r, size_t i)
{
	return r->codec ? (float)((uint32_t)i * 2654435761u >> 16) / 256 - LARGEST : 1;
}

/* Push what is held back, and wait until it has been applied. */
static int flush(struct run *r)
{
	int t, err = 0;

	for (t = 0; t < r->perf->opt.tables && r->worker && !err; t++) {
		err = tutti_ps_exact(r->table[t], 1);
		if (!err)
			err = tutti_ps_flush(r->table[t]);
	}
	if (!err && r->worker)
		err = applied(r);
	return err ? err : tutti_barrier(r->perf->world);
}

/*
 * The rate is 1, so the values are known: to 1e-6 of the largest sum where encodings, some with one
 * magnitude for many elements, have rounded them.
 */
static int check(struct run *r, double *wrong)
{
	const float *v = (const float *)(const void *)r->buf[1].data;
	double times = -r->pushed *
		       (r->perf->opt.softsync ? 1 : r->workers), /* the mean, or each */
		want;
	size_t i;
	int t, err = r->codec ? flush(r) : 0;

	*wrong = 0;
	perf_guard_set(&r->buf[1], r->size);
	for (t = 0; t < r->perf->opt.tables && r->worker && !err; t++)
		err = tutti_ps_pull(r->table[t], at(r, 1, t), 0, count_of(r, t), TUTTI_FLOAT32);
	if (err)
		return perf_call_failed(r->perf, "ps_pull", err);
	for (i = 0; i < elements(r) && r->worker; i++) {
		want = times * (double)update_of(r, i);
		*wrong += !(fabs((double)v[i] - want) <=
			    (r->codec ? 1e-6 * LARGEST * fabs(times) : 0));
	}
	return perf_agree_found(r->perf, wrong, (double)perf_guard_violations(&r->buf[1], r->size));
}

/* Bytes that this rank has sent for pushes, or has read, so far. */
static double moved(const struct run *r, enum step step)
{
	struct tutti_ps_held held = {.size = sizeof(held)};
	struct tutti_stats stats = {.size = sizeof(stats)};
	double sum = 0;
	int t;

	if (step == PULL)
		return tutti_stats_get(r->perf->ctx, &stats) ? 0 : (double)stats.got_bytes;
	for (t = 0; step == PUSH && t < r->perf->opt.tables; t++)
		if (!tutti_ps_held(r->table[t], &held))
			sum += (double)held.sent_bytes;
	return sum;
}

static bool measured(const struct run *r, int step)
{
	return r->perf->opt.call == PERF_ALL || r->perf->opt.call == step;
}

static int one_row(struct run *r)
{
	const struct perf_options *opt = &r->perf->opt;
	double seconds[STEPS] = {0}, cpu[STEPS] = {0}, bytes[STEPS] = {0}, unused, all, wrong = 0;
	struct perf_cell cells[COLUMNS] = {{0}};
	size_t i;
	int step, err = 0;

	perf_progress(r->perf, "measuring");
	for (i = 0; i < elements(r); i++)
		((float *)(void *)r->buf[0].data)[i] = update_of(r, i);
	for (step = 0; step < STEPS && !err; step++) {
		if (!measured(r, step))
			continue;
		err = timed(r, (enum step)step, opt->warmup, &unused, &unused);
		bytes[step] = moved(r, (enum step)step);
		if (!err)
			err = timed(r, (enum step)step, opt->iters, &seconds[step], &cpu[step]);
		bytes[step] = moved(r, (enum step)step) - bytes[step];
	}
	if (!err && opt->check)
		err = check(r, &wrong);
	if (err || r->perf->rank)
		return err;
	all = (double)r->size / (1 << 20) * opt->iters * r->workers;
	cells[0].number = (int64_t)r->size;
	cells[1].number = opt->iters;
	cells[2].real = all / seconds[GET];
	cells[3].real = all / seconds[PULL];
	cells[4].real = seconds[PULL] / opt->iters * 1e6;
	cells[5].real = all / seconds[PUT];
	cells[6].real = all / seconds[PUSH];
	cells[7].real = seconds[PUSH_PULL] / opt->iters * 1e6;
	cells[8].real = cpu[PULL] / opt->iters / r->workers * 1e6;
	for (i = 2; i < 9; i++)
		cells[i].absent = !measured(r, of_column[i]);
	cells[9].number = (int64_t)wrong;
	cells[9].absent = !opt->check;
	cells[10].real = bytes[PUSH] / opt->iters;
	cells[10].absent = !measured(r, PUSH);
	cells[11].real = bytes[PULL] / opt->iters;
	cells[11].absent = !measured(r, PULL);
	return perf_table_row(&r->perf->table, cells);
}

/* Codecs that copies of blocks can have, see tutti_ps_dense(3). */
static bool can_publish(const struct tutti_codec *codec)
{
	const char *name = codec ? tutti_codec_name(codec) : "";

	return !strcmp(name, "fp16") || !strcmp(name, "bf16") || !strncmp(name, "fp8:", 4) ||
	       !strncmp(name, "int8:", 5);
}

static int make_tables(struct run *r)
{
	struct tutti_ps_options opt = {.size = sizeof(opt),
				       .rule = TUTTI_PS_SGD,
				       .rate = 1,
				       .init = TUTTI_PS_ZERO,
				       .softsync = r->perf->opt.softsync,
				       .codec = r->codec,
				       .publish = can_publish(r->codec) ? r->codec : NULL};
	char name[48];
	int t, err = 0;

	for (t = 0; t < r->perf->opt.tables && !err; t++) {
		snprintf(name, sizeof(name), "%zu.%d", r->size, t);
		err = tutti_ps_dense(r->ps, name, count_of(r, t), TUTTI_FLOAT32, &opt,
				     &r->table[t]);
	}
	return err ? perf_call_failed(r->perf, "ps_dense", err) : 0;
}

static int all_sizes(struct run *r)
{
	const size_t least = sizeof(float) * (size_t)r->perf->opt.tables;
	int err;

	r->size = r->perf->opt.minbytes;
	do {
		r->size = r->size < least
				  ? least
				  : (r->size + sizeof(float) - 1) / sizeof(float) * sizeof(float);
		r->pushed = 0;
		perf_progress_row(r->perf, r->size);
		err = make_tables(r);
		if (!err)
			err = one_row(r);
		r->size = perf_next_size(&r->perf->opt, r->size, r->size + 1);
	} while (!err && r->size);
	return err;
}

static int with_server(struct run *r)
{
	struct perf *perf = r->perf;
	bool both = perf->rank < r->colocated;
	struct tutti_ps_config config = {.size = sizeof(config),
					 .staleness = TUTTI_PS_ASYNC,
					 .role = both	     ? TUTTI_PS_BOTH
						 : r->worker ? TUTTI_PS_WORKER
							     : TUTTI_PS_SERVER,
					 .weight = perf->opt.weights[both]};
	int err, end;

	memset(r->buf[2].data, 1, r->buf[2].size); /* memory that is there, not pages of zeros */
	err = tutti_win_create(perf->world, r->buf[2].data, r->buf[2].size, 0, &r->win);
	if (err)
		return perf_call_failed(perf, "win_create", err);
	err = tutti_ps_open(perf->world, &config, &r->ps);
	if (err)
		return perf_call_failed(perf, "ps_open", err);
	perf_table_begin(&perf->table, columns, r->codec ? COLUMNS : COLUMNS - CODED);
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

static int refuse_roles(const struct run *r)
{
	int n = r->perf->nranks;

	if (r->perf->rank)
		return -EINVAL;
	if (r->servers + r->colocated < 1)
		fprintf(stderr, "tutti_perf: no rank serves: pass --servers or --colocated\n");
	else if (r->colocated)
		fprintf(stderr,
			"tutti_perf: %d ranks are too few for --servers %d --colocated %d\n", n,
			r->servers, r->colocated);
	else
		fprintf(stderr, "tutti_perf: %d ranks are too few for --servers %d and a worker\n",
			n, r->servers);
	return -EINVAL;
}

int perf_run_ps(struct perf *perf)
{
	struct run r = {
		.perf = perf, .servers = perf->opt.servers, .colocated = perf->opt.colocated};
	int err;

	r.workers = perf->nranks - r.servers;
	r.worker = perf->rank < r.workers;
	if (r.workers < 1 || r.workers < r.colocated || r.servers + r.colocated < 1)
		return refuse_roles(&r);
	if (perf->opt.codec) {
		err = tutti_codec_create(perf->opt.codec, &r.codec);
		if (err)
			return perf_call_failed(perf, "codec_create", err);
		/* momentum changes the sums, and a flush the mean */
		if (perf->opt.softsync || tutti_codec_states(r.codec) > 1)
			perf->opt.check = 0;
	}
	err = perf_buffers_get(perf, r.buf, 3, perf->opt.maxbytes + sizeof(float) * PERF_TABLES);
	if (!err) {
		err = with_server(&r);
		perf_buffers_put(r.buf, 3);
	}
	tutti_codec_free(r.codec);
	return err;
}
