/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internals of tutti_run.
 *
 *	tutti_run.c	main: a job, or with --agent the remote end of one
 *	options.c	the command line
 *	hosts.c		hosts and slots: -H, --hostfile; which ranks go where
 *	job.c		a job from start to end: first failure, grace, SIGTERM, SIGKILL
 *	first.c		finds the rank that failed first
 *	limits.c	whether this host's limits allow these ranks
 *	local.c		the ranks of this host: started, read, reaped, signalled
 *	keeper.c	a process that ends the ranks of this host when tutti_run was killed
 *	spawn.c		one process: environment, descriptors, program lookup
 *	bind.c		the CPUs of each rank
 *	store.c		the listening socket that rank 0 inherits, and its address
 *	remote.c	other hosts: one remote shell each, running tutti_run --agent
 *	agent.c		that agent
 *	frame.c		messages between launcher and agent
 *	gate.c		the directory through which new processes join
 *	flight.c	flight recorders of ranks that have died
 *	output.c	lines with the rank in front
 *	loop.c		poll(2)
 *
 * tutti_run has one thread. The job's secret exists in memory and in the descriptors that ranks
 * inherit. It reaches other hosts through the remote shell's standard input, and is never an
 * argument, an environment variable or part of a message.
 */
#ifndef TUTTI_RUN_H
#define TUTTI_RUN_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROG "tutti_run"
#define SECRET_LEN 32
#define STATUS_LAUNCHER 1
#define STATUS_TIMEOUT 124

/* "tutti_run: ..." to standard error, and the value a failing function returns. */
int fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void *must_alloc(size_t size); /* zeroed; ends the program when there is no memory */
char *must_strdup(const char *s);
int64_t now_ms(void);

/* ---- hosts.c ---- */

struct host {
	char *name;
	int slots;
	int first, count; /* its ranks */
	int line;	  /* of the hostfile, 0: from -H */
	bool local;
	struct remote *remote;
};

struct hosts {
	struct host *v;
	int n;
};

int hosts_parse_list(struct hosts *hosts, const char *list);
int hosts_parse_file(struct hosts *hosts, const char *path);
/* Give out nranks (0: one a slot) in order; hosts left without a rank are dropped. */
int hosts_place(struct hosts *hosts, int *nranks);
void hosts_free(struct hosts *hosts);

/* ---- bind.c ---- */

enum bind { BIND_SHARE, BIND_CORE, BIND_NONE };

/*
 * The CPUs of each of count ranks of this host, NULL: they are not bound. BIND_SHARE binds nothing
 * if one rank or more ranks than CPUs are to be started, or if this process is bound itself.
 */
cpu_set_t *bind_ranks(enum bind how, int count);
/*
 * The shares of count ranks in the CPUs that they may use, on the machine that these two folders
 * describe. Returns count, or 0: not to be bound.
 */
int bind_shares(const char *sysfs, const char *proc, const cpu_set_t *may, int count,
		cpu_set_t *share);

/* ---- options.c ---- */

struct options {
	int nranks;
	struct hosts hosts;
	char **env; /* VAR=VALUE, ended by NULL */
	bool tag, verbose, agent, keeper;
	enum bind bind;
	int64_t timeout_ms; /* 0: none */
	int replace; /* new processes in the place of killed ones, at most; -1: a killed rank ends
			the job */
	const char *wdir, *ssh;
	char **argv; /* the program and its arguments */
};

/* 0: go on; 1: done (--help, --version); -1: wrong, and said so. */
int options_parse(struct options *opt, int argc, char **argv);
void options_free(struct options *opt);

/* ---- loop.c ---- */

struct watch {
	int fd;
	short events;
	void (*fn)(struct watch *w, short revents);
	void *arg;
};

void loop_add(struct watch *w);
void loop_del(struct watch *w); /* allowed for one that was not added */
void loop_once(int timeout_ms);
/* Take SIGINT and friends and SIGCHLD out of asynchronous delivery: fn is called from the loop. */
void loop_signals(void (*fn)(int sig));
/* In a child: back to how signals were. */
void loop_child_signals(void);

/* ---- keeper.c ---- */

struct keeper {
	pid_t pid;
	int fd; /* the pipe's end, -1: not started */
};

/* gate: a directory to be removed at the end, or NULL. */
int keeper_start(struct keeper *k, const char *gate);
void keeper_stop(struct keeper *k);
void keeper_tell(const struct keeper *k, pid_t group, bool ended);
int keeper_main(const char *gate);

/* ---- spawn.c ---- */

/* The job as one host sees it: everything needed to start that host's ranks. */
struct share {
	int nranks, first, count;
	char job_id[33];
	unsigned char secret[SECRET_LEN];
	char store[128];
	int store_fd; /* for rank 0; -1: none */
	int stdin_fd; /* for rank 0; -1: none */
	enum bind bind;
	bool capture;	/* read the ranks' output instead of letting them inherit ours */
	char *wdir;	/* NULL: stay */
	bool wdir_must; /* else a missing directory is only worth a warning */
	char **env, **argv;
	char *gate; /* directory through which new processes join; NULL: none do */
};

/* The path of a program: as given if it has a slash, else from PATH, else beside tutti_run. */
char *spawn_lookup(const char *program);
/* The directory of tutti_run itself. */
const char *spawn_own_dir(void);
/* flight: memory for its flight recorder, -1: none. */
struct spawn {
	const char *path;
	int local_rank;
	int fd[3];
	int flight;
	const struct keeper *keeper;
	const cpu_set_t *cpus; /* NULL: any */
	bool joins; /* a new process for a job that runs, instead of a rank of its start */
};
pid_t spawn_rank(const struct share *share, const struct spawn *s);

/* ---- flight.c ---- */

/*
 * The memory of a rank that has ended: dumped if the rank ended badly and has not done so itself.
 * Closes fd.
 */
void flight_ended(const char *prefix, int fd, int status);
/*
 * The rank because of which this one has failed, by its flight recorder; -1: it does not say, or
 * the rank has gone on after that.
 */
int flight_blames(int fd);
/* TUTTI_DUMP of the ranks; NULL: they have none. */
char *flight_prefix(const struct share *share);

/* ---- local.c ---- */

struct local_events {
	void (*output)(void *arg, int rank, int stream, const char *data, size_t len);
	/* Status as from waitpid; blames: the rank because of which it failed, -1: not said. */
	void (*ended)(void *arg, int rank, int status, int blames);
	void (*fed)(void *arg); /* local_feed may be called again */
	void *arg;
};

struct local;
/* NULL: could not start; said so. Takes share->store_fd. */
struct local *local_start(struct share *share, const struct local_events *events, bool feed);
void local_signal(struct local *local, int sig);
void local_reap(struct local *local);
int local_running(const struct local *local);
/* Standard input of rank 0, when started with feed; at most FEED_MAX bytes; len 0 closes it. */
#define FEED_MAX 16384
void local_feed(struct local *local, const char *data, size_t len);
/* A new process in the place of a rank that has ended. */
int local_replace(struct local *local, const struct share *share, int rank);
/* How many new processes have not joined the job (yet). */
int local_outside(const struct local *local);
void local_free(struct local *local);

/* ---- first.c ---- */

struct first_rank {
	bool ended, excused;
	int status, blames;
};

struct first {
	int nranks;
	struct first_rank *rank;
};

void first_open(struct first *f, int nranks);
void first_close(struct first *f);
void first_ended(struct first *f, int rank, int status, int blames);
/* The job goes on without this rank, so its end is not what failed the job. */
void first_excuse(struct first *f, int rank);
/*
 * The rank because of which this one, which has ended, failed. *waits: one that still runs and may
 * tell more, or -1. *excused: one that was excused, because of which that rank failed, or -1.
 */
int first_cause(const struct first *f, int rank, int *waits, int *excused);

/* ---- limits.c ---- */

/* Whether this many ranks can start here; prints the reason if not. */
int limits_check(const struct share *share);

/* ---- gate.c ---- */

/*
 * The directory for --replace: the one of TUTTI_BOOT_DIR, or one made for this job. NULL: said
 * why.
 */
char *gate_dir(void);
const char *gate_made(void); /* by gate_dir; NULL: it made none */
void gate_remove(const char *gate);

/* ---- output.c ---- */

struct tagger;
struct tagger *tagger_new(int nranks);
/* Returns false when our output has no reader any more. */
bool tagger_write(struct tagger *t, int rank, int stream, const char *data, size_t len);
void tagger_free(struct tagger *t); /* writes unfinished lines */
bool write_all(int fd, const void *data, size_t len);

/* ---- store.c ---- */

/*
 * Listen where the other hosts can connect: the address of this host that reaches peers (NULL-ended
 * names), or one of own (addresses that others saw us at), or the first that is not loopback.
 * Without peers: loopback. text receives HOST:PORT. The descriptor, or -1 and said so.
 */
int store_listen(char **peers, char **own, char *text, size_t size);

/* ---- frame.c ---- */

enum frame_type {
	FRAME_HELLO = 'H',   /* from the agent: protocol, host name, SSH_CONNECTION */
	FRAME_LISTEN = 'L',  /* to: peers, own; back: HOST:PORT */
	FRAME_JOB = 'J',     /* to the agent: a struct share */
	FRAME_SIGNAL = 'S',  /* to: number */
	FRAME_STDIN = 'I',   /* to: bytes, none at the end; back: taken, more may come */
	FRAME_OUT = 'O',     /* from: rank, stream, bytes */
	FRAME_ENDED = 'X',   /* from: rank, status, rank that it blames or -1 */
	FRAME_REPLACE = 'R', /* to: rank, in whose place a new process is started */
	FRAME_OUTSIDE =
		'U', /* to: number of the question; back: that, how many have not joined the job */
	FRAME_FAILED = 'F' /* from: nothing; the agent said why on its standard error */
};

#define AGENT_PROTOCOL 3

/* A frame being written or read: 32-bit numbers and length-prefixed bytes. */
struct pack {
	char *data;
	size_t len, cap, at;
	bool bad; /* read past the end */
};

void pack_u32(struct pack *p, uint32_t v);
void pack_bytes(struct pack *p, const void *data, size_t len);
void pack_str(struct pack *p, const char *s);
void pack_strs(struct pack *p, char **v); /* NULL-ended */
uint32_t unpack_u32(struct pack *p);
const char *unpack_bytes(struct pack *p, size_t *len);
char *unpack_str(struct pack *p);
char **unpack_strs(struct pack *p);
void pack_free(struct pack *p); /* wiped: it may have held the secret */
void strs_free(char **v);

bool frame_send(int fd, enum frame_type type, const struct pack *p);
/* Bytes that arrived, and complete frames out of them. */
struct frames {
	struct pack in;
};
/* Read once; false at the end of the stream. */
bool frames_read(struct frames *f, int fd);
/* The next complete frame, its payload in *p (valid until the next call); 0: none yet; -1: junk. */
int frames_next(struct frames *f, struct pack *p);

void share_pack(struct pack *p, const struct share *share);
bool share_unpack(struct pack *p, struct share *share);
void share_free(struct share *share);

/* ---- remote.c ---- */

struct remote_events {
	void (*output)(void *arg, int rank, int stream, const char *data, size_t len);
	void (*ended)(void *arg, int rank, int status, int blames);
	void (*fed)(void *arg);
	void (*lost)(void *arg, struct host *host); /* the connection is gone with ranks running */
	void *arg;
};

struct remote *remote_start(struct host *host, const char *ssh, const struct remote_events *events);
bool remote_ready(const struct remote *r); /* it said hello */
/* From its SSH_CONNECTION: the address of this machine as seen from there, "" when unknown. */
const char *remote_client_addr(const struct remote *r);
void remote_listen(struct remote *r, char **peers);
const char *remote_store(const struct remote *r); /* "" until known */
void remote_job(struct remote *r, const struct share *share);
void remote_signal(struct remote *r, int sig);
void remote_feed(struct remote *r, const char *data, size_t len);
void remote_reap(struct remote *r); /* on SIGCHLD */
/* A new process in the place of a rank that has ended; 0: asked for. */
int remote_replace(struct remote *r, int rank);
/* Ask how many new processes there have not joined the job, as local_outside. */
void remote_ask_outside(struct remote *r, unsigned question);
/* The answer to this question, or to a later one; -1: there is none yet. */
int remote_outside(const struct remote *r, unsigned question);
/* It had its part of the job, and the connection is gone: not, it could not do its part. */
bool remote_vanished(const struct remote *r);
void remote_free(struct remote *r);

int agent_main(void);
int job_run(struct options *opt);

#endif
