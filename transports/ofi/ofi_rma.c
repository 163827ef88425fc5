/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hot calls: put, get, amo, msg. They do not allocate; without a free operation or queue entry
 * they return -EAGAIN.
 */
#include <errno.h>
#include <string.h>

#include "lib/mem/mem.h"
#include "transports/ofi/ofi.h"

static struct ofi_op *op_take(struct ofi_ep *ep, struct ofi_op **list)
{
	struct ofi_op *op = *list;

	if (op) {
		*list = op->next;
		op->busy = true;
		ep->busy++;
	}
	return op;
}

void ofi_op_done(struct ofi_op *op)
{
	struct ofi_ep *ep = op->ep;
	struct ofi_op **list = op->buf ? &ep->tx.free : &ep->free;

	op->busy = false;
	ep->busy--;
	op->next = *list;
	*list = op;
}

/* Why an endpoint that is not up takes no operation. */
static int not_up(const struct ofi_ep *ep)
{
	return ep->state < OFI_UP ? -EAGAIN : -ENOTCONN;
}

static int refusal(int rc)
{
	switch (rc) {
	case -FI_ENOTCONN:
	case -FI_ECONNREFUSED:
	case -FI_ECONNRESET:
	case -FI_ENOMEM: /* of this end */
		return rc;
	case -FI_EFAULT:
		return -TT_EFAULT_HERE;
	}
	return -TUTTI_ETRANSPORT;
}

/* The end of a call that took op: started, to be retried, or failed. */
static int posted(struct ofi_op *op, ssize_t rc)
{
	if (!rc)
		return TT_STARTED;
	if (op)
		ofi_op_done(op);
	if (rc == -FI_EAGAIN)
		return -EAGAIN;
	return tt_fail(refusal((int)rc), "libfabric refused an operation: %s",
		       fi_strerror((int)-rc));
}

/*
 * Memory that the provider takes without registration may not be mapped. Provider tcp finds that
 * out within its stream, which it then has to close, or where it copies, which ends the process.
 */
static int check_mapped(const struct tt_mr *mr, const void *local, size_t len)
{
	if (mr || !len || tt_mem_is_mapped(local, len))
		return 0;
	return tt_fail(-TT_EFAULT_HERE, "libfabric cannot use %zu bytes at %p: %s", len, local,
		       fi_strerror(FI_EFAULT));
}

static void *desc_of(const struct tt_mr *mr)
{
	return mr ? ((const struct ofi_mr *)mr)->desc : NULL;
}

/* Small enough to be copied by the provider on the spot; not on rdm, where it must be confirmed. */
static int put_inject(struct ofi_ep *ep, const struct tt_rma *rma, const void *local, uint64_t addr,
		      uint64_t key)
{
	ssize_t rc;

	if (rma->flags & TT_RMA_NOTE)
		rc = fi_inject_writedata(ep->fid, local, rma->len, rma->note, ep->addr, addr, key);
	else
		rc = fi_inject_write(ep->fid, local, rma->len, ep->addr, addr, key);
	return rc ? posted(NULL, rc) : TT_FINISHED;
}

/* A put whose completion must mean "in place at the target"; rdm's always does. */
static ssize_t put_confirmed(struct ofi_ep *ep, const struct tt_rma *rma, uint64_t addr,
			     uint64_t key, struct ofi_op *op)
{
	bool note = rma->flags & TT_RMA_NOTE;
	struct iovec iov = {rma->local, rma->len};
	struct fi_rma_iov target = {addr, rma->len, key};
	void *desc = desc_of(rma->mr);
	struct fi_msg_rma m = {&iov, &desc, 1, ep->addr, &target, 1, &op->fi, note ? rma->note : 0};

	return fi_writemsg(ep->fid, &m,
			   FI_COMPLETION | FI_DELIVERY_COMPLETE | (note ? FI_REMOTE_CQ_DATA : 0));
}

int ofi_put(struct tt_ep *tep, const struct tt_rma *rma)
{
	struct ofi_ep *ep = ofi_ep(tep);
	struct ofi_tp *tp = ofi_tp(tep->tp);
	uint64_t addr, key;
	struct ofi_op *op;
	void *local, *desc;
	bool confirm;
	int err;

	if (ep->state != OFI_UP)
		return not_up(ep);
	if (!rma->len && !(rma->flags & TT_RMA_NOTE))
		return TT_FINISHED;
	err = check_mapped(rma->mr, rma->local, rma->len);
	if (err)
		return err;
	/* A note alone goes to the peer's bell: libfabric wants a valid key even for 0 bytes. */
	local = rma->len ? rma->local : &tp->bell;
	addr = rma->len ? rma->remote - rma->rkey->word[1] : ep->bell_addr;
	key = rma->len ? rma->rkey->word[0] : ep->bell_key;
	confirm = !tp->rdm && rma->len && (rma->flags & (TT_RMA_REMOTE | TT_RMA_SENT));
	if (!tp->rdm && !confirm && rma->len <= tp->inject)
		return put_inject(ep, rma, local, addr, key);
	op = op_take(ep, &ep->free);
	if (!op)
		return -EAGAIN;
	op->user = rma->user;
	if (confirm)
		return posted(op, put_confirmed(ep, rma, addr, key, op));
	desc = desc_of(rma->len ? rma->mr : tp->bell_mr);
	if (rma->flags & TT_RMA_NOTE)
		return posted(op, fi_writedata(ep->fid, local, rma->len, desc, rma->note, ep->addr,
					       addr, key, &op->fi));
	return posted(op, fi_write(ep->fid, local, rma->len, desc, ep->addr, addr, key, &op->fi));
}

static ssize_t get_in_two(struct ofi_ep *ep, const struct tt_rma *rma, struct ofi_op *op)
{
	struct iovec iov[2] = {{rma->head, rma->head_len}, {rma->local, rma->len - rma->head_len}};
	struct fi_rma_iov source = {rma->remote - rma->rkey->word[1], rma->len, rma->rkey->word[0]};
	void *desc[2] = {desc_of(rma->head_mr), desc_of(rma->mr)};
	struct fi_msg_rma m = {iov, desc, 2, ep->addr, &source, 1, &op->fi, 0};

	return fi_readmsg(ep->fid, &m, FI_COMPLETION);
}

int ofi_get(struct tt_ep *tep, const struct tt_rma *rma)
{
	struct ofi_ep *ep = ofi_ep(tep);
	struct ofi_op *op;
	int err;

	if (ep->state != OFI_UP)
		return not_up(ep);
	if (!rma->len)
		return TT_FINISHED;
	err = check_mapped(rma->mr, rma->local, rma->len - rma->head_len);
	if (!err)
		err = check_mapped(rma->head_mr, rma->head, rma->head_len);
	if (err)
		return err;
	op = op_take(ep, &ep->free);
	if (!op)
		return -EAGAIN;
	op->user = rma->user;
	if (rma->head_len)
		return posted(op, get_in_two(ep, rma, op));
	return posted(op, fi_read(ep->fid, rma->local, rma->len, desc_of(rma->mr), ep->addr,
				  rma->remote - rma->rkey->word[1], rma->rkey->word[0], &op->fi));
}

int ofi_amo(struct tt_ep *tep, const struct tt_amo *amo)
{
	struct ofi_ep *ep = ofi_ep(tep);
	uint64_t *operand, addr = amo->remote - amo->rkey->word[1], key = amo->rkey->word[0];
	struct ofi_op *op;

	if (!(tep->tp->caps & TT_CAP_AMO))
		return -EOPNOTSUPP;
	if (ep->state != OFI_UP)
		return not_up(ep);
	op = op_take(ep, &ep->tx.free);
	if (!op)
		return -EAGAIN;
	op->kind = OFI_AMO;
	op->user = amo->user;
	operand = (uint64_t *)op->buf;
	operand[0] = amo->operand;
	operand[1] = amo->compare;
	if (amo->op == TT_AMO_ADD)
		return posted(op, fi_fetch_atomic(ep->fid, operand, 1, ep->tx.desc, amo->result,
						  desc_of(amo->mr), ep->addr, addr, key, FI_UINT64,
						  FI_SUM, &op->fi));
	return posted(op, fi_compare_atomic(ep->fid, operand, 1, ep->tx.desc, operand + 1,
					    ep->tx.desc, amo->result, desc_of(amo->mr), ep->addr,
					    addr, key, FI_UINT64, FI_CSWAP, &op->fi));
}

int ofi_msg(struct tt_ep *tep, const void *data, size_t len)
{
	struct ofi_ep *ep = ofi_ep(tep);
	struct ofi_tp *tp = ofi_tp(tep->tp);
	struct ofi_msg_hdr hdr;
	struct ofi_op *op;
	size_t skip = 0;
	ssize_t rc;

	if (ep->state != OFI_UP)
		return not_up(ep);
	if (len > TT_TP_MSG_MAX)
		return tt_fail(-EMSGSIZE, "ofi: message of %zu bytes is too long (at most %d)", len,
			       TT_TP_MSG_MAX);
	if (!tp->rdm && len <= tp->inject) {
		rc = fi_inject(ep->fid, data, len, ep->addr);
		return rc ? posted(NULL, rc) : TT_FINISHED;
	}
	op = op_take(ep, &ep->tx.free);
	if (!op)
		return -EAGAIN;
	op->kind = OFI_SEND;
	op->user = NULL;
	if (tp->rdm) {
		hdr = (struct ofi_msg_hdr){{ep->peer.token[0], ep->peer.token[1]}, ep->peer.index};
		memcpy(op->buf, &hdr, sizeof(hdr));
		skip = sizeof(hdr);
	}
	memcpy(op->buf + skip, data, len);
	rc = posted(op, fi_send(ep->fid, op->buf, skip + len, ep->tx.desc, ep->addr, &op->fi));
	return rc == TT_STARTED ? TT_FINISHED : (int)rc; /* no event will follow */
}
