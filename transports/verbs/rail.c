/* SPDX-License-Identifier: BSD-3-Clause */
/* Rails: opens the ports in use, and pairs local rails with a peer's. See verbs.h. */
#include "config.h"
#include "transports/verbs/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* ---- opening ---- */

static struct ibv_context *open_named(const char *name)
{
	struct ibv_context *ctx = NULL;
	struct ibv_device **list;
	int n = 0, i;

	errno = 0;
	list = ibv_get_device_list(&n);
	for (i = 0; list && i < n; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			ctx = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	return ctx;
}

/* ENOMEM of the device: almost always its limits or RLIMIT_MEMLOCK. */
static int no_resource(const struct vb_rail *rail, const char *what, long limit)
{
	int err = errno ? -errno : vb_few_files();

	err = err ? err : -ENOMEM;
	if (err == -EMFILE || err == -ENFILE)
		return tt_fail(err, "verbs: %s gives no %s: %s", rail->port.name, what,
			       strerror(-err));
	return tt_fail(err,
		       "verbs: %s gives no %s (%s): of those it has %ld for all processes; end "
		       "others, or raise the limit on locked memory ('ulimit -l unlimited')",
		       rail->port.name, what, strerror(-err), limit);
}

/* The next completion queue of rail, with room for `size` entries, if the device can have them. */
static int add_cq(struct vb_rail *rail, int size)
{
	const struct ibv_device_attr *dev = &rail->port.dev;
	struct vb_cq *c = &rail->cq[rail->ncq];

	if (size > dev->max_cqe)
		size = dev->max_cqe;
	errno = 0;
	c->cq = ibv_create_cq(rail->ctx, size, c, rail->channel, 0);
	if (!c->cq)
		return no_resource(rail, "completion queue", dev->max_cq);
	c->size = rail->port.resize ? c->cq->cqe : size; /* as short as the mask's test wants it */
	c->used = (int)rail->recvq.total;		 /* any of the receives may complete here */
	c->acks = 0;
	if (rail->ncq++)
		tt_info("verbs: %s: completion queue %d, of %d entries", rail->port.name, rail->ncq,
			c->size);
	return 0;
}

/* Doubled until it has room for n more; false: it stays as it is. */
static bool grow_cq(struct vb_rail *rail, struct vb_cq *c, int n)
{
	long size = c->size;
	int err;

	while (size < (long)c->used + n)
		size *= 2;
	if (size > rail->port.dev.max_cqe)
		size = rail->port.dev.max_cqe;
	if (!rail->port.resize || size < (long)c->used + n)
		return false;
	err = ibv_resize_cq(c->cq, (int)size);
	if (err) {
		rail->port.resize = false; /* not every driver can; then there will be several */
		return false;
	}
	c->size = c->cq->cqe;
	return true;
}

int vb_cq_take(struct vb_rail *rail, int n, struct vb_cq **taken)
{
	struct vb_cq *c = NULL;
	int i, err = 0;

	for (i = 0; i < rail->ncq; i++) {
		c = &rail->cq[i];
		if (c->used + n <= c->size || (i == rail->ncq - 1 && grow_cq(rail, c, n)))
			break;
	}
	if (i == rail->ncq && i < VB_CQS) {
		err = add_cq(rail, 2 * c->size);
		c = &rail->cq[i];
	}
	if (err)
		return err;
	if (i == VB_CQS || c->used + n > c->size)
		return tt_fail(-ENOMEM,
			       "verbs: %s: no room for another connection in %d completion queues: "
			       "they can have "
			       "%d entries each; lower TUTTI_VERBS_QPS",
			       rail->port.name, rail->ncq, rail->port.dev.max_cqe);
	c->used += n;
	*taken = c;
	return 0;
}

static int open_queues(struct vb_rail *rail)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = VB_SRQ, .max_sge = 1}};
	const struct ibv_device_attr *dev = &rail->port.dev;

	errno = 0;
	if (dev->max_srq_wr < VB_SRQ)
		srq.attr.max_wr = (uint32_t)dev->max_srq_wr;
	rail->pd = ibv_alloc_pd(rail->ctx);
	if (!rail->pd)
		return no_resource(rail, "protection domain", dev->max_pd);
	rail->channel = ibv_create_comp_channel(rail->ctx);
	if (!rail->channel)
		return no_resource(rail, "completion channel", dev->max_cq);
	rail->recvq.rail = rail;
	if (rail->port.srq) {
		rail->recvq.srq = ibv_create_srq(rail->pd, &srq);
		if (!rail->recvq.srq)
			return no_resource(rail, "shared receive queue", dev->max_srq);
		rail->recvq.total = srq.attr.max_wr < VB_SRQ ? srq.attr.max_wr : VB_SRQ;
	}
	/* TUTTI_VERBS_MASK=resize: short ones, so that tests need several. */
	return add_cq(rail, (int)rail->recvq.total +
				    (rail->port.resize ? 4 * VB_SRQ : 2 * VB_SQ_ALL + VB_RQ));
}

/* The words that peers read of this rail, and that it reads of theirs: see vb_must_flush. */
static int open_flush(struct vb_rail *rail)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;

	if (rail->port.fabric == VB_IWARP) /* the peer writes the data of a READ */
		access |= IBV_ACCESS_REMOTE_WRITE;
	rail->flush = aligned_alloc(4096, 4096);
	if (!rail->flush)
		return tt_fail(-ENOMEM, "verbs: out of memory");
	memset(rail->flush, 0, 4096);
	errno = 0;
	rail->flush_mr = ibv_reg_mr(rail->pd, rail->flush, 4096, access);
	return rail->flush_mr ? 0 : no_resource(rail, "memory region", rail->port.dev.max_mr);
}

static int open_recv(struct vb_rail *rail)
{
	unsigned i;
	int err;

	if (!rail->recvq.srq)
		return 0; /* each queue pair takes its own */
	err = vb_slab_new(rail, rail->recvq.total);
	if (err) {
		errno = err;
		return no_resource(rail, "memory region", rail->port.dev.max_mr);
	}
	for (i = 0; i < rail->recvq.total; i++) {
		struct vb_buf *buf = vb_buf_get(rail);

		buf->recvq = &rail->recvq;
		buf->next = rail->recvq.idle;
		rail->recvq.idle = buf;
		rail->recvq.nidle++;
	}
	return vb_recv_fill(&rail->recvq);
}

int vb_watch(struct vb_tp *tp, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK))
		return -errno;
	return epoll_ctl(tp->epoll_fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

static int open_rail(struct vb_rail *rail)
{
	const struct ibv_device_attr *dev = &rail->port.dev;
	int err;

	rail->max_rd = dev->max_qp_rd_atom < VB_RD_ATOMIC ? dev->max_qp_rd_atom : VB_RD_ATOMIC;
	rail->ctx = open_named(rail->port.name);
	if (!rail->ctx) {
		err = -vb_errno(ENODEV);
		err = vb_few_files() ? vb_few_files() : err;
		return tt_fail(err, "verbs: %s cannot be opened: %s", rail->port.name,
			       strerror(-err));
	}
	err = open_queues(rail);
	if (!err)
		err = open_recv(rail);
	if (!err)
		err = open_flush(rail);
	if (!err) {
		err = vb_qp_probe(rail, rail->tp->inline_max);
		rail->tp->inline_max = err;
		err = err < 0 ? err : 0;
	}
	if (err)
		return err;
	err = vb_watch(rail->tp, rail->ctx->async_fd);
	if (!err)
		err = vb_watch(rail->tp, rail->channel->fd);
	if (err)
		return tt_fail(err, "verbs: %s: cannot watch its descriptors: %s", rail->port.name,
			       strerror(-err));
	return 0;
}

int vb_rails_open(struct vb_tp *tp)
{
	int err = 0, i;

	tp->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (tp->epoll_fd < 0)
		return tt_fail(-errno, "verbs: epoll_create1: %s", strerror(errno));
	tp->inline_max = VB_INLINE;
	for (i = 0; !err && i < tp->nrails; i++)
		err = open_rail(&tp->rail[i]);
	return err;
}

static void close_rail(struct vb_rail *rail)
{
	int i;

	if (rail->recvq.srq)
		ibv_destroy_srq(rail->recvq.srq);
	vb_slabs_free(rail);
	if (rail->flush_mr)
		ibv_dereg_mr(rail->flush_mr);
	free(rail->flush);
	for (i = 0; i < rail->ncq; i++) {
		if (rail->cq[i].acks)
			ibv_ack_cq_events(rail->cq[i].cq, rail->cq[i].acks);
		ibv_destroy_cq(rail->cq[i].cq);
	}
	if (rail->channel)
		ibv_destroy_comp_channel(rail->channel);
	if (rail->pd)
		ibv_dealloc_pd(rail->pd);
	if (rail->ctx)
		ibv_close_device(rail->ctx);
}

void vb_rails_close(struct vb_tp *tp)
{
	int i;

	for (i = tp->nrails - 1; i >= 0; i--)
		close_rail(&tp->rail[i]);
	if (tp->epoll_fd >= 0)
		close(tp->epoll_fd);
}

/* ---- the queue pairs of an endpoint ---- */

int vb_rails_deal(struct vb_ep *ep)
{
	struct vb_tp *tp = vb_tp_of(ep);
	int n = 0, k, r;

	for (k = 0; k < tp->nqp; k++)
		for (r = 0; r < tp->nrails; r++) {
			if (tp->rail[r].down || tp->rail[r].homeless || tp->rail[r].dead)
				continue;
			ep->qp[n].rail = &tp->rail[r];
			ep->qp[n++].nth = (uint8_t)k;
		}
	if (!n)
		tt_fail(-ENETDOWN, "verbs: %s/%u%s down or gone", tp->rail[0].port.name,
			tp->rail[0].port.num, tp->nrails > 1 ? " and the other ports are" : " is");
	return n ? n : -ENETDOWN;
}

static uint32_t mbps_of(const struct vb_port *port)
{
	return port->gbps * 1000 < 1 ? 1 : (uint32_t)(port->gbps * 1000);
}

void vb_rails_tell(const struct vb_ep *ep, struct vb_blob *b)
{
	const struct vb_tp *tp = vb_tp_of(ep);
	int i;

	b->nrails = (uint32_t)tp->nrails;
	for (i = 0; i < tp->nrails; i++) {
		const struct vb_port *port = &tp->rail[i].port;
		struct vb_rail_addr *a = &b->rail[i];

		memcpy(a->gid, port->gid.raw, sizeof(a->gid));
		memcpy(a->net, port->net, sizeof(a->net));
		a->mbps = mbps_of(port);
		a->lid = port->attr.lid;
		a->fabric = port->fabric;
		a->mtu = (uint8_t)port->attr.active_mtu;
		a->rd_atomic = (uint8_t)tp->rail[i].max_rd;
		memcpy(a->ip, tp->rail[i].ip, sizeof(a->ip));
		a->port = tp->rail[i].cm_port;
		a->cm = tp->cm_only;
		a->routed = port->routed;
		a->flush_addr = (uint64_t)(uintptr_t)&tp->rail[i].flush->word;
		a->flush_key = tp->rail[i].flush_mr->rkey;
	}
	for (i = 0; i < ep->nqp; i++) {
		const struct vb_qp *q = &ep->qp[i];

		b->rail[q->rail->index].qpn[q->nth] = q->qp->qp_num;
		b->rail[q->rail->index].nqp++;
	}
}

static int cm_differs(const struct vb_tp *tp)
{
	return tt_fail(-EINVAL,
		       "verbs: TUTTI_VERBS_CM is rdmacm %s; set the same value on all ranks",
		       tp->cm_only ? "here and not at the peer" : "at the peer and not here");
}

static int check(const struct vb_ep *ep, const struct vb_blob *b)
{
	const struct vb_tp *tp = vb_tp_of(ep);
	uint32_t i;

	if (b->magic != VB_MAGIC || b->psn > 0xffffff || !b->nrails || b->nrails > VB_RAILS)
		return tt_fail(-EINVAL, "verbs: this is not the address of a verbs endpoint");
	for (i = 0; i < b->nrails; i++) {
		if (b->rail[i].nqp && b->rail[i].cm != tp->cm_only)
			return cm_differs(tp);
		if (b->rail[i].mtu < IBV_MTU_256 || b->rail[i].mtu > IBV_MTU_4096)
			return tt_fail(-EINVAL,
				       "verbs: this is not the address of a verbs endpoint");
		if (b->rail[i].nqp && b->rail[i].nqp != tp->nqp)
			return tt_fail(-EINVAL,
				       "verbs: TUTTI_VERBS_QPS is %d here and %u at the peer",
				       tp->nqp, b->rail[i].nqp);
	}
	return 0;
}

static int none_meets(const struct vb_tp *tp, const struct vb_blob *b)
{
	const struct vb_port *port = &tp->rail[0].port;
	uint32_t i;

	for (i = 0; i < b->nrails; i++)
		if (b->rail[i].nqp && b->rail[i].fabric == port->fabric)
			return tt_fail(-EHOSTUNREACH,
				       "verbs: no port of the peer is in a network of %s/%u or of "
				       "another port "
				       "in use here; name ports that reach each other in "
				       "TUTTI_VERBS_DEVICE",
				       port->name, port->num);
	return tt_fail(-EHOSTUNREACH,
		       "verbs: networks differ: %s/%u is %s, the peer's device is not", port->name,
		       port->num, vb_fabric_name(port->fabric));
}

/* The peer is in another subnet, where only rdma_cm finds the way, and it is not to be had. */
static int no_cm(const struct vb_rail *rail, bool here)
{
	const struct vb_tp *tp = rail->tp;

	return tt_fail(-EHOSTUNREACH,
		       "verbs: the peer is in another InfiniBand subnet than %s/%u, which takes "
		       "rdma_cm: %s",
		       rail->port.name, rail->port.num,
		       !here ? "the peer has no address for it; give its port an IP address"
		       : tp->cm_why[0]	? tp->cm_why
		       : rail->homeless ? "the port has lost its address"
					: "TUTTI_VERBS_CM=bootstrap does without it");
}

/* Whether ep is connected by rdma_cm. */
static int choose_way(struct vb_ep *ep, const struct vb_blob *ours, const struct vb_blob *theirs,
		      const int match[VB_RAILS])
{
	struct vb_tp *tp = vb_tp_of(ep);
	int rail = 0;

	switch (vb_way(ours, theirs, match, &rail)) {
	case VB_WAY_DIRECT:
		return 0;
	case VB_WAY_CM:
		ep->by_cm = true;
		if (!tp->cm_only)
			tt_info("verbs: a peer in another subnet is connected by rdma_cm");
		return 0;
	case VB_WAY_DIFFER:
		return cm_differs(tp);
	case VB_WAY_NO_CM_HERE:
		return no_cm(&tp->rail[rail], true);
	case VB_WAY_NO_CM_THERE:
		break;
	}
	return no_cm(&tp->rail[rail], false);
}

/* A connection is as fast as its slower end, and takes pieces as long as every port does. */
static void set_speeds(struct vb_ep *ep, const struct vb_blob *b)
{
	int i;

	ep->most = SIZE_MAX;
	for (i = 0; i < ep->nqp; i++) {
		const struct vb_qp *q = &ep->qp[i];
		uint32_t ours = mbps_of(&q->rail->port), theirs = b->rail[q->theirs].mbps;
		size_t most = q->rail->port.attr.max_msg_sz;

		ep->weight[i] = !theirs || ours < theirs ? ours : theirs;
		if (most < ep->most)
			ep->most = most;
	}
}

int vb_rails_match(struct vb_ep *ep, const struct vb_blob *b)
{
	struct vb_blob ours = {.magic = VB_MAGIC};
	int match[VB_RAILS], n = 0, i, err = check(ep, b);

	if (err)
		return err;
	vb_rails_tell(ep, &ours);
	ep->nrails = vb_match(&ours, b, match);
	if (!ep->nrails)
		return none_meets(vb_tp_of(ep), b);
	err = choose_way(ep, &ours, b, match);
	if (err)
		return err;
	for (i = 0; i < ep->nqp; i++) {
		struct vb_qp *q = &ep->qp[i];

		if (match[q->rail->index] < 0) {
			vb_qp_free(q);
			continue;
		}
		q->theirs = (uint8_t)match[q->rail->index];
		if (n < i)
			ep->qp[n] = *q;
		n++;
	}
	ep->nqp = n;
	set_speeds(ep, b);
	return 0;
}
