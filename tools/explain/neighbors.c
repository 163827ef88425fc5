/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tutti_explain of collectives of neighbours along a graph. Each has one plan on a layout of ranks,
 * so nothing is chosen: the table says which plan that is and why, what it moves, and how long the
 * simulator says it takes. An all-reduce of neighbours stands beside its form in two levels, along
 * a graph of hosts of the same name, and beside the all-reduce of all ranks.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/graph/graph.h"
#include "lib/node/node.h"
#include "lib/verify/sim.h"
#include "tools/explain/explain.h"
#include "tools/graphs.h"
#include "tools/values.h"

#define MOST_MIXED 128	  /* ranks of a graph whose eigenvalue is computed */
#define MOST_MESSAGES 3e5 /* that are simulated: a few seconds */

struct place {
	const struct explain_options *opt;
	const struct tt_chooser *chooser;
	struct tt_model model;
	struct tt_hosts *hosts;
	bool shared; /* the ranks of some host share memory */
	struct tutti_graph *graph, *of_hosts;
};

struct row {
	enum tt_coll coll;
	const struct tt_alg *alg;
	struct tt_plan_args args;
	struct tt_plan_cost most; /* in any step of the graph */
	uint64_t leaves;	  /* bytes to other hosts, of the host that sends most */
	double time;		  /* ns, the mean over the steps; negative: not simulated */
	bool slots, counted;
};

/* ---- counts ---- */

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Adds the bytes that a rank sends to other hosts. */
static int walk(const struct place *p, const struct tt_plan *plan, bool *slots, uint64_t *leaves)
{
	struct tt_op *tmp = calloc((size_t)plan->max_ops + 1, sizeof(*tmp));
	const int *host = p->hosts->host;
	const struct tt_op *ops;
	int l, round, n;

	if (!tmp)
		return -ENOMEM;
	for (l = 0; l < plan->nlanes; l++)
		for (round = 0; round < tt_plan_rounds(plan, l); round++)
			for (n = tt_plan_ops(plan, l, round, tmp, &ops); n > 0; n--, ops++) {
				*slots |= ops->dst.buf == TT_BUF_SLOT;
				if (ops->kind == TT_OP_SEND &&
				    host[ops->peer] != host[plan->args.rank])
					*leaves += ops->len;
			}
	free(tmp);
	return 0;
}

static int count_leaving(const struct place *p, const struct tt_plan_args *whole, struct row *r)
{
	uint64_t *leaves = calloc((size_t)p->hosts->hosts, sizeof(*leaves));
	struct tt_plan *plan;
	int rank, err = leaves ? 0 : -ENOMEM;

	for (rank = 0; rank < whole->nranks && !err; rank++) {
		struct tt_plan_args a = *whole;

		tt_plan_args_of(whole, rank, &a);
		err = tt_plan_build(r->alg, &a, &plan);
		if (err)
			break;
		err = walk(p, plan, &r->slots, &leaves[p->hosts->host[rank]]);
		tt_plan_free(plan);
		r->leaves = larger(r->leaves, leaves[p->hosts->host[rank]]);
	}
	free(leaves);
	return err;
}

/* One step of the graph, or an all-reduce. */
static int add_step(const struct place *p, struct row *r)
{
	struct tt_sim_result result;
	struct tt_plan_cost most;
	int err;

	if (!explain_count(r->alg, &r->args, &most)) {
		r->time = -1;
		return 0;
	}
	r->most.bytes_sent = larger(r->most.bytes_sent, most.bytes_sent);
	r->most.bytes_received = larger(r->most.bytes_received, most.bytes_received);
	r->most.bytes_reduced = larger(r->most.bytes_reduced, most.bytes_reduced);
	r->most.steps = most.steps > r->most.steps ? most.steps : r->most.steps;
	r->counted = true;
	err = count_leaving(p, &r->args, r);
	if (err || r->time < 0)
		return err;
	if ((double)most.messages_sent * r->args.nranks > MOST_MESSAGES) {
		r->time = -1;
		return 0;
	}
	err = tt_sim(r->alg, &r->args, &p->model, &result);
	r->time += result.last;
	return err;
}

/* ---- plans ---- */

static bool in_levels(enum tt_coll coll)
{
	return coll == TT_COLL_NEIGHBOR_HIER_ALLREDUCE;
}

/* As lib/engine/plans.c does. */
static void take_plan(const struct place *p, size_t size, struct row *r)
{
	r->args = explain_args(p->opt, r->coll, size);
	if (!tt_coll_neighbors(r->coll)) {
		r->args.hosts = explain_hosts(p->opt);
		r->alg = tt_choose(p->chooser, &r->args);
		return;
	}
	tt_chooser_most(p->chooser, EXPLAIN_ELEM, &r->args.chunk, &r->args.lanes);
	r->args.node = false;
	r->args.hosts = in_levels(r->coll) ? p->hosts : NULL;
	r->alg = in_levels(r->coll) && p->shared ? tt_alg_neighbors_hier()
						 : tt_alg_neighbors(r->coll);
}

static int work_out(const struct place *p, size_t size, struct row *r)
{
	const struct tutti_graph *graph = in_levels(r->coll) ? p->of_hosts : p->graph;
	bool steps = tt_coll_neighbors(r->coll);
	int t, n = steps ? graph->period : 1, err = 0;

	take_plan(p, size, r);
	for (t = 0; t < n && !err; t++) {
		r->args.edges = steps ? graph->step[t] : NULL;
		err = add_step(p, r);
	}
	r->time = r->time < 0 ? r->time : r->time / n;
	return err;
}

static const char *why(const struct place *p, const struct row *r)
{
	if (!tt_coll_neighbors(r->coll))
		return "for comparison: all ranks";
	if (!in_levels(r->coll))
		return "the only plan: along each edge";
	if (r->slots)
		return "short, on one host: out of slots";
	if (p->shared)
		return "hosts share memory: neighbours are hosts";
	return !strcmp(p->opt->env.node.text, "off") ? "by messages: TUTTI_NODE=off"
	       : p->hosts->places > TT_NODE_RANKS
		       ? "by messages: too many ranks on a host to share memory"
		       : "by messages: each rank is alone on its host";
}

/* ---- output ---- */

static void print_graph(const char *name, const char *of, const struct tutti_graph *g)
{
	int t, r, in = 0, out = 0;
	double mixing;

	for (t = 0; t < g->period; t++)
		for (r = 0; r < g->n; r++) {
			in = tt_edges_in(g->step[t], r) > in ? tt_edges_in(g->step[t], r) : in;
			out = tt_edges_out(g->step[t], r) > out ? tt_edges_out(g->step[t], r) : out;
		}
	printf("# graph of %d %s%s: %s, %d step%s, in-degree %d, out-degree %d at most", g->n, of,
	       g->n == 1 ? "" : "s", name, g->period, g->period == 1 ? "" : "s", in, out);
	if (g->n <= MOST_MIXED && !tt_graph_lambda2(g, &mixing))
		printf("; |lambda2| %.4f", mixing);
	printf("\n");
}

static void print_head(const struct place *p)
{
	const struct explain_options *opt = p->opt;
	const char *name = cli_graph_names[opt->graph < 0 ? 0 : opt->graph];

	if (!in_levels(opt->coll))
		print_graph(name, "rank", p->graph);
	if (in_levels(opt->coll) || opt->coll == TT_COLL_NEIGHBOR_ALLREDUCE)
		print_graph(name, "host", p->of_hosts);
	printf("# TUTTI_CHUNK=%lld TUTTI_LANES=%lld: the most that are allowed; *: the call\n",
	       (long long)opt->env.chunk.number, (long long)opt->env.lanes.number);
	printf("# time: simulated, the mean of the steps; of the busiest rank, in any step: rounds "
	       "of the longest lane, sent, inbound, reduced; leaves host: of the busiest host; "
	       "-: too many to count or simulate\n");
	printf("# %12s %-23s %-23s %9s %5s %12s %7s %14s %14s %14s %16s  %s\n", "size (B)", "call",
	       "plan", "chunk (B)", "lanes", "time (us)", "rounds", "sent (B)", "inbound (B)",
	       "reduced (B)", "leaves host (B)", "why");
}

static void print_row(const struct place *p, const struct row *r)
{
	char time[32] = "-";

	if (r->time >= 0)
		snprintf(time, sizeof(time), "%.1f", r->time / 1e3);
	printf("%c %12zu %-23s %-23s %9zu %5d %12s", r->coll == p->opt->coll ? '*' : ' ',
	       r->args.count * EXPLAIN_ELEM, tt_coll_name(r->coll), r->alg->name, r->args.chunk,
	       r->args.lanes, time);
	if (r->counted)
		printf(" %7d %14llu %14llu %14llu %16llu", r->most.steps,
		       (unsigned long long)r->most.bytes_sent,
		       (unsigned long long)r->most.bytes_received,
		       (unsigned long long)r->most.bytes_reduced, (unsigned long long)r->leaves);
	else
		printf(" %7s %14s %14s %14s %16s", "-", "-", "-", "-", "-");
	printf("  %s\n", why(p, r));
}

static int one_size(const struct place *p, size_t size)
{
	static const enum tt_coll averages[] = {TT_COLL_NEIGHBOR_ALLREDUCE,
						TT_COLL_NEIGHBOR_HIER_ALLREDUCE, TT_COLL_ALLREDUCE};
	enum tt_coll asked = p->opt->coll;
	bool average = in_levels(asked) || asked == TT_COLL_NEIGHBOR_ALLREDUCE;
	int i, err = 0;

	for (i = 0; i < (average ? 3 : 1) && !err; i++) {
		struct row r = {.coll = average ? averages[i] : asked};

		err = work_out(p, size, &r);
		if (!err)
			print_row(p, &r);
		if (!tt_coll_neighbors(r.coll))
			free((void *)r.args.hosts);
	}
	return err;
}

/* ---- layout ---- */

/* Ranks fill one host after the other. */
static int find_hosts(struct place *p)
{
	const struct explain_options *opt = p->opt;
	int each = (opt->nranks + opt->hosts - 1) / opt->hosts, r, host = 0, left;
	uint64_t *by = calloc((size_t)opt->nranks, sizeof(*by));
	int err;

	left = opt->listed ? opt->sizes[0] : each;
	for (r = 0; by && r < opt->nranks; r++, left--) {
		if (!left) {
			host++;
			left = opt->listed ? opt->sizes[host] : each;
		}
		by[r] = (uint64_t)host;
	}
	err = by ? tt_hosts_any(by, opt->nranks, &p->hosts) : -ENOMEM;
	free(by);
	if (!err && p->hosts->hosts != opt->hosts)
		err = tt_fail(-EINVAL,
			      "-H %d: %d ranks, %d on each host, fill only %d hosts; list the "
			      "ranks of each host",
			      opt->hosts, opt->nranks, each, p->hosts->hosts);
	if (err)
		return err;
	p->model.hosts = p->hosts->hosts;
	p->model.host = p->hosts->host;
	p->shared = opt->nranks > 1 && p->hosts->places > 1 && p->hosts->places <= TT_NODE_RANKS &&
		    strcmp(opt->env.node.text, "off") != 0;
	return 0;
}

int explain_neighbors(const struct explain_options *opt, const struct tt_chooser_params *params,
		      const struct tt_chooser *chooser)
{
	struct place p = {.opt = opt, .chooser = chooser};
	int kind = opt->graph < 0 ? 0 : opt->graph, err;
	size_t size = opt->min_bytes;

	tt_model_by_table(params, &p.model);
	err = find_hosts(&p);
	if (!err)
		err = cli_graph_make(kind, opt->nranks, &p.graph);
	if (!err)
		err = cli_graph_make(kind, p.hosts->hosts, &p.of_hosts);
	if (!err)
		print_head(&p);
	while (!err && !(err = one_size(&p, size)) && (size = explain_next(opt, size)))
		;
	tutti_graph_free(p.of_hosts);
	tutti_graph_free(p.graph);
	free(p.hosts);
	return err ? cli_fail("%s", tt_fail_text(err)) : 0;
}
