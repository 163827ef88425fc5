/* SPDX-License-Identifier: BSD-3-Clause */
#include "tensors.hh"

#include <ATen/ATen.h>
#include <stdexcept>
#include <string>

namespace tutti_torch {

enum tutti_datatype datatype_of(const at::Tensor &tensor)
{
	switch (tensor.scalar_type()) {
	case at::kByte: return TUTTI_UINT8;
	case at::kChar: return TUTTI_INT8;
	case at::kShort: return TUTTI_INT16;
	case at::kInt: return TUTTI_INT32;
	case at::kLong: return TUTTI_INT64;
	case at::kBool: return TUTTI_BOOL;
	case at::kHalf: return TUTTI_FLOAT16;
	case at::kBFloat16: return TUTTI_BFLOAT16;
	case at::kFloat: return TUTTI_FLOAT32;
	case at::kDouble: return TUTTI_FLOAT64;
	case at::kComplexFloat: return TUTTI_COMPLEX64;
	case at::kComplexDouble: return TUTTI_COMPLEX128;
	default:
		throw std::runtime_error(std::string("tutti: tensors of ") +
					 c10::toString(tensor.scalar_type()) +
					 " cannot travel; convert them");
	}
}

enum tutti_op op_of(const c10d::ReduceOp &op, enum tutti_datatype type)
{
	bool truth = type == TUTTI_BOOL;

	switch ((c10d::ReduceOp::RedOpType)op) {
	case c10d::ReduceOp::SUM: return truth ? TUTTI_LOR : TUTTI_SUM;
	case c10d::ReduceOp::AVG: return TUTTI_AVG;
	case c10d::ReduceOp::PRODUCT: return truth ? TUTTI_LAND : TUTTI_PROD;
	case c10d::ReduceOp::MIN: return truth ? TUTTI_LAND : TUTTI_MIN;
	case c10d::ReduceOp::MAX: return truth ? TUTTI_LOR : TUTTI_MAX;
	case c10d::ReduceOp::BAND: return truth ? TUTTI_LAND : TUTTI_BAND;
	case c10d::ReduceOp::BOR: return truth ? TUTTI_LOR : TUTTI_BOR;
	case c10d::ReduceOp::BXOR: return truth ? TUTTI_LXOR : TUTTI_BXOR;
	default:
		throw std::runtime_error("tutti: reduction " + std::to_string((int)op.op_) +
					 " is unknown; use SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, "
					 "BXOR or PREMUL_SUM");
	}
}

at::Tensor factor_of(const c10d::ReduceOp &op, at::ScalarType type)
{
	auto *given = dynamic_cast<c10d::NCCLPreMulSumSupplement *>(op.supplement_.get());

	if (!given)
		throw std::runtime_error("tutti: PREMUL_SUM without a factor; make it by "
					 "torch.distributed._make_nccl_premul_sum");
	if (type == at::kBool)
		throw std::runtime_error("tutti: PREMUL_SUM of truth values; convert them");
	if (given->tensor_factors.empty())
		return at::full({1}, given->double_factor, at::kDouble).to(type);
	if (given->tensor_factors.size() != 1 || given->tensor_factors[0].numel() != 1)
		throw std::runtime_error("tutti: PREMUL_SUM takes one factor, a tensor of one element");
	return given->tensor_factors[0].to(at::kCPU, type).contiguous();
}

void check_tensor(const at::Tensor &tensor)
{
	if (!tensor.device().is_cpu() || tensor.layout() != at::kStrided)
		throw std::runtime_error("tutti: a tensor is on " + tensor.device().str() +
					 " or not dense; only dense CPU tensors can travel");
}

const at::Tensor &only(const Tensors &tensors)
{
	if (tensors.size() != 1)
		throw std::runtime_error("tutti: " + std::to_string(tensors.size()) +
					 " tensors on one device; pass one");
	check_tensor(tensors[0]);
	return tensors[0];
}

/* The memory has the values, and is no view that negates or conjugates them. */
static bool plain(const at::Tensor &tensor)
{
	return !tensor.is_conj() && !tensor.is_neg();
}

bool adjacent(const Tensors &tensors)
{
	const char *at = nullptr;

	for (const at::Tensor &tensor : tensors) {
		if (!plain(tensor) || (tensors.size() > 1 && !tensor.numel()))
			return false;
		if (!tensor.is_contiguous() || (at && tensor.data_ptr() != at))
			return false;
		at = (const char *)tensor.data_ptr() + tensor.nbytes();
	}
	return true;
}

void check_type(const at::Tensor &tensor, const at::Tensor &other)
{
	check_tensor(tensor);
	if (tensor.scalar_type() != other.scalar_type())
		throw std::runtime_error("tutti: tensors differ in type");
}

void check_block(const at::Tensor &block, const at::Tensor &first)
{
	check_tensor(block);
	if (block.scalar_type() != first.scalar_type() || block.numel() != first.numel())
		throw std::runtime_error("tutti: tensors differ in type or size");
}

void check_blocks(const Tensors &blocks, const at::Tensor &first, size_t ranks)
{
	if (blocks.size() != ranks)
		throw std::runtime_error("tutti: " + std::to_string(blocks.size()) +
					 " tensors for " + std::to_string(ranks) + " ranks");
	for (const at::Tensor &block : blocks)
		check_block(block, first);
}

at::Tensor joined(const Tensors &tensors)
{
	Tensors flat;

	for (const at::Tensor &tensor : tensors)
		flat.push_back(tensor.reshape({-1}));
	return at::cat(flat);
}

void spread(const at::Tensor &joined, const Tensors &tensors)
{
	int64_t at = 0;

	for (const at::Tensor &tensor : tensors) {
		at::Tensor part = joined.narrow(0, at, tensor.numel()).view(tensor.sizes());
		const_cast<at::Tensor &>(tensor).copy_(part);
		at += tensor.numel();
	}
}

} // namespace tutti_torch
