/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranks of this host: starts, reaps and signals them, and reads their output. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/observe/flight.h"
#include "tools/run/run.h"

struct stream {
	struct watch watch; /* fd -1: closed */
	struct local_rank *owner;
	int number; /* 0: standard output, 1: standard error */
};

struct local_rank {
	struct local *local;
	int rank;
	pid_t pid;
	bool ended;
	bool joins; /* in the place of one that was killed */
	int flight; /* memory for its flight recorder, -1: none */
	struct stream out[2];
};

struct local {
	struct local_events events;
	int count, running;
	struct keeper keeper;
	struct local_rank *ranks;
	cpu_set_t *cpus;   /* of each rank; NULL: they are not bound */
	char *path;	   /* of the program */
	char *dump;	   /* TUTTI_DUMP, or NULL */
	struct watch feed; /* towards rank 0's standard input */
	char fed[FEED_MAX];
	size_t fed_len, fed_at;
};

static void stream_close(struct stream *s)
{
	if (s->watch.fd < 0)
		return;
	loop_del(&s->watch);
	close(s->watch.fd);
	s->watch.fd = -1;
}

/* Passes on available output; true: there may be more. */
static bool stream_read(struct stream *s)
{
	const struct local_events *ev;
	char buf[65536];
	ssize_t n;

	if (s->watch.fd < 0)
		return false;
	ev = &s->owner->local->events;
	n = read(s->watch.fd, buf, sizeof(buf));
	if (n > 0)
		ev->output(ev->arg, s->owner->rank, s->number, buf, (size_t)n);
	else if (!n || (errno != EAGAIN && errno != EINTR))
		stream_close(s);
	return n > 0;
}

static void on_stream(struct watch *w, short revents)
{
	stream_read(w->arg);
}

static void stream_open(struct stream *s, struct local_rank *owner, int number, int fd)
{
	s->owner = owner;
	s->number = number;
	s->watch = (struct watch){.fd = fd, .events = POLLIN, .fn = on_stream, .arg = s};
	fcntl(fd, F_SETFL, O_NONBLOCK);
	loop_add(&s->watch);
}

static void feed_close(struct local *l)
{
	if (l->feed.fd < 0)
		return;
	loop_del(&l->feed);
	close(l->feed.fd);
	l->feed.fd = -1;
}

static void on_feed(struct watch *w, short revents)
{
	struct local *l = w->arg;
	ssize_t n = write(w->fd, l->fed + l->fed_at, l->fed_len - l->fed_at);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) { /* rank 0 closed its standard input: it wants no more */
		feed_close(l);
		return;
	}
	l->fed_at += (size_t)n;
	if (l->fed_at < l->fed_len)
		return;
	w->events = 0;
	l->events.fed(l->events.arg);
}

void local_feed(struct local *l, const char *data, size_t len)
{
	if (l->feed.fd < 0 || len > FEED_MAX)
		return;
	if (!len) {
		feed_close(l);
		return;
	}
	memcpy(l->fed, data, len);
	l->fed_len = len;
	l->fed_at = 0;
	l->feed.events = POLLOUT;
}

/* The write end of rank 0's standard input; the read end goes to fd. */
static int feed_open(struct local *l, int *fd)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC))
		return fail("pipe: %s", strerror(errno));
	fcntl(p[1], F_SETFL, O_NONBLOCK);
	l->feed = (struct watch){.fd = p[1], .fn = on_feed, .arg = l};
	loop_add(&l->feed);
	*fd = p[0];
	return 0;
}

/* A pipe for its output; *fd: the end that it writes to. */
static int pipe_stream(struct local_rank *r, int number, int *fd)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC))
		return fail("pipe: %s", strerror(errno));
	stream_open(&r->out[number], r, number, p[0]);
	*fd = p[1];
	return 0;
}

static int start_one(struct local *l, const struct share *share, int i, int in, bool joins)
{
	struct spawn spawn = {.path = l->path,
			      .local_rank = i,
			      .joins = joins,
			      .keeper = &l->keeper,
			      .cpus = l->cpus ? &l->cpus[i] : NULL,
			      .fd = {in, STDOUT_FILENO, STDERR_FILENO}};
	struct local_rank *r = &l->ranks[i];
	int s, err = 0;

	r->local = l;
	r->rank = share->first + i;
	r->joins = joins;
	r->flight = -1;
	r->out[0].watch.fd = r->out[1].watch.fd = -1;
	for (s = 0; share->capture && s < 2 && !err; s++)
		err = pipe_stream(r, s, &spawn.fd[1 + s]);
	if (!err) {
		r->flight = spawn.flight = tt_flight_memfd();
		r->pid = spawn_rank(share, &spawn);
		if (r->pid < 0)
			err = fail("cannot start rank %d: %s", r->rank, strerror(errno));
	}
	for (s = 0; s < 2; s++)
		if (spawn.fd[1 + s] != STDOUT_FILENO + s)
			close(spawn.fd[1 + s]);
	if (l->count < i + 1)
		l->count = i + 1;
	r->ended = err != 0;
	l->running += !err;
	return err;
}

int local_replace(struct local *l, const struct share *share, int rank)
{
	int none = open("/dev/null", O_RDONLY | O_CLOEXEC), err;

	if (none < 0)
		return fail("/dev/null: %s", strerror(errno));
	stream_close(&l->ranks[rank - share->first].out[0]);
	stream_close(&l->ranks[rank - share->first].out[1]);
	err = start_one(l, share, rank - share->first, none, true);
	close(none);
	return err;
}

/* Its flight recorder has the size of the job as soon as it is let in. */
static bool inside(const struct local_rank *r)
{
	struct tt_flight f;
	bool in = !r->joins;

	if (!in && r->flight >= 0 && !tt_flight_attach(&f, r->flight)) {
		in = f.head->nranks > 0;
		tt_flight_close(&f);
	}
	return in;
}

int local_outside(const struct local *l)
{
	int i, n = 0;

	for (i = 0; i < l->count; i++)
		n += !l->ranks[i].ended && !inside(&l->ranks[i]);
	return n;
}

static int start_all(struct local *l, struct share *share, bool feed)
{
	int none = open("/dev/null", O_RDONLY | O_CLOEXEC), in = share->stdin_fd, i, err = 0;

	if (none < 0)
		return fail("/dev/null: %s", strerror(errno));
	if (feed && feed_open(l, &in)) {
		close(none);
		return -1;
	}
	for (i = 0; !err && i < share->count; i++)
		err = start_one(l, share, i, share->first + i || in < 0 ? none : in, false);
	if (feed)
		close(in);
	close(none);
	return err;
}

struct local *local_start(struct share *share, const struct local_events *events, bool feed)
{
	struct local *l = must_alloc(sizeof(*l));
	int err = -1;

	l->events = *events;
	l->feed.fd = -1;
	l->ranks = must_alloc((size_t)share->count * sizeof(*l->ranks));
	l->cpus = bind_ranks(share->bind, share->count);
	l->dump = flight_prefix(share);
	l->path = spawn_lookup(share->argv[0]);
	l->keeper = (struct keeper){.pid = -1, .fd = -1};
	if (l->path && !limits_check(share) && !keeper_start(&l->keeper, gate_made()))
		err = start_all(l, share, feed);
	if (share->store_fd >= 0)
		close(share->store_fd);
	share->store_fd = -1;
	if (!err)
		return l;
	local_signal(l, SIGKILL);
	local_free(l);
	return NULL;
}

void local_signal(struct local *l, int sig)
{
	int i;

	for (i = 0; i < l->count; i++)
		if (!l->ranks[i].ended)
			kill(-l->ranks[i].pid, sig);
}

int local_running(const struct local *l)
{
	return l->running;
}

/* Whether the rank ended; if so, ends the rest of its process group. */
static bool reap_one(struct local_rank *r, int *status)
{
	siginfo_t info = {0};

	if (r->ended || waitid(P_PID, (id_t)r->pid, &info, WEXITED | WNOHANG | WNOWAIT) ||
	    !info.si_pid)
		return false;
	kill(-r->pid, SIGKILL); /* before the wait below: until then the group's number is ours */
	keeper_tell(&r->local->keeper, r->pid, true);
	waitpid(r->pid, status, 0);
	r->ended = true;
	return true;
}

static void report(struct local_rank *r, int status)
{
	const struct local_events *ev = &r->local->events;
	int blames;

	while (stream_read(&r->out[0]))
		;
	while (stream_read(&r->out[1]))
		;
	blames = status ? flight_blames(r->flight) : -1;
	flight_ended(r->local->dump, r->flight, status);
	r->flight = -1;
	ev->ended(ev->arg, r->rank, status, blames);
}

void local_reap(struct local *l)
{
	int *status = must_alloc((size_t)(l->count + 1) * sizeof(*status)), i, pass;
	char *ended = must_alloc((size_t)l->count + 1);

	for (i = 0; i < l->count; i++)
		if (reap_one(&l->ranks[i], &status[i])) {
			ended[i] = 1;
			l->running--;
		}
	/*
	 * Of several ends at once, ranks ended by a signal come first: other ranks may be their
	 * victims.
	 */
	for (pass = 0; pass < 2; pass++)
		for (i = 0; i < l->count; i++)
			if (ended[i] && WIFSIGNALED(status[i]) == !pass)
				report(&l->ranks[i], status[i]);
	free(status);
	free(ended);
}

void local_free(struct local *l)
{
	int i;

	if (!l)
		return;
	for (i = 0; i < l->count; i++) {
		stream_close(&l->ranks[i].out[0]);
		stream_close(&l->ranks[i].out[1]);
		if (l->ranks[i].flight >= 0)
			close(l->ranks[i].flight);
	}
	feed_close(l);
	keeper_stop(&l->keeper);
	free(l->ranks);
	free(l->cpus);
	free(l->dump);
	free(l->path);
	free(l);
}
