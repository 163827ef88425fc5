/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reducer: sums the gradients of a model over the ranks in buckets while the backward pass
 * still computes. A part of libtutti_train.
 */
#ifndef TUTTI_REDUCER_H
#define TUTTI_REDUCER_H

#include <tutti/tutti.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

struct tutti_reducer;

#define TUTTI_REDUCER_SUM 1u	/* flags: gradients become sums; without it they become averages */
#define TUTTI_REDUCER_UNUSED 2u /* a step may leave out tensors: they count as zeros */

/* The same on all ranks but for gradients. Zero means the default, in brackets. */
struct tutti_reducer_config {
	size_t size;		/* sizeof(struct tutti_reducer_config) */
	size_t n;		/* tensors, at least 1 */
	const size_t *counts;	/* elements of each; copied */
	void *const *gradients; /* of each; the pointers are copied */
	enum tutti_datatype datatype;
	unsigned flags;
	size_t first_bytes;  /* of the first and the last buckets [1 MiB] */
	size_t bucket_bytes; /* of all others [25 MiB] */
	struct tutti_codec
		*codec; /* buckets of float32 travel encoded, with error feedback [none] */
};

/**
 * tutti_reducer_create - make a reducer for the gradients of one datatype. Collective. The tensors
 * are registered in the order of the forward pass. On failure all ranks fail.
 */
int tutti_reducer_create(struct tutti_comm *comm, const struct tutti_reducer_config *config,
			 struct tutti_reducer **reducer);
/**
 * tutti_reducer_free - free a reducer. Local. In the middle of a step, the step fails on the other
 * ranks with -TUTTI_EREVOKED. NULL is no error.
 */
int tutti_reducer_free(struct tutti_reducer *reducer);
/**
 * tutti_reducer_ready - the gradient of this tensor is complete; it belongs to the reducer until
 * the end of the step. From any thread, in any order. Starts the buckets that are full, in their
 * order.
 */
int tutti_reducer_ready(struct tutti_reducer *reducer, size_t tensor);
/**
 * tutti_reducer_finish - end the step: all gradients are reduced when it returns. Collective, but
 * for steps that accumulate.
 */
int tutti_reducer_finish(struct tutti_reducer *reducer);
/**
 * tutti_reducer_accumulate - on 1: the following steps send nothing, gradients add up in the
 * caller's memory; on 0: the next step sends them. Between steps; the same on all ranks. Local.
 */
int tutti_reducer_accumulate(struct tutti_reducer *reducer, int on);
/**
 * tutti_reducer_unused - of the last step that was sent: 0 if all ranks had this tensor ready, 1 if
 * some had not, 2 if none had. The same on all ranks. Local.
 */
int tutti_reducer_unused(struct tutti_reducer *reducer, size_t tensor);

/* Filled by tutti_reducer_stats. Times are in nanoseconds. */
struct tutti_reducer_stats {
	size_t size;	      /* sizeof(struct tutti_reducer_stats) */
	uint64_t steps;	      /* that were sent */
	uint64_t accumulated; /* that sent nothing */
	uint64_t buckets;     /* now */
	uint64_t in_place;    /* buckets whose gradients stay where they are */
	uint64_t bytes;	      /* of a step, before an encoding */
	uint64_t packed;      /* bytes of a step that are copied into buckets, and back */
	uint64_t early;	      /* buckets of the last step that had started before its finish */
	uint64_t exposed_ns;  /* for which the last finish waited for all-reduces */
	uint64_t exposed_total_ns;
	uint64_t step_ns; /* from the first ready of the last step to the end of its finish */
	uint64_t step_total_ns;
};

/** tutti_reducer_stats - what the reducer has done. Local. */
int tutti_reducer_stats(struct tutti_reducer *reducer, struct tutti_reducer_stats *stats);
/**
 * tutti_reducer_bucket - set *bucket to the bucket of a tensor and *offset to its first element
 * there. Buckets start in the order of their numbers. Local.
 */
int tutti_reducer_bucket(struct tutti_reducer *reducer, size_t tensor, size_t *bucket,
			 size_t *offset);

/**
 * tutti_reducer_save - with a codec: copy what this rank's encodings have left out to count
 * elements at state, for a checkpoint: tutti_codec_states vectors of all tensors, which lie one
 * after the other. Between steps. Local.
 */
int tutti_reducer_save(struct tutti_reducer *reducer, float *state, size_t count);
/** tutti_reducer_restore - set the residuals to such a copy. Between steps. Local. */
int tutti_reducer_restore(struct tutti_reducer *reducer, const float *state, size_t count);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
