/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The start of a job with real processes and threads as ranks, and messages over the control tree.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/boot/control/control.h"
#include "tests/test.h"
#include "tests/unit/boot_help.h"

static void test_start_stop(void)
{
	static const int sizes[] = {1, 2, 3, 9, 17, 40, 64};
	struct bt_job *j = bt_job_new();
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		j->port = tt_free_port();
		TT_CHECK(!tt_run_ranks(sizes[i], bt_rank_start_stop, j, BT_BOUND_MS, 0));
	}
	munmap(j, sizeof(*j));
}

static int run_messages(struct tt_boot *boot, struct bt_seen *seen, int n)
{
	unsigned char data[TT_CTL_MSG_MAX] = {0};
	uint32_t word[2];
	uint32_t i;
	int to;

	for (i = 0; i < 10; i++) {
		word[0] = i;
		for (to = TT_CTL_ALL; to < n; to++) {
			word[1] = to == TT_CTL_ALL;
			memcpy(data, word, sizeof(word));
			TT_EXPECT(!tt_ctl_send(boot, to, TT_CTL_QUERY, data, i ? 8 : sizeof(data)));
		}
	}
	TT_EXPECT(tt_ctl_send(boot, 0, TT_CTL_QUERY, data, TT_CTL_MSG_MAX + 1) == -EINVAL);
	TT_EXPECT(tt_ctl_send(boot, n, TT_CTL_QUERY, data, 8) == -EINVAL);
	BT_WAIT(bt_received(seen) == n * 20);
	TT_EXPECT(bt_received(seen) == n * 20);
	return 0;
}

static int rank_messages(int rank, int n, void *arg)
{
	struct bt_job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);
	struct tt_boot *boot = NULL;
	struct bt_seen seen;

	bt_seen_init(&seen);
	TT_EXPECT(!bt_start(&p, &seen, &boot));
	TT_EXPECT(!run_messages(boot, &seen, n));
	TT_EXPECT(!tt_boot_stop(boot, tt_deadline_ms(BT_HANG_MS)));
	TT_EXPECT(bt_received(&seen) == n * 20 && bt_gone_count(&seen) == 0);
	return 0;
}

static void test_messages(void)
{
	static const int sizes[] = {1, 2, 19};
	struct bt_job *j = bt_job_new();
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		j->port = tt_free_port();
		TT_CHECK(!tt_run_ranks(sizes[i], rank_messages, j, BT_BOUND_MS, 0));
	}
	munmap(j, sizeof(*j));
}

struct thread_rank {
	pthread_t thread;
	struct bt_job *job;
	int rank, n, result;
};

static void *thread_main(void *arg)
{
	struct thread_rank *t = arg;

	t->result = rank_messages(t->rank, t->n, t->job);
	return NULL;
}

static void test_threads_as_ranks(void)
{
	enum { N = 11 };
	struct thread_rank t[N];
	struct bt_job *j = bt_job_new();
	int i, fds = tt_open_fds();

	for (i = 0; i < N; i++) {
		t[i] = (struct thread_rank){.job = j, .rank = i, .n = N, .result = -1};
		pthread_create(&t[i].thread, NULL, thread_main, &t[i]);
	}
	for (i = 0; i < N; i++) {
		pthread_join(t[i].thread, NULL);
		TT_CHECK(t[i].result == 0);
	}
	TT_CHECK(tt_open_fds() == fds);
	munmap(j, sizeof(*j));
}

static const struct tt_test tests[] = {{"start_stop", test_start_stop},
				       {"messages", test_messages},
				       {"threads_as_ranks", test_threads_as_ranks},
				       {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("boot_start", tests, argc, argv);
}
