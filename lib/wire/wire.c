/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens and closes the transports of a process; one-sided access, and counters; see wire.h. */
#include "lib/wire/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "lib/wire/wire_internal.h"

void tt_wire_lock(struct tt_wire *wire)
{
	tt_lock(&wire->lock);
}

bool tt_wire_lock_within(struct tt_wire *wire, int ms)
{
	return tt_lock_within(&wire->lock, ms);
}

void tt_wire_unlock(struct tt_wire *wire)
{
	tt_unlock(&wire->lock);
}

static void lock_for_memory(void *wire)
{
	tt_wire_lock(wire);
}

static void unlock_for_memory(void *wire)
{
	tt_wire_unlock(wire);
}

struct tt_memory *tt_wire_memory(struct tt_wire *wire)
{
	return wire->memory;
}

struct tutti_stats *tt_wire_stats(struct tt_wire *wire)
{
	return &wire->stats;
}

static void add_moved(struct tutti_stats *stats, const struct tt_moved *moved)
{
	stats->put_bytes += atomic_load_explicit(&moved->put, memory_order_relaxed);
	stats->got_bytes += atomic_load_explicit(&moved->got, memory_order_relaxed);
}

void tt_wire_moved_open(struct tt_wire *wire, struct tt_moved *moved)
{
	tt_list_add(&wire->moved, &moved->link);
}

void tt_wire_moved_close(struct tt_wire *wire, struct tt_moved *moved)
{
	add_moved(&wire->stats, moved);
	tt_list_del(&moved->link);
}

struct tutti_stats tt_wire_stats_now(const struct tt_wire *wire)
{
	struct tutti_stats stats = wire->stats;
	const struct tt_list *l;

	for (l = wire->moved.next; l != &wire->moved; l = l->next)
		add_moved(&stats, tt_container(l, struct tt_moved, link));
	return stats;
}

size_t tt_wire_eager_max(const struct tt_env *env)
{
	return ((size_t)env->eager.number + 63) / 64 * 64;
}

static void init_lists(struct tt_wire *wire)
{
	tt_list_init(&wire->busy);
	tt_list_init(&wire->moved);
	tt_list_init(&wire->sleeping);
	tt_list_init(&wire->requests);
	tt_list_init(&wire->free_ctrl);
	tt_list_init(&wire->free_offer);
	tt_list_init(&wire->free_early);
	tt_table_init(&wire->posted);
	tt_table_init(&wire->sends);
	tt_table_init(&wire->offers);
	tt_table_init(&wire->early);
	tt_port_init(wire);
}

static int open_memory(struct tt_wire *wire)
{
	struct tt_tp *tps[TT_TP_MAX] = {NULL};
	int i;

	for (i = 0; i < wire->ntps; i++)
		tps[i] = wire->tp[i].tp;
	if (wire->params.keeper) { /* last, as transports opened later have their own index, too */
		i = TT_TP_MAX;
		if (tps[i - 1])
			return -E2BIG;
		tps[i - 1] = wire->params.keeper;
	}
	return tt_memory_new(wire->env, tps, i, lock_for_memory, unlock_for_memory, wire,
			     &wire->memory);
}

int tt_wire_open(const struct tt_wire_params *params, struct tt_wire **out)
{
	struct tt_wire *wire;
	int err;

	if (params->nranks > 1 << TT_TOKEN_RANK_BITS)
		return tt_fail(-EINVAL, "%d ranks are more than the %d there can be",
			       params->nranks, 1 << TT_TOKEN_RANK_BITS);
	wire = calloc(1, sizeof(*wire));
	if (!wire)
		return tt_fail(-ENOMEM, "no memory for the wire");
	init_lists(wire);
	wire->params = *params;
	wire->env = params->env;
	wire->window = (size_t)params->env->priority_window.number;
	wire->paced = wire->window > 0;
	wire->tp_params = (struct tt_tp_params){.env = params->env,
						.rank = params->rank,
						.local_addr = params->local_addr,
						.alive = params->alive,
						.alive_arg = params->arg};
	if (getrandom(wire->tp_params.cookie, sizeof(wire->tp_params.cookie), 0) < 0) {
		err = tt_fail(-errno, "getrandom: %s", strerror(errno));
		goto free_wire;
	}
	wire->soon_fd = -1;
	wire->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (wire->wake_fd < 0) {
		err = tt_fail(-errno, "eventfd: %s", strerror(errno));
		goto free_wire;
	}
	wire->chan = calloc((size_t)params->nranks, sizeof(*wire->chan));
	if (!wire->chan) {
		err = tt_fail(-ENOMEM, "no memory for channels to %d ranks", params->nranks);
		goto close_fd;
	}
	err = tt_open_transports(wire);
	if (!err)
		err = open_memory(wire);
	if (err)
		goto close_tps;
	*out = wire;
	return 0;

close_tps:
	while (wire->ntps--)
		wire->tp[wire->ntps].tp->ops->close(wire->tp[wire->ntps].tp);
	free(wire->chan);
close_fd:
	close(wire->wake_fd);
free_wire:
	free(wire);
	return err;
}

static void free_stages(struct tt_wire *wire)
{
	struct tt_stage *s;

	while ((s = wire->stages)) {
		wire->stages = s->next;
		tt_mem_free(wire->memory, s->mem);
		free(s);
	}
}

void tt_wire_close(struct tt_wire *wire)
{
	int i;

	tt_wire_attach(wire, NULL);
	tt_wire_lock(wire);
	tt_loop_close(wire);
	for (i = 0; i < wire->params.nranks; i++)
		if (wire->chan[i])
			tt_chan_free(wire->chan[i]);
	tt_wire_unkeep(wire);
	for (i = 0; i < TT_BUCKETS; i++) {
		tt_free_list(&wire->early.bucket[i], offsetof(struct tt_early, link));
		tt_free_list(&wire->offers.bucket[i], offsetof(struct tt_offer, link));
	}
	tt_free_list(&wire->free_early, offsetof(struct tt_early, link));
	tt_free_list(&wire->free_offer, offsetof(struct tt_offer, link));
	tt_free_list(&wire->free_ctrl, offsetof(struct tt_ctrl_item, link));
	free_stages(wire);
	tt_pieces_free(wire);
	tt_wire_unlock(wire);
	tt_memory_free(wire->memory);
	while (wire->ntps--)
		wire->tp[wire->ntps].tp->ops->close(wire->tp[wire->ntps].tp);
	if (wire->soon_fd >= 0)
		close(wire->soon_fd);
	close(wire->wake_fd);
	free(wire->token);
	free(wire->chan);
	free(wire);
}

void tt_wire_forget_comm(struct tt_wire *wire, uint64_t comm)
{
	struct tt_list *l, *tmp;
	int i;

	for (i = 0; wire->nearly && i < TT_BUCKETS; i++) {
		tt_list_each(l, tmp, &wire->early.bucket[i])
		{
			struct tt_early *e = tt_container(l, struct tt_early, link);

			if (e->key.comm == comm)
				tt_early_drop(wire, e);
		}
		tt_list_each(l, tmp, &wire->offers.bucket[i])
		{
			struct tt_offer *o = tt_container(l, struct tt_offer, link);

			if (o->ctrl.key.comm != comm)
				continue;
			tt_list_del(&o->link);
			tt_list_add(&wire->free_offer, &o->link);
			wire->nearly--;
		}
	}
	for (i = 0; i < wire->params.nranks; i++)
		if (wire->chan[i])
			tt_list_each(l, tmp, &wire->chan[i]->flows)
			{
				struct tt_flow *flow = tt_container(l, struct tt_flow, link);

				if (flow->comm == comm)
					tt_flow_forget(wire->chan[i], flow);
			}
}

static bool same_call(const struct tt_key *a, const struct tt_key *b)
{
	return a->comm == b->comm && a->seq == b->seq && tt_key_series(a) == tt_key_series(b);
}

void tt_wire_early_again(struct tt_wire *wire, const struct tt_key *call)
{
	struct tt_list *l, *tmp;
	int i;

	for (i = 0; wire->nearly && i < TT_BUCKETS; i++) {
		tt_list_each(l, tmp, &wire->early.bucket[i])
		{
			struct tt_early *e = tt_container(l, struct tt_early, link);

			if (same_call(&e->key, call))
				wire->params.early(wire->params.arg, e->peer, &e->key, e->fprint,
						   false);
		}
		tt_list_each(l, tmp, &wire->offers.bucket[i])
		{
			struct tt_offer *o = tt_container(l, struct tt_offer, link);

			if (same_call(&o->ctrl.key, call))
				wire->params.early(wire->params.arg, o->peer, &o->ctrl.key,
						   o->ctrl.fprint, true);
		}
	}
}

/* ---- one-sided ---- */

/* The open channel to peer; -EAGAIN while it is being connected. */
static int open_channel(struct tt_wire *wire, int peer, bool *waits, struct tt_chan **out)
{
	struct tt_chan *chan = tt_chan_get(wire, peer);

	if (!chan)
		return -ENOMEM;
	if (!*waits)
		tt_chan_retry(chan);
	if (chan->state == TT_CHAN_CLOSED)
		tt_chan_connect(chan);
	if (chan->state == TT_CHAN_FAILED)
		return tt_chan_unreached(chan);
	*waits = chan->state != TT_CHAN_OPEN;
	if (*waits)
		return -EAGAIN;
	*out = chan;
	return 0;
}

int tt_wire_reach(struct tt_wire *wire, int peer, bool *waits, const struct tt_way **way)
{
	struct tt_chan *chan = wire->chan[peer];
	int err = 0;

	if (chan && chan->state == TT_CHAN_OPEN)
		*waits = false;
	else
		err = open_channel(wire, peer, waits, &chan);
	if (!err)
		*way = &wire->tp[chan->tp].way;
	return err;
}

const struct tt_way *tt_wire_open_way(const struct tt_wire *wire, int peer)
{
	const struct tt_chan *chan = wire->chan[peer];

	return chan && chan->state == TT_CHAN_OPEN ? &wire->tp[chan->tp].way : NULL;
}

struct tt_open_word tt_wire_open_word(const struct tt_wire *wire, int peer)
{
	struct tt_ep *ep = wire->chan[peer]->ep;

	return ep->ops->open_word ? ep->ops->open_word(ep) : (struct tt_open_word){.word = NULL};
}

static inline int one_sided(struct tt_wire *wire, int peer, struct tt_rma *rma,
			    struct tt_region *region, struct tt_wr *wr, bool get)
{
	struct tt_chan *chan = wire->chan[peer];
	int rc;

	rma->mr = region ? region->mr[chan->tp] : NULL;
	if (!rma->mr &&
	    rma->len > (get ? wire->tp[chan->tp].way.bare_get : wire->tp[chan->tp].way.bare_put))
		return tt_fail(-EINVAL, "the local buffer must be registered for transport %s",
			       wire->tp[chan->tp].name);
	tt_list_init(&wr->link);
	rc = tt_chan_rma(chan, rma, wr, get);
	if (rc)
		return rc;
	if (get)
		wire->stats.got_bytes += rma->len;
	else
		wire->stats.put_bytes += rma->len;
	return 0;
}

int tt_wire_put(struct tt_wire *wire, int peer, struct tt_rma *rma, struct tt_region *region,
		struct tt_wr *wr)
{
	return one_sided(wire, peer, rma, region, wr, false);
}

int tt_wire_get(struct tt_wire *wire, int peer, struct tt_rma *rma, struct tt_region *region,
		struct tt_wr *wr)
{
	return one_sided(wire, peer, rma, region, wr, true);
}

int tt_wire_move(struct tt_wire *wire, int peer, const struct tt_rma *rma, bool get)
{
	struct tt_ep *ep = wire->chan[peer]->ep;
	int rc = get ? ep->ops->get(ep, rma) : ep->ops->put(ep, rma);

	if (rc != TT_FINISHED)
		return rc;
	*(get ? &wire->stats.got_bytes : &wire->stats.put_bytes) += rma->len;
	return 0;
}

int tt_wire_at_place(struct tt_wire *wire, int place)
{
	int i;

	for (i = 0; i < wire->ntps; i++)
		if (wire->tp[i].place == place)
			return i;
	return -1;
}

bool tt_wire_auto_progress(struct tt_wire *wire)
{
	int i;

	for (i = 0; i < wire->ntps; i++)
		if (!(wire->tp[i].tp->caps & TT_CAP_AUTO_PROGRESS))
			return false;
	return true;
}
