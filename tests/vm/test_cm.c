/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transport verbs connected by rdma_cm: both ends refuse a peer without the cookie, an address
 * without an answer is given up in time, and nothing leaks. The conformance suite tests working
 * connections, with TUTTI_VERBS_CM=rdmacm.
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/conform/conform.h"
#include "transports/verbs/verbs.h"

static const struct config verbs = {.name = "verbs", .transport = "verbs", .strict = true};
const struct config *config = &verbs;
bool faulty;
unsigned seed = 1, timeouts;

/* Link's data for its peer, changed at one place. */
static struct vb_blob blob_of(const struct link *link)
{
	struct vb_blob b;

	memcpy(&b, link->blob, sizeof(b));
	return b;
}

static int connect_to(struct link *link, const struct vb_blob *b, bool active)
{
	return link->node->tp->ops->ep_connect(link->ep, b, sizeof(*b), active);
}

static bool says(const struct link *link, const char *text)
{
	return strstr(tt_fail_text(link->status), text) != NULL;
}

/* The passive end rejects, waits on, and takes the right one afterwards. */
static void wrong_cookie_once(void)
{
	struct vb_blob b;
	struct net net;

	if (!net_open(&net, 2) || !net_link(&net, 0, 1) || !net_link(&net, 0, 1))
		return;
	TT_CHECK(!net_connect(&net.link[1], &net.link[0], false));
	b = blob_of(&net.link[1]);
	b.cookie[1] ^= 1ull << 63;
	TT_CHECK(!connect_to(&net.link[0], &b, true));
	WAIT(&net, net.link[0].down);
	TT_CHECK(says(&net.link[0], "wrong cookie") && says(&net.link[0], "/1: ") &&
		 says(&net.link[0], " port "));
	TT_CHECK(!net.link[0].up && !net.link[1].up && !net.link[1].down);

	b = blob_of(&net.link[1]);
	TT_CHECK(!connect_to(&net.link[2], &b, true)); /* knows it, though it is another end */
	WAIT(&net, net.link[2].down);
	TT_CHECK(says(&net.link[2], "not the peer"));
	TT_CHECK(!net.link[2].up && !net.link[1].up && !net.link[1].down);
	net_close(&net);
}

static void wrong_cookie(void)
{
	int before;

	wrong_cookie_once();
	before = tt_open_fds(); /* with what librdmacm keeps for good */
	wrong_cookie_once();
	TT_CHECK(tt_open_fds() == before);
}

/* A queue pair's number that is another endpoint's does not help. */
static void wrong_queue_pair(void)
{
	struct vb_blob b;
	struct net net;

	if (!net_open(&net, 2) || !net_link(&net, 0, 1) || !net_link(&net, 0, 1))
		return;
	TT_CHECK(!net_connect(&net.link[1], &net.link[0], false));
	b = blob_of(&net.link[1]);
	b.rail[0].qpn[0] = blob_of(&net.link[3]).rail[0].qpn[0];
	TT_CHECK(!connect_to(&net.link[0], &b, true));
	WAIT(&net, net.link[0].down);
	TT_CHECK(says(&net.link[0], "wrong cookie"));
	TT_CHECK(net_up(&net, 2));
	net_close(&net);
}

/* Closed before it was connected to; then the whole process gone. */
static void peer_gone(void)
{
	struct link closed;
	struct net net;

	if (!net_open(&net, 2) || !net_link(&net, 0, 1) || !net_link(&net, 0, 1))
		return;
	closed = net.link[1];
	link_close(&net.link[1]);
	TT_CHECK(!net_connect(&net.link[0], &closed, true));
	WAIT(&net, net.link[0].down);
	TT_CHECK(says(&net.link[0], "closed since"));

	closed = net.link[3];
	link_close(&net.link[3]);
	mem_free(&net.node[1].tx);
	mem_free(&net.node[1].rx);
	net.node[1].tp->ops->close(net.node[1].tp);
	net.node[1].tp = NULL;
	net.nnodes = 1;
	TT_CHECK(!net_connect(&net.link[2], &closed, true));
	WAIT(&net, net.link[2].down);
	TT_CHECK(says(&net.link[2], "no process listens") && net.link[2].status == -ECONNREFUSED);
	net_close(&net);
}

static struct sockaddr_in v4_of(const struct vb_rail_addr *a, uint16_t port)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = port};

	memcpy(&sa.sin_addr, a->ip + 12, 4);
	return sa;
}

/*
 * The connection has failed when the address of another of its queue pairs is found: that one must
 * not begin anew.
 */
static void found_too_late(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = {0};
	struct sockaddr_in from, to;
	struct vb_blob b;
	struct vb_ep *ep;
	struct net net;
	int q = 0;

	if (!net_open(&net, 2) || !net_link(&net, 0, 1))
		return;
	b = blob_of(&net.link[1]);
	b.cookie[0] ^= 1;
	TT_CHECK(!connect_to(&net.link[0], &b, true));
	WAIT(&net, net.link[0].down);
	ep = (struct vb_ep *)net.link[0].ep;
	while (q < ep->nqp - 1 && ep->qp[q].id) /* whichever was rejected first has none */
		q++;
	from = v4_of(&blob_of(&net.link[0]).rail[ep->qp[q].rail->index], 0);
	to = v4_of(&b.rail[ep->qp[q].theirs], b.rail[ep->qp[q].theirs].port);
	TT_CHECK(!ep->qp[q].id &&
		 !rdma_create_id(vb_tp_of(ep)->cm, &ep->qp[q].id, ep, RDMA_PS_TCP) &&
		 !rdma_resolve_addr(ep->qp[q].id, (struct sockaddr *)&from, (struct sockaddr *)&to,
				    1000));
	pump_ms(&net, 300);
	TT_CHECK(!ibv_query_qp(ep->qp[q].qp, &attr, IBV_QP_STATE, &init) &&
		 attr.qp_state == IBV_QPS_ERR);
	net_close(&net);
}

/* Tried again until the deadline; meanwhile others work, and closing does not wait for it. */
static void nobody_there(void)
{
	struct vb_blob b;
	struct net net;

	if (!net_open(&net, 2) || !net_link(&net, 0, 1) || !net_link(&net, 0, 1) ||
	    !net_link(&net, 0, 1))
		return;
	b = blob_of(&net.link[1]);
	b.rail[0].ip[15] ^= 0x40;
	TT_CHECK(!connect_to(&net.link[0], &b, true));
	TT_CHECK(!connect_to(&net.link[4], &b, true));
	TT_CHECK(net_up(&net, 2));
	TT_CHECK(!net.link[0].down && !net.link[4].down);
	link_close(&net.link[4]);
	WAIT(&net, net.link[0].down);
	TT_CHECK(says(&net.link[0], "rdma_cm") && !net.link[0].up);
	net_close(&net);
}

/* Both ends must be of one mind. */
static void agreed(void)
{
	struct vb_blob b;
	struct net net;
	int err;

	if (!net_open(&net, 2) || !net_link(&net, 0, 1))
		return;
	b = blob_of(&net.link[1]);
	b.rail[0].cm = 0;
	err = connect_to(&net.link[0], &b, true);
	TT_CHECK(err == -EINVAL && strstr(tt_fail_text(err), "TUTTI_VERBS_CM"));
	b.rail[0].cm = 1;
	b.rail[0].port = 0;
	err = connect_to(&net.link[0], &b, true);
	TT_CHECK(err == -EHOSTUNREACH && strstr(tt_fail_text(err), "IP address"));
	net_close(&net);
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"wrong_cookie", wrong_cookie},
					       {"wrong_queue_pair", wrong_queue_pair},
					       {"peer_gone", peer_gone},
					       {"nobody_there", nobody_there},
					       {"agreed", agreed},
					       {"found_too_late", found_too_late},
					       {NULL, NULL}};

	setenv("TUTTI_VERBS_CM", "rdmacm", 1);
	return tt_test_main("cm", tests, argc, argv);
}
