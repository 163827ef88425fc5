/* SPDX-License-Identifier: BSD-3-Clause */
/* Push-sum, composed of public calls. */
#ifndef TT_PUSH_SUM_H
#define TT_PUSH_SUM_H

#include <stdbool.h>
#include <tutti/tutti.h>

#include "lib/plan/edges.h"

#define TT_PUSH_SUM_MAGIC 0x50757368u

/* A push under way to a rank: its weight, then its vector. */
struct tt_push {
	struct tutti_request *request; /* NULL: none */
	double *share;		       /* 1 + count elements; NULL: never used */
	uint64_t sent;
};

struct tutti_push_sum {
	volatile unsigned magic; /* also when it is freed */
	struct tutti_comm *comm; /* the object's own */
	int n, rank;
	size_t count;
	double w, *x;		    /* count elements */
	double *in;		    /* what is received: 1 + count elements */
	struct tutti_request *recv; /* posted; NULL: not yet, or never again */
	struct tutti_status from;   /* whose it is */
	bool tolerant;
	uint64_t *received; /* by rank */
	uint64_t missed;
	uint64_t checked;   /* hash of the edges whose column is known to sum to 1 */
	struct tt_push *to; /* by rank */
};

/* The memory only: ranks agree that all have it before they begin. */
int tt_push_sum_new(int n, int rank, size_t count, struct tutti_push_sum **out);
int tt_push_sum_begin(struct tutti_push_sum *p, struct tutti_comm *comm);
void tt_push_sum_release(struct tutti_push_sum *p); /* one that has not begun */
int tt_push_sum_free(struct tutti_push_sum *p);
int tt_push_sum_step(struct tutti_push_sum *p, const struct tt_edges *edges);
int tt_push_sum_drain(struct tutti_push_sum *p);

#endif
