/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Backup workers (Chen and others, 2016): of W workers the updates of the first W - backup count in
 * each clock. The first update of a worker in the current clock, or its clock, takes one of the
 * seats. When all seats are taken and their workers have ended the clock, the min clock moves.
 * Updates of a worker without a seat, or of a past clock, are dropped and counted.
 *
 * Seats fall by one with each worker that leaves or dies. So that the clock moves when the last
 * worker with a seat has died, a worker that has ended the clock without a seat takes it.
 */
#include "lib/ps/server/server.h"

static int seats(const struct tt_ps_server *srv)
{
	int w, here = 0;

	for (w = 0; w < srv->ps->nworkers; w++)
		here += !srv->client[w].gone;
	return here > srv->ps->backup ? here - srv->ps->backup : here > 0;
}

static int taken(const struct tt_ps_server *srv)
{
	int w, n = 0;

	for (w = 0; w < srv->ps->nworkers; w++)
		n += srv->client[w].seated && !srv->client[w].gone;
	return n;
}

bool tt_ps_counts(struct tt_ps_server *srv, struct tt_ps_client *c, const struct tt_ps_msg *m)
{
	if (!srv->ps->backup)
		return true;
	if (m->clock < srv->min_clock || c->unseated == srv->min_clock + 1)
		return false;
	if (!c->seated && taken(srv) < seats(srv))
		c->seated = true;
	if (!c->seated)
		c->unseated = srv->min_clock + 1;
	return c->seated;
}

/* Workers that have ended the clock fill the seats that are free. */
static void fill(struct tt_ps_server *srv, int want)
{
	int n = taken(srv), w;

	for (w = 0; w < srv->ps->nworkers && n < want; w++) {
		struct tt_ps_client *c = &srv->client[w];

		if (!c->gone && !c->seated && c->clock > srv->min_clock) {
			c->seated = true;
			n++;
		}
	}
}

uint64_t tt_ps_seats_clock(struct tt_ps_server *srv, int *n)
{
	uint64_t min = UINT64_MAX;
	int want = seats(srv), w;

	fill(srv, want);
	if (!want || taken(srv) < want)
		return srv->min_clock;
	for (w = *n = 0; w < srv->ps->nworkers; w++) {
		*n += srv->client[w].seated;
		if (srv->client[w].seated && !srv->client[w].gone && srv->client[w].clock < min)
			min = srv->client[w].clock;
	}
	return min;
}

void tt_ps_seats_clear(struct tt_ps_server *srv)
{
	int w;

	for (w = 0; w < srv->ps->nworkers; w++) {
		srv->client[w].seated = false;
		srv->client[w].unseated = 0;
	}
}
