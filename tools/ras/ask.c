/* SPDX-License-Identifier: BSD-3-Clause */
/* One connection to a rank: questions and answers. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/boot/rendezvous/pack.h"
#include "lib/boot/control/ras.h"
#include "tools/plain.h"
#include "tools/ras/ras.h"

#define OPEN_MS 2000
#define RANKS_MAX (1 << 24)

static int give_up(struct client *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int give_up(struct client *c, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(c->why, sizeof(c->why), fmt, ap);
	va_end(ap);
	return 1;
}

/* The kernel opens it to the same user and to root. */
static int read_key(struct client *c, unsigned char key[32])
{
	const struct door *door = c->door;
	char path[300], link[128], want[96];
	struct dirent *e;
	int fd, err = 1;
	DIR *dir;

	snprintf(want, sizeof(want), "/memfd:" TT_RAS_KEY "%s ", door->job);
	snprintf(path, sizeof(path), "/proc/%d/fd", door->pid);
	dir = opendir(path);
	while (dir && err && (e = readdir(dir))) {
		memset(link, 0, sizeof(link));
		snprintf(path, sizeof(path), "/proc/%d/fd/%s", door->pid, e->d_name);
		if (readlink(path, link, sizeof(link) - 1) < 0 || strncmp(link, want, strlen(want)))
			continue;
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		err = pread(fd, key, 32, 0) != 32;
		close(fd);
	}
	if (dir)
		closedir(dir);
	return !err ? 0
		    : give_up(c, "cannot read the key of process %d: %s", door->pid,
			      dir ? "the process has no key, or is another user's"
				  : strerror(errno));
}

static void on_open(struct tt_link *link)
{
	((struct client *)link->owner)->ready = true;
}

static void take_job(struct client *c, struct tt_unpack *u)
{
	struct answers *a = c->answers;
	uint32_t n = (uint32_t)tt_get_u(u, 4), gone = (uint32_t)tt_get_u(u, 4), r;

	if (u->bad || !n || n > RANKS_MAX || a->rank)
		return;
	a->rank = calloc(n, sizeof(json_t *));
	a->gone = calloc(n, sizeof(*a->gone));
	if (!a->rank || !a->gone)
		return;
	a->nranks = (int)n;
	while (gone-- && !u->bad) {
		r = (uint32_t)tt_get_u(u, 4);
		if (!u->bad && r < n) {
			a->gone[r] = true;
			a->told++;
		}
	}
}

static void take_told(struct client *c, struct tt_unpack *u)
{
	struct answers *a = c->answers;
	uint32_t rank = (uint32_t)tt_get_u(u, 4);

	if (u->bad || rank >= (uint32_t)a->nranks || a->rank[rank])
		return;
	a->rank[rank] = json_loadb((const char *)u->p, u->len, 0, NULL);
	if (!a->rank[rank])
		return;
	plain(a->rank[rank]);
	a->told += !a->gone[rank];
	if (c->json) {
		json_dumpf(a->rank[rank], stdout, JSON_COMPACT | JSON_PRESERVE_ORDER);
		putchar('\n');
	}
}

static void on_frame(struct tt_link *link, int type, const unsigned char *data, size_t len)
{
	struct client *c = link->owner;
	struct tt_unpack u = {.p = data, .len = len};

	if (!c->answers || (uint32_t)tt_get_u(&u, 4) != c->number)
		return;
	if (type == TT_F_JOB)
		take_job(c, &u);
	else if (type == TT_F_TOLD)
		take_told(c, &u);
}

static const struct tt_link_ops ops = {.open = on_open, .frame = on_frame};

static bool done(const struct client *c)
{
	if (!c->answers)
		return c->ready;
	return c->answers->nranks && c->answers->told == c->answers->nranks;
}

/* Until done, or the deadline; 1: the connection has ended. */
static int run(struct client *c, uint64_t deadline)
{
	struct pollfd p = {.fd = c->link->fd};

	while (!done(c) && !ras_stop && !tt_passed(deadline)) {
		tt_link_flush(c->link);
		if (c->link->state == TT_LINK_DEAD)
			break;
		p.events = (short)(POLLIN | (tt_link_wants_out(c->link) ? POLLOUT : 0));
		if (poll(&p, 1, tt_left_ms(deadline, 1000)) > 0)
			tt_link_readable(c->link);
		if (c->link->state == TT_LINK_DEAD)
			break;
	}
	if (c->link->state != TT_LINK_DEAD)
		return 0;
	return give_up(c, "rank %d: %s", c->door->rank, c->link->why);
}

/* Any process can bind such a name, so check that it is the process that gave the key. */
static bool is_process(int fd, int pid)
{
	struct ucred who;
	socklen_t len = sizeof(who);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) && who.pid == pid;
}

static int no_answer(struct client *c)
{
	return give_up(c, "rank %d, process %d, does not answer", c->door->rank, c->door->pid);
}

int client_open(struct client *c, const struct door *door)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	size_t len = strlen(door->name);
	int err;

	c->door = door;
	c->self = (struct tt_self){.rank = -1};
	if (sodium_init() < 0 || read_key(c, c->self.secret))
		return 1;
	snprintf(c->self.version, sizeof(c->self.version), "%s", tutti_version());
	memcpy(sa.sun_path + 1, door->name, len);
	err = tt_link_connect((struct sockaddr *)&sa,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len),
			      TT_LINK_LOOK, door->rank, &c->self, &ops, c, TT_NEVER, &c->link);
	if (!err && !is_process(c->link->fd, door->pid))
		err = -EPERM;
	if (err)
		return give_up(c, "rank %d, process %d: %s", door->rank, door->pid, strerror(-err));
	if (run(c, tt_deadline_ms(OPEN_MS))) {
		len = strlen(c->why);
		if (c->link->err == -ECONNRESET)
			snprintf(c->why + len, sizeof(c->why) - len,
				 "; a rank serves at most %d tutti_ras at a time", TT_RAS_CLIENTS);
		return 1;
	}
	return c->ready ? 0 : no_answer(c);
}

int client_ask(struct client *c, struct answers *a, int ms)
{
	unsigned char buf[4];
	struct tt_pack k = {.p = buf, .cap = sizeof(buf)};
	int err;

	*a = (struct answers){0};
	c->answers = a;
	tt_put_u(&k, ++c->number, 4);
	tt_link_send(c->link, TT_F_ASK, buf, k.len);
	err = run(c, tt_deadline_ms(ms));
	c->answers = NULL;
	return err || a->nranks ? err : no_answer(c);
}

void client_close(struct client *c)
{
	if (c->link)
		tt_link_free(c->link);
	sodium_memzero(&c->self, sizeof(c->self));
}

void answers_free(struct answers *a)
{
	int i;

	for (i = 0; i < a->nranks; i++)
		json_decref(a->rank[i]);
	free(a->rank);
	free(a->gone);
}
