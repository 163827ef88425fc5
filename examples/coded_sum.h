/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A vector that is summed over ranks again and again, such as a gradient: in float32, encoded on
 * the way if a codec is named, and with feedback or without.
 */
#ifndef CODED_SUM_H
#define CODED_SUM_H

#include <tutti/tutti.h>

/* Options of a command line. */
struct coding {
	const char *codec; /* NULL or "none": as it is */
	int no_feedback;
	int power_sgd; /* rank of an approximation; 0: none. A codec is no part of it. */
};

struct coded_sum {
	struct tutti_comm *comm;
	struct tutti_codec *codec;
	struct tutti_feedback *feedback;
	float *data; /* this rank's part, then the sum; in memory of the context */
	size_t count;
	float *kept; /* the feedback that coded_sum_keep saw, or NULL */
};

/* A negative code if it fails; coded_sum_close in any case. */
int coded_sum_open(struct coded_sum *s, struct tutti_context *ctx, struct tutti_comm *comm,
		   const struct coding *coding, size_t count);
/* Sum data; request NULL: and wait until it is there. */
int coded_sum_start(struct coded_sum *s, struct tutti_request **request);
void coded_sum_close(struct coded_sum *s);

/* For ranks that come and go: keep the feedback as it is between two sums, */
int coded_sum_keep(struct coded_sum *s);
/* and go on with it on another communicator. A failed sum is as if it had not begun. */
int coded_sum_move(struct coded_sum *s, struct tutti_context *ctx, struct tutti_comm *comm,
		   const struct coding *coding);

/* The bytes that this rank has sent to others so far, and the time. */
struct coded_sent {
	double bytes, seconds;
};
struct coded_sent coded_sum_sent(struct tutti_context *ctx);
/* Print what rank has sent since then. */
void coded_sum_tell(struct tutti_context *ctx, int rank, struct coded_sent since);

#endif
