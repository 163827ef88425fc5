/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses: parsing, resolving, choosing the local one, listening.
 *
 * The kernel's routes determine which of its addresses a process publishes: a UDP socket connected
 * to the peer sends nothing, but gets the source address that packets to the peer would carry.
 */
#include "lib/boot/rendezvous/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/number.h"
#include "lib/boot/boot.h"

#define BIND_RETRY_MS 3000

/* As tt_addr_text, without the port. */
static void host_text(const struct sockaddr *sa, char *text, size_t size)
{
	socklen_t len = sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
						  : sizeof(struct sockaddr_in);

	if (getnameinfo(sa, len, text, (socklen_t)size, NULL, 0, NI_NUMERICHOST))
		text[0] = 0;
}

void tt_addr_text(const struct sockaddr *sa, char *text, size_t size)
{
	char host[INET6_ADDRSTRLEN + 20];

	host_text(sa, host, sizeof(host));
	if (!host[0])
		text[0] = 0;
	else if (sa->sa_family == AF_INET6)
		snprintf(text, size, "[%s]:%d", host, tt_addr_port(sa));
	else
		snprintf(text, size, "%s:%d", host, tt_addr_port(sa));
}

int tt_addr_port(const struct sockaddr *sa)
{
	return ntohs(sa->sa_family == AF_INET6 ? ((const struct sockaddr_in6 *)sa)->sin6_port
					       : ((const struct sockaddr_in *)sa)->sin_port);
}

void tt_addr_set_port(struct tt_addr *addr, int port)
{
	if (addr->sa.ss_family == AF_INET6)
		((struct sockaddr_in6 *)&addr->sa)->sin6_port = htons((uint16_t)port);
	else
		((struct sockaddr_in *)&addr->sa)->sin_port = htons((uint16_t)port);
}

bool tt_addr_is_loopback(const struct sockaddr *sa)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)sa;

	if (sa->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)sa)->sin_addr.s_addr) >> 24 == 127;
	return sa->sa_family == AF_INET6 &&
	       (IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr) ||
		(IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr) && in6->sin6_addr.s6_addr[12] == 127));
}

int tt_addr_numeric(const char *host, int port, struct tt_addr *addr)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *res;

	if (getaddrinfo(host, NULL, &hints, &res))
		return -EINVAL;
	memset(addr, 0, sizeof(*addr));
	memcpy(&addr->sa, res->ai_addr, res->ai_addrlen);
	addr->len = res->ai_addrlen;
	freeaddrinfo(res);
	tt_addr_set_port(addr, port);
	return 0;
}

int tt_addr_split(const char *text, char *host, size_t size, int *port)
{
	const char *colon = strrchr(text, ':'), *from = text, *end;
	uint64_t value;
	size_t len;

	if (!colon || colon == text)
		return -EINVAL;
	len = (size_t)(colon - text);
	if (text[0] == '[' && len > 2 && colon[-1] == ']') {
		from++;
		len -= 2;
	} else if (memchr(text, ':', len)) {
		return -EINVAL; /* IPv6 needs its brackets */
	}
	end = tt_number_digits(colon + 1, &value);
	if (!end || *end || value > 65535 || len >= size)
		return -EINVAL;
	memcpy(host, from, len);
	host[len] = 0;
	*port = (int)value;
	return 0;
}

static int resolve_code(int gai, int err)
{
	if (gai == EAI_MEMORY || (gai == EAI_SYSTEM && tt_is_shortage(-err)))
		return gai == EAI_MEMORY ? -ENOMEM : -err;
	return gai == EAI_AGAIN ? -EAGAIN : -TUTTI_EBOOT;
}

int tt_addr_resolve(const char *store, struct tt_addr *addrs, int *n)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *res, *ai;
	char host[128];
	int port, gai, i;

	if (tt_addr_split(store, host, sizeof(host), &port))
		return tt_fail(-TUTTI_EBOOT, "the address of rank 0, '%s', is not HOST:PORT",
			       store);
	gai = getaddrinfo(host, NULL, &hints, &res);
	if (gai && !strcasecmp(host, "localhost")) /* minimal systems have no /etc/hosts */
		gai = getaddrinfo("127.0.0.1", NULL, &hints, &res);
	if (gai)
		return tt_fail(resolve_code(gai, errno),
			       "the host of rank 0 in '%s' can't be resolved: %s", store,
			       gai == EAI_SYSTEM ? strerror(errno) : gai_strerror(gai));
	for (i = 0, ai = res; ai && i < TT_ADDR_MAX; ai = ai->ai_next) {
		if (ai->ai_family != AF_INET && ai->ai_family != AF_INET6)
			continue;
		memset(&addrs[i], 0, sizeof(addrs[i]));
		memcpy(&addrs[i].sa, ai->ai_addr, ai->ai_addrlen);
		addrs[i].len = ai->ai_addrlen;
		tt_addr_set_port(&addrs[i++], port);
	}
	freeaddrinfo(res);
	*n = i;
	return i ? 0 : tt_fail(-TUTTI_EBOOT, "'%s' has neither an IPv4 nor an IPv6 address", store);
}

static int route_to(const struct sockaddr *target, socklen_t len, struct tt_addr *addr)
{
	int fd = socket(target->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = 0;
	socklen_t got = sizeof(addr->sa);

	if (fd < 0)
		return -errno;
	memset(addr, 0, sizeof(*addr));
	if (connect(fd, target, len) || getsockname(fd, (struct sockaddr *)&addr->sa, &got))
		err = -errno;
	close(fd);
	addr->len = got;
	if (!err)
		tt_addr_set_port(addr, 0);
	return err;
}

static bool link_local(const struct sockaddr *sa)
{
	return sa->sa_family == AF_INET6 &&
	       IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)sa)->sin6_addr);
}

static bool same_host(const struct sockaddr *a, const struct sockaddr *b)
{
	char x[64], y[64];

	host_text(a, x, sizeof(x));
	host_text(b, y, sizeof(y));
	return !strcmp(x, y);
}

static void set_addr(struct tt_addr *addr, const struct sockaddr *sa)
{
	memset(addr, 0, sizeof(*addr));
	addr->len = sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					      : sizeof(struct sockaddr_in);
	memcpy(&addr->sa, sa, addr->len);
	tt_addr_set_port(addr, 0);
}

/* The address of TUTTI_IF; of an interface with several, one of the wanted family. */
static int addr_of_iface(const char *iface, int family, struct tt_addr *addr)
{
	struct tt_addr numeric;
	bool is_numeric = !tt_addr_numeric(iface, 0, &numeric), found = false;
	struct ifaddrs *list, *i;
	char names[200] = "";

	if (getifaddrs(&list))
		return tt_fail(-errno, "the network interfaces can't be listed: %s",
			       strerror(errno));
	for (i = list; i; i = i->ifa_next) {
		const struct sockaddr *sa = i->ifa_addr;

		if (!sa || (sa->sa_family != AF_INET && sa->sa_family != AF_INET6))
			continue;
		if (!strstr(names, i->ifa_name) &&
		    strlen(names) + strlen(i->ifa_name) + 3 < sizeof(names))
			snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s",
				 names[0] ? ", " : "", i->ifa_name);
		if (is_numeric ? !same_host(sa, (struct sockaddr *)&numeric.sa)
			       : strcmp(i->ifa_name, iface) || link_local(sa))
			continue;
		if (found && sa->sa_family != family)
			continue;
		if (found && addr->sa.ss_family == family)
			continue;
		set_addr(addr, sa);
		found = true;
	}
	freeifaddrs(list);
	return found ? 0
		     : tt_fail(-EINVAL,
			       "TUTTI_IF=%s: this host has no such interface or address with an "
			       "IP address; its interfaces are %s",
			       iface, names);
}

/* No peer is known yet: the default route's address, else any interface's, else loopback. */
static int addr_to_world(struct tt_addr *addr)
{
	static const char *const probes[] = {"198.51.100.1",
					     "2001:db8::1"}; /* a documentation address */
	struct ifaddrs *list, *i;
	struct tt_addr probe;
	bool found = false;
	int p;

	for (p = 0; p < 2; p++)
		if (!tt_addr_numeric(probes[p], 9, &probe) &&
		    !route_to((struct sockaddr *)&probe.sa, probe.len, addr) &&
		    !tt_addr_is_loopback((struct sockaddr *)&addr->sa))
			return 0;
	if (!getifaddrs(&list)) {
		for (i = list; i && !found; i = i->ifa_next) {
			const struct sockaddr *sa = i->ifa_addr;

			found = sa && (sa->sa_family == AF_INET || sa->sa_family == AF_INET6) &&
				(i->ifa_flags & IFF_UP) && !tt_addr_is_loopback(sa) &&
				!link_local(sa);
			if (found)
				set_addr(addr, sa);
		}
		freeifaddrs(list);
	}
	return found ? 0 : tt_addr_numeric("127.0.0.1", 0, addr);
}

int tt_addr_local(const char *iface, const struct sockaddr *target, struct tt_addr *addr)
{
	char text[64];
	int err;

	if (iface && iface[0])
		return addr_of_iface(iface, target ? target->sa_family : AF_INET, addr);
	if (!target)
		return addr_to_world(addr);
	if (tt_addr_is_loopback(target)) {
		set_addr(addr, target);
		return 0;
	}
	err = route_to(target,
		       target->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
						     : sizeof(struct sockaddr_in),
		       addr);
	if (!err)
		return 0;
	tt_addr_text(target, text, sizeof(text));
	if (tt_is_shortage(err))
		return tt_fail(err, "cannot find a route to rank 0 at %s: %s", text,
			       strerror(-err));
	return tt_fail(-TUTTI_EBOOT,
		       "no network interface of this host reaches rank 0 at %s: %s; set "
		       "TUTTI_IF or correct the address",
		       text, strerror(-err));
}

/* In a new network namespace the loopback interface is down: binding works, connecting does not. */
static int check_loopback(const struct tt_addr *addr)
{
	const struct sockaddr *sa = (const struct sockaddr *)&addr->sa;
	struct tt_addr probe = *addr, found;
	char text[64];

	if (!tt_addr_is_loopback(sa))
		return 0;
	tt_addr_set_port(&probe, 9);
	if (route_to((struct sockaddr *)&probe.sa, probe.len, &found) != -ENETUNREACH)
		return 0;
	host_text(sa, text, sizeof(text));
	return tt_fail(
		-TUTTI_EBOOT,
		"%s cannot be reached: the loopback interface of this network namespace is down; "
		"run 'ip link set lo up' there",
		text);
}

int tt_addr_listen(struct tt_addr *addr, int *fd)
{
	uint64_t deadline = tt_deadline_ms(BIND_RETRY_MS);
	struct sockaddr *sa = (struct sockaddr *)&addr->sa;
	int s = socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1, err;
	char text[64];

	if (s < 0)
		return tt_fail(-errno, "no socket to listen on: %s", strerror(errno));
	err = check_loopback(addr);
	if (err) {
		close(s);
		return err;
	}
	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	/* A connecting rank may hold this very port for a moment as its local port. */
	while ((err = bind(s, sa, addr->len) ? -errno : 0) == -EADDRINUSE && tt_addr_port(sa) &&
	       !tt_passed(deadline))
		usleep(50000);
	if (!err && listen(s, SOMAXCONN))
		err = -errno;
	if (!err && getsockname(s, sa, &addr->len))
		err = -errno;
	if (!err) {
		*fd = s;
		return 0;
	}
	close(s);
	tt_addr_text(sa, text, sizeof(text));
	return tt_fail(-TUTTI_EBOOT, "can't listen on %s: %s%s", text, strerror(-err),
		       err == -EADDRNOTAVAIL
			       ? " (is this the host that the address of rank 0 names?)"
			       : "");
}

int tt_boot_own_addr(const struct tt_boot_params *params, struct tt_addr *addr)
{
	if (params->one_host && !params->iface[0])
		return tt_addr_numeric("127.0.0.1", 0, addr);
	return tt_addr_local(params->iface, NULL, addr);
}

static int local_addr(const struct tt_boot_params *params, struct tt_addr *addr)
{
	uint64_t deadline = tt_deadline_ms(params->init_timeout);
	struct tt_addr store[TT_ADDR_MAX];
	int n, err;

	if (!params->store[0])
		return tt_boot_own_addr(params, addr);
	while ((err = tt_addr_resolve(params->store, store, &n)) == -EAGAIN && !tt_passed(deadline))
		usleep(200000);
	if (err)
		return err == -EAGAIN ? -TUTTI_EBOOT : err;
	return tt_addr_local(params->iface, (struct sockaddr *)&store[0].sa, addr);
}

int tt_boot_local_addr(const struct tt_boot_params *params, char *addr, size_t size)
{
	struct tt_addr local;
	int err;

	if (params->nranks <= 1 && !params->store[0] && !params->iface[0])
		err = tt_addr_numeric("127.0.0.1", 0, &local);
	else
		err = local_addr(params, &local);
	if (err)
		return err;
	host_text((struct sockaddr *)&local.sa, addr, size);
	return 0;
}
