/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks without memory, and ranks that hear late: see limits.h. */
#include "tests/fault/limits.h"

#include <limits.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAP 100000

static struct rlimit unlimited;
static atomic_int hears; /* enum hears */

bool limit_memory(long room)
{
	void *volatile heap = malloc(HEAP);

	mallopt(M_TRIM_THRESHOLD, INT_MAX);
	free(heap);
	return !getrlimit(RLIMIT_AS, &unlimited) && mp_limit_memory(room);
}

bool unlimit_memory(void)
{
	return !setrlimit(RLIMIT_AS, &unlimited);
}

void hear(enum hears how)
{
	atomic_store(&hears, how);
}

/* The control thread reads its messages by this. */
__attribute__((visibility("default"))) ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	bool control = gettid() != getpid();
	int ms;

	if (control && atomic_load(&hears) == LATE)
		usleep(20000);
	for (ms = 0; control && atomic_load(&hears) == NOTHING && ms < MP_HANG_MS; ms++)
		usleep(1000);
	return recvfrom(fd, buf, len, flags, NULL, NULL);
}

bool names_rank(int rank)
{
	struct tutti_error_info info = {.size = sizeof(info)};

	return !tutti_last_error(&info) && info.rank == rank && info.host[0];
}
