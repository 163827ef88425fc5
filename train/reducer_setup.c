/* SPDX-License-Identifier: BSD-3-Clause */
/* Reducers are made, freed, and report what they have done. */
#include "train/reducer_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "train/train_fail.h"

/* ---- making ---- */

static int check_config(const char *call, const struct tutti_reducer_config *c)
{
	size_t elem = tutti_datatype_size(c->datatype);

	if (!elem || c->datatype == TUTTI_BOOL || c->datatype >= TUTTI_NUM_DATATYPES)
		return tt_train_fail(-EINVAL, "%s: datatype is %s; it must be a number's", call,
				     tutti_datatype_name(c->datatype));
	if (c->flags & ~(TUTTI_REDUCER_SUM | TUTTI_REDUCER_UNUSED))
		return tt_train_fail(-EINVAL, "%s: flags are %#x; this version knows %#x", call,
				     c->flags, TUTTI_REDUCER_SUM | TUTTI_REDUCER_UNUSED);
	if (c->codec && c->datatype != TUTTI_FLOAT32)
		return tt_train_fail(-EINVAL,
				     "%s: codec %s encodes float32; drop it, or use "
				     "gradients of float32",
				     call, tutti_codec_name(c->codec));
	return tt_buckets_check(call, c->n, c->counts, c->gradients, "gradients", elem);
}

static int reserve(const char *call, struct tutti_reducer *r, const struct tutti_reducer_config *c)
{
	int err = tt_buckets_new(&r->b, c->n, c->counts, tutti_datatype_size(c->datatype));
	size_t size = (size_t)tutti_comm_size(r->comm);

	r->tensor_words = (c->n + 63) / 64;
	r->nwords = 2 * r->tensor_words + (size + 63) / 64;
	r->gradients = malloc(c->n * sizeof(*r->gradients));
	r->mark = calloc(c->n, 1);
	r->kept = calloc(c->n, 1);
	r->seen = malloc(c->n * sizeof(*r->seen));
	r->words = calloc(r->nwords, sizeof(*r->words));
	r->told = calloc(size, sizeof(struct tutti_request *));
	if (err || !r->gradients || !r->mark || !r->kept || !r->seen || !r->words || !r->told)
		return tt_train_fail(-ENOMEM, "%s: no memory", call);
	memcpy(r->gradients, c->gradients, c->n * sizeof(*r->gradients));
	tt_buckets_divide(&r->b, NULL, r->first_bytes, r->bucket_bytes);
	r->stats.bytes = r->b.total * r->b.elem;
	return 0;
}

static void destroy(struct tutti_reducer *r)
{
	size_t k;

	for (k = 0; k < r->next && k < r->nparts; k++)
		tutti_wait(&r->part[k].request); /* after an error some still run */
	tt_reducer_free_parts(r);
	if (r->comm)
		tutti_comm_free(r->comm);
	tt_buckets_free(&r->b);
	free(r->gradients);
	free(r->mark);
	free(r->kept);
	free(r->seen);
	free(r->words);
	free(r->told);
	pthread_mutex_destroy(&r->lock);
	r->magic = 0;
	free(r);
}

/* Collective: buckets on all ranks, or the same error on all. */
static int agree(const char *call, struct tutti_reducer *r)
{
	struct tt_same same[] = {TT_SAME_DATATYPE("datatype", r->datatype),
				 TT_SAME_NUMBER("flags", r->flags),
				 TT_SAME_NUMBER("first_bytes", r->first_bytes),
				 TT_SAME_NUMBER("bucket_bytes", r->bucket_bytes),
				 TT_SAME_HASH("the codec", tt_train_codec_number(r->codec))};
	int err;

	err = tt_buckets_agree(r->comm, call, same, 5, &r->b);
	if (err)
		return err;
	return tt_train_agree(r->comm, call, tt_reducer_make_parts(r));
}

int tutti_reducer_create(struct tutti_comm *comm, const struct tutti_reducer_config *config,
			 struct tutti_reducer **reducer)
{
	static const char call[] = "tutti_reducer_create";
	static const struct tt_train_kind kind = {call, "a reducer", "tutti_reducer_free"};
	struct tutti_reducer_config c;
	struct tutti_comm *own;
	struct tutti_reducer *r = calloc(1, sizeof(*r));
	int err = tt_train_read_config(call, "config", config,
				       TT_TRAIN_TO(tutti_reducer_config, codec), sizeof(c), &c);

	if (!err)
		err = check_config(call, &c);
	if (!err && !reducer)
		err = tt_train_fail(-EINVAL, "%s: reducer is NULL", call);
	if (!err && !r)
		err = tt_train_fail(-ENOMEM, "%s: no memory", call);
	err = tt_train_join(comm, &kind, err, &own);
	if (err) {
		free(r);
		return err;
	}
	pthread_mutex_init(&r->lock, NULL);
	r->magic = TT_REDUCER_MAGIC;
	r->comm = own;
	r->datatype = c.datatype;
	r->flags = c.flags;
	r->codec = c.codec;
	r->first_bytes = c.first_bytes ? c.first_bytes : TT_FIRST_BYTES;
	r->bucket_bytes = c.bucket_bytes ? c.bucket_bytes : TT_BUCKET_BYTES;
	err = tt_train_agree(own, call, reserve(call, r, &c));
	if (!err)
		err = agree(call, r);
	if (err) {
		destroy(r);
		return err;
	}
	*reducer = r;
	return 0;
}

int tt_reducer_over(const struct tutti_reducer *r, const char *call)
{
	return tt_train_fail(r->error,
			     "%s: an all-reduce of this reducer has failed; free it and make one "
			     "on a communicator that works",
			     call);
}

int tutti_reducer_free(struct tutti_reducer *r)
{
	if (!r)
		return 0;
	if (TT_TRAIN_CHECK("tutti_reducer_free", r, "reducer", TT_REDUCER_MAGIC))
		return -EINVAL;
	destroy(r);
	return 0;
}

/* ---- reports ---- */

static int check_tensor(const char *call, const struct tutti_reducer *r, size_t tensor)
{
	if (TT_TRAIN_CHECK(call, r, "reducer", TT_REDUCER_MAGIC))
		return -EINVAL;
	if (tensor >= r->b.n)
		return tt_train_fail(-EINVAL, "%s: tensor is %zu; the reducer has 0 to %zu", call,
				     tensor, r->b.n - 1);
	return 0;
}

int tutti_reducer_unused(struct tutti_reducer *r, size_t tensor)
{
	int err = check_tensor("tutti_reducer_unused", r, tensor);

	if (err)
		return err;
	pthread_mutex_lock(&r->lock);
	if (r->stats.steps && tt_reducer_has(r->words + r->tensor_words, tensor))
		err = tt_reducer_has(r->words, tensor) ? 1 : 2;
	pthread_mutex_unlock(&r->lock);
	return err;
}

int tutti_reducer_bucket(struct tutti_reducer *r, size_t tensor, size_t *bucket, size_t *offset)
{
	int err = check_tensor("tutti_reducer_bucket", r, tensor);

	if (!err && (!bucket || !offset))
		err = tt_train_fail(-EINVAL, "tutti_reducer_bucket: %s is NULL",
				    bucket ? "offset" : "bucket");
	if (err)
		return err;
	pthread_mutex_lock(&r->lock);
	*bucket = r->b.bucket_of[tensor];
	*offset = r->b.offset[tensor];
	pthread_mutex_unlock(&r->lock);
	return 0;
}

int tutti_reducer_stats(struct tutti_reducer *r, struct tutti_reducer_stats *stats)
{
	static const char call[] = "tutti_reducer_stats";
	int err;

	if (TT_TRAIN_CHECK(call, r, "reducer", TT_REDUCER_MAGIC))
		return -EINVAL;
	if (!stats)
		return tt_train_fail(-EINVAL, "%s: stats is NULL", call);
	pthread_mutex_lock(&r->lock);
	err = tt_train_write_stats(call, stats, TT_TRAIN_TO(tutti_reducer_stats, step_total_ns),
				   sizeof(r->stats), &r->stats);
	pthread_mutex_unlock(&r->lock);
	return err;
}
