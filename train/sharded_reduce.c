/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The gradients of a step: buckets fill, and are reduce-scattered in their order; or the caller has
 * reduced them.
 */
#include <errno.h>
#include <string.h>

#include "train/sharded_state.h"
#include "train/train_fail.h"

static size_t bucket_bytes(const struct tutti_sharded *s, size_t k)
{
	return s->b.bucket[k].count * s->b.elem;
}

int tt_sharded_take(struct tutti_sharded *s, size_t bytes, char **to)
{
	void *pool;
	int err = tutti_alloc(tutti_comm_context(s->comm), bytes + 1, &pool);

	if (err)
		return err;
	*to = pool;
	s->buffers += bytes;
	s->most = s->buffers > s->most ? s->buffers : s->most;
	return 0;
}

void tt_sharded_drop(struct tutti_sharded *s, size_t bytes, char **from)
{
	if (!*from)
		return;
	tutti_free(*from);
	*from = NULL;
	s->buffers -= bytes;
}

int tt_sharded_take_buffer(struct tutti_sharded *s, size_t k)
{
	return s->shard[k].buf ? 0 : tt_sharded_take(s, bucket_bytes(s, k), &s->shard[k].buf);
}

void tt_sharded_drop_buffer(struct tutti_sharded *s, size_t k)
{
	tt_sharded_drop(s, bucket_bytes(s, k), &s->shard[k].buf);
}

/*
 * This rank fails alone, and the others would wait for it: the optimizer's communicator, which is
 * its own, fails there, too.
 */
int tt_sharded_give_up(struct tutti_sharded *s, int err)
{
	(void)tutti_comm_revoke(s->comm);
	return err;
}

/* Ends the reduce-scatters of the first buckets: all that have ended, and at least down to left. */
static int drain(struct tutti_sharded *s, size_t left)
{
	struct tt_shard *shard;
	int err, done;

	while (s->drained < s->next) {
		shard = &s->shard[s->drained];
		done = 1;
		if (s->next - s->drained > left)
			err = tutti_wait(&shard->scatter);
		else
			err = tutti_test(&shard->scatter, &done);
		if (err)
			return err;
		if (!done)
			return 0;
		if (s->codec)
			err = tt_sharded_add_coded(s, s->drained);
		if (err)
			return err;
		tt_sharded_drop_buffer(s, s->drained++);
	}
	return 0;
}

static bool all_ready(const struct tutti_sharded *s, size_t k)
{
	const size_t *t = s->b.order + s->b.bucket[k].first, *end = t + s->b.bucket[k].n;

	while (t < end && s->ready[*t])
		t++;
	return t == end;
}

/* The memory to send bucket k from. With a tensor missing, the step changes nothing anyway. */
static int source(struct tutti_sharded *s, size_t k, const char **from)
{
	bool whole = all_ready(s, k);
	int err;

	*from = s->stage == 1 && whole ? tt_bucket_place(&s->b, k, s->gradients) : NULL;
	if (*from)
		return 0;
	err = tt_sharded_take_buffer(s, k);
	if (err)
		return tt_sharded_give_up(s, err);
	if (!whole)
		memset(s->shard[k].buf, 0, bucket_bytes(s, k));
	else if (s->stage == 1)
		tt_bucket_pack(&s->b, k, s->gradients, s->shard[k].buf);
	*from = s->shard[k].buf;
	return 0;
}

static int start_scatter(struct tutti_sharded *s, size_t k, const char *from)
{
	enum tutti_op op = s->flags & TUTTI_SHARDED_SUM ? TUTTI_SUM : TUTTI_AVG;
	int err;

	if (!s->codec)
		return tutti_ireduce_scatter(from, s->gradient + s->shard[k].at * s->b.elem,
					     s->shard[k].lens, s->datatype, op, s->comm,
					     &s->shard[k].scatter);
	err = tt_sharded_scatter_coded(s, k, from);
	tt_sharded_drop_buffer(s, k);
	return err;
}

static int start_full(struct tutti_sharded *s)
{
	const char *from;
	int err = 0;
	size_t k;

	if (s->flags & TUTTI_SHARDED_REDUCED)
		return 0;
	for (k = s->next; !err && k < s->b.nbuckets && !s->b.bucket[k].waiting; k++) {
		err = source(s, k, &from);
		if (!err)
			err = start_scatter(s, k, from);
		if (!err)
			s->next = k + 1;
		if (!err)
			err = drain(s, s->stage == 2 ? TT_SHARDED_FLIGHT : SIZE_MAX);
	}
	return err ? err : drain(s, SIZE_MAX);
}

/* Gradients that have been reduced: only the own part counts. */
static void take_own(struct tutti_sharded *s, size_t tensor, const char *gradient)
{
	struct tt_sharded_piece piece = tt_sharded_piece_of(s, tensor);

	if (piece.count)
		memcpy(s->gradient + piece.in_shard * s->b.elem,
		       gradient + piece.in_tensor * s->b.elem, piece.count * s->b.elem);
}

/* Stage 2 copies. */
static int take(struct tutti_sharded *s, size_t tensor, const void *gradient)
{
	size_t k = s->b.bucket_of[tensor], bytes = s->b.counts[tensor] * s->b.elem;
	int err = tt_sharded_take_buffer(s, k);

	if (err)
		return tt_sharded_give_up(s, err);
	if (bytes)
		memcpy(s->shard[k].buf + s->b.offset[tensor] * s->b.elem, gradient, bytes);
	return 0;
}

static int refuse_ready(const struct tutti_sharded *s, size_t tensor, const void *gradient)
{
	static const char call[] = "tutti_sharded_ready";
	int err = tt_sharded_over(s, call);

	if (err)
		return err;
	if (tensor >= s->b.n)
		return tt_train_fail(-EINVAL, "%s: tensor is %zu; the optimizer has 0 to %zu", call,
				     tensor, s->b.n - 1);
	if (!gradient && s->b.counts[tensor])
		return tt_train_fail(-EINVAL, "%s: gradient of tensor %zu is NULL", call, tensor);
	if (s->ready[tensor])
		return tt_train_fail(-EINVAL,
				     "%s: tensor %zu is ready already in step %llu; call "
				     "tutti_sharded_step between steps",
				     call, tensor, (unsigned long long)s->steps + 1);
	return 0;
}

int tutti_sharded_ready(struct tutti_sharded *s, size_t tensor, const void *gradient)
{
	int err;

	if (TT_TRAIN_CHECK("tutti_sharded_ready", s, "sharded", TT_SHARDED_MAGIC))
		return -EINVAL;
	pthread_mutex_lock(&s->lock);
	err = refuse_ready(s, tensor, gradient);
	if (err)
		goto out;
	s->gradients[tensor] = (char *)gradient;
	if (!s->nready) /* parameters of the last step use the buckets' memory */
		err = tt_sharded_gathered_all(s);
	if (!err && s->flags & TUTTI_SHARDED_REDUCED)
		take_own(s, tensor, gradient);
	else if (!err && s->stage == 2)
		err = take(s, tensor, gradient);
	s->ready[tensor] = 1;
	s->nready++;
	s->b.bucket[s->b.bucket_of[tensor]].waiting--;
	if (!err)
		err = start_full(s);
	s->error = err;
out:
	pthread_mutex_unlock(&s->lock);
	return err;
}

int tt_sharded_reduce(struct tutti_sharded *s)
{
	size_t i;
	int err;

	for (i = 0; i < s->b.n; i++)
		if (!s->ready[i])
			s->b.bucket[s->b.bucket_of[i]].waiting--;
	err = start_full(s);
	return err ? err : drain(s, 0);
}
