/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What only transport verbs promises: a peer's mistake spares the other connections, a fork spares all
 * of them, a port that goes down is told. Uses the networks of the conformance suite.
 */
#include "tests/conform/conform.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct config verbs = {.name = "verbs", .transport = "verbs", .strict = true};
const struct config *config = &verbs;
bool faulty;
unsigned seed = 1, timeouts;

static bool works(struct net *net, struct link *l, uint64_t salt)
{
	unsigned notes = l->to->nnotes;
	struct op op;

	fill(l->node->tx.addr, 100000, salt);
	if (put(net, l, l->node->tx.addr, 100000, l->to->rx.addr, &l->to->rx.mr->rkey, 5, &op) < 0 ||
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

	if (!net_triangle(&net))
		return;
	key = net.node[1].rx.mr->rkey;
	key.word[0] ^= 0xff00;
	TT_CHECK(put(&net, &net.link[0], net.node[0].tx.addr, 5000, net.node[1].rx.addr, &key, 1, &op) >=
		 0);
	TT_CHECK(settle(&net, &op) < 0);
	WAIT(&net, net.link[0].down);
	/* Not every device tells the other end of its own accord; its next operation fails. */
	if (!net.link[1].down) {
		TT_CHECK(put(&net, &net.link[1], net.node[1].tx.addr, 5000, net.node[0].rx.addr,
			     &net.node[0].rx.mr->rkey, 1, &op) >= 0);
		TT_CHECK(settle(&net, &op) < 0);
	}
	WAIT(&net, net.link[1].down);
	TT_CHECK(strstr(tt_fail_text(net.link[1].status), "/1: ") != NULL); /* names the port */
	TT_CHECK(!net.node[1].nnotes);
	TT_CHECK(works(&net, &net.link[2], 1) && works(&net, &net.link[3], 2));
	TT_CHECK(works(&net, &net.link[4], 3) && works(&net, &net.link[5], 4));
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

/* Last, as the port may not come back as it was. */
static void port_down(void)
{
	struct op op[8];
	struct net net;
	int i;

	if (!getenv("TT_GUEST"))
		TT_SKIP("only the guest's port may be taken down");
	if (!net_pair(&net))
		return;
	TT_CHECK(works(&net, &net.link[0], 10));
	for (i = 0; i < 8; i++)
		TT_CHECK(put(&net, &net.link[0], net.node[0].tx.addr, 1 << 20, net.node[1].rx.addr,
			     &net.node[1].rx.mr->rkey, 1, &op[i]) >= 0);
	TT_CHECK(!system("ip link set dummy0 down"));
	WAIT(&net, net.link[0].down && net.link[1].down);
	TT_CHECK(net.link[0].status < 0);
	for (i = 0; i < 8; i++)
		TT_CHECK(op[i].done == 1);
	TT_CHECK(!system("ip link set dummy0 up"));
	net_close(&net);
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"bad_key_spares_others", bad_key_spares_others},
					       {"fork_in_the_middle", fork_in_the_middle},
					       {"port_down", port_down},
					       {NULL, NULL}};

	return tt_test_main("verbs", tests, argc, argv);
}
