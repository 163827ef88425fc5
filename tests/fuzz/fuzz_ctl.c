/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of the control tree: from any rank of a job of three that has just done some
 * collectives, to the handlers of any, which may be in an agreement. Messages that a handler sends
 * are delivered here.
 */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <tutti/tutti.h>

#include "lib/boot/control/control.h"
#include "lib/comm/comm.h"
#include "tests/fuzz/fuzz.h"

#define RANKS 3

static struct tutti_context *ctx[RANKS];
static struct tutti_unique_id id;

static void give_up(void)
{
	struct tutti_error_info info = {.size = sizeof(info)};

	tutti_last_error(&info);
	fprintf(stderr, "ERROR: %s\n", info.text);
	abort();
}

/* Collectives that leave a history, with counts that only two ranks know in it. */
static void *run_rank(void *arg)
{
	struct tutti_config config = {.size = sizeof(config), .nranks = RANKS, .id = &id};
	struct tutti_context **c = arg;
	size_t counts[RANKS] = {1, 2, 3}, same[RANKS];
	float x[8] = {1, 2, 3, 4}, y[8];
	struct tutti_comm *world;
	int i, err;

	config.rank = (int)(c - ctx);
	err = tutti_init(&config, c);
	if (err)
		give_up();
	world = tutti_world(*c);
	for (i = 0; i < RANKS; i++)
		same[i] = counts[config.rank];
	err = tutti_allreduce(TUTTI_IN_PLACE, x, 4, TUTTI_FLOAT32, TUTTI_SUM, world);
	if (!err)
		err = tutti_bcast(x, 4, TUTTI_FLOAT32, 1, world);
	if (!err)
		err = tutti_alltoallv(x, counts, NULL, y, same, NULL, TUTTI_UINT8, world);
	if (!err)
		err = tutti_gatherv(x, counts[config.rank], y, counts, NULL, TUTTI_UINT8, 2, world);
	if (err)
		give_up();
	return NULL;
}

static void start(void)
{
	pthread_t thread[RANKS];
	int r;

	setenv("TUTTI_TRANSPORT", "shm", 1);
	setenv("TUTTI_TUNE_FILE", "none", 1);
	setenv("TUTTI_IF", "lo", 1);
	setenv("TUTTI_INIT_TIMEOUT", "600s", 1);
	setenv("TUTTI_TIMEOUT", "600s", 1);
	setenv("TUTTI_HEARTBEAT", "60s", 1);
	setenv("TUTTI_HEARTBEAT_LIMIT", "600s", 1); /* whatever else the machine does */
	tutti_set_log(NULL, NULL, TUTTI_LOG_NONE);
	if (tutti_unique_id_get(&id))
		abort();
	for (r = 0; r < RANKS; r++)
		if (pthread_create(&thread[r], NULL, run_rank, &ctx[r]))
			abort();
	for (r = 0; r < RANKS; r++) {
		pthread_join(thread[r], NULL);
		/* nothing is sent any more, see pass_on */
		ctx[r]->boot->solo = ctx[r]->boot->delivering = true;
	}
}

/*
 * Restores the state after start(): effects of messages outlast them and must not disturb later
 * inputs.
 */
static void forget(struct tutti_context *c)
{
	struct tutti_comm *world = tutti_world(c);

	tt_wire_lock(c->wire);
	tt_vote_drop(world);
	tt_stuck_free(c);
	atomic_store(&world->failed, 0);
	world->nlate = 0;
	c->first_failure.code = 0;
	c->aborted = false;
	c->ndoomed = c->nbroken = 0;
	free(world->grown);
	world->grown = NULL;
	tt_wire_unlock(c->wire);
}

static void agree(struct tutti_context *c, unsigned kind)
{
	struct tt_ballot mine = {.all = 1, .any = 1, .kind = TT_VOTE_AND + kind % 4, .next_id = 2};
	struct tutti_comm *world = tutti_world(c);

	tt_wire_lock(c->wire);
	if (!world->vote)
		(void)tt_vote_begin(world, &mine);
	tt_wire_unlock(c->wire);
}

static void deliver(int to, int from, int type, const void *data, size_t len)
{
	struct tt_boot_handlers *h = &ctx[to]->boot->handlers;

	if (h->fn[type] &&
	    type != TT_CTL_PROGRESS) /* nothing of that is read, and it starts a thread */
		h->fn[type](h->arg, from, data, len);
}

/* Messages of rank from; a limited number is delivered, because messages cause messages. */
static void pass_on(int from, int *left)
{
	struct tt_boot *b = ctx[from]->boot;
	struct tt_outmsg *msg;
	int r;

	for (;;) {
		pthread_mutex_lock(&b->lock);
		msg = tt_list_empty(&b->outbox)
			      ? NULL
			      : tt_container(b->outbox.next, struct tt_outmsg, node);
		if (msg)
			tt_list_del(&msg->node);
		if (msg)
			b->outbox_bytes -= sizeof(*msg) + msg->len;
		pthread_mutex_unlock(&b->lock);
		if (!msg)
			return;
		for (r = 0; r<RANKS && * left> 0; r++)
			if (msg->to == r || msg->to == TT_CTL_ALL) {
				deliver(r, from, (int)msg->type, msg->data, msg->len);
				--*left;
			}
		free(msg);
	}
}

/* A message begins with small numbers: of a communicator, a call, a rank. */
static void near(unsigned char *body, size_t len, unsigned words)
{
	uint32_t w;
	size_t i;

	for (i = 0; i < 8 && 4 * i + 4 <= len; i++) {
		memcpy(&w, body + 4 * i, 4);
		w = i == 1 && words & 1 ? 0 : w % 5;
		if (words >> i & 1)
			memcpy(body + 4 * i, &w, 4);
	}
}

/* Any length, more often one that some handler wants. */
static size_t length(struct fz *z)
{
	static const size_t wanted[] = {4, 8, 48, 104, 105, 168, 488, 624, 800};
	size_t n = sizeof(wanted) / sizeof(wanted[0]);
	unsigned which = (unsigned)fz_u(z, 1);

	return which == 255 ? fz_u(z, 2) % (TT_CTL_MSG_MAX + 1) : wanted[which % n];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fz z = {data, size};
	int steps = 0, left = 64, r;
	unsigned in;

	if (!ctx[0])
		start();
	in = (unsigned)fz_u(&z, 1);
	for (r = 0; r < RANKS; r++)
		if (in >> r & 1)
			agree(ctx[r], in >> 6);
	while (z.len && steps++ < 16) {
		int type = 1 + (int)(fz_u(&z, 1) % (TT_CTL_TYPES - 1)),
		    who = (int)(fz_u(&z, 1) % (RANKS * RANKS));
		unsigned words = (unsigned)fz_u(&z, 1);
		size_t len = length(&z);
		unsigned char *copy = malloc(len); /* so that the end is an end */

		fz_fill(&z, copy, len);
		near(copy, len, words);
		deliver(who % RANKS, who / RANKS, type, copy, len);
		free(copy);
		for (r = 0; r < RANKS; r++)
			pass_on(r, &left);
	}
	for (r = 0, left = 0; r < RANKS; r++) {
		pass_on(r, &left);
		forget(ctx[r]);
	}
	return 0;
}
