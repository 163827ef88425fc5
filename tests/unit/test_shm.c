/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transport shm beyond the conformance suite: here both ends are in one process, so that every
 * interleaving is chosen by the test; test_shm_procs.c has the processes.
 */
#include "tests/unit/test_shm.h"
#include "lib/base/clock.h"
#include "transports/shm/shm.h"

#include <dirent.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* Offsets of these in an endpoint's address. */
#define BLOB_UID 36
#define BLOB_RING 44

#define LINES shm_ring_lines(0)

/* Two transports of this process, connected. */
struct pair {
	struct tt_tp *tp[2];
	struct end end[2];
};

static void pump(struct pair *p)
{
	end_poll(p->tp[0], &p->end[0], 64);
	end_poll(p->tp[1], &p->end[1], 64);
}

static bool pair_new(struct pair *p)
{
	memset(p, 0, sizeof(*p));
	if (tp_new(1, &p->tp[0]) || tp_new(2, &p->tp[1]) || end_open(&p->end[0], p->tp[0]) ||
	    end_open(&p->end[1], p->tp[1]))
		return false;
	if (end_connect(&p->end[0], &p->end[1], true) || end_connect(&p->end[1], &p->end[0], false))
		return false;
	pump(p);
	return p->end[0].up == 1 && p->end[1].up == 1;
}

static void end_close(struct end *e)
{
	if (e->ep)
		tt_shm_tp.ep_close(e->ep);
	e->ep = NULL;
}

static void pair_free(struct pair *p)
{
	int i;

	for (i = 0; i < 2; i++)
		end_close(&p->end[i]);
	for (i = 0; i < 2; i++)
		tt_shm_tp.close(p->tp[i]);
}

static int count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* How often memory named so is mapped in this process. */
static int count_maps(const char *name)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	int n = 0;

	while (fgets(line, sizeof(line), f))
		n += strstr(line, name) != NULL;
	fclose(f);
	return n;
}

static void test_leaves_nothing(void)
{
	int fds = count_fds(), maps = count_maps("memfd:tutti");
	struct pair p;
	struct memory m;
	void *ptr;

	TT_REQUIRE(pair_new(&p));
	TT_REQUIRE(!memory_new(&m, p.tp[1], 8192, true, TT_ACCESS_READ | TT_ACCESS_WRITE));
	TT_CHECK(put(&p.end[0], "x", 1, addr_of(&m), &m.mr->rkey, 7) == TT_FINISHED);
	TT_CHECK(!p.end[0].ep->ops->map(p.end[0].ep, addr_of(&m), 8192, &m.mr->rkey, &ptr));
	memory_free(&m);
	pair_free(&p);
	TT_CHECK(count_fds() == fds);
	TT_CHECK(count_maps("memfd:tutti") == maps);
	TT_CHECK(count_maps("shm-test-region") == 0);
}

static void test_full_ring(void)
{
	char byte = 1;
	struct pair p;
	struct memory m;
	int i;

	TT_REQUIRE(pair_new(&p));
	TT_REQUIRE(!memory_new(&m, p.tp[1], 4096, true, TT_ACCESS_WRITE));
	for (i = 0;
	     put(&p.end[0], &byte, 1, addr_of(&m), &m.mr->rkey, i) == TT_FINISHED && i < 9999; i++)
		;
	TT_CHECK(i == (int)LINES - 1);
	/* nothing is copied when there is no room for the note, but without a note there is room */
	TT_CHECK(put(&p.end[0], &byte, 1, addr_of(&m) + 1, &m.mr->rkey, 0) == -EAGAIN);
	TT_CHECK(((char *)m.mem.addr)[1] == 0);
	TT_CHECK(put(&p.end[0], &byte, 1, addr_of(&m) + 2, &m.mr->rkey, -1) == TT_FINISHED);
	TT_CHECK(((char *)m.mem.addr)[2] == 1);
	TT_CHECK(p.end[0].ep->ops->msg(p.end[0].ep, &byte, 1) == -EAGAIN);
	while (end_poll(p.tp[1], &p.end[1], 5))
		;
	TT_CHECK(p.end[1].notes == (int)LINES - 1 && p.end[1].last_note == LINES - 2);
	TT_CHECK(p.end[0].ep->ops->msg(p.end[0].ep, &byte, 1) == TT_FINISHED);
	pump(&p);
	TT_CHECK(p.end[1].msgs == 1 && p.end[1].last_msg[0] == 1);
	memory_free(&m);
	pair_free(&p);
}

static bool untouched(const struct memory *m)
{
	size_t i;

	for (i = 0; i < m->maplen; i++)
		if (m->map[i])
			return false;
	return true;
}

static void check_bounds(struct pair *p, bool memfd)
{
	char src[64], dst[64];
	struct tt_rkey bad;
	struct end *e = &p->end[0];
	struct memory m;
	uint64_t a;

	memset(src, 'x', sizeof(src));
	TT_REQUIRE(!memory_new(&m, p->tp[1], 1000, memfd, TT_ACCESS_READ | TT_ACCESS_WRITE));
	a = addr_of(&m);
	TT_CHECK(put(e, src, 8, a - 1, &m.mr->rkey, 1) == -EFAULT);
	TT_CHECK(put(e, src, 8, a - 8, &m.mr->rkey, 1) == -EFAULT);
	TT_CHECK(put(e, src, 8, a + 993, &m.mr->rkey, 1) == -EFAULT);
	TT_CHECK(put(e, src, 8, a + 1000, &m.mr->rkey, 1) == -EFAULT);
	TT_CHECK(put(e, src, 8, 0, &m.mr->rkey, 1) == -EFAULT);
	TT_CHECK(put(e, src, 8, UINT64_MAX - 3, &m.mr->rkey, 1) == -EFAULT);
	TT_CHECK(put(e, src, SIZE_MAX, a + 1, &m.mr->rkey, 1) == -EFAULT);
	TT_CHECK(get(e, dst, 8, a - 1, &m.mr->rkey) == -EFAULT);
	TT_CHECK(get(e, dst, 8, a + 993, &m.mr->rkey) == -EFAULT);
	bad = m.mr->rkey;
	bad.word[0]++;
	TT_CHECK(put(e, src, 8, a, &bad, 1) == -ESTALE);
	bad = m.mr->rkey;
	bad.word[1]++;
	TT_CHECK(put(e, src, 8, a, &bad, 1) == -ESTALE);
	bad.word[1] = UINT64_MAX;
	TT_CHECK(put(e, src, 8, a, &bad, 1) == -ESTALE);
	memset(&bad, 0, sizeof(bad));
	TT_CHECK(put(e, src, 8, a, &bad, 1) == -ESTALE);
	pump(p);
	TT_CHECK(untouched(&m) && p->end[1].notes == 0);
	/* the very edges */
	TT_CHECK(put(e, src, 8, a, &m.mr->rkey, -1) == TT_FINISHED);
	TT_CHECK(put(e, src, 8, a + 992, &m.mr->rkey, -1) == TT_FINISHED);
	TT_CHECK(get(e, dst, 8, a + 992, &m.mr->rkey) == TT_FINISHED && !memcmp(src, dst, 8));
	TT_CHECK(m.map[PAGE - 1] == 0 && m.map[PAGE] == 'x' && m.map[PAGE + 7] == 'x');
	TT_CHECK(m.map[PAGE + 8] == 0 && m.map[PAGE + 999] == 'x' && m.map[PAGE + 1000] == 0);
	memory_free(&m);
}

static void check_stale(struct pair *p, bool memfd)
{
	struct tt_rkey old;
	struct memory m, next;
	uint64_t a;

	TT_REQUIRE(!memory_new(&m, p->tp[1], 4096, memfd, TT_ACCESS_WRITE));
	a = addr_of(&m);
	old = m.mr->rkey;
	TT_CHECK(put(&p->end[0], "abc", 3, a, &old, -1) == TT_FINISHED);
	TT_CHECK(get(&p->end[0], &next, 3, a, &old) == -EACCES);
	tt_shm_tp.dereg(m.mr);
	m.mr = NULL;
	memset(m.mem.addr, 0, 4096);
	TT_CHECK(put(&p->end[0], "abc", 3, a, &old, 1) == -ESTALE);
	/* another region takes its place in the table */
	TT_REQUIRE(!memory_new(&next, p->tp[1], 4096, memfd, TT_ACCESS_WRITE));
	TT_CHECK(next.mr->rkey.word[1] == old.word[1]);
	TT_CHECK(put(&p->end[0], "abc", 3, a, &old, 1) == -ESTALE);
	TT_CHECK(put(&p->end[0], "abc", 3, a, &next.mr->rkey, 1) == -EFAULT);
	TT_CHECK(untouched(&m) && untouched(&next));
	TT_CHECK(put(&p->end[0], "abc", 3, addr_of(&next), &next.mr->rkey, -1) == TT_FINISHED);
	TT_CHECK(!memcmp(next.mem.addr, "abc", 3));
	memory_free(&m);
	memory_free(&next);
}

static void test_bounds(void)
{
	struct pair p;

	TT_REQUIRE(pair_new(&p));
	check_bounds(&p, true);
	check_stale(&p, true);
	if (p.tp[0]->caps & TT_CAP_REG_ANY) {
		check_bounds(&p, false);
		check_stale(&p, false);
	}
	pair_free(&p);
}

static void test_gone_regions_are_unmapped(void)
{
	struct pair p;
	struct memory a, b;
	void *ptr = NULL;

	TT_REQUIRE(pair_new(&p));
	TT_REQUIRE(!memory_new(&a, p.tp[1], 8192, true, TT_ACCESS_WRITE));
	TT_REQUIRE(!memory_new(&b, p.tp[1], 8192, true, TT_ACCESS_READ | TT_ACCESS_WRITE));
	TT_CHECK(put(&p.end[0], "x", 1, addr_of(&a), &a.mr->rkey, -1) == TT_FINISHED);
	TT_CHECK(!p.end[0].ep->ops->map(p.end[0].ep, addr_of(&b) + 8, 8, &b.mr->rkey, &ptr));
	TT_CHECK(count_maps("shm-test-region") == 4);
	tt_shm_tp.dereg(a.mr);
	tt_shm_tp.dereg(b.mr);
	a.mr = b.mr = NULL;
	pump(&p);
	/* what map() gave out stays until the endpoint is closed */
	TT_CHECK(count_maps("shm-test-region") == 3);
	((char *)b.mem.addr)[8] = 'q';
	TT_CHECK(*(char *)ptr == 'q');
	memory_free(&a);
	TT_REQUIRE(!memory_new(&a, p.tp[1], 8192, true, TT_ACCESS_WRITE));
	TT_CHECK(put(&p.end[0], "x", 1, addr_of(&a), &a.mr->rkey, -1) == TT_FINISHED);
	memory_free(&a);
	TT_REQUIRE(!memory_new(&a, p.tp[1], 8192, true, TT_ACCESS_WRITE));
	TT_CHECK(put(&p.end[0], "x", 1, addr_of(&a), &a.mr->rkey, -1) == TT_FINISHED);
	TT_CHECK(*(char *)ptr == 'q');
	memory_free(&a);
	end_close(&p.end[0]);
	TT_CHECK(count_maps("shm-test-region") == 1);
	memory_free(&b);
	pair_free(&p);
}

static void test_closed_ring(void)
{
	struct end b2, b3, a3;
	struct pair p;

	TT_REQUIRE(pair_new(&p));
	TT_CHECK(p.end[1].ep->ops->msg(p.end[1].ep, "last words", 11) == TT_FINISHED);
	end_close(&p.end[1]);
	TT_CHECK(put(&p.end[0], NULL, 0, 0, NULL, 9) == -EPIPE);
	TT_CHECK(p.end[0].ep->ops->msg(p.end[0].ep, "x", 1) == -EPIPE);
	pump(&p);
	TT_CHECK(p.end[0].msgs == 1 && !strcmp(p.end[0].last_msg, "last words"));
	TT_CHECK(p.end[0].down == 1);
	pump(&p);
	TT_CHECK(p.end[0].down == 1);
	TT_CHECK(p.end[0].ep->ops->msg(p.end[0].ep, "x", 1) == -EPIPE);
	TT_CHECK(strstr(tt_fail_text(-EPIPE), "closed the connection") != NULL);

	/*
	 * end[0] may still push into the ring of end[1]: it must not be given to another endpoint
	 */
	TT_REQUIRE(!end_open(&b2, p.tp[1]));
	TT_CHECK(memcmp(b2.blob + BLOB_RING, p.end[1].blob + BLOB_RING, 4) != 0);
	/* now it may, but the address of before is refused */
	end_close(&p.end[0]);
	TT_REQUIRE(!end_open(&b3, p.tp[1]));
	TT_CHECK(!memcmp(b3.blob + BLOB_RING, p.end[1].blob + BLOB_RING, 4));
	TT_REQUIRE(!end_open(&a3, p.tp[0]));
	TT_CHECK(end_connect(&a3, &p.end[1], true) == -ECONNREFUSED);
	TT_CHECK(!end_connect(&a3, &b3, true) && !end_connect(&b3, &a3, false));
	pump(&p);
	TT_CHECK(a3.up == 1 && b3.up == 1);
	TT_CHECK(a3.ep->ops->msg(a3.ep, "hello", 6) == TT_FINISHED);
	pump(&p);
	TT_CHECK(b3.msgs == 1 && !strcmp(b3.last_msg, "hello"));
	end_close(&a3);
	end_close(&b3);
	end_close(&b2);
	pair_free(&p);
}

/* The peer closes before it connects: there is no UP, but DOWN. */
static void test_peer_never_connects(void)
{
	struct end a, b;
	struct tt_tp *tp;
	int i, fd;

	TT_REQUIRE(!tp_new(3, &tp));
	TT_REQUIRE(!end_open(&a, tp) && !end_open(&b, tp));
	TT_CHECK(!end_connect(&a, &b, true));
	TT_CHECK(a.ep->ops->msg(a.ep, "x", 1) == -EAGAIN);
	end_poll(tp, NULL, 64);
	TT_CHECK(tt_shm_tp.arm(tp, &fd) == 0);
	end_close(&b);
	TT_CHECK(tt_shm_tp.arm(tp, &fd) == -EAGAIN);
	for (i = 0; i < 100; i++)
		end_poll(tp, NULL, 64);
	TT_CHECK(a.up == 0 && a.down == 1);
	end_close(&a);
	tt_shm_tp.close(tp);
}

static void test_strangers(void)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct end fake, e;
	struct tt_tp *tp;
	size_t i;

	TT_REQUIRE(!tp_new(4, &tp));
	TT_REQUIRE(!end_open(&e, tp));
	/* every byte of the address matters, except the uid, which is for the message only */
	for (i = 0; i < e.len; i++) {
		if (i >= BLOB_UID && i < BLOB_UID + 4)
			continue;
		fake = e;
		fake.blob[i] = (char)(fake.blob[i] ^ 0x55);
		if (end_connect(&e, &fake, true) >= 0) {
			printf("  byte %zu is not checked\n", i);
			TT_CHECK(false);
			break;
		}
		TT_CHECK(!tutti_last_error(&info) && !strncmp(info.text, "shm: ", 5));
	}
	fake = e;
	fake.len--;
	TT_CHECK(end_connect(&e, &fake, true) == -EINVAL);
	TT_CHECK(!end_connect(&e, &e, true)); /* to itself, why not */
	end_poll(tp, NULL, 64);
	TT_CHECK(e.up == 1);
	TT_CHECK(e.ep->ops->msg(e.ep, "me", 3) == TT_FINISHED);
	end_poll(tp, NULL, 64);
	TT_CHECK(e.msgs == 1);
	end_close(&e);
	tt_shm_tp.close(tp);
}

#define MANY 200
static void test_many_endpoints(void)
{
	struct end *a = calloc(MANY, sizeof(*a)), *b = calloc(MANY, sizeof(*b));
	struct tt_tp *tp[2];
	uint32_t i, round;
	int bad = 0;

	TT_REQUIRE(!tp_new(5, &tp[0]) && !tp_new(6, &tp[1]));
	for (i = 0; i < MANY; i++)
		bad += end_open(&a[i], tp[0]) || end_open(&b[i], tp[1]) ||
		       end_connect(&a[i], &b[i], true) || end_connect(&b[i], &a[i], false);
	TT_CHECK(!bad);
	while (end_poll(tp[0], NULL, 7) + end_poll(tp[1], NULL, 7))
		;
	for (round = 0; round < 30; round++)
		for (i = 0; i < MANY; i += 1 + round % 3)
			bad += a[i].ep->ops->msg(a[i].ep, &i, sizeof(i)) != TT_FINISHED;
	/* a poll with little room starts where the last one stopped: each has its turn */
	for (i = 0; i < MANY; i++)
		end_poll(tp[1], NULL, 16);
	for (i = 0; i < MANY; i++)
		bad += b[i].msgs == 0;
	TT_CHECK(!bad);
	while (end_poll(tp[1], NULL, 3))
		;
	for (i = 0; i < MANY; i++)
		bad += b[i].up != 1 || memcmp(b[i].last_msg, &i, sizeof(i)) ||
		       b[i].msgs != 10 + (i % 2 == 0) * 10 + (i % 3 == 0) * 10;
	TT_CHECK(!bad);
	for (i = 0; i < MANY; i++) {
		tt_shm_tp.ep_close(a[i].ep);
		tt_shm_tp.ep_close(b[i].ep);
	}
	tt_shm_tp.close(tp[0]);
	tt_shm_tp.close(tp[1]);
	free(a);
	free(b);
}

static bool readable(int fd)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};

	return poll(&pfd, 1, 0) == 1;
}

static void test_arm(void)
{
	struct pair p;
	int fd = -1;

	TT_REQUIRE(pair_new(&p));
	/* an arrival after the last poll keeps the thread awake */
	pump(&p);
	TT_CHECK(put(&p.end[0], NULL, 0, 0, NULL, 1) == TT_FINISHED);
	TT_CHECK(tt_shm_tp.arm(p.tp[1], &fd) == -EAGAIN && fd == -1);
	/* and so do events left by a poll */
	TT_CHECK(put(&p.end[0], NULL, 0, 0, NULL, 2) == TT_FINISHED);
	TT_CHECK(end_poll(p.tp[1], &p.end[1], 1) == 1);
	TT_CHECK(tt_shm_tp.arm(p.tp[1], &fd) == -EAGAIN);
	pump(&p);
	TT_CHECK(tt_shm_tp.arm(p.tp[1], &fd) == 0 && !readable(fd));
	TT_CHECK(put(&p.end[0], NULL, 0, 0, NULL, 3) == TT_FINISHED && readable(fd));
	TT_CHECK(end_poll(p.tp[1], &p.end[1], 1) == 1 && !readable(fd));
	pump(&p);
	/* not asleep: no process writes to the pipe */
	TT_CHECK(put(&p.end[0], NULL, 0, 0, NULL, 4) == TT_FINISHED && !readable(fd));
	pump(&p);
	TT_CHECK(tt_shm_tp.arm(p.tp[1], &fd) == 0);
	end_close(&p.end[0]);
	TT_CHECK(readable(fd));
	pair_free(&p);
}

static int brief(struct end *e, const char *text)
{
	return e->ep->ops->brief(e->ep, text, 2, text + 2, strlen(text) - 1);
}

/* Brief messages in order with notes, by events and by peek. */
static void test_brief(void)
{
	char text[TT_TP_BRIEF_MAX];
	const void *data;
	struct pair p;
	size_t len;
	int i, n;

	TT_REQUIRE(pair_new(&p));
	TT_CHECK(p.end[1].ep->ops->peek(p.end[1].ep, &data, &len) == TT_PEEK_NOTHING);
	TT_CHECK(brief(&p.end[0], "one") == TT_FINISHED);
	TT_CHECK(put(&p.end[0], NULL, 0, 0, NULL, 5) == TT_FINISHED);
	TT_CHECK(brief(&p.end[0], "two") == TT_FINISHED);
	TT_CHECK(p.end[1].ep->ops->peek(p.end[1].ep, &data, &len) == TT_PEEK_BRIEF);
	TT_CHECK(len == 4 && !strcmp(data, "one"));
	p.end[1].ep->ops->take(p.end[1].ep);
	TT_CHECK(p.end[1].ep->ops->peek(p.end[1].ep, &data, &len) == TT_PEEK_OTHER);
	pump(&p);
	TT_CHECK(p.end[1].notes == 1 && p.end[1].briefs == 1 && p.end[1].brief_len == 4);
	TT_CHECK(!strcmp(p.end[1].last_brief, "two"));
	memset(text, 'x', sizeof(text));
	TT_CHECK(p.end[0].ep->ops->brief(p.end[0].ep, text, 24, text + 24, sizeof(text) - 24) ==
		 TT_FINISHED);
	pump(&p);
	TT_CHECK(p.end[1].brief_len == sizeof(text) &&
		 !memcmp(p.end[1].last_brief, text, sizeof(text)));
	for (n = 0; brief(&p.end[0], "abc") == TT_FINISHED; n++)
		;
	TT_CHECK(n == (int)LINES - 1);
	for (i = 0; i < n; i++) {
		TT_CHECK(p.end[1].ep->ops->peek(p.end[1].ep, &data, &len) == TT_PEEK_BRIEF);
		p.end[1].ep->ops->take(p.end[1].ep);
	}
	TT_CHECK(brief(&p.end[0], "abc") == TT_FINISHED);
	pair_free(&p);
}

/*
 * A long message leaves words in the ring that are the numbers of the next entries there. No entry
 * may be taken before it is published.
 */
static void test_old_lines(void)
{
	static char text[TT_TP_BRIEF_MAX];
	uint32_t line, number;
	struct pair p;

	TT_REQUIRE(pair_new(&p));
	pump(&p);
	for (line = 1; line < shm_entry_lines(sizeof(text)); line++) {
		number = LINES + line + 1;
		memcpy(text + line * SHM_LINE - SHM_ENTRY_HEAD, &number, sizeof(number));
	}
	TT_CHECK(p.end[0].ep->ops->brief(p.end[0].ep, text, 24, text + 24, sizeof(text) - 24) ==
		 TT_FINISHED);
	TT_CHECK(end_poll(p.tp[1], &p.end[1], 5) == 1 &&
		 !memcmp(p.end[1].last_brief, text, sizeof(text)));
	for (; line < 2 * LINES; line++) {
		TT_CHECK(end_poll(p.tp[1], &p.end[1], 5) == 0);
		TT_CHECK(put(&p.end[0], NULL, 0, 0, NULL, (int)line) == TT_FINISHED);
		TT_CHECK(end_poll(p.tp[1], &p.end[1], 5) == 1 && p.end[1].last_note == line);
	}
	pair_free(&p);
}

/* Sends a message of n bytes, numbered k; false: the ring is full. */
static bool numbered(struct end *end, int k, size_t n)
{
	static char text[TT_TP_BRIEF_MAX];

	memset(text, k, n);
	memcpy(text, &k, sizeof(k));
	return end->ep->ops->brief(end->ep, text, sizeof(k), text + sizeof(k), n - sizeof(k)) ==
	       TT_FINISHED;
}

static size_t numbered_len(int k)
{
	return 4 + (size_t)k * 7919 % (k % 3 ? 100 : TT_TP_BRIEF_MAX - 3);
}

/* Takes `most` of those that wait, from *got on. */
static void take_numbered(struct pair *p, int *got, int most)
{
	const struct end *end = &p->end[1];
	char text[TT_TP_BRIEF_MAX];

	for (; most && end_poll(p->tp[1], &p->end[1], 1); most--, (*got)++) {
		memset(text, *got, sizeof(text));
		memcpy(text, got, sizeof(*got));
		if (end->brief_len != numbered_len(*got) ||
		    memcmp(end->last_brief, text, end->brief_len))
			TT_CHECK(!"another message");
	}
}

/* Bursts of all lengths, taken at once, in part, or only when the ring is full. */
static void test_turns(void)
{
	int put = 0, got = 0, burst, most;
	uint32_t farthest = 0;
	struct shm_ep *ep;
	struct pair p;

	TT_REQUIRE(pair_new(&p));
	pump(&p);
	ep = (struct shm_ep *)p.end[0].ep;
	for (; put < 300; put++) { /* the consumer keeps up */
		TT_CHECK(numbered(&p.end[0], put, numbered_len(put)));
		take_numbered(&p, &got, 9);
		farthest = ep->head.line > farthest ? ep->head.line : farthest;
	}
	TT_CHECK(got == put && farthest < SHM_TURN);
	for (burst = 0; burst < 3000; burst++) {
		most = burst * 7 % 300;
		for (; most && numbered(&p.end[0], put, numbered_len(put)); most--, put++)
			farthest = ep->head.line > farthest ? ep->head.line : farthest;
		take_numbered(&p, &got, burst % 5 ? burst * 11 % 200 : put - got);
	}
	take_numbered(&p, &got, put - got);
	TT_CHECK(got == put && farthest > 2 * SHM_TURN);
	pair_free(&p);
}

/* The line that an entry of end `from` was written to, of n bytes, taken at once; -1: it was not.
 */
static int one_line(struct pair *p, int from, size_t n)
{
	static char text[TT_TP_BRIEF_MAX];
	struct shm_ep *ep = (struct shm_ep *)p->end[from].ep;
	int line = (int)ep->head.line;

	if (ep->ep.ops->brief(&ep->ep, text, 4, text + 4, n - 4) != TT_FINISHED ||
	    end_poll(p->tp[!from], &p->end[!from], 1) != 1)
		return -1;
	return line;
}

static int farthest_line(struct pair *p, int entries, bool answered, size_t n)
{
	int i, line, most = 0;

	for (i = 0; i < entries; i++) {
		line = one_line(p, 0, n);
		TT_CHECK(line >= 0);
		most = line > most ? line : most;
		if (answered && i % 32)
			TT_CHECK(one_line(p, 1, n) >= 0);
	}
	return most;
}

/* Entries that answer each other stay within a few lines, unless they are long. */
static void test_answers(void)
{
	struct pair p;

	TT_REQUIRE(pair_new(&p));
	pump(&p);
	farthest_line(&p, 100, true, 200);
	TT_CHECK(farthest_line(&p, 500, true, 200) <= SHM_TURN_SOON + 4);
	TT_CHECK(farthest_line(&p, 500, true, 4100) <= 2 * SHM_TURN_SOON + 4);
	TT_CHECK(farthest_line(&p, 500, true, TT_TP_BRIEF_MAX) > SHM_TURN / 2);
	TT_CHECK(farthest_line(&p, 3000, false, 200) > SHM_TURN / 2);
	TT_CHECK(farthest_line(&p, 3000, false, 200) <= SHM_TURN + 4);
	pair_free(&p);
}

/* A watched ring needs no bell: polls and sleeps look at its entries. */
static void test_watch(void)
{
	struct shm_tp *tp;
	struct pair p;
	int fd = -1;

	TT_REQUIRE(pair_new(&p));
	tp = (struct shm_tp *)p.tp[1];
	TT_CHECK(brief(&p.end[0], "one") == TT_FINISHED && tp->head->sum);
	pump(&p);
	TT_CHECK(tp->nwatched == 1);
	TT_CHECK(brief(&p.end[0], "two") == TT_FINISHED && !tp->head->sum);
	TT_CHECK(tt_shm_tp.arm(p.tp[1], &fd) == -EAGAIN);
	pump(&p);
	TT_CHECK(p.end[1].briefs == 2);
	TT_CHECK(tt_shm_tp.arm(p.tp[1], &fd) == 0 && !readable(fd));
	TT_CHECK(brief(&p.end[0], "three") == TT_FINISHED && readable(fd));
	pump(&p);
	TT_CHECK(p.end[1].briefs == 3);
	/* its end is noticed, and the watch ends with the endpoint */
	end_close(&p.end[0]);
	pump(&p);
	TT_CHECK(p.end[1].down == 1);
	end_close(&p.end[1]);
	TT_CHECK(tp->nwatched == 0);
	pair_free(&p);
}

/* More rings than a process watches: a new one takes the place of one that is quiet for long. */
static void test_watch_many(void)
{
	enum { PAIRS = SHM_WATCHED + 2 };
	struct end a[PAIRS], b[PAIRS];
	struct tt_tp *ta, *tb;
	struct shm_tp *tp;
	int i, k, fd;

	TT_REQUIRE(!tp_new(1, &ta) && !tp_new(2, &tb));
	tp = (struct shm_tp *)tb;
	for (i = 0; i < PAIRS; i++) {
		TT_REQUIRE(!end_open(&a[i], ta) && !end_open(&b[i], tb));
		TT_REQUIRE(!end_connect(&a[i], &b[i], true) && !end_connect(&b[i], &a[i], false));
	}
	end_poll(ta, &a[0], 64);
	end_poll(tb, &b[0], 64);
	for (k = 0; k < 3; k++)
		for (i = 0; i < PAIRS; i++) {
			TT_CHECK(brief(&a[i], "abc") == TT_FINISHED);
			end_poll(tb, &b[0], 64);
			TT_CHECK(b[i].briefs == k + 1);
		}
	TT_CHECK(tp->nwatched == SHM_WATCHED);
	for (i = 0; i < SHM_WATCH_POLLS; i++)
		end_poll(tb, &b[0], 64);
	/* the first in line; its entry is taken although its watch ends now */
	TT_CHECK(brief(&a[PAIRS - 1], "new") == TT_FINISHED);
	TT_CHECK(brief(&a[0], "old") == TT_FINISHED);
	end_poll(tb, &b[0], 64);
	TT_CHECK(b[PAIRS - 1].briefs == 4 && b[0].briefs == 4);
	TT_CHECK(b[PAIRS - 1].ep && tp->nwatched == SHM_WATCHED);
	TT_CHECK(atomic_load(
		&shm_ring_at(tp->seg, ((struct shm_ep *)b[PAIRS - 1].ep)->index)->watched));
	for (k = 0; k < 2; k++)
		for (i = 0; i < PAIRS; i++) {
			TT_CHECK(tt_shm_tp.arm(tb, &fd) == 0 && !readable(fd));
			TT_CHECK(brief(&a[i], "abc") == TT_FINISHED && readable(fd));
			end_poll(tb, &b[0], 64);
			TT_CHECK(b[i].briefs == (i && i < PAIRS - 1 ? 4 : 5) + k);
		}
	for (i = 0; i < PAIRS; i++) {
		end_close(&a[i]);
		end_close(&b[i]);
	}
	tt_shm_tp.close(ta);
	tt_shm_tp.close(tb);
}

static void test_atomics(void)
{
	_Atomic uint64_t *word;
	uint64_t old = 0;
	struct pair p;
	struct memory m;
	struct tt_amo amo = {.op = TT_AMO_ADD, .operand = 5, .result = &old};

	TT_REQUIRE(pair_new(&p));
	TT_REQUIRE(!memory_new(&m, p.tp[1], 16, true, TT_ACCESS_WRITE));
	word = m.mem.addr;
	atomic_store(word, 37);
	amo.remote = addr_of(&m);
	amo.rkey = &m.mr->rkey;
	TT_CHECK(p.end[0].ep->ops->amo(p.end[0].ep, &amo) == TT_FINISHED);
	TT_CHECK(old == 37 && atomic_load(word) == 42);
	amo.op = TT_AMO_CAS;
	amo.compare = 41;
	TT_CHECK(p.end[0].ep->ops->amo(p.end[0].ep, &amo) == TT_FINISHED);
	TT_CHECK(old == 42 && atomic_load(word) == 42);
	amo.compare = 42;
	TT_CHECK(p.end[0].ep->ops->amo(p.end[0].ep, &amo) == TT_FINISHED);
	TT_CHECK(old == 42 && atomic_load(word) == 5);
	amo.remote += 4;
	TT_CHECK(p.end[0].ep->ops->amo(p.end[0].ep, &amo) == -EINVAL);
	amo.remote += 12;
	TT_CHECK(p.end[0].ep->ops->amo(p.end[0].ep, &amo) == -EFAULT);
	memory_free(&m);
	pair_free(&p);
}

/* Closes the end of a peer that is taken for dead in the middle of a transfer. */
static void lose(struct shm_ep *ep)
{
	atomic_store(&ep->in->state, shm_state(ep->gen, SHM_ATTACHED));
	shm_ring_close(ep);
}

/* All that are lost at a time share one wait. */
static void test_shared_wait(void)
{
	struct shm_tp *tp;
	struct shm_ep *ep;
	struct pair p;
	uint64_t end;
	int i;

	TT_REQUIRE(pair_new(&p));
	tp = (struct shm_tp *)p.tp[0];
	tp->fence_ns = 100 * TT_MS;
	ep = (struct shm_ep *)p.end[0].ep;
	ep->ep.dead = true;
	atomic_store(&ep->in->busy, 1);
	lose(ep);
	end = tp->fence_end;
	TT_CHECK(end && tt_passed(end));
	tp->fence_again = TT_NEVER; /* a slow machine */
	for (i = 0; i < 5; i++) {
		lose(ep);
		TT_CHECK(tp->fence_end == end);
	}
	tp->fence_again = 0;
	lose(ep);
	TT_CHECK(tp->fence_end > end && tt_passed(tp->fence_end));
	end = tp->fence_end;
	tp->fence_again = 0;
	atomic_store(&ep->in->busy, 0);
	lose(ep);
	TT_CHECK(tp->fence_end == end);
	pair_free(&p);
}

static const struct tt_test tests[] = {
	{"leaves_nothing", test_leaves_nothing},
	{"full_ring", test_full_ring},
	{"bounds", test_bounds},
	{"gone_regions_are_unmapped", test_gone_regions_are_unmapped},
	{"closed_ring", test_closed_ring},
	{"peer_never_connects", test_peer_never_connects},
	{"strangers", test_strangers},
	{"many_endpoints", test_many_endpoints},
	{"arm", test_arm},
	{"old_lines", test_old_lines},
	{"turns", test_turns},
	{"answers", test_answers},
	{"brief", test_brief},
	{"watch", test_watch},
	{"watch_many", test_watch_many},
	{"atomics", test_atomics},
	{"ping_pong", test_ping_pong},
	{"sleeping", test_sleeping},
	{"arming", test_arming},
	{"sleeping_threads", test_sleeping_threads},
	{"user_memory", test_user_memory},
	{"no_process_vm", test_no_process_vm},
	{"killed_peer", test_killed_peer},
	{"killed_while_writing", test_killed_while_writing},
	{"marked", test_marked},
	{"fences", test_fences},
	{"shared_wait", test_shared_wait},
	{NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("shm", tests, argc, argv);
}
