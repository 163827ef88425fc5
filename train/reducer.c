/* SPDX-License-Identifier: BSD-3-Clause */
/* A step of a reducer; reducer_state.h has the idea. */
#include "train/reducer_state.h"

#include <errno.h>
#include <string.h>

#include "train/train_fail.h"

/* Starts those of the first n buckets that may start. */
static int start_full(struct tutti_reducer *r, size_t n)
{
	while (!r->error && r->next < n && !r->b.bucket[r->next].waiting) {
		r->error = tutti_start(r->part[r->next].request);
		r->next += !r->error;
	}
	return r->error;
}

/* Advances what is under way. After the last tensor finish does. */
static void advance(struct tutti_reducer *r)
{
	int done;

	if (!r->error && r->next && r->nseen < r->b.n) /* its result is for the wait */
		tutti_request_get_status(r->part[r->next - 1].request, &done);
}

static const char ready_call[] = "tutti_reducer_ready";

static int refuse_ready(const struct tutti_reducer *r, size_t tensor)
{
	if (tensor >= r->b.n)
		return tt_train_fail(-EINVAL, "%s: tensor is %zu; the reducer has 0 to %zu",
				     ready_call, tensor, r->b.n - 1);
	if (r->error)
		return tt_reducer_over(r, ready_call);
	if (r->mark[tensor] != TT_WAITING)
		return tt_train_fail(
			-EINVAL,
			"%s: tensor %zu is ready already in step %llu; call "
			"tutti_reducer_finish between steps",
			ready_call, tensor,
			(unsigned long long)(r->stats.steps + r->stats.accumulated + 1));
	return 0;
}

int tutti_reducer_ready(struct tutti_reducer *r, size_t tensor)
{
	const struct tt_reducer_part *part;
	size_t k;
	int err;

	if (TT_TRAIN_CHECK(ready_call, r, "reducer", TT_REDUCER_MAGIC))
		return -EINVAL;
	pthread_mutex_lock(&r->lock);
	err = refuse_ready(r, tensor);
	if (err) {
		pthread_mutex_unlock(&r->lock);
		return err;
	}
	if (!tt_reducer_in_step(r))
		r->began = tt_train_now();
	r->seen[r->nseen++] = tensor;
	r->mark[tensor] = TT_COPYING;
	if (r->accumulate) {
		r->mark[tensor] = TT_READY;
		pthread_mutex_unlock(&r->lock);
		return 0;
	}
	k = r->b.bucket_of[tensor];
	part = &r->part[k];
	if (part->own && r->b.counts[tensor]) {
		pthread_mutex_unlock(&r->lock);
		memcpy(part->buf + r->b.offset[tensor] * r->b.elem, r->gradients[tensor],
		       r->b.counts[tensor] * r->b.elem);
		pthread_mutex_lock(&r->lock);
	}
	r->mark[tensor] = TT_READY;
	r->b.bucket[k].waiting--;
	/* Another thread may have met a failure during the copy. */
	err = r->error ? tt_reducer_over(r, ready_call) : start_full(r, r->nparts);
	advance(r);
	pthread_mutex_unlock(&r->lock);
	return err;
}

/* Waits for all buckets, also after an error; listen: for ranks that lack tensors as well. */
static int wait_all(struct tutti_reducer *r, struct tutti_request *words, bool listen)
{
	uint64_t t, exposed = 0;
	int err = 0, other, heard;
	size_t k;

	for (k = 0; k < r->next; k++) {
		t = tt_train_now();
		heard = listen && k == r->nparts - 1 ? tt_reducer_listen(r) : 0;
		other = tutti_wait(&r->part[k].request);
		exposed += tt_train_now() - t;
		err = err ? err : heard ? heard : other;
		if (!other && r->part[k].own)
			tt_bucket_unpack(&r->b, k, r->part[k].buf, r->gradients);
	}
	t = tt_train_now();
	other = words ? tutti_wait(&words) : 0;
	r->stats.exposed_ns += exposed + tt_train_now() - t;
	return err ? err : other;
}

/* This rank lacks tensors. Its last bucket starts when all ranks know. */
static int tell(struct tutti_reducer *r)
{
	uint64_t t = tt_train_now();
	int err = tt_reducer_tell(r);

	r->stats.exposed_ns = tt_train_now() - t;
	return err ? err : start_full(r, r->nparts);
}

static int communicate(struct tutti_reducer *r)
{
	bool lacks = tt_reducer_set_words(r), hold = lacks && !r->compares;
	struct tutti_request *words = NULL;
	int err;

	r->stats.early = r->next;
	r->stats.exposed_ns = 0;
	tt_reducer_fill(r);
	err = start_full(r, r->nparts - hold);
	if (!err && r->compares)
		err = tutti_iallreduce(TUTTI_IN_PLACE, r->words, r->nwords, TUTTI_UINT64, TUTTI_BOR,
				       r->comm, &words);
	else if (!err && hold)
		err = tell(r);
	if (!err)
		err = wait_all(r, words, !r->compares && !hold);
	else
		wait_all(r, NULL, false);
	r->stats.exposed_total_ns += r->stats.exposed_ns;
	if (!err && !r->ordered)
		err = tt_reducer_reorder(r);
	return err;
}

static void end_step(struct tutti_reducer *r)
{
	tt_buckets_reset(&r->b);
	memset(r->mark, TT_WAITING, r->b.n);
	r->nseen = 0;
	r->next = 0;
}

static void keep_ready(struct tutti_reducer *r)
{
	size_t i;

	for (i = 0; i < r->b.n; i++)
		if (r->mark[i] == TT_READY)
			r->kept[i] = 1;
	end_step(r);
	r->stats.accumulated++;
}

static int refuse_finish(const struct tutti_reducer *r)
{
	size_t i;

	if (r->error)
		return tt_reducer_over(r, "tutti_reducer_finish");
	for (i = 0; i < r->b.n; i++)
		if (r->mark[i] == TT_COPYING)
			return tt_train_fail(-EBUSY,
					     "tutti_reducer_finish: a thread is in "
					     "tutti_reducer_ready for tensor %zu; call finish "
					     "after all of them",
					     i);
	return 0;
}

int tutti_reducer_finish(struct tutti_reducer *r)
{
	int err;

	if (TT_TRAIN_CHECK("tutti_reducer_finish", r, "reducer", TT_REDUCER_MAGIC))
		return -EINVAL;
	pthread_mutex_lock(&r->lock);
	err = refuse_finish(r);
	if (err)
		goto out;
	if (r->accumulate) {
		keep_ready(r);
		goto out;
	}
	if (!tt_reducer_in_step(r))
		r->began = tt_train_now();
	err = communicate(r);
	r->error = err;
	if (err)
		goto out;
	err = tt_reducer_check_missing(r);
	end_step(r);
	memset(r->kept, 0, r->b.n);
	r->stats.steps++;
	r->stats.step_ns = tt_train_now() - r->began;
	r->stats.step_total_ns += r->stats.step_ns;
out:
	pthread_mutex_unlock(&r->lock);
	return err;
}

int tutti_reducer_accumulate(struct tutti_reducer *r, int on)
{
	int err = 0;

	if (TT_TRAIN_CHECK("tutti_reducer_accumulate", r, "reducer", TT_REDUCER_MAGIC))
		return -EINVAL;
	pthread_mutex_lock(&r->lock);
	if (tt_reducer_in_step(r))
		err = tt_train_fail(-EBUSY,
				    "tutti_reducer_accumulate: %zu tensors of a step are "
				    "ready; call tutti_reducer_finish first",
				    r->nseen);
	else
		r->accumulate = on != 0;
	pthread_mutex_unlock(&r->lock);
	return err;
}
