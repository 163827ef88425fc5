/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replicas of a server in a chain (van Renesse and Schneider, 2004). The first live replica is the
 * primary. Each replica numbers what it has handled and passes it on to the next, which handles it
 * in the same order and reaches the same state. A worker is answered when the last replica has its
 * message: an answered message survives the failure of all replicas but one. A replica tells the
 * previous one how many messages it and all replicas behind it have, and whether one of them failed
 * the last PREPARE: all of them prepare, or none.
 *
 * When a middle replica fails, the previous one passes on again what was not acknowledged; the next
 * replica recognizes by the numbers what it has. When the primary fails, the next replica takes
 * over, and workers send it again what was not answered; it recognizes by their numbers what it
 * has.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ps/essp/essp.h"

static uint64_t slots(const struct tt_ps_server *srv)
{
	return (uint64_t)srv->ps->nworkers * TT_PS_SLOTS;
}

static struct tt_ps_entry *entry_of(struct tt_ps_server *srv, uint64_t order)
{
	return &srv->entry[order % slots(srv)];
}

static void ring(struct tt_bell *bell)
{
	struct tt_ps_log_bell *b = tt_container(bell, struct tt_ps_log_bell, bell);

	b->rung = true;
	atomic_store(&b->srv->stirred, true);
}

/*
 * The replica that did not get it has failed, or will be declared failed; what it missed is kept.
 */
static void broken(struct tt_ps_server *srv, int copy, int status, const char *what)
{
	struct tutti_ps *ps = srv->ps;
	int host = copy < 0 ? -1 : tt_ps_host(ps, srv->index, copy);

	if (status && host >= 0 && !ps->lost[host])
		tt_comm_broken(ps->comm, ps->comm->world[ps->server[host]], status, "ps", 0, what);
}

static void passed(struct tt_win_end *end, int status)
{
	struct tt_ps_server *srv = tt_container(end, struct tt_ps_server, log_end);

	broken(srv, srv->behind, status, "passing on to a replica");
}

static void ack_over(struct tt_win_end *end, int status)
{
	struct tt_ps_server *srv = tt_container(end, struct tt_ps_server, ack_end);

	broken(srv, srv->ack_to, status, "acknowledging to a replica");
	srv->ack_busy = false;
	atomic_store(&srv->stirred, true);
}

int tt_ps_chain_new(struct tt_ps_server *srv, struct tt_bell **bells)
{
	struct tutti_ps *ps = srv->ps;
	int w, j, a;

	srv->behind = ps->copies > srv->copy + 1 ? srv->copy + 1 : -1;
	srv->ack_to = srv->copy - 1;
	srv->log_end.over = passed;
	srv->ack_end.over = ack_over;
	if (ps->copies == 1)
		return 0;
	srv->entry = calloc((size_t)slots(srv), sizeof(*srv->entry));
	srv->log = calloc((size_t)slots(srv), sizeof(*srv->log));
	if (!srv->entry || !srv->log)
		return tt_fail(-ENOMEM, "no memory for the replicas of a server");
	for (w = 0; w < ps->nworkers && srv->copy; w++)
		for (j = 0; j < TT_PS_SLOTS; j++) {
			struct tt_ps_log_bell *b = &srv->log[w * TT_PS_SLOTS + j];

			*b = (struct tt_ps_log_bell){.bell.ring = ring, .srv = srv};
			bells[tt_ps_bell_log(ps, srv->copy, w, j)] = &b->bell;
		}
	for (a = 0; a < ps->copies; a++) {
		srv->ack_bell[a] = (struct tt_ps_log_bell){.bell.ring = ring, .srv = srv};
		bells[tt_ps_bell_ack(ps, srv->copy, a)] = &srv->ack_bell[a].bell;
	}
	return 0;
}

/* ---- passing on ---- */

static void put(struct tt_ps_server *srv, int copy, void *from, size_t len, size_t to, int bell,
		struct tt_win_end *end)
{
	struct tutti_ps *ps = srv->ps;
	int rank = ps->server[tt_ps_host(ps, srv->index, copy)];

	tt_ps_put(ps->win, rank, from, len, to, ps->in_token[rank] + (uint32_t)bell, end);
}

/* Under the lock. */
static void pass_on(struct tt_ps_server *srv, const struct tt_ps_entry *e)
{
	int slot = (int)(e->number % TT_PS_SLOTS), w = e->client->index;

	put(srv, srv->behind, e->msg, sizeof(*e->msg) + e->len,
	    tt_ps_box_log(srv->ps, srv->behind, w, slot),
	    tt_ps_bell_log(srv->ps, srv->behind, w, slot), &srv->log_end);
}

/*
 * A replica's acknowledgement: how many messages it has, and why it could not prepare. It is one
 * word, so that both are of the same moment.
 */
static uint64_t ack_word(const struct tt_ps_server *srv)
{
	int status = srv->unprepared ? srv->unprepared : srv->refused;

	return srv->acked << 16 | (uint16_t)-status;
}

static void look_behind(struct tt_ps_server *srv)
{
	const struct tutti_ps *ps = srv->ps;
	const _Atomic uint64_t *word;
	uint64_t told = srv->order << 16;

	if (srv->behind >= 0) {
		word = (const _Atomic uint64_t *)(const void *)(ps->box +
								tt_ps_box_ack(ps, srv->copy,
									      srv->behind));
		told = atomic_load(word);
	}
	if (told >> 16 > srv->order || told >> 16 < srv->acked)
		return;
	srv->acked = told >> 16;
	srv->refused = -(int)(told & 0xffff);
}

/* Fails the PREPARE here if a replica behind failed it. */
static void say_refused(const struct tt_ps_server *srv, const struct tt_ps_client *c,
			const struct tt_ps_msg *m)
{
	struct tt_ps_reply *r =
		(struct tt_ps_reply *)(void *)(tt_ps_answer(c, m->number % TT_PS_SLOTS) +
					       sizeof(struct tt_ps_credit));

	if (m->kind != TT_PS_PREPARE || r->said.status || !srv->refused)
		return;
	r->said.status = srv->refused;
	snprintf(r->said.text, sizeof(r->said.text), "server %d: a replica cannot restore: %s",
		 srv->index, tutti_strerror(srv->refused));
}

/* Find how much all replicas have; then answer workers, or tell the previous replica. */
static void look(struct tt_ps_server *srv)
{
	look_behind(srv);
	for (; srv->serves && srv->answered < srv->acked; srv->answered++) {
		struct tt_ps_entry *e = entry_of(srv, srv->answered + 1);

		say_refused(srv, e->client, e->msg);
		tt_ps_credit(srv, e->client, &e->credit);
	}
	if (srv->acked > srv->told)
		srv->ack_due = true;
}

static void add_entry(struct tt_ps_server *srv, struct tt_ps_client *c, struct tt_ps_msg *m,
		      const struct tt_ps_msg *head, const struct tt_ps_credit *credit)
{
	struct tt_ps_entry *e;

	m->order = ++srv->order;
	c->order[head->number % TT_PS_SLOTS] = srv->order;
	e = entry_of(srv, srv->order);
	*e = (struct tt_ps_entry){
		.client = c, .msg = m, .number = head->number, .len = head->len, .credit = *credit};
	if (srv->behind >= 0) {
		tt_wire_lock(srv->ps->comm->ctx->wire);
		pass_on(srv, e);
		tt_wire_unlock(srv->ps->comm->ctx->wire);
	}
	look(srv);
}

/*
 * A good-bye counts once it has its number: otherwise a closing rank could find that all have left
 * and everything is passed on.
 */
static void count_out(struct tt_ps_client *c)
{
	struct tt_ps_server *srv = c->srv;
	bool last;

	c->counted = true;
	tt_wire_lock(srv->ps->comm->ctx->wire);
	last = !--srv->left;
	tt_wire_unlock(srv->ps->comm->ctx->wire);
	if (last)
		tt_ps_tell_clock(srv);
}

void tt_ps_chain_add(struct tt_ps_server *srv, struct tt_ps_client *c, struct tt_ps_msg *m,
		     const struct tt_ps_msg *head, const struct tt_ps_credit *credit)
{
	if (srv->ps->copies == 1)
		tt_ps_credit(srv, c, credit);
	else
		add_entry(srv, c, m, head, credit);
	if (c->gone && !c->counted)
		count_out(c);
}

static void tell_before(struct tt_ps_server *srv)
{
	struct tutti_ps *ps = srv->ps;
	int before = srv->copy - 1;
	uint64_t word = ack_word(srv);

	while (before >= 0 && ps->lost[tt_ps_host(ps, srv->index, before)])
		before--;
	if (before < 0) {
		srv->ack_due = false;
		srv->told = srv->acked;
	}
	if (before >= 0 &&
	    before != srv->ack_to) /* what was told last may have gone to a failed replica */
		srv->ack_due = true;
	if (!srv->ack_due || srv->ack_busy)
		return;
	srv->ack_due = false;
	srv->ack_busy = true;
	srv->ack_to = before;
	srv->told = srv->acked;
	memcpy(srv->ack, &word, sizeof(word));
	put(srv, before, srv->ack, sizeof(word), tt_ps_box_ack(ps, before, srv->copy),
	    tt_ps_bell_ack(ps, before, srv->copy), &srv->ack_end);
}

/* ---- what the previous replica passes on ---- */

static struct tt_ps_msg *log_slot(const struct tt_ps_server *srv, uint64_t i)
{
	const struct tutti_ps *ps = srv->ps;

	return (struct tt_ps_msg *)(void *)(ps->box + tt_ps_box_log(ps, srv->copy,
								    (int)(i / TT_PS_SLOTS),
								    (int)(i % TT_PS_SLOTS)));
}

/*
 * Under BSP a replica publishes whenever the primary could, although no worker reads it there. So
 * when it takes over it shows a clock that has ended, without pushes of the current clock.
 */
static void seal(struct tt_ps_server *srv)
{
	if (!srv->ps->staleness)
		tt_ps_publish_pass(srv);
}

/* The rank that passes on to this replica, or did last. */
static int host_before(const struct tt_ps_server *srv)
{
	const struct tutti_ps *ps = srv->ps;
	int before = srv->copy - 1;

	while (before > 0 && ps->lost[tt_ps_host(ps, srv->index, before)])
		before--;
	return ps->server[tt_ps_host(ps, srv->index, before)];
}

bool tt_ps_drop_out(struct tt_ps_server *srv, int64_t status)
{
	struct tutti_context *ctx = srv->ps->comm->ctx;
	char why[160];

	if (status != -ENOMEM || (srv->serves && srv->behind < 0))
		return false;
	snprintf(why, sizeof(why),
		 "rank %d has no memory for what server %d is told, of which others have copies: "
		 "it is out",
		 ctx->boot_params.rank, srv->index);
	tt_wire_lock(ctx->wire);
	if (!atomic_load(&srv->ps->comm->failed))
		tt_ctx_unfit(ctx, -ENOMEM, ctx->boot_params.rank, why);
	tt_wire_unlock(ctx->wire);
	return true;
}

/*
 * Handle the next message in order as the previous replica did. false: it has not arrived, or must
 * wait.
 */
static bool take_next(struct tt_ps_server *srv)
{
	struct tt_ps_credit none = {0};
	struct tt_ps_msg *m = NULL, head;
	struct tt_ps_client *c;
	const char *payload;
	uint64_t i;

	tt_wire_lock(srv->ps->comm->ctx->wire);
	for (i = 0; i < slots(srv); i++) {
		if (!srv->log[i].rung)
			continue;
		m = log_slot(srv, i);
		if (m->order == srv->order + 1)
			break;
		if (m->order <= srv->order) { /* passed on again: the sender has not been told */
			srv->log[i].rung = false;
			srv->ack_due = true;
		}
	}
	tt_wire_unlock(srv->ps->comm->ctx->wire);
	if (i == slots(srv))
		return false;
	c = &srv->client[i / TT_PS_SLOTS];
	head = *m;
	payload = (const char *)(m + 1);
	none.number = head.number;
	if (head.len > TT_PS_BLOCK || tt_ps_damaged(srv, host_before(srv), m))
		return false;
	if (head.kind == TT_PS_MEET)
		tt_ps_meeting(srv, c, &head, payload);
	if (head.kind == TT_PS_BYE) {
		tt_ps_handle(srv, c, &head, payload, &none);
	} else if (!tt_ps_take_in(c, &head, payload, &none)) {
		tt_ps_drop_out(srv, none.status);
		return false;
	}
	if (tt_ps_drop_out(srv, none.status))
		return false;
	tt_wire_lock(srv->ps->comm->ctx->wire);
	srv->log[i].rung = false;
	tt_wire_unlock(srv->ps->comm->ctx->wire);
	c->next = head.number + 1;
	tt_ps_chain_add(srv, c, m, &head, &none);
	do
		seal(srv);
	while (tt_ps_run_held(srv));
	return true;
}

/* ---- failures ---- */

/* Under BSP what seal() has published; otherwise the current values. */
static void show(struct tt_ps_server *srv, struct tt_ps_store *s)
{
	uint64_t b, blocks = s->t->rows ? ((uint64_t)s->nrows * s->t->width + s->t->block_elems -
					   1) / s->t->block_elems
					: s->part->blocks;

	for (b = 0; b < blocks && (s->t->rows || s->is_set); b++)
		if (srv->ps->staleness)
			tt_ps_mark(s, &s->dirty, b);
		else if (atomic_load(tt_ps_dir(s, b)))
			tt_ps_tell_block(srv, s, b);
}

/* Take over: workers are told, under sequence numbers above any of the previous replica. */
static void serve(struct tt_ps_server *srv)
{
	uint32_t i;

	srv->serves = true;
	tt_ps_heard(srv);
	srv->answered = srv->order; /* again() answers what is sent again */
	for (i = 0; i < srv->ps->ntables; i++) {
		tt_ps_sub_serve(tt_ps_store_of(srv, i));
		show(srv, tt_ps_store_of(srv, i));
	}
	if (srv->ps->staleness)
		srv->published = UINT64_MAX;
	else
		tt_ps_tell_clock(srv);
	tt_warn("server %d: the replica on this rank takes over", srv->index);
}

/*
 * A worker sends again what was not answered. If it is here already, it is answered when all
 * replicas have it.
 */
static int again(struct tt_ps_server *srv)
{
	struct tt_wire *wire = srv->ps->comm->ctx->wire;
	struct tt_ps_credit credit;
	struct tt_ps_msg *m;
	int w, j, n = 0;

	for (w = 0; w < srv->ps->nworkers; w++)
		for (j = 0; j < TT_PS_SLOTS; j++) {
			struct tt_ps_client *c = &srv->client[w];

			tt_wire_lock(wire);
			m = tt_ps_arrived(c, j);
			if (m && (m->number >= c->next || c->order[j] > srv->acked ||
				  (m->kind == TT_PS_MEET &&
				   !tt_ps_meeting(srv, c, m, (const char *)(m + 1)))))
				m = NULL;
			if (m)
				c->bell[j][0].rung = c->bell[j][1].rung = false;
			tt_wire_unlock(wire);
			if (!m)
				continue;
			/* every publication of this replica contains what was here before */
			credit = (struct tt_ps_credit){
				.number = m->number,
				.sequence = tt_ps_first((uint64_t)srv->copy) + 1,
				.tau = m->kind == TT_PS_PUSH_SAME ? c->tau[j] : 0};
			if (m->kind == TT_PS_LOOKUP || m->kind >= TT_PS_MEET)
				tt_ps_handle(srv, c, m, (const char *)(m + 1), &credit);
			say_refused(srv, c, m);
			tt_ps_credit(srv, c, &credit);
			n++;
		}
	return n;
}

int tt_ps_chain(struct tt_ps_server *srv)
{
	struct tutti_ps *ps = srv->ps;
	int first, behind, n = 0;
	uint64_t o;

	atomic_store(&srv->stirred, false);
	if (ps->copies == 1)
		return 0;
	tt_wire_lock(ps->comm->ctx->wire);
	first = tt_ps_living(ps, srv->index, 0);
	behind = tt_ps_living(ps, srv->index, srv->copy + 1);
	tt_wire_unlock(ps->comm->ctx->wire);
	while (!srv->serves && take_next(srv))
		n++;
	if (first == srv->copy && !srv->serves) {
		serve(srv);
		n++;
	}
	if (behind != srv->behind) {
		srv->behind = behind;
		tt_wire_lock(ps->comm->ctx->wire);
		for (o = srv->acked + 1; o <= srv->order && behind >= 0; o++)
			pass_on(srv, entry_of(srv, o));
		tt_wire_unlock(ps->comm->ctx->wire);
		n++;
	}
	look(srv);
	if (srv->serves && srv->copy)
		n += again(srv);
	tt_wire_lock(ps->comm->ctx->wire);
	tell_before(srv);
	tt_wire_unlock(ps->comm->ctx->wire);
	return n;
}
