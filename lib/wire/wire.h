/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The wire: open transports, the memory registered with them, and channels to the job's other
 * processes.
 *
 * A channel is the credit domain of a pair of processes, shared by all their communicators. It
 * carries messages named by a key {communicator, sequence, lane, index} and promises no order: a
 * message is matched with the receive of the same key. Short messages travel eagerly into slots;
 * for longer ones the receiver offers memory and the sender puts straight into it. Channels
 * connect on first use.
 *
 * One recursive lock per wire covers transports, channels and all engine state attached to them.
 */
#ifndef TT_WIRE_H
#define TT_WIRE_H

#include <tutti/comm.h>

#include "lib/base/list.h"
#include "lib/boot/boot.h"
#include "lib/mem/mem.h"
#include "lib/wire/transport.h"

struct tt_wire;
struct tt_chan;
struct tt_xfer;

/* The name of a message between two processes; unique per direction. */
struct tt_key {
	uint64_t comm; /* uid of the communicator */
	uint32_t seq;  /* sequence number of the collective */
	uint32_t lane;
	uint32_t index;
	uint32_t port; /* 0, or TT_KEY_INIT: for a receive; else for the port of comm, which knows
			  its meaning */
};

/* Of a persistent collective: this bit, and the number of its _init call. */
#define TT_KEY_INIT 0x80000000u

/* The port of a persistent collective's key, else 0. */
static inline uint32_t tt_key_series(const struct tt_key *key)
{
	return key->port & -(key->port >> 31);
}

static inline uint32_t tt_key_init(const struct tt_key *key)
{
	return tt_key_series(key) & ~TT_KEY_INIT;
}

/*
 * An operation under way at a transport; embedded in its owner. done runs under the wire lock,
 * exactly once, after the wr has been unlinked.
 */
struct tt_wr {
	struct tt_list link;  /* of the channel, while under way */
	const void *lands[2]; /* where a result is written; NULL: none. Set by the wire. */
	void (*done)(struct tt_wr *wr, int status);
};

/*
 * The end of a transfer, under the wire lock, exactly once; x may be reused or freed in it. For a
 * receive with status 0, data is the x->len bytes that came: x->buf if they landed there, else
 * memory valid during the call only (a slot, or registered bounce memory).
 */
typedef void tt_xfer_fn(struct tt_xfer *x, const void *data, int status);

/* How a transfer is matched. */
enum tt_xfer_kind {
	TT_XFER_KEYED = 0, /* short messages eagerly, longer ones into an offer */
	TT_XFER_OFFER,	   /* into an offer, however short: both ends must agree */
	TT_XFER_PORT	   /* send only: to the peer's port; see struct tt_port */
};

/* Writes the len bytes of a send to `to`, which is in the pool, once the offer is there. */
struct tt_source {
	void (*fill)(const struct tt_source *source, void *to, size_t len);
};

#define TT_OFFER_LEAST 4096 /* bytes of an offer that is shorter than its send */

/* A message to send or receive. The upper part is the caller's, the lower the wire's. */
struct tt_xfer {
	enum tt_xfer_kind kind;
	bool bare;    /* to a port: without the payload, however short */
	bool whole;   /* to a port, in fn: the payload was sent with it */
	bool fill;    /* a send into an offer: buf is a struct tt_source */
	bool shorter; /* the offer may be for fewer bytes, len is what it is for then */
	int priority; /* of a send that waits for room, and of its pieces: higher goes first */
	int peer;     /* rank in the world */
	struct tt_key key;
	uint64_t fprint;	  /* must agree at both ends */
	void *buf;		  /* send: the source; receive: the destination, NULL: anywhere */
	size_t len;		  /* the same at both ends */
	struct tt_region *region; /* covers buf, or NULL */
	tt_xfer_fn *fn;

	struct tt_list link;
	struct tt_wr wr;
	struct tt_chan *chan;
	unsigned state;
	uint32_t token;
	union {
		uint64_t sum;
		struct tt_rest *rest; /* of a send that is cut; pacing.c */
	};
	bool summed, landed; /* the checksum is known; receive: the payload is there */
	bool cut, spare;     /* travels in pieces, of which */
	uint32_t pieces;     /* these are under way; receive: have come */
	void *bounce;
	struct tt_region *bounce_region;
};

/* The object that a note leads to: registered with a token, rung by a peer's put. */
struct tt_bell {
	void (*ring)(struct tt_bell *bell);
	/* peer asks for an atomic on the bell's object; NULL: refused. Returns 0 and *old. */
	int (*amo)(struct tt_bell *bell, int peer, enum tt_amo_op op, uint64_t operand,
		   uint64_t compare, uint64_t offset, uint64_t *old);
	/*
	 * The place of bytes that peer has put, to compare their checksum; NULL: peer may not put
	 * there, or out of bounds.
	 */
	const void *(*put)(struct tt_bell *bell, int peer, uint64_t offset, uint64_t len);
};

/* A 64-bit atomic on a peer's memory; see amo.c. The upper part is the caller's. */
struct tt_atomic {
	enum tt_amo_op op;
	uint64_t operand, compare;
	uint64_t remote;	    /* the word's address, and */
	const struct tt_rkey *rkey; /* its key, if it is mapped memory; else NULL */
	uint32_t bell;		    /* otherwise: the token of the target's bell that executes it */
	uint64_t offset;	    /* for the bell */
	bool device;		    /* by the target's device only: */
	int place;		    /* of the transport, as agreed; rkey is its key */
	uint64_t *result;	    /* registered memory for the old value */
	struct tt_region *region;   /* covers result */
	/* Under the lock, exactly once; old is valid with status 0. */
	void (*done)(struct tt_atomic *at, int status);
	uint64_t old;

	/* the wire's */
	struct tt_wr wr;
	struct tt_chan *chan;
	bool asked; /* the target; token waits for its reply */
	uint32_t token;
};

/* Memory of a sender that its receiver may read: see tt_wire_keep. */
struct tt_kept {
	uint64_t addr;
	uint32_t key[2]; /* key[0] 0: none */
};

/*
 * Messages that the receiver matches itself: those with key.port set are passed to the port of
 * key.comm, in no order. fprint is the length of the whole message. len bytes of data came with it:
 * all or none (none if the message exceeds the eager limit or was sent bare). data and kept are
 * valid during the call; kept, which may be NULL, says where the sender keeps the rest. Messages
 * that come before the port is open are kept within the bounds of flow.c.
 */
struct tt_port {
	struct tt_list link;
	uint64_t comm;
	void (*message)(struct tt_port *port, int peer, const struct tt_key *key, uint64_t total,
			const void *data, uint32_t len, const struct tt_kept *kept);
	/* The peer called tt_wire_port_say. */
	void (*said)(struct tt_port *port, int peer, uint32_t what, const struct tt_key *key,
		     uint64_t a, uint64_t b);
};

/* An open transport, for one-sided operations. */
struct tt_way {
	int place; /* in the list of compiled transports, the same at all ranks: keys are exchanged
		      by place */
	int index; /* here: among the registrations of a region */
	size_t most;		   /* longest put or get */
	size_t bare_put, bare_get; /* longest one whose near side needs no registration */
	bool get_head;		   /* TT_CAP_GET_HEAD */
	bool at_once;		   /* TT_CAP_AT_ONCE */
};

/*
 * A second source of wake-ups for a sleep. lie_down returns a descriptor that becomes readable
 * when something happens after the call; ready is then checked once more. first: no other thread
 * sleeps. get_up: no thread sleeps any more. Under the lock.
 */
struct tt_wire_sleeper {
	int (*lie_down)(void *arg, bool first);
	void (*get_up)(void *arg);
	void *arg;
};

struct tt_wire_params {
	const struct tt_env *env;
	int rank, nranks;
	const char *local_addr;
	/*
	 * Also receives memory registrations, but has no endpoints; NULL: none. It outlives the
	 * wire.
	 */
	struct tt_tp *keeper;
	struct tt_wire_sleeper sleeper; /* lie_down NULL: none */
	/*
	 * A message met a receive with another fingerprint; under the lock. The transfer itself
	 * fails.
	 */
	void (*mismatch)(void *arg, int peer, const struct tt_key *key);
	/*
	 * A connection to a live peer was closed to take back a transfer of comm: by this process
	 * (mine) or by the peer. Its users must give up before this returns; it may be reopened
	 * afterwards.
	 */
	void (*fenced)(void *arg, int peer, bool mine, uint64_t comm);
	/* An unexpected message or offer has come; under the lock. */
	void (*early)(void *arg, int peer, const struct tt_key *key, uint64_t fprint, bool offer);
	/* a message to a port that is not open, as tt_port.message; true: it will not be opened */
	bool (*late)(void *arg, int peer, const struct tt_key *key, uint64_t fprint, uint32_t len);
	/* Data from peer was damaged in transit; its channel fails next. Only with checksums. */
	void (*damaged)(void *arg, int peer, const char *why);
	/*
	 * The connection to peer carries nothing, though both ends may live; its channel fails
	 * next. May be NULL.
	 */
	void (*cut)(void *arg, int peer, const char *why);
	/* A transport waits for a stopped peer, in this thread; may be NULL. */
	void (*alive)(void *arg);
	void *arg;
};

int tt_wire_open(const struct tt_wire_params *params, struct tt_wire **wire);
/* The data that other ranks need to choose a transport with this one. */
size_t tt_wire_card(struct tt_wire *wire, void *card, size_t max);
/*
 * From now on channels can be opened. Answers earlier requests, and opens deferred transports that
 * some rank needs.
 */
void tt_wire_attach(struct tt_wire *wire, struct tt_boot *boot);
/* Closes all channels (their transfers fail with -ECANCELED), memory and transports. */
void tt_wire_close(struct tt_wire *wire);

/* Handlers for the control tree. */
void tt_wire_conn_req(struct tt_wire *wire, int from, const void *data, size_t len);
void tt_wire_conn_rep(struct tt_wire *wire, int from, const void *data, size_t len);
/* A peer has closed its end of a connection that may look intact here. */
void tt_wire_fenced_msg(struct tt_wire *wire, int from, const void *data, size_t len);
/* A rank has connected over a slower network than it could: warn, once. Under the lock. */
void tt_wire_slower_msg(struct tt_wire *wire, const void *data, size_t len);
/* Messages may have been lost: repeats unanswered ones to peers. Under the lock. */
void tt_wire_ask_again(struct tt_wire *wire);
/* Why the channel to peer has failed; NULL: it has not. Under the lock. */
const char *tt_wire_why(const struct tt_wire *wire, int peer);
/* The rank whose shortage made an operation with peer fail: this rank or peer. Under the lock. */
int tt_wire_short_rank(const struct tt_wire *wire, int peer);
/*
 * Whether the channel to peer has failed, perhaps because the peer died: it is known to have
 * failed, or had agreed to a connection that then did not come about. Under the lock.
 */
bool tt_wire_may_be_gone(const struct tt_wire *wire, int peer);
/* Turns checksums of messages on or off; before anything is sent, the same on all ranks. */
void tt_wire_checksums(struct tt_wire *wire, bool on);
bool tt_wire_has_checksums(const struct tt_wire *wire);
uint64_t tt_sum(const void *data, size_t len);
/*
 * In place of a put's note: peer rings at->bell if the len bytes at at->offset have the checksum,
 * and replies; at->done follows after 0. Under the lock, after the put is complete.
 */
int tt_wire_ring(struct tt_wire *wire, int peer, struct tt_atomic *at, uint64_t len, uint64_t sum);
/* Lists channels to ranks from `from` on, at most max; returns their number. Under the lock. */
struct tt_wire_link {
	int peer;
	const char *state, *transport; /* "": none yet */
	struct tt_silence silence;     /* 0 if not known */
};
int tt_wire_links(const struct tt_wire *wire, int from, struct tt_wire_link *link, int max);
/* Fails connections that carry nothing any more; called often during a wait. Under the lock. */
void tt_wire_watch(struct tt_wire *wire);
/* A process has failed: its channel's transfers fail with -TUTTI_EPEER. */
void tt_wire_peer_gone(struct tt_wire *wire, int rank);

void tt_wire_lock(struct tt_wire *wire);
bool tt_wire_lock_within(struct tt_wire *wire, int ms); /* false: not acquired in time */
void tt_wire_unlock(struct tt_wire *wire);
struct tt_memory *tt_wire_memory(struct tt_wire *wire);
struct tutti_stats *tt_wire_stats(struct tt_wire *wire);

/*
 * Bytes that one thread at a time moves without the lock, through memory that it has mapped. While
 * open, they are a part of tt_wire_stats_now; afterwards, of tt_wire_stats. Under the lock.
 */
struct tt_moved {
	struct tt_list link;
	_Atomic uint64_t put, got;
};
void tt_wire_moved_open(struct tt_wire *wire, struct tt_moved *moved);
void tt_wire_moved_close(struct tt_wire *wire, struct tt_moved *moved);
struct tutti_stats tt_wire_stats_now(const struct tt_wire *wire);

/* The longest eager message: TUTTI_EAGER, rounded up to whole cache lines. */
size_t tt_wire_eager_max(const struct tt_env *env);
/* Whether all transports carry one-sided operations to a target that makes no calls. */
bool tt_wire_auto_progress(struct tt_wire *wire);
/*
 * tt_ticks(), for the record of a message that has come. Messages found by one poll share it, so it
 * may be early by as long as handling them has taken.
 */
uint64_t tt_wire_ticks(struct tt_wire *wire);
/* How often tt_wire_progress has polled the transports; under the lock. */
uint64_t tt_wire_looks(const struct tt_wire *wire);
/* The same, calls of tt_wire_started (see there), and looks of tt_wire_brief_peek at one peer. */
uint64_t tt_wire_uses(const struct tt_wire *wire);
/*
 * Under the lock: whether a thread that has entered is awake, or will be within a millisecond. It
 * does what the threads that sleep for longer would have to do.
 */
bool tt_wire_is_minded(const struct tt_wire *wire);
/* Whether a thread is in tt_wire_sleep. */
bool tt_wire_asleep(const struct tt_wire *wire);
/* Whether polling makes system calls, so that a thread should not spin. */
bool tt_wire_slow_poll(const struct tt_wire *wire);
/* The ranks that may use this rank's CPUs, itself included. */
struct tt_wire_sharers {
	int ranks, cpus;   /* how many of each; no ranks: unknown */
	int first, second; /* the lowest two of the ranks, -1: none */
	int host_ranks;	   /* all ranks of this host */
};
void tt_wire_sharers(struct tt_wire *wire, struct tt_wire_sharers *sharers);
/* Whether rank is on this process's host; text (may be NULL) receives why. */
bool tt_wire_same_host(struct tt_wire *wire, int rank, char *why, size_t size);
/* Whether, by the cards, this process and rank share memory, and no connection has disproved it. */
bool tt_wire_shares_memory(struct tt_wire *wire, int rank);
/* Identity of a rank's host: equal numbers mean same host. For splitting by host. */
uint64_t tt_wire_host_key(struct tt_wire *wire, int rank);
/* The NUMA node of a rank; -1: unknown, or several. */
int tt_wire_numa(struct tt_wire *wire, int rank);
/*
 * How n ranks are spread, the same on all ranks: hosts, the most ranks on a host, the CPUs they
 * may use on the first rank's host, and the best transport that all have, on one host and between
 * hosts ("": none; constant strings). For one host: its NUMA nodes, and the most ranks on a node.
 */
struct tt_wire_spread {
	int hosts, most, cpus;
	int numa, numa_most; /* 1 if not known */
	const char *inside, *between;
};
int tt_wire_spread(struct tt_wire *wire, const int *ranks, int n, struct tt_wire_spread *spread);

/* All of the following are called under the lock. */

/*
 * Starts a transfer; its fn may run before the call returns. Failures are reported through fn too.
 */
void tt_wire_send(struct tt_wire *wire, struct tt_xfer *x);
void tt_wire_recv(struct tt_wire *wire, struct tt_xfer *x);
/* From now on some transfers have priorities: long messages are cut into pieces; pacing.c. */
void tt_wire_pace(struct tt_wire *wire);
#define TT_PIECE 65536 /* longest piece of a message, the same in all processes */
/* The most bytes of pieces under way to a peer; 0: nothing is cut. */
size_t tt_wire_window(const struct tt_wire *wire);
/*
 * Takes back a transfer without running fn: afterwards its buffer is not accessed. If a peer may
 * be writing it, the channel to that peer is closed first (a fence).
 */
void tt_wire_cancel(struct tt_wire *wire, struct tt_xfer *x);
/*
 * The same of a transfer that the peer has done with: the channel stays. What is late may still
 * land in its buffer, which is not used again before it has gone back to the pool. False: this end
 * is writing, and x ends by itself.
 */
bool tt_wire_cancel_quiet(struct tt_wire *wire, struct tt_xfer *x);
/*
 * The same without a fence: bounce memory that a peer may write is kept until the peer has written
 * it or the connection is closed. False: a put out of x's buffer is under way, and x goes on. The
 * receive must not offer the caller's memory: x->buf NULL, or no region.
 */
bool tt_wire_abandon(struct tt_wire *wire, struct tt_xfer *x);
/* Closes the channel to peer, if there is one: its transfers fail and access no memory any more. */
void tt_wire_fence(struct tt_wire *wire, int peer, uint64_t comm, const char *why);
/*
 * Calls params.early again for every message and offer that waits here for the call of this key,
 * in which only comm, seq and port count. Costs nothing while none waits.
 */
void tt_wire_early_again(struct tt_wire *wire, const struct tt_key *call);
/* Drops early messages and flow state of a communicator that is freed or has failed. */
void tt_wire_forget_comm(struct tt_wire *wire, uint64_t comm);

/* NULL: none is open. */
struct tt_port *tt_wire_port_find(struct tt_wire *wire, uint64_t comm);
/* Delivers the messages that came before. */
void tt_wire_port_open(struct tt_wire *wire, struct tt_port *port);
void tt_wire_port_close(struct tt_wire *wire, struct tt_port *port);
/*
 * Brief messages to a port: short ones that the transport carries whole, at the cost of a cache
 * line or two. The head is what a key says.
 */
struct tt_brief {
	uint64_t comm;
	uint32_t seq, lane, index, port;
};
/* In the lane: the message stays with its sender, and the data is a struct tt_bare. */
#define TT_BRIEF_BARE 0x80000000u
struct tt_bare {
	uint64_t total; /* its length */
	struct tt_kept kept;
};
#define TT_BRIEF_MAX (TT_TP_BRIEF_MAX - sizeof(struct tt_brief))
_Static_assert(TT_BRIEF_MAX == TT_BRIEF_TIMES * TT_EAGER_DEFAULT,
	       "the head outgrew TT_TP_BRIEF_MAX");

/* Whether they can go to peer, which is connected. */
bool tt_wire_has_brief(const struct tt_wire *wire, int peer);
/* Whether peer has sent a brief message on this connection. */
bool tt_wire_hears_brief(const struct tt_wire *wire, int peer);
/*
 * Sends len <= TT_BRIEF_MAX bytes to the port of head->comm at peer, which has that port open.
 * False: nothing was sent, as the way to peer has no brief messages, or no room now.
 */
bool tt_wire_brief(struct tt_wire *wire, int peer, const struct tt_brief *head, const void *data,
		   size_t len);
/*
 * Looks whether the next thing from peer is a brief message. If so, head and data are its parts
 * until tt_wire_brief_take or the next poll.
 */
struct tt_brief_peek {
	const struct tt_brief *head;
	const void *data;
	size_t len;
};
enum tt_peeked tt_wire_brief_peek(struct tt_wire *wire, int peer, struct tt_brief_peek *peek);
/* The caller has used it: removes it. */
void tt_wire_brief_take(struct tt_wire *wire, int peer);

/*
 * kept.c: for a brief message that stays here. Its receiver may read it, whatever memory it is in,
 * until it says that it has done so, or until tt_wire_unkeep. None if the transport to peer, which
 * has brief messages, cannot.
 */
struct tt_kept tt_wire_keep(struct tt_wire *wire, int peer, const void *buf);
/*
 * Waits for readers; afterwards nobody reads what was kept before, but a process that is stopped
 * while it reads, which is not waited for any longer than the transport does.
 */
void tt_wire_unkeep(struct tt_wire *wire);
/* Reads what peer keeps. 0; -ESTALE: not kept any more; other codes: it cannot be read. */
int tt_wire_read_kept(struct tt_wire *wire, int peer, const struct tt_kept *kept, void *to,
		      size_t len);

/*
 * Sends a control message to the port of key->comm at peer, which has sent to this rank; lost if
 * the port is closed.
 */
void tt_wire_port_say(struct tt_wire *wire, int peer, uint32_t what, const struct tt_key *key,
		      uint64_t a, uint64_t b);

/*
 * One-sided operations on a peer with an open connection. 0: started, wr->done will run
 * (perhaps before return); -EAGAIN: no room, progress and retry; other: failed. rma->user and
 * rma->mr are filled in here from wr and region; rma->head_mr is the caller's.
 */
int tt_wire_put(struct tt_wire *wire, int peer, struct tt_rma *rma, struct tt_region *region,
		struct tt_wr *wr);
int tt_wire_get(struct tt_wire *wire, int peer, struct tt_rma *rma, struct tt_region *region,
		struct tt_wr *wr);
/* The same without a note over a way that has at_once. 0: it has ended; else it failed. */
int tt_wire_move(struct tt_wire *wire, int peer, const struct tt_rma *rma, bool get);
/* The same for an atomic; at must stay valid until done has run. */
int tt_wire_atomic(struct tt_wire *wire, int peer, struct tt_atomic *at);
/*
 * Before each one-sided operation, under the same lock: finds the way to peer. 0, -EAGAIN while
 * connecting, or an error. *waits belongs to the operation, which begins with false: it has waited
 * for a connection, and reports that this failed for lack of memory. Others try to connect again.
 */
int tt_wire_reach(struct tt_wire *wire, int peer, bool *waits, const struct tt_way **way);
/* The way to peer; NULL: no connection is open. Opens none and reports no failure. */
const struct tt_way *tt_wire_open_way(const struct tt_wire *wire, int peer);
/* Of an open connection: how to see without the lock that peer closes its end. */
struct tt_open_word tt_wire_open_word(const struct tt_wire *wire, int peer);
/*
 * Keys of memory are about to be exchanged with these ranks, and none can be added later: opens
 * deferred transports, unless all the ranks are on this host and share memory.
 */
void tt_wire_open_rest(struct tt_wire *wire, const int *ranks, int n);
/*
 * Memory that a peer connected over a transport costs this process: slots, a channel, and the
 * transport's part.
 */
size_t tt_wire_peer_bytes(const struct tt_env *env, const struct tt_tp_ops *tp);
/*
 * The place of the transport that reaches all of these ranks (of the world, including this one)
 * first and whose device executes atomics; -1: none. Opens this process's way to its own device.
 */
int tt_wire_amo_place(struct tt_wire *wire, const int *ranks, int n);
/* The longest put that the transports of all ranks support. */
size_t tt_wire_longest(const struct tt_wire *wire);
/* The open transport of a place; -1: not open here. */
int tt_wire_at_place(struct tt_wire *wire, int place);

/* Gives n bells the tokens *token, *token + 1, ...; to be freed one by one. */
int tt_wire_tokens_new(struct tt_wire *wire, struct tt_bell *const *bells, int n, uint32_t *token);
void tt_wire_token_free(struct tt_wire *wire, uint32_t token);

/* Polls all transports in use; returns the number of events handled. */
int tt_wire_progress(struct tt_wire *wire);
/*
 * Handles what the transports hold for this process, within bounds: before a rank is given up.
 * Under the lock.
 */
void tt_wire_drain(struct tt_wire *wire);
/* Operations under way or queued at transports and channels; 0: everything sent has left. */
int tt_wire_pending(struct tt_wire *wire);
/* Those at transports alone: the rest waits for room at a peer. */
int tt_wire_in_flight(const struct tt_wire *wire);

/*
 * Under the lock. A thread that waits enters, polls, sleeps when nothing happens, and quits. While
 * one polls, others that sleep leave the transports to it.
 */
void tt_wire_enter(struct tt_wire *wire);
void tt_wire_quit(struct tt_wire *wire);

/*
 * Sleeps until something may have happened, at most for_ns. Called without the lock, by a
 * thread that has entered. Calls ready under the lock before sleeping, from tt_wire_wake_ready and
 * tt_wire_leave, and after a sleep that nothing ended. Other threads make ready true, then call
 * tt_wire_wake.
 */
enum tt_slept {
	TT_SLEPT_OUT,  /* the time ran out */
	TT_SLEPT_LATE, /* the same, while it was ready and no thread minded the wire */
	TT_SLEPT_WOKEN,
	TT_SLEPT_NOT,	 /* a thread that has been woken has to leave its sleep first */
	TT_SLEPT_STIRRED /* by a transport that may have to work for a peer without any event */
};
enum tt_slept tt_wire_sleep(struct tt_wire *wire, uint64_t for_ns, bool (*ready)(void *),
			    void *arg);
void tt_wire_wake(struct tt_wire *wire);
/*
 * The same under the lock, after a moment, in which the caller can leave the library: it shares its
 * core with the thread that is woken. One that naps is left to its nap.
 */
void tt_wire_wake_soon(struct tt_wire *wire);
/*
 * Sleeps for ns, less than a second, or until tt_wire_wake: events do not end it, as other threads
 * poll. Called and calls ready as tt_wire_sleep; one thread of a wire at a time.
 */
void tt_wire_nap(struct tt_wire *wire, uint64_t ns, bool (*ready)(void *), void *arg);
/*
 * Under the lock: something has begun that may need a thread that sleeps. One that naps looks by
 * itself, soon. Where a look is cheap it counts as a use, so a thread that callers keep awake naps.
 */
void tt_wire_started(struct tt_wire *wire);
/*
 * Under the lock. Polling disarms the descriptors of sleepers. After progress, wake_ready wakes the
 * sleepers if one of them is ready; the others sleep on, as the thread that polls does their work.
 * A thread that has polled without entering calls leave before it turns to anything else: it arms
 * the descriptors again, or wakes the sleepers, if no other thread polls.
 */
void tt_wire_wake_ready(struct tt_wire *wire);
void tt_wire_leave(struct tt_wire *wire);

#endif
