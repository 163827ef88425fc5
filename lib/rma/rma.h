/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows: memory that the ranks of a communicator expose to each other, see tutti/rma.h. */
#ifndef TT_RMA_H
#define TT_RMA_H

#include <tutti/rma.h>

#include "lib/engine/engine.h"

#define TT_WIN_TPS 4 /* transports whose keys a rank tells: places in the list of compiled ones */

/* What every rank tells the others about its part of a window: whole 64-bit words. */
struct tt_win_part {
	uint64_t base, size;
	uint64_t token; /* of rank 0's notifications; rank i rings token + i */
	uint64_t has_key; /* bit per transport */
	uint64_t mapped;  /* 1: its host's processes can map the memory */
	struct tt_rkey rkey[TT_WIN_TPS];
};

struct tt_win_bell {
	struct tt_bell bell;
	struct tutti_win *win;
	uint64_t count; /* notifications from one origin */
	bool woken;	/* that rank runs its progress thread for this rank's atomics */
};

struct tt_win_op;

struct tutti_win {
	struct tutti_comm *comm;
	char *base;
	size_t size;
	struct tt_region *region;
	struct tt_win_part *part; /* by rank */
	struct tt_win_bell *bell; /* by origin */
	uint32_t token;
	int *pending; /* operations of this rank under way, by target */
	int status;   /* of the first that failed */
	struct tt_win_op *free_ops;
};

/* Before the parts are exchanged: registration and tokens. Fills *mine. */
int tt_win_open(struct tutti_comm *comm, void *base, size_t size, struct tutti_win **win,
		struct tt_win_part *mine);
void tt_win_close(struct tutti_win *win);
/* Start a put (note: and notify) or get; waits for connection and room. Without the lock. */
int tt_win_op(struct tutti_win *win, int rank, void *local, size_t len, uint64_t offset, bool get,
	      bool note);
/* An atomic on rank's window, whose old value *old receives. Without the lock. */
int tt_win_atomic(struct tutti_win *win, int rank, enum tt_amo_op op, uint64_t operand,
		  uint64_t compare, uint64_t offset, uint64_t *old);
/* For the bells: a peer's request to execute an atomic here. Under the lock. */
int tt_win_execute(struct tt_bell *bell, int peer, enum tt_amo_op op, uint64_t operand,
		   uint64_t compare, uint64_t offset, uint64_t *old);
/* Nobody touches a buffer of this rank's operations on rank afterwards, -1: on all. Under the lock. */
void tt_win_take_back(struct tutti_win *win, int rank);
/* Wait for this rank's operations on rank, -1: on all. Without the lock. */
int tt_win_wait(struct tutti_win *win, int rank);
int tt_win_wait_bell(struct tutti_win *win, int rank, uint64_t count);

#endif
