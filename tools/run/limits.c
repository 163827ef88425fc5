/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks the limits of this host before the first rank starts. */
#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/observe/flight.h"
#include "tools/run/run.h"

#define SPARE_FILES 8
#define THREADS 2 /* of a rank, at least */
#define STACK_LEAST (64 << 10)

static long read_limit(const char *path)
{
	FILE *f = fopen(path, "re");
	long v = -1;

	if (f && fscanf(f, "%ld", &v) != 1)
		v = -1; /* "max" */
	if (f)
		fclose(f);
	return v;
}

static int open_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static int check_files(const struct share *share)
{
	long need = (long)share->count * (share->capture ? 3 : 1) + open_files() + SPARE_FILES;
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) || l.rlim_cur == RLIM_INFINITY || need <= (long)l.rlim_cur)
		return 0;
	return fail("%d ranks on this host need %ld file descriptors here, %ld are allowed; raise "
		    "'ulimit -n'",
		    share->count, need, (long)l.rlim_cur);
}

static int check_processes(const struct share *share)
{
	static const char *const kernel[] = {"/proc/sys/kernel/pid_max",
					     "/proc/sys/kernel/threads-max",
					     "/sys/fs/cgroup/pids.max"};
	long need = (long)share->count * THREADS, v;
	struct rlimit l;
	size_t i;

	for (i = 0; i < sizeof(kernel) / sizeof(kernel[0]); i++) {
		v = read_limit(kernel[i]);
		if (v >= 0 && need > v)
			return fail("%d ranks on this host need %ld threads, %s allows %ld",
				    share->count, need, kernel[i], v);
	}
	if (geteuid() && !getrlimit(RLIMIT_NPROC, &l) && l.rlim_cur != RLIM_INFINITY &&
	    need > (long)l.rlim_cur)
		return fail("%d ranks on this host need %ld threads, %ld are allowed; raise "
			    "'ulimit -u'",
			    share->count, need, (long)l.rlim_cur);
	return 0;
}

int limits_check(const struct share *share)
{
	struct rlimit l;

	if (!getrlimit(RLIMIT_FSIZE, &l) && l.rlim_cur != RLIM_INFINITY &&
	    l.rlim_cur < (rlim_t)tt_flight_size())
		say("'ulimit -f' allows files of %ld KiB; it also holds for memory that ranks "
		    "share: "
		    "programs that use tutti will not start",
		    (long)(l.rlim_cur >> 10));
	if (!getrlimit(RLIMIT_STACK, &l) && l.rlim_cur < STACK_LEAST)
		say("'ulimit -s' allows stacks of %ld KiB: programs that use tutti need %d KiB",
		    (long)(l.rlim_cur >> 10), STACK_LEAST >> 10);
	return check_files(share) || check_processes(share) ? -1 : 0;
}
