/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random programs: sequences of collectives (v forms too) and messages (from any source, too) on
 * several communicators, of random types, operators (also user-defined), sizes, roots and memory,
 * in place or not, blocking, nonblocking and persistent, alone and in groups, completed in an
 * order that each rank draws for itself; every element of every result is compared with a serial
 * oracle. TUTTI_TEST_SEED=N runs program N alone, TT_TIMES=N runs N times as many (30 are a
 * million collectives); from 20 on caches are full after a third, and memory and descriptors stay
 * constant.
 */
#include "config.h"

#include "tests/mp/coll/random.h"

#include <stdio.h>
#include <sys/mman.h>

#define SLOTS 6	 /* calls under way at once */
#define STEPS 24 /* calls of a program */
#define COMMS 4
#define GROUP 4 /* calls of a group, at most */

/* Of all jobs of a test. */
struct sum {
	int howmany; /* programs of a job */
	bool soak;
	atomic_llong collectives, messages; /* that rank 0 has compared */
	atomic_long grown;		    /* KiB, the most of a rank in two thirds of a job */
};

struct program {
	struct mp_job *job;
	struct sum *sum;
	const struct rnd_ops *ops;
	uint64_t shared, own; /* random states: equal on all ranks, and this rank's */
	struct tutti_comm *comm[COMMS];
	struct rnd_slot slot[SLOTS];
};

/* Slots for the next n calls; when too few are free, this rank chooses which to wait for. */
static int vacate(struct program *p, int n, struct rnd_slot **free)
{
	struct rnd_slot *s;
	int i, k;

	for (;;) {
		for (i = k = 0; i < SLOTS && k < n; i++)
			if (!p->slot[i].used)
				free[k++] = &p->slot[i];
		if (k == n)
			return 0;
		s = &p->slot[rnd_below(&p->own, SLOTS)];
		if (s->used && rnd_finish(p->job, s))
			return 1;
	}
}

/* One call, or a group of several: all ranks draw the same. */
static int step(struct program *p, int at, int n)
{
	struct mp_job *job = p->job;
	struct rnd_slot *s[GROUP];
	int i;

	TT_EXPECT(!vacate(p, n, s));
	for (i = 0; i < n; i++) {
		rnd_draw(&p->shared, p->ops, p->comm[rnd_below(&p->shared, COMMS)], at + i, n > 1,
			 &s[i]->c);
		TT_EXPECT(!rnd_prepare(job, s[i], (enum mp_kind)rnd_below(&p->own, MP_KINDS)));
		if (!job->rank)
			atomic_fetch_add(s[i]->c.what == RND_SHIFT || s[i]->c.what == RND_FUNNEL
						 ? &p->sum->messages
						 : &p->sum->collectives,
					 s[i]->c.times);
	}
	if (n > 1)
		MP_OK(tutti_group_start());
	for (i = 0; i < n; i++) {
		s[i]->used = true;
		TT_EXPECT(!rnd_start(job, s[i]));
	}
	if (n > 1)
		MP_OK(tutti_group_end());
	if (rnd_below(&p->own, 3) == 0)
		TT_EXPECT(!rnd_finish(job, s[rnd_below(&p->own, n)]));
	return 0;
}

static int steps(struct program *p)
{
	int i, n;

	for (i = 0; i < STEPS; i += n) {
		n = rnd_below(&p->shared, 4) ? 1 : 2 + rnd_below(&p->shared, GROUP - 1);
		TT_EXPECT(!step(p, i, n));
	}
	for (i = 0; i < SLOTS; i++)
		if (p->slot[i].used)
			TT_EXPECT(!rnd_finish(p->job, &p->slot[i]));
	return 0;
}

static int program(struct mp_job *job, const struct rnd_ops *ops, unsigned seed)
{
	struct program p = {.job = job,
			    .sum = job->arg,
			    .ops = ops,
			    .shared = seed * 77777ull,
			    .own = seed + 1000ull * (unsigned)job->rank};
	int i;

	p.comm[0] = job->world;
	MP_OK(tutti_comm_dup(job->world, &p.comm[1]));
	MP_OK(tutti_comm_split(job->world, job->rank % 2, -job->rank, &p.comm[2]));
	MP_OK(tutti_comm_split(p.comm[1], 2 * job->rank > job->n, 0, &p.comm[3]));
	if (steps(&p)) {
		fprintf(stderr, "TUTTI_TEST_SEED=%u repeats it\n", seed);
		return 1;
	}
	for (i = 1; i < COMMS; i++)
		MP_OK(tutti_comm_free(p.comm[i]));
	return 0;
}

/*
 * Private memory: memory of the pool and of transports, whose pages come into use gradually, has
 * descriptors.
 */
static long own_kib(void)
{
	return tt_proc_number("status", "RssAnon");
}

static int flat(struct sum *sum, long kib, int fds)
{
	long grown = own_kib() - kib, most = atomic_load(&sum->grown);

	while (grown > most && !atomic_compare_exchange_weak(&sum->grown, &most, grown))
		;
	TT_EXPECT(tt_open_fds() <= fds);
	TT_EXPECT(mp_sanitized() || grown < 2048 + kib / 50);
	return 0;
}

static int programs(struct mp_job *job)
{
	const char *one = getenv("TUTTI_TEST_SEED");
	struct sum *sum = job->arg;
	int i = one ? atoi(one) : 1, last = one ? i : sum->howmany, fds = 0;
	struct rnd_ops ops;
	long kib = 0;

	TT_EXPECT(!rnd_ops_new(job, &ops));
	for (; i <= last; i++) {
		if (i == last / 3) {
			fds = tt_open_fds();
			kib = own_kib();
		}
		TT_EXPECT(!program(job, &ops, (unsigned)i));
	}
	if (sum->soak && fds)
		TT_EXPECT(!flat(sum, kib, fds));
	return rnd_ops_free(job, &ops);
}

/* Jobs of a number of ranks, each with a number of programs. */
static void jobs_of(int from, int to, const char *env, int howmany)
{
	const char *text = getenv("TT_TIMES");
	int times = text ? atoi(text) : 1, n;
	struct sum *sum = mp_shared_mem(sizeof(*sum));

#ifdef __SANITIZE_THREAD__
	howmany = howmany / 10 + 1; /* ten times as slow */
#endif
	sum->howmany = howmany * times;
	sum->soak = times >= 20;
	for (n = from; n <= to; n++)
		TT_CHECK(!MP_RUN(.n = n, .env = env, .fn = programs, .arg = sum,
				 .timeout_ms = 120000 * times));
	printf("  %lld collectives and %lld messages as they must be",
	       atomic_load(&sum->collectives), atomic_load(&sum->messages));
	if (sum->soak)
		printf("; at most %ld KiB more after two thirds", atomic_load(&sum->grown));
	printf("\n");
	fflush(stdout);
	munmap(sum, sizeof(*sum));
}

static void jobs(const char *env, int howmany)
{
	jobs_of(2, 5, env, howmany);
}

static void shm(void)
{
	jobs("TUTTI_TRANSPORT=shm", 120);
}

/* Every path of the channel: few slots, short messages, small chunks. */
static void shm_tiny(void)
{
	jobs("TUTTI_TRANSPORT=shm TUTTI_EAGER=64 TUTTI_SLOTS=4 TUTTI_PARKED=2 TUTTI_CHUNK=4096",
	     50);
}

static void shm_thread(void)
{
	jobs("TUTTI_TRANSPORT=shm TUTTI_PROGRESS=thread", 50);
}

static void shm_fault(void)
{
	jobs("TUTTI_TRANSPORT=fault:shm TUTTI_FAULT=seed=5,delay=0.1:200,reorder=0.2,again=0.1",
	     40);
}

/* Transports that carry no more than a little above a slot in one put. */
static void shm_short(void)
{
	jobs("TUTTI_TRANSPORT=fault:shm TUTTI_FAULT=seed=6,reorder=0.2,max_put=5003", 30);
}

/* In each other's memory; of which ordinary one is read by the kernel, or goes through the pool. */
static void node(void)
{
	jobs("TUTTI_NODE=on", 100);
}

/*
 * Two hosts of two ranks, and a third with one: plans in two levels, as they are chosen, and all
 * that there are.
 */
static void hosts(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	jobs_of(4, 5, "TUTTI_HOST_ID=h%h", 10);
	jobs_of(4, 5,
		"TUTTI_HOST_ID=h%h TUTTI_CHUNK=4096 "
		"TUTTI_ALGO=allreduce:hier_ring;bcast:hier_binomial;"
		"reduce:hier_binomial;allgather:hier_ring;allgatherv:hier_ring;reduce_scatter_"
		"block:hier_ring;"
		"reduce_scatter:hier_ring;barrier:hier",
		10);
	jobs_of(4, 5,
		"TUTTI_HOST_ID=h%h TUTTI_CHUNK=4096 "
		"TUTTI_ALGO=gather:hier_leader;scatter:hier_leader;"
		"alltoall:hier_pairwise;scan:hier_leader;exscan:hier_leader",
		10);
}

/* Two NUMA nodes: some in two levels, others in the memory of all. */
static void numa(void)
{
	jobs_of(4, 5,
		"TUTTI_NUMA=%h "
		"TUTTI_ALGO=allreduce:hier_ring:4K-inf;bcast:hier_binomial;reduce:hier_leader:0-"
		"32K;"
		"allgather:hier_ring;scan:hier_leader;alltoall:hier_pairwise",
		10);
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	jobs("TUTTI_TRANSPORT=ofi", 25);
}

static void ofi_fault(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	jobs("TUTTI_TRANSPORT=fault:ofi TUTTI_FAULT=seed=9,delay=0.1:200,reorder=0.2,again=0.1",
	     20);
}

static void verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	jobs_of(3, 4, "TUTTI_TRANSPORT=verbs", 5);
}

static const struct tt_test tests[] = {
	{"shm", shm},
	{"shm_tiny", shm_tiny},
	{"shm_thread", shm_thread},
	{"shm_fault", shm_fault},
	{"shm_short", shm_short},
	{"node", node},
	{"hosts", hosts},
	{"numa", numa},
	{"ofi", ofi},
	{"ofi_fault", ofi_fault},
	{"verbs", verbs},
	{NULL, NULL},
};

int main(int argc, char **argv)
{
	return tt_test_main("random", tests, argc, argv);
}
