/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tutti_call: every collective in every form against the oracle and with the bits of the plain
 * call; each wrong field is refused by name.
 */
#include "config.h"

#include "tests/mp/coll/colls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int each(struct mp_job *job)
{
	static const enum tutti_datatype types[] = {TUTTI_FLOAT32, TUTTI_INT64};
	int kind, form, in_place, i, shape = 0;

	for (kind = 0; kind < C_KINDS; kind++)
		for (form = 0; form < F_FORMS; form++)
			for (in_place = 0; in_place < 2; in_place++)
				for (i = 0; i < 2; i++) {
					struct coll c = {.kind = (enum colls_kind)kind,
							 .type = types[i],
							 .op = TUTTI_SUM,
							 .base_op = TUTTI_SUM,
							 .root = shape++ % job->n,
							 .count = i ? 1000 : 7,
							 .in_place = in_place && kind != C_BCAST,
							 .displs = i,
							 .by_struct = true};

					if (colls_rooted(c.kind) && job->rank != c.root)
						c.in_place = false;
					TT_EXPECT(!colls_once(job, &c, (enum colls_form)form));
				}
	return 0;
}

/* The plain call and the struct on different ranks are one collective, with the same bits. */
static int mixed(struct mp_job *job)
{
	float in[300], plain[300], out[300];
	struct tutti_call call = {.size = sizeof(call),
				  .coll = TUTTI_COLL_ALLREDUCE,
				  .sendbuf = in,
				  .recvbuf = out,
				  .count = 300,
				  .datatype = TUTTI_FLOAT32,
				  .op = TUTTI_AVG};
	struct tutti_call barrier = {.size = sizeof(barrier), .coll = TUTTI_COLL_BARRIER};
	struct tutti_request *req = NULL;
	int i;

	for (i = 0; i < 300; i++)
		in[i] = 1.0f / (float)(i + 3 * job->rank + 1);
	MP_OK(tutti_allreduce(in, plain, 300, TUTTI_FLOAT32, TUTTI_AVG, job->world));
	MP_OK(tutti_call(job->world, &call, NULL));
	TT_EXPECT(!memcmp(plain, out, sizeof(out)));
	memset(out, 0, sizeof(out));
	if (job->rank)
		MP_OK(tutti_call(job->world, &call, NULL));
	else
		MP_OK(tutti_allreduce(in, out, 300, TUTTI_FLOAT32, TUTTI_AVG, job->world));
	TT_EXPECT(!memcmp(plain, out, sizeof(out)));
	MP_OK(job->rank ? tutti_call(job->world, &barrier, NULL) : tutti_barrier(job->world));
	barrier.flags = TUTTI_CALL_PERSISTENT;
	MP_OK(tutti_call(job->world, &barrier, &req));
	for (i = 0; i < 3; i++) {
		MP_OK(tutti_start(req));
		MP_OK(tutti_wait(&req));
	}
	MP_OK(tutti_request_free(req));
	return 0;
}

/* Polled calls have the results of blocking ones of other ranks, also where a rank is late. */
static int polled(struct mp_job *job)
{
	size_t sizes[] = {1, 300, 5000, 400000}, i, k;
	float *in = malloc(400000 * sizeof(*in)), *out = malloc(400000 * sizeof(*out));
	int times, done;

	TT_EXPECT(in && out);
	for (i = 0; i < 400000; i++)
		in[i] = (float)(i % 1000 + (size_t)job->rank);
	for (times = 0; times < 20; times++)
		for (i = 0; i < 4; i++) {
			struct tutti_call call = {.size = sizeof(call),
						  .coll = TUTTI_COLL_ALLREDUCE,
						  .flags = TUTTI_CALL_POLL,
						  .sendbuf = in,
						  .recvbuf = out,
						  .count = sizes[i],
						  .timeout_ms = times % 5 == 4 ? 60000 : 0,
						  .datatype = TUTTI_FLOAT32};
			struct tutti_request *req = (void *)job;

			if (times % 3 == 2 && job->rank == job->n - 1) {
				usleep(2000);
				MP_OK(tutti_allreduce(in, out, sizes[i], TUTTI_FLOAT32, TUTTI_SUM,
						      job->world));
				req = NULL;
			} else {
				MP_OK(tutti_call(job->world, &call, &req));
			}
			for (done = !req; !done;)
				MP_OK(tutti_test(&req, &done));
			TT_EXPECT(!req);
			for (k = 0; k < sizes[i]; k++)
				TT_EXPECT(out[k] == (float)(k % 1000) * (float)job->n +
							    (float)(job->n * (job->n - 1) / 2));
		}
	free(in);
	free(out);
	return 0;
}

/* A struct with one field changed. */
#define WRONG(word, ...)                                                                           \
	do {                                                                                       \
		struct tutti_call c = call;                                                        \
                                                                                                   \
		__VA_ARGS__;                                                                       \
		MP_ERR(tutti_call(job->world, &c, &req), -EINVAL);                                 \
		MP_SAID(word);                                                                     \
		TT_EXPECT(req == (void *)job);                                                     \
	} while (0)

static int refused(struct mp_job *job)
{
	struct {
		struct tutti_call call;
		uint64_t later;
	} longer;
	float in[4] = {1}, out[4];
	size_t counts[8] = {0};
	struct tutti_call call = {.size = sizeof(call),
				  .coll = TUTTI_COLL_ALLREDUCE,
				  .sendbuf = in,
				  .recvbuf = out,
				  .count = 4,
				  .datatype = TUTTI_FLOAT32};
	struct tutti_request *req = (void *)job;

	MP_ERR(tutti_call(job->world, NULL, NULL), -EINVAL);
	MP_SAID("call is NULL");
	MP_ERR(tutti_call(NULL, &call, NULL), -EINVAL);
	WRONG("call.size is 0", c.size = 0);
	WRONG("call.size is 16", c.size = 16);
	WRONG("call.size is", c.size = SIZE_MAX);
	WRONG("coll: 0", c.coll = (enum tutti_coll)0);
	WRONG("coll: 17", c.coll = (enum tutti_coll)17);
	WRONG("flags: 0x4", c.flags = 5);
	WRONG("sendcounts is not 0, but allreduce", c.sendcounts = counts);
	WRONG("senddispls", c.senddispls = counts);
	WRONG("recvcounts", c.recvcounts = counts);
	WRONG("recvdispls", c.recvdispls = counts);
	WRONG("root is not 0", c.root = 1);
	WRONG("sendbuf is not 0, but bcast", c.coll = TUTTI_COLL_BCAST);
	WRONG("op is not 0, but alltoall", c.coll = TUTTI_COLL_ALLTOALL; c.op = TUTTI_MAX);
	WRONG("count is not 0, but alltoallv", c.coll = TUTTI_COLL_ALLTOALLV);
	WRONG("recvbuf is not 0, but barrier", c.coll = TUTTI_COLL_BARRIER; c.sendbuf = NULL);
	WRONG("timeout_ms is -2", c.timeout_ms = -2);
	WRONG("quorum", c.quorum = 2);
	WRONG("cutoff_ms", c.cutoff_ms = 2);
	WRONG("pad", c.pad = 2);
	WRONG("feedback is not NULL, but codec is", c.feedback = (void *)out);
	WRONG("feedback is not 0, but bcast", c.coll = TUTTI_COLL_BCAST; c.sendbuf = NULL;
	      c.op = TUTTI_SUM; c.feedback = (void *)out);
	/* as the plain call */
	WRONG("allreduce: 77 is not a datatype", c.datatype = (enum tutti_datatype)77);
	WRONG("operator", c.op = (enum tutti_op)99);
	WRONG("recvbuf is NULL", c.recvbuf = NULL);
	WRONG("root 9", c.coll = TUTTI_COLL_REDUCE; c.root = 9);
	WRONG("does not go with", c.flags = TUTTI_CALL_PERSISTENT | TUTTI_CALL_POLL);
	call.flags = TUTTI_CALL_PERSISTENT;
	MP_ERR(tutti_call(job->world, &call, NULL), -EINVAL);
	MP_SAID("request is NULL");
	call.flags = TUTTI_CALL_POLL;
	MP_ERR(tutti_call(job->world, &call, NULL), -EINVAL);
	MP_SAID("request is NULL, but flags has TUTTI_CALL_POLL");
	call.flags = 0;
	/* of a later version */
	memset(&longer, 0, sizeof(longer));
	longer.call = call;
	longer.call.size = sizeof(longer);
	MP_OK(tutti_call(job->world, &longer.call, NULL));
	TT_EXPECT(out[0] == (float)job->n);
	longer.later = 1;
	MP_ERR(tutti_call(job->world, &longer.call, NULL), -EINVAL);
	MP_SAID("leave fields of later versions 0");
	return 0;
}

static void all_on(const char *env)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = each));
	TT_CHECK(!MP_RUN(.n = 2, .env = env, .fn = mixed));
	TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = polled));
}

static void self(void)
{
	TT_CHECK(!MP_RUN(.n = 1, .fn = each));
	TT_CHECK(!MP_RUN(.n = 1, .fn = mixed));
	TT_CHECK(!MP_RUN(.n = 1, .fn = polled));
}

static void node(void)
{
	all_on("");
}

static void shm(void)
{
	all_on("TUTTI_TRANSPORT=shm");
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	all_on("TUTTI_TRANSPORT=ofi TUTTI_IF=lo");
}

static void wrong(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = refused));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"self", self}, {"node", node},	  {"shm", shm},
		{"ofi", ofi},	{"wrong", wrong}, {NULL, NULL},
	};

	return tt_test_main("call", tests, argc, argv);
}
