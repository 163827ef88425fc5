/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds stragglers, and ranks that called a different collective.
 *
 * A rank whose call makes no progress for TUTTI_LATE_AFTER reports {communicator, sequence,
 * fields} to rank 0 (STUCK; if rank 0 has failed, to the lowest live rank), and again every
 * second. Rank 0 compares the report with the first one for that call. If a field differs, it asks
 * all members for their fields (QUERY) and tells all ranks what most members called and one rank
 * that called something else (MISMATCH). Otherwise it asks all members (QUERY), at most five times
 * a second per call. Each member compares the call with its history: if its fields differ, it
 * answers STUCK with its own; if it has not made the call, it answers LATE, and rank 0 passes the
 * first few on, and again to each rank that reports the call later. When a late rank makes the
 * call, it says so in STUCK, and rank 0 in LATE. The cost is a handful of messages per stuck call
 * and rank.
 *
 * A rank that sees a message or a flag of another call reports it at once, although its own part
 * may be complete. Rank 0 then asks all members at once. A member that has not made the call, or
 * the communicator, answers when it has (polled.c). One that has freed the communicator answers
 * from its history. No rank leaves the job before the verdict (tt_stuck_undecided).
 *
 * Persistent calls have numbers of their own, so a rank that starts one is late for the blocking
 * call that others wait in, and the reverse. Such a rank says in LATE that it is stuck in the same
 * call of the other form. It may still make both, so that is a mismatch only at the deadline. A
 * rank that refused a call says so in LATE and STUCK (refusal.c).
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/datatype.h"
#include "lib/comm/comm.h"
#include "lib/comm/stuck.h"
#include "lib/plan/plan.h"

#define TABLE 64
#define KINDS 8		      /* distinct calls counted */
#define POLL_NS (500 * TT_MS) /* longest wait for all members to answer */
#define EACH (-1)	      /* QUERY, as rank: all members answer */
#define STUCK_NS (3 * TT_SEC) /* a call without progress is reported more often than this */
#define DIFFERS 1	      /* STUCK, as collective of the other rank: it is another one */
#define CAME 2		      /* the same: the rank makes the call that it was asked for */

/*
 * The lowest live rank collects. After its death the stuck ranks report again, and know no rank as
 * late until then: the next collector does not know whom it would have to tell when one has come.
 */
static bool collects(struct tutti_context *ctx)
{
	return ctx->boot && ctx->boot_params.rank == tt_boot_lowest(ctx->boot);
}

/*
 * Layout of all four messages. rank, fields: the call of this rank. other, ...: the differing
 * rank; in STUCK: minus the size of the communicator, and DIFFERS, CAME or 0; in LATE: the same
 * call of the other form, if other_seq is not 0, or rank again: it has come. The names of codecs
 * are known to the ranks that pass them, and from STUCK on to rank 0.
 */
struct stuck_msg {
	uint64_t uid, seq;
	int32_t rank, other;
	struct tt_fields fields, other_fields;
	char codec[TT_CODEC_NAME], other_codec[TT_CODEC_NAME];
	uint64_t other_seq; /* 0: as seq */
	struct tt_refusal refused, other_refused;
	/* MISMATCH: of so many members; 0: none was asked. LATE: answered 1: it is passed on */
	uint32_t answered, asked;
};
_Static_assert(sizeof(struct stuck_msg) == 280, "doc/WIRE.md");

/* A call that some ranks made, with the lowest of them. */
struct kind {
	struct tt_fields fields;
	struct tt_refusal refused;
	int rank, votes;
};

/* Rank 0's note of a call that ranks are stuck in. */
struct tt_stuck_entry {
	struct stuck_msg first;
	uint64_t asked_at, polled_at;
	struct kind kind[KINDS];
	unsigned char *came;	    /* a bit for each rank of the world whose fields are counted */
	int size, nkinds, answered; /* size: of the communicator, 0: not known */
	int forgetful;		    /* the lowest rank that has forgotten the call; -1: none */
	int nlate;
	int late[TT_LATE_MAX];
	struct tt_late late_why[TT_LATE_MAX]; /* as it was passed on */
	bool differs;			      /* some rank knows that calls differ */
	bool told;			      /* the mismatch is announced */
};

struct tt_stuck_table {
	struct tt_stuck_entry entry[TABLE];
	int next;
};

/* Whether members are being asked what they have called. */
static bool polls(const struct tt_stuck_entry *e)
{
	return e->polled_at && !e->told && e->answered < e->size &&
	       tt_now_ns() - e->polled_at < POLL_NS;
}

static void say(struct tutti_comm *comm, uint64_t seq, const struct tt_fields *fields, uint32_t how)
{
	struct stuck_msg msg = {.uid = comm->uid,
				.seq = seq,
				.rank = comm->ctx->boot_params.rank,
				.other = -comm->size,
				.fields = *fields,
				.other_fields.coll = how,
				.refused = tt_refusal_of(comm, fields->init, seq)};

	tt_codec_name_text(fields->codec, msg.codec);
	tt_ctl_send(comm->ctx->boot, tt_boot_lowest(comm->ctx->boot), TT_CTL_STUCK, &msg,
		    sizeof(msg));
}

void tt_stuck_report(struct tutti_comm *comm, uint64_t seq, const struct tt_fields *fields)
{
	say(comm, seq, fields, 0);
}

void tt_stuck_ask(struct tutti_comm *comm, uint64_t seq, const struct tt_fields *fields)
{
	comm->stuck = *fields;
	comm->stuck_seq = seq;
	comm->stuck_at = tt_now_ns();
	say(comm, seq, fields, 0);
}

void tt_stuck_differs(struct tutti_comm *comm, uint64_t seq, const struct tt_fields *fields)
{
	say(comm, seq, fields, DIFFERS);
}

void tt_stuck_came(struct tutti_comm *comm, uint64_t seq, const struct tt_fields *fields)
{
	say(comm, seq, fields, CAME);
}

static struct tt_stuck_entry *entry_of(struct tutti_context *ctx, const struct stuck_msg *msg)
{
	struct tt_stuck_entry *e;
	int i;

	if (!ctx->stuck)
		ctx->stuck = calloc(1, sizeof(*ctx->stuck));
	if (!ctx->stuck)
		return NULL;
	for (i = 0; i < TABLE; i++) {
		e = &ctx->stuck->entry[i];
		if (e->first.uid == msg->uid && e->first.seq == msg->seq &&
		    e->first.fields.init == msg->fields.init)
			return e;
	}
	for (i = 0; i < TABLE; i++) { /* the oldest without a verdict under way, if there is one */
		e = &ctx->stuck->entry[ctx->stuck->next++ % TABLE];
		if (!polls(e))
			break;
	}
	free(e->came);
	memset(e, 0, sizeof(*e));
	e->first = *msg;
	e->forgetful = -1;
	return e;
}

static bool read_msg(const void *data, size_t len, struct stuck_msg *msg)
{
	if (len != sizeof(*msg))
		return false;
	memcpy(msg, data, sizeof(*msg));
	msg->codec[TT_CODEC_NAME - 1] = msg->other_codec[TT_CODEC_NAME - 1] = 0;
	tt_codec_name_add(msg->fields.codec, msg->codec);
	tt_codec_name_add(msg->other_fields.codec, msg->other_codec);
	return true;
}

static void note_mismatch(struct tutti_context *ctx, const struct stuck_msg *msg);
static void note_came(struct tutti_context *ctx, const struct stuck_msg *msg);

/*
 * One verdict on a call. The first one on a communicator counts, so this rank notes verdicts in the
 * order in which it sends them. What cannot be sent is said again at the next report.
 */
static void announce(struct tutti_context *ctx, struct tt_stuck_entry *e,
		     const struct stuck_msg *msg)
{
	if (e->told || tt_ctl_send(ctx->boot, TT_CTL_ALL, TT_CTL_MISMATCH, msg, sizeof(*msg)))
		return;
	e->told = true;
	note_mismatch(ctx, msg);
}

/* Returns whether it is the first report of this rank. */
static bool count(struct tutti_context *ctx, struct tt_stuck_entry *e, const struct stuck_msg *msg)
{
	const struct tt_fields *fields = &msg->fields;
	int rank = msg->rank;
	unsigned char bit = (unsigned char)(1 << rank % 8);
	int i;

	if (!e->came)
		e->came = calloc((size_t)ctx->boot_params.nranks / 8 + 1, 1);
	if (!e->came || (e->came[rank / 8] & bit))
		return false;
	e->came[rank / 8] |= bit;
	e->answered++;
	if (fields->coll == TT_FORGOTTEN) {
		e->forgetful = e->forgetful < 0 || rank < e->forgetful ? rank : e->forgetful;
		return true;
	}
	for (i = 0; i < e->nkinds; i++)
		if (!tt_fields_differing(&e->kind[i].fields, fields))
			break;
	if (i == KINDS)
		return true;
	if (i == e->nkinds)
		e->kind[e->nkinds++] = (struct kind){.fields = *fields, .rank = INT_MAX};
	e->kind[i].votes++;
	if (rank < e->kind[i].rank) {
		e->kind[i].rank = rank;
		e->kind[i].refused = msg->refused;
	}
	return true;
}

/* Whether a is more likely the right call: more ranks, or as many and a lower rank. */
static bool before(const struct kind *a, const struct kind *b)
{
	return a->votes != b->votes ? a->votes > b->votes : a->rank < b->rank;
}

/* Names the majority's call, and a rank with the rarest call. */
static void decide(struct tutti_context *ctx, struct tt_stuck_entry *e)
{
	const struct kind *most = &e->kind[0], *least = &e->kind[0];
	struct stuck_msg msg = e->first;
	int i;

	for (i = 1; i < e->nkinds; i++) {
		most = before(&e->kind[i], most) ? &e->kind[i] : most;
		least = before(least, &e->kind[i]) ? &e->kind[i] : least;
	}
	msg.rank = most->rank;
	msg.fields = most->fields;
	msg.refused = most->refused;
	msg.other = least->rank;
	msg.other_fields = least->fields;
	msg.other_refused = least->refused;
	msg.answered = (uint32_t)e->answered;
	msg.asked = (uint32_t)e->size;
	if (e->nkinds < 2) {
		msg.other = e->forgetful;
		msg.other_fields = (struct tt_fields){.coll = TT_FORGOTTEN};
		msg.other_refused.code = 0;
	}
	tt_codec_name_text(msg.fields.codec, msg.codec);
	tt_codec_name_text(msg.other_fields.codec, msg.other_codec);
	announce(ctx, e, &msg);
}

/* If calls differ: asks each member for its call, then decides. */
static void compare(struct tutti_context *ctx, struct tt_stuck_entry *e)
{
	struct stuck_msg msg = e->first;

	if (e->told || (e->nkinds < 2 && !e->differs))
		return;
	if (!e->polled_at) {
		e->polled_at = tt_now_ns();
		msg.rank = EACH;
		tt_ctl_send(ctx->boot, TT_CTL_ALL, TT_CTL_QUERY, &msg, sizeof(msg));
	}
	/* with one kind of call two ranks disagree on a block: they report that themselves */
	if (!polls(e) && (e->nkinds > 1 || e->forgetful >= 0))
		decide(ctx, e);
}

bool tt_stuck_undecided(void *arg)
{
	struct tutti_context *ctx = arg;
	bool undecided = false;
	int i;

	tt_ctx_lock(ctx);
	for (i = 0; ctx->stuck && i < TABLE; i++) {
		if (!ctx->stuck->entry[i].polled_at)
			continue;
		undecided |= polls(&ctx->stuck->entry[i]);
		compare(ctx, &ctx->stuck->entry[i]);
	}
	tt_ctx_unlock(ctx);
	return undecided;
}

/* The place of rank among the n late ones; n: it is not one. */
static int find_late(const int *late, int n, int rank)
{
	int i;

	for (i = 0; i < n && late[i] != rank; i++)
		;
	return i;
}

/* At rank 0: a rank that was late for the call has made it. */
static void tell_came(struct tutti_context *ctx, struct tt_stuck_entry *e, int rank)
{
	struct stuck_msg msg = e->first;
	int i = find_late(e->late, e->nlate, rank);

	if (i == e->nlate)
		return;
	e->late[i] = e->late[--e->nlate];
	e->late_why[i] = e->late_why[e->nlate];
	msg.rank = msg.other = rank;
	tt_ctl_send(ctx->boot, TT_CTL_ALL, TT_CTL_LATE, &msg, sizeof(msg));
	note_came(ctx, &msg);
}

/* At rank 0: a rank that makes the call now has ignored the news of ranks that are late for it. */
static void tell_late(struct tutti_context *ctx, const struct tt_stuck_entry *e, int rank)
{
	struct stuck_msg msg = e->first;
	int i;

	msg.answered = 1;
	for (i = 0; i < e->nlate; i++) {
		msg.other = e->late[i];
		msg.other_refused = e->late_why[i].refused;
		msg.other_fields = e->late_why[i].other_form;
		msg.other_seq = e->late_why[i].other_seq;
		tt_codec_name_text(msg.other_fields.codec, msg.other_codec);
		tt_ctl_send(ctx->boot, rank, TT_CTL_LATE, &msg, sizeof(msg));
	}
}

/* At rank 0. */
void tt_stuck_msg(void *arg, int from, const void *data, size_t len)
{
	struct tutti_context *ctx = arg;
	struct tt_stuck_entry *e;
	struct stuck_msg msg;
	bool first;

	if (!read_msg(data, len, &msg) || msg.rank < 0 || msg.rank >= ctx->boot_params.nranks ||
	    msg.other < -ctx->boot_params.nranks)
		return;
	tt_ctx_lock(ctx);
	e = ctx->boot ? entry_of(ctx, &msg) : NULL;
	if (e) {
		e->size = msg.other < 0 ? -msg.other : e->size;
		e->differs |= msg.other_fields.coll == DIFFERS;
		first = count(ctx, e, &msg);
		compare(ctx, e);
		if (msg.other_fields.coll == CAME)
			tell_came(ctx, e, msg.rank);
		if (first && !e->told)
			tell_late(ctx, e, msg.rank);
	}
	if (e && e->nkinds < 2 && !e->differs && tt_now_ns() - e->asked_at > 200 * TT_MS) {
		e->asked_at = tt_now_ns();
		tt_ctl_send(ctx->boot, TT_CTL_ALL, TT_CTL_QUERY, &e->first, sizeof(e->first));
	}
	tt_ctx_unlock(ctx);
}

static bool is_stuck(const struct tutti_comm *comm)
{
	return comm->stuck_seq && tt_now_ns() - comm->stuck_at < STUCK_NS;
}

static bool other_form(const struct tt_fields *a, const struct tt_fields *b)
{
	return !a->init != !b->init && !tt_fields_differing(a, b);
}

/* This rank has not made the call that it is asked for. */
static void not_called(struct tutti_comm *comm, int from, struct stuck_msg *msg)
{
	uint32_t init = msg->fields.init;
	struct tt_fields own;

	if (((comm->ctx->leaves || comm->magic == TT_COMM_DEAD) &&
	     tt_refusal_tell(comm, init, msg->seq)) ||
	    (comm->ask_at && msg->rank != EACH)) /* it waits for another rank, too */
		return;
	/* a persistent operation, of which the _init call has fixed what it will be */
	if (init && tt_comm_inited(comm, init, &own) &&
	    (msg->rank == EACH || tt_fields_differing(&msg->fields, &own))) {
		tt_stuck_report(comm, msg->seq, &own);
		return;
	}
	tt_comm_poll(comm->ctx, msg->uid, init, msg->seq);
	tt_comm_expect_poll(comm, init);
	if (msg->rank == EACH)
		return;
	msg->other_refused = tt_refusal_of(comm, init, msg->seq);
	if (is_stuck(comm) && other_form(&msg->fields, &comm->stuck)) {
		msg->other_fields = comm->stuck;
		msg->other_seq = comm->stuck_seq;
	}
	tt_ctl_send(comm->ctx->boot, from, TT_CTL_LATE, msg, sizeof(*msg));
}

/* This rank may make the call, or has made it. */
static void answer(struct tutti_comm *comm, int from, struct stuck_msg *msg)
{
	const struct tt_fields forgotten = {.coll = TT_FORGOTTEN, .init = msg->fields.init};
	struct tt_past past;

	msg->other = comm->ctx->boot_params.rank;
	if (tt_comm_calls(comm, msg->fields.init) < msg->seq)
		not_called(comm, from, msg);
	else if (tt_comm_past(comm, msg->fields.init, msg->seq, &past)) {
		if (msg->rank == EACH || tt_fields_differing(&msg->fields, &past.fields))
			tt_stuck_report(comm, past.seq, &past.fields);
	} else if (msg->rank == EACH) {
		tt_stuck_report(comm, msg->seq, &forgotten);
	}
}

/* This rank has not made the communicator: its call that would have made one was refused. */
static void tell_group(struct tutti_context *ctx, int from, struct stuck_msg *msg)
{
	struct tt_list *l, *tmp;

	if (!tt_fields_inner(&msg->fields) || msg->fields.root != TT_INNER_CREATE_GROUP)
		return;
	msg->other = ctx->boot_params.rank;
	tt_list_each(l, tmp, &ctx->comms)
	{
		const struct tutti_comm *comm = tt_container(l, struct tutti_comm, link);

		if (!comm->groups_missed)
			continue;
		msg->other_refused = (struct tt_refusal){.coll = TT_REFUSED + TT_INNER_CREATE_GROUP,
							 .code = comm->group_why};
		tt_ctl_send(ctx->boot, from, TT_CTL_LATE, msg, sizeof(*msg));
		return;
	}
}

/* At every rank: compares with its own call. */
void tt_query_msg(void *arg, int from, const void *data, size_t len)
{
	struct tutti_context *ctx = arg;
	struct tutti_comm *comm;
	struct stuck_msg msg;

	if (!read_msg(data, len, &msg))
		return;
	tt_ctx_lock(ctx);
	comm = ctx->boot ? tt_comm_find_any(ctx, msg.uid) : NULL;
	if (comm)
		answer(comm, from, &msg);
	else if (msg.rank == EACH) /* this rank may be about to make it */
		tt_comm_poll(ctx, msg.uid, msg.fields.init, msg.seq);
	else
		tell_group(ctx, from, &msg);
	tt_ctx_unlock(ctx);
}

/*
 * This rank knows who is late for the call that it is stuck in: no news of an earlier call, in
 * which other ranks are, takes its place.
 */
static bool keeps_late(const struct tutti_comm *comm, uint32_t init, uint64_t seq)
{
	return comm->nlate && is_stuck(comm) && comm->late_seq == comm->stuck_seq &&
	       comm->late_init == comm->stuck.init &&
	       (init != comm->stuck.init || seq < comm->stuck_seq);
}

/* Whether this rank waits in the call, or did; or for what the first call of comm needs. */
static bool waits_in(const struct tutti_comm *comm, uint32_t init, uint64_t seq)
{
	return tt_comm_calls(comm, init) >= seq ||
	       (comm->stuck_seq == seq && comm->stuck.init == init);
}

static void record_late(struct tutti_comm *comm)
{
	if (!comm->flight || comm->flight->uid != comm->uid)
		return;
	comm->flight->late_seq = tt_flight_start(comm->late_init, comm->late_seq);
	memcpy(comm->flight->late, comm->late, sizeof(comm->late));
	comm->flight->nlate = (uint32_t)comm->nlate;
}

static void note_came(struct tutti_context *ctx, const struct stuck_msg *msg)
{
	struct tutti_comm *comm = tt_comm_find(ctx, msg->uid);
	int i;

	if (!comm || comm->late_seq != msg->seq || comm->late_init != msg->fields.init)
		return;
	i = find_late(comm->late, comm->nlate, msg->other);
	if (i == comm->nlate)
		return;
	comm->late[i] = comm->late[--comm->nlate];
	comm->late_why[i] = comm->late_why[comm->nlate];
	record_late(comm);
}

static struct tt_late late_why(const struct stuck_msg *msg)
{
	return (struct tt_late){.refused = msg->other_refused,
				.other_form = msg->other_fields,
				.other_seq = msg->other_seq};
}

static void note_late(struct tutti_context *ctx, int from, const struct stuck_msg *msg)
{
	struct tutti_comm *comm = tt_comm_find(ctx, msg->uid);
	int i;

	if (!comm || tt_comm_rank_of(comm, msg->other) < 0 ||
	    !waits_in(comm, msg->fields.init, msg->seq) ||
	    keeps_late(comm, msg->fields.init, msg->seq))
		return;
	if (comm->late_seq != msg->seq || comm->late_init != msg->fields.init)
		comm->nlate = 0;
	comm->late_seq = msg->seq;
	comm->late_init = msg->fields.init;
	i = find_late(comm->late, comm->nlate, msg->other);
	if (i == TT_LATE_MAX)
		return;
	comm->late_why[i] = late_why(msg);
	comm->late_from = from;
	if (i < comm->nlate)
		return;
	comm->late[comm->nlate++] = msg->other;
	record_late(comm);
	tt_late_warn(comm, &msg->fields, i);
}

void tt_stuck_gone(struct tutti_context *ctx, int rank)
{
	struct tt_list *l, *tmp;

	tt_list_each(l, tmp, &ctx->comms)
	{
		struct tutti_comm *comm = tt_container(l, struct tutti_comm, link);

		if (!comm->nlate || comm->late_from != rank)
			continue;
		comm->nlate = 0;
		record_late(comm);
	}
}

/* Whether all ranks have to hear of it: the rank is late, or waits in another call than before. */
static bool is_news(struct tt_stuck_entry *e, const struct stuck_msg *msg)
{
	int i = find_late(e->late, e->nlate, msg->other);

	if (i == TT_LATE_MAX || (i < e->nlate && e->late_why[i].other_seq == msg->other_seq))
		return false;
	if (i == e->nlate)
		e->late[e->nlate++] = msg->other;
	e->late_why[i] = late_why(msg);
	return true;
}

/*
 * At rank 0: received from a late rank, shown, and passed on; what comes back is old, as the rank
 * may have come since. Elsewhere: shown.
 */
void tt_late_msg(void *arg, int from, const void *data, size_t len)
{
	struct tutti_context *ctx = arg;
	struct tt_stuck_entry *e;
	struct stuck_msg msg;

	if (!read_msg(data, len, &msg) || msg.other < 0 || msg.other >= ctx->boot_params.nranks)
		return;
	tt_ctx_lock(ctx);
	if (ctx->boot && msg.rank == msg.other) {
		note_came(ctx, &msg);
	} else if (ctx->boot && !(collects(ctx) && msg.answered)) {
		note_late(ctx, from, &msg);
		e = collects(ctx) ? entry_of(ctx, &msg) : NULL;
		msg.answered = 1;
		if (e && is_news(e, &msg))
			tt_ctl_send(ctx->boot, TT_CTL_ALL, TT_CTL_LATE, &msg, sizeof(msg));
	}
	tt_ctx_unlock(ctx);
}

void tt_pair_differ(struct tutti_comm *comm, const struct tt_past *past,
		    const struct tt_pair_end *sender, const struct tt_pair_end *receiver)
{
	struct stuck_msg msg = {.uid = comm->uid,
				.seq = past->seq,
				.rank = sender->rank,
				.other = receiver->rank,
				.fields = past->fields,
				.other_fields = past->fields};

	msg.fields.count = sender->elements;
	msg.fields.datatype = sender->datatype;
	msg.other_fields.count = receiver->elements;
	msg.other_fields.datatype = receiver->datatype;
	tt_ctl_send(comm->ctx->boot, tt_boot_lowest(comm->ctx->boot), TT_CTL_MISMATCH, &msg,
		    sizeof(msg));
}

/* A verdict names a rank of the minority, so far as it is known, as the other one. */
bool tt_stuck_forms_differ(struct tutti_comm *comm, uint64_t seq, const struct tt_fields *fields)
{
	struct stuck_msg msg = {.uid = comm->uid, .seq = seq, .fields = *fields};
	const struct tt_late *why = &comm->late_why[0];
	int i;

	if (comm->forms_told || !comm->nlate || comm->late_seq != seq ||
	    comm->late_init != fields->init)
		return false;
	for (i = 0; i < comm->nlate; i++)
		if (!comm->late_why[i].other_seq)
			return false;
	comm->forms_told = true;
	msg.rank = comm->world[comm->rank];
	msg.other = comm->late[0];
	msg.other_fields = why->other_form;
	msg.other_seq = why->other_seq;
	if (2 * comm->nlate > comm->size) {
		msg.rank = comm->late[0];
		msg.seq = why->other_seq;
		msg.fields = why->other_form;
		msg.other = comm->world[comm->rank];
		msg.other_fields = *fields;
		msg.other_seq = seq;
	}
	tt_codec_name_text(fields->codec, msg.codec);
	memcpy(msg.other_codec, msg.codec, sizeof(msg.codec));
	tt_ctl_send(comm->ctx->boot, tt_boot_lowest(comm->ctx->boot), TT_CTL_MISMATCH, &msg,
		    sizeof(msg));
	return true;
}

/* "10 elements", or of alltoallw "10 float64". */
static const char *end_text(const struct tt_fields *f, char *buf, size_t size)
{
	char type[32] = "elements";

	if (f->coll == TT_COLL_ALLTOALLW)
		tt_datatype_text((enum tutti_datatype)f->datatype, type, sizeof(type));
	snprintf(buf, size, "%llu %s", (unsigned long long)f->count, type);
	return buf;
}

static void describe_pair(const struct stuck_msg *msg, const char *field, const char *comm,
			  char *text, size_t size)
{
	const char *call = tt_fields_call(&msg->fields);
	char sends[64], expects[64], number[48];

	snprintf(text, size,
		 "ranks disagree on %s in %s: in %s %s rank %d sends %s to rank %d, which "
		 "expects %s",
		 field, comm, call,
		 tt_fields_number_text(&msg->fields, msg->seq, number, sizeof(number)), msg->rank,
		 end_text(&msg->fields, sends, sizeof(sends)), msg->other,
		 end_text(&msg->other_fields, expects, sizeof(expects)));
}

/* A block between two ranks, not the call of one of them. */
static bool is_pair(const struct stuck_msg *msg, const char *field)
{
	enum tt_coll coll = (enum tt_coll)msg->fields.coll;

	return (!strcmp(field, "count") && tt_coll_own_counts(coll)) ||
	       (!strcmp(field, "datatype") && coll == TT_COLL_ALLTOALLW);
}

/* The other ranks' calls are not known yet: they may show that the named rank is right. */
static void say_answered(const struct stuck_msg *msg, char *text, size_t size)
{
	if (msg->answered < msg->asked)
		snprintf(text, size, "; only %u of %u ranks have answered, so either may be wrong",
			 msg->answered, msg->asked);
}

/* This rank's own call and its number; if it has not made it, that of most ranks. */
static const char *own_call(const struct tutti_comm *comm, const struct stuck_msg *msg,
			    uint64_t *seq)
{
	struct tt_past past;
	bool made = comm && (tt_comm_past(comm, msg->fields.init, msg->seq, &past) ||
			     tt_comm_past(comm, msg->other_fields.init, msg->other_seq, &past));

	*seq = made ? past.seq : msg->seq;
	return tt_fields_call(made ? &past.fields : &msg->fields);
}

/* The communicator may still have to be made here, or be freed. */
static void note_mismatch(struct tutti_context *ctx, const struct stuck_msg *msg)
{
	const char *field = tt_fields_differing(&msg->fields, &msg->other_fields);
	struct tutti_comm *comm = tt_comm_find_any(ctx, msg->uid);
	const char *call, *in = "a communicator";
	uint64_t seq;
	char a[224], b[224], c[120], d[120], name[TT_COMM_NAME], text[640];

	if (!field && other_form(&msg->fields, &msg->other_fields))
		field = "form";
	if (!field)
		return;
	if (comm)
		in = tt_comm_name(comm, name, sizeof(name));
	if (is_pair(msg, field)) {
		field = strcmp(field, "count") ? field : "counts";
		describe_pair(msg, field, in, text, sizeof(text));
	} else {
		snprintf(text, sizeof(text),
			 "ranks disagree on %s in %s: rank %d%s called %s, rank %d%s called %s",
			 field, in, msg->rank, tt_refusal_text(&msg->refused, c, sizeof(c)),
			 tt_fields_text(&msg->fields, msg->seq, a, sizeof(a)), msg->other,
			 tt_refusal_text(&msg->other_refused, d, sizeof(d)),
			 tt_fields_text(&msg->other_fields,
					msg->other_seq ? msg->other_seq : msg->seq, b, sizeof(b)));
		say_answered(msg, text + strlen(text), sizeof(text) - strlen(text));
	}
	call = own_call(comm, msg, &seq);
	if (comm)
		tt_comm_fail_here(comm, -TUTTI_EMISMATCH, msg->other, call, seq, field, text);
	else
		tt_comm_fail_later(ctx, msg->uid, -TUTTI_EMISMATCH, msg->other, call, seq, field,
				   text);
}

/* At rank 0: mismatched lengths, passed on to all. Elsewhere: the verdict. */
void tt_mismatch_msg(void *arg, int from, const void *data, size_t len)
{
	struct tutti_context *ctx = arg;
	struct tt_stuck_entry *e = NULL;
	struct stuck_msg msg;

	if (!read_msg(data, len, &msg) || msg.rank < 0 || msg.other < 0 ||
	    msg.rank >= ctx->boot_params.nranks || msg.other >= ctx->boot_params.nranks)
		return;
	tt_ctx_lock(ctx);
	if (collects(ctx))
		e = entry_of(ctx, &msg);
	if (e)
		announce(ctx, e, &msg);
	/* no memory for the others' news: at least this rank does not wait for its deadline */
	if ((!e || !e->told) && ctx->boot)
		note_mismatch(ctx, &msg);
	tt_ctx_unlock(ctx);
}

void tt_stuck_free(struct tutti_context *ctx)
{
	int i;

	for (i = 0; ctx->stuck && i < TABLE; i++)
		free(ctx->stuck->entry[i].came);
	free(ctx->stuck);
	ctx->stuck = NULL;
}
