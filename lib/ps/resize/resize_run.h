/* SPDX-License-Identifier: BSD-3-Clause */
/* A tutti_ps_resize under way. */
#ifndef TT_RESIZE_RUN_H
#define TT_RESIZE_RUN_H

#include "lib/ps/ps_open.h"
#include "lib/ps/resize/resize.h"

#define TT_PS_RESIZE "tutti_ps_resize"

/* What every rank tells the others. */
struct tt_ps_was {
	uint64_t generation;	 /* of the old one; 0: this rank is new */
	uint64_t worker, server; /* index + 1; 0: was none */
	uint64_t nworkers, nservers, copies, staleness, ntables, clock, trace_id, trace_ids;
	uint64_t role, new_staleness, given; /* to be; given: the caller said so */
};

struct tt_ps_resize {
	struct tutti_comm *comm;
	struct tutti_ps *old, *fresh; /* NULL: no part in it */
	struct tutti_ps_config config;
	struct tt_ps_was *was;	       /* by rank of comm */
	const struct tt_ps_was *first; /* the lowest rank that is not new */
	struct tt_ps_card *cards;
	int *rank_of;  /* by rank of the new one: that of comm */
	bool *present; /* by old worker */
	int *copy,
		stays; /* by old server: which copy this rank sends, or -1; how many ranks go on */
	uint64_t ntables, min_clock, *clock; /* clock: by new worker */
	struct tt_ps_layout to;
	bool stopped;
	bool voted; /* all that live know how it ended */
};

static inline bool tt_ps_stays(const struct tt_ps_was *w)
{
	return w->role != TUTTI_PS_LEAVE;
}

/* Whether all ranks have got so far. */
static inline int tt_ps_resize_agree(const struct tt_ps_resize *r, int mine)
{
	return tt_agree(r->comm, TT_PS_RESIZE, mine);
}

/* resize_move.c: the new one gets what the old one has. Collective over comm. */
int tt_ps_move_all(struct tt_ps_resize *r);

#endif
