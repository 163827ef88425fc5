/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/shm within one process, which is its own peer: segments, wake-ups, tables and mappings. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/shm/segment.h"
#include "tests/test.h"

#define MAGIC 0x7465737431ull
#define SIZE 4
#define PAGE ((size_t)4096)

static const uint64_t cookie[2] = {1, 2};

static void test_segment(void)
{
	const uint64_t other[2] = {1, 3};
	struct tt_shm_seg seg;

	TT_REQUIRE(!tt_shm_seg_create(&seg, "tutti-test", 2 * PAGE, MAGIC, cookie));
	TT_CHECK(tt_shm_is(seg.head, MAGIC, cookie));
	TT_CHECK(!tt_shm_is(seg.head, MAGIC, other));
	TT_CHECK(!tt_shm_is(seg.head, MAGIC + 1, cookie));
	TT_CHECK(seg.head->pid == getpid());
	TT_CHECK(!((char *)seg.head)[2 * PAGE - 1]);
	tt_shm_seg_free(&seg);
	tt_shm_seg_free(&seg); /* a second time does nothing */
	TT_CHECK(tt_shm_seg_create(&seg, "tutti-test", (size_t)1 << 62, MAGIC, cookie) < 0);
	TT_CHECK(!seg.head);
}

static bool readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

static void test_wake(void)
{
	_Atomic uint32_t sleeping = 0;
	struct tt_shm_seg seg;
	int fd, i;

	TT_REQUIRE(!tt_shm_seg_create(&seg, "tutti-test", PAGE, MAGIC, cookie));
	fd = tt_shm_open_wake(seg.head, getpid());
	TT_REQUIRE(fd >= 0);
	tt_shm_wake(&sleeping, fd);
	TT_CHECK(!readable(seg.wake[0])); /* an owner that is awake gets no byte */
	for (i = 0; i < 200; i++) {
		sleeping = 1;
		tt_shm_wake(&sleeping, fd);
		TT_CHECK(!sleeping);
	}
	TT_CHECK(readable(seg.wake[0]));
	tt_shm_drain(&seg);
	TT_CHECK(!readable(seg.wake[0]));
	close(fd);
	seg.head->wake_ino++; /* the descriptor is of another pipe by now */
	TT_CHECK(tt_shm_open_wake(seg.head, getpid()) == -ESTALE);
	tt_shm_seg_free(&seg);
}

/* A memfd of three pages; byte i is i % 251. */
static int new_memory(struct tt_mem *mem)
{
	uint64_t ino;
	void *p;
	size_t i;

	mem->memfd = tt_shm_create("tutti-test", 3 * PAGE, &p, &ino);
	mem->addr = p;
	mem->len = 3 * PAGE;
	for (i = 0; mem->memfd >= 0 && i < mem->len; i++)
		((unsigned char *)p)[i] = (unsigned char)(i % 251);
	return mem->memfd < 0;
}

static void test_table(void)
{
	struct tt_shm_entry entry[SIZE] = {0};
	struct tt_mr *mr[SIZE], *again;
	struct tt_tp tp = {0};
	struct tt_shm_table t;
	struct tt_mem mem = {0};
	int i;

	TT_REQUIRE(!new_memory(&mem) && !tt_shm_table_init(&t, entry, SIZE));
	for (i = 0; i < SIZE; i++) {
		TT_CHECK(!tt_shm_table_full(&t));
		TT_REQUIRE(!tt_shm_list(&t, &tp, &mem, TT_ACCESS_READ, &mr[i]));
		TT_CHECK(entry[i].id == mr[i]->rkey.word[0] && mr[i]->tp == &tp);
	}
	TT_CHECK(tt_shm_table_full(&t));
	tt_shm_unlist(&t, mr[1]);
	TT_CHECK(!entry[1].id);
	tt_shm_mr_free(&t, mr[1], true);
	TT_REQUIRE(!tt_shm_list(&t, &tp, &mem, TT_ACCESS_READ, &again));
	TT_CHECK(again->rkey.word[1] == 1 && again->rkey.word[0] > SIZE); /* ids are not reused */
	tt_shm_unlist(&t, again);
	tt_shm_mr_free(&t, again, false);
	TT_CHECK(tt_shm_table_full(&t)); /* a peer may still read the entry */
	mem.len++;
	TT_CHECK(tt_shm_list(&t, &tp, &mem, TT_ACCESS_READ, &again) == -EINVAL);
	mem.len--;
	for (i = 0; i < SIZE; i++)
		if (i != 1)
			tt_shm_mr_free(&t, mr[i], true);
	tt_shm_table_free(&t);
	munmap(mem.addr, mem.len);
	close(mem.memfd);
}

static void test_maps(void)
{
	struct tt_shm_entry entry[SIZE] = {0};
	struct tt_shm_maps maps = {0};
	struct tt_mr *mr, *next;
	struct tt_tp tp = {0};
	struct tt_shm_table t;
	struct tt_mem mem = {0}, part;
	const char *kept;
	uint64_t id;

	TT_REQUIRE(!new_memory(&mem) && !tt_shm_table_init(&t, entry, SIZE));
	part = mem;
	part.memfd_off = PAGE + 100; /* within a page, and not whole pages */
	part.len = PAGE;
	TT_REQUIRE(!tt_shm_list(&t, &tp, &part, TT_ACCESS_READ | TT_ACCESS_WRITE, &mr));
	id = mr->rkey.word[0];
	TT_CHECK(!tt_shm_maps_has(&maps, 0, id));
	TT_REQUIRE(!tt_shm_maps_add(&maps, getpid(), entry, 0, id));
	TT_CHECK(tt_shm_maps_has(&maps, 0, id));
	kept = maps.map[0].ptr;
	TT_CHECK(!memcmp(kept, (char *)mem.addr + PAGE + 100, PAGE));
	maps.map[0].ptr[0] = 7;
	TT_CHECK(((char *)mem.addr)[PAGE + 100] == 7);

	maps.map[0].kept = true;
	tt_shm_unlist(&t, mr);
	tt_shm_mr_free(&t, mr, true);
	tt_shm_maps_sweep(&maps, entry);
	TT_CHECK(kept[0] == 7); /* stays until the end */
	TT_REQUIRE(!tt_shm_list(&t, &tp, &mem, TT_ACCESS_READ, &next));
	TT_REQUIRE(!tt_shm_maps_add(&maps, getpid(), entry, 0, next->rkey.word[0]));
	TT_CHECK(kept[0] == 7 && maps.nkept == 1 && maps.map[0].ptr != kept);
	tt_shm_unlist(&t, next);
	tt_shm_mr_free(&t, next, true);
	tt_shm_maps_sweep(&maps, entry);
	TT_CHECK(!maps.map[0].id);

	entry[0].at.ino++; /* the descriptor is of another file by now */
	TT_CHECK(tt_shm_maps_add(&maps, getpid(), entry, 0, 99) == -ESTALE);
	TT_CHECK(!tt_shm_maps_has(&maps, 0, 99));
	tt_shm_maps_free(&maps);
	tt_shm_table_free(&t);
	munmap(mem.addr, mem.len);
	close(mem.memfd);
}

static void test_vm_copy(void)
{
	char here[64] = "here", there[64] = "there", *hole;
	int err = tt_shm_vm_copy(getpid(), here, (uintptr_t)there, sizeof(there), false);

	if (err == -ENOSYS || err == -EPERM)
		TT_SKIP("process_vm_readv: %s", strerror(-err));
	TT_CHECK(!err && !strcmp(here, "there"));
	TT_CHECK(!tt_shm_vm_copy(getpid(), "again", (uintptr_t)there, 6, true));
	TT_CHECK(!strcmp(there, "again"));
	hole = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	TT_REQUIRE(hole != MAP_FAILED);
	munmap(hole + PAGE, PAGE);
	/* Half of the range is there. */
	TT_CHECK(tt_shm_vm_copy(getpid(), here, (uintptr_t)hole + PAGE - 32, 64, false) < 0);
	munmap(hole, PAGE);
}

/* Where the destination lies shortly after the source, modulo a page, copies take another way. */
static void test_vm_lags(void)
{
	static const size_t lens[] = {64, 16383, 16384, 100003};
	size_t room = 32 * PAGE, i, lag, k;
	char *from = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *to = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int err = tt_shm_vm_copy(getpid(), to, (uintptr_t)from, 1, false);

	if (err == -ENOSYS || err == -EPERM)
		TT_SKIP("process_vm_readv: %s", strerror(-err));
	for (i = 0; i < room; i++)
		from[i] = (char)(i * 31 + i / 251);
	for (k = 0; k < sizeof(lens) / sizeof(lens[0]); k++)
		for (lag = 0; lag < 40; lag += lag < 18 ? 1 : 7) {
			memset(to, 0, room);
			TT_CHECK(!tt_shm_vm_copy(getpid(), to + lag, (uintptr_t)from, lens[k],
						 false));
			TT_CHECK(!memcmp(to + lag, from, lens[k]) && !to[lag + lens[k]]);
			memset(to, 0, room);
			TT_CHECK(!tt_shm_vm_copy(getpid(), from, (uintptr_t)to + lag, lens[k],
						 true));
			TT_CHECK(!memcmp(to + lag, from, lens[k]) && !to[lag + lens[k]]);
		}
	munmap(to + 16 * PAGE, PAGE);
	TT_CHECK(tt_shm_vm_copy(getpid(), to + 8, (uintptr_t)from, 20 * PAGE, false) ==
		 -TT_EFAULT_HERE);
	TT_CHECK(tt_shm_vm_copy(getpid(), from, (uintptr_t)to + 8, 20 * PAGE, true) == -EFAULT);
	TT_CHECK(tt_shm_vm_copy(getpid(), to, (uintptr_t)from + PAGE - 8, 20 * PAGE, true) ==
		 -TT_EFAULT_HERE);
	TT_CHECK(tt_shm_vm_copy(getpid(), from + 8, (uintptr_t)to, 20 * PAGE, false) == -EFAULT);
	mprotect(from, room, PROT_READ); /* mapped, and not to be written */
	TT_CHECK(tt_shm_vm_copy(getpid(), from + 8, (uintptr_t)to, 10 * PAGE, false) ==
		 -TT_EFAULT_HERE);
	TT_CHECK(!tt_shm_vm_copy(getpid(), from, (uintptr_t)to + 8, 10 * PAGE, true));
	munmap(to, room);
	munmap(from, room);
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"segment", test_segment},
					       {"wake", test_wake},
					       {"table", test_table},
					       {"maps", test_maps},
					       {"vm_copy", test_vm_copy},
					       {"vm_lags", test_vm_lags},
					       {NULL, NULL}};

	return tt_test_main("segment", tests, argc, argv);
}
