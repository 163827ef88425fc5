/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures alpha, beta and gamma: of messages between rank 0 and one rank of its host, and one rank
 * of another host; and of this host's memory and processors.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/reduce/reduce.h"
#include "tools/tune/tune.h"

#define LOOPS 7

static struct tt_link_costs *slot(struct tt_tune *tune, bool between, const char *transport)
{
	const char *wrapped = strrchr(transport, ':');
	int i;

	transport = wrapped ? wrapped + 1 : transport;
	for (i = 0; i < tune->nlinks[between]; i++)
		if (!strcmp(tune->links[between][i].name, transport))
			return &tune->links[between][i];
	if (i == TT_TUNE_LINKS)
		i--;
	else
		tune->nlinks[between]++;
	snprintf(tune->links[between][i].name, sizeof(tune->links[between][i].name), "%s",
		 transport);
	return &tune->links[between][i];
}

/*
 * The smallest all-reduce of two ranks is a message each way: overhead, alpha, overhead.
 * Broadcasts that follow one another are as fast as the slower end handles messages, or as the
 * port carries them.
 */
static int measure(struct job *job, struct tutti_comm *pair, struct tt_link_costs *link)
{
	double hop, message, whole, seconds = job->opt.seconds;
	int err;

	err = tune_force(job, pair, "allreduce:recursive_doubling bcast:binomial", NULL);
	if (!err)
		err = tune_time(job, pair, TT_COLL_ALLREDUCE, ELEM, seconds, &hop);
	if (!err)
		err = tune_time(job, pair, TT_COLL_BCAST, ELEM, seconds, &message);
	if (!err) /* long enough for a shaper's bucket */
		err = tune_time(job, pair, TT_COLL_BCAST, TUNE_LONG, 20 * seconds, &whole);
	if (err)
		return err;
	link->overhead = message < hop / 3 ? message : hop / 3;
	link->hop.alpha = hop - 2 * link->overhead;
	link->hop.beta = (whole > message ? whole - message : whole) / TUNE_LONG;
	return 0;
}

/* The first rank after 0 that is on its host, or is not; 0: there is none. */
static int partner(struct job *job, bool between)
{
	uint64_t mine = tt_wire_host_key(job->ctx->wire, 0);
	int r;

	for (r = 1; r < job->n; r++)
		if ((tt_wire_host_key(job->ctx->wire, r) != mine) == between)
			return r;
	return 0;
}

static int measure_link(struct job *job, bool between)
{
	int other = partner(job, between), ranks[2] = {0, other}, err;
	bool mine = !job->rank || job->rank == other;
	struct tt_wire_spread spread;
	struct tutti_comm *pair;
	struct tt_link_costs *link;

	if (!other)
		return 0;
	err = tt_wire_spread(job->ctx->wire, ranks, 2, &spread);
	if (!err)
		err = tutti_comm_split(job->world, mine ? 0 : TUTTI_UNDEFINED, job->rank, &pair);
	if (err)
		return err;
	link = slot(job->tune, between, between ? spread.between : spread.inside);
	if (mine)
		err = measure(job, pair, link);
	if (mine)
		tutti_comm_free(pair);
	return err ? err : tutti_bcast(link, sizeof(*link), TUTTI_UINT8, 0, job->world);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* ns a byte, the median of a few passes over long vectors. */
static double per_byte(struct job *job, bool reduces)
{
	const void *src[2] = {job->in, job->out};
	size_t len = TUNE_LONG;
	double time[LOOPS];
	uint64_t start;
	int i;

	for (i = 0; i < LOOPS; i++) {
		start = tt_now_ns();
		if (reduces)
			tt_reduce_multi(&job->out, 1, src, 2, len / ELEM, TUTTI_FLOAT32, TUTTI_SUM,
					0, 0);
		else
			memcpy(job->out, job->in, len);
		time[i] = (double)(tt_now_ns() - start) / (double)len;
	}
	qsort(time, LOOPS, sizeof(time[0]), by_value);
	return time[LOOPS / 2];
}

int tune_links(struct job *job)
{
	double speed[2];
	int err;

	memset(job->in, 0, job->room);
	memset(job->out, 0, job->room);
	err = tutti_barrier(job->world);
	if (!err && !job->rank) {
		speed[0] = per_byte(job, true);
		speed[1] = per_byte(job, false);
	}
	if (!err)
		err = tutti_bcast(speed, 2, TUTTI_FLOAT64, 0, job->world);
	if (!err)
		err = measure_link(job, false);
	if (!err)
		err = measure_link(job, true);
	if (err)
		return err;
	job->tune->gamma = speed[0];
	job->tune->copy = speed[1];
	return 0;
}
