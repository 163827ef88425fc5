/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Structs of the caller that start with their size. A program built with an older header passes a
 * shorter struct: the fields that it lacks are 0. A program built with a newer header passes a
 * longer struct: the fields that this library does not know must be 0, or are set to 0.
 */
#ifndef TT_SIZED_H
#define TT_SIZED_H

#include <stdbool.h>
#include <stddef.h>

/* A struct: the argument's name and its type, for texts; its size here and in its first version. */
struct tt_sized {
	const char *name, *type;
	size_t known, least;
};

/* last: the last field of the first version. */
#define TT_SIZED(name, type, last)                                                                 \
	{                                                                                          \
		name, #type, sizeof(struct type),                                                  \
			offsetof(struct type, last) + sizeof(((struct type *)0)->last)             \
	}

/* Whether the size that the caller has set can be one of a version. */
bool tt_sized_fits(const struct tt_sized *what, const void *user);
/*
 * The caller's struct in the size known here: user itself, or a copy in own. NULL: refused, with a
 * text that begins with call.
 */
const void *tt_sized_convert(const struct tt_sized *what, const char *call, const void *user,
			     void *own);
static inline const void *tt_sized_read(const struct tt_sized *what, const char *call,
					const void *user, void *own)
{
	return user && *(const size_t *)user == what->known
		       ? user
		       : tt_sized_convert(what, call, user, own);
}
/* Stores own in the caller's struct, whose size stays. 0, or -EINVAL with a text. */
int tt_sized_write(const struct tt_sized *what, const char *call, void *user, const void *own);
/* The same for a struct that fits. */
void tt_sized_store(const struct tt_sized *what, void *user, const void *own);

#endif
