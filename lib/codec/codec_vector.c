/* SPDX-License-Identifier: BSD-3-Clause */
/* The loops of the codecs, in vectors; built once for each level of instructions (local.mk). */
#include "lib/codec/codec_isa.h"
#include "lib/codec/codec_kind.h"

#include "lib/codec/cast_vector.h"

#include "lib/codec/block_vector.h"

#include "lib/codec/bits_vector.h"

#include "lib/codec/sparse_vector.h"

const struct tt_codec_kernels AT_LEVEL(tt_codec_kernels) = TT_CODEC_KERNELS;
