/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue and the requests of rl beside bare puts: rank 0 receives from all others. With two
 * ranks the bare form of requests is a ping-pong of puts with notifications, with more a loop over
 * the ranks. "make perf-rl" runs it. Times mean something on a quiet machine only.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/rl/rl.h"
#include "examples/seconds.h"

enum { ROUNDS = 9, SMALL = 64, MOST = 8 << 20 /* bytes of an actor's places */ };

struct speed {
	struct tutti_comm *world;
	int rank, actors;
	size_t size; /* of an item */
	int slots;   /* an actor's places in the queue */
	int items;   /* of an actor, in a round */
	int asks;    /* of a client, in a round */
};

typedef int round_fn(const struct speed *s, double *seconds);

/*
 * Collective, after a round: the seconds since the first rank began it. A rank may be well into the
 * round before rank 0 gets a core. All ranks are on one host: one clock.
 */
static int take_time(const struct speed *s, double begin, double *seconds)
{
	int err = tutti_barrier(s->world), end;

	end = tutti_allreduce(TUTTI_IN_PLACE, &begin, 1, TUTTI_FLOAT64, TUTTI_MIN, s->world);
	*seconds = now() - begin;
	return err ? err : end;
}

/* ---- items ---- */

static int items_queue(const struct speed *s, double *seconds)
{
	const void *item;
	struct queue *q;
	void *place;
	int err = queue_create(s->world, s->size, s->slots, &q), end, i, from;
	double begin;

	if (err)
		return err;
	err = tutti_barrier(s->world);
	begin = now();
	for (i = 0; s->rank && !err && i < s->items; i++) {
		err = queue_begin(q, &place);
		if (!err)
			err = queue_send(q, i + 1 < s->items);
	}
	for (i = 0; !s->rank && !err && i < s->items * s->actors; i++) {
		err = queue_take(q, &item, &from);
		if (!err)
			err = queue_done(q);
	}
	end = take_time(s, begin, seconds);
	err = err ? err : end;
	end = queue_free(q);
	return err ? err : end;
}

/* As many puts between flushes as the queue has places. */
static int items_put(const struct speed *s, double *seconds)
{
	size_t part = s->size * (size_t)s->slots, at;
	void *mem, *from = NULL;
	struct tutti_win *win = NULL;
	int err =
		tutti_win_allocate(s->world, s->rank ? 0 : part * (size_t)s->actors, 0, &mem, &win);
	double begin;
	int i, end;

	if (!err)
		err = tutti_alloc(tutti_comm_context(s->world), part, &from);
	if (!err)
		memset(from, 1, part);
	if (!err)
		err = tutti_barrier(s->world);
	begin = now();
	for (i = 0; s->rank && !err && i < s->items; i++) {
		at = (size_t)(i % s->slots) * s->size;
		err = tutti_put(win, 0, (char *)from + at, s->size,
				(size_t)(s->rank - 1) * part + at);
		if (!err && i % s->slots == s->slots - 1)
			err = tutti_win_flush(win, 0);
	}
	end = take_time(s, begin, seconds);
	err = err ? err : end;
	tutti_free(from);
	end = tutti_win_free(win);
	return err ? err : end;
}

/* ---- requests ---- */

static int asks_ask(const struct speed *s, double *seconds)
{
	int *from = calloc((size_t)s->actors, sizeof(*from)), n, i, k;
	const void *answer;
	struct ask *ask = NULL;
	int err = from ? ask_create(s->world, SMALL, SMALL, &ask) : -ENOMEM, end;
	double begin;

	if (!err)
		err = tutti_barrier(s->world);
	begin = now();
	for (i = 0; s->rank && !err && i < s->asks; i++)
		err = ask_send(ask, &answer);
	for (i = 0; !s->rank && !err && i < s->asks * s->actors; i += n) {
		err = ask_gather(ask, from, &n);
		for (k = 0; k < n && !err; k++)
			err = ask_reply(ask, from[k], false);
	}
	end = take_time(s, begin, seconds);
	err = err ? err : end;
	end = ask_free(ask);
	free(from);
	return err ? err : end;
}

/* The server of the bare loop: one client is waited for, several are tried in turn. */
static int serve(const struct speed *s, struct tutti_win *win, const void *answer)
{
	int err = 0, i, r = 0, done = 1;

	for (i = 0; !err && i < s->asks * s->actors; i += done) {
		r = r % s->actors + 1;
		err = s->actors > 1 ? tutti_test_notify(win, r, 1, &done)
				    : tutti_wait_notify(win, r, 1);
		if (!err && done)
			err = tutti_put_notify(win, r, answer, SMALL, 0);
	}
	return err;
}

static int asks_put(const struct speed *s, double *seconds)
{
	void *mem, *from = NULL;
	struct tutti_win *win = NULL;
	int err = tutti_win_allocate(s->world, SMALL * (size_t)(s->actors + 1), 0, &mem, &win);
	double begin;
	int i, end;

	if (!err)
		err = tutti_alloc(tutti_comm_context(s->world), SMALL, &from);
	if (!err)
		memset(from, 1, SMALL);
	if (!err)
		err = tutti_barrier(s->world);
	begin = now();
	for (i = 0; s->rank && !err && i < s->asks; i++) {
		err = tutti_put_notify(win, 0, from, SMALL, SMALL * (uint64_t)s->rank);
		if (!err)
			err = tutti_wait_notify(win, 0, 1);
	}
	if (!s->rank && !err)
		err = serve(s, win, from);
	end = take_time(s, begin, seconds);
	err = err ? err : end;
	tutti_free(from);
	end = tutti_win_free(win);
	return err ? err : end;
}

/* ---- rounds ---- */

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Both forms in turn; the medians. */
static int both(const struct speed *s, round_fn *one, round_fn *two, double *median)
{
	double seconds[2][ROUNDS];
	int err = 0, i;

	for (i = 0; i < ROUNDS && !err; i++) {
		err = one(s, &seconds[0][i]);
		if (!err)
			err = two(s, &seconds[1][i]);
	}
	for (i = 0; i < 2 && !err; i++) {
		qsort(seconds[i], ROUNDS, sizeof(double), by_size);
		median[i] = seconds[i][ROUNDS / 2];
	}
	return err;
}

static int run_items(struct speed *s)
{
	static const size_t sizes[] = {sizeof(struct trajectory), 65536, 1048576};
	double t[2], all;
	int err = 0;
	size_t i;

	for (i = 0; i < 3 && !err && sizes[i] * (size_t)s->slots <= MOST; i++) {
		s->size = (sizes[i] + 63) / 64 * 64;
		s->items = (int)(((size_t)64 << 20) / s->size / (size_t)s->actors) + s->slots;
		all = (double)s->size * s->items * s->actors / 1e9;
		err = both(s, items_queue, items_put, t);
		if (!err && !s->rank)
			printf("%d actors, %d places, items of %zu bytes: queue %.2f GB/s, "
			       "puts %.2f GB/s: %.2f\n",
			       s->actors, s->slots, s->size, all / t[0], all / t[1], t[1] / t[0]);
	}
	return err;
}

static int run(struct speed *s)
{
	static const int slots[] = {4, 8, 64};
	double t[2], all;
	int err = 0, i;

	for (i = 0; i < 3 && !err; i++) {
		s->slots = slots[i];
		err = run_items(s);
	}
	s->asks = 20000 / s->actors;
	if (!err)
		err = both(s, asks_ask, asks_put, t);
	all = (double)s->asks * s->actors;
	if (!err && !s->rank)
		printf("%d actors: %.0f requests/s (%.2f us), bare puts with notifications %.0f "
		       "(%.2f us): %.2f of their rate\n",
		       s->actors, all / t[0], t[0] / all * 1e6, all / t[1], t[1] / all * 1e6,
		       t[1] / t[0]);
	return err;
}

int main(void)
{
	struct tutti_config config = {.size = sizeof(config), .tolerant = 1};
	struct tutti_context *ctx;
	struct speed s = {0};
	int err = tutti_init(&config, &ctx);

	if (err)
		return 1;
	s.world = tutti_world(ctx);
	s.rank = tutti_comm_rank(s.world);
	s.actors = tutti_comm_size(s.world) - 1;
	if (s.actors < 1)
		fprintf(stderr, "rl_speed: it needs 2 ranks or more\n");
	else
		err = run(&s);
	if (err)
		fprintf(stderr, "rl_speed: rank %d: %s\n", s.rank, tutti_strerror(err));
	return tutti_finalize(ctx) || err || s.actors < 1;
}
