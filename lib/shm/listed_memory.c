/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that a process lists in its segment, and its mappings in peers; see segment.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/proc.h"
#include "lib/shm/segment.h"

int tt_shm_place(const struct tt_mem *mem, unsigned access, struct tt_shm_place *at)
{
	struct stat st = {0};

	if (mem->memfd >= 0 && fstat(mem->memfd, &st))
		return tt_fail(-errno, "the memory's memfd %d: %s", mem->memfd, strerror(errno));
	if (mem->memfd >= 0 && (uint64_t)st.st_size < mem->memfd_off + mem->len)
		return tt_fail(-EINVAL, "the memory's memfd has only %lld bytes",
			       (long long)st.st_size);
	*at = (struct tt_shm_place){.len = mem->len,
				    .memfd_off = mem->memfd_off,
				    .ino = st.st_ino,
				    .access = access,
				    .memfd = mem->memfd,
				    .align = (uint32_t)st.st_blksize};
	return 0;
}

int tt_shm_table_init(struct tt_shm_table *t, struct tt_shm_entry *entry, uint32_t size)
{
	*t = (struct tt_shm_table){.entry = entry, .size = size};
	t->free = calloc(size, sizeof(*t->free));
	return t->free ? 0 : tt_fail(-ENOMEM, "no memory to list shared memory");
}

void tt_shm_table_free(struct tt_shm_table *t)
{
	free(t->free);
	t->free = NULL;
}

bool tt_shm_table_full(const struct tt_shm_table *t)
{
	return !t->nfree && t->used == t->size;
}

int tt_shm_list(struct tt_shm_table *t, struct tt_tp *tp, const struct tt_mem *mem, unsigned access,
		struct tt_mr **mrp)
{
	struct tt_shm_place at;
	struct tt_shm_entry *e;
	struct tt_mr *mr;
	uint32_t i;
	int err = tt_shm_place(mem, access, &at);

	if (err)
		return err;
	mr = malloc(sizeof(*mr));
	if (!mr)
		return tt_fail(-ENOMEM, "no memory to describe a region");
	i = t->nfree ? t->free[--t->nfree] : t->used++;
	e = &t->entry[i];
	e->base = (uint64_t)(uintptr_t)mem->addr;
	e->at = at;
	mr->tp = tp;
	mr->rkey = (struct tt_rkey){{++t->last_id, i, e->base, mem->len}};
	atomic_store_explicit(&e->id, t->last_id, memory_order_release);
	*mrp = mr;
	return 0;
}

void tt_shm_unlist(struct tt_shm_table *t, const struct tt_mr *mr)
{
	atomic_store(&t->entry[mr->rkey.word[1]].id, 0);
}

void tt_shm_mr_free(struct tt_shm_table *t, struct tt_mr *mr, bool reuse)
{
	if (reuse)
		t->free[t->nfree++] = (uint32_t)mr->rkey.word[1];
	free(mr);
}

/* ---- at a peer ---- */

int tt_shm_map(pid_t pid, const struct tt_shm_place *at, struct tt_shm_map *map)
{
	int prot = at->access & TT_ACCESS_WRITE ? PROT_READ | PROT_WRITE : PROT_READ, err;
	uint64_t skip = at->memfd_off & (at->align - 1);
	size_t len = (at->len + skip + at->align - 1) & ~(size_t)(at->align - 1);
	int fd = tt_proc_open_fd(pid, at->memfd, "/memfd:", at->ino);
	void *addr;

	if (fd < 0)
		return fd;
	addr = mmap(NULL, len, prot, MAP_SHARED, fd, (off_t)(at->memfd_off - skip));
	err = addr == MAP_FAILED ? -errno : 0;
	close(fd);
	if (err)
		return err;
	madvise(addr, len, MADV_HUGEPAGE); /* as its owner may have done; a hint */
	*map = (struct tt_shm_map){.addr = addr, .len = len, .ptr = (char *)addr + skip};
	return 0;
}

static void unmap(struct tt_shm_map *m)
{
	if (m->id)
		munmap(m->addr, m->len);
	memset(m, 0, sizeof(*m));
}

static int grow(struct tt_shm_maps *maps, uint32_t i)
{
	uint32_t n = i + 1 > 2 * maps->n ? i + 1 : 2 * maps->n;
	struct tt_shm_map *map = realloc(maps->map, n * sizeof(*map));

	if (!map)
		return -ENOMEM;
	memset(map + maps->n, 0, (n - maps->n) * sizeof(*map));
	maps->map = map;
	maps->n = n;
	return 0;
}

static int put_aside(struct tt_shm_maps *maps, struct tt_shm_map *m)
{
	struct tt_shm_map *kept = realloc(maps->kept, (maps->nkept + 1) * sizeof(*kept));

	if (!kept)
		return -ENOMEM;
	maps->kept = kept;
	kept[maps->nkept++] = *m;
	memset(m, 0, sizeof(*m));
	return 0;
}

int tt_shm_maps_add(struct tt_shm_maps *maps, pid_t pid, const struct tt_shm_entry *table,
		    uint32_t i, uint64_t id)
{
	int err = i >= maps->n ? grow(maps, i) : 0;

	if (!err && maps->map[i].kept)
		err = put_aside(maps, &maps->map[i]);
	if (err)
		return err;
	unmap(&maps->map[i]);
	err = tt_shm_map(pid, &table[i].at, &maps->map[i]);
	if (!err)
		maps->map[i].id = id;
	return err;
}

void tt_shm_maps_sweep(struct tt_shm_maps *maps, const struct tt_shm_entry *table)
{
	struct tt_shm_map *m;
	uint32_t i;

	for (i = 0; i < maps->n; i++) {
		m = &maps->map[i];
		if (m->id && !m->kept &&
		    atomic_load_explicit(&table[i].id, memory_order_acquire) != m->id)
			unmap(m);
	}
}

void tt_shm_maps_free(struct tt_shm_maps *maps)
{
	uint32_t i;

	for (i = 0; i < maps->n; i++)
		unmap(&maps->map[i]);
	for (i = 0; i < maps->nkept; i++)
		unmap(&maps->kept[i]);
	free(maps->map);
	free(maps->kept);
	*maps = (struct tt_shm_maps){0};
}
