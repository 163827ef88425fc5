/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives called wrongly: arguments that are refused before anything is sent, and counts on
 * which ranks disagree: an error on every rank that names both, with nothing overwritten.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <stdio.h>

#define N TUTTI_FLOAT32

/* ---- refused at once ---- */

static int bad_roots(struct mp_job *job)
{
	struct tutti_comm *w = job->world;
	float a[64] = {0}, b[64];
	size_t counts[8] = {4, 4, 4, 4, 4, 4, 4, 4};
	int other = (job->rank + 1) % job->n;

	MP_ERR(tutti_reduce(a, b, 4, N, TUTTI_SUM, -1, w), -EINVAL);
	MP_SAID("root -1");
	MP_ERR(tutti_reduce(a, b, 4, N, TUTTI_SUM, job->n, w), -EINVAL);
	MP_SAID("reduce: root");
	MP_ERR(tutti_gather(a, b, 4, N, job->n, w), -EINVAL);
	MP_ERR(tutti_gatherv(a, 4, b, counts, NULL, N, 99, w), -EINVAL);
	MP_SAID("root 99");
	MP_ERR(tutti_scatter(a, b, 4, N, -7, w), -EINVAL);
	MP_ERR(tutti_scatterv(a, counts, NULL, b, 4, N, job->n, w), -EINVAL);
	MP_SAID("scatterv: root");
	/* in place is for the root */
	MP_ERR(tutti_reduce(TUTTI_IN_PLACE, b, 4, N, TUTTI_SUM, other, w), -EINVAL);
	MP_SAID("only the root");
	MP_ERR(tutti_gather(TUTTI_IN_PLACE, b, 4, N, other, w), -EINVAL);
	MP_ERR(tutti_scatter(a, TUTTI_IN_PLACE, 4, N, other, w), -EINVAL);
	MP_SAID("recvbuf is TUTTI_IN_PLACE, which only the root may pass, as recvbuf");
	/* and of its other buffer */
	MP_ERR(tutti_gather(a, TUTTI_IN_PLACE, 4, N, job->rank, w), -EINVAL);
	MP_SAID("recvbuf is TUTTI_IN_PLACE, which only the root may pass, as sendbuf");
	return 0;
}

static int bad_buffers(struct mp_job *job)
{
	struct tutti_comm *w = job->world;
	struct tutti_request *req = (void *)job;
	float a[64] = {0}, b[64];

	MP_ERR(tutti_reduce(NULL, b, 4, N, TUTTI_SUM, 0, w), -EINVAL);
	MP_SAID("sendbuf is NULL");
	MP_ERR(tutti_reduce(a, NULL, 4, N, TUTTI_SUM, job->rank, w), -EINVAL);
	MP_SAID("recvbuf is NULL");
	MP_ERR(tutti_allgather(a, NULL, 4, N, w), -EINVAL);
	MP_ERR(tutti_allgather(a, TUTTI_IN_PLACE, 4, N, w), -EINVAL);
	MP_ERR(tutti_alltoall(NULL, b, 4, N, w), -EINVAL);
	MP_ERR(tutti_scatter(NULL, b, 4, N, job->rank, w), -EINVAL);
	MP_ERR(tutti_scan(a, NULL, 4, N, TUTTI_SUM, w), -EINVAL);
	MP_ERR(tutti_exscan(NULL, b, 4, N, TUTTI_SUM, w), -EINVAL);
	/* overlaps, as long as the buffers of this call are */
	MP_ERR(tutti_allgather(a + 1, a, 4, N, w), -EINVAL);
	MP_SAID("overlap");
	MP_ERR(tutti_reduce_scatter_block(a, a + 4 * job->n - 1, 4, N, TUTTI_SUM, w), -EINVAL);
	MP_SAID("overlap");
	MP_ERR(tutti_gather(a + 4 * job->n - 1, a, 4, N, job->rank, w), -EINVAL);
	MP_ERR(tutti_alltoall(a, a + 2, 4, N, w), -EINVAL);
	MP_ERR(tutti_scan(a, a + 3, 4, N, TUTTI_SUM, w), -EINVAL);
	/* more than there can be */
	MP_ERR(tutti_allgather(a, b, (size_t)PTRDIFF_MAX / 4 / (size_t)job->n + 1, N, w), -EINVAL);
	MP_SAID("for each rank");
	MP_ERR(tutti_alltoall(a, b, SIZE_MAX / 2, N, w), -EINVAL);
	MP_ERR(tutti_reduce(a, b, SIZE_MAX, N, TUTTI_SUM, 0, w), -EINVAL);
	MP_ERR(tutti_gather(a, b, 4, (enum tutti_datatype)77, 0, w), -EINVAL);
	MP_SAID("77");
	MP_ERR(tutti_iallgather(a, b, 4, N, w, NULL), -EINVAL);
	MP_ERR(tutti_ialltoall(a, a + 1, 4, N, w, &req), -EINVAL);
	MP_ERR(tutti_scan_init(a, b, 4, N, TUTTI_AVG, w, &req), -EINVAL);
	MP_SAID("avg");
	MP_ERR(tutti_reduce_init(a, b, 4, N, TUTTI_BAND, 0, w, &req), -EINVAL);
	MP_ERR(tutti_alltoall(a, b, 4, N, NULL), -EINVAL);
	TT_EXPECT(req == (void *)job);
	return 0;
}

/* A displacement that leads far out of the pool's memory; the error says whose. */
static int far_block(struct mp_job *job)
{
	size_t four[8] = {4, 4, 4, 4, 4, 4, 4, 4}, far[8] = {0, (size_t)1 << 24, 8, 12, 16, 20};
	float a[64] = {0}, *b;

	MP_OK(tutti_alloc(job->ctx, 4096, (void **)&b));
	MP_ERR(tutti_allgatherv(a, 4, b, four, far, N, job->world), -EINVAL);
	MP_SAID("rank 1: 4 elements at displacement 16777216");
	MP_OK(tutti_free(b));
	return 0;
}

static int bad_arrays(struct mp_job *job)
{
	struct tutti_comm *w = job->world;
	size_t four[8] = {4, 4, 4, 4, 4, 4, 4, 4}, huge[8] = {4, (size_t)PTRDIFF_MAX / 4, 4, 4};
	size_t meet[8] = {8, 0, 11, 20, 30, 40, 50, 60}, apart[8] = {0, 8, 16, 24, 32, 40, 48, 56};
	float a[64] = {0}, b[64];

	meet[2] = 3; /* rank 1's block is 0 to 4 */
	MP_ERR(tutti_allgatherv(a, 4, b, NULL, NULL, N, w), -EINVAL);
	MP_SAID("recvcounts is NULL");
	MP_ERR(tutti_allgatherv(a, 4, b, four, meet, N, w), -EINVAL);
	MP_SAID("ranks 1 and 2 overlap");
	MP_ERR(tutti_gatherv(a, 4, b, four, meet, N, job->rank, w), -EINVAL);
	MP_SAID("ranks 1 and 2 overlap");
	MP_ERR(tutti_alltoallv(a, four, NULL, b, four, meet, N, w), -EINVAL);
	MP_SAID("ranks 1 and 2 overlap");
	MP_ERR(tutti_alltoallv(a, NULL, NULL, b, four, NULL, N, w), -EINVAL);
	MP_SAID("sendcounts is NULL");
	MP_ERR(tutti_alltoallv(a, four, NULL, b, NULL, NULL, N, w), -EINVAL);
	MP_ERR(tutti_scatterv(a, NULL, NULL, b, 4, N, job->rank, w), -EINVAL);
	MP_ERR(tutti_reduce_scatter(a, b, NULL, N, TUTTI_SUM, w), -EINVAL);
	MP_ERR(tutti_reduce_scatter(a, b, huge, N, TUTTI_SUM, w), -EINVAL);
	MP_SAID("fit");
	MP_ERR(tutti_allgatherv(a, 4, b, huge, NULL, N, w), -EINVAL);
	MP_ERR(tutti_allgatherv(a, 4, b, four, huge, N, w), -EINVAL);
	/* the block to itself */
	MP_ERR(tutti_allgatherv(a, 5, b, four, NULL, N, w), -EINVAL);
	MP_SAID("to itself");
	MP_ERR(tutti_gatherv(a, 5, b, four, NULL, N, job->rank, w), -EINVAL);
	MP_ERR(tutti_scatterv(a, four, NULL, b, 3, N, job->rank, w), -EINVAL);
	MP_SAID("sends 4");
	/* counts whose blocks follow one another, of which each fault has to be seen, too */
	MP_ERR(tutti_allgatherv(a + 4 * job->n - 1, 4, a, four, NULL, N, w), -EINVAL);
	MP_SAID("overlap");
	MP_ERR(tutti_allgatherv(NULL, 4, b, four, NULL, N, w), -EINVAL);
	MP_ERR(tutti_allgatherv(a, 4, TUTTI_IN_PLACE, four, NULL, N, w), -EINVAL);
	MP_ERR(tutti_reduce_scatter(a, a + 4 * job->n - 1, four, N, TUTTI_SUM, w), -EINVAL);
	MP_SAID("overlap");
	MP_ERR(tutti_reduce_scatter(a, NULL, four, N, TUTTI_SUM, w), -EINVAL);
	MP_ERR(tutti_reduce_scatter(a, b, four, N, TUTTI_BAND, w), -EINVAL);
	MP_SAID("band");
	/* blocks of one buffer in the gaps of the other's are fine, if they are really in the gaps
	 */
	MP_ERR(tutti_alltoallv(a, four, apart, a + 3, four, apart, N, w), -EINVAL);
	MP_SAID("overlap");
	MP_OK(tutti_alltoallv(a, four, apart, a + 4, four, apart, N, w));
	return 0;
}

static void twice(const void *a, void *b, size_t count, enum tutti_datatype type, void *arg)
{
	(void)a, (void)b, (void)count, (void)type, (void)arg;
}

static int bad_ops(struct mp_job *job)
{
	struct tutti_comm *w = job->world;
	enum tutti_op op = TUTTI_MAX, copy, premul;
	struct tutti_request *req;
	float a[4] = {1}, one = 1;
	int32_t i = 0;

	MP_ERR(tutti_op_create(job->ctx, NULL, NULL, 1, &op), -EINVAL);
	MP_SAID("fn is NULL");
	TT_EXPECT(op == TUTTI_MAX);
	MP_ERR(tutti_op_create(NULL, twice, NULL, 1, &op), -EINVAL);
	MP_ERR(tutti_op_create(job->ctx, twice, NULL, 1, NULL), -EINVAL);
	MP_ERR(tutti_op_create_premul_sum(job->ctx, NULL, N, &op), -EINVAL);
	MP_SAID("scalar");
	MP_ERR(tutti_op_create_premul_sum(job->ctx, &one, (enum tutti_datatype)55, &op), -EINVAL);
	MP_ERR(tutti_op_free(job->ctx, op), -EINVAL);
	MP_SAID("max");
	MP_ERR(tutti_op_free(job->ctx, TUTTI_OP_LIMIT), -EINVAL);
	MP_ERR(tutti_op_free(NULL, op), -EINVAL);
	MP_OK(tutti_op_create(job->ctx, twice, NULL, 1, &op));
	MP_OK(tutti_op_create_premul_sum(job->ctx, &one, N, &premul));
	MP_ERR(tutti_allreduce(TUTTI_IN_PLACE, &i, 1, TUTTI_INT32, premul, w), -EINVAL);
	MP_SAID("float32, not int32");
	copy = op;
	MP_OK(tutti_allreduce_init(TUTTI_IN_PLACE, a, 4, N, op, w, &req));
	MP_OK(tutti_op_free(job->ctx, op)); /* the request keeps it */
	MP_OK(tutti_start(req));
	MP_OK(tutti_wait(&req));
	MP_OK(tutti_request_free(req));
	MP_ERR(tutti_allreduce(TUTTI_IN_PLACE, a, 4, N, copy, w), -EINVAL);
	MP_SAID("freed");
	MP_ERR(tutti_op_free(job->ctx, copy), -EINVAL);
	MP_ERR(tutti_allreduce(TUTTI_IN_PLACE, a, 4, N, op, w), -EINVAL);
	MP_ERR(tutti_allreduce(TUTTI_IN_PLACE, a, 4, N, copy + 1000, w), -EINVAL);
	MP_SAID("not an operator");
	MP_OK(tutti_op_free(job->ctx, premul));
	MP_OK(tutti_op_create(job->ctx, twice, NULL, 1, &op)); /* left to tutti_finalize */
	return 0;
}

static int bad_body(struct mp_job *job)
{
	int i = 1;

	TT_EXPECT(!bad_roots(job));
	TT_EXPECT(!bad_buffers(job));
	TT_EXPECT(!bad_arrays(job));
	TT_EXPECT(!far_block(job));
	TT_EXPECT(!bad_ops(job));
	/* The calls that were refused do not count. */
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &i, 1, TUTTI_INT32, TUTTI_SUM, job->world));
	TT_EXPECT(i == job->n);
	return 0;
}

static void arguments(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm", .fn = bad_body));
	TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_TRANSPORT=shm", .fn = bad_body));
}

/* An operator of one context in another of the same process. */
static int contexts_body(struct mp_job *job)
{
	struct tutti_context *other;
	struct tutti_config config = {.size = sizeof(config), .nranks = 1};
	struct tutti_unique_id id;
	enum tutti_op op;
	int i = 1;

	MP_OK(tutti_unique_id_get(&id));
	config.id = &id;
	MP_OK(tutti_init(&config, &other));
	MP_OK(tutti_op_create(other, twice, NULL, 1, &op));
	MP_ERR(tutti_allreduce(TUTTI_IN_PLACE, &i, 1, TUTTI_INT32, op, job->world), -EINVAL);
	MP_SAID("another context");
	MP_OK(tutti_finalize(other));
	return 0;
}

static void contexts(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm", .fn = contexts_body));
}

/* ---- ranks that disagree ---- */

enum which { GATHERV, SCATTERV, ALLTOALLV, REDUCE_SCATTER, ALLGATHERV, OP, WHICH };

struct differ {
	enum which which;
	size_t agreed, wrong; /* elements of the block between ranks 1 and 2, by its receiver and
				 its sender */
};

#define JUNK 0x5b

static int call_differ(struct mp_job *job, const struct differ *d, char *in, char *out,
		       size_t *counts, size_t *other)
{
	struct tutti_comm *w = job->world;
	bool sender = job->rank == 1, receiver = job->rank == 2;
	enum tutti_op op;
	int i, err;

	for (i = 0; i < job->n; i++)
		counts[i] = other[i] = d->agreed;
	switch (d->which) {
	case GATHERV:
		return tutti_gatherv(in, sender ? d->wrong : d->agreed, out, counts, NULL,
				     TUTTI_UINT8, 2, w);
	case SCATTERV:
		counts[2] = d->wrong;
		return tutti_scatterv(in, counts, NULL, out, d->agreed, TUTTI_UINT8, 1, w);
	case ALLTOALLV:
		counts[2] = sender ? d->wrong : d->agreed;
		return tutti_alltoallv(in, counts, NULL, out, other, NULL, TUTTI_UINT8, w);
	case REDUCE_SCATTER:
		counts[0] += sender;
		return tutti_reduce_scatter(in, out, counts, TUTTI_UINT8, TUTTI_SUM, w);
	case ALLGATHERV:
		counts[0] += sender;
		return tutti_allgatherv(in, d->agreed, out, counts, NULL, TUTTI_UINT8, w);
	default:
		MP_OK(tutti_op_create(job->ctx, twice, NULL, !receiver, &op));
		err = tutti_allreduce(in, out, d->agreed, TUTTI_UINT8, op, w);
		return err;
	}
}

static int differ_body(struct mp_job *job)
{
	const struct differ *d = job->arg;
	struct tutti_error_info info = {.size = sizeof(info)};
	size_t most = (d->agreed > d->wrong ? d->agreed : d->wrong) + 1,
	       room = most * (size_t)job->n;
	size_t i, counts[8], other[8], at;
	char *in = calloc(room, 1), *out = malloc(room);
	double t0 = mp_now();
	int err;

	memset(out, JUNK, room);
	MP_OK(tutti_barrier(job->world));
	mp_meet(job); /* no rank is in the barrier any more when the first fails */
	err = call_differ(job, d, in, out, counts, other);
	/* it may have done its part before the verdict came: a later call tells */
	while (!err && mp_now() - t0 < MP_HANG_MS * 1e-3) {
		mp_sleep_ms(10);
		err = tutti_barrier(job->world);
	}
	MP_ERR(err, -TUTTI_EMISMATCH);
	MP_OK(tutti_comm_error(job->world, &info));
	TT_EXPECT(!strcmp(info.field, d->which == OP ? "op" : "counts") && info.sequence == 2);
	TT_EXPECT(strstr(info.text, "rank 1") || d->which == OP);
	if (d->which <= ALLTOALLV) {
		TT_EXPECT(strstr(info.text, "rank 2") && strstr(info.text, "rank 1 sends"));
		at = d->which == SCATTERV ? 0 : d->agreed; /* where rank 2 expects rank 1's block */
		for (i = at; job->rank == 2 && i < at + d->agreed; i++)
			TT_EXPECT(out[i] == JUNK);
		for (i = d->agreed * (size_t)job->n; i < room; i++)
			TT_EXPECT(out[i] == JUNK);
	}
	free(in);
	free(out);
	return 0;
}

static void differ_on(const char *env)
{
	/*
	 * Eager and eager, eager and offer both ways, offer and offer, none and some both ways; and
	 * blocks whose first messages have one length if chunks are of 4 KiB.
	 */
	static const size_t sizes[][2] = {
		{100, 90}, {90, 100},	{100, 300000}, {300000, 100}, {2000000, 1900000}, {0, 50},
		{50, 0},   {0, 300000}, {300000, 0},   {8192, 4096},  {4096, 8192}};
	struct differ d;
	int which;
	size_t i;

	for (which = 0; which < WHICH; which++)
		for (i = 0; i < (which <= ALLTOALLV ? sizeof(sizes) / sizeof(sizes[0]) : 1); i++) {
			if (mp_sanitized() && which <= ALLTOALLV && (i + (size_t)which) % 3)
				continue;
			d = (struct differ){which, sizes[i][0], sizes[i][1]};
			if (MP_RUN(.n = 4, .env = env, .fn = differ_body, .arg = &d)) {
				fprintf(stderr, "case %d of %d\n", (int)i, which);
				TT_CHECK(false);
			}
		}
}

static void differ_shm(void)
{
	differ_on("TUTTI_TRANSPORT=shm TUTTI_CHUNK=4096");
}

static void differ_ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	differ_on("TUTTI_TRANSPORT=ofi");
}

static void differ_thread(void)
{
	differ_on("TUTTI_TRANSPORT=fault:shm TUTTI_FAULT=seed=5,delay=0.2,reorder=0.3 "
		  "TUTTI_PROGRESS=thread");
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"arguments", arguments},	  {"contexts", contexts},
		{"differ_shm", differ_shm},	  {"differ_ofi", differ_ofi},
		{"differ_thread", differ_thread}, {NULL, NULL},
	};

	return tt_test_main("args", tests, argc, argv);
}
