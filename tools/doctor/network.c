/* SPDX-License-Identifier: BSD-3-Clause */
/* Names, interfaces and addresses of this node. */
#include "tools/doctor/doctor.h"

#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/boot/rendezvous/address.h"

#define MTU_LITTLE 1280
#define MTU_ETHERNET 1500
#define FAST_MBIT 10000

/* The address of sa as a number, without its port. */
static bool number_of(const struct sockaddr *sa, char *text, size_t size)
{
	socklen_t len =
		sa->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);

	return (sa->sa_family == AF_INET || sa->sa_family == AF_INET6) &&
	       !getnameinfo(sa, len, text, (socklen_t)size, NULL, 0, NI_NUMERICHOST);
}

static int read_number(const char *interface, const char *file)
{
	char path[128], line[32];

	snprintf(path, sizeof(path), "/sys/class/net/%s/%s", interface, file);
	return read_line_of(path, line, sizeof(line)) ? atoi(line) : -1;
}

/* By ioctl, as /sys shows the interfaces of the namespace that it was mounted in. */
static int mtu_of(const char *interface)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq r = {0};

	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", interface);
	if (fd < 0)
		return -1;
	if (ioctl(fd, SIOCGIFMTU, &r))
		r.ifr_mtu = -1;
	close(fd);
	return r.ifr_mtu;
}

static void find_interface(struct node *node)
{
	struct ifaddrs *all, *a;
	char text[64];

	if (getifaddrs(&all))
		return;
	for (a = all; a; a = a->ifa_next)
		if (a->ifa_addr && number_of(a->ifa_addr, text, sizeof(text)) &&
		    !strcmp(text, node->address)) {
			snprintf(node->interface, sizeof(node->interface), "%s", a->ifa_name);
			break;
		}
	freeifaddrs(all);
}

int find_node(struct node *node)
{
	const char *wish = getenv("TUTTI_IF");
	struct tt_addr addr;
	int err = tt_addr_local(wish ? wish : "", NULL, &addr);

	if (err || !number_of((struct sockaddr *)&addr.sa, node->address, sizeof(node->address)))
		return err ? err : -EAFNOSUPPORT;
	find_interface(node);
	node->mtu = mtu_of(node->interface);
	return 0;
}

static void check_interface(struct findings *f)
{
	struct node node = {0};
	int speed, err = find_node(&node);

	if (err) {
		found(f, "interface", LEVEL_FAIL, "no job starts", "ip link; TUTTI_IF=NAME", "%s",
		      tt_fail_text(err));
		return;
	}
	if (!strcmp(node.interface, "lo")) {
		found(f, "interface", LEVEL_WARN, "jobs of this node only",
		      "ip link set NAME up; ip addr add ADDRESS/24 dev NAME",
		      "no interface but loopback has an address");
		return;
	}
	speed = read_number(node.interface, "speed");
	if (speed > 0)
		found_ok(f, "interface", "%s, %s, %d Mbit/s, starts jobs and carries TCP",
			 node.interface, node.address, speed);
	else
		found_ok(f, "interface", "%s, %s, starts jobs and carries TCP", node.interface,
			 node.address);
	if (node.mtu >= 0 && node.mtu < MTU_LITTLE)
		found(f, "mtu", LEVEL_FAIL,
		      "TCP sends packets far too small: a fraction of the rate",
		      "ip link set dev NAME mtu 1500", "%s has an MTU of %d bytes", node.interface,
		      node.mtu);
	else if (node.mtu <= MTU_ETHERNET && speed >= FAST_MBIT)
		found(f, "mtu", LEVEL_WARN, "TCP takes more CPU time for each byte",
		      "ip link set dev NAME mtu 9000, on all nodes and switches",
		      "%s has an MTU of %d bytes at %d Mbit/s", node.interface, node.mtu, speed);
	else
		found_ok(f, "mtu", "%s has an MTU of %d bytes", node.interface, node.mtu);
}

static void check_name(struct findings *f)
{
	struct addrinfo *found_at = NULL, hints = {.ai_socktype = SOCK_STREAM};
	char name[HOST_NAME_MAX + 1] = "", text[64] = "";
	int err;

	gethostname(name, sizeof(name) - 1);
	err = getaddrinfo(name, NULL, &hints, &found_at);
	if (err || !number_of(found_at->ai_addr, text, sizeof(text)))
		found(f, "name", LEVEL_WARN,
		      "programs that look up their own host wait or fail; MPI and torchrun do",
		      "echo \"ADDRESS $(hostname)\" >>/etc/hosts",
		      "the name of this host, %s, has no address: %s", name, gai_strerror(err));
	else
		found_ok(f, "name", "%s is %s", name, text);
	if (found_at)
		freeaddrinfo(found_at);
}

static void check_loopback(struct findings *f)
{
	struct tt_addr addr;
	int fd, err = tt_addr_numeric("127.0.0.1", 0, &addr);

	if (!err)
		err = tt_addr_listen(&addr, &fd);
	if (err) {
		found(f, "loopback", LEVEL_FAIL, "no job starts on this node", "ip link set lo up",
		      "%s", tt_fail_text(err));
		return;
	}
	close(fd);
	found_ok(f, "loopback", "works");
}

void check_network(struct findings *f)
{
	check_loopback(f);
	check_interface(f);
	check_name(f);
}
