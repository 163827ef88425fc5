/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The registration cache, over a transport that notes which pages it was given: each page of the
 * arena has a generation that the test raises whenever its content becomes another page's, so a
 * registration that is stale shows.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/hash.h"
#include "lib/mem/mem.h"
#include "lib/mem/spans.h"
#include "lib/mem/watch.h"
#include "tests/test.h"

#define PAGE 4096ul
#define ARENA 64 /* pages */
#define BUF (8 * PAGE)

struct noted_mr {
	struct tt_mr mr;
	uint64_t serial;
	uintptr_t start;
	size_t len;
	unsigned generation[ARENA];
};

static char *arena;
static unsigned generation[ARENA];
static int live_mrs, fail_next;
static uint64_t serial;

static int note_reg(struct tt_tp *tp, const struct tt_mem *mem, unsigned access, struct tt_mr **out)
{
	struct noted_mr *mr;

	if (fail_next) {
		fail_next--;
		return tt_fail(-ENOMEM, "told to fail");
	}
	mr = calloc(1, sizeof(*mr));
	mr->mr.tp = tp;
	mr->serial = ++serial;
	mr->start = (uintptr_t)mem->addr;
	mr->len = mem->len;
	memcpy(mr->generation, generation, sizeof(generation));
	live_mrs++;
	*out = &mr->mr;
	return 0;
}

static int note_dereg(struct tt_mr *mr)
{
	live_mrs--;
	free(mr);
	return 0;
}

static const struct tt_tp_ops note_ops = {.name = "note", .reg = note_reg, .dereg = note_dereg};
static struct tt_tp note = {.ops = &note_ops, .caps = TT_CAP_REG_ANY};
static struct tt_tp *const tps[] = {&note};
static pthread_mutex_t tp_mutex;
static struct tt_env env;

static void lock_tp(void *arg)
{
	pthread_mutex_lock(arg);
}

static void unlock_tp(void *arg)
{
	pthread_mutex_unlock(arg);
}

static struct tt_memory *new_memory(size_t bytes, int count)
{
	struct tt_memory *m = NULL;
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&tp_mutex, &attr);
	tt_env_load(&env);
	env.reg_cache.number = (int64_t)bytes;
	env.reg_cache_count.number = count;
	TT_CHECK(!tt_memory_new(&env, tps, 1, lock_tp, unlock_tp, &tp_mutex, &m));
	return m;
}

static void end_memory(struct tt_memory *m)
{
	tt_memory_free(m);
	tt_env_free(&env);
	pthread_mutex_destroy(&tp_mutex);
	TT_CHECK(live_mrs == 0);
}

static struct tt_mem_stats stats_of(struct tt_memory *m)
{
	struct tt_mem_stats s;

	tt_memory_stats(m, &s);
	return s;
}

static const char *unusable(void)
{
	struct tt_watch *watch;

	if (tt_watch_new(&watch))
		return "userfaultfd is not usable here";
	tt_watch_free(watch);
	return NULL;
}

#define NEEDS_WATCH()                                                                              \
	do {                                                                                       \
		if (unusable())                                                                    \
			TT_SKIP("%s", unusable());                                                 \
	} while (0)

static void *map_at(void *at, size_t len)
{
	return mmap(at, len, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);
}

static void new_arena(void)
{
	arena = map_at(NULL, ARENA * PAGE);
	memset(arena, 1, ARENA * PAGE);
	memset(generation, 0, sizeof(generation));
}

static void end_arena(void)
{
	munmap(arena, ARENA * PAGE);
}

static void changed(int first, int n)
{
	for (; n--; first++)
		generation[first]++;
}

/*
 * Whether the region covers [addr, addr + len) and was registered when the pages were those of
 * now.
 */
static bool fresh(const struct tt_region *r, const char *addr, size_t len)
{
	const struct noted_mr *mr = (const struct noted_mr *)r->mr[0];
	size_t i;

	if ((uintptr_t)addr < mr->start || (uintptr_t)addr + len > mr->start + mr->len)
		return false;
	for (i = (size_t)(addr - arena) / PAGE; i <= (size_t)(addr + len - 1 - arena) / PAGE; i++)
		if (mr->generation[i] != generation[i])
			return false;
	return true;
}

static uint64_t serial_of(const struct tt_region *r)
{
	return ((const struct noted_mr *)r->mr[0])->serial;
}

/* Borrow and give back; the serial of the registration, 0: none. */
static uint64_t touch(struct tt_memory *m, void *addr, size_t len)
{
	struct tt_region *r = tt_mem_borrow(m, addr, len);
	uint64_t s = r ? serial_of(r) : 0;

	tt_mem_return(r);
	return s;
}

/* ---- the tree ---- */

#define SPANS 300

static struct tt_span *naive_overlap(struct tt_span *span, const bool *in, uintptr_t start,
				     uintptr_t end)
{
	struct tt_span *best = NULL;
	int i;

	for (i = 0; i < SPANS; i++)
		if (in[i] && span[i].start < end && span[i].end > start &&
		    (!best || span[i].start < best->start))
			best = &span[i];
	return best;
}

static bool naive_covered(const struct tt_span *span, const bool *in, uintptr_t start,
			  uintptr_t end)
{
	int i;

	for (i = 0; i < SPANS; i++)
		if (in[i] && span[i].start <= start && span[i].end >= end)
			return true;
	return false;
}

static void test_spans(void)
{
	static struct tt_span span[SPANS];
	static bool in[SPANS];
	struct tt_span *root = NULL, *got, *want;
	uint64_t seed = 11;
	uintptr_t start, end;
	int step, i;

	for (step = 0; step < 30000; step++) {
		i = (int)(tt_random(&seed) % SPANS);
		start = tt_random(&seed) % 1000;
		end = start + 1 + tt_random(&seed) % (step % 3 ? 20 : 400);
		if (in[i]) {
			tt_spans_remove(&root, &span[i]);
		} else {
			span[i].start = start;
			span[i].end = end;
			tt_spans_insert(&root, &span[i]);
		}
		in[i] = !in[i];
		start = tt_random(&seed) % 1000;
		end = start + 1 + tt_random(&seed) % 50;
		got = tt_spans_covering(root, start, end);
		TT_REQUIRE(!got == !naive_covered(span, in, start, end));
		TT_REQUIRE(!got || (got->start <= start && got->end >= end));
		got = tt_spans_overlap(root, start, end);
		want = naive_overlap(span, in, start, end);
		TT_REQUIRE(!got == !want && (!got || got->start == want->start));
		TT_REQUIRE(!got || (got->start < end && got->end > start));
	}
}

/* ---- the cache ---- */

static void test_hits(void)
{
	struct tt_memory *m;
	struct tt_region *r, *again, *mine;
	struct tt_mem_stats s;

	NEEDS_WATCH();
	m = new_memory(1 << 20, 16);
	new_arena();
	r = tt_mem_borrow(m, arena + 100, BUF);
	TT_REQUIRE(r && r->cached && fresh(r, arena + 100, BUF));
	again = tt_mem_borrow(m, arena + 100, BUF);
	TT_CHECK(again == r);
	tt_mem_return(again);
	TT_CHECK(touch(m, arena + PAGE, BUF - PAGE) == serial_of(r)); /* inside */
	TT_CHECK(touch(m, arena + PAGE, BUF + PAGE) == serial_of(r) + 1);
	TT_CHECK(!tt_mem_borrow(m, arena, 1000)); /* too short to bother */
	tt_mem_return(r);
	tt_mem_return(NULL);
	s = stats_of(m);
	TT_CHECK(s.cache_hits == 2 && s.cache_misses == 2 && !s.cache_evictions && !s.cache_stale);
	TT_CHECK(s.cache_count == 2 && s.cache_bytes == 9 * PAGE + 9 * PAGE);
	TT_CHECK(!tt_mem_register(m, arena + 20 * PAGE, BUF, TT_ACCESS_WRITE, &mine));
	TT_CHECK(tt_mem_borrow(m, arena + 20 * PAGE, BUF) ==
		 mine); /* registered memory needs no cache */
	tt_mem_return(mine);
	TT_CHECK(!tt_mem_deregister(mine));
	end_memory(m);
	end_arena(); /* the watch has ended: it does not wait */
}

static void test_limits(void)
{
	struct tt_region *r[4], *more;
	struct tt_memory *m;
	uint64_t first, s;
	int i;

	NEEDS_WATCH();
	m = new_memory(3 * BUF, 16);
	new_arena();
	for (i = 0; i < 3; i++)
		r[i] = tt_mem_borrow(m, arena + (size_t)i * BUF, BUF);
	TT_REQUIRE(r[0] && r[1] && r[2]);
	TT_CHECK(!tt_mem_borrow(m, arena + 3 * BUF, BUF)); /* all are in use */
	TT_CHECK(!tt_mem_borrow(m, arena, 4 * BUF));	   /* never fits */
	first = serial_of(r[0]);
	tt_mem_return(r[1]);
	tt_mem_return(r[0]);
	tt_mem_return(r[2]);
	/* longest unused: 1, then 0; but 0 is used once more, so 2 */
	s = touch(m, arena + 3 * BUF, BUF);
	TT_CHECK(s == serial && stats_of(m).cache_evictions == 1);
	TT_CHECK(touch(m, arena, BUF) == first);
	s = serial;
	TT_CHECK(touch(m, arena + BUF, BUF) == s + 1); /* 1 was gone, 2 goes */
	TT_CHECK(touch(m, arena, BUF) == first && serial == s + 1);
	TT_CHECK(touch(m, arena + 2 * BUF, BUF) == s + 2);
	TT_CHECK(stats_of(m).cache_bytes == 3 * BUF && live_mrs == 3);
	/* one user of two is through: still in use */
	r[0] = tt_mem_borrow(m, arena, BUF);
	TT_REQUIRE(r[0] && tt_mem_borrow(m, arena, BUF) == r[0]);
	tt_mem_return(r[0]);
	for (i = 1; i < 6; i++)
		TT_CHECK(touch(m, arena + (size_t)i * BUF, BUF) != 0);
	TT_CHECK(touch(m, arena, BUF) == first);
	tt_mem_return(r[0]);
	end_memory(m);
	m = new_memory(1 << 20, 2);
	for (i = 0; i < 8; i++) {
		TT_CHECK(touch(m, arena + (size_t)i * PAGE, BUF) != 0);
		TT_CHECK(stats_of(m).cache_count <= 2 && live_mrs <= 2);
	}
	/* a transport that has no room gets it from the cache */
	fail_next = 1;
	more = tt_mem_borrow(m, arena + 40 * PAGE, BUF);
	TT_CHECK(more && live_mrs == 1);
	tt_mem_return(more);
	fail_next = 100;
	TT_CHECK(!tt_mem_borrow(m, arena + 20 * PAGE, BUF) && live_mrs == 0);
	fail_next = 0;
	end_memory(m);
	end_arena();
}

static void change(int how, char *p, size_t len)
{
	char *moved;
	size_t i;

	switch (how) {
	case 0:
		munmap(p, len);
		map_at(p, len);
		break;
	case 1:
		map_at(p, len);
		break;
	case 2:
		madvise(p, len, MADV_DONTNEED);
		break;
	case 3:
		madvise(p, len, MADV_FREE);
		break;
	case 4: /* moved away, page by page, as they may be of several mappings; others come */
		moved = map_at(NULL, len);
		for (i = 0; i < len; i += PAGE)
			TT_CHECK(mremap(p + i, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
					moved + i) == moved + i);
		map_at(p, len);
		munmap(moved, len);
		break;
	default: /* moved here from elsewhere */
		moved = map_at(NULL, len);
		TT_CHECK(mremap(moved, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, p) == p);
	}
	changed((int)((size_t)(p - arena) / PAGE), (int)(len / PAGE));
	memset(p, 7, len);
}

#define CHANGES 6

/*
 * Every way in which another page comes to an address, for all of a buffer and for its last page.
 */
static void test_changes(void)
{
	struct tt_memory *m;
	struct tt_region *r;
	int how, part;

	NEEDS_WATCH();
	m = new_memory(1 << 20, 16);
	new_arena();
	for (how = 0; how < CHANGES; how++)
		for (part = 0; part < 2; part++) {
			uint64_t before = touch(m, arena, BUF), stale = stats_of(m).cache_stale;

			TT_REQUIRE(before && touch(m, arena, BUF) == before);
			change(how, part ? arena + BUF - PAGE : arena, part ? PAGE : BUF);
			r = tt_mem_borrow(m, arena, BUF);
			TT_CHECK(r && serial_of(r) != before && fresh(r, arena, BUF));
			TT_CHECK(stats_of(m).cache_stale == stale + 1);
			/* changed while in use: out at once, freed when it is given back */
			change(how, arena, PAGE);
			TT_CHECK(touch(m, arena, BUF) != (r ? serial_of(r) : 0));
			tt_mem_return(r);
			TT_CHECK(live_mrs == 1);
		}
	/* the neighbours do not matter */
	TT_CHECK(touch(m, arena, BUF) != 0);
	how = (int)serial;
	change(0, arena + BUF, BUF);
	TT_CHECK(touch(m, arena, BUF) == (uint64_t)how);
	end_memory(m);
	end_arena();
}

/* malloc gives memory back and gets it again at the same place. */
static void test_malloc(void)
{
	uint64_t last = 0, s;
	struct tt_memory *m;
	void *p;
	int i;

	NEEDS_WATCH();
	m = new_memory(64 << 20, 64);
	arena = NULL;
	mallopt(M_MMAP_THRESHOLD, 1 << 20); /* so that it does not learn to keep it */
	for (i = 0; i < 50; i++) {
		p = malloc((size_t)1 << 22);
		memset(p, i, (size_t)1 << 22);
		s = touch(m, p, (size_t)1 << 22);
		TT_CHECK(s && s != last);
		last = s;
		free(p);
	}
	end_memory(m);
}

/* Memory that can change without a notice is not cached. */
static void test_strangers(void)
{
	int memfd = memfd_create("shared", 0), file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	uint64_t first, third;
	struct tt_memory *m;
	char *p;

	NEEDS_WATCH();
	m = new_memory(1 << 20, 16);
	new_arena();
	TT_REQUIRE(memfd >= 0 && file >= 0 && !ftruncate(memfd, BUF));
	first = touch(m, arena, BUF);
	third = touch(m, arena + 2 * BUF, BUF);
	TT_CHECK(first && third);
	p = arena + BUF;
	mmap(p, BUF, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memfd, 0);
	TT_CHECK(!touch(m, p, BUF) && !touch(m, arena, 2 * BUF) && !touch(m, p, 2 * BUF));
	mmap(p, BUF, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, 0);
	TT_CHECK(!touch(m, p, BUF) && !touch(m, arena, 2 * BUF));
	map_at(p, BUF);
	mprotect(p, BUF, PROT_READ);
	TT_CHECK(!touch(m, p, BUF));
	munmap(p, BUF);
	TT_CHECK(!touch(m, p, BUF) && !touch(m, arena, 3 * BUF));
	/* the two others have lost nothing by that, their watch least of all */
	TT_CHECK(live_mrs == 2);
	TT_CHECK(touch(m, arena, BUF) == first && touch(m, arena + 2 * BUF, BUF) == third);
	change(0, arena + BUF - PAGE, PAGE);
	change(2, arena + 2 * BUF, PAGE);
	TT_CHECK(touch(m, arena, BUF) > third && touch(m, arena + 2 * BUF, BUF) > third);
	close(memfd);
	close(file);
	end_memory(m);
	end_arena();
}

/* Random operations: regions given out are never stale, and limits hold. */
static void test_random(void)
{
	struct tt_region *held[4] = {NULL};
	struct tt_memory *m;
	uint64_t seed = 5;
	int step, i, n, k;

	NEEDS_WATCH();
	m = new_memory(24 * PAGE, 5);
	new_arena();
	for (step = 0; step < 4000; step++) {
		n = 4 + (int)(tt_random(&seed) % 12);
		i = (int)(tt_random(&seed) % (uint64_t)(ARENA - n));
		k = (int)(tt_random(&seed) % 4);
		switch (tt_random(&seed) % 5) {
		case 0:
			change((int)(tt_random(&seed) % CHANGES), arena + (size_t)i * PAGE,
			       (size_t)(1 + n / 6) * PAGE);
			break;
		case 1:
			tt_mem_return(held[k]);
			held[k] = NULL;
			break;
		default:
			tt_mem_return(held[k]);
			held[k] = tt_mem_borrow(m, arena + (size_t)i * PAGE + 8,
						(size_t)n * PAGE - 16);
			TT_REQUIRE(!held[k] || fresh(held[k], arena + (size_t)i * PAGE + 8,
						     (size_t)n * PAGE - 16));
		}
		TT_REQUIRE(stats_of(m).cache_bytes <= 24 * PAGE && stats_of(m).cache_count <= 5);
		TT_REQUIRE(live_mrs <= 5);
	}
	TT_CHECK(stats_of(m).cache_hits > 50 && stats_of(m).cache_stale > 50 &&
		 stats_of(m).cache_evictions > 50);
	for (k = 0; k < 4; k++)
		tt_mem_return(held[k]);
	end_memory(m);
	end_arena();
}

/* ---- threads, processes, systems that forbid it ---- */

static struct tt_memory *shared_memory;

/* Its own memory, mapped anew at the same address each time: never an old registration. */
static void *remap_loop(void *at)
{
	uintptr_t bad = 0;
	uint64_t last = 0;
	struct tt_region *r;
	int i;

	for (i = 0; i < 200; i++) {
		memset(at, i, BUF);
		r = tt_mem_borrow(shared_memory, at, BUF);
		if (r) {
			bad += serial_of(r) <= last;
			last = serial_of(r);
		}
		tt_mem_return(r);
		map_at(at, BUF); /* no hole meanwhile, which another thread's memory could take */
	}
	return (void *)bad;
}

static void test_threads(void)
{
	pthread_t thread[4];
	void *bad;
	int i;

	NEEDS_WATCH();
	shared_memory = new_memory(1 << 20, 16);
	new_arena();
	for (i = 0; i < 4; i++)
		TT_REQUIRE(
			!pthread_create(&thread[i], NULL, remap_loop, arena + (size_t)i * 2 * BUF));
	for (i = 0; i < 4; i++) {
		pthread_join(thread[i], &bad);
		TT_CHECK(!bad);
	}
	end_memory(shared_memory);
	end_arena();
}

/* munmap by a thread that holds the lock which the cache needs: the notice is still taken. */
static void test_locked_unmap(void)
{
	struct tt_memory *m;

	NEEDS_WATCH();
	m = new_memory(1 << 20, 16);
	new_arena();
	TT_CHECK(touch(m, arena, BUF) != 0);
	lock_tp(&tp_mutex);
	alarm(30);
	change(0, arena, BUF);
	alarm(0);
	unlock_tp(&tp_mutex);
	TT_CHECK(touch(m, arena, BUF) == serial);
	end_memory(m);
	end_arena();
}

/* A child gives its copy back: it does not wait, and nothing changes here. */
static void test_fork(void)
{
	struct tt_memory *m;
	int status;
	pid_t pid;

	NEEDS_WATCH();
	m = new_memory(1 << 20, 16);
	new_arena();
	TT_CHECK(touch(m, arena, BUF) != 0);
	pid = fork();
	if (!pid) {
		alarm(20);
		munmap(arena, BUF);
		_exit(0);
	}
	TT_CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status));
	TT_CHECK(touch(m, arena, BUF) == serial && stats_of(m).cache_hits == 1);
	end_memory(m);
	end_arena();
}

static bool logged;

static void on_log(enum tutti_log_level level, const char *text, void *arg)
{
	logged = logged || (level == TUTTI_LOG_WARN && strstr(text, "TUTTI_REG_CACHE") &&
			    strstr(text, "userfaultfd"));
}

/* As a container does that forbids the call. */
static int forbid_userfaultfd(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {sizeof(code) / sizeof(code[0]), code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

static int without_userfaultfd(void)
{
	struct tt_memory *m;
	bool off;

	if (forbid_userfaultfd())
		return 77;
	tutti_set_log(on_log, NULL, TUTTI_LOG_WARN);
	m = new_memory(1 << 20, 16);
	new_arena();
	off = m && !touch(m, arena, BUF) && !stats_of(m).cache_misses;
	end_memory(m);
	return off && logged ? 0 : 1;
}

static void test_forbidden(void)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(without_userfaultfd());
	TT_REQUIRE(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		TT_SKIP("no seccomp filters here");
	TT_CHECK(!WEXITSTATUS(status));
}

/* A region for one operation serves no other, which might outlast it. */
static void test_once(void)
{
	struct tt_memory *m = new_memory(0, 16);
	struct tt_region *r = NULL, *found;

	new_arena();
	TT_REQUIRE(!tt_mem_register_once(m, arena, BUF, &r));
	TT_CHECK(live_mrs == 1 && r->mr[0] && !tt_mem_find(m, arena, BUF) &&
		 !tt_mem_borrow(m, arena, BUF));
	TT_CHECK(tt_mem_find_buffer(m, arena, 2 * BUF, &found));
	tt_mem_return(r);
	TT_CHECK(live_mrs == 0);
	fail_next = 1;
	r = NULL;
	TT_CHECK(tt_mem_register_once(m, arena, BUF, &r) == -ENOMEM && !r);
	end_memory(m);
	end_arena();
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"spans", test_spans},
		{"hits", test_hits},
		{"limits", test_limits},
		{"changes", test_changes},
		{"malloc", test_malloc},
		{"strangers", test_strangers},
		{"random", test_random},
		{"threads", test_threads},
		{"locked_unmap", test_locked_unmap},
		{"fork", test_fork},
		{"once", test_once},
		{"forbidden", test_forbidden},
		{NULL, NULL},
	};

	return tt_test_main("cache", tests, argc, argv);
}
