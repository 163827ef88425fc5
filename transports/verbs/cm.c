/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connecting by rdma_cm: on iWARP, where TUTTI_VERBS_CM asks for it, and to peers of another
 * InfiniBand subnet.
 *
 * Each rail listens (cm_listen.c). The active end connects each queue pair through its own id,
 * bound to its rail's address: it resolves the address, then the route, then sends a request with
 * {the peer's queue pair, a nonce, a MAC of them}. The passive end keeps a request that arrives
 * before its own ep_connect, rejects a request with a wrong MAC, and accepts with a MAC of {the
 * active end's queue pair, that nonce}, which the active end checks. The key is both ends' cookies.
 * The hello follows as always, because only the hello tells the passive end that it may send.
 *
 * The queue pairs stay the transport's own: rdma_cm only determines their attributes. Nothing here
 * blocks: the event channel, and a timer for repetitions and the deadline, are part of the
 * descriptor to sleep on. A failed attempt is repeated until the deadline, unless the peer has
 * rejected it. A passive end whose connection fails before it is UP waits for the next request.
 */
#include "config.h"
#include "transports/verbs/verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "lib/base/clock.h"

#define HAIL_MAGIC 0x54543032u /* "TT02" */
#define CALL_LABEL "tutti cm call"
#define ANSWER_LABEL "tutti cm answer"
#define RESOLVE_MS 2000 /* one try to resolve an address or a route */
#define AGAIN_MS 100	/* until a failed attempt is repeated, and between looks at the time */

/* The data of a request, an acceptance and a rejection. */
struct hail {
	uint32_t magic;
	uint32_t qpn; /* of its receiver; 0 in a rejection */
	unsigned char nonce[16], mac[TT_MAC_SIZE];
};
_Static_assert(sizeof(struct hail) <= 56, "what a request over InfiniBand carries");

/* An event, copied, as an id can be destroyed only when its events have been given back. */
struct news {
	enum rdma_cm_event_type event;
	int status;
	struct rdma_cm_id *id, *listener;
	struct hail hail; /* zero: there was none */
};

/* The peer's end of q, for people. */
static const char *peer_text(const struct vb_ep *ep, const struct vb_qp *q, char text[80])
{
	const struct vb_rail_addr *to = &ep->peer->rail[q->theirs];
	int family = vb_cm_sockaddr(to->ip, to->port).ss_family;
	char ip[INET6_ADDRSTRLEN] = "?";

	inet_ntop(family, to->ip + (family == AF_INET ? 12 : 0), ip, sizeof(ip));
	snprintf(text, 80, "%s port %u", ip, ntohs(to->port));
	return text;
}

/* ---- time ---- */

static void wake_at(struct vb_tp *tp, uint64_t when)
{
	struct itimerspec its = {
		.it_value = {.tv_sec = (time_t)(when / TT_SEC), .tv_nsec = (long)(when % TT_SEC)}};

	if (tp->cm_wake && tp->cm_wake <= when)
		return;
	tp->cm_wake = when;
	timerfd_settime(tp->cm_timer, TFD_TIMER_ABSTIME, &its, NULL);
}

/* ---- the active end ---- */

void vb_cm_drop(struct vb_qp *q)
{
	if (q->id)
		rdma_destroy_id(q->id);
	q->id = NULL;
	q->again = 0;
}

/* The attempt has failed: retry a little later, or give up. */
static void lost(struct vb_ep *ep, struct vb_qp *q, int status, const char *why, bool again)
{
	uint64_t next = tt_deadline_ms(AGAIN_MS);
	char peer[80];

	vb_cm_drop(q);
	if (ep->state == VB_NEW || (ep->state == VB_CONNECTING && !ep->active))
		return;
	if (ep->state == VB_CONNECTING && again && next < ep->deadline) {
		q->again = next;
		wake_at(vb_tp_of(ep), next);
		return;
	}
	vb_fail(ep, q->rail, status, "rdma_cm: connecting to %s: %s", peer_text(ep, q, peer), why);
}

static void call_failed(struct vb_ep *ep, struct vb_qp *q, const char *call)
{
	int err = errno;
	char why[120];

	snprintf(why, sizeof(why), "%s: %s", call, strerror(err));
	lost(ep, q, -err, why, true);
}

static void resolve(struct vb_ep *ep, struct vb_qp *q)
{
	const struct vb_rail_addr *peer = &ep->peer->rail[q->theirs];
	struct sockaddr_storage from = vb_cm_sockaddr(q->rail->ip, 0);
	struct sockaddr_storage to = vb_cm_sockaddr(peer->ip, peer->port);
	struct vb_tp *tp = vb_tp_of(ep);
	uint8_t tos = (uint8_t)tp->env->verbs_tc.number;

	if (rdma_create_id(tp->cm, &q->id, ep, RDMA_PS_TCP)) {
		q->id = NULL;
		call_failed(ep, q, "rdma_create_id");
		return;
	}
	if (tos && rdma_set_option(q->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)))
		call_failed(ep, q, "rdma_set_option");
	else if (rdma_resolve_addr(q->id, (struct sockaddr *)&from, (struct sockaddr *)&to,
				   RESOLVE_MS))
		call_failed(ep, q, "rdma_resolve_addr");
}

/* The attributes that rdma_cm finds, and what of them is ours to say. */
static int to_state(struct vb_ep *ep, struct vb_qp *q, enum ibv_qp_state state)
{
	const struct tt_env *env = vb_tp_of(ep)->env;
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask = 0;

	if (rdma_init_qp_attr(q->id, &attr, &mask))
		return -errno;
	mask &= (1 << 21) -
		1; /* above are bits of the kernel's own, and what no connection needs */
	if (mask & IBV_QP_ACCESS_FLAGS)
		attr.qp_access_flags = vb_qp_access(vb_tp_of(ep));
	if (mask & IBV_QP_MIN_RNR_TIMER)
		attr.min_rnr_timer = VB_RNR_TIMER;
	if (mask & IBV_QP_TIMEOUT)
		attr.timeout = (uint8_t)env->verbs_timeout.number;
	if (mask & IBV_QP_RETRY_CNT)
		attr.retry_cnt = (uint8_t)env->verbs_retry.number;
	if (mask & IBV_QP_RNR_RETRY)
		attr.rnr_retry = (uint8_t)env->verbs_rnr_retry.number;
	return -ibv_modify_qp(q->qp, &attr, mask);
}

static int to_init(struct vb_ep *ep, struct vb_qp *q)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

	int err;

	ibv_modify_qp(q->qp, &reset, IBV_QP_STATE);
	q->receives = q->last = false;
	err = to_state(ep, q, IBV_QPS_INIT);
	return err ? err : vb_qp_receive(ep, q);
}

/* On iWARP the connection brings the queue pair to RTS. */
static int to_rts(struct vb_ep *ep, struct vb_qp *q)
{
	int err = 0;

	q->receives = true;
	if (q->rail->port.fabric == VB_IWARP)
		return 0;
	err = to_state(ep, q, IBV_QPS_RTR);
	return err ? err : to_state(ep, q, IBV_QPS_RTS);
}

/*
 * A request is checked when it comes, when the active end's cookie may not be known yet: without
 * it.
 */
static struct tt_mac_key key_of(const struct vb_ep *ep, bool call)
{
	struct tt_mac_key key = {{0}, {0}};

	memcpy(key.passive, ep->active ? ep->peer->cookie : ep->cookie, sizeof(key.passive));
	if (!call)
		memcpy(key.active, ep->active ? ep->cookie : ep->peer->cookie, sizeof(key.active));
	return key;
}

static void seal(const struct vb_ep *ep, struct hail *hail)
{
	struct tt_mac_key key = key_of(ep, ep->active);

	tt_mac(hail->mac, ep->active ? CALL_LABEL : ANSWER_LABEL, &key, hail,
	       offsetof(struct hail, mac));
}

/* Authentic and for this queue pair: a request, or the answer to the last request. */
static bool knows(const struct vb_ep *ep, const struct vb_qp *q, const struct hail *hail, bool call)
{
	struct tt_mac_key key = key_of(ep, call);

	return hail->magic == HAIL_MAGIC && hail->qpn == q->qp->qp_num &&
	       (call || !memcmp(hail->nonce, q->nonce, sizeof(q->nonce))) &&
	       tt_mac_is(hail->mac, call ? CALL_LABEL : ANSWER_LABEL, &key, hail,
			 offsetof(struct hail, mac));
}

static struct rdma_conn_param conn_param(struct vb_ep *ep, const struct vb_qp *q, struct hail *hail)
{
	const struct vb_rail_addr *peer = &ep->peer->rail[q->theirs];
	const struct tt_env *env = vb_tp_of(ep)->env;
	const struct vb_rail *rail = q->rail;
	int rd = rail->max_rd < rail->port.dev.max_qp_init_rd_atom
			 ? rail->max_rd
			 : rail->port.dev.max_qp_init_rd_atom;

	*hail = (struct hail){.magic = HAIL_MAGIC, .qpn = peer->qpn[q->nth]};
	memcpy(hail->nonce, q->nonce, sizeof(hail->nonce));
	seal(ep, hail);
	return (struct rdma_conn_param){
		.private_data = hail,
		.private_data_len = sizeof(*hail),
		.responder_resources = (uint8_t)rail->max_rd,
		.initiator_depth = (uint8_t)(rd < peer->rd_atomic ? rd : peer->rd_atomic),
		.flow_control = 1,
		.retry_count = (uint8_t)env->verbs_retry.number,
		.rnr_retry_count = (uint8_t)env->verbs_rnr_retry.number,
		.srq = rail->recvq.srq != NULL,
		.qp_num = q->qp->qp_num};
}

static void ask(struct vb_ep *ep, struct vb_qp *q)
{
	struct rdma_conn_param param;
	struct hail hail;
	int err;

	err = to_init(ep, q);
	if (err) {
		errno = -err;
		call_failed(ep, q, "cannot move a queue pair to INIT");
		return;
	}
	if (getrandom(q->nonce, sizeof(q->nonce), 0) != sizeof(q->nonce)) {
		call_failed(ep, q, "getrandom");
		return;
	}
	param = conn_param(ep, q, &hail);
	if (rdma_connect(q->id, &param))
		call_failed(ep, q, "rdma_connect");
}

/* The peer has accepted. */
static void accepted(struct vb_ep *ep, int i, const struct news *news)
{
	struct vb_qp *q = &ep->qp[i];
	int err;

	if (!ep->active || ep->state != VB_CONNECTING)
		return; /* the passive end waits for the hello */
	if (!knows(ep, q, &news->hail, false)) {
		lost(ep, q, -EACCES, "connection accepted by a process that is not the peer",
		     false);
		return;
	}
	err = to_rts(ep, q);
	if (!err && news->event == RDMA_CM_EVENT_CONNECT_RESPONSE && rdma_establish(q->id))
		err = -errno;
	if (!err)
		err = vb_post_word(ep, i, VB_WORD_HELLO, 0, VB_HELLO);
	if (err) {
		errno = -err;
		call_failed(ep, q, "the connection cannot be established");
	}
}

/* ---- the passive end ---- */

static void reject(struct rdma_cm_id *id)
{
	struct hail no = {.magic = HAIL_MAGIC};

	rdma_reject(id, &no, sizeof(no));
	rdma_destroy_id(id);
}

static void accept_request(struct vb_ep *ep, struct vb_qp *q)
{
	struct rdma_conn_param param = {0};
	struct hail hail;
	int err;

	err = to_init(ep, q);
	if (!err)
		err = to_rts(ep, q);
	if (!err) {
		param = conn_param(ep, q, &hail);
		err = rdma_accept(q->id, &param) ? -errno : 0;
	}
	if (err)
		vb_fail(ep, q->rail, err, "rdma_cm: a connection cannot be accepted: %s",
			strerror(-err));
}

static void requested(const struct news *news)
{
	struct vb_rail *rail = news->listener->context;
	struct vb_ep *ep;
	struct vb_qp *q;
	int i = 0;

	ep = vb_ep_of_qpn(rail, news->hail.qpn, &i);
	q = ep ? &ep->qp[i] : NULL;
	if (!ep || ep->state > VB_CONNECTING || q->greeted ||
	    (ep->state == VB_CONNECTING && (ep->active || !ep->by_cm)) ||
	    !knows(ep, q, &news->hail, true)) {
		tt_info("verbs: %s/%u: rejected an unexpected connection", rail->port.name,
			rail->port.num);
		reject(news->id);
		return;
	}
	vb_cm_drop(q); /* of an earlier attempt */
	q->id = news->id;
	q->id->context = ep;
	memcpy(q->nonce, news->hail.nonce, sizeof(q->nonce));
	if (ep->state == VB_CONNECTING)
		accept_request(ep, q);
}

int vb_cm_connect(struct vb_ep *ep)
{
	int err, i;

	/* From INIT on requests come back when a queue pair is stopped. */
	for (i = 0; i < ep->nqp; i++) {
		err = vb_qp_init(&ep->qp[i]);
		if (err)
			return tt_fail(-err, "verbs: cannot move a queue pair to INIT: %s",
				       strerror(err));
	}
	ep->state = VB_CONNECTING;
	if (ep->active)
		wake_at(vb_tp_of(ep), tt_deadline_ms(AGAIN_MS));
	for (i = 0; i < ep->nqp; i++) {
		if (ep->active) {
			vb_cm_drop(&ep->qp[i]);
			resolve(ep, &ep->qp[i]);
		} else if (ep->qp[i].id) {
			accept_request(ep, &ep->qp[i]);
		}
	}
	return 0;
}

/* ---- events ---- */

/* Why an attempt has failed, and whether another may succeed. */
static const char *why_lost(const struct news *news, bool *again)
{
	*again = true;
	if (news->event == RDMA_CM_EVENT_REJECTED && news->hail.magic == HAIL_MAGIC) {
		*again = false;
		return "rejected: the peer expects no such connection (wrong cookie, or closed "
		       "since)";
	}
	if (news->event == RDMA_CM_EVENT_REJECTED &&
	    (news->status == 8 || news->status == -ECONNREFUSED)) {
		*again = false;
		return "rejected: no process listens at that port (has it ended?)";
	}
	if (news->event == RDMA_CM_EVENT_REJECTED && news->status == 10)
		return "rejected: the queue pair's number is that of a connection not forgotten "
		       "yet";
	if (news->event == RDMA_CM_EVENT_ADDR_ERROR)
		return "the address cannot be resolved";
	if (news->event == RDMA_CM_EVENT_ROUTE_ERROR)
		return "there is no route";
	if (news->event == RDMA_CM_EVENT_UNREACHABLE)
		return "no answer";
	return rdma_event_str(news->event);
}

static int code_of(const struct news *news)
{
	if (news->event == RDMA_CM_EVENT_REJECTED)
		return -ECONNREFUSED;
	return news->status < 0 ? news->status : -EHOSTUNREACH;
}

static void failed(struct vb_ep *ep, struct vb_qp *q, const struct news *news)
{
	char text[160];
	const char *why;
	bool again;

	why = why_lost(news, &again);
	if (news->status < 0)
		snprintf(text, sizeof(text), "%s: %s", why, strerror(-news->status));
	else
		snprintf(text, sizeof(text), "%s (status %d)", why, news->status);
	lost(ep, q, code_of(news), text, again);
}

static void disconnected(struct vb_ep *ep, struct vb_qp *q)
{
	struct vb_tp *tp = vb_tp_of(ep);

	while (vb_reap(tp) > 0) /* what had arrived before, its bye perhaps */
		;
	if (ep->state == VB_CONNECTING)
		lost(ep, q, -EPIPE, "the peer closed the connection", true);
	else
		vb_fail(ep, q->rail, -EPIPE, "the peer closed the connection");
}

static void on_event(struct vb_ep *ep, int i, const struct news *news)
{
	struct vb_qp *q = &ep->qp[i];

	/* Its queue pairs must not change: their posted requests are still coming back. */
	if (ep->state >= VB_FAILED)
		return;
	switch (news->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (rdma_resolve_route(q->id, RESOLVE_MS))
			call_failed(ep, q, "rdma_resolve_route");
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		ask(ep, q);
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_ESTABLISHED:
		accepted(ep, i, news);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_REJECTED:
		failed(ep, q, news);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		disconnected(ep, q);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		vb_fail(ep, q->rail, -ENODEV, "the device was removed");
		break;
	default: /* the end of TIMEWAIT; a new way to the same address */
		break;
	}
}

/* Its endpoint and queue pair, unless it is a listener's. */
static void sort_event(struct vb_tp *tp, const struct news *news)
{
	struct vb_ep *ep;
	int i;

	if (news->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		requested(news);
		return;
	}
	for (i = 0; i < tp->nrails; i++)
		if (news->id == tp->rail[i].listener)
			return; /* what happens to the device, asynchronous events tell as well */
	ep = news->id->context;
	for (i = 0; i < ep->nqp; i++)
		if (ep->qp[i].id == news->id) {
			on_event(ep, i, news);
			return;
		}
}

static bool next_event(struct vb_tp *tp, struct news *news)
{
	const struct rdma_conn_param *param;
	struct rdma_cm_event *ev;

	if (rdma_get_cm_event(tp->cm, &ev))
		return false;
	param = &ev->param.conn;
	*news = (struct news){
		.event = ev->event, .status = ev->status, .id = ev->id, .listener = ev->listen_id};
	switch (ev->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_ESTABLISHED:
	case RDMA_CM_EVENT_REJECTED:
		if (param->private_data && param->private_data_len >= sizeof(news->hail))
			memcpy(&news->hail, param->private_data, sizeof(news->hail));
		break;
	default:
		break;
	}
	rdma_ack_cm_event(ev);
	return true;
}

/* The timer has fired: handles due work of ep; returns the time of the next. */
static uint64_t look_at(struct vb_ep *ep)
{
	uint64_t next = tt_deadline_ms(AGAIN_MS);
	char peer[80];
	int i;

	if (ep->state != VB_CONNECTING || !ep->active || !ep->by_cm)
		return TT_NEVER;
	if (tt_passed(ep->deadline)) {
		vb_fail(ep, ep->qp[0].rail, -ETIMEDOUT, "rdma_cm: %s has not answered for %d s",
			peer_text(ep, &ep->qp[0], peer), VB_HELLO_MS / 1000);
		return TT_NEVER;
	}
	for (i = 0; i < ep->nqp && ep->state == VB_CONNECTING; i++) {
		struct vb_qp *q = &ep->qp[i];

		if (q->again && tt_passed(q->again)) {
			q->again = 0;
			resolve(ep, q);
		}
		if (q->again && q->again < next)
			next = q->again;
	}
	return next;
}

static void timer_fired(struct vb_tp *tp)
{
	uint64_t next, count;
	uint32_t i;

	if (read(tp->cm_timer, &count, sizeof(count)) < 0)
		return; /* it was set anew just now */
	tp->cm_wake = 0;
	for (i = 0; i < tp->neps; i++) {
		next = tp->eps[i] ? look_at(tp->eps[i]) : TT_NEVER;
		if (next != TT_NEVER)
			wake_at(tp, next);
	}
}

void vb_cm_poll(struct vb_tp *tp)
{
	struct news news;

	if (!tp->cm)
		return;
	while (next_event(tp, &news))
		sort_event(tp, &news);
	if (tp->cm_wake && tt_passed(tp->cm_wake))
		timer_fired(tp);
}
