/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Synchronous elastic averaging: one all-reduce of the differences alpha (x_i - center), after
 * which x_i gives its own and the center takes the sum. Whatever is taken from the ranks is given
 * to the center, up to rounding.
 *
 * S. Zhang, A. Choromanska, Y. LeCun, "Deep learning with Elastic Averaging SGD", NIPS 2015.
 */
#include "lib/gossip/gossip.h"

static void differences(const void *x, const void *center, void *work, size_t count, bool wide,
			double alpha)
{
	const float *x32 = x, *c32 = center;
	const double *x64 = x, *c64 = center;
	float *d32 = work, alpha32 = (float)alpha;
	double *d64 = work;
	size_t i;

	for (i = 0; i < count && wide; i++)
		d64[i] = alpha * (x64[i] - c64[i]);
	for (i = 0; i < count && !wide; i++)
		d32[i] = alpha32 * (x32[i] - c32[i]);
}

/* After the all-reduce: x changes only when it has succeeded, so its difference is computed again.
 */
static void exchange(void *x, void *center, const void *sum, size_t count, bool wide, double alpha)
{
	float *x32 = x, *c32 = center, alpha32 = (float)alpha;
	double *x64 = x, *c64 = center;
	const float *s32 = sum;
	const double *s64 = sum;
	size_t i;

	for (i = 0; i < count && wide; i++) {
		x64[i] -= alpha * (x64[i] - c64[i]);
		c64[i] += s64[i];
	}
	for (i = 0; i < count && !wide; i++) {
		x32[i] -= alpha32 * (x32[i] - c32[i]);
		c32[i] += s32[i];
	}
}

int tt_elastic_run(void *x, void *center, void *work, size_t count, enum tutti_datatype datatype,
		   double alpha, struct tutti_comm *comm)
{
	bool wide = datatype == TUTTI_FLOAT64;
	int err;

	differences(x, center, work, count, wide, alpha);
	err = tutti_allreduce(TUTTI_IN_PLACE, work, count, datatype, TUTTI_SUM, comm);
	if (!err)
		exchange(x, center, work, count, wide, alpha);
	return err;
}
