/* SPDX-License-Identifier: BSD-3-Clause */
/* Structs that start with their size, see sized.h. */
#include "lib/base/sized.h"

#include <errno.h>
#include <string.h>

#include "lib/base/error.h"

#define SIZE_MOST 4096 /* of any version; above it the size was not set */

static size_t size_of(const void *user)
{
	size_t size;

	memcpy(&size, user, sizeof(size));
	return size;
}

bool tt_sized_fits(const struct tt_sized *what, const void *user)
{
	return size_of(user) >= what->least && size_of(user) <= SIZE_MOST;
}

static int check(const struct tt_sized *what, const char *call, const void *user)
{
	if (!user)
		return tt_fail(-EINVAL, "%s: %s is NULL", call, what->name);
	if (tt_sized_fits(what, user))
		return 0;
	return tt_fail(-EINVAL, "%s: %s.size is %zu; set it to sizeof(struct %s), %zu", call,
		       what->name, size_of(user), what->type, what->known);
}

/* The place of the first byte from `from` on that is not 0; size: there is none. */
static size_t find_set(const char *user, size_t from, size_t size)
{
	while (from < size && !user[from])
		from++;
	return from;
}

const void *tt_sized_convert(const struct tt_sized *what, const char *call, const void *user,
			     void *own)
{
	size_t size, copied, set;

	if (check(what, call, user))
		return NULL;
	size = size_of(user);
	copied = size < what->known ? size : what->known;
	set = find_set(user, copied, size);
	if (set < size) {
		tt_fail(-EINVAL,
			"%s: %s has %zu bytes, of which this version (%s) knows %zu, and byte %zu "
			"is "
			"not 0; leave fields of later versions 0",
			call, what->name, size, tutti_version(), what->known, set);
		return NULL;
	}
	memset(own, 0, what->known);
	memcpy(own, user, copied);
	memcpy(own, &what->known, sizeof(what->known));
	return own;
}

void tt_sized_store(const struct tt_sized *what, void *user, const void *own)
{
	size_t size = size_of(user), copied = size < what->known ? size : what->known;

	memcpy((char *)user + sizeof(size), (const char *)own + sizeof(size),
	       copied - sizeof(size));
	memset((char *)user + copied, 0, size - copied);
}

int tt_sized_write(const struct tt_sized *what, const char *call, void *user, const void *own)
{
	int err = check(what, call, user);

	if (!err)
		tt_sized_store(what, user, own);
	return err;
}
