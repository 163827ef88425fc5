/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that are killed: every other rank learns of each death exactly once. */
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/boot/control/control.h"
#include "tests/test.h"
#include "tests/unit/boot_help.h"

static int rank_killed(int rank, int n, void *arg)
{
	struct bt_job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);
	struct tt_boot *boot = NULL;
	struct bt_seen seen;

	bt_seen_init(&seen);
	TT_EXPECT(!bt_start(&p, &seen, &boot));
	j->here++;
	if (rank == j->victim) {
		BT_WAIT(j->here == n);
		kill(getpid(), SIGKILL);
	}
	BT_WAIT(bt_gone(&seen, j->victim, NULL, 0));
	TT_EXPECT(bt_gone(&seen, j->victim, NULL, 0));
	TT_EXPECT(!tt_boot_stop(boot, tt_deadline_ms(BT_HANG_MS)));
	TT_EXPECT(bt_gone_count(&seen) == 1);
	return 0;
}

static void kill_one(int n, int victim)
{
	struct bt_job *j = bt_job_new();

	j->victim = victim;
	TT_CHECK(!tt_run_ranks(n, rank_killed, j, BT_BOUND_MS, 1u << victim));
	munmap(j, sizeof(*j));
}

static void test_kill_root(void)
{
	kill_one(18, 0);
}

static void test_kill_inner(void)
{
	kill_one(18, 1);
}

static void test_kill_leaf(void)
{
	kill_one(18, 17);
	kill_one(2, 1);
}

static const struct tt_test tests[] = {{"kill_root", test_kill_root},
				       {"kill_inner", test_kill_inner},
				       {"kill_leaf", test_kill_leaf},
				       {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("boot_kill", tests, argc, argv);
}
