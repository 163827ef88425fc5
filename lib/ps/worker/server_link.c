/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker's end of its connection to a server: messages out, answers and the clock in. */
#include <errno.h>
#include <string.h>

#include "lib/ps/ps.h"
#include "lib/rules/rule.h"
#include "lib/reduce/xxh.h"

void tt_ps_pump(struct tutti_ps *ps)
{
	struct tt_ps_task *task;
	struct tt_list *first;

	if (ps->pumping)
		return;
	ps->pumping = true;
	do {
		first = ps->queue.next;
		if (first == &ps->queue)
			break;
		task = tt_container(first, struct tt_ps_task, queue);
		task->ops->advance(task);
	} while (ps->queue.next != first); /* else it has more to send, later */
	ps->pumping = false;
}

static bool in_use(const struct tt_ps_out *out)
{
	return out->busy || out->puts;
}

/* Messages under way cannot be overtaken, so they are few once tables have priorities. */
static bool is_full(const struct tt_ps_link *link)
{
	size_t bytes = 0;
	int j;

	for (j = 0; j < TT_PS_SLOTS && link->ps->window; j++)
		if (in_use(&link->out[j]))
			bytes += ((const struct tt_ps_msg *)(void *)link->out[j].staging)->len;
	return link->ps->window && bytes >= link->ps->window;
}

struct tt_ps_out *tt_ps_out_get(struct tt_ps_link *link)
{
	struct tt_ps_out *out = &link->out[link->sent % TT_PS_SLOTS];

	return in_use(out) || link->lost || is_full(link) ? NULL : out;
}

int tt_ps_link_failed(struct tt_ps_task *task, struct tt_ps_link *link, int status)
{
	struct tutti_ps *ps = link->ps;

	if (!link->lost && tt_ps_living(ps, link->index, link->copy + 1) < 0)
		return status;
	if (!link->lost &&
	    task) /* the control tree reports the rank's failure, or this suspicion does */
		tt_request_broken(&task->r, ps->comm->world[link->rank], status);
	return 0;
}

static void put_over(struct tt_win_end *end, int status)
{
	struct tt_ps_out *out = tt_container(end, struct tt_ps_out, end);
	struct tt_ps_task *task = out->owner;
	struct tt_ps_link *link = out->link;

	out->puts--;
	if (!out->puts)
		out->owner = NULL;
	if (task && task->cancelled)
		return;
	if (status)
		status = tt_ps_link_failed(task, link, status);
	if (task) {
		task->puts--;
		task->r.progressed = true;
		if (status)
			tt_ps_task_broken(task, link->rank, status);
		else if (task->sent)
			task->ops->advance(task);
	}
	if (link->lost)
		tt_ps_link_step(link);
	tt_ps_pump(link->ps);
}

static void put(struct tt_ps_out *out, const void *from, size_t len, size_t at, int which)
{
	struct tt_ps_link *link = out->link;
	struct tutti_ps *ps = link->ps;
	int slot = (int)(out->number % TT_PS_SLOTS), err;
	uint32_t token = ps->in_token[link->rank] +
			 (uint32_t)tt_ps_bell_in(ps, link->copy, ps->my_worker, slot, which);
	struct tt_win_access a = {.rank = link->rank,
				  .local = (void *)from,
				  .len = len,
				  .offset = tt_ps_box_in(ps, link->copy, ps->my_worker, slot) + at,
				  .note = true,
				  .token = &token,
				  .away = true,
				  .loose = true}; /* the server's answer confirms arrival */

	err = tt_win_op_start(ps->win, &a, &out->end);
	if (err)
		put_over(&out->end, err);
}

/* Starts the puts of a message, also when it is sent again to the next replica. */
static void transmit(struct tt_ps_out *out, struct tt_ps_task *owner)
{
	const struct tt_ps_msg *msg = (const struct tt_ps_msg *)(void *)out->staging;
	const void *payload = out->payload;

	out->owner = owner;
	out->end.over = put_over;
	out->puts = payload ? 2 : 1;
	if (owner)
		owner->puts += out->puts;
	if (payload)
		put(out, payload, msg->len, sizeof(*msg), 1);
	put(out, out->staging, sizeof(*msg) + (payload ? 0 : msg->len), 0, 0);
}

uint64_t tt_ps_msg_sum(const struct tt_ps_msg *msg, const void *payload)
{
	struct tt_ps_msg head = *msg;

	head.order = head.sum = 0;
	return tt_reduce_xxh(payload, msg->len, tt_reduce_xxh(&head, sizeof(head), 0));
}

void tt_ps_send(struct tt_ps_task *task, struct tt_ps_out *out, struct tt_ps_msg msg,
		const void *payload, bool answer)
{
	struct tt_ps_link *link = out->link;

	if (payload && msg.len <= TT_PS_INLINE) {
		memcpy(out->staging + sizeof(msg), payload, msg.len);
		tt_wire_stats(link->ps->comm->ctx->wire)->copied_bytes += msg.len;
		payload = NULL;
	}
	msg.number = link->sent++;
	msg.clock = task->clock;
	msg.behind = !payload;
	if (link->ps->verify)
		msg.sum = tt_ps_msg_sum(&msg, payload ? payload : out->staging + sizeof(msg));
	memcpy(out->staging, &msg, sizeof(msg));
	out->number = msg.number;
	out->payload = payload;
	out->busy = true;
	answer = answer ||
		 link->ps->copies > 1; /* until then the message may have to be sent again */
	out->task = answer ? task : NULL;
	task->answers += answer;
	transmit(out, task);
}

/* The server fails because a rank is stopped, and its report may not get past that one. */
static void fail_with(const struct tt_ps_link *link, uint64_t failed)
{
	struct tutti_comm *comm = link->ps->comm;
	int server = comm->world[link->rank], rank = (int)failed - 1;
	const struct tt_boot *boot = comm->ctx->boot;

	if (failed <= (uint64_t)comm->ctx->boot_params.nranks)
		tt_comm_fail(comm, -ETIMEDOUT, rank, "ps_close", 0, "",
			     "server %d (rank %d on host %s) reports: tutti_ps_close did not "
			     "finish; rank %d on host %s does not answer: it may be stopped",
			     link->index, server, tt_boot_host(boot, server), rank,
			     tt_boot_host(boot, rank));
}

static void read_note(struct tt_ps_link *link)
{
	struct tutti_ps *ps = link->ps;
	const struct tt_ps_note *note;

	note = (const struct tt_ps_note *)(void *)(ps->box + ps->box_back +
						   tt_ps_box_credit(ps, link->index, link->copy,
								    TT_PS_SLOTS));
	link->ready = true;
	link->said++;
	if (note->min_clock > link->min_clock)
		link->min_clock = note->min_clock;
	if (note->dropped > link->dropped)
		link->dropped = note->dropped;
	link->ended = link->ended || note->ended;
	link->slowest = note->slowest <= (uint64_t)ps->nworkers ? note->slowest : 0;
	link->missing = note->missing <= (uint64_t)ps->nworkers ? note->missing : 0;
	if (note->failed)
		fail_with(link, note->failed);
}

void tt_ps_link_step(struct tt_ps_link *link)
{
	struct tutti_ps *ps = link->ps;
	int next = tt_ps_living(ps, link->index, link->copy), j;
	uint64_t n;

	if (next == link->copy || next < 0)
		return;
	link->lost = true;
	link->ready = false;
	for (j = 0; j < TT_PS_SLOTS; j++)
		if (link->out[j].puts)
			return; /* put_over of the last put calls this again */
	link->copy = next;
	link->rank = ps->server[tt_ps_host(ps, link->index, next)];
	link->lost = false;
	link->said++;
	tt_ps_cache_moved(ps, link->index);
	if (link->note[next].rung)
		read_note(link);
	for (n = link->sent < TT_PS_SLOTS ? 0 : link->sent - TT_PS_SLOTS; n < link->sent; n++)
		if (link->out[n % TT_PS_SLOTS].busy)
			transmit(&link->out[n % TT_PS_SLOTS], link->out[n % TT_PS_SLOTS].task);
	tt_ps_pump(ps);
}

_Atomic uint64_t *tt_ps_hint(const struct tutti_ps_table *t, int server, uint64_t block)
{
	size_t at = t->hints + (size_t)t->ps->link[server].copy * t->dirs + t->part[server].hint;

	return (_Atomic uint64_t *)(void *)(t->mem + at + tt_ps_dir_at(block));
}

void tt_ps_floor(struct tutti_ps_table *t, int server, uint64_t block, uint64_t sequence)
{
	if (t->track[server].floor[block] < sequence)
		t->track[server].floor[block] = sequence;
}

/* The server has a push; the publication of this number will contain it. */
static void pushed(struct tt_ps_out *out, const struct tt_ps_msg *msg, uint64_t sequence,
		   uint64_t tau)
{
	const uint32_t *place = (const uint32_t *)(const void *)(out->staging + sizeof(*msg));
	struct tutti_ps_table *t;
	struct tt_ps_track *track;
	uint64_t block;
	uint32_t i;

	if (msg->kind >= TT_PS_LOOKUP)
		return;
	t = out->link->ps->table[msg->table];
	track = &t->track[out->link->index];
	if (msg->kind != TT_PS_PUSH_SAME) { /* which is applied with a tau of 0, or not at all */
		t->taus += tau;
		t->answered += t->rows ? msg->count : 1;
	}
	if (t->rows) {
		for (i = 0; i < msg->count; i++) {
			block = (uint64_t)place[i] * t->width / t->block_elems;
			track->pending[block]--;
			tt_ps_floor(t, out->link->index, block, sequence);
			tt_ps_cache_own(t, out->link->index, block, sequence);
		}
	} else {
		block = msg->first / t->block_elems;
		track->pending[block]--;
		tt_ps_floor(t, out->link->index, block, sequence);
		tt_ps_cache_own(t, out->link->index, block, sequence);
	}
}

/* The answer came over the network: it must have as many blocks as were subscribed to, or none. */
static void subscribed(struct tt_ps_out *out, const struct tt_ps_msg *msg,
		       const struct tt_ps_credit *credit)
{
	const uint32_t *block = (const uint32_t *)(const void *)(out->staging + sizeof(*msg));

	tt_ps_cache_told(out->link->ps->table[msg->table], out->link, block, msg->count,
			 (const uint32_t *)(const void *)(credit + 1),
			 credit->len == msg->count * sizeof(*block));
}

int tt_ps_refusal(struct tutti_ps *ps)
{
	int status = ps->status, rank = ps->refuser;

	ps->status = 0;
	if (!status)
		return 0;
	return tt_fail_rank(status, rank, rank < 0 ? NULL : tt_boot_host(ps->comm->ctx->boot, rank),
			    "%s", ps->why);
}

/* A push that came before its turn, which the server could not put aside. */
static void say_not_held(const struct tt_ps_msg *msg, uint64_t room, char *buf, size_t size)
{
	snprintf(buf, size,
		 "it has no memory to keep the push until its turn (the push needs %u bytes, %llu "
		 "are left); use more servers, or raise its limit",
		 msg->len, (unsigned long long)room);
}

/* The rows of one server, with the states of the rule. */
static void say_no_memory(const struct tutti_ps_table *t, int server, uint64_t room, char *buf,
			  size_t size)
{
	uint64_t rows = t->part[server].elems / t->width;
	uint64_t row = t->width * (t->elem + (uint64_t)tt_rule_states(t->opt.rule) *
						     tt_ps_state_size(t->datatype));

	snprintf(
		buf, size,
		"it has no memory for more rows (its %llu rows of %llu bytes need %llu bytes, %llu "
		"are left); use more servers, or raise its limit",
		(unsigned long long)rows, (unsigned long long)row, (unsigned long long)(rows * row),
		(unsigned long long)room);
}

static void say_refused(const struct tt_ps_out *out, const struct tt_ps_msg *msg, int status,
			uint64_t room, char *buf, size_t size)
{
	const struct tutti_ps *ps = out->link->ps;
	const struct tutti_ps_table *t = msg->kind <= TT_PS_LOOKUP ? ps->table[msg->table] : NULL;
	int n, rank = ps->comm->world[out->link->rank];

	if (t)
		n = snprintf(buf, size, "rank %d refused %s table '%s': ", rank,
			     msg->kind == TT_PS_LOOKUP ? "new rows of" : "what was pushed to",
			     t->name);
	else
		n = snprintf(buf, size, "rank %d refused %s: ", rank,
			     msg->kind <= TT_PS_BYE ? "a push made earlier"
			     : out->task	    ? out->task->call
						    : "an earlier call");
	if (t && status == -ENOSPC)
		snprintf(buf + n, size - (size_t)n,
			 "it has room for %llu of the table's %llu rows, and has them all; make "
			 "the table "
			 "with more (tutti_ps_rows)",
			 (unsigned long long)(t->part[out->link->index].elems / t->width),
			 (unsigned long long)t->count);
	else if (status == -ENOMEM && msg->kind >= TT_PS_PUSH && msg->kind < TT_PS_LOOKUP)
		say_not_held(msg, room, buf + n, size - (size_t)n);
	else if (t && status == -ENOMEM)
		say_no_memory(t, out->link->index, room, buf + n, size - (size_t)n);
	else
		snprintf(buf + n, size - (size_t)n, "%s",
			 status == -ENODATA ? "it has no values yet (tutti_ps_set)"
			 : status == -EPROTO && msg->kind == TT_PS_PUSH_CODED
				 ? "it is not an encoding of the table's codec, or was damaged"
			 : t && status == -ENOTSUP
				 ? "this new server does not know the table's function: make the "
				   "table again (tutti_ps_dense)"
				 : tutti_strerror(status));
}

static void refused(struct tt_ps_out *out, const struct tt_ps_msg *msg, int status, uint64_t room)
{
	struct tutti_ps *ps = out->link->ps;
	int rank = ps->comm->world[out->link->rank];
	char text[sizeof(ps->why)];

	say_refused(out, msg, status, room, text, sizeof(text));
	if (out->task && !out->task->status)
		out->task->rank = rank;
	if (out->task) {
		tt_ps_task_fail(out->task, status, "%s", text);
	} else if (!ps->status) {
		ps->status = status;
		ps->refuser = rank;
		memcpy(ps->why, text, sizeof(text));
	}
}

void tt_ps_credit_ring(struct tt_bell *bell)
{
	struct tt_ps_back_bell *b = tt_container(bell, struct tt_ps_back_bell, bell);
	struct tt_ps_out *out = b->out;
	struct tutti_ps *ps = b->link->ps;
	struct tt_ps_task *task = out->task;
	const struct tt_ps_credit *credit;
	struct tt_ps_msg msg;

	credit = (const struct tt_ps_credit *)(void *)(ps->box + ps->box_back +
						       tt_ps_box_credit(
							       ps, b->link->index, b->copy,
							       (int)(out->number % TT_PS_SLOTS)));
	if (b->copy != b->link->copy || !out->busy || credit->number != out->number)
		return;
	b->link->said++;
	memcpy(&msg, out->staging, sizeof(msg));
	if (credit->dropped > b->link->dropped)
		b->link->dropped = credit->dropped;
	if (msg.kind == TT_PS_MEET)
		b->link->missing = 0; /* all have come */
	pushed(out, &msg, credit->sequence, credit->tau);
	if (credit->status)
		refused(out, &msg, (int)credit->status, credit->room);
	else if (msg.kind == TT_PS_SUBSCRIBE)
		subscribed(out, &msg, credit);
	out->busy = false;
	out->task = NULL;
	if (task) {
		task->answers--;
		task->r.progressed = true;
		if (task->ops->answered && !credit->status)
			task->ops->answered(task, out, credit, credit + 1);
		if (task->sent)
			task->ops->advance(task);
	}
	tt_ps_pump(ps);
}

void tt_ps_note_ring(struct tt_bell *bell)
{
	struct tt_ps_back_bell *b = tt_container(bell, struct tt_ps_back_bell, bell);

	b->rung = true;
	if (b->copy == b->link->copy)
		read_note(b->link);
	tt_ps_pump(b->link->ps); /* the first task may have waited for the clock */
}

bool tt_ps_servers_ended(const struct tutti_ps *ps)
{
	int k;

	for (k = 0; ps->link && k < ps->nservers; k++)
		if (!ps->link[k].ended)
			return false;
	return true;
}

uint64_t tt_ps_lowest_clock(const struct tutti_ps *ps)
{
	uint64_t min = UINT64_MAX;
	int k;

	for (k = 0; k < ps->nservers; k++)
		if (ps->link[k].min_clock < min)
			min = ps->link[k].min_clock;
	return min;
}
