/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker's calls, as requests. A worker's requests send in the order of its calls. So a clock
 * follows the earlier pushes at each server, and a pull knows which of its worker's pushes it must
 * see. Calls of a table of higher priority go before those of other tables, also when these have
 * sent a part, but not before an earlier clock.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "lib/engine/launch.h"
#include "lib/ps/ps.h"
#include "lib/ps/worker/pull.h"

#define LOOKS 8 /* progress steps before an ESSP pull reads its cache */

static struct tt_ps_task *task_of(const struct tutti_request *r)
{
	return tt_container(r, struct tt_ps_task, r);
}

static const char *task_call(const struct tutti_request *r)
{
	return task_of(r)->call;
}

/* Afterwards the buffers are not touched; late answers are ignored. */
static void task_cancel(struct tutti_request *r)
{
	struct tt_ps_task *task = task_of(r);
	struct tutti_ps *ps = task->ps;
	int k, j;

	task->cancelled = true;
	tt_list_del(&task->queue);
	tt_list_del(&task->stalled.link);
	tt_win_take_back(ps->win, -1);
	if (task->table)
		tt_win_take_back(task->table->win, -1);
	for (k = 0; k < ps->nservers; k++)
		for (j = 0; j < TT_PS_SLOTS; j++) {
			struct tt_ps_out *out = &ps->link[k].out[j];

			if (out->task == task)
				out->task = NULL;
			if (out->owner == task)
				out->owner = NULL;
		}
}

static void task_collected(struct tutti_request *r)
{
	struct tt_ps_task *task = task_of(r);

	if (task->seen && task->sent && !r->status)
		task->seen(task);
}

static void give_back(struct tt_ps_task *task)
{
	tt_request_release(task->ps->comm->ctx, &task->r, task->size);
}

static void task_free(struct tutti_request *r)
{
	struct tt_ps_task *task = task_of(r);

	task->ps->tasks--;
	if (task->ops->release)
		task->ops->release(task);
	give_back(task);
}

static const char *task_text(const struct tutti_request *r, char *buf, size_t size)
{
	const struct tt_ps_task *task = task_of(r);

	if (task->table)
		snprintf(buf, size, "%s of table '%s'", task->call, task->table->name);
	else
		snprintf(buf, size, "%s", task->call);
	return buf;
}

static int task_awaits(const struct tutti_request *r, int *ranks, int max)
{
	return tt_ps_task_awaits(task_of(r), ranks, max);
}

static void task_late(struct tutti_request *r)
{
	tt_late_ask(r, 0, r->deadline);
}

/* A rank that does not answer is the cause, if the call needs it. */
static int task_waits(const struct tutti_request *r, char *buf, size_t size)
{
	int rank = tt_ps_task_waits(task_of(r), buf, size), silent;
	size_t n = strlen(buf);

	silent = tt_late_text(r, 0, buf + n, size - n);
	return silent < 0 ? rank : silent;
}

/*
 * The task waits for other ranks only: all that it sent has arrived, and all that it reads is here.
 */
static bool only_waits(const struct tt_ps_task *task)
{
	const struct tt_ps_pull *pull = tt_ps_pull_of(task);
	int i;

	if (task->puts || task->answers || task->broken)
		return false;
	for (i = 0; pull && i < pull->used; i++)
		if (pull->units->unit[i].pending)
			return false;
	return pull || task->sent;
}

static bool task_expire(struct tutti_request *r)
{
	struct tt_ps_task *task = task_of(r);
	char text[128], waits[320] = "";

	if (!only_waits(task))
		return false;
	task->rank = task_waits(r, waits, sizeof(waits));
	tt_ps_task_fail(task, -ETIMEDOUT, "%s did not finish within %lld ms (TUTTI_TIMEOUT)%s",
			task_text(r, text, sizeof(text)),
			(long long)task->ps->comm->ctx->env.timeout.number, waits);
	tt_ps_task_end(task);
	return true;
}

static int task_explain(const struct tutti_request *r)
{
	const struct tt_ps_task *task = task_of(r);

	return tt_fail_rank(r->status, task->rank,
			    task->rank < 0 ? NULL : tt_boot_host(r->comm->ctx->boot, task->rank),
			    "%s", task->why);
}

static const struct tt_request_ops task_ops = {.list = TT_ACTIVE_OTHER,
					       .call = task_call,
					       .cancel = task_cancel,
					       .collected = task_collected,
					       .free = task_free,
					       .text = task_text,
					       .late = task_late,
					       .waits = task_waits,
					       .awaits = task_awaits,
					       .expire = task_expire,
					       .explain = task_explain};

static void task_again(struct tt_stalled *stalled)
{
	struct tt_ps_task *task = tt_container(stalled, struct tt_ps_task, stalled);

	tt_list_del(&stalled->link);
	task->ops->advance(task);
}

int tt_ps_check(const char *call, const struct tutti_ps *ps)
{
	if (ps && ps->magic == TT_PS_MAGIC)
		return 0;
	return tt_fail(-EINVAL, "%s: ps is %s", call,
		       ps ? "no parameter server, or has been closed" : "NULL");
}

int tt_ps_check_table(const char *call, const struct tutti_ps_table *t)
{
	if (t && t->magic == TT_PS_TABLE_MAGIC)
		return 0;
	return tt_fail(-EINVAL, "%s: table is %s", call,
		       t ? "no table, or its parameter server has been closed" : "NULL");
}

int tt_ps_check_role(const char *call, struct tutti_ps *ps)
{
	int err = tt_ps_check(call, ps);

	if (!err)
		err = tt_group_refuse(call);
	if (err)
		return err;
	return ps->my_worker < 0 ? tt_fail(-EPERM, "%s: this rank is no worker", call) : 0;
}

/*
 * A push that a server refused after its call returned is reported by the next call, which then
 * does nothing.
 */
int tt_ps_check_calls(struct tutti_ps *ps)
{
	int err;

	tt_wire_lock(ps->comm->ctx->wire);
	err = tt_ps_refusal(ps);
	if (!err)
		err = tt_comm_check(ps->comm);
	tt_wire_unlock(ps->comm->ctx->wire);
	return err;
}

int tt_ps_check_worker(const char *call, struct tutti_ps *ps)
{
	int err = tt_ps_check_role(call, ps);

	return err ? err : tt_ps_check_calls(ps);
}

int tt_ps_task_new(struct tutti_ps *ps, struct tutti_ps_table *table, const char *call,
		   const struct tt_ps_task_ops *ops, size_t size, size_t more,
		   struct tt_ps_task **out)
{
	struct tt_ps_task *task;

	tt_wire_lock(ps->comm->ctx->wire);
	task = tt_request_alloc(ps->comm->ctx, size, more);
	if (atomic_load(&ps->relaying) &&
	    !ps->helped) { /* without one, others read at the server */
		ps->helped = true;
		(void)tt_thread_start(ps->comm->ctx);
	}
	if (!task) {
		tt_wire_unlock(ps->comm->ctx->wire);
		return tt_fail(-ENOMEM, "no memory for %s", call);
	}
	task->size = size + more;
	task->ps = ps;
	task->table = table;
	task->call = call;
	task->ops = ops;
	task->rank = -1;
	task->clock = ps->clock;
	task->stalled.again = task_again;
	tt_list_init(&task->stalled.link);
	tt_list_init(&task->queue);
	*out = task;
	return 0;
}

void tt_ps_task_drop(struct tt_ps_task *task)
{
	struct tt_wire *wire = task->ps->comm->ctx->wire;

	give_back(task);
	tt_wire_unlock(wire);
}

/*
 * A pull from this rank's ESSP cache waits for no message. Progress first lets it find batches that
 * have arrived since the last call.
 */
static void look_first(const struct tt_ps_task *task)
{
	int i;

	if (!task->table || !task->table->cache || !tt_ps_pull_of(task))
		return;
	for (i = 0; i < LOOKS && tt_engine_progress(task->ps->comm->ctx); i++)
		;
}

/* It has ended well, and its end needs nothing done without the lock. */
static bool over(const struct tt_ps_task *task)
{
	return atomic_load(&task->r.state) == TT_REQ_DONE && !task->r.status && !task->seen;
}

/* It may wait for a clock before it has sent its messages. */
static bool waits_first(const struct tt_ps_task *task)
{
	return tt_ps_pull_of(task) && task->table->rows && tt_ps_rows_late(task->table);
}

/* Behind a call of no table, such as a clock, and behind those of its own priority. */
static void enqueue(struct tutti_ps *ps, struct tt_ps_task *task)
{
	struct tt_list *at = &ps->queue;

	while (ps->window && task->table && !waits_first(task) && at->prev != &ps->queue) {
		const struct tutti_ps_table *before =
			tt_container(at->prev, struct tt_ps_task, queue)->table;

		if (!before || before->opt.priority >= task->table->opt.priority)
			break;
		at = at->prev;
	}
	tt_list_add(at, &task->queue);
}

int tt_ps_task_start(struct tt_ps_task *task, struct tutti_request **request)
{
	struct tutti_ps *ps = task->ps;
	struct tt_wire *wire = ps->comm->ctx->wire;
	struct tutti_request *req = NULL;
	int err;

	look_first(task);
	tt_request_init(&task->r, &task_ops, ps->comm, false);
	ps->tasks++;
	err = tt_request_begin(&task->r);
	if (err) {
		tt_request_free(&task->r);
	} else {
		req = &task->r;
		enqueue(ps, task);
		tt_ps_pump(ps);
	}
	if (ps->read_away) { /* in shared memory, at once: a worker that does nothing else would not
				see what was sent */
		ps->read_away = false;
		tt_engine_progress(ps->comm->ctx);
	}
	tt_wire_leave(wire); /* other threads of this process see what was put to itself */
	if (req && request) {
		*request = req;
	} else if (req && over(task)) {
		tt_request_free(req);
		req = NULL;
	}
	tt_wire_unlock(wire);
	return err || request ? err : tutti_wait(&req);
}

void tt_ps_task_end(struct tt_ps_task *task)
{
	struct tutti_ps *ps = task->ps;

	tt_list_del(&task->queue);
	tt_list_del(&task->stalled.link);
	tt_request_end(&task->r, task->status);
	tt_ps_pump(ps); /* the next task may have waited for its end */
}

/* The pull after `at` among the requests of ps that has its turn behind it; NULL: none. */
static const struct tt_ps_pull *next_pull(const struct tutti_ps *ps, const struct tt_list **at)
{
	const struct tt_list *head = &ps->comm->active[TT_ACTIVE_OTHER];

	for (*at = (*at ? *at : head)->next; *at != head; *at = (*at)->next) {
		const struct tutti_request *r = tt_container(*at, struct tutti_request, link);

		if (r->ops == &task_ops && task_of(r)->sent && tt_ps_pull_of(task_of(r)))
			return tt_ps_pull_of(task_of(r));
	}
	return NULL;
}

bool tt_ps_pulling(const struct tutti_ps *ps)
{
	const struct tt_list *at = NULL;

	return next_pull(ps, &at);
}

/* It reads, also if what it has read is still to be looked at. */
static bool reads(const struct tt_ps_pull *pull)
{
	int i;

	for (i = 0; i < pull->used; i++)
		if (pull->units->unit[i].state > TT_PS_READ_WAIT)
			return true;
	return false;
}

bool tt_ps_reads_above(const struct tutti_ps *ps, int priority)
{
	const struct tt_list *at = NULL;
	const struct tt_ps_pull *pull;

	while ((pull = next_pull(ps, &at)))
		if (pull->task.table->opt.priority > priority && reads(pull))
			return true;
	return false;
}

void tt_ps_task_stall(struct tt_ps_task *task)
{
	if (tt_list_empty(&task->stalled.link))
		tt_list_add(&task->ps->comm->ctx->stalled, &task->stalled.link);
}

int tt_ps_task_fail(struct tt_ps_task *task, int status, const char *fmt, ...)
{
	va_list ap;

	if (task->status)
		return status;
	task->status = status;
	va_start(ap, fmt);
	vsnprintf(task->why, sizeof(task->why), fmt, ap);
	va_end(ap);
	return status;
}

void tt_ps_task_broken(struct tt_ps_task *task, int rank, int status)
{
	const struct tutti_comm *comm = task->ps->comm;
	char text[128];

	if (task->cancelled)
		return;
	task->broken = true;
	task->rank = comm->world[rank];
	tt_ps_task_fail(task, status, "%s: rank %d on host %s cannot be reached: %s",
			task_text(&task->r, text, sizeof(text)), task->rank,
			tt_boot_host(comm->ctx->boot, task->rank), tutti_strerror(status));
	tt_request_broken(&task->r, task->rank, status);
}
