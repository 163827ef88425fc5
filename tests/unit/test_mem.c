/* SPDX-License-Identifier: BSD-3-Clause */
/* Pool and regions, over transports that only count registrations. */
#include "lib/base/inject.h" /* first: it renames declarations of the next headers */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/base/hash.h"
#include "lib/mem/mem.h"
#include "tests/test.h"

static int live_mrs, fail_after = -1, fail_code;

static int count_reg(struct tt_tp *tp, const struct tt_mem *mem, unsigned access, struct tt_mr **mr)
{
	if (fail_after == 0)
		return tt_fail(fail_code, "told to fail");
	fail_after -= fail_after > 0;
	*mr = calloc(1, sizeof(**mr));
	(*mr)->tp = tp;
	(*mr)->rkey.word[0] = (uint64_t)mem->memfd_off;
	live_mrs++;
	return 0;
}

static int count_dereg(struct tt_mr *mr)
{
	live_mrs--;
	free(mr);
	return 0;
}

static const struct tt_tp_ops count_ops = {.name = "count", .reg = count_reg, .dereg = count_dereg};
static struct tt_tp any = {.ops = &count_ops, .caps = TT_CAP_REG_ANY},
		    memfd_only = {.ops = &count_ops};
static struct tt_tp *const tps[] = {&any, &memfd_only};

static pthread_mutex_t tp_mutex;

static void lock_tp(void *arg)
{
	pthread_mutex_lock(arg);
}

static void unlock_tp(void *arg)
{
	pthread_mutex_unlock(arg);
}

static struct tt_env env;

/* A pool with slabs of 1 MiB and this limit (0: the default). */
static struct tt_memory *new_memory(int64_t limit)
{
	struct tt_memory *m = NULL;
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&tp_mutex, &attr);
	tt_env_load(&env);
	env.pool_slab.number = 1 << 20;
	env.pool_limit.number = limit;
	TT_CHECK(!tt_memory_new(&env, tps, 2, lock_tp, unlock_tp, &tp_mutex, &m));
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

static bool last_text(const char *part)
{
	struct tutti_error_info info = {.size = sizeof(info)};

	return !tutti_last_error(&info) && strstr(info.text, part);
}

static void test_alignment(void)
{
	static const size_t sizes[] = {0,    1,	   63,	 64,   65,     100,    1000,   2048,
				       2049, 4095, 4096, 4097, 100000, 524288, 524289, 3000001};
	enum { N = sizeof(sizes) / sizeof(*sizes) };
	struct tt_memory *m = new_memory(0);
	struct tt_region *region;
	char *p[2 * N];
	int i, k;

	TT_REQUIRE(m != NULL);
	for (i = 0; i < 2 * N; i++) {
		size_t size = sizes[i % N], align = 64;

		while (align < size && align < 4096)
			align *= 2;
		TT_REQUIRE(!tt_mem_alloc(m, size, (void **)&p[i], &region));
		TT_CHECK((uintptr_t)p[i] % align == 0);
		TT_CHECK(region->pool && region->mem.memfd >= 0 && region->mr[0] && region->mr[1]);
		TT_CHECK(tt_mem_find(m, p[i], size) == region && tt_mem_owner(p[i]) == m);
		memset(p[i], i, size);
		for (k = 0; k < i; k++)
			TT_CHECK(p[k] != p[i]);
	}
	for (i = 0; i < 2 * N; i++) /* no two blocks overlap */
		for (k = 0; k < (int)sizes[i % N]; k += 61)
			TT_CHECK(p[i][k] == (char)i);
	for (i = 0; i < 2 * N; i++)
		TT_CHECK(!tt_mem_free(m, p[i]) && tt_mem_owner(p[i]) == NULL);
	TT_CHECK(live_mrs == 2 * (int)stats_of(m).slabs);
	end_memory(m);
}

/* Seeded random allocs and frees, contents checked; then the same sizes again take nothing new. */
static void test_reuse(void)
{
	enum { N = 300 };
	struct tt_memory *m = new_memory(0);
	size_t size[N], have = 0;
	struct tt_mem_stats before;
	unsigned char *p[N] = {0};
	uint64_t seed = 4;
	int round, i;

	for (i = 0; i < N; i++) {
		size[i] = tt_random(&seed) % (i % 10 ? 5000 : 70000);
		have += size[i];
	}
	for (round = 0; round < 40; round++) {
		if (round == 20)
			before = stats_of(m);
		for (i = 0; i < N; i++) {
			if (p[i]) {
				TT_CHECK(!size[i] || (p[i][0] == (i & 0xff) &&
						      p[i][size[i] - 1] == (i & 0xff)));
				TT_CHECK(!tt_mem_free(m, p[i]));
				p[i] = NULL;
			}
			if (tt_random(&seed) & 3) {
				TT_REQUIRE(!tt_mem_alloc(m, size[i], (void **)&p[i], NULL));
				memset(p[i], i, size[i]);
			}
		}
	}
	TT_CHECK(stats_of(m).registrations == before.registrations);
	TT_CHECK(stats_of(m).allocations == before.allocations);
	TT_CHECK(stats_of(m).pool_bytes < 3 * have + (2 << 20));
	for (i = 0; i < N; i++)
		if (p[i])
			TT_CHECK(!tt_mem_free(m, p[i]));
	/* all of it has merged again: half a slab fits into each slab, twice */
	for (i = 0; i < 2 * (int)before.slabs; i++)
		TT_CHECK(!tt_mem_alloc(m, 1 << 19, (void **)&p[i], NULL));
	TT_CHECK(stats_of(m).slabs == before.slabs);
	end_memory(m);
}

static void test_large_cache(void)
{
	struct tt_memory *m = new_memory(64 << 20); /* 8 MiB may be cached */
	struct tt_mem_stats s;
	void *p, *q;
	int i;

	for (i = 0; i < 5; i++) {
		TT_REQUIRE(!tt_mem_alloc(m, 5 << 20, &p, NULL));
		TT_CHECK(!tt_mem_free(m, p));
	}
	s = stats_of(m);
	TT_CHECK(s.allocations == 1 && s.slabs == 1 && s.pool_bytes >= 5 << 20);
	TT_REQUIRE(!tt_mem_alloc(m, 5 << 20, &p, NULL) && !tt_mem_alloc(m, 6 << 20, &q, NULL));
	TT_CHECK(!tt_mem_free(m, p) && !tt_mem_free(m, q)); /* 11 MiB: the older one goes */
	TT_CHECK(stats_of(m).slabs == 1 && stats_of(m).pool_bytes == 6 << 20);
	TT_CHECK(tt_mem_find(m, p, 1) == NULL && tt_mem_free(m, p) == -EINVAL);
	TT_REQUIRE(!tt_mem_alloc(m, 60 << 20, &p, NULL)); /* the cache gives way to the limit */
	TT_CHECK(stats_of(m).slabs == 1);
	TT_CHECK(!tt_mem_free(m, p) && stats_of(m).pool_bytes == 0);
	end_memory(m);
}

static void test_limit(void)
{
	struct tt_memory *m = new_memory(4 << 20);
	void *p, *q = NULL, *untouched = &q;
	int i;

	TT_REQUIRE(!tt_mem_alloc(m, 3 << 20, &p, NULL));
	TT_CHECK(tt_mem_alloc(m, 2 << 20, &untouched, NULL) == -ENOMEM && untouched == &q);
	TT_CHECK(last_text("2097152") && last_text("4194304") && last_text("TUTTI_POOL_LIMIT"));
	TT_CHECK(!tt_mem_alloc(m, 1000, &q, NULL));
	TT_CHECK(!tt_mem_free(m, p) && !tt_mem_free(m, q));
	for (i = 0; i < 3; i++) { /* neither failures nor returned memory is counted twice */
		TT_CHECK(!tt_mem_alloc(m, 4 << 20, &p, NULL) && !tt_mem_free(m, p));
		TT_CHECK(tt_mem_alloc(m, (4 << 20) + 1, &q, NULL) == -ENOMEM);
	}
	TT_CHECK(tt_mem_alloc(m, SIZE_MAX, &q, NULL) == -ENOMEM);
	TT_CHECK(tt_mem_alloc(m, SIZE_MAX / 2, &q, NULL) == -ENOMEM);
	end_memory(m);
	m = new_memory(64 << 10); /* less than a slab */
	TT_CHECK(!tt_mem_alloc(m, 100, &p, NULL));
	end_memory(m);
	m = new_memory(1ll << 46); /* more than there is: refused, not killed */
	TT_CHECK(tt_mem_alloc(m, 1ull << 45, &p, NULL) == -ENOMEM &&
		 last_text("available to this process"));
	TT_CHECK(last_text("raise 'ulimit -v'"));
	TT_CHECK(stats_of(m).pool_bytes == 0);
	end_memory(m);
}

static void test_bad_pointers(void)
{
	struct tt_memory *m = new_memory(0), *other;
	char *p, *q, *big, local;

	TT_REQUIRE(!tt_memory_new(&env, NULL, 0, NULL, NULL, NULL, &other));
	TT_REQUIRE(!tt_mem_alloc(m, 100, (void **)&p, NULL));
	TT_REQUIRE(!tt_mem_alloc(m, 10000, (void **)&q, NULL));
	TT_REQUIRE(!tt_mem_alloc(m, 3 << 20, (void **)&big, NULL));
	TT_CHECK(tt_mem_free(m, &local) == -EINVAL && tt_mem_owner(&local) == NULL);
	TT_CHECK(tt_mem_free(m, NULL) == -EINVAL && tt_mem_owner(NULL) == NULL);
	TT_CHECK(tt_mem_free(m, p + 64) == -EINVAL && tt_mem_free(m, p + 1) == -EINVAL);
	TT_CHECK(tt_mem_free(m, p + 128) == -EINVAL); /* a block of that page, but free */
	TT_CHECK(tt_mem_free(m, q + 4096) == -EINVAL && tt_mem_free(m, q + 12288) == -EINVAL);
	TT_CHECK(tt_mem_free(m, big + 4096) == -EINVAL && tt_mem_owner(big + 4096) == NULL);
	TT_CHECK(tt_mem_free(other, p) == -EINVAL && tt_mem_owner(p) == m);
	TT_CHECK(!tt_mem_free(m, p) && !tt_mem_free(m, q) && !tt_mem_free(m, big));
	TT_CHECK(tt_mem_free(m, p) == -EINVAL && tt_mem_free(m, q) == -EINVAL);
	TT_CHECK(last_text("freed already"));
	TT_CHECK(tt_mem_free(m, big) == -EINVAL);
	tt_memory_free(other);
	end_memory(m);
}

static void test_regions(void)
{
	struct tt_memory *m = new_memory(0);
	struct tt_region *a, *b, *in_pool, *found;
	static char buf[10000];
	char *p;

	TT_REQUIRE(!tt_mem_register(m, buf + 1000, 2000, TT_ACCESS_WRITE, &a));
	TT_CHECK(a->mr[0] && !a->mr[1] && !a->pool && a->mem.memfd == -1);
	TT_CHECK(tt_mem_find(m, buf + 1000, 2000) == a && tt_mem_find(m, buf + 2999, 1) == a);
	TT_CHECK(!tt_mem_find(m, buf + 999, 2) && !tt_mem_find(m, buf + 1000, 2001));
	TT_CHECK(!tt_mem_find(m, buf + 1000, SIZE_MAX) && !tt_mem_find(m, buf, 1));
	/* only a buffer that runs out of the pool is a mistake */
	TT_CHECK(tt_mem_find_buffer(m, buf, 1001, &found) &&
		 tt_mem_find_buffer(m, buf, 10000, &found));
	TT_REQUIRE(
		!tt_mem_register(m, buf + 3000, 100, 0, &b)); /* next to it: no part is missing */
	TT_CHECK(tt_mem_find_buffer(m, buf + 2000, 1050, &found) &&
		 !tt_mem_find(m, buf + 2000, 1050));
	TT_CHECK(!tt_mem_deregister(b));
	/* a long one under a short one that starts later, and the same range twice */
	TT_REQUIRE(!tt_mem_register(m, buf, 10000, 0, &b));
	TT_CHECK(tt_mem_find(m, buf + 1500, 5000) == b && tt_mem_find(m, buf + 9999, 1) == b);
	TT_CHECK(tt_mem_deregister(b) == 0 && !tt_mem_find(m, buf + 9999, 1));
	TT_CHECK(tt_mem_deregister(b) == -EINVAL && tt_mem_deregister(NULL) == -EINVAL);
	TT_REQUIRE(!tt_mem_register(m, buf + 1000, 2000, 0, &b));
	TT_CHECK(!tt_mem_deregister(a) && tt_mem_find(m, buf + 1000, 2000) == b);
	TT_CHECK(stats_of(m).registrations == 4);

	TT_REQUIRE(!tt_mem_alloc(m, 8192, (void **)&p, &a));
	TT_CHECK(tt_mem_deregister(a) == -EINVAL); /* a slab is not the user's */
	TT_CHECK(!tt_mem_find_buffer(m, (char *)a->mem.addr + a->mem.len - 10, 20, &found));
	TT_CHECK(tt_mem_find_buffer(m, (char *)a->mem.addr + a->mem.len - 10, 10, &found));
	TT_REQUIRE(!tt_mem_register(m, p + 4096, 100, 0, &in_pool));
	TT_CHECK(in_pool->mr[1] && in_pool->mem.memfd == a->mem.memfd);
	TT_CHECK(in_pool->mem.memfd_off == (uint64_t)(p + 4096 - (char *)a->mem.addr));
	TT_CHECK(tt_mem_register(m, NULL, 10, 0, &a) == -EINVAL);
	TT_CHECK(tt_mem_register(m, buf, 0, 0, &a) == -EINVAL);
	TT_CHECK(tt_mem_register(m, buf, SIZE_MAX, 0, &a) == -EINVAL);
	end_memory(m); /* b and in_pool were forgotten */
}

/* A thread remembers a range until a table changes, and of one memory. */
static void test_remembered(void)
{
	struct tt_memory *m = new_memory(0), *other;
	struct tt_region *a, *found;
	static char buf[3000];
	int i;

	TT_REQUIRE(!tt_memory_new(&env, NULL, 0, NULL, NULL, NULL, &other));
	TT_CHECK(!tt_mem_find(m, buf, 1000) && !tt_mem_find(m, buf + 1500, 10));
	TT_REQUIRE(!tt_mem_register(m, buf + 1000, 1000, 0, &a));
	TT_CHECK(tt_mem_find(m, buf + 1500, 10) == a && !tt_mem_find(other, buf + 1500, 10));
	for (i = 0; i < 2; i++) { /* looked up, then remembered */
		TT_CHECK(!tt_mem_find(m, buf, 1000) && !tt_mem_find(m, buf + 2000, 1000));
		TT_CHECK(!tt_mem_find(m, buf, 1001) && !tt_mem_find(m, buf + 1999, 2));
		TT_CHECK(tt_mem_find(m, buf + 1000, 1000) == a);
		TT_CHECK(!tt_mem_find(m, buf + 1000, SIZE_MAX));
	}
	TT_CHECK(!tt_mem_deregister(a) && !tt_mem_find(m, buf + 1500, 10));
	tt_memory_free(other);
	/* perhaps where the last one was */
	TT_REQUIRE(!tt_memory_new(&env, NULL, 0, NULL, NULL, NULL, &other));
	TT_REQUIRE(!tt_mem_register(other, buf + 1000, 1000, 0, &a));
	TT_CHECK(tt_mem_find(other, buf + 1500, 10) == a && !tt_mem_find(m, buf + 1500, 10));
	TT_CHECK(tt_mem_find_buffer(other, buf, 3000, &found) && !found);
	tt_memory_free(other);
	end_memory(m);
}

/* Many regions against a plain search through all of them. */
static void test_find_random(void)
{
	enum { N = 60, BYTES = 4000 };
	struct tt_memory *m = new_memory(0);
	struct tt_region *r[N] = {0}, *found;
	static char buf[BYTES];
	uint64_t seed = 8;
	int i, k, start, len;
	bool any_covers;

	for (i = 0; i < 4000; i++) {
		k = (int)(tt_random(&seed) % N);
		start = (int)(tt_random(&seed) % (BYTES - 1));
		len = 1 + (int)(tt_random(&seed) % (uint64_t)(BYTES - start)) / (i % 7 + 1) / 2;
		if (i % 3 == 0) {
			if (r[k])
				TT_CHECK(!tt_mem_deregister(r[k]));
			r[k] = NULL;
			if (i & 1)
				TT_CHECK(!tt_mem_register(m, buf + start, (size_t)len, 0, &r[k]));
		}
		for (k = 0, any_covers = false; k < N; k++)
			any_covers |= r[k] && (char *)r[k]->mem.addr <= buf + start &&
				      (char *)r[k]->mem.addr + r[k]->mem.len >= buf + start + len;
		found = tt_mem_find(m, buf + start, (size_t)len);
		TT_CHECK(any_covers == (found != NULL));
		TT_CHECK(!found || ((char *)found->mem.addr <= buf + start &&
				    (char *)found->mem.addr + found->mem.len >= buf + start + len));
	}
	end_memory(m);
}

/* A registration with one transport is undone when the next one refuses. */
static void test_registration_fails(void)
{
	struct tt_memory *m = new_memory(0);
	struct tt_region *r = NULL;
	static char buf[100];
	void *p = NULL;

	fail_after = 1;
	fail_code = -ENOMEM;
	TT_CHECK(tt_mem_alloc(m, 100, &p, &r) == -ENOMEM && !p && !r && live_mrs == 0);
	TT_CHECK(last_text("told to fail") && stats_of(m).pool_bytes == 0);
	fail_after = 0;
	TT_CHECK(tt_mem_register(m, buf, 100, 0, &r) == -ENOMEM && !r && live_mrs == 0);
	fail_code = -EOPNOTSUPP; /* not an error: only the region is not registered there */
	TT_CHECK(!tt_mem_register(m, buf, 100, 0, &r) && r && !r->mr[0]);
	fail_after = -1;
	TT_CHECK(!tt_mem_alloc(m, 100, &p, NULL));
	end_memory(m);
}

/* A transport that was not selected by name must not make a registration fail. */
static void test_optional_transport(void)
{
	struct tt_memory *m = new_memory(0);
	struct tt_region *r = NULL;
	void *p;

	memfd_only.optional = true;
	fail_after = 1; /* any takes it, memfd_only does not */
	fail_code = -ENOMEM;
	tutti_set_log(NULL, NULL, TUTTI_LOG_NONE);
	TT_CHECK(!tt_mem_alloc(m, 100, &p, &r));
	TT_CHECK(r && r->mr[0] && !r->mr[1]);
	tutti_set_log(NULL, NULL, TUTTI_LOG_DEFAULT);
	memfd_only.optional = false;
	fail_after = -1;
	end_memory(m);
}

/* Peers of the host map the memfd: the same bytes at the same offset. */
static void test_memfd(void)
{
	struct tt_memory *m = new_memory(0);
	struct tt_region *r;
	char *p, *map;

	TT_REQUIRE(!tt_mem_alloc(m, 100, (void **)&p, &r));
	TT_CHECK(fcntl(r->mem.memfd, F_GETFD) & FD_CLOEXEC);
	map = mmap(NULL, r->mem.len, PROT_READ, MAP_SHARED, r->mem.memfd, (off_t)r->mem.memfd_off);
	TT_REQUIRE(map != MAP_FAILED);
	strcpy(p, "seen by both");
	TT_CHECK(!strcmp(map + (p - (char *)r->mem.addr), "seen by both"));
	munmap(map, r->mem.len);
	end_memory(m);
}

static int without_memlock(int rank, int nranks, void *arg)
{
	struct rlimit limit = {64 << 10, 64 << 10};
	struct tt_memory *m;
	void *p;

	TT_EXPECT(!setrlimit(RLIMIT_MEMLOCK, &limit));
	TT_EXPECT(!setgid(65534) && !setuid(65534)); /* and with it CAP_IPC_LOCK */
	m = new_memory(0);
	tt_memory_free(m);
	env.pool_lock.number = 1;
	TT_EXPECT(!tt_memory_new(&env, tps, 2, NULL, NULL, NULL, &m));
	TT_EXPECT(tt_mem_alloc(m, 100, &p, NULL) == -ENOMEM);
	TT_EXPECT(last_text("1048576") && last_text("65536") && last_text("RLIMIT_MEMLOCK"));
	TT_EXPECT(last_text("ulimit -l") && last_text("TUTTI_POOL_LOCK"));
	TT_EXPECT(stats_of(m).pool_bytes == 0);
	tt_memory_free(m);
	tt_env_free(&env);
	return 0;
}

static void test_memlock(void)
{
	TT_CHECK(tt_mem_fail_memlock(12345, "this") == -ENOMEM);
	TT_CHECK(last_text("this needs 12345") && last_text("RLIMIT_MEMLOCK"));
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	TT_SKIP("the sanitizers make mlock do nothing");
#endif
	if (getuid())
		TT_SKIP("needs root, to become a user without CAP_IPC_LOCK");
	TT_CHECK(tt_run_ranks(1, without_memlock, NULL, 10000, 0) == 0);
}

static int without_files(int rank, int nranks, void *arg)
{
	struct rlimit files, fsize = {1 << 16, 1 << 16}, none;
	struct tt_memory *m = new_memory(0);
	void *p;

	TT_EXPECT(!getrlimit(RLIMIT_FSIZE, &none) && !getrlimit(RLIMIT_NOFILE, &files));
	files.rlim_cur = 0; /* the hard limit stays: valgrind does not allow a change */
	signal(SIGXFSZ, SIG_IGN);
	TT_EXPECT(!setrlimit(RLIMIT_FSIZE, &fsize));
	TT_EXPECT(tt_mem_alloc(m, 100, &p, NULL) == -ENOMEM && last_text("RLIMIT_FSIZE"));
	TT_EXPECT(!setrlimit(RLIMIT_NOFILE, &files));
	TT_EXPECT(tt_mem_alloc(m, 100, &p, NULL) == -EMFILE && last_text("ulimit -n"));
	TT_EXPECT(stats_of(m).pool_bytes == 0);
	end_memory(m);
	return 0;
}

static void test_system_limits(void)
{
	TT_CHECK(tt_run_ranks(1, without_files, NULL, 10000, 0) == 0);
}

static void *churn(void *arg)
{
	struct tt_memory *m = arg;
	uint64_t seed = (uint64_t)pthread_self();
	static char buf[4096];
	struct tt_region *r;
	unsigned char *p[8] = {0};
	uintptr_t bad = 0;
	int i, k;

	for (i = 0; i < 1500; i++) {
		size_t size = tt_random(&seed) % (i % 50 ? 9000 : 3 << 20);

		k = i % 8;
		if (p[k])
			bad |= p[k][0] != k || tt_mem_owner(p[k]) != m || tt_mem_free(m, p[k]);
		if (i % 3 == 0) /* as the progress path does it */
			lock_tp(&tp_mutex);
		bad |= tt_mem_alloc(m, size + 1, (void **)&p[k], &r) != 0;
		if (i % 3 == 0)
			unlock_tp(&tp_mutex);
		if (bad)
			return (void *)bad;
		p[k][0] = (unsigned char)k;
		bad |= tt_mem_find(m, p[k], size + 1) != r;
		if (i % 10 == 0)
			bad |= tt_mem_register(m, buf, sizeof(buf), 0, &r) || tt_mem_deregister(r);
	}
	for (k = 0; k < 8; k++)
		bad |= tt_mem_free(m, p[k]) != 0;
	return (void *)bad;
}

static void test_threads(void)
{
	struct tt_memory *m = new_memory(256 << 20);
	pthread_t thread[4];
	void *bad;
	int i;

	for (i = 0; i < 4; i++)
		TT_REQUIRE(!pthread_create(&thread[i], NULL, churn, m));
	for (i = 0; i < 4; i++) {
		pthread_join(thread[i], &bad);
		TT_CHECK(!bad);
	}
	end_memory(m);
}

/* Allocates blocks of that size, checks whether p is among them, and frees them. */
static bool comes_again(struct tt_memory *m, const char *p, size_t size)
{
	char *q[100];
	bool again = false;
	int i;

	for (i = 0; i < 100; i++) {
		TT_CHECK(!tt_mem_alloc(m, size, (void **)&q[i], NULL));
		again |= q[i] < p + size && p < q[i] + size;
	}
	for (i = 0; i < 100; i++)
		TT_CHECK(!tt_mem_free(m, q[i]));
	return again;
}

/*
 * A part of a page, pages, a whole slab: freed, but not reused before all owners that withhold it
 * give it back.
 */
static void test_withheld(void)
{
	static const size_t sizes[] = {100, 3 * 4096 + 1, 600000};
	struct tt_memory *m = new_memory(256 << 20);
	const int a = 0, b = 0;
	size_t size;
	char *p;
	int i;

	for (i = 0; i < 3; i++) {
		size = sizes[i];
		TT_REQUIRE(!tt_mem_alloc(m, size, (void **)&p, NULL));
		tt_mem_withhold(m, p, &a);
		tt_mem_withhold(m, p + size - 1, &b);
		tt_mem_withhold(m, p + size / 2, &b); /* nothing new */
		TT_CHECK(!comes_again(m, p, size));
		TT_CHECK(!tt_mem_free(m, p));
		TT_CHECK(tt_mem_free(m, p) == -EINVAL && last_text("freed already"));
		TT_CHECK(!comes_again(m, p, size));
		tt_mem_withhold(m, p, &a); /* another write of the same */
		tt_mem_give_back(m, &a);
		TT_CHECK(tt_mem_free(m, p) == -EINVAL);
		TT_CHECK(!comes_again(m, p, size));
		tt_mem_give_back(m, &b);
		TT_CHECK(tt_mem_free(m, p) == -EINVAL);
		TT_CHECK(comes_again(m, p, size));
	}
	end_memory(m);
}

/* Given back while in use: no effect. Memory outside the pool and free blocks are not withheld. */
static void test_not_withheld(void)
{
	struct tt_memory *m = new_memory(256 << 20);
	const int a = 0;
	char *p, *q;

	TT_REQUIRE(!tt_mem_alloc(m, 5000, (void **)&p, NULL));
	tt_mem_withhold(m, p, &a);
	tt_mem_give_back(m, &a);
	TT_CHECK(!comes_again(m, p, 5000));
	tt_mem_withhold(m, &a, &a);
	tt_mem_withhold(m, NULL, &a);
	TT_CHECK(!tt_mem_free(m, p));
	tt_mem_withhold(m, p, &a);
	tt_mem_withhold(m, p + 4999, &a);
	TT_CHECK(comes_again(m, p, 5000));
	TT_REQUIRE(!tt_mem_alloc(m, 5000, (void **)&q, NULL));
	TT_CHECK(!tt_mem_free(m, q) && comes_again(m, q, 5000));
	TT_REQUIRE(!tt_mem_alloc(m, 700000, (void **)&p, NULL));
	tt_mem_withhold(m, p, &a); /* until the end, freed or not */
	TT_CHECK(!tt_mem_free(m, p));
	end_memory(m);
}

/* No memory to record a withheld block: its slab is not reused, which costs only room. */
static void test_withheld_for_good(void)
{
	struct tt_memory *m = new_memory(256 << 20);
	struct tt_env fault;
	const int a = 0;
	char *p, *q;

	TT_REQUIRE(!tt_mem_alloc(m, 100, (void **)&p, NULL));
	TT_REQUIRE(!tt_mem_alloc(m, 100, (void **)&q, NULL));
	setenv("TUTTI_FAULT", "alloc=1", 1);
	TT_REQUIRE(!tt_env_load(&fault));
	unsetenv("TUTTI_FAULT");
	TT_CHECK(!tt_inject_arm(&fault, -1));
	tt_mem_withhold(m, p, &a); /* the next allocation is here */
	tt_env_free(&fault);
	TT_CHECK(!tt_mem_free(m, p) && !tt_mem_free(m, q));
	tt_mem_give_back(m, &a);
	TT_CHECK(!comes_again(m, p, 100) && !comes_again(m, q, 100));
	end_memory(m);
}

static void *one_small(void *arg)
{
	void *p;

	return (void *)(intptr_t)tt_mem_alloc(arg, 100, &p, NULL);
}

/* Threads that all find the pool empty make one slab, not one each: the limit allows no second. */
static void test_threads_grow_once(void)
{
	struct tt_memory *m = new_memory(1 << 20);
	pthread_t thread[4];
	void *err;
	int i;

	for (i = 0; i < 4; i++)
		TT_REQUIRE(!pthread_create(&thread[i], NULL, one_small, m));
	for (i = 0; i < 4; i++) {
		pthread_join(thread[i], &err);
		TT_CHECK(!err);
	}
	TT_CHECK(stats_of(m).slabs == 1);
	end_memory(m);
}

static const struct tt_test tests[] = {{"alignment", test_alignment},
				       {"reuse", test_reuse},
				       {"large_cache", test_large_cache},
				       {"limit", test_limit},
				       {"bad_pointers", test_bad_pointers},
				       {"regions", test_regions},
				       {"remembered", test_remembered},
				       {"find_random", test_find_random},
				       {"registration_fails", test_registration_fails},
				       {"optional_transport", test_optional_transport},
				       {"memfd", test_memfd},
				       {"memlock", test_memlock},
				       {"system_limits", test_system_limits},
				       {"threads", test_threads},
				       {"withheld", test_withheld},
				       {"not_withheld", test_not_withheld},
				       {"withheld_for_good", test_withheld_for_good},
				       {"threads_grow_once", test_threads_grow_once},
				       {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("mem", tests, argc, argv);
}
