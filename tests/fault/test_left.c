/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accumulates of the ranks that are left in a tolerant communicator: ranks die while all accumulate
 * into the windows of all. Those between live ranks succeed, each element once; the others fail
 * with -TUTTI_EPEER.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "lib/base/hash.h"
#include "lib/comm/comm.h"

#define RANKS 5
#define ROUNDS 20
#define LONG 30000 /* several pieces */

struct set {
	int n;
	unsigned victims;
	bool allocated; /* windows whose memory ranks of a host map */
};

/* A window: the count of each origin, then a vector that all add to. */
struct memory {
	uint64_t count[RANKS];
	uint64_t sum[LONG];
};

struct work {
	struct mp_job *job;
	struct set set;
	struct tutti_win *win;
	struct tutti_comm *comm;
	struct memory *mem;
	uint64_t *ones, *old;
	bool lost[RANKS];
};

static bool dies(const struct work *w, int rank)
{
	return w->set.victims >> rank & 1;
}

static int death_round(int rank)
{
	return 4 + 3 * rank;
}

/* 0: it succeeded; 1: as operations on a dead rank do; else -1. */
static int lost_by(struct work *w, int r, int err)
{
	if (!err)
		return 0;
	if (err != -TUTTI_EPEER || !dies(w, r)) {
		mp_failed(w->job, "an accumulate at a live rank", err, __FILE__, __LINE__);
		return -1;
	}
	w->lost[r] = true;
	return 1;
}

/* One of each form, in turn; all end with what the target holds of this rank. */
static int add_to(struct work *w, int r, int round)
{
	uint64_t one = 1, place = (uint64_t)w->job->rank * sizeof(one), old = UINT64_MAX;
	uint64_t at = offsetof(struct memory, sum);
	struct tutti_request *req = NULL;
	int got, i;

	got = lost_by(
		w, r,
		tutti_get_accumulate(w->win, r, &one, &old, 1, TUTTI_UINT64, TUTTI_SUM, place));
	if (!got)
		got = lost_by(
			w, r,
			tutti_accumulate(w->win, r, w->ones, LONG, TUTTI_UINT64, TUTTI_SUM, at));
	if (!got)
		got = lost_by(w, r, tutti_win_flush(w->win, r));
	if (got)
		return got < 0;
	TT_EXPECT(old == (uint64_t)round);
	got = lost_by(w, r,
		      tutti_iget_accumulate(w->win, r, NULL, w->old, LONG, TUTTI_UINT64,
					    TUTTI_NO_OP, at, &req));
	if (!got)
		got = lost_by(w, r, tutti_wait(&req));
	for (i = 0; !got && i < LONG; i++)
		TT_EXPECT(w->old[i] > (uint64_t)round &&
			  w->old[i] <= (uint64_t)(w->set.n * ROUNDS));
	return got < 0;
}

/* Under way at a live rank while others die, and afterwards. */
static int all_rounds(struct work *w)
{
	uint64_t zero = 0, at = offsetof(struct memory, sum);
	struct tutti_request *req[RANKS];
	int round, r, me = w->job->rank;

	for (round = 0; round < ROUNDS; round++) {
		for (r = 0; r < w->set.n; r++) { /* adds nothing */
			req[r] = NULL;
			if (!w->lost[r])
				TT_EXPECT(
					lost_by(w, r,
						tutti_iaccumulate(w->win, r, &zero, 1, TUTTI_UINT64,
								  TUTTI_BOR, at, &req[r])) >= 0);
		}
		if (dies(w, me) && round == death_round(me))
			kill(getpid(), SIGKILL);
		for (r = 0; r < w->set.n; r++) {
			if (!w->lost[r])
				TT_EXPECT(!add_to(w, r, round));
			TT_EXPECT(lost_by(w, r, tutti_wait(&req[r])) >= 0);
		}
	}
	return 0;
}

/* All live ranks have done all their rounds. */
static int check(struct work *w)
{
	uint64_t least = 0, most = 0;
	int r, i;

	for (r = 0; r < w->set.n; r++) {
		if (dies(w, r)) {
			TT_EXPECT(w->mem->count[r] <= (uint64_t)death_round(r));
			most += (uint64_t)death_round(r);
			continue;
		}
		TT_EXPECT(w->mem->count[r] == ROUNDS);
		least += ROUNDS;
	}
	for (i = 0; i < LONG; i++)
		TT_EXPECT(w->mem->sum[i] >= least && w->mem->sum[i] <= least + most);
	return 0;
}

static int open_work(struct work *w)
{
	struct tutti_comm_config how = {.size = sizeof(how), .flags = TUTTI_COMM_TOLERANT};
	struct mp_job *job = w->job;
	int i;

	MP_OK(tutti_comm_create(job->world, &how, &w->comm));
	MP_OK(tutti_alloc(job->ctx, LONG * 8, (void **)&w->ones));
	MP_OK(tutti_alloc(job->ctx, LONG * 8, (void **)&w->old));
	for (i = 0; i < LONG; i++)
		w->ones[i] = 1;
	if (w->set.allocated) {
		MP_OK(tutti_win_allocate(w->comm, sizeof(*w->mem), TUTTI_WIN_ACCUMULATE,
					 (void **)&w->mem, &w->win));
	} else {
		MP_OK(tutti_alloc(job->ctx, sizeof(*w->mem), (void **)&w->mem));
		memset(w->mem, 0, sizeof(*w->mem));
		MP_OK(tutti_win_create(w->comm, w->mem, sizeof(*w->mem), TUTTI_WIN_ACCUMULATE,
				       &w->win));
	}
	MP_OK(tutti_barrier(w->comm));
	return 0;
}

/* A victim may be far behind: it can still execute an accumulate until it dies. */
static int await_deaths(struct work *w, int deaths)
{
	struct mp_job *job = w->job;
	double end = mp_now() + 30;
	struct tutti_failed dead[RANKS];
	int n = 0;

	for (; n < deaths && mp_now() < end; mp_sleep_ms(1))
		MP_OK(tutti_comm_failed(w->comm, dead, RANKS, &n));
	TT_EXPECT(n == deaths);
	return 0;
}

static int left_body(struct mp_job *job)
{
	struct work w = {.job = job, .set = *(struct set *)job->arg};
	int r, err, deaths = __builtin_popcount(w.set.victims);
	uint64_t one = 1;

	TT_EXPECT(!open_work(&w));
	TT_EXPECT(!all_rounds(&w));
	atomic_fetch_add(&job->shared->word[0], 1);
	TT_EXPECT(mp_await(&job->shared->word[0], w.set.n - deaths, 30000));
	TT_EXPECT(!await_deaths(&w, deaths));
	for (r = 0; r < w.set.n; r++) {
		if (!dies(&w, r))
			continue;
		err = tutti_accumulate(w.win, r, &one, 1, TUTTI_UINT64, TUTTI_SUM, 0);
		MP_ERR(err ? err : tutti_win_flush(w.win, r), -TUTTI_EPEER);
		MP_SAID("which has failed");
	}
	TT_EXPECT(!check(&w));
	MP_ERR(tutti_win_free(w.win), -TUTTI_EPEER);
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

static void each_set(const char *env, int n, bool allocated)
{
	struct set s = {.n = n, .allocated = allocated};

	for (s.victims = 1; s.victims < 1u << n; s.victims += s.victims < 4 ? 1 : 3)
		if (__builtin_popcount(s.victims) <= 2)
			TT_CHECK(!MP_RUN(.n = n, .env = env, .fn = left_body, .arg = &s,
					 .killed = s.victims, .timeout_ms = 40000));
}

static void node(void)
{
	each_set("", 4, false);
}

static void shm(void)
{
	each_set("TUTTI_NODE=off", 3, false);
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	each_set("TUTTI_TRANSPORT=ofi TUTTI_IF=lo", 4, false);
}

static void mapped(void)
{
	each_set("", 4, true);
}

/* ---- a rank without the window says so before others have it ---- */

#define SALT 0x616363 /* doc/WIRE.md */

static int unmade_body(struct mp_job *job)
{
	uint64_t port = tt_hash_add(tt_hash_add(job->world->uid, SALT), job->world->seq), v = 1;
	double start = mp_now();
	struct tutti_win *win;
	uint64_t *mem;

	MP_OK(tutti_alloc(job->ctx, sizeof(*mem), (void **)&mem));
	*mem = 0;
	if (job->rank == 1)
		tt_ctl_send(job->ctx->boot, TT_CTL_ALL, TT_CTL_CLOSED, &port, sizeof(port));
	while (job->rank != 1 && !job->ctx->nclosed && mp_now() - start < MP_HANG_MS / 1000)
		mp_sleep_ms(1);
	mp_meet(job);
	MP_OK(tutti_win_create(job->world, mem, sizeof(*mem), TUTTI_WIN_ACCUMULATE, &win));
	if (job->rank == 0) {
		MP_OK(tutti_accumulate(win, 1, &v, 1, TUTTI_UINT64, TUTTI_SUM, 0));
		MP_ERR(tutti_win_flush(win, 1), -EACCES);
		MP_OK(tutti_accumulate(win, 2, &v, 1, TUTTI_UINT64, TUTTI_SUM, 0));
		MP_OK(tutti_win_flush(win, 2));
	}
	MP_OK(tutti_win_free(win));
	TT_EXPECT(*mem == (job->rank == 2));
	MP_OK(tutti_free(mem));
	return 0;
}

static void unmade(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .fn = unmade_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"node", node},	    {"shm", shm},	{"ofi", ofi},
		{"mapped", mapped}, {"unmade", unmade}, {NULL, NULL},
	};

	return tt_test_main("left", tests, argc, argv);
}
