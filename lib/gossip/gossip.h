/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gossip over windows: mailboxes, pairs of ranks, and elastic averaging, composed of public calls.
 * Arguments have been checked by lib/api. No call keeps the wire lock.
 */
#ifndef TT_GOSSIP_H
#define TT_GOSSIP_H

#include <pthread.h>
#include <tutti/gossip.h>
#include <tutti/mem.h>
#include <tutti/request.h>

#include "lib/rma/rma.h"

#define TT_GOSSIP_LINE 64

/* A communicator of its own, which tolerates deaths, and a window on it. */
struct tt_gossip_base {
	struct tutti_comm *comm;
	struct tutti_win *win;
	char *mem; /* this rank's part */
};

struct tt_gossip_kind {
	const char *create, *owner, *free; /* its calls; owner: as for tutti_comm_set_owner */
};

/*
 * gossip_base.c. Collective: makes both, with size bytes of window, 0 to begin with. err: why this
 * rank cannot, which fails on all ranks.
 */
int tt_gossip_base_new(struct tutti_comm *comm, const struct tt_gossip_kind *kind, int err,
		       size_t size, struct tt_gossip_base *base);
/* Collective over the live ranks, which all have ended their operations on the window. */
int tt_gossip_base_free(struct tt_gossip_base *base, const char *call);
bool tt_gossip_dead(const struct tt_gossip_base *base, int rank);
/* Count and datatype must be the same on all ranks. */
int tt_gossip_agree(struct tutti_comm *comm, const char *call, size_t count, int datatype);
void tt_gossip_copied(const struct tt_gossip_base *base, size_t bytes);

/*
 * ---- mailboxes ----
 *
 * A slot has two buffers, each a head and a vector. Posts of its writer alternate between them, and
 * a post begins when the one before is in place, so one buffer is always whole. The bytes of a post
 * may come in any order. Only the checksum tells the reader that a buffer is whole.
 */
struct tt_gossip_head {
	uint64_t version; /* 0: empty */
	uint64_t sum;	  /* XXH3 of the vector, with the version as seed */
	uint64_t spare[6];
};
_Static_assert(sizeof(struct tt_gossip_head) == TT_GOSSIP_LINE, "a line");

struct tt_gossip_in {
	int rank;
	double weight;
	uint64_t used; /* version in the last mix */
	uint64_t last; /* version last used */
	bool dead;
};

struct tt_gossip_out {
	int rank;
	uint64_t at;		/* of this rank's slot in its window */
	uint64_t sent, version; /* how many posts, and which was the last */
	struct tutti_request *put;
	int staging; /* that put reads */
	bool dead;
};

struct tutti_gossip {
	volatile uint64_t magic; /* also when it is freed */
	struct tt_gossip_base base;
	size_t count, len, pitch; /* elements; bytes of a vector, and of a buffer */
	enum tutti_datatype datatype;
	pthread_mutex_t lock; /* one call at a time */
	int nin, nout;
	struct tt_gossip_in *in;
	struct tt_gossip_out *out;
	uint64_t version;
	char *staging; /* nout + 1 buffers of pool memory: one is always idle */
	int *users;    /* puts that read each */
	int newest;    /* which has the last post */
	char *copy;    /* of a slot */
	double *sum;
	struct tutti_gossip_state state;
};
#define TT_GOSSIP_MAGIC 0x7475676f73736970ull

/* Collective. err: what is wrong with this rank's config, which fails on all ranks. */
int tt_gossip_new(struct tutti_comm *comm, const struct tutti_gossip_config *config, int err,
		  struct tutti_gossip **gossip);
int tt_gossip_free(struct tutti_gossip *gossip);
/* gossip_post.c */
int tt_gossip_post(struct tutti_gossip *gossip, const void *x);
int tt_gossip_flush(struct tutti_gossip *gossip);
/* gossip_mix.c */
int tt_gossip_mix(struct tutti_gossip *gossip, void *x);

/* ---- pairs: a window of a rank is a line with its lock, then its vector ---- */

struct tutti_pair {
	volatile uint64_t magic; /* also when it is freed */
	struct tt_gossip_base base;
	size_t count, len;
	enum tutti_datatype datatype;
	pthread_mutex_t lock; /* one average at a time; guards what follows */
	char *room;	      /* pool memory for both vectors */
	uint64_t random;
	uint64_t averages;
	atomic_ullong waits, broken;
	/* of tutti_pair_lock */
	pthread_mutex_t hold;
	int held; /* the rank whose lock it has; -1 */
	pthread_t holder;
};
#define TT_PAIR_MAGIC 0x747570616972ull

/* err: as for tt_gossip_new. */
int tt_pair_new(struct tutti_comm *comm, size_t count, enum tutti_datatype datatype, int err,
		struct tutti_pair **pair);
int tt_pair_free(struct tutti_pair *pair);
int tt_pair_average(struct tutti_pair *pair, int rank, int *partner);
/* pair_lock.c: waits for the lock of rank's vector, and breaks it if its holder has died. */
int tt_pair_take(struct tutti_pair *pair, int rank, const char *call);
int tt_pair_give(struct tutti_pair *pair, int rank);
/* The same for the caller, until its thread calls tt_pair_release. */
int tt_pair_hold(struct tutti_pair *pair, int rank);
int tt_pair_release(struct tutti_pair *pair);
/* The error of a call that needs rank; names the call if rank has died. */
int tt_pair_error(const struct tutti_pair *pair, int rank, const char *call, int err);
/* Whether this thread has a lock. */
bool tt_pair_holds(struct tutti_pair *pair);
/* The rank whose lock any thread of this rank has; -1: none. */
int tt_pair_held(struct tutti_pair *pair);

/* elastic.c */
int tt_elastic_run(void *x, void *center, void *work, size_t count, enum tutti_datatype datatype,
		   double alpha, struct tutti_comm *comm);

#endif
