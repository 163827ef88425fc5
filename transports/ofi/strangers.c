/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Drops connections to the listener of provider tcp that no peer has made.
 *
 * libfabric 1.17 accepts every connection. It keeps a silent connection as long as the caller
 * stays, and forgets, without closing it, a connection that ends before its handshake. Such sockets
 * have the listener's address and belong to no endpoint. This file shuts them down, which makes
 * libfabric remove them from its poll set, and then closes them unless libfabric has done so.
 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "transports/ofi/ofi.h"

#define LOOK_NS TT_SEC	       /* between two looks while few have come */
#define HURRY_NS (2 * TT_MS)   /* and while descriptors are scarce */
#define SILENT_NS (2 * TT_SEC) /* a peer has sent its request long before */
#define MANY 16		       /* more at once are not waited for */
#define SPARE 24	       /* descriptors that the job may need at any time */
#define STARVED_NS TT_SEC      /* without a descriptor: who calls will not be answered */
#define SETTLE 16	       /* looks of libfabric at its sockets until it has seen each */

static bool same_place(int fd, const struct ofi_tp *tp)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);

	return !getsockname(fd, (struct sockaddr *)&sa, &len) && len == tp->namelen &&
	       !memcmp(&sa, tp->name, len);
}

static bool listens(int fd)
{
	socklen_t len = sizeof(int);
	int yes = 0;

	return !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &yes, &len) && yes;
}

/* Call fn for each descriptor until it returns false. Without one to spare for the list, each
 * number is tried. */
static void each_fd(bool (*fn)(void *arg, int fd), void *arg)
{
	DIR *dir = opendir("/proc/self/fd");
	struct rlimit lim = {.rlim_cur = 0};
	struct dirent *e;
	int fd;

	while (dir && (e = readdir(dir)) != NULL)
		if (atoi(e->d_name) > STDERR_FILENO && !fn(arg, atoi(e->d_name)))
			break;
	if (dir) {
		closedir(dir);
		return;
	}
	getrlimit(RLIMIT_NOFILE, &lim);
	for (fd = STDERR_FILENO + 1; fd < (int)lim.rlim_cur && fd < 1 << 16; fd++)
		if (!fn(arg, fd))
			break;
}

/* ---- while the transport is closed ---- */

struct place {
	const struct ofi_tp *tp;
	int kept;
};

static bool keep(void *arg, int fd)
{
	struct place *p = arg;

	if (!same_place(fd, p->tp) || !listens(fd))
		return true;
	p->kept = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	return false;
}

int ofi_msg_keep_place(const struct ofi_tp *tp)
{
	struct place p = {tp, -1};

	if (ofi_is_tcp(tp))
		each_fd(keep, &p);
	return p.kept;
}

static bool close_there(void *arg, int fd)
{
	const struct place *p = arg;

	if (fd != p->kept && same_place(fd, p->tp)) {
		shutdown(fd, SHUT_RDWR);
		close(fd);
	}
	return true;
}

/* Shut down as well: a child of this process may have copies. */
void ofi_msg_close_forgotten(const struct ofi_tp *tp, int kept)
{
	struct place p = {tp, kept};

	if (kept < 0)
		return;
	shutdown(kept, SHUT_RDWR);
	each_fd(close_there, &p);
	close(kept);
}

/* ---- while it is open ---- */

/* The peer of socket fd, also after the connection has ended, when getpeername() fails. */
static bool peer_of(int fd, const struct ofi_tp *tp, struct sockaddr_storage *peer)
{
	socklen_t len = (socklen_t)tp->namelen;

	memset(peer, 0, sizeof(*peer));
	return !getsockopt(fd, SOL_SOCKET, SO_PEERNAME, peer, &len);
}

/*
 * Whether socket fd belongs to an endpoint, or to a request that an endpoint holds. libfabric
 * closes such a socket with its endpoint, even if the peer is long gone. Closing it here as well
 * would close another descriptor of this process that has got its number since.
 */
static bool is_ours(struct ofi_tp *tp, int fd)
{
	struct sockaddr_storage peer;
	struct tt_list *pos, *tmp;

	if (!peer_of(fd, tp, &peer))
		return true;
	tt_list_each(pos, tmp, &tp->eps)
	{
		struct ofi_ep *ep = tt_container(pos, struct ofi_ep, link);

		if (ep->caller.ss_family && !memcmp(&ep->caller, &peer, tp->namelen))
			return true;
	}
	return false;
}

/* A number that is this socket's alone. */
static uint64_t inode(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

static bool peer_has_gone(int fd)
{
	struct tcp_info ti = {0};
	socklen_t len = sizeof(ti);

	return !getsockopt(fd, IPPROTO_TCP, TCP_INFO, &ti, &len) &&
	       ti.tcpi_state != TCP_ESTABLISHED;
}

static bool note(void *arg, int fd)
{
	struct ofi_tp *tp = arg;
	struct ofi_strangers *s = &tp->strangers;
	uint64_t ino;
	int i;

	if (!same_place(fd, tp) || listens(fd) || is_ours(tp, fd))
		return true;
	ino = inode(fd);
	for (i = 0; i < s->n; i++)
		if (s->who[i].fd == fd && s->who[i].inode == ino) {
			s->who[i].here = true;
			return true;
		}
	if (s->n < OFI_STRANGERS)
		s->who[s->n++] = (struct ofi_stranger){
			.fd = fd, .inode = ino, .since = tt_now_ns(), .here = true};
	return s->n < OFI_STRANGERS;
}

/*
 * The present strangers, the oldest first. libfabric may have closed some; others have turned out
 * to be peers, which it read the request of since.
 */
static void find_all(struct ofi_tp *tp)
{
	struct ofi_strangers *s = &tp->strangers;
	int i, k;

	for (i = 0; i < s->n; i++)
		s->who[i].here = false;
	each_fd(note, tp);
	for (i = k = 0; i < s->n; i++)
		if (s->who[i].here)
			s->who[k++] = s->who[i];
		else
			s->dropped += inode(s->who[i].fd) != s->who[i].inode;
	s->n = k;
}

/* The 1st, 2nd, 4th, 8th ...: strangers must not fill the log. */
static void report(struct ofi_strangers *s)
{
	if (!s->dropped || s->dropped < s->said)
		return;
	while (s->said <= s->dropped)
		s->said = s->said ? 2 * s->said : 1;
	tt_warn("ofi: dropped %lu connections so far from processes that are not peers",
		s->dropped);
}

static bool same_host(const void *a, const struct sockaddr_storage *b)
{
	const struct sockaddr_in6 *a6 = a, *b6 = (const void *)b;
	const struct sockaddr_in *a4 = a, *b4 = (const void *)b;

	if (a4->sin_family != b4->sin_family)
		return false;
	return a4->sin_family == AF_INET
		       ? a4->sin_addr.s_addr == b4->sin_addr.s_addr
		       : !memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr));
}

/*
 * Whether socket fd may belong to a peer whose connection is expected: its process may compute for
 * a long time before its libfabric sends anything.
 */
static bool may_be_expected(struct ofi_tp *tp, int fd)
{
	struct sockaddr_storage peer;
	struct tt_list *pos, *tmp;

	if (!tp->connecting || !peer_of(fd, tp, &peer))
		return false;
	tt_list_each(pos, tmp, &tp->eps)
	{
		struct ofi_ep *ep = tt_container(pos, struct ofi_ep, link);

		if (ep->state == OFI_CONNECTING && ep->passive && !ep->fid &&
		    same_host(ep->peer.addr, &peer))
			return true;
	}
	return false;
}

static int shut_down(struct ofi_tp *tp, bool all)
{
	struct ofi_strangers *s = &tp->strangers;
	uint64_t now = tt_now_ns();
	int i, n = 0;

	for (i = 0; i < s->n; i++) {
		struct ofi_stranger *w = &s->who[i];

		if (s->n - i <= MANY && !peer_has_gone(w->fd) &&
		    ((!all && now - w->since < SILENT_NS) || may_be_expected(tp, w->fd)))
			continue;
		shutdown(w->fd, SHUT_RDWR);
		w->shut = true;
		n++;
	}
	return n;
}

/*
 * libfabric has closed its own connections, except those whose request it has read meanwhile: such
 * a socket belongs to an endpoint now, which fails.
 */
static void close_shut(struct ofi_tp *tp)
{
	struct ofi_strangers *s = &tp->strangers;
	int i, k;

	for (i = k = 0; i < s->n; i++) {
		struct ofi_stranger *w = &s->who[i];
		bool there = same_place(w->fd, tp) && inode(w->fd) == w->inode;

		if (!w->shut) {
			s->who[k++] = *w;
			continue;
		}
		if (there && is_ours(tp, w->fd))
			continue;
		s->dropped++;
		if (there)
			close(w->fd);
	}
	s->n = k;
}

/* The lowest number that is free: any descriptor that is opened raises it. -1: there is none. */
static int lowest_free(const struct ofi_tp *tp)
{
	int fd = fcntl(tp->arm_fd, F_DUPFD_CLOEXEC, 0);

	if (fd >= 0)
		close(fd);
	return fd;
}

void ofi_drop_strangers(struct ofi_tp *tp, bool all)
{
	struct ofi_strangers *s = &tp->strangers;
	bool all_read = false;
	int i;

	if (!ofi_is_tcp(tp))
		return;
	for (i = 0; i < 4; i++) /* a peer's request that has come is read */
		ofi_msg_progress(tp);
	s->lowest = lowest_free(tp);
	find_all(tp);
	s->some = s->n > 0;
	if (shut_down(tp, all)) {
		for (i = 0; i < SETTLE; i++) /* which may accept more */
			all_read = ofi_msg_progress(tp);
		if (all_read) /* otherwise an unread request may own one: at the next look */
			close_shut(tp);
		s->lowest = lowest_free(tp);
	}
	report(s);
}

bool ofi_out_of_files(const struct ofi_tp *tp)
{
	return lowest_free(tp) < 0 && (errno == EMFILE || errno == ENFILE);
}

/*
 * libfabric cannot accept the calls that are expected, and does not say so: the caller would wait
 * until TUTTI_TIMEOUT.
 */
static void fail_expected(struct ofi_tp *tp)
{
	struct tt_list *pos, *tmp;

	tt_list_each(pos, tmp, &tp->eps)
	{
		struct ofi_ep *ep = tt_container(pos, struct ofi_ep, link);

		if (ep->state == OFI_CONNECTING && ep->passive && !ep->fid)
			ofi_ep_fail_text(ep, tt_fail(-EMFILE,
						     "libfabric cannot accept a connection: %s",
						     tutti_strerror(-EMFILE)));
	}
}

static void watch_starving(struct ofi_tp *tp, bool starving)
{
	struct ofi_strangers *s = &tp->strangers;
	uint64_t now = tt_now_ns();

	if (!starving || !tp->connecting)
		s->starved = 0;
	else if (!s->starved)
		s->starved = now;
	else if (now - s->starved >= STARVED_NS)
		fail_expected(tp);
}

void ofi_watch_strangers(struct ofi_tp *tp)
{
	struct ofi_strangers *s = &tp->strangers;
	struct rlimit lim = {.rlim_cur = RLIM_INFINITY};
	uint64_t now = tt_now_ns();
	bool scarce, many;
	int low;

	if (!ofi_is_tcp(tp) || now < s->again)
		return;
	low = lowest_free(tp);
	if (low >= 0 || (low == s->lowest && !s->some))
		watch_starving(tp, low < 0);
	if (low == s->lowest && !s->some)
		return;
	getrlimit(RLIMIT_NOFILE, &lim);
	scarce = low < 0 || (rlim_t)low + SPARE > lim.rlim_cur;
	many = low > s->lowest + MANY;
	if (now < s->look_at && !scarce && !many)
		return;
	ofi_drop_strangers(tp, scarce);
	watch_starving(tp, s->lowest < 0);
	s->look_at = tt_now_ns() + LOOK_NS;
	s->again = tt_now_ns() + HURRY_NS;
}
