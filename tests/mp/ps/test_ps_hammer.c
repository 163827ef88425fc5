/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writers and readers on the same blocks: every block that is read must be one publication, whole,
 * and never an older one than was read before.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BLOCKS 2 /* on each of two servers */
#define ELEMS 65536
#define COUNT (2 * BLOCKS * ELEMS)

static int open_all(struct mp_job *job, struct tutti_ps **ps, struct tutti_ps_table **t)
{
	struct tutti_ps_config config = {.size = sizeof(config),
					 .staleness = TUTTI_PS_ASYNC,
					 .role = job->rank < 2 ? TUTTI_PS_SERVER : TUTTI_PS_WORKER};
	struct tutti_ps_options opt = {.size = sizeof(opt),
				       .rule = TUTTI_PS_ASSIGN,
				       .init = TUTTI_PS_ZERO,
				       .block = ELEMS * sizeof(uint32_t)};

	MP_OK(tutti_ps_open(job->world, &config, ps));
	MP_OK(tutti_ps_dense(*ps, "t", COUNT, TUTTI_UINT32, &opt, t));
	return 0;
}

/* For the requested time, and on a slow machine until every reader has seen some changes. */
static bool go_on(struct mp_job *job, double end)
{
	int r;

	if (mp_now() < end)
		return true;
	for (r = 3; r < job->n; r++)
		if (atomic_load(&job->shared->word[r]) < 5 && mp_now() < end + 30)
			return true;
	return false;
}

/* Writes a different number to each block, in increasing order. */
static int writer(struct mp_job *job, struct tutti_ps_table *t, uint32_t *v, double seconds)
{
	double end = mp_now() + seconds;
	uint32_t round, i;

	for (round = 1; go_on(job, end); round++) {
		uint32_t b = round % (2 * BLOCKS);

		for (i = 0; i < ELEMS; i++)
			v[i] = round;
		MP_OK(tutti_ps_push(t, v, b * ELEMS, ELEMS, TUTTI_UINT32));
		if (round % 13)
			continue;
		/* its own, at once */
		MP_OK(tutti_ps_pull(t, v, b * ELEMS, ELEMS, TUTTI_UINT32));
		for (i = 0; i < ELEMS; i++)
			TT_EXPECT(v[i] == round);
	}
	atomic_store(&job->shared->word[0], 1);
	return 0;
}

static int reader(struct mp_job *job, struct tutti_ps_table *t, uint32_t *v)
{
	struct tutti_ps_read read = {.size = sizeof(read)};
	uint32_t last[2 * BLOCKS] = {0}, b, i, pulls = 0, changes = 0;

	while (!atomic_load(&job->shared->word[0])) {
		MP_OK(tutti_ps_pull(t, v, 0, COUNT, TUTTI_UINT32));
		for (b = 0; b < 2 * BLOCKS; b++) {
			for (i = 1; i < ELEMS; i++)
				if (v[b * ELEMS + i] != v[b * ELEMS]) {
					fprintf(stderr,
						"rank %d, pull %u, block %u: %u at 0, %u at %u\n",
						job->rank, pulls, b, v[b * ELEMS], v[b * ELEMS + i],
						i);
					return 1;
				}
			TT_EXPECT(v[b * ELEMS] >= last[b]);
			if (v[b * ELEMS] != last[b])
				atomic_store(&job->shared->word[job->rank], (int)++changes);
			last[b] = v[b * ELEMS];
		}
		pulls++;
	}
	MP_OK(tutti_ps_last_read(t, &read));
	if (getenv("TUTTI_TEST_VERBOSE"))
		printf("rank %d: %u pulls, %u new blocks, %u reads again\n", job->rank, pulls,
		       changes, (unsigned)read.retries);
	TT_EXPECT(pulls && changes);
	return 0;
}

static int hammer_body(struct mp_job *job)
{
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	uint32_t *v;

	TT_EXPECT(!open_all(job, &ps, &t));
	MP_OK(tutti_alloc(job->ctx, COUNT * sizeof(*v), (void **)&v));
	if (job->rank == 2)
		TT_EXPECT(!writer(job, t, v, *(double *)job->arg));
	else if (job->rank > 2)
		TT_EXPECT(!reader(job, t, v));
	MP_OK(tutti_ps_close(ps));
	MP_OK(tutti_free(v));
	return 0;
}

static void run(const char *env)
{
	double seconds = getenv("TUTTI_TEST_SECONDS") ? atof(getenv("TUTTI_TEST_SECONDS")) : 1;

	TT_CHECK(!MP_RUN(.n = 5, .env = env, .fn = hammer_body, .arg = &seconds,
			 .timeout_ms = 60000 + (int)(1000 * seconds)));
}

static void shm(void)
{
	run("TUTTI_TRANSPORT=shm TUTTI_PS_VERIFY=1 TUTTI_PS_GRACE=500");
	run("TUTTI_TRANSPORT=shm TUTTI_PS_VERIFY=1 TUTTI_PS_GRACE=20");
	run("TUTTI_TRANSPORT=shm TUTTI_PS_GRACE=0"); /* nothing is in time: each read is checked
							again */
}

static void shm_fault(void)
{
	run("TUTTI_TRANSPORT=fault:shm TUTTI_PS_VERIFY=1 TUTTI_PS_GRACE=50 "
	    "TUTTI_FAULT=seed=3,delay=0.1:100,reorder=0.3,again=0.2,max_put=5003");
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	run("TUTTI_TRANSPORT=ofi TUTTI_PS_VERIFY=1 TUTTI_PS_GRACE=100");
}

static void ofi_fault(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	run("TUTTI_TRANSPORT=fault:ofi TUTTI_PS_VERIFY=1 TUTTI_PS_GRACE=100 "
	    "TUTTI_FAULT=seed=5,delay=0.1:100,reorder=0.3,again=0.2");
}

static void verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	run("TUTTI_TRANSPORT=verbs TUTTI_PS_VERIFY=1");
	run("TUTTI_TRANSPORT=verbs TUTTI_PS_VERIFY=1 TUTTI_PS_GRACE=50");
}

/* ---- a pull costs a server nothing ---- */

#define PULLS 20000

/*
 * The library's threads in this process: seconds on a processor, and how often they went to sleep.
 */
static double cpu_of_threads(long *switches)
{
	char path[300], line[256];
	struct dirent *e;
	DIR *dir = opendir("/proc/self/task");
	double seconds = 0, s;
	FILE *f;
	long n;

	for (*switches = 0; dir && (e = readdir(dir));) {
		if (e->d_name[0] == '.' || atoi(e->d_name) == (int)getpid())
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%s/schedstat", e->d_name);
		f = fopen(path, "r");
		if (f && fscanf(f, "%lf", &s) == 1)
			seconds += s * 1e-9;
		if (f)
			fclose(f);
		snprintf(path, sizeof(path), "/proc/self/task/%s/status", e->d_name);
		f = fopen(path, "r");
		while (f && fgets(line, sizeof(line), f))
			if (sscanf(line, "voluntary_ctxt_switches: %ld", &n) == 1)
				*switches += n;
		if (f)
			fclose(f);
	}
	if (dir)
		closedir(dir);
	return seconds;
}

/* A server that only waits: what its threads use while others pull. */
static int idle_body(struct mp_job *job)
{
	struct tutti_ps_table *t;
	long before, after;
	struct tutti_ps *ps;
	uint32_t *v;
	double cpu;
	int i;

	TT_EXPECT(!open_all(job, &ps, &t));
	MP_OK(tutti_alloc(job->ctx, COUNT * sizeof(*v), (void **)&v));
	MP_OK(tutti_barrier(job->world));
	if (job->rank < 2) {
		mp_sleep_ms(100); /* it falls asleep */
		cpu = cpu_of_threads(&before);
		mp_meet(job);
		mp_meet(job);
		cpu = cpu_of_threads(&after) - cpu;
		if (getenv("TUTTI_TEST_VERBOSE"))
			printf("server %d: %.3f ms, %ld switches\n", job->rank, cpu * 1e3,
			       after - before);
		/* timers and heartbeats, far less than one step for each pull */
		TT_EXPECT(after - before < PULLS / 4);
		if (!job->arg) /* a software device uses the time of the running process
				*/
			TT_EXPECT(cpu < PULLS * 2e-6);
	} else {
		mp_meet(job);
		for (i = 0; i < PULLS; i++)
			MP_OK(tutti_ps_pull(t, v, (size_t)i * 100 % (COUNT - 100), 100,
					    TUTTI_UINT32));
		mp_meet(job);
	}
	MP_OK(tutti_ps_close(ps));
	MP_OK(tutti_free(v));
	return 0;
}

static void idle(void)
{
	TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_TRANSPORT=shm", .fn = idle_body));
}

static void idle_verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_TRANSPORT=verbs", .fn = idle_body, .arg = ""));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"shm", shm},
					       {"shm_fault", shm_fault},
					       {"ofi", ofi},
					       {"ofi_fault", ofi_fault},
					       {"verbs", verbs},
					       {"idle", idle},
					       {"idle_verbs", idle_verbs},
					       {NULL, NULL}};

	return tt_test_main("ps_hammer", tests, argc, argv);
}
