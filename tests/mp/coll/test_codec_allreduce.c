/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduces whose vectors travel encoded: the bits of a serial oracle on any number of ranks,
 * lanes and chunks, with and without feedback, by every way that lists go.
 */
#include "config.h"

#include "tests/mp/coll/codec_calls.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/hash.h"
#include "lib/codec/codec.h"
#include "lib/comm/comm.h"
#include "lib/engine/engine.h"
#include "lib/plan/choose.h"

#define MAX_COUNT 5000

static const char *const codecs[] = {
	"fp16",	   "bf16",	  "fp8:e4m3",		"int8:block=64",
	"int8",	   "onebit",	  "qsgd:levels=7",	"randomk:5%",
	"topk:3%", "threshold:5", "dgc:5%,momentum=0.5"};
#define CODECS (sizeof(codecs) / sizeof(codecs[0]))

/* ---- the oracle ---- */

/* All ranks' inputs and feedback states; NULL: none. */
struct world {
	int n;
	size_t count;
	float *in[MAX_N], *left[MAX_N], *out;
};

static int world_new(struct world *w, int n, size_t count, bool feedback)
{
	int r;

	*w = (struct world){.n = n, .count = count, .out = calloc(count + 1, 4)};
	TT_EXPECT(w->out != NULL);
	for (r = 0; r < n; r++) {
		w->in[r] = calloc(count + 1, 4);
		w->left[r] = feedback ? calloc(TT_CODEC_STATES * count + 1, 4) : NULL;
		TT_EXPECT(w->in[r] && (w->left[r] || !feedback));
	}
	return 0;
}

static void world_free(struct world *w)
{
	int r;

	for (r = 0; r < w->n; r++) {
		free(w->in[r]);
		free(w->left[r]);
	}
	free(w->out);
}

/* The rank that encodes, and where; the number of the call. */
struct place {
	int rank;
	size_t first, count;
	uint64_t call;
	size_t len; /* of the encoding */
};

/* v becomes what its encoding, with this state, decodes to. */
static int through(const struct tutti_codec *codec, float *v, float *left, struct place *p)
{
	static unsigned char coded[8 * MAX_COUNT + 64];
	bool same = !strncmp(tutti_codec_name(codec), "randomk", 7);
	uint64_t call = same ? p->call : tt_hash_add(p->call, (uint64_t)p->rank);
	/* a second vector only if the first is encoded as a whole */
	float *state[TT_CODEC_STATES] = {left ? left + p->first : NULL,
					 left ? left + p->first + p->count : NULL};
	size_t len, most = tutti_codec_bound(codec, p->count);

	TT_EXPECT(most <= sizeof(coded));
	TT_EXPECT(!tt_codec_encode(codec, v, left ? state : NULL, p->first, p->count, call, coded,
				   &len));
	TT_EXPECT(tt_codec_fixed(codec) ? len == most : len <= most);
	TT_EXPECT(!tt_codec_decode(codec, coded, len, p->first, p->count, v));
	p->len = len;
	return 0;
}

/* The block of a rank: whole units of the codec. */
static int combine_block(struct world *w, const struct tutti_codec *codec, int owner, bool avg,
			 uint64_t call)
{
	size_t unit = tt_codec_align(codec), units = (w->count + unit - 1) / unit, i, n;
	size_t from = tt_part_begin(units, w->n, owner) * unit;
	size_t to = tt_part_begin(units, w->n, owner + 1) * unit;
	static float sum[MAX_COUNT], part[MAX_COUNT];
	struct place p = {.first = from, .call = call};

	to = to < w->count ? to : w->count;
	p.count = n = from < to ? to - from : 0;
	for (; n && p.rank < w->n; p.rank++) {
		memcpy(part, w->in[p.rank] + from, n * 4);
		if (p.rank != owner)
			TT_EXPECT(!through(codec, part, w->left[p.rank], &p));
		for (i = 0; i < n; i++)
			sum[i] = p.rank ? sum[i] + part[i] : part[i];
	}
	p.rank = owner;
	if (n)
		TT_EXPECT(!through(codec, sum, w->left[owner], &p));
	for (i = 0; i < n; i++)
		w->out[from + i] = avg ? sum[i] / (float)w->n : sum[i];
	return 0;
}

/* Sums of two, then of four ranks...: as recursive doubling, with a fold, combines. */
static void add_doubling(float (*part)[MAX_COUNT], int n, size_t count)
{
	int core = tt_fold_pow2(n), extra = n - core, v, bit;
	size_t i;

	for (v = 0; v < core; v++) {
		int first = v < extra ? 2 * v : v + extra;

		for (i = 0; i < count; i++)
			part[v][i] =
				v < extra ? part[first][i] + part[first + 1][i] : part[first][i];
	}
	for (bit = 1; bit < core; bit *= 2)
		for (v = 0; v < core; v += 2 * bit)
			for (i = 0; i < count; i++)
				part[v][i] += part[v + bit][i];
}

/* The algorithm that the communicator chooses for such a call, and what that knows of it. */
struct chosen {
	const char *name;
	struct tt_plan_codec codec;
	struct tt_plan_args args;
};

static struct chosen choose(struct tutti_comm *comm, struct tutti_codec *codec, size_t count)
{
	struct chosen c = {.codec = TT_PLAN_CODEC(codec)};

	c.args = (struct tt_plan_args){.coll = TT_COLL_ALLREDUCE,
				       .rank = comm->rank,
				       .nranks = comm->size,
				       .count = count,
				       .elem = 4,
				       .codec = &c.codec};
	tt_comm_place(comm, &c.args);
	c.name = tt_choose(comm->chooser, &c.args)->name;
	return c;
}

/* The block of a host in a place's part: two ranks on each host, on the last one perhaps one. */
static int combine_hosts(struct world *w, const struct tutti_codec *codec, struct tt_span part,
			 int place, int owner, bool avg, uint64_t call)
{
	size_t unit = tt_codec_align(codec), units = (part.len + unit - 1) / unit, i, n;
	int hosts = (w->n + 1) / 2, h, r;
	size_t from = tt_part_begin(units, hosts, owner) * unit;
	size_t to = tt_part_begin(units, hosts, owner + 1) * unit;
	static float sum[MAX_COUNT], all[MAX_COUNT];
	struct place p = {.call = call};

	to = to < part.len ? to : part.len;
	p.first = part.off + from;
	p.count = n = from < to ? to - from : 0;
	for (h = 0; n && h < hosts; h++) {
		for (r = 2 * h; r < 2 * h + 2 && r < w->n; r++)
			for (i = 0; i < n; i++)
				sum[i] = r % 2 ? sum[i] + w->in[r][p.first + i]
					       : w->in[r][p.first + i];
		p.rank = 2 * h + place < w->n ? 2 * h + place : 2 * h;
		if (h != owner)
			TT_EXPECT(!through(codec, sum, w->left[p.rank], &p));
		for (i = 0; i < n; i++)
			all[i] = h ? all[i] + sum[i] : sum[i];
	}
	p.rank = 2 * owner + place < w->n ? 2 * owner + place : 2 * owner;
	if (n)
		TT_EXPECT(!through(codec, all, w->left[p.rank], &p));
	for (i = 0; i < n; i++)
		w->out[p.first + i] = avg ? all[i] / (float)w->n : all[i];
	return 0;
}

static int add_hosts(struct world *w, struct tutti_codec *codec, bool avg, uint64_t call)
{
	struct tt_plan_codec planned = TT_PLAN_CODEC(codec);
	struct tt_plan_args a = {.count = w->count, .elem = 4, .codec = &planned};
	int place, owner;

	for (place = 0; place < 2; place++)
		for (owner = 0; owner < (w->n + 1) / 2; owner++) {
			struct tt_span s = tt_codec_part(&a, 2, place);

			s.off /= 4;
			s.len /= 4;
			TT_EXPECT(!combine_hosts(w, codec, s, place, owner, avg, call));
		}
	return 0;
}

/* Lists are gathered, and added up in rank order. */
static bool gathered(const struct chosen *c, uint64_t bytes)
{
	if (!strcmp(c->name, "codec_lists"))
		return tt_list_branch(&c->args, bytes) == TT_BRANCH_GATHER;
	return !strcmp(c->name, "codec_gather");
}

/* Encodings whose length varies: of whole vectors. */
static int add_lists(struct world *w, const struct tutti_codec *codec, bool avg, uint64_t call,
		     const struct chosen *c)
{
	struct place p = {.count = w->count, .call = call};
	static float part[MAX_N][MAX_COUNT];
	uint64_t bytes = 0;
	size_t i;
	int r;

	for (; w->count && p.rank < w->n; p.rank++) {
		memcpy(part[p.rank], w->in[p.rank], w->count * 4);
		TT_EXPECT(!through(codec, part[p.rank], w->left[p.rank], &p));
		bytes += p.len;
	}
	if (!gathered(c, bytes))
		add_doubling(part, w->n, w->count);
	for (r = 1; r < w->n && gathered(c, bytes); r++)
		for (i = 0; i < w->count; i++)
			part[0][i] += part[r][i];
	for (i = 0; i < w->count; i++)
		w->out[i] = avg ? part[0][i] / (float)w->n : part[0][i];
	return 0;
}

static int oracle(struct world *w, struct tutti_codec *codec, bool avg, uint64_t call,
		  const struct chosen *c)
{
	int r;

	if (!strcmp(c->name, "hier_codec"))
		return add_hosts(w, codec, avg, call);
	if (!tt_codec_fixed(codec))
		return add_lists(w, codec, avg, call, c);
	for (r = 0; r < w->n; r++)
		TT_EXPECT(!combine_block(w, codec, r, avg, call));
	return 0;
}

/* ---- bits ---- */

/* Steps of one vector: results and residuals have the oracle's bits. */
static int steps(struct mp_job *job, struct tutti_codec *codec, size_t count, bool feedback)
{
	struct tutti_feedback *fb = NULL;
	static float out[MAX_COUNT], left[TT_CODEC_STATES * MAX_COUNT];
	size_t states = count * (size_t)tutti_codec_states(codec);
	struct chosen chosen = choose(job->world, codec, count);
	struct tutti_call call;
	struct world w;
	int t, r;

	if (job->arg && count && tt_codec_sparse(codec) == !strcmp(job->arg, "codec_merge"))
		TT_EXPECT(!strcmp(chosen.name, job->arg));
	TT_EXPECT(!world_new(&w, job->n, count, feedback));
	if (feedback)
		MP_OK(tutti_feedback_create(job->world, codec, count, &fb));
	for (t = 0; t < 4; t++) {
		for (r = 0; r < job->n; r++)
			fill(w.in[r], (unsigned)t, r, count);
		memcpy(out, w.in[job->rank], count * 4);
		call = call_of(t % 2 ? TUTTI_IN_PLACE : w.in[job->rank], out, count, codec, fb);
		call.op = t % 3 ? TUTTI_SUM : TUTTI_AVG;
		MP_OK(tutti_call(job->world, &call, NULL));
		TT_EXPECT(!oracle(&w, codec, call.op == TUTTI_AVG, job->world->seq, &chosen));
		TT_EXPECT(!memcmp(out, w.out, count * 4));
		if (!feedback)
			continue;
		MP_OK(tutti_feedback_save(fb, left, states));
		TT_EXPECT(!memcmp(left, w.left[job->rank], states * 4));
	}
	MP_OK(tutti_feedback_free(fb));
	world_free(&w);
	return 0;
}

static int bits_of(struct mp_job *job, const size_t *counts, size_t n)
{
	struct tutti_codec *codec;
	bool needs;
	size_t c, i;

	for (c = 0; c < CODECS; c++) {
		needs = !strncmp(codecs[c], "randomk", 7);
		MP_OK(tutti_codec_create(codecs[c], &codec));
		for (i = 0; i < n; i++) {
			TT_EXPECT(!steps(job, codec, counts[i], i % 2 || needs));
			TT_EXPECT(!steps(job, codec, counts[i], !(i % 2) || needs));
		}
		MP_OK(tutti_codec_free(codec));
	}
	return 0;
}

static int bits_body(struct mp_job *job)
{
	static const size_t counts[] = {0, 1, 2, 63, 64, 65, 300, 1025, MAX_COUNT};

	return bits_of(job, counts, sizeof(counts) / sizeof(counts[0]));
}

/* Where the processor is slow. */
static int few_bits_body(struct mp_job *job)
{
	static const size_t counts[] = {65, MAX_COUNT};

	return bits_of(job, counts, sizeof(counts) / sizeof(counts[0]));
}

static void bits_shm(void)
{
	int n;

	for (n = 1; n <= MAX_N; n += n < 5 ? 1 : 3)
		TT_CHECK(!MP_RUN(.n = n, .env = SHM, .fn = bits_body));
}

/* Neither the plan's cut nor the kind of network changes a bit. */
static void bits_cuts(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_CHUNK=4K TUTTI_LANES=1", .fn = bits_body));
	TT_CHECK(!MP_RUN(.n = 4, .env = SHM "TUTTI_CHUNK=4K TUTTI_LANES=3", .fn = bits_body));
	TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_HOST_ID=h%h", .fn = bits_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_CHECKSUM=1 TUTTI_THREAD=on", .fn = bits_body));
}

static char merged[] = "codec_merge";

static void bits_merge(void)
{
	int n;

	for (n = 2; n <= MAX_N; n += n < 6 ? 1 : 2)
		TT_CHECK(!MP_RUN(.n = n, .env = SHM MERGE, .fn = bits_body, .arg = merged));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM MERGE "TUTTI_CHUNK=4K TUTTI_LANES=3 TUTTI_CHECKSUM=1",
			 .fn = bits_body, .arg = merged));
	TT_CHECK(!MP_RUN(.n = 3, .env = FAULT " " MERGE, .fn = bits_body, .arg = merged));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 4, .env = OFI MERGE, .fn = bits_body, .arg = merged));
}

static char levels[] = "hier_codec";

/* Two ranks on each host. */
static void bits_hier(void)
{
	int n;

	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	for (n = 3; n <= 6; n++)
		TT_CHECK(!MP_RUN(.n = n, .env = HIER, .fn = bits_body, .arg = levels));
	TT_CHECK(!MP_RUN(.n = 4, .env = HIER "TUTTI_LANES=4 TUTTI_THREAD=on TUTTI_CHECKSUM=1",
			 .fn = bits_body, .arg = levels));
}

/* Residuals that a rank has left outside of its part come with the next call, all of them. */
static int spread_body(struct mp_job *job)
{
	static float in[MAX_COUNT], out[MAX_COUNT], left[MAX_COUNT];
	float expect = (float)(job->n * (job->n + 1) / 2);
	struct tutti_request *req = NULL;
	struct tutti_codec *codec;
	struct tutti_feedback *fb;
	struct tutti_call call;
	int t, i;

	MP_OK(tutti_codec_create("fp16", &codec));
	MP_OK(tutti_feedback_create(job->world, codec, MAX_COUNT, &fb));
	call = call_of(in, out, MAX_COUNT, codec, fb);
	call.flags = TUTTI_CALL_PERSISTENT;
	MP_OK(tutti_call(job->world, &call, &req));
	call.flags = 0;
	for (t = 0; t < 6; t++) {
		for (i = 0; i < MAX_COUNT; i++) {
			left[i] = (float)(job->rank + 1);
			in[i] = out[i] = (float)t;
		}
		MP_OK(tutti_feedback_restore(fb, left, MAX_COUNT));
		call.sendbuf = t % 2 ? TUTTI_IN_PLACE : in;
		if (t % 3) {
			MP_OK(tutti_call(job->world, &call, NULL));
		} else {
			MP_OK(tutti_start(req));
			MP_OK(tutti_wait(&req));
		}
		for (i = 0; i < MAX_COUNT; i++)
			TT_EXPECT(out[i] == expect + (float)(t * job->n) && in[i] == (float)t);
		MP_OK(tutti_feedback_save(fb, left, MAX_COUNT));
		for (i = 0; i < MAX_COUNT; i++)
			TT_EXPECT(left[i] == 0);
	}
	MP_OK(tutti_request_free(req));
	MP_OK(tutti_feedback_free(fb));
	return tutti_codec_free(codec);
}

static void spread(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 4, .env = HIER, .fn = spread_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = HIER, .fn = spread_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = spread_body));
}

#define DENSE "TUTTI_ALGO=allreduce:codec_dense:0-inf "
#define WHOLE 40000

/* The ranks' bytes are equal. */
static int alike(struct mp_job *job, const float *v, size_t count)
{
	uint64_t all[2] = {1, 0}, low, high;
	size_t i;

	for (i = 0; i < count; i++)
		all[0] = tt_hash_add(all[0], (uint64_t)((const uint32_t *)(const void *)v)[i]);
	MP_OK(tutti_allreduce(all, &low, 1, TUTTI_UINT64, TUTTI_MIN, job->world));
	MP_OK(tutti_allreduce(all, &high, 1, TUTTI_UINT64, TUTTI_MAX, job->world));
	TT_EXPECT(low == high);
	return 0;
}

/* One in `of` elements reaches the threshold: a whole number, so that any order sums exactly. */
static void fill_share(float *v, unsigned seed, int rank, size_t of)
{
	size_t i;

	for (i = 0; i < WHOLE; i++)
		v[i] = (i + seed + (size_t)rank) % of ? 0.25f : (float)(1 + (i + seed) % 100);
}

/* The call's way follows the density, on all ranks, and what it sends follows the way. */
static int density_body(struct mp_job *job)
{
	static const size_t of[] = {2000, 1, 50, 3, 1, 10, 2000};
	static float v[WHOLE], g[WHOLE], sum[WHOLE];
	static unsigned char coded[8 * WHOLE + 64];
	struct tutti_stats a = {.size = sizeof(a)}, b = {.size = sizeof(b)};
	uint64_t others = (uint64_t)job->n - 1, all = 0, expect;
	struct tt_plan_codec planned;
	struct tt_plan_args args;
	struct tutti_codec *codec;
	struct tutti_call call;
	int ways[TT_BRANCHES] = {0}, r, i, k;
	size_t t, e, len = 0, own = 0;
	enum tt_branch way;

	MP_OK(tutti_codec_create("threshold:1", &codec));
	planned = TT_PLAN_CODEC(codec);
	args = (struct tt_plan_args){.coll = TT_COLL_ALLREDUCE,
				     .rank = job->rank,
				     .nranks = job->n,
				     .count = WHOLE,
				     .elem = 4,
				     .codec = &planned};
	tt_comm_place(job->world, &args);
	TT_EXPECT(!strcmp(tt_choose(job->world->chooser, &args)->name, "codec_lists"));
	call = call_of(TUTTI_IN_PLACE, v, WHOLE, codec, NULL);
	for (t = 0; t < 2 * sizeof(of) / sizeof(of[0]); t++) {
		size_t part = of[t % (sizeof(of) / sizeof(of[0]))];

		memset(sum, 0, sizeof(sum));
		for (all = 0, r = 0; r < job->n; r++) {
			fill_share(g, (unsigned)t, r, part);
			MP_OK(tutti_codec_encode(codec, g, WHOLE, TUTTI_FLOAT32, NULL, 0, coded,
						 &len));
			for (e = 0; e < WHOLE; e++)
				sum[e] += g[e] >= 1 ? g[e] : 0;
			all += len;
			own = r == job->rank ? len : own;
		}
		way = tt_list_branch(&args, all);
		ways[way]++;
		fill_share(v, (unsigned)t, job->rank, part);
		mp_meet(job);
		mp_sleep_ms(20);
		MP_OK(tutti_stats_get(job->ctx, &a));
		MP_OK(tutti_call(job->world, &call, NULL));
		TT_EXPECT(!memcmp(v, sum, sizeof(v)));
		expect = others * 8 + others * own;
		if (way == TT_BRANCH_DENSE)
			expect = others * 8 + 2 * others * WHOLE * 4 / (uint64_t)job->n;
		for (k = 0; k < 2000 && way != TT_BRANCH_MERGE && t; k++) { /* the first connects */
			MP_OK(tutti_stats_get(job->ctx, &b));
			if (b.put_bytes - a.put_bytes >= expect)
				break;
			mp_sleep_ms(1);
		}
		if (way != TT_BRANCH_MERGE && t)
			TT_EXPECT(b.put_bytes - a.put_bytes == expect);
	}
	for (i = 0; i < TT_BRANCHES && !job->rank; i++)
		printf("  %d ranks: way %d taken %d times\n", job->n, i, ways[i]);
	TT_EXPECT(ways[TT_BRANCH_GATHER] && ways[TT_BRANCH_MERGE] + ways[TT_BRANCH_DENSE]);
	return tutti_codec_free(codec);
}

/* Many nonblocking calls of changing density at once, which the ranks finish at other times. */
static int overlap_body(struct mp_job *job)
{
	enum { CALLS = 12 };
	float *v[CALLS];
	struct tutti_request *req[CALLS];
	struct tutti_codec *codec;
	struct tutti_call call;
	size_t i;
	int k;

	MP_OK(tutti_codec_create("threshold:1", &codec));
	for (k = 0; k < CALLS; k++) {
		v[k] = calloc(WHOLE, 4);
		TT_EXPECT(v[k] != NULL);
		fill(v[k], (unsigned)k, job->rank, WHOLE);
		for (i = 0; i < WHOLE; i++)
			v[k][i] *= k % 3 ? 1e-4f * (float)(k * k * k) : 100;
	}
	for (k = 0; k < CALLS; k++) {
		call = call_of(TUTTI_IN_PLACE, v[k], WHOLE, codec, NULL);
		MP_OK(tutti_call(job->world, &call, &req[k]));
		if (job->rank == 1 && k % 4 == 3)
			MP_OK(tutti_wait(&req[k]));
	}
	for (k = CALLS - 1; k >= 0; k--)
		if (job->rank != 1 || k % 4 != 3)
			MP_OK(tutti_wait(&req[k]));
	for (k = 0; k < CALLS; k++) {
		TT_EXPECT(!alike(job, v[k], WHOLE));
		free(v[k]);
	}
	return tutti_codec_free(codec);
}

static void density(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = density_body));
	TT_CHECK(!MP_RUN(.n = 4, .env = SHM, .fn = density_body));
	TT_CHECK(!MP_RUN(.n = 4, .env = FAULT, .fn = overlap_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_LANES=4", .fn = overlap_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM DENSE, .fn = overlap_body));
	TT_CHECK(!MP_RUN(.n = 6, .env = SHM DENSE, .fn = overlap_body));
}

static void bits_fault(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = FAULT, .fn = bits_body));
}

static void bits_ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 3, .env = OFI, .fn = bits_body));
	TT_CHECK(!MP_RUN(.n = 4, .env = OFI "TUTTI_CHUNK=4K TUTTI_LANES=4", .fn = bits_body));
}

static void verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	TT_CHECK(!MP_RUN(.n = 3, .env = VERBS, .fn = few_bits_body));
	/* between hosts, verbs come first without being told */
	TT_CHECK(!MP_RUN(.n = 4, .env = HIER, .fn = few_bits_body, .arg = levels));
	TT_CHECK(!MP_RUN(.n = 3, .env = VERBS " " MERGE, .fn = few_bits_body, .arg = merged));
	TT_CHECK(
		!MP_RUN(.n = 2, .env = VERBS " TUTTI_CHUNK=4K TUTTI_LANES=4", .fn = few_bits_body));
}

static const struct tt_test tests[] = {{"bits_shm", bits_shm},	   {"bits_cuts", bits_cuts},
				       {"bits_merge", bits_merge}, {"bits_hier", bits_hier},
				       {"spread", spread},	   {"density", density},
				       {"bits_fault", bits_fault}, {"bits_ofi", bits_ofi},
				       {"verbs", verbs},	   {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("codec_allreduce", tests, argc, argv);
}
