/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the rank at fault. In this order: ranks whose calls do not match; a rank that has failed,
 * as other ranks report; a rank that has not made the call in which the others wait. A rank that is
 * late because it waits itself is not blamed; the rank it waits for is. If these waits form a
 * circle, the ranks make their calls in different orders.
 */
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/blame/blame.h"

#define E_PEER (-4097)
#define E_MISMATCH (-4098)

static const char *const fields[] = {"call", "type", "op", "count", "root"};
#define NFIELDS (sizeof(fields) / sizeof(fields[0]))

const char *op_text(const json_t *op, char *buf, size_t size)
{
	int n = snprintf(buf, size, "%s", str(op, "call"));

	if (num(op, "init", 0))
		n += snprintf(buf + n, size - (size_t)n, " init #%lld, start",
			      (long long)num(op, "init", 0));
	if (num(op, "sequence", 0))
		n += snprintf(buf + n, size - (size_t)n, " #%lld",
			      (long long)num(op, "sequence", 0));
	n += snprintf(buf + n, size - (size_t)n, " of communicator %lld",
		      (long long)num(op, "communicator", 0));
	if (*str(op, "name"))
		n += snprintf(buf + n, size - (size_t)n, " (%s)", str(op, "name"));
	if (json_object_get(op, "count"))
		n += snprintf(buf + n, size - (size_t)n, ", count %lld",
			      (long long)num(op, "count", 0));
	if (*str(op, "type"))
		n += snprintf(buf + n, size - (size_t)n, ", %s", str(op, "type"));
	if (*str(op, "op"))
		n += snprintf(buf + n, size - (size_t)n, ", %s", str(op, "op"));
	if (num(op, "root", -1) >= 0)
		n += snprintf(buf + n, size - (size_t)n, ", root %lld",
			      (long long)num(op, "root", 0));
	if (num(op, "peer", -1) >= 0)
		snprintf(buf + n, size - (size_t)n, ", rank %lld", (long long)num(op, "peer", 0));
	return buf;
}

/* ---- ranks whose calls do not match ---- */

static int order(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

/* By communicator, number of the _init call and number: 0 is one collective, on different ranks. */
static int compare_calls(const void *a, const void *b)
{
	const json_t *x = a, *y = b;
	int c = strcmp(str(x, "uid"), str(y, "uid"));

	c = c ? c : order(num(x, "init", 0), num(y, "init", 0));
	return c ? c : order(num(x, "sequence", 0), num(y, "sequence", 0));
}

/* The first field in which two calls differ, NULL: none. */
static const char *differ(const json_t *a, const json_t *b)
{
	size_t i;

	for (i = 0; i < NFIELDS; i++) {
		const json_t *x = json_object_get(a, fields[i]), *y = json_object_get(b, fields[i]);

		if ((x || y) && !(x && y && json_equal(x, y)))
			return fields[i];
	}
	return NULL;
}

static const json_t *find_call(const struct dump *d, const json_t *like)
{
	size_t i;

	for (i = 0; d && i < d->nops; i++)
		if (!compare_calls(d->op[i], like))
			return d->op[i];
	return NULL;
}

/* The call that most ranks made. */
static const json_t *usual(const struct dumps *all, const json_t *like, int *votes)
{
	const json_t *best = NULL, *a, *b;
	int i, k, n;

	*votes = 0;
	for (i = 0; i < all->nranks; i++) {
		a = find_call(all->of[i], like);
		for (k = n = 0; a && k < all->nranks; k++) {
			b = find_call(all->of[k], like);
			n += b && !differ(a, b);
		}
		if (n > *votes) {
			*votes = n;
			best = a;
		}
	}
	return best;
}

static bool blame_call(const struct dumps *all, const json_t *like, struct verdict *v)
{
	const json_t *most, *own = NULL;
	char a[256], b[256];
	int votes, i;

	most = usual(all, like, &votes);
	for (i = 0; i < all->nranks; i++) {
		own = find_call(all->of[i], like);
		if (own && differ(most, own))
			break;
	}
	if (i == all->nranks)
		return false;
	v->rank = i;
	op_text(own, v->call, sizeof(v->call));
	snprintf(v->field, sizeof(v->field), "%s", differ(most, own));
	snprintf(v->why, sizeof(v->why), "it called %s, while %d other%s called %s%s",
		 op_text(own, a, sizeof(a)), votes, votes == 1 ? "" : "s",
		 op_text(most, b, sizeof(b)),
		 votes == 1 ? "; one against one, so either may be wrong" : "");
	return true;
}

static void keep(void *op)
{
	(void)op; /* the dump's */
}

static bool mismatch(const struct dumps *all, struct verdict *v)
{
	void *calls = NULL;
	bool found = false;
	size_t k;
	int i;

	for (i = 0; i < all->nranks && !found; i++)
		for (k = 0; all->of[i] && k < all->of[i]->nops && !found; k++) {
			const json_t *op = all->of[i]->op[k], **first;

			if (!num(op, "sequence", 0))
				continue;
			first = tsearch(op, &calls, compare_calls);
			found = first && differ(*first, op) && blame_call(all, op, v);
		}
	tdestroy(calls, keep);
	return found;
}

/* ---- the first failure that some rank reports ---- */

/*
 * A rank that others miss because it has given up before, for a reason that is not another rank's
 * death.
 */
static bool gave_up(const struct dumps *all, int64_t rank, double before)
{
	const struct dump *d = rank >= 0 && rank < all->nranks ? all->of[rank] : NULL;
	size_t k;

	for (k = 0; d && k < d->ncomms; k++)
		if (num(d->comm[k], "error", 0) && num(d->comm[k], "error", 0) != E_PEER &&
		    real(d->comm[k], "error_time") < before)
			return true;
	return false;
}

static const json_t *first_failure(const struct dumps *all, int code)
{
	const json_t *first = NULL;
	size_t k;
	int i;

	for (i = 0; i < all->nranks; i++)
		for (k = 0; all->of[i] && k < all->of[i]->ncomms; k++) {
			const json_t *c = all->of[i]->comm[k];

			if (num(c, "error", 0) != code ||
			    (code == E_PEER &&
			     gave_up(all, num(c, "error_rank", -1), real(c, "error_time"))))
				continue;
			if (!first || real(c, "error_time") < real(first, "error_time"))
				first = c;
		}
	return first;
}

/* Facts that only the failure contains, such as lengths that differ between two ranks. */
static bool told_mismatch(const struct dumps *all, struct verdict *v)
{
	const json_t *c = first_failure(all, E_MISMATCH);

	if (!c || num(c, "error_rank", -1) < 0 || num(c, "error_rank", -1) >= all->nranks)
		return false;
	v->rank = (int)num(c, "error_rank", -1);
	snprintf(v->call, sizeof(v->call), "%s #%lld of communicator %lld%s%s%s",
		 str(c, "error_call"), (long long)num(c, "error_sequence", 0),
		 (long long)num(c, "communicator", 0), *str(c, "name") ? " (" : "", str(c, "name"),
		 *str(c, "name") ? ")" : "");
	snprintf(v->field, sizeof(v->field), "%s", str(c, "error_field"));
	snprintf(v->why, sizeof(v->why), "%s", str(c, "error_text"));
	return true;
}

static void say_where(const struct dump *d, char *buf, size_t size)
{
	const json_t *op = d ? current(d) : NULL;
	char text[256];

	if (!d)
		snprintf(buf, size, "it left no dump");
	else if (!op)
		snprintf(buf, size, "it had called nothing");
	else if (pending(op))
		snprintf(buf, size, "it was in %s, %lld of %lld rounds done, %lld bytes",
			 op_text(op, text, sizeof(text)), (long long)num(op, "rounds", 0),
			 (long long)num(op, "of", 0), (long long)num(op, "bytes", 0));
	else
		snprintf(buf, size, "its last call was %s, which it had finished",
			 op_text(op, text, sizeof(text)));
}

/* The collective that others wait in, as far as one of them remembers. */
static const json_t *waited_in(const struct dumps *all, int but)
{
	int i;

	for (i = 0; i < all->nranks; i++) {
		const json_t *op = all->of[i] && i != but ? current(all->of[i]) : NULL;

		if (op && pending(op))
			return op;
	}
	return NULL;
}

static bool gone(const struct dumps *all, struct verdict *v)
{
	const json_t *c = first_failure(all, E_PEER), *op;
	const struct dump *d;
	const char *reason = "";
	char where[400];
	int rank;

	rank = c ? (int)num(c, "error_rank", -1) : -1;
	if (rank < 0 || rank >= all->nranks)
		return false;
	d = all->of[rank];
	if (d && strcmp(str(d->head, "reason"), "error") &&
	    strcmp(str(d->head, "reason"), "signal"))
		reason = str(d->head, "reason");
	op = waited_in(all, rank);
	v->rank = rank;
	if (op)
		op_text(op, v->call, sizeof(v->call));
	say_where(d, where, sizeof(where));
	snprintf(v->why, sizeof(v->why), "%s%s%s%s; %s", str(c, "error_text"), *reason ? " (" : "",
		 reason, *reason ? ")" : "", where);
	return true;
}

/* ---- ranks that have not made the call ---- */

/*
 * The number of the last call of the kind of op: a persistent operation's start, or any other.
 * INT64_MAX: its record may have been overwritten.
 */
static int64_t last_call(const struct dump *d, const json_t *op)
{
	const json_t *comm = comm_of(d, str(op, "uid"));
	int64_t last = (int64_t)d->nops < num(d->head, "kept", 0) ? 0 : INT64_MAX;
	size_t i;

	if (!num(op, "init", 0))
		return num(comm, "calls", 0);
	for (i = 0; i < d->nops; i++)
		if (num(d->op[i], "init", 0) == num(op, "init", 0) &&
		    !strcmp(str(d->op[i], "uid"), str(op, "uid")))
			last = num(d->op[i], "sequence", 0);
	return last;
}

/*
 * A member of the communicator of op, other than those before `from`, that has not called it; -1:
 * all have.
 */
static int missing(const struct dumps *all, const struct dump *d, const json_t *op, size_t from,
		   size_t *at)
{
	const json_t *comm = comm_of(d, str(op, "uid"));
	const json_t *members = json_object_get(comm, "members");
	int64_t seq = num(op, "sequence", 0);
	bool told = num(comm, "late_sequence", 0) == seq &&
		    num(comm, "late_init", 0) == num(op, "init", 0);
	size_t i, n = json_array_size(members);

	for (i = from; i < n; i++) {
		int r = (int)json_integer_value(json_array_get(members, i));

		if (r < 0 || r >= all->nranks || r == d->rank)
			continue;
		if (all->of[r] &&
		    (!comm_of(all->of[r], str(op, "uid")) || last_call(all->of[r], op) >= seq))
			continue;
		if (!all->of[r] && !told && !num(comm, "error", 0))
			continue; /* nothing is known about it */
		*at = i;
		return r;
	}
	return -1;
}

static const json_t *waits(const struct dump *d)
{
	const json_t *op = d ? current(d) : NULL;

	return op && pending(op) ? op : NULL;
}

/* A waiting rank whose call has the fewest waiting ranks. */
static int odd_one(const struct dumps *all)
{
	int i, k, n, rank = -1, fewest = 0;

	for (i = 0; i < all->nranks; i++) {
		const json_t *op = waits(all->of[i]);

		for (k = n = 0; op && k < all->nranks; k++) {
			const json_t *other = waits(all->of[k]);

			n += other && !compare_calls(op, other);
		}
		if (op && (rank < 0 || n < fewest)) {
			rank = i;
			fewest = n;
		}
	}
	return rank;
}

static bool circle(const struct dumps *all, int rank, struct verdict *v)
{
	const json_t *op = waits(all->of[rank]);
	char text[256], text2[256];
	size_t at;
	int other = missing(all, all->of[rank], op, 0, &at);

	v->rank = rank;
	op_text(op, v->call, sizeof(v->call));
	snprintf(v->field, sizeof(v->field), "order");
	snprintf(v->why, sizeof(v->why),
		 "ranks call in different orders: it waits in %s for rank %d, which waits in %s",
		 op_text(op, text, sizeof(text)), other,
		 other >= 0 && waits(all->of[other])
			 ? op_text(waits(all->of[other]), text2, sizeof(text2))
			 : "another call");
	return true;
}

static bool late(const struct dumps *all, struct verdict *v)
{
	int i, rank = -1, next, steps = 0;
	const json_t *op = NULL;
	char where[400];
	double since;
	size_t at;

	for (i = 0; i < all->nranks && rank < 0; i++) {
		op = waits(all->of[i]);
		if (op)
			rank = missing(all, all->of[i], op, 0, &at);
	}
	if (rank < 0)
		return false;
	while (waits(all->of[rank]) && steps++ <= all->nranks) {
		next = missing(all, all->of[rank], waits(all->of[rank]), 0, &at);
		if (next < 0)
			break;
		op = waits(all->of[rank]);
		rank = next;
	}
	if (steps > all->nranks)
		return circle(all, odd_one(all), v);
	v->rank = rank;
	op_text(op, v->call, sizeof(v->call));
	since = real(op, "end") ? real(op, "end") - real(op, "start") : 0;
	say_where(all->of[rank], where, sizeof(where));
	if (since > 0)
		snprintf(v->why, sizeof(v->why),
			 "it never called that, in which others waited %.3f s; %s", since, where);
	else
		snprintf(v->why, sizeof(v->why),
			 "it has not called that yet, in which others wait; %s", where);
	return true;
}

void judge(const struct dumps *all, struct verdict *v)
{
	*v = (struct verdict){.rank = -1};
	if (mismatch(all, v) || told_mismatch(all, v) || gone(all, v) || late(all, v))
		return;
	snprintf(v->why, sizeof(v->why),
		 "no rank differs from the others, has failed, or is waited for");
}
