/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One process's part in bootstrap and control tree: its state, and the functions shared by its
 * files.
 */
#ifndef TT_CONTROL_H
#define TT_CONTROL_H

#include <pthread.h>
#include <stdatomic.h>

#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/boot/rendezvous/address.h"
#include "lib/boot/boot.h"
#include "lib/boot/rendezvous/link.h"

/* Frame types; see control_loop.c. */
enum tt_frame {
	TT_F_JOIN = 1,
	TT_F_PARENT,
	TT_F_ERROR,
	TT_F_DONE,
	TT_F_ENTRY,
	TT_F_READY,
	TT_F_GO,
	TT_F_BEAT,
	TT_F_MSG,
	TT_F_GONE,
	TT_F_BYE_UP,
	TT_F_BYE_DOWN,
	TT_F_AGAIN,
	TT_F_ASK, /* ras.h */
	TT_F_JOB,
	TT_F_TOLD,
	TT_F_ADMIT, /* admission.c */
	TT_F_CARD
};

enum tt_phase {
	TT_PH_JOIN, /* rank 0 collects, the other ranks join */
	TT_PH_TREE, /* tree links are being made, the table travels down */
	TT_PH_UP,
	TT_PH_BYE,  /* the end is agreed: links are emptied and closed */
	TT_PH_FAIL, /* the start failed: connected ranks receive the error */
	TT_PH_END
};

#define TT_SEEN 256
#define TT_REFUSE_MS 3000 /* for rank 0 to come and hear that this rank cannot take part */

struct tt_rank_info {
	char *host;
	unsigned char *card;
	uint16_t card_len;
	bool gone;   /* this and the next two: written by the control thread, under lock */
	int gone_by; /* the lowest rank that has reported it: its reason counts */
	char *gone_why;
	bool suspect;	       /* silent for a while; peer_watch.c */
	struct tt_addr listen; /* of rank 0: none, see tt_boot.store */
	struct tt_link *via;   /* the link over which it was last heard; NULL: not known */
	uint32_t seen; /* the number of its last message, and which of the preceding ones came */
	uint64_t seen_bits[TT_SEEN / 64];
	struct tt_link *join; /* this and the next: rank 0 only, during the start */
	bool joined;	      /* its card is here */
};

struct tt_child {
	struct tt_link *link;
	bool ready, bye;
	int below; /* with bye: ranks in its subtree, itself included */
};

/* Connects repeatedly until the deadline of the start. */
struct tt_dialer {
	bool active;
	enum tt_link_kind kind;
	int peer;
	struct tt_addr addrs[TT_ADDR_MAX];
	int n, i;
	unsigned pause_ms;
	uint64_t next_try;
	uint64_t until; /* after the start: the time at which the peer counts as failed */
	struct tt_link *link;
	char last[256]; /* why the last try failed */
};

#define TT_OUT_EVICT ((enum tt_ctl_type)0) /* not a message: evict `to`, for the reason in data */

struct tt_outmsg {
	struct tt_list node;
	int to;
	enum tt_ctl_type type;
	bool spare; /* of the largest size: is kept */
	size_t len;
	unsigned char data[];
};

struct tt_boot {
	struct tt_boot_params params;
	struct tt_boot_handlers handlers;
	struct tt_self self;
	int rank, nranks;
	bool solo; /* a single process: no thread */
	char host[64];
	struct tt_rank_info *ranks;
	struct tt_addr local; /* of the own listener; family 0: none */
	struct tt_addr store; /* rank 0 as this rank reached it */

	/* Shared by the threads, under lock. */
	pthread_t thread;
	_Atomic uint64_t ran; /* when this rank could last send a heartbeat; 0: not yet */
	_Atomic uint64_t stopped_from,
		stopped_until; /* when it could not for long, the last time */
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool started, failed;
	const void *card; /* of tt_boot_join, until the control thread has taken it */
	size_t card_len;
	bool refused_start; /* tt_boot_refuse was called, with unfit */
	bool stop;
	uint64_t stop_deadline;
	struct tt_list outbox;
	size_t outbox_bytes;
	uint64_t flush_asked, flush_done;  /* calls of tt_ctl_flush so far, and which are over */
	_Atomic(struct tt_outmsg *) spare; /* of the largest size; NULL: being sent */
	_Atomic(bool) no_room;		   /* a message has found no memory */
	bool delivering;		   /* solo */
	struct tutti_error_info error;
	struct tutti_error_info unfit; /* why this rank cannot take part */

	/* Used by the control thread only. */
	enum tt_phase phase;
	uint64_t flush_taken; /* calls whose messages have left the outbox */
	int epfd, wakefd, listenfd;
	bool listen_armed;
	bool entered;	       /* this rank's card is in the table */
	bool out_of_files;     /* during the start */
	uint64_t listen_again; /* after running out of descriptors */
	uint64_t start_deadline, drain_deadline, last_loop;
	uint64_t silent,
		doubt_until;  /* it could not for the limit: for how long; see tt_tree_found_gone */
	uint64_t ask_at;      /* when params.stop is called next */
	uint64_t replaced_at; /* rank 0: no other file was in the boot directory until then */
	char before[96]; /* rank 0: whose file was in the boot directory; empty: there was none */
	uint64_t beat_ns, limit_ns;
	struct tt_list links, graves;
	struct tt_list watches;
	int nwatches;
	bool watch_again; /* the set of watched ranks may have changed */
	struct tt_dialer dialer;
	struct tt_link *join; /* rank > 0: to rank 0 */
	struct tt_link *parent;
	struct tt_child
		*child; /* first the children by rank order, then, with gaps, adopted ones */
	int nchildren, njoined, npending;
	int ngone;
	struct tt_list held; /* messages for ranks that are between two parents */
	size_t held_bytes;
	bool hold_failed; /* and this rank has said so */
	uint32_t msg_seq;
	uint64_t unsettled; /* a neighbour was lost: wait until then */
	int nknown;	    /* entries [0, nknown) of ranks are valid */
	bool done;	    /* rank 0 has said that the tree stands */
	bool ready_sent, stopping;
	bool leave_held; /* all ranks could leave, but handlers.busy */
	int bye_said;	 /* ranks below, as reported to the parent; 0: not yet */
	int stop_result;
	int ras_fd, ras_key;  /* ras.c; -1: none */
	unsigned ras_clients; /* ever accepted */
	unsigned refused;     /* connections that failed authentication */
	char refused_text[128];
	char evicted[TT_GONE_WHY]; /* the reason why the other ranks have taken this rank for dead
				    */
};

/* control_loop.c */
/*
 * How much of the time since the last turn of the loop must not count as silence of its peers: this
 * process slept for asked ns of elapsed on purpose, and was stopped or starved for the rest. All
 * silence is excused (UINT64_MAX) after half the limit.
 */
uint64_t tt_ctl_excused(uint64_t elapsed, uint64_t asked, uint64_t limit);
/* The moment of the last sign of life, as if the last excused ns had not been. */
uint64_t tt_ctl_excuse(uint64_t then, uint64_t now, uint64_t excused);
/* This rank runs, and sends heartbeats. */
void tt_ctl_runs(struct tt_boot *b);
/* Whether it could not for the limit, a short time ago, and the others may have cut it off. */
bool tt_ctl_doubts(const struct tt_boot *b);
/* A heartbeat to a neighbour, which says whether this rank doubts; and one from it. */
void tt_ctl_beat(const struct tt_boot *b, struct tt_link *link);
void tt_ctl_heard(struct tt_boot *b, size_t len);
extern const struct tt_link_ops tt_ctl_link_ops;
void *tt_ctl_main(void *boot);
void tt_ctl_add_link(struct tt_boot *b, struct tt_link *link);

/* listener.c */
/* Watches a descriptor of b, whose address distinguishes its events from those of links. */
void tt_ctl_watch(struct tt_boot *b, int *fd, int op);
/*
 * Closing is not enough: a child process may also hold the socket, and its events must not arrive
 * here.
 */
void tt_ctl_unwatch(struct tt_boot *b, const struct tt_link *link);
/* Listens, for the first time or again after a shortage of descriptors. */
void tt_listen_timer(struct tt_boot *b, uint64_t now);
void tt_listen_accept(struct tt_boot *b);
void tt_listen_close(struct tt_boot *b);

/* start_end.c */
/*
 * Ends the start: for good, or with an error that all ranks receive (rank 0 tells all that have
 * joined; any other rank tells rank 0).
 */
void tt_start_done(struct tt_boot *b);
void tt_start_fail(struct tt_boot *b, int code, int rank, const char *host, const char *fmt, ...)
	TT_PRINTF(5, 6);
/* The same where this process has no memory for a connection: another try would end alike. */
void tt_start_no_memory(struct tt_boot *b);
/* The same with params.broken. */
void tt_start_refuse(struct tt_boot *b);
/* The request of the caller of the start: to join, or to report why this rank cannot. */
void tt_start_take_card(struct tt_boot *b);
/* Puts a shortage of descriptors into b->error: its peers would only see this rank missing. */
void tt_note_files(struct tt_boot *b);
void tt_send_error(const struct tutti_error_info *error, struct tt_link *link);

/* outbox.c: wakes the control thread */
void tt_ctl_wake(struct tt_boot *b);
/* Ends the calls of tt_ctl_flush whose messages have been sent. */
void tt_ctl_flushed(struct tt_boot *b);
/* A message is no longer needed. */
void tt_ctl_sent(struct tt_boot *b, struct tt_outmsg *msg);
void tt_ctl_room(struct tt_boot *b);

/* boot.c: fails with b->unfit if the start would run out of descriptors; so many are open. */
void tt_check_files(struct tt_boot *b, int open);

/* store.c: rank 0's collecting side */
/* Rank 0's own card is in the table. */
void tt_store_enter(struct tt_boot *b);
void tt_store_open(struct tt_boot *b, struct tt_link *link);
void tt_store_frame(struct tt_boot *b, struct tt_link *link, int type, const unsigned char *data,
		    size_t len);
void tt_store_lost(struct tt_boot *b, struct tt_link *link);
void tt_store_timeout(struct tt_boot *b, const char *who);
/* Rank 0 in a boot directory: ends the start if ranks are missing and find another rank 0 there. */
void tt_store_look(struct tt_boot *b, uint64_t now);
void tt_store_done(struct tt_boot *b);
bool tt_store_all_told(struct tt_boot *b);

/* join.c: the joining side, of all other ranks */
/* Enters the start at a rank other than 0. */
void tt_join_enter(struct tt_boot *b);
void tt_join_open(struct tt_boot *b, struct tt_link *link);
void tt_join_frame(struct tt_boot *b, struct tt_link *link, int type, const unsigned char *data,
		   size_t len);
void tt_join_lost(struct tt_boot *b, struct tt_link *link);
void tt_join_timeout(struct tt_boot *b);
struct tt_pack;
struct tt_unpack;
void tt_put_addr(struct tt_pack *k, const struct tt_addr *addr);
void tt_get_addr(struct tt_unpack *u, struct tt_addr *addr);
void tt_dial(struct tt_boot *b, enum tt_link_kind kind, int peer);
void tt_dial_timer(struct tt_boot *b, uint64_t now);
void tt_dial_lost(struct tt_boot *b, struct tt_link *link);

/* control_tree.c: the control tree */
void tt_tree_open(struct tt_boot *b, struct tt_link *link);
void tt_tree_frame(struct tt_boot *b, struct tt_link *link, int type, const unsigned char *data,
		   size_t len);
void tt_tree_lost(struct tt_boot *b, struct tt_link *link);
void tt_tree_step(struct tt_boot *b);
/* More of the table can be sent at once: no event will wake the thread for that. */
bool tt_tree_more(const struct tt_boot *b);
void tt_tree_beats(struct tt_boot *b, uint64_t now);
void tt_tree_send(struct tt_boot *b, const struct tt_outmsg *msg);
void tt_tree_leave(struct tt_boot *b);
struct tt_link *tt_tree_link(struct tt_boot *b, int rank);
void tt_tree_around(struct tt_boot *b, const struct tt_link *except, int type, const void *data,
		    size_t len);
int tt_tree_entry(struct tt_boot *b, int rank, const char *host, const void *card, size_t len);
/* reparent.c: failed ranks, and new places for ranks that have lost their parent */
void tt_tree_gone(struct tt_boot *b, const struct tt_link *from, int rank, int by, const char *why);
void tt_tree_say_gone(struct tt_boot *b, struct tt_link *to, const struct tt_link *except, int rank,
		      int by, const char *why);
void tt_tree_on_gone(struct tt_boot *b, struct tt_link *link, struct tt_unpack *u);
/* A link of the tree has ended after the start. */
void tt_tree_cut(struct tt_boot *b, struct tt_link *link);
/* A new link of the tree after the start: to a child (false: refused), or to a parent. */
bool tt_tree_adopt(struct tt_boot *b, struct tt_link *link);
void tt_tree_attached(struct tt_boot *b, struct tt_link *link);
/* The dialer gives up on a parent, or on this try: true to go on trying. */
bool tt_tree_dial_failed(struct tt_boot *b, int err, const char *why);
/* This rank finds by itself that another one is gone. */
void tt_tree_found_gone(struct tt_boot *b, int rank, const char *why);
void tt_tree_evict(struct tt_boot *b, int rank, const char *why);
/* Both ends of a new link send this, and then know the same. */
void tt_tree_tell_gone(struct tt_boot *b, struct tt_link *link);
/* Tells the other end of link that it was taken for dead. */
void tt_tree_turn_away(struct tt_boot *b, struct tt_link *link);
/* Keeps a message for future links, as it may not reach all its receivers. */
void tt_tree_hold(struct tt_boot *b, const void *frame, size_t len);
void tt_tree_settle(struct tt_boot *b, uint64_t now);
bool tt_tree_is_root(const struct tt_boot *b);
/* peer_watch.c: watching ranks that have no tree link to a rank that should notice their death */
void tt_watch_open(struct tt_boot *b, struct tt_link *link);
void tt_watch_frame(struct tt_boot *b, struct tt_link *link, int type, const unsigned char *data,
		    size_t len);
void tt_watch_lost(struct tt_boot *b, struct tt_link *link);
void tt_watch_timers(struct tt_boot *b, uint64_t now);
/* The time of the next check; at most next. */
uint64_t tt_watch_next(const struct tt_boot *b, uint64_t next);
/* Silence during the last excused ns does not count. */
void tt_watch_paused(struct tt_boot *b, uint64_t now, uint64_t excused);
void tt_watch_end(struct tt_boot *b);
/* "2, 5 and 17 more": the ranks for which test is true. */
void tt_rank_list(const struct tt_boot *b, bool (*test)(const struct tt_boot *, int), char *text,
		  size_t size);

#endif
