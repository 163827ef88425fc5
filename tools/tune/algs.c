/* SPDX-License-Identifier: BSD-3-Clause */
/* Measures how long each algorithm takes, at which sizes, and with how many lanes. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tune/tune.h"

#define TURNS 5
#define CALLS 10 /* at least, in a turn: tune_time */
#define MOST 32
#define CONTENDS 2 /* times the best one's time */

/* Some collective's name is in the list, or the list is of all. */
static bool listed(const struct job *job, enum tt_coll coll)
{
	const char *name = tt_coll_name(coll), *at = job->opt.collectives;
	size_t len = strlen(name);

	if (!strcmp(at, "all"))
		return true;
	for (; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		if (!strncmp(at, name, len) && (at[len] == ',' || !at[len]))
			return true;
	return false;
}

static size_t most_bytes(const struct job *job, enum tt_coll coll)
{
	return tt_coll_blocks(coll) ? job->opt.max_bytes / (size_t)job->n : job->opt.max_bytes;
}

static size_t next_size(const struct job *job, size_t bytes)
{
	size_t next = (size_t)((double)bytes * job->opt.factor) / ELEM * ELEM;

	return next > bytes ? next : bytes + ELEM;
}

static int force(struct job *job, const struct tt_alg *alg, char *rule, size_t size)
{
	snprintf(rule, size, "%s:%s", tt_coll_name(alg->coll), alg->name);
	return tune_force(job, job->comm, rule, job->tune);
}

/* ---- turns ---- */

/*
 * The speed of a machine changes meanwhile: a virtual machine's cores may be two threads of one
 * core now, and far apart a second later, which makes short messages five times as slow. So
 * algorithms take turns, and the result is the median of an algorithm's share of each turn. All
 * ranks compute the same result, because they use the same measurements and only operations that
 * IEEE 754 defines to the last bit.
 */
struct contender {
	const struct tt_alg *alg;
	bool near; /* to the best, in the first two turns: it takes part in the others */
	double turn[TURNS], time;
};

static int list_algs(const struct job *job, enum tt_coll coll, size_t bytes, struct contender *list)
{
	struct tt_plan_args args = {
		.coll = coll, .nranks = job->n, .count = bytes / ELEM, .elem = ELEM};
	const struct tt_alg *alg;
	int n = 0;

	tt_comm_place(job->comm, &args);
	for (alg = tt_algs; alg->name && n < MOST; alg++)
		if (alg->coll == coll && tt_alg_can(alg, &args))
			list[n++] = (struct contender){.alg = alg, .near = true};
	return n;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(const double *value, int n)
{
	double sorted[TURNS];

	memcpy(sorted, value, (size_t)n * sizeof(*value));
	qsort(sorted, (size_t)n, sizeof(*sorted), by_value);
	return sorted[n / 2];
}

/* Every other turn begins with the last one. */
static int take_turn(struct job *job, size_t bytes, struct contender *list, int n, int turn)
{
	struct contender *c;
	char rule[64];
	int i, err = 0;

	for (i = 0; i < n && !err; i++) {
		c = &list[turn % 2 ? n - 1 - i : i];
		if (!c->near)
			continue;
		err = force(job, c->alg, rule, sizeof(rule));
		if (!err)
			err = tune_time(job, job->comm, c->alg->coll, bytes,
					job->opt.seconds / TURNS, &c->turn[turn]);
	}
	return err;
}

static double lesser(double a, double b)
{
	return a < b ? a : b;
}

static double greater(double a, double b)
{
	return a > b ? a : b;
}

/*
 * The time of the best algorithm, in its slower turn of two: the compared algorithm may have been
 * slowed in both.
 */
static double best_of(const struct contender *list, int n, int turns)
{
	double best = INFINITY;
	int i;

	for (i = 0; i < n; i++)
		best = lesser(best, greater(list[i].turn[0], list[i].turn[turns - 1]));
	return best;
}

/* The time of a turn for the algorithms that were in all turns. */
static double length_of(const struct contender *list, int n, int turn)
{
	double sum = 0;
	int i;

	for (i = 0; i < n; i++)
		sum += list[i].near ? list[i].turn[turn] : 0;
	return sum;
}

static void find_times(struct contender *list, int n, int turns)
{
	double length[TURNS], share[TURNS], typical;
	int i, turn;

	for (turn = 0; turn < turns; turn++)
		length[turn] = length_of(list, n, turn);
	typical = median(length, turns);
	for (i = 0; i < n; i++) {
		for (turn = 0; turn < turns; turn++)
			share[turn] = list[i].turn[turn] / length[turn];
		list[i].time = typical * (list[i].near ? median(share, turns) : share[0]);
	}
}

/*
 * The number of turns of calls of this length that fit into the requested time; odd, so that there
 * is a median.
 */
static int turns_of(const struct job *job, double time, int most)
{
	double n = job->opt.seconds * 1e9 / (CALLS * time);

	return n < 3 ? 1 : n < most ? (int)n - !((int)n % 2) : most;
}

/*
 * All twice, then those again that took at most contends times as long as the best; all once if
 * they take long.
 */
static int time_all(struct job *job, size_t bytes, struct contender *list, int n, double contends)
{
	int err = take_turn(job, bytes, list, n, 0), turns, turn, i;
	double best;

	if (err)
		return err;
	turns = turns_of(job, best_of(list, n, 1), TURNS);
	for (turn = 1; turn < turns && !err; turn++) {
		err = take_turn(job, bytes, list, n, turn);
		best = best_of(list, n, 2);
		for (i = 0; i < n && turn == 1; i++)
			list[i].near = lesser(list[i].turn[0], list[i].turn[1]) <= contends * best;
	}
	if (!err)
		find_times(list, n, turns);
	return err;
}

/* ---- sizes ---- */

static int measure_size(struct job *job, enum tt_coll coll, size_t bytes, struct contender *list,
			int n)
{
	int i, err = n ? time_all(job, bytes, list, n, CONTENDS) : 0;

	for (i = 0; i < n && !err; i++) {
		struct tt_point point = {
			.coll = coll, .bytes = bytes, .time = list[i].time, .ratio = 1};

		snprintf(point.algo, sizeof(point.algo), "%s", list[i].alg->name);
		job->tune = tt_tune_add(job->tune, &point);
		if (!job->tune)
			err = tt_fail(-ENOMEM, "no memory for so many measured times");
	}
	return err;
}

static int measure_coll(struct job *job, enum tt_coll coll)
{
	struct contender list[MOST];
	int n = list_algs(job, coll, ELEM, list), err = 0;
	size_t bytes;

	for (bytes = ELEM; !err && bytes <= most_bytes(job, coll); bytes = next_size(job, bytes))
		err = measure_size(job, coll, bytes, list, list_algs(job, coll, bytes, list));
	if (!err && !job->rank) {
		printf("# %s: %d algorithms measured\n", tt_coll_name(coll), n);
		fflush(stdout);
	}
	return err;
}

static int measure_colls(struct job *job)
{
	int coll, err = 0;

	for (coll = 0; coll < TT_NUM_COLLS && !err && job->n > 1; coll++)
		if (tune_measured((enum tt_coll)coll) && listed(job, (enum tt_coll)coll))
			err = measure_coll(job, (enum tt_coll)coll);
	return err;
}

/* ---- crossovers ---- */

#define CLOSER 2 /* times the sizes around one are halved */

/* The measured time; 0: none. */
static double time_at(const struct job *job, enum tt_coll coll, const char *algo, size_t bytes)
{
	const struct tt_point *p, *end = job->tune->points + job->tune->npoints;

	for (p = job->tune->points; p < end; p++)
		if (p->coll == coll && p->bytes == bytes && !strcmp(p->algo, algo))
			return p->time;
	return 0;
}

static const struct tt_alg *best_at(const struct job *job, enum tt_coll coll, size_t bytes,
				    double *best)
{
	const struct tt_alg *alg, *found = NULL;
	double time;

	for (alg = tt_algs; alg->name; alg++) {
		time = alg->coll == coll ? time_at(job, coll, alg->name, bytes) : 0;
		if (time > 0 && (!found || time < *best)) {
			found = alg;
			*best = time;
		}
	}
	return found;
}

/* The least measured size above bytes; 0: none. */
static size_t size_above(const struct job *job, enum tt_coll coll, size_t bytes)
{
	size_t least = 0;
	int i;

	for (i = 0; i < job->tune->npoints; i++) {
		const struct tt_point *p = &job->tune->points[i];

		if (p->coll == coll && p->bytes > bytes && (!least || p->bytes < least))
			least = p->bytes;
	}
	return least;
}

/* Between two sizes, the algorithms near the best at either. */
static int measure_between(struct job *job, enum tt_coll coll, size_t low, size_t high)
{
	double best[2] = {0}, time[2];
	size_t mid = (size_t)sqrt((double)low * (double)high) / ELEM * ELEM;
	struct contender list[MOST];
	int n = 0, i, all;

	if (best_at(job, coll, low, &best[0]) == best_at(job, coll, high, &best[1]) || mid <= low)
		return 0;
	all = list_algs(job, coll, mid, list);
	for (i = 0; i < all; i++) {
		time[0] = time_at(job, coll, list[i].alg->name, low);
		time[1] = time_at(job, coll, list[i].alg->name, high);
		if ((time[0] && time[0] <= CONTENDS * best[0]) ||
		    (time[1] && time[1] <= CONTENDS * best[1]))
			list[n++] = list[i];
	}
	return measure_size(job, coll, mid, list, n);
}

/* All ranks have measured the same, so all find the same sizes. */
static int measure_crossovers(struct job *job)
{
	size_t low, high;
	int coll, i, err = 0;

	for (coll = 0; coll < TT_NUM_COLLS && !err; coll++)
		for (i = 0; i < CLOSER && !err; i++)
			for (low = size_above(job, (enum tt_coll)coll, 0); low && !err;
			     low = high) {
				high = size_above(job, (enum tt_coll)coll, low);
				if (high)
					err = measure_between(job, (enum tt_coll)coll, low, high);
			}
	return err;
}

/* ---- lanes ---- */

#define FEWER 0.97 /* of the time, for one lane to be worth it */
#define LANE_TURNS 3

static int time_lanes(struct job *job, const struct tt_alg *alg, size_t bytes, int lanes,
		      double *sum)
{
	int model = job->agreed.lanes, err;
	char rule[64];
	double time;

	job->agreed.lanes = lanes;
	err = force(job, alg, rule, sizeof(rule));
	job->agreed.lanes = model;
	if (!err)
		err = tune_time(job, job->comm, alg->coll, bytes, job->opt.seconds / LANE_TURNS,
				&time);
	if (!err)
		*sum += time;
	return err;
}

/*
 * Concurrent pieces fill a line; if processors are the bottleneck, one piece after the other is
 * less work. No model knows which applies, so both are measured, in turns.
 */
static int measure_lanes_of(struct job *job, const struct tt_alg *alg, struct tt_point *p)
{
	struct tt_plan_args args = {
		.coll = p->coll, .nranks = job->n, .count = p->bytes / ELEM, .elem = ELEM};
	int turns = turns_of(job, p->time, LANE_TURNS), turn;
	double by_model = 0, by_one = 0;
	char rule[64];
	int err = force(job, alg, rule, sizeof(rule));

	if (err)
		return err;
	tt_comm_place(job->comm, &args);
	tt_choose(job->comm->chooser, &args);
	if (args.lanes < 2)
		return 0;
	for (turn = 0; turn < turns && !err; turn++) {
		err = time_lanes(job, alg, p->bytes, job->agreed.lanes, &by_model);
		if (!err)
			err = time_lanes(job, alg, p->bytes, 1, &by_one);
	}
	if (err || by_one >= FEWER * by_model)
		return err;
	p->lanes = 1;
	p->time *= by_one / by_model;
	return 0;
}

/* Measure fewer lanes for each algorithm whose time is near the best. */
static int measure_lanes(struct job *job)
{
	const struct tt_alg *alg;
	double best = 0;
	int i, err = 0;

	for (i = 0; i < job->tune->npoints && !err; i++) {
		struct tt_point *p = &job->tune->points[i];

		alg = tt_alg_find(p->coll, p->algo);
		if (alg && best_at(job, p->coll, p->bytes, &best) && p->time <= CONTENDS * best)
			err = measure_lanes_of(job, alg, p);
	}
	return err;
}

int tune_algs(struct job *job)
{
	int err = measure_colls(job);

	if (!err)
		err = measure_crossovers(job);
	return err ? err : measure_lanes(job);
}

/* ---- the choice, against every algorithm ---- */

static const struct tt_alg *pick_of(struct job *job, enum tt_coll coll, size_t bytes)
{
	struct tt_plan_args args = {
		.coll = coll, .nranks = job->n, .count = bytes / ELEM, .elem = ELEM};

	tt_comm_place(job->comm, &args);
	return tt_choose(job->comm->chooser, &args);
}

static int compare(struct job *job, enum tt_coll coll, size_t bytes, double *last)
{
	struct contender list[MOST], *best = NULL;
	const struct tt_alg *taken;
	double picked = 0;
	int err = tune_force(job, job->comm, "", job->tune), i,
	    n = list_algs(job, coll, bytes, list);

	if (err || !n)
		return err;
	taken = pick_of(job, coll, bytes);
	err = time_all(job, bytes, list, n, INFINITY);
	if (err)
		return err;
	for (i = 0; i < n; i++) {
		if (list[i].alg == taken)
			picked = list[i].time;
		if (!best || list[i].time < best->time)
			best = &list[i];
	}
	if (!job->rank)
		printf("  %-20s %10zu %-18s %12.1f %-18s %12.1f %7.2f %s\n", tt_coll_name(coll),
		       bytes, taken->name, picked / 1e3, best->alg->name, best->time / 1e3,
		       picked / best->time,
		       *last > 1.1 * picked ? "  less than the size before" : "");
	*last = picked;
	return 0;
}

int tune_verify(struct job *job)
{
	double last;
	size_t bytes;
	int coll, err = 0;

	if (!job->rank)
		printf("# %-20s %10s %-18s %12s %-18s %12s %7s\n", "collective", "bytes", "picked",
		       "us", "best", "us", "ratio");
	for (coll = 0; coll < TT_NUM_COLLS && !err && job->n > 1; coll++)
		for (bytes = 2 * ELEM, last = 0;
		     tune_measured((enum tt_coll)coll) && !err && listed(job, (enum tt_coll)coll) &&
		     bytes <= most_bytes(job, (enum tt_coll)coll);
		     bytes = next_size(job, bytes))
			err = compare(job, (enum tt_coll)coll, bytes, &last);
	return err;
}
