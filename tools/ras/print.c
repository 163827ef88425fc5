/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the ranks' answers. */
#include <stdio.h>
#include <stdlib.h>

#include "tools/ras/ras.h"

static const char *text(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

static long long number(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

static double real(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

/* "communicator 2 (gradients)" */
static void print_name(const json_t *c)
{
	printf("communicator %lld", number(c, "communicator"));
	if (*text(c, "name"))
		printf(" (%s)", text(c, "name"));
}

static void print_request(const json_t *c, const json_t *req)
{
	printf("  in %s", text(req, "call"));
	if (*text(c, "name")) {
		printf(" of ");
		print_name(c);
	}
	printf(" for %.3f s, %lld of %lld rounds, %lld bytes%s%s\n", real(req, "since"),
	       number(req, "rounds"), number(req, "of"), number(req, "bytes"),
	       *text(req, "waits") ? "; " : "", text(req, "waits"));
}

static void print_comm(const json_t *c)
{
	static const char *const kind[] = {"collective", "persistent", "neighbors", "other",
					   "receive"};
	const json_t *late = json_object_get(c, "late"), *req;
	bool idle = true;
	size_t i;

	if (*text(c, "error_text")) {
		printf("  ");
		print_name(c);
		printf(" has failed: %s\n", text(c, "error_text"));
	}
	for (i = 0; i < sizeof(kind) / sizeof(kind[0]); i++) {
		req = json_object_get(c, kind[i]);
		if (req)
			print_request(c, req);
		idle &= !req;
	}
	if (idle) {
		printf("  ");
		print_name(c);
		printf(": idle after %lld collectives\n", number(c, "calls"));
	}
	for (i = 0; i < json_array_size(late); i++)
		printf("  late: rank %lld\n", json_integer_value(json_array_get(late, i)));
}

static void print_unacked(const json_t *link)
{
	long long bytes = number(link, "unacked_bytes"), ops = number(link, "unacked_operations");

	if (bytes)
		printf(", %lld bytes unacknowledged for %.1f s", bytes, real(link, "unacked_for"));
	else if (ops)
		printf(", %lld operations unacknowledged for %.1f s", ops,
		       real(link, "unacked_for"));
	printf("\n");
}

static void print_links(const json_t *rank)
{
	const json_t *links = json_object_get(rank, "links"), *l;
	size_t i;

	for (i = 0; i < json_array_size(links); i++) {
		l = json_array_get(links, i);
		printf("  link to rank %lld: %s, %s", number(l, "peer"),
		       *text(l, "transport") ? text(l, "transport") : "no transport yet",
		       text(l, "state"));
		print_unacked(l);
	}
}

/* MB/s since the look before. */
static double rate(const json_t *now, const json_t *before, const char *key)
{
	double dt = real(now, "time") - real(before, "time");

	return dt > 0 ? (double)(number(now, key) - number(before, key)) / dt * 1e-6 : 0;
}

static void print_rank(const struct wish *w, int r, const json_t *now, const json_t *before)
{
	const json_t *comms = json_object_get(now, "communicators");
	double calls;
	size_t i;

	printf("rank %d on %s, process %lld, %lld operations", r, text(now, "host"),
	       number(now, "pid"), number(now, "operations"));
	if (before && real(now, "time") > real(before, "time")) {
		calls = (double)(number(now, "operations") - number(before, "operations")) /
			(real(now, "time") - real(before, "time"));
		printf("; per second: %.0f operations, %.1f MB put, %.1f got, %.1f pulled, %.1f "
		       "reduced",
		       calls, rate(now, before, "put_bytes"), rate(now, before, "got_bytes"),
		       rate(now, before, "pulled_bytes"), rate(now, before, "reduced_bytes"));
	}
	printf("\n");
	for (i = 0; i < json_array_size(comms); i++)
		print_comm(json_array_get(comms, i));
	if (w->links)
		print_links(now);
}

/* The ranks that other ranks wait for, once each. */
static void print_late(const struct answers *a)
{
	bool *late = calloc((size_t)a->nranks, sizeof(*late));
	size_t i, k;
	int r;

	for (r = 0; late && r < a->nranks; r++) {
		const json_t *comms = json_object_get(a->rank[r], "communicators");

		for (i = 0; i < json_array_size(comms); i++) {
			const json_t *l = json_object_get(json_array_get(comms, i), "late");

			for (k = 0; k < json_array_size(l); k++) {
				long long who = json_integer_value(json_array_get(l, k));

				if (who >= 0 && who < a->nranks)
					late[who] = true;
			}
		}
	}
	for (r = 0; late && r < a->nranks; r++)
		if (late[r])
			printf("late: rank %d\n", r);
	free(late);
}

void print_answers(const struct wish *w, const struct door *door, const struct answers *now,
		   const struct answers *before)
{
	int r;

	printf("job %s: %d rank%s\n", door->job, now->nranks, now->nranks == 1 ? "" : "s");
	for (r = 0; r < now->nranks; r++) {
		if (now->gone[r])
			printf("rank %d: gone\n", r);
		else if (!now->rank[r])
			printf("rank %d: no answer within %d ms\n", r, w->wait_ms);
		else
			print_rank(w, r, now->rank[r], r < before->nranks ? before->rank[r] : NULL);
	}
	print_late(now);
}
