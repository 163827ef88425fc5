/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random programs: sequences of collectives and messages on several communicators, of random types,
 * sizes, roots and memory, blocking and nonblocking, completed in an order that each rank draws for
 * itself; every element of every result is compared with a serial oracle. TUTTI_TEST_SEED=N runs
 * program N alone, TT_TIMES=N runs N times as many.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <stdio.h>
#include <unistd.h>

#define SLOTS 6	 /* calls under way at once */
#define STEPS 24 /* calls of a program */
#define UNTOUCHED 0xa5

enum what {
	ALLREDUCE,
	REDUCE,
	REDUCE_SCATTER,
	SCAN,
	EXSCAN,
	BCAST,
	ALLGATHER,
	GATHER,
	SCATTER,
	ALLTOALL,
	BARRIER,
	SHIFT, /* to the rank `by` after this one, from the one `by` before */
	NUM_WHATS
};

/* A call, the same on all ranks. */
struct call {
	enum what what;
	struct tutti_comm *comm;
	int rank, n, root, by;
	size_t count;
	enum tutti_datatype type;
	enum tutti_op op;
	uint64_t id; /* its data are drawn from this */
};

struct slot {
	struct call c;
	struct mp_buf in, out;
	struct tutti_request *req[2];
	bool used;
};

struct program {
	struct mp_job *job;
	uint64_t shared, own; /* random states: equal on all ranks, and this rank's */
	struct tutti_comm *comm[3];
	struct slot slot[SLOTS];
};

static uint64_t next(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static int below(uint64_t *state, int n)
{
	return (int)(next(state) >> 33) % n;
}

/* ---- the oracle ---- */

/* Element i of what rank puts in; as wide as any type, of which the low bytes count. */
static uint64_t input(const struct call *c, int rank, size_t i)
{
	uint64_t state = c->id ^ (uint64_t)rank << 48 ^ i;

	return next(&state);
}

static uint64_t narrow(const struct call *c, uint64_t v)
{
	size_t size = tutti_datatype_size(c->type);

	return size == 8 ? v : v & ((1ull << 8 * size) - 1);
}

/* Ranks 0 to n - 1, all types are unsigned. */
static uint64_t combined(const struct call *c, int n, size_t i)
{
	uint64_t v = narrow(c, input(c, 0, i)), w;
	int r;

	for (r = 1; r < n; r++) {
		w = narrow(c, input(c, r, i));
		v = c->op == TUTTI_SUM ? v + w : c->op == TUTTI_MAX ? (v > w ? v : w) : v ^ w;
	}
	return narrow(c, v);
}

/* How many elements of in and out this rank has. */
static size_t in_count(const struct call *c)
{
	switch (c->what) {
	case BARRIER:
	case BCAST:
		return 0;
	case REDUCE_SCATTER:
	case ALLTOALL:
		return c->count * (size_t)c->n;
	case SCATTER:
		return c->rank == c->root ? c->count * (size_t)c->n : 0;
	default:
		return c->count;
	}
}

static size_t out_count(const struct call *c)
{
	switch (c->what) {
	case BARRIER:
		return 0;
	case ALLGATHER:
	case ALLTOALL:
		return c->count * (size_t)c->n;
	case GATHER:
		return c->rank == c->root ? c->count * (size_t)c->n : 0;
	case REDUCE:
		return c->rank == c->root ? c->count : 0;
	default:
		return c->count;
	}
}

/* What element i of out must be in the end. */
static uint64_t expected(const struct call *c, size_t i)
{
	uint64_t untouched;

	memset(&untouched, UNTOUCHED, sizeof(untouched));
	switch (c->what) {
	case SCAN:
		return combined(c, c->rank + 1, i);
	case EXSCAN:
		return c->rank ? combined(c, c->rank, i) : narrow(c, untouched);
	case REDUCE_SCATTER:
		return combined(c, c->n, (size_t)c->rank * c->count + i);
	case BCAST:
		return narrow(c, input(c, c->root, i));
	case ALLGATHER:
	case GATHER:
		return narrow(c, input(c, (int)(i / c->count), i % c->count));
	case SCATTER:
		return narrow(c, input(c, c->root, (size_t)c->rank * c->count + i));
	case ALLTOALL:
		return narrow(c, input(c, (int)(i / c->count),
				       (size_t)c->rank * c->count + i % c->count));
	case SHIFT:
		return narrow(c, input(c, (c->rank - c->by + c->n) % c->n, i));
	default:
		return combined(c, c->n, i);
	}
}

/* ---- a call ---- */

static void put(const struct call *c, char *buf, size_t i, uint64_t v)
{
	memcpy(buf + i * tutti_datatype_size(c->type), &v, tutti_datatype_size(c->type));
}

static int fill(struct mp_job *job, struct slot *s, enum mp_kind kind)
{
	const struct call *c = &s->c;
	size_t size = tutti_datatype_size(c->type), i;

	MP_OK(mp_buf_new(job, kind, in_count(c) * size, &s->in));
	MP_OK(mp_buf_new(job, kind, out_count(c) * size, &s->out));
	memset(s->out.p, UNTOUCHED, out_count(c) * size);
	for (i = 0; i < in_count(c); i++)
		put(c, s->in.p, i, input(c, c->rank, i));
	for (i = 0; c->what == BCAST && c->rank == c->root && i < c->count; i++)
		put(c, s->out.p, i, input(c, c->rank, i));
	return 0;
}

static int start(struct slot *s)
{
	const struct call *c = &s->c;
	struct tutti_request **r = s->req;
	void *in = s->in.p, *out = s->out.p;
	int err;

	switch (c->what) {
	case REDUCE:
		return tutti_ireduce(in, out, c->count, c->type, c->op, c->root, c->comm, r);
	case REDUCE_SCATTER:
		return tutti_ireduce_scatter_block(in, out, c->count, c->type, c->op, c->comm, r);
	case SCAN:
		return tutti_iscan(in, out, c->count, c->type, c->op, c->comm, r);
	case EXSCAN:
		return tutti_iexscan(in, out, c->count, c->type, c->op, c->comm, r);
	case BCAST:
		return tutti_ibcast(out, c->count, c->type, c->root, c->comm, r);
	case ALLGATHER:
		return tutti_iallgather(in, out, c->count, c->type, c->comm, r);
	case GATHER:
		return tutti_igather(in, out, c->count, c->type, c->root, c->comm, r);
	case SCATTER:
		return tutti_iscatter(in, out, c->count, c->type, c->root, c->comm, r);
	case ALLTOALL:
		return tutti_ialltoall(in, out, c->count, c->type, c->comm, r);
	case BARRIER:
		return tutti_ibarrier(c->comm, r);
	case SHIFT:
		err = tutti_irecv(out, c->count, c->type, (c->rank - c->by + c->n) % c->n,
				  (int)(c->id & 0xff), c->comm, NULL, &r[0]);
		return err ? err
			   : tutti_isend(in, c->count, c->type, (c->rank + c->by) % c->n,
					 (int)(c->id & 0xff), c->comm, &r[1]);
	default:
		return tutti_iallreduce(in, out, c->count, c->type, c->op, c->comm, r);
	}
}

static int finish(struct mp_job *job, struct slot *s)
{
	const struct call *c = &s->c;
	size_t size = tutti_datatype_size(c->type), i;
	uint64_t got, want;

	MP_OK(tutti_waitall(2, s->req));
	for (i = 0; i < out_count(c); i++) {
		got = 0;
		memcpy(&got, s->out.p + i * size, size);
		want = expected(c, i);
		if (got != want)
			fprintf(stderr,
				"rank %d of %d: call %d, count %zu, type %d, op %d, root %d: "
				"element %zu is %llx, not %llx\n",
				c->rank, c->n, c->what, c->count, c->type, c->op, c->root, i,
				(unsigned long long)got, (unsigned long long)want);
		TT_EXPECT(got == want);
	}
	MP_OK(mp_buf_free(&s->in));
	MP_OK(mp_buf_free(&s->out));
	s->used = false;
	return 0;
}

/* ---- a program ---- */

static void draw(struct program *p, struct call *c)
{
	static const size_t counts[] = {0, 1, 2, 3, 7, 16, 33, 100, 1000, 4099, 20011};
	static const enum tutti_datatype types[] = {TUTTI_UINT8, TUTTI_UINT32, TUTTI_UINT64};
	static const enum tutti_op ops[] = {TUTTI_SUM, TUTTI_MAX, TUTTI_BXOR};
	uint64_t *s = &p->shared;
	int big = below(s, 4) ? 8 : (int)(sizeof(counts) / sizeof(counts[0]));

	c->comm = p->comm[below(s, 3)];
	c->what = (enum what)below(s, NUM_WHATS);
	c->count = counts[below(s, big)];
	c->type = types[below(s, 3)];
	c->op = ops[below(s, 3)];
	c->id = next(s);
	/* of communicators that differ in size: numbers that all draw alike, then cut down */
	c->root = below(s, 1 << 20);
	c->by = below(s, 1 << 20);
	c->rank = tutti_comm_rank(c->comm);
	c->n = tutti_comm_size(c->comm);
	c->root %= c->n;
	c->by %= c->n;
}

/* A slot for the next call; when all are taken, this rank chooses which to wait for. */
static struct slot *vacate(struct program *p)
{
	struct slot *s = &p->slot[below(&p->own, SLOTS)];
	int i;

	for (i = 0; i < SLOTS; i++)
		if (!p->slot[i].used)
			return &p->slot[i];
	return finish(p->job, s) ? NULL : s;
}

static int steps(struct program *p)
{
	struct mp_job *job = p->job;
	struct slot *s;
	int i;

	for (i = 0; i < STEPS; i++) {
		s = vacate(p);
		TT_EXPECT(s != NULL);
		draw(p, &s->c);
		TT_EXPECT(!fill(job, s, (enum mp_kind)below(&p->own, MP_KINDS)));
		MP_OK(start(s));
		s->used = true;
		if (below(&p->own, 3) == 0)
			TT_EXPECT(!finish(job, s));
	}
	for (i = 0; i < SLOTS; i++)
		if (p->slot[i].used)
			TT_EXPECT(!finish(job, &p->slot[i]));
	return 0;
}

static int program(struct mp_job *job, unsigned seed)
{
	struct program p = {
		.job = job, .shared = seed * 77777ull, .own = seed + 1000ull * (unsigned)job->rank};
	int i;

	p.comm[0] = job->world;
	MP_OK(tutti_comm_dup(job->world, &p.comm[1]));
	MP_OK(tutti_comm_split(job->world, job->rank % 2, -job->rank, &p.comm[2]));
	if (steps(&p)) {
		fprintf(stderr, "TUTTI_TEST_SEED=%u repeats it\n", seed);
		return 1;
	}
	for (i = 1; i < 3; i++)
		MP_OK(tutti_comm_free(p.comm[i]));
	return 0;
}

static int programs(struct mp_job *job)
{
	const char *one = getenv("TUTTI_TEST_SEED");
	int i, n = *(int *)job->arg;

	if (one)
		return program(job, (unsigned)atoi(one));
	for (i = 1; i <= n; i++)
		TT_EXPECT(!program(job, (unsigned)i));
	return 0;
}

/* Jobs of 2 to 5 ranks, each of so many programs. */
static void jobs(const char *env, int howmany)
{
	const char *times = getenv("TT_TIMES");
	int n;

	howmany *= times ? atoi(times) : 1;
	for (n = 2; n <= 5; n++)
		TT_CHECK(!MP_RUN(.n = n, .env = env, .fn = programs, .arg = &howmany,
				 .timeout_ms = 120000 * (times ? atoi(times) : 1)));
}

static void shm(void)
{
	jobs("TUTTI_TRANSPORT=shm", 300);
}

/* Every path of the channel: few slots, short messages, small chunks. */
static void shm_tiny(void)
{
	jobs("TUTTI_TRANSPORT=shm TUTTI_EAGER=64 TUTTI_SLOTS=4 TUTTI_PARKED=2 TUTTI_CHUNK=4096",
	     100);
}

static void shm_thread(void)
{
	jobs("TUTTI_TRANSPORT=shm TUTTI_PROGRESS=thread", 100);
}

static void shm_fault(void)
{
	jobs("TUTTI_TRANSPORT=fault:shm TUTTI_FAULT=seed=5,delay=0.1:200,reorder=0.2,again=0.1",
	     40);
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	jobs("TUTTI_TRANSPORT=ofi", 40);
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
	int howmany = 5;

	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=verbs", .fn = programs, .arg = &howmany,
			 .timeout_ms = 120000));
}

static const struct tt_test tests[] = {
	{"shm", shm},
	{"shm_tiny", shm_tiny},
	{"shm_thread", shm_thread},
	{"shm_fault", shm_fault},
	{"ofi", ofi},
	{"ofi_fault", ofi_fault},
	{"verbs", verbs},
	{NULL, NULL},
};

int main(int argc, char **argv)
{
	return tt_test_main("random", tests, argc, argv);
}
