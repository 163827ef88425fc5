/* SPDX-License-Identifier: BSD-3-Clause */
/* The segment of a process: its creation, its mapping by peers, and sleeping on it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "lib/base/proc.h"
#include "lib/node/node_internal.h"

static const struct tt_tp_ops keeper_ops = {
	.name = "node", .reg = tt_node_reg, .dereg = tt_node_dereg};

int tt_node_open(struct tt_node **out)
{
	struct tt_node *node = calloc(1, sizeof(*node));
	uint64_t cookie[2];
	int err = 0;

	if (!node)
		return tt_fail(-ENOMEM, "no memory for the ranks of this host");
	pthread_mutex_init(&node->homes, NULL);
	tt_list_init(&node->kept);
	node->keeper.ops = &keeper_ops;
	node->keeper.optional = true;
	if (getrandom(cookie, sizeof(cookie), 0) < 0)
		err = tt_fail(-errno, "getrandom: %s", strerror(errno));
	if (!err)
		err = tt_shm_seg_create(&node->own, SEG_NAME, sizeof(*node->seg), SEG_MAGIC,
					cookie);
	node->seg = (struct node_seg *)node->own.head;
	if (!err)
		err = tt_shm_table_init(&node->slabs, node->seg->slab, SEG_SLABS);
	if (err) {
		tt_node_close(node);
		return err;
	}
	*out = node;
	return 0;
}

static void free_peer(struct node_peer *peer)
{
	tt_shm_maps_free(&peer->slabs);
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
	if (node->seg)
		tt_node_take_back(node);
	tt_node_drop_all(node);
	tt_shm_seg_free(&node->own);
	tt_shm_table_free(&node->slabs);
	pthread_mutex_destroy(&node->homes);
	free(node->peer);
	free(node);
}

void tt_node_card(const struct tt_node *node, struct tt_node_card *card)
{
	*card = (struct tt_node_card){
		.ino = node->own.ino, .pid = node->own.head->pid, .seg_fd = node->own.fd};
	memcpy(card->cookie, node->own.head->cookie, sizeof(card->cookie));
}

struct tt_tp *tt_node_keeper(struct tt_node *node)
{
	return &node->keeper;
}

/*
 * Whether the peer's ordinary memory can be read and written: tries its table of slabs, whose
 * address is known.
 */
static bool can_read(const struct node_peer *peer)
{
	char bytes[16];
	int err = tt_shm_vm_try(peer->pid, bytes, peer->seg->slab[0].base, sizeof(bytes));

	return !err || err == -EFAULT; /* permitted, but nothing at that address */
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
	peer->wake_fd = tt_shm_is(&peer->seg->head, SEG_MAGIC, card->cookie)
				? tt_shm_open_wake(&peer->seg->head, card->pid)
				: -ESTALE;
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
	if (first)
		tt_shm_drain(&node->own);
	atomic_store(&node->seg->sleeping, 1);
	/*
	 * Makes the sleep visible before the flags are read once more, whatever the order of those
	 * loads.
	 */
	atomic_thread_fence(memory_order_seq_cst);
	return node->own.wake[0];
}

void tt_node_get_up(struct tt_node *node)
{
	atomic_store(&node->seg->sleeping, 0);
}

void tt_node_sweep(struct tt_node *node)
{
	int i;

	for (i = 0; i < node->npeers; i++)
		if (node->peer[i])
			tt_node_unmap_stale(node->peer[i]);
	tt_node_hand_out(node);
}
