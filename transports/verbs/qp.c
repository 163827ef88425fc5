/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: creation, and the transitions from RESET to RTS. */
#include "config.h"
#include "transports/verbs/verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Makes a queue pair with these inline bytes; *most becomes the actual number. NULL: see errno. */
static struct ibv_qp *create(struct vb_rail *rail, struct vb_cq *cq, int *most)
{
	struct ibv_qp_init_attr init = {.send_cq = cq->cq,
					.recv_cq = cq->cq,
					.srq = rail->recvq.srq,
					.cap = {.max_send_wr = VB_SQ_ALL,
						.max_recv_wr = rail->recvq.srq ? 0 : VB_RQ,
						.max_recv_sge = rail->recvq.srq ? 0 : 1,
						.max_send_sge = VB_SGE,
						.max_inline_data = (uint32_t)*most},
					.qp_type = IBV_QPT_RC};
	struct ibv_qp *qp;

	errno = EINVAL;
	if (*most > rail->port.inline_most)
		return NULL;
	errno = 0;
	qp = ibv_create_qp(rail->pd, &init);
	/* Some drivers accept the requested size but report less. */
	if (qp && (int)init.cap.max_inline_data < *most)
		*most = (int)init.cap.max_inline_data;
	return qp;
}

static int no_queue_pair(const struct vb_rail *rail, int err)
{
	if (err == EINVAL)
		return tt_fail(-err,
			       "verbs: %s refuses a queue pair: %s; it should have %d requests of "
			       "%d places, "
			       "and the device allows %d of %d",
			       rail->port.name, strerror(err), VB_SQ_ALL, VB_SGE,
			       rail->port.dev.max_qp_wr, rail->port.dev.max_sge);
	return tt_fail(
		-err,
		"verbs: %s gives no queue pair (%s): it has %d for all processes; end others, "
		"lower TUTTI_VERBS_QPS, or raise the limit on locked memory ('ulimit -l "
		"unlimited')",
		rail->port.name, strerror(err), rail->port.dev.max_qp);
}

int vb_qp_probe(struct vb_rail *rail, int most)
{
	struct ibv_qp *qp;
	int err = EINVAL, has;

	/* The device says how many bytes it takes inline only by refusing. */
	for (; most >= 0; most = vb_inline_below(most)) {
		has = most;
		qp = create(rail, &rail->cq[0], &has);
		if (qp) {
			ibv_destroy_qp(qp);
			return has;
		}
		err = errno ? errno : ENOMEM;
		if (err != EINVAL)
			break;
	}
	return no_queue_pair(rail, err);
}

/* Its own receives, all to be posted. */
static int own_receives(struct vb_qp *q)
{
	struct vb_recvq *own = calloc(1, sizeof(*own) + VB_RQ * sizeof(struct vb_buf *));
	struct vb_buf *buf;

	if (!own)
		return tt_fail(-ENOMEM, "verbs: out of memory");
	*own = (struct vb_recvq){.qp = q->qp, .rail = q->rail, .all = (struct vb_buf **)(own + 1)};
	q->own = own;
	while (own->total < VB_RQ) {
		buf = vb_buf_get(q->rail);
		if (!buf)
			return tt_fail(-ENOMEM,
				       "verbs: %s: no memory for receives of another connection",
				       q->rail->port.name);
		buf->recvq = own;
		buf->nth = own->total;
		own->all[own->total++] = buf;
	}
	return 0;
}

int vb_qp_new(struct vb_qp *q)
{
	struct vb_rail *rail = q->rail;
	int most = rail->tp->inline_max, err;

	err = vb_cq_take(rail, VB_SQ_ALL + (rail->recvq.srq ? 0 : VB_RQ), &q->cq);
	if (err)
		return err;
	q->qp = create(rail, q->cq, &most);
	if (!q->qp)
		return no_queue_pair(rail, errno ? errno : ENOMEM);
	return rail->recvq.srq ? 0 : own_receives(q);
}

void vb_qp_free(struct vb_qp *q)
{
	unsigned i;

	if (q->qp)
		ibv_destroy_qp(q->qp);
	if (q->cq)
		q->cq->used -= VB_SQ_ALL + (q->rail->recvq.srq ? 0 : VB_RQ);
	if (q->own) {
		vb_recv_forget(q->rail->tp, q->own);
		for (i = 0; i < q->own->total; i++)
			vb_buf_put(q->own->all[i]);
		free(q->own);
	}
	vb_cm_drop(q);
	q->qp = NULL;
	q->cq = NULL;
	q->own = NULL;
}

void vb_qp_error(struct vb_qp *q)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	ibv_modify_qp(q->qp, &attr, IBV_QP_STATE);
}

unsigned vb_qp_access(const struct vb_tp *tp)
{
	return IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	       (tp->tp.caps & TT_CAP_AMO ? IBV_ACCESS_REMOTE_ATOMIC : 0);
}

int vb_qp_init(struct vb_qp *q)
{
	const struct vb_tp *tp = q->rail->tp;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .pkey_index = (uint16_t)tp->env->verbs_pkey.number,
				   .port_num = q->rail->port.num,
				   .qp_access_flags = vb_qp_access(tp)};

	return ibv_modify_qp(q->qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

/* A RESET drops posted requests: post all again. */
int vb_qp_receive(struct vb_ep *ep, struct vb_qp *q)
{
	struct vb_recvq *own = q->own;

	if (!own)
		return 0;
	vb_recv_forget(q->rail->tp, own);
	own->id = vb_wr_id(ep, (int)(q - ep->qp), 0);
	own->idle = NULL;
	for (own->nidle = 0; own->nidle < own->total; own->nidle++) {
		own->all[own->nidle]->next = own->idle;
		own->idle = own->all[own->nidle];
	}
	return vb_recv_fill(own);
}

static int to_rtr(struct vb_qp *q, const struct vb_rail_addr *peer, uint32_t psn)
{
	const struct vb_port *port = &q->rail->port;
	const struct tt_env *env = q->rail->tp->env;
	uint8_t mtu = (uint8_t)port->attr.active_mtu;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
				   .path_mtu = (enum ibv_mtu)(mtu < peer->mtu ? mtu : peer->mtu),
				   .dest_qp_num = peer->qpn[q->nth],
				   .rq_psn = psn,
				   .max_dest_rd_atomic = (uint8_t)q->rail->max_rd,
				   .min_rnr_timer = VB_RNR_TIMER,
				   .ah_attr = {.dlid = (uint16_t)peer->lid,
					       .sl = (uint8_t)env->verbs_sl.number,
					       .port_num = port->num}};

	if (vb_is_roce(port->fabric) || port->attr.flags & IBV_QPF_GRH_REQUIRED ||
	    memcmp(port->gid.raw, peer->gid, 8)) {
		attr.ah_attr.is_global = 1;
		memcpy(attr.ah_attr.grh.dgid.raw, peer->gid, 16);
		attr.ah_attr.grh.sgid_index = (uint8_t)port->gid_index;
		attr.ah_attr.grh.hop_limit = 64;
		attr.ah_attr.grh.traffic_class = (uint8_t)env->verbs_tc.number;
	}
	return ibv_modify_qp(q->qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct vb_qp *q, const struct vb_rail_addr *peer, uint32_t psn)
{
	const struct tt_env *env = q->rail->tp->env;
	int most = q->rail->port.dev.max_qp_init_rd_atom;
	uint8_t rd = (uint8_t)(q->rail->max_rd < most ? q->rail->max_rd : most);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
				   .timeout = (uint8_t)env->verbs_timeout.number,
				   .retry_cnt = (uint8_t)env->verbs_retry.number,
				   .rnr_retry = (uint8_t)env->verbs_rnr_retry.number,
				   .sq_psn = psn,
				   .max_rd_atomic = rd < peer->rd_atomic ? rd : peer->rd_atomic};

	return ibv_modify_qp(q->qp, &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

int vb_qp_connect(struct vb_ep *ep, int i)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct vb_qp *q = &ep->qp[i];
	const struct vb_rail_addr *peer = &ep->peer->rail[q->theirs];
	const char *step = "INIT";
	int err;

	ibv_modify_qp(q->qp, &reset, IBV_QP_STATE);
	q->receives = q->last = false;
	err = vb_qp_init(q);
	if (!err) {
		step = "RTR (is the peer's address reachable from this port?)";
		err = -vb_qp_receive(ep, q);
	}
	if (!err)
		err = to_rtr(q, peer, ep->peer->psn);
	q->receives = !err;
	if (!err) {
		step = "RTS";
		err = to_rts(q, peer, ep->psn);
	}
	if (!err)
		return 0;
	return tt_fail(-err, "verbs: %s/%u: cannot move a queue pair to %s: %s", q->rail->port.name,
		       q->rail->port.num, step, strerror(err));
}
