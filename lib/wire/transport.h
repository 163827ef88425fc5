/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport contract: a transport moves bytes and rings bells, nothing else.
 *
 * A transport is one folder in transports/ with one const table of these operations, and one line
 * in lib/wire/transports.def. The caller makes every call on a tt_tp, its endpoints and its
 * registrations under one lock: transports need no locks of their own and must never block.
 * tests/conform runs one suite over every transport, bare and wrapped by transports/fault.
 */
#ifndef TT_TRANSPORT_H
#define TT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "lib/base/copy.h"
#include "lib/base/env.h"
#include "lib/base/error.h"

#define TT_TP_MAX 8	   /* open transports of a process */
#define TT_TP_BLOB_MAX 512 /* bytes of an endpoint's address */
#define TT_TP_MSG_MAX 128  /* bytes of a control message */
#define TT_TP_COPYING 512  /* copies at a time in struct tt_open_word */
/* Bytes of a brief message: its head, and twice as much as travels eagerly by default. */
#define TT_BRIEF_TIMES 2
#define TT_TP_BRIEF_MAX (24 + TT_BRIEF_TIMES * TT_EAGER_DEFAULT)

struct tt_tp_ops;
struct tt_ep_ops;

/* Capabilities of a transport; callers decide by these, not by name. */
enum tt_tp_caps {
	TT_CAP_LOCAL_ANY = 1,	  /* the near side of put and get needs no registration */
	TT_CAP_AUTO_PROGRESS = 2, /* put, get and amo complete without calls of the target */
	TT_CAP_AMO = 4,
	TT_CAP_MAP = 8,	     /* map() works for memory that has a memfd */
	TT_CAP_REG_ANY = 16, /* reg() also takes memory without a memfd */
	/*
	 * The target's device executes amo, the same device for all peers of this transport: these
	 * amo are atomic with each other, and not with a CPU's.
	 */
	TT_CAP_AMO_DEVICE = 32,
	TT_CAP_SLOW_POLL = 64, /* poll() makes system calls: spinning on it is useless */
	/*
	 * ep_close is no fence: operations that either end has begun may still land. The next
	 * endpoint to the same peer is up only when nothing that this end began over an earlier
	 * endpoint is left.
	 */
	TT_CAP_LATE_WRITES = 128,
	TT_CAP_GET_HEAD =
		256, /* a get's first bytes can land elsewhere than the rest: tt_rma.head */
	TT_CAP_TIMED_WAKE =
		512,	      /* arm()'s descriptor becomes readable after a while, event or not */
	TT_CAP_AT_ONCE = 1024 /* put and get without a note end within the call */
};

/* A device, or the transport itself, as shown by tutti_info. */
struct tt_tp_device {
	char name[64];	  /* "tcp", "mlx5_0/1" */
	char detail[160]; /* address, provider version, GID ... */
	double gbps;	  /* 0: unknown */
	int numa;	  /* -1: unknown */
	bool usable;
	char why[160]; /* why it is or is not usable */
};

/* Input of open(). Everything stays valid until close(). */
struct tt_tp_params {
	const struct tt_env *env;
	int rank;		/* of this process in the world */
	const char *local_addr; /* numeric address of the chosen interface; the only one that
				   sockets bind */
	uint64_t cookie[2];	/* random, of this process: distinguishes it from processes of other
				   jobs */
	void (*alive)(void *arg); /* called during a long wait in ep_close: sends heartbeats; may be
				     NULL */
	void *alive_arg;
};

/*
 * A transport opened by this process. Transports embed it as the first member of their own struct.
 */
struct tt_tp {
	const struct tt_tp_ops *ops;
	unsigned caps;
	size_t max_put;	   /* longest put or get; 0: any */
	size_t inline_put; /* longest put whose near side needs no registration either; 0: none */
	bool optional;	   /* set by the owner: it may fail to register memory, as there are other
			      transports */
	bool peer_lost; /* set by the owner: a peer has died, so close() may meet broken connections
			 */
	char detail[96]; /* for the line logged when it is chosen: "ofi, tcp (msg) over 127.0.0.1"
			  */
};

/* One end of a connection to one peer process; embedded likewise. user is the owner's. */
struct tt_ep {
	const struct tt_ep_ops *ops; /* the hot calls: one indirect call from anywhere */
	struct tt_tp *tp;
	void *user;
	bool dead; /* the peer is taken for dead: ep_close may end its process */
};

/* The key with which a peer accesses a registered region. The transport defines it. */
struct tt_rkey {
	uint64_t word[4];
};

/* Memory to be registered. memfd >= 0: [addr, addr + len) is memfd mapped shared from memfd_off. */
struct tt_mem {
	void *addr;
	size_t len;
	int memfd;
	uint64_t memfd_off;
};

enum tt_access {
	TT_ACCESS_LOCAL = 0,
	TT_ACCESS_READ = 1,  /* peers may get */
	TT_ACCESS_WRITE = 2, /* peers may put and amo */
};

/* A registration; embedded likewise. */
struct tt_mr {
	struct tt_tp *tp;
	struct tt_rkey rkey;
};

enum tt_rma_flags {
	TT_RMA_NOTE = 1,   /* put: ring note at the target once, after all bytes are in place */
	TT_RMA_REMOTE = 2, /* put: done means that the bytes are in place at the target */
	TT_RMA_AWAY = 4,   /* put: a hint: the target reads the bytes next, the origin does not
		      (tt_copy_away) */
	/*
	 * put: done means that the bytes have left this host: they wait in none of its queues,
	 * where later operations would wait behind them.
	 */
	TT_RMA_SENT = 8
};

/*
 * A put or get. Remote addresses are the target's own virtual addresses on every transport. For a
 * get with TT_CAP_GET_HEAD, the first head_len bytes (fewer than len) land at head, the rest from
 * local on. Bytes land in no particular order.
 */
struct tt_rma {
	void *local;
	size_t len;	  /* 0 is allowed: with a note it only rings */
	struct tt_mr *mr; /* of local; may be NULL with TT_CAP_LOCAL_ANY, or up to inline_put */
	uint64_t remote;
	const struct tt_rkey *rkey;
	uint32_t note;
	unsigned flags;
	void *user; /* returned in the TT_EV_DONE event */
	void *head;
	size_t head_len;       /* 0: all bytes go to local */
	struct tt_mr *head_mr; /* of head, like mr */
};

/* Copies the result of a get, for transports that access it as memory. */
static inline void tt_rma_land(const struct tt_rma *get, const void *from)
{
	if (get->head_len)
		memcpy(get->head, from, get->head_len);
	tt_copy_long(get->local, (const char *)from + get->head_len, get->len - get->head_len);
}

enum tt_amo_op { TT_AMO_ADD, TT_AMO_CAS };

/* A 64-bit atomic at the target; *result receives the old value before TT_EV_DONE. */
struct tt_amo {
	enum tt_amo_op op;
	uint64_t operand, compare;
	uint64_t *result;
	struct tt_mr *mr; /* of result */
	uint64_t remote;
	const struct tt_rkey *rkey;
	void *user;
};

enum tt_event_kind {
	TT_EV_DONE,  /* an operation of user has completed: status 0 or negative */
	TT_EV_NOTE,  /* a peer's put has landed completely and rang note */
	TT_EV_MSG,   /* a control message; data is valid until the next poll of this transport */
	TT_EV_BRIEF, /* a brief message; likewise */
	TT_EV_UP,    /* the endpoint is connected: operations may be started */
	TT_EV_DOWN   /* the endpoint has failed, status says why; its operations have all been
			reported */
};

struct tt_event {
	enum tt_event_kind kind;
	int status;	  /* DONE, DOWN */
	uint32_t note;	  /* NOTE */
	uint32_t len;	  /* MSG, BRIEF */
	const void *data; /* MSG, BRIEF; DOWN, failed DONE: the reason as text, valid until
			     ep_close, or NULL */
	void *user;	  /* DONE */
	struct tt_ep *ep; /* MSG, BRIEF, UP, DOWN; NULL in NOTE, which need not know its peer */
};

/* Data that a connection has sent and its peer's end has not acknowledged. */
struct tt_silence {
	uint64_t bytes, ops; /* as far as the transport counts them */
	uint64_t ns;	     /* since the last acknowledgement; dead: since the last arrival */
	bool dead; /* for longer than TUTTI_HEARTBEAT_LIMIT, and not because the peer is busy */
};

/* Started operations: TT_STARTED: an event will follow. TT_FINISHED: complete already, no event. */
enum { TT_STARTED = 0, TT_FINISHED = 1 };

enum tt_peeked { TT_PEEK_NOTHING, TT_PEEK_BRIEF, TT_PEEK_OTHER };

/*
 * While *word is what it was, both ends of a connection are open. What copies into mapped memory
 * of the peer without a call, a window or the context, stores id in its own word of copying
 * meanwhile, so that the peer sees whether a process taken for dead would write on. All NULL: not
 * told.
 */
struct tt_open_word {
	const _Atomic uint64_t *word;
	uint64_t is;
	_Atomic uint32_t *copying; /* TT_TP_COPYING of them */
	uint32_t id;		   /* not 0 */
};

struct tt_ep_ops {
	/*
	 * All four return TT_STARTED, TT_FINISHED, -EAGAIN (no room now: poll, then retry; nothing
	 * was sent) or another negative code (failed, nothing sent, no event). No order is
	 * promised between operations.
	 */
	int (*put)(struct tt_ep *ep, const struct tt_rma *rma);
	int (*get)(struct tt_ep *ep, const struct tt_rma *rma);
	int (*amo)(struct tt_ep *ep, const struct tt_amo *amo);
	/* Send len <= TT_TP_MSG_MAX bytes; data may be reused on return. No event at the sender. */
	int (*msg)(struct tt_ep *ep, const void *data, size_t len);
	/*
	 * Peer memory [remote, remote + len) as a pointer, valid until close; -EOPNOTSUPP if not
	 * possible.
	 */
	int (*map)(struct tt_ep *ep, uint64_t remote, size_t len, const struct tt_rkey *rkey,
		   void **ptr);
	/*
	 * For an endpoint that is up or connecting. During a wait it is called several times
	 * within TUTTI_HEARTBEAT_LIMIT: a transport whose device notices a lost peer only on
	 * sending sends then. Negative: not known. NULL where both ends are on one host.
	 */
	int (*silence)(struct tt_ep *ep, struct tt_silence *silence);
	/*
	 * Brief messages, where both ends are on one host; NULL: none. brief sends head and data,
	 * together at most TT_TP_BRIEF_MAX bytes; it returns as msg does. The messages of an
	 * endpoint come in order, one by one: as events, or by peek, which looks at the next thing
	 * from the peer, if the endpoint is up. If that is a brief message, *data is its start and
	 * *len its length, until take removes it or until the next poll.
	 */
	int (*brief)(struct tt_ep *ep, const void *head, size_t head_len, const void *data,
		     size_t len);
	enum tt_peeked (*peek)(struct tt_ep *ep, const void **data, size_t *len);
	void (*take)(struct tt_ep *ep);
	/* Of an endpoint that is up; readable until the transport is closed. NULL: not told. */
	struct tt_open_word (*open_word)(struct tt_ep *ep);
};

struct tt_tp_ops {
	const char *name;
	bool costly; /* open() takes long: called when no better transport reaches a rank */
	/*
	 * For a costly transport, a quick check before its card names it: can there be a device?
	 * NULL: yes.
	 */
	bool (*present)(void);
	/*
	 * Loads the underlying library and gives its version; 0 or an error. NULL: no library
	 * worth naming.
	 */
	int (*library)(const char **name, unsigned *major, unsigned *minor);
	/*
	 * Fills at most max devices and returns their number; 0: none, the transport is unusable
	 * here.
	 */
	int (*query)(const struct tt_tp_params *params, struct tt_tp_device *dev, int max);
	int (*open)(const struct tt_tp_params *params, struct tt_tp **tp);
	/*
	 * Memory that this transport keeps for a connected peer with these settings. NULL:
	 * negligible.
	 */
	size_t (*peer_bytes)(const struct tt_env *env);
	/* All endpoints and registrations must have been closed. */
	void (*close)(struct tt_tp *tp);

	/*
	 * Registers memory. *mr->rkey may be sent to peers. -ENOMEM with a text for exhausted
	 * limits.
	 */
	int (*reg)(struct tt_tp *tp, const struct tt_mem *mem, unsigned access, struct tt_mr **mr);
	int (*dereg)(
		struct tt_mr *mr); /* afterwards no peer reaches it through this registration */

	/*
	 * ep_open makes a local end and writes its address to blob (at most TT_TP_BLOB_MAX bytes;
	 * *len receives the length). The two ends exchange blobs over an authenticated link; each
	 * then calls ep_connect with its peer's blob. Exactly one side is active. It returns at
	 * once; TT_EV_UP or TT_EV_DOWN follows. Negative: this pair cannot use the transport, and
	 * tt_fail has the reason. Operations before TT_EV_UP return -EAGAIN.
	 */
	int (*ep_open)(struct tt_tp *tp, struct tt_ep **ep, void *blob, size_t *len);
	int (*ep_connect)(struct tt_ep *ep, const void *blob, size_t len, bool active);
	/*
	 * A fence: afterwards no peer writes here through ep (but see TT_CAP_LATE_WRITES).
	 * Operations under way are dropped without an event, so the caller forgets their user
	 * pointers first. A note that has come already may still be delivered. Allowed in any
	 * state.
	 */
	void (*ep_close)(struct tt_ep *ep);

	/* Makes progress and fills at most max events; returns their number. Never blocks. */
	int (*poll)(struct tt_tp *tp, struct tt_event *events, int max);
	/*
	 * Before sleeping: 0 and *fd: the next event makes fd readable (poll(2)); -EAGAIN: events
	 * are there now, poll instead. poll() disarms.
	 */
	int (*arm)(struct tt_tp *tp, int *fd);
};

/*
 * Fills the missing entries of an endpoint table with stubs that return -EOPNOTSUPP, so that
 * callers never test for NULL. Transports call it once on their (static, until then non-const)
 * table.
 */
void tt_ep_ops_fill(struct tt_ep_ops *ops);

/* The transports compiled in, best first, NULL at the end; see transports.def. */
extern const struct tt_tp_ops *const tt_transports[];
/* Whether the kernel knows an RDMA device, usable or not. Loads no library. */
bool tt_transport_rdma(void);

/*
 * For transports that accept connections themselves: one MAC proves that a request comes from the
 * peer, another proves it for the answer. The key combines what each end has put into its address,
 * which travels over authenticated links only. The label distinguishes request and answer.
 */
#define TT_MAC_SIZE 16
struct tt_mac_key {
	uint64_t passive[2], active[2]; /* random, one per end */
};
void tt_mac(unsigned char mac[TT_MAC_SIZE], const char *label, const struct tt_mac_key *key,
	    const void *data, size_t len);
bool tt_mac_is(const unsigned char mac[TT_MAC_SIZE], const char *label,
	       const struct tt_mac_key *key, const void *data, size_t len);

/* transports/fault: opens `inner` wrapped, behaving as spec (TUTTI_FAULT's syntax) says. */
int tt_fault_open(const struct tt_tp_ops *inner, const char *spec,
		  const struct tt_tp_params *params, struct tt_tp **tp);

#endif
