/* SPDX-License-Identifier: BSD-3-Clause */
/* The control tree mends: after each death all live ranks reach each other again. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/boot/control/control.h"
#include "tests/test.h"
#include "tests/unit/boot_help.h"

#define MEND_DEATHS 4

struct mend {
	pthread_mutex_t lock;
	int last[BT_RANKS]; /* the last round of each rank that was heard to all, and */
	int mine[BT_RANKS]; /* to this one */
	int slow;	    /* the number of ranks, at the one that notices the last death late */
};

static bool heard_all(struct mend *m, int first, int n, int round);

static void mend_msg(void *arg, int from, const void *data, size_t len)
{
	struct mend *m = arg;
	int word[2];

	if (len != sizeof(word))
		return;
	memcpy(word, data, sizeof(word));
	pthread_mutex_lock(&m->lock);
	if (word[1])
		m->last[from] = word[0] > m->last[from] ? word[0] : m->last[from];
	else
		m->mine[from] = word[0] > m->mine[from] ? word[0] : m->mine[from];
	pthread_mutex_unlock(&m->lock);
	/* a machine with other work can let a control thread wait while the other ranks go on */
	if (m->slow && heard_all(m, MEND_DEATHS - 1, m->slow, MEND_DEATHS)) {
		m->slow = 0;
		usleep(1000000);
	}
}

static bool heard_all(struct mend *m, int first, int n, int round)
{
	bool all = true;
	int r;

	pthread_mutex_lock(&m->lock);
	for (r = first; r < n; r++)
		all &= m->last[r] >= round && m->mine[r] >= round;
	pthread_mutex_unlock(&m->lock);
	return all;
}

/* All ranks reach all ranks again, by name and by broadcast. */
static int mend_round(struct tt_boot *boot, struct mend *m, int first, int n, int round)
{
	int word[2] = {round, 1}, r;

	TT_EXPECT(!tt_ctl_send(boot, TT_CTL_ALL, TT_CTL_QUERY, word, sizeof(word)));
	word[1] = 0;
	for (r = first; r < n; r++)
		TT_EXPECT(!tt_ctl_send(boot, r, TT_CTL_QUERY, word, sizeof(word)));
	BT_WAIT(heard_all(m, first, n, round));
	for (r = first; r < n; r++)
		if (m->last[r] < round || m->mine[r] < round)
			fprintf(stderr, "rank %d has heard rounds %d and %d of rank %d\n",
				boot->rank, m->last[r], m->mine[r], r);
	TT_EXPECT(heard_all(m, first, n, round));
	return 0;
}

/* The lowest ranks die one after the other: each death takes the root, and at first most links. */
static int rank_mends(int rank, int n, void *arg)
{
	struct bt_job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);
	struct tt_boot_handlers h = {0};
	struct tt_boot *boot = NULL;
	struct mend m = {.slow = rank == n - 1 ? n : 0};
	char why[160], first[160];
	int i;

	pthread_mutex_init(&m.lock, NULL);
	h.arg = &m;
	h.fn[TT_CTL_QUERY] = mend_msg;
	TT_EXPECT(!bt_boot(&p, &h, "", 0, &boot));
	for (i = 0; i <= MEND_DEATHS; i++) {
		TT_EXPECT(!mend_round(boot, &m, i, n, i + 1));
		atomic_fetch_add(&j->saw, 1);
		BT_WAIT(j->saw >= (i + 1) * n - i * (i + 1) / 2);
		if (rank == i && i < MEND_DEATHS)
			kill(getpid(), SIGKILL);
		if (i == MEND_DEATHS)
			break;
		BT_WAIT(tt_boot_gone(boot, i, why, sizeof(why)));
		TT_EXPECT(tt_boot_lowest(boot) == i + 1);
	}
	/* the same words everywhere */
	TT_EXPECT(tt_boot_gone(boot, 0, first, sizeof(first)));
	if (rank == n - 1)
		memcpy(j->text, first, sizeof(first));
	atomic_fetch_add(&j->here, 1);
	BT_WAIT(j->here == n - MEND_DEATHS);
	TT_EXPECT(!strcmp(j->text, first));
	TT_EXPECT(!tt_boot_stop(boot, tt_deadline_ms(BT_HANG_MS)));
	return 0;
}

static void test_mends(void)
{
	bt_job_run(30, rank_mends, (1u << MEND_DEATHS) - 1);
}

static void count_line(enum tutti_log_level level, const char *line, void *arg)
{
	if (level == TUTTI_LOG_ERROR && strstr(line, "4 MiB are kept"))
		++*(int *)arg;
}

/* Messages for ranks without a place: an error names, once, that there are too many. */
static void test_held(void)
{
	struct tt_boot b = {.phase = TT_PH_UP, .unsettled = tt_deadline_ms(60000)};
	static const char frame[4096];
	int i, lines = 0;

	tt_list_init(&b.held);
	tutti_set_log(count_line, &lines, TUTTI_LOG_ERROR);
	for (i = 0; i < 1024; i++)
		tt_tree_hold(&b, frame, sizeof(frame));
	TT_CHECK(!lines && b.held_bytes == (size_t)4 << 20);
	for (i = 0; i < 3; i++)
		tt_tree_hold(&b, frame, sizeof(frame));
	TT_CHECK(lines == 1 && b.held_bytes == (size_t)4 << 20);
	tt_tree_settle(&b, b.unsettled);
	TT_CHECK(!b.held_bytes && tt_list_empty(&b.held) && !b.hold_failed);
	tutti_set_log(NULL, NULL, TUTTI_LOG_DEFAULT);
}

static const struct tt_test tests[] = {{"mends", test_mends}, {"held", test_held}, {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("boot_mend", tests, argc, argv);
}
