/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From a call to a request. TT_COLLECTIVE makes a tt_call of the arguments (reduce_calls.c,
 * gather_calls.c); the three forms of a collective differ only here.
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/api/api.h"
#include "lib/engine/node/node_ops.h"

int tt_launch_new(struct tutti_context *ctx, int err, bool start, struct tutti_request *req,
		  struct tutti_request **out)
{
	if (!err && start)
		err = tt_request_launch(req);
	tt_wire_unlock(ctx->wire);
	if (!err)
		*out = req;
	else
		tt_record_due(ctx);
	return err;
}

/* Other ranks learn why this one does not take part. */
static void note_refused(struct tutti_comm *comm, const struct tt_call *call, bool persistent,
			 int err)
{
	if (!tt_check_comm(comm) && !call->inner)
		tt_comm_refused(comm, call->coll, persistent ? TT_FORM_INIT : TT_FORM_CALL, err);
}

/* A call that has been checked; options: NULL, none. */
static int launch_checked(struct tutti_comm *comm, const struct tt_call *call, bool persistent,
			  const struct tt_call_options *options, struct tutti_request **out)
{
	struct tutti_request *req = NULL;
	int err, made;

	tt_wire_lock(comm->ctx->wire);
	err = tt_comm_check_call(
		comm, tt_coll_outlives(call->coll) ? TT_ACTIVE_NEIGHBORS : TT_ACTIVE_COLL,
		tt_coll_name(call->coll));
	if (!err)
		err = tt_request_new(comm, call, persistent, &req);
	if (!err && options)
		tt_request_set_options(req, options);
	made = err;
	err = tt_launch_new(comm->ctx, err, !persistent, req, out);
	if (made)
		note_refused(comm, call, persistent, made);
	return err;
}

int tt_call_launch(struct tutti_comm *comm, struct tt_call *call, bool persistent,
		   const struct tt_call_options *options, struct tutti_request **out)
{
	size_t *displs = NULL;
	int err = tt_check_call(comm, call);

	if (err == TT_NEGATIVE) {
		err = tt_displs_shift(comm, call, &displs);
		if (!err)
			err = tt_check_call(comm, call);
	}
	if (!err && !out)
		err = tt_fail(-EINVAL, "%s: request is NULL", tt_coll_name(call->coll));
	if (err)
		note_refused(comm, call, persistent, err);
	else
		err = launch_checked(comm, call, persistent, options, out);
	free(displs);
	return err;
}

/* A blocking call, or a part of a group. */
int tt_call_run_with(struct tutti_comm *comm, struct tt_call *call,
		     const struct tt_call_options *options)
{
	struct tutti_request *req = NULL;
	int err;

	call->blocking = !tt_group_is_open();
	err = tt_call_launch(comm, call, false, options, &req);
	return err || !req ? err : tt_request_finish(&req);
}

/*
 * As a blocking call, which the caller waits for afterwards: *out becomes its request, or NULL if
 * it is done.
 */
static int run_or_start(struct tutti_comm *comm, struct tt_call *call, struct tutti_request **out)
{
	struct tutti_request *req = NULL;
	int err = tt_check_call(comm, call);

	if (err && err != TT_NEGATIVE) {
		note_refused(comm, call, false, err);
		return err;
	}
	call->blocking = !tt_group_is_open();
	if (err == TT_NEGATIVE)
		err = tt_call_launch(comm, call, false, NULL, &req);
	else if (call->blocking)
		err = tt_short_run(comm, call, &req);
	else
		err = TT_SHORT_NOT;
	if (err == TT_SHORT_NOT)
		err = launch_checked(comm, call, false, NULL, &req);
	if (!err)
		*out = req;
	return err;
}

int tt_call_run(struct tutti_comm *comm, struct tt_call *call)
{
	struct tutti_request *req = NULL;
	int err = run_or_start(comm, call, &req);

	return err || !req ? err : tt_request_finish(&req);
}

int tt_call_poll(struct tutti_comm *comm, struct tt_call *call, struct tutti_request **request)
{
	return run_or_start(comm, call, request);
}

int tt_call_unchecked(struct tutti_comm *comm, const struct tt_call *call)
{
	struct tutti_request *req = NULL;
	int err = launch_checked(comm, call, false, NULL, &req);

	return err ? err : tt_request_finish(&req);
}

int tt_call_checked(struct tutti_comm *comm, struct tt_call *call, bool persistent,
		    struct tutti_request **request)
{
	struct tutti_request *req = NULL;
	int err;

	if (request)
		return launch_checked(comm, call, persistent, NULL, request);
	call->blocking = !tt_group_is_open();
	err = launch_checked(comm, call, false, NULL, &req);
	return err || !req ? err : tt_request_finish(&req);
}
