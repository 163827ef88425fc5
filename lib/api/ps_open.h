/* SPDX-License-Identifier: BSD-3-Clause */
/* What tutti_ps_open and tutti_ps_resize share. */
#ifndef TT_API_PS_OPEN_H
#define TT_API_PS_OPEN_H

#include "lib/api/api.h"
#include "lib/ps/ps.h"

/* What every rank tells the others: whole 64-bit words. */
struct tt_ps_card {
	uint64_t role, workers, servers, staleness, copies, weight, in, back, generation, grace, verify, relay, host;
};

/* What the caller gave, or what NULL means; errors name the call. last_role: the greatest that there is. */
int tt_ps_read_config(const char *call, const struct tutti_ps_config *user, int last_role,
		      struct tutti_ps_config *c);
/* n ranks; *all: room for what they tell. */
struct tutti_ps *tt_ps_new(int n, struct tt_ps_card **all);
/* All but the servers' threads. ps has its communicators. Collective over them. */
int tt_ps_open_on(const char *call, struct tutti_ps *ps, const struct tutti_ps_config *c,
		  struct tt_ps_card *all);
void tt_ps_free(struct tutti_ps *ps);
/* Whether it has gone well on all ranks of comm that live: the same on all of them, whoever dies. Every rank comes here. */
int tt_ps_vote(const char *call, struct tutti_comm *comm, int err);
/*
 * After a vote, on all ranks of comm; ps NULL: this rank has none. Nobody frees what others still write into: their transport would
 * take that for a fault and close the connection, and then one of two ranks that live has to go.
 */
void tt_ps_free_together(struct tutti_comm *comm, struct tutti_ps *ps);
/* What this rank does on others is done. */
int tt_ps_settle_own(struct tutti_ps *ps);
/* Nobody does anything on this rank any more, and what it does on others is done: it can't go on after this. */
int tt_ps_settle(struct tutti_ps *ps);
/* A table like this one, which has been checked; all ranks give the same. Collective. */
int tt_ps_make_table(struct tutti_ps *ps, const struct tutti_ps_table *like,
		     struct tutti_ps_table **table);

#endif
