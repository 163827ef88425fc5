/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Synchronous elastic averaging: one all-reduce of the differences alpha (x_i - center), after
 * which x_i gives its own and the center takes the sum. Whatever is taken from the ranks is given
 * to the center, up to rounding.
 *
 * S. Zhang, A. Choromanska, Y. LeCun, "Deep learning with Elastic Averaging SGD", NIPS 2015.
 */
#include "lib/gossip/gossip.h"
#include "lib/reduce/mix.h"

/* After the all-reduce, x changes only if it has succeeded: its difference is computed again. */
int tt_elastic_run(void *x, void *center, void *work, size_t count, enum tutti_datatype datatype,
		   double alpha, struct tutti_comm *comm)
{
	int err;

	tt_reduce_differ(work, x, center, alpha, count, datatype);
	err = tutti_allreduce(TUTTI_IN_PLACE, work, count, datatype, TUTTI_SUM, comm);
	if (!err)
		tt_reduce_exchange(x, center, work, alpha, count, datatype);
	return err;
}
