/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gatherv and scatterv in the memory of a host: blocks of every length around what a slot holds,
 * with any root, in all forms of the call and both kinds of memory, and a rank and the root that
 * disagree about a length on either side of that. Deaths of the root and of another rank.
 */
#include "tests/mp/job.h"

#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define MOST 8	   /* ranks */
#define LONG 40000 /* bytes of a block, at most */
#define ROUNDS 24
#define STARTS 3

static const size_t elems[] = {1, 4, 24};

static enum tutti_datatype type_of(size_t elem)
{
	return elem == 1 ? TUTTI_UINT8 : elem == 4 ? TUTTI_INT32 : TUTTI_OPAQUE(elem);
}

enum form { BLOCKING, NONBLOCKING, PERSISTENT, FORMS };

/* A call: what all ranks know of it, and what only the root uses. */
struct call {
	bool gather, in_place, packed;
	enum form form;
	int root;
	size_t elem, count[MOST], displ[MOST];
	unsigned char *all, *own; /* the root's blocks, this rank's block */
};

/* Elements of a rank's block: none, few, about a share of n in a slot, about a slot, many. */
static size_t count_of(int rank, int round, size_t elem, int n)
{
	const size_t slot = (size_t)32 << 10, share = slot / (size_t)n;
	const size_t some[] = {0,	  elem,	      77 * elem, share - 40, share - 8,
			       share,	  share + 40, slot - 24, slot - 8,   slot,
			       slot + 40, LONG,	      2 * elem,	 3064,	     3072};

	return some[(size_t)(rank * 5 + round * 3) % (sizeof(some) / sizeof(some[0]))] / elem;
}

static unsigned char byte_of(int rank, int start, size_t i)
{
	return (unsigned char)(rank * 61 + start * 17 + 5 + (int)(i % 251));
}

static void fill(unsigned char *block, size_t len, int rank, int start)
{
	size_t i;

	for (i = 0; i < len; i++)
		block[i] = byte_of(rank, start, i);
}

static bool is_right(const unsigned char *block, size_t len, int rank, int start)
{
	size_t i;

	for (i = 0; i < len; i++)
		if (block[i] != byte_of(rank, start, i))
			return false;
	return true;
}

static unsigned char *block_of(const struct call *c, int rank)
{
	return c->all + c->displ[rank] * c->elem;
}

static void lay_out(struct call *c, int n, int round)
{
	size_t end = 0;
	int i;

	for (i = 0; i < n; i++) {
		c->count[i] = count_of(i, round, c->elem, n);
		c->displ[i] = end;
		end += c->count[i] + (c->packed ? 0 : 3);
	}
}

static int gather(struct mp_job *job, const struct call *c, struct tutti_request **req)
{
	bool root = job->rank == c->root;
	const void *from = root && c->in_place ? TUTTI_IN_PLACE : c->own;
	size_t count = c->count[job->rank];
	const size_t *counts = root ? c->count : NULL;
	const size_t *displs = root && !c->packed ? c->displ : NULL;
	enum tutti_datatype t = type_of(c->elem);

	if (c->form == BLOCKING)
		return tutti_gatherv(from, count, c->all, counts, displs, t, c->root, job->world);
	if (c->form == NONBLOCKING)
		return tutti_igatherv(from, count, c->all, counts, displs, t, c->root, job->world,
				      req);
	return tutti_gatherv_init(from, count, c->all, counts, displs, t, c->root, job->world, req);
}

static int scatter(struct mp_job *job, const struct call *c, struct tutti_request **req)
{
	bool root = job->rank == c->root;
	void *to = root && c->in_place ? TUTTI_IN_PLACE : c->own;
	size_t count = c->count[job->rank];
	const size_t *counts = root ? c->count : NULL;
	const size_t *displs = root && !c->packed ? c->displ : NULL;
	enum tutti_datatype t = type_of(c->elem);

	if (c->form == BLOCKING)
		return tutti_scatterv(c->all, counts, displs, to, count, t, c->root, job->world);
	if (c->form == NONBLOCKING)
		return tutti_iscatterv(c->all, counts, displs, to, count, t, c->root, job->world,
				       req);
	return tutti_scatterv_init(c->all, counts, displs, to, count, t, c->root, job->world, req);
}

/* Before a start: what the call moves, and other bytes where it is to arrive. */
static void prepare(const struct call *c, int me, int n, int start)
{
	bool root = me == c->root;
	size_t len = c->count[me] * c->elem;
	int i;

	for (i = 0; root && i < n; i++)
		fill(block_of(c, i), c->count[i] * c->elem, i, c->gather ? start + 7 : start);
	if (!c->gather)
		fill(c->own, len, me, start + 7);
	else if (root && c->in_place)
		fill(block_of(c, me), len, me, start);
	else
		fill(c->own, len, me, start);
}

static bool arrived(const struct call *c, int me, int n, int start)
{
	bool root = me == c->root;
	int i;

	if (!c->gather && !(root && c->in_place))
		return is_right(c->own, c->count[me] * c->elem, me, start);
	for (i = 0; root && i < n; i++)
		if (!is_right(block_of(c, i), c->count[i] * c->elem, i, start))
			return false;
	return true;
}

static int one_call(struct mp_job *job, const struct call *c)
{
	int (*make)(struct mp_job *, const struct call *, struct tutti_request **) =
		c->gather ? gather : scatter;
	struct tutti_request *req = NULL;
	int start;

	if (c->form == PERSISTENT)
		MP_OK(make(job, c, &req));
	for (start = 0; start < STARTS; start++) {
		prepare(c, job->rank, job->n, start);
		if (c->form == PERSISTENT)
			MP_OK(tutti_start(req));
		else
			MP_OK(make(job, c, &req));
		if (c->form != BLOCKING)
			MP_OK(tutti_wait(&req));
		TT_EXPECT(arrived(c, job->rank, job->n, start));
	}
	if (c->form == PERSISTENT)
		MP_OK(tutti_request_free(req));
	return 0;
}

static int all_calls(struct mp_job *job, unsigned char *all, unsigned char *own)
{
	struct call c = {.all = all, .own = own};
	int round, i;

	for (round = 0; round < ROUNDS * FORMS; round++) {
		c.form = (enum form)(round % FORMS);
		c.elem = elems[round / FORMS % 3];
		c.root = round * 5 / 3 % job->n;
		c.in_place = round % 4 == 3;
		c.packed = round / 2 % 2;
		lay_out(&c, job->n, round);
		for (i = 0; i < 2; i++) {
			c.gather = i;
			if (!one_call(job, &c))
				continue;
			fprintf(stderr, "%s, round %d\n", i ? "gatherv" : "scatterv", round);
			return 1;
		}
	}
	return 0;
}

static int rounds_body(struct mp_job *job)
{
	size_t bytes = (size_t)MOST * (LONG + 3 * 24);
	unsigned char *all = malloc(bytes), *own = malloc(LONG);
	void *pool[2];

	TT_EXPECT(all && own);
	TT_EXPECT(!all_calls(job, all, own));
	MP_OK(tutti_alloc(job->ctx, bytes, &pool[0]));
	MP_OK(tutti_alloc(job->ctx, LONG, &pool[1]));
	TT_EXPECT(!all_calls(job, pool[0], pool[1]));
	TT_EXPECT(!all_calls(job, job->rank ? all : pool[0], job->rank ? pool[1] : own));
	MP_OK(tutti_free(pool[0]));
	MP_OK(tutti_free(pool[1]));
	free(all);
	free(own);
	return 0;
}

static void rounds(void)
{
	static const int sizes[] = {2, 3, 5, 8};
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		TT_CHECK(!MP_RUN(.n = sizes[i], .env = "TUTTI_NODE=on", .fn = rounds_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_NODE=on TUTTI_WAIT=yield", .fn = rounds_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_NODE=on TUTTI_CHUNK=4K", .fn = rounds_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm TUTTI_NODE=off", .fn = rounds_body));
}

/* ---- lengths that differ ---- */

#define N 3
#define AT 70000 /* from one block to the next */

struct differ {
	bool gather;
	int root;
	size_t root_says, other_says; /* elements of the block of rank 1 */
};

static unsigned char all_blocks[N * AT], block[AT];

static int make(const struct differ *d, size_t *counts, struct tutti_comm *comm)
{
	const size_t displs[N] = {0, AT, 2 * AT};
	size_t count = counts[tutti_comm_rank(comm)];

	return d->gather ? tutti_gatherv(block, count, all_blocks, counts, displs, TUTTI_UINT8,
					 d->root, comm)
			 : tutti_scatterv(all_blocks, counts, displs, block, count, TUTTI_UINT8,
					  d->root, comm);
}

static int differ_body(struct mp_job *job)
{
	const struct differ *d = job->arg;
	size_t sent = d->gather ? d->other_says : d->root_says;
	size_t expected = d->gather ? d->root_says : d->other_says;
	struct tutti_error_info info = {.size = sizeof(info)};
	size_t counts[N] = {5, 5, 5};
	struct tutti_comm *comm;
	char text[2][64];
	int err, i;
	size_t k;

	MP_OK(tutti_comm_dup(job->world, &comm));
	for (i = 0; i < 3; i++) /* the short path is warm */
		MP_OK(make(d, counts, comm));
	mp_meet(job); /* a root does not wait: the mismatch could end another rank's third call */
	counts[1] = job->rank == d->root ? d->root_says : d->other_says;
	memset(block, 1, d->gather ? sizeof(block) : 0);
	err = make(d, counts, comm);
	if (!err) /* it had ended here before the two noticed */
		err = tutti_barrier(comm);
	TT_EXPECT(err == -TUTTI_EMISMATCH);
	TT_EXPECT(!tutti_comm_error(comm, &info));
	snprintf(text[0], sizeof(text[0]), "rank %d sends %zu elements", d->gather ? 1 : d->root,
		 sent);
	snprintf(text[1], sizeof(text[1]), "expects %zu elements", expected);
	for (k = AT; d->gather && job->rank == d->root && k < 2 * AT; k++)
		TT_EXPECT(!all_blocks[k]); /* of a block whose lengths differ nothing is written */
	TT_EXPECT(!strcmp(info.field, "counts"));
	TT_EXPECT(strstr(info.text, text[0]) && strstr(info.text, text[1]));
	mp_meet(job);
	MP_OK(tutti_comm_free(comm));
	return 0;
}

static void differ(void)
{
	static const size_t says[][2] = {{0, 1},     {1, 0},	 {5, 6},     {12000, 5},
					 {5, 12000}, {0, 50000}, {50000, 0}, {60000, 50000}};
	struct differ d;
	size_t i;

	for (i = 0; i < 2 * sizeof(says) / sizeof(says[0]); i++) {
		d = (struct differ){i % 2, i % 4 < 2 ? 0 : 2, says[i / 2][0], says[i / 2][1]};
		if (MP_RUN(.n = N, .env = "TUTTI_NODE=on TUTTI_LOG=none", .fn = differ_body,
			   .arg = &d)) {
			fprintf(stderr, "%s: root %d says %zu, rank 1 %zu\n",
				d.gather ? "gatherv" : "scatterv", d.root, d.root_says,
				d.other_says);
			TT_CHECK(false);
		}
	}
}

/* ---- messages ---- */

/* Blocks take no message, nor does one that is longer than a slot. */
static int messages_body(struct mp_job *job)
{
	const struct differ *d = job->arg;
	struct tutti_stats before = {.size = sizeof(before)}, after = {.size = sizeof(after)};
	size_t counts[N] = {100, d->root_says, 0};

	MP_OK(make(d, counts, job->world));
	MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_stats_get(job->ctx, &before));
	MP_OK(make(d, counts, job->world));
	MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_stats_get(job->ctx, &after));
	before.eager_messages += before.put_messages;
	after.eager_messages += after.put_messages;
	TT_EXPECT(after.eager_messages == before.eager_messages);
	return 0;
}

static void messages(void)
{
	struct differ d;
	int i;

	for (i = 0; i < 4; i++) {
		d = (struct differ){.gather = i % 2, .root_says = i < 2 ? 5000 : 50000};
		TT_CHECK(!MP_RUN(.n = N, .env = "TUTTI_NODE=on", .fn = messages_body, .arg = &d));
	}
}

/* ---- deaths ---- */

enum when { BETWEEN, INSIDE, ANYTIME, WHENS }; /* calls */

struct dies {
	bool gather, of_root;
	enum when when;
	size_t count;
};

#define DEAD 1

/* A call whose blocks are of count bytes. */
static struct call even_call(const struct dies *d, int n, unsigned char *all, unsigned char *own)
{
	struct call c = {.gather = d->gather, .packed = true, .elem = 1, .all = all, .own = own};
	int i;

	c.root = d->of_root ? DEAD : 0;
	for (i = 0; i < n; i++) {
		c.count[i] = d->count;
		c.displ[i] = (size_t)i * d->count;
	}
	return c;
}

/* Has begun a call, if it is to end inside one. */
static int die(struct mp_job *job, struct call *c, enum when when)
{
	static const struct itimerval soon = {.it_value = {.tv_usec = 2000}};
	struct tutti_request *req = NULL;

	if (when == ANYTIME) { /* by SIGALRM */
		MP_OK(setitimer(ITIMER_REAL, &soon, NULL));
		return 0;
	}
	c->form = NONBLOCKING;
	if (when == INSIDE)
		MP_OK((c->gather ? gather : scatter)(job, c, &req));
	return kill(getpid(), SIGKILL);
}

static int until_death(struct mp_job *job, struct call *c, const struct dies *d)
{
	int t, err = 0;

	for (t = 0; !err; t++) {
		if (job->rank == DEAD && t == 20)
			MP_OK(die(job, c, d->when));
		err = (c->gather ? gather : scatter)(job, c, NULL);
	}
	return err;
}

/* The error names the dead rank; the living go on in what tutti_comm_shrink makes. */
static int death_body(struct mp_job *job)
{
	const struct dies *d = job->arg;
	struct tutti_error_info info = {.size = sizeof(info)};
	struct mp_job rest = *job;
	unsigned char *all = calloc(N, AT), *own = calloc(1, AT);
	struct call c = even_call(d, job->n, all, own);

	TT_EXPECT(all && own);
	MP_ERR(until_death(job, &c, d), -TUTTI_EPEER);
	TT_EXPECT(!tutti_last_error(&info));
	TT_EXPECT(info.rank == DEAD && strstr(info.text, "rank 1"));
	MP_OK(tutti_comm_shrink(job->world, &rest.world));
	rest.rank = tutti_comm_rank(rest.world);
	rest.n = tutti_comm_size(rest.world);
	TT_EXPECT(rest.n == N - 1);
	c = even_call(d, rest.n, all, own);
	TT_EXPECT(!one_call(&rest, &c));
	MP_OK(tutti_comm_free(rest.world));
	free(all);
	free(own);
	return mp_leave_failed(job);
}

static void deaths(void)
{
	static const char *const env[] = {"TUTTI_NODE=on TUTTI_LOG=none",
					  "TUTTI_NODE=on TUTTI_LOG=none TUTTI_TOLERANT=1"};
	struct dies d;
	int i;

	for (i = 0; i < 16 * WHENS; i++) {
		d = (struct dies){.gather = i & 1,
				  .of_root = i & 2,
				  .when = (enum when)(i / 16),
				  .count = i & 4 ? 50000 : 100};
		if (MP_RUN(.n = N, .env = env[i / 8 % 2], .fn = death_body, .arg = &d,
			   .killed = 1u << DEAD)) {
			fprintf(stderr, "%s of %zu bytes, %s, %s, when %d\n",
				d.gather ? "gatherv" : "scatterv", d.count,
				d.of_root ? "the root dies" : "another rank dies", env[i / 8 % 2],
				(int)d.when);
			TT_CHECK(false);
		}
	}
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"rounds", rounds},
					       {"differ", differ},
					       {"messages", messages},
					       {"deaths", deaths},
					       {0}};

	return tt_test_main("root_counts", tests, argc, argv);
}
