/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The update rules in one precision: REAL, its square root SQRT, and NAME to make names of. Included by
 * rule.c, once for float and once for double; everything is computed in REAL, in the order that is written here.
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
static void NAME(sgd)(const struct tutti_ps_options *o, REAL *x, const REAL *u, size_t count)
{
	REAL r = (REAL)o->rate, decay = (REAL)o->weight_decay;
	size_t i;

	for (i = 0; i < count; i++)
		x[i] -= r * (u[i] + decay * x[i]);
}

static void NAME(momentum)(const struct tutti_ps_options *o, REAL *x, const REAL *u, REAL *v,
			   size_t count)
{
	REAL r = (REAL)o->rate, decay = (REAL)o->weight_decay, m = (REAL)o->momentum, g;
	bool nesterov = o->rule == TUTTI_PS_NESTEROV;
	size_t i;

	for (i = 0; i < count; i++) {
		g = u[i] + decay * x[i];
		v[i] = m * v[i] + g;
		x[i] -= r * (nesterov ? g + m * v[i] : v[i]);
	}
}

static void NAME(adaptive)(const struct tutti_ps_options *o, REAL *x, const REAL *u, REAL *a,
			   size_t count)
{
	REAL r = (REAL)o->rate, decay = (REAL)o->weight_decay, e = (REAL)o->epsilon, g;
	REAL keep = o->rule == TUTTI_PS_ADAGRAD ? 1 : (REAL)o->beta2;
	REAL add = o->rule == TUTTI_PS_ADAGRAD ? 1 : 1 - (REAL)o->beta2;
	size_t i;

	for (i = 0; i < count; i++) {
		g = u[i] + decay * x[i];
		a[i] = keep * a[i] + add * (g * g);
		x[i] -= r * g / (SQRT(a[i]) + e);
	}
}

static void NAME(adam)(const struct tutti_ps_options *o, REAL *x, const REAL *u, REAL *m, REAL *v,
		       size_t count, uint64_t step)
{
	REAL r = (REAL)o->rate, decay = (REAL)o->weight_decay, e = (REAL)o->epsilon, g;
	REAL b1 = (REAL)o->beta1, b2 = (REAL)o->beta2;
	REAL c1 = (REAL)(1 - pow(o->beta1, (double)step)), c2 = (REAL)(1 - pow(o->beta2, (double)step));
	bool apart = o->rule == TUTTI_PS_ADAMW;
	size_t i;

	for (i = 0; i < count; i++) {
		if (apart)
			x[i] -= r * decay * x[i];
		g = apart ? u[i] : u[i] + decay * x[i];
		m[i] = b1 * m[i] + (1 - b1) * g;
		v[i] = b2 * v[i] + (1 - b2) * (g * g);
		x[i] -= r * (m[i] / c1) / (SQRT(v[i] / c2) + e);
	}
}

static void NAME(apply)(const struct tutti_ps_options *o, REAL *x, const REAL *u, REAL *s1, REAL *s2,
			size_t count, uint64_t step)
{
	switch (o->rule) {
	case TUTTI_PS_SGD:
		NAME(sgd)(o, x, u, count);
		break;
	case TUTTI_PS_MOMENTUM:
	case TUTTI_PS_NESTEROV:
		NAME(momentum)(o, x, u, s1, count);
		break;
	case TUTTI_PS_ADAGRAD:
	case TUTTI_PS_RMSPROP:
		NAME(adaptive)(o, x, u, s1, count);
		break;
	default:
		NAME(adam)(o, x, u, s1, s2, count, step);
	}
}
