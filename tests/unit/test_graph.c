/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Graphs of ranks: edges, weights, properties, |lambda2| against closed forms, and every argument
 * that is refused. Oracles are eigenvalues of circulant matrices, and a dense matrix applied 300
 * times.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>

#include "tests/test.h"

#define PI 3.14159265358979323846
#define MOST 64

static bool near(double a, double b, double by)
{
	return fabs(a - b) <= by;
}

static bool said(const char *text)
{
	struct tutti_error_info info = {.size = sizeof(info)};

	tutti_last_error(&info);
	return strstr(info.text, text) != NULL;
}

static double lambda2(const struct tutti_graph *graph)
{
	double v = -1;

	TT_CHECK(!tutti_graph_lambda2(graph, &v));
	return v;
}

static int in_degree(const struct tutti_graph *graph, uint64_t step, int rank)
{
	int n = -1;

	TT_CHECK(!tutti_graph_in(graph, step, rank, NULL, 0, &n));
	return n;
}

static int out_degree(const struct tutti_graph *graph, uint64_t step, int rank)
{
	int n = -1;

	TT_CHECK(!tutti_graph_out(graph, step, rank, NULL, 0, &n));
	return n;
}

/* The lists of in and out neighbours, and the weights, tell the same edges. */
static bool consistent(const struct tutti_graph *graph)
{
	int n = tutti_graph_size(graph), r, k, in[MOST], out[MOST], nin, nout;
	int t;

	for (t = 0; t < tutti_graph_period(graph); t++)
		for (r = 0; r < n; r++) {
			if (tutti_graph_in(graph, (uint64_t)t, r, in, MOST, &nin) ||
			    tutti_graph_out(graph, (uint64_t)t, r, out, MOST, &nout))
				return false;
			for (k = 0; k < nin; k++)
				if (in[k] == r || (k && in[k] <= in[k - 1]) ||
				    tutti_graph_weight(graph, (uint64_t)t, r, in[k]) <= 0)
					return false;
			for (k = 0; k < nout; k++)
				if (out[k] == r || (k && out[k] <= out[k - 1]) ||
				    tutti_graph_weight(graph, (uint64_t)t, out[k], r) <= 0)
					return false;
			for (k = 0; k < n; k++)
				nin -= k != r && tutti_graph_weight(graph, (uint64_t)t, r, k) > 0;
			for (k = 0; k < n; k++)
				nout -= k != r && tutti_graph_weight(graph, (uint64_t)t, k, r) > 0;
			if (nin || nout)
				return false;
		}
	return true;
}

static bool sound(const struct tutti_graph *graph, int n, unsigned properties)
{
	return tutti_graph_size(graph) == n && consistent(graph) &&
	       !tutti_graph_check(graph, properties);
}

static void test_ring(void)
{
	struct tutti_graph *g = NULL;
	double want, v;
	int n, k;

	for (n = 1; n <= 17; n++) {
		TT_REQUIRE(!tutti_graph_ring(n, &g));
		TT_CHECK(sound(g, n, TUTTI_GRAPH_DOUBLY | TUTTI_GRAPH_SYMMETRIC));
		TT_CHECK(in_degree(g, 0, n - 1) == (n > 2 ? 2 : n - 1));
		for (want = 0, k = 1; k < n && n > 2; k++) {
			v = fabs(1 / 3.0 + 2 / 3.0 * cos(2 * PI * k / n));
			want = v > want ? v : want;
		}
		TT_CHECK(near(lambda2(g), want, 1e-9));
		TT_CHECK(n != 8 || near(want, 0.8047, 1e-4));
		TT_CHECK(!tutti_graph_free(g));
	}
}

static void test_torus(void)
{
	static const int sides[][2] = {{1, 1}, {1, 5}, {2, 2}, {2, 4}, {3, 3}, {3, 5}, {4, 4}};
	struct tutti_graph *g = NULL;
	double want, v;
	int i, a, b;

	for (i = 0; i < (int)(sizeof(sides) / sizeof(sides[0])); i++) {
		int r = sides[i][0], c = sides[i][1];

		TT_REQUIRE(!tutti_graph_torus(r, c, &g));
		TT_CHECK(sound(g, r * c, TUTTI_GRAPH_DOUBLY | TUTTI_GRAPH_SYMMETRIC));
		for (want = 0, a = 0; a < r && r > 2 && c > 2; a++)
			for (b = 0; b < c; b++) {
				v = fabs(1 + 2 * cos(2 * PI * a / r) + 2 * cos(2 * PI * b / c)) / 5;
				want = (a || b) && v > want ? v : want;
			}
		if (r > 2 && c > 2)
			TT_CHECK(near(lambda2(g), want, 1e-9));
		TT_CHECK(!tutti_graph_free(g));
	}
	TT_REQUIRE(!tutti_graph_torus(3, 4, &g));
	TT_CHECK(near(tutti_graph_weight(g, 7, 5, 1), 0.2, 1e-15)); /* above */
	TT_CHECK(near(tutti_graph_weight(g, 7, 4, 7), 0.2, 1e-15)); /* around */
	TT_CHECK(tutti_graph_weight(g, 0, 0, 5) == 0);		    /* across */
	TT_CHECK(!tutti_graph_free(g));
}

static void test_star_and_complete(void)
{
	struct tutti_graph *g = NULL;
	int n;

	for (n = 1; n <= 9; n++) {
		TT_REQUIRE(!tutti_graph_star(n, &g));
		TT_CHECK(sound(g, n, TUTTI_GRAPH_DOUBLY | TUTTI_GRAPH_SYMMETRIC));
		TT_CHECK(in_degree(g, 0, 0) == n - 1);
		TT_CHECK(near(lambda2(g), n > 2 ? 1 - 1.0 / n : 0, 1e-9));
		TT_CHECK(!tutti_graph_free(g));
		TT_REQUIRE(!tutti_graph_complete(n, &g));
		TT_CHECK(sound(g, n, TUTTI_GRAPH_DOUBLY | TUTTI_GRAPH_SYMMETRIC));
		TT_CHECK(in_degree(g, 0, n / 2) == n - 1);
		TT_CHECK(lambda2(g) == 0);
		TT_CHECK(!tutti_graph_free(g));
	}
}

/* |sum over k of exp(-2 pi i j 2^k / n)|, k < p, and 1 */
static double exponential_sum(int n, int j, int p)
{
	double re = 1, im = 0;
	int k;

	for (k = 0; k < p; k++) {
		re += cos(2 * PI * j * (1 << k) / n);
		im -= sin(2 * PI * j * (1 << k) / n);
	}
	return sqrt(re * re + im * im) / (p + 1);
}

static void test_exponential(void)
{
	struct tutti_graph *g = NULL;
	double want, v;
	int n, j, p;

	for (n = 2; n <= 20; n++) {
		for (p = 1; 1 << p < n; p++)
			;
		TT_REQUIRE(!tutti_graph_exponential(n, &g));
		TT_CHECK(sound(g, n, TUTTI_GRAPH_DOUBLY));
		TT_CHECK(out_degree(g, 0, n - 1) == p && in_degree(g, 0, 0) == p);
		for (want = 0, j = 1; j < n; j++) {
			v = exponential_sum(n, j, p);
			want = v > want ? v : want;
		}
		TT_CHECK(near(lambda2(g), want, 1e-9));
		TT_CHECK(!tutti_graph_free(g));
	}
}

static void test_one_peer(void)
{
	struct tutti_graph *g = NULL;
	double want, v;
	int n, j, k, p;

	for (n = 2; n <= 20; n++) {
		for (p = 1; 1 << p < n; p++)
			;
		TT_REQUIRE(!tutti_graph_one_peer(n, &g));
		TT_CHECK(sound(g, n, TUTTI_GRAPH_DOUBLY) && tutti_graph_period(g) == p);
		TT_CHECK(tutti_graph_weight(g, (uint64_t)p * 1000, 1 % n, 0) == 0.5);
		for (want = 0, j = 1; j < n; j++) {
			for (v = 1, k = 0; k < p; k++)
				v *= fabs(cos(PI * j * (1 << k) / n));
			want = v > want ? v : want;
		}
		want = n & (n - 1) ? pow(want, 1.0 / p) : 0;
		TT_CHECK(near(lambda2(g), want, 1e-9));
		TT_CHECK(!tutti_graph_free(g));
	}
}

static bool same(const struct tutti_graph *a, const struct tutti_graph *b)
{
	int n = tutti_graph_size(a), i, j;

	for (i = 0; i < n; i++)
		for (j = 0; j < n; j++)
			if (tutti_graph_weight(a, 0, i, j) != tutti_graph_weight(b, 0, i, j))
				return false;
	return true;
}

static void test_regular(void)
{
	struct tutti_graph *g = NULL, *again = NULL, *other = NULL;
	int n, d, r;

	for (n = 2; n <= 14; n++)
		for (d = n > 2 ? 2 : 1; d < n; d++) {
			if (n % 2 && d % 2) {
				TT_CHECK(tutti_graph_regular(n, d, 1, &g) == -EINVAL);
				continue;
			}
			TT_REQUIRE(!tutti_graph_regular(n, d, 7, &g));
			TT_REQUIRE(!tutti_graph_regular(n, d, 7, &again));
			TT_CHECK(sound(g, n, TUTTI_GRAPH_DOUBLY | TUTTI_GRAPH_SYMMETRIC));
			for (r = 0; r < n; r++)
				TT_CHECK(in_degree(g, 0, r) == d);
			TT_CHECK(lambda2(g) < 1 - 1e-6); /* connected, and not bipartite */
			TT_CHECK(same(g, again));
			TT_CHECK(!tutti_graph_free(g) && !tutti_graph_free(again));
		}
	for (d = 2; d <= 3; d++) {
		TT_REQUIRE(!tutti_graph_regular(24, d, 1, &g));
		TT_REQUIRE(!tutti_graph_regular(24, d, 2, &other));
		TT_CHECK(!same(g, other));
		TT_CHECK(!tutti_graph_free(g) && !tutti_graph_free(other));
	}
}

/* Two neighbours of a rank that are neighbours of each other. */
static int triangles(const struct tutti_graph *g, int n)
{
	int all[32], degree = 0, a, i, j, found = 0;

	for (a = 0; a < n; a++) {
		TT_CHECK(!tutti_graph_in(g, 0, a, all, 32, &degree) && degree <= 32);
		for (i = 0; i < degree; i++)
			for (j = 0; j < i; j++)
				found += tutti_graph_weight(g, 0, all[i], all[j]) > 0;
	}
	return found / 3;
}

/*
 * As random as known of random regular graphs: (d - 1)^3 / 6 triangles are expected, and the second
 * eigenvalue of the adjacency matrix is near 2 sqrt(d - 1). The circulant graph it is made from has
 * n triangles for d = 4 and an eigenvalue near d.
 */
static void test_random_regular(void)
{
	struct tutti_graph *g = NULL;
	int seed, found = 0, n = 300;

	for (seed = 0; seed < 20; seed++) {
		TT_REQUIRE(!tutti_graph_regular(n, 4, (uint64_t)seed, &g));
		found += triangles(g, n);
		TT_CHECK(seed || fabs(lambda2(g) - (1 + 2 * sqrt(3)) / 5) < 0.03);
		TT_CHECK(!tutti_graph_free(g));
	}
	TT_CHECK(found > 60 && found < 120); /* 90 expected, with a deviation of 9.5 */
}

static const struct tutti_edge some[] = {{0, 1, 0.5},  {1, 2, 0.25}, {2, 0, 1},	  {0, 2, 0.25},
					 {1, 1, 0.75}, {2, 2, 0.5},  {0, 0, 0.25}};

static void test_given(void)
{
	struct tutti_graph *g = NULL;

	TT_REQUIRE(!tutti_graph_edges(3, some, 7, TUTTI_WEIGHTS_GIVEN, &g));
	TT_CHECK(consistent(g));
	TT_CHECK(tutti_graph_weight(g, 3, 1, 0) == 0.5 && tutti_graph_weight(g, 3, 0, 1) == 0);
	TT_CHECK(tutti_graph_weight(g, 0, 0, 0) == 0.25 && tutti_graph_weight(g, 0, 2, 2) == 0.5);
	TT_CHECK(tutti_graph_check(g, TUTTI_GRAPH_ROWS) == -EINVAL);
	TT_CHECK(said("the row of rank 0, the weights of what it receives, sums to 1.25"));
	TT_CHECK(tutti_graph_check(g, TUTTI_GRAPH_SYMMETRIC) == -EINVAL);
	TT_CHECK(!tutti_graph_free(g));

	TT_REQUIRE(!tutti_graph_edges(3, some, 4, TUTTI_WEIGHTS_IN, &g));
	TT_CHECK(sound(g, 3, TUTTI_GRAPH_ROWS));
	TT_CHECK(near(tutti_graph_weight(g, 0, 2, 1), 1 / 3.0, 1e-15));
	TT_CHECK(tutti_graph_check(g, TUTTI_GRAPH_COLUMNS) == -EINVAL);
	TT_CHECK(said("column of rank 0"));
	TT_CHECK(!tutti_graph_free(g));

	TT_REQUIRE(!tutti_graph_edges(3, some, 4, TUTTI_WEIGHTS_OUT, &g));
	TT_CHECK(sound(g, 3, TUTTI_GRAPH_COLUMNS));
	TT_CHECK(near(tutti_graph_weight(g, 0, 2, 0), 1 / 3.0, 1e-15));
	TT_CHECK(lambda2(g) < 1);
	TT_CHECK(!tutti_graph_free(g));

	TT_CHECK(tutti_graph_edges(3, some, 4, TUTTI_WEIGHTS_METROPOLIS, &g) == -EINVAL);
	TT_CHECK(said("none back"));
}

/* 300 rounds of a dense matrix: the mean stays, here 0, and disagreement shrinks by |lambda2|. */
static void test_contraction(void)
{
	struct tutti_graph *g[4] = {NULL};
	double x[12], y[12], mid = 0, v, sum;
	int i, k, r, j;

	TT_REQUIRE(!tutti_graph_ring(12, &g[0]) && !tutti_graph_torus(3, 4, &g[1]) &&
		   !tutti_graph_star(12, &g[2]) && !tutti_graph_regular(12, 3, 5, &g[3]));
	for (i = 0; i < 4; i++) {
		for (k = 0; k < 12; k++)
			x[k] = sin(k * k + 1);
		for (sum = 0, k = 0; k < 12; k++)
			sum += x[k];
		for (k = 0; k < 12; k++)
			x[k] -= sum / 12;
		for (r = 0; r < 300; r++) {
			for (k = 0; k < 12; k++)
				for (y[k] = 0, j = 0; j < 12; j++)
					y[k] += tutti_graph_weight(g[i], 0, k, j) * x[j];
			for (sum = 0, k = 0; k < 12; k++)
				sum += y[k];
			TT_CHECK(near(sum, 0, 1e-9));
			for (v = 0, k = 0; k < 12; k++) {
				x[k] = y[k] - sum / 12;
				v += x[k] * x[k];
			}
			mid = r == 199 ? v : mid;
			if (r == 299)
				TT_CHECK(near(pow(v / mid, 1 / 200.0) / lambda2(g[i]), 1, 0.05));
		}
		TT_CHECK(!tutti_graph_free(g[i]));
	}
}

/* In any order the edges make the same graph; each of them twice is refused. */
static void test_order(void)
{
	struct tutti_graph *g = NULL, *ring = NULL, *odd = NULL;
	struct tutti_edge e[MOST], swap;
	uint64_t dice = 5;
	int i, k, n = 0;

	for (i = 0; i < 16; i++) {
		e[n++] = (struct tutti_edge){i, (i + 1) % 16, 1 / 3.0};
		e[n++] = (struct tutti_edge){i, (i + 15) % 16, 1 / 3.0};
		e[n++] = (struct tutti_edge){i, i, 1 - 2 / 3.0};
	}
	for (i = n - 1; i > 0; i--) {
		dice = dice * 6364136223846793005u + 1442695040888963407u;
		k = (int)((dice >> 33) % (uint64_t)(i + 1));
		swap = e[i];
		e[i] = e[k];
		e[k] = swap;
	}
	TT_REQUIRE(!tutti_graph_ring(16, &ring));
	TT_REQUIRE(!tutti_graph_edges(16, e, (size_t)n, TUTTI_WEIGHTS_GIVEN, &g));
	TT_CHECK(sound(g, 16, TUTTI_GRAPH_DOUBLY | TUTTI_GRAPH_SYMMETRIC) && same(g, ring));
	for (i = 0; i < n; i++) {
		e[n] = e[i];
		TT_CHECK(tutti_graph_edges(16, e, (size_t)n + 1, TUTTI_WEIGHTS_GIVEN, &odd) ==
			 -EINVAL);
		TT_CHECK(said("is listed twice"));
	}
	TT_CHECK(!odd && !tutti_graph_free(g) && !tutti_graph_free(ring));
}

static void test_refused(void)
{
	const struct tutti_edge twice[] = {{0, 1, 1}, {1, 0, 1}, {0, 1, 1}};
	const struct tutti_edge out[] = {{0, 3, 1}}, nan[] = {{0, 1, NAN}};
	struct tutti_graph *g = NULL, *left = NULL;
	int n = -1;
	double v = 5;

	TT_CHECK(tutti_graph_ring(0, &g) == -EINVAL && tutti_graph_star(-1, &g) == -EINVAL);
#ifndef __SANITIZE_ADDRESS__ /* it ends a program that asks for so much */
	TT_CHECK(tutti_graph_complete(1 << 24, &g) == -ENOMEM); /* at once: 2^48 edges */
#endif
	TT_CHECK(tutti_graph_ring(3, NULL) == -EINVAL && tutti_graph_complete(0, &g) == -EINVAL);
	TT_CHECK(tutti_graph_torus(0, 3, &g) == -EINVAL &&
		 tutti_graph_torus(1 << 16, 1 << 16, &g) == -EINVAL);
	TT_CHECK(said("are more than 16777216"));
	TT_CHECK(tutti_graph_edges(3, twice, SIZE_MAX, TUTTI_WEIGHTS_GIVEN, &g) == -EINVAL);
	TT_CHECK(said("3 ranks have 9 edges at most"));
	TT_CHECK(tutti_graph_regular(5, 5, 1, &g) == -EINVAL);
	TT_CHECK(tutti_graph_regular(4, 1, 1, &g) == -EINVAL);
	TT_CHECK(tutti_graph_edges(3, twice, 3, TUTTI_WEIGHTS_GIVEN, &g) == -EINVAL);
	TT_CHECK(said("from 0 to 1 is listed twice"));
	TT_CHECK(tutti_graph_edges(3, out, 1, TUTTI_WEIGHTS_GIVEN, &g) == -EINVAL);
	TT_CHECK(tutti_graph_edges(3, nan, 1, TUTTI_WEIGHTS_GIVEN, &g) == -EINVAL);
	TT_CHECK(tutti_graph_edges(3, NULL, 1, TUTTI_WEIGHTS_GIVEN, &g) == -EINVAL);
	TT_CHECK(tutti_graph_edges(3, twice, 1, (enum tutti_weights)9, &g) == -EINVAL);
	TT_CHECK(g == NULL);
	TT_REQUIRE(!tutti_graph_edges(3, twice, 2, TUTTI_WEIGHTS_GIVEN, &left));
	TT_CHECK(tutti_graph_check(left, 8) == -EINVAL && tutti_graph_check(NULL, 1) == -EINVAL);
	TT_CHECK(tutti_graph_lambda2(left, NULL) == -EINVAL);
	TT_CHECK(tutti_graph_lambda2(left, &v) == -EINVAL && v == 5); /* rank 2 keeps nothing */
	TT_CHECK(tutti_graph_in(left, 0, 3, NULL, 0, &n) == -EINVAL);
	TT_CHECK(tutti_graph_in(left, 0, 0, NULL, -3, &n) == -EINVAL && n == -1);
	TT_CHECK(said("max is -3"));
	TT_CHECK(tutti_graph_out(left, 0, 0, NULL, -1, &n) == -EINVAL && n == -1);
	TT_CHECK(tutti_graph_out(left, 0, 0, NULL, 1, &n) == -EINVAL && n == -1);
	TT_CHECK(tutti_graph_weight(left, 0, 0, 3) == 0 && tutti_graph_weight(NULL, 0, 0, 0) == 0);
	TT_CHECK(!tutti_graph_size(NULL) && !tutti_graph_period(NULL) && !tutti_graph_free(NULL));
	TT_CHECK(!tutti_graph_free(left));
}

static const struct tt_test tests[] = {{"ring", test_ring},
				       {"torus", test_torus},
				       {"star_and_complete", test_star_and_complete},
				       {"exponential", test_exponential},
				       {"one_peer", test_one_peer},
				       {"regular", test_regular},
				       {"random_regular", test_random_regular},
				       {"given", test_given},
				       {"order", test_order},
				       {"contraction", test_contraction},
				       {"refused", test_refused},
				       {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("graph", tests, argc, argv);
}
