/* SPDX-License-Identifier: BSD-3-Clause */
/* The figures that tutti_perf computes from its measured times. */
#include "perf/perf.h"
#include "tests/test.h"

static bool near(double a, double b)
{
	return a - b < 1e-9 && b - a < 1e-9;
}

static void overlap(void)
{
	TT_CHECK(near(perf_overlap(100, 100, 100), 100)); /* it cost nothing */
	TT_CHECK(near(perf_overlap(100, 100, 200), 0));	  /* one after the other */
	TT_CHECK(near(perf_overlap(100, 100, 110), 90));
	TT_CHECK(near(perf_overlap(100, 100, 175), 25));
	TT_CHECK(near(perf_overlap(200, 100, 150),
		      75)); /* of the communication, not the shorter one */
	TT_CHECK(near(perf_overlap(100, 400, 450), 50));
	TT_CHECK(near(perf_overlap(200, 100, 200), 50)); /* a short computation hides a part */
	/* noise takes it beyond neither end */
	TT_CHECK(near(perf_overlap(100, 100, 300), 0));
	TT_CHECK(near(perf_overlap(100, 100, 90), 100));
	TT_CHECK(near(perf_overlap(0, 100, 100), 0)); /* nothing there to hide */
}

static void summary(void)
{
	double odd[] = {5, 1, 4, 2, 3}, even[] = {8, 2, 6, 4}, many[1000];
	struct perf_summary sum;
	int i;

	perf_summarize(odd, 5, &sum);
	TT_CHECK(near(sum.min, 1) && near(sum.max, 5) && near(sum.median, 3) && near(sum.mean, 3));
	TT_CHECK(near(sum.stdev * sum.stdev, 2));
	TT_CHECK(near(sum.p99, 5));
	perf_summarize(even, 4, &sum);
	TT_CHECK(near(sum.median, 5));
	for (i = 0; i < 1000; i++)
		many[i] = 1000 - i;
	perf_summarize(many, 1000, &sum);
	TT_CHECK(near(sum.p99, 990) && near(sum.p999, 999) && near(sum.median, 500.5));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"overlap", overlap}, {"summary", summary}, {0}};

	return tt_test_main("perf_stats", tests, argc, argv);
}
