/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses the kernels for this CPU. */
#include "config.h"
#include "lib/codec/codec_kernels.h"
#include "lib/reduce/reduce.h"

static const struct tt_codec_kernels *const kernels[TT_REDUCE_LEVELS] = {
	[TT_REDUCE_BASE] = &tt_codec_kernels_base,
#ifdef TT_HAVE_AVX2
	[TT_REDUCE_AVX2] = &tt_codec_kernels_avx2,
#endif
#ifdef TT_HAVE_AVX512
	[TT_REDUCE_AVX512] = &tt_codec_kernels_avx512,
#endif
};

const struct tt_codec_kernels *tt_codec_truth;

const struct tt_codec_kernels *tt_codec_kernels(void)
{
	enum tt_reduce_level level = tt_reduce_level();

	return level == TT_REDUCE_TRUTH ? tt_codec_truth : kernels[level];
}
