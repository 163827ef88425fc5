/* SPDX-License-Identifier: BSD-3-Clause */
/* The control tree: forming it, distributing the table, messages, heartbeats, failures, the end. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/boot/control/control.h"
#include "lib/boot/rendezvous/pack.h"
#include "lib/boot/control/ras.h"
#include "lib/boot/control/control_tree.h"

#define TABLE_AHEAD 16384 /* most bytes of the table queued on a link at once */
#define DRAIN_MS 1000
#define LEAVE_MS 200

struct tt_link *tt_tree_link(struct tt_boot *b, int rank)
{
	int i;

	if (b->parent && b->parent->peer == rank)
		return b->parent;
	for (i = 0; i < b->nchildren; i++)
		if (b->child[i].link && b->child[i].link->peer == rank)
			return b->child[i].link;
	return NULL;
}

/* Sends to the parent and all children but one. */
void tt_tree_around(struct tt_boot *b, const struct tt_link *except, int type, const void *data,
		    size_t len)
{
	int i;

	if (b->parent && b->parent != except)
		tt_link_send(b->parent, type, data, len);
	for (i = 0; i < b->nchildren; i++)
		if (b->child[i].link && b->child[i].link != except)
			tt_link_send(b->child[i].link, type, data, len);
}

void tt_rank_list(const struct tt_boot *b, bool (*test)(const struct tt_boot *, int), char *text,
		  size_t size)
{
	size_t len = 0;
	int r, more = 0;

	text[0] = 0;
	for (r = 0; r < b->nranks; r++) {
		if (!test(b, r))
			continue;
		if (len + 32 < size)
			len += (size_t)snprintf(text + len, size - len, "%s%d", len ? ", " : "", r);
		else
			more++;
	}
	if (more)
		snprintf(text + len, size - len, " and %d more", more);
}

int tt_tree_entry(struct tt_boot *b, int rank, const char *host, const void *card, size_t len)
{
	struct tt_rank_info *info = &b->ranks[rank];
	char *h = strdup(host);
	unsigned char *c = malloc(len ? len : 1);

	if (!h || !c) {
		free(h);
		free(c);
		return -ENOMEM;
	}
	if (len)
		memcpy(c, card, len);
	free(info->host);
	free(info->card);
	info->host = h;
	info->card = c;
	info->card_len = (uint16_t)len;
	return 0;
}

void tt_tree_open(struct tt_boot *b, struct tt_link *link)
{
	int i = link->peer - tt_tree_first_child(b->rank);

	if (!link->server) {
		b->dialer.active = false;
		b->dialer.link = NULL;
		b->parent = link;
		if (b->phase == TT_PH_UP)
			tt_tree_attached(b, link);
		return;
	}
	if (b->phase == TT_PH_UP) {
		tt_tree_adopt(b, link);
		return;
	}
	if (b->phase > TT_PH_TREE || i < 0 || i >= b->nchildren || b->child[i].link)
		tt_link_kill(link, -EPROTO,
			     "it is not a child of this rank, or is already connected");
	else
		b->child[i].link = link;
}

static struct tt_child *child_of(struct tt_boot *b, const struct tt_link *link)
{
	int i;

	for (i = 0; i < b->nchildren; i++)
		if (b->child[i].link == link)
			return &b->child[i];
	return NULL;
}

/* Fills each child's queue with the known part of the table, up to the queue's bound. */
static void pump_table(struct tt_boot *b)
{
	unsigned char buf[TT_FRAME_MAX];
	int i;

	for (i = 0; i < b->nchildren; i++) {
		struct tt_link *link = b->child[i].link;

		while (link && link->state == TT_LINK_OPEN && link->user < b->nknown &&
		       tt_link_queued(link) < TABLE_AHEAD) {
			const struct tt_rank_info *info = &b->ranks[link->user];
			struct tt_pack k = {.p = buf, .cap = sizeof(buf)};

			tt_put_u(&k, (unsigned)link->user++, 4);
			tt_put_addr(&k, &info->listen);
			tt_put_str(&k, info->host);
			tt_put_u(&k, info->card_len, 2);
			tt_put(&k, info->card, info->card_len);
			tt_link_send(link, TT_F_ENTRY, buf, k.len);
		}
	}
}

bool tt_tree_more(const struct tt_boot *b)
{
	int i;

	for (i = 0; i < b->nchildren; i++) {
		const struct tt_link *link = b->child[i].link;

		if (link && link->state == TT_LINK_OPEN && link->user < b->nknown &&
		    tt_link_queued(link) < TABLE_AHEAD)
			return true;
	}
	return false;
}

static void on_entry(struct tt_boot *b, struct tt_link *link, struct tt_unpack *u)
{
	int rank = (int)(uint32_t)tt_get_u(u, 4);
	struct tt_addr listen;
	const void *card;
	char host[64];
	size_t n;

	tt_get_addr(u, &listen);
	tt_get_str(u, host, sizeof(host));
	n = (size_t)tt_get_u(u, 2);
	card = tt_get(u, n);
	if (u->bad || n > TT_CARD_MAX || rank != b->nknown || rank >= b->nranks)
		tt_link_kill(link, -EPROTO, "it sent a malformed entry of the table");
	else if (tt_tree_entry(b, rank, host, card, n))
		tt_start_fail(b, -ENOMEM, b->rank, b->host,
			      "rank %d has no memory for the table of ranks; " TT_RAISE_MEMORY,
			      b->rank);
	else
		b->ranks[b->nknown++].listen = listen;
}

static void go(struct tt_boot *b)
{
	int i;

	for (i = 0; i < b->nchildren; i++)
		if (b->child[i].link)
			tt_link_send(b->child[i].link, TT_F_GO, NULL, 0);
	if (!b->rank)
		tt_store_done(b);
	tt_start_done(b);
}

static void check_ready(struct tt_boot *b)
{
	int i;

	if (b->nknown < b->nranks || b->ready_sent || (b->rank && !b->parent))
		return;
	for (i = 0; i < b->nchildren; i++)
		if (!b->child[i].ready)
			return;
	b->ready_sent = true;
	if (b->rank)
		tt_link_send(b->parent, TT_F_READY, NULL, 0);
	else
		go(b);
}

static void enter_bye(struct tt_boot *b, uint64_t deadline)
{
	int i;

	for (i = 0; i < b->nchildren; i++)
		if (b->child[i].link)
			tt_link_close_after(b->child[i].link, deadline);
	if (b->parent)
		tt_link_close_after(b->parent, deadline);
	b->phase = TT_PH_BYE;
	b->drain_deadline = deadline;
}

static void bye_down(struct tt_boot *b)
{
	int i;

	for (i = 0; i < b->nchildren; i++)
		if (b->child[i].link)
			tt_link_send(b->child[i].link, TT_F_BYE_DOWN, NULL, 0);
	enter_bye(b, tt_deadline_ms(DRAIN_MS));
}

/* Messages of this rank, or of its handlers, that come before the end. */
static bool unsent(struct tt_boot *b)
{
	bool any;

	pthread_mutex_lock(&b->lock);
	any = !tt_list_empty(&b->outbox);
	pthread_mutex_unlock(&b->lock);
	return any;
}

/*
 * The end: goes up when all ranks below want it, and down when all ranks do. The root counts, so
 * that a rank between two parents at that moment is included.
 */
static void check_bye(struct tt_boot *b)
{
	struct tt_pack k;
	unsigned char buf[4];
	int i, below = 1;

	if (!b->stopping)
		return;
	for (i = 0; i < b->nchildren; i++) {
		const struct tt_child *c = &b->child[i];

		if (!c->link ||
		    c->link->state == TT_LINK_DEAD) /* the ranks below it come by another way */
			continue;
		if (!c->bye)
			return;
		below += c->below;
	}
	if (b->evicted[0] || (tt_tree_is_root(b) && below + b->ngone >= b->nranks)) {
		b->leave_held =
			!b->evicted[0] && !b->solo &&
			((b->handlers.busy && b->handlers.busy(b->handlers.arg)) || unsent(b));
		if (!b->leave_held)
			bye_down(b);
	} else if (b->parent && below != b->bye_said) {
		b->bye_said = below;
		k = (struct tt_pack){.p = buf, .cap = sizeof(buf)};
		tt_put_u(&k, (unsigned)below, 4);
		tt_link_send(b->parent, TT_F_BYE_UP, buf, k.len);
	}
}

static bool all_closed(const struct tt_boot *b)
{
	int i;

	for (i = 0; i < b->nchildren; i++)
		if (b->child[i].link)
			return false;
	return !b->parent;
}

void tt_tree_step(struct tt_boot *b)
{
	if (b->phase == TT_PH_JOIN || b->phase == TT_PH_TREE) {
		pump_table(b);
		check_ready(b);
	}
	if (b->phase == TT_PH_UP)
		check_bye(b);
	if (b->phase == TT_PH_BYE && all_closed(b))
		b->phase = TT_PH_END;
}

static bool waited_for(const struct tt_boot *b, int rank)
{
	int i;

	for (i = 0; i < b->nchildren; i++)
		if (b->child[i].link && b->child[i].link->peer == rank && !b->child[i].bye)
			return true;
	return false;
}

/* The deadline of tt_boot_stop has passed: leaves, so that no rank waits for this one. */
void tt_tree_leave(struct tt_boot *b)
{
	char list[200];

	tt_rank_list(b, waited_for, list, sizeof(list));
	b->error =
		(struct tutti_error_info){.size = sizeof(b->error), .code = -ETIMEDOUT, .rank = -1};
	if (list[0])
		snprintf(b->error.text, sizeof(b->error.text),
			 "not all ranks came to the end in time: rank %s, or a rank below in the "
			 "control "
			 "tree, did not",
			 list);
	else if (b->parent)
		snprintf(
			b->error.text, sizeof(b->error.text),
			"not all ranks came to the end in time: rank %d, this rank's parent in the "
			"control tree, has not agreed to it",
			b->parent->peer);
	else
		snprintf(b->error.text, sizeof(b->error.text),
			 "not all ranks came to the end in time: some have lost their place in the "
			 "control tree and found no new one");
	b->stop_result = -ETIMEDOUT;
	tt_tree_say_gone(b, NULL, NULL, b->rank, b->rank, TT_GONE_LEFT);
	enter_bye(b, tt_deadline_ms(LEAVE_MS));
}

static void deliver(struct tt_boot *b, int from, int type, const void *data, size_t len)
{
	if (type == TT_CTL_TOLD)
		tt_ras_told(b, from, data, len);
	else if (b->handlers.fn[type])
		b->handlers.fn[type](b->handlers.arg, from, data, len);
}

/* Whether a message number is new, as far as remembered; notes it. */
static bool first_time(struct tt_rank_info *from, uint32_t seq)
{
	uint32_t ahead = seq - from->seen, i;
	uint64_t bit = 1ull << seq % 64, *word = &from->seen_bits[seq % TT_SEEN / 64];
	bool first;

	if (ahead && ahead < 1u << 31) {
		for (i = 1; i <= ahead && i <= TT_SEEN; i++)
			from->seen_bits[(from->seen + i) % TT_SEEN / 64] &=
				~(1ull << (from->seen + i) % 64);
		from->seen = seq;
	} else if (from->seen - seq >= TT_SEEN) {
		return false;
	}
	first = !(*word & bit);
	*word |= bit;
	return first;
}

static void route(struct tt_boot *b, const struct tt_link *src, int type, int to, const void *frame,
		  size_t len)
{
	struct tt_link *hop;

	if (to == b->rank || (to >= 0 && b->ranks[to].gone))
		return;
	hop = to == TT_CTL_ALL ? NULL : b->ranks[to].via;
	if (!hop && to != TT_CTL_ALL)
		hop = tt_tree_link(b, tt_tree_hop(b->rank, to));
	if (hop && hop != src && hop->state == TT_LINK_OPEN) {
		tt_link_send(hop, type, frame, len);
		return;
	}
	/* To all ranks; or, if the changed tree gives no next hop, in all directions. */
	tt_tree_around(b, src, type, frame, len);
	tt_tree_hold(b, frame, len);
}

static void on_msg(struct tt_boot *b, struct tt_link *link, bool again, const unsigned char *data,
		   size_t len)
{
	struct tt_unpack u = {.p = data, .len = len};
	int from = (int)(uint32_t)tt_get_u(&u, 4), to = (int)(uint32_t)tt_get_u(&u, 4);
	uint32_t seq = (uint32_t)tt_get_u(&u, 4);
	int type = (int)tt_get_u(&u, 1);

	if (u.bad || from < 0 || from >= b->nranks || to < TT_CTL_ALL || to >= b->nranks ||
	    type < 1 || type >= TT_CTL_TYPES || u.len > TT_CTL_MSG_MAX) {
		tt_link_kill(link, -EPROTO, "it sent a malformed message");
		return;
	}
	if (!first_time(&b->ranks[from], seq) && again)
		return;
	if (!again)
		b->ranks[from].via = link;
	route(b, link, again ? TT_F_AGAIN : TT_F_MSG, to, data, len);
	if (to == b->rank || to == TT_CTL_ALL)
		deliver(b, from, type, u.p, u.len);
}

void tt_tree_send(struct tt_boot *b, const struct tt_outmsg *msg)
{
	unsigned char buf[TT_FRAME_MAX];
	struct tt_pack k = {.p = buf, .cap = sizeof(buf)};

	tt_put_u(&k, (unsigned)b->rank, 4);
	tt_put_u(&k, (uint32_t)msg->to, 4);
	tt_put_u(&k, ++b->msg_seq, 4);
	tt_put_u(&k, msg->type, 1);
	tt_put(&k, msg->data, msg->len);
	first_time(&b->ranks[b->rank], b->msg_seq);
	route(b, NULL, TT_F_MSG, msg->to, buf, k.len);
	if (msg->to == b->rank || msg->to == TT_CTL_ALL)
		deliver(b, b->rank, msg->type, msg->data, msg->len);
}

static void on_bye_up(struct tt_boot *b, struct tt_link *link, struct tt_child *child,
		      struct tt_unpack *u)
{
	uint64_t below = tt_get_u(u, 4);

	if (u->bad || below < 1 || below >= (uint64_t)b->nranks) {
		tt_link_kill(link, -EPROTO, "it sent a malformed goodbye");
		return;
	}
	child->bye = true;
	child->below = (int)below;
}

void tt_tree_frame(struct tt_boot *b, struct tt_link *link, int type, const unsigned char *data,
		   size_t len)
{
	struct tt_child *child = child_of(b, link);
	struct tt_unpack u = {.p = data, .len = len};
	bool up = b->phase == TT_PH_UP, down = link == b->parent;

	if (type == TT_F_BEAT)
		tt_ctl_heard(b, len);
	if (b->phase > TT_PH_UP || type == TT_F_BEAT)
		return;
	if ((type == TT_F_MSG || type == TT_F_AGAIN) && up)
		on_msg(b, link, type == TT_F_AGAIN, data, len);
	else if (type == TT_F_GONE && up)
		tt_tree_on_gone(b, link, &u);
	else if (type == TT_F_BYE_UP && up && child)
		on_bye_up(b, link, child, &u);
	else if (type == TT_F_BYE_DOWN && up && down)
		bye_down(b);
	else if (type == TT_F_ENTRY && !up && down)
		on_entry(b, link, &u);
	else if (type == TT_F_READY && !up && child)
		child->ready = true;
	else if (type == TT_F_GO && !up && down)
		go(b);
	else
		tt_link_kill(link, -EPROTO, "it sent an unexpected frame of type %d", type);
}

void tt_tree_lost(struct tt_boot *b, struct tt_link *link)
{
	struct tt_child *child = child_of(b, link);
	int rank = link->peer;

	if (link != b->parent && !child)
		return;
	if (child)
		*child = (struct tt_child){0};
	else
		b->parent = NULL;
	if (b->phase < TT_PH_UP && b->done)
		tt_start_done(b); /* the tree stood, and lost this neighbour at once */
	if (b->phase < TT_PH_UP)
		tt_start_fail(b, -TUTTI_EBOOT, rank, b->ranks[rank].host,
			      "rank %d (%s) was lost during the start: %s", rank, link->peer_addr,
			      link->why);
	else if (b->phase == TT_PH_UP)
		tt_tree_cut(b, link);
}

static void beat(struct tt_boot *b, struct tt_link *link, uint64_t now)
{
	char why[80];

	if (!link || link->state != TT_LINK_OPEN || link->closing)
		return;
	if (b->phase == TT_PH_UP && now > link->last_rx && now - link->last_rx > b->limit_ns &&
	    !tt_link_has_input(link)) {
		snprintf(why, sizeof(why), "it was silent for %llu ms",
			 (unsigned long long)((now - link->last_rx) / TT_MS));
		if (!tt_ctl_doubts(b)) {
			tt_tree_say_gone(b, link, NULL, link->peer, b->rank, why);
			tt_link_flush(link);
		}
		tt_link_kill(link, -ETIMEDOUT, "%s", why);
	} else if (now >= link->last_tx + b->beat_ns) {
		tt_ctl_beat(b, link);
	}
}

void tt_tree_beats(struct tt_boot *b, uint64_t now)
{
	int i;

	beat(b, b->parent, now);
	for (i = 0; i < b->nchildren; i++)
		beat(b, b->child[i].link, now);
}
