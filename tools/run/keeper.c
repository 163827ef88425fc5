/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The keeper: a process that ends the ranks of this host when tutti_run, or its agent, was killed.
 *
 * A rank that is its launcher's child dies with the launcher (PR_SET_PDEATHSIG), but processes that
 * the rank has started, such as the program of an "sh -c", do not. Every rank leads a process group
 * and reports it to the keeper through a pipe before it runs its program; the launcher reports
 * which groups have ended. The end of the pipe means that the launcher has ended: the keeper then
 * kills the remaining groups, and removes the directory that was made for --replace.
 *
 * The keeper has a session of its own, so that signals to the launcher's group or terminal do not
 * reach it. It is another execution of tutti_run, so it holds no copy of the launcher's memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/run/run.h"

#define STOP_STEPS 1000

static void become_keeper(int from, const char *gate)
{
	int none = open("/dev/null", O_RDWR);

	setsid();
	if (none < 0 || dup2(from, 0) < 0 || dup2(none, 1) < 0 || dup2(none, 2) < 0)
		_exit(STATUS_LAUNCHER);
	if (none > 2)
		close(none);
	execl("/proc/self/exe", "tutti_keeper", "--keeper", gate, NULL);
	_exit(STATUS_LAUNCHER);
}

int keeper_start(struct keeper *k, const char *gate)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC))
		return fail("pipe: %s", strerror(errno));
	k->pid = fork();
	if (!k->pid)
		become_keeper(p[0], gate);
	close(p[0]);
	k->fd = p[1];
	return k->pid < 0 ? fail("cannot start a process that ends the ranks if this one is "
				 "killed: %s",
				 strerror(errno))
			  : 0;
}

void keeper_stop(struct keeper *k)
{
	int i;

	if (k->fd >= 0)
		close(k->fd);
	k->fd = -1;
	for (i = 0; k->pid > 0 && i < STOP_STEPS && waitpid(k->pid, NULL, WNOHANG) != k->pid; i++)
		usleep(1000);
	k->pid = -1;
}

void keeper_tell(const struct keeper *k, pid_t group, bool ended)
{
	pid_t word = ended ? -group : group;
	ssize_t n;

	do
		n = write(k->fd, &word, sizeof(word));
	while (n < 0 && errno == EINTR);
}

static int find(const pid_t *groups, int n, pid_t group)
{
	int i;

	for (i = 0; i < n && groups[i] != group; i++)
		;
	return i;
}

int keeper_main(const char *gate)
{
	pid_t *groups = NULL, word;
	int i, n = 0;

	prctl(PR_SET_NAME, "tutti_keeper");
	if (chdir("/"))
		return STATUS_LAUNCHER;
	while (read(0, &word, sizeof(word)) == sizeof(word)) {
		i = find(groups, n, word < 0 ? -word : word);
		if (word < 0 && i < n) {
			groups[i] = groups[--n];
		} else if (word > 0 && i == n) {
			groups = realloc(groups, (size_t)(n + 1) * sizeof(*groups));
			if (!groups)
				return STATUS_LAUNCHER;
			groups[n++] = word;
		}
	}
	for (i = 0; i < n; i++)
		kill(-groups[i], SIGKILL);
	gate_remove(gate);
	free(groups);
	return 0;
}
