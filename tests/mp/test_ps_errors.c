/* SPDX-License-Identifier: BSD-3-Clause */
/* The parameter server when something fails: nobody waits for what can't come, and nothing is lost unsaid. */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/ps/ps.h"

/* Ranks below `servers` serve, all others work. */
static int open_ps(struct mp_job *job, int servers, int staleness, struct tutti_ps **ps)
{
	struct tutti_ps_config config = {.size = sizeof(config),
					 .staleness = staleness,
					 .role = job->rank < servers ? TUTTI_PS_SERVER
								     : TUTTI_PS_WORKER};

	return tutti_ps_open(job->world, &config, ps);
}

/* ---- what a server tells does not arrive ---- */

/* *arg: the operation of rank 0, counted from the first of the server's, that fails. */
static int deaf_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	float v[100] = {0};
	double begin;
	int err = 0, end;
	struct tutti_config config = {0};
	char fault[64];

	if (!job->rank) {
		snprintf(fault, sizeof(fault), "error_after=%d", *(int *)job->arg);
		setenv("TUTTI_FAULT", fault, 1);
	}
	MP_OK(mp_join(job, MP_ID, &config));
	MP_OK(open_ps(job, 1, 1, &ps));
	MP_OK(tutti_ps_dense(ps, "t", 100, TUTTI_FLOAT32, &opt, &t));
	begin = mp_now();
	while (job->rank && !err) {
		err = tutti_ps_push(t, v, 0, 100, TUTTI_FLOAT32);
		if (!err)
			err = tutti_ps_clock(ps);
		if (!err)
			err = tutti_ps_pull(t, v, 0, 100, TUTTI_FLOAT32);
		if (mp_now() - begin > 15)
			return 1;
	}
	end = tutti_ps_close(ps);
	MP_ERR(err ? err : end, -TUTTI_EPEER);
	MP_ERR(end, -TUTTI_EPEER);
	tutti_finalize(job->ctx); /* the rank that could not be reached is out of the job */
	job->ctx = NULL;
	return 0;
}

static void deaf(void)
{
	int at;

	/* an answer, a directory, the clock: some of each */
	for (at = 300; at < 304; at++)
		TT_CHECK(!MP_RUN(.n = 3, .no_init = true, .fn = deaf_body, .arg = &at, .timeout_ms = 20000,
				 .env = "TUTTI_TRANSPORT=fault:shm TUTTI_TIMEOUT=60s"));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"deaf", deaf}, {NULL, NULL}};

	return tt_test_main("ps_errors", tests, argc, argv);
}
