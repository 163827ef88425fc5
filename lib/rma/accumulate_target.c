/* SPDX-License-Identifier: BSD-3-Clause */
/* Accumulates at their target. Nothing in a request is trusted. */
#include <errno.h>
#include <string.h>

#include "lib/base/copy.h"
#include "lib/reduce/reduce.h"
#include "lib/rma/win_accumulate.h"

bool tt_win_acc_valid(enum tutti_datatype datatype, enum tutti_op op)
{
	if (op == TUTTI_REPLACE || op == TUTTI_NO_OP)
		return tutti_datatype_size(datatype) > 0;
	return (unsigned)op < TUTTI_NUM_OPS && op != TUTTI_AVG && tutti_datatype_size(datatype) &&
	       tt_reduce_valid(datatype, op);
}

int tt_acc_check(const struct tutti_win *win, const struct tt_acc_head *head, size_t len,
		 size_t most)
{
	enum tutti_datatype datatype = (enum tutti_datatype)head->datatype;
	enum tutti_op op = (enum tutti_op)head->op;
	size_t bytes;

	if (head->fetch > 1 || head->pad || !tt_win_acc_valid(datatype, op))
		return -EPROTO;
	bytes = head->count * tutti_datatype_size(datatype);
	if (!head->count || bytes > most ||
	    len != sizeof(*head) + (op == TUTTI_NO_OP ? 0 : bytes) ||
	    (op == TUTTI_NO_OP && !head->fetch))
		return -EPROTO;
	if (win->flags & TUTTI_WIN_READ_ONLY && op != TUTTI_NO_OP)
		return -EACCES;
	if (bytes > win->size || head->offset > win->size - bytes)
		return -ERANGE;
	return 0;
}

void tt_acc_apply(void *target, const void *data, void *old, size_t count,
		  enum tutti_datatype datatype, enum tutti_op op)
{
	const void *const src[2] = {target, data};
	size_t bytes = count * tutti_datatype_size(datatype);

	if (!count)
		return;
	if (old)
		tt_copy_data(old, target, bytes);
	if (op == TUTTI_REPLACE)
		tt_copy_data(target, data, bytes);
	else if (op != TUTTI_NO_OP)
		tt_reduce_multi(&target, 1, src, 2, count, datatype, op, 0, 0);
}

static void served(struct tt_acc_piece *piece)
{
	piece->accs->peer[piece->rank].served--;
	tt_acc_piece_free(piece);
}

static void reply_sent(struct tt_xfer *x, const void *data, int status)
{
	struct tt_acc_piece *piece = tt_container(x, struct tt_acc_piece, send);

	(void)data;
	(void)status; /* the origin is gone, or learns it from its channel */
	piece->sending = false;
	served(piece);
}

/* Keeps the request until the part's lock is free: the wire lock must not wait for it. */
static void keep(struct tt_acc_piece *piece, const char *data, size_t len)
{
	if (data != piece->request) {
		memcpy(piece->request, data, len);
		tt_wire_stats(piece->accs->win->comm->ctx->wire)->copied_bytes += len;
	}
	piece->len = len;
	tt_list_del(&piece->link);
	tt_list_add(&piece->accs->locked, &piece->link);
	tt_acc_wait(piece->accs);
}

/*
 * Executes the request and replies, also to a request that is refused; false: another process holds
 * the lock of the part. again: it has waited for it.
 */
static bool serve(struct tt_acc_piece *piece, const char *data, size_t len, bool again)
{
	struct tt_accs *accs = piece->accs;
	struct tutti_comm *comm = accs->win->comm;
	struct tt_acc_reply reply = {0};
	struct tt_acc_head head;
	size_t back = 0;
	char *old = piece->reply + sizeof(reply);

	memcpy(&head, data, sizeof(head));
	reply.status = tt_acc_check(accs->win, &head, len, accs->most);
	if (!reply.status && !tt_acc_lock_own(accs, again)) {
		keep(piece, data, len);
		return false;
	}
	if (reply.status != -EPROTO && head.fetch)
		back = head.count * tutti_datatype_size((enum tutti_datatype)head.datatype);
	if (!reply.status) {
		tt_acc_apply(accs->win->base + head.offset, data + sizeof(head), back ? old : NULL,
			     head.count, (enum tutti_datatype)head.datatype,
			     (enum tutti_op)head.op);
		tt_acc_unlock_own(accs);
	} else {
		memset(old, 0, back);
	}
	memcpy(piece->reply, &reply, sizeof(reply));
	back += sizeof(reply);
	tt_acc_transfer(piece, &piece->send, TT_XFER_KEYED, TT_ACC_REPLY, back, reply_sent);
	piece->sending = true;
	comm->ctx->moves++;
	tt_wire_send(comm->ctx->wire, &piece->send);
	return true;
}

void tt_acc_serve_locked(struct tt_accs *accs)
{
	bool done = true;
	int i;

	for (i = 0; i < TT_ACC_AT_ONCE && done && !tt_list_empty(&accs->locked); i++) {
		struct tt_acc_piece *piece =
			tt_container(accs->locked.next, struct tt_acc_piece, link);

		tt_list_del(&piece->link);
		tt_list_add(&accs->served, &piece->link);
		done = serve(piece, piece->request, piece->len, true);
	}
}

static void data_came(struct tt_xfer *x, const void *data, int status)
{
	struct tt_acc_piece *piece = tt_container(x, struct tt_acc_piece, recv);

	piece->receiving = false;
	if (status)
		served(piece);
	else
		serve(piece, data, x->len, false);
}

/* The data did not fit a slot: it comes into the piece's own memory. */
static void fetch_data(struct tt_acc_piece *piece, size_t total)
{
	tt_acc_transfer(piece, &piece->recv, TT_XFER_OFFER, TT_ACC_REQUEST, total, data_came);
	piece->receiving = true;
	tt_wire_recv(piece->accs->win->comm->ctx->wire, &piece->recv);
}

void tt_acc_message(struct tt_port *port, int peer, const struct tt_key *key, uint64_t total,
		    const void *data, uint32_t len, const struct tt_kept *kept)
{
	struct tt_accs *accs = tt_container(port, struct tt_accs, port);
	struct tutti_comm *comm = accs->win->comm;
	struct tt_acc_piece *piece;

	(void)kept;
	if (key->index >= (uint32_t)comm->size || comm->world[key->index] != peer ||
	    key->lane != TT_ACC_REQUEST || (len && len != total) ||
	    total < sizeof(struct tt_acc_head) || total > sizeof(struct tt_acc_head) + accs->most ||
	    atomic_load(&comm->failed) || accs->closing ||
	    accs->peer[key->index].served >= TT_ACC_SERVED)
		return;
	piece = tt_acc_piece_new(accs);
	if (!piece) {
		tt_comm_fail(comm, -ENOMEM, peer, "accumulate", 0, "",
			     "no memory to serve an accumulate of rank %d", peer);
		return;
	}
	piece->op = NULL;
	piece->rank = (int)key->index;
	piece->seq = key->seq;
	accs->peer[piece->rank].served++;
	tt_list_add(&accs->served, &piece->link);
	if (len)
		serve(piece, data, total, false);
	else
		fetch_data(piece, total);
}

static void stop_serving(struct tt_list *pieces)
{
	while (!tt_list_empty(pieces)) {
		struct tt_acc_piece *piece = tt_container(pieces->next, struct tt_acc_piece, link);

		tt_acc_piece_cancel(piece);
		served(piece);
	}
}

void tt_acc_stop_serving(struct tt_accs *accs)
{
	stop_serving(&accs->served);
	stop_serving(&accs->locked);
}
