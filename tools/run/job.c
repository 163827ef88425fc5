/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a job from start to end. When a rank fails, the others get GRACE_MS to detect and report it
 * (the library's control tree tells them), then SIGTERM, then SIGKILL.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/run/run.h"

#define GRACE_MS 2000
#define TERM_MS 2000
#define STOP_MS                                                                                    \
	30000 /* after a forwarded SIGINT, SIGTERM or SIGHUP: ranks may save their state           \
	       */
#define HELLO_MS 60000
#define LOOK_MS 1000 /* interval of checks for new ranks, with --replace */

enum phase { RUNNING, GRACE, TERMINATED, KILLED };

static struct {
	struct options *opt;
	struct share share;
	struct local *local;
	struct tagger *tagger;
	struct watch in; /* our standard input, when it has to be passed on */
	int running, status, interrupts;
	bool failed;	   /* status is the first rank's, which may become known a little later */
	struct first who;  /* finds the rank that failed first */
	int first;	   /* the rank whose failure failed the job, until it is said; -1 */
	bool *ended;	   /* by rank */
	int replaced;	   /* so often, by --replace */
	unsigned question; /* the last to other hosts: how many new processes have not joined */
	int64_t ask_next;
	int lost;	/* the status for a killed rank without which the job went on */
	bool succeeded; /* a rank has ended with status 0 */
	bool dismissed; /* running processes never joined and have nothing to join: end them */
	enum phase phase;
	int64_t next;	  /* when the next phase begins, -1: not by time */
	int64_t deadline; /* of --timeout, -1: none */
} job;

static struct host *host_of(int rank)
{
	int i;

	for (i = 0; i < job.opt->hosts.n - 1; i++)
		if (rank < job.opt->hosts.v[i].first + job.opt->hosts.v[i].count)
			break;
	return &job.opt->hosts.v[i];
}

static const char *host_name(const struct host *h)
{
	static char own[HOST_NAME_MAX + 1];

	if (!h->local)
		return h->name;
	if (!own[0] && gethostname(own, sizeof(own) - 1))
		return h->name;
	return own;
}

static void signal_all(int sig)
{
	int i;

	if (job.local)
		local_signal(job.local, sig);
	for (i = 0; i < job.opt->hosts.n; i++)
		if (job.opt->hosts.v[i].remote)
			remote_signal(job.opt->hosts.v[i].remote, sig);
}

static void enter(enum phase phase, int64_t after_ms)
{
	job.phase = phase;
	job.next = after_ms < 0 ? -1 : now_ms() + after_ms;
}

/* The job has failed, with this status, unless it had before. */
static bool set_failed(int status)
{
	if (job.failed)
		return false;
	job.failed = true;
	job.status = status;
	if (job.phase == RUNNING)
		enter(GRACE, GRACE_MS);
	else if (job.phase == TERMINATED) /* by a forwarded signal */
		enter(TERMINATED, GRACE_MS + TERM_MS);
	return true;
}

static int exit_status(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void describe(char *text, size_t size, int rank, int status)
{
	const char *host = host_name(host_of(rank));

	if (WIFSIGNALED(status))
		snprintf(text, size, "rank %d on %s was killed by signal %d (%s)", rank, host,
			 WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		snprintf(text, size, "rank %d on %s ended with status %d", rank, host,
			 WEXITSTATUS(status));
}

/*
 * How many new processes have not joined. Other hosts are asked now and then and whenever a rank
 * ends, since a process that was inside may have ended meanwhile. -1: not all have answered.
 */
static int outside(void)
{
	int i, there, n = job.local ? local_outside(job.local) : 0;

	for (i = 0; i < job.opt->hosts.n; i++) {
		if (!job.opt->hosts.v[i].remote)
			continue;
		there = remote_outside(job.opt->hosts.v[i].remote, job.question);
		if (there < 0)
			return -1;
		n += there;
	}
	return n;
}

static void ask_outside(void)
{
	int i;

	if (!job.replaced)
		return;
	job.question++;
	job.ask_next = now_ms() + LOOK_MS;
	for (i = 0; i < job.opt->hosts.n; i++)
		if (job.opt->hosts.v[i].remote)
			remote_ask_outside(job.opt->hosts.v[i].remote, job.question);
}

/* A new process where the rank was. */
static int start_again(int rank)
{
	struct host *h = host_of(rank);

	if (h->remote)
		return remote_replace(h->remote, rank);
	job.share.first = h->first;
	job.share.count = h->count;
	job.share.env = job.opt->env;
	return local_replace(job.local, &job.share, rank);
}

/* With --replace a killed rank is not the end of the job, as long as there are others. */
static bool goes_on(int rank, int status, const char *text)
{
	if (job.opt->replace < 0 || !WIFSIGNALED(status) || job.phase != RUNNING)
		return false;
	job.lost = 128 + WTERMSIG(status);
	if (job.dismissed || !job.running || outside() == job.running)
		return true;
	if (job.replaced == job.opt->replace || start_again(rank)) {
		say("%s; the others go on", text);
		return true;
	}
	say("%s; a new process joins in its place", text);
	job.ended[rank] = false;
	job.replaced++;
	job.running++;
	return true;
}

/* Only new processes are left, and no rank can admit them. */
static void dismiss(void)
{
	if (job.opt->replace < 0 || job.dismissed || !job.running || job.phase != RUNNING ||
	    outside() < job.running)
		return;
	job.dismissed = true;
	signal_all(SIGKILL);
}

/* Say which rank failed first, if that is known, or must do. */
static void name_first(bool now)
{
	char text[256], victim[256];
	int waits, excused, because, rank, status;

	if (job.first < 0)
		return;
	rank = first_cause(&job.who, job.first, &waits, &excused);
	if (waits >= 0 && !now)
		return;
	because = waits >= 0 ? waits : excused;
	status = job.who.rank[rank].status;
	describe(text, sizeof(text), rank, status);
	describe(victim, sizeof(victim), job.first, job.who.rank[job.first].status);
	if (because >= 0)
		say("%s first, because of rank %d on %s%s", text, because,
		    host_name(host_of(because)), job.running ? "; the others are ended" : "");
	else if (!status)
		say("%s before the others were done; then %s%s", text, victim,
		    job.running ? "; the others are ended" : "");
	else
		say("%s first%s", text, job.running ? "; the others are ended" : "");
	if (status)
		job.status = exit_status(status);
	job.first = -1;
}

static void on_ended(void *arg, int rank, int status, int blames)
{
	char text[256];

	if (job.ended[rank])
		return;
	job.ended[rank] = true;
	job.running--;
	job.succeeded |= !status;
	first_ended(&job.who, rank, status, blames);
	describe(text, sizeof(text), rank, status);
	ask_outside();
	if (goes_on(rank, status, text)) {
		first_excuse(&job.who, rank);
		dismiss();
		return;
	}
	if (status && set_failed(exit_status(status)))
		job.first = rank;
	else if (job.opt->verbose)
		say("%s", text);
	name_first(false);
	dismiss();
}

static void on_output(void *arg, int rank, int stream, const char *data, size_t len)
{
	bool ok;

	if (job.tagger)
		ok = tagger_write(job.tagger, rank, stream, data, len);
	else
		ok = write_all(stream ? STDERR_FILENO : STDOUT_FILENO, data, len);
	if (!ok && set_failed(128 + SIGPIPE))
		signal_all(SIGPIPE); /* the signal that a direct write would raise */
}

static void on_fed(void *arg)
{
	job.in.events = POLLIN;
}

/* With --replace the others go on without a host's ranks, as without ranks that were killed. */
static void on_lost(void *arg, struct host *host)
{
	int rank;

	for (rank = host->first; rank < host->first + host->count; rank++)
		if (job.ended && !job.ended[rank]) {
			job.ended[rank] = true;
			job.running--;
		}
	if (job.opt->replace < 0 || job.phase != RUNNING || !remote_vanished(host->remote)) {
		set_failed(STATUS_LAUNCHER);
		return;
	}
	job.lost = STATUS_LAUNCHER;
	if (job.running)
		say("the ranks on %s are gone; the others go on", host->name);
	ask_outside();
	dismiss();
}

static void reap(void)
{
	int i;

	if (job.local)
		local_reap(job.local);
	for (i = 0; i < job.opt->hosts.n; i++)
		if (job.opt->hosts.v[i].remote)
			remote_reap(job.opt->hosts.v[i].remote);
}

static void on_signal(int sig)
{
	if (sig == SIGCHLD) {
		reap();
		return;
	}
	if (!job.running) { /* no rank to forward it to yet */
		set_failed(128 + sig);
		return;
	}
	if (sig == SIGINT && ++job.interrupts > 1) {
		say("interrupted twice: killing all ranks");
		signal_all(SIGKILL);
		enter(KILLED, -1);
		return;
	}
	signal_all(sig);
	if (job.phase == RUNNING && (sig == SIGINT || sig == SIGTERM || sig == SIGHUP))
		enter(TERMINATED, STOP_MS); /* a rank that hangs must not keep the job running */
}

/* Standard input goes to rank 0 in pieces, the next one when the last was taken. */
static void on_input(struct watch *w, short revents)
{
	struct host *h = &job.opt->hosts.v[0];
	char buf[FEED_MAX];
	ssize_t n;

	w->events = 0;
	if (isatty(w->fd) && tcgetpgrp(w->fd) != getpgrp())
		return; /* in the background: reading would stop us */
	n = read(w->fd, buf, sizeof(buf));
	if (h->remote)
		remote_feed(h->remote, buf, n > 0 ? (size_t)n : 0);
	else if (job.local)
		local_feed(job.local, buf, n > 0 ? (size_t)n : 0);
}

static void advance_phase(void)
{
	if (job.deadline >= 0 && now_ms() >= job.deadline && !job.failed) {
		say("still running after --timeout, %d of %d ranks; they are ended", job.running,
		    job.opt->nranks);
		set_failed(STATUS_TIMEOUT);
		enter(GRACE, 0);
	}
	if (now_ms() >= job.ask_next)
		ask_outside();
	dismiss();
	if (job.next < 0 || now_ms() < job.next)
		return;
	name_first(true);
	if (job.phase == GRACE) {
		signal_all(SIGTERM);
		enter(TERMINATED, TERM_MS);
	} else if (job.phase == TERMINATED) {
		signal_all(SIGKILL);
		enter(KILLED, -1);
	}
}

static int wait_ms(void)
{
	int64_t until = job.next, left,
		most = job.replaced ? LOOK_MS : 60000; /* dismiss() looks now and then */

	if (!job.failed && job.deadline >= 0 && (until < 0 || job.deadline < until))
		until = job.deadline;
	if (until < 0)
		return job.replaced ? (int)most : -1;
	left = until - now_ms();
	return left < 0 ? 0 : left > most ? (int)most : (int)left;
}

/* ---- starting ---- */

static int start_remotes(void)
{
	struct remote_events events = {
		.output = on_output, .ended = on_ended, .fed = on_fed, .lost = on_lost};
	struct hosts *hosts = &job.opt->hosts;
	int64_t until = now_ms() + HELLO_MS;
	int i, waiting = 1;

	for (i = 0; i < hosts->n; i++)
		if (!hosts->v[i].local) {
			hosts->v[i].remote = remote_start(&hosts->v[i], job.opt->ssh, &events);
			if (!hosts->v[i].remote)
				return -1;
		}
	while (waiting && !job.failed && now_ms() < until) {
		for (i = 0, waiting = 0; i < hosts->n; i++)
			waiting += hosts->v[i].remote && !remote_ready(hosts->v[i].remote);
		if (waiting)
			loop_once(1000);
	}
	for (i = 0; i < hosts->n && !job.failed; i++)
		if (hosts->v[i].remote && !remote_ready(hosts->v[i].remote))
			return fail("host %s: no answer through the remote shell within %d s",
				    hosts->v[i].name, HELLO_MS / 1000);
	return job.failed ? -1 : 0;
}

/* The store is at rank 0: on the first host. */
static int choose_store(void)
{
	struct hosts *hosts = &job.opt->hosts;
	struct remote *first = hosts->v[0].remote;
	char **peers = must_alloc((size_t)(hosts->n + 1) * sizeof(*peers));
	char **own = must_alloc((size_t)(hosts->n + 1) * sizeof(*own));
	int64_t until = now_ms() + HELLO_MS;
	int i, n = 0, err = 0;

	for (i = 1; i < hosts->n; i++) {
		peers[i - 1] = hosts->v[i].name;
		if (hosts->v[i].remote && *remote_client_addr(hosts->v[i].remote))
			own[n++] = (char *)remote_client_addr(hosts->v[i].remote);
	}
	if (first) {
		remote_listen(first, peers);
		while (!job.failed && !*remote_store(first) && now_ms() < until)
			loop_once(1000);
		snprintf(job.share.store, sizeof(job.share.store), "%s", remote_store(first));
		err = *job.share.store ? 0 : -1;
	} else {
		job.share.store_fd =
			store_listen(peers, own, job.share.store, sizeof(job.share.store));
		err = job.share.store_fd < 0 ? -1 : 0;
	}
	free(peers);
	free(own);
	return err;
}

static int make_secret(struct share *s)
{
	unsigned char id[16];
	int i;

	if (getrandom(s->secret, sizeof(s->secret), 0) != sizeof(s->secret) ||
	    getrandom(id, sizeof(id), 0) != sizeof(id))
		return fail("getrandom: %s", strerror(errno));
	for (i = 0; i < 16; i++)
		sprintf(s->job_id + 2 * i, "%02x", id[i]);
	return 0;
}

extern char **environ;

/*
 * Variables for ranks on other hosts: our TUTTI_ variables, except those of one host or one job;
 * then -x.
 */
static char **remote_environment(void)
{
	static const char *const no[] = {
		"TUTTI_RANK=",	   "TUTTI_NRANKS=",  "TUTTI_LOCAL_RANK=", "TUTTI_STORE=",
		"TUTTI_STORE_FD=", "TUTTI_JOB_ID=",  "TUTTI_SECRET_",	  "TUTTI_HOST_ID=",
		"TUTTI_IF=",	   "TUTTI_BOOT_DIR="};
	size_t n = 0, i, j;
	char **v;

	for (i = 0; environ[i]; i++)
		;
	for (j = 0; job.opt->env[j]; j++)
		;
	v = must_alloc((i + j + 1) * sizeof(*v));
	for (i = 0; environ[i]; i++) {
		bool pass = !strncmp(environ[i], "TUTTI_", 6);

		for (j = 0; pass && j < sizeof(no) / sizeof(no[0]); j++)
			pass = strncmp(environ[i], no[j], strlen(no[j])) != 0;
		if (pass)
			v[n++] = environ[i];
	}
	for (j = 0; job.opt->env[j]; j++)
		v[n++] = job.opt->env[j];
	return v;
}

static int start_on(struct host *h, char **remote_env)
{
	struct local_events events = {.output = on_output, .ended = on_ended, .fed = on_fed};
	struct share *s = &job.share;
	bool feed = !h->first && isatty(STDIN_FILENO);

	s->first = h->first;
	s->count = h->count;
	if (job.opt->verbose)
		say("ranks %d to %d on %s%s", h->first, h->first + h->count - 1, host_name(h),
		    h->local ? "" : " (remote)");
	if (h->remote) {
		s->env = remote_env;
		remote_job(h->remote, s);
	} else {
		/*
		 * A terminal is not handed on: a process group in the background may not read it.
		 */
		s->env = job.opt->env;
		s->stdin_fd = feed ? -1 : STDIN_FILENO;
		job.local = local_start(s, &events, feed);
		if (!job.local)
			return -1;
	}
	if (!h->first && (h->remote || feed)) {
		job.in = (struct watch){.fd = STDIN_FILENO, .events = POLLIN, .fn = on_input};
		loop_add(&job.in);
	}
	return 0;
}

static int prepare_replacing(void)
{
	const char *told = getenv("TUTTI_BOOT_DIR"), *other = NULL;
	int i;

	for (i = 0; i < job.opt->hosts.n && !other; i++)
		other = job.opt->hosts.v[i].local ? NULL : job.opt->hosts.v[i].name;
	if (other && (!told || !*told)) {
		if (!job.opt->replace)
			return 0; /* no process will join */
		return fail("--replace with ranks on another host (%s) needs TUTTI_BOOT_DIR, a "
			    "directory that all "
			    "hosts share: new processes find the job through it",
			    other);
	}
	job.share.gate = gate_dir();
	return job.share.gate ? 0 : -1;
}

static int start_all(void)
{
	struct options *opt = job.opt;
	char **remote_env;
	int i, err = 0;

	if (opt->wdir && chdir(opt->wdir))
		return fail("cannot go to --wdir %s: %s", opt->wdir, strerror(errno));
	if (opt->replace >= 0 && prepare_replacing())
		return -1;
	if (make_secret(&job.share) || start_remotes() || choose_store())
		return -1;
	if (opt->verbose)
		say("job %s: %d ranks, store at %s", job.share.job_id, opt->nranks,
		    job.share.store);
	job.share.wdir = getcwd(NULL, 0);
	job.ended = must_alloc((size_t)opt->nranks * sizeof(*job.ended));
	first_open(&job.who, opt->nranks);
	job.running = opt->nranks;
	remote_env = remote_environment();
	for (i = 0; !err && i < opt->hosts.n; i++)
		err = start_on(&opt->hosts.v[i], remote_env);
	free(remote_env);
	free(job.share.wdir);
	if (opt->replace < 0)
		explicit_bzero(job.share.secret, sizeof(job.share.secret));
	return err;
}

int job_run(struct options *opt)
{
	int i;

	job.opt = opt;
	job.next = job.first = -1;
	job.deadline = opt->timeout_ms ? now_ms() + opt->timeout_ms : -1;
	job.share = (struct share){.nranks = opt->nranks,
				   .store_fd = -1,
				   .stdin_fd = -1,
				   .bind = opt->bind,
				   .capture = opt->tag,
				   .wdir_must = opt->wdir,
				   .argv = opt->argv};
	if (opt->tag)
		job.tagger = tagger_new(opt->nranks);
	loop_signals(on_signal);
	if (start_all()) {
		set_failed(STATUS_LAUNCHER);
		signal_all(SIGKILL);
	} else {
		while (job.running) {
			loop_once(wait_ms());
			advance_phase();
		}
	}
	name_first(true);
	for (i = 0; i < opt->hosts.n; i++)
		remote_free(opt->hosts.v[i].remote);
	while (job.local && local_running(job.local))
		loop_once(100);
	local_free(job.local);
	tagger_free(job.tagger);
	free(job.ended);
	first_close(&job.who);
	gate_remove(gate_made());
	explicit_bzero(job.share.secret, sizeof(job.share.secret));
	return job.failed || job.succeeded ? job.status : job.lost;
}
