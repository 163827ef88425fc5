/* SPDX-License-Identifier: BSD-3-Clause */
/* All-to-all of layouts: checks arguments, then calls lib/engine/alltoallw.c. */
#include <errno.h>
#include <stdio.h>

#include "lib/api/api.h"
#include "lib/base/datatype.h"
#include "lib/engine/alltoallw.h"

/* One side of a call: the caller's arrays. */
struct side {
	const char *which; /* "send" */
	const void *buf;
	const size_t *counts;
	const ptrdiff_t *displs;
	const struct tutti_layout *const *layouts;
};

static const char name[] = "alltoallw";

static int too_large(const struct side *s, int rank)
{
	return tt_fail(-EINVAL,
		       "%s: the block of rank %d in %sbuf does not fit into an address space", name,
		       rank, s->which);
}

/* b->blocks is set. Blocks without gaps become one. */
static int repeat(const struct side *s, int rank, size_t count, struct tt_w_block *b)
{
	struct tt_byte_blocks *l = &b->blocks;
	ptrdiff_t displ = s->displs ? s->displs[rank] : 0, far, low, high;

	b->span = l->high - l->low;
	if (__builtin_mul_overflow(l->bytes, count, &b->bytes) || b->bytes > PTRDIFF_MAX ||
	    __builtin_mul_overflow(b->span, count - 1, &far) ||
	    __builtin_add_overflow(displ, l->low, &low) ||
	    __builtin_add_overflow(displ, l->high, &high) ||
	    __builtin_add_overflow(high, far, &high))
		return too_large(s, rank);
	if (!b->bytes)
		return 0;
	if (!s->buf)
		return tt_fail(-EINVAL, "%s: %sbuf is NULL", name, s->which);
	if (!tt_check_place(s->buf, low, high))
		return too_large(s, rank);
	b->base = (char *)s->buf + displ;
	b->times = count;
	if (l->count == 1) {
		b->base += l->low;
		tt_byte_blocks_vector(l, b->bytes, 1, 0);
		b->times = 1;
	}
	return 0;
}

static int check_block(const struct side *s, int rank, struct tt_w_block *b)
{
	size_t count = s->counts ? s->counts[rank] : 1;
	const struct tutti_layout *l;
	char what[48];
	int err;

	*b = (struct tt_w_block){.datatype = TUTTI_UINT8};
	if (!count)
		return 0;
	if (!s->layouts)
		return tt_fail(-EINVAL, "%s: %slayouts is NULL", name, s->which);
	l = s->layouts[rank];
	snprintf(what, sizeof(what), "%slayouts[%d]", s->which, rank);
	err = tt_check_layout(name, what, l, s->which[0] == 'r', &b->blocks);
	if (err)
		return err;
	b->datatype = l->datatype;
	err = repeat(s, rank, count, b);
	b->elements = b->bytes / tutti_datatype_size(b->datatype);
	return err;
}

static int check_own(int rank, const struct tt_w_block *send, const struct tt_w_block *recv)
{
	char sent[32], received[32];

	if (send->elements == recv->elements &&
	    (!send->elements || send->datatype == recv->datatype))
		return 0;
	tt_datatype_text(send->datatype, sent, sizeof(sent));
	tt_datatype_text(recv->datatype, received, sizeof(received));
	return tt_fail(-EINVAL, "%s: rank %d sends %zu %s to itself but receives %zu %s", name,
		       rank, send->elements, sent, recv->elements, received);
}

static int check_call(const struct tutti_comm *comm, const struct side *send,
		      const struct side *recv, struct tt_w_block *block)
{
	int i, n = comm->size, err = 0;

	if (send->buf == TUTTI_IN_PLACE || recv->buf == TUTTI_IN_PLACE)
		return tt_fail(-EINVAL,
			       "%s: %sbuf is TUTTI_IN_PLACE, which this call does not take; "
			       "receive into another buffer",
			       name, send->buf == TUTTI_IN_PLACE ? send->which : recv->which);
	for (i = 0; i < n && !err; i++)
		err = check_block(send, i, &block[i]);
	for (i = 0; i < n && !err; i++)
		err = check_block(recv, i, &block[n + i]);
	return err ? err : check_own(comm->rank, &block[comm->rank], &block[n + comm->rank]);
}

static int start(struct tutti_comm *comm, const struct side *send, const struct side *recv,
		 struct tutti_request **out)
{
	struct tutti_request *req = NULL;
	struct tt_w_block *block;
	struct tt_w_req *w;
	int err = tt_check_comm(comm), made;

	if (err)
		return err;
	if (!out) {
		tt_comm_refused(comm, TT_COLL_ALLTOALLW, TT_FORM_CALL, -EINVAL);
		return tt_fail(-EINVAL, "%s: request is NULL", name);
	}
	tt_wire_lock(comm->ctx->wire);
	err = tt_alltoallw_get(comm, &w, &block);
	tt_wire_unlock(comm->ctx->wire);
	if (err) {
		tt_comm_refused(comm, TT_COLL_ALLTOALLW, TT_FORM_CALL, err);
		return err;
	}
	err = check_call(comm, send, recv, block);
	tt_wire_lock(comm->ctx->wire);
	if (!err)
		err = tt_comm_check_call(comm, TT_ACTIVE_COLL, name);
	if (err)
		tt_alltoallw_put(w);
	else
		err = tt_alltoallw_new(w, &req);
	made = err;
	err = tt_launch_new(comm->ctx, err, true, req, out);
	if (made)
		tt_comm_refused(comm, TT_COLL_ALLTOALLW, TT_FORM_CALL, made);
	return err;
}

int tutti_alltoallw(const void *sendbuf, const size_t *sendcounts, const ptrdiff_t *sdispls,
		    const struct tutti_layout *const *sendlayouts, void *recvbuf,
		    const size_t *recvcounts, const ptrdiff_t *rdispls,
		    const struct tutti_layout *const *recvlayouts, struct tutti_comm *comm)
{
	const struct side send = {"send", sendbuf, sendcounts, sdispls, sendlayouts};
	const struct side recv = {"recv", recvbuf, recvcounts, rdispls, recvlayouts};
	struct tutti_request *req = NULL;
	int err = start(comm, &send, &recv, &req);

	return err ? err : tt_request_finish(&req);
}

int tutti_ialltoallw(const void *sendbuf, const size_t *sendcounts, const ptrdiff_t *sdispls,
		     const struct tutti_layout *const *sendlayouts, void *recvbuf,
		     const size_t *recvcounts, const ptrdiff_t *rdispls,
		     const struct tutti_layout *const *recvlayouts, struct tutti_comm *comm,
		     struct tutti_request **request)
{
	const struct side send = {"send", sendbuf, sendcounts, sdispls, sendlayouts};
	const struct side recv = {"recv", recvbuf, recvcounts, rdispls, recvlayouts};

	return start(comm, &send, &recv, request);
}
