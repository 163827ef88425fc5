/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Agreement among the live ranks of a communicator, over the control tree.
 *
 * The lowest live rank is the coordinator. It collects the ballot of every live rank (ASK, STATE),
 * combines them, and proposes the result (PROPOSE). Each rank keeps the proposal and acknowledges
 * it (ACK). When all live ranks have acknowledged, the proposal is decided (DECIDE).
 *
 * If the coordinator dies, the next rank takes over. STATE contains the proposal that its sender
 * keeps, and the new coordinator proposes it again. A decision therefore stands: all live ranks
 * kept it as a proposal before any rank learnt of the decision. Among several proposals that of the
 * highest coordinator counts, as it is the latest. Failed ranks are cut off, so two coordinators
 * never both find that all live ranks agree with them.
 *
 * Messages may be lost with a rank that dies: waiting ranks repeat them ten times a second. A rank
 * whose call is over answers from ctx->decided. A rank whose call was refused answers REFUSED,
 * which the coordinator passes on: the other ranks wait, and say why if that rank does not call
 * again.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/base/reserve.h"
#include "lib/comm/comm.h"

#define AGAIN (100 * TT_MS)
#define DECIDED_MAX 64

enum step { ASK = 1, STATE, PROPOSE, ACK, DECIDE, REFUSED };

/* Followed by a bit for each rank that is left out. */
struct vote_msg {
	uint64_t comm;
	uint32_t number, step;
	int32_t by;   /* rank that proposed; STATE: -1: none; REFUSED: rank whose call was */
	int32_t code; /* REFUSED: why */
	struct tt_ballot ballot; /* STATE: the sender's own */
	struct tt_ballot decision;
};
_Static_assert(sizeof(struct vote_msg) == 104, "doc/WIRE.md");
#define BITS_MAX (TT_CTL_MSG_MAX - sizeof(struct vote_msg))

struct tt_vote {
	struct tt_list link; /* decided ones: in ctx->decided; unused ones: in comm->spare_votes */
	uint64_t comm;
	uint32_t number;
	int size;
	uint64_t again_at;
	int by; /* the coordinator of the kept proposal; -1: none */
	bool decided;
	int refused, why; /* a rank whose call was refused, and the code; -1: none */
	struct tt_ballot mine, decision;
	unsigned char *left_out;      /* of the decision: a bit each, like the next two */
	unsigned char *state, *acked; /* as coordinator: the ranks that have answered */
	struct tt_ballot *ballot;     /* as coordinator: of each rank */
};

static size_t bits_of(int size)
{
	return ((size_t)size + 7) / 8;
}

static bool bit(const unsigned char *bits, int i)
{
	return bits[i / 8] >> (i % 8) & 1;
}

static void set_bit(unsigned char *bits, int i)
{
	bits[i / 8] |= (unsigned char)(1 << (i % 8));
}

static bool lives(const struct tutti_comm *comm, int i)
{
	return comm->world[i] == comm->ctx->boot_params.rank ||
	       !tt_boot_gone(comm->ctx->boot, comm->world[i], NULL, 0);
}

static int coordinator(const struct tutti_comm *comm)
{
	int i;

	for (i = 0; i < comm->size - 1; i++)
		if (lives(comm, i))
			break;
	return i;
}

static void free_vote(struct tt_vote *v)
{
	free(v->left_out);
	free(v->state);
	free(v->acked);
	free(v->ballot);
	free(v);
}

static struct tt_vote *new_vote(int size)
{
	struct tt_vote *v = calloc(1, sizeof(*v));

	if (!v)
		return NULL;
	tt_list_init(&v->link);
	v->size = size;
	v->by = v->refused = -1;
	v->left_out = calloc(1, bits_of(size));
	v->state = calloc(1, bits_of(size));
	v->acked = calloc(1, bits_of(size));
	v->ballot = calloc((size_t)size, sizeof(*v->ballot));
	if (v->left_out && v->state && v->acked && v->ballot)
		return v;
	free_vote(v);
	return NULL;
}

static void say(struct tutti_context *ctx, const struct tt_vote *v, enum step step, int world)
{
	unsigned char buf[TT_CTL_MSG_MAX];
	struct vote_msg msg = {.comm = v->comm,
			       .number = v->number,
			       .step = step,
			       .by = v->by,
			       .ballot = v->mine,
			       .decision = v->decision};

	memcpy(buf, &msg, sizeof(msg));
	memcpy(buf + sizeof(msg), v->left_out, bits_of(v->size));
	tt_ctl_send(ctx->boot, world, TT_CTL_AGREE, buf, sizeof(msg) + bits_of(v->size));
}

/* The call of rank `by` was refused, so it does not take part yet. */
static void say_refused(struct tutti_comm *comm, uint32_t number, int by, int code, int world)
{
	unsigned char buf[TT_CTL_MSG_MAX] = {0};
	struct vote_msg msg = {
		.comm = comm->uid, .number = number, .step = REFUSED, .by = by, .code = code};

	memcpy(buf, &msg, sizeof(msg));
	tt_ctl_send(comm->ctx->boot, world, TT_CTL_AGREE, buf, sizeof(msg) + bits_of(comm->size));
}

/* To every other live rank whose bit is not set in but. */
static void say_all(struct tutti_comm *comm, enum step step, const unsigned char *but)
{
	int i;

	for (i = 0; i < comm->size; i++)
		if (i != comm->rank && lives(comm, i) && !(but && bit(but, i)))
			say(comm->ctx, comm->vote, step, comm->world[i]);
}

static bool all_that_live(const struct tutti_comm *comm, const unsigned char *bits)
{
	int i;

	for (i = 0; i < comm->size; i++)
		if (!bit(bits, i) && lives(comm, i))
			return false;
	return true;
}

static uint64_t join(uint32_t kind, uint64_t a, uint64_t b)
{
	if (kind == TT_VOTE_LEAST)
		return a < b ? a : b;
	return a & b;
}

/* All ballots are in, and no rank keeps a proposal: make one. */
static void combine(struct tutti_comm *comm)
{
	struct tt_vote *v = comm->vote;
	struct tt_ballot d = {.all = ~0ull, .differs = -1, .kind = v->mine.kind};
	int i;

	memset(v->left_out, 0, bits_of(v->size));
	for (i = 0; i < comm->size; i++) {
		if (!lives(comm, i)) {
			set_bit(v->left_out, i);
			d.failed++;
			continue;
		}
		d.all = join(d.kind, d.all, v->ballot[i].all);
		d.any |= v->ballot[i].any;
		d.next_id = v->ballot[i].next_id > d.next_id ? v->ballot[i].next_id : d.next_id;
		if (v->ballot[i].kind != d.kind && d.differs < 0)
			d.differs = i;
	}
	d.uid = tt_hash_add(tt_hash_add(tt_hash_add(comm->uid, 0x61677265ull), v->number),
			    (uint64_t)comm->rank);
	v->decision = d;
}

static void decide(struct tutti_comm *comm)
{
	comm->vote->decided = true;
	tt_wire_wake(comm->ctx->wire);
}

/* Takes the coordinator's next step if its condition holds. */
static void drive(struct tutti_comm *comm)
{
	struct tt_vote *v = comm->vote;

	if (v->decided || coordinator(comm) != comm->rank)
		return;
	if (v->by != comm->rank) {
		if (!all_that_live(comm, v->state))
			return;
		if (v->by < 0)
			combine(comm);
		v->by = comm->rank;
		set_bit(v->acked, comm->rank);
		say_all(comm, PROPOSE, NULL);
	}
	if (!all_that_live(comm, v->acked))
		return;
	say_all(comm, DECIDE, NULL);
	decide(comm);
}

/* Reports to the coordinator; as coordinator, asks. */
static void report(struct tutti_comm *comm)
{
	struct tt_vote *v = comm->vote;
	int to = coordinator(comm);

	v->again_at = tt_now_ns() + AGAIN;
	if (to != comm->rank)
		say(comm->ctx, v, STATE, comm->world[to]);
	else if (v->by == comm->rank)
		say_all(comm, PROPOSE, v->acked);
	else
		say_all(comm, ASK, v->state);
	drive(comm);
}

void tt_vote_refused(struct tutti_comm *comm, int code)
{
	tt_ctx_lacks(comm->ctx, code);
	tt_wire_lock(comm->ctx->wire);
	comm->refused_vote = comm->votes + 1;
	comm->refused_why = code;
	tt_wire_unlock(comm->ctx->wire);
}

bool tt_vote_fits(const struct tutti_comm *comm)
{
	return bits_of(comm->size) <= BITS_MAX;
}

int tt_vote_reserve(struct tutti_comm *comm, int n)
{
	struct tt_vote *v;

	for (; n > 0; n--) {
		v = new_vote(comm->size);
		if (!v)
			return tt_fail(-ENOMEM, "no memory for agreements with other ranks");
		tt_list_add(&comm->spare_votes, &v->link);
	}
	return 0;
}

static struct tt_vote *spare_vote(struct tutti_comm *comm)
{
	struct tt_vote *v;

	if (tt_list_empty(&comm->spare_votes))
		return NULL;
	v = tt_container(comm->spare_votes.next, struct tt_vote, link);
	tt_list_del(&v->link);
	return v;
}

/* The others wait for it. */
static struct tt_vote *needed_vote(struct tutti_comm *comm)
{
	struct tt_vote *v;

	tt_reserve_fill(comm->ctx->boot_params.nranks);
	tt_reserve_enter();
	v = new_vote(comm->size);
	tt_reserve_leave();
	return v ? v : spare_vote(comm);
}

int tt_vote_begin(struct tutti_comm *comm, const struct tt_ballot *mine)
{
	struct tt_vote *v;

	if (comm->vote && comm->vote->mine.kind == mine->kind) { /* again, after a timeout */
		report(comm);
		return 0;
	}
	if (comm->vote)
		return tt_fail(-EBUSY, "another agreement of the communicator has not ended; "
				       "repeat that call first");
	if (!tt_vote_fits(comm))
		return tt_fail(-EINVAL, "a communicator of %d ranks is too large to agree",
			       comm->size);
	v = needed_vote(comm);
	if (!v) {
		tt_fail(-ENOMEM, "no memory to agree with other ranks");
		tt_vote_refused(comm, -ENOMEM);
		return -ENOMEM;
	}
	v->comm = comm->uid;
	v->number = comm->votes + 1;
	v->mine = *mine;
	set_bit(v->state, comm->rank);
	v->ballot[comm->rank] = *mine;
	comm->vote = v;
	comm->ctx->voting++;
	report(comm);
	return 0;
}

bool tt_vote_over(const struct tutti_comm *comm)
{
	return comm->vote->decided;
}

bool tt_vote_collects(const struct tutti_comm *comm)
{
	return coordinator(comm) == comm->rank;
}

bool tt_vote_came(const struct tutti_comm *comm, int rank)
{
	return bit(comm->vote->state, rank);
}

void tt_vote_end(struct tutti_comm *comm, struct tt_ballot *decision, unsigned char *left_out)
{
	struct tutti_context *ctx = comm->ctx;
	struct tt_vote *v = comm->vote;

	*decision = v->decision;
	if (left_out)
		memcpy(left_out, v->left_out, bits_of(v->size));
	comm->vote = NULL;
	comm->votes++;
	ctx->voting--;
	tt_list_add(&ctx->decided, &v->link);
	if (++ctx->ndecided <= DECIDED_MAX)
		return;
	v = tt_container(ctx->decided.next, struct tt_vote, link);
	tt_list_del(&v->link);
	free_vote(v);
	ctx->ndecided--;
}

void tt_vote_forget(struct tutti_comm *comm)
{
	struct tt_vote *v;

	tt_vote_drop(comm);
	while ((v = spare_vote(comm)))
		free_vote(v);
}

void tt_vote_drop(struct tutti_comm *comm)
{
	if (!comm->vote)
		return;
	free_vote(comm->vote);
	comm->vote = NULL;
	comm->ctx->voting--;
}

/* To the coordinator: rank i has not answered. */
static bool is_missing(const struct tutti_comm *comm, int i)
{
	const struct tt_vote *v = comm->vote;

	return !bit(v->by == comm->rank ? v->acked : v->state, i) && lives(comm, i);
}

int tt_vote_awaited(const struct tutti_comm *comm, int *ranks, int max)
{
	int i, n = 0, to = coordinator(comm);

	if (to != comm->rank && max > 0)
		ranks[n++] = comm->world[to];
	for (i = 0; to == comm->rank && i < comm->size && n < max; i++)
		if (is_missing(comm, i))
			ranks[n++] = comm->world[i];
	return n;
}

int tt_vote_missing(const struct tutti_comm *comm, char *text, size_t size)
{
	const struct tt_vote *v = comm->vote;
	int i, to = coordinator(comm), first = v->refused;
	bool more = false;
	size_t len = 0;

	text[0] = 0;
	if (v->refused >= 0)
		len = (size_t)snprintf(text, size, "; the call of rank %d was refused: %s",
				       comm->world[v->refused], tutti_strerror(v->why));
	if (to != comm->rank && !len)
		snprintf(text, size,
			 "; rank %d, which collects, waits for others or has not come itself",
			 comm->world[to]);
	if (to != comm->rank)
		return first;
	for (i = 0; i < comm->size && len + 32 < size; i++)
		if (is_missing(comm, i)) {
			len += (size_t)snprintf(text + len, size - len, "%s %d",
						more ? "," : "; it waits for rank", comm->world[i]);
			more = true;
			first = first < 0 ? i : first;
		}
	return first;
}

/* ---- messages ---- */

/* A rank whose call was refused takes part now. The others learn this from the coordinator. */
static void came(struct tutti_comm *comm, int from)
{
	struct tt_vote *v = comm->vote;
	int i;

	if (v->refused != from)
		return;
	v->refused = -1;
	for (i = 0; coordinator(comm) == comm->rank && i < comm->size; i++)
		if (i != comm->rank && lives(comm, i))
			say_refused(comm, v->number, -1, 0, comm->world[i]);
}

static void take_state(struct tutti_comm *comm, int from, const struct vote_msg *msg,
		       const unsigned char *bits)
{
	struct tt_vote *v = comm->vote;

	set_bit(v->state, from);
	v->ballot[from] = msg->ballot;
	if (v->by != comm->rank && msg->by > v->by) {
		v->by = msg->by;
		v->decision = msg->decision;
		memcpy(v->left_out, bits, bits_of(v->size));
	}
	if (v->by == comm->rank && !bit(v->acked, from))
		say(comm->ctx, v, PROPOSE, comm->world[from]);
	if (v->refused >= 0)
		say_refused(comm, v->number, v->refused, v->why, comm->world[from]);
}

static void take_proposal(struct tutti_comm *comm, int from, const struct vote_msg *msg,
			  const unsigned char *bits)
{
	struct tt_vote *v = comm->vote;

	if (from < v->by)
		return;
	v->by = from;
	v->decision = msg->decision;
	memcpy(v->left_out, bits, bits_of(v->size));
	say(comm->ctx, v, ACK, comm->world[from]);
}

/* To a rank of the world that is still at `step`. */
static void tell_decided(struct tutti_context *ctx, const struct tt_vote *v, int world,
			 uint32_t step)
{
	if (step == ASK || step == STATE || step == PROPOSE)
		say(ctx, v, DECIDE, world);
}

static void take(struct tutti_comm *comm, int from, const struct vote_msg *msg,
		 const unsigned char *bits)
{
	struct tt_vote *v = comm->vote;

	if (v->decided) { /* the caller may have given up before, and not repeated its call */
		tell_decided(comm->ctx, v, comm->world[from], msg->step);
		return;
	}
	if (msg->step != REFUSED)
		came(comm, from);
	switch (msg->step) {
	case ASK:
		say(comm->ctx, v, STATE, comm->world[from]);
		break;
	case STATE:
		take_state(comm, from, msg, bits);
		break;
	case PROPOSE:
		take_proposal(comm, from, msg, bits);
		break;
	case ACK:
		if (v->by == comm->rank)
			set_bit(v->acked, from);
		break;
	case REFUSED:
		v->refused = msg->by;
		v->why = msg->code;
		return;
	case DECIDE:
		v->by = from;
		v->decision = msg->decision;
		memcpy(v->left_out, bits, bits_of(v->size));
		decide(comm);
		return;
	default:
		return;
	}
	drive(comm);
}

/* The sender may have missed the end of an earlier agreement. */
static void answer(struct tutti_context *ctx, int from, const struct vote_msg *msg)
{
	struct tt_list *l, *tmp;

	tt_list_each(l, tmp, &ctx->decided)
	{
		struct tt_vote *v = tt_container(l, struct tt_vote, link);

		if (v->comm != msg->comm || v->number != msg->number)
			continue;
		tell_decided(ctx, v, from, msg->step);
		return;
	}
}

void tt_vote_msg(void *arg, int from, const void *data, size_t len)
{
	struct tutti_context *ctx = arg;
	struct tutti_comm *comm;
	struct vote_msg msg;
	bool valid;
	int rank;

	if (len < sizeof(msg))
		return;
	memcpy(&msg, data, sizeof(msg));
	tt_ctx_lock(ctx);
	comm = ctx->boot && !tt_boot_gone(ctx->boot, from, NULL, 0) ? tt_comm_find(ctx, msg.comm)
								    : NULL;
	rank = comm ? tt_comm_rank_of(comm, from) : -1;
	valid = comm && rank >= 0 && rank != comm->rank && msg.by >= -1 && msg.by < comm->size &&
		len == sizeof(msg) + bits_of(comm->size);
	if (valid && comm->vote && comm->vote->number == msg.number)
		take(comm, rank, &msg, (const unsigned char *)data + sizeof(msg));
	else if (valid && !comm->vote && msg.number == comm->votes + 1 &&
		 comm->refused_vote == msg.number && msg.step != REFUSED)
		say_refused(comm, msg.number, comm->rank, comm->refused_why, from);
	else if (ctx->boot)
		answer(ctx, from, &msg);
	tt_ctx_unlock(ctx);
}

/* ---- time ---- */

static void each_vote(struct tutti_context *ctx, uint64_t now)
{
	struct tt_list *l, *tmp;

	if (!ctx->voting)
		return;
	tt_list_each(l, tmp, &ctx->comms)
	{
		struct tutti_comm *comm = tt_container(l, struct tutti_comm, link);

		if (comm->vote && !comm->vote->decided && now >= comm->vote->again_at)
			report(comm);
	}
}

void tt_vote_again(struct tutti_context *ctx)
{
	each_vote(ctx, TT_NEVER);
}

void tt_vote_timers(struct tutti_context *ctx)
{
	each_vote(ctx, tt_now_ns());
}

void tt_vote_free_all(struct tutti_context *ctx)
{
	while (!tt_list_empty(&ctx->decided)) {
		struct tt_vote *v = tt_container(ctx->decided.next, struct tt_vote, link);

		tt_list_del(&v->link);
		free_vote(v);
	}
}
