/* SPDX-License-Identifier: BSD-3-Clause */
/* Every way to start a job, and the progress thread. */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static int works(struct mp_job *job)
{
	int64_t v[2] = {job->rank, 1};

	TT_EXPECT(tutti_comm_rank(job->world) == job->rank &&
		  tutti_comm_size(job->world) == job->n);
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, v, 2, TUTTI_INT64, TUTTI_SUM, job->world));
	TT_EXPECT(v[0] == job->n * (job->n - 1) / 2 && v[1] == job->n);
	return 0;
}

static void unique_id(void)
{
	TT_CHECK(!MP_RUN(.n = 1, .way = MP_ID, .fn = works));
	TT_CHECK(!MP_RUN(.n = 4, .way = MP_ID, .fn = works));
}

static void allgather(void)
{
	TT_CHECK(!MP_RUN(.n = 1, .way = MP_GATHER, .fn = works));
	TT_CHECK(!MP_RUN(.n = 5, .way = MP_GATHER, .fn = works));
}

static void directory(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .way = MP_DIR, .fn = works));
	TT_CHECK(!MP_RUN(.n = 3, .way = MP_ENV, .fn = works,
			 .env = "TUTTI_BOOT_DIR=%d TUTTI_RANK=%r TUTTI_NRANKS=%n"));
	TT_CHECK(!MP_RUN(.n = 2, .way = MP_ENV, .fn = works,
			 .env = "TUTTI_BOOT_DIR=%d RANK=%r WORLD_SIZE=%n"));
}

static void by_port(const char *format)
{
	char env[256];

	/* the format holds one number, the port; %% survives for mp_run */
	snprintf(env, sizeof(env), format, tt_free_port());
	TT_CHECK(!MP_RUN(.n = 4, .way = MP_ENV, .fn = works, .env = env));
}

static void torchrun(void)
{
	by_port("RANK=%%r WORLD_SIZE=%%n LOCAL_RANK=%%r MASTER_ADDR=127.0.0.1 MASTER_PORT=%d");
	by_port("RANK=%%r WORLD_SIZE=%%n LOCAL_RANK=%%r MASTER_ADDR=localhost MASTER_PORT=%d");
}

static void tutti_variables(void)
{
	by_port("TUTTI_RANK=%%r TUTTI_NRANKS=%%n TUTTI_LOCAL_RANK=%%r TUTTI_STORE=127.0.0.1:%d "
		"TUTTI_JOB_ID=000102030405060708090a0b0c0d0e0f");
}

static int single_body(struct mp_job *job)
{
	struct tutti_config config = {0};

	MP_OK(tutti_init(NULL, &job->ctx));
	job->world = tutti_world(job->ctx);
	TT_EXPECT(!works(job));
	MP_OK(tutti_finalize(job->ctx));
	config.size = sizeof(size_t) + 2 * sizeof(int); /* an older caller's struct */
	config.nranks = 1;
	MP_OK(tutti_init(&config, &job->ctx));
	job->world = tutti_world(job->ctx);
	return works(job);
}

static void single(void)
{
	TT_CHECK(!MP_RUN(.n = 1, .way = MP_ENV, .fn = single_body, .no_init = true));
}

static void *second_thread(void *arg)
{
	struct tutti_context *ctx;

	return tutti_init(NULL, &ctx) == -EBUSY && mp_said("is in this job already") ? NULL : arg;
}

static int use_secret_fd(void)
{
	int fd = memfd_create("secret", 0);
	char text[16];

	TT_EXPECT(fd >= 0 && write(fd, "0123456789abcdef0123456789abcdef", 32) == 32);
	TT_EXPECT(!lseek(fd, 0, SEEK_SET));
	snprintf(text, sizeof(text), "%d", fd);
	return setenv("TUTTI_SECRET_FD", text, 1);
}

/* As two libraries of a program may do, one in a thread. arg: as under tutti_run. */
static int second_body(struct mp_job *job)
{
	struct tutti_context *second = NULL;
	pthread_t thread;
	void *bad = NULL;
	char text[32];

	TT_EXPECT(!job->arg || !use_secret_fd());
	MP_OK(tutti_init(NULL, &job->ctx));
	job->world = tutti_world(job->ctx);
	if (job->rank) { /* rank 0 does not, and no rank waits for it */
		snprintf(text, sizeof(text), "as rank %d of %d", job->rank, job->n);
		MP_ERR(tutti_init(NULL, &second), -EBUSY);
		TT_EXPECT(mp_said(text) && mp_said("share its context"));
		TT_EXPECT(!pthread_create(&thread, NULL, second_thread, job));
		TT_EXPECT(!pthread_join(thread, &bad) && !bad);
	}
	TT_EXPECT(!works(job) && !second);
	if (!job->arg)
		return 0;
	MP_OK(mp_leave(job));
	MP_ERR(tutti_init(NULL, &second), -EBUSY);
	MP_SAID("cannot join it again");
	return 0;
}

static void second(void)
{
	char env[160];

	snprintf(env, sizeof(env), "TUTTI_RANK=%%r TUTTI_NRANKS=%%n TUTTI_STORE=127.0.0.1:%d",
		 tt_free_port());
	TT_CHECK(!MP_RUN(.n = 3, .way = MP_ENV, .fn = second_body, .env = env, .no_init = true));
	TT_CHECK(!MP_RUN(.n = 3, .way = MP_ENV, .fn = second_body, .env = env, .no_init = true,
			 .arg = "tutti_run"));
	TT_CHECK(!MP_RUN(.n = 3, .way = MP_ENV, .fn = second_body, .no_init = true,
			 .env = "TUTTI_BOOT_DIR=%d RANK=%r WORLD_SIZE=%n"));
}

/* Two contexts of one process, alive at once; and a job joined again after it was left. */
static int again_body(struct mp_job *job)
{
	struct tutti_context *first;
	struct tutti_config config;
	int i;

	for (i = 0; i < 3; i++) {
		config = (struct tutti_config){0};
		MP_OK(mp_join(job, MP_GATHER, &config));
		TT_EXPECT(!works(job));
		first = job->ctx;
		config = (struct tutti_config){0};
		MP_OK(mp_join(job, MP_GATHER, &config));
		TT_EXPECT(!works(job));
		MP_OK(tutti_finalize(first));
		TT_EXPECT(!works(job));
		MP_OK(tutti_finalize(job->ctx));
	}
	job->ctx = NULL;
	return 0;
}

static void again(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .fn = again_body, .no_init = true));
}

/*
 * A refusal before the job is joined costs nothing: the id serves the next try, and nothing is
 * left open.
 */
static int refused_body(struct mp_job *job)
{
	struct tutti_config config = {0};
	char rules[400] = "";
	int fds = tt_open_fds();

	while (strlen(rules) < 300)
		strcat(rules, "allreduce:ring;");
	setenv("TUTTI_ALGO", rules, 1);
	MP_ERR(mp_join(job, MP_ID, &config), -EINVAL);
	MP_SAID("TUTTI_ALGO");
	unsetenv("TUTTI_ALGO");
	MP_OK(tutti_init(&config, &job->ctx));
	job->world = tutti_world(job->ctx);
	TT_EXPECT(!works(job));
	MP_OK(mp_leave(job));
	TT_EXPECT(tt_open_fds() == fds);
	return 0;
}

static void refused(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = refused_body, .no_init = true));
}

/* ---- progress ---- */

#define LONG 480000 /* elements: whole blocks for 2 and 3 ranks */

/* Whether this rank has sent and reduced all that one all-reduce of LONG float32 wants of it. */
static bool all_moved(struct mp_job *job, const struct tutti_stats *before)
{
	struct tutti_stats now = {.size = sizeof(now)};
	uint64_t part = (uint64_t)(job->n - 1) * LONG * 4 / (uint64_t)job->n;

	tutti_stats_get(job->ctx, &now); /* looks, but moves nothing */
	return now.reduced_bytes - before->reduced_bytes == part &&
	       now.put_bytes - before->put_bytes >= 2 * part;
}

/* The caller sleeps: with the thread the operation runs to its end meanwhile, without it can't. */
static int progress_body(struct mp_job *job)
{
	bool thread = *(bool *)job->arg, moved;
	struct tutti_stats before = {.size = sizeof(before)};
	struct tutti_request *req;
	float *v;
	int done, i, k;

	MP_OK(tutti_alloc(job->ctx, LONG * 4, (void **)&v));
	for (k = 0; k < 3; k++) {
		for (i = 0; i < LONG; i++)
			v[i] = 1;
		MP_OK(tutti_barrier(job->world));
		MP_OK(tutti_stats_get(job->ctx, &before));
		mp_meet(job);
		MP_OK(tutti_iallreduce(TUTTI_IN_PLACE, v, LONG, TUTTI_FLOAT32, TUTTI_SUM,
				       job->world, &req));
		/* no limit, for a busy machine; the check is of results, not of time */
		for (i = 0; i < (thread ? 400 : 8); i++) {
			mp_sleep_ms(25);
			if (all_moved(job, &before))
				break;
		}
		moved = all_moved(job, &before);
		mp_meet(job);
		TT_EXPECT(moved == thread);
		do
			MP_OK(tutti_test(&req, &done));
		while (!done);
		for (i = 0; i < LONG; i++)
			TT_EXPECT(v[i] == (float)job->n);
	}
	MP_OK(tutti_free(v));
	return 0;
}

static void progress(void)
{
	bool thread = true;

	TT_CHECK(!MP_RUN(.n = 3, .fn = progress_body,
			 .env = "TUTTI_PROGRESS=thread TUTTI_TRANSPORT=shm", .arg = &thread));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 2, .fn = progress_body,
				 .env = "TUTTI_PROGRESS=thread TUTTI_TRANSPORT=ofi",
				 .arg = &thread));
	thread = false;
	TT_CHECK(
		!MP_RUN(.n = 3, .fn = progress_body, .env = "TUTTI_TRANSPORT=shm", .arg = &thread));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"unique_id", unique_id},
		{"allgather", allgather},
		{"directory", directory},
		{"torchrun", torchrun},
		{"tutti_variables", tutti_variables},
		{"single", single},
		{"again", again},
		{"second", second},
		{"refused", refused},
		{"progress", progress},
		{NULL, NULL},
	};

	return tt_test_main("ways", tests, argc, argv);
}
