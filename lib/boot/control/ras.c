/* SPDX-License-Identifier: BSD-3-Clause */
/* Serves clients that inspect a running job; ras.h. */
#include "lib/boot/control/ras.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/boot/control/fork.h"
#include "lib/boot/rendezvous/pack.h"

#define HANDSHAKE_MS 5000
#define GONE_MAX 1000 /* failed ranks named in an answer */

static int listen_here(const struct tt_boot *b)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	char job[TT_JOB_TEXT];
	socklen_t len;
	int fd, n;

	tt_boot_job(b, job);
	n = snprintf(sa.sun_path + 1, sizeof(sa.sun_path) - 1, TT_RAS_PREFIX "%u/%s/%d/%d",
		     (unsigned)geteuid(), job, b->rank, (int)getpid());
	len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	if (!bind(fd, (struct sockaddr *)&sa, len) && !listen(fd, 8))
		return fd;
	close(fd);
	return -1;
}

static int key_fd(const struct tt_boot *b)
{
	char name[sizeof(TT_RAS_KEY) + TT_JOB_TEXT] = TT_RAS_KEY;
	int fd;

	tt_boot_job(b, name + strlen(name));
	fd = memfd_create(name, MFD_CLOEXEC);
	if (fd >= 0 && (fchmod(fd, 0600) || write(fd, b->self.secret, sizeof(b->self.secret)) !=
						    sizeof(b->self.secret))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

void tt_ras_open(struct tt_boot *b)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &b->ras_fd};

	b->ras_fd = listen_here(b);
	if (b->ras_fd >= 0)
		tt_fork_guard(b->ras_fd);
	b->ras_key = b->ras_fd < 0 ? -1 : key_fd(b);
	if (b->ras_key < 0 || epoll_ctl(b->epfd, EPOLL_CTL_ADD, b->ras_fd, &ev))
		tt_ras_close(b);
}

void tt_ras_close(struct tt_boot *b)
{
	if (b->ras_fd >= 0)
		tt_fork_close(b->ras_fd);
	if (b->ras_key >= 0)
		close(b->ras_key);
	b->ras_fd = b->ras_key = -1;
}

static bool may_look(int fd)
{
	struct ucred who;
	socklen_t len = sizeof(who);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) &&
	       (who.uid == geteuid() || who.uid == 0);
}

static int clients(const struct tt_boot *b)
{
	struct tt_list *pos, *tmp;
	int n = 0;

	tt_list_each(pos, tmp, &b->links) n += tt_container(pos, struct tt_link, node)->local;
	return n;
}

void tt_ras_accept(struct tt_boot *b)
{
	const struct sockaddr none = {.sa_family = AF_UNSPEC};
	struct tt_link *link;
	int fd = accept4(b->ras_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
		/* otherwise epoll would report it forever */
		tt_warn("out of file descriptors: tutti_ras can't ask this rank any more; raise "
			"'ulimit -n'");
		tt_ras_close(b);
	}
	if (fd < 0)
		return;
	if (!may_look(fd) || clients(b) >= TT_RAS_CLIENTS) {
		close(fd);
		return;
	}
	if (tt_link_accept(fd, &none, &b->self, &tt_ctl_link_ops, b, tt_deadline_ms(HANDSHAKE_MS),
			   &link))
		return;
	link->local = true;
	link->user = (int)++b->ras_clients;
	b->npending++;
	tt_ctl_add_link(b, link);
}

void tt_ras_frame(struct tt_boot *b, struct tt_link *link, int type, const unsigned char *data,
		  size_t len)
{
	struct tt_unpack u = {.p = data, .len = len};
	unsigned char buf[TT_FRAME_MAX];
	struct tt_pack k = {.p = buf, .cap = sizeof(buf)};
	uint32_t number = (uint32_t)tt_get_u(&u, 4), n = 0;
	struct tt_outmsg *ask = calloc(1, sizeof(*ask) + 8);
	struct tt_pack id = {.p = ask ? ask->data : NULL, .cap = 8};
	int r;

	if (type != TT_F_ASK || u.bad || !ask) {
		tt_link_kill(link, ask ? -EPROTO : -ENOMEM, "its question cannot be answered");
		free(ask);
		return;
	}
	for (r = 0; r < b->nranks; r++)
		n += b->ranks[r].gone;
	n = n < GONE_MAX ? n : GONE_MAX;
	tt_put_u(&k, number, 4);
	tt_put_u(&k, (uint32_t)b->nranks, 4);
	tt_put_u(&k, n, 4);
	for (r = 0; r < b->nranks && n; r++)
		if (b->ranks[r].gone) {
			tt_put_u(&k, (uint32_t)r, 4);
			n--;
		}
	tt_link_send(link, TT_F_JOB, buf, k.len);
	tt_put_u(&id, (uint32_t)link->user, 4);
	tt_put_u(&id, number, 4);
	ask->to = TT_CTL_ALL;
	ask->type = TT_CTL_ASK;
	ask->len = 8;
	tt_tree_send(b, ask);
	free(ask);
}

void tt_ras_told(struct tt_boot *b, int from, const unsigned char *data, size_t len)
{
	struct tt_unpack u = {.p = data, .len = len};
	unsigned char buf[TT_FRAME_MAX];
	struct tt_pack k = {.p = buf, .cap = sizeof(buf)};
	int client = (int)tt_get_u(&u, 4);
	uint32_t number = (uint32_t)tt_get_u(&u, 4);
	struct tt_list *pos, *tmp;

	if (u.bad)
		return;
	tt_put_u(&k, number, 4);
	tt_put_u(&k, (uint32_t)from, 4);
	tt_put(&k, u.p, u.len);
	tt_list_each(pos, tmp, &b->links)
	{
		struct tt_link *link = tt_container(pos, struct tt_link, node);

		if (link->local && link->user == client && link->state == TT_LINK_OPEN)
			tt_link_send(link, TT_F_TOLD, buf, k.len);
	}
}
