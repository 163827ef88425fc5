/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections of transport ofi that are refused, break, or are closed with operations under way;
 * and leaks after them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/test.h"
#include "tests/unit/ofi_side.h"
#include "transports/ofi/ofi.h"

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
	static const struct config bad[] = {{.provider = "shm", .ep = "rdm"},
					    {.provider = "udp;ofi_rxd", .ep = "rdm"},
					    {.provider = "nosuch", .ep = "msg"},
					    {.provider = "tcp", .ep = "msg"}};
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

/* The peer is killed: an error or DOWN within the bound; msg also when this side only listens. */
static int killed_rank(int rank, int n, void *arg)
{
	const struct side_job *job = arg;
	struct side s;
	uint64_t t0;
	int rc = 0;

	TT_EXPECT(!side_start(&s, job, rank));
	TT_EXPECT(!put(&s, 0, 4096, 1, TT_RMA_NOTE, NULL));
	TT_EXPECT(WAIT_FOR(s.done == 1 && s.ntail == 1, 5000, pump(&s)));
	TT_EXPECT(!side_meet(job, rank, &s));
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
	struct side_job job = {.c = c, .puts = 1};

	TT_CHECK(side_two(killed_rank, &job, 20000, 2) == 0);
}
EACH(peer_killed)

static void silent_peer_killed(void)
{
	struct side_job job = {.c = &msg_tcp, .puts = 0};

	TT_CHECK(side_two(killed_rank, &job, 20000, 2) == 0);
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
 * Connectionless endpoints cancel nothing: the next endpoint is up when all operations have
 * arrived. (sockets moves its bytes with a thread of its own.)
 */
static void begun_over(const struct config *c)
{
	struct tt_rma rma = {.len = SLOT, .flags = TT_RMA_NOTE};
	struct card card[2];
	struct side s[2];
	unsigned i, puts, differ = 0;
	char *other[4];

	TT_REQUIRE(!pair_open(s, c));
	TT_CHECK(!put(&s[0], 0, 100, 0, TT_RMA_NOTE, &s[1]));
	TT_CHECK(WAIT_FOR(s[1].ntail == 1 && s[0].done == 1, 5000, pump(&s[0]); pump(&s[1])));
	rma.local = s[0].mem + SLOTS * SLOT;
	memset(s[0].mem + SLOTS * SLOT, 0x5a, SLOT);
	rma.mr = s[0].mr;
	rma.remote = s[0].remote;
	rma.rkey = &s[0].rkey;
	rma.user = &s[0];
	for (puts = 0; puts < 4 && s[0].ep->ops->put(s[0].ep, &rma) == TT_STARTED; puts++)
		;
	TT_CHECK(puts > 0);
	s[0].tp->ops->ep_close(s[0].ep);
	for (i = 0; i < 4; i++) { /* memory freed now is reused at once */
		other[i] = malloc(SLOT + 64);
		TT_REQUIRE(other[i]);
		memset(other[i], 0x11, SLOT + 64);
	}
	s[1].tp->ops->ep_close(s[1].ep);
	TT_REQUIRE(!side_ep(&s[0], &card[0]) && !side_ep(&s[1], &card[1]));
	TT_CHECK(!side_connect(&s[0], &card[1], 1) && !side_connect(&s[1], &card[0], 0));
	for (i = 0; i < 1000; i++)
		pump(&s[0]);
	TT_CHECK(!s[0].up);
	TT_CHECK(WAIT_FOR(s[0].up, 5000, pump(&s[0]); pump(&s[1])));
	TT_CHECK(s[1].ntail == 1 + puts && s[1].up && s[0].done == 1);
	for (i = 0; i < SLOT; i++)
		differ += s[1].mem[i] != 0x5a;
	TT_CHECK(differ == (c->fault ? 1 : 0));
	TT_CHECK(!put(&s[0], 0, 100, 9, TT_RMA_NOTE, &s[1]));
	TT_CHECK(WAIT_FOR(s[1].ntail == 2 + puts, 5000, pump(&s[0]); pump(&s[1])));
	for (i = 0; i < 4; i++)
		free(other[i]);
	pair_close(s);
}

/* Also what carries a copy, of which a bit was changed: it stays until then. */
static void begun_before(void)
{
	const struct config flipping = {"rdm:tcp;ofi_rxm", "tcp", "rdm", NULL, "flip=1"};

	begun_over(&rdm_rxm);
	begun_over(&flipping);
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
	printf("  %s: %d descriptors after 20 connections, %d after 100\n", c->name, during,
	       tt_open_fds());
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

/* LeakSanitizer's calls: allocations between them may leak. */
extern void __lsan_disable(void) __attribute__((weak));
extern void __lsan_enable(void) __attribute__((weak));

/*
 * A stranger connects and sends nothing, or too little, or closes: libfabric may lose that socket
 * and its state. Closing the transport closes this socket, and none of another transport or of the
 * caller.
 */
static void forgotten_at(const char *addr)
{
	struct config c = {"msg:tcp", "tcp", "msg", addr, NULL};
	struct tt_listeners none = tt_find_listeners(), l;
	int i, fd[8], port[2], own;
	struct side s[2];

	TT_REQUIRE(!side_open(&s[0], &c, 0));
	port[0] = new_port(&none);
	l = tt_find_listeners();
	TT_REQUIRE(!side_open(&s[1], &c, 1));
	port[1] = new_port(&l);
	TT_CHECK(!pair_connect(s));
	if (__lsan_disable)
		__lsan_disable();
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
	if (__lsan_enable)
		__lsan_enable();
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

/* ---- sockets that look like a stranger's and are libfabric's ---- */

/* A socket of the listener of tp that does not listen; -1: there is none. */
static int accepted_by(const struct ofi_tp *tp)
{
	struct sockaddr_storage sa;
	int fd, listens;
	socklen_t len;

	for (fd = 3; fd < 1024; fd++) {
		len = sizeof(sa);
		if (getsockname(fd, (struct sockaddr *)&sa, &len) || len != tp->namelen ||
		    memcmp(&sa, tp->name, len))
			continue;
		len = sizeof(listens);
		if (!getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) && !listens)
			return fd;
	}
	return -1;
}

/* The socket of this process whose peer is the listener of tp. */
static int caller_of(const struct ofi_tp *tp)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	int fd;

	for (fd = 3; fd < 1024; fd++, len = sizeof(sa))
		if (!getpeername(fd, (struct sockaddr *)&sa, &len) && len == tp->namelen &&
		    !memcmp(&sa, tp->name, len))
			return fd;
	return -1;
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/*
 * The peer's end is reset, as by a kill: the socket here has no peer any more. libfabric has it
 * until its endpoint is closed, and would then close whatever has got that number since.
 */
static void reset_peer_at(const char *addr)
{
	const struct sockaddr none = {.sa_family = AF_UNSPEC};
	struct config c = {"msg:tcp", "tcp", "msg", addr, NULL};
	struct side s[2];
	int mine, theirs, victim;

	TT_REQUIRE(!pair_open(s, &c));
	mine = accepted_by((struct ofi_tp *)s[1].tp);
	theirs = caller_of((struct ofi_tp *)s[1].tp);
	TT_REQUIRE(mine >= 0 && theirs >= 0);
	TT_REQUIRE(!connect(theirs, &none, sizeof(none)));
	ofi_drop_strangers((struct ofi_tp *)s[1].tp, false);
	TT_CHECK(is_open(mine));
	victim = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, mine);
	TT_CHECK(WAIT_FOR(s[1].down, 5000, pump(&s[1])));
	s[1].tp->ops->ep_close(s[1].ep);
	s[1].ep = NULL;
	TT_CHECK(accepted_by((struct ofi_tp *)s[1].tp) < 0);
	TT_CHECK(!close(victim));
	pair_close(s);
}

static void reset_peer(void)
{
	reset_peer_at("127.0.0.1");
	reset_peer_at("::1");
}

/* Looks at the event queue that see nothing. */
static int blind;
static struct fi_ops_eq *real_eq;

static ssize_t read_late(struct fid_eq *eq, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	return blind-- > 0 ? -FI_EAGAIN : real_eq->read(eq, event, buf, len, flags);
}

/*
 * A request that is read when its socket has been taken for a stranger's already: the endpoint
 * fails, but its socket is libfabric's.
 */
static void late_request(void)
{
	struct fi_ops_eq late;
	struct card card[2];
	struct side s[2];
	struct ofi_tp *tp;
	int mine, victim;

	TT_REQUIRE(!side_open(&s[0], &msg_tcp, 0) && !side_open(&s[1], &msg_tcp, 1));
	TT_REQUIRE(!side_ep(&s[0], &card[0]) && !side_ep(&s[1], &card[1]));
	tp = (struct ofi_tp *)s[1].tp;
	TT_REQUIRE(!side_connect(&s[0], &card[1], 1));
	TT_REQUIRE(WAIT_FOR(accepted_by(tp) >= 0, 5000, ofi_msg_progress(tp)));
	mine = accepted_by(tp);
	WAIT_FOR(false, 50, pump(&s[0])); /* sends the request */
	real_eq = tp->eq->ops;
	late = *real_eq;
	late.read = read_late;
	tp->eq->ops = &late;
	blind = 4;
	ofi_drop_strangers(tp, true);
	tp->eq->ops = real_eq;
	TT_CHECK(blind < 0 && ((struct ofi_ep *)s[1].ep)->request);
	TT_CHECK(is_open(mine));
	victim = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, mine);
	tutti_set_log(NULL, NULL, TUTTI_LOG_NONE);
	TT_CHECK(!side_connect(&s[1], &card[0], 0));
	TT_CHECK(WAIT_FOR(s[1].down, 5000, pump(&s[0]); pump(&s[1])));
	tutti_set_log(NULL, NULL, TUTTI_LOG_DEFAULT);
	s[1].tp->ops->ep_close(s[1].ep);
	s[1].ep = NULL;
	TT_CHECK(!close(victim));
	pair_close(s);
}

/* An invalid key, and a range beyond the region: nothing is written; reports the error. */
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
		printf("  %s: %s: done %d failed %d (%d), down %d at origin, %d at target, notes "
		       "%u\n",
		       c->name,
		       k == 0	? "bad key"
		       : k == 1 ? "beyond the end"
				: "before the start",
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

/* The provider's next registrations fail like this. */
static int reg_error;

static int reg_fails(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
		     uint64_t key, uint64_t flags, struct fid_mr **mr, void *context)
{
	return -reg_error;
}

static int reg_status(struct side *s, int error, const void *addr, size_t len, const char *word)
{
	struct tt_mem mem = {.addr = (void *)(uintptr_t)addr, .len = len, .memfd = -1};
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tt_mr *mr;
	int err;

	reg_error = error;
	err = s->tp->ops->reg(s->tp, &mem, TT_ACCESS_LOCAL, &mr);
	TT_CHECK(!tutti_last_error(&info) && strstr(info.text, word));
	return err;
}

/* A registration that fails is a fault of this end: of the caller's memory, or want of memory. */
static void registration_fails(void)
{
	struct fi_ops_mr *ops, failing = {.size = sizeof(failing), .reg = reg_fails};
	char *none;
	struct rlimit limit, little, unlimited;
	struct fid_domain *domain;
	struct side s = {0};

	TT_REQUIRE(!side_open(&s, &msg_tcp, 0) && !getrlimit(RLIMIT_MEMLOCK, &limit));
	unlimited = (struct rlimit){RLIM_INFINITY, RLIM_INFINITY};
	little = (struct rlimit){65536, limit.rlim_max};
	domain = ((struct ofi_tp *)s.tp)->domain;
	ops = domain->mr;
	none = mmap(NULL, SLOT, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	TT_REQUIRE(none != MAP_FAILED && !munmap(none, SLOT));
	domain->mr = &failing;
	TT_CHECK(reg_status(&s, FI_EFAULT, s.mem, SLOT, "Bad address") == -EFAULT);
	TT_CHECK(reg_status(&s, FI_ENOMEM, none, SLOT, "Bad address") == -EFAULT);
	TT_CHECK(reg_status(&s, FI_EINVAL, s.mem, SLOT, "TUTTI_OFI_PROVIDER") == -ENOMEM);
	TT_REQUIRE(!setrlimit(RLIMIT_MEMLOCK, &little));
	TT_CHECK(reg_status(&s, FI_ENOMEM, s.mem, SLOT, "ulimit -l") == -ENOMEM);
	TT_CHECK(reg_status(&s, FI_EPERM, s.mem, SLOT, "ulimit -l") == -ENOMEM);
	if (!setrlimit(RLIMIT_MEMLOCK, &unlimited))
		TT_CHECK(reg_status(&s, FI_ENOMEM, s.mem, SLOT, "larger regions") == -ENOMEM);
	setrlimit(RLIMIT_MEMLOCK, &limit);
	domain->mr = ops;
	side_close(&s);
}

/* Waits for the end of an operation, beside which the connection may end. */
static int wait_done(struct side *s)
{
	struct tt_event ev;
	int done = 1;

	TT_CHECK(WAIT_FOR(done <= 0, 10000, pump(&s[1]);
			  if (s[0].tp->ops->poll(s[0].tp, &ev, 1) < 1) continue;
			  done = ev.kind == TT_EV_DONE ? ev.status : done));
	return done;
}

/*
 * Memory that is not mapped is a fault of this end, and the connection goes on. The provider takes
 * registered memory unseen: if that is not mapped any more, the connection ends.
 */
static void local_fault(void)
{
	struct tt_rma rma = {.len = SLOT}, half = {.len = SLOT, .head_len = 8};
	struct tt_mem mem = {.len = SLOT, .memfd = -1};
	struct side s[2];

	TT_REQUIRE(!pair_open(s, &msg_tcp));
	tutti_set_log(NULL, NULL, TUTTI_LOG_NONE);
	mem.addr = mmap(NULL, SLOT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	TT_REQUIRE(mem.addr != MAP_FAILED);
	TT_REQUIRE(!s[0].tp->ops->reg(s[0].tp, &mem, 0, &half.mr));
	rma.remote = half.remote = s[0].remote;
	rma.rkey = half.rkey = &s[0].rkey;
	half.local = s[0].mem;
	half.head = mem.addr;
	TT_REQUIRE(!munmap(mem.addr, SLOT));
	rma.local = mem.addr;
	TT_CHECK(s[0].ep->ops->put(s[0].ep, &rma) == -TT_EFAULT_HERE);
	TT_CHECK(s[0].ep->ops->get(s[0].ep, &rma) == -TT_EFAULT_HERE);
	TT_CHECK(s[0].ep->ops->get(s[0].ep, &half) == -TT_EFAULT_HERE);
	rma.local = s[0].mem;
	TT_CHECK(s[0].ep->ops->get(s[0].ep, &rma) == TT_STARTED && !wait_done(s));
	rma.local = mem.addr;
	rma.mr = half.mr;
	TT_CHECK(s[0].ep->ops->put(s[0].ep, &rma) == TT_STARTED);
	TT_CHECK(wait_done(s) == -TT_EFAULT_HERE);
	tutti_set_log(NULL, NULL, TUTTI_LOG_DEFAULT);
	TT_CHECK(!s[0].tp->ops->dereg(half.mr));
	pair_close(s);
}

static const struct tt_test tests[] = {{"wrong_token", wrong_token},
				       {"wrong_blob", wrong_blob},
				       {"refused", refused},
				       ROWS(peer_killed),
				       {"silent_peer_killed", silent_peer_killed},
				       ROWS(close_busy),
				       {"begun_before", begun_before},
				       ROWS(no_leaks),
				       {"forgotten", forgotten},
				       {"reset_peer", reset_peer},
				       {"late_request", late_request},
				       ROWS(bad_key),
				       {"registration_fails", registration_fails},
				       {"local_fault", local_fault},
				       {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("ofi_ends", tests, argc, argv);
}
