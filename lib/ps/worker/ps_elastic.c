/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous elastic averaging (EASGD): x gives d = alpha (x - value) to the values of a table.
 *
 * The worker pulls the values and pushes d on the condition that their blocks have not changed
 * since: the server then adds d to just the values that d was computed from. It refuses the pieces
 * of other blocks, which the worker tries again with new values. Some worker's push of a block
 * always succeeds. x changes by what has been applied, so x + value is kept.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/base/clock.h"
#include "lib/ps/ps.h"
#include "lib/reduce/mix.h"
#include "lib/reduce/reduce.h"

#define PIECE ((size_t)4 << 20) /* bytes that travel together */
#define PAUSE_MOST 1000000	/* ns */

struct elastic {
	struct tutti_ps_table *t;
	const char *call;
	double alpha;
	char *room; /* the values, then the differences */
	struct tt_ps_pieces todo, refused;
};

/* The integer nearest to zero, modulo 2^64. */
static uint64_t whole(double d)
{
	const double most = 18446744073709549568.0;
	double size = d < 0 ? -d : d;
	uint64_t n = size < most ? (uint64_t)size : (uint64_t)most;

	return d < 0 ? -n : n;
}

/* room = alpha (x - room) */
static void differences(enum tutti_datatype type, const void *x, void *room, size_t count,
			double alpha)
{
	const int32_t *i32 = x;
	const int64_t *i64 = x;
	int32_t *to_i32 = room;
	int64_t *to_i64 = room;
	size_t i;

	if (type == TUTTI_FLOAT32 || type == TUTTI_FLOAT64)
		tt_reduce_differ(room, x, room, alpha, count, type);
	for (i = 0; i < count && type == TUTTI_INT32; i++)
		to_i32[i] = (int32_t)(uint32_t)whole(alpha * ((double)i32[i] - to_i32[i]));
	for (i = 0; i < count && type == TUTTI_INT64; i++)
		to_i64[i] = (int64_t)whole(alpha * ((double)i64[i] - (double)to_i64[i]));
}

/* x -= room */
static void give(enum tutti_datatype type, void *x, const void *room, size_t count)
{
	const void *both[] = {x, room};
	const uint32_t *u32 = room;
	const uint64_t *u64 = room;
	uint32_t *i32 = x;
	uint64_t *i64 = x;
	size_t i;

	if (type == TUTTI_FLOAT32 || type == TUTTI_FLOAT64)
		tt_reduce_weigh(x, both, (const double[]){1, -1}, 2, count, type);
	for (i = 0; i < count && type == TUTTI_INT32; i++)
		i32[i] -= u32[i];
	for (i = 0; i < count && type == TUTTI_INT64; i++)
		i64[i] -= u64[i];
}

/* Tries piece p of x, which begins at element `base` of the table; refused parts are added to
 * again. */
static int try_piece(struct elastic *e, char *x, uint64_t base, const struct tt_ps_piece *p,
		     struct tt_ps_pieces *again)
{
	struct tutti_ps_table *t = e->t;
	char *from = x + (p->offset - base) * t->elem;
	struct tt_ps_piece *r;
	size_t i;
	int err = tt_ps_pull(t, e->room, p->offset, p->count, e->call, NULL);

	if (err)
		return err;
	differences(t->datatype, from, e->room, p->count, e->alpha);
	err = tt_ps_push_unchanged(t, e->room, p->offset, p->count, &e->refused, e->call);
	if (err)
		return err;
	for (i = 0; i < e->refused.n; i++) {
		r = &e->refused.piece[i];
		memset(e->room + (r->offset - p->offset) * t->elem, 0, r->count * t->elem);
		again->piece[again->n++] = *r;
	}
	give(t->datatype, from, e->room, p->count);
	return 0;
}

/* Workers that were refused together come back at different times. */
static void pause_for(const struct tutti_ps *ps, int tries)
{
	long ns = (long)(ps->my_worker % 8 + 1) * 2000 * (tries < 8 ? tries : 8);
	struct timespec t = {.tv_nsec = ns < PAUSE_MOST ? ns : PAUSE_MOST};

	nanosleep(&t, NULL);
}

static int too_late(const struct elastic *e)
{
	return tt_fail(-ETIMEDOUT,
		       "%s of table '%s': other workers' pushes came between for %lld ms "
		       "(TUTTI_TIMEOUT)",
		       e->call, e->t->name, (long long)e->t->ps->comm->ctx->env.timeout.number);
}

/*
 * Elements offset to offset + count, for which there is room. The first try may be refused in many
 * pieces; each of these is within a block, so it comes back as one piece at most.
 */
static int run_range(struct elastic *e, char *x, uint64_t offset, uint64_t count)
{
	uint64_t due = tt_deadline_ms(e->t->ps->comm->ctx->env.timeout.number);
	size_t i, n;
	int tries, err = 0;

	e->todo.piece[0] = (struct tt_ps_piece){.offset = offset, .count = count};
	e->todo.n = 1;
	for (tries = 0; !err && e->todo.n; tries++) {
		if (tries)
			pause_for(e->t->ps, tries);
		n = e->todo.n;
		e->todo.n = 0;
		for (i = 0; i < n && !err; i++) {
			struct tt_ps_piece p = e->todo.piece[i];

			err = try_piece(e, x, offset, &p, &e->todo);
		}
		if (!err && e->todo.n && tt_passed(due))
			err = too_late(e);
	}
	return err;
}

static int prepare(struct elastic *e, uint64_t count)
{
	struct tutti_ps *ps = e->t->ps;
	size_t pieces = count / e->t->block_elems + 2 + (size_t)ps->nservers * 2;
	void *room;
	int err, tasks;

	tt_wire_lock(ps->comm->ctx->wire);
	tasks = ps->tasks;
	tt_wire_unlock(ps->comm->ctx->wire);
	if (tasks) /* a pull would change what this worker knows of versions */
		return tt_fail(-EBUSY, "%s: %d requests have not been waited for", e->call, tasks);
	e->todo.piece = malloc(2 * pieces * sizeof(*e->todo.piece));
	e->refused.piece = e->todo.piece ? e->todo.piece + pieces : NULL;
	if (!e->todo.piece)
		return tt_fail(-ENOMEM, "%s: no memory", e->call);
	err = tutti_alloc(ps->comm->ctx, count * e->t->elem + 1, &room);
	if (!err)
		e->room = room;
	return err;
}

int tt_ps_elastic(struct tutti_ps_table *t, void *x, uint64_t offset, uint64_t count, double alpha,
		  const char *call)
{
	struct elastic e = {.t = t, .call = call, .alpha = alpha};
	uint64_t most = PIECE / t->elem, at, n;
	int err = tt_ps_check_calls(t->ps);

	if (!err)
		err = prepare(&e, count < most ? count : most);
	for (at = 0; !err && at < count; at += n) {
		n = count - at < most ? count - at : most;
		err = run_range(&e, (char *)x + at * t->elem, offset + at, n);
	}
	tutti_free(e.room);
	free(e.todo.piece);
	return err;
}
