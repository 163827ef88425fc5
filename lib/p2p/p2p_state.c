/* SPDX-License-Identifier: BSD-3-Clause */
/* A communicator's state for its messages, and its memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/copy.h"
#include "lib/p2p/p2p.h"

int tt_p2p_get(struct tutti_comm *comm, struct tt_p2p **out)
{
	struct tt_p2p *p2p = comm->p2p;

	if (!p2p) {
		p2p = calloc(1, sizeof(*p2p));
		if (p2p)
			p2p->peer = calloc((size_t)comm->size, sizeof(struct tt_p2p_peer *));
		if (!p2p || !p2p->peer) {
			free(p2p);
			return tt_fail(-ENOMEM, "no memory for messages of a communicator");
		}
		p2p->comm = comm;
		p2p->memory = tt_wire_memory(comm->ctx->wire);
		p2p->most = tt_wire_longest(comm->ctx->wire);
		p2p->most = p2p->most < TT_P2P_PIECE ? p2p->most : TT_P2P_PIECE;
		tt_list_init(&p2p->any);
		tt_list_init(&p2p->probes);
		tt_list_init(&p2p->arrived);
		tt_list_init(&p2p->taken);
		tt_list_init(&p2p->idle);
		tt_list_init(&p2p->free_msgs);
		p2p->port.comm = tt_comm_port(comm);
		p2p->port.message = tt_p2p_message;
		p2p->port.said = tt_p2p_said;
		comm->p2p = p2p;
		tt_wire_stats(comm->ctx->wire)->allocations++;
		tt_wire_port_open(comm->ctx->wire, &p2p->port);
	}
	*out = p2p;
	return 0;
}

struct tt_p2p_peer *tt_p2p_peer_new(struct tt_p2p *p2p, int rank)
{
	struct tt_p2p_peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		return NULL;
	peer->p2p = p2p;
	peer->rank = rank;
	peer->limit = peer->whole = peer->said_limit = peer->said_whole = TT_P2P_WINDOW;
	tt_list_init(&peer->held);
	tt_list_init(&peer->announced);
	tt_list_init(&peer->posted);
	tt_list_init(&peer->ahead);
	tt_list_init(&peer->arrived);
	tt_list_init(&peer->waiting);
	tt_list_init(&peer->pull.link);
	tt_wire_stats(p2p->comm->ctx->wire)->allocations++;
	p2p->peer[rank] = peer;
	return peer;
}

/* All of one size, the longest of an eager or a brief message. */
static char *data_new(struct tt_p2p *p2p)
{
	size_t size = tt_wire_eager_max(&p2p->comm->ctx->env), brief = TT_BRIEF_TIMES * size;
	char *data = p2p->free_data;

	if (size < TT_BRIEF_MAX)
		size = brief < TT_BRIEF_MAX ? brief : TT_BRIEF_MAX;
	if (data) {
		memcpy(&p2p->free_data, data, sizeof(data));
		return data;
	}
	tt_wire_stats(p2p->comm->ctx->wire)->allocations++;
	return malloc(size < sizeof(data) ? sizeof(data) : size);
}

static void data_free(struct tt_p2p *p2p, char *data)
{
	memcpy(data, &p2p->free_data, sizeof(data));
	p2p->free_data = data;
}

struct tutti_message *tt_p2p_keep(struct tt_p2p *p2p, const void *data, uint32_t len)
{
	struct tutti_stats *stats = tt_wire_stats(p2p->comm->ctx->wire);
	struct tutti_message *msg;

	if (tt_list_empty(&p2p->free_msgs)) {
		msg = calloc(1, sizeof(*msg));
		if (!msg)
			return NULL;
		tt_list_init(&msg->link);
		tt_list_init(&msg->all);
		stats->allocations++;
	} else {
		msg = tt_container(p2p->free_msgs.next, struct tutti_message, link);
		tt_list_del(&msg->link);
	}
	msg->data = NULL;
	if (!len)
		return msg;
	msg->data = data_new(p2p);
	if (!msg->data) {
		tt_p2p_drop(p2p, msg);
		return NULL;
	}
	tt_copy_data(msg->data, data, len);
	stats->copied_bytes += len;
	stats->parked_messages++;
	return msg;
}

void tt_p2p_drop(struct tt_p2p *p2p, struct tutti_message *msg)
{
	if (msg->data)
		data_free(p2p, msg->data);
	msg->data = NULL;
	atomic_store_explicit(&msg->taken, false, memory_order_release);
	tt_list_del(&msg->all);
	tt_list_del(&msg->link);
	tt_list_add(&p2p->free_msgs, &msg->link);
}

/*
 * ---- the end ----
 *
 * A sender keeps a long message, and waits for a synchronous one, until it is matched, and for
 * credit after many. If the receiver frees the communicator first, it says so of each message: of
 * those that wait here, and of those that come later. A communicator that is not made yet is not
 * among the freed ones. A receiver that frees a failed communicator says nothing: the failure is on
 * its way to the sender, and ends the message.
 */

static void say_freed(struct tutti_comm *comm, int world, const struct tt_key *key, bool more)
{
	struct tt_key answer = *key;

	if (atomic_load(&comm->failed))
		return;
	answer.index = (uint32_t)comm->rank;
	answer.port = TT_P2P_PORT;
	tt_wire_port_say(comm->ctx->wire, world, TT_P2P_FREED, &answer, more, 0);
}

void tt_p2p_refuse(struct tt_p2p *p2p, const struct tutti_message *msg)
{
	struct tutti_comm *comm = p2p->comm;
	struct tt_key key = tt_p2p_key(p2p, comm->rank, msg->seq, msg->tag);

	say_freed(comm, comm->world[msg->peer->rank], &key,
		  !tt_list_empty(&msg->peer->posted) || !tt_list_empty(&p2p->any));
}

static struct tutti_comm *find_freed(struct tt_list *comms, uint64_t port)
{
	struct tt_list *l, *tmp;

	tt_list_each(l, tmp, comms)
	{
		struct tutti_comm *comm = tt_container(l, struct tutti_comm, link);

		if (comm->freed && tt_comm_port(comm) == port)
			return comm;
	}
	return NULL;
}

/* The communicator may still have requests, but no receives: its port is not open. */
bool tt_p2p_late(void *arg, int from, const struct tt_key *key, uint64_t total, uint32_t len)
{
	struct tutti_context *ctx = arg;
	struct tutti_comm *comm = find_freed(&ctx->dead, key->comm);

	(void)total, (void)len;
	if (!comm)
		comm = find_freed(&ctx->comms, key->comm);
	if (comm)
		say_freed(comm, from, key, false);
	return comm;
}

/* A communicator that has used no messages. */
struct unused {
	struct tt_port port;
	struct tutti_comm *comm;
};

static void refuse(struct tt_port *port, int from, const struct tt_key *key, uint64_t total,
		   const void *data, uint32_t len, const struct tt_kept *kept)
{
	(void)total, (void)data, (void)len, (void)kept;
	say_freed(tt_container(port, struct unused, port)->comm, from, key, false);
}

static void refuse_early(struct tutti_comm *comm)
{
	struct unused u = {.port = {.comm = tt_comm_port(comm), .message = refuse}, .comm = comm};

	tt_wire_port_open(comm->ctx->wire, &u.port);
	tt_wire_port_close(comm->ctx->wire, &u.port);
}

static void refuse_all(struct tt_p2p *p2p, const struct tt_list *list)
{
	struct tt_list *l;

	for (l = list->next; l != list; l = l->next)
		tt_p2p_refuse(p2p, tt_container(l, struct tutti_message, link));
}

void tt_p2p_freed(struct tutti_comm *comm)
{
	struct tt_p2p *p2p = comm->p2p;

	if (!p2p)
		refuse_early(comm);
	while (p2p && tt_p2p_is_over(p2p) && !tt_list_empty(&p2p->arrived)) {
		struct tutti_message *msg =
			tt_container(p2p->arrived.next, struct tutti_message, all);

		tt_p2p_refuse(p2p, msg);
		tt_p2p_grant(msg->peer);
		tt_p2p_drop(p2p, msg);
		p2p->narrived--;
	}
	if (p2p && tt_p2p_is_over(p2p))
		refuse_all(p2p, &p2p->taken);
}

static void refuse_rest(struct tt_p2p *p2p)
{
	int i;

	for (i = 0; i < p2p->comm->size; i++) {
		if (!p2p->peer[i])
			continue;
		refuse_all(p2p, &p2p->peer[i]->ahead);
		refuse_all(p2p, &p2p->peer[i]->arrived);
	}
	refuse_all(p2p, &p2p->taken);
}

static void drop_all(struct tt_p2p *p2p, struct tt_list *list)
{
	while (!tt_list_empty(list))
		tt_p2p_drop(p2p, tt_container(list->next, struct tutti_message, link));
}

static void free_all(struct tt_p2p *p2p)
{
	int i;

	tt_wire_port_close(p2p->comm->ctx->wire, &p2p->port);
	for (i = 0; i < p2p->comm->size; i++) {
		if (!p2p->peer[i])
			continue;
		drop_all(p2p, &p2p->peer[i]->ahead);
		drop_all(p2p, &p2p->peer[i]->arrived);
		tt_list_del(&p2p->peer[i]->pull.link);
		free(p2p->peer[i]);
	}
	drop_all(p2p, &p2p->taken);
	while (!tt_list_empty(&p2p->free_msgs)) {
		struct tutti_message *msg =
			tt_container(p2p->free_msgs.next, struct tutti_message, link);

		tt_list_del(&msg->link);
		free(msg);
	}
	while (p2p->free_data) {
		char *data = p2p->free_data;

		memcpy(&p2p->free_data, data, sizeof(data));
		free(data);
	}
	while (!tt_list_empty(&p2p->idle)) {
		struct tt_p2p_req *req = tt_container(p2p->idle.next, struct tt_p2p_req, r.link);

		tt_list_del(&req->r.link);
		tt_request_release(p2p->comm->ctx, &req->r, sizeof(*req));
	}
	free(p2p->peer);
	free(p2p);
}

void tt_p2p_end(struct tutti_comm *comm)
{
	struct tt_p2p *p2p = comm->p2p;

	if (comm->freed && p2p)
		refuse_rest(p2p);
	if (p2p)
		free_all(p2p);
	comm->p2p = NULL;
}
