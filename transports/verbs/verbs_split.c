/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long puts and gets: in pieces of at most ep->most bytes, spread over the queue pairs by their
 * weights.
 */
#include "config.h"
#include "transports/verbs/verbs.h"

#include <errno.h>
#include <string.h>

/*
 * The note goes out when the peer's device has acknowledged all pieces: nothing less says that
 * those on other queue pairs are in place.
 */
void vb_piece_done(struct vb_tp *tp, struct vb_split *s, int status)
{
	struct vb_ep *ep = s->ep;

	if (status && !s->status)
		s->status = status;
	if (--s->left)
		return;
	if (s->note)
		ep->qp[s->via].reserved--;
	if (s->note && !s->status && ep->state == VB_UP)
		vb_ring_note(ep, ep->qp[s->via].usable || ep->lead < 0 ? s->via : ep->lead, s->imm);
	if (!ep->closing)
		vb_emit(tp, (struct tt_event){.kind = TT_EV_DONE,
					      .status = s->status,
					      .user = s->user,
					      .ep = &ep->ep});
	s->next_free = tp->free_split;
	tp->free_split = s;
}

/* Room for as many requests on each of n queue pairs from the first-th on, and the note? */
static bool split_room(const struct vb_ep *ep, int first, int n, size_t each, bool note)
{
	int i;

	for (i = first; i < first + n; i++)
		if (ep->qp[i].tail - ep->qp[i].head + ep->qp[i].reserved + each +
			    (note && i == first) >
		    VB_SQ)
			return false;
	return true;
}

/* The pieces [off, end) of queue pair i; how many were posted, and in *err why no more. */
static unsigned post_pieces(struct vb_ep *ep, int i, const struct tt_rma *rma,
			    enum ibv_wr_opcode opcode, size_t off, size_t end, struct vb_split *s,
			    int *err)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge[2];
	unsigned n = 0;
	size_t len;

	for (; off < end; off += len, n++) {
		len = end - off < ep->most ? end - off : ep->most;
		vb_rdma_wr(&wr, sge, &ep->qp[i], rma, off, len, opcode);
		*err = vb_post_user(ep, i, &wr, VB_PIECE, s);
		if (*err)
			break;
	}
	return n;
}

int vb_split_start(struct vb_ep *ep, const struct tt_rma *rma, enum ibv_wr_opcode opcode, int first,
		   int n, uint64_t sum)
{
	bool put = opcode != IBV_WR_RDMA_READ, note = put && rma->flags & TT_RMA_NOTE;
	bool flush = put && vb_must_flush(true, ep->nrails, n > 1, rma->flags);
	size_t each = rma->len / ep->most + 1, off = 0, end;
	struct vb_tp *tp = vb_tp_of(ep);
	struct vb_split *s = tp->free_split;
	uint64_t part = 0;
	int i, err = 0;

	if (each > VB_SQ / 2)
		return tt_fail(-EMSGSIZE, "verbs: operation of %zu bytes is too long", rma->len);
	if (!s || !split_room(ep, first, n, each + flush, note))
		return -EAGAIN;
	tp->free_split = s->next_free;
	/* One more is left until all are posted: none of them ends it before. */
	*s = (struct vb_split){.ep = ep,
			       .left = 1,
			       .note = note,
			       .imm = rma->note,
			       .user = rma->user,
			       .via = first};
	ep->qp[first].reserved += note;
	for (i = first; !err && i < first + n; i++, off = end) {
		part += ep->weight[i];
		end = vb_cut(rma->len, part, sum);
		s->left += post_pieces(ep, i, rma, opcode, off, end, s, &err);
		if (!err && flush) {
			err = vb_post_flush(ep, i, VB_PIECE, s);
			s->left += !err;
		}
	}
	/* Some pieces may be on their way: let the connection end, and the split with it. */
	if (err) {
		vb_fail(ep, ep->qp[i - 1].rail, err, "a request cannot be posted: %s",
			strerror(-err));
		vb_piece_done(tp, s, err);
		return TT_STARTED;
	}
	s->left--;
	return TT_STARTED;
}
