/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pieces of the parameter server that need no job: placement, keys, initial values, update rules.
 */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/hash.h"
#include "lib/ps/worker/accumulate.h"
#include "lib/ps/ps.h"
#include "lib/reduce/half.h"
#include "tests/test.h"

/* ---- placement ---- */

#define SERVERS 64

/* Weights 1, or 1 to `most` in some order; added up. */
static void weigh(int n, uint32_t most, uint32_t *upto)
{
	int k;

	for (k = 0; k < n; k++)
		upto[k] = (k ? upto[k - 1] : 0) + 1 + (uint32_t)(k * 7) % most;
}

static uint32_t weight_of(const uint32_t *upto, int k)
{
	return k ? upto[k] - upto[k - 1] : upto[0];
}

/* Tables of sizes as networks have them, one after the other; the load becomes level. */
static void placed(int n, uint32_t weights, uint64_t seed, int tables)
{
	uint64_t load[SERVERS] = {0}, begin[SERVERS + 1], total = 0, count;
	uint32_t upto[SERVERS];
	double most = 0, now;
	int t, k;

	weigh(n, weights, upto);
	for (t = 0; t < tables; t++) {
		count = t % 2 ? tt_random(&seed) % 1000 + 1 : tt_random(&seed) % 5000000 + 100000;
		tt_ps_place(load, upto, n, count, 4, begin);
		TT_CHECK(begin[0] == 0 && begin[n] == count);
		for (k = 0; k < n; k++) {
			TT_CHECK(begin[k] <= begin[k + 1]);
			load[k] += (begin[k + 1] - begin[k]) * 4;
		}
		total += count * 4;
	}
	for (k = 0; k < n; k++) {
		now = (double)load[k] / weight_of(upto, k);
		most = now > most ? now : most;
	}
	TT_CHECK(most * upto[n - 1] / (double)total <= 1.02);
}

static void place(void)
{
	uint64_t none[3] = {0, 0, 0}, uneven[3] = {1 << 20, 0, 0}, begin[4];
	uint32_t alike[3] = {1, 2, 3}, heavy[3] = {6, 8, 10};
	int n;

	for (n = 1; n <= 33; n++) {
		placed(n, 1, (uint64_t)n, 40);
		placed(n, 5, (uint64_t)n, 40);
	}
	tt_ps_place(none, alike, 3, 10, 4, begin); /* too small to cut */
	TT_CHECK(begin[1] == 10 && begin[2] == 10 && begin[3] == 10);
	tt_ps_place(uneven, alike, 3, 1 << 18, 4, begin); /* the others have room for all of it */
	TT_CHECK(begin[1] == 0 && begin[2] == 1 << 17 && begin[3] == 1 << 18);
	tt_ps_place(none, alike, 3, 1ull << 40, 8, begin);
	TT_CHECK(begin[3] == 1ull << 40 && begin[1] >= (1ull << 40) / 3);
	tt_ps_place(none, heavy, 3, 10 << 20, 4, begin); /* 6 : 2 : 2 */
	TT_CHECK(begin[1] == 6 << 20 && begin[2] == 8 << 20 && begin[3] == 10 << 20);
	tt_ps_place(uneven, heavy, 3, 1 << 20, 4,
		    begin); /* the existing tables count: 3 MiB, 1, 1 */
	TT_CHECK(begin[1] == 1 << 19 && begin[2] == 3 << 18 && begin[3] == 1 << 20);
}

static void keys_spread(void)
{
	int of[7] = {0}, i, k;
	uint32_t upto[7];
	uint64_t stride;

	weigh(7, 1, upto);
	for (stride = 1; stride; stride <<= 13) {
		memset(of, 0, sizeof(of));
		for (i = 0; i < 70000; i++) {
			k = tt_ps_key_server(upto, 7, (uint64_t)i * stride);
			TT_CHECK(k >= 0 && k < 7);
			of[k]++;
		}
		if (stride < 1ull << 40) /* beyond, keys repeat */
			for (k = 0; k < 7; k++)
				TT_CHECK(of[k] < 10300 &&
					 (uint64_t)of[k] <= tt_ps_key_room(upto, 7, k, 70000));
	}
	TT_CHECK(tt_ps_key_room(upto, 1, 0, 5) == 5 && tt_ps_key_room(upto, 4, 3, 5) == 5);
}

/* Servers of these weights. */
static void keys_weighted(void)
{
	uint32_t upto[7];
	int of[7] = {0}, i, k;

	weigh(7, 5, upto); /* 1 3 5 2 4 1 3 */
	TT_CHECK(upto[6] == 19);
	for (i = 0; i < 19 * 3000; i++) {
		k = tt_ps_key_server(upto, 7, (uint64_t)i);
		TT_CHECK(k >= 0 && k < 7);
		of[k]++;
	}
	for (k = 0; k < 7; k++) {
		TT_CHECK(fabs(of[k] - 3000.0 * weight_of(upto, k)) < 300);
		TT_CHECK((uint64_t)of[k] <= tt_ps_key_room(upto, 7, k, 19 * 3000));
	}
}

static void keys(void)
{
	struct tt_map map = {0};
	uint64_t i, round;
	size_t size;

	TT_CHECK(tt_ps_key_place(&map, 0) == TT_PS_NOWHERE);
	for (i = 0; i < 50000; i++)
		TT_CHECK(!tt_map_set(&map, i << 40, i));
	TT_CHECK(!tt_map_set(&map, 7ull << 40, 99));
	for (i = 0; i < 50000; i++)
		TT_CHECK(tt_ps_key_place(&map, i << 40) == (i == 7 ? 99 : (uint32_t)i));
	TT_CHECK(tt_ps_key_place(&map, 1) == TT_PS_NOWHERE);
	TT_CHECK(map.used == 50000);
	for (i = 0; i < 50000; i++)
		if (i % 3)
			tt_map_remove(&map, i << 40);
	tt_map_remove(&map, 1);
	for (i = 0; i < 50000; i++)
		TT_CHECK(tt_map_find(&map, i << 40) == (i % 3 ? TT_MAP_NONE : i == 7 ? 99 : i));
	TT_CHECK(map.used == 50000 / 3 + 1);
	tt_map_clear(&map);
	TT_CHECK(!map.used && tt_map_find(&map, 0) == TT_MAP_NONE);
	tt_map_free(&map);
	TT_CHECK(!tt_map_reserve(&map, 1000));
	size = map.size;
	for (round = 0; round < 100; round++) /* keys come and go */
		for (i = 0; i < 1000; i++) {
			TT_CHECK(!tt_map_set(&map, round * 1000 + i, i));
			if (round)
				tt_map_remove(&map, (round - 1) * 1000 + i);
			TT_CHECK(tt_map_find(&map, round * 1000 + i) == i);
		}
	TT_CHECK(map.used == 1000 && map.size == size);
	tt_map_free(&map);
}

/* ---- what presses most ---- */

#define PRESSING 200

/* The one that a search through all of them finds; of equals the first. */
static uint32_t most_pressing(const double *key, const bool *waits)
{
	uint32_t i, best = PRESSING;

	for (i = 0; i < PRESSING; i++)
		if (waits[i] && (best == PRESSING || key[i] > key[best]))
			best = i;
	return best;
}

static void urgent(void)
{
	double key[PRESSING];
	bool waits[PRESSING] = {false};
	struct tt_ps_urgent u;
	uint32_t i, n = 0, step;
	uint64_t seed = 3;

	TT_REQUIRE(!tt_ps_urgent_new(PRESSING, &u));
	for (step = 0; step < 20000; step++) {
		i = (uint32_t)(tt_random(&seed) % PRESSING);
		if (tt_random(&seed) % (step / 5000 % 2 ? 3 : 2)) { /* fills and empties */
			key[i] = (double)(tt_random(&seed) % 50);
			n += !waits[i];
			waits[i] = true;
			tt_ps_urgent_set(&u, i, key[i]);
		} else {
			n -= waits[i];
			waits[i] = false;
			tt_ps_urgent_drop(&u, i);
		}
		TT_REQUIRE(u.n == n && (!n || u.heap[0] == most_pressing(key, waits)));
	}
	for (; n; n--) {
		i = most_pressing(key, waits);
		TT_REQUIRE(u.heap[0] == i);
		tt_ps_urgent_drop(&u, i);
		waits[i] = false;
	}
	tt_ps_urgent_set(&u, 7, NAN);
	tt_ps_urgent_set(&u, 8, 1e300); /* a NaN goes before all */
	TT_CHECK(u.n == 2 && u.heap[0] == 7);
	tt_ps_urgent_free(&u);
}

static void magnitude(void)
{
	const int8_t i8[] = {-128, 127, 0};
	const uint64_t u64[] = {1ull << 63, 3};
	const uint16_t half[] = {0xc000, 0x3c00}; /* -2, 1 */
	const uint16_t bf16[] = {0xc000, 0x3f80};
	const float f[] = {-0.5f, 0.25f, -0.125f};
	const double d[] = {-1e300, 1};

	TT_CHECK(tt_ps_magnitude(TUTTI_INT8, i8, 3) == 255);
	TT_CHECK(tt_ps_magnitude(TUTTI_UINT64, u64, 2) == 9223372036854775808.0 + 3);
	TT_CHECK(tt_ps_magnitude(TUTTI_FLOAT16, half, 2) == 3 &&
		 tt_ps_magnitude(TUTTI_BFLOAT16, bf16, 2) == 3);
	TT_CHECK(tt_ps_magnitude(TUTTI_FLOAT32, f, 3) == 0.875 &&
		 tt_ps_magnitude(TUTTI_FLOAT64, d, 1) == 1e300);
}

static void fill(void)
{
	struct tutti_ps_table t = {.datatype = TUTTI_FLOAT64, .elem = 8, .width = 1};
	double a[1000], b[1000], sum = 0, squares = 0;
	int i;

	t.opt = (struct tutti_ps_options){
		.init = TUTTI_PS_NORMAL, .init_a = 3, .init_b = 2, .seed = 9};
	tt_ps_fill(&t, a, 100, 1000);
	tt_ps_fill(&t, b, 600, 500); /* whatever piece it is filled in */
	TT_CHECK(!memcmp(a + 500, b, 500 * sizeof(double)));
	for (i = 0; i < 1000; i++) {
		sum += a[i];
		squares += (a[i] - 3) * (a[i] - 3);
	}
	TT_CHECK(fabs(sum / 1000 - 3) < 0.3 && fabs(squares / 1000 - 4) < 0.8);
	t.opt.init = TUTTI_PS_UNIFORM;
	tt_ps_fill(&t, a, 0, 1000);
	for (i = 0; i < 1000; i++)
		TT_CHECK(a[i] <= 3 && a[i] > 2);
	t.opt.init = TUTTI_PS_CONSTANT;
	t.datatype = TUTTI_INT32;
	t.elem = 4;
	tt_ps_fill(&t, a, 0, 10);
	TT_CHECK(((int32_t *)(void *)a)[9] == 3);
}

/* ---- rules ---- */

/* One element, in double, as the papers write it. */
static double truth(const struct tutti_ps_options *o, double x, double u, double *s1, double *s2,
		    int step)
{
	double g = o->rule == TUTTI_PS_ADAMW ? u : u + o->weight_decay * x, m, v;

	switch (o->rule) {
	case TUTTI_PS_SUM:
		return x + u;
	case TUTTI_PS_ASSIGN:
		return u;
	case TUTTI_PS_SGD:
		return x - o->rate * g;
	case TUTTI_PS_MOMENTUM:
		*s1 = o->momentum * *s1 + g;
		return x - o->rate * *s1;
	case TUTTI_PS_NESTEROV:
		*s1 = o->momentum * *s1 + g;
		return x - o->rate * (g + o->momentum * *s1);
	case TUTTI_PS_ADAGRAD:
		*s1 += g * g;
		return x - o->rate * g / (sqrt(*s1) + o->epsilon);
	case TUTTI_PS_RMSPROP:
		*s1 = o->beta2 * *s1 + (1 - o->beta2) * g * g;
		return x - o->rate * g / (sqrt(*s1) + o->epsilon);
	default:
		if (o->rule == TUTTI_PS_ADAMW)
			x -= o->rate * o->weight_decay * x;
		*s1 = o->beta1 * *s1 + (1 - o->beta1) * g;
		*s2 = o->beta2 * *s2 + (1 - o->beta2) * g * g;
		m = *s1 / (1 - pow(o->beta1, step));
		v = *s2 / (1 - pow(o->beta2, step));
		return x - o->rate * m / (sqrt(v) + o->epsilon);
	}
}

#define N 601

static double get(enum tutti_datatype type, const void *p, int i)
{
	switch (type) {
	case TUTTI_FLOAT16:
		return tt_half_widen(((const uint16_t *)p)[i]);
	case TUTTI_BFLOAT16:
		return tt_bfloat_widen(((const uint16_t *)p)[i]);
	case TUTTI_FLOAT32:
		return ((const float *)p)[i];
	default:
		return ((const double *)p)[i];
	}
}

static void rule_of(int rule, enum tutti_datatype type, double tolerance)
{
	static double x[N], u[N], s1[N], s2[N], want, t1[N], t2[N];
	struct tutti_ps_table gen = {
		.datatype = type, .elem = tutti_datatype_size(type), .width = 1};
	struct tutti_ps_table t = gen;
	uint64_t seed = (uint64_t)rule;
	int step, i;

	gen.opt = (struct tutti_ps_options){.init = TUTTI_PS_UNIFORM, .init_a = -1, .init_b = 1};
	t.opt = (struct tutti_ps_options){.rule = rule,
					  .rate = 0.05,
					  .momentum = 0.8,
					  .beta1 = 0.9,
					  .beta2 = 0.95,
					  .epsilon = 1e-6,
					  .weight_decay = 0.1};
	gen.opt.seed = 77;
	tt_ps_fill(&gen, x, 0, N);
	memset(s1, 0, sizeof(s1));
	memset(s2, 0, sizeof(s2));
	memset(t1, 0, sizeof(t1));
	memset(t2, 0, sizeof(t2));
	for (step = 1; step <= 8; step++) {
		double before[N];

		for (i = 0; i < N; i++)
			before[i] = get(type, x, i);
		gen.opt.seed = tt_random(&seed);
		tt_ps_fill(&gen, u, 0, N);
		tt_ps_apply(&t, x, u, s1, s2, N, (uint64_t)step);
		for (i = 0; i < N; i++) {
			want = truth(&t.opt, before[i], get(type, u, i), &t1[i], &t2[i], step);
			TT_CHECK(fabs(get(type, x, i) - want) <= tolerance * (1 + fabs(want)));
		}
	}
}

/*
 * Betas close to 1: 1 - 0.9999 has lost four digits of a float if it is not computed in double.
 * After one update the state is (1 - beta) times the update, or its square.
 */
static void rules_near_one(void)
{
	static const double beta[] = {0.9, 0.99, 0.999, 0.9999, 0.99999};
	struct tutti_ps_table t = {.datatype = TUTTI_FLOAT32, .elem = 4, .width = 1};
	float x, u = 0.75f, s1, s2;
	int rule;
	size_t i;

	for (rule = TUTTI_PS_RMSPROP; rule <= TUTTI_PS_ADAMW; rule++)
		for (i = 0; i < sizeof(beta) / sizeof(beta[0]); i++) {
			t.opt = (struct tutti_ps_options){.rule = rule,
							  .rate = 0.1,
							  .beta1 = beta[i],
							  .beta2 = beta[i],
							  .epsilon = 1e-8};
			x = s1 = s2 = 0;
			tt_ps_apply(&t, &x, &u, &s1, &s2, 1, 1);
			if (rule == TUTTI_PS_RMSPROP) {
				TT_CHECK(fabs(s1 / ((1 - beta[i]) * 0.5625) - 1) < 3e-7);
				continue;
			}
			TT_CHECK(fabs(s1 / ((1 - beta[i]) * 0.75) - 1) < 3e-7);
			TT_CHECK(fabs(s2 / ((1 - beta[i]) * 0.5625) - 1) < 3e-7);
			TT_CHECK(fabs(x + 0.1) < 1e-7); /* the first step of Adam is the rate */
		}
}

static void rules(void)
{
	int rule;

	for (rule = TUTTI_PS_SUM; rule <= TUTTI_PS_ADAMW; rule++) {
		rule_of(rule, TUTTI_FLOAT64, 1e-13);
		rule_of(rule, TUTTI_FLOAT32, 2e-6);
		rule_of(rule, TUTTI_FLOAT16, 2e-3);
		rule_of(rule, TUTTI_BFLOAT16, 1e-2);
	}
}

/* Cut anywhere, the bits are the same: the split of a table does not matter. */
static void rules_cut(void)
{
	static float x[2][N], u[N], s1[2][N], s2[2][N];
	struct tutti_ps_table t = {.datatype = TUTTI_FLOAT32, .elem = 4, .width = 1};
	int rule, cut, step;

	t.opt = (struct tutti_ps_options){.init = TUTTI_PS_UNIFORM, .init_a = -1, .init_b = 1};
	tt_ps_fill(&t, u, 0, N);
	for (rule = TUTTI_PS_SUM; rule <= TUTTI_PS_ADAMW; rule++)
		for (cut = 1; cut < N; cut += 97) {
			t.opt = (struct tutti_ps_options){.rule = rule,
							  .rate = 0.05,
							  .momentum = 0.8,
							  .beta1 = 0.9,
							  .beta2 = 0.95,
							  .epsilon = 1e-6};
			memset(x, 0, sizeof(x));
			memset(s1, 0, sizeof(s1));
			memset(s2, 0, sizeof(s2));
			for (step = 1; step < 4; step++) {
				tt_ps_apply(&t, x[0], u, s1[0], s2[0], N, (uint64_t)step);
				tt_ps_apply(&t, x[1], u, s1[1], s2[1], (size_t)cut, (uint64_t)step);
				tt_ps_apply(&t, x[1] + cut, u + cut, s1[1] + cut, s2[1] + cut,
					    (size_t)(N - cut), (uint64_t)step);
			}
			TT_CHECK(!memcmp(x[0], x[1], sizeof(x[0])));
		}
}

/*
 * Every kernel gives the bits of the serial one, also for less than a vector, for any alignment,
 * and for NaN.
 */
struct levels {
	unsigned char x[(N + 1) * 8], u[(N + 1) * 8], s1[(N + 1) * 8], s2[(N + 1) * 8];
};

static void odd_values(struct levels *l, enum tutti_datatype type, int rule)
{
	static const float odd[] = {NAN,    INFINITY, -INFINITY, -0.0f, 0,
				    1e-41f, 3e38f,    -3e38f,	 65504, 6e-8f};
	struct tutti_ps_table gen = {
		.datatype = type, .elem = tutti_datatype_size(type), .width = 1};
	uint64_t seed = (uint64_t)rule + 5, at;
	unsigned char *to;
	size_t i;

	gen.opt = (struct tutti_ps_options){
		.init = TUTTI_PS_UNIFORM, .init_a = -1, .init_b = 1, .seed = seed};
	memset(l, 0, sizeof(*l));
	tt_ps_fill(&gen, l->x, 0, N);
	tt_ps_fill(&gen, l->u, N, N);
	for (i = 0; i < 2 * sizeof(odd) / sizeof(*odd); i++) {
		at = tt_random(&seed) % N;
		to = i % 2 ? l->x : l->u;
		if (type == TUTTI_FLOAT64)
			((double *)(void *)to)[at] = (double)odd[i / 2];
		else if (type == TUTTI_FLOAT32)
			((float *)(void *)to)[at] = odd[i / 2];
		else
			((uint16_t *)(void *)to)[at] = type == TUTTI_FLOAT16
							       ? tt_half_narrow(odd[i / 2])
							       : tt_bfloat_narrow(odd[i / 2]);
	}
}

static void levels_of(int rule, enum tutti_datatype type, size_t count, size_t off)
{
	static struct levels truth, other;
	struct tutti_ps_table t = {.datatype = type, .elem = tutti_datatype_size(type), .width = 1};
	size_t at = off * t.elem, state = off * tt_ps_state_size(type);
	struct levels *l;
	int level, step;

	t.opt = (struct tutti_ps_options){.rule = rule,
					  .rate = 0.05,
					  .momentum = 0.8,
					  .beta1 = 0.9,
					  .beta2 = 0.95,
					  .epsilon = 1e-6,
					  .weight_decay = 0.1};
	for (level = TT_REDUCE_TRUTH; level < TT_REDUCE_LEVELS; level++) {
		if (!tt_reduce_use((enum tt_reduce_level)level))
			continue;
		l = level == TT_REDUCE_TRUTH ? &truth : &other;
		odd_values(l, type, rule);
		for (step = 1; step <= 3; step++)
			tt_ps_apply(&t, l->x + at, l->u + at, l->s1 + state, l->s2 + state, count,
				    (uint64_t)step);
		TT_CHECK(level == TT_REDUCE_TRUTH || !memcmp(&truth, &other, sizeof(truth)));
	}
	tt_reduce_use(tt_reduce_best());
}

static void rules_levels(void)
{
	static const size_t counts[] = {0,  1,	2,  3,	5,  7,	9,   15,  16,
					17, 31, 33, 47, 63, 65, 127, 255, 600};
	int rule, type;
	size_t i;

	for (rule = TUTTI_PS_SUM; rule <= TUTTI_PS_ADAMW; rule++)
		for (type = TUTTI_FLOAT16; type <= TUTTI_FLOAT64; type++)
			for (i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
				levels_of(rule, (enum tutti_datatype)type, counts[i], 0);
				levels_of(rule, (enum tutti_datatype)type, counts[i], 1);
			}
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"place", place},
					       {"keys_spread", keys_spread},
					       {"keys_weighted", keys_weighted},
					       {"keys", keys},
					       {"urgent", urgent},
					       {"magnitude", magnitude},
					       {"fill", fill},
					       {"rules", rules},
					       {"rules_near_one", rules_near_one},
					       {"rules_cut", rules_cut},
					       {"rules_levels", rules_levels},
					       {NULL, NULL}};

	tt_reduce_add_reference();
	tt_rule_add_reference();
	return tt_test_main("ps_parts", tests, argc, argv);
}
