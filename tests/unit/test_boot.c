/* SPDX-License-Identifier: BSD-3-Clause */
/* Bootstrap and control tree with real processes: the start, messages, deaths, the end. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/boot/control/control.h"
#include "tests/test.h"
#include "tests/unit/boot_help.h"

#define BOUND_MS 30000 /* a hang, not a slow machine */

/* Known to all ranks of a test. */
struct job {
	int port;
	int victim;
	int64_t limit;
	atomic_int here, saw;
	atomic_int pid[BT_RANKS];
	char text[160];
};

static struct job *new_job(void)
{
	struct job *j = bt_shared(sizeof(*j));

	j->port = bt_free_port();
	j->victim = -1;
	return j;
}

/* Ranks that must all succeed, except killed ones. */
static void run_job(int n, tt_rank_fn *fn, unsigned killed)
{
	struct job *j = new_job();

	TT_CHECK(!tt_run_ranks(n, fn, j, BOUND_MS, killed));
	munmap(j, sizeof(*j));
}

static void fill_card(unsigned char *card, size_t len, int rank)
{
	size_t i;

	for (i = 0; i < len; i++)
		card[i] = (unsigned char)(rank * 7 + (int)i);
}

static int check_cards(struct tt_boot *boot, int n)
{
	unsigned char want[TT_CARD_MAX];
	const void *card;
	size_t len;
	int r;

	for (r = 0; r < n; r++) {
		card = tt_boot_card(boot, r, &len);
		fill_card(want, sizeof(want), r);
		TT_EXPECT(len == (r % 3 ? sizeof(want) : 0));
		TT_EXPECT(!memcmp(card, want, len));
		TT_EXPECT(tt_boot_host(boot, r)[0]);
	}
	return 0;
}

static int start_card(struct tt_boot_params *p, struct bt_seen *seen, struct tt_boot **boot)
{
	struct tt_boot_handlers h = bt_handlers(seen);
	unsigned char card[TT_CARD_MAX];

	fill_card(card, sizeof(card), p->rank);
	return tt_boot_start(p, &h, card, p->rank % 3 ? sizeof(card) : 0, boot);
}

static int rank_start_stop(int rank, int n, void *arg)
{
	struct job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);
	struct tt_boot *boot = NULL;
	struct bt_seen seen;

	/*
	 * No heartbeat wakes a control thread that sleeps with work left, such as a part of the
	 * table.
	 */
	p.heartbeat = 60000;
	p.heartbeat_limit = 240000;
	bt_seen_init(&seen);
	TT_EXPECT(!start_card(&p, &seen, &boot));
	TT_EXPECT(tt_boot_rank(boot) == rank && tt_boot_size(boot) == n);
	TT_EXPECT(!check_cards(boot, n));
	TT_EXPECT(!tt_boot_stop(boot, tt_deadline_ms(10000)));
	TT_EXPECT(bt_gone_count(&seen) == 0);
	return 0;
}

static void test_start_stop(void)
{
	static const int sizes[] = {1, 2, 3, 9, 17, 40, 64};
	struct job *j = new_job();
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		j->port = bt_free_port();
		TT_CHECK(!tt_run_ranks(sizes[i], rank_start_stop, j, BOUND_MS, 0));
	}
	munmap(j, sizeof(*j));
}

static int run_messages(struct tt_boot *boot, struct bt_seen *seen, int n)
{
	unsigned char data[TT_CTL_MSG_MAX] = {0};
	uint32_t word[2];
	uint32_t i;
	int to;

	for (i = 0; i < 10; i++) {
		word[0] = i;
		for (to = TT_CTL_ALL; to < n; to++) {
			word[1] = to == TT_CTL_ALL;
			memcpy(data, word, sizeof(word));
			TT_EXPECT(!tt_ctl_send(boot, to, TT_CTL_QUERY, data, i ? 8 : sizeof(data)));
		}
	}
	TT_EXPECT(tt_ctl_send(boot, 0, TT_CTL_QUERY, data, TT_CTL_MSG_MAX + 1) == -EINVAL);
	TT_EXPECT(tt_ctl_send(boot, n, TT_CTL_QUERY, data, 8) == -EINVAL);
	BT_WAIT(bt_received(seen) == n * 20, 15000);
	TT_EXPECT(bt_received(seen) == n * 20);
	return 0;
}

static int rank_messages(int rank, int n, void *arg)
{
	struct job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);
	struct tt_boot *boot = NULL;
	struct bt_seen seen;

	bt_seen_init(&seen);
	TT_EXPECT(!start_card(&p, &seen, &boot));
	TT_EXPECT(!run_messages(boot, &seen, n));
	TT_EXPECT(!tt_boot_stop(boot, tt_deadline_ms(10000)));
	TT_EXPECT(bt_received(&seen) == n * 20 && bt_gone_count(&seen) == 0);
	return 0;
}

static void test_messages(void)
{
	static const int sizes[] = {1, 2, 19};
	struct job *j = new_job();
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		j->port = bt_free_port();
		TT_CHECK(!tt_run_ranks(sizes[i], rank_messages, j, BOUND_MS, 0));
	}
	munmap(j, sizeof(*j));
}

struct thread_rank {
	pthread_t thread;
	struct job *job;
	int rank, n, result;
};

static void *thread_main(void *arg)
{
	struct thread_rank *t = arg;

	t->result = rank_messages(t->rank, t->n, t->job);
	return NULL;
}

static void test_threads_as_ranks(void)
{
	enum { N = 11 };
	struct thread_rank t[N];
	struct job *j = new_job();
	int i, fds = tt_open_fds();

	for (i = 0; i < N; i++) {
		t[i] = (struct thread_rank){.job = j, .rank = i, .n = N, .result = -1};
		pthread_create(&t[i].thread, NULL, thread_main, &t[i]);
	}
	for (i = 0; i < N; i++) {
		pthread_join(t[i].thread, NULL);
		TT_CHECK(t[i].result == 0);
	}
	TT_CHECK(tt_open_fds() == fds);
	munmap(j, sizeof(*j));
}

static int rank_killed(int rank, int n, void *arg)
{
	struct job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);
	struct tt_boot *boot = NULL;
	struct bt_seen seen;

	bt_seen_init(&seen);
	TT_EXPECT(!start_card(&p, &seen, &boot));
	j->here++;
	if (rank == j->victim) {
		BT_WAIT(j->here == n, 10000);
		kill(getpid(), SIGKILL);
	}
	BT_WAIT(bt_gone(&seen, j->victim, NULL, 0), 10000);
	TT_EXPECT(bt_gone(&seen, j->victim, NULL, 0));
	TT_EXPECT(!tt_boot_stop(boot, tt_deadline_ms(10000)));
	TT_EXPECT(bt_gone_count(&seen) == 1);
	return 0;
}

static void kill_one(int n, int victim)
{
	struct job *j = new_job();

	j->victim = victim;
	TT_CHECK(!tt_run_ranks(n, rank_killed, j, BOUND_MS, 1u << victim));
	munmap(j, sizeof(*j));
}

static void test_kill_root(void)
{
	kill_one(18, 0);
}

static void test_kill_inner(void)
{
	kill_one(18, 1);
}

static void test_kill_leaf(void)
{
	kill_one(18, 17);
	kill_one(2, 1);
}

/* ---- the tree mends ---- */

#define MEND_DEATHS 4

struct mend {
	pthread_mutex_t lock;
	int last[BT_RANKS]; /* the last round of each rank that was heard to all, and */
	int mine[BT_RANKS]; /* to this one */
};

static void mend_msg(void *arg, int from, const void *data, size_t len)
{
	struct mend *m = arg;
	int word[2];

	if (len != sizeof(word))
		return;
	memcpy(word, data, sizeof(word));
	pthread_mutex_lock(&m->lock);
	if (word[1])
		m->last[from] = word[0] > m->last[from] ? word[0] : m->last[from];
	else
		m->mine[from] = word[0] > m->mine[from] ? word[0] : m->mine[from];
	pthread_mutex_unlock(&m->lock);
}

static bool heard_all(struct mend *m, int first, int n, int round)
{
	bool all = true;
	int r;

	pthread_mutex_lock(&m->lock);
	for (r = first; r < n; r++)
		all &= m->last[r] >= round && m->mine[r] >= round;
	pthread_mutex_unlock(&m->lock);
	return all;
}

/* All ranks reach all ranks again, by name and by broadcast. */
static int mend_round(struct tt_boot *boot, struct mend *m, int first, int n, int round)
{
	int word[2] = {round, 1}, r;

	TT_EXPECT(!tt_ctl_send(boot, TT_CTL_ALL, TT_CTL_QUERY, word, sizeof(word)));
	word[1] = 0;
	for (r = first; r < n; r++)
		TT_EXPECT(!tt_ctl_send(boot, r, TT_CTL_QUERY, word, sizeof(word)));
	BT_WAIT(heard_all(m, first, n, round), 5000);
	for (r = first; r < n; r++)
		if (m->last[r] < round || m->mine[r] < round)
			fprintf(stderr, "rank %d has heard rounds %d and %d of rank %d\n",
				tt_boot_rank(boot), m->last[r], m->mine[r], r);
	TT_EXPECT(heard_all(m, first, n, round));
	return 0;
}

/* The lowest ranks die one after the other: each death takes the root, and at first most links. */
static int rank_mends(int rank, int n, void *arg)
{
	struct job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);
	struct tt_boot_handlers h = {0};
	struct tt_boot *boot = NULL;
	struct mend m = {0};
	char why[160], first[160];
	int i;

	pthread_mutex_init(&m.lock, NULL);
	h.arg = &m;
	h.fn[TT_CTL_QUERY] = mend_msg;
	TT_EXPECT(!tt_boot_start(&p, &h, "", 0, &boot));
	for (i = 0; i <= MEND_DEATHS; i++) {
		TT_EXPECT(!mend_round(boot, &m, i, n, i + 1));
		atomic_fetch_add(&j->saw, 1);
		BT_WAIT(j->saw >= (i + 1) * n - i * (i + 1) / 2, 10000);
		if (rank == i && i < MEND_DEATHS)
			kill(getpid(), SIGKILL);
		if (i == MEND_DEATHS)
			break;
		BT_WAIT(tt_boot_gone(boot, i, why, sizeof(why)), 10000);
		TT_EXPECT(tt_boot_lowest(boot) == i + 1);
	}
	/* the same words everywhere */
	TT_EXPECT(tt_boot_gone(boot, 0, first, sizeof(first)));
	if (rank == n - 1)
		memcpy(j->text, first, sizeof(first));
	atomic_fetch_add(&j->here, 1);
	BT_WAIT(j->here == n - MEND_DEATHS, 10000);
	TT_EXPECT(!strcmp(j->text, first));
	TT_EXPECT(!tt_boot_stop(boot, tt_deadline_ms(10000)));
	return 0;
}

static void test_mends(void)
{
	run_job(30, rank_mends, (1u << MEND_DEATHS) - 1);
}

/* Rank 1 is stopped; when all others know, rank 0 lets it go on, and it learns what happened. */
static int rank_stopped(int rank, int n, void *arg)
{
	struct job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);
	struct tt_boot *boot = NULL;
	struct bt_seen seen;
	char why[160] = "";

	p.heartbeat_limit = 600;
	p.heartbeat = 1000;
	bt_seen_init(&seen);
	TT_EXPECT(!start_card(&p, &seen, &boot));
	j->pid[rank] = getpid();
	j->here++;
	BT_WAIT(j->here == n, 10000);
	if (rank == j->victim) {
		raise(SIGSTOP);
		BT_WAIT(bt_gone(&seen, rank, why, sizeof(why)), 10000);
		TT_EXPECT(bt_gone(&seen, rank, why, sizeof(why)));
	} else {
		BT_WAIT(bt_gone(&seen, j->victim, why, sizeof(why)), 10000);
		TT_EXPECT(strstr(why, "silent"));
		TT_EXPECT(bt_gone_count(&seen) == 1);
		j->saw++;
		if (!rank) {
			BT_WAIT(j->saw == n - 1, 10000);
			kill(j->pid[j->victim], SIGCONT);
		}
	}
	TT_EXPECT(!tt_boot_stop(boot, tt_deadline_ms(10000)));
	return 0;
}

static void test_stopped_rank(void)
{
	struct job *j = new_job();

	j->victim = 1;
	TT_CHECK(!tt_run_ranks(11, rank_stopped, j, BOUND_MS, 0));
	munmap(j, sizeof(*j));
}

/* A caller that is busy for longer than the limit still counts as alive. */
static int rank_busy(int rank, int n, void *arg)
{
	struct job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);
	struct tt_boot *boot = NULL;
	struct bt_seen seen;

	p.heartbeat_limit = 600;
	bt_seen_init(&seen);
	TT_EXPECT(!start_card(&p, &seen, &boot));
	usleep(1500000);
	TT_EXPECT(bt_gone_count(&seen) == 0);
	TT_EXPECT(!tt_boot_stop(boot, tt_deadline_ms(10000)));
	return 0;
}

static void test_busy_is_alive(void)
{
	run_job(3, rank_busy, 0);
}

/* A control thread that came late does not count that time against its peers. */
static void test_late_judge(void)
{
	const uint64_t limit = 1000;

	TT_CHECK(tt_ctl_excused(250, 250, limit) == 0);
	TT_CHECK(tt_ctl_excused(10, 250, limit) == 0); /* woken by an event */
	TT_CHECK(tt_ctl_excused(300, 250, limit) == 0);
	TT_CHECK(tt_ctl_excused(450, 250, limit) == 200);
	TT_CHECK(tt_ctl_excused(450, 0, limit) == 450);
	TT_CHECK(tt_ctl_excused(501, 500, limit) == UINT64_MAX);
	TT_CHECK(tt_ctl_excuse(5000, 6000, 200) == 5200);
	TT_CHECK(tt_ctl_excuse(5000, 6000, 0) == 5000);
	TT_CHECK(tt_ctl_excuse(5900, 6000, 200) == 6000);
	TT_CHECK(tt_ctl_excuse(5900, 6000, UINT64_MAX) == 6000);
	TT_CHECK(tt_ctl_excuse(6100, 6000, 200) == 6100);
	/* Starved for 450 of every 500 ms: one that speaks every 700 ms stays alive. */
	TT_CHECK(6000 - tt_ctl_excuse(tt_ctl_excuse(4900, 5500, 400), 6000, 400) < limit);
}

/* A heartbeat that waits in the socket is one, although the control thread has not read it. */
static void test_unread_heartbeat(void)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct tt_link *link = NULL;
	struct tt_self self = {0};
	int fd[2];

	TT_REQUIRE(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd));
	TT_REQUIRE(!tt_link_accept(fd[0], (struct sockaddr *)&in, &self, &tt_ctl_link_ops, NULL,
				   TT_NEVER, &link));
	TT_CHECK(!tt_link_has_input(link));
	TT_CHECK(write(fd[1], "x", 1) == 1);
	TT_CHECK(tt_link_has_input(link));
	tt_link_free(link);
	close(fd[1]);
}

static int rank_missing(int rank, int n, void *arg)
{
	struct job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);
	struct tt_boot *boot = NULL;
	struct bt_seen seen;
	uint64_t t0 = tt_now_ns();

	if (rank == 2 || rank == 5)
		return 0;
	p.init_timeout = rank == j->victim ? j->limit : 20000; /* one deadline ends all */
	bt_seen_init(&seen);
	TT_EXPECT(start_card(&p, &seen, &boot) == -TUTTI_EBOOT);
	TT_EXPECT(bt_error_has("rank 2, 5 of 8 did not join within"));
	TT_EXPECT(!boot);
	TT_EXPECT(tt_now_ns() - t0 < 15 * TT_SEC);
	return 0;
}

/* All other ranks must have joined by the deadline, so it is several times a measured start. */
static void test_missing_ranks_are_named(void)
{
	struct job *j = new_job();
	uint64_t t0 = tt_now_ns();

	TT_CHECK(!tt_run_ranks(8, rank_start_stop, j, BOUND_MS, 0));
	j->limit = 500 + 5 * (int64_t)((tt_now_ns() - t0) / TT_MS);
	j->port = bt_free_port();
	j->victim = 0;
	TT_CHECK(!tt_run_ranks(8, rank_missing, j, BOUND_MS, 0));
	j->port = bt_free_port();
	j->victim = 4;
	TT_CHECK(!tt_run_ranks(8, rank_missing, j, BOUND_MS, 0));
	munmap(j, sizeof(*j));
}

static int expect_failure(struct tt_boot_params *p, int code, const char *text)
{
	struct tt_boot *boot = NULL;
	struct bt_seen seen;

	bt_seen_init(&seen);
	TT_EXPECT(start_card(p, &seen, &boot) == code);
	TT_EXPECT(bt_error_has(text));
	TT_EXPECT(!boot);
	return 0;
}

static int rank_duplicate(int rank, int n, void *arg)
{
	struct job *j = arg;
	struct tt_boot_params p = bt_params(rank == 3 ? 2 : rank, n, j->port);

	return expect_failure(&p, -TUTTI_EBOOT, "two processes joined as rank 2 of 4");
}

static int rank_size(int rank, int n, void *arg)
{
	struct job *j = arg;
	struct tt_boot_params p = bt_params(rank, rank == 2 ? 7 : n, j->port);

	return expect_failure(&p, -TUTTI_EBOOT,
			      "was told that the job has 7 ranks, rank 0 that it has 4");
}

static int rank_version(int rank, int n, void *arg)
{
	struct job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);

	if (rank == 2)
		setenv("TUTTI_TEST_BOOT_VERSION", "9.8.7", 1);
	TT_EXPECT(!expect_failure(&p, -TUTTI_EVERSION, "runs tutti 9.8.7"));
	TT_EXPECT(bt_error_has("rank 2 (") && bt_error_has("rank 0 runs tutti 0.1.0"));
	return 0;
}

static void test_wrong_ranks(void)
{
	tt_rank_fn *const fns[] = {rank_duplicate, rank_size, rank_version};
	struct job *j = new_job();
	size_t i;

	for (i = 0; i < sizeof(fns) / sizeof(fns[0]); i++) {
		j->port = bt_free_port();
		TT_CHECK(!tt_run_ranks(4, fns[i], j, BOUND_MS, 0));
	}
	munmap(j, sizeof(*j));
}

static int rank_secret(int rank, int n, void *arg)
{
	struct job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);

	p.init_timeout = rank ? 20000 : 1500;
	if (rank == 2)
		p.secret[5] ^= 1;
	TT_EXPECT(!expect_failure(&p, rank == 2 ? -TUTTI_EAUTH : -TUTTI_EBOOT,
				  rank == 2 ? "TUTTI_SECRET_FILE" : "rank 2 of 3 did not join"));
	TT_EXPECT(rank == 2 || bt_error_has("refused for a wrong secret"));
	return 0;
}

static void test_wrong_secret(void)
{
	struct job *j = new_job();

	tutti_set_log(NULL, NULL, TUTTI_LOG_NONE);
	TT_CHECK(!tt_run_ranks(3, rank_secret, j, BOUND_MS, 0));
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
		BT_WAIT(!connect(fds[i], (struct sockaddr *)&in, sizeof(in)), 5000);
		if (i % 4)
			send(fds[i], junk, i % 4 == 2 ? 40 : sizeof(junk), MSG_NOSIGNAL);
	}
}

static int rank_junk(int rank, int n, void *arg)
{
	struct job *j = arg;
	uint64_t t0 = tt_now_ns();
	int fds[100], i;

	if (rank == 1) {
		disturb(j->port, fds);
		j->here++;
	} else if (rank == 2) {
		BT_WAIT(j->here, 10000);
	}
	TT_EXPECT(!rank_start_stop(rank, n, arg));
	TT_EXPECT(tt_now_ns() - t0 < 12 * TT_SEC);
	for (i = 0; rank == 1 && i < 100; i++)
		close(fds[i]);
	return 0;
}

static void test_junk_does_not_disturb(void)
{
	struct job *j = new_job();

	tutti_set_log(NULL, NULL, TUTTI_LOG_NONE);
	TT_CHECK(!tt_run_ranks(4, rank_junk, j, BOUND_MS, 0));
	tutti_set_log(NULL, NULL, TUTTI_LOG_DEFAULT);
	munmap(j, sizeof(*j));
}

static int rank_lost(int rank, int n, void *arg)
{
	struct job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);

	if (rank == 3) /* never joins: the others wait */
		return 0;
	if (rank == 2) {
		signal(SIGALRM, SIG_DFL);
		ualarm(500000, 0);
	}
	return expect_failure(&p, -TUTTI_EBOOT, "rank 2 on ");
}

static void test_lost_during_start(void)
{
	run_job(4, rank_lost, 1u << 2);
}

/* Rank 0's log: a rank is in contact. */
static void count_contacts(enum tutti_log_level level, const char *text, void *arg)
{
	struct job *j = arg;

	(void)level;
	j->here += strstr(text, " is there, on ") != NULL;
}

/* The victim is killed after the first contact of all ranks and before its own join. */
static int rank_lost_early(int rank, int n, void *arg)
{
	struct job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);
	const char *victim = j->victim ? "rank 2 on " : "rank 0 at ";
	struct tt_boot *boot = NULL;
	uint64_t t0 = tt_now_ns();

	p.init_timeout = 120000;
	if (!rank)
		tutti_set_log(count_contacts, j, TUTTI_LOG_DEBUG);
	TT_EXPECT(!tt_boot_contact(&p, &boot));
	BT_WAIT(j->here == n - 1, 20000);
	if (rank == j->victim)
		kill(getpid(), SIGKILL);
	if (rank == 1) /* comes late */
		usleep(200000);
	TT_EXPECT(tt_boot_join(boot, NULL, "x", 1) == -TUTTI_EBOOT);
	TT_EXPECT(bt_error_has(victim));
	TT_EXPECT(!j->victim || bt_error_has("ended before it joined"));
	TT_EXPECT(tt_now_ns() - t0 < 20 * TT_SEC);
	return 0;
}

static void test_lost_before_join(void)
{
	struct job *j = new_job();

	for (j->victim = 0; j->victim <= 2; j->victim += 2) {
		j->here = 0;
		j->port = bt_free_port();
		TT_CHECK(!tt_run_ranks(4, rank_lost_early, j, BOUND_MS, 1u << j->victim));
	}
	munmap(j, sizeof(*j));
}

/* A rank that cannot take part tells the others why. */
static int rank_refuses(int rank, int n, void *arg)
{
	struct job *j = arg;
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
	struct job *j = new_job();

	for (j->victim = 0; j->victim < 3; j->victim++) {
		j->port = bt_free_port();
		TT_CHECK(!tt_run_ranks(3, rank_refuses, j, BOUND_MS, 0));
	}
	munmap(j, sizeof(*j));
}

static void test_unreachable_store(void)
{
	struct tt_boot_params p = bt_params(1, 2, bt_free_port());
	int fds = tt_open_fds();
	char store[128];

	p.init_timeout = 400;
	snprintf(store, sizeof(store), "%s", p.store);
	TT_CHECK(!expect_failure(&p, -TUTTI_EBOOT, store));
	TT_CHECK(bt_error_has("Connection refused"));
	TT_CHECK(tt_open_fds() == fds);
}

static void test_impossible_rank(void)
{
	struct tt_boot_params p = bt_params(9, 4, bt_free_port());

	TT_CHECK(!expect_failure(&p, -EINVAL, "rank 9 of 4"));
}

/* Loopback itself needs no secret, but the store must be there too. */
static void test_no_secret_to_a_far_store(void)
{
	struct tt_boot_params p = bt_params(1, 2, 1);

	p.have_secret = false;
	snprintf(p.iface, sizeof(p.iface), "lo");
	snprintf(p.store, sizeof(p.store), "198.51.100.7:1");
	TT_CHECK(!expect_failure(&p, -TUTTI_EAUTH, "TUTTI_INSECURE=1"));
}

/* No stop returns before the last rank has called it and all earlier messages have come. */
static int rank_stop_waits(int rank, int n, void *arg)
{
	struct job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);
	struct tt_boot *boot = NULL;
	struct bt_seen seen;
	uint32_t word[2] = {0, 1};

	bt_seen_init(&seen);
	TT_EXPECT(!start_card(&p, &seen, &boot));
	if (rank == n - 1)
		usleep(300000);
	for (; word[0] < 5; word[0]++)
		TT_EXPECT(!tt_ctl_send(boot, TT_CTL_ALL, TT_CTL_QUERY, word, sizeof(word)));
	j->here++;
	TT_EXPECT(!tt_boot_stop(boot, tt_deadline_ms(10000)));
	TT_EXPECT(j->here == n);
	TT_EXPECT(bt_received(&seen) == 5 * n && bt_gone_count(&seen) == 0);
	return 0;
}

static void test_stop_waits_for_all(void)
{
	run_job(11, rank_stop_waits, 0);
}

static int rank_never_stops(int rank, int n, void *arg)
{
	struct job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);
	struct tt_boot *boot = NULL;
	struct bt_seen seen;

	bt_seen_init(&seen);
	TT_EXPECT(!start_card(&p, &seen, &boot));
	if (rank == 1) {
		BT_WAIT(bt_gone(&seen, 0, NULL, 0), 10000);
		TT_EXPECT(!tt_boot_stop(boot, tt_deadline_ms(10000)));
		return 0;
	}
	TT_EXPECT(tt_boot_stop(boot, tt_deadline_ms(300)) == -ETIMEDOUT);
	TT_EXPECT(bt_error_has("rank 1"));
	return 0;
}

static void test_stop_deadline(void)
{
	run_job(2, rank_never_stops, 0);
}

/*
 * A rank that has told its parent that it wants to end, and then loses the parent, ends by itself.
 */
static int rank_parent_dies(int rank, int n, void *arg)
{
	struct job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);
	struct tt_boot *boot = NULL;
	struct bt_seen seen;

	bt_seen_init(&seen);
	TT_EXPECT(!start_card(&p, &seen, &boot));
	if (rank == 0) {
		usleep(300000);
		_exit(0);
	}
	TT_EXPECT(!tt_boot_stop(boot, tt_deadline_ms(10000)));
	TT_EXPECT(bt_gone(&seen, 0, NULL, 0));
	return 0;
}

static void test_parent_dies_in_stop(void)
{
	run_job(2, rank_parent_dies, 0);
}

/*
 * At the root, in the moment between the end of a child's link and its burial: that rank has said
 * goodbye, and is gone, and counts once. Rank 3 is between two parents.
 */
static void test_goodbyes_count_once(void)
{
	struct tt_link dead = {.state = TT_LINK_DEAD, .peer = 1};
	struct tt_link open = {.state = TT_LINK_OPEN, .peer = 2, .closing = true};
	struct tt_child child[] = {{.link = &dead, .bye = true, .below = 1},
				   {.link = &open, .bye = true, .below = 1},
				   {0}};
	struct tt_boot b = {.nranks = 4,
			    .phase = TT_PH_UP,
			    .stopping = true,
			    .child = child,
			    .nchildren = 3,
			    .ngone = 1};

	tt_tree_step(&b);
	TT_CHECK(b.phase == TT_PH_UP);
	child[1].below = 2; /* it has come to rank 2 */
	tt_tree_step(&b);
	TT_CHECK(b.phase == TT_PH_BYE);
}

static const struct tt_test tests[] = {{"start_stop", test_start_stop},
				       {"messages", test_messages},
				       {"threads_as_ranks", test_threads_as_ranks},
				       {"kill_root", test_kill_root},
				       {"kill_inner", test_kill_inner},
				       {"kill_leaf", test_kill_leaf},
				       {"mends", test_mends},
				       {"stopped_rank", test_stopped_rank},
				       {"busy_is_alive", test_busy_is_alive},
				       {"missing_ranks_are_named", test_missing_ranks_are_named},
				       {"wrong_ranks", test_wrong_ranks},
				       {"wrong_secret", test_wrong_secret},
				       {"junk_does_not_disturb", test_junk_does_not_disturb},
				       {"late_judge", test_late_judge},
				       {"unread_heartbeat", test_unread_heartbeat},
				       {"lost_during_start", test_lost_during_start},
				       {"lost_before_join", test_lost_before_join},
				       {"refuses", test_refuses},
				       {"unreachable_store", test_unreachable_store},
				       {"no_secret_to_a_far_store", test_no_secret_to_a_far_store},
				       {"impossible_rank", test_impossible_rank},
				       {"stop_waits_for_all", test_stop_waits_for_all},
				       {"stop_deadline", test_stop_deadline},
				       {"parent_dies_in_stop", test_parent_dies_in_stop},
				       {"goodbyes_count_once", test_goodbyes_count_once},
				       {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("boot", tests, argc, argv);
}
