/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control thread: one epoll loop that joins, forms the tree, keeps it, and ends it.
 *
 * Frames (link.c describes the sealing). Integers are little-endian; "str" is u16 length and bytes;
 * "addr" is u8 family (4, 6, or 0: none), u16 port, 16 bytes of address (IPv4: the first four).
 *
 * On the join of rank r to rank 0's store (kind 1), open during the start only:
 *	 1 JOIN      r -> 0  addr where r listens for its children, str host
 *	19 CARD      r -> 0  u16 n, n bytes card: r is ready to start
 *	 2 PARENT    0 -> r  u32 rank of the parent, addr where it listens (family 0: the store's)
 *	 3 ERROR     both    i32 code, i32 rank it is about (-1: none), str host, str text
 *	 4 DONE      0 -> r  empty: the tree stands; the join is closed now
 * A rank sends JOIN as early as it can, so that its death is noticed, and CARD when its transports
 * are open. When rank 0 has all cards, it sends PARENT to each rank. If a join ends before DONE,
 * rank 0 sends ERROR to all. Rank 0 passes an ERROR from a rank to all, which ends the start
 * everywhere. An ERROR with code -ETIMEDOUT says that the
 * sender's deadline has passed; the answer has the names of the missing ranks.
 *
 * On links of the tree (kind 2, child to parent):
 *	 5 ENTRY     down    u32 rank, addr where it listens, str host, u16 n, n bytes card: the
 *	                     table, in rank order
 *	 6 READY     up      empty: the sender has the table, and all its children are ready
 *	 7 GO        down    empty: all ranks are ready; the start is over
 *	 8 BEAT      both    empty: alive; sent when nothing else was for TUTTI_HEARTBEAT
 *	 9 MSG       both    i32 from, i32 to (-1: all), u32 number (of from's messages), u8 type
 *	                     (enum tt_ctl_type), payload (0 to 4096 bytes)
 *	10 GONE      both    i32 rank, i32 by, str why: flooded; to the rank itself: it was taken
 *	                     for dead and is cut off
 *	11 BYE_UP    up      u32 how many: the sender and all below it want to end
 *	12 BYE_DOWN  down    empty: all want to end; what follows is the end of the stream
 *	13 AGAIN     both    as MSG: it may have come already
 *	14 PLACE     up      u32 ms: the sender lost its parent so long ago, and has a new one now
 * On links between a rank and one that should be its child (kind 5, peer_watch.c): BEAT and GONE.
 *
 * GO travels down the links that messages use, so no message overtakes it. The neighbours notice a
 * failed process: by the end of its stream or a reset (it died), or by silence for
 * TUTTI_HEARTBEAT_LIMIT (it is stopped, or its host or network is down). They flood GONE. When an
 * inner rank dies the tree falls apart; reparent.c repairs it.
 */
#include "lib/boot/control/control.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/base/spawn.h"
#include "lib/boot/control/fork.h"
#include "lib/boot/rendezvous/pack.h"
#include "lib/boot/control/ras.h"

#define HANDSHAKE_MS 5000
#define PENDING_MAX 256 /* unauthenticated connections, besides one for each rank */
#define DRAIN_MS 1000
#define STOP_MS 100    /* how often params.stop is called */
#define LATE_PART 16   /* of the limit: a loop that is later than this excuses its peers */
#define LINGER_MS 2000 /* a failed rank 0 stays until all ranks have been told */

void tt_ctl_add_link(struct tt_boot *b, struct tt_link *link)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = link};

	tt_list_add(&b->links, &link->node);
	if (link->state == TT_LINK_CONNECTING)
		ev.events |= EPOLLOUT;
	link->events = ev.events;
	tt_link_user_timeout(link, b->params.heartbeat_limit);
	if (epoll_ctl(b->epfd, EPOLL_CTL_ADD, link->fd, &ev))
		tt_link_kill(link, -errno, "epoll: %s", strerror(errno));
}

/* fd: of b; its address distinguishes its events from those of links. */
static void watch(struct tt_boot *b, int *fd, int op)
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

/*
 * Closing is not enough: a child process may also hold the socket, and its events must not arrive
 * here.
 */
static void unwatch(struct tt_boot *b, const struct tt_link *link)
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
		unwatch(b, link);
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
	watch(b, &b->listenfd, EPOLL_CTL_DEL);
	b->listen_armed = false;
	b->listen_again = tt_deadline_ms(100);
	if (!b->out_of_files)
		tt_warn("out of file descriptors while the ranks connect; raise 'ulimit -n'");
	b->out_of_files = true;
}

/* Strangers leave most descriptors of a running job to ranks that lose their parent. */
static int pending_max(const struct tt_boot *b)
{
	struct rlimit lim = {.rlim_cur = RLIM_INFINITY};

	getrlimit(RLIMIT_NOFILE, &lim);
	if (b->phase < TT_PH_UP || lim.rlim_cur / 8 >= PENDING_MAX)
		return PENDING_MAX + b->nranks;
	return (int)(lim.rlim_cur / 8) + TT_CTL_ARITY;
}

static void accept_some(struct tt_boot *b)
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
				   tt_deadline_ms(HANDSHAKE_MS), &link))
			return;
		b->npending++;
		tt_ctl_add_link(b, link);
	}
}

/* Listens, for the first time or again after a shortage of descriptors. */
static void listen_timer(struct tt_boot *b, uint64_t now)
{
	if (b->listenfd < 0 || b->listen_armed || now < b->listen_again)
		return;
	watch(b, &b->listenfd, EPOLL_CTL_ADD);
	b->listen_armed = true;
}

static void on_open(struct tt_link *link)
{
	struct tt_boot *b = link->owner;

	link->deadline = TT_NEVER;
	if (link->server)
		b->npending--;
	if (link->kind == TT_LINK_JOIN && link->server && !link->local && b->rank == 0)
		tt_store_open(b, link);
	else if (link->kind == TT_LINK_JOIN && !link->server)
		tt_join_open(b, link);
	else if (link->kind == TT_LINK_TREE && !link->local)
		tt_tree_open(b, link);
	else if (link->kind == TT_LINK_WATCH && !link->local)
		tt_watch_open(b, link);
	else if (link->kind != TT_LINK_LOOK || !link->local)
		tt_link_kill(link, -EPROTO, "it asked for a connection of unknown kind %d",
			     (int)link->kind);
}

static void on_frame(struct tt_link *link, int type, const unsigned char *data, size_t len)
{
	struct tt_boot *b = link->owner;

	if (link->local)
		tt_ras_frame(b, link, type, data, len);
	else if (link->kind == TT_LINK_TREE)
		tt_tree_frame(b, link, type, data, len);
	else if (link->kind == TT_LINK_WATCH)
		tt_watch_frame(b, link, type, data, len);
	else if (link->server)
		tt_store_frame(b, link, type, data, len);
	else
		tt_join_frame(b, link, type, data, len);
}

const struct tt_link_ops tt_ctl_link_ops = {.open = on_open, .frame = on_frame};

static void link_lost(struct tt_boot *b, struct tt_link *link)
{
	bool was_open = link->rx != NULL;

	tt_debug("link to rank %d (%s) ended: %s", link->peer, link->peer_addr, link->why);
	if (link->server && !was_open) {
		b->npending--;
		if (link->err == -TUTTI_EAUTH) {
			b->refused++;
			snprintf(b->refused_text, sizeof(b->refused_text), "%s, as rank %d",
				 link->peer_addr, link->hello.rank);
			/* log the 1st, 2nd, 4th, 8th ... only: strangers must not fill the log */
			if (!(b->refused & (b->refused - 1)))
				tt_warn("a connection from %s, as rank %d, was refused: %s (%u so "
					"far)",
					link->peer_addr, link->hello.rank, link->why, b->refused);
		}
		return;
	}
	if (link->local)
		return;
	if (link == b->dialer.link && !was_open)
		tt_dial_lost(b, link);
	else if (link->kind == TT_LINK_TREE)
		tt_tree_lost(b, link);
	else if (link->kind == TT_LINK_WATCH)
		tt_watch_lost(b, link);
	else if (link->server)
		tt_store_lost(b, link);
	else
		tt_join_lost(b, link);
}

/* Writes queued frames and removes dead links; a removal may queue more. */
static void sweep(struct tt_boot *b)
{
	struct epoll_event ev;
	struct tt_list *pos, *tmp;
	unsigned want;
	bool again;

	do {
		again = false;
		tt_list_each(pos, tmp, &b->links)
		{
			struct tt_link *link = tt_container(pos, struct tt_link, node);

			tt_link_flush(link);
			if (link->state == TT_LINK_DEAD) {
				unwatch(b, link);
				tt_list_del(&link->node);
				tt_list_add(&b->graves, &link->node);
				link_lost(b, link);
				again = true;
				break; /* the list may have changed in any way */
			}
			want = EPOLLIN | (tt_link_wants_out(link) ? EPOLLOUT : 0);
			if (want == link->events)
				continue;
			ev = (struct epoll_event){.events = want, .data.ptr = link};
			epoll_ctl(b->epfd, EPOLL_CTL_MOD, link->fd, &ev);
			link->events = want;
		}
	} while (again);
}

static void bury(struct tt_boot *b, struct tt_list *list)
{
	struct tt_list *pos, *tmp;

	tt_list_each(pos, tmp, list)
	{
		tt_list_del(pos);
		tt_link_free(tt_container(pos, struct tt_link, node));
	}
}

void tt_start_done(struct tt_boot *b)
{
	struct tt_list *pos, *tmp;
	uint64_t now = tt_now_ns();

	b->phase = TT_PH_UP; /* the listener stays, for ranks that lose their parent */
	tt_list_each(pos, tmp, &b->links) tt_container(pos, struct tt_link, node)->last_rx = now;
	if (b->join)
		tt_link_kill(b->join, 0, "the start is over");
	b->join = NULL;
	tt_ras_open(b);
	pthread_mutex_lock(&b->lock);
	b->started = true;
	pthread_cond_broadcast(&b->cond);
	pthread_mutex_unlock(&b->lock);
}

void tt_send_error(const struct tutti_error_info *error, struct tt_link *link)
{
	unsigned char buf[TT_FRAME_MAX];
	struct tt_pack k = {.p = buf, .cap = sizeof(buf)};

	tt_put_u(&k, (uint32_t)error->code, 4);
	tt_put_u(&k, (uint32_t)error->rank, 4);
	tt_put_str(&k, error->host);
	tt_put_str(&k, error->text);
	tt_link_send(link, TT_F_ERROR, buf, k.len);
}

static void tell_all(struct tt_boot *b)
{
	struct tt_list *pos, *tmp;

	b->njoined = 0; /* from now on: ranks that have been told */
	tt_list_each(pos, tmp, &b->links)
	{
		struct tt_link *link = tt_container(pos, struct tt_link, node);

		if (link->kind != TT_LINK_JOIN || link->state != TT_LINK_OPEN)
			continue;
		b->njoined++;
		tt_send_error(&b->error, link);
		tt_link_close_after(link, tt_deadline_ms(DRAIN_MS));
	}
}

void tt_note_files(struct tt_boot *b)
{
	size_t used = strlen(b->error.text);

	if (b->out_of_files && !strstr(b->error.text, "ulimit -n"))
		snprintf(b->error.text + used, sizeof(b->error.text) - used,
			 "; rank %d was out of file descriptors: raise 'ulimit -n'", b->rank);
}

/* Rank 0 tells all ranks that have joined; any other rank tells rank 0. */
void tt_start_fail(struct tt_boot *b, int code, int rank, const char *host, const char *fmt, ...)
{
	va_list ap;

	if (b->phase >= TT_PH_UP)
		return;
	b->error = (struct tutti_error_info){.size = sizeof(b->error), .code = code, .rank = rank};
	snprintf(b->error.call, sizeof(b->error.call), "init");
	snprintf(b->error.host, sizeof(b->error.host), "%s", host ? host : "");
	va_start(ap, fmt);
	vsnprintf(b->error.text, sizeof(b->error.text), fmt, ap);
	va_end(ap);
	tt_note_files(b);
	b->phase = TT_PH_FAIL;
	b->dialer.active = false;
	b->drain_deadline = tt_deadline_ms(LINGER_MS);
	if (b->rank && !(b->join && b->join->state == TT_LINK_OPEN))
		b->phase = TT_PH_END;
	else if (b->rank)
		tt_send_error(&b->error, b->join);
	else
		tell_all(b);
}

void tt_start_refuse(struct tt_boot *b)
{
	const struct tutti_error_info *why = b->params.broken;

	tt_start_fail(b, why->code, b->rank, b->host, "rank %d on %s cannot start: %s", b->rank,
		      b->host, why->text);
}

uint64_t tt_ctl_excused(uint64_t elapsed, uint64_t asked, uint64_t limit)
{
	if (elapsed > limit / 2)
		return UINT64_MAX;
	return elapsed > asked + limit / LATE_PART ? elapsed - asked : 0;
}

uint64_t tt_ctl_excuse(uint64_t then, uint64_t now, uint64_t excused)
{
	if (then > now)
		return then;
	return now - then > excused ? then + excused : now;
}

/*
 * A process that was stopped, starved or did not read must not take its peers' silence for death.
 * Peers on the same host are starved at the same time.
 */
static void notice_pause(struct tt_boot *b, uint64_t now, uint64_t asked)
{
	uint64_t excused = tt_ctl_excused(now - b->last_loop, asked, b->limit_ns);
	struct tt_list *pos, *tmp;

	b->last_loop = now;
	if (!excused)
		return;
	tt_list_each(pos, tmp, &b->links)
	{
		struct tt_link *link = tt_container(pos, struct tt_link, node);

		link->last_rx = tt_ctl_excuse(link->last_rx, now, excused);
	}
	tt_watch_paused(b, now, excused);
	b->dialer.until = tt_ctl_excuse(b->dialer.until, now + b->limit_ns, excused);
}

/* A rank that has not reached rank 0 yet does so first (tt_join_open). */
static void refuse(struct tt_boot *b)
{
	if (!b->rank || b->join)
		tt_start_refuse(b);
}

/* Enters this rank's card; the caller of tt_boot_join waits with the lock free. */
static void enter(struct tt_boot *b, const void *card, size_t len)
{
	struct tt_list *pos, *tmp;
	int open = b->listenfd >= 0 ? 3 : 2; /* with epfd and wakefd */

	if (b->phase != TT_PH_JOIN || b->entered)
		return;
	tt_list_each(pos, tmp, &b->links) open += tt_container(pos, struct tt_link, node)->fd >= 0;
	tt_check_files(b, open);
	if (b->params.broken) {
		refuse(b);
		return;
	}
	if (tt_tree_entry(b, b->rank, b->host, card, len)) {
		tt_start_fail(b, -ENOMEM, b->rank, b->host, "rank %d has no memory for its card",
			      b->rank);
		return;
	}
	b->entered = true;
	if (b->rank)
		tt_join_enter(b);
	else
		tt_store_enter(b);
}

/* The request of the caller of the start: to join, or to report why this rank cannot. */
static void take_card(struct tt_boot *b)
{
	const void *card;
	bool refuses;
	size_t len;

	pthread_mutex_lock(&b->lock);
	card = b->card;
	len = b->card_len;
	refuses = b->refused_start;
	pthread_mutex_unlock(&b->lock);
	if (card)
		enter(b, card, len);
	if (!refuses || b->params.broken)
		return;
	b->params.broken = &b->unfit;
	b->start_deadline = tt_deadline_ms(TT_REFUSE_MS);
	refuse(b);
}

static void take_outbox(struct tt_boot *b)
{
	struct tt_list mine, *pos, *tmp;
	bool stop;

	tt_list_init(&mine);
	pthread_mutex_lock(&b->lock);
	tt_list_each(pos, tmp, &b->outbox)
	{
		tt_list_del(pos);
		tt_list_add(&mine, pos);
	}
	b->outbox_bytes = 0;
	stop = b->stop;
	pthread_mutex_unlock(&b->lock);
	tt_list_each(pos, tmp, &mine)
	{
		struct tt_outmsg *msg = tt_container(pos, struct tt_outmsg, node);

		if (b->phase == TT_PH_UP && msg->type == TT_OUT_EVICT)
			tt_tree_evict(b, msg->to, (const char *)msg->data);
		else if (b->phase == TT_PH_UP)
			tt_tree_send(b, msg);
		free(msg);
	}
	b->stopping = stop; /* after the messages queued before it */
}

/* The new job may number its ranks differently, so only code and text are taken over. */
static void ask_stop(struct tt_boot *b, uint64_t now)
{
	int err;

	if (b->phase >= TT_PH_UP || !b->params.stop || now < b->ask_at)
		return;
	b->ask_at = now + STOP_MS * TT_MS;
	err = b->params.stop(b->params.stop_arg);
	if (err)
		tt_start_fail(b, err, -1, NULL, "%s", tt_fail_text(err));
}

static void timers(struct tt_boot *b)
{
	uint64_t now = tt_now_ns();
	struct tt_list *pos, *tmp;

	tt_list_each(pos, tmp, &b->links)
	{
		struct tt_link *link = tt_container(pos, struct tt_link, node);

		if (now >= link->deadline)
			tt_link_kill(link, -ETIMEDOUT, "the handshake took too long");
	}
	tt_tree_beats(b, now);
	tt_watch_timers(b, now);
	listen_timer(b, now);
	if (b->phase <= TT_PH_UP && b->dialer.active)
		tt_dial_timer(b, now);
	tt_tree_settle(b, now);
	ask_stop(b, now);
	if (b->phase < TT_PH_UP && now >= b->start_deadline) {
		if (b->rank)
			tt_join_timeout(b);
		else
			tt_store_timeout(b, "");
	}
	if (b->phase == TT_PH_UP && b->stopping && now >= b->stop_deadline)
		tt_tree_leave(b);
	if ((b->phase == TT_PH_FAIL || b->phase == TT_PH_BYE) && now >= b->drain_deadline)
		b->phase = TT_PH_END;
}

static int next_timeout(struct tt_boot *b)
{
	uint64_t next = tt_now_ns() + b->limit_ns / 4;
	struct tt_list *pos, *tmp;
	uint64_t at;

	if (b->phase < TT_PH_UP && tt_tree_more(b))
		return 0;
	tt_list_each(pos, tmp, &b->links)
	{
		struct tt_link *link = tt_container(pos, struct tt_link, node);

		next = link->deadline < next ? link->deadline : next;
		if (link->state != TT_LINK_OPEN || link->closing ||
		    (link->kind != TT_LINK_TREE && link->kind != TT_LINK_WATCH))
			continue;
		at = link->last_tx + b->beat_ns;
		next = at < next ? at : next;
		at = link->last_rx + b->limit_ns +
		     TT_MS; /* the time at which its silence is too long */
		next = b->phase == TT_PH_UP && at < next ? at : next;
	}
	if (b->phase == TT_PH_UP)
		next = tt_watch_next(b, next);
	if (b->phase < TT_PH_UP && b->start_deadline < next)
		next = b->start_deadline;
	if (b->phase < TT_PH_UP && b->params.stop && b->ask_at < next)
		next = b->ask_at;
	if (b->phase <= TT_PH_UP && b->dialer.active && !b->dialer.link &&
	    b->dialer.next_try < next)
		next = b->dialer.next_try;
	if (b->phase == TT_PH_UP && b->stopping && b->stop_deadline < next)
		next = b->stop_deadline;
	if ((b->phase == TT_PH_FAIL || b->phase == TT_PH_BYE) && b->drain_deadline < next)
		next = b->drain_deadline;
	if (b->listenfd >= 0 && !b->listen_armed && b->listen_again < next)
		next = b->listen_again;
	return tt_left_ms(next, 60000);
}

static void dispatch(struct tt_boot *b, const struct epoll_event *ev)
{
	struct tt_link *link = ev->data.ptr;
	uint64_t count;

	if (ev->data.ptr == &b->listenfd) {
		accept_some(b);
	} else if (ev->data.ptr == &b->ras_fd) {
		tt_ras_accept(b);
	} else if (ev->data.ptr == &b->wakefd) {
		if (read(b->wakefd, &count, sizeof(count)) < 0)
			return;
	} else if (link->state != TT_LINK_DEAD) {
		tt_link_readable(link);
	}
}

void *tt_ctl_main(void *arg)
{
	struct tt_boot *b = arg;
	struct epoll_event ev[64];
	int n, i, ms;

	tt_spawned_brief();
	watch(b, &b->wakefd, EPOLL_CTL_ADD);
	b->last_loop = tt_now_ns();
	if (b->rank)
		tt_join_begin(b);
	else if (b->params.broken)
		tt_start_refuse(b);
	while (b->phase != TT_PH_END) {
		ms = next_timeout(b);
		n = epoll_wait(b->epfd, ev, 64, ms);
		for (i = 0; i < n; i++)
			dispatch(b, &ev[i]);
		if (b->phase == TT_PH_JOIN)
			take_card(b);
		take_outbox(b);
		/* includes the time of a handler that waited for a lock */
		notice_pause(b, tt_now_ns(), (uint64_t)ms * TT_MS);
		timers(b);
		tt_tree_step(b);
		sweep(b);
		tt_tree_step(b);
		sweep(b);
		bury(b, &b->graves);
		if (b->phase == TT_PH_FAIL && !b->rank && tt_store_all_told(b))
			b->phase = TT_PH_END;
	}
	tt_listen_close(b);
	tt_watch_end(b);
	bury(b, &b->graves);
	bury(b, &b->links);
	pthread_mutex_lock(&b->lock);
	b->failed = !b->started;
	pthread_cond_broadcast(&b->cond);
	pthread_mutex_unlock(&b->lock);
	return NULL;
}
