/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mailboxes: mixes are compared with an oracle, what is read is always whole, neighbours make no
 * calls, slow and dead ones hold nobody up, and calls that are wrong say why.
 */
#include "tests/mp/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define ROUNDS 12

/* Both neighbours in a ring; with two ranks they are one. */
struct ring {
	int n, rank[2];
	double weight[2];
};

static void make_ring(const struct mp_job *job, struct ring *r)
{
	r->n = job->n > 2 ? 2 : job->n - 1;
	r->rank[0] = (job->rank + 1) % job->n;
	r->rank[1] = (job->rank + job->n - 1) % job->n;
	r->weight[0] = r->weight[1] = 0.3;
}

static struct tutti_gossip_config ring_config(const struct ring *r, size_t count, bool wide)
{
	return (struct tutti_gossip_config){.size = sizeof(struct tutti_gossip_config),
					    .count = count,
					    .datatype = wide ? TUTTI_FLOAT64 : TUTTI_FLOAT32,
					    .nin = r->n,
					    .nout = r->n,
					    .in = r->rank,
					    .out = r->rank,
					    .weights = r->weight};
}

/* ---- values ---- */

static double first_value(int rank, size_t i)
{
	return (double)((rank + 1) * 37 % 11) + (double)(i % 101) / 8;
}

/* All ranks' vectors by rank, after one more round of the ring. */
static void oracle(const struct ring *r, int n, size_t count, bool wide, double *all, double *next)
{
	int rank, k, from[2];
	double sum, s;
	size_t i;

	for (rank = 0; rank < n; rank++) {
		from[0] = (rank + 1) % n;
		from[1] = (rank + n - 1) % n;
		for (i = 0; i < count; i++) {
			s = all[(size_t)rank * count + i];
			for (sum = 0, k = 0; k < r->n; k++)
				sum += r->weight[k] * (all[(size_t)from[k] * count + i] - s);
			s += sum;
			next[(size_t)rank * count + i] = wide ? s : (double)(float)s;
		}
	}
	memcpy(all, next, (size_t)n * count * sizeof(*all));
}

static double get(const void *x, size_t i, bool wide)
{
	return wide ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

static void put(void *x, size_t i, bool wide, double value)
{
	if (wide)
		((double *)x)[i] = value;
	else
		((float *)x)[i] = (float)value;
}

static int run_rounds(struct mp_job *job, struct tutti_gossip *g, const struct ring *r,
		      size_t count, bool wide)
{
	size_t cells = (size_t)job->n * count, i;
	double *all = calloc(cells + 1, 8), *next = calloc(cells + 1, 8);
	void *x = calloc(count + 1, 8);
	uint64_t versions[2];
	int round, k;

	TT_EXPECT(all && next && x);
	for (i = 0; i < cells; i++)
		all[i] = first_value((int)(i / count), i % count);
	for (i = 0; i < count; i++)
		put(x, i, wide, first_value(job->rank, i));
	for (round = 1; round <= ROUNDS; round++) {
		MP_OK(tutti_gossip_post(g, x));
		MP_OK(tutti_gossip_flush(g));
		MP_OK(tutti_barrier(job->world));
		MP_OK(tutti_gossip_mix(g, x));
		MP_OK(tutti_gossip_versions(g, versions));
		for (k = 0; k < r->n; k++)
			TT_EXPECT(versions[k] == (uint64_t)round);
		MP_OK(tutti_barrier(job->world));
		oracle(r, job->n, count, wide, all, next);
		for (i = 0; i < count; i++)
			TT_EXPECT(get(x, i, wide) == all[(size_t)job->rank * count + i]);
	}
	free(all);
	free(next);
	free(x);
	return 0;
}

static int values_body(struct mp_job *job)
{
	static const size_t counts[] = {0, 1, 7, 1000, 20011};
	struct tutti_gossip_state state = {.size = sizeof(state)};
	struct tutti_gossip_config config;
	struct tutti_gossip *g;
	struct ring ring;
	int i;

	make_ring(job, &ring);
	for (i = 0; i < 10; i++) {
		config = ring_config(&ring, counts[i / 2], i % 2);
		MP_OK(tutti_gossip_create(job->world, &config, &g));
		TT_EXPECT(!run_rounds(job, g, &ring, counts[i / 2], i % 2));
		MP_OK(tutti_gossip_state(g, &state));
		TT_EXPECT(state.posts == ROUNDS && state.mixes == ROUNDS && !state.empty);
		TT_EXPECT(state.sent == (uint64_t)(ROUNDS * ring.n) && !state.skipped);
		TT_EXPECT(state.mixed == state.sent && state.fresh == state.sent && !state.torn);
		TT_EXPECT(state.bytes == state.sent * (64 + counts[i / 2] * (i % 2 ? 8 : 4)));
		TT_EXPECT(!state.dead_in && !state.dead_out);
		MP_OK(tutti_gossip_free(g));
	}
	return 0;
}

/* A directed graph with default weights: rank 0 tells all, the others tell rank 0's successor. */
static int directed_body(struct mp_job *job)
{
	struct tutti_gossip_config config = {
		.size = sizeof(config), .count = 3, .datatype = TUTTI_FLOAT64};
	double x[3] = {job->rank, job->rank, job->rank}, expect = job->rank;
	int others[MP_MAX], n = 0, r, one = 1, zero = 0;
	struct tutti_gossip *g;
	uint64_t versions[MP_MAX];

	for (r = 0; r < job->n; r++)
		if (r != job->rank)
			others[n++] = r;
	config.nout = job->rank == 0 ? n : job->rank > 1;
	config.out = job->rank == 0 ? others : &one;
	config.nin = job->rank == 1 ? n : job->rank > 0;
	config.in = job->rank == 1 ? others : &zero;
	MP_OK(tutti_gossip_create(job->world, &config, &g));
	MP_OK(tutti_gossip_mix(g, x)); /* empty: nothing changes */
	TT_EXPECT(x[0] == job->rank && x[2] == job->rank);
	MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_gossip_post(g, x));
	MP_OK(tutti_gossip_flush(g));
	MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_gossip_mix(g, x));
	MP_OK(tutti_gossip_versions(g, versions));
	for (r = 0; r < config.nin; r++) {
		TT_EXPECT(versions[r] == 1);
		expect += 1.0 / (config.nin + 1) * (config.in[r] - job->rank);
	}
	TT_EXPECT(x[0] - expect < 1e-12 && expect - x[0] < 1e-12 && x[1] == x[0]);
	MP_OK(tutti_gossip_free(g));
	return 0;
}

/* ---- without calls of the neighbour ---- */

static int silent_body(struct mp_job *job)
{
	struct tutti_gossip_config config;
	double x[5] = {job->rank, 1, 2, 3, 4};
	struct tutti_gossip *g;
	struct ring ring;
	int i;

	make_ring(job, &ring);
	config = ring_config(&ring, 5, true);
	MP_OK(tutti_gossip_create(job->world, &config, &g));
	mp_meet(job);
	if (job->rank == 0) { /* it only computes until the others have posted 20 times */
		TT_EXPECT(mp_await(&job->shared->word[5], job->n - 1, 20000));
		MP_OK(tutti_gossip_mix(g, x));
		TT_EXPECT(x[0] > 0.29 && x[1] == 1);
	}
	for (i = 0; i < 20 && job->rank; i++) {
		MP_OK(tutti_gossip_post(g, x));
		MP_OK(tutti_gossip_flush(g));
	}
	atomic_fetch_add(&job->shared->word[5], job->rank > 0);
	mp_meet(job);
	MP_OK(tutti_gossip_free(g));
	return 0;
}

/* ---- whole vectors ---- */

#define LONG 20000

/* Until rank 0 has written all its posts; then the last one is read for certain. */
static int read_whole(struct mp_job *job, struct tutti_gossip *g, double *x, int times)
{
	uint64_t version, last = 0;
	bool over;
	int i;

	do {
		over = atomic_load(&job->shared->word[5]);
		MP_OK(tutti_gossip_mix(g, x));
		MP_OK(tutti_gossip_versions(g, &version));
		if (!version) /* empty, or torn */
			continue;
		TT_EXPECT(version >= last);
		for (i = 0; i < LONG; i++)
			TT_EXPECT(x[i] == (double)(version * 8 + (uint64_t)i % 8));
		last = version;
	} while (!over);
	TT_EXPECT(last == (uint64_t)times);
	return 0;
}

/* Rank 0 writes while the others read: what they read is one post from its begin to its end. */
static int whole_body(struct mp_job *job)
{
	int others[MP_MAX], zero = 0, r, i, times = *(const int *)job->arg;
	struct tutti_gossip_config config = {.size = sizeof(config),
					     .count = LONG,
					     .datatype = TUTTI_FLOAT64,
					     .nin = job->rank > 0,
					     .in = &zero,
					     .nout = job->rank ? 0 : job->n - 1,
					     .out = others};
	double *x = calloc(LONG, sizeof(*x)), one = 1;
	struct tutti_gossip *g;

	TT_EXPECT(x);
	config.weights = &one;
	for (r = 1; r < job->n; r++)
		others[r - 1] = r;
	MP_OK(tutti_gossip_create(job->world, &config, &g));
	mp_meet(job);
	for (r = 1; r <= times && !job->rank; r++) {
		for (i = 0; i < LONG; i++)
			x[i] = r * 8 + i % 8;
		MP_OK(tutti_gossip_post(g, x));
	}
	if (!job->rank) {
		MP_OK(tutti_gossip_flush(g));
		atomic_store(&job->shared->word[5], 1);
	} else {
		TT_EXPECT(!read_whole(job, g, x, times));
	}
	free(x);
	MP_OK(tutti_gossip_free(g));
	return 0;
}

/* ---- slow, stopped and dead neighbours ---- */

static int deaths_body(struct mp_job *job)
{
	struct tutti_gossip_state state = {.size = sizeof(state)};
	bool victim = job->rank == 1 || job->rank == 6;
	atomic_int *word = job->shared->word;
	struct tutti_gossip_config config;
	double x = job->rank;
	struct tutti_gossip *g;
	struct ring ring;
	int i, expect = 0;

	make_ring(job, &ring);
	config = ring_config(&ring, 1, true);
	for (i = 0; i < 2; i++)
		expect += ring.rank[i] == 1 || ring.rank[i] == 6;
	MP_OK(tutti_gossip_create(job->world, &config, &g));
	mp_meet(job);
	for (i = 0; i < 100; i++) {
		if (victim && i == 30)
			kill(getpid(), SIGKILL);
		MP_OK(tutti_gossip_post(g, &x));
		MP_OK(tutti_gossip_mix(g, &x));
	}
	do { /* the news comes by itself */
		MP_OK(tutti_gossip_post(g, &x));
		MP_OK(tutti_gossip_state(g, &state));
	} while (state.dead_in < expect);
	TT_EXPECT(state.dead_in == expect && state.dead_out == expect);
	atomic_fetch_add(&word[1], 1);
	TT_EXPECT(mp_await(&word[1], job->n - 2, 20000));
	x = 8 << job->rank;
	for (i = 0; i < 20; i++) {
		MP_OK(tutti_gossip_post(g, &x));
		MP_OK(tutti_gossip_flush(g));
		atomic_fetch_add(&word[2], 1);
		TT_EXPECT(mp_await(&word[2], (job->n - 2) * (2 * i + 1), 20000));
		MP_OK(tutti_gossip_mix(g, &x));
		atomic_fetch_add(&word[2], 1);
		TT_EXPECT(mp_await(&word[2], (job->n - 2) * (2 * i + 2), 20000));
	}
	/* in millionths: the mean of the live ranks stays */
	atomic_fetch_add(&word[3], (int)(x * 1e5 + 0.5));
	atomic_fetch_add(&word[4], 1);
	TT_EXPECT(mp_await(&word[4], job->n - 2, 20000));
	TT_EXPECT(abs(atomic_load(&word[3]) - 8 * (255 - 2 - 64) * 100000) < 20);
	MP_OK(tutti_gossip_free(g));
	return mp_leave_failed(job);
}

/* Steps of a rank until the time is over; a step computes, posts and mixes. */
static int slow_body(struct mp_job *job)
{
	struct tutti_gossip_config config;
	atomic_int *word = job->shared->word;
	float *x = calloc(1000, sizeof(*x));
	struct tutti_gossip *g;
	struct ring ring;
	double end;

	TT_EXPECT(x);
	make_ring(job, &ring);
	config = ring_config(&ring, 1000, false);
	MP_OK(tutti_gossip_create(job->world, &config, &g));
	mp_meet(job);
	for (end = mp_now() + 1; mp_now() < end;) {
		mp_sleep_ms(job->rank == 1 ? 40 : 10);
		MP_OK(tutti_gossip_post(g, x));
		MP_OK(tutti_gossip_mix(g, x));
		atomic_fetch_add(&word[10 + job->rank], 1);
	}
	mp_meet(job);
	TT_EXPECT(job->rank == 1 || word[10 + job->rank] >= 2 * word[11]);
	free(x);
	MP_OK(tutti_gossip_free(g));
	return 0;
}

/* Rank 0 goes on posting while rank 1 is stopped: posts that find no room are left out. */
static int stopped_body(struct mp_job *job)
{
	struct tutti_gossip_state state = {.size = sizeof(state)};
	size_t count = 1 << 20;
	float *x = calloc(count, sizeof(*x));
	struct tutti_gossip_config config;
	struct tutti_gossip *g;
	uint64_t version;
	struct ring ring;
	double end;

	TT_EXPECT(x);
	make_ring(job, &ring);
	config = ring_config(&ring, count, false);
	MP_OK(tutti_gossip_create(job->world, &config, &g));
	mp_meet(job);
	if (job->rank == 0) {
		TT_EXPECT(!mp_stop(atomic_load(&job->shared->pid[1])));
		for (end = mp_now() + 10; !state.skipped && mp_now() < end;) {
			MP_OK(tutti_gossip_post(g, x));
			MP_OK(tutti_gossip_state(g, &state));
		}
		TT_EXPECT(!kill(atomic_load(&job->shared->pid[1]), SIGCONT));
		TT_EXPECT(state.skipped);
		TT_EXPECT(state.sent + state.skipped == state.posts);
		MP_OK(tutti_gossip_flush(g));
		MP_OK(tutti_gossip_state(g, &state));
		atomic_store(&job->shared->word[5], (int)state.posts);
	}
	mp_meet(job);
	if (job->rank == 1) { /* the last post has come, also if it was left out at first */
		MP_OK(tutti_gossip_mix(g, x));
		MP_OK(tutti_gossip_versions(g, &version));
		TT_EXPECT(version == (uint64_t)atomic_load(&job->shared->word[5]));
	}
	mp_meet(job);
	free(x);
	MP_OK(tutti_gossip_free(g));
	return 0;
}

/* ---- refused calls ---- */

/* All ranks fail; rank `who`, or all if that is negative, says `what`, the others name rank who. */
static int refuse(struct mp_job *job, struct tutti_gossip_config config, int who, const char *what)
{
	struct tutti_gossip *g = NULL;

	MP_ERR(tutti_gossip_create(job->world, &config, &g), -EINVAL);
	TT_EXPECT(!g);
	if (who >= 0 && who != job->rank)
		what = "failed on rank";
	if (!mp_said(what)) {
		mp_failed(job, what, 0, __FILE__, __LINE__);
		return 1;
	}
	return 0;
}

static int refuse_configs(struct mp_job *job, const struct tutti_gossip_config *good)
{
	static const int twice[] = {0, 0}, two[] = {0, 1};
	static const double heavy[] = {0.6, 0.6}, negative[] = {-0.1, 0};
	struct tutti_gossip_config c = *good;
	int self = job->rank, none = 9;

	c.datatype = TUTTI_INT32;
	TT_EXPECT(!refuse(job, c, -1, "must be float32 or float64"));
	c = *good, c.nin = -1;
	TT_EXPECT(!refuse(job, c, -1, "nin is -1"));
	c = *good, c.nout = job->n;
	TT_EXPECT(!refuse(job, c, -1, "nout is 3"));
	c = *good, c.in = NULL;
	TT_EXPECT(!refuse(job, c, -1, "in is NULL"));
	c = *good, c.nout = 1, c.out = &self;
	TT_EXPECT(!refuse(job, c, -1, "another rank"));
	c = *good, c.nout = 1, c.out = &none;
	TT_EXPECT(!refuse(job, c, -1, "out[0] is 9"));
	c = *good, c.weights = heavy;
	TT_EXPECT(!refuse(job, c, -1, "add up to 1.2"));
	c = *good, c.weights = negative;
	TT_EXPECT(!refuse(job, c, -1, "weights[0] is -0.1"));
	c = *good, c.count = SIZE_MAX / 4;
	TT_EXPECT(!refuse(job, c, -1, "do not fit in memory"));
	c = *good;
	if (job->rank == 2)
		c.in = twice;
	TT_EXPECT(!refuse(job, c, 2, "in lists rank 0 twice"));
	c = *good;
	if (job->rank == 1)
		c.count++;
	TT_EXPECT(!refuse(job, c, -1, "rank 1 passes count 5"));
	c = *good; /* rank 2 sends to nobody, but the others wait for it */
	if (job->rank == 2)
		c.nout = 0;
	TT_EXPECT(!refuse(job, c, 2, "rank 2 does not list rank 0 as out-neighbour"));
	c = *good;
	if (job->rank == 2)
		c.nin = 1, c.in = two;
	TT_EXPECT(!refuse(job, c, 1, "rank 1 lists rank 2 as out-neighbour"));
	return 0;
}

static int refuse_body(struct mp_job *job)
{
	struct tutti_gossip_state state = {.size = 3};
	struct tutti_gossip_config config;
	struct tutti_gossip *g = NULL;
	struct ring ring;
	double x[4] = {0};

	make_ring(job, &ring);
	config = ring_config(&ring, 4, true);
	MP_ERR(tutti_gossip_create(NULL, &config, &g), -EINVAL);
	MP_ERR(tutti_gossip_create(job->world, NULL, &g), -EINVAL);
	MP_ERR(tutti_gossip_create(job->world, &config, NULL), -EINVAL);
	TT_EXPECT(!refuse_configs(job, &config));
	MP_OK(tutti_gossip_create(job->world, &config, &g));
	MP_ERR(tutti_gossip_post(NULL, x), -EINVAL);
	MP_ERR(tutti_gossip_post(g, NULL), -EINVAL);
	MP_ERR(tutti_gossip_post(g, TUTTI_IN_PLACE), -EINVAL);
	MP_SAID("x is TUTTI_IN_PLACE");
	MP_ERR(tutti_gossip_mix(NULL, x), -EINVAL);
	MP_ERR(tutti_gossip_mix(g, NULL), -EINVAL);
	MP_ERR(tutti_gossip_flush(NULL), -EINVAL);
	MP_ERR(tutti_gossip_versions(g, NULL), -EINVAL);
	MP_ERR(tutti_gossip_state(g, NULL), -EINVAL);
	MP_ERR(tutti_gossip_state(g, &state), -EINVAL);
	MP_ERR(tutti_gossip_post((struct tutti_gossip *)(void *)job->shared->gather, x), -EINVAL);
	MP_SAID("is not a valid mailbox, or has been freed");
	MP_OK(tutti_group_start());
	MP_ERR(tutti_gossip_post(g, x), -EINVAL);
	MP_ERR(tutti_gossip_mix(g, x), -EINVAL);
	MP_OK(tutti_group_end());
	MP_OK(tutti_gossip_free(g));
	MP_OK(tutti_gossip_free(NULL));
	return 0;
}

/* ---- cases ---- */

#define SHM "TUTTI_TRANSPORT=shm"
#define TCP "TUTTI_TRANSPORT=ofi TUTTI_IF=lo"
#define FAULT                                                                                      \
	"TUTTI_TRANSPORT=fault:shm "                                                               \
	"TUTTI_FAULT=seed=3,delay=0.1:100,reorder=0.3,again=0.2,finish=1,max_put=5003"

static void each(const char *env, int times)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = env, .fn = values_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = values_body));
	TT_CHECK(!MP_RUN(.n = 4, .env = env, .fn = directed_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = silent_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = whole_body, .arg = &times));
}

static void shm(void)
{
	each(SHM, 2000);
	TT_CHECK(!MP_RUN(.n = 5, .env = SHM, .fn = values_body));
	TT_CHECK(!MP_RUN(.n = 8, .env = SHM, .fn = values_body));
	TT_CHECK(!MP_RUN(.n = 5, .env = SHM, .fn = directed_body));
}

static void fault(void)
{
	each(FAULT, 200);
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	each(TCP, 300);
}

static void verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=verbs", .fn = directed_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=verbs", .fn = values_body));
}

static void deaths(void)
{
	unsigned killed = 1u << 1 | 1u << 6;

	TT_CHECK(!MP_RUN(.n = 8, .env = SHM, .fn = deaths_body, .killed = killed));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 8, .env = TCP, .fn = deaths_body, .killed = killed));
}

static void slow(void)
{
	TT_CHECK(!MP_RUN(.n = 4, .env = SHM, .fn = slow_body));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 4, .env = TCP, .fn = slow_body));
}

static void stopped(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 2, .env = TCP " TUTTI_HEARTBEAT_LIMIT=60s", .fn = stopped_body));
}

static void refuses(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = refuse_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"shm", shm},	      {"fault", fault},	   {"ofi", ofi},
		{"verbs", verbs},     {"deaths", deaths},  {"slow", slow},
		{"stopped", stopped}, {"refuse", refuses}, {NULL, NULL},
	};

	return tt_test_main("gossip", tests, argc, argv);
}
