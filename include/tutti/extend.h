/* SPDX-License-Identifier: BSD-3-Clause */
/* For libraries that are built on tutti, such as libtutti_train: errors and update rules. */
#ifndef TUTTI_EXTEND_H
#define TUTTI_EXTEND_H

#include <tutti/ps.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

/**
 * tutti_set_last_error - make code, which is negative, and its text the last failure of the calling
 * thread. The text is copied and cut after 511 bytes. Returns code; -EINVAL if code is not negative
 * or text is NULL.
 */
int tutti_set_last_error(int code, const char *text);

/**
 * tutti_comm_set_owner - comm is the own communicator of an object of a library. While it exists,
 * tutti_finalize returns -EBUSY and says that owner, such as "a reducer", still exists and that
 * free_call, such as "tutti_reducer_free", is to be called. It is over when comm is freed. The
 * texts are not copied: they must be there as long as comm. -EINVAL: comm is the world or
 * tutti_self, which no call frees; owner or free_call is NULL or empty.
 */
int tutti_comm_set_owner(struct tutti_comm *comm, const char *owner, const char *free_call);

/* An update rule and its numbers. Zero means the default, as in struct tutti_ps_options. */
struct tutti_rule {
	size_t size;	     /* sizeof(struct tutti_rule) */
	int rule;	     /* TUTTI_PS_SGD to TUTTI_PS_ADAMW */
	int pad;	     /* 0 */
	double rate;	     /* [0.01] */
	double momentum;     /* [0.9] */
	double beta1, beta2; /* [0.9, 0.999; RMSProp's decay is beta2, 0.99] */
	double epsilon;	     /* [1e-8; Adagrad 1e-10] */
	double weight_decay; /* [0] */
};

/**
 * tutti_rule_states - how many vectors of state a rule has for each vector of values: 0, 1 or 2;
 * -EINVAL: not a rule from TUTTI_PS_SGD to TUTTI_PS_ADAMW.
 */
int tutti_rule_states(int rule);

/**
 * tutti_rule_apply - change count values at x by the gradient at u, which has the same datatype: a
 * float. state1, state2: vectors of count float64 if the datatype is float64, else float32, 0
 * before the first step; NULL where the rule has none. step: 1 at the first application, counted
 * for Adam and AdamW. Every element is computed by itself, so a vector may be divided anywhere
 * without a change of the bits.
 */
int tutti_rule_apply(const struct tutti_rule *rule, enum tutti_datatype datatype, void *x,
		     const void *u, void *state1, void *state2, size_t count, uint64_t step);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
