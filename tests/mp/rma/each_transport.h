/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of a test whose jobs are the same on every transport. The test defines run(). */
#ifndef TT_EACH_TRANSPORT_H
#define TT_EACH_TRANSPORT_H

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/mp/job.h"

/* All jobs, with this environment. */
static void run(const char *env);

static void shm(void)
{
	run("TUTTI_TRANSPORT=shm");
}

static void shm_fault(void)
{
	run("TUTTI_TRANSPORT=fault:shm "
	    "TUTTI_FAULT=seed=3,delay=0.1:100,reorder=0.3,again=0.2,finish=1,max_put=5003");
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	run("TUTTI_TRANSPORT=ofi TUTTI_IF=lo");
}

static void verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	run("TUTTI_TRANSPORT=verbs TUTTI_TIMEOUT=30s");
}

typedef int access_fn(struct tutti_win *win, void *local, struct tutti_request **req);

/* Rank 0 dies while others start requests of two kinds on it: each ends with the error. */
static inline int target_dies(struct mp_job *job, size_t bytes, access_fn *first, access_fn *second)
{
	struct tutti_request *req[2] = {NULL};
	char *mine, *local = calloc(1, bytes);
	struct tutti_win *win;
	int err;

	MP_OK(tutti_win_allocate(job->world, bytes, 0, (void **)&mine, &win));
	mp_meet(job);
	if (job->rank == 0) {
		usleep(20000);
		kill(getpid(), SIGKILL);
	}
	do {
		err = first(win, local, &req[0]);
		if (!err)
			err = second(win, local, &req[1]);
		if (!err)
			err = tutti_waitall(2, req);
	} while (!err);
	TT_EXPECT(!mp_died(job, err, 2, req));
	TT_EXPECT(tutti_win_free(win) != -EBUSY);
	mp_leave(job);
	free(local);
	return 0;
}

#endif
