/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Backup workers: in each clock exactly the updates of the first workers - backup count, of any
 * workers; drops are counted; a late worker joins the clock of the others; deaths.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WORKERS 4
#define CLOCKS 40
#define FAR 16 /* elements from a worker's first one to its second, in another block */

struct plan {
	int servers, slow_ms;
	bool dies; /* workers 1 and 2, with an update of the current clock */
};

struct tables {
	struct tutti_ps *ps;
	struct tutti_ps_table *sum, *mean, *rows;
	int64_t pushes, each; /* of this worker, and their elements */
};

static int open_tables(struct mp_job *job, int servers, struct tables *t)
{
	struct tutti_ps_config config = {.size = sizeof(config), .servers = servers, .backup = 1};
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO, .block = 64};

	config.role = job->rank < servers ? TUTTI_PS_SERVER : TUTTI_PS_WORKER;
	MP_OK(tutti_ps_open(job->world, &config, &t->ps));
	MP_OK(tutti_ps_dense(t->ps, "sum", 2 * FAR, TUTTI_INT64, &opt, &t->sum));
	MP_OK(tutti_ps_rows(t->ps, "rows", 1, WORKERS, TUTTI_INT64, &opt, &t->rows));
	opt.combine = TUTTI_PS_COMBINE_MEAN;
	MP_OK(tutti_ps_dense(t->ps, "mean", WORKERS, TUTTI_FLOAT64, &opt, &t->mean));
	return 0;
}

/* Of worker w: it adds 1 to its two elements and to its row, and 2 (a mean) to another one. */
static int push(struct mp_job *job, const struct plan *p, struct tables *t, int w)
{
	uint64_t key = (uint64_t)w;
	const double six = 6;
	const int64_t one = 1;

	MP_OK(tutti_ps_push(t->sum, &one, (size_t)w, 1, TUTTI_INT64));
	MP_OK(tutti_ps_push(t->sum, &one, (size_t)w + FAR, 1, TUTTI_INT64));
	MP_OK(tutti_ps_push_rows(t->rows, &key, 1, &one, TUTTI_INT64));
	if (!p->dies) /* of another number of workers it is another mean */
		MP_OK(tutti_ps_push(t->mean, &six, (size_t)w, 1, TUTTI_FLOAT64));
	t->each = p->dies ? 3 : 4;
	t->pushes++;
	return 0;
}

/* Each clock that has ended has added 3 ones, of 3 workers, and 6 in all to the mean. */
static int check_clock(struct mp_job *job, struct tables *t, const struct plan *p, uint64_t *clock)
{
	struct tutti_ps_read read = {.size = sizeof(read)};
	int64_t v[2 * FAR], sum = 0;
	double mean[WORKERS], all;
	int i;

	MP_OK(tutti_ps_pull(t->sum, v, 0, FAR, TUTTI_INT64));
	MP_OK(tutti_ps_last_read(t->sum, &read));
	for (i = 0; i < FAR; i++)
		sum += v[i];
	*clock = read.clock;
	if (!p->dies)
		TT_EXPECT(sum >= 3 * (int64_t)read.clock && sum % 3 == 0);
	MP_OK(tutti_ps_pull(t->mean, mean, 0, WORKERS, TUTTI_FLOAT64));
	all = mean[0] + mean[1] + mean[2] + mean[3];
	TT_EXPECT(p->dies || (all >= 6 * (double)read.clock && all <= 6 * CLOCKS));
	return 0;
}

/* Every push is in the tables or was dropped; the news of a drop may come a little later. */
static int check_own(struct mp_job *job, struct tables *t, int w)
{
	struct tutti_ps_read read = {.size = sizeof(read)};
	int64_t v[2 * FAR], row = 0, kept;
	uint64_t key = (uint64_t)w;
	double until = mp_now() + 10, mean[WORKERS];
	bool all = false;

	do {
		MP_OK(tutti_ps_pull(t->sum, v, 0, 2 * FAR, TUTTI_INT64));
		MP_OK(tutti_ps_pull_rows(t->rows, &key, 1, &row, TUTTI_INT64));
		MP_OK(tutti_ps_pull(t->mean, mean, 0, WORKERS, TUTTI_FLOAT64));
		MP_OK(tutti_ps_last_read(t->sum, &read));
		kept = v[w] + v[w + FAR] + row + (int64_t)(mean[w] / 2);
		all = kept + (int64_t)read.dropped == t->each * t->pushes;
	} while (!all && mp_now() < until);
	TT_EXPECT(all);
	return 0;
}

/* All clocks have ended: 3 updates of each, of every block and of rows. */
static int check_all(struct mp_job *job, struct tables *t)
{
	uint64_t key[WORKERS] = {0, 1, 2, 3};
	int64_t v[2 * FAR], row[WORKERS], sum[3] = {0};
	double mean[WORKERS];
	int i;

	MP_OK(tutti_ps_pull(t->sum, v, 0, 2 * FAR, TUTTI_INT64));
	MP_OK(tutti_ps_pull_rows(t->rows, key, WORKERS, row, TUTTI_INT64));
	MP_OK(tutti_ps_pull(t->mean, mean, 0, WORKERS, TUTTI_FLOAT64));
	for (i = 0; i < FAR; i++) {
		sum[0] += v[i];
		sum[1] += v[FAR + i];
		sum[2] += i < WORKERS ? row[i] : 0;
	}
	for (i = 0; i < 3; i++)
		TT_EXPECT(sum[i] == 3 * CLOCKS);
	TT_EXPECT(mean[0] + mean[1] + mean[2] + mean[3] == 6 * CLOCKS);
	return 0;
}

static int work(struct mp_job *job, const struct plan *p, struct tables *t, int w)
{
	uint64_t clock = 0;

	for (;;) {
		TT_EXPECT(!check_clock(job, t, p, &clock));
		if (clock >= CLOCKS)
			return 0;
		if (p->slow_ms && w == WORKERS - 1)
			mp_sleep_ms(p->slow_ms);
		TT_EXPECT(!push(job, p, t, w));
		if (p->dies && ((w == 1 && clock >= 5) || (w == 2 && clock >= 10)))
			kill(getpid(), SIGKILL);
		MP_OK(tutti_ps_clock(t->ps));
	}
}

static int train_body(struct mp_job *job)
{
	const struct plan *p = job->arg;
	int w = job->rank - p->servers;
	struct tables t = {0};

	TT_EXPECT(!open_tables(job, p->servers, &t));
	if (w >= 0) {
		TT_EXPECT(!work(job, p, &t, w));
		TT_EXPECT(!check_own(job, &t, w));
		if (!p->dies)
			TT_EXPECT(!check_all(job, &t));
	}
	MP_OK(tutti_ps_close(t.ps));
	return 0;
}

static void run(struct plan p, const char *env)
{
	unsigned killed = p.dies ? 3u << (p.servers + 1) : 0;

	TT_CHECK(!MP_RUN(.n = WORKERS + p.servers, .env = env, .fn = train_body, .arg = &p,
			 .killed = killed));
}

static void first(void)
{
	run((struct plan){.servers = 1}, "TUTTI_TRANSPORT=shm");
	run((struct plan){.servers = 1, .slow_ms = 20}, "TUTTI_TRANSPORT=shm");
	run((struct plan){.servers = 2, .slow_ms = 20}, "TUTTI_TRANSPORT=shm");
}

static void network(void)
{
	if (mp_no_ofi()) {
		TT_SKIP(mp_no_ofi());
		return;
	}
	run((struct plan){.servers = 2, .slow_ms = 20}, "TUTTI_TRANSPORT=ofi");
}

static void deaths(void)
{
	run((struct plan){.servers = 1, .dies = true}, "TUTTI_TRANSPORT=shm");
	run((struct plan){.servers = 2, .dies = true}, "TUTTI_TRANSPORT=shm");
}

/* Worker 0 ends the clock; worker 1's push comes later, and is its last one. */
static int last_push_body(struct mp_job *job)
{
	struct tutti_ps_read read = {.size = sizeof(read)};
	const int64_t one[FAR] = {1};
	struct tables t = {0};
	int64_t v;

	TT_EXPECT(!open_tables(job, 1, &t));
	if (job->rank == 1) {
		MP_OK(tutti_ps_push(t.sum, one, 0, FAR, TUTTI_INT64));
		MP_OK(tutti_ps_clock(t.ps));
		MP_OK(tutti_ps_pull(t.sum, &v, 0, 1, TUTTI_INT64));
	}
	mp_meet(job);
	if (job->rank == 2) {
		MP_OK(tutti_ps_push(t.sum, one, 0, FAR, TUTTI_INT64));
		MP_OK(tutti_ps_last_read(t.sum, &read));
		TT_EXPECT(read.dropped == FAR);
	}
	MP_OK(tutti_ps_close(t.ps));
	return 0;
}

static void last_push(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm", .fn = last_push_body));
}

/* Saved at the end, and restored by workers that begin. */
static int save_body(struct mp_job *job)
{
	const struct plan p = {.servers = 1};
	struct tables t = {0}, again = {0};
	int w = job->rank - 1;
	char path[80];

	snprintf(path, sizeof(path), "%s/x", job->shared->dir);
	TT_EXPECT(!open_tables(job, 1, &t));
	if (w >= 0) {
		TT_EXPECT(!work(job, &p, &t, w));
		MP_OK(tutti_ps_save(t.ps, path));
	}
	MP_OK(tutti_ps_close(t.ps));
	TT_EXPECT(!open_tables(job, 1, &again));
	if (w >= 0) {
		MP_OK(tutti_ps_restore(again.ps, path));
		TT_EXPECT(!check_all(job, &again));
		atomic_fetch_add(&job->shared->word[0], 1); /* three of them end a clock */
		TT_EXPECT(mp_await(&job->shared->word[0], WORKERS, 30000));
		TT_EXPECT(!push(job, &p, &again, w));
		MP_OK(tutti_ps_clock(again.ps));
	}
	MP_OK(tutti_ps_close(again.ps));
	if (!job->rank)
		unlink(path);
	return 0;
}

static void save(void)
{
	TT_CHECK(!MP_RUN(.n = WORKERS + 1, .env = "TUTTI_TRANSPORT=shm", .fn = save_body));
}

static int refused_body(struct mp_job *job)
{
	const struct tutti_ps_config good = {.size = sizeof(good), .backup = 1};
	struct tutti_ps_options opt = {.size = sizeof(opt), .essp = 1};
	struct tutti_ps_config c = good;
	struct tutti_ps *ps, *bigger;
	struct tutti_ps_table *t;

	c.backup = -1;
	MP_ERR(tutti_ps_open(job->world, &c, &ps), -EINVAL);
	MP_SAID("backup is -1");
	c.backup = 3;
	MP_ERR(tutti_ps_open(job->world, &c, &ps), -EINVAL);
	MP_SAID("3 backup workers are too many: there are 3 workers");
	c.backup = job->rank == 1 ? 2 : 1;
	MP_ERR(tutti_ps_open(job->world, &c, &ps), -TUTTI_EMISMATCH);
	MP_SAID("backup is 1 on rank 0, 2 on rank 1");
	c = good;
	c.staleness = 1;
	MP_ERR(tutti_ps_open(job->world, &c, &ps), -EINVAL);
	MP_SAID("staleness of 0");
	c = good;
	c.copies = 2;
	MP_ERR(tutti_ps_open(job->world, &c, &ps), -EINVAL);
	c = good;
	c.pad = 1;
	MP_ERR(tutti_ps_open(job->world, &c, &ps), -EINVAL);
	MP_SAID("pad is 1");
	MP_OK(tutti_ps_open(job->world, &good, &ps));
	MP_ERR(tutti_ps_dense(ps, "t", 1, TUTTI_FLOAT32, &opt, &t), -EINVAL);
	MP_SAID("essp is not for backup workers");
	MP_ERR(tutti_ps_resize(ps, job->world, NULL, &bigger), -EINVAL);
	MP_SAID("keeps its size");
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void refused(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm", .fn = refused_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"first", first},   {"network", network},
					       {"deaths", deaths}, {"last_push", last_push},
					       {"save", save},	   {"refused", refused},
					       {NULL, NULL}};

	return tt_test_main("ps_backup", tests, argc, argv);
}
