/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Heartbeats: silent ranks are evicted; busy ranks, late judges and unread heartbeats cost no rank.
 * A rank without memory for messages is out itself. What a rank sent before its end is read.
 */
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/boot/control/control.h"
#include "tests/test.h"
#include "tests/unit/boot_help.h"

/* Rank 1 is stopped; when all others know, rank 0 lets it go on, and it learns what happened. */
static int rank_stopped(int rank, int n, void *arg)
{
	struct bt_job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);
	struct tt_boot *boot = NULL;
	struct bt_seen seen;
	char why[160] = "";

	p.heartbeat_limit = 600;
	p.heartbeat = 1000;
	bt_seen_init(&seen);
	TT_EXPECT(!bt_start(&p, &seen, &boot));
	j->pid[rank] = getpid();
	j->here++;
	BT_WAIT(j->here == n);
	if (rank == j->victim) {
		raise(SIGSTOP);
		BT_WAIT(bt_gone(&seen, rank, why, sizeof(why)));
		TT_EXPECT(bt_gone(&seen, rank, why, sizeof(why)));
	} else {
		BT_WAIT(bt_gone(&seen, j->victim, why, sizeof(why)));
		TT_EXPECT(strstr(why, "silent"));
		TT_EXPECT(bt_gone_count(&seen) == 1);
		j->saw++;
		if (!rank) {
			BT_WAIT(j->saw == n - 1);
			kill(j->pid[j->victim], SIGCONT);
		}
	}
	TT_EXPECT(!tt_boot_stop(boot, tt_deadline_ms(BT_HANG_MS)));
	return 0;
}

static void test_stopped_rank(void)
{
	struct bt_job *j = bt_job_new();

	j->victim = 1;
	TT_CHECK(!tt_run_ranks(11, rank_stopped, j, BT_BOUND_MS, 0));
	munmap(j, sizeof(*j));
}

/* A caller that is busy for longer than the limit still counts as alive. */
static int rank_busy(int rank, int n, void *arg)
{
	struct bt_job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);
	struct tt_boot *boot = NULL;
	struct bt_seen seen;

	p.heartbeat_limit = 600;
	bt_seen_init(&seen);
	TT_EXPECT(!bt_start(&p, &seen, &boot));
	usleep(1500000);
	TT_EXPECT(bt_gone_count(&seen) == 0);
	TT_EXPECT(!tt_boot_stop(boot, tt_deadline_ms(BT_HANG_MS)));
	return 0;
}

static void test_busy_is_alive(void)
{
	bt_job_run(3, rank_busy, 0);
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

/* ---- last words ---- */

static void note_open(struct tt_link *link)
{
	(void)link;
}

static void note_frame(struct tt_link *link, int type, const unsigned char *data, size_t len)
{
	(void)data;
	(void)len;
	*(int *)link->owner = type;
}

/* Two ends of a TCP connection in this process, authenticated. */
static bool connect_ends(const struct tt_link_ops *ops, const struct tt_self *self, int *last,
			 struct tt_link *end[2])
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct sockaddr *addr = (struct sockaddr *)&in;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd, i;
	socklen_t len = sizeof(in);

	if (bind(listener, addr, len) || listen(listener, 1) || getsockname(listener, addr, &len) ||
	    tt_link_connect(addr, len, TT_LINK_TREE, 0, self, ops, &last[0], TT_NEVER, &end[0]))
		return false;
	fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	close(listener);
	if (fd < 0 || tt_link_accept(fd, addr, self, ops, &last[1], TT_NEVER, &end[1]))
		return false;
	for (i = 0; i < 20; i++) {
		tt_link_readable(end[i % 2]);
		tt_link_flush(end[i % 2]);
	}
	return end[0]->state == TT_LINK_OPEN && end[1]->state == TT_LINK_OPEN;
}

/* A process ends with unread input, which resets the connection: what it sent before is read. */
static void test_last_words(void)
{
	static const struct tt_link_ops ops = {.open = note_open, .frame = note_frame};
	const struct tt_self self = {.nranks = 2, .version = "1", .secret = {7}};
	struct tt_link *end[2];
	int last[2] = {0}, i;

	TT_REQUIRE(connect_ends(&ops, &self, last, end));
	tt_link_send(end[0], TT_F_BEAT, NULL, 0);
	tt_link_flush(end[0]);
	tt_link_send(end[1], TT_F_MSG, "abort", 5);
	tt_link_flush(end[1]);
	tt_link_free(end[1]);
	for (i = 0; i < 2; i++) { /* this end writes before it reads */
		tt_link_send(end[0], TT_F_BEAT, NULL, 0);
		tt_link_flush(end[0]);
	}
	tt_link_readable(end[0]);
	TT_CHECK(last[0] == TT_F_MSG);
	TT_CHECK(end[0]->state == TT_LINK_DEAD);
	TT_CHECK(!tt_link_queued(end[0]));
	tt_link_free(end[0]);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true /* they need memory of their own */
#else
#define SANITIZED false
#endif

/* Private memory that this process writes, in bytes. */
static rlim_t used_data(void)
{
	return (rlim_t)tt_proc_number("status", "VmData") << 10;
}

/* Rank 1 reads nothing, and rank 0 has no memory to queue messages for it: rank 0 is out. */
static int rank_no_memory(int rank, int n, void *arg)
{
	static const unsigned char data[TT_CTL_MSG_MAX];
	struct bt_job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);
	struct tt_boot *boot = NULL;
	uint64_t until = tt_deadline_ms(20000);
	struct rlimit before, less;
	struct bt_seen seen;
	char why[160] = "";

	bt_seen_init(&seen);
	TT_EXPECT(!bt_start(&p, &seen, &boot));
	j->pid[rank] = getpid();
	j->here++;
	BT_WAIT(j->here == n);
	getrlimit(RLIMIT_DATA, &before);
	less = before;
	less.rlim_cur = used_data() + (512 << 10);
	if (!rank) {
		kill(j->pid[1], SIGSTOP);
		setrlimit(RLIMIT_DATA, &less);
	}
	while (!rank && !bt_gone(&seen, 0, why, sizeof(why)) && !tt_passed(until))
		if (tt_ctl_send(boot, 1, TT_CTL_QUERY, data, sizeof(data)))
			usleep(1000);
	setrlimit(RLIMIT_DATA, &before);
	BT_WAIT(bt_gone(&seen, 0, why, sizeof(why)));
	TT_EXPECT(bt_gone(&seen, 0, why, sizeof(why)) && bt_gone_count(&seen) == 1);
	TT_EXPECT(rank || strstr(why, "no memory to send to rank")); /* others may not hear it */
	if (rank == 2)
		kill(j->pid[1], SIGCONT);
	TT_EXPECT(!tt_boot_stop(boot, tt_deadline_ms(BT_HANG_MS)));
	return 0;
}

static void test_no_memory(void)
{
	if (SANITIZED)
		TT_SKIP("the sanitizers need memory of their own");
	bt_job_run(3, rank_no_memory, 0);
}

static const struct tt_test tests[] = {{"stopped_rank", test_stopped_rank},
				       {"busy_is_alive", test_busy_is_alive},
				       {"last_words", test_last_words},
				       {"late_judge", test_late_judge},
				       {"unread_heartbeat", test_unread_heartbeat},
				       {"no_memory", test_no_memory},
				       {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("boot_alive", tests, argc, argv);
}
