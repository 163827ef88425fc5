/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts one rank: its environment, descriptors and CPUs. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/run/run.h"

const char *spawn_own_dir(void)
{
	static char dir[PATH_MAX];
	ssize_t n;

	if (!dir[0]) {
		n = readlink("/proc/self/exe", dir, sizeof(dir) - 1);
		dir[n > 0 ? n : 0] = 0;
		*(strrchr(dir, '/') ? strrchr(dir, '/') : dir) = 0;
	}
	return dir;
}

/* 0 or an errno; directories may be executable, too. */
static int cannot_run(const char *path)
{
	struct stat st;

	if (stat(path, &st) || access(path, X_OK))
		return errno;
	return S_ISDIR(st.st_mode) ? EISDIR : 0;
}

static bool runnable(const char *dir, size_t len, const char *program, char *path)
{
	snprintf(path, PATH_MAX, "%.*s/%s", len ? (int)len : 1, len ? dir : ".", program);
	return !cannot_run(path);
}

char *spawn_lookup(const char *program)
{
	const char *dir = getenv("PATH"), *own = spawn_own_dir();
	char path[PATH_MAX];
	size_t len;
	int err;

	if (!*program) {
		fail("the name of the program is empty");
		return NULL;
	}
	if (strchr(program, '/')) {
		err = cannot_run(program);
		if (!err)
			return must_strdup(program);
		fail("cannot run %s: %s", program, strerror(err));
		return NULL;
	}
	while (dir) {
		len = strcspn(dir, ":");
		if (runnable(dir, len, program, path))
			return must_strdup(path);
		dir = dir[len] ? dir + len + 1 : NULL;
	}
	if (runnable(own, strlen(own), program, path))
		return must_strdup(path);
	fail("cannot find program %s, neither in PATH nor in %s", program, own);
	return NULL;
}

static void put(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void put(const char *name, const char *fmt, ...)
{
	char value[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(value, sizeof(value), fmt, ap);
	va_end(ap);
	setenv(name, value, 1);
}

/* A descriptor of this rank alone: a shared one would share its file position too. */
static int secret_fd(const struct share *share)
{
	int fd = memfd_create("tutti secret", 0);

	if (fd < 0 || !write_all(fd, share->secret, sizeof(share->secret)) ||
	    lseek(fd, 0, SEEK_SET))
		_exit(fail("cannot hand over the job's secret: %s", strerror(errno)));
	return fd;
}

/* The rank, and where to find the others; a new process learns both at the gate. */
static void set_place(const struct share *share, const struct spawn *s)
{
	int rank = share->first + s->local_rank;

	put("TUTTI_LOCAL_RANK", "%d", s->local_rank);
	if (share->gate)
		put("TUTTI_BOOT_DIR", "%s", share->gate);
	if (s->joins) {
		unsetenv("TUTTI_RANK");
		unsetenv("TUTTI_NRANKS");
		unsetenv("TUTTI_STORE");
		put("TUTTI_JOIN", "1");
		return;
	}
	put("TUTTI_RANK", "%d", rank);
	put("TUTTI_NRANKS", "%d", share->nranks);
	put("TUTTI_STORE", "%s", share->store);
	if (!rank && share->store_fd >= 0) {
		put("TUTTI_STORE_FD", "%d", share->store_fd);
		fcntl(share->store_fd, F_SETFD, 0);
	}
}

/*
 * Variables of libfabric that transport ofi needs and that no call can set; the user's values win.
 */
static void set_libfabric(void)
{
	setenv("FI_MR_CACHE_MAX_COUNT", "0", 0);
	setenv("FI_EFA_MR_CACHE_ENABLE", "0", 0);
	setenv("FI_EFA_ENABLE_SHM_TRANSFER", "0", 0);
}

static void set_environment(const struct share *share, const struct spawn *s)
{
	int i;

	for (i = 0; share->env && share->env[i]; i++)
		putenv(share->env[i]);
	/* Other ways of starting must not compete with this one. */
	unsetenv("TUTTI_BOOT_DIR");
	unsetenv("TUTTI_SECRET_FILE");
	unsetenv("TUTTI_STORE_FD");
	unsetenv("TUTTI_FLIGHT_FD");
	unsetenv("TUTTI_JOIN");
	set_libfabric();
	set_place(share, s);
	put("TUTTI_JOB_ID", "%s", share->job_id);
	put("TUTTI_SECRET_FD", "%d", secret_fd(share));
	if (s->flight >= 0) {
		put("TUTTI_FLIGHT_FD", "%d", s->flight);
		fcntl(s->flight, F_SETFD, 0);
	}
}

static void child(const struct share *share, const struct spawn *s, pid_t launcher)
{
	int i;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != launcher)
		_exit(STATUS_LAUNCHER); /* it died before the line above */
	for (i = 0; i < 3; i++)
		if (s->fd[i] != i && dup2(s->fd[i], i) < 0)
			_exit(fail("dup2: %s", strerror(errno)));
	if (s->cpus && sched_setaffinity(0, sizeof(*s->cpus), s->cpus))
		say("rank %d: cannot bind: %s", share->first + s->local_rank, strerror(errno));
	set_environment(share, s);
	keeper_tell(s->keeper, getpid(), false);
	loop_child_signals();
	execv(s->path, share->argv);
	say("rank %d: cannot run %s: %s", share->first + s->local_rank, s->path, strerror(errno));
	_exit(127);
}

pid_t spawn_rank(const struct share *share, const struct spawn *s)
{
	pid_t launcher = getpid(), pid = fork();

	if (!pid)
		child(share, s, launcher);
	if (pid > 0)
		setpgid(pid, pid); /* here too, so that signals to the group are right at once */
	return pid;
}
