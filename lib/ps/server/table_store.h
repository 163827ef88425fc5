/* SPDX-License-Identifier: BSD-3-Clause */
/* A server's side of a table: its values and their state, and which blocks have changed. */
#ifndef TT_TABLE_STORE_H
#define TT_TABLE_STORE_H

#include "lib/ps/ps.h"

struct tt_ps_tree;

/* A list that contains each block at most once. */
struct tt_ps_blocks {
	uint32_t *block;
	uint64_t n;
	uint8_t flag; /* of this list in tt_ps_store.flags */
};

struct tt_ps_client;

/* The directory words that a worker has not been sent yet; under the lock. */
struct tt_ps_told {
	struct tt_win_end end;
	struct tt_ps_client *client;
	uint64_t lo, hi; /* range of blocks; empty: it has all */
	bool busy;
};

struct tt_ps_store {
	struct tutti_ps_table *t;
	const struct tt_ps_part *part;
	int server;
	uint64_t copy; /* replica number */
	char *mem;     /* directory and published blocks */
	char *values;
	void *state[2];
	uint32_t *steps; /* dense: by block; rows: by row */
	bool is_set;

	/* publish.c */
	uint64_t *retired;	   /* by slot: time of its retirement; 0: never */
	uint8_t *flags;		   /* by block: bits of the lists that contain it */
	struct tt_ps_blocks dirty; /* changed since the last pass */
	struct tt_ps_blocks fresh; /* have new rows that workers wait for */
	struct tt_ps_blocks pass;  /* to be published by the current pass */
	struct tt_ps_told *told;   /* by worker */

	/* essp.c; NULL: not essp */
	struct tt_ps_sub *sub;	 /* by worker */
	atomic_uint *sending;	 /* by slot: puts under way that read it */
	char *lines;		 /* registered memory for the batches of sub[] */
	struct tt_ps_tree *tree; /* NULL: the server sends all blocks */
	bool *living;		 /* by worker; scratch memory for tt_ps_tree_* */
	uint32_t my_acks;
	bool has_acks;

	/* rows */
	struct tt_map keys; /* to places */
	uint64_t *key;	    /* by place */
	uint32_t nrows;
	uint32_t *shown; /* by block: number of published rows */
	uint64_t *known; /* tt_ps_rows_late(): bits of the rows that exist; else NULL: all do */

	struct tt_ps_pending *pending; /* values of a checkpoint or resize; NULL: none */

	bool added;	      /* combine: sum has updates of the current clock */
	struct tt_ps_sum sum; /* combine and softsync: updates that are not applied yet */
	uint32_t *group;      /* softsync, by block or row: number of updates in the sum */
	uint32_t group_size;
	char *scaled;	/* staleness_aware: memory for a weighted block, or row per thread */
	float *decoded; /* codec: memory for a block */
	struct tt_ps_pool *pool; /* options.threads; NULL: one */
};

/* The result of a push. */
struct tt_ps_done {
	bool applied;
	uint64_t tau; /* its staleness in versions; of rows, the total */
};

static inline _Atomic uint64_t *tt_ps_dir(const struct tt_ps_store *s, uint64_t block)
{
	return (_Atomic uint64_t *)(void *)(s->mem + tt_ps_dir_at(block));
}

/* Units of sum: elements, or rows. */
static inline uint64_t tt_ps_units(const struct tt_ps_store *s)
{
	return s->part->elems / s->t->width;
}

/* thread_pool.c: n threads, including the caller; thread i runs part(arg, i, n). */
typedef void tt_ps_part_fn(void *arg, int i, int n);
int tt_ps_pool_new(int n, struct tt_ps_pool **pool);
void tt_ps_pool_free(struct tt_ps_pool *pool);
void tt_ps_pool_run(struct tt_ps_pool *pool, tt_ps_part_fn *part, void *arg);

/*
 * restore.c: pending values, which tt_ps_pending_take makes the current ones. from: values, then
 * the rule's state if it has any.
 */
int tt_ps_pending_new(struct tt_ps_store *s);
int tt_ps_pending_row(struct tt_ps_store *s, uint64_t key, uint64_t step, const char *const *from);
void tt_ps_pending_dense(struct tt_ps_store *s, uint64_t first, uint64_t count,
			 const char *const *from);
/* The number of updates that elements lo to hi of the table have had. */
void tt_ps_pending_steps(struct tt_ps_store *s, uint64_t lo, uint64_t hi, uint64_t steps);
void tt_ps_pending_take(struct tt_ps_store *s); /* all blocks become dirty */
void tt_ps_pending_free(struct tt_ps_store *s);
static inline bool tt_ps_row_exists(const struct tt_ps_store *s, uint64_t row)
{
	return !s->known || s->known[row / 64] >> row % 64 & 1;
}

static inline void tt_ps_row_begin(struct tt_ps_store *s, uint64_t row)
{
	if (s->known)
		s->known[row / 64] |= 1ull << row % 64;
}

/* The end of a clock: of these rows those with an update exist from now on. */
static inline void tt_ps_rows_begin(struct tt_ps_store *s, uint64_t row, uint64_t end)
{
	for (; s->known && row < end; row++)
		if (s->steps[row])
			tt_ps_row_begin(s, row);
}

/* essp.c: all blocks have this publication now, and are sent to all workers. */
void tt_ps_sub_restart(struct tt_ps_store *s, uint64_t sequence);
void tt_ps_mark(struct tt_ps_store *s, struct tt_ps_blocks *list, uint64_t block);
/* Return 0, or the error with which the message is refused. */
int tt_ps_store_set(struct tt_ps_store *s, const struct tt_ps_msg *m, const char *payload);
int tt_ps_store_push(struct tt_ps_store *s, const struct tt_ps_msg *m, const char *payload,
		     struct tt_ps_done *done);
/* Does nothing, with a tau, if the block has not the version of the message. */
int tt_ps_store_push_same(struct tt_ps_store *s, const struct tt_ps_msg *m, const char *payload,
			  struct tt_ps_done *done);
int tt_ps_store_push_coded(struct tt_ps_store *s, const struct tt_ps_msg *m, const char *payload,
			   struct tt_ps_done *done);
int tt_ps_store_push_rows(struct tt_ps_store *s, const struct tt_ps_msg *m, const char *payload,
			  struct tt_ps_done *done);
/* Fills places; *wait: some have TT_PS_UNSEEN, so the answer names a publication. */
int tt_ps_store_lookup(struct tt_ps_store *s, const struct tt_ps_msg *m, const char *payload,
		       uint32_t *places, bool *wait);
/* The clock has ended: applies the sum of its updates. */
void tt_ps_store_combine(struct tt_ps_store *s, int workers);
/*
 * The number of workers has fallen: applies the groups that are complete now, with 0 workers all
 * groups.
 */
void tt_ps_store_regroup(struct tt_ps_store *s, int workers);
/* For checkpoints. The first applies all groups as they are, the second drops all sums. */
void tt_ps_store_settle(struct tt_ps_store *s);
void tt_ps_store_forget(struct tt_ps_store *s);

/*
 * Writes a block into its other slot, makes that the current slot, and retires the old one.
 * only_new: published rows keep their values, new rows are added. -EAGAIN: the slot must rest until
 * *when. when NULL: no process can be reading the slot.
 */
int tt_ps_publish(struct tt_ps_store *s, uint64_t block, uint64_t sequence, uint64_t min_clock,
		  bool only_new, uint64_t *when);

#endif
