/* SPDX-License-Identifier: BSD-3-Clause */
/* All-to-all of layouts against loops over their elements; what is refused; deaths. */
#include "config.h"

#include "tests/mp/job.h"
#include "tests/mp/layouts.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define SHM "TUTTI_TRANSPORT=shm"
#define OFI "TUTTI_TRANSPORT=ofi TUTTI_IF=lo"
#define HOSTS "TUTTI_HOST_ID=h%h"
#define FAULT                                                                                      \
	"TUTTI_TRANSPORT=fault:shm "                                                               \
	"TUTTI_FAULT=seed=5,delay=0.1:100,reorder=0.3,again=0.2,max_put=70001"

#define MAX 5 /* ranks */
#define ROUNDS 5
#define ROOM ((size_t)24 << 20)

static void fill(char *p, size_t n, unsigned seed)
{
	size_t i;

	for (i = 0; i < n; i++)
		p[i] = (char)((seed + i) * 2654435761u >> 13);
}

static uint64_t copied(struct mp_job *job)
{
	struct tutti_stats s = {.size = sizeof(s)};

	return tutti_stats_get(job->ctx, &s) ? 0 : s.copied_bytes;
}

/* ---- random calls ---- */

/* One end of a block: a layout that is repeated, at `at` bytes in the memory of its rank. */
struct end {
	struct mp_layout l;
	size_t times, at, room;
};

/* A call, as all ranks draw it: the blocks by sender and receiver. */
struct call {
	unsigned seed;
	enum tutti_datatype type[MAX][MAX];
	size_t elems[MAX][MAX];
	struct end send[MAX][MAX], recv[MAX][MAX];
	size_t sent[MAX], received[MAX]; /* bytes of memory of a rank, */
	size_t sorigin, rorigin;	 /* and the offset of its buffer */
};

static void draw_end(unsigned *seed, enum tutti_datatype type, size_t elems, size_t *top,
		     struct end *e)
{
	static const size_t times[] = {1, 1, 2, 3};

	e->times = times[rand_r(seed) % 4];
	e->room = (2 * elems / e->times + 16) * tutti_datatype_size(type);
	e->at = *top;
	*top += e->times * e->room;
	mp_layout_draw(seed, type, elems / e->times, e->room, &e->l);
}

static void draw(unsigned *seed, int n, struct call *c)
{
	static const enum tutti_datatype types[] = {TUTTI_UINT8, TUTTI_INT16, TUTTI_FLOAT64,
						    TUTTI_OPAQUE(12)};
	static const size_t bytes[] = {0, 0, 144, 1440, 4320, 96000, 1200000, 2880000};
	int i, k;

	memset(c, 0, sizeof(*c));
	c->seed = (unsigned)rand_r(seed);
	for (i = 0; i < n; i++)
		for (k = 0; k < n; k++) {
			c->type[i][k] = types[rand_r(seed) % 4];
			c->elems[i][k] = bytes[(size_t)rand_r(seed) % (rand_r(seed) % 5 ? 6 : 8)] /
					 tutti_datatype_size(c->type[i][k]) / 6 * 6;
			draw_end(seed, c->type[i][k], c->elems[i][k], &c->sent[i], &c->send[i][k]);
			draw_end(seed, c->type[i][k], c->elems[i][k], &c->received[k],
				 &c->recv[i][k]);
		}
	c->sorigin = (size_t)rand_r(seed) % 100000;
	c->rorigin = (size_t)rand_r(seed) % 100000;
}

/* The bytes that a repetition spans. */
static ptrdiff_t span(const struct tutti_layout *l)
{
	ptrdiff_t low = PTRDIFF_MAX, high = PTRDIFF_MIN, at, end;
	ptrdiff_t elem = (ptrdiff_t)tutti_datatype_size(l->datatype);
	ptrdiff_t unit = l->flags & TUTTI_LAYOUT_BYTES ? 1 : elem;
	size_t i, len;

	for (i = 0; i < l->count; i++) {
		len = l->blocks ? l->blocks[i] : l->block;
		at = (l->displs ? l->displs[i] : (ptrdiff_t)i * l->stride) * unit;
		end = at + (ptrdiff_t)len * elem;
		low = len && at < low ? at : low;
		high = len && end > high ? end : high;
	}
	return high < low ? 0 : high - low;
}

/* Between a stream and the blocks of an end in mem. */
static void walk(const struct end *e, char *mem, char *stream, size_t bytes, bool read)
{
	size_t each = bytes / e->times, i;

	for (i = 0; i < e->times && each; i++) {
		char *base = mem + e->at + e->l.first + (ptrdiff_t)i * span(&e->l.l);

		if (read)
			mp_layout_read(&e->l.l, base, stream + i * each, each);
		else
			mp_layout_write(&e->l.l, base, stream + i * each, each);
	}
}

/* The arguments of one side of this rank's call. */
struct args {
	size_t counts[MAX];
	ptrdiff_t displs[MAX];
	const struct tutti_layout *layouts[MAX];
};

static void add(struct args *a, int i, const struct end *e, size_t elems, size_t origin)
{
	a->counts[i] = elems ? e->times : 0;
	a->displs[i] = (ptrdiff_t)(e->at + e->l.first) - (ptrdiff_t)origin;
	a->layouts[i] = elems ? &e->l.l : NULL;
}

/* The memory of a side begins before the buffer's address by up to 100000 bytes. */
static int run(struct mp_job *job, struct call *c, char *const mem[2], bool blocking)
{
	struct tutti_request *req = NULL;
	struct args s, r;
	int64_t one = 1;
	int i;

	for (i = 0; i < job->n; i++) {
		add(&s, i, &c->send[job->rank][i], c->elems[job->rank][i], c->sorigin);
		add(&r, i, &c->recv[i][job->rank], c->elems[i][job->rank], c->rorigin);
	}
	if (blocking) {
		MP_OK(tutti_alltoallw(mem[0] + c->sorigin, s.counts, s.displs, s.layouts,
				      mem[1] + c->rorigin, r.counts, r.displs, r.layouts,
				      job->world));
		return 0;
	}
	MP_OK(tutti_ialltoallw(mem[0] + c->sorigin, s.counts, s.displs, s.layouts,
			       mem[1] + c->rorigin, r.counts, r.displs, r.layouts, job->world,
			       &req));
	memset(&s, 1, sizeof(s)); /* the call has copied them */
	memset(&r, 1, sizeof(r));
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &one, 1, TUTTI_INT64, TUTTI_SUM, job->world));
	TT_EXPECT(one == job->n);
	MP_OK(tutti_wait(&req));
	return 0;
}

/* mem: sent, received, expected, of another rank, a stream. All memory is compared. */
static int random_call(struct mp_job *job, struct call *c, char *const mem[5], bool blocking)
{
	size_t bytes;
	int i;

	TT_EXPECT(c->sent[job->rank] < ROOM && c->received[job->rank] < ROOM);
	fill(mem[0], c->sent[job->rank], c->seed + (unsigned)job->rank);
	fill(mem[1], c->received[job->rank], c->seed + 100);
	memcpy(mem[2], mem[1], c->received[job->rank]);
	TT_EXPECT(!run(job, c, mem, blocking));
	for (i = 0; i < job->n; i++) {
		bytes = c->elems[i][job->rank] * tutti_datatype_size(c->type[i][job->rank]);
		if (!bytes)
			continue;
		fill(mem[3], c->sent[i], c->seed + (unsigned)i);
		walk(&c->send[i][job->rank], mem[3], mem[4], bytes, true);
		walk(&c->recv[i][job->rank], mem[2], mem[4], bytes, false);
	}
	TT_EXPECT(!memcmp(mem[1], mem[2], c->received[job->rank]));
	return 0;
}

static int random_body(struct mp_job *job)
{
	unsigned seed = (unsigned)job->n * 31;
	struct call *c = malloc(sizeof(*c));
	char *mem[5];
	int i;

	MP_OK(tutti_alloc(job->ctx, ROOM, (void **)&mem[0]));
	for (i = 1; i < 5; i++)
		mem[i] = malloc(ROOM);
	for (i = 0; i < ROUNDS; i++) {
		draw(&seed, job->n, c);
		if (random_call(job, c, mem, i % 2)) {
			fprintf(stderr, "call %d of %d ranks\n", i, job->n);
			return 1;
		}
	}
	MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_free(mem[0]));
	for (i = 1; i < 5; i++)
		free(mem[i]);
	free(c);
	return 0;
}

static void random_(void)
{
	int n;

	TT_CHECK(!MP_RUN(.n = 1, .fn = random_body));
	for (n = 2; n <= MAX; n++)
		TT_CHECK(!MP_RUN(.n = n, .env = SHM, .fn = random_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = FAULT, .fn = random_body));
	if (mp_no_ofi())
		return;
	TT_CHECK(!MP_RUN(.n = 3, .env = OFI, .fn = random_body));
	TT_CHECK(!MP_RUN(.n = 4, .env = HOSTS, .fn = random_body));
}

/* ---- copies ---- */

/* 24 MB to each rank, every second double, with a pool of 24 MB: no copy of the whole fits. */
static int long_body(struct mp_job *job)
{
	enum { N = 3000000 };
	struct tutti_layout odd = mp_layout_vector(TUTTI_FLOAT64, N, 1, 2);
	const struct tutti_layout *layouts[2] = {&odd, &odd};
	const ptrdiff_t to[2] = {0, 8}, from[2] = {8, 0}; /* bytes */
	double *v = malloc(2ul * N * sizeof(*v)), *w = malloc(2ul * N * sizeof(*w));
	uint64_t before, bytes = 2ul * N * sizeof(*v);
	int i, k;

	for (i = 0; i < 2 * N; i++) {
		v[i] = job->rank * 1e8 + i;
		w[i] = -1;
	}
	MP_OK(tutti_barrier(job->world));
	before = copied(job);
	MP_OK(tutti_alltoallw(v, NULL, to, layouts, w, NULL, from, layouts, job->world));
	before = copied(job) - before;
	TT_EXPECT(before >= 2 * bytes && before < 2 * bytes + bytes / 8);
	for (i = 0; i < N; i++)
		for (k = 0; k < 2; k++)
			TT_EXPECT(w[2 * i + from[k] / 8] == k * 1e8 + 2 * i + job->rank);
	MP_OK(tutti_barrier(job->world));
	free(v);
	free(w);
	return 0;
}

/* Repeated calls do not allocate, and blocks without gaps in registered memory are not copied. */
static int steady_body(struct mp_job *job)
{
	enum { N = 200000 };
	struct tutti_layout whole = mp_layout_vector(TUTTI_FLOAT64, 1, N, 0);
	struct tutti_layout odd = mp_layout_vector(TUTTI_INT32, 9, 1, 2);
	const struct tutti_layout *all[2] = {&whole, &whole}, *gaps[2] = {&odd, &odd};
	const ptrdiff_t at[2] = {0, N * sizeof(double)};
	struct tutti_stats s[3] = {
		{.size = sizeof(s[0])}, {.size = sizeof(s[0])}, {.size = sizeof(s[0])}};
	double *v, *w;
	int i;

	MP_OK(tutti_alloc(job->ctx, 2 * N * sizeof(*v), (void **)&v));
	MP_OK(tutti_alloc(job->ctx, 2 * N * sizeof(*w), (void **)&w));
	for (i = 0; i < 2 * N; i++)
		v[i] = job->rank * 1e8 + i;
	for (i = 0; i < 220; i++) {
		if (i == 20)
			MP_OK(tutti_stats_get(job->ctx, &s[0]));
		MP_OK(tutti_alltoallw(v, NULL, at, gaps, w, NULL, at, gaps, job->world));
	}
	MP_OK(tutti_stats_get(job->ctx, &s[1]));
	TT_EXPECT(s[1].allocations - s[0].allocations < 50); /* of offers that came early */
	for (i = 0; i < 20; i++)
		MP_OK(tutti_alltoallw(v, NULL, at, all, w, NULL, at, all, job->world));
	MP_OK(tutti_stats_get(job->ctx, &s[2]));
	TT_EXPECT(s[2].copied_bytes - s[1].copied_bytes < N);
	for (i = 0; i < N; i++)
		TT_EXPECT(w[i] == job->rank * N + i && w[N + i] == 1e8 + job->rank * N + i);
	MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_free(v));
	MP_OK(tutti_free(w));
	return 0;
}

static void copies(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM " TUTTI_POOL_LIMIT=24M", .fn = long_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = steady_body));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 2, .env = OFI " TUTTI_POOL_LIMIT=24M", .fn = long_body));
}

/* ---- what is refused ---- */

/* The call of 2 ranks with one field changed. */
struct bad {
	const void *sendbuf;
	void *recvbuf;
	const size_t *scounts, *rcounts;
	const ptrdiff_t *sdispls, *rdispls;
	const struct tutti_layout *const *send, *const *recv;
};

static int call_bad(struct mp_job *job, struct bad b)
{
	return tutti_alltoallw(b.sendbuf, b.scounts, b.sdispls, b.send, b.recvbuf, b.rcounts,
			       b.rdispls, b.recv, job->world);
}

static int bad_buffers(struct mp_job *job, const struct bad *good)
{
	struct tutti_request *req;
	struct bad b;

	b = *good, b.sendbuf = TUTTI_IN_PLACE;
	MP_ERR(call_bad(job, b), -EINVAL);
	MP_SAID("alltoallw: sendbuf is TUTTI_IN_PLACE, which this call does not take");
	b = *good, b.recvbuf = TUTTI_IN_PLACE;
	MP_ERR(call_bad(job, b), -EINVAL);
	MP_SAID("recvbuf is TUTTI_IN_PLACE");
	b = *good, b.sendbuf = NULL;
	MP_ERR(call_bad(job, b), -EINVAL);
	MP_SAID("sendbuf is NULL");
	b = *good, b.recvbuf = NULL;
	MP_ERR(call_bad(job, b), -EINVAL);
	MP_SAID("recvbuf is NULL");
	b = *good, b.send = NULL;
	MP_ERR(call_bad(job, b), -EINVAL);
	MP_SAID("sendlayouts is NULL");
	b = *good;
	MP_ERR(tutti_ialltoallw(b.sendbuf, NULL, NULL, b.send, b.recvbuf, NULL, b.rdispls, b.recv,
				job->world, NULL),
	       -EINVAL);
	MP_SAID("request is NULL");
	MP_ERR(tutti_ialltoallw(b.sendbuf, NULL, NULL, b.send, b.recvbuf, NULL, b.rdispls, b.recv,
				NULL, &req),
	       -EINVAL);
	return 0;
}

static int bad_body(struct mp_job *job)
{
	static const size_t huge[2] = {1, SIZE_MAX / 64}, two[2] = {2, 2}, none[2] = {0, 0};
	static const ptrdiff_t far[2] = {0, PTRDIFF_MAX - 7}, away[2] = {0, PTRDIFF_MAX / 2},
			       at[2] = {0, 400};
	struct tutti_layout l = mp_layout_vector(TUTTI_FLOAT64, 3, 2, 4),
			    over = mp_layout_vector(TUTTI_FLOAT64, 3, 2, 1);
	struct tutti_layout ints = mp_layout_vector(TUTTI_INT64, 3, 2, 4), bad = l;
	const struct tutti_layout *fine[2] = {&l, &l}, *hole[2] = {&l, NULL},
				  *wrong[2] = {&l, &bad}, *overlap[2] = {&l, &over},
				  *other[2] = {&ints, &ints};
	double v[100] = {0}, w[100] = {0};
	ptrdiff_t below[2] = {0, 0};
	const struct bad good = {v, w, NULL, NULL, NULL, at, fine, fine};
	struct bad b;

	TT_EXPECT(!bad_buffers(job, &good));
	b = good, b.recv = hole;
	MP_ERR(call_bad(job, b), -EINVAL);
	MP_SAID("recvlayouts[1] is NULL");
	bad.flags = 2;
	b = good, b.send = wrong;
	MP_ERR(call_bad(job, b), -EINVAL);
	MP_SAID("sendlayouts[1]->flags: 0x2 is unknown");
	b = good, b.recv = overlap;
	MP_ERR(call_bad(job, b), -EINVAL);
	MP_SAID("blocks of recvlayouts[1] overlap where they are written");
	b = good, b.scounts = huge;
	MP_ERR(call_bad(job, b), -EINVAL);
	MP_SAID("the block of rank 1 in sendbuf does not fit into an address space");
	b = good, b.rdispls = far;
	MP_ERR(call_bad(job, b), -EINVAL);
	MP_SAID("rank 1 in recvbuf does not fit");
	b = good, b.rdispls = away;
	MP_ERR(call_bad(job, b), -EINVAL);
	MP_SAID("rank 1 in recvbuf does not fit");
	below[1] = -(ptrdiff_t)(uintptr_t)v - 16;
	b = good, b.sdispls = below;
	MP_ERR(call_bad(job, b), -EINVAL);
	MP_SAID("rank 1 in sendbuf does not fit");
	b = good, b.scounts = two;
	MP_ERR(call_bad(job, b), -EINVAL);
	MP_SAID("sends 12 float64 to itself but receives 6 float64");
	b = good, b.recv = other;
	MP_ERR(call_bad(job, b), -EINVAL);
	MP_SAID("sends 6 float64 to itself but receives 6 int64");
	/* blocks without elements need nothing; senders' blocks may overlap */
	MP_OK(tutti_alltoallw(NULL, none, NULL, NULL, NULL, none, NULL, NULL, job->world));
	b = good, b.send = overlap;
	MP_OK(call_bad(job, b));
	MP_OK(tutti_group_start());
	MP_OK(call_bad(job, good));
	MP_OK(call_bad(job, good));
	MP_OK(tutti_group_end());
	return 0;
}

/* ---- ranks that disagree ---- */

/*
 * Rank 0 sends to rank 2, which expects something else. No other block has elements: a put that is
 * under way when a communicator fails closes its connection, and the world with it.
 */
struct disagreement {
	size_t sends, expects;
	enum tutti_datatype stype, rtype;
	const char *field, *text;
};

static const struct disagreement disagreements[] = {
	{10, 10, TUTTI_FLOAT64, TUTTI_INT64, "datatype",
	 "rank 0 sends 10 float64 to rank 2, which expects 10 int64"},
	{10, 20, TUTTI_FLOAT64, TUTTI_FLOAT32, "counts",
	 "rank 0 sends 10 float64 to rank 2, which expects 20 float32"},
	{300000, 299999, TUTTI_INT32, TUTTI_INT32, "counts",
	 "rank 0 sends 300000 int32 to rank 2, which expects 299999 int32"},
	{5, 0, TUTTI_OPAQUE(12), TUTTI_UINT8, "counts", "rank 2, which expects 0 "},
	{0, 5, TUTTI_UINT8, TUTTI_INT16, "counts", "to rank 2, which expects 5 int16"},
};

static int disagree(struct mp_job *job, const struct disagreement *d)
{
	struct tutti_layout one = mp_layout_vector(TUTTI_UINT16, 1, 1, 0), sends = one,
			    expects = one;
	const struct tutti_layout *to[3] = {&one, &one, &one}, *from[3] = {&one, &one, &one};
	size_t scounts[3] = {0}, rcounts[3] = {0};
	const ptrdiff_t at[3] = {0, 4000000, 8000000};
	struct tutti_error_info info = {.size = sizeof(info)};
	char *v = calloc(1, 12000000), *w = calloc(1, 12000000);
	struct tutti_comm *comm;
	double begin = mp_now();
	int err;

	sends.datatype = d->stype;
	expects.datatype = d->rtype;
	if (job->rank == 0) {
		to[2] = &sends;
		scounts[2] = d->sends;
	} else if (job->rank == 2) {
		from[0] = &expects;
		rcounts[0] = d->expects;
	}
	MP_OK(tutti_comm_dup(job->world, &comm));
	mp_meet(job);
	err = tutti_alltoallw(v, scounts, at, to, w, rcounts, at, from, comm);
	while (!err && mp_now() - begin < 30)
		err = tutti_barrier(comm);
	MP_ERR(err, -TUTTI_EMISMATCH);
	MP_OK(tutti_comm_error(comm, &info));
	if (strcmp(info.field, d->field) || !strstr(info.text, d->text)) {
		fprintf(stderr, "rank %d: %s: %s\n", job->rank, info.field, info.text);
		return 1;
	}
	mp_meet(job);
	MP_OK(tutti_comm_free(comm));
	free(v);
	free(w);
	return 0;
}

/* Rank 1 calls alltoallv instead. */
static int another_call(struct mp_job *job)
{
	struct tutti_layout one = mp_layout_vector(TUTTI_UINT16, 4, 1, 2);
	const struct tutti_layout *layouts[3] = {&one, &one, &one};
	static const size_t counts[3] = {4, 4, 4}, few[3] = {0, 1, 0};
	static const ptrdiff_t at[3] = {0, 100, 200};
	uint16_t v[200] = {0}, w[200];
	struct tutti_comm *comm;
	double begin = mp_now();
	int err;

	MP_OK(tutti_comm_dup(job->world, &comm));
	mp_meet(job);
	if (job->rank == 1)
		err = tutti_alltoallv(v, counts, NULL, w, counts, NULL, TUTTI_UINT16, comm);
	else
		err = tutti_alltoallw(v, few, at, layouts, w, few, at, layouts, comm);
	while (!err && mp_now() - begin < 30)
		err = tutti_barrier(comm);
	MP_ERR(err, -TUTTI_EMISMATCH);
	MP_SAID("alltoallw #1");
	MP_SAID("rank 1 called alltoallv #1");
	mp_meet(job);
	MP_OK(tutti_comm_free(comm));
	return 0;
}

/* The verdict may reach rank 1 before it has made the communicator. */
static int early_verdict(struct mp_job *job)
{
	struct tutti_layout one =
		mp_layout_vector(job->rank ? TUTTI_INT32 : TUTTI_FLOAT32, 1, 1, 0);
	const struct tutti_layout *layouts[3] = {&one, &one, &one};
	const size_t counts[3] = {job->rank == 2, 0, job->rank == 0};
	int32_t v = 0, w = 0;
	struct tutti_comm *comm = NULL;
	double begin = mp_now();
	int err = tutti_comm_dup(job->world, &comm);

	if (!err)
		err = tutti_alltoallw(&v, counts, NULL, layouts, &w, counts, NULL, layouts, comm);
	while (!err && mp_now() - begin < 30)
		err = tutti_barrier(comm);
	MP_ERR(err, -TUTTI_EMISMATCH);
	MP_SAID("ranks disagree on datatype");
	mp_meet(job);
	if (comm)
		MP_OK(tutti_comm_free(comm));
	return 0;
}

static int differ_body(struct mp_job *job)
{
	size_t i;

	for (i = 0; i < sizeof(disagreements) / sizeof(disagreements[0]); i++)
		TT_EXPECT(!disagree(job, &disagreements[i]));
	TT_EXPECT(!another_call(job));
	for (i = 0; i < 10; i++)
		TT_EXPECT(!early_verdict(job));
	MP_OK(tutti_barrier(job->world));
	return 0;
}

/*
 * The calls of the last rank are refused: alltoallw for an argument, and the all-reduce after all
 * arguments have been checked. The others learn so when they have waited.
 */
static int late(struct mp_job *job)
{
	static const size_t one[3] = {1, 1, 1};
	static const ptrdiff_t at[3] = {0, 4, 8};
	struct tutti_layout l = mp_layout_vector(TUTTI_INT32, 1, 1, 0);
	const struct tutti_layout *layouts[3] = {&l, &l, &l};
	struct tutti_comm *comm, *sums;
	struct tutti_request *req;
	enum tutti_op op;
	int v[3] = {1, 2, 3}, w[3];
	double x = 1, sum;
	float half = 0.5f;

	MP_OK(tutti_op_create_premul_sum(job->ctx, &half, TUTTI_FLOAT32, &op));
	MP_OK(tutti_comm_dup(job->world, &comm));
	MP_OK(tutti_comm_dup(job->world, &sums));
	if (job->rank == job->n - 1) {
		MP_ERR(tutti_alltoallw(v, one, at, NULL, w, one, at, layouts, comm), -EINVAL);
		MP_ERR(tutti_allreduce(&x, &sum, 1, TUTTI_FLOAT64, op, sums), -EINVAL);
		TT_EXPECT(mp_await(&job->shared->word[0], job->n - 1, 30000));
		/* it may still be asked: no error is left for tutti_finalize */
		TT_EXPECT(tutti_barrier(comm) && tutti_barrier(sums));
	} else {
		MP_OK(tutti_iallreduce(&x, &sum, 1, TUTTI_FLOAT64, TUTTI_SUM, sums, &req));
		MP_ERR(tutti_alltoallw(v, one, at, layouts, w, one, at, layouts, comm), -ETIMEDOUT);
		MP_SAID("it waits for rank 2");
		MP_SAID("(its alltoallw failed: Invalid argument)");
		MP_ERR(tutti_wait(&req), -ETIMEDOUT);
		MP_SAID("(its allreduce failed: Invalid argument)");
		atomic_fetch_add(&job->shared->word[0], 1);
	}
	MP_OK(tutti_comm_free(comm));
	MP_OK(tutti_comm_free(sums));
	MP_OK(tutti_op_free(job->ctx, op));
	return 0;
}

static void errors(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_LATE_AFTER=200ms TUTTI_TIMEOUT=2s", .fn = late));
	TT_CHECK(!MP_RUN(.n = 2, .fn = bad_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM " TUTTI_LATE_AFTER=50ms", .fn = differ_body));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 3, .env = OFI " TUTTI_LATE_AFTER=50ms", .fn = differ_body));
}

/* ---- deaths ---- */

/* Rank 1 dies in the middle of long calls. What needs it ends; a tolerant world carries the rest.
 */
static int dead_body(struct mp_job *job)
{
	enum { N = 400000 };
	struct tutti_layout l = mp_layout_vector(TUTTI_FLOAT64, N, 1, 2);
	const struct tutti_layout *layouts[3] = {&l, &l, &l};
	const ptrdiff_t at[3] = {0, 16 * N, 32 * N};
	double *v = calloc(6 * N, sizeof(*v)), *w = calloc(6 * N, sizeof(*w)), begin;
	bool tolerant = getenv("TUTTI_TOLERANT");
	struct tutti_request *req = NULL;
	int err, mine, its = -1;

	mp_meet(job);
	begin = mp_now();
	do {
		err = tutti_ialltoallw(v, NULL, at, layouts, w, NULL, at, layouts, job->world,
				       &req);
		if (job->rank == 1 && mp_now() - begin > 0.05)
			kill(getpid(), SIGKILL);
		if (!err)
			err = tutti_wait(&req);
	} while (!err);
	TT_EXPECT(!req);
	TT_EXPECT(err == -TUTTI_EPEER ||
		  (!tolerant && (err == -TUTTI_EABORTED || err == -TUTTI_ETRANSPORT)));
	mine = job->rank;
	if (tolerant) {
		MP_OK(tutti_sendrecv(&mine, 1, TUTTI_INT32, 2 - job->rank, 0, &its, 1, TUTTI_INT32,
				     2 - job->rank, 0, job->world, NULL));
		TT_EXPECT(its == 2 - job->rank);
	}
	if (mp_leave_failed(job))
		return 1;
	free(v);
	free(w);
	return 0;
}

static void deaths(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = dead_body, .killed = 2));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM " TUTTI_TOLERANT=1", .fn = dead_body, .killed = 2));
	if (mp_no_ofi())
		return;
	TT_CHECK(!MP_RUN(.n = 3, .env = OFI, .fn = dead_body, .killed = 2));
	TT_CHECK(!MP_RUN(.n = 3, .env = OFI " TUTTI_TOLERANT=1", .fn = dead_body, .killed = 2));
}

static void verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=verbs TUTTI_TIMEOUT=30s",
			 .fn = random_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"random", random_}, {"copies", copies}, {"errors", errors},
		{"deaths", deaths},  {"verbs", verbs},	 {NULL, NULL},
	};

	return tt_test_main("alltoallw", tests, argc, argv);
}
