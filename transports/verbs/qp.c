/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: making them, and their way from RESET to RTS. */
#include "config.h"
#include "transports/verbs/verbs.h"

#include <errno.h>
#include <string.h>

int vb_qp_new(struct vb_qp *q)
{
	struct vb_rail *rail = q->rail;
	struct vb_tp *tp = rail->tp;
	struct ibv_qp_init_attr init;

	/* The device says how many bytes it takes inline only by refusing. */
	for (;; tp->inline_max /= 2) {
		init = (struct ibv_qp_init_attr){.send_cq = rail->cq,
						 .recv_cq = rail->cq,
						 .srq = rail->srq,
						 .cap = {.max_send_wr = VB_SQ + VB_SQ_EXTRA,
							 .max_send_sge = 2,
							 .max_inline_data = (uint32_t)tp->inline_max},
						 .qp_type = IBV_QPT_RC};
		errno = 0;
		q->qp = ibv_create_qp(rail->pd, &init);
		if (q->qp)
			return 0;
		if (errno != EINVAL || tp->inline_max / 2 < (int)VB_SEND_MAX)
			break;
	}
	return tt_fail(errno ? -errno : -ENOMEM,
		       "verbs: %s gives no queue pair (%s): it has %d for all processes; end others, "
		       "lower TUTTI_VERBS_QPS, or raise the limit on locked memory ('ulimit -l unlimited')",
		       rail->port.name, strerror(errno), rail->port.dev.max_qp);
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

static int to_rtr(struct vb_qp *q, const struct vb_rail_addr *peer, uint32_t psn)
{
	const struct vb_port *port = &q->rail->port;
	const struct tt_env *env = q->rail->tp->env;
	uint8_t mtu = (uint8_t)port->attr.active_mtu;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = (enum ibv_mtu)(mtu < peer->mtu ? mtu : peer->mtu),
		.dest_qp_num = peer->qpn[q->nth],
		.rq_psn = psn,
		.max_dest_rd_atomic = (uint8_t)q->rail->max_rd,
		.min_rnr_timer = VB_RNR_TIMER,
		.ah_attr = {.dlid = (uint16_t)peer->lid,
			    .sl = (uint8_t)env->verbs_sl.number,
			    .port_num = port->num}};

	if (port->fabric == VB_ROCE || port->attr.flags & IBV_QPF_GRH_REQUIRED ||
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
	err = vb_qp_init(q);
	if (!err) {
		step = "RTR (is the peer's address reachable from this port?)";
		err = to_rtr(q, peer, ep->peer->psn);
	}
	if (!err) {
		step = "RTS";
		err = to_rts(q, peer, ep->psn);
	}
	if (!err)
		return 0;
	return tt_fail(-err, "verbs: %s/%u: a queue pair cannot be brought to %s: %s",
		       q->rail->port.name, q->rail->port.num, step, strerror(err));
}
