/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data from a connected peer: control messages, headers in eager slots, notes, and connection
 * requests, to an open channel with sends and receives under way. The endpoint discards data that
 * this side sends.
 */
#include <assert.h>
#include <stdlib.h>
#include <tutti/tutti.h>

#include "lib/boot/control/control.h"
#include "lib/wire/wire_internal.h"
#include "tests/fuzz/fuzz.h"

#define XFERS 4
#define CONN 800 /* bytes of a request to connect and its answer: doc/WIRE.md */

static struct tt_wire *wire;
static struct tt_env env;
static struct tt_boot boot;
static struct tt_rank_info infos[2];

struct transfer {
	struct tt_xfer x;
	char buf[8192];
	bool busy;
};
static struct transfer transfers[XFERS];

static int swallow_rma(struct tt_ep *ep, const struct tt_rma *rma)
{
	return TT_FINISHED;
}

static int swallow_msg(struct tt_ep *ep, const void *data, size_t len)
{
	assert(len <= TT_TP_MSG_MAX);
	return TT_FINISHED;
}

static struct tt_ep_ops swallow = {.put = swallow_rma, .get = swallow_rma, .msg = swallow_msg};

static void on_mismatch(void *arg, int peer, const struct tt_key *key)
{
}

static bool on_late(void *arg, int peer, const struct tt_key *key, uint64_t fprint, uint32_t len)
{
	(void)arg;
	(void)peer;
	(void)key;
	(void)fprint;
	return len % 8 == 7;
}

static void on_early(void *arg, int peer, const struct tt_key *key, uint64_t fprint, bool offer)
{
}

static void on_fenced(void *arg, int peer, bool mine, uint64_t comm)
{
}

static void on_damaged(void *arg, int peer, const char *why)
{
}

static void over(struct tt_xfer *x, const void *data, int status)
{
	struct transfer *t = tt_container(x, struct transfer, x);
	volatile char sum = 0;
	size_t i;

	assert(t->busy);
	t->busy = false;
	for (i = 0; data && !status && i < x->len; i++)
		sum = (char)(sum + ((const char *)data)[i]);
}

/* A wire of rank 0 of 2, without a usable transport. */
static void start(void)
{
	struct tt_wire_params params = {.env = &env,
					.nranks = 2,
					.local_addr = "127.0.0.1",
					.mismatch = on_mismatch,
					.early = on_early,
					.late = on_late,
					.fenced = on_fenced,
					.damaged = on_damaged};

	setenv("TUTTI_TRANSPORT", "shm", 1);
	setenv("TUTTI_SLOTS", "8", 1);
	tutti_set_log(NULL, NULL, TUTTI_LOG_NONE);
	if (tt_env_load(&env) || tt_wire_open(&params, &wire))
		abort();
	boot.solo = true; /* sent data is dropped */
	boot.nranks = 2;
	boot.ranks = infos;
	infos[0].host = infos[1].host = (char *)"here";
	pthread_mutex_init(&boot.lock, NULL);
	tt_list_init(&boot.outbox);
	tt_ep_ops_fill(&swallow);
	wire->boot = &boot;
}

static struct tt_ep *endpoint(void)
{
	struct tt_ep *ep;
	unsigned char blob[TT_TP_BLOB_MAX];
	size_t len = sizeof(blob);

	if (wire->tp[0].tp->ops->ep_open(wire->tp[0].tp, &ep, blob, &len))
		abort();
	return ep;
}

static struct tt_chan *open_channel(void)
{
	static struct tt_ep_ops ops;
	struct tt_chan *chan = tt_chan_get(wire, 1);

	chan->nslots = (int)env.slots.number;
	chan->slot_size = tt_slot_size(&env);
	if (!chan->slots && tt_mem_alloc(wire->memory, (size_t)chan->nslots * chan->slot_size,
					 (void **)&chan->slots, &chan->slots_region))
		abort();
	memset(chan->slots, 0, (size_t)chan->nslots * chan->slot_size);
	chan->ep = endpoint();
	ops = swallow;
	chan->ep->ops = &ops;
	chan->ep->user = chan;
	chan->tp = 0;
	wire->tp[0].endpoints++;
	chan->tx_free = (1ull << chan->nslots) - 1;
	chan->tx_slot_size = chan->slot_size;
	chan->eager = chan->slot_size - sizeof(struct tt_eager_head);
	chan->state = TT_CHAN_OPEN;
	return chan;
}

/* Small numbers meet more often. */
static void near_key(struct tt_key *key)
{
	*key = (struct tt_key){.comm = key->comm % 3,
			       .seq = key->seq % 3,
			       .index = key->index % 2,
			       .port = key->port % 8 == 7};
}

static void transfer(struct fz *z, bool receive)
{
	struct transfer *t = &transfers[fz_u(z, 1) % XFERS];

	if (t->busy)
		return;
	t->x = (struct tt_xfer){.peer = 1, .buf = t->buf, .fprint = fz_u(z, 1) % 2, .fn = over};
	t->x.kind = fz_u(z, 1) % 2 ? TT_XFER_KEYED : TT_XFER_OFFER;
	t->x.len = fz_u(z, 2) % sizeof(t->buf);
	fz_fill(z, &t->x.key, sizeof(t->x.key));
	near_key(&t->x.key);
	t->x.key.port = 0;
	tt_list_init(&t->x.link);
	t->busy = true;
	if (receive)
		tt_wire_recv(wire, &t->x);
	else
		tt_wire_send(wire, &t->x);
}

static void control(struct tt_chan *chan, struct fz *z)
{
	struct tt_ctrl ctrl;

	fz_fill(z, &ctrl, sizeof(ctrl));
	ctrl.kind %= 12;
	near_key(&ctrl.key);
	ctrl.fprint %= 2;
	tt_chan_ctrl(chan, &ctrl);
}

static void slot(struct tt_chan *chan, struct fz *z)
{
	unsigned n = (unsigned)fz_u(z, 1);
	struct tt_eager_head *head;

	head = (struct tt_eager_head *)(chan->slots +
					(n % (unsigned)chan->nslots) * chan->slot_size);
	fz_fill(z, head, sizeof(*head));
	near_key(&head->key);
	head->fprint %= 2;
	tt_chan_slot_note(chan, (int)n % 64);
}

static void connection(struct fz *z)
{
	unsigned which = (unsigned)fz_u(z, 1);
	size_t len = which & 2 ? 4 * fz_u(z, 1) : CONN;
	unsigned char *buf = malloc(len); /* so that the end is an end */

	fz_fill(z, buf, len);
	if (which & 1)
		tt_wire_conn_req(wire, 1, buf, len);
	else
		tt_wire_conn_rep(wire, 1, buf, len);
	free(buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fz z = {data, size};
	struct tt_chan *chan;
	int i, steps = 0;

	if (!wire)
		start();
	tt_wire_lock(wire);
	chan = open_channel();
	while (z.len && steps++ < 64) {
		switch (fz_u(&z, 1) % 6) {
		case 0:
			transfer(&z, true);
			break;
		case 1:
			transfer(&z, false);
			break;
		case 2:
			control(chan, &z);
			break;
		case 3:
			slot(chan, &z);
			break;
		case 4:
			connection(&z);
			break;
		default: /* a token that may be one */
			chan->wire->batch_len = 0;
			if (tt_token_find(wire, (uint32_t)(fz_u(&z, 2) & 0xff)))
				tt_chan_flush(chan);
			break;
		}
	}
	for (i = 0; i < XFERS; i++)
		if (transfers[i].busy) {
			tt_wire_cancel(wire, &transfers[i].x);
			transfers[i].busy = false;
		}
	for (i = 0; i < 3; i++)
		tt_wire_forget_comm(wire, (uint64_t)i);
	tt_chan_free(chan);
	wire->chan[1] = NULL;
	tt_wire_unlock(wire);
	return 0;
}
