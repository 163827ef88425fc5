/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank of a job as tutti_ras sees it (lib/boot/control/ras.h), which ends when it is asked.
 *
 *	door JOB [N]	JOB: 32 hexadecimal digits; N: bytes it reads first, default 0
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Its key is all zeros. */
static int open_key(const char *job)
{
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "tutti key %s", job);
	fd = memfd_create(name, MFD_CLOEXEC);
	return fd < 0 || ftruncate(fd, 32) ? -1 : fd;
}

static int open_door(const char *job)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int len = snprintf(sa.sun_path + 1, sizeof(sa.sun_path) - 1, "tutti/%u/%s/0/%d",
			   (unsigned)geteuid(), job, (int)getpid());

	if (fd < 0 ||
	    bind(fd, (struct sockaddr *)&sa,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) + (socklen_t)len) ||
	    listen(fd, 8))
		return -1;
	return fd;
}

int main(int argc, char **argv)
{
	int key, door, client, left = argc > 2 ? atoi(argv[2]) : 0;
	char byte;

	if (argc < 2 || strlen(argv[1]) != 32)
		return 2;
	key = open_key(argv[1]);
	door = open_door(argv[1]);
	if (key < 0 || door < 0)
		return 1;
	alarm(20);
	client = accept(door, NULL, NULL);
	while (left-- > 0 && read(client, &byte, 1) == 1)
		;
	return client < 0;
}
