/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slabs: memory from the system. A slab is a memfd, so that peers on this host can map it; it uses
 * free huge pages if there are any, and the NUMA node of the calling thread. All of it is allocated
 * at once (fallocate), because running out later would raise SIGBUS during a memory access.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/mem/mem_internal.h"
#include "lib/topo/topo.h"

#define THP_SIZE (2ul << 20)

/*
 * Bytes of the system's default huge page if enough are free for len and little of them is wasted.
 */
static size_t huge_page_for(size_t len)
{
	unsigned long long free_pages = 0, kib = 0;
	FILE *f = fopen("/proc/meminfo", "re");
	char line[128];
	size_t size;

	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "HugePages_Free: %llu", &free_pages) != 1)
			sscanf(line, "Hugepagesize: %llu kB", &kib);
	fclose(f);
	size = (size_t)kib << 10;
	if (!size || len > (size_t)free_pages * size || (size - len % size) % size > len / 8)
		return 0;
	return size;
}

/* An address range of len, aligned to align, to be mapped over. */
static void *reserve(size_t len, size_t align)
{
	char *p = mmap(NULL, len + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		       -1, 0);
	size_t front;

	if (p == MAP_FAILED)
		return NULL;
	front = (align - (uintptr_t)p % align) % align;
	if (front)
		munmap(p, front);
	munmap(p + front + len, align - front);
	return p + front;
}

static int fail_system(size_t len, int err, const char *call)
{
	if (err == EFBIG)
		return tt_fail(-ENOMEM,
			       "%s of %zu bytes for pool memory: over the limit RLIMIT_FSIZE; "
			       "raise it (ulimit -f unlimited)",
			       call, len);
	if (err == EMFILE || err == ENFILE)
		return tt_fail(-err,
			       "%s for pool memory: no file descriptor is left; raise the limit "
			       "(ulimit -n)",
			       call);
	if (err == ENOSPC || err == ENOMEM)
		return tt_fail(-ENOMEM,
			       "%s of %zu bytes for pool memory: %llu bytes are available to this "
			       "process; free memory, allocate less, or " TT_RAISE_MEMORY,
			       call, len, (unsigned long long)tt_topo_memory_available());
	return tt_fail(-err, "%s of %zu bytes for pool memory: %s", call, len, tutti_strerror(err));
}

/* Map fd at a place aligned for huge pages and back all of it. */
static int map_fd(struct tt_memory *memory, int fd, size_t len, size_t align, void **addr)
{
	int err, node = tt_topo_node();
	void *place = reserve(len, align), *p;

	if (!place)
		return fail_system(len, errno, "mmap");
	p = ftruncate(fd, (off_t)len)
		    ? MAP_FAILED
		    : mmap(place, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	err = errno;
	if (p == MAP_FAILED) {
		munmap(place, len);
		return fail_system(len, err, "mmap");
	}
	if (memory->huge)
		madvise(p, len, MADV_HUGEPAGE);
	tt_topo_bind(p, len, node); /* a hint: memory of another node works too */
#ifdef MADV_POPULATE_WRITE
	/*
	 * unlike fallocate this heeds MADV_HUGEPAGE; what it leaves out fallocate brings or
	 * refuses
	 */
	if (memory->huge && len >= THP_SIZE)
		madvise(p, len, MADV_POPULATE_WRITE);
#endif
	do
		err = fallocate(fd, 0, 0, (off_t)len) ? errno : 0;
	while (err == EINTR);
	if (err) {
		munmap(p, len);
		return fail_system(len, err, "fallocate");
	}
	*addr = p;
	return 0;
}

static int map_new(struct tt_memory *memory, unsigned flags, size_t len, size_t align,
		   struct tt_mem *mem)
{
	int fd = memfd_create("tutti-pool", MFD_CLOEXEC | flags), err;

	if (fd < 0)
		return fail_system(len, errno, "memfd_create");
	/* A memfd begins with mode 0777; /proc/PID/fd lets only this user in anyway. */
	err = fchmod(fd, 0600) ? fail_system(len, errno, "fchmod")
			       : map_fd(memory, fd, len, align, &mem->addr);
	if (err) {
		close(fd);
		return err;
	}
	mem->memfd = fd;
	mem->len = len;
	return 0;
}

static int get_memory(struct tt_memory *memory, size_t len, struct tt_mem *mem)
{
	size_t huge = memory->huge ? huge_page_for(len) : 0;
	uint64_t available = tt_topo_memory_available();

	if (huge && !map_new(memory, MFD_HUGETLB, (len + huge - 1) / huge * huge, huge, mem))
		return 0;
	/* the kernel would rather kill a process than refuse */
	if (len > available)
		return tt_fail(
			-ENOMEM,
			"pool memory of %zu bytes: %llu bytes are available to this process; "
			"free memory, allocate less, or " TT_RAISE_MEMORY,
			len, (unsigned long long)available);
	return map_new(memory, 0, len, len >= THP_SIZE ? THP_SIZE : memory->page_size, mem);
}

int tt_slab_new(struct tt_memory *memory, size_t len, bool large, struct tt_slab **slab)
{
	uint32_t npages = large ? 1 : (uint32_t)(len / memory->page_size), i;
	struct tt_slab *s = calloc(1, sizeof(*s) + npages * sizeof(*s->page));
	int err;

	if (!s)
		return tt_fail(-ENOMEM, "no memory to describe a slab of %zu bytes", len);
	err = get_memory(memory, len, &s->region.mem);
	if (err)
		goto free_slab;
	if (memory->lock_pages && mlock(s->region.mem.addr, s->region.mem.len)) {
		err = tt_mem_fail_memlock(s->region.mem.len,
					  "locking pool memory (TUTTI_POOL_LOCK=1)");
		goto unmap;
	}
	s->region.memory = memory;
	s->region.pool = true;
	s->region.access = TT_ACCESS_READ | TT_ACCESS_WRITE;
	s->large = large;
	s->npages = s->max_free = npages;
	for (i = 0; i < npages; i++)
		s->page[i].slab = s;
	s->page[0].state = TT_PAGE_FREE;
	s->page[0].run = npages;
	tt_list_init(&s->link);
	*slab = s;
	return 0;
unmap:
	munmap(s->region.mem.addr, s->region.mem.len);
	close(s->region.mem.memfd);
free_slab:
	free(s);
	return err;
}

void tt_slab_free(struct tt_slab *slab)
{
	munmap(slab->region.mem.addr, slab->region.mem.len);
	close(slab->region.mem.memfd);
	free(slab);
}
