/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control thread: one epoll loop that joins, forms the tree, keeps it, and ends it. listener.c
 * takes connections, start_end.c ends the start.
 *
 * Frames (link.c describes the sealing). Integers are little-endian; "str" is u16 length and bytes;
 * "addr" is u8 family (4, 6, or 0: none), u16 port, 16 bytes of address (IPv4: the first four).
 *
 * On the join of rank r to rank 0's store (kind 1), open during the start only:
 *	 1 JOIN      r -> 0  addr where r listens for its children, str host
 *	18 CARD      r -> 0  u16 n, n bytes card: r is ready to start
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
 * On links between a rank and one that should be its child (kind 5, peer_watch.c): BEAT and GONE.
 *
 * GO travels down the links that messages use, so no message overtakes it. The neighbours notice a
 * failed process: by the end of its stream or a reset (it died), or by silence for
 * TUTTI_HEARTBEAT_LIMIT (it is stopped, or its host or network is down). They flood GONE. When an
 * inner rank dies the tree falls apart; reparent.c repairs it.
 */
#include "lib/boot/control/control.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "lib/base/reserve.h"
#include "lib/base/spawn.h"
#include "lib/boot/control/ras.h"

#define STOP_MS 100 /* how often params.stop is called, and rank 0 looks into the directory */
#define HELD_NS (20 * TT_MS)	      /* how often rank 0 asks whether the ranks may leave */
#define MOST_NS (TT_BOOT_STOPPED / 2) /* that the loop sleeps */
#define LATE_PART 16 /* of the limit: a loop that is later than this excuses its peers */

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
	if (link->err == -ENOMEM)
		tt_start_no_memory(b);
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
				tt_ctl_unwatch(b, link);
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

void tt_ctl_runs(struct tt_boot *b)
{
	uint64_t ran = atomic_load_explicit(&b->ran, memory_order_relaxed);
	uint64_t now = tt_now_ns(), silent = now - ran;

	if (silent > TT_BOOT_STOPPED) {
		atomic_store_explicit(&b->stopped_until, now, memory_order_relaxed);
		atomic_store_explicit(&b->stopped_from, ran, memory_order_release);
	}
	atomic_store_explicit(&b->ran, now, memory_order_release);
	if (silent < b->limit_ns || b->phase != TT_PH_UP) /* nobody counts silences before */
		return;
	b->silent = silent;
	b->doubt_until = now + 2 * b->limit_ns;
}

/* The control thread may be the last to go on. */
bool tt_boot_stopped(const struct tt_boot *b, uint64_t *from, uint64_t *until)
{
	uint64_t ran = atomic_load_explicit(&b->ran, memory_order_acquire), now = tt_now_ns();

	*from = ran;
	*until = now;
	if (ran && now > ran && now - ran > TT_BOOT_STOPPED)
		return true;
	*from = atomic_load_explicit(&b->stopped_from, memory_order_acquire);
	*until = atomic_load_explicit(&b->stopped_until, memory_order_relaxed);
	return *from;
}

bool tt_ctl_doubts(const struct tt_boot *b)
{
	return tt_now_ns() < b->doubt_until;
}

void tt_ctl_beat(const struct tt_boot *b, struct tt_link *link)
{
	static const unsigned char doubts = 1;

	tt_link_send(link, TT_F_BEAT, &doubts, tt_ctl_doubts(b));
}

/*
 * A rank that has run all the time has not cut this one off, or its link would be closed. What it
 * sent before this rank was continued does not count.
 */
void tt_ctl_heard(struct tt_boot *b, size_t len)
{
	if (!len && tt_now_ns() > b->doubt_until - 2 * b->limit_ns + 2 * b->beat_ns)
		b->doubt_until = 0;
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
	b->flush_taken = b->flush_asked;
	pthread_mutex_unlock(&b->lock);
	tt_list_each(pos, tmp, &mine)
	{
		struct tt_outmsg *msg = tt_container(pos, struct tt_outmsg, node);

		if (b->phase == TT_PH_UP && msg->type == TT_OUT_EVICT)
			tt_tree_evict(b, msg->to, (const char *)msg->data);
		else if (b->phase == TT_PH_UP)
			tt_tree_send(b, msg);
		tt_ctl_sent(b, msg);
	}
	b->stopping = stop; /* after the messages queued before it */
}

/* Whether another reason to end the start is looked for. */
static bool asks(const struct tt_boot *b)
{
	return b->phase < TT_PH_UP && (b->params.stop || (!b->rank && b->params.boot_dir[0]));
}

/* The new job may number its ranks differently, so only code and text are taken over. */
static void ask_stop(struct tt_boot *b, uint64_t now)
{
	int err, code;

	if (!asks(b) || now < b->ask_at)
		return;
	b->ask_at = now + STOP_MS * TT_MS;
	tt_store_look(b, now);
	err = b->params.stop ? b->params.stop(b->params.stop_arg) : 0;
	if (!err)
		return;
	/* a shortage is no new process's own: it returns to the gate */
	code = tt_is_shortage(err) || err == -EAGAIN ? -TUTTI_EBOOT : err;
	tt_start_fail(b, code, -1, NULL, "%s", tt_fail_text(err));
	b->drain_deadline = tt_deadline_ms(STOP_MS); /* the others hear it in another way */
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
	tt_listen_timer(b, now);
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
	uint64_t next = tt_now_ns() + (b->limit_ns / 4 < MOST_NS ? b->limit_ns / 4 : MOST_NS);
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
	if (asks(b) && b->ask_at < next)
		next = b->ask_at;
	if (b->phase <= TT_PH_UP && b->dialer.active && !b->dialer.link &&
	    b->dialer.next_try < next)
		next = b->dialer.next_try;
	if (b->phase == TT_PH_UP && b->stopping && b->stop_deadline < next)
		next = b->stop_deadline;
	if (b->phase == TT_PH_UP && b->leave_held && tt_now_ns() + HELD_NS < next)
		next = tt_now_ns() + HELD_NS;
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
		tt_listen_accept(b);
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
	tt_reserve_enter(); /* the other ranks take this one for dead if it stops */
	tt_ctl_watch(b, &b->wakefd, EPOLL_CTL_ADD);
	b->last_loop = tt_now_ns();
	atomic_store(&b->ran, b->last_loop);
	if (b->rank)
		tt_dial(b, TT_LINK_JOIN, 0);
	else if (b->params.broken)
		tt_start_refuse(b);
	while (b->phase != TT_PH_END) {
		ms = next_timeout(b);
		tt_ctl_runs(b);
		n = epoll_wait(b->epfd, ev, 64, ms);
		tt_ctl_runs(b);
		for (i = 0; i < n; i++)
			dispatch(b, &ev[i]);
		if (b->phase == TT_PH_JOIN)
			tt_start_take_card(b);
		take_outbox(b);
		/* includes the time of a handler that waited for a lock */
		notice_pause(b, tt_now_ns(), (uint64_t)ms * TT_MS);
		timers(b);
		tt_tree_step(b);
		sweep(b);
		tt_tree_step(b);
		sweep(b);
		bury(b, &b->graves);
		tt_reserve_fill(b->nranks);
		tt_ctl_room(b);
		tt_ctl_flushed(b);
		if (b->phase == TT_PH_FAIL && !b->rank && tt_store_all_told(b))
			b->phase = TT_PH_END;
	}
	tt_listen_close(b);
	tt_watch_end(b);
	bury(b, &b->graves);
	bury(b, &b->links);
	pthread_mutex_lock(&b->lock);
	b->failed = !b->started;
	b->flush_done = UINT64_MAX;
	pthread_cond_broadcast(&b->cond);
	pthread_mutex_unlock(&b->lock);
	return NULL;
}
