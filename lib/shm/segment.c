/* SPDX-License-Identifier: BSD-3-Clause */
/* Segments, the pipes that wake their owners, and copies of ordinary memory; see segment.h. */
#include "lib/shm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "lib/base/copy.h"
#include "lib/base/error.h"
#include "lib/base/proc.h"

int tt_shm_create(const char *name, size_t len, void **addr, uint64_t *ino)
{
	int fd = memfd_create(name, MFD_CLOEXEC), err;
	void *p = MAP_FAILED;
	struct stat st;

	/* /proc/PID/fd admits only this user; the mode repeats this. */
	if (fd >= 0 && !fchmod(fd, 0600) && !ftruncate(fd, (off_t)len) && !fstat(fd, &st))
		p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		err = tt_fail(-errno, "shared memory %s of %zu KiB: %s%s", name, len >> 10,
			      strerror(errno), errno == ENOMEM ? "; " TT_RAISE_MEMORY : "");
		if (fd >= 0)
			close(fd);
		return err;
	}
	*addr = p;
	*ino = st.st_ino;
	return fd;
}

int tt_shm_seg_create(struct tt_shm_seg *seg, const char *name, size_t len, uint64_t magic,
		      const uint64_t cookie[2])
{
	struct stat st;
	void *addr;
	int err;

	*seg = (struct tt_shm_seg){.len = len, .wake = {-1, -1}};
	seg->fd = tt_shm_create(name, len, &addr, &seg->ino);
	if (seg->fd < 0)
		return seg->fd;
	seg->head = addr;
	if (pipe2(seg->wake, O_CLOEXEC | O_NONBLOCK) || fstat(seg->wake[1], &st)) {
		err = tt_fail(-errno, "no pipe to sleep on: %s", strerror(errno));
		tt_shm_seg_free(seg);
		return err;
	}
	*seg->head = (struct tt_shm_head){.magic = magic,
					  .cookie = {cookie[0], cookie[1]},
					  .pid = (int32_t)getpid(),
					  .wake_fd = seg->wake[1],
					  .wake_ino = st.st_ino};
	return 0;
}

void tt_shm_seg_free(struct tt_shm_seg *seg)
{
	int i;

	if (!seg->head)
		return;
	for (i = 0; i < 2; i++)
		if (seg->wake[i] >= 0)
			close(seg->wake[i]);
	munmap(seg->head, seg->len);
	close(seg->fd);
	seg->head = NULL;
}

bool tt_shm_is(const struct tt_shm_head *head, uint64_t magic, const uint64_t cookie[2])
{
	return head->magic == magic && !memcmp(head->cookie, cookie, sizeof(head->cookie));
}

int tt_shm_open_wake(const struct tt_shm_head *head, pid_t pid)
{
	return tt_proc_open_fd(pid, head->wake_fd, "pipe:", head->wake_ino);
}

void tt_shm_wake(_Atomic uint32_t *sleeping, int wake_fd)
{
	if (!atomic_exchange(sleeping, 0))
		return;
	/* A full pipe (EAGAIN) is readable as well. */
	while (write(wake_fd, "", 1) < 0 && errno == EINTR)
		;
}

void tt_shm_drain(const struct tt_shm_seg *seg)
{
	char bytes[64];

	while (read(seg->wake[0], bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes))
		;
}

int tt_shm_refusal(pid_t pid, int err, const char *what)
{
	if (err != -EACCES && err != -EPERM)
		return err;
	if (tt_proc_exits(pid))
		return -ESRCH;
	return tt_fail(-EPERM,
		       "%s of process %d cannot be reached: %s: %s; change users before "
		       "tutti_init, see tutti_security(7)",
		       what, (int)pid, err == -EACCES ? "EACCES" : "EPERM", strerror(-err));
}

/* At most 2 GiB; it stops at pages that it cannot reach. */
static ssize_t move(pid_t pid, void *local, uint64_t remote, size_t len, bool write)
{
	struct iovec l = {local, len}, r = {(void *)(uintptr_t)remote, len};

	return write ? process_vm_writev(pid, &l, 1, &r, 1, 0)
		     : process_vm_readv(pid, &l, 1, &r, 1, 0);
}

#define PAGE 4096
#define PIECE ((size_t)32 << 10)
#define WORTH ((size_t)16 << 10) /* of two copies */

/*
 * Where the kernel would copy slowly (tt_copy_lags): through room, of PIECE + PAGE bytes, half a
 * page after the source. The kernel copies both times, as the caller's memory may not allow it.
 */
static ssize_t move_by(char *room, pid_t pid, char *local, uint64_t remote, size_t len, bool write)
{
	uint64_t from = write ? (uintptr_t)local : remote;
	char *between = room + (from + PAGE / 2) % PAGE;
	ssize_t n = move(write ? getpid() : pid, between, from, len < PIECE ? len : PIECE, false);

	return n <= 0  ? n
	       : write ? move(pid, between, remote, (size_t)n, true)
		       : move(getpid(), local, (uintptr_t)between, (size_t)n, false);
}

/* *at tells where it stops. */
static int copy(pid_t pid, char *local, uint64_t remote, size_t len, bool write, size_t *at)
{
	const char *far = (const char *)(uintptr_t)remote;
	bool lags = write ? tt_copy_lags(far, local) : tt_copy_lags(local, far);
	char *room = lags && len >= WORTH ? aligned_alloc(PAGE, PIECE + PAGE) : NULL;
	ssize_t n = 1;
	int err;

	for (*at = 0; *at < len && n > 0; *at += n > 0 ? (size_t)n : 0)
		n = room ? move_by(room, pid, local + *at, remote + *at, len - *at, write)
			 : move(pid, local + *at, remote + *at, len - *at, write);
	err = n > 0 ? 0 : n ? -errno : -EFAULT;
	free(room);
	return err;
}

/* Whether the call is allowed at all: in some containers reading is, and writing is not. */
static int try_write(pid_t pid)
{
	struct iovec nothing = {0};

	return process_vm_writev(pid, &nothing, 1, &nothing, 1, 0) < 0 ? -errno : 0;
}

int tt_shm_vm_try(pid_t pid, void *local, uint64_t remote, size_t len)
{
	size_t at;
	int err = try_write(pid);

	return err ? err : copy(pid, local, remote, len, false, &at);
}

static bool is_readable(pid_t pid, uint64_t addr)
{
	size_t at;
	char byte;

	return !copy(pid, &byte, addr, 1, false, &at);
}

/* One of the two addresses is not mapped, or not with the rights that the copy needs. */
static int fault(pid_t pid, uint64_t local, uint64_t remote, bool write)
{
	bool here = write ? !is_readable(getpid(), local) : is_readable(pid, remote);

	if (!here && tt_proc_exits(pid))
		return tt_fail(-ESRCH, "process %d exits", (int)pid);
	return tt_fail(
		here ? -TT_EFAULT_HERE : -EFAULT, "cannot %s address %#llx of process %d: %s",
		write != here ? "write" : "read", (unsigned long long)(here ? local : remote),
		here ? getpid() : (int)pid, strerror(EFAULT));
}

int tt_shm_vm_copy(pid_t pid, void *local, uint64_t remote, size_t len, bool write)
{
	size_t at;
	int err = copy(pid, local, remote, len, write, &at);

	if (!err)
		return 0;
	if (err == -EFAULT)
		return fault(pid, (uintptr_t)local + at, remote + at, write);
	err = tt_shm_refusal(pid, err, "memory");
	return err == -EPERM ? err
			     : tt_fail(err, "%s memory of process %d: %s",
				       write ? "writing" : "reading", (int)pid, strerror(-err));
}
