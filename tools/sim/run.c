/* SPDX-License-Identifier: BSD-3-Clause */
/* Simulates every combination of number of ranks, size and algorithm. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/env.h"
#include "lib/base/error.h"
#include "lib/codec/codec.h"
#include "lib/verify/check.h"
#include "tools/sim/sim.h"
#include "tools/values.h"

#define MAX_ALGS 32

struct algs {
	const struct tt_alg *alg[MAX_ALGS];
	int n;
};

static int find_alg(enum tt_coll coll, const char *word, const struct tt_alg **found)
{
	const char *names[MAX_ALGS], *near;
	const struct tt_alg *alg;
	int n = 0;

	*found = tt_alg_find(coll, word);
	if (*found)
		return 0;
	for (alg = tt_algs; alg->name; alg++)
		if (alg->coll == coll && n < MAX_ALGS)
			names[n++] = alg->name;
	near = tt_nearest(word, names, n);
	return cli_wrong("%s has no algorithm %s%s%s%s", tt_coll_name(coll), word,
			 near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static int list_algs(const struct options *opt, struct algs *algs)
{
	const struct tt_alg *alg;
	char *words, *word, *save = NULL;
	int err = 0;

	algs->n = 0;
	if (!opt->algorithms) {
		for (alg = tt_algs; alg->name && algs->n < MAX_ALGS; alg++)
			if (alg->coll == opt->coll && strcmp(alg->name, "single") != 0)
				algs->alg[algs->n++] = alg;
		return algs->n ? 0 : cli_wrong("%s has no algorithms", tt_coll_name(opt->coll));
	}
	words = strdup(opt->algorithms);
	if (!words)
		return cli_fail("no memory");
	for (word = strtok_r(words, ",", &save); word && !err && algs->n < MAX_ALGS;
	     word = strtok_r(NULL, ",", &save))
		err = find_alg(opt->coll, word, &algs->alg[algs->n++]);
	free(words);
	return err || algs->n ? err : cli_wrong("-a names no algorithm");
}

/* Blocks in the larger of the two buffers. */
static size_t blocks(enum tt_coll coll, int nranks)
{
	return tt_coll_blocks(coll) ? (size_t)nranks : 1;
}

/* As the model places ranks; NULL: no plans in two levels. The last ones are kept. */
static const struct tt_hosts *hosts_of(const struct tt_model *model, int nranks)
{
	static struct tt_hosts *hosts;
	static int of;

	if (of == nranks)
		return hosts;
	free(hosts);
	of = nranks;
	if (tt_hosts_blocks(nranks, model->ranks_per_host, &hosts))
		hosts = NULL;
	return hosts;
}

/* Of a list of that density. */
static size_t list_bytes(const struct options *opt, size_t count)
{
	double entries = opt->density / 100 * (double)count;

	return tt_codec_list_bound((size_t)entries + 1, count);
}

int sim_args(const struct options *opt, const struct tt_alg *alg, int nranks, size_t bytes,
	     struct tt_plan_args *args)
{
	struct tt_chooser *chooser;
	char rule[96];
	int err;

	*args = (struct tt_plan_args){.coll = opt->coll,
				      .nranks = nranks,
				      .root = opt->root,
				      .elem = ELEM,
				      .hosts = hosts_of(&opt->model, nranks),
				      .count = bytes / ELEM / blocks(opt->coll, nranks)};
	if (bytes && !args->count)
		args->count = 1;
	if (opt->codec.codec && tt_alg_codes(alg))
		args->codec = &opt->codec;
	if (args->codec && opt->density > 0)
		args->list = list_bytes(opt, args->count);
	err = sim_counts(opt, nranks, args->count, args);
	if (err)
		return err;
	snprintf(rule, sizeof(rule), "%s:%s", tt_coll_name(opt->coll), alg->name);
	err = tt_chooser_new(rule, opt->chunk, opt->lanes, &opt->model, &chooser);
	if (err) {
		sim_counts_free(args);
		return cli_fail("%s", tt_fail_text(err));
	}
	tt_choose(chooser, args);
	tt_chooser_free(chooser);
	return 0;
}

/* Operations of all ranks, guessed from the last one's plan. */
static double num_ops(const struct tt_alg *alg, const struct tt_plan_args *args)
{
	struct tt_plan_args a;
	struct tt_plan *plan;
	double ops = 0;
	int l;

	tt_plan_args_of(args, args->nranks - 1, &a);
	if (tt_plan_build(alg, &a, &plan))
		return 0;
	for (l = 0; l < plan->nlanes; l++)
		ops += (double)tt_plan_rounds(plan, l) * plan->max_ops;
	tt_plan_free(plan);
	return ops * a.nranks;
}

static int simulate(const struct options *opt, const struct tt_plan_args *args, struct point *p)
{
	int err = -EOPNOTSUPP;

	if (!opt->full && num_ops(p->alg, args) > FULL_OPS)
		err = tt_sim_recurrence(p->alg, args, &opt->model, &p->result);
	if (err == -EOPNOTSUPP)
		err = tt_sim(p->alg, args, &opt->model, &p->result);
	return err;
}

static int check(const struct options *opt, const struct tt_plan_args *args, const struct point *p)
{
	static const struct tt_check_opts channel = {.credits = 2, .offers = 2, .eager = 8192};
	int err;

	if (!opt->check || p->nranks > CHECK_MAX)
		return 0;
	err = tt_plan_check(p->alg, args, &channel);
	return err ? cli_fail("%s of %d ranks: the plan is wrong: %s", p->alg->name, p->nranks,
			      tt_fail_text(err))
		   : 0;
}

static double factor(enum tt_coll coll, int n)
{
	switch (coll) {
	case TT_COLL_ALLREDUCE:
		return 2.0 * (n - 1) / n;
	case TT_COLL_REDUCE_SCATTER:
	case TT_COLL_REDUCE_SCATTER_BLOCK:
	case TT_COLL_ALLGATHER:
	case TT_COLL_ALLGATHERV:
	case TT_COLL_GATHER:
	case TT_COLL_GATHERV:
	case TT_COLL_SCATTER:
	case TT_COLL_SCATTERV:
	case TT_COLL_ALLTOALL:
	case TT_COLL_ALLTOALLV:
		return (double)(n - 1) / n;
	default:
		return 1;
	}
}

static int add(struct points *points, const struct point *p)
{
	if (points->n == points->cap) {
		size_t cap = points->cap ? 2 * points->cap : 64;
		struct point *more = realloc(points->p, cap * sizeof(*more));

		if (!more)
			return cli_fail("no memory");
		points->p = more;
		points->cap = cap;
	}
	points->p[points->n++] = *p;
	return 0;
}

static void progress(const struct point *p)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K# %s: %d ranks, %zu bytes ", p->alg->name, p->nranks,
			p->bytes);
}

/* Run args, and put the time into points. */
static int one_call(const struct options *opt, const struct tt_plan_args *args, struct point *p,
		    struct points *points)
{
	int err;

	if (!tt_alg_can(p->alg, args)) {
		if (opt->algorithms)
			cli_fail("%s cannot do %s of %d ranks and %zu bytes: skipped", p->alg->name,
				 tt_coll_name(opt->coll), p->nranks, p->bytes);
		return 0;
	}
	progress(p);
	err = simulate(opt, args, p);
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K");
	if (err)
		return cli_fail("%s of %d ranks: %s", p->alg->name, p->nranks, tt_fail_text(err));
	err = check(opt, args, p);
	if (err)
		return err;
	p->algbw = p->result.last > 0 ? (double)p->bytes / p->result.last : 0;
	p->busbw = p->algbw * factor(opt->coll, p->nranks);
	sim_print_row(p);
	return add(points, p);
}

static int one(const struct options *opt, const struct tt_alg *alg, int nranks, size_t bytes,
	       struct points *points)
{
	struct point p = {.nranks = nranks, .alg = alg};
	struct tt_plan_args args;
	int err;

	err = sim_args(opt, alg, nranks, bytes, &args);
	if (err)
		return err;
	p.bytes = tt_coll_counts(opt->coll) ? bytes - bytes % ELEM
					    : args.count * ELEM * blocks(opt->coll, nranks);
	err = one_call(opt, &args, &p, points);
	sim_counts_free(&args);
	return err;
}

static int time_of(const struct options *opt, const struct tt_alg *alg, int nranks, double *ns)
{
	struct point p = {.nranks = nranks, .alg = alg, .bytes = opt->min_bytes};
	struct tt_plan_args args;
	int err = sim_args(opt, alg, nranks, opt->min_bytes, &args);

	if (err)
		return err;
	if (tt_alg_can(alg, &args)) {
		err = simulate(opt, &args, &p);
		if (err)
			cli_fail("%s of %d ranks: %s", alg->name, nranks, tt_fail_text(err));
		else if (*ns < 0 || p.result.last < *ns)
			*ns = p.result.last;
	}
	sim_counts_free(&args);
	return err;
}

int sim_fastest(const struct options *opt, const char *only, int nranks, double *ns)
{
	struct options named = *opt;
	struct algs algs;
	int i, err;

	*ns = nranks > 1 ? -1 : 0;
	if (nranks == 1)
		return 0;
	named.algorithms = only ? only : opt->algorithms;
	err = list_algs(&named, &algs);
	for (i = 0; !err && i < algs.n; i++)
		err = time_of(&named, algs.alg[i], nranks, ns);
	return err || *ns >= 0 ? err : cli_fail("no algorithm can do it with %d ranks", nranks);
}

/* The value after v, at most max, which is never skipped; 0 after max. */
static size_t next(size_t v, size_t max, double by)
{
	double n = floor((double)v * by);

	if (v >= max)
		return 0;
	if (n >= (double)max)
		return max;
	return n > (double)v ? (size_t)n : v + 1;
}

int sim_run(const struct options *opt, struct points *points)
{
	struct algs algs;
	size_t n, bytes;
	int i, err;

	err = list_algs(opt, &algs);
	if (!err)
		sim_print_head(opt);
	for (n = (size_t)opt->min_ranks; !err && n;
	     n = next(n, (size_t)opt->max_ranks, opt->rank_factor))
		for (bytes = opt->min_bytes; !err;
		     bytes = next(bytes, opt->max_bytes, opt->byte_factor)) {
			for (i = 0; !err && i < algs.n; i++)
				err = one(opt, algs.alg[i], (int)n, bytes, points);
			if (bytes >= opt->max_bytes)
				break;
		}
	if (!err && !points->n)
		err = cli_fail("nothing was left to simulate");
	return err;
}
