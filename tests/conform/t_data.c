/* SPDX-License-Identifier: BSD-3-Clause */
/* Conformance: bytes and bells: put, notes, get, atomics, mapped memory. */
#include "tests/conform/conform.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FLOOD 4000
#define MANY 3000
#define SLOT 64
#define AMOS 300

/* The data that must be in place at the next note. */
static struct {
	const uint8_t *dst, *src;
	size_t len;
	uint32_t note;
} expect;

static void check_expected(struct node *node, uint32_t note)
{
	TT_CHECK(note == expect.note);
	TT_CHECK(!memcmp(expect.dst, expect.src, expect.len));
}

static void put_one(struct net *net, struct link *link, size_t len, size_t shift, bool with_note)
{
	struct node *to = link->to;
	uint8_t *dst = to->rx.addr + 4096 + shift, *src = link->node->tx.addr + 128 + shift / 2;
	unsigned notes = to->nnotes;
	struct op op;
	size_t i, bad = 0;

	memset(to->rx.addr, 0x11, 4096 + shift + len + 4096);
	fill(src, len, len ^ shift << 32);
	expect.dst = dst;
	expect.src = src;
	expect.len = len;
	expect.note = (uint32_t)(len * 77 + shift);
	TT_CHECK(put(net, link, src, len, dst, &to->rx.mr->rkey,
		     with_note ? (int64_t)expect.note : -1, &op) >= 0);
	TT_CHECK(!settle(net, &op));
	if (with_note)
		WAIT(net, to->nnotes > notes);
	else
		WAIT(net, !memcmp(dst, src, len));
	for (i = 0; i < 4096; i++)
		bad += (dst[-1 - (ptrdiff_t)i] != 0x11) + (dst[len + i] != 0x11);
	TT_CHECK(!bad);
	TT_CHECK(to->nnotes == notes + with_note);
}

void test_put_sizes(void)
{
	static const size_t sizes[] = {0, 1, 7, 8, 64, 4095, 4096, 65537, 1 << 20, 4 << 20};
	struct net net;
	unsigned i, k;

	if (!net_pair(&net))
		return;
	for (i = 0; i < (unsigned)net.nnodes; i++)
		net.node[i].on_note = check_expected;
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (k = 0; k < 4; k++)
			put_one(&net, &net.link[(i + k) % net.nlinks], sizes[i], k & 1 ? 61 : 0,
				k & 2);
	pump_ms(&net, 2);
	net_close(&net);
}

void test_note_values(void)
{
	static const uint32_t other[] = {0,	     0xffffffff, 0x7fffffff,
					 0xdeadbeef, 0x00010000, 0xaaaaaaaa};
	struct net net;
	struct op op;
	uint32_t v;
	unsigned i, n = 0;

	if (!net_pair(&net))
		return;
	for (i = 0; i < 32 + sizeof(other) / sizeof(other[0]); i++) {
		struct node *to = net.link[0].to;

		v = i < 32 ? 1u << i : other[i - 32];
		TT_CHECK(put(&net, &net.link[0], net.node[0].tx.addr, 8, to->rx.addr,
			     &to->rx.mr->rkey, v, &op) >= 0);
		n++;
		WAIT(&net, to->nnotes == n);
		TT_CHECK(to->note == v);
		TT_CHECK(!settle(&net, &op));
	}
	net_close(&net);
}

void test_zero_length(void)
{
	struct net net;
	struct op op;
	struct node *to;
	int i;

	if (!net_pair(&net))
		return;
	to = net.link[0].to;
	memset(to->rx.addr, 0x33, 256);
	for (i = 0; i < 20; i++) {
		TT_CHECK(put(&net, &net.link[0], net.node[0].tx.addr, 0, to->rx.addr + i,
			     &to->rx.mr->rkey, 900 + i, &op) >= 0);
		TT_CHECK(!settle(&net, &op));
		WAIT(&net, to->nnotes == (unsigned)i + 1);
		TT_CHECK(to->note == (uint32_t)(900 + i));
	}
	for (i = 0; i < 256; i++)
		if (to->rx.addr[i] != 0x33)
			break;
	TT_CHECK(i == 256);
	net_close(&net);
}

/*
 * An odd factor makes distinct 32-bit notes of small numbers; its inverse finds the number again.
 */
#define NOTE_FACTOR 0x9e3779b1u
static uint32_t note_inverse;
static unsigned seen[3][FLOOD];
static unsigned limit;

static uint32_t note_of(unsigned i)
{
	return i * NOTE_FACTOR;
}

static size_t len_of(unsigned i)
{
	return 1 + i * 7 % SLOT;
}

static void count_note(struct node *node, uint32_t note)
{
	uint32_t i = note * note_inverse;
	uint8_t want[SLOT];

	TT_CHECK(i < limit);
	if (i >= limit)
		return;
	seen[node->id][i]++;
	fill(want, len_of(i), i);
	TT_CHECK(!memcmp(node->rx.addr + i * SLOT, want, len_of(i)));
}

static void start_counting(struct net *net, unsigned n)
{
	int i;

	for (note_inverse = 1, i = 0; i < 5; i++)
		note_inverse *= 2 - NOTE_FACTOR * note_inverse;
	memset(seen, 0, sizeof(seen));
	limit = n;
	for (i = 0; i < net->nnodes; i++) {
		unsigned k;

		net->node[i].on_note = count_note;
		memset(net->node[i].rx.addr, 0, n * SLOT);
		for (k = 0; k < n; k++)
			fill(net->node[i].tx.addr + k * SLOT, len_of(k), k);
	}
}

static void check_counts(struct net *net, const struct op *op, unsigned n)
{
	unsigned i, bad = 0, failed = 0;
	int k;

	pump_ms(net, 3); /* a note too many would come now */
	for (k = 0; k < net->nnodes; k++)
		for (i = 0; i < n; i++)
			bad += seen[net->link[k].to->id][i] != 1;
	TT_CHECK(!bad);
	for (i = 0; i < n * (unsigned)net->nlinks; i++)
		failed += op[i].done != 1 || op[i].status;
	TT_CHECK(!failed);
}

static bool all_done(const struct op *op, unsigned n)
{
	unsigned i;

	for (i = 0; i < n; i++)
		if (!op[i].done)
			return false;
	return true;
}

static bool all_noted(const struct net *net, unsigned n)
{
	int i;

	for (i = 0; i < net->nnodes; i++)
		if (net->node[i].nnotes < n)
			return false;
	return true;
}

void test_many_puts(void)
{
	unsigned n = MANY, i;
	struct op *op;
	struct net net;
	int k;

	if (!net_pair(&net))
		return;
	op = calloc(2 * n, sizeof(*op));
	start_counting(&net, n);
	for (i = 0; i < n; i++)
		for (k = 0; k < net.nlinks; k++) {
			struct link *l = &net.link[k];
			size_t off = i * SLOT;

			TT_CHECK(put(&net, l, l->node->tx.addr + off, len_of(i),
				     l->to->rx.addr + off, &l->to->rx.mr->rkey, note_of(i),
				     &op[i * net.nlinks + k]) >= 0);
		}
	WAIT(&net, all_done(op, n * net.nlinks) && all_noted(&net, n));
	check_counts(&net, op, n);
	net_close(&net);
	free(op);
}

/* Without a single poll until the transport has no more room; then the rest. */
void test_flood_puts(void)
{
	unsigned n = FLOOD, i, refused = 0;
	struct tt_rma rma;
	struct link *l;
	struct op *op;
	struct net net;
	int rc = 0;

	if (!net_pair(&net))
		return;
	op = calloc(2 * n, sizeof(*op));
	start_counting(&net, n);
	l = &net.link[0];
	for (i = 0; i < n && refused < 100; i++) {
		rma = rma_put(l, l->node->tx.addr + i * SLOT, len_of(i), l->to->rx.addr + i * SLOT,
			      &l->to->rx.mr->rkey, note_of(i), &op[i]);
		rc = l->ep->ops->put(l->ep, &rma);
		if (rc == -EAGAIN) {
			refused++;
			i--;
		} else if (rc != TT_STARTED) {
			op[i].done = 1;
			op[i].status = rc < 0 ? rc : 0;
		}
	}
	for (; i < n; i++)
		TT_CHECK(put(&net, l, l->node->tx.addr + i * SLOT, len_of(i),
			     l->to->rx.addr + i * SLOT, &l->to->rx.mr->rkey, note_of(i),
			     &op[i]) >= 0);
	net.nlinks = 1; /* only one direction counts here */
	WAIT(&net, all_done(op, n) && l->to->nnotes >= n);
	net.nnodes = 1;
	check_counts(&net, op, n);
	net.nnodes = net.nlinks = l->to == l->node ? 1 : 2;
	net_close(&net);
	free(op);
}

void test_get(void)
{
	static const size_t sizes[] = {0, 1, 7, 8, 64, 4095, 4096, 65537, 1 << 20};
	struct net net;
	unsigned i;

	if (!net_pair(&net))
		return;
	for (i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct link *l = &net.link[i % net.nlinks];
		uint8_t *dst = l->node->tx.addr + 512 + i, *src = l->to->rx.addr + 64 + i;
		size_t len = sizes[i / 2], k, bad = 0;
		struct op op;

		memset(l->node->tx.addr, 0x22, 1024 + len + 1024);
		fill(src, len, i);
		TT_CHECK(get(&net, l, dst, len, src, &l->to->rx.mr->rkey, &op) >= 0);
		TT_CHECK(!settle(&net, &op));
		TT_CHECK(!memcmp(dst, src, len)); /* at DONE, not later */
		for (k = 0; k < 512; k++)
			bad += (dst[-1 - (ptrdiff_t)k] != 0x22) + (dst[len + k] != 0x22);
		TT_CHECK(!bad);
	}
	net_close(&net);
}

/*
 * A get of len bytes whose first head land apart: each lands where it should, and nothing beside.
 */
static void get_apart(struct net *net, struct link *l, size_t len, size_t head)
{
	uint8_t *first = l->node->tx.addr + 512, *rest = first + head + 513,
		*src = l->to->rx.addr + 64;
	size_t k, bad = 0, room = 512 + head + 513 + (len - head) + 512;
	struct op op;
	struct tt_rma rma = rma_put(l, rest, len, src, &l->to->rx.mr->rkey, -1, &op);

	rma.head = first;
	rma.head_len = head;
	rma.head_mr = rma.mr;
	memset(l->node->tx.addr, 0x22, room);
	fill(src, len, len + head);
	TT_CHECK(get_rma(net, l, &rma) >= 0);
	TT_CHECK(!settle(net, &op));
	TT_CHECK(!memcmp(first, src, head) && !memcmp(rest, src + head, len - head));
	for (k = 0; k < 512; k++)
		bad += (first[-1 - (ptrdiff_t)k] != 0x22) + (first[head + k] != 0x22) +
		       (rest[len - head + k] != 0x22);
	TT_CHECK(!bad && first[head + 512] == 0x22);
}

void test_get_head(void)
{
	static const size_t sizes[][2] = {{2, 1},	{72, 64},	   {4096, 4095},
					  {5000, 64},	{65600, 64},	   {70000, 8192},
					  {262208, 64}, {1 << 20, 500000}, {3 << 20, 64}};
	struct net net;
	unsigned i;

	if (!net_pair(&net))
		return;
	if (!(net.node[0].tp->caps & TT_CAP_GET_HEAD)) {
		net_close(&net);
		TT_SKIP("what a get brings lands in one place");
	}
	for (i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++)
		get_apart(&net, &net.link[i % net.nlinks], sizes[i / 2][0], sizes[i / 2][1]);
	net_close(&net);
}

static void amo_one_word(struct net *net)
{
	struct link *l = &net->link[0];
	uint64_t *word = (uint64_t *)l->to->rx.addr, *old = (uint64_t *)l->node->tx.addr;
	const struct tt_rkey *key = &l->to->rx.mr->rkey;
	struct op op;

	*word = 0xfffffffffffffff0;
	TT_CHECK(amo(net, l, TT_AMO_ADD, 0x20, 0, old, word, key, &op) >= 0 && !settle(net, &op));
	TT_CHECK(*old == 0xfffffffffffffff0);
	TT_CHECK(amo(net, l, TT_AMO_CAS, 7, 0x11, old, word, key, &op) >= 0 && !settle(net, &op));
	TT_CHECK(*old == 0x10); /* not equal: unchanged */
	TT_CHECK(amo(net, l, TT_AMO_CAS, 7, 0x10, old, word, key, &op) >= 0 && !settle(net, &op));
	TT_CHECK(*old == 0x10);
	TT_CHECK(amo(net, l, TT_AMO_ADD, 0, 0, old, word, key, &op) >= 0 && !settle(net, &op));
	TT_CHECK(*old == 7);
}

/* Both other nodes add to one word of node 0: no addition is lost, no old value comes twice. */
static void amo_contended(struct net *net)
{
	struct node *target = &net->node[0];
	uint64_t *word = (uint64_t *)target->rx.addr, sum = 0;
	struct link *l[2];
	struct op *op = calloc(2 * AMOS, sizeof(*op));
	bool had[2 * AMOS] = {false};
	unsigned i;

	l[0] = &net->link[net->nlinks == 1 ? 0 : 1]; /* 1 to 0 */
	l[1] = &net->link[net->nlinks == 1 ? 0 : 4]; /* 2 to 0 */
	*word = 0;
	for (i = 0; i < 2 * AMOS; i++)
		TT_CHECK(amo(net, l[i % 2], TT_AMO_ADD, 1, 0,
			     (uint64_t *)l[i % 2]->node->tx.addr + i, word, &target->rx.mr->rkey,
			     &op[i]) >= 0);
	WAIT(net, all_done(op, 2 * AMOS));
	for (i = 0; i < 2 * AMOS; i++) {
		uint64_t old = ((uint64_t *)l[i % 2]->node->tx.addr)[i];

		TT_CHECK(op[i].done == 1 && !op[i].status);
		sum += old < 2 * AMOS && !had[old];
		if (old < 2 * AMOS)
			had[old] = true;
	}
	TT_CHECK(sum == 2 * AMOS);
	TT_CHECK(*word == 2 * AMOS);
	free(op);
}

void test_amo(void)
{
	struct net net;

	if (!net_triangle(&net))
		return;
	if (net.node[0].tp->caps & TT_CAP_AMO) {
		amo_one_word(&net);
		amo_contended(&net);
	} else {
		tt_skip("no atomics");
	}
	net_close(&net);
}

void test_map(void)
{
	struct net net;
	struct link *l;
	struct op op;
	uint8_t *p = NULL;
	int rc;

	if (!net_pair(&net))
		return;
	l = &net.link[0];
	rc = l->ep->ops->map(l->ep, (uint64_t)(uintptr_t)(l->to->rx.addr + 100), 5000,
			     &l->to->rx.mr->rkey, (void **)&p);
	if (!(l->node->tp->caps & TT_CAP_MAP)) {
		TT_CHECK(rc == -EOPNOTSUPP);
		TT_CHECK(p == NULL);
		net_close(&net);
		TT_SKIP("peer memory can't be mapped");
	}
	TT_CHECK(!rc && p);
	if (!rc) {
		fill(l->node->tx.addr, 5000, 5);
		TT_CHECK(put(&net, l, l->node->tx.addr, 5000, l->to->rx.addr + 100,
			     &l->to->rx.mr->rkey, 1, &op) >= 0);
		TT_CHECK(!settle(&net, &op));
		WAIT(&net, l->to->nnotes == 1);
		TT_CHECK(!memcmp(p, l->node->tx.addr, 5000));
		p[17] ^= 0xff; /* and the other way round */
		TT_CHECK(l->to->rx.addr[117] == p[17]);
	}
	net_close(&net);
}
