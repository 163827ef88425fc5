/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sharded optimizer (ZeRO 1 and 2): each rank keeps and updates its share of the optimizer's
 * state. A part of libtutti_train.
 */
#ifndef TUTTI_SHARDED_H
#define TUTTI_SHARDED_H

#include <tutti/tutti.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

struct tutti_sharded;

/* flags */
#define TUTTI_SHARDED_SUM 1u /* the rule gets sums of gradients; without it averages */
/* gradients are those of all ranks already, with the same bits */
#define TUTTI_SHARDED_REDUCED 2u

/* The same on all ranks but for parameters. Zero means the default, in brackets. */
struct tutti_sharded_config {
	size_t size;		      /* sizeof(struct tutti_sharded_config) */
	size_t n;		      /* tensors, at least 1 */
	const size_t *counts;	      /* elements of each; copied */
	void *const *parameters;      /* of each; the pointers are copied */
	enum tutti_datatype datatype; /* TUTTI_FLOAT32 or TUTTI_FLOAT64 */
	unsigned flags;
	int stage;		       /* ZeRO: 1 or 2 */
	int pad;		       /* 0 */
	const struct tutti_rule *rule; /* from SGD to AdamW; copied */
	double clip_norm;	       /* the largest global norm of the gradient [any] */
	size_t bucket_bytes;	       /* [25 MiB] */
	/* float32: gradients travel encoded, with feedback; must outlive the optimizer [none] */
	struct tutti_codec *codec;
};

/**
 * tutti_sharded_create - make an optimizer for parameters that are the same on all ranks, with a
 * state of 0. Collective. The tensors are registered in the order of the forward pass. On failure
 * all ranks fail.
 */
int tutti_sharded_create(struct tutti_comm *comm, const struct tutti_sharded_config *config,
			 struct tutti_sharded **sharded);
/**
 * tutti_sharded_free - free an optimizer. It waits for parameters that are under way. In the middle
 * of a step, the step fails on the other ranks with -TUTTI_EREVOKED. NULL is no error.
 */
int tutti_sharded_free(struct tutti_sharded *sharded);
/**
 * tutti_sharded_ready - the gradient of this tensor is complete. Stage 1: it belongs to the
 * optimizer until tutti_sharded_step returns. Stage 2, and with TUTTI_SHARDED_REDUCED: what is
 * needed has been copied when the call returns. From any thread, in any order.
 */
int tutti_sharded_ready(struct tutti_sharded *sharded, size_t tensor, const void *gradient);
/**
 * tutti_sharded_step - update the parameters; *norm becomes the global norm of the gradient before
 * clipping, if norm is not NULL. Collective. All tensors are ready. The parameters of other ranks'
 * shares are under way when it returns.
 */
int tutti_sharded_step(struct tutti_sharded *sharded, double *norm);

#define TUTTI_SHARDED_ALL SIZE_MAX /* as tensor: all of them */

/** tutti_sharded_wait - wait until the parameters of this tensor are updated. */
int tutti_sharded_wait(struct tutti_sharded *sharded, size_t tensor);

/* Filled by tutti_sharded_memory: bytes on this rank. */
struct tutti_sharded_memory {
	size_t size;		 /* sizeof(struct tutti_sharded_memory) */
	uint64_t state_bytes;	 /* of the rule's state */
	uint64_t gradient_bytes; /* of reduced gradients */
	uint64_t buffer_bytes;	 /* of buckets, at the most so far */
};
int tutti_sharded_memory(struct tutti_sharded *sharded, struct tutti_sharded_memory *memory);

/**
 * tutti_sharded_save - write the state of all ranks to one safetensors file, at rank 0. Collective;
 * path counts at rank 0 only.
 */
int tutti_sharded_save(struct tutti_sharded *sharded, const char *path);
/**
 * tutti_sharded_restore - continue with the state of a file that an optimizer of the same model,
 * rule and datatype has written, on any number of ranks. Collective; rank 0 reads the file. On
 * failure all ranks fail and the state is as before, or 0 if the file could not be read to its end.
 */
int tutti_sharded_restore(struct tutti_sharded *sharded, const char *path);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
