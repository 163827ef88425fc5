/* SPDX-License-Identifier: BSD-3-Clause */
/* Another host, seen from the launcher: one remote shell that runs tutti_run --agent there. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/run/run.h"

#define MAX_SSH_WORDS 64

struct remote {
	struct host *host;
	struct remote_events events;
	pid_t pid;
	int to; /* its standard input */
	struct watch from;
	struct frames frames;
	bool ready, lost, failed;
	int count;	   /* ranks that were sent there */
	int running;	   /* of these, ranks that have not ended */
	unsigned answered; /* question about ranks that have not joined */
	int outside;
	char *client_addr, *store;
};

bool remote_ready(const struct remote *r)
{
	return r->ready;
}

const char *remote_client_addr(const struct remote *r)
{
	return r->client_addr ? r->client_addr : "";
}

const char *remote_store(const struct remote *r)
{
	return r->store ? r->store : "";
}

static void lose(struct remote *r)
{
	if (r->from.fd >= 0) {
		loop_del(&r->from);
		close(r->from.fd);
		r->from.fd = -1;
	}
	if (r->to >= 0)
		close(r->to); /* an agent that still lives then ends its ranks */
	r->to = -1;
	if (r->lost)
		return;
	r->lost = true;
	if (r->count && !r->running && !r->failed)
		return; /* nothing was left to do there */
	if (r->failed)
		fail("host %s: cannot start its ranks (see above)", r->host->name);
	else if (!r->ready)
		fail("host %s: the remote shell ended before " PROG " answered there",
		     r->host->name);
	else
		fail("host %s: connection lost", r->host->name);
	r->events.lost(r->events.arg, r->host);
}

static void send_frame(struct remote *r, enum frame_type type, const struct pack *p)
{
	if (r->to >= 0)
		frame_send(r->to, type, p); /* a failure shows as the end of its stream */
}

static bool on_hello(struct remote *r, struct pack *p)
{
	uint32_t protocol = unpack_u32(p);
	char *ssh;

	free(unpack_str(p));
	ssh = unpack_str(p);
	if (p->bad || protocol != AGENT_PROTOCOL) {
		fail("host %s has another version of " PROG, r->host->name);
		free(ssh);
		return false;
	}
	ssh[strcspn(ssh, " ")] = 0;
	free(r->client_addr);
	r->client_addr = ssh;
	r->ready = true;
	return true;
}

static bool on_ended(struct remote *r, struct pack *p)
{
	int rank = (int)unpack_u32(p), status = (int)unpack_u32(p), blames = (int)unpack_u32(p);

	if (p->bad || rank < r->host->first || rank >= r->host->first + r->host->count)
		return false;
	r->running--;
	r->events.ended(r->events.arg, rank, status, blames);
	return true;
}

static bool on_output(struct remote *r, struct pack *p)
{
	int rank = (int)unpack_u32(p), stream = (int)unpack_u32(p);
	size_t len;
	const char *data = unpack_bytes(p, &len);

	if (p->bad || rank < r->host->first || rank >= r->host->first + r->host->count ||
	    stream >> 1)
		return false;
	r->events.output(r->events.arg, rank, stream, data, len);
	return true;
}

static bool handle(struct remote *r, int type, struct pack *p)
{
	switch (type) {
	case FRAME_HELLO:
		return on_hello(r, p);
	case FRAME_LISTEN:
		free(r->store);
		r->store = unpack_str(p);
		return !p->bad;
	case FRAME_OUT:
		return on_output(r, p);
	case FRAME_ENDED:
		return on_ended(r, p);
	case FRAME_STDIN:
		r->events.fed(r->events.arg);
		return true;
	case FRAME_OUTSIDE:
		r->answered = unpack_u32(p);
		r->outside = (int)unpack_u32(p);
		return !p->bad && r->outside >= 0;
	case FRAME_FAILED:
		r->failed = true;
		return false;
	}
	return false;
}

static void on_data(struct watch *w, short revents)
{
	struct remote *r = w->arg;
	bool more = frames_read(&r->frames, w->fd);
	struct pack p;
	int type;

	while (r->from.fd >= 0 && (type = frames_next(&r->frames, &p)))
		if (type < 0 || !handle(r, type, &p)) {
			if (!r->failed)
				say("host %s: unexpected output of the remote shell, not " PROG
				    "'s "
				    "(does a login script write to standard output?)",
				    r->host->name);
			lose(r);
			return;
		}
	if (!more)
		lose(r);
}

static void quote(char *dst, const char *s)
{
	*dst++ = '\'';
	for (; *s; s++) {
		if (*s == '\'')
			dst = stpcpy(dst, "'\\'");
		*dst++ = *s;
	}
	*dst++ = '\'';
	*dst = 0;
}

/*
 * Our own path if it exists there, else what PATH has there; through sh, as the user's login shell
 * may be another.
 */
static char *agent_command(void)
{
	const char *dir = spawn_own_dir();
	char *path = must_alloc(strlen(dir) + sizeof("/" PROG)), *quoted, *script, *cmd;

	sprintf(path, "%s/" PROG, dir);
	quoted = must_alloc(4 * strlen(path) + 3);
	quote(quoted, path);
	script = must_alloc(strlen(quoted) + 100);
	sprintf(script, "p=%s; test -x \"$p\" || p=" PROG "; exec \"$p\" --agent", quoted);
	cmd = must_alloc(4 * strlen(script) + 10);
	strcpy(cmd, "sh -c ");
	quote(cmd + 6, script);
	free(path);
	free(quoted);
	free(script);
	return cmd;
}

static void exec_shell(struct remote *r, const char *ssh, int in, int out, pid_t launcher)
{
	char *argv[MAX_SSH_WORDS + 3], *save, *word;
	int n = 0;

	setpgid(0, 0); /* Ctrl-C is for us to forward, not for the remote shell to die of */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != launcher || dup2(in, 0) < 0 || dup2(out, 1) < 0)
		_exit(STATUS_LAUNCHER);
	word = strtok_r(must_strdup(ssh), " \t", &save);
	for (; word && n < MAX_SSH_WORDS; word = strtok_r(NULL, " \t", &save))
		argv[n++] = word;
	argv[n++] = r->host->name;
	argv[n++] = agent_command();
	argv[n] = NULL;
	loop_child_signals();
	execvp(argv[0], argv);
	say("cannot run the remote shell %s: %s", argv[0], strerror(errno));
	_exit(127);
}

struct remote *remote_start(struct host *host, const char *ssh, const struct remote_events *events)
{
	struct remote *r = must_alloc(sizeof(*r));
	int in[2], out[2];
	pid_t launcher = getpid();

	r->host = host;
	r->events = *events;
	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC)) {
		fail("pipe: %s", strerror(errno));
		free(r);
		return NULL;
	}
	r->pid = fork();
	if (!r->pid)
		exec_shell(r, ssh, in[0], out[1], launcher);
	if (r->pid > 0)
		setpgid(r->pid, r->pid);
	close(in[0]);
	close(out[1]);
	r->to = in[1];
	r->from = (struct watch){.fd = out[0], .events = POLLIN, .fn = on_data, .arg = r};
	fcntl(out[0], F_SETFL, O_NONBLOCK);
	loop_add(&r->from);
	return r;
}

/* Its end is the end of the connection, even if something on the other side keeps the pipe open. */
void remote_reap(struct remote *r)
{
	int i;

	if (r->pid <= 0 || waitpid(r->pid, NULL, WNOHANG) != r->pid)
		return;
	r->pid = -1;
	for (i = 0; i < 1000 && r->from.fd >= 0 && r->running; i++)
		on_data(&r->from, POLLIN);
	lose(r);
}

void remote_listen(struct remote *r, char **peers)
{
	struct pack p = {0};

	pack_strs(&p, peers);
	send_frame(r, FRAME_LISTEN, &p);
	pack_free(&p);
}

void remote_job(struct remote *r, const struct share *share)
{
	struct pack p = {0};

	r->count = r->running = share->count;
	share_pack(&p, share);
	send_frame(r, FRAME_JOB, &p);
	pack_free(&p);
}

void remote_signal(struct remote *r, int sig)
{
	struct pack p = {0};

	pack_u32(&p, (uint32_t)sig);
	send_frame(r, FRAME_SIGNAL, &p);
	pack_free(&p);
}

int remote_replace(struct remote *r, int rank)
{
	struct pack p = {0};

	if (r->to < 0)
		return fail("host %s: no connection to start another process there", r->host->name);
	r->running++;
	pack_u32(&p, (uint32_t)rank);
	send_frame(r, FRAME_REPLACE, &p);
	pack_free(&p);
	return 0;
}

void remote_ask_outside(struct remote *r, unsigned question)
{
	struct pack p = {0};

	pack_u32(&p, question);
	send_frame(r, FRAME_OUTSIDE, &p);
	pack_free(&p);
}

int remote_outside(const struct remote *r, unsigned question)
{
	return r->lost ? 0 : r->answered >= question ? r->outside : -1;
}

bool remote_vanished(const struct remote *r)
{
	return r->lost && r->ready && r->count && !r->failed;
}

void remote_feed(struct remote *r, const char *data, size_t len)
{
	struct pack p = {0};

	pack_bytes(&p, data, len);
	send_frame(r, FRAME_STDIN, &p);
	pack_free(&p);
}

/* The end of its standard input tells the agent to end too; the remote shell then follows. */
void remote_free(struct remote *r)
{
	int i;

	if (!r)
		return;
	if (r->to >= 0)
		close(r->to);
	if (r->from.fd >= 0) {
		loop_del(&r->from);
		close(r->from.fd);
	}
	for (i = 0; r->pid > 0 && i < 300 && !waitpid(r->pid, NULL, WNOHANG); i++)
		usleep(10000);
	if (r->pid > 0 && i == 300) {
		kill(-r->pid, SIGKILL);
		waitpid(r->pid, NULL, 0);
	}
	pack_free(&r->frames.in);
	free(r->client_addr);
	free(r->store);
	free(r);
}
