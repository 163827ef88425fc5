/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The text of a wait that has reached its deadline says what the other rank is doing. The waiter
 * asks shortly before, over the control tree. The control thread of that rank answers, also while
 * its callers compute or hang. A collective asks late ranks, those that it needs, and those on the
 * way there: the first that does not answer is stopped or cut off. Answers name the ranks that the
 * answering one needs itself, which are asked next. So do waits that are no requests, as at the end
 * of a parameter server. Where all these ranks wait for each other, the program is wrong, and the
 * text has the calls of two of them.
 */
#include <stdio.h>
#include <string.h>

#include "lib/boot/control/control_tree.h"
#include "lib/engine/engine.h"
#include "lib/observe/dump.h"

#define FRESH (5 * TT_SEC) /* an older answer says nothing about now */
#define AGAIN (200 * TT_MS)
#define QUIET (400 * TT_MS) /* a live rank answers sooner, also beside load */

enum { ASK, ANSWER };

/* In TT_CTL_DOING. */
struct doing_msg {
	uint32_t what;
	char text[sizeof(((struct tt_doing *)0)->text)];
	int32_t awaits[TT_AWAITED]; /* -1: none */
};
_Static_assert(sizeof(struct doing_msg) == 216, "doc/WIRE.md");

static struct tt_doing *find(const struct tutti_context *ctx, int rank)
{
	unsigned i, n = ctx->ndoing < TT_DOING_MAX ? ctx->ndoing : TT_DOING_MAX;

	for (i = 0; i < n; i++)
		if (ctx->doing[i].rank == rank)
			return (struct tt_doing *)&ctx->doing[i];
	return NULL;
}

/* Whether it has answered the last question. */
static bool answered(const struct tt_doing *d)
{
	return d->told && d->told >= d->asked;
}

/* An earlier answer holds while a question is open. */
static bool known(const struct tt_doing *d)
{
	return d && d->told && tt_now_ns() - d->told <= FRESH;
}

void tt_doing_ask(struct tutti_context *ctx, int rank)
{
	struct doing_msg msg = {.what = ASK};
	struct tt_doing *d = find(ctx, rank);

	if (rank < 0 || rank == ctx->boot_params.rank || !ctx->boot)
		return;
	if (!d) {
		d = &ctx->doing[ctx->ndoing++ % TT_DOING_MAX];
		*d = (struct tt_doing){.rank = rank};
	}
	d->asked = tt_now_ns();
	tt_ctl_send(ctx->boot, rank, TT_CTL_DOING, &msg, sizeof(msg));
}

/* Whether to ask the rank of d, or one without a place: no question is lost that is still open. */
static bool may_ask(const struct tutti_context *ctx, const struct tt_doing *d)
{
	if (!d && ctx->ndoing < TT_DOING_MAX)
		return true;
	if (!d)
		d = &ctx->doing[ctx->ndoing % TT_DOING_MAX];
	return tt_now_ns() - d->asked > (answered(d) ? AGAIN : FRESH);
}

/*
 * Asks that rank, which a collective needs until its deadline, and those that pass messages to it
 * on, unless that was done a moment ago; then, until the deadline, the ranks that these need.
 */
static void ask_way(struct tutti_context *ctx, int rank, uint64_t deadline)
{
	int at = ctx->boot_params.rank;
	struct tt_doing *d;

	while (at != rank) {
		at = tt_tree_hop(at, rank);
		d = find(ctx, at);
		if (may_ask(ctx, d))
			tt_doing_ask(ctx, at);
		d = find(ctx, at);
		if (d && d->needed < deadline)
			d->needed = deadline;
	}
}

static int silent_on_way(const struct tutti_context *ctx, int rank)
{
	const struct tt_doing *d;
	int at = ctx->boot_params.rank;

	while (at != rank) {
		at = tt_tree_hop(at, rank);
		d = find(ctx, at);
		if (d && !answered(d) && tt_now_ns() - d->asked > QUIET &&
		    tt_now_ns() - d->asked <= FRESH && !tt_boot_gone(ctx->boot, at, NULL, 0))
			return at;
	}
	return -1;
}

int tt_doing_add_rank(int *ranks, int n, int max, int rank)
{
	int i;

	for (i = 0; i < n; i++)
		if (ranks[i] == rank)
			return n;
	if (rank >= 0 && n < max)
		ranks[n++] = rank;
	return n;
}

/*
 * The ranks that this rank's oldest collectives, calls of parameter servers, servers and agreements
 * wait for.
 */
static void find_awaited(struct tutti_context *ctx, int32_t *awaits)
{
	const struct tutti_request *r;
	struct tt_list *l, *tmp;
	int list, n = 0, i;

	for (i = 0; i < TT_AWAITED; i++)
		awaits[i] = -1;
	for (list = 0; list < TT_ACTIVE_LISTS; list++)
		tt_list_each(l, tmp, &ctx->comms)
		{
			struct tutti_comm *comm = tt_container(l, struct tutti_comm, link);

			if (tt_list_empty(&comm->active[list]) || n == TT_AWAITED)
				continue;
			r = tt_container(comm->active[list].next, struct tutti_request, link);
			if (r->ops->awaits)
				n += r->ops->awaits(r, awaits + n, TT_AWAITED - n);
		}
	tt_list_each(l, tmp, &ctx->comms)
	{
		const struct tutti_comm *comm = tt_container(l, struct tutti_comm, link);

		if (comm->awaits)
			n += comm->awaits(comm->lost_arg, awaits + n, TT_AWAITED - n);
		if (comm->vote && !tt_vote_over(comm))
			n += tt_vote_awaited(comm, awaits + n, TT_AWAITED - n);
	}
}

/* Writes the ranks that a rank waits for, as far as it has said; false: not known. */
static bool awaited_by(struct tutti_context *ctx, int rank, int32_t *awaits)
{
	const struct tt_doing *d = find(ctx, rank);

	if (rank == ctx->boot_params.rank)
		find_awaited(ctx, awaits);
	else if (known(d))
		memcpy(awaits, d->awaits, sizeof(d->awaits));
	return rank == ctx->boot_params.rank || known(d);
}

/* These n ranks, then those that they need, as far as is known. Returns how many there are. */
static int list_needed(struct tutti_context *ctx, const int *ranks, int n, int *need)
{
	int32_t awaits[TT_AWAITED];
	int i, k, have = 0;

	for (i = 0; i < n; i++)
		have = tt_doing_add_rank(need, have, TT_DOING_MAX, ranks[i]);
	for (i = 0; i < have; i++) {
		if (!awaited_by(ctx, need[i], awaits))
			continue;
		for (k = 0; k < TT_AWAITED; k++)
			have = tt_doing_add_rank(need, have, TT_DOING_MAX, awaits[k]);
	}
	return have;
}

/*
 * A rank that has had time to answer and has not: one of these n, of those that they need, or of
 * those on the way there; -1: none.
 */
static int find_silent(struct tutti_context *ctx, const int *ranks, int n)
{
	int need[TT_DOING_MAX], have = list_needed(ctx, ranks, n, need), i, silent = -1;

	for (i = 0; i < have && silent < 0; i++)
		silent = silent_on_way(ctx, need[i]);
	return silent;
}

const char *tt_doing_text(const struct tutti_context *ctx, int rank, char *buf, size_t size)
{
	const struct tt_doing *d = find(ctx, rank);

	buf[0] = 0;
	if (!d || tt_now_ns() - d->asked > FRESH)
		return buf;
	snprintf(buf, size, "; %s",
		 answered(d) ? d->text : "it does not answer when asked what it is doing");
	return buf;
}

/* "is in CALL of COMMUNICATOR for 1.2 s" */
static size_t say_request(const struct tutti_request *req, char *buf, size_t size)
{
	const struct tutti_context *ctx = req->comm->ctx;
	const struct tt_flight_rec *rec = &ctx->flight->rec[req->flight % TT_FLIGHT_RECORDS];
	struct tt_dump_clock clock = tt_dump_clock(ctx->flight);
	uint64_t now = tt_dump_real(&clock, tt_ticks()), start = now;
	char text[128], name[TT_COMM_NAME];
	int n;

	if (atomic_load(&rec->number) == req->flight)
		start = tt_dump_real(&clock, rec->start);
	n = snprintf(buf, size, "%s of %s for %.1f s", req->ops->text(req, text, sizeof(text)),
		     tt_comm_name(req->comm, name, sizeof(name)),
		     now > start ? (double)(now - start) / 1e9 : 0);
	return n < 0 ? 0 : (size_t)n < size ? (size_t)n : size - 1;
}

static void say_idle(const struct tutti_context *ctx, char *buf, size_t size)
{
	uint64_t last = atomic_load(&ctx->flight->head->last);
	struct tt_dump_clock clock = tt_dump_clock(ctx->flight);
	uint64_t now = tt_dump_real(&clock, tt_ticks()), end;
	struct tt_flight_rec rec;

	if (!last || !tt_flight_read(ctx->flight, last, &rec)) {
		snprintf(buf, size, "it has nothing under way");
		return;
	}
	end = tt_dump_real(&clock, rec.end);
	snprintf(buf, size, "it has nothing under way; its last call, %s, ended %.1f s ago",
		 tt_flight_name_of(ctx->flight, rec.call),
		 now > end ? (double)(now - end) / 1e9 : 0);
}

/* A call that waits without a request; returns the length, 0: there is none. */
static size_t say_inside(const struct tutti_context *ctx, char *buf, size_t size)
{
	const struct tt_list *l;
	char name[TT_COMM_NAME];

	for (l = ctx->comms.next; l != &ctx->comms; l = l->next) {
		const struct tutti_comm *comm = tt_container(l, struct tutti_comm, link);

		if (comm->inside)
			return (size_t)snprintf(buf, size, "it is in %s of %s", comm->inside,
						tt_comm_name(comm, name, sizeof(name)));
	}
	return 0;
}

/* Collectives before others: the caller waits inside the oldest one. */
static void say(struct tutti_context *ctx, char *buf, size_t size)
{
	struct tt_list *l, *tmp;
	size_t at = 0;
	int i;

	for (i = 0; i < TT_ACTIVE_LISTS; i++)
		tt_list_each(l, tmp, &ctx->comms)
		{
			struct tutti_comm *comm = tt_container(l, struct tutti_comm, link);

			if (tt_list_empty(&comm->active[i]) || at > size / 2)
				continue;
			at += (size_t)snprintf(buf + at, size - at, "%s",
					       at ? ", and in " : "it is in ");
			at += say_request(
				tt_container(comm->active[i].next, struct tutti_request, link),
				buf + at, size - at);
		}
	if (!at && !say_inside(ctx, buf, size))
		say_idle(ctx, buf, size);
}

static void take_answer(struct tutti_context *ctx, struct tt_doing *d, const struct doing_msg *msg)
{
	uint64_t needed = d->needed; /* ask_way can give d to another rank */
	uint64_t now = tt_now_ns();
	int i;

	d->told = now;
	memcpy(d->text, msg->text, sizeof(d->text));
	for (i = 0; i < TT_AWAITED; i++)
		d->awaits[i] = msg->awaits[i] < ctx->world->size ? msg->awaits[i] : -1;
	for (i = 0; now < needed && i < TT_AWAITED; i++)
		if (msg->awaits[i] >= 0 && msg->awaits[i] < ctx->world->size)
			ask_way(ctx, msg->awaits[i], needed);
}

void tt_doing_msg(void *arg, int from, const void *data, size_t len)
{
	struct tutti_context *ctx = arg;
	struct doing_msg msg;
	struct tt_doing *d;

	if (len != sizeof(msg))
		return;
	memcpy(&msg, data, sizeof(msg));
	msg.text[sizeof(msg.text) - 1] = 0;
	tt_ctx_lock(ctx);
	if (msg.what == ASK && ctx->boot && ctx->flight) {
		msg.what = ANSWER;
		memset(msg.text, 0, sizeof(msg.text));
		say(ctx, msg.text, sizeof(msg.text));
		find_awaited(ctx, msg.awaits);
		tt_ctl_send(ctx->boot, from, TT_CTL_DOING, &msg, sizeof(msg));
	} else if (msg.what == ANSWER && (d = find(ctx, from))) {
		take_answer(ctx, d, &msg);
	}
	tt_ctx_unlock(ctx);
}

/* Before a deadline: when questions begin, and when no answer would come in time. */
#define ASK_NS (5 * TT_SEC / 2)
#define ANSWER_NS (500 * TT_MS)

/* Whether the rank has said that it waits for others, and not only for the server on it. */
static bool waits_itself(struct tutti_context *ctx, int rank)
{
	int32_t awaits[TT_AWAITED];
	int k;

	if (!awaited_by(ctx, rank, awaits))
		return false;
	for (k = 0; k < TT_AWAITED; k++)
		if (awaits[k] >= 0 && awaits[k] != rank)
			return true;
	return false;
}

static void write_silent(const struct tutti_context *ctx, int rank, char *buf, size_t size)
{
	snprintf(buf, size, "; rank %d on host %s does not answer: it may be stopped", rank,
		 tt_boot_host(ctx->boot, rank));
}

/* ---- a wait that is no request ---- */

uint64_t tt_await_ask(struct tutti_context *ctx, const int *ranks, int n, uint64_t deadline)
{
	int need[TT_DOING_MAX], have, i;
	uint64_t now = tt_now_ns();

	if (now + ANSWER_NS >= deadline)
		return deadline;
	if (now + ASK_NS < deadline)
		return deadline - ASK_NS;
	have = list_needed(ctx, ranks, n, need);
	for (i = 0; i < have; i++)
		ask_way(ctx, need[i], deadline);
	return now + AGAIN < deadline ? now + AGAIN : deadline;
}

int tt_await_silent(struct tutti_context *ctx, const int *ranks, int n, char *buf, size_t size)
{
	int silent = find_silent(ctx, ranks, n);

	buf[0] = 0;
	if (silent >= 0)
		write_silent(ctx, silent, buf, size);
	return silent;
}

/* The call that the rank is in, to follow "it" or "which"; "": not known. */
static const char *what_it_does(struct tutti_context *ctx, int rank, char *buf, size_t size)
{
	const struct tt_doing *d = find(ctx, rank);

	buf[0] = 0;
	if (rank == ctx->boot_params.rank)
		say(ctx, buf, size);
	else if (known(d))
		snprintf(buf, size, "%s", d->text);
	return strncmp(buf, "it ", 3) ? "" : buf + 2;
}

/* This rank, and all that it needs, wait for each other. */
static void write_circle(struct tutti_context *ctx, int rank, char *buf, size_t size)
{
	char mine[sizeof(((struct tt_doing *)0)->text)], other[sizeof(mine)];
	int32_t awaits[TT_AWAITED];
	const char *what = what_it_does(ctx, rank, mine, sizeof(mine)), *then;
	int k = 0;

	if (!what[0] || !awaited_by(ctx, rank, awaits))
		return;
	while (k < TT_AWAITED && (awaits[k] < 0 || awaits[k] == rank))
		k++;
	if (k == TT_AWAITED)
		return;
	then = what_it_does(ctx, awaits[k], other, sizeof(other));
	snprintf(buf, size, "; it%s and waits for rank %d on host %s%s%s", what, awaits[k],
		 tt_boot_host(ctx->boot, awaits[k]), then[0] ? ", which" : "", then);
}

int tt_await_cause(struct tutti_context *ctx, const int *ranks, int n, char *buf, size_t size)
{
	int need[TT_DOING_MAX], have = list_needed(ctx, ranks, n, need), i;
	int silent = tt_await_silent(ctx, ranks, n, buf, size);
	int me = ctx->boot_params.rank;

	if (silent >= 0)
		return silent;
	for (i = 0; i < have; i++)
		if ((i < n || need[i] != me) && !waits_itself(ctx, need[i]))
			break;
	if (i == have && n)
		write_circle(ctx, ranks[0], buf, size);
	if (i == have)
		return n ? ranks[0] : -1;
	if (i >= n)
		snprintf(buf, size, "; it waits for rank %d on host %s", need[i],
			 tt_boot_host(ctx->boot, need[i]));
	return need[i];
}

/* ---- the asking collective ---- */

#define NEEDED (TT_LATE_MAX + TT_AWAITED)

/* How many ranks are known not to have made this call. */
static int late_ranks(const struct tutti_request *r, uint32_t init)
{
	const struct tutti_comm *comm = r->comm;

	return comm->late_seq == r->seq && comm->late_init == init ? comm->nlate : 0;
}

/* Late ranks, which may wait for others in an earlier call, and the ranks that r needs next. */
static int needed(const struct tutti_request *r, uint32_t init, int *ranks)
{
	int n = late_ranks(r, init), i;

	for (i = 0; i < n; i++)
		ranks[i] = r->comm->late[i];
	return n + r->ops->awaits(r, ranks + n, TT_AWAITED);
}

void tt_late_ask(const struct tutti_request *r, uint32_t init, uint64_t deadline)
{
	uint64_t left = deadline - tt_now_ns();
	int rank[NEEDED], n;

	if (left >= ASK_NS || left <= ANSWER_NS)
		return;
	n = needed(r, init, rank);
	while (n-- > 0)
		ask_way(r->comm->ctx, rank[n], deadline);
}

/* Ranks that are stopped or cut off say nothing, and no rank says that they are late. */
static int say_silent(const struct tutti_request *r, uint32_t init, char *buf, size_t size)
{
	struct tutti_context *ctx = r->comm->ctx;
	int rank[NEEDED], n = needed(r, init, rank);
	int silent = find_silent(ctx, rank, n);

	if (silent >= 0)
		write_silent(ctx, silent, buf, size);
	return silent;
}

/* A rank that waits for others itself is named last. It may be late only because of them. */
static int say_late(const struct tutti_request *r, uint32_t init, char *buf, size_t size)
{
	const struct tutti_comm *comm = r->comm;
	int i, waits, n = late_ranks(r, init), rank = -1;
	char why[224];

	for (waits = 0; waits < 2; waits++)
		for (i = 0; i < n; i++) {
			if (waits_itself(comm->ctx, comm->late[i]) != (bool)waits)
				continue;
			snprintf(buf + strlen(buf), size - strlen(buf), "%s rank %d on host %s%s",
				 rank < 0 ? "; it waits for" : ",", comm->late[i],
				 tt_boot_host(comm->ctx->boot, comm->late[i]),
				 tt_late_why_text(&comm->late_why[i], why, sizeof(why)));
			rank = rank < 0 ? comm->late[i] : rank;
		}
	return rank;
}

int tt_late_text(const struct tutti_request *r, uint32_t init, char *buf, size_t size)
{
	int late = say_late(r, init, buf, size);
	int silent = say_silent(r, init, buf + strlen(buf), size - strlen(buf));

	return silent < 0 ? late : silent;
}
