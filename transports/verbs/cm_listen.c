/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Listening by rdma_cm: each rail at an address of its interface, on a port that the system
 * chooses. Both are in the endpoint's address, with a random cookie.
 */
#include "config.h"
#include "transports/verbs/verbs.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define BACKLOG 1024 /* requests that wait to be looked at */

/* ---- addresses ---- */

static bool is_v4(const uint8_t ip[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(ip, mapped, sizeof(mapped));
}

/* As in an endpoint's address: IPv6, or IPv4 mapped to it; false: neither. */
static bool to_ip(const struct sockaddr *sa, uint8_t ip[16])
{
	memset(ip, 0, 16);
	if (sa->sa_family == AF_INET6) {
		memcpy(ip, &((const struct sockaddr_in6 *)sa)->sin6_addr, 16);
		return true;
	}
	ip[10] = ip[11] = 0xff;
	memcpy(ip + 12, &((const struct sockaddr_in *)sa)->sin_addr, 4);
	return sa->sa_family == AF_INET;
}

struct sockaddr_storage vb_cm_sockaddr(const uint8_t ip[16], uint16_t port)
{
	struct sockaddr_storage ss = {0};
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&ss;
	struct sockaddr_in *v4 = (struct sockaddr_in *)&ss;

	if (is_v4(ip)) {
		v4->sin_family = AF_INET;
		v4->sin_port = port;
		memcpy(&v4->sin_addr, ip + 12, 4);
	} else {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = port;
		memcpy(&v6->sin6_addr, ip, 16);
	}
	return ss;
}

/* ---- opening ---- */

/* Bind the rail's id to ip, if that is an address of the rail's port. */
static bool bind_to(struct vb_rail *rail, const uint8_t ip[16])
{
	struct sockaddr_storage ss = vb_cm_sockaddr(ip, 0);
	struct rdma_cm_id *id;

	if (rdma_create_id(rail->tp->cm, &id, rail, RDMA_PS_TCP))
		return false;
	if (rdma_bind_addr(id, (struct sockaddr *)&ss) || !id->verbs ||
	    strcmp(ibv_get_device_name(id->verbs->device), rail->port.name) ||
	    id->port_num != rail->port.num) {
		rdma_destroy_id(id);
		return false;
	}
	memcpy(rail->ip, ip, 16);
	rail->listener = id;
	return true;
}

/* The address that is the port's GID first, then any other of its interface. */
static void find_address(struct vb_rail *rail)
{
	struct ifaddrs *list = NULL, *a;
	uint8_t ip[16];
	int pass;

	if (getifaddrs(&list))
		return;
	for (pass = 0; pass < 2; pass++)
		for (a = list; a && !rail->listener; a = a->ifa_next) {
			if (!a->ifa_addr || a->ifa_flags & IFF_LOOPBACK || !to_ip(a->ifa_addr, ip))
				continue;
			if (ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80)
				continue; /* of one link only, and ambiguous */
			if (!pass == !memcmp(ip, rail->port.gid.raw, 16))
				bind_to(rail, ip);
		}
	freeifaddrs(list);
}

static int listen_on(struct vb_rail *rail)
{
	int err;

	find_address(rail);
	err = rail->listener ? 0 : vb_few_files();
	if (err)
		return tt_fail(err, "verbs: %s/%u: rdma_cm cannot look up the port's address: %s",
			       rail->port.name, rail->port.num, strerror(-err));
	if (!rail->listener)
		return tt_fail(
			-EADDRNOTAVAIL,
			"verbs: %s/%u: rdma_cm needs an IP address on the port: give its interface "
			"one%s",
			rail->port.name, rail->port.num,
			rail->port.fabric == VB_IWARP
				? ""
				: ", or connect with TUTTI_VERBS_CM=bootstrap");
	if (rdma_listen(rail->listener, BACKLOG))
		return tt_fail(-errno, "verbs: %s/%u: rdma_cm cannot listen: %s", rail->port.name,
			       rail->port.num, strerror(errno));
	rail->cm_port = rdma_get_src_port(rail->listener);
	return 0;
}

/* A rail without an address is left out, if another has one. */
static int listen_on_all(struct vb_tp *tp)
{
	int listening = 0, err, i;

	for (i = 0; i < tp->nrails; i++) {
		err = listen_on(&tp->rail[i]);
		listening += !err;
		if (err && err != -EADDRNOTAVAIL)
			return err;
		tp->rail[i].dead = err && tp->cm_only;
		if (err && tp->cm_only && tp->nrails > 1)
			tt_warn("verbs: %s/%u is not used: %s", tp->rail[i].port.name,
				tp->rail[i].port.num, tt_fail_text(err));
	}
	return listening ? 0 : -EADDRNOTAVAIL;
}

int vb_cm_open(struct vb_tp *tp)
{
	int err = vb_load_rdmacm(), few;

	tp->cm_timer = -1;
	if (err)
		return err;
	errno = 0;
	tp->cm = rdma_create_event_channel();
	if (!tp->cm) {
		err = -vb_errno(ENODEV);
		few = vb_few_files();
		if (few)
			return tt_fail(few, "verbs: rdma_cm cannot be used: %s", strerror(-few));
		return tt_fail(err,
			       "verbs: rdma_cm cannot be used: %s (kernel module rdma_ucm; "
			       "/dev/infiniband/rdma_cm must be readable and writable)",
			       strerror(-err));
	}
	tp->cm_timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (tp->cm_timer < 0)
		return tt_fail(-errno, "verbs: timerfd_create: %s", strerror(errno));
	err = vb_watch(tp, tp->cm->fd);
	if (!err)
		err = vb_watch(tp, tp->cm_timer);
	if (err)
		return tt_fail(err, "verbs: cannot watch the descriptors of rdma_cm: %s",
			       strerror(-err));
	return listen_on_all(tp);
}

int vb_cm_try(struct vb_tp *tp)
{
	int err = vb_cm_open(tp);

	if (!err)
		return 0;
	vb_cm_close(tp);
	if (err == -EMFILE || err == -ENFILE || err == -ENOMEM)
		return err;
	snprintf(tp->cm_why, sizeof(tp->cm_why), "%s", tt_fail_text(err));
	tt_info("verbs: peers of other subnets cannot be reached: %s", tp->cm_why);
	return 0;
}

void vb_cm_close(struct vb_tp *tp)
{
	int i;

	if (!tp->cm)
		return;
	for (i = 0; i < tp->nrails; i++) {
		if (tp->rail[i].listener)
			rdma_destroy_id(tp->rail[i].listener);
		tp->rail[i].listener = NULL;
		tp->rail[i].cm_port = 0;
	}
	rdma_destroy_event_channel(tp->cm);
	tp->cm = NULL;
	if (tp->cm_timer >= 0)
		close(tp->cm_timer);
}
