/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The update rules in vectors VEC of REAL, with square root SQRT, the NaN NOT_A_NUMBER, and NAME to
 * make names. Included by rule_vector.c, for float and for double. The operations are those of
 * lib/verify/rule_loops.h, in the same order.
 */
struct NAME(factors) {
	REAL r, decay, m, e, keep, add, b1, a1, b2, a2, c1, c2; /* a: 1 - b */
};

/* The new values of a vector, from old values, updates and state. */
typedef VEC NAME(step_fn)(const struct NAME(factors) * f, VEC x, VEC u, VEC *s1, VEC *s2);

/* How values and updates lie in memory; state lies as it is computed. */
struct NAME(form) {
	size_t size; /* of a vector's elements */
	VEC (*load)(const void *p);
	void (*store)(void *p, VEC x);
};

INLINE VEC NAME(load)(const void *p)
{
	VEC x;

	memcpy(&x, p, sizeof(x));
	return x;
}

INLINE void NAME(store)(void *p, VEC x)
{
	memcpy(p, &x, sizeof(x));
}

INLINE VEC NAME(one_nan)(VEC x)
{
	VEC nan = (VEC){0} + NOT_A_NUMBER;
	vec is = (vec)(x == x);

	return (VEC)((is & (vec)x) | (~is & (vec)nan));
}

INLINE VEC NAME(sgd)(const struct NAME(factors) * f, VEC x, VEC u, VEC *s1, VEC *s2)
{
	return x - f->r * (u + f->decay * x);
}

INLINE VEC NAME(momentum)(const struct NAME(factors) * f, VEC x, VEC u, VEC *s1, VEC *s2)
{
	*s1 = NAME(one_nan)(f->m * *s1 + (u + f->decay * x));
	return x - f->r * *s1;
}

INLINE VEC NAME(nesterov)(const struct NAME(factors) * f, VEC x, VEC u, VEC *s1, VEC *s2)
{
	VEC g = u + f->decay * x;

	*s1 = NAME(one_nan)(f->m * *s1 + g);
	return x - f->r * (g + f->m * *s1);
}

INLINE VEC NAME(adaptive)(const struct NAME(factors) * f, VEC x, VEC u, VEC *s1, VEC *s2)
{
	VEC g = u + f->decay * x;

	*s1 = NAME(one_nan)(f->keep * *s1 + f->add * (g * g));
	return x - f->r * g / (SQRT(*s1) + f->e);
}

INLINE VEC NAME(adam)(const struct NAME(factors) * f, VEC x, VEC g, VEC *s1, VEC *s2)
{
	*s1 = NAME(one_nan)(f->b1 * *s1 + f->a1 * g);
	*s2 = NAME(one_nan)(f->b2 * *s2 + f->a2 * (g * g));
	return x - f->r * (*s1 / f->c1) / (SQRT(*s2 / f->c2) + f->e);
}

INLINE VEC NAME(adam_l2)(const struct NAME(factors) * f, VEC x, VEC u, VEC *s1, VEC *s2)
{
	return NAME(adam)(f, x, u + f->decay * x, s1, s2);
}

INLINE VEC NAME(adamw)(const struct NAME(factors) * f, VEC x, VEC u, VEC *s1, VEC *s2)
{
	return NAME(adam)(f, x - f->r * f->decay * x, u, s1, s2);
}

INLINE void NAME(one)(const struct NAME(factors) * f, const struct NAME(form) * form,
		      NAME(step_fn) * step, const int states, void *px, const void *pu, REAL *p1,
		      REAL *p2)
{
	VEC s1 = states > 0 ? NAME(load)(p1) : (VEC){0},
	    s2 = states > 1 ? NAME(load)(p2) : (VEC){0};
	VEC x = NAME(one_nan)(step(f, form->load(px), form->load(pu), &s1, &s2));

	form->store(px, x);
	if (states > 0)
		NAME(store)(p1, s1);
	if (states > 1)
		NAME(store)(p2, s2);
}

/* The last elements, fewer than a vector has: a vector of them and of zeros. */
INLINE void NAME(rest)(const struct NAME(factors) * f, const struct NAME(form) * form,
		       NAME(step_fn) * step, const int states, char *x, const char *u, REAL *s1,
		       REAL *s2, size_t n)
{
	const size_t per = sizeof(VEC) / sizeof(REAL), len = n * (form->size / per);
	char rx[sizeof(VEC)] = {0}, ru[sizeof(VEC)] = {0};
	REAL r1[sizeof(VEC) / sizeof(REAL)] = {0}, r2[sizeof(VEC) / sizeof(REAL)] = {0};

	memcpy(rx, x, len);
	memcpy(ru, u, len);
	if (states > 0)
		memcpy(r1, s1, n * sizeof(REAL));
	if (states > 1)
		memcpy(r2, s2, n * sizeof(REAL));
	NAME(one)(f, form, step, states, rx, ru, r1, r2);
	memcpy(x, rx, len);
	if (states > 0)
		memcpy(s1, r1, n * sizeof(REAL));
	if (states > 1)
		memcpy(s2, r2, n * sizeof(REAL));
}

INLINE void NAME(run)(const struct tt_rule_job *job, const struct NAME(factors) * factors,
		      const struct NAME(form) * form, NAME(step_fn) * step, const int states)
{
	const struct NAME(factors) f = *factors; /* which no store can change */
	const size_t per = sizeof(VEC) / sizeof(REAL), elem = form->size / per;
	char *x = job->x;
	const char *u = job->u;
	REAL *s1 = job->s1, *s2 = job->s2;
	size_t i, whole = job->count / per * per;

	for (i = 0; i < whole; i += per)
		NAME(one)
	(&f, form, step, states, x + i * elem, u + i * elem, states > 0 ? s1 + i : NULL,
	 states > 1 ? s2 + i : NULL);
	if (i < job->count)
		NAME(rest)
	(&f, form, step, states, x + i * elem, u + i * elem, states > 0 ? s1 + i : NULL,
	 states > 1 ? s2 + i : NULL, job->count - i);
}

INLINE void NAME(apply)(const struct tt_rule_job *job, const struct NAME(form) * form)
{
	const struct tutti_ps_options *o = job->opt;
	bool sums = o->rule == TUTTI_PS_ADAGRAD;
	struct NAME(factors) f = {.r = (REAL)o->rate,
				  .decay = (REAL)o->weight_decay,
				  .m = (REAL)o->momentum,
				  .e = (REAL)o->epsilon,
				  .keep = sums ? 1 : (REAL)o->beta2,
				  .add = sums ? 1 : (REAL)(1 - o->beta2),
				  .b1 = (REAL)o->beta1,
				  .a1 = (REAL)(1 - o->beta1),
				  .b2 = (REAL)o->beta2,
				  .a2 = (REAL)(1 - o->beta2),
				  .c1 = (REAL)job->bias1,
				  .c2 = (REAL)job->bias2};

	switch (o->rule) {
	case TUTTI_PS_SGD:
		return NAME(run)(job, &f, form, NAME(sgd), 0);
	case TUTTI_PS_MOMENTUM:
		return NAME(run)(job, &f, form, NAME(momentum), 1);
	case TUTTI_PS_NESTEROV:
		return NAME(run)(job, &f, form, NAME(nesterov), 1);
	case TUTTI_PS_ADAGRAD:
	case TUTTI_PS_RMSPROP:
		return NAME(run)(job, &f, form, NAME(adaptive), 1);
	case TUTTI_PS_ADAM:
		return NAME(run)(job, &f, form, NAME(adam_l2), 2);
	default:
		return NAME(run)(job, &f, form, NAME(adamw), 2);
	}
}
