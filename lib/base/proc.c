/* SPDX-License-Identifier: BSD-3-Clause */
/* Other processes of this host; see proc.h. */
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

	/*
	 * A zombie writes nothing any more, but only a pidfd distinguishes it from a live process.
	 */
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

/* A file of /proc/PID, NUL-ended; how much of it fits. */
static size_t read_proc(pid_t pid, const char *name, char *buf, size_t size)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, buf, size - 1);
	if (fd >= 0)
		close(fd);
	buf[n > 0 ? n : 0] = 0;
	return n > 0 ? (size_t)n : 0;
}

#define EXITING 0x4 /* PF_EXITING of the kernel, which it sets before it takes the memory away */

bool tt_proc_exits(pid_t pid)
{
	char text[512], *name_end;
	unsigned flags;

	read_proc(pid, "stat", text, sizeof(text)); /* any user can read it */
	name_end = strrchr(text, ')');
	if (!name_end || sscanf(name_end, ") %*c %*d %*d %*d %*d %*d %u", &flags) != 1)
		return true;
	return flags & EXITING || tt_proc_gone(pid);
}

bool tt_proc_stopped(pid_t pid)
{
	char text[512], *name_end, state;

	read_proc(pid, "stat", text, sizeof(text));
	name_end = strrchr(text, ')');
	return name_end && sscanf(name_end, ") %c", &state) == 1 && (state == 'T' || state == 't');
}

pid_t tt_proc_parent(pid_t pid)
{
	char text[512], *name_end;
	int parent;

	read_proc(pid, "stat", text, sizeof(text));
	name_end = strrchr(text, ')'); /* the name may contain anything */
	return name_end && sscanf(name_end, ") %*c %d", &parent) == 1 ? (pid_t)parent : 0;
}

bool tt_proc_option(pid_t pid, const char *option, char *value, size_t size)
{
	char text[4096];
	size_t len = read_proc(pid, "cmdline", text, sizeof(text)), at = 0;

	while (at < len && strcmp(text + at, option))
		at += strlen(text + at) + 1;
	at += strlen(option) + 1;
	if (at >= len || strlen(text + at) >= size)
		return false;
	snprintf(value, size, "%s", text + at);
	return true;
}
