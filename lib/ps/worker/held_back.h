/* SPDX-License-Identifier: BSD-3-Clause */
/* held_back.c, held_rows.c: residuals of a worker's pushes to a table. */
#ifndef TT_HELD_BACK_H
#define TT_HELD_BACK_H

#include "lib/ps/worker/accumulate.h"

struct tt_ps_feedback {
	float *state; /* the codec's vectors, of `all` elements each, one after the other */
	int states;
	uint64_t all;
	struct tt_ps_row_units met; /* rows: their places in the vectors */
	uint64_t since;		    /* tutti_ps_held */
	uint64_t clock, messages;
	uint64_t plain_bytes, sent_bytes;

	float *seen;		   /* significance: the values that were pulled last */
	float *in, *rest, *before; /* memory for a message each */
	float *row_in, *row_seen, *row_state[TT_CODEC_STATES];
	size_t kept; /* rows: significant elements of the message */
};

/* One vector for the codec. */
struct tt_ps_vector {
	const float *in, *seen;
	float *state[TT_CODEC_STATES];
	size_t n;
};

/*
 * Of the elements of a part: f->in becomes the updates of those that are significant, whose
 * residuals stay; f->rest what the others hold back, whose residuals become 0. A value that is not
 * finite is significant. Returns how many are.
 */
size_t tt_ps_vector_choose(struct tt_ps_feedback *f, double share, const struct tt_ps_vector *p);
/* Encode the part, of which kept elements are significant: tt_ps_feedback_encode. */
int tt_ps_vector_encode(struct tutti_ps_table *t, const struct tt_ps_vector *p, size_t kept,
			uint64_t clock, void *out, size_t *len, bool *plain);

/* Elements in use. */
static inline uint64_t tt_ps_feedback_elems(const struct tutti_ps_table *t)
{
	return t->rows ? (uint64_t)t->feedback->met.n * t->width : t->count;
}

#endif
