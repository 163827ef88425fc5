/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a job: it waits for all ranks, up to a deadline, and ends when the parent is gone. */
#include <errno.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/boot/control/control.h"
#include "tests/test.h"
#include "tests/unit/boot_help.h"

/* No stop returns before the last rank has called it and all earlier messages have come. */
static int rank_stop_waits(int rank, int n, void *arg)
{
	struct bt_job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);
	struct tt_boot *boot = NULL;
	struct bt_seen seen;
	uint32_t word[2] = {0, 1};

	bt_seen_init(&seen);
	TT_EXPECT(!bt_start(&p, &seen, &boot));
	if (rank == n - 1)
		usleep(300000);
	for (; word[0] < 5; word[0]++)
		TT_EXPECT(!tt_ctl_send(boot, TT_CTL_ALL, TT_CTL_QUERY, word, sizeof(word)));
	j->here++;
	TT_EXPECT(!tt_boot_stop(boot, tt_deadline_ms(BT_HANG_MS)));
	TT_EXPECT(j->here == n);
	TT_EXPECT(bt_received(&seen) == 5 * n && bt_gone_count(&seen) == 0);
	return 0;
}

static void test_stop_waits_for_all(void)
{
	bt_job_run(11, rank_stop_waits, 0);
}

static int rank_never_stops(int rank, int n, void *arg)
{
	struct bt_job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);
	struct tt_boot *boot = NULL;
	struct bt_seen seen;

	bt_seen_init(&seen);
	TT_EXPECT(!bt_start(&p, &seen, &boot));
	if (rank == 1) {
		BT_WAIT(bt_gone(&seen, 0, NULL, 0));
		TT_EXPECT(!tt_boot_stop(boot, tt_deadline_ms(BT_HANG_MS)));
		return 0;
	}
	TT_EXPECT(tt_boot_stop(boot, tt_deadline_ms(300)) == -ETIMEDOUT);
	TT_EXPECT(bt_error_has("rank 1"));
	return 0;
}

static void test_stop_deadline(void)
{
	bt_job_run(2, rank_never_stops, 0);
}

/*
 * A rank that has told its parent that it wants to end, and then loses the parent, ends by itself.
 */
static int rank_parent_dies(int rank, int n, void *arg)
{
	struct bt_job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);
	struct tt_boot *boot = NULL;
	struct bt_seen seen;

	bt_seen_init(&seen);
	TT_EXPECT(!bt_start(&p, &seen, &boot));
	if (rank == 0) {
		usleep(300000);
		_exit(0);
	}
	TT_EXPECT(!tt_boot_stop(boot, tt_deadline_ms(BT_HANG_MS)));
	TT_EXPECT(bt_gone(&seen, 0, NULL, 0));
	return 0;
}

static void test_parent_dies_in_stop(void)
{
	bt_job_run(2, rank_parent_dies, 0);
}

/*
 * At the root, in the moment between the end of a child's link and its burial: that rank has said
 * goodbye, and is gone, and counts once. Rank 3 is between two parents.
 */
static void test_goodbyes_count_once(void)
{
	struct tt_link dead = {.state = TT_LINK_DEAD, .peer = 1};
	struct tt_link open = {.state = TT_LINK_OPEN, .peer = 2, .closing = true};
	struct tt_child child[] = {{.link = &dead, .bye = true, .below = 1},
				   {.link = &open, .bye = true, .below = 1},
				   {0}};
	struct tt_boot b = {.nranks = 4,
			    .phase = TT_PH_UP,
			    .stopping = true,
			    .child = child,
			    .nchildren = 3,
			    .ngone = 1};

	pthread_mutex_init(&b.lock, NULL);
	tt_list_init(&b.outbox);
	tt_tree_step(&b);
	TT_CHECK(b.phase == TT_PH_UP);
	child[1].below = 2; /* it has come to rank 2 */
	tt_tree_step(&b);
	TT_CHECK(b.phase == TT_PH_BYE);
}

static const struct tt_test tests[] = {{"stop_waits_for_all", test_stop_waits_for_all},
				       {"stop_deadline", test_stop_deadline},
				       {"parent_dies_in_stop", test_parent_dies_in_stop},
				       {"goodbyes_count_once", test_goodbyes_count_once},
				       {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("boot_stop", tests, argc, argv);
}
