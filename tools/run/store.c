/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The socket on which rank 0 collects the ranks. It is bound, to one address only, before any rank
 * starts, and inherited by rank 0, so no port is chosen twice.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/run/run.h"

struct addr {
	struct sockaddr_storage ss;
	socklen_t len;
};

static socklen_t addr_len(const struct sockaddr *sa)
{
	return sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static void set_port(struct addr *a, int port)
{
	if (a->ss.ss_family == AF_INET6)
		((struct sockaddr_in6 *)&a->ss)->sin6_port = htons((uint16_t)port);
	else
		((struct sockaddr_in *)&a->ss)->sin_port = htons((uint16_t)port);
}

static bool resolve(const char *name, int flags, struct addr *a)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags}, *res;

	if (getaddrinfo(name, NULL, &hints, &res))
		return false;
	a->len = (socklen_t)res->ai_addrlen;
	memcpy(&a->ss, res->ai_addr, res->ai_addrlen);
	freeaddrinfo(res);
	return true;
}

/* Our address towards a peer: the source that the kernel chooses. Nothing is sent. */
static bool towards(const char *peer, struct addr *a)
{
	int fd, saved;
	bool ok;

	if (!resolve(peer, 0, a))
		return false;
	fd = socket(a->ss.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	set_port(a, 9);
	ok = !connect(fd, (struct sockaddr *)&a->ss, a->len);
	a->len = sizeof(a->ss);
	ok = ok && !getsockname(fd, (struct sockaddr *)&a->ss, &a->len);
	saved = errno;
	close(fd);
	errno = saved;
	return ok;
}

/* The address of an interface: by name, or (NULL) of the first that is up and not loopback. */
static bool of_interface(const char *name, struct addr *a)
{
	struct ifaddrs *list, *i;
	bool found = false;

	if (getifaddrs(&list))
		return false;
	for (i = list; i && !found; i = i->ifa_next) {
		if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || !(i->ifa_flags & IFF_UP))
			continue;
		if (name ? strcmp(name, i->ifa_name) != 0 : (i->ifa_flags & IFF_LOOPBACK) != 0)
			continue;
		a->len = addr_len(i->ifa_addr);
		memcpy(&a->ss, i->ifa_addr, a->len);
		found = true;
	}
	freeifaddrs(list);
	return found;
}

/* Listen on a, port chosen by the kernel. */
static int listen_on(struct addr *a, char *text, size_t size)
{
	char host[64], port[8];
	int fd = socket(a->ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	set_port(a, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a->ss, a->len) || listen(fd, SOMAXCONN))
		goto close_fd;
	a->len = sizeof(a->ss);
	if (getsockname(fd, (struct sockaddr *)&a->ss, &a->len) ||
	    getnameinfo((struct sockaddr *)&a->ss, a->len, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV))
		goto close_fd;
	snprintf(text, size, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
	return fd;
close_fd:
	if (fd >= 0)
		close(fd);
	return -1;
}

static int listen_as_told(const char *what, char *text, size_t size)
{
	struct addr a;
	int fd = -1;

	if (of_interface(what, &a) || resolve(what, AI_NUMERICHOST, &a))
		fd = listen_on(&a, text, size);
	if (fd < 0)
		fail("TUTTI_IF=%s is neither an interface that is up nor an address of this host",
		     what);
	return fd;
}

int store_listen(char **peers, char **own, char *text, size_t size)
{
	const char *told = getenv("TUTTI_IF");
	struct addr a;
	int fd = -1;

	if ((!peers || !*peers) && !towards("127.0.0.1", &a) && errno == ENETUNREACH)
		return fail("127.0.0.1 cannot be reached: the loopback interface of this network "
			    "namespace is down; run 'ip link set lo up' there");
	if (!peers || !*peers)
		fd = resolve("127.0.0.1", AI_NUMERICHOST, &a) ? listen_on(&a, text, size) : -1;
	else if (told && *told)
		return listen_as_told(told, text, size);
	for (; fd < 0 && peers && *peers; peers++)
		if (towards(*peers, &a))
			fd = listen_on(&a, text, size);
	for (; fd < 0 && own && *own; own++)
		if (resolve(*own, AI_NUMERICHOST, &a))
			fd = listen_on(&a, text, size);
	if (fd < 0 && of_interface(NULL, &a))
		fd = listen_on(&a, text, size);
	if (fd < 0 && resolve("127.0.0.1", AI_NUMERICHOST, &a))
		fd = listen_on(&a, text, size);
	if (fd < 0)
		fail("cannot listen on any address of this host: %s", strerror(errno));
	return fd;
}
