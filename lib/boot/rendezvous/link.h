/* SPDX-License-Identifier: BSD-3-Clause */
/* A nonblocking, authenticated, framed TCP connection; see link.c. */
#ifndef TT_LINK_H
#define TT_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "lib/base/list.h"
#include "lib/boot/rendezvous/auth.h"

#define TT_FRAME_MAX 4160 /* bytes of a frame's payload */

enum tt_link_kind {
	TT_LINK_JOIN = 1,
	TT_LINK_TREE = 2,
	TT_LINK_LOOK = 3, /* ras.h */
	TT_LINK_GATE = 4, /* admission.h */
	TT_LINK_WATCH = 5 /* peer_watch.c */
};

enum tt_link_state {
	TT_LINK_CONNECTING,
	TT_LINK_HELLO, /* waits for the peer's hello */
	TT_LINK_PROOF, /* waits for the peer's proof */
	TT_LINK_OPEN,
	TT_LINK_DEAD /* err and why have the reason; only to be freed */
};

struct tt_link;

struct tt_link_ops {
	/* Authenticated: hello identifies the peer. */
	void (*open)(struct tt_link *link);
	void (*frame)(struct tt_link *link, int type, const unsigned char *data, size_t len);
};

#define TT_LINK_QUEUE (16u << 20) /* bytes that may wait to be sent */

struct tt_link {
	struct tt_list node; /* the owner's */
	const struct tt_link_ops *ops;
	void *owner;
	const struct tt_self *self;
	int fd;
	unsigned events; /* registered with the owner's epoll; the owner's */
	enum tt_link_state state;
	enum tt_link_kind kind;
	bool server;
	bool local;   /* by the socket of this host; ras.h */
	bool closing; /* the owner sends no more: shut down when sent, ignore further input */
	bool shut;
	int peer; /* rank at the other end: expected (client) or, once open, proven (server) */
	int user; /* the owner's: next entry of the table to be sent */
	uint64_t deadline; /* of the handshake, then of closing */
	uint64_t last_rx, last_tx;
	int err;
	char why[128];
	char peer_addr[64];    /* numeric, for texts */
	struct tt_hello hello; /* the peer's */
	struct tt_auth auth;
	unsigned char hs[TT_HELLO_SIZE]; /* handshake bytes received so far */
	size_t hs_len;
	unsigned char *rx;
	size_t rx_len;
	unsigned char *tx;
	size_t tx_head, tx_len, tx_cap;
};

_Static_assert(sizeof(struct tt_link) < 2048, "a stranger costs less than 4 KiB");

/* Takes over the connected socket fd; closes it on failure. */
int tt_link_accept(int fd, const struct sockaddr *addr, const struct tt_self *self,
		   const struct tt_link_ops *ops, void *owner, uint64_t deadline,
		   struct tt_link **link);
/* Starts to connect to rank peer at addr. */
int tt_link_connect(const struct sockaddr *addr, socklen_t addr_len, enum tt_link_kind kind,
		    int peer, const struct tt_self *self, const struct tt_link_ops *ops,
		    void *owner, uint64_t deadline, struct tt_link **link);
/* A connection whose other host does not answer for about this long ends, also when idle. */
void tt_link_user_timeout(struct tt_link *link, int64_t ms);
/* Reads available data, calling ops; afterwards state shows whether the link died. */
void tt_link_readable(struct tt_link *link);
/* Writes as much of the queue as the socket takes; completes connecting and closing. */
void tt_link_flush(struct tt_link *link);
/* Whether to wait for writability. */
bool tt_link_wants_out(const struct tt_link *link);
/* Queues a frame. A queue beyond its bound kills the link. */
void tt_link_send(struct tt_link *link, int type, const void *data, size_t len);
/* Something has arrived that was not read yet: the peer is not silent. */
bool tt_link_has_input(const struct tt_link *link);
size_t tt_link_queued(const struct tt_link *link);
/*
 * Sends no more: shuts down after the queue has been sent; the end of the peer's stream kills the
 * link.
 */
void tt_link_close_after(struct tt_link *link, uint64_t deadline);
void tt_link_kill(struct tt_link *link, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void tt_link_free(struct tt_link *link);

#endif
