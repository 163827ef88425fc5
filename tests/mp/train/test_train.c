/* SPDX-License-Identifier: BSD-3-Clause */
/* libtutti_train as a library; errors and update rules of libraries that are built on tutti. */
#include "tests/test.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <tutti/extend.h>
#include <tutti/train.h>

static void version(void)
{
	TT_CHECK(!strcmp(tutti_train_version(), TUTTI_VERSION_STRING));
}

static void last_error(void)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	char text[600];

	TT_CHECK(tutti_set_last_error(-ERANGE, "batch: 3 samples") == -ERANGE);
	TT_REQUIRE(!tutti_last_error(&info));
	TT_CHECK(info.code == -ERANGE && info.rank == -1 && !info.host[0]);
	TT_CHECK(!strcmp(info.text, "batch: 3 samples"));
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	TT_CHECK(tutti_set_last_error(-TUTTI_EPEER, text) == -TUTTI_EPEER);
	TT_REQUIRE(!tutti_last_error(&info));
	TT_CHECK(strlen(info.text) == 511 && !strncmp(info.text, text, 511));
	TT_CHECK(tutti_set_last_error(0, "x") == -EINVAL);
	TT_REQUIRE(!tutti_last_error(&info));
	TT_CHECK(strstr(info.text, "code is 0") != NULL);
	TT_CHECK(tutti_set_last_error(-EINVAL, NULL) == -EINVAL);
}

/* ---- update rules, beside loops of their own ---- */

#define COUNT 37

static double noise(unsigned seed, unsigned i)
{
	return (double)((seed * 2654435761u + i * 40503u) % 1009) / 500 - 1;
}

/* AdamW of float64 as tutti_rule_apply(3) has it. */
static void adamw(double *x, const double *u, double *m, double *v, int t)
{
	double r = 1e-3, decay = 0.1, b1 = 0.9, b2 = 0.999, e = 1e-8;
	volatile double a, b; /* each operation rounds by itself */
	int i;

	for (i = 0; i < COUNT; i++) {
		a = r * decay;
		a = a * x[i];
		x[i] -= a;
		a = b1 * m[i];
		b = (1 - b1) * u[i];
		m[i] = a + b;
		a = b2 * v[i];
		b = u[i] * u[i];
		b = (1 - b2) * b;
		v[i] = a + b;
		a = r * (m[i] / (1 - pow(b1, t)));
		b = sqrt(v[i] / (1 - pow(b2, t))) + e;
		a = a / b;
		x[i] -= a;
	}
}

static void rule_bits(void)
{
	const struct tutti_rule rule = {
		.size = sizeof(rule), .rule = TUTTI_PS_ADAMW, .rate = 1e-3, .weight_decay = 0.1};
	double x[3][COUNT], m[3][COUNT] = {{0}}, v[3][COUNT] = {{0}}, u[COUNT];
	unsigned i, t, half = COUNT / 3;

	for (i = 0; i < COUNT; i++)
		x[0][i] = x[1][i] = x[2][i] = noise(1, i);
	for (t = 1; t <= 20; t++) {
		for (i = 0; i < COUNT; i++)
			u[i] = noise(t + 1, i);
		adamw(x[0], u, m[0], v[0], (int)t);
		TT_REQUIRE(!tutti_rule_apply(&rule, TUTTI_FLOAT64, x[1], u, m[1], v[1], COUNT, t));
		TT_REQUIRE(!tutti_rule_apply(&rule, TUTTI_FLOAT64, x[2], u, m[2], v[2], half, t));
		TT_REQUIRE(!tutti_rule_apply(&rule, TUTTI_FLOAT64, x[2] + half, u + half,
					     m[2] + half, v[2] + half, COUNT - half, t));
		TT_REQUIRE(!memcmp(x[0], x[1], sizeof(u)) && !memcmp(x[1], x[2], sizeof(u)));
	}
}

static bool refused(const struct tutti_rule *rule, enum tutti_datatype type, uint64_t step,
		    const char *word)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	float x = 1, u = 1, s = 0;

	if (tutti_rule_apply(rule, type, &x, &u, &s, NULL, 1, step) != -EINVAL)
		return false;
	return x == 1 && !tutti_last_error(&info) && strstr(info.text, word);
}

static void rule_refusals(void)
{
	const struct tutti_rule good = {.size = sizeof(good), .rule = TUTTI_PS_MOMENTUM};
	struct tutti_rule bad = good;
	float x = 1, u = 2, s = 0;

	TT_CHECK(tutti_rule_states(TUTTI_PS_SGD) == 0);
	TT_CHECK(tutti_rule_states(TUTTI_PS_RMSPROP) == 1);
	TT_CHECK(tutti_rule_states(TUTTI_PS_ADAM) == 2);
	TT_CHECK(tutti_rule_states(TUTTI_PS_ASSIGN) == -EINVAL);
	TT_CHECK(tutti_rule_states(TUTTI_PS_CALLBACK) == -EINVAL);
	TT_CHECK(!tutti_rule_apply(&good, TUTTI_FLOAT32, &x, &u, &s, NULL, 1, 1));
	TT_CHECK(s == 2 && x == 1 - 0.01f * 2);
	TT_CHECK(!tutti_rule_apply(&good, TUTTI_FLOAT32, NULL, NULL, NULL, NULL, 0, 1));
	bad.rule = TUTTI_PS_SUM;
	TT_CHECK(refused(&bad, TUTTI_FLOAT32, 1, "rule is 0"));
	bad = good, bad.rule = TUTTI_PS_ADAM;
	TT_CHECK(refused(&bad, TUTTI_FLOAT32, 1, "state2 is NULL"));
	bad = good, bad.pad = 1;
	TT_CHECK(refused(&bad, TUTTI_FLOAT32, 1, "pad is 1"));
	bad = good, bad.rate = -1;
	TT_CHECK(refused(&bad, TUTTI_FLOAT32, 1, "rate is -1"));
	bad = good, bad.rate = 1e-60;
	TT_CHECK(refused(&bad, TUTTI_FLOAT32, 1, "rate is 1e-60"));
	bad = good, bad.momentum = 1;
	TT_CHECK(refused(&bad, TUTTI_FLOAT32, 1, "momentum is 1"));
	bad = good, bad.momentum = 0.99999999; /* 1 in float */
	TT_CHECK(refused(&bad, TUTTI_FLOAT32, 1, "momentum is 0.99999999"));
	TT_CHECK(!tutti_rule_apply(&bad, TUTTI_FLOAT64, NULL, NULL, NULL, NULL, 0, 1));
	bad = good, bad.size = 3;
	TT_CHECK(refused(&bad, TUTTI_FLOAT32, 1, "size"));
	TT_CHECK(refused(&good, TUTTI_INT32, 1, "int32"));
	TT_CHECK(refused(&good, TUTTI_FLOAT32, 0, "step is 0"));
	TT_CHECK(tutti_rule_apply(&good, TUTTI_FLOAT32, &x, NULL, &s, NULL, 1, 1) == -EINVAL);
}

static const struct tt_test tests[] = {{"version", version},
				       {"last_error", last_error},
				       {"rule_bits", rule_bits},
				       {"rule_refusals", rule_refusals},
				       {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("train", tests, argc, argv);
}
