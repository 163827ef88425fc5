/* SPDX-License-Identifier: BSD-3-Clause */
/* A tutti_ps_resize under way. */
#ifndef TT_RESIZE_RUN_H
#define TT_RESIZE_RUN_H

#include "lib/ps/ps_open.h"
#include "lib/ps/resize/resize.h"

#define TT_PS_RESIZE "tutti_ps_resize"

/* Sent by every rank to all ranks. */
struct tt_ps_was {
	uint64_t generation;	 /* of the old parameter server; 0: this rank is new */
	uint64_t worker, server; /* index + 1; 0: not one */
	uint64_t nworkers, nservers, copies, staleness, ntables, clock, trace_id, trace_ids;
	uint64_t role, new_staleness, given, backup; /* new role; given: set by the caller */
	uint64_t accrues;			     /* it has updates that n_push holds back */
};

struct tt_ps_resize {
	struct tutti_comm *comm;
	struct tutti_ps *old, *fresh; /* NULL: no part in it */
	struct tutti_ps_config config;
	struct tt_ps_was *was;	       /* by rank of comm */
	const struct tt_ps_was *first; /* the lowest rank that is not new */
	struct tt_ps_card *cards;
	int *rank_of;	  /* by rank of the new parameter server: rank of comm */
	bool *present;	  /* by old worker */
	int *copy, stays; /* by old server: the replica that this rank sends, or -1; number of ranks
			     that stay */
	uint64_t ntables, min_clock, *clock; /* clock: by new worker */
	struct tt_ps_layout to;
	bool stopped;
	bool voted; /* all live ranks know the result */
};

static inline bool tt_ps_stays(const struct tt_ps_was *w)
{
	return w->role != TUTTI_PS_LEAVE;
}

/* Whether all ranks have succeeded so far. */
static inline int tt_ps_resize_agree(const struct tt_ps_resize *r, int mine)
{
	return tt_agree(r->comm, TT_PS_RESIZE, mine);
}

/* resize_begin.c: steps tell, and hush and rest. Collective over comm. */
int tt_ps_resize_meet(struct tt_ps_resize *r, const struct tutti_ps_config *config);
int tt_ps_resize_quieten(struct tt_ps_resize *r);

/* resize_move.c: move all values from the old to the new parameter server. Collective over comm. */
int tt_ps_move_all(struct tt_ps_resize *r);

#endif
