/* SPDX-License-Identifier: BSD-3-Clause */
/* The hot calls of transport verbs: put, get, amo, msg. verbs_split.c spreads large ones. */
#include "config.h"
#include "lib/base/clock.h"
#include "transports/verbs/verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

/* ---- posting, and holding back ---- */

void vb_unhold(struct vb_tp *tp, struct vb_qp *q)
{
	struct vb_qp **at = &tp->holding;

	if (!q->nheld)
		return;
	q->nheld = 0;
	while (*at != q)
		at = &(*at)->next_holding;
	*at = q->next_holding;
}

/* From the first-th on, those held back on queue pair i could not be posted. */
static void held_failed(struct vb_ep *ep, int i, unsigned first, unsigned n, int err)
{
	struct vb_req lost[VB_CHAIN];
	struct vb_qp *q = &ep->qp[i];
	unsigned k;

	q->tail -= n - first;
	for (k = first; k < n; k++)
		lost[k] = q->ring[(q->tail + k - first) % VB_RING];
	vb_fail(ep, q->rail, err, "a request cannot be posted: %s", strerror(-err));
	for (k = first; k < n; k++)
		vb_release(ep, i, &lost[k], err);
}

/*
 * Post the requests held back on queue pair i (at least one), then last unless NULL, with one call.
 * Returns 0, or a negative code if last was not posted. The last held-back request is signalled
 * unless a later one is.
 */
static int post_list(struct vb_ep *ep, int i, struct ibv_send_wr *last)
{
	struct vb_qp *q = &ep->qp[i];
	unsigned n = q->nheld, k;
	struct ibv_send_wr *bad = NULL;
	int err;

	for (k = 0; k < n; k++)
		q->held[k].next = k + 1 < n ? &q->held[k + 1] : last;
	if (!(last && last->send_flags & IBV_SEND_SIGNALED))
		q->held[n - 1].send_flags |= IBV_SEND_SIGNALED;
	vb_unhold(vb_tp_of(ep), q);
	err = ibv_post_send(q->qp, q->held, &bad);
	if (!err)
		return 0;
	if (bad != last) {
		held_failed(ep, i, (unsigned)(bad - q->held), n, -err);
		return -EPIPE;
	}
	return err == ENOMEM ? -EAGAIN : -err;
}

/* Post wr alone, which is what happens mostly, or behind those held back. */
static inline int post(struct vb_ep *ep, int i, struct ibv_send_wr *wr)
{
	struct vb_qp *q = &ep->qp[i];
	struct ibv_send_wr *bad;
	int err;

	if (q->nheld)
		return post_list(ep, i, wr);
	err = ibv_post_send(q->qp, wr, &bad);
	return err == ENOMEM ? -EAGAIN : -err;
}

void vb_ring(struct vb_tp *tp)
{
	while (tp->holding)
		post_list(tp->holding->holder, (int)(tp->holding - tp->holding->holder->qp), NULL);
}

static inline int post_as(struct vb_ep *ep, int i, struct ibv_send_wr *wr, struct vb_req req)
{
	struct vb_qp *q = &ep->qp[i];
	int err;

	wr->wr_id = vb_wr_id(ep, i, q->tail);
	if (req.kind != VB_QUIET || req.buf ||
	    q->quiet + 1 >= VB_SIGNAL) /* idle peers keep no buffers */
		wr->send_flags |= IBV_SEND_SIGNALED;
	err = post(ep, i, wr);
	if (err)
		return err;
	q->quiet = wr->send_flags & IBV_SEND_SIGNALED ? 0 : q->quiet + 1;
	req.opcode = (uint16_t)wr->opcode;
	q->ring[q->tail++ % VB_RING] = req;
	return 0;
}

int vb_post_user(struct vb_ep *ep, int i, struct ibv_send_wr *wr, enum vb_kind kind, void *user)
{
	return post_as(ep, i, wr, (struct vb_req){.kind = kind, .user = user});
}

/* A SEND of head and len bytes behind it: in the request if that takes them, else from a buffer. */
static int post_send(struct vb_ep *ep, int i, const struct vb_head *head, const void *data,
		     size_t len, enum vb_kind kind)
{
	struct ibv_sge sge[2] = {{.addr = (uint64_t)(uintptr_t)head, .length = sizeof(*head)},
				 {.addr = (uint64_t)(uintptr_t)data, .length = (uint32_t)len}};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = len ? 2 : 1};
	struct vb_req req = {.kind = kind};
	int err;

	if (sizeof(*head) + len <= (size_t)vb_tp_of(ep)->inline_max) {
		wr.send_flags = IBV_SEND_INLINE;
	} else {
		req.buf = vb_buf_get(ep->qp[i].rail);
		if (!req.buf)
			return -ENOMEM;
		memcpy(req.buf->data, head, sizeof(*head));
		if (len)
			memcpy(req.buf->data + sizeof(*head), data, len);
		sge[0] = (struct ibv_sge){.addr = (uint64_t)(uintptr_t)req.buf->data,
					  .length = (uint32_t)(sizeof(*head) + len),
					  .lkey = req.buf->lkey};
		wr.num_sge = 1;
	}
	err = post_as(ep, i, &wr, req);
	if (err && req.buf)
		vb_buf_put(req.buf);
	return err;
}

/*
 * As vb_post_user, of something that may wait for company, because its end is waited for and
 * nothing else.
 */
static int post_later(struct vb_ep *ep, int i, struct ibv_send_wr *wr, size_t len, void *user)
{
	struct vb_qp *q = &ep->qp[i];
	struct vb_tp *tp = vb_tp_of(ep);
	unsigned n = q->nheld;

	if (len > VB_HOLD_MAX || q->head == q->tail)
		return vb_post_user(ep, i, wr, VB_OP, user);
	if (!n) {
		q->holder = ep;
		q->next_holding = tp->holding;
		tp->holding = q;
	}
	wr->wr_id = vb_wr_id(ep, i, q->tail);
	q->held[n] = *wr;
	if (wr->num_sge) {
		memcpy(q->held_sge[n], wr->sg_list, (size_t)wr->num_sge * sizeof(*wr->sg_list));
		q->held[n].sg_list = q->held_sge[n];
	}
	q->ring[q->tail++ % VB_RING] =
		(struct vb_req){.kind = VB_OP, .opcode = (uint16_t)wr->opcode, .user = user};
	if (++q->nheld == VB_CHAIN)
		post_list(ep, i, NULL);
	return 0;
}

int vb_post_word(struct vb_ep *ep, int q, enum vb_word word, uint32_t note, enum vb_kind kind)
{
	struct vb_head head = {.word = word, .note = note};

	return post_send(ep, q, &head, NULL, 0, kind);
}

static int not_up(const struct vb_ep *ep)
{
	if (ep->state < VB_UP)
		return -EAGAIN;
	return tt_fail(-EPIPE, "verbs: the endpoint is down: %s", ep->reason);
}

static inline bool room(const struct vb_qp *q, unsigned n)
{
	return q->tail - q->head + q->reserved + n <= VB_SQ;
}

static int posting_failed(const struct vb_qp *q, int err)
{
	if (err == -EAGAIN)
		return err;
	return tt_fail(err, "verbs: %s: a request cannot be posted: %s", q->rail->port.name,
		       strerror(-err));
}

static int no_mr(void)
{
	return tt_fail(-EINVAL, "verbs: local memory must be registered");
}

static inline uint32_t lkey_of(const struct vb_qp *q, const struct tt_mr *mr)
{
	return ((const struct vb_mr *)mr)->ib[q->rail->index]->lkey;
}

static inline uint32_t rkey_of(const struct vb_qp *q, const struct tt_rkey *rkey)
{
	return (uint32_t)rkey->word[q->theirs];
}

/* Where [off, off + len) of a get with a head lands; returns in how many places. */
static int two_places(struct ibv_sge sge[2], const struct vb_qp *q, const struct tt_rma *rma,
		      size_t off, size_t len)
{
	size_t part = off < rma->head_len ? rma->head_len - off : 0;
	int n = 0;

	part = part < len ? part : len;
	if (part)
		sge[n++] = (struct ibv_sge){.addr = (uint64_t)(uintptr_t)rma->head + off,
					    .length = (uint32_t)part,
					    .lkey = lkey_of(q, rma->head_mr)};
	if (len > part)
		sge[n++] = (struct ibv_sge){.addr = (uint64_t)(uintptr_t)rma->local + off + part -
						    rma->head_len,
					    .length = (uint32_t)(len - part),
					    .lkey = lkey_of(q, rma->mr)};
	return n;
}

/* Field by field: to clear all of a request first costs more than to fill it. */
void vb_rdma_wr(struct ibv_send_wr *wr, struct ibv_sge sge[2], const struct vb_qp *q,
		const struct tt_rma *rma, size_t off, size_t len, enum ibv_wr_opcode opcode)
{
	if (!rma->head_len) {
		sge->addr = (uint64_t)(uintptr_t)rma->local + off;
		sge->length = (uint32_t)len;
		sge->lkey = rma->mr ? lkey_of(q, rma->mr) : 0;
		wr->num_sge = len ? 1 : 0;
	} else {
		wr->num_sge = two_places(sge, q, rma, off, len);
	}
	wr->next = NULL;
	wr->sg_list = sge;
	wr->opcode = opcode;
	wr->send_flags = 0;
	wr->wr.rdma.remote_addr = rma->remote + off;
	wr->wr.rdma.rkey = len ? rkey_of(q, rma->rkey) : 0;
}

void vb_ring_note(struct vb_ep *ep, int i, uint32_t note)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm_data = htonl(note)};
	const struct vb_rail *rail = ep->qp[i].rail;
	int err;

	if (rail->port.imm)
		err = vb_post_user(ep, i, &wr, VB_QUIET, NULL);
	else
		err = vb_post_word(ep, i, VB_WORD_NOTE, note, VB_QUIET);
	if (err)
		vb_fail(ep, rail, err, "a notification cannot be posted: %s", strerror(-err));
}

int vb_post_flush(struct vb_ep *ep, int i, enum vb_kind kind, void *user)
{
	struct vb_qp *q = &ep->qp[i];
	const struct vb_rail_addr *there = &ep->peer->rail[q->theirs];
	struct ibv_sge sge = {.addr = (uint64_t)(uintptr_t)&q->rail->flush->landing,
			      .length = sizeof(uint64_t),
			      .lkey = q->rail->flush_mr->lkey};
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_READ,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = {.remote_addr = there->flush_addr, .rkey = there->flush_key}};
	int err = vb_post_user(ep, i, &wr, kind, user);

	if (!err)
		q->ring[(q->tail - 1) % VB_RING].opcode = VB_FLUSH;
	return err;
}

/* Spread it, if it is long enough for that: what vb_split_start returns, or -ERANGE. */
static int try_split(struct vb_ep *ep, const struct tt_rma *rma, enum ibv_wr_opcode opcode)
{
	int n = 1, first = ep->lead;
	uint64_t sum;

	if (first < 0)
		return -EAGAIN;
	sum = ep->weight[first];
	if (!ep->partial && ep->nqp > 1 && rma->len >= 2 * VB_SPLIT_MIN)
		n = vb_spread(ep->weight, ep->nqp, rma->len, &sum);
	return n > 1 || rma->len > ep->most ? vb_split_start(ep, rma, opcode, first, n, sum)
					    : -ERANGE;
}

/* ---- transfers in one piece ---- */

/*
 * Small ones and messages use the first queue pair, so that few completion queues have something.
 * Longer ones use the first of each rail, the one that had least to do for its speed.
 */
static int pick(const struct vb_ep *ep)
{
	int best = -1, i;

	for (i = 0; i < ep->nrails; i++)
		if (ep->qp[i].usable && room(&ep->qp[i], 1) &&
		    (best < 0 || (int64_t)(ep->qp[i].used - ep->qp[best].used) < 0))
			best = i;
	return best;
}

static void charge(struct vb_ep *ep, int i, size_t len)
{
	if (ep->nrails > 1)
		ep->qp[i].used += ((uint64_t)len << 20) / ep->weight[i];
}

/* ---- the slots ---- */

/*
 * Without immediate data, or if the completion of a WRITE does not prove that its bytes are in
 * place: WRITE, then a SEND for the note, then a READ to wait for. The first two are complete in
 * that order at the target, and the READ is answered after them, because they share a queue pair.
 */
static int put_in_steps(struct vb_ep *ep, int i, const struct tt_rma *rma, struct ibv_send_wr *wr,
			bool quiet, bool flush)
{
	bool note = rma->flags & TT_RMA_NOTE;
	struct vb_qp *q = &ep->qp[i];
	int err;

	if (!room(q, 1u + note + flush))
		return -EAGAIN;
	wr->opcode = IBV_WR_RDMA_WRITE;
	err = vb_post_user(ep, i, wr, quiet || flush ? VB_QUIET : VB_OP, rma->user);
	if (err)
		return posting_failed(q, err);
	if (!(wr->send_flags & IBV_SEND_INLINE))
		charge(ep, i, rma->len);
	if (note)
		vb_ring_note(ep, i, rma->note);
	if (!flush)
		return quiet ? TT_FINISHED : TT_STARTED;
	err = ep->state == VB_UP ? vb_post_flush(ep, i, VB_OP, rma->user) : -EPIPE;
	if (err)
		vb_fail(ep, q->rail, err, "a request cannot be posted: %s", strerror(-err));
	return err ? err : TT_STARTED;
}

/*
 * On queue pair i, in one request, which has all but the note; quiet: as soon as it is posted it
 * is complete here.
 */
static inline int put_whole(struct vb_ep *ep, int i, const struct tt_rma *rma,
			    struct ibv_send_wr *wr, bool quiet)
{
	struct vb_qp *q = &ep->qp[i];
	bool flush = vb_must_flush(q->rail->port.placed, ep->nrails, false, rma->flags);
	int err;

	if (flush || (rma->flags & TT_RMA_NOTE && !q->rail->port.imm))
		return put_in_steps(ep, i, rma, wr, quiet, flush);
	if (!room(q, 1))
		return -EAGAIN;
	if (rma->flags & TT_RMA_NOTE) {
		wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		wr->imm_data = htonl(rma->note);
	}
	if (quiet || rma->flags & TT_RMA_NOTE)
		err = post_as(ep, i, wr,
			      (struct vb_req){.kind = quiet ? VB_QUIET : VB_OP, .user = rma->user});
	else
		err = post_later(ep, i, wr, rma->len, rma->user);
	if (err)
		return posting_failed(q, err);
	if (!(wr->send_flags & IBV_SEND_INLINE))
		charge(ep, i, rma->len);
	return quiet ? TT_FINISHED : TT_STARTED;
}

/* Its bytes are taken when it is posted, so it is complete here, unless there matters. */
static int put_in_request(struct vb_ep *ep, const struct tt_rma *rma)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge[2];

	if (ep->lead < 0)
		return -EAGAIN;
	vb_rdma_wr(&wr, sge, &ep->qp[ep->lead], rma, 0, rma->len, IBV_WR_RDMA_WRITE);
	wr.send_flags = rma->len ? IBV_SEND_INLINE : 0;
	return put_whole(ep, ep->lead, rma, &wr, !(rma->flags & TT_RMA_REMOTE));
}

/* From or into memory: in pieces on all queue pairs, or as a whole on one. */
static inline int by_memory(struct vb_ep *ep, const struct tt_rma *rma, enum ibv_wr_opcode opcode)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge[2];
	int err, i;

	if (!rma->mr || (rma->head_len && !rma->head_mr))
		return no_mr();
	err = try_split(ep, rma, opcode);
	if (err != -ERANGE)
		return err;
	i = pick(ep);
	if (i < 0)
		return -EAGAIN;
	vb_rdma_wr(&wr, sge, &ep->qp[i], rma, 0, rma->len, opcode);
	if (opcode == IBV_WR_RDMA_WRITE)
		return put_whole(ep, i, rma, &wr, false);
	err = post_later(ep, i, &wr, rma->len, rma->user);
	if (err)
		return posting_failed(&ep->qp[i], err);
	charge(ep, i, rma->len);
	return TT_STARTED;
}

static int vb_put(struct tt_ep *base, const struct tt_rma *rma)
{
	struct vb_ep *ep = (struct vb_ep *)base;

	if (ep->state != VB_UP)
		return not_up(ep);
	if (rma->len <= (size_t)vb_tp_of(ep)->inline_max)
		return put_in_request(ep, rma);
	return by_memory(ep, rma, IBV_WR_RDMA_WRITE);
}

static int vb_get(struct tt_ep *base, const struct tt_rma *rma)
{
	struct vb_ep *ep = (struct vb_ep *)base;

	if (ep->state != VB_UP)
		return not_up(ep);
	if (!rma->len)
		return TT_FINISHED;
	return by_memory(ep, rma, IBV_WR_RDMA_READ);
}

/*
 * Atomics of different devices are not atomic to each other: all peers use the first one of the
 * target.
 */
static int amo_qp(const struct vb_ep *ep)
{
	int i;

	for (i = 0; i < ep->nrails; i++)
		if (!ep->qp[i].theirs)
			return i;
	return tt_fail(
		-EOPNOTSUPP,
		"verbs: atomics: no port here reaches the peer's first port, which executes them");
}

static int vb_amo(struct tt_ep *base, const struct tt_amo *amo)
{
	struct vb_ep *ep = (struct vb_ep *)base;
	struct ibv_send_wr wr = {.num_sge = 1};
	struct ibv_sge sge;
	struct vb_qp *q;
	int err, i;

	if (ep->state != VB_UP)
		return not_up(ep);
	if (amo->remote % sizeof(uint64_t) || (uintptr_t)amo->result % sizeof(uint64_t))
		return tt_fail(-EINVAL, "verbs: an atomic needs addresses that are multiples of 8");
	if (!amo->mr)
		return no_mr();
	i = amo_qp(ep);
	if (i < 0)
		return i;
	q = &ep->qp[i];
	if (q->off)
		return tt_fail(-ENETDOWN,
			       "verbs: the port that executes the peer's atomics is down");
	if (!q->usable || !room(q, 1))
		return -EAGAIN;
	sge = (struct ibv_sge){.addr = (uint64_t)(uintptr_t)amo->result,
			       .length = sizeof(uint64_t),
			       .lkey = lkey_of(q, amo->mr)};
	wr.sg_list = &sge;
	wr.wr.atomic.remote_addr = amo->remote;
	wr.wr.atomic.rkey = rkey_of(q, amo->rkey);
	if (amo->op == TT_AMO_ADD) {
		wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		wr.wr.atomic.compare_add = amo->operand;
	} else {
		wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
		wr.wr.atomic.compare_add = amo->compare;
		wr.wr.atomic.swap = amo->operand;
	}
	err = vb_post_user(ep, i, &wr, VB_OP, amo->user);
	return err ? posting_failed(q, err) : TT_STARTED;
}

static int vb_msg(struct tt_ep *base, const void *data, size_t len)
{
	struct vb_ep *ep = (struct vb_ep *)base;
	struct vb_head head = {.word = VB_WORD_MSG};
	int err;

	if (ep->state != VB_UP)
		return not_up(ep);
	if (len > TT_TP_MSG_MAX)
		return tt_fail(-EMSGSIZE, "verbs: message of %zu bytes is too long (at most %d)",
			       len, TT_TP_MSG_MAX);
	if (ep->lead < 0 || !room(&ep->qp[ep->lead], 1))
		return -EAGAIN;
	err = post_send(ep, ep->lead, &head, data, len, VB_QUIET);
	return err ? posting_failed(&ep->qp[ep->lead], err) : TT_FINISHED;
}

/*
 * A device repeats unacknowledged requests and finally reports a lost peer, but notices nothing
 * without a request under way. So an idle connection sends an empty write. Age alone proves
 * nothing: a peer whose receive queue is empty makes requests wait for as long as it computes.
 */
static int vb_silence(struct tt_ep *tt_ep, struct tt_silence *s)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
	struct vb_ep *ep = (struct vb_ep *)tt_ep;
	uint64_t now = tt_now_ns();
	int i;

	if (ep->state != VB_UP)
		return -EOPNOTSUPP;
	for (i = 0; i < ep->nqp; i++) {
		struct vb_qp *q = &ep->qp[i];
		uint32_t n = q->tail - q->head;

		if (!q->usable) /* a port that is down is waited for otherwise */
			continue;
		if (!n || q->head != q->seen || !q->since)
			q->since = now;
		q->seen = q->head;
		s->ops += n;
		if (n && now - q->since > s->ns)
			s->ns = now - q->since;
		if (n == q->quiet && room(q, 1)) { /* none of them would tell of its end */
			wr.next = NULL;
			vb_post_user(ep, i, &wr, VB_QUIET, NULL);
		}
	}
	return 0;
}

const struct tt_ep_ops vb_ep_ops = {
	.put = vb_put, .get = vb_get, .amo = vb_amo, .msg = vb_msg, .silence = vb_silence};
