/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages, puts and gets with layouts: checks arguments, then calls lib/p2p or lib/rma. */
#include <errno.h>

#include "lib/api/api.h"
#include "lib/base/byte_blocks.h"
#include "lib/p2p/p2p.h"
#include "lib/rma/rma.h"

static int check_place(const char *call, const char *what, const void *buf,
		       const struct tt_byte_blocks *blocks)
{
	if (!blocks->bytes || tt_check_place(buf, blocks->low, blocks->high))
		return 0;
	return tt_fail(-EINVAL, "%s: bytes %td to %td of %s do not fit into an address space", call,
		       blocks->low, blocks->high, what);
}

/* ---- messages ---- */

static int launch(const char *name, struct tutti_comm *comm, struct tt_p2p_call *call,
		  const struct tutti_layout *layout, bool persistent, struct tutti_request **out)
{
	struct tutti_request *req = NULL;
	struct tt_byte_blocks blocks;
	int err = tt_check_layout(name, "layout", layout, call->kind == TT_P2P_RECV, &blocks);

	if (err)
		return err;
	call->datatype = layout->datatype;
	call->count = blocks.bytes / tutti_datatype_size(layout->datatype);
	err = tt_check_message(comm, call);
	if (!err)
		err = check_place(name, "buf", call->buf, &blocks);
	if (err)
		return err;
	if (!out)
		return tt_fail(-EINVAL, "%s: request is NULL", name);
	tt_wire_lock(comm->ctx->wire);
	err = tt_comm_check(comm);
	if (!err)
		err = tt_p2p_new_layout(comm, call, &blocks, persistent, &req);
	if (!err && !persistent)
		err = tt_request_launch(req);
	tt_wire_unlock(comm->ctx->wire);
	if (!err)
		*out = req;
	return err;
}

static int start_mrecv(const char *name, void *buf, const struct tutti_layout *layout,
		       struct tutti_message **message, struct tutti_status *status,
		       struct tutti_request **request)
{
	struct tt_p2p_call call = {.kind = TT_P2P_RECV, .buf = buf, .status = status};
	struct tutti_comm *comm = NULL;
	int err = tt_take_message(&call, message, &comm);

	if (!err)
		err = launch(name, comm, &call, layout, false, request);
	if (!err)
		*message = NULL;
	return err;
}

/* The three forms of a call: tutti_NAME, tutti_iNAME and tutti_NAME_init. */
#define FORMS(name, parameters, ...)                                                               \
	int tutti_##name(TT_PARAMETERS parameters)                                                 \
	{                                                                                          \
		struct tt_p2p_call call = {__VA_ARGS__};                                           \
		struct tutti_request *req = NULL;                                                  \
		int err = launch(__func__, comm, &call, layout, false, &req);                      \
                                                                                                   \
		return err ? err : tt_request_finish(&req);                                        \
	}                                                                                          \
	int tutti_i##name(TT_PARAMETERS parameters, struct tutti_request **request)                \
	{                                                                                          \
		struct tt_p2p_call call = {__VA_ARGS__};                                           \
                                                                                                   \
		return launch(__func__, comm, &call, layout, false, request);                      \
	}                                                                                          \
	int tutti_##name##_init(TT_PARAMETERS parameters, struct tutti_request **request)          \
	{                                                                                          \
		struct tt_p2p_call call = {__VA_ARGS__};                                           \
                                                                                                   \
		return launch(__func__, comm, &call, layout, true, request);                       \
	}

FORMS(send_layout,
      (const void *buf, const struct tutti_layout *layout, int dest, int tag,
       struct tutti_comm *comm),
      .kind = TT_P2P_SEND, .buf = (void *)buf, .rank = dest, .tag = tag)

FORMS(ssend_layout,
      (const void *buf, const struct tutti_layout *layout, int dest, int tag,
       struct tutti_comm *comm),
      .kind = TT_P2P_SEND, .buf = (void *)buf, .rank = dest, .tag = tag, .sync = true)

FORMS(recv_layout,
      (void *buf, const struct tutti_layout *layout, int source, int tag, struct tutti_comm *comm,
       struct tutti_status *status),
      .kind = TT_P2P_RECV, .buf = buf, .rank = source, .tag = tag, .status = status)

int tutti_mrecv_layout(void *buf, const struct tutti_layout *layout, struct tutti_message **message,
		       struct tutti_status *status)
{
	struct tutti_request *req = NULL;
	int err = start_mrecv(__func__, buf, layout, message, status, &req);

	return err ? err : tt_request_finish(&req);
}

int tutti_imrecv_layout(void *buf, const struct tutti_layout *layout,
			struct tutti_message **message, struct tutti_status *status,
			struct tutti_request **request)
{
	return start_mrecv(__func__, buf, layout, message, status, request);
}

/* ---- puts and gets ---- */

/* The caller's two layouts. */
struct both {
	const struct tutti_layout *here, *there;
};

/* Layouts of as many elements of one datatype; one of the two may be missing. */
static int check_both(const char *call, const struct both *both, struct tt_win_strides *s)
{
	const struct tutti_layout *here = both->here, *there = both->there;
	char type[2][32];
	int err = 0;

	if (!here && !there)
		return tt_fail(-EINVAL,
			       "%s: local_layout and layout are NULL; one of them is needed, or "
			       "call tutti_put or tutti_get",
			       call);
	if (here)
		err = tt_check_layout(call, "local_layout", here, s->get, &s->here);
	if (!err && here && s->local)
		err = check_place(call, "local", s->local, &s->here);
	if (!err && there)
		err = tt_check_layout(call, "layout", there, !s->get, &s->there);
	if (err)
		return err;
	if (here && there && here->datatype != there->datatype) {
		tt_datatype_text(here->datatype, type[0], sizeof(type[0]));
		tt_datatype_text(there->datatype, type[1], sizeof(type[1]));
		return tt_fail(-EINVAL, "%s: local_layout is of %s, layout of %s", call, type[0],
			       type[1]);
	}
	if (here && there && s->here.bytes != s->there.bytes)
		return tt_fail(-EINVAL, "%s: local_layout has %zu bytes, layout %zu", call,
			       s->here.bytes, s->there.bytes);
	if (!here)
		tt_byte_blocks_vector(&s->here, s->there.bytes, 1, 0);
	if (!there)
		tt_byte_blocks_vector(&s->there, s->here.bytes, 1, 0);
	return 0;
}

/* Completes *s. */
static int check(const char *call, struct tutti_win *win, const struct both *both,
		 struct tt_win_strides *s)
{
	int err = tt_check_access(call, win, s->rank, NULL, 0, 0);

	if (!err)
		err = check_both(call, both, s);
	if (err || !s->here.bytes)
		return err;
	if (!s->local)
		return tt_fail(-EINVAL, "%s: local is NULL", call);
	if (!tt_check_there(win, s))
		return tt_comm_blame_rank(
			win->comm, -ERANGE, s->rank,
			"%s: the layout's %zu bytes, %td to %td after %llu, are not "
			"all inside rank %d's window of %llu bytes",
			call, s->there.bytes, s->there.low, s->there.high,
			(unsigned long long)s->offset, s->rank,
			(unsigned long long)win->part[s->rank].size);
	return s->get ? 0 : tt_check_writable(call, win, s->rank);
}

int tutti_put_layout(struct tutti_win *win, int rank, const void *local,
		     const struct tutti_layout *local_layout, uint64_t offset,
		     const struct tutti_layout *layout)
{
	struct tt_win_strides s = {.rank = rank, .local = (void *)local, .offset = offset};
	struct both both = {local_layout, layout};
	int err = check(__func__, win, &both, &s);

	return err ? err : tt_win_run(win, tt_win_strides_start, &s);
}

int tutti_put_layout_notify(struct tutti_win *win, int rank, const void *local,
			    const struct tutti_layout *local_layout, uint64_t offset,
			    const struct tutti_layout *layout, int id)
{
	struct tt_win_strides s = {
		.rank = rank, .local = (void *)local, .offset = offset, .note = true};
	struct both both = {local_layout, layout};
	int err = check(__func__, win, &both, &s);

	if (!err)
		err = tt_check_notify(__func__, win, rank, id, &s.token);
	return err ? err : tt_win_run(win, tt_win_strides_start, &s);
}

int tutti_get_layout(struct tutti_win *win, int rank, void *local,
		     const struct tutti_layout *local_layout, uint64_t offset,
		     const struct tutti_layout *layout)
{
	struct tt_win_strides s = {.rank = rank, .local = local, .offset = offset, .get = true};
	struct both both = {local_layout, layout};
	int err = check(__func__, win, &both, &s);

	return err ? err : tt_win_run(win, tt_win_strides_start, &s);
}

int tutti_iput_layout(struct tutti_win *win, int rank, const void *local,
		      const struct tutti_layout *local_layout, uint64_t offset,
		      const struct tutti_layout *layout, struct tutti_request **request)
{
	struct tt_win_strides s = {.rank = rank, .local = (void *)local, .offset = offset};
	struct both both = {local_layout, layout};
	int err = check(__func__, win, &both, &s);

	return err ? err : tt_win_request(__func__, win, rank, tt_win_strides_start, &s, request);
}

int tutti_iget_layout(struct tutti_win *win, int rank, void *local,
		      const struct tutti_layout *local_layout, uint64_t offset,
		      const struct tutti_layout *layout, struct tutti_request **request)
{
	struct tt_win_strides s = {.rank = rank, .local = local, .offset = offset, .get = true};
	struct both both = {local_layout, layout};
	int err = check(__func__, win, &both, &s);

	return err ? err : tt_win_request(__func__, win, rank, tt_win_strides_start, &s, request);
}
