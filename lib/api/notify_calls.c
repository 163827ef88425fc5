/* SPDX-License-Identifier: BSD-3-Clause */
/* Waits for notifications, and tests of them: checks arguments, then calls lib/rma. */
#include <errno.h>

#include "lib/api/api.h"
#include "lib/rma/rma.h"

static int by_rank(const char *call, struct tutti_win *win, int rank, uint64_t count, bool test,
		   int *index)
{
	const struct tt_win_bells bells = {
		.n = 1, .bell = &rank, .count = count, .all = true, .test = test};
	int err = tt_check_access(call, win, rank, NULL, 0, 0);

	if (!err && !index)
		err = tt_fail(-EINVAL, "%s: done is NULL", call);
	return err ? err : tt_win_wait_bells(win, &bells, index);
}

int tutti_wait_notify(struct tutti_win *win, int rank, uint64_t count)
{
	int index;

	return by_rank(__func__, win, rank, count, false, &index);
}

/* From the place that was found to whether one was. */
static int report(int err, int *done)
{
	if (!err)
		*done = *done >= 0;
	return err;
}

int tutti_test_notify(struct tutti_win *win, int rank, uint64_t count, int *done)
{
	return report(by_rank(__func__, win, rank, count, true, done), done);
}

/* want has all but the window's own number of the first id. */
static int by_ids(const char *call, struct tutti_win *win, struct tt_win_bells *want,
		  const char *out, int *index)
{
	int err = tt_check_win(call, win), i;

	if (err)
		return err;
	if (!index)
		return tt_fail(-EINVAL, "%s: %s is NULL", call, out);
	if (want->n < 0 || (want->n && !want->bell))
		return tt_fail(-EINVAL, "%s: %s", call,
			       want->n < 0 ? "n is negative" : "ids is NULL");
	for (i = 0; i < want->n; i++)
		if (want->bell[i] < 0 || want->bell[i] >= TUTTI_NOTIFY_IDS)
			return tt_fail(-EINVAL, "%s: %d is not a notification id (0 to %d)", call,
				       want->bell[i], TUTTI_NOTIFY_IDS - 1);
	want->first = win->comm->size;
	*index = want->all ? 0 : -1;
	return want->n ? tt_win_wait_bells(win, want, index) : 0;
}

int tutti_wait_notify_id(struct tutti_win *win, int id, uint64_t count)
{
	struct tt_win_bells want = {.n = 1, .bell = &id, .count = count, .all = true};
	int index;

	return by_ids(__func__, win, &want, "", &index);
}

int tutti_test_notify_id(struct tutti_win *win, int id, uint64_t count, int *done)
{
	struct tt_win_bells want = {.n = 1, .bell = &id, .count = count, .all = true, .test = true};

	return report(by_ids(__func__, win, &want, "done", done), done);
}

int tutti_wait_notify_any(struct tutti_win *win, int n, const int *ids, int *index)
{
	struct tt_win_bells want = {.n = n, .bell = ids, .count = 1};

	return by_ids(__func__, win, &want, "index", index);
}

int tutti_test_notify_any(struct tutti_win *win, int n, const int *ids, int *index)
{
	struct tt_win_bells want = {.n = n, .bell = ids, .count = 1, .test = true};

	return by_ids(__func__, win, &want, "index", index);
}

int tutti_wait_notify_all(struct tutti_win *win, int n, const int *ids)
{
	struct tt_win_bells want = {.n = n, .bell = ids, .count = 1, .all = true};
	int index;

	return by_ids(__func__, win, &want, "", &index);
}

int tutti_test_notify_all(struct tutti_win *win, int n, const int *ids, int *done)
{
	struct tt_win_bells want = {.n = n, .bell = ids, .count = 1, .all = true, .test = true};

	return report(by_ids(__func__, win, &want, "done", done), done);
}
