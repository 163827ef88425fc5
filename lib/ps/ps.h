/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parameter server, see tutti_ps(7) and doc/ARCHITECTURE.md.
 *
 * Every rank exposes a mailbox: a server's has slots into which workers put messages, a worker's
 * has the answers and the clock. Every table is also a window: a server's part holds its blocks,
 * each in several slots, and a directory that names the current slot; a worker's part holds copies
 * of the directories, its hints.
 *
 * The worker's side runs under the wire lock. The server's side is one thread: struct tt_ps_server
 * and struct tt_ps_store are its own, and it takes the lock for what bells and operations also use.
 */
#ifndef TT_PS_H
#define TT_PS_H

#include <stdio.h>
#include <tutti/mem.h>
#include <tutti/ps.h>

#include "lib/base/hash_map.h"
#include "lib/codec/codec.h"
#include "lib/engine/engine.h"
#include "lib/ps/message.h"
#include "lib/rules/rule.h"
#include "lib/rma/rma.h"

#define TT_PS_ROW_BLOCK 4096
#define TT_PS_BLOCK_SLOTS 2
#define TT_PS_REPLICAS 4 /* of a server, its primary included */
#define TT_PS_THREADS 64
#define TT_PS_VERSIONS 16  /* most slots of options.versions */
#define TT_PS_WEIGHT 65535 /* maximum; a sum of weights has 32 bits */
#define TT_PS_NAME 64

/* ---- tables ---- */

/* Where a table's parts are; equal on all ranks. */
struct tt_ps_part {
	uint64_t begin, elems; /* dense: elements of the table; rows: room for elems / width rows */
	uint64_t blocks;
	uint64_t hint;	/* offset of the directory's copy at a worker */
	uint64_t cache; /* essp: offset of the memory for what the server sends */
};

struct tt_ps_task;
struct tt_ps_store;    /* a server's side of a table */
struct tt_ps_cache;    /* essp: what a worker is sent */
struct tt_ps_versions; /* whole versions */
struct tt_ps_budget;   /* managed bandwidth */
struct tt_ps_feedback; /* what a codec leaves out of a worker's pushes */

/* Updates accumulated until they are applied or sent. */
struct tt_ps_sum {
	char *sums;	   /* NULL: nothing is accumulated */
	uint64_t *touched; /* bits: elements, or rows */
};

struct tt_ps_row_units {
	struct tt_map units; /* by key */
	uint64_t *key;	     /* by unit */
	uint32_t n;
};

#define TT_PS_MAGIC 0x54755073u
#define TT_PS_TABLE_MAGIC 0x54755074u

struct tutti_ps_table {
	volatile unsigned magic; /* also when it is freed */
	struct tutti_ps *ps;
	uint32_t index;
	char name[TT_PS_NAME];
	bool rows;
	bool moved; /* moved by a resize, and not made again since */
	enum tutti_datatype datatype;
	size_t elem, width; /* bytes; elements of a row, 1 for a dense table */
	uint64_t count;	    /* elements, or most rows */
	struct tutti_ps_options opt;
	struct tutti_codec *coder; /* of pushes: opt.codec, or for what is significant; or NULL */
	size_t pitch;		   /* bytes of an element, or of a published row with its version */
	size_t block_elems, block_pitch; /* whole rows; bytes of a slot with its head */
	size_t coded_rows; /* most rows of an encoded message; 0: rows are not encoded */
	size_t coded;	   /* bytes of a slot for the encoded copy, before the data; 0: none */
	struct tt_ps_part *part; /* by server */
	struct tutti_win *win;
	char *mem; /* of this rank: as a server directory and blocks, then as a worker hints */
	size_t size, hints; /* hints: offset of the worker's part */
	size_t dirs;	    /* size of all servers' directories, by replica number */
	struct tt_ps_store
		*store[TT_PS_REPLICAS]; /* of the servers on this rank; NULL: not a server */
	uint32_t *cache_token;		/* essp, by rank: first of a worker's bells */
	uint32_t *sub_token; /* by rank and copy, of TT_PS_REPLICAS each: of a server's */

	/* a worker's */
	struct tt_ps_track *track; /* by server */
	struct tt_map places;	   /* of keys. TT_PS_UNSEEN: for pushes only so far */
	struct tutti_ps_read last;
	bool exact;		   /* pulls do not read encoded copies */
	uint64_t taus, answered;   /* of pushes */
	struct tt_ps_cache *cache; /* by server; NULL: not essp */
	bool has_cache;
	uint32_t my_cache; /* token of its first bell */
	char *relay;	   /* memory that is sent to other workers, and of what is asked of them */
	struct tt_ps_sum accrued;	     /* n_push > 1: updates not sent yet */
	struct tt_ps_row_units accrued_rows; /* the keys of rows in accrued */
	uint64_t fetch_period,
		fetch_clock;	     /* n_fetch > 1: the last period, from 1, and when it fetched */
	struct tt_map fetched;	     /* rows: the clock of the last fetch, its lower 31 bits */
	struct tt_ps_budget *budget; /* NULL: pushes are sent at once */
	struct tt_ps_feedback *feedback; /* NULL: pushes are not encoded */
	struct tt_ps_versions *versions; /* NULL: without options.versions */
};

/* A worker's knowledge of a server's blocks. */
struct tt_ps_track {
	uint64_t *floor;   /* by block: older publications are not accepted */
	uint64_t *seen;	   /* word of the newest publication that was read */
	uint32_t *pending; /* pushes without an answer yet */
	uint32_t *version; /* ~ of the one that was pulled last, by block, or by row; 0: none was.
			      NULL: rows without */
};

/* ---- the worker's side ---- */

struct tt_ps_task;

/* A slot at a server, seen from the worker. */
struct tt_ps_back_bell {
	struct tt_bell bell;
	struct tt_ps_link *link;
	struct tt_ps_out *out; /* NULL: the note */
	int copy;	       /* of the server, that rings */
	bool rung;
};

struct tt_ps_out {
	struct tt_ps_back_bell bell[TT_PS_REPLICAS]; /* the answer is here */
	struct tt_ps_link *link;
	const void *payload; /* payload with its own bell; kept until the answer if there are
				replicas */
	bool busy;	     /* not answered yet */
	uint64_t number;
	struct tt_ps_task *task;  /* informed of the answer, or NULL */
	struct tt_ps_task *owner; /* of the puts */
	struct tt_win_end end;
	int puts;      /* under way */
	char *staging; /* head, and copied payloads */
};

struct tt_ps_link {
	struct tutti_ps *ps;
	int index, rank;  /* of the server; its rank */
	int copy;	  /* the replica that serves: how many of the server's ranks have failed */
	bool lost, ready; /* the rank has failed and operations to it are under way; a replica has
			     said that it serves */
	uint64_t sent;
	uint64_t ticks; /* clocks and good-byes, of ps->ticks, that it has been told */
	struct tt_ps_out out[TT_PS_SLOTS];
	struct tt_ps_back_bell note[TT_PS_REPLICAS];
	uint64_t min_clock;
	uint64_t dropped;	    /* elements of this worker's pushes that came too late */
	uint64_t slowest, missing;  /* as the server reported them; see struct tt_ps_note */
	uint64_t said, seen, heard; /* notes and answers so far; those at the last look, and when a
				       new one came: shutdown.c */
	bool ended;
};

/* The functions of a kind of call, run under the lock. All but advance may be NULL. */
struct tt_ps_task_ops {
	/*
	 * Goes on with the call: in its turn until it has called tt_ps_task_sent, then after every
	 * event until it has called tt_ps_task_end.
	 */
	void (*advance)(struct tt_ps_task *task);
	/* A server's answer, before advance. */
	void (*answered)(struct tt_ps_task *task, struct tt_ps_out *out,
			 const struct tt_ps_credit *credit, const void *data);
	void (*release)(struct tt_ps_task *task); /* frees what the task owns */
};

/* A call under way; embedded at the start of the call's own structure. */
struct tt_ps_task {
	struct tutti_request r;
	struct tutti_ps *ps;
	struct tutti_ps_table *table; /* or NULL */
	const char *call;
	struct tt_stalled stalled;
	struct tt_list queue; /* of ps: by priority, then in the order of the calls */
	const struct tt_ps_task_ops *ops;
	void (*seen)(struct tt_ps_task *task); /* on success, run by the caller's thread without the
						  lock; may be NULL */
	bool sent;			       /* its turn to send is over */
	bool cancelled;
	size_t size;	   /* of its memory */
	int rank;	   /* world rank that status is about; -1: none */
	bool broken;	   /* its communicator fails, which ends the task */
	int puts, answers; /* waited for */
	uint64_t clock;	   /* of the call */
	int status;
	char why[400];
};

struct tt_ps_server;

struct tutti_ps {
	volatile unsigned magic; /* also when it is freed */
	/*
	 * Duplicates of the user's communicator. Windows and calls use comm, which survives failed
	 * workers; collective calls such as making a table use coll, which does not.
	 */
	struct tutti_comm *comm, *coll;
	int role, staleness;
	int nworkers, nservers, copies;
	int backup;	       /* workers whose updates a clock can do without */
	int *worker, *server;  /* ranks in comm */
	bool *lost;	       /* by server: its first rank has failed; under the lock */
	bool *worker_lost;     /* by worker, likewise */
	uint64_t *host;	       /* by rank: host number, equal on one host */
	int relay;	       /* essp: subscribers of a block that its server sends to itself */
	int parents, children; /* TT_PS_PARENTS and TT_PS_CHILDREN; 0: no relaying */
	atomic_bool relaying;  /* this worker relays */
	bool parted;	       /* all workers have left: this rank acknowledges no batch any more */
	bool helped;	       /* a progress thread runs: callers compute between clocks */
	bool read_away; /* a pull found nothing in this rank's own memory and read at the server;
			   under the lock */
	int my_worker, my_server;	 /* index, -1: is none */
	uint32_t *in_token, *back_token; /* by rank: first of a server's, of a worker's bells */
	uint64_t generation;
	uint64_t grace_ns;
	bool verify; /* messages and blocks have checksums */
	struct tutti_win *win;
	char *box;
	size_t box_back; /* where the worker's part begins */
	char *staging;	 /* not exposed */
	uint32_t my_in, my_back;
	bool bells; /* a server's have tokens */

	struct tutti_ps_table *table[TT_PS_TABLES];
	atomic_uint ntables;
	uint64_t *load; /* by server: bytes of values */
	uint32_t *upto; /* by server: prefix sums of weights; see placement.c */

	struct tt_ps_link *link; /* by server; NULL: no worker */
	uint64_t clock;
	uint64_t ticks;		   /* clocks and good-byes of this worker so far */
	struct tt_list queue;	   /* tasks that have not finished sending */
	size_t window;		   /* bytes under way to a server, and from it, that stop the next
				      block, as some table has a priority; 0: none has */
	struct tt_ps_units *units; /* free list */
	bool pumping;
	int tasks; /* tasks that exist */
	uint64_t meetings;
	int dead;    /* failed ranks */
	int status;  /* of a refused push that no call has reported yet: tt_ps_refusal */
	int refuser; /* world rank */
	char why[300];
	FILE *trace;
	int *trace_id; /* by worker: of its trace; NULL: its index */
	int trace_ids; /* trace numbers given out so far */

	/* resize.c */
	bool inherits;	     /* its tables get their values from another */
	const bool *present; /* by worker: takes part in the current resize; NULL: no resize */
	atomic_bool resting,
		calm; /* servers here are asked to report that they are idle; they are idle */
	atomic_bool last_pushes; /* of workers that leave in a resize: handled as they come */

	struct tt_ps_server *srv[TT_PS_REPLICAS]; /* of this rank: its own server, then its replicas
						  of others; NULL: not a server */
};

/*
 * Replicas are placed in a circle: replica c of server k is on the rank of server k + c. The live
 * replica of the lowest number is the primary. Returns the server whose own rank has this replica.
 */
static inline int tt_ps_host(const struct tutti_ps *ps, int server, int copy)
{
	return (server + copy) % ps->nservers;
}

/* The first live replica from `copy` on; -1: none. Under the lock. */
static inline int tt_ps_living(const struct tutti_ps *ps, int server, int copy)
{
	for (; copy < ps->copies; copy++)
		if (!ps->lost[tt_ps_host(ps, server, copy)])
			return copy;
	return -1;
}

/*
 * mailbox.c: starts a put with a note, under the lock. It ends at once with the error if it cannot
 * be started.
 */
void tt_ps_put(struct tutti_win *win, int rank, const void *from, size_t len, uint64_t to,
	       uint32_t token, struct tt_win_end *end);
/* Offsets in the mailbox, and its bells: */
size_t tt_ps_box_size(const struct tutti_ps *ps);
size_t tt_ps_box_in(const struct tutti_ps *ps, int copy, int worker, int slot);
/*
 * The slot for what the previous replica passes on; the word in which replica `after` acknowledges
 * it.
 */
size_t tt_ps_box_log(const struct tutti_ps *ps, int copy, int worker, int slot);
size_t tt_ps_box_ack(const struct tutti_ps *ps, int copy, int after);
/* The bells of those slots, from in_token on. */
int tt_ps_bell_in(const struct tutti_ps *ps, int copy, int worker, int slot, int payload);
int tt_ps_bell_log(const struct tutti_ps *ps, int copy, int worker, int slot);
int tt_ps_bell_ack(const struct tutti_ps *ps, int copy, int after);
int tt_ps_bells(const struct tutti_ps *ps);
/*
 * Offsets from the start of the worker's part, and its bells from back_token on. slot TT_PS_SLOTS:
 * the note
 */
size_t tt_ps_box_credit(const struct tutti_ps *ps, int server, int copy, int slot);
int tt_ps_bell_credit(const struct tutti_ps *ps, int server, int copy, int slot);
/* Start of the worker's part of the mailbox; depends on the rank's role. */
size_t tt_ps_box_back(const struct tutti_ps *ps, int rank);
int tt_ps_box_open(struct tutti_ps *ps);
void tt_ps_box_close(struct tutti_ps *ps);

/*
 * placement.c: split count units of `bytes` bytes so that load, by server, becomes level for its
 * weight; begin has n + 1 entries. upto: prefix sums of the weights.
 */
void tt_ps_place(const uint64_t *load, const uint32_t *upto, int n, uint64_t count, uint64_t bytes,
		 uint64_t *begin);
/* The server of a key; how many of `rows` rows a server must have room for. */
int tt_ps_key_server(const uint32_t *upto, int n, uint64_t key);
uint64_t tt_ps_key_room(const uint32_t *upto, int n, int server, uint64_t rows);

static inline int tt_ps_server_of(const struct tutti_ps *ps, uint64_t key)
{
	return tt_ps_key_server(ps->upto, ps->nservers, key);
}

/* A row's place in a map of keys, or TT_PS_NOWHERE, as which TT_MAP_NONE reads in 32 bits. */
static inline uint32_t tt_ps_key_place(const struct tt_map *places, uint64_t key)
{
	return (uint32_t)tt_map_find(places, key);
}
/*
 * update_sum.c: row units, numbered in the order in which their keys are met; at most the table's
 * number of rows.
 */
int tt_ps_row_units_new(const struct tutti_ps_table *t, struct tt_ps_row_units *met);
void tt_ps_row_units_free(struct tt_ps_row_units *met);
int tt_ps_row_units_find(const struct tutti_ps_table *t, struct tt_ps_row_units *met, uint64_t key,
			 uint32_t *unit);
void tt_ps_row_units_clear(struct tt_ps_row_units *met);

/* table_layout.c: layout and memory of a table's part on this rank, without what ranks exchange. */
int tt_ps_table_new(struct tutti_ps *ps, const struct tutti_ps_table *like,
		    struct tutti_ps_table **table);
void tt_ps_table_free(struct tutti_ps_table *table);
/*
 * Report that this rank lacks memory for the table: the need and the limit. err: of an allocation
 * that has set the error, else 0.
 */
int tt_ps_no_memory(const struct tutti_ps_table *t, uint64_t need, int err);
/* A row exists from the end of the clock that first pushed it, like all pushes under BSP. */
static inline bool tt_ps_rows_late(const struct tutti_ps_table *t)
{
	return t->opt.init == TUTTI_PS_UNSET && !t->ps->staleness;
}
/*
 * worker_clock.c: with backup workers, waits until the servers have answered this worker's pushes,
 * as the answer says whether the push was dropped.
 */
int tt_ps_await_drops(struct tutti_ps *ps, const char *call);
/* table_match.c */
bool tt_ps_same_table(const struct tutti_ps_table *a, const struct tutti_ps_table *b);
/* Collective: all ranks make this table, or all fail, naming the rank and what differs. */
int tt_ps_agree_table(struct tutti_ps *ps, const struct tutti_ps_table *like);
/* Offsets in a server's part. */
static inline uint64_t tt_ps_dir_at(uint64_t block)
{
	return block * sizeof(uint64_t);
}
/* Rows are published with their versions, and pushed with the versions that were pulled. */
static inline bool tt_ps_row_versions(const struct tutti_ps_table *t)
{
	return t->rows && t->opt.staleness_aware;
}
/* Bytes in front of the rows of a TT_PS_PUSH_ROWS. */
static inline size_t tt_ps_rows_head(const struct tutti_ps_table *t, size_t count)
{
	return (count * sizeof(uint32_t) * (tt_ps_row_versions(t) ? 2 : 1) + 7) / 8 * 8;
}
/* Rows that fit into a message as they are. */
static inline size_t tt_ps_rows_fit(const struct tutti_ps_table *t)
{
	return (TT_PS_BLOCK - 8) / (tt_ps_rows_head(t, 2) / 2 + t->width * t->elem);
}
/* Forget all pulled versions of a worker. */
void tt_ps_forget_versions(struct tutti_ps_table *t);
size_t tt_ps_dir_size(const struct tutti_ps_table *t, int server);
uint64_t tt_ps_slot_at(const struct tutti_ps_table *t, int server, uint64_t block, unsigned slot);
/* Where a server's part begins in the memory of the rank that has this replica. */
uint64_t tt_ps_base_at(const struct tutti_ps_table *t, int server, int copy);
/* Where a worker's hints begin in a rank's part: behind its part as a server. */
uint64_t tt_ps_hints_at(const struct tutti_ps_table *t, int rank);

/* table_store.c, publish.c: a server's values and their publication */
int tt_ps_store_new(struct tutti_ps_table *t, int copy);
void tt_ps_store_free(struct tt_ps_store *store);
uint32_t tt_ps_acks(const struct tutti_ps_table *t, int copy); /* essp: token of its first bell */

/*
 * initial_values.c: initial values of count elements; first is the element's index or the row's
 * key.
 */
void tt_ps_fill(const struct tutti_ps_table *t, void *value, uint64_t first, size_t count);

/* essp_cache.c: essp, the worker's side; under the lock but for the first three */
enum tt_ps_where {
	TT_PS_HERE,   /* it has been copied to where it goes */
	TT_PS_COMING, /* it will be sent */
	TT_PS_AWAY    /* it has to be read */
};

struct tt_ps_unit;

uint64_t tt_ps_cache_size(const struct tutti_ps_table *t, int server);
int tt_ps_cache_new(struct tutti_ps_table *t);
void tt_ps_cache_free(struct tutti_ps_table *t);
/* Have a block sent from now on; the second call tells the servers. 0, or -EAGAIN. */
void tt_ps_cache_want(struct tutti_ps_table *t, int server, uint64_t block);
int tt_ps_cache_ask(struct tt_ps_task *task);
/* This publication of the block, which has a push of this worker's, will be sent. */
void tt_ps_cache_own(struct tutti_ps_table *t, int server, uint64_t block, uint64_t sequence);
enum tt_ps_where tt_ps_cached(struct tt_ps_unit *u);
/* A server's answer to a subscription; by_others: feeder says who sends each block. */
void tt_ps_cache_told(struct tutti_ps_table *t, struct tt_ps_link *link, const uint32_t *block,
		      uint32_t count, const uint32_t *feeder, bool by_others);
/* The next replica of a server has taken over. */
void tt_ps_cache_moved(struct tutti_ps *ps, int server);

/* essp_relay.c: relaying between workers; under the lock */
void tt_ps_relay_lost(struct tutti_ps *ps, int worker);
/*
 * All workers have said good-bye: ask no worker for anything more. Then: all ranks know, in both
 * directions.
 */
void tt_ps_relay_leave(struct tutti_ps *ps);
bool tt_ps_relay_left(void *ps);
/* Up to max ranks of the world for which it is not true; returns how many. */
int tt_ps_relay_awaited(const struct tutti_ps *ps, int *ranks, int max);

/* rule.c: apply an update; see there. state: NULL where the rule has none. step counts from 1. */
size_t tt_ps_state_size(enum tutti_datatype datatype);
void tt_ps_apply(const struct tutti_ps_table *t, void *value, const void *update, void *state1,
		 void *state2, size_t count, uint64_t step);

/* server.c */
int tt_ps_server_new(struct tutti_ps *ps);
int tt_ps_server_start(struct tutti_ps *ps);
void tt_ps_server_stop(struct tutti_ps *ps);
int tt_ps_server_restart(struct tutti_ps *ps); /* after it was stopped */
void tt_ps_server_free(struct tutti_ps *ps);
/* A rank has failed. true: the other ranks can go on. Under the lock. */
bool tt_ps_lost(void *ps, int rank);
/*
 * Under the lock: all workers have said good-bye and have been told so; nothing is under way to
 * them.
 */
bool tt_ps_server_done(struct tutti_ps *ps);

/*
 * worker_call.c: calls under way. A new task of `size` bytes of 0, and `more` bytes behind them.
 * Takes the wire lock, and keeps it if it returns 0.
 */
int tt_ps_task_new(struct tutti_ps *ps, struct tutti_ps_table *table, const char *call,
		   const struct tt_ps_task_ops *ops, size_t size, size_t more,
		   struct tt_ps_task **task);
/* Both release the lock that tt_ps_task_new took. The first frees a task that was not started. */
void tt_ps_task_drop(struct tt_ps_task *task);
/*
 * Hands the task to the caller as *request, or frees it if it cannot start. request NULL: waits for
 * its end.
 */
int tt_ps_task_start(struct tt_ps_task *task, struct tutti_request **request);
void tt_ps_units_free(struct tutti_ps *ps); /* block_read.c */
/* It has sent its messages: the next task's turn. */
static inline void tt_ps_task_sent(struct tt_ps_task *task)
{
	task->sent = true;
	tt_list_del(&task->queue);
}
void tt_ps_task_end(struct tt_ps_task *task);
void tt_ps_task_stall(struct tt_ps_task *task); /* advance is tried again by every progress */
/* Record the task's first failure, which it ends with. Returns status. */
int tt_ps_task_fail(struct tt_ps_task *task, int status, const char *fmt, ...) TT_PRINTF(3, 4);
/* A pull has its turn behind it and has not ended; under the lock. */
bool tt_ps_pulling(const struct tutti_ps *ps);
/* A pull of a table of higher priority has reads under way; under the lock. */
bool tt_ps_reads_above(const struct tutti_ps *ps, int priority);
/* All servers have reported that all workers have said good-bye; under the lock. */
bool tt_ps_servers_ended(const struct tutti_ps *ps);
/*
 * The first refusal of a push that no call has reported yet; it counts as reported from now on.
 * Returns 0, or an error with its text. Under the lock.
 */
int tt_ps_refusal(struct tutti_ps *ps);
/* A put or get on the server of this rank failed. */
void tt_ps_task_broken(struct tt_ps_task *task, int rank, int status);

/*
 * worker_waits.c: as tt_request_ops.waits and awaits, under the lock. Without it: sets the last
 * error, with the first server that has not answered this worker; returns -ETIMEDOUT.
 */
int tt_ps_task_waits(const struct tt_ps_task *task, char *buf, size_t size);
int tt_ps_task_awaits(const struct tt_ps_task *task, int *ranks, int max);
int tt_ps_fail_unanswered(const struct tutti_ps *ps, const char *text);

/* server_link.c: messages to servers, under the lock */
void tt_ps_pump(struct tutti_ps *ps);
/* A free slot, or NULL. */
struct tt_ps_out *tt_ps_out_get(struct tt_ps_link *link);
/*
 * payload NULL: msg.len bytes are already behind the head in out->staging. answer: the task waits
 * for it.
 */
void tt_ps_send(struct tt_ps_task *task, struct tt_ps_out *out, struct tt_ps_msg msg,
		const void *payload, bool answer);
/* XXH3 of a message, with order and sum as 0, and of its payload. */
uint64_t tt_ps_msg_sum(const struct tt_ps_msg *msg, const void *payload);
void tt_ps_credit_ring(struct tt_bell *bell);
void tt_ps_note_ring(struct tt_bell *bell);
/* The rank of a link may have failed: go on with the next replica. */
void tt_ps_link_step(struct tt_ps_link *link);
/* An operation to a server's rank failed: 0 if a replica will take over. */
int tt_ps_link_failed(struct tt_ps_task *task, struct tt_ps_link *link, int status);
uint64_t
tt_ps_lowest_clock(const struct tutti_ps *ps); /* the lowest clock that all servers have told */
/* Accept nothing older than sequence for block from now on. */
void tt_ps_floor(struct tutti_ps_table *t, int server, uint64_t block, uint64_t sequence);
/* This worker's copy of a directory's word. */
_Atomic uint64_t *tt_ps_hint(const struct tutti_ps_table *t, int server, uint64_t block);

/*
 * shutdown.c: the end. Wait, without the lock, until done() (true also when ps->comm has failed). A
 * server that stays silent towards a worker fails ps->comm.
 */
void tt_ps_await_servers(struct tutti_ps *ps, bool (*done)(void *), void *arg);
/* As struct tutti_comm.awaits, of a rank in tutti_ps_close, and of its servers; arg is ps. */
int tt_ps_awaits(void *arg, int *ranks, int max);
/*
 * departure.c: of the servers on this rank, once a worker has said good-bye, and not in the middle
 * of a message, which may take long. Under the lock.
 */
int tt_ps_server_awaits(const struct tutti_ps *ps, int *ranks, int max);
/* No worker relays to this one any more, or gets anything relayed by it; else ps->comm fails. */
int tt_ps_await_relays(struct tutti_ps *ps);
/* All live ranks have finished, so no rank needs anything here. */
int tt_ps_last_meeting(struct tutti_ps *ps);

/* table_range.c: a range of a dense table, taken from all servers in turn */
struct tt_ps_range {
	int at, n;
	uint64_t *next; /* by server, elements of its part; then n ends */
};
size_t tt_ps_range_size(const struct tutti_ps_table *t); /* bytes of next */
void tt_ps_range_set(const struct tutti_ps_table *t, uint64_t offset, uint64_t count,
		     uint64_t *next, struct tt_ps_range *range);
/* The next server with something left, from range->at on; -1: none. */
int tt_ps_range_server(struct tt_ps_range *range);

/* row_places.c: a call's row keys, and what is known of their places; under the lock */
struct tt_ps_places {
	const uint64_t *keys;
	size_t n;
	bool create, push;
	uint64_t need;	/* a clock's new rows are known after it: this one has to be over */
	size_t *cursor; /* by server: keys that were looked at; 0 again once all places are known */
};
size_t tt_ps_places_size(const struct tutti_ps_table *t); /* bytes of cursor */
void tt_ps_places_set(const struct tt_ps_task *task, struct tt_ps_places *places,
		      const uint64_t *keys, size_t n, bool push, size_t *cursor);
/* The key's place as far as this worker knows, or TT_PS_NOWHERE. */
uint32_t tt_ps_place_of(const struct tutti_ps_table *t, const struct tt_ps_places *places,
			uint64_t key);
/* 0: all places are known; -EAGAIN: not yet; other: the task has failed with it. */
int tt_ps_places_ask(struct tt_ps_task *task, struct tt_ps_places *places);
void tt_ps_places_told(struct tt_ps_task *task, const struct tt_ps_places *places,
		       struct tt_ps_out *out, const struct tt_ps_credit *credit, const void *data);

/*
 * push.c, pull.c, worker_clock.c: the calls, checked by lib/api. *request is started; request NULL:
 * the call waits.
 */
int tt_ps_push(struct tutti_ps_table *t, const void *buf, uint64_t offset, uint64_t count,
	       const char *call, struct tutti_request **request);
/* Waits. values may be update. */
int tt_ps_push_pull(struct tutti_ps_table *t, const void *update, void *values, uint64_t offset,
		    uint64_t count, const char *call);
/* All elements; waits. */
int tt_ps_set(struct tutti_ps_table *t, const void *values, const char *call);
enum tt_ps_push_kind {
	TT_PS_PUSH_UPDATES,  /* encoded if the table has a codec */
	TT_PS_PUSH_FIRST,    /* the table's first */
	TT_PS_PUSH_HELD,     /* what is held back of the range, as it is; buf is not used */
	TT_PS_PUSH_UNCHANGED /* where the block has not changed since it was pulled */
};
/* Pieces of a range, each within a block. */
struct tt_ps_pieces {
	size_t n;
	struct tt_ps_piece {
		uint64_t offset, count;
	} * piece;
};
/* The next two neither accumulate nor wait for a budget. */
int tt_ps_push_now(struct tutti_ps_table *t, const void *buf, uint64_t offset, uint64_t count,
		   enum tt_ps_push_kind kind, const char *call, struct tutti_request **request);
/*
 * Waits. Pieces whose blocks have changed since they were pulled are not applied: *refused has room
 * for all pieces of the range.
 */
int tt_ps_push_unchanged(struct tutti_ps_table *t, const void *buf, uint64_t offset, uint64_t count,
			 struct tt_ps_pieces *refused, const char *call);
/*
 * whole_version.c: the window of a table's versions is made by all ranks, after the table's own,
 * and dropped before the memory is freed. The calls wait.
 */
int tt_ps_versions_check(const struct tutti_ps_table *t);
int tt_ps_versions_open(struct tutti_ps_table *t);
void tt_ps_versions_drop(struct tutti_ps_table *t);
void tt_ps_versions_free(struct tutti_ps_table *t);
int tt_ps_push_version(struct tutti_ps_table *t, const void *values, uint64_t *version);
int tt_ps_pull_version(struct tutti_ps_table *t, void *values, uint64_t *version);
/* ps_elastic.c: the elastic average of x with the values; waits. */
int tt_ps_elastic(struct tutti_ps_table *t, void *x, uint64_t offset, uint64_t count, double alpha,
		  const char *call);
int tt_ps_push_rows_now(struct tutti_ps_table *t, const uint64_t *keys, size_t n, const void *buf,
			const char *call, struct tutti_request **request);
/* Rows of which something is held back, as it is; waits. */
int tt_ps_push_rows_held(struct tutti_ps_table *t, const uint64_t *keys, size_t n,
			 const char *call);
int tt_ps_pull(struct tutti_ps_table *t, void *buf, uint64_t offset, uint64_t count,
	       const char *call, struct tutti_request **request);
int tt_ps_push_rows(struct tutti_ps_table *t, const uint64_t *keys, size_t n, const void *buf,
		    const char *call, struct tutti_request **request);
int tt_ps_pull_rows(struct tutti_ps_table *t, const uint64_t *keys, size_t n, void *buf,
		    const char *call, struct tutti_request **request);
/* held_back.c: push what is held back; describe it. */
int tt_ps_flush(struct tutti_ps_table *t, const char *call);
void tt_ps_held(struct tutti_ps_table *t, struct tutti_ps_held *held);
uint64_t tt_ps_next_clock(struct tutti_ps *ps);
int tt_ps_clock(struct tutti_ps *ps, uint64_t clock, const char *call,
		struct tutti_request **request);
int tt_ps_bye(struct tutti_ps *ps, struct tutti_request **request);

/*
 * rpc.c: a message to the servers from one to another; answered by a reply of each. payload is
 * copied; what each server replied is in reply, by server.
 */
struct tt_ps_ask {
	enum tt_ps_kind kind;
	uint64_t first;
	int from, to;
	const void *payload;
	size_t len, step; /* step: from one server's payload to the next's; 0: the same for all */
	struct tt_ps_reply *reply;
	const char *call;
};
int tt_ps_ask(struct tutti_ps *ps, const struct tt_ps_ask *ask, struct tutti_request **request);

/* ps_trace.c: TUTTI_PS_TRACE; under the lock */
int tt_ps_trace_open(struct tutti_ps *ps, const char *prefix);
/*
 * The trace of a worker that goes on. The first two are for a worker that begins in a resize, which
 * may still fail.
 */
int tt_ps_trace_join(struct tutti_ps *ps, const char *prefix);
void tt_ps_trace_undo(struct tutti_ps *ps, const char *prefix);
void tt_ps_trace_on(struct tutti_ps *ps, struct tutti_ps *old);
static inline int tt_ps_trace_id(const struct tutti_ps *ps, int worker)
{
	return ps->trace_id ? ps->trace_id[worker] : worker;
}
void tt_ps_trace_close(struct tutti_ps *ps);
void tt_ps_trace_write(struct tutti_ps *ps, const char *fmt, ...) TT_PRINTF(2, 3);
/* held_back.c: what each table's pushes have held back, at this clock. */
void tt_ps_trace_held(struct tutti_ps *ps, uint64_t clock);
/* Without a trace the arguments are not evaluated. */
#define tt_ps_trace(ps, ...)                                                                       \
	do {                                                                                       \
		if ((ps)->trace)                                                                   \
			tt_ps_trace_write(ps, __VA_ARGS__);                                        \
	} while (0)

/*
 * worker_call.c: a worker may call. tt_ps_check_calls reports a push that a server has refused
 * since, and failed ranks; tt_ps_check_worker does both.
 */
int tt_ps_check_role(const char *call, struct tutti_ps *ps);
/* Neither NULL nor freed. */
int tt_ps_check(const char *call, const struct tutti_ps *ps);
int tt_ps_check_table(const char *call, const struct tutti_ps_table *t);
int tt_ps_check_calls(struct tutti_ps *ps);
int tt_ps_check_worker(const char *call, struct tutti_ps *ps);

#endif
