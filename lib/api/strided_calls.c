/* SPDX-License-Identifier: BSD-3-Clause */
/* Strided puts and gets: checks arguments, then calls lib/rma/strided.c. */
#include <errno.h>

#include "lib/api/api.h"
#include "lib/rma/rma.h"

/* The bytes that count blocks touch: from *low (to be added to the first) on; false: too many. */
static bool span(size_t block, size_t count, ptrdiff_t stride, int64_t *low, size_t *bytes)
{
	int64_t last;
	size_t far;

	if (count - 1 > INT64_MAX || __builtin_mul_overflow((int64_t)(count - 1), stride, &last) ||
	    last == INT64_MIN)
		return false;
	far = (size_t)(last < 0 ? -last : last);
	*low = last < 0 ? last : 0;
	return !__builtin_add_overflow(far, block, bytes);
}

static bool overlap(ptrdiff_t stride, size_t block)
{
	return (stride < 0 ? 0 - (size_t)stride : (size_t)stride) < block;
}

static int check_target(const char *call, struct tutti_win *win, const struct tt_win_strides *s)
{
	const struct tt_win_part *part = &win->part[s->rank];
	int64_t low = 0;
	size_t bytes;
	bool fits;

	fits = span(s->block, s->count, s->stride, &low, &bytes) && bytes <= part->size &&
	       s->offset <= part->size && (uint64_t)-low <= s->offset &&
	       s->offset - (uint64_t)-low <= part->size - bytes;
	if (!fits)
		return tt_fail_rank(-ERANGE, s->rank, NULL,
				    "%s: %zu blocks of %zu bytes, %lld apart from %llu on, are not "
				    "all inside rank %d's window of %llu bytes",
				    call, s->count, s->block, (long long)s->stride,
				    (unsigned long long)s->offset, s->rank,
				    (unsigned long long)part->size);
	if (!span(s->block, s->count, s->local_stride, &low, &bytes))
		return tt_fail(-EINVAL, "%s: local_stride %td is too long", call, s->local_stride);
	if (s->count > 1 && overlap(s->get ? s->local_stride : s->stride, s->block))
		return tt_fail(-EINVAL,
			       "%s: blocks of %zu bytes overlap where they are written, %lld bytes "
			       "apart",
			       call, s->block, (long long)(s->get ? s->local_stride : s->stride));
	if (!s->get && part->flags & TUTTI_WIN_READ_ONLY)
		return tt_fail_rank(-EACCES, s->rank, NULL, "%s: rank %d's window is read-only",
				    call, s->rank);
	return 0;
}

/* Completes *s from the caller's struct. */
static int check(const char *call, struct tutti_win *win, const struct tutti_strides *strides,
		 struct tt_win_strides *s)
{
	static const struct tt_sized sized = TT_SIZED("strides", tutti_strides, stride);
	int err = tt_check_access(call, win, s->rank, NULL, 0, 0);
	struct tutti_strides own;

	if (err)
		return err;
	strides = tt_sized_read(&sized, call, strides, &own);
	if (!strides)
		return -EINVAL;
	s->block = strides->block;
	s->count = strides->block ? strides->count : 0;
	s->local_stride = strides->local_stride;
	s->stride = strides->stride;
	if (s->count && !s->local)
		return tt_fail(-EINVAL, "%s: local is NULL", call);
	return s->count ? check_target(call, win, s) : 0;
}

int tutti_put_strided(struct tutti_win *win, int rank, const void *local, uint64_t offset,
		      const struct tutti_strides *strides)
{
	struct tt_win_strides s = {.rank = rank, .local = (void *)local, .offset = offset};
	int err = check("tutti_put_strided", win, strides, &s);

	return err ? err : tt_win_strided(win, &s);
}

int tutti_put_strided_notify(struct tutti_win *win, int rank, const void *local, uint64_t offset,
			     const struct tutti_strides *strides, int id)
{
	struct tt_win_strides s = {
		.rank = rank, .local = (void *)local, .offset = offset, .note = true};
	int err = check("tutti_put_strided_notify", win, strides, &s);

	if (!err && (id < TUTTI_NOTIFY_RANK || id >= TUTTI_NOTIFY_IDS))
		err = tt_fail(-EINVAL,
			      "%s: %d is neither a notification id (0 to %d) nor "
			      "TUTTI_NOTIFY_RANK",
			      "tutti_put_strided_notify", id, TUTTI_NOTIFY_IDS - 1);
	if (!err && id >= 0)
		s.token = tt_win_id_token(win, rank, id);
	return err ? err : tt_win_strided(win, &s);
}

int tutti_get_strided(struct tutti_win *win, int rank, void *local, uint64_t offset,
		      const struct tutti_strides *strides)
{
	struct tt_win_strides s = {.rank = rank, .local = local, .offset = offset, .get = true};
	int err = check("tutti_get_strided", win, strides, &s);

	return err ? err : tt_win_strided(win, &s);
}

static int run(const char *call, struct tutti_win *win, const struct tt_win_strides *s,
	       struct tutti_request **request)
{
	if (!request)
		return tt_fail(-EINVAL, "%s: request is NULL", call);
	return tt_win_irun(win, s->rank, call + sizeof("tutti_") - 1, tt_win_strides_start, s,
			   request);
}

int tutti_iput_strided(struct tutti_win *win, int rank, const void *local, uint64_t offset,
		       const struct tutti_strides *strides, struct tutti_request **request)
{
	struct tt_win_strides s = {.rank = rank, .local = (void *)local, .offset = offset};
	int err = check("tutti_iput_strided", win, strides, &s);

	return err ? err : run("tutti_iput_strided", win, &s, request);
}

int tutti_iget_strided(struct tutti_win *win, int rank, void *local, uint64_t offset,
		       const struct tutti_strides *strides, struct tutti_request **request)
{
	struct tt_win_strides s = {.rank = rank, .local = local, .offset = offset, .get = true};
	int err = check("tutti_iget_strided", win, strides, &s);

	return err ? err : run("tutti_iget_strided", win, &s, request);
}
