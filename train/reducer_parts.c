/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory, requests and residuals of a reducer's buckets, and their order. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/train_fail.h"
#include "train/reducer_state.h"

static int make_part(struct tutti_reducer *r, size_t k)
{
	struct tt_reducer_part *part = &r->part[k];
	size_t count = r->b.bucket[k].count, bytes = count * r->b.elem;
	struct tutti_call call = {.size = sizeof(call),
				  .coll = TUTTI_COLL_ALLREDUCE,
				  .flags = TUTTI_CALL_PERSISTENT,
				  .sendbuf = TUTTI_IN_PLACE,
				  .count = count,
				  .datatype = r->datatype,
				  .op = r->flags & TUTTI_REDUCER_SUM ? TUTTI_SUM : TUTTI_AVG,
				  .codec = r->codec};
	void *pool;
	int err;

	part->buf = tt_bucket_place(&r->b, k, r->gradients);
	if (!part->buf) {
		err = tutti_alloc(tutti_comm_context(r->comm), bytes ? bytes : 1, &pool);
		if (err)
			return err;
		part->buf = pool;
		part->own = true;
	}
	if (r->codec) {
		err = tutti_feedback_create(r->comm, r->codec, count, &part->feedback);
		if (err)
			return err;
	}
	call.feedback = part->feedback;
	call.recvbuf = part->buf;
	return tutti_call(r->comm, &call, &part->request);
}

int tt_reducer_make_parts(struct tutti_reducer *r)
{
	size_t k;
	int err;

	r->part = calloc(r->b.nbuckets, sizeof(*r->part));
	if (!r->part)
		return tt_train_fail(-ENOMEM, "reducer: no memory for %zu buckets", r->b.nbuckets);
	r->nparts = r->b.nbuckets;
	r->stats.buckets = r->nparts;
	r->stats.in_place = r->stats.packed = 0;
	for (k = 0; k < r->nparts; k++) {
		err = make_part(r, k);
		if (err)
			return err;
		if (r->part[k].own)
			r->stats.packed += r->b.bucket[k].count * r->b.elem;
		else
			r->stats.in_place++;
	}
	/* an all-reduce of no elements may end before all ranks have started it */
	r->compares = r->flags & TUTTI_REDUCER_UNUSED || tutti_comm_size(r->comm) == 1 ||
		      !r->b.bucket[r->nparts - 1].count;
	return 0;
}

void tt_reducer_free_parts(struct tutti_reducer *r)
{
	struct tt_reducer_part *part;
	size_t k;

	for (k = 0; k < r->nparts; k++) {
		part = &r->part[k];
		if (part->request)
			tutti_request_free(part->request);
		tutti_feedback_free(part->feedback);
		if (part->own)
			tutti_free(part->buf);
	}
	free(r->part);
	r->part = NULL;
	r->nparts = 0;
}

/* ---- tensors that were not ready ---- */

void tt_reducer_fill(struct tutti_reducer *r)
{
	struct tt_reducer_part *part;
	size_t i, bytes;
	char *to;

	for (i = 0; i < r->b.n; i++) {
		if (r->mark[i] == TT_READY)
			continue;
		part = &r->part[r->b.bucket_of[i]];
		to = part->buf + r->b.offset[i] * r->b.elem;
		bytes = r->b.counts[i] * r->b.elem;
		if (bytes && !r->kept[i])
			memset(to, 0, bytes);
		else if (bytes && part->own)
			memcpy(to, r->gradients[i], bytes);
		r->b.bucket[r->b.bucket_of[i]].waiting--;
	}
}

/* ---- residuals, which move with their tensors ---- */

/* Copies the residuals between those of buckets and all, in which tensors lie by index. */
static int move_residuals(struct tutti_reducer *r, float *all, float *room, bool save)
{
	size_t states = (size_t)tutti_codec_states(r->codec), k, i, s, at, count;
	const struct tt_bucket *bucket;
	int err;

	for (k = 0; k < r->nparts; k++) {
		bucket = &r->b.bucket[k];
		err = save ? tutti_feedback_save(r->part[k].feedback, room, bucket->count * states)
			   : 0;
		for (i = 0, at = 0; !err && i < r->b.n; at += r->b.counts[i++]) {
			count = r->b.counts[i];
			for (s = 0; r->b.bucket_of[i] == k && s < states; s++) {
				float *one = room + s * bucket->count + r->b.offset[i];
				float *other = all + s * r->b.total + at;

				memcpy(save ? other : one, save ? one : other,
				       count * sizeof(float));
			}
		}
		if (!err && !save)
			err = tutti_feedback_restore(r->part[k].feedback, room,
						     bucket->count * states);
		if (err)
			return err;
	}
	return 0;
}

static size_t state_count(const struct tutti_reducer *r)
{
	return r->b.total * (size_t)tutti_codec_states(r->codec);
}

/* 0: state of count elements may be saved or restored now. */
static int check_state(const char *call, const struct tutti_reducer *r, const float *state,
		       size_t count)
{
	if (r->error)
		return tt_reducer_over(r, call);
	if (tt_reducer_in_step(r))
		return tt_train_fail(-EBUSY,
				     "%s: %zu tensors of a step are ready; call "
				     "tutti_reducer_finish first",
				     call, r->nseen);
	if (!r->codec)
		return tt_train_fail(-EINVAL, "%s: the reducer has no codec, and no state", call);
	if (count != state_count(r))
		return tt_train_fail(-EINVAL,
				     "%s: count is %zu; a state has %d vectors of %zu elements",
				     call, count, tutti_codec_states(r->codec), r->b.total);
	if (!state && count)
		return tt_train_fail(-EINVAL, "%s: state is NULL", call);
	return 0;
}

static int check_finite(const char *call, const float *state, size_t count)
{
	size_t i = 0;

	while (i < count && isfinite(state[i]))
		i++;
	if (i == count)
		return 0;
	return tt_train_fail(-EINVAL,
			     "%s: element %zu of state is %g; restore the state of an intact "
			     "checkpoint",
			     call, i, (double)state[i]);
}

static int move_state(const char *call, struct tutti_reducer *r, float *state, size_t count,
		      bool save)
{
	float *room;
	int err;

	if (TT_TRAIN_CHECK(call, r, "reducer", TT_REDUCER_MAGIC))
		return -EINVAL;
	pthread_mutex_lock(&r->lock);
	err = check_state(call, r, state, count);
	if (!err && !save)
		err = check_finite(call, state, count);
	if (!err) {
		room = malloc((count + 1) * sizeof(*room));
		err = room ? move_residuals(r, state, room, save)
			   : tt_train_fail(-ENOMEM, "%s: no memory for a state", call);
		free(room);
	}
	pthread_mutex_unlock(&r->lock);
	return err;
}

int tutti_reducer_save(struct tutti_reducer *r, float *state, size_t count)
{
	return move_state("tutti_reducer_save", r, state, count, true);
}

int tutti_reducer_restore(struct tutti_reducer *r, const float *state, size_t count)
{
	return move_state("tutti_reducer_restore", r, (float *)state, count, false);
}

static int new_parts(struct tutti_reducer *r, const size_t *order)
{
	size_t elements = r->codec ? state_count(r) + 1 : 0;
	float *all = NULL, *room = NULL;
	int err = 0;

	if (r->codec) {
		all = malloc(elements * sizeof(*all));
		room = malloc(elements * sizeof(*room));
		err = all && room ? move_residuals(r, all, room, true)
				  : tt_train_fail(-ENOMEM, "reducer: no memory for residuals");
	}
	if (!err) {
		tt_reducer_free_parts(r);
		tt_buckets_divide(&r->b, order, r->first_bytes, r->bucket_bytes);
		err = tt_reducer_make_parts(r);
	}
	if (!err && r->codec)
		err = move_residuals(r, all, room, false);
	free(all);
	free(room);
	return err;
}

/* Tensors that were never ready come last, in the order of the backward pass. */
static void complete_order(struct tutti_reducer *r)
{
	size_t i;

	for (i = r->b.n; i-- > 0;)
		if (r->mark[i] != TT_READY)
			r->seen[r->nseen++] = i;
}

int tt_reducer_reorder(struct tutti_reducer *r)
{
	static const char call[] = "tutti_reducer_finish";
	uint64_t *order = malloc(r->b.n * sizeof(*order));
	size_t i;
	int err = order ? 0 : tt_train_fail(-ENOMEM, "%s: no memory for an order", call);

	err = tt_train_agree(r->comm, call, err);
	if (err) {
		free(order);
		return err;
	}
	complete_order(r);
	for (i = 0; i < r->b.n; i++)
		order[i] = r->seen[i];
	err = tutti_bcast(order, r->b.n, TUTTI_UINT64, 0, r->comm);
	for (i = 0; !err && i < r->b.n; i++)
		r->seen[i] = (size_t)order[i];
	free(order);
	if (!err)
		err = new_parts(r, r->seen);
	err = tt_train_agree(r->comm, call, err);
	r->ordered = !err;
	return err;
}
