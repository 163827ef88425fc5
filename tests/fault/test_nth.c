/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The N-th allocation, registration or new descriptor of a whole job fails (TUTTI_FAULT), for N
 * after N: every call either works, with exact results, or fails with a code and a text; no rank
 * hangs or crashes, and all descriptors are closed (and, with AddressSanitizer, all memory freed).
 * TT_TIMES above 1 takes every N, else about 6 of each, over verbs 3. Then the same for limits of
 * the system. TT_FILES=FIRST-LAST: verbs_files takes every limit in this range.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "tests/mp/job.h"

#define BIG 50000
#define GROUP_CALLS 30 /* at least as many as tutti_comm_create_group makes */

struct sweep {
	const char *env, *kind;
	int n, rank; /* of the job; where it fails */
	unsigned long long nth;
	/* Told by the ranks. */
	atomic_ulong total; /* calls of this kind in a run without a failure */
	atomic_int failed;  /* ranks that saw an error */
	bool count;
	bool group; /* the job makes a communicator of all its ranks, and that is all */
};

/* TT_TIMES: a step from N to the next. */
static unsigned long long step_of(unsigned long long total, int few)
{
	const char *times = getenv("TT_TIMES");

	return times && atoi(times) > 1 ? 1 : 1 + total / (unsigned long long)few;
}

static int failed(struct sweep *s, int err)
{
	struct tutti_error_info info = {.size = sizeof(info)};

	atomic_fetch_add(&s->failed, 1);
	if (err < 0 && tutti_strerror(err)[0] && !tutti_last_error(&info) && info.code &&
	    info.text[0])
		return 0;
	fprintf(stderr, "%d (%s), last error %d: '%s'\n", err, tutti_strerror(err), info.code,
		info.text);
	return 1;
}

/* As far as it goes: the first call that fails ends it. */
static int work(struct mp_job *job, float *big, int *right)
{
	float small[4] = {1, 2, 3, (float)job->rank};
	int err, i, sum = job->n * (job->n - 1) / 2;

	err = tutti_allreduce(TUTTI_IN_PLACE, small, 4, TUTTI_FLOAT32, TUTTI_SUM, job->world);
	*right &= err || small[3] == (float)sum;
	for (i = 0; i < BIG; i++)
		big[i] = (float)(i + job->rank);
	if (!err)
		err = tutti_allreduce(TUTTI_IN_PLACE, big, BIG, TUTTI_FLOAT32, TUTTI_SUM,
				      job->world);
	for (i = 0; !err && i < BIG; i++)
		*right &= big[i] == (float)(i * job->n + sum);
	if (!err && job->n > 1)
		err = job->rank ? tutti_recv(big, BIG, TUTTI_FLOAT32, job->rank - 1, 1, job->world,
					     NULL)
				: 0;
	if (!err && job->rank + 1 < job->n)
		err = tutti_send(big, BIG, TUTTI_FLOAT32, job->rank + 1, 1, job->world);
	return err ? err : tutti_barrier(job->world);
}

/* A rank that fails alone tells the others, which would wait longer than this. */
static int make_group(struct mp_job *job)
{
	struct tutti_comm_config how = {.size = sizeof(how), .nranks = job->n};
	struct tutti_comm *made;
	double began = mp_now();
	int err = tutti_comm_create_group(job->world, &how, &made);

	if (!err) {
		err = tutti_barrier(made);
		tutti_comm_free(made);
	}
	return mp_now() - began < 10 ? err : 1;
}

/* TUTTI_FAULT in the log says how many calls there were. */
static void on_log(enum tutti_log_level level, const char *line, void *arg)
{
	struct sweep *s = arg;
	unsigned long calls = mp_fault_calls(line, s->kind);

	(void)level;
	if (calls)
		atomic_store(&s->total, calls);
}

static int whole(struct mp_job *job)
{
	struct sweep *s = job->arg;
	struct tutti_config config = {0};
	int err, end, right = 1, before;
	char fault[64];
	float *big = NULL;

	snprintf(fault, sizeof(fault), "%s=%llu,rank=%d", s->kind, s->nth, s->rank);
	setenv("TUTTI_FAULT", fault, 1);
	/*
	 * So long the others wait, where it can't be told. A busy machine is no reason to fail
	 * where nothing is wrong.
	 */
	setenv("TUTTI_TIMEOUT", s->count || s->group ? "30s" : "2s", 1);
	setenv("TUTTI_INIT_TIMEOUT", s->count ? "30s" : "2s", 1);
	tutti_set_log(s->count && job->rank == s->rank ? on_log : NULL, s,
		      s->count && job->rank == s->rank ? TUTTI_LOG_INFO : TUTTI_LOG_NONE);
	before = tt_open_fds();
	err = mp_join(job, MP_ID, &config);
	if (err) {
		/*
		 * A job's socket of the unique id is given back by the job that uses it, or by no
		 * one.
		 */
		TT_EXPECT(job->ctx == NULL);
		return failed(s, err);
	}
	err = s->group ? make_group(job) : tutti_alloc(job->ctx, BIG * sizeof(*big), (void **)&big);
	if (!err && !s->group)
		err = work(job, big, &right);
	TT_EXPECT(right);
	if (err && failed(s, err))
		return 1;
	if (big)
		TT_EXPECT(!tutti_free(big));
	end = tutti_finalize(job->ctx);
	job->ctx = NULL;
	if (end && !err && failed(s, end))
		return 1;
	if (tt_open_fds() > before + 8) { /* what libfabric opens once and keeps */
		fprintf(stderr, "%s: %d descriptors before, %d after\n", fault, before,
			tt_open_fds());
		return 1;
	}
	return 0;
}

static int run_nth(struct sweep *s, unsigned long long nth)
{
	s->nth = nth;
	return MP_RUN(.n = s->n, .env = s->env, .fn = whole, .arg = s, .no_init = true,
		      .timeout_ms = 40000);
}

static void sweep_some(const char *env, const char *kind, int n, int rank, int few)
{
	struct sweep *s = mp_shared_mem(sizeof(*s));
	unsigned long long nth, step;
	int bad = 0, runs = 0, told = 0;

	*s = (struct sweep){.env = env, .kind = kind, .n = n, .rank = rank, .count = true};
	TT_CHECK(!run_nth(s, 1ull << 40) && !s->failed && s->total > 0);
	s->count = false;
	step = step_of(s->total, few);
	for (nth = 1; nth <= s->total + 3 && bad < 5; nth += step, runs++) {
		s->failed = 0;
		if (run_nth(s, nth)) {
			printf("  %s=%llu, rank %d of %d, %s\n", kind, nth, rank, n, env);
			bad++;
		}
		told += s->failed > 0;
	}
	printf("  %s, %d ranks, %s: %lu calls; %d runs, in %d of them a call failed, %d wrong\n",
	       env, n, kind, s->total, runs, told, bad);
	TT_CHECK(!bad && (told || !strcmp(kind, "reg")));
	munmap(s, sizeof(*s));
}

static void sweep(const char *env, const char *kind, int n, int rank)
{
	sweep_some(env, kind, n, rank, 6);
}

/* In tutti_comm_create_group, whose calls are among the last of the job. */
static void group(void)
{
	struct sweep *s = mp_shared_mem(sizeof(*s));
	unsigned long long nth;
	int bad = 0, told = 0;

	*s = (struct sweep){.env = "TUTTI_IF=lo",
			    .kind = "alloc",
			    .n = 3,
			    .rank = 1,
			    .count = true,
			    .group = true};
	TT_CHECK(!run_nth(s, 1ull << 40) && s->total > GROUP_CALLS);
	s->count = false;
	for (nth = s->total - GROUP_CALLS; nth <= s->total && bad < 3; nth++) {
		s->failed = 0;
		bad += run_nth(s, nth) != 0;
		told += s->failed > 0;
	}
	printf("  %lu calls; in %d of the last %d a call failed, %d wrong\n", s->total, told,
	       GROUP_CALLS, bad);
	TT_CHECK(!bad && told);
	munmap(s, sizeof(*s));
}

static void solo(void)
{
	sweep("TUTTI_IF=lo", "alloc", 1, 0);
	sweep("TUTTI_IF=lo", "socket", 1, 0);
	sweep("TUTTI_IF=lo", "reg", 1, 0);
}

static void node(void)
{
	sweep("TUTTI_IF=lo", "alloc", 2, 1);
	sweep("TUTTI_IF=lo", "socket", 2, 0);
	sweep("TUTTI_IF=lo", "reg", 2, 1);
}

static void shm(void)
{
	sweep("TUTTI_IF=lo TUTTI_TRANSPORT=shm", "alloc", 2, 0);
	sweep("TUTTI_IF=lo TUTTI_TRANSPORT=shm", "reg", 2, 0);
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	sweep("TUTTI_IF=lo TUTTI_TRANSPORT=ofi", "alloc", 2, 1);
	sweep("TUTTI_IF=lo TUTTI_TRANSPORT=ofi", "reg", 2, 0);
}

/* In the guest (tests/vm/inside.sh), where everything takes longer. */
static void verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	sweep_some("TUTTI_TRANSPORT=verbs", "alloc", 2, 1, 3);
	sweep_some("TUTTI_TRANSPORT=verbs", "socket", 2, 1, 3);
	sweep_some("TUTTI_TRANSPORT=verbs", "reg", 2, 0, 3);
}

/* rdma_cm has descriptors and memory of its own. */
static void verbs_cm(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	sweep_some("TUTTI_TRANSPORT=verbs TUTTI_VERBS_CM=rdmacm", "alloc", 2, 0, 3);
	sweep_some("TUTTI_TRANSPORT=verbs TUTTI_VERBS_CM=rdmacm", "socket", 2, 0, 3);
}

/* ---- the limits of the system ---- */

struct limit {
	int resource;
	rlim_t value;
	const char *says; /* of the error, if there is one; NULL: there must be none */
	bool may_work;
};

/*
 * Counts over the ranks of a job, unless NULL: errors, and errors that name the limit on
 * descriptors.
 */
static struct told {
	atomic_int errors, files;
} * told;

/* A rank that has descriptors left names the other rank. */
static bool tells(const char *text, int rank)
{
	bool limit = strstr(text, "ulimit -n") != NULL;
	char other[24];

	snprintf(other, sizeof(other), "rank %d", 1 - rank);
	atomic_fetch_add(&told->errors, 1);
	atomic_fetch_add(&told->files, limit);
	return limit || strstr(text, other);
}

static int under_limit(struct mp_job *job)
{
	const struct limit *l = job->arg;
	struct rlimit r = {l->value, l->value};
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_config config = {0};
	float *big = NULL;
	int err, right = 1, before = tt_open_fds();

	tutti_set_log(NULL, NULL, TUTTI_LOG_NONE);
	TT_EXPECT(!setrlimit((__rlimit_resource_t)l->resource, &r));
	err = mp_join(job, MP_ID, &config);
	if (!err)
		err = tutti_alloc(job->ctx, BIG * sizeof(*big), (void **)&big);
	if (!err)
		err = work(job, big, &right);
	TT_EXPECT(right && (l->may_work || err));
	if (err) {
		TT_EXPECT(!tutti_last_error(&info) && info.text[0]);
		printf("  rank %d: %s\n", job->rank, info.text);
		TT_EXPECT(!told || tells(info.text, job->rank));
		if (!l->says || !strstr(info.text, l->says)) {
			fprintf(stderr, "not in it: %s\n", l->says ? l->says : "that it works");
			return 1;
		}
	}
	tutti_free(big);
	if (job->ctx)
		tutti_finalize(job->ctx);
	job->ctx = NULL;
	TT_EXPECT(tt_open_fds() <=
		  before + 8); /* what libfabric and librdmacm open once and keep */
	return 0;
}

static void memlock(void)
{
	static struct limit l = {RLIMIT_MEMLOCK, 64 << 10, "", true};

	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_IF=lo", .fn = under_limit, .arg = &l,
			 .no_init = true));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_IF=lo TUTTI_TRANSPORT=shm", .fn = under_limit,
			 .arg = &l, .no_init = true));
}

/* Locked pool memory was asked for, and there is no room for it. Root may lock what it likes. */
static void memlock_pool(void)
{
	static struct limit l = {RLIMIT_MEMLOCK, 64 << 10, "ulimit -l", true};

	TT_CHECK(!MP_RUN(.n = 1, .env = "TUTTI_IF=lo TUTTI_POOL_LOCK=1", .fn = under_limit,
			 .arg = &l, .no_init = true));
}

/*
 * With a limit on descriptors, a rank that runs out reports it in its error text, and no rank
 * waits longer than its deadlines.
 */
static void few_files(const char *env, struct limit *l)
{
	double begin = mp_now();
	int failed;

	memset(told, 0, sizeof(*told));
	failed = MP_RUN(.n = 2, .env = env, .fn = under_limit, .arg = l, .no_init = true,
			.timeout_ms = 40000);
	printf("  RLIMIT_NOFILE %llu, %s: %.1f s\n", (unsigned long long)l->value, env,
	       mp_now() - begin);
	fflush(stdout);
	TT_CHECK(!failed);
	TT_CHECK(!told->errors || told->files);
}

static void nofile(void)
{
	static struct limit tight = {RLIMIT_NOFILE, 32, "", true},
			    none = {RLIMIT_NOFILE, 5, "ulimit -n", false};

	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_IF=lo", .fn = under_limit, .arg = &tight,
			 .no_init = true));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_IF=lo TUTTI_TRANSPORT=ofi",
				 .fn = under_limit, .arg = &tight, .no_init = true));
	TT_CHECK(!MP_RUN(.n = 1, .env = "TUTTI_IF=lo", .fn = under_limit, .arg = &none,
			 .no_init = true));
	told = mp_shared_mem(sizeof(*told));
	tight.says = "";
	for (tight.value = 6; tight.value < 20; tight.value++)
		few_files("TUTTI_IF=lo TUTTI_TRANSPORT=shm TUTTI_TIMEOUT=2s TUTTI_INIT_TIMEOUT=1s",
			  &tight);
	munmap(told, sizeof(*told));
	told = NULL;
}

/* Which of ranks 0 and 2 begins, and which has no descriptor left. */
struct late {
	int sender, short_of;
};

/*
 * Ranks 0 and 2 connect in mid-job, where one of them has no descriptor left: both fail soon, and
 * the text names the limit and the rank that has reached it.
 */
static int none_left(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	const struct late *late = job->arg;
	struct rlimit old, none;
	int v = job->rank, err;
	char name[16];
	double began, took;

	mp_log_level(job, TUTTI_LOG_NONE);
	if (job->rank < 2) /* what a connection needs in memory is there */
		MP_OK(job->rank ? tutti_recv(&v, 1, TUTTI_INT32, 0, 1, job->world, NULL)
				: tutti_send(&v, 1, TUTTI_INT32, 1, 1, job->world));
	mp_meet(job);
	TT_EXPECT(!getrlimit(RLIMIT_NOFILE, &old));
	none = (struct rlimit){3, old.rlim_max};
	TT_EXPECT(job->rank != late->short_of || !setrlimit(RLIMIT_NOFILE, &none));
	mp_meet(job);
	began = mp_now();
	err = 0;
	if (job->rank != 1)
		err = job->rank == late->sender
			      ? tutti_send(&v, 1, TUTTI_INT32, 2 - job->rank, 1, job->world)
			      : tutti_recv(&v, 1, TUTTI_INT32, 2 - job->rank, 1, job->world, NULL);
	TT_EXPECT(!setrlimit(RLIMIT_NOFILE, &old) && (!err || !tutti_last_error(&info)));
	took = mp_now() - began;
	mp_meet(job);
	mp_leave(job); /* fails, as the job has */
	if (job->rank == 1)
		return 0;
	TT_EXPECT(err < 0 || job->rank == late->sender); /* a short message may be on its way */
	if (!err)
		return 0;
	printf("  rank %d after %.1f s: %s\n", job->rank, took, info.text);
	fflush(stdout);
	TT_EXPECT(took < 15);
	TT_EXPECT(strstr(info.text, "ulimit -n") != NULL);
	snprintf(name, sizeof(name), "rank %d: ", late->short_of);
	TT_EXPECT(job->rank == late->short_of || strstr(info.text, name) ||
		  !strncmp(info.text, name, strlen(name) - 2));
	return 0;
}

static void late_files(void)
{
	static const struct late late[] = {{0, 0}, {0, 2}, {2, 0}, {2, 2}};
	size_t i;

	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	for (i = 0; i < 4; i++)
		TT_CHECK(!MP_RUN(.n = 3, .fn = none_left, .arg = (void *)(uintptr_t)&late[i],
				 .env = "TUTTI_IF=lo TUTTI_TRANSPORT=ofi TUTTI_TIMEOUT=40s"));
}

/*
 * TUTTI_FAULT does not count descriptors that libibverbs and librdmacm open; here the system's
 * limit makes them fail.
 */
static void verbs_files(void)
{
	static const char *const env[] = {
		"TUTTI_TRANSPORT=verbs TUTTI_TIMEOUT=8s TUTTI_INIT_TIMEOUT=8s",
		"TUTTI_TRANSPORT=verbs TUTTI_VERBS_CM=rdmacm TUTTI_TIMEOUT=2s "
		"TUTTI_INIT_TIMEOUT=8s"};
	struct limit l = {RLIMIT_NOFILE, 0, "", true};
	unsigned long long first = 8, last = 63, step = step_of(56, 4);
	const char *range = getenv("TT_FILES");
	size_t i;

	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	if (range && sscanf(range, "%llu-%llu", &first, &last) == 2)
		step = 1;
	told = mp_shared_mem(sizeof(*told));
	for (i = 0; i < 2; i++)
		for (l.value = first; l.value <= last; l.value += step)
			few_files(env[i], &l);
	l.value = 256;
	l.says = NULL;
	few_files("TUTTI_TRANSPORT=verbs", &l);
	munmap(told, sizeof(*told));
	told = NULL;
}

/* A full /dev/shm in a mount namespace of its own: the library keeps nothing there. */
static int full_shm(struct mp_job *job)
{
	struct statvfs vfs;

	TT_EXPECT(!unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
		  !mount("none", "/dev/shm", "tmpfs", 0, "size=4096,nr_inodes=1"));
	TT_EXPECT(!statvfs("/dev/shm", &vfs) && vfs.f_ffree == 0);
	return under_limit(job);
}

static int no_namespace(int rank, int nranks, void *arg)
{
	return unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

static void dev_shm(void)
{
	static struct limit l = {RLIMIT_CORE, 0, "", true};

	if (tt_run_ranks(1, no_namespace, NULL, 10000, 0))
		TT_SKIP("no mount namespace can be made here");
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_IF=lo", .fn = full_shm, .arg = &l, .no_init = true));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_IF=lo TUTTI_TRANSPORT=shm", .fn = full_shm,
			 .arg = &l, .no_init = true));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"group", group},
					       {"solo", solo},
					       {"node", node},
					       {"shm", shm},
					       {"ofi", ofi},
					       {"verbs", verbs},
					       {"verbs_cm", verbs_cm},
					       {"memlock", memlock},
					       {"memlock_pool", memlock_pool},
					       {"nofile", nofile},
					       {"late_files", late_files},
					       {"verbs_files", verbs_files},
					       {"dev_shm", dev_shm},
					       {NULL, NULL}};

	return tt_test_main("nth", tests, argc, argv);
}
