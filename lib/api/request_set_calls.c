/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests, several at a time: test and wait for all, any or some. */
#include <errno.h>

#include "lib/api/api.h"

/* Of a call of this thread: no other call of the process has the same. */
static uint64_t next_number(void)
{
	static _Thread_local uint64_t last;
	static atomic_uint_least64_t threads = 1;

	if (!last)
		last = atomic_fetch_add(&threads, 1) << 40;
	return ++last;
}

static int listed_twice(const char *name, int at, struct tutti_request **requests)
{
	int first = 0;

	while (requests[first] != requests[at])
		first++;
	return tt_fail(-EINVAL, "%s: requests[%d] and requests[%d] are the same request", name,
		       first, at);
}

static bool idle(const struct tutti_request *req)
{
	return atomic_load_explicit(&req->state, memory_order_relaxed) == TT_REQ_IDLE;
}

/* Under which of the caller's names an argument is missing; NULL: none is. */
static int check_set(const char *name, int n, struct tutti_request **requests, const char *missing)
{
	uint64_t number = next_number();
	bool any = false;
	int i, err;

	if (n < 0)
		return tt_fail(-EINVAL, "%s: n is negative", name);
	if (n && !requests)
		missing = "requests";
	if (missing)
		return tt_fail(-EINVAL, "%s: %s is NULL", name, missing);
	for (i = 0; i < n; i++) {
		if (!requests[i])
			continue;
		err = tt_request_stale(name, requests[i]);
		if (err)
			return err;
		if (requests[i]->listed == number && !idle(requests[i]))
			return listed_twice(name, i, requests);
		requests[i]->listed = number;
		any = true;
	}
	return any ? tt_group_refuse(name) : 0;
}

/* The place of the first request whose end can be reported, -1: none; *active: how many are. */
static int find_over(int n, struct tutti_request **requests, int from, int *active)
{
	int i, state;

	for (i = from; i < n; i++) {
		if (!requests[i])
			continue;
		state = atomic_load_explicit(&requests[i]->state, memory_order_acquire);
		if (state == TT_REQ_DONE || (state != TT_REQ_IDLE && requests[i]->overdue))
			return i;
		*active += state != TT_REQ_IDLE;
	}
	return -1;
}

static int report(const char *name, struct tutti_request **request)
{
	int err;

	if (tt_request_finished(*request))
		return tt_request_collect(request);
	err = tt_request_stale(name, *request); /* freed in another thread */
	return err ? err : tt_request_overdue(*request);
}

/* Keeps the first error, as the thread's last error too. */
struct first {
	int err;
	struct tutti_error_info info;
};

static void keep_first(struct first *first, int err)
{
	if (!err || first->err)
		return;
	first->err = err;
	first->info.size = sizeof(first->info);
	tutti_last_error(&first->info);
}

static int first_error(const struct first *first)
{
	return first->err ? tt_fail_info(&first->info) : 0;
}

static int collect_all(const char *name, int n, struct tutti_request **requests)
{
	struct first first;
	int i;

	first.err = 0;
	tt_collect_successes(n, requests);
	for (i = 0; i < n; i++)
		if (requests[i] && atomic_load(&requests[i]->state) != TT_REQ_IDLE)
			keep_first(&first, report(name, &requests[i]));
	return first_error(&first);
}

/* For tests: no wait has left a request overdue. */
static void forget_overdue(int n, struct tutti_request **requests)
{
	int i;

	for (i = 0; i < n; i++)
		if (requests[i])
			requests[i]->overdue = false;
}

int tutti_waitall(int n, struct tutti_request **requests)
{
	int err = check_set(__func__, n, requests, NULL);

	if (err)
		return err;
	tt_wait_set(n, requests, false);
	return collect_all(__func__, n, requests);
}

int tutti_testall(int n, struct tutti_request **requests, int *done)
{
	int i, err = check_set(__func__, n, requests, done ? NULL : "done");

	if (err)
		return err;
	tt_test_set(n, requests);
	*done = 0;
	for (i = 0; i < n; i++)
		if (requests[i] && !tt_request_finished(requests[i]))
			return 0;
	*done = 1;
	return collect_all(__func__, n, requests);
}

static int any_over(const char *name, int n, struct tutti_request **requests, int *index,
		    int *active)
{
	*active = 0;
	*index = find_over(n, requests, 0, active);
	return *index < 0 ? 0 : report(name, &requests[*index]);
}

int tutti_waitany(int n, struct tutti_request **requests, int *index)
{
	int active, err = check_set(__func__, n, requests, index ? NULL : "index");

	if (err)
		return err;
	tt_wait_set(n, requests, true);
	return any_over(__func__, n, requests, index, &active);
}

int tutti_testany(int n, struct tutti_request **requests, int *index, int *done)
{
	const char *missing = !index ? "index" : done ? NULL : "done";
	int active, err = check_set(__func__, n, requests, missing);

	if (err)
		return err;
	forget_overdue(n, requests);
	tt_test_set(n, requests);
	err = any_over(__func__, n, requests, index, &active);
	*done = *index >= 0 || !active;
	return err;
}

static int some_over(const char *name, int n, struct tutti_request **requests, int *count,
		     int *indices, int *results)
{
	struct first first;
	int i = -1, err, active = 0;

	first.err = 0;
	*count = 0;
	while ((i = find_over(n, requests, i + 1, &active)) >= 0) {
		err = report(name, &requests[i]);
		keep_first(&first, err);
		if (results)
			results[*count] = err;
		indices[(*count)++] = i;
	}
	return first_error(&first);
}

int tutti_waitsome(int n, struct tutti_request **requests, int *count, int *indices, int *results)
{
	const char *missing = !count ? "count" : n > 0 && !indices ? "indices" : NULL;
	int err = check_set(__func__, n, requests, missing);

	if (err)
		return err;
	tt_wait_set(n, requests, true);
	return some_over(__func__, n, requests, count, indices, results);
}

int tutti_testsome(int n, struct tutti_request **requests, int *count, int *indices, int *results)
{
	const char *missing = !count ? "count" : n > 0 && !indices ? "indices" : NULL;
	int err = check_set(__func__, n, requests, missing);

	if (err)
		return err;
	forget_overdue(n, requests);
	tt_test_set(n, requests);
	return some_over(__func__, n, requests, count, indices, results);
}
