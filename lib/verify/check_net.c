/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the calls that are checked together: the queue of what can go on, the pairs of ranks,
 * and the pieces of their messages.
 *
 * The seed decides whether the oldest, the newest or a random entry of the queue goes on. With a
 * script, lanes and offer rings go on first, the oldest before others; once none can, the script
 * chooses which piece is sent or arrives next, or which rank starts which call. With opts->any_lane
 * it chooses lanes, too.
 *
 * A message that has its offer is cut into pieces of opts->piece bytes. The sender's pair has at
 * most opts->window of them under way, of all calls. The next one sent is any that can be, which
 * includes the one of highest priority whatever the priorities are; the next one to arrive is any
 * under way. The window counts pieces, and each leaves it when it arrives. The offer is memory for
 * the whole message: a piece always has its place. opts->places plants the fault of a receiver that
 * has places for all messages together instead.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/hash.h"
#include "lib/verify/check_int.h"

int tt_ck_net_init(struct ck_net *net)
{
	size_t ranks = (size_t)net->n, room = ranks * ranks;
	int i;

	for (i = 0; i < net->ncalls; i++)
		room += (size_t)net->call[i].nlanes + 2 * ranks;
	net->pairs = calloc(ranks * ranks, sizeof(*net->pairs));
	net->queue = calloc(room, sizeof(*net->queue));
	net->turns = calloc((size_t)net->ncalls * ranks, sizeof(*net->turns));
	net->slots = calloc(2 * (size_t)net->ncalls * ranks, sizeof(*net->slots));
	return net->pairs && net->queue && net->turns && net->slots ? 0 : -ENOMEM;
}

static void cut_free(struct ck_cut *cut)
{
	free(cut->payload);
	free(cut);
}

void tt_ck_net_free(struct ck_net *net)
{
	struct ck_cut *cut;
	int i;

	for (i = 0; net->pairs && i < net->n * net->n; i++)
		while ((cut = net->pairs[i].cuts)) {
			net->pairs[i].cuts = cut->next;
			cut_free(cut);
		}
	free(net->pairs);
	free(net->queue);
	free(net->turns);
	free(net->slots);
}

static int pair_number(const struct tt_checker *c, const struct ck_msg *m)
{
	return ck_lane_of(c, &c->ops[m->send])->rank * c->n + ck_lane_of(c, &c->ops[m->recv])->rank;
}

struct ck_pair *tt_ck_pair(struct tt_checker *c, const struct ck_msg *m)
{
	return &c->net->pairs[pair_number(c, m)];
}

/* ---- pieces ---- */

int tt_ck_cut(struct tt_checker *c, uint32_t msg, struct ck_val *payload)
{
	struct ck_pair *pair = tt_ck_pair(c, &c->msgs[msg]);
	size_t len = c->ops[c->msgs[msg].send].op.len, piece = c->opts.piece ? c->opts.piece : 1;
	struct ck_cut *cut = calloc(1, sizeof(*cut));

	if (!cut) {
		free(payload);
		return -ENOMEM;
	}
	*cut = (struct ck_cut){.c = c,
			       .msg = msg,
			       .pieces = len ? (len + piece - 1) / piece : 1,
			       .payload = payload,
			       .next = pair->cuts};
	pair->cuts = cut;
	tt_ck_enqueue(c->net, (struct ck_item){NULL, CK_PIECES, pair_number(c, &c->msgs[msg]), 0},
		      &pair->queued);
	return 0;
}

static bool can_send(const struct ck_net *net, const struct ck_pair *pair, const struct ck_cut *cut)
{
	return cut->sent < cut->pieces && pair->under_way < (uint64_t)net->opts.window &&
	       (!net->opts.places || pair->places < (uint64_t)net->opts.places);
}

/*
 * How many messages of a pair can send a piece, and how many can have one arrive. *cut: the one
 * that is chosen among them, *arrives: which of the two; NULL: only count.
 */
static int possible(const struct ck_net *net, const struct ck_pair *pair, int chosen,
		    struct ck_cut **cut, bool *arrives)
{
	struct ck_cut *x;
	int n = 0;

	for (x = pair->cuts; x; x = x->next) {
		if (can_send(net, pair, x) && n++ == chosen && cut) {
			*cut = x;
			*arrives = false;
		}
		if (x->landed < x->sent && n++ == chosen && cut) {
			*cut = x;
			*arrives = true;
		}
	}
	return n;
}

/* The last piece has come. */
static int finish(struct ck_pair *pair, struct ck_cut *cut)
{
	struct ck_cut **at = &pair->cuts;
	int err;

	while (*at != cut)
		at = &(*at)->next;
	*at = cut->next;
	pair->places -= cut->pieces;
	err = tt_ck_delivered(cut->c, cut->msg, cut->payload);
	cut_free(cut);
	return err;
}

int tt_ck_piece(struct ck_net *net, int number, int action)
{
	struct ck_pair *pair = &net->pairs[number];
	int n = possible(net, pair, 0, NULL, NULL), err = 0;
	struct ck_cut *cut = NULL;
	bool arrives = false;

	pair->queued = false;
	if (!n)
		return 0;
	if (action < 0)
		action = (int)(tt_random(&net->random) % (uint64_t)n);
	possible(net, pair, action, &cut, &arrives);
	if (!arrives) {
		cut->sent++;
		pair->under_way++;
		pair->places++;
	} else {
		pair->under_way--;
		if (++cut->landed == cut->pieces)
			err = finish(pair, cut);
	}
	if (possible(net, pair, 0, NULL, NULL))
		tt_ck_enqueue(net, (struct ck_item){NULL, CK_PIECES, number, 0}, &pair->queued);
	return err;
}

/* ---- who goes on ---- */

void tt_ck_enqueue(struct ck_net *net, struct ck_item item, bool *queued)
{
	if (*queued)
		return;
	*queued = true;
	net->queue[net->nqueue++] = item;
}

static int by_seed(struct ck_net *net)
{
	uint64_t r = tt_random(&net->random);

	switch (net->opts.seed % 3) {
	case 0: /* mostly the oldest: breadth first */
		return r % 8 ? 0 : (int)(r / 8 % (uint64_t)net->nqueue);
	case 1: /* the newest: one lane runs as far as it can */
		return net->nqueue - 1;
	default:
		return (int)(r % (uint64_t)net->nqueue);
	}
}

/* How many things of an entry may be chosen. */
static int actions(const struct ck_net *net, const struct ck_item *item)
{
	return item->kind == CK_PIECES ? possible(net, &net->pairs[item->which], 0, NULL, NULL) : 1;
}

/* *at: the entry that goes on; returns as tt_ck_dequeue. */
static int by_script(struct ck_net *net, int *at)
{
	int i, n = 0, rc, choice = 0;

	for (i = 0; i < net->nqueue; i++) {
		*at = i;
		if ((net->queue[i].kind == CK_LANE && !net->opts.any_lane) ||
		    net->queue[i].kind == CK_RING)
			return 1;
		n += actions(net, &net->queue[i]);
	}
	rc = n ? tt_ck_choose(net, n, &choice) : 0;
	for (i = 0; rc > 0; i++) {
		n = actions(net, &net->queue[i]);
		if (choice < n)
			break;
		choice -= n;
	}
	*at = i;
	if (rc > 0)
		net->queue[i].action = choice;
	return rc;
}

int tt_ck_dequeue(struct ck_net *net, struct ck_item *item)
{
	int i, rc;

	if (!net->nqueue)
		return 0;
	if (net->script) {
		rc = by_script(net, &i);
		if (rc <= 0)
			return rc;
	} else {
		i = by_seed(net);
		net->queue[i].action = -1;
	}
	*item = net->queue[i];
	net->nqueue--;
	memmove(net->queue + i, net->queue + i + 1, (size_t)(net->nqueue - i) * sizeof(*item));
	return 1;
}
