/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PMI-1: lines of "cmd=NAME key=value ..." on the descriptor PMI_FD, spoken by mpiexec.hydra, by
 * srun --mpi=pmi2 and by Flux. No library is needed: libpmi2 has only this descriptor, too, and
 * without it makes each process a job of its own.
 *
 * The launcher takes one conversation from each process: after "finalize" it listens no more, and a
 * process that ends without "finalize" counts as crashed. So the conversation ends before the job
 * starts, and a second start in one process needs another way.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/boot/rendezvous/launcher.h"
#include "lib/boot/rendezvous/launcher_kvs.h"

#define LINE_MAX_BYTES 2048
#define SPACE_MAX 256

static int fd = -1;
static bool over, closed; /* the conversation, by this process; its descriptor, by the launcher */
static char space[SPACE_MAX];

static int broken(const char *what)
{
	return tt_fail(-TUTTI_EBOOT, "the launcher's PMI_FD=%d: %s", fd, what);
}

static int send_line(const char *line)
{
	size_t len = strlen(line);
	ssize_t n;

	while (len) {
		n = write(fd, line, len);
		if (n < 0 && errno == EINTR)
			continue;
		closed = n < 0 && errno == EPIPE;
		if (n <= 0)
			return broken(n ? strerror(errno) : "nothing can be written");
		line += n;
		len -= (size_t)n;
	}
	return 0;
}

/* A byte at a time: there are few lines, and nothing behind the newline may be taken. */
static int read_line(char line[LINE_MAX_BYTES])
{
	size_t len = 0;
	ssize_t n;

	while (len < LINE_MAX_BYTES - 1) {
		n = read(fd, line + len, 1);
		if (n < 0 && errno == EINTR)
			continue;
		closed = !n || (n < 0 && errno == ECONNRESET);
		if (n <= 0)
			return broken(n ? strerror(errno) : "the launcher has closed it");
		if (line[len] == '\n') {
			line[len] = 0;
			return 0;
		}
		len++;
	}
	return broken("a line of the launcher is too long");
}

/* The value of " key=" in line, up to the next space; false: not there, or longer than size - 1. */
static bool field(const char *line, const char *key, char *value, size_t size)
{
	size_t len = strlen(key), n;
	const char *at;

	for (at = line; at; at = strchr(at, ' ')) {
		at += strspn(at, " ");
		if (strncmp(at, key, len) || at[len] != '=')
			continue;
		at += len + 1;
		n = strcspn(at, " ");
		if (n >= size)
			return false;
		memcpy(value, at, n);
		value[n] = 0;
		return true;
	}
	return false;
}

/* Sends ask and reads the answer, which must be cmd=wanted and have no rc other than 0. */
static int ask(const char *question, const char *wanted, char line[LINE_MAX_BYTES])
{
	char cmd[32], rc[16], what[128];
	int err = send_line(question);

	if (!err)
		err = read_line(line);
	if (err)
		return err;
	if (!field(line, "cmd", cmd, sizeof(cmd)) || strcmp(cmd, wanted)) {
		snprintf(what, sizeof(what), "the answer is '%.40s', not %s", line, wanted);
		return broken(what);
	}
	if (field(line, "rc", rc, sizeof(rc)) && strcmp(rc, "0")) {
		snprintf(what, sizeof(what), "%s reports error %s", wanted, rc);
		return broken(what);
	}
	return 0;
}

static int pmi1_open(int rank, int nranks)
{
	char line[LINE_MAX_BYTES];
	int err;

	if (over)
		return tt_fail(-TUTTI_EBOOT,
			       "tutti_init was called again: a launcher that speaks PMI-1 takes "
			       "part in one start of a process; set TUTTI_BOOT_DIR to a directory "
			       "that all ranks share, or give config.id");
	err = tt_launcher_number("PMI_FD", 0, 1 << 20, &fd);
	if (err)
		return err;
	over = true;
	err = ask("cmd=init pmi_version=1 pmi_subversion=1\n", "response_to_init", line);
	if (closed)
		err = tt_fail(-TUTTI_EBOOT,
			      "the launcher's PMI_FD=%d is closed: a launcher that speaks PMI-1 "
			      "takes part in one start of each task, and another program of this "
			      "task may have used it; set TUTTI_BOOT_DIR to a directory that all "
			      "ranks share",
			      fd);
	if (!err)
		err = ask("cmd=get_my_kvsname\n", "my_kvsname", line);
	if (!err && !field(line, "kvsname", space, sizeof(space)))
		err = broken("no name of a key-value space came");
	return err;
}

static int pmi1_put(const char *key, const char *value)
{
	char line[LINE_MAX_BYTES];

	snprintf(line, sizeof(line), "cmd=put kvsname=%s key=%s value=%s\n", space, key, value);
	return ask(line, "put_result", line);
}

static int pmi1_fence(void)
{
	char line[LINE_MAX_BYTES];

	return ask("cmd=barrier_in\n", "barrier_out", line);
}

static int pmi1_get(int from, const char *key, char value[TT_KVS_VALUE])
{
	char line[LINE_MAX_BYTES];
	int err;

	snprintf(line, sizeof(line), "cmd=get kvsname=%s key=%s\n", space, key);
	err = ask(line, "get_result", line);
	if (!err && !field(line, "value", value, TT_KVS_VALUE))
		err = broken("no value came");
	return err;
}

static int pmi1_close(void)
{
	char line[LINE_MAX_BYTES];

	return ask("cmd=finalize\n", "finalize_ack", line);
}

const struct tt_kvs tt_kvs_pmi1 = {pmi1_open, pmi1_put, pmi1_fence, pmi1_get, pmi1_close};
