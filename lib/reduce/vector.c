/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernels, in the compiler's vectors of TT_VEC bytes, built once per instruction level
 * (local.mk). Everything is inlined into one loop per operator and datatype; integers share those
 * that depend on neither sign nor size.
 *
 * A block of a few vectors is combined over all sources in registers and then stored. So each
 * source byte is read once and each result byte written once, whatever the number of sources. All
 * levels give the same bits: each step is one operation with its own rounding (no fma), and a NaN
 * result is always the same quiet NaN, because instructions differ in which NaN operand they pass
 * on.
 */
#include "lib/reduce/vector_float.h"
#include "lib/reduce/vector_int.h"
#include "lib/reduce/vector_mix.h"
#include "lib/reduce/vector_pair.h"
#include "lib/reduce/vector_weigh.h"

const struct tt_kernels AT_LEVEL(tt_kernels) = {
	.of = {run_i8, run_u8, run_i16, run_u16, run_i32, run_u32, run_i64, run_u64, run_bool,
	       run_f16, run_bf16, run_f32, run_f64, run_c64, run_c128, run_i32_index, run_i64_index,
	       run_f32_index, run_f64_index},
	.weigh = weigh_any,
	.mix = mix_any,
	.xxh = AT_LEVEL(tt_xxh),
};
