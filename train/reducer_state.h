/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reducer between and during steps.
 *
 * Every bucket has one persistent all-reduce. A step starts them in the order of their numbers, on
 * all ranks, whatever the order of readiness: bucket k is started when its tensors are ready and
 * all buckets before it have been started. Small buckets end early, so that the first one is small,
 * and so that little is left to do when the last gradients are ready.
 */
#ifndef TT_TRAIN_REDUCER_STATE_H
#define TT_TRAIN_REDUCER_STATE_H

#include <pthread.h>
#include <tutti/reducer.h>

#include "train/buckets.h"

enum tt_reducer_mark {
	TT_WAITING = 0, /* not ready in this step */
	TT_COPYING,	/* a thread copies it into its bucket */
	TT_READY
};

struct tt_reducer_part {
	char *buf;
	bool own; /* buf is pool memory, not the caller's gradients */
	struct tutti_request *request;
	struct tutti_feedback *feedback;
};

#define TT_REDUCER_MAGIC 0x54755265u

struct tutti_reducer {
	volatile unsigned magic; /* also when it is freed */
	struct tutti_comm *comm; /* its own */
	pthread_mutex_t lock;
	enum tutti_datatype datatype;
	unsigned flags;
	size_t first_bytes, bucket_bytes;
	struct tutti_codec *codec;
	struct tt_buckets b;
	char **gradients;	      /* of the caller, by tensor */
	struct tt_reducer_part *part; /* by bucket */
	size_t nparts;		      /* that exist */
	size_t next;		      /* bucket to start */
	unsigned char *mark;	      /* enum tt_reducer_mark, by tensor */
	unsigned char *kept;	      /* a step that accumulated had it ready */
	size_t *seen, nseen;	      /* the order of readiness */
	bool accumulate, ordered;     /* ordered: divided by rank 0's order */
	uint64_t *words; /* three bit sets: tensors ready, tensors not, ranks that lack some */
	size_t tensor_words, nwords;
	bool compares;		     /* in each step; else if a rank lacks tensors */
	struct tutti_request **told; /* by rank, of a message to it */
	int error;		     /* of a collective: the reducer is over */
	uint64_t began;
	struct tutti_reducer_stats stats;
};

static inline bool tt_reducer_in_step(const struct tutti_reducer *r)
{
	return r->nseen > 0;
}

/* reducer_setup.c: the error of calls after a failed all-reduce, in which call. */
int tt_reducer_over(const struct tutti_reducer *r, const char *call);

/* Whether a set of words has member i. */
static inline bool tt_reducer_has(const uint64_t *words, size_t i)
{
	return words[i / 64] >> i % 64 & 1;
}

/* reducer_parts.c: memory and requests of all buckets; local. */
int tt_reducer_make_parts(struct tutti_reducer *r);
void tt_reducer_free_parts(struct tutti_reducer *r);
/* Divide the tensors by rank 0's order of readiness; residuals move along. Collective. */
int tt_reducer_reorder(struct tutti_reducer *r);
/* Zeroes or copies the tensors of this step that no ready named. */
void tt_reducer_fill(struct tutti_reducer *r);

/* reducer_missing.c: this rank's bit sets; whether it lacks tensors. */
bool tt_reducer_set_words(struct tutti_reducer *r);
/* Tells all ranks that this one lacks tensors, and compares with them; before the last bucket. */
int tt_reducer_tell(struct tutti_reducer *r);
/* Waits for the last bucket; compares if a rank tells that it lacks tensors, and returns then. */
int tt_reducer_listen(struct tutti_reducer *r);
/* On all ranks alike: a tensor was not ready although all must be. */
int tt_reducer_check_missing(const struct tutti_reducer *r);

#endif
