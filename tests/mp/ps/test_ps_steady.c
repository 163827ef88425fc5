/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of a parameter server that have been made before take no memory from the heap: neither the
 * worker nor the server does, in any thread, counted at malloc itself and by the library's own
 * counter.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>

/* ---- counting: of all threads of this process, while it is on ---- */

static atomic_bool counting;
static atomic_ulong taken;
static _Atomic size_t largest;

static void count(size_t size)
{
	size_t most = atomic_load(&largest);

	if (!atomic_load_explicit(&counting, memory_order_relaxed))
		return;
	atomic_fetch_add(&taken, 1);
	while (size > most && !atomic_compare_exchange_weak(&largest, &most, size))
		;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

#define COUNTED 1
#define TURNS 200
extern int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *,
								       size_t),
						     void (*on_free)(const volatile void *));

static void on_malloc(const volatile void *p, size_t size)
{
	(void)p;
	count(size);
}

static void on_free(const volatile void *p)
{
	(void)p;
}

static void count_begin(void)
{
	static bool installed;

	if (!installed)
		__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
	installed = true;
	atomic_store(&counting, true);
}

#elif defined(__GLIBC__)

#define COUNTED 1
#define TURNS 500
#define REPLACED __attribute__((visibility("default")))
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void *__libc_memalign(size_t align, size_t size);

REPLACED void *malloc(size_t size)
{
	count(size);
	return __libc_malloc(size);
}

REPLACED void *calloc(size_t n, size_t size)
{
	count(n * size);
	return __libc_calloc(n, size);
}

REPLACED void *realloc(void *p, size_t size)
{
	count(size);
	return __libc_realloc(p, size);
}

REPLACED void *memalign(size_t align, size_t size)
{
	count(size);
	return __libc_memalign(align, size);
}

REPLACED void *aligned_alloc(size_t align, size_t size)
{
	return memalign(align, size);
}

REPLACED int posix_memalign(void **p, size_t align, size_t size)
{
	*p = memalign(align, size);
	return *p ? 0 : ENOMEM;
}

static void count_begin(void)
{
	atomic_store(&counting, true);
}

#else

#define COUNTED 0
#define TURNS 200
static void count_begin(void)
{
}

#endif

/* Allocations are counted. */
static void counter(void)
{
	void *volatile p[2];

	if (!COUNTED)
		TT_SKIP("malloc can't be replaced here");
	count_begin();
	p[0] = malloc(10);
	p[1] = calloc(2, 10);
	atomic_store(&counting, false);
	TT_CHECK(atomic_load(&taken) == 2 && atomic_load(&largest) == 20);
	free(p[0]);
	free(p[1]);
	atomic_store(&taken, 0);
	atomic_store(&largest, 0);
}

/* ---- the calls of a worker, each over and over ---- */

#define ELEMS (3 << 16) /* three blocks of float32, one more than there are servers */
#define KEYS 500
#define WIDTH 16
#define WARM 20

struct work {
	struct tutti_ps *ps;
	struct tutti_ps_table *dense, *rows, *aware;
	float *u, *v; /* updates, values: from the pool */
	uint64_t key[KEYS];
};

static int push(struct work *w, size_t n, size_t keys)
{
	(void)keys;
	return tutti_ps_push(w->dense, w->u, 0, n, TUTTI_FLOAT32);
}

static int pull(struct work *w, size_t n, size_t keys)
{
	(void)keys;
	return tutti_ps_pull(w->dense, w->v, 0, n, TUTTI_FLOAT32);
}

static int push_pull(struct work *w, size_t n, size_t keys)
{
	(void)keys;
	return tutti_ps_push_pull(w->dense, w->u, w->v, 0, n, TUTTI_FLOAT32);
}

static int push_rows(struct work *w, size_t n, size_t keys)
{
	(void)n;
	return tutti_ps_push_rows(w->rows, w->key, keys, w->u, TUTTI_FLOAT32);
}

static int pull_rows(struct work *w, size_t n, size_t keys)
{
	(void)n;
	return tutti_ps_pull_rows(w->rows, w->key, keys, w->v, TUTTI_FLOAT32);
}

static int tick(struct work *w, size_t n, size_t keys)
{
	(void)n;
	(void)keys;
	return tutti_ps_clock(w->ps);
}

/* Several under way at once, and rows with versions. */
static int at_once(struct work *w, size_t n, size_t keys)
{
	struct tutti_request *req[5];
	int err = tutti_ps_ipush(w->dense, w->u, 0, n, TUTTI_FLOAT32, &req[0]);

	if (!err)
		err = tutti_ps_ipush_rows(w->aware, w->key, keys, w->u, TUTTI_FLOAT32, &req[1]);
	if (!err)
		err = tutti_ps_ipull(w->dense, w->v, 0, n, TUTTI_FLOAT32, &req[2]);
	if (!err)
		err = tutti_ps_ipull_rows(w->aware, w->key, keys, w->v + ELEMS, TUTTI_FLOAT32,
					  &req[3]);
	if (!err)
		err = tutti_ps_iclock(w->ps, &req[4]);
	return err ? err : tutti_waitall(5, req);
}

static const struct {
	const char *name;
	int (*call)(struct work *w, size_t n, size_t keys);
} call[] = {{"push", push},
	    {"pull", pull},
	    {"push_pull", push_pull},
	    {"push_rows", push_rows},
	    {"pull_rows", pull_rows},
	    {"clock", tick},
	    {"five nonblocking calls", at_once}};

#define CALLS ((int)(sizeof(call) / sizeof(call[0])))

static int make(struct mp_job *job, struct work *w)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	size_t i;

	MP_OK(mp_ps_open(job, 2, TUTTI_PS_ASYNC, &w->ps));
	MP_OK(tutti_ps_dense(w->ps, "dense", ELEMS, TUTTI_FLOAT32, &opt, &w->dense));
	MP_OK(tutti_ps_rows(w->ps, "rows", WIDTH, KEYS, TUTTI_FLOAT32, &opt, &w->rows));
	opt.staleness_aware = 1;
	opt.rule = TUTTI_PS_SGD;
	opt.rate = 1;
	MP_OK(tutti_ps_rows(w->ps, "aware", WIDTH, KEYS, TUTTI_FLOAT32, &opt, &w->aware));
	MP_OK(tutti_alloc(job->ctx, ELEMS * sizeof(float), (void **)&w->u));
	MP_OK(tutti_alloc(job->ctx, (ELEMS + KEYS * WIDTH) * sizeof(float), (void **)&w->v));
	for (i = 0; i < ELEMS; i++)
		w->u[i] = 1;
	for (i = 0; i < KEYS; i++)
		w->key[i] = i * i;
	return 0;
}

/* So many of a call, now and then with all that there is. */
static int turns(struct mp_job *job, struct work *w, int c, int n)
{
	int i;

	for (i = 0; i < n && job->rank >= 2; i++)
		MP_OK(call[c].call(w, i % 10 ? 2000 : ELEMS, i % 10 ? 60 : KEYS));
	mp_meet(job);
	return 0;
}

/*
 * Lists of operations under way grow when there are more than ever before. This happens by chance,
 * but not in every call.
 */
static int counted(struct mp_job *job, struct work *w, int c)
{
	struct tutti_stats a = {.size = sizeof(a)}, b = a;
	unsigned long n;

	MP_OK(tutti_stats_get(job->ctx, &a));
	count_begin();
	TT_EXPECT(!turns(job, w, c, TURNS));
	atomic_store(&counting, false);
	MP_OK(tutti_stats_get(job->ctx, &b));
	n = atomic_exchange(&taken, 0);
	if (n <= TURNS / 20 && b.allocations - a.allocations <= TURNS / 20)
		return 0;
	fprintf(stderr,
		"rank %d, %s: %g times from the heap for each, at most %zu bytes; %g were "
		"counted\n",
		job->rank, call[c].name, (double)n / TURNS, atomic_exchange(&largest, 0),
		(double)(b.allocations - a.allocations) / TURNS);
	return 1;
}

static int steady_body(struct mp_job *job)
{
	struct work w;
	int c, bad = 0;

	TT_EXPECT(!make(job, &w));
	for (c = 0; c < CALLS; c++)
		TT_EXPECT(!turns(job, &w, c, WARM));
	for (c = 0; c < CALLS; c++)
		bad += counted(job, &w, c);
	MP_OK(tutti_free(w.u));
	MP_OK(tutti_free(w.v));
	MP_OK(tutti_ps_close(w.ps));
	TT_EXPECT(!bad);
	return 0;
}

static void steady_shm(void)
{
	TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_TRANSPORT=shm", .fn = steady_body));
}

static void steady_ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_TRANSPORT=ofi", .fn = steady_body));
}

static void steady_verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_TRANSPORT=verbs", .fn = steady_body,
			 .timeout_ms = 240000));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"counter", counter},
					       {"steady_shm", steady_shm},
					       {"steady_ofi", steady_ofi},
					       {"steady_verbs", steady_verbs},
					       {NULL, NULL}};

	return tt_test_main("ps_steady", tests, argc, argv);
}
