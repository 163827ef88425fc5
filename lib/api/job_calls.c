/* SPDX-License-Identifier: BSD-3-Clause */
/* Start, end and growth of a job. */
#include <errno.h>
#include <string.h>

#include "lib/api/api.h"
#include "lib/job/job.h"

#define RANKS_MAX (1 << 24)

int tt_check_ctx(const struct tutti_context *ctx)
{
	if (!ctx || ctx->magic != TT_CTX_MAGIC)
		return tt_fail(-EINVAL, "the context is %s", ctx ? "not valid" : "NULL");
	return 0;
}

int tutti_init(const struct tutti_config *user, struct tutti_context **out)
{
	int err = tt_group_refuse(__func__);

	if (!err)
		err = tt_init(user, NULL, out);

	if (err) /* there is no communicator to ask for the reason */
		tt_err("%s%s", strncmp(tt_fail_text(err), "tutti_init:", 11) ? "tutti_init: " : "",
		       tt_fail_text(err));
	return err;
}

int tutti_finalize(struct tutti_context *ctx)
{
	int err = tt_check_ctx(ctx);

	if (!err)
		err = tt_group_refuse(__func__);
	return err ? err : tt_finalize(ctx);
}

static int check_grow(struct tutti_comm *comm, int nranks, int timeout_ms,
		      struct tutti_context *const *newctx)
{
	int err = tt_check_waiting("tutti_comm_grow", comm);

	if (err)
		return err;
	if (!newctx)
		return tt_fail(-EINVAL, "tutti_comm_grow: newctx is NULL");
	if (nranks < 1 || nranks > RANKS_MAX)
		return tt_fail(-EINVAL, "tutti_comm_grow: nranks is %d; it must be from 1 to %d",
			       nranks, RANKS_MAX);
	if (timeout_ms < 0)
		return tt_fail(-EINVAL, "tutti_comm_grow: timeout_ms is negative");
	return 0;
}

int tutti_comm_grow(struct tutti_comm *comm, int nranks, int timeout_ms,
		    struct tutti_context **newctx)
{
	int err = check_grow(comm, nranks, timeout_ms, newctx);

	return err ? err : tt_comm_grow(comm, nranks, timeout_ms, newctx);
}
