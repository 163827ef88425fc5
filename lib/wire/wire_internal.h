/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of lib/wire: the structs behind wire.h. */
#ifndef TT_WIRE_INTERNAL_H
#define TT_WIRE_INTERNAL_H

#include <stdatomic.h>

#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/base/lock.h"
#include "lib/wire/wire.h"

#define TT_BUCKETS 256
#define TT_SLOTS_MAX 64
#define TT_PORT_BUCKETS 64

/* Keyed objects: posted receives, sends and offers waiting for each other, early messages. */
struct tt_table {
	struct tt_list bucket[TT_BUCKETS];
};

/* Head of an eager message, at the start of its slot. doc/WIRE.md. */
struct tt_eager_head {
	struct tt_key key;
	uint64_t fprint;
	uint64_t freed; /* slots of the reverse direction that are free again */
	uint32_t len;
	uint32_t pad;
	uint64_t sum; /* over head and payload, with 0 here; 0: no checksums */
	uint64_t pad2;
};
_Static_assert(sizeof(struct tt_eager_head) == 64, "one cache line");

enum tt_ctrl_kind {
	TT_CTRL_OFFER = 1, /* memory for the message of this key */
	TT_CTRL_CREDIT,	   /* slots are free again */
	TT_CTRL_STOP,	   /* flow.c: no more eager messages of this communicator */
	TT_CTRL_STOP_ACK,
	TT_CTRL_GO,
	TT_CTRL_AMO, /* amo.c: execute this on a window */
	TT_CTRL_AMO_REPLY,
	TT_CTRL_PORT, /* port.c: for the port of this communicator */
	TT_CTRL_SUM,  /* checksum.c: the checksum of the payload put into the offer of this token */
	TT_CTRL_RING  /* checksum.c: ring this window's bell if the put data has this checksum */
};

/* A control message between the two ends of a channel. doc/WIRE.md. */
struct tt_ctrl {
	uint32_t kind;
	uint32_t token;	   /* offer: the note to ring; amo: the window's bell; its reply: the asking
			      token; port: what */
	struct tt_key key; /* flow control: only comm is used */
	uint64_t fprint;   /* amo: compare; sum: the checksum */
	uint64_t freed;
	/*
	 * offer; flow control: epoch, count; amo: offset, operand; its reply: old value, status;
	 * port: a, b; ring: offset
	 */
	uint64_t addr, len;
	struct tt_rkey rkey; /* offer; amo: the operation, and the token for the reply */
};
_Static_assert(sizeof(struct tt_ctrl) <= TT_TP_MSG_MAX, "fits a control message");

struct tt_ctrl_item {
	struct tt_list link;
	struct tt_ctrl ctrl;
};

/* An offer that came before its send. */
struct tt_offer {
	struct tt_list link;
	int peer;
	struct tt_ctrl ctrl;
};

/* An eager message that came before its receive: still in its slot, or on the heap. */
struct tt_early {
	struct tt_list link;
	int peer;
	struct tt_key key;
	uint64_t fprint;
	uint32_t len;
	int slot;   /* -1: heap */
	char *data; /* heap: follows this struct */
};

/* Registered memory from which eager messages are sent. */
struct tt_stage {
	struct tt_wr wr;
	struct tt_wire *wire;
	struct tt_chan *chan; /* the channel it was sent on */
	struct tt_stage *next;
	struct tt_region *region;
	char *mem;
};

/* Flow control of one communicator on one channel; flow.c. */
struct tt_flow {
	struct tt_list link;
	uint64_t comm;
	/* as sender */
	uint32_t sent, stop_epoch;
	bool stopped;
	/* as receiver */
	uint32_t received, parked, epoch, peer_sent, offers;
	bool acked, gone; /* gone: tt_flow_forget keeps it until GO */
	enum { TT_FLOW_OPEN, TT_FLOW_STOPPING, TT_FLOW_STOPPED } state;
};

#define TT_REASON_MAX 400 /* why a connection failed, in words */

enum tt_chan_state {
	TT_CHAN_CLOSED,
	TT_CHAN_REQUESTED, /* the peer was asked and has not answered */
	TT_CHAN_OPENING,   /* the endpoints are connecting */
	TT_CHAN_OPEN,
	TT_CHAN_FAILED
};

struct tt_chan {
	struct tt_wire *wire;
	int peer;
	enum tt_chan_state state;
	int status;	       /* of a failed channel */
	uint32_t generation;   /* connections closed while both ends lived */
	struct conn_msg *said; /* the last request or answer; NULL: none */
	bool gone;	       /* the peer has failed: never reconnect */
	char reason[TT_REASON_MAX];
	bool active;  /* this end asked */
	bool agreed;  /* the peer has agreed to an attempt that this end made */
	int shortage; /* an attempt failed for lack of memory or descriptors, here or there; or 0 */
	bool shortage_there;
	bool again;		   /* failed for that reason before it was open: try again */
	bool up;		   /* reported by the transport */
	bool heard;		   /* something came from the peer */
	bool hears_brief;	   /* a brief message did */
	uint64_t early_notes;	   /* slots rung before the channel was open */
	struct tt_list early_ctrl; /* control messages from before */
	int tp, attempt, candidate;
	struct tt_ep *ep;

	/* our slots, which the peer may write */
	char *slots;
	struct tt_region *slots_region;
	int nslots;
	size_t slot_size;
	uint64_t freed; /* slots to be returned to the peer */
	int held;	/* slots kept by early messages */

	/* the peer's slots */
	uint64_t tx_addr;
	struct tt_rkey tx_rkey;
	uint64_t tx_free;
	size_t tx_slot_size;
	uint32_t tx_token;
	size_t eager; /* longest eager payload that both ends allow */

	struct tt_list pieceq;	 /* transfers with pieces to send, and */
	size_t under_way;	 /* bytes of pieces at the transport */
	bool pouring;		 /* within tt_pieces_flush */
	struct tt_list sendq;	 /* transfers waiting for a credit, room, or the connection */
	struct tt_list recvq;	 /* receives posted before the connection */
	struct tt_list ctrlq;	 /* control messages waiting for room */
	struct tt_list inflight; /* wrs at the transport */
	struct tt_list orphans;	 /* orphan.c */
	struct tt_list flows;
	struct tt_list busy; /* in wire->busy while a queue is not empty */
};

enum tt_token_kind { TT_TOKEN_FREE, TT_TOKEN_XFER, TT_TOKEN_BELL, TT_TOKEN_AMO, TT_TOKEN_ORPHAN };

struct tt_token {
	enum tt_token_kind kind;
	uint32_t generation;
	uint32_t next_free;
	void *target;
};

struct tt_wire_tp {
	struct tt_tp *tp;
	const char *name; /* of the wrapped transport under fault */
	int place;	  /* in the list of compiled transports */
	int endpoints;	  /* polled while > 0 */
	struct tt_way way;
};

/* A connection request that came before tt_wire_attach. */
struct tt_wire_request {
	struct tt_list link;
	int from;
	size_t len;
	char data[];
};

struct tt_wire {
	const struct tt_env *env;
	struct tt_wire_params params;
	struct tt_boot *boot;
	struct tt_lock lock;
	struct tt_tp_params tp_params;
	struct tt_wire_tp tp[TT_TP_MAX];
	int ntps;
	bool asked; /* TUTTI_TRANSPORT names transports */
	bool paced; /* priorities are in use: long messages travel in pieces */
	bool sums;  /* messages have checksums, on all ranks */
	bool fault;
	bool late[TT_TP_MAX];	       /* by place: usable, and opened when needed */
	char left_out[TT_TP_MAX][160]; /* by place: why it could not be opened */
	bool slower;		       /* the job has been warned of a slower network, or will be */
	size_t longest;		       /* longest put on the transports of all ranks */
	struct tt_memory *memory;
	struct tutti_stats stats;
	struct tt_list moved; /* struct tt_moved */

	struct tt_chan **chan; /* by rank; made on first use */
	struct tt_loop *loop;  /* to this process through a device; loopback.c */
	struct tt_list busy;
	struct tt_list requests;
	struct tt_table posted, sends, offers, early;
	struct tt_list ports[TT_PORT_BUCKETS]; /* by communicator */

	struct tt_token *token;
	uint32_t ntokens, free_token;

	size_t window; /* most bytes of pieces under way to a peer */
	struct tt_piece *free_pieces;
	struct tt_rest *free_rests;
	struct tt_mr *kept; /* all memory, for peers to read; NULL: not needed yet */

	struct tt_stage *stages;
	struct tt_list free_ctrl, free_offer, free_early;
	const char *why; /* the transport's reason for the failed operation being ended; or NULL */
	int nearly;	 /* objects in early and offers */
	int inflight;	 /* wrs at transports */
	struct tt_event *batch; /* events being handled */
	int batch_len;
	uint64_t ticks; /* while they are handled, 0: not read yet */

	uint64_t watch_at; /* time of the next look at connections */
	int wake_fd;
	atomic_int sleepers;
	atomic_bool signalled;	 /* wake_fd has been written since it was last emptied */
	int soon_fd;		 /* timer of tt_wire_wake_soon; -1: not needed yet */
	bool soon;		 /* it runs, or has fired */
	struct tt_list sleeping; /* struct sleeper, those that are armed */
	int pollers;		 /* threads between tt_wire_enter and tt_wire_quit that are awake */
	int brief;		 /* threads that nap, or sleep for a millisecond at most */
	atomic_uint napping;	 /* 1: the thread of tt_wire_nap sleeps */
	uint64_t looks;		 /* at the transports */
	uint64_t uses;		 /* the same, and other calls: tt_wire_uses */
};

/*
 * Tokens: bit 31 set: an eager slot of a peer, {generation of the connection, rank, slot}; else an
 * entry of wire->token. Slots of a closed connection may still ring: the generation identifies
 * them. TT_TOKEN_PIECE set in a note: one piece of the message for that entry has come.
 */
#define TT_TOKEN_SLOT 0x80000000u
#define TT_TOKEN_PIECE 0x40000000u
#define TT_TOKEN_SLOT_BITS 6
#define TT_TOKEN_RANK_BITS 20
#define TT_TOKEN_INDEX_BITS 20
#define TT_TOKEN_INDEX_MASK ((1u << TT_TOKEN_INDEX_BITS) - 1)
#define TT_TOKEN_GENERATION_MASK (0x3fffffffu >> TT_TOKEN_INDEX_BITS)

/* key_table.c */
void tt_table_init(struct tt_table *table);
struct tt_list *tt_table_bucket(struct tt_table *table, int peer, const struct tt_key *key);
/* The message is not for a receive. */
static inline bool tt_key_ported(const struct tt_key *key)
{
	return key->port && !(key->port & TT_KEY_INIT);
}

static inline bool tt_key_equal(const struct tt_key *a, const struct tt_key *b)
{
	return a->comm == b->comm && a->seq == b->seq && a->lane == b->lane &&
	       a->index == b->index && tt_key_series(a) == tt_key_series(b);
}

/* orphan.c */
void tt_orphan_landed(struct tt_wire *wire, void *orphan);
void tt_orphan_piece(struct tt_wire *wire, void *orphan);
/* The connection is closed. */
void tt_orphans_free(struct tt_chan *chan);

/* pacing.c */
/* Sends x, which has its source ready, into the offer. */
void tt_pieces_start(struct tt_chan *chan, struct tt_xfer *x, const struct tt_ctrl *offer);
/* Starts the pieces that may start; false: the transport has no room for the next one. */
bool tt_pieces_flush(struct tt_chan *chan);
/* Whether the transport has, or had, some of a cut send. */
bool tt_pieces_begun(const struct tt_xfer *x);
/* Forgets the pieces under way of a send that is taken back. */
void tt_pieces_cancel(struct tt_xfer *x);
/* Ends the transfers of a failed channel that wait for their turn. */
void tt_pieces_fail(struct tt_chan *chan, int status);
void tt_pieces_free(struct tt_wire *wire);
/* A piece of the receive of this token has come. */
void tt_piece_landed(struct tt_wire *wire, uint32_t token);
/* How many are still to come. */
uint64_t tt_pieces_missing(const struct tt_xfer *x);

/* token.c */
uint32_t tt_slot_token(const struct tt_chan *chan, int slot);
struct tt_chan *tt_slot_chan(struct tt_wire *wire, uint32_t token, int *slot);
int tt_token_new(struct tt_wire *wire, enum tt_token_kind kind, void *target, uint32_t *token);
void tt_token_free(struct tt_wire *wire, uint32_t token);
static inline struct tt_token *tt_token_find(struct tt_wire *wire, uint32_t token)
{
	uint32_t i = token & TT_TOKEN_INDEX_MASK;
	struct tt_token *t;

	if (i >= wire->ntokens)
		return NULL;
	t = &wire->token[i];
	if (t->kind == TT_TOKEN_FREE ||
	    (t->generation & TT_TOKEN_GENERATION_MASK) != token >> TT_TOKEN_INDEX_BITS)
		return NULL;
	return t;
}

/* connect.c */
void tt_chan_connect(struct tt_chan *chan);
/* Whether this process can map so much. malloc may find memory for one thread only. */
bool tt_has_room(size_t size);
size_t tt_slot_size(const struct tt_env *env);
void tt_chan_down(struct tt_chan *chan, const char *why);
/* Closes the connection because of comm's transfer; the next user reopens it. */
void tt_chan_fence(struct tt_chan *chan, uint64_t comm, const char *why);

/* channel_state.c */
/* Frees all objects of a list; offset: of the link in them. */
void tt_free_list(struct tt_list *list, size_t offset);
/* NULL: no memory; tt_fail has the error. */
struct tt_chan *tt_chan_get(struct tt_wire *wire, int peer);
/* An unconnected channel's lists. */
void tt_chan_init(struct tt_chan *chan, struct tt_wire *wire, int peer);
/* Clears the state of an earlier connection. */
void tt_chan_fresh(struct tt_chan *chan);
void tt_chan_up(struct tt_chan *chan);
/*
 * The first arrival over the endpoint, perhaps before it may be used. When both ends are up,
 * nothing of an earlier connection is under way.
 */
void tt_chan_heard(struct tt_chan *chan);
/*
 * Closes the endpoint. Operations of a closed endpoint produce no events: they end here, with
 * status.
 */
void tt_chan_close_ep(struct tt_chan *chan, int status);
/*
 * Ends the connection but not the channel: its users give up, and later users may reopen it. mine:
 * this end closes it, because of a transfer of comm.
 */
void tt_chan_shut(struct tt_chan *chan, bool mine, uint64_t comm);
/* The next use of a channel that failed for lack of memory opens it. */
void tt_chan_retry(struct tt_chan *chan);
/* The error of a use of a failed channel; it names the rank without memory, if that is why. */
int tt_chan_unreached(const struct tt_chan *chan);
void tt_chan_fail(struct tt_chan *chan, int status, const char *fmt, ...) TT_PRINTF(3, 4);
void tt_chan_free(struct tt_chan *chan);

/* channel.c */
/* A transport that refuses an operation for any reason but lack of room is broken for this peer. */
void tt_chan_refused(struct tt_chan *chan, int status);
int tt_chan_refusal(int status); /* the status that its operations end with */
/* Returns a slot to the peer. */
void tt_slot_free(struct tt_chan *chan, int slot);
/* Sets up the wire's part of x; returns its channel, connecting if it was idle. */
struct tt_chan *tt_xfer_begin(struct tt_wire *wire, struct tt_xfer *x);
void tt_xfer_end(struct tt_xfer *x, const void *data, int status);
/* wire_send.c: whether x can only travel into an offer */
bool tt_needs_offer(const struct tt_chan *chan, const struct tt_xfer *x);
/* starts x; false: it must stay queued */
bool tt_send_now(struct tt_chan *chan, struct tt_xfer *x);
void tt_send_offer(struct tt_chan *chan, const struct tt_ctrl *ctrl);
/* the source of x as the transport needs it */
int tt_send_source(struct tt_chan *chan, struct tt_xfer *x, void **src, struct tt_mr **mr);
/* wire_recv.c: x on an open channel */
void tt_recv_open(struct tt_chan *chan, struct tt_xfer *x);
void tt_chan_opened(struct tt_chan *chan);
void tt_chan_flush(struct tt_chan *chan);
void tt_chan_slot_note(struct tt_chan *chan, int slot);
void tt_chan_ctrl(struct tt_chan *chan, const struct tt_ctrl *ctrl);
void tt_xfer_landed(struct tt_wire *wire, struct tt_xfer *x);
void tt_chan_fail_xfers(struct tt_chan *chan, int status);
/*
 * With TT_CAP_LATE_WRITES, writes may land at addr even after the connection has ended: withholds
 * it.
 */
void tt_chan_withhold(struct tt_chan *chan, const void *addr);
void tt_chan_send_ctrl(struct tt_chan *chan, struct tt_ctrl *ctrl);
void tt_chan_busy(struct tt_chan *chan);
void tt_chan_queue(struct tt_chan *chan, struct tt_xfer *x); /* a send, until there is room */
void tt_xfer_offer(struct tt_chan *chan, struct tt_xfer *x);
/* An early message's bytes; and its removal, which frees its slot. */
const char *tt_early_data(struct tt_chan *chan, const struct tt_early *early);
void tt_early_drop(struct tt_wire *wire, struct tt_early *early);
/*
 * Passes wr to the transport's put or get. As tt_ep_ops.put, but in-place completion runs done
 * too.
 */
static inline int tt_chan_rma(struct tt_chan *chan, struct tt_rma *rma, struct tt_wr *wr, bool get)
{
	int rc;

	rma->user = wr;
	wr->lands[0] = get ? rma->local : NULL;
	wr->lands[1] = get && rma->head_len ? rma->head : NULL;
	rc = get ? chan->ep->ops->get(chan->ep, rma) : chan->ep->ops->put(chan->ep, rma);
	if (rc == TT_STARTED) {
		tt_list_add(&chan->inflight, &wr->link);
		chan->wire->inflight++;
	} else if (rc == TT_FINISHED) {
		wr->done(wr, 0);
		rc = 0;
	}
	return rc;
}

/* flow.c */
struct tt_flow *tt_flow_get(struct tt_chan *chan, uint64_t comm);
void tt_flow_parked(struct tt_chan *chan, struct tt_flow *flow);
void tt_flow_received(struct tt_chan *chan, struct tt_flow *flow);
void tt_flow_consumed(struct tt_chan *chan, struct tt_flow *flow);
void tt_flow_forget(struct tt_chan *chan, struct tt_flow *flow);
void tt_flow_ctrl(struct tt_chan *chan, const struct tt_ctrl *ctrl);

/* wire_recv.c: the payload is in place and verified */
void tt_xfer_complete(struct tt_wire *wire, struct tt_xfer *x);

/* checksum.c */
void tt_sum_head(struct tt_eager_head *head);
/* Checks an eager message that has come; false: it is damaged, and the channel has failed. */
bool tt_sum_check(struct tt_chan *chan, struct tt_eager_head *head);
/* The payload has been put into the offer of x; its checksum may not have come yet. */
void tt_sum_landed(struct tt_xfer *x);
void tt_sum_ctrl(struct tt_chan *chan, const struct tt_ctrl *ctrl);
void tt_sum_ring(struct tt_chan *chan, const struct tt_ctrl *ctrl);
void tt_sum_send(struct tt_chan *chan, const struct tt_key *key, uint64_t sum, uint32_t token);

/* port.c */
void tt_port_init(struct tt_wire *wire);
void tt_port_ctrl(struct tt_chan *chan, const struct tt_ctrl *ctrl);
/* A brief message of len bytes, its head included. */
void tt_port_brief(struct tt_chan *chan, const void *data, size_t len);

/* amo.c */
/* Before any other call on at. */
void tt_amo_init(struct tt_chan *chan, struct tt_atomic *at);
/* Sends the request, an AMO or RING, whose reply ends at. */
int tt_amo_ask(struct tt_chan *chan, struct tt_atomic *at, enum tt_ctrl_kind kind);
void tt_amo_request(struct tt_chan *chan, const struct tt_ctrl *ctrl);
void tt_amo_reply(struct tt_chan *chan, const struct tt_ctrl *ctrl);

/* loopback.c: a connection of this process with itself by a transport other than self */
void tt_loop_close(struct tt_wire *wire);
/* An event of one of its endpoints, which have no user. */
void tt_loop_event(struct tt_wire *wire, const struct tt_event *ev);
/* Its channel, for atomics only; NULL: none. */
struct tt_chan *tt_loop_chan(struct tt_wire *wire);
/* Ends its operations under way. */
void tt_loop_fence(struct tt_wire *wire, const char *why);

/* progress.c */
void tt_wire_drop_events(struct tt_wire *wire, const struct tt_ep *ep, const struct tt_wr *wr);

/* card.c: the places of the transports that may reach rank, best first; returns their number */
int tt_card_transports(struct tt_wire *wire, int rank, int *places, int max);
/* Adds to why, with "; ", why each of the other transports cannot reach rank. */
void tt_card_refusals(struct tt_wire *wire, int rank, char *why, size_t size);

/* Whether the card of rank names this transport. */
bool tt_card_has(struct tt_wire *wire, int rank, const char *name);

/* Computes wire->longest, once all cards are here. */
void tt_card_longest(struct tt_wire *wire);

/* open.c */
int tt_open_transports(struct tt_wire *wire);
/* Whether the transport of this place is open, or will be when needed. */
bool tt_usable_place(struct tt_wire *wire, int place);
/* The index of the transport of a place; opens it if it was deferred. */
int tt_open_place(struct tt_wire *wire, int place, int *tp);
/* Opens the deferred transports that are the best, or only, way to some rank. */
void tt_open_needed(struct tt_wire *wire);

/* slower.c: whether the channel fails with the transport of place, instead of trying the next. */
bool tt_slower_forbidden(struct tt_chan *chan, int place);
/* The channel is open. */
void tt_slower_check(struct tt_chan *chan);

/* States of a transfer. */
enum tt_xfer_state {
	TT_X_IDLE = 0,
	TT_X_QUEUED,  /* send: in chan->sendq; receive: in chan->recvq */
	TT_X_WAITING, /* send: for an offer, in wire->sends */
	TT_X_PUTTING, /* send: at the transport */
	TT_X_POSTED,  /* receive: in wire->posted, eager expected */
	TT_X_OFFERED  /* receive: in wire->posted, offered to the peer */
};

#endif
