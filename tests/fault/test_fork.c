/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fork in the middle of collectives: the parent goes on, with exact results, whatever the child
 * does that is allowed to it. TT_FORKS: how many in all (soak: 1000).
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
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

/* ---- strangers ---- */

enum { PORTS = 10, LISTENERS = 16, CHILD = 30, GONE };

/* Rank 1 connects to each socket at which rank 0 listens, and says nothing. */
static int come_as_strangers(struct mp_job *job, int *fd)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int i, n = atomic_load(&job->shared->word[LISTENERS]);

	for (i = 0; i < n; i++) {
		to.sin_port = htons((uint16_t)atomic_load(&job->shared->word[PORTS + i]));
		fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		TT_EXPECT(!connect(fd[i], (struct sockaddr *)&to, sizeof(to)));
	}
	return 0;
}

/* How many of the connections have ended. */
static int ended(const int *fd, int n)
{
	char bytes[64];
	ssize_t got = 1;
	int i, gone = 0;

	for (i = 0; i < n; i++) {
		while ((got = recv(fd[i], bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
			;
		gone += !got || (errno != EAGAIN && errno != EWOULDBLOCK);
	}
	return gone;
}

/* A child of rank 0 has the strangers' descriptors from now on. */
static void fork_sleeper(struct mp_job *job)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		nap(120000000);
		_exit(0);
	}
	atomic_store(&job->shared->word[CHILD], pid);
}

/*
 * While the child lives rank 0 drops the strangers all the same: in the job, or (arg not NULL) when
 * it leaves.
 */
static int stranger_body(struct mp_job *job)
{
	double end = mp_now() + 40;
	int fd[6], i, n, fds;
	int32_t more = 1;

	MP_OK(tutti_barrier(job->world)); /* which connects the ranks */
	fds = tt_open_fds();
	if (!job->rank) {
		struct tt_listeners l = tt_find_listeners();

		n = l.n < 6 ? l.n : 6;
		for (i = 0; i < n; i++)
			atomic_store(&job->shared->word[PORTS + i], l.port[i]);
		atomic_store(&job->shared->word[LISTENERS], n);
	}
	mp_meet(job);
	n = atomic_load(&job->shared->word[LISTENERS]);
	if (job->rank)
		TT_EXPECT(!come_as_strangers(job, fd));
	while (more) { /* until rank 0 has accepted them */
		more = job->rank ? 0 : tt_open_fds() < fds + n && mp_now() < end;
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &more, 1, TUTTI_INT32, TUTTI_MAX,
				      job->world));
	}
	TT_EXPECT(job->rank || (n >= 2 && mp_now() < end));
	if (!job->rank)
		fork_sleeper(job);
	for (more = !job->arg; more;) {
		more = job->rank && ended(fd, n) < n && mp_now() < end;
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &more, 1, TUTTI_INT32, TUTTI_MAX,
				      job->world));
	}
	TT_EXPECT(!mp_leave(job));
	while (job->rank && ended(fd, n) < n && mp_now() < end)
		nap(1000);
	if (job->rank)
		atomic_store(&job->shared->word[GONE], ended(fd, n));
	TT_EXPECT(mp_await(&job->shared->word[GONE], n, 50000));
	if (!job->rank) {
		TT_EXPECT(!kill(atomic_load(&job->shared->word[CHILD]), 0));
		kill(atomic_load(&job->shared->word[CHILD]), SIGKILL);
		TT_EXPECT(waitpid(atomic_load(&job->shared->word[CHILD]), &i, 0) > 0);
	}
	return 0;
}

static void strangers(void)
{
	static const char env[] = "TUTTI_TRANSPORT=ofi TUTTI_IF=lo";

	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 2, .env = env, .fn = stranger_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = env, .fn = stranger_body, .arg = (void *)env));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"node", node},	   {"shm", shm},
					       {"ofi", ofi},	   {"verbs", verbs},
					       {"orphan", orphan}, {"strangers", strangers},
					       {NULL, NULL}};

	return tt_test_main("fork", tests, argc, argv);
}
