/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures how many bytes a rank can use until it no longer finds them in the cache: all-reduces of
 * one pair of buffers, which come again at once, and of several in turn, stored through the cache
 * and around it, with more bytes and fewer than the kernel's description of the caches says. The
 * ranks of one host take part, all at once.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/engine/node/node_ops.h"
#include "lib/node/stores.h"
#include "tools/tune/fit.h"
#include "tools/tune/tune.h"

#define TURNS 3
#define STEPS 8		    /* from a quarter of the assumed bytes to four times as many */
#define MOST (256ull << 20) /* bytes of a rank */
#define LEAST (64 << 10)    /* of a vector: shorter calls are not counted */
#define MOST_PASSES 100
#define VECTOR_UNIT ((size_t)4096)

static const int pairs_of[] = {1, 4, 16};
#define KINDS ((int)(sizeof(pairs_of) / sizeof(pairs_of[0])))

/* Buffers in turn. */
struct turn {
	struct job *job;
	char *memory;
	size_t vector; /* bytes */
	int pairs;
};

/* Each pair once; adds to *ns. */
static int pass(const struct turn *t, double *ns)
{
	uint64_t start = tt_now_ns();
	int i, err = 0;

	for (i = 0; i < t->pairs && !err; i++) {
		char *in = t->memory + 2 * (size_t)i * t->vector;

		err = tutti_allreduce(in, in + t->vector, t->vector / ELEM, TUTTI_FLOAT32,
				      TUTTI_SUM, t->job->comm);
	}
	*ns += (double)(tt_now_ns() - start);
	return err;
}

/* ns of a pass at the slowest rank, after one that fills the cache or does not. */
static int time_passes(const struct turn *t, bool stream, int n, double *ns)
{
	struct tutti_comm *comm = t->job->comm;
	int i, err;

	tt_node_comm_cache(comm, stream ? 1 : SIZE_MAX);
	err = pass(t, ns);
	if (!err)
		err = tutti_barrier(comm);
	*ns = 0;
	for (i = 0; i < n && !err; i++)
		err = pass(t, ns);
	*ns /= n;
	return err ? err : tutti_allreduce(TUTTI_IN_PLACE, ns, 1, TUTTI_FLOAT64, TUTTI_MAX, comm);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Both ways in turns, every other turn beginning with the other. */
static int measure_cell(const struct turn *t, struct tune_cell *cell)
{
	double ns[2][TURNS], first, n;
	int i, k, stream, err = time_passes(t, false, 1, &first);

	n = t->job->opt.seconds * 1e9 / (2 * TURNS) / first;
	n = n < 1 ? 1 : n > MOST_PASSES ? MOST_PASSES : n;
	for (i = 0; i < TURNS; i++)
		for (k = 0; k < 2 && !err; k++) {
			stream = (i + k) % 2;
			err = time_passes(t, stream, (int)n, &ns[stream][i]);
		}
	for (k = 0; k < 2 && !err; k++)
		qsort(ns[k], TURNS, sizeof(ns[k][0]), by_value);
	*cell = (struct tune_cell){.bytes = 2 * t->vector * (size_t)t->pairs,
				   .plain = ns[0][TURNS / 2],
				   .stream = ns[1][TURNS / 2]};
	return err;
}

static int measure_all(struct job *job, char *memory, size_t assumed, size_t room,
		       struct tune_cell *cells, int *n)
{
	size_t bytes;
	int step, kind, err = 0;

	*n = 0;
	for (step = -STEPS / 2; step <= STEPS / 2; step++) {
		bytes = (size_t)((double)assumed * pow(2, step / 2.0));
		for (kind = 0; kind < KINDS && bytes <= room && !err; kind++) {
			struct turn t = {.job = job, .memory = memory, .pairs = pairs_of[kind]};

			t.vector = bytes / (2 * (size_t)t.pairs) / VECTOR_UNIT * VECTOR_UNIT;
			if (t.vector >= LEAST)
				err = measure_cell(&t, &cells[(*n)++]);
		}
	}
	return err;
}

/* Memory on all ranks, or NULL on all: that is no error, but nothing is measured. */
static int get_memory(struct job *job, size_t room, char **memory)
{
	int32_t missing;
	void *got = NULL;
	int err;

	missing = tutti_alloc(job->ctx, room, &got) != 0;
	*memory = got;
	err = tutti_allreduce(TUTTI_IN_PLACE, &missing, 1, TUTTI_INT32, TUTTI_MAX, job->world);
	if (missing && got) {
		tutti_free(got);
		*memory = NULL;
	}
	return err;
}

static void say(const struct job *job, size_t share, size_t assumed)
{
	if (job->rank)
		return;
	printf("# a rank finds up to %.1f MiB in the cache (%.1f as described); more is stored "
	       "around it\n",
	       (double)share / (1 << 20), (double)assumed / (1 << 20));
	fflush(stdout);
}

int tune_cache(struct job *job)
{
	struct tune_cell cells[(STEPS + 1) * KINDS];
	size_t assumed = job->ctx->cache, room = 4 * assumed, share;
	char *memory;
	int n, err;

	if (job->tune->nhosts != 1 || !job->comm->node || assumed > MOST)
		return 0;
	room = room < MOST ? room : MOST;
	err = tune_force(job, job->comm, "", NULL);
	if (!err)
		err = get_memory(job, room, &memory);
	if (err || !memory)
		return err;
	memset(memory, 0, room);
	err = measure_all(job, memory, assumed, room, cells, &n);
	tt_node_comm_cache(job->comm, job->ctx->cache);
	tutti_free(memory);
	if (err || !n)
		return err;
	share = tune_fit(cells, n, assumed);
	job->tune->cache = tt_stores_whole(share, job->n);
	say(job, share, assumed);
	return 0;
}
