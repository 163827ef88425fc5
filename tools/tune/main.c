/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tutti_tune: what messages cost in this job, how long each algorithm takes, and a table of that for
 * the jobs to come.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tutti/error.h>
#include <unistd.h>

#include "lib/base/env.h"
#include "tools/tune/tune.h"
#include "tools/values.h"

const char cli_prog[] = "tutti_tune";

int tune_fail(const struct job *job, const char *what, int err)
{
	if (!job->rank)
		cli_fail("%s: %s", what, tt_fail_text(err));
	return -1;
}

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

static int measure_point(struct job *job, const struct tt_alg *alg, size_t bytes)
{
	struct tt_point point = {.coll = alg->coll, .bytes = bytes, .ratio = 1};
	int err;

	snprintf(point.algo, sizeof(point.algo), "%s", alg->name);
	err = tune_time(job, job->comm, alg->coll, bytes, job->opt.seconds, &point.time);
	if (err)
		return err;
	job->tune = tt_tune_add(job->tune, &point);
	return job->tune ? 0 : tt_fail(-ENOMEM, "no memory for so many measured times");
}

static int force(struct job *job, const struct tt_alg *alg, char *rule, size_t size)
{
	snprintf(rule, size, "%s:%s", tt_coll_name(alg->coll), alg->name);
	return tune_force(job, job->comm, rule, job->tune);
}

/* All sizes by one algorithm, cut as the model of this very table says. */
static int measure_alg(struct job *job, const struct tt_alg *alg)
{
	struct tt_plan_args args = {
		.coll = alg->coll, .nranks = job->n, .count = 1, .elem = ELEM};
	char rule[64];
	size_t bytes;
	int err;

	tt_comm_place(job->comm, &args);
	if (alg->can && !alg->can(&args))
		return 0;
	err = force(job, alg, rule, sizeof(rule));
	for (bytes = ELEM; !err && bytes <= most_bytes(job, alg->coll);
	     bytes = next_size(job, bytes))
		err = measure_point(job, alg, bytes);
	if (!err && !job->rank)
		printf("# %s: measured\n", rule);
	return err;
}

static int measure_algs(struct job *job)
{
	const struct tt_alg *alg;
	int err = 0;

	for (alg = tt_algs; alg->name && !err && job->n > 1; alg++)
		if (tune_measured(alg->coll) && listed(job, alg->coll))
			err = measure_alg(job, alg);
	return err;
}

/* ---- crossovers ---- */

#define CLOSER 2   /* times the sizes around one are halved */
#define CONTENDS 2 /* times the best one's time */

/* The measured time; 0: none. */
static double time_at(const struct job *job, enum tt_coll coll, const char *algo, size_t bytes)
{
	const struct tt_point *p, *end = job->tune->points + job->tune->npoints;

	for (p = job->tune->points; p < end; p++)
		if (p->coll == coll && p->bytes == bytes && !strcmp(p->algo, algo))
			return p->time;
	return 0;
}

static const struct tt_alg *best_at(const struct job *job, enum tt_coll coll, size_t bytes, double *best)
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

/* Between two sizes, those that are not far from the best at either. */
static int measure_between(struct job *job, enum tt_coll coll, size_t low, size_t high)
{
	double best[2] = {0}, time[2];
	size_t mid = (size_t)sqrt((double)low * (double)high) / ELEM * ELEM;
	const struct tt_alg *alg, *winner[2];
	char rule[64];
	int err = 0;

	winner[0] = best_at(job, coll, low, &best[0]);
	winner[1] = best_at(job, coll, high, &best[1]);
	if (winner[0] == winner[1] || mid <= low)
		return 0;
	for (alg = tt_algs; alg->name && !err; alg++) {
		if (alg->coll != coll)
			continue;
		time[0] = time_at(job, coll, alg->name, low);
		time[1] = time_at(job, coll, alg->name, high);
		if (!time[0] || !time[1] ||
		    (time[0] > CONTENDS * best[0] && time[1] > CONTENDS * best[1]))
			continue;
		err = force(job, alg, rule, sizeof(rule));
		if (!err)
			err = measure_point(job, alg, mid);
	}
	return err;
}

/* All ranks have measured the same, so all find the same sizes. */
static int measure_crossovers(struct job *job)
{
	size_t low, high;
	int coll, i, err = 0;

	for (coll = 0; coll < TT_NUM_COLLS && !err; coll++)
		for (i = 0; i < CLOSER && !err; i++)
			for (low = size_above(job, (enum tt_coll)coll, 0); low && !err; low = high) {
				high = size_above(job, (enum tt_coll)coll, low);
				if (high)
					err = measure_between(job, (enum tt_coll)coll, low, high);
			}
	return err;
}

/* ---- lanes ---- */

#define FEWER 0.97 /* of the time, for one lane to be worth it */

/*
 * Pieces on their way at the same time fill a line; where the processors are what is short, one after the other is less
 * work. No model knows which it is: both are measured, one after the other.
 */
static int measure_lanes_of(struct job *job, const struct tt_alg *alg, struct tt_point *p)
{
	struct tt_plan_args args = {.coll = p->coll, .nranks = job->n, .count = p->bytes / ELEM, .elem = ELEM};
	double by_model, by_one;
	char rule[64];
	int err = force(job, alg, rule, sizeof(rule)), lanes = job->agreed.lanes;

	if (err)
		return err;
	tt_comm_place(job->comm, &args);
	tt_choose(job->comm->chooser, &args);
	if (args.lanes < 2)
		return 0;
	err = tune_time(job, job->comm, p->coll, p->bytes, job->opt.seconds, &by_model);
	job->agreed.lanes = 1;
	if (!err)
		err = force(job, alg, rule, sizeof(rule));
	if (!err)
		err = tune_time(job, job->comm, p->coll, p->bytes, job->opt.seconds, &by_one);
	job->agreed.lanes = lanes;
	if (err)
		return err;
	p->lanes = by_one < FEWER * by_model;
	p->time = p->lanes ? by_one : by_model;
	return 0;
}

/* Of those that are not far from the best. */
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

/* ---- what is picked, against every algorithm ---- */

#define TURNS 5
#define MOST 32

struct result {
	const struct tt_alg *alg;
	double turn[TURNS], time; /* the median */
};

static int list_algs(enum tt_coll coll, const struct tt_plan_args *args, struct result *list)
{
	const struct tt_alg *alg;
	int n = 0;

	for (alg = tt_algs; alg->name && n < MOST; alg++)
		if (alg->coll == coll && (!alg->can || alg->can(args)))
			list[n++].alg = alg;
	return n;
}

static int time_turn(struct job *job, struct result *r, int turn, size_t bytes)
{
	char rule[64];
	int err = force(job, r->alg, rule, sizeof(rule));

	return err ? err
		   : tune_time(job, job->comm, r->alg->coll, bytes, job->opt.seconds / TURNS,
			       &r->turn[turn]);
}

static int by_time(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Turns of all algorithms, one after another, so that all have the same weather. */
static int compare(struct job *job, enum tt_coll coll, size_t bytes, double *last)
{
	struct result list[MOST], *best = NULL;
	const struct tt_alg *taken;
	struct tt_plan_args args = {
		.coll = coll, .nranks = job->n, .count = bytes / ELEM, .elem = ELEM};
	double picked = 0;
	int err, turn, i, n;

	tt_comm_place(job->comm, &args);
	n = list_algs(coll, &args, list);
	err = tune_force(job, job->comm, "", job->tune);
	if (err)
		return err;
	taken = tt_choose(job->comm->chooser, &args);
	for (turn = 0; turn < TURNS; turn++)
		for (i = 0; !err && i < n; i++)
			err = time_turn(job, &list[i], turn, bytes);
	if (err)
		return err;
	for (i = 0; i < n; i++) {
		qsort(list[i].turn, TURNS, sizeof(double), by_time);
		list[i].time = list[i].turn[TURNS / 2];
		if (list[i].alg == taken)
			picked = list[i].time;
		if (!best || list[i].time < best->time)
			best = &list[i];
	}
	if (!best)
		return 0;
	if (!job->rank)
		printf("  %-20s %10zu %-18s %12.1f %-18s %12.1f %7.2f %s\n", tt_coll_name(coll),
		       bytes, taken->name, picked / 1e3, best->alg->name, best->time / 1e3,
		       picked / best->time, *last > 1.1 * picked ? "  less than the size before" : "");
	*last = picked;
	return 0;
}

static int verify(struct job *job)
{
	double last;
	size_t bytes;
	int coll, err = 0;

	if (!job->rank)
		printf("# %-20s %10s %-18s %12s %-18s %12s %7s\n", "collective", "bytes", "picked",
		       "us", "best", "us", "ratio");
	for (coll = 0; coll < TT_NUM_COLLS && !err && job->n > 1; coll++)
		for (bytes = 2 * ELEM, last = 0; tune_measured((enum tt_coll)coll) && !err &&
						 listed(job, (enum tt_coll)coll) &&
						 bytes <= most_bytes(job, (enum tt_coll)coll);
		     bytes = next_size(job, bytes))
			err = compare(job, (enum tt_coll)coll, bytes, &last);
	return err;
}

/* ---- the table ---- */

static void print_links(const struct job *job)
{
	const struct tt_tune *t = job->tune;
	int where, i;

	if (job->rank)
		return;
	printf("# hosts %s, %d ranks\n# reducing %.2f GB/s, copying %.2f GB/s\n", t->hosts,
	       t->nranks, 1 / t->gamma, 1 / t->copy);
	for (where = 0; where < 2; where++)
		for (i = 0; i < t->nlinks[where]; i++)
			printf("# %s, %s: alpha %.2f us, %.4f GB/s, overhead %.2f us\n",
			       t->links[where][i].name,
			       where ? "between hosts" : "inside a host",
			       t->links[where][i].hop.alpha / 1e3, 1 / t->links[where][i].hop.beta,
			       t->links[where][i].overhead / 1e3);
	fflush(stdout);
}

/* What other transports cost was measured before; it stays. */
static void keep_links(struct tt_tune *tune, const struct tt_tune *old)
{
	int where, i, k;

	for (where = 0; where < 2; where++)
		for (i = 0; i < old->nlinks[where]; i++) {
			for (k = 0; k < tune->nlinks[where]; k++)
				if (!strcmp(tune->links[where][k].name, old->links[where][i].name))
					break;
			if (k == tune->nlinks[where] && k < TT_TUNE_LINKS)
				tune->links[where][tune->nlinks[where]++] = old->links[where][i];
		}
}

/* Make the folders that lead to the default table. */
static void make_folders(char *path)
{
	char *slash;

	for (slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		mkdir(path, 0777);
		*slash = '/';
	}
}

/* Where the table goes, and that it can: better known before measuring than after. */
static int find_place(struct job *job)
{
	char *path = job->path, *slash;
	bool ok;
	int err = tt_tune_path(job->opt.output, path, sizeof(job->path));

	if (!err && !path[0])
		err = tt_fail(-EINVAL, "there is no home directory; -o says where to write");
	if (err)
		return err;
	if (!*job->opt.output)
		make_folders(path);
	slash = strrchr(path, '/');
	if (slash)
		*slash = 0; /* the table is written beside its place, then renamed */
	ok = !access(!slash ? "." : *path ? path : "/", W_OK | X_OK);
	if (slash)
		*slash = '/';
	return ok ? 0 : tt_fail(-errno, "cannot write %s: %s", path, strerror(errno));
}

static int save(struct job *job)
{
	struct tt_tunes tunes = {0};
	const struct tt_tune *old;
	const char *path = job->path;
	int err = tt_tunes_load(path, &tunes);

	if (err && err != -ENOENT)
		return err; /* not ours: it is not overwritten */
	old = tt_tunes_find(&tunes, job->tune->hosts, job->n);
	if (old && old->nranks == job->n)
		keep_links(job->tune, old);
	err = tt_tunes_put(&tunes, job->tune);
	if (!err) {
		job->tune = NULL;
		err = tt_tunes_save(path, &tunes);
	}
	tt_tunes_free(&tunes);
	if (!err)
		printf("# written to %s\n", path);
	return err;
}

static int begin(struct job *job)
{
	int32_t refused = job->rank ? 0 : find_place(job);
	int err = tutti_bcast(&refused, 1, TUTTI_INT32, 0, job->world);

	if (!err)
		err = refused ? refused : tt_agreed_get(job->ctx, &job->agreed);
	if (err)
		return err;
	job->tune = calloc(1, sizeof(*job->tune));
	if (!job->tune)
		return tt_fail(-ENOMEM, "no memory for a table");
	job->tune->nranks = job->n;
	job->room = job->opt.max_bytes > TUNE_LONG ? job->opt.max_bytes : TUNE_LONG;
	if (!err)
		err = tt_tune_job_hosts(job->ctx, job->tune->hosts, sizeof(job->tune->hosts));
	if (!err)
		err = tutti_alloc(job->ctx, job->room, &job->in);
	if (!err)
		err = tutti_alloc(job->ctx, job->room, &job->out);
	if (!err)
		err = tutti_comm_dup(job->world, &job->comm);
	return err;
}

static int work(struct job *job)
{
	const char *c;
	int err = begin(job);

	for (c = job->tune ? job->tune->hosts : "", job->tune ? job->tune->nhosts = 1 : 0; *c; c++)
		job->tune->nhosts += *c == ',';
	if (!err)
		err = tune_links(job);
	if (!err)
		print_links(job);
	if (!err && !job->opt.links_only)
		err = measure_algs(job);
	if (!err && !job->opt.links_only)
		err = measure_crossovers(job);
	if (!err && !job->opt.links_only)
		err = measure_lanes(job);
	if (!err && job->opt.verify)
		err = verify(job);
	if (!err && !job->rank)
		err = save(job);
	return err ? tune_fail(job, "not done", err) : 0;
}

int main(int argc, char **argv)
{
	struct job job = {0};
	int err = tune_parse(&job.opt, argc, argv);

	if (err)
		return err < 0 ? 2 : 0;
	setenv("TUTTI_TUNE_FILE", "none", 1); /* what is measured does not depend on an older one */
	setenv("TUTTI_LATE_AFTER", "60s", 0); /* the others wait while two ranks measure their link */
	err = tutti_init(NULL, &job.ctx);
	if (err)
		return 1;
	job.world = tutti_world(job.ctx);
	job.rank = tutti_comm_rank(job.world);
	job.n = tutti_comm_size(job.world);
	err = work(&job);
	free(job.tune);
	if (job.comm)
		tutti_comm_free(job.comm);
	if (job.in)
		tutti_free(job.in);
	if (job.out)
		tutti_free(job.out);
	if (tutti_finalize(job.ctx) && !err)
		err = tune_fail(&job, "finalize", -EIO);
	return err ? 1 : 0;
}
