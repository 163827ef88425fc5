/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tensors of PyTorch as the buffers of a call: datatypes, operators, checks, and copies where
 * memory is not as libtutti takes it.
 */
#pragma once

#include <vector>

#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/types.h>
#include <tutti/tutti.h>

namespace tutti_torch {

using Tensors = std::vector<at::Tensor>;

enum tutti_datatype datatype_of(const at::Tensor &tensor);
/* Sums and products of truth values are "or" and "and". */
enum tutti_op op_of(const c10d::ReduceOp &op, enum tutti_datatype type);
/* The factor of a PREMUL_SUM, as an element of type. */
at::Tensor factor_of(const c10d::ReduceOp &op, at::ScalarType type);
void check_tensor(const at::Tensor &tensor);
const at::Tensor &only(const Tensors &tensors);
/* The tensors lie one after the other in memory; an empty one among others may lie nowhere. */
bool adjacent(const Tensors &tensors);
void check_type(const at::Tensor &tensor, const at::Tensor &other);
void check_block(const at::Tensor &block, const at::Tensor &first);
/* All must be as first, which may be of another shape. */
void check_blocks(const Tensors &blocks, const at::Tensor &first, size_t ranks);
at::Tensor joined(const Tensors &tensors);
void spread(const at::Tensor &joined, const Tensors &tensors);

} // namespace tutti_torch
