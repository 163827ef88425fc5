/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rings, used for memory that peers cannot map (lib/engine/node/ring_reduce.c), with all kinds of
 * memory and calls, and with calls that fail in the middle, after which no rank accesses their
 * buffers.
 */
#include "config.h"

#include "lib/base/copy.h"
#include "lib/base/hash.h"
#include "tests/mp/coll/torn.h"

#define PULLS                                                                                      \
	"TUTTI_ALGO=allreduce:node_pull;reduce:node_pull;reduce_scatter_block:node_pull;"          \
	"reduce_scatter:node_pull;scan:node_pull;exscan:node_pull"

#define MOST_RANKS 3
enum { ALLREDUCE, REDUCE, SCATTER_BLOCK, SCATTER, SCAN, EXSCAN, COLLS };

/* Elements of the input for rank j; by kind all alike, none for rank 0, or few for others. */
static size_t block_of(unsigned kind, int coll, size_t count, int n, int j)
{
	if (coll < SCATTER_BLOCK || coll > SCATTER)
		return j ? 0 : count;
	if (coll == SCATTER_BLOCK || kind == 0)
		return count;
	return kind == 1 ? count * (size_t)j / (size_t)n : j ? count / 64 : count;
}

static int begin(struct mp_job *job, int coll, bool later, const void *from, void *to, size_t count,
		 const size_t *counts, struct tutti_request **req)
{
	struct tutti_comm *w = job->world;

	if (coll == REDUCE)
		MP_OK(tutti_ireduce(from, to, count, TUTTI_INT32, TUTTI_SUM, 1, w, req));
	else if (coll == SCATTER_BLOCK)
		MP_OK(tutti_reduce_scatter_block(from, to, count, TUTTI_INT32, TUTTI_SUM, w));
	else if (coll == SCATTER)
		MP_OK(tutti_reduce_scatter(from, to, counts, TUTTI_INT32, TUTTI_SUM, w));
	else if (coll == SCAN && later)
		MP_OK(tutti_iscan(from, to, count, TUTTI_INT32, TUTTI_SUM, w, req));
	else if (coll == SCAN)
		MP_OK(tutti_scan(from, to, count, TUTTI_INT32, TUTTI_SUM, w));
	else if (coll == EXSCAN && later)
		MP_OK(tutti_iexscan(from, to, count, TUTTI_INT32, TUTTI_SUM, w, req));
	else if (coll == EXSCAN)
		MP_OK(tutti_exscan(from, to, count, TUTTI_INT32, TUTTI_SUM, w));
	else if (later)
		MP_OK(tutti_iallreduce(from, to, count, TUTTI_INT32, TUTTI_SUM, w, req));
	else
		MP_OK(tutti_allreduce(from, to, count, TUTTI_INT32, TUTTI_SUM, w));
	return 0;
}

/*
 * Calls with input and result of the pool or not, as bits of mix say for each rank; which of them
 * wait at once.
 */
static int mixed_call(struct mp_job *job, unsigned mix, int coll, size_t count, char *mem[2][2])
{
	unsigned mine = mix >> 3 * job->rank;
	size_t n = (size_t)job->n, of = n, i;
	int32_t *in = (int32_t *)mem[mine & 1][0], *out = (int32_t *)mem[mine >> 1 & 1][1];
	bool in_place = mix % 5 == 0, has = coll != REDUCE || job->rank == 1;
	size_t counts[MOST_RANKS] = {0}, length = 0, off = 0, own = count;
	struct tutti_request *req = NULL;
	struct tutti_stats a = {.size = sizeof(a)}, b = {.size = sizeof(b)};
	const void *from = in;
	int j;

	if (in_place && has) {
		in = out;
		from = TUTTI_IN_PLACE;
	}
	for (j = 0; j < job->n; j++) {
		counts[j] = block_of((mix + (unsigned)count) % 3, coll, count, job->n, j);
		length += counts[j];
	}
	if (coll == SCATTER_BLOCK || coll == SCATTER) {
		own = counts[job->rank];
		for (j = 0; j < job->rank; j++)
			off += counts[j];
	}
	for (i = 0; i < length; i++)
		in[i] = (int32_t)(i * 7 + (size_t)job->rank + mix);
	MP_OK(tutti_stats_get(job->ctx, &a));
	TT_EXPECT(!begin(job, coll, mine & 4, from, has ? out : NULL, count, counts, &req));
	MP_OK(tutti_wait(&req));
	MP_OK(tutti_stats_get(job->ctx, &b));
	if (!mix && coll == SCATTER && own == count && !off) /* put into the ring, and no more */
		TT_EXPECT(b.copied_bytes - a.copied_bytes == (length - own) * sizeof(*in));
	if (!mix && coll == SCAN && n == 2 && !job->rank) /* short ones are copied into the slot */
		TT_EXPECT(b.copied_bytes - a.copied_bytes <=
			  (length <= 8192 ? length : length / 2 + 32) * sizeof(*in));
	if (coll == SCAN || coll == EXSCAN)
		of = (size_t)job->rank + (coll == SCAN);
	for (i = 0; has && of && i < own; i++)
		TT_EXPECT(out[i] == (int32_t)(of * ((i + off) * 7 + mix) + of * (of - 1) / 2));
	return 0;
}

/*
 * Rings meet memory that is mapped, and memory that has no ring; short ones, and such as go around
 * often.
 */
static int mixed_memory(struct mp_job *job)
{
	static const size_t counts[] = {1, 33, 3000, 8192, 70001, 262144, 262147, 1500000};
	size_t most = (size_t)job->n * 1500000 * 4;
	uint64_t seed = 42;
	char *mem[2][2];
	int k;

	for (k = 0; k < 2; k++) {
		mem[0][k] = malloc(most);
		MP_OK(tutti_alloc(job->ctx, most, (void **)&mem[1][k]));
	}
	for (k = 0; k < 24 * COLLS; k++)
		TT_EXPECT(!mixed_call(job, k < 8 * COLLS ? 0 : (unsigned)(tt_random(&seed) >> 40),
				      k / 8 % COLLS, counts[k % 8], mem));
	for (k = 0; k < 2; k++) {
		free(mem[0][k]);
		MP_OK(tutti_free(mem[1][k]));
	}
	return 0;
}

static void meet(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .fn = mixed_memory, .env = PULLS));
	TT_CHECK(!MP_RUN(.n = 2, .fn = mixed_memory, .env = PULLS " TUTTI_WAIT=sleep"));
	TT_CHECK(!MP_RUN(.n = 2, .fn = mixed_memory, .env = PULLS " TUTTI_PROGRESS=thread"));
}

#define POOL 27u /* mix: all vectors of two ranks in the pool */
#define TRIAL 8	 /* calls before the first trial, and in it: lib/node/trials.c */

/* Calls of which the first leave results as they are, and those of a trial do not. */
static int trial(struct mp_job *job, int coll, size_t count, char *mem[2][2])
{
	bool rings = coll == ALLREDUCE && count >= 262144 && tt_hands_back();
	struct tutti_stats s = {.size = sizeof(s)};
	uint64_t copied = 0;
	unsigned k;

	for (k = 0; k <= 2 * TRIAL; k++) {
		MP_OK(tutti_stats_get(job->ctx, &s));
		if (k == TRIAL && coll == ALLREDUCE)
			TT_EXPECT(s.copied_bytes == copied);
		if (k == 2 * TRIAL && coll == ALLREDUCE)
			TT_EXPECT(rings ? s.copied_bytes - copied >
						  (TRIAL - 1) * count * sizeof(int32_t)
					: s.copied_bytes == copied);
		if (!k)
			copied = s.copied_bytes;
		TT_EXPECT(!mixed_call(job, POOL + 64 * k, coll, count, mem));
	}
	return 0;
}

static int mapped_memory(struct mp_job *job)
{
	static const size_t counts[] = {16384, 262144, 1000001};
	char *mem[2][2] = {{NULL, NULL}, {NULL, NULL}};
	int k;

	for (k = 0; k < 2; k++)
		MP_OK(tutti_alloc(job->ctx, (size_t)8000008, (void **)&mem[1][k]));
	for (k = 0; k < 3 * COLLS; k++)
		if (k / 3 != SCATTER && k / 3 != EXSCAN)
			TT_EXPECT(!trial(job, k / 3, counts[k % 3], mem));
	for (k = 0; k < 2; k++)
		MP_OK(tutti_free(mem[1][k]));
	return 0;
}

static void mapped(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = mapped_memory, .env = PULLS));
	TT_CHECK(!MP_RUN(.n = 2, .fn = mapped_memory, .env = PULLS " TUTTI_WAIT=sleep"));
}

/* ---- ended in the middle ---- */

#define LONG ((size_t)1500000)
#define SHORT ((size_t)100000) /* without a request, with rings in the pool */
#define VECTOR (LONG * sizeof(int32_t))

static int call_long(const struct mp_job *job, struct tutti_comm *comm, int kind, char *v)
{
	(void)job;
	(void)kind;
	return tutti_allreduce(v, v + VECTOR, LONG, TUTTI_INT32, TUTTI_SUM, comm);
}

static int call_short(const struct mp_job *job, struct tutti_comm *comm, int kind, char *v)
{
	(void)job;
	(void)kind;
	return tutti_allreduce(v, v + VECTOR, SHORT, TUTTI_INT32, TUTTI_SUM, comm);
}

static int begin_long(const struct mp_job *job, char *v, struct tutti_request **req)
{
	return tutti_iallreduce(v, v + VECTOR, LONG, TUTTI_INT32, TUTTI_SUM, job->world, req);
}

static const struct torn long_calls = {.call = call_long,
				       .begin = begin_long,
				       .bytes = VECTOR,
				       .block = (size_t)256 << 10,
				       .blocks = 48,
				       .rounds = 8};

static void torn(void)
{
	struct torn t = long_calls;

	TT_CHECK(!MP_RUN(.n = 3, .fn = torn_late, .arg = &t, .env = PULLS " TUTTI_TIMEOUT=400"));
	TT_CHECK(!MP_RUN(.n = 3, .fn = torn_revoked, .arg = &t, .env = PULLS));
	TT_CHECK(!MP_RUN(.n = 3, .fn = torn_revoked, .arg = &t,
			 .env = PULLS " TUTTI_PROGRESS=thread"));
	for (t.us = 1000; t.us < 9000; t.us += 2300)
		TT_CHECK(!MP_RUN(.n = 3, .fn = torn_killed, .arg = &t, .env = PULLS,
				 .killed = 1u << 1));
}

/* The same, of two ranks also straight between their vectors. */
static void torn_short(void)
{
	struct torn t = long_calls;
	int n;

	t.call = call_short;
	for (n = 2; n <= 3; n++) {
		TT_CHECK(!MP_RUN(.n = n, .fn = torn_revoked, .arg = &t, .env = PULLS));
		for (t.us = 1000; t.us < 9000; t.us += 2300)
			TT_CHECK(!MP_RUN(.n = n, .fn = torn_killed, .arg = &t, .env = PULLS,
					 .killed = 1u << 1));
	}
}

/* ---- the pool has its memory back ---- */

#define LIMIT ((size_t)16 << 20)

/* Some calls go on as requests, as a rank comes late. The rings of all are more than the pool. */
static int returned_body(struct mp_job *job)
{
	int32_t *v = calloc(SHORT, sizeof(*v));
	struct tutti_stats a = {.size = sizeof(a)}, b = {.size = sizeof(b)};
	size_t ring = SHORT * sizeof(*v) * (size_t)(job->n - 1) / (size_t)job->n;
	void *rest;
	int k;

	TT_EXPECT(v);
	MP_OK(tutti_stats_get(job->ctx, &a));
	for (k = 0; k < 150; k++) {
		if (k % 3 == 1 && job->rank == k / 3 % job->n)
			mp_sleep_ms(2);
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, v, SHORT, TUTTI_INT32, TUTTI_SUM,
				      job->world));
	}
	MP_OK(tutti_stats_get(job->ctx, &b));
	TT_EXPECT(b.copied_bytes - a.copied_bytes >= 150 * ring && 150 * ring > 2 * LIMIT);
	MP_OK(tutti_alloc(job->ctx, LIMIT / 4 * 3, &rest));
	MP_OK(tutti_free(rest));
	free(v);
	return 0;
}

static void returned(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .fn = returned_body, .env = PULLS " TUTTI_POOL_LIMIT=16M"));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"meet", meet},	       {"mapped", mapped},
					       {"torn", torn},	       {"torn_short", torn_short},
					       {"returned", returned}, {NULL, NULL}};

	return tt_test_main("rings", tests, argc, argv);
}
