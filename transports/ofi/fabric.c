/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds a suitable provider; opens and closes fabric and domain. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "transports/ofi/ofi.h"

static bool is_rdm(const struct tt_env *env)
{
	return !strcmp(env->ofi_ep.text, "rdm");
}

/* The provider to ask libfabric for: rdm over a connected provider means its ofi_rxm layer. */
static char *provider_name(const struct tt_env *env)
{
	const char *prov = env->ofi_provider.text;
	bool layer = is_rdm(env) && (!strcmp(prov, "tcp") || !strcmp(prov, "verbs"));
	char *name = malloc(strlen(prov) + 9);

	if (name)
		sprintf(name, "%s%s", prov, layer ? ";ofi_rxm" : "");
	return name;
}

static struct fi_info *make_hints(const struct tt_env *env, uint64_t more_caps, int more_modes)
{
	struct fi_info *h = fi_allocinfo();

	if (!h)
		return NULL;
	h->caps = FI_MSG | FI_RMA | more_caps;
	h->mode = FI_CONTEXT | FI_CONTEXT2 | FI_RX_CQ_DATA;
	h->ep_attr->type = is_rdm(env) ? FI_EP_RDM : FI_EP_MSG;
	h->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR | more_modes;
	h->domain_attr->threading = FI_THREAD_DOMAIN;
	if (is_rdm(env))
		h->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
	h->fabric_attr->prov_name = provider_name(env);
	return h;
}

/* All that the chosen provider offers on addr (NULL: anywhere); atomics only if it has them. */
int ofi_find(const struct tt_env *env, const char *addr, struct fi_info **infos)
{
	static const uint64_t more[] = {FI_ATOMIC, 0};
	struct fi_info *hints;
	int rc = -FI_ENODATA;
	unsigned i;

	ofi_start();
	for (i = 0; i < 2 && rc; i++) {
		hints = make_hints(env, more[i], 0);
		if (!hints)
			return -FI_ENOMEM;
		rc = fi_getinfo(OFI_API, addr, NULL, addr ? FI_SOURCE : 0, hints, infos);
		/* A provider whose addresses are not IP's does not know this one. */
		if (rc && addr)
			rc = fi_getinfo(OFI_API, NULL, NULL, 0, hints, infos);
		fi_freeinfo(hints);
	}
	return rc;
}

int ofi_why_none(const struct tt_env *env, int rc, char *why, size_t size)
{
	struct fi_info *hints = make_hints(env, 0, FI_MR_ENDPOINT | FI_MR_RMA_EVENT), *infos = NULL;

	if (hints && !fi_getinfo(OFI_API, NULL, NULL, 0, hints, &infos) &&
	    ofi_lacks(infos, why, size))
		rc = 0;
	if (infos)
		fi_freeinfo(infos);
	if (hints)
		fi_freeinfo(hints);
	return rc ? snprintf(why, size, "%s", fi_strerror(-rc)) : 0;
}

/* The numeric address of info, 0; or a negative code if it is of another kind. */
int ofi_addr_text(const struct fi_info *info, char *text, size_t size)
{
	const struct sockaddr *sa = info->src_addr;
	const void *ip;

	if (!sa || (info->addr_format != FI_SOCKADDR && info->addr_format != FI_SOCKADDR_IN &&
		    info->addr_format != FI_SOCKADDR_IN6))
		return -EAFNOSUPPORT;
	ip = sa->sa_family == AF_INET6 ? (const void *)&((const struct sockaddr_in6 *)sa)->sin6_addr
				       : &((const struct sockaddr_in *)sa)->sin_addr;
	return inet_ntop(sa->sa_family, ip, text, (socklen_t)size) ? 0 : -EAFNOSUPPORT;
}

/* Does info bind addr and nothing else? Devices without IP addresses always suit. */
bool ofi_has_addr(const struct fi_info *info, const char *addr)
{
	char text[INET6_ADDRSTRLEN];
	struct in6_addr a, b;

	if (ofi_addr_text(info, text, sizeof(text)))
		return info->addr_format != FI_SOCKADDR && info->addr_format != FI_SOCKADDR_IN &&
		       info->addr_format != FI_SOCKADDR_IN6;
	if (inet_pton(AF_INET6, text, &a) == 1 && inet_pton(AF_INET6, addr, &b) == 1)
		return !memcmp(&a, &b, sizeof(a));
	return !strcmp(text, addr);
}

static int choose(struct ofi_tp *tp, const struct tt_tp_params *params)
{
	const struct tt_env *env = params->env;
	struct fi_info *infos, *i;
	char why[160];
	int rc;

	if (ofi_refuse(env, why, sizeof(why)))
		return tt_fail(-TUTTI_ETRANSPORT, "TUTTI_OFI_PROVIDER=%s is refused: %s",
			       env->ofi_provider.text, why);
	rc = ofi_find(env, params->local_addr, &infos);
	if (rc) {
		ofi_why_none(env, rc, why, sizeof(why));
		return tt_fail(
			-TUTTI_ETRANSPORT,
			"libfabric has no usable provider %s with %s endpoints here: %s; see "
			"tutti_info, set TUTTI_OFI_PROVIDER or TUTTI_OFI_EP",
			env->ofi_provider.text, env->ofi_ep.text, why);
	}
	for (i = infos; i && !ofi_has_addr(i, params->local_addr); i = i->next)
		;
	tp->info = i ? fi_dupinfo(i) : NULL;
	fi_freeinfo(infos);
	if (!tp->info)
		return tt_fail(-TUTTI_ETRANSPORT, "libfabric provider %s does not serve address %s",
			       env->ofi_provider.text, params->local_addr);
	if (ofi_lacks(tp->info, why, sizeof(why)))
		return tt_fail(-TUTTI_ETRANSPORT, "libfabric provider %s cannot be used: %s",
			       tp->info->fabric_attr->prov_name, why);
	return 0;
}

static void read_attributes(struct ofi_tp *tp, const struct tt_tp_params *params)
{
	const struct fi_info *info = tp->info;
	bool rdm = info->ep_attr->type == FI_EP_RDM;
	int mr_mode = info->domain_attr->mr_mode;
	uint64_t seed = 0;

	tp->virt_addr = mr_mode & FI_MR_VIRT_ADDR;
	tp->prov_key = mr_mode & FI_MR_PROV_KEY;
	tp->local_mr = mr_mode & FI_MR_LOCAL;
	tp->rx_cq_data = (info->mode | info->rx_attr->mode) & FI_RX_CQ_DATA;
	tp->inject = info->tx_attr->inject_size;
	tp->recvs = rdm || tp->rx_cq_data ? OFI_RECVS_NOTES : OFI_RECVS;
	if (info->rx_attr->size && info->rx_attr->size < (size_t)tp->recvs)
		tp->recvs = (int)info->rx_attr->size;
	/* Keys of our choice start anywhere, so that one of an earlier run is not valid again. */
	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		seed = params->cookie[0];
	tp->next_key = 1 + (seed >> (info->domain_attr->mr_key_size >= 8 ? 2 : 48));
	if (info->ep_attr->max_msg_size < SIZE_MAX / 2)
		tp->base.max_put = info->ep_attr->max_msg_size;
	tp->base.caps = TT_CAP_REG_ANY;
	if (!tp->local_mr)
		tp->base.caps |= TT_CAP_LOCAL_ANY;
	if (info->tx_attr->iov_limit >= 2)
		tp->base.caps |= TT_CAP_GET_HEAD;
	if (!strncmp(info->fabric_attr->prov_name, "tcp", 3) ||
	    !strncmp(info->fabric_attr->prov_name, "net", 3) ||
	    !strncmp(info->fabric_attr->prov_name, "udp", 3))
		tp->base.caps |= TT_CAP_SLOW_POLL;
	if (ofi_moves_alone(info))
		tp->base.caps |= TT_CAP_AUTO_PROGRESS;
	if (rdm)
		tp->base.caps |= TT_CAP_LATE_WRITES;
	snprintf(tp->base.detail, sizeof(tp->base.detail), "ofi, %s (%s) over %s",
		 info->fabric_attr->prov_name, rdm ? "rdm" : "msg", params->local_addr);
}

static bool has_atomics(struct ofi_tp *tp)
{
	struct fi_atomic_attr attr = {0};

	if (!(tp->info->caps & FI_ATOMIC))
		return false;
	/*
	 * Provider verbs takes the operand's address for its value (seen with 1.17 on soft-RoCE).
	 */
	if (!strncmp(tp->info->fabric_attr->prov_name, "verbs", 5))
		return false;
	return !fi_query_atomic(tp->domain, FI_UINT64, FI_SUM, &attr, FI_FETCH_ATOMIC) &&
	       !fi_query_atomic(tp->domain, FI_UINT64, FI_CSWAP, &attr, FI_COMPARE_ATOMIC);
}

static int open_cq(struct ofi_tp *tp)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_FD};
	int rc;

	/* If notes consume receives, the hardware's queue must hold all of them. */
	attr.size = tp->rx_cq_data ? 16384 : 2048;
	rc = fi_cq_open(tp->domain, &attr, &tp->cq, NULL);
	if (rc) {
		attr.wait_obj = FI_WAIT_NONE;
		tp->timer = true;
		rc = fi_cq_open(tp->domain, &attr, &tp->cq, NULL);
	}
	if (rc)
		return tt_fail(-TUTTI_ETRANSPORT, "libfabric cannot open a completion queue: %s",
			       fi_strerror(-rc));
	return 0;
}

/* One descriptor for both queues; a timer where the provider has none to offer. */
static int open_arm_fd(struct ofi_tp *tp)
{
	struct fid *fids[] = {&tp->cq->fid, tp->eq ? &tp->eq->fid : NULL};
	struct epoll_event ev = {.events = EPOLLIN};
	int i, fd;

	tp->arm_fd = tp->timer ? timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)
			       : epoll_create1(EPOLL_CLOEXEC);
	if (tp->arm_fd < 0)
		return tt_fail(-errno, "no file descriptor to sleep on: %s", strerror(errno));
	for (i = 0; i < 2 && fids[i] && !tp->timer; i++) {
		if (fi_control(fids[i], FI_GETWAIT, &fd))
			return tt_fail(-TUTTI_ETRANSPORT,
				       "libfabric has no descriptor to sleep on");
		if (epoll_ctl(tp->arm_fd, EPOLL_CTL_ADD, fd, &ev))
			return tt_fail(-errno, "epoll_ctl: %s", strerror(errno));
	}
	return 0;
}

static int open_domain(struct ofi_tp *tp)
{
	int rc = fi_fabric(tp->info->fabric_attr, &tp->fabric, NULL);

	if (!rc)
		rc = fi_domain(tp->fabric, tp->info, &tp->domain, NULL);
	return rc ? tt_fail(-TUTTI_ETRANSPORT, "libfabric cannot open %s: %s",
			    tp->info->fabric_attr->prov_name, fi_strerror(-rc))
		  : 0;
}

/*
 * Connectionless providers do not survive being closed after a peer has died: rxm crashes now and
 * then in fi_close. Then everything stays as it is until the process ends, reachable from here.
 */
static bool abandon(struct ofi_tp *tp)
{
	static _Atomic(struct ofi_tp *) abandoned;

	if (!tp->rdm || !tp->base.peer_lost)
		return false;
	tp->abandoned = atomic_load(&abandoned);
	while (!atomic_compare_exchange_weak(&abandoned, &tp->abandoned, tp))
		;
	return true;
}

static void ofi_close(struct tt_tp *base)
{
	struct ofi_tp *tp = ofi_tp(base);
	int kept;

	if (abandon(tp))
		return;
	kept = ofi_msg_keep_place(tp);
	while (!tt_list_empty(&tp->eps)) /* rdm: closed ones whose operations never ended */
		ofi_ep_free(tt_container(tp->eps.next, struct ofi_ep, link));
	ofi_msg_close(tp);
	ofi_rdm_close(tp);
	while (!tt_list_empty(&tp->spare))
		ofi_ep_free(tt_container(tp->spare.next, struct ofi_ep, link));
	while (!tt_list_empty(&tp->lost))
		ofi_ep_free(tt_container(tp->lost.next, struct ofi_ep, link));
	if (tp->bell_mr)
		ofi_dereg(tp->bell_mr);
	if (tp->arm_fd >= 0)
		close(tp->arm_fd);
	if (tp->cq)
		fi_close(&tp->cq->fid);
	if (tp->domain)
		fi_close(&tp->domain->fid);
	if (tp->fabric)
		fi_close(&tp->fabric->fid);
	ofi_msg_close_forgotten(tp, kept);
	if (tp->info)
		fi_freeinfo(tp->info);
	free(tp->queue);
	free(tp);
}

static int ofi_open(const struct tt_tp_params *params, struct tt_tp **out)
{
	struct tt_mem bell = {.len = sizeof(uint64_t), .memfd = -1};
	struct ofi_tp *tp;
	int rc = ofi_load();

	if (rc)
		return rc;
	tp = calloc(1, sizeof(*tp));
	if (!tp)
		return tt_fail(-ENOMEM, "ofi: out of memory");
	tp->arm_fd = -1;
	tp->limit_ns = (uint64_t)params->env->heartbeat_limit.number * TT_MS;
	tt_list_init(&tp->eps);
	tt_list_init(&tp->spare);
	tt_list_init(&tp->lost);
	rc = choose(tp, params);
	if (rc)
		goto close_tp;
	read_attributes(tp, params);
	rc = open_domain(tp);
	if (!rc)
		rc = open_cq(tp);
	if (!rc)
		rc = tp->info->ep_attr->type == FI_EP_RDM ? ofi_rdm_open(tp) : ofi_msg_open(tp);
	if (!rc)
		rc = open_arm_fd(tp);
	if (tp->timer)
		tp->base.caps |= TT_CAP_TIMED_WAKE;
	bell.addr = &tp->bell;
	if (!rc)
		rc = ofi_reg(&tp->base, &bell, TT_ACCESS_WRITE, &tp->bell_mr);
	if (rc)
		goto close_tp;
	if (has_atomics(tp))
		tp->base.caps |= TT_CAP_AMO;
	tt_ep_ops_fill(&ofi_ep_ops);
	tp->base.ops = &tt_ofi_tp;
	*out = &tp->base;
	return 0;
close_tp:
	ofi_close(&tp->base);
	return rc;
}

/* Of connected endpoints; the receives are those of providers that need none for notes. */
static size_t ofi_peer_bytes(const struct tt_env *env)
{
	size_t ops = OFI_SENDS + (is_rdm(env) ? 0 : OFI_RECVS);

	return sizeof(struct ofi_ep) + ops * (sizeof(struct ofi_op) + OFI_BUF);
}

static int ofi_library(const char **name, unsigned *major, unsigned *minor)
{
	int err = ofi_load();

	if (err)
		return err;
	*name = "libfabric";
	*major = FI_MAJOR(fi_version());
	*minor = FI_MINOR(fi_version());
	return 0;
}

const struct tt_tp_ops tt_ofi_tp = {
	.name = "ofi",
	.costly = true, /* a library that libfabric is linked with sleeps 200 ms when loaded */
	.library = ofi_library,
	.query = ofi_query,
	.peer_bytes = ofi_peer_bytes,
	.open = ofi_open,
	.close = ofi_close,
	.reg = ofi_reg,
	.dereg = ofi_dereg,
	.ep_open = ofi_ep_open,
	.ep_connect = ofi_ep_connect,
	.ep_close = ofi_ep_close,
	.poll = ofi_poll,
	.arm = ofi_arm,
};
