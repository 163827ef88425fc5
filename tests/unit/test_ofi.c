/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transport ofi on msg:tcp, rdm:tcp;ofi_rxm and rdm:sockets: both ends in one process, and in two.
 * Speeds are printed as information and never judged.
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

static const struct config msg_tcp = {"msg:tcp", "tcp", "msg", NULL};
static const struct config rdm_rxm = {"rdm:tcp;ofi_rxm", "tcp", "rdm", NULL};
static const struct config rdm_sockets = {"rdm:sockets", "sockets", "rdm", NULL};

#define EACH(test) \
	static void test##_msg(void) { test(&msg_tcp); } \
	static void test##_rxm(void) { test(&rdm_rxm); } \
	static void test##_sockets(void) { test(&rdm_sockets); }
#define ROWS(test) \
	{#test "_msg_tcp", test##_msg}, {#test "_rdm_rxm", test##_rxm}, \
		{#test "_rdm_sockets", test##_sockets}

struct job {
	const struct config *c;
	int fd[2];
	int puts;
};

static int run_two(tt_rank_fn *fn, struct job *job, int ms, unsigned killed)
{
	int failed;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, job->fd))
		return -1;
	failed = tt_run_ranks(2, fn, job, ms, killed);
	close(job->fd[0]);
	close(job->fd[1]);
	return failed;
}

/* Start of a rank: keep only the own end of the pair, so that the peer's death shows. */
static int start(struct side *s, const struct job *job, int rank)
{
	close(job->fd[!rank]);
	return remote_open(s, job->c, rank, job->fd[rank]);
}

/* Both ranks come here before either goes on. */
static int meet(const struct job *job, int rank, struct side *s)
{
	struct pollfd p = {.fd = job->fd[rank], .events = POLLIN};
	char c = 1;

	if (write(p.fd, &c, 1) != 1)
		return -1;
	if (!WAIT_FOR(poll(&p, 1, 0) == 1, 10000, pump(s)))
		return -1;
	return read(p.fd, &c, 1) == 1 ? 0 : -1;
}

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
	TT_CHECK(rc || WAIT_FOR(s[0].done == (int)total && s[1].done == (int)total, 5000, pump(&s[0]);
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
	const struct job *job = arg;
	uint32_t arrived = 0, total = job->puts;
	uint8_t *seen = calloc(total, 1);
	struct side s;

	TT_EXPECT(!start(&s, job, rank));
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
	TT_EXPECT(!meet(job, rank, &s));
	TT_EXPECT(!s.failed && !s.stray && !s.down);
	side_close(&s);
	free(seen);
	return 0;
}

static void two_processes(const struct config *c)
{
	struct job job = {.c = c, .puts = c == &rdm_sockets ? 500 : 10000}; /* sockets sleeps */

	TT_CHECK(run_two(stream_rank, &job, 60000, 0) == 0);
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
		struct tt_amo amo = {.operand = step, .result = &old, .remote = s[0].remote,
				     .rkey = &s[0].rkey, .user = &s[0]};

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
	const struct job *job = arg;
	int i, idle, slept = 0;
	struct side s;
	uint32_t note;

	TT_EXPECT(!start(&s, job, rank));
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
	TT_EXPECT(!meet(job, rank, &s));
	/* With nothing going on a sleep must last. */
	for (idle = 0; idle < 20 && sleep_pump(&s, 30) == 0; idle++)
		;
	TT_EXPECT(idle < 20);
	TT_EXPECT(!meet(job, rank, &s));
	side_close(&s);
	return 0;
}

static void sleep_wakes(const struct config *c)
{
	struct job job = {.c = c, .puts = 1000};

	TT_CHECK(run_two(sleep_rank, &job, 60000, 0) == 0);
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

static void wrong_token(void)
{
	struct card card[2], forged;
	struct side s[2];
	int i;

	TT_REQUIRE(!side_open(&s[0], &msg_tcp, 0) && !side_open(&s[1], &msg_tcp, 1));
	tutti_set_log(NULL, NULL, TUTTI_LOG_NONE);
	for (i = 0; i < 2; i++) {
		TT_REQUIRE(!side_ep(&s[0], &card[0]) && !side_ep(&s[1], &card[1]));
		forged = card[i ? 0 : 1];
		forged.blob[8] ^= 1; /* the token */
		/* first the active side, then the passive side knows a wrong one */
		TT_CHECK(!side_connect(&s[0], i ? &card[1] : &forged, 1));
		TT_CHECK(!side_connect(&s[1], i ? &forged : &card[0], 0));
		TT_CHECK(WAIT_FOR(s[0].down, 3000, pump(&s[0]); pump(&s[1])));
		TT_CHECK(s[0].status < 0 && !s[0].up && !s[1].up && !s[1].down);
		s[0].tp->ops->ep_close(s[0].ep);
		s[1].tp->ops->ep_close(s[1].ep);
	}
	tutti_set_log(NULL, NULL, TUTTI_LOG_DEFAULT);
	TT_CHECK(!pair_connect(s));
	pair_close(s);
}

/* Addresses of other versions and other providers are refused with a sentence. */
static void wrong_blob(void)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct card card[2];
	struct side s[2];

	TT_REQUIRE(!side_open(&s[0], &rdm_rxm, 0) && !side_open(&s[1], &rdm_sockets, 1));
	TT_REQUIRE(!side_ep(&s[0], &card[0]) && !side_ep(&s[1], &card[1]));
	TT_CHECK(side_connect(&s[0], &card[1], 1) == -TUTTI_ETRANSPORT);
	TT_CHECK(!tutti_last_error(&info) && strstr(info.text, "sockets"));
	card[1].blob[0] ^= 1;
	TT_CHECK(side_connect(&s[0], &card[1], 1) == -TUTTI_EVERSION);
	card[1].len--;
	TT_CHECK(side_connect(&s[0], &card[1], 1) == -TUTTI_EVERSION);
	pair_close(s);
}

static void refused(void)
{
	static const struct config bad[] = {{"", "shm", "rdm", NULL}, {"", "udp;ofi_rxd", "rdm", NULL},
					    {"", "nosuch", "msg", NULL}, {"", "tcp", "msg", NULL}};
	struct tutti_error_info info = {.size = sizeof(info)};
	struct side s;
	int i;

	for (i = 0; i < 3; i++) {
		TT_CHECK(side_open(&s, &bad[i], 0) == -TUTTI_ETRANSPORT);
		TT_CHECK(!tutti_last_error(&info) && strstr(info.text, bad[i].provider));
	}
	TT_REQUIRE(!side_open(&s, &bad[3], 0));
	side_close(&s);
}

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

/* The peer is killed: an error or DOWN within the bound; msg also when this side only listens. */
static int killed_rank(int rank, int n, void *arg)
{
	const struct job *job = arg;
	struct side s;
	uint64_t t0;
	int rc = 0;

	TT_EXPECT(!start(&s, job, rank));
	TT_EXPECT(!put(&s, 0, 4096, 1, TT_RMA_NOTE, NULL));
	TT_EXPECT(WAIT_FOR(s.done == 1 && s.ntail == 1, 5000, pump(&s)));
	TT_EXPECT(!meet(job, rank, &s));
	if (rank == 1) {
		raise(SIGKILL);
		return 1;
	}
	t0 = tt_now_ns();
	while (!s.down && !s.failed && !rc && tt_now_ns() - t0 < 5 * TT_SEC) {
		if (job->puts)
			rc = put(&s, 1, 65536, 2, TT_RMA_NOTE, NULL);
		if (job->puts)
			pump(&s);
		else
			sleep_pump(&s, 1000);
	}
	printf("  %s: peer's death seen after %.1f ms: %d DOWN, %d failed, call %d\n", job->c->name,
	       (double)(tt_now_ns() - t0) / 1e6, s.down, s.failed, rc);
	TT_EXPECT(s.down || s.failed || (rc < 0 && rc != -EAGAIN));
	if (job->c == &msg_tcp) {
		TT_EXPECT(WAIT_FOR(s.down == 1, 1000, pump(&s)));
		TT_EXPECT(s.status < 0);
		TT_EXPECT(put(&s, 1, 65536, 2, 0, NULL) == -ENOTCONN);
	}
	side_close(&s);
	return 0;
}

static void peer_killed(const struct config *c)
{
	struct job job = {.c = c, .puts = 1};

	TT_CHECK(run_two(killed_rank, &job, 20000, 2) == 0);
}
EACH(peer_killed)

static void silent_peer_killed(void)
{
	struct job job = {.c = &msg_tcp, .puts = 0};

	TT_CHECK(run_two(killed_rank, &job, 20000, 2) == 0);
}

/* Close an end with operations under way; nothing of it is heard again, and a new one works. */
static void close_busy(const struct config *c)
{
	struct tt_rma rma = {.len = SLOT};
	struct side s[2];
	int i, k, done;

	TT_REQUIRE(!pair_open(s, c));
	for (k = 0; k < 3; k++) {
		for (i = 0; i < 2 * SLOTS; i++) {
			TT_CHECK(!put(&s[0], i % SLOTS, SLOT, i, 0, &s[1]));
			rma.local = s[0].mem;
			rma.mr = s[0].mr;
			rma.remote = s[0].remote;
			rma.rkey = &s[0].rkey;
			rma.user = &s[0];
			s[0].ep->ops->get(s[0].ep, &rma);
		}
		s[0].tp->ops->ep_close(s[0].ep);
		s[0].ep = NULL;
		done = s[0].done;
		if (c == &msg_tcp)
			TT_CHECK(WAIT_FOR(s[1].down, 5000, pump(&s[0]); pump(&s[1])));
		for (i = 0; i < 2000; i++)
			pump(&s[0]), pump(&s[1]);
		TT_CHECK(s[0].done == done && !s[0].down && !s[0].stray);
		s[1].tp->ops->ep_close(s[1].ep);
		TT_CHECK(!pair_connect(s));
		TT_CHECK(!put(&s[0], 0, 100, 9, TT_RMA_NOTE, &s[1]));
		TT_CHECK(WAIT_FOR(s[1].nhead != s[1].ntail, 5000, pump(&s[0]); pump(&s[1])));
		s[1].nhead = s[1].ntail;
		s[0].done = 0;
	}
	pair_close(s);
}
EACH(close_busy)

/*
 * Connectionless, nothing that was begun is taken back: the next endpoint is up when all of it has arrived. (sockets moves
 * its bytes by a thread of its own.)
 */
static void begun_before(void)
{
	struct tt_rma rma = {.len = SLOT, .flags = TT_RMA_NOTE};
	struct card card[2];
	struct side s[2];
	unsigned i, puts;

	TT_REQUIRE(!pair_open(s, &rdm_rxm));
	TT_CHECK(!put(&s[0], 0, 100, 0, TT_RMA_NOTE, &s[1]));
	TT_CHECK(WAIT_FOR(s[1].ntail == 1 && s[0].done == 1, 5000, pump(&s[0]); pump(&s[1])));
	rma.local = s[0].mem + SLOTS * SLOT;
	rma.mr = s[0].mr;
	rma.remote = s[0].remote;
	rma.rkey = &s[0].rkey;
	rma.user = &s[0];
	for (puts = 0; puts < 4 && s[0].ep->ops->put(s[0].ep, &rma) == TT_STARTED; puts++)
		;
	TT_CHECK(puts > 0);
	s[0].tp->ops->ep_close(s[0].ep);
	s[1].tp->ops->ep_close(s[1].ep);
	TT_REQUIRE(!side_ep(&s[0], &card[0]) && !side_ep(&s[1], &card[1]));
	TT_CHECK(!side_connect(&s[0], &card[1], 1) && !side_connect(&s[1], &card[0], 0));
	for (i = 0; i < 1000; i++)
		pump(&s[0]);
	TT_CHECK(!s[0].up);
	TT_CHECK(WAIT_FOR(s[0].up, 5000, pump(&s[0]); pump(&s[1])));
	TT_CHECK(s[1].ntail == 1 + puts && s[1].up && s[0].done == 1);
	TT_CHECK(!put(&s[0], 0, 100, 9, TT_RMA_NOTE, &s[1]));
	TT_CHECK(WAIT_FOR(s[1].ntail == 2 + puts, 5000, pump(&s[0]); pump(&s[1])));
	pair_close(s);
}

static void no_leaks(const struct config *c)
{
	int i, before, during = 0, start_fds = tt_open_fds();
	struct side s[2];
	struct card card;

	TT_REQUIRE(!pair_open(s, c));
	for (i = 0; i < 100; i++) {
		TT_CHECK(!put(&s[0], 0, 200, i, TT_RMA_NOTE, &s[1]));
		before = s[1].ntail;
		TT_CHECK(WAIT_FOR((int)s[1].ntail > before || s[1].ntail, 5000, pump(&s[0]);
				  pump(&s[1])));
		s[0].tp->ops->ep_close(s[0].ep);
		s[1].tp->ops->ep_close(s[1].ep);
		/* one that is never connected */
		TT_REQUIRE(!side_ep(&s[0], &card));
		s[0].tp->ops->ep_close(s[0].ep);
		TT_REQUIRE(!pair_connect(s));
		if (i == 20)
			during = tt_open_fds();
	}
	printf("  %s: %d descriptors after 20 connections, %d after 100\n", c->name, during, tt_open_fds());
	TT_CHECK(tt_open_fds() <= during + 2);
	pair_close(s);
	TT_CHECK(tt_open_fds() <= start_fds + 2); /* libfabric keeps a few of its own */
	for (i = 0; i < 10; i++) {
		TT_REQUIRE(!side_open(&s[0], c, 0));
		side_close(&s[0]);
	}
	TT_CHECK(tt_open_fds() <= start_fds + 2);
}
EACH(no_leaks)

/* A socket to the process's own listener of that number. */
static int call_listener(const char *addr, int port)
{
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
	struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	bool is_six = inet_pton(AF_INET6, addr, &six.sin6_addr) == 1;
	int fd = socket(is_six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	inet_pton(AF_INET, addr, &four.sin_addr);
	if (fd >= 0 && connect(fd, is_six ? (struct sockaddr *)&six : (struct sockaddr *)&four,
			       is_six ? sizeof(six) : sizeof(four))) {
		close(fd);
		return -1;
	}
	return fd;
}

/* The port of the one listener more than there were. */
static int new_port(const struct tt_listeners *before)
{
	struct tt_listeners now = tt_find_listeners();
	int i, k;

	for (i = 0; i < now.n; i++) {
		for (k = 0; k < before->n && before->port[k] != now.port[i]; k++)
			;
		if (k == before->n)
			return now.port[i];
	}
	return -1;
}

/*
 * Somebody calls and says nothing, or not all, or goes: libfabric may forget that socket. Closing the transport
 * closes it, and nothing of another one, nor of the caller's own.
 */
static void forgotten_at(const char *addr)
{
	struct config c = {"msg:tcp", "tcp", "msg", addr};
	struct tt_listeners none = tt_find_listeners(), l;
	int i, fd[8], port[2], own;
	struct side s[2];

	TT_REQUIRE(!side_open(&s[0], &c, 0));
	port[0] = new_port(&none);
	l = tt_find_listeners();
	TT_REQUIRE(!side_open(&s[1], &c, 1));
	port[1] = new_port(&l);
	TT_CHECK(!pair_connect(s));
	for (i = 0; i < 8; i++) {
		TT_CHECK((fd[i] = call_listener(addr, port[0])) >= 0);
		if (i & 1)
			TT_CHECK(write(fd[i], "tutti", 5) == 5);
		if (i & 2)
			WAIT_FOR(false, 5, pump(&s[0]); s[0].tp->ops->arm(s[0].tp, &own));
		if (i & 4)
			close(fd[i]);
	}
	own = call_listener(addr, port[1]);
	TT_CHECK(own >= 0);
	side_close(&s[0]);
	for (i = 0; i < 4; i++)
		TT_CHECK(!close(fd[i]));
	TT_CHECK(!close(own));
	own = call_listener(addr, port[1]);
	TT_CHECK(own >= 0 && !close(own));
	side_close(&s[1]);
}

static void forgotten(void)
{
	int i, fds = 0;

	for (i = 0; i < 3; i++) {
		forgotten_at("127.0.0.1");
		forgotten_at("::1");
		fds = i ? fds : tt_open_fds(); /* libfabric keeps a few of its own */
	}
	TT_CHECK(tt_open_fds() == fds);
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

/* A key that is no key, and a range beyond the region: nothing is written, and what is told? */
static void bad_key(const struct config *c)
{
	struct side s[2];
	int k, i;

	for (k = 0; k < 3; k++) {
		TT_REQUIRE(!pair_open(s, c));
		if (k == 0)
			s[0].rkey.word[0] += 12345;
		else if (k == 1)
			s[0].remote += 2ul * SLOTS * SLOT - 2000;
		else
			s[0].remote -= 2000;
		memset(s[0].mem + SLOTS * SLOT, 0x5a, 4096);
		TT_CHECK(!put(&s[0], 0, 4000, 77, TT_RMA_NOTE, &s[1]));
		WAIT_FOR(s[0].failed || s[0].down, 2000, pump(&s[0]); pump(&s[1]));
		for (i = 0; i < 200; i++)
			pump(&s[0]), pump(&s[1]);
		printf("  %s: %s: done %d failed %d (%d), down %d at origin, %d at target, notes %u\n",
		       c->name, k == 0 ? "bad key" : k == 1 ? "beyond the end" : "before the start",
		       s[0].done, s[0].failed, s[0].status, s[0].down, s[1].down, s[1].ntail);
		TT_CHECK(s[1].ntail == 0);
		TT_CHECK(s[0].failed || s[0].down);
		for (i = 0; i < 2 * SLOTS * SLOT; i++)
			if (s[1].mem[i])
				break;
		TT_CHECK(i == 2 * SLOTS * SLOT);
		pair_close(s);
	}
}
EACH(bad_key)

/* Does a get from a target that makes no call complete? It must where the cap says so. */
static int silent_rank(int rank, int n, void *arg)
{
	const struct job *job = arg;
	struct tt_rma rma = {.len = 65536};
	struct side s;
	bool came;

	TT_EXPECT(!start(&s, job, rank));
	TT_EXPECT(!put(&s, 0, 4096, 1, TT_RMA_NOTE, NULL));
	TT_EXPECT(WAIT_FOR(s.done == 1 && s.ntail == 1, 5000, pump(&s)));
	TT_EXPECT(!meet(job, rank, &s));
	if (rank == 1) {
		usleep(200000);
	} else {
		rma.local = s.mem;
		rma.mr = s.mr;
		rma.remote = s.remote;
		rma.rkey = &s.rkey;
		rma.user = &s;
		usleep(20000);
		TT_EXPECT(s.ep->ops->get(s.ep, &rma) == TT_STARTED);
		came = WAIT_FOR(s.done == 2, 100, pump(&s));
		printf("  %s: a get from a silent target %s\n", job->c->name,
		       came ? "completes" : "waits for it");
		TT_EXPECT(came || !(s.tp->caps & TT_CAP_AUTO_PROGRESS));
		TT_EXPECT(WAIT_FOR(s.done == 2, 3000, pump(&s)));
	}
	TT_EXPECT(!meet(job, rank, &s));
	side_close(&s);
	return 0;
}

static void silent_target(const struct config *c)
{
	struct job job = {.c = c};

	TT_CHECK(run_two(silent_rank, &job, 20000, 0) == 0);
}
EACH(silent_target)

static int job_pings(const struct job *job)
{
	return job->c == &rdm_sockets ? 50 : 2000;
}

static int speed_rank(int rank, int n, void *arg)
{
	const struct job *job = arg;
	int i, count = 300, pings = job_pings(arg);
	struct side s;
	uint64_t t0;
	uint32_t note;

	TT_EXPECT(!start(&s, job, rank));
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
	TT_EXPECT(!meet(job, rank, &s));
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
	TT_EXPECT(!meet(job, rank, &s));
	side_close(&s);
	return 0;
}

static void speed(const struct config *c)
{
	struct job job = {.c = c};

	TT_CHECK(run_two(speed_rank, &job, 60000, 0) == 0);
}
EACH(speed)

static const struct tt_test tests[] = {ROWS(both_here),
				       ROWS(two_processes),
				       ROWS(get_msg_amo),
				       ROWS(sleep_wakes),
				       ROWS(no_wildcard),
				       {"wrong_token", wrong_token},
				       {"wrong_blob", wrong_blob},
				       {"refused", refused},
				       {"devices", devices},
				       ROWS(peer_killed),
				       {"silent_peer_killed", silent_peer_killed},
				       ROWS(close_busy),
				       {"begun_before", begun_before},
				       ROWS(no_leaks),
				       {"forgotten", forgotten},
				       ROWS(full_queue),
				       ROWS(confirmed),
				       ROWS(bad_key),
				       ROWS(silent_target),
				       ROWS(speed),
				       {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("ofi", tests, argc, argv);
}
