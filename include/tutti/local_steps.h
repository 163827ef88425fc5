/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Local steps: each rank trains by itself for some steps, then the ranks combine what they have
 * learnt. A part of libtutti_train.
 */
#ifndef TUTTI_LOCAL_STEPS_H
#define TUTTI_LOCAL_STEPS_H

#include <tutti/tutti.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

struct tutti_local_steps;

#define TUTTI_LOCAL_DELAYED 1u /* flags: a round's change is applied at the end of the next one */

/* The same on all ranks but for parameters. Zero means the default, in brackets. */
struct tutti_local_steps_config {
	size_t size;		      /* sizeof(struct tutti_local_steps_config) */
	size_t n;		      /* tensors, at least 1 */
	const size_t *counts;	      /* elements of each; copied */
	void *const *parameters;      /* of each; the pointers are copied */
	enum tutti_datatype datatype; /* TUTTI_FLOAT32 or TUTTI_FLOAT64 */
	unsigned flags;
	int every; /* steps of a round, at least 1 */
	int pad;   /* 0 */
	/*
	 * The outer optimizer, from SGD to AdamW, copied: it takes the mean over the ranks of what
	 * their steps have changed as a gradient. [parameters are averaged]
	 */
	const struct tutti_rule *outer;
	double inner_rate; /* > 0: the steps are SGD of this rate, made here [made by the caller] */
	/* The changes of float32 travel encoded, with error feedback; needs outer. [none] */
	struct tutti_codec *codec;
};

/**
 * tutti_local_steps_create - make a state of parameters that are the same on all ranks: those of
 * rank 0, which it broadcasts. Collective. On failure all ranks fail.
 */
int tutti_local_steps_create(struct tutti_comm *comm, const struct tutti_local_steps_config *config,
			     struct tutti_local_steps **local);
/**
 * tutti_local_steps_free - free a state. It waits for a delayed change that is under way, and
 * applies it if no round has begun since. NULL is no error.
 */
int tutti_local_steps_free(struct tutti_local_steps *local);
/**
 * tutti_local_steps_step - a step of this rank: with inner_rate, parameters -= inner_rate *
 * gradients is made here; without it the caller has made the step and gradients is NULL. The last
 * step of a round is collective: then the parameters become the same on all ranks.
 */
int tutti_local_steps_step(struct tutti_local_steps *local, void *const *gradients);
/**
 * tutti_local_steps_finish - end a round that has begun, and apply what is delayed. Collective: all
 * ranks have made as many steps.
 */
int tutti_local_steps_finish(struct tutti_local_steps *local);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
