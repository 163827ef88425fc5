/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of tutti_doctor on each host: a line of JSON for each line of JSON.
 *
 *	(start)				{"version", "address", "port", "mtu", "findings"}
 *	{"ask": "time"}			{"now": seconds since 1970}
 *	{"ask": "peers", "peers": [{"host", "address", "port"}, ...]}
 *					{"failed": [{"host", "why"}, ...]}
 *
 * It ends with its standard input, and after the longest --timeout.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "lib/boot/rendezvous/address.h"
#include "tools/doctor/doctor.h"

#define LIFE_S 3660
#define CONNECT_MS 2000

static void send_line(json_t *v)
{
	char *text = json_dumps(v, JSON_COMPACT);

	if (text)
		puts(text);
	fflush(stdout);
	free(text);
	json_decref(v);
}

/* The kernel takes connections from the backlog, so that no call has to accept them. */
static void hello(void)
{
	struct findings f = {0};
	struct tt_addr addr;
	struct node node = {0};
	int fd, port = 0;

	if (!find_node(&node) && !tt_addr_numeric(node.address, 0, &addr) &&
	    !tt_addr_listen(&addr, &fd))
		port = tt_addr_port((struct sockaddr *)&addr.sa);
	check_devices(&f);
	check_limits(&f);
	check_network(&f);
	send_line(json_pack("{s:s, s:s, s:i, s:i, s:o}", "version", tutti_version(), "address",
			    node.address, "port", port, "mtu", node.mtu, "findings",
			    findings_json(&f)));
	findings_free(&f);
}

static void refuse(json_t *failed, const char *host, int error)
{
	json_array_append_new(failed,
			      json_pack("{s:s, s:s}", "host", host, "why", strerror(error)));
}

/* Starts to connect; the socket, or -1 and the reason in failed. */
static int start_connect(json_t *peer, const char **host, json_t *failed)
{
	const char *address;
	struct tt_addr addr;
	int port, fd, error;

	if (json_unpack(peer, "{s:s, s:s, s:i}", "host", host, "address", &address, "port",
			&port) ||
	    tt_addr_numeric(address, port, &addr))
		return -1;
	fd = socket(addr.sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd >= 0 &&
	    (!connect(fd, (struct sockaddr *)&addr.sa, addr.len) || errno == EINPROGRESS))
		return fd;
	error = errno;
	if (fd >= 0)
		close(fd);
	refuse(failed, *host, error);
	return -1;
}

static void connect_all(json_t *peers)
{
	size_t n = json_array_size(peers), i;
	struct pollfd *fds = must_alloc(n * sizeof(*fds));
	const char **hosts = must_alloc(n * sizeof(*hosts));
	json_t *failed = json_array();
	int64_t end = now_ms() + CONNECT_MS, left;
	size_t waiting = 0;
	int error;

	for (i = 0; i < n; i++) {
		fds[i].fd = start_connect(json_array_get(peers, i), &hosts[i], failed);
		fds[i].events = POLLOUT;
		waiting += fds[i].fd >= 0;
	}
	while (waiting && (left = end - now_ms()) > 0 && poll(fds, n, (int)left) > 0)
		for (i = 0; i < n; i++) {
			socklen_t len = sizeof(error);

			if (fds[i].fd < 0 || !fds[i].revents)
				continue;
			if (getsockopt(fds[i].fd, SOL_SOCKET, SO_ERROR, &error, &len) || error)
				refuse(failed, hosts[i], error);
			close(fds[i].fd);
			fds[i].fd = -1;
			waiting--;
		}
	for (i = 0; i < n; i++)
		if (fds[i].fd >= 0) {
			refuse(failed, hosts[i], ETIMEDOUT);
			close(fds[i].fd);
		}
	free(fds);
	free(hosts);
	send_line(json_pack("{s:o}", "failed", failed));
}

int agent(void)
{
	struct timespec ts;
	char *line = NULL;
	const char *ask;
	size_t cap = 0;
	json_t *v;

	alarm(LIFE_S);
	hello();
	while (getline(&line, &cap, stdin) > 0) {
		v = json_loads(line, 0, NULL);
		if (!v || json_unpack(v, "{s:s}", "ask", &ask)) {
			json_decref(v);
			break;
		}
		clock_gettime(CLOCK_REALTIME, &ts);
		if (!strcmp(ask, "peers"))
			connect_all(json_object_get(v, "peers"));
		else
			send_line(json_pack("{s:f}", "now",
					    (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec));
		json_decref(v);
	}
	free(line);
	return 0;
}
