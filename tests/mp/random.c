/* SPDX-License-Identifier: BSD-3-Clause */
/* See random.h. */
#include "config.h"

#include "tests/mp/random.h"

#include <stdio.h>

#define UNTOUCHED 0xa5
#define FUNNEL_TAG 0x1000 /* and the step, so that no other message has it */

uint64_t rnd_next(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

int rnd_below(uint64_t *state, int n)
{
	return (int)(rnd_next(state) >> 33) % n;
}

/* ---- the oracle ---- */

static bool is_v(const struct rnd_call *c)
{
	return c->what >= RND_REDUCE_SCATTER_V;
}

/* Element k of block b of what rank puts in; as wide as any type, of which the low bytes count. */
static uint64_t input(const struct rnd_call *c, int rank, int b, size_t k)
{
	uint64_t state = c->id ^ (uint64_t)rank << 56 ^ (uint64_t)b << 48 ^ k;

	return rnd_next(&state);
}

static uint64_t narrow(const struct rnd_call *c, uint64_t v)
{
	size_t size = tutti_datatype_size(c->type);

	return size == 8 ? v : v & ((1ull << 8 * size) - 1);
}

/* Ranks 0 to n - 1, all types are unsigned. */
static uint64_t combined(const struct rnd_call *c, int n, int b, size_t k)
{
	uint64_t v = narrow(c, input(c, 0, b, k)), w;
	int r;

	for (r = 1; r < n; r++) {
		w = narrow(c, input(c, r, b, k));
		v = c->op == TUTTI_SUM ? v + w : c->op == TUTTI_MAX ? (v > w ? v : w) : v ^ w;
	}
	return narrow(c, v);
}

/* Of the block that one rank has for another; in v forms only some of the two matter. */
static size_t length(const struct rnd_call *c, int from, int to)
{
	uint64_t state = c->id * 31;

	if (c->what == RND_FUNNEL && from == c->root)
		return 0;
	if (!is_v(c))
		return c->count;
	if (c->what == RND_ALLGATHER_V || c->what == RND_GATHER_V)
		to = 0;
	else if (c->what != RND_ALLTOALL_V)
		from = 0;
	state += (uint64_t)(from * RND_RANKS + to);
	return rnd_below(&state, 4) ? (size_t)rnd_below(&state, (int)c->count + 1) : 0;
}

/* What element k of block b of the result must be in the end. */
static uint64_t expected(const struct rnd_slot *s, int b, size_t k)
{
	const struct rnd_call *c = &s->c;
	uint64_t untouched;

	memset(&untouched, UNTOUCHED, sizeof(untouched));
	switch (c->what) {
	case RND_SCAN:
		return combined(c, c->rank + 1, 0, k);
	case RND_EXSCAN:
		return c->rank ? combined(c, c->rank, 0, k) : narrow(c, untouched);
	case RND_REDUCE_SCATTER:
	case RND_REDUCE_SCATTER_V:
		return combined(c, c->n, c->rank, k);
	case RND_BCAST:
		return narrow(c, input(c, c->root, 0, k));
	case RND_ALLGATHER:
	case RND_ALLGATHER_V:
	case RND_GATHER:
	case RND_GATHER_V:
		return narrow(c, input(c, b, 0, k));
	case RND_FUNNEL:
		return narrow(c, input(c, s->status[b].source, 0, k));
	case RND_SCATTER:
	case RND_SCATTER_V:
		return narrow(c, input(c, c->root, c->rank, k));
	case RND_ALLTOALL:
	case RND_ALLTOALL_V:
		return narrow(c, input(c, b, c->rank, k));
	case RND_SHIFT:
		return narrow(c, input(c, (c->rank - c->by + c->n) % c->n, 0, k));
	default:
		return combined(c, c->n, 0, k);
	}
}

/* ---- buffers ---- */

static bool at_root(const struct rnd_call *c)
{
	return c->rank == c->root;
}

/* How many blocks this rank puts in, and gets. */
static int blocks_in(const struct rnd_call *c)
{
	switch (c->what) {
	case RND_BARRIER:
	case RND_BCAST:
		return 0;
	case RND_REDUCE_SCATTER:
	case RND_REDUCE_SCATTER_V:
	case RND_ALLTOALL:
	case RND_ALLTOALL_V:
		return c->n;
	case RND_SCATTER:
	case RND_SCATTER_V:
		return at_root(c) ? c->n : 0;
	default:
		return 1;
	}
}

static int blocks_out(const struct rnd_call *c)
{
	switch (c->what) {
	case RND_BARRIER:
		return 0;
	case RND_ALLGATHER:
	case RND_ALLGATHER_V:
	case RND_ALLTOALL:
	case RND_ALLTOALL_V:
		return c->n;
	case RND_GATHER:
	case RND_GATHER_V:
		return at_root(c) ? c->n : 0;
	case RND_FUNNEL:
		return at_root(c) ? c->n - 1 : 0;
	case RND_REDUCE:
		return at_root(c);
	default:
		return 1;
	}
}

/* One block after the other, in v forms with gaps. */
static void lay_out(struct rnd_side *side, size_t gap)
{
	int b;

	side->total = 0;
	for (b = 0; b < side->n; b++) {
		side->off[b] = side->total + (size_t)b % 2 * gap;
		side->total = side->off[b] + side->len[b];
	}
}

static void set_sides(struct rnd_slot *s)
{
	const struct rnd_call *c = &s->c;
	size_t gap = is_v(c) ? c->id % 3 : 0;
	int b;

	s->in.n = blocks_in(c);
	s->out.n = blocks_out(c);
	for (b = 0; b < s->in.n; b++)
		s->in.len[b] = length(c, c->rank, b);
	for (b = 0; b < s->out.n; b++)
		s->out.len[b] = c->what == RND_FUNNEL ? c->count : length(c, b, c->rank);
	lay_out(&s->in, c->what == RND_REDUCE_SCATTER_V ? 0 : gap);
	lay_out(&s->out, gap);
}

static void put(const struct rnd_call *c, char *buf, size_t i, uint64_t v)
{
	memcpy(buf + i * tutti_datatype_size(c->type), &v, tutti_datatype_size(c->type));
}

int rnd_prepare(struct mp_job *job, struct rnd_slot *s, enum mp_kind kind)
{
	const struct rnd_call *c = &s->c;
	size_t size = tutti_datatype_size(c->type), k;
	int b;

	set_sides(s);
	MP_OK(mp_buf_new(job, kind, s->in.total * size, &s->in.buf));
	MP_OK(mp_buf_new(job, kind, s->out.total * size, &s->out.buf));
	memset(s->out.buf.p, UNTOUCHED, s->out.total * size);
	memset(s->in.buf.p, UNTOUCHED, s->in.total * size);
	for (b = 0; b < s->in.n; b++)
		for (k = 0; k < s->in.len[b]; k++)
			put(c, s->in.buf.p, s->in.off[b] + k, input(c, c->rank, b, k));
	for (k = 0; c->what == RND_BCAST && at_root(c) && k < c->count; k++)
		put(c, s->out.buf.p, k, input(c, c->rank, 0, k));
	memset(s->req, 0, sizeof(s->req));
	return 0;
}

/* ---- calls ---- */

static int start_shift(struct rnd_slot *s)
{
	const struct rnd_call *c = &s->c;
	int tag = (int)(c->id & 0xff), err;

	err = tutti_irecv(s->out.buf.p, c->count, c->type, (c->rank - c->by + c->n) % c->n, tag, c->comm,
			  NULL, &s->req[0]);
	return err ? err
		   : tutti_isend(s->in.buf.p, c->count, c->type, (c->rank + c->by) % c->n, tag,
				 c->comm, &s->req[1]);
}

static int start_funnel(struct rnd_slot *s)
{
	const struct rnd_call *c = &s->c;
	size_t size = tutti_datatype_size(c->type);
	int tag = FUNNEL_TAG + c->step, b, err = 0;

	if (!at_root(c))
		return tutti_isend(s->in.buf.p, c->count, c->type, c->root, tag, c->comm, &s->req[0]);
	for (b = 0; b < s->out.n && !err; b++)
		err = tutti_irecv(s->out.buf.p + s->out.off[b] * size, c->count, c->type,
				  TUTTI_ANY_SOURCE, tag, c->comm, &s->status[b], &s->req[b]);
	return err;
}

static int start_v(struct rnd_slot *s)
{
	const struct rnd_call *c = &s->c;
	struct tutti_request **r = s->req;
	void *in = s->in.buf.p, *out = s->out.buf.p;
	size_t *slen = s->in.len, *soff = s->in.off, *rlen = s->out.len, *roff = s->out.off;
	size_t all[RND_RANKS];
	int i;

	if (c->id % 3 == 0) /* without gaps they may be left out */
		soff = roff = NULL;
	for (i = 0; i < c->n; i++)
		all[i] = length(c, i, i);
	switch (c->what) {
	case RND_REDUCE_SCATTER_V:
		return tutti_ireduce_scatter(in, out, all, c->type, c->op, c->comm, r);
	case RND_ALLGATHER_V:
		return tutti_iallgatherv(in, slen[0], out, rlen, roff, c->type, c->comm, r);
	case RND_GATHER_V:
		return tutti_igatherv(in, slen[0], out, rlen, roff, c->type, c->root, c->comm, r);
	case RND_SCATTER_V:
		return tutti_iscatterv(in, slen, soff, out, rlen[0], c->type, c->root, c->comm, r);
	default:
		return tutti_ialltoallv(in, slen, soff, out, rlen, roff, c->type, c->comm, r);
	}
}

int rnd_start(struct rnd_slot *s)
{
	const struct rnd_call *c = &s->c;
	struct tutti_request **r = s->req;
	void *in = s->in.buf.p, *out = s->out.buf.p;

	switch (c->what) {
	case RND_ALLREDUCE:
		return tutti_iallreduce(in, out, c->count, c->type, c->op, c->comm, r);
	case RND_REDUCE:
		return tutti_ireduce(in, out, c->count, c->type, c->op, c->root, c->comm, r);
	case RND_REDUCE_SCATTER:
		return tutti_ireduce_scatter_block(in, out, c->count, c->type, c->op, c->comm, r);
	case RND_SCAN:
		return tutti_iscan(in, out, c->count, c->type, c->op, c->comm, r);
	case RND_EXSCAN:
		return tutti_iexscan(in, out, c->count, c->type, c->op, c->comm, r);
	case RND_BCAST:
		return tutti_ibcast(out, c->count, c->type, c->root, c->comm, r);
	case RND_ALLGATHER:
		return tutti_iallgather(in, out, c->count, c->type, c->comm, r);
	case RND_GATHER:
		return tutti_igather(in, out, c->count, c->type, c->root, c->comm, r);
	case RND_SCATTER:
		return tutti_iscatter(in, out, c->count, c->type, c->root, c->comm, r);
	case RND_ALLTOALL:
		return tutti_ialltoall(in, out, c->count, c->type, c->comm, r);
	case RND_BARRIER:
		return tutti_ibarrier(c->comm, r);
	case RND_SHIFT:
		return start_shift(s);
	case RND_FUNNEL:
		return start_funnel(s);
	default:
		return start_v(s);
	}
}

static int check_element(const struct rnd_slot *s, size_t i, uint64_t want)
{
	const struct rnd_call *c = &s->c;
	size_t size = tutti_datatype_size(c->type);
	uint64_t got = 0;

	memcpy(&got, s->out.buf.p + i * size, size);
	if (got != narrow(c, want))
		fprintf(stderr,
			"rank %d of %d: step %d, call %d, count %zu, type %d, op %d, root %d: "
			"element %zu is %llx, not %llx\n",
			c->rank, c->n, c->step, c->what, c->count, c->type, c->op, c->root, i,
			(unsigned long long)got, (unsigned long long)narrow(c, want));
	TT_EXPECT(got == narrow(c, want));
	return 0;
}

/* Every other rank once, with all its bytes. */
static int check_sources(const struct rnd_slot *s)
{
	size_t bytes = s->c.count * tutti_datatype_size(s->c.type);
	unsigned seen = 0;
	int b;

	for (b = 0; s->c.what == RND_FUNNEL && b < s->out.n; b++) {
		TT_EXPECT(s->status[b].source >= 0 && s->status[b].source < s->c.n);
		TT_EXPECT(s->status[b].source != s->c.root && s->status[b].bytes == bytes);
		TT_EXPECT(!(seen & 1u << s->status[b].source));
		seen |= 1u << s->status[b].source;
	}
	return 0;
}

int rnd_finish(struct mp_job *job, struct rnd_slot *s)
{
	uint64_t untouched;
	size_t i = 0, k;
	int b;

	memset(&untouched, UNTOUCHED, sizeof(untouched));
	MP_OK(tutti_waitall(RND_RANKS, s->req));
	TT_EXPECT(!check_sources(s));
	for (b = 0; b < s->out.n; b++) {
		for (; i < s->out.off[b]; i++)
			TT_EXPECT(!check_element(s, i, untouched));
		for (k = 0; k < s->out.len[b]; k++, i++)
			TT_EXPECT(!check_element(s, i, expected(s, b, k)));
	}
	MP_OK(mp_buf_free(&s->in.buf));
	MP_OK(mp_buf_free(&s->out.buf));
	s->used = false;
	return 0;
}

void rnd_draw(uint64_t *s, struct tutti_comm *comm, int step, struct rnd_call *c)
{
	static const size_t counts[] = {0, 1, 2, 3, 7, 16, 33, 100, 1000, 4099, 20011};
	static const enum tutti_datatype types[] = {TUTTI_UINT8, TUTTI_UINT32, TUTTI_UINT64};
	static const enum tutti_op ops[] = {TUTTI_SUM, TUTTI_MAX, TUTTI_BXOR};
	int big = rnd_below(s, 4) ? 8 : (int)(sizeof(counts) / sizeof(counts[0]));

	c->comm = comm;
	c->step = step;
	c->what = (enum rnd_what)rnd_below(s, RND_WHATS);
	c->count = counts[rnd_below(s, big)];
	c->type = types[rnd_below(s, 3)];
	c->op = ops[rnd_below(s, 3)];
	c->id = rnd_next(s);
	/* of communicators that differ in size: numbers that all draw alike, then cut down */
	c->root = rnd_below(s, 1 << 20);
	c->by = rnd_below(s, 1 << 20);
	c->rank = tutti_comm_rank(c->comm);
	c->n = tutti_comm_size(c->comm);
	c->root %= c->n;
	c->by %= c->n;
}
