/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Servers with copies that are killed at any time: every push that returned is in the tables,
 * once. The sums are of integers, so the oracle is exact.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define WIDE                                                                                       \
	40000 /* elements; a push of them is several messages, some behind their head, some not */
#define KEYS 300
#define WIDTH 2
#define ROUNDS 30
#define BACKS 8 /* runs until a server is stopped outside a write to the other one */

struct plan {
	int servers, workers, copies, staleness, combine;
	unsigned killed; /* servers */
	int after_us, between_us, signal;
	int first; /* rank of the first server: 0, or the number of workers */
	int essp;
	atomic_int *told; /* the victim was told that it was cut off */
};

/* -1: a server */
static int worker_of(const struct mp_job *job)
{
	const struct plan *p = job->arg;

	if (p->first)
		return job->rank < p->workers ? job->rank : -1;
	return job->rank - p->servers < 0 ? -1 : job->rank - p->servers;
}

static int open_all(struct mp_job *job, const struct plan *p, struct tutti_ps **ps,
		    struct tutti_ps_table **t)
{
	struct tutti_ps_config config = {.size = sizeof(config),
					 .staleness = p->staleness,
					 .copies = p->copies,
					 .role = worker_of(job) >= 0 ? TUTTI_PS_WORKER
								     : TUTTI_PS_SERVER};
	struct tutti_ps_options opt = {
		.size = sizeof(opt), .init = TUTTI_PS_ZERO, .combine = p->combine, .essp = p->essp};

	MP_OK(tutti_ps_open(job->world, &config, ps));
	MP_OK(tutti_ps_dense(*ps, "t", WIDE, TUTTI_INT64, &opt, &t[0]));
	MP_OK(tutti_ps_rows(*ps, "r", WIDTH, KEYS, TUTTI_INT64, &opt, &t[1]));
	return 0;
}

/*
 * The update of worker w to element i in round c, chosen so that a sum tells which updates it has,
 * and how often.
 */
static int64_t part(int w, int c, int i)
{
	return ((int64_t)(c + 1) << (16 * w)) + ((int64_t)(i % 7) << (32 + 8 * w));
}

static int64_t sum_of(const struct plan *p, int rounds, int i)
{
	int64_t sum = 0;
	int w, c;

	for (w = 0; w < p->workers; w++)
		for (c = 0; c < rounds; c++)
			sum += part(w, c, i);
	return sum;
}

/*
 * BSP: exactly the pushes of all workers. Otherwise this worker's pushes as a part of two workers'
 * sums: rank 1's number is above any sum of rank 0's.
 */
static int check_round(struct mp_job *job, const struct plan *p, const int64_t *v, int c)
{
	int64_t own;
	int i, k;

	for (i = 0; i < WIDE; i++) {
		for (own = k = 0; k <= c; k++)
			own += k + 1;
		if (p->staleness ? (worker_of(job) ? v[i] >> 16 : v[i] & 0xffff) % 0x10000 < own
				 : v[i] != sum_of(p, c + 1, i)) {
			fprintf(stderr, "rank %d, round %d, element %d: %llx, not %llx\n",
				job->rank, c, i, (long long)v[i], (long long)sum_of(p, c + 1, i));
			return 1;
		}
	}
	return 0;
}

static int push_rounds(struct mp_job *job, const struct plan *p, struct tutti_ps *ps,
		       struct tutti_ps_table **t, int64_t *u, int64_t *v)
{
	uint64_t key[KEYS];
	int me = worker_of(job), c, i;

	for (c = 0; c < ROUNDS; c++) {
		for (i = 0; i < WIDE; i++)
			u[i] = part(me, c, i);
		for (i = 0; i < KEYS; i++)
			key[i] = (uint64_t)((i + me) % KEYS) * 7919;
		atomic_store(&job->shared->word[me], c);
		MP_OK(tutti_ps_push(t[0], u, 0, 10, TUTTI_INT64));
		MP_OK(tutti_ps_push(t[0], u + 10, 10, WIDE - 10, TUTTI_INT64));
		for (i = 0; i < KEYS * WIDTH; i++)
			u[i] = part(me, c, (int)(key[i / WIDTH] / 7919));
		MP_OK(tutti_ps_push_rows(t[1], key, KEYS, u, TUTTI_INT64));
		MP_OK(tutti_ps_clock(ps));
		MP_OK(tutti_ps_pull(t[0], v, 0, WIDE, TUTTI_INT64));
		TT_EXPECT(!check_round(job, p, v, c));
	}
	return 0;
}

static int last_look(struct mp_job *job, const struct plan *p, struct tutti_ps *ps,
		     struct tutti_ps_table **t, int64_t *v)
{
	uint64_t key;
	int i;

	/* after this every worker's last push can be seen by all */
	MP_OK(tutti_ps_clock_to(ps, ROUNDS + (uint64_t)(p->staleness > 0 ? p->staleness : 0)));
	atomic_fetch_add(&job->shared->word[20], 1);
	TT_EXPECT(mp_await(&job->shared->word[20], p->workers, 20000));
	if (p->staleness < 0) /* one more push of zeros: the publication after it has all updates */
		MP_OK(tutti_ps_push_pull(t[0], memset(v, 0, WIDE * sizeof(*v)), v, 0, WIDE,
					 TUTTI_INT64));
	MP_OK(tutti_ps_pull(t[0], v, 0, WIDE, TUTTI_INT64));
	for (i = 0; i < WIDE; i++)
		if (v[i] != sum_of(p, ROUNDS, i)) {
			fprintf(stderr, "rank %d, element %d: %llx, not %llx\n", job->rank, i,
				(long long)v[i], (long long)sum_of(p, ROUNDS, i));
			return 1;
		}
	for (i = 0; i < KEYS && p->staleness >= 0; i++) {
		key = (uint64_t)i * 7919;
		MP_OK(tutti_ps_pull_rows(t[1], &key, 1, v, TUTTI_INT64));
		TT_EXPECT(v[0] == sum_of(p, ROUNDS, i) && v[1] == v[0]);
	}
	return 0;
}

static void *killer(void *arg)
{
	struct mp_job *job = arg;
	const struct plan *p = job->arg;
	int r;

	usleep((unsigned)p->after_us);
	for (r = 0; r < p->servers; r++) {
		if (!(p->killed >> r & 1))
			continue;
		kill(atomic_load(&job->shared->pid[p->first + r]), p->signal);
		if (getenv("TUTTI_TEST_VERBOSE"))
			printf("server %d killed in round %d of %d\n", r,
			       atomic_load(&job->shared->word[0]), ROUNDS);
		usleep((unsigned)p->between_us);
	}
	return NULL;
}

static int copies_body(struct mp_job *job)
{
	const struct plan *p = job->arg;
	int64_t *u = malloc(WIDE * sizeof(*u)), *v = malloc(WIDE * sizeof(*v));
	struct tutti_ps_table *t[2];
	struct tutti_ps *ps;
	pthread_t thread;
	int r;

	TT_EXPECT(!open_all(job, p, &ps, t));
	mp_meet(job);
	if (worker_of(job) == 0)
		TT_EXPECT(!pthread_create(&thread, NULL, killer, job));
	if (worker_of(job) >= 0) {
		TT_EXPECT(!push_rounds(job, p, ps, t, u, v));
		TT_EXPECT(!last_look(job, p, ps, t, v));
	}
	if (worker_of(job) == 0)
		pthread_join(thread, NULL);
	MP_OK(tutti_ps_close(ps));
	for (r = 0; r < p->servers && !worker_of(job) && p->signal == SIGSTOP; r++)
		if (p->killed >> r & 1)
			kill(atomic_load(&job->shared->pid[p->first + r]), SIGKILL);
	free(u);
	free(v);
	return 0;
}

static void run(const char *env, struct plan p)
{
	p.signal = p.signal ? p.signal : SIGKILL;
	p.first = p.first ? p.workers : 0;
	if (MP_RUN(.n = p.workers + p.servers, .env = env, .fn = copies_body, .arg = &p,
		   .killed = p.killed << p.first)) {
		fprintf(stderr, "%d servers, %d copies, staleness %d, killed %x after %d us, %s\n",
			p.servers, p.copies, p.staleness, p.killed, p.after_us, env);
		TT_CHECK(false);
	}
}

static void living(void)
{
	static const int staleness[] = {0, 1, TUTTI_PS_ASYNC};
	int i, copies;

	for (i = 0; i < 3; i++)
		for (copies = 1; copies <= 3; copies++)
			run("TUTTI_TRANSPORT=shm TUTTI_PS_VERIFY=1",
			    (struct plan){.servers = 3,
					  .workers = 2,
					  .copies = copies,
					  .staleness = staleness[i]});
}

/* One of two or three servers, at many moments; every kind of consistency. */
static void deaths_of(const char *env, int usual, int essp)
{
	static const int staleness[] = {0, 1, TUTTI_PS_ASYNC};
	int tries = getenv("TUTTI_TEST_TRIES") ? atoi(getenv("TUTTI_TEST_TRIES")) : usual, i;

	for (i = 0; i < tries; i++)
		run(env, (struct plan){.servers = 2 + i % 2,
				       .workers = 2,
				       .copies = 2,
				       .staleness = staleness[i % 3],
				       .killed = 1u << i / 2 % 2,
				       .first = i % 4 > 0,
				       .combine = i % 6 == 3 ? TUTTI_PS_COMBINE_SUM : 0,
				       .after_us = i * 7919 % 60000,
				       .essp = essp});
}

static void deaths(const char *env, int usual)
{
	deaths_of(env, usual, 0);
}

static void one_shm(void)
{
	deaths("TUTTI_TRANSPORT=shm TUTTI_PS_VERIFY=1", 8);
}

static void one_fault(void)
{
	/* long delays: updates answered too early would not be at the replicas */
	deaths("TUTTI_TRANSPORT=fault:shm TUTTI_PS_VERIFY=1 "
	       "TUTTI_FAULT=seed=3,delay=0.3:3000,reorder=0.3,again=0.2",
	       4);
}

static void one_ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	deaths("TUTTI_TRANSPORT=ofi TUTTI_PS_VERIFY=1", 3);
}

static void one_verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	deaths("TUTTI_TRANSPORT=verbs TUTTI_PS_VERIFY=1", 2);
}

/* Two of three: first and second, first and last, the middle and the last. */
static void two(void)
{
	static const unsigned killed[] = {3, 5, 6};
	int i, tries = getenv("TUTTI_TEST_TRIES") ? atoi(getenv("TUTTI_TEST_TRIES")) : 6;

	for (i = 0; i < tries; i++)
		run("TUTTI_TRANSPORT=shm TUTTI_PS_VERIFY=1",
		    (struct plan){.servers = 3,
				  .workers = 2,
				  .copies = 3,
				  .staleness = i % 2,
				  .first = 1,
				  .killed = killed[i % 3],
				  .after_us = i * 7919 % 40000,
				  .between_us = i % 4 * 3000});
}

/*
 * Rank 0 is a server, and dies with others that are no neighbours of it; a replica of each shard
 * lives.
 */
static void with_root(void)
{
	static const struct {
		int servers;
		unsigned killed;
	} set[] = {{3, 5}, {4, 5}, {4, 9}, {5, 5}, {5, 9}, {5, 0x15}, {5, 0xb}, {3, 3}};
	int i, tries = getenv("TUTTI_TEST_TRIES") ? atoi(getenv("TUTTI_TEST_TRIES")) : 8;

	for (i = 0; i < tries; i++)
		run("TUTTI_TRANSPORT=shm TUTTI_PS_VERIFY=1",
		    (struct plan){.servers = set[i % 8].servers,
				  .workers = 2,
				  .copies = 3,
				  .staleness = i / 2 % 2,
				  .killed = set[i % 8].killed,
				  .after_us = i * 7919 % 40000,
				  .between_us = i % 3 * 3000});
	run("TUTTI_TRANSPORT=shm TUTTI_PS_VERIFY=1 TUTTI_HEARTBEAT_LIMIT=1s",
	    (struct plan){.servers = 4,
			  .workers = 2,
			  .copies = 3,
			  .killed = 5,
			  .after_us = 5000,
			  .signal = SIGSTOP});
}

/*
 * A server that is stopped for a while is taken for dead. When it continues, it believes that it
 * serves: no rank reads its writes, and it learns that it has been cut off. If it is stopped while
 * it writes to another server's memory, that one ends it, as it would go on there.
 */
static int back_body(struct mp_job *job)
{
	const struct plan *p = job->arg;
	int64_t *v = calloc(WIDE, sizeof(*v));
	struct tutti_ps_table *t[2];
	struct tutti_ps *ps;
	int c, i, err, victim = p->first;

	TT_EXPECT(!open_all(job, p, &ps, t));
	mp_meet(job);
	if (job->rank == victim) {
		err = tutti_ps_close(
			ps); /* stops here, and goes on when the others have gone on without it */
		if (!err)
			mp_failed(job, "it is told that it was cut off", err, __FILE__, __LINE__);
		atomic_store(p->told, err != 0);
		free(v);
		return !err;
	}
	for (c = 0; c < ROUNDS && worker_of(job) >= 0; c++) {
		for (i = 0; i < WIDE; i++)
			v[i] = 1;
		if (c == ROUNDS / 3 && !worker_of(job))
			TT_EXPECT(!mp_stop(atomic_load(&job->shared->pid[victim])));
		if (c == 2 * ROUNDS / 3 && !worker_of(job))
			kill(atomic_load(&job->shared->pid[victim]), SIGCONT);
		MP_OK(tutti_ps_push(t[0], v, 0, WIDE, TUTTI_INT64));
		MP_OK(tutti_ps_clock(ps));
		if (c > 2 * ROUNDS / 3)
			mp_sleep_ms(20); /* it is awake again meanwhile */
		MP_OK(tutti_ps_pull(t[0], v, 0, WIDE, TUTTI_INT64));
		for (i = 0; i < WIDE; i++)
			TT_EXPECT(v[i] == (int64_t)p->workers * (c + 1));
	}
	MP_OK(tutti_ps_close(ps));
	free(v);
	return 0;
}

static void back(void)
{
	struct plan p = {.servers = 2, .workers = 2, .copies = 2, .first = 2};
	int i;

	p.told = mp_shared_mem(sizeof(*p.told));
	for (i = 0; i < BACKS && !atomic_load(p.told); i++)
		TT_CHECK(!MP_RUN(.n = 4, .fn = back_body, .arg = &p, .may_end = 1u << p.first,
				 .env = "TUTTI_TRANSPORT=shm TUTTI_PS_VERIFY=1 "
					"TUTTI_HEARTBEAT=100ms TUTTI_HEARTBEAT_LIMIT=1s"));
	TT_CHECK(atomic_load(p.told));
	munmap(p.told, sizeof(*p.told));
}

/*
 * ESSP: the replica that takes over continues to send to all workers, whichever relayed before;
 * the traces prove the bound. Without relays, pulls wait for its messages, and would not end
 * without them.
 */
static void essp(const char *transport, int tries)
{
	static const int staleness[] = {0, 1, TUTTI_PS_ASYNC};
	char dir[] = "/tmp/tutti-copies-XXXXXX", env[300], command[300];
	const char *build = getenv("TT_BUILD");
	int i;

	TT_CHECK(mkdtemp(dir) != NULL);
	snprintf(command, sizeof(command),
		 "%s/tutti_ps_check %s/t.* >%s/out && rm %s/t.* || { cat %s/out; false; }",
		 build ? build : ".", dir, dir, dir, dir);
	for (i = 0; i < tries; i++) {
		snprintf(env, sizeof(env),
			 "TUTTI_PS_TRACE=%s/t TUTTI_PS_VERIFY=1 TUTTI_PS_RELAY=%d %s", dir,
			 i % 3 ? 0 : 1, transport);
		run(env, (struct plan){.servers = 2 + i % 2,
				       .workers = i % 3 ? 2 : 3,
				       .copies = 2,
				       .staleness = staleness[i % 3],
				       .killed = 1u << i / 2 % 2,
				       .first = i % 4 > 0,
				       .after_us = (i + 1) * 7919 % 60000,
				       .essp = 1});
		TT_CHECK(system(command) == 0);
	}
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	TT_CHECK(system(command) == 0);
}

static void essp_shm(void)
{
	essp("TUTTI_TRANSPORT=shm",
	     getenv("TUTTI_TEST_TRIES") ? atoi(getenv("TUTTI_TEST_TRIES")) : 6);
}

static void essp_fault(void)
{
	essp("TUTTI_TRANSPORT=fault:shm TUTTI_FAULT=seed=3,delay=0.3:3000,reorder=0.3,again=0.2",
	     3);
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"living", living},
					       {"one_shm", one_shm},
					       {"one_fault", one_fault},
					       {"one_ofi", one_ofi},
					       {"one_verbs", one_verbs},
					       {"two", two},
					       {"with_root", with_root},
					       {"back", back},
					       {"essp_shm", essp_shm},
					       {"essp_fault", essp_fault},
					       {NULL, NULL}};

	return tt_test_main("ps_copies", tests, argc, argv);
}
