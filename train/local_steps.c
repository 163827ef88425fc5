/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Local SGD and DiLoCo. A round starts with the same parameters x on all ranks; rank i ends it with
 * x_i.
 *
 *	average:	x = mean of x_i
 *	outer rule:	d = mean of (x - x_i), x by the rule with gradient d
 *	delayed:	d of a round is applied at the end of the next round, whose start it does
 *			not change: the all-reduce has a whole round to end
 *
 * With an inner rate r the steps are made here, and d is r times the mean of the sums of the
 * gradients: no difference of parameters rounds, and rounds of one step have the bits of SGD on the
 * averaged gradient.
 *
 * Papers: Stich, Local SGD Converges Fast and Communicates Little (2019); Douillard et al., DiLoCo
 * (2023).
 */
#include "train/local_steps_state.h"

#include <errno.h>
#include <string.h>

#include "train/train_fail.h"

/* ---- loops over elements: every operation rounds by itself ---- */

/* change of this round: += from, or at its first step = from. */
static void add_gradient(struct tutti_local_steps *l, size_t at, const void *from, size_t count)
{
	size_t i;

	if (!l->made) {
		memcpy(l->change[0] + at * l->b.elem, from, count * l->b.elem);
	} else if (l->datatype == TUTTI_FLOAT32) {
		float *to = (float *)l->change[0] + at;

		for (i = 0; i < count; i++)
			to[i] += ((const float *)from)[i];
	} else {
		double *to = (double *)l->change[0] + at;

		for (i = 0; i < count; i++)
			to[i] += ((const double *)from)[i];
	}
}

/* change = start - change */
static void subtract(struct tutti_local_steps *l)
{
	size_t i;

	if (l->datatype == TUTTI_FLOAT32)
		for (i = 0; i < l->b.total; i++)
			((float *)l->change[0])[i] =
				((float *)l->start)[i] - ((float *)l->change[0])[i];
	else
		for (i = 0; i < l->b.total; i++)
			((double *)l->change[0])[i] =
				((double *)l->start)[i] - ((double *)l->change[0])[i];
}

static void scale(struct tutti_local_steps *l, void *change)
{
	size_t i;

	if (l->datatype == TUTTI_FLOAT32)
		for (i = 0; i < l->b.total; i++)
			((float *)change)[i] *= (float)l->inner_rate;
	else
		for (i = 0; i < l->b.total; i++)
			((double *)change)[i] *= l->inner_rate;
}

/* ---- rounds ---- */

static int all_reduce(struct tutti_local_steps *l, void *buf, struct tutti_request **request)
{
	struct tutti_call call = {.size = sizeof(call),
				  .coll = TUTTI_COLL_ALLREDUCE,
				  .sendbuf = TUTTI_IN_PLACE,
				  .recvbuf = buf,
				  .count = l->b.total,
				  .datatype = l->datatype,
				  .op = TUTTI_AVG,
				  .codec = l->codec,
				  .feedback = l->feedback};

	return tutti_call(l->comm, &call, request);
}

/* The outer rule with an averaged change as its gradient. */
static int apply(struct tutti_local_steps *l, void *change)
{
	if (l->inner_rate)
		scale(l, change);
	return tutti_rule_apply(&l->outer, l->datatype, l->start, change, l->state[0], l->state[1],
				l->b.total, ++l->rounds);
}

/* The change of the round before, which has had a round to arrive. */
static int apply_delayed(struct tutti_local_steps *l)
{
	int err;

	if (!l->sum)
		return 0;
	err = tutti_wait(&l->sum);
	return err ? err : apply(l, l->change[1]);
}

static int end_delayed(struct tutti_local_steps *l)
{
	char *swap = l->change[1];
	int err = apply_delayed(l);

	if (err)
		return err;
	l->change[1] = l->change[0];
	l->change[0] = swap;
	return all_reduce(l, l->change[1], &l->sum);
}

static int end_round(struct tutti_local_steps *l)
{
	int err;

	if (!l->inner_rate)
		tt_bucket_pack(&l->b, 0, l->parameters, l->change[0]);
	if (l->has_outer && !l->inner_rate)
		subtract(l);
	if (l->delayed)
		err = end_delayed(l);
	else
		err = all_reduce(l, l->change[0], NULL);
	if (!err && !l->delayed && l->has_outer)
		err = apply(l, l->change[0]);
	else if (!err && !l->has_outer)
		memcpy(l->start, l->change[0], tt_local_bytes(l));
	if (err)
		return err;
	tt_bucket_unpack(&l->b, 0, l->start, l->parameters);
	l->made = 0;
	return 0;
}

static int inner_step(struct tutti_local_steps *l, void *const *gradients)
{
	size_t i;
	int err = 0;

	for (i = 0; !err && i < l->b.n; i++) {
		if (!l->b.counts[i])
			continue;
		add_gradient(l, l->b.offset[i], gradients[i], l->b.counts[i]);
		err = tutti_rule_apply(&l->inner, l->datatype, l->parameters[i], gradients[i], NULL,
				       NULL, l->b.counts[i], 1);
	}
	return err;
}

static int check_step(const struct tutti_local_steps *l, void *const *gradients)
{
	static const char call[] = "tutti_local_steps_step";
	size_t i;

	if (TT_TRAIN_CHECK(call, l, "local", TT_LOCAL_STEPS_MAGIC))
		return -EINVAL;
	if (l->error)
		return tt_train_fail(l->error,
				     "%s: an exchange of this state has failed; free it and make "
				     "one on a communicator that works",
				     call);
	if (!gradients != !l->inner_rate)
		return tt_train_fail(-EINVAL,
				     "%s: gradients is %s; the state was made with inner_rate %g",
				     call, gradients ? "not NULL" : "NULL", l->inner_rate);
	for (i = 0; gradients && i < l->b.n; i++)
		if (l->b.counts[i] && !gradients[i])
			return tt_train_fail(-EINVAL, "%s: gradients of tensor %zu is NULL", call,
					     i);
	return 0;
}

int tutti_local_steps_step(struct tutti_local_steps *l, void *const *gradients)
{
	int err = check_step(l, gradients), done;

	if (err)
		return err;
	if (gradients)
		err = inner_step(l, gradients);
	if (err)
		return err;
	if (++l->made == l->every)
		err = end_round(l);
	else if (l->sum) /* its result is for the wait */
		tutti_request_get_status(l->sum, &done);
	l->error = err;
	return err;
}

int tutti_local_steps_finish(struct tutti_local_steps *l)
{
	int err;

	if (TT_TRAIN_CHECK("tutti_local_steps_finish", l, "local", TT_LOCAL_STEPS_MAGIC))
		return -EINVAL;
	if (l->error)
		return check_step(l, NULL);
	err = l->made ? end_round(l) : 0;
	if (!err && l->sum) {
		err = apply_delayed(l);
		tt_bucket_unpack(&l->b, 0, l->start, l->parameters);
	}
	l->error = err;
	return err;
}
