/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The job's secret, from TUTTI_SECRET_FD or TUTTI_SECRET_FILE: any 16 to 4096 bytes, the same at
 * every rank. Only the derived key is kept.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/boot/rendezvous/auth.h"
#include "lib/boot/rendezvous/discover.h"

#define SECRET_MIN 16
#define SECRET_MAX 4096

/* Reads all of fd, from the start if seekable (ranks may share the description). */
static ssize_t read_all(int fd, unsigned char *buf, size_t size)
{
	bool seekable = lseek(fd, 0, SEEK_CUR) >= 0;
	size_t len = 0;
	ssize_t n;

	while (len < size) {
		n = seekable ? pread(fd, buf + len, size - len, (off_t)len)
			     : read(fd, buf + len, size - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		len += (size_t)n;
	}
	return (ssize_t)len;
}

static int derive(int fd, const char *what, struct tt_boot_params *params)
{
	unsigned char buf[SECRET_MAX + 1];
	ssize_t n = read_all(fd, buf, sizeof(buf));

	if (n >= SECRET_MIN && n <= SECRET_MAX) {
		tt_auth_derive(buf, (size_t)n, params->secret);
		params->have_secret = true;
	}
	sodium_memzero(buf, sizeof(buf));
	if (params->have_secret)
		return 0;
	if (n < 0)
		return tt_fail(-EINVAL, "%s can't be read: %s", what, strerror((int)-n));
	return tt_fail(-EINVAL, "%s holds %zd bytes; a secret has %d to %d", what, n, SECRET_MIN,
		       SECRET_MAX);
}

static int from_file(const char *path, struct tt_boot_params *params)
{
	char what[300];
	struct stat st;
	int fd, err;

	snprintf(what, sizeof(what), "TUTTI_SECRET_FILE=%s", path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return tt_fail(-EINVAL, "%s can't be opened: %s", what, strerror(errno));
	if (fstat(fd, &st) || (st.st_mode & 077))
		err = tt_fail(-TUTTI_EAUTH,
			      "%s can be read by others; chmod 600 it, and if they may have read "
			      "it, make a new one",
			      what);
	else
		err = derive(fd, what, params);
	close(fd);
	return err;
}

int tt_secret_load(const struct tt_env *env, struct tt_boot_params *params)
{
	char what[48];
	int fd;

	if (env->secret_fd.is_set && env->secret_fd.number >= 0) {
		fd = (int)env->secret_fd.number;
		snprintf(what, sizeof(what), "TUTTI_SECRET_FD=%d", fd);
		if (fcntl(fd, F_SETFD, FD_CLOEXEC))
			return tt_fail(-EINVAL, "%s is not an open descriptor", what);
		return derive(fd, what, params);
	}
	return env->secret_file.text[0] ? from_file(env->secret_file.text, params) : 0;
}
