/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TT_PS_RESIZE_H
#define TT_PS_RESIZE_H

#include "lib/ps/ps.h"

/*
 * resize.c: what moves when servers change. Every rank of the call's communicator knows where
 * everything goes, also ranks that are only in the old or only in the new parameter server.
 */
struct tt_ps_layout {
	int nservers, copies;
	uint64_t ntables;
	uint64_t *words;  /* all of the below */
	uint64_t *server; /* by server: rank in that communicator */
	uint32_t *upto;	  /* weights, as in struct tutti_ps */
	uint64_t *begin;  /* by table: nservers + 1 of them; of rows 0 */
};

size_t tt_ps_layout_words(int nservers, uint64_t ntables);
/* The words (nservers, copies and so on) have arrived: sets the other fields. */
void tt_ps_layout_set(struct tt_ps_layout *l);
/* rank_of: by rank of ps, the rank in the communicator */
void tt_ps_layout_get(const struct tutti_ps *ps, const int *rank_of, struct tt_ps_layout *l);

/* This rank's pieces still to send, and what has arrived. */
struct tt_ps_move {
	const struct tt_ps_layout *to;
	struct tutti_ps *old, *fresh; /* NULL: it has no part in it */
	const int *copy;	      /* by old server: which copy this rank sends; -1: none */
	size_t room;		      /* bytes for each new server at once */
	char *out;		      /* so many for each */
	size_t *len;		      /* of them in use */
	char **last;		      /* the piece that rows are added to */
	int server; /* where we are: old server, table, element of its part, or row */
	uint32_t table;
	uint64_t at;
	uint64_t *arrived; /* by table and copy: elements */
};

int tt_ps_move_new(struct tt_ps_move *m);
void tt_ps_move_free(struct tt_ps_move *m);
/* Fill out; false: nothing is left. */
bool tt_ps_move_pack(struct tt_ps_move *m);
/* Store what arrived for the server of this replica number. */
int tt_ps_move_unpack(struct tt_ps_move *m, int copy, const char *data, size_t len);
/*
 * Everything has arrived: it replaces the empty values and is published. clock: by worker;
 * min_clock: the lowest.
 */
int tt_ps_move_end(struct tt_ps_move *m, const uint64_t *clock, uint64_t min_clock);
/* Ask the servers' thread to report when it is idle; or stop asking. */
void tt_ps_rest_wanted(struct tutti_ps *ps, bool wanted);
/*
 * For servers whose threads do not run: their clock; whether updates of an unfinished clock exist;
 * apply groups.
 */
uint64_t tt_ps_rest_clock(const struct tutti_ps *ps);
bool tt_ps_rest_unended(const struct tutti_ps *ps);
void tt_ps_rest_settle(struct tutti_ps *ps);
/* For the servers' thread. */
bool tt_ps_at_rest(struct tutti_ps *ps);
/* Under the lock: everything that this worker sent was answered. */
bool tt_ps_answered_all(const struct tutti_ps *ps);
/*
 * A rank of a table's new server has not been given the table's function: tutti_ps_dense,
 * tutti_ps_rows.
 */
static inline bool tt_ps_lacks_function(const struct tutti_ps_table *t)
{
	return (t->opt.rule == TUTTI_PS_CALLBACK && !t->opt.update) ||
	       (t->opt.init == TUTTI_PS_FILL && t->rows && !t->opt.fill);
}

#endif
