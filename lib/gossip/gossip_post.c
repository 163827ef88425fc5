/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posts: x is copied once, to an idle staging buffer, from where a put takes it to each neighbour.
 * A neighbour whose last put has not ended is skipped, so that each one uses one buffer at most and
 * nout + 1 buffers are enough, and so that the other buffer of its slot stays whole.
 */
#include <string.h>

#include "lib/base/copy.h"
#include "lib/gossip/gossip.h"
#include "lib/reduce/xxh.h"

/* The put to a neighbour has ended with err. */
static int put_over(struct tutti_gossip *g, struct tt_gossip_out *out, int err)
{
	g->users[out->staging]--;
	out->put = NULL;
	if (err != -TUTTI_EPEER)
		return err;
	out->dead = true;
	return 0;
}

static int collect(struct tutti_gossip *g)
{
	struct tt_gossip_out *out;
	int i, done, end, err = 0;

	for (i = 0; i < g->nout; i++) {
		out = &g->out[i];
		if (!out->put)
			continue;
		end = tutti_test(&out->put, &done);
		if (done)
			end = put_over(g, out, end);
		err = err ? err : end;
	}
	return err;
}

static int stage(struct tutti_gossip *g, const void *x)
{
	struct tt_gossip_head *head;
	int b = 0;

	while (g->users[b])
		b++;
	head = (struct tt_gossip_head *)(void *)(g->staging + (size_t)b * g->pitch);
	head->version = ++g->version;
	tt_copy_data(head + 1, x, g->len);
	head->sum = tt_reduce_xxh(head + 1, g->len, head->version);
	tt_gossip_copied(&g->base, g->len);
	return b;
}

static int send_to(struct tutti_gossip *g, struct tt_gossip_out *out, int b)
{
	size_t size = sizeof(struct tt_gossip_head) + g->len;
	int err;

	out->dead = out->dead || tt_gossip_dead(&g->base, out->rank);
	if (out->dead)
		return 0;
	if (out->put) {
		g->state.skipped++;
		return 0;
	}
	out->staging = b;
	g->users[b]++;
	err = tutti_iput(g->base.win, out->rank, g->staging + (size_t)b * g->pitch, size,
			 out->at + out->sent % 2 * g->pitch, &out->put);
	if (err)
		return put_over(g, out, err);
	out->version = g->version;
	out->sent++;
	g->state.sent++;
	g->state.bytes += size;
	return 0;
}

int tt_gossip_post(struct tutti_gossip *g, const void *x)
{
	int i, b, end, err;

	pthread_mutex_lock(&g->lock);
	err = collect(g);
	b = g->newest = stage(g, x);
	g->state.posts++;
	for (i = 0; i < g->nout && !err; i++)
		err = send_to(g, &g->out[i], b);
	end = collect(g); /* short puts are sent when they are tested */
	pthread_mutex_unlock(&g->lock);
	return err ? err : end;
}

static int wait_for(struct tutti_gossip *g, struct tt_gossip_out *out)
{
	return out->put ? put_over(g, out, tutti_wait(&out->put)) : 0;
}

/* A neighbour that the last post has left out gets it now. */
static int flush_to(struct tutti_gossip *g, struct tt_gossip_out *out)
{
	int err = wait_for(g, out);

	if (!err && out->version != g->version)
		err = send_to(g, out, g->newest);
	return err ? err : wait_for(g, out);
}

int tt_gossip_flush(struct tutti_gossip *g)
{
	int i, end, err = 0;

	pthread_mutex_lock(&g->lock);
	for (i = 0; i < g->nout; i++) {
		end = flush_to(g, &g->out[i]);
		err = err ? err : end;
	}
	pthread_mutex_unlock(&g->lock);
	return err;
}
