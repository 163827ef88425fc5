/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transport verbs: what its files share.
 *
 * One device port, one protection domain, one completion queue and one shared receive queue serve all
 * peers; a peer costs its reliable-connected queue pairs only. A put is an RDMA WRITE, with a note
 * WRITE_WITH_IMM; a get is a READ; control messages are SENDs. Notes and messages take an entry of the
 * shared receive queue at the target; while that is empty for a moment the sender's device tries again
 * (RNR).
 *
 * Completions. The queue pair completes in the order of posting, so each keeps a ring of what it has
 * posted, and a completion releases everything up to its place. What needs no event (small puts and
 * messages, whose bytes travel in the request itself) is posted unsignalled, every 16th signalled. The
 * completion queue has room for everything that is posted: after a failure each request completes.
 *
 * Connecting. Addresses are exchanged by the caller. The active end then sends a hello, which tells it,
 * once acknowledged, and the passive end, once received, that both can receive: UP. A hello that meets
 * a peer not ready yet is repeated by the device, and by us when the device gives up.
 *
 * Failing. Whatever goes wrong moves all queue pairs of the endpoint to the error state, and a last
 * request, the mark, is posted to each: when it comes back flushed, everything has, and DOWN is said.
 * Closing does the same, after telling the peer (bye), and waits for the marks.
 */
#ifndef TT_VERBS_H
#define TT_VERBS_H

#include <infiniband/verbs.h>

#include "lib/base/list.h"
#include "lib/wire/transport.h"

#define VB_MAGIC 0x3130425645545454ull /* "TTTEVB01": layout version included */
#define VB_QPS 8	    /* queue pairs of an endpoint, at most */
#define VB_SQ 128	    /* requests under way of a queue pair */
#define VB_SQ_EXTRA 4	    /* beyond those: hello, bye, mark */
#define VB_SIGNAL 16	    /* one of so many unsignalled requests is signalled */
#define VB_SRQ 1024	    /* entries of the shared receive queue */
#define VB_INLINE 256	    /* bytes that travel in the request, if the device can */
#define VB_RD_ATOMIC 128    /* gets and atomics under way of a queue pair, if the device can */
#define VB_SPLIT_MIN 131072 /* smallest piece of a put spread over queue pairs */
#define VB_SPLITS 256	    /* spread operations of a process under way */
#define VB_BATCH 16	    /* completions taken, receives posted at once */
#define VB_HELLO_MS 10000   /* how long the active end tries to reach a peer */
#define VB_BYE_MS 20	    /* how long closing waits for the peer to be told */
#define VB_DRAIN_MS 1000    /* how long it waits for the marks */

/* A port of a device, as it was found and, if it is the one, chosen. */
struct vb_port {
	char name[32]; /* device */
	uint8_t num;
	int gid_index;
	union ibv_gid gid;
	bool roce;
	struct ibv_port_attr attr;
	struct ibv_device_attr dev;
	double gbps;
	int numa, distance; /* of the calling thread's node; 0: unknown */
	bool usable;
	char why[160];
};

enum vb_kind {
	VB_QUIET, /* nobody waits for it */
	VB_OP,	  /* DONE for user */
	VB_PIECE, /* of a split */
	VB_HELLO,
	VB_BYE,
	VB_MARK
};

/* What a queue pair has posted. */
struct vb_req {
	enum vb_kind kind;
	void *user; /* VB_PIECE: the split */
};

struct vb_qp {
	struct ibv_qp *qp;
	uint32_t head, tail;  /* oldest request not known to be complete; next place */
	uint32_t quiet;	      /* unsignalled ones since the last signalled */
	uint32_t reserved;    /* places kept for the notes of splits */
	bool greeted;	      /* the hello of this queue pair has arrived */
	struct vb_req ring[256];
};
_Static_assert(VB_SQ + VB_SQ_EXTRA <= 256, "the ring holds what is posted");

enum vb_state { VB_NEW, VB_CONNECTING, VB_UP, VB_FAILED, VB_DOWN };

struct vb_ep {
	struct tt_ep ep;
	struct vb_ep *next_free; /* unused while in use */
	uint32_t index, gen;	 /* place in tp->eps, and which user of it */
	enum vb_state state;
	bool active, closing, bye_done;
	int status;		/* of a failed one */
	char reason[160];
	int nqp, up;		/* up: how many queue pairs are greeted */
	uint32_t psn;
	uint64_t deadline;	/* of connecting */
	struct vb_blob *peer;	/* to connect again */
	struct vb_qp qp[VB_QPS];
};

/* A put or get in several pieces; the note is rung when all are acknowledged. */
struct vb_split {
	struct vb_split *next_free;
	struct vb_ep *ep;
	unsigned left;
	int status;
	bool note;
	uint32_t imm;
	void *user;
};

struct vb_mr {
	struct tt_mr mr;
	struct ibv_mr *ib;
};

struct vb_tp {
	struct tt_tp tp;
	const struct tt_env *env;
	struct vb_port port;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_mr *recv_mr;
	uint8_t (*recv)[TT_TP_MSG_MAX]; /* buffers of the shared receive queue */
	unsigned nrecv;
	uint32_t *idle; /* receive buffers to be posted again at the next poll */
	unsigned nidle;
	int epoll_fd;
	int cq_size, inline_max, max_rd, nqp;
	bool armed, dead; /* dead: the device is gone */
	unsigned polls, acks;
	struct tt_ep_ops ops;

	struct vb_ep **eps;
	uint32_t neps, eps_max;
	uint32_t *by_qpn; /* hash: qp_num to index + 1 */
	uint32_t by_qpn_size;

	struct vb_split split[VB_SPLITS], *free_split;

	/* Where events go: the caller's array, and what does not fit there until the next poll. */
	struct tt_event *out;
	int nout, max_out;
	struct tt_event *stash;
	uint32_t stash_head, stash_tail, stash_max;
};

/* An endpoint's address. */
struct vb_blob {
	uint64_t magic;
	uint8_t gid[16];
	uint32_t psn;
	uint32_t lid;
	uint8_t roce, mtu, rd_atomic, nqp;
	uint32_t qpn[VB_QPS];
};
_Static_assert(sizeof(struct vb_blob) <= TT_TP_BLOB_MAX, "fits");

/* What a SEND begins with: a message of the caller has none, so hello and bye carry immediate data. */
enum vb_imm { VB_IMM_HELLO = 1, VB_IMM_BYE };

/* device.c */
int vb_query(const struct tt_tp_params *params, struct tt_tp_device *dev, int max);
/* The port to use, opened. */
int vb_choose(const struct tt_tp_params *params, struct vb_port *port, struct ibv_context **ctx);

/* mr.c */
int vb_reg(struct tt_tp *tp, const struct tt_mem *mem, unsigned access, struct tt_mr **mr);
int vb_dereg(struct tt_mr *mr);

/* qp.c */
int vb_qp_new(struct vb_tp *tp, struct vb_qp *q);
/* From RESET to RTS. */
int vb_qp_connect(struct vb_ep *ep, int i);
void vb_qp_error(struct vb_qp *q);

/* ep.c */
int vb_ep_open(struct tt_tp *tp, struct tt_ep **ep, void *blob, size_t *len);
int vb_ep_connect(struct tt_ep *ep, const void *blob, size_t len, bool active);
void vb_ep_close(struct tt_ep *ep);
struct vb_ep *vb_ep_of_qpn(struct vb_tp *tp, uint32_t qpn, int *q);
struct vb_ep *vb_ep_at(struct vb_tp *tp, uint32_t index, uint32_t gen);
/* The hello of queue pair q is acknowledged or received. */
void vb_greeted(struct vb_ep *ep, int q);
/* The hello of queue pair q found nobody: once more, or fail. */
void vb_hello_again(struct vb_ep *ep, int q, int status);
/* Say why, stop everything; DOWN follows when all requests have come back. */
void vb_fail(struct vb_ep *ep, int status, const char *fmt, ...) TT_PRINTF(3, 4);
/* DOWN, if everything has come back. */
void vb_check_down(struct vb_ep *ep);

/* rma.c */
extern const struct tt_ep_ops vb_ep_ops;
/* Post wr as request of a kind; 0 or -errno (then nothing was posted). */
int vb_post(struct vb_ep *ep, int q, struct ibv_send_wr *wr, enum vb_kind kind, void *user);
/* A SEND without payload. */
int vb_post_imm(struct vb_ep *ep, int q, enum vb_imm imm, enum vb_kind kind);
/* A piece has come back. */
void vb_piece_done(struct vb_tp *tp, struct vb_split *split, int status);

/* cq.c */
int vb_poll(struct tt_tp *tp, struct tt_event *events, int max);
int vb_arm(struct tt_tp *tp, int *fd);
/* Take completions; their events go to the caller's array or the stash. Returns how many. */
int vb_reap(struct vb_tp *tp);
void vb_emit(struct vb_tp *tp, struct tt_event ev);
/* Forget the events of ep that wait. */
void vb_stash_drop(struct vb_tp *tp, const struct vb_ep *ep);
int vb_recv_fill(struct vb_tp *tp);
/* Requests of q that nobody will complete: end them with status. */
void vb_abandon(struct vb_ep *ep, int q, int status);

/* events.c */
void vb_async(struct vb_tp *tp);
/* A completion's status as a negative code, and in words. */
int vb_status(enum ibv_wc_status status);
const char *vb_status_text(enum ibv_wc_status status);

static inline struct vb_tp *vb_tp_of(const struct vb_ep *ep)
{
	return (struct vb_tp *)ep->ep.tp;
}

#endif
