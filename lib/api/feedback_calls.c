/* SPDX-License-Identifier: BSD-3-Clause */
/* The states of error feedback. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "lib/api/api.h"

int tutti_feedback_create(struct tutti_comm *comm, struct tutti_codec *codec, size_t count,
			  struct tutti_feedback **feedback)
{
	int err = tt_check_comm(comm);

	if (err)
		return err;
	if (!codec || !feedback)
		return tt_fail(-EINVAL, "tutti_feedback_create: %s is NULL",
			       codec ? "feedback" : "codec");
	err = tt_codec_check(__func__, codec);
	return err ? err : tt_feedback_new(comm, codec, count, feedback);
}

static int check(const struct tutti_feedback *feedback, const char *call)
{
	return tt_check_object(call, "feedback", feedback,
			       feedback && feedback->magic == TT_FEEDBACK_MAGIC, "state");
}

int tutti_feedback_free(struct tutti_feedback *feedback)
{
	int err = feedback ? check(feedback, __func__) : 0;

	if (feedback && !err)
		tt_feedback_put(feedback);
	return err;
}

static size_t elements(const struct tutti_feedback *feedback)
{
	return feedback->count * (size_t)tt_codec_states(feedback->codec);
}

int tutti_feedback_reset(struct tutti_feedback *feedback)
{
	int err = check(feedback, __func__);

	if (!err)
		err = tt_feedback_begin(feedback, __func__);
	if (err)
		return err;
	memset(feedback->state, 0, elements(feedback) * sizeof(float));
	feedback->empty = true;
	feedback->spread = false;
	tt_feedback_end(feedback);
	return 0;
}

/* Checks the arguments, and keeps calls away. */
static int begin(struct tutti_feedback *feedback, const char *call, const float *state,
		 size_t count)
{
	int err = check(feedback, call);

	if (err)
		return err;
	if (count != elements(feedback))
		return tt_fail(-EINVAL, "%s: the state has %zu elements, not %zu", call,
			       elements(feedback), count);
	if (count && !state)
		return tt_fail(-EINVAL, "%s: state is NULL", call);
	return tt_feedback_begin(feedback, call);
}

int tutti_feedback_save(struct tutti_feedback *feedback, float *state, size_t count)
{
	int err = begin(feedback, __func__, state, count);

	if (err)
		return err;
	if (count)
		memcpy(state, feedback->state, count * sizeof(float));
	tt_feedback_end(feedback);
	return 0;
}

int tutti_feedback_restore(struct tutti_feedback *feedback, const float *state, size_t count)
{
	int err = begin(feedback, __func__, state, count);
	size_t i;

	if (err)
		return err;
	for (i = 0; i < count && isfinite(state[i]); i++)
		;
	if (i < count) { /* every later result would be NaN */
		err = tt_fail(-EINVAL,
			      "tutti_feedback_restore: element %zu of state is %g; restore the "
			      "state of an intact checkpoint, or reset it",
			      i, (double)state[i]);
	} else {
		if (count)
			memcpy(feedback->state, state, count * sizeof(float));
		feedback->empty = false;
		feedback->spread = true;
	}
	tt_feedback_end(feedback);
	return err;
}
