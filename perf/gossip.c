/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mailboxes along the graph of --graph: the times to post, to mix and to flush, of the slowest
 * rank.
 */
#include "perf/averages.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static const struct perf_column columns[] = {
	{"size", "size", "(B)", 13, 0, PERF_INT},
	{"count", "count", "(elements)", 13, 0, PERF_INT},
	{"type", "type", "", 9, 0, PERF_TEXT},
	{"post_us", "post", "(us)", 11, 0, PERF_USEC},
	{"mix_us", "mix", "(us)", 11, 0, PERF_USEC},
	{"flush_us", "flush", "(us)", 11, 0, PERF_USEC},
	{"sent_bytes", "sent", "(B)", 13, 0, PERF_INT},
	{"wrong", "#wrong", "", 7, 0, PERF_INT},
};

enum { POST, MIX, FLUSH, TIMES };

static int gossip_times(struct averages *r)
{
	const struct perf_options *opt = &r->perf->opt;
	double t[TIMES];
	uint64_t from;
	int i, k, err = averages_failed(r, "barrier", tutti_barrier(r->perf->world));

	for (i = -opt->warmup; i < opt->iters && !err; i++) {
		from = perf_now_ns();
		err = tutti_gossip_post(r->gossip, r->buf->data);
		t[POST] = averages_usec_since(&from);
		if (!err)
			err = tutti_gossip_mix(r->gossip, r->buf->data);
		t[MIX] = averages_usec_since(&from);
		if (!err)
			err = tutti_gossip_flush(r->gossip);
		t[FLUSH] = averages_usec_since(&from);
		for (k = 0; k < TIMES && i >= 0; k++)
			r->times[k * opt->iters + i] = t[k];
		averages_failed(r, "gossip", err);
	}
	return err;
}

static size_t gossip_wrong(const struct averages *r)
{
	size_t i, wrong = 0;
	double x, want;
	int k;

	for (i = 0; i < r->count; i++) {
		x = averages_given(r->perf->rank, i);
		for (want = x, k = 0; k < r->nin; k++)
			want += r->weights[k] * (averages_given(r->in[k], i) - x);
		wrong += !(fabs(averages_load(r->buf->data, i, r->datatype) - want) <=
			   averages_room(r, r->nin + 1));
	}
	return wrong;
}

/* All ranks post, and then all mix: what each finds is known. */
static int gossip_check(struct averages *r, double *wrong)
{
	struct tutti_comm *world = r->perf->world;
	size_t bytes = averages_bytes(r);
	int err;

	averages_fill(r, r->buf->data, r->perf->rank);
	perf_guard_set(r->buf, bytes);
	err = tutti_gossip_post(r->gossip, r->buf->data);
	if (!err)
		err = tutti_gossip_flush(r->gossip);
	if (!err)
		err = tutti_barrier(world);
	if (!err)
		err = tutti_gossip_mix(r->gossip, r->buf->data);
	if (!err)
		err = tutti_barrier(world);
	if (err)
		return averages_failed(r, "gossip", err);
	*wrong = (double)gossip_wrong(r);
	return perf_agree_found(r->perf, wrong, (double)perf_guard_violations(r->buf, bytes));
}

static int gossip_row(struct averages *r)
{
	struct tutti_gossip_state s = {.size = sizeof(s)};
	struct perf *perf = r->perf;
	double t[TIMES], wrong = 0, all = 0, sent;
	int err, k;

	averages_fill(r, r->buf->data, r->perf->rank);
	err = gossip_times(r);
	for (k = 0; k < TIMES && !err; k++)
		err = averages_slowest(r, r->times + k * perf->opt.iters, &t[k]);
	if (!err)
		err = averages_failed(r, "gossip_state", tutti_gossip_state(r->gossip, &s));
	sent = (double)s.bytes / (double)(perf->opt.iters + perf->opt.warmup);
	if (!err)
		err = perf_agree(perf, &sent, TUTTI_MAX);
	for (k = 0; k < perf->opt.check && !err; k++, all += wrong)
		err = gossip_check(r, &wrong);
	if (err || perf->rank)
		return err;
	return perf_table_row(
		&perf->table,
		(struct perf_cell[]){{.number = (int64_t)averages_bytes(r)},
				     {.number = (int64_t)r->count},
				     {.text = perf_type_name(r->datatype)},
				     {.real = t[POST]},
				     {.real = t[MIX]},
				     {.real = t[FLUSH]},
				     {.number = (int64_t)sent},
				     {.number = (int64_t)all, .absent = !perf->opt.check}});
}

static int gossip_one(struct averages *r)
{
	struct tutti_gossip_config config = {.size = sizeof(config),
					     .count = r->count,
					     .datatype = r->datatype,
					     .nin = r->nin,
					     .nout = r->nout,
					     .in = r->in,
					     .out = r->out,
					     .weights = r->weights};
	int err, end;

	err = averages_failed(r, "gossip_create",
			      tutti_gossip_create(r->perf->world, &config, &r->gossip));
	if (err)
		return err;
	err = gossip_row(r);
	end = tutti_gossip_free(r->gossip);
	return err ? err : averages_failed(r, "gossip_free", end);
}

static int find_neighbors(struct averages *r)
{
	struct perf *perf = r->perf;
	size_t n = (size_t)perf->nranks;
	int k, err;

	r->in = calloc(2 * n, sizeof(*r->in));
	r->weights = calloc(n, sizeof(*r->weights));
	if (!r->in || !r->weights)
		return averages_failed(r, "making room for neighbours", -ENOMEM);
	r->out = r->in + n;
	err = tutti_graph_in(r->graph, 0, perf->rank, r->in, (int)n, &r->nin);
	if (!err)
		err = tutti_graph_out(r->graph, 0, perf->rank, r->out, (int)n, &r->nout);
	for (k = 0; k < r->nin; k++)
		r->weights[k] = tutti_graph_weight(r->graph, 0, perf->rank, r->in[k]);
	return averages_failed(r, "finding neighbours", err);
}

int perf_run_gossip(struct perf *perf)
{
	static const int types[] = {TUTTI_FLOAT32, TUTTI_FLOAT64};
	struct averages r = {.perf = perf};
	size_t most = perf->opt.maxbytes;
	int err;

	err = averages_begin(&r, perf->opt.graph, columns, sizeof(columns) / sizeof(*columns));
	if (!err)
		err = find_neighbors(&r);
	if (!err)
		err = perf_buffers_get(perf, r.buf, 1, most > 8 ? most : 8);
	if (!err) {
		err = averages_each(&r, gossip_one, types, 2);
		perf_buffers_put(r.buf, 1);
	}
	averages_end(&r);
	return err;
}
