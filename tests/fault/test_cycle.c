/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tutti_init and tutti_finalize again and again in one process: descriptors, threads and memory
 * stay as they were. TT_CYCLES: how often; make soak runs it under valgrind.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <malloc.h>
#include <stdio.h>

#define FEW 40

/* A whole job, with messages, pool memory and a communicator. */
static int one_cycle(struct mp_job *job)
{
	struct tutti_config config = {0};
	struct tutti_comm *comm;
	int32_t *v;
	int i;

	MP_OK(mp_join(job, MP_GATHER, &config));
	MP_OK(tutti_comm_dup(job->world, &comm));
	MP_OK(tutti_alloc(job->ctx, 5000 * 4, (void **)&v));
	for (i = 0; i < 5000; i++)
		v[i] = i + job->rank;
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, v, 5000, TUTTI_INT32, TUTTI_SUM, comm));
	for (i = 0; i < 5000; i++)
		TT_EXPECT(v[i] == i * job->n + job->n * (job->n - 1) / 2);
	MP_OK(tutti_free(v));
	MP_OK(tutti_comm_free(comm));
	MP_OK(tutti_finalize(job->ctx));
	job->ctx = NULL;
	return 0;
}

static int cycle_body(struct mp_job *job)
{
	int i, n = tt_times("TT_CYCLES", FEW), fds = 0;
	long heap = 0, resident = 0;
	double begin = mp_now();

	for (i = 0; i < n; i++) {
		TT_EXPECT(!one_cycle(job));
		if (i == n / 4) {
			heap = (long)mallinfo2().uordblks;
			resident = tt_resident();
			fds = tt_open_fds();
		}
	}
	heap = (long)mallinfo2().uordblks - heap;
	resident = tt_resident() - resident;
	printf("  rank %d of %d: %d cycles, %.1f ms each; in the last %d of them %ld bytes of "
	       "heap, %ld KiB of "
	       "memory, %d descriptors more\n",
	       job->rank, job->n, n, (mp_now() - begin) * 1e3 / n, n - n / 4 - 1, heap,
	       resident / 1024, tt_open_fds() - fds);
	fflush(stdout);
	TT_EXPECT(tt_open_fds() <= fds);
	TT_EXPECT(mp_sanitized() || heap < 65536); /* valgrind sees every byte, in the soak */
	TT_EXPECT(mp_sanitized() || resident < 4l << 20);
	return 0;
}

static void cycles(int n, const char *env)
{
	TT_CHECK(!MP_RUN(.n = n, .env = env, .fn = cycle_body, .no_init = true,
			 .timeout_ms = 20000 + 1000 * tt_times("TT_CYCLES", FEW)));
}

static void solo(void)
{
	cycles(1, "TUTTI_IF=lo");
}

static void node(void)
{
	cycles(2, "TUTTI_IF=lo TUTTI_NODE=on");
}

static void shm(void)
{
	cycles(2, "TUTTI_IF=lo TUTTI_TRANSPORT=shm");
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"solo", solo}, {"node", node}, {"shm", shm}, {NULL, NULL}};

	return tt_test_main("cycle", tests, argc, argv);
}
