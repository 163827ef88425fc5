/* SPDX-License-Identifier: BSD-3-Clause */
/* See random.h. */
#include "config.h"

#include "tests/mp/coll/random.h"

#include <stdio.h>

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

/* ---- buffers ---- */

static bool at_root(const struct rnd_call *c)
{
	return c->rank == c->root;
}

static bool scatters(const struct rnd_call *c)
{
	return c->what == RND_SCATTER || c->what == RND_SCATTER_V;
}

/* Of in place calls: is the input in the buffer of the result? */
static bool one_buffer(const struct rnd_call *c)
{
	return c->in_place && !scatters(c);
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
	case RND_SCATTER:
	case RND_SCATTER_V:
		return !c->in_place;
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

/* The offset of the input in the result's buffer. */
static void share(struct rnd_slot *s)
{
	int what = s->c.what;

	if (what == RND_REDUCE_SCATTER || what == RND_REDUCE_SCATTER_V)
		s->out.total = s->in.total;
	else if (s->in.n == s->out.n)
		memcpy(s->in.off, s->out.off, sizeof(s->in.off));
	else /* of all-gather and gather */
		s->in.off[0] = s->out.off[s->c.rank];
	s->in.total = 0;
}

static void set_sides(struct rnd_slot *s)
{
	const struct rnd_call *c = &s->c;
	size_t gap = rnd_is_v(c) ? c->id % 3 : 0;
	int b;

	s->in.n = blocks_in(c);
	s->out.n = blocks_out(c);
	for (b = 0; b < s->in.n; b++)
		s->in.len[b] = rnd_length(c, c->rank, b);
	for (b = 0; b < s->out.n; b++)
		s->out.len[b] = c->what == RND_FUNNEL ? c->count : rnd_length(c, b, c->rank);
	lay_out(&s->in, c->what == RND_REDUCE_SCATTER_V ? 0 : gap);
	lay_out(&s->out, gap);
	if (one_buffer(c))
		share(s);
}

int rnd_prepare(struct mp_job *job, struct rnd_slot *s, enum mp_kind kind)
{
	size_t size = tutti_datatype_size(s->c.type);

	set_sides(s);
	MP_OK(mp_buf_new(job, kind, s->in.total * size, &s->in.buf));
	MP_OK(mp_buf_new(job, kind, s->out.total * size, &s->out.buf));
	memset(s->req, 0, sizeof(s->req));
	return 0;
}

static char *input_at(const struct rnd_slot *s, int b, size_t k)
{
	char *buf = one_buffer(&s->c) ? s->out.buf.p : s->in.buf.p;

	return buf + (s->in.off[b] + k) * tutti_datatype_size(s->c.type);
}

static void fill(struct rnd_slot *s)
{
	const struct rnd_call *c = &s->c;
	size_t size = tutti_datatype_size(c->type), k;
	uint64_t v;
	int b;

	memset(s->out.buf.p, RND_UNTOUCHED, s->out.total * size);
	memset(s->in.buf.p, RND_UNTOUCHED, s->in.total * size);
	for (b = 0; b < s->in.n; b++)
		for (k = 0; k < s->in.len[b]; k++) {
			v = rnd_input(c, c->rank, b, k);
			memcpy(input_at(s, b, k), &v, size);
		}
	for (k = 0; c->what == RND_BCAST && at_root(c) && k < c->count; k++) {
		v = rnd_input(c, c->rank, 0, k);
		memcpy(s->out.buf.p + k * size, &v, size);
	}
}

/* ---- calls ---- */

static int call_shift(struct rnd_slot *s)
{
	const struct rnd_call *c = &s->c;
	int tag = (int)(c->id & 0xff), from = (c->rank - c->by + c->n) % c->n, err;
	int to = (c->rank + c->by) % c->n;
	void *in = s->in.buf.p, *out = s->out.buf.p;

	switch (c->form) {
	case F_BLOCKING:
		return tutti_sendrecv(in, c->count, c->type, to, tag, out, c->count, c->type, from,
				      tag, c->comm, NULL);
	case F_NONBLOCKING:
		err = tutti_irecv(out, c->count, c->type, from, tag, c->comm, NULL, &s->req[0]);
		return err ? err : tutti_isend(in, c->count, c->type, to, tag, c->comm, &s->req[1]);
	default:
		err = tutti_recv_init(out, c->count, c->type, from, tag, c->comm, NULL, &s->req[0]);
		return err ? err
			   : tutti_send_init(in, c->count, c->type, to, tag, c->comm, &s->req[1]);
	}
}

static int take(struct rnd_slot *s, int b, int tag)
{
	const struct rnd_call *c = &s->c;
	char *at = s->out.buf.p + s->out.off[b] * tutti_datatype_size(c->type);

	if (c->form == F_PERSISTENT)
		return tutti_recv_init(at, c->count, c->type, TUTTI_ANY_SOURCE, tag, c->comm,
				       &s->status[b], &s->req[b]);
	return tutti_irecv(at, c->count, c->type, TUTTI_ANY_SOURCE, tag, c->comm, &s->status[b],
			   &s->req[b]);
}

static int call_funnel(struct rnd_slot *s)
{
	const struct rnd_call *c = &s->c;
	int tag = FUNNEL_TAG + c->step, b, err = 0;
	void *in = s->in.buf.p;

	for (b = 0; at_root(c) && b < s->out.n && !err; b++)
		err = take(s, b, tag);
	if (at_root(c))
		return err;
	if (c->form == F_BLOCKING)
		return tutti_send(in, c->count, c->type, c->root, tag, c->comm);
	return c->form == F_PERSISTENT
		       ? tutti_send_init(in, c->count, c->type, c->root, tag, c->comm, s->req)
		       : tutti_isend(in, c->count, c->type, c->root, tag, c->comm, s->req);
}

#define CALL(name, ...) COLLS_CALL(c->form, c->comm, s->req, name, __VA_ARGS__)

static int call_v(struct rnd_slot *s, const void *in, void *out)
{
	const struct rnd_call *c = &s->c;
	size_t *slen = s->in.len, *soff = s->in.off, *rlen = s->out.len, *roff = s->out.off;
	size_t all[RND_RANKS];
	int i;

	if (c->id % 3 == 0) /* without gaps they may be left out */
		soff = roff = NULL;
	for (i = 0; i < c->n; i++)
		all[i] = rnd_length(c, i, i);
	switch (c->what) {
	case RND_REDUCE_SCATTER_V:
		return CALL(reduce_scatter, in, out, all, c->type, c->handle);
	case RND_ALLGATHER_V:
		return CALL(allgatherv, in, slen[0], out, rlen, roff, c->type);
	case RND_GATHER_V:
		return CALL(gatherv, in, slen[0], out, rlen, roff, c->type, c->root);
	case RND_SCATTER_V:
		return CALL(scatterv, in, slen, soff, out, all[c->rank], c->type, c->root);
	default:
		if (c->in_place)
			slen = soff = NULL;
		return CALL(alltoallv, in, slen, soff, out, rlen, roff, c->type);
	}
}

static int call(struct rnd_slot *s)
{
	const struct rnd_call *c = &s->c;
	const void *in = one_buffer(c) ? TUTTI_IN_PLACE : s->in.buf.p;
	void *out = c->in_place && scatters(c) ? TUTTI_IN_PLACE : s->out.buf.p;

	switch (c->what) {
	case RND_ALLREDUCE:
		return CALL(allreduce, in, out, c->count, c->type, c->handle);
	case RND_REDUCE:
		return CALL(reduce, in, out, c->count, c->type, c->handle, c->root);
	case RND_REDUCE_SCATTER:
		return CALL(reduce_scatter_block, in, out, c->count, c->type, c->handle);
	case RND_SCAN:
		return CALL(scan, in, out, c->count, c->type, c->handle);
	case RND_EXSCAN:
		return CALL(exscan, in, out, c->count, c->type, c->handle);
	case RND_BCAST:
		return CALL(bcast, out, c->count, c->type, c->root);
	case RND_ALLGATHER:
		return CALL(allgather, in, out, c->count, c->type);
	case RND_GATHER:
		return CALL(gather, in, out, c->count, c->type, c->root);
	case RND_SCATTER:
		return CALL(scatter, in, out, c->count, c->type, c->root);
	case RND_ALLTOALL:
		return CALL(alltoall, in, out, c->count, c->type);
	case RND_BARRIER:
		return c->form == F_BLOCKING	  ? tutti_barrier(c->comm)
		       : c->form == F_NONBLOCKING ? tutti_ibarrier(c->comm, s->req)
						  : tutti_barrier_init(c->comm, s->req);
	case RND_SHIFT:
		return call_shift(s);
	case RND_FUNNEL:
		return call_funnel(s);
	default:
		return call_v(s, in, out);
	}
}

/* ---- results ---- */

static int check_element(const struct rnd_slot *s, const char *at, uint64_t want, const char *where)
{
	const struct rnd_call *c = &s->c;
	uint64_t got = 0;

	memcpy(&got, at, tutti_datatype_size(c->type));
	if (got != want)
		fprintf(stderr,
			"rank %d of %d: step %d, call %d, form %d%s, count %zu, type %d, op %d, "
			"root %d: "
			"byte %zd of %s is %llx, not %llx\n",
			c->rank, c->n, c->step, c->what, c->form, c->in_place ? ", in place" : "",
			c->count, c->type, c->op, c->root,
			at - (where[0] == 's' ? s->in.buf.p : s->out.buf.p), where,
			(unsigned long long)got, (unsigned long long)want);
	TT_EXPECT(got == want);
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

/* The result, its gaps, and the bytes that the call must not write. */
static int check(const struct rnd_slot *s)
{
	const struct rnd_call *c = &s->c;
	size_t size = tutti_datatype_size(c->type), i = 0, k;
	int b;

	TT_EXPECT(!check_sources(s));
	for (b = 0; b < s->out.n; b++) {
		for (; i < s->out.off[b]; i++)
			TT_EXPECT(!check_element(s, s->out.buf.p + i * size, rnd_untouched(c),
						 "recvbuf"));
		for (k = 0; k < s->out.len[b]; k++, i++)
			TT_EXPECT(!check_element(s, s->out.buf.p + i * size, rnd_expected(s, b, k),
						 "recvbuf"));
	}
	for (b = 0; b < s->in.n && !one_buffer(c); b++)
		for (k = 0; k < s->in.len[b]; k++)
			TT_EXPECT(!check_element(s, input_at(s, b, k), rnd_input(c, c->rank, b, k),
						 "sendbuf"));
	return 0;
}

int rnd_start(struct mp_job *job, struct rnd_slot *s)
{
	int turn, i;

	for (turn = 1;; turn++) {
		fill(s);
		if (turn == 1 || s->c.form != F_PERSISTENT)
			MP_OK(call(s));
		for (i = 0; i < RND_RANKS && s->c.form == F_PERSISTENT; i++)
			if (s->req[i])
				MP_OK(tutti_start(s->req[i]));
		if (turn == s->c.times)
			return 0;
		MP_OK(tutti_waitall(RND_RANKS, s->req));
		TT_EXPECT(!check(s));
		s->c.data++;
	}
}

int rnd_finish(struct mp_job *job, struct rnd_slot *s)
{
	int i;

	MP_OK(tutti_waitall(RND_RANKS, s->req));
	TT_EXPECT(!check(s));
	for (i = 0; i < RND_RANKS; i++)
		MP_OK(tutti_request_free(s->req[i])); /* NULL is allowed */
	MP_OK(mp_buf_free(&s->in.buf));
	MP_OK(mp_buf_free(&s->out.buf));
	s->used = false;
	return 0;
}

static bool has_root(enum rnd_what what)
{
	return what == RND_REDUCE || what == RND_GATHER || what == RND_SCATTER ||
	       what == RND_GATHER_V || what == RND_SCATTER_V;
}

static bool can_be_in_place(const struct rnd_call *c)
{
	if (c->what == RND_BCAST || c->what == RND_BARRIER || c->what == RND_SHIFT ||
	    c->what == RND_FUNNEL)
		return false;
	return !has_root(c->what) || at_root(c);
}

/* Ranks need not use the same form, but a persistent collective matches its own kind only. */
static enum colls_form draw_form(const struct rnd_call *c)
{
	uint64_t all = c->id, own = c->id + (uint64_t)c->rank;

	if (c->what == RND_SHIFT || c->what == RND_FUNNEL)
		return (enum colls_form)rnd_below(&own, F_FORMS);
	if (!rnd_below(&all, F_FORMS))
		return F_PERSISTENT;
	return rnd_below(&own, 2) ? F_BLOCKING : F_NONBLOCKING;
}

void rnd_draw(uint64_t *s, const struct rnd_ops *ops, struct tutti_comm *comm, int step, bool once,
	      struct rnd_call *c)
{
	static const size_t counts[] = {0, 1, 2, 3, 7, 16, 33, 100, 1000, 4099, 20011};
	static const enum tutti_op built_in[] = {TUTTI_SUM, TUTTI_MAX, TUTTI_BXOR};
	int big = rnd_below(s, 4) ? 8 : (int)(sizeof(counts) / sizeof(counts[0]));
	int type = rnd_below(s, RND_TYPES), again, in_place;

	c->comm = comm;
	c->step = step;
	c->what = (enum rnd_what)rnd_below(s, RND_WHATS);
	c->count = counts[rnd_below(s, big)];
	c->type = rnd_type(type);
	c->op = (enum rnd_op)rnd_below(s, RND_OPS);
	c->handle = c->op < RND_COMMUTING    ? built_in[c->op]
		    : c->op == RND_COMMUTING ? ops->commuting
		    : c->op == RND_ORDERED   ? ops->ordered
					     : ops->premul[type];
	c->id = c->data = rnd_next(s);
	/* communicators differ in size: all ranks draw the same numbers, then reduce them */
	c->root = rnd_below(s, 1 << 20);
	c->by = rnd_below(s, 1 << 20);
	in_place = rnd_below(s, 3);
	again = rnd_below(s, 6);
	c->rank = tutti_comm_rank(c->comm);
	c->n = tutti_comm_size(c->comm);
	c->root %= c->n;
	c->by %= c->n;
	c->in_place = !in_place && can_be_in_place(c);
	c->times = again || once || c->what == RND_FUNNEL ? 1 : 2 + (int)(c->id % 2);
	c->form = draw_form(c);
}
