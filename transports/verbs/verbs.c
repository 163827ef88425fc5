/* SPDX-License-Identifier: BSD-3-Clause */
/* Transport verbs: opening and closing, and its table of functions. See verbs.h. */
#include "config.h"
#include "transports/verbs/verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void vb_close(struct tt_tp *base)
{
	struct vb_tp *tp = (struct vb_tp *)base;

	vb_cm_close(tp);
	vb_rails_close(tp);
	if (tp->port_timer >= 0)
		close(tp->port_timer);
	free(tp->eps);
	tt_map_free(&tp->by_qpn);
	free(tp->stash);
	free(tp);
}

static void describe(struct vb_tp *tp)
{
	const struct vb_port *port = &tp->rail[0].port;
	char addr[INET6_ADDRSTRLEN] = "";
	struct tt_tp *base = &tp->tp;
	size_t n;
	int i;

	if (port->fabric != VB_IB)
		inet_ntop(AF_INET6, port->gid.raw, addr, sizeof(addr));
	else
		snprintf(addr, sizeof(addr), "LID %u", port->attr.lid);
	n = (size_t)snprintf(base->detail, sizeof(base->detail), "verbs over %s/%u (%s%s)",
			     port->name, port->num, addr, tp->cm_only ? ", rdma_cm" : "");
	for (i = 1; i < tp->nrails && n < sizeof(base->detail); i++)
		n += (size_t)snprintf(base->detail + n, sizeof(base->detail) - n, ", %s/%u",
				      tp->rail[i].port.name, tp->rail[i].port.num);
}

/* The device's atomics, if all of them have some. */
static void set_ops(struct vb_tp *tp)
{
	size_t most;
	int i;

	tp->tp.ops = &tt_verbs_tp;
	tp->tp.caps = TT_CAP_AUTO_PROGRESS | TT_CAP_REG_ANY | TT_CAP_AMO | TT_CAP_AMO_DEVICE |
		      TT_CAP_GET_HEAD;
	tp->tp.inline_put = (size_t)tp->inline_max;
	tp->ops = vb_ep_ops;
	for (i = 0; i < tp->nrails; i++) {
		if (!tp->rail[i].port.atomic || tp->rail[0].dead) /* all use the first one's */
			tp->tp.caps &= ~(unsigned)(TT_CAP_AMO | TT_CAP_AMO_DEVICE);
		if (!tp->rail[i].port.srq) /* few receives: messages wait until the next poll */
			tp->tp.caps &= ~(unsigned)TT_CAP_AUTO_PROGRESS;
		if (tp->rail[i].port.dev.max_sge_rd < VB_SGE)
			tp->tp.caps &= ~(unsigned)TT_CAP_GET_HEAD;
	}
	most = tp->rail[0].port.attr.max_msg_sz;
	for (i = 1; i < tp->nrails; i++)
		if (tp->rail[i].port.attr.max_msg_sz < most)
			most = tp->rail[i].port.attr.max_msg_sz;
	/* A longer put goes in pieces, as many as a queue pair takes: with pieces of 1 GiB that is
	 * no limit. */
	if (!tp->rail[0].port.placed)
		tp->tp.max_put = most;
	else if (most < 1u << 30)
		tp->tp.max_put = most * (VB_SQ / 2 - 1);
	if (!(tp->tp.caps & TT_CAP_AMO))
		tp->ops.amo = NULL;
	tt_ep_ops_fill(&tp->ops);
}

static int choose(const struct tt_tp_params *params, struct vb_tp *tp)
{
	struct vb_port ports[VB_RAILS];
	int i, n = vb_choose(params, ports);

	/* Bytes on other queue pairs could not be waited for. */
	for (i = 0; i < n; i++)
		if (!ports[i].placed)
			n = 1;
	for (i = 0; i < n; i++)
		tp->rail[i] = (struct vb_rail){.tp = tp, .index = i, .port = ports[i]};
	tp->nrails = n < 0 ? 0 : n;
	return n < 0 ? n : 0;
}

/* iWARP can't be connected otherwise. */
static int connect_how(struct vb_tp *tp)
{
	bool iwarp = tp->rail[0].port.fabric == VB_IWARP;
	const char *how = tp->env->verbs_cm.text;

	tp->cm_only = !strcmp(how, "rdmacm") || (iwarp && !strcmp(how, "auto"));
	if (tp->cm_only)
		return vb_cm_open(tp);
	/* For peers of other subnets, if there are any: none of them can be known yet. */
	if (!strcmp(how, "auto") && !tp->rail[0].port.routed)
		return vb_cm_try(tp);
	if (iwarp)
		return tt_fail(-EOPNOTSUPP,
			       "verbs: %s/%u is iWARP, which needs rdma_cm; unset "
			       "TUTTI_VERBS_CM=bootstrap",
			       tp->rail[0].port.name, tp->rail[0].port.num);
	return 0;
}

static int vb_open(const struct tt_tp_params *params, struct tt_tp **tpp)
{
	struct vb_tp *tp;
	int err = vb_load_ibverbs(), i;

	if (err)
		return err;
	/* Before anything is registered: a child of fork must not share pages the device writes. */
	err = ibv_fork_init();
	if (err)
		tt_warn("verbs: ibv_fork_init: %s; a fork may break transfers", strerror(err));
	tp = calloc(1, sizeof(*tp));
	if (!tp)
		return tt_fail(-ENOMEM, "verbs: out of memory");
	tp->epoll_fd = tp->port_timer = -1;
	tp->env = params->env;
	err = vb_stash_new(tp);
	if (!err)
		err = choose(params, tp);
	if (!err)
		err = vb_rails_open(tp);
	if (!err)
		err = connect_how(tp);
	if (err) {
		vb_close(&tp->tp);
		return err;
	}
	for (i = 0; i < VB_SPLITS; i++) {
		tp->split[i].next_free = tp->free_split;
		tp->free_split = &tp->split[i];
	}
	tp->nqp = tp->rail[0].port.placed ? (int)params->env->verbs_qps.number : 1;
	set_ops(tp);
	describe(tp);
	tt_info("verbs: %d bytes travel inside a request", tp->inline_max);
	*tpp = &tp->tp;
	return 0;
}

/* On one port, including the driver's allocations. */
static size_t vb_peer_bytes(const struct tt_env *env)
{
	struct vb_qp_size size = {.send = VB_SQ_ALL, .sge = VB_SGE, .inline_bytes = VB_INLINE};

	return sizeof(struct vb_ep) + sizeof(struct vb_blob) +
	       (size_t)env->verbs_qps.number * (sizeof(struct vb_qp) + vb_driver_bytes_here(&size));
}

const struct tt_tp_ops tt_verbs_tp = {
	.name = "verbs",
	.costly = true,
	.present = tt_transport_rdma,
	.query = vb_query,
	.peer_bytes = vb_peer_bytes,
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
