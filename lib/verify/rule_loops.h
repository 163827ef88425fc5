/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The update rules in one precision: REAL, its square root SQRT, its NaN NOT_A_NUMBER, and NAME to
 * make names. rule_reference.c includes it once for float and once for double. All operations are
 * in REAL, in the order written here. Only 1 - b1 and 1 - b2 are computed in double and rounded
 * once: in float, the relative error of 1 - 0.9999 is a thousandth.
 *
 *	g = u + weight_decay x
 *	SGD		x -= r g
 *	momentum	v = m v + g;			x -= r v
 *	Nesterov	v = m v + g;			x -= r (g + m v)
 *	Adagrad		a += g g;			x -= r g / (sqrt(a) + e)
 *	RMSProp		a = b2 a + (1 - b2) g g;	x -= r g / (sqrt(a) + e)
 *	Adam		m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g g
 *			x -= r (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + e)
 *	AdamW		x -= r weight_decay x, then Adam with g = u
 */
/* Which of two NaNs survives an operation depends on the compiler. */
static REAL NAME(one_nan)(REAL x)
{
	return x == x ? x : NOT_A_NUMBER;
}

static void NAME(sgd)(const struct tutti_ps_options *o, REAL *x, const REAL *u, size_t count)
{
	REAL r = (REAL)o->rate, decay = (REAL)o->weight_decay;
	size_t i;

	for (i = 0; i < count; i++)
		x[i] = NAME(one_nan)(x[i] - r * (u[i] + decay * x[i]));
}

static void NAME(momentum)(const struct tutti_ps_options *o, REAL *x, const REAL *u, REAL *v,
			   size_t count)
{
	REAL r = (REAL)o->rate, decay = (REAL)o->weight_decay, m = (REAL)o->momentum, g;
	bool nesterov = o->rule == TUTTI_PS_NESTEROV;
	size_t i;

	for (i = 0; i < count; i++) {
		g = u[i] + decay * x[i];
		v[i] = NAME(one_nan)(m * v[i] + g);
		x[i] = NAME(one_nan)(x[i] - r * (nesterov ? g + m * v[i] : v[i]));
	}
}

static void NAME(adaptive)(const struct tutti_ps_options *o, REAL *x, const REAL *u, REAL *a,
			   size_t count)
{
	REAL r = (REAL)o->rate, decay = (REAL)o->weight_decay, e = (REAL)o->epsilon, g;
	REAL keep = o->rule == TUTTI_PS_ADAGRAD ? 1 : (REAL)o->beta2;
	REAL add = o->rule == TUTTI_PS_ADAGRAD ? 1 : (REAL)(1 - o->beta2);
	size_t i;

	for (i = 0; i < count; i++) {
		g = u[i] + decay * x[i];
		a[i] = NAME(one_nan)(keep * a[i] + add * (g * g));
		x[i] = NAME(one_nan)(x[i] - r * g / (SQRT(a[i]) + e));
	}
}

static void NAME(adam)(const struct tt_rule_job *job, REAL *x, const REAL *u, REAL *m, REAL *v,
		       size_t count)
{
	const struct tutti_ps_options *o = job->opt;
	REAL r = (REAL)o->rate, decay = (REAL)o->weight_decay, e = (REAL)o->epsilon, g;
	REAL b1 = (REAL)o->beta1, b2 = (REAL)o->beta2;
	REAL a1 = (REAL)(1 - o->beta1), a2 = (REAL)(1 - o->beta2);
	REAL c1 = (REAL)job->bias1, c2 = (REAL)job->bias2;
	bool apart = o->rule == TUTTI_PS_ADAMW;
	size_t i;

	for (i = 0; i < count; i++) {
		if (apart)
			x[i] -= r * decay * x[i];
		g = apart ? u[i] : u[i] + decay * x[i];
		m[i] = NAME(one_nan)(b1 * m[i] + a1 * g);
		v[i] = NAME(one_nan)(b2 * v[i] + a2 * (g * g));
		x[i] = NAME(one_nan)(x[i] - r * (m[i] / c1) / (SQRT(v[i] / c2) + e));
	}
}

static void NAME(apply)(const struct tt_rule_job *job, REAL *x, const REAL *u, REAL *s1, REAL *s2,
			size_t count)
{
	switch (job->opt->rule) {
	case TUTTI_PS_SGD:
		NAME(sgd)(job->opt, x, u, count);
		break;
	case TUTTI_PS_MOMENTUM:
	case TUTTI_PS_NESTEROV:
		NAME(momentum)(job->opt, x, u, s1, count);
		break;
	case TUTTI_PS_ADAGRAD:
	case TUTTI_PS_RMSPROP:
		NAME(adaptive)(job->opt, x, u, s1, count);
		break;
	default:
		NAME(adam)(job, x, u, s1, s2, count);
	}
}
