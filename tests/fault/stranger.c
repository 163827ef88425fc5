/* SPDX-License-Identifier: BSD-3-Clause */
/* Behaviour of strangers; see stranger.h. */
#include "tests/fault/stranger.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "lib/base/hash.h"

void st_job_init(struct st_job *job, int n)
{
	int fd = st_listen(&job->port), r;

	job->n = n;
	for (r = 0; r < n; r++) {
		struct tt_boot_params p = {.rank = r,
					   .nranks = n,
					   .local_rank = r,
					   .listen_fd = r ? -1 : fd,
					   .have_secret = true,
					   .init_timeout = 20000,
					   .heartbeat = 200,
					   .heartbeat_limit = 10000,
					   .origin = "test"};

		snprintf(p.store, sizeof(p.store), "127.0.0.1:%d", job->port);
		memset(p.secret, 0x5a, sizeof(p.secret));
		if (!r)
			memset(p.job, 0x77, sizeof(p.job));
		job->rank[r] = (struct st_rank){.params = p, .err = -EINPROGRESS};
	}
}

static void *start_main(void *arg)
{
	struct tt_boot_handlers none = {.arg = NULL};
	struct st_rank *r = arg;

	r->err = tt_boot_contact(&r->params, &r->boot);
	if (!r->err)
		r->err = tt_boot_join(r->boot, &none, "card", 4);
	return NULL;
}

void st_start(struct st_job *job, int rank)
{
	pthread_create(&job->rank[rank].thread, NULL, start_main, &job->rank[rank]);
}

int st_started(struct st_job *job, int first, int last)
{
	int r, failed = 0;

	for (r = first; r <= last; r++) {
		pthread_join(job->rank[r].thread, NULL);
		failed += job->rank[r].err != 0;
	}
	return failed;
}

static void *stop_main(void *arg)
{
	struct st_rank *r = arg;

	r->err = r->boot ? tt_boot_stop(r->boot, tt_deadline_ms(10000)) : r->err;
	r->boot = NULL;
	return NULL;
}

int st_stop(struct st_job *job)
{
	int r;

	for (r = 0; r < job->n; r++)
		pthread_create(&job->rank[r].thread, NULL, stop_main, &job->rank[r]);
	return st_started(job, 0, job->n - 1);
}

static struct sockaddr_in loopback(int port)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_port = htons((uint16_t)port),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void bound_waits(int fd)
{
	struct timeval tv = {.tv_sec = 10};

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
}

int st_connect(int port)
{
	struct sockaddr_in in = loopback(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	bound_waits(fd);
	if (!connect(fd, (struct sockaddr *)&in, sizeof(in)))
		return fd;
	close(fd);
	return -1;
}

int st_listen(int *port)
{
	struct sockaddr_in in = loopback(0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(in);

	bound_waits(fd);
	if (bind(fd, (struct sockaddr *)&in, sizeof(in)) || listen(fd, 128) ||
	    getsockname(fd, (struct sockaddr *)&in, &len)) {
		close(fd);
		return -1;
	}
	*port = ntohs(in.sin_port);
	return fd;
}

bool st_read(int fd, void *buf, size_t len)
{
	return recv(fd, buf, len, MSG_WAITALL) == (ssize_t)len;
}

bool st_write(int fd, const void *buf, size_t len)
{
	return send(fd, buf, len, MSG_NOSIGNAL) == (ssize_t)len;
}

bool st_refused(int fd)
{
	unsigned char c;
	ssize_t n;

	while ((n = recv(fd, &c, 1, 0)) > 0)
		if (c)
			return false;
	return !n || errno == ECONNRESET;
}

/* Passes on data from one side; false: it has closed. */
static bool pass(struct st_relay *relay, int from, int to, int way, bool keep)
{
	unsigned char buf[4096];
	ssize_t n = recv(from, buf, sizeof(buf), 0);
	size_t room = sizeof(relay->kept[way]) - relay->len[way];

	if (n <= 0)
		return false;
	if (keep) {
		room = room < (size_t)n ? room : (size_t)n;
		memcpy(relay->kept[way] + relay->len[way], buf, room);
		relay->len[way] += room;
	}
	return st_write(to, buf, (size_t)n);
}

static void *relay_main(void *arg)
{
	struct st_relay *relay = arg;
	struct pollfd p[17] = {{.fd = relay->listen_fd, .events = POLLIN}};
	int n = 1, i;

	while (!relay->stop) {
		poll(p, (nfds_t)n, 20);
		if (p[0].revents && n < 17) {
			p[n] = (struct pollfd){.fd = accept(relay->listen_fd, NULL, NULL),
					       .events = POLLIN};
			p[n + 1] = (struct pollfd){.fd = st_connect(relay->to), .events = POLLIN};
			n += 2;
			continue;
		}
		for (i = 1; i < n; i++)
			if (p[i].fd >= 0 && p[i].revents &&
			    !pass(relay, p[i].fd, p[i & 1 ? i + 1 : i - 1].fd, !(i & 1), i < 3))
				p[i].events = p[i].revents = 0,
				shutdown(p[i & 1 ? i + 1 : i - 1].fd, SHUT_WR);
	}
	for (i = 1; i < n; i++)
		close(p[i].fd);
	return NULL;
}

void st_relay_start(struct st_relay *relay, int to)
{
	memset(relay, 0, sizeof(*relay));
	relay->to = to;
	relay->listen_fd = st_listen(&relay->port);
	pthread_create(&relay->thread, NULL, relay_main, relay);
}

void st_relay_stop(struct st_relay *relay)
{
	relay->stop = true;
	pthread_join(relay->thread, NULL);
	close(relay->listen_fd);
}

/* A hello as one of the job would send it, without its secret. */
static size_t hello(unsigned char *buf, uint64_t random)
{
	struct tt_self self = {.rank = (int)(random % 5), .nranks = 3, .version = "1"};
	struct tt_auth auth;

	tt_auth_hello(&auth, &self, 1 + random % 2, 'C', buf);
	return TT_HELLO_SIZE;
}

int st_junk(int port, uint64_t number)
{
	struct linger hard = {.l_onoff = 1};
	uint64_t rng = tt_hash_add(number, 1);
	unsigned char buf[4096];
	size_t len = tt_random(&rng) % sizeof(buf), i;
	int fd = st_connect(port);

	if (fd < 0)
		return -1;
	for (i = 0; i < sizeof(buf); i++)
		buf[i] = (unsigned char)tt_random(&rng);
	switch (number % 8) {
	case 0: /* says nothing, and stays */
		return fd;
	case 1: /* half a hello, and stays */
		hello(buf, rng);
		send(fd, buf, len % TT_HELLO_SIZE, MSG_NOSIGNAL);
		return fd;
	case 2: /* a hello without a proof */
		send(fd, buf, hello(buf, rng), MSG_NOSIGNAL);
		return fd;
	case 3: /* a reset */
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
		break;
	case 4: /* a hello and a wrong proof, and more */
		hello(buf, rng);
		send(fd, buf, sizeof(buf), MSG_NOSIGNAL);
		break;
	case 5: /* a hello with some bytes changed */
		hello(buf, rng);
		buf[rng % TT_HELLO_SIZE] ^= 1 + rng % 255;
		send(fd, buf, sizeof(buf), MSG_NOSIGNAL);
		break;
	case 6:
		send(fd, "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL);
		break;
	default:
		send(fd, buf, len, MSG_NOSIGNAL);
		break;
	}
	close(fd);
	return -1;
}
