/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Falling back to a slower network. Ranks pretend an RDMA device by a /sys/class of their own:
 * their cards name verbs, which then cannot be opened.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define HOSTS "TUTTI_IF=lo TUTTI_HOST_ID=h%h"
#define RANKS 4

/* Which ranks pretend a device, and what the warning names; NULL: there is none. */
struct pretend {
	unsigned ranks;
	const char *reason;
};

static int own_mounts(void)
{
	return unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

static int pretend_device(struct mp_job *job)
{
	const struct pretend *p = job->arg;

	TT_EXPECT(!own_mounts() && !mount("none", "/sys/class", "tmpfs", 0, "size=64k"));
	if (p->ranks >> job->rank & 1)
		TT_EXPECT(!mkdir("/sys/class/infiniband", 0755) &&
			  !mkdir("/sys/class/infiniband/fake0", 0755));
	return 0;
}

static int count_warnings(struct mp_job *job)
{
	const char *p = job->log;
	int n = 0;

	pthread_mutex_lock(&job->log_lock);
	for (; (p = strstr(p, "instead of ")); p++)
		n++;
	pthread_mutex_unlock(&job->log_lock);
	return n;
}

static bool has_loaded(const char *library)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	bool has = false;

	while (f && !has && fgets(line, sizeof(line), f))
		has = strstr(line, library) != NULL;
	if (f)
		fclose(f);
	return has;
}

/* Rank 0's warning; and then more connections, after which no rank has another. */
static int talk(struct mp_job *job)
{
	const struct pretend *p = job->arg;
	struct tutti_config config = {0};
	int i, sum = job->rank + 1, all, peer, from;

	TT_EXPECT(!pretend_device(job));
	MP_OK(mp_join(job, MP_ID, &config));
	MP_OK(tutti_allreduce(&sum, &all, 1, TUTTI_INT32, TUTTI_SUM, job->world));
	TT_EXPECT(all == RANKS * (RANKS + 1) / 2);
	for (i = 1; i < job->n; i++) {
		peer = (job->rank + i) % job->n;
		from = (job->rank + job->n - i) % job->n;
		MP_OK(tutti_sendrecv(&sum, 1, TUTTI_INT32, peer, 1, &all, 1, TUTTI_INT32, from, 1,
				     job->world, NULL));
		TT_EXPECT(all == from + 1);
	}
	if (p->reason && !job->rank)
		TT_EXPECT(mp_log_await(job, p->reason));
	mp_meet(job);
	MP_OK(tutti_barrier(job->world));
	mp_sleep_ms(100); /* for warnings that are on their way */
	TT_EXPECT(count_warnings(job) == (p->reason && !job->rank));
	if (p->reason && !job->rank)
		TT_EXPECT(mp_log_has(job, "over ofi instead of verbs"));
	return 0;
}

static const char *cannot_run(void)
{
	if (mp_no_ofi())
		return mp_no_ofi();
	if (!mp_no_verbs())
		return "there is an RDMA device";
	return access("/sys/class/net", F_OK) ? "/sys is not mounted" : NULL;
}

static int try_mounts(int rank, int nranks, void *arg)
{
	return own_mounts();
}

static bool can_run(void)
{
	const char *why = cannot_run();

	if (!why && tt_run_ranks(1, try_mounts, NULL, 10000, 0))
		why = "no mount namespace can be made here";
	if (why)
		tt_skip("%s", why);
	return !why;
}

static void run(unsigned ranks, const char *reason)
{
	struct pretend p = {ranks, reason};

	TT_CHECK(!MP_RUN(.n = RANKS, .env = HOSTS, .fn = talk, .arg = &p, .no_init = true));
}

/* One warning in all, by rank 0, also where every rank or only another one falls back. */
static void warned_once(void)
{
	if (!can_run())
		return;
	run(0xf, "verbs can't be opened: ");
	run(0x3, "has no device for verbs");
	run(0x8, "has no device for verbs");
}

static void no_device_is_silent(void)
{
	if (can_run())
		run(0, NULL);
}

/* One host: silent, and neither library is loaded. */
static int one_host(struct mp_job *job)
{
	TT_EXPECT(!talk(job));
	TT_EXPECT(!has_loaded("libfabric") && !has_loaded("libibverbs"));
	return 0;
}

static void one_host_is_silent(void)
{
	struct pretend p = {0xf, NULL};

	if (can_run())
		TT_CHECK(!MP_RUN(.n = RANKS, .env = "TUTTI_IF=lo", .fn = one_host, .arg = &p,
				 .no_init = true));
}

#define ROOM (48l << 20) /* less than transport shm maps, and enough for everything else */

/* The ranks of one host have no room for transport shm. */
static int no_room(struct mp_job *job)
{
	struct tutti_config config = {0};
	int sum = job->rank, got = -1, other = !job->rank;

	if (!mp_limit_memory(ROOM))
		return 0;
	MP_OK(mp_join(job, MP_ID, &config));
	MP_OK(tutti_sendrecv(&sum, 1, TUTTI_INT32, other, 1, &got, 1, TUTTI_INT32, other, 1,
			     job->world, NULL));
	TT_EXPECT(got == other);
	if (!job->rank)
		TT_EXPECT(mp_log_await(job, "over ofi instead of shm"));
	mp_meet(job);
	TT_EXPECT(count_warnings(job) == !job->rank);
	return 0;
}

static void one_host_warned(void)
{
	if (can_run())
		TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_IF=lo", .fn = no_room, .no_init = true));
}

/* TUTTI_TRANSPORT of the last rank names verbs: no rank starts, and each says which one cannot. */
static int refused(struct mp_job *job)
{
	struct tutti_config config = {0};
	bool named = job->rank == job->n - 1;

	TT_EXPECT(!pretend_device(job));
	setenv("TUTTI_TRANSPORT", named ? "shm,verbs,ofi" : "shm,ofi", 1);
	TT_EXPECT(mp_join(job, MP_ID, &config) < 0);
	if (!named)
		MP_SAID("rank 3 on ");
	MP_SAID("verbs: there is no RDMA device");
	TT_EXPECT(!count_warnings(job));
	return 0;
}

static void named_is_an_error(void)
{
	struct pretend p = {0xf, NULL};

	if (can_run())
		TT_CHECK(!MP_RUN(.n = RANKS, .env = HOSTS, .fn = refused, .arg = &p,
				 .no_init = true));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"warned_once", warned_once},
					       {"no_device_is_silent", no_device_is_silent},
					       {"one_host_is_silent", one_host_is_silent},
					       {"one_host_warned", one_host_warned},
					       {"named_is_an_error", named_is_an_error},
					       {NULL, NULL}};

	return tt_test_main("slower", tests, argc, argv);
}
