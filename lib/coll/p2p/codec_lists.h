/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by all-reduces of lists. Each rank has room for the list of every rank, of slot bytes,
 * with the head; its own is there, encoded.
 */
#ifndef TT_CODEC_LISTS_H
#define TT_CODEC_LISTS_H

#include "lib/coll/coll.h"

/* Encodes this rank's vector to its slot. */
void tt_lists_encode(struct tt_builder *b, struct tt_ref dst);
/*
 * Adds the messages to or from peer (TT_OP_SEND, TT_OP_RECV) of what stands in scratch at slot: a
 * head, or the encoding behind it of at most len bytes, usual of them, a chunk in each message.
 */
void tt_lists_move_head(struct tt_builder *b, enum tt_op_kind kind, int peer, size_t slot);
void tt_lists_move(struct tt_builder *b, enum tt_op_kind kind, int peer, size_t slot, size_t len,
		   size_t usual);
/* Sends the own head to all ranks. */
void tt_lists_heads(struct tt_builder *b, size_t slot);
/* The heads are there: sends the own list to all ranks, and adds up all of them. */
void tt_lists_gather(struct tt_builder *b, size_t slot);
/* Adds lists up by recursive doubling: slot own has this rank's; two more have room for sums. */
void tt_lists_merge(struct tt_builder *b, size_t slot, size_t own, size_t other, size_t spare);
/* Decodes this rank's list, and adds up the vectors. */
void tt_lists_dense(struct tt_builder *b, struct tt_ref own);

#endif
