/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transport shm: opening a peer's segment, and the states of rings, bells and fences.
 */
#include "config.h"
#include "transports/shm/shm.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/proc.h"

#define END_MS 20    /* until a killed process is gone, at least */
#define MARK_US 1000 /* until a store of a thread that runs is seen, and much more */

static bool ring_is_free(struct shm_tp *tp, uint32_t i)
{
	struct shm_ring *ring = shm_ring_at(tp->seg, i);
	uint32_t state = (uint32_t)atomic_load_explicit(&ring->state, memory_order_acquire);

	if (tp->eps[i])
		return false;
	if (state == SHM_CLOSED)
		return tt_proc_gone(shm_producer(ring));
	return state == SHM_FREE;
}

int shm_ring_open(struct shm_tp *tp, uint32_t *index, uint32_t *gen)
{
	struct shm_ring *ring;
	uint32_t i;

	for (i = 0; i < tp->neps && !ring_is_free(tp, i); i++)
		;
	if (i == SHM_RINGS)
		return tt_fail(-EMFILE, "shm: more than %d endpoints in one process", SHM_RINGS);
	ring = shm_ring_at(tp->seg, i);
	*gen = (uint32_t)(atomic_load(&ring->state) >> 32) + 1;
	atomic_store_explicit(&shm_entry_at(ring, &(struct shm_at){0})->seq, 0,
			      memory_order_relaxed);
	atomic_store(&ring->tail, 0);
	atomic_store(&ring->busy, 0);
	atomic_store(&ring->sweep, 0);
	atomic_store(&ring->watched, 0);
	atomic_store(&ring->producer, (uint64_t)*gen << 32);
	atomic_store(&ring->state, shm_state(*gen, SHM_OPEN));
	if (i == tp->neps)
		tp->neps++;
	*index = i;
	return 0;
}

/*
 * Peers that are taken for dead are fenced in the control thread, or while it waits for the lock:
 * no heartbeats leave to ranks that have just become its neighbours in the control tree. All such
 * peers together may take a quarter of the heartbeat limit, and another one until they are gone.
 */
static uint64_t fence_end(struct shm_tp *tp)
{
	uint64_t now = tt_now_ns();

	if (now >= tp->fence_again) {
		tp->fence_end = now + tp->fence_ns;
		tp->fence_again = tp->fence_end + 4 * tp->fence_ns;
	}
	return tp->fence_end;
}

int shm_fence(struct shm_tp *tp, struct shm_ring *ring, uint64_t id)
{
	uint64_t deadline = 0;
	unsigned turn;

	for (turn = 0; atomic_load(&ring->busy) == id; turn++) {
		if (turn % 64 != 63) {
			tt_cpu_relax();
			continue;
		}
		sched_yield();
		if (turn % 4096 != 4095)
			continue;
		if (tt_proc_gone(shm_producer(ring)))
			return 0;
		if (!deadline)
			deadline = tt_deadline_ms(SHM_FENCE_MS);
		if (tt_passed(deadline))
			return -ETIMEDOUT;
		if (tp->alive)
			tp->alive(tp->alive_arg);
	}
	return 0;
}

/* Whether the peer writes into memory of this process, over its ring or by a copy of its own. */
static bool is_writing(const struct shm_ep *ep)
{
	uint32_t self = (uint32_t)getpid();
	int i = 0;

	if ((uint32_t)atomic_load(&ep->in->state) == SHM_CLOSED && atomic_load(&ep->in->busy))
		return true;
	while (ep->peer && i < TT_TP_COPYING && atomic_load(&ep->peer->copying[i]) != self)
		i++;
	return ep->peer && i < TT_TP_COPYING;
}

/* A process that runs, and is not taken for dead, gets the time that its copy may need. */
static uint64_t writer_deadline(struct shm_tp *tp, const struct shm_ep *ep)
{
	return ep->ep.dead || tt_proc_stopped(shm_producer(ep->in)) ? fence_end(tp)
								    : tt_deadline_ms(SHM_FENCE_MS);
}

/*
 * Later accesses find the ring closed. A thread that runs may have looked at the ring before its
 * mark can be seen here: a process taken for dead, which need not be stopped, is looked at again.
 */
static int wait_for_writer(struct shm_tp *tp, const struct shm_ep *ep)
{
	bool again = ep->ep.dead && ep->peer;
	uint64_t deadline = 0;
	unsigned turn;

	for (turn = 0; is_writing(ep) || again; turn++) {
		if (!is_writing(ep)) {
			again = false;
			usleep(MARK_US);
			continue;
		}
		if (turn % 64 != 63) {
			tt_cpu_relax();
			continue;
		}
		if (tt_proc_gone(shm_producer(ep->in)))
			return 0;
		if (!deadline)
			deadline = writer_deadline(tp, ep);
		if (tt_passed(deadline))
			return -ETIMEDOUT;
		sched_yield();
		if (tp->alive)
			tp->alive(tp->alive_arg);
	}
	return 0;
}

/* Whether to end a process because it may still write into this one's memory. */
static bool may_end(const struct shm_ep *ep, pid_t pid)
{
	return pid > 1 && pid == ep->pid && pid != getpid() &&
	       (ep->ep.dead || tt_proc_stopped(pid));
}

/*
 * A peer may still write into this process's memory, and the fence has timed out. If it is taken
 * for dead, or has been stopped in the middle of that, it would go on some time: it is ended. A
 * connection is also closed for a call that was given up, whose peer is not taken for dead: the
 * buffers of that call could not be used again either.
 */
static void end_writer(const struct shm_tp *tp, const struct shm_ep *ep)
{
	uint64_t until = tt_deadline_ms(END_MS);
	pid_t pid = shm_producer(ep->in);
	const char *why =
		ep->ep.dead ? "is taken for dead" : "was stopped, and a call was given up,";

	if (!may_end(ep, pid) || kill(pid, SIGKILL)) {
		tt_warn("shm: process %d is in the middle of a transfer with this process; end it "
			"before its buffers here are used again",
			(int)pid);
		return;
	}
	if (until < tp->fence_end + tp->fence_ns)
		until = tp->fence_end + tp->fence_ns;
	tt_warn("shm: process %d %s in the middle of a transfer with this process; it is ended, so "
		"that buffers here can be used again",
		(int)pid, why);
	while (!tt_proc_gone(pid) && !tt_passed(until)) {
		usleep(1000);
		if (tp->alive)
			tp->alive(tp->alive_arg);
	}
	if (!tt_proc_gone(pid))
		tt_warn("shm: process %d is killed, but still there: it is frozen, and its "
			"program runs no more, or it is in a system call; wait for its end before "
			"buffers here are used again",
			(int)pid);
}

void shm_ring_close(struct shm_ep *ep)
{
	struct shm_tp *tp = (struct shm_tp *)ep->ep.tp;
	uint64_t state = atomic_load(&ep->in->state), next;

	do
		next = shm_state(ep->gen, (uint32_t)state == SHM_ATTACHED ? SHM_CLOSED : SHM_FREE);
	while (!atomic_compare_exchange_weak(&ep->in->state, &state, next));
	if (wait_for_writer(tp, ep))
		end_writer(tp, ep);
}

/* Map the three parts of the peer's segment that we need; out-fields of ep are set together. */
static int map_peer(struct shm_ep *ep, const struct shm_blob *b, int fd)
{
	off_t ring_off = (off_t)shm_ring_off(b->ring);
	struct stat st;
	void *head, *regs, *ring;

	if (fstat(fd, &st) || (size_t)st.st_size != SHM_SEG_SIZE)
		return -ESTALE;
	head = mmap(NULL, SHM_OFF_REGS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (head == MAP_FAILED)
		return -errno;
	regs = mmap(NULL, SHM_LEN_REGS, PROT_READ, MAP_SHARED, fd, SHM_OFF_REGS);
	if (regs == MAP_FAILED)
		goto unmap_head;
	ring = mmap(NULL, shm_ring_size(b->ring), PROT_READ | PROT_WRITE, MAP_SHARED, fd, ring_off);
	if (ring == MAP_FAILED)
		goto unmap_regs;
	ep->peer = head;
	ep->regs = regs;
	ep->out = ring;
	return 0;
unmap_regs:
	munmap(regs, SHM_LEN_REGS);
unmap_head:
	munmap(head, SHM_OFF_REGS);
	return -ENOMEM;
}

/* Without memory to remember it, the ring stays mapped until the process ends. */
static void keep_ring(struct shm_tp *tp, struct shm_ring *ring, size_t size)
{
	struct shm_old *old = malloc(sizeof(*old));

	if (!old)
		return;
	*old = (struct shm_old){.next = tp->old, .ring = ring, .size = size};
	tp->old = old;
}

void shm_free_old(struct shm_tp *tp)
{
	struct shm_old *old;

	while ((old = tp->old)) {
		tp->old = old->next;
		munmap(old->ring, old->size);
		free(old);
	}
}

static void unmap_peer(struct shm_ep *ep)
{
	if (ep->watched)
		keep_ring((struct shm_tp *)ep->ep.tp, ep->out, shm_ring_size(ep->out_index));
	else
		munmap(ep->out, shm_ring_size(ep->out_index));
	munmap((void *)ep->regs, SHM_LEN_REGS);
	munmap(ep->peer, SHM_OFF_REGS);
	ep->out = NULL;
	ep->regs = NULL;
	ep->peer = NULL;
}

static int open_peer(struct shm_ep *ep, const struct shm_blob *b)
{
	int fd = tt_proc_open_fd((pid_t)b->pid, b->seg_fd, "/memfd:" SHM_SEG_NAME, 0), err;

	if (fd == -EMFILE || fd == -ENFILE)
		return tt_fail(fd, "shm: the segment of process %u cannot be opened: %s", b->pid,
			       strerror(-fd));
	if (fd < 0)
		return tt_fail(fd,
			       "shm: the segment of process %u (uid %u, here %u) cannot be opened: "
			       "%s; is it in another pid namespace, of another user, or has one of "
			       "the two "
			       "changed its user?",
			       b->pid, b->uid, (unsigned)geteuid(),
			       fd == -ESTALE ? "that descriptor is something else" : strerror(-fd));
	err = map_peer(ep, b, fd);
	close(fd);
	if (err)
		return tt_fail(err, "shm: the segment of process %u cannot be mapped: %s", b->pid,
			       strerror(-err));
	if (tt_shm_is(&ep->peer->id, SHM_MAGIC, b->cookie))
		return 0;
	unmap_peer(ep);
	return tt_fail(-ESTALE, "shm: process %u is not the peer: it is in another pid namespace",
		       b->pid);
}

int shm_peer_attach(struct shm_ep *ep, const struct shm_blob *b)
{
	uint64_t open_state = shm_state(b->gen, SHM_OPEN), no_producer = (uint64_t)b->gen << 32;
	int err;

	ep->out_index = b->ring;
	ep->head.lines = shm_ring_lines(b->ring);
	err = open_peer(ep, b);
	if (err)
		return err;
	err = shm_vm_probe(b);
	if (err)
		goto unmap;
	ep->wake_fd = tt_shm_open_wake(&ep->peer->id, (pid_t)b->pid);
	if (ep->wake_fd < 0) {
		err = tt_fail(ep->wake_fd,
			      "shm: the wake-up pipe of process %u cannot be opened: %s", b->pid,
			      strerror(-ep->wake_fd));
		goto unmap;
	}
	ep->pid = (pid_t)b->pid;
	ep->vm = b->probe != 0;
	snprintf(ep->closed, sizeof(ep->closed), "shm: process %u closed the connection or is gone",
		 b->pid);
	ep->attached = shm_state(b->gen, SHM_ATTACHED);
	/* Both fail if the ring belongs to a later connection by now. */
	if (!atomic_compare_exchange_strong(&ep->out->producer, &no_producer,
					    no_producer | ((struct shm_tp *)ep->ep.tp)->pid) ||
	    !atomic_compare_exchange_strong(&ep->out->state, &open_state, ep->attached)) {
		err = tt_fail(-ECONNREFUSED, "shm: process %u has closed this endpoint already",
			      b->pid);
		goto close_wake;
	}
	shm_ring_bell(ep);
	return 0;
close_wake:
	close(ep->wake_fd);
unmap:
	unmap_peer(ep);
	return err;
}

void shm_peer_detach(struct shm_ep *ep)
{
	uint64_t state = atomic_load(&ep->out->state), next;

	do
		next = state == ep->attached ? ep->attached - SHM_ATTACHED + SHM_LEFT
					     : ep->attached - SHM_ATTACHED + SHM_FREE;
	while (!atomic_compare_exchange_weak(&ep->out->state, &state, next));
	/* From here on a FREE ring may belong to another endpoint. Ringing its bell is harmless. */
	shm_ring_bell(ep);
	close(ep->wake_fd);
	unmap_peer(ep);
}

void shm_ring_bell(struct shm_ep *ep)
{
	struct shm_head *h = ep->peer;
	uint32_t word = ep->out_index / 64;

	/*
	 * Entries must be visible before the bell, and the bell before `sleeping` is read. Both
	 * need a full barrier, so the bit is set without a test. A bit that is already set in sum
	 * means that the consumer has not yet taken that word of bell.
	 */
	atomic_fetch_or(&h->bell[word], 1ull << ep->out_index % 64);
	if (!(atomic_load(&h->sum) & 1ull << word))
		atomic_fetch_or(&h->sum, 1ull << word);
	if (atomic_load(&h->sleeping))
		tt_shm_wake(&h->sleeping, ep->wake_fd);
}
