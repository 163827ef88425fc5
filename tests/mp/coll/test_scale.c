/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Costs that grow with the number of ranks: start, connections, memory for each peer, making of
 * communicators. Times are printed, not asserted.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <malloc.h>
#include <stdio.h>

static double started; /* before the ranks are forked */

static int stats_of(struct mp_job *job, struct tutti_stats *s)
{
	*s = (struct tutti_stats){.size = sizeof(*s)};
	MP_OK(tutti_stats_get(job->ctx, s));
	return 0;
}

static int log2_up(int n)
{
	int log = 0;

	while (1 << log < n)
		log++;
	return log;
}

/* ---- 64 ranks ---- */

static int start_body(struct mp_job *job)
{
	double took = mp_now() - started;
	int32_t v = job->rank + 1;

	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &v, 1, TUTTI_INT32, TUTTI_SUM, job->world));
	TT_EXPECT(v == job->n * (job->n + 1) / 2);
	if (job->rank == 0)
		printf("  %d ranks: all started after %.3f s, first all-reduce after %.3f s\n",
		       job->n, took, mp_now() - started);
	fflush(stdout);
	return 0;
}

static void start(void)
{
	started = mp_now();
	TT_CHECK(!MP_RUN(.n = 64, .fn = start_body));
}

/* ---- connections ---- */

struct tree {
	const char *algo;
	int logs, more; /* a rank may have logs * log2(n) + more peers */
};

static int call_all(struct mp_job *job, size_t count)
{
	float *v = calloc(count + 1, sizeof(*v));
	int i, root;

	for (i = 0; i < 2; i++) {
		root = i ? job->n - 1 : 0;
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, v, count, TUTTI_FLOAT32, TUTTI_MAX,
				      job->world));
		MP_OK(tutti_bcast(v, count, TUTTI_FLOAT32, root, job->world));
		MP_OK(tutti_reduce(job->rank == root ? TUTTI_IN_PLACE : v, v, count, TUTTI_FLOAT32,
				   TUTTI_MAX, root, job->world));
	}
	free(v);
	return 0;
}

static int connections_body(struct mp_job *job)
{
	const struct tree *t = job->arg;
	struct tutti_stats s;
	int most = t->logs * log2_up(job->n) + t->more;

	TT_EXPECT(!call_all(job, 3));
	TT_EXPECT(!call_all(job, 20000));
	mp_meet(job);
	TT_EXPECT(!stats_of(job, &s));
	if ((int)s.connections > most)
		fprintf(stderr, "rank %d of %d, %s: %llu connections, not %d\n", job->rank, job->n,
			t->algo, (unsigned long long)s.connections, most);
	TT_EXPECT(s.connections > 0 && (int)s.connections <= most);
	return 0;
}

/*
 * A rank of a double tree has a parent and two children in each of the two, whatever the root;
 * binomial trees of two roots have log2(n) children and a parent each; recursive doubling has a
 * partner a step, and one for the fold.
 */
static void connections(void)
{
	static const struct tree trees[] = {
		{"TUTTI_NODE=off TUTTI_ALGO=allreduce:dbt;bcast:dbt;reduce:dbt", 0, 18},
		{"TUTTI_NODE=off "
		 "TUTTI_ALGO=allreduce:recursive_doubling;bcast:binomial;reduce:binomial",
		 3, 3},
		{"TUTTI_NODE=off "
		 "TUTTI_ALGO=allreduce:halving_doubling;bcast:binomial;reduce:binomial",
		 3, 3},
	};
	static const int sizes[] = {17, 48};
	size_t i, k;

	for (i = 0; i < sizeof(trees) / sizeof(trees[0]); i++)
		for (k = 0; k < 2; k++)
			TT_CHECK(!MP_RUN(.n = sizes[k], .env = trees[i].algo,
					 .fn = connections_body, .arg = (void *)&trees[i]));
}

/* ---- memory of a peer ---- */

struct peer_fact {
	const char *name;
	long bytes;
};

static void find_peer(const char *section, const char *name, const char *key, const char *value,
		      void *arg)
{
	struct peer_fact *fact = arg;

	if (!strcmp(section, "transport") && !strcmp(name, fact->name) && !strcmp(key, "per peer"))
		fact->bytes = atol(value);
}

static int exchange(struct mp_job *job, int peer)
{
	char block[4000] = {0}, other[4000];
	int i;

	for (i = 0; i < 20; i++)
		MP_OK(tutti_sendrecv(block, sizeof(block), TUTTI_UINT8, peer, 1, other,
				     sizeof(other), TUTTI_UINT8, peer, 1, job->world, NULL));
	return 0;
}

/* Rank 0 connects to one after the other; what its heap has grown by is counted. */
static int peer_body(struct mp_job *job)
{
	struct peer_fact fact = {.name = job->arg};
	struct mallinfo2 before = {0}, after;
	long heap, slots;
	int r;

	if (job->rank)
		return exchange(job, 0);
	MP_OK(tutti_describe(find_peer, &fact));
	TT_EXPECT(fact.bytes > 0 && fact.bytes <= 65536);
	for (r = 1; r < job->n; r++) {
		if (r == 3)
			before = mallinfo2();
		TT_EXPECT(!exchange(job, r));
	}
	after = mallinfo2();
	heap = (long)(after.uordblks - before.uordblks) / (job->n - 3);
	slots = 10 * 4096;
	printf("  %s: %ld bytes a peer by tutti_info; slots %ld, on the heap %ld\n", fact.name,
	       fact.bytes, slots, heap);
	fflush(stdout);
	/* on the heap is everything but slots and rings; libfabric's own too, about 20 KiB */
	if (!mp_sanitized())
		TT_EXPECT(heap < (strcmp(fact.name, "shm") ? 48 << 10 : 8 << 10));
	return 0;
}

static void peer(void)
{
	TT_CHECK(!MP_RUN(.n = 8, .env = "TUTTI_TRANSPORT=shm", .fn = peer_body, .arg = "shm"));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 8, .env = "TUTTI_TRANSPORT=ofi", .fn = peer_body,
				 .arg = "ofi"));
}

/* ---- communicators ---- */

/* Made, used and freed: after some warming up nothing grows any more. */
static int thousand_body(struct mp_job *job)
{
	struct mallinfo2 before = {0}, after;
	struct tutti_stats a = {0}, b;
	struct tutti_comm *c;
	int32_t v[300];
	int i, k, open = 0;
	long grown;

	for (i = 0; i < 1000; i++) {
		if (i == 150) { /* the last 64 freed are remembered */
			before = mallinfo2();
			TT_EXPECT(!stats_of(job, &a));
			open = tt_open_fds();
		}
		MP_OK(i % 2 ? tutti_comm_dup(job->world, &c)
			    : tutti_comm_split(job->world, i / 2 % 2, job->rank, &c));
		for (k = 0; k < 300; k++)
			v[k] = job->rank;
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, v, i % 3 ? 2 : 300, TUTTI_INT32, TUTTI_MAX,
				      c));
		TT_EXPECT(v[0] == job->n - 1);
		MP_OK(tutti_comm_free(c));
	}
	after = mallinfo2();
	TT_EXPECT(!stats_of(job, &b));
	TT_EXPECT(tt_open_fds() <= open + 8); /* segments go when the last rank has left them */
	TT_EXPECT(b.connections == a.connections && b.registrations == a.registrations);
	grown = (long)after.uordblks - (long)before.uordblks;
	if (grown > 65536)
		fprintf(stderr, "rank %d: %ld bytes more after 850 communicators\n", job->rank,
			grown);
	TT_EXPECT(mp_sanitized() || grown <= 65536); /* 77 bytes each */
	return 0;
}

static void thousand(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .fn = thousand_body));
}

/* A second communicator, used once, beside the world: messages, bytes on the wires, memory. */
static int second_body(struct mp_job *job)
{
	struct tutti_stats a, b;
	struct mallinfo2 before, after;
	struct tutti_comm *c;
	uint64_t messages, bytes;
	int32_t v = 1;
	double t0;
	long heap;

	MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_comm_dup(job->world, &c)); /* the first one connects */
	MP_OK(tutti_comm_free(c));
	MP_OK(tutti_barrier(job->world));
	mp_meet(job);
	TT_EXPECT(!stats_of(job, &a));
	before = mallinfo2();
	t0 = mp_now();
	MP_OK(tutti_comm_dup(job->world, &c));
	TT_EXPECT(!stats_of(job, &b));
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &v, 1, TUTTI_INT32, TUTTI_SUM, c));
	t0 = mp_now() - t0;
	after = mallinfo2();
	TT_EXPECT(v == job->n);
	messages = b.eager_messages + b.put_messages - a.eager_messages - a.put_messages;
	bytes = b.put_bytes - a.put_bytes;
	heap = (long)(after.uordblks - before.uordblks);
	if (job->rank == 0)
		printf("  a second communicator of %d ranks: %llu messages, %llu bytes sent, %ld "
		       "bytes kept, "
		       "%.2f ms with its first all-reduce\n",
		       job->n, (unsigned long long)messages, (unsigned long long)bytes, heap,
		       t0 * 1e3);
	fflush(stdout);
	if ((int)messages > 2 * log2_up(job->n))
		fprintf(stderr, "rank %d: %llu messages\n", job->rank,
			(unsigned long long)messages);
	/* a step's blocks go in two messages where they end at the last rank */
	TT_EXPECT((int)messages <= 2 * log2_up(job->n));
	TT_EXPECT(bytes <=
		  3 * 24 * (uint64_t)job->n); /* with a fold every message takes one more step */
	TT_EXPECT(mp_sanitized() || heap <= 256 << 10);
	MP_OK(tutti_comm_free(c));
	return 0;
}

static void second(void)
{
	TT_CHECK(!MP_RUN(.n = 5, .fn = second_body));
	TT_CHECK(!MP_RUN(.n = 64, .fn = second_body));
	TT_CHECK(!MP_RUN(.n = 33, .env = "TUTTI_NODE=off", .fn = second_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"start", start},	{"connections", connections}, {"peer", peer},
		{"thousand", thousand}, {"second", second},	      {NULL, NULL},
	};

	return tt_test_main("scale", tests, argc, argv);
}
