/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pool memory, as seen by the processes of a host. Each process lists its slabs in its segment. A
 * peer maps a slab when it first finds it in a published buffer, and keeps the mapping until the
 * owner gives the slab up.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/proc.h"
#include "lib/node/node_internal.h"

struct node_mr {
	struct tt_mr mr;
	uint32_t slab;
};

int tt_node_reg(struct tt_tp *tp, const struct tt_mem *mem, unsigned access, struct tt_mr **mrp)
{
	struct tt_node *node = (struct tt_node *)tp;
	struct node_slab *s;
	struct node_mr *mr;
	struct stat st;
	uint32_t i;

	/* For peers, unlisted memory is ordinary memory. */
	if (mem->memfd < 0 || (access & TT_ACCESS_WRITE) == 0 || fstat(mem->memfd, &st) ||
	    (!node->nfree && node->nslabs == SEG_SLABS))
		return -EOPNOTSUPP;
	mr = malloc(sizeof(*mr));
	if (!mr)
		return tt_fail(-ENOMEM, "no memory to describe a region");
	i = node->nfree ? node->free_slabs[--node->nfree] : node->nslabs++;
	s = &node->seg->slab[i];
	s->base = (uint64_t)(uintptr_t)mem->addr;
	s->len = mem->len;
	s->memfd_off = mem->memfd_off;
	s->ino = st.st_ino;
	s->memfd = mem->memfd;
	s->align = (uint32_t)st.st_blksize;
	mr->mr.tp = tp;
	mr->mr.rkey = (struct tt_rkey){{++node->next_id, i, s->base, s->len}};
	mr->slab = i;
	atomic_store_explicit(&s->id, node->next_id, memory_order_release);
	*mrp = &mr->mr;
	return 0;
}

int tt_node_dereg(struct tt_mr *base)
{
	struct tt_node *node = (struct tt_node *)base->tp;
	struct node_mr *mr = (struct node_mr *)base;

	atomic_store(&node->seg->slab[mr->slab].id, 0);
	atomic_fetch_add(&node->seg->given_up, 1);
	node->free_slabs[node->nfree++] = mr->slab;
	free(mr);
	return 0;
}

static void unmap(struct node_map *m)
{
	if (m->id)
		munmap(m->addr, m->len);
	memset(m, 0, sizeof(*m));
}

void tt_node_unmap_stale(struct node_peer *peer)
{
	uint32_t given_up = atomic_load_explicit(&peer->seg->given_up, memory_order_acquire), i;

	if (given_up == peer->given_up)
		return;
	peer->given_up = given_up;
	for (i = 0; i < peer->nmaps; i++)
		if (peer->maps[i].id && atomic_load(&peer->seg->slab[i].id) != peer->maps[i].id)
			unmap(&peer->maps[i]);
}

void tt_node_unmap_all(struct node_peer *peer)
{
	uint32_t i;

	for (i = 0; i < peer->nmaps; i++)
		unmap(&peer->maps[i]);
	free(peer->maps);
	peer->maps = NULL;
	peer->nmaps = 0;
}

static int grow(struct node_peer *peer, uint32_t slab)
{
	uint32_t n = slab + 1 > 2 * peer->nmaps ? slab + 1 : 2 * peer->nmaps;
	struct node_map *maps = realloc(peer->maps, n * sizeof(*maps));

	if (!maps)
		return tt_fail(-ENOMEM, "no memory to list mapped slabs");
	memset(maps + peer->nmaps, 0, (n - peer->nmaps) * sizeof(*maps));
	peer->maps = maps;
	peer->nmaps = n;
	return 0;
}

static int map_slab(struct node_peer *peer, uint32_t i, uint64_t id, struct node_map *m)
{
	const struct node_slab *s = &peer->seg->slab[i];
	uint64_t skip = s->memfd_off & (s->align - 1);
	size_t len = (s->len + skip + s->align - 1) & ~(size_t)(s->align - 1);
	int fd = tt_proc_open_fd(peer->pid, s->memfd, "/memfd:", s->ino), err;
	void *addr;

	if (fd < 0)
		return tt_fail(fd, "pool memory of process %d cannot be opened: %s", (int)peer->pid,
			       strerror(-fd));
	addr = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		    (off_t)(s->memfd_off - skip));
	err = addr == MAP_FAILED ? -errno : 0;
	close(fd);
	if (err)
		return tt_fail(err, "%zu bytes of pool memory of process %d cannot be mapped: %s",
			       len, (int)peer->pid, strerror(-err));
	madvise(addr, len, MADV_HUGEPAGE); /* as its owner may have done; a hint */
	*m = (struct node_map){id, addr, len, (char *)addr + skip};
	return 0;
}

int tt_node_map(struct node_peer *peer, const struct node_buf *buf, char **ptr)
{
	const struct node_slab *s;
	struct node_map *m;
	int err;

	tt_node_unmap_stale(peer);
	if (buf->slab >= SEG_SLABS)
		return tt_fail(-EPROTO, "process %d published no slab", (int)peer->pid);
	s = &peer->seg->slab[buf->slab];
	if (buf->slab >= peer->nmaps) {
		err = grow(peer, buf->slab);
		if (err)
			return err;
	}
	m = &peer->maps[buf->slab];
	if (!buf->id || atomic_load_explicit(&s->id, memory_order_acquire) != buf->id)
		return tt_fail(-ESTALE, "process %d has given up memory that a collective uses",
			       (int)peer->pid);
	if (m->id != buf->id) {
		unmap(m);
		err = map_slab(peer, buf->slab, buf->id, m);
		if (err)
			return err;
	}
	if (buf->off > s->len || buf->len > s->len - buf->off)
		return tt_fail(-EFAULT, "process %d published more than its slab holds",
			       (int)peer->pid);
	*ptr = m->ptr + buf->off;
	return 0;
}
