/* SPDX-License-Identifier: BSD-3-Clause */
/* One poll(2) loop over all events, signals included. */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "tools/run/run.h"

static struct watch **watches;
static int nwatches, capwatches;

static const int taken[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD};
static sigset_t old_mask;
static void (*signal_fn)(int sig);
static struct watch signal_watch;

void loop_add(struct watch *w)
{
	if (nwatches == capwatches) {
		capwatches = capwatches ? 2 * capwatches : 16;
		watches = realloc(watches, (size_t)capwatches * sizeof(*watches));
		if (!watches)
			exit(fail("no memory"));
	}
	watches[nwatches++] = w;
}

void loop_del(struct watch *w)
{
	int i;

	/* The slot stays, empty, as loop_once may be walking over it. */
	for (i = 0; i < nwatches; i++)
		if (watches[i] == w)
			watches[i] = NULL;
}

static void compact(void)
{
	int i, n = 0;

	for (i = 0; i < nwatches; i++)
		if (watches[i])
			watches[n++] = watches[i];
	nwatches = n;
}

void loop_once(int timeout_ms)
{
	struct pollfd *fds;
	int i, n;

	compact();
	n = nwatches;
	fds = must_alloc((size_t)(n + 1) * sizeof(*fds));
	for (i = 0; i < n; i++) {
		fds[i].fd = watches[i]->events ? watches[i]->fd : -1;
		fds[i].events = watches[i]->events;
	}
	if (poll(fds, (nfds_t)n, timeout_ms) > 0)
		for (i = 0; i < n; i++)
			if (fds[i].revents && watches[i])
				watches[i]->fn(watches[i], fds[i].revents);
	free(fds);
}

static void on_signal(struct watch *w, short revents)
{
	struct signalfd_siginfo info;

	while (read(w->fd, &info, sizeof(info)) == sizeof(info))
		signal_fn((int)info.ssi_signo);
}

void loop_signals(void (*fn)(int sig))
{
	sigset_t mask;
	size_t i;

	sigemptyset(&mask);
	for (i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
		sigaddset(&mask, taken[i]);
	sigprocmask(SIG_BLOCK, &mask, &old_mask);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a write or the size of a memfd fails instead */
	signal_fn = fn;
	signal_watch.fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signal_watch.fd < 0)
		exit(fail("signalfd failed"));
	signal_watch.events = POLLIN;
	signal_watch.fn = on_signal;
	loop_add(&signal_watch);
}

void loop_child_signals(void)
{
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	sigprocmask(SIG_SETMASK, &old_mask, NULL);
}
