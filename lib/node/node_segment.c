/* SPDX-License-Identifier: BSD-3-Clause */
/* The segment of a process: its creation, its mapping by peers, and sleeping on it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "lib/base/proc.h"
#include "lib/node/node_internal.h"

static const struct tt_tp_ops keeper_ops = {
	.name = "node", .reg = tt_node_reg, .dereg = tt_node_dereg};

static int make_seg(struct tt_node *node)
{
	struct stat st;

	node->seg_fd = memfd_create(SEG_NAME, MFD_CLOEXEC);
	if (node->seg_fd < 0)
		return tt_fail(-errno, "memfd_create: %s", strerror(errno));
	if (fchmod(node->seg_fd, 0600) || ftruncate(node->seg_fd, sizeof(*node->seg)) ||
	    fstat(node->seg_fd, &st))
		return tt_fail(-errno, "sizing the segment of this process: %s", strerror(errno));
	node->ino = st.st_ino;
	node->seg =
		mmap(NULL, sizeof(*node->seg), PROT_READ | PROT_WRITE, MAP_SHARED, node->seg_fd, 0);
	if (node->seg == MAP_FAILED) {
		node->seg = NULL;
		return tt_fail(-errno, "mapping the segment of this process: %s", strerror(errno));
	}
	return 0;
}

static int make_wake(struct tt_node *node)
{
	struct stat st;

	if (pipe2(node->wake, O_CLOEXEC | O_NONBLOCK))
		return tt_fail(-errno, "no pipe to sleep on: %s", strerror(errno));
	if (fstat(node->wake[1], &st))
		return tt_fail(-errno, "the pipe to sleep on: %s", strerror(errno));
	node->seg->wake_fd = node->wake[1];
	node->seg->wake_ino = st.st_ino;
	return 0;
}

int tt_node_open(struct tt_node **out)
{
	struct tt_node *node = calloc(1, sizeof(*node));
	int err;

	if (!node)
		return tt_fail(-ENOMEM, "no memory for the ranks of this host");
	pthread_mutex_init(&node->homes, NULL);
	node->keeper.ops = &keeper_ops;
	node->keeper.optional = true;
	node->seg_fd = node->wake[0] = node->wake[1] = -1;
	node->free_slabs = calloc(SEG_SLABS, sizeof(*node->free_slabs));
	err = node->free_slabs ? make_seg(node)
			       : tt_fail(-ENOMEM, "no memory for the ranks of this host");
	if (!err)
		err = make_wake(node);
	if (!err && getrandom(node->seg->cookie, sizeof(node->seg->cookie), 0) < 0)
		err = tt_fail(-errno, "getrandom: %s", strerror(errno));
	if (err) {
		tt_node_close(node);
		return err;
	}
	node->seg->pid = (int32_t)getpid();
	node->seg->magic = SEG_MAGIC;
	*out = node;
	return 0;
}

static void free_peer(struct node_peer *peer)
{
	tt_node_unmap_all(peer);
	close(peer->wake_fd);
	munmap(peer->seg, sizeof(*peer->seg));
	free(peer);
}

void tt_node_close(struct tt_node *node)
{
	int i;

	for (i = 0; i < node->npeers; i++)
		if (node->peer[i])
			free_peer(node->peer[i]);
	for (i = 0; i < 2; i++)
		if (node->wake[i] >= 0)
			close(node->wake[i]);
	if (node->seg) {
		tt_node_take_back(node);
		munmap(node->seg, sizeof(*node->seg));
	}
	if (node->seg_fd >= 0)
		close(node->seg_fd);
	pthread_mutex_destroy(&node->homes);
	free(node->peer);
	free(node->free_slabs);
	free(node);
}

void tt_node_card(const struct tt_node *node, struct tt_node_card *card)
{
	*card = (struct tt_node_card){
		.ino = node->ino, .pid = node->seg->pid, .seg_fd = node->seg_fd};
	memcpy(card->cookie, node->seg->cookie, sizeof(card->cookie));
}

struct tt_tp *tt_node_keeper(struct tt_node *node)
{
	return &node->keeper;
}

/*
 * Whether the peer's ordinary memory can be read: tries its table of slabs, whose address is
 * known.
 */
static bool can_read(const struct node_peer *peer)
{
	uint64_t cookie[2] = {0};
	struct iovec local = {cookie, sizeof(cookie)};
	struct iovec remote = {(void *)(uintptr_t)peer->seg->slab[0].base, sizeof(cookie)};

	/* EFAULT: permitted, but nothing at that address */
	return process_vm_readv(peer->pid, &local, 1, &remote, 1, 0) >= 0 || errno == EFAULT;
}

static int open_peer(const struct tt_node_card *card, struct node_peer *peer)
{
	int fd = tt_proc_open_fd(card->pid, card->seg_fd, "/memfd:" SEG_NAME, card->ino), err;

	if (fd < 0)
		return fd;
	peer->seg = mmap(NULL, sizeof(*peer->seg), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	err = peer->seg == MAP_FAILED ? -errno : 0;
	close(fd);
	if (err)
		return err;
	if (peer->seg->magic == SEG_MAGIC &&
	    !memcmp(peer->seg->cookie, card->cookie, sizeof(card->cookie)))
		peer->wake_fd = tt_proc_open_fd(card->pid, peer->seg->wake_fd,
						"pipe:", peer->seg->wake_ino);
	else
		peer->wake_fd = -ESTALE;
	if (peer->wake_fd >= 0)
		return 0;
	munmap(peer->seg, sizeof(*peer->seg));
	return peer->wake_fd;
}

int tt_node_attach(struct tt_node *node, int rank, int nranks, const struct tt_node_card *card,
		   unsigned *can)
{
	struct node_peer *peer;
	int err;

	if (!node->peer) {
		node->peer = calloc((size_t)nranks, sizeof(struct node_peer *));
		node->npeers = node->peer ? nranks : 0;
	}
	peer = calloc(1, sizeof(*peer));
	if (!node->peer || !peer) {
		free(peer);
		return tt_fail(-ENOMEM, "no memory for the ranks of this host");
	}
	err = card->pid > 0 ? open_peer(card, peer) : -ENOENT;
	if (err) {
		tt_info("rank %d of this host can't be reached in memory: %s", rank,
			strerror(-err));
		*can = 0;
		free(peer);
		return 0;
	}
	peer->pid = card->pid;
	if (!can_read(peer))
		*can &= ~(unsigned)TT_NODE_READS;
	node->peer[rank] = peer;
	return 0;
}

/*
 * The first of several sleeping threads empties the pipe. Woken threads do not, so that it wakes
 * all.
 */
int tt_node_lie_down(struct tt_node *node, bool first)
{
	char bytes[64];

	while (first && read(node->wake[0], bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes))
		;
	atomic_store(&node->seg->sleeping, 1);
	/*
	 * Makes the sleep visible before the flags are read once more, whatever the order of those
	 * loads.
	 */
	atomic_thread_fence(memory_order_seq_cst);
	return node->wake[0];
}

void tt_node_get_up(struct tt_node *node)
{
	atomic_store(&node->seg->sleeping, 0);
}

void tt_node_wake(struct node_peer *peer)
{
	if (!atomic_exchange(&peer->seg->sleeping, 0))
		return;
	/* A full pipe (EAGAIN) is readable as well. */
	while (write(peer->wake_fd, "", 1) < 0 && errno == EINTR)
		;
}

void tt_node_sweep(struct tt_node *node)
{
	int i;

	for (i = 0; i < node->npeers; i++)
		if (node->peer[i])
			tt_node_unmap_stale(node->peer[i]);
	tt_node_hand_out(node);
}
