/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transport fault: wraps another transport and, driven by a seed, misbehaves in every way that the
 * contract allows (late and reordered events, refused and postponed operations) and that networks
 * show (errors, death). shm and tcp are usually ordered and prompt, and so hide bugs of their
 * callers.
 */
#ifndef TT_FAULT_H
#define TT_FAULT_H

#include "lib/base/faults.h"
#include "lib/base/list.h"
#include "lib/wire/transport.h"

/* Counts of injected faults; equal for equal seeds and equal calls. */
struct fault_stats {
	uint64_t ops;	 /* accepted put, get, amo, msg */
	uint64_t again;	 /* refused here, not by the inner transport */
	uint64_t held;	 /* operations started late */
	uint64_t errors; /* endpoints failed on purpose */
	uint64_t events;
	uint64_t delayed, reordered;
	uint64_t flips; /* bits changed on their way */
};

struct fault_stats fault_get_stats(const struct tt_tp *tp);

struct fault_copy {
	struct fault_copy *next; /* in fault_tp.kept */
	struct tt_mr *mr;	 /* NULL: the inner transport wants none */
	unsigned char bytes[];
};

/*
 * An operation or an event on its way to the caller; an operation under way becomes its own DONE
 * event, so that nothing needs memory at the moment it completes.
 */
struct fault_node {
	struct tt_list link;
	struct tt_event ev;
	struct fault_ep *ep; /* NULL for NOTE */
	uint64_t key;	     /* place among the held events */
	uint64_t due;	     /* not before this moment ... */
	unsigned polls;	     /* ... and this many polls */
	struct fault_copy
		*copy; /* a put with a bit flipped carries this instead of the caller's bytes */
	unsigned char *flip; /* a get: the byte to change when all is there, and how */
	unsigned char flip_bit;
	union {
		unsigned char data[TT_TP_MSG_MAX]; /* of a MSG */
		struct {
			struct tt_rma rma;
			struct tt_rkey rkey;
			bool get;
		} op; /* of an operation that was accepted but not started yet */
	} u;
};

struct fault_tp {
	struct tt_tp tp;
	struct tt_tp_ops ops; /* with this wrapper's name */
	char name[32];
	struct tt_tp *inner;
	struct tt_faults spec;
	struct fault_stats stats;
	bool flipped;		      /* flip_after has had its operation */
	uint64_t rng_call, rng_event; /* apart, so that one does not shift the other */
	struct tt_list held;	      /* events, by key */
	struct tt_list started_late;  /* operations of spec.hold, not yet started */
	struct tt_list lent;	      /* MSGs whose data the caller may still read */
	struct tt_list spare;	      /* nodes to use again */
	unsigned nheld, nspare;
	struct fault_copy *kept; /* the inner transport may still read them until it is closed */
};

enum fault_state { FAULT_NEW, FAULT_UP, FAULT_DOWN };

struct fault_ep {
	struct tt_ep ep;
	struct tt_ep *inner;	 /* NULL once failed on purpose */
	enum fault_state state;	 /* as the caller knows it */
	bool failed;		 /* refuses everything; DOWN is on its way or delivered */
	struct tt_list ops;	 /* under way in the inner transport */
	struct fault_node *down; /* kept for the DOWN event */
};

static inline struct fault_tp *fault_tp_of(const struct tt_tp *tp)
{
	return tt_container(tp, struct fault_tp, tp);
}

static inline struct fault_ep *fault_ep_of(const struct tt_ep *ep)
{
	return tt_container(ep, struct fault_ep, ep);
}

/* True with probability p. */
bool fault_chance(uint64_t *rng, double p);

/* fault_events.c */
struct fault_node *fault_node_get(struct fault_tp *f, struct fault_ep *ep, enum tt_event_kind kind);
void fault_node_put(struct fault_tp *f, struct fault_node *node);
/* The event of node will be delivered, sooner or later. */
void fault_hold(struct fault_tp *f, struct fault_node *node);
/* End the endpoint as a broken link would: DONE for all of its operations, then DOWN. */
void fault_fail_ep(struct fault_tp *f, struct fault_ep *ep, struct fault_node *victim, int status);
/* Forget every operation and event of ep. */
void fault_drop_ep(struct fault_tp *f, struct fault_ep *ep);
void fault_drop_all(struct fault_tp *f);
int fault_poll(struct tt_tp *tp, struct tt_event *events, int max);
int fault_arm(struct tt_tp *tp, int *fd);

/* flip.c: let a bit of this operation arrive changed; false: there is no memory for it. */
bool fault_flip(struct fault_tp *f, struct fault_node *op, const struct tt_rma *rma, bool get,
		uint64_t rng);
/* A get is complete; its copy and registration, of a put, are given back by fault_node_put. */
void fault_flip_arrived(struct fault_node *op);
void fault_flip_free(struct fault_node *op);
/* Its endpoint is closed, which may not be the end of it: the copy stays. */
void fault_flip_keep(struct fault_tp *f, struct fault_node *op);
/* Closes the inner transport and frees its state. */
void fault_close_inner(struct fault_tp *f);

/* fault.c: start an operation that spec.hold kept back; as the slots of struct tt_ep_ops return. */
int fault_start(struct fault_ep *ep, struct fault_node *op, const struct tt_rma *rma, bool get);

#endif
