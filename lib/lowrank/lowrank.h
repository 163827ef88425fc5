/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduces of matrices that travel as factors, composed of public collectives. Nothing here
 * takes the wire lock; arguments have been checked by lib/api.
 */
#ifndef TT_LOWRANK_H
#define TT_LOWRANK_H

#include <tutti/lowrank.h>
#include <tutti/mem.h>

#include "lib/engine/engine.h"

/* The arguments of tutti_allreduce_factors. */
struct tt_factors {
	const float *u, *v;
	float *result;
	size_t rows, cols, k;
	enum tutti_op op;
	unsigned flags;
};

int tt_factors_run(struct tutti_comm *comm, const struct tt_factors *factors);
/* Whether the factors travel: by flags, or by the estimated time; the same on all ranks. */
int tt_factors_gather(struct tutti_comm *comm, const struct tt_factors *factors, bool *gather);

#endif
