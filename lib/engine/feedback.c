/* SPDX-License-Identifier: BSD-3-Clause */
/* Error feedback: the state that calls with a codec read and write. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/engine/engine.h"

int tt_feedback_new(struct tutti_comm *comm, struct tutti_codec *codec, size_t count,
		    struct tutti_feedback **out)
{
	size_t states = (size_t)tt_codec_states(codec);
	struct tutti_feedback *f;

	if (count > (size_t)PTRDIFF_MAX / sizeof(float) / states)
		return tt_fail(-EINVAL,
			       "tutti_feedback_create: a count of %zu does not fit in memory",
			       count);
	f = calloc(1, sizeof(*f));
	if (f)
		f->state = calloc(count * states + !count, sizeof(float));
	if (!f || !f->state) {
		free(f);
		return tt_fail(-ENOMEM, "no memory for a feedback state of %zu elements", count);
	}
	f->magic = TT_FEEDBACK_MAGIC;
	f->comm = comm->uid;
	f->codec = tt_codec_hold(codec);
	f->count = count;
	f->empty = true;
	atomic_store(&f->refs, 1);
	*out = f;
	return 0;
}

void tt_feedback_put(struct tutti_feedback *f)
{
	if (atomic_fetch_sub(&f->refs, 1) > 1)
		return;
	f->magic = 0;
	tt_codec_release(f->codec);
	free(f->state);
	free(f);
}

int tt_feedback_check(const struct tutti_feedback *f, const struct tutti_comm *comm,
		      const struct tutti_codec *codec, size_t count)
{
	if (f->magic != TT_FEEDBACK_MAGIC)
		return tt_fail(-EINVAL,
			       "tutti_call: feedback is not a valid state, or has been freed");
	if (f->comm != comm->uid)
		return tt_fail(
			-EINVAL,
			"tutti_call: feedback was made for another communicator; save it, and "
			"restore it in one that is made for this communicator");
	if (tt_codec_hash(f->codec) != tt_codec_hash(codec))
		return tt_fail(-EINVAL, "tutti_call: feedback was made for codec %s, not %s",
			       tt_codec_label(f->codec), tt_codec_label(codec));
	if (f->count != count)
		return tt_fail(-EINVAL, "tutti_call: feedback was made for %zu elements, not %zu",
			       f->count, count);
	return 0;
}

int tt_feedback_begin(struct tutti_feedback *f, const char *call)
{
	if (!atomic_exchange(&f->busy, true))
		return 0;
	return tt_fail(-EBUSY, "%s: feedback is in use by another call; wait for that one first",
		       call);
}

void tt_feedback_end(struct tutti_feedback *f)
{
	atomic_store(&f->busy, false);
}

void tt_feedback_add(struct tt_plan_req *req)
{
	const float *in = req->unscaled, *left = req->feedback->state;
	float *to = (float *)req->base[TT_BUF_SEND];
	size_t count = req->feedback->count;

	if (!req->feedback->empty)
		tt_reduce_sum(to, in, left, count);
	else if (to != in)
		memcpy(to, in, count * sizeof(float));
}

/* As a cast would: an element that is not finite leaves its residual unchanged. */
void tt_feedback_clear(struct tt_plan_req *req)
{
	struct tutti_feedback *f = req->feedback;

	if (!f->empty)
		f->empty =
			!tt_codec_clear(f->state, (const float *)req->base[TT_BUF_SEND], f->count);
}

/* ---- of parts ---- */

static bool in_parts(const struct tt_plan_req *req)
{
	return req->feedback && req->plan->args.codec && req->plan->node;
}

/* Calls fn for each part of the vector: mine is encoded on this rank. */
static void each_part(struct tt_plan_req *req,
		      void (*fn)(struct tt_plan_req *req, size_t first, size_t end, bool mine))
{
	const struct tt_plan_args *a = &req->plan->args;
	int place, first = a->hosts->local[a->rank], size = a->hosts->size[a->hosts->host[a->rank]];

	for (place = 0; place < a->hosts->places; place++) {
		struct tt_span s = tt_codec_part(a, a->hosts->places, place);

		fn(req, s.off / a->elem, (s.off + s.len) / a->elem,
		   place >= first && (place - first) % size == 0);
	}
}

static void gather(struct tt_plan_req *req, size_t first, size_t end, bool mine)
{
	const float *in = (const float *)(void *)req->apart, *left = req->feedback->state;
	float *to = (float *)(void *)req->base[TT_BUF_SEND];

	if (!mine)
		tt_reduce_sum(to + first, in + first, left + first, end - first);
	else if (to != in)
		memcpy(to + first, in + first, (end - first) * sizeof(float));
}

static void clear(struct tt_plan_req *req, size_t first, size_t end, bool mine)
{
	const float *sum = (const float *)(void *)req->base[TT_BUF_SEND];
	struct tutti_feedback *f = req->feedback;

	if (!mine && tt_codec_clear(f->state + first, sum + first, end - first))
		f->spread = true;
}

void tt_feedback_gather(struct tt_plan_req *req)
{
	if (!in_parts(req) || !req->feedback->spread || !req->base[TT_BUF_RECV])
		return;
	req->apart = req->base[TT_BUF_SEND];
	req->apart_region = req->region[TT_BUF_SEND];
	req->base[TT_BUF_SEND] = req->base[TT_BUF_RECV];
	req->region[TT_BUF_SEND] = req->region[TT_BUF_RECV];
	tt_wire_unlock(req->r.comm->ctx->wire); /* a long vector takes long */
	each_part(req, gather);
	tt_wire_lock(req->r.comm->ctx->wire);
}

void tt_feedback_gathered(struct tt_plan_req *req)
{
	if (!in_parts(req)) {
		req->feedback->spread |= req->plan->args.codec != NULL;
		return;
	}
	if (!req->apart)
		return;
	req->feedback->spread = false;
	each_part(req, clear);
}

void tt_feedback_apart(struct tt_plan_req *req)
{
	if (!req->apart)
		return;
	req->base[TT_BUF_SEND] = req->apart;
	req->region[TT_BUF_SEND] = req->apart_region;
	req->apart = NULL;
}
