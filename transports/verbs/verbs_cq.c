/* SPDX-License-Identifier: BSD-3-Clause */
/* Completions to events, the receive queues, and sleeping. */
#include "config.h"
#include "transports/verbs/verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RECV_ID (1ull << 63) /* wr_id of a receive; the rest is its buffer's address */
#define OWN_ID (1ull << 62)  /* of a queue pair's own: the rest is whose, and which */
#define ASYNC_EVERY 512	     /* polls between two looks at asynchronous events */
#define CM_EVERY 16	     /* and at those of rdma_cm, while we connect */
#define STASH_BATCH                                                                                \
	(20 * VB_BATCH) /* events of VB_BATCH completions: each may end a chain, and bring two */
#define STASH_MIN 512
_Static_assert(STASH_BATCH >= VB_BATCH * (VB_CHAIN + 3) && STASH_MIN >= STASH_BATCH,
	       "there is room");

/* ---- receive buffers ---- */

static int post_receives(struct vb_recvq *rq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return rq->srq ? ibv_post_srq_recv(rq->srq, wr, bad) : ibv_post_recv(rq->qp, wr, bad);
}

/* Completions may outlive a queue pair, so its receives are identified by number. */
static uint64_t recv_id(const struct vb_recvq *rq, const struct vb_buf *buf)
{
	return RECV_ID | (rq->srq ? (uint64_t)(uintptr_t)buf : OWN_ID | rq->id | buf->nth);
}

int vb_recv_fill(struct vb_recvq *rq)
{
	struct ibv_recv_wr wr[VB_BATCH], *bad;
	struct ibv_sge sge[VB_BATCH];
	struct vb_buf *buf;
	unsigned i, n;
	int err;

	while (rq->idle) {
		for (n = 0, buf = rq->idle; buf && n < VB_BATCH; buf = buf->next, n++) {
			sge[n] = (struct ibv_sge){.addr = (uint64_t)(uintptr_t)buf->data,
						  .length = VB_SEND_MAX,
						  .lkey = buf->lkey};
			wr[n] = (struct ibv_recv_wr){.wr_id = recv_id(rq, buf),
						     .next = &wr[n + 1],
						     .sg_list = &sge[n],
						     .num_sge = 1};
		}
		wr[n - 1].next = NULL;
		err = post_receives(rq, wr, &bad);
		n = err ? (unsigned)(bad - wr) : n; /* number posted */
		for (i = 0; i < n; i++)
			rq->idle = rq->idle->next;
		rq->nidle -= n;
		if (err)
			return tt_fail(-err, "verbs: %s: receives cannot be posted: %s",
				       rq->rail->port.name, strerror(err));
	}
	return 0;
}

/* So many that posting them together is worth it, or the queue would run dry. */
static bool enough_idle(const struct vb_recvq *rq)
{
	return rq->nidle >= VB_BATCH || 4 * rq->nidle > rq->total;
}

static inline void recycle(struct vb_buf *buf)
{
	struct vb_recvq *rq = buf->recvq;

	buf->next = rq->idle;
	rq->idle = buf;
	rq->nidle++;
	if (!rq->hungry && enough_idle(rq)) {
		rq->hungry = true;
		rq->next_hungry = rq->rail->tp->hungry;
		rq->rail->tp->hungry = rq;
	}
}

void vb_recv_forget(struct vb_tp *tp, struct vb_recvq *rq)
{
	struct vb_recvq **at = &tp->hungry;

	if (!rq->hungry)
		return;
	while (*at != rq)
		at = &(*at)->next_hungry;
	*at = rq->next_hungry;
	rq->hungry = false;
}

/* Buffers that cannot be posted now stay idle until the next buffer of their queue. */
static void feed(struct vb_tp *tp)
{
	struct vb_recvq *rq;

	while ((rq = tp->hungry)) {
		tp->hungry = rq->next_hungry;
		rq->hungry = false;
		vb_recv_fill(rq);
	}
}

/* ---- events ---- */

/*
 * The buffer of a message that has been handed out, or never will be: the next poll may post it
 * again.
 */
static void recycle_of(const struct tt_event *ev)
{
	const char *data = (const char *)ev->data - sizeof(struct vb_head);

	recycle((struct vb_buf *)(uintptr_t)(data - offsetof(struct vb_buf, data)));
}

/* Room for `need` more events. */
static bool stash_room(struct vb_tp *tp, uint32_t need)
{
	uint32_t n = tp->stash_tail - tp->stash_head,
		 max = tp->stash_max ? 2 * tp->stash_max : STASH_MIN;
	struct tt_event *stash;

	if (tp->stash_head) {
		memmove(tp->stash, tp->stash + tp->stash_head, n * sizeof(*tp->stash));
		tp->stash_head = 0;
		tp->stash_tail = n;
	}
	if (n + need <= tp->stash_max)
		return true;
	stash = realloc(tp->stash, max * sizeof(*stash));
	if (!stash)
		return false;
	tp->stash = stash;
	tp->stash_max = max;
	return true;
}

int vb_stash_new(struct vb_tp *tp)
{
	return stash_room(tp, STASH_BATCH) ? 0 : tt_fail(-ENOMEM, "verbs: out of memory");
}

/* The place of the next event that is not a message; each kind fills in its fields. */
static inline struct tt_event *next_event(struct vb_tp *tp)
{
	if (tp->nout < tp->max_out)
		return &tp->out[tp->nout++];
	if (tp->stash_tail == tp->stash_max && !stash_room(tp, 1))
		abort(); /* an event lost is a hang: nothing sensible can go on; see reap_rail */
	return &tp->stash[tp->stash_tail++];
}

void vb_emit(struct vb_tp *tp, struct tt_event ev)
{
	bool now = tp->nout < tp->max_out;

	*next_event(tp) = ev;
	if (now && ev.kind == TT_EV_MSG)
		recycle_of(&ev);
}

static inline void emit_note(struct vb_tp *tp, uint32_t note)
{
	struct tt_event *ev = next_event(tp);

	ev->kind = TT_EV_NOTE;
	ev->note = note;
	ev->ep = NULL;
}

static inline void emit_done(struct vb_ep *ep, void *user, int status)
{
	struct tt_event *ev = next_event(vb_tp_of(ep));

	ev->kind = TT_EV_DONE;
	ev->status = status;
	ev->data = status && ep->reason[0] ? ep->reason : NULL;
	ev->user = user;
	ev->ep = &ep->ep;
}

static void unstash(struct vb_tp *tp)
{
	while (tp->nout < tp->max_out && tp->stash_head != tp->stash_tail) {
		const struct tt_event *ev = &tp->stash[tp->stash_head++];

		tp->out[tp->nout++] = *ev;
		if (ev->kind == TT_EV_MSG)
			recycle_of(ev);
	}
	if (tp->stash_head == tp->stash_tail)
		tp->stash_head = tp->stash_tail = 0;
}

void vb_stash_drop(struct vb_tp *tp, const struct vb_ep *ep)
{
	uint32_t i, n = tp->stash_head;

	for (i = tp->stash_head; i < tp->stash_tail; i++) {
		struct tt_event *ev = &tp->stash[i];

		if (ev->ep != &ep->ep)
			tp->stash[n++] = *ev;
		else if (ev->kind == TT_EV_MSG)
			recycle_of(ev);
	}
	tp->stash_tail = n;
}

/* ---- requests that have come back ---- */

void vb_release(struct vb_ep *ep, int i, const struct vb_req *req, int status)
{
	struct vb_tp *tp = vb_tp_of(ep);

	if (req->buf)
		vb_buf_put(req->buf);
	switch (req->kind) {
	case VB_OP:
		if (!ep->closing)
			emit_done(ep, req->user, status);
		break;
	case VB_PIECE:
		vb_piece_done(tp, req->user, status);
		break;
	case VB_HELLO:
		if (!status)
			vb_greeted(ep, i);
		break;
	case VB_BYE:
		ep->bye_done = true;
		break;
	case VB_QUIET:
	case VB_MARK:
		break;
	}
}

void vb_abandon(struct vb_ep *ep, int i, int status)
{
	struct vb_qp *q = &ep->qp[i];

	vb_unhold(vb_tp_of(ep), q);
	while (q->head != q->tail)
		vb_release(ep, i, &q->ring[q->head++ % VB_RING], status);
}

static const char *what(enum vb_kind kind)
{
	return kind == VB_HELLO	  ? "connecting"
	       : kind == VB_QUIET ? "a small put or message"
				  : "an operation";
}

static void request_failed(struct vb_ep *ep, int q, const struct vb_req *req,
			   enum ibv_wc_status status)
{
	int code = vb_status(status);

	if (req->kind == VB_HELLO && ep->state == VB_CONNECTING && !ep->closing &&
	    status == IBV_WC_RETRY_EXC_ERR) {
		ep->qp[q].quiet = 0;
		vb_hello_again(ep, q, code);
		return;
	}
	vb_async(vb_tp_of(
		ep)); /* a port that went down is the better reason, if it is known by now */
	if (vb_port_to_blame(&ep->qp[q]))
		vb_fail_by_port(ep, &ep->qp[q], req);
	/* A fault concerns this request only; the others are lost with the connection. */
	vb_fail(ep, ep->qp[q].rail, tt_is_fault(code) ? -EPIPE : code, "%s failed: %s",
		what(req->kind), vb_status_text(status));
}

static void sent(struct vb_tp *tp, const struct ibv_wc *wc)
{
	struct vb_ep *ep = vb_ep_at(tp, (uint32_t)(wc->wr_id >> 40), wc->wr_id >> 24 & 0xffff);
	int i = (int)(wc->wr_id >> 16 & 255), code;
	struct vb_req req;
	struct vb_qp *q;

	if (!ep)
		return; /* closed since */
	q = &ep->qp[i];
	code = wc->status == IBV_WC_SUCCESS ? 0 : vb_status(wc->status);
	if (wc->status == IBV_WC_WR_FLUSH_ERR && ep->state >= VB_FAILED)
		code = ep->status;
	/* Those before it were unsignalled and are complete. */
	while ((q->head & 0xffff) != (wc->wr_id & 0xffff) && q->head != q->tail)
		vb_release(ep, i, &q->ring[q->head++ % VB_RING], 0);
	if (q->head == q->tail)
		return; /* abandoned already */
	req = q->ring[q->head++ % VB_RING];
	if (q->off && ep->state == VB_UP) {
		vb_left(ep, i, &req, code);
		vb_check_down(ep);
		return;
	}
	vb_release(ep, i, &req, code);
	if (wc->status != IBV_WC_SUCCESS)
		request_failed(ep, i, &req, wc->status);
	vb_check_down(ep);
}

/* ---- arrivals ---- */

/* A SEND has come: of a message the event keeps the buffer. */
static void arrived_send(struct vb_rail *rail, struct vb_ep *ep, struct vb_buf *buf, uint32_t len)
{
	struct vb_head head = {0};
	struct vb_tp *tp = rail->tp;

	if (len >= sizeof(head))
		memcpy(&head, buf->data, sizeof(head));
	if (head.word == VB_WORD_MSG) {
		vb_emit(tp, (struct tt_event){.kind = TT_EV_MSG,
					      .len = len - (uint32_t)sizeof(head),
					      .data = buf->data + sizeof(head),
					      .ep = &ep->ep});
		return;
	}
	recycle(buf);
	if (head.word == VB_WORD_NOTE)
		emit_note(tp, head.note);
	else if (head.word == VB_WORD_RAIL)
		vb_rail_word(ep, head.note);
	else if (head.word == VB_WORD_BYE)
		vb_fail(ep, rail, -EPIPE, "the peer closed the connection");
	else if (head.word != VB_WORD_HELLO)
		vb_fail(ep, rail, -EPROTO, "the peer sent an invalid message");
}

static bool is_hello(const struct ibv_wc *wc, const struct vb_buf *buf)
{
	uint32_t word;

	if (wc->opcode != IBV_WC_RECV || wc->byte_len < sizeof(word))
		return false;
	memcpy(&word, buf->data, sizeof(word));
	return word == VB_WORD_HELLO;
}

/* The endpoint and the buffer of a completed receive; NULL: the endpoint has been closed. */
static struct vb_ep *receiver(struct vb_rail *rail, const struct ibv_wc *wc, int *q,
			      struct vb_buf **buf)
{
	uint64_t id = wc->wr_id & ~(RECV_ID | OWN_ID);
	struct vb_ep *ep;

	if (!(wc->wr_id & OWN_ID)) {
		*buf = (struct vb_buf *)(uintptr_t)id;
		return wc->status == IBV_WC_SUCCESS ? vb_ep_of_qpn(rail, wc->qp_num, q) : NULL;
	}
	*buf = NULL; /* failed requests are posted again only with the queue pair */
	ep = wc->status == IBV_WC_SUCCESS
		     ? vb_ep_at(rail->tp, (uint32_t)(id >> 40), id >> 24 & 0xffff)
		     : NULL;
	*q = (int)(id >> 16 & 255);
	if (ep && *q < ep->nqp)
		*buf = ep->qp[*q].own->all[id & 0xffff];
	return *buf ? ep : NULL;
}

static void arrived(struct vb_rail *rail, const struct ibv_wc *wc)
{
	struct vb_tp *tp = rail->tp;
	struct vb_buf *buf;
	struct vb_ep *ep;
	int q = 0;

	ep = receiver(rail, wc, &q, &buf);
	if (!ep || ep->state == VB_NEW || ep->state == VB_DOWN || ep->closing) {
		if (buf)
			recycle(buf);
		return;
	}
	if (is_hello(wc, buf)) {
		recycle(buf);
		vb_greeted(ep, q);
		return;
	}
	/*
	 * The peer sends only when all its hellos were received, even if we see one of them later.
	 */
	for (q = 0; ep->state == VB_CONNECTING && q < ep->nqp; q++)
		vb_greeted(ep, q);
	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
		recycle(buf);
		emit_note(tp, ntohl(wc->imm_data));
	} else {
		arrived_send(rail, ep, buf, wc->byte_len);
	}
}

static int reap_cq(struct vb_rail *rail, struct ibv_cq *cq, int looks)
{
	int room = rail->tp->max_out - rail->tp->nout, n, i;
	struct ibv_wc wc[VB_BATCH];

	/* Without memory for their data, completions stay in the queue. */
	if (rail->tp->stash_max - rail->tp->stash_tail < STASH_BATCH &&
	    !stash_room(rail->tp, STASH_BATCH))
		return 0;
	if (room <= 0 || room > VB_BATCH)
		room = VB_BATCH;
	do
		n = ibv_poll_cq(cq, room, wc);
	while (!n && --looks > 0);
	for (i = 0; i < n; i++)
		if (wc[i].wr_id & RECV_ID)
			arrived(rail, &wc[i]);
		else
			sent(rail->tp, &wc[i]);
	return n;
}

static inline int reap_rail(struct vb_rail *rail, int looks)
{
	int total = reap_cq(rail, rail->cq[0].cq, looks), n, i;

	for (i = 1; i < rail->ncq; i++) {
		n = reap_cq(rail, rail->cq[i].cq, 1);
		total = n > 0 ? n + (total > 0 ? total : 0) : total;
	}
	return total;
}

/* Looking at each completion queue so often while it is empty. */
static int reap(struct vb_tp *tp, int looks)
{
	int total = 0, i, n;

	for (i = 0; i < tp->nrails; i++) {
		n = reap_rail(&tp->rail[tp->turn], looks);
		tp->turn = tp->turn + 1 < tp->nrails ? tp->turn + 1 : 0;
		total += n > 0 ? n : 0;
	}
	/* Another begins next time, so that none is starved by the one before it. */
	tp->turn = tp->turn + 1 < tp->nrails ? tp->turn + 1 : 0;
	return total;
}

int vb_reap(struct vb_tp *tp)
{
	return reap(tp, 1);
}

/* ---- polling and sleeping ---- */

/* Take what woke us. */
static void disarm(struct vb_tp *tp)
{
	struct ibv_cq *cq;
	void *context;
	int i;

	tp->armed = false;
	for (i = 0; i < tp->nrails; i++) {
		struct vb_rail *rail = &tp->rail[i];

		while (!ibv_get_cq_event(rail->channel, &cq, &context)) {
			struct vb_cq *c = context;

			if (++c->acks < 64) /* acknowledging takes a lock */
				continue;
			ibv_ack_cq_events(c->cq, c->acks);
			c->acks = 0;
		}
	}
}

int vb_poll(struct tt_tp *base, struct tt_event *events, int max)
{
	struct vb_tp *tp = (struct vb_tp *)base;
	int looks = tp->nrails > 1 ? 1 : VB_LOOKS, n, i;
	bool look;

	tp->out = events;
	tp->nout = 0;
	tp->max_out = max;
	/*
	 * First repost buffers of messages that the caller has seen; then report events in order,
	 * waiting ones first.
	 */
	if (tp->hungry)
		feed(tp);
	unstash(tp);
	if (tp->holding)
		vb_ring(tp);
	look = tp->armed || ++tp->polls % ASYNC_EVERY == 0;
	if (look)
		vb_async(tp);
	if (look || (tp->cm_wake && tp->polls % CM_EVERY == 0))
		vb_cm_poll(tp);
	if (tp->armed)
		disarm(tp);
	/* A poll costs more than a look, and a caller that polls is usually waiting. */
	for (i = 0; i < VB_LOOKS && !tp->nout && max > 0; i += looks)
		for (n = reap(tp, looks);
		     n >= VB_BATCH && tp->nout < max;) /* less: there is no more */
			n = reap(tp, 1);
	n = tp->nout;
	tp->nout = tp->max_out = 0;
	return n;
}

int vb_arm(struct tt_tp *base, int *fd)
{
	struct vb_tp *tp = (struct vb_tp *)base;
	int i, k;

	disarm(tp);
	if (tp->holding)
		vb_ring(tp);
	vb_async(tp);
	for (i = 0; i < tp->nrails; i++)
		for (k = 0; !tp->rail[i].dead && k < tp->rail[i].ncq; k++)
			if (ibv_req_notify_cq(tp->rail[i].cq[k].cq, 0))
				return -EAGAIN;
	tp->armed = true;
	/*
	 * Completions from before the arming wake no thread, and an important one may be behind
	 * many others.
	 */
	while (tp->stash_head == tp->stash_tail && vb_reap(tp) >= VB_BATCH)
		;
	if (tp->stash_head != tp->stash_tail)
		return -EAGAIN;
	*fd = tp->epoll_fd;
	return 0;
}
