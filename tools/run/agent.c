/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tutti_run --agent: the remote end of a job. Frames from the launcher arrive on standard input,
 * frames to it go to standard output. The end of standard input means that the launcher has ended.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/run/run.h"

#define ORPHAN_GRACE_MS 1000

static struct {
	struct share share;
	struct local *local;
	struct frames frames;
	struct watch in;
	int store_fd;
	bool orphan, failed;
} agent;

static void on_output(void *arg, int rank, int stream, const char *data, size_t len)
{
	struct pack p = {0};

	pack_u32(&p, (uint32_t)rank);
	pack_u32(&p, (uint32_t)stream);
	pack_bytes(&p, data, len);
	agent.orphan |= !frame_send(STDOUT_FILENO, FRAME_OUT, &p);
	pack_free(&p);
}

static void on_ended(void *arg, int rank, int status, int blames)
{
	struct pack p = {0};

	pack_u32(&p, (uint32_t)rank);
	pack_u32(&p, (uint32_t)status);
	pack_u32(&p, (uint32_t)blames);
	agent.orphan |= !frame_send(STDOUT_FILENO, FRAME_ENDED, &p);
	pack_free(&p);
}

static void on_fed(void *arg)
{
	frame_send(STDOUT_FILENO, FRAME_STDIN, NULL);
}

static bool start_job(struct pack *p)
{
	struct local_events events = {.output = on_output, .ended = on_ended, .fed = on_fed};
	struct share *s = &agent.share;

	if (agent.local || !share_unpack(p, s))
		return false;
	if (chdir(s->wdir)) {
		if (s->wdir_must) {
			fail("cannot go to --wdir %s: %s", s->wdir, strerror(errno));
			return false;
		}
		say("no directory %s here: staying in the home directory", s->wdir);
	}
	if (s->gate && access(s->gate, R_OK | W_OK | X_OK)) {
		fail("TUTTI_BOOT_DIR=%s: new processes cannot join through it: %s", s->gate,
		     strerror(errno));
		return false;
	}
	s->store_fd = agent.store_fd;
	agent.store_fd = -1;
	agent.local = local_start(s, &events, !s->first);
	if (!s->gate)
		explicit_bzero(s->secret, sizeof(s->secret));
	return agent.local;
}

/*
 * A process that cannot be started counts as killed at once, because the launcher waits for its
 * end.
 */
static bool replace(struct pack *p)
{
	const struct share *s = &agent.share;
	int rank = (int)unpack_u32(p);

	if (p->bad || !agent.local || !s->gate || rank < s->first || rank >= s->first + s->count)
		return false;
	if (local_replace(agent.local, s, rank))
		on_ended(NULL, rank, SIGKILL, -1);
	return true;
}

static bool tell_outside(struct pack *p)
{
	struct pack reply = {0};

	pack_u32(&reply, unpack_u32(p));
	pack_u32(&reply, agent.local ? (uint32_t)local_outside(agent.local) : 0);
	agent.orphan |= !frame_send(STDOUT_FILENO, FRAME_OUTSIDE, &reply);
	pack_free(&reply);
	return !p->bad;
}

static bool start_listening(struct pack *p)
{
	char **peers = unpack_strs(p), text[128], *own[2] = {NULL, NULL},
	     *ssh = getenv("SSH_CONNECTION");
	struct pack reply = {0};

	/* SSH_CONNECTION: client address, client port, server address, server port. */
	if (ssh && (ssh = strchr(ssh, ' ')) && (ssh = strchr(ssh + 1, ' '))) {
		own[0] = must_strdup(ssh + 1);
		own[0][strcspn(own[0], " ")] = 0;
	}
	agent.store_fd = store_listen(peers, own, text, sizeof(text));
	strs_free(peers);
	free(own[0]);
	if (agent.store_fd < 0)
		return false;
	pack_str(&reply, text);
	frame_send(STDOUT_FILENO, FRAME_LISTEN, &reply);
	pack_free(&reply);
	return true;
}

static bool handle(int type, struct pack *p)
{
	const char *data;
	size_t len;

	switch (type) {
	case FRAME_LISTEN:
		return start_listening(p);
	case FRAME_JOB:
		return start_job(p);
	case FRAME_SIGNAL:
		if (agent.local)
			local_signal(agent.local, (int)unpack_u32(p));
		return true;
	case FRAME_STDIN:
		data = unpack_bytes(p, &len);
		if (agent.local)
			local_feed(agent.local, data, len);
		return true;
	case FRAME_REPLACE:
		return replace(p);
	case FRAME_OUTSIDE:
		return tell_outside(p);
	}
	return false;
}

static void on_input(struct watch *w, short revents)
{
	struct pack p;
	int type;

	if (!frames_read(&agent.frames, w->fd)) {
		agent.orphan = true;
		return;
	}
	while (!agent.failed && (type = frames_next(&agent.frames, &p)))
		if (type < 0 || !handle(type, &p)) {
			frame_send(STDOUT_FILENO, FRAME_FAILED, NULL);
			agent.failed = true;
		}
}

static void on_signal(int sig)
{
	if (!agent.local)
		agent.orphan |= sig != SIGCHLD;
	else if (sig == SIGCHLD)
		local_reap(agent.local);
	else
		local_signal(agent.local, sig);
}

static void say_hello(void)
{
	char name[HOST_NAME_MAX + 1] = "";
	struct pack p = {0};

	gethostname(name, sizeof(name) - 1);
	pack_u32(&p, AGENT_PROTOCOL);
	pack_str(&p, name);
	pack_str(&p, getenv("SSH_CONNECTION"));
	frame_send(STDOUT_FILENO, FRAME_HELLO, &p);
	pack_free(&p);
}

/* The launcher has ended, or this host cannot start its ranks: end the local ranks. */
static void end_ranks(void)
{
	int64_t until = now_ms() + ORPHAN_GRACE_MS;

	if (!agent.local)
		return;
	local_signal(agent.local, SIGTERM);
	while (local_running(agent.local) && now_ms() < until)
		loop_once((int)(until - now_ms()));
	local_signal(agent.local, SIGKILL);
	while (local_running(agent.local))
		loop_once(100);
}

/* With a gate it stays when all have ended: new processes may be started in their places. */
static bool needed(void)
{
	return !agent.local || local_running(agent.local) || agent.share.gate;
}

int agent_main(void)
{
	agent.store_fd = -1;
	loop_signals(on_signal);
	agent.in = (struct watch){.fd = STDIN_FILENO, .events = POLLIN, .fn = on_input};
	loop_add(&agent.in);
	say_hello();
	while (!agent.orphan && !agent.failed && needed())
		loop_once(-1);
	loop_del(&agent.in);
	end_ranks();
	local_free(agent.local);
	share_free(&agent.share);
	pack_free(&agent.frames.in);
	return agent.failed || agent.orphan ? STATUS_LAUNCHER : 0;
}
