/* SPDX-License-Identifier: BSD-3-Clause */
/* States of local steps are made and freed. */
#include "train/local_steps_state.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/train_fail.h"

static int check_outer(const char *call, const struct tutti_local_steps_config *c)
{
	double one = 1, none = 0, state1 = 0, state2 = 0;

	if (c->inner_rate && !(c->inner_rate > 0 && isfinite((float)c->inner_rate)))
		return tt_train_fail(-EINVAL, "%s: inner_rate is %g; it must be 0 or more", call,
				     c->inner_rate);
	if (!c->outer && (c->codec || c->flags & TUTTI_LOCAL_DELAYED || c->inner_rate))
		return tt_train_fail(-EINVAL,
				     "%s: outer is NULL, and %s needs an outer rule; SGD of rate 1 "
				     "averages the parameters",
				     call,
				     c->codec	     ? "a codec"
				     : c->inner_rate ? "inner_rate"
						     : "TUTTI_LOCAL_DELAYED");
	if (c->codec && c->datatype != TUTTI_FLOAT32)
		return tt_train_fail(-EINVAL,
				     "%s: codec %s encodes float32; drop it, or use parameters of "
				     "float32",
				     call, tutti_codec_name(c->codec));
	return c->outer ? tutti_rule_apply(c->outer, c->datatype, &one, &none, &state1, &state2, 0,
					   1)
			: 0;
}

static int check_config(const char *call, const struct tutti_local_steps_config *c)
{
	int err;

	if (c->datatype != TUTTI_FLOAT32 && c->datatype != TUTTI_FLOAT64)
		return tt_train_fail(-EINVAL, "%s: datatype is %s; it must be float32 or float64",
				     call, tutti_datatype_name(c->datatype));
	if (c->flags & ~TUTTI_LOCAL_DELAYED)
		return tt_train_fail(-EINVAL, "%s: flags are %#x; this version knows %#x", call,
				     c->flags, TUTTI_LOCAL_DELAYED);
	if (c->every < 1)
		return tt_train_fail(-EINVAL, "%s: every is %d; a round has at least 1 step", call,
				     c->every);
	if (c->pad)
		return tt_train_fail(-EINVAL, "%s: pad is %d; it must be 0", call, c->pad);
	err = check_outer(call, c);
	return err ? err
		   : tt_buckets_check(call, c->n, c->counts, c->parameters, "parameters",
				      tutti_datatype_size(c->datatype));
}

static int reserve(const char *call, struct tutti_local_steps *l,
		   const struct tutti_local_steps_config *c)
{
	int err = tt_buckets_new(&l->b, c->n, c->counts, tutti_datatype_size(c->datatype));
	size_t bytes = err ? 0 : tt_local_bytes(l);
	int i, states = l->has_outer ? tutti_rule_states(l->outer.rule) : 0;
	void *pool;

	l->parameters = malloc(c->n * sizeof(*l->parameters));
	l->start = malloc(bytes + 1);
	if (err || !l->parameters || !l->start)
		return tt_train_fail(-ENOMEM, "%s: no memory", call);
	memcpy(l->parameters, c->parameters, c->n * sizeof(*l->parameters));
	tt_buckets_divide(&l->b, NULL, SIZE_MAX, SIZE_MAX);
	for (i = 0; i < states; i++) {
		l->state[i] = calloc(1, bytes + 1);
		if (!l->state[i])
			return tt_train_fail(-ENOMEM, "%s: no memory for %zu bytes of state", call,
					     bytes);
	}
	for (i = 0; i <= l->delayed; i++) {
		err = tutti_alloc(tutti_comm_context(l->comm), bytes + 1, &pool);
		if (err)
			return err;
		l->change[i] = pool;
	}
	return l->codec ? tutti_feedback_create(l->comm, l->codec, l->b.total, &l->feedback) : 0;
}

static void destroy(struct tutti_local_steps *l)
{
	int i;

	tutti_wait(&l->sum);
	tutti_feedback_free(l->feedback);
	for (i = 0; i < 2; i++) {
		tutti_free(l->change[i]);
		free(l->state[i]);
	}
	if (l->comm)
		tutti_comm_free(l->comm);
	tt_buckets_free(&l->b);
	free(l->parameters);
	free(l->start);
	l->magic = 0;
	free(l);
}

/* Collective: the parameters of rank 0, or the same error on all ranks. */
static int begin(const char *call, struct tutti_local_steps *l, unsigned flags)
{
	struct tt_same same[] = {
		TT_SAME_DATATYPE("datatype", l->datatype),
		TT_SAME_NUMBER("flags", flags),
		TT_SAME_NUMBER("every", l->every),
		TT_SAME_NUMBER("the outer rule", l->has_outer ? (uint64_t)l->outer.rule : 0),
		TT_SAME_REAL("the outer rate", l->has_outer ? l->outer.rate : 0),
		TT_SAME_REAL("the outer momentum", l->has_outer ? l->outer.momentum : 0),
		TT_SAME_REAL("the outer beta1", l->has_outer ? l->outer.beta1 : 0),
		TT_SAME_REAL("the outer beta2", l->has_outer ? l->outer.beta2 : 0),
		TT_SAME_REAL("the outer epsilon", l->has_outer ? l->outer.epsilon : 0),
		TT_SAME_REAL("the outer weight_decay", l->has_outer ? l->outer.weight_decay : 0),
		TT_SAME_REAL("inner_rate", l->inner_rate),
		TT_SAME_HASH("the codec", tt_train_codec_number(l->codec))};
	int err = tt_buckets_agree(l->comm, call, same, sizeof(same) / sizeof(same[0]), &l->b);

	if (err)
		return err;
	tt_bucket_pack(&l->b, 0, l->parameters, l->start);
	err = tutti_bcast(l->start, l->b.total, l->datatype, 0, l->comm);
	if (err)
		return err;
	tt_bucket_unpack(&l->b, 0, l->start, l->parameters);
	return tt_train_agree(l->comm, call, 0); /* a broadcast needs no rank but its root */
}

int tutti_local_steps_create(struct tutti_comm *comm, const struct tutti_local_steps_config *config,
			     struct tutti_local_steps **local)
{
	static const char call[] = "tutti_local_steps_create";
	static const struct tt_train_kind kind = {call, "a local-steps object",
						  "tutti_local_steps_free"};
	struct tutti_local_steps *l = calloc(1, sizeof(*l));
	struct tutti_local_steps_config c;
	struct tutti_comm *own;
	int err = tt_train_read_config(call, "config", config,
				       TT_TRAIN_TO(tutti_local_steps_config, codec), sizeof(c), &c);

	if (!err)
		err = check_config(call, &c);
	if (!err && !local)
		err = tt_train_fail(-EINVAL, "%s: local is NULL", call);
	if (!err && !l)
		err = tt_train_fail(-ENOMEM, "%s: no memory", call);
	err = tt_train_join(comm, &kind, err, &own);
	if (err) {
		free(l);
		return err;
	}
	l->comm = own;
	l->magic = TT_LOCAL_STEPS_MAGIC;
	l->has_outer = c.outer != NULL;
	if (c.outer)
		l->outer = *c.outer;
	l->outer.size = sizeof(l->outer);
	l->inner = (struct tutti_rule){
		.size = sizeof(l->inner), .rule = TUTTI_PS_SGD, .rate = c.inner_rate};
	l->delayed = c.flags & TUTTI_LOCAL_DELAYED;
	l->every = c.every;
	l->inner_rate = c.inner_rate;
	l->datatype = c.datatype;
	l->codec = c.codec;
	err = tt_train_agree(own, call, reserve(call, l, &c));
	if (!err)
		err = begin(call, l, c.flags);
	if (err) {
		destroy(l);
		return err;
	}
	*local = l;
	return 0;
}

int tutti_local_steps_free(struct tutti_local_steps *l)
{
	int err;

	if (!l)
		return 0;
	if (TT_TRAIN_CHECK("tutti_local_steps_free", l, "local", TT_LOCAL_STEPS_MAGIC))
		return -EINVAL;
	err = l->error || l->made ? 0 : tutti_local_steps_finish(l);
	destroy(l);
	return err;
}
