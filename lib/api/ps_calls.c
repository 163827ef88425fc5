/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of a parameter server's workers; ps_setup_calls.c has the collective ones. */
#include "lib/ps/ps.h"

#include <errno.h>

#include "lib/api/api.h"
#include "lib/ps/ps_open.h"

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
	int err = tt_ps_check_table(call, t);

	if (err)
		return err;
	if (t->rows != rows)
		return tt_fail(-EINVAL, "%s: table '%s' is a table of %s", call, t->name,
			       t->rows ? "rows; see tutti_ps_pull_rows"
				       : "elements; see tutti_ps_pull");
	return tt_ps_check_role(call, t->ps);
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

/* A buffer of count elements. */
static int check_buffer(const char *call, const char *which, const void *buf, size_t count)
{
	if (!count || (buf && buf != TUTTI_IN_PLACE))
		return 0;
	return tt_fail(-EINVAL, "%s: %s is %s", call, which, buf ? "TUTTI_IN_PLACE" : "NULL");
}

static int check_range(const char *call, const struct tutti_ps_table *t, const void *buf,
		       size_t offset, size_t count, enum tutti_datatype type)
{
	int err = check_table(call, t, false);

	if (!err)
		err = check_type(call, t, type);
	if (err)
		return err;
	if (count > t->count || offset > t->count - count)
		return tt_fail(-ERANGE, "%s: elements %zu to %zu are outside table '%s' of %llu",
			       call, offset, offset + count, t->name, (unsigned long long)t->count);
	return check_buffer(call, "the buffer", buf, count);
}

/* Both forms of a call, tutti_ps_NAME and tutti_ps_iNAME: the check, then start. */
#define FORMS(name, parameters, check, start, ...)                                                 \
	int tutti_ps_##name(TT_PARAMETERS parameters)                                              \
	{                                                                                          \
		int err = check;                                                                   \
                                                                                                   \
		return err ? err : start(__VA_ARGS__, tt_short_name(__func__), NULL);              \
	}                                                                                          \
	int tutti_ps_i##name(TT_PARAMETERS parameters, struct tutti_request **request)             \
	{                                                                                          \
		int err = check;                                                                   \
                                                                                                   \
		if (!err)                                                                          \
			err = tt_check_request(__func__, request);                                 \
		return err ? err : start(__VA_ARGS__, tt_short_name(__func__), request);           \
	}

FORMS(pull,
      (struct tutti_ps_table * table, void *buf, size_t offset, size_t count,
       enum tutti_datatype datatype),
      check_range(__func__, table, buf, offset, count, datatype), tt_ps_pull, table, buf, offset,
      count)

FORMS(push,
      (struct tutti_ps_table * table, const void *buf, size_t offset, size_t count,
       enum tutti_datatype datatype),
      check_range(__func__, table, buf, offset, count, datatype), tt_ps_push, table, buf, offset,
      count)

int tutti_ps_push_pull(struct tutti_ps_table *table, const void *update, void *values,
		       size_t offset, size_t count, enum tutti_datatype datatype)
{
	int err = check_range(__func__, table, update, offset, count, datatype);

	if (!err)
		err = check_buffer(__func__, "values", values, count);
	return err ? err
		   : tt_ps_push_pull(table, update, values, offset, count, tt_short_name(__func__));
}

/* The table changes by sums alone, and each push is sent and applied at once, as it is. */
static bool plain_sums(const struct tutti_ps_table *t)
{
	const struct tutti_ps_options *o = &t->opt;

	return o->rule == TUTTI_PS_SUM && t->ps->staleness && !o->codec && !o->publish &&
	       !t->budget && !t->feedback && !(o->significance > 0) && o->n_fetch <= 1 &&
	       o->n_push <= 1 && !o->softsync && !o->staleness_aware && !o->essp;
}

int tutti_ps_elastic(struct tutti_ps_table *table, void *x, size_t offset, size_t count,
		     enum tutti_datatype datatype, double alpha)
{
	int err = check_range(__func__, table, x, offset, count, datatype);

	if (err)
		return err;
	if (datatype != TUTTI_INT32 && datatype != TUTTI_INT64 && datatype != TUTTI_FLOAT32 &&
	    datatype != TUTTI_FLOAT64)
		return tt_fail(-EINVAL,
			       "%s: table '%s' is of %s; it must be int32, int64, float32 or "
			       "float64",
			       __func__, table->name, tt_datatype_name(datatype));
	if (!plain_sums(table))
		return tt_fail(-EINVAL,
			       "%s: table '%s' must have rule TUTTI_PS_SUM, a staleness other than "
			       "0, and no other option that changes pushes or pulls",
			       __func__, table->name);
	if (!(alpha >= 0 && alpha <= 1))
		return tt_fail(-EINVAL, "%s: alpha is %g; it must be 0 to 1", __func__, alpha);
	return tt_ps_elastic(table, x, offset, count, alpha, tt_short_name(__func__));
}

static int check_version(const char *call, const struct tutti_ps_table *t, const void *values,
			 size_t count, enum tutti_datatype type)
{
	int err = check_range(call, t, values, 0, count, type);

	if (!err && count != t->count)
		err = tt_fail(-EINVAL, "%s: table '%s' has %llu elements, not %zu", call, t->name,
			      (unsigned long long)t->count, count);
	if (!err && !t->versions)
		err = tt_fail(-EINVAL,
			      "%s: table '%s' has no versions; make it with options.versions", call,
			      t->name);
	return err;
}

int tutti_ps_push_version(struct tutti_ps_table *table, const void *values, size_t count,
			  enum tutti_datatype datatype, uint64_t *version)
{
	int err = check_version(__func__, table, values, count, datatype);

	return err ? err : tt_ps_push_version(table, values, version);
}

int tutti_ps_pull_version(struct tutti_ps_table *table, void *values, size_t count,
			  enum tutti_datatype datatype, uint64_t *version)
{
	int err = check_version(__func__, table, values, count, datatype);

	if (!err && !version)
		err = tt_fail(-EINVAL, "tutti_ps_pull_version: version is NULL");
	return err ? err : tt_ps_pull_version(table, values, version);
}

int tutti_ps_set(struct tutti_ps_table *table, const void *values, size_t count,
		 enum tutti_datatype datatype)
{
	int err = check_range(__func__, table, values, 0, count, datatype);

	if (!err && count != table->count)
		err = tt_fail(-EINVAL, "tutti_ps_set: table '%s' has %llu elements, not %zu",
			      table->name, (unsigned long long)table->count, count);
	return err ? err : tt_ps_set(table, values, tt_short_name(__func__));
}

/* ---- rows ---- */

static int check_rows(const char *call, const struct tutti_ps_table *t, const uint64_t *keys,
		      size_t n, const void *buf, enum tutti_datatype type)
{
	int err = check_table(call, t, true);

	if (!err)
		err = check_type(call, t, type);
	if (err)
		return err;
	if (n > UINT32_MAX)
		return tt_fail(-EINVAL, "%s: %zu keys are too many for one call", call, n);
	err = check_buffer(call, "keys", keys, n);
	return err ? err : check_buffer(call, "the buffer", buf, n);
}

FORMS(pull_rows,
      (struct tutti_ps_table * table, const uint64_t *keys, size_t n, void *buf,
       enum tutti_datatype datatype),
      check_rows(__func__, table, keys, n, buf, datatype), tt_ps_pull_rows, table, keys, n, buf)

FORMS(push_rows,
      (struct tutti_ps_table * table, const uint64_t *keys, size_t n, const void *buf,
       enum tutti_datatype datatype),
      check_rows(__func__, table, keys, n, buf, datatype), tt_ps_push_rows, table, keys, n, buf)

/* ---- the clock ---- */

FORMS(clock, (struct tutti_ps * ps), check_clock(__func__, ps), tt_ps_clock, ps,
      tt_ps_next_clock(ps))

int tutti_ps_clock_to(struct tutti_ps *ps, uint64_t clock)
{
	int err = check_clock(__func__, ps);

	if (!err && (clock < ps->clock || clock > (uint64_t)INT64_MAX))
		err = tt_fail(-EINVAL,
			      "tutti_ps_clock_to: the clock is %llu; it can't go back to %llu",
			      (unsigned long long)ps->clock, (unsigned long long)clock);
	return err ? err : tt_ps_clock(ps, clock, tt_short_name(__func__), NULL);
}

int tutti_ps_last_read(struct tutti_ps_table *table, struct tutti_ps_read *read)
{
	static const struct tt_sized sized = TT_SIZED("read", tutti_ps_read, clock);
	struct tutti_ps_read last;
	int k, err = tt_ps_check_table(__func__, table);

	if (!err)
		err = tt_ps_await_drops(table->ps, __func__);
	if (err)
		return err;
	tt_wire_lock(table->ps->comm->ctx->wire);
	last = table->last;
	last.dropped = 0;
	for (k = 0; table->ps->link && k < table->ps->nservers; k++)
		last.dropped += table->ps->link[k].dropped;
	last.tau = table->answered ? (double)table->taus / (double)table->answered : 0;
	tt_wire_unlock(table->ps->comm->ctx->wire);
	return tt_sized_write(&sized, __func__, read, &last);
}

int tutti_ps_exact(struct tutti_ps_table *table, int on)
{
	int err = tt_ps_check_table(__func__, table);

	if (err)
		return err;
	if (on & ~1)
		return tt_fail(-EINVAL, "tutti_ps_exact: on is %d; it must be 0 or 1", on);
	tt_wire_lock(table->ps->comm->ctx->wire);
	table->exact = on;
	tt_wire_unlock(table->ps->comm->ctx->wire);
	return 0;
}

int tutti_ps_held(struct tutti_ps_table *table, struct tutti_ps_held *held)
{
	static const struct tt_sized sized = TT_SIZED("held", tutti_ps_held, sent_bytes);
	struct tutti_ps_held now = {0};
	int err = tt_ps_check_table(__func__, table);

	if (err)
		return err;
	if (!held || !tt_sized_fits(&sized, held))
		return tt_sized_write(&sized, __func__, held, &now);
	tt_ps_held(table, &now);
	return tt_sized_write(&sized, __func__, held, &now);
}

int tutti_ps_flush(struct tutti_ps_table *table)
{
	int err = tt_ps_check_table(__func__, table);

	if (err)
		return err;
	err = tt_ps_check_worker(__func__, table->ps);
	return err ? err : tt_ps_flush(table, tt_short_name(__func__));
}
