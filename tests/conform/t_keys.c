/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Invalid and stale keys, and ranges out of bounds, with every operation: it fails or ends the
 * connection, and changes no byte of the target and none outside the destination of a get.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/conform/conform.h"

#define LEN 4096

enum what { PUT, GET, ADD, WHATS };
enum wrong { MADE_UP, STALE, BEFORE, ACROSS, BEYOND, WRONGS };

static const char *const what_name[] = {"put", "get", "add"};
static const char *const wrong_name[] = {"made-up key", "stale key", "before", "across the end",
					 "beyond"};

/* Registers mem and returns key and address. */
static bool target(struct mem *mem, struct tt_tp *tp, enum wrong wrong, struct tt_rkey *key,
		   uint8_t **at, size_t len)
{
	static const ptrdiff_t from[] = {0, 0, -64, LEN - 8, LEN};
	int i;

	if (!mem_new(mem, LEN, true) || mem_reg(mem, tp))
		return false;
	*key = mem->mr->rkey;
	*at = mem->addr + from[wrong];
	if (wrong == ACROSS && len == 8)
		*at += 8; /* a word is not cut in two: alignment is another matter */
	for (i = 0; wrong == MADE_UP && i < 4; i++)
		key->word[i] ^= 0xff00;
	if (wrong == STALE) {
		if (mem->mr->tp->ops->dereg(mem->mr))
			return false;
		mem->mr = NULL;
	}
	return true;
}

static int start(struct net *net, enum what what, size_t len, uint8_t *at,
		 const struct tt_rkey *key, struct op *op)
{
	struct link *l = &net->link[0];
	uint64_t deadline = tt_deadline_ms(3000);
	struct tt_rma rma;
	int rc;

	if (what == GET)
		return get(net, l, l->node->tx.addr + 64, len, at, key, op);
	if (what == ADD)
		return amo(net, l, TT_AMO_ADD, 1, 0, (uint64_t *)(void *)(l->node->tx.addr + 64),
			   at, key, op);
	rma = rma_put(l, l->node->tx.addr + 64, len, at, key, -1, op);
	rma.flags = TT_RMA_REMOTE;
	while ((rc = l->ep->ops->put(l->ep, &rma)) == -EAGAIN && !tt_passed(deadline))
		pump(net);
	return rc;
}

/* Whether the operation failed, or its connection. */
static bool failed(struct net *net, int rc, struct op *op)
{
	uint64_t deadline = tt_deadline_ms(3000);
	int i, down = 0;

	while (rc == TT_STARTED && !op->status && !down && !tt_passed(deadline)) {
		pump(net);
		for (i = 0; i < net->nlinks; i++)
			down += net->link[i].down;
		if (op->done && !op->status && config->strict)
			break; /* it said that it went well */
	}
	return rc < 0 || op->status < 0 || down;
}

static void try(enum what what, enum wrong wrong)
{
	static uint8_t before[LEN + 2 * GUARD], near[256];
	size_t len = what == ADD ? 8 : 128;
	struct op op = {0};
	struct tt_rkey key;
	struct mem mem;
	struct net net;
	uint8_t *at = NULL;
	bool error;

	if (!net_pair(&net))
		return;
	if (what == ADD && !(net.node[0].tp->caps & TT_CAP_AMO))
		goto close_net;
	TT_CHECK(target(&mem, net.link[0].to->tp, wrong, &key, &at, len));
	fill(mem.addr, LEN, 4);
	memcpy(before, mem.addr - GUARD, sizeof(before));
	fill(net.link[0].node->tx.addr, sizeof(near), 5);
	memcpy(near, net.link[0].node->tx.addr, sizeof(near));
	error = failed(&net, start(&net, what, len, at, &key, &op), &op);
	if (!error)
		printf("  %s, %s: no error\n", what_name[what], wrong_name[wrong]);
	TT_CHECK(error);
	pump_ms(&net, 5);
	TT_CHECK(!memcmp(before, mem.addr - GUARD, sizeof(before)));
	TT_CHECK(!memcmp(near, net.link[0].node->tx.addr, 64));
	TT_CHECK(!memcmp(near + 64 + len, net.link[0].node->tx.addr + 64 + len,
			 sizeof(near) - 64 - len));
	while (net.nlinks)
		link_close(&net.link[--net.nlinks]);
	op.dead = true;
	mem_free(&mem);
close_net:
	net_close(&net);
}

void test_wrong_keys(void)
{
	int what, wrong;

	if (seed > 1)
		return; /* the cost of a broken connection occurs once */
	for (what = 0; what < WHATS; what++)
		for (wrong = 0; wrong < WRONGS; wrong++)
			try((enum what)what, (enum wrong)wrong);
}
