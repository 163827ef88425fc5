/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Partial all-reduce. An object has a communicator of its own (a copy of the caller's), whose ranks
 * are its members; the lowest living member is also the decider. Vectors and the heads before them
 * are messages of lib/p2p. Everything is called under the wire lock unless a comment says
 * otherwise.
 *
 * Messages, each a head, two of them with a vector behind it:
 *
 *	STATE   member -> decider   the last round whose result the member has; sent once to each
 *	                            decider, when all lower ranks are dead
 *	FETCH   decider -> member   send me the results after this round
 *	OPEN    decider -> member   the decider has all results that a living rank has; offers of
 *	                            these numbers are in them; say again what you offer
 *	OFFER   member -> decider   a vector, with a number that grows
 *	CALL    member -> decider   my caller waits for this round; my offers were sent before; my
 *	                            caller drains no more
 *	DRAIN   member -> decider   my caller drains; has everything been offered?
 *	RESULT  decider -> member   a vector, who took part, and the last number of each rank's
 *	                            offers that is in this or an earlier result
 *	DRAINED decider -> member   every living rank drains, and every carry is in a result
 *
 * A member keeps an offer until a RESULT or an OPEN says that its number is in a result. So an
 * offer is in exactly one result that a living rank has, or is kept by its living owner:
 *
 * - A member dies: the decider discards what it holds of it (lost), and goes on.
 * - The decider dies before any living rank has the result of round t: round t has not been
 *   decided; all its offers are with their owners, who offer them again after OPEN.
 * - The decider dies after a living rank has got result t: STATE tells the successor, which fetches
 *   it and passes it on before OPEN; owners learn from it which offers it has.
 * - That living rank dies before the successor has fetched it: as in the first case for what no
 *   living rank has. No living caller has seen it.
 * - The successor dies at any point: the next one collects STATEs of its own. A member sends
 *   nothing but STATE to a decider before its OPEN, and a decider sends nothing before it has the
 *   STATE of all living members, so no two deciders are at work.
 * - The decider dies after some ranks got DRAINED: STATE and OPEN carry the number of drains.
 *
 * A member that takes no messages, as when it is stopped, holds nobody up: once as many results are
 * on their way to it as are kept, the decider sends it none until they have come. Results that are
 * not kept by then are missing, as if its caller had been too far behind.
 *
 * Ranks whose callers wait for a result, or drain, get it at once, the others half a millisecond
 * later: they would only take time from those that wait, on a host or a link that they share.
 *
 * A member acts on a death when its receive from the dead rank ends. Messages that came before are
 * taken first, so no RESULT of an earlier decider follows a member's STATE.
 *
 * Cost: the decider receives and sends (P - 1) N bytes for a round, in 2 steps; the others N each.
 */
#ifndef TT_PARTIAL_H
#define TT_PARTIAL_H

#include <tutti/partial.h>

#include "lib/p2p/p2p.h"

#define TT_PARTIAL_MAGIC 0x54755072u
#define TT_PARTIAL_OFFERS 2 /* of a member that are under way; more wait as one */

enum tt_partial_kind {
	TT_PARTIAL_STATE = 1,
	TT_PARTIAL_FETCH,
	TT_PARTIAL_OPEN,
	TT_PARTIAL_OFFER,
	TT_PARTIAL_CALL,
	TT_PARTIAL_DRAIN,
	TT_PARTIAL_RESULT,
	TT_PARTIAL_DRAINED
};

/* Behind it, in OPEN and RESULT: the numbers, by rank; then, in RESULT, the bitmap. */
struct tt_partial_head {
	uint32_t kind;
	uint32_t complete; /* DRAIN: all that the member has is offered */
	uint64_t round;	   /* STATE, FETCH, OPEN: the last one; RESULT: this one; OFFER, CALL: the
			      round that the caller waits for, 0: none */
	uint64_t number;   /* OFFER */
	uint64_t drains;   /* STATE, OPEN, DRAINED: how many are over; DRAIN: before this one */
	uint64_t lost;	   /* OPEN, RESULT: see struct tutti_partial_stats */
	uint64_t consumed[];
};
_Static_assert(sizeof(struct tt_partial_head) == 40, "doc/WIRE.md");

/* The elements of one vector. Not written while it is shared. */
struct tt_partial_vec {
	struct tt_list link; /* in spare */
	int refs;
	void *data; /* pool memory */
};

/* A head or a vector on its way. */
struct tt_partial_send {
	struct tt_list link; /* in sent, when it is over */
	struct tutti_partial *p;
	struct tutti_request *req;
	int rank;
	bool result;		     /* the vector of one */
	struct tt_partial_vec *vec;  /* NULL: the head */
	struct tt_partial_head head; /* longer; nothing of it if there is a vector */
};

/* Another rank, or this one. */
struct tt_partial_peer {
	struct tutti_partial *p;
	int rank;
	/* receiving: a head, then perhaps its vector */
	struct tutti_request *req; /* NULL: none */
	bool over;		   /* req has ended */
	bool gone;
	struct tt_partial_head *head;
	struct tt_partial_vec *vec; /* NULL: req receives a head */
	/* this rank as the decider */
	struct tt_partial_vec *offered; /* NULL: nothing */
	uint64_t number;		/* of its last offer */
	bool calls;			/* its caller waits for the open round */
	bool draining, complete;
	bool state_in;
	uint64_t state_round, state_drains;
	bool waits;    /* its caller, for a result that has not been sent to it */
	int results;   /* on their way to it */
	uint64_t told; /* the last round of them, or passed over */
};

/* A contribution, or the sum of several, that is in no result yet. */
struct tt_partial_offer {
	struct tt_partial_vec *vec; /* NULL: none */
	uint64_t number;	    /* 0: not sent */
	uint64_t calls;		    /* whose contributions it has */
};

/* A result that is kept; round 0: none. */
struct tt_partial_slot {
	struct tt_partial_vec *vec;
	struct tt_partial_head *head;
};

enum tt_partial_call { TT_PARTIAL_NONE, TT_PARTIAL_ALLREDUCE, TT_PARTIAL_DRAINING };

struct tutti_partial {
	volatile uint32_t magic; /* also when it is freed */
	atomic_bool busy;	 /* a call uses it */
	struct tutti_comm *parent, *comm;
	size_t count, bytes;
	enum tutti_datatype datatype;
	enum tutti_op op;
	struct tutti_partial_config config;
	size_t head_max, bitmap_len;
	int failed; /* the code of what ended it; see tt_partial_check */

	pthread_t thread;
	bool runs;
	bool stop;
	bool stirred;	   /* something for tt_partial_step */
	bool attended;	   /* a caller waits, and does alone what the thread would do */
	uint64_t wakes_at; /* when the thread looks at the clock again */

	struct tt_partial_peer *peer; /* by rank */
	struct tt_list spare;	      /* vectors */
	struct tt_list sent;
	int sends; /* under way */

	/* what this rank knows */
	int decider, living;
	uint64_t round; /* the last one decided */
	uint64_t *consumed;
	uint64_t drains, lost;
	struct tt_partial_slot slot[TUTTI_PARTIAL_WINDOW];

	/* as a member */
	bool open; /* the decider takes offers */
	uint64_t number;
	struct tt_partial_offer offer[TT_PARTIAL_OFFERS + 1]; /* oldest first; the last: not sent */
	size_t carried;	     /* bytes that parent->carried counts for it */
	uint64_t told_round; /* CALL or OFFER has named it to the decider */
	int told_drain;	     /* 0: not, 1: DRAIN, 2: with complete */
	enum tt_partial_call call;
	bool call_over;
	bool behind; /* a result that the call should have got is not kept any more */
	void *recv;
	uint64_t first, seen; /* of this call, 0: none yet; the last round returned */
	unsigned char *took;  /* the bitmap of the last round returned */
	bool freeing;	      /* tutti_partial_free has timed out: its vote may still end */
	uint64_t drain_goal;
	bool drain_again; /* the last drain has failed, with no contribution since */
	struct tutti_partial_stats stats;

	/* as the decider */
	bool taking, deciding; /* collects STATEs; decides rounds */
	int fetches_from;      /* -1: none */
	uint64_t cutoff_at;    /* of the open round; TT_NEVER */
	uint64_t pass_at;      /* ranks that do not wait get what they lack; TT_NEVER */
};

/*
 * partial_object.c; all without the lock. err: what is wrong with this rank's arguments, which
 * fails on all ranks.
 */
int tt_partial_new(struct tutti_comm *comm, const struct tutti_partial *like, int err,
		   struct tutti_partial **partial);
int tt_partial_free(struct tutti_partial *p);
/* Under the lock: advances everything that can advance. */
void tt_partial_step(struct tutti_partial *p);
/* When to look at the clock again, for the cutoff. */
uint64_t tt_partial_next_look(const struct tutti_partial *p);
/* 0, or the failure, which becomes the thread's last error; with the lock. */
int tt_partial_check(struct tutti_partial *p);

/* partial_vector.c */
struct tt_partial_vec *tt_partial_vec_get(struct tutti_partial *p); /* NULL: no memory; it fails */
void tt_partial_vec_put(struct tutti_partial *p, struct tt_partial_vec *vec); /* NULL is fine */
void tt_partial_vec_free_all(struct tutti_partial *p);
/* *sum = *sum + vec, which may be shared; vec itself if *sum is NULL. False: no memory. */
bool tt_partial_vec_add(struct tutti_partial *p, struct tt_partial_vec **sum,
			struct tt_partial_vec *vec);

/* partial_message.c */
void tt_partial_receive(struct tt_partial_peer *peer);
/* Takes what has arrived, and what has been sent. */
void tt_partial_arrivals(struct tutti_partial *p);
/* Sends a head, and vec unless it is NULL. The head's fields are the caller's, the rest is set. */
void tt_partial_send(struct tutti_partial *p, int rank, const struct tt_partial_head *head,
		     struct tt_partial_vec *vec);
/* The same to all living other ranks. */
void tt_partial_send_all(struct tutti_partial *p, const struct tt_partial_head *head,
			 struct tt_partial_vec *vec);
/* A head in memory of head_max bytes; freed with free. */
struct tt_partial_head *tt_partial_head_new(struct tutti_partial *p);
static inline unsigned char *tt_partial_bitmap(const struct tutti_partial *p,
					       const struct tt_partial_head *head)
{
	return (unsigned char *)(head->consumed + p->comm->size);
}

/* partial_member.c: results, offers and calls of this rank */
void tt_partial_result(struct tutti_partial *p, const struct tt_partial_head *head,
		       struct tt_partial_vec *vec);
void tt_partial_opened(struct tutti_partial *p, const struct tt_partial_head *head);
void tt_partial_drained(struct tutti_partial *p, uint64_t drains);
/* Gives the call under way the results that it has not seen, and ends it if that is all. */
void tt_partial_take(struct tutti_partial *p);
/* Tells the decider what it does not know yet. */
void tt_partial_offer(struct tutti_partial *p);
/* The drain has failed here. */
void tt_partial_drain_no_more(struct tutti_partial *p);
/* The slot that keeps a round; NULL: it is not kept. */
struct tt_partial_slot *tt_partial_kept(struct tutti_partial *p, uint64_t round);
/* After a change of the offers: how many bytes the carry has. */
void tt_partial_carry(struct tutti_partial *p);

/* partial_call.c: without the lock */
int tt_partial_allreduce(struct tutti_partial *p, const void *send, void *recv,
			 unsigned char *bitmap, uint64_t *first, uint64_t *last);
int tt_partial_drain(struct tutti_partial *p, void *recv, unsigned char *bitmap, uint64_t *first,
		     uint64_t *last);
int tt_partial_get_result(struct tutti_partial *p, uint64_t round, void *recv,
			  unsigned char *bitmap);
int tt_partial_resync(struct tutti_partial *p, uint64_t *round);
void tt_partial_stats_get(struct tutti_partial *p, struct tutti_partial_stats *stats);

/* partial_decider.c */
/* From a member, also this one. */
void tt_partial_offered(struct tt_partial_peer *peer, const struct tt_partial_head *head,
			struct tt_partial_vec *vec);
void tt_partial_called(struct tt_partial_peer *peer, const struct tt_partial_head *head);
void tt_partial_draining(struct tt_partial_peer *peer, const struct tt_partial_head *head);
/* Decides the rounds that can be decided. */
void tt_partial_decide(struct tutti_partial *p);
/* The ranks that a round needs. */
int tt_partial_quorum(const struct tutti_partial *p);

/* partial_takeover.c */
void tt_partial_gone(struct tt_partial_peer *peer);
/* Sends rank the kept results after round. */
void tt_partial_pass(struct tutti_partial *p, int rank, uint64_t round);
void tt_partial_fetched(struct tt_partial_peer *peer, const struct tt_partial_head *head);
/* The lowest living rank has changed, or a STATE or a RESULT has come. */
void tt_partial_takeover(struct tutti_partial *p);

#endif
