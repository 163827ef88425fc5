/* SPDX-License-Identifier: BSD-3-Clause */
/* The area of a communicator: its creation and distribution. node_turns.c uses it. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/proc.h"
#include "lib/node/node_internal.h"
#include "lib/topo/topo.h"

static size_t area_bytes(int size)
{
	size_t len = sizeof(struct node_area) + (size_t)size * sizeof(struct node_rank);

	return (len + 4095) & ~(size_t)4095;
}

/* ---- handing out ---- */

static void take_back(struct tt_node *node, int i)
{
	struct node_home *h = &node->seg->home[i];

	if (h->fd >= 0)
		close(h->fd);
	if (node->home[i].orphan) {
		atomic_store(&node->home[i].area->dropped, 1);
		munmap(node->home[i].area, node->home[i].len);
	}
	node->home[i] = (struct node_handing){0};
	atomic_store(&h->uid, 0);
}

/* Under the lock of homes. */
static void hand_out(struct tt_node *node)
{
	const struct node_handing *h;
	int i;

	for (i = 0; i < SEG_AREAS; i++) {
		h = &node->home[i];
		if (h->area && atomic_load(&h->area->attached) == (uint32_t)h->size)
			take_back(node, i);
	}
}

void tt_node_hand_out(struct tt_node *node)
{
	pthread_mutex_lock(&node->homes);
	hand_out(node);
	tt_node_drop_stale(node);
	pthread_mutex_unlock(&node->homes);
}

void tt_node_take_back(struct tt_node *node)
{
	int i;

	for (i = 0; i < SEG_AREAS; i++)
		if (node->home[i].area)
			take_back(node, i);
}

bool tt_node_is_handed(const struct tt_node *node, const struct node_area *area)
{
	int i;

	for (i = 0; i < SEG_AREAS; i++)
		if (node->home[i].area == area)
			return true;
	return false;
}

static int free_home(struct tt_node *node)
{
	int i;

	for (i = 0; i < SEG_AREAS; i++)
		if (!atomic_load(&node->seg->home[i].uid))
			return i;
	return -1;
}

/*
 * With ranks on several NUMA nodes, before the first touch of the area: the part that a rank
 * writes, and its peers poll, is near that rank, whichever process touches it first.
 */
static void place_parts(struct tt_node_group *g, const int *numa)
{
	bool differ = false;
	int i;

	for (i = 1; numa && i < g->size; i++)
		differ |= numa[i] != numa[0];
	for (i = 0; differ && g->slot == TT_NODE_SLOT && i < g->size; i++)
		tt_topo_bind(&g->area->rank[i], sizeof(g->area->rank[i]), numa[i]); /* a hint */
}

/* A new area, or one that these ranks have kept: its descriptor, -1 for the latter, in *fd. */
static int get_area(struct tt_node_group *g, const struct tt_node_params *p, int *fd)
{
	void *area;

	*fd = -1;
	if (!p->areas && tt_node_reuse(g))
		return 0;
	*fd = tt_shm_create(AREA_NAME, g->area_len, &area, &g->ino);
	if (*fd < 0)
		return *fd;
	g->area = area;
	place_parts(g, p->numa);
	return 0;
}

/* Under the lock of homes. */
static int make_home(struct tt_node_group *g, const struct tt_node_params *p)
{
	struct tt_node *node = g->node;
	struct node_home *h;
	int i, fd, err;

	hand_out(node);
	i = free_home(node);
	if (i < 0 && p->now)
		return -EAGAIN;
	if (i < 0)
		return tt_fail(-EMFILE, "%d communicators are being made at once", SEG_AREAS);
	err = get_area(g, p, &fd);
	if (err)
		return err;
	g->area->uid = p->uid;
	g->area->size = g->size;
	node->home[i] = (struct node_handing){.area = g->area, .len = g->area_len, .size = g->size};
	h = &node->seg->home[i];
	h->fd = fd;
	h->ino = g->ino;
	atomic_store(&h->uid, p->uid);
	return 0;
}

void tt_node_forget(struct tt_node *node, uint64_t uid)
{
	int i;

	pthread_mutex_lock(&node->homes);
	for (i = 0; i < SEG_AREAS; i++)
		if (node->home[i].area && atomic_load(&node->seg->home[i].uid) == uid)
			take_back(node, i);
	pthread_mutex_unlock(&node->homes);
}

/* At the lowest rank. */
static int make_area(struct tt_node_group *g, const struct tt_node_params *p)
{
	int err;

	pthread_mutex_lock(&g->node->homes);
	err = make_home(g, p);
	pthread_mutex_unlock(&g->node->homes);
	return err;
}

static int find_kept(struct tt_node_group *g, uint64_t ino, uint64_t uid)
{
	bool found;

	pthread_mutex_lock(&g->node->homes);
	found = tt_node_find_kept(g, ino, uid);
	pthread_mutex_unlock(&g->node->homes);
	return found ? 0 : -EAGAIN;
}

static int map_area(struct tt_node_group *g, const struct node_home *h, uint64_t uid)
{
	const struct node_peer *peer = g->peer[0];
	int fd, err;
	void *p;

	fd = tt_proc_open_fd(peer->pid, h->fd, "/memfd:" AREA_NAME, h->ino);
	if (fd < 0)
		fd = tt_shm_refusal(peer->pid, fd, "the area of a communicator");
	if (fd == -ENOENT ||
	    fd == -ESRCH) /* the process is dying: the waiting caller notices its end */
		return -EAGAIN;
	if (fd == -EPERM)
		return tt_fail(-TUTTI_ETRANSPORT, "%s", tt_fail_text(fd));
	if (fd < 0)
		return tt_fail(fd, "the area of a communicator can't be opened: %s", strerror(-fd));
	p = mmap(NULL, g->area_len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	err = p == MAP_FAILED
		      ? tt_fail(-errno, "mapping the area of a communicator: %s", strerror(errno))
		      : 0;
	close(fd);
	if (err)
		return err;
	g->area = p;
	if (g->area->uid != uid || g->area->size != g->size) {
		munmap(g->area, g->area_len);
		g->area = NULL;
		return tt_fail(-EPROTO, "the area belongs to another communicator");
	}
	g->ino = h->ino;
	return 0;
}

/* At other ranks: 0, or -EAGAIN: not there yet. */
static int find_area(struct tt_node_group *g, uint64_t uid)
{
	const struct node_home *h = g->peer[0]->seg->home;
	int i;

	for (i = 0; i < SEG_AREAS; i++, h++)
		if (atomic_load(&h->uid) == uid)
			return h->fd < 0 ? find_kept(g, h->ino, uid) : map_area(g, h, uid);
	return -EAGAIN;
}

static int wait_for_area(struct tt_node_group *g, const struct tt_node_params *p)
{
	const struct timespec pause = {.tv_nsec = 50000};
	unsigned turn;
	int err;

	for (turn = 0;; turn++) {
		err = find_area(g, p->uid);
		if (err != -EAGAIN || p->now)
			return err;
		if (p->failed(p->arg) || (turn % 64 == 63 && tt_proc_gone(g->peer[0]->pid)))
			return tt_fail(-TUTTI_EPEER, "rank %d is gone", p->world[0]);
		if (p->due(p->arg, p->deadline))
			return tt_fail(-ETIMEDOUT,
				       "rank %d made no area for the communicator in time",
				       p->world[0]);
		if (turn < 64)
			sched_yield();
		else
			nanosleep(&pause, NULL);
	}
}

int tt_node_group_new(struct tt_node *node, const struct tt_node_params *p,
		      struct tt_node_group **out)
{
	struct tt_node_group *g = calloc(1, sizeof(*g) + (size_t)p->size * sizeof(*g->peer));
	int i, err;

	if (!g)
		return tt_fail(-ENOMEM, "no memory for the ranks of this host");
	g->node = node;
	g->rank = p->rank;
	g->core = -1;
	g->size = p->size;
	g->plain = p->plain;
	g->gone = p->gone;
	g->world = p->world;
	g->arg = p->arg;
	g->slot = p->areas ? TT_NODE_SMALL : TT_NODE_SLOT;
	g->area_len = area_bytes(p->size) * (size_t)(p->areas ? p->areas : 1);
	g->peer = (struct node_peer **)(g + 1);
	for (i = 0; i < p->size; i++)
		g->peer[i] = i == p->rank ? NULL : node->peer[p->world[i]];
	err = p->rank ? wait_for_area(g, p) : make_area(g, p);
	if (err) {
		free(g);
		return err;
	}
	if (!p->areas)
		tt_node_show_word(g);
	atomic_fetch_add(&g->area->attached, 1);
	*out = g;
	return 0;
}

int tt_node_group_part(const struct tt_node_group *batch, int i, struct tt_node_group **out)
{
	size_t len = sizeof(*batch) + (size_t)batch->size * sizeof(*batch->peer);
	struct tt_node_group *g = malloc(len);

	if (!g)
		return tt_fail(-ENOMEM, "no memory for a persistent operation");
	memcpy(g, batch, len);
	g->peer = (struct node_peer **)(g + 1);
	g->area = (struct node_area *)((char *)batch->area + (size_t)i * area_bytes(batch->size));
	g->area_len = 0;
	*out = g;
	return 0;
}

size_t tt_node_slot_bytes(const struct tt_node_group *g)
{
	return g->slot;
}

void tt_node_let_go(struct tt_node *node, struct node_area *area, size_t len, bool home)
{
	int i;

	for (i = 0; i < SEG_AREAS; i++)
		if (node->home[i].area == area) {
			node->home[i].orphan = true;
			return;
		}
	if (home)
		atomic_store(&area->dropped, 1);
	munmap(area, len);
}

static void give_up(struct tt_node_group *g, bool keep)
{
	if (!g)
		return;
	if (g->area_len) {
		pthread_mutex_lock(&g->node->homes);
		hand_out(g->node);
		tt_node_drop_stale(g->node);
		if (!keep || !tt_node_keep(g))
			tt_node_let_go(g->node, g->area, g->area_len, !g->rank);
		pthread_mutex_unlock(&g->node->homes);
	}
	free(g->tmp);
	free(g);
}

void tt_node_group_free(struct tt_node_group *g)
{
	give_up(g, false);
}

void tt_node_group_leave(struct tt_node_group *g)
{
	give_up(g, true);
}
