/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of algorithm, chunk and lanes.
 *
 * Everything here depends on values that are equal on all ranks (collective, size, number of
 * ranks, settings agreed when the communicator was made), so all ranks choose the same.
 */
#include "lib/plan/choose.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/env.h"
#include "lib/base/error.h"

#define PIECE_MIN (64 << 10) /* splitting further for the sake of lanes costs more than it gains */
#define PIPE_PIECE_MIN (32 << 10)
#define PIPE_PIECES 16 /* of a pipeline, for each rank on its way */
#define MAX_NAMES 64

struct rule {
	const struct tt_alg *alg;
	size_t lo, hi; /* lo <= bytes < hi */
};

struct tt_chooser {
	size_t chunk;
	int lanes, nrules;
	struct rule rules[];
};

/* "64K", "inf" -> bytes. */
static int parse_size(const char *text, size_t *size)
{
	static const struct tt_env_desc desc = {.kind = TT_ENV_size, .lo = 0, .hi = INT64_MAX};
	int64_t number;

	if (!strcmp(text, "inf")) {
		*size = SIZE_MAX;
		return 0;
	}
	if (tt_env_parse(&desc, text, &number))
		return -EINVAL;
	*size = (size_t)number;
	return 0;
}

/* "ring, single" */
static const char *join(const char *const *names, int n, char *buf, size_t size)
{
	size_t used = 0;
	int i, len;

	buf[0] = 0;
	for (i = 0; i < n && used < size; i++) {
		len = snprintf(buf + used, size - used, "%s%s", i ? ", " : "", names[i]);
		used += len > 0 ? (size_t)len : 0;
	}
	return buf;
}

static int find_coll(const char *word, const char *text, enum tt_coll *coll)
{
	const char *names[TT_NUM_COLLS], *near;
	char list[256];
	int i;

	for (i = 0; i < TT_NUM_COLLS; i++) {
		names[i] = tt_coll_name((enum tt_coll)i);
		if (!strcmp(names[i], word)) {
			*coll = (enum tt_coll)i;
			return 0;
		}
	}
	near = tt_nearest(word, names, TT_NUM_COLLS);
	return tt_fail(-EINVAL, "TUTTI_ALGO rule \"%s\": no collective is called \"%s\"%s%s%s",
		       text, word, near ? "; did you mean " : "; there are ",
		       near ? near : join(names, TT_NUM_COLLS, list, sizeof(list)),
		       near ? "?" : "");
}

static int find_alg(enum tt_coll coll, const char *word, const char *text,
		    const struct tt_alg **found)
{
	const char *names[MAX_NAMES], *near;
	const struct tt_alg *alg;
	char list[256];
	int n = 0;

	*found = tt_alg_find(coll, word);
	if (*found)
		return 0;
	for (alg = tt_algs; alg->name; alg++)
		if (alg->coll == coll && n < MAX_NAMES)
			names[n++] = alg->name;
	near = tt_nearest(word, names, n);
	return tt_fail(-EINVAL, "TUTTI_ALGO rule \"%s\": %s has no algorithm \"%s\"; %s%s%s", text,
		       tt_coll_name(coll), word, near ? "did you mean " : "there are ",
		       near ? near : join(names, n, list, sizeof(list)), near ? "?" : "");
}

/* LO-HI; range is modified. */
static int parse_range(char *range, const char *text, struct rule *rule)
{
	char *dash = strchr(range, '-');

	if (dash)
		*dash = 0;
	if (!dash || parse_size(range, &rule->lo) || parse_size(dash + 1, &rule->hi) ||
	    rule->lo >= rule->hi)
		return tt_fail(
			-EINVAL,
			"TUTTI_ALGO rule \"%s\": sizes are LO-HI with LO below HI, such as 0-64K "
			"or 64K-inf",
			text);
	return 0;
}

/* "coll:algorithm:LO-HI", or without :LO-HI for all sizes. word is modified, text is its copy. */
static int parse_rule(char *word, const char *text, struct rule *rule)
{
	char *name = strchr(word, ':'), *range = NULL;
	enum tt_coll coll = TT_NUM_COLLS;
	int err;

	if (!name)
		return tt_fail(
			-EINVAL,
			"TUTTI_ALGO rule \"%s\" must read collective:algorithm:LO-HI, such as "
			"bcast:chain:64K-inf",
			text);
	*name++ = 0;
	range = strchr(name, ':');
	if (range)
		*range++ = 0;
	err = find_coll(word, text, &coll);
	if (!err)
		err = find_alg(coll, name, text, &rule->alg);
	if (err)
		return err;
	rule->lo = 0;
	rule->hi = SIZE_MAX;
	return range ? parse_range(range, text, rule) : 0;
}

/* words is a copy of the rules that is taken apart. */
static int parse_rules(struct tt_chooser *c, char *words)
{
	char *save = NULL, *word, text[128];
	int err;

	for (word = strtok_r(words, "; \t", &save); word; word = strtok_r(NULL, "; \t", &save)) {
		snprintf(text, sizeof(text), "%s", word);
		err = parse_rule(word, text, &c->rules[c->nrules]);
		if (err)
			return err;
		c->nrules++;
	}
	return 0;
}

int tt_chooser_new(const char *rules, size_t chunk, int lanes, struct tt_chooser **chooser)
{
	size_t most;
	struct tt_chooser *c;
	char *words;
	int err;

	rules = rules ? rules : "";
	most = strlen(rules) / 2 + 1; /* blanks separate too; a rule has more than two characters */
	c = calloc(1, sizeof(*c) + most * sizeof(c->rules[0]));
	words = strdup(rules);
	if (!c || !words) {
		err = tt_fail(-ENOMEM, "no memory for the choice of algorithms");
		goto free_all;
	}
	c->chunk = chunk;
	c->lanes = lanes < 1 ? 1 : lanes;
	err = parse_rules(c, words);
	if (err)
		goto free_all;
	free(words);
	*chooser = c;
	return 0;
free_all:
	free(words);
	free(c);
	return err;
}

void tt_chooser_free(struct tt_chooser *chooser)
{
	free(chooser);
}

static bool can(const struct tt_alg *alg, const struct tt_plan_args *args)
{
	return alg && (!alg->can || alg->can(args));
}

/* The first line that fits and whose algorithm can do the call; the last one of a collective always can. */
static const struct {
	enum tt_coll coll;
	int nranks;   /* at most so many ranks; 0: any number */
	size_t bytes; /* at most so many bytes of a vector or block */
	const char *name;
} defaults[] = {
	/* those of one host come first: they say themselves whether the ranks share one */
	{TT_COLL_ALLREDUCE, 0, 4 << 10, "node_slots"},
	{TT_COLL_ALLREDUCE, 0, SIZE_MAX, "node_pull"},
	{TT_COLL_ALLREDUCE, 0, 32 << 10, "recursive_doubling"},
	{TT_COLL_ALLREDUCE, 0, SIZE_MAX, "ring"},
	{TT_COLL_ALLREDUCE, 0, SIZE_MAX, "halving_doubling"},
	{TT_COLL_BCAST, 0, 8 << 10, "node_slots"},
	{TT_COLL_BCAST, 0, SIZE_MAX, "node_pull"},
	{TT_COLL_BCAST, 2, SIZE_MAX, "binomial"},
	{TT_COLL_BCAST, 0, 64 << 10, "binomial"},
	{TT_COLL_BCAST, 8, SIZE_MAX, "chain"},
	{TT_COLL_BCAST, 0, SIZE_MAX, "dbt"},
	{TT_COLL_BARRIER, 0, SIZE_MAX, "node"},
	{TT_COLL_BARRIER, 0, SIZE_MAX, "dissemination"},
	{TT_COLL_REDUCE, 0, 4 << 10, "node_slots"},
	{TT_COLL_REDUCE, 0, SIZE_MAX, "node_pull"},
	{TT_COLL_REDUCE, 2, SIZE_MAX, "chain"},
	{TT_COLL_REDUCE, 0, 64 << 10, "binomial"},
	{TT_COLL_REDUCE, 8, SIZE_MAX, "chain"},
	{TT_COLL_REDUCE, 0, SIZE_MAX, "dbt"},
	{TT_COLL_REDUCE, 0, SIZE_MAX, "chain"},
	{TT_COLL_REDUCE_SCATTER_BLOCK, 0, SIZE_MAX, "node_pull"},
	{TT_COLL_REDUCE_SCATTER_BLOCK, 0, 4 << 10, "halving"},
	{TT_COLL_REDUCE_SCATTER_BLOCK, 0, SIZE_MAX, "ring"},
	{TT_COLL_REDUCE_SCATTER_BLOCK, 0, SIZE_MAX, "direct"},
	{TT_COLL_REDUCE_SCATTER, 0, SIZE_MAX, "node_pull"},
	{TT_COLL_REDUCE_SCATTER, 0, 4 << 10, "halving"},
	{TT_COLL_REDUCE_SCATTER, 0, SIZE_MAX, "ring"},
	{TT_COLL_REDUCE_SCATTER, 0, SIZE_MAX, "direct"},
	{TT_COLL_ALLGATHER, 0, 4 << 10, "node_slots"},
	{TT_COLL_ALLGATHER, 0, SIZE_MAX, "node_pull"},
	{TT_COLL_ALLGATHER, 0, 8 << 10, "bruck"},
	{TT_COLL_ALLGATHER, 0, SIZE_MAX, "ring"},
	{TT_COLL_ALLGATHERV, 0, 4 << 10, "node_slots"},
	{TT_COLL_ALLGATHERV, 0, SIZE_MAX, "node_pull"},
	{TT_COLL_ALLGATHERV, 0, 8 << 10, "bruck"},
	{TT_COLL_ALLGATHERV, 0, SIZE_MAX, "ring"},
	{TT_COLL_GATHER, 0, 4 << 10, "node_slots"},
	{TT_COLL_GATHER, 0, SIZE_MAX, "node_pull"},
	{TT_COLL_GATHER, 0, 4 << 10, "binomial"},
	{TT_COLL_GATHER, 0, SIZE_MAX, "linear"},
	{TT_COLL_GATHERV, 0, SIZE_MAX, "linear"},
	{TT_COLL_SCATTER, 0, SIZE_MAX, "node_pull"},
	{TT_COLL_SCATTER, 0, 4 << 10, "binomial"},
	{TT_COLL_SCATTER, 0, SIZE_MAX, "linear"},
	{TT_COLL_SCATTERV, 0, SIZE_MAX, "linear"},
	{TT_COLL_ALLTOALL, 0, SIZE_MAX, "node_pull"},
	{TT_COLL_ALLTOALL, 0, 512, "bruck"},
	{TT_COLL_ALLTOALL, 0, 32 << 10, "linear"},
	{TT_COLL_ALLTOALL, 0, SIZE_MAX, "pairwise"},
	{TT_COLL_ALLTOALLV, 0, SIZE_MAX, "linear"},
	{TT_COLL_SCAN, 0, 64 << 10, "doubling"},
	{TT_COLL_SCAN, 0, SIZE_MAX, "chain"},
	{TT_COLL_EXSCAN, 0, 64 << 10, "doubling"},
	{TT_COLL_EXSCAN, 0, SIZE_MAX, "chain"},
};

static const struct tt_alg *default_alg(const struct tt_plan_args *args, size_t bytes)
{
	const struct tt_alg *alg = NULL;
	size_t i;

	for (i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++) {
		if (defaults[i].coll != args->coll || bytes > defaults[i].bytes ||
		    (defaults[i].nranks && args->nranks > defaults[i].nranks))
			continue;
		alg = tt_alg_find(args->coll, defaults[i].name);
		if (can(alg, args))
			break;
	}
	return alg;
}

static const struct tt_alg *choose_alg(const struct tt_chooser *c, const struct tt_plan_args *args,
				       size_t bytes)
{
	const struct rule *rule;

	if (args->nranks == 1)
		return tt_alg_find(args->coll, "single");
	for (rule = c->rules; rule < c->rules + c->nrules; rule++)
		if (rule->alg->coll == args->coll && rule->lo <= bytes &&
		    (bytes < rule->hi || rule->hi == SIZE_MAX) && can(rule->alg, args))
			return rule->alg;
	return default_alg(args, bytes);
}

static size_t div_up(size_t a, size_t b)
{
	return a / b + (a % b > 0);
}

/* What an algorithm cuts into slices. */
enum cut {
	CUT_WHOLE, /* the vector, or each block */
	CUT_PARTS,    /* the vector's, one per rank */
	CUT_HALVES,   /* the vector, sent by halves, quarters ... down to such blocks */
	CUT_PIPELINE, /* the vector, and it wants many */
	CUT_TREES     /* the same for two trees, each with lanes of its own */
};

/* Is its length that of a vector, not that of a block? */
static bool has_vector(enum tt_coll coll)
{
	return coll == TT_COLL_ALLREDUCE || coll == TT_COLL_BCAST || coll == TT_COLL_REDUCE ||
	       coll == TT_COLL_SCAN || coll == TT_COLL_EXSCAN;
}

static enum cut cut_of(const struct tt_alg *alg)
{
	static const struct {
		const char *name;
		enum cut cut;
	} cuts[] = {{"ring", CUT_PARTS},
		    {"ps", CUT_PARTS},
		    {"halving_doubling", CUT_HALVES},
		    {"circulant_rsag", CUT_HALVES},
		    {"halving_gather", CUT_HALVES},
		    {"scatter_allgather", CUT_HALVES},
		    {"chain", CUT_PIPELINE},
		    {"circulant", CUT_PIPELINE},
		    {"dbt", CUT_TREES}};
	size_t i;

	for (i = 0; has_vector(alg->coll) && i < sizeof(cuts) / sizeof(cuts[0]); i++)
		if (!strcmp(cuts[i].name, alg->name))
			return cuts[i].cut;
	return CUT_WHOLE;
}

/* Ranks a piece passes on its way through a pipeline, the longest way. */
static size_t way(const struct tt_alg *alg, size_t nranks)
{
	size_t log = 1;

	if (!strcmp(alg->name, "chain"))
		return nranks;
	while ((size_t)1 << log < nranks)
		log++;
	return PIPE_PIECES * log;
}

/*
 * Lanes: no more than there are pieces worth having, but for two trees at least two; then the chunk
 * shrinks until every lane has one. A pipeline wants more slices than ranks are on the way, or its
 * links wait for one another.
 */
static void choose_pieces(const struct tt_chooser *c, const struct tt_alg *alg, size_t bytes,
			  struct tt_plan_args *args)
{
	size_t elem = args->elem ? args->elem : 1, chunk = c->chunk, lanes, share;
	enum cut cut = cut_of(alg);
	size_t block = div_up(bytes, (size_t)args->nranks),
	       part = cut == CUT_PARTS ? block : bytes;

	lanes = (cut == CUT_HALVES ? block : part) / PIECE_MIN;
	lanes = lanes < 1 ? 1 : lanes > (size_t)c->lanes ? (size_t)c->lanes : lanes;
	if (cut == CUT_TREES && c->lanes > 1)
		lanes = lanes < 2 ? 2 : lanes - lanes % 2;
	share = div_up(div_up(part, elem), lanes) * elem;
	if (share && share < chunk)
		chunk = share;
	if (cut >= CUT_PIPELINE) {
		share = bytes / way(alg, (size_t)args->nranks);
		share = share > PIPE_PIECE_MIN ? share : PIPE_PIECE_MIN;
		chunk = share < chunk ? share : chunk;
	}
	chunk -= chunk % elem;
	args->chunk = chunk < elem ? elem : chunk;
	args->lanes = (int)lanes;
}

/* Do ranks know no counts but their own? */
static bool own_counts(enum tt_coll coll)
{
	return coll == TT_COLL_GATHERV || coll == TT_COLL_SCATTERV || coll == TT_COLL_ALLTOALLV;
}

/* Bytes of the vector or a block; of a mean block where they differ, 0 where nobody knows all. */
static size_t size_of(const struct tt_plan_args *a)
{
	size_t count = 0;
	int i;

	if (own_counts(a->coll))
		return 0;
	if (a->coll != TT_COLL_REDUCE_SCATTER && a->coll != TT_COLL_ALLGATHERV)
		return a->count * a->elem;
	for (i = 0; i < a->nranks; i++)
		count += a->rcounts[i];
	return div_up(count, (size_t)a->nranks) * a->elem;
}

const struct tt_alg *tt_choose(const struct tt_chooser *chooser, struct tt_plan_args *args)
{
	size_t bytes = size_of(args);
	const struct tt_alg *alg = choose_alg(chooser, args, bytes);

	if (own_counts(args->coll)) /* cut as if they were long */
		bytes = chooser->chunk * (size_t)chooser->lanes;
	choose_pieces(chooser, alg, bytes, args);
	return alg;
}
