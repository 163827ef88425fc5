/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transport shm: the processes of one host, through shared memory.
 *
 * A put copies from the sender's memory straight into the receiver's memory and then adds an entry
 * to the receiver's ring; get and amo do not involve the target. Every operation finishes within
 * the call. Memory with a memfd is mapped on first use; other memory, and memory for whose mapping
 * there is no room, is accessed by process_vm_writev (shm_reg.c). shm.h describes the layout, rings
 * and fences.
 *
 * A receiver sleeps on a pipe, because only a pipe has a file descriptor and can be opened by
 * another process. A sender writes a byte only while the receiver says that it sleeps.
 *
 * The control tree watches for dead processes. This transport notices a dead peer only when it
 * pushes to it or opens its memory.
 */
#include "config.h"
#include "transports/shm/shm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/copy.h"

#define RING_QUOTA 16 /* entries of one ring before the next has its turn */

extern const struct tt_tp_ops tt_shm_tp;

static int shm_query(const struct tt_tp_params *params, struct tt_tp_device *dev, int max)
{
	int fd = memfd_create("tutti-probe", MFD_CLOEXEC);
	char path[32];

	if (max < 1)
		goto out;
	memset(dev, 0, sizeof(*dev));
	snprintf(dev->name, sizeof(dev->name), "shm");
	snprintf(dev->detail, sizeof(dev->detail), "memfd segments; ordinary memory %s",
		 shm_vm_allowed() ? "by process_vm_writev" : "not reachable (ptrace restrictions)");
	dev->numa = -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	dev->usable = fd >= 0 && !access(path, R_OK | W_OK);
	snprintf(dev->why, sizeof(dev->why), "%s",
		 fd < 0	       ? "memfd_create is not available"
		 : dev->usable ? "memfd and /proc are available"
			       : "/proc is not mounted");
out:
	if (fd >= 0)
		close(fd);
	return 1;
}

static int shm_tp_open(const struct tt_tp_params *params, struct tt_tp **tpp)
{
	struct shm_tp *tp = calloc(1, sizeof(*tp));
	int err = -ENOMEM;

	if (!tp)
		return tt_fail(err, "shm: out of memory");
	tp->eps = calloc(SHM_RINGS, sizeof(struct shm_ep *));
	if (!tp->eps) {
		tt_fail(err, "shm: out of memory");
		goto free_tp;
	}
	tp->pid = (uint32_t)getpid();
	memcpy(tp->probe, params->cookie, sizeof(tp->probe));
	tp->alive = params->alive;
	tp->alive_arg = params->alive_arg;
	tp->fence_ns = (uint64_t)params->env->heartbeat_limit.number * TT_MS / 4;
	err = tt_shm_seg_create(&tp->own, SHM_SEG_NAME, SHM_SEG_SIZE, SHM_MAGIC, params->cookie);
	if (err)
		goto free_tp;
	tp->seg = (char *)tp->own.head;
	tp->head = (struct shm_head *)tp->seg;
	err = tt_shm_table_init(&tp->regs, (struct tt_shm_entry *)(tp->seg + SHM_OFF_REGS),
				SHM_REGS);
	if (err)
		goto free_seg;
	tp->tp.ops = &tt_shm_tp;
	tp->tp.caps = TT_CAP_LOCAL_ANY | TT_CAP_AUTO_PROGRESS | TT_CAP_AMO | TT_CAP_MAP |
		      TT_CAP_GET_HEAD | TT_CAP_AT_ONCE;
	if (shm_vm_allowed())
		tp->tp.caps |= TT_CAP_REG_ANY;
	snprintf(tp->tp.detail, sizeof(tp->tp.detail), "shm over memfd%s",
		 tp->tp.caps & TT_CAP_REG_ANY ? " and process_vm" : "");
	*tpp = &tp->tp;
	return 0;
free_seg:
	tt_shm_seg_free(&tp->own);
free_tp:
	free(tp->eps);
	free(tp);
	return err;
}

static void shm_tp_close(struct tt_tp *base)
{
	struct shm_tp *tp = (struct shm_tp *)base;

	shm_free_old(tp);
	tt_shm_seg_free(&tp->own);
	tt_shm_table_free(&tp->regs);
	free(tp->eps);
	free(tp);
}

static int shm_ep_open(struct tt_tp *base, struct tt_ep **epp, void *blob, size_t *len)
{
	struct shm_tp *tp = (struct shm_tp *)base;
	struct shm_blob b = {.magic = SHM_MAGIC};
	struct shm_ep *ep = calloc(1, sizeof(*ep));
	int err;

	if (!ep)
		return tt_fail(-ENOMEM, "shm: out of memory");
	err = shm_ring_open(tp, &ep->index, &ep->gen);
	if (err) {
		free(ep);
		return err;
	}
	ep->ep.ops = &shm_ep_ops;
	ep->ep.tp = base;
	ep->in = shm_ring_at(tp->seg, ep->index);
	ep->tail.lines = shm_ring_lines(ep->index);
	tp->eps[ep->index] = ep;
	memcpy(b.cookie, tp->head->id.cookie, sizeof(b.cookie));
	b.probe = base->caps & TT_CAP_REG_ANY ? (uint64_t)(uintptr_t)tp->probe : 0;
	b.pid = tp->pid;
	b.uid = (uint32_t)geteuid();
	b.seg_fd = tp->own.fd;
	b.ring = ep->index;
	b.gen = ep->gen;
	memcpy(blob, &b, sizeof(b));
	*len = sizeof(b);
	*epp = &ep->ep;
	return 0;
}

static void set_state(struct shm_ep *ep, enum shm_ep_state state)
{
	struct shm_tp *tp = (struct shm_tp *)ep->ep.tp;

	tp->nconnecting += (state == SHM_EP_CONNECTING) - (ep->state == SHM_EP_CONNECTING);
	ep->state = state;
}

static int shm_ep_connect(struct tt_ep *base, const void *blob, size_t len, bool active)
{
	struct shm_ep *ep = (struct shm_ep *)base;
	struct shm_blob b;
	int err;

	if (ep->state != SHM_EP_NEW)
		return tt_fail(-EISCONN, "shm: the endpoint is connected already");
	if (len != sizeof(b))
		return tt_fail(-EINVAL, "shm: an address of %zu bytes (expected %zu)", len,
			       sizeof(b));
	memcpy(&b, blob, sizeof(b));
	if (b.magic != SHM_MAGIC || b.ring >= SHM_RINGS || !b.pid || b.pid > INT32_MAX ||
	    b.reserved)
		return tt_fail(-EINVAL, "shm: this is not the address of a shm endpoint");
	err = shm_peer_attach(ep, &b);
	if (err)
		return err;
	set_state(ep, SHM_EP_CONNECTING);
	shm_mark_ready((struct shm_tp *)base->tp, ep->index); /* the peer may be there already */
	return 0;
}

static bool has_entry(const struct shm_ep *ep)
{
	return atomic_load(&shm_entry_at(ep->in, &ep->tail)->seq) == ep->tail.count + 1;
}

static void unwatch(struct shm_tp *tp, unsigned i)
{
	struct shm_ep *ep = tp->watched[i];

	tp->watched[i] = tp->watched[--tp->nwatched];
	/* Dekker: see publish() in shm_rma.c */
	atomic_store(&ep->in->watched, 0);
	if (has_entry(ep))
		shm_mark_ready(tp, ep->index);
}

/* An entry has come: watches its ring, perhaps in place of one that has had none for long. */
static void watch(struct shm_tp *tp, struct shm_ep *ep)
{
	unsigned i, oldest = 0;

	ep->came = tp->clock;
	if (atomic_load_explicit(&ep->in->watched, memory_order_relaxed))
		return;
	for (i = 1; i < tp->nwatched; i++)
		if (tp->clock - tp->watched[i]->came > tp->clock - tp->watched[oldest]->came)
			oldest = i;
	if (tp->nwatched == SHM_WATCHED) {
		if (tp->clock - tp->watched[oldest]->came < SHM_WATCH_POLLS)
			return;
		unwatch(tp, oldest);
	}
	tp->watched[tp->nwatched++] = ep;
	atomic_store(&ep->in->watched, 1);
}

static void clear_ready(struct shm_tp *tp, uint32_t ring)
{
	tp->ready[ring / 64] &= ~(1ull << ring % 64);
	if (!tp->ready[ring / 64])
		tp->ready_sum &= ~(1ull << ring / 64);
}

static void shm_ep_close(struct tt_ep *base)
{
	struct shm_ep *ep = (struct shm_ep *)base;
	struct shm_tp *tp = (struct shm_tp *)base->tp;
	unsigned i;

	set_state(ep, SHM_EP_DOWN);
	for (i = 0; i < tp->nwatched; i++)
		if (tp->watched[i] == ep)
			unwatch(tp, i);
	shm_ring_close(ep);
	tt_shm_maps_free(&ep->maps);
	if (ep->out)
		shm_peer_detach(ep);
	clear_ready(tp, ep->index);
	tp->eps[ep->index] = NULL;
	free(ep);
}

void shm_mark_ready(struct shm_tp *tp, uint32_t ring)
{
	tp->ready[ring / 64] |= 1ull << ring % 64;
	tp->ready_sum |= 1ull << ring / 64;
}

/* A peer that closes before it connected has no bell of ours to ring: look at its ring. */
static void check_connecting(struct shm_tp *tp)
{
	struct shm_ep *ep;
	uint32_t i;

	for (i = 0; i < tp->neps; i++) {
		ep = tp->eps[i];
		if (!ep || ep->state != SHM_EP_CONNECTING ||
		    atomic_load_explicit(&ep->out->state, memory_order_relaxed) == ep->attached)
			continue;
		ep->failed = true;
		shm_mark_ready(tp, i);
	}
}

/* Move the bells of the segment to our own, where no peer interferes. */
static void take_bells(struct shm_tp *tp)
{
	uint64_t sum = atomic_exchange(&tp->head->sum, 0);
	int w;

	for (; sum; sum &= sum - 1) {
		w = __builtin_ctzll(sum);
		tp->ready[w] |= atomic_exchange(&tp->head->bell[w], 0);
		if (tp->ready[w])
			tp->ready_sum |= 1ull << w;
	}
}

/* The first ready ring from `from` on, around the end. There is one. */
static uint32_t next_ready(const struct shm_tp *tp, uint32_t from)
{
	uint32_t w = from / 64;
	uint64_t bits = tp->ready[w] & ~0ull << from % 64, sum;

	if (!bits) {
		sum = w < 63 ? tp->ready_sum & ~0ull << (w + 1) : 0;
		w = (uint32_t)__builtin_ctzll(sum ? sum : tp->ready_sum);
		bits = tp->ready[w];
	}
	return w * 64 + (uint32_t)__builtin_ctzll(bits);
}

/* Copies an entry's message, so that its lines are free again at once. */
static void copy(struct shm_ep *ep, const struct shm_entry *e, size_t len, uint8_t *msg,
		 struct tt_event *ev)
{
	ev->kind = e->kind == SHM_MSG ? TT_EV_MSG : TT_EV_BRIEF;
	ev->ep = &ep->ep;
	ev->len = (uint32_t)len;
	tt_copy_data(msg, e->data, len);
	ev->data = msg;
}

#define SOON 8 /* lines */

/*
 * Several short entries wait: fetches a line that follows, so that the next ones do not each wait
 * for the other core. Of long entries the core fetches lines by itself.
 */
static inline void fetch_soon(const struct shm_ep *ep, uint32_t lines)
{
	struct shm_at soon = shm_after(ep->tail, SOON);

	if (lines <= SOON / 2)
		__builtin_prefetch(shm_entry_at(ep->in, &soon));
}

/* Take entries; *more is set if some may be left. msgs has room for max messages. */
static int drain(struct shm_ep *ep, uint8_t (*msgs)[TT_TP_BRIEF_MAX], struct tt_event *ev, int max,
		 bool *more)
{
	struct shm_entry *e;
	size_t len;
	int n;

	*more = true;
	for (n = 0; n < max && n < RING_QUOTA; n++) {
		e = shm_entry_at(ep->in, &ep->tail);
		if (atomic_load_explicit(&e->seq, memory_order_acquire) != ep->tail.count + 1) {
			*more = false;
			break;
		}
		ev[n] = (struct tt_event){.kind = TT_EV_NOTE, .note = e->note};
		len = shm_entry_len(e);
		if (n)
			fetch_soon(ep, shm_entry_lines(len));
		if (e->kind == SHM_MSG || e->kind == SHM_BRIEF)
			copy(ep, e, len, msgs[n], &ev[n]);
		ep->tail = shm_after_entry(ep->tail, e, len);
		tt_hand_back(e, SHM_ENTRY_HEAD + len);
	}
	if (!n)
		return 0;
	atomic_store_explicit(&ep->in->tail, ep->tail.count, memory_order_release);
	watch((struct shm_tp *)ep->ep.tp, ep);
	return n;
}

/* Everything that can be new about one endpoint. *more: not served to the end. */
static int serve(struct shm_ep *ep, uint8_t (*msgs)[TT_TP_BRIEF_MAX], struct tt_event *ev, int max,
		 bool *more)
{
	/* Read the state first: entries pushed before the peer left are visible after that. */
	uint32_t state = (uint32_t)atomic_load_explicit(&ep->in->state, memory_order_acquire);
	int n = 0;

	*more = false;
	if (ep->state == SHM_EP_CONNECTING && (state == SHM_ATTACHED || state == SHM_LEFT)) {
		set_state(ep, SHM_EP_UP);
		ev[n++] = (struct tt_event){.kind = TT_EV_UP, .ep = &ep->ep};
	}
	if (ep->state == SHM_EP_UP)
		n += drain(ep, msgs + n, ev + n, max - n, more);
	if (ep->out && atomic_load_explicit(&ep->in->sweep, memory_order_relaxed) &&
	    atomic_exchange(&ep->in->sweep, 0))
		tt_shm_maps_sweep(&ep->maps, ep->regs);
	if (*more || !(ep->failed || state == SHM_LEFT) || ep->state == SHM_EP_NEW ||
	    ep->state == SHM_EP_DOWN)
		return n;
	if (n == max) {
		*more = true;
		return n;
	}
	set_state(ep, SHM_EP_DOWN);
	ev[n++] = (struct tt_event){
		.kind = TT_EV_DOWN, .status = -EPIPE, .data = ep->closed, .ep = &ep->ep};
	return n;
}

static void disarm(struct shm_tp *tp)
{
	atomic_store(&tp->head->sleeping, 0);
	tt_shm_drain(&tp->own);
	tp->armed = false;
}

static int shm_poll(struct tt_tp *base, struct tt_event *ev, int max)
{
	struct shm_tp *tp = (struct shm_tp *)base;
	uint32_t ring;
	unsigned i;
	bool more;
	int n = 0;

	tp->clock++;
	if (tp->armed)
		disarm(tp);
	if (atomic_load_explicit(&tp->head->sum, memory_order_relaxed))
		take_bells(tp);
	for (i = 0; i < tp->nwatched; i++)
		if (has_entry(tp->watched[i]))
			shm_mark_ready(tp, tp->watched[i]->index);
	if (tp->nconnecting && ++tp->polls % 64 == 0)
		check_connecting(tp);
	if (!tp->ready_sum)
		return 0;
	if (max > SHM_BATCH)
		max = SHM_BATCH;
	while (n < max && tp->ready_sum) {
		ring = next_ready(tp, tp->cursor);
		more = false;
		if (tp->eps[ring])
			n += serve(tp->eps[ring], tp->msgs + n, ev + n, max - n, &more);
		if (!more)
			clear_ready(tp, ring);
		tp->cursor = (ring + 1) % SHM_RINGS;
	}
	return n;
}

static int shm_arm(struct tt_tp *base, int *fd)
{
	struct shm_tp *tp = (struct shm_tp *)base;
	bool found;
	unsigned i;

	if (tp->nconnecting)
		check_connecting(tp);
	if (tp->ready_sum)
		return -EAGAIN;
	/* Dekker: say that we sleep, then look; who rings sets the bell, then looks
	 * (shm_ring_bell). */
	atomic_store(&tp->head->sleeping, 1);
	tp->armed = true;
	found = atomic_load(&tp->head->sum);
	for (i = 0; i < tp->nwatched; i++)
		found |= has_entry(tp->watched[i]);
	if (found) {
		disarm(tp);
		return -EAGAIN;
	}
	*fd = tp->own.wake[0];
	return 0;
}

/*
 * The peer's memory is mapped by slots of its table: a few in most programs. The first LARGE peers
 * have longer rings.
 */
static size_t shm_peer_bytes(const struct tt_env *env)
{
	(void)env;
	return SHM_RING_SIZE + sizeof(struct shm_ep) + 16 * sizeof(struct tt_shm_map);
}

const struct tt_tp_ops tt_shm_tp = {
	.name = "shm",
	.query = shm_query,
	.peer_bytes = shm_peer_bytes,
	.open = shm_tp_open,
	.close = shm_tp_close,
	.reg = shm_reg,
	.dereg = shm_dereg,
	.ep_open = shm_ep_open,
	.ep_connect = shm_ep_connect,
	.ep_close = shm_ep_close,
	.poll = shm_poll,
	.arm = shm_arm,
};
