/* SPDX-License-Identifier: BSD-3-Clause */
/* Send, receive and probe: matching order, sizes, what is promised about copies, and memory of
 * messages that wait. */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <malloc.h>

#define MIB ((size_t)1 << 20)
#define EAGER ((size_t)4096) /* the default of TUTTI_EAGER */

static void fill(char *p, size_t n, unsigned seed)
{
	size_t i;

	for (i = 0; i < n; i++)
		p[i] = (char)(seed * 131 + i * 7 + (i >> 8));
}

static bool check(const char *p, size_t n, unsigned seed)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (p[i] != (char)(seed * 131 + i * 7 + (i >> 8)))
			return false;
	return true;
}

/* ---- sizes, kinds of memory, expected or not, both directions, self ---- */

static const size_t sizes[] = {0, 1, 7, 4096, 4097, 65536, MIB, 2 * MIB + 3, 8 * MIB};
#define NSIZES (sizeof(sizes) / sizeof(sizes[0]))

static int exchange(struct mp_job *job, struct mp_buf *in, struct mp_buf *out, size_t n, bool late)
{
	int next = (job->rank + 1) % job->n, prev = (job->rank + job->n - 1) % job->n;
	struct tutti_status status = {-2, -2, 1, TUTTI_INT8, {0}};
	struct tutti_request *req[2];

	fill(out->p, n, (unsigned)job->rank + 1);
	memset(in->p, 0x55, n + 8);
	if (late) { /* messages come before their receives */
		MP_OK(tutti_isend(out->p, n, TUTTI_UINT8, next, 9, job->world, &req[0]));
		MP_OK(tutti_barrier(job->world));
		MP_OK(tutti_recv(in->p, n, TUTTI_UINT8, prev, 9, job->world, &status));
		MP_OK(tutti_wait(&req[0]));
	} else {
		MP_OK(tutti_irecv(in->p, n, TUTTI_UINT8, prev, TUTTI_ANY_TAG, job->world, &status,
				  &req[0]));
		MP_OK(tutti_barrier(job->world));
		MP_OK(tutti_isend(out->p, n, TUTTI_UINT8, next, 9, job->world, &req[1]));
		MP_OK(tutti_waitall(2, req));
	}
	TT_EXPECT(status.source == prev && status.tag == 9 && status.bytes == n);
	TT_EXPECT(check(in->p, n, (unsigned)prev + 1));
	TT_EXPECT(in->p[n] == 0x55);
	memset(in->p, 0x55, n + 8);
	MP_OK(tutti_sendrecv(out->p, n, TUTTI_UINT8, prev, 1, in->p, n, TUTTI_UINT8, next, 1,
			     job->world, &status));
	TT_EXPECT(check(in->p, n, (unsigned)next + 1) && in->p[n] == 0x55);
	TT_EXPECT(status.source == next && status.bytes == n);
	return 0;
}

static int sizes_body(struct mp_job *job)
{
	struct mp_buf in, out;
	int kind;
	size_t i;

	for (kind = 0; kind < MP_KINDS; kind++) {
		TT_EXPECT(!mp_buf_new(job, (enum mp_kind)kind, 8 * MIB + 64, &in));
		TT_EXPECT(!mp_buf_new(job, (enum mp_kind)((kind + job->rank) % MP_KINDS),
				      8 * MIB + 64, &out));
		for (i = 0; i < NSIZES; i++) {
			TT_EXPECT(!exchange(job, &in, &out, sizes[i], false));
			TT_EXPECT(!exchange(job, &in, &out, sizes[i], true));
		}
		TT_EXPECT(!mp_buf_free(&in));
		TT_EXPECT(!mp_buf_free(&out));
	}
	return 0;
}

/* ---- many long messages at once, of memory that is not in the pool ---- */

#define MANY 24
#define LENGTH (3 * MIB / 2)
#define SMALL 8192

/* Kilobytes of shared memory that this process has touched. */
static long shared_kb(void)
{
	return tt_proc_number("status", "RssShmem");
}

/*
 * Their payloads go through a bounded part of the pool, which a shorter message behind them does
 * not wait for.
 */
static int many_body(struct mp_job *job)
{
	struct tutti_request *req[2 * MANY], *small[2];
	int i, done, peer = !job->rank;
	char *in[MANY], *out[MANY], *brief[2] = {malloc(SMALL), malloc(SMALL)};
	long before, after;

	for (i = 0; i < MANY; i++) {
		in[i] = malloc(LENGTH);
		out[i] = malloc(LENGTH);
		fill(out[i], LENGTH, (unsigned)(job->rank * 100 + i));
	}
	MP_OK(tutti_sendrecv(out[0], 8, TUTTI_UINT8, peer, 0, in[0], 8, TUTTI_UINT8, peer, 0,
			     job->world, NULL));
	before = shared_kb();
	for (i = 0; i < MANY; i++)
		MP_OK(tutti_irecv(in[i], LENGTH, TUTTI_UINT8, peer, i, job->world, NULL, &req[i]));
	for (i = 0; i < MANY; i++)
		MP_OK(tutti_isend(out[i], LENGTH, TUTTI_UINT8, peer, i, job->world,
				  &req[MANY + i]));
	MP_OK(tutti_irecv(brief[0], SMALL, TUTTI_UINT8, peer, MANY, job->world, NULL, &small[0]));
	fill(brief[1], SMALL, 7);
	MP_OK(tutti_isend(brief[1], SMALL, TUTTI_UINT8, peer, MANY, job->world, &small[1]));
	MP_OK(tutti_wait(&small[0]));
	TT_EXPECT(check(brief[0], SMALL, 7));
	MP_OK(tutti_request_get_status(req[MANY - 1], &done));
	TT_EXPECT(!done);
	MP_OK(tutti_wait(&small[1]));
	MP_OK(tutti_waitall(2 * MANY, req));
	after = shared_kb();
	for (i = 0; i < MANY; i++) {
		TT_EXPECT(check(in[i], LENGTH, (unsigned)(peer * 100 + i)));
		free(in[i]);
		free(out[i]);
	}
	free(brief[0]);
	free(brief[1]);
	TT_EXPECT(before > 0 && after - before < 24 * 1024); /* of 72 MiB both ways */
	return 0;
}

static void many(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm", .fn = many_body));
}

/* ---- messages that come after their communicator was freed ---- */

#define FREED 450

/* Rank 1 frees each communicator before rank 0 sends to it there. */
static int unread_body(struct mp_job *job)
{
	struct tutti_comm *comm;
	size_t heap[2] = {0, 0};
	char byte = 1;
	int i;

	for (i = 0; i < FREED; i++) {
		if (i == FREED / 3) /* more than are remembered */
			heap[0] = mallinfo2().uordblks;
		MP_OK(tutti_comm_dup(job->world, &comm));
		if (job->rank)
			MP_OK(tutti_comm_free(comm));
		mp_meet(job);
		if (job->rank)
			continue;
		MP_OK(tutti_send(&byte, 1, TUTTI_UINT8, 1, 1, comm));
		MP_OK(tutti_comm_free(comm));
	}
	heap[1] = mallinfo2().uordblks;
	TT_EXPECT(heap[1] < heap[0] + 400000); /* 4 KiB each would be 1.2 MB */
	return 0;
}

static void unread(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = "", .fn = unread_body));
}

/* ---- matching ---- */

/* The i-th message from rank from to rank to. */
static int tag_of(int from, int to, int i)
{
	return (from * 3 + to * 5 + i * i) % 4;
}

static size_t len_of(int from, int to, int i)
{
	static const size_t len[] = {0, 8, 100, 4096, 5000, 20000, MIB + 1};

	return len[(size_t)(from + to * 2 + i * 5 + i / 7) % 7];
}

static unsigned seed_of(int from, int to, int i)
{
	return (unsigned)(from * 10000 + to * 1000 + i);
}

enum { MSGS = 60 };

/*
 * All ranks send MSGS messages to all, themselves included. A receive takes the first message of
 * its sender that fits and that no earlier receive has taken; so the oracle needs no timing.
 */
struct plan {
	bool taken[MP_MAX][MSGS];
	int from[MP_MAX * MSGS], nth[MP_MAX * MSGS], tag[MP_MAX * MSGS];
	int n;
};

static void plan_receives(struct mp_job *job, struct plan *p)
{
	unsigned x = (unsigned)job->rank * 77 + 5;
	int from, want, i;

	while (p->n < job->n * MSGS) {
		x = x * 1103515245u + 12345u;
		from = (int)(x >> 16) % job->n;
		want = (int)(x >> 8) % 5 - 1;
		for (i = 0; i < MSGS; i++)
			if (!p->taken[from][i] && (want < 0 || tag_of(from, job->rank, i) == want))
				break;
		if (i == MSGS)
			continue;
		p->taken[from][i] = true;
		p->from[p->n] = from;
		p->nth[p->n] = i;
		p->tag[p->n++] = want;
	}
}

static int order_body(struct mp_job *job)
{
	int total = job->n * MSGS, i, to, nth, from;
	struct tutti_request **out = calloc((size_t)total, sizeof(*out)), *in[8] = {NULL};
	struct plan *p = calloc(1, sizeof(*p));
	struct tutti_status status[8];
	char *data = malloc(MIB + 1), *buf[8], **src = calloc((size_t)total, sizeof(*src));
	size_t len;

	plan_receives(job, p);
	for (i = 0; i < 8; i++)
		MP_OK(tutti_alloc(job->ctx, MIB + 1, (void **)&buf[i]));
	for (i = 0; i < total; i++) {
		to = i % job->n;
		nth = i / job->n;
		len = len_of(job->rank, to, nth);
		src[i] = malloc(len + 1);
		fill(src[i], len, seed_of(job->rank, to, nth));
		MP_OK(tutti_isend(src[i], len, TUTTI_UINT8, to, tag_of(job->rank, to, nth),
				  job->world, &out[i]));
	}
	for (i = 0; i < total + 8; i++) {
		int k = i % 8;

		if (i >= 8) {
			from = p->from[i - 8];
			nth = p->nth[i - 8];
			len = len_of(from, job->rank, nth);
			MP_OK(tutti_wait(&in[k]));
			TT_EXPECT(status[k].source == from);
			TT_EXPECT(status[k].tag == tag_of(from, job->rank, nth));
			TT_EXPECT(status[k].bytes == len);
			TT_EXPECT(check(buf[k], len, seed_of(from, job->rank, nth)));
		}
		if (i < total)
			MP_OK(tutti_irecv(buf[k], MIB + 1, TUTTI_UINT8, p->from[i], p->tag[i],
					  job->world, &status[k], &in[k]));
	}
	MP_OK(tutti_waitall(total, out));
	for (i = 0; i < 8; i++)
		MP_OK(tutti_free(buf[i]));
	for (i = 0; i < total; i++)
		free(src[i]);
	free(src);
	free(data);
	free(out);
	free(p);
	return 0;
}

/* From any source: those of one sender in its order; half of them found by probing. */
static int any_body(struct mp_job *job)
{
	int next[MP_MAX] = {0}, i, found, from, v = 0, all = (job->n - 1) * MSGS;
	struct tutti_status status, probed;
	int data[2 * MSGS] = {0};

	if (job->rank) {
		for (i = 0; i < MSGS; i++) {
			data[0] = i;
			MP_OK(tutti_send(data, (size_t)(1 + i % 3), TUTTI_INT32, 0, i % 2 ? i : 77,
					 job->world));
		}
		return 0;
	}
	for (i = 0; i < all; i++) {
		if (i % 2) {
			MP_OK(tutti_probe(TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, job->world, &probed));
			MP_OK(tutti_iprobe(probed.source, probed.tag, job->world, &found, &status));
			TT_EXPECT(found && status.bytes == probed.bytes);
			MP_OK(tutti_recv(data, 3, TUTTI_INT32, probed.source, probed.tag,
					 job->world, &status));
			TT_EXPECT(status.source == probed.source && status.tag == probed.tag &&
				  status.bytes == probed.bytes);
		} else {
			MP_OK(tutti_recv(data, 3, TUTTI_INT32, TUTTI_ANY_SOURCE, TUTTI_ANY_TAG,
					 job->world, &status));
		}
		from = status.source;
		TT_EXPECT(from > 0 && from < job->n);
		TT_EXPECT(data[0] == next[from]);
		TT_EXPECT(status.tag == (data[0] % 2 ? data[0] : 77));
		TT_EXPECT(status.bytes == 4 * (size_t)(1 + data[0] % 3));
		next[from]++;
	}
	MP_OK(tutti_iprobe(TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, job->world, &found, NULL));
	TT_EXPECT(!found && v == 0);
	return 0;
}

/* Receives for any source, and for one, are matched in the order in which they were posted. */
static int posted_body(struct mp_job *job)
{
	struct tutti_request *req[12];
	int got[12], i;

	for (i = 0; job->rank == 0 && i < 12; i++)
		MP_OK(tutti_irecv(&got[i], 1, TUTTI_INT32, i % 3 ? TUTTI_ANY_SOURCE : 1,
				  i % 4 ? 2 : TUTTI_ANY_TAG, job->world, NULL, &req[i]));
	mp_meet(job);
	for (i = 0; job->rank == 1 && i < 12; i++)
		MP_OK(tutti_send(&i, 1, TUTTI_INT32, 0, 2, job->world));
	for (i = 0; job->rank == 0 && i < 12; i++) {
		MP_OK(tutti_wait(&req[i]));
		TT_EXPECT(got[i] == i);
	}
	return 0;
}

/* Unreceived messages of a sender; some count twice, as they came before the port was there. */
#define MOST_KEPT 128

/* ---- a receiver that looks for the last of many; a communicator that is new; persistent ---- */

static int backwards_body(struct mp_job *job)
{
	enum { N = 500 };
	struct tutti_stats a = {.size = sizeof(a)}, b = a;
	struct tutti_request *req[N];
	struct tutti_comm *half;
	int v[N], got, i;

	MP_OK(tutti_comm_split(job->world, 0, -job->rank, &half));
	if (job->rank == 1)
		mp_sleep_ms(50); /* the first come before this rank has the communicator's port */
	if (job->rank == 0) {
		for (i = 0; i < N; i++) {
			v[i] = i * 3;
			MP_OK(tutti_isend(&v[i], 1, TUTTI_INT32, job->n - 2, i, half, &req[i]));
		}
		MP_OK(tutti_waitall(N, req));
	} else if (job->rank == 1) {
		MP_OK(tutti_stats_get(job->ctx, &a));
		for (i = N - 1; i >= 0; i--) {
			MP_OK(tutti_recv(&got, 1, TUTTI_INT32, job->n - 1, i, half, NULL));
			TT_EXPECT(got == i * 3);
			if (i < N - 1)
				continue;
			MP_OK(tutti_stats_get(job->ctx, &b));
			TT_EXPECT(b.parked_messages - a.parked_messages <= 2 * MOST_KEPT);
		}
	}
	MP_OK(tutti_barrier(half));
	MP_OK(tutti_comm_free(half));
	return 0;
}

static int persistent_body(struct mp_job *job)
{
	struct tutti_request *req[2];
	struct tutti_status status;
	size_t n = 3 * MIB;
	char *in, *out;
	int i;

	MP_OK(tutti_alloc(job->ctx, n, (void **)&in));
	MP_OK(tutti_alloc(job->ctx, n, (void **)&out));
	MP_OK(tutti_recv_init(in, n, TUTTI_INT8, !job->rank, 4, job->world, &status, &req[0]));
	MP_OK(tutti_send_init(out, n, TUTTI_INT8, !job->rank, 4, job->world, &req[1]));
	for (i = 0; i < 10; i++) {
		fill(out, n, (unsigned)(i + job->rank * 100));
		MP_OK(tutti_start(req[0]));
		MP_OK(tutti_start(req[1]));
		MP_OK(tutti_waitall(2, req));
		TT_EXPECT(check(in, n, (unsigned)(i + !job->rank * 100)));
	}
	MP_OK(tutti_request_free(req[0]));
	MP_OK(tutti_request_free(req[1]));
	MP_OK(tutti_free(in));
	MP_OK(tutti_free(out));
	return 0;
}

/* ---- threads, each with a communicator of its own ---- */

struct talker {
	struct mp_job *job;
	struct tutti_comm *comm;
	int id, failed;
};

static int talk(struct talker *t)
{
	struct mp_job *job = t->job;
	size_t n = t->id % 2 ? 100 : 50000;
	char *in = malloc(n), *out = malloc(n);
	int i;

	for (i = 0; i < 50; i++) {
		fill(out, n, (unsigned)(i * 10 + t->id + job->rank));
		MP_OK(tutti_sendrecv(out, n, TUTTI_UINT8, !job->rank, i, in, n, TUTTI_UINT8,
				     !job->rank, i, t->comm, NULL));
		TT_EXPECT(check(in, n, (unsigned)(i * 10 + t->id + !job->rank)));
	}
	free(in);
	free(out);
	return 0;
}

static void *talk_thread(void *arg)
{
	struct talker *t = arg;

	t->failed = talk(t);
	return NULL;
}

static int threads_body(struct mp_job *job)
{
	struct talker t[4];
	pthread_t thread[4];
	int i, failed = 0;

	for (i = 0; i < 4; i++) {
		t[i] = (struct talker){.job = job, .id = i};
		MP_OK(tutti_comm_dup(job->world, &t[i].comm));
	}
	for (i = 0; i < 4; i++)
		TT_EXPECT(!pthread_create(&thread[i], NULL, talk_thread, &t[i]));
	for (i = 0; i < 4; i++) {
		pthread_join(thread[i], NULL);
		failed |= t[i].failed;
	}
	MP_OK(tutti_barrier(job->world));
	for (i = 0; i < 4; i++)
		MP_OK(tutti_comm_free(t[i].comm));
	return failed;
}

/* ---- a flood to a rank that does not receive ---- */

static int flood_body(struct mp_job *job)
{
	enum { N = 3000 };
	struct tutti_stats a = {.size = sizeof(a)}, b = a;
	struct tutti_request **req = calloc(N, sizeof(*req));
	char(*data)[256] = calloc(N, sizeof(*data)), got[256];
	int i, v, done;

	MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_stats_get(job->ctx, &a));
	for (i = 0; job->rank == 0 && i < N; i++) {
		fill(data[i], sizeof(data[i]), (unsigned)i);
		MP_OK(tutti_isend(data[i], sizeof(data[i]), TUTTI_UINT8, 1, 5, job->world,
				  &req[i]));
		if (i % 10 == 0)
			MP_OK(tutti_test(&req[i], &done));
	}
	/* the flooded rank works with others, and with the flooding one, meanwhile */
	for (i = 0; job->rank && i < 200; i++) {
		v = i;
		MP_OK(tutti_sendrecv(&v, 1, TUTTI_INT32, 3 - job->rank, 6, &done, 1, TUTTI_INT32,
				     3 - job->rank, 6, job->world, NULL));
		TT_EXPECT(done == i);
	}
	for (i = 0; i < 20; i++)
		MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_stats_get(job->ctx, &b));
	if (job->rank == 1) {
		TT_EXPECT(b.parked_messages - a.parked_messages <= 2 * MOST_KEPT + 200);
		TT_EXPECT(b.allocations - a.allocations < 600);
	}
	for (i = v = 0; job->rank == 0 && i < N; i++) {
		done = true;
		if (req[i])
			MP_OK(tutti_request_get_status(req[i], &done));
		v += done;
	}
	TT_EXPECT(job->rank || v <= MOST_KEPT);
	MP_OK(tutti_barrier(job->world)); /* no rank receives before that */
	for (i = 0; job->rank == 1 && i < N; i++) {
		MP_OK(tutti_recv(got, sizeof(got), TUTTI_UINT8, 0, 5, job->world, NULL));
		TT_EXPECT(check(got, sizeof(got), (unsigned)i));
	}
	MP_OK(tutti_waitall(N, req));
	free(req);
	free(data);
	return 0;
}

/* ---- copies and allocations ---- */

static int swap(struct mp_job *job, char *in, char *out, size_t n)
{
	struct tutti_request *req[2];

	MP_OK(tutti_irecv(in, n, TUTTI_UINT8, !job->rank, 1, job->world, NULL, &req[0]));
	MP_OK(tutti_isend(out, n, TUTTI_UINT8, !job->rank, 1, job->world, &req[1]));
	MP_OK(tutti_waitall(2, req));
	return 0;
}

/* Allocates for the maximum number of unreceived messages; their memory is kept. */
static int warm_up(struct mp_job *job)
{
	struct tutti_request *req[4];
	int i, v = 0;

	for (i = 0; i < 4; i++)
		MP_OK(tutti_isend(&v, 1, TUTTI_INT32, !job->rank, 1, job->world, &req[i]));
	MP_OK(tutti_barrier(job->world));
	for (i = 0; i < 4; i++)
		MP_OK(tutti_recv(&v, 1, TUTTI_INT32, !job->rank, 1, job->world, NULL));
	MP_OK(tutti_waitall(4, req));
	return 0;
}

static int counters_body(struct mp_job *job)
{
	static const size_t len[] = {EAGER + 1, MIB, 8 * MIB, 16};
	struct tutti_stats a = {.size = sizeof(a)}, b = a;
	char *in, *out;
	size_t i;
	int k;

	MP_OK(tutti_alloc(job->ctx, 8 * MIB, (void **)&in));
	MP_OK(tutti_alloc(job->ctx, 8 * MIB, (void **)&out));
	TT_EXPECT(!warm_up(job));
	for (i = 0; i < 4; i++) {
		for (k = 0; k < 30; k++) {
			if (k == 20) {
				mp_meet(job);
				MP_OK(tutti_stats_get(job->ctx, &a));
			}
			if (swap(job, in, out, len[i]))
				return 1;
			mp_meet(job);
		}
		MP_OK(tutti_stats_get(job->ctx, &b));
		TT_EXPECT(b.allocations == a.allocations);
		TT_EXPECT(b.registrations == a.registrations);
		TT_EXPECT(b.put_bytes - a.put_bytes == 10 * len[i]);
		if (len[i] > EAGER)
			TT_EXPECT(b.copied_bytes == a.copied_bytes);
		else /* through a slot */
			TT_EXPECT(b.copied_bytes - a.copied_bytes <= 30 * len[i]);
	}
	MP_OK(tutti_free(in));
	MP_OK(tutti_free(out));
	return 0;
}

/* ---- long messages, one at a time, between ranks of one host ---- */

#define NEIGHBORS 64

/* Blocks of the pool with gaps of their size, where the library takes memory. */
static int neighbors_new(struct mp_job *job, char *block[NEIGHBORS], size_t size)
{
	int i;

	for (i = 0; i < NEIGHBORS; i++)
		MP_OK(tutti_alloc(job->ctx, size, (void **)&block[i]));
	for (i = 1; i < NEIGHBORS; i += 2)
		MP_OK(tutti_free(block[i]));
	for (i = 0; i < NEIGHBORS; i += 2)
		fill(block[i], size, (unsigned)i);
	return 0;
}

static int neighbors_free(struct mp_job *job, char *block[NEIGHBORS], size_t size)
{
	int i;

	for (i = 0; i < NEIGHBORS; i += 2) {
		TT_EXPECT(check(block[i], size, (unsigned)i));
		MP_OK(tutti_free(block[i]));
	}
	return 0;
}

/* A message of malloc each way; *put: what this rank has put for it. */
static int alone(struct mp_job *job, size_t len, uint64_t *put)
{
	char *in = calloc(1, len), *out = malloc(len);
	struct tutti_stats a = {.size = sizeof(a)}, b = {.size = sizeof(b)};

	fill(out, len, (unsigned)(len + (size_t)job->rank));
	MP_OK(tutti_stats_get(job->ctx, &a));
	if (!job->rank)
		MP_OK(tutti_send(out, len, TUTTI_UINT8, 1, 3, job->world));
	MP_OK(tutti_recv(in, len, TUTTI_UINT8, !job->rank, 3, job->world, NULL));
	if (job->rank)
		MP_OK(tutti_send(out, len, TUTTI_UINT8, 0, 3, job->world));
	MP_OK(tutti_stats_get(job->ctx, &b));
	TT_EXPECT(check(in, len, (unsigned)(len + (size_t)!job->rank)));
	*put = b.put_messages - a.put_messages;
	free(in);
	free(out);
	return 0;
}

/* Both ranks copy at the same time, in pieces that stay within their memory. */
static int alone_body(struct mp_job *job)
{
	static const struct {
		size_t len;
		uint64_t pieces;
	} of[] = {{16384, 2},	 {16385, 3}, {65536, 4},    {65537, 5},	       {MIB / 4 + 1, 5},
		  {MIB - 1, 16}, {MIB, 16},  {4 * MIB, 32}, {5 * MIB + 3, 33}, {64 * MIB, 64}};
	char *block[NEIGHBORS];
	uint64_t put;
	size_t i;

	if (alone(job, 65536, &put)) /* the first message */
		return 1;
	for (i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		if (neighbors_new(job, block, of[i].len / 4 < MIB / 16 ? 8192 : MIB / 16) ||
		    alone(job, of[i].len, &put) ||
		    neighbors_free(job, block, of[i].len / 4 < MIB / 16 ? 8192 : MIB / 16))
			return 1;
		TT_EXPECT(put == of[i].pieces);
	}
	return 0;
}

static void alone_(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm", .fn = alone_body));
}

/* ---- where they run ---- */

static void all_on(const char *env)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = env, .fn = sizes_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = order_body));
	TT_CHECK(!MP_RUN(.n = 4, .env = env, .fn = any_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = env, .fn = posted_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = env, .fn = backwards_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = env, .fn = persistent_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = env, .fn = threads_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = flood_body));
}

/* TUTTI_EAGER is rounded up, and so is the kept part of an early message. */
static int kept_body(struct mp_job *job)
{
	unsigned char buf[1024];
	int len, i;

	for (len = 992; len <= 1024; len++) {
		memset(buf, job->rank ? 0 : len & 255, sizeof(buf));
		if (!job->rank)
			MP_OK(tutti_send(buf, (size_t)len, TUTTI_UINT8, 1, len, job->world));
		MP_OK(tutti_barrier(job->world));
		if (job->rank)
			MP_OK(tutti_recv(buf, (size_t)len, TUTTI_UINT8, 0, len, job->world, NULL));
		for (i = 0; i < len; i++)
			TT_EXPECT(buf[i] == (len & 255));
	}
	return 0;
}

static void self(void)
{
	TT_CHECK(!MP_RUN(.n = 1, .fn = sizes_body));
	TT_CHECK(!MP_RUN(.n = 1, .fn = order_body));
}

static void shm(void)
{
	all_on("TUTTI_TRANSPORT=shm");
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm TUTTI_EAGER=0", .fn = order_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm TUTTI_EAGER=1000", .fn = kept_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_PROGRESS=thread", .fn = order_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_PARKED=1 TUTTI_SLOTS=4", .fn = backwards_body));
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	all_on("TUTTI_TRANSPORT=ofi");
}

#define FAULTS(seed) "TUTTI_FAULT=seed=" seed ",delay=0.1:100,reorder=0.4,again=0.2,finish=1"

static void fault_shm(void)
{
	all_on("TUTTI_TRANSPORT=fault:shm " FAULTS("21"));
	TT_CHECK(!MP_RUN(.n = 3,
			 .env = "TUTTI_TRANSPORT=fault:shm TUTTI_SLOTS=4 TUTTI_PARKED=2 " FAULTS(
				 "5"),
			 .fn = order_body));
}

static void fault_ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	all_on("TUTTI_TRANSPORT=fault:ofi TUTTI_FAULT=seed=22,delay=0.1:100,reorder=0.4,again=0.2");
}

static void verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	/* not all of it, as the guest is slow */
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=verbs", .fn = order_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=verbs", .fn = backwards_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=verbs", .fn = counters_body));
	TT_CHECK(!MP_RUN(.n = 3,
			 .env = "TUTTI_TRANSPORT=fault:verbs TUTTI_VERBS_QPS=2 " FAULTS("23"),
			 .fn = order_body));
}

static void counters(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm", .fn = counters_body));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=ofi", .fn = counters_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"self", self},
		{"shm", shm},
		{"alone", alone_},
		{"many", many},
		{"unread", unread},
		{"ofi", ofi},
		{"fault_shm", fault_shm},
		{"fault_ofi", fault_ofi},
		{"counters", counters},
		{"verbs", verbs},
		{NULL, NULL},
	};

	return tt_test_main("p2p", tests, argc, argv);
}
