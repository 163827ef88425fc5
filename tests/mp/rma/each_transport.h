/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of a test whose jobs are the same on every transport. The test defines run(). */
#ifndef TT_EACH_TRANSPORT_H
#define TT_EACH_TRANSPORT_H

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

#endif
