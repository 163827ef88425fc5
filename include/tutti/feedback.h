/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Error feedback: what the encodings of compressed all-reduces leave out of a vector is kept and
 * added to this rank's contribution to the next all-reduce of that vector.
 *
 * One state belongs to one vector on one communicator. Residuals are in units of the sum, also of
 * averages, so after any number of calls, over all ranks,
 *
 *	results of the sums + residuals = contributions		up to rounding,
 *
 * whatever plans the calls have used, and also after the states have been saved and restored on
 * another communicator of the living ranks.
 */
#ifndef TUTTI_FEEDBACK_H
#define TUTTI_FEEDBACK_H

#include <tutti/codec.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

/**
 * tutti_feedback_create - make a state, all 0, for all-reduces of count float32 with codec on comm.
 * Local: tutti_codec_states(codec) vectors of count float32.
 */
int tutti_feedback_create(struct tutti_comm *comm, struct tutti_codec *codec, size_t count,
			  struct tutti_feedback **feedback);
/** tutti_feedback_free - free a state; requests with it keep it. NULL is no error. */
int tutti_feedback_free(struct tutti_feedback *feedback);
/** tutti_feedback_reset - set a state to 0. -EBUSY while a call with it is under way. */
int tutti_feedback_reset(struct tutti_feedback *feedback);
/**
 * tutti_feedback_save - copy a state to count elements at state: tutti_codec_states vectors of the
 * feedback's count, one after the other; the first is the residual.
 */
int tutti_feedback_save(struct tutti_feedback *feedback, float *state, size_t count);
/** tutti_feedback_restore - set a state to what tutti_feedback_save has copied. */
int tutti_feedback_restore(struct tutti_feedback *feedback, const float *state, size_t count);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
