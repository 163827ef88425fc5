/* SPDX-License-Identifier: BSD-3-Clause */
/* Conformance: control messages, several peers, registrations and their protection. */
#include "tests/conform/conform.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void make_msg(uint8_t *data, uint32_t len, uint32_t number)
{
	fill(data, len, number);
	if (len >= 4)
		memcpy(data, &number, 4);
}

/* Messages may overtake each other: every length once, each with the right bytes. */
static void check_msgs(const struct link *l, unsigned n)
{
	bool had[TT_TP_MSG_MAX + 1] = {false};
	uint8_t want[TT_TP_MSG_MAX];
	unsigned i;

	TT_CHECK(l->nmsgs == n);
	for (i = 0; i < l->nmsgs; i++) {
		uint32_t len = l->msgs[i].len;

		make_msg(want, len, len);
		TT_CHECK(!had[len]);
		TT_CHECK(!memcmp(want, l->msgs[i].data, len));
		had[len] = true;
	}
}

void test_msg_sizes(void)
{
	uint8_t data[TT_TP_MSG_MAX];
	struct net net;
	uint32_t len;
	int k;

	if (!net_pair(&net))
		return;
	for (len = 0; len <= TT_TP_MSG_MAX; len++)
		for (k = 0; k < net.nlinks; k++) {
			make_msg(data, len, len);
			TT_CHECK(msg(&net, &net.link[k], data, len) >= 0);
			memset(data, 0xbb, sizeof(data)); /* may be reused on return */
		}
	WAIT(&net,
	     net.link[0].nmsgs > TT_TP_MSG_MAX && net.link[net.nlinks - 1].nmsgs > TT_TP_MSG_MAX);
	pump_ms(&net, 3);
	for (k = 0; k < net.nlinks; k++)
		check_msgs(&net.link[k], TT_TP_MSG_MAX + 1);
	net_close(&net);
}

void test_msg_flood(void)
{
	enum { COUNT = 1000 };
	static unsigned char had[COUNT];
	uint8_t data[TT_TP_MSG_MAX], want[TT_TP_MSG_MAX];
	unsigned refused = 0, bad = 0;
	struct link *l, *to;
	struct net net;
	uint32_t i, id;
	int rc;

	if (!net_pair(&net))
		return;
	l = &net.link[0];
	to = &net.link[net.nlinks - 1];
	for (i = 0; i < COUNT; i++) {
		make_msg(data, 4 + i % 125, i);
		rc = refused < 50 ? l->ep->ops->msg(l->ep, data, 4 + i % 125)
				  : msg(&net, l, data, 4 + i % 125);
		refused += rc == -EAGAIN;
		TT_CHECK(rc >= 0 || rc == -EAGAIN);
		i -= rc == -EAGAIN && refused <= 50;
	}
	WAIT(&net, to->nmsgs >= COUNT);
	pump_ms(&net, 3);
	TT_CHECK(to->nmsgs == COUNT);
	memset(had, 0, sizeof(had));
	for (i = 0; i < to->nmsgs; i++) {
		memcpy(&id, to->msgs[i].data, 4);
		if (id >= COUNT || had[id]++) {
			bad++;
			continue;
		}
		make_msg(want, 4 + id % 125, id);
		bad += to->msgs[i].len != 4 + id % 125 ||
		       memcmp(want, to->msgs[i].data, to->msgs[i].len);
	}
	TT_CHECK(!bad);
	net_close(&net);
}

/*
 * Six links among three nodes at once: every put and message goes where it was sent, and only
 * there.
 */
void test_triangle(void)
{
	enum { ROUNDS = 50, AREA = 8192 };
	struct op op[6][ROUNDS];
	uint8_t want[AREA];
	struct net net;
	int k, i;

	if (!net_triangle(&net))
		return;
	for (i = 0; i < ROUNDS; i++)
		for (k = 0; k < net.nlinks; k++) {
			struct link *l = &net.link[k];
			uint8_t *src = l->node->tx.addr + (k * ROUNDS + i) * AREA;

			fill(src, AREA, (uint64_t)(k * ROUNDS + i));
			TT_CHECK(put(&net, l, src, AREA, l->to->rx.addr + (k * ROUNDS + i) * AREA,
				     &l->to->rx.mr->rkey, k, &op[k][i]) >= 0);
			TT_CHECK(msg(&net, l, &k, sizeof(k)) >= 0);
		}
	for (k = 0; k < net.nlinks; k++)
		for (i = 0; i < ROUNDS; i++)
			TT_CHECK(!settle(&net, &op[k][i]));
	for (k = 0; k < net.nnodes; k++)
		WAIT(&net, net.node[k].nnotes == (net.nnodes == 1 ? 1u : 2u) * ROUNDS);
	for (k = 0; k < net.nlinks; k++) {
		WAIT(&net, net.link[k].nmsgs == ROUNDS);
		for (i = 0; i < ROUNDS; i++) {
			int sender = net.nlinks == 1 ? 0 : k ^ 1;

			TT_CHECK(!memcmp(net.link[k].msgs[i].data, &sender, sizeof(sender)));
			fill(want, AREA, (uint64_t)(k * ROUNDS + i));
			TT_CHECK(!memcmp(net.link[k].to->rx.addr + (k * ROUNDS + i) * AREA, want,
					 AREA));
		}
	}
	net_close(&net);
}

void test_reg_cycles(void)
{
	struct mem mem[4];
	struct net net;
	struct op op;
	struct node *to;
	int i, k;

	if (!net_pair(&net))
		return;
	to = net.link[0].to;
	for (i = 0; i < 25; i++) {
		for (k = 0; k < 4; k++) {
			TT_CHECK(mem_new(&mem[k], 1000 + 70000u * (unsigned)k, true));
			TT_CHECK(!mem_reg(&mem[k], to->tp));
		}
		k = i % 4;
		fill(net.node[0].tx.addr, mem[k].len, (uint64_t)i);
		TT_CHECK(put(&net, &net.link[0], net.node[0].tx.addr, mem[k].len, mem[k].addr,
			     &mem[k].mr->rkey, i, &op) >= 0);
		TT_CHECK(!settle(&net, &op));
		WAIT(&net, to->nnotes == (unsigned)i + 1);
		TT_CHECK(!memcmp(net.node[0].tx.addr, mem[k].addr, mem[k].len));
		for (k = 0; k < 4; k++)
			mem_free(&mem[k]);
	}
	net_close(&net);
}

/* A put from memory that the near transport has not been told of, and its note. */
static void put_unregistered(struct net *net, struct link *l, const struct mem *near, size_t len)
{
	uint64_t deadline = tt_deadline_ms(WAIT_MS);
	unsigned notes = l->to->nnotes;
	struct tt_rma rma;
	struct op op;
	int rc;

	fill(near->addr, len, 10 + len);
	rma = rma_put(l, near->addr, len, l->to->rx.addr, &l->to->rx.mr->rkey, 2, &op);
	rma.mr = NULL;
	while ((rc = l->ep->ops->put(l->ep, &rma)) == -EAGAIN && !tt_passed(deadline))
		pump(net);
	TT_CHECK(rc >= 0);
	WAIT(net, (rc == TT_FINISHED || op.done) && l->to->nnotes == notes + 1);
	TT_CHECK(!op.status && !memcmp(near->addr, l->to->rx.addr, len));
}

void test_user_memory(void)
{
	struct mem mem, near;
	struct net net;
	struct op op;
	struct link *l;

	if (!net_pair(&net))
		return;
	l = &net.link[0];
	TT_CHECK(mem_new(&mem, 100001, false));
	TT_CHECK(mem_new(&near, 100001, false));
	if (l->to->tp->caps & TT_CAP_REG_ANY) {
		TT_CHECK(!mem_reg(&mem, l->to->tp));
		fill(l->node->tx.addr, mem.len, 9);
		TT_CHECK(put(&net, l, l->node->tx.addr, mem.len, mem.addr, &mem.mr->rkey, 1, &op) >=
			 0);
		TT_CHECK(!settle(&net, &op));
		WAIT(&net, l->to->nnotes == 1);
		TT_CHECK(!memcmp(l->node->tx.addr, mem.addr, mem.len));
	}
	if (l->node->tp->caps & TT_CAP_LOCAL_ANY)
		put_unregistered(&net, l, &near, near.len);
	if (l->node->tp->inline_put)
		put_unregistered(&net, l, &near, l->node->tp->inline_put);
	mem_free(&mem);
	mem_free(&near);
	net_close(&net);
}

/* Put where it is not allowed; a strict transport must refuse, none may write outside. */
static void put_refused(struct net *net, struct link *l, uint8_t *dst, size_t len,
			const struct tt_rkey *key)
{
	uint64_t deadline = tt_deadline_ms(3000);
	struct tt_rma rma;
	struct op op;
	int rc;

	fill(l->node->tx.addr, len, 99);
	rma = rma_put(l, l->node->tx.addr, len, dst, key, -1, &op);
	rma.flags = TT_RMA_REMOTE; /* without, being sent is enough */
	while ((rc = l->ep->ops->put(l->ep, &rma)) == -EAGAIN && !tt_passed(deadline))
		pump(net);
	if (rc != TT_STARTED)
		op.done = 1;
	while (!op.done && !tt_passed(deadline))
		pump(net);
	if (config->strict)
		TT_CHECK(rc < 0 || (op.done && op.status < 0));
	op.dead = true;
}

void test_bounds(void)
{
	static const struct {
		ptrdiff_t from; /* from the start, or, below 0, before the end ... */
		int before;	/* ... or so far before the start */
		size_t len;
	} range[] = {{-8, 0, 64}, {0, 32, 64}, {0, 32, 16}, {0, 0, RX_SIZE + 1},
		     {-1, 0, 2},  {0, 1, 1},   {0, 1, 2}};
	struct net net;
	unsigned i;

	for (i = 0; i < sizeof(range) / sizeof(range[0]); i++) {
		struct mem mem;
		uint8_t *dst;

		/* Each on a connection of its own: some providers end it. */
		if (!net_pair(&net))
			return;
		TT_CHECK(mem_new(&mem, 5000, true));
		TT_CHECK(!mem_reg(&mem, net.link[0].to->tp));
		dst = mem.addr + (range[i].from < 0 ? (ptrdiff_t)mem.len + range[i].from : 0) -
		      range[i].before;
		if (range[i].len < RX_SIZE)
			put_refused(&net, &net.link[0], dst, range[i].len, &mem.mr->rkey);
		else
			put_refused(&net, &net.link[0], mem.addr, mem.len + 1, &mem.mr->rkey);
		while (net.nlinks)
			link_close(&net.link[--net.nlinks]);
		mem_check_guards(&mem);
		mem_free(&mem);
		net_close(&net);
	}
}

/* Memory registered for reading can be read but not written, even with the right key. */
void test_read_only(void)
{
	uint8_t before[4096];
	struct link *l;
	struct mem mem;
	struct net net;
	struct op op;

	if (!net_pair(&net))
		return;
	l = &net.link[0];
	TT_CHECK(mem_new(&mem, sizeof(before), true));
	TT_CHECK(!mem_reg_access(&mem, l->to->tp, TT_ACCESS_READ));
	fill(mem.addr, mem.len, 3);
	memcpy(before, mem.addr, sizeof(before));
	TT_CHECK(get(&net, l, l->node->tx.addr, mem.len, mem.addr, &mem.mr->rkey, &op) >= 0);
	TT_CHECK(!settle(&net, &op));
	TT_CHECK(!memcmp(l->node->tx.addr, before, mem.len));
	put_refused(&net, l, mem.addr, mem.len, &mem.mr->rkey);
	pump_ms(&net, 5);
	TT_CHECK(!memcmp(before, mem.addr, sizeof(before)));
	while (net.nlinks)
		link_close(&net.link[--net.nlinks]);
	mem_check_guards(&mem);
	mem_free(&mem);
	net_close(&net);
}

/* Pages that the process itself may only read: a peer gets them. */
void test_read_only_map(void)
{
	const size_t len = 8192;
	struct tt_mem mem = {.len = len, .memfd = -1};
	struct tt_mr *mr = NULL;
	struct link *l;
	struct net net;
	struct op op;

	if (!net_pair(&net))
		return;
	l = &net.link[0];
	mem.addr = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	TT_CHECK(mem.addr != MAP_FAILED);
	fill(mem.addr, len, 4);
	TT_CHECK(!mprotect(mem.addr, len, PROT_READ));
	if (!(l->to->tp->caps & TT_CAP_REG_ANY)) {
		net_close(&net);
		munmap(mem.addr, len);
		TT_SKIP("it registers only its own memory");
	}
	TT_CHECK(!l->to->tp->ops->reg(l->to->tp, &mem, TT_ACCESS_READ, &mr));
	if (mr) {
		TT_CHECK(get(&net, l, l->node->tx.addr, len, mem.addr, &mr->rkey, &op) >= 0);
		TT_CHECK(!settle(&net, &op));
		TT_CHECK(!memcmp(l->node->tx.addr, mem.addr, len));
		TT_CHECK(!l->to->tp->ops->dereg(mr));
	}
	net_close(&net);
	munmap(mem.addr, len);
}

void test_stale_key(void)
{
	uint8_t before[4096];
	struct tt_rkey key;
	struct link *l;
	struct mem mem;
	struct net net;
	struct op op;

	if (!net_pair(&net))
		return;
	l = &net.link[0];
	TT_CHECK(mem_new(&mem, sizeof(before), true));
	TT_CHECK(!mem_reg(&mem, l->to->tp));
	key = mem.mr->rkey;
	fill(l->node->tx.addr, mem.len, 1);
	TT_CHECK(put(&net, l, l->node->tx.addr, mem.len, mem.addr, &key, 1, &op) >= 0);
	TT_CHECK(!settle(&net, &op));
	WAIT(&net, l->to->nnotes == 1);
	TT_CHECK(!mem.mr->tp->ops->dereg(mem.mr));
	mem.mr = NULL;
	memcpy(before, mem.addr, sizeof(before));
	put_refused(&net, l, mem.addr, mem.len, &key);
	pump_ms(&net, 5);
	TT_CHECK(!memcmp(before, mem.addr, sizeof(before)));
	while (net.nlinks)
		link_close(&net.link[--net.nlinks]);
	mem_free(&mem);
	net_close(&net);
}
