/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses TUTTI_ALGO: the user's choice of algorithms by size. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/env.h"
#include "lib/base/error.h"
#include "lib/plan/choose.h"

#define MAX_NAMES 64

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

	if (!tt_coll_find(word, coll, &near))
		return 0;
	for (i = 0; i < TT_NUM_COLLS; i++)
		names[i] = tt_coll_name((enum tt_coll)i);
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
static int parse_range(char *range, const char *text, struct tt_rule *rule)
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
static int parse_rule(char *word, const char *text, struct tt_rule *rule)
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

int tt_rules_parse(const char *text, struct tt_rule **rules, int *nrules)
{
	size_t most = strlen(text) / 2 + 1; /* blanks separate too; a rule has more characters */
	struct tt_rule *all = calloc(most, sizeof(*all));
	char *words = strdup(text), *save = NULL, *word, copy[128];
	int n = 0, err = 0;

	if (!all || !words)
		err = tt_fail(-ENOMEM, "no memory for the choice of algorithms");
	word = err ? NULL : strtok_r(words, "; \t", &save);
	for (; word && !err; word = strtok_r(NULL, "; \t", &save)) {
		snprintf(copy, sizeof(copy), "%s", word);
		err = parse_rule(word, copy, &all[n++]);
	}
	free(words);
	if (err) {
		free(all);
		return err;
	}
	*rules = all;
	*nrules = n;
	return 0;
}
