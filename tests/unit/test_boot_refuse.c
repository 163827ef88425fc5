/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts that fail, and what does not disturb one: missing, wrong and lost ranks, secrets, junk. */
#include "lib/base/inject.h" /* first: it renames declarations of the next headers */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/env.h"
#include "lib/boot/control/control.h"
#include "tests/test.h"
#include "tests/unit/boot_help.h"

static int rank_missing(int rank, int n, void *arg)
{
	struct bt_job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);
	struct tt_boot *boot = NULL;
	struct bt_seen seen;
	uint64_t t0 = tt_now_ns();

	if (rank == 2 || rank == 5)
		return 0;
	p.init_timeout = rank == j->victim ? j->limit : 120000; /* one deadline ends all */
	bt_seen_init(&seen);
	TT_EXPECT(bt_start(&p, &seen, &boot) == -TUTTI_EBOOT);
	TT_EXPECT(bt_error_has("rank 2, 5 of 8 did not join within"));
	TT_EXPECT(!boot);
	TT_EXPECT(tt_now_ns() - t0 < 60 * TT_SEC);
	return 0;
}

/* All other ranks must have joined by the deadline, so it is several times a measured start. */
static void test_missing_ranks_are_named(void)
{
	struct bt_job *j = bt_job_new();
	uint64_t t0 = tt_now_ns();

	TT_CHECK(!tt_run_ranks(8, bt_rank_start_stop, j, BT_BOUND_MS, 0));
	j->limit = 500 + 5 * (int64_t)((tt_now_ns() - t0) / TT_MS);
	j->port = tt_free_port();
	j->victim = 0;
	TT_CHECK(!tt_run_ranks(8, rank_missing, j, BT_BOUND_MS, 0));
	j->port = tt_free_port();
	j->victim = 4;
	TT_CHECK(!tt_run_ranks(8, rank_missing, j, BT_BOUND_MS, 0));
	munmap(j, sizeof(*j));
}

/* Rank 1 has joined; rank 0's transports are not open when rank 1's deadline passes. */
static int rank_zero_late(int rank, int n, void *arg)
{
	struct bt_job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);
	struct tt_boot *boot = NULL;

	if (rank) {
		p.init_timeout = j->limit;
		TT_EXPECT(!bt_expect_failure(&p, -TUTTI_EBOOT, "rank 0 of 2 did not join within"));
		j->saw++;
		return 0;
	}
	TT_EXPECT(!tt_boot_contact(&p, &boot));
	BT_WAIT(j->saw);
	TT_EXPECT(j->saw);
	TT_EXPECT(tt_boot_join(boot, NULL, "x", 1) == -TUTTI_EBOOT);
	TT_EXPECT(bt_error_has("rank 0 of 2 did not join within"));
	return 0;
}

/* Rank 1 must have joined by its deadline, which is several times a measured start. */
static void test_rank_0_is_late(void)
{
	struct bt_job *j = bt_job_new();
	uint64_t t0 = tt_now_ns();

	TT_CHECK(!tt_run_ranks(2, bt_rank_start_stop, j, BT_BOUND_MS, 0));
	j->limit = 2000 + 5 * (int64_t)((tt_now_ns() - t0) / TT_MS);
	j->port = tt_free_port();
	TT_CHECK(!tt_run_ranks(2, rank_zero_late, j, BT_BOUND_MS, 0));
	munmap(j, sizeof(*j));
}

static int rank_duplicate(int rank, int n, void *arg)
{
	struct bt_job *j = arg;
	struct tt_boot_params p = bt_params(rank == 3 ? 2 : rank, n, j->port);

	return bt_expect_failure(&p, -TUTTI_EBOOT, "two processes joined as rank 2 of 4");
}

static int rank_size(int rank, int n, void *arg)
{
	struct bt_job *j = arg;
	struct tt_boot_params p = bt_params(rank, rank == 2 ? 7 : n, j->port);

	return bt_expect_failure(&p, -TUTTI_EBOOT,
				 "was told that the job has 7 ranks, rank 0 that it has 4");
}

static int rank_version(int rank, int n, void *arg)
{
	struct bt_job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);

	if (rank == 2)
		setenv("TUTTI_TEST_BOOT_VERSION", "9.8.7", 1);
	TT_EXPECT(!bt_expect_failure(&p, -TUTTI_EVERSION, "runs tutti 9.8.7"));
	TT_EXPECT(bt_error_has("rank 2 (") && bt_error_has("rank 0 runs tutti 0.1.0"));
	return 0;
}

static void test_wrong_ranks(void)
{
	tt_rank_fn *const fns[] = {rank_duplicate, rank_size, rank_version};
	struct bt_job *j = bt_job_new();
	size_t i;

	for (i = 0; i < sizeof(fns) / sizeof(fns[0]); i++) {
		j->port = tt_free_port();
		TT_CHECK(!tt_run_ranks(4, fns[i], j, BT_BOUND_MS, 0));
	}
	munmap(j, sizeof(*j));
}

static int rank_secret(int rank, int n, void *arg)
{
	struct bt_job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);

	p.init_timeout = rank ? 120000 : 1500;
	if (rank == 2)
		p.secret[5] ^= 1;
	TT_EXPECT(!bt_expect_failure(&p, rank == 2 ? -TUTTI_EAUTH : -TUTTI_EBOOT,
				     rank == 2 ? "TUTTI_SECRET_FILE" : "rank 2 of 3 did not join"));
	TT_EXPECT(rank == 2 || bt_error_has("refused for a wrong secret"));
	return 0;
}

static void test_wrong_secret(void)
{
	struct bt_job *j = bt_job_new();

	tutti_set_log(NULL, NULL, TUTTI_LOG_NONE);
	TT_CHECK(!tt_run_ranks(3, rank_secret, j, BT_BOUND_MS, 0));
	tutti_set_log(NULL, NULL, TUTTI_LOG_DEFAULT);
	munmap(j, sizeof(*j));
}

/* 100 connections to the store, kept open: silent, junk, half a hello, a hello with a wrong proof.
 */
static void disturb(int port, int *fds)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	unsigned char junk[4096];
	int i;

	in.sin_port = htons((uint16_t)port);
	for (i = 0; i < 100; i++) {
		memset(junk, i, sizeof(junk));
		if (i % 4 == 3)
			memcpy(junk, "TUTTIctl\1\0\1C\1\0\0\0", 16);
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		BT_WAIT(!connect(fds[i], (struct sockaddr *)&in, sizeof(in)));
		if (i % 4)
			send(fds[i], junk, i % 4 == 2 ? 40 : sizeof(junk), MSG_NOSIGNAL);
	}
}

static int rank_junk(int rank, int n, void *arg)
{
	struct bt_job *j = arg;
	uint64_t t0 = tt_now_ns();
	int fds[100], i;

	if (rank == 1) {
		disturb(j->port, fds);
		j->here++;
	} else if (rank == 2) {
		BT_WAIT(j->here);
	}
	TT_EXPECT(!bt_rank_start_stop(rank, n, arg));
	TT_EXPECT(tt_now_ns() - t0 < 60 * TT_SEC);
	for (i = 0; rank == 1 && i < 100; i++)
		close(fds[i]);
	return 0;
}

static void test_junk_does_not_disturb(void)
{
	struct bt_job *j = bt_job_new();

	tutti_set_log(NULL, NULL, TUTTI_LOG_NONE);
	TT_CHECK(!tt_run_ranks(4, rank_junk, j, BT_BOUND_MS, 0));
	tutti_set_log(NULL, NULL, TUTTI_LOG_DEFAULT);
	munmap(j, sizeof(*j));
}

static int rank_lost(int rank, int n, void *arg)
{
	struct bt_job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);

	if (rank == 3) /* never joins: the others wait */
		return 0;
	if (rank == 2) {
		signal(SIGALRM, SIG_DFL);
		ualarm(500000, 0);
	}
	return bt_expect_failure(&p, -TUTTI_EBOOT, "rank 2 on ");
}

static void test_lost_during_start(void)
{
	bt_job_run(4, rank_lost, 1u << 2);
}

/* Rank 0's log: a rank is in contact. */
static void count_contacts(enum tutti_log_level level, const char *text, void *arg)
{
	struct bt_job *j = arg;

	(void)level;
	j->here += strstr(text, " is there, on ") != NULL;
}

/* The victim is killed after the first contact of all ranks and before its own join. */
static int rank_lost_early(int rank, int n, void *arg)
{
	struct bt_job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);
	const char *victim = j->victim ? "rank 2 on " : "rank 0 at ";
	struct tt_boot *boot = NULL;
	uint64_t t0 = tt_now_ns();

	p.init_timeout = 120000;
	if (!rank)
		tutti_set_log(count_contacts, j, TUTTI_LOG_DEBUG);
	TT_EXPECT(!tt_boot_contact(&p, &boot));
	BT_WAIT(j->here == n - 1);
	if (rank == j->victim)
		kill(getpid(), SIGKILL);
	if (rank == 1) /* comes late */
		usleep(200000);
	TT_EXPECT(tt_boot_join(boot, NULL, "x", 1) == -TUTTI_EBOOT);
	TT_EXPECT(bt_error_has(victim));
	TT_EXPECT(!j->victim || bt_error_has("ended before it joined"));
	TT_EXPECT(tt_now_ns() - t0 < 60 * TT_SEC);
	return 0;
}

static void test_lost_before_join(void)
{
	struct bt_job *j = bt_job_new();

	for (j->victim = 0; j->victim <= 2; j->victim += 2) {
		j->here = 0;
		j->port = tt_free_port();
		TT_CHECK(!tt_run_ranks(4, rank_lost_early, j, BT_BOUND_MS, 1u << j->victim));
	}
	munmap(j, sizeof(*j));
}

/* A rank that cannot take part tells the others why. */
static int rank_refuses(int rank, int n, void *arg)
{
	struct bt_job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);
	struct tt_boot *boot = NULL;
	int err;

	p.init_timeout = 120000;
	TT_EXPECT(!tt_boot_contact(&p, &boot));
	if (rank == j->victim) {
		err = tt_fail(-ENODEV, "no such device here");
		tt_boot_refuse(boot);
		TT_EXPECT(err == -ENODEV && bt_error_has("no such device here"));
		return 0;
	}
	TT_EXPECT(tt_boot_join(boot, NULL, "x", 1) == -ENODEV);
	TT_EXPECT(bt_error_has("cannot start: no such device here"));
	return 0;
}

static void test_refuses(void)
{
	struct bt_job *j = bt_job_new();

	for (j->victim = 0; j->victim < 3; j->victim++) {
		j->port = tt_free_port();
		TT_CHECK(!tt_run_ranks(3, rank_refuses, j, BT_BOUND_MS, 0));
	}
	munmap(j, sizeof(*j));
}

/* Without the socket that is open for a moment each time the rank looks for rank 0. */
static int lasting_fds(void)
{
	int i, n, least = tt_open_fds();

	for (i = 0; i < 50; i++) {
		usleep(1000);
		n = tt_open_fds();
		least = n < least ? n : least;
	}
	return least;
}

/* A rank that runs out of descriptors before rank 0 is there waits to say so. */
static int rank_few_files(int rank, int n, void *arg)
{
	struct bt_job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);
	struct tt_boot *boot = NULL;
	struct rlimit limit;

	p.init_timeout = rank ? 120000 : 10000;
	if (rank) {
		TT_EXPECT(!tt_boot_contact(&p, &boot));
		TT_EXPECT(!getrlimit(RLIMIT_NOFILE, &limit));
		limit.rlim_cur = (rlim_t)lasting_fds() - 1; /* it counts 3 more: 2 are left */
		TT_EXPECT(!setrlimit(RLIMIT_NOFILE, &limit));
		j->here = 1;
	} else {
		BT_WAIT(j->here);
		usleep(100000); /* until the join below */
		TT_EXPECT(!tt_boot_contact(&p, &boot));
	}
	TT_EXPECT(tt_boot_join(boot, NULL, "x", 1) == -EMFILE);
	TT_EXPECT(bt_error_has("ulimit -n"));
	return 0;
}

static void test_few_files(void)
{
	bt_job_run(2, rank_few_files, 0);
}

static void test_unreachable_store(void)
{
	struct tt_boot_params p = bt_params(1, 2, tt_free_port());
	int fds = tt_open_fds();
	char store[128];

	p.init_timeout = 400;
	snprintf(store, sizeof(store), "%s", p.store);
	TT_CHECK(!bt_expect_failure(&p, -TUTTI_EBOOT, store));
	TT_CHECK(bt_error_has("Connection refused"));
	TT_CHECK(tt_open_fds() == fds);
}

static void test_impossible_rank(void)
{
	struct tt_boot_params p = bt_params(9, 4, tt_free_port());

	TT_CHECK(!bt_expect_failure(&p, -EINVAL, "rank 9 of 4"));
}

/* Loopback itself needs no secret, but the store must be there too. */
static void test_no_secret_to_a_far_store(void)
{
	struct tt_boot_params p = bt_params(1, 2, 1);

	p.have_secret = false;
	snprintf(p.iface, sizeof(p.iface), "lo");
	snprintf(p.store, sizeof(p.store), "198.51.100.7:1");
	TT_CHECK(!bt_expect_failure(&p, -TUTTI_EAUTH, "TUTTI_INSECURE=1"));
}

/* The control thread's: takes all memory that a connection's buffer would fit in. */
static int take_memory(void *arg)
{
	struct rlimit few = {1 << 20, RLIM_INFINITY};
	static bool taken;
	struct bt_job *j = arg;
	void *volatile p;
	int i;

	if (taken)
		return 0;
	taken = true;
	getrlimit(RLIMIT_AS, &few);
	few.rlim_cur = 1 << 20;
	setrlimit(RLIMIT_AS, &few);
	for (i = 0, p = malloc(16384); p && i < 20000; i++) /* lost at the end of this process */
		p = malloc(16384);
	j->saw = p ? 2 : 1;
	return p ? -EINTR : 0;
}

static int rank_no_memory(int rank, int n, void *arg)
{
	struct bt_job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);
	struct tt_boot *boot = NULL;
	struct bt_seen seen;
	uint64_t t0 = tt_now_ns();
	char text[80];

	bt_seen_init(&seen);
	if (rank != j->victim) {
		BT_WAIT(j->saw);
		p.init_timeout = 1000; /* the victim cannot tell the reason */
		TT_EXPECT(bt_start(&p, &seen, &boot));
		return 0;
	}
	p.stop = take_memory;
	p.stop_arg = j;
	snprintf(text, sizeof(text), "rank %d has no memory for ", rank);
	if (bt_start(&p, &seen, &boot) == -EINTR)
		return 0; /* a limit has no effect here */
	TT_EXPECT(bt_error_has(text) && bt_error_has("; raise 'ulimit -v'"));
	TT_EXPECT(tt_now_ns() - t0 < 60 * TT_SEC);
	return 0;
}

/* Another try would end alike, so the victim does not wait for its deadline. */
static void test_no_memory(void)
{
	struct bt_job *j = bt_job_new();

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	munmap(j, sizeof(*j));
	TT_SKIP("the sanitizers end a process without memory");
#endif
	for (j->victim = 0; j->victim < 2 && j->saw != 2; j->victim++) {
		j->saw = 0;
		j->port = tt_free_port();
		TT_CHECK(!tt_run_ranks(2, rank_no_memory, j, BT_BOUND_MS, 0));
	}
	if (j->saw == 2) {
		munmap(j, sizeof(*j));
		TT_SKIP("memory cannot be limited here");
	}
	munmap(j, sizeof(*j));
}

/* Nothing of the start exists yet: the inherited listener is closed, and only once. */
static int rank_no_room(int rank, int n, void *arg)
{
	struct tt_boot_params p = bt_params(0, 2, 0);
	struct tt_boot *boot = NULL;
	struct tt_env fault;

	p.listen_fd = eventfd(0, EFD_CLOEXEC);
	setenv("TUTTI_FAULT", arg, 1);
	TT_EXPECT(!tt_env_load(&fault) && !tt_inject_arm(&fault, -1));
	tt_env_free(&fault);
	TT_EXPECT(tt_boot_contact(&p, &boot) == -ENOMEM && !boot);
	TT_EXPECT(fcntl(p.listen_fd, F_GETFD) < 0);
	return 0;
}

static void test_no_room(void)
{
	char *fault[] = {"alloc=1", "alloc=2", "alloc=3", "alloc=4", "alloc=5"};
	int i;

	for (i = 0; i < 5; i++)
		TT_CHECK(!tt_run_ranks(1, rank_no_room, fault[i], BT_BOUND_MS, 0));
}

static const struct tt_test tests[] = {{"missing_ranks_are_named", test_missing_ranks_are_named},
				       {"rank_0_is_late", test_rank_0_is_late},
				       {"wrong_ranks", test_wrong_ranks},
				       {"wrong_secret", test_wrong_secret},
				       {"junk_does_not_disturb", test_junk_does_not_disturb},
				       {"lost_during_start", test_lost_during_start},
				       {"lost_before_join", test_lost_before_join},
				       {"refuses", test_refuses},
				       {"few_files", test_few_files},
				       {"no_memory", test_no_memory},
				       {"no_room", test_no_room},
				       {"unreachable_store", test_unreachable_store},
				       {"no_secret_to_a_far_store", test_no_secret_to_a_far_store},
				       {"impossible_rank", test_impossible_rank},
				       {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("boot_refuse", tests, argc, argv);
}
