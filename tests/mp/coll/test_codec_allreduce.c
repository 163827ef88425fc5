/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduces whose vectors travel encoded: the bits of a serial oracle on any number of ranks,
 * lanes and chunks, with and without feedback; conservation over 1,000 steps; values that are not
 * finite; all forms of the call; refused arguments, codecs that differ, damaged encodings, deaths;
 * bytes and allocations by the counters.
 */
#include "config.h"

#include "tests/mp/job.h"

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

#define SHM "TUTTI_TRANSPORT=shm "
#define OFI "TUTTI_TRANSPORT=ofi TUTTI_IF=lo "
#define VERBS "TUTTI_TRANSPORT=verbs"
#define FAULT                                                                                      \
	"TUTTI_TRANSPORT=fault:shm "                                                               \
	"TUTTI_FAULT=seed=5,delay=0.1:100,reorder=0.3,again=0.2,max_put=70001"
#define MAX_N 8
#define MAX_COUNT 5000

static const char *const codecs[] = {
	"fp16",	   "bf16",	  "fp8:e4m3",		"int8:block=64",
	"int8",	   "onebit",	  "qsgd:levels=7",	"randomk:5%",
	"topk:3%", "threshold:5", "dgc:5%,momentum=0.5"};
#define CODECS (sizeof(codecs) / sizeof(codecs[0]))

static float value(unsigned seed, int rank, size_t i)
{
	uint32_t h = seed * 2654435761u + (uint32_t)rank * 40503u + (uint32_t)i * 2246822519u;

	h ^= h >> 15;
	h *= 2246822519u;
	h ^= h >> 13;
	return ((float)(h % 20001) - 10000) / (h % 7 ? 1000.0f : 30.0f);
}

static void fill(float *v, unsigned seed, int rank, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		v[i] = value(seed, rank, i);
}

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

static struct tutti_call call_of(const void *in, void *out, size_t count, struct tutti_codec *codec,
				 struct tutti_feedback *feedback)
{
	return (struct tutti_call){.size = sizeof(struct tutti_call),
				   .coll = TUTTI_COLL_ALLREDUCE,
				   .sendbuf = in,
				   .recvbuf = out,
				   .count = count,
				   .datatype = TUTTI_FLOAT32,
				   .op = TUTTI_SUM,
				   .codec = codec,
				   .feedback = feedback};
}

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

static int bits_body(struct mp_job *job)
{
	static const size_t counts[] = {0, 1, 2, 63, 64, 65, 300, 1025, MAX_COUNT};
	struct tutti_codec *codec;
	bool needs;
	size_t c, i;

	for (c = 0; c < CODECS; c++) {
		needs = !strncmp(codecs[c], "randomk", 7);
		MP_OK(tutti_codec_create(codecs[c], &codec));
		for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
			TT_EXPECT(!steps(job, codec, counts[i], i % 2 || needs));
			TT_EXPECT(!steps(job, codec, counts[i], !(i % 2) || needs));
		}
		MP_OK(tutti_codec_free(codec));
	}
	return 0;
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

#define MERGE "TUTTI_ALGO=allreduce:codec_merge:0-inf "
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

#define HIER "TUTTI_HOST_ID=h%h TUTTI_ALGO=allreduce:hier_codec:0-inf "
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

/* ---- conservation ---- */

#define KEPT 777
#define STEPS 500 /* of each of two jobs */

/* Both jobs': what every rank has put in and got out, and what is left for the next job. */
struct kept {
	const char *codec;
	bool whole; /* integers, so that all is exact */
	int first;  /* step */
	double in[KEPT], out[KEPT], size[KEPT];
	float left[MAX_N][KEPT];
};

static void keep_input(struct kept *k, float *v, int rank, int t)
{
	size_t i;

	for (i = 0; i < KEPT; i++) {
		v[i] = value((unsigned)t, rank, i);
		v[i] = k->whole ? rintf(v[i] * 20) : v[i];
	}
}

static int conserve_body(struct mp_job *job)
{
	static float v[KEPT], g[KEPT];
	struct kept *k = job->arg;
	struct tutti_codec *codec;
	struct tutti_feedback *fb;
	struct tutti_call call;
	int t, r;
	size_t i;

	MP_OK(tutti_codec_create(k->codec, &codec));
	MP_OK(tutti_feedback_create(job->world, codec, KEPT, &fb));
	MP_OK(tutti_feedback_restore(fb, k->left[job->rank], KEPT));
	MP_OK(tutti_codec_free(codec)); /* the state keeps it */
	MP_OK(tutti_codec_create(k->codec, &codec));
	for (t = k->first; t < k->first + STEPS; t++) {
		keep_input(k, v, job->rank, t);
		call = call_of(TUTTI_IN_PLACE, v, KEPT, codec, fb);
		MP_OK(tutti_call(job->world, &call, NULL));
		for (r = 0; job->rank == 0 && r < job->n; r++) {
			keep_input(k, g, r, t);
			for (i = 0; i < KEPT; i++) {
				k->in[i] += (double)g[i];
				k->size[i] += fabs((double)g[i]);
			}
		}
		for (i = 0; job->rank == 0 && i < KEPT; i++)
			k->out[i] += (double)v[i];
	}
	MP_OK(tutti_feedback_save(fb, k->left[job->rank], KEPT));
	MP_OK(tutti_feedback_free(fb));
	return tutti_codec_free(codec);
}

/* How many elements are not conserved. */
static int lost(const struct kept *k)
{
	double all, worst = 0;
	int r, bad = 0;
	size_t i;

	for (i = 0; i < KEPT; i++) {
		for (all = k->out[i], r = 0; r < MAX_N; r++)
			all += (double)k->left[r][i];
		worst = fmax(worst, fabs(all - k->in[i]) / k->size[i]);
		bad += fabs(all - k->in[i]) > (k->whole ? 0 : 1e-6 * k->size[i]);
	}
	if (bad)
		printf("  %s: %d elements, worst %g\n", k->codec, bad, worst);
	return bad;
}

/*
 * 4 ranks for 500 steps; then 3, of which rank 0 takes over what the fourth has left, and which
 * merge lists; then 4 on two hosts.
 */
static void conserve(const char *name, bool whole)
{
	struct kept *k = mp_shared_mem(sizeof(*k));
	size_t i;

	TT_REQUIRE(k != NULL);
	k->codec = name;
	k->whole = whole;
	TT_CHECK(!MP_RUN(.n = 4, .env = SHM "TUTTI_LANES=1", .fn = conserve_body, .arg = k));
	TT_CHECK(!lost(k));
	for (i = 0; i < KEPT; i++) {
		k->left[0][i] += k->left[3][i];
		k->left[3][i] = 0;
	}
	k->first = STEPS;
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM MERGE "TUTTI_LANES=4 TUTTI_CHUNK=4K",
			 .fn = conserve_body, .arg = k));
	TT_CHECK(!lost(k));
	k->first = 2 * STEPS;
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 4, .env = HIER, .fn = conserve_body, .arg = k));
	TT_CHECK(!lost(k));
	munmap(k, sizeof(*k));
}

static void conservation(void)
{
	conserve("fp16", true);
	conserve("bf16", true);
	conserve("fp16", false);
	conserve("int8", false);
	conserve("int8:block=64", false);
	conserve("onebit", false);
	conserve("qsgd", false);
	conserve("randomk:5%", false);
	conserve("randomk:5%", true);
	conserve("topk:3%", true);
	conserve("topk:3%", false);
	conserve("threshold:40", true);
	conserve("threshold:40", false);
}

/* ---- values that are not finite ---- */

static int not_finite_body(struct mp_job *job)
{
	const float odd[] = {NAN, INFINITY, -INFINITY};
	static float v[512], left[512], before[512];
	struct tutti_codec *codec;
	struct tutti_feedback *fb;
	struct tutti_call call;
	int k, i;

	MP_OK(tutti_codec_create("int8:block=64", &codec));
	MP_OK(tutti_feedback_create(job->world, codec, 512, &fb));
	call = call_of(TUTTI_IN_PLACE, v, 512, codec, fb);
	fill(v, 1, job->rank, 512);
	MP_OK(tutti_call(job->world, &call, NULL));
	for (k = 0; k < 3 * 8; k++) { /* every block has its turn, so every rank's own has */
		MP_OK(tutti_feedback_save(fb, before, 512));
		fill(v, 2 + (unsigned)k, job->rank, 512);
		if (job->rank == 1)
			v[k % 8 * 64 + 10] = odd[k / 8];
		MP_OK(tutti_call(job->world, &call, NULL));
		for (i = 0; i < 512; i++)
			TT_EXPECT(!isnan(v[i]) == (i / 64 != k % 8) && !isinf(v[i]));
		MP_OK(tutti_feedback_save(fb, left, 512));
		for (i = 0; i < 512; i++)
			TT_EXPECT(isfinite(left[i]));
		if (job->rank == 1)
			TT_EXPECT(!memcmp(left + k % 8 * 64, before + k % 8 * 64, 64 * 4));
	}
	MP_OK(tutti_feedback_free(fb));
	return tutti_codec_free(codec);
}

static void not_finite(void)
{
	TT_CHECK(!MP_RUN(.n = 4, .env = SHM, .fn = not_finite_body));
}

/* ---- forms ---- */

#define LONG 100000

static int forms_body(struct mp_job *job)
{
	const char *name = job->arg;
	float *a = calloc(LONG, 4), *b = calloc(LONG, 4), *c = calloc(LONG, 4);
	struct tutti_feedback *fa, *fb, *fc;
	struct tutti_request *req, *persistent;
	struct tutti_call call;
	struct tutti_codec *codec;
	int t;

	TT_EXPECT(a && b && c);
	MP_OK(tutti_codec_create(name, &codec));
	MP_OK(tutti_feedback_create(job->world, codec, LONG, &fa));
	MP_OK(tutti_feedback_create(job->world, codec, LONG, &fb));
	MP_OK(tutti_feedback_create(job->world, codec, LONG, &fc));
	call = call_of(TUTTI_IN_PLACE, c, LONG, codec, fc);
	call.flags = TUTTI_CALL_PERSISTENT;
	MP_OK(tutti_call(job->world, &call, &persistent));
	MP_OK(tutti_feedback_free(fc)); /* the request keeps it */
	for (t = 0; t < 10; t++) {
		fill(a, (unsigned)t, job->rank, LONG);
		memcpy(b, a, LONG * 4);
		memcpy(c, a, LONG * 4);
		call = call_of(TUTTI_IN_PLACE, a, LONG, codec, fa);
		MP_OK(tutti_call(job->world, &call, NULL));
		call = call_of(TUTTI_IN_PLACE, b, LONG, codec, fb);
		MP_OK(tutti_call(job->world, &call, &req));
		MP_OK(tutti_start(persistent));
		MP_OK(tutti_wait(&req));
		MP_OK(tutti_wait(&persistent));
		TT_EXPECT(!memcmp(a, b, LONG * 4) && !memcmp(a, c, LONG * 4));
	}
	MP_OK(tutti_codec_free(codec));
	MP_OK(tutti_request_free(persistent));
	MP_OK(tutti_feedback_free(fa));
	MP_OK(tutti_feedback_free(fb));
	free(a);
	free(b);
	free(c);
	return 0;
}

static void forms(void)
{
	static const char *const names[] = {"int8", "topk:1%", "threshold:300", "dgc:1%"};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = forms_body, .arg = (void *)names[i]));
		TT_CHECK(!MP_RUN(.n = 2, .env = SHM "TUTTI_THREAD=on", .fn = forms_body,
				 .arg = (void *)names[i]));
		TT_CHECK(!MP_RUN(.n = 3, .env = SHM MERGE, .fn = forms_body,
				 .arg = (void *)names[i]));
		if (!mp_no_ofi())
			TT_CHECK(!MP_RUN(.n = 4, .env = HIER, .fn = forms_body,
					 .arg = (void *)names[i]));
	}
}

/* ---- counters ---- */

/* Bytes that rank puts in one call: C of each other block, and its own to each other rank. */
static int counted_body(struct mp_job *job)
{
	const size_t count = 256 * 64 * (size_t)job->n, block = count / (size_t)job->n;
	float *v = calloc(count, 4);
	struct tutti_stats a = {.size = sizeof(a)}, b = {.size = sizeof(b)};
	struct tutti_codec *codec;
	struct tutti_feedback *fb;
	struct tutti_call call;
	uint64_t expect;
	int i;

	TT_EXPECT(v != NULL);
	MP_OK(tutti_codec_create("int8:block=256", &codec));
	MP_OK(tutti_feedback_create(job->world, codec, count, &fb));
	expect = 2 * (uint64_t)(job->n - 1) * tutti_codec_bound(codec, block);
	if (job->arg) /* of half of the vector, between two hosts */
		expect = 2 * tutti_codec_bound(codec, count / 4);
	call = call_of(TUTTI_IN_PLACE, v, count, codec, fb);
	fill(v, 1, job->rank, count);
	for (i = 0; i < 100; i++)
		MP_OK(tutti_call(job->world, &call, NULL));
	MP_OK(tutti_stats_get(job->ctx, &a));
	for (i = 0; i < 200; i++)
		MP_OK(tutti_call(job->world, &call, NULL));
	MP_OK(tutti_stats_get(job->ctx, &b));
	/* pools for reuse may still grow when ranks drift further apart than before */
	TT_EXPECT(b.allocations - a.allocations <= 8 && b.registrations == a.registrations);
	mp_meet(job);
	mp_sleep_ms(100);
	MP_OK(tutti_stats_get(job->ctx, &a));
	MP_OK(tutti_call(job->world, &call, NULL));
	for (i = 0; i < 2000; i++) {
		MP_OK(tutti_stats_get(job->ctx, &b));
		if (b.put_bytes - a.put_bytes >= expect)
			break;
		mp_sleep_ms(1);
	}
	if (b.put_bytes - a.put_bytes != expect)
		fprintf(stderr, "rank %d of %d put %llu bytes, not %llu\n", job->rank, job->n,
			(unsigned long long)(b.put_bytes - a.put_bytes),
			(unsigned long long)expect);
	TT_EXPECT(b.put_bytes - a.put_bytes == expect);
	MP_OK(tutti_feedback_free(fb));
	MP_OK(tutti_codec_free(codec));
	free(v);
	return 0;
}

/* One call puts the list, as long as it is, and its head to each other rank. */
static int counted_list_body(struct mp_job *job)
{
	const size_t count = 1 << 20;
	float *v = calloc(count, 4);
	struct tutti_stats a = {.size = sizeof(a)}, b = {.size = sizeof(b)};
	uint64_t others = (uint64_t)job->n - 1, expect;
	struct tutti_codec *codec;
	struct tutti_call call;
	size_t len;
	char *coded;
	int i;

	MP_OK(tutti_codec_create("topk:1%", &codec));
	coded = malloc(tutti_codec_bound(codec, count));
	TT_EXPECT(v && coded);
	fill(v, 1, job->rank, count);
	MP_OK(tutti_codec_encode(codec, v, count, TUTTI_FLOAT32, NULL, 0, coded, &len));
	TT_EXPECT(len < tutti_codec_bound(codec, count));
	expect = others * (len + 8);
	TT_EXPECT(job->n != 4 || expect <= count * 4 / 24);
	call = call_of(TUTTI_IN_PLACE, v, count, codec, NULL);
	for (i = 0; i < 3; i++) /* the first connects */
		MP_OK(tutti_call(job->world, &call, NULL));
	fill(v, 1, job->rank, count);
	mp_meet(job);
	mp_sleep_ms(100);
	MP_OK(tutti_stats_get(job->ctx, &a));
	MP_OK(tutti_call(job->world, &call, NULL));
	for (i = 0; i < 2000; i++) {
		MP_OK(tutti_stats_get(job->ctx, &b));
		if (b.put_bytes - a.put_bytes >= expect)
			break;
		mp_sleep_ms(1);
	}
	if (b.put_bytes - a.put_bytes != expect)
		fprintf(stderr, "rank %d of %d put %llu bytes, not %llu\n", job->rank, job->n,
			(unsigned long long)(b.put_bytes - a.put_bytes),
			(unsigned long long)expect);
	TT_EXPECT(b.put_bytes - a.put_bytes == expect);
	free(coded);
	free(v);
	return tutti_codec_free(codec);
}

/*
 * Recursive doubling of 4 ranks puts two heads, this rank's list, and its sum with the neighbour's,
 * or the vector where that is shorter.
 */
static int counted_merge_body(struct mp_job *job)
{
	const size_t count = 1 << 18, room = 8 * count + 64;
	struct tutti_stats a = {.size = sizeof(a)}, b = {.size = sizeof(b)};
	struct tt_codec_sum list[2] = {{0}}, sum;
	char *coded[2] = {malloc(room), malloc(room)}, *out = malloc(room);
	float *v = calloc(count, 4);
	struct tutti_codec *codec;
	struct tutti_call call;
	uint64_t expect;
	int i;

	TT_EXPECT(v && coded[0] && coded[1] && out);
	MP_OK(tutti_codec_create(job->arg, &codec));
	for (i = 0; i < 2; i++) {
		fill(v, 1, job->rank / 2 * 2 + i, count);
		list[i].at = coded[i];
		MP_OK(tutti_codec_encode(codec, v, count, TUTTI_FLOAT32, NULL, 0, coded[i],
					 &list[i].len));
	}
	TT_EXPECT(!tt_codec_sum_merge(codec, &list[0], &list[1], count, out, &sum));
	TT_EXPECT(sum.dense == (sum.len == 4 * count) && sum.len <= 4 * count);
	TT_EXPECT(sum.dense == !strcmp(job->arg, "topk:60%"));
	expect = 16 + list[job->rank % 2].len + sum.len;
	call = call_of(TUTTI_IN_PLACE, v, count, codec, NULL);
	for (i = 0; i < 3; i++) /* the first connects */
		MP_OK(tutti_call(job->world, &call, NULL));
	fill(v, 1, job->rank, count);
	mp_meet(job);
	mp_sleep_ms(100);
	MP_OK(tutti_stats_get(job->ctx, &a));
	MP_OK(tutti_call(job->world, &call, NULL));
	for (i = 0; i < 2000; i++) {
		MP_OK(tutti_stats_get(job->ctx, &b));
		if (b.put_bytes - a.put_bytes >= expect)
			break;
		mp_sleep_ms(1);
	}
	if (b.put_bytes - a.put_bytes != expect)
		fprintf(stderr, "rank %d put %llu bytes, not %llu\n", job->rank,
			(unsigned long long)(b.put_bytes - a.put_bytes),
			(unsigned long long)expect);
	TT_EXPECT(b.put_bytes - a.put_bytes == expect);
	TT_EXPECT(b.reduced_bytes - a.reduced_bytes == 2 * 4 * count);
	for (i = 0; i < 2; i++)
		free(coded[i]);
	free(out);
	free(v);
	return tutti_codec_free(codec);
}

static void counted(void)
{
	static const char *const merges[] = {"topk:1%", "topk:30%", "topk:60%"};
	size_t i;
	int n;

	for (i = 0; i < sizeof(merges) / sizeof(merges[0]); i++)
		TT_CHECK(!MP_RUN(.n = 4, .env = SHM MERGE, .fn = counted_merge_body,
				 .arg = (void *)merges[i]));

	for (n = 2; n <= 4; n++)
		TT_CHECK(!MP_RUN(.n = n, .env = SHM, .fn = counted_list_body));

	for (n = 2; n <= 4; n++)
		TT_CHECK(!MP_RUN(.n = n, .env = SHM "TUTTI_LANES=2", .fn = counted_body));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 4, .env = HIER, .fn = counted_body, .arg = levels));
}

/* ---- refusals ---- */

static size_t plain_bound(size_t count, void *arg)
{
	(void)arg;
	return count * 4;
}

static size_t wrong_bound(size_t count, void *arg)
{
	(void)count;
	(void)arg;
	return SIZE_MAX;
}

static int plain_encode(const float *in, size_t count, uint64_t first, uint64_t call, void *out,
			size_t *len, void *arg)
{
	memcpy(out, in, *len = count * 4);
	return 0;
}

static int plain_decode(const void *in, size_t len, uint64_t first, float *out, size_t count,
			void *arg)
{
	memcpy(out, in, len);
	return 0;
}

static struct tutti_codec_user plain_codec(unsigned flags)
{
	return (struct tutti_codec_user){.size = sizeof(struct tutti_codec_user),
					 .name = "mine",
					 .flags = flags,
					 .bound = plain_bound,
					 .encode = plain_encode,
					 .decode = plain_decode};
}

static int refused(struct mp_job *job, struct tutti_call *call, int code, const char *word)
{
	int err = tutti_call(job->world, call, NULL);

	if (err != code || !mp_said(word)) {
		mp_failed(job, word, err, __FILE__, __LINE__);
		return 1;
	}
	return 0;
}

static int refusals_body(struct mp_job *job)
{
	struct tutti_codec_user user = plain_codec(0);
	struct tutti_codec *codec, *other, *varies;
	struct tutti_feedback *fb, *fo, *keeper;
	struct tutti_comm *dup;
	struct tutti_call call, bad;
	float v[100] = {0};

	MP_OK(tutti_codec_create("int8", &codec));
	MP_OK(tutti_codec_create("fp16", &other));
	MP_OK(tutti_comm_dup(job->world, &dup));
	MP_OK(tutti_feedback_create(job->world, codec, 100, &fb));
	MP_OK(tutti_feedback_create(dup, codec, 100, &fo));
	call = call_of(TUTTI_IN_PLACE, v, 100, codec, fb);
	bad = call, bad.datatype = TUTTI_FLOAT64;
	TT_EXPECT(!refused(job, &bad, -EINVAL, "float64"));
	bad = call, bad.op = TUTTI_MAX;
	TT_EXPECT(!refused(job, &bad, -EINVAL, "sum or avg"));
	bad = call, bad.codec = NULL;
	TT_EXPECT(!refused(job, &bad, -EINVAL, "feedback is not NULL"));
	bad = call, bad.codec = other;
	TT_EXPECT(!refused(job, &bad, -EINVAL, "was made for codec int8"));
	bad = call, bad.count = 99;
	TT_EXPECT(!refused(job, &bad, -EINVAL, "100 elements, not 99"));
	bad = call, bad.feedback = fo;
	TT_EXPECT(!refused(job, &bad, -EINVAL, "another communicator"));
	bad = call, bad.coll = TUTTI_COLL_REDUCE;
	TT_EXPECT(!refused(job, &bad, -EINVAL, "reduce does not have it"));
	bad = call, bad.quorum = 1;
	TT_EXPECT(!refused(job, &bad, -EINVAL, "quorum"));
	MP_OK(tutti_codec_create("bf16", &varies));
	MP_OK(tutti_feedback_create(dup, varies, 100, &keeper)); /* keeps its memory */
	MP_OK(tutti_codec_free(varies));
	bad = call, bad.codec = varies, bad.feedback = NULL;
	TT_EXPECT(!refused(job, &bad, -EINVAL, "has been freed"));
	MP_ERR(tutti_codec_free(varies), -EINVAL);
	MP_OK(tutti_feedback_free(keeper));
	MP_OK(tutti_codec_create("randomk:10%", &varies));
	bad = call, bad.codec = varies, bad.feedback = NULL;
	TT_EXPECT(!refused(job, &bad, -EINVAL, "needs feedback"));
	MP_OK(tutti_codec_free(varies));
	MP_OK(tutti_codec_create("topk:10%", &varies));
	bad = call, bad.codec = varies;
	TT_EXPECT(!refused(job, &bad, -EINVAL, "was made for codec int8"));
	bad.feedback = NULL, bad.count = (size_t)UINT32_MAX + 1;
	TT_EXPECT(!refused(job, &bad, -EINVAL, "too many for one list"));
	MP_OK(tutti_codec_free(varies));
	user.bound = wrong_bound;
	MP_OK(tutti_codec_create_user(&user, &varies));
	bad = call, bad.codec = varies, bad.feedback = NULL;
	TT_EXPECT(
		!refused(job, &bad, -EINVAL, "its bound of 100 elements is 18446744073709551615"));
	MP_OK(tutti_codec_free(varies));
	MP_OK(tutti_call(job->world, &call, NULL)); /* none of these was a call */
	MP_ERR(tutti_feedback_create(job->world, NULL, 1, &fo), -EINVAL);
	MP_ERR(tutti_feedback_create(job->world, codec, 1, NULL), -EINVAL);
	MP_ERR(tutti_feedback_create(NULL, codec, 1, &fo), -EINVAL);
	MP_ERR(tutti_feedback_create(job->world, codec, SIZE_MAX / 2, &fo), -EINVAL);
	MP_ERR(tutti_feedback_save(fb, v, 99), -EINVAL);
	MP_SAID("100 elements, not 99");
	MP_ERR(tutti_feedback_save(fb, NULL, 100), -EINVAL);
	MP_ERR(tutti_feedback_restore(fb, NULL, 100), -EINVAL);
	MP_ERR(tutti_feedback_restore(NULL, v, 100), -EINVAL);
	MP_ERR(tutti_feedback_reset(NULL), -EINVAL);
	v[17] = NAN, v[40] = INFINITY;
	MP_ERR(tutti_feedback_restore(fb, v, 100), -EINVAL);
	MP_SAID("element 17 of state is nan");
	v[17] = 0;
	MP_ERR(tutti_feedback_restore(fb, v, 100), -EINVAL);
	MP_SAID("element 40 of state is inf");
	v[17] = 9, v[40] = 0;
	MP_OK(tutti_feedback_restore(fb, v, 100));
	v[17] = 0;
	MP_OK(tutti_feedback_save(fb, v, 100));
	TT_EXPECT(v[17] == 9);
	MP_OK(tutti_feedback_reset(fb));
	MP_OK(tutti_feedback_free(NULL));
	MP_OK(tutti_feedback_free(fb));
	MP_OK(tutti_feedback_free(fo));
	MP_OK(tutti_comm_free(dup));
	MP_OK(tutti_codec_free(other));
	return tutti_codec_free(codec);
}

/* A state serves one call at a time. */
static int busy_body(struct mp_job *job)
{
	struct tutti_request *req, *second = NULL;
	struct tutti_codec *codec;
	struct tutti_feedback *fb;
	struct tutti_call call;
	float v[64], w[64], left[64];

	fill(v, 1, job->rank, 64);
	fill(w, 2, job->rank, 64);
	MP_OK(tutti_codec_create("fp16", &codec));
	MP_OK(tutti_feedback_create(job->world, codec, 64, &fb));
	if (job->rank) /* rank 0's call waits for this rank's */
		mp_sleep_ms(200);
	call = call_of(TUTTI_IN_PLACE, v, 64, codec, fb);
	MP_OK(tutti_call(job->world, &call, &req));
	call.recvbuf = w;
	if (!job->rank) {
		MP_ERR(tutti_call(job->world, &call, &second), -EBUSY);
		MP_SAID("in use by another call");
		MP_ERR(tutti_feedback_save(fb, left, 64), -EBUSY);
		MP_ERR(tutti_feedback_reset(fb), -EBUSY);
	}
	MP_OK(tutti_wait(&req));
	MP_OK(tutti_call(job->world, &call, &second));
	MP_OK(tutti_wait(&second));
	MP_OK(tutti_feedback_save(fb, left, 64));
	MP_OK(tutti_feedback_free(fb));
	return tutti_codec_free(codec);
}

static void refusals(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = refusals_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = busy_body));
}

/* ---- ranks that differ ---- */

static int differ_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	const char *const *names = job->arg;
	struct tutti_codec *codec = NULL;
	struct tutti_call call;
	float v[1000] = {0};

	if (names[job->rank == 1])
		MP_OK(tutti_codec_create(names[job->rank == 1], &codec));
	call = call_of(TUTTI_IN_PLACE, v, 1000, codec, NULL);
	MP_ERR(tutti_call(job->world, &call, NULL), -TUTTI_EMISMATCH);
	MP_OK(tutti_comm_error(job->world, &info));
	if (!strstr(info.text, "disagree on codec"))
		fprintf(stderr, "%s\n", info.text);
	TT_EXPECT(strstr(info.text, "disagree on codec") && strstr(info.text, names[0]));
	TT_EXPECT(!names[1] || strstr(info.text, names[1]));
	tutti_codec_free(codec);
	mp_leave(job);
	return 0;
}

/* Codecs of one name that are not the same: their plans would be different ones. */
static int differ_user_body(struct mp_job *job)
{
	struct tutti_codec_user user = plain_codec(job->rank == 1 ? TUTTI_CODEC_FIXED : 0);
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_codec *codec;
	struct tutti_call call;
	float v[1000] = {0};

	MP_OK(tutti_codec_create_user(&user, &codec));
	call = call_of(TUTTI_IN_PLACE, v, 1000, codec, NULL);
	MP_ERR(tutti_call(job->world, &call, NULL), -TUTTI_EMISMATCH);
	MP_OK(tutti_comm_error(job->world, &info));
	if (!strstr(info.text, "mine (fixed, align 1)"))
		fprintf(stderr, "%s\n", info.text);
	TT_EXPECT(strstr(info.text, "mine (fixed, align 1)"));
	TT_EXPECT(strstr(info.text, "mine (varies, align 1)"));
	tutti_codec_free(codec);
	mp_leave(job);
	return 0;
}

static void differ(void)
{
	static const char *const blocks[] = {"int8:block=256", "int8:block=64"};
	static const char *const kinds[] = {"fp16", "bf16"}, *const plain[] = {"fp16", NULL};
	static const char *const lists[] = {"topk:1%", "topk:2%"};
	static const char *const mixed[] = {"topk:1%", "int8:block=256"};

	TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_LATE_AFTER=300", .fn = differ_body,
			 .arg = (void *)blocks));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_LATE_AFTER=300", .fn = differ_body,
			 .arg = (void *)kinds));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_LATE_AFTER=300", .fn = differ_body,
			 .arg = (void *)plain));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_LATE_AFTER=300", .fn = differ_body,
			 .arg = (void *)lists));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_LATE_AFTER=300", .fn = differ_body,
			 .arg = (void *)mixed));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_LATE_AFTER=300 TUTTI_TIMEOUT=5000",
			 .fn = differ_user_body));
}

/* ---- damage and death ---- */

/* As if the second call's data had been damaged on the way to rank 1. */
static int bad_decode(const void *in, size_t len, uint64_t first, float *out, size_t count,
		      void *arg)
{
	struct mp_job *job = arg;

	memcpy(out, in, len);
	return job->rank == 1 && out[0] == 77 ? -EPROTO : 0;
}

static int damage_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_codec_user user = plain_codec(*(unsigned *)job->arg);
	struct tutti_codec *codec;
	struct tutti_call call;
	float v[300];
	int i, err;

	user.decode = bad_decode;
	user.arg = job;
	MP_OK(tutti_codec_create_user(&user, &codec));
	call = call_of(TUTTI_IN_PLACE, v, 300, codec, NULL);
	for (i = 0; i < 300; i++)
		v[i] = 1;
	MP_OK(tutti_call(job->world, &call, NULL));
	for (i = 0; i < 300; i++)
		TT_EXPECT(v[i] == (float)job->n);
	for (i = 0; i < 300; i++)
		v[i] = job->rank ? 0 : 77;
	err = tutti_call(job->world, &call, NULL);
	if (!user.flags && job->rank != 1) /* all that this rank needs has come intact */
		for (i = 0; !err && i < 1000; i++)
			err = tutti_call(job->world, &call, NULL);
	MP_ERR(err, -TUTTI_ETRANSPORT);
	MP_OK(tutti_comm_error(job->world, &info));
	if (!strstr(info.text, "arrived damaged"))
		fprintf(stderr, "%s\n", info.text);
	TT_EXPECT(strstr(info.text, "arrived damaged") && strstr(info.text, "codec mine"));
	tutti_codec_free(codec);
	mp_leave(job);
	return 0;
}

/* Lists and their heads with bits flipped on the way: never a wrong result, never a crash. */
static int flipped_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	float *v = calloc(LONG, 4);
	struct tutti_codec *codec;
	struct tutti_call call;
	int err = 0, t;

	TT_EXPECT(v != NULL);
	MP_OK(tutti_codec_create("topk:1%", &codec));
	call = call_of(TUTTI_IN_PLACE, v, LONG, codec, NULL);
	for (t = 0; !err && t < 200; t++) {
		fill(v, (unsigned)t, job->rank, LONG);
		err = tutti_call(job->world, &call, NULL);
	}
	TT_EXPECT(err);
	MP_OK(tutti_comm_error(job->world, &info));
	TT_EXPECT(info.text[0]);
	tutti_codec_free(codec);
	free(v);
	mp_leave(job);
	return 0;
}

static void damage(void)
{
	static unsigned fixed = TUTTI_CODEC_FIXED, varies = 0;

	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = damage_body, .arg = &fixed));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = damage_body, .arg = &varies));
	TT_CHECK(!MP_RUN(.n = 3,
			 .env = "TUTTI_TRANSPORT=fault:shm TUTTI_FAULT=seed=5,flip=0.02 "
				"TUTTI_CHECKSUM=1",
			 .fn = flipped_body));
	TT_CHECK(!MP_RUN(.n = 3,
			 .env = "TUTTI_TRANSPORT=fault:shm TUTTI_FAULT=seed=6,flip=0.02 "
				"TUTTI_CHECKSUM=1 " MERGE,
			 .fn = flipped_body));
}

static int death_body(struct mp_job *job)
{
	const char *name = job->arg;
	struct tutti_codec *codec;
	struct tutti_feedback *fb;
	struct tutti_call call;
	float *v = calloc(LONG, 4);
	int err, t;

	TT_EXPECT(v != NULL);
	MP_OK(tutti_codec_create(name, &codec));
	MP_OK(tutti_feedback_create(job->world, codec, LONG, &fb));
	call = call_of(TUTTI_IN_PLACE, v, LONG, codec, fb);
	for (t = 0;; t++) {
		if (job->rank == 1 && t == 20)
			kill(getpid(), SIGKILL);
		err = tutti_call(job->world, &call, NULL);
		if (err)
			break;
	}
	MP_ERR(err, -TUTTI_EPEER);
	TT_EXPECT(t >= 19);
	MP_OK(tutti_feedback_save(fb, v, LONG)); /* no call uses it any more */
	MP_OK(tutti_feedback_free(fb));
	MP_OK(tutti_codec_free(codec));
	free(v);
	mp_leave(job);
	return 0;
}

/* In the middle of calls, with blocks and with lists. */
static void die(const char *env)
{
	static const char *const names[] = {"int8", "topk:10%"};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = death_body, .killed = 2,
				 .arg = (void *)names[i]));
}

static void death(void)
{
	die(SHM);
	die(SHM MERGE);
	if (!mp_no_ofi()) {
		die(OFI);
		die(HIER);
	}
}

static void verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	TT_CHECK(!MP_RUN(.n = 3, .env = VERBS, .fn = bits_body));
	/* between hosts, verbs come first without being told */
	TT_CHECK(!MP_RUN(.n = 4, .env = HIER, .fn = bits_body, .arg = levels));
	TT_CHECK(!MP_RUN(.n = 3, .env = VERBS " " MERGE, .fn = bits_body, .arg = merged));
	TT_CHECK(!MP_RUN(.n = 2, .env = VERBS " TUTTI_CHUNK=4K TUTTI_LANES=4", .fn = bits_body));
	die(VERBS);
}

static const struct tt_test tests[] = {
	{"bits_shm", bits_shm},	    {"bits_cuts", bits_cuts}, {"bits_merge", bits_merge},
	{"bits_hier", bits_hier},   {"spread", spread},	      {"density", density},
	{"bits_fault", bits_fault}, {"bits_ofi", bits_ofi},   {"conservation", conservation},
	{"not_finite", not_finite}, {"forms", forms},	      {"counted", counted},
	{"refusals", refusals},	    {"differ", differ},	      {"damage", damage},
	{"death", death},	    {"verbs", verbs},	      {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("codec_allreduce", tests, argc, argv);
}
