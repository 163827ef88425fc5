/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Passes: each publishes the blocks that had changed when it began, under one sequence number, and
 * then the clock that they contain. A block whose slot still rests comes later within the pass. No
 * worker reads or is told of a replica that does not serve: see chain.c.
 */
#include "lib/base/clock.h"
#include "lib/ps/server/server.h"

static void swap(struct tt_ps_store *s, struct tt_ps_blocks *list)
{
	uint64_t i;

	for (i = 0; i < list->n; i++) {
		s->flags[list->block[i]] &= (uint8_t)~list->flag;
		tt_ps_mark(s, &s->pass, list->block[i]);
	}
	list->n = 0;
}

static bool any(const struct tt_ps_server *srv, bool fresh)
{
	uint32_t i;

	for (i = 0; i < srv->ps->ntables; i++) {
		const struct tt_ps_store *s = tt_ps_store_of(srv, i);

		if (fresh ? s->fresh.n : s->dirty.n)
			return true;
	}
	return false;
}

/* Decide what the next pass is for; false: no pass is needed. */
static bool begin(struct tt_ps_server *srv)
{
	bool clock = srv->published != srv->min_clock;
	uint32_t i;

	srv->only_new = !clock && srv->ps->staleness == 0 && !srv->all;
	srv->all = false;
	if (!clock && !any(srv, true) && (srv->only_new || !any(srv, false)))
		return false;
	srv->passing = true;
	srv->epoch++;
	srv->pass_min = srv->min_clock;
	srv->pass_order = srv->order;
	for (i = 0; i < srv->ps->ntables; i++) {
		struct tt_ps_store *s = tt_ps_store_of(srv, i);

		swap(s, &s->fresh);
		if (!srv->only_new)
			swap(s, &s->dirty);
	}
	return true;
}

/* Returns how many blocks were published; blocks whose slot rests stay in the list. */
static int publish_table(struct tt_ps_server *srv, struct tt_ps_store *s)
{
	uint64_t i, left = 0, when = 0, *rest = srv->serves ? &when : NULL;
	int n = 0;

	for (i = 0; i < s->pass.n; i++) {
		uint32_t b = s->pass.block[i];

		if (tt_ps_publish(s, b, srv->epoch, srv->pass_min, srv->only_new, rest)) {
			s->pass.block[left++] = b;
			if (when < srv->wake_at)
				srv->wake_at = when;
			continue;
		}
		s->flags[b] &= (uint8_t)~s->pass.flag;
		if (srv->serves)
			tt_ps_tell_block(srv, s, b);
		n++;
	}
	s->pass.n = left;
	return n;
}

int tt_ps_publish_pass(struct tt_ps_server *srv)
{
	uint64_t left = 0;
	uint32_t i;
	int n = 0;

	srv->wake_at = TT_NEVER;
	if (!srv->passing && !begin(srv))
		return 0;
	for (i = 0; i < srv->ps->ntables; i++) {
		n += publish_table(srv, tt_ps_store_of(srv, i));
		left += tt_ps_store_of(srv, i)->pass.n;
	}
	if (left || (srv->serves &&
		     srv->acked < srv->pass_order)) /* a clock is told once all replicas have it */
		return n;
	srv->passing = false;
	srv->published = srv->pass_min;
	if (srv->serves) /* also without a new clock: wake workers that wait for a publication */
		tt_ps_tell_clock(srv);
	return n + 1;
}
