/* SPDX-License-Identifier: BSD-3-Clause */
/* Conformance: devices, opening, connecting, sleeping, closing. */
#include "tests/conform/conform.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void test_query(void)
{
	const struct tt_tp_ops *ops;
	struct tt_tp_device dev[16];
	struct net net;
	int n, i;

	if (!net_open(&net, 1))
		return;
	ops = faulty ? NULL : net.node[0].tp->ops;
	n = ops ? ops->query(&net.node[0].params, dev, 16) : 0;
	TT_CHECK(faulty || n > 0);
	for (i = 0; i < n && i < 16; i++) {
		TT_CHECK(dev[i].name[0] && memchr(dev[i].name, 0, sizeof(dev[i].name)));
		TT_CHECK(dev[i].why[0] && memchr(dev[i].why, 0, sizeof(dev[i].why)));
		TT_CHECK(dev[i].gbps >= 0 && dev[i].numa >= -1);
	}
	if (n > 1) {
		memset(dev, 0x5a, sizeof(dev));
		TT_CHECK(ops->query(&net.node[0].params, dev, 1) == n);
		TT_CHECK(dev[1].name[0] == 0x5a); /* no more than asked for */
	}
	TT_CHECK(net.node[0].tp->detail[0] != 0);
	net_close(&net);
}

static int count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

void test_open_close(void)
{
	struct net net;
	int before = 0, i;

	for (i = 0; i < 10; i++) {
		if (i == 2) /* a library's process-wide memory is allocated by now */
			before = count_fds();
		if (!net_open(&net, 2))
			return;
		if (i % 2) {
			TT_CHECK(net_link(&net, 0, 1));
			TT_CHECK(net_up(&net, 0));
		}
		net_close(&net);
	}
	TT_CHECK(count_fds() == before);
	if (count_fds() != before)
		printf("  %d descriptors before, %d after\n", before, count_fds());
}

/* Which end is active, which calls ep_connect first, which is polled first. */
static void connect_once(int how)
{
	struct net net;
	struct link *x, *y;
	bool x_active = how & 1;
	int i;

	if (!net_open(&net, 2))
		return;
	if (!net_link(&net, 0, 1)) {
		net_close(&net);
		return;
	}
	x = &net.link[how >> 1 & (net.nlinks > 1)];
	y = &net.link[(how >> 1 & 1) ^ 1 ? net.nlinks - 1 : 0];
	TT_CHECK(!net_connect(x, y, x_active || x == y));
	for (i = 0; how & 4 && i < 50; i++)
		poll_node(&net, x->node, 8);
	if (x != y)
		TT_CHECK(!net_connect(y, x, !x_active));
	for (i = 0; how & 8 && i < 50; i++)
		poll_node(&net, y->node, 8);
	WAIT(&net, x->up && y->up);
	TT_CHECK(x->up == 1 && y->up == 1 && !x->down && !y->down);
	net_close(&net);
}

void test_connect_orders(void)
{
	int how;

	for (how = 0; how < 16; how++)
		connect_once(how);
}

static void try_early(struct link *l)
{
	static struct op op; /* should it be accepted after all */
	struct tt_rma rma =
		rma_put(l, l->node->tx.addr, 8, l->to->rx.addr, &l->to->rx.mr->rkey, 1, &op);

	if (l->up)
		return;
	TT_CHECK(l->ep->ops->put(l->ep, &rma) == -EAGAIN);
	TT_CHECK(l->ep->ops->get(l->ep, &rma) == -EAGAIN);
	TT_CHECK(l->ep->ops->msg(l->ep, "x", 1) == -EAGAIN);
}

void test_no_ops_before_up(void)
{
	struct net net;
	struct link *x, *y;
	int i;

	if (!net_open(&net, 2))
		return;
	if (!net_link(&net, 0, 1)) {
		net_close(&net);
		return;
	}
	x = &net.link[0];
	y = &net.link[net.nlinks - 1];
	try_early(x);
	TT_CHECK(!net_connect(x, y, true));
	if (x != y) {
		for (i = 0; i < 20; i++) {
			try_early(x);
			poll_node(&net, x->node, 8);
		}
		try_early(y);
		TT_CHECK(!net_connect(y, x, false));
	}
	try_early(x);
	WAIT(&net, x->up && y->up);
	pump_ms(&net, 20); /* enough time for an early message to arrive */
	TT_CHECK(!x->node->nnotes && !y->node->nnotes && !x->nmsgs && !y->nmsgs);
	net_close(&net);
}

#define ALIVE 0x600d0000u

static unsigned nalive;

static void count_alive(struct node *node, uint32_t note)
{
	nalive += note == ALIVE;
}

/* The connection works: one put each way. Notes of earlier connections may still come in. */
static void check_alive(struct net *net, int first)
{
	struct op op;
	int i;

	for (i = 0; i < net->nnodes; i++)
		net->node[i].on_note = count_alive;
	for (i = 0; i < (net->nnodes == 1 ? 1 : 2); i++) {
		struct link *l = &net->link[first + i];

		nalive = 0;
		TT_CHECK(put(net, l, l->node->tx.addr, 64, l->to->rx.addr, &l->to->rx.mr->rkey,
			     ALIVE, &op) >= 0);
		TT_CHECK(!settle(net, &op));
		WAIT(net, nalive == 1);
	}
}

/* Close one end, or both, at a certain stage; then connect anew between the same transports. */
static void close_at(int stage, bool other_too)
{
	struct net net;
	struct link *x, *y;
	int i;

	if (!net_open(&net, 2))
		return;
	if (!net_link(&net, 0, 1))
		goto out;
	x = &net.link[0];
	y = &net.link[net.nlinks - 1];
	if (stage >= 1)
		TT_CHECK(!net_connect(x, y, true));
	for (i = 0; stage >= 2 && i < 10; i++)
		poll_node(&net, x->node, 8);
	if (stage >= 3 && x != y)
		TT_CHECK(!net_connect(y, x, false));
	for (i = 0; stage >= 4 && i < 3; i++)
		pump(&net);
	if (stage >= 5)
		WAIT(&net, x->up && y->up);
	link_close(stage & 1 ? x : y);
	if (other_too && x != y)
		link_close(stage & 1 ? y : x);
	pump_ms(&net, 5);
	link_close(x);
	link_close(y);
	net.nlinks = 0;
	TT_CHECK(net_link(&net, 0, 1) && net_up(&net, 0));
	check_alive(&net, 0);
out:
	net_close(&net);
}

void test_close_any_state(void)
{
	int stage;

	for (stage = 0; stage < 6; stage++) {
		close_at(stage, false);
		close_at(stage, true);
	}
}

#define UNDER_WAY 64
#define PIECE 65536u

static void start_many(struct link *l, struct op *op)
{
	int i;

	for (i = 0; i < UNDER_WAY; i++) {
		struct tt_rma rma =
			rma_put(l, l->node->tx.addr, PIECE, l->to->rx.addr + i % 64 * PIECE,
				&l->to->rx.mr->rkey, 7, &op[i]);
		int rc = l->ep->ops->put(l->ep, &rma);

		op[i].done = rc != TT_STARTED;
		op[i].dead = rc != TT_STARTED;
	}
}

void test_close_drops_ops(void)
{
	struct op op[UNDER_WAY];
	struct net net;
	int i;

	if (!net_pair(&net))
		return;
	start_many(&net.link[0], op);
	for (i = 0; i < UNDER_WAY; i++)
		op[i].dead = true; /* from here on no event of theirs */
	link_close(&net.link[0]);
	pump_ms(&net, 20);
	for (i = 0; i < net.nlinks; i++)
		link_close(&net.link[i]);
	net.nlinks = 0;
	TT_CHECK(net_link(&net, 0, 1) && net_up(&net, 0));
	pump_ms(&net, 5);
	check_alive(&net, 0);
	net_close(&net);
}

/* The peer of the endpoint that was closed goes on writing; nothing may change any more. */
void test_close_is_a_fence(void)
{
	struct op op[UNDER_WAY], late[200];
	uint8_t *before;
	struct net net;
	struct link *l;
	int i;

	if (!net_pair(&net))
		return;
	if (net.nnodes == 1) {
		net_close(&net);
		TT_SKIP("there is no peer");
	}
	if (net.node[0].tp->caps & TT_CAP_LATE_WRITES) {
		net_close(&net);
		TT_SKIP("TT_CAP_LATE_WRITES: deregistration is the fence");
	}
	before = malloc(RX_SIZE);
	l = &net.link[0];
	fill(l->node->tx.addr, PIECE, 3);
	start_many(l, op);
	poll_node(&net, l->node, 4);
	link_close(&net.link[1]);
	memcpy(before, l->to->rx.addr, RX_SIZE);
	fill(l->node->tx.addr, PIECE, 4);
	for (i = 0; i < 200; i++) {
		struct tt_rma rma =
			rma_put(l, l->node->tx.addr, PIECE, l->to->rx.addr + i % 64 * PIECE,
				&l->to->rx.mr->rkey, 8, &late[i]);

		if (!l->down)
			l->ep->ops->put(l->ep, &rma);
		pump(&net);
	}
	pump_ms(&net, 20);
	TT_CHECK(!memcmp(before, l->to->rx.addr, RX_SIZE));
	net_close(&net);
	free(before);
}

/* The peer goes away: if DOWN is reported, every operation was reported before. */
void test_peer_close(void)
{
	uint64_t deadline = tt_deadline_ms(1000);
	struct op op[UNDER_WAY];
	struct net net;
	struct link *l;
	int i, undone = 0;

	if (!net_pair(&net))
		return;
	if (net.nnodes == 1) {
		net_close(&net);
		TT_SKIP("there is no peer");
	}
	l = &net.link[0];
	start_many(l, op);
	for (i = 0; i < UNDER_WAY; i++)
		op[i].dead = false;
	link_close(&net.link[1]);
	while (!l->down && !tt_passed(deadline)) {
		pump(&net);
		/* connectionless providers learn it from the next operation */
		if (net.turn % 100 == 0)
			l->ep->ops->msg(l->ep, "x", 1);
	}
	for (i = 0; i < UNDER_WAY; i++)
		undone += !op[i].done;
	TT_CHECK(!l->down || !undone);
	for (i = 0; l->down && i < 3; i++) {
		struct tt_rma rma = rma_put(l, l->node->tx.addr, 8, l->to->rx.addr,
					    &l->to->rx.mr->rkey, 8, &op[0]);
		int rc = l->ep->ops->put(l->ep, &rma);

		TT_CHECK(rc < 0 && rc != -EAGAIN);
	}
	if (!l->down)
		printf("  note: %s does not report that its peer has gone\n", config->name);
	net_close(&net);
}

void test_missing_slots(void)
{
	const struct tt_ep_ops *ops;
	struct net net;
	struct link *l;
	struct op op;
	void *p = &net;

	if (!net_pair(&net))
		return;
	l = &net.link[0];
	ops = l->ep->ops;
	TT_CHECK(ops->put && ops->get && ops->amo && ops->msg && ops->map);
	if (!(l->node->tp->caps & TT_CAP_AMO)) {
		TT_CHECK(amo(&net, l, TT_AMO_ADD, 1, 0, (uint64_t *)l->node->tx.addr,
			     l->to->rx.addr, &l->to->rx.mr->rkey, &op) == -EOPNOTSUPP);
	}
	if (!(l->node->tp->caps & TT_CAP_MAP)) {
		TT_CHECK(ops->map(l->ep, (uint64_t)(uintptr_t)l->to->rx.addr, 8,
				  &l->to->rx.mr->rkey, &p) == -EOPNOTSUPP);
		TT_CHECK(p == &net);
	}
	net_close(&net);
}

static bool readable(int fd, int ms)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};

	return poll(&pfd, 1, ms) > 0;
}

/* Whether the transport lets its caller sleep for ms while nothing happens. */
static bool falls_asleep(struct net *net, struct node *node, int ms)
{
	uint64_t deadline = tt_deadline_ms(3000);
	int fd = -1, rc;

	while (!tt_passed(deadline)) {
		pump(net);
		rc = node->tp->ops->arm(node->tp, &fd);
		TT_CHECK(!rc || rc == -EAGAIN);
		if (!rc && !readable(fd, ms))
			return true;
	}
	return false;
}

void test_arm(void)
{
	struct net net;
	struct link *l;
	struct op op;
	int fd = -1, rc, i, k;

	if (!net_pair(&net))
		return;
	l = &net.link[0];
	for (i = 0; i < 5; i++) {
		TT_CHECK(falls_asleep(&net, l->to, 10));
		TT_CHECK(put(&net, l, l->node->tx.addr, 8, l->to->rx.addr, &l->to->rx.mr->rkey, i,
			     &op) >= 0);
		for (k = 0; l->node != l->to && !op.done && k < 2000; k++)
			poll_node(&net, l->node, 8);
		/* It may take the wire some time; but then the note wakes us. */
		if (l->to->nnotes == (unsigned)i) {
			rc = l->to->tp->ops->arm(l->to->tp, &fd);
			TT_CHECK(rc == -EAGAIN || (!rc && readable(fd, 2000)));
		}
		WAIT(&net, l->to->nnotes == (unsigned)i + 1 && op.done);
	}
	net_close(&net);
}

/* Fills the queue with small puts without waiting; returns their number. */
static int put_until_full(struct link *l, struct op *op, int max)
{
	struct tt_rma rma;
	int n, rc;

	for (n = 0; n < max; n++) {
		rma = rma_put(l, l->node->tx.addr, 8, l->to->rx.addr, &l->to->rx.mr->rkey, -1,
			      &op[n]);
		rc = l->ep->ops->put(l->ep, &rma);
		if (rc == -EAGAIN)
			break;
		TT_CHECK(rc == TT_STARTED || rc == TT_FINISHED);
		op[n].done = rc != TT_STARTED;
	}
	return n;
}

/*
 * Many unrelated completions have arrived, and a note behind them: a sleep must not miss the note.
 */
void test_arm_behind(void)
{
	static struct op ops[3][256];
	int i, k, n[3], rc, fd = -1;
	struct link *back;
	struct net net;
	struct op op;

	if (!net_open(&net, 2))
		return;
	for (i = 0; i < 3 && net.nnodes == 2; i++)
		if (!net_link(&net, 0, 1) || !net_up(&net, 2 * i))
			break;
	if (i == 3) {
		back = &net.link[1];
		for (i = 0; i < 3; i++)
			n[i] = put_until_full(&net.link[2 * i], ops[i], 256);
		TT_CHECK(put(&net, back, back->node->tx.addr, 8, back->to->rx.addr,
			     &back->to->rx.mr->rkey, 3, &op) >= 0);
		for (k = 0; k < 50; k++) {
			poll_node(&net, back->node, 8);
			usleep(1000);
		}
		rc = back->to->nnotes ? -EAGAIN : back->to->tp->ops->arm(back->to->tp, &fd);
		TT_CHECK(rc == -EAGAIN || (!rc && readable(fd, 2000)));
		WAIT(&net, op.done && back->to->nnotes == 1);
		for (i = 0; i < 3; i++)
			for (k = 0; k < n[i]; k++)
				TT_CHECK(!settle(&net, &ops[i][k]));
	}
	net_close(&net);
}

/* Data that two processes exchange before they are connected. */
struct hello {
	uint8_t blob[TT_TP_BLOB_MAX];
	uint64_t blob_len, rx;
	struct tt_rkey rkey;
};

static int exchange(int sock, const struct net *net, struct hello *theirs)
{
	struct hello mine = {.blob_len = net->link[0].blob_len,
			     .rx = (uint64_t)(uintptr_t)net->node[0].rx.addr,
			     .rkey = net->node[0].rx.mr->rkey};

	memcpy(mine.blob, net->link[0].blob, sizeof(mine.blob));
	return write(sock, &mine, sizeof(mine)) == sizeof(mine) &&
			       recv(sock, theirs, sizeof(*theirs), MSG_WAITALL) == sizeof(*theirs)
		       ? 0
		       : -EIO;
}

/* Rank 0 sleeps on the armed descriptor until the note of rank 1 wakes it, three times. */
static int sleep_for_notes(struct net *net, int sock)
{
	uint64_t deadline = tt_deadline_ms(WAIT_MS);
	struct node *node = &net->node[0];
	unsigned asked = 0;
	int fd = -1, rc;

	while (node->nnotes < 3) {
		TT_EXPECT(!tt_passed(deadline));
		poll_node(net, node, 8);
		if (node->nnotes == asked && asked < 3) {
			TT_EXPECT(falls_asleep(net, node, 20));
			TT_EXPECT(write(sock, "g", 1) == 1);
			asked++;
		}
		rc = node->tp->ops->arm(node->tp, &fd);
		TT_EXPECT(!rc || rc == -EAGAIN);
		if (!rc && node->nnotes < asked)
			TT_EXPECT(readable(fd, 3000));
	}
	TT_EXPECT(node->nnotes == 3);
	TT_EXPECT(write(sock, "e", 1) == 1);
	return 0;
}

static int ring_sleeper(struct net *net, int sock, const struct hello *peer)
{
	struct link *l = &net->link[0];
	struct pollfd pfd = {.fd = sock, .events = POLLIN};
	uint64_t deadline = tt_deadline_ms(WAIT_MS);
	struct op op[3];
	char c = 0;
	int n = 0;

	while (c != 'e') {
		TT_EXPECT(!tt_passed(deadline));
		pump(net);
		if (poll(&pfd, 1, 1) <= 0)
			continue;
		TT_EXPECT(read(sock, &c, 1) == 1);
		if (c != 'g' || n == 3)
			continue;
		usleep(50000);
		TT_EXPECT(put(net, l, net->node[0].tx.addr, 100, (void *)(uintptr_t)peer->rx,
			      &peer->rkey, n, &op[n]) >= 0);
		n++;
	}
	return settle(net, &op[0]) || settle(net, &op[1]) || settle(net, &op[2]);
}

static int sleeper_rank(int rank, int nranks, void *arg)
{
	int *sock = arg, rc, i;
	struct hello peer;
	struct net net;

	close(sock[!rank]);
	TT_EXPECT(net_open(&net, 1));
	TT_EXPECT(net_link(&net, 0, 0)); /* one end: the other is in the other process */
	TT_EXPECT(!exchange(sock[rank], &net, &peer));
	TT_EXPECT(!net.node[0].tp->ops->ep_connect(net.link[0].ep, peer.blob, peer.blob_len, rank));
	for (i = 0; !net.link[0].up && i < WAIT_MS; i++)
		pump_ms(&net, 1);
	TT_EXPECT(net.link[0].up);
	rc = rank ? ring_sleeper(&net, sock[1], &peer) : sleep_for_notes(&net, sock[0]);
	net_close(&net);
	return rc;
}

/*
 * First in the table: later this process carries state of libraries that a fork does not survive.
 */
void test_wakes_sleeper(void)
{
	int sock[2];

	if (config->one_process)
		TT_SKIP("within one process only");
	if (!find_transport())
		TT_SKIP("transport %s is not compiled in", config->transport);
	/* Elsewhere asking for devices may already start threads. */
	if (!strcmp(config->transport, "verbs") && !available())
		return;
	TT_REQUIRE(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock));
	TT_CHECK(!tt_run_ranks(2, sleeper_rank, sock, 3 * WAIT_MS, 0));
	close(sock[0]);
	close(sock[1]);
}
