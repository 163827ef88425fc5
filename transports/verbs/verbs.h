/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transport verbs: declarations for its files.
 *
 * Rails. Each device port in use is a rail, with its own protection domain, completion queues and
 * shared receive queue, which serve all peers. A peer costs only its reliable-connected queue
 * pairs, some on each rail. A put is an RDMA WRITE, with a notification WRITE_WITH_IMM; a get is a
 * READ; control messages are SENDs. Notifications and messages consume an entry of the target's
 * shared receive queue; while that queue is empty the sender's device retries (RNR). On a device
 * without shared receive queues each queue pair has its own receives.
 *
 * Inline data. Each device's limit for data inside a request is found by trial (qp.c). Longer
 * messages are sent from registered buffers (bufs.c), longer puts from the caller's registered
 * memory.
 *
 * Lesser devices (iWARP) have no immediate data: there a notification is a SEND behind the WRITE on
 * the same queue pair. The completion of a WRITE does not prove there that its bytes are in place;
 * the completion of a READ posted behind the WRITE does. struct vb_port has the queried attributes.
 *
 * Completions. A queue pair completes in the order of posting, so each keeps a ring of its posted
 * requests, and a completion releases every request up to its own. Requests without an event (small
 * inline puts and messages) are posted unsignalled, every 8th signalled. The completion queues have
 * room for every posted request: after a failure each request completes.
 *
 * Holding back. Short puts and gets that need a completion, but no notification, are posted
 * together, as one list with one doorbell and one completion. While earlier requests are under way,
 * they are held until there are VB_CHAIN of them, until another request is posted behind them, or
 * until the next poll, without which no caller learns of their completion.
 *
 * Connecting. The caller exchanges addresses; cm.c is for rdma_cm. The active end then sends a
 * hello. Its acknowledgement tells the active end, and its arrival the passive end, that both can
 * receive: UP. The device repeats a hello that meets a peer not ready yet, and when the device
 * gives up, this transport does.
 *
 * Failing. Any failure moves all queue pairs of the endpoint to the error state and posts a last
 * request, the mark, to each. When the marks come back flushed, all requests have, and DOWN is
 * reported. Closing tells the peer (bye), then does the same and waits for the marks.
 */
#ifndef TT_VERBS_H
#define TT_VERBS_H

#include <errno.h>

#include "lib/base/hash_map.h"
#include "lib/base/list.h"
#include "lib/wire/transport.h"
#include "transports/verbs/verbs_load.h"

#define VB_MAGIC 0x3530425645545454ull /* "TTTEVB05": layout version included */
#define VB_RAILS 4		       /* ports in use, at most: one word of a key each */
#define VB_QPS 8		       /* queue pairs of an endpoint on a rail, at most */
#define VB_EP_QPS (VB_RAILS * VB_QPS)
/*
 * Requests under way of a queue pair, and beyond those: hello, bye, mark. With the inline data
 * below mlx5 has a send queue of 8 KiB for 25 requests and one of 16 KiB for 26: see size.c.
 */
#define VB_SQ 21
#define VB_SQ_EXTRA 4
#define VB_SQ_ALL (VB_SQ + VB_SQ_EXTRA)
#define VB_RING 32	    /* a power of two that holds them */
#define VB_SIGNAL 8	    /* one in this many unsignalled requests is signalled */
#define VB_CHAIN 8	    /* requests of a queue pair that are held back to be posted together */
#define VB_HOLD_MAX 4096    /* bytes of the longest of them */
#define VB_SRQ 1024	    /* entries of a shared receive queue */
#define VB_RQ 64	    /* of a queue pair's own receive queue, without a shared one */
#define VB_CQS 8	    /* completion queues of a rail, at most */
#define VB_INLINE 124	    /* bytes that travel in the request, if the device can */
#define VB_SGE 2	    /* places that a request gathers from or scatters to */
#define VB_RD_ATOMIC 128    /* gets and atomics under way of a queue pair, if the device can */
#define VB_SPLIT_MIN 131072 /* smallest piece of a put spread over queue pairs */
#define VB_SPLITS 256	    /* spread operations of a process under way */
#define VB_BATCH 16	    /* completions taken, receives posted at once */
#define VB_LOOKS 8	    /* at completion queues that are empty, in one poll */
#define VB_RNR_TIMER 6	    /* 0.08 ms until a peer whose receive queue was empty is tried again */
#define VB_HELLO_MS 10000   /* how long the active end tries to reach a peer */
#define VB_BYE_MS 20	 /* how long closing waits for peers to be told, all of a second together */
#define VB_DRAIN_MS 1000 /* how long it waits for the marks */
#define VB_LOST_TEXT 120 /* bytes of a text that says what is lost */
#define VB_LAST_MS 20	 /* and for the last receives, if the device tells of them */

enum vb_fabric { VB_IB, VB_ROCE, VB_IWARP, VB_ROCE_V1 };

/* A port of a device, as it was found and, if it is the one, chosen. */
struct vb_port {
	char name[32]; /* device */
	uint8_t num;
	int gid_index;
	union ibv_gid gid;
	uint8_t net[16]; /* the part of the GID that ports of one network share; 0: unknown */
	enum vb_fabric fabric;
	bool imm, atomic; /* immediate data, atomics; TUTTI_VERBS_MASK may hide them */
	bool placed;	  /* a WRITE ends when its bytes are in place */
	bool srq;	  /* shared receive queues */
	bool resize;	  /* completion queues that grow, until one refuses */
	bool routed;	  /* the address of a peer in another network is the way to it */
	int inline_most;  /* queue pairs that ask for more inline data are refused: for tests */
	int subnet;	  /* taken for an InfiniBand port's of this subnet: for tests; -1: not */
	struct ibv_port_attr attr;
	struct ibv_device_attr dev;
	double gbps;
	int numa, distance; /* from the nearest node this process may run on; 10: that node, or
			       unknown */
	bool usable;
	char why[160];
};

enum vb_kind {
	VB_QUIET, /* no caller waits for it */
	VB_OP,	  /* DONE for user */
	VB_PIECE, /* of a split */
	VB_HELLO,
	VB_BYE,
	VB_MARK
};

#define VB_FLUSH UINT16_MAX /* in place of the opcode of a READ that belongs to a put */

struct vb_rail;
struct vb_recvq;

/* Header of a SEND; a message follows. */
enum vb_word { VB_WORD_MSG = 1, VB_WORD_NOTE, VB_WORD_HELLO, VB_WORD_BYE, VB_WORD_RAIL };
struct vb_head {
	uint32_t word;
	uint32_t note; /* VB_WORD_NOTE */
};
#define VB_SEND_MAX (sizeof(struct vb_head) + TT_TP_MSG_MAX)

/*
 * A buffer registered with one rail: for a receive, or for a SEND that is too long for inline
 * data.
 */
struct vb_buf {
	struct vb_buf *next;	/* in the rail's free ones or a receive queue's idle ones */
	struct vb_recvq *recvq; /* NULL: not for receiving */
	struct vb_rail *rail;
	uint32_t lkey;
	uint32_t nth; /* of a queue pair's own */
	uint8_t data[VB_SEND_MAX];
};

/* A posted request of a queue pair. */
struct vb_req {
	uint16_t kind;	    /* enum vb_kind */
	uint16_t opcode;    /* enum ibv_wr_opcode; VB_FLUSH */
	void *user;	    /* VB_PIECE: the split */
	struct vb_buf *buf; /* sent from; NULL: none */
};

/* Requests that have failed, or may have, because a port went down; see outage.c. */
struct vb_lost {
	unsigned puts, notes, gets, atomics, messages;
};

/* A rail's shared receive queue, or a queue pair's own. */
struct vb_recvq {
	struct ibv_srq *srq; /* or */
	struct ibv_qp *qp;
	struct vb_rail *rail;
	struct vb_buf *idle; /* to be posted again at a later poll */
	unsigned nidle, total;
	struct vb_buf **all; /* of a queue pair's own */
	uint64_t id;	     /* and its number in the requests' ids */
	bool hungry;	     /* in tp->hungry: enough buffers are idle to post them */
	struct vb_recvq *next_hungry;
};

struct vb_cq {
	struct ibv_cq *cq;
	int size, used; /* entries; how many are spoken for */
	unsigned acks;
};

struct vb_qp {
	struct ibv_qp *qp;
	struct vb_rail *rail;
	struct vb_cq *cq;
	struct vb_recvq *own; /* without a shared receive queue */
	uint8_t nth;	      /* of those of the endpoint on this rail */
	uint8_t theirs;	      /* index of the peer's rail it is connected to */
	uint32_t head, tail;  /* oldest request not known to be complete; next place */
	uint32_t seen;	      /* head at the last look at what is unacknowledged, */
	uint64_t since;	      /* and when it was not yet there */
	uint32_t quiet;	      /* unsignalled ones since the last signalled */
	uint32_t reserved;    /* places kept for the notes of splits */
	uint64_t used;	      /* bytes of single pieces by its speed, to deal out the next ones */
	bool greeted;	      /* the hello of this queue pair has arrived */
	bool usable;	      /* takes requests: none of the next three */
	bool away;	      /* the peer's port is down */
	bool off;	      /* left for good: see outage.c */
	bool receives;	      /* may hold entries of the shared receive queue ... */
	bool last;	      /* ... unless it has reported: it has returned all of them */
	unsigned nheld;	      /* the last nheld of ring are not posted yet, but here */
	struct ibv_send_wr held[VB_CHAIN];
	struct ibv_sge held_sge[VB_CHAIN][2];
	struct vb_ep *holder; /* in tp->holding while nheld is not 0 */
	struct vb_qp *next_holding;
	struct rdma_cm_id *id;	 /* by rdma_cm: the attempt under way, the connection */
	unsigned char nonce[16]; /* of its connection request */
	uint64_t again;		 /* when the next attempt is due; 0: none is */
	struct vb_req ring[VB_RING];
};
_Static_assert(VB_SQ_ALL <= VB_RING && VB_CHAIN <= VB_SQ / 2, "the ring holds what is posted");

enum vb_state { VB_NEW, VB_CONNECTING, VB_UP, VB_FAILED, VB_DOWN };

struct vb_ep {
	struct tt_ep ep;
	struct vb_ep *next_free; /* unused while in use */
	uint32_t index, gen;	 /* place in tp->eps, and which user of it */
	enum vb_state state;
	bool active, closing, bye_done;
	bool by_cm; /* connected by rdma_cm */
	int status; /* of a failed one */
	char reason[160];
	int nqp, up;	     /* up: how many queue pairs are greeted */
	int lead;	     /* the first that is usable; -1: none is now */
	bool partial;	     /* not all are */
	struct vb_lost lost; /* requests of those that were left */
	uint32_t psn;
	uint64_t cookie[2];   /* half of the key of the MACs that rdma_cm carries */
	uint64_t deadline;    /* of connecting */
	struct vb_blob *peer; /* to connect again */
	int nrails;	      /* rails that meet one of the peer's: number of first queue pairs */
	size_t most;	      /* longest piece */
	uint32_t weight[VB_EP_QPS]; /* of the queue pairs: speed of the slower end */
	struct vb_qp qp[];	    /* the first of each rail, then the second of each ... */
};

/* A put or get in several pieces; the note is rung when all are acknowledged. */
struct vb_split {
	struct vb_split *next_free;
	struct vb_ep *ep;
	unsigned left;
	int status;
	bool note;
	int via; /* the queue pair that has room for the note */
	uint32_t imm;
	void *user;
};

/* Registered on every rail; the key's words are the rails'. */
struct vb_mr {
	struct tt_mr mr;
	struct ibv_mr *ib[VB_RAILS];
};
_Static_assert(VB_RAILS <= sizeof(struct tt_rkey) / sizeof(uint64_t), "a word for each rail");

/* A port in use, and what belongs to its device. */
struct vb_rail {
	struct vb_tp *tp;
	int index;
	struct vb_port port;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct vb_cq cq[VB_CQS];
	int ncq;
	struct vb_recvq recvq; /* its srq is NULL: queue pairs have their own */
	struct vb_slab *slabs; /* of buffers */
	struct vb_buf *free;
	struct vb_flush *flush;
	struct ibv_mr *flush_mr;
	int max_rd;
	struct rdma_cm_id *listener; /* by rdma_cm: at this address, in network order */
	uint8_t ip[16];
	uint16_t cm_port;
	bool down;	     /* the port is: new endpoints do without */
	bool told;	     /* of an outage: the user has been warned */
	bool homeless;	     /* it has no address any more: they do, too */
	uint64_t down_until; /* how long its return is waited for; 0: not, or no more */
	bool dead;	     /* the device is gone, or rdma_cm has no address there */
	bool tells_last;     /* it has reported the last receive of a queue pair */
	bool mute;	     /* it has not: it is not waited for again */
};

/*
 * A page of each rail: where peers read from to know that their puts are in place, and where what
 * we read lands.
 */
struct vb_flush {
	uint64_t word, landing;
};

struct vb_tp {
	struct tt_tp tp;
	const struct tt_env *env;
	struct vb_rail rail[VB_RAILS];
	int nrails;
	int epoll_fd;
	int inline_max, nqp; /* inline_max: what all rails can; nqp: of an endpoint on each rail */
	struct vb_recvq *hungry;
	struct rdma_event_channel *cm; /* NULL: connecting is the caller's exchange of addresses */
	bool cm_only;		       /* else only peers of other subnets are connected by it */
	char cm_why[160];	       /* it was wanted for those, and cannot be had */
	int cm_timer;
	uint64_t cm_wake; /* when cm_timer fires; 0: never */
	int port_timer;	  /* fires when a port has been down for long; -1: none has been down */
	uint64_t bye_from, bye_left; /* see vb_bye_wait */
	uint64_t last_from, last_left;
	int turn; /* rail to be polled first */
	bool armed;
	unsigned polls;
	struct tt_ep_ops ops;

	struct vb_ep **eps;
	uint32_t neps, eps_max;
	struct tt_map by_qpn; /* vb_qpn_key to index of endpoint and queue pair */

	struct vb_split split[VB_SPLITS], *free_split;
	struct vb_qp *holding; /* queue pairs with requests held back */

	/* Events go to the caller's array; the rest waits for the next poll. */
	struct tt_event *out;
	int nout, max_out;
	struct tt_event *stash;
	uint32_t stash_head, stash_tail, stash_max;
};

/* An endpoint's address: its end on each rail. */
struct vb_rail_addr {
	uint8_t gid[16], net[16];
	uint32_t lid;
	uint32_t mbps;
	uint8_t fabric, mtu, rd_atomic;
	uint8_t nqp; /* 0: none on this rail */
	uint32_t qpn[VB_QPS];
	uint8_t ip[16];	     /* for rdma_cm: IPv6, or IPv4 mapped to it */
	uint16_t port;	     /* where rdma_cm listens; 0: nowhere */
	uint8_t cm;	     /* connects by rdma_cm only */
	uint8_t routed;	     /* see struct vb_port */
	uint64_t flush_addr; /* 8 bytes to be read, to know that what was written before is in place
			      */
	uint32_t flush_key, pad;
};

struct vb_blob {
	uint64_t magic, cookie[2];
	uint32_t psn;
	uint32_t nrails;
	struct vb_rail_addr rail[VB_RAILS];
};
_Static_assert(sizeof(struct vb_blob) <= TT_TP_BLOB_MAX, "fits");

/* device.c */
int vb_query(const struct tt_tp_params *params, struct tt_tp_device *dev, int max);
const char *vb_fabric_name(unsigned fabric);
/* The ports to use, at most VB_RAILS; how many, or negative. */
int vb_choose(const struct tt_tp_params *params, struct vb_port chosen[VB_RAILS]);
/*
 * With hardly a descriptor left the libraries find nothing and do not say why: -EMFILE or -ENFILE
 * then, or 0.
 */
int vb_few_files(void);
/* errno, which was 0 before a call that failed and may not have set it. */
static inline int vb_errno(int otherwise)
{
	return errno ? errno : otherwise;
}

/* Look at a port's GIDs: 0, or -errno and port->why. */
int vb_port_gid(struct vb_port *port, struct ibv_context *ctx, int64_t asked);
/* The network that its GID is in: 0, or -errno and port->why. */
int vb_port_net(struct vb_port *port);

/* rail_rules.c: rules that need no device. */
static inline bool vb_is_roce(unsigned fabric)
{
	return fabric == VB_ROCE || fabric == VB_ROCE_V1;
}
/* The fate of a connection after the wait for its port, which is down or not. */
enum vb_verdict { VB_PORT_STAY, VB_PORT_LEAVE, VB_PORT_END };
enum vb_verdict vb_port_verdict(bool down, bool waited, bool others);
/*
 * How good a GID of a RoCE port is, more is better; here: it belongs to an interface of this
 * namespace.
 */
int vb_gid_rank(const struct ibv_gid_entry *gid, bool here);
/* The link-local GID that a port has by itself: of its interface's hardware address. */
bool vb_gid_is_of_mac(const uint8_t gid[16], const uint8_t mac[6]);
/*
 * Milliseconds that closing may wait for a bye: at most a second for all peers together, so many
 * silent peers cost no more than one, and at least one each. from, left: the rest, and since when
 * (0: begin).
 */
uint64_t vb_bye_wait(uint64_t *from, uint64_t *left, uint64_t now, uint64_t most);
/* So much of it was used. */
void vb_bye_used(uint64_t *left, uint64_t ns);
/*
 * Closing waits for the last receives of q: a queue pair in the error state may still hold entries
 * of the shared receive queue, which are lost if it is destroyed before it returns them.
 */
bool vb_holds_receives(const struct vb_qp *q);
/* Ports chosen, best first, or why there is none. */
struct vb_choice {
	int n, err;
	int port[VB_RAILS];
	char why[160];
};
/* By list (TUTTI_VERBS_DEVICE), or at most max by themselves; sets why of all that are usable. */
void vb_select(struct vb_port *ports, int n, const char *list, int max, struct vb_choice *choice);
/* Which rail of theirs meets each of ours (-1: none); both ends find the same pairs. How many. */
int vb_match(const struct vb_blob *ours, const struct vb_blob *theirs, int match[VB_RAILS]);
/*
 * Only rdma_cm finds the way between them: InfiniBand ports of different subnets, where the
 * address to send to is a router's, which libibverbs cannot ask for.
 */
bool vb_needs_cm(const struct vb_rail_addr *ours, const struct vb_rail_addr *theirs);
/*
 * How a pair of endpoints is connected, given what vb_match has found; both ends decide the same.
 * *rail: of ours, on which it cannot be done.
 */
enum vb_way { VB_WAY_DIRECT, VB_WAY_CM, VB_WAY_DIFFER, VB_WAY_NO_CM_HERE, VB_WAY_NO_CM_THERE };
enum vb_way vb_way(const struct vb_blob *ours, const struct vb_blob *theirs,
		   const int match[VB_RAILS], int *rail);
/*
 * Over how many of the n queue pairs, from the first, len bytes are spread; *sum: of their
 * weights.
 */
int vb_spread(const uint32_t *weight, int n, size_t len, uint64_t *sum);
/* The end of the part of rails whose weights add up to part of sum. */
size_t vb_cut(size_t len, uint64_t part, uint64_t sum);

/*
 * Must a READ follow a put, and be waited for, before it is done or a note rings? rails: of its
 * endpoint.
 */
bool vb_must_flush(bool placed, int rails, bool spread, unsigned flags);
/* Inline data to ask for after `refused` bytes were refused; -1: none was left to ask for. */
int vb_inline_below(int refused);

/* size.c: what drivers allocate for a queue pair, and its entries of a completion queue. */
enum vb_driver { VB_MLX5, VB_IRDMA, VB_BNXT_RE, VB_OTHER };
struct vb_qp_size {
	unsigned send, recv, sge, inline_bytes; /* requests, receives; 0 receives: a shared queue */
};
size_t vb_driver_bytes(enum vb_driver driver, const struct vb_qp_size *size);
/* By the name of the kernel's module. */
enum vb_driver vb_driver_named(const char *name);
/* The most that a driver of a device here allocates; without a device mlx5's. */
size_t vb_driver_bytes_here(const struct vb_qp_size *size);

/* bufs.c */
/* NULL: there is no memory. */
struct vb_buf *vb_buf_get(struct vb_rail *rail);
static inline void vb_buf_put(struct vb_buf *buf)
{
	buf->recvq = NULL;
	buf->next = buf->rail->free;
	buf->rail->free = buf;
}
/* Registered by what n buffers of a rail need; 0 or an errno value. */
int vb_slab_new(struct vb_rail *rail, unsigned n);
void vb_slabs_free(struct vb_rail *rail);

/* rail.c */
/* Open rails 0 to tp->nrails - 1, whose ports are set. */
int vb_rails_open(struct vb_tp *tp);
/* Also of one that was opened in part. */
void vb_rails_close(struct vb_tp *tp);
/* Add fd to the descriptors that wake a thread that sleeps on vb_arm's descriptor. */
int vb_watch(struct vb_tp *tp, int fd);
/* Set the queue pairs' rails of ep, before its peer is known; returns how many there are. */
int vb_rails_deal(struct vb_ep *ep);
/* The address for the peer: rails and their queue pairs. */
void vb_rails_tell(const struct vb_ep *ep, struct vb_blob *b);
/* Connects rails with the peer's, and drops the queue pairs of rails that meet none. */
int vb_rails_match(struct vb_ep *ep, const struct vb_blob *b);

/* verbs_mr.c */
int vb_reg(struct tt_tp *tp, const struct tt_mem *mem, unsigned access, struct tt_mr **mr);
int vb_dereg(struct tt_mr *mr);

/* qp.c */
/*
 * How many inline bytes the rail's queue pairs can have, at most `most`; negative: no queue pair
 * can be had.
 */
int vb_qp_probe(struct vb_rail *rail, int most);
int vb_qp_new(struct vb_qp *q);
/* Also of one that was made in part. */
void vb_qp_free(struct vb_qp *q);
/* From RESET to INIT; 0 or an errno value. */
int vb_qp_init(struct vb_qp *q);
/* In INIT: posts the queue pair's own receives, if any; 0 or -errno. */
int vb_qp_receive(struct vb_ep *ep, struct vb_qp *q);
/* Access rights of peers through a queue pair, for ibv_modify_qp. */
unsigned vb_qp_access(const struct vb_tp *tp);
/* From RESET to RTS. */
int vb_qp_connect(struct vb_ep *ep, int i);
void vb_qp_error(struct vb_qp *q);

/* verbs_ep.c */
int vb_ep_open(struct tt_tp *tp, struct tt_ep **ep, void *blob, size_t *len);
int vb_ep_connect(struct tt_ep *ep, const void *blob, size_t len, bool active);
void vb_ep_close(struct tt_ep *ep);

/* Different devices may use equal numbers. */
static inline uint64_t vb_qpn_key(const struct vb_rail *rail, uint32_t qpn)
{
	return (uint64_t)(rail - rail->tp->rail) << 32 | qpn;
}

/*
 * The endpoint that owns queue pair number qpn of rail's device, and the index of the queue pair;
 * NULL: the endpoint has been closed.
 */
static inline struct vb_ep *vb_ep_of_qpn(const struct vb_rail *rail, uint32_t qpn, int *q)
{
	uint64_t at = tt_map_find(&rail->tp->by_qpn, vb_qpn_key(rail, qpn));

	if (at == TT_MAP_NONE)
		return NULL;
	*q = (int)(at % VB_EP_QPS);
	return rail->tp->eps[at / VB_EP_QPS];
}

/* The endpoint of a request; NULL: it has been closed since. */
static inline struct vb_ep *vb_ep_at(struct vb_tp *tp, uint32_t index, uint32_t gen)
{
	struct vb_ep *ep = index < tp->neps ? tp->eps[index] : NULL;

	return ep && (ep->gen & 0xffff) == gen ? ep : NULL;
}

/* The hello of queue pair q is acknowledged or received. */
void vb_greeted(struct vb_ep *ep, int q);
/* The hello of queue pair q was not answered: repeat it, or fail. */
void vb_hello_again(struct vb_ep *ep, int q, int status);
/* Say why, and on which rail, stop everything; DOWN follows when all requests have come back. */
void vb_fail(struct vb_ep *ep, const struct vb_rail *rail, int status, const char *fmt, ...)
	TT_PRINTF(4, 5);
/* DOWN, if everything has come back. */
void vb_check_down(struct vb_ep *ep);

/* cm_listen.c */
/* As a socket address: ip as in an endpoint's address, port in network order. */
struct sockaddr_storage vb_cm_sockaddr(const uint8_t ip[16], uint16_t port);
/* Listen on every rail, for all peers or (tp->cm_only is false) for those of other subnets. */
int vb_cm_open(struct vb_tp *tp);
/* The same, but where it cannot be had, tp->cm_why says why; an error: descriptors run out. */
int vb_cm_try(struct vb_tp *tp);
/* Also for partly opened transports. */
void vb_cm_close(struct vb_tp *tp);

/* cm.c */
/* Connect, or take the requests of the peer's end. */
int vb_cm_connect(struct vb_ep *ep);
/* End the attempt, the request or the connection of q. */
void vb_cm_drop(struct vb_qp *q);
/* Take its events, repeat attempts, look at deadlines. */
void vb_cm_poll(struct vb_tp *tp);

/* verbs_rma.c */
extern const struct tt_tp_ops tt_verbs_tp;
extern const struct tt_ep_ops vb_ep_ops;
/* Posts held requests of all queue pairs. */
void vb_ring(struct vb_tp *tp);
/* Forget what queue pair q holds back: it has been ended. */
void vb_unhold(struct vb_tp *tp, struct vb_qp *q);
/* A SEND of a word alone. */
int vb_post_word(struct vb_ep *ep, int q, enum vb_word word, uint32_t note, enum vb_kind kind);
/* Post wr as request of a kind; 0 or -errno (then nothing was posted). */
int vb_post_user(struct vb_ep *ep, int q, struct ibv_send_wr *wr, enum vb_kind kind, void *user);
/*
 * A READ of a word of the peer behind the puts on queue pair q: its completion means that they are
 * in place; the word itself has no meaning.
 */
int vb_post_flush(struct vb_ep *ep, int q, enum vb_kind kind, void *user);
/* A notification alone, behind all that was posted on queue pair q, which has room for it. */
void vb_ring_note(struct vb_ep *ep, int q, uint32_t note);
/* A request on q for [off, off + len) of rma. */
void vb_rdma_wr(struct ibv_send_wr *wr, struct ibv_sge sge[2], const struct vb_qp *q,
		const struct tt_rma *rma, size_t off, size_t len, enum ibv_wr_opcode opcode);

/* verbs_split.c */
/* Over n queue pairs from the first-th on, by their weights, which add up to sum. */
int vb_split_start(struct vb_ep *ep, const struct tt_rma *rma, enum ibv_wr_opcode opcode, int first,
		   int n, uint64_t sum);
/* A piece has come back. */
void vb_piece_done(struct vb_tp *tp, struct vb_split *split, int status);

/* verbs_cq.c */
int vb_poll(struct tt_tp *tp, struct tt_event *events, int max);
int vb_arm(struct tt_tp *tp, int *fd);
/* Events that wait. */
int vb_stash_new(struct vb_tp *tp);
/* Take completions; their events go to the caller's array or the stash. Returns how many. */
int vb_reap(struct vb_tp *tp);
void vb_emit(struct vb_tp *tp, struct tt_event ev);
/* Forget the events of ep that wait. */
void vb_stash_drop(struct vb_tp *tp, const struct vb_ep *ep);
/* A completion queue of rail with room for n more entries, which are now spoken for. */
int vb_cq_take(struct vb_rail *rail, int n, struct vb_cq **cq);
/* Post the idle receive buffers. */
int vb_recv_fill(struct vb_recvq *rq);
/* It ends: it is not to be filled any more. */
void vb_recv_forget(struct vb_tp *tp, struct vb_recvq *rq);
/* A request has ended: report it to its waiter. */
void vb_release(struct vb_ep *ep, int q, const struct vb_req *req, int status);
/* End with status the requests of queue pair q that will not complete. */
void vb_abandon(struct vb_ep *ep, int q, int status);

/* outage.c: ports that go down and come back, or change their addresses */
void vb_port_down(struct vb_rail *rail);
void vb_port_up(struct vb_rail *rail);
/* Its LID or GIDs may be others: for endpoints that are opened from now on. */
void vb_port_changed(struct vb_rail *rail);
/* Ports that have been down for long enough. */
void vb_outages(struct vb_tp *tp);
/* Which queue pairs of ep take requests now. */
void vb_paths(struct vb_ep *ep);
/* A request of a queue pair that was left has come back. */
void vb_left(struct vb_ep *ep, int q, const struct vb_req *req, int status);
/* The peer's port has gone down, or come back. */
void vb_rail_word(struct vb_ep *ep, uint32_t note);
bool vb_port_to_blame(const struct vb_qp *q);
/* Count req, unless the transport posted it for itself. */
void vb_lose(struct vb_lost *lost, const struct vb_req *req);
/* "3 puts, 1 get"; false: nothing was lost. */
bool vb_lost_text(const struct vb_lost *lost, char text[VB_LOST_TEXT]);
/* The endpoint ends by its port on q; req: what has failed there, before it all that q still has.
 */
void vb_fail_by_port(struct vb_ep *ep, const struct vb_qp *q, const struct vb_req *req);

/* verbs_events.c */
void vb_async(struct vb_tp *tp);
/* A completion's status as a negative code, and in words. */
int vb_status(enum ibv_wc_status status);
const char *vb_status_text(enum ibv_wc_status status);

static inline struct vb_tp *vb_tp_of(const struct vb_ep *ep)
{
	return (struct vb_tp *)ep->ep.tp;
}

/* In a request's id: whose it is, and its place there. */
static inline uint64_t vb_wr_id(const struct vb_ep *ep, int q, uint32_t pos)
{
	return (uint64_t)ep->index << 40 | (uint64_t)(ep->gen & 0xffff) << 24 | (uint64_t)q << 16 |
	       (pos & 0xffff);
}

#endif
