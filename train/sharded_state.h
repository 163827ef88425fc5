/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A sharded optimizer between and during steps.
 *
 * A bucket of E elements has P blocks of ceil(E / P), the last ones shorter: block r of each bucket
 * is rank r's share. A step reduce-scatters each bucket, updates the own blocks, and all-gathers
 * each bucket: 2 (P - 1) / P N bytes, as an all-reduce. Reduce-scatters start in the order of the
 * buckets, as the backward pass fills them; all-gathers from the last bucket to the first, as the
 * next forward pass needs them: with priorities, or the first layers would share the line with all
 * others.
 *
 *	stage 1: a bucket whose gradients lie one after the other is sent from where it is
 *	stage 2: gradients are copied into buckets, of which a few exist at a time; only the own
 *		 blocks of the reduced gradient stay
 *
 * Gradients that the caller has reduced are not sent: the own blocks are copied from them. With a
 * codec an all-to-all of encoded blocks takes the place of the reduce-scatter (sharded_codec.c).
 *
 * Paper: Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models
 * (2020).
 */
#ifndef TT_TRAIN_SHARDED_STATE_H
#define TT_TRAIN_SHARDED_STATE_H

#include <pthread.h>
#include <tutti/sharded.h>

#include "train/buckets.h"

#define TT_SHARDED_FLIGHT 2 /* reduce-scatters under way whose buckets stage 2 keeps */

struct tt_shard {
	size_t lo, hi; /* the own block, in elements of the bucket */
	size_t at;     /* of its first element in gradient and state */
	size_t *lens;  /* elements of each rank's block */
	size_t *begins;
	char *buf;	 /* pool memory of the bucket, or NULL */
	char *coded;	 /* with a codec: pool memory of encodings under way, or NULL */
	float *residual; /* with a codec: the states of all blocks, one after the other */
	float *before;	 /* the same before this step */
	struct tutti_request *scatter, *gather;
};

#define TT_SHARDED_MAGIC 0x54755368u

struct tutti_sharded {
	volatile unsigned magic; /* also when it is freed */
	struct tutti_comm *comm; /* its own */
	int rank, ranks;
	pthread_mutex_t lock;
	enum tutti_datatype datatype;
	unsigned flags;
	int stage;
	struct tutti_rule rule;
	int states; /* vectors */
	double clip_norm;
	size_t bucket_bytes;
	struct tutti_codec *codec;
	bool user_codec;
	struct tt_buckets b;
	char **parameters, **gradients; /* of the caller; gradients of this step, stage 1 */
	unsigned char *ready;
	size_t nready;
	struct tt_shard *shard; /* of each bucket */
	size_t *table;		/* of all lens and begins */
	size_t own;		/* elements of all own blocks */
	size_t next, drained;	/* bucket to start; buckets whose reduce-scatters have ended */
	char *gradient;		/* own blocks, pool memory */
	char *state[2];		/* own blocks, each of own elements */
	uint64_t steps;
	uint64_t buffers, most; /* bytes of buckets now, at the most */
	uint64_t unheard;	/* saves and restores whose answers are still to be received */
	int error;
};

/* The part of a tensor that is in the own block of its bucket. */
struct tt_sharded_piece {
	size_t in_tensor, in_shard, count; /* first element in the tensor; in gradient and state */
};

/* sharded_step.c */
struct tt_sharded_piece tt_sharded_piece_of(const struct tutti_sharded *s, size_t tensor);
/* sharded_reduce.c */
/* Pool memory, which counts in s->buffers until it is dropped. */
int tt_sharded_take(struct tutti_sharded *s, size_t bytes, char **to);
void tt_sharded_drop(struct tutti_sharded *s, size_t bytes, char **from);
/* The same for bucket k, if it has none. */
int tt_sharded_take_buffer(struct tutti_sharded *s, size_t k);
void tt_sharded_drop_buffer(struct tutti_sharded *s, size_t k);
/* Starts what is left, tensors that are not ready as zeros, and waits for all. Collective. */
int tt_sharded_reduce(struct tutti_sharded *s);
/* err, after which no rank waits for this one. */
int tt_sharded_give_up(struct tutti_sharded *s, int err);
/* sharded_codec.c: 0, or -EINVAL with a text */
int tt_sharded_check_codec(const char *call, const struct tutti_sharded_config *c);
/* Collective: ranks whose codecs have one name differ in no property. */
int tt_sharded_compare_codecs(const struct tutti_sharded *s);
int tt_sharded_new_residuals(struct tutti_sharded *s);
/* Encodes bucket k, which is not used afterwards, and starts its reduce-scatter. */
int tt_sharded_scatter_coded(struct tutti_sharded *s, size_t k, const void *from);
/* It has ended: the own block becomes the reduced gradient. */
int tt_sharded_add_coded(struct tutti_sharded *s, size_t k);
void tt_sharded_drop_coded(struct tutti_sharded *s, size_t k);
void tt_sharded_clear_residuals(struct tutti_sharded *s);
/* The step is refused: all residuals are as before. */
void tt_sharded_undo_residuals(struct tutti_sharded *s);
/* sharded_step.c: waits for the all-gathers of all buckets. */
int tt_sharded_gathered_all(struct tutti_sharded *s);
/* The code of a collective of this optimizer that has failed, with a text for call, or 0. */
int tt_sharded_over(const struct tutti_sharded *s, const char *call);

#endif
