/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bad network: lost packets change nothing but the time, and all other ranks name a rank whose
 * link goes down in time. Each rank is in a network namespace of its own, joined by a bridge in
 * that of this program, so nothing of the machine's network is touched. As root; loss needs
 * nft(8).
 *
 *	TT_LOSSY=60		seconds of each loss (soak); default: 1
 *	TT_CUTS=2		each cut one way and both ways (soak); default: 1
 */
#include "config.h"

#include "lib/base/clock.h"
#include "lib/comm/comm.h"
#include "tests/mp/job.h"

#include <net/if.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define WORDS 30000
#define LIMIT_MS 1000 /* TUTTI_HEARTBEAT_LIMIT where a link goes down */

struct net {
	int percent; /* share of lost packets */
	double seconds;
	int victim; /* the rank whose link goes down */
	atomic_int calls, dropped, slowest_ms;
};

__attribute__((format(printf, 1, 2))) static int run(const char *fmt, ...)
{
	char command[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(command, sizeof(command), fmt, ap);
	va_end(ap);
	return system(command);
}

/*
 * Makes this program's own isolated network, with a new bridge for each job: the hosts of the job
 * before have the same addresses, and the kernel removes them only some time after their ranks.
 * Returns the error, or NULL.
 */
static const char *own_network(void)
{
	static bool apart;

	if (geteuid())
		return "only root can make networks";
	if (!apart && unshare(CLONE_NEWNET))
		return "no network namespaces here";
	apart = true;
	if (run("ip link set lo up && { ip link del br0 2>/dev/null || true; } && "
		"ip link add br0 type bridge && ip link set br0 up") != 0)
		return "ip(8) could not make a bridge";
	return NULL;
}

/* In a rank: makes a host of its own, connected to the bridge. */
static int plug_in(struct mp_job *job)
{
	int me = getpid(), outside = getppid();

	TT_EXPECT(!unshare(CLONE_NEWNET));
	TT_EXPECT(!run("nsenter --net=/proc/%d/ns/net sh -c 'ip link add v%d type veth peer name "
		       "eth0 netns %d && "
		       "ip link set v%d master br0 up'",
		       outside, me, me, me));
	TT_EXPECT(!run(
		"ip link set lo up && ip addr add 10.99.0.%d/24 dev eth0 && ip link set eth0 up",
		job->rank + 1));
	return 0;
}

static int join(struct mp_job *job)
{
	struct tutti_config config = {0};

	MP_OK(mp_join(job, MP_ID, &config));
	return 0;
}

/* One call of many lengths, exact; returns its error. Rank 0's v[0] tells whether all go on. */
static int call(struct mp_job *job, struct tutti_comm *comm, int32_t *v, int i, bool *more)
{
	size_t count = i % 4 ? (size_t)(i * 37 % 900 + 2) : WORDS, k;
	int n = tutti_comm_size(comm), me = tutti_comm_rank(comm), err;

	v[0] = me ? 0 : *more;
	for (k = 1; k < count; k++)
		v[k] = (int32_t)k + me * i;
	err = tutti_allreduce(TUTTI_IN_PLACE, v, count, TUTTI_INT32, TUTTI_SUM, comm);
	if (err)
		return err;
	for (k = 1; k < count; k++)
		if (v[k] != (int32_t)k * n + n * (n - 1) / 2 * i) {
			mp_failed(job, "the result is exact", 0, __FILE__, __LINE__);
			return 1;
		}
	*more = v[0];
	return 0;
}

/* ---- loss ---- */

static int lose(int percent)
{
	return run(
		"nft add table inet loss && "
		"nft 'add chain inet loss in { type filter hook input priority 0; }' && "
		"nft 'add rule inet loss in iifname eth0 numgen random mod 100 < %d counter drop'",
		percent);
}

static int lost(void)
{
	FILE *f = popen("nft list chain inet loss in", "r");
	char line[200];
	int n = 0;

	while (f && fgets(line, sizeof(line), f)) {
		const char *at = strstr(line, "packets ");

		n += at ? atoi(at + 8) : 0;
	}
	if (f)
		pclose(f);
	return n;
}

static int lossy_body(struct mp_job *job)
{
	struct net *net = job->arg;
	static int32_t v[WORDS];
	bool more = true;
	double end;
	int i;

	TT_EXPECT(!plug_in(job) && !lose(net->percent)); /* the start is lossy, too */
	TT_EXPECT(!join(job));
	end = mp_now() + net->seconds;
	for (i = 0; more; i++) {
		more = mp_now() < end;
		MP_OK(call(job, job->world, v, i, &more));
	}
	MP_OK(tutti_finalize(job->ctx));
	job->ctx = NULL;
	atomic_fetch_add(&net->dropped, lost());
	atomic_store(&net->calls, i);
	return 0;
}

static void lossy(int percent)
{
	struct net *net;

	if (own_network())
		TT_SKIP("%s", own_network());
	if (run("nft --version >/dev/null 2>&1") != 0)
		TT_SKIP("there is no nft(8)");
	net = mp_shared_mem(sizeof(*net));
	net->percent = percent;
	net->seconds = tt_times("TT_LOSSY", 1);
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_IF=eth0 TUTTI_TRANSPORT=ofi", .fn = lossy_body,
			 .arg = net, .no_init = true,
			 .timeout_ms = 60000 + (int)net->seconds * 1000));
	printf("  %d %% of packets lost, %d in all: %d calls, all exact, in %.0f s\n", percent,
	       net->dropped, net->calls, net->seconds);
	TT_CHECK(net->dropped > 0 && net->calls > 0);
	munmap(net, sizeof(*net));
}

static void loss_1(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	lossy(1);
}

static void loss_5(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	lossy(5);
}

/* ---- a link that goes down ---- */

static int link_down(void)
{
	struct ifreq req = {.ifr_name = "eth0"};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err;

	err = fd < 0 || ioctl(fd, SIOCGIFFLAGS, &req);
	req.ifr_flags &= (short)~IFF_UP;
	err = err || ioctl(fd, SIOCSIFFLAGS, &req);
	close(fd);
	return err;
}

static void *unplug_soon(void *arg)
{
	struct mp_job *job = arg;

	mp_sleep_ms(100);
	atomic_store(&job->shared->word[0], (int)(mp_now() * 1e3) & 0x3fffffff);
	return link_down() ? arg : NULL;
}

/* Calls until one fails; ms since the link went down. */
static int until_cut(struct mp_job *job, int *ms)
{
	static int32_t v[WORDS];
	bool more = true;
	int err, i;

	for (i = 0, err = 0; !err; i++, more = true)
		err = call(job, job->world, v, i, &more);
	*ms = ((int)(mp_now() * 1e3) & 0x3fffffff) - atomic_load(&job->shared->word[0]);
	MP_ERR(err, -TUTTI_EPEER);
	return 0;
}

static int down_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct net *net = job->arg;
	static int32_t v[WORDS];
	struct tutti_comm *next;
	bool more = true;
	pthread_t thread;
	void *failed;
	int ms, i;

	TT_EXPECT(!plug_in(job) && !join(job));
	MP_OK(call(job, job->world, v, 0, &more));
	if (job->rank == net->victim)
		TT_EXPECT(!pthread_create(&thread, NULL, unplug_soon, job));
	TT_EXPECT(!until_cut(job, &ms));
	MP_OK(tutti_last_error(&info));
	if (job->rank == net->victim) { /* seen from this rank, the other ranks have failed */
		TT_EXPECT(!pthread_join(thread, &failed) && !failed);
		TT_EXPECT(info.rank >= 0 && info.rank != job->rank);
	} else {
		TT_EXPECT(info.rank == net->victim && info.host[0] && info.call[0]);
		MP_OK(tutti_comm_shrink(job->world, &next));
		TT_EXPECT(tutti_comm_size(next) == job->n - 1);
		for (i = 0; i < 20; i++)
			MP_OK(call(job, next, v, i, &more));
		if (ms > atomic_load(&net->slowest_ms))
			atomic_store(&net->slowest_ms, ms);
	}
	TT_EXPECT(ms < 15 * LIMIT_MS); /* a twentieth of TUTTI_TIMEOUT */
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

static void down(int victim)
{
	struct net *net;

	if (mp_no_ofi() || own_network())
		TT_SKIP("%s", mp_no_ofi() ? mp_no_ofi() : own_network());
	net = mp_shared_mem(sizeof(*net));
	net->victim = victim;
	TT_CHECK(!MP_RUN(.n = 3, .fn = down_body, .arg = net, .no_init = true,
			 .env = "TUTTI_IF=eth0 TUTTI_TRANSPORT=ofi TUTTI_HEARTBEAT=200ms "
				"TUTTI_HEARTBEAT_LIMIT=1s"));
	printf("  link of rank %d down: named by the others after %d ms at most (limit %d ms)\n",
	       victim, net->slowest_ms, LIMIT_MS);
	munmap(net, sizeof(*net));
}

static void down_root(void)
{
	down(0);
}

static void down_leaf(void)
{
	down(2);
}

/* ---- no data between two hosts, while both still reach the others ---- */

enum wait_in { IN_ALLREDUCE, IN_RECV, IN_FIRST_RECV, IN_FLUSH };

#define ONE 2 /* the higher rank of the two must fail, as nothing else distinguishes them */
#define OTHER 3

struct cut {
	enum wait_in in;
	bool both_ways;
	atomic_int slowest_ms;
};

static int drop_from(int rank)
{
	return run("nft add table inet cut && "
		   "nft 'add chain inet cut in { type filter hook input priority 0; }' && "
		   "nft 'add rule inet cut in ip saddr 10.99.0.%d counter drop'",
		   rank + 1);
}

/* The work of each rank until it fails; with once: a single time. */
static int use_links(struct mp_job *job, struct tutti_win *win, char *mem, enum wait_in in,
		     bool once)
{
	static int32_t v[WORDS];
	bool more = true;
	int err, i;

	if ((in == IN_RECV || in == IN_FIRST_RECV) && job->rank == ONE)
		err = tutti_recv(v, WORDS, TUTTI_INT32, OTHER, 7, job->world, NULL);
	else if ((in == IN_RECV || in == IN_FIRST_RECV) && job->rank == OTHER)
		err = tutti_send(v, WORDS, TUTTI_INT32, ONE, 7, job->world);
	else if (in == IN_FLUSH && job->rank == OTHER)
		err = tutti_put(win, ONE, mem, 1 << 20, 0) ?: tutti_win_flush(win, ONE);
	else
		err = 0;
	/* The others make no call that could find it in the putting rank's place. */
	while (in == IN_FLUSH && !once && !err && !(err = atomic_load(&job->world->failed)))
		mp_sleep_ms(20);
	for (i = 0; !err && (!once || i < 1); i++)
		err = call(job, job->world, v, i, &more);
	return err;
}

/* As reported to tutti_ras: the unacknowledged data between the two, and for how long. */
static void *see_unacked(void *arg)
{
	struct mp_job *job = arg;
	struct tt_wire_link link[8];
	int n, i;

	while (!atomic_load(&job->shared->word[8])) {
		tt_wire_lock(job->ctx->wire);
		n = tt_wire_links(job->ctx->wire, 0, link, 8);
		tt_wire_unlock(job->ctx->wire);
		for (i = 0; i < n; i++)
			if (link[i].peer == ONE && link[i].silence.bytes &&
			    link[i].silence.ns > 200 * TT_MS)
				return NULL;
		mp_sleep_ms(20);
	}
	return arg;
}

static int check_cut(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	const char *text = info.text;

	MP_OK(tutti_comm_error(job->world, &info));
	if (info.rank != OTHER || !strstr(text, "the link between rank ") ||
	    !strstr(text, "rank 2 on ") || !strstr(text, "rank 3 on ") ||
	    !strstr(text, " carries no data: ") || !strstr(text, " for ")) {
		mp_failed(job, text, info.rank, __FILE__, __LINE__);
		return 1;
	}
	if (!job->rank)
		printf("  %s\n", text);
	fflush(stdout);
	return 0;
}

static int cut_body(struct mp_job *job)
{
	struct cut *cut = job->arg;
	struct tutti_comm *next;
	struct tutti_win *win = NULL;
	bool more = true;
	char *mem = NULL;
	void *unseen = NULL;
	pthread_t thread;
	double t0;
	int err;

	TT_EXPECT(!plug_in(job) && !join(job));
	if (cut->in == IN_FLUSH) {
		MP_OK(tutti_alloc(job->ctx, 1 << 20, (void **)&mem));
		MP_OK(tutti_win_create(job->world, mem, 1 << 20, 0, &win));
	}
	if (cut->in != IN_FIRST_RECV)
		MP_OK(use_links(job, win, mem, cut->in, true));
	mp_meet(job);
	if (job->rank == ONE)
		TT_EXPECT(!drop_from(OTHER));
	if (job->rank == OTHER && cut->both_ways)
		TT_EXPECT(!drop_from(ONE));
	mp_meet(job);
	if (job->rank == OTHER && cut->in == IN_ALLREDUCE)
		TT_EXPECT(!pthread_create(&thread, NULL, see_unacked, job));
	t0 = mp_now();
	err = use_links(job, win, mem, cut->in, false);
	atomic_store(&job->shared->word[8], 1);
	MP_ERR(err, -TUTTI_EPEER);
	t0 = mp_now() - t0;
	if (t0 * 1e3 > atomic_load(&cut->slowest_ms))
		atomic_store(&cut->slowest_ms, (int)(t0 * 1e3));
	TT_EXPECT(t0 < 30); /* a second is the limit; a tenth of TUTTI_TIMEOUT */
	TT_EXPECT(!check_cut(job));
	if (job->rank == OTHER && cut->in == IN_ALLREDUCE)
		TT_EXPECT(!pthread_join(thread, &unseen) && !unseen);
	if (job->rank != OTHER) {
		MP_OK(tutti_comm_shrink(job->world, &next));
		MP_OK(call(job, next, (int32_t[WORDS]){0}, 0, &more));
	}
	if (win)
		MP_ERR(tutti_win_free(win), -TUTTI_EPEER);
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

static void cut(enum wait_in in, bool both_ways)
{
	struct cut *c;

	if (mp_no_ofi() || own_network())
		TT_SKIP("%s", mp_no_ofi() ? mp_no_ofi() : own_network());
	if (run("nft --version >/dev/null 2>&1") != 0)
		TT_SKIP("there is no nft(8)");
	c = mp_shared_mem(sizeof(*c));
	c->in = in;
	c->both_ways = both_ways;
	TT_CHECK(!MP_RUN(.n = 4, .fn = cut_body, .arg = c, .no_init = true,
			 .env = "TUTTI_IF=eth0 TUTTI_TRANSPORT=ofi TUTTI_HEARTBEAT=200ms "
				"TUTTI_HEARTBEAT_LIMIT=1s TUTTI_TIMEOUT=300s"));
	printf("  known to all after %d ms at most (limit %d ms)\n", c->slowest_ms, LIMIT_MS);
	munmap(c, sizeof(*c));
}

static void cut_one_way(void)
{
	cut(IN_ALLREDUCE, false);
}

static void cut_both_ways(void)
{
	cut(IN_ALLREDUCE, true);
}

static void cut_recv(void)
{
	cut(IN_RECV, false);
	if (tt_times("TT_CUTS", 1) > 1)
		cut(IN_RECV, true);
}

/* The two have no connection yet. */
static void cut_first(void)
{
	cut(IN_FIRST_RECV, false);
	if (tt_times("TT_CUTS", 1) > 1)
		cut(IN_FIRST_RECV, true);
}

static void cut_put(void)
{
	cut(IN_FLUSH, true);
	if (tt_times("TT_CUTS", 1) > 1)
		cut(IN_FLUSH, false);
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"loss_1", loss_1},	      {"loss_5", loss_5},
		{"down_root", down_root},     {"down_leaf", down_leaf},
		{"cut_one_way", cut_one_way}, {"cut_both_ways", cut_both_ways},
		{"cut_recv", cut_recv},	      {"cut_first", cut_first},
		{"cut_put", cut_put},	      {NULL, NULL},
	};

	return tt_test_main("net", tests, argc, argv);
}
