/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside the simulator.
 *
 *	sim.c		plans, lanes, rounds: what happens when
 *	sim_net.c	ports, uplinks and processors: how long it takes
 *	sim_queue.c	events in order of time; messages by name
 *	sim_node.c	steps and work in the memory of a host
 */
#ifndef TT_SIM_INT_H
#define TT_SIM_INT_H

#include "lib/base/hash_map.h"
#include "lib/verify/sim.h"

enum sim_what {
	SIM_START,  /* a rank begins: the lane's first round */
	SIM_OP,	    /* an op of the lane is over */
	SIM_LAUNCH, /* a message may leave its sender */
	SIM_UPLINK, /* its head is at its leaf's uplink */
	SIM_DOWN,   /* ... at the downlink of the receiver's leaf */
	SIM_HEAD,   /* ... at the receiver's port */
	SIM_LAND,   /* its last byte is there */
	SIM_STEP,   /* a signal has come to the other ranks of its host */
	SIM_WHATS
};

struct sim_event {
	double at;
	uint64_t order; /* events of one time happen in the order they were caused */
	enum sim_what what;
	uint32_t which; /* lane or message */
};

struct sim_queue {
	struct sim_event *heap;
	uint32_t n, cap;
	uint64_t order;
};

int tt_sim_push(struct sim_queue *q, double at, enum sim_what what, uint32_t which);
bool tt_sim_pop(struct sim_queue *q, struct sim_event *ev);

#define SIM_NONE UINT32_MAX

/* A message, from the first of its two ops to the last. */
struct sim_msg {
	int src, dst;
	uint32_t lane, index; /* its name, with the ranks (of which a mirror knows only one) */
	int from, to;	      /* where it really goes, set when it is sent */
	uint32_t send, recv;  /* lanes, SIM_NONE: not started yet */
	size_t len;
	double ready, posted; /* when the sender could send it, and the receiver take it */
	double left, head;    /* when its head left its sender, and is at the receiver's port */
	bool launched, landed, reduces;
	uint32_t next; /* of its list, or free */
};

struct sim_table {
	struct sim_msg *msg;
	struct tt_map first; /* by a mix of a name: the first message of a list */
	uint32_t cap, used, free;
};

/* The message of a name, made if there is none; SIM_NONE: no memory. */
uint32_t tt_sim_msg(struct sim_table *t, int src, int dst, uint32_t lane, uint32_t index);
void tt_sim_msg_free(struct sim_table *t, uint32_t m);

/* A lane that waits for a step. */
struct sim_wait {
	int rank, peer;
	uint32_t step, lane;
};

struct sim_steps {
	int nranks;
	const struct tt_hosts *hosts; /* NULL: all are on one */
	uint32_t *made, *seen;	      /* by rank: the step it has reached, and others know of */
	struct sim_wait *wait;
	uint32_t nwaits, cap;
};

int tt_sim_steps_init(struct sim_steps *steps, const struct tt_plan_args *args);
void tt_sim_steps_free(struct sim_steps *steps);
/* 1: it has been reached; 0: the lane waits; or -ENOMEM. */
int tt_sim_wait(struct sim_steps *steps, int rank, uint32_t lane, const struct tt_op *op);
/* The subject of SIM_STEP, for tt_sim_seen. */
uint32_t tt_sim_signal(struct sim_steps *steps, int rank, const struct tt_op *op);
void tt_sim_seen(struct sim_steps *steps, uint32_t signal);
/* A lane that need not wait any more, and does not; SIM_NONE: there is none. */
uint32_t tt_sim_woken(struct sim_steps *steps);
/* ns of processor that a pull or push takes. */
double tt_sim_node_work(const struct sim_steps *steps, const struct tt_model *model, int rank,
			const struct tt_op *op);

/* A resource that does one thing at a time; free from this time on. */
struct sim_net {
	const struct tt_model *model;
	bool mirror; /* one rank stands for all: it has one set of ports */
	int nranks;
	double *cpu;		   /* by rank */
	double *host_cpu;	   /* by host: all of its processors, if ranks share them */
	double *mem_out, *mem_in;  /* by rank, inside a host */
	double *nic_out, *nic_in;  /* by host and rail */
	double *uplink, *downlink; /* by leaf */
	double uplink_beta;	   /* of both */
	uint64_t random;
};

int tt_sim_net_init(struct sim_net *net, const struct tt_model *model, int nranks, bool mirror);
void tt_sim_net_free(struct sim_net *net);
/* Serve: the time from which `*free` is busy for `busy`; advances it. */
double tt_sim_serve(double *free, double now, double busy);
/* The same of rank's processor, which may be a slow one; returns when it is done. */
double tt_sim_compute(struct sim_net *net, int rank, double now, double busy);
/* Ports that a message passes. */
double *tt_sim_port_out(struct sim_net *net, const struct sim_msg *m);
double *tt_sim_port_in(struct sim_net *net, const struct sim_msg *m);
/* alpha of a message, with jitter. */
double tt_sim_alpha(struct sim_net *net, const struct sim_msg *m);

#endif
