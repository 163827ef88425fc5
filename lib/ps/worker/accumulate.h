/* SPDX-License-Identifier: BSD-3-Clause */
/* Updates that are accumulated and pushed later, or weighted; and pulls that fetch nothing. */
#ifndef TT_ACCUMULATE_H
#define TT_ACCUMULATE_H

#include "lib/ps/ps.h"

/* update_sum.c: units are elements, or rows */
int tt_ps_sum_new(const struct tutti_ps_table *t, uint64_t units, struct tt_ps_sum *sum);
void tt_ps_sum_free(struct tt_ps_sum *sum);
void tt_ps_sum_add(const struct tutti_ps_table *t, struct tt_ps_sum *sum, uint64_t unit,
		   uint64_t units, const char *update);
/* The next units from *from on, before end, with an update; false: none. */
bool tt_ps_sum_next(const struct tt_ps_sum *sum, uint64_t *from, uint64_t *to, uint64_t end);
void tt_ps_sum_clear(struct tt_ps_sum *sum, uint64_t from, uint64_t to);

/* downpour.c: periodic pulls and pushes. Without the lock. */
/* n_fetch > 1: whether a pull fetches now. */
bool tt_ps_fetches(struct tutti_ps_table *t);
int tt_ps_accrue(struct tutti_ps_table *t, const void *buf, uint64_t offset, uint64_t count,
		 const char *call, struct tutti_request **request);
int tt_ps_accrue_rows(struct tutti_ps_table *t, const uint64_t *keys, size_t n, const void *buf,
		      const char *call, struct tutti_request **request);
/* Each row has its own periods: a pull asks whether it fetches a row, and notes that it did. */
static inline bool tt_ps_notes_rows(const struct tutti_ps_table *t)
{
	return t->rows && t->opt.n_fetch > 1;
}
bool tt_ps_fetches_row(const struct tutti_ps_table *t, uint64_t key);
void tt_ps_fetched_rows(struct tutti_ps_table *t, const uint64_t *keys, size_t n);
/* Forget what was fetched and what is accumulated. */
void tt_ps_downpour_forget(struct tutti_ps_table *t);
/* A pull that fetches nothing. */
int tt_ps_nothing(struct tutti_ps_table *t, const char *call, struct tutti_request **request);
/*
 * Send accumulated updates that are due when the worker's clock becomes clock; UINT64_MAX: it
 * leaves. Budgets send in any case.
 */
int tt_ps_send_accrued(struct tutti_ps *ps, uint64_t clock);
/* Whether updates of any table are accumulated. Those of budgets do not count. */
bool tt_ps_accrues(const struct tutti_ps *ps);
/* Push all that is in sum, and clear it; met: of a row table. */
int tt_ps_send_sum(struct tutti_ps_table *t, struct tt_ps_sum *sum,
		   const struct tt_ps_row_units *met);

/* urgency.c: units 0 to n - 1 that wait, in a heap; heap[0] is the most urgent */
struct tt_ps_urgent {
	double *key;	/* by unit */
	uint32_t *heap; /* n units */
	uint32_t *at;	/* by unit: its place in heap + 1; 0: it does not wait */
	uint32_t n;
};

int tt_ps_urgent_new(uint64_t units, struct tt_ps_urgent *u);
void tt_ps_urgent_free(struct tt_ps_urgent *u);
/* It waits, with this key, whether it did before or not. */
void tt_ps_urgent_set(struct tt_ps_urgent *u, uint32_t unit, double key);
void tt_ps_urgent_drop(struct tt_ps_urgent *u, uint32_t unit);

/* budget.c: pushes as a budget allows. Without the lock. */
int tt_ps_budget_new(struct tutti_ps_table *t);
void tt_ps_budget_free(struct tutti_ps_table *t);
int tt_ps_budget_push(struct tutti_ps_table *t, const void *buf, uint64_t offset, uint64_t count,
		      const char *call, struct tutti_request **request);
int tt_ps_budget_push_rows(struct tutti_ps_table *t, const uint64_t *keys, size_t n,
			   const void *buf, const char *call, struct tutti_request **request);
/* These values were pulled. */
void tt_ps_budget_seen(struct tutti_ps_table *t, const void *buf, uint64_t offset, uint64_t count);
void tt_ps_budget_seen_rows(struct tutti_ps_table *t, const uint64_t *keys, size_t n,
			    const void *buf);
/* Send what is left. */
int tt_ps_budget_finish(struct tutti_ps_table *t);
/* For all tables: nothing is under way, nor starts before the next push. */
void tt_ps_budget_rest(struct tutti_ps *ps);
/* held_back.c: pushes that travel encoded. The first two without the lock. */
int tt_ps_feedback_new(struct tutti_ps_table *t);
void tt_ps_feedback_free(struct tutti_ps_table *t);
/* Whether updates wait until they are significant. */
static inline bool tt_ps_filters(const struct tutti_ps_table *t)
{
	return t->feedback && t->opt.significance > 0;
}
/* These values were pulled. Without the lock. */
void tt_ps_feedback_seen(struct tutti_ps_table *t, const float *values, uint64_t first, uint64_t n);
/*
 * Encode n elements of the table, first and up, as one vector. *len 0: everything is held back;
 * n * 4, and *plain: out has the elements themselves. Under the lock, as the next.
 */
int tt_ps_feedback_encode(struct tutti_ps_table *t, const float *in, uint64_t first, size_t n,
			  uint64_t clock, void *out, size_t *len, bool *plain);
/* Move what is held back of n elements to out; false: nothing is. */
bool tt_ps_feedback_take(struct tutti_ps_table *t, uint64_t first, size_t n, float *out);
/* The residuals of all elements; NULL: this rank has none. */
float *tt_ps_feedback_residuals(const struct tutti_ps_table *t);
/* The codec's vectors of all elements, one after the other; rows: and their places in these. */
struct tt_ps_residuals {
	float *state;
	struct tt_ps_row_units met;
};
int tt_ps_residuals_new(const struct tutti_ps_table *t, struct tt_ps_residuals *r);
void tt_ps_residuals_free(struct tt_ps_residuals *r);
/*
 * After a restore: r is what is held back now, since that of other clocks was flushed, and becomes
 * what was held back before.
 */
void tt_ps_feedback_restore(struct tutti_ps_table *t, struct tt_ps_residuals *r, uint64_t clock);
/* held_rows.c: the same of rows. This row has a place; without the lock: these were pulled. */
int tt_ps_feedback_meet(struct tutti_ps_table *t, uint64_t key);
void tt_ps_feedback_seen_rows(struct tutti_ps_table *t, const uint64_t *keys, size_t n,
			      const float *values);
/*
 * A message of the caller's rows of these numbers, at most t->coded_rows. Returns how many travel:
 * pick then has their numbers. The next call encodes them. Both under the lock.
 */
uint32_t tt_ps_feedback_rows(struct tutti_ps_table *t, const uint64_t *keys, const float *rows,
			     uint32_t *pick, uint32_t n);
int tt_ps_feedback_encode_rows(struct tutti_ps_table *t, const uint64_t *keys, const uint32_t *pick,
			       uint32_t n, uint64_t clock, void *out, size_t *len, bool *plain);
/* Move what is held back of a row to out. */
void tt_ps_feedback_take_row(struct tutti_ps_table *t, uint64_t key, float *out);
/*
 * The rows of which something is held back, for the caller to free, without the momentum of dgc;
 * rows NULL: their keys.
 */
int tt_ps_feedback_list(const struct tutti_ps_table *t, uint64_t **keys, float **rows, size_t *n);
int tt_ps_feedback_add_rows(struct tutti_ps_table *t, const uint64_t *keys, const float *rows,
			    size_t n);
/*
 * Rows that have a state, from *unit on: their keys, and of each its part of the codec's vectors.
 * Returns how many, at most `most`; tt_ps_feedback_count: all of them. Add such a state.
 */
size_t tt_ps_feedback_states(const struct tutti_ps_table *t, uint32_t *unit, size_t most,
			     uint64_t *keys, float *states);
uint64_t tt_ps_feedback_count(const struct tutti_ps_table *t);
int tt_ps_residuals_add_row(const struct tutti_ps_table *t, struct tt_ps_residuals *r, uint64_t key,
			    const float *state);
void tt_ps_feedback_keep_rows(const struct tutti_ps_table *from, struct tutti_ps_table *to);
/* Waits; without the lock. */
int tt_ps_flush_rows(struct tutti_ps_table *t, const char *call);
/* Add what is held back for one table to the other's, its figures too: the same after a resize. */
void tt_ps_feedback_keep(const struct tutti_ps_table *from, struct tutti_ps_table *to);
/*
 * Push what is held back of the tables where that is due when the worker's clock becomes clock;
 * UINT64_MAX: it leaves. Waits; without the lock.
 */
int tt_ps_flush_due(struct tutti_ps *ps, uint64_t clock, const char *call);

/* The sum of absolute values. */
double tt_ps_magnitude(enum tutti_datatype datatype, const void *p, size_t n);

#endif
