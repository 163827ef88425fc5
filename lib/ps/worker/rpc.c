/* SPDX-License-Identifier: BSD-3-Clause */
/* A remote call: one message to each server of a range, and the reply of each. */
#include <errno.h>
#include <string.h>

#include "lib/ps/ps.h"

struct asking {
	struct tt_ps_task task;
	struct tt_ps_ask ask;
};

static struct asking *asking_of(struct tt_ps_task *task)
{
	return tt_container(task, struct asking, task);
}

/* false: a server has no free slot. */
static bool send_all(struct tt_ps_task *task, struct tt_ps_ask *ask)
{
	struct tt_ps_msg msg = {.kind = ask->kind, .first = ask->first, .len = (uint32_t)ask->len};
	struct tt_ps_out *out;

	for (; ask->from < ask->to; ask->from++) {
		out = tt_ps_out_get(&task->ps->link[ask->from]);
		if (!out)
			return false;
		memcpy(out->staging + sizeof(msg),
		       (const char *)ask->payload + (size_t)ask->from * ask->step, ask->len);
		tt_ps_send(task, out, msg, NULL, true);
	}
	return true;
}

static void ask_answered(struct tt_ps_task *task, struct tt_ps_out *out,
			 const struct tt_ps_credit *credit, const void *data)
{
	struct tt_ps_reply *reply = &asking_of(task)->ask.reply[out->link->index];

	if (credit->len == sizeof(*reply))
		memcpy(reply, data, sizeof(*reply));
	else
		tt_ps_task_fail(task, -EPROTO, "rank %d sent a reply of %llu bytes",
				task->ps->comm->world[out->link->rank],
				(unsigned long long)credit->len);
}

static void ask_advance(struct tt_ps_task *task)
{
	if (!task->sent && !send_all(task, &asking_of(task)->ask))
		return;
	tt_ps_task_sent(task);
	if (!task->puts && !task->answers && !task->broken)
		tt_ps_task_end(task);
}

static const struct tt_ps_task_ops ask_ops = {.advance = ask_advance, .answered = ask_answered};

int tt_ps_ask(struct tutti_ps *ps, const struct tt_ps_ask *ask, struct tutti_request **request)
{
	struct tt_ps_task *task;
	int err = tt_ps_task_new(ps, NULL, ask->call, &ask_ops, sizeof(struct asking), 0, &task);

	if (err)
		return err;
	asking_of(task)->ask = *ask;
	return tt_ps_task_start(task, request);
}
