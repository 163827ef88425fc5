/* SPDX-License-Identifier: BSD-3-Clause */
/* A job's start and end, and collective operations on its communicators. */
#ifndef TT_JOB_H
#define TT_JOB_H

#include <tutti/tutti.h>

#include "lib/engine/vote.h"
#include "lib/plan/tune.h"

/* Values that must be equal on all ranks, taken from rank 0. */
struct tt_agreed {
	uint64_t chunk;
	int32_t lanes, node;
	int32_t checksum;
	int32_t tune; /* TT_TUNE_*: whether there is a tuning table */
	char algo[256];
	int32_t tolerant; /* the world is */
	int32_t pad;
};
_Static_assert(sizeof(struct tt_agreed) == 288, "doc/WIRE.md");
/*
 * env_job.c. Before a job that the environment describes is joined: -EBUSY if this process is in
 * it. And when ctx ends; tried: it has tried to join.
 */
int tt_env_job_enter(struct tutti_context *ctx, const struct tutti_config *config);
void tt_env_job_leave(struct tutti_context *ctx, bool tried);

/*
 * This rank's part of a communicator that all ranks of world make; NULL: no memory. A rank that
 * cannot make its part fails the communicator on all ranks: the result may have failed already, or
 * fails soon.
 */
int tt_comm_make(struct tutti_context *ctx, const int *world, int n,
		 const struct tt_comm_kind *kind, const char *call, struct tutti_comm **comm);
/*
 * The same in two steps. begin waits for nothing. finish waits; ready, which is called again until
 * it is true, is called under the lock.
 */
int tt_comm_begin(struct tutti_context *ctx, const int *world, int n,
		  const struct tt_comm_kind *kind, const char *call, struct tutti_comm **comm);
void tt_comm_finish(struct tutti_comm *comm, const char *call);
bool tt_comm_ready(struct tutti_comm *comm, const char *call);
/* Plan cache, chooser and the memory of its host, which is still to be shared. */
int tt_comm_equip(struct tutti_comm *comm, const struct tt_agreed *agreed);
/* Renews both for a communicator without requests, after a change of agreed or ctx->tune. */
int tt_comm_choose(struct tutti_comm *comm, const struct tt_agreed *agreed);
/* The context's communicator of this rank alone, made at the first use. */
int tt_comm_self(struct tutti_context *ctx, struct tutti_comm **self);
void tt_comm_strip(struct tutti_comm *comm);
/* comm_subset.c: ranks of comm, listed, or from first on at distances of stride */
struct tt_comm_subset {
	const int *ranks; /* NULL: a range */
	int nranks, first, stride, tag;
	unsigned flags;
};
int tt_comm_subset(struct tutti_comm *comm, const struct tt_comm_subset *subset,
		   struct tutti_comm **newcomm);
/* The call was refused here, before it counted. */
void tt_comm_group_refused(struct tutti_comm *comm, int code);
void tt_comm_forget_subsets(struct tutti_comm *comm);
/* Frees comm now, or with its last request and window: calls on it fail from now on. */
void tt_comm_free(struct tutti_comm *comm);
/* -EBUSY while a partial all-reduce of comm has a carry on this rank; else 0. */
int tt_comm_carries(struct tutti_comm *comm, const char *call);
/* Frees what has been left to the last use. Under the lock. */
void tt_comm_reap(struct tutti_context *ctx);
int tt_agreed_get(struct tutti_context *ctx, struct tt_agreed *agreed);

/*
 * tuning_table.c: reads the file at rank 0; then distributes the part about the job's hosts, and
 * uses it.
 */
enum { TT_TUNE_NONE, TT_TUNE_READ };
int tt_tune_read(struct tutti_context *ctx, struct tt_tunes *tunes);
/* The names of the job's hosts, as written in tables. */
int tt_tune_job_hosts(struct tutti_context *ctx, char *hosts, size_t size);
int tt_tune_share(struct tutti_context *ctx, const struct tt_agreed *agreed,
		  const struct tt_tunes *tunes);

/* init.c: logs nothing. start: for a job that grows out of another; NULL: for the user's own */
struct tt_start {
	int64_t timeout_ms;
	const struct tt_env *env; /* whose options the new job has */
	int (*stop)(void *arg);	  /* as in struct tt_boot_params */
	void *arg;
};
int tt_init(const struct tutti_config *user, const struct tt_start *start,
	    struct tutti_context **out);

/* grow.c: the handler of TT_CTL_GROW, and of a failed rank */
void tt_grow_msg(void *ctx, int from, const void *data, size_t len);
void tt_grow_again(struct tutti_context *ctx);

/* finalize.c: -EBUSY if requests or windows are left */
int tt_finalize(struct tutti_context *ctx);
/* The context has no users left: leaves the job and frees what belonged to it. */
int tt_job_leave(struct tutti_context *ctx, uint64_t deadline, struct tutti_error_info *late);
void tt_job_close_wire(struct tutti_context *ctx);
/* split.c: color is 0 or more, or TUTTI_UNDEFINED */
struct tt_comm_part {
	int color, key;
	unsigned flags; /* enum tutti_comm_flags */
	const char *call;
	enum tt_inner inner; /* the same call, blocking */
};
/* A request, which sets *newcomm at its end. */
int tt_comm_isplit(struct tutti_comm *comm, const struct tt_comm_part *part,
		   struct tutti_comm **newcomm, struct tutti_request **req);
/* survive.c */
int tt_comm_failed(struct tutti_comm *comm, struct tutti_failed *list, int max);
int tt_comm_ack_failed(struct tutti_comm *comm, const struct tutti_failed *list, int n);
void tt_comm_state(struct tutti_comm *comm, struct tutti_comm_state *state);
void tt_comm_revoke(struct tutti_comm *comm);
int tt_comm_shrink(struct tutti_comm *comm, struct tutti_comm **newcomm);
/* grow.c: timeout_ms 0: TUTTI_INIT_TIMEOUT */
int tt_comm_grow(struct tutti_comm *comm, int nranks, int timeout_ms,
		 struct tutti_context **newctx);

#endif
