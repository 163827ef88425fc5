/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows: their edges, which nothing crosses, and atomics that ranks of several hosts contend
 * for.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define GUARD 64
#define SIZE 4096

/* How often, at least; on an emulated processor less. */
static int adds = 100, locks = 25;

/* ---- edges ---- */

struct edge {
	uint64_t offset;
	size_t len;
	bool fits;
};

static const struct edge edges[] = {
	{0, 1, true},
	{0, SIZE, true},
	{SIZE - 1, 1, true},
	{SIZE - 8, 8, true},
	{0, 0, true},
	{SIZE, 0, true},
	{SIZE + 1, 0, false},
	{SIZE, 1, false},
	{SIZE - 7, 8, false},
	{0, SIZE + 1, false},
	{1, SIZE, false},
	{UINT64_MAX, 1, false},
	{UINT64_MAX, 0, false},
	{UINT64_MAX - 7, 8, false},
	{UINT64_MAX - 3, 8, false},
	{UINT64_MAX - SIZE + 1, SIZE, false},
	{1ull << 63, 8, false},
	{(uint64_t)-GUARD, GUARD, false},
	{8, SIZE_MAX, false},
	{8, SIZE_MAX - 7, false},
};

static int try_edge(struct tutti_win *win, struct mp_job *job, int target, const struct edge *e,
		    unsigned char *local, unsigned char fill)
{
	uint64_t old = 1;
	size_t k;

	memset(local, fill, SIZE + 1);
	if (!e->fits) {
		MP_ERR(tutti_put(win, target, local, e->len, e->offset), -ERANGE);
		MP_ERR(tutti_put_notify(win, target, local, e->len, e->offset), -ERANGE);
		MP_ERR(tutti_get(win, target, local, e->len, e->offset), -ERANGE);
		if (e->len == 8 && e->offset % 8 == 0)
			MP_ERR(tutti_fetch_add(win, target, 1, e->offset, &old), -ERANGE);
		TT_EXPECT(old == 1);
		return 0;
	}
	MP_OK(tutti_put(win, target, local, e->len, e->offset));
	MP_OK(tutti_win_flush(win, target));
	memset(local, 0, SIZE + 1);
	MP_OK(tutti_get(win, target, local, e->len, e->offset));
	MP_OK(tutti_win_flush(win, target));
	for (k = 0; k <= SIZE; k++)
		TT_EXPECT(local[k] == (k < e->len ? fill : 0));
	return 0;
}

static int atomic_errors(struct mp_job *job, struct tutti_win *win, int target)
{
	uint64_t old = 1;

	MP_ERR(tutti_fetch_add(win, target, 1, 4, &old), -EINVAL);
	MP_SAID("multiple of 8");
	MP_ERR(tutti_compare_swap(win, target, 0, 1, SIZE - 9, &old), -EINVAL);
	MP_ERR(tutti_fetch_add(win, target, 1, SIZE, &old), -ERANGE);
	MP_ERR(tutti_compare_swap(win, target, 0, 1, UINT64_MAX - 7, &old), -ERANGE);
	MP_ERR(tutti_fetch_add(win, target, 1, 0, NULL), -EINVAL);
	MP_ERR(tutti_fetch_add(win, job->n, 1, 0, &old), -EINVAL);
	MP_ERR(tutti_compare_swap(NULL, target, 0, 1, 0, &old), -EINVAL);
	TT_EXPECT(old == 1);
	/* the last word of the window, both ways round 2^64 */
	MP_OK(tutti_fetch_add(win, target, 5, SIZE - 8, &old));
	MP_OK(tutti_fetch_add(win, target, (uint64_t)-5, SIZE - 8, &old));
	return 0;
}

/* Rank 1 tries every edge of rank 0's window, then each rank of its own. */
static int edges_body(struct mp_job *job)
{
	unsigned char *mem, *local;
	struct tutti_win *win;
	size_t i;
	int turn;

	MP_OK(tutti_alloc(job->ctx, SIZE + 2 * GUARD, (void **)&mem));
	MP_OK(tutti_alloc(job->ctx, SIZE + 1, (void **)&local));
	memset(mem, 0xa5, SIZE + 2 * GUARD);
	MP_OK(tutti_win_create(job->world, mem + GUARD, SIZE, 0, &win));
	for (turn = job->n == 1; turn < 2; turn++) { /* a single rank has transport self */
		int target = turn ? job->rank : 0;

		for (i = 0; (turn || job->rank == 1) && i < sizeof(edges) / sizeof(edges[0]); i++)
			if (try_edge(win, job, target, &edges[i], local, (unsigned char)(i + 1))) {
				fprintf(stderr, "rank %d, edge %zu\n", job->rank, i);
				return 1;
			}
		if (turn || job->rank == 1)
			TT_EXPECT(!atomic_errors(job, win, target));
		MP_OK(tutti_barrier(job->world));
		for (i = 0; i < GUARD; i++)
			TT_EXPECT(mem[i] == 0xa5 && mem[GUARD + SIZE + i] == 0xa5);
		if (job->rank == 0)
			TT_EXPECT(mem[GUARD] == 2 && mem[GUARD + SIZE - 1] == 4);
		MP_OK(tutti_barrier(job->world));
	}
	MP_OK(tutti_win_free(win));
	MP_OK(tutti_free(mem));
	MP_OK(tutti_free(local));
	return 0;
}

/* ---- atomics ---- */

/*
 * All ranks, the target included, add to two words of it, each adds times and then until the
 * slowest has done so, too: those on mapped memory would be through before the others begin. Every
 * old value is seen exactly once.
 */
static int contend(struct mp_job *job, struct tutti_win *win, int target)
{
	uint64_t old, before = 0, step = (1ull << 40) + (uint64_t)job->rank, *sum, i;

	MP_OK(tutti_alloc(job->ctx, 24, (void **)&sum));
	atomic_store(&job->shared->word[6], 0);
	mp_meet(job);
	sum[1] = 0;
	for (i = 0; i < (uint64_t)adds || atomic_load(&job->shared->word[6]) < job->n; i++) {
		MP_OK(tutti_fetch_add(win, target, 1, 0, &old));
		TT_EXPECT(!i || old > before);
		before = old;
		sum[1] += old;
		MP_OK(tutti_fetch_add(win, target, step, 8, &old));
		if (i == (uint64_t)adds - 1)
			atomic_fetch_add(&job->shared->word[6], 1);
	}
	sum[0] = i;
	sum[2] = i * step;
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, sum, 3, TUTTI_UINT64, TUTTI_SUM, job->world));
	MP_OK(tutti_fetch_add(win, target, 0, 0, &old));
	TT_EXPECT(old == sum[0]);
	TT_EXPECT(sum[1] == sum[0] * (sum[0] - 1) / 2);
	MP_OK(tutti_fetch_add(win, target, 0, 8, &old));
	TT_EXPECT(old == sum[2]);
	MP_OK(tutti_free(sum));
	return 0;
}

/* A lock of compare_swap around a word that is read and written without atomics. */
static int lock(struct mp_job *job, struct tutti_win *win, int target)
{
	uint64_t old, me = (uint64_t)job->rank + 1, *word;
	int i;

	MP_OK(tutti_alloc(job->ctx, 8, (void **)&word));
	for (i = 0; i < locks; i++) {
		do {
			MP_OK(tutti_compare_swap(win, target, 0, me, 16, &old));
			TT_EXPECT(old <= (uint64_t)job->n && old != me);
		} while (old);
		MP_OK(tutti_get(win, target, word, 8, 24));
		MP_OK(tutti_win_flush(win, target));
		++*word;
		MP_OK(tutti_put(win, target, word, 8, 24));
		MP_OK(tutti_win_flush(win, target));
		MP_OK(tutti_compare_swap(win, target, me, 0, 16, &old));
		TT_EXPECT(old == me);
	}
	MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_get(win, target, word, 8, 24));
	MP_OK(tutti_win_flush(win, target));
	TT_EXPECT(*word == (uint64_t)(job->n * locks));
	MP_OK(tutti_free(word));
	return 0;
}

/* Rank 0 only computes meanwhile. */
static int silent(struct mp_job *job, struct tutti_win *win)
{
	uint64_t old;
	int i;

	MP_OK(tutti_barrier(job->world));
	mp_meet(job);
	if (job->rank == 0) {
		TT_EXPECT(mp_await(&job->shared->word[5], job->n - 1, 15000));
	} else {
		for (i = 0; i < 50; i++)
			MP_OK(tutti_fetch_add(win, 0, 1, 32, &old));
		atomic_fetch_add(&job->shared->word[5], 1);
	}
	mp_meet(job);
	MP_OK(tutti_fetch_add(win, 0, 0, 32, &old));
	TT_EXPECT(old == (uint64_t)(job->n - 1) * 50);
	return 0;
}

static int atomics_on(struct mp_job *job, void *mem, bool plain)
{
	struct tutti_win *win;
	int target;

	memset(mem, 0, SIZE);
	MP_OK(tutti_win_create(job->world, mem, SIZE, 0, &win));
	for (target = 0; target<job->n; target += job->n> 1 ? job->n - 1 : 1) {
		TT_EXPECT(!contend(job, win, target));
		if (!plain) /* which put and get can't reach everywhere */
			TT_EXPECT(!lock(job, win, target));
		MP_OK(tutti_barrier(job->world));
	}
	atomic_store(&job->shared->word[5], 0);
	TT_EXPECT(!silent(job, win));
	MP_OK(tutti_win_free(win));
	return 0;
}

static int atomics_body(struct mp_job *job)
{
	static _Alignas(64) char plain[SIZE];
	void *mem;

	MP_OK(tutti_alloc(job->ctx, SIZE, &mem));
	TT_EXPECT(!atomics_on(job, mem, false));
	TT_EXPECT(!atomics_on(job, plain, true));
	MP_OK(tutti_free(mem));
	return 0;
}

/* Half of the ranks on one host, half on another. */
static int join_halves(struct mp_job *job)
{
	struct tutti_config config = {0};

	setenv("TUTTI_HOST_ID", job->rank < job->n / 2 ? "a" : "b", 1);
	mp_log_level(job, TUTTI_LOG_INFO);
	MP_OK(mp_join(job, MP_ID, &config));
	return 0;
}

static int pool_atomics(struct mp_job *job)
{
	void *mem;

	MP_OK(tutti_alloc(job->ctx, SIZE, &mem));
	TT_EXPECT(!atomics_on(job, mem, false));
	MP_OK(tutti_free(mem));
	return 0;
}

/* Origins on mapped memory and remote ones at once. */
static int hosts_body(struct mp_job *job)
{
	TT_EXPECT(!join_halves(job));
	TT_EXPECT(!atomics_body(job));
	TT_EXPECT(mp_log_has(job, "reached over shm") && mp_log_has(job, "reached over ofi"));
	return 0;
}

/* Every origin, the target too, by the target's device; two of four are of its host. */
static int device_body(struct mp_job *job)
{
	TT_EXPECT(!join_halves(job) && !pool_atomics(job));
	TT_EXPECT(mp_log_has(job, "by the devices of the targets") && !mp_log_has(job, "by CPUs"));
	return 0;
}

/* Those of its host can't: so none does. */
static int mixed_body(struct mp_job *job)
{
	TT_EXPECT(!join_halves(job) && !pool_atomics(job));
	TT_EXPECT(mp_log_has(job, "reached over shm") && mp_log_has(job, "reached over verbs"));
	TT_EXPECT(mp_log_has(job, "by CPUs") && !mp_log_has(job, "by the devices"));
	return 0;
}

/* The target dies: an error, not a wait. */
static int kill_body(struct mp_job *job)
{
	struct tutti_win *win;
	uint64_t old;
	void *mem;
	int err;

	MP_OK(tutti_alloc(job->ctx, SIZE, &mem));
	memset(mem, 0, SIZE);
	MP_OK(tutti_win_create(job->world, mem, SIZE, 0, &win));
	MP_OK(tutti_fetch_add(win, 0, 1, 0, &old));
	mp_meet(job); /* not a barrier, which rank 1 might not have left */
	if (job->rank == 0)
		kill(getpid(), SIGKILL);
	do {
		err = tutti_fetch_add(win, 0, 1, 0, &old);
	} while (!err);
	MP_ERR(err, -TUTTI_EPEER);
	MP_ERR(tutti_win_free(win), -TUTTI_EPEER);
	return 0;
}

static void run(const char *env)
{
	TT_CHECK(!MP_RUN(.n = 1, .env = env, .fn = atomics_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = env, .fn = edges_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = atomics_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = env, .fn = kill_body, .killed = 1));
}

static void shm(void)
{
	run("TUTTI_TRANSPORT=shm");
}

static void shm_fault(void)
{
	const char *env = "TUTTI_TRANSPORT=fault:shm "
			  "TUTTI_FAULT=seed=3,delay=0.1:100,reorder=0.3,again=0.2,finish=1";

	TT_CHECK(!MP_RUN(.n = 2, .env = env, .fn = edges_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = atomics_body));
}

/*
 * With some providers a refused operation may end the connection; operations out of bounds fail
 * before that.
 */
static void ofi_more(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 2, .fn = edges_body,
			 .env = "TUTTI_TRANSPORT=fault:ofi "
				"TUTTI_FAULT=seed=3,delay=0.1:100,reorder=0.3,again=0.2"));
	TT_CHECK(!MP_RUN(.n = 2, .fn = edges_body,
			 .env = "TUTTI_TRANSPORT=ofi TUTTI_OFI_EP=rdm "
				"TUTTI_OFI_PROVIDER=tcp;ofi_rxm"));
	TT_CHECK(!MP_RUN(.n = 1, .fn = edges_body));
}

/* Rank 0 is stopped under an atomic: that is the reason for which the communicator fails. */
static int late_body(struct mp_job *job)
{
	struct tutti_comm_state state = {.size = sizeof(state)};
	uint64_t word = 5, old = 0;
	struct tutti_win *win;
	int err;

	MP_OK(tutti_comm_set_timeout(job->world, 30000)); /* of the collectives */
	MP_OK(tutti_win_create(job->world, &word, sizeof(word), 0, &win));
	MP_OK(tutti_fetch_add(win, 0, 0, 0, &old));
	TT_EXPECT(old == 5);
	atomic_store(&job->shared->pid[job->rank], (int)getpid());
	mp_meet(job);
	if (job->rank == 0) {
		TT_EXPECT(mp_await(&job->shared->word[5], 1, 30000));
	} else {
		TT_EXPECT(!mp_stop(atomic_load(&job->shared->pid[0])));
		err = tutti_fetch_add(win, 0, 1, 0, &old);
		MP_OK(tutti_comm_state(job->world, &state));
		atomic_store(&job->shared->word[5], 1);
		kill(atomic_load(&job->shared->pid[0]), SIGCONT);
		TT_EXPECT(err == -ETIMEDOUT && state.code == -ETIMEDOUT);
	}
	tutti_win_free(win);
	mp_leave(job);
	return 0;
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	run("TUTTI_TRANSPORT=ofi");
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=ofi TUTTI_TIMEOUT=2s", .fn = late_body));
}

static void hosts(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 4, .fn = hosts_body, .no_init = true));
}

static void verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	run("TUTTI_TRANSPORT=verbs");
}

static void verbs_device(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_TRANSPORT=verbs", .fn = device_body,
			 .no_init = true));
}

static void verbs_mixed(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_TRANSPORT=shm,verbs", .fn = mixed_body,
			 .no_init = true));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"shm", shm},
		{"shm_fault", shm_fault},
		{"ofi", ofi},
		{"hosts", hosts},
		{"ofi_more", ofi_more},
		{"verbs", verbs},
		{"verbs_device", verbs_device},
		{"verbs_mixed", verbs_mixed},
		{NULL, NULL},
	};

	if (getenv("TT_GUEST"))
		adds = locks = 10;
	return tt_test_main("atomics", tests, argc, argv);
}
