/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The persistent collectives of a communicator: each has a history of its own, so that ranks may
 * start them in any order.
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/base/hash.h"
#include "lib/comm/comm.h"

static struct tt_series *series_of(const struct tutti_comm *comm, uint32_t init)
{
	uint64_t at = tt_map_find(&comm->series, init);

	return at == TT_MAP_NONE ? NULL : (struct tt_series *)(uintptr_t)at;
}

/* The last start of an operation, which may have been freed since; NULL: not known. */
static const struct tt_past *last_start(const struct tutti_comm *comm, uint32_t init)
{
	const struct tt_series *s = series_of(comm, init);
	int i;

	if (s)
		return &s->past;
	for (i = 0; comm->ended && i < TT_HISTORY; i++)
		if (comm->ended[i].fields.init == init)
			return &comm->ended[i];
	return NULL;
}

int tt_series_new(struct tutti_comm *comm, struct tt_series *s, struct tt_fields *fields,
		  struct tt_counts *counts)
{
	if (!comm->ended)
		comm->ended = calloc(TT_HISTORY, sizeof(*comm->ended));
	if (!comm->ended || tt_map_set(&comm->series, comm->inits + 1, (uint64_t)(uintptr_t)s))
		return tt_fail(-ENOMEM, "no memory for a persistent operation");
	fields->init = ++comm->inits;
	*s = (struct tt_series){.past.fields = *fields, .past.mixed = tt_comm_mix(comm, fields)};
	s->past.counts = counts ? tt_counts_get(counts) : NULL;
	s->polled_seq = tt_comm_polled(comm, fields->init);
	if (s->polled_seq)
		tt_stuck_report(comm, s->polled_seq, fields);
	return 0;
}

/* Other ranks may still ask for its fields: they learn that theirs differ when they start it. */
void tt_series_free(struct tutti_comm *comm, struct tt_series *s)
{
	struct tt_past *ended = &comm->ended[comm->nended++ % TT_HISTORY];

	tt_counts_put(ended->counts);
	*ended = s->past;
	tt_map_remove(&comm->series, s->past.fields.init);
}

static void note_start(struct tutti_comm *comm, uint32_t init)
{
	int i;

	for (i = 0; i < TT_STARTED; i++)
		if (comm->started[i] == init)
			return;
	comm->started[comm->nstarted++ % TT_STARTED] = init;
}

uint64_t tt_series_called(struct tutti_comm *comm, struct tt_series *s)
{
	note_start(comm, s->past.fields.init);
	s->past.fprint = tt_hash_add(s->past.mixed, ++s->past.seq);
	if (s->past.seq == s->polled_seq) {
		tt_stuck_came(comm, s->past.seq, &s->past.fields);
		tt_comm_expect_poll(comm, s->past.fields.init);
	}
	return s->past.fprint;
}

bool tt_comm_inited(const struct tutti_comm *comm, uint32_t init, struct tt_fields *fields)
{
	const struct tt_past *last = last_start(comm, init);

	if (last)
		*fields = last->fields;
	return last;
}

uint64_t tt_comm_calls(const struct tutti_comm *comm, uint32_t init)
{
	const struct tt_past *last;

	if (!init)
		return comm->seq;
	last = last_start(comm, init);
	return last ? last->seq : init <= comm->inits ? UINT64_MAX : 0;
}

bool tt_comm_past(const struct tutti_comm *comm, uint32_t init, uint64_t seq, struct tt_past *past)
{
	const struct tt_past *last;

	if (!init) {
		*past = comm->history[seq % TT_HISTORY];
		return past->seq && past->seq == seq;
	}
	last = last_start(comm, init);
	if (!last || !seq || seq > last->seq)
		return false;
	*past = *last; /* its starts differ in the number only */
	past->seq = seq;
	past->fprint = tt_hash_add(past->mixed, seq);
	return true;
}

void tt_comm_expect_poll(struct tutti_comm *comm, uint32_t init)
{
	struct tt_series *s = init ? series_of(comm, init) : NULL;

	if (s)
		s->polled_seq = tt_comm_polled(comm, init);
	else if (!init)
		comm->polled_seq = tt_comm_polled(comm, 0);
}

bool tt_comm_waits_late(const struct tutti_comm *comm)
{
	enum tt_active list = comm->late_init ? TT_ACTIVE_PERSISTENT : TT_ACTIVE_COLL;

	return comm->nlate && comm->late_seq == tt_comm_calls(comm, comm->late_init) &&
	       (!tt_list_empty(&comm->active[list]) ||
		!tt_list_empty(&comm->active[TT_ACTIVE_NEIGHBORS]));
}
