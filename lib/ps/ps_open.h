/* SPDX-License-Identifier: BSD-3-Clause */
/* What tutti_ps_open and tutti_ps_resize share. */
#ifndef TT_PS_OPEN_H
#define TT_PS_OPEN_H

#include "lib/engine/launch.h"
#include "lib/engine/vote.h"
#include "lib/ps/ps.h"

/* What every rank tells the others: whole 64-bit words. */
struct tt_ps_card {
	uint64_t role, workers, servers, staleness, copies, weight, in, back, generation, grace,
		verify, relay, host;
};

/*
 * What the caller gave, or what NULL means; errors name the call. last_role: the greatest that
 * there is.
 */
int tt_ps_read_config(const char *call, const struct tutti_ps_config *user, int last_role,
		      struct tutti_ps_config *c);
/* n ranks; *all: room for what they tell. */
struct tutti_ps *tt_ps_new(int n, struct tt_ps_card **all);
/* All but the servers' threads. ps has its communicators. Collective over them. */
int tt_ps_open_on(const char *call, struct tutti_ps *ps, const struct tutti_ps_config *c,
		  struct tt_ps_card *all);
void tt_ps_free(struct tutti_ps *ps);
/*
 * What this rank does on others is done; and nobody does anything here: it can't go on after this.
 */
int tt_ps_settle_own(struct tutti_ps *ps);
int tt_ps_settle(struct tutti_ps *ps);
/* A table like this one, which has been checked; all ranks give the same. Collective. */
int tt_ps_make_table(struct tutti_ps *ps, const struct tutti_ps_table *like,
		     struct tutti_ps_table **table);

/*
 * What tutti_ps_open and tutti_ps_close do once their arguments are checked; NULL is told to all
 * ranks.
 */
int tt_ps_open(struct tutti_comm *comm, const struct tutti_ps_config *config,
	       struct tutti_ps **out);
int tt_ps_close(struct tutti_ps *ps);
/*
 * ps_tables.c: `like` has shape and type; all ranks check the rest, and that they agree.
 * Collective.
 */
int tt_ps_table(struct tutti_ps *ps, const char *name, struct tutti_ps_table *like,
		const struct tutti_ps_options *options, struct tutti_ps_table **table);
struct tutti_ps_table *tt_ps_find(const struct tutti_ps *ps, const char *name); /* or NULL */
/* checkpoint/checkpoint.c */
int tt_ps_save(struct tutti_ps *ps, const char *path);
int tt_ps_restore(struct tutti_ps *ps, const char *path);
/* resize/resize_run.c */
int tt_ps_resize(struct tutti_ps *ps, struct tutti_comm *comm, const struct tutti_ps_config *config,
		 struct tutti_ps **newps);

#endif
