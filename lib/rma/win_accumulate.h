/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accumulates. An origin that has mapped the target's part combines there (accumulate_mapped.c).
 * Any other one (win_accumulate.c) sends pieces of the vector to the port of the window. The target
 * (accumulate_target.c) combines each with its memory, under its wire lock, and replies. The reply
 * says that a piece is in place, and has the old values if they are wanted.
 *
 * The lock of the part (part_lock.h) makes both kinds atomic to each other, element by element. A
 * part that no other process can map has none: its owner's wire lock is enough.
 */
#ifndef TT_ACCUMULATE_H
#define TT_ACCUMULATE_H

#include "lib/rma/part_lock.h"
#include "lib/rma/rma.h"

#define TT_ACC_MOST (32u << 10) /* bytes of data in a piece */
#define TT_ACC_DEPTH 4		/* pieces of one rank under way to another */
#define TT_ACC_AT_ONCE 16	/* pieces that are combined before the wire lock is released */
#define TT_ACC_SERVED 256	/* pieces of one rank that the target keeps; more are dropped */

/* A request; its data follows. doc/WIRE.md */
struct tt_acc_head {
	uint64_t offset;
	uint32_t count, datatype, op;
	uint32_t fetch; /* 1: the reply has the old values */
	uint64_t pad;
};
_Static_assert(sizeof(struct tt_acc_head) == 32, "doc/WIRE.md");

/* A reply; the old values follow if they were wanted, zeros if it failed. */
struct tt_acc_reply {
	int64_t status;
	uint64_t pad;
};
_Static_assert(sizeof(struct tt_acc_reply) == 16, "doc/WIRE.md");

/* In the lane of keys; index is the origin's rank, seq the number of its piece. */
enum { TT_ACC_REQUEST, TT_ACC_REPLY };

/* An accumulate of this rank. */
struct tt_acc_op {
	struct tt_list link;   /* waiting, or of its rank's queue while it has pieces to start */
	struct tt_win_acc acc; /* waiting: what is left */
	struct tt_win_end *end;
	bool waits;  /* for the connection */
	size_t next; /* first element of the next piece */
	int under_way;
	int status;
	uint32_t age;
};

/* A piece, at either end. */
struct tt_acc_piece {
	struct tt_list link; /* free, going, served or locked */
	struct tt_accs *accs;
	struct tt_acc_op *op; /* NULL: at the target */
	struct tt_xfer send, recv;
	bool sending, receiving;
	bool late;  /* its memory may still be written: not for another piece */
	size_t len; /* of a request that waits for the lock of the part */
	int rank;   /* the other end's */
	uint32_t seq;
	int status;
	size_t at, count;
	char *request, *reply; /* pool memory */
	struct tt_region *region;
};

struct tt_acc_peer {
	struct tt_list queue;
	struct tt_list going; /* pieces under way to it */
	bool freed;	      /* it has freed its window alone, and answers no more */
	uint32_t seq;
	int under_way, served;
	bool starting;
	/*
	 * The part as it is mapped here. Changes under the wire lock, while an operation on the
	 * rank is under way: without any, the thread that uses the window reads it.
	 */
	char *base; /* NULL: it is not */
	struct tt_part_lock *lock;
	struct tt_open_word open;
	_Atomic uint32_t *mark, *held_mark; /* of the thread that uses the window; of the lock */
	bool read_only;			    /* no lock */
	/* under the wire lock: who holds the lock, and when to look whether it has ended */
	uint64_t holder, probe_at;
	bool probed; /* it has held the lock at two looks */
};

/* Of a window made for accumulates. */
struct tt_accs {
	struct tutti_win *win;
	struct tt_port port;
	bool open, closing; /* closing: new requests are dropped */
	size_t most;	    /* bytes of data in a piece */
	struct tt_list free, served, free_ops;
	struct tt_list locked;	   /* requests that wait for the lock of this rank's part */
	struct tt_list waiting;	   /* operations, for a connection or the lock of a part */
	struct tt_stalled stalled; /* while there are some, or locked requests */
	uint64_t name;		   /* in locks */
	struct tt_acc_peer *peer;  /* by rank */
};

struct tt_acc_piece *tt_acc_piece_new(struct tt_accs *accs);
void tt_acc_piece_free(struct tt_acc_piece *piece);
/* Takes back what of it is under way. */
void tt_acc_piece_cancel(struct tt_acc_piece *piece);
/* A message of a piece, to or from the other end. */
void tt_acc_transfer(struct tt_acc_piece *piece, struct tt_xfer *x, enum tt_xfer_kind kind,
		     uint32_t lane, size_t len, tt_xfer_fn *fn);

/* Whether a request of so many bytes may be executed here: 0 or a code. */
int tt_acc_check(const struct tutti_win *win, const struct tt_acc_head *head, size_t len,
		 size_t most);
/* Stores the old values at old, unless NULL, then combines. */
void tt_acc_apply(void *target, const void *data, void *old, size_t count,
		  enum tutti_datatype datatype, enum tutti_op op);
/* Of the port. */
void tt_acc_message(struct tt_port *port, int peer, const struct tt_key *key, uint64_t total,
		    const void *data, uint32_t len, const struct tt_kept *kept);
/* Takes back what is served. */
void tt_acc_stop_serving(struct tt_accs *accs);
/* Executes requests that have waited for the lock, a few at a time. */
void tt_acc_serve_locked(struct tt_accs *accs);
/* Something waits and is tried again. A thread that leaves it to others wakes one that sleeps. */
void tt_acc_wait(struct tt_accs *accs);

/* accumulate_mapped.c: other processes can map this rank's part, which has a lock then. */
void tt_accs_place(struct tt_accs *accs);
/*
 * The rest, all under the wire lock. Combines in mapped memory what is left of op. 0: that was all;
 * -EAGAIN: it goes on later; -EOPNOTSUPP: not in this way; else why it failed.
 */
int tt_acc_combine(struct tt_accs *accs, struct tt_acc_op *op);
/* The lock of this rank's own part, if it has one; false: it is held. claims: waits a little. */
bool tt_acc_lock_own(struct tt_accs *accs, bool claims);
void tt_acc_unlock_own(struct tt_accs *accs);
/* Other ranks' accumulates fail from now on. */
void tt_acc_close_own(struct tt_accs *accs);

#endif
