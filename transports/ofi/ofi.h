/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transport ofi: libfabric, over connected endpoints (msg, the default) or connectionless ones
 * (rdm).
 *
 * Observed behaviour of libfabric 1.17's providers, and the consequences here:
 *
 * - tcp reports FI_PROGRESS_AUTO but moves data only inside calls of the process concerned: a get
 *   from a target that makes no call stays open. So no TT_CAP_AUTO_PROGRESS for it (fabric.c).
 * - tcp's writedata needs no posted receive, also with 0 bytes, but even those must name a valid
 *   key: each process exports a bell (struct ofi_blob) for notes that carry nothing.
 * - A bad key, missing access or a range out of bounds ends the connection on tcp msg: the origin's
 *   put may have been reported complete before, its get is cancelled, both ends see DOWN. Nothing
 *   is written. rdm: tcp;ofi_rxm with delivery-complete fails the put and drops the link, sockets
 *   fails the put alone (EACCES). The layer above knows the bounds of a window and checks first.
 * - A full send queue is -FI_EAGAIN on all.
 * - A put of tcp is complete when the kernel has its bytes. With FI_DELIVERY_COMPLETE per operation
 *   the target confirms it (TT_RMA_REMOTE). On rdm all operations are confirmed.
 * - fi_close may drop unread completions: read the queue before it (msg_ep.c).
 * - FI_WAIT_FD with fi_trywait is sound on tcp, ofi_rxm and sockets. Their sleeping costs time:
 *   sockets' own thread wakes only every few milliseconds (FI_SOCKETS_PE_WAITTIME).
 * - sockets keeps the connection of an address that was removed from the address vector.
 */
#ifndef TT_OFI_H
#define TT_OFI_H

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <sys/socket.h>

#include "lib/base/list.h"
#include "lib/wire/transport.h"
#include "transports/ofi/ofi_load.h"

#define OFI_API FI_VERSION(1, 17)
#define OFI_DEPTH 128	   /* puts and gets under way per endpoint */
#define OFI_SENDS 16	   /* messages from our buffers, and atomics, per endpoint */
#define OFI_RECVS 8	   /* receives posted where only messages consume them */
#define OFI_RECVS_NOTES 64 /* where notes do, too (FI_RX_CQ_DATA), and for rdm's one endpoint */
#define OFI_BUF 192	   /* bytes of a message buffer: header and TT_TP_MSG_MAX */
#define OFI_ADDR_MAX 128
#define OFI_MAGIC 0x4f464902u /* and its bytes tell the byte order */

enum ofi_kind { OFI_RMA, OFI_AMO, OFI_SEND, OFI_RECV };

/* libfabric's context of an operation; fi must be first. */
struct ofi_op {
	struct fi_context2 fi;
	struct ofi_op *next; /* in a free list, or in tp->used */
	struct ofi_ep *ep;   /* NULL: a receive of rdm's shared endpoint */
	void *user;
	char *buf;
	uint32_t len; /* of a message that waits for its endpoint */
	uint8_t kind;
	bool busy; /* libfabric has it */
};

/* Operations with message buffers, registered where the provider wants that. */
struct ofi_ring {
	struct ofi_op *ops, *free;
	int n;
	char *area;
	struct fid_mr *mr;
	void *desc;
};

/* An endpoint's address as the peer gets it. */
struct ofi_blob {
	uint32_t magic;
	uint32_t index;	   /* rdm: which endpoint of its process a message is for */
	uint64_t token[2]; /* random; sent over the authenticated link only */
	uint64_t id;	   /* msg: random; tells which endpoint a request is for */
	uint64_t bell_addr, bell_key;
	char provider[40];
	uint32_t rdm, addrlen;
	uint8_t addr[OFI_ADDR_MAX];
};

/* msg: the data of a connection request. */
struct ofi_call {
	uint64_t id; /* of the endpoint it is for */
	unsigned char nonce[16], mac[TT_MAC_SIZE];
};

/* Header of a message on rdm, whose receives do not identify the sender. */
struct ofi_msg_hdr {
	uint64_t token[2];
	uint64_t index;
};

/* rdm: an entry of the address vector. It stays, so that a peer can come back at any time. */
struct ofi_peer {
	struct ofi_peer *next;
	fi_addr_t addr;
	uint32_t len;
	uint8_t name[OFI_ADDR_MAX];
};

enum ofi_state {
	OFI_OPEN,	/* has an address */
	OFI_CONNECTING, /* told its peer, not up; rdm: waits for the end of what an earlier one has
			   begun */
	OFI_READY,	/* connected, but the caller has not been told */
	OFI_UP,
	OFI_FAILED, /* an error was seen; no new operations */
	OFI_FLUSH,  /* can't be written any more; DONE and DOWN events are due */
	OFI_DOWN
};

/* State of a connection of provider tcp. */
struct ofi_ends {
	struct sockaddr_storage local, remote;
};

struct ofi_ep {
	struct tt_ep base;
	struct tt_list link; /* tp->eps or tp->spare */
	enum ofi_state state;
	int status;	    /* why it went down ... */
	char reason[160];   /* ... in words; empty: nothing but the status is known */
	int busy;	    /* operations of ops and tx that libfabric has */
	bool closed;	    /* rdm: by the owner, but operations are still under way */
	struct fid_ep *fid; /* msg: its own; rdm: the shared one */
	fi_addr_t addr;	    /* rdm */
	uint64_t token[2], id;
	uint32_t index;
	bool passive;
	struct fi_info *request; /* a connection request that came before ep_connect */
	struct sockaddr_storage
		caller;	      /* tcp: the peer of the request, until its socket is closed */
	struct ofi_call call; /* connection data received; at the active end: sent */
	bool proven;	      /* active: the passive end has shown that it is the peer */
	struct ofi_blob peer;
	uint64_t bell_addr, bell_key;
	int sock; /* tcp: libfabric's socket, to be looked at only; -1: not known */
	struct ofi_ends ends;
	uint64_t queued, acked,
		since;	      /* bytes waiting there; acknowledged so far; no progress since */
	struct ofi_op *early; /* rdm: messages that came before ep_connect */
	struct ofi_op ops[OFI_DEPTH], *free;
	struct ofi_ring tx, rx;
};

struct ofi_event {
	struct tt_event ev;
	struct ofi_ep *owner; /* whose closing drops it */
	struct ofi_op *rx;    /* MSG: the receive to be posted again */
};

struct ofi_mr {
	struct tt_mr base;
	struct fid_mr *fid;
	void *desc;
};

/* Connections to the listener that belong to no endpoint; strangers.c. */
#define OFI_STRANGERS 64
struct ofi_stranger {
	int fd;
	uint64_t inode, since;
	bool here, shut;
};

struct ofi_strangers {
	struct ofi_stranger who[OFI_STRANGERS];
	int n;
	bool some;		     /* at the last look, and perhaps since */
	int lowest;		     /* free descriptor after the last look */
	uint64_t look_at, again;     /* when to look next; not before, whatever happens */
	uint64_t starved;	     /* no descriptor has been left since; 0: there is one */
	unsigned long dropped, said; /* so far; when the log says so next */
};

struct ofi_tp {
	struct tt_tp base;
	struct ofi_tp *abandoned; /* the next one that could not be closed */
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_eq *eq;   /* msg */
	struct fid_pep *pep; /* msg */
	struct fid_ep *rdm;  /* rdm, else NULL */
	struct fid_av *av;
	struct ofi_peer *peers;
	struct ofi_ring rx; /* rdm: receives of all peers */
	bool virt_addr, prov_key, local_mr, rx_cq_data;
	size_t inject;
	int recvs; /* posted per endpoint, or in all on rdm */
	int arm_fd;
	bool timer; /* the completion queue has no fd: arm_fd is a timer */
	uint64_t next_key;
	uint64_t bell;
	struct tt_mr *bell_mr;
	uint8_t name[OFI_ADDR_MAX];
	size_t namelen;
	struct tt_list eps, spare, lost;
	struct ofi_ep **table; /* rdm: by index */
	uint32_t table_size;
	struct ofi_op *used;	 /* receives whose message has been handed out */
	struct ofi_event *queue; /* a ring */
	unsigned head, count, size;
	unsigned polls;
	int connecting; /* endpoints in OFI_CONNECTING */
	int troubled;	/* endpoints in OFI_FAILED or OFI_FLUSH */
	struct ofi_strangers strangers;
	uint64_t limit_ns; /* TUTTI_HEARTBEAT_LIMIT */
	uint64_t find_at;  /* tcp: when sockets may be searched for again */
};

static inline struct ofi_tp *ofi_tp(struct tt_tp *tp)
{
	return (struct ofi_tp *)tp;
}

static inline struct ofi_ep *ofi_ep(struct tt_ep *ep)
{
	return (struct ofi_ep *)ep;
}

/* fabric.c */
extern const struct tt_tp_ops tt_ofi_tp;
int ofi_find(const struct tt_env *env, const char *addr, struct fi_info **infos);
/* The reason why ofi_find found none, for its return value: a missing capability, or the error. */
int ofi_why_none(const struct tt_env *env, int rc, char *why, size_t size);
bool ofi_has_addr(const struct fi_info *info, const char *addr);
int ofi_addr_text(const struct fi_info *info, char *text, size_t size);
/* provider.c */
/* The provider named by TUTTI_OFI_PROVIDER must not be used: the length of the reason, or 0. */
int ofi_refuse(const struct tt_env *env, char *why, size_t size);
/* It lacks a capability that this transport needs. */
bool ofi_lacks(const struct fi_info *info, char *why, size_t size);
/* Operations complete at a target that makes no call. */
bool ofi_moves_alone(const struct fi_info *info);
/* symbols.c: before libfabric is first asked for providers; a second call does nothing */
void ofi_start(void);
/* query.c */
int ofi_query(const struct tt_tp_params *params, struct tt_tp_device *dev, int max);
/* ofi_mr.c */
int ofi_reg(struct tt_tp *tp, const struct tt_mem *mem, unsigned access, struct tt_mr **mr);
int ofi_dereg(struct tt_mr *mr);
int ofi_ring_init(struct ofi_tp *tp, struct ofi_ring *ring, struct ofi_ep *ep, int n,
		  enum ofi_kind kind);
void ofi_ring_fini(struct ofi_ring *ring);
int ofi_post_recv(struct ofi_tp *tp, struct ofi_op *op);
int ofi_post_all(struct ofi_tp *tp, struct ofi_ring *ring);
/* ofi_ep.c: what both kinds of endpoints share */
extern struct tt_ep_ops ofi_ep_ops;
int ofi_ep_open(struct tt_tp *tp, struct tt_ep **ep, void *blob, size_t *len);
int ofi_ep_connect(struct tt_ep *ep, const void *blob, size_t len, bool active);
void ofi_ep_close(struct tt_ep *ep);
void ofi_ep_recycle(struct ofi_ep *ep);
void ofi_ep_free(struct ofi_ep *ep);
void ofi_ep_fail(struct ofi_ep *ep, int status);
/* The same with the text that tt_fail has just recorded with status. */
void ofi_ep_fail_text(struct ofi_ep *ep, int status);
/* No descriptor is left in this process. */
bool ofi_out_of_files(const struct ofi_tp *tp);
/* msg_ep.c */
int ofi_msg_open(struct ofi_tp *tp);
void ofi_msg_close(struct ofi_tp *tp);
/* strangers.c */
/* Periodically drops connections that are silent or closed. */
void ofi_watch_strangers(struct ofi_tp *tp);
/* Drops all strangers, or those whose time is up. */
void ofi_drop_strangers(struct ofi_tp *tp, bool all);
/*
 * Duplicates the listener, so that no other process gets its address before it is closed for good;
 * -1: none.
 */
int ofi_msg_keep_place(const struct ofi_tp *tp);
/* After everything else of libfabric's is closed. */
void ofi_msg_close_forgotten(const struct ofi_tp *tp, int kept);
/* msg_ep.c */
int ofi_msg_connect(struct ofi_ep *ep, bool active);
/* False: events may be left. */
bool ofi_msg_progress(struct ofi_tp *tp);
/* Data has come, perhaps before the event that says connected; false: not from the peer. */
bool ofi_msg_heard(struct ofi_ep *ep);
void ofi_msg_shut(struct ofi_ep *ep);
void ofi_msg_flush(struct ofi_ep *ep);
/* tcp.c */
bool ofi_is_tcp(const struct ofi_tp *tp);
int ofi_silence(struct tt_ep *ep, struct tt_silence *silence);
/* rdm_ep.c */
int ofi_rdm_open(struct ofi_tp *tp);
void ofi_rdm_close(struct ofi_tp *tp);
int ofi_rdm_index(struct ofi_ep *ep);
int ofi_rdm_connect(struct ofi_ep *ep);
void ofi_rdm_progress(struct ofi_tp *tp);
void ofi_rdm_leave(struct ofi_ep *ep);
void ofi_rdm_left(struct ofi_ep *ep);
/* ofi_rma.c */
int ofi_put(struct tt_ep *ep, const struct tt_rma *rma);
int ofi_get(struct tt_ep *ep, const struct tt_rma *rma);
int ofi_amo(struct tt_ep *ep, const struct tt_amo *amo);
int ofi_msg(struct tt_ep *ep, const void *data, size_t len);
void ofi_op_done(struct ofi_op *op);
/* ofi_cq.c */
int ofi_poll(struct tt_tp *tp, struct tt_event *events, int max);
int ofi_arm(struct tt_tp *tp, int *fd);
bool ofi_read_batch(struct ofi_tp *tp);
bool ofi_drain(struct ofi_tp *tp);
void ofi_deliver(struct ofi_ep *ep, struct ofi_op *op);
void ofi_recv_again(struct ofi_tp *tp, struct ofi_op *op);
/* ofi_events.c: events that wait for the next poll */
bool ofi_queue_reserve(struct ofi_tp *tp, unsigned n);
void ofi_queue_push(struct ofi_tp *tp, const struct tt_event *ev, struct ofi_ep *owner,
		    struct ofi_op *rx);
int ofi_queue_pop(struct ofi_tp *tp, struct tt_event *events, int max);
void ofi_queue_forget(struct ofi_tp *tp, const struct ofi_ep *ep);
int ofi_flush_events(struct ofi_tp *tp, struct tt_event *events, int max);

#endif
