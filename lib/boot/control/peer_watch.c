/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control tree when several ranks have failed: every rank, live or dying, is watched by some
 * rank.
 *
 * For every set of failed ranks each other rank has one parent, which all ranks compute alike
 * (next_parent). A tree link watches both its ends. A rank that should have a child, and has no
 * link to it, watches that child here: it connects to the child's listener and reports the failed
 * ranks. A live child then comes to its place; a dead one refuses the connection; a stopped one is
 * silent for TUTTI_HEARTBEAT_LIMIT. Parents have smaller ranks than their children, and an orphan
 * finds by itself which of its possible parents are dead. By induction over the ranks every death
 * is found, whichever ranks die together.
 *
 * Silences are waited for concurrently: a rank that has been silent for a while is *suspect*.
 * Suspects keep their place in the tree, but a rank also watches the parents and children that it
 * would have without them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/boot/control/control.h"
#include "lib/boot/rendezvous/pack.h"
#include "lib/boot/control/control_tree.h"

#define WATCH_MAX 128 /* connections at once; further ones wait */
#define GRACE_MS 20   /* for a child to come by itself */
#define PAUSE_MS 50   /* between two tries */
#define SUSPECT_MIN_MS 40
#define SUSPECT_PART 16 /* of the limit: a rank silent for longer is suspect */

/* A rank that is watched without a tree link. */
struct watch {
	struct tt_list node;
	int rank;
	bool wanted;
	uint64_t heard, next_try; /* heard: the last arrival, or the start of the watch */
	struct tt_link *link;
	char last[128]; /* why the last try failed */
};

static struct watch *find(const struct tt_boot *b, int rank)
{
	struct tt_list *pos, *tmp;

	tt_list_each(pos, tmp, &b->watches) if (tt_container(pos, struct watch, node)->rank ==
						rank) return tt_container(pos, struct watch, node);
	return NULL;
}

static void end_watch(struct tt_boot *b, struct watch *w)
{
	struct tt_link *link = w->link;

	tt_list_del(&w->node);
	b->nwatches--;
	b->ranks[w->rank].suspect = false;
	free(w);
	if (link)
		tt_link_kill(link, -ECANCELED, "not wanted any more");
}

void tt_watch_end(struct tt_boot *b)
{
	struct tt_list *pos, *tmp;

	tt_list_each(pos, tmp, &b->watches) end_watch(b, tt_container(pos, struct watch, node));
}

/* ---- which ranks to watch ---- */

static bool out(const struct tt_boot *b, int rank)
{
	return b->ranks[rank].gone || b->ranks[rank].suspect;
}

/* The next ancestor of rank that is in the set, or the lowest rank in it. */
static int parent_without(const struct tt_boot *b, int rank, int lowest)
{
	int r;

	for (r = tt_tree_parent(rank); r >= 0; r = tt_tree_parent(r))
		if (!out(b, r))
			return r;
	return lowest;
}

static void want(struct tt_boot *b, int rank)
{
	struct watch *w = find(b, rank);

	if (!w && b->nwatches < WATCH_MAX && (w = calloc(1, sizeof(*w)))) {
		w->rank = rank;
		w->heard = tt_now_ns();
		w->next_try = w->heard + GRACE_MS * TT_MS;
		tt_list_add(&b->watches, &w->node);
		b->nwatches++;
	}
	if (w)
		w->wanted = true;
}

/* Watches a possible parent; returns whether to watch another one as well. */
static bool want_parent(struct tt_boot *b, int rank, int *suspects, int *others)
{
	if (b->ranks[rank].gone)
		return true;
	if (!tt_tree_link(b, rank))
		want(b, rank);
	*suspects += b->ranks[rank].suspect;
	*others += !b->ranks[rank].suspect;
	return *others <= *suspects; /* so the number of watched ranks doubles with time */
}

static void want_parents(struct tt_boot *b)
{
	int r, suspects = 0, others = 0;

	if (b->parent && !out(b, b->parent->peer))
		return;
	for (r = tt_tree_parent(b->rank); r >= 0; r = tt_tree_parent(r))
		if (!want_parent(b, r, &suspects, &others))
			return;
	for (r = 0; r < b->rank; r++)
		if (!want_parent(b, r, &suspects, &others))
			return;
}

static void want_children(struct tt_boot *b)
{
	int r, lowest = 0;

	while (lowest < b->rank && out(b, lowest))
		lowest++;
	for (r = b->rank + 1; r < b->nranks; r++)
		if (!b->ranks[r].gone && parent_without(b, r, lowest) == b->rank &&
		    !tt_tree_link(b, r))
			want(b, r);
}

static void choose(struct tt_boot *b)
{
	struct tt_list *pos, *tmp;

	tt_list_each(pos, tmp, &b->watches) tt_container(pos, struct watch, node)->wanted = false;
	want_parents(b);
	want_children(b);
	tt_list_each(pos, tmp, &b->watches)
	{
		struct watch *w = tt_container(pos, struct watch, node);

		if (!w->wanted)
			end_watch(b, w);
	}
	b->watch_again = false;
}

/* ---- silence ---- */

static uint64_t patience(const struct tt_boot *b)
{
	uint64_t part = b->limit_ns / SUSPECT_PART;

	return part > SUSPECT_MIN_MS * TT_MS ? part : SUSPECT_MIN_MS * TT_MS;
}

static void suspect(struct tt_boot *b, int rank, bool is)
{
	b->watch_again |= b->ranks[rank].suspect != is;
	b->ranks[rank].suspect = is;
}

static void look_at_link(struct tt_boot *b, const struct tt_link *link, uint64_t now)
{
	if (link && link->state == TT_LINK_OPEN)
		suspect(b, link->peer, now > link->last_rx + b->limit_ns / 2);
}

static void look_at_watch(struct tt_boot *b, struct watch *w, uint64_t now)
{
	if (w->link && w->link->state == TT_LINK_OPEN)
		w->heard = w->link->last_rx;
	suspect(b, w->rank, now > w->heard + patience(b));
}

static void look(struct tt_boot *b, uint64_t now)
{
	struct tt_list *pos, *tmp;
	int i;

	tt_list_each(pos, tmp, &b->watches)
		look_at_watch(b, tt_container(pos, struct watch, node), now);
	look_at_link(b, b->parent, now);
	for (i = 0; i < b->nchildren; i++)
		look_at_link(b, b->child[i].link, now);
}

/* ---- connections ---- */

static void dial(struct tt_boot *b, struct watch *w, uint64_t now)
{
	const struct tt_addr *addr = w->rank ? &b->ranks[w->rank].listen : &b->store;
	int err;

	w->next_try = now + PAUSE_MS * TT_MS;
	err = tt_link_connect((const struct sockaddr *)&addr->sa, addr->len, TT_LINK_WATCH, w->rank,
			      &b->self, &tt_ctl_link_ops, b, now + b->limit_ns, &w->link);
	if (!err) {
		tt_ctl_add_link(b, w->link);
		return;
	}
	w->link = NULL;
	snprintf(w->last, sizeof(w->last), "%s", strerror(-err));
	if (err == -ECONNREFUSED)
		w->heard = 0;
}

/* The reason why the rank is dead; NULL: it may live. */
static const char *verdict(const struct tt_boot *b, const struct watch *w, uint64_t now, char *text,
			   size_t size)
{
	if (!w->heard) /* no process listens at its address: it has ended */
		snprintf(text, size, "it can't be reached: %s", w->last);
	else if (now > w->heard + b->limit_ns && !(w->link && tt_link_has_input(w->link)))
		snprintf(text, size, "it was silent for %llu ms%s%s",
			 (unsigned long long)((now - w->heard) / TT_MS), w->last[0] ? ": " : "",
			 w->last);
	else
		return NULL;
	return text;
}

/* Returns whether the list may have changed. */
static bool step(struct tt_boot *b, struct watch *w, uint64_t now)
{
	char why[200];

	if (!w->link && w->heard && now >= w->next_try)
		dial(b, w, now);
	if (!verdict(b, w, now, why, sizeof(why)))
		return false;
	tt_tree_found_gone(b, w->rank, why);
	return true;
}

static void beat(struct tt_boot *b, uint64_t now)
{
	struct tt_list *pos, *tmp;

	tt_list_each(pos, tmp, &b->links)
	{
		struct tt_link *link = tt_container(pos, struct tt_link, node);

		if (link->kind == TT_LINK_WATCH && now >= link->last_tx + b->beat_ns)
			tt_ctl_beat(b, link);
	}
}

void tt_watch_timers(struct tt_boot *b, uint64_t now)
{
	struct tt_list *pos, *tmp;
	bool again;

	if (b->phase != TT_PH_UP || b->evicted[0])
		return;
	beat(b, now);
	do {
		again = false;
		look(b, now);
		if (b->watch_again || b->nwatches)
			choose(b);
		tt_list_each(pos, tmp,
			     &b->watches) if (step(b, tt_container(pos, struct watch, node), now))
		{
			again = true;
			break;
		}
	} while (again && !b->evicted[0]);
}

uint64_t tt_watch_next(const struct tt_boot *b, uint64_t next)
{
	uint64_t at = tt_now_ns() + (b->nwatches ? GRACE_MS * TT_MS : b->limit_ns / 8);

	return at < next ? at : next;
}

void tt_watch_paused(struct tt_boot *b, uint64_t now, uint64_t excused)
{
	struct tt_list *pos, *tmp;

	tt_list_each(pos, tmp, &b->watches)
	{
		struct watch *w = tt_container(pos, struct watch, node);

		w->heard = w->heard ? tt_ctl_excuse(w->heard, now, excused) : 0;
	}
}

/* Both ends exchange which ranks have failed. */
void tt_watch_open(struct tt_boot *b, struct tt_link *link)
{
	if (b->phase != TT_PH_UP || link->peer == b->rank)
		tt_link_kill(link, -EPROTO, "it is not time to be watched");
	else if (b->ranks[link->peer].gone)
		tt_tree_turn_away(b, link);
	else
		tt_tree_tell_gone(b, link);
}

void tt_watch_frame(struct tt_boot *b, struct tt_link *link, int type, const unsigned char *data,
		    size_t len)
{
	struct tt_unpack u = {.p = data, .len = len};

	if (type == TT_F_BEAT)
		tt_ctl_heard(b, len);
	if (b->phase != TT_PH_UP || type == TT_F_BEAT)
		return;
	if (type == TT_F_GONE)
		tt_tree_on_gone(b, link, &u);
	else
		tt_link_kill(link, -EPROTO, "it sent an unexpected frame of type %d", type);
}

void tt_watch_lost(struct tt_boot *b, struct tt_link *link)
{
	struct watch *w = link->server ? NULL : find(b, link->peer);

	if (!w || w->link != link)
		return;
	w->link = NULL;
	snprintf(w->last, sizeof(w->last), "%s", link->why);
	if (link->err == -ECONNREFUSED || link->err == -ESTALE)
		w->heard = 0;
	w->next_try = tt_now_ns() + (link->rx ? 0 : PAUSE_MS * TT_MS);
}
