/* SPDX-License-Identifier: BSD-3-Clause */
/* Strided puts and gets: checks arguments, then calls lib/rma/strided.c. */
#include <errno.h>

#include "lib/api/api.h"
#include "lib/rma/rma.h"

bool tt_check_there(const struct tutti_win *win, const struct tt_win_strides *s)
{
	uint64_t from, to;

	return !__builtin_add_overflow(s->offset, s->there.low, &from) &&
	       !__builtin_add_overflow(s->offset, s->there.high, &to) &&
	       to <= win->part[s->rank].size;
}

int tt_check_writable(const char *call, const struct tutti_win *win, int rank)
{
	if (win->part[rank].flags & TUTTI_WIN_READ_ONLY)
		return tt_comm_blame_rank(win->comm, -EACCES, rank,
					  "%s: rank %d's window is read-only", call, rank);
	return 0;
}

int tt_check_notify(const char *call, const struct tutti_win *win, int rank, int id,
		    uint32_t *token)
{
	if (id < TUTTI_NOTIFY_RANK || id >= TUTTI_NOTIFY_IDS)
		return tt_fail(-EINVAL,
			       "%s: %d is neither a notification id (0 to %d) nor "
			       "TUTTI_NOTIFY_RANK",
			       call, id, TUTTI_NOTIFY_IDS - 1);
	*token = id < 0 ? 0 : tt_win_id_token(win, rank, id);
	return 0;
}

static bool overlap(ptrdiff_t stride, size_t block)
{
	return (stride < 0 ? 0 - (size_t)stride : (size_t)stride) < block;
}

/* Sets and checks the blocks of *s. */
static int check_blocks(const char *call, struct tutti_win *win,
			const struct tutti_strides *strides, struct tt_win_strides *s)
{
	ptrdiff_t stride = s->get ? strides->local_stride : strides->stride;

	if (!tt_byte_blocks_vector(&s->there, strides->block, strides->count, strides->stride) ||
	    !tt_check_there(win, s))
		return tt_comm_blame_rank(
			win->comm, -ERANGE, s->rank,
			"%s: %zu blocks of %zu bytes, %td apart from %llu on, are not "
			"all inside rank %d's window of %llu bytes",
			call, strides->count, strides->block, strides->stride,
			(unsigned long long)s->offset, s->rank,
			(unsigned long long)win->part[s->rank].size);
	if (!tt_byte_blocks_vector(&s->here, strides->block, strides->count, strides->local_stride))
		return tt_fail(-EINVAL, "%s: local_stride %td is too long", call,
			       strides->local_stride);
	if (strides->count > 1 && overlap(stride, strides->block))
		return tt_fail(-EINVAL,
			       "%s: blocks of %zu bytes overlap where they are written, %td bytes "
			       "apart",
			       call, strides->block, stride);
	return s->get ? 0 : tt_check_writable(call, win, s->rank);
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
	if (!strides->count || !strides->block)
		return 0;
	if (!s->local)
		return tt_fail(-EINVAL, "%s: local is NULL", call);
	return check_blocks(call, win, strides, s);
}

int tutti_put_strided(struct tutti_win *win, int rank, const void *local, uint64_t offset,
		      const struct tutti_strides *strides)
{
	struct tt_win_strides s = {.rank = rank, .local = (void *)local, .offset = offset};
	int err = check(__func__, win, strides, &s);

	return err ? err : tt_win_run(win, tt_win_strides_start, &s);
}

int tutti_put_strided_notify(struct tutti_win *win, int rank, const void *local, uint64_t offset,
			     const struct tutti_strides *strides, int id)
{
	struct tt_win_strides s = {
		.rank = rank, .local = (void *)local, .offset = offset, .note = true};
	int err = check(__func__, win, strides, &s);

	if (!err)
		err = tt_check_notify(__func__, win, rank, id, &s.token);
	return err ? err : tt_win_run(win, tt_win_strides_start, &s);
}

int tutti_get_strided(struct tutti_win *win, int rank, void *local, uint64_t offset,
		      const struct tutti_strides *strides)
{
	struct tt_win_strides s = {.rank = rank, .local = local, .offset = offset, .get = true};
	int err = check(__func__, win, strides, &s);

	return err ? err : tt_win_run(win, tt_win_strides_start, &s);
}

int tutti_iput_strided(struct tutti_win *win, int rank, const void *local, uint64_t offset,
		       const struct tutti_strides *strides, struct tutti_request **request)
{
	struct tt_win_strides s = {.rank = rank, .local = (void *)local, .offset = offset};
	int err = check(__func__, win, strides, &s);

	return err ? err : tt_win_request(__func__, win, rank, tt_win_strides_start, &s, request);
}

int tutti_iget_strided(struct tutti_win *win, int rank, void *local, uint64_t offset,
		       const struct tutti_strides *strides, struct tutti_request **request)
{
	struct tt_win_strides s = {.rank = rank, .local = local, .offset = offset, .get = true};
	int err = check(__func__, win, strides, &s);

	return err ? err : tt_win_request(__func__, win, rank, tt_win_strides_start, &s, request);
}
