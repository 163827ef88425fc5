/* SPDX-License-Identifier: BSD-3-Clause */
/* Removes control characters, which a terminal would interpret. */
#include "tools/plain.h"

#include <string.h>

static void plain_string(json_t *v)
{
	char *copy = strdup(json_string_value(v)), *c;

	for (c = copy; c && *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	json_string_set(v, copy ? copy : "?");
	free(copy);
}

void plain(json_t *v)
{
	const char *key;
	json_t *member;
	size_t i;

	if (json_is_string(v))
		plain_string(v);
	json_array_foreach(v, i, member) plain(member);
	json_object_foreach(v, key, member) plain(member);
}
