/* SPDX-License-Identifier: BSD-3-Clause */
/* Records the details of a failure for tutti_last_error. */
#ifndef TT_ERROR_H
#define TT_ERROR_H

#include <errno.h>
#include <stdbool.h>

#include "lib/base/log.h"
#include "lib/base/sized.h"

/*
 * Remember code (negative) and its sentence as this thread's last error and return code:
 *	return tt_fail(-EINVAL, "root %d is not a rank of this communicator (0 to %d)", root, n -
 *	1);
 * Does not log. The host and field variants fill the parts of struct tutti_error_info.
 */
int tt_fail(int code, const char *fmt, ...) TT_PRINTF(2, 3);
int tt_fail_rank(int code, int rank, const char *host, const char *fmt, ...) TT_PRINTF(4, 5);
/* Make *info this thread's last error (info->size is ignored); returns info->code. */
int tt_fail_info(const struct tutti_error_info *info);
/* The text of this thread's last error if it has this code, else tutti_strerror(code). */
const char *tt_fail_text(int code);
/* Lack of memory or descriptors, which says nothing about a peer or a transport. */
static inline bool tt_is_shortage(int code)
{
	return code == -ENOMEM || code == -EMFILE || code == -ENFILE;
}
/*
 * Inside the library: memory that the caller of this process passed is not mapped. -EFAULT is about
 * memory of a peer.
 */
#define TT_EFAULT_HERE 4095
static inline bool tt_is_fault(int code)
{
	return code == -EFAULT || code == -TT_EFAULT_HERE;
}
/* The advice where a mapping fails for lack of memory. */
#define TT_RAISE_MEMORY "raise 'ulimit -v' or the memory limit of the container"
extern const struct tt_sized tt_error_info_sized;

#endif
