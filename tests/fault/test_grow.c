/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * New processes in a running job: all-reduces of old and new ranks are exact, also if they replace
 * killed ranks. Processes without the secret, processes that do not come, and ranks taken for dead
 * do not disturb the job.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define WORDS 5000
#define BOTH 60000 /* elements: above every eager limit */
#define MS 60000   /* time to wait for new processes */
#define SOON 15	   /* seconds: less than MS, TUTTI_TIMEOUT and TUTTI_INIT_TIMEOUT */

/* Rank r puts in (r + 1) * (i % 7 + 1), so the sum is known. */
static int check_sum(struct mp_job *job, struct tutti_comm *comm, int n)
{
	int32_t *v, each = n * (n + 1) / 2;
	int i, r = tutti_comm_rank(comm);

	TT_EXPECT(tutti_comm_size(comm) == n);
	MP_OK(tutti_alloc(tutti_comm_context(comm), WORDS * 4, (void **)&v));
	for (i = 0; i < WORDS; i++)
		v[i] = (r + 1) * (i % 7 + 1);
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, v, 1, TUTTI_INT32, TUTTI_SUM, comm));
	TT_EXPECT(v[0] == each);
	v[0] = r + 1;
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, v, WORDS, TUTTI_INT32, TUTTI_SUM, comm));
	for (i = 0; i < WORDS; i++)
		TT_EXPECT(v[i] == each * (i % 7 + 1));
	MP_OK(tutti_free(v));
	return 0;
}

/*
 * Grow to n; the old world goes on working beside the new one, unless it has failed, and is left.
 */
static int grow(struct mp_job *job, int n)
{
	struct tutti_context *ctx = NULL;
	int old = tutti_comm_size(job->world);
	bool failed = tutti_barrier(job->world) != 0;
	double t0 = mp_now();

	MP_OK(tutti_comm_grow(job->world, n, MS, &ctx));
	if (job->rank == 0)
		printf("  from %d to %d ranks in %.0f ms, waiting for the new one included\n", old,
		       n, 1e3 * (mp_now() - t0));
	fflush(stdout);
	job->rank = tutti_comm_rank(tutti_world(ctx));
	TT_EXPECT(failed || job->rank == tutti_comm_rank(job->world));
	TT_EXPECT(!check_sum(job, tutti_world(ctx), n));
	if (!failed)
		TT_EXPECT(!check_sum(job, job->world, old));
	if (tutti_finalize(job->ctx) && !failed)
		return 1;
	job->ctx = ctx;
	job->world = tutti_world(ctx);
	return check_sum(job, job->world, n);
}

/* ---- operations in both contexts at once ---- */

/*
 * Rank 1 waits in the job that is waited for, while rank 0 needs it in the other: the message is
 * too long to travel before its receive is posted, and the all-reduce takes several rounds.
 */
static int both_ways(struct mp_job *job, struct tutti_comm *waits, struct tutti_comm *moves)
{
	int32_t *v, word = 0;
	struct tutti_request *req;
	int i;

	MP_OK(tutti_alloc(tutti_comm_context(moves), BOTH * 4, (void **)&v));
	for (i = 0; i < BOTH; i++)
		v[i] = job->rank ? i + 7 : -1;
	if (job->rank) {
		MP_OK(tutti_isend(v, BOTH, TUTTI_INT32, 0, 5, moves, &req));
		MP_OK(tutti_recv(&word, 1, TUTTI_INT32, 0, 6, waits, NULL));
		TT_EXPECT(word == 77);
		MP_OK(tutti_wait(&req));
		MP_OK(tutti_iallreduce(TUTTI_IN_PLACE, v, BOTH, TUTTI_INT32, TUTTI_SUM, moves,
				       &req));
		MP_OK(tutti_barrier(waits));
		MP_OK(tutti_wait(&req));
	} else {
		MP_OK(tutti_recv(v, BOTH, TUTTI_INT32, 1, 5, moves, NULL));
		for (i = 0; i < BOTH; i++)
			TT_EXPECT(v[i] == i + 7);
		word = 77;
		MP_OK(tutti_send(&word, 1, TUTTI_INT32, 1, 6, waits));
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, v, BOTH, TUTTI_INT32, TUTTI_SUM, moves));
		MP_OK(tutti_barrier(waits));
	}
	for (i = 0; i < BOTH; i++)
		TT_EXPECT(v[i] == 2 * (i + 7));
	MP_OK(tutti_free(v));
	return 0;
}

static int both_body(struct mp_job *job)
{
	struct tutti_context *ctx = NULL, *last = NULL;

	MP_OK(tutti_comm_grow(job->world, 2, MS, &ctx));
	TT_EXPECT(!both_ways(job, job->world, tutti_world(ctx)));
	TT_EXPECT(!both_ways(job, tutti_world(ctx), job->world));
	MP_OK(tutti_comm_grow(tutti_world(ctx), 2, MS, &last)); /* of three, any helps any */
	TT_EXPECT(!both_ways(job, tutti_world(last), job->world));
	MP_OK(tutti_finalize(ctx));
	TT_EXPECT(!both_ways(job, job->world, tutti_world(last)));
	MP_OK(tutti_finalize(last));
	TT_EXPECT(!check_sum(job, job->world, 2));
	return 0;
}

static void both(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = both_body, .env = "TUTTI_TIMEOUT=20000"));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 2, .fn = both_body,
				 .env = "TUTTI_TIMEOUT=20000 TUTTI_TRANSPORT=ofi TUTTI_IF=lo"));
}

/* ---- from 2 to 3 to 4 ---- */

static int steps_body(struct mp_job *job)
{
	int me = job->rank, n;

	if (me < 2) {
		MP_OK(mp_join_first(job, 2));
		TT_EXPECT(!check_sum(job, job->world, 2));
	} else {
		/*
		 * one is there before it is asked for, the other comes later, when the job has
		 * three
		 */
		TT_EXPECT(me == 2 || mp_await(&job->shared->word[0], 3, MP_HANG_MS));
		MP_OK(mp_join_later(job));
		job->rank = tutti_comm_rank(job->world);
		TT_EXPECT(job->rank == me);
		TT_EXPECT(!check_sum(job, job->world, me + 1));
		TT_EXPECT(!check_sum(job, job->world, me + 1));
		atomic_fetch_add(&job->shared->word[0], 1);
	}
	for (n = me < 2 ? 3 : me + 2; n <= 4; n++) {
		if (n == 3)
			mp_sleep_ms(100);
		TT_EXPECT(!grow(job, n));
		if (n == 3)
			atomic_fetch_add(&job->shared->word[0], 1);
	}
	TT_EXPECT(tutti_comm_rank(job->world) == me);
	return 0;
}

static void steps(const char *env)
{
	int files = mp_shm_files();

	TT_CHECK(!MP_RUN(.n = 4, .env = env, .fn = steps_body, .no_init = true));
	TT_CHECK(mp_shm_files() <= files);
}

static void steps_node(void)
{
	steps("TUTTI_BOOT_DIR=%d");
}

static void steps_shm(void)
{
	steps("TUTTI_BOOT_DIR=%d TUTTI_TRANSPORT=shm");
}

static void steps_ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	steps("TUTTI_BOOT_DIR=%d TUTTI_TRANSPORT=ofi");
}

/* ---- in the place of a killed one ---- */

struct killing {
	int victim;
	bool shrink; /* and go on for a while, before growing */
};

static int killed_body(struct mp_job *job)
{
	const struct killing *k = job->arg;
	struct tutti_comm *small = NULL;
	struct tutti_context *ctx;

	if (job->rank == 3) {
		TT_EXPECT(mp_await(&job->shared->word[0], 2, MP_HANG_MS));
		MP_OK(mp_join_later(job));
		TT_EXPECT(tutti_comm_rank(job->world) == 2);
		return check_sum(job, job->world, 3);
	}
	MP_OK(mp_join_first(job, 3));
	TT_EXPECT(!check_sum(job, job->world, 3));
	mp_sleep_ms(20);
	if (job->rank == k->victim)
		kill(getpid(), SIGKILL);
	while (!tutti_barrier(job->world))
		;
	atomic_fetch_add(&job->shared->word[0], 1);
	if (k->shrink) {
		MP_OK(tutti_comm_shrink(job->world, &small));
		TT_EXPECT(!check_sum(job, small, 2));
	}
	MP_OK(tutti_comm_grow(small ? small : job->world, 3, MS, &ctx));
	TT_EXPECT(!check_sum(job, tutti_world(ctx), 3));
	if (small)
		TT_EXPECT(!check_sum(job, small, 2));
	TT_EXPECT(!mp_leave_failed(job));
	job->ctx = ctx;
	return 0;
}

static void killed(void)
{
	struct killing k;

	for (k.victim = 0; k.victim < 3; k.victim++)
		for (k.shrink = 0;; k.shrink = 1) {
			TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_BOOT_DIR=%d", .fn = killed_body,
					 .arg = &k, .no_init = true, .killed = 1u << k.victim));
			if (k.shrink)
				break;
		}
}

/* ---- the leader dies while it waits for new processes ---- */

static int leader_body(struct mp_job *job)
{
	struct tutti_context *ctx;

	if (job->rank == 3) {
		TT_EXPECT(mp_await(&job->shared->word[0], 3, MP_HANG_MS));
		mp_sleep_ms(200);
		kill(atomic_load(&job->shared->pid[0]), SIGKILL);
		TT_EXPECT(mp_await(&job->shared->word[1], 2, MP_HANG_MS));
		MP_OK(mp_join_later(job));
		return check_sum(job, job->world, 3);
	}
	MP_OK(mp_join_first(job, 3));
	atomic_fetch_add(&job->shared->word[0], 1);
	MP_ERR(tutti_comm_grow(job->world, 4, MS, &ctx), -TUTTI_EPEER);
	MP_SAID("died while the job grew");
	atomic_fetch_add(&job->shared->word[1], 1);
	MP_OK(tutti_comm_grow(job->world, 3, MS, &ctx));
	TT_EXPECT(!check_sum(job, tutti_world(ctx), 3));
	TT_EXPECT(!mp_leave_failed(job));
	job->ctx = ctx;
	return 0;
}

static void leader(void)
{
	TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_BOOT_DIR=%d", .fn = leader_body, .no_init = true,
			 .killed = 1));
}

/* ---- one dies at any moment of it ---- */

static void *die_soon(void *arg)
{
	struct mp_job *job = arg;
	struct timespec t = {.tv_nsec = (long)(rand() % 120) * 1000000};

	nanosleep(&t, NULL);
	atomic_store(&job->shared->word[0], 1);
	kill(getpid(), SIGKILL);
	return NULL;
}

/* Join, or leave the world for a larger one. */
static int next_world(struct mp_job *job)
{
	struct tutti_context *ctx = NULL;
	int err = 1, i;

	if (!job->world) {
		MP_OK(mp_join_later(job));
		return 0;
	}
	for (i = 0; i < 5 && err; i++)
		err = tutti_comm_grow(job->world, 4, 5000, &ctx);
	MP_OK(err);
	TT_EXPECT(!mp_leave_failed(job));
	job->ctx = ctx;
	job->world = tutti_world(ctx);
	return 0;
}

/* All of them are fine, and it is over: 2; fine so far: 1; no: 0. */
static int look(struct mp_job *job)
{
	uint64_t v = atomic_load(&job->shared->word[0]) ? 3 : 1;

	if (v == 3)
		mp_sleep_ms(100); /* it is dead by then, and all know */
	if (tutti_barrier(job->world))
		v = 0;
	if (tutti_comm_agree(job->world, TUTTI_BAND, &v))
		return 0;
	return v == 3 ? 2 : (int)v;
}

static int storm_body(struct mp_job *job)
{
	int seed = *(int *)job->arg, fine = 0, i;
	pthread_t thread;

	srand((unsigned)seed);
	if (job->rank < 3)
		MP_OK(mp_join_first(job, 3));
	if (job->rank == seed % 3 && pthread_create(&thread, NULL, die_soon, job))
		return 1;
	for (i = 0; i < 1000 && fine < 2; i++) {
		if (!fine)
			TT_EXPECT(!next_world(job));
		fine = look(job);
		if (fine == 1)
			mp_sleep_ms(2);
	}
	TT_EXPECT(fine == 2);
	return check_sum(job, job->world, 4);
}

static void storm(void)
{
	int seed, n = getenv("TT_GROWS") ? atoi(getenv("TT_GROWS")) : 4;
	bool fine = true;

	for (seed = 0; seed < n && fine; seed++)
		fine = !MP_RUN(.n = 5, .env = "TUTTI_BOOT_DIR=%d", .fn = storm_body, .arg = &seed,
			       .no_init = true, .killed = 1u << seed % 3);
	if (!fine)
		fprintf(stderr, "seed %d\n", seed - 1);
	TT_CHECK(fine);
}

/* ---- strangers ---- */

static int make_secret(struct mp_job *job, const char *name, const char *text)
{
	char path[200];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", job->shared->dir, name);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	TT_EXPECT(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
	return setenv("TUTTI_SECRET_FILE", path, 1);
}

/* Connects to the gate and sends an invalid hello, or nothing. */
static int junk(struct mp_job *job, int i)
{
	struct sockaddr_in sa = {.sin_family = AF_INET};
	char path[200], host[64];
	int fd, port = 0, tries;
	FILE *f = NULL;

	snprintf(path, sizeof(path), "%s/tutti-gate", job->shared->dir);
	for (tries = 0; tries < 1000 && !f; tries++) {
		f = fopen(path, "r");
		mp_sleep_ms(f ? 0 : 10);
	}
	TT_EXPECT(f && fscanf(f, "tutti-boot 1\nstore %63[^:]:%d", host, &port) == 2);
	fclose(f);
	sa.sin_port = htons((uint16_t)port);
	TT_EXPECT(inet_pton(AF_INET, host, &sa.sin_addr) == 1);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	TT_EXPECT(!connect(fd, (struct sockaddr *)&sa, sizeof(sa)));
	if (i % 2 && write(fd, job->shared->gather, 97 + (size_t)i) < 0)
		perror("junk");
	return fd;
}

static int strangers_body(struct mp_job *job)
{
	struct tutti_context *ctx;
	int fd[100], i;

	TT_EXPECT(!make_secret(job, job->rank == 3 ? "bad" : "good",
			       job->rank == 3 ? "not the secret of the job"
					      : "the secret of this job"));
	if (job->rank == 2) { /* when the other has been turned away */
		TT_EXPECT(mp_await(&job->shared->word[0], 1, MP_HANG_MS));
		MP_OK(mp_join_later(job));
		return check_sum(job, job->world, 3);
	}
	if (job->rank == 3) {
		for (i = 0; i < 100; i++)
			fd[i] = junk(job, i);
		MP_ERR(mp_join_later(job), -TUTTI_EAUTH);
		MP_SAID("TUTTI_SECRET_FILE");
		atomic_store(&job->shared->word[0], 1);
		TT_EXPECT(
			mp_await(&job->shared->word[1], 2, MP_HANG_MS)); /* the silent ones stay */
		while (i--)
			close(fd[i]);
		return 0;
	}
	MP_OK(mp_join_first(job, 2));
	MP_OK(tutti_comm_grow(job->world, 3, MS, &ctx));
	TT_EXPECT(!check_sum(job, tutti_world(ctx), 3));
	TT_EXPECT(job->rank || mp_log_has(job, "turned away"));
	MP_OK(tutti_finalize(job->ctx));
	job->ctx = ctx;
	atomic_fetch_add(&job->shared->word[1], 1);
	return 0;
}

static void strangers(void)
{
	TT_CHECK(
		!MP_RUN(.n = 4, .env = "TUTTI_BOOT_DIR=%d", .fn = strangers_body, .no_init = true));
}

/* ---- one that was let in, but can't start: the others come to the gate again ---- */

static int unfit_body(struct mp_job *job)
{
	struct tutti_context *ctx = NULL;
	int err;

	if (job->rank == 3) {
		setenv("TUTTI_TEST_BOOT_VERSION", "9.9.9", 1);
		MP_ERR(mp_join_later(job), -TUTTI_EVERSION);
		return 0;
	}
	if (job->rank == 2) {
		MP_OK(mp_join_later(job));
		return check_sum(job, job->world, 3);
	}
	MP_OK(mp_join_first(job, 2));
	err = tutti_comm_grow(job->world, 4, MS, &ctx);
	MP_ERR(err, -TUTTI_EVERSION);
	MP_SAID("9.9.9");
	TT_EXPECT(!ctx && !check_sum(job, job->world, 2));
	MP_OK(tutti_comm_grow(job->world, 3, MS, &ctx));
	TT_EXPECT(!check_sum(job, tutti_world(ctx), 3));
	MP_OK(tutti_finalize(job->ctx));
	job->ctx = ctx;
	return 0;
}

static void unfit(void)
{
	TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_BOOT_DIR=%d", .fn = unfit_body, .no_init = true));
}

/*
 * ---- a rank that fails, or dies, before it has come to the new start: no rank waits for it there
 * ----
 */

static int failing_body(struct mp_job *job)
{
	struct tutti_context *ctx = NULL;
	int bad = *(int *)job->arg;
	double t0;

	if (job->rank == 3) {
		MP_OK(mp_join_later(job));
		return check_sum(job, job->world, 4);
	}
	MP_OK(mp_join_first(job, 3));
	if (job->rank == bad)
		setenv("TUTTI_CHUNK", "nonsense", 1);
	t0 = mp_now();
	MP_ERR(tutti_comm_grow(job->world, 4, MS, &ctx), job->rank == bad ? -EINVAL : -TUTTI_EBOOT);
	MP_SAID("TUTTI_CHUNK");
	TT_EXPECT(job->rank == bad || mp_said(bad ? "rank 1 could not" : "rank 0 could not"));
	TT_EXPECT(!ctx && !check_sum(job, job->world, 3));
	unsetenv("TUTTI_CHUNK");
	MP_OK(tutti_comm_grow(job->world, 4, MS, &ctx)); /* the new process has not waited either */
	TT_EXPECT(mp_now() - t0 < SOON);
	TT_EXPECT(!check_sum(job, tutti_world(ctx), 4));
	MP_OK(tutti_finalize(job->ctx));
	job->ctx = ctx;
	return 0;
}

static void failing(void)
{
	int bad;

	for (bad = 0; bad < 2; bad++)
		TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_BOOT_DIR=%d", .fn = failing_body,
				 .arg = &bad, .no_init = true));
}

/* The log says that something is made to fail: here that is the end. */
static void die_there(enum tutti_log_level level, const char *line, void *arg)
{
	(void)level, (void)arg;
	if (strstr(line, "it fails here"))
		kill(getpid(), SIGKILL);
}

static int dying_body(struct mp_job *job)
{
	struct tutti_context *ctx = NULL;
	double t0;

	if (job->rank == 3) {
		MP_OK(mp_join_later(job));
		return check_sum(job, job->world, 3);
	}
	MP_OK(mp_join_first(job, 3));
	if (job->rank == *(int *)job->arg) {
		tutti_set_log(die_there, NULL, TUTTI_LOG_WARN);
		setenv("TUTTI_FAULT", "alloc=1", 1); /* the first allocation of the new context */
	}
	t0 = mp_now();
	MP_ERR(tutti_comm_grow(job->world, 4, MS, &ctx), -TUTTI_EPEER);
	MP_SAID("died while the job grew");
	TT_EXPECT(!ctx);
	MP_OK(tutti_comm_grow(job->world, 3, MS, &ctx));
	TT_EXPECT(mp_now() - t0 < SOON);
	TT_EXPECT(!check_sum(job, tutti_world(ctx), 3));
	TT_EXPECT(!mp_leave_failed(job));
	job->ctx = ctx;
	return 0;
}

static void dying(void)
{
	int who;

	for (who = 0; who < 2; who++)
		TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_BOOT_DIR=%d", .fn = dying_body, .arg = &who,
				 .no_init = true, .killed = 1u << who));
}

/*
 * ---- what the leader says is lost with a rank through which the control tree leads, and which
 * has no part in it ----
 */

#define INNER 1
#define BELOW 9 /* its first child */

/* Messages sent while INNER is stopped and not yet taken for dead go to INNER. */
static int stop_inner(struct mp_job *job, bool come)
{
	TT_EXPECT(mp_await(&job->shared->word[0], BELOW, MP_HANG_MS));
	mp_sleep_ms(300); /* they have agreed */
	TT_EXPECT(!mp_stop(atomic_load(&job->shared->pid[INNER])));
	if (come)
		MP_OK(mp_join_later(job));
	else
		TT_EXPECT(mp_await(&job->shared->word[1], BELOW, MP_HANG_MS));
	kill(atomic_load(&job->shared->pid[INNER]), SIGKILL);
	return come ? check_sum(job, job->world, BELOW + 1) : 0;
}

static int lost_word_body(struct mp_job *job)
{
	bool come = *(int *)job->arg;
	struct tutti_context *ctx = NULL;
	struct tutti_comm *comm;
	double t0;

	if (job->rank > BELOW)
		return stop_inner(job, come);
	MP_OK(mp_join_first(job, BELOW + 1));
	MP_OK(tutti_comm_split(job->world, job->rank == INNER ? TUTTI_UNDEFINED : 0, job->rank,
			       &comm));
	while (job->rank == INNER)
		mp_sleep_ms(1000);
	atomic_fetch_add(&job->shared->word[0], 1);
	t0 = mp_now();
	MP_ERR(tutti_comm_grow(comm, BELOW + 1, come ? MS : 800, &ctx), come ? 0 : -ETIMEDOUT);
	TT_EXPECT(mp_now() - t0 < SOON);
	atomic_fetch_add(&job->shared->word[1], 1);
	if (!come)
		MP_SAID("0 of 1 new processes");
	TT_EXPECT(!check_sum(job, come ? tutti_world(ctx) : comm, BELOW + come));
	TT_EXPECT(!mp_leave_failed(job));
	job->ctx = ctx;
	return 0;
}

static void lost_word(void)
{
	int come;

	for (come = 0; come < 2; come++)
		TT_CHECK(!MP_RUN(.n = BELOW + 2, .fn = lost_word_body, .arg = &come,
				 .no_init = true, .killed = 1u << INNER,
				 .env = "TUTTI_BOOT_DIR=%d TUTTI_TRANSPORT=shm "
					"TUTTI_HEARTBEAT=200ms "
					"TUTTI_HEARTBEAT_LIMIT=1s"));
}

/* ---- no process comes; wrong arguments ---- */

static int nobody_body(struct mp_job *job)
{
	struct tutti_context *ctx = NULL;
	struct tutti_comm *comm = job->world;
	int fds = 0, i;
	double t0;

	for (i = 0; i < 3; i++) {
		t0 = mp_now();
		MP_ERR(tutti_comm_grow(comm, 4, 300, &ctx), -ETIMEDOUT);
		MP_SAID("0 of 1 new processes");
		t0 = mp_now() - t0;
		TT_EXPECT(t0 > 0.29 && t0 < SOON);
		TT_EXPECT(!check_sum(job, comm, 3));
		if (i == 0)
			fds = tt_open_fds();
	}
	MP_ERR(tutti_comm_grow(comm, 2, MS, &ctx), -EINVAL);
	MP_SAID("3 ranks live");
	MP_ERR(tutti_comm_grow(comm, 4 + job->rank, MS, &ctx), -TUTTI_EMISMATCH);
	MP_ERR(tutti_comm_grow(comm, 0, MS, &ctx), -EINVAL);
	MP_ERR(tutti_comm_grow(comm, 4, -1, &ctx), -EINVAL);
	MP_ERR(tutti_comm_grow(comm, 4, MS, NULL), -EINVAL);
	MP_ERR(tutti_comm_grow(NULL, 4, MS, &ctx), -EINVAL);
	unsetenv("TUTTI_BOOT_DIR");
	TT_EXPECT(!ctx && !check_sum(job, comm, 3));
	for (i = 0; i < 3; i++) { /* no new processes requested: a new job of the same ranks */
		MP_OK(tutti_comm_grow(comm, 3, MS, &ctx));
		TT_EXPECT(!check_sum(job, tutti_world(ctx), 3));
		MP_OK(tutti_finalize(ctx));
	}
	TT_EXPECT(tt_open_fds() <= fds);
	return 0;
}

static int alone_body(struct mp_job *job)
{
	struct tutti_context *ctx;
	double t0 = mp_now();

	setenv("TUTTI_INIT_TIMEOUT", "300ms", 1);
	MP_ERR(mp_join_later(job), -TUTTI_EBOOT);
	MP_SAID("tutti-gate");
	TT_EXPECT(mp_now() - t0 < SOON);
	unsetenv("TUTTI_BOOT_DIR");
	MP_ERR(mp_join_later(job), -EINVAL);
	MP_SAID("TUTTI_BOOT_DIR");
	unsetenv("TUTTI_JOIN");
	MP_OK(tutti_init(NULL, &job->ctx)); /* a job of one */
	MP_ERR(tutti_comm_grow(tutti_world(job->ctx), 2, 300, &ctx), -EINVAL);
	MP_SAID("TUTTI_BOOT_DIR");
	return 0;
}

/* One that begins alone takes in another. */
static int from_one_body(struct mp_job *job)
{
	struct tutti_context *ctx;

	if (job->rank) {
		MP_OK(mp_join_later(job));
		return check_sum(job, job->world, 2);
	}
	MP_OK(tutti_init(NULL, &job->ctx));
	MP_OK(tutti_comm_grow(tutti_world(job->ctx), 2, MS, &ctx));
	MP_OK(tutti_finalize(job->ctx));
	job->ctx = ctx;
	return check_sum(job, tutti_world(ctx), 2);
}

static void nobody(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_BOOT_DIR=%d", .fn = nobody_body));
	TT_CHECK(!MP_RUN(.n = 1, .env = "TUTTI_BOOT_DIR=%d", .fn = alone_body, .no_init = true));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_BOOT_DIR=%d TUTTI_IF=lo", .fn = from_one_body,
			 .no_init = true));
}

/* ---- a rank that was stopped, and taken for dead ---- */

static int fenced(struct mp_job *job)
{
	struct tutti_config config = {
		.size = sizeof(config), .nranks = 3, .rank = 2, .id = &job->shared->id};
	struct tutti_context *ctx;
	double t0;
	int err;

	do
		err = tutti_barrier(job->world);
	while (!err);
	MP_ERR(err, -TUTTI_EPEER);
	MP_SAID("taken for dead");
	MP_ERR(tutti_comm_grow(job->world, 3, MS, &ctx), -TUTTI_EPEER);
	MP_SAID("taken for dead");
	/* nor as the rank that it was, from the start */
	t0 = mp_now();
	MP_ERR(tutti_init(&config, &ctx), -TUTTI_EBOOT);
	MP_SAID("runs already");
	TT_EXPECT(mp_now() - t0 < SOON);
	atomic_store(&job->shared->word[1], 1);
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

static int stopped_body(struct mp_job *job)
{
	struct tutti_context *ctx;

	if (job->rank == 3) {
		MP_OK(mp_join_later(job));
		TT_EXPECT(!check_sum(job, job->world, 3));
		TT_EXPECT(mp_await(&job->shared->word[1], 1, MP_HANG_MS));
		return check_sum(job, job->world, 3);
	}
	MP_OK(mp_join_first(job, 3));
	TT_EXPECT(!check_sum(job, job->world, 3));
	if (job->rank == 2) {
		raise(SIGSTOP);
		return fenced(job);
	}
	while (!tutti_barrier(job->world))
		;
	MP_OK(tutti_comm_grow(job->world, 3, MS, &ctx));
	TT_EXPECT(!check_sum(job, tutti_world(ctx), 3));
	if (job->rank == 0)
		kill(atomic_load(&job->shared->pid[2]), SIGCONT);
	TT_EXPECT(mp_await(&job->shared->word[1], 1, MP_HANG_MS));
	TT_EXPECT(!check_sum(job, tutti_world(ctx), 3));
	TT_EXPECT(!mp_leave_failed(job));
	job->ctx = ctx;
	return 0;
}

static void stopped(void)
{
	TT_CHECK(!MP_RUN(.n = 4,
			 .env = "TUTTI_BOOT_DIR=%d TUTTI_TRANSPORT=shm TUTTI_HEARTBEAT=100ms "
				"TUTTI_HEARTBEAT_LIMIT=500ms",
			 .fn = stopped_body, .no_init = true));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"steps_node", steps_node}, {"steps_shm", steps_shm}, {"steps_ofi", steps_ofi},
		{"killed", killed},	    {"leader", leader},	      {"storm", storm},
		{"strangers", strangers},   {"unfit", unfit},	      {"failing", failing},
		{"dying", dying},	    {"lost_word", lost_word}, {"nobody", nobody},
		{"stopped", stopped},	    {"both", both},	      {NULL, NULL},
	};

	return tt_test_main("grow", tests, argc, argv);
}
