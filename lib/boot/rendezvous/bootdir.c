/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TUTTI_BOOT_DIR: the file through which the ranks of a job find rank 0.
 *
 *	DIR/tutti-boot			with -NAME if the launcher names its jobs (launcher.c) or
 *					TUTTI_JOB_ID is set
 *
 *	tutti-boot 1
 *	store HOST:PORT
 *	job 32 hexadecimal digits
 *	secret 64 hexadecimal digits	"-" if the ranks have their own (TUTTI_SECRET_FILE)
 *	rank0 process PID on HOST	for messages
 *
 * The file has mode 0600. It is written under another name (".new") and renamed, so readers never
 * see half of it. It is trusted only if it belongs to this user. The next rank 0 replaces the files
 * of a rank 0 that died; until then readers find no process, or a stranger, at its address, and
 * read the file again. A rank 0 that finds another file in place of its own gives up.
 */
#include "lib/boot/rendezvous/bootdir.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WRITE_TRIES 100
#define WRITE_APART_US 1000

static void file_name(const struct tt_boot_params *params, char *path, size_t size)
{
	snprintf(path, size, "%s/tutti-%s%s%s", params->boot_dir, params->gate ? "gate" : "boot",
		 params->boot_name[0] ? "-" : "", params->boot_name);
}

/* The lines that readers need no secret for. */
static void describe(const struct tt_boot_params *params, char *head, size_t size, char *rank0,
		     size_t rank0_size)
{
	char job[33], host[64] = "unknown host";

	sodium_bin2hex(job, sizeof(job), params->job, sizeof(params->job));
	snprintf(head, size, "tutti-boot 1\nstore %s\njob %s\n", params->store, job);
	gethostname(host, sizeof(host) - 1);
	snprintf(rank0, rank0_size, "rank0 process %d on %s\n", (int)getpid(), host);
}

/* errno's value, or 0. EEXIST and ENOENT: another process has just written its file. */
static int write_once(const char *path, const char *tmp, const char *text)
{
	ssize_t len = (ssize_t)strlen(text);
	int fd, err = 0;

	unlink(tmp);
	fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return errno;
	/*
	 * No fsync, which may take seconds beside other writers: the file is useless after a
	 * crash, and close() sends it.
	 */
	errno = 0;
	if (write(fd, text, (size_t)len) != len)
		err = errno ? errno : EIO;
	if (close(fd) && !err)
		err = errno;
	if (!err && rename(tmp, path))
		err = errno;
	if (err)
		unlink(tmp);
	return err;
}

int tt_bootdir_write(const struct tt_boot_params *params)
{
	char path[400], tmp[440], head[200], rank0[120], secret[65] = "-", text[450];
	int err, tries = 0;

	file_name(params, path, sizeof(path));
	snprintf(tmp, sizeof(tmp), "%s.new", path);
	describe(params, head, sizeof(head), rank0, sizeof(rank0));
	if (params->boot_secret)
		sodium_bin2hex(secret, sizeof(secret), params->secret, sizeof(params->secret));
	snprintf(text, sizeof(text), "%ssecret %s\n%s", head, secret, rank0);
	err = write_once(path, tmp, text);
	while ((err == EEXIST || err == ENOENT) && ++tries < WRITE_TRIES) {
		usleep(randombytes_uniform(WRITE_APART_US)); /* two in step would meet again */
		err = write_once(path, tmp, text);
	}
	sodium_memzero(text, sizeof(text));
	sodium_memzero(secret, sizeof(secret));
	return err ? tt_fail(-TUTTI_EBOOT, "TUTTI_BOOT_DIR=%s: can't write a file there: %s",
			     params->boot_dir, strerror(err))
		   : 0;
}

/* Opens and checks the file; puts its text into buf. */
static int read_text(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;
	ssize_t n;

	if (fd < 0)
		return tt_fail(-ENOENT, "%s: %s", path, strerror(errno));
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
	    (st.st_mode & 077)) {
		close(fd);
		return tt_fail(-EPERM, "%s is not a file of this user with mode 0600", path);
	}
	n = read(fd, buf, size - 1);
	close(fd);
	buf[n > 0 ? n : 0] = 0;
	return n > 0 ? 0 : tt_fail(-EPROTO, "%s is empty", path);
}

int tt_bootdir_read(struct tt_boot_params *params)
{
	char path[400], text[512], store[128], job[33], secret[65];
	unsigned char bytes[32];
	size_t len;
	int err;

	file_name(params, path, sizeof(path));
	err = read_text(path, text, sizeof(text));
	if (err)
		return err;
	if (sscanf(text, "tutti-boot 1\nstore %127s\njob %32s\nsecret %64s\n", store, job,
		   secret) != 3 ||
	    sodium_hex2bin(bytes, 16, job, 32, NULL, &len, NULL) || len != 16)
		return tt_fail(-EPROTO, "%s is not a tutti boot file", path);
	memcpy(params->job, bytes, 16);
	snprintf(params->store, sizeof(params->store), "%s", store);
	if (params->boot_secret) {
		if (sodium_hex2bin(bytes, 32, secret, strlen(secret), NULL, &len, NULL) ||
		    len != 32)
			return tt_fail(
				-EPROTO,
				"%s carries no secret: rank 0 was given one by TUTTI_SECRET_FILE, "
				"this rank was not",
				path);
		memcpy(params->secret, bytes, 32);
		params->have_secret = true;
	}
	sodium_memzero(text, sizeof(text));
	return 0;
}

/* Reads the file; whether it is there and, if so, in *mine, whether this process wrote it. */
static bool look(const struct tt_boot_params *params, char *text, size_t size, bool *mine)
{
	char path[400], head[200], rank0[120];

	file_name(params, path, sizeof(path));
	if (read_text(path, text, size))
		return false;
	describe(params, head, sizeof(head), rank0, sizeof(rank0));
	*mine = !strncmp(text, head, strlen(head)) && strstr(text, rank0);
	return true;
}

bool tt_bootdir_other(const struct tt_boot_params *params, char *who, size_t size)
{
	char text[512], *rank0;
	bool mine, other = look(params, text, sizeof(text), &mine) && !mine;

	rank0 = other ? strstr(text, "\nrank0 ") : NULL;
	if (rank0)
		snprintf(who, size, "%.*s", (int)strcspn(rank0 + 7, "\n"), rank0 + 7);
	sodium_memzero(text, sizeof(text));
	return rank0;
}

void tt_bootdir_remove(const struct tt_boot_params *params)
{
	char text[512], path[400];
	bool mine;

	if (look(params, text, sizeof(text), &mine) && mine) {
		file_name(params, path, sizeof(path));
		unlink(path);
	}
	sodium_memzero(text, sizeof(text));
}
