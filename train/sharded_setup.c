/* SPDX-License-Identifier: BSD-3-Clause */
/* Sharded optimizers are made, freed, and report their memory. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/sharded_state.h"
#include "train/train_fail.h"

static int check_config(const char *call, const struct tutti_sharded_config *c)
{
	double one = 1;
	int err;

	if (c->datatype != TUTTI_FLOAT32 && c->datatype != TUTTI_FLOAT64)
		return tt_train_fail(-EINVAL, "%s: datatype is %s; it must be float32 or float64",
				     call, tutti_datatype_name(c->datatype));
	if (c->flags & ~(TUTTI_SHARDED_SUM | TUTTI_SHARDED_REDUCED))
		return tt_train_fail(-EINVAL, "%s: flags are %#x; this version knows %#x", call,
				     c->flags, TUTTI_SHARDED_SUM | TUTTI_SHARDED_REDUCED);
	if (c->stage != 1 && c->stage != 2)
		return tt_train_fail(-EINVAL, "%s: stage is %d; it must be 1 or 2", call, c->stage);
	if (c->pad)
		return tt_train_fail(-EINVAL, "%s: pad is %d; it must be 0", call, c->pad);
	if (!(c->clip_norm >= 0) || isinf(c->clip_norm))
		return tt_train_fail(-EINVAL, "%s: clip_norm is %g; it must be 0 (none) or more",
				     call, c->clip_norm);
	if (!c->rule)
		return tt_train_fail(-EINVAL, "%s: rule is NULL", call);
	err = tutti_rule_apply(c->rule, c->datatype, &one, &one, &one, &one, 0, 1);
	err = err ? err : tt_sharded_check_codec(call, c);
	return err ? err
		   : tt_buckets_check(call, c->n, c->counts, c->parameters, "parameters",
				      tutti_datatype_size(c->datatype));
}

/* Where each rank's block of each bucket is. */
static int place_blocks(struct tutti_sharded *s)
{
	size_t P = (size_t)s->ranks, k, r, block, count, from;
	struct tt_shard *shard;

	s->table = malloc(s->b.nbuckets * P * 2 * sizeof(*s->table));
	s->shard = s->table ? calloc(s->b.nbuckets, sizeof(*s->shard)) : NULL;
	if (!s->shard)
		return -ENOMEM;
	for (k = 0; k < s->b.nbuckets; k++) {
		shard = &s->shard[k];
		shard->lens = s->table + k * P * 2;
		shard->begins = shard->lens + P;
		count = s->b.bucket[k].count;
		block = (count + P - 1) / P;
		for (r = 0; r < P; r++) {
			from = r * block < count ? r * block : count;
			shard->begins[r] = from;
			shard->lens[r] = count - from < block ? count - from : block;
		}
		shard->lo = shard->begins[s->rank];
		shard->hi = shard->lo + shard->lens[s->rank];
		shard->at = s->own;
		s->own += shard->hi - shard->lo;
	}
	return 0;
}

static int reserve(const char *call, struct tutti_sharded *s, const struct tutti_sharded_config *c)
{
	int err = tt_buckets_new(&s->b, c->n, c->counts, tutti_datatype_size(c->datatype)), i;
	size_t first = s->bucket_bytes < TT_FIRST_BYTES ? s->bucket_bytes : TT_FIRST_BYTES;
	void *pool;

	s->parameters = malloc(c->n * sizeof(*s->parameters));
	s->gradients = calloc(c->n, sizeof(*s->gradients));
	s->ready = calloc(c->n, 1);
	if (err || !s->parameters || !s->gradients || !s->ready)
		return tt_train_fail(-ENOMEM, "%s: no memory", call);
	memcpy(s->parameters, c->parameters, c->n * sizeof(*s->parameters));
	tt_buckets_divide(&s->b, NULL, first, s->bucket_bytes);
	err = place_blocks(s);
	if (!err)
		err = tt_sharded_new_residuals(s);
	for (i = 0; !err && i < s->states; i++) {
		s->state[i] = calloc(s->own + 1, s->b.elem);
		err = s->state[i] ? 0 : -ENOMEM;
	}
	if (err)
		return tt_train_fail(err, "%s: no memory for %zu elements of state", call, s->own);
	err = tutti_alloc(tutti_comm_context(s->comm), (s->own + 1) * s->b.elem, &pool);
	if (!err)
		s->gradient = pool;
	return err;
}

static void destroy(struct tutti_sharded *s)
{
	size_t k;
	int i;

	for (k = 0; s->shard && k < s->b.nbuckets; k++) {
		tutti_wait(&s->shard[k].scatter); /* after an error some still run */
		tutti_wait(&s->shard[k].gather);
		tt_sharded_drop_buffer(s, k);
		tt_sharded_drop_coded(s, k);
		free(s->shard[k].residual);
		free(s->shard[k].before);
	}
	for (i = 0; i < 2; i++)
		free(s->state[i]);
	tutti_free(s->gradient);
	if (s->comm)
		tutti_comm_free(s->comm);
	tt_buckets_free(&s->b);
	free(s->parameters);
	free(s->gradients);
	free(s->ready);
	free(s->shard);
	free(s->table);
	pthread_mutex_destroy(&s->lock);
	s->magic = 0;
	free(s);
}

static int agree(const char *call, const struct tutti_sharded *s)
{
	const struct tutti_rule *rule = &s->rule;
	const struct tt_same same[] = {TT_SAME_DATATYPE("datatype", s->datatype),
				       TT_SAME_NUMBER("flags", s->flags),
				       TT_SAME_NUMBER("stage", s->stage),
				       TT_SAME_NUMBER("bucket_bytes", s->bucket_bytes),
				       TT_SAME_REAL("clip_norm", s->clip_norm),
				       TT_SAME_NUMBER("rule", rule->rule),
				       TT_SAME_REAL("rate", rule->rate),
				       TT_SAME_REAL("momentum", rule->momentum),
				       TT_SAME_REAL("beta1", rule->beta1),
				       TT_SAME_REAL("beta2", rule->beta2),
				       TT_SAME_REAL("epsilon", rule->epsilon),
				       TT_SAME_REAL("weight_decay", rule->weight_decay),
				       TT_SAME_HASH("the codec", tt_train_codec_number(s->codec))};

	return tt_buckets_agree(s->comm, call, same, sizeof(same) / sizeof(same[0]), &s->b);
}

int tutti_sharded_create(struct tutti_comm *comm, const struct tutti_sharded_config *config,
			 struct tutti_sharded **sharded)
{
	static const char call[] = "tutti_sharded_create";
	static const struct tt_train_kind kind = {call, "a sharded optimizer",
						  "tutti_sharded_free"};
	struct tutti_sharded *s = calloc(1, sizeof(*s));
	struct tutti_sharded_config c;
	struct tutti_comm *own;
	int err = tt_train_read_config(call, "config", config,
				       TT_TRAIN_TO(tutti_sharded_config, bucket_bytes), sizeof(c),
				       &c);

	if (!err)
		err = check_config(call, &c);
	if (!err && !sharded)
		err = tt_train_fail(-EINVAL, "%s: sharded is NULL", call);
	if (!err && !s)
		err = tt_train_fail(-ENOMEM, "%s: no memory", call);
	err = tt_train_join(comm, &kind, err, &own);
	if (err) {
		free(s);
		return err;
	}
	pthread_mutex_init(&s->lock, NULL);
	s->comm = own;
	s->magic = TT_SHARDED_MAGIC;
	s->datatype = c.datatype;
	s->flags = c.flags;
	s->stage = c.stage;
	s->rule = *c.rule;
	s->rule.size = sizeof(s->rule);
	s->states = tutti_rule_states(c.rule->rule);
	s->clip_norm = c.clip_norm;
	s->bucket_bytes = c.bucket_bytes ? c.bucket_bytes : TT_BUCKET_BYTES;
	s->codec = c.codec;
	s->rank = tutti_comm_rank(s->comm);
	s->ranks = tutti_comm_size(s->comm);
	err = tt_train_agree(own, call, reserve(call, s, &c));
	if (!err)
		err = agree(call, s);
	if (!err)
		err = tt_sharded_compare_codecs(s);
	if (err) {
		destroy(s);
		return err;
	}
	*sharded = s;
	return 0;
}

int tutti_sharded_free(struct tutti_sharded *s)
{
	int err = 0;

	if (!s)
		return 0;
	if (TT_TRAIN_CHECK("tutti_sharded_free", s, "sharded", TT_SHARDED_MAGIC))
		return -EINVAL;
	if (!s->error)
		err = tt_sharded_gathered_all(s);
	destroy(s);
	return err;
}

int tutti_sharded_memory(struct tutti_sharded *s, struct tutti_sharded_memory *memory)
{
	static const char call[] = "tutti_sharded_memory";
	struct tutti_sharded_memory own = {.size = sizeof(own)};

	if (TT_TRAIN_CHECK(call, s, "sharded", TT_SHARDED_MAGIC))
		return -EINVAL;
	if (!memory)
		return tt_train_fail(-EINVAL, "%s: memory is NULL", call);
	pthread_mutex_lock(&s->lock);
	own.state_bytes = (uint64_t)s->states * s->own * s->b.elem;
	own.gradient_bytes = s->own * s->b.elem;
	own.buffer_bytes = s->most;
	pthread_mutex_unlock(&s->lock);
	return tt_train_write_stats(call, memory, TT_TRAIN_TO(tutti_sharded_memory, buffer_bytes),
				    sizeof(own), &own);
}

int tt_sharded_over(const struct tutti_sharded *s, const char *call)
{
	if (s->error)
		return tt_train_fail(s->error,
				     "%s: a collective of this optimizer has failed; free it and "
				     "make one on a communicator that works",
				     call);
	return 0;
}
