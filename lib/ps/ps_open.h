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
/* What this rank does on others is done; and nobody does anything here: it can't go on after this. */
int tt_ps_settle_own(struct tutti_ps *ps);
int tt_ps_settle(struct tutti_ps *ps);
/* A table like this one, which has been checked; all ranks give the same. Collective. */
int tt_ps_make_table(struct tutti_ps *ps, const struct tutti_ps_table *like,
		     struct tutti_ps_table **table);

#endif
