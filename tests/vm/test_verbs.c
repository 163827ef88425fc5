/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Promises of transport verbs only: a peer's error does not affect other connections, a fork
 * affects none, a port that goes down is reported, several ports carry their shares. Uses the
 * networks of the conformance suite.
 */
#include "tests/conform/conform.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/env.h"
#include "lib/base/inject.h"

static const struct config verbs = {.name = "verbs", .transport = "verbs", .strict = true};
const struct config *config = &verbs;
bool faulty;
unsigned seed = 1, timeouts;

static bool works(struct net *net, struct link *l, uint64_t salt)
{
	unsigned notes = l->to->nnotes;
	struct op op;

	fill(l->node->tx.addr, 100000, salt);
	if (put(net, l, l->node->tx.addr, 100000, l->to->rx.addr, &l->to->rx.mr->rkey, 5, &op) <
		    0 ||
	    settle(net, &op))
		return false;
	WAIT(net, l->to->nnotes == notes + 1);
	return !memcmp(l->node->tx.addr, l->to->rx.addr, 100000);
}

static void bad_key_spares_others(void)
{
	struct tt_rkey key;
	struct net net;
	struct op op;
	int i;

	if (!net_triangle(&net))
		return;
	key = net.node[1].rx.mr->rkey;
	for (i = 0; i < 4; i++) /* of every rail */
		key.word[i] ^= 0xff00;
	TT_CHECK(put(&net, &net.link[0], net.node[0].tx.addr, 5000, net.node[1].rx.addr, &key, 1,
		     &op) >= 0);
	TT_CHECK(settle(&net, &op) < 0);
	WAIT(&net, net.link[0].down);
	/* Not every device tells the other end by itself; its next operation fails. */
	if (!net.link[1].down) {
		TT_CHECK(put(&net, &net.link[1], net.node[1].tx.addr, 5000, net.node[0].rx.addr,
			     &net.node[0].rx.mr->rkey, 1, &op) >= 0);
		TT_CHECK(settle(&net, &op) < 0);
	}
	WAIT(&net, net.link[1].down);
	TT_CHECK(strstr(net.link[1].why, "/1: ") != NULL); /* names the port */
	TT_CHECK(!net.node[1].nnotes);
	TT_CHECK(works(&net, &net.link[2], 1) && works(&net, &net.link[3], 2));
	TT_CHECK(works(&net, &net.link[4], 3) && works(&net, &net.link[5], 4));
	net_close(&net);
}

/* A transfer out of its region is a fault of this end, which concerns no other transfer. */
static void fault(bool reads)
{
	struct mem *tx, *rx;
	struct op bad, behind;
	struct net net;
	char *beyond;
	int err;

	if (!net_pair(&net))
		return;
	tx = &net.node[0].tx;
	rx = &net.node[1].rx;
	beyond = (char *)tx->addr + RX_SIZE - 100;
	err = reads ? get(&net, &net.link[0], beyond, 5000, rx->addr, &rx->mr->rkey, &bad)
		    : put(&net, &net.link[0], beyond, 5000, rx->addr, &rx->mr->rkey, 1, &bad);
	TT_CHECK(err == TT_STARTED);
	TT_CHECK(put(&net, &net.link[0], tx->addr, 5000, rx->addr, &rx->mr->rkey, -1, &behind) >=
		 0);
	TT_CHECK(settle(&net, &bad) == -TT_EFAULT_HERE);
	TT_CHECK(settle(&net, &behind) == -EPIPE);
	WAIT(&net, net.link[0].down);
	TT_CHECK(strstr(net.link[0].why, "local memory is not registered") != NULL);
	TT_CHECK(!net.node[1].nnotes);
	net_close(&net);
}

static void local_fault(void)
{
	net_set("TUTTI_VERBS_RAILS", "1");
	fault(false);
	fault(true);
	net_set("TUTTI_VERBS_RAILS", NULL);
}

static bool look(struct link *l)
{
	struct tt_silence s = {0};

	if (!l->down)
		l->ep->ops->silence(l->ep, &s);
	return l->down;
}

/* An end that neither sends nor receives detects by an empty write that its peer has failed. */
static void lost_peer_is_noticed(void)
{
	struct tt_rkey key;
	struct net net;
	struct op op;
	int i;

	if (!net_pair(&net))
		return;
	for (i = 0; i < 40; i++) /* more than unsignalled ones are let through without an end */
		TT_CHECK(!look(&net.link[1]) && works(&net, &net.link[1], (uint64_t)i));
	key = net.node[1].rx.mr->rkey;
	for (i = 0; i < 4; i++)
		key.word[i] ^= 0xff00;
	TT_CHECK(put(&net, &net.link[0], net.node[0].tx.addr, 5000, net.node[1].rx.addr, &key, 1,
		     &op) >= 0);
	TT_CHECK(settle(&net, &op) < 0);
	WAIT(&net, net.link[0].down);
	printf("# the other end was %stold\n", net.link[1].down ? "" : "not ");
	WAIT(&net, look(&net.link[1]));
	net_close(&net);
}

/* The child writes to every page it has got; the device must go on with the parent's. */
static void fork_in_the_middle(void)
{
	struct net net;
	int status;
	pid_t pid;

	if (!net_pair(&net))
		return;
	TT_CHECK(works(&net, &net.link[0], 5));
	pid = fork();
	if (!pid) {
		memset(&status, 0, sizeof(status));
		_exit(0);
	}
	memset(net.node[0].tx.addr, 1, RX_SIZE);
	memset(net.node[1].rx.addr, 2, RX_SIZE);
	TT_CHECK(works(&net, &net.link[0], 6) && works(&net, &net.link[1], 7));
	TT_CHECK(waitpid(pid, &status, 0) == pid && !status);
	TT_CHECK(works(&net, &net.link[0], 8) && works(&net, &net.link[1], 9));
	net_close(&net);
}

/* The ports in use, first rail first. */
static int rails_of(const struct net *net, struct tt_tp_device rail[4])
{
	const struct tt_tp_params *params = &net->node[0].params;
	struct tt_tp_device dev[16];
	int n = net->node[0].tp->ops->query(params, dev, 16), i, k, rails = 0;

	for (i = 0; i < n && i < 16; i++)
		if (sscanf(dev[i].why, "this one is used: rail %d", &k) == 1 && k >= 0 && k < 4) {
			rail[k] = dev[i];
			rails++;
		}
	return rails;
}

/* Packets that a port ("rxe0/1") has sent; -1: it does not count them there. */
static long sent(const char *port)
{
	size_t n = strcspn(port, "/");
	char path[160];
	long count;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%.*s/ports/%s/hw_counters/sent_pkts",
		 (int)n, port, port + n + 1);
	usleep(20000); /* the kernel caches counters for up to 10 ms */
	f = fopen(path, "re");
	if (!f)
		return -1;
	if (fscanf(f, "%ld", &count) != 1)
		count = -1;
	fclose(f);
	return count;
}

/* The data that must be in place when the note of the put arrives. */
static struct {
	const void *data;
	size_t len;
} expected;

static void check_data(struct node *node, uint32_t note)
{
	TT_CHECK(note == 7);
	TT_CHECK(!memcmp(node->rx.addr, expected.data, expected.len));
}

/* Puts and gets of len; each rail must have sent its share of the packets, give or take one
 * transfer. */
static void carry(struct net *net, const struct tt_tp_device *rail, int nrails, size_t len,
		  int times)
{
	size_t total = (size_t)times * len, slack = len < 200000 ? len : 8192;
	struct node *to = net->link[0].to;
	unsigned notes = to->nnotes;
	long before[4], packets;
	double sum = 0;
	struct op op;
	int i;

	for (i = 0; i < nrails; i++) {
		before[i] = sent(rail[i].name);
		sum += rail[i].gbps;
	}
	for (i = 0; i < times; i++) {
		fill(net->node[0].tx.addr, len, (uint64_t)i);
		if (i % 2) {
			expected.data = net->node[0].tx.addr;
			expected.len = len;
			to->on_note = check_data;
			TT_CHECK(put(net, &net->link[0], net->node[0].tx.addr, len, to->rx.addr,
				     &to->rx.mr->rkey, 7, &op) >= 0);
			TT_CHECK(!settle(net, &op));
			WAIT(net, to->nnotes == notes + 1u + (unsigned)i / 2);
		} else {
			memcpy(to->rx.addr, net->node[0].tx.addr, len);
			memset(net->node[0].tx.addr, 0, len);
			TT_CHECK(get(net, &net->link[0], net->node[0].tx.addr, len, to->rx.addr,
				     &to->rx.mr->rkey, &op) >= 0);
			TT_CHECK(!settle(net, &op));
		}
		TT_CHECK(!memcmp(to->rx.addr, net->node[0].tx.addr, len));
	}
	pump_ms(net, 20);
	TT_CHECK(to->nnotes == notes + (unsigned)times / 2);
	for (i = 0; i < nrails; i++) {
		double share = (double)total * rail[i].gbps / sum;

		packets = sent(rail[i].name) - before[i];
		printf("# %d transfers of %zu: %s sent %ld packets\n", times, len, rail[i].name,
		       packets);
		TT_CHECK((double)packets >= (share - (double)slack) / 4096);
	}
}

static void rails_carry_their_shares(void)
{
	struct tt_tp_device rail[4];
	struct net net;
	int n;

	if (!net_pair(&net))
		return;
	n = rails_of(&net, rail);
	if (n >= 2 && sent(rail[0].name) >= 0) {
		carry(&net, rail, n, 4 << 20, 6);
		carry(&net, rail, n, 100000, 40);
	} else {
		tt_skip("only one port is used, or it does not count packets");
	}
	net_close(&net);
}

/* The piece on the second rail is refused: the note must not ring, though the first is in place. */
static void no_note_without_all_rails(void)
{
	struct tt_tp_device rail[4];
	struct tt_rkey key;
	struct net net;
	struct op op;
	int n = 2, i;

	for (i = 0; i < 3 && n >= 2; i++) { /* which of the two completions comes first changes */
		if (!net_pair(&net))
			return;
		n = rails_of(&net, rail);
		key = net.node[1].rx.mr->rkey;
		key.word[1] ^= 0xff00;
		if (n >= 2) {
			TT_CHECK(put(&net, &net.link[0], net.node[0].tx.addr, 1 << 18,
				     net.node[1].rx.addr, &key, 1, &op) >= 0);
			TT_CHECK(settle(&net, &op) < 0);
			WAIT(&net, net.link[0].down);
			pump_ms(&net, 10);
			TT_CHECK(!net.node[1].nnotes);
		}
		net_close(&net);
	}
	if (n < 2)
		TT_SKIP("only one port is used");
}

/* To sleep until a completion or an arrival on any rail. */
static bool armed(struct net *net, struct node *node, struct pollfd *p)
{
	uint64_t deadline = wait_deadline();
	int rc;

	p->events = POLLIN;
	while ((rc = node->tp->ops->arm(node->tp, &p->fd)) == -EAGAIN && !tt_passed(deadline))
		poll_node(net, node, 8);
	return !rc;
}

static void every_rail_wakes(void)
{
	struct tt_tp_device rail[4];
	struct pollfd p[2];
	struct net net;
	struct op op;
	int n, i;

	if (!net_pair(&net))
		return;
	n = rails_of(&net, rail);
	for (i = 0; i < 2 * n; i++) {
		TT_CHECK(armed(&net, &net.node[0], &p[0]) && armed(&net, &net.node[1], &p[1]));
		TT_CHECK(put(&net, &net.link[0], net.node[0].tx.addr, 100000, net.node[1].rx.addr,
			     &net.node[1].rx.mr->rkey, 1, &op) >= 0);
		/* No thread polls the transports here. */
		TT_CHECK(poll(&p[0], 1, WAIT_MS) == 1 && poll(&p[1], 1, WAIT_MS) == 1);
		WAIT(&net, op.done && net.node[1].nnotes == 1u + (unsigned)i);
	}
	net_close(&net);
	if (n < 2)
		TT_SKIP("only one port is used");
}

/*
 * More messages than there is room for arrive without a poll, and memory for them is refused: they
 * stay with the device until there is memory, and none is lost.
 */
static void no_memory_for_events(void)
{
	const unsigned total = 900;
	uint64_t deadline = wait_deadline();
	struct tt_env fault = {0};
	struct link *l;
	struct net net;
	uint32_t value;
	unsigned i, bad = 0;
	int rc = 0;

	if (!net_open(&net, 2))
		return;
	if (net_link(&net, 0, 1) && net_up(&net, 0) && net_link(&net, 0, 1) && net_up(&net, 2)) {
		l = &net.link[0];
		for (value = 0; value < total && rc >= 0 && !tt_passed(deadline);) {
			rc = l->ep->ops->msg(l->ep, &value, sizeof(value));
			value += rc >= 0;
			if (rc != -EAGAIN)
				continue;
			poll_node(&net, l->node, 8); /* not their receiver */
			rc = 0;
		}
		TT_CHECK(rc >= 0 && value == total);
		usleep(50000);
		setenv("TUTTI_FAULT", "alloc=1", 1);
		TT_CHECK(!tt_env_load(&fault) && !tt_inject_arm(&fault, -1));
		unsetenv("TUTTI_FAULT");
		link_close(&net.link[3]); /* takes all that has arrived */
		WAIT(&net, net.link[1].nmsgs == total);
		for (i = 0; i < net.link[1].nmsgs; i++) {
			memcpy(&value, net.link[1].msgs[i].data, sizeof(value));
			bad += value != i;
		}
		TT_CHECK(!bad);
		tt_env_free(&fault);
	}
	net_close(&net);
}

/* How many messages the other end's device takes while its process does not look. */
static unsigned taken(struct net *net, struct link *l)
{
	uint64_t stalled = tt_deadline_ms(500);
	unsigned n = 0;
	int rc;

	while (!tt_passed(stalled) && n < 2000) {
		rc = l->ep->ops->msg(l->ep, &n, sizeof(n));
		TT_CHECK(rc >= 0 || rc == -EAGAIN);
		n += rc >= 0;
		if (rc >= 0)
			stalled = tt_deadline_ms(500);
		else
			poll_node(net, l->node, 8);
	}
	pump_ms(net, 300);
	return n;
}

/*
 * All connections of a process share the receives. Connections that end with unread messages give
 * them back.
 */
static void closed_peers_return_receives(void)
{
	unsigned before, after, i, k;
	struct net net;

	if (!net_pair(&net))
		return;
	before = taken(&net, &net.link[0]);
	for (i = 0; i < 100; i++) {
		struct link *l = &net.link[2];

		if (!net_link(&net, 0, 1) || !net_up(&net, 2))
			break;
		for (k = 0; k < 8; k++)
			TT_CHECK(l->ep->ops->msg(l->ep, &k, sizeof(k)) >= 0);
		usleep(1000);
		link_close(&net.link[2 + i % 2]);
		link_close(&net.link[3 - i % 2]);
		net.nlinks = 2;
	}
	after = taken(&net, &net.link[0]);
	printf("# %u messages before, %u after %u connections\n", before, after, i);
	TT_CHECK(i == 100 && after + 16 >= before);
	net_close(&net);
}

/*
 * Operations are under way when an interface goes down, and it stays down: each ends. If one fails,
 * so does the connection, and one end says of which port.
 */
static void take_down(struct net *net, const char *command, const char *port)
{
	int i, done, failed = 0;
	struct op op[8];

	TT_CHECK(works(net, &net->link[0], 10));
	for (i = 0; i < 8; i++)
		TT_CHECK(put(net, &net->link[0], net->node[0].tx.addr, 1 << 20,
			     net->node[1].rx.addr, &net->node[1].rx.mr->rkey, 1, &op[i]) >= 0);
	TT_CHECK(!system(command));
	for (i = done = 0; i < 8; i++) {
		WAIT(net, op[i].done);
		done += op[i].done == 1;
		failed += op[i].status != 0;
	}
	TT_CHECK(done == 8);
	pump_ms(net, 600);
	printf("# %d of 8 failed; %s; %s\n", failed, net->link[0].why, net->link[1].why);
	TT_CHECK(!failed || net->link[0].down);
	if (net->link[0].down || net->link[1].down)
		TT_CHECK(strstr(net->link[0].why, port) || strstr(net->link[1].why, port));
}

/* Later connections do not use it. */
static void second_port_down(void)
{
	struct tt_tp_device rail[4];
	struct net net;

	if (access("/sys/class/net/dummy1", F_OK) || getuid())
		TT_SKIP("only the guest's port may be taken down");
	net_set("TUTTI_VERBS_PORT_WAIT", "200ms");
	if (!net_pair(&net))
		return;
	if (rails_of(&net, rail) < 2) {
		net_close(&net);
		TT_SKIP("only one port is used");
	}
	take_down(&net, "ip link set dummy1 down", "rxe1/1: ");
	if (net_link(&net, 0, 1) && net_up(&net, 2))
		TT_CHECK(works(&net, &net.link[2], 11) && works(&net, &net.link[3], 12));
	TT_CHECK(!system("ip link set dummy1 up"));
	net_close(&net);
}

static bool may_take_down(struct net *net, struct tt_tp_device rail[4], int rails)
{
	if (access("/sys/class/net/dummy1", F_OK) || getuid()) {
		tt_skip("only the guest's port may be taken down");
		return false;
	}
	if (!net_pair(net))
		return false;
	if (rails_of(net, rail) == rails)
		return true;
	net_close(net);
	tt_skip("not %d ports are used", rails);
	return false;
}

static void run_command(const char *command)
{
	TT_CHECK(!system(command));
}

static bool stays_up(const struct net *net)
{
	return !net->link[0].down && !net->link[1].down;
}

/* Nothing is under way when the second port goes down: the first carries all, then both again. */
static void idle_port_flaps(void)
{
	struct tt_tp_device rail[4];
	struct net net;
	struct op op;
	long before;
	int i;

	if (!may_take_down(&net, rail, 2))
		return;
	TT_CHECK(works(&net, &net.link[0], 20) && works(&net, &net.link[1], 21));
	run_command("ip link set dummy1 down");
	pump_ms(&net, 100);
	before = sent(rail[1].name);
	for (i = 0; i < 10; i++)
		TT_CHECK(works(&net, &net.link[i % 2], 22 + (uint64_t)i));
	TT_CHECK(stays_up(&net) && sent(rail[1].name) - before < 10);
	run_command("ip link set dummy1 up");
	pump_ms(&net, 300);
	before = sent(rail[1].name);
	TT_CHECK(put(&net, &net.link[0], net.node[0].tx.addr, 1 << 20, net.node[1].rx.addr,
		     &net.node[1].rx.mr->rkey, 1, &op) >= 0);
	TT_CHECK(!settle(&net, &op));
	TT_CHECK(stays_up(&net) && sent(rail[1].name) - before > 50);
	net_close(&net);
}

/* It stays down: both ends leave the rail, and do not use it when it is back. */
static void idle_port_is_left(void)
{
	struct tt_tp_device rail[4];
	struct net net;
	long before;
	int i;

	net_set("TUTTI_VERBS_PORT_WAIT", "200ms");
	if (!may_take_down(&net, rail, 2))
		return;
	TT_CHECK(works(&net, &net.link[0], 40) && works(&net, &net.link[1], 41));
	run_command("ip link set dummy1 down");
	pump_ms(&net, 600);
	TT_CHECK(stays_up(&net) && works(&net, &net.link[0], 42) && works(&net, &net.link[1], 43));
	run_command("ip link set dummy1 up");
	pump_ms(&net, 300);
	before = sent(rail[1].name);
	for (i = 0; i < 10; i++)
		TT_CHECK(works(&net, &net.link[i % 2], 44 + (uint64_t)i));
	TT_CHECK(stays_up(&net) && sent(rail[1].name) - before < 10);
	net_close(&net);
	net_set("TUTTI_VERBS_PORT_WAIT", NULL);
}

/* The only port: operations started meanwhile wait, and the connection ends if it is down for too
 * long. */
static void only_port_flaps(void)
{
	struct tt_tp_device rail[4];
	struct net net;
	struct op op;

	net_set("TUTTI_VERBS_DEVICE", "rxe1");
	net_set("TUTTI_VERBS_PORT_WAIT", "3s");
	if (may_take_down(&net, rail, 0)) {
		TT_CHECK(works(&net, &net.link[0], 60));
		pump_ms(&net, 50);
		run_command("ip link set dummy1 down");
		pump_ms(&net, 50);
		TT_CHECK(net.link[0].ep->ops->msg(net.link[0].ep, "x", 1) == -EAGAIN);
		run_command("ip link set dummy1 up");
		TT_CHECK(works(&net, &net.link[0], 61) && works(&net, &net.link[1], 62));
		TT_CHECK(put(&net, &net.link[0], net.node[0].tx.addr, 64, net.node[1].rx.addr,
			     &net.node[1].rx.mr->rkey, 1, &op) >= 0);
		pump_ms(&net, 50);
		run_command("ip link set dummy1 down");
		WAIT(&net, net.link[0].down && net.link[1].down);
		TT_CHECK(strstr(net.link[0].why, "rxe1/1: ") &&
			 strstr(net.link[0].why, "not back within"));
		run_command("ip link set dummy1 up");
		net_close(&net);
	}
	net_set("TUTTI_VERBS_DEVICE", NULL);
	net_set("TUTTI_VERBS_PORT_WAIT", NULL);
}

/* The port gets another address, and so another GID, which later connections use. */
static void address_changes(void)
{
	struct tt_tp_device rail[4];
	struct net net;
	long before;

	if (!may_take_down(&net, rail, 2))
		return;
	TT_CHECK(works(&net, &net.link[0], 70));
	run_command("ip addr add 10.77.7.1/24 dev dummy1 && ip addr del 10.77.1.1/24 dev dummy1");
	pump_ms(&net, 300);
	TT_CHECK(net_link(&net, 0, 1) && net_up(&net, 2));
	before = sent(rail[1].name);
	TT_CHECK(works(&net, &net.link[2], 71) && works(&net, &net.link[2], 72) &&
		 works(&net, &net.link[3], 73) && works(&net, &net.link[3], 74));
	TT_CHECK(sent(rail[1].name) > before);
	run_command("ip addr add 10.77.1.1/24 dev dummy1 && ip addr del 10.77.7.1/24 dev dummy1");
	net_close(&net);
}

/* Last, as the port may not come back as it was. */
static void port_down(void)
{
	struct net net;

	if (!getenv("TT_GUEST"))
		TT_SKIP("only the guest's port may be taken down");
	net_set("TUTTI_VERBS_PORT_WAIT", "200ms");
	if (!net_pair(&net))
		return;
	take_down(&net, "ip link set dummy0 down", "rxe0/1: ");
	TT_CHECK(!system("ip link set dummy0 up"));
	net_close(&net);
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"bad_key_spares_others", bad_key_spares_others},
		{"local_fault", local_fault},
		{"lost_peer_is_noticed", lost_peer_is_noticed},
		{"fork_in_the_middle", fork_in_the_middle},
		{"rails_carry_their_shares", rails_carry_their_shares},
		{"no_note_without_all_rails", no_note_without_all_rails},
		{"every_rail_wakes", every_rail_wakes},
		{"no_memory_for_events", no_memory_for_events},
		{"closed_peers_return_receives", closed_peers_return_receives},
		{"idle_port_flaps", idle_port_flaps},
		{"idle_port_is_left", idle_port_is_left},
		{"only_port_flaps", only_port_flaps},
		{"address_changes", address_changes},
		{"second_port_down", second_port_down},
		{"port_down", port_down},
		{NULL, NULL}};

	return tt_test_main("verbs", tests, argc, argv);
}
