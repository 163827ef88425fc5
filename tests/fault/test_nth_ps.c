/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The N-th allocation of one rank fails (TUTTI_FAULT), for N within tutti_ps_open and the first
 * table: all ranks fail or none does, each with a text that names that rank and why, and none waits
 * until TUTTI_TIMEOUT. TT_TIMES above 1 takes every N, else every third.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/mp/job.h"

#define RANKS 3
#define BAD 1 /* the rank without memory */
#define NEVER (1ull << 40)

struct sweep {
	unsigned long long nth;
	bool opens;
	/* Told by the ranks. */
	atomic_ulong total;
	atomic_int opened[RANKS], made[RANKS]; /* codes; 1: not reached */
};

static void on_log(enum tutti_log_level level, const char *line, void *arg)
{
	struct sweep *s = arg;
	unsigned long calls = mp_fault_calls(line, "alloc");

	(void)level;
	if (calls)
		atomic_store(&s->total, calls);
}

/*
 * An error, if any, names the rank without memory and says so. If its control thread cannot go on,
 * ranks are gone for the others.
 */
static int check_error(struct mp_job *job, int err)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	bool why;

	if (!err)
		return 0;
	MP_OK(tutti_last_error(&info));
	why = strstr(info.text, "memory") || strstr(info.text, "bytes are available");
	why &= job->rank == BAD || strstr(info.text, "rank 1");
	why |= err == -TUTTI_EPEER && strstr(info.text, "is gone");
	if (info.code == err && why)
		return 0;
	fprintf(stderr, "rank %d: %d, last error %d: '%s'\n", job->rank, err, info.code, info.text);
	return 1;
}

static int open_one(struct mp_job *job, struct sweep *s, struct tutti_ps **ps)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	struct tutti_ps_table *t;
	int err = tutti_ps_open(job->world, NULL, ps);

	atomic_store(&s->opened[job->rank], err);
	if (err) {
		*ps = NULL;
		return check_error(job, err);
	}
	err = tutti_ps_dense(*ps, "t", 1000, TUTTI_FLOAT32, &opt, &t);
	atomic_store(&s->made[job->rank], err);
	return check_error(job, err);
}

static int body(struct mp_job *job)
{
	struct sweep *s = job->arg;
	struct tutti_config config = {0};
	struct tutti_ps *ps = NULL;
	bool counts = s->nth == NEVER && job->rank == BAD;
	char fault[64];

	snprintf(fault, sizeof(fault), "alloc=%llu,rank=%d", s->nth, BAD);
	setenv("TUTTI_FAULT", fault, 1);
	tutti_set_log(counts ? on_log : NULL, s, counts ? TUTTI_LOG_INFO : TUTTI_LOG_NONE);
	if (mp_join(job, MP_ID, &config))
		return 0; /* test_nth has these */
	if (s->opens)
		TT_EXPECT(!open_one(job, s, &ps));
	if (ps)
		tutti_ps_close(ps);
	tutti_finalize(job->ctx);
	job->ctx = NULL;
	return 0;
}

static int run_nth(struct sweep *s, unsigned long long nth, bool opens)
{
	int r;

	s->nth = nth;
	s->opens = opens;
	for (r = 0; r < RANKS; r++)
		s->opened[r] = s->made[r] = 1;
	return MP_RUN(.n = RANKS, .env = "TUTTI_IF=lo TUTTI_TRANSPORT=shm TUTTI_TIMEOUT=20s",
		      .fn = body, .arg = s, .no_init = true);
}

/* All codes are 0 or all are errors; none is a timeout. */
static bool alike(atomic_int *code)
{
	int r;

	for (r = 0; r < RANKS; r++)
		if (code[r] == -ETIMEDOUT || !code[r] != !code[0])
			return false;
	return true;
}

static void opens(void)
{
	struct sweep *s = mp_shared_mem(sizeof(*s));
	unsigned long long nth, first;
	const char *times = getenv("TT_TIMES");
	int bad = 0, told = 0, runs = 0, step = times && atoi(times) > 1 ? 1 : 3;

	TT_CHECK(!run_nth(s, NEVER, false) && s->total);
	first = s->total > 20 ? s->total - 20 : 1;
	TT_CHECK(!run_nth(s, NEVER, true) && s->total > first);
	for (nth = first; nth <= s->total && bad < 3; nth += step, runs++) {
		if (run_nth(s, nth, true) || !alike(s->opened) || !alike(s->made)) {
			printf("  alloc=%llu: opened %d %d %d, made %d %d %d\n", nth, s->opened[0],
			       s->opened[1], s->opened[2], s->made[0], s->made[1], s->made[2]);
			bad++;
		}
		told += s->opened[1] < 0 || s->made[1] < 0;
	}
	printf("  %d runs, in %d of them a call failed, %d wrong\n", runs, told, bad);
	TT_CHECK(!bad && told);
	munmap(s, sizeof(*s));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"opens", opens}, {NULL, NULL}};

	return tt_test_main("nth_ps", tests, argc, argv);
}
