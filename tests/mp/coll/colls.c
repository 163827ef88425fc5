/* SPDX-License-Identifier: BSD-3-Clause */
/* See colls.h. The expected layout shares no code with lib/plan/layout.c. */
#include "tests/mp/coll/colls.h"

#include <stdio.h>

#define GUARD 64
#define JUNK 0xa5

static const char *const names[C_KINDS] = {"allreduce",	     "reduce",	  "reduce_scatter_block",
					   "reduce_scatter", "scan",	  "exscan",
					   "bcast",	     "allgather", "allgatherv",
					   "gather",	     "gatherv",	  "scatter",
					   "scatterv",	     "alltoall",  "alltoallv"};

const char *colls_name(enum colls_kind kind)
{
	return names[kind];
}

bool colls_rooted(enum colls_kind kind)
{
	return kind == C_REDUCE || kind == C_BCAST || (kind >= C_GATHER && kind <= C_SCATTERV);
}

static bool is_v(enum colls_kind kind)
{
	return kind == C_REDUCE_SCATTER || kind == C_ALLGATHERV || kind == C_GATHERV ||
	       kind == C_SCATTERV || kind == C_ALLTOALLV;
}

/* ---- counts of each pair of ranks ---- */

/* Between none and twice count, zero now and then. */
static size_t uneven(const struct coll *c, int i)
{
	return i % 3 == 2 ? 0 : c->count * (size_t)(1 + i % 4) / 2 + (size_t)(i % 2);
}

/* Elements that rank from sends to rank to. */
static size_t block(const struct coll *c, int from, int to)
{
	switch (c->kind) {
	case C_ALLGATHERV:
		return uneven(c, from);
	case C_GATHERV:
		return to == c->root ? uneven(c, from) : 0;
	case C_GATHER:
		return to == c->root ? c->count : 0;
	case C_SCATTERV:
		return from == c->root ? uneven(c, to) : 0;
	case C_SCATTER:
	case C_BCAST:
		return from == c->root ? c->count : 0;
	case C_ALLTOALLV: /* symmetric, as it must be in place */
		return uneven(c, from + to);
	case C_REDUCE_SCATTER:
		return uneven(c, to);
	default:
		return c->count;
	}
}

/* Whether a rank sends the same block to all receivers. */
static bool one_block_sent(enum colls_kind kind)
{
	return kind == C_BCAST || (kind >= C_ALLGATHER && kind <= C_GATHERV);
}

/* Offsets of blocks of these sizes; returns the end of the last. */
static size_t lay_out(const struct coll *c, int n, const size_t *counts, bool displs, size_t *begin)
{
	size_t at = 0;
	int i, k;

	for (k = 0; k < n; k++) {
		i = displs ? n - 1 - k : k;
		begin[i] = at + (displs ? 3 : 0);
		at = begin[i] + counts[i];
	}
	return at;
}

static unsigned char byte_of(const struct coll *c, int from, int to, size_t k)
{
	size_t h = (size_t)c->seed * 1000003 +
		   (size_t)(from * 64 + (one_block_sent(c->kind) ? 0 : to));

	return (unsigned char)((h * 2654435761u >> 7) + k * 7 + (k >> 8) * 13);
}

static void put_block(const struct coll *c, char *dst, int from, int to)
{
	size_t k, bytes = block(c, from, to) * tutti_datatype_size(c->type);

	for (k = 0; k < bytes; k++)
		dst[k] = (char)byte_of(c, from, to, k);
}

/* ---- buffers ---- */

static size_t total(const struct coll *c, int n)
{
	size_t sum = 0;
	int i;

	for (i = 0; i < n; i++)
		sum += block(c, 0, i);
	return sum;
}

/* Elements of both buffers. */
static void extents(const struct mp_job *job, struct coll *c, size_t *send, size_t *recv)
{
	int i, n = job->n, me = job->rank;
	bool displs = c->displs && is_v(c->kind);
	bool mine =
		displs && (c->kind != C_ALLGATHERV || me % 2); /* which are each rank's own there */

	for (i = 0; i < n; i++) {
		c->scounts[i] = block(c, me, i);
		c->counts[i] = c->kind == C_REDUCE_SCATTER ? block(c, 0, i) : block(c, i, me);
	}
	*send = lay_out(c, n, c->scounts, displs, c->sdispls);
	*recv = lay_out(c, n, c->counts, mine, c->rdispls);
	if (one_block_sent(c->kind))
		*send = c->kind == C_ALLGATHER || c->kind == C_ALLGATHERV ? block(c, me, 0)
									  : block(c, me, c->root);
	if (c->kind == C_BCAST || c->kind == C_SCATTER || c->kind == C_SCATTERV)
		*recv = block(c, c->root, me);
	if (c->kind >= C_REDUCING)
		return;
	*send = *recv = c->count;
	if (c->kind == C_REDUCE_SCATTER_BLOCK || c->kind == C_REDUCE_SCATTER) {
		*send = total(c, n);
		*recv = c->in_place ? *send : block(c, 0, me);
	} else if (c->kind == C_REDUCE && me != c->root) {
		*recv = 0;
	}
}

int colls_new(struct mp_job *job, struct coll *c)
{
	size_t n = (size_t)job->n, size = tutti_datatype_size(c->type), send, recv;

	if (c->in_place && (c->kind == C_BCAST || (colls_rooted(c->kind) && job->rank != c->root)))
		c->in_place = false;
	c->counts = calloc(4 * n, sizeof(size_t));
	c->scounts = c->counts + n;
	c->sdispls = c->counts + 2 * n;
	c->rdispls = c->counts + 3 * n;
	extents(job, c, &send, &recv);
	c->send_bytes = send * size;
	c->recv_bytes = recv * size;
	MP_OK(mp_buf_new(job, c->memory, c->send_bytes + 2 * GUARD, &c->send));
	MP_OK(mp_buf_new(job, c->memory, c->recv_bytes + 2 * GUARD, &c->recv));
	c->want = malloc(c->recv_bytes + 2 * GUARD);
	c->sent = malloc(c->send_bytes + 2 * GUARD);
	return 0;
}

int colls_free(struct mp_job *job, struct coll *c)
{
	MP_OK(mp_buf_free(&c->send));
	MP_OK(mp_buf_free(&c->recv));
	free(c->counts);
	free(c->want);
	free(c->sent);
	return 0;
}

/* ---- inputs and results ---- */

static void fill_reduction(struct mp_job *job, struct coll *c)
{
	char *in = c->in_place ? c->recv.p : c->send.p;

	mp_fill_exact(c->type, c->seed, job->rank, 0,
		      (c->in_place ? c->recv_bytes : c->send_bytes) / tutti_datatype_size(c->type),
		      in + GUARD);
}

static void fill_blocks(struct mp_job *job, struct coll *c)
{
	size_t size = tutti_datatype_size(c->type);
	bool scatters = c->kind == C_SCATTER || c->kind == C_SCATTERV;
	int i, me = job->rank;

	if (c->kind == C_BCAST) {
		if (me == c->root)
			put_block(c, c->recv.p + GUARD, me, 0);
		return;
	}
	if (one_block_sent(c->kind)) {
		i = c->kind >= C_GATHER ? c->root : 0;
		put_block(c, (c->in_place ? c->recv.p + c->rdispls[me] * size : c->send.p) + GUARD,
			  me, i);
		return;
	}
	for (i = 0; i < job->n; i++)
		put_block(c,
			  (c->in_place && !scatters ? c->recv.p + c->rdispls[i] * size
						    : c->send.p + c->sdispls[i] * size) +
				  GUARD,
			  me, i);
}

static void expect_blocks(struct mp_job *job, struct coll *c)
{
	size_t size = tutti_datatype_size(c->type);
	int i, me = job->rank;

	if (c->kind == C_BCAST || c->kind == C_SCATTER || c->kind == C_SCATTERV) {
		if (!c->in_place)
			put_block(c, c->want + GUARD, c->root, me);
		return;
	}
	if ((c->kind == C_GATHER || c->kind == C_GATHERV) && me != c->root)
		return;
	for (i = 0; i < job->n; i++)
		put_block(c, c->want + GUARD + c->rdispls[i] * size, i, me);
}

/* Ranks first to last, each times its scalar, or by the operator of the test's. */
static void expect_special(struct coll *c, int last, size_t from, size_t count, char *out)
{
	size_t bytes = count * tutti_datatype_size(c->type);
	char *x = malloc(bytes + 1), *one = malloc(bytes + 1);
	int rank, k;

	for (rank = 0; rank <= last; rank++) {
		mp_fill_exact(c->type, c->seed, rank, from, count, one);
		memcpy(x, one, bytes);
		for (k = 0; c->premul && k < rank; k++)
			mp_combine(c->type, TUTTI_SUM, x, one, count);
		if (!rank)
			memcpy(out, x, bytes);
		else if (c->combine)
			c->combine(out, x, count);
		else
			mp_combine(c->type, c->base_op, out, x, count);
	}
	free(x);
	free(one);
}

static void expect_reduction(struct mp_job *job, struct coll *c)
{
	size_t from = 0, count = c->count;
	int i, last = job->n - 1;

	if (c->kind == C_REDUCE && job->rank != c->root)
		return;
	if (c->kind == C_SCAN)
		last = job->rank;
	if (c->kind == C_EXSCAN)
		last = job->rank - 1;
	if (last < 0)
		return;
	if (c->kind == C_REDUCE_SCATTER_BLOCK || c->kind == C_REDUCE_SCATTER) {
		for (i = 0; i < job->rank; i++)
			from += block(c, 0, i);
		count = block(c, 0, job->rank);
	}
	if (c->premul || c->combine)
		expect_special(c, last, from, count, c->want + GUARD);
	else
		mp_reduce_expect(c->type, c->base_op, c->seed, 0, last, job->n, from, count,
				 c->want + GUARD);
}

void colls_fill(struct mp_job *job, struct coll *c, unsigned seed)
{
	c->seed = seed;
	memset(c->send.p, JUNK, c->send_bytes + 2 * GUARD);
	memset(c->recv.p, JUNK, c->recv_bytes + 2 * GUARD);
	if (c->kind < C_REDUCING)
		fill_reduction(job, c);
	else
		fill_blocks(job, c);
	memcpy(c->sent, c->send.p, c->send_bytes + 2 * GUARD);
	memcpy(c->want, c->recv.p, c->recv_bytes + 2 * GUARD);
	if (c->kind < C_REDUCING)
		expect_reduction(job, c);
	else
		expect_blocks(job, c);
}

/* ---- the calls ---- */

#define FORMS(name, ...) COLLS_CALL(form, job->world, req, name, __VA_ARGS__)

/* The same, with the fields that the collective has. */
static int issue_struct(struct mp_job *job, const struct coll *c, enum colls_form form,
			const void *in, void *out, size_t own, struct tutti_request **req)
{
	static const enum tutti_coll coll[C_KINDS] = {
		TUTTI_COLL_ALLREDUCE,	   TUTTI_COLL_REDUCE,	 TUTTI_COLL_REDUCE_SCATTER_BLOCK,
		TUTTI_COLL_REDUCE_SCATTER, TUTTI_COLL_SCAN,	 TUTTI_COLL_EXSCAN,
		TUTTI_COLL_BCAST,	   TUTTI_COLL_ALLGATHER, TUTTI_COLL_ALLGATHERV,
		TUTTI_COLL_GATHER,	   TUTTI_COLL_GATHERV,	 TUTTI_COLL_SCATTER,
		TUTTI_COLL_SCATTERV,	   TUTTI_COLL_ALLTOALL,	 TUTTI_COLL_ALLTOALLV};
	bool v = c->kind == C_ALLGATHERV || c->kind == C_GATHERV || c->kind == C_ALLTOALLV;
	struct tutti_call call = {.size = sizeof(call),
				  .coll = coll[c->kind],
				  .flags = form == F_PERSISTENT ? TUTTI_CALL_PERSISTENT : 0,
				  .sendbuf = c->kind == C_BCAST ? NULL : in,
				  .recvbuf = out,
				  .count = c->count,
				  .datatype = c->type};

	if (c->kind == C_ALLGATHERV || c->kind == C_GATHERV || c->kind == C_SCATTERV)
		call.count = own;
	if (c->kind == C_REDUCE_SCATTER || c->kind == C_ALLTOALLV)
		call.count = 0;
	if (v || c->kind == C_REDUCE_SCATTER)
		call.recvcounts = c->counts;
	if (v && c->displs)
		call.recvdispls = c->rdispls;
	if (c->kind == C_SCATTERV || c->kind == C_ALLTOALLV) {
		call.sendcounts = c->scounts;
		call.senddispls = c->displs ? c->sdispls : NULL;
	}
	if (c->kind < C_REDUCING)
		call.op = c->op;
	if (colls_rooted(c->kind))
		call.root = c->root;
	return tutti_call(job->world, &call, form == F_BLOCKING ? NULL : req);
}

int colls_issue(struct mp_job *job, struct coll *c, enum colls_form form,
		struct tutti_request **req)
{
	bool to_scatter = c->kind == C_SCATTER || c->kind == C_SCATTERV,
	     here = job->rank == c->root;
	const void *in = c->in_place && !to_scatter ? TUTTI_IN_PLACE : c->send.p + GUARD;
	void *out = c->in_place && to_scatter ? TUTTI_IN_PLACE : c->recv.p + GUARD;
	const size_t *sd = c->displs ? c->sdispls : NULL, *rd = c->displs ? c->rdispls : NULL;
	size_t own = c->kind == C_SCATTERV ? block(c, c->root, job->rank)
					   : c->send_bytes / tutti_datatype_size(c->type);

	if (colls_rooted(c->kind) && !here && c->kind != C_BCAST && c->seed % 2) {
		if (to_scatter) /* what only the root has may be anything elsewhere */
			in = NULL;
		else
			out = NULL;
	}
	if (c->by_struct)
		return issue_struct(job, c, form, in, out, own, req);
	switch (c->kind) {
	case C_ALLREDUCE:
		return FORMS(allreduce, in, out, c->count, c->type, c->op);
	case C_REDUCE:
		return FORMS(reduce, in, out, c->count, c->type, c->op, c->root);
	case C_REDUCE_SCATTER_BLOCK:
		return FORMS(reduce_scatter_block, in, out, c->count, c->type, c->op);
	case C_REDUCE_SCATTER:
		return FORMS(reduce_scatter, in, out, c->counts, c->type, c->op);
	case C_SCAN:
		return FORMS(scan, in, out, c->count, c->type, c->op);
	case C_EXSCAN:
		return FORMS(exscan, in, out, c->count, c->type, c->op);
	case C_BCAST:
		return FORMS(bcast, out, c->count, c->type, c->root);
	case C_ALLGATHER:
		return FORMS(allgather, in, out, c->count, c->type);
	case C_ALLGATHERV:
		return FORMS(allgatherv, in, own, out, c->counts, rd, c->type);
	case C_GATHER:
		return FORMS(gather, in, out, c->count, c->type, c->root);
	case C_GATHERV:
		return FORMS(gatherv, in, own, out, here ? c->counts : NULL, rd, c->type, c->root);
	case C_SCATTER:
		return FORMS(scatter, in, out, c->count, c->type, c->root);
	case C_SCATTERV:
		return FORMS(scatterv, in, here ? c->scounts : NULL, sd, out, own, c->type,
			     c->root);
	case C_ALLTOALL:
		return FORMS(alltoall, in, out, c->count, c->type);
	default:
		return FORMS(alltoallv, in, c->scounts, sd, out, c->counts, rd, c->type);
	}
}

int colls_check(struct mp_job *job, struct coll *c)
{
	size_t len = c->recv_bytes + 2 * GUARD, i;
	bool reduce_scatter = c->kind == C_REDUCE_SCATTER_BLOCK || c->kind == C_REDUCE_SCATTER;

	if (c->kind == C_EXSCAN && !job->rank)
		len = GUARD;		   /* rank 0's result has no meaning */
	if (reduce_scatter && c->in_place) /* nor the bytes after it */
		len = GUARD + block(c, 0, job->rank) * tutti_datatype_size(c->type);
	for (i = 0; i < len && c->recv.p[i] == c->want[i]; i++)
		;
	if (i < len)
		fprintf(stderr,
			"rank %d of %d: %s type %d op %d root %d count %zu%s%s memory %d: recvbuf "
			"byte "
			"%zd\n",
			job->rank, job->n, names[c->kind], c->type, c->op, c->root, c->count,
			c->in_place ? " in place" : "", c->displs ? " displs" : "", c->memory,
			(ssize_t)i - GUARD);
	else if (memcmp(c->recv.p + c->recv_bytes + GUARD, c->want + c->recv_bytes + GUARD, GUARD))
		fprintf(stderr, "rank %d of %d: %s wrote behind recvbuf\n", job->rank, job->n,
			names[c->kind]);
	else if (memcmp(c->send.p, c->sent, c->send_bytes + 2 * GUARD))
		fprintf(stderr, "rank %d of %d: %s wrote to sendbuf\n", job->rank, job->n,
			names[c->kind]);
	else
		return 0;
	return 1;
}

int colls_once(struct mp_job *job, struct coll *c, enum colls_form form)
{
	static unsigned seed = 100;
	struct tutti_request *req = NULL;
	size_t bytes = 4 * (size_t)job->n * sizeof(size_t), *arrays = malloc(bytes);
	int i;

	TT_EXPECT(!colls_new(job, c));
	memcpy(arrays, c->counts, bytes);
	colls_fill(job, c, ++seed);
	MP_OK(colls_issue(job, c, form, &req));
	TT_EXPECT(!req == (form == F_BLOCKING));
	memset(c->counts, 0xff, bytes); /* the call has its copy */
	if (form == F_NONBLOCKING)
		MP_OK(tutti_wait(&req));
	for (i = 0; form == F_PERSISTENT && i < 2; i++) {
		memcpy(c->counts, arrays, bytes);
		colls_fill(job, c, ++seed);
		memset(c->counts, 0xff, bytes);
		MP_OK(tutti_start(req));
		MP_OK(tutti_wait(&req));
		TT_EXPECT(!colls_check(job, c));
	}
	TT_EXPECT(!colls_check(job, c));
	if (req)
		MP_OK(tutti_request_free(req));
	free(arrays);
	return colls_free(job, c);
}
