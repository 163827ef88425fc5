/* SPDX-License-Identifier: BSD-3-Clause */
/* More than 4 GiB in one call: no length is cut to 32 bits on the way. */
#include "config.h"

#include "tests/mp/job.h"

#include <stdio.h>

#define COUNT (((size_t)4 << 30) + (12 << 20) + 4097)

static long available_mib(void)
{
	FILE *f = fopen("/proc/meminfo", "r");
	char line[128];
	long kb = 0;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %ld", &kb) == 1)
			break;
	if (f)
		fclose(f);
	return kb / 1024;
}

/* The input repeats with a period that no piece's length divides; it differs by rank. */
#define PERIOD 3263

static void pattern(unsigned char *p, int rank)
{
	size_t i;

	for (i = 0; i < PERIOD; i++)
		p[i] = (unsigned char)(i * i / 7 + i * (size_t)(rank + 3));
}

/* The result is the same at both ranks: each takes the other's half again, over junk. */
static int gathered(struct mp_job *job, unsigned char *v)
{
	size_t counts[2] = {COUNT / 2, COUNT - COUNT / 2}, other = job->rank ? 0 : counts[0], i;
	unsigned char *half = v + other, want[PERIOD];

	for (i = 0; i < PERIOD; i++)
		want[i] = half[i];
	memset(half, 0, counts[!job->rank]);
	MP_OK(tutti_allgatherv(TUTTI_IN_PLACE, 0, v, counts, NULL, TUTTI_UINT8, job->world));
	for (i = 0; i < counts[!job->rank]; i += PERIOD)
		TT_EXPECT(
			!memcmp(half + i, want,
				counts[!job->rank] - i < PERIOD ? counts[!job->rank] - i : PERIOD));
	return 0;
}

static int big_body(struct mp_job *job)
{
	unsigned char *v, mine[PERIOD], other[PERIOD];
	size_t i, len;

	pattern(mine, job->rank);
	pattern(other, !job->rank);
	MP_OK(tutti_alloc(job->ctx, COUNT, (void **)&v));
	for (i = 0; i < COUNT; i += PERIOD)
		memcpy(v + i, mine, COUNT - i < PERIOD ? COUNT - i : PERIOD);
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, v, COUNT, TUTTI_UINT8, TUTTI_SUM, job->world));
	for (i = 0; i < PERIOD; i++)
		mine[i] = (unsigned char)(mine[i] + other[i]);
	for (i = 0; i < COUNT; i += PERIOD) {
		len = COUNT - i < PERIOD ? COUNT - i : PERIOD;
		if (!memcmp(v + i, mine, len))
			continue;
		fprintf(stderr, "rank %d: wrong from element %zu on or a little later\n", job->rank,
			i);
		return 1;
	}
	TT_EXPECT(!gathered(job, v));
	MP_OK(tutti_free(v));
	return 0;
}

static void allreduce(void)
{
	long mib = available_mib();

	if (mib < 12 * 1024)
		TT_SKIP("%ld MiB of memory are available; 12 GiB are needed", mib);
	TT_CHECK(!MP_RUN(.n = 2,
			 .env = "TUTTI_TRANSPORT=shm TUTTI_TIMEOUT=100s TUTTI_POOL_LIMIT=6G",
			 .fn = big_body, .timeout_ms = 150000));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"allreduce", allreduce}, {NULL, NULL}};

	return tt_test_main("big", tests, argc, argv);
}
