/* SPDX-License-Identifier: BSD-3-Clause */
/* Asynchronous events of the device, and texts for completion statuses. */
#include "config.h"
#include "transports/verbs/verbs.h"

#include <errno.h>

int vb_status(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_SUCCESS:
		return 0;
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
	case IBV_WC_RESP_TIMEOUT_ERR:
		return -ETIMEDOUT;
	case IBV_WC_REM_ACCESS_ERR:
		return -EACCES;
	case IBV_WC_LOC_PROT_ERR:
	case IBV_WC_LOC_ACCESS_ERR:
		return -TT_EFAULT_HERE;
	case IBV_WC_LOC_LEN_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_BAD_RESP_ERR:
		return -EINVAL;
	case IBV_WC_WR_FLUSH_ERR:
	case IBV_WC_REM_ABORT_ERR:
		return -EPIPE;
	case IBV_WC_FATAL_ERR:
		return -ENODEV;
	default:
		return -EIO;
	}
}

const char *vb_status_text(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_RETRY_EXC_ERR:
		return "transport retry counter exceeded (the peer, or the way to it, is gone)";
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return "RNR retry counter exceeded (the peer takes no messages)";
	case IBV_WC_REM_ACCESS_ERR:
		return "remote access error (the peer's memory is not registered, or not for this)";
	case IBV_WC_LOC_PROT_ERR:
		return "local protection error (local memory is not registered)";
	case IBV_WC_WR_FLUSH_ERR:
		return "Work Request Flushed Error (the connection had failed)";
	default:
		return ibv_wc_status_str(status);
	}
}

/* Whether ep has a queue pair on rail. */
static bool uses(const struct vb_ep *ep, const struct vb_rail *rail)
{
	int i;

	for (i = 0; i < ep->nqp; i++)
		if (ep->qp[i].rail == rail)
			return true;
	return false;
}

static void fail_all(struct vb_rail *rail, int status, const char *why)
{
	struct vb_tp *tp = rail->tp;
	uint32_t i;

	for (i = 0; i < tp->neps; i++)
		if (tp->eps[i] && uses(tp->eps[i], rail))
			vb_fail(tp->eps[i], rail, status, "%s", why);
}

/* Requests of a lost device come back no more. */
static void device_gone(struct vb_rail *rail, const char *why)
{
	struct vb_tp *tp = rail->tp;
	uint32_t i;
	int k;

	rail->dead = true;
	fail_all(rail, -ENODEV, why);
	for (i = 0; i < tp->neps; i++) {
		struct vb_ep *ep = tp->eps[i];

		for (k = 0; ep && k < ep->nqp; k++)
			if (ep->qp[k].rail == rail)
				vb_abandon(ep, k, -ENODEV);
		if (ep)
			vb_check_down(ep);
	}
}

static void qp_event(struct vb_rail *rail, const struct ibv_async_event *ev)
{
	struct vb_ep *ep;
	int q;

	ep = vb_ep_of_qpn(rail, ev->element.qp->qp_num, &q);
	if (ep)
		vb_fail(ep, rail, -EPIPE, "%s", ibv_event_type_str(ev->event_type));
}

/* The queue pair has returned all entries of the shared receive queue that it had taken. */
static void last_receive(struct vb_rail *rail, const struct ibv_async_event *ev)
{
	struct vb_ep *ep;
	int q;

	rail->tells_last = true;
	ep = vb_ep_of_qpn(rail, ev->element.qp->qp_num, &q);
	if (ep)
		ep->qp[q].last = true;
}

static void handle(struct vb_rail *rail, const struct ibv_async_event *ev)
{
	switch (ev->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_PATH_MIG_ERR:
		qp_event(rail, ev);
		break;
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		last_receive(rail, ev);
		break;
	case IBV_EVENT_PORT_ERR:
		if (ev->element.port_num == rail->port.num)
			vb_port_down(rail);
		break;
	case IBV_EVENT_PORT_ACTIVE:
		if (ev->element.port_num == rail->port.num)
			vb_port_up(rail);
		break;
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
		if (ev->element.port_num == rail->port.num)
			vb_port_changed(rail);
		break;
	case IBV_EVENT_DEVICE_FATAL:
		device_gone(rail, "the device failed or was removed");
		break;
	case IBV_EVENT_CQ_ERR:
		device_gone(rail, "the completion queue failed");
		break;
	case IBV_EVENT_SRQ_ERR:
		fail_all(rail, -EIO, "the shared receive queue failed");
		break;
	default: /* nothing that changes connections */
		break;
	}
}

void vb_async(struct vb_tp *tp)
{
	struct ibv_async_event ev;
	int i;

	for (i = 0; i < tp->nrails; i++)
		while (!ibv_get_async_event(tp->rail[i].ctx, &ev)) {
			handle(&tp->rail[i], &ev);
			ibv_ack_async_event(&ev);
		}
	vb_outages(tp);
}
