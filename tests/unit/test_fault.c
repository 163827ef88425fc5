/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transport fault itself, over the model transport of the conformance suite: its faults and their
 * times.
 */
#include "transports/fault/fault.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "tests/conform/loop.h"
#include "tests/test.h"

#define PUTS 400
#define SEEN_MAX 4096

extern const struct tt_tp_ops tt_self_tp;
static struct tt_env env;

/* Two ends: 0 wrapped with a spec, 1 plain. Their events are kept in order. */
struct pair {
	struct tt_tp *tp[2];
	struct tt_ep *ep[2];
	struct tt_mr *mr[2];
	uint8_t mem[2][PUTS * 8];
	struct tt_event seen[2][SEEN_MAX];
	int nseen[2];
};

static void poll_end(struct pair *p, int end)
{
	int n = p->tp[end]->ops->poll(p->tp[end], p->seen[end] + p->nseen[end], 16);

	TT_CHECK(n >= 0 && p->nseen[end] + n < SEEN_MAX - 16);
	if (n > 0 && p->nseen[end] + n < SEEN_MAX - 16)
		p->nseen[end] += n;
}

static void poll_both(struct pair *p)
{
	poll_end(p, 0);
	poll_end(p, 1);
}

static int count(const struct pair *p, int end, enum tt_event_kind kind)
{
	int n = 0, i;

	for (i = 0; i < p->nseen[end]; i++)
		n += p->seen[end][i].kind == kind;
	return n;
}

#define UNTIL(p, cond)                                                                             \
	do {                                                                                       \
		uint64_t deadline_ = tt_deadline_ms(5000);                                         \
		while (!(cond) && !tt_passed(deadline_))                                           \
			poll_both(p);                                                              \
		TT_CHECK(cond);                                                                    \
	} while (0)

static void pair_open(struct pair *p, const struct tt_tp_ops *inner, const char *spec0,
		      const char *spec1)
{
	const char *spec[2] = {spec0, spec1};
	struct tt_tp_params params = {.env = &env, .local_addr = "127.0.0.1"};
	uint8_t blob[2][TT_TP_BLOB_MAX];
	size_t len[2];
	int i;

	memset(p, 0, sizeof(*p));
	for (i = 0; i < 2; i++) {
		struct tt_mem mem = {.addr = p->mem[i], .len = sizeof(p->mem[i]), .memfd = -1};

		params.rank = i;
		TT_CHECK(!(spec[i] ? tt_fault_open(inner, spec[i], &params, &p->tp[i])
				   : inner->open(&params, &p->tp[i])));
		TT_CHECK(!p->tp[i]->ops->reg(p->tp[i], &mem, TT_ACCESS_READ | TT_ACCESS_WRITE,
					     &p->mr[i]));
		len[i] = sizeof(blob[i]);
		TT_CHECK(!p->tp[i]->ops->ep_open(p->tp[i], &p->ep[i], blob[i], &len[i]));
	}
	for (i = 0; i < 2; i++)
		TT_CHECK(!p->tp[i]->ops->ep_connect(p->ep[i], blob[!i], len[!i], !i));
	UNTIL(p, count(p, 0, TT_EV_UP) == 1 && count(p, 1, TT_EV_UP) == 1);
	p->nseen[0] = p->nseen[1] = 0;
}

static void pair_close(struct pair *p)
{
	int i;

	for (i = 0; i < 2; i++) {
		if (p->ep[i])
			p->tp[i]->ops->ep_close(p->ep[i]);
		p->tp[i]->ops->dereg(p->mr[i]);
		p->tp[i]->ops->close(p->tp[i]);
	}
}

static int put8(struct pair *p, int from, uint32_t note)
{
	struct tt_rma rma = {.local = p->mem[from] + note * 8,
			     .len = 8,
			     .mr = p->mr[from],
			     .remote = (uint64_t)(uintptr_t)(p->mem[!from] + note * 8),
			     .rkey = &p->mr[!from]->rkey,
			     .note = note,
			     .flags = TT_RMA_NOTE,
			     .user = p->mem[from] + note};

	return p->ep[from]->ops->put(p->ep[from], &rma);
}

/* Puts 0 to n-1, in lockstep with polling so that the calls are the same every time. */
static void put_many(struct pair *p, int from, uint32_t n)
{
	uint64_t deadline = tt_deadline_ms(5000);
	uint32_t i;

	for (i = 0; i < n && !tt_passed(deadline);) {
		i += put8(p, from, i) >= 0;
		poll_both(p);
	}
	TT_CHECK(i == n);
}

static void test_spec_values(void)
{
	struct tt_faults s;

	TT_CHECK(!tt_faults_parse("", &s));
	TT_CHECK(s.delay == 0 && s.again == 0 && !s.finish && !s.die_after && s.delay_us == 200);
	TT_CHECK(s.rank == -1 && !s.alloc && !s.flip_after);
	TT_CHECK(!tt_faults_parse(NULL, &s));
	TT_CHECK(!tt_faults_parse(
		"seed=18446744073709551615,delay=0.5:1000,reorder=1,again=0.99,hold=0.25,"
		"error=1e-3,error_after=7,die_after=8,finish=1,max_put=9,one_place=1,flip=0.125,"
		"flip_after=10,alloc=11,reg=12,socket=13,rank=14",
		&s));
	TT_CHECK(s.seed == UINT64_MAX && s.delay == 0.5 && s.delay_us == 1000 && s.reorder == 1);
	TT_CHECK(s.again == 0.99 && s.hold == 0.25 && s.error == 1e-3);
	TT_CHECK(s.error_after == 7 && s.die_after == 8 && s.finish && s.max_put == 9 &&
		 s.one_place);
	TT_CHECK(s.flip == 0.125 && s.flip_after == 10 && s.alloc == 11 && s.reg == 12);
	TT_CHECK(s.socket == 13 && s.rank == 14);
}

static void bad_spec(const char *text, const char *says)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tt_tp_params params = {.env = &env};
	struct tt_faults s = {.rank = -1, .seed = 99};
	struct tt_tp *tp = NULL;

	TT_CHECK(tt_faults_parse(text, &s) == -EINVAL);
	TT_CHECK(s.seed == 99); /* untouched */
	TT_CHECK(!tutti_last_error(&info));
	TT_CHECK(strstr(info.text, "TUTTI_FAULT") != NULL && strstr(info.text, says) != NULL);
	TT_CHECK(tt_fault_open(&loop_transport, text, &params, &tp) == -EINVAL && !tp);
}

static void test_spec_errors(void)
{
	bad_spec("sed=3", "'seed'");
	bad_spec("delay=0.1,reoder=0.2", "'reorder'");
	bad_spec("erorr_after=2", "'error_after'");
	bad_spec("completely_different=1", "known: seed");
	bad_spec("delay", "key=value");
	bad_spec("seed=1,", "','");
	bad_spec(",seed=1", "','");
	bad_spec("seed=1,,rank=2", "','");
	bad_spec("seed=1,seed=1", "seed=1 is given twice");
	bad_spec("seed=0x7", "whole number");
	bad_spec("seed=+7", "whole number");
	bad_spec("again=0x1p-3", "probability");
	bad_spec("again=nan", "probability");
	bad_spec("delay=0.1:0x5", "delay");
	bad_spec("delay=1.5", "delay=1.5");
	bad_spec("delay=0.5:", "MICROSECONDS");
	bad_spec("delay=0.5:12x", "MICROSECONDS");
	bad_spec("delay=0.5:99999999999", "MICROSECONDS");
	bad_spec("reorder=-0.1", "reorder=-0.1");
	bad_spec("reorder=nan", "reorder=nan");
	bad_spec("reorder=0.2x", "nothing else");
	bad_spec("again=1", "0.99");
	bad_spec("hold=1", "0.99");
	bad_spec("seed=-1", "whole number");
	bad_spec("seed=", "whole number");
	bad_spec("die_after=3.5", "whole number");
	bad_spec("finish=2", "0 or 1");
	bad_spec("flip=2", "flip=2");
	bad_spec("alloc=x", "whole number");
	bad_spec("rank=-1", "whole number");
}

static struct fault_stats run_seed(const char *spec, uint32_t *order)
{
	struct fault_stats stats;
	struct pair p;
	int i, n = 0;

	pair_open(&p, &loop_transport, spec, NULL);
	put_many(&p, 0, PUTS);
	put_many(&p, 1, PUTS);
	UNTIL(&p, count(&p, 0, TT_EV_NOTE) == PUTS && count(&p, 0, TT_EV_DONE) == PUTS);
	stats = fault_get_stats(p.tp[0]);
	for (i = 0; i < p.nseen[0]; i++)
		if (p.seen[0][i].kind == TT_EV_NOTE)
			order[n++] = p.seen[0][i].note;
	pair_close(&p);
	return stats;
}

/* Without delays, which depend on the clock, even the order of events is the same. */
static void test_seed_reproduces(void)
{
	static const char spec[] = "seed=5,reorder=0.5,again=0.3,hold=0.2";
	uint32_t order[3][PUTS + 1];
	struct fault_stats a, b, c;

	a = run_seed(spec, order[0]);
	b = run_seed(spec, order[1]);
	c = run_seed("seed=6,reorder=0.5,again=0.3,hold=0.2", order[2]);
	TT_CHECK(!memcmp(&a, &b, sizeof(a)));
	TT_CHECK(!memcmp(order[0], order[1], PUTS * sizeof(uint32_t)));
	TT_CHECK(memcmp(&a, &c, sizeof(a)) != 0);
	TT_CHECK(memcmp(order[0], order[2], PUTS * sizeof(uint32_t)) != 0);
	TT_CHECK(a.ops == PUTS && a.events == 2 * PUTS + 1);
	/* PUTS / 0.7 calls, 30 % of them refused */
	TT_CHECK(a.again > PUTS * 0.43 * 0.7 && a.again < PUTS * 0.43 * 1.3);
	TT_CHECK(a.reordered > PUTS * 0.8 && a.reordered < PUTS * 1.2);
	TT_CHECK(a.held > PUTS * 0.12 && a.held < PUTS * 0.28);
	/* delays by the clock do not shift other random choices */
	a = run_seed("seed=5,delay=0.5,reorder=0.5,again=0.3", order[0]);
	b = run_seed("seed=5,delay=0.5,reorder=0.5,again=0.3", order[1]);
	TT_CHECK(a.delayed == b.delayed && a.reordered == b.reordered && a.delayed > PUTS / 2);
}

static void test_notes_overtake(void)
{
	bool had[PUTS] = {false};
	struct pair p;
	int i, inverted = 0;
	uint32_t last = 0;

	pair_open(&p, &loop_transport, "seed=3,reorder=0.5", NULL);
	put_many(&p, 1, PUTS);
	UNTIL(&p, count(&p, 0, TT_EV_NOTE) >= PUTS);
	for (i = 0; i < p.nseen[0]; i++) {
		uint32_t note = p.seen[0][i].note;

		TT_CHECK(p.seen[0][i].kind == TT_EV_NOTE && note < PUTS && !had[note]);
		had[note % PUTS] = true;
		inverted += note < last;
		last = note;
	}
	TT_CHECK(p.nseen[0] == PUTS);
	TT_CHECK(inverted > PUTS / 10);
	pair_close(&p);
}

/* Events that are held for long keep the caller awake. */
static void test_delay_keeps_awake(void)
{
	struct pair p;
	int fd;

	pair_open(&p, &loop_transport, "delay=1:1", NULL);
	fault_tp_of(p.tp[0])->spec.delay_us = 1000 * 1000 * 1000;
	put_many(&p, 1, 20);
	poll_both(&p); /* the inner transport has no more */
	TT_CHECK(p.nseen[0] < 20);
	TT_CHECK(p.tp[0]->ops->arm(p.tp[0], &fd) == -EAGAIN);
	pair_close(&p);
}

/* Some are late; all are delivered by polls that begin when the longest delay is over. */
static void test_delay_is_bounded(void)
{
	uint64_t began, held;
	struct pair p;
	bool over;
	int fd;

	pair_open(&p, &loop_transport, "delay=1:100000", NULL);
	began = tt_now_ns();
	put_many(&p, 1, 20);
	poll_both(&p);
	held = tt_now_ns();
	do {
		over = tt_now_ns() - held > 100 * TT_MS;
		poll_both(&p);
		poll_both(&p); /* one takes 16 */
	} while (p.nseen[0] < 20 && !over);
	TT_CHECK(count(&p, 0, TT_EV_NOTE) == 20);
	TT_CHECK(tt_now_ns() - began > 20 * TT_MS);
	TT_CHECK(!p.tp[0]->ops->arm(p.tp[0], &fd));
	pair_close(&p);
}

static void test_messages_stay_valid(void)
{
	uint8_t data[100];
	struct pair p;
	int i, k, got = 0;

	pair_open(&p, &loop_transport, "seed=2,delay=0.7:500,reorder=0.7", NULL);
	for (i = 0; i < 30; i++) {
		memset(data, i, sizeof(data));
		TT_CHECK(p.ep[1]->ops->msg(p.ep[1], data, (size_t)i) == TT_STARTED);
	}
	while (got < 30) {
		struct tt_event ev[8];
		int n = p.tp[0]->ops->poll(p.tp[0], ev, 8);

		poll_end(&p, 1);
		for (i = 0; i < n; i++) {
			TT_CHECK(ev[i].kind == TT_EV_MSG && ev[i].ep == p.ep[0] && ev[i].len < 30);
			for (k = 0; k < (int)ev[i].len; k++)
				TT_CHECK(((const uint8_t *)ev[i].data)[k] == ev[i].len);
		}
		got += n;
	}
	pair_close(&p);
}

static void test_error_after(void)
{
	struct pair p;
	uint32_t i;
	int down;

	pair_open(&p, &loop_transport, "delay=0.5,reorder=0.5,error_after=10", NULL);
	for (i = 0; i < 10; i++)
		TT_CHECK(put8(&p, 0, i) == TT_STARTED);
	TT_CHECK(put8(&p, 0, 10) == -ENOTCONN);
	UNTIL(&p, count(&p, 0, TT_EV_DOWN) == 1 && count(&p, 1, TT_EV_DOWN) == 1);
	TT_CHECK(count(&p, 0, TT_EV_DONE) == 10);
	down = p.nseen[0] - 1;
	TT_CHECK(p.seen[0][down].kind == TT_EV_DOWN && p.seen[0][down].status == -EIO);
	TT_CHECK(p.seen[0][down].ep == p.ep[0]);
	for (i = 0; i < 10; i++) {
		const struct tt_event *ev = &p.seen[0][i];
		int want = ev->user == p.mem[0] + 9 ? -EIO : -ECANCELED;

		TT_CHECK(ev->kind == TT_EV_DONE && ev->status == want);
	}
	TT_CHECK(fault_get_stats(p.tp[0]).errors == 1);
	pair_close(&p);
}

static void test_error_probability(void)
{
	struct pair p;
	uint32_t i;

	pair_open(&p, &loop_transport, "error=1", NULL);
	TT_CHECK(p.ep[0]->ops->msg(p.ep[0], "x", 1) >= 0); /* an operation like any other */
	for (i = 0; i < 3; i++)
		TT_CHECK(put8(&p, 0, i) == -ENOTCONN);
	UNTIL(&p, count(&p, 0, TT_EV_DOWN) == 1);
	pair_close(&p);
}

/*
 * The peer leaves while everything is held back for 10 s: all of it comes out at once, DOWN last.
 */
static void test_down_is_last(void)
{
	struct pair p;
	uint32_t i;
	int k;

	pair_open(&p, &loop_transport, "reorder=0.5", NULL);
	fault_tp_of(p.tp[0])->spec.delay = 1;
	fault_tp_of(p.tp[0])->spec.delay_us = 10000000;
	for (i = 0; i < 20; i++) {
		TT_CHECK(put8(&p, 0, i) == TT_STARTED);
		TT_CHECK(put8(&p, 1, i) == TT_STARTED);
		TT_CHECK(p.ep[1]->ops->msg(p.ep[1], &i, sizeof(i)) == TT_STARTED);
	}
	for (k = 0; k < 10; k++)
		poll_both(&p);
	TT_CHECK(p.nseen[0] < 20);
	p.tp[1]->ops->ep_close(p.ep[1]);
	p.ep[1] = NULL;
	for (k = 0; k < 20; k++)
		poll_both(&p);
	TT_CHECK(count(&p, 0, TT_EV_DOWN) == 1 && p.seen[0][p.nseen[0] - 1].kind == TT_EV_DOWN);
	TT_CHECK(count(&p, 0, TT_EV_DONE) == 20 && count(&p, 0, TT_EV_NOTE) == 20);
	TT_CHECK(count(&p, 0, TT_EV_MSG) == 20);
	pair_close(&p);
}

static void test_close_with_held_events(void)
{
	struct pair p;
	uint32_t i;
	int k;

	pair_open(&p, &loop_transport, "hold=0.5", NULL);
	fault_tp_of(p.tp[0])->spec.delay = 1;
	fault_tp_of(p.tp[0])->spec.delay_us = 5000;
	for (i = 0; i < 30; i++) {
		put8(&p, 0, i);
		p.ep[1]->ops->msg(p.ep[1], &i, sizeof(i));
		if (i % 2)
			poll_both(&p);
	}
	p.tp[0]->ops->ep_close(p.ep[0]);
	p.ep[0] = NULL;
	p.nseen[0] = 0;
	for (k = 0; k < 100; k++)
		poll_end(&p, 0);
	TT_CHECK(p.nseen[0] == 0);
	pair_close(&p);
}

static int die_rank(int rank, int nranks, void *arg)
{
	struct pair p;

	pair_open(&p, &loop_transport, "die_after=25", NULL);
	put_many(&p, 0, *(uint32_t *)arg);
	pair_close(&p);
	return 0;
}

static void test_die_after(void)
{
	uint32_t n = 24;

	TT_CHECK(!tt_run_ranks(1, die_rank, &n, 5000, 0));
	n = 25;
	TT_CHECK(!tt_run_ranks(1, die_rank, &n, 5000, 1));
}

/* Over a transport that completes in place. */
static void test_finish(void)
{
	const struct tt_tp_ops *self = &tt_self_tp;
	struct tt_tp_params params = {.env = &env, .local_addr = "127.0.0.1"};
	struct pair p;
	size_t len = TT_TP_BLOB_MAX;
	uint8_t blob[TT_TP_BLOB_MAX];
	int finish, rc;

	TT_REQUIRE(self != NULL);
	for (finish = 0; finish < 2; finish++) {
		struct tt_mem mem = {.addr = p.mem[0], .len = sizeof(p.mem[0]), .memfd = -1};

		memset(&p, 0, sizeof(p));
		TT_CHECK(!tt_fault_open(self, finish ? "finish=1" : "finish=0", &params, &p.tp[0]));
		TT_CHECK(!strcmp(p.tp[0]->ops->name, "fault:self"));
		TT_CHECK(!p.tp[0]->ops->reg(p.tp[0], &mem, TT_ACCESS_WRITE, &p.mr[0]));
		TT_CHECK(!p.tp[0]->ops->ep_open(p.tp[0], &p.ep[0], blob, &len));
		TT_CHECK(!p.tp[0]->ops->ep_connect(p.ep[0], blob, len, true));
		while (!count(&p, 0, TT_EV_UP))
			poll_end(&p, 0);
		struct tt_rma rma = {.local = p.mem[0],
				     .len = 8,
				     .mr = p.mr[0],
				     .remote = (uint64_t)(uintptr_t)(p.mem[0] + 64),
				     .rkey = &p.mr[0]->rkey,
				     .user = &p};
		rc = p.ep[0]->ops->put(p.ep[0], &rma);
		TT_CHECK(rc == (finish ? TT_STARTED : TT_FINISHED));
		poll_end(&p, 0);
		TT_CHECK(count(&p, 0, TT_EV_DONE) == finish);
		p.tp[0]->ops->ep_close(p.ep[0]);
		TT_CHECK(!p.tp[0]->ops->dereg(p.mr[0]));
		p.tp[0]->ops->close(p.tp[0]);
	}
}

/* Number of bits in which received and sent data differ. */
static int flipped_bits(const uint8_t *a, const uint8_t *b, size_t len)
{
	int n = 0;

	while (len--)
		n += __builtin_popcount(*a++ ^ *b++);
	return n;
}

static void fill(struct pair *p)
{
	size_t i;

	for (i = 0; i < sizeof(p->mem[0]); i++) {
		p->mem[0][i] = (uint8_t)(i * 31 + 7);
		p->mem[1][i] = 0;
	}
}

/*
 * A put's bytes change on their way and not at the origin, over transports that register and that
 * do not.
 */
static void flip_puts(const struct tt_tp_ops *inner, const char *spec, int want)
{
	uint8_t before[PUTS * 8];
	struct pair p;

	pair_open(&p, inner, spec, NULL);
	fill(&p);
	memcpy(before, p.mem[0], sizeof(before));
	put_many(&p, 0, PUTS);
	UNTIL(&p, count(&p, 0, TT_EV_DONE) == PUTS && count(&p, 1, TT_EV_NOTE) == PUTS);
	TT_CHECK(!memcmp(before, p.mem[0], sizeof(before)));
	TT_CHECK((int)fault_get_stats(p.tp[0]).flips == want);
	TT_CHECK(flipped_bits(p.mem[0], p.mem[1], sizeof(before)) == want);
	pair_close(&p);
}

/* Every other one in two places. */
static int get8(struct pair *p, uint32_t i)
{
	size_t head = i % 2 * 4;
	struct tt_rma rma = {.local = p->mem[1] + i * 8 + head,
			     .len = 8,
			     .mr = p->mr[1],
			     .head = p->mem[1] + i * 8,
			     .head_len = head,
			     .head_mr = p->mr[1],
			     .remote = (uint64_t)(uintptr_t)(p->mem[0] + i * 8),
			     .rkey = &p->mr[0]->rkey,
			     .user = p};

	return p->ep[1]->ops->get(p->ep[1], &rma);
}

static void test_flips(void)
{
	struct pair p;
	uint32_t i;

	flip_puts(&loop_transport, "flip=1,finish=1", PUTS);
	flip_puts(&loop_transport, "flip=1,hold=0.5,finish=1", PUTS);
	flip_puts(&loop_transport, "flip_after=7,finish=1", 1);
	flip_puts(&loop_transport, "flip=1,finish=1,rank=0", PUTS);
	flip_puts(&loop_transport, "flip=1,finish=1,rank=1", 0);
	pair_open(&p, &loop_transport, NULL, "flip=1,finish=1");
	fill(&p);
	for (i = 0; i < 50; i++)
		TT_CHECK(get8(&p, i) == TT_STARTED);
	UNTIL(&p, count(&p, 1, TT_EV_DONE) == 50);
	TT_CHECK(flipped_bits(p.mem[0], p.mem[1], 400) == 50);
	pair_close(&p);
}

static const struct tt_test tests[] = {{"spec_values", test_spec_values},
				       {"spec_errors", test_spec_errors},
				       {"seed_reproduces", test_seed_reproduces},
				       {"notes_overtake", test_notes_overtake},
				       {"delay_keeps_awake", test_delay_keeps_awake},
				       {"delay_is_bounded", test_delay_is_bounded},
				       {"messages_stay_valid", test_messages_stay_valid},
				       {"error_after", test_error_after},
				       {"error_probability", test_error_probability},
				       {"down_is_last", test_down_is_last},
				       {"close_with_held_events", test_close_with_held_events},
				       {"die_after", test_die_after},
				       {"finish", test_finish},
				       {"flips", test_flips},
				       {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("fault", tests, argc, argv);
}
