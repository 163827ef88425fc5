/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Point-to-point messages: send, receive and probe with tags, in MPI's matching order.
 *
 * Channels promise no order, so the messages of a pair are numbered; those that overtake wait in
 * `ahead`. A message comes to the port of its communicator with its tag and length, and with its
 * payload if it is short. A longer payload stays with the sender until the message is matched;
 * then it travels in pieces of PIECE bytes (or what transports carry), each into memory that the
 * receiver offers, PIECES at a time. A layout has no memory to send from or to offer: its pieces go
 * through the pool. What goes through the pool of a receiver, from one sender of its host on one
 * communicator, is BOUNCE bytes or little more at a time, as more would leave the caches before it
 * is copied on; shorter messages do not wait for that. A message that is alone there travels in
 * pieces that its receiver makes shorter, so that both ranks copy at the same time.
 *
 * Credit bounds what waits at a receiver, per communicator and peer: a sender may be WINDOW
 * messages ahead of the matched ones. A receive that matches none of these may be waiting for a
 * later message, so while it waits the receiver admits more messages, bare: their payload stays
 * with the sender however short it is.
 *
 * State is made at the first use, so communicators without point-to-point cost nothing. Everything
 * is called under the wire lock.
 */
#ifndef TT_P2P_H
#define TT_P2P_H

#include <tutti/p2p.h>

#include "lib/base/byte_blocks.h"
#include "lib/engine/engine.h"

#define TT_P2P_WINDOW 128
#define TT_P2P_PIECE ((size_t)1 << 20)
#define TT_P2P_PIECES 4
#define TT_P2P_BOUNCE ((size_t)4 << 20)
#define TT_P2P_SHORT (64u << 10) /* bytes: payloads that do not wait behind long ones */

enum tt_p2p_kind { TT_P2P_SEND, TT_P2P_RECV, TT_P2P_PROBE };

/* A call, checked by lib/api. */
struct tt_p2p_call {
	enum tt_p2p_kind kind;
	void *buf;
	size_t count;
	enum tutti_datatype datatype;
	int rank; /* the peer in the communicator, or TUTTI_ANY_SOURCE */
	int tag;
	bool sync; /* a send: complete only when it is matched */
	struct tutti_status *status;
	struct tutti_message **message; /* a probe: takes the message out to here, if not NULL */
	struct tutti_message *taken;	/* a receive: of this message; NULL: of any that fits */
};

struct tt_p2p_req;

/* A piece of a payload under way; the first one also carries a send's head. */
struct tt_p2p_piece {
	struct tt_xfer x;
	struct tt_p2p_req *req;
	struct tt_place place; /* of a layout; */
	struct tt_source source;
};

struct tt_p2p_req {
	struct tutti_request r; /* r.link: in p2p->idle while unused */
	struct tt_p2p *p2p;
	struct tt_p2p_call call;
	size_t bytes;	/* of the buffer */
	bool renewable; /* a persistent receive, or one of an open group */
	struct tt_region *region;
	struct tt_list link; /* send: held, or announced; receive and probe: posted */

	/*
	 * A layout at base; NULL: the elements are at call.buf, one after the other. With a layout
	 * call.buf is NULL, or the packed payload of a short send.
	 */
	const struct tt_byte_blocks *layout;
	struct tt_byte_blocks blocks;
	char *base;

	/* this run */
	uint64_t stamp; /* receives are matched in this order */
	int peer;	/* receive: -1 until it is matched */
	uint32_t seq;
	int tag;	       /* of the message */
	uint32_t head;	       /* and what its head says: TT_P2P_SYNC, the sender's datatype */
	size_t total;	       /* of the message */
	struct tt_kept kept;   /* receive: where its sender keeps it; send: told the receiver */
	size_t next;	       /* the part of it that is not under way yet */
	struct tt_place place; /* the same, in a layout */
	size_t most;	       /* bytes of a piece; 0: a sender that has not heard it yet */
	int pieces;	       /* under way */
	size_t bounce;	       /* its part of the peer's */
	bool waits, pulls;     /* waits: how it comes is not decided yet */
	uint64_t began, looks; /* p2p_pull.c: tt_ticks(), 0: not measured; tt_wire_looks(), */
	uint32_t number;       /* and its number among those of about one length */
	struct tt_p2p_piece piece[TT_P2P_PIECES];
};

/* A message that matches no receive yet. */
struct tutti_message {
	struct tt_list link; /* in its peer's ahead or arrived, or in p2p->taken */
	struct tt_list all;  /* in p2p->arrived */
	struct tt_p2p_peer *peer;
	uint32_t seq, head;
	int tag;
	size_t total;
	struct tt_kept kept;
	char *data;	   /* NULL: still with its sender, or empty */
	atomic_bool taken; /* by a matched probe, and not received yet */
};

/* p2p_pull.c: measurements of payloads of about one length. */
#define TT_P2P_WAYS 14
struct tt_p2p_trial {
	float sum;
	unsigned n;
};
struct tt_p2p_way {
	uint32_t messages;
	bool pull;	   /* the way in use */
	float used, tried; /* what a KiB takes, in ticks: this way; the other way, in a trial */
	struct tt_p2p_trial first, other;
};

struct tt_p2p_peer {
	struct tt_p2p *p2p;
	int rank; /* in the communicator */
	/*
	 * as sender: messages from limit on must wait, those from whole on leave their payload
	 * here
	 */
	uint32_t seq, limit, whole;
	struct tt_list held, announced;
	bool open;	   /* the peer has sent something for this port, so it has opened its own */
	bool greeted;	   /* the peer knows that of this rank */
	bool freed;	   /* the peer has freed the communicator */
	size_t post_below; /* receives of fewer bytes may be posted at once; 0: not known */
	/*
	 * as receiver: the next in order, the number matched, and the limits last sent to the peer
	 */
	uint32_t expected, matched, said_limit, said_whole;
	bool early; /* messages come before their receives, as far as was seen last */
	struct tt_list posted, ahead, arrived;
	size_t bounce;		/* bytes of payloads under way through the pool here */
	int longer;		/* those of more than SHORT bytes */
	struct tt_list waiting; /* matched receives whose payloads are to come, in this order */
	/* p2p_pull.c: when the last payload ended, in tt_ticks() and tt_wire_looks() */
	uint64_t paid, looks;
	struct tt_p2p_way way[TT_P2P_WAYS];
	struct tt_stalled pull; /* while the first of them is read */
};

struct tt_p2p {
	struct tt_port port;
	struct tutti_comm *comm;
	struct tt_memory *memory;
	struct tt_p2p_peer **peer; /* by rank here; made at the first use */
	struct tt_list any;	   /* receives posted for any source */
	struct tt_list probes;
	struct tt_list arrived; /* of all peers, oldest first */
	struct tt_list taken;	/* by a matched probe, and not received yet */
	int narrived;
	uint64_t stamp;
	unsigned briefs; /* receives that tried p2p_brief.c */
	int renewable;	 /* receives that may start after the communicator is freed */
	size_t most;	 /* bytes of a long piece, the same at both ends */
	struct tt_list idle, free_msgs;
	char *free_data; /* linked through their first bytes */
};

/* p2p_state.c */
int tt_p2p_get(struct tutti_comm *comm, struct tt_p2p **p2p);
/*
 * The communicator has been freed, or the last receive that may still start. If none can start any
 * more, the senders of messages that none has matched hear of it.
 */
void tt_p2p_freed(struct tutti_comm *comm);
/* So they do of messages that come later. */
static inline bool tt_p2p_is_over(const struct tt_p2p *p2p)
{
	return p2p->comm->freed && !p2p->renewable;
}
void tt_p2p_refuse(struct tt_p2p *p2p, const struct tutti_message *msg);
/* The messages of a communicator end. If it has been freed, ranks that wait in sends hear of it. */
void tt_p2p_end(struct tutti_comm *comm);
/* For the wire: the message is for a communicator that has been freed. */
bool tt_p2p_late(void *ctx, int from, const struct tt_key *key, uint64_t total, uint32_t len);
struct tt_p2p_peer *tt_p2p_peer_new(struct tt_p2p *p2p, int rank);
/* NULL: no memory. */
static inline struct tt_p2p_peer *tt_p2p_peer(struct tt_p2p *p2p, int rank)
{
	return p2p->peer[rank] ? p2p->peer[rank] : tt_p2p_peer_new(p2p, rank);
}
/* Keeps a message with a copy of its len bytes. */
struct tutti_message *tt_p2p_keep(struct tt_p2p *p2p, const void *data, uint32_t len);
void tt_p2p_drop(struct tt_p2p *p2p, struct tutti_message *msg);

/* p2p_request.c: send, receive or probe as a request */
int tt_p2p_new(struct tutti_comm *comm, const struct tt_p2p_call *call, bool persistent,
	       struct tutti_request **req);
/* The same of a layout at call->buf: a send or a receive. */
int tt_p2p_new_layout(struct tutti_comm *comm, const struct tt_p2p_call *call,
		      const struct tt_byte_blocks *layout, bool persistent,
		      struct tutti_request **req);
/*
 * A receive of a short message from peer that waits; nothing that has come is kept, and the
 * communicator is intact. NULL: not in this way. Its checks are fewer than those of tt_p2p_new.
 */
struct tutti_request *tt_p2p_post(struct tt_p2p_peer *peer, const struct tt_p2p_call *call,
				  size_t bytes);
/* A send or receive that has ended with success; NULL: no memory. */
struct tutti_request *tt_p2p_ended(struct tt_p2p *p2p, enum tt_p2p_kind kind);
/* Ends a receive that no message has matched; -EINVAL: it is no receive. */
int tt_p2p_cancel(struct tutti_request *req);

/*
 * p2p_brief.c: messages that the transport carries whole. call is checked and its group is not
 * open. True: it has ended with success, without a request. Without the lock.
 */
bool tt_p2p_at_once(struct tutti_comm *comm, const struct tt_p2p_call *call);
/* The same for the send of a sendrecv, unless its receive has a wrong buffer. */
bool tt_p2p_send_of_both(struct tutti_comm *comm, const struct tt_p2p_call *send,
			 const struct tt_p2p_call *recv);
/*
 * The request of a nonblocking call: a send or receive that has ended, or a receive that waits.
 * NULL: not in this way. Under the lock.
 */
struct tutti_request *tt_p2p_start_brief(struct tutti_comm *comm, const struct tt_p2p_call *call);
/* The buffer is in memory of tutti_alloc as a whole, or not at all. */
static inline bool tt_p2p_is_whole(const struct tt_p2p *p2p, const void *buf, size_t bytes)
{
	struct tt_region *region;

	return !bytes || tt_mem_find_buffer(p2p->memory, buf, bytes, &region);
}
/* Sends a message that nobody waits for whole; false: not now, or not at all. Under the lock. */
bool tt_p2p_send_brief(struct tt_p2p_peer *peer, const struct tt_p2p_call *call, uint32_t seq,
		       size_t bytes, const struct tt_region *region);

/*
 * The same of the head of a message that stays here until it is matched, and which its receiver may
 * read if *kept is set.
 */
bool tt_p2p_announce_brief(struct tt_p2p_peer *peer, const struct tt_p2p_call *call, uint32_t seq,
			   size_t bytes, struct tt_kept *kept);

/* p2p_send.c */
void tt_p2p_send(struct tt_p2p_req *req);
/*
 * Sent to the port: more messages may come; the receiver has this payload, or drops it; it has
 * matched this message, which was sent with TT_P2P_SYNC; it has freed the communicator, and drops
 * this message.
 */
enum tt_p2p_said { TT_P2P_CREDIT = 1, TT_P2P_DONE, TT_P2P_MATCHED, TT_P2P_FREED };
void tt_p2p_said(struct tt_port *port, int peer, uint32_t what, const struct tt_key *key,
		 uint64_t a, uint64_t b);

/* p2p_recv.c */
void tt_p2p_recv(struct tt_p2p_req *req);
/* The same of a receive from peer that no kept message matches. */
void tt_p2p_await(struct tt_p2p_req *req, struct tt_p2p_peer *peer);
/* The first message that this receive from peer matches, if it has come whole and fits, or NULL. */
struct tutti_message *tt_p2p_arrived_whole(struct tt_p2p_peer *peer, const struct tt_p2p_call *call,
					   size_t bytes);
/* Receives it. */
void tt_p2p_recv_arrived(const struct tt_p2p_call *call, struct tutti_message *msg);
void tt_p2p_message(struct tt_port *port, int peer, const struct tt_key *key, uint64_t total,
		    const void *data, uint32_t len, const struct tt_kept *kept);
/* A message of peer is matched: sends the peer its new limits if they changed enough. */
void tt_p2p_grant(struct tt_p2p_peer *peer);
/* The first matching message; NULL: none, and more messages are admitted. */
struct tutti_message *tt_p2p_find(struct tt_p2p *p2p, int rank, int tag);
/* For a matched probe: from now on only a receive of msg finds it. */
void tt_p2p_take(struct tt_p2p *p2p, struct tutti_message *msg);
/* Fills the caller's status of a probe or receive; NULL: there is none. */
void tt_p2p_tell(struct tutti_status *status, int source, int tag, size_t bytes, uint32_t head);

/* piece.c: transfers the payload of a matched message, from or into req's buffer */
void tt_p2p_payload(struct tt_p2p_req *req);
/* The request has ended: what waits for the part of the pool that its payload had can start. */
void tt_p2p_end_payload(struct tt_p2p_req *req);
/* Tells the sender of the message that req has taken. */
void tt_p2p_say(const struct tt_p2p_req *req, uint32_t what);
/* Copies len bytes of a message into the layout of a receive. */
void tt_p2p_unpack(struct tt_p2p_req *req, struct tt_place place, const void *data, size_t len);

/*
 * p2p_pull.c: whether a payload that would go through the pool here is to be read where its sender
 * keeps it. How long it takes is measured from here until tt_p2p_came.
 */
bool tt_p2p_pulls(struct tt_p2p_req *req);
/* Reads at most TT_P2P_PIECE bytes more. False: it cannot be read. */
bool tt_p2p_read_piece(struct tt_p2p_req *req);
void tt_p2p_came(struct tt_p2p_req *req);

/*
 * The port of a message's key: that the message belongs to a port, that the sender waits for
 * TT_P2P_MATCHED, and the sender's datatype.
 */
#define TT_P2P_PORT 1u
#define TT_P2P_SYNC 2u
#define TT_P2P_TYPE_SHIFT 2
_Static_assert((2ull * TUTTI_OPAQUE_FLAG - 1) << TT_P2P_TYPE_SHIFT < TT_KEY_INIT, "bits of a port");

static inline uint32_t tt_p2p_head(const struct tt_p2p_call *call)
{
	return TT_P2P_PORT | (call->sync ? TT_P2P_SYNC : 0) |
	       (uint32_t)call->datatype << TT_P2P_TYPE_SHIFT;
}

static inline enum tutti_datatype tt_p2p_type(uint32_t head)
{
	return (enum tutti_datatype)(head >> TT_P2P_TYPE_SHIFT);
}

/* The key of a message from rank `from` (here); lanes of payloads have the upper bit set. */
static inline struct tt_key tt_p2p_key(const struct tt_p2p *p2p, int from, uint32_t seq, int tag)
{
	return (struct tt_key){.comm = p2p->port.comm,
			       .seq = seq,
			       .lane = (uint32_t)tag,
			       .index = (uint32_t)from,
			       .port = TT_P2P_PORT};
}

#endif
