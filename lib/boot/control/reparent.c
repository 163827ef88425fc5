/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Repair of the control tree after ranks have failed.
 *
 * The set of failed ranks only grows. It is flooded over the tree; the reason is that of the lowest
 * reporting rank, so all survivors end with the same list. A rank that finds itself in the set has
 * been taken for dead: it cuts its links and never connects again.
 *
 * A rank that loses its parent connects to the next live ancestor. Without one it connects to the
 * lowest live rank, which is then a root. Parents always have smaller ranks than their children, so
 * there are no cycles. Both ends of a new link exchange their sets of failed ranks. They also
 * repeat (AGAIN) the messages sent while the tree was in pieces, if these were for all ranks or for
 * ranks without a known place. They repeat all that they hold: one end can have noticed the failure
 * long before the other, which had no processor. Messages are numbered, so none is delivered twice.
 * Messages inside a process that dies are lost: senders repeat what matters after each failure.
 *
 * The next hop to a rank is computed (control_tree.h) while the computed link exists. Otherwise it
 * is learnt from the links over which that rank was heard. If neither gives a hop, the message goes
 * to all neighbours.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/log.h"
#include "lib/boot/control/control.h"
#include "lib/boot/rendezvous/pack.h"
#include "lib/boot/control/control_tree.h"

#define HELD_MAX (TT_LINK_QUEUE / 4) /* with headers, all of it has to fit a link's queue */
#define SETTLE_MS 3000 /* plus twice the heartbeat limit: by then all ranks have a place again */

/* A frame of type MSG. */
struct held {
	struct tt_list node;
	size_t len;
	unsigned char frame[];
};

bool tt_tree_is_root(const struct tt_boot *b)
{
	return !b->parent && !b->dialer.active && !b->evicted[0];
}

void tt_tree_say_gone(struct tt_boot *b, struct tt_link *to, const struct tt_link *except, int rank,
		      int by, const char *why)
{
	unsigned char buf[512];
	struct tt_pack k = {.p = buf, .cap = sizeof(buf)};
	struct tt_list *pos, *tmp;

	tt_put_u(&k, (unsigned)rank, 4);
	tt_put_u(&k, (unsigned)by, 4);
	tt_put_str(&k, why);
	if (to) {
		tt_link_send(to, TT_F_GONE, buf, k.len);
		return;
	}
	tt_tree_around(b, except, TT_F_GONE, buf, k.len);
	tt_list_each(pos, tmp, &b->links)
	{
		struct tt_link *link = tt_container(pos, struct tt_link, node);

		if (link->kind == TT_LINK_WATCH && link != except)
			tt_link_send(link, TT_F_GONE, buf, k.len);
	}
}

/* Returns whether this is news: a new rank, or a reason that takes precedence. */
static bool record(struct tt_boot *b, int rank, int by, const char *why)
{
	struct tt_rank_info *info = &b->ranks[rank];
	char *copy;

	if (info->gone && info->gone_by <= by)
		return false;
	copy = strdup(why);
	pthread_mutex_lock(&b->lock);
	free(info->gone_why);
	info->gone_why = copy;
	info->gone_by = by;
	b->ngone += !info->gone;
	info->gone = true;
	pthread_mutex_unlock(&b->lock);
	return true;
}

/* The next live ancestor, else the lowest live rank; -1: this rank itself. */
static int next_parent(const struct tt_boot *b)
{
	int r;

	for (r = tt_tree_parent(b->rank); r >= 0; r = tt_tree_parent(r))
		if (!b->ranks[r].gone)
			return r;
	for (r = 0; r < b->rank; r++)
		if (!b->ranks[r].gone)
			return r;
	return -1;
}

static void seek_parent(struct tt_boot *b)
{
	int rank = next_parent(b);

	b->dialer.active = false;
	if (rank < 0 || b->evicted[0])
		return;
	tt_dial(b, TT_LINK_TREE, rank);
	b->dialer.addrs[0] = rank ? b->ranks[rank].listen : b->store;
	b->dialer.n = 1;
	b->dialer.until = tt_now_ns() + b->limit_ns;
	tt_dial_timer(b, tt_now_ns());
}

static void drop_dialer(struct tt_boot *b)
{
	struct tt_link *link = b->dialer.link;

	b->dialer.active = false;
	b->dialer.link = NULL;
	if (link)
		tt_link_kill(link, -ECANCELED, "not wanted any more");
}

void tt_tree_gone(struct tt_boot *b, const struct tt_link *from, int rank, int by, const char *why)
{
	bool fresh = !b->ranks[rank].gone;
	struct tt_link *link;

	if (!record(b, rank, by, why))
		return;
	tt_tree_say_gone(b, NULL, from, rank, by, why);
	if (!fresh)
		return;
	b->watch_again = true;
	b->unsettled = tt_deadline_ms(SETTLE_MS) + 2 * b->limit_ns;
	link = tt_tree_link(b, rank);
	if (link) { /* it has just been told */
		tt_link_flush(link);
		tt_link_kill(link, -ECONNABORTED, "it was taken for dead");
	}
	if (b->dialer.active && b->dialer.peer == rank) {
		drop_dialer(b);
		seek_parent(b);
	}
	tt_info("rank %d of host %s is gone: %s", rank, b->ranks[rank].host, why);
	if (b->handlers.gone)
		b->handlers.gone(b->handlers.arg, rank, b->ranks[rank].host, why);
}

static void detach(struct tt_boot *b, struct tt_link **link)
{
	struct tt_link *l = *link;
	int r;

	for (r = 0; r < b->nranks; r++)
		if (b->ranks[r].via == l)
			b->ranks[r].via = NULL;
	*link = NULL;
	tt_link_kill(l, -ECONNABORTED, "cut off");
}

/* The other ranks have taken this rank for dead and ignore it: it must not go on. */
static void evicted(struct tt_boot *b, const char *why)
{
	int i;

	if (b->evicted[0])
		return;
	snprintf(b->evicted, sizeof(b->evicted), "%s", why[0] ? why : "?");
	record(b, b->rank, b->rank, b->evicted);
	drop_dialer(b);
	tt_watch_end(b);
	if (b->parent)
		detach(b, &b->parent);
	for (i = 0; i < b->nchildren; i++)
		if (b->child[i].link)
			detach(b, &b->child[i].link);
	tt_warn("the other ranks have cut this one off: %s", why);
	if (b->handlers.gone)
		b->handlers.gone(b->handlers.arg, b->rank, b->host, b->evicted);
}

/*
 * A rank that could not run for the limit has been taken for dead by those that could, and they may
 * have ended since, so that nobody is left to tell it. If it then finds another rank gone, it must
 * not go on without that one: it would take itself for the only survivor.
 */
void tt_tree_found_gone(struct tt_boot *b, int rank, const char *why)
{
	char text[TT_GONE_WHY];

	if (b->ranks[rank].gone || !tt_ctl_doubts(b)) {
		tt_tree_gone(b, NULL, rank, b->rank, why);
		return;
	}
	snprintf(text, sizeof(text), "it was silent for %llu ms, and rank %d is gone: %.100s",
		 (unsigned long long)(b->silent / TT_MS), rank, why);
	tt_tree_evict(b, b->rank, text);
}

void tt_tree_evict(struct tt_boot *b, int rank, const char *why)
{
	int i;

	if (rank != b->rank) {
		tt_tree_gone(b, NULL, rank, b->rank, why);
		return;
	}
	tt_tree_say_gone(b, NULL, NULL, rank, rank, why);
	if (b->parent)
		tt_link_flush(b->parent);
	for (i = 0; i < b->nchildren; i++)
		if (b->child[i].link)
			tt_link_flush(b->child[i].link);
	evicted(b, why);
}

void tt_tree_on_gone(struct tt_boot *b, struct tt_link *link, struct tt_unpack *u)
{
	int rank = (int)(uint32_t)tt_get_u(u, 4), by = (int)(uint32_t)tt_get_u(u, 4);
	char why[TT_GONE_WHY];

	tt_get_str(u, why, sizeof(why));
	if (u->bad || rank < 0 || rank >= b->nranks || by < 0 || by >= b->nranks)
		tt_link_kill(link, -EPROTO, "it sent a malformed notice");
	else if (rank == b->rank)
		evicted(b, why);
	else
		tt_tree_gone(b, link, rank, by, why);
}

void tt_tree_cut(struct tt_boot *b, struct tt_link *link)
{
	int r, rank = link->peer;

	for (r = 0; r < b->nranks; r++)
		if (b->ranks[r].via == link)
			b->ranks[r].via = NULL;
	if (b->evicted[0])
		return;
	if (link->err == -ENOMEM) { /* the fault is here, not at the other end */
		tt_tree_evict(b, b->rank, link->why);
		return;
	}
	if (!b->ranks[rank].gone) /* otherwise another rank has given the reason */
		tt_tree_found_gone(b, rank, link->why);
	if (b->evicted[0])
		return;
	b->unsettled = tt_deadline_ms(SETTLE_MS) + 2 * b->limit_ns;
	if (!b->parent && !b->dialer.active) {
		b->bye_said = 0;
		seek_parent(b);
	}
}

void tt_tree_tell_gone(struct tt_boot *b, struct tt_link *link)
{
	int r;

	for (r = 0; r < b->nranks; r++)
		if (b->ranks[r].gone)
			tt_tree_say_gone(b, link, NULL, r, b->ranks[r].gone_by,
					 b->ranks[r].gone_why ? b->ranks[r].gone_why : "");
}

/* Repeats all held messages: the other end of a new link may have missed them. */
static void catch_up(struct tt_boot *b, struct tt_link *link)
{
	struct tt_list *pos, *tmp;

	tt_list_each(pos, tmp, &b->held)
	{
		struct held *h = tt_container(pos, struct held, node);

		tt_link_send(link, TT_F_AGAIN, h->frame, h->len);
	}
}

void tt_tree_attached(struct tt_boot *b, struct tt_link *link)
{
	tt_info("rank %d is this rank's parent in the control tree now", link->peer);
	b->bye_said = 0;
	b->watch_again = true;
	tt_tree_tell_gone(b, link);
	catch_up(b, link);
}

static struct tt_child *free_place(struct tt_boot *b)
{
	struct tt_child *more;
	int i;

	for (i = 0; i < b->nchildren; i++)
		if (!b->child[i].link)
			return &b->child[i];
	more = realloc(b->child, ((size_t)b->nchildren + 8) * sizeof(*more));
	if (!more)
		return NULL;
	b->child = more;
	memset(more + b->nchildren, 0, 8 * sizeof(*more));
	b->nchildren += 8;
	return &b->child[b->nchildren - 8];
}

void tt_tree_turn_away(struct tt_boot *b, struct tt_link *link)
{
	const struct tt_rank_info *info = &b->ranks[link->peer];

	tt_tree_say_gone(b, link, NULL, link->peer, info->gone_by,
			 info->gone_why ? info->gone_why : "");
	tt_link_close_after(link, tt_deadline_ms(1000));
	tt_warn("rank %d, which was taken for dead, came back and was turned away", link->peer);
}

bool tt_tree_adopt(struct tt_boot *b, struct tt_link *link)
{
	struct tt_link *old = tt_tree_link(b, link->peer);
	struct tt_child *place;
	int i;

	if (b->ranks[link->peer].gone) {
		tt_tree_turn_away(b, link);
		return false;
	}
	for (i = 0; old && i < b->nchildren; i++)
		if (b->child[i].link == old)
			detach(b, &b->child[i].link);
	place = link->peer > b->rank && !b->evicted[0] ? free_place(b) : NULL;
	if (!place) {
		tt_link_kill(link, -EPROTO, "it can't be a child of this rank");
		return false;
	}
	*place = (struct tt_child){.link = link};
	b->watch_again = true;
	tt_tree_tell_gone(b, link);
	catch_up(b, link);
	return true;
}

bool tt_tree_dial_failed(struct tt_boot *b, int err, const char *why)
{
	int rank = b->dialer.peer;
	char text[200];

	/* no process, or another process, listens at its address: it has ended */
	if (err != -ECONNREFUSED && err != -ESTALE && !tt_passed(b->dialer.until))
		return true;
	if (err == -ENOMEM) { /* the fault is here, not at the other end */
		tt_tree_evict(b, b->rank, why);
		return false;
	}
	snprintf(text, sizeof(text), "it can't be reached: %.160s", why);
	tt_tree_found_gone(b, rank, text);
	return false;
}

/* Ranks may miss what is not held. Most of it is repeated by its senders, but not all. */
static void say_not_held(struct tt_boot *b, bool full)
{
	char kept[32];

	if (b->hold_failed)
		return;
	b->hold_failed = true;
	snprintf(kept, sizeof(kept), "%u MiB are kept", HELD_MAX >> 20);
	tt_err("control messages cannot be kept for ranks that have lost their place in the "
	       "control tree: %s; such a rank may wait until TUTTI_TIMEOUT",
	       full ? kept : "no memory");
}

void tt_tree_hold(struct tt_boot *b, const void *frame, size_t len)
{
	bool full = b->held_bytes + len > HELD_MAX;
	struct held *h;

	if (b->phase != TT_PH_UP || b->evicted[0] || tt_passed(b->unsettled))
		return;
	h = full ? NULL : malloc(sizeof(*h) + len);
	if (!h) {
		say_not_held(b, full);
		return;
	}
	h->len = len;
	memcpy(h->frame, frame, len);
	b->held_bytes += len;
	tt_list_add(&b->held, &h->node);
}

void tt_tree_settle(struct tt_boot *b, uint64_t now)
{
	struct tt_list *pos, *tmp;

	if (now < b->unsettled)
		return;
	tt_list_each(pos, tmp, &b->held)
	{
		tt_list_del(pos);
		free(tt_container(pos, struct held, node));
	}
	b->held_bytes = 0;
	b->hold_failed = false;
}

bool tt_boot_is_control(const struct tt_boot *b)
{
	return pthread_equal(pthread_self(), b->thread);
}

/* Called from a handler, in the control thread: declares no rank failed and frees nothing. */
void tt_boot_beat(struct tt_boot *b)
{
	uint64_t now = tt_now_ns();
	struct tt_list *pos, *tmp;

	tt_ctl_runs(b);
	tt_list_each(pos, tmp, &b->links)
	{
		struct tt_link *link = tt_container(pos, struct tt_link, node);

		if (link->kind == TT_LINK_TREE && link->state == TT_LINK_OPEN && !link->closing &&
		    now >= link->last_tx + b->beat_ns)
			tt_ctl_beat(b, link);
		tt_link_flush(link);
	}
}
