/* SPDX-License-Identifier: BSD-3-Clause */
/* All-to-all of layouts, as a request; alltoallw.c. */
#ifndef TT_ALLTOALLW_H
#define TT_ALLTOALLW_H

#include "lib/base/byte_blocks.h"
#include "lib/engine/engine.h"

/*
 * One block of a call, sent or received: times repetitions of blocks. The first repetition is
 * relative to base, each further one lies span bytes after the one before. Without gaps: blocks is
 * one block from base on, and times is 1.
 */
struct tt_w_block {
	char *base;
	struct tt_byte_blocks blocks;
	size_t times;
	ptrdiff_t span;
	size_t bytes, elements; /* in all */
	enum tutti_datatype datatype;
	struct tt_region *region; /* the engine's: covers a block without gaps, or NULL */
};

struct tt_w_req;
/*
 * A request whose blocks the caller fills in: [0] to [size - 1] what is sent to each rank, then
 * what is received. It then becomes a request or is put back. Under the lock.
 */
int tt_alltoallw_get(struct tutti_comm *comm, struct tt_w_req **w, struct tt_w_block **block);
void tt_alltoallw_put(struct tt_w_req *w);
/* 0, or an error; w then is put back. */
int tt_alltoallw_new(struct tt_w_req *w, struct tutti_request **req);
/* Frees the idle ones. */
void tt_alltoallw_free(struct tutti_comm *comm);

#endif
