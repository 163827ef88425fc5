/* SPDX-License-Identifier: BSD-3-Clause */
/* The step of a sharded optimizer: clip, update the own blocks, gather the others. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "train/sharded_state.h"
#include "train/train_fail.h"

/* ---- the own blocks ---- */

struct tt_sharded_piece tt_sharded_piece_of(const struct tutti_sharded *s, size_t tensor)
{
	const struct tt_shard *shard = &s->shard[s->b.bucket_of[tensor]];
	size_t begin = s->b.offset[tensor], end = begin + s->b.counts[tensor];
	struct tt_sharded_piece piece = {0};

	begin = begin > shard->lo ? begin : shard->lo;
	end = end < shard->hi ? end : shard->hi;
	if (begin < end)
		piece = (struct tt_sharded_piece){.in_tensor = begin - s->b.offset[tensor],
						  .in_shard = shard->at + begin - shard->lo,
						  .count = end - begin};
	return piece;
}

static int update(struct tutti_sharded *s)
{
	struct tt_sharded_piece piece;
	size_t i, elem = s->b.elem;
	int err = 0;

	for (i = 0; !err && i < s->b.n; i++) {
		piece = tt_sharded_piece_of(s, i);
		if (!piece.count)
			continue;
		err = tutti_rule_apply(&s->rule, s->datatype,
				       s->parameters[i] + piece.in_tensor * elem,
				       s->gradient + piece.in_shard * elem,
				       s->state[0] ? s->state[0] + piece.in_shard * elem : NULL,
				       s->state[1] ? s->state[1] + piece.in_shard * elem : NULL,
				       piece.count, s->steps);
	}
	return err;
}

static double sum_of_squares(const struct tutti_sharded *s)
{
	double sum = 0, x;
	size_t i;

	for (i = 0; i < s->own; i++) {
		x = s->datatype == TUTTI_FLOAT64 ? ((double *)s->gradient)[i]
						 : (double)((float *)s->gradient)[i];
		sum += x * x;
	}
	return sum;
}

static void scale(struct tutti_sharded *s, double factor)
{
	size_t i;

	if (s->datatype == TUTTI_FLOAT64)
		for (i = 0; i < s->own; i++)
			((double *)s->gradient)[i] *= factor;
	else
		for (i = 0; i < s->own; i++)
			((float *)s->gradient)[i] *= (float)factor;
}

/* ---- parameters of the other ranks ---- */

/* From where it is, or by a copy of the bucket that await_gather takes apart. */
static int start_gather(struct tutti_sharded *s, size_t k)
{
	struct tt_shard *shard = &s->shard[k];
	char *to = tt_bucket_place(&s->b, k, s->parameters);
	size_t i, elem = s->b.elem;
	struct tt_sharded_piece piece;
	struct tutti_call call;
	int err;

	if (!to) {
		err = tt_sharded_take_buffer(s, k);
		if (err)
			return tt_sharded_give_up(s, err);
		to = shard->buf;
		for (i = 0; i < s->b.n; i++) {
			piece = tt_sharded_piece_of(s, i);
			if (s->b.bucket_of[i] == k && piece.count)
				memcpy(to + (shard->lo + piece.in_shard - shard->at) * elem,
				       s->parameters[i] + piece.in_tensor * elem,
				       piece.count * elem);
		}
	}
	call = (struct tutti_call){.size = sizeof(call),
				   .coll = TUTTI_COLL_ALLGATHERV,
				   .sendbuf = TUTTI_IN_PLACE,
				   .count = shard->hi - shard->lo,
				   .recvbuf = to,
				   .recvcounts = shard->lens,
				   .recvdispls = shard->begins,
				   .datatype = s->datatype,
				   .priority = (int)k};
	return tutti_call(s->comm, &call, &shard->gather);
}

/* Waits for the all-gather of a bucket. */
static int await_gather(struct tutti_sharded *s, size_t k)
{
	struct tt_shard *shard = &s->shard[k];
	int err;

	if (!shard->gather)
		return 0;
	err = tutti_wait(&shard->gather);
	if (err)
		return err;
	if (shard->buf)
		tt_bucket_unpack(&s->b, k, shard->buf, s->parameters);
	tt_sharded_drop_buffer(s, k);
	return 0;
}

int tt_sharded_gathered_all(struct tutti_sharded *s)
{
	size_t k;
	int err = 0;

	for (k = s->b.nbuckets; !err && k-- > 0;)
		err = await_gather(s, k);
	return err;
}

/* ---- the step ---- */

static void end_step(struct tutti_sharded *s)
{
	tt_buckets_reset(&s->b);
	memset(s->ready, 0, s->b.n);
	s->nready = 0;
	s->next = s->drained = 0;
}

/* Of all ranks: the global norm, the ranks that lack tensors, the lowest of their tensors. */
static int compare(struct tutti_sharded *s, double *norm, int *ranks, size_t *tensor)
{
	double sums[2] = {sum_of_squares(s), s->nready < s->b.n};
	uint64_t first = 0;
	int err;

	err = tutti_allreduce(TUTTI_IN_PLACE, sums, 2, TUTTI_FLOAT64, TUTTI_SUM, s->comm);
	if (err)
		return err;
	*norm = sqrt(sums[0]);
	*ranks = (int)sums[1];
	if (!*ranks)
		return 0;
	while (first < s->b.n && s->ready[first])
		first++;
	err = tutti_allreduce(TUTTI_IN_PLACE, &first, 1, TUTTI_UINT64, TUTTI_MIN, s->comm);
	*tensor = (size_t)first;
	return err;
}

/* The reduced gradient may be applied. */
static int make_step(struct tutti_sharded *s, double norm)
{
	size_t k;
	int err = 0;

	if (s->clip_norm > 0 && norm > s->clip_norm)
		scale(s, s->clip_norm / norm);
	s->steps++;
	err = update(s);
	if (err) /* the others go on to the all-gathers */
		return tt_sharded_give_up(s, err);
	for (k = s->b.nbuckets; !err && k-- > 0;)
		err = start_gather(s, k);
	return err;
}

/* The same on all ranks: why this step must not change the parameters, or 0. */
static int refuse_step(const struct tutti_sharded *s, double norm, int lacking, size_t tensor)
{
	static const char call[] = "tutti_sharded_step";

	if (lacking)
		return tt_train_fail(-EINVAL,
				     "%s: tensor %zu was not ready in step %llu (%d ranks lack "
				     "tensors); no parameter has changed; call tutti_sharded_ready "
				     "for all tensors",
				     call, tensor, (unsigned long long)s->steps + 1, lacking);
	if (s->clip_norm > 0 && !isfinite(norm))
		return tt_train_fail(
			-EDOM,
			"%s: the norm of the gradient is %g in step %llu; no parameter "
			"has changed; leave out this batch, or lower the rate",
			call, norm, (unsigned long long)s->steps + 1);
	return 0;
}

int tutti_sharded_step(struct tutti_sharded *s, double *norm)
{
	static const char call[] = "tutti_sharded_step";
	double own = 0;
	int lacking = 0, refused = 0, err;
	size_t tensor = 0;

	if (TT_TRAIN_CHECK(call, s, "sharded", TT_SHARDED_MAGIC))
		return -EINVAL;
	pthread_mutex_lock(&s->lock);
	err = tt_sharded_over(s, call);
	if (err)
		goto out;
	err = tt_sharded_gathered_all(s);
	if (!err)
		err = tt_sharded_reduce(s);
	if (!err)
		err = compare(s, &own, &lacking, &tensor);
	if (!err)
		refused = refuse_step(s, own, lacking, tensor);
	if (refused)
		tt_sharded_undo_residuals(s);
	if (!err && !refused)
		err = make_step(s, own);
	s->error = err;
	end_step(s);
	if (!err && !refused && norm)
		*norm = own;
out:
	pthread_mutex_unlock(&s->lock);
	return err ? err : refused;
}

int tutti_sharded_wait(struct tutti_sharded *s, size_t tensor)
{
	static const char call[] = "tutti_sharded_wait";
	int err;

	if (TT_TRAIN_CHECK(call, s, "sharded", TT_SHARDED_MAGIC))
		return -EINVAL;
	pthread_mutex_lock(&s->lock);
	err = tt_sharded_over(s, call);
	if (!err && tensor != TUTTI_SHARDED_ALL && tensor >= s->b.n) {
		err = tt_train_fail(-EINVAL,
				    "%s: tensor is %zu; the optimizer has 0 to %zu, or pass "
				    "TUTTI_SHARDED_ALL",
				    call, tensor, s->b.n - 1);
	} else if (!err) {
		err = tensor == TUTTI_SHARDED_ALL ? tt_sharded_gathered_all(s)
						  : await_gather(s, s->b.bucket_of[tensor]);
		s->error = err;
	}
	pthread_mutex_unlock(&s->lock);
	return err;
}
