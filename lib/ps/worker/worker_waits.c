/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds what a worker's call waits for: for the text of its deadline, and for the questions before
 * it. An answer can be late because of the server, a rank with one of its replicas, or another
 * worker.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/ps/worker/pull.h"

enum wait_kind {
	FOR_CLOCK,	 /* of all workers, as the servers tell it */
	FOR_TURN,	 /* behind other calls of this worker */
	FOR_ROOM,	 /* to send more */
	FOR_ANSWER,	 /* to what it sent */
	FOR_ARRIVAL,	 /* of what it sent, at the server */
	FOR_PRIORITY,	 /* of other pulls */
	FOR_VALUES,	 /* that it reads */
	FOR_PUBLICATION, /* of the values that it has to read, or has set */
	FOR_NOTHING
};

struct wait {
	enum wait_kind kind;
	const struct tt_ps_task *task; /* that waits: for its turn, the one in front */
	const struct tt_ps_link *link; /* the server; NULL: none is known */
	uint64_t clock;		       /* FOR_CLOCK: the one that is waited for */
};

/* A server has not answered this task, or any task (NULL). */
static bool owes(const struct tt_ps_link *link, const struct tt_ps_task *task)
{
	int j;

	for (j = 0; j < TT_PS_SLOTS; j++)
		if (link->out[j].busy && (!task || link->out[j].task == task))
			return true;
	return !task && link->lost;
}

/* Puts of the task to this server are under way. */
static bool is_putting(const struct tt_ps_link *link, const struct tt_ps_task *task)
{
	int j;

	for (j = 0; j < TT_PS_SLOTS; j++)
		if (link->out[j].puts && link->out[j].owner == task)
			return true;
	return false;
}

/* Whether the wait w is for this server, perhaps among others. */
static bool concerns(const struct wait *w, const struct tt_ps_link *link)
{
	switch (w->kind) {
	case FOR_CLOCK:
		return link->min_clock < w->clock;
	case FOR_ROOM:
		return owes(link, NULL);
	case FOR_ANSWER:
		return owes(link, w->task);
	case FOR_ARRIVAL:
		return is_putting(link, w->task);
	default:
		return link == w->link;
	}
}

/* Of the servers that are waited for, the first that owes an answer, or else the first. */
static const struct tt_ps_link *find_server(const struct wait *w)
{
	const struct tutti_ps *ps = w->task->ps;
	const struct tt_ps_link *first = NULL;
	int k;

	for (k = 0; k < ps->nservers; k++) {
		if (!concerns(w, &ps->link[k]))
			continue;
		if (owes(&ps->link[k], NULL))
			return &ps->link[k];
		first = first ? first : &ps->link[k];
	}
	return first;
}

/* The server of which a read is under way, or whose publication a pull waits for; NULL: none. */
static const struct tt_ps_link *source(const struct tt_ps_pull *pull, bool under_way)
{
	const struct tt_ps_unit *u = pull->units->unit;
	int i;

	for (i = 0; i < pull->used; i++)
		if (under_way ? u[i].pending : u[i].state == TT_PS_READ_WAIT)
			return &pull->task.ps->link[u[i].server];
	return NULL;
}

/* The server that has not published first values of the table yet; NULL: none. */
static const struct tt_ps_link *unpublished(const struct tutti_ps_table *t)
{
	uint64_t b;
	int k;

	for (k = 0; k < t->ps->nservers; k++)
		for (b = 0; b < t->part[k].blocks; b++)
			if (atomic_load(tt_ps_hint(t, k, b)) >> 8 < t->track[k].floor[b])
				return &t->ps->link[k];
	return NULL;
}

static struct wait pull_wait(const struct tt_ps_pull *pull)
{
	struct wait w = {.kind = FOR_PUBLICATION, .task = &pull->task};

	if (pull->more && !pull->active) {
		w.kind = FOR_PRIORITY;
	} else if (source(pull, true)) {
		w.kind = FOR_VALUES;
		w.link = source(pull, true);
	} else {
		w.link = source(pull, false);
	}
	return w;
}

static uint64_t clock_needed(const struct tt_ps_task *task)
{
	const struct tt_ps_pull *pull = tt_ps_pull_of(task);
	const struct tutti_ps *ps = task->ps;

	if (pull)
		return pull->need;
	return ps->staleness > 0 ? ps->clock - (uint64_t)ps->staleness : ps->clock;
}

static struct wait find_wait(const struct tt_ps_task *task)
{
	const struct tt_ps_pull *pull = tt_ps_pull_of(task);
	struct wait w = {.kind = FOR_NOTHING, .task = task};

	if (pull && tt_ps_lowest_clock(task->ps) < pull->need)
		w.kind = FOR_CLOCK;
	else if (!task->sent && task->ps->queue.next != &task->queue)
		w.kind = FOR_TURN;
	else if (task->answers)
		w.kind = FOR_ANSWER;
	else if (!task->sent)
		w.kind = FOR_ROOM;
	else if (task->puts)
		w.kind = FOR_ARRIVAL;
	else if (!task->table)
		w.kind = FOR_CLOCK;
	else if (pull)
		return pull_wait(pull);
	else if ((w.link = unpublished(task->table)))
		w.kind = FOR_PUBLICATION;
	w.clock = w.kind == FOR_CLOCK ? clock_needed(task) : 0;
	if (!w.link)
		w.link = find_server(&w);
	return w;
}

/* A call that waits for its turn waits for what the call in front waits for. */
static struct wait behind(const struct tt_ps_task *task, bool *turn)
{
	struct wait w = find_wait(task);

	*turn = w.kind == FOR_TURN;
	return *turn ? find_wait(tt_container(task->ps->queue.next, struct tt_ps_task, queue)) : w;
}

/* ---- the ranks ---- */

static int world_rank(const struct tutti_ps *ps, int rank)
{
	return ps->comm->world[rank];
}

/* The worker that this server waits for, as it has told; -1: it has told none. */
static int worker_awaited(const struct wait *w)
{
	const struct tutti_ps *ps = w->task->ps;
	uint64_t worker = 0;

	if (w->link && w->kind == FOR_CLOCK)
		worker = w->link->slowest;
	else if (w->link && w->kind == FOR_ANSWER && !w->task->table)
		worker = w->link->missing;
	return (int)worker - 1 < ps->nworkers ? (int)worker - 1 : -1;
}

int tt_ps_task_awaits(const struct tt_ps_task *task, int *ranks, int max)
{
	const struct tutti_ps *ps = task->ps;
	int n = 0, k, copy, worker;
	struct wait w;
	bool turn;

	w = behind(task, &turn);
	worker = worker_awaited(&w);
	if (w.link)
		n = tt_doing_add_rank(ranks, n, max, world_rank(ps, w.link->rank));
	if (worker >= 0)
		n = tt_doing_add_rank(ranks, n, max, world_rank(ps, ps->worker[worker]));
	for (copy = 0; w.link && copy < ps->copies; copy++) /* that acknowledge what it is sent */
		if (!ps->lost[tt_ps_host(ps, w.link->index, copy)])
			n = tt_doing_add_rank(
				ranks, n, max,
				world_rank(ps, ps->server[tt_ps_host(ps, w.link->index, copy)]));
	for (k = 0; w.kind != FOR_NOTHING && k < ps->nservers; k++)
		if (concerns(&w, &ps->link[k]))
			n = tt_doing_add_rank(ranks, n, max, world_rank(ps, ps->link[k].rank));
	return n;
}

/* ---- the text ---- */

static int say_server(const struct tt_ps_link *link, char *buf, size_t size)
{
	const struct tutti_ps *ps = link->ps;
	int rank = world_rank(ps, link->rank);

	snprintf(buf, size, "server %d (rank %d on host %s)", link->index, rank,
		 tt_boot_host(ps->comm->ctx->boot, rank));
	return rank;
}

/* Writes which rank the clock waits for, as the servers tell it; returns that rank. */
static int say_clock(const struct wait *w, char *buf, size_t size)
{
	const struct tutti_ps *ps = w->task->ps;
	int worker = worker_awaited(w), rank;
	char server[140] = "";
	uint64_t at;

	if (!w->link)
		return -1;
	at = w->link->min_clock;
	rank = say_server(w->link, server, sizeof(server));
	if (owes(w->link, NULL)) {
		snprintf(buf, size, "%s told %llu last and has not answered this worker", server,
			 (unsigned long long)at);
		return rank;
	}
	if (worker < 0) { /* a server at work would have told which worker is the slowest */
		snprintf(buf, size, "the slowest is at %llu, as %s told last",
			 (unsigned long long)at, server);
		return rank;
	}
	rank = world_rank(ps, ps->worker[worker]);
	snprintf(buf, size, "the slowest is at %llu: worker %d, rank %d on host %s",
		 (unsigned long long)at, worker, rank, tt_boot_host(ps->comm->ctx->boot, rank));
	return rank;
}

/* Writes what the call waits for, and which server should provide it; returns its rank. */
static int say_link(const struct wait *w, const char *what, const char *why, char *buf, size_t size)
{
	char server[140] = "";
	int rank = w->link ? say_server(w->link, server, sizeof(server)) : -1;

	snprintf(buf, size, "%s%s%s", what, w->link ? why : "", server);
	return rank;
}

static int say_answer(const struct wait *w, char *buf, size_t size)
{
	const struct tutti_ps *ps = w->task->ps;
	int worker = worker_awaited(w), rank;

	if (worker < 0)
		return say_link(w, "an answer", " of ", buf, size);
	rank = world_rank(ps, ps->worker[worker]);
	snprintf(buf, size, "worker %d, rank %d on host %s, which has not made this call", worker,
		 rank, tt_boot_host(ps->comm->ctx->boot, rank));
	return rank;
}

/* As in "it waits for ..."; returns the rank, or -1. */
static int say_what(const struct wait *w, char *buf, size_t size)
{
	switch (w->kind) {
	case FOR_ROOM:
		return say_link(w, "room at a server", ", and has no answer of ", buf, size);
	case FOR_ANSWER:
		return say_answer(w, buf, size);
	case FOR_ARRIVAL:
		return say_link(w, "what it sent to arrive", " at ", buf, size);
	case FOR_VALUES:
		return say_link(w, "values", " of ", buf, size);
	default: /* FOR_PUBLICATION */
		return say_link(w, "a publication", " of ", buf, size);
	}
}

int tt_ps_task_waits(const struct tt_ps_task *task, char *buf, size_t size)
{
	const char *who = "it";
	int rank = -1, n = 0;
	char what[240] = "";
	struct wait w;
	bool turn;

	buf[0] = 0;
	w = behind(task, &turn);
	if (turn) {
		n = snprintf(buf, size,
			     "; it waits for its turn behind other calls of this worker");
		who = "the first of them";
	}
	if (n < 0 || (size_t)n >= size || w.kind == FOR_NOTHING)
		return -1;
	buf += n;
	size -= (size_t)n;
	if (w.kind == FOR_PRIORITY) {
		snprintf(buf, size, "; %s gives way to pulls of higher priority", who);
		return -1;
	}
	rank = w.kind == FOR_CLOCK ? say_clock(&w, what, sizeof(what))
				   : say_what(&w, what, sizeof(what));
	if (w.kind == FOR_CLOCK && !w.task->table)
		snprintf(buf, size, "; this worker is at clock %llu%s%s",
			 (unsigned long long)task->ps->clock, what[0] ? ", " : "", what);
	else if (w.kind == FOR_CLOCK)
		snprintf(buf, size, "; %s waits for clock %llu%s%s", who,
			 (unsigned long long)w.clock, what[0] ? ", and " : "", what);
	else
		snprintf(buf, size, "; %s waits for %s", who, what);
	return rank;
}

int tt_ps_fail_unanswered(const struct tutti_ps *ps, const char *text)
{
	struct tutti_context *ctx = ps->comm->ctx;
	char server[140] = "";
	int k, rank = -1;

	tt_wire_lock(ctx->wire);
	for (k = 0; k < ps->nservers && rank < 0; k++)
		if (owes(&ps->link[k], NULL))
			rank = say_server(&ps->link[k], server, sizeof(server));
	tt_wire_unlock(ctx->wire);
	return tt_fail_rank(-ETIMEDOUT, rank, rank < 0 ? NULL : tt_boot_host(ctx->boot, rank),
			    "%s%s%s", text, rank < 0 ? "" : "; there is no answer of ", server);
}
