/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses TUTTI_FAULT: key=value, comma-separated. */
#include "lib/base/faults.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/env.h"
#include "lib/base/error.h"
#include "lib/base/lists.h"
#include "lib/base/number.h"

enum kind { NUMBER, CHANCE, CHANCE_BELOW_ONE, DELAY, FLAG, RANK };

static const struct key {
	const char *name;
	enum kind kind;
	size_t at;
} keys[] = {
#define KEY(name, kind)                                                                            \
	{                                                                                          \
#name, kind, offsetof(struct tt_faults, name)                                      \
	}
	KEY(seed, NUMBER),
	KEY(delay, DELAY),
	KEY(reorder, CHANCE),
	KEY(again, CHANCE_BELOW_ONE),
	KEY(hold, CHANCE_BELOW_ONE),
	KEY(error, CHANCE),
	KEY(error_after, NUMBER),
	KEY(die_after, NUMBER),
	KEY(finish, FLAG),
	KEY(max_put, NUMBER),
	KEY(flip, CHANCE),
	KEY(flip_after, NUMBER),
	KEY(rank, RANK),
	KEY(alloc, NUMBER),
	KEY(reg, NUMBER),
	KEY(socket, NUMBER),
	KEY(one_place, FLAG),
#undef KEY
};
#define NKEYS ((int)(sizeof(keys) / sizeof(keys[0])))
#define DELAY_MAX_US 10000000ull

static int fail_value(const char *key, const char *value, const char *allowed)
{
	return tt_fail(-EINVAL, "TUTTI_FAULT: %s=%s: must be %s", key, value, allowed);
}

/* A probability; `again` and `hold` stay below 1, as 1 would let nothing ever happen. */
static int parse_p(const char *key, const char *value, bool below_one, const char **rest, double *p)
{
	double v = 0;

	*rest = tt_number_real(value, &v);
	if (!*rest || !(v >= 0.0 && v <= 1.0) || (below_one && v > 0.99))
		return fail_value(key, value,
				  below_one ? "a probability from 0 to 0.99"
					    : "a probability from 0 to 1");
	*p = v;
	return 0;
}

static int parse_only_p(const char *key, const char *value, bool below_one, double *p)
{
	double v = 0;
	const char *rest;
	int err = parse_p(key, value, below_one, &rest, &v);

	if (err)
		return err;
	if (*rest)
		return fail_value(key, value, "a probability and nothing else");
	*p = v;
	return 0;
}

static int parse_count(const char *key, const char *value, uint64_t max, uint64_t *count)
{
	uint64_t v = 0;
	const char *rest = tt_number_digits(value, &v);

	if (!rest || *rest || v > max)
		return fail_value(key, value, max == 1 ? "0 or 1" : "a whole number");
	*count = v;
	return 0;
}

static int parse_delay(const char *value, struct tt_faults *spec)
{
	uint64_t us;
	const char *rest;
	int err;

	err = parse_p("delay", value, false, &rest, &spec->delay);
	if (err || !*rest)
		return err;
	if (*rest != ':' || parse_count("delay", rest + 1, DELAY_MAX_US, &us))
		return fail_value("delay", value,
				  "PROBABILITY or PROBABILITY:MICROSECONDS, at most 10000000");
	spec->delay_us = (unsigned)us;
	return 0;
}

static int parse_value(const struct key *key, const char *value, struct tt_faults *spec)
{
	void *at = (char *)spec + key->at;
	uint64_t n = 0;
	int err;

	switch (key->kind) {
	case NUMBER:
		return parse_count(key->name, value, UINT64_MAX, at);
	case CHANCE:
	case CHANCE_BELOW_ONE:
		return parse_only_p(key->name, value, key->kind == CHANCE_BELOW_ONE, at);
	case DELAY:
		return parse_delay(value, spec);
	case FLAG:
		err = parse_count(key->name, value, 1, &n);
		*(bool *)at = n;
		return err;
	default:
		err = parse_count(key->name, value, INT_MAX, &n);
		*(int *)at = err ? -1 : (int)n;
		return err;
	}
}

static int unknown_key(const char *name)
{
	const char *names[NKEYS], *near;
	char known[256] = "";
	int i;

	for (i = 0; i < NKEYS; i++) {
		names[i] = keys[i].name;
		strcat(strcat(known, i ? ", " : ""), names[i]);
	}
	near = tt_nearest(name, names, NKEYS);
	if (near)
		return tt_fail(-EINVAL, "TUTTI_FAULT: unknown key '%s'; did you mean '%s'?", name,
			       near);
	return tt_fail(-EINVAL, "TUTTI_FAULT: unknown key '%s'; known: %s", name, known);
}

static int parse_pair(const char *name, const char *value, struct tt_faults *spec)
{
	int i;

	for (i = 0; i < NKEYS; i++)
		if (!strcmp(name, keys[i].name))
			return parse_value(&keys[i], value, spec);
	return unknown_key(name);
}

int tt_faults_parse(const char *text, struct tt_faults *spec)
{
	struct tt_faults s = {.rank = -1, .seed = 1, .delay_us = 200};
	char *copy, *word, *save = NULL, *eq;
	int err = tt_list_check("TUTTI_FAULT", text ? text : "", INT_MAX);

	if (err)
		return err;
	copy = strdup(text ? text : "");
	if (!copy)
		return tt_fail(-ENOMEM, "no memory for TUTTI_FAULT");
	for (word = strtok_r(copy, ",", &save); word && !err; word = strtok_r(NULL, ",", &save)) {
		eq = strchr(word, '=');
		if (!eq) {
			err = tt_fail(-EINVAL, "TUTTI_FAULT: '%s': must be key=value", word);
			break;
		}
		*eq = 0;
		err = parse_pair(word, eq + 1, &s);
	}
	free(copy);
	if (!err)
		*spec = s;
	return err;
}
