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

/*
 * Ended once: by a thread that waits or tests, or by a completer. Any number of threads may do so
 * at the same time; one of them has `running_`, and only this one touches the request.
 */
class Operation {
public:
	/* False if it is still under way, or another thread waits for it. */
	bool test();
	/*
	 * False if it is still under way after ms milliseconds, 0: no limit: another thread waits
	 * for it, or it is a receive whose message still arrives, and *why says so.
	 */
	bool wait(int64_t ms, std::string *why = nullptr);
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

	std::timed_mutex running_;
	std::mutex future_lock_;
	c10::intrusive_ptr<c10::ivalue::Future> future_;
	bool future_ended_ = false;
};

/*
 * Ends operations that no thread waits for, or whose future is wanted. A callback of a future may
 * wait for a further operation, so as many threads run as there are callbacks, and one more.
 */
class Completer {
public:
	explicit Completer(bool poll) : poll_(poll)
	{
	}
	void add(std::shared_ptr<Operation> operation);
	void stop();
	/* Deletes one that gets no further operations, also in a thread of its own. */
	static void dispose(Completer *completer);

	/* While callbacks run, in a completer's thread or in another one. */
	class Callback {
	public:
		Callback();
		~Callback();
	};
	/* The calling thread is a completer's. */
	static bool inside();

private:
	void run();
	void attend(); /* with the lock: a thread is free for what is in the queue */

	const bool poll_; /* messages end in any order, collectives in that of their calls */
	bool stopping_ = false;
	int free_ = 0; /* threads that are not in a callback */
	std::mutex lock_;
	std::condition_variable wake_;
	std::deque<std::shared_ptr<Operation>> queue_;
	std::vector<std::thread> threads_;
};

/* Of a job: whether its context can be used. Communicators ask when the job may be deleted. */
struct Life {
	const pid_t process = getpid();
	std::atomic<bool> ended{false};

	bool ours() const
	{
		return getpid() == process && !ended;
	}
};

/* A context of this process, as long as a process group uses it. */
class Job {
public:
	Job(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size, int timeout_ms);
	~Job();
	/* Deletes a job, also in a completer's thread: a callback of a future may be its last user. */
	static void dispose(Job *job);
	/* For an operation that no thread waits for, or whose future is wanted. */
	void complete(const std::shared_ptr<Operation> &operation);
	/* No operation uses the communicator any more: it has been freed. */
	void forget(struct tutti_comm *comm);
	/* Leave the job, once; a forked child does not, nor after abandon. */
	void finish();
	void abandon();
	std::shared_ptr<const Life> life() const
	{
		return life_;
	}

	struct tutti_context *context = nullptr;

private:
	std::vector<Completer *> completers();

	const std::shared_ptr<Life> life_ = std::make_shared<Life>();
	std::mutex lock_; /* also orders complete before the end of finish */
	bool finishing_ = false;
	/* Not freed while their threads may use them: in a forked child, and after abandon. */
	std::map<struct tutti_comm *, Completer *> collectives_; /* no group waits for another */
	Completer *messages_ = nullptr;
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
	void abort() override;
	c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

private:
	std::shared_ptr<Job> job_; /* ends after the operation */
	std::shared_ptr<Operation> operation_;
};

} // namespace tutti_torch
