/* SPDX-License-Identifier: BSD-3-Clause */
/* Polls the transports, passes events to channels, and sleeps when nothing happens. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "lib/wire/wire_internal.h"

#define EVENTS 32
/* Longest sleep while items wait for room: not every transport reports room. */
#define BUSY_NS TT_MS
#define SOON_NS 50000
#define DRAIN_QUIET 64 /* looks without events, which may still move a message closer */
#define DRAIN_LOOKS 1024
#define TT_EV_DROPPED ((enum tt_event_kind)(-1))

static void on_note(struct tt_wire *wire, uint32_t note)
{
	struct tt_chan *chan;
	struct tt_token *t;
	int slot;

	if (note & TT_TOKEN_SLOT) {
		chan = tt_slot_chan(wire, note, &slot);
		if (chan)
			tt_chan_slot_note(chan, slot);
		return;
	}
	t = tt_token_find(wire, note);
	if (!t) {
		if (note & TT_TOKEN_PIECE)
			tt_piece_landed(wire, note & ~TT_TOKEN_PIECE);
		return; /* else its receive was taken back */
	}
	if (t->kind == TT_TOKEN_XFER)
		tt_xfer_landed(wire, t->target);
	else if (t->kind == TT_TOKEN_BELL)
		((struct tt_bell *)t->target)->ring(t->target);
	else if (t->kind == TT_TOKEN_ORPHAN)
		tt_orphan_landed(wire, t->target);
}

static void on_done(struct tt_wire *wire, struct tt_wr *wr, int status)
{
	tt_list_del(&wr->link);
	wire->inflight--;
	wr->done(wr, status);
}

/* All events but notes. */
static void on_event(struct tt_wire *wire, const struct tt_event *ev)
{
	struct tt_chan *chan = ev->ep ? ev->ep->user : NULL;
	struct tt_ctrl ctrl;

	if (ev->ep && !chan && ev->kind != TT_EV_DONE) {
		tt_loop_event(wire, ev);
		return;
	}
	switch (ev->kind) {
	case TT_EV_DONE:
		wire->why = ev->status ? ev->data : NULL;
		on_done(wire, ev->user, ev->status);
		wire->why = NULL;
		break;
	case TT_EV_MSG:
		if (ev->len != sizeof(ctrl)) {
			tt_chan_fail(chan, -EPROTO, "a control message of %u bytes", ev->len);
			break;
		}
		memcpy(&ctrl, ev->data, sizeof(ctrl));
		tt_chan_ctrl(chan, &ctrl);
		break;
	case TT_EV_BRIEF:
		tt_port_brief(chan, ev->data, ev->len);
		break;
	case TT_EV_UP:
		tt_chan_up(chan);
		break;
	case TT_EV_DOWN:
		/* Not tt_fail_text: the last error of this thread may be an older one. */
		tt_chan_down(chan, ev->data ? ev->data : tutti_strerror(ev->status));
		break;
	default:
		break;
	}
}

static void flush_busy(struct tt_wire *wire)
{
	struct tt_list *l, *tmp;

	tt_list_each(l, tmp, &wire->busy) tt_chan_flush(tt_container(l, struct tt_chan, busy));
}

int tt_wire_progress(struct tt_wire *wire)
{
	struct tt_event ev[EVENTS];
	int i, k, n, total = 0;

	wire->looks++;
	wire->uses++;
	for (i = 0; i < wire->ntps; i++) {
		if (!wire->tp[i].endpoints)
			continue;
		n = wire->tp[i].tp->ops->poll(wire->tp[i].tp, ev, EVENTS);
		wire->batch = ev;
		wire->batch_len = n;
		wire->ticks = 0;
		for (k = 0; k < n; k++)
			if (ev[k].kind == TT_EV_NOTE) /* the most frequent event */
				on_note(wire, ev[k].note);
			else if (ev[k].kind != TT_EV_DROPPED)
				on_event(wire, &ev[k]);
		wire->batch_len = 0;
		total += n > 0 ? n : 0;
	}
	if (!tt_list_empty(&wire->busy))
		flush_busy(wire);
	return total;
}

void tt_wire_drain(struct tt_wire *wire)
{
	int looks, quiet = 0;

	if (wire->batch_len) /* in a handler of an event */
		return;
	for (looks = 0; looks < DRAIN_LOOKS && quiet < DRAIN_QUIET; looks++) {
		quiet = tt_wire_progress(wire) ? 0 : quiet + 1;
		if (!quiet && wire->params.alive)
			wire->params.alive(wire->params.arg);
	}
	tt_wire_wake_ready(wire);
	tt_wire_leave(wire);
}

uint64_t tt_wire_ticks(struct tt_wire *wire)
{
	if (!wire->batch_len)
		return tt_ticks();
	if (!wire->ticks)
		wire->ticks = tt_ticks();
	return wire->ticks;
}

uint64_t tt_wire_looks(const struct tt_wire *wire)
{
	return wire->looks;
}

uint64_t tt_wire_uses(const struct tt_wire *wire)
{
	return wire->uses;
}

bool tt_wire_asleep(const struct tt_wire *wire)
{
	return atomic_load(&wire->sleepers) > 0;
}

bool tt_wire_is_minded(const struct tt_wire *wire)
{
	return wire->pollers || wire->brief;
}

bool tt_wire_slow_poll(const struct tt_wire *wire)
{
	int i;

	for (i = 0; i < wire->ntps; i++)
		if (wire->tp[i].endpoints && wire->tp[i].tp->caps & TT_CAP_SLOW_POLL)
			return true;
	return false;
}

/* ep is being closed, or wr taken back: removes events that name it from the batch at hand. */
void tt_wire_drop_events(struct tt_wire *wire, const struct tt_ep *ep, const struct tt_wr *wr)
{
	int i;

	for (i = 0; i < wire->batch_len; i++) {
		struct tt_event *ev = &wire->batch[i];

		if (ev->kind == TT_EV_DONE ? wr && ev->user == wr
					   : ep && ev->kind != TT_EV_NOTE && ev->ep == ep)
			ev->kind = TT_EV_DROPPED;
	}
}

int tt_wire_pending(struct tt_wire *wire)
{
	return wire->inflight + !tt_list_empty(&wire->busy);
}

int tt_wire_in_flight(const struct tt_wire *wire)
{
	return wire->inflight;
}

/*
 * Wakes those that sleep, not one that naps. One write is enough until the first sleeper empties
 * wake_fd, which clears signalled before it looks whether it is ready.
 */
static void rouse(struct tt_wire *wire)
{
	uint64_t one = 1;

	if (!atomic_load(&wire->sleepers) || atomic_exchange(&wire->signalled, true))
		return;
	(void)!write(wire->wake_fd, &one, sizeof(one));
}

void tt_wire_started(struct tt_wire *wire)
{
	if (!tt_wire_slow_poll(wire))
		wire->uses++;
	if (!wire->soon)
		rouse(wire);
}

void tt_wire_wake(struct tt_wire *wire)
{
	if (atomic_load(&wire->napping) && atomic_exchange(&wire->napping, 0))
		tt_word_wake(&wire->napping);
	rouse(wire);
}

/* Starts the timer of soon_fd, or stops it (0) and takes back what it has told. */
static void set_timer(struct tt_wire *wire, long ns)
{
	struct itimerspec left = {.it_value = {.tv_nsec = ns}};

	wire->soon = !timerfd_settime(wire->soon_fd, 0, &left, NULL) && ns;
}

void tt_wire_wake_soon(struct tt_wire *wire)
{
	if (!atomic_load(&wire->sleepers))
		return;
	if (wire->soon_fd >= 0 && !wire->soon)
		set_timer(wire, SOON_NS);
	if (wire->soon)
		return;
	if (wire->soon_fd < 0) /* threads that sleep now do not look at it */
		wire->soon_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	rouse(wire);
}

void tt_wire_nap(struct tt_wire *wire, uint64_t ns, bool (*ready)(void *), void *arg)
{
	tt_wire_lock(wire);
	if (ready(arg)) {
		tt_wire_unlock(wire);
		return;
	}
	wire->brief++;
	tt_wire_quit(wire);
	atomic_store(&wire->napping, 1);
	tt_wire_unlock(wire);
	tt_word_wait(&wire->napping, 1, ns);
	atomic_store(&wire->napping, 0);
	tt_wire_lock(wire);
	wire->brief--;
	tt_wire_enter(wire);
	tt_wire_unlock(wire);
}

struct sleeper {
	struct tt_list link;
	bool (*ready)(void *);
	void *arg;
	/* The transports whose descriptors it sleeps on, a bit each: none while another thread
	   polls, which sleeps on them or wakes this one afterwards. */
	unsigned on;
};

/* Fills fds with the descriptors to sleep on; false: an event is there already. */
static bool arm(struct tt_wire *wire, struct pollfd *fds, int *nfds, unsigned *on)
{
	int i, fd;

	*on = 0;
	for (i = 0; i < wire->ntps; i++) {
		if (!wire->tp[i].endpoints)
			continue;
		if (wire->tp[i].tp->ops->arm(wire->tp[i].tp, &fd))
			return false;
		fds[(*nfds)++] = (struct pollfd){.fd = fd, .events = POLLIN};
		*on |= 1u << i;
	}
	return true;
}

void tt_wire_wake_ready(struct tt_wire *wire)
{
	struct tt_list *l, *tmp;

	tt_list_each(l, tmp, &wire->sleeping)
	{
		const struct sleeper *s = tt_container(l, struct sleeper, link);

		if (!s->ready(s->arg))
			continue;
		rouse(wire);
		return;
	}
}

void tt_wire_leave(struct tt_wire *wire)
{
	struct pollfd fds[TT_TP_MAX];
	struct tt_list *l, *tmp;
	bool armed;
	unsigned on;
	int nfds = 0;

	if (wire->pollers || tt_list_empty(&wire->sleeping))
		return;
	armed = arm(wire, fds, &nfds, &on);
	tt_list_each(l, tmp, &wire->sleeping)
	{
		const struct sleeper *s = tt_container(l, struct sleeper, link);

		if (armed && !(on & ~s->on) && !s->ready(s->arg))
			continue;
		rouse(wire);
		return;
	}
}

void tt_wire_enter(struct tt_wire *wire)
{
	wire->pollers++;
}

void tt_wire_quit(struct tt_wire *wire)
{
	wire->pollers--;
	tt_wire_leave(wire);
}

/* Whether the transport of one of these descriptors, in the order of arm(), has something to do. */
static bool stirred(const struct tt_wire *wire, const struct pollfd *fds, unsigned on)
{
	int i, k = 0;

	for (i = 0; i < wire->ntps; i++)
		if (on & 1u << i && fds[k++].revents && wire->tp[i].tp->caps & TT_CAP_SLOW_POLL &&
		    !(wire->tp[i].tp->caps & TT_CAP_TIMED_WAKE))
			return true;
	return false;
}

/*
 * The first sleeper empties wake_fd, under the lock. If woken threads emptied it, one of them
 * could take the signal from another that has not seen it yet. Until that thread has left, others
 * cannot sleep: the caller gives way to it.
 */
enum tt_slept tt_wire_sleep(struct tt_wire *wire, uint64_t for_ns, bool (*ready)(void *), void *arg)
{
	struct pollfd fds[TT_TP_MAX + 3] = {{.fd = wire->wake_fd, .events = POLLIN}};
	struct tt_wire_sleeper *other = &wire->params.sleeper;
	struct sleeper me = {.ready = ready, .arg = arg};
	int nfds = 1, found = -1, own;
	struct timespec limit;
	enum tt_slept how;
	uint64_t count;
	bool armed, first, brief;

	tt_list_init(&me.link);
	tt_wire_lock(wire);
	if (atomic_load(&wire->sleepers) && atomic_load(&wire->signalled)) {
		tt_wire_unlock(wire);
		return TT_SLEPT_NOT;
	}
	wire->pollers--;
	first = atomic_fetch_add(&wire->sleepers, 1) == 0;
	if (first) { /* in this order: a write that is read here leaves `signalled` clear */
		(void)!read(wire->wake_fd, &count, sizeof(count));
		atomic_store(&wire->signalled, false);
	}
	if (other->lie_down)
		fds[nfds++] =
			(struct pollfd){.fd = other->lie_down(other->arg, first), .events = POLLIN};
	if (wire->soon_fd >= 0)
		fds[nfds++] = (struct pollfd){.fd = wire->soon_fd, .events = POLLIN};
	own = nfds;
	armed = !ready(arg) && (wire->pollers || arm(wire, fds, &nfds, &me.on));
	if (armed) {
		wire->stats.sleeps++;
		tt_list_add(&wire->sleeping, &me.link);
	}
	if (!tt_list_empty(&wire->busy) && for_ns > BUSY_NS)
		for_ns = BUSY_NS;
	brief = for_ns <= BUSY_NS;
	wire->brief += brief;
	tt_wire_unlock(wire);
	limit = (struct timespec){(time_t)(for_ns / TT_SEC), (long)(for_ns % TT_SEC)};
	if (armed)
		found = ppoll(fds, (nfds_t)nfds, &limit, NULL);
	tt_wire_lock(wire);
	tt_list_del(&me.link);
	wire->brief -= brief;
	if (atomic_fetch_sub(&wire->sleepers, 1) == 1 && other->get_up)
		other->get_up(other->arg);
	/* what woke it may have come after its time was out */
	if (found || wire->soon || atomic_load(&wire->signalled))
		how = TT_SLEPT_WOKEN;
	else
		how = !tt_wire_is_minded(wire) && ready(arg) ? TT_SLEPT_LATE : TT_SLEPT_OUT;
	if (found > 0 && !wire->pollers && stirred(wire, fds + own, me.on))
		how = TT_SLEPT_STIRRED;
	if (wire->soon)
		set_timer(wire, 0);
	wire->pollers++;
	tt_wire_unlock(wire);
	return how;
}
