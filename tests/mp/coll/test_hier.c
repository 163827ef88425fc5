/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives in two levels on simulated hosts: no unnecessary copies, the same bits on all ranks
 * for any assignment of ranks to hosts, and ranks that die, are late or call something else.
 * test_colls.c has their results.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define COUNT 300000 /* float32 */
#define HOSTS "TUTTI_HOST_ID=h%h "
#define NUMA "TUTTI_NUMA=%h " /* one host, of two nodes */

static int stats_of(struct mp_job *job, struct tutti_stats *s)
{
	*s = (struct tutti_stats){.size = sizeof(*s)};
	MP_OK(tutti_stats_get(job->ctx, s));
	return 0;
}

/*
 * Two hosts with two ranks: half of the vector is combined, of two ranks, then sent, and stored in
 * the other's.
 */
static int counted(struct mp_job *job)
{
	size_t bytes = COUNT * 4, i;
	struct tutti_stats a, b;
	float *in, *out;

	MP_OK(tutti_alloc(job->ctx, bytes, (void **)&in));
	MP_OK(tutti_alloc(job->ctx, bytes, (void **)&out));
	for (i = 0; i < COUNT; i++)
		in[i] = (float)(job->rank + 1);
	MP_OK(tutti_allreduce(in, out, COUNT, TUTTI_FLOAT32, TUTTI_SUM, job->world));
	TT_EXPECT(!stats_of(job, &a));
	MP_OK(tutti_allreduce(in, out, COUNT, TUTTI_FLOAT32, TUTTI_SUM, job->world));
	TT_EXPECT(!stats_of(job, &b));
	for (i = 0; i < COUNT; i++)
		TT_EXPECT(out[i] == 10);
	TT_EXPECT(b.copied_bytes - a.copied_bytes < 4096);
	TT_EXPECT(b.pulled_bytes - a.pulled_bytes >= bytes - 256);
	TT_EXPECT(b.pulled_bytes - a.pulled_bytes <= bytes + 256);
	TT_EXPECT(b.put_bytes - a.put_bytes >= bytes / 2 - 256);
	TT_EXPECT(b.put_bytes - a.put_bytes <= bytes / 2 + 4096);
	MP_OK(tutti_free(in));
	MP_OK(tutti_free(out));
	return 0;
}

static void counters(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 4, .fn = counted, .env = HOSTS "TUTTI_ALGO=allreduce:hier_ring"));
}

/*
 * Areas that this rank has made, with pages of ranks that are to be on node 0, and behind them
 * pages of others; -1: the kernel doesn't say. An area whose end is to be there, too, counts as
 * two.
 */
static int placed(void)
{
	FILE *f = fopen("/proc/self/numa_maps", "r");
	bool area, here, before = false;
	char line[1024];
	int n = 0;

	while (f && fgets(line, sizeof(line), f)) {
		area = strstr(line, "memfd:tutti-area");
		here = area && strstr(line, " prefer:0 ");
		n += here + (before && !area);
		before = here;
	}
	if (f)
		fclose(f);
	return f ? n : -1;
}

/*
 * The same on two NUMA nodes of one host: data to the other node travels as messages, and each
 * node has an area.
 */
static int numa_counted(struct mp_job *job)
{
	int areas = placed();

	TT_EXPECT(
		areas < 0 ||
		areas == !job->rank); /* the area of all ranks; that of a node has only its ranks */
	return counted(job);
}

/* Binds this process and its children to one processor, the same in all ranks. */
static int one_cpu(void)
{
	cpu_set_t may, one;
	int i = 0;

	if (sched_getaffinity(0, sizeof(may), &may))
		return 1;
	while (!CPU_ISSET(i, &may))
		i++;
	CPU_ZERO(&one);
	CPU_SET(i, &one);
	return sched_setaffinity(0, sizeof(one), &one);
}

/*
 * The chooser decides: on one processor two levels are worth it, but for a model that knows of no
 * nodes.
 */
static int numa_chosen(struct mp_job *job)
{
	struct tutti_config config = {0};

	TT_EXPECT(!one_cpu());
	MP_OK(mp_join(job, MP_ID, &config));
	TT_EXPECT(!counted(job));
	MP_OK(mp_leave(job));
	return 0;
}

static void numa(void)
{
	TT_CHECK(!MP_RUN(.n = 4, .fn = numa_counted, .env = NUMA "TUTTI_ALGO=allreduce:hier_ring"));
	TT_CHECK(!MP_RUN(.n = 4, .fn = numa_chosen, .no_init = true,
			 .env = NUMA "TUTTI_TUNE_FILE=none"));
}

/* One, two, three ... ranks on each of the hosts, in turns, and all of them have the same bits. */
static int bits_body(struct mp_job *job)
{
	static const size_t counts[] = {1, 15, 33, 1000, 8192, 20001, COUNT};
	struct tutti_config config = {0};
	float *v, first[2];
	char host[16];
	size_t c, i;

	snprintf(host, sizeof(host), "h%d", job->rank % *(int *)job->arg);
	setenv("TUTTI_HOST_ID", host, 1);
	MP_OK(mp_join(job, MP_ID, &config));
	MP_OK(tutti_alloc(job->ctx, COUNT * 4, (void **)&v));
	for (c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
		for (i = 0; i < counts[c]; i++)
			v[i] = 0.1f * (float)(job->rank * job->rank + 1) + 1e-3f * (float)(i % 7);
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, v, counts[c], TUTTI_FLOAT32, TUTTI_SUM,
				      job->world));
		for (i = 0; i < counts[c]; i += 1 + counts[c] / 2) {
			first[0] = first[1] = v[i];
			MP_OK(tutti_bcast(&first[1], 1, TUTTI_FLOAT32, 0, job->world));
			TT_EXPECT(!memcmp(&first[0], &first[1], 4));
		}
	}
	MP_OK(tutti_free(v));
	MP_OK(mp_leave(job));
	return 0;
}

static void same_bits(void)
{
	int hosts;

	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	for (hosts = 2; hosts <= 3; hosts++)
		TT_CHECK(!MP_RUN(.n = 6, .fn = bits_body, .arg = &hosts, .no_init = true));
	hosts = 2; /* three and two */
	TT_CHECK(!MP_RUN(.n = 5, .fn = bits_body, .arg = &hosts, .no_init = true));
}

/*
 * Unequal blocks, of which each rank decides itself where it wants them: odd ones the last first,
 * 2 and 3 with gaps.
 */
static int own_places(struct mp_job *job, size_t unit, bool in_place)
{
	size_t counts[8], displs[8], at = 0, all = 0, k;
	int i, block, n = job->n, me = job->rank, gap = me / 2 % 2 ? 5 : 0;
	struct tutti_stats a, b;
	int32_t *in, *out;

	for (i = 0; i < n; i++) {
		counts[i] = (size_t)i * unit + (i == 2 ? 0 : 3);
		all += counts[i] + 5;
	}
	for (i = 0; i < n; i++) {
		block = me % 2 ? n - 1 - i : i;
		displs[block] = at + (size_t)gap;
		at = displs[block] + counts[block];
	}
	MP_OK(tutti_alloc(job->ctx, all * 4, (void **)&out));
	memset(out, 0x77, all * 4);
	in = in_place ? out + displs[me] : malloc(counts[me] * 4);
	for (k = 0; k < counts[me]; k++)
		in[k] = me * 1000003 + (int32_t)k;
	TT_EXPECT(!stats_of(job, &a));
	MP_OK(tutti_allgatherv(in_place ? TUTTI_IN_PLACE : in, counts[me], out, counts, displs,
			       TUTTI_INT32, job->world));
	TT_EXPECT(!stats_of(job, &b));
	for (i = 0; i < n; i++) {
		for (k = 0; k < counts[i]; k++)
			TT_EXPECT(out[displs[i] + k] == i * 1000003 + (int32_t)k);
		TT_EXPECT(!gap || out[displs[i] - 1] == 0x77777777);
	}
	if (in_place && !me) /* the blocks are where they belong at once */
		TT_EXPECT(b.copied_bytes - a.copied_bytes < 4096);
	if (!in_place)
		free(in);
	MP_OK(tutti_free(out));
	return 0;
}

static int displs_body(struct mp_job *job)
{
	struct tutti_config config = {0};
	size_t unit;

	setenv("TUTTI_HOST_ID", job->rank == 2 ? "alone" : "together", 1);
	MP_OK(mp_join(job, MP_ID, &config));
	for (unit = 1; unit < 100000; unit *= 30)
		TT_EXPECT(!own_places(job, unit, false) && !own_places(job, unit, true));
	MP_OK(mp_leave(job));
	return 0;
}

static void displs(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 4, .fn = displs_body, .no_init = true,
			 .env = "TUTTI_ALGO=allgatherv:hier_ring TUTTI_CHUNK=16K"));
}

/* ---- failures ---- */

struct bad {
	int rank;
	size_t count;
};

/* A rank is killed while all reduce, over and over. */
static int death_body(struct mp_job *job)
{
	const struct bad *bad = job->arg;
	float *v;
	int i, err;

	MP_OK(tutti_alloc(job->ctx, bad->count * 4, (void **)&v));
	memset(v, 0, bad->count * 4);
	for (i = 0; i < 10 && job->rank == bad->rank;
	     i++) /* it may die before the others have ended the last */
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, v, bad->count, TUTTI_FLOAT32, TUTTI_SUM,
				      job->world));
	if (job->rank == bad->rank)
		kill(getpid(), SIGKILL);
	do
		err = tutti_allreduce(TUTTI_IN_PLACE, v, bad->count, TUTTI_FLOAT32, TUTTI_SUM,
				      job->world);
	while (!err);
	TT_EXPECT(err == -TUTTI_EPEER);
	MP_OK(tutti_free(v));
	mp_leave(job);
	return 0;
}

static void death(void)
{
	static const size_t counts[] = {16, 1000000};
	struct bad bad;
	int i;

	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	for (i = 0; i < 4; i++) {
		bad = (struct bad){i, counts[i % 2]};
		TT_CHECK(!MP_RUN(.n = 4, .env = HOSTS, .fn = death_body, .arg = &bad,
				 .killed = 1u << i));
	}
}

static void numa_death(void)
{
	static const size_t counts[] = {16, 1000000};
	struct bad bad;
	int i;

	for (i = 0; i < 2; i++) {
		bad = (struct bad){1 + i, counts[i]};
		TT_CHECK(!MP_RUN(.n = 4,
				 .env = NUMA
				 "TUTTI_ALGO=allreduce:hier_leader:0-1K;allreduce:hier_ring",
				 .fn = death_body, .arg = &bad, .killed = 1u << bad.rank));
	}
}

/* A rank does not call: the other ranks time out, and their buffers are not written afterwards. */
static int late_body(struct mp_job *job)
{
	const struct bad *bad = job->arg;
	bool late = job->rank == bad->rank;
	float *v;
	size_t i;
	int err;

	MP_OK(tutti_alloc(job->ctx, bad->count * 4, (void **)&v));
	mp_meet(job);
	if (late)
		TT_EXPECT(mp_await(&job->shared->word[0], 3, 20000));
	err = tutti_allreduce(TUTTI_IN_PLACE, v, bad->count, TUTTI_FLOAT32, TUTTI_SUM, job->world);
	TT_EXPECT(late ? err < 0 : err == -ETIMEDOUT);
	for (i = 0; i < bad->count; i++)
		v[i] = 7;
	atomic_fetch_add(&job->shared->word[0], 1);
	TT_EXPECT(mp_await(&job->shared->word[0], 4, 20000));
	for (i = 0; i < bad->count; i++)
		TT_EXPECT(v[i] == 7);
	mp_leave(job);
	return 0;
}

static void late(void)
{
	struct bad bad[] = {{3, COUNT}, {0, 100}};
	int i;

	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	for (i = 0; i < 2; i++)
		TT_CHECK(!MP_RUN(.n = 4, .env = HOSTS "TUTTI_TIMEOUT=1500", .fn = late_body,
				 .arg = &bad[i]));
	TT_CHECK(!MP_RUN(.n = 4, .env = NUMA "TUTTI_ALGO=allreduce:hier_ring TUTTI_TIMEOUT=1500",
			 .fn = late_body, .arg = &bad[0]));
}

static int mismatch_body(struct mp_job *job)
{
	const struct bad *bad = job->arg;
	float *v = calloc(bad->count + 1, 4);

	MP_ERR(tutti_allreduce(TUTTI_IN_PLACE, v, bad->count + (job->rank == bad->rank),
			       TUTTI_FLOAT32, TUTTI_SUM, job->world),
	       -TUTTI_EMISMATCH);
	MP_SAID("count");
	free(v);
	mp_leave(job);
	return 0;
}

static void mismatch(void)
{
	struct bad bad[] = {{1, 7}, {2, 100000}};
	int i;

	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	for (i = 0; i < 2; i++)
		TT_CHECK(!MP_RUN(.n = 4, .env = HOSTS, .fn = mismatch_body, .arg = &bad[i]));
	TT_CHECK(!MP_RUN(.n = 4, .env = NUMA "TUTTI_ALGO=allreduce:hier_ring", .fn = mismatch_body,
			 .arg = &bad[1]));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"counters", counters}, {"numa", numa},		{"same_bits", same_bits},
		{"displs", displs},	{"death", death},	{"numa_death", numa_death},
		{"late", late},		{"mismatch", mismatch}, {NULL, NULL},
	};

	return tt_test_main("hier", tests, argc, argv);
}
