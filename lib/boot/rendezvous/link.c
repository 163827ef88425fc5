/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A nonblocking, authenticated, framed TCP connection.
 *
 * After the handshake (auth.c) each direction is a sequence of frames:
 *
 *	 0  4  n, little-endian: bytes that follow, 18 to 4178
 *	 4  n  sealed: 1 byte frame type, then the payload (0 to 4160 bytes), encrypted, with the
 *	       17 bytes that crypto_secretstream_xchacha20poly1305 adds (tag byte and authenticator)
 *
 * control_loop.c defines types and payloads. The length itself is not authenticated: a changed
 * length makes the next frame fail to open. A frame that fails to open, or a length out of range,
 * ends the connection.
 *
 * Memory: an unauthenticated connection costs this struct and 256 bytes. An authenticated one has a
 * receive buffer of fixed size and a send queue with a bound; a peer that stops reading loses the
 * connection when the queue reaches the bound. The owner drops silent or slow strangers at the
 * handshake's deadline. Nothing here blocks or raises SIGPIPE.
 */
#include "lib/boot/rendezvous/link.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/boot/rendezvous/address.h"
#include "lib/boot/control/fork.h"

#define RX_SIZE 16384
#define TX_SIZE 8192 /* to begin with: a frame, and more */
#define READ_BURST 8 /* reads per event, so that one busy peer does not starve the other links */

void tt_link_kill(struct tt_link *link, int err, const char *fmt, ...)
{
	va_list ap;

	if (link->state == TT_LINK_DEAD)
		return;
	va_start(ap, fmt);
	vsnprintf(link->why, sizeof(link->why), fmt, ap);
	va_end(ap);
	link->err = err;
	link->state = TT_LINK_DEAD;
}

static struct tt_link *link_new(int fd, const struct sockaddr *addr, const struct tt_self *self,
				const struct tt_link_ops *ops, void *owner, uint64_t deadline)
{
	struct tt_link *link = calloc(1, sizeof(*link));
	int on = 1;

	if (!link)
		return NULL;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	tt_list_init(&link->node);
	link->fd = fd;
	tt_fork_guard(fd);
	link->self = self;
	link->ops = ops;
	link->owner = owner;
	link->deadline = deadline;
	link->peer = -1;
	link->last_rx = link->last_tx = tt_now_ns();
	tt_addr_text(addr, link->peer_addr, sizeof(link->peer_addr));
	return link;
}

int tt_link_accept(int fd, const struct sockaddr *addr, const struct tt_self *self,
		   const struct tt_link_ops *ops, void *owner, uint64_t deadline,
		   struct tt_link **link)
{
	struct tt_link *l = link_new(fd, addr, self, ops, owner, deadline);

	if (!l) {
		close(fd);
		return -ENOMEM;
	}
	l->server = true;
	l->state = TT_LINK_HELLO;
	*link = l;
	return 0;
}

int tt_link_connect(const struct sockaddr *addr, socklen_t addr_len, enum tt_link_kind kind,
		    int peer, const struct tt_self *self, const struct tt_link_ops *ops,
		    void *owner, uint64_t deadline, struct tt_link **link)
{
	int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), err;
	struct tt_link *l;
	int on = 1;

	if (fd < 0)
		return -errno;
	/* Or the local port, once closed, could not be listened on for a minute. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	l = link_new(fd, addr, self, ops, owner, deadline);
	err = l ? 0 : -ENOMEM;
	if (!err && connect(fd, addr, addr_len) && errno != EINPROGRESS && errno != EINTR)
		err = -errno;
	if (err) {
		tt_fork_close(fd);
		free(l);
		return err;
	}
	l->kind = kind;
	l->peer = peer;
	l->state = TT_LINK_CONNECTING;
	*link = l;
	return 0;
}

void tt_link_user_timeout(struct tt_link *link, int64_t ms)
{
	unsigned v = (unsigned)ms;
	int on = 1, idle = ms < 4000 ? 1 : ms > 120000 ? 30 : (int)(ms / 4000);

	setsockopt(link->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &v, sizeof(v));
	setsockopt(link->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(link->fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(link->fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle, sizeof(idle));
}

bool tt_link_has_input(const struct tt_link *link)
{
	struct pollfd p = {.fd = link->fd, .events = POLLIN};

	return poll(&p, 1, 0) > 0 && p.revents & POLLIN;
}

size_t tt_link_queued(const struct tt_link *link)
{
	return link->tx_len;
}

/* Whether the queue has room for n more bytes. */
static bool tx_fits(struct tt_link *link, size_t n)
{
	if (link->tx_head && link->tx_head + link->tx_len + n > link->tx_cap) {
		memmove(link->tx, link->tx + link->tx_head, link->tx_len);
		link->tx_head = 0;
	}
	return link->tx_head + link->tx_len + n <= link->tx_cap;
}

static bool tx_grow(struct tt_link *link, size_t least)
{
	size_t cap = link->tx_cap ? link->tx_cap : 256;
	unsigned char *p;

	while (cap < least)
		cap *= 2;
	p = cap > link->tx_cap ? realloc(link->tx, cap) : link->tx;
	if (!p)
		return false;
	link->tx = p;
	link->tx_cap = cap;
	return true;
}

/* Room for n more bytes at the end of the queue; NULL after killing the link. */
static unsigned char *tx_room(struct tt_link *link, size_t n)
{
	unsigned char *p;

	if (link->tx_len + n > TT_LINK_QUEUE) {
		tt_link_kill(link, -ENOBUFS, "it does not read, and %u MiB are queued for it",
			     TT_LINK_QUEUE >> 20);
		return NULL;
	}
	if (!tx_fits(link, n) && !tx_grow(link, link->tx_len + n)) {
		tt_link_flush(link); /* an empty queue has room for a frame */
		if (!tx_fits(link, n))
			tt_link_kill(link, -ENOMEM, "no memory to send to rank %d", link->peer);
		if (link->state == TT_LINK_DEAD)
			return NULL;
	}
	p = link->tx + link->tx_head + link->tx_len;
	link->tx_len += n;
	return p;
}

void tt_link_send(struct tt_link *link, int type, const void *data, size_t len)
{
	unsigned char plain[1 + TT_FRAME_MAX], *out;
	size_t n = 1 + len + TT_SEAL_OVERHEAD;
	int i;

	if (link->state != TT_LINK_OPEN || link->closing || len > TT_FRAME_MAX)
		return;
	out = tx_room(link, 4 + n);
	if (!out)
		return;
	plain[0] = (unsigned char)type;
	if (len)
		memcpy(plain + 1, data, len);
	for (i = 0; i < 4; i++)
		out[i] = (unsigned char)(n >> (8 * i));
	tt_auth_seal(&link->auth, plain, 1 + len, out + 4);
	link->last_tx = tt_now_ns();
}

void tt_link_close_after(struct tt_link *link, uint64_t deadline)
{
	link->closing = true;
	link->deadline = deadline;
}

static void send_hello(struct tt_link *link)
{
	unsigned char *out = tx_room(link, TT_HELLO_SIZE);

	if (out)
		tt_auth_hello(&link->auth, link->self, link->kind, link->server ? 'S' : 'C', out);
}

static void send_proof(struct tt_link *link)
{
	unsigned char *out = tx_room(link, TT_PROOF_SIZE);

	if (out)
		tt_auth_prove(&link->auth, link->self, link->server ? 'S' : 'C', out);
}

/*
 * TCP connects a socket with itself when nothing listens at the address and its port was chosen as
 * the local one. It is closed without a trace, since rank 0 wants to listen there.
 */
static bool reached_itself(int fd)
{
	struct linger at_once = {.l_onoff = 1};
	struct sockaddr_storage here, there;
	socklen_t here_len = sizeof(here), there_len = sizeof(there);

	if (getsockname(fd, (struct sockaddr *)&here, &here_len) ||
	    getpeername(fd, (struct sockaddr *)&there, &there_len))
		return false; /* a broken connection: reading it will tell */
	if (here_len != there_len || memcmp(&here, &there, here_len))
		return false;
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	return true;
}

static void connected(struct tt_link *link)
{
	socklen_t len = sizeof(int);
	int err = 0;

	if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &err, &len))
		err = errno;
	if (!err && reached_itself(link->fd))
		err = ECONNREFUSED;
	if (err) {
		tt_link_kill(link, -err, "%s", strerror(err));
		return;
	}
	link->state = TT_LINK_HELLO;
	send_hello(link);
}

void tt_link_flush(struct tt_link *link)
{
	ssize_t n;

	while (link->state != TT_LINK_DEAD && link->state != TT_LINK_CONNECTING && link->tx_len) {
		n = send(link->fd, link->tx + link->tx_head, link->tx_len, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return;
		if (n < 0 && (errno == EPIPE || errno == ECONNRESET)) {
			/* the peer's last words may be unread: the end is found by reading */
			link->tx_len = link->tx_head = 0;
			break;
		}
		if (n < 0) {
			tt_link_kill(link, -errno, "its connection broke: %s", strerror(errno));
			return;
		}
		link->tx_head += (size_t)n;
		link->tx_len -= (size_t)n;
		if (!link->tx_len)
			link->tx_head = 0;
	}
	if (link->closing && !link->shut && !link->tx_len && link->state == TT_LINK_OPEN) {
		link->shut = true;
		shutdown(link->fd, SHUT_WR);
	}
}

bool tt_link_wants_out(const struct tt_link *link)
{
	return link->state == TT_LINK_CONNECTING || link->tx_len > 0;
}

static void got_hello(struct tt_link *link)
{
	static const unsigned char unknown[16];

	if (tt_auth_read_hello(&link->auth, link->hs, link->server ? 'C' : 'S', &link->hello)) {
		tt_link_kill(link, -EPROTO, "it does not speak tutti's protocol");
		return;
	}
	link->hs_len = 0;
	link->state = TT_LINK_PROOF;
	if (link->server) {
		link->kind = link->hello.kind;
		send_hello(link);
		return;
	}
	if (memcmp(link->self->job, unknown, 16) && memcmp(link->self->job, link->hello.job, 16)) {
		tt_link_kill(link, -ESTALE, "another job answers there");
		return;
	}
	if (link->hello.rank != link->peer) {
		tt_link_kill(link, -ESTALE, "rank %d answers there", link->hello.rank);
		return;
	}
	send_proof(link);
}

static void got_proof(struct tt_link *link)
{
	static const unsigned char refused[TT_PROOF_SIZE];
	unsigned char *out;

	if (tt_auth_check(&link->auth, link->self, link->server ? 'C' : 'S', link->hs)) {
		if (link->server) {
			out = tx_room(link, TT_PROOF_SIZE);
			if (out)
				memset(out, 0, TT_PROOF_SIZE);
			tt_link_flush(link);
		}
		tt_link_kill(link, -TUTTI_EAUTH, "%s",
			     !link->server && !memcmp(link->hs, refused, sizeof(refused))
				     ? "it refused this rank's secret"
				     : "it does not know this job's secret");
		return;
	}
	if (link->server) {
		link->peer = link->hello.rank;
		send_proof(link);
	}
	link->rx = tx_grow(link, TX_SIZE) ? malloc(RX_SIZE) : NULL;
	if (!link->rx) {
		tt_link_kill(link, -ENOMEM, "no memory for its buffers");
		return;
	}
	link->state = TT_LINK_OPEN;
	link->last_rx = tt_now_ns();
	link->ops->open(link);
}

/* Returns whether there may be more to read. */
static bool read_some(struct tt_link *link, void *buf, size_t room, size_t *got)
{
	ssize_t n;

	do
		n = recv(link->fd, buf, room, 0);
	while (n < 0 && errno == EINTR);
	if (n > 0) {
		*got += (size_t)n;
		link->last_rx = tt_now_ns();
		return true;
	}
	if (!n)
		tt_link_kill(link, -ECONNRESET, "its connection was closed without a goodbye");
	else if (errno != EAGAIN && errno != EWOULDBLOCK)
		tt_link_kill(link, -errno, "its connection broke: %s", strerror(errno));
	return false;
}

static bool read_handshake(struct tt_link *link)
{
	size_t need = link->state == TT_LINK_HELLO ? TT_HELLO_SIZE : TT_PROOF_SIZE;

	if (!read_some(link, link->hs + link->hs_len, need - link->hs_len, &link->hs_len))
		return false;
	if (link->hs_len < need)
		return true;
	if (link->state == TT_LINK_HELLO)
		got_hello(link);
	else
		got_proof(link);
	return true;
}

static bool read_frames(struct tt_link *link)
{
	unsigned char plain[1 + TT_FRAME_MAX];
	size_t at = 0, n;

	if (!read_some(link, link->rx + link->rx_len, RX_SIZE - link->rx_len, &link->rx_len))
		return false;
	while (link->state == TT_LINK_OPEN && link->rx_len - at >= 4) {
		const unsigned char *p = link->rx + at;

		n = p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
		if (n < 1 + TT_SEAL_OVERHEAD || n > 1 + TT_FRAME_MAX + TT_SEAL_OVERHEAD) {
			tt_link_kill(link, -EPROTO, "it sent a frame of impossible length");
			return false;
		}
		if (link->rx_len - at < 4 + n)
			break;
		if (tt_auth_open(&link->auth, p + 4, n, plain)) {
			tt_link_kill(link, -EBADMSG, "it sent a frame that fails authentication");
			return false;
		}
		at += 4 + n;
		if (!link->closing)
			link->ops->frame(link, plain[0], plain + 1, n - 1 - TT_SEAL_OVERHEAD);
	}
	memmove(link->rx, link->rx + at, link->rx_len - at);
	link->rx_len -= at;
	return true;
}

void tt_link_readable(struct tt_link *link)
{
	bool more = true;
	int i;

	if (link->state == TT_LINK_CONNECTING)
		connected(link);
	for (i = 0; i < READ_BURST && more && link->state != TT_LINK_DEAD; i++)
		more = link->state == TT_LINK_OPEN ? read_frames(link) : read_handshake(link);
}

void tt_link_free(struct tt_link *link)
{
	if (link->fd >= 0)
		tt_fork_close(link->fd);
	free(link->rx);
	free(link->tx);
	sodium_memzero(&link->auth, sizeof(link->auth));
	free(link);
}
