/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transport ofi on msg:tcp, rdm:tcp;ofi_rxm and rdm:sockets: both ends in one process, and in two.
 * Errors are in test_ofi_ends.c. Speeds are printed and never asserted.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/hash.h"
#include "tests/test.h"
#include "tests/unit/ofi_side.h"

/* Sizes 0 to 1 MiB: small ones often, so that ten thousand of them pass quickly. */
static size_t size_of(uint32_t i)
{
	uint64_t h = tt_mix64(i + 1);
	unsigned a = h % 21, b = (h >> 8) % 21, c = (h >> 16) % 21;
	unsigned bits = a < b ? (a < c ? a : c) : (b < c ? b : c);

	if (i % 1000 == 999)
		return SLOT;
	return i % 16 == 0 ? 0 : ((h >> 24) & ((2ul << bits) - 1)) % (SLOT + 1);
}

static void fill(char *p, size_t len, uint32_t i)
{
	uint64_t w = tt_mix64(i);
	size_t k;

	for (k = 0; k + 8 <= len; k += 8, w += 0x9e3779b97f4a7c15ull)
		memcpy(p + k, &w, 8);
	memcpy(p + k, &w, len - k);
}

static bool filled(const char *p, size_t len, uint32_t i)
{
	uint64_t w = tt_mix64(i);
	size_t k;

	for (k = 0; k + 8 <= len; k += 8, w += 0x9e3779b97f4a7c15ull)
		if (memcmp(p + k, &w, 8))
			return false;
	return !memcmp(p + k, &w, len - k);
}

/* Put number i goes to a slot the target has given back; slots are named by the credit notes. */
struct origin {
	uint32_t next;
	int credits[SLOTS], ncredits;
};

static int origin_step(struct side *s, struct origin *o, uint32_t total, struct side *other)
{
	uint32_t note, i = o->next;
	int slot;

	while (take_note(s, &note))
		o->credits[o->ncredits++] = (int)note;
	if (i == total || !o->ncredits)
		return 0;
	slot = o->credits[--o->ncredits];
	fill(s->mem + (size_t)(SLOTS + slot) * SLOT, size_of(i), i);
	o->next++;
	return put(s, slot, size_of(i), i * SLOTS + slot, TT_RMA_NOTE, other);
}

static int target_step(struct side *s, uint8_t *seen, uint32_t *arrived, struct side *other)
{
	uint32_t note, i, slot;
	int rc = 0;

	while (!rc && take_note(s, &note)) {
		i = note / SLOTS;
		slot = note % SLOTS;
		if (seen[i]++ || !filled(s->mem + (size_t)slot * SLOT, size_of(i), i))
			return -EILSEQ;
		++*arrived;
		rc = put(s, (int)slot, 0, slot, TT_RMA_NOTE, other);
	}
	return rc;
}

static void both_here(const struct config *c)
{
	uint32_t total = c == &rdm_sockets ? 300 : 2000;
	struct origin o = {.credits = {0, 1, 2, 3, 4, 5, 6, 7}, .ncredits = SLOTS};
	uint8_t *seen = calloc(total, 1);
	uint32_t arrived = 0;
	struct side s[2];
	int rc = pair_open(s, c);

	if (!rc)
		WAIT_FOR(rc || arrived == total, 20000, {
			pump(&s[0]);
			pump(&s[1]);
			rc = origin_step(&s[0], &o, total, &s[1]);
			if (!rc)
				rc = target_step(&s[1], seen, &arrived, &s[0]);
		});
	TT_CHECK(rc == 0);
	TT_CHECK(arrived == total);
	TT_CHECK(rc ||
		 WAIT_FOR(s[0].done == (int)total && s[1].done == (int)total, 5000, pump(&s[0]);
			  pump(&s[1])));
	TT_CHECK(!s[0].failed && !s[1].failed && !s[0].stray && !s[1].stray);
	TT_CHECK(!s[0].down && !s[1].down);
	pair_close(s);
	free(seen);
}
EACH(both_here)

static int stream_rank(int rank, int n, void *arg)
{
	struct origin o = {.credits = {0, 1, 2, 3, 4, 5, 6, 7}, .ncredits = SLOTS};
	const struct side_job *job = arg;
	uint32_t arrived = 0, total = job->puts;
	uint8_t *seen = calloc(total, 1);
	struct side s;

	TT_EXPECT(!side_start(&s, job, rank));
	if (rank == 0)
		while (o.next < total) {
			pump(&s);
			TT_EXPECT(!origin_step(&s, &o, total, NULL));
		}
	else
		while (arrived < total) {
			pump(&s);
			TT_EXPECT(!target_step(&s, seen, &arrived, NULL));
		}
	TT_EXPECT(WAIT_FOR(s.done == (int)total, 5000, pump(&s)));
	TT_EXPECT(!s.down); /* the other rank may be first to meet, and close */
	TT_EXPECT(!side_meet(job, rank, &s));
	TT_EXPECT(!s.failed && !s.stray);
	side_close(&s);
	free(seen);
	return 0;
}

static void two_processes(const struct config *c)
{
	struct side_job job = {.c = c,
			       .puts = c == &rdm_sockets ? 500 : 10000}; /* sockets sleeps */

	TT_CHECK(side_two(stream_rank, &job, 60000, 0) == 0);
}
EACH(two_processes)

static void get_msg_amo(const struct config *c)
{
	char text[TT_TP_MSG_MAX];
	uint64_t old = 0, *word, step = 5;
	struct tt_rma rma = {.len = SLOT};
	struct side s[2];
	int i;

	TT_REQUIRE(!pair_open(s, c));
	fill(s[1].mem, SLOT, 7);
	rma.local = s[0].mem + SLOTS * SLOT;
	rma.mr = s[0].mr;
	rma.remote = s[0].remote;
	rma.rkey = &s[0].rkey;
	rma.user = &s[0];
	/* rdm connects behind the scenes, with -EAGAIN until then */
	TT_CHECK(WAIT_FOR(s[0].ep->ops->get(s[0].ep, &rma) == TT_STARTED, 5000, pump(&s[0]);
			  pump(&s[1])));
	TT_CHECK(WAIT_FOR(s[0].done == 1, 5000, pump(&s[0]); pump(&s[1])));
	TT_CHECK(filled(rma.local, SLOT, 7));
	for (i = 0; i < 300; i++) {
		size_t len = i % (TT_TP_MSG_MAX + 1);
		int rc;

		fill(text, len, i);
		rc = WAIT_FOR((rc = s[i % 2].ep->ops->msg(s[i % 2].ep, text, len)) != -EAGAIN, 5000,
			      pump(&s[0]);
			      pump(&s[1]));
		TT_CHECK(rc);
		TT_CHECK(WAIT_FOR(s[!(i % 2)].msgs == i / 2 + 1, 5000, pump(&s[0]); pump(&s[1])));
		TT_REQUIRE(s[!(i % 2)].msg_len == len && filled(s[!(i % 2)].msg, len, i));
	}
	TT_CHECK(s[0].ep->ops->msg(s[0].ep, rma.local, TT_TP_MSG_MAX + 1) == -EMSGSIZE);
	printf("  %s: caps %#x, %s\n", c->name, s[0].tp->caps, s[0].tp->detail);
	if (s[0].tp->caps & TT_CAP_AMO) {
		struct tt_amo amo = {.operand = step,
				     .result = &old,
				     .remote = s[0].remote,
				     .rkey = &s[0].rkey,
				     .user = &s[0]};

		word = (uint64_t *)s[1].mem;
		*word = 37;
		TT_CHECK(s[0].ep->ops->amo(s[0].ep, &amo) == TT_STARTED);
		TT_CHECK(WAIT_FOR(s[0].done == 2, 5000, pump(&s[0]); pump(&s[1])));
		TT_CHECK(old == 37 && *word == 42);
		amo.op = TT_AMO_CAS;
		amo.compare = 42;
		amo.operand = 1000;
		TT_CHECK(s[0].ep->ops->amo(s[0].ep, &amo) == TT_STARTED);
		TT_CHECK(WAIT_FOR(s[0].done == 3, 5000, pump(&s[0]); pump(&s[1])));
		TT_CHECK(old == 42 && *word == 1000);
	}
	TT_CHECK(!s[0].failed && !s[1].failed);
	pair_close(s);
}
EACH(get_msg_amo)

/* Notes go back and forth between ends that sleep: none may be slept through. */
static int sleep_rank(int rank, int n, void *arg)
{
	const struct side_job *job = arg;
	int i, idle, slept = 0;
	struct side s;
	uint32_t note;

	TT_EXPECT(!side_start(&s, job, rank));
	for (i = 0; i < job->puts; i++) {
		/* now and then a large one, and a pause, so that both really sleep */
		size_t len = i % 50 == 49 ? SLOT : i % 3 * 3000;

		if (i % 97 == 96)
			usleep(2000);
		if (i % 2 == rank) {
			TT_EXPECT(!put(&s, i % SLOTS, len, i, TT_RMA_NOTE, NULL));
			continue;
		}
		while (!take_note(&s, &note)) {
			TT_EXPECT(sleep_pump(&s, 3000) == 0);
			slept++;
		}
		TT_EXPECT(note == (uint32_t)i);
	}
	TT_EXPECT(WAIT_FOR(s.done == job->puts / 2, 5000, TT_EXPECT(!sleep_pump(&s, 3000))));
	TT_EXPECT(!side_meet(job, rank, &s));
	/* With nothing going on a sleep must last. */
	for (idle = 0; idle < 20 && sleep_pump(&s, 30) == 0; idle++)
		;
	TT_EXPECT(idle < 20);
	TT_EXPECT(!side_meet(job, rank, &s));
	side_close(&s);
	return 0;
}

static void sleep_wakes(const struct config *c)
{
	struct side_job job = {.c = c, .puts = 1000};

	TT_CHECK(side_two(sleep_rank, &job, 60000, 0) == 0);
}
EACH(sleep_wakes)

static void no_wildcard(const struct config *c)
{
	struct tt_listeners l;
	struct side s[2];

	TT_REQUIRE(!pair_open(s, c));
	l = tt_find_listeners();
	printf("  %s: %d listeners\n", c->name, l.n);
	TT_CHECK(l.n >= 2);
	TT_CHECK(l.wild == 0);
	pair_close(s);
}
EACH(no_wildcard)

static void devices(void)
{
	struct tt_tp_device dev[16];
	int i, n, usable = 0;
	struct side s;

	TT_REQUIRE(!side_open(&s, &msg_tcp, 0));
	n = tt_ofi_tp.query(&s.params, dev, 16); /* the machine may have more */
	for (i = 0; i < n && i < 16; i++) {
		printf("  %s (%s): %s: %s\n", dev[i].name, dev[i].detail,
		       dev[i].usable ? "usable" : "not usable", dev[i].why);
		TT_CHECK(dev[i].why[0]);
		usable += dev[i].usable;
	}
	TT_CHECK(n >= 1 && usable == 1);
	TT_CHECK(tt_ofi_tp.query(&s.params, dev, 1) == n && dev[0].usable);
	side_close(&s);
}

/* More puts than there is room for: -EAGAIN, and every one that started completes once. */
static void full_queue(const struct config *c)
{
	struct tt_rma rma = {.len = 65536, .flags = TT_RMA_NOTE};
	int rc, started = 0, full = 0;
	struct side s[2];

	TT_REQUIRE(!pair_open(s, c));
	rma.local = s[0].mem + SLOTS * SLOT;
	rma.mr = s[0].mr;
	rma.remote = s[0].remote;
	rma.rkey = &s[0].rkey;
	rma.user = &s[0];
	while (started < 3000) {
		rc = s[0].ep->ops->put(s[0].ep, &rma);
		TT_REQUIRE(rc >= 0 || rc == -EAGAIN);
		if (rc >= 0) {
			started++;
			continue;
		}
		full++;
		pump(&s[0]);
		pump(&s[1]);
		s[1].nhead = s[1].ntail;
	}
	TT_CHECK(full > 0);
	TT_CHECK(WAIT_FOR(s[0].done == started, 10000, pump(&s[0]); pump(&s[1])));
	TT_CHECK(WAIT_FOR((int)s[1].ntail == started, 10000, pump(&s[0]); pump(&s[1])));
	TT_CHECK(!s[0].failed && !s[0].stray);
	pair_close(s);
}
EACH(full_queue)

/* TT_RMA_REMOTE: done here means in place there. The target is made to move last. */
static void confirmed(const struct config *c)
{
	static const size_t len[] = {8, 5000, SLOT};
	struct side s[2];
	int i, k;

	TT_REQUIRE(!pair_open(s, c));
	for (k = 0; k < 6; k++) {
		fill(s[0].mem + SLOTS * SLOT, len[k / 2], k);
		TT_CHECK(!put(&s[0], 0, len[k / 2], k, TT_RMA_REMOTE | k % 2, &s[1]));
		for (i = 0; i < 200; i++) {
			pump(&s[0]);
			TT_CHECK(s[0].done == k || filled(s[1].mem, len[k / 2], k));
		}
		TT_CHECK(WAIT_FOR(s[0].done == k + 1, 5000, pump(&s[1]); pump(&s[0])));
		TT_CHECK(filled(s[1].mem, len[k / 2], k));
	}
	TT_CHECK(WAIT_FOR(s[1].ntail == 3, 5000, pump(&s[1]); pump(&s[0])));
	TT_CHECK(!s[0].failed && s[0].done == 6);
	pair_close(s);
}
EACH(confirmed)

/* Does a get from a target that makes no call complete? It must where the cap says so. */
static int silent_rank(int rank, int n, void *arg)
{
	const struct side_job *job = arg;
	struct tt_rma rma = {.len = 65536};
	struct side s;
	bool came;

	TT_EXPECT(!side_start(&s, job, rank));
	TT_EXPECT(!put(&s, 0, 4096, 1, TT_RMA_NOTE, NULL));
	TT_EXPECT(WAIT_FOR(s.done == 1 && s.ntail == 1, 5000, pump(&s)));
	TT_EXPECT(!side_meet(job, rank, &s));
	if (rank == 1) {
		usleep(1000000);
	} else {
		rma.local = s.mem;
		rma.mr = s.mr;
		rma.remote = s.remote;
		rma.rkey = &s.rkey;
		rma.user = &s;
		usleep(20000);
		TT_EXPECT(s.ep->ops->get(s.ep, &rma) == TT_STARTED);
		came = WAIT_FOR(s.done == 2, 800, pump(&s));
		printf("  %s: a get from a silent target %s\n", job->c->name,
		       came ? "completes" : "waits for it");
		TT_EXPECT(came || !(s.tp->caps & TT_CAP_AUTO_PROGRESS));
		TT_EXPECT(WAIT_FOR(s.done == 2, 3000, pump(&s)));
	}
	TT_EXPECT(!side_meet(job, rank, &s));
	side_close(&s);
	return 0;
}

static void silent_target(const struct config *c)
{
	struct side_job job = {.c = c};

	TT_CHECK(side_two(silent_rank, &job, 20000, 0) == 0);
}
EACH(silent_target)

static int job_pings(const struct side_job *job)
{
	return job->c == &rdm_sockets ? 50 : 2000;
}

static int speed_rank(int rank, int n, void *arg)
{
	const struct side_job *job = arg;
	int i, count = 300, pings = job_pings(arg);
	struct side s;
	uint64_t t0;
	uint32_t note;

	TT_EXPECT(!side_start(&s, job, rank));
	t0 = tt_now_ns();
	for (i = 0; i < count && rank == 0; i++)
		TT_EXPECT(!put(&s, i % SLOTS, SLOT, i, TT_RMA_NOTE, NULL));
	TT_EXPECT(WAIT_FOR(rank ? s.ntail == (unsigned)count : s.done == count, 20000, pump(&s)));
	if (rank)
		TT_EXPECT(!put(&s, 0, 8, 1, TT_RMA_NOTE, NULL));
	TT_EXPECT(WAIT_FOR(rank || s.ntail == 1, 5000, pump(&s)));
	if (!rank)
		printf("  %s: 1 MiB puts: %.0f MB/s\n", job->c->name,
		       (double)count * SLOT * 1e3 / (double)(tt_now_ns() - t0));
	s.nhead = s.ntail;
	TT_EXPECT(!side_meet(job, rank, &s));
	t0 = tt_now_ns();
	for (i = 0; i < pings; i++) {
		if (rank == 0)
			TT_EXPECT(!put(&s, 0, 8, i, TT_RMA_NOTE, NULL));
		TT_EXPECT(WAIT_FOR(take_note(&s, &note), 5000, pump(&s)));
		if (rank == 1)
			TT_EXPECT(!put(&s, 0, 8, i, TT_RMA_NOTE, NULL));
	}
	if (!rank)
		printf("  %s: 8-byte put with note: %.1f us one way\n", job->c->name,
		       (double)(tt_now_ns() - t0) / 2e3 / pings);
	TT_EXPECT(!side_meet(job, rank, &s));
	side_close(&s);
	return 0;
}

static void speed(const struct config *c)
{
	struct side_job job = {.c = c};

	TT_CHECK(side_two(speed_rank, &job, 60000, 0) == 0);
}
EACH(speed)

static const struct tt_test tests[] = {ROWS(both_here),	  ROWS(two_processes), ROWS(get_msg_amo),
				       ROWS(sleep_wakes), ROWS(no_wildcard),   {"devices", devices},
				       ROWS(full_queue),  ROWS(confirmed),     ROWS(silent_target),
				       ROWS(speed),	  {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("ofi", tests, argc, argv);
}
