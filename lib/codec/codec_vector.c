/* SPDX-License-Identifier: BSD-3-Clause */
/* The loops of the codecs, in vectors; built once for each level of instructions (local.mk). */
#include "lib/codec/codec_isa.h"
#include "lib/codec/codec_kind.h"

#include "lib/codec/cast_vector.h"

#include "lib/codec/block_vector.h"

#include "lib/codec/bits_vector.h"

#include "lib/codec/sparse_vector.h"

const struct tt_codec_kernels AT_LEVEL(tt_codec_kernels) = {
	.narrow = {narrow_all_fp16, narrow_all_bf16, narrow_all_e4m3, narrow_all_e5m2},
	.widen = {widen_all_fp16, widen_all_bf16, widen_all_e4m3, widen_all_e5m2},
	.int8_encode = int8_encode,
	.int8_decode = int8_decode,
	.qsgd_encode = qsgd_encode,
	.qsgd_decode = qsgd_decode,
	.onebit_encode = onebit_encode,
	.onebit_decode = onebit_decode,
	.finite = all_finite,
	.advance = advance,
	.gather = gather,
};
