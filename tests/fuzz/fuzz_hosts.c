/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti_run: a hostfile, a list of hosts, and frames through the remote shell. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "tools/run/run.h"

int fail(const char *fmt, ...)
{
	char text[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return -1;
}

void say(const char *fmt, ...)
{
}

void *must_alloc(size_t size)
{
	void *p = calloc(1, size ? size : 1);

	if (!p)
		abort();
	return p;
}

char *must_strdup(const char *s)
{
	char *copy = must_alloc(strlen(s) + 1);

	return strcpy(copy, s);
}

bool write_all(int fd, const void *data, size_t len)
{
	return true;
}

/* A memory file, rewritten for each input. */
static int file_with(const struct fz *z)
{
	static int fd = -1;

	if (fd < 0)
		fd = memfd_create("hostfile", MFD_CLOEXEC);
	if (ftruncate(fd, 0) || pwrite(fd, z->p, z->len, 0) < 0)
		return -1;
	return fd;
}

static void hostfile(const struct fz *z)
{
	struct hosts hosts = {0};
	char path[40];
	int n = 5;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file_with(z));
	if (!hosts_parse_file(&hosts, path))
		hosts_place(&hosts, &n);
	hosts_free(&hosts);
}

static void list(const struct fz *z)
{
	struct hosts hosts = {0};
	char *text = must_alloc(z->len + 1);
	int n = 0;

	memcpy(text, z->p, z->len);
	if (!hosts_parse_list(&hosts, text))
		hosts_place(&hosts, &n);
	hosts_free(&hosts);
	free(text);
}

/* Like on_hello, on_ended and on_output of remote.c, and the agent. */
static void frames(const struct fz *z)
{
	struct frames f = {{0}};
	struct share share;
	struct pack p;
	size_t len;
	int type, fd = file_with(z);

	lseek(fd, 0, SEEK_SET);
	while (frames_read(&f, fd))
		while ((type = frames_next(&f, &p)) > 0) {
			struct pack again = p;

			unpack_u32(&again);
			free(unpack_str(&again));
			free(unpack_str(&again));
			again = p;
			unpack_u32(&again);
			unpack_bytes(&again, &len);
			again = p;
			strs_free(unpack_strs(&again));
			if (type == FRAME_JOB) {
				share_unpack(&p, &share);
				share_free(&share);
			}
		}
	pack_free(&f.in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fz z = {data, size};
	unsigned which = (unsigned)fz_u(&z, 1) % 3;

	if (which == 0)
		hostfile(&z);
	else if (which == 1)
		list(&z);
	else
		frames(&z);
	return 0;
}
