/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames from authenticated peers, as rank 0's store, as a rank that joins, as one of the tree,
 * and at the gate.
 */
#include <assert.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/boot/control/control.h"
#include "lib/boot/rendezvous/admission.h"
#include "lib/boot/control/control_tree.h"
#include "tests/fuzz/fuzz.h"

#define RANKS 12
#define LINKS 4

static size_t touched;

static void on_msg(void *arg, int from, const void *data, size_t len)
{
	assert(from >= 0 && from < RANKS && len <= TT_CTL_MSG_MAX);
	touched += len ? ((const unsigned char *)data)[len - 1] : 0;
}

static void on_gone(void *arg, int rank, const char *host, const char *why)
{
	assert(rank >= 0 && rank < RANKS);
	touched += strlen(why);
}

static struct tt_boot *boot_new(int rank, enum tt_phase phase)
{
	struct tt_boot *b = calloc(1, sizeof(*b));
	int i;

	b->rank = b->self.rank = rank;
	b->nranks = b->self.nranks = RANKS;
	strcpy(b->self.version, "1");
	strcpy(b->host, "here");
	b->params.nranks = RANKS;
	b->params.rank = rank;
	b->params.listen_fd = -1;
	b->ranks = calloc(RANKS, sizeof(*b->ranks));
	b->phase = phase;
	b->entered = true;
	b->epfd = b->wakefd = b->listenfd = b->ras_fd = b->ras_key = -1;
	b->nchildren = tt_tree_children(rank, RANKS);
	b->child = calloc((size_t)b->nchildren + 1, sizeof(*b->child));
	tt_list_init(&b->held);
	b->start_deadline = tt_deadline_ms(60000);
	pthread_mutex_init(&b->lock, NULL);
	pthread_cond_init(&b->cond, NULL);
	tt_list_init(&b->outbox);
	tt_list_init(&b->links);
	tt_list_init(&b->graves);
	tt_list_init(&b->watches);
	for (i = 1; i < TT_CTL_TYPES; i++)
		b->handlers.fn[i] = on_msg;
	b->handlers.gone = on_gone;
	tt_tree_entry(b, rank, "here", "card", 4);
	return b;
}

static void boot_free(struct tt_boot *b)
{
	int r;

	tt_watch_end(b);
	tt_tree_settle(b, TT_NEVER);
	for (r = 0; r < RANKS; r++) {
		free(b->ranks[r].host);
		free(b->ranks[r].card);
		free(b->ranks[r].gone_why);
	}
	free(b->ranks);
	free(b->child);
	pthread_mutex_destroy(&b->lock);
	pthread_cond_destroy(&b->cond);
	free(b);
}

/* An open connection to rank peer without a remote end: sent data stays in its queue. */
static struct tt_link *link_new(struct tt_boot *b, enum tt_link_kind kind, int peer, bool server)
{
	struct tt_link *l = calloc(1, sizeof(*l));
	unsigned char header[crypto_secretstream_xchacha20poly1305_HEADERBYTES], key[32] = {0};

	tt_list_init(&l->node);
	l->ops = &tt_ctl_link_ops;
	l->owner = b;
	l->self = &b->self;
	l->fd = -1;
	l->state = TT_LINK_OPEN;
	l->kind = kind;
	l->server = server;
	l->peer = l->hello.rank = peer;
	l->hello.nranks = RANKS;
	l->hello.proto = TT_BOOT_PROTO;
	strcpy(l->hello.version, "1");
	crypto_secretstream_xchacha20poly1305_init_push(&l->auth.push, header, key);
	tt_list_add(&b->links, &l->node);
	return l;
}

/* 0: the store; 1: a joiner; 2, 3: the tree before and after the start, at rank 1; 4: at rank 0. */
static struct tt_boot *setting(unsigned which, struct tt_link *link[LINKS], int *n)
{
	static const enum tt_phase phase[] = {TT_PH_JOIN, TT_PH_JOIN, TT_PH_TREE, TT_PH_UP,
					      TT_PH_UP};
	struct tt_boot *b = boot_new(which == 0 || which == 4 ? 0 : 1, phase[which]);
	int i, first = tt_tree_first_child(b->rank);

	*n = 0;
	if (which == 0) {
		for (i = 1; i <= 3; i++) {
			link[(*n)++] = link_new(b, TT_LINK_JOIN, i, true);
			tt_store_open(b, link[*n - 1]);
		}
		return b;
	}
	if (b->rank)
		b->join = link[(*n)++] = link_new(b, TT_LINK_JOIN, 0, false);
	if (which == 1)
		return b;
	if (b->rank)
		b->parent = link[(*n)++] = link_new(b, TT_LINK_TREE, 0, false);
	for (i = 0; i < b->nchildren && *n < LINKS; i++) {
		link[*n] = link_new(b, TT_LINK_TREE, first + i, true);
		b->child[i].link = link[(*n)++];
	}
	for (i = 0; which > 2 && i < RANKS; i++)
		if (!b->ranks[i].host)
			tt_tree_entry(b, i, "there", "card", 4);
	return b;
}

/* As the control thread does with a link that has died. */
static void lose(struct tt_boot *b, struct tt_link *link)
{
	if (link->kind == TT_LINK_TREE)
		tt_tree_lost(b, link);
	else if (link->server)
		tt_store_lost(b, link);
	else
		tt_join_lost(b, link);
}

/* A new process, and the job that it wants to join. */
static int at_gate(struct fz *z)
{
	struct tt_visit v = {.params = NULL};
	struct tt_link l = {.ops = &tt_visit_ops, .owner = &v, .state = TT_LINK_OPEN, .fd = -1};
	int steps = 0;

	while (z->len && steps++ < 64 && l.state == TT_LINK_OPEN) {
		int type = (int)fz_u(z, 1);
		struct fz body = fz_take(z, fz_u(z, 2) % (TT_FRAME_MAX + 1));
		unsigned char *copy = malloc(body.len ? body.len : 1);

		memcpy(copy, body.len ? body.p : (const uint8_t *)"", body.len);
		l.ops->frame(&l, type, copy, body.len);
		free(copy);
	}
	assert(!v.admitted || (v.rank > 0 && v.rank < v.nranks && v.boot_ms > 0));
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fz z = {data, size};
	bool lost[LINKS] = {false};
	struct tt_link *link[LINKS];
	struct tt_boot *b;
	int n, i, steps = 0;
	unsigned which;

	tutti_set_log(NULL, NULL, TUTTI_LOG_NONE);
	if (sodium_init() < 0)
		return 0;
	which = (unsigned)fz_u(&z, 1);
	if (which == 255)
		return at_gate(&z);
	b = setting(which % 5, link, &n);
	while (z.len && steps++ < 64 && b->phase != TT_PH_END) {
		int at = (int)(fz_u(&z, 1) % (unsigned)n), type = (int)fz_u(&z, 1);
		struct tt_link *l = link[at];
		struct fz body = fz_take(&z, fz_u(&z, 2) % (TT_FRAME_MAX + 1));
		unsigned char *copy =
			malloc(body.len ? body.len : 1); /* so that the end is an end */

		memcpy(copy, body.len ? body.p : (const uint8_t *)"", body.len);
		if (l->state == TT_LINK_OPEN && !l->closing)
			tt_ctl_link_ops.frame(l, type, copy, body.len);
		free(copy);
		tt_tree_step(b);
		for (i = 0; i < n; i++)
			if (link[i]->state == TT_LINK_DEAD && !lost[i]) {
				lost[i] = true;
				lose(b, link[i]);
			}
	}
	for (i = 0; i < n; i++) {
		tt_list_del(&link[i]->node);
		tt_link_free(link[i]);
	}
	boot_free(b);
	return 0;
}
