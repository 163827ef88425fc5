/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the processes of a job find each other, authenticate, and stay in touch.
 *
 * Rank 0 listens (the store). Every rank joins: mutual authentication, then its card (bytes that
 * the wire layer publishes to all ranks). When all have joined, rank 0 tells each rank where its
 * parent listens. The ranks form the control tree: complete, of arity TT_CTL_ARITY, over
 * authenticated TCP links, run by one control thread per process. The table of all cards travels
 * down the tree; then the joins to rank 0 are closed. The tree carries heartbeats and small
 * messages from any rank to any rank or to all, and reports failed processes to all ranks.
 */
#ifndef TT_BOOT_H
#define TT_BOOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tutti/comm.h>

#include "lib/base/clock.h"
#include "lib/base/env.h"
#include "lib/base/error.h"

#define TT_CTL_ARITY 8
#define TT_CTL_ALL (-1)	    /* to every rank, including the sender */
#define TT_CTL_MSG_MAX 4096 /* bytes of a message's payload */
#define TT_GONE_WHY 440	    /* bytes of the reason why a rank is gone */
#define TT_CARD_MAX 1024
/* The reason for a rank that finalized without the other ranks. */
#define TT_GONE_LEFT "it waited in vain for the others at the end, and left"

struct tt_boot;
struct tt_kvs;

/*
 * Message types on the control tree; a handler runs in the control thread and must not block long.
 */
enum tt_ctl_type {
	TT_CTL_CONN_REQ = 1, /* lib/wire: connection set-up */
	TT_CTL_CONN_REP,
	TT_CTL_STUCK, /* lib/comm: the late/mismatch protocol */
	TT_CTL_QUERY,
	TT_CTL_LATE,
	TT_CTL_MISMATCH,
	TT_CTL_ABORT,	 /* lib/comm */
	TT_CTL_PROGRESS, /* lib/engine: run the progress thread */
	TT_CTL_PAIR,	 /* lib/comm: block lengths that only two ranks know */
	TT_CTL_NODE,	 /* lib/engine: which memory methods work between the ranks of a host */
	TT_CTL_ASK,	 /* lib/api: a client asks for this rank's state; ras.h */
	TT_CTL_TOLD,	 /* the answer, to the rank that asked; taken by lib/boot */
	TT_CTL_FAIL,	 /* lib/comm: a communicator has failed at one of its ranks */
	TT_CTL_ACCUSE,	 /* lib/comm, to the lowest rank: a rank cannot be reached */
	TT_CTL_AGREE,	 /* lib/comm: agreement among the live ranks */
	TT_CTL_FENCED,	 /* lib/wire: the sender has closed its connection to the receiver */
	TT_CTL_GROW,	 /* lib/api: the outcome of a tutti_comm_grow call */
	TT_CTL_SLOWER,	 /* lib/wire, to the lowest rank: a connection over a slower network */
	TT_CTL_DOING,	 /* lib/engine: what is the receiver doing? The same type for the answer */
	TT_CTL_CLOSED,	 /* lib/rma: the sender has no window, or has freed it alone */
	TT_CTL_TYPES
};

typedef void tt_ctl_fn(void *arg, int from, const void *data, size_t len);
/*
 * A process has failed: its rank, its host, and the reason as a sentence. Called once per rank on
 * every survivor. With this process's own rank: the other ranks have taken it for dead, and it is
 * cut off for good.
 */
typedef void tt_gone_fn(void *arg, int rank, const char *host, const char *why);

/* Rank, size, store and secret, filled by tt_boot_discover. */
struct tt_boot_params {
	int rank, nranks, local_rank;
	char store[128];	  /* HOST:PORT; at rank 0 the port may be 0 with listen_fd given */
	int listen_fd;		  /* inherited or made by tutti_unique_id_get; -1: none. Owned. */
	unsigned char secret[32]; /* derived key; all zero when there is none */
	bool have_secret;
	bool insecure;	       /* beyond loopback without a secret is allowed */
	unsigned char job[16]; /* nonce of the job */
	char iface[64];	       /* TUTTI_IF */
	int64_t init_timeout, heartbeat, heartbeat_limit; /* ms */
	char origin[48];    /* how they were found: "tutti_run", "TUTTI_RANK", "torchrun", "config",
			       "unique id", "allgather callback", "directory", "single process" */
	char boot_dir[256]; /* TUTTI_BOOT_DIR: store and job are in a file there, found at start */
	char boot_name[96]; /* the launcher's job, TUTTI_JOB_ID: part of that file's name */
	bool nameless;	    /* cannot be told from other jobs of its launcher */
	bool one_host;	    /* the launcher says that all ranks are on this host */
	const struct tt_kvs *kvs; /* the launcher's key-value space; NULL: none */
	bool boot_secret;	  /* the secret is in that file, not from TUTTI_SECRET_* */
	bool gate; /* that file is the gate's, through which this process came; admission.h */
	const struct tutti_error_info
		*broken; /* this rank cannot take part, and only reports why */
	/*
	 * Polled in the control thread during the start: nonzero fails the start with its last
	 * error. May be NULL.
	 */
	int (*stop)(void *arg);
	void *stop_arg;
};

/*
 * Reads config (may be NULL) and the environment: config.nranks with id or allgather; TUTTI_RANK
 * and its companions (tutti_run); RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT
 * (torchrun); TUTTI_BOOT_DIR with rank and size, which may also come from srun or the mpirun of
 * Open MPI and MPICH; else these launchers' key-value space. Without any of these: a single
 * process. Errors name the variable and the reason.
 */
int tt_boot_discover(const struct tutti_config *config, const struct tt_env *env,
		     struct tt_boot_params *params);

/* The first part of it, which only reads: rank, nranks, local_rank and origin. */
int tt_boot_who(const struct tutti_config *config, const struct tt_env *env,
		struct tt_boot_params *params);

/* Closes listen_fd and wipes the secret, for params that are not passed to tt_boot_contact. */
void tt_boot_params_drop(struct tt_boot_params *params);

/*
 * The address on which this process will listen: that of TUTTI_IF; else loopback if the store is
 * on loopback; else the local address that reaches the store. With a boot directory, before the
 * store is known: the address of the default route. 127.0.0.1 for a single process.
 */
int tt_boot_local_addr(const struct tt_boot_params *params, char *addr, size_t size);

/*
 * Begins to contact rank 0 (at rank 0: listens) and returns at once. Once in contact, the end of
 * this process fails the start on all ranks. Takes over params->listen_fd. tt_boot_join or
 * tt_boot_refuse comes next.
 */
int tt_boot_contact(const struct tt_boot_params *params, struct tt_boot **boot);
/* Reports to the other ranks that this rank cannot take part (last error). Frees boot. */
void tt_boot_refuse(struct tt_boot *boot);
/*
 * Joins the job: collective over nranks; returns when the control tree stands. Messages may arrive
 * at once, so handlers are passed here. card is this rank's. Frees boot on failure.
 */
struct tt_boot_handlers {
	tt_ctl_fn *fn[TT_CTL_TYPES];
	tt_gone_fn *gone;
	bool (*busy)(void *arg); /* at rank 0: true while no rank may leave yet; may be NULL */
	void (*room)(void *arg); /* tt_ctl_send has failed and may work now; may be NULL */
	void *arg;
};
int tt_boot_join(struct tt_boot *boot, const struct tt_boot_handlers *handlers, const void *card,
		 size_t card_len);

/* Answers a TT_CTL_ASK with a text of at most TT_TOLD_MAX bytes; called from its handler. */
#define TT_TOLD_MAX (TT_CTL_MSG_MAX - 16)
void tt_boot_tell(struct tt_boot *boot, int to, const void *ask, const char *text, size_t len);

/* The job's nonce, which all its ranks know once they have joined, as 32 hexadecimal digits. */
#define TT_JOB_TEXT 33
void tt_boot_job(const struct tt_boot *boot, char text[TT_JOB_TEXT]);

/* Card and host name of any rank; valid until tt_boot_stop. */
const void *tt_boot_card(const struct tt_boot *boot, int rank, size_t *len);
const char *tt_boot_host(const struct tt_boot *boot, int rank);

/*
 * Queues a message to a rank or TT_CTL_ALL; from any thread, handlers included. Best effort once
 * ranks have failed. Messages between one pair of ranks arrive in order. 0, -EINVAL (too long),
 * -ENOMEM: once those that wait are sent, the handler room is called.
 */
int tt_ctl_send(struct tt_boot *boot, int to, enum tt_ctl_type type, const void *data, size_t len);

/*
 * Returns when the messages that this thread has queued are in the sockets to the neighbours, which
 * get them even if this process ends now; or after ms. Not with the locks of handlers.
 */
void tt_ctl_flush(struct tt_boot *boot, int64_t ms);

/* Whether rank has failed, and why; survivors converge on the same text. Any thread. */
bool tt_boot_gone(struct tt_boot *boot, int rank, char *why, size_t size);
/* The lowest live rank. */
int tt_boot_lowest(struct tt_boot *boot);
/* Declares rank failed on all ranks and cuts it off; it may be this rank. Any thread. */
int tt_boot_evict(struct tt_boot *boot, int rank, const char *why);
/* Sends heartbeats from a handler that has to wait. */
void tt_boot_beat(struct tt_boot *boot);
/*
 * The last time that this process could not run for TT_BOOT_STOPPED ns, as it was stopped: *from
 * then, until *until or now. false: it always ran. Any thread.
 */
#define TT_BOOT_STOPPED TT_SEC
bool tt_boot_stopped(const struct tt_boot *boot, uint64_t *from, uint64_t *until);
/* Whether this is the control thread, which handlers run in. */
bool tt_boot_is_control(const struct tt_boot *boot);

/*
 * An orderly end, collective: waits (up to deadline) until every live rank has called it, then
 * closes the links, so that leaving does not look like a failure. Frees everything. -ETIMEDOUT,
 * still freed, if a rank did not come.
 */
int tt_boot_stop(struct tt_boot *boot, uint64_t deadline);

#endif
