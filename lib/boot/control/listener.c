/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control thread's listener: connections of ranks and of strangers until they are
 * authenticated.
 */
#include "lib/boot/control/control.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/boot/control/fork.h"

#define HANDSHAKE_MS 5000
#define PENDING_MAX 256 /* unauthenticated connections, besides one for each rank */

void tt_ctl_watch(struct tt_boot *b, int *fd, int op)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = fd};

	epoll_ctl(b->epfd, op, *fd, &ev);
}

void tt_listen_close(struct tt_boot *b)
{
	if (b->listenfd >= 0)
		tt_fork_close(b->listenfd);
	b->listenfd = -1;
}

void tt_ctl_unwatch(struct tt_boot *b, const struct tt_link *link)
{
	if (link->fd >= 0)
		epoll_ctl(b->epfd, EPOLL_CTL_DEL, link->fd, NULL);
}

/* Drops the stranger that has waited longest. */
static bool drop_oldest_pending(struct tt_boot *b)
{
	struct tt_list *pos, *tmp;

	tt_list_each(pos, tmp, &b->links)
	{
		struct tt_link *link = tt_container(pos, struct tt_link, node);

		if (!link->server || link->state == TT_LINK_OPEN || link->state == TT_LINK_DEAD)
			continue;
		tt_link_kill(link, -EMFILE, "too many connections wait to be authenticated");
		tt_ctl_unwatch(b, link);
		tt_fork_close(link->fd);
		link->fd = -1;
		return true;
	}
	return false;
}

/*
 * Out of descriptors for a connection that may be waiting (accept checks descriptors first): drop
 * a stranger, or retry a little later.
 */
static void no_file(struct tt_boot *b)
{
	struct pollfd waits = {.fd = b->listenfd, .events = POLLIN};

	if (poll(&waits, 1, 0) <= 0)
		return;
	if (drop_oldest_pending(b)) {
		b->out_of_files = true;
		return;
	}
	tt_ctl_watch(b, &b->listenfd, EPOLL_CTL_DEL);
	b->listen_armed = false;
	b->listen_again = tt_deadline_ms(100);
	if (!b->out_of_files)
		tt_warn("out of file descriptors while the ranks connect; raise 'ulimit -n'");
	b->out_of_files = true;
}

/*
 * Strangers leave most descriptors to the ranks: to those that have yet to join, and in a running
 * job to those that lose their parent. Where descriptors are few, connections are, too.
 */
static int pending_max(const struct tt_boot *b)
{
	struct rlimit lim = {.rlim_cur = RLIM_INFINITY};

	getrlimit(RLIMIT_NOFILE, &lim);
	if (lim.rlim_cur / 8 >= PENDING_MAX)
		return PENDING_MAX + b->nranks;
	if (b->phase >= TT_PH_UP)
		return (int)(lim.rlim_cur / 8) + TT_CTL_ARITY;
	return (int)(lim.rlim_cur / 8) + b->nranks - b->njoined;
}

void tt_listen_accept(struct tt_boot *b)
{
	struct sockaddr_storage sa;
	struct tt_link *link;
	socklen_t len;
	int i, fd;

	for (i = 0; i < 64 && b->listenfd >= 0; i++) {
		len = sizeof(sa);
		fd = accept4(b->listenfd, (struct sockaddr *)&sa, &len,
			     SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0 && (errno == EMFILE || errno == ENFILE))
			no_file(b);
		if (fd < 0)
			return;
		if (b->npending >= pending_max(b))
			drop_oldest_pending(b);
		if (tt_link_accept(fd, (struct sockaddr *)&sa, &b->self, &tt_ctl_link_ops, b,
				   tt_deadline_ms(HANDSHAKE_MS), &link)) {
			tt_start_no_memory(b);
			return;
		}
		b->npending++;
		tt_ctl_add_link(b, link);
	}
}

void tt_listen_timer(struct tt_boot *b, uint64_t now)
{
	if (b->listenfd < 0 || b->listen_armed || now < b->listen_again)
		return;
	tt_ctl_watch(b, &b->listenfd, EPOLL_CTL_ADD);
	b->listen_armed = true;
}
