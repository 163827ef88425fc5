/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Live ranks that other ranks lose because their connections break; test_stopped.c has ranks that
 * are stopped or busy. A rank that was taken for dead stays out. Also jobs that are aborted at any
 * moment, and files left by killed jobs.
 */
#include "config.h"

#include "lib/base/clock.h"
#include "lib/comm/comm.h"
#include "lib/wire/wire_internal.h"
#include "tests/fault/survive.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* ---- connections that break between ranks that live ---- */

#define WORDS_MAX 4

/* The reporting rank, the unreachable rank, and the rank that must fail. */
struct verdict {
	int n, by[WORDS_MAX], rank[WORDS_MAX], out;
};

/* Simulates the loss of a connection at one rank. */
static void accuse(struct mp_job *job, const struct verdict *v)
{
	char words[32];
	int i;

	snprintf(words, sizeof(words), "said rank %d", job->rank);
	for (i = 0; i < v->n; i++) {
		if (v->by[i] != job->rank)
			continue;
		tt_wire_lock(job->ctx->wire);
		tt_ctx_lost(job->ctx, v->rank[i], words);
		tt_wire_unlock(job->ctx->wire);
	}
}

static int accused_body(struct mp_job *job)
{
	const struct verdict *v = job->arg;
	unsigned all = (1u << job->n) - 1;
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_comm *next;
	float x[100] = {0};
	int k, err = 0;

	TT_EXPECT(!check_sum(job, job->world, all));
	for (k = 0; k < 2; k++) {
		accuse(job, v);
		mp_meet(job);
		mp_sleep_ms(TT_ACCUSE_AGAIN / TT_MS); /* twice what the decider waits */
		mp_meet(job);
	}
	while (!err) /* the heartbeats go on, so nothing but the words can end this */
		err = tutti_allreduce(TUTTI_IN_PLACE, x, 100, TUTTI_FLOAT32, TUTTI_SUM, job->world);
	MP_ERR(err, -TUTTI_EPEER);
	MP_OK(tutti_comm_error(job->world, &info));
	TT_EXPECT(info.rank == v->out);
	TT_EXPECT(strstr(info.text, "said rank"));
	if (v->n == 2 && v->by[0] == v->rank[1] && v->by[1] == v->rank[0]) /* both ends */
		TT_EXPECT(strstr(info.text, "said rank 0") && strstr(info.text, "said rank 1"));
	if (job->rank != v->out) {
		TT_EXPECT(!check_list(job, job->world, v->out));
		MP_OK(tutti_comm_shrink(job->world, &next));
		TT_EXPECT(!check_sum(job, next, all & ~(1u << v->out)));
	}
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

static void accused(void)
{
	static const struct verdict verdicts[] = {
		{2, {1, 0}, {0, 1}, 1},		    /* as many each: not the one that decides */
		{1, {1}, {0}, 1},		    /* the only rank that reports it */
		{2, {3, 1}, {0, 0}, 0},		    /* it has lost two, */
		{2, {0, 0}, {3, 1}, 0},		    /* also by its own word */
		{4, {2, 1, 3, 2}, {1, 2, 1, 1}, 1}, /* each connection counts once */
		{1, {2}, {2}, 2},		    /* itself */
	};
	size_t i;

	for (i = 0; i < sizeof(verdicts) / sizeof(verdicts[0]); i++)
		TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_NODE=on", .fn = accused_body,
				 .arg = (void *)&verdicts[i]));
}

/* A rank that is cut off is told so, whichever ranks have failed before. */
static int cut_off_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_comm *comm, *next;

	TT_EXPECT(!check_sum(job, job->world, 7));
	mp_meet(job);
	if (job->rank == 2)
		kill(getpid(), SIGKILL);
	if (until_death(job, job->world, 2))
		return 1;
	MP_OK(tutti_comm_shrink(job->world, &comm));
	TT_EXPECT(!check_sum(job, comm, 3));
	atomic_fetch_add(&job->shared->word[0], 1);
	TT_EXPECT(mp_await(&job->shared->word[0], 2, MP_HANG_MS));
	if (job->rank == 1)
		accuse(job, &(struct verdict){1, {1}, {1}, 1});
	if (until_death(job, comm, 1))
		return 1;
	MP_ERR(tutti_comm_shrink(comm, &next), job->rank ? -TUTTI_EPEER : 0);
	if (job->rank) {
		MP_SAID("taken for dead");
		MP_OK(tutti_last_error(&info));
		TT_EXPECT(info.rank == 1);
	}
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

static void cut_off(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_NODE=on", .fn = cut_off_body, .killed = 4));
}

/* ---- one-sided calls of a rank that is cut off and does not know it yet ---- */

static const struct verdict itself = {1, {1}, {1}, 1};

enum calls { PUT, ATOMIC, STRIDED, ACCUMULATE, REQUESTS, CALLS };
#define REQUESTS_MAX 4

static void *accuse_later(void *arg)
{
	mp_sleep_ms(300);
	accuse(arg, &itself);
	return NULL;
}

/* The last error, of a call of rank 1, is the verdict. */
static int told(struct mp_job *job, int err)
{
	struct tutti_error_info info = {.size = sizeof(info)};

	MP_ERR(err, -TUTTI_EPEER);
	MP_OK(tutti_last_error(&info));
	TT_EXPECT(info.code == err && info.rank == 1);
	TT_EXPECT(strstr(info.text, "taken for dead"));
	return 0;
}

static int strided(struct mp_job *job, struct tutti_win *win, const uint64_t *value)
{
	static const struct tutti_strides two = {
		.size = sizeof(two), .block = 8, .count = 2, .local_stride = 16, .stride = 16};

	MP_OK(tutti_put_strided(win, 0, value, 0, &two));
	return tutti_win_flush(win, 0);
}

static int accumulate(struct mp_job *job, struct tutti_win *win, const uint64_t *value)
{
	MP_OK(tutti_accumulate(win, 0, value, 4, TUTTI_UINT64, TUTTI_SUM, 0));
	return tutti_win_flush_all(win);
}

/* Each begins before the verdict is known; all end with it. */
static int requests(struct mp_job *job, struct tutti_win *win, uint64_t *value)
{
	struct tutti_request *req[REQUESTS_MAX] = {NULL};
	int i;

	MP_OK(tutti_iput(win, 0, value, 8, 0, &req[0]));
	MP_OK(tutti_iget(win, 0, value + 1, 8, 8, &req[1]));
	MP_OK(tutti_ifetch_add(win, 0, 1, 16, value + 2, &req[2]));
	MP_OK(tutti_iput_notify(win, 0, value + 3, 8, 24, &req[3]));
	for (i = 0; i < REQUESTS_MAX; i++)
		TT_EXPECT(!told(job, tutti_wait(&req[i])));
	return 0;
}

/* The connection breaks before the verdict arrives, which alone knows that rank 0 lives. */
static int blamed(struct mp_job *job, struct tutti_win *win)
{
	uint64_t value[4] = {1, 2, 3, 4};
	pthread_t thread;

	tt_wire_lock(job->ctx->wire);
	tt_chan_fail(job->ctx->wire->chan[0], -EPIPE, "the test has closed it");
	tt_wire_unlock(job->ctx->wire);
	TT_EXPECT(!pthread_create(&thread, NULL, accuse_later, job));
	switch (*(const enum calls *)job->arg) {
	case PUT:
		TT_EXPECT(!told(job, tutti_put(win, 0, value, 8, 0)));
		break;
	case ATOMIC:
		TT_EXPECT(!told(job, tutti_fetch_add(win, 0, 1, 0, value)));
		break;
	case STRIDED:
		TT_EXPECT(!told(job, strided(job, win, value)));
		break;
	case ACCUMULATE:
		TT_EXPECT(!told(job, accumulate(job, win, value)));
		break;
	default:
		TT_EXPECT(!requests(job, win, value));
	}
	pthread_join(thread, NULL);
	return 0;
}

static int unaware_body(struct mp_job *job)
{
	unsigned flags = *(const enum calls *)job->arg == ACCUMULATE ? TUTTI_WIN_ACCUMULATE : 0;
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_win *win;
	uint64_t value = 1;
	void *mem;

	MP_OK(tutti_win_allocate(job->world, 4096, flags, &mem, &win));
	if (job->rank) {
		MP_OK(tutti_put(win, 0, &value, sizeof(value), 0));
		MP_OK(tutti_win_flush(win, 0));
	}
	TT_EXPECT(!check_sum(job, job->world, 3));
	mp_meet(job);
	TT_EXPECT(!(job->rank ? blamed(job, win) : until_death(job, job->world, 1)));
	MP_OK(tutti_comm_error(job->world, &info));
	TT_EXPECT(info.code == -TUTTI_EPEER && info.rank == 1);
	MP_ERR(tutti_win_free(win), -TUTTI_EPEER);
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

static void unaware(void)
{
	enum calls calls;

	for (calls = 0; calls < CALLS; calls++) {
		TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm TUTTI_NODE=off",
				 .fn = unaware_body, .arg = &calls));
		if (!mp_no_ofi())
			TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=ofi TUTTI_NODE=off",
					 .fn = unaware_body, .arg = &calls));
	}
}

/* Unacknowledged data ends a control connection after the limit of the heartbeats. */
static int unacknowledged_body(struct mp_job *job)
{
	struct sockaddr_storage peer;
	int fd, ms = 0, n = 0;

	TT_EXPECT(!check_sum(job, job->world, (1u << job->n) - 1));
	for (fd = 0; fd < 256; fd++) {
		socklen_t len = sizeof(peer), size = sizeof(ms);

		if (getpeername(fd, (struct sockaddr *)&peer, &len) || peer.ss_family == AF_UNIX)
			continue;
		TT_EXPECT(!getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, &size) && ms == 500);
		n++;
	}
	TT_EXPECT(n >= (job->rank ? 1 : job->n - 1)); /* to rank 0, and rank 0's to all */
	mp_meet(job);
	return 0;
}

static void unacknowledged(void)
{
	TT_CHECK(!MP_RUN(.n = 3,
			 .env = "TUTTI_TRANSPORT=shm TUTTI_HEARTBEAT=100ms "
				"TUTTI_HEARTBEAT_LIMIT=500ms",
			 .fn = unacknowledged_body));
}

/* ---- abort from another thread, at any moment ---- */

struct aborted {
	int seed;
	_Atomic double at; /* when */
	atomic_int longest_ms;
};

static void *abort_soon(void *arg)
{
	struct mp_job *job = arg;
	struct aborted *a = job->arg;
	struct timespec t = {.tv_nsec = (long)(rand() % 3000000)};

	nanosleep(&t, NULL);
	atomic_store(&a->at, mp_now());
	tutti_comm_abort(job->world, 7);
	return NULL;
}

static int abort_body(struct mp_job *job)
{
	struct aborted *a = job->arg;
	int seed = a->seed, err, ms;
	float v[WORDS] = {0};
	pthread_t thread;

	srand((unsigned)seed);
	if (job->rank == seed % job->n && pthread_create(&thread, NULL, abort_soon, job))
		return 1;
	do
		err = tutti_allreduce(TUTTI_IN_PLACE, v, seed % 2 ? 4 : WORDS, TUTTI_FLOAT32,
				      TUTTI_SUM, job->world);
	while (!err);
	ms = (int)((mp_now() - atomic_load(&a->at)) * 1e3);
	if (ms > atomic_load(&a->longest_ms))
		atomic_store(&a->longest_ms, ms);
	MP_ERR(err, -TUTTI_EABORTED);
	MP_SAID("code 7");
	if (job->rank == seed % job->n)
		pthread_join(thread, NULL);
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

static void aborts(void)
{
	static const char *const env[] = {"TUTTI_NODE=on", "TUTTI_TRANSPORT=shm"};
	struct aborted *a = mp_shared_mem(sizeof(*a));
	int n = tt_times("TT_ABORTS", 40);
	bool fine = true;

	for (; a->seed < n && fine; a->seed++)
		fine = !MP_RUN(.n = 3, .env = env[a->seed / 2 % 2], .fn = abort_body, .arg = a);
	TT_CHECK(fine);
	printf("  %d aborts from another thread: every rank's call ended, after %d ms at most\n",
	       a->seed, a->longest_ms);
	munmap(a, sizeof(*a));
}

/* ---- abort by a signal handler's flag ---- */

static volatile sig_atomic_t asked;

static void on_signal(int sig)
{
	asked = sig;
}

static void *look_out(void *arg)
{
	struct mp_job *job = arg;

	while (!asked)
		mp_sleep_ms(1);
	tutti_comm_abort(job->world, asked);
	return NULL;
}

/*
 * Rank 1 is asked while it waits in a call: its other thread looks at the flag; or it does so
 * itself before its next call.
 */
static int asked_body(struct mp_job *job)
{
	struct sigaction sa = {.sa_handler = on_signal}; /* no SA_RESTART: a wait is interrupted */
	bool in_call = *(bool *)job->arg, looks = job->rank == 1 && in_call;
	pthread_t thread;
	float v[4] = {0};
	int err = 0;

	TT_EXPECT(!check_sum(job, job->world, (1u << job->n) - 1));
	TT_EXPECT(job->rank != 1 || !sigaction(SIGTERM, &sa, NULL));
	TT_EXPECT(!looks || !pthread_create(&thread, NULL, look_out, job));
	mp_meet(job);
	if (!job->rank) {
		mp_sleep_ms(in_call ? 50 : 0); /* the others wait for this rank */
		TT_EXPECT(!kill(atomic_load(&job->shared->pid[1]), SIGTERM));
	}
	while (!err) {
		if (job->rank == 1 && !in_call && asked)
			MP_OK(tutti_comm_abort(job->world, asked));
		err = tutti_allreduce(TUTTI_IN_PLACE, v, 4, TUTTI_FLOAT32, TUTTI_SUM, job->world);
	}
	MP_ERR(err, -TUTTI_EABORTED);
	MP_SAID("rank 1 aborted the job with code 15"); /* SIGTERM */
	if (looks)
		pthread_join(thread, NULL);
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

static void asked_to(void)
{
	bool in_call = true;

	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_NODE=on", .fn = asked_body, .arg = &in_call));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm", .fn = asked_body, .arg = &in_call));
	in_call = false;
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_NODE=on", .fn = asked_body, .arg = &in_call));
}

/* ---- what killed jobs leave behind disturbs no later one ---- */

static int leftover_body(struct mp_job *job)
{
	struct tutti_config config = {0};
	bool dies = *(int *)job->arg % 2 == 0;
	pthread_t thread;
	int err;

	srand((unsigned)(*(int *)job->arg * 8 + job->rank));
	if (dies && pthread_create(&thread, NULL, die_soon, NULL))
		return 1;
	err = mp_join(job, MP_ENV, &config);
	while (dies)
		mp_sleep_ms(1000);
	MP_OK(err);
	return check_sum(job, job->world, (1u << job->n) - 1);
}

/* The same directory, names and addresses every time; every other job is killed as it starts. */
static void leftovers(void)
{
	int i, n = 2 * tt_times("TT_RESTARTS", 8), files = mp_shm_files();
	char dir[] = "/tmp/tutti-left-XXXXXX", env[200];
	bool fine = mkdtemp(dir) != NULL;

	snprintf(env, sizeof(env), "TUTTI_BOOT_DIR=%s TUTTI_RANK=%%r TUTTI_NRANKS=%%n", dir);
	for (i = 0; i < n && fine; i++)
		fine = !MP_RUN(.n = 3, .env = env, .fn = leftover_body, .arg = &i, .way = MP_ENV,
			       .no_init = true, .killed = i % 2 ? 0 : 7);
	TT_CHECK(fine);
	TT_CHECK(mp_shm_files() <= files);
	printf("  %d jobs killed as they started, each with a job in its place that worked\n",
	       i / 2);
	mp_remove_dir(
		dir); /* a rank 0 that dies while it writes its file leaves the unfinished one */
}

/* ---- flushes while a connection is suspected ---- */

/* Simulates a lost connection to a rank of the world, about which nobody decides. */
static void suspect(struct mp_job *job, int rank)
{
	tt_wire_lock(job->ctx->wire);
	job->world->suspect = rank;
	job->world->suspect_until = TT_NEVER;
	tt_wire_unlock(job->ctx->wire);
}

static int suspected_body(struct mp_job *job)
{
	uint64_t mine = 0, v = 7;
	struct tutti_win *win;

	MP_OK(tutti_win_create(job->world, &mine, sizeof(mine), 0, &win));
	if (job->rank == 0) {
		suspect(job, 2);
		MP_OK(tutti_put(win, 1, &v, sizeof(v), 0));
		MP_OK(tutti_win_flush(win, 1));
		MP_ERR(tutti_win_flush(win, 2), -ETIMEDOUT);
		suspect(job, -1);
	}
	mp_meet(job);
	TT_EXPECT(mine == (job->rank == 1 ? 7 : 0));
	MP_ERR(tutti_win_free(win), -ETIMEDOUT); /* the late flush has failed the communicator */
	mp_leave(job);
	return 0;
}

/* A flush awaits the verdict on a rank that it needs, not on other ranks. */
static void suspected(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TIMEOUT=2s", .fn = suspected_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"accused", accused},	{"suspected", suspected},	    {"cut_off", cut_off},
		{"unaware", unaware},	{"unacknowledged", unacknowledged}, {"aborts", aborts},
		{"asked_to", asked_to}, {"leftovers", leftovers},	    {NULL, NULL},
	};

	return tt_test_main("cut_off", tests, argc, argv);
}
