/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accumulates that the origin makes in mapped memory: which way they go, both ways at once, and
 * ranks that are stopped, killed or late while they hold the lock of a part. The vector of such a
 * rank has a page without access, so that it faults, and runs the trap, in the middle of a piece.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/rma/win_accumulate.h"
#include "lib/wire/wire_internal.h"

#define HOSTS "TUTTI_TRANSPORT=shm,ofi TUTTI_IF=lo TUTTI_HOST_ID=h%h" /* two ranks each */
#define PAGE 4096
#define WORDS (2 * PAGE / 8) /* of a vector with a trap, in one piece */
#define SIZE (64u << 10)

/* Words of the job. */
enum { TRAPPED = 5, GO_ON, DONE, BEGUN, ENDED };

static int add(struct tutti_win *win, int rank, uint64_t word)
{
	static const uint64_t one = 1;
	int err = tutti_accumulate(win, rank, &one, 1, TUTTI_UINT64, TUTTI_SUM, 8 * word);

	return err ? err : tutti_win_flush(win, rank);
}

/* All ranks have mapped rank 0's part then, if they can. */
static int new_window(struct mp_job *job, struct tutti_comm *comm, uint64_t **mine,
		      struct tutti_win **win)
{
	MP_OK(tutti_win_allocate(comm, SIZE, TUTTI_WIN_ACCUMULATE, (void **)mine, win));
	MP_OK(add(*win, 0, 0));
	mp_meet(job);
	return 0;
}

static int requests(const struct tutti_win *win, int rank)
{
	return (int)win->accs->peer[rank].seq;
}

static int holder(const struct tutti_win *win, int rank)
{
	return tt_part_holder(win->accs->peer[rank].lock);
}

/* ---- a trap in a vector ---- */

static struct {
	struct mp_job *job;
	char *page[2];
	void (*spring[2])(void);
} trap;

static void touched(int sig, siginfo_t *info, void *context)
{
	char *at = info->si_addr;
	int i;

	(void)sig, (void)context;
	for (i = 0; i < 2; i++)
		if (trap.page[i] && at >= trap.page[i] && at < trap.page[i] + PAGE) {
			trap.spring[i]();
			mprotect(trap.page[i], PAGE, PROT_READ | PROT_WRITE);
			return;
		}
	signal(SIGSEGV, SIG_DFL);
}

/* A vector of ones. */
static uint64_t *ones(size_t words)
{
	uint64_t *v =
		mmap(NULL, words * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t i;

	for (i = 0; i < words; i++)
		v[i] = 1;
	return v;
}

static void set_trap(struct mp_job *job, int i, void *page, void (*spring)(void))
{
	struct sigaction act = {.sa_sigaction = touched, .sa_flags = SA_SIGINFO | SA_NODEFER};

	trap.job = job;
	trap.page[i] = page;
	trap.spring[i] = spring;
	mprotect(page, PAGE, PROT_NONE);
	sigaction(SIGSEGV, &act, NULL);
}

static uint64_t *trapped(struct mp_job *job, void (*spring)(void))
{
	uint64_t *v = ones(WORDS);

	set_trap(job, 0, (char *)v + PAGE, spring);
	return v;
}

static void die(void)
{
	atomic_store(&trap.job->shared->word[TRAPPED], 1);
	kill(getpid(), SIGKILL);
	pause();
}

static void stop(void)
{
	atomic_store(&trap.job->shared->word[TRAPPED], 1);
	raise(SIGSTOP);
}

static void linger(void)
{
	atomic_store(&trap.job->shared->word[TRAPPED], 1);
	mp_await(&trap.job->shared->word[GO_ON], 1, MP_HANG_MS);
}

static int await(struct mp_job *job, int word, int value)
{
	TT_EXPECT(mp_await(&job->shared->word[word], value, MP_HANG_MS));
	return 0;
}

/* ---- the ways ---- */

/* Ranks of one host send no requests, and wake no thread of a target that makes no call. */
static int near_body(struct mp_job *job)
{
	uint64_t *mine, *vector = ones(SIZE / 8), sum = 0;
	struct tutti_request *req = NULL;
	struct tutti_win *win;
	int r, round, far;

	TT_EXPECT(!new_window(job, job->world, &mine, &win));
	for (round = 0; job->rank && round < 50; round++) {
		MP_OK(tutti_accumulate(win, 0, vector, SIZE / 8, TUTTI_UINT64, TUTTI_SUM, 0));
		MP_OK(tutti_iaccumulate(win, 0, vector, 1, TUTTI_UINT64, TUTTI_SUM, 8, &req));
		MP_OK(tutti_get_accumulate(win, 0, NULL, &sum, 1, TUTTI_UINT64, TUTTI_NO_OP, 8));
		MP_OK(tutti_wait(&req));
		MP_OK(tutti_win_flush(win, 0));
		TT_EXPECT(sum > (uint64_t)round);
	}
	mp_meet(job);
	MP_OK(tutti_barrier(job->world)); /* an order for ThreadSanitizer */
	TT_EXPECT(job->rank || (mine[0] == (uint64_t)(51 * job->n - 50) &&
				mine[1] == 100 * (uint64_t)(job->n - 1) &&
				mine[SIZE / 8 - 1] == 50 * (uint64_t)(job->n - 1)));
	for (r = 0; r < job->n; r++) {
		far = job->arg && r / 2 != job->rank / 2;
		TT_EXPECT((requests(win, r) > 0) == (far && !r));
		TT_EXPECT(win->bell[r].woken == (far && !r));
	}
	MP_OK(tutti_win_free(win));
	return 0;
}

/* All ranks add to the same elements, in all forms. */
static int totals_body(struct mp_job *job)
{
	enum { ROUNDS = 3000, LONG = SIZE / 8, FORMS = 5 };
	uint64_t *mine, *vector = ones(LONG), old, n = 0, all = 0, longs = 0;
	struct tutti_request *req[ROUNDS / FORMS];
	struct tutti_win *win;
	int i, nreq = 0;

	TT_EXPECT(!new_window(job, job->world, &mine, &win));
	for (i = 0; i < ROUNDS; i++) {
		if (i % FORMS == 0)
			MP_OK(tutti_iaccumulate(win, 0, vector, 1, TUTTI_UINT64, TUTTI_SUM, 0,
						&req[nreq++]));
		else if (i % FORMS == 1)
			MP_OK(tutti_get_accumulate(win, 0, vector, &old, 1, TUTTI_UINT64, TUTTI_SUM,
						   0));
		else
			MP_OK(tutti_accumulate(win, 0, vector, i % 100 == 3 ? LONG : 1,
					       TUTTI_UINT64, TUTTI_SUM, 0));
		longs += i % 100 == 3;
		if (i % 40 == 0)
			MP_OK(tutti_win_flush(win, 0));
	}
	MP_OK(tutti_waitall(nreq, req));
	MP_OK(tutti_win_flush_all(win));
	MP_OK(tutti_barrier(job->world));
	n = (uint64_t)job->n;
	all = n * (ROUNDS + 1);
	TT_EXPECT(job->rank ||
		  (mine[0] == all && mine[1] == n * longs && mine[LONG - 1] == mine[1]));
	MP_OK(tutti_win_free(win));
	return 0;
}

/*
 * A request for more than is combined at once, waited for with tests; the last rank's is its very
 * first access. Rank 0 makes no call meanwhile.
 */
static int long_body(struct mp_job *job)
{
	enum { LONG = (2 * TT_ACC_AT_ONCE + 1) * TT_ACC_MOST };
	struct tutti_request *req = NULL;
	struct tutti_win *win;
	uint64_t *mine, *vector;
	int done = 0;

	MP_OK(tutti_win_allocate(job->world, LONG, TUTTI_WIN_ACCUMULATE, (void **)&mine, &win));
	vector = ones(LONG / 8);
	if (job->rank && job->rank < job->n - 1)
		MP_OK(add(win, 0, 0));
	if (job->rank)
		MP_OK(tutti_iaccumulate(win, 0, vector, LONG / 8, TUTTI_UINT64, TUTTI_SUM, 0,
					&req));
	while (job->rank && !done)
		MP_OK(tutti_test(&req, &done));
	TT_EXPECT(!requests(win, 0));
	mp_meet(job);
	MP_OK(tutti_barrier(job->world));
	TT_EXPECT(job->rank || (mine[0] == 2 * (uint64_t)job->n - 3 &&
				mine[1] == (uint64_t)job->n - 1 && mine[LONG / 8 - 1] == mine[1]));
	MP_OK(tutti_win_free(win));
	munmap(vector, LONG);
	return 0;
}

/* The kernel refuses this rank to map rank 0's memory: it sends requests from now on. */
static int add_unmapped(struct tutti_win *win)
{
	struct rlimit old, none;
	int err;

	TT_EXPECT(!getrlimit(RLIMIT_NOFILE, &old));
	none = (struct rlimit){.rlim_cur = 3, .rlim_max = old.rlim_max};
	TT_EXPECT(!setrlimit(RLIMIT_NOFILE, &none));
	err = add(win, 0, 0);
	TT_EXPECT(!setrlimit(RLIMIT_NOFILE, &old));
	return err;
}

/* The kernel refuses rank 1 to map rank 0's memory: it sends requests, also later. */
static int refused_body(struct mp_job *job)
{
	struct tutti_win *win;
	uint64_t *mine;
	int word = 0;

	MP_OK(tutti_win_allocate(job->world, SIZE, TUTTI_WIN_ACCUMULATE, (void **)&mine, &win));
	MP_OK(job->rank ? tutti_send(&word, 1, TUTTI_INT32, 0, 0, job->world)
			: tutti_recv(&word, 1, TUTTI_INT32, 1, 0, job->world, NULL));
	MP_OK(job->rank ? add_unmapped(win) : add(win, 0, 0));
	MP_OK(add(win, 0, 0));
	MP_OK(tutti_barrier(job->world));
	TT_EXPECT(job->rank || mine[0] == 4);
	TT_EXPECT(requests(win, 0) == 2 * job->rank);
	MP_OK(tutti_win_free(win));
	return 0;
}

/* A part without write access elsewhere can be got, and has no lock. */
static int read_only_body(struct mp_job *job)
{
	uint64_t *mine, got[3] = {0}, r;
	struct tutti_win *win;
	int i;

	MP_OK(tutti_win_allocate(job->world, SIZE, TUTTI_WIN_ACCUMULATE | TUTTI_WIN_READ_ONLY,
				 (void **)&mine, &win));
	mine[7] = (uint64_t)job->rank + 40;
	mp_meet(job);
	for (i = 0; i < 2; i++)
		for (r = 0; r < (uint64_t)job->n; r++) {
			MP_OK(tutti_get_accumulate(win, (int)r, NULL, got, 3, TUTTI_UINT64,
						   TUTTI_NO_OP, 48));
			MP_OK(tutti_win_flush(win, (int)r));
			TT_EXPECT(got[1] == r + 40 && !got[0] && !got[2]);
			MP_ERR(add(win, (int)r, 0), -EACCES);
			TT_EXPECT(!requests(win, (int)r));
		}
	MP_OK(tutti_win_free(win));
	return 0;
}

/* ---- holders ---- */

enum ending { KILLED, STOPPED, RENAMED };

/* Rank 1 dies with the lock of rank 0's part, and another process then has its process id. */
static void die_renamed(struct mp_job *job, const struct tutti_win *win)
{
	struct tt_part_lock *lock = win->accs->peer[0].lock;

	while (!tt_part_take(lock, 0, tt_part_name(1, getppid())))
		sched_yield();
	trap.job = job;
	die();
}

/*
 * Rank 1 dies, or is stopped and taken for dead, while it holds the lock of rank 0's part: ranks 0
 * and 2 take it over, each element of rank 1's vector is there or not. If its process id is in use
 * again, rank 0 knows by the death that the lock is free, also if it makes no call.
 */
static int dead_holder_body(struct mp_job *job)
{
	struct tutti_comm_config tolerant = {.size = sizeof(tolerant),
					     .flags = TUTTI_COMM_TOLERANT};
	struct tutti_stats stats = {.size = sizeof(stats)};
	const enum ending *how = job->arg;
	double end = mp_now() + MP_HANG_MS / 1000.0;
	struct tutti_comm *comm;
	struct tutti_win *win;
	uint64_t *mine;
	int i;

	MP_OK(tutti_comm_create(job->world, &tolerant, &comm));
	TT_EXPECT(!new_window(job, comm, &mine, &win));
	if (job->rank == 1 && *how == RENAMED)
		die_renamed(job, win);
	if (job->rank == 1)
		tutti_accumulate(win, 0, trapped(job, *how == STOPPED ? stop : die), WORDS,
				 TUTTI_UINT64, TUTTI_SUM, PAGE);
	TT_EXPECT(job->rank != 1 && !await(job, TRAPPED, 1));
	for (i = 0; i < 100 && (job->rank || *how != RENAMED); i++)
		MP_OK(add(win, 0, 0));
	atomic_fetch_add(&job->shared->word[DONE], 1);
	TT_EXPECT(!await(job, DONE, 2));
	MP_OK(tutti_stats_get(job->ctx, &stats)); /* takes the lock of the thread that combined */
	TT_EXPECT(mp_now() < end && holder(win, 0) != 1);
	TT_EXPECT(job->rank || mine[0] == (*how == RENAMED ? 103 : 203));
	for (i = PAGE / 8; !job->rank && i < PAGE / 8 + WORDS; i++)
		TT_EXPECT(mine[i] <= 1);
	MP_ERR(tutti_win_free(win), -TUTTI_EPEER);
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

/* The same in a communicator that fails. */
static int failed_body(struct mp_job *job)
{
	double end = mp_now() + MP_HANG_MS / 1000;
	struct tutti_win *win;
	uint64_t *mine;
	int err = 0;

	TT_EXPECT(!new_window(job, job->world, &mine, &win));
	if (job->rank == 1)
		tutti_accumulate(win, 0, trapped(job, die), WORDS, TUTTI_UINT64, TUTTI_SUM, PAGE);
	TT_EXPECT(!await(job, TRAPPED, 1));
	while (!err && mp_now() < end)
		err = add(win, 0, 0);
	TT_EXPECT(!mp_died(job, err, 0, NULL));
	tutti_win_free(win);
	mp_leave(job);
	return 0;
}

/* Rank 1 holds the lock of rank 0's part until another one lets it go on; rank 2 goes on at once.
 */
static int hold(struct mp_job *job, struct tutti_win *win)
{
	if (job->rank == 1)
		return tutti_accumulate(win, 0, trapped(job, linger), WORDS, TUTTI_UINT64,
					TUTTI_SUM, PAGE);
	TT_EXPECT(!await(job, TRAPPED, 1));
	return 0;
}

static int late_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_comm_state state = {.size = sizeof(state)};
	double end = mp_now() + MP_HANG_MS / 1000;
	struct tutti_win *win;
	uint64_t *mine, one = 1;

	TT_EXPECT(!new_window(job, job->world, &mine, &win));
	TT_EXPECT(!hold(job, win) || job->rank == 1);
	if (job->rank == 2) {
		win->comm->ctx->env.timeout.number = 1000;
		TT_EXPECT(holder(win, 0) == 1);
		MP_OK(tutti_accumulate(win, 0, &one, 1, TUTTI_UINT64, TUTTI_SUM, 8));
		MP_ERR(tutti_win_flush(win, 0), -ETIMEDOUT);
		MP_SAID("rank 1 on host");
		MP_OK(tutti_last_error(&info));
		TT_EXPECT(info.rank == 1);
		MP_ERR(tutti_accumulate(win, 0, &one, 1, TUTTI_UINT64, TUTTI_SUM, 8), -ETIMEDOUT);
		MP_ERR(tutti_win_flush_all(win), -ETIMEDOUT);
		atomic_store(&job->shared->word[GO_ON], 1);
	}
	TT_EXPECT(!await(job, GO_ON, 1));
	while (!state.code && mp_now() < end) { /* until the others have the news */
		mp_sleep_ms(1);
		MP_OK(tutti_comm_state(job->world, &state));
	}
	TT_EXPECT(state.code == -ETIMEDOUT);
	/* what timed out was not combined */
	TT_EXPECT(job->rank || !mine[1]);
	tutti_win_free(win);
	mp_leave(job);
	return 0;
}

/* A request ends the communicator, and names rank 1 as well. */
static int late_request_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_request *req = NULL;
	struct tutti_win *win;
	uint64_t *mine, one = 1;

	TT_EXPECT(!new_window(job, job->world, &mine, &win));
	TT_EXPECT(!hold(job, win) || job->rank == 1);
	if (job->rank == 2) {
		MP_OK(tutti_comm_set_timeout(job->world, 2000));
		MP_OK(tutti_iaccumulate(win, 0, &one, 1, TUTTI_UINT64, TUTTI_SUM, 8, &req));
		MP_ERR(tutti_wait(&req), -ETIMEDOUT);
		MP_SAID("it waits for rank 1 on host");
		MP_OK(tutti_last_error(&info));
		TT_EXPECT(info.rank == 1);
		atomic_store(&job->shared->word[GO_ON], 1);
	}
	TT_EXPECT(!await(job, GO_ON, 1));
	tutti_win_free(win);
	mp_leave(job);
	return 0;
}

#define MANY (3 * TT_ACC_DEPTH) /* more than are under way at a time */

static int kept(const struct tutti_win *win)
{
	const struct tt_list *head = &win->accs->locked, *l;
	int n = 0;

	for (l = head->next; l != head; l = l->next)
		n++;
	return n;
}

/* An element of this rank, which the progress thread adds to under the lock. */
static uint64_t element(struct mp_job *job, const uint64_t *at)
{
	uint64_t value;

	tt_wire_lock(job->ctx->wire);
	value = *at;
	tt_wire_unlock(job->ctx->wire);
	return value;
}

/*
 * A call of rank 0 takes the requests of rank 2 while the progress thread sleeps, and leaves them
 * to it, as rank 1 has the lock: none is served. The thread is woken, unless it sleeps for a
 * millisecond at most. Then rank 0 makes no call until all are served.
 */
static int take_requests(struct mp_job *job, struct tutti_win *win, const uint64_t *sum)
{
	struct tt_wire *wire = job->ctx->wire;
	int waited = 0;
	bool left;

	mp_sleep_ms(60);
	tt_wire_lock(wire);
	tt_engine_progress(job->ctx);
	atomic_store(&job->shared->word[BEGUN], 1);
	while (kept(win) < TT_ACC_DEPTH && waited++ < MP_HANG_MS) {
		tt_engine_progress(job->ctx);
		usleep(100);
	}
	tt_wire_leave(wire);
	left = atomic_load(&wire->sleepers) && !atomic_load(&wire->signalled) && !wire->brief;
	tt_wire_unlock(wire);
	TT_EXPECT(waited < MP_HANG_MS && !left && element(job, sum) == 3);
	atomic_store(&job->shared->word[GO_ON], 1);
	for (waited = 0; element(job, sum) < 3 + MANY && waited < MP_HANG_MS; waited++)
		mp_sleep_ms(1);
	TT_EXPECT(element(job, sum) == 3 + MANY);
	return 0;
}

static int left_body(struct mp_job *job)
{
	struct tutti_request *req[MANY];
	uint64_t *mine, one = 1;
	struct tutti_win *win;
	int i;

	MP_OK(tutti_win_allocate(job->world, SIZE, TUTTI_WIN_ACCUMULATE, (void **)&mine, &win));
	MP_OK(job->rank == 2 ? add_unmapped(win) : add(win, 0, 0));
	mp_meet(job);
	TT_EXPECT(!hold(job, win));
	if (!job->rank)
		TT_EXPECT(!take_requests(job, win, &mine[0]));
	TT_EXPECT(job->rank != 2 || !await(job, BEGUN, 1));
	for (i = 0; i < MANY && job->rank == 2; i++)
		MP_OK(tutti_iaccumulate(win, 0, &one, 1, TUTTI_UINT64, TUTTI_SUM, 0, &req[i]));
	if (job->rank == 2)
		MP_OK(tutti_waitall(MANY, req));
	TT_EXPECT(requests(win, 0) == (job->rank == 2 ? MANY + 1 : 0));
	MP_OK(tutti_win_free(win));
	return 0;
}

/* Requests that come as messages, and the target's own, wait for the lock, too. */
static int waiting_body(struct mp_job *job)
{
	struct tutti_request *req = NULL;
	uint64_t *mine, one = 1;
	struct tutti_win *win;
	int done = 0, i;

	TT_EXPECT(!new_window(job, job->world, &mine, &win));
	TT_EXPECT(!hold(job, win));
	if (job->rank == 0 || job->rank == 2) {
		MP_OK(tutti_iaccumulate(win, 0, &one, 1, TUTTI_UINT64, TUTTI_SUM, 0, &req));
		for (i = 0; i < 200; i++) {
			MP_OK(tutti_test(&req, &done));
			TT_EXPECT(!done);
			usleep(1000);
		}
		atomic_fetch_add(&job->shared->word[DONE], 1);
		TT_EXPECT(!await(job, DONE, 2));
		atomic_store(&job->shared->word[GO_ON], 1);
		MP_OK(tutti_wait(&req));
	}
	MP_OK(tutti_barrier(job->world));
	TT_EXPECT(job->rank || mine[0] == (uint64_t)job->n + 2);
	MP_OK(tutti_win_free(win));
	return 0;
}

/* A flush that waits for the lock ends when the communicator is revoked. */
static int revoked_body(struct mp_job *job)
{
	struct tutti_comm *comm;
	struct tutti_win *win;
	uint64_t *mine;

	MP_OK(tutti_comm_dup(job->world, &comm));
	TT_EXPECT(!new_window(job, comm, &mine, &win));
	TT_EXPECT(!hold(job, win) || job->rank == 1);
	if (job->rank == 0) {
		usleep(50000); /* rank 2 waits */
		MP_OK(tutti_comm_revoke(comm));
	} else if (job->rank == 2) {
		MP_ERR(add(win, 0, 0), -TUTTI_EREVOKED);
		atomic_store(&job->shared->word[GO_ON], 1);
	}
	TT_EXPECT(!await(job, GO_ON, 1));
	tutti_win_free(win);
	MP_OK(tutti_comm_free(comm));
	return 0;
}

static void begun(void)
{
	atomic_fetch_add(&trap.job->shared->word[BEGUN], 1);
}

static void ended(void)
{
	atomic_fetch_add(&trap.job->shared->word[ENDED], 1);
}

/*
 * Rank 1 combines long vectors. Rank 2 gets in between the first piece and the last one, both of
 * which say so while the lock is held, in one of many rounds: on a busy machine one of the two may
 * not run during most of them.
 */
static int between_body(struct mp_job *job)
{
	enum { LONG = 8 << 20 };
	double end = mp_now() + MP_HANG_MS / 1000;
	atomic_int *word = job->shared->word;
	struct tutti_win *win;
	uint64_t *mine, *vector;
	int seen;

	MP_OK(tutti_win_allocate(job->world, LONG, TUTTI_WIN_ACCUMULATE, (void **)&mine, &win));
	MP_OK(add(win, 0, 0));
	mp_meet(job);
	vector = ones(LONG / 8);
	while (job->rank == 1 && mp_now() < end && !atomic_load(&word[DONE])) {
		set_trap(job, 0, vector, begun);
		set_trap(job, 1, (char *)vector + LONG - PAGE, ended);
		MP_OK(tutti_accumulate(win, 0, vector, LONG / 8, TUTTI_UINT64, TUTTI_SUM, 0));
		MP_OK(tutti_win_flush(win, 0));
	}
	if (job->rank == 1)
		atomic_store(&word[GO_ON], 1);
	for (seen = 0; job->rank == 2 && !atomic_load(&word[DONE]);) {
		while (atomic_load(&word[BEGUN]) <= seen && !atomic_load(&word[GO_ON]))
			sched_yield();
		seen = atomic_load(&word[BEGUN]);
		TT_EXPECT(!atomic_load(&word[GO_ON]));
		MP_OK(add(win, 0, 1));
		if (atomic_load(&word[ENDED]) < seen)
			atomic_store(&word[DONE], 1);
	}
	TT_EXPECT(!await(job, DONE, 1));
	MP_OK(tutti_win_free(win));
	munmap(vector, LONG);
	return 0;
}

static void near(void)
{
	int n;

	for (n = 1; n <= 4; n++)
		TT_CHECK(!MP_RUN(.n = n, .env = "TUTTI_TRANSPORT=shm", .fn = near_body));
	TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_TRANSPORT=shm", .fn = totals_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm", .fn = long_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm", .fn = read_only_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm", .fn = refused_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm", .fn = between_body));
}

static void hosts(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 4, .env = HOSTS, .fn = near_body, .arg = HOSTS));
	TT_CHECK(!MP_RUN(.n = 4, .env = HOSTS, .fn = totals_body));
	TT_CHECK(!MP_RUN(.n = 4, .env = HOSTS, .fn = waiting_body));
}

static void dead(void)
{
	static enum ending how[] = {KILLED, STOPPED, RENAMED};

	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm TUTTI_TIMEOUT=20s",
			 .fn = dead_holder_body, .arg = &how[0], .killed = 2));
	TT_CHECK(!MP_RUN(.n = 3,
			 .env = "TUTTI_TRANSPORT=shm TUTTI_TIMEOUT=40s TUTTI_HEARTBEAT_LIMIT=5s",
			 .fn = dead_holder_body, .arg = &how[1], .killed = 2));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm TUTTI_TIMEOUT=20s",
			 .fn = dead_holder_body, .arg = &how[2], .killed = 2));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm", .fn = failed_body, .killed = 2));
}

static void late(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm", .fn = late_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm", .fn = late_request_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm", .fn = waiting_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm TUTTI_PROGRESS=thread",
			 .fn = left_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm", .fn = revoked_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"near", near}, {"hosts", hosts}, {"dead", dead}, {"late", late}, {NULL, NULL}};

	return tt_test_main("accumulate_mapped", tests, argc, argv);
}
