/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of lib/api share: checks of arguments, with one sentence each. */
#ifndef TT_API_H
#define TT_API_H

#include <tutti/tutti.h>

#include "lib/engine/engine.h"
#include "lib/plan/tune.h"

/* 0, or -EINVAL: NULL, freed, or no communicator at all. */
int tt_check_comm(const struct tutti_comm *comm);
int tt_check_ctx(const struct tutti_context *ctx);
/* check_call.c: 0 and the call as the engine wants it, or why it can't be made. */
int tt_check_call(const struct tutti_comm *comm, struct tt_call *call);
/* coll_calls.c: check a call, then run it to its end; or start it; or make it a persistent request. */
int tt_call_run(struct tutti_comm *comm, struct tt_call *call);
/* Here, so that the call is made where it is used, and not copied. */
static inline int tt_coll_run(struct tutti_comm *comm, struct tt_call call)
{
	return tt_call_run(comm, &call);
}
int tt_coll_start(struct tutti_comm *comm, struct tt_call call, struct tutti_request **request);
int tt_coll_init(struct tutti_comm *comm, struct tt_call call, struct tutti_request **request);
/* A buffer of count elements; name is the call, for the text. */
int tt_check_data(const char *name, const void *buf, size_t count, enum tutti_datatype datatype);

/* launch.c: every new request that is not persistent goes through the first of these, under the wire lock: it is started, or
 * joins the thread's open group; on failure it is freed. Blocking forms end with the second. */
int tt_request_launch(struct tutti_request *req);
int tt_request_finish(struct tutti_request **req);
bool tt_group_is_open(void); /* by this thread */
/* 0, or -EINVAL inside a group: for calls that wait. */
int tt_group_refuse(const char *name);

/* rma_calls.c: a window on comm, made by collectives on coll, which has the same ranks; and its end without waiting for others. */
int tt_win_make(struct tutti_comm *comm, struct tutti_comm *coll, void *base, size_t size,
		unsigned flags, struct tutti_win **out);
void tt_win_drop(struct tutti_win *win);

/* ps_calls.c: a worker's call can be made; or a push that a server has refused since is told. */
int tt_ps_check_worker(const char *call, struct tutti_ps *ps);

/* The values that must be equal on all ranks, as rank 0 has them. */
struct tt_agreed {
	uint64_t chunk;
	int32_t lanes, node;
	int32_t checksum;
	int32_t tune; /* TT_TUNE_*: has it a measured table? */
	char algo[256];
};
_Static_assert(sizeof(struct tt_agreed) == 280, "doc/WIRE.md");
/*
 * This rank's part of a communicator that all ranks of world make; NULL: there was no memory for it. Ranks that can't
 * make theirs put it into failure at all: it may come out failed, or does soon.
 */
int tt_comm_make(struct tutti_context *ctx, const int *world, int n, uint32_t id, uint64_t uid,
		 const char *call, struct tutti_comm **comm);
/* Plan cache and chooser of a new communicator. */
int tt_comm_equip(struct tutti_comm *comm, const struct tt_agreed *agreed);
/* The same anew, for a communicator without requests: agreed, or ctx->tune, has changed. */
int tt_comm_choose(struct tutti_comm *comm, const struct tt_agreed *agreed);
void tt_comm_strip(struct tutti_comm *comm);
int tt_agreed_get(struct tutti_context *ctx, struct tt_agreed *agreed);

/* tuning_table.c: read the file, at rank 0; then let all have what is about the job's hosts, and use it. */
enum { TT_TUNE_NONE, TT_TUNE_READ, TT_TUNE_BAD };
int tt_tune_read(struct tutti_context *ctx, struct tt_tunes *tunes);
/* The names of the job's hosts, as tables have them. */
int tt_tune_job_hosts(struct tutti_context *ctx, char *hosts, size_t size);
int tt_tune_share(struct tutti_context *ctx, const struct tt_agreed *agreed,
		  const struct tt_tunes *tunes);

/* init.c: tutti_init, that logs nothing. start: of a job that grows out of another; NULL: of the user's */
struct tt_start {
	int64_t timeout_ms;
	int (*stop)(void *arg); /* as in struct tt_boot_params */
	void *arg;
};
int tt_init(const struct tutti_config *user, const struct tt_start *start, struct tutti_context **out);

/* survive.c: agreement among the ranks of comm that live, until TUTTI_TIMEOUT; left_out: bits by rank, or NULL */
int tt_vote(struct tutti_comm *comm, const char *call, struct tt_ballot *ballot,
	    unsigned char *left_out);
/* This rank was cut off, or the job aborted: nobody will answer. */
bool tt_out_of_it(const struct tutti_comm *comm);
int tt_why_out(const struct tutti_comm *comm); /* then: the error */
/* grow.c: of TT_CTL_GROW; and a rank is gone */
void tt_grow_msg(void *ctx, int from, const void *data, size_t len);
void tt_grow_again(struct tutti_context *ctx);

/* vote.c: every rank's `mine`, of so many 64-bit words, in `all`, by rank. */
int tt_exchange(struct tutti_comm *comm, const void *mine, void *all, size_t words);
/*
 * Whether all ranks have got so far; else all of them fail, with the error of the lowest that has not. What failed
 * here is told already.
 */
int tt_agree(struct tutti_comm *comm, const char *call, int mine);
/* The same, by a rank that waits as long as no other has come: of those that have, one has a deadline, and tells all. */
int tt_agree_patient(struct tutti_comm *comm, const char *call, int mine);

#endif
