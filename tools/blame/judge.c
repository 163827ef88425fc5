/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the rank at fault. In this order: ranks whose calls do not match; a rank that has failed,
 * as other ranks report; a rank that has not made the call in which the others wait. A rank that is
 * late because it waits itself, in a collective or for a message, is not blamed; the rank it waits
 * for is. If all these waits form circles, the ranks make their calls in different orders.
 */
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/blame/blame.h"

#define E_PEER (-4097)
#define E_MISMATCH (-4098)

/* A field of a dump's calls, and what errors call it. */
static const struct {
	const char *key, *name;
} fields[] = {{"call", "collective"},
	      {"type", "datatype"},
	      {"op", "op"},
	      {"count", "count"},
	      {"root", "root"}};
#define NFIELDS (sizeof(fields) / sizeof(fields[0]))

static bool receives(const json_t *op)
{
	return !strcmp(str(op, "call"), "recv") || !strcmp(str(op, "call"), "probe");
}

static const char *direction(const json_t *op)
{
	if (receives(op))
		return "from ";
	return !strcmp(str(op, "call"), "send") || !strcmp(str(op, "call"), "ssend") ? "to " : "";
}

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
		n += snprintf(buf + n, size - (size_t)n, ", %srank %lld", direction(op),
			      (long long)num(op, "peer", 0));
	else if (receives(op))
		n += snprintf(buf + n, size - (size_t)n, ", from any rank");
	if (num(op, "tag", -1) >= 0)
		snprintf(buf + n, size - (size_t)n, ", tag %lld", (long long)num(op, "tag", 0));
	return buf;
}

const char *progress_text(const json_t *op, char *buf, size_t size)
{
	int n = 0;

	if (num(op, "sequence", 0))
		n = snprintf(buf, size, "%lld of %lld rounds, ", (long long)num(op, "rounds", 0),
			     (long long)num(op, "of", 0));
	snprintf(buf + n, size - (size_t)n, "%lld bytes", (long long)num(op, "bytes", 0));
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
		const json_t *x = json_object_get(a, fields[i].key),
			     *y = json_object_get(b, fields[i].key);

		if ((x || y) && !(x && y && json_equal(x, y)))
			return fields[i].name;
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

/* A rank that others miss because it has given up before. */
static bool gave_up(const struct dumps *all, int64_t rank, double before)
{
	const struct dump *d = rank >= 0 && rank < all->nranks ? all->of[rank] : NULL;
	size_t k;

	for (k = 0; d && k < d->ncomms; k++)
		if (num(d->comm[k], "error", 0) && real(d->comm[k], "error_time") < before)
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

/* The collective or message in which a rank waits, NULL: none. */
static const json_t *waits(const struct dump *d)
{
	const json_t *op = d ? current(d) : NULL;

	return op && pending(op) && (num(op, "sequence", 0) || in_message(d, op)) ? op : NULL;
}

static void say_where(const struct dump *d, char *buf, size_t size)
{
	const json_t *op = d ? current(d) : NULL;
	char text[256], done[64];

	if (!d)
		snprintf(buf, size, "it left no dump");
	else if (!op)
		snprintf(buf, size, "it had called nothing");
	else if (waits(d))
		snprintf(buf, size, "it was in %s, %s done", op_text(op, text, sizeof(text)),
			 progress_text(op, done, sizeof(done)));
	else
		snprintf(buf, size, "its last call was %s%s", op_text(op, text, sizeof(text)),
			 pending(op) ? "" : ", which it had finished");
}

/* The collective that others wait in, as far as one of them remembers, or else the message. */
static const json_t *waited_in(const struct dumps *all, int but)
{
	const json_t *message = NULL;
	int i;

	for (i = 0; i < all->nranks; i++) {
		const json_t *op = i != but ? waits(all->of[i]) : NULL;

		if (op && num(op, "sequence", 0))
			return op;
		message = message ? message : op;
	}
	return message;
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

/* The other rank of a message, in the world; -1: any rank, or not known. */
static int other_end(const struct dumps *all, const struct dump *d, const json_t *op)
{
	const json_t *comm = comm_of(d, str(op, "uid"));
	const json_t *members = json_object_get(comm, "members");
	int64_t rank = num(op, "peer", -1);

	if (rank < 0)
		return -1;
	if (num(comm, "communicator", 0) != 1) { /* else the world, whose ranks are these */
		const json_t *member = json_array_get(members, (size_t)rank);

		rank = json_is_integer(member) ? json_integer_value(member) : -1;
	}
	return rank < all->nranks && rank != d->rank ? (int)rank : -1;
}

/* That rank `by` waits for rank `to` in op. */
struct wait {
	const json_t *op;
	int by, to;
};

/* The next wait of a rank, from *at, which begins at 0; false: there are no more. */
static bool next_wait(const struct dumps *all, int rank, size_t *at, struct wait *w)
{
	const struct dump *d = all->of[rank];

	*w = (struct wait){.op = waits(d), .by = rank, .to = -1};
	if (w->op && num(w->op, "sequence", 0)) {
		w->to = missing(all, d, w->op, *at, at);
		(*at)++;
		return w->to >= 0;
	}
	while (w->op && w->to < 0 && *at < d->nops) {
		w->op = d->op[(*at)++];
		if (!num(w->op, "sequence", 0) && in_message(d, w->op))
			w->to = other_end(all, d, w->op);
	}
	return w->to >= 0;
}

/* Whether two ranks wait in the same collective. */
static bool same_wait(const json_t *a, const json_t *b)
{
	return a == b || (num(a, "sequence", 0) && !compare_calls(a, b));
}

/*
 * A rank that waits for another, whose call has the fewest waiting ranks; with as many, one in a
 * message, which may be a request that it does not wait for yet.
 */
static int odd_one(const struct dumps *all)
{
	int i, k, n, rank = -1, fewest = 0;

	for (i = 0; i < all->nranks; i++) {
		const json_t *op = waits(all->of[i]);
		size_t at = 0;

		if (!next_wait(all, i, &at, &(struct wait){0}))
			continue; /* it may receive from any rank */
		for (k = n = 0; op && k < all->nranks; k++) {
			const json_t *other = waits(all->of[k]);

			n += other && same_wait(op, other);
		}
		n = 2 * n + (op && num(op, "sequence", 0));
		if (op && (rank < 0 || n < fewest)) {
			rank = i;
			fewest = n;
		}
	}
	return rank;
}

static bool circle(const struct dumps *all, int rank, struct verdict *v)
{
	char text[256], text2[256] = "another call";
	const json_t *other;
	struct wait w;
	size_t at = 0;
	bool calls;

	next_wait(all, rank, &at, &w);
	other = w.to >= 0 ? waits(all->of[w.to]) : NULL;
	v->rank = rank;
	op_text(w.op, v->call, sizeof(v->call));
	snprintf(v->field, sizeof(v->field), "order");
	if (other)
		op_text(other, text2, sizeof(text2));
	calls = num(w.op, "sequence", 0) && other && num(other, "sequence", 0);
	snprintf(v->why, sizeof(v->why), "ranks %s: it waits in %s for rank %d, which waits in %s",
		 calls ? "call in different orders" : "wait in a circle",
		 op_text(w.op, text, sizeof(text)), w.to, text2);
	return true;
}

/*
 * Follows the waits of rank `start`, and of the ranks that these lead to, up to a rank that waits
 * for no rank. seen, queue: nranks each; seen lasts over calls. Returns whether there are waits;
 * w->to, the rank, is -1 if all lead in circles.
 */
static bool follow(const struct dumps *all, int start, bool *seen, struct wait *queue,
		   struct wait *w)
{
	int head = 0, tail = 0;
	bool any = false;
	size_t at;

	*w = (struct wait){.to = -1};
	at = 0;
	if (seen[start] || !next_wait(all, start, &at, &(struct wait){0}))
		return false;
	seen[start] = true;
	queue[tail++] = (struct wait){.to = start};
	while (head < tail) {
		struct wait to = queue[head++], next;
		bool waiting = false;

		for (at = 0; next_wait(all, to.to, &at, &next); waiting = any = true)
			if (!seen[next.to]) {
				seen[next.to] = true;
				queue[tail++] = next;
			}
		if (!waiting && to.op) {
			*w = to;
			return true;
		}
	}
	return any;
}

static void say_late(const struct dumps *all, const struct wait *w, struct verdict *v)
{
	double since = real(w->op, "end") ? real(w->op, "end") - real(w->op, "start") : 0;
	const char *verb = receives(w->op) ? "sent" : "received";
	char where[400], who[64] = "in which others wait", what[32] = "called";

	if (!num(w->op, "sequence", 0)) {
		snprintf(who, sizeof(who), "for which rank %d wait%s", w->by, since > 0 ? "" : "s");
		snprintf(what, sizeof(what), "%s", verb);
	}
	v->rank = w->to;
	op_text(w->op, v->call, sizeof(v->call));
	say_where(all->of[w->to], where, sizeof(where));
	if (since > 0)
		snprintf(v->why, sizeof(v->why), "it never %s that, %sed %.3f s; %s", what, who,
			 since, where);
	else
		snprintf(v->why, sizeof(v->why), "it has not %s that yet, %s; %s", what, who,
			 where);
}

static bool late(const struct dumps *all, struct verdict *v)
{
	size_t n = (size_t)all->nranks;
	struct wait *queue = calloc(n, sizeof(*queue)), w = {.to = -1};
	bool *seen = calloc(n, sizeof(*seen)), any = false;
	int i;

	for (i = 0; queue && seen && i < all->nranks && w.to < 0; i++)
		any |= follow(all, i, seen, queue, &w);
	free(queue);
	free(seen);
	if (w.to >= 0)
		say_late(all, &w, v);
	return w.to >= 0 || (any && circle(all, odd_one(all), v));
}

void judge(const struct dumps *all, struct verdict *v)
{
	*v = (struct verdict){.rank = -1};
	if (mismatch(all, v) || told_mismatch(all, v) || gone(all, v) || late(all, v))
		return;
	snprintf(v->why, sizeof(v->why),
		 "no rank differs from the others, has failed, or is waited for");
}
