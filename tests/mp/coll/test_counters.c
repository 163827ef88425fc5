/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Zero copy, measured by the counters for registered and other buffers; a steady state allocates
 * and registers nothing.
 */
#include "config.h"

#include "tests/mp/coll/colls.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/comm/comm.h"
#include "lib/verify/check.h"
#include "lib/plan/choose.h"

static int stats_of(struct mp_job *job, struct tutti_stats *s)
{
	*s = (struct tutti_stats){.size = sizeof(*s)};
	MP_OK(tutti_stats_get(job->ctx, s));
	return 0;
}

#define COUNT 240000 /* float32; divisible by 2, 3, 4 and by what the pieces are */

/* On fewer processors than ranks another algorithm would be chosen. */
#define RING "TUTTI_ALGO=allreduce:ring"

/* The ring's formula, exact because COUNT is a multiple of n. */
static uint64_t ring_bytes(int n)
{
	return 2ull * (uint64_t)(n - 1) * COUNT * 4 / (uint64_t)n;
}

static int allreduce_counted(struct mp_job *job, enum mp_kind kind, bool in_place)
{
	struct tutti_stats a, b;
	struct mp_buf in, out;
	float *v;
	int i;

	MP_OK(mp_buf_new(job, kind, COUNT * 4, &in));
	MP_OK(mp_buf_new(job, kind, COUNT * 4, &out));
	v = (float *)(in_place ? out.p : in.p);
	for (i = 0; i < COUNT; i++)
		v[i] = (float)(i % 1000 + job->rank);
	MP_OK(tutti_barrier(job->world)); /* connected */
	MP_OK(tutti_allreduce(in_place ? TUTTI_IN_PLACE : in.p, out.p, COUNT, TUTTI_FLOAT32,
			      TUTTI_MAX, job->world));
	mp_meet(job);
	TT_EXPECT(!stats_of(job, &a));
	MP_OK(tutti_allreduce(in_place ? TUTTI_IN_PLACE : in.p, out.p, COUNT, TUTTI_FLOAT32,
			      TUTTI_MAX, job->world));
	/*
	 * A call may return while its last put is under way; it is counted when it is complete,
	 * which a finished barrier of the same kind can't promise either: so poll until it is
	 * there.
	 */
	for (i = 0; i < 2000; i++) {
		TT_EXPECT(!stats_of(job, &b));
		if (b.put_bytes - a.put_bytes >= ring_bytes(job->n))
			break;
		mp_sleep_ms(1);
	}
	v = (float *)out.p;
	for (i = 0; i < COUNT; i++)
		TT_EXPECT(v[i] == (float)(i % 1000 + job->n - 1));
	if (kind == MP_PLAIN)
		TT_EXPECT(b.copied_bytes > a.copied_bytes);
	else
		TT_EXPECT(b.copied_bytes == a.copied_bytes);
	if (b.put_bytes - a.put_bytes != ring_bytes(job->n))
		fprintf(stderr, "rank %d of %d put %llu bytes, not %llu\n", job->rank, job->n,
			(unsigned long long)(b.put_bytes - a.put_bytes),
			(unsigned long long)ring_bytes(job->n));
	TT_EXPECT(b.put_bytes - a.put_bytes == ring_bytes(job->n));
	TT_EXPECT(b.reduced_bytes - a.reduced_bytes == ring_bytes(job->n) / 2);
	TT_EXPECT(b.eager_messages == a.eager_messages);
	TT_EXPECT(b.put_messages > a.put_messages);
	TT_EXPECT(b.got_bytes == a.got_bytes);
	MP_OK(mp_buf_free(&in));
	MP_OK(mp_buf_free(&out));
	return 0;
}

static int bcast_counted(struct mp_job *job, enum mp_kind kind, int root)
{
	struct tutti_stats a, b;
	struct mp_buf buf;
	int i, last = (root + job->n - 1) % job->n;

	MP_OK(mp_buf_new(job, kind, COUNT * 4, &buf));
	for (i = 0; i < COUNT; i++)
		((int *)buf.p)[i] = job->rank == root ? i : -1;
	MP_OK(tutti_bcast(buf.p, COUNT, TUTTI_INT32, root, job->world));
	MP_OK(tutti_barrier(job->world));
	TT_EXPECT(!stats_of(job, &a));
	MP_OK(tutti_bcast(buf.p, COUNT, TUTTI_INT32, root, job->world));
	TT_EXPECT(!stats_of(job, &b));
	for (i = 0; i < COUNT; i++)
		TT_EXPECT(((int *)buf.p)[i] == i);
	if (kind != MP_PLAIN)
		TT_EXPECT(b.copied_bytes == a.copied_bytes);
	TT_EXPECT(b.reduced_bytes == a.reduced_bytes);
	if (job->n > 2 && job->rank == last) /* a chain: the end of it sends nothing */
		TT_EXPECT(b.put_bytes == a.put_bytes);
	MP_OK(mp_buf_free(&buf));
	return 0;
}

/*
 * Out of place a rank copies its own block once. In place it copies nothing, except the result of
 * a reduce-scatter, which moves to the beginning, and blocks of an all-to-all that are not sent
 * yet.
 */
static int other_counted(struct mp_job *job, enum colls_kind kind, enum mp_kind memory,
			 bool in_place)
{
	struct coll c = {.kind = kind,
			 .type = TUTTI_FLOAT32,
			 .count = COUNT / 4,
			 .root = job->n - 1,
			 .in_place = in_place,
			 .memory = memory};
	struct tutti_stats a, b;
	uint64_t own = COUNT;
	int i;

	TT_EXPECT(!colls_new(job, &c));
	for (i = 0; i < 2; i++) {
		colls_fill(job, &c, (unsigned)i + 1);
		MP_OK(tutti_barrier(job->world));
		TT_EXPECT(!stats_of(job, &a));
		MP_OK(colls_issue(job, &c, F_BLOCKING, NULL));
		TT_EXPECT(!stats_of(job, &b));
		TT_EXPECT(!colls_check(job, &c));
	}
	if (kind < C_REDUCING || c.in_place || (colls_rooted(kind) && job->rank != c.root))
		own = 0;
	if (kind == C_REDUCE_SCATTER_BLOCK && in_place && job->rank)
		own = COUNT;
	if (b.copied_bytes - a.copied_bytes != own)
		fprintf(stderr, "rank %d of %d: %s%s copied %llu bytes, not %llu\n", job->rank,
			job->n, colls_name(kind), in_place ? " in place" : "",
			(unsigned long long)(b.copied_bytes - a.copied_bytes),
			(unsigned long long)own);
	TT_EXPECT(b.copied_bytes - a.copied_bytes == own);
	TT_EXPECT(b.registrations == a.registrations);
	return colls_free(job, &c);
}

static int others_counted(struct mp_job *job)
{
	static const enum colls_kind kinds[] = {
		C_REDUCE, C_REDUCE_SCATTER_BLOCK, C_ALLGATHER, C_GATHER, C_SCATTER, C_ALLTOALL};
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		TT_EXPECT(!other_counted(job, kinds[i], i % 2 ? MP_POOL : MP_REGISTERED, false));
		if (kinds[i] != C_ALLTOALL)
			TT_EXPECT(!other_counted(job, kinds[i], i % 2 ? MP_REGISTERED : MP_POOL,
						 true));
	}
	return 0;
}

static int zero_copy_body(struct mp_job *job)
{
	int kind;

	for (kind = 0; kind < MP_KINDS; kind++) {
		TT_EXPECT(!allreduce_counted(job, kind, false));
		TT_EXPECT(!allreduce_counted(job, kind, true));
		TT_EXPECT(!bcast_counted(job, kind, job->n / 2));
	}
	return others_counted(job);
}

static void zero_copy_ofi(void)
{
	int n;

	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	for (n = 2; n <= 4; n++)
		TT_CHECK(!MP_RUN(.n = n, .env = "TUTTI_TRANSPORT=ofi " RING, .fn = zero_copy_body));
	TT_CHECK(!MP_RUN(.n = 3, .fn = zero_copy_body,
			 .env = "TUTTI_TRANSPORT=ofi TUTTI_OFI_EP=rdm "
				"TUTTI_OFI_PROVIDER=tcp;ofi_rxm " RING));
}

/* On shm unregistered memory needs no copy at the sender; the pool's promise is the same. */
static int zero_copy_pool(struct mp_job *job)
{
	TT_EXPECT(!allreduce_counted(job, MP_POOL, false));
	TT_EXPECT(!allreduce_counted(job, MP_POOL, true));
	TT_EXPECT(!allreduce_counted(job, MP_REGISTERED, true));
	TT_EXPECT(!bcast_counted(job, MP_POOL, 0));
	return others_counted(job);
}

static void zero_copy_shm(void)
{
	int n;

	for (n = 2; n <= 4; n++)
		TT_CHECK(!MP_RUN(.n = n, .env = "TUTTI_TRANSPORT=shm " RING, .fn = zero_copy_pool));
}

/* ---- bytes of a plan against bytes on the wire ---- */

#define CHUNK 16384
#define LANES 4

/* The cost of this rank's plan, made as the communicator makes it. */
static int planned(struct mp_job *job, const char *algo, size_t count, struct tt_plan_cost *cost)
{
	struct tt_plan_args args = {.coll = TT_COLL_ALLREDUCE,
				    .rank = job->rank,
				    .nranks = job->n,
				    .count = count,
				    .elem = 4,
				    .hosts = job->world->hosts};
	const struct tt_alg *alg;
	struct tt_plan *plan;

	alg = tt_choose(job->world->chooser, &args);
	TT_EXPECT(!strcmp(alg->name, algo));
	TT_EXPECT(!tt_plan_build(alg, &args, &plan));
	tt_plan_count(plan, cost);
	tt_plan_free(plan);
	return 0;
}

static int wire_once(struct mp_job *job, const char *algo, size_t count)
{
	struct tutti_stats a, b;
	struct tt_plan_cost cost;
	uint64_t put, messages;
	float *in, *out;
	int i;

	TT_EXPECT(!planned(job, algo, count, &cost));
	MP_OK(tutti_alloc(job->ctx, count * 4, (void **)&in));
	MP_OK(tutti_alloc(job->ctx, count * 4, (void **)&out));
	memset(in, 0, count * 4);
	TT_EXPECT(!stats_of(job, &a));
	MP_OK(tutti_allreduce(in, out, count, TUTTI_FLOAT32, TUTTI_SUM, job->world));
	for (i = 0; i < 2000; i++) { /* a call may return before its last put is counted */
		TT_EXPECT(!stats_of(job, &b));
		if (b.put_bytes - a.put_bytes >= cost.bytes_sent)
			break;
		mp_sleep_ms(1);
	}
	put = b.put_bytes - a.put_bytes;
	messages = b.put_messages - a.put_messages + b.eager_messages - a.eager_messages;
	if (put != cost.bytes_sent || messages != cost.messages_sent)
		fprintf(stderr,
			"%s, rank %d of %d, %zu elements: %llu bytes in %llu messages, planned "
			"%llu in %llu\n",
			algo, job->rank, job->n, count, (unsigned long long)put,
			(unsigned long long)messages, (unsigned long long)cost.bytes_sent,
			(unsigned long long)cost.messages_sent);
	TT_EXPECT(put == cost.bytes_sent && messages == cost.messages_sent);
	TT_EXPECT(b.reduced_bytes - a.reduced_bytes == cost.bytes_reduced);
	TT_EXPECT(b.got_bytes == a.got_bytes);
	MP_OK(tutti_free(in));
	MP_OK(tutti_free(out));
	return 0;
}

static int on_the_wire(struct mp_job *job)
{
	/* eager ones, some of both, and chunks; lengths that nothing divides */
	TT_EXPECT(!wire_once(job, job->arg, 101));
	TT_EXPECT(!wire_once(job, job->arg, 5003));
	return strcmp(job->arg, "hier_leader") ? wire_once(job, job->arg, 100003) : 0;
}

/* hosts: of two ranks each, which meet in memory */
static void wire_of(const char *algo, int n, bool hosts)
{
	char env[256];

	snprintf(env, sizeof(env), "%s TUTTI_CHUNK=%d TUTTI_LANES=%d TUTTI_ALGO=allreduce:%s",
		 hosts ? "TUTTI_HOST_ID=h%h" : "TUTTI_TRANSPORT=ofi", CHUNK, LANES, algo);
	TT_CHECK(!MP_RUN(.n = n, .env = env, .fn = on_the_wire, .arg = (void *)algo));
}

static void wire_ofi(void)
{
	static const char *const algos[] = {"ring",  "single_master",	   "direct_rsag",
					    "radix", "recursive_doubling", "halving_doubling",
					    "dbt",   "circulant",	   "circulant_rsag"};
	static const char *const hier[] = {"hier_ring", "hier_halving_doubling",
					   "hier_recursive_doubling", "hier_dbt", "hier_leader"};
	size_t i;
	int n;

	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	for (i = 0; i < sizeof(algos) / sizeof(algos[0]); i++)
		for (n = 3; n <= 5; n++)
			wire_of(algos[i], n, false);
	for (i = 0; i < sizeof(hier) / sizeof(hier[0]); i++)
		for (n = 4; n <= 6; n += 2)
			wire_of(hier[i], n, true);
}

/* ---- the registration cache ---- */

static int cached_call(struct mp_job *job, bool bcast, float *in, float *out)
{
	if (bcast)
		MP_OK(tutti_bcast(out, COUNT, TUTTI_FLOAT32, 0, job->world));
	else
		MP_OK(tutti_allreduce(in, out, COUNT, TUTTI_FLOAT32, TUTTI_MAX, job->world));
	return 0;
}

/* Plain memory is copied no more, from the first call on, and registered once. */
static int cached_counted(struct mp_job *job, bool bcast, float *in, float *out)
{
	struct tutti_stats a, b, c;
	int i;

	for (i = 0; i < COUNT; i++) {
		in[i] = (float)(i % 1000 + job->rank);
		out[i] = (float)(job->rank ? -1 : i % 1000 + job->n - 1); /* what bcast sends */
	}
	MP_OK(tutti_barrier(job->world));
	TT_EXPECT(!stats_of(job, &a));
	TT_EXPECT(!cached_call(job, bcast, in, out));
	TT_EXPECT(!stats_of(job, &b));
	if (!bcast) /* the reduction used it before */
		TT_EXPECT(b.cache_misses == a.cache_misses + 2 &&
			  b.registrations > a.registrations);
	TT_EXPECT(!cached_call(job, bcast, in, out));
	TT_EXPECT(!cached_call(job, bcast, in, out));
	TT_EXPECT(!stats_of(job, &c));
	for (i = 0; i < COUNT; i++)
		TT_EXPECT(out[i] == (float)(i % 1000 + job->n - 1));
	TT_EXPECT(c.copied_bytes == a.copied_bytes);
	TT_EXPECT(c.cache_hits > b.cache_hits && c.cache_misses == b.cache_misses);
	TT_EXPECT(c.registrations == b.registrations && c.cache_stale == b.cache_stale);
	TT_EXPECT(c.cache_bytes >= 2 * COUNT * 4);
	return 0;
}

/* Messages use registrations of the collectives. */
static int messages_cached(struct mp_job *job, float *in, float *out)
{
	int next = (job->rank + 1) % job->n, before = (job->rank + job->n - 1) % job->n, i;
	struct tutti_stats a, b;

	for (i = 0; i < COUNT; i++)
		in[i] = (float)(i % 1000 + job->rank);
	MP_OK(tutti_barrier(job->world));
	TT_EXPECT(!stats_of(job, &a));
	MP_OK(tutti_sendrecv(in, COUNT, TUTTI_FLOAT32, next, 3, out, COUNT, TUTTI_FLOAT32, before,
			     3, job->world, NULL));
	TT_EXPECT(!stats_of(job, &b));
	for (i = 0; i < COUNT; i++)
		TT_EXPECT(out[i] == (float)(i % 1000 + before));
	TT_EXPECT(b.copied_bytes == a.copied_bytes && b.registrations == a.registrations);
	TT_EXPECT(b.cache_hits == a.cache_hits + 2 && b.cache_misses == a.cache_misses);
	return 0;
}

static int cache_body(struct mp_job *job)
{
	size_t size = (COUNT * 4 + 4095) / 4096 * 4096;
	struct tutti_request *persistent;
	struct tutti_stats a, b;
	float *in, *out;
	int round;

	for (round = 0; round < 3; round++) {
		/* at the same addresses in every round */
		in = mmap(round ? in : NULL, size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | (round ? MAP_FIXED_NOREPLACE : 0), -1, 0);
		out = mmap(round ? out : NULL, size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | (round ? MAP_FIXED_NOREPLACE : 0), -1, 0);
		TT_EXPECT(in != MAP_FAILED && out != MAP_FAILED);
		TT_EXPECT(!cached_counted(job, false, in, out));
		TT_EXPECT(!cached_counted(job, true, in, out));
		TT_EXPECT(!messages_cached(job, in, out));
		munmap(in, size);
		munmap(out, size);
	}
	/* a persistent request looks anew at each start */
	out = mmap(out, size, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	MP_OK(tutti_bcast_init(out, COUNT, TUTTI_FLOAT32, 0, job->world, &persistent));
	for (round = 0; round < 3; round++) {
		out = mmap(out, size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		out[COUNT - 1] = (float)(job->rank ? -1 : round);
		TT_EXPECT(!stats_of(job, &a));
		MP_OK(tutti_start(persistent));
		MP_OK(tutti_wait(&persistent));
		TT_EXPECT(!stats_of(job, &b));
		TT_EXPECT(out[COUNT - 1] == (float)round);
		TT_EXPECT(b.cache_misses == a.cache_misses + 1 && b.copied_bytes == a.copied_bytes);
	}
	MP_OK(tutti_request_free(persistent));
	munmap(out, size);
	return 0;
}

/* Without notices of changes there is no cache; another test covers that. */
static void cache_over(const char *env)
{
	char all[256];
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);

	if (fd < 0)
		TT_SKIP("userfaultfd is not usable here");
	close(fd);
	snprintf(all, sizeof(all), "TUTTI_REG_CACHE=64M %s", env);
	TT_CHECK(!MP_RUN(.n = 2, .env = all, .fn = cache_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = all, .fn = cache_body));
}

static void cache_ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	cache_over("TUTTI_TRANSPORT=ofi");
}

static void cache_shm(void)
{
	cache_over("TUTTI_TRANSPORT=shm");
}

static void cache_verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	cache_over("TUTTI_TRANSPORT=verbs");
}

/* ---- nothing per call ---- */

/* The calls of a training step. */
static int step(struct mp_job *job, float *big, float *small, struct tutti_request *persistent,
		int i)
{
	struct tutti_request *req[3];

	MP_OK(tutti_start(persistent));
	MP_OK(tutti_iallreduce(TUTTI_IN_PLACE, big, 50000, TUTTI_FLOAT32, TUTTI_AVG, job->world,
			       &req[0]));
	MP_OK(tutti_iallreduce(TUTTI_IN_PLACE, small, 100, TUTTI_FLOAT32, TUTTI_SUM, job->world,
			       &req[1]));
	MP_OK(tutti_ibcast(small + 200, 10, TUTTI_FLOAT32, 0, job->world, &req[2]));
	MP_OK(tutti_waitall(3, req));
	MP_OK(tutti_wait(&persistent));
	MP_OK(tutti_bcast(big, 40000, TUTTI_FLOAT32, i % job->n, job->world));
	MP_OK(tutti_barrier(job->world));
	return 0;
}

static int steady_body(struct mp_job *job)
{
	struct tutti_request *persistent;
	struct tutti_stats a, b;
	float *big, *small, *mid;
	int i;

	MP_OK(tutti_alloc(job->ctx, 50000 * 4, (void **)&big));
	MP_OK(tutti_alloc(job->ctx, 3000 * 4, (void **)&mid));
	small = calloc(300, 4);
	memset(big, 0, 50000 * 4);
	memset(mid, 0, 3000 * 4);
	MP_OK(tutti_allreduce_init(TUTTI_IN_PLACE, mid, 3000, TUTTI_FLOAT32, TUTTI_MAX, job->world,
				   &persistent));
	for (i = 0; i < 100; i++)
		TT_EXPECT(!step(job, big, small, persistent, i));
	TT_EXPECT(!stats_of(job, &a));
	for (i = 0; i < 300; i++)
		TT_EXPECT(!step(job, big, small, persistent, i));
	TT_EXPECT(!stats_of(job, &b));
	if (a.allocations != b.allocations || a.registrations != b.registrations)
		fprintf(stderr, "rank %d: %llu allocations, %llu registrations in 300 steps\n",
			job->rank, (unsigned long long)(b.allocations - a.allocations),
			(unsigned long long)(b.registrations - a.registrations));
	TT_EXPECT(a.registrations == b.registrations);
	TT_EXPECT(a.connections == b.connections);
	/*
	 * Pools for reuse may still grow once or twice, when ranks drift further apart than
	 * before.
	 */
	TT_EXPECT(b.allocations - a.allocations <= 8);
	MP_OK(tutti_request_free(persistent));
	MP_OK(tutti_free(big));
	MP_OK(tutti_free(mid));
	free(small);
	return 0;
}

/* Many different short calls in turn: each is known the second time, with a request or without. */
static int many_short_body(struct mp_job *job)
{
	enum { SIZES = 90 };
	struct tutti_request *req;
	struct tutti_stats a, b;
	float v[SIZES] = {0};
	int i, round;

	for (i = 1; i <= SIZES; i++) {
		MP_OK(tutti_iallreduce(TUTTI_IN_PLACE, v, (size_t)i, TUTTI_FLOAT32, TUTTI_SUM,
				       job->world, &req));
		MP_OK(tutti_wait(&req));
	}
	for (round = 0; round < 4; round++) {
		if (round == 2)
			TT_EXPECT(!stats_of(job, &a));
		for (i = 1; i <= SIZES; i++)
			MP_OK(tutti_allreduce(TUTTI_IN_PLACE, v, (size_t)i, TUTTI_FLOAT32,
					      TUTTI_SUM, job->world));
	}
	TT_EXPECT(!stats_of(job, &b));
	TT_EXPECT(a.allocations == b.allocations);
	return 0;
}

static void many_short(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = many_short_body));
	TT_CHECK(!MP_RUN(.n = 3, .fn = many_short_body));
}

static void steady_shm(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm", .fn = steady_body));
	TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_TRANSPORT=shm", .fn = steady_body));
}

static void steady_ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=ofi", .fn = steady_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=ofi", .fn = steady_body));
}

static void zero_copy_verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=verbs", .fn = zero_copy_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=verbs TUTTI_VERBS_QPS=2",
			 .fn = zero_copy_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"zero_copy_ofi", zero_copy_ofi},
		{"zero_copy_shm", zero_copy_shm},
		{"wire_ofi", wire_ofi},
		{"steady_shm", steady_shm},
		{"steady_ofi", steady_ofi},
		{"zero_copy_verbs", zero_copy_verbs},
		{"cache_ofi", cache_ofi},
		{"cache_shm", cache_shm},
		{"cache_verbs", cache_verbs},
		{"many_short", many_short},
		{NULL, NULL},
	};

	return tt_test_main("counters", tests, argc, argv);
}
