/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TUTTI_PS_TRACE: tutti_ps_check(1) accepts the traces of a run, and finds planted faults in them.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int traced_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	float v[3000] = {0};
	int c;

	MP_OK(mp_ps_open(job, 2, 2, &ps));
	MP_OK(tutti_ps_dense(ps, "t", 3000, TUTTI_FLOAT32, &opt, &t));
	for (c = 0; c < 20 && job->rank >= 2; c++) {
		MP_OK(tutti_ps_push(t, v, 0, 3000, TUTTI_FLOAT32));
		mp_sleep_ms(job->rank == 2);
		MP_OK(tutti_ps_clock(ps));
		MP_OK(tutti_ps_pull(t, v, 0, 3000, TUTTI_FLOAT32));
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

/* Pulls with later pushes behind them, which are answered while blocks are read. */
static int overlap_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	float *v = calloc(1 << 18, sizeof(*v)), *g = calloc(200, sizeof(*g));
	struct tutti_request *req[3];
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	int i;

	MP_OK(mp_ps_open(job, 1, 3, &ps));
	MP_OK(tutti_ps_dense(ps, "t", 1 << 18, TUTTI_FLOAT32, &opt, &t));
	for (i = 0; i < 60 && job->rank; i++) {
		MP_OK(tutti_ps_ipull(t, v, 0, 1 << 18, TUTTI_FLOAT32, &req[0]));
		MP_OK(tutti_ps_ipush(t, g, 0, 100, TUTTI_FLOAT32, &req[1]));
		MP_OK(tutti_ps_ipush(t, g, 100, 100, TUTTI_FLOAT32, &req[2]));
		MP_OK(tutti_waitall(3, req));
		if (i % 10 == 0)
			MP_OK(tutti_ps_clock(ps));
	}
	MP_OK(tutti_ps_close(ps));
	free(v);
	free(g);
	return 0;
}

/* The checker's verdict on the traces in dir, after `edit` has changed them. */
static int checked(const char *dir, const char *edit)
{
	char command[1024];

	snprintf(command, sizeof(command),
		 "rm -rf %s/x; mkdir %s/x && cp %s/t.* %s/x && cd %s/x && { %s; } && "
		 "\"$TT_BUILD\"/tutti_ps_check t.* >%s/out 2>&1",
		 dir, dir, dir, dir, dir, edit, dir);
	return WEXITSTATUS(system(command));
}

static void trace(void)
{
	char dir[] = "/tmp/tutti-ps-XXXXXX", env[200], command[100];

	if (!getenv("TT_BUILD"))
		setenv("TT_BUILD", ".", 1);
	if (getenv("TT_BUILD")[0] != '/') {
		static char cwd[400];

		setenv("TT_BUILD", getcwd(cwd, sizeof(cwd)) ? cwd : ".", 1);
	}
	TT_CHECK(mkdtemp(dir) != NULL);
	snprintf(env, sizeof(env), "TUTTI_TRANSPORT=shm TUTTI_PS_TRACE=%s/t", dir);
	TT_CHECK(!MP_RUN(.n = 5, .env = env, .fn = traced_body));
	TT_CHECK(checked(dir, "true") == 0);
	/* a worker went on three clocks ahead; a read is three clocks old */
	TT_CHECK(checked(dir, "sed -i 's/^clock 9 .*/clock 9 6/' t.1") == 1);
	TT_CHECK(checked(dir,
			 "sed -i -E 's/^(read [0-9]+ [0-9]+ [0-9]+) 12 [0-9]+/\\1 12 9/' t.2") ==
		 1);
	/* a read that claims a clock never announced, or announced later */
	TT_CHECK(checked(dir,
			 "sed -i -E 's/^(read [0-9]+ [0-9]+ [0-9]+) 12 [0-9]+/\\1 12 30/' t.0") ==
		 1);
	TT_CHECK(checked(dir,
			 "sed -i -E 's/^(read [0-9]+ [0-9]+ [0-9]+) 5 [0-9]+/\\1 5 15/' t.0") == 1);
	/* its own push is missing; a block gets older */
	TT_CHECK(checked(dir, "sed -i -E 's/^(read .*) ([0-9]+) [0-9]+ ([0-9]+)$/\\1 \\2 9999 "
			      "\\3/' t.0") == 1);
	TT_CHECK(checked(dir, "sed -i -E '/^read/{x;s/^/x/;/x{9}/{x;s/^(read [0-9]+ [0-9]+ [0-9]+ "
			      "[0-9]+ [0-9]+) "
			      "[0-9]+ [0-9]+/\\1 1 0/;x};x}' t.0") == 1);
	/* no whole traces of one run */
	TT_CHECK(checked(dir, "rm t.1") == 1);
	TT_CHECK(checked(dir, "truncate -s -3 t.1") == 1);
	TT_CHECK(checked(dir, "echo nonsense >> t.1") == 1);
	TT_CHECK(checked(dir, "cp t.0 t.1") == 1);
	/*
	 * a worker that died in the middle of a line is not waited for, but no read may contain a
	 * clock that it had not announced
	 */
	TT_CHECK(checked(dir, "sed -i '/^tick 10 /{s/.$//;q}' t.1; truncate -s -1 t.1") == 1);
	TT_CHECK(checked(dir,
			 "sed -i '/^tick 10 /q' t.1; truncate -s -1 t.1; echo dead 1 >> t.0") == 0);
	TT_CHECK(checked(dir,
			 "sed -i '/^tick 10 /q' t.1; truncate -s -1 t.1; echo dead 1 >> t.0; "
			 "sed -i -E 's/^(read [0-9]+ [0-9]+ [0-9]+) 5 [0-9]+/\\1 5 9/' t.0") == 1);
	snprintf(env, sizeof(env),
		 "TUTTI_TRANSPORT=fault:shm TUTTI_FAULT=seed=4,delay=0.5:2000,finish=1 "
		 "TUTTI_PS_TRACE=%s/t",
		 dir);
	TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = overlap_body));
	TT_CHECK(checked(dir, "rm t.2") == 0); /* of the job before */
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	TT_CHECK(system(command) == 0);
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"trace", trace}, {NULL, NULL}};

	return tt_test_main("ps_trace", tests, argc, argv);
}
