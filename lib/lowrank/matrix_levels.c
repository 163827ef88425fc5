/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses the kernels for this CPU. */
#include "config.h"
#include "lib/lowrank/matrix.h"

#include <errno.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/reduce/reduce.h"

static const struct tt_matrix_kernels *const kernels[TT_REDUCE_LEVELS] = {
	[TT_REDUCE_TRUTH] = &tt_matrix_kernels_base,
	[TT_REDUCE_BASE] = &tt_matrix_kernels_base,
#ifdef TT_HAVE_AVX2
	[TT_REDUCE_AVX2] = &tt_matrix_kernels_avx2,
#endif
#ifdef TT_HAVE_AVX512
	[TT_REDUCE_AVX512] = &tt_matrix_kernels_avx512,
#endif
};

const struct tt_matrix_kernels *tt_matrix_kernels(void)
{
	return kernels[tt_reduce_level()];
}

float *tt_matrix_room(void)
{
	return aligned_alloc(64, TT_OUTER_ROOM * sizeof(float));
}

int tt_matrix_outer(struct tt_outer outer)
{
	outer.room = tt_matrix_room();
	if (!outer.room)
		return tt_fail(-ENOMEM, "no memory for a part of a matrix");
	tt_matrix_kernels()->outer(&outer);
	free(outer.room);
	return 0;
}
