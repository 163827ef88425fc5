/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Children of this process must not keep its control connections open: while such a child (for
 * example a data loader) lives, the death of its parent would be noticed only by silence.
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/reserve.h"
#include "lib/boot/control/fork.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int *fds, nfds, room;

static void before(void)
{
	pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
	pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
	while (nfds)
		close(fds[--nfds]);
	pthread_mutex_unlock(&lock);
	tt_reserve_in_child();
}

static void prepare(void)
{
	pthread_atfork(before, in_parent, in_child);
}

void tt_fork_guard(int fd)
{
	int more, *p;

	pthread_once(&once, prepare);
	pthread_mutex_lock(&lock);
	more = room ? 2 * room : 16;
	if (nfds == room && (p = realloc(fds, (size_t)more * sizeof(*p)))) {
		fds = p;
		room = more;
	}
	if (nfds < room) /* otherwise children keep it open */
		fds[nfds++] = fd;
	pthread_mutex_unlock(&lock);
}

void tt_fork_close(int fd)
{
	int i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < nfds && fds[i] != fd; i++)
		;
	if (i < nfds)
		fds[i] = fds[--nfds];
	if (!nfds) {
		free(fds);
		fds = NULL;
		room = 0;
	}
	pthread_mutex_unlock(&lock);
	close(fd);
}
