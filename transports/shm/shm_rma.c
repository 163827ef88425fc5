/* SPDX-License-Identifier: BSD-3-Clause */
/* The hot calls of transport shm: put, get, amo, msg, map, and the cache of the peer's regions. */
#include "config.h"
#include "lib/base/copy.h"
#include "transports/shm/shm.h"

#include <errno.h>
#include <string.h>

#include "lib/base/proc.h"

#ifdef __SANITIZE_THREAD__ /* it does not see fences, and says so where one is inlined */
#pragma GCC diagnostic ignored "-Wtsan"
#endif

/* A checked range of the peer's memory, while `busy` holds it. */
struct span {
	char *ptr; /* NULL: reached by process_vm_* only */
	struct tt_shm_map *map;
	int unmapped; /* 0: ordinary memory; else why it is not mapped, tt_fail_text has the text */
};

static int not_up(struct shm_ep *ep)
{
	return ep->state == SHM_EP_DOWN ? tt_fail(-EPIPE, "%s", ep->closed) : -EAGAIN;
}

/* The peer closed its end: DOWN will follow. */
static int broken(struct shm_ep *ep)
{
	ep->failed = true;
	shm_mark_ready((struct shm_tp *)ep->ep.tp, ep->index);
	return tt_fail(-EPIPE, "%s", ep->closed);
}

/*
 * An exiting process loses its descriptors, and refuses accesses that it allowed before, while its
 * pid still exists. A live process keeps a region's descriptor while this process is busy with it.
 */
static bool is_dying(const struct shm_ep *ep, int err)
{
	if (err == EMFILE || err == ENFILE) /* here: nothing is known of the peer */
		return false;
	return err == ESRCH || err == ENOENT || tt_proc_exits(ep->pid);
}

/* First sight of a region. Called while busy with id, so its entry in the table is stable. */
static int map_region(struct shm_ep *ep, uint32_t slot, uint64_t id)
{
	int err = tt_shm_maps_add(&ep->maps, ep->pid, ep->regs, slot, id);

	if (!err)
		return 0;
	if (is_dying(ep, -err))
		return broken(ep);
	if (err == -EMFILE || err == -ENFILE)
		return tt_fail(err,
			       "shm: a region of %zu bytes of process %d cannot be mapped: %s; "
			       "raise 'ulimit -n'",
			       (size_t)ep->regs[slot].at.len, (int)ep->pid, strerror(-err));
	err = tt_shm_refusal(ep->pid, err, "shm: pool memory");
	if (err == -EPERM)
		return err;
	return tt_fail(err, "shm: a region of %zu bytes of process %d cannot be mapped: %s",
		       (size_t)ep->regs[slot].at.len, (int)ep->pid, strerror(-err));
}

/* Until there is room to map it, the memory is reached at its owner's addresses. */
static int or_unmapped(struct shm_ep *ep, int err, struct span *span)
{
	if (!tt_is_shortage(err) || !ep->vm)
		return err;
	*span = (struct span){.unmapped = err};
	if (!ep->warned)
		tt_warn("shm: memory of process %d cannot be mapped: %s; until it can, it is "
			"reached by process_vm_writev, which is slower",
			(int)ep->pid, tt_fail_text(err));
	ep->warned = true;
	return 0;
}

/* May we push and touch memory? */
static inline int usable(struct shm_ep *ep)
{
	if (ep->state != SHM_EP_UP)
		return not_up(ep);
	if (atomic_load_explicit(&ep->out->state, memory_order_acquire) != ep->attached ||
	    ep->failed)
		return broken(ep);
	return 0;
}

static inline void done(struct shm_ep *ep)
{
	atomic_store_explicit(&ep->out->busy, 0, memory_order_release);
}

static int bad_range(int code, struct shm_ep *ep, uint64_t remote, size_t len)
{
	const char *why = code == -ESTALE   ? "is stale or unknown"
			  : code == -EACCES ? "does not allow this access"
					    : "does not hold this range";

	return tt_fail(code, "shm: the region of process %d %s: [%#llx, +%zu)", (int)ep->pid, why,
		       (unsigned long long)remote, len);
}

/* The checks of every access; on success `busy` is held and done() must follow. */
static int begin(struct shm_ep *ep, uint64_t remote, size_t len, const struct tt_rkey *rkey,
		 unsigned access, struct span *span)
{
	uint64_t id = rkey->word[0], slot = rkey->word[1];
	const struct tt_shm_entry *r;
	int err = 0;

	if (!id || slot >= SHM_REGS)
		return bad_range(-ESTALE, ep, remote, len);
	r = &ep->regs[slot];
	atomic_store(&ep->out->busy, id);
	if (atomic_load(&ep->out->state) != ep->attached)
		err = broken(ep);
	else if (atomic_load(&r->id) != id)
		err = bad_range(-ESTALE, ep, remote, len);
	else if (!(r->at.access & access))
		err = bad_range(-EACCES, ep, remote, len);
	else if (remote < r->base || remote - r->base > r->at.len ||
		 len > r->at.len - (remote - r->base))
		err = bad_range(-EFAULT, ep, remote, len);
	else if (r->at.memfd < 0)
		*span = (struct span){0};
	else if (tt_shm_maps_has(&ep->maps, slot, id) ||
		 !(err = map_region(ep, (uint32_t)slot, id)))
		*span = (struct span){.map = &ep->maps.map[slot],
				      .ptr = ep->maps.map[slot].ptr + (remote - r->base)};
	else
		err = or_unmapped(ep, err, span);
	if (err)
		done(ep);
	return err;
}

static int vm_copy(struct shm_ep *ep, char *local, uint64_t remote, size_t len, bool write)
{
	int err = tt_shm_vm_copy(ep->pid, local, remote, len, write);

	return err && is_dying(ep, -err) ? broken(ep) : err;
}

/* That many lines, and the first line of the entry after them. */
static inline bool has_room(const struct shm_ep *ep, uint32_t lines)
{
	return ep->head.count + lines - ep->tail_seen < ep->head.lines;
}

/* -EAGAIN if the ring is full; the peer may also be dead, which is looked at now and then. */
static int full(struct shm_ep *ep, uint32_t lines)
{
	ep->tail_seen = atomic_load_explicit(&ep->out->tail, memory_order_acquire);
	if (has_room(ep, lines)) {
		ep->full = 0;
		return 0;
	}
	if (++ep->full % 4096 == 0 && tt_proc_gone(ep->pid))
		return broken(ep);
	return -EAGAIN;
}

/* For an entry with this much data. */
static inline int room(struct shm_ep *ep, size_t len)
{
	uint32_t lines = shm_entry_lines(len);

	return has_room(ep, lines) ? 0 : full(ep, lines);
}

/* Fetches a line for writing: a stream of entries then does not wait for each. */
static inline void own_soon(const void *line)
{
#if defined(__x86_64__)
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
	__builtin_prefetch(line, 1);
#endif
}

/*
 * Whether entries answer each other: most have followed one of the peer. A caller that sends many
 * in a row would wait for lines that the peer has just read.
 */
static inline bool alternates(struct shm_ep *ep)
{
	bool answer = ep->tail.count != ep->heard;

	ep->heard = ep->tail.count;
	ep->answers = answer ? ep->answers + (ep->answers < SHM_ANSWERS) : ep->answers / 2;
	return ep->answers >= SHM_ANSWERS / 4;
}

/*
 * Whether the entry after this one is to be at line 0: nothing waits in the ring, and lines were
 * written since it was last looked at; fewer, for the sake of the first-level caches, while
 * entries that are not long answer each other.
 */
static inline bool turns(struct shm_ep *ep)
{
	bool soon = alternates(ep) && ep->next.line - ep->head.line <= 2 * SHM_TURN_SOON;

	if (soon ? ep->next.line / SHM_TURN_SOON <= ep->head.line / SHM_TURN_SOON
		 : ep->next.line / SHM_TURN <= ep->head.line / SHM_TURN)
		return false;
	ep->tail_seen = atomic_load_explicit(&ep->out->tail, memory_order_acquire);
	return ep->head.count == ep->tail_seen;
}

/*
 * The entry to write now. Marks the next one as not written first, so that all stores to this
 * entry's first line come together: the consumer polls that line, and may take it from this core
 * between two stores.
 */
static inline struct shm_entry *open_entry(struct shm_ep *ep, enum shm_kind kind, size_t len)
{
	struct shm_entry *e = shm_entry_at(ep->out, &ep->head);
	bool turn;

	ep->next = shm_after(ep->head, shm_entry_lines(len));
	turn = turns(ep);
	if (turn)
		ep->next = shm_turned(ep->next);
	atomic_store_explicit(&shm_entry_at(ep->out, &ep->next)->seq, ep->next.count,
			      memory_order_relaxed);
	e->kind = (uint16_t)kind;
	e->len = (uint16_t)len;
	e->turn = turn;
	return e;
}

/*
 * The entry must be visible before `watched` and `sleeping` are read: the consumer changes those
 * first and then looks at the ring (Dekker).
 */
static inline void publish(struct shm_ep *ep, struct shm_entry *e, size_t len)
{
	uint32_t seq = ep->head.count + 1, lines = shm_entry_lines(len), i;
	struct shm_at soon;

	ep->head = ep->next;
	atomic_store_explicit(&e->seq, seq, memory_order_release);
	atomic_thread_fence(memory_order_seq_cst);
	/* The next is perhaps as long. The first line of a long entry is fetched with its number.
	 */
	for (i = lines > 1; i <= lines; i++) {
		soon = shm_after(ep->head, i);
		own_soon(shm_entry_at(ep->out, &soon));
	}
	if (!atomic_load(&ep->out->watched))
		shm_ring_bell(ep);
	else if (atomic_load(&ep->peer->sleeping))
		tt_shm_wake(&ep->peer->sleeping, ep->wake_fd);
}

/* There is room(). */
static inline void push(struct shm_ep *ep, enum shm_kind kind, uint32_t note, const void *data,
			size_t len)
{
	struct shm_entry *e = open_entry(ep, kind, len);

	e->note = note;
	if (len)
		tt_copy_data(e->data, data, len);
	publish(ep, e, len);
}

static int shm_put(struct tt_ep *base, const struct tt_rma *rma)
{
	struct shm_ep *ep = (struct shm_ep *)base;
	bool note = rma->flags & TT_RMA_NOTE;
	struct span span;
	int err;

	err = usable(ep);
	if (!err && note)
		err = room(ep, 0);
	if (err)
		return err;
	if (note) /* the peer polls this line: its fetch overlaps with the copy */
		own_soon(shm_entry_at(ep->out, &ep->head));
	if (rma->len) {
		err = begin(ep, rma->remote, rma->len, rma->rkey, TT_ACCESS_WRITE, &span);
		if (err)
			return err;
		if (span.ptr && rma->flags & TT_RMA_AWAY)
			tt_copy_away(span.ptr, rma->local, rma->len);
		else if (span.ptr)
			tt_copy_long(span.ptr, rma->local, rma->len);
		else
			err = vm_copy(ep, rma->local, rma->remote, rma->len, true);
		done(ep);
		if (err)
			return err;
	}
	if (note)
		push(ep, SHM_NOTE, rma->note, NULL, 0);
	return TT_FINISHED;
}

/* A get from ordinary memory. */
static int vm_get(struct shm_ep *ep, const struct tt_rma *rma)
{
	int err = rma->head_len ? vm_copy(ep, rma->head, rma->remote, rma->head_len, false) : 0;

	return err ? err
		   : vm_copy(ep, rma->local, rma->remote + rma->head_len, rma->len - rma->head_len,
			     false);
}

static int shm_get(struct tt_ep *base, const struct tt_rma *rma)
{
	struct shm_ep *ep = (struct shm_ep *)base;
	struct span span;
	int err = usable(ep);

	if (err || !rma->len)
		return err ? err : TT_FINISHED;
	err = begin(ep, rma->remote, rma->len, rma->rkey, TT_ACCESS_READ, &span);
	if (err)
		return err;
	if (span.ptr)
		tt_rma_land(rma, span.ptr);
	else
		err = vm_get(ep, rma);
	done(ep);
	return err ? err : TT_FINISHED;
}

static int shm_amo(struct tt_ep *base, const struct tt_amo *amo)
{
	struct shm_ep *ep = (struct shm_ep *)base;
	uint64_t old = amo->compare;
	_Atomic uint64_t *word;
	struct span span;
	int err = usable(ep);

	if (err)
		return err;
	if (amo->remote % sizeof(uint64_t))
		return tt_fail(-EINVAL, "shm: an atomic needs an address that is a multiple of 8");
	err = begin(ep, amo->remote, sizeof(uint64_t), amo->rkey, TT_ACCESS_WRITE, &span);
	if (err)
		return err;
	word = (_Atomic uint64_t *)span.ptr;
	if (!word && span.unmapped)
		err = span.unmapped;
	else if (!word)
		err = tt_fail(-EOPNOTSUPP,
			      "shm: atomics need memory from tutti_alloc at the target");
	else if (amo->op == TT_AMO_ADD)
		old = atomic_fetch_add(word, amo->operand);
	else
		atomic_compare_exchange_strong(word, &old, amo->operand);
	done(ep);
	if (err)
		return err;
	*amo->result = old;
	return TT_FINISHED;
}

static int shm_msg(struct tt_ep *base, const void *data, size_t len)
{
	struct shm_ep *ep = (struct shm_ep *)base;
	int err = usable(ep);

	if (!err && len > TT_TP_MSG_MAX)
		err = tt_fail(-EMSGSIZE, "shm: message of %zu bytes is too long (at most %d)", len,
			      TT_TP_MSG_MAX);
	if (!err)
		err = room(ep, len);
	if (err)
		return err;
	push(ep, SHM_MSG, 0, data, len);
	return TT_FINISHED;
}

static int shm_brief(struct tt_ep *base, const void *head, size_t head_len, const void *data,
		     size_t len)
{
	struct shm_ep *ep = (struct shm_ep *)base;
	struct shm_entry *e;
	int err = usable(ep);

	if (!err)
		err = room(ep, head_len + len);
	if (err)
		return err;
	e = open_entry(ep, SHM_BRIEF, head_len + len);
	memcpy(e->data, head, head_len);
	if (len)
		tt_copy_data(e->data + head_len, data, len);
	publish(ep, e, head_len + len);
	return TT_FINISHED;
}

static enum tt_peeked shm_peek(struct tt_ep *base, const void **data, size_t *len)
{
	struct shm_ep *ep = (struct shm_ep *)base;
	struct shm_entry *e = shm_entry_at(ep->in, &ep->tail);

	if (ep->state != SHM_EP_UP ||
	    atomic_load_explicit(&e->seq, memory_order_acquire) != ep->tail.count + 1)
		return TT_PEEK_NOTHING;
	if (e->kind != SHM_BRIEF)
		return TT_PEEK_OTHER;
	*data = e->data;
	*len = shm_entry_len(e);
	return TT_PEEK_BRIEF;
}

/* The ring stays watched, if it is. */
static void shm_take(struct tt_ep *base)
{
	struct shm_ep *ep = (struct shm_ep *)base;
	struct shm_entry *e = shm_entry_at(ep->in, &ep->tail);
	size_t len = shm_entry_len(e);

	ep->came = ((struct shm_tp *)base->tp)->clock;
	ep->tail = shm_after_entry(ep->tail, e, len);
	tt_hand_back(e, SHM_ENTRY_HEAD + len);
	atomic_store_explicit(&ep->in->tail, ep->tail.count, memory_order_release);
}

static int shm_map(struct tt_ep *base, uint64_t remote, size_t len, const struct tt_rkey *rkey,
		   void **ptr)
{
	struct shm_ep *ep = (struct shm_ep *)base;
	struct span span;
	int err = usable(ep);

	if (!err)
		err = begin(ep, remote, len, rkey, TT_ACCESS_READ | TT_ACCESS_WRITE, &span);
	if (err)
		return err;
	if (span.ptr) {
		span.map->kept = true;
		*ptr = span.ptr;
	} else if (span.unmapped) {
		err = span.unmapped;
	} else {
		err = tt_fail(-EOPNOTSUPP, "shm: only memory from tutti_alloc can be mapped");
	}
	done(ep);
	return err;
}

static struct tt_open_word shm_open_word(struct tt_ep *base)
{
	struct shm_ep *ep = (struct shm_ep *)base;

	ep->watched = true;
	return (struct tt_open_word){.word = &ep->out->state,
				     .is = ep->attached,
				     .copying = ((struct shm_tp *)base->tp)->head->copying,
				     .id = (uint32_t)ep->pid};
}

const struct tt_ep_ops shm_ep_ops = {
	.put = shm_put,
	.get = shm_get,
	.amo = shm_amo,
	.msg = shm_msg,
	.map = shm_map,
	.brief = shm_brief,
	.peek = shm_peek,
	.take = shm_take,
	.open_word = shm_open_word,
};
