/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks 1 and 2 put to each other, and so many ranks make a window without connecting the two.
 * There is no memory for the connection, which the puts hear late: it fails those that wait, and
 * no others.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/fault/limits.h"

#define BAD 1
#define LONG (256 << 10)
#define TOGETHER 10

static atomic_int given_up; /* attempts of this rank */

static void count_given_up(enum tutti_log_level level, const char *text, void *arg)
{
	(void)level, (void)arg;
	atomic_fetch_add(&given_up, strstr(text, "no transport to rank") != NULL);
}

static int open_counted(struct mp_job *job, struct tutti_win **win)
{
	static char memory[LONG];

	tutti_set_log(count_given_up, NULL, TUTTI_LOG_ERROR);
	MP_OK(tutti_win_create(job->world, memory, LONG, 0, win));
	mp_meet(job);
	return 0;
}

static char data[100];

/* A put that rank gives up before it hears that there is no connection. */
static int drop_put(struct mp_job *job, struct tutti_win *win)
{
	hear(NOTHING);
	MP_ERR(tutti_put(win, 3 - job->rank, data, sizeof(data), 0), -ETIMEDOUT);
	return 0;
}

/* After both ends have dropped their puts and have no memory, neither attempts to connect. */
static int storm_body(struct mp_job *job)
{
	bool puts = job->rank == 1 || job->rank == 2;
	struct tutti_win *win;
	uint64_t ranks = 0;
	int i, n;

	MP_OK(open_counted(job, &win));
	TT_EXPECT(!puts || (!drop_put(job, win) && limit_memory(0)));
	mp_meet(job);
	hear(AT_ONCE);
	for (i = 0; i < 20; i++) /* as long as many attempts, on the same links */
		MP_OK(tutti_comm_agree(job->world, TUTTI_BOR, &ranks));
	n = atomic_load(&given_up);
	TT_EXPECT(!puts || unlimit_memory());
	mp_meet(job);
	if (puts)
		MP_OK(tutti_put(win, 3 - job->rank, data, sizeof(data), 0));
	TT_EXPECT(n <= 1);
	mp_meet(job);
	return tutti_win_free(win);
}

/* The failure that a dropped put would have reported is not one of the next put. */
static int dropped_body(struct mp_job *job)
{
	struct tutti_request *put;
	struct tutti_win *win;

	MP_OK(open_counted(job, &win));
	if (job->rank == BAD)
		TT_EXPECT(limit_memory(0));
	mp_meet(job);
	if (job->rank == 2) {
		MP_OK(drop_put(job, win));
		hear(AT_ONCE);
		TT_EXPECT(mp_await(&given_up, 1, MP_HANG_MS));
	}
	mp_meet(job);
	if (job->rank == BAD)
		TT_EXPECT(unlimit_memory());
	mp_meet(job);
	if (job->rank == 2) {
		MP_OK(tutti_iput(win, BAD, data, sizeof(data), 0, &put));
		MP_OK(tutti_wait(&put));
	}
	mp_meet(job);
	return tutti_win_free(win);
}

/* Puts that wait for the same attempt report its failure. A put that comes later attempts again. */
static int together_body(struct mp_job *job)
{
	struct tutti_request *put[TOGETHER];
	struct tutti_win *win;
	int i;

	MP_OK(open_counted(job, &win));
	if (job->rank == BAD)
		TT_EXPECT(limit_memory(0));
	mp_meet(job);
	if (job->rank == 2) {
		hear(NOTHING);
		for (i = 0; i < TOGETHER; i++)
			MP_OK(tutti_iput(win, BAD, data, sizeof(data), 0, &put[i]));
		hear(AT_ONCE);
		TT_EXPECT(mp_await(&given_up, 1, MP_HANG_MS));
		for (i = 0; i < TOGETHER; i++) {
			MP_ERR(tutti_wait(&put[i]), -ENOMEM);
			TT_EXPECT(names_rank(BAD));
		}
		TT_EXPECT(atomic_load(&given_up) == 1);
		MP_ERR(tutti_put(win, BAD, data, sizeof(data), 0), -ENOMEM);
		TT_EXPECT(names_rank(BAD) && atomic_load(&given_up) == 2);
	}
	mp_meet(job);
	if (job->rank == BAD)
		TT_EXPECT(unlimit_memory());
	mp_meet(job);
	return tutti_win_free(win);
}

static void run(mp_fn *fn)
{
	if (mp_no_limit())
		TT_SKIP("%s", mp_no_limit());
	TT_CHECK(!MP_RUN(.n = 6, .env = "TUTTI_IF=lo TUTTI_TRANSPORT=shm TUTTI_TIMEOUT=2s",
			 .fn = fn));
}

static void storm(void)
{
	run(storm_body);
}

static void dropped(void)
{
	run(dropped_body);
}

static void together(void)
{
	run(together_body);
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"storm", storm}, {"dropped", dropped}, {"together", together}, {NULL, NULL}};

	return tt_test_main("late_shortage", tests, argc, argv);
}
