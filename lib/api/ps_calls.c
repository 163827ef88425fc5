/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of a parameter server's workers; ps_setup_calls.c has the collective ones. */
#include "lib/ps/ps.h"

#include <errno.h>
#include <string.h>

#include "lib/api/api.h"
#include "lib/ps/ps_open.h"
#include "lib/ps/worker/accumulate.h"

/*
 * A clock is sent even after a server has refused a push, as the worker could not go on without
 * it. The clock's request ends with the refusal.
 */
static int check_clock(const char *call, struct tutti_ps *ps)
{
	int err = tt_ps_check_role(call, ps);

	if (err)
		return err;
	tt_wire_lock(ps->comm->ctx->wire);
	err = tt_comm_check(ps->comm);
	tt_wire_unlock(ps->comm->ctx->wire);
	return err;
}

static int check_table(const char *call, const struct tutti_ps_table *t, bool rows)
{
	if (!t)
		return tt_fail(-EINVAL, "%s: table is NULL", call);
	if (t->rows != rows)
		return tt_fail(-EINVAL, "%s: table '%s' is a table of %s", call, t->name,
			       t->rows ? "rows; see tutti_ps_pull_rows"
				       : "elements; see tutti_ps_pull");
	return tt_ps_check_worker(call, t->ps);
}

static int check_type(const char *call, const struct tutti_ps_table *t, enum tutti_datatype type)
{
	if (type == t->datatype)
		return 0;
	if (!tutti_datatype_size(type))
		return tt_fail(-EINVAL, "%s: %d is not a datatype", call, (int)type);
	return tt_fail(-EINVAL, "%s: table '%s' is of %s, not %s", call, t->name,
		       tt_datatype_name(t->datatype), tt_datatype_name(type));
}

static int check_range(const char *call, const struct tutti_ps_table *t, const void *buf,
		       size_t offset, size_t count, enum tutti_datatype type,
		       struct tutti_request **request)
{
	int err = check_table(call, t, false);

	if (!err)
		err = check_type(call, t, type);
	if (err)
		return err;
	if (count > t->count || offset > t->count - count)
		return tt_fail(-ERANGE, "%s: elements %zu to %zu are outside table '%s' of %llu",
			       call, offset, offset + count, t->name, (unsigned long long)t->count);
	if ((count && !buf) || !request)
		return tt_fail(-EINVAL, "%s: %s is NULL", call, request ? "the buffer" : "request");
	return 0;
}

/* A table with n_fetch or n_push is pulled and pushed at some clocks only. */
static int start_pull(struct tutti_ps_table *t, void *buf, size_t offset, size_t count,
		      const char *call, struct tutti_request **request)
{
	return tt_ps_fetches(t) ? tt_ps_pull(t, buf, offset, count, call, request)
				: tt_ps_nothing(t, call, request);
}

static int start_push(struct tutti_ps_table *t, const void *buf, size_t offset, size_t count,
		      const char *call, struct tutti_request **request)
{
	if (t->budget)
		return tt_ps_budget_push(t, buf, offset, count, call, request);
	return t->accrued.sums ? tt_ps_accrue(t, buf, offset, count, call, request)
			       : tt_ps_push(t, buf, offset, count, false, call, request);
}

static int start_push_rows(struct tutti_ps_table *t, const uint64_t *keys, size_t n,
			   const void *buf, const char *call, struct tutti_request **request)
{
	if (t->budget)
		return tt_ps_budget_push_rows(t, keys, n, buf, call, request);
	return t->accrued.sums ? tt_ps_accrue_rows(t, keys, n, buf, call, request)
			       : tt_ps_push_rows(t, keys, n, buf, call, request);
}

int tutti_ps_ipull(struct tutti_ps_table *table, void *buf, size_t offset, size_t count,
		   enum tutti_datatype datatype, struct tutti_request **request)
{
	int err = check_range("tutti_ps_ipull", table, buf, offset, count, datatype, request);

	return err ? err : start_pull(table, buf, offset, count, "ps_ipull", request);
}

int tutti_ps_ipush(struct tutti_ps_table *table, const void *buf, size_t offset, size_t count,
		   enum tutti_datatype datatype, struct tutti_request **request)
{
	int err = check_range("tutti_ps_ipush", table, buf, offset, count, datatype, request);

	return err ? err : start_push(table, buf, offset, count, "ps_ipush", request);
}

int tutti_ps_pull(struct tutti_ps_table *table, void *buf, size_t offset, size_t count,
		  enum tutti_datatype datatype)
{
	struct tutti_request *req;
	int err = check_range("tutti_ps_pull", table, buf, offset, count, datatype, &req);

	if (!err)
		err = start_pull(table, buf, offset, count, "ps_pull", &req);
	return err ? err : tutti_wait(&req);
}

int tutti_ps_push(struct tutti_ps_table *table, const void *buf, size_t offset, size_t count,
		  enum tutti_datatype datatype)
{
	struct tutti_request *req;
	int err = check_range("tutti_ps_push", table, buf, offset, count, datatype, &req);

	if (!err)
		err = start_push(table, buf, offset, count, "ps_push", &req);
	return err ? err : tutti_wait(&req);
}

int tutti_ps_push_pull(struct tutti_ps_table *table, const void *update, void *values,
		       size_t offset, size_t count, enum tutti_datatype datatype)
{
	struct tutti_request *req[2] = {NULL, NULL};
	int err = check_range("tutti_ps_push_pull", table, update, offset, count, datatype, req);
	int end;

	if (!err && count && !values)
		err = tt_fail(-EINVAL, "tutti_ps_push_pull: values is NULL");
	if (!err)
		err = start_push(table, update, offset, count, "ps_push_pull", &req[0]);
	if (!err && values != update)
		err = start_pull(table, values, offset, count, "ps_push_pull", &req[1]);
	end = tutti_waitall(2, req);
	if (!err && !end &&
	    values == update) /* the pull must not overwrite data that is being sent */
		return tutti_ps_pull(table, values, offset, count, datatype);
	return err ? err : end;
}

int tutti_ps_set(struct tutti_ps_table *table, const void *values, size_t count,
		 enum tutti_datatype datatype)
{
	struct tutti_request *req;
	int err = check_range("tutti_ps_set", table, values, 0, count, datatype, &req);

	if (!err && count != table->count)
		err = tt_fail(-EINVAL, "tutti_ps_set: table '%s' has %llu elements, not %zu",
			      table->name, (unsigned long long)table->count, count);
	if (!err)
		err = tt_ps_push(table, values, 0, count, true, "ps_set", &req);
	return err ? err : tutti_wait(&req);
}

/* ---- rows ---- */

static int check_rows(const char *call, const struct tutti_ps_table *t, const uint64_t *keys,
		      size_t n, const void *buf, enum tutti_datatype type,
		      struct tutti_request **request)
{
	int err = check_table(call, t, true);

	if (!err)
		err = check_type(call, t, type);
	if (err)
		return err;
	if (n > UINT32_MAX)
		return tt_fail(-EINVAL, "%s: %zu keys are too many for one call", call, n);
	if ((n && (!keys || !buf)) || !request)
		return tt_fail(-EINVAL, "%s: %s is NULL", call,
			       !request ? "request"
			       : keys	? "the buffer"
					: "keys");
	return 0;
}

int tutti_ps_ipull_rows(struct tutti_ps_table *table, const uint64_t *keys, size_t n, void *buf,
			enum tutti_datatype datatype, struct tutti_request **request)
{
	int err = check_rows("tutti_ps_ipull_rows", table, keys, n, buf, datatype, request);

	return err ? err : tt_ps_pull_rows(table, keys, n, buf, "ps_ipull_rows", request);
}

int tutti_ps_ipush_rows(struct tutti_ps_table *table, const uint64_t *keys, size_t n,
			const void *buf, enum tutti_datatype datatype,
			struct tutti_request **request)
{
	int err = check_rows("tutti_ps_ipush_rows", table, keys, n, buf, datatype, request);

	return err ? err : start_push_rows(table, keys, n, buf, "ps_ipush_rows", request);
}

int tutti_ps_pull_rows(struct tutti_ps_table *table, const uint64_t *keys, size_t n, void *buf,
		       enum tutti_datatype datatype)
{
	struct tutti_request *req;
	int err = check_rows("tutti_ps_pull_rows", table, keys, n, buf, datatype, &req);

	if (!err)
		err = tt_ps_pull_rows(table, keys, n, buf, "ps_pull_rows", &req);
	return err ? err : tutti_wait(&req);
}

int tutti_ps_push_rows(struct tutti_ps_table *table, const uint64_t *keys, size_t n,
		       const void *buf, enum tutti_datatype datatype)
{
	struct tutti_request *req;
	int err = check_rows("tutti_ps_push_rows", table, keys, n, buf, datatype, &req);

	if (!err)
		err = start_push_rows(table, keys, n, buf, "ps_push_rows", &req);
	return err ? err : tutti_wait(&req);
}

/* ---- the clock ---- */

/* Sends first what n_push or a budget has held back. */
static int start_clock(struct tutti_ps *ps, uint64_t clock, const char *call,
		       struct tutti_request **request)
{
	int err = tt_ps_send_accrued(ps, clock);

	return err ? err : tt_ps_clock(ps, clock, call, request);
}

int tutti_ps_iclock(struct tutti_ps *ps, struct tutti_request **request)
{
	int err = check_clock("tutti_ps_iclock", ps);

	if (!err && !request)
		err = tt_fail(-EINVAL, "tutti_ps_iclock: request is NULL");
	return err ? err : start_clock(ps, ps->clock + 1, "ps_iclock", request);
}

int tutti_ps_clock(struct tutti_ps *ps)
{
	struct tutti_request *req;
	int err = check_clock("tutti_ps_clock", ps);

	if (!err)
		err = start_clock(ps, ps->clock + 1, "ps_clock", &req);
	return err ? err : tutti_wait(&req);
}

int tutti_ps_clock_to(struct tutti_ps *ps, uint64_t clock)
{
	struct tutti_request *req;
	int err = check_clock("tutti_ps_clock_to", ps);

	if (!err && (clock < ps->clock || clock > (uint64_t)INT64_MAX))
		err = tt_fail(-EINVAL,
			      "tutti_ps_clock_to: the clock is %llu; it can't go back to %llu",
			      (unsigned long long)ps->clock, (unsigned long long)clock);
	if (!err)
		err = start_clock(ps, clock, "ps_clock_to", &req);
	return err ? err : tutti_wait(&req);
}

int tutti_ps_last_read(struct tutti_ps_table *table, struct tutti_ps_read *read)
{
	struct tutti_ps_read last;
	size_t size;

	if (!table || !read)
		return tt_fail(-EINVAL, "tutti_ps_last_read: %s is NULL", table ? "read" : "table");
	size = read->size;
	if (size < sizeof(size_t) || size > 4096)
		return tt_fail(-EINVAL,
			       "tutti_ps_last_read: read.size is %zu; set it to "
			       "sizeof(struct tutti_ps_read), %zu",
			       size, sizeof(last));
	tt_wire_lock(table->ps->comm->ctx->wire);
	last = table->last;
	last.tau = table->answered ? (double)table->taus / (double)table->answered : 0;
	tt_wire_unlock(table->ps->comm->ctx->wire);
	last.size = size;
	memcpy(read, &last, size < sizeof(last) ? size : sizeof(last));
	return 0;
}
