/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the processes of a job find each other, prove that they belong to it, and stay in touch.
 *
 * Rank 0 listens (the store). Every rank joins: mutual authentication, then a card (bytes that the
 * wire layer wants every other rank to be able to read). When all have joined, rank 0 tells
 * everybody where his parent listens, and the ranks form the control tree: complete, of arity
 * TT_CTL_ARITY, over authenticated TCP links, kept by one control thread per process. The table of
 * all cards travels down the tree. When it stands, the joins to rank 0 are closed. The tree
 * carries heartbeats and small messages from any rank to any rank or to all, and tells everyone
 * when a process is gone.
 */
#ifndef TT_BOOT_H
#define TT_BOOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tutti/comm.h>

#include "lib/base/env.h"
#include "lib/base/error.h"

#define TT_CTL_ARITY 8
#define TT_CTL_ALL (-1)	    /* to every rank, the sender too */
#define TT_CTL_MSG_MAX 4096 /* bytes of a message's payload */
#define TT_GONE_WHY 440	    /* bytes of the reason why a rank is gone */
#define TT_CARD_MAX 1024
/* Why a rank is gone that has finalized without the others. */
#define TT_GONE_LEFT "it waited in vain for the others at the end, and left"

struct tt_boot;

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
	TT_CTL_NODE,	 /* lib/engine: what works with the memory of the ranks of a host */
	TT_CTL_ASK,	 /* lib/api: a client wants to know what this rank is doing; ras.h */
	TT_CTL_TOLD,	 /* ... and what it says, to who asked; taken by lib/boot */
	TT_CTL_FAIL,	 /* lib/comm: a communicator has failed at one of its ranks */
	TT_CTL_ACCUSE,	 /* lib/comm, to the lowest rank: somebody can't be reached */
	TT_CTL_AGREE,	 /* lib/comm: agreement among those that live */
	TT_CTL_FENCED,	 /* lib/wire: the sender has closed its connection to the receiver */
	TT_CTL_GROW,	 /* lib/api: what has come of a call of tutti_comm_grow */
	TT_CTL_TYPES
};

typedef void tt_ctl_fn(void *arg, int from, const void *data, size_t len);
/*
 * A process is gone: rank, its host, and the reason as a sentence. Once per rank, on every
 * survivor. If it is this process's rank, the others have taken it for dead: it is cut off for
 * good.
 */
typedef void tt_gone_fn(void *arg, int rank, const char *host, const char *why);

/* Where rank, size, store, secret come from: worked out by tt_boot_discover. */
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
	char origin[48];    /* how they were found: "tutti_run", "torchrun", "config", "unique id",
			       "allgather callback", "directory", "single process" */
	char boot_dir[256]; /* TUTTI_BOOT_DIR: store and job are in a file there, found at start */
	char boot_name[96]; /* the launcher's job, TUTTI_JOB_ID: part of that file's name */
	bool nameless;	    /* nothing tells this job from others of its launcher */
	bool one_host;	    /* the launcher says that all ranks are on this host */
	bool boot_secret;   /* the secret is in that file, not from TUTTI_SECRET_* */
	bool gate; /* that file is the one of the gate, through which this process came; admission.h
		    */
	const struct tutti_error_info
		*broken; /* this rank can't take part, and only tells the others why */
	/* Asked now and then during the start, in the control thread: not 0, and its last error:
	 * fail. Or NULL. */
	int (*stop)(void *arg);
	void *stop_arg;
};

/*
 * From config (may be NULL) and environment: config.nranks with id or allgather; TUTTI_RANK and
 * friends (tutti_run); RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT (torchrun);
 * TUTTI_BOOT_DIR with rank and size, also as srun and the mpirun of Open MPI and MPICH tell them;
 * nothing of it: a single process. Errors say which variable is wrong and why.
 */
int tt_boot_discover(const struct tutti_config *config, const struct tt_env *env,
		     struct tt_boot_params *params);

/* For every end of params that tt_boot_start does not get: closes listen_fd, wipes the secret. */
void tt_boot_params_drop(struct tt_boot_params *params);

/*
 * The address this process will listen on and tell others: that of TUTTI_IF, else loopback when
 * the store is on loopback, else the local address that reaches the store; with a boot directory,
 * where no store is known yet, the one that reaches the world. 127.0.0.1 for a single process.
 */
int tt_boot_local_addr(const struct tt_boot_params *params, char *addr, size_t size);

/* This rank can't take part, because of the last error: tell the others. Takes over the parameters.
 */
void tt_boot_refuse(struct tt_boot_params *params);
/*
 * Join: collective over nranks; returns when the control tree stands. Handlers must be given here
 * as
 * messages may arrive at once. card is this rank's. Takes over params->listen_fd.
 */
struct tt_boot_handlers {
	tt_ctl_fn *fn[TT_CTL_TYPES];
	tt_gone_fn *gone;
	void *arg;
};
int tt_boot_start(const struct tt_boot_params *params, const struct tt_boot_handlers *handlers,
		  const void *card, size_t card_len, struct tt_boot **boot);

/*
 * Answer the question of a TT_CTL_ASK with a text of at most TT_TOLD_MAX bytes; from its handler.
 */
#define TT_TOLD_MAX (TT_CTL_MSG_MAX - 16)
void tt_boot_tell(struct tt_boot *boot, int to, const void *ask, const char *text, size_t len);

/* The job's nonce, which all its ranks know once they have joined, as 32 hexadecimal digits. */
#define TT_JOB_TEXT 33
void tt_boot_job(const struct tt_boot *boot, char text[TT_JOB_TEXT]);

int tt_boot_rank(const struct tt_boot *boot);
int tt_boot_size(const struct tt_boot *boot);
/* Card and host name of any rank; valid until tt_boot_stop. */
const void *tt_boot_card(const struct tt_boot *boot, int rank, size_t *len);
const char *tt_boot_host(const struct tt_boot *boot, int rank);

/*
 * Queue a message to a rank or TT_CTL_ALL; from any thread, handlers included. Best effort once
 * ranks are gone. Messages between one pair of ranks arrive in order. 0, -EINVAL (too long),
 * -ENOMEM.
 */
int tt_ctl_send(struct tt_boot *boot, int to, enum tt_ctl_type type, const void *data, size_t len);

/* Whether rank is gone, and why: in the end the same words on all survivors. Any thread. */
bool tt_boot_gone(struct tt_boot *boot, int rank, char *why, size_t size);
/* The lowest rank that is not gone. */
int tt_boot_lowest(struct tt_boot *boot);
/* Rank counts as gone from now on, on all ranks, and is cut off; it may be this one. Any thread. */
int tt_boot_evict(struct tt_boot *boot, int rank, const char *why);
/* For handlers that have to wait: send what keeps this process alive to the others. */
void tt_boot_beat(struct tt_boot *boot);
/* Whether this is the control thread, which handlers run in. */
bool tt_boot_is_control(const struct tt_boot *boot);

/*
 * An orderly end, collective: waits (up to deadline) until every rank has called it or is gone;
 * only then links are closed, so that nobody's leaving looks like a death. Then everything is
 * freed. -ETIMEDOUT, still freed, if some rank did not come.
 */
int tt_boot_stop(struct tt_boot *boot, uint64_t deadline);

#endif
