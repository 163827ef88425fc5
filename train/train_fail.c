/* SPDX-License-Identifier: BSD-3-Clause */
/* Error texts and the reading of the caller's structs. */
#include "train/train_fail.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *tutti_train_version(void)
{
	return TUTTI_VERSION_STRING;
}

int tt_train_fail(int code, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return tutti_set_last_error(code, text);
}

int tt_train_read_config(const char *call, const char *name, const void *user, size_t least,
			 size_t known, void *own)
{
	size_t size, i;

	if (!user)
		return tt_train_fail(-EINVAL, "%s: %s is NULL", call, name);
	size = *(const size_t *)user;
	if (size < least || size > 65536)
		return tt_train_fail(-EINVAL,
				     "%s: %s.size is %zu, which no version has; set it to "
				     "sizeof(*%s), %zu here",
				     call, name, size, name, known);
	for (i = known; i < size; i++)
		if (((const char *)user)[i])
			return tt_train_fail(-EINVAL,
					     "%s: %s has a field at byte %zu that this version "
					     "does not know; install the version of its header",
					     call, name, i);
	memset(own, 0, known);
	memcpy(own, user, size < known ? size : known);
	return 0;
}

int tt_train_write_stats(const char *call, void *user, size_t least, size_t known, const void *own)
{
	size_t size = *(const size_t *)user;

	if (size < least || size > 65536)
		return tt_train_fail(-EINVAL,
				     "%s: size is %zu, which no version has; set it to the size of "
				     "the struct, %zu here",
				     call, size, known);
	memset(user, 0, size);
	memcpy(user, own, size < known ? size : known);
	memcpy(user, &size, sizeof(size));
	return 0;
}

/* Collective: the text of the lowest rank with an error, for ranks that have none. */
static int tell(struct tutti_comm *comm, const char *call, int err, int rank, int code)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	char text[sizeof(info.text)] = "";
	size_t skip = strlen(call);
	int other;

	if (tutti_comm_rank(comm) == rank && !tutti_last_error(&info))
		memcpy(text, info.text, sizeof(text));
	other = tutti_bcast(text, sizeof(text), TUTTI_UINT8, rank, comm);
	if (err || other) {
		if (err && info.text[0]) /* of this rank, if it is the one that told */
			tutti_set_last_error(err, info.text);
		return err ? err : other;
	}
	text[sizeof(text) - 1] = 0;
	if (strncmp(text, call, skip) || strncmp(text + skip, ": ", 2))
		skip = 0;
	else
		skip += 2;
	return tt_train_fail(code, "%s: rank %d: %.400s", call, rank,
			     text[0] ? text + skip : tutti_strerror(code));
}

int tt_train_agree(struct tutti_comm *comm, const char *call, int err)
{
	/* The lowest rank with an error, and its code: one number, of which the least counts. */
	int64_t own = err ? ((int64_t)tutti_comm_rank(comm) << 32) | (uint32_t)-err : INT64_MAX;
	int other = tutti_allreduce(TUTTI_IN_PLACE, &own, 1, TUTTI_INT64, TUTTI_MIN, comm);

	if (other || own == INT64_MAX)
		return err ? err : other;
	return tell(comm, call, err, (int)(own >> 32), -(int)(own & 0xffffffff));
}

int tt_train_join(struct tutti_comm *comm, const struct tt_train_kind *kind, int err,
		  struct tutti_comm **dup)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	int other;

	if (err)
		tutti_last_error(&info);
	other = tutti_comm_dup(comm, dup);
	if (other) {
		*dup = NULL;
		return err ? tutti_set_last_error(err, info.text) : other;
	}
	err = tt_train_agree(*dup, kind->create, err);
	if (!err)
		err = tutti_comm_set_owner(*dup, kind->owner, kind->free);
	if (err) {
		tutti_comm_free(*dup);
		*dup = NULL;
	}
	return err;
}
