/* SPDX-License-Identifier: BSD-3-Clause */
/* Transport verbs: opening and closing; the table. See verbs.h. */
#include "config.h"
#include "transports/verbs/verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

extern const struct tt_tp_ops tt_verbs_tp;

static int nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) ? -errno : 0;
}

static int add_fd(int epoll_fd, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN};

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

static int fail(const struct vb_tp *tp, int err, const char *what)
{
	return tt_fail(err, "verbs: %s: %s: %s", tp->port.name, what, strerror(-err));
}

/* One descriptor to sleep on: completions and asynchronous events. */
static int open_fds(struct vb_tp *tp)
{
	int err;

	tp->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (tp->epoll_fd < 0)
		return fail(tp, -errno, "epoll_create1");
	err = nonblocking(tp->ctx->async_fd);
	if (!err)
		err = nonblocking(tp->channel->fd);
	if (!err)
		err = add_fd(tp->epoll_fd, tp->ctx->async_fd);
	if (!err)
		err = add_fd(tp->epoll_fd, tp->channel->fd);
	if (!err)
		return 0;
	close(tp->epoll_fd);
	return fail(tp, err, "its descriptors");
}

/* ENOMEM of the device: almost always its limits or RLIMIT_MEMLOCK. */
static int no_resource(const struct vb_tp *tp, const char *what, long limit)
{
	int err = errno ? -errno : -ENOMEM;

	return tt_fail(err,
		       "verbs: %s gives no %s (%s): of those it has %ld for all processes; end "
		       "others, or raise the limit on locked memory ('ulimit -l unlimited')",
		       tp->port.name, what, strerror(-err), limit);
}

static int open_queues(struct vb_tp *tp)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = VB_SRQ, .max_sge = 1}};
	const struct ibv_device_attr *dev = &tp->port.dev;

	errno = 0;
	if (dev->max_srq_wr < VB_SRQ)
		srq.attr.max_wr = (uint32_t)dev->max_srq_wr;
	tp->pd = ibv_alloc_pd(tp->ctx);
	if (!tp->pd)
		return no_resource(tp, "protection domain", dev->max_pd);
	tp->channel = ibv_create_comp_channel(tp->ctx);
	if (!tp->channel)
		return no_resource(tp, "completion channel", dev->max_cq);
	tp->cq_size = VB_SRQ + 4 * VB_SRQ < dev->max_cqe ? VB_SRQ + 4 * VB_SRQ : dev->max_cqe;
	tp->cq = ibv_create_cq(tp->ctx, tp->cq_size, NULL, tp->channel, 0);
	if (!tp->cq)
		return no_resource(tp, "completion queue", dev->max_cq);
	tp->cq_size = tp->cq->cqe;
	tp->srq = ibv_create_srq(tp->pd, &srq);
	if (!tp->srq)
		return no_resource(tp, "shared receive queue", dev->max_srq);
	tp->nrecv = srq.attr.max_wr < VB_SRQ ? srq.attr.max_wr : VB_SRQ;
	return 0;
}

static int open_recv(struct vb_tp *tp)
{
	uint32_t i;

	tp->recv = aligned_alloc(4096, (size_t)VB_SRQ * sizeof(*tp->recv));
	tp->idle = calloc(VB_SRQ, sizeof(*tp->idle));
	if (!tp->recv || !tp->idle)
		return tt_fail(-ENOMEM, "verbs: out of memory");
	memset(tp->recv, 0, (size_t)VB_SRQ * sizeof(*tp->recv));
	errno = 0;
	tp->recv_mr = ibv_reg_mr(tp->pd, tp->recv, (size_t)VB_SRQ * sizeof(*tp->recv),
				 IBV_ACCESS_LOCAL_WRITE);
	if (!tp->recv_mr)
		return no_resource(tp, "memory region", tp->port.dev.max_mr);
	for (i = 0; i < tp->nrecv; i++)
		tp->idle[tp->nidle++] = i;
	return vb_recv_fill(tp);
}

static void close_parts(struct vb_tp *tp)
{
	if (tp->srq)
		ibv_destroy_srq(tp->srq);
	if (tp->recv_mr)
		ibv_dereg_mr(tp->recv_mr);
	if (tp->acks)
		ibv_ack_cq_events(tp->cq, tp->acks);
	if (tp->cq)
		ibv_destroy_cq(tp->cq);
	if (tp->channel)
		ibv_destroy_comp_channel(tp->channel);
	if (tp->pd)
		ibv_dealloc_pd(tp->pd);
	if (tp->ctx)
		ibv_close_device(tp->ctx);
	free(tp->recv);
	free(tp->idle);
	free(tp->eps);
	free(tp->by_qpn);
	free(tp->stash);
	free(tp);
}

static void describe(struct vb_tp *tp)
{
	char addr[INET6_ADDRSTRLEN] = "";
	struct tt_tp *base = &tp->tp;

	if (tp->port.roce)
		inet_ntop(AF_INET6, tp->port.gid.raw, addr, sizeof(addr));
	else
		snprintf(addr, sizeof(addr), "LID %u", tp->port.attr.lid);
	snprintf(base->detail, sizeof(base->detail), "verbs over %s/%u (%s)", tp->port.name,
		 tp->port.num, addr);
}

static int vb_open(const struct tt_tp_params *params, struct tt_tp **tpp)
{
	struct vb_tp *tp;
	int err, i;

	/* Before anything is registered: a child of fork must not share pages the device writes. */
	err = ibv_fork_init();
	if (err)
		tt_warn("verbs: ibv_fork_init: %s; a fork may break transfers", strerror(err));
	tp = calloc(1, sizeof(*tp));
	if (!tp)
		return tt_fail(-ENOMEM, "verbs: out of memory");
	err = vb_choose(params, &tp->port, &tp->ctx);
	if (!err)
		err = open_queues(tp);
	if (!err)
		err = open_recv(tp);
	if (!err)
		err = open_fds(tp);
	if (err) {
		close_parts(tp);
		return err;
	}
	for (i = 0; i < VB_SPLITS; i++) {
		tp->split[i].next_free = tp->free_split;
		tp->free_split = &tp->split[i];
	}
	tp->env = params->env;
	tp->nqp = (int)params->env->verbs_qps.number;
	tp->inline_max = VB_INLINE;
	tp->max_rd = VB_RD_ATOMIC;
	if (tp->port.dev.max_qp_rd_atom < tp->max_rd)
		tp->max_rd = tp->port.dev.max_qp_rd_atom;
	tp->tp.ops = &tt_verbs_tp;
	tp->tp.caps = TT_CAP_AUTO_PROGRESS | TT_CAP_REG_ANY;
	tp->ops = vb_ep_ops;
	if (tp->port.dev.atomic_cap != IBV_ATOMIC_NONE)
		tp->tp.caps |= TT_CAP_AMO;
	else
		tp->ops.amo = NULL;
	tt_ep_ops_fill(&tp->ops);
	describe(tp);
	*tpp = &tp->tp;
	return 0;
}

static void vb_close(struct tt_tp *base)
{
	struct vb_tp *tp = (struct vb_tp *)base;

	close(tp->epoll_fd);
	close_parts(tp);
}

const struct tt_tp_ops tt_verbs_tp = {
	.name = "verbs",
	.query = vb_query,
	.open = vb_open,
	.close = vb_close,
	.reg = vb_reg,
	.dereg = vb_dereg,
	.ep_open = vb_ep_open,
	.ep_connect = vb_ep_connect,
	.ep_close = vb_ep_close,
	.poll = vb_poll,
	.arm = vb_arm,
};
