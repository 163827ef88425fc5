/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations under way for PyTorch: a request of libtutti, the tensors it uses, and the future that
 * its end completes. And the jobs and threads they belong to.
 */
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <tutti/tutti.h>
#include <unistd.h>

namespace tutti_torch {

/* The text of a failure of this thread, or of comm. */
std::string error_text(int code, struct tutti_comm *comm);
/* Throws std::runtime_error if code is an error. */
void check(int code, struct tutti_comm *comm);

class Job;

/* Done once: by the thread that waits for it, or by a completer. */
class Operation {
public:
	~Operation();
	/* False if it is still under way; wait: until it is not. */
	bool advance(bool wait);
	c10::intrusive_ptr<c10::ivalue::Future> future();

	std::shared_ptr<struct tutti_comm> comm;
	struct tutti_request *request = nullptr;
	struct tutti_status status = {};
	bool message = false; /* a send or receive */
	std::vector<at::Tensor> used;
	std::vector<at::Tensor> outputs;
	std::function<void()> after; /* copies results to where they belong */
	std::atomic<bool> done{false};
	std::exception_ptr error; /* valid once done */

private:
	void end(int code);
	void complete_future();

	std::mutex running_; /* held by the thread that waits or tests */
	std::mutex future_lock_;
	c10::intrusive_ptr<c10::ivalue::Future> future_;
};

/* Ends operations that no thread waits for, or whose future is wanted. */
class Completer {
public:
	explicit Completer(bool poll) : poll_(poll)
	{
	}
	void add(std::shared_ptr<Operation> operation);
	void stop();

private:
	void run();
	bool step(std::deque<std::shared_ptr<Operation>> &mine);

	const bool poll_; /* messages end in any order, collectives in that of their calls */
	bool stopping_ = false;
	std::mutex lock_;
	std::condition_variable wake_;
	std::deque<std::shared_ptr<Operation>> queue_;
	std::thread thread_;
};

/* A context of this process, as long as a process group uses it. */
class Job {
public:
	Job(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size, int timeout_ms);
	~Job();
	void complete(const std::shared_ptr<Operation> &operation);
	/* Leave the job, once; a forked child does not, nor after abandon. */
	void finish();
	void abandon();
	bool ours() const;

	struct tutti_context *context = nullptr;

private:
	std::vector<Completer *> completers();
	Completer *completer_of(struct tutti_comm *comm);

	const pid_t process_ = getpid();
	std::atomic<bool> ended_{false};
	std::mutex lock_;
	/* Not freed while their threads may use them: in a forked child, and after abandon. */
	std::map<struct tutti_comm *, Completer *> collectives_; /* no group waits for another */
	Completer *messages_ = new Completer(true);
};

class TuttiWork : public c10d::Work {
public:
	TuttiWork(std::shared_ptr<Job> job, std::shared_ptr<Operation> operation, int rank,
		  c10d::OpType type)
		: c10d::Work(rank, type), job_(std::move(job)), operation_(std::move(operation))
	{
	}
	~TuttiWork() override;
	bool isCompleted() override;
	bool isSuccess() const override;
	std::exception_ptr exception() const override;
	int sourceRank() const override;
	std::vector<at::Tensor> result() override;
	bool wait(std::chrono::milliseconds timeout) override;
	c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

private:
	std::shared_ptr<Job> job_; /* ends after the operation */
	std::shared_ptr<Operation> operation_;
};

} // namespace tutti_torch
