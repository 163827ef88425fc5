/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses lists of words, separated by commas. */
#include "lib/base/lists.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/env.h"
#include "lib/base/error.h"
#include "lib/base/number.h"

#define MOST_PORTS 4

static bool is_in(const char *list, const char *end, const char *word, size_t len)
{
	size_t n;

	for (; list < end; list += n + 1) {
		n = strcspn(list, ",");
		if (n == len && !strncmp(list, word, n))
			return true;
	}
	return false;
}

int tt_list_check(const char *variable, const char *list, int most)
{
	const char *at = list;
	size_t len;
	int n;

	for (n = 0; *list; n++, at += len + 1) {
		len = strcspn(at, ",");
		if (!len)
			return tt_fail(-EINVAL,
				       "%s=%.128s: a word is missing before or after a ','",
				       variable, list);
		if (is_in(list, at, at, len))
			return tt_fail(-EINVAL, "%s=%.128s: %.*s is given twice", variable, list,
				       (int)(len < 64 ? len : 64), at);
		if (n == most)
			return tt_fail(-EINVAL, "%s=%.128s: at most %d entries are allowed",
				       variable, list, most);
		if (!at[len])
			break;
	}
	return 0;
}

static int parse_number(const char *text, size_t len, int *number)
{
	uint64_t n = 0;
	const char *end = tt_number_digits(text, &n);

	*number = (int)n;
	return end && end == text + len && n <= INT_MAX ? 0 : -EINVAL;
}

static int parse_capability(const char *word, size_t len, struct tt_verbs_mask *mask)
{
	const struct {
		const char *name;
		bool *off;
	} of[] = {{"imm", &mask->imm},
		  {"atomic", &mask->atomic},
		  {"placed", &mask->placed},
		  {"srq", &mask->srq},
		  {"resize", &mask->resize}};
	size_t i;

	if (len > 7 && !strncmp(word, "inline=", 7))
		return parse_number(word + 7, len - 7, &mask->inline_most);
	if (len > 7 && !strncmp(word, "subnet=", 7))
		return parse_number(word + 7, len - 7, &mask->subnet);
	for (i = 0; i < sizeof(of) / sizeof(of[0]); i++)
		if (strlen(of[i].name) == len && !strncmp(of[i].name, word, len)) {
			*of[i].off = true;
			return 0;
		}
	return -EINVAL;
}

int tt_verbs_mask_parse(const char *list, struct tt_verbs_mask *mask)
{
	int err = tt_list_check("TUTTI_VERBS_MASK", list, INT_MAX);
	const char *at;
	size_t len;

	*mask = (struct tt_verbs_mask){.inline_most = INT_MAX, .subnet = -1};
	for (at = list; !err && *at; at += len + (at[len] == ',')) {
		len = strcspn(at, ",");
		if (parse_capability(at, len, mask))
			err = tt_fail(-EINVAL,
				      "TUTTI_VERBS_MASK=%.128s: must be a list of imm, atomic, "
				      "placed, srq, resize, inline=BYTES and subnet=NUMBER",
				      list);
	}
	return err;
}

size_t tt_verbs_port_parse(const char *list, char name[32], long *port)
{
	size_t len = strcspn(list, ","), n = strcspn(list, ":,");
	uint64_t number;
	const char *end;

	if (!n || n >= 32)
		return 0;
	snprintf(name, 32, "%.*s", (int)n, list);
	*port = 0;
	if (n == len)
		return len;
	end = tt_number_digits(list + n + 1, &number);
	if (!end || end != list + len || !number || number > 255)
		return 0;
	*port = (long)number;
	return len;
}

int tt_lists_check(const struct tt_env *env)
{
	const char *list = env->verbs_device.text, *at;
	int err = tt_list_check("TUTTI_VERBS_DEVICE", list, MOST_PORTS);
	struct tt_verbs_mask mask;
	char name[32];
	size_t len;
	long port;

	for (at = list; !err && *at; at += len + (at[len] == ',')) {
		len = tt_verbs_port_parse(at, name, &port);
		if (!len)
			err = tt_fail(-EINVAL,
				      "TUTTI_VERBS_DEVICE=%.128s: must be a list of NAME or "
				      "NAME:PORT",
				      list);
	}
	return err ? err : tt_verbs_mask_parse(env->verbs_mask.text, &mask);
}
