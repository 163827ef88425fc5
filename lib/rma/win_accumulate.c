/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accumulates at their origin: combined in mapped memory (accumulate_mapped.c), kept while they
 * wait for that, or sent as messages, cut into pieces, a few of which are under way to each rank.
 */
#include "lib/rma/win_accumulate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/hash.h"

#define PORT_SALT 0x616363ull

/* ---- pieces ---- */

struct tt_acc_piece *tt_acc_piece_new(struct tt_accs *accs)
{
	struct tt_wire *wire = accs->win->comm->ctx->wire;
	size_t size = sizeof(struct tt_acc_head) + accs->most;
	struct tt_acc_piece *piece;

	if (!tt_list_empty(&accs->free)) {
		piece = tt_container(accs->free.next, struct tt_acc_piece, link);
		tt_list_del(&piece->link);
		return piece;
	}
	piece = calloc(1, sizeof(*piece));
	if (!piece)
		return NULL;
	size = (size + 63) / 64 * 64;
	if (tt_mem_alloc(tt_wire_memory(wire), 2 * size, (void **)&piece->request,
			 &piece->region)) {
		free(piece);
		return NULL;
	}
	piece->reply = piece->request + size;
	piece->accs = accs;
	tt_list_init(&piece->link);
	tt_list_init(&piece->send.link);
	tt_list_init(&piece->recv.link);
	tt_wire_stats(wire)->allocations++;
	return piece;
}

static void piece_delete(struct tt_acc_piece *piece)
{
	tt_list_del(&piece->link);
	tt_mem_free(tt_wire_memory(piece->accs->win->comm->ctx->wire), piece->request);
	free(piece);
}

void tt_acc_transfer(struct tt_acc_piece *piece, struct tt_xfer *x, enum tt_xfer_kind kind,
		     uint32_t lane, size_t len, tt_xfer_fn *fn)
{
	struct tutti_comm *comm = piece->accs->win->comm;

	*x = (struct tt_xfer){.kind = kind,
			      .peer = comm->world[piece->rank],
			      .key = {.comm = piece->accs->port.comm,
				      .seq = piece->seq,
				      .lane = lane,
				      .index = (uint32_t)(piece->op ? comm->rank : piece->rank)},
			      .fprint = len,
			      .buf = lane == TT_ACC_REPLY ? piece->reply : piece->request,
			      .len = len,
			      .region = piece->region,
			      .fn = fn};
	tt_list_init(&x->link);
}

void tt_acc_piece_free(struct tt_acc_piece *piece)
{
	if (piece->late) {
		piece_delete(piece);
		return;
	}
	tt_list_del(&piece->link);
	tt_list_add(&piece->accs->free, &piece->link);
}

void tt_acc_piece_cancel(struct tt_acc_piece *piece)
{
	struct tt_wire *wire = piece->accs->win->comm->ctx->wire;

	if (piece->sending)
		tt_wire_cancel(wire, &piece->send);
	if (piece->receiving)
		tt_wire_cancel(wire, &piece->recv);
	piece->sending = piece->receiving = false;
}

/* ---- an operation ---- */

static void op_over(struct tt_accs *accs, struct tt_acc_op *op)
{
	struct tutti_win *win = accs->win;
	struct tt_win_end *end = op->end;
	int status = tt_win_status(op->status), rank = op->acc.rank;
	uint32_t age = op->age;

	tt_list_del(&op->link);
	tt_list_add(&accs->free_ops, &op->link);
	if (!end)
		tt_win_keep_status(win, rank, status);
	tt_win_end(win, rank, age);
	if (end)
		end->over(end, status);
}

static void start_pieces(struct tt_accs *accs, struct tt_acc_peer *peer);

/* Ends the piece when nothing of it is under way, and perhaps its operation. */
static void piece_step(struct tt_acc_piece *piece)
{
	struct tt_accs *accs = piece->accs;
	struct tt_acc_peer *peer = &accs->peer[piece->rank];
	struct tt_acc_op *op = piece->op;

	if (piece->sending || piece->receiving)
		return;
	peer->under_way--;
	op->under_way--;
	if (piece->status && !op->status)
		op->status = piece->status;
	tt_acc_piece_free(piece);
	if (op->status)
		op->next = op->acc.count; /* no more pieces */
	if (op->next == op->acc.count) {
		tt_list_del(&op->link);
		if (!op->under_way)
			op_over(accs, op);
	}
	start_pieces(accs, peer);
}

static void replied(struct tt_xfer *x, const void *data, int status)
{
	struct tt_acc_piece *piece = tt_container(x, struct tt_acc_piece, recv);
	const struct tt_win_acc *acc = &piece->op->acc;
	struct tutti_context *ctx = piece->accs->win->comm->ctx;
	struct tt_acc_reply reply;

	piece->receiving = false;
	status = tt_win_lost_status(status);
	if (!status) {
		memcpy(&reply, data, sizeof(reply));
		status = reply.status > 0 || reply.status < -4095 - TUTTI_EPEER ? -EPROTO
										: (int)reply.status;
		if (!status && acc->result) {
			size_t size = tutti_datatype_size(acc->datatype);

			memcpy((char *)acc->result + piece->at * size,
			       (const char *)data + sizeof(reply), piece->count * size);
			tt_wire_stats(ctx->wire)->copied_bytes += piece->count * size;
		}
	}
	if (status && !piece->status)
		piece->status = status;
	ctx->moves++;
	piece_step(piece);
}

/* The failure of a channel ends the receive too; other failures do not. */
static void sent(struct tt_xfer *x, const void *data, int status)
{
	struct tt_acc_piece *piece = tt_container(x, struct tt_acc_piece, send);
	struct tt_wire *wire = piece->accs->win->comm->ctx->wire;

	(void)data;
	if (!status && !piece->status && x->key.port && !x->whole) {
		x->kind = TT_XFER_OFFER;
		x->key.port = 0;
		tt_wire_send(wire, x);
		return;
	}
	piece->sending = false;
	if (status && !piece->status)
		piece->status = tt_win_lost_status(status);
	if ((status == -ENOMEM || status == -TUTTI_EMISMATCH) && piece->receiving) {
		tt_wire_cancel(wire, &piece->recv);
		piece->receiving = false;
	}
	piece_step(piece);
}

/* Writes the request; returns its length. */
static size_t write_request(struct tt_acc_piece *piece)
{
	const struct tt_win_acc *acc = &piece->op->acc;
	size_t size = tutti_datatype_size(acc->datatype);
	struct tt_acc_head head = {.offset = acc->offset + piece->at * size,
				   .count = (uint32_t)piece->count,
				   .datatype = acc->datatype,
				   .op = acc->op,
				   .fetch = acc->result != NULL};

	memcpy(piece->request, &head, sizeof(head));
	if (acc->op == TUTTI_NO_OP)
		return sizeof(head);
	memcpy(piece->request + sizeof(head), (const char *)acc->local + piece->at * size,
	       piece->count * size);
	tt_wire_stats(piece->accs->win->comm->ctx->wire)->copied_bytes += piece->count * size;
	return sizeof(head) + piece->count * size;
}

/* The receive of the reply first, as the reply may come at once. */
static void send_piece(struct tt_acc_piece *piece)
{
	struct tt_wire *wire = piece->accs->win->comm->ctx->wire;
	const struct tt_win_acc *acc = &piece->op->acc;
	size_t len = write_request(piece), back = sizeof(struct tt_acc_reply);

	if (acc->result)
		back += piece->count * tutti_datatype_size(acc->datatype);
	piece->sending = piece->receiving = true;
	tt_acc_transfer(piece, &piece->recv, TT_XFER_KEYED, TT_ACC_REPLY, back, replied);
	tt_acc_transfer(piece, &piece->send, TT_XFER_PORT, TT_ACC_REQUEST, len, sent);
	piece->send.key.port = 1;
	tt_wire_recv(wire, &piece->recv);
	tt_wire_send(wire, &piece->send);
}

/* Starts what the rank has room for; a piece may end within its start. */
static void start_pieces(struct tt_accs *accs, struct tt_acc_peer *peer)
{
	if (peer->starting)
		return;
	peer->starting = true;
	while (peer->under_way < TT_ACC_DEPTH && !tt_list_empty(&peer->queue)) {
		struct tt_acc_op *op = tt_container(peer->queue.next, struct tt_acc_op, link);
		size_t most = accs->most / tutti_datatype_size(op->acc.datatype);
		struct tt_acc_piece *piece = tt_acc_piece_new(accs);

		if (!piece) {
			op->status = -ENOMEM;
			op->next = op->acc.count;
			tt_list_del(&op->link);
			if (!op->under_way)
				op_over(accs, op);
			continue;
		}
		piece->op = op;
		piece->rank = op->acc.rank;
		piece->status = 0;
		piece->seq = peer->seq++;
		piece->at = op->next;
		piece->count = op->acc.count - op->next < most ? op->acc.count - op->next : most;
		op->next += piece->count;
		op->under_way++;
		peer->under_way++;
		if (op->next == op->acc.count)
			tt_list_del(&op->link);
		tt_list_add(&peer->going, &piece->link);
		send_piece(piece);
	}
	peer->starting = false;
}

size_t tt_win_acc_longest(const struct tutti_win *win)
{
	return win->accs->most;
}

static void by_messages(struct tt_accs *accs, struct tt_acc_op *op)
{
	int rank = op->acc.rank;

	tt_list_add(&accs->peer[rank].queue, &op->link);
	start_pieces(accs, &accs->peer[rank]);
	tt_win_wake_target(accs->win, rank);
}

/* Starts op, or goes on with it after it has waited. */
static void go_on(struct tt_accs *accs, struct tt_acc_op *op)
{
	const struct tt_win_acc *acc = &op->acc;
	int err = tt_acc_combine(accs, op);

	if (err == -EAGAIN) {
		tt_list_add(&accs->waiting, &op->link);
		tt_acc_wait(accs);
		return;
	}
	if (err == -EOPNOTSUPP && acc->rank != accs->win->comm->rank) {
		by_messages(accs, op);
		return;
	}
	if (err == -EOPNOTSUPP) { /* the lock of the wire is enough */
		tt_acc_apply(accs->win->base + acc->offset, acc->local, acc->result, acc->count,
			     acc->datatype, acc->op);
		err = 0;
	}
	op->status = err;
	accs->win->comm->ctx->moves++; /* also if nothing has been combined */
	op_over(accs, op);
}

void tt_acc_wait(struct tt_accs *accs)
{
	if (tt_list_empty(&accs->stalled.link))
		tt_list_add(&accs->win->comm->ctx->stalled, &accs->stalled.link);
}

/* Tries each once: one that still waits goes to the end. */
static void try_again(struct tt_stalled *stalled)
{
	struct tt_accs *accs = tt_container(stalled, struct tt_accs, stalled);
	struct tt_list *l, *tmp;
	int n = 0;

	tt_acc_serve_locked(accs);
	tt_list_each(l, tmp, &accs->waiting)
	{
		n++;
	}
	for (; n && !tt_list_empty(&accs->waiting); n--) {
		struct tt_acc_op *op = tt_container(accs->waiting.next, struct tt_acc_op, link);

		tt_list_del(&op->link);
		go_on(accs, op);
	}
	if (tt_list_empty(&accs->locked) && tt_list_empty(&accs->waiting))
		tt_list_del(&stalled->link);
}

int tt_win_acc_start(struct tutti_win *win, const void *what, struct tt_win_end *end)
{
	const struct tt_win_acc *acc = what;
	struct tt_accs *accs = win->accs;
	struct tt_acc_op *op;
	int err = tt_comm_check(win->comm);

	if (err)
		return err;
	op = tt_win_take_op(win, &accs->free_ops, sizeof(*op));
	if (!op)
		return -ENOMEM;
	op->acc = *acc;
	op->end = end;
	op->next = 0;
	op->under_way = op->status = 0;
	op->waits = false;
	op->age = tt_win_begin(win, acc->rank);
	if (accs->peer[acc->rank].freed)
		op->status = -EACCES;
	if (!acc->count || op->status)
		op_over(accs, op);
	else
		go_on(accs, op);
	return 0;
}

/* ---- a window ---- */

/* The first that waits, of rank (-1: of any). */
static struct tt_acc_op *first_waiting(struct tt_accs *accs, int rank)
{
	struct tt_list *l, *tmp;

	tt_list_each(l, tmp, &accs->waiting)
	{
		struct tt_acc_op *op = tt_container(l, struct tt_acc_op, link);

		if (rank < 0 || op->acc.rank == rank)
			return op;
	}
	return NULL;
}

void tt_accs_drop(struct tutti_win *win, int rank, int status)
{
	int i, end = rank < 0 ? win->comm->size : rank + 1;
	struct tt_accs *accs = win->accs;
	struct tt_acc_op *waiting;

	while (accs && (waiting = first_waiting(accs, rank))) {
		waiting->status = status;
		op_over(accs, waiting);
	}
	for (i = rank < 0 ? 0 : rank; accs && i < end; i++) {
		struct tt_acc_peer *peer = &accs->peer[i];

		while (!tt_list_empty(&peer->queue)) {
			struct tt_acc_op *op =
				tt_container(peer->queue.next, struct tt_acc_op, link);

			tt_list_del(&op->link);
			op->status = status;
			op->next = op->acc.count;
			if (!op->under_way)
				op_over(accs, op);
		}
	}
}

int tt_accs_new(struct tutti_win *win)
{
	size_t n = (size_t)win->comm->size, longest = tt_wire_longest(win->comm->ctx->wire), i;
	struct tt_accs *accs = calloc(1, sizeof(*accs));

	if (accs)
		accs->peer = calloc(n, sizeof(*accs->peer));
	if (!accs || !accs->peer) {
		free(accs);
		return tt_fail(-ENOMEM, "no memory for the accumulates of a window");
	}
	accs->win = win;
	accs->most = TT_ACC_MOST;
	if (accs->most > longest - sizeof(struct tt_acc_head))
		accs->most = longest - sizeof(struct tt_acc_head);
	tt_list_init(&accs->free);
	tt_list_init(&accs->served);
	tt_list_init(&accs->locked);
	tt_list_init(&accs->free_ops);
	tt_list_init(&accs->waiting);
	tt_list_init(&accs->stalled.link);
	accs->stalled.again = try_again;
	for (i = 0; i < n; i++) {
		tt_list_init(&accs->peer[i].queue);
		tt_list_init(&accs->peer[i].going);
	}
	win->accs = accs;
	return 0;
}

/* Nobody says anything to the port of a window, but a peer could. */
static void ignore(struct tt_port *port, int peer, uint32_t what, const struct tt_key *key,
		   uint64_t a, uint64_t b)
{
	(void)port, (void)peer, (void)what, (void)key, (void)a, (void)b;
}

void tt_accs_name(struct tutti_win *win, const struct tutti_comm *coll)
{
	if (win->accs)
		win->accs->port.comm = tt_hash_add(tt_hash_add(coll->uid, PORT_SALT), coll->seq);
}

/* Ranks that have told that they do not have the window, before this rank had it. */
static void find_closed(struct tt_accs *accs)
{
	const struct tutti_context *ctx = accs->win->comm->ctx;
	int i, rank;

	for (i = 0; i < TT_CLOSED_MAX; i++) {
		if (ctx->closed[i].port != accs->port.comm)
			continue;
		rank = tt_comm_rank_of(accs->win->comm, ctx->closed[i].rank);
		if (rank >= 0)
			accs->peer[rank].freed = true;
	}
}

void tt_accs_open(struct tutti_win *win)
{
	struct tt_accs *accs = win->accs;

	accs->port.message = tt_acc_message;
	accs->port.said = ignore;
	tt_wire_port_open(win->comm->ctx->wire, &accs->port);
	accs->open = true;
	find_closed(accs);
}

/*
 * The window of a dead rank cannot be freed together: live ranks free it at different times. Nor
 * can it be made together: some may have it while others have failed. A rank without it does not
 * know the port, so it answers no request.
 */
void tt_accs_tell_closed(struct tutti_win *win)
{
	if (!win->accs || atomic_load(&win->comm->failed)) /* of a failure all ranks learn */
		return;
	tt_acc_close_own(win->accs);
	tt_ctl_send(win->comm->ctx->boot, TT_CTL_ALL, TT_CTL_CLOSED, &win->accs->port.comm,
		    sizeof(win->accs->port.comm));
}

static void refuse_going(struct tt_wire *wire, struct tt_acc_peer *peer)
{
	struct tt_list *l, *tmp;

	tt_list_each(l, tmp, &peer->going)
	{
		struct tt_acc_piece *piece = tt_container(l, struct tt_acc_piece, link);

		piece->late = true;
		piece->status = -EACCES;
		piece->sending &= !tt_wire_cancel_quiet(wire, &piece->send);
		piece->receiving &= !tt_wire_cancel_quiet(wire, &piece->recv);
		piece_step(piece);
	}
}

void tt_accs_closed_msg(void *arg, int from, const void *data, size_t len)
{
	struct tutti_context *ctx = arg;
	struct tt_port *port;
	struct tt_accs *accs;
	uint64_t id;
	int rank;

	if (len != sizeof(id))
		return;
	memcpy(&id, data, sizeof(id));
	tt_ctx_lock(ctx);
	port = tt_wire_port_find(ctx->wire, id);
	accs = port && port->message == tt_acc_message ? tt_container(port, struct tt_accs, port)
						       : NULL;
	rank = accs ? tt_comm_rank_of(accs->win->comm, from) : -1;
	if (!accs) /* this rank may be about to have the window */
		ctx->closed[ctx->nclosed++ % TT_CLOSED_MAX] = (struct tt_closed){id, from};
	if (rank >= 0) {
		accs->peer[rank].freed = true;
		tt_accs_drop(accs->win, rank, -EACCES);
		refuse_going(ctx->wire, &accs->peer[rank]);
		ctx->moves++;
		tt_wire_wake(ctx->wire);
	}
	tt_ctx_unlock(ctx);
}

static void free_pieces(struct tt_accs *accs)
{
	while (!tt_list_empty(&accs->free))
		piece_delete(tt_container(accs->free.next, struct tt_acc_piece, link));
}

static bool all_sent(void *arg)
{
	const struct tutti_win *win = arg;

	return atomic_load(&win->comm->failed) ||
	       (tt_list_empty(&win->accs->served) && tt_list_empty(&win->accs->locked));
}

void tt_accs_finish(struct tutti_win *win)
{
	struct tutti_context *ctx = win->comm->ctx;

	if (!win->accs)
		return;
	tt_wire_lock(ctx->wire);
	win->accs->closing = true;
	tt_wire_unlock(ctx->wire);
	tt_engine_wait(ctx, all_sent, win, tt_deadline_ms(ctx->env.timeout.number));
}

void tt_accs_free(struct tutti_win *win)
{
	struct tt_accs *accs = win->accs;

	if (!accs)
		return;
	tt_acc_stop_serving(accs);
	tt_list_del(&accs->stalled.link);
	if (accs->open)
		tt_wire_port_close(win->comm->ctx->wire, &accs->port);
	free_pieces(accs);
	tt_win_free_idle(&accs->free_ops);
	free(accs->peer);
	free(accs);
	win->accs = NULL;
}
