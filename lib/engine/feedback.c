/* SPDX-License-Identifier: BSD-3-Clause */
/* Error feedback: the state that calls with a codec read and write. */
#include <errno.h>
#include <stdlib.h>

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
		return tt_fail(-EINVAL, "tutti_call: feedback is no state, or has been freed");
	if (f->comm != comm->uid)
		return tt_fail(
			-EINVAL,
			"tutti_call: feedback was made for another communicator; save it, and "
			"restore it in one that is made for this communicator");
	if (tt_codec_hash(f->codec) != tt_codec_hash(codec))
		return tt_fail(-EINVAL, "tutti_call: feedback was made for codec %s, not %s",
			       tt_codec_name(f->codec), tt_codec_name(codec));
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
