/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sockets of provider tcp. libfabric does not expose them: the socket of a connection is found
 * by the addresses of its two ends. The kernel then tells whether the peer's host still answers.
 *
 * TCP_USER_TIMEOUT is not used, because it also ends a connection whose live peer receives nothing
 * for a while (zero window), such as a rank that computes between two calls.
 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "transports/ofi/ofi.h"

#define FIND_NS (100 * TT_MS) /* between two searches */
#define SYN_SENT 2	      /* in tcpi_state */
#define PROBES 2	      /* unanswered ones, so that a single loss says nothing */

bool ofi_is_tcp(const struct ofi_tp *tp)
{
	return tp->pep && !strncmp(tp->info->fabric_attr->prov_name, "tcp", 3);
}

static bool same(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	size_t len =
		a->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);

	return a->ss_family == b->ss_family && !memcmp(a, b, len);
}

/* The two ends of socket fd, the remote one once it is connected. */
static bool ends_of(int fd, struct ofi_ends *e)
{
	socklen_t llen = sizeof(e->local), rlen = sizeof(e->remote);

	memset(e, 0, sizeof(*e));
	return !getsockname(fd, (struct sockaddr *)&e->local, &llen) &&
	       (e->local.ss_family == AF_INET || e->local.ss_family == AF_INET6) &&
	       (!getpeername(fd, (struct sockaddr *)&e->remote, &rlen) || errno == ENOTCONN);
}

/* Asks libfabric for the addresses of ep->fid; the peer's is 0 until it is connected. */
static void ask_ends(struct ofi_ep *ep)
{
	size_t llen = sizeof(ep->ends.local), rlen = sizeof(ep->ends.remote);

	memset(&ep->ends, 0, sizeof(ep->ends));
	if (fi_getname(&ep->fid->fid, &ep->ends.local, &llen) ||
	    fi_getpeer(ep->fid, &ep->ends.remote, &rlen))
		memset(&ep->ends.remote, 0, sizeof(ep->ends.remote));
}

/* The states in which a connection can be inspected: connected or connecting. */
static bool has_socket(const struct ofi_ep *ep)
{
	return ep->fid && (ep->state == OFI_UP || (ep->state == OFI_CONNECTING && !ep->passive));
}

static bool is_socket_of(int fd, const struct ofi_ends *ends)
{
	struct ofi_ends e;

	return ends_of(fd, &e) && same(&e.local, &ends->local) && same(&e.remote, &ends->remote);
}

/* An idle connection is probed, too, four times within the limit; this alone ends none of them. */
static void keep_alive(int fd, uint64_t limit_ns)
{
	int yes = 1, count = 127, s = (int)(limit_ns / (4 * TT_SEC));

	s = s ? s : 1;
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &s, sizeof(s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &s, sizeof(s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}

/* Assign fd to the endpoint with its addresses, among the endpoints without a known socket. */
static void give(struct ofi_tp *tp, int fd)
{
	struct tt_list *pos, *tmp;
	struct ofi_ends e;

	if (!ends_of(fd, &e))
		return;
	tt_list_each(pos, tmp, &tp->eps)
	{
		struct ofi_ep *ep = tt_container(pos, struct ofi_ep, link);

		if (!has_socket(ep) || ep->sock >= 0 || !same(&e.remote, &ep->ends.remote) ||
		    !same(&e.local, &ep->ends.local))
			continue;
		ep->sock = fd;
		ep->since = tt_now_ns();
		keep_alive(fd, tp->limit_ns);
		return;
	}
}

/* Look once for the sockets of all endpoints that lack one. */
static void find_sockets(struct ofi_tp *tp)
{
	struct tt_list *pos, *tmp;
	struct dirent *e;
	DIR *dir;

	if (tt_now_ns() < tp->find_at)
		return;
	tp->find_at = tt_now_ns() + FIND_NS;
	tt_list_each(pos, tmp, &tp->eps)
	{
		struct ofi_ep *ep = tt_container(pos, struct ofi_ep, link);

		if (has_socket(ep) && ep->sock < 0)
			ask_ends(ep);
	}
	dir = opendir("/proc/self/fd");
	while (dir && (e = readdir(dir)) != NULL)
		if (atoi(e->d_name) > STDERR_FILENO)
			give(tp, atoi(e->d_name));
	if (dir)
		closedir(dir);
}

/*
 * Bytes waiting in the socket, and the time since the last acknowledgement. A peer with a closed
 * window acknowledges nothing, and an idle peer has nothing to acknowledge; in both cases the
 * kernel probes, and while probes are answered the peer's host is up. Time alone proves nothing,
 * because this host may have been paused.
 */
static void judge(struct ofi_ep *ep, const struct tcp_info *ti, uint64_t queued, uint64_t limit_ns,
		  struct tt_silence *s)
{
	bool probed = ti->tcpi_probes >= PROBES || ti->tcpi_retransmits >= PROBES;
	bool calls = ti->tcpi_state == SYN_SENT;
	uint64_t now = tt_now_ns(), silent;

	if (!calls && (!queued || !ep->queued || ti->tcpi_bytes_acked != ep->acked))
		ep->since = now;
	ep->queued = queued;
	ep->acked = ti->tcpi_bytes_acked;
	silent = now - ep->since;
	if (!calls && !(ti->tcpi_unacked && ti->tcpi_snd_wnd))
		silent = (ti->tcpi_last_ack_recv < ti->tcpi_last_data_recv
				  ? ti->tcpi_last_ack_recv
				  : ti->tcpi_last_data_recv) *
			 TT_MS;
	s->dead = probed && silent > limit_ns;
	s->bytes = queued;
	s->ns = s->dead || calls ? silent : queued ? now - ep->since : 0;
}

int ofi_silence(struct tt_ep *tep, struct tt_silence *s)
{
	struct ofi_ep *ep = ofi_ep(tep);
	struct ofi_tp *tp = ofi_tp(tep->tp);
	struct tcp_info ti = {0};
	socklen_t len = sizeof(ti);
	int queued;

	if (!ofi_is_tcp(tp) || !has_socket(ep))
		return -EOPNOTSUPP;
	if (ep->sock < 0)
		find_sockets(tp);
	if (ep->sock < 0)
		return -EAGAIN;
	if (!is_socket_of(ep->sock, &ep->ends)) { /* libfabric has closed it */
		ep->sock = -1;
		return -EAGAIN;
	}
	if (getsockopt(ep->sock, IPPROTO_TCP, TCP_INFO, &ti, &len) ||
	    ioctl(ep->sock, SIOCOUTQ, &queued))
		return -errno;
	if (len < offsetof(struct tcp_info, tcpi_snd_wnd) + sizeof(ti.tcpi_snd_wnd))
		ti.tcpi_snd_wnd = 1; /* a kernel before 5.4 does not tell */
	*s = (struct tt_silence){.bytes = 0};
	judge(ep, &ti, (uint64_t)queued, tp->limit_ns, s);
	return 0;
}
