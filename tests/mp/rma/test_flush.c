/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A flush beside a thread that begins more operations: it waits for those before it only, and after
 * its deadline it takes back and names these only.
 */
#include "config.h"

#include "lib/rma/rma.h"
#include "tests/mp/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#define BYTES ((size_t)64 << 20) /* more than sockets take while nobody reads them */

struct later {
	struct mp_job *job;
	struct tutti_win *win;
	char *mem;
	int rank;
	int word;     /* set when the put is under way; -1: none */
	bool request; /* the flush is one */
};

static bool flushes(struct tutti_win *win)
{
	bool yes;

	tt_wire_lock(win->comm->ctx->wire);
	yes = !tt_list_empty(&win->flushing);
	tt_wire_unlock(win->comm->ctx->wire);
	return yes;
}

/* Puts to a rank once a flush waits. */
static void *put_later(void *arg)
{
	struct later *l = arg;
	int ms;

	for (ms = 0; ms < MP_HANG_MS && !flushes(l->win); ms++)
		mp_sleep_ms(1);
	if (!flushes(l->win) || tutti_put(l->win, l->rank, l->mem, BYTES, 0))
		return NULL;
	if (l->word >= 0)
		atomic_store(&l->job->shared->word[l->word], 1);
	return l;
}

/* The put of l begins during the flush, which returns *err. */
static int flush_beside(struct later *l, int *err)
{
	struct tutti_request *req;
	pthread_t thread;
	void *begun;

	TT_EXPECT(!pthread_create(&thread, NULL, put_later, l));
	*err = l->request ? tutti_win_iflush_all(l->win, &req) : tutti_win_flush_all(l->win);
	*err = !*err && l->request ? tutti_wait(&req) : *err;
	pthread_join(thread, &begun);
	TT_EXPECT(begun && l->win->pending[l->rank]);
	return 0;
}

/* Rank 0's. Rank 1 takes no data before each step, rank 2 is stopped. */
static int both(struct later *l)
{
	struct mp_job *job = l->job;
	int err;

	TT_EXPECT(mp_await(&job->shared->word[1], 1, MP_HANG_MS));
	MP_OK(tutti_put(l->win, 1, l->mem, BYTES, 0));
	l->rank = 2;
	l->word = 0;
	TT_EXPECT(!flush_beside(l, &err));
	MP_OK(err);
	TT_EXPECT(mp_await(&job->shared->word[1], 2, MP_HANG_MS));
	l->rank = 1;
	l->word = -1;
	TT_EXPECT(!flush_beside(l, &err));
	MP_ERR(err, -ETIMEDOUT);
	TT_EXPECT(mp_said(l->request ? "it waits for rank 2 on host"
				     : "one-sided operations at rank 2 on host"));
	atomic_store(&job->shared->word[2], 1);
	return 0;
}

/* Rank 1's: its threads take nothing until word[i] is set. */
static int keep_busy(struct mp_job *job, int i, int step)
{
	bool set;

	tt_wire_lock(job->ctx->wire);
	atomic_store(&job->shared->word[1], step);
	set = mp_await(&job->shared->word[i], 1, MP_HANG_MS);
	tt_wire_unlock(job->ctx->wire);
	TT_EXPECT(set);
	return 0;
}

static int take(struct mp_job *job, struct tutti_win *win, const char *mem)
{
	double until = mp_now() + MP_HANG_MS / 1e3;
	int found;

	TT_EXPECT(!keep_busy(job, 0, 1));
	while (!((const volatile char *)mem)[BYTES - 1] && mp_now() < until)
		MP_OK(tutti_iprobe(0, 1, win->comm, &found, NULL));
	return keep_busy(job, 2, 2);
}

static int beside_body(struct mp_job *job)
{
	struct later l = {.job = job, .request = job->arg};
	struct tutti_comm *healthy;
	int err;

	MP_OK(tutti_comm_split(job->world, job->rank == 2, 0, &healthy));
	MP_OK(tutti_barrier(healthy));
	MP_OK(tutti_alloc(job->ctx, BYTES, (void **)&l.mem));
	memset(l.mem, job->rank == 0, BYTES);
	MP_OK(tutti_win_create(job->world, l.mem, BYTES, 0, &l.win));
	MP_OK(tutti_put(l.win, 1, l.mem, job->rank == 0 ? 8 : 0, 0));
	MP_OK(tutti_put(l.win, 2, l.mem, job->rank == 0 ? 8 : 0, 0));
	MP_OK(tutti_win_flush_all(l.win));
	mp_meet(job);
	if (job->rank == 2) {
		TT_EXPECT(mp_await(&job->shared->word[3], 1, MP_HANG_MS));
	} else if (job->rank) {
		TT_EXPECT(!take(job, l.win, l.mem));
		MP_OK(tutti_barrier(healthy));
		atomic_store(&job->shared->word[4], 1);
	} else {
		TT_EXPECT(!mp_stop(atomic_load(&job->shared->pid[2])));
		err = both(&l) || tutti_barrier(healthy);
		atomic_store(&job->shared->word[3], 1);
		kill(atomic_load(&job->shared->pid[2]), SIGCONT);
		TT_EXPECT(!err && mp_await(&job->shared->word[4], 1, MP_HANG_MS));
	}
	(void)tutti_win_free(l.win);
	return mp_leave_failed(job);
}

#define ENV "TUTTI_TRANSPORT=ofi TUTTI_TIMEOUT=3s"

static void beside(void)
{
	int yes = 1;

	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 3, .env = ENV, .fn = beside_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = ENV, .fn = beside_body, .arg = &yes));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"beside", beside}, {NULL, NULL}};

	return tt_test_main("flush", tests, argc, argv);
}
