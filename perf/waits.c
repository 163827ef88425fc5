/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waits of two ranks, for perf/waiting: one operation, over and over, whose time depends on how
 * ranks wait. argv[1] names it, argv[2] is how often. Rank 0 prints the median time of one in
 * microseconds, and per operation, of both ranks: sleeps and voluntary context switches.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <tutti/tutti.h>

#include "perf/whole_number.h"

#define WARM 3
#define BIG ((size_t)16 << 20)
#define ROWS 160000
#define WIDTH 4
#define TABLE 16384 /* elements */

struct side {
	struct tutti_context *ctx;
	struct tutti_comm *world;
	int me;
	struct tutti_win *win;
	char *mem, *local;
	struct tutti_ps *ps;
	struct tutti_ps_table *table;
	uint64_t *key;
	float *value;
};

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

/* ---- windows: rank 1 waits in a barrier meanwhile ---- */

static int open_window(struct side *s)
{
	int err = tutti_alloc(s->ctx, BIG, (void **)&s->mem);

	if (!err)
		err = tutti_alloc(s->ctx, BIG, (void **)&s->local);
	if (!err)
		memset(s->mem, 1, BIG);
	return err ? err : tutti_win_create(s->world, s->mem, BIG, 0, &s->win);
}

static int get(struct side *s)
{
	int err = tutti_get(s->win, 1, s->local, BIG, 0);

	return err ? err : tutti_win_flush(s->win, 1);
}

static int flush(struct side *s)
{
	int err = tutti_put(s->win, 1, s->local, 8, 0);

	return err ? err : tutti_win_flush(s->win, 1);
}

static int fetch(struct side *s)
{
	uint64_t old;

	return tutti_fetch_add(s->win, 1, 1, 0, &old);
}

static int close_window(struct side *s)
{
	int err = tutti_win_free(s->win);

	tutti_free(s->local);
	tutti_free(s->mem);
	return err;
}

/* ---- a parameter server: rank 1 serves, and its caller waits in a barrier meanwhile ---- */

static int open_server(struct side *s, int staleness)
{
	struct tutti_ps_config config = {.size = sizeof(config), .staleness = staleness};

	config.role = s->me ? TUTTI_PS_SERVER : TUTTI_PS_WORKER;
	return tutti_ps_open(s->world, &config, &s->ps);
}

static int open_rows(struct side *s)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	uint64_t i;
	int err = open_server(s, TUTTI_PS_ASYNC);

	s->key = malloc(ROWS * sizeof(*s->key));
	s->value = calloc(ROWS * WIDTH, sizeof(*s->value));
	for (i = 0; i < ROWS; i++)
		s->key[i] = i * 7919;
	return err ? err
		   : tutti_ps_rows(s->ps, "rows", WIDTH, ROWS, TUTTI_FLOAT32, &opt, &s->table);
}

static int pull_rows(struct side *s)
{
	return tutti_ps_pull_rows(s->table, s->key, ROWS, s->value, TUTTI_FLOAT32);
}

static int open_dense(struct side *s, int staleness, int essp)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO, .essp = essp};
	int err = open_server(s, staleness);

	s->value = calloc(TABLE, sizeof(*s->value));
	return err ? err : tutti_ps_dense(s->ps, "t", TABLE, TUTTI_FLOAT32, &opt, &s->table);
}

static int open_essp(struct side *s)
{
	return open_dense(s, 0, 1);
}

static int open_async(struct side *s)
{
	return open_dense(s, TUTTI_PS_ASYNC, 0);
}

static int push_pull(struct side *s)
{
	int err = tutti_ps_push(s->table, s->value, 0, TABLE, TUTTI_FLOAT32);

	return err ? err : tutti_ps_pull(s->table, s->value, 0, TABLE, TUTTI_FLOAT32);
}

static int one_clock(struct side *s)
{
	int err = tutti_ps_push(s->table, s->value, 0, 1, TUTTI_FLOAT32);

	if (!err)
		err = tutti_ps_clock(s->ps);
	return err ? err : tutti_ps_pull(s->table, s->value, 0, TABLE, TUTTI_FLOAT32);
}

static int close_server(struct side *s)
{
	int err = tutti_ps_close(s->ps);

	free(s->key);
	free(s->value);
	return err;
}

/* ---- both ranks ---- */

static int open_memory(struct side *s)
{
	s->local = calloc(2, BIG);
	return s->local ? 0 : -1;
}

static int reduce(struct side *s)
{
	return tutti_allreduce(TUTTI_IN_PLACE, s->local, BIG / 16, TUTTI_FLOAT32, TUTTI_SUM,
			       s->world);
}

static int swap(struct side *s)
{
	return tutti_sendrecv(s->local, BIG, TUTTI_UINT8, !s->me, 1, s->local + BIG, BIG,
			      TUTTI_UINT8, !s->me, 1, s->world, NULL);
}

static int close_memory(struct side *s)
{
	free(s->local);
	return 0;
}

static const struct cell {
	const char *name;
	bool both; /* both ranks call */
	int (*open)(struct side *), (*run)(struct side *), (*close)(struct side *);
} cells[] = {
	{"get", false, open_window, get, close_window},
	{"flush", false, open_window, flush, close_window},
	{"fetch_add", false, open_window, fetch, close_window},
	{"pull_rows", false, open_rows, pull_rows, close_server},
	{"push_pull", false, open_async, push_pull, close_server},
	{"clock", false, open_essp, one_clock, close_server},
	{"allreduce", true, open_memory, reduce, close_memory},
	{"sendrecv", true, open_memory, swap, close_memory},
};

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int measure(struct side *s, const struct cell *cell, int times)
{
	struct tutti_stats stats = {.size = sizeof(stats)};
	double *t = calloc((size_t)times, sizeof(*t)), sum[2], start;
	struct rusage used;
	int i, err = tutti_barrier(s->world);

	for (i = -WARM; i < times && t && !err && (cell->both || !s->me); i++) {
		start = now();
		err = cell->run(s);
		t[i < 0 ? 0 : i] = now() - start;
	}
	if (!err)
		err = tutti_barrier(s->world);
	tutti_stats_get(s->ctx, &stats);
	getrusage(RUSAGE_SELF, &used);
	sum[0] = (double)stats.sleeps;
	sum[1] = (double)used.ru_nvcsw;
	if (!err)
		err = tutti_allreduce(TUTTI_IN_PLACE, sum, 2, TUTTI_FLOAT64, TUTTI_SUM, s->world);
	if (!t || err)
		return -1;
	qsort(t, (size_t)times, sizeof(*t), by_size);
	if (!s->me)
		printf("%s %.1f %.3f %.3f\n", cell->name, t[times / 2], sum[0] / times,
		       sum[1] / times);
	free(t);
	return 0;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	int times = argc == 3 ? whole_number(argv[2]) : 0, err;
	const struct cell *cell = cells, *end = cells + sizeof(cells) / sizeof(cells[0]);
	struct side s = {0};

	while (cell < end && strcmp(cell->name, name))
		cell++;
	if (cell == end || times < 1)
		return fprintf(stderr,
			       "waits: give an operation and how often, a whole number from 1\n"),
		       2;
	err = tutti_init(NULL, &s.ctx);
	if (err)
		return fprintf(stderr, "waits: %s\n", tutti_strerror(err)), 1;
	s.world = tutti_world(s.ctx);
	s.me = tutti_comm_rank(s.world);
	if (tutti_comm_size(s.world) != 2)
		return fprintf(stderr, "waits: run two ranks\n"), 2;
	err = cell->open(&s);
	if (!err)
		err = measure(&s, cell, times);
	if (err)
		fprintf(stderr, "waits: %s failed\n", name);
	return cell->close(&s) || tutti_finalize(s.ctx) || err;
}
