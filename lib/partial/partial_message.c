/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The messages of a partial all-reduce. Each rank always has one receive posted from each other
 * living rank: of a head, or of the vector behind the last head. Messages of a pair stay in order.
 * The end of a receive queues the peer; the next step takes it, so no step runs inside another.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/partial/partial.h"

enum { TAG_HEAD, TAG_VECTOR };

struct tt_partial_head *tt_partial_head_new(struct tutti_partial *p)
{
	struct tt_partial_head *head = calloc(1, p->head_max);

	if (!head && !p->failed)
		p->failed = -ENOMEM;
	return head;
}

static bool has_vector(uint32_t kind)
{
	return kind == TT_PARTIAL_OFFER || kind == TT_PARTIAL_RESULT;
}

static size_t head_len(const struct tutti_partial *p, uint32_t kind)
{
	size_t numbers = sizeof(uint64_t) * (size_t)p->comm->size;

	return sizeof(struct tt_partial_head) + (kind == TT_PARTIAL_OPEN ? numbers
						 : kind == TT_PARTIAL_RESULT
							 ? numbers + p->bitmap_len
							 : 0);
}

/* ---- sending ---- */

static void send_over(struct tutti_request *req)
{
	struct tt_partial_send *s = req->ended_arg;

	tt_list_add(&s->p->sent, &s->link);
	s->p->stirred = true;
}

static void send_part(struct tutti_partial *p, int rank, struct tt_partial_send *s, void *buf,
		      size_t len, int tag)
{
	struct tt_p2p_call call = {.kind = TT_P2P_SEND,
				   .buf = buf,
				   .count = len,
				   .datatype = TUTTI_UINT8,
				   .rank = rank,
				   .tag = tag};
	int err = tt_p2p_new(p->comm, &call, false, &s->req);

	s->p = p;
	s->rank = rank;
	tt_list_init(&s->link);
	p->sends++;
	if (err) {
		s->req = NULL;
	} else {
		s->req->inner = true;
		s->req->ended = send_over;
		s->req->ended_arg = s;
		err = tt_request_start(s->req);
		if (!err)
			tt_request_set_timeout(s->req, -1); /* a slow rank may take long */
	}
	if (!err)
		return;
	p->failed = p->failed ? p->failed : err;
	tt_list_add(&p->sent, &s->link);
	p->stirred = true;
}

void tt_partial_send(struct tutti_partial *p, int rank, const struct tt_partial_head *head,
		     struct tt_partial_vec *vec)
{
	size_t len = head_len(p, head->kind);
	struct tt_partial_send *s = calloc(1, sizeof(*s) + len - sizeof(*head));
	struct tt_partial_send *data = vec ? calloc(1, sizeof(*data)) : NULL;

	if (!s || (vec && !data)) {
		free(s);
		free(data);
		p->failed = p->failed ? p->failed : -ENOMEM;
		return;
	}
	memcpy(&s->head, head, len);
	send_part(p, rank, s, &s->head, len, TAG_HEAD);
	if (!vec)
		return;
	vec->refs++;
	data->vec = vec;
	data->result = head->kind == TT_PARTIAL_RESULT;
	p->peer[rank].results += data->result;
	send_part(p, rank, data, vec->data, p->bytes, TAG_VECTOR);
}

void tt_partial_send_all(struct tutti_partial *p, const struct tt_partial_head *head,
			 struct tt_partial_vec *vec)
{
	int r;

	for (r = 0; r < p->comm->size; r++)
		if (r != p->comm->rank && !p->peer[r].gone)
			tt_partial_send(p, r, head, vec);
}

/* A rank that has died is noticed where this rank receives from it. */
static void sent(struct tutti_partial *p)
{
	struct tt_partial_send *s;

	while (!tt_list_empty(&p->sent)) {
		s = tt_container(p->sent.next, struct tt_partial_send, link);
		tt_list_del(&s->link);
		p->sends--;
		p->peer[s->rank].results -= s->result;
		tt_partial_vec_put(p, s->vec);
		if (s->req)
			tt_request_free(s->req);
		free(s);
	}
}

/* ---- receiving ---- */

static void receive_over(struct tutti_request *req)
{
	struct tt_partial_peer *peer = req->ended_arg;

	peer->over = true;
	peer->p->stirred = true;
}

void tt_partial_receive(struct tt_partial_peer *peer)
{
	struct tutti_partial *p = peer->p;
	struct tt_p2p_call call = {.kind = TT_P2P_RECV,
				   .buf = peer->vec ? peer->vec->data : peer->head,
				   .count = peer->vec ? p->bytes : p->head_max,
				   .datatype = TUTTI_UINT8,
				   .rank = peer->rank,
				   .tag = peer->vec ? TAG_VECTOR : TAG_HEAD};
	int err = tt_p2p_new(p->comm, &call, false, &peer->req);

	peer->over = false;
	if (err) {
		peer->req = NULL;
		p->failed = p->failed ? p->failed : err;
		return;
	}
	peer->req->inner = true;
	peer->req->ended = receive_over;
	peer->req->ended_arg = peer;
	err = tt_request_start(peer->req);
	if (!err)
		return;
	tt_request_free(peer->req);
	peer->req = NULL;
	p->failed = p->failed ? p->failed : err;
}

static void take(struct tt_partial_peer *peer)
{
	struct tutti_partial *p = peer->p;
	const struct tt_partial_head *head = peer->head;

	switch (head->kind) {
	case TT_PARTIAL_STATE:
		peer->state_in = true;
		peer->state_round = head->round;
		peer->state_drains = head->drains;
		break;
	case TT_PARTIAL_FETCH:
		tt_partial_fetched(peer, head);
		break;
	case TT_PARTIAL_OPEN:
		tt_partial_opened(p, head);
		break;
	case TT_PARTIAL_OFFER:
		tt_partial_offered(peer, head, peer->vec);
		break;
	case TT_PARTIAL_CALL:
		tt_partial_called(peer, head);
		break;
	case TT_PARTIAL_DRAIN:
		tt_partial_draining(peer, head);
		break;
	case TT_PARTIAL_RESULT:
		tt_partial_result(p, head, peer->vec);
		break;
	case TT_PARTIAL_DRAINED:
		tt_partial_drained(p, head->drains);
		break;
	}
}

static void received(struct tt_partial_peer *peer)
{
	struct tutti_partial *p = peer->p;
	int status = peer->req->status;
	bool dead = status == -TUTTI_EPEER && p->comm->tolerant && !atomic_load(&p->comm->failed);

	tt_request_free(peer->req);
	peer->req = NULL;
	peer->over = false;
	if (!status && !peer->vec && has_vector(peer->head->kind)) {
		peer->vec = tt_partial_vec_get(p);
		if (peer->vec)
			tt_partial_receive(peer);
		return;
	}
	if (!status)
		take(peer);
	tt_partial_vec_put(p, peer->vec);
	peer->vec = NULL;
	if (!status)
		tt_partial_receive(peer);
	else if (dead)
		tt_partial_gone(peer);
	else
		p->failed = p->failed ? p->failed : status;
}

void tt_partial_arrivals(struct tutti_partial *p)
{
	int r;

	sent(p);
	for (r = 0; r < p->comm->size && !p->failed; r++)
		while (p->peer[r].over && !p->failed)
			received(&p->peer[r]);
}
