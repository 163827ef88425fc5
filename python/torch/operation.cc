/* SPDX-License-Identifier: BSD-3-Clause */
#include <Python.h>

#include "operation.hh"

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

Operation::~Operation()
{
	/* Only one that never started: work that is dropped goes to a completer. */
	if (request)
		tutti_request_free(request);
}

bool Operation::advance(bool wait)
{
	std::unique_lock<std::mutex> lock(running_, std::defer_lock);
	int code, ended = 1;

	if (done)
		return true;
	if (wait)
		lock.lock();
	else if (!lock.try_lock())
		return false;
	if (done)
		return true;
	code = wait ? tutti_wait(&request) : tutti_test(&request, &ended);
	if (code >= 0 && !ended)
		return false;
	end(code);
	return true;
}

void Operation::end(int code)
{
	if (code < 0)
		error = std::make_exception_ptr(std::runtime_error(error_text(code, comm.get())));
	try {
		if (!error && after)
			after();
	} catch (...) {
		error = std::current_exception();
	}
	after = nullptr;
	if (request) /* a receive that has matched, and whose deadline has passed */
		tutti_request_free(request);
	request = nullptr;
	done = true;
	complete_future();
}

void Operation::complete_future()
{
	c10::intrusive_ptr<c10::ivalue::Future> wanted;

	{
		std::lock_guard<std::mutex> lock(future_lock_);
		wanted = future_;
	}
	if (!wanted || wanted->completed())
		return;
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

void Completer::add(std::shared_ptr<Operation> operation)
{
	std::lock_guard<std::mutex> lock(lock_);

	queue_.push_back(std::move(operation));
	if (!thread_.joinable())
		thread_ = std::thread([this] { run(); });
	wake_.notify_one();
}

void Completer::stop()
{
	{
		std::lock_guard<std::mutex> lock(lock_);
		stopping_ = true;
		wake_.notify_one();
	}
	if (thread_.joinable())
		thread_.join();
}

/* False if none of mine has ended. */
bool Completer::step(std::deque<std::shared_ptr<Operation>> &mine)
{
	bool some = false;

	if (!poll_) {
		mine.front()->advance(true);
		mine.pop_front();
		return true;
	}
	for (size_t i = 0; i < mine.size();) {
		if (mine[i]->advance(false)) {
			mine.erase(mine.begin() + (ptrdiff_t)i);
			some = true;
		} else {
			i++;
		}
	}
	return some;
}

void Completer::run()
{
	std::deque<std::shared_ptr<Operation>> mine;

	for (;;) {
		{
			std::unique_lock<std::mutex> lock(lock_);
			wake_.wait(lock, [&] {
				return !mine.empty() || !queue_.empty() || stopping_;
			});
			mine.insert(mine.end(), queue_.begin(), queue_.end());
			queue_.clear();
			if (mine.empty())
				return;
		}
		if (!step(mine))
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
	if (ours() && PyGILState_Check())
		python = PyEval_SaveThread();
	finish();
	if (python)
		PyEval_RestoreThread(python);
}

bool Job::ours() const
{
	return getpid() == process_ && !ended_;
}

void Job::abandon()
{
	if (!ours())
		return;
	ended_ = true;
}

void Job::finish()
{
	if (!ours())
		return;
	for (Completer *completer : completers())
		completer->stop();
	ended_ = true;
	for (Completer *completer : completers()) {
		completer->stop(); /* an operation may have come in the meantime */
		delete completer;
	}
	tutti_finalize(context);
}

std::vector<Completer *> Job::completers()
{
	std::lock_guard<std::mutex> lock(lock_);
	std::vector<Completer *> all = {messages_};

	for (const auto &of_comm : collectives_)
		all.push_back(of_comm.second);
	return all;
}

Completer *Job::completer_of(struct tutti_comm *comm)
{
	std::lock_guard<std::mutex> lock(lock_);
	Completer *&found = collectives_[comm];

	if (!found)
		found = new Completer(false);
	return found;
}

void Job::complete(const std::shared_ptr<Operation> &operation)
{
	if (!ours())
		return;
	(operation->message ? messages_ : completer_of(operation->comm.get()))->add(operation);
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
	return operation_->advance(false);
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
	return operation_->status.source;
}

std::vector<at::Tensor> TuttiWork::result()
{
	return operation_->outputs;
}

bool TuttiWork::wait(std::chrono::milliseconds timeout)
{
	if (timeout.count() > 0 && !operation_->done && operation_->request)
		tutti_request_set_timeout(operation_->request, (int)timeout.count());
	operation_->advance(true);
	if (operation_->error)
		std::rethrow_exception(operation_->error);
	return true;
}

c10::intrusive_ptr<c10::ivalue::Future> TuttiWork::getFuture()
{
	c10::intrusive_ptr<c10::ivalue::Future> wanted = operation_->future();

	if (!operation_->done)
		job_->complete(operation_);
	return wanted;
}

} // namespace tutti_torch
