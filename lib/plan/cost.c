/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The time of rounds of messages.
 *
 * A round of one lane takes as long as its longest path: overhead, the announcement of the receive
 * if the message is long, alpha, beta * L, overhead, gamma * L. Meanwhile other lanes use the port
 * and the processor; K lanes together cannot be faster than the busiest resource: the port of a
 * rank (or of a host whose ranks share it), the processor of a rank, the processors of a host. So
 * a round of K lanes takes max(path, K * busiest), and the last round the rest of its path.
 *
 * Only +, * and max of doubles, in an order that the source fixes: the same on all ranks.
 */
#include "lib/plan/cost.h"

static double larger(double a, double b)
{
	return a > b ? a : b;
}

/* One message: its cost, and how long it occupies each resource. */
struct message {
	double len, out, in, all;
	bool reduces, waits;
	double leave; /* share of all messages that leave their host, */
	double most;  /* of those of the rank that has the most, */
	double way;   /* and of messages that follow one another */
};

/* Cost of a message inside a host, and of one that leaves it. */
static struct tt_hop hop_of(const struct tt_cost *c, bool leaves)
{
	return leaves ? c->hop : c->model->link[TT_LEVEL_HOST];
}

static double overhead_of(const struct tt_cost *c, bool leaves)
{
	return leaves ? c->model->overhead : tt_model_host_overhead(c->model);
}

/* Messages inside a host are copied by its processors, if those are what ranks share. */
static double copied(const struct tt_cost *c, const struct message *m, bool leaves)
{
	return c->model->cores && (!leaves || c->model->numa) ? hop_of(c, leaves).beta * m->len : 0;
}

static double lead(const struct tt_cost *c, const struct message *m, bool leaves)
{
	double overhead = overhead_of(c, leaves);

	return m->waits ? larger(overhead, hop_of(c, leaves).alpha) : overhead;
}

static double work_in(const struct tt_cost *c, const struct message *m, bool leaves)
{
	return overhead_of(c, leaves) + (m->reduces ? c->model->gamma * m->len : 0);
}

static double work_out(const struct tt_cost *c, const struct message *m, bool leaves)
{
	return overhead_of(c, leaves) + copied(c, m, leaves);
}

/* From when both ends could begin until it is received and combined. */
static double way_of(const struct tt_cost *c, const struct message *m, bool leaves)
{
	struct tt_hop hop = hop_of(c, leaves);

	return lead(c, m, leaves) + hop.alpha + hop.beta * m->len + work_in(c, m, leaves);
}

/* Of a message at the typical distance. */
static double way(const struct tt_cost *c, const struct message *m)
{
	return m->way * way_of(c, m, true) + (1 - m->way) * way_of(c, m, false);
}

/* Processor time of messages out and in, a share of which leaves the host. */
static double work(const struct tt_cost *c, const struct message *m, double out, double in,
		   double leave)
{
	return out * (leave * work_out(c, m, true) + (1 - leave) * work_out(c, m, false)) +
	       in * (leave * work_in(c, m, true) + (1 - leave) * work_in(c, m, false));
}

/* Between hosts a port that its ranks share; inside one memory, which each rank has to itself. */
static double port(const struct tt_cost *c, const struct message *m, double messages, double shared)
{
	double far = messages * m->most * c->hop.beta * m->len, near;

	if (c->model->cores && c->model->numa)
		return 0; /* processors move all */
	near = c->model->cores
		       ? 0
		       : messages * (1 - m->most) * c->model->link[TT_LEVEL_HOST].beta * m->len;
	return larger(larger(far, shared), near);
}

/* How long the messages of a round keep ports and processors busy. */
static struct tt_busy busy_of(const struct tt_cost *c, const struct message *m)
{
	double messages = m->all * c->filled, shared = 0, places = c->places > 0 ? c->places : 1;
	double host = messages * places / c->args->nranks; /* of the host with the most ranks: */
	struct tt_busy busy = {.cpu = work(c, m, m->out, m->in, m->most)};

	if (c->places <= 0) {
		host *= c->hosts > 1 ? c->model->ranks_per_host : c->args->nranks;
		shared = host * m->leave / c->model->rails * c->hop.beta * m->len;
	}
	busy.out = port(c, m, m->out, c->model->ranks_per_host > 1 ? shared : 0);
	busy.in = port(c, m, m->in, c->model->ranks_per_host > 1 ? shared : 0);
	if (c->model->cores)
		busy.host = work(c, m, host, host, m->leave) / c->model->cores;
	return busy;
}

static double busiest(const struct tt_busy *b)
{
	return larger(larger(b->in, b->out), larger(b->cpu, b->host));
}

static void add_busy(struct tt_busy *sum, const struct tt_busy *b, double n)
{
	sum->in += n * b->in;
	sum->out += n * b->out;
	sum->cpu += n * b->cpu;
	sum->host += n * b->host;
}

/* Lanes that the slices keep busy, and for how many turns. */
void tt_cost_slices(struct tt_cost *c, size_t slices, int lanes)
{
	size_t k = slices < (size_t)lanes ? slices : (size_t)lanes;

	k = k ? k : 1;
	c->slices = (double)slices;
	c->lanes = (double)k;
	c->turns = (double)tt_num_pieces(slices, 1, k);
	c->last = slices % k ? (double)(slices % k) : (double)k;
}

void tt_cost_one_way(struct tt_cost *c)
{
	c->one_way = true;
}

void tt_cost_parts(struct tt_cost *c, size_t parts)
{
	c->filled = c->args->count < parts ? (double)c->args->count / (double)parts : 1;
}

bool tt_cost_waits(const struct tt_cost *c, double len)
{
	return len > (double)c->model->eager;
}

double tt_cost_turns(const struct tt_cost *c)
{
	return c->turns;
}

static double less(double a, double b)
{
	return a < b ? a : b;
}

static double log2_up(double n)
{
	int q = 0;

	while ((double)(1L << q) < n)
		q++;
	return q;
}

static bool uneven(const struct tt_cost *c)
{
	return c->args->hosts && c->args->hosts->least < c->args->hosts->places;
}

/* The share of messages that leave their host if this many ranks follow one another on each. */
static double leaving(const struct tt_cost *c, enum tt_reach to, int dist)
{
	int n = c->args->nranks, each = c->model->ranks_per_host;
	const struct tt_hosts *hosts = c->args->hosts;
	double any_rank = (double)(n - each) / (n - 1);

	if (c->hosts <= 1 || c->places > 0)
		return c->places > 0;
	if (each == 1)
		return 1;
	if (to == TT_ROOT && hosts)
		return (double)(n - hosts->size[hosts->host[c->args->root]]) / (n - 1);
	if (to <= TT_ROOT || (hosts && !hosts->in_order))
		return any_rank;
	if (to == TT_TREE || to == TT_CHAIN)
		return (c->hosts - 1) / (n - 1);
	if (to == TT_BIT && !(n & (n - 1)) && each % (2 * dist) == 0 && !uneven(c))
		return 0;
	return less(less(dist, to == TT_BIT ? each : n - dist), each) / each;
}

static struct message message_of(const struct tt_cost *c, double len, double out, double in,
				 double all, bool reduces, enum tt_reach to, int dist)
{
	struct message m = {.len = len, .out = out, .in = in, .all = all, .reduces = reduces};

	m.waits = len > (double)c->model->eager;
	m.leave = leaving(c, to, dist);
	m.most = m.way = m.leave > 0;
	if (m.leave <= 0 || m.leave >= 1)
		return m;
	if (to == TT_TREE)
		m.way = less((log2_up(c->hosts) + dist) / log2_up(c->args->nranks), 1);
	else if (to == TT_SHIFT || to == TT_CHAIN)
		m.way = m.leave;
	if (larger(out, in) > 1 && to == TT_TREE && !dist)
		m.most = m.way;
	else if (larger(out, in) > 1 && (to == TT_ROOT || (to == TT_ANY_RANK && !uneven(c))))
		m.most = m.leave;
	return m;
}

/* A slice takes that much longer; its lane cannot do the next one before serial. */
static void extend(struct tt_cost *c, double path, double serial, const struct tt_busy *busy,
		   double n)
{
	c->path += path;
	c->serial += serial;
	add_busy(&c->busy, busy, n);
	c->peak = larger(c->peak, busiest(busy));
}

void tt_cost_rounds(struct tt_cost *c, struct tt_rounds r)
{
	double pieces = (double)tt_num_pieces((size_t)r.len, c->args->elem, c->args->chunk), most,
	       time;
	struct tt_busy busy;
	struct message m;
	bool leaves;

	if (r.n <= 0 || r.len <= 0 || !c->slices)
		return;
	pieces = larger(pieces, 1);
	m = message_of(c, r.len / pieces, r.out, r.in, r.all * pieces, r.reduces, r.to, r.dist);
	m.out *= pieces;
	m.in *= pieces;
	leaves = m.leave > 0;
	if (m.waits || r.n <= 1 ||
	    r.to != TT_SHIFT) /* else a message round the ring crosses hosts once for each host */
		m.way = leaves;
	busy = busy_of(c, &m);
	most = larger(larger(m.out, m.in), 1); /* through one port, one after another */
	time = way(c, &m) + (most - 1) * (busiest(&busy) / most);
	if (m.way == leaves) {
		time = larger(time, hop_of(c, leaves).alpha + busy.host);
		time = larger(time, lead(c, &m, leaves) + hop_of(c, leaves).alpha +
					    larger(busy.in, busy.out) + work_in(c, &m, leaves));
	}
	time = larger(time, busiest(&busy));
	if (c->places > 1 && !c->model->numa) /* ranks of a host that talk at once queue for what
						 carries their messages */
		time += (c->places - 1) * c->model->overhead;
	extend(c, r.n * time, c->one_way && !m.waits ? 0 : r.n * time, &busy, r.n);
	c->tail = time - busiest(&busy);
}

void tt_cost_flow(struct tt_cost *c, struct tt_cost_flow f)
{
	struct message m = message_of(c, f.len, f.out, f.in, f.all, f.reduces, f.to, f.dist);
	struct tt_busy busy;
	double path;

	if (f.len <= 0 || !c->slices)
		return;
	c->one_way = true;
	busy = busy_of(c, &m);
	path = f.hops * way(c, &m);
	if (f.early) /* only the first one has to wait for the news of a receive */
		path -= (f.hops - 1) * (m.way * (lead(c, &m, true) - overhead_of(c, true)) +
					(1 - m.way) * (lead(c, &m, false) - overhead_of(c, false)));
	/* a lane goes on when its round is over; short messages have come by then */
	extend(c, path, m.waits ? f.waits * way(c, &m) : 0, &busy, 1);
}

void tt_cost_queue(struct tt_cost *c, double messages, double len, bool reduces, enum tt_reach to)
{
	bool sends = c->args->coll == TT_COLL_SCATTER; /* else they come */
	struct message m = message_of(c, len, sends, !sends, 1, reduces, to, 0);
	struct tt_busy busy;

	m.most = m.way = m.leave; /* of many */
	busy = busy_of(c, &m);
	if (len > 0 && messages > 0)
		c->path += messages * (m.waits && reduces ? way(c, &m) : busiest(&busy));
}

void tt_cost_once(struct tt_cost *c, double bytes)
{
	struct tt_busy busy = {.cpu = bytes * c->model->copy};

	c->path = larger(c->path, busy.cpu);
	if (c->slices)
		add_busy(&c->busy, &busy, 1 / c->slices);
}

/* processor time, of this many ranks at once */
static void spend(struct tt_cost *c, double time, double ranks)
{
	struct tt_busy busy = {.cpu = time};

	if (c->model->cores)
		busy.host = time * ranks / (c->hosts * c->model->cores);
	time = larger(time, busy.host);
	extend(c, time, time, &busy, 1);
}

void tt_cost_work(struct tt_cost *c, double bytes, bool reduces, double ranks)
{
	spend(c, bytes * (reduces ? c->model->gamma : c->model->copy), ranks);
}

void tt_cost_code(struct tt_cost *c, double encoded, double decoded, double ranks)
{
	double encode = tt_cost_encode(c->model, c->args),
	       decode = tt_cost_decode(c->model, c->args);

	spend(c, encoded * encode + decoded * decode, ranks);
}

/* A put, without the notes and offers for each chunk. */
void tt_cost_pull(struct tt_cost *c, double bytes, double ranks)
{
	double copy = c->model->copy, beta = c->model->link[TT_LEVEL_HOST].beta;

	spend(c, 0.9 * bytes * (beta > 0 && beta < copy ? beta : copy), ranks);
}

void tt_cost_signals(struct tt_cost *c, double times)
{
	c->path += times * tt_model_step(c->model);
}

void tt_cost_across(struct tt_cost *c, tt_cost_fn *cost, const struct tt_plan_args *across,
		    int places, size_t slices)
{
	const struct tt_plan_args *args = c->args;
	struct tt_hop hop = c->hop;
	size_t turns = 1;

	c->args = across;
	c->places = places;
	if (places > 1 && args->hosts) /* a rank does those of several places, one after another */
		slices *= turns = tt_num_pieces((size_t)places, 1, (size_t)args->hosts->least);
	if ((size_t)places > turns * (size_t)c->model->rails) /* each has its share of the ports */
		c->hop.beta *= (double)places / (double)turns / c->model->rails;
	cost(c, across);
	tt_cost_slices(c, slices, args->lanes);
	if (!c->one_way) /* else a rank that only sends need not wait, whatever comes next in the
			    lane */
		c->serial = larger(c->serial, c->path);
	c->one_way = false;
	c->hop = hop;
	c->args = args;
	c->places = 0;
}

int tt_cost_hosts(const struct tt_cost *c)
{
	return (int)c->hosts;
}

int tt_cost_places(const struct tt_cost *c)
{
	return c->model->ranks_per_host;
}

int tt_cost_cores(const struct tt_cost *c)
{
	int cores = c->model->cores, n = c->args->nranks;

	return cores && cores < n ? cores : n;
}

double tt_cost_num_slices(const struct tt_cost *c)
{
	return c->slices;
}

/*
 * Either lanes do their slices one after another, each lane a message behind the one before; or
 * something is busy all the time, but for the way of the last message. Slices that flow one way
 * need no turns if no rank waits: serial is 0.
 */
static double total(const struct tt_cost *c)
{
	double busy = busiest(&c->busy), path = larger(c->path, c->busy.host), turns;

	turns = path + (c->turns - 1) * larger(c->serial, busy) + (c->last - 1) * c->peak;
	return larger(turns, c->one_way ? path + (c->slices - 1) * busy
					: c->slices * busy + larger(c->tail, 0));
}

void tt_cost(const struct tt_alg *alg, const struct tt_plan_args *args,
	     const struct tt_model *model, struct tt_cost *cost)
{
	int hosts = tt_model_hosts(model, args->nranks);
	enum tt_level level = hosts > 1 ? TT_LEVEL_LEAF : TT_LEVEL_HOST;

	if (model->hosts_per_leaf && hosts > model->hosts_per_leaf)
		level = TT_LEVEL_FAR;
	*cost = (struct tt_cost){.model = model, .args = args, .hop = model->link[level]};
	cost->hosts = hosts;
	cost->filled = 1;
	tt_cost_slices(cost, 1, 1);
	alg->cost(cost, args);
	cost->time = total(cost);
}
