/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All collectives: types and operators, in place and not, every root, one to five ranks, all three
 * forms of each call, operators of the caller's, on shm, ofi and under fault. test_coll.c goes
 * deeper for all-reduce, broadcast and barrier.
 */
#include <complex.h>
#include "config.h"

#include "tests/mp/coll/colls.h"

#include <errno.h>
#include <stdio.h>

/* The share of the matrix that a job covers: one in this many. */
struct amount {
	int every;
	size_t big; /* elements */
	int many;   /* requests at once */
};

static const struct amount full = {1, 70000, 60};
static const struct amount some = {5, 30000, 30};
static const struct amount little = {11, 9000, 15};

static int reductions(struct mp_job *job, const struct amount *a)
{
	size_t counts[] = {0, 1, 7, (size_t)job->n, 1001, 5000};
	int kind, type, op, turn = 0, part = 0;

	for (kind = 0; kind < C_REDUCING; kind++)
		for (type = 0; type < TUTTI_NUM_DATATYPES; type++)
			for (op = 0; op < TUTTI_NUM_OPS; op++) {
				struct coll c = {
					.kind = kind, .type = type, .op = op, .base_op = op};

				turn += 1 + (op == 0);
				if (!mp_op_valid(type, op) || (op == TUTTI_AVG && kind >= C_SCAN) ||
				    part++ % a->every)
					continue;
				c.root = turn % job->n;
				c.count = counts[turn % 6];
				c.in_place = turn / 2 % 2;
				c.memory = turn / 3 % MP_KINDS;
				TT_EXPECT(!colls_once(job, &c, turn / 5 % F_FORMS));
			}
	return 0;
}

static int moves(struct mp_job *job, const struct amount *a)
{
	size_t counts[] = {1, 5, 1000, 333, 0, 4099};
	int kind, root, place, form, displs, turn = 0, part = 0;

	for (kind = C_REDUCING; kind < C_KINDS; kind++)
		for (root = 0; root < (colls_rooted(kind) ? job->n : 1); root++)
			for (place = 0; place < 2; place++)
				for (displs = 0; displs < 2; displs++)
					for (form = 0; form < F_FORMS; form++) {
						struct coll c = {.kind = kind,
								 .root = root,
								 .in_place = place,
								 .displs = displs};

						turn++;
						if (part++ % a->every)
							continue;
						c.type = turn % TUTTI_NUM_DATATYPES;
						c.count = counts[turn % 6];
						c.memory = turn / 2 % MP_KINDS;
						TT_EXPECT(!colls_once(job, &c, form));
					}
	return 0;
}

/* Messages of many chunks, in lanes. */
static int big_ones(struct mp_job *job, const struct amount *a)
{
	int kind, turn = 0;

	for (kind = 0; kind < C_KINDS; kind++, turn++) {
		struct coll c = {.kind = kind,
				 .type = turn % 2 ? TUTTI_FLOAT32 : TUTTI_INT64,
				 .root = turn % job->n,
				 .count = a->big + (size_t)turn,
				 .in_place = turn / 2 % 2,
				 .displs = turn % 2,
				 .memory = turn % MP_KINDS};

		TT_EXPECT(!colls_once(job, &c, turn % F_FORMS));
		c.in_place = !(turn / 2 % 2);
		c.memory = (turn + 1) % MP_KINDS;
		TT_EXPECT(!colls_once(job, &c, (turn + 1) % F_FORMS));
	}
	return 0;
}

/* All kinds under way at once, completed from the last to the first. */
static int overlap(struct mp_job *job, const struct amount *a)
{
	struct tutti_request *req[64];
	struct coll c[64];
	int i;

	for (i = 0; i < a->many; i++) {
		c[i] = (struct coll){.kind = i * 7 % C_KINDS,
				     .type = i % TUTTI_NUM_DATATYPES,
				     .root = i % job->n,
				     .count = i % 6 == 5 ? 20000 : (size_t)(i * 11),
				     .in_place = i % 2,
				     .displs = i / 2 % 2,
				     .memory = i % MP_KINDS};
		c[i].op = c[i].base_op = mp_op_of(c[i].type, TUTTI_SUM);
		TT_EXPECT(!colls_new(job, &c[i]));
		colls_fill(job, &c[i], (unsigned)i + 5000);
	}
	for (i = 0; i < a->many; i++)
		MP_OK(colls_issue(job, &c[i], F_NONBLOCKING, &req[i]));
	while (i--)
		MP_OK(tutti_wait(&req[i]));
	for (i = 0; i < a->many; i++) {
		TT_EXPECT(!colls_check(job, &c[i]));
		TT_EXPECT(!colls_free(job, &c[i]));
	}
	return 0;
}

/* ---- operators of the caller's ---- */

struct calls {
	int n;
	enum tutti_datatype type;
};

/* x -> a x + b as a word: a in the upper half, b in the lower. Applying one after the other does
 * not commute. */
static uint64_t after(uint64_t f, uint64_t g)
{
	uint32_t fa = (uint32_t)(f >> 32), fb = (uint32_t)f, ga = (uint32_t)(g >> 32),
		 gb = (uint32_t)g;

	return (uint64_t)(fa * ga) << 32 | (uint32_t)(fa * gb + fb);
}

static void affine(const void *a, void *b, size_t count, enum tutti_datatype type, void *arg)
{
	struct calls *calls = arg;
	const uint64_t *x = a;
	uint64_t *y = b;
	size_t i;

	calls->n++;
	calls->type = type;
	for (i = 0; i < count; i++)
		y[i] = after(x[i], y[i]);
}

static void affine_expect(void *a, const void *b, size_t count)
{
	const uint64_t *y = b;
	uint64_t *x = a;
	size_t i;

	for (i = 0; i < count; i++)
		x[i] = after(x[i], y[i]);
}

static void largest(const void *a, void *b, size_t count, enum tutti_datatype type, void *arg)
{
	const int32_t *x = a;
	int32_t *y = b;
	size_t i;

	((struct calls *)arg)->n++;
	((struct calls *)arg)->type = type;
	for (i = 0; i < count; i++)
		y[i] = x[i] > y[i] ? x[i] : y[i];
}

static int by_user(struct mp_job *job, const struct amount *a, bool ordered)
{
	size_t counts[] = {3, 1, 1000, 0, a->big};
	struct calls calls = {0};
	int kind, turn = ordered, place;
	enum tutti_op op;

	MP_OK(tutti_op_create(job->ctx, ordered ? affine : largest, &calls, !ordered, &op));
	for (kind = 0; kind < C_REDUCING; kind++)
		for (place = 0; place < 2; place++)
			for (turn = 0; turn < 5; turn++) {
				struct coll c = {.kind = kind,
						 .type = ordered ? TUTTI_UINT64 : TUTTI_INT32,
						 .op = op,
						 .base_op = TUTTI_MAX,
						 .combine = ordered ? affine_expect : NULL,
						 .root = (turn + kind) % job->n,
						 .count = counts[turn],
						 .in_place = place,
						 .memory = turn % MP_KINDS};

				if ((turn + kind) % (a->every > 2 ? 2 : 1))
					continue;
				TT_EXPECT(!colls_once(job, &c, (turn + place) % F_FORMS));
			}
	TT_EXPECT(job->n == 1 || (calls.n && calls.type == (ordered ? TUTTI_UINT64 : TUTTI_INT32)));
	MP_OK(tutti_op_free(job->ctx, op));
	return 0;
}

/* value as one element of type */
static void element(enum tutti_datatype type, int value, void *out)
{
	static const uint16_t half[] = {0x3c00, 0x4000, 0x4200, 0x4400,
					0x4500, 0x4600, 0x4700, 0x4800};
	float f = (float)value;
	double d = value;
	int64_t i = value;
	float complex c = f;
	double complex z = d;
	uint32_t u;

	memcpy(&u, &f, 4);
	u >>= 16;
	memcpy(out,
	       type == TUTTI_FLOAT16	  ? (void *)&half[value - 1]
	       : type == TUTTI_BFLOAT16	  ? (void *)&u
	       : type == TUTTI_FLOAT32	  ? (void *)&f
	       : type == TUTTI_FLOAT64	  ? (void *)&d
	       : type == TUTTI_COMPLEX64  ? (void *)&c
	       : type == TUTTI_COMPLEX128 ? (void *)&z
					  : (void *)&i,
	       tutti_datatype_size(type));
}

static int premultiplied(struct mp_job *job, const struct amount *a)
{
	size_t counts[] = {1, 3000, 17, a->big, 0};
	unsigned char scalar[16];
	enum tutti_op op;
	int type, kind, turn = 0;

	for (type = 0; type < TUTTI_NUM_DATATYPES; type++) {
		if (!mp_op_valid((enum tutti_datatype)type, TUTTI_PROD))
			continue;
		element(type, job->rank + 1, scalar);
		MP_OK(tutti_op_create_premul_sum(job->ctx, scalar, type, &op));
		memset(scalar, 0xff, sizeof(scalar)); /* copied */
		for (kind = 0; kind < C_REDUCING; kind++) {
			struct coll c = {.kind = kind,
					 .type = type,
					 .op = op,
					 .base_op = TUTTI_SUM,
					 .premul = true,
					 .root = turn % job->n};

			turn++;
			c.count = counts[turn % 5];
			c.in_place = turn / 2 % 2;
			c.memory = turn % MP_KINDS;
			TT_EXPECT(!colls_once(job, &c, turn / 3 % F_FORMS));
		}
		MP_OK(tutti_op_free(job->ctx, op));
	}
	return 0;
}

static int everything(struct mp_job *job)
{
	const struct amount *a = job->arg;

	TT_EXPECT(!reductions(job, a));
	TT_EXPECT(!moves(job, a));
	TT_EXPECT(!big_ones(job, a));
	TT_EXPECT(!overlap(job, a));
	TT_EXPECT(!by_user(job, a, false));
	TT_EXPECT(!by_user(job, a, true));
	TT_EXPECT(!premultiplied(job, a));
	MP_OK(tutti_barrier(job->world));
	return 0;
}

/* A job of each of these sizes. */
static void jobs(const char *env, const struct amount *a, const int *sizes)
{
	for (; *sizes; sizes++) {
		int failed = MP_RUN(.n = *sizes, .env = env, .fn = everything, .arg = (void *)a);

		if (failed)
			fprintf(stderr, "%d ranks, %s\n", *sizes, env);
		TT_CHECK(!failed);
	}
}

static const int all_sizes[] = {1, 2, 3, 4, 5, 0};
static const int few_sizes[] = {2, 3, 5, 0};
static const int two_sizes[] = {2, 4, 0};

#define TINY "TUTTI_CHUNK=4096 TUTTI_EAGER=256 TUTTI_SLOTS=4 TUTTI_PARKED=1"
#define FAULTS(seed) "TUTTI_FAULT=seed=" seed ",delay=0.2,reorder=0.3,again=0.2,finish=1"

static void shm(void)
{
	jobs("TUTTI_TRANSPORT=shm", &full, all_sizes);
}

static void shm_tiny(void)
{
	jobs("TUTTI_TRANSPORT=shm " TINY, &some, few_sizes);
	jobs("TUTTI_TRANSPORT=shm TUTTI_PROGRESS=thread", &little, two_sizes);
}

static void shm_fault(void)
{
	jobs("TUTTI_TRANSPORT=fault:shm " FAULTS("21"), &some, few_sizes);
	jobs("TUTTI_TRANSPORT=fault:shm " FAULTS("22") " " TINY, &little, few_sizes);
}

/* Every algorithm is in one of these; what an operator keeps from one of them, the default does. */
static const char *const algorithms[] = {
	"bcast:dbt;reduce:dbt;reduce_scatter_block:ring;reduce_scatter:ring;allgather:ring;"
	"allgatherv:ring;gather:binomial;scatter:binomial;alltoall:bruck;alltoallv:pairwise;"
	"scan:chain;exscan:chain",
	"bcast:scatter_allgather;reduce:halving_gather;reduce_scatter_block:halving;"
	"reduce_scatter:halving;allgather:recursive_doubling;allgatherv:recursive_doubling;"
	"gather:linear;scatter:linear;alltoall:pairwise;alltoallv:linear;scan:doubling;"
	"exscan:doubling",
	"bcast:chain;reduce:chain;reduce_scatter_block:direct;reduce_scatter:direct;"
	"allgather:bruck;allgatherv:bruck;alltoall:linear",
	"bcast:binomial;reduce:binomial;allgather:direct;allgatherv:direct",
	"reduce:linear",
};

static void forced(void)
{
	static const int sizes[] = {2, 3, 5, 6, 0};
	char env[1024];
	size_t i;

	for (i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++) {
		snprintf(env, sizeof(env), "TUTTI_TRANSPORT=shm TUTTI_ALGO=%s", algorithms[i]);
		jobs(env, &some, mp_sanitized() || mp_brief() ? two_sizes : sizes);
		snprintf(env, sizeof(env),
			 "TUTTI_TRANSPORT=fault:shm TUTTI_LANES=%zu " TINY
			 " " FAULTS("24") " TUTTI_ALGO=%s",
			 i % 3 + 1, algorithms[i]);
		jobs(env, &little, two_sizes);
	}
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	jobs("TUTTI_TRANSPORT=ofi", &some, all_sizes);
	jobs("TUTTI_TRANSPORT=fault:ofi " FAULTS("23") " " TINY, &little, two_sizes);
}

static void verbs(void)
{
	static const int sizes[] = {3, 0};

	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	jobs("TUTTI_TRANSPORT=verbs", &little, sizes);
}

/* ---- in the memory of the host ---- */

static int forbidden(struct mp_job *job)
{
	struct tutti_config config = {0};

	TT_EXPECT(!mp_forbid_vm());
	MP_OK(mp_join(job, MP_ID, &config));
	TT_EXPECT(!everything(job));
	MP_OK(mp_leave(job));
	return 0;
}

static int forbidden_to_write(struct mp_job *job)
{
	struct tutti_config config = {0};
	char byte = 1;

	TT_EXPECT(!mp_forbid_vm_write());
	MP_OK(mp_join(job, MP_ID, &config));
	if (job->rank) /* the transport serves messages, too */
		MP_OK(tutti_recv(&byte, 1, TUTTI_UINT8, 0, 0, job->world, NULL));
	else
		MP_OK(tutti_send(&byte, 1, TUTTI_UINT8, 1, 0, job->world));
	TT_EXPECT(!everything(job));
	MP_OK(mp_leave(job));
	return 0;
}

static void node(void)
{
	jobs("TUTTI_NODE=on", &full, all_sizes);
	jobs("TUTTI_NODE=on TUTTI_PROGRESS=thread", &some, two_sizes);
	jobs("TUTTI_NODE=on TUTTI_WAIT=sleep", &little, few_sizes);
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_NODE=on", .fn = forbidden, .arg = (void *)&some,
			 .no_init = true));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_NODE=on TUTTI_TRANSPORT=shm",
			 .fn = forbidden_to_write, .arg = (void *)&some, .no_init = true));
}

/* Each where it is not the default. */
static void node_forced(void)
{
	jobs("TUTTI_ALGO=allreduce:node_slots;bcast:node_slots;reduce:node_slots;"
	     "allgather:node_slots;allgatherv:node_slots;gather:node_slots",
	     &some, few_sizes);
	jobs("TUTTI_ALGO=allreduce:node_pull;bcast:node_pull;reduce:node_pull;"
	     "allgather:node_pull;allgatherv:node_pull;gather:node_pull;scan:node_pull;"
	     "exscan:node_pull",
	     &some, few_sizes);
}

/* In two levels, on hosts of two ranks each; of five ranks one is alone on its host. */
#define HOSTS "TUTTI_HOST_ID=h%h"

static const char *const in_levels[] = {
	"allreduce:hier_ring;bcast:hier_binomial;reduce:hier_binomial;allgather:hier_ring;"
	"allgatherv:hier_ring;"
	"reduce_scatter_block:hier_ring;reduce_scatter:hier_ring;barrier:hier",
	"allreduce:hier_leader;bcast:hier_leader;reduce:hier_leader;gather:hier_leader;scatter:"
	"hier_leader;"
	"alltoall:hier_pairwise;scan:hier_leader;exscan:hier_leader",
	"allreduce:hier_halving_doubling",
	"allreduce:hier_recursive_doubling",
	"allreduce:hier_dbt",
};

static void hosts(void)
{
	static const int sizes[] = {4, 5, 0}, four[] = {4, 0}, five[] = {5, 0}, six[] = {6, 0};
	char env[1024];
	size_t i;

	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	jobs(HOSTS, &some, sizes);
	jobs(HOSTS " TUTTI_PROGRESS=thread TUTTI_CHUNK=4K", &little, four);
	jobs(HOSTS " TUTTI_NODE=on TUTTI_TRANSPORT=fault:ofi " FAULTS("25") " " TINY, &little,
	     four);
	for (i = 0; i < sizeof(in_levels) / sizeof(in_levels[0]); i++) {
		snprintf(env, sizeof(env), "%s TUTTI_ALGO=%s TUTTI_LANES=%zu", HOSTS, in_levels[i],
			 i % 4 + 1);
		jobs(env, &little, !i ? six : i % 2 ? five : four);
	}
	TT_CHECK(!MP_RUN(.n = 4, .env = HOSTS, .fn = forbidden, .arg = (void *)&little,
			 .no_init = true));
}

/*
 * The same on two NUMA nodes of one host, where plans of all ranks in its memory go on beside
 * them.
 */
static void numa(void)
{
	static const int sizes[] = {4, 5, 0};
	char env[1024];
	size_t i;

	for (i = 0; i < sizeof(in_levels) / sizeof(in_levels[0]); i++) {
		snprintf(env, sizeof(env), "TUTTI_NUMA=%%h TUTTI_ALGO=%s TUTTI_LANES=%zu",
			 in_levels[i], i % 4 + 1);
		jobs(env, &little, sizes);
	}
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"shm", shm},
		{"shm_tiny", shm_tiny},
		{"shm_fault", shm_fault},
		{"forced", forced},
		{"ofi", ofi},
		{"verbs", verbs},
		{"node", node},
		{"node_forced", node_forced},
		{"hosts", hosts},
		{"numa", numa},
		{NULL, NULL},
	};

	return tt_test_main("colls", tests, argc, argv);
}
