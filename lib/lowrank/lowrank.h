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

/*
 * Gathers the factors and adds all products; or *dense: this rank's products are in the result, and
 * the caller sums those of all ranks.
 */
int tt_factors_run(struct tutti_comm *comm, const struct tt_factors *factors, bool *dense);
/* Whether the factors travel: by flags, or by the estimated time; the same on all ranks. */
int tt_factors_gather(struct tutti_comm *comm, const struct tt_factors *factors, bool *gather);

/* One matrix of a state, and where its parts are. */
struct tt_low_matrix {
	size_t rows, cols;
	size_t p, q, e; /* in psum; q and qsum; e */
	bool low;	/* approximated; else it is in psum as it is, and has no q and e */
	bool bad;	/* in this call it has a value that is not finite */
};

#define TT_POWER_SGD_STRIP 32 /* rows of a result at a time */

/* PowerSGD between calls; power_sgd_state.c, power_sgd.c. */
struct tutti_power_sgd {
	volatile uint64_t magic; /* also when it is freed */
	atomic_bool busy;	 /* a call reads and writes it */
	uint64_t comm;		 /* its uid */
	int rank;
	uint64_t seed;
	size_t cells, plen, qlen; /* elements of e; psum; q and qsum */
	float *e, *q;		  /* residuals; q follows e */
	float *psum, *qsum;	  /* what all-reduces sum, pool memory */
	float *room, *outer;	  /* of the calling rank alone */
	size_t room_len;
	size_t n;
	struct tt_low_matrix matrix[];
};
#define TT_POWER_SGD_MAGIC 0x7475706f77736764ull

/* Collective; config is whole, with a rank. */
int tt_power_sgd_new(struct tutti_comm *comm, const struct tutti_power_sgd_config *config,
		     struct tutti_power_sgd **state);
void tt_power_sgd_free(struct tutti_power_sgd *state);
/* Collective. */
int tt_power_sgd_run(struct tutti_power_sgd *state, float *const *matrices, enum tutti_op op,
		     struct tutti_comm *comm);
int tt_power_sgd_restore(struct tutti_power_sgd *state, const float *from, struct tutti_comm *comm);
/* Makes each matrix's columns of q orthonormal; random ones replace those that are 0. */
void tt_power_sgd_orthonormalize(const struct tutti_power_sgd *state, float *q);

#endif
