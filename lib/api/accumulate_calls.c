/* SPDX-License-Identifier: BSD-3-Clause */
/* Accumulates: checks arguments, then calls lib/rma. */
#include <errno.h>

#include "lib/api/api.h"
#include "lib/rma/rma.h"

static int check_op(const char *call, const struct tt_win_acc *acc, bool fetch)
{
	const char *why = "has no such operation for this datatype";

	if (acc->op == TUTTI_NO_OP && !fetch)
		why = "changes nothing; use tutti_get_accumulate";
	else if (acc->op == TUTTI_AVG)
		why = "needs the number of operands, which an accumulate has not";
	else if ((unsigned)acc->op >= TUTTI_NUM_OPS && acc->op != TUTTI_REPLACE &&
		 acc->op != TUTTI_NO_OP)
		why = "is no operator that other ranks know";
	else if (tt_win_acc_valid(acc->datatype, acc->op))
		return 0;
	return tt_fail(-EINVAL, "%s: operator %s (%d): it %s", call,
		       acc->op == TUTTI_REPLACE ? "replace"
		       : acc->op == TUTTI_NO_OP ? "no-op"
						: tt_op_name(acc->op),
		       (int)acc->op, why);
}

static int check(const char *call, struct tutti_win *win, const struct tt_win_acc *acc, bool fetch)
{
	size_t size = tutti_datatype_size(acc->datatype), bytes;
	int err;

	if (!size)
		return tt_fail(-EINVAL, "%s: %d is not a datatype", call, (int)acc->datatype);
	if (__builtin_mul_overflow(acc->count, size, &bytes))
		bytes = SIZE_MAX;
	err = tt_check_access(call, win, acc->rank, acc->op == TUTTI_NO_OP ? call : acc->local,
			      bytes, acc->offset);
	if (!err)
		err = check_op(call, acc, fetch);
	if (err)
		return err;
	if (fetch && acc->count && !acc->result)
		return tt_fail(-EINVAL, "%s: result is NULL", call);
	if (!(win->flags & TUTTI_WIN_ACCUMULATE))
		return tt_fail(-EINVAL,
			       "%s: the window was made without TUTTI_WIN_ACCUMULATE, for "
			       "tutti_fetch_add and tutti_compare_swap",
			       call);
	if (size > tt_win_acc_longest(win))
		return tt_fail(-EINVAL, "%s: an element has %zu bytes; it must have at most %zu",
			       call, size, tt_win_acc_longest(win));
	if (acc->op != TUTTI_NO_OP && acc->count &&
	    win->part[acc->rank].flags & TUTTI_WIN_READ_ONLY)
		return tt_comm_blame_rank(win->comm, -EACCES, acc->rank,
					  "%s: rank %d's window is read-only", call, acc->rank);
	return 0;
}

static int start(const char *call, struct tutti_win *win, const struct tt_win_acc *acc, bool fetch,
		 struct tutti_request **request)
{
	int err = check(call, win, acc, fetch);

	return err ? err : tt_win_request(call, win, acc->rank, tt_win_acc_start, acc, request);
}

/* Both forms of a call: tutti_NAME and tutti_iNAME. */
#define FORMS(name, fetch, parameters, ...)                                                        \
	int tutti_##name(TT_PARAMETERS parameters)                                                 \
	{                                                                                          \
		const struct tt_win_acc acc = {__VA_ARGS__};                                       \
		int err = check(__func__, win, &acc, fetch);                                       \
                                                                                                   \
		return err ? err : tt_win_accumulate(win, &acc);                                   \
	}                                                                                          \
	int tutti_i##name(TT_PARAMETERS parameters, struct tutti_request **request)                \
	{                                                                                          \
		const struct tt_win_acc acc = {__VA_ARGS__};                                       \
                                                                                                   \
		return start(__func__, win, &acc, fetch, request);                                 \
	}

FORMS(accumulate, false,
      (struct tutti_win * win, int rank, const void *local, size_t count,
       enum tutti_datatype datatype, enum tutti_op op, uint64_t offset),
      .rank = rank, .local = local, .count = count, .datatype = datatype, .op = op,
      .offset = offset)

FORMS(get_accumulate, true,
      (struct tutti_win * win, int rank, const void *local, void *result, size_t count,
       enum tutti_datatype datatype, enum tutti_op op, uint64_t offset),
      .rank = rank, .local = local, .result = result, .count = count, .datatype = datatype,
      .op = op, .offset = offset)
