/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The conformance suite: what lib/wire/transport.h promises, checked on any transport, bare and
 * wrapped by transports/fault. All ends live in one process and are polled in turn by one thread;
 * every wait is bounded. main.c lists the configurations, net.c builds small networks of ends.
 */
#ifndef TT_CONFORM_H
#define TT_CONFORM_H

#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/wire/transport.h"
#include "tests/test.h"

#define WAIT_MS 15000
#define GUARD 4096u /* guard bytes before and after every region */
#define GUARD_BYTE 0xa5
#define RX_SIZE (5u << 20)
#define MSGS_MAX 4096

struct config {
	const char *name; /* of the test program: ofi_tcp */
	const char *transport;
	const char *ofi_ep, *ofi_provider;
	int verbs_qps;
	bool one_process; /* can't reach another process */
	bool strict;	  /* promises to answer a bad key or range with an error */
};

extern const struct config *config;
extern bool faulty;	  /* wrapped by transports/fault ... */
extern unsigned seed;	  /* ... with this seed */
extern unsigned timeouts; /* of the running test */

/*
 * A wait is patient until one of this test has failed; then a broken transport is not worth hours.
 */
static inline uint64_t wait_deadline(void)
{
	return tt_deadline_ms(!timeouts ? WAIT_MS : timeouts < 20 ? 100 : 0);
}

/* Registered memory between two guards. */
struct mem {
	uint8_t *map, *addr;
	size_t len;
	int fd; /* -1: private memory */
	struct tt_mr *mr;
};

struct node {
	struct tt_tp *tp;
	struct tt_tp_params params;
	struct mem tx, rx;
	void (*on_note)(struct node *node, uint32_t note);
	unsigned nnotes;
	uint32_t note; /* the last one */
	int id;
};

struct message {
	uint32_t len;
	uint8_t data[TT_TP_MSG_MAX];
};

/* One end of a connection; ep->user points here. */
struct link {
	struct node *node, *to;
	struct tt_ep *ep;
	uint8_t blob[TT_TP_BLOB_MAX];
	size_t blob_len;
	int up, down, status;
	char why[160]; /* it is down */
	struct message *msgs;
	unsigned nmsgs;
};

/* A pair: nodes 0 and 1, links 0 (0 to 1) and 1. With transport self both are the same. */
struct net {
	struct node node[3];
	struct link link[6];
	int nnodes, nlinks, turn;
};

/* An operation: where TT_EV_DONE is noted. */
struct op {
	int done, status;
	bool dead; /* its endpoint was closed: no event may come */
};

/* Everything opened, registered and connected, or a failed check and false. */
bool net_pair(struct net *net);
bool net_triangle(struct net *net);
/* Set a variable, or not (NULL), for the nets that are opened from now on; none may be open. */
void net_set(const char *name, const char *value);
/* The steps of the above. */
bool net_open(struct net *net, int nnodes);
bool net_link(struct net *net, int from, int to); /* two ends, not connected yet */
int net_connect(struct link *link, const struct link *peer, bool active);
bool net_up(struct net *net, int first); /* connect the pair of links first, first + 1 and wait */
void net_close(struct net *net);
void link_close(struct link *link);
/* The transport of this configuration; NULL: not compiled in. */
const struct tt_tp_ops *find_transport(void);
/* True if the transport can be had here; else the test was left as skipped. */
bool available(void);

bool mem_new(struct mem *mem, size_t len, bool memfd);
int mem_reg(struct mem *mem, struct tt_tp *tp);
int mem_reg_access(struct mem *mem, struct tt_tp *tp, unsigned access);
void mem_free(struct mem *mem);
void mem_check_guards(const struct mem *mem);
void fill(uint8_t *p, size_t len, uint64_t salt);

/* Poll one node, or all of them in changing order. */
void poll_node(struct net *net, struct node *node, int max);
void pump(struct net *net);
void pump_ms(struct net *net, int ms);

#define WAIT(net, cond)                                                                            \
	do {                                                                                       \
		uint64_t deadline_ = wait_deadline();                                              \
		while (!(cond) && !tt_passed(deadline_))                                           \
			pump(net);                                                                 \
		timeouts += !(cond);                                                               \
		TT_CHECK(cond);                                                                    \
	} while (0)

/* Start, polling while there is no room. Returns as the slot does, -ETIMEDOUT at the deadline. */
int put(struct net *net, struct link *link, const void *local, size_t len, void *remote,
	const struct tt_rkey *rkey, int64_t note, struct op *op); /* note < 0: none */
int get(struct net *net, struct link *link, void *local, size_t len, const void *remote,
	const struct tt_rkey *rkey, struct op *op);
int get_rma(struct net *net, struct link *link, const struct tt_rma *rma); /* user is a struct op */
int amo(struct net *net, struct link *link, enum tt_amo_op kind, uint64_t operand, uint64_t compare,
	uint64_t *result, void *remote, const struct tt_rkey *rkey, struct op *op);
int msg(struct net *net, struct link *link, const void *data, size_t len);
struct tt_rma rma_put(struct link *link, const void *local, size_t len, void *remote,
		      const struct tt_rkey *rkey, int64_t note, struct op *op);
/* The status of an operation of link; 0: success. */
int settle(struct net *net, struct op *op);

/* t_basic.c */
void test_wakes_sleeper(void);
void test_query(void);
void test_open_close(void);
void test_connect_orders(void);
void test_no_ops_before_up(void);
void test_close_any_state(void);
void test_close_drops_ops(void);
void test_close_is_a_fence(void);
void test_peer_close(void);
void test_missing_slots(void);
void test_arm(void);
void test_arm_behind(void);
/* t_data.c */
void test_put_sizes(void);
void test_note_values(void);
void test_zero_length(void);
void test_many_puts(void);
void test_flood_puts(void);
void test_get(void);
void test_get_head(void);
void test_amo(void);
void test_map(void);
/* t_more.c */
void test_msg_sizes(void);
void test_msg_flood(void);
void test_triangle(void);
void test_reg_cycles(void);
void test_user_memory(void);
void test_bounds(void);
void test_stale_key(void);
void test_read_only(void);
void test_read_only_map(void);
/* t_keys.c */
void test_wrong_keys(void);

#endif
