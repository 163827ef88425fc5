/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bounded queue from many actors to one learner, over a window with notifications.
 *
 *	actor 1 [staging: K items] --put, id 0--> [K places of actor 1]
 *	actor 2 [staging: K items] --put, id 1--> [K places of actor 2]   learner: rank 0
 *	   ...                     <-- notification: half are free --
 *
 * An item and its notification are one put: no message, no copy, no call of the library's on the
 * learner's side until it looks. An actor whose places are all full waits for a notification from
 * the learner, which frees half of them: one for each would cost the actor more than the put of a
 * short item. It also says that the puts of those items are over, so the actor can use its memory
 * for them again without a flush.
 *
 * A notification costs more than the put of a short item. So an actor that says that more items
 * follow sends up to half of its places in one put with one notification. The word behind the
 * first item of a put says how many items have come. The learner can free half of the places
 * without the items that are held back.
 *
 * Places of different actors are apart, so an actor that dies leaves at most its own items behind:
 * those that came with a notification are whole, and are taken. The communicator must be tolerant
 * (tutti_comm_create(3)): the learner then acknowledges a death and waits for the others.
 */
#include "examples/rl/rl.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
	LINE = 64,	       /* an actor's window: whether the queue is closed */
	GROUP_BYTES = 1 << 16, /* longer items gain nothing from a common put */
};

struct queue {
	struct tutti_comm *comm;
	struct tutti_win *win;
	char *mem;	  /* this rank's part of the window */
	char *staging;	  /* an actor's */
	uint64_t *closed; /* the learner's: memory to put from */
	size_t size;	  /* of a place: an item and the word behind it, in whole lines */
	size_t word;	  /* where in a place that word is */
	int slots, actors;
	int batch;  /* places that a notification of the learner's frees */
	int group;  /* the most items that an actor sends in one put */
	int free;   /* an actor's places that it knows to be free */
	int held;   /* an actor's items that wait for more */
	int left;   /* the learner: items that came with the one it has, after it */
	int *at;    /* the next place: an actor's own, or the learner's by actor */
	int *order; /* the learner: ids, the one whose turn it is first */
	int *done;  /* the learner: places of an actor that no notification has freed yet */
	int from;   /* the learner: the actor whose item it has; -1: none */
};

static void *alloc(struct tutti_comm *comm, size_t size)
{
	void *mem = NULL;

	if (tutti_alloc(tutti_comm_context(comm), size, &mem))
		return NULL;
	memset(mem, 0, size);
	return mem;
}

static void free_memory(struct queue *q)
{
	tutti_free(q->mem);
	tutti_free(q->staging);
	tutti_free(q->closed);
	free(q->at);
	free(q->order);
	free(q->done);
	free(q);
}

int queue_create(struct tutti_comm *comm, size_t size, int slots, struct queue **queue)
{
	bool learner = !tutti_comm_rank(comm);
	int actors = tutti_comm_size(comm) - 1, err, i;
	size_t word = (size + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t);
	size_t line = (word + sizeof(uint64_t) + LINE - 1) / LINE * LINE;
	size_t all = line * (size_t)slots;
	struct queue *q;

	if (actors < 1 || actors > TUTTI_NOTIFY_IDS || slots < 1)
		return -EINVAL;
	q = calloc(1, sizeof(*q));
	if (!q)
		return -ENOMEM;
	*q = (struct queue){.comm = comm,
			    .size = line,
			    .word = word,
			    .slots = slots,
			    .actors = actors,
			    .batch = (slots + 1) / 2,
			    .group = slots / 2,
			    .free = slots,
			    .from = -1};
	q->mem = alloc(comm, learner ? all * (size_t)actors : LINE);
	q->staging = alloc(comm, learner ? LINE : all);
	q->closed = alloc(comm, LINE);
	q->at = calloc((size_t)actors, sizeof(*q->at));
	q->order = calloc((size_t)actors, sizeof(*q->order));
	q->done = calloc((size_t)actors, sizeof(*q->done));
	for (i = 0; q->order && i < actors; i++)
		q->order[i] = i;
	/* a rank without memory comes, too: the window fails on all ranks then */
	err = tutti_win_create(comm, q->mem, learner ? all * (size_t)actors : LINE, 0, &q->win);
	if (!err && q->staging && q->closed && q->at && q->order && q->done) {
		*queue = q;
		return 0;
	}
	if (!err)
		tutti_win_free(q->win);
	free_memory(q);
	return err ? err : -ENOMEM;
}

int queue_free(struct queue *q)
{
	int err = tutti_win_free(q->win);

	free_memory(q);
	return only_death(err) ? 0 : err;
}

/* ---- an actor ---- */

static bool is_closed(const struct queue *q)
{
	return atomic_load((_Atomic uint64_t *)(void *)q->mem) != 0;
}

int queue_begin(struct queue *q, void **item)
{
	int err = 0;

	if (!q->free) { /* the learner may have taken some, but fewer than a batch */
		err = tutti_wait_notify(q->win, 0, 1);
		q->free = err ? 0 : q->batch;
	}
	*item = q->staging + (size_t)q->at[0] * q->size;
	return err ? err : is_closed(q);
}

/* Sends the items that were held back, which are one behind the other, in one put. */
static int send_held(struct queue *q)
{
	int me = tutti_comm_rank(q->comm) - 1, first = (q->at[0] ? q->at[0] : q->slots) - q->held;
	char *from = q->staging + (size_t)first * q->size;
	size_t len = (size_t)q->held * q->size;

	*(uint64_t *)(void *)(from + q->word) = (uint64_t)q->held;
	q->held = 0;
	return tutti_put_notify_id(q->win, 0, from, len,
				   (uint64_t)(me * q->slots + first) * q->size, me);
}

int queue_send(struct queue *q, bool more)
{
	q->free--;
	q->held++;
	q->at[0] = q->at[0] + 1 < q->slots ? q->at[0] + 1 : 0;
	if (more && q->held < q->group && q->at[0] && (size_t)q->held * q->size < GROUP_BYTES)
		return 0;
	return send_held(q);
}

/* ---- the learner ---- */

/* The actor at this place of the order comes last from now on. */
static void turn(struct queue *q, int at)
{
	int id = q->order[at];

	memmove(q->order + at, q->order + at + 1, (size_t)(q->actors - 1 - at) * sizeof(id));
	q->order[q->actors - 1] = id;
}

/* Waits for the items of an actor, whose turn ends with them. */
static int wait_items(struct queue *q)
{
	int at = -1, err;

	do {
		err = tutti_wait_notify_any(q->win, q->actors, q->order, &at);
	} while (only_death(err) && !(err = leave_dead(q->comm, NULL)) && at < 0);
	if (err)
		return err;
	q->from = q->order[at];
	turn(q, at);
	return 0;
}

int queue_take(struct queue *q, const void **item, int *from)
{
	int err = q->left ? 0 : wait_items(q), at;
	const char *place;

	if (err)
		return err;
	at = q->at[q->from];
	q->at[q->from] = at + 1 < q->slots ? at + 1 : 0;
	place = q->mem + (size_t)(q->from * q->slots + at) * q->size;
	q->left =
		q->left ? q->left - 1 : (int)*(const uint64_t *)(const void *)(place + q->word) - 1;
	*item = place;
	*from = q->from + 1;
	return 0;
}

int queue_done(struct queue *q)
{
	int err;

	if (++q->done[q->from] < q->batch)
		return 0;
	q->done[q->from] = 0;
	err = tutti_put_notify(q->win, q->from + 1, q->closed, 0, 0);
	return only_death(err) ? 0 : err;
}

int queue_close(struct queue *q)
{
	int err = 0, i;

	*q->closed = 1;
	for (i = 1; i <= q->actors && !err; i++) {
		err = tutti_put(q->win, i, q->closed, sizeof(*q->closed), 0);
		if (!err)
			err = tutti_win_flush(q->win, i);
		if (!err)
			err = tutti_put_notify(q->win, i, q->closed, 0, 0);
		err = only_death(err) ? 0 : err;
	}
	return err;
}
