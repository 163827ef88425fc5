/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fork in the middle of collectives: the parent goes on, with exact results, whatever the child
 * does that is allowed to it. TT_FORKS: how many in all (soak: 1000).
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RANKS 3
#define FEW 90
#define WORDS 60000

struct forks {
	int each;    /* of a rank */
	bool hidden; /* the child does not have registered memory */
	atomic_int done, calls, failed;
};

/* Shared by the forking and the calling thread. */
struct forker {
	struct forks *forks;
	int32_t *plain;
	unsigned seed;
	atomic_bool over;
	bool bad;
};

static void nap(long us)
{
	struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

/* One of the things that children do. */
static void child(struct forker *f, int kind)
{
	void *p;

	switch (kind % 4) {
	case 0:
		break;
	case 1: /* the child has its own copy of the parent's data */
		if (!f->forks->hidden)
			memset(f->plain, 0x5a, WORDS * 4);
		break;
	case 2: /* it has the parent's sockets for a while, and memory of its own */
		p = calloc(1, 1 << 20);
		nap(5000);
		free(p);
		break;
	default:
		execl("/bin/true", "true", (char *)NULL);
		_exit(9);
	}
	_exit(0);
}

static void *fork_often(void *arg)
{
	struct forker *f = arg;
	int i, status;
	pid_t pid;

	for (i = 0; i < f->forks->each && !f->bad; i++) {
		nap(rand_r(&f->seed) % 4000);
		pid = fork();
		if (!pid)
			child(f, i);
		f->bad = pid < 0 || waitpid(pid, &status, 0) != pid || status;
		atomic_fetch_add(&f->forks->done, 1);
	}
	atomic_store(&f->over, true);
	return NULL;
}

/* Call number i, of memory of one of the kinds, exact; *more: whether any rank still forks. */
static int call(struct mp_job *job, int32_t *v, int i, bool here, bool *more)
{
	size_t count = i % 3 ? 40 : WORDS, k;
	int n = job->n;

	v[0] = here;
	for (k = 1; k < count; k++)
		v[k] = (int32_t)k * (i % 7) + job->rank;
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, v, count, TUTTI_INT32, TUTTI_SUM, job->world));
	for (k = 1; k < count; k++)
		TT_EXPECT(v[k] == (int32_t)k * (i % 7) * n + n * (n - 1) / 2);
	*more = v[0] != 0;
	return 0;
}

static int fork_body(struct mp_job *job)
{
	struct forker f = {.forks = job->arg, .seed = (unsigned)job->rank * 77 + 1};
	int fds = tt_open_fds(), i;
	struct mp_buf buf[MP_KINDS];
	pthread_t thread;
	bool more = true;

	for (i = 0; i < MP_KINDS; i++)
		MP_OK(mp_buf_new(job, (enum mp_kind)i, WORDS * 4, &buf[i]));
	f.plain = (int32_t *)(void *)buf[MP_PLAIN].p;
	TT_EXPECT(!call(job, f.plain, 0, true, &more)); /* resources opened at first use are open */
	fds = tt_open_fds();
	TT_EXPECT(!pthread_create(&thread, NULL, fork_often, &f));
	for (i = 0; more; i++)
		TT_EXPECT(!call(job, (int32_t *)(void *)buf[i % MP_KINDS].p, i,
				!atomic_load(&f.over), &more));
	pthread_join(thread, NULL);
	TT_EXPECT(!f.bad && tt_open_fds() <= fds + 2);
	atomic_fetch_add(&f.forks->calls, i);
	for (i = 0; i < MP_KINDS; i++)
		MP_OK(mp_buf_free(&buf[i]));
	return 0;
}

static void forks(const char *env)
{
	struct forks *f = mp_shared_mem(sizeof(*f));

	f->each = tt_times("TT_FORKS", FEW) / RANKS / 3 + 1;
	f->hidden = strstr(env, "verbs");
	TT_CHECK(!MP_RUN(.n = RANKS, .env = env, .fn = fork_body, .arg = f,
			 .timeout_ms = 20000 + 200 * f->each));
	TT_CHECK(f->done == RANKS * f->each);
	printf("  %s: %d forks in the middle of %d calls, all exact\n", env, f->done, f->calls);
	munmap(f, sizeof(*f));
}

static void node(void)
{
	forks("TUTTI_NODE=on");
}

static void shm(void)
{
	forks("TUTTI_TRANSPORT=shm");
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	forks("TUTTI_TRANSPORT=ofi");
}

static void verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	forks("TUTTI_TRANSPORT=verbs");
}

/* ---- a child that outlives its parent ---- */

/* Rank 1 dies, its child does not: the others hear of it at once, though the limit of heartbeats is
 * far. */
static int orphan_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	int32_t v = 1;
	double died;
	pid_t pid;
	int err;

	MP_OK(tutti_barrier(job->world));
	if (job->rank == 1) {
		pid = fork();
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, 0);
			nap(6000000);
			_exit(0);
		}
		atomic_store(&job->shared->word[0], pid);
		nap(50000);
		atomic_store(&job->shared->word[1], (int)(mp_now() * 1e3) & 0x3fffffff);
		kill(getpid(), SIGKILL);
	}
	do
		err = tutti_allreduce(TUTTI_IN_PLACE, &v, 1, TUTTI_INT32, TUTTI_MAX, job->world);
	while (!err);
	died = ((int)(mp_now() * 1e3) & 0x3fffffff) - atomic_load(&job->shared->word[1]);
	MP_ERR(err, -TUTTI_EPEER);
	MP_OK(tutti_last_error(&info));
	TT_EXPECT(info.rank == 1 && strstr(info.text, "is gone"));
	TT_EXPECT(!kill(atomic_load(&job->shared->word[0]), 0)); /* it lives */
	if (!job->rank)
		printf("  the death of a rank whose child lives was known after %.0f ms\n", died);
	fflush(stdout);
	TT_EXPECT(died < 3000);
	atomic_fetch_add(&job->shared->word[2], 1);
	mp_await(&job->shared->word[2], 2, 5000); /* both have looked */
	kill(atomic_load(&job->shared->word[0]), SIGKILL);
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

static void orphan(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_NODE=on TUTTI_HEARTBEAT_LIMIT=10s",
			 .fn = orphan_body, .killed = 2));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=ofi TUTTI_HEARTBEAT_LIMIT=10s",
				 .fn = orphan_body, .killed = 2));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"node", node},	 {"shm", shm},	     {"ofi", ofi},
					       {"verbs", verbs}, {"orphan", orphan}, {NULL, NULL}};

	return tt_test_main("fork", tests, argc, argv);
}
