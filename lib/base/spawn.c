/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/base/spawn.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/error.h"

#define STACK_BYTES (256 << 10)
#define SLICE_NS 100000 /* the shortest that Linux has */

int tt_spawn(pthread_t *thread, void *(*run)(void *), void *arg, const char *what)
{
	sigset_t all, old;
	pthread_attr_t attr;
	size_t size;
	int err;

	/* the default is 'ulimit -s', which may be too little */
	if (pthread_attr_init(&attr) || pthread_attr_getstacksize(&attr, &size) ||
	    (size < STACK_BYTES && pthread_attr_setstacksize(&attr, STACK_BYTES)))
		return tt_fail(-ENOMEM, "no memory to start %s", what);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(thread, &attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return err ? tt_fail(-err,
			     "cannot start %s: %s; raise 'ulimit -u' or 'ulimit -v', or the limits "
			     "of the container",
			     what, strerror(err))
		   : 0;
}

void tt_spawned_brief(void)
{
	struct { /* struct sched_attr; its header and <sched.h> do not go together everywhere */
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = {.size = sizeof(attr)};

	/* keep the program's own policy and niceness */
	if (!syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) && attr.policy == SCHED_OTHER) {
		attr.runtime = SLICE_NS;
		(void)syscall(SYS_sched_setattr, 0, &attr, 0);
	}
}
