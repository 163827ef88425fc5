/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The N-th allocation of one rank fails (TUTTI_FAULT), for N within the life of mailboxes, pairs,
 * a partial all-reduce and a grid: no call of any rank waits until TUTTI_TIMEOUT, a rank whose
 * creation succeeds alone learns of it in its next call, and the rank without memory says so.
 * TT_TIMES above 1 takes every N, else every second.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/base/clock.h"
#include "tests/mp/job.h"

#define RANKS 2
#define BAD 1 /* the rank without memory */
#define NEVER (1ull << 40)
#define COUNT 3000

enum step { CREATE, USE, FREE, STEPS };

struct sweep {
	unsigned long long nth;
	int (*object)(struct mp_job *, struct sweep *);
	/* Told by the ranks. */
	atomic_ulong total;
	atomic_int joined, code[STEPS][RANKS];
};

static void on_log(enum tutti_log_level level, const char *line, void *arg)
{
	struct sweep *s = arg;
	unsigned long calls = mp_fault_calls(line, "alloc");

	(void)level;
	if (calls)
		atomic_store(&s->total, calls);
}

/* Notes the code of a step: the first error of several calls. False: it is one. */
static bool fine(struct mp_job *job, struct sweep *s, enum step step, int err)
{
	struct tutti_error_info info = {.size = sizeof(info)};

	if (!s->code[step][job->rank])
		atomic_store(&s->code[step][job->rank], err);
	if (!err)
		return true;
	if (tutti_last_error(&info) || info.code != err ||
	    (err == -ENOMEM && job->rank == BAD && !strstr(info.text, "memory")))
		fprintf(stderr, "rank %d: %d, last error %d: '%s'\n", job->rank, err, info.code,
			info.text);
	return false;
}

static int mailboxes(struct mp_job *job, struct sweep *s)
{
	static float x[COUNT];
	int other = 1 - job->rank;
	struct tutti_gossip_config config = {.size = sizeof(config),
					     .count = COUNT,
					     .datatype = TUTTI_FLOAT32,
					     .nin = 1,
					     .nout = 1,
					     .in = &other,
					     .out = &other};
	struct tutti_gossip *g;

	if (!fine(job, s, CREATE, tutti_gossip_create(job->world, &config, &g)))
		return 0;
	if (fine(job, s, USE, tutti_gossip_post(g, x)))
		fine(job, s, USE, tutti_gossip_mix(g, x));
	fine(job, s, FREE, tutti_gossip_free(g));
	return 0;
}

static int pairs(struct mp_job *job, struct sweep *s)
{
	struct tutti_pair *p;
	void *x;

	if (!fine(job, s, CREATE, tutti_pair_create(job->world, COUNT, TUTTI_FLOAT32, &x, &p)))
		return 0;
	fine(job, s, USE, tutti_pair_average(p, TUTTI_PAIR_ANY, NULL));
	fine(job, s, FREE, tutti_pair_free(p));
	return 0;
}

static int partials(struct mp_job *job, struct sweep *s)
{
	static float x[COUNT], y[COUNT];
	struct tutti_partial *p;
	int i;

	if (!fine(job, s, CREATE,
		  tutti_partial_create(job->world, COUNT, TUTTI_FLOAT32, TUTTI_SUM, NULL, &p)))
		return 0;
	for (i = 0; i < 2; i++)
		if (!fine(job, s, USE, tutti_partial_allreduce(p, x, y, NULL, NULL, NULL)))
			break;
	if (i == 2)
		fine(job, s, USE, tutti_partial_drain(p, y, NULL, NULL, NULL));
	fine(job, s, FREE, tutti_partial_free(p));
	return 0;
}

static int grids(struct mp_job *job, struct sweep *s)
{
	static const int dims[] = {0, 1};
	struct tutti_comm *comm;
	struct tutti_grid *g;

	if (!fine(job, s, CREATE, tutti_grid_create(job->world, 2, dims, NULL, &g)))
		return 0;
	if (fine(job, s, USE, tutti_grid_comm(g, 3, &comm)))
		fine(job, s, USE, tutti_grid_comm(g, 0, &comm));
	fine(job, s, FREE, tutti_grid_free(g));
	return 0;
}

static int body(struct mp_job *job)
{
	struct sweep *s = job->arg;
	struct tutti_config config = {0};
	bool counts = s->nth == NEVER && job->rank == BAD;
	char fault[64];

	snprintf(fault, sizeof(fault), "alloc=%llu,rank=%d", s->nth, BAD);
	setenv("TUTTI_FAULT", fault, 1);
	tutti_set_log(counts ? on_log : NULL, s, counts ? TUTTI_LOG_INFO : TUTTI_LOG_NONE);
	if (mp_join(job, MP_ID, &config))
		return 0; /* test_nth has these */
	atomic_fetch_add(&s->joined, 1);
	if (s->object)
		TT_EXPECT(!s->object(job, s));
	tutti_finalize(job->ctx);
	job->ctx = NULL;
	return 0;
}

static int run_nth(struct sweep *s, unsigned long long nth,
		   int (*object)(struct mp_job *, struct sweep *))
{
	int i;

	s->nth = nth;
	s->object = object;
	s->joined = 0;
	for (i = 0; i < STEPS * RANKS; i++)
		s->code[i / RANKS][i % RANKS] = 0;
	return MP_RUN(.n = RANKS, .env = "TUTTI_IF=lo TUTTI_TRANSPORT=shm TUTTI_TIMEOUT=40s",
		      .fn = body, .arg = s, .no_init = true);
}

/* No timeout, and a rank that has the object alone learns of it in the next call. */
static bool right(const struct sweep *s)
{
	const atomic_int *made = s->code[CREATE];
	int i;

	for (i = 0; i < STEPS * RANKS; i++)
		if (s->code[i / RANKS][i % RANKS] == -ETIMEDOUT)
			return false;
	return s->joined < RANKS || !made[0] == !made[1] || s->code[USE][made[0] ? 1 : 0];
}

static void sweep(int (*object)(struct mp_job *, struct sweep *))
{
	struct sweep *s = mp_shared_mem(sizeof(*s));
	unsigned long long nth, first;
	const char *times = getenv("TT_TIMES");
	int bad = 0, told = 0, runs = 0, step = times && atoi(times) > 1 ? 1 : 2;

	TT_CHECK(!run_nth(s, NEVER, NULL) && s->total);
	first = s->total > 20 ? s->total - 20 : 1;
	TT_CHECK(!run_nth(s, NEVER, object) && s->total > first);
	for (nth = first; nth <= s->total && bad < 3; nth += (unsigned)step, runs++) {
		uint64_t start = tt_now_ns();
		bool wrong = run_nth(s, nth, object) || !right(s);
		uint64_t ms = (tt_now_ns() - start) / TT_MS;

		wrong |= ms > 35000; /* a wait until TUTTI_TIMEOUT whose error nobody returns */
		told += s->code[CREATE][BAD] || s->code[USE][BAD] || s->code[FREE][BAD];
		if (!wrong)
			continue;
		printf("  alloc=%llu: created %d %d, used %d %d, freed %d %d, %llu ms\n", nth,
		       s->code[CREATE][0], s->code[CREATE][1], s->code[USE][0], s->code[USE][1],
		       s->code[FREE][0], s->code[FREE][1], (unsigned long long)ms);
		bad++;
	}
	printf("  %d runs, in %d of them a call failed, %d wrong\n", runs, told, bad);
	TT_CHECK(!bad && told);
	munmap(s, sizeof(*s));
}

static void test_gossip(void)
{
	sweep(mailboxes);
}

static void test_pair(void)
{
	sweep(pairs);
}

static void test_partial(void)
{
	sweep(partials);
}

static void test_grid(void)
{
	sweep(grids);
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"gossip", test_gossip},
					       {"pair", test_pair},
					       {"partial", test_partial},
					       {"grid", test_grid},
					       {NULL, NULL}};

	return tt_test_main("nth_averages", tests, argc, argv);
}
