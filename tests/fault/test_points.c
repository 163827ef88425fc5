/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kill -9 at random points: jobs of 2, 4 and 8 ranks over every transport and algorithm. In each,
 * ranks run collectives of random lengths, v forms also with blocks of different lengths. One rank
 * is killed at a random moment; all other ranks must name it and continue with a shrunken
 * communicator, until one rank is left. Every successful call is exact and writes nothing between
 * blocks; at the end threads, descriptors and /dev/shm are as before. Prints the time until each
 * survivor knew.
 *
 *	TT_ONLY=verbs                   only transports with this in their name (the guest:
 *	verbs.sh)
 *	TT_POINTS=1000 test_points		that many deaths at least (soak); default: 10 s of
 *					them
 */
#include "config.h"

#include "tests/mp/job.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MAX_TIMES 20000
#define LONGEST 60000 /* elements */

/* Totals of all jobs of this program. */
struct result {
	atomic_int points, times, calls;
	int us[MAX_TIMES];
};
static struct result *result;

struct point {
	unsigned seed;
	atomic_llong died;  /* when, in ns; of the job's last death */
	atomic_int here[8]; /* ranks that have come so far, by deaths before */
};

static long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static unsigned next_random(unsigned *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

static int threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	int n = -2;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

/* ThreadSanitizer starts its own thread, at the latest with our first thread. */
#ifdef __SANITIZE_THREAD__
#define MORE 1
#else
#define MORE 0
#endif

/*
 * Threads beyond the earlier number. The kernel lets a joining thread continue before it removes
 * the ended thread from this list.
 */
static int threads_left(int before)
{
	int i;

	for (i = 0; i < 200 && threads() > before + MORE; i++)
		mp_sleep_ms(10);
	return threads() - before > MORE ? threads() - before : 0;
}

/* To see what was left open. */
static void print_fds(int rank)
{
	DIR *dir = opendir("/proc/self/fd");
	char path[300], target[300];
	struct dirent *e;
	ssize_t n;

	while (dir && (e = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/self/fd/%.200s", e->d_name);
		n = readlink(path, target, sizeof(target) - 1);
		if (n > 0)
			fprintf(stderr, "rank %d: %s is %.*s\n", rank, e->d_name, (int)n, target);
	}
	if (dir)
		closedir(dir);
}

struct killer {
	struct point *point;
	long ns;
};

static void *die(void *arg)
{
	struct killer *k = arg;
	struct timespec t = {.tv_nsec = k->ns};

	nanosleep(&t, NULL);
	atomic_store(&k->point->died, now_ns());
	kill(getpid(), SIGKILL);
	return NULL;
}

/* The first ones have a v form. */
enum kind {
	ALLGATHER,
	REDUCE_SCATTER,
	ALLTOALL,
	GATHER,
	SCATTER,
	ALLREDUCE,
	BCAST,
	REDUCE,
	SCAN,
	EXSCAN,
	BARRIER,
	KINDS
};

/* One call, the same at all ranks. */
struct one {
	enum kind kind;
	bool v;	      /* blocks of different lengths, */
	int none;     /* of which this one is empty; n: none is */
	size_t count; /* of a block; with v at most, and displacements leave the rest as a gap */
	int n, me, root, base;
};

/* Elements that rank `from` has for rank `to`. */
static size_t length(const struct one *c, int from, int to)
{
	int block = from;

	if (!c->v)
		return c->count;
	if (c->kind == ALLTOALL)
		block = (from + to) % c->n;
	else if (c->kind == SCATTER || c->kind == REDUCE_SCATTER)
		block = to;
	return block == c->none ? 0 : c->count - (size_t)(block % 3) * (c->count / 4);
}

/* The offset of block r in the scattered data. */
static size_t begin(const struct one *c, int r)
{
	size_t sum = 0;
	int i;

	if (c->kind != REDUCE_SCATTER)
		return (size_t)r * c->count;
	for (i = 0; i < r; i++)
		sum += length(c, 0, i);
	return sum;
}

/* Element i of what rank r puts in. */
static int32_t part(const struct one *c, int r, size_t i)
{
	return c->base + r + (int32_t)i;
}

/* The sum of elements i of ranks 0 to n - 1. */
static int32_t sum_of(const struct one *c, int n, size_t i)
{
	int32_t sum = 0;
	int r;

	for (r = 0; r < n; r++)
		sum += part(c, r, i);
	return sum;
}

#define UNTOUCHED (-1)

/* Element i of recvbuf after the call. */
static int32_t wanted(const struct one *c, size_t i)
{
	bool root = c->me == c->root;
	int from = (int)(i / c->count);
	size_t k = i % c->count, mine = i + begin(c, c->me);

	switch (c->kind) {
	case ALLGATHER:
	case GATHER:
		return (c->kind == ALLGATHER || root) && k < length(c, from, c->me)
			       ? part(c, from, k)
			       : UNTOUCHED;
	case ALLTOALL:
		return k < length(c, from, c->me) ? part(c, from, k + begin(c, c->me)) : UNTOUCHED;
	case SCATTER:
		return i < length(c, c->root, c->me) ? part(c, c->root, mine) : UNTOUCHED;
	case REDUCE_SCATTER:
		return i < length(c, 0, c->me) ? sum_of(c, c->n, mine) : UNTOUCHED;
	case BCAST:
		return part(c, c->root, i);
	case REDUCE:
		return root ? sum_of(c, c->n, i) : UNTOUCHED;
	case EXSCAN:
		return c->me ? sum_of(c, c->me, i) : UNTOUCHED;
	case BARRIER:
		return UNTOUCHED;
	default:
		return sum_of(c, c->kind == SCAN ? c->me + 1 : c->n, i);
	}
}

static int make_v(const struct one *c, struct tutti_comm *comm, int32_t *v, int32_t *w)
{
	size_t to[8], from[8], displs[8];
	int r;

	for (r = 0; r < c->n; r++) {
		to[r] = length(c, c->me, r);
		from[r] = length(c, r, c->me);
		displs[r] = begin(c, r);
	}
	switch (c->kind) {
	case ALLGATHER:
		return tutti_allgatherv(v, to[c->me], w, from, displs, TUTTI_INT32, comm);
	case REDUCE_SCATTER:
		return tutti_reduce_scatter(v, w, to, TUTTI_INT32, TUTTI_SUM, comm);
	case ALLTOALL:
		return tutti_alltoallv(v, to, displs, w, from, displs, TUTTI_INT32, comm);
	case GATHER:
		return tutti_gatherv(v, to[c->root], w, from, displs, TUTTI_INT32, c->root, comm);
	default:
		return tutti_scatterv(v, to, displs, w, from[c->root], TUTTI_INT32, c->root, comm);
	}
}

static int make(const struct one *c, struct tutti_comm *comm, int32_t *v, int32_t *w)
{
	if (c->v)
		return make_v(c, comm, v, w);
	switch (c->kind) {
	case ALLREDUCE:
		return tutti_allreduce(v, w, c->count, TUTTI_INT32, TUTTI_SUM, comm);
	case BCAST:
		return tutti_bcast(w, c->count, TUTTI_INT32, c->root, comm);
	case ALLGATHER:
		return tutti_allgather(v, w, c->count, TUTTI_INT32, comm);
	case REDUCE_SCATTER:
		return tutti_reduce_scatter_block(v, w, c->count, TUTTI_INT32, TUTTI_SUM, comm);
	case ALLTOALL:
		return tutti_alltoall(v, w, c->count, TUTTI_INT32, comm);
	case REDUCE:
		return tutti_reduce(v, w, c->count, TUTTI_INT32, TUTTI_SUM, c->root, comm);
	case GATHER:
		return tutti_gather(v, w, c->count, TUTTI_INT32, c->root, comm);
	case SCATTER:
		return tutti_scatter(v, w, c->count, TUTTI_INT32, c->root, comm);
	case SCAN:
		return tutti_scan(v, w, c->count, TUTTI_INT32, TUTTI_SUM, comm);
	case EXSCAN:
		return tutti_exscan(v, w, c->count, TUTTI_INT32, TUTTI_SUM, comm);
	default:
		return tutti_barrier(comm);
	}
}

/*
 * A random call on comm with an exact result. The first call is between all pairs of ranks, so it
 * meets messages of the previous communicator that are still on their way.
 */
static int call(struct tutti_comm *comm, int32_t *v, unsigned *state, bool first)
{
	struct one c = {.n = tutti_comm_size(comm),
			.me = tutti_comm_rank(comm),
			.kind = first ? ALLTOALL : next_random(state) % KINDS};
	int32_t *w = v + LONGEST + 8;
	size_t i, n;
	int err;

	c.v = !first && c.kind <= SCATTER && next_random(state) % 2;
	c.none = (int)(next_random(state) % (unsigned)(c.n + 1));
	c.count = next_random(state) % 3 ? next_random(state) % 900 : next_random(state) % LONGEST;
	c.root = (int)(next_random(state) % (unsigned)c.n);
	c.base = (int)(next_random(state) % 1000);
	n = c.kind <= SCATTER ? (size_t)c.n : 1;
	c.count = c.count / n + 1; /* of n blocks */
	n *= c.count;
	for (i = 0; i < n; i++) {
		v[i] = part(&c, c.me, i);
		w[i] = c.kind == BCAST && c.me == c.root ? v[i] : UNTOUCHED;
	}
	err = make(&c, comm, v, w);
	for (i = 0; !err && i < n; i++)
		TT_EXPECT(w[i] == wanted(&c, i));
	atomic_fetch_add(&result->calls, !err);
	return err;
}

/* Calls until victim is dead; it must be named. */
static int one_death(struct mp_job *job, struct tutti_comm *comm, int victim, int32_t *v,
		     unsigned *state)
{
	atomic_int *here = &((struct point *)job->arg)->here[job->n - tutti_comm_size(comm)];
	struct tutti_error_info info = {.size = sizeof(info)};
	struct point *point = job->arg;
	struct killer k = {point, (long)(next_random(state) % 20000000)};
	pthread_t thread;
	int err, at, calls = 0;

	atomic_fetch_add(here, 1);
	TT_EXPECT(mp_await(here, tutti_comm_size(comm), 20000));
	if (job->rank == victim && pthread_create(&thread, NULL, die, &k))
		return 1;
	do
		err = call(comm, v, state, !calls++);
	while (!err);
	if (err > 0)
		return 1;
	at = atomic_fetch_add(&result->times, 1);
	result->us[at % MAX_TIMES] = (int)((now_ns() - atomic_load(&point->died)) / 1000);
	MP_ERR(err, -TUTTI_EPEER);
	MP_OK(tutti_last_error(&info));
	if (info.rank != victim || !info.host[0] || !info.call[0] || !info.phase[0])
		mp_failed(job, "the error names the rank", err, __FILE__, __LINE__);
	TT_EXPECT(info.rank == victim && info.host[0] && info.call[0] && info.phase[0]);
	return 0;
}

static int run(struct mp_job *job, int32_t *v, int *victims)
{
	struct tutti_comm *comm = job->world, *next;
	unsigned state = ((struct point *)job->arg)->seed;
	int i;

	for (i = 0; i < job->n - 1; i++) {
		if (one_death(job, comm, victims[i], v, &state))
			return 1;
		atomic_fetch_add(&result->points, job->rank == victims[job->n - 1]);
		MP_OK(tutti_comm_shrink(comm, &next));
		TT_EXPECT(tutti_comm_size(next) == job->n - 1 - i);
		if (comm != job->world)
			MP_OK(tutti_comm_free(comm));
		comm = next;
		state = ((struct point *)job->arg)->seed + 77u * (unsigned)(i + 1);
	}
	return 0;
}

/* The order in which they die; the last one lives. */
static void order(unsigned seed, int n, int *victims)
{
	int i, k, t;

	for (i = 0; i < n; i++)
		victims[i] = i;
	for (i = n - 1; i > 0; i--) {
		k = (int)(next_random(&seed) % (unsigned)(i + 1));
		t = victims[i];
		victims[i] = victims[k];
		victims[k] = t;
	}
}

static int body(struct mp_job *job)
{
	int fds = tt_open_fds(), own = threads(), more, victims[8], left;
	struct tutti_config config = {0};
	int32_t *v = malloc(2 * (LONGEST + 8) * 4);

	TT_EXPECT(v);
	order(((struct point *)job->arg)->seed, job->n, victims);
	MP_OK(mp_join(job, MP_GATHER, &config));
	if (run(job, v, victims))
		return 1;
	TT_EXPECT(!mp_leave_failed(job));
	free(v);
	if (getenv("TUTTI_OFI_EP")) /* rxm does not survive being closed then, so it is not
				       (transports/ofi/fabric.c) */
		return 0;
	left = tt_open_fds();
	more = threads_left(own);
	if (left > fds || more) {
		fprintf(stderr, "rank %d: %d descriptors more, %d threads more\n", job->rank,
			left - fds, more);
		print_fds(job->rank);
	}
	TT_EXPECT(left <= fds && !more);
	return 0;
}

static const char *const transports[] = {
	"TUTTI_NODE=on",
	"TUTTI_TRANSPORT=shm",
	"TUTTI_TRANSPORT=ofi",
	"TUTTI_TRANSPORT=fault:shm",
	"TUTTI_TRANSPORT=ofi TUTTI_OFI_EP=rdm TUTTI_OFI_PROVIDER=tcp;ofi_rxm",
	"TUTTI_TRANSPORT=shm TUTTI_PROGRESS=thread",
	"TUTTI_HOST_ID=h%h", /* two ranks on each host, ofi between them */
	"TUTTI_TRANSPORT=verbs"};

/*
 * The first is the chooser's choice. Two-level algorithms are for several hosts, where they
 * precede an algorithm over all ranks.
 */
static const char *const algorithms[] = {
	"",
	"allreduce:ring;bcast:chain;allgather:ring;reduce_scatter_block:ring;alltoall:pairwise;"
	"reduce:linear;"
	"gather:linear;scatter:linear;scan:chain;exscan:chain;allgatherv:ring;reduce_scatter:ring;"
	"alltoallv:pairwise",
	"allreduce:recursive_doubling;bcast:binomial;allgather:bruck;reduce_scatter_block:halving;"
	"alltoall:bruck;"
	"reduce:binomial;gather:binomial;scatter:binomial;scan:doubling;exscan:doubling;allgatherv:"
	"bruck;"
	"reduce_scatter:halving;alltoallv:linear",
	"allreduce:halving_doubling;bcast:scatter_allgather;allgather:recursive_doubling;"
	"reduce_scatter_block:direct;reduce:chain;allgatherv:recursive_doubling;reduce_scatter:"
	"direct",
	"allreduce:dbt;bcast:dbt;allgather:direct;alltoall:linear;reduce:dbt;allgatherv:direct",
	"allreduce:hier_ring;bcast:hier_binomial;allgather:hier_ring;reduce_scatter_block:hier_"
	"ring;"
	"alltoall:hier_pairwise;reduce:hier_binomial;gather:hier_leader;scatter:hier_leader;scan:"
	"hier_leader;"
	"allreduce:single_master;reduce:halving_gather",
	"allreduce:hier_leader;bcast:hier_leader;reduce:hier_leader;exscan:hier_leader;allgatherv:"
	"hier_ring;"
	"reduce_scatter:hier_ring;allreduce:direct_rsag",
	"allreduce:hier_halving_doubling;allreduce:radix",
	"allreduce:hier_recursive_doubling;allreduce:circulant",
	"allreduce:hier_dbt;allreduce:circulant_rsag",
};

#define COUNT(a) (int)(sizeof(a) / sizeof((a)[0]))

static bool usable(const char *transport)
{
	const char *only = getenv("TT_ONLY");

	if (only && !strstr(transport, only))
		return false;
	if (strstr(transport, "ofi") || strstr(transport, "HOST"))
		return !mp_no_ofi();
	return !strstr(transport, "verbs") || !mp_no_verbs();
}

static int by_size(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static void print_times(void)
{
	int n = atomic_load(&result->times);

	n = n < MAX_TIMES ? n : MAX_TIMES;
	qsort(result->us, (size_t)n, sizeof(int), by_size);
	if (n)
		printf("  %d deaths, %d calls exact; known to each survivor after (ms): median "
		       "%.1f, p90 %.1f, p99 "
		       "%.1f, longest %.1f\n",
		       atomic_load(&result->points), atomic_load(&result->calls),
		       result->us[n / 2] / 1e3, result->us[n * 9 / 10] / 1e3,
		       result->us[n * 99 / 100] / 1e3, result->us[n - 1] / 1e3);
	fflush(stdout);
}

static void points(void)
{
	static const int sizes[] = {2, 4, 8};
	const char *text = getenv("TT_POINTS"), *seed = getenv("TT_SEED");
	int wanted = text ? atoi(text) : 1 << 30, i, files = mp_shm_files(), before, failed,
	    bad = 0;
	struct point *point = mp_shared_mem(sizeof(*point));
	double end = mp_now() + (text ? 3600 : 10);
	char env[512];

	result = mp_shared_mem(sizeof(*result));
	for (i = seed ? atoi(seed) : 0;
	     bad < 5 && mp_now() < end && atomic_load(&result->points) < wanted; i++) {
		const char *transport = transports[i % COUNT(transports)];
		const char *algorithm = algorithms[i / COUNT(transports) % COUNT(algorithms)];
		int n = sizes[(i % COUNT(transports) + i / COUNT(transports)) % COUNT(sizes)],
		    victims[8];

		if (!usable(transport))
			continue;
		memset(point, 0, sizeof(*point));
		point->seed = (unsigned)i * 2654435761u + 12345u;
		order(point->seed, n, victims);
		snprintf(env, sizeof(env), "%s TUTTI_ALGO=%s", transport, algorithm);
		before = atomic_load(&result->points);
		failed = mp_run(
			&(struct mp_run){.n = n,
					 .env = env,
					 .fn = body,
					 .arg = point,
					 .no_init = true,
					 .killed = ((1u << n) - 1) & ~(1u << victims[n - 1])});
		if (failed || atomic_load(&result->points) != before + n - 1)
			printf("  TT_SEED=%d: %d ranks, %s\n", i, n, env);
		failed |= atomic_load(&result->points) != before + n - 1;
		TT_CHECK(!failed);
		bad += failed;
	}
	TT_CHECK(mp_shm_files() <= files);
	print_times();
	munmap(result, sizeof(*result));
	munmap(point, sizeof(*point));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"points", points}, {NULL, NULL}};

	return tt_test_main("points", tests, argc, argv);
}
