/* SPDX-License-Identifier: BSD-3-Clause */
#include <Python.h>

#include "operation.hh"

#include <algorithm>
#include <limits.h>
#include <stdexcept>
#include <string.h>

namespace tutti_torch {

std::string error_text(int code, struct tutti_comm *comm)
{
	struct tutti_error_info info = {};

	info.size = sizeof(info);
	if (tutti_last_error(&info) == 0 && info.code == code)
		return std::string("tutti: ") + info.text;
	if (comm && tutti_comm_error(comm, &info) == 0 && info.code == code)
		return std::string("tutti: ") + info.text;
	return std::string("tutti: ") + tutti_strerror(code);
}

void check(int code, struct tutti_comm *comm)
{
	if (code < 0)
		throw std::runtime_error(error_text(code, comm));
}

/* ---- operations ---- */

bool Operation::test()
{
	std::unique_lock<std::timed_mutex> lock(running_, std::try_to_lock);
	int code, ended = 0;

	if (done)
		return true;
	if (!lock.owns_lock())
		return false;
	code = tutti_test(&request, &ended);
	if (request)
		return false;
	end(code);
	lock.unlock();
	complete_future();
	return true;
}

bool Operation::wait(int64_t ms, std::string *why)
{
	using std::chrono::milliseconds;
	auto until = std::chrono::steady_clock::now() + milliseconds(ms);
	std::unique_lock<std::timed_mutex> lock(running_, std::defer_lock);
	int code;

	if (done)
		return true;
	if (ms <= 0)
		lock.lock();
	else if (!lock.try_lock_until(until))
		return done;
	if (done)
		return true;
	if (ms > 0) {
		auto left = until - std::chrono::steady_clock::now();
		int64_t left_ms = std::chrono::duration_cast<milliseconds>(left).count();
		tutti_request_set_timeout(request, (int)std::min<int64_t>(
						       std::max<int64_t>(left_ms, 1), INT_MAX));
	} else if (message) {
		tutti_request_set_timeout(request, 0); /* an earlier wait may have had a limit */
	}
	code = tutti_wait(&request);
	if (request) { /* the sender writes to the tensors, which must live until it has ended */
		if (why)
			*why = error_text(code, comm.get());
		return false;
	}
	end(code);
	lock.unlock();
	complete_future();
	return true;
}

void Operation::end(int code)
{
	if (code < 0)
		error = std::make_exception_ptr(std::runtime_error(error_text(code, comm.get())));
	try {
		at::NoGradGuard no_grad; /* of this thread, which may be a completer's */
		if (!error && after)
			after();
	} catch (...) {
		error = std::current_exception();
	}
	after = nullptr;
	done = true;
}

/* By the thread that has ended the operation, or that makes the future later: by one of them. */
void Operation::complete_future()
{
	c10::intrusive_ptr<c10::ivalue::Future> wanted;

	{
		std::lock_guard<std::mutex> lock(future_lock_);
		if (!future_ || future_ended_)
			return;
		future_ended_ = true;
		wanted = future_;
	}
	Completer::Callback callback;
	if (error)
		wanted->setErrorIfNeeded(error);
	else
		wanted->markCompleted(c10::IValue(outputs));
}

c10::intrusive_ptr<c10::ivalue::Future> Operation::future()
{
	bool ended;

	{
		std::lock_guard<std::mutex> lock(future_lock_);
		if (future_)
			return future_;
		future_ = c10::make_intrusive<c10::ivalue::Future>(
			c10::ListType::create(c10::TensorType::get()));
		ended = done;
	}
	if (ended)
		complete_future();
	return future_;
}

/* ---- completers ---- */

static thread_local Completer *current_completer;

bool Completer::inside()
{
	return current_completer != nullptr;
}

Completer::Callback::Callback()
{
	if (!current_completer)
		return;
	std::lock_guard<std::mutex> lock(current_completer->lock_);
	current_completer->free_--;
	current_completer->attend();
}

Completer::Callback::~Callback()
{
	if (!current_completer)
		return;
	std::lock_guard<std::mutex> lock(current_completer->lock_);
	current_completer->free_++;
}

void Completer::attend()
{
	if (queue_.empty())
		return;
	if (!free_) {
		free_++;
		threads_.emplace_back([this] { run(); });
	}
	wake_.notify_one();
}

void Completer::add(std::shared_ptr<Operation> operation)
{
	std::lock_guard<std::mutex> lock(lock_);

	queue_.push_back(std::move(operation));
	attend();
}

void Completer::stop()
{
	for (;;) { /* callbacks may need further threads */
		std::vector<std::thread> threads;
		{
			std::lock_guard<std::mutex> lock(lock_);
			stopping_ = true;
			threads.swap(threads_);
			wake_.notify_all();
		}
		if (threads.empty())
			return;
		for (std::thread &thread : threads)
			thread.join();
	}
}

void Completer::dispose(Completer *completer)
{
	auto end = [completer] {
		completer->stop();
		delete completer;
	};

	if (current_completer == completer)
		std::thread(end).detach(); /* it waits for this thread */
	else
		end();
}

void Completer::run()
{
	size_t idle = 0; /* messages tested in a row that have not ended */

	current_completer = this;
	for (;;) {
		std::shared_ptr<Operation> operation;
		{
			std::unique_lock<std::mutex> lock(lock_);
			wake_.wait(lock, [&] { return !queue_.empty() || stopping_; });
			if (queue_.empty()) {
				free_--;
				return;
			}
			operation = std::move(queue_.front());
			queue_.pop_front();
		}
		if (!poll_) {
			operation->wait(0);
			continue;
		}
		if (operation->test()) {
			idle = 0;
			continue;
		}
		std::unique_lock<std::mutex> lock(lock_);
		queue_.push_back(std::move(operation));
		if (++idle < queue_.size())
			continue;
		idle = 0;
		lock.unlock();
		std::this_thread::sleep_for(std::chrono::microseconds(50));
	}
}

/* ---- jobs ---- */

/* The id goes through the store, which authenticates no process. */
static struct tutti_unique_id exchange_id(const c10::intrusive_ptr<c10d::Store> &store, int rank)
{
	struct tutti_unique_id id;

	if (rank == 0) {
		check(tutti_unique_id_get(&id), nullptr);
		store->set("tutti", std::vector<uint8_t>(id.bytes, id.bytes + sizeof(id.bytes)));
		return id;
	}
	std::vector<uint8_t> bytes = store->get("tutti");
	if (bytes.size() != sizeof(id.bytes))
		throw std::runtime_error("tutti: the store returned an id of " +
					 std::to_string(bytes.size()) + " bytes, not " +
					 std::to_string(sizeof(id.bytes)) +
					 "; use one version of tutti on all ranks");
	memcpy(id.bytes, bytes.data(), sizeof(id.bytes));
	return id;
}

Job::Job(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size, int timeout_ms)
{
	struct tutti_unique_id id = exchange_id(store, rank);
	struct tutti_config config = {};

	config.size = sizeof(config);
	config.nranks = size;
	config.rank = rank;
	config.id = &id;
	config.timeout_ms = timeout_ms;
	check(tutti_init(&config, &context), nullptr);
}

Job::~Job()
{
	PyThreadState *python = nullptr;

	if (_Py_IsFinalizing())
		abandon();
	/* Completers call functions of Python when futures end. */
	if (life_->ours() && PyGILState_Check())
		python = PyEval_SaveThread();
	finish();
	if (python)
		PyEval_RestoreThread(python);
}

void Job::dispose(Job *job)
{
	if (Completer::inside())
		std::thread([job] { delete job; }).detach(); /* it waits for this thread */
	else
		delete job;
}

void Job::abandon()
{
	if (!life_->ours())
		return;
	std::lock_guard<std::mutex> lock(lock_);
	life_->ended = true;
}

void Job::finish()
{
	if (!life_->ours())
		return;
	{
		std::lock_guard<std::mutex> lock(lock_);
		finishing_ = true;
	}
	for (Completer *completer : completers())
		completer->stop();
	{
		std::lock_guard<std::mutex> lock(lock_);
		life_->ended = true;
	}
	for (Completer *completer : completers()) {
		completer->stop(); /* an operation may have come in the meantime */
		delete completer;
	}
	tutti_finalize(context);
}

std::vector<Completer *> Job::completers()
{
	std::lock_guard<std::mutex> lock(lock_);
	std::vector<Completer *> all;

	if (messages_)
		all.push_back(messages_);
	for (const auto &of_comm : collectives_)
		all.push_back(of_comm.second);
	return all;
}

void Job::complete(const std::shared_ptr<Operation> &operation)
{
	if (getpid() != life_->process)
		return; /* the lock may be another thread's, of the parent */
	std::lock_guard<std::mutex> lock(lock_);
	if (life_->ended)
		return;
	Completer *&found = operation->message ? messages_ : collectives_[operation->comm.get()];
	if (!found)
		found = new Completer(operation->message);
	found->add(operation);
}

void Job::forget(struct tutti_comm *comm)
{
	Completer *completer;

	{
		std::lock_guard<std::mutex> lock(lock_);
		auto found = collectives_.find(comm);
		if (finishing_ || found == collectives_.end())
			return;
		completer = found->second;
		collectives_.erase(found);
	}
	Completer::dispose(completer);
}

/* ---- what PyTorch sees ---- */

TuttiWork::~TuttiWork()
{
	/* Tensors must live until the operation has ended. */
	if (!operation_->done)
		job_->complete(operation_);
}

bool TuttiWork::isCompleted()
{
	return operation_->test();
}

bool TuttiWork::isSuccess() const
{
	return operation_->done && !operation_->error;
}

std::exception_ptr TuttiWork::exception() const
{
	return operation_->done ? operation_->error : nullptr;
}

int TuttiWork::sourceRank() const
{
	if (!operation_->done)
		throw std::runtime_error("tutti: the source of a receive that has not ended is "
					 "unknown; wait for it first");
	return operation_->status.source;
}

std::vector<at::Tensor> TuttiWork::result()
{
	return operation_->outputs;
}

bool TuttiWork::wait(std::chrono::milliseconds timeout)
{
	std::string why;

	if (!operation_->wait(timeout.count(), &why))
		throw std::runtime_error(!why.empty() ? why :
					 "tutti: the operation has not ended in " +
					 std::to_string(timeout.count()) +
					 " ms; another thread still waits for it");
	if (operation_->error)
		std::rethrow_exception(operation_->error);
	return true;
}

void TuttiWork::abort()
{
	throw std::runtime_error("tutti: an operation cannot be aborted alone; wait with a timeout");
}

c10::intrusive_ptr<c10::ivalue::Future> TuttiWork::getFuture()
{
	c10::intrusive_ptr<c10::ivalue::Future> wanted = operation_->future();

	if (!operation_->done)
		job_->complete(operation_);
	return wanted;
}

} // namespace tutti_torch
