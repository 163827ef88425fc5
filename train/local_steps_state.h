/* SPDX-License-Identifier: BSD-3-Clause */
/* Local steps between and during rounds; local_steps.c has the idea. */
#ifndef TT_TRAIN_LOCAL_STEPS_STATE_H
#define TT_TRAIN_LOCAL_STEPS_STATE_H

#include <tutti/local_steps.h>

#include "train/buckets.h"

#define TT_LOCAL_STEPS_MAGIC 0x54754c73u

struct tutti_local_steps {
	volatile unsigned magic; /* also when it is freed */
	struct tutti_comm *comm; /* its own */
	struct tutti_rule inner, outer;
	bool has_outer, delayed;
	int every, made; /* steps of a round; made in this one */
	double inner_rate;
	enum tutti_datatype datatype;
	struct tutti_codec *codec;
	struct tutti_feedback *feedback;
	struct tt_buckets b; /* all tensors in one bucket */
	char **parameters;
	char *start;		   /* the parameters at the start of the round */
	char *state[2];		   /* of the outer rule */
	char *change[2];	   /* pool memory: of this round; delayed: and of the one before */
	struct tutti_request *sum; /* delayed: of change[1] */
	uint64_t rounds;	   /* applications of the outer rule */
	int error;
};

static inline size_t tt_local_bytes(const struct tutti_local_steps *l)
{
	return l->b.total * l->b.elem;
}

#endif
