/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data over a control connection: the handshake, as either end, from a peer without the secret;
 * or, from a peer with the secret, frames of any length and content, then invalid bytes.
 */
#include <assert.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/boot/rendezvous/link.h"
#include "tests/fuzz/fuzz.h"

static int opened;

static void on_open(struct tt_link *link)
{
	opened++;
}

static void on_frame(struct tt_link *link, int type, const unsigned char *data, size_t len)
{
	volatile unsigned char sum = 0;

	assert(link->state == TT_LINK_OPEN && len <= TT_FRAME_MAX && type >= 0 && type < 256);
	while (len--)
		sum = (unsigned char)(sum + data[len]);
}

static const struct tt_link_ops ops = {.open = on_open, .frame = on_frame};

/* The other end of a genuine handshake; the link is a server. */
static void handshake(struct tt_link *link, int fd, struct tt_auth *auth,
		      const struct tt_self *self)
{
	unsigned char buf[TT_HELLO_SIZE];
	struct tt_hello hello;
	ssize_t n;

	tt_auth_hello(auth, self, TT_LINK_TREE, 'C', buf);
	n = write(fd, buf, TT_HELLO_SIZE);
	tt_link_readable(link);
	tt_link_flush(link);
	n = n > 0 ? read(fd, buf, TT_HELLO_SIZE) : n;
	assert(n == TT_HELLO_SIZE && !tt_auth_read_hello(auth, buf, 'S', &hello));
	tt_auth_prove(auth, self, 'C', buf);
	n = write(fd, buf, TT_PROOF_SIZE);
	tt_link_readable(link);
	assert(n == TT_PROOF_SIZE && link->state == TT_LINK_OPEN);
}

static void frames(struct tt_link *link, int fd, struct tt_auth *auth, struct fz *z)
{
	unsigned char out[4 + 1 + TT_FRAME_MAX + TT_SEAL_OVERHEAD];

	while (z->len && link->state != TT_LINK_DEAD) {
		size_t n = fz_u(z, 2) % (TT_FRAME_MAX + 2);
		struct fz body = fz_take(z, n);

		n = body.len + TT_SEAL_OVERHEAD;
		out[0] = (unsigned char)n;
		out[1] = (unsigned char)(n >> 8);
		out[2] = out[3] = 0;
		tt_auth_seal(auth, body.p, body.len, out + 4);
		if (write(fd, out, 4 + n) < 0)
			break;
		tt_link_readable(link);
		if (fz_u(z, 1) == 7) /* from here on not sealed */
			break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct tt_self self = {.rank = 1, .nranks = 4, .version = "1", .secret = {1, 2, 3}};
	struct fz z = {data, size};
	unsigned mode = (unsigned)fz_u(&z, 1) % 3;
	struct tt_link *link;
	struct tt_auth auth;
	int fd[2], before = opened;

	tutti_set_log(NULL, NULL, TUTTI_LOG_NONE);
	if (sodium_init() < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd))
		return 0;
	if (tt_link_accept(fd[0], (struct sockaddr *)&in, &self, &ops, NULL, TT_NEVER, &link))
		return 0;
	if (mode == 1) { /* as if it had connected */
		link->server = false;
		link->peer = 0;
	}
	if (mode == 2) {
		handshake(link, fd[1], &auth, &self);
		frames(link, fd[1], &auth, &z);
	}
	if (z.len && write(fd[1], z.p, z.len) < 0)
		z.len = 0;
	if (z.len % 2)
		close(fd[1]);
	tt_link_readable(link);
	tt_link_readable(link);
	tt_link_flush(link);
	assert(mode == 2 || opened == before); /* no peer is accepted */
	if (!(z.len % 2))
		close(fd[1]);
	tt_link_free(link);
	return 0;
}
