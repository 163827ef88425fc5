/* SPDX-License-Identifier: BSD-3-Clause */
/* A server's thread: messages in, snapshots and notes out. */
#ifndef TT_PS_SERVER_H
#define TT_PS_SERVER_H

#include <pthread.h>

#include "lib/base/clock.h"
#include "lib/ps/server/table_store.h"

/* A bell of a slot: its head is here, or its payload. */
struct tt_ps_in_bell {
	struct tt_bell bell;
	struct tt_ps_server *srv;
	bool rung;
};

/* A bell of what servers tell each other. */
struct tt_ps_log_bell {
	struct tt_bell bell;
	struct tt_ps_server *srv;
	bool rung;
};

/* A message that has been handled, and has not reached all replicas yet. */
struct tt_ps_entry {
	struct tt_ps_client *client;
	struct tt_ps_msg *msg; /* in the slot where it came, which stays unchanged */
	uint64_t number;
	uint32_t len;
	struct tt_ps_credit credit;
};

/* A message that waits for its turn. */
struct tt_ps_held {
	struct tt_ps_held *next;
	struct tt_ps_msg msg;
	_Alignas(8) char payload[];
};

/* One worker, as a server sees it. */
struct tt_ps_client {
	int index, rank;
	struct tt_ps_in_bell bell[TT_PS_SLOTS][2]; /* head, payload; under the lock */
	uint64_t next;				   /* message */
	uint64_t order[TT_PS_SLOTS];		   /* of the last that came in each slot */
	uint64_t tau[TT_PS_SLOTS]; /* of that one, if it was a push on a condition */
	uint64_t clock;
	bool dead;	   /* under the lock: the worker has failed */
	bool buried;	   /* what a failed worker left behind is being handled */
	bool gone;	   /* has said good-bye, or died */
	bool counted;	   /* no longer counted in srv->left */
	bool leaves;	   /* its good-bye has arrived, in its turn or not; under the lock */
	bool stuck;	   /* the message in its slot waits for other workers */
	bool seated;	   /* backup workers: its updates of the current clock count */
	uint64_t dropped;  /* elements of its pushes that came too late */
	uint64_t unseated; /* 1 + the clock in which it came too late */
	uint64_t meeting;  /* the meeting that the worker has come to */
	struct tt_ps_said said;
	uint64_t held_before; /* said.rows of the clients in front of it, in this meeting */
	int late;	      /* why a message was refused after its answer */
	struct tt_ps_held *held, **held_end;
	char *answers; /* memory to send from: a credit and its data for each slot, then the note */
	bool note_due, note_busy; /* under the lock, as the next: srv->failed in the last note */
	int failed;
	struct tt_win_end note_end, credit_end;
	struct tt_ps_server *srv;
};

struct tt_ps_server {
	struct tutti_ps *ps;
	int index, copy;  /* which server, and its replica number */
	pthread_t thread; /* of ps->srv[0], which runs all servers of the rank */
	bool runs;
	atomic_bool stop;
	atomic_bool handles;	     /* of ps->srv[0]: a message, for as long as that takes */
	atomic_bool stirred;	     /* there is something new other than workers' messages */
	bool kick;		     /* something to tell can be sent now; under the lock */
	struct tt_ps_client *client; /* by worker */
	char *answers;
	int left;   /* workers whose good-bye has not been handled; under the lock */
	int here;   /* workers that have not left, as far as tables know */
	int puts;   /* puts to workers under way; under the lock */
	bool ended; /* the last notes are sent; under the lock */
	size_t held_bytes;

	/* copies, see chain.c */
	atomic_bool serves; /* read by a closing rank, too, like order and acked */
	int behind;	    /* the replica that gets everything passed on; -1: none */
	_Atomic uint64_t order,
		acked; /* messages handled; of these, handled by all replicas behind, too */
	uint64_t answered, told; /* of these, told to workers; acked, as told to the previous
				    replica, under the lock */
	int unprepared, refused; /* why the last PREPARE failed here, or at a replica behind; 0: it
				    succeeded */
	struct tt_ps_entry
		*entry; /* messages from acked + 1 to order, by order modulo the number of slots */
	struct tt_ps_log_bell *log, ack_bell[TT_PS_REPLICAS];
	atomic_bool ack_due;
	bool ack_busy; /* under the lock */
	int ack_to;    /* the replica that is being told */
	struct tt_win_end log_end, ack_end;
	char *ack;

	/* publication: all lists are in the tables' stores */
	uint64_t epoch;		/* sequence of the last pass */
	uint64_t min_clock;	/* of all workers that have not left */
	uint64_t published;	/* the min clock that a finished pass has published */
	bool passing, only_new; /* a pass is under way; it shows new rows only */
	uint64_t pass_min, pass_order;
	bool all;		/* the pass shows everything, also within a clock of BSP */
	uint64_t wake_at;	/* a slot has rested by then */
	uint64_t send_at;	/* essp: changes go by then without a clock */
	uint64_t slow_at;	/* workers that wait for another are told for whom */
	int slowest;		/* index + 1 of the slowest worker, as told */
	int missing;		/* index + 1 of a worker that others wait for at a meeting */
	uint64_t heard, end_at; /* from the first good-bye on: time of the last message; when the
				   server next asks missing workers, or reports them */
	uint64_t alive_at;	/* when the server next reports that it is alive */
	int failed;		/* as in struct tt_ps_note; under the lock */
	bool waited;		/* workers wait for this server, also while no message comes */
	bool alive; /* the server is reporting that it is alive, also to workers that have said
		       good-bye */

	uint64_t met; /* the last meeting that all workers have come to */
	int leader;
	uint64_t restored;
	struct tt_ps_said verdict; /* of it */
};

static inline struct tt_ps_store *tt_ps_store_of(const struct tt_ps_server *srv, uint32_t table)
{
	return srv->ps->table[table]->store[srv->copy];
}

/* inbox.c: handle what has come; returns the number of messages. */
int tt_ps_inbox(struct tt_ps_server *srv);
/* Under the lock: there is a message that has not been looked at. */
bool tt_ps_inbox_any(const struct tt_ps_server *srv);
void tt_ps_inbox_free(struct tt_ps_server *srv);

/*
 * Take a message in its turn, or put it aside. false: it must stay in its slot. Status -ENOMEM: no
 * memory to put it aside; a push is refused then, any other message stays.
 */
bool tt_ps_take_in(struct tt_ps_client *c, const struct tt_ps_msg *m, const char *payload,
		   struct tt_ps_credit *credit);
/* Run messages put aside whose turn has come; returns their number. */
int tt_ps_run_held(struct tt_ps_server *srv);

/* chain.c: handle what other servers send; returns the number of messages */
int tt_ps_chain(struct tt_ps_server *srv);
/*
 * The message in slot m, with this head, has been handled: it is answered when all replicas have
 * it.
 */
void tt_ps_chain_add(struct tt_ps_server *srv, struct tt_ps_client *c, struct tt_ps_msg *m,
		     const struct tt_ps_msg *head, const struct tt_ps_credit *credit);
int tt_ps_chain_new(struct tt_ps_server *srv, struct tt_bell **bells);
/*
 * This replica had no memory for a message, and may have done a part of it. Other replicas have
 * done all of it, so the places of keys would differ from now on: this rank drops out. false: there
 * was memory, or there are no replicas and the message can be refused.
 */
bool tt_ps_drop_out(struct tt_ps_server *srv, int64_t status);
/* The message in this slot if it has arrived completely, else NULL. */
struct tt_ps_msg *tt_ps_arrived(const struct tt_ps_client *c, int slot);
/*
 * Verify: this message of that rank was damaged in transfer, so everything the rank takes part in
 * fails.
 */
bool tt_ps_damaged(struct tt_ps_server *srv, int rank, const struct tt_ps_msg *m);

/* handle.c: handle one message in its turn */
void tt_ps_handle(struct tt_ps_server *srv, struct tt_ps_client *c, const struct tt_ps_msg *m,
		  const char *payload, struct tt_ps_credit *credit);
/* A worker may wait for others from now on; name the slowest worker when that has lasted. */
void tt_ps_slow_soon(struct tt_ps_server *srv);
void tt_ps_find_slow(struct tt_ps_server *srv);
/*
 * departure.c: a worker's good-bye has come (under the lock); decide whether missing workers are at
 * work, or others wait for them in vain
 */
void tt_ps_leaves(struct tt_ps_client *c);
void tt_ps_find_missing(struct tt_ps_server *srv);
/*
 * Workers wait for this server, so it reports now and then that it is alive, also while idle. The
 * second call reports it, if due, between two messages: many may come before the one that is waited
 * for.
 */
void tt_ps_waited_for(struct tt_ps_server *srv);
void tt_ps_say_alive(struct tt_ps_server *srv);
/* A message of a worker that has not left has been taken. */
static inline void tt_ps_heard(struct tt_ps_server *srv)
{
	if (srv->end_at != TT_NEVER)
		srv->heard = tt_now_ns();
}

/*
 * seats.c, backup workers: whether an update of c counts, or its clock; a seat is taken for it.
 * tt_ps_seats_clock: the clock that all workers with a seat, *n, have come to.
 */
bool tt_ps_counts(struct tt_ps_server *srv, struct tt_ps_client *c, const struct tt_ps_msg *m);
uint64_t tt_ps_seats_clock(struct tt_ps_server *srv, int *n);
void tt_ps_seats_clear(struct tt_ps_server *srv);
/* Whether it is this message's turn. */
bool tt_ps_turn(const struct tt_ps_server *srv, const struct tt_ps_client *c,
		const struct tt_ps_msg *m);
/*
 * Whether, under BSP, every ended clock is published and every message whose turn has come is
 * handled.
 */
bool tt_ps_settled(const struct tt_ps_server *srv);

/*
 * checkpoint_server.c: meetings and file operations; the answer is behind the credit in c->answers
 */
bool tt_ps_meeting(struct tt_ps_server *srv, struct tt_ps_client *c, const struct tt_ps_msg *m,
		   const char *payload);
bool tt_ps_unended(
	const struct tt_ps_server *srv); /* there are updates of a clock that has not ended */
void tt_ps_handle_file(struct tt_ps_server *srv, struct tt_ps_client *c, const struct tt_ps_msg *m,
		       const char *payload, struct tt_ps_credit *credit);

/* publish_pass.c */
int tt_ps_publish_pass(struct tt_ps_server *srv); /* returns how many blocks were published */

/* notify.c, under the lock: start the puts that tell workers what is new */
void tt_ps_tell(struct tt_ps_server *srv);
/* A block is in another slot now; without the lock. */
void tt_ps_tell_block(struct tt_ps_server *srv, struct tt_ps_store *s, uint64_t block);
void tt_ps_tell_clock(struct tt_ps_server *srv);
/*
 * All workers have said good-bye, all replicas know, and no put to a live worker is under way:
 * workers can be told of the end.
 */
bool tt_ps_may_end(const struct tt_ps_server *srv);
void tt_ps_put_over(const struct tt_ps_client *c, int status,
		    const char *what); /* one of srv->puts */
void tt_ps_note_over(struct tt_win_end *end, int status);
void tt_ps_credit_over(struct tt_win_end *end, int status);
void tt_ps_credit(struct tt_ps_server *srv, struct tt_ps_client *c,
		  const struct tt_ps_credit *credit);

/* In c->answers: the answer of a slot; TT_PS_SLOTS: the note. */
static inline char *tt_ps_answer(const struct tt_ps_client *c, uint64_t slot)
{
	return c->answers + slot * (sizeof(struct tt_ps_credit) + TT_PS_REPLY);
}

#endif
