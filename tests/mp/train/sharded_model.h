/* SPDX-License-Identifier: BSD-3-Clause */
/* A model with its gradients for tests of the sharded optimizer, and the plain optimizer. */
#ifndef TT_TRAIN_SHARDED_MODEL_H
#define TT_TRAIN_SHARDED_MODEL_H

#include <math.h>

#include "tests/mp/train/model.h"

static inline struct tutti_rule rule_of(int rule)
{
	return (struct tutti_rule){
		.size = sizeof(struct tutti_rule), .rule = rule, .rate = 0.01, .weight_decay = 0.1};
}

static inline struct tutti_sharded_config config_of(void *const *tensor,
						    const struct tutti_rule *rule, int stage)
{
	return (struct tutti_sharded_config){.size = sizeof(struct tutti_sharded_config),
					     .n = TENSORS,
					     .counts = counts,
					     .parameters = tensor,
					     .datatype = TUTTI_FLOAT32,
					     .stage = stage,
					     .rule = rule,
					     .bucket_bytes = 3000};
}

/* A model with its gradients, and the plain optimizer that every rank computes by itself. */
struct model {
	float x[TOTAL + TENSORS], g[TOTAL + TENSORS];
	float *tensor[TENSORS], *grad[TENSORS];
	float plain[TOTAL], mean[TOTAL], s1[TOTAL], s2[TOTAL];
};

static inline void model_new(struct model *m, size_t gap)
{
	size_t i, k, at = 0;

	memset(m, 0, sizeof(*m));
	tensors_of(m->x, sizeof(float), gap, (void **)m->tensor);
	tensors_of(m->g, sizeof(float), gap, (void **)m->grad);
	for (i = 0; i < TENSORS; i++)
		for (k = 0; k < counts[i]; k++, at++)
			m->tensor[i][k] = m->plain[at] = noise(99, 0, at);
}

/* Integers, so that their sum has the same bits in any order; alike: the same on all ranks. */
static inline void gradients(struct model *m, unsigned step, int rank, int n, bool alike)
{
	size_t i, k, at = 0;
	float sum;
	int r;

	for (i = 0; i < TENSORS; i++)
		for (k = 0; k < counts[i]; k++, at++) {
			m->grad[i][k] = whole(step, alike ? 0 : rank, at);
			for (r = 0, sum = 0; r < n; r++)
				sum += whole(step, alike ? 0 : r, at);
			m->mean[at] = sum / (float)n;
		}
}

static inline bool same_bits(const struct model *m)
{
	size_t i, at;

	for (i = 0, at = 0; i < TENSORS; at += counts[i++])
		if (memcmp(m->tensor[i], m->plain + at, counts[i] * sizeof(float)))
			return false;
	return true;
}

static inline int plain_step(struct model *m, const struct tutti_rule *rule, unsigned step)
{
	return tutti_rule_apply(rule, TUTTI_FLOAT32, m->plain, m->mean, m->s1, m->s2, TOTAL, step);
}

/* All tensors in the order of a backward pass, or shuffled. */
static inline int ready_all(struct mp_job *job, struct tutti_sharded *s, struct model *m,
			    unsigned step, bool mixed, bool spoil)
{
	size_t order[TENSORS], i, t, k;

	shuffle(step * 64 + (unsigned)job->rank, order);
	for (i = 0; i < TENSORS; i++) {
		t = mixed ? order[i] : TENSORS - 1 - i;
		MP_OK(tutti_sharded_ready(s, t, m->grad[t]));
		for (k = 0; spoil && k < counts[t]; k++)
			m->grad[t][k] = NAN; /* stage 2 has a copy */
	}
	return 0;
}

static inline int step_of(struct mp_job *job, struct tutti_sharded *s, struct model *m,
			  unsigned step, bool mixed, bool spoil)
{
	TT_EXPECT(!ready_all(job, s, m, step, mixed, spoil));
	MP_OK(tutti_sharded_step(s, NULL));
	MP_OK(tutti_sharded_wait(s, step % TENSORS));
	MP_OK(tutti_sharded_wait(s, TUTTI_SHARDED_ALL));
	return 0;
}

#endif
