/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by tutti_ps_open and tutti_ps_resize. */
#ifndef TT_PS_OPEN_H
#define TT_PS_OPEN_H

#include "lib/engine/launch.h"
#include "lib/engine/vote.h"
#include "lib/ps/ps.h"

/* Sent by every rank to all ranks, in whole 64-bit words. */
struct tt_ps_card {
	uint64_t role, workers, servers, staleness, copies, weight, in, back, generation, verify,
		relay, host, backup;
	uint64_t grace, near_grace; /* microseconds; the second if all ranks share memory */
	uint64_t near;		    /* this rank shares memory with all others */
};

/*
 * Reads the caller's configuration, or the defaults for NULL; errors name the call. last_role: the
 * greatest valid role.
 */
int tt_ps_read_config(const char *call, const struct tutti_ps_config *user, int last_role,
		      struct tutti_ps_config *c);
/* n ranks; *all: room for their cards. */
struct tutti_ps *tt_ps_new(int n, struct tt_ps_card **all);
/* Everything but the servers' threads. ps has its communicators. Collective over them. */
int tt_ps_open_on(const char *call, struct tutti_ps *ps, const struct tutti_ps_config *c,
		  struct tt_ps_card *all);
void tt_ps_free(struct tutti_ps *ps);
/*
 * Wait until this rank's operations on other ranks are done; tt_ps_settle also until no rank
 * operates on this one. ps cannot be used afterwards.
 */
int tt_ps_settle_own(struct tutti_ps *ps);
int tt_ps_settle(struct tutti_ps *ps);
/* Makes a table with the checked settings of `like`, which are equal on all ranks. Collective. */
int tt_ps_make_table(struct tutti_ps *ps, const struct tutti_ps_table *like,
		     struct tutti_ps_table **table);

/*
 * The body of tutti_ps_open and tutti_ps_close once arguments are checked. NULL is reported to all
 * ranks.
 */
int tt_ps_open(struct tutti_comm *comm, const struct tutti_ps_config *config,
	       struct tutti_ps **out);
int tt_ps_close(struct tutti_ps *ps);
/*
 * ps_tables.c: `like` has shape and type. All ranks check the rest, and that they agree.
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
