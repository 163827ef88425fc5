/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random programs of persistent collectives: up to LIVE of them on two communicators, made, started
 * and freed among ordinary collectives. All ranks draw what happens in a round; each rank draws for
 * itself the order of it, how it starts and waits, and when it frees. The oracle is value() and the
 * definition of each collective. TUTTI_TEST_SEED=N runs program N alone, TT_TIMES=N runs N times
 * as many rounds.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <stdio.h>

#define LIVE 24
#define ROUNDS 40
#define ORDINARY 3 /* in a round, at most */
#define OLD (4 * LIVE)
#define LEFT 64 /* freed while they ran: their buffers live on */

enum kind {
	ALLREDUCE,
	REDUCE,
	BCAST,
	ALLGATHER,
	GATHER,
	SCATTER,
	ALLTOALL,
	ALLTOALLV,
	REDUCE_SCATTER_BLOCK,
	SCAN,
	BARRIER,
	KINDS
};

struct op {
	/* the same on all ranks */
	bool used;
	bool lingers; /* a rank may wait for the last start in the next round only */
	int last;     /* round of the last start */
	enum kind kind;
	uint64_t id;
	struct tutti_comm *comm;
	int root;
	size_t count;
	/* this rank's */
	bool running, started; /* started: in this round */
	int starts;
	int64_t *send, *recv;
	size_t *counts; /* four arrays */
	size_t len;	/* elements of recv */
	struct tutti_request *req;
};

struct program {
	struct mp_job *job;
	uint64_t shared, own, ids;
	struct tutti_comm *comm[2];
	struct op op[LIVE], old[OLD]; /* old: to be freed, when this rank likes */
	int64_t *left[2 * LEFT];
	int nold, nleft, round;
	long starts;
};

static uint64_t draw(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static int below(uint64_t *state, int n)
{
	return (int)(draw(state) % (uint64_t)n);
}

static int64_t value(const struct op *o, int from, int to, size_t k)
{
	uint64_t x = o->id * 1000003 + (uint64_t)o->starts * 7919 + (uint64_t)(from * 64 + to);

	x += k * 104729;
	return (int64_t)(draw(&x) >> 20);
}

static size_t block_v(const struct op *o, int from, int to)
{
	return (o->count + o->id + (uint64_t)(from * 5 + to * 3)) % (o->count + 1);
}

/* ---- the oracle ---- */

static int rank_of(const struct program *p, const struct op *o)
{
	return o->comm == p->comm[1] ? p->job->n - 1 - p->job->rank : p->job->rank;
}

static bool at_root(const struct program *p, const struct op *o)
{
	return rank_of(p, o) == o->root;
}

static void fill(const struct program *p, struct op *o)
{
	int n = p->job->n, me = rank_of(p, o), r;
	size_t k, c = o->count;

	memset(o->recv, 0x5a, (o->len + 1) * sizeof(int64_t));
	for (r = 0; r < n; r++)
		for (k = 0; k < c; k++)
			o->send[(size_t)r * c + k] = value(o, me, r, k);
	if (o->kind == BCAST && at_root(p, o))
		memcpy(o->recv, o->send, c * sizeof(int64_t));
	for (r = 0; o->kind == ALLTOALLV && r < n; r++)
		for (k = 0; k < o->counts[r]; k++)
			o->send[o->counts[n + r] + k] = value(o, me, r, k);
}

static int64_t sum(const struct op *o, int last, int to, size_t k)
{
	int64_t s = 0;
	int r;

	for (r = 0; r <= last; r++)
		s += value(o, r, to, k);
	return s;
}

/* The element of recv at a place; false: nothing is written there. */
static bool expected(const struct program *p, const struct op *o, size_t at, int64_t *want)
{
	int n = p->job->n, me = rank_of(p, o), from = 0;
	size_t k = o->count ? at % o->count : 0;

	switch (o->kind) {
	case ALLREDUCE:
	case REDUCE:
		*want = sum(o, n - 1, 0, at);
		return o->kind == ALLREDUCE || at_root(p, o);
	case REDUCE_SCATTER_BLOCK:
		*want = sum(o, n - 1, me, at);
		return true;
	case SCAN:
		*want = sum(o, me, 0, at);
		return true;
	case BCAST:
		*want = value(o, o->root, 0, at);
		return true;
	case SCATTER:
		*want = value(o, o->root, me, at);
		return true;
	case ALLTOALLV:
		while (from + 1 < n && at >= o->counts[3 * n + from + 1])
			from++;
		*want = value(o, from, me, at - o->counts[3 * n + from]);
		return true;
	default:
		from = (int)(at / o->count);
		*want = value(o, from, o->kind == ALLTOALL ? me : 0, k);
		return o->kind != GATHER || at_root(p, o);
	}
}

static int check(const struct program *p, const struct op *o)
{
	int64_t want, none;
	size_t at;

	memset(&none, 0x5a, sizeof(none));
	for (at = 0; at <= o->len; at++) {
		if (at == o->len || !expected(p, o, at, &want))
			want = none;
		if (o->recv[at] == want)
			continue;
		fprintf(stderr,
			"rank %d: kind %d id %llu start %d count %zu root %d: element %zu is "
			"%lld, not %lld\n",
			p->job->rank, (int)o->kind, (unsigned long long)o->id, o->starts, o->count,
			o->root, at, (long long)o->recv[at], (long long)want);
		return 1;
	}
	return 0;
}

/* ---- operations ---- */

static size_t count_of(uint64_t *state)
{
	static const int most[] = {4, 40, 500, 3000, 12000};

	return 1 + (size_t)below(state, most[below(state, 5)]);
}

/* The same on all ranks. */
static void draw_op(struct program *p, struct op *o)
{
	*o = (struct op){.used = true, .last = -2, .id = ++p->ids};
	o->kind = (enum kind)below(&p->shared, KINDS);
	o->comm = p->comm[below(&p->shared, 2)];
	o->root = below(&p->shared, p->job->n);
	o->count = o->kind == BARRIER ? 0 : count_of(&p->shared);
}

static int prepare(struct program *p, struct op *o)
{
	size_t n = (size_t)p->job->n, *s, at[2] = {0};
	int me = rank_of(p, o), r;
	bool blocks = o->kind == ALLGATHER || o->kind == GATHER || o->kind == ALLTOALL;

	o->counts = calloc(4 * n, sizeof(size_t));
	TT_EXPECT(o->counts);
	s = o->counts;
	for (r = 0; r < p->job->n; r++) {
		s[r] = block_v(o, me, r);
		s[2 * n + (size_t)r] = block_v(o, r, me);
		s[n + (size_t)r] = at[0];
		s[3 * n + (size_t)r] = at[1];
		at[0] += s[r];
		at[1] += s[2 * n + (size_t)r];
	}
	o->len = o->kind == ALLTOALLV ? at[1] : blocks ? n * o->count : o->count;
	o->send = calloc(n * o->count + 1, sizeof(int64_t));
	o->recv = calloc(o->len + 1, sizeof(int64_t));
	TT_EXPECT(o->send && o->recv);
	return 0;
}

#define I64 TUTTI_INT64

static int init(struct program *p, struct op *o)
{
	struct mp_job *job = p->job;
	size_t n = (size_t)job->n, c = o->count, *v;
	struct tutti_request **q = &o->req;
	struct tutti_comm *w = o->comm;
	int64_t *s, *r;

	TT_EXPECT(!prepare(p, o));
	s = o->send;
	r = o->recv;
	v = o->counts;
	switch (o->kind) {
	case ALLREDUCE:
		MP_OK(tutti_allreduce_init(s, r, c, I64, TUTTI_SUM, w, q));
		break;
	case REDUCE:
		MP_OK(tutti_reduce_init(s, r, c, I64, TUTTI_SUM, o->root, w, q));
		break;
	case BCAST:
		MP_OK(tutti_bcast_init(r, c, I64, o->root, w, q));
		break;
	case ALLGATHER:
		MP_OK(tutti_allgather_init(s, r, c, I64, w, q));
		break;
	case GATHER:
		MP_OK(tutti_gather_init(s, r, c, I64, o->root, w, q));
		break;
	case SCATTER:
		MP_OK(tutti_scatter_init(s, r, c, I64, o->root, w, q));
		break;
	case ALLTOALL:
		MP_OK(tutti_alltoall_init(s, r, c, I64, w, q));
		break;
	case ALLTOALLV:
		MP_OK(tutti_alltoallv_init(s, v, v + n, r, v + 2 * n, v + 3 * n, I64, w, q));
		break;
	case REDUCE_SCATTER_BLOCK:
		MP_OK(tutti_reduce_scatter_block_init(s, r, c, I64, TUTTI_SUM, w, q));
		break;
	case SCAN:
		MP_OK(tutti_scan_init(s, r, c, I64, TUTTI_SUM, w, q));
		break;
	default:
		MP_OK(tutti_barrier_init(w, q));
	}
	return 0;
}

static int release(struct program *p, struct op *o)
{
	struct mp_job *job = p->job;

	MP_OK(tutti_request_free(o->req));
	if (o->running) {
		p->left[p->nleft++] = o->send;
		p->left[p->nleft++] = o->recv;
	} else {
		free(o->send);
		free(o->recv);
	}
	free(o->counts);
	*o = (struct op){0};
	return 0;
}

/* ---- a round ---- */

/* Ordinary collectives, in one order on all ranks. */
struct ordinary {
	struct tutti_request *req;
	bool blocking;
	struct tutti_comm *comm;
	int64_t *v;
	size_t count;
};

static int call_ordinary(struct program *p, struct ordinary *o)
{
	struct mp_job *job = p->job;
	size_t k;

	o->v = calloc(o->count, sizeof(int64_t));
	TT_EXPECT(o->v);
	for (k = 0; k < o->count; k++)
		o->v[k] = (int64_t)k * (job->rank + 1);
	if (o->blocking)
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, o->v, o->count, I64, TUTTI_SUM, o->comm));
	else
		MP_OK(tutti_iallreduce(TUTTI_IN_PLACE, o->v, o->count, I64, TUTTI_SUM, o->comm,
				       &o->req));
	return 0;
}

static int end_ordinary(struct program *p, struct ordinary *o)
{
	struct mp_job *job = p->job;
	size_t k;

	MP_OK(tutti_wait(&o->req));
	for (k = 0; k < o->count; k++)
		TT_EXPECT(o->v[k] == (int64_t)k * (job->n * (job->n + 1) / 2));
	free(o->v);
	return 0;
}

/* Starts some of these: alone, together, or in a group. */
static int start(struct program *p, struct op **o, int n)
{
	struct tutti_request *req[LIVE];
	struct mp_job *job = p->job;
	int i, how = below(&p->own, 3);

	if (!n)
		return 0;
	for (i = 0; i < n; i++) {
		o[i]->starts++;
		o[i]->started = o[i]->running = true;
		p->starts++;
		fill(p, o[i]);
		req[i] = o[i]->req;
	}
	if (how == 1) {
		MP_OK(tutti_startall(n, req));
		return 0;
	}
	if (how == 2)
		MP_OK(tutti_group_start());
	for (i = 0; i < n; i++)
		MP_OK(tutti_start(req[i]));
	if (how == 2)
		MP_OK(tutti_group_end());
	return 0;
}

static void shuffle(struct program *p, struct op **o, int n)
{
	int i, k;

	for (i = n - 1; i > 0; i--) {
		struct op *tmp = o[i];

		k = below(&p->own, i + 1);
		o[i] = o[k];
		o[k] = tmp;
	}
}

static int finish(struct program *p, struct op **o, int n)
{
	struct tutti_request *req[LIVE];
	struct mp_job *job = p->job;
	int i, done, how = below(&p->own, 3);

	for (i = 0; i < n; i++)
		req[i] = o[i]->req;
	if (how == 0)
		MP_OK(tutti_waitall(n, req));
	for (i = 0; how == 1 && i < n; i++)
		for (done = 0; !done;)
			MP_OK(tutti_test(&req[i], &done));
	for (i = 0; how == 2 && i < n; i++)
		MP_OK(tutti_wait(&req[i]));
	for (i = 0; i < n; i++) {
		o[i]->running = false;
		TT_EXPECT(!check(p, o[i]));
	}
	return 0;
}

/* The calls of a round. */
struct lists {
	struct op *make[LIVE], *go[LIVE];
	struct ordinary ord[ORDINARY];
	int nmake, ngo, nord;
};

/* _init calls and ordinary calls in their order, starts in this rank's. */
static int steps(struct program *p, struct lists *l)
{
	struct op *ready[LIVE];
	int i, n, made = 0, called = 0;

	while (made < l->nmake || called < l->nord || l->ngo) {
		switch (below(&p->own, 3)) {
		case 0:
			if (made < l->nmake)
				TT_EXPECT(!init(p, l->make[made++]));
			break;
		case 1:
			if (called < l->nord)
				TT_EXPECT(!call_ordinary(p, &l->ord[called++]));
			break;
		default:
			for (i = n = 0; i < l->ngo && n < 3; i++)
				if (l->go[i]->req && below(&p->own, 2))
					ready[n++] = l->go[i];
			TT_EXPECT(!start(p, ready, n));
			for (i = n = 0; i < l->ngo; i++)
				if (!l->go[i]->started)
					l->go[n++] = l->go[i];
			l->ngo = n;
		}
	}
	return 0;
}

/* Waits for all that must end in this round, and some more. */
static int waits(struct program *p)
{
	struct op *o, *must[LIVE];
	int n = 0;

	for (o = p->op; o < p->op + LIVE; o++) {
		if (o->running && (o->last < p->round || !o->lingers || below(&p->own, 2)))
			must[n++] = o;
	}
	shuffle(p, must, n);
	return finish(p, must, n);
}

/* Frees some of the operations that all ranks have given up, perhaps while they run. */
static int frees(struct program *p, bool all)
{
	struct op *old[OLD];
	int i, n = p->nold, kept = 0;

	for (i = 0; i < n; i++) {
		struct op *o = &p->old[i];

		if (!all && n < OLD - LIVE && below(&p->own, 2)) {
			p->old[kept++] = *o;
			continue;
		}
		old[0] = o;
		if (o->running && p->nleft > 2 * (LEFT - 1))
			TT_EXPECT(!finish(p, old, 1));
		TT_EXPECT(!release(p, o));
	}
	p->nold = kept;
	return 0;
}

static bool waited_by_all(const struct program *p, const struct op *o)
{
	return o->last < p->round - 1 || (o->last < p->round && !o->lingers);
}

/* Draws the calls of a round, the same on all ranks. */
static void draw_round(struct program *p, struct lists *l)
{
	struct op *o;
	int i;

	for (o = p->op; o < p->op + LIVE; o++) {
		o->started = false;
		if (o->used && !below(&p->shared, 8)) {
			p->old[p->nold++] = *o;
			*o = (struct op){0};
		} else if (!o->used && !below(&p->shared, 3)) {
			draw_op(p, o);
			l->make[l->nmake++] = o;
		}
		if (!o->used || !waited_by_all(p, o) || !below(&p->shared, 3))
			continue;
		o->last = p->round;
		o->lingers = !below(&p->shared, 4);
		l->go[l->ngo++] = o;
	}
	l->nord = below(&p->shared, ORDINARY + 1);
	for (i = 0; i < l->nord; i++) {
		l->ord[i].blocking = below(&p->shared, 2);
		l->ord[i].comm = p->comm[below(&p->shared, 2)];
		l->ord[i].count = count_of(&p->shared);
	}
}

static int one_round(struct program *p)
{
	struct lists l = {0};
	int i;

	p->round++;
	draw_round(p, &l);
	shuffle(p, l.go, l.ngo);
	TT_EXPECT(!steps(p, &l));
	if (below(&p->own, 2))
		TT_EXPECT(!waits(p));
	for (i = 0; i < l.nord; i++)
		TT_EXPECT(!end_ordinary(p, &l.ord[i]));
	TT_EXPECT(!waits(p));
	return frees(p, false);
}

static int end(struct program *p)
{
	struct op *o, *running[LIVE];
	struct mp_job *job = p->job;
	bool free_later = false;
	int n = 0;

	for (o = p->op; o < p->op + LIVE; o++)
		if (o->running)
			running[n++] = o;
	TT_EXPECT(!finish(p, running, n));
	if (below(&p->own, 2)) /* it lives until its last request is freed */
		MP_OK(tutti_comm_free(p->comm[1]));
	else
		free_later = true;
	for (o = p->op; o < p->op + LIVE; o++)
		if (o->used)
			TT_EXPECT(!release(p, o));
	TT_EXPECT(!frees(p, true));
	if (free_later)
		MP_OK(tutti_comm_free(p->comm[1]));
	return 0;
}

static int times(void)
{
	const char *text = getenv("TT_TIMES");

	return text ? atoi(text) : 1;
}

static int program(struct mp_job *job)
{
	const char *seed = getenv("TUTTI_TEST_SEED");
	uint64_t first = seed ? (uint64_t)atoi(seed) : *(uint64_t *)job->arg;
	struct program p = {.job = job,
			    .shared = first,
			    .own = first * 64 + (uint64_t)job->rank + 1,
			    .comm[0] = job->world};
	int i, n = ROUNDS * times();

	MP_OK(tutti_comm_split(job->world, 0, -job->rank, &p.comm[1]));
	for (i = 0; i < n; i++)
		if (one_round(&p)) {
			fprintf(stderr, "TUTTI_TEST_SEED=%llu, round %d\n",
				(unsigned long long)first, i);
			return 1;
		}
	TT_EXPECT(!end(&p));
	TT_EXPECT(p.starts > 5 * n);
	MP_OK(mp_leave(job));
	for (i = 0; i < p.nleft; i++)
		free(p.left[i]);
	return 0;
}

static void jobs(const char *env)
{
	uint64_t seed;
	int n;

	for (n = 1; n <= 4; n++) {
		seed = 100 + (uint64_t)n;
		TT_CHECK(!MP_RUN(.n = n, .env = env, .fn = program, .arg = &seed,
				 .timeout_ms = 60000 + 20000 * times()));
	}
}

static void node(void)
{
	jobs("");
}

static void shm(void)
{
	jobs("TUTTI_TRANSPORT=shm TUTTI_NODE=off");
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	jobs("TUTTI_TRANSPORT=ofi TUTTI_IF=lo");
}

/* Hosts of two ranks. */
static void hosts(void)
{
	jobs("TUTTI_HOST_ID=h%h");
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"node", node}, {"shm", shm}, {"ofi", ofi}, {"hosts", hosts}, {NULL, NULL},
	};

	return tt_test_main("persistent_random", tests, argc, argv);
}
