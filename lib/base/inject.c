/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts the calls that TUTTI_FAULT can make fail. inject.h redirects them to this file.
 * Allocations that fail, for this reason or for lack of memory, may still take a block of the
 * reserve.
 */
#include "lib/base/inject.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "lib/base/env.h"
#include "lib/base/faults.h"
#include "lib/base/log.h"
#include "lib/base/reserve.h"

static atomic_bool armed;

static struct {
	const char *name;
	int err;
	atomic_ullong count, fails; /* fails: the one, 0: none */
} kinds[TT_INJECT_KINDS] = {
	[TT_INJECT_ALLOC] = {.name = "alloc", .err = ENOMEM},
	[TT_INJECT_REG] = {.name = "reg", .err = ENOMEM},
	[TT_INJECT_SOCKET] = {.name = "socket", .err = EMFILE},
};

int tt_inject_arm(const struct tt_env *env, int rank)
{
	struct tt_faults faults;
	int err = tt_faults_parse(env->fault.text, &faults);

	if (err || faults.rank != rank || !(faults.alloc || faults.reg || faults.socket))
		return err;
	atomic_store(&kinds[TT_INJECT_ALLOC].fails, faults.alloc);
	atomic_store(&kinds[TT_INJECT_REG].fails, faults.reg);
	atomic_store(&kinds[TT_INJECT_SOCKET].fails, faults.socket);
	atomic_store(&armed, true);
	return 0;
}

void tt_inject_report(void)
{
	if (atomic_load(&armed))
		tt_info("fault: calls that could have failed so far: alloc=%llu, reg=%llu, "
			"socket=%llu",
			atomic_load(&kinds[TT_INJECT_ALLOC].count),
			atomic_load(&kinds[TT_INJECT_REG].count),
			atomic_load(&kinds[TT_INJECT_SOCKET].count));
}

static bool counted(enum tt_inject kind)
{
	unsigned long long n = atomic_fetch_add(&kinds[kind].count, 1) + 1;

	if (n != atomic_load(&kinds[kind].fails))
		return false;
	tt_warn("fault: %s=%llu: it fails here", kinds[kind].name, n);
	errno = kinds[kind].err;
	return true;
}

bool tt_inject(enum tt_inject kind)
{
	return atomic_load_explicit(&armed, memory_order_relaxed) && counted(kind);
}

/*
 * From here on the names mean the system's functions. The headers above have declared those of
 * ours.
 */
#undef malloc
#undef calloc
#undef realloc
#undef reallocarray
#undef aligned_alloc
#undef socket
#undef accept4
#undef pipe2
#undef memfd_create
#undef epoll_create1
#undef eventfd
#undef timerfd_create

extern void *malloc(size_t size);
extern void *calloc(size_t n, size_t size);
extern void *realloc(void *p, size_t size);
extern void *aligned_alloc(size_t align, size_t size);
extern int socket(int domain, int type, int protocol);
extern int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);
extern int pipe2(int fds[2], int flags);
extern int memfd_create(const char *name, unsigned flags);
extern int epoll_create1(int flags);
extern int eventfd(unsigned value, int flags);
extern int timerfd_create(int clock, int flags);

static void *or_reserved(void *p, size_t size)
{
	return p ? p : tt_reserve_take(size);
}

void *tt_malloc(size_t size)
{
	return or_reserved(tt_inject(TT_INJECT_ALLOC) ? NULL : malloc(size), size);
}

void *tt_calloc(size_t n, size_t size)
{
	void *p = tt_inject(TT_INJECT_ALLOC) ? NULL : calloc(n, size);

	if (p || __builtin_mul_overflow(n, size, &size))
		return p;
	p = tt_reserve_take(size);
	return p ? memset(p, 0, size) : NULL;
}

void *tt_realloc(void *p, size_t size)
{
	void *more = tt_inject(TT_INJECT_ALLOC) ? NULL : realloc(p, size);
	size_t old;

	if (more || !size) /* of no bytes: p is freed */
		return more;
	more = tt_reserve_take(size);
	if (!more || !p)
		return more;
	old = malloc_usable_size(p);
	memcpy(more, p, old < size ? old : size);
	free(p);
	return more;
}

void *tt_reallocarray(void *p, size_t n, size_t size)
{
	if (!__builtin_mul_overflow(n, size, &size))
		return tt_realloc(p, size);
	errno = ENOMEM;
	return NULL;
}

void *tt_aligned_alloc(size_t align, size_t size)
{
	return tt_inject(TT_INJECT_ALLOC) ? NULL : aligned_alloc(align, size);
}

char *tt_strdup(const char *s)
{
	size_t size = strlen(s) + 1;
	char *copy = tt_malloc(size);

	return copy ? memcpy(copy, s, size) : NULL;
}

int tt_socket(int domain, int type, int protocol)
{
	return tt_inject(TT_INJECT_SOCKET) ? -1 : socket(domain, type, protocol);
}

int tt_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	return tt_inject(TT_INJECT_SOCKET) ? -1 : accept4(fd, addr, len, flags);
}

int tt_pipe2(int fds[2], int flags)
{
	return tt_inject(TT_INJECT_SOCKET) ? -1 : pipe2(fds, flags);
}

int tt_memfd_create(const char *name, unsigned flags)
{
	return tt_inject(TT_INJECT_SOCKET) ? -1 : memfd_create(name, flags);
}

int tt_epoll_create1(int flags)
{
	return tt_inject(TT_INJECT_SOCKET) ? -1 : epoll_create1(flags);
}

int tt_eventfd(unsigned value, int flags)
{
	return tt_inject(TT_INJECT_SOCKET) ? -1 : eventfd(value, flags);
}

int tt_timerfd_create(int clock, int flags)
{
	return tt_inject(TT_INJECT_SOCKET) ? -1 : timerfd_create(clock, flags);
}
