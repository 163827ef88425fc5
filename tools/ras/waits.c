/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds who waits for whom. A rank knows for which rank a message waits, and which ranks are late
 * for a collective once they have said so. Before that, and for ranks that cannot answer, the
 * numbers of calls tell: a rank that has begun fewer collectives of the communicator is late; if
 * there is none, the ranks without an answer are waited for.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/ras/watch.h"

static void add_target(struct wait *wait, int rank)
{
	int i;

	for (i = 0; i < wait->ntargets; i++)
		if (wait->target[i] == rank)
			return;
	if (wait->ntargets < WAIT_FOR)
		wait->target[wait->ntargets++] = rank;
}

/* The rank's communicator of that uid, in its last answer; NULL: none. */
static const json_t *comm_of(const struct seen *s, const json_t *uid)
{
	const json_t *comms = json_object_get(s->now, "communicators"), *c;
	size_t i;

	for (i = 0; uid && i < json_array_size(comms); i++) {
		c = json_array_get(comms, i);
		if (json_equal(json_object_get(c, "uid"), uid))
			return c;
	}
	return NULL;
}

/* Ranks that have begun fewer collectives. */
static void add_behind(const struct view *v, struct wait *wait, double sequence)
{
	const json_t *c;
	int r;

	for (r = 0; r < v->nranks; r++) {
		c = v->seen[r].fresh ? comm_of(&v->seen[r], wait->of) : NULL;
		if (c && member_real(c, "calls") < sequence)
			add_target(wait, r);
	}
}

static void add_late(struct wait *wait, const json_t *comm)
{
	const json_t *late = json_object_get(comm, "late");
	size_t i;

	for (i = 0; i < json_array_size(late); i++)
		add_target(wait, (int)json_integer_value(json_array_get(late, i)));
}

/* Members that cannot answer; only those that are known to be stopped, if there are any. */
static void add_silent(const struct view *v, struct wait *wait, const json_t *comm, bool stopped)
{
	bool all = member_real(comm, "size") == v->nranks;
	const struct seen *s;
	int r;

	for (r = 0; r < v->nranks; r++) {
		s = &v->seen[r];
		if (!s->fresh && !s->gone && (s->stopped || !stopped) &&
		    (all || comm_of(s, wait->of)))
			add_target(wait, r);
	}
}

static void find_targets(const struct view *v, struct wait *wait, const json_t *comm,
			 const json_t *request)
{
	const json_t *sequence = json_object_get(request, "sequence");
	const json_t *peer = json_object_get(request, "waits_for");

	if (sequence)
		add_behind(v, wait, json_number_value(sequence));
	if (!wait->ntargets && sequence)
		add_late(wait, comm);
	if (!wait->ntargets && peer)
		add_target(wait, (int)json_integer_value(peer));
	if (!wait->ntargets && !peer)
		add_silent(v, wait, comm, true);
	if (!wait->ntargets && !peer)
		add_silent(v, wait, comm, false);
}

static bool same_wait(const struct wait *a, const struct wait *b)
{
	return a->ntargets == b->ntargets && json_equal(a->of, b->of) &&
	       !strcmp(a->call, b->call) &&
	       !memcmp(a->target, b->target, (size_t)a->ntargets * sizeof(*a->target));
}

/* The wait that new is part of, or a new one. */
static struct wait *place_for(struct view *v, const struct wait *new)
{
	struct wait *more;
	int i;

	for (i = 0; i < v->nwaits; i++)
		if (same_wait(&v->wait[i], new))
			return &v->wait[i];
	more = reallocarray(v->wait, (size_t)v->nwaits + 1, sizeof(*more));
	if (!more)
		return NULL;
	v->wait = more;
	v->wait[v->nwaits] = *new;
	v->wait[v->nwaits].rank = calloc((size_t)v->nranks, sizeof(int));
	return v->wait[v->nwaits].rank ? &v->wait[v->nwaits++] : NULL;
}

static int add_wait(struct view *v, int rank, const json_t *comm, const json_t *request)
{
	struct wait new = {.since = member_real(request, "since"),
			   .of = json_object_get(comm, "uid")},
		    *w;

	if (new.since < WAIT_SHOWN)
		return 0;
	snprintf(new.call, sizeof(new.call), "%s", member_text(request, "call"));
	snprintf(new.comm, sizeof(new.comm), "communicator %d",
		 (int)member_real(comm, "communicator"));
	if (*member_text(comm, "name"))
		snprintf(new.comm + strlen(new.comm), sizeof(new.comm) - strlen(new.comm), " (%s)",
			 member_text(comm, "name"));
	find_targets(v, &new, comm, request);
	w = place_for(v, &new);
	if (!w)
		return -1;
	w->since = new.since > w->since ? new.since : w->since;
	if (!w->nranks || w->rank[w->nranks - 1] != rank)
		w->rank[w->nranks++] = rank;
	return 0;
}

static int waits_of(struct view *v, int rank)
{
	static const char *const kinds[] = {"collective", "persistent", "neighbors", "other",
					    "receive"};
	const json_t *comms = json_object_get(v->seen[rank].now, "communicators"), *c, *request;
	size_t i, k;

	for (i = 0; i < json_array_size(comms); i++) {
		c = json_array_get(comms, i);
		for (k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
			request = json_object_get(c, kinds[k]);
			if (request && add_wait(v, rank, c, request))
				return -1;
		}
	}
	return 0;
}

static int longest_first(const void *a, const void *b)
{
	const struct wait *x = a, *y = b;

	return (x->since < y->since) - (x->since > y->since);
}

/* Sets the states of the ranks of a wait, unless they are worse already. */
static void set_moods(struct view *v, const struct wait *w)
{
	struct seen *s;
	int i;

	for (i = 0; i < w->nranks; i++) {
		s = &v->seen[w->rank[i]];
		s->mood = s->mood == RUNNING ? WAITING : s->mood;
	}
	for (i = 0; i < w->ntargets; i++) {
		s = w->target[i] >= 0 && w->target[i] < v->nranks ? &v->seen[w->target[i]] : NULL;
		if (s && (s->mood == RUNNING || s->mood == WAITING) && s->fresh)
			s->mood = LATE;
	}
}

int waits_find(struct view *v)
{
	int r, i;

	waits_free(v);
	for (r = 0; r < v->nranks; r++)
		if (v->seen[r].fresh && waits_of(v, r))
			return -1;
	if (v->nwaits)
		qsort(v->wait, (size_t)v->nwaits, sizeof(*v->wait), longest_first);
	for (i = 0; i < v->nwaits; i++)
		set_moods(v, &v->wait[i]);
	return 0;
}

void waits_free(struct view *v)
{
	int i;

	for (i = 0; i < v->nwaits; i++)
		free(v->wait[i].rank);
	free(v->wait);
	v->wait = NULL;
	v->nwaits = 0;
}
