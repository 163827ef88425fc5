/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * line SECONDS ADDRESS...: measures plain TCP in a ring: every rank sends to the next rank and
 * receives from the previous one, all at once, as in a ring all-reduce. One address for each rank;
 * TUTTI_RANK is this process's rank. After a start of half a second, in which windows and shapers
 * settle, each rank counts what it receives for SECONDS and prints bytes per microsecond.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "perf/whole_number.h"

#define PORT 18400
#define PIECE (256 << 10)
#define SETTLE 0.5
#define CONNECT_LIMIT 20.0

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int failed(const char *what)
{
	fprintf(stderr, "line: %s: %s\n", what, strerror(errno));
	return -1;
}

static struct sockaddr_in address(const char *text, int rank)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)(PORT + rank))};

	inet_pton(AF_INET, text, &a.sin_addr);
	return a;
}

static int listen_at(const char *text, int rank)
{
	struct sockaddr_in a = address(text, rank);
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 4))
		return failed(text);
	return fd;
}

static int connect_to(const char *text, int rank)
{
	struct sockaddr_in a = address(text, rank);
	double end = now() + CONNECT_LIMIT;
	int fd, one = 1;

	do {
		fd = socket(AF_INET, SOCK_STREAM, 0);
		if (fd >= 0 && !connect(fd, (struct sockaddr *)&a, sizeof(a))) {
			setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
			return fd;
		}
		close(fd);
		usleep(20000);
	} while (now() < end);
	return failed(text);
}

/* Send and receive until `end`; the bytes received from `from` on. */
static double pump(int in, int out, double from, double end)
{
	struct pollfd fds[2] = {{.fd = in, .events = POLLIN}, {.fd = out, .events = POLLOUT}};
	static char tx[PIECE], rx[PIECE];
	double bytes = 0, t;
	ssize_t n;

	while ((t = now()) < end && poll(fds, 2, 100) >= 0) {
		if (fds[1].revents & POLLOUT)
			(void)!send(out, tx, sizeof(tx), MSG_DONTWAIT | MSG_NOSIGNAL);
		if (!(fds[0].revents & (POLLIN | POLLHUP)))
			continue;
		n = recv(in, rx, sizeof(rx), MSG_DONTWAIT);
		if (n == 0)
			return -1; /* the neighbour has left before the end */
		if (n > 0 && t >= from)
			bytes += (double)n;
	}
	return bytes;
}

int main(int argc, char **argv)
{
	const char *own = getenv("TUTTI_RANK");
	int rank, ranks, listener, in, out;
	double seconds, start, bytes;
	char byte = 0;

	rank = whole_number(own);
	ranks = argc - 2;
	seconds = ranks < 2 ? -1 : seconds_of(argv[1]);
	if (seconds <= 0 || rank < 0 || rank >= ranks)
		return fprintf(stderr, "usage: TUTTI_RANK=RANK line SECONDS ADDRESS...\n"), 2;
	listener = listen_at(argv[2 + rank], rank);
	out = listener < 0 ? -1 : connect_to(argv[2 + (rank + 1) % ranks], (rank + 1) % ranks);
	in = out < 0 ? -1 : accept(listener, NULL, NULL);
	if (in < 0)
		return 1;
	/* a byte once round the ring: all are connected */
	if ((rank && read(in, &byte, 1) != 1) || write(out, &byte, 1) != 1 ||
	    (!rank && read(in, &byte, 1) != 1))
		return failed("starting"), 1;
	start = now();
	bytes = pump(in, out, start + SETTLE, start + SETTLE + seconds);
	if (bytes < 0)
		return fprintf(stderr, "line: the neighbour left early\n"), 1;
	printf("%.3f\n", bytes / seconds / 1e6);
	fflush(stdout);
	pump(in, out, 0, now() + SETTLE); /* the others' windows end later than ours */
	return 0;
}
