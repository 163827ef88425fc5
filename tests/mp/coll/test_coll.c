/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives against oracles: every type and operator, sizes around the number of ranks, every
 * kind of memory, every form of the call, on every transport, bare and under fault, with buffers so
 * small that every path of the channel is taken.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

/* How much of the matrix a job goes through. */
struct amount {
	bool all_types;
	int big;     /* rounds of large messages */
	size_t most; /* longest, in elements of float32 */
	int many;    /* requests outstanding at once */
	int restarts;
};

static const struct amount full = {true, 6, (3 << 20) / 4 + 7, 40, 100};
static const struct amount some = {false, 3, (1 << 20) / 4 + 7, 20, 30};
static const struct amount little = {false, 2, (200 << 10) / 4 + 7, 10, 10};

static unsigned seed;

/* ---- one all-reduce, checked ---- */

struct vec {
	struct mp_buf in, out;
	enum tutti_datatype type;
	enum tutti_op op;
	size_t count;
	unsigned seed;
	bool in_place;
};

static int vec_new(struct mp_job *job, struct vec *v, enum mp_kind kind)
{
	size_t bytes = v->count * tutti_datatype_size(v->type);

	v->seed = ++seed;
	MP_OK(mp_buf_new(job, kind, bytes, &v->in));
	MP_OK(mp_buf_new(job, kind, bytes, &v->out));
	return 0;
}

static void vec_fill(struct mp_job *job, struct vec *v)
{
	size_t bytes = v->count * tutti_datatype_size(v->type);

	memset(v->out.p, 0xa5, bytes);
	mp_fill(v->type, v->seed, job->rank, v->count, v->in_place ? v->out.p : v->in.p);
}

static const void *vec_send(const struct vec *v)
{
	return v->in_place ? TUTTI_IN_PLACE : v->in.p;
}

static char *vec_expect(struct mp_job *job, const struct vec *v)
{
	char *want = malloc(v->count * tutti_datatype_size(v->type) + 1);

	mp_allreduce_expect(v->type, v->op, v->seed, job->n, v->count, want);
	return want;
}

static int vec_compare(struct mp_job *job, const struct vec *v, const char *want)
{
	size_t size = tutti_datatype_size(v->type), i = 0;
	const char *got = v->out.p;

	if (!memcmp(want, got, v->count * size))
		return 0;
	while (!memcmp(want + i * size, got + i * size, size))
		i++;
	fprintf(stderr, "rank %d of %d: type %d op %d count %zu%s memory %d: element %zu\n",
		job->rank, job->n, v->type, v->op, v->count, v->in_place ? " in place" : "",
		v->in.kind, i);
	return 1;
}

static int vec_check(struct mp_job *job, const struct vec *v)
{
	char *want = vec_expect(job, v);
	int differs = vec_compare(job, v, want);

	free(want);
	return differs;
}

static int vec_free(struct mp_job *job, struct vec *v)
{
	MP_OK(mp_buf_free(&v->in));
	MP_OK(mp_buf_free(&v->out));
	return 0;
}

static int allreduce_once(struct mp_job *job, enum tutti_datatype type, enum tutti_op op,
			  size_t count, enum mp_kind kind, bool in_place)
{
	struct vec v = {.type = type, .op = op, .count = count, .in_place = in_place};

	TT_EXPECT(!vec_new(job, &v, kind));
	vec_fill(job, &v);
	MP_OK(tutti_allreduce(vec_send(&v), v.out.p, count, type, op, job->world));
	TT_EXPECT(!vec_check(job, &v));
	return vec_free(job, &v);
}

/* ---- the parts of a job ---- */

static int types_and_ops(struct mp_job *job, const struct amount *a)
{
	size_t n = (size_t)job->n, counts[] = {0, 1, n - 1, n, n + 1, 37, 1009 + n};
	int type, op, turn = 0;
	size_t i;

	for (type = 0; type < TUTTI_NUM_DATATYPES; type++)
		for (op = 0; op < TUTTI_NUM_OPS; op++)
			for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
				turn++;
				if (!mp_op_valid(type, op) || (!a->all_types && turn % 7))
					continue;
				TT_EXPECT(!allreduce_once(job, type, op, counts[i], turn % MP_KINDS,
							  turn / 3 % 2));
			}
	return 0;
}

static int big_ones(struct mp_job *job, const struct amount *a)
{
	static const enum tutti_datatype types[] = {TUTTI_FLOAT32, TUTTI_UINT8,	  TUTTI_BFLOAT16,
						    TUTTI_FLOAT64, TUTTI_FLOAT16, TUTTI_INT64};
	size_t count;
	int i;

	for (i = 0; i < a->big; i++) {
		count = a->most / (size_t)(1 << i) + (size_t)i;
		TT_EXPECT(!allreduce_once(job, types[i % 6], i % 3 ? TUTTI_SUM : TUTTI_AVG, count,
					  i % MP_KINDS, i % 2));
		TT_EXPECT(!allreduce_once(job, types[i % 6], TUTTI_MAX, count / 3 + 1,
					  (i + 1) % MP_KINDS, (i + 1) % 2));
	}
	return 0;
}

static int bcast_once(struct mp_job *job, size_t count, int root, enum mp_kind kind)
{
	struct mp_buf buf;
	uint32_t *want = malloc(count * 4 + 1);

	MP_OK(mp_buf_new(job, kind, count * 4, &buf));
	memset(buf.p, 0x5a, count * 4);
	mp_fill(TUTTI_UINT32, ++seed, root, count, want);
	if (job->rank == root)
		memcpy(buf.p, want, count * 4);
	MP_OK(tutti_bcast(buf.p, count, TUTTI_UINT32, root, job->world));
	TT_EXPECT(!memcmp(buf.p, want, count * 4));
	MP_OK(mp_buf_free(&buf));
	free(want);
	return 0;
}

static int bcasts(struct mp_job *job, const struct amount *a)
{
	size_t counts[] = {0, 1, 2, 1000, 17001, a->most / 3 + 1, a->most}, i;
	int root;

	for (root = 0; root < job->n; root++)
		for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
			if (i < 5 || (root + (int)i) % 4 == 0 || i - 5 == (size_t)root % 2)
				TT_EXPECT(!bcast_once(job, counts[i], root, (i + root) % MP_KINDS));
	return 0;
}

/* No rank leaves the barrier before all ranks have come. */
static int barriers(struct mp_job *job, const struct amount *a)
{
	int i, k, rounds = a->restarts;

	for (i = 1; i <= rounds; i++) {
		atomic_store(&job->shared->word[job->rank], i);
		MP_OK(tutti_barrier(job->world));
		for (k = 0; k < job->n; k++)
			TT_EXPECT(atomic_load(&job->shared->word[k]) >= i);
	}
	return 0;
}

enum finish_by { BY_WAIT, BY_ANY, BY_TEST, BY_ALL, FINISHES };

static int finish_all(struct mp_job *job, int n, struct tutti_request **req, enum finish_by how)
{
	int i, index, done, left = n;

	if (how == BY_WAIT) /* from the last to the first */
		for (i = n; i--;)
			MP_OK(tutti_wait(&req[i]));
	for (i = 0; how == BY_ANY && i < n; i++) {
		MP_OK(tutti_waitany(n, req, &index));
		TT_EXPECT(index >= 0 && !req[index]);
	}
	while (how == BY_TEST && left)
		for (i = job->rank % n; left && i < n * 2; i++)
			if (req[i % n]) {
				MP_OK(tutti_test(&req[i % n], &done));
				TT_EXPECT(!done == !!req[i % n]);
				left -= done;
			}
	if (how == BY_ALL)
		MP_OK(tutti_waitall(n, req));
	for (i = 0; i < n; i++)
		TT_EXPECT(!req[i]);
	MP_OK(tutti_waitany(n, req, &index));
	TT_EXPECT(index == -1);
	return 0;
}

/* Many requests of different sizes at once, with broadcasts and barriers between them. */
static int nonblocking(struct mp_job *job, const struct amount *a, enum finish_by how)
{
	struct tutti_request *req[2 * 64] = {NULL};
	struct vec v[64];
	uint64_t word[64];
	int i, n = a->many;

	for (i = 0; i < n; i++) {
		v[i] = (struct vec){.type = (enum tutti_datatype)(i % TUTTI_NUM_DATATYPES),
				    .op = mp_op_of((enum tutti_datatype)(i % TUTTI_NUM_DATATYPES),
						   i % 3 ? TUTTI_SUM : TUTTI_MIN),
				    .count = i % 5 == 4 ? 30000 + (size_t)i : (size_t)(i * 13),
				    .in_place = i % 2};
		TT_EXPECT(!vec_new(job, &v[i], i % MP_KINDS));
		vec_fill(job, &v[i]);
	}
	for (i = 0; i < n; i++) {
		word[i] = job->rank == i % job->n ? 1000 + (uint64_t)i : 0;
		MP_OK(tutti_iallreduce(vec_send(&v[i]), v[i].out.p, v[i].count, v[i].type, v[i].op,
				       job->world, &req[2 * i]));
		if (i % 4 == 3)
			MP_OK(tutti_ibarrier(job->world, &req[2 * i + 1]));
		else
			MP_OK(tutti_ibcast(&word[i], 1, TUTTI_UINT64, i % job->n, job->world,
					   &req[2 * i + 1]));
	}
	TT_EXPECT(!finish_all(job, 2 * n, req, how));
	for (i = 0; i < n; i++) {
		TT_EXPECT(i % 4 == 3 || word[i] == 1000 + (uint64_t)i);
		TT_EXPECT(!vec_check(job, &v[i]));
		TT_EXPECT(!vec_free(job, &v[i]));
	}
	return 0;
}

/* The contents of a vector before and after a call. */
struct turn {
	char *before, *after;
};

static void turn_new(struct mp_job *job, struct vec *v, struct turn *t)
{
	v->seed = ++seed;
	t->before = malloc(v->count * tutti_datatype_size(v->type));
	mp_fill(v->type, v->seed, job->rank, v->count, t->before);
	t->after = vec_expect(job, v);
}

static void turn_free(struct turn *t)
{
	free(t->before);
	free(t->after);
}

/* One run of the requests, the first two of which are of vectors, in an order that changes. */
static int restart(struct mp_job *job, struct vec *v, const struct turn *t,
		   struct tutti_request **req, int i)
{
	size_t bytes;
	int k, done;

	for (k = 0; k < 2; k++) {
		bytes = v[k].count * tutti_datatype_size(v[k].type);
		memset(v[k].out.p, 0xa5, bytes);
		memcpy(v[k].in_place ? v[k].out.p : v[k].in.p, t[k].before, bytes);
	}
	for (k = 0; k < 4; k++)
		MP_OK(tutti_start(req[(k + i) % 4]));
	MP_OK(tutti_test(&req[i % 4], &done));
	if (!done && !getenv("TUTTI_PROGRESS")) /* and no other thread ends it */
		MP_ERR(tutti_start(req[i % 4]), -EBUSY);
	for (k = 4; k--;)
		MP_OK(tutti_wait(&req[k]));
	TT_EXPECT(!vec_compare(job, &v[0], t[0].after) && !vec_compare(job, &v[1], t[1].after));
	return 0;
}

#define TURNS 3

/* Persistent requests: restarted with the contents of the next turn. */
static int persistent(struct mp_job *job, const struct amount *a)
{
	struct vec v[2] = {{.type = TUTTI_FLOAT32, .count = 50000, .in_place = true},
			   {.type = TUTTI_FLOAT16, .op = TUTTI_AVG, .count = 333}};
	struct turn turns[TURNS][2];
	struct tutti_request *req[4];
	uint32_t word = 0;
	int i, k, done;

	for (k = 0; k < 2; k++) {
		TT_EXPECT(!vec_new(job, &v[k], k ? MP_PLAIN : MP_POOL));
		MP_OK(tutti_allreduce_init(vec_send(&v[k]), v[k].out.p, v[k].count, v[k].type,
					   v[k].op, job->world, &req[k]));
		for (i = 0; i < TURNS; i++)
			turn_new(job, &v[k], &turns[i][k]);
	}
	MP_OK(tutti_bcast_init(&word, 1, TUTTI_UINT32, job->n - 1, job->world, &req[2]));
	MP_OK(tutti_barrier_init(job->world, &req[3]));
	MP_OK(tutti_test(&req[3], &done)); /* never started: complete */
	TT_EXPECT(done && req[3]);
	for (i = 0; i < a->restarts; i++) {
		word = job->rank == job->n - 1 ? (uint32_t)i : 77;
		TT_EXPECT(!restart(job, v, turns[i % TURNS], req, i));
		TT_EXPECT(word == (uint32_t)i);
	}
	for (k = 0; k < 4; k++)
		MP_OK(tutti_request_free(req[k]));
	for (i = 0; i < 2 * TURNS; i++)
		turn_free(&turns[i / 2][i % 2]);
	TT_EXPECT(!vec_free(job, &v[0]) && !vec_free(job, &v[1]));
	return 0;
}

static int everything(struct mp_job *job)
{
	const struct amount *a = job->arg;
	int how;

	TT_EXPECT(!types_and_ops(job, a));
	TT_EXPECT(!barriers(job, a));
	TT_EXPECT(!bcasts(job, a));
	TT_EXPECT(!big_ones(job, a));
	for (how = 0; how < FINISHES; how++)
		TT_EXPECT(!nonblocking(job, a, how));
	return persistent(job, a);
}

/* A job of each of these sizes. The oracle knows the ring's order of operands. */
static void jobs(const char *env, const struct amount *a, const int *sizes)
{
	char text[512];

	snprintf(text, sizeof(text), "TUTTI_ALGO=allreduce:ring %s", env);
	for (; *sizes; sizes++) {
		int failed = MP_RUN(.n = *sizes, .env = text, .fn = everything, .arg = (void *)a);

		if (failed)
			fprintf(stderr, "%d ranks, %s\n", *sizes, env);
		TT_CHECK(!failed);
	}
}

static const int all_sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 0};
static const int few_sizes[] = {2, 3, 8, 0};
static const int two_sizes[] = {2, 5, 0};
static const int sockets_sizes[] = {2, 3, 0}; /* a slow provider */

#define TINY "TUTTI_CHUNK=4096 TUTTI_EAGER=256 TUTTI_SLOTS=4 TUTTI_PARKED=1"
#define FAULTS(seed) "TUTTI_FAULT=seed=" seed ",delay=0.2,reorder=0.3,again=0.2,finish=1"

#define NEEDS_OFI()                                                                                \
	do {                                                                                       \
		if (mp_no_ofi())                                                                   \
			TT_SKIP("%s", mp_no_ofi());                                                \
	} while (0)

static void shm(void)
{
	jobs("TUTTI_TRANSPORT=shm", mp_sanitized() ? &some : &full,
	     mp_brief() ? few_sizes : all_sizes);
}

static void shm_tiny(void)
{
	jobs("TUTTI_TRANSPORT=shm " TINY, &some, few_sizes);
}

/* Everything but the empty message goes into offers; and everything that fits is eager. */
static void shm_limits(void)
{
	jobs("TUTTI_TRANSPORT=shm TUTTI_EAGER=0", &some, two_sizes);
	jobs("TUTTI_TRANSPORT=shm TUTTI_EAGER=65472 TUTTI_SLOTS=64", &some, two_sizes);
	jobs("TUTTI_TRANSPORT=shm TUTTI_LANES=1 TUTTI_WAIT=sleep", &little, two_sizes);
	jobs("TUTTI_TRANSPORT=shm TUTTI_LANES=32 TUTTI_WAIT=yield", &little, two_sizes);
	jobs("TUTTI_TRANSPORT=shm "
	     "TUTTI_ALGO=allreduce:ring;bcast:chain:0-64K;bcast:binomial:64K-inf",
	     &some, two_sizes);
}

static void shm_thread(void)
{
	jobs("TUTTI_TRANSPORT=shm TUTTI_PROGRESS=thread", &some, few_sizes);
}

static void shm_fault(void)
{
	jobs("TUTTI_TRANSPORT=fault:shm " FAULTS("1"), &little, few_sizes);
	jobs("TUTTI_TRANSPORT=fault:shm " FAULTS("2") " " TINY, &little, few_sizes);
}

static void ofi(void)
{
	NEEDS_OFI();
	jobs("TUTTI_TRANSPORT=ofi", mp_sanitized() || mp_brief() ? &some : &full, few_sizes);
}

static void ofi_tiny(void)
{
	NEEDS_OFI();
	jobs("TUTTI_TRANSPORT=ofi " TINY, &some, two_sizes);
	jobs("TUTTI_TRANSPORT=ofi TUTTI_PROGRESS=thread", &little, two_sizes);
}

static void ofi_fault(void)
{
	NEEDS_OFI();
	jobs("TUTTI_TRANSPORT=fault:ofi " FAULTS("3"), &little, two_sizes);
	jobs("TUTTI_TRANSPORT=fault:ofi " FAULTS("4") " " TINY, &little, two_sizes);
}

static void ofi_rxm(void)
{
	NEEDS_OFI();
	jobs("TUTTI_TRANSPORT=ofi TUTTI_OFI_EP=rdm TUTTI_OFI_PROVIDER=tcp;ofi_rxm", &little,
	     few_sizes);
	jobs("TUTTI_TRANSPORT=fault:ofi TUTTI_OFI_EP=rdm TUTTI_OFI_PROVIDER=tcp;ofi_rxm " FAULTS(
		     "5") " " TINY,
	     &little, two_sizes);
}

static void ofi_sockets(void)
{
	NEEDS_OFI();
	jobs("TUTTI_TRANSPORT=ofi TUTTI_OFI_EP=rdm TUTTI_OFI_PROVIDER=sockets", &little,
	     sockets_sizes);
}

/* Emulated processors are slow: few sizes. */
#define VERBS "TUTTI_TRANSPORT=verbs"

static void verbs(void)
{
	static const int sizes[] = {2, 3, 0}, more[] = {1, 4, 0};

	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	jobs(VERBS, &little, sizes);
	if (!mp_few_sizes(VERBS))
		jobs(VERBS, &little, more);
}

static void verbs_tiny(void)
{
	static const int sizes[] = {3, 0};

	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	jobs("TUTTI_TRANSPORT=fault:verbs TUTTI_VERBS_QPS=2 " FAULTS("6") " " TINY, &little, sizes);
}

/* ---- same bits from run to run ---- */

struct sums {
	float v[3][20000];
};

static int random_floats(struct mp_job *job)
{
	struct sums *s = job->arg;
	size_t count = 20000;
	float *buf;
	int rank;

	MP_OK(tutti_alloc(job->ctx, count * 4, (void **)&buf));
	mp_fill(TUTTI_FLOAT32, 4711, job->rank, count, buf);
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, buf, count, TUTTI_FLOAT32, TUTTI_SUM, job->world));
	for (rank = 0; rank < job->n; rank++) {
		if (rank == job->rank)
			memcpy(s->v[1], buf, count * 4);
		mp_meet(job);
		TT_EXPECT(!memcmp(s->v[1], buf, count * 4));
		mp_meet(job);
	}
	if (job->rank == 0)
		memcpy(s->v[0], buf, count * 4);
	MP_OK(tutti_free(buf));
	return 0;
}

#define RING "TUTTI_ALGO=allreduce:ring "

/*
 * The choice may depend on message costs; the same algorithm gives the same bits over any
 * transport.
 */
static void same_bits(void)
{
	static const char *const env[] = {"TUTTI_TRANSPORT=shm",
					  "TUTTI_TRANSPORT=shm",
					  "TUTTI_TRANSPORT=fault:shm " FAULTS("9"),
					  RING "TUTTI_TRANSPORT=shm",
					  RING "TUTTI_TRANSPORT=fault:shm " FAULTS("9"),
					  RING "TUTTI_TRANSPORT=ofi"};
	struct sums *s = mp_shared_mem(sizeof(*s));
	size_t i;

	for (i = 0; i < 6 - (mp_no_ofi() != NULL); i++) {
		TT_CHECK(!MP_RUN(.n = 5, .env = env[i], .fn = random_floats, .arg = s));
		if (i % 3 == 0)
			memcpy(s->v[2], s->v[0], sizeof(s->v[0]));
		TT_CHECK(!memcmp(s->v[2], s->v[0], sizeof(s->v[0])));
	}
	munmap(s, sizeof(*s));
}

/* ---- every all-reduce algorithm, forced ---- */

static const char *const allreduces[] = {
	"ring",	 "single_master", "direct_rsag", "recursive_doubling", "halving_doubling",
	"radix", "dbt",		  "circulant",	 "circulant_rsag",     NULL};

/*
 * Sums of floats depend on the order, which is each algorithm's own: they must be close to the
 * ring's, and have the same bits on all ranks.
 */
static int float_sums(struct mp_job *job, size_t count, bool in_place)
{
	float *in, *out, *want;
	size_t i;

	MP_OK(tutti_alloc(job->ctx, count * 4 + 1, (void **)&in));
	MP_OK(tutti_alloc(job->ctx, count * 4 + 1, (void **)&out));
	want = calloc(count + 1, 4);
	mp_fill(TUTTI_FLOAT32, ++seed, job->rank, count, in_place ? out : in);
	mp_allreduce_expect(TUTTI_FLOAT32, TUTTI_SUM, seed, job->n, count, want);
	MP_OK(tutti_allreduce(in_place ? TUTTI_IN_PLACE : in, out, count, TUTTI_FLOAT32, TUTTI_SUM,
			      job->world));
	for (i = 0; i < count; i++)
		TT_EXPECT(out[i] - want[i] < 1e-3f && want[i] - out[i] < 1e-3f);
	memcpy(want, out, count * 4);
	MP_OK(tutti_bcast(want, count, TUTTI_FLOAT32, 0, job->world));
	TT_EXPECT(!memcmp(want, out, count * 4));
	MP_OK(tutti_free(in));
	MP_OK(tutti_free(out));
	free(want);
	return 0;
}

static int forced(struct mp_job *job)
{
	size_t n = (size_t)job->n, counts[] = {0, 1, n - 1, n + 1, 37, 1009, 20011}, i;
	bool in_place;

	for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		for (in_place = false;; in_place = true) {
			size_t count = counts[i];

			TT_EXPECT(!allreduce_once(job, TUTTI_INT32, TUTTI_SUM, count, i % MP_KINDS,
						  in_place));
			TT_EXPECT(!allreduce_once(job, TUTTI_FLOAT32, TUTTI_MAX, count,
						  (i + 1) % MP_KINDS, in_place));
			TT_EXPECT(!allreduce_once(job, TUTTI_UINT64, TUTTI_AVG, count, MP_POOL,
						  in_place));
			TT_EXPECT(!float_sums(job, count, in_place));
			if (in_place)
				break;
		}
	return 0;
}

static void forced_jobs(const char *env, int from, int to)
{
	const char *const *name;
	char text[256];
	int n;

	for (name = allreduces; *name; name++)
		for (n = from; n <= to; n++) {
			int failed;

			snprintf(text, sizeof(text), "TUTTI_ALGO=allreduce:%s %s", *name, env);
			failed = MP_RUN(.n = n, .env = text, .fn = forced);
			if (failed)
				fprintf(stderr, "%d ranks, %s\n", n, text);
			TT_CHECK(!failed);
		}
}

static void algorithms_shm(void)
{
	forced_jobs("TUTTI_TRANSPORT=shm", 2, 5);
	forced_jobs("TUTTI_TRANSPORT=shm " TINY, 3, 4);
	forced_jobs("TUTTI_TRANSPORT=fault:shm " FAULTS("10") " " TINY, 3, 3);
}

static void algorithms_ofi(void)
{
	NEEDS_OFI();
	forced_jobs("TUTTI_TRANSPORT=ofi", mp_brief() ? 5 : 2, 5);
	forced_jobs("TUTTI_TRANSPORT=ofi TUTTI_CHUNK=4096 TUTTI_EAGER=256", 4, 4);
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"shm", shm},
		{"shm_tiny", shm_tiny},
		{"shm_limits", shm_limits},
		{"shm_thread", shm_thread},
		{"shm_fault", shm_fault},
		{"ofi", ofi},
		{"ofi_tiny", ofi_tiny},
		{"ofi_fault", ofi_fault},
		{"ofi_rxm", ofi_rxm},
		{"ofi_sockets", ofi_sockets},
		{"same_bits", same_bits},
		{"algorithms_shm", algorithms_shm},
		{"algorithms_ofi", algorithms_ofi},
		{"verbs", verbs},
		{"verbs_tiny", verbs_tiny},
		{NULL, NULL},
	};

	return tt_test_main("coll", tests, argc, argv);
}
