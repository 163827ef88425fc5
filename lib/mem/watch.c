/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the changes of user memory from userfaultfd; see watch.h. */
#include "lib/base/spawn.h"
#include "lib/mem/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"

#define NEEDED                                                                                     \
	(UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP |    \
	 UFFD_FEATURE_EVENT_REMOVE)
#define BUSY_NS (100 * TT_MS) /* longest wait for a change under way */

struct tt_watch {
	int fd, stop_fd;
	void *probe; /* a page of ours under watch */
	size_t page;
	pthread_t thread;
	sem_t running;
	pthread_mutex_t
		lock; /* a leaf: held while a notice is read and noted, nothing else happens then */
	struct tt_range range[TT_WATCH_MAX];
	int n; /* of range; TT_WATCH_MAX + 1: they did not fit */
};

static void note(struct tt_watch *w, uint64_t start, uint64_t end)
{
	if (w->n < TT_WATCH_MAX)
		w->range[w->n] = (struct tt_range){start, end};
	if (w->n <= TT_WATCH_MAX)
		w->n++;
}

/* The lock is held from before a notice is read, which lets its cause go on, until it is noted. */
static void take_notices(struct tt_watch *w)
{
	struct uffd_msg msg;

	pthread_mutex_lock(&w->lock);
	while (read(w->fd, &msg, sizeof(msg)) == (ssize_t)sizeof(msg)) {
		if (msg.event == UFFD_EVENT_UNMAP || msg.event == UFFD_EVENT_REMOVE)
			note(w, msg.arg.remove.start, msg.arg.remove.end);
		else if (msg.event == UFFD_EVENT_REMAP)
			note(w, msg.arg.remap.from, msg.arg.remap.from + msg.arg.remap.len);
	}
	pthread_mutex_unlock(&w->lock);
}

static void *run(void *arg)
{
	struct tt_watch *w = arg;
	struct pollfd fds[2] = {{.fd = w->fd, .events = POLLIN},
				{.fd = w->stop_fd, .events = POLLIN}};

	sem_post(&w->running);
	while (!(fds[1].revents & POLLIN)) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			break;
		take_notices(w);
	}
	/*
	 * The end of a thread may give memory back (cached stacks of others), and that would wait
	 * for this thread to take the notice: so nothing is watched any more when it ends.
	 */
	close(w->fd);
	return NULL;
}

static int start_thread(struct tt_watch *w)
{
	int err = tt_spawn(&w->thread, run, w, "the thread that watches memory");

	while (!err && sem_wait(&w->running)) /* its beginning, too, may move memory about */
		;
	return err;
}

static int register_range(struct tt_watch *w, uintptr_t start, uintptr_t end)
{
	struct uffdio_register reg = {.range = {start, end - start},
				      .mode = UFFDIO_REGISTER_MODE_WP};

	return ioctl(w->fd, UFFDIO_REGISTER, &reg) ? -errno : 0;
}

static int open_uffd(struct tt_watch *w)
{
	struct uffdio_api api = {.api = UFFD_API, .features = NEEDED};
	int err;

	/* user mode only, which needs no privileges and is sufficient */
	w->fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	if (w->fd < 0 && errno == EINVAL) /* before Linux 5.11 */
		w->fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (w->fd < 0)
		return tt_fail(
			-errno,
			"userfaultfd: %s; a container's seccomp filter may forbid it, or the "
			"kernel lack it (CONFIG_USERFAULTFD)",
			strerror(errno));
	if (ioctl(w->fd, UFFDIO_API, &api)) {
		err = tt_fail(-EOPNOTSUPP,
			      "userfaultfd cannot report unmapped memory here: %s; this "
			      "takes Linux 5.7 and a processor with write-protect faults",
			      strerror(errno));
		close(w->fd);
		return err;
	}
	return 0;
}

/* A page that shows whether watching works at all, and which tt_watch_changes asks about. */
static int map_probe(struct tt_watch *w)
{
	int err;

	w->page = (size_t)sysconf(_SC_PAGESIZE);
	w->probe = mmap(NULL, w->page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (w->probe == MAP_FAILED)
		return tt_fail(-errno, "mmap: %s", strerror(errno));
	err = register_range(w, (uintptr_t)w->probe, (uintptr_t)w->probe + w->page);
	if (!err)
		return 0;
	munmap(w->probe, w->page);
	return tt_fail(-EOPNOTSUPP, "userfaultfd cannot watch memory here: %s", strerror(-err));
}

int tt_watch_new(struct tt_watch **out)
{
	struct tt_watch *w = calloc(1, sizeof(*w));
	int err;

	if (!w)
		return tt_fail(-ENOMEM, "no memory for watching memory");
	err = open_uffd(w);
	if (err)
		goto free_watch;
	err = map_probe(w);
	if (err)
		goto close_uffd;
	w->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->stop_fd < 0) {
		err = tt_fail(-errno, "eventfd: %s", strerror(errno));
		goto unmap_probe;
	}
	pthread_mutex_init(&w->lock, NULL);
	sem_init(&w->running, 0, 0);
	err = start_thread(w);
	if (err)
		goto close_stop;
	*out = w;
	return 0;

close_stop:
	sem_destroy(&w->running);
	pthread_mutex_destroy(&w->lock);
	close(w->stop_fd);
unmap_probe:
	tt_watch_remove(w, (uintptr_t)w->probe, (uintptr_t)w->probe + w->page);
	munmap(w->probe, w->page);
close_uffd:
	close(w->fd);
free_watch:
	free(w);
	return err;
}

void tt_watch_free(struct tt_watch *w)
{
	uint64_t one = 1;

	while (write(w->stop_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	pthread_join(w->thread, NULL); /* it has closed fd: callers that wait for it go on */
	munmap(w->probe, w->page);
	close(w->stop_fd);
	sem_destroy(&w->running);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

/* Whether all of [start, end) is mapped, private, anonymous and writable. */
static bool is_plain(uintptr_t start, uintptr_t end)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long from, to, inode;
	char *line = NULL, perms[8];
	size_t room = 0;

	if (!f)
		return false;
	while (start < end && getline(&line, &room, f) > 0) {
		if (sscanf(line, "%lx-%lx %7s %*s %*s %lu", &from, &to, perms, &inode) != 4)
			break;
		if (to <= start)
			continue;
		if (from > start || inode || perms[0] != 'r' || perms[1] != 'w' || perms[3] != 'p')
			break;
		start = to;
	}
	free(line);
	fclose(f);
	return start >= end;
}

int tt_watch_add(struct tt_watch *w, uintptr_t start, uintptr_t end)
{
	/* Watch first, then look: later changes are reported. */
	if (register_range(w, start, end))
		return -EOPNOTSUPP;
	return is_plain(start, end) ? 0 : -EINVAL;
}

void tt_watch_remove(struct tt_watch *w, uintptr_t start, uintptr_t end)
{
	struct uffdio_range range = {start, end - start};

	ioctl(w->fd, UFFDIO_UNREGISTER, &range);
}

/*
 * A change is announced in three steps: the kernel counts it as under way, makes it, and waits
 * until its notice is read. While the count is not 0, it refuses this call, which does nothing
 * else.
 */
static bool settled(struct tt_watch *w)
{
	struct uffdio_writeprotect none = {.range = {(uintptr_t)w->probe, w->page}};

	return !ioctl(w->fd, UFFDIO_WRITEPROTECT, &none);
}

int tt_watch_changes(struct tt_watch *w, struct tt_range *range, int *n)
{
	uint64_t give_up = 0;

	while (!settled(w)) {
		if (!give_up)
			give_up = tt_now_ns() + BUSY_NS;
		else if (tt_passed(give_up))
			return -EBUSY;
		take_notices(w);
		sched_yield();
	}
	/* Read notices are noted before the lock is free again. */
	pthread_mutex_lock(&w->lock);
	*n = w->n;
	if (w->n > TT_WATCH_MAX) {
		*n = 1;
		range[0] = (struct tt_range){0, UINTPTR_MAX};
	} else {
		memcpy(range, w->range, (size_t)w->n * sizeof(*range));
	}
	w->n = 0;
	pthread_mutex_unlock(&w->lock);
	return 0;
}
