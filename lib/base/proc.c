/* SPDX-License-Identifier: BSD-3-Clause */
/* Other processes of this host. */
#include "lib/base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

bool tt_proc_gone(pid_t pid)
{
	struct pollfd p = {.events = POLLIN};
	bool gone;

	/* A zombie writes nothing any more, but only a pidfd tells it from the living. */
	p.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (p.fd < 0) /* some containers forbid pidfds */
		return errno == ESRCH || (kill(pid, 0) && errno == ESRCH);
	gone = poll(&p, 1, 0) == 1;
	close(p.fd);
	return gone;
}

int tt_proc_open_fd(pid_t pid, int fd, const char *prefix, uint64_t ino)
{
	char path[64], link[64] = "";
	struct stat st;
	int got;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
	/* Opening a stranger's descriptor may have effects: look at its name first. */
	if (readlink(path, link, sizeof(link) - 1) < 0)
		return -errno;
	if (strncmp(link, prefix, strlen(prefix)))
		return -ESTALE;
	/* The pipe for reading too: writing to one that has a reader never raises SIGPIPE. */
	got = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (got < 0)
		return -errno;
	if (ino && (fstat(got, &st) || st.st_ino != ino)) {
		close(got);
		return -ESTALE;
	}
	return got;
}
