/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whole versions of a table: values and numbers on any number of servers and slots; reads beside
 * writes never mix versions, over faulty transports too; servers that are stopped; writers that are
 * killed; refused options and calls.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define SHM "TUTTI_TRANSPORT=shm "

static int make(struct mp_job *job, struct tutti_ps *ps, size_t count, int versions,
		struct tutti_ps_table **t)
{
	struct tutti_ps_options opt = {
		.size = sizeof(opt), .init = TUTTI_PS_ZERO, .versions = versions};

	MP_OK(tutti_ps_dense(ps, "t", count, TUTTI_UINT64, &opt, t));
	return 0;
}

/* Every element tells its index and its version. */
static void fill(uint64_t *v, size_t count, uint64_t version)
{
	size_t i;

	for (i = 0; i < count; i++)
		v[i] = version << 20 | i;
}

static bool filled(const uint64_t *v, size_t count, uint64_t version)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (v[i] != (version << 20 | i)) {
			fprintf(stderr, "element %zu is of version %llu, not %llu\n", i,
				(unsigned long long)(v[i] >> 20), (unsigned long long)version);
			return false;
		}
	return true;
}

/* ---- values ---- */

struct shape {
	int n, servers, versions, staleness;
	size_t count;
	const char *env;
};

/* The last rank writes, all workers read. */
static int turns(struct mp_job *job, struct tutti_ps_table *t, const struct shape *s)
{
	uint64_t *v = calloc(s->count, sizeof(*v)), *own = calloc(s->count, sizeof(*own));
	uint64_t k, number, have = 0;

	MP_ERR(tutti_ps_pull_version(t, v, s->count, TUTTI_UINT64, &have), -ENODATA);
	MP_SAID("tutti_ps_push_version");
	MP_OK(tutti_ps_push(t, own, 0, s->count, TUTTI_UINT64));
	mp_meet(job);
	for (k = 1; k <= 7; k++) {
		fill(v, s->count, k);
		if (job->rank == job->n - 1)
			MP_OK(tutti_ps_push_version(t, v, s->count, TUTTI_UINT64, &number));
		TT_EXPECT(job->rank < job->n - 1 || number == k);
		mp_meet(job);
		memset(v, 0x55, s->count * sizeof(*v));
		MP_OK(tutti_ps_pull_version(t, v, s->count, TUTTI_UINT64, &have));
		TT_EXPECT(have == k && filled(v, s->count, k));
		v[0]++; /* what is there already is not read again */
		MP_OK(tutti_ps_pull_version(t, v, s->count, TUTTI_UINT64, &have));
		TT_EXPECT(have == k && v[0] == (k << 20 | 0) + 1);
		mp_meet(job);
	}
	MP_OK(tutti_ps_pull(t, v, 0, s->count, TUTTI_UINT64)); /* another thing */
	TT_EXPECT(!v[0] && !v[s->count - 1]);
	free(v);
	free(own);
	return 0;
}

static int values_body(struct mp_job *job)
{
	const struct shape *s = job->arg;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	int i;

	MP_OK(mp_ps_open(job, s->servers, s->staleness, &ps));
	TT_EXPECT(!make(job, ps, s->count, s->versions, &t));
	if (s->servers < 0 || job->rank >= s->servers)
		TT_EXPECT(!turns(job, t, s));
	else
		for (i = 0; i < 1 + 2 * 7; i++)
			mp_meet(job);
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void values(void)
{
	static const struct shape shape[] = {{2, 1, 2, 0, 1, SHM},
					     {3, 1, 3, TUTTI_PS_ASYNC, 1000, SHM},
					     {4, 2, 4, 2, 100003, SHM},
					     {4, -1, 16, TUTTI_PS_ASYNC, 70001, SHM},
					     {3, -1, 2, TUTTI_PS_ASYNC, 2, SHM}};
	struct shape s;
	size_t i;

	for (i = 0; i < sizeof(shape) / sizeof(shape[0]); i++) {
		s = shape[i];
		TT_CHECK(!MP_RUN(.n = s.n, .env = s.env, .fn = values_body, .arg = &s));
	}
}

static void values_ofi(void)
{
	struct shape s = {3, 2, 3, TUTTI_PS_ASYNC, 100003, NULL};

	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=ofi", .fn = values_body, .arg = &s));
}

/* ---- reads beside writes ---- */

struct load {
	int versions;
	size_t count;
	long reads;
	bool rest; /* the writer sleeps between versions */
};

static int write_on(struct mp_job *job, struct tutti_ps_table *t, const struct load *l)
{
	uint64_t *v, k, number;

	MP_OK(tutti_alloc(job->ctx, l->count * sizeof(*v), (void **)&v));
	for (k = 1; atomic_load(&job->shared->word[0]) < job->n - 3; k++) {
		fill(v, l->count, k);
		MP_OK(tutti_ps_push_version(t, v, l->count, TUTTI_UINT64, &number));
		TT_EXPECT(number == k);
		if (l->rest)
			usleep(200);
	}
	MP_OK(tutti_free(v));
	return 0;
}

static int read_on(struct mp_job *job, struct tutti_ps_table *t, const struct load *l)
{
	struct tutti_ps_read read = {.size = sizeof(read)};
	uint64_t *v, last = 0, have;
	long i, changes = 0;
	int err;

	MP_OK(tutti_alloc(job->ctx, l->count * sizeof(*v), (void **)&v));
	for (i = 0; i < l->reads / (job->n - 3) || changes < 3;) {
		have = 0;
		err = tutti_ps_pull_version(t, v, l->count, TUTTI_UINT64, &have);
		if (err == -ENODATA && !last)
			continue;
		MP_OK(err);
		TT_EXPECT(filled(v, l->count, have) && have >= last);
		changes += have != last;
		last = have;
		i++;
	}
	MP_OK(tutti_ps_last_read(t, &read));
	if (getenv("TUTTI_TEST_VERBOSE"))
		printf("rank %d: %ld reads, %ld versions of %llu, %llu again\n", job->rank, i,
		       changes, (unsigned long long)last, (unsigned long long)read.retries);
	atomic_fetch_add(&job->shared->word[0], 1);
	MP_OK(tutti_free(v));
	return 0;
}

/* Two servers, a writer, readers. */
static int load_body(struct mp_job *job)
{
	const struct load *l = job->arg;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;

	MP_OK(mp_ps_open(job, 2, TUTTI_PS_ASYNC, &ps));
	TT_EXPECT(!make(job, ps, l->count, l->versions, &t));
	if (job->rank == 2)
		TT_EXPECT(!write_on(job, t, l));
	else if (job->rank > 2)
		TT_EXPECT(!read_on(job, t, l));
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void load(const char *env, int versions, size_t count, long reads)
{
	const char *all = getenv("TT_READS");
	struct load l = {versions, count, all ? atol(all) * reads / 100000 : reads, false};

	if (mp_sanitized() && !all)
		l.reads /= 20;
	TT_CHECK(!MP_RUN(.n = 5, .env = env, .fn = load_body, .arg = &l,
			 .timeout_ms = 60000 + (int)(l.reads / 2)));
}

static void mixed(void)
{
	load(SHM, 4, 500, 80000);
	load(SHM, 2, 20, 15000);
	load(SHM, 3, 50000, 5000);
}

static void mixed_fault(void)
{
	load("TUTTI_TRANSPORT=fault:shm "
	     "TUTTI_FAULT=seed=5,delay=0.02:200,reorder=0.3,again=0.2,max_put=5003",
	     4, 3000, 2000);
}

static void mixed_ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	load("TUTTI_TRANSPORT=ofi", 4, 3000, 1000);
}

/* ---- servers run nothing ---- */

static int stopped_body(struct mp_job *job)
{
	enum { COUNT = 3000 };
	uint64_t v[COUNT], have = 0, k, number;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	int r;

	MP_OK(mp_ps_open(job, 2, TUTTI_PS_ASYNC, &ps));
	TT_EXPECT(!make(job, ps, COUNT, 3, &t));
	if (job->rank == 2) {
		fill(v, COUNT, 1); /* makes the connections */
		MP_OK(tutti_ps_push_version(t, v, COUNT, TUTTI_UINT64, NULL));
		for (r = 0; r < 2; r++)
			TT_EXPECT(!mp_stop(atomic_load(&job->shared->pid[r])));
		for (k = 2; k < 1000; k++) {
			fill(v, COUNT, k);
			MP_OK(tutti_ps_push_version(t, v, COUNT, TUTTI_UINT64, &number));
			memset(v, 0, sizeof(v));
			MP_OK(tutti_ps_pull_version(t, v, COUNT, TUTTI_UINT64, &have));
			TT_EXPECT(number == k && have == k && filled(v, COUNT, k));
		}
		for (r = 0; r < 2; r++)
			TT_EXPECT(!kill(atomic_load(&job->shared->pid[r]), SIGCONT));
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void stopped(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = stopped_body));
}

/* ---- a writer dies ---- */

static void *die(void *arg)
{
	usleep((unsigned)*(const int *)arg);
	kill(getpid(), SIGKILL);
	return NULL;
}

/* Rank 2 writes until it is killed, rank 3 reads, and then writes. */
static int killed_body(struct mp_job *job)
{
	enum { COUNT = 30000 };
	static uint64_t v[COUNT];
	uint64_t have = 0, k, number;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	pthread_t thread;

	MP_OK(mp_ps_open(job, 2, TUTTI_PS_ASYNC, &ps));
	TT_EXPECT(!make(job, ps, COUNT, 2, &t));
	if (job->rank == 2) {
		fill(v, COUNT, 1);
		MP_OK(tutti_ps_push_version(t, v, COUNT, TUTTI_UINT64, NULL));
	}
	mp_meet(job);
	if (job->rank == 2)
		TT_EXPECT(!pthread_create(&thread, NULL, die, job->arg));
	for (k = 2; job->rank == 2; k++) {
		fill(v, COUNT, k);
		MP_OK(tutti_ps_push_version(t, v, COUNT, TUTTI_UINT64, NULL));
	}
	if (job->rank == 3) {
		TT_EXPECT(!mp_await_death(job));
		MP_OK(tutti_ps_pull_version(t, v, COUNT, TUTTI_UINT64, &have));
		TT_EXPECT(have && filled(v, COUNT, have));
		for (k = have + 1; k < have + 5; k++) {
			fill(v, COUNT, k);
			MP_OK(tutti_ps_push_version(t, v, COUNT, TUTTI_UINT64, &number));
			TT_EXPECT(number == k);
		}
		have = 0;
		MP_OK(tutti_ps_pull_version(t, v, COUNT, TUTTI_UINT64, &have));
		TT_EXPECT(have == k - 1 && filled(v, COUNT, have));
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void killed(void)
{
	int after, i;

	for (i = 0; i < 6; i++) {
		after = 1000 + i * 7919 % 5000;
		TT_CHECK(!MP_RUN(.n = 4, .env = SHM, .fn = killed_body, .arg = &after,
				 .killed = 1u << 2));
	}
}

/* ---- refused ---- */

static int refused_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	static const int wrong[] = {-1, 1, 17};
	uint64_t v[10] = {0}, have = 0;
	struct tutti_ps_table *t, *plain;
	struct tutti_ps *ps;
	int i;

	MP_OK(mp_ps_open(job, 1, TUTTI_PS_ASYNC, &ps));
	for (i = 0; i < 3; i++) {
		opt.versions = wrong[i];
		MP_ERR(tutti_ps_dense(ps, "t", 10, TUTTI_UINT64, &opt, &t), -EINVAL);
		MP_SAID("versions is");
	}
	opt.versions = 2;
	MP_ERR(tutti_ps_rows(ps, "t", 1, 10, TUTTI_UINT64, &opt, &t), -EINVAL);
	MP_OK(tutti_ps_dense(ps, "plain", 10, TUTTI_UINT64, NULL, &plain));
	MP_OK(tutti_ps_dense(ps, "t", 10, TUTTI_UINT64, &opt, &t));
	if (!job->rank) {
		MP_ERR(tutti_ps_pull_version(t, v, 10, TUTTI_UINT64, &have), -EPERM);
		MP_OK(tutti_ps_close(ps));
		return 0;
	}
	MP_ERR(tutti_ps_push_version(NULL, v, 10, TUTTI_UINT64, NULL), -EINVAL);
	MP_ERR(tutti_ps_push_version(plain, v, 10, TUTTI_UINT64, NULL), -EINVAL);
	MP_SAID("options.versions");
	MP_ERR(tutti_ps_push_version(t, v, 9, TUTTI_UINT64, NULL), -EINVAL);
	MP_ERR(tutti_ps_push_version(t, NULL, 10, TUTTI_UINT64, NULL), -EINVAL);
	MP_ERR(tutti_ps_push_version(t, v, 10, TUTTI_INT64, NULL), -EINVAL);
	MP_ERR(tutti_ps_pull_version(plain, v, 10, TUTTI_UINT64, &have), -EINVAL);
	MP_ERR(tutti_ps_pull_version(t, v, 11, TUTTI_UINT64, &have), -ERANGE);
	MP_ERR(tutti_ps_pull_version(t, v, 10, TUTTI_UINT64, NULL), -EINVAL);
	MP_ERR(tutti_ps_pull_version(t, v, 10, TUTTI_UINT64, &have), -ENODATA);
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static int replicas_body(struct mp_job *job)
{
	struct tutti_ps_config config = {
		.size = sizeof(config), .copies = 2, .staleness = TUTTI_PS_ASYNC};
	struct tutti_ps_options opt = {.size = sizeof(opt), .versions = 2};
	struct tutti_ps_table *t;
	struct tutti_ps *ps;

	MP_OK(tutti_ps_open(job->world, &config, &ps));
	MP_ERR(tutti_ps_dense(ps, "t", 10, TUTTI_UINT64, &opt, &t), -EOPNOTSUPP);
	MP_SAID("replicas");
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void refused(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = refused_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = replicas_body));
}

/* ---- membership changes ---- */

static int resize_body(struct mp_job *job)
{
	struct tutti_ps_config config = {.size = sizeof(config), .staleness = TUTTI_PS_ASYNC};
	struct tutti_ps_table *t;
	struct tutti_ps *ps, *next;
	uint64_t v[100], have = 0;

	MP_OK(tutti_ps_open(job->world, &config, &ps));
	TT_EXPECT(!make(job, ps, 100, 2, &t));
	fill(v, 100, 1);
	if (!job->rank)
		MP_OK(tutti_ps_push_version(t, v, 100, TUTTI_UINT64, NULL));
	config.role = job->rank == 1 ? TUTTI_PS_SERVER : TUTTI_PS_WORKER;
	MP_OK(tutti_ps_resize(ps, job->world, &config, &next));
	MP_OK(tutti_ps_find(next, "t", &t));
	if (!job->rank) {
		MP_ERR(tutti_ps_pull_version(t, v, 100, TUTTI_UINT64, &have), -ENODATA);
		fill(v, 100, 1);
		MP_OK(tutti_ps_push_version(t, v, 100, TUTTI_UINT64, NULL));
		memset(v, 0, sizeof(v));
		MP_OK(tutti_ps_pull_version(t, v, 100, TUTTI_UINT64, &have));
		TT_EXPECT(have == 1 && filled(v, 100, 1));
	}
	MP_OK(tutti_ps_close(next));
	return 0;
}

static void resize(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = resize_body));
}

static void verbs(void)
{
	struct shape s = {3, 2, 3, TUTTI_PS_ASYNC, 100003, NULL};

	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=verbs", .fn = values_body, .arg = &s));
	load("TUTTI_TRANSPORT=verbs", 4, 3000, 1000);
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"values", values},
					       {"values_ofi", values_ofi},
					       {"mixed", mixed},
					       {"mixed_fault", mixed_fault},
					       {"mixed_ofi", mixed_ofi},
					       {"stopped", stopped},
					       {"killed", killed},
					       {"refused", refused},
					       {"resize", resize},
					       {"verbs", verbs},
					       {NULL, NULL}};

	return tt_test_main("ps_versions", tests, argc, argv);
}
