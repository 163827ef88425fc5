/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors and structs of the caller for libtutti_train, which sees the public headers only. */
#ifndef TT_TRAIN_FAIL_H
#define TT_TRAIN_FAIL_H

#include <tutti/train.h>

/* Makes the sentence this thread's last error and returns code. */
int tt_train_fail(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/*
 * Copies the caller's struct, the argument name, which starts with its size, to own of known bytes:
 * fields that it lacks become 0, fields beyond known must be 0. least: the size of its first
 * version.
 */
int tt_train_read_config(const char *call, const char *name, const void *user, size_t least,
			 size_t known, void *own);

/* The bytes of a struct up to its field last, inclusive. */
#define TT_TRAIN_TO(type, last) (offsetof(struct type, last) + sizeof(((struct type *)0)->last))
/* Stores own in the caller's struct, whose size stays; fields that are not known become 0. */
int tt_train_write_stats(const char *call, void *user, size_t least, size_t known, const void *own);
/* -EINVAL if object, which has a magic word, is NULL or has been freed. */
#define TT_TRAIN_CHECK(call, object, kind, word)                                                   \
	((object) && (object)->magic == (word)                                                     \
		 ? 0                                                                               \
		 : tt_train_fail(-EINVAL, "%s: %s", call,                                          \
				 (object) ? "not a " kind ", or one that has been freed"           \
					  : "the " kind " is NULL"))
/* Collective: err of this rank, or an error of any rank with a text that names the rank. */
int tt_train_agree(struct tutti_comm *comm, const char *call, int err);
/* Its calls; owner: as for tutti_comm_set_owner. */
struct tt_train_kind {
	const char *create, *owner, *free;
};
/* Collective: a duplicate of comm for an object, or as tt_train_agree, with comm as it was. */
int tt_train_join(struct tutti_comm *comm, const struct tt_train_kind *kind, int err,
		  struct tutti_comm **dup);

#endif
