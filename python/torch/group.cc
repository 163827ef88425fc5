/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process group of torch.distributed over a communicator of libtutti: CPU tensors, all
 * collectives and messages of the interface.
 */
#include "operation.hh"
#include "tensors.hh"

#include <limits.h>
#include <pybind11/chrono.h>
#include <torch/extension.h>

using namespace tutti_torch;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

template <typename T> static T &first_of(std::vector<T> &list)
{
	if (list.empty())
		throw std::runtime_error("tutti: a list of tensors is empty");
	return list[0];
}

template <typename T> static const T &first_of(const std::vector<T> &list)
{
	return first_of(const_cast<std::vector<T> &>(list));
}

static int milliseconds(std::chrono::milliseconds timeout)
{
	return timeout.count() <= 0 ? 0 : (int)std::min<int64_t>(timeout.count(), INT_MAX);
}

class ProcessGroupTutti : public c10d::ProcessGroup {
public:
	ProcessGroupTutti(std::shared_ptr<Job> job, struct tutti_comm *comm, bool owned, int rank,
			  int size)
		: c10d::ProcessGroup(rank, size), job_(std::move(job)), comm_(comm),
		  shared_(comm, [life = job_->life(), job = job_.get(),
				 owned](struct tutti_comm *comm) {
			  if (!owned || !life->ours())
				  return;
			  tutti_comm_free(comm);
			  job->forget(comm); /* as long as it has not ended, it is there */
		  })
	{
		init();
	}
	const std::string getBackendName() const override
	{
		return "tutti";
	}
	uint64_t comm() const
	{
		return (uint64_t)comm_;
	}
	std::shared_ptr<Job> job() const
	{
		return job_;
	}
	void setSequenceNumberForGroup() override
	{
	}
	uint64_t getSequenceNumberForGroup() override
	{
		struct tutti_comm_state state = {};

		state.size = sizeof(state);
		check(tutti_comm_state(comm_, &state), comm_);
		return state.calls;
	}

	WorkPtr broadcast(Tensors &tensors, const c10d::BroadcastOptions &opts) override
	{
		Step step(*this, c10d::OpType::BROADCAST, TUTTI_COLL_BCAST, opts.timeout);
		step.result(only(tensors), true);
		step.call.root = (int)opts.rootRank;
		return step.start();
	}
	WorkPtr allreduce(Tensors &tensors, const c10d::AllreduceOptions &opts) override
	{
		return reduce_all(only(tensors), opts, nullptr, nullptr);
	}
	WorkPtr reduce_all(const at::Tensor &tensor, const c10d::AllreduceOptions &opts,
			   struct tutti_codec *codec, struct tutti_feedback *feedback)
	{
		Step step(*this, c10d::OpType::ALLREDUCE, TUTTI_COLL_ALLREDUCE, opts.timeout);
		step.result(tensor, true);
		step.call.sendbuf = TUTTI_IN_PLACE;
		step.reduction(opts.reduceOp);
		step.call.codec = codec;
		step.call.feedback = feedback;
		return step.start();
	}
	WorkPtr allreduce_coalesced(Tensors &tensors,
				    const c10d::AllreduceCoalescedOptions &opts) override
	{
		Step step(*this, c10d::OpType::ALLREDUCE_COALESCED, TUTTI_COLL_ALLREDUCE,
			  opts.timeout);
		step.results(tensors, true);
		step.call.sendbuf = TUTTI_IN_PLACE;
		step.reduction(opts.reduceOp);
		return step.start();
	}
	WorkPtr reduce(Tensors &tensors, const c10d::ReduceOptions &opts) override
	{
		Step step(*this, c10d::OpType::REDUCE, TUTTI_COLL_REDUCE, opts.timeout);
		if (getRank() == opts.rootRank) {
			step.result(only(tensors), true);
			step.call.sendbuf = TUTTI_IN_PLACE;
		} else {
			step.input(only(tensors));
			step.operation->outputs = tensors;
		}
		step.reduction(opts.reduceOp);
		step.call.root = (int)opts.rootRank;
		return step.start();
	}
	WorkPtr allgather(std::vector<Tensors> &outputs, Tensors &inputs,
			  const c10d::AllgatherOptions &opts) override
	{
		Step step(*this, c10d::OpType::ALLGATHER, TUTTI_COLL_ALLGATHER, opts.timeout);
		check_blocks(first_of(outputs), only(inputs), (size_t)getSize());
		step.results(outputs[0], false);
		step.input(inputs[0]);
		return step.start();
	}
	WorkPtr _allgather_base(at::Tensor &output, at::Tensor &input,
				const c10d::AllgatherOptions &opts) override
	{
		Step step(*this, c10d::OpType::_ALLGATHER_BASE, TUTTI_COLL_ALLGATHER, opts.timeout);
		check_parts(output, input);
		step.result(output, false);
		step.input(input);
		return step.start();
	}
	WorkPtr allgather_coalesced(std::vector<Tensors> &outputs, Tensors &inputs,
				    const c10d::AllgatherOptions &opts) override
	{
		Step step(*this, c10d::OpType::ALLGATHER_COALESCED, TUTTI_COLL_ALLGATHER,
			  opts.timeout);
		Tensors all;
		for (Tensors &of_rank : outputs) {
			if (of_rank.size() != inputs.size())
				throw std::runtime_error("tutti: lists of tensors differ in length");
			for (size_t i = 0; i < inputs.size(); i++)
				check_block(of_rank[i], inputs[i]);
			all.insert(all.end(), of_rank.begin(), of_rank.end());
		}
		if (outputs.size() != (size_t)getSize())
			throw std::runtime_error("tutti: one list of outputs a rank is needed");
		step.results(all, false);
		step.inputs(inputs);
		return step.start();
	}
	WorkPtr gather(std::vector<Tensors> &outputs, Tensors &inputs,
		       const c10d::GatherOptions &opts) override
	{
		Step step(*this, c10d::OpType::GATHER, TUTTI_COLL_GATHER, opts.timeout);
		if (getRank() == opts.rootRank) {
			check_blocks(first_of(outputs), only(inputs), (size_t)getSize());
			step.results(outputs[0], false);
		}
		step.input(only(inputs));
		step.call.root = (int)opts.rootRank;
		return step.start();
	}
	WorkPtr scatter(Tensors &outputs, std::vector<Tensors> &inputs,
			const c10d::ScatterOptions &opts) override
	{
		Step step(*this, c10d::OpType::SCATTER, TUTTI_COLL_SCATTER, opts.timeout);
		if (getRank() == opts.rootRank) {
			check_blocks(first_of(inputs), only(outputs), (size_t)getSize());
			step.inputs(inputs[0]);
		}
		step.result(only(outputs), false);
		step.call.count = (size_t)outputs[0].numel();
		step.call.root = (int)opts.rootRank;
		return step.start();
	}
	WorkPtr reduce_scatter(Tensors &outputs, std::vector<Tensors> &inputs,
			       const c10d::ReduceScatterOptions &opts) override
	{
		Step step(*this, c10d::OpType::REDUCE_SCATTER, TUTTI_COLL_REDUCE_SCATTER_BLOCK,
			  opts.timeout);
		check_blocks(first_of(inputs), only(outputs), (size_t)getSize());
		step.inputs(inputs[0]);
		step.result(outputs[0], false);
		step.call.count = (size_t)outputs[0].numel();
		step.reduction(opts.reduceOp);
		return step.start();
	}
	WorkPtr _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
				     const c10d::ReduceScatterOptions &opts) override
	{
		Step step(*this, c10d::OpType::_REDUCE_SCATTER_BASE,
			  TUTTI_COLL_REDUCE_SCATTER_BLOCK, opts.timeout);
		check_parts(input, output);
		step.input(input);
		step.result(output, false);
		step.call.count = (size_t)output.numel();
		step.reduction(opts.reduceOp);
		return step.start();
	}
	WorkPtr alltoall_base(at::Tensor &output, at::Tensor &input,
			      std::vector<int64_t> &output_splits,
			      std::vector<int64_t> &input_splits,
			      const c10d::AllToAllOptions &opts) override
	{
		Step step(*this, c10d::OpType::ALLTOALL_BASE, TUTTI_COLL_ALLTOALLV, opts.timeout);
		std::vector<size_t> sent = counts(input, input_splits);
		std::vector<size_t> received = counts(output, output_splits);
		check_type(output, input);
		step.input(input);
		step.result(output, false);
		return step.start_alltoallv(sent, received);
	}
	WorkPtr alltoall(Tensors &outputs, Tensors &inputs,
			 const c10d::AllToAllOptions &opts) override
	{
		Step step(*this, c10d::OpType::ALLTOALL, TUTTI_COLL_ALLTOALLV, opts.timeout);
		std::vector<size_t> sent, received;
		for (const at::Tensor &tensor : inputs)
			sent.push_back((size_t)tensor.numel());
		for (const at::Tensor &tensor : outputs)
			received.push_back((size_t)tensor.numel());
		if (sent.size() != (size_t)getSize() || received.size() != sent.size())
			throw std::runtime_error("tutti: all-to-all needs a tensor for each rank");
		check_type(outputs[0], inputs[0]);
		step.inputs(inputs);
		step.results(outputs, false);
		return step.start_alltoallv(sent, received);
	}
	WorkPtr barrier(const c10d::BarrierOptions &opts) override
	{
		Step step(*this, c10d::OpType::BARRIER, TUTTI_COLL_BARRIER, opts.timeout);
		return step.start();
	}
	void monitoredBarrier(const c10d::BarrierOptions &opts, bool) override
	{
		/* Every barrier names the ranks that it waits for at its deadline. */
		barrier(opts)->wait(kNoTimeout);
	}
	WorkPtr send(Tensors &tensors, int dest, int tag) override
	{
		Step step(*this, c10d::OpType::SEND, TUTTI_COLL_BARRIER, c10d::kUnsetTimeout);
		step.input(only(tensors));
		step.operation->message = true;
		check(tutti_isend(step.call.sendbuf, step.call.count, step.call.datatype, dest, tag,
				  comm_, &step.operation->request),
		      comm_);
		return step.work();
	}
	WorkPtr recv(Tensors &tensors, int source, int tag) override
	{
		return receive(tensors, source, tag, c10d::OpType::RECV);
	}
	WorkPtr recvAnysource(Tensors &tensors, int tag) override
	{
		return receive(tensors, TUTTI_ANY_SOURCE, tag, c10d::OpType::RECVANYSOURCE);
	}

private:
	/* A call in the making. */
	struct Step {
		Step(ProcessGroupTutti &group, c10d::OpType type, enum tutti_coll coll,
		     std::chrono::milliseconds timeout)
			: group(group), type(type), operation(std::make_shared<Operation>())
		{
			operation->comm = group.shared_;
			call.size = sizeof(call);
			call.coll = coll;
			call.timeout_ms = milliseconds(timeout);
		}
		~Step()
		{
			if (factor) /* the request keeps it */
				tutti_op_free(group.job_->context, call.op);
		}
		/* After the tensors: the operator may depend on their type. */
		void reduction(const c10d::ReduceOp &op)
		{
			if (op.op_ != c10d::ReduceOp::PREMUL_SUM) {
				call.op = op_of(op, call.datatype);
				return;
			}
			at::Tensor one = factor_of(op, operation->used.back().scalar_type());
			check(tutti_op_create_premul_sum(group.job_->context, one.data_ptr(),
							 call.datatype, &call.op),
			      group.comm_);
			factor = true;
		}
		void input(const at::Tensor &tensor)
		{
			check_tensor(tensor);
			at::Tensor whole = tensor.contiguous().resolve_conj().resolve_neg();
			operation->used.push_back(whole);
			call.datatype = datatype_of(whole);
			call.sendbuf = whole.data_ptr();
			call.count = (size_t)whole.numel();
		}
		void inputs(const Tensors &tensors)
		{
			if (tensors.empty())
				throw std::runtime_error("tutti: a list of tensors is empty");
			for (const at::Tensor &tensor : tensors)
				check_type(tensor, tensors[0]);
			if (!adjacent(tensors))
				return input(joined(tensors));
			input(tensors[0]);
			operation->used.insert(operation->used.end(), tensors.begin(), tensors.end());
			call.count = 0;
			for (const at::Tensor &tensor : tensors)
				call.count += (size_t)tensor.numel();
		}
		/* The call writes tensor; in: it reads it, too. */
		void result(const at::Tensor &tensor, bool in)
		{
			results({tensor}, in);
		}
		void results(const Tensors &tensors, bool in)
		{
			at::Tensor whole = first_of(tensors);

			for (const at::Tensor &tensor : tensors)
				check_type(tensor, whole);
			operation->outputs = tensors;
			if (!adjacent(tensors)) {
				whole = in ? joined(tensors) : at::empty({total(tensors)},
									 whole.options());
				operation->after = [whole, tensors] { spread(whole, tensors); };
			}
			operation->used.push_back(whole);
			call.datatype = datatype_of(whole);
			call.recvbuf = whole.data_ptr();
			call.count = (size_t)total(tensors);
		}
		static int64_t total(const Tensors &tensors)
		{
			int64_t sum = 0;

			for (const at::Tensor &tensor : tensors)
				sum += tensor.numel();
			return sum;
		}
		WorkPtr start()
		{
			check(tutti_call(group.comm_, &call, &operation->request), group.comm_);
			return work();
		}
		WorkPtr start_alltoallv(const std::vector<size_t> &sent,
					const std::vector<size_t> &received)
		{
			call.count = 0;
			call.sendcounts = sent.data();
			call.recvcounts = received.data();
			return start();
		}
		WorkPtr work()
		{
			return c10::make_intrusive<TuttiWork>(group.job_, operation, group.getRank(), type);
		}
		at::NoGradGuard no_grad; /* copies are no part of a gradient */
		ProcessGroupTutti &group;
		c10d::OpType type;
		std::shared_ptr<Operation> operation;
		struct tutti_call call = {};
		bool factor = false; /* the operator was made for this call */
	};

	WorkPtr receive(Tensors &tensors, int source, int tag, c10d::OpType type)
	{
		Step step(*this, type, TUTTI_COLL_BARRIER, c10d::kUnsetTimeout);
		step.result(only(tensors), false);
		step.operation->message = true;
		check(tutti_irecv(step.call.recvbuf, step.call.count, step.call.datatype, source,
				  tag, comm_, &step.operation->status, &step.operation->request),
		      comm_);
		return step.work();
	}
	void check_parts(const at::Tensor &whole, const at::Tensor &part) const
	{
		check_tensor(whole);
		check_tensor(part);
		if (whole.numel() != part.numel() * getSize() ||
		    whole.scalar_type() != part.scalar_type())
			throw std::runtime_error(
				"tutti: tensors of " + std::to_string(whole.numel()) + " and " +
				std::to_string(part.numel()) + " elements on " +
				std::to_string(getSize()) +
				" ranks, or of two types; the long one needs a part for each rank");
	}
	/* Elements for each rank, of rows by splits. */
	std::vector<size_t> counts(const at::Tensor &tensor, const std::vector<int64_t> &splits) const
	{
		std::vector<size_t> made;
		if (!tensor.dim())
			throw std::runtime_error("tutti: all-to-all of a tensor without dimensions");
		int64_t rows = tensor.size(0), size = getSize(), sum = 0;
		int64_t row = rows ? tensor.numel() / rows : 0;

		if (splits.empty() && rows % size)
			throw std::runtime_error("tutti: " + std::to_string(rows) + " rows on " +
						 std::to_string(size) + " ranks; pass split sizes");
		for (int64_t i = 0; i < size && (splits.empty() || (size_t)i < splits.size()); i++) {
			int64_t rows_here = splits.empty() ? rows / size : splits[(size_t)i];
			if (rows_here < 0)
				throw std::runtime_error("tutti: a split size is negative");
			sum += rows_here;
			made.push_back((size_t)(rows_here * row));
		}
		if (made.size() != (size_t)size || sum != rows)
			throw std::runtime_error("tutti: split sizes add up to " +
						 std::to_string(sum) + " rows of " +
						 std::to_string(rows));
		return made;
	}

	std::shared_ptr<Job> job_;
	struct tutti_comm *comm_;
	std::shared_ptr<struct tutti_comm> shared_; /* operations keep it */
};

/* ---- making groups ---- */

static std::mutex current_lock;
static std::weak_ptr<Job> current; /* the context that sub-groups are made of */

static c10::intrusive_ptr<ProcessGroupTutti>
make_world(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size,
	   std::chrono::milliseconds timeout)
{
	std::shared_ptr<Job> job(new Job(store, rank, size, milliseconds(timeout)), Job::dispose);
	std::lock_guard<std::mutex> lock(current_lock);

	current = job;
	return c10::make_intrusive<ProcessGroupTutti>(job, tutti_world(job->context), false, rank,
						      size);
}

static c10::intrusive_ptr<ProcessGroupTutti> make_group(const std::vector<int> &ranks, int rank,
							std::chrono::milliseconds timeout)
{
	struct tutti_comm_config config = {};
	struct tutti_comm *comm;
	std::shared_ptr<Job> job;

	{
		std::lock_guard<std::mutex> lock(current_lock);
		job = current.lock();
	}
	if (!job)
		throw std::runtime_error("tutti: the default process group is not of backend tutti");
	config.size = sizeof(config);
	config.nranks = (int)ranks.size();
	config.ranks = ranks.data();
	check(tutti_comm_create_group(tutti_world(job->context), &config, &comm),
	      tutti_world(job->context));
	tutti_comm_set_timeout(comm, milliseconds(timeout));
	return c10::make_intrusive<ProcessGroupTutti>(job, comm, true, rank, (int)ranks.size());
}

/* At the exit: leave the job, or, if the program has failed, wait for no rank. */
static void leave(bool failed)
{
	std::shared_ptr<Job> job;

	{
		std::lock_guard<std::mutex> lock(current_lock);
		job = current.lock();
	}
	if (job && failed)
		job->abandon();
	else if (job)
		job->finish();
}

PYBIND11_MODULE(_torch, m)
{
	py::module_::import("torch.distributed");
	py::class_<ProcessGroupTutti, c10d::ProcessGroup, c10::intrusive_ptr<ProcessGroupTutti>>(
		m, "ProcessGroupTutti")
		.def_property_readonly("comm", &ProcessGroupTutti::comm)
		.def_property_readonly("context", [](const ProcessGroupTutti &group) {
			return (uint64_t)group.job()->context;
		});
	m.def("make_world", &make_world, py::call_guard<py::gil_scoped_release>());
	m.def("make_group", &make_group, py::call_guard<py::gil_scoped_release>());
	m.def("leave", &leave, py::call_guard<py::gil_scoped_release>());
	m.def(
		"coded_average",
		[](ProcessGroupTutti &group, const at::Tensor &tensor, uint64_t codec,
		   uint64_t feedback) {
			c10d::AllreduceOptions opts;
			opts.reduceOp = c10d::ReduceOp::AVG;
			return group.reduce_all(tensor, opts, (struct tutti_codec *)codec,
						(struct tutti_feedback *)feedback);
		},
		py::call_guard<py::gil_scoped_release>());
}
