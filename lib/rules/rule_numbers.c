/* SPDX-License-Identifier: BSD-3-Clause */
/* The numbers of the update rules, as the caller passes them. */
#include "lib/rules/rule_numbers.h"

#include <errno.h>
#include <float.h>
#include <math.h>

#include "lib/base/datatype.h"
#include "lib/base/error.h"

static double or_default(double value, double other)
{
	return value != 0 ? value : other;
}

void tt_rule_defaults(struct tutti_ps_options *o)
{
	o->rate = or_default(o->rate, 0.01);
	o->momentum = or_default(o->momentum, 0.9);
	o->beta1 = or_default(o->beta1, 0.9);
	o->beta2 = or_default(o->beta2, o->rule == TUTTI_PS_RMSPROP ? 0.99 : 0.999);
	o->epsilon = or_default(o->epsilon, o->rule == TUTTI_PS_ADAGRAD ? 1e-10 : 1e-8);
}

/* 0 or more. Rounded to the type of the computation, it must be neither 0 nor infinite. */
static int check_factor(const char *what, const char *name, double x, enum tutti_datatype type)
{
	double most = type == TUTTI_FLOAT64 ? DBL_MAX : FLT_MAX;

	if (!(x >= 0 && x <= most))
		return tt_fail(-EINVAL, "%s: %s is %g; it must be 0 (the default) to %g", what,
			       name, x, most);
	if (x > 0 && type != TUTTI_FLOAT64 && !(float)x)
		return tt_fail(-EINVAL,
			       "%s: %s is %g, which is 0 in the float that a table of %s "
			       "computes with; make it larger",
			       what, name, x, tt_datatype_name(type));
	return 0;
}

/* The share of the state that is kept: with 1 or more the state grows without bound. */
static int check_share(const char *what, const char *name, double x, enum tutti_datatype type)
{
	if (!(x >= 0 && x < 1))
		return tt_fail(-EINVAL,
			       "%s: %s is %g; it must be 0 (the default) or more, and less than 1",
			       what, name, x);
	if (type != TUTTI_FLOAT64 && !((float)x < 1))
		return tt_fail(-EINVAL,
			       "%s: %s is %.12g, which is 1 in the float that a table of %s "
			       "computes with; make it smaller",
			       what, name, x, tt_datatype_name(type));
	return 0;
}

int tt_rule_check(const char *what, const struct tutti_ps_options *o, enum tutti_datatype type)
{
	int err = check_factor(what, "rate", o->rate, type);

	err = err ? err : check_factor(what, "epsilon", o->epsilon, type);
	err = err ? err : check_factor(what, "weight_decay", o->weight_decay, type);
	err = err ? err : check_share(what, "momentum", o->momentum, type);
	err = err ? err : check_share(what, "beta1", o->beta1, type);
	return err ? err : check_share(what, "beta2", o->beta2, type);
}

void tt_rule_set_step(struct tt_rule_job *job, uint64_t step)
{
	if (tt_rule_states(job->opt->rule) != 2)
		return;
	job->bias1 = 1 - pow(job->opt->beta1, (double)step);
	job->bias2 = 1 - pow(job->opt->beta2, (double)step);
}
