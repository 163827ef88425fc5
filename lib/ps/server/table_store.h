/* SPDX-License-Identifier: BSD-3-Clause */
/* A server's side of a table: its values and their state, and which blocks have changed. */
#ifndef TT_TABLE_STORE_H
#define TT_TABLE_STORE_H

#include "lib/ps/ps.h"

struct tt_ps_server;
struct tt_ps_tree;

/* Blocks, each at most once. */
struct tt_ps_blocks {
	uint32_t *block;
	uint64_t n;
	uint8_t flag;
};

struct tt_ps_client;

/* What a worker has to be told of the directory; under the lock. */
struct tt_ps_told {
	struct tt_win_end end;
	struct tt_ps_client *client;
	uint64_t lo, hi; /* blocks; lo == hi: nothing */
	bool busy;
};

struct tt_ps_store {
	struct tutti_ps_table *t;
	const struct tt_ps_part *part;
	int server;
	uint64_t copy; /* which of its copies this is */
	char *mem;     /* directory and blocks */
	char *values;
	void *state[2];
	uint32_t *steps; /* dense: by block; rows: by row */
	bool is_set;

	/* publish.c */
	uint64_t *retired; /* by slot: when it was; 0: never */
	uint8_t *flags;	   /* by block: in which lists it is */
	struct tt_ps_blocks dirty, fresh, pass;
	struct tt_ps_told *told; /* by worker */

	/* essp.c; NULL: not essp */
	struct tt_ps_sub *sub;	 /* by worker */
	atomic_uint *sending;	 /* by slot: puts that read it */
	char *lines;		 /* memory of the subs' batches */
	struct tt_ps_tree *tree; /* who sends what; NULL: the server all */
	bool *living;		 /* by worker; while one is chosen */
	uint32_t my_acks;
	bool has_acks;

	/* rows */
	struct tt_map keys;
	uint64_t *key; /* by place */
	uint32_t nrows;
	uint32_t *shown; /* by block: how many of its rows are published */
	uint64_t *known; /* BSP, no initial values: bits of the rows that a clock has ended with;
			    else NULL */

	struct tt_ps_kept *kept; /* read of a file, to take the place of what is here; or NULL */

	bool added;	      /* combine: since the clock has moved */
	struct tt_ps_sum sum; /* combine, and softsync */
	uint32_t *group;      /* softsync: by block or row: updates in the sum */
	uint32_t group_size;
	char *scaled;		 /* staleness_aware: a block, or a row for each thread */
	struct tt_ps_crew *crew; /* options.threads; NULL: one */
};

/* What has become of a push. */
struct tt_ps_done {
	bool applied;
	uint64_t tau; /* of rows, of all together */
};

static inline _Atomic uint64_t *tt_ps_dir(const struct tt_ps_store *s, uint64_t block)
{
	return (_Atomic uint64_t *)(void *)(s->mem + tt_ps_dir_at(block));
}

/* Bits of `touched`: elements, or rows. */
static inline uint64_t tt_ps_units(const struct tt_ps_store *s)
{
	return s->part->elems / s->t->width;
}

/* thread_pool.c: n threads, the caller's included, that each do part i of n of something. */
typedef void tt_ps_part_fn(void *arg, int i, int n);
int tt_ps_crew_new(int n, struct tt_ps_crew **crew);
void tt_ps_crew_free(struct tt_ps_crew *crew);
void tt_ps_crew_run(struct tt_ps_crew *crew, tt_ps_part_fn *part, void *arg);

/*
 * checkpoint_server.c: what is to take the place of what is here: from is values, and state if
 * there is any
 */
int tt_ps_kept_new(struct tt_ps_store *s);
int tt_ps_kept_row(struct tt_ps_store *s, uint64_t key, uint64_t step, const char *const *from);
void tt_ps_kept_dense(struct tt_ps_store *s, uint64_t first, uint64_t count,
		      const char *const *from);
/* Elements lo to hi of the table have had so many updates. */
void tt_ps_kept_steps(struct tt_ps_store *s, uint64_t lo, uint64_t hi, uint64_t steps);
void tt_ps_kept_take(struct tt_ps_store *s); /* it does; all is dirty */
void tt_ps_kept_free(struct tt_ps_store *s);
static inline bool tt_ps_knows(const struct tt_ps_store *s, uint64_t row)
{
	return !s->known || s->known[row / 64] >> row % 64 & 1;
}

static inline void tt_ps_know(struct tt_ps_store *s, uint64_t row)
{
	if (s->known)
		s->known[row / 64] |= 1ull << row % 64;
}

/* essp.c: everything is of this publication now, and is sent to all workers. */
void tt_ps_sub_restart(struct tt_ps_store *s, uint64_t sequence);
void tt_ps_mark(struct tt_ps_store *s, struct tt_ps_blocks *list, uint64_t block);
/* 0, or why a message is refused. */
int tt_ps_store_set(struct tt_ps_store *s, const struct tt_ps_msg *m, const char *payload);
int tt_ps_store_push(struct tt_ps_store *s, const struct tt_ps_msg *m, const char *payload,
		     struct tt_ps_done *done);
int tt_ps_store_push_rows(struct tt_ps_store *s, const struct tt_ps_msg *m, const char *payload,
			  struct tt_ps_done *done);
/* Places, with TT_PS_UNSEEN where that holds; then *wait. */
int tt_ps_store_lookup(struct tt_ps_store *s, const struct tt_ps_msg *m, const char *payload,
		       uint32_t *places, bool *wait);
/* The end of a clock: what was added up is applied. */
void tt_ps_store_combine(struct tt_ps_store *s, int workers);
/* So many workers are left: groups that need no more are applied, without workers all. */
void tt_ps_store_regroup(struct tt_ps_store *s, int workers);
/* For files: all groups are applied as they are; or what is added up is dropped. */
void tt_ps_store_settle(struct tt_ps_store *s);
void tt_ps_store_forget(struct tt_ps_store *s);

/*
 * Write block into another slot, make that the current one, and retire the old. only_new: what was
 * published stays as it is, new rows are added. -EAGAIN: the slot must rest until *when. when
 * NULL: nobody can be reading.
 */
int tt_ps_publish(struct tt_ps_store *s, uint64_t block, uint64_t sequence, uint64_t min_clock,
		  bool only_new, uint64_t *when);

#endif
