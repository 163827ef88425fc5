/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks of bytes in memory, taken as one stream: a layout after lib/api has checked it. All sizes
 * are in bytes, but for the caller's arrays. Addresses are relative to a base that is the caller's.
 */
#ifndef TT_BYTE_BLOCKS_H
#define TT_BYTE_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>

struct tt_byte_blocks {
	size_t count;
	size_t block;		 /* of each block; */
	const size_t *blocks;	 /* if not NULL: of each, in units of elem */
	ptrdiff_t stride;	 /* between the begins of blocks; */
	const ptrdiff_t *displs; /* if not NULL: the begin of each, in units of unit */
	size_t elem, unit;
	size_t bytes;	     /* of all blocks */
	size_t longest;	     /* block */
	ptrdiff_t low, high; /* all blocks are in [low, high) */
};

/* A place in the stream. */
struct tt_place {
	size_t number, in; /* the block, and the byte of it */
};

/*
 * count blocks at equal distances; blocks without a gap become one. False: they do not fit into an
 * address space.
 */
bool tt_byte_blocks_vector(struct tt_byte_blocks *b, size_t block, size_t count, ptrdiff_t stride);
/* The bytes of one block that follow a place, and where they begin; 0: the end of the stream. */
size_t tt_byte_blocks_run(const struct tt_byte_blocks *b, struct tt_place *place, ptrdiff_t *at);
/* Moves a place on by len bytes, at most to the end of the stream. */
void tt_byte_blocks_skip(const struct tt_byte_blocks *b, struct tt_place *place, size_t len);
/* The same, and copies the bytes to memory without gaps, or from there. */
void tt_byte_blocks_gather(const struct tt_byte_blocks *b, struct tt_place *place, const void *base,
			   void *to, size_t len);
void tt_byte_blocks_scatter(const struct tt_byte_blocks *b, struct tt_place *place, void *base,
			    const void *from, size_t len);

#endif
