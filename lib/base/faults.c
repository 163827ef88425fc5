/* SPDX-License-Identifier: BSD-3-Clause */
/* The syntax of TUTTI_FAULT: key=value, comma-separated. */
#include "lib/base/faults.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/env.h"
#include "lib/base/error.h"

static const char *const keys[] = {"seed",  "delay",	   "reorder",	"again", "hold",
				   "error", "error_after", "die_after", "finish", "max_put",
				   "flip",  "flip_after",  "rank",	"alloc", "reg",
				   "socket"};
#define NKEYS ((int)(sizeof(keys) / sizeof(keys[0])))
#define DELAY_MAX_US 10000000ull

static int fail_value(const char *key, const char *value, const char *allowed)
{
	return tt_fail(-EINVAL, "TUTTI_FAULT: %s=%s: must be %s", key, value, allowed);
}

/* A probability; `again` and `hold` stay below 1, as 1 would let nothing ever happen. */
static int parse_p(const char *key, const char *value, bool below_one, char **rest, double *p)
{
	double v = strtod(value, rest);

	if (*rest == value || !(v >= 0.0 && v <= 1.0) || (below_one && v > 0.99))
		return fail_value(key, value, below_one ? "a probability from 0 to 0.99"
							: "a probability from 0 to 1");
	*p = v;
	return 0;
}

static int parse_only_p(const char *key, const char *value, bool below_one, double *p)
{
	double v = 0;
	char *rest;
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
	unsigned long long v;
	char *rest;

	errno = 0;
	v = strtoull(value, &rest, 10);
	if (*value < '0' || *value > '9' || *rest || errno || v > max)
		return fail_value(key, value, max == 1 ? "0 or 1" : "a whole number");
	*count = v;
	return 0;
}

static int parse_delay(const char *value, struct tt_faults *spec)
{
	uint64_t us;
	char *rest;
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

/* A key that stands for one whole number. */
static int parse_number(const char *key, const char *value, struct tt_faults *spec)
{
	const struct {
		const char *key;
		uint64_t max, *count;
	} counts[] = {
		{"seed", UINT64_MAX, &spec->seed},
		{"error_after", UINT64_MAX, &spec->error_after},
		{"die_after", UINT64_MAX, &spec->die_after},
		{"max_put", SIZE_MAX, &spec->max_put},
		{"flip_after", UINT64_MAX, &spec->flip_after},
		{"alloc", UINT64_MAX, &spec->alloc},
		{"reg", UINT64_MAX, &spec->reg},
		{"socket", UINT64_MAX, &spec->socket},
	};
	size_t i;

	for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		if (!strcmp(key, counts[i].key))
			return parse_count(key, value, counts[i].max, counts[i].count);
	return -ENOENT;
}

static int parse_pair(const char *key, const char *value, struct tt_faults *spec)
{
	const char *near;
	uint64_t flag = 0;
	int err = parse_number(key, value, spec);

	if (err != -ENOENT)
		return err;
	if (!strcmp(key, "delay"))
		return parse_delay(value, spec);
	if (!strcmp(key, "reorder"))
		return parse_only_p(key, value, false, &spec->reorder);
	if (!strcmp(key, "again"))
		return parse_only_p(key, value, true, &spec->again);
	if (!strcmp(key, "hold"))
		return parse_only_p(key, value, true, &spec->hold);
	if (!strcmp(key, "error"))
		return parse_only_p(key, value, false, &spec->error);
	if (!strcmp(key, "finish")) {
		err = parse_count(key, value, 1, &flag);
		spec->finish = flag;
		return err;
	}
	if (!strcmp(key, "flip"))
		return parse_only_p(key, value, false, &spec->flip);
	if (!strcmp(key, "rank")) {
		err = parse_count(key, value, INT_MAX, &flag);
		spec->rank = err ? -1 : (int)flag;
		return err;
	}
	near = tt_nearest(key, keys, NKEYS);
	if (near)
		return tt_fail(-EINVAL, "TUTTI_FAULT: unknown key '%s'; did you mean '%s'?", key, near);
	return tt_fail(-EINVAL, "TUTTI_FAULT: unknown key '%s'; known: seed, delay, reorder, again, "
		       "hold, error, error_after, die_after, finish, max_put, flip, flip_after, rank, alloc, reg, socket", key);
}

int tt_faults_parse(const char *text, struct tt_faults *spec)
{
	struct tt_faults s = {.rank = -1, .seed = 1, .delay_us = 200};
	char *copy, *word, *save = NULL, *eq;
	int err = 0;

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
