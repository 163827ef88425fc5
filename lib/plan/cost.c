/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The time of rounds of messages.
 *
 * A round of one lane takes as long as its longest way: overhead, the news of the receive if the
 * message is long, alpha, beta * L, overhead, gamma * L. Meanwhile other lanes use the port and the
 * processor; K lanes together cannot be faster than the busiest of those: the port of a rank (or of
 * a host whose ranks share it), the processor of a rank, the processors of a host. So a round of K
 * lanes takes max(way, K * busiest), and the last one what is left of its way.
 *
 * Only +, * and max of doubles, in an order that the source fixes: the same on all ranks.
 */
#include "lib/plan/cost.h"

static double larger(double a, double b)
{
	return a > b ? a : b;
}

/* One message: what it costs, and how much of what it keeps busy. */
struct message {
	double len, out, in, all;
	bool reduces, near, waits;
};

static double lead(const struct tt_cost *c, const struct message *m)
{
	return m->waits ? larger(c->model->overhead, c->hop.alpha) : c->model->overhead;
}

static double work_in(const struct tt_cost *c, const struct message *m)
{
	return c->model->overhead + (m->reduces ? c->model->gamma * m->len : 0);
}

static bool copied_by_processor(const struct tt_cost *c)
{
	return c->model->cores && c->hosts <= 1;
}

static double work_out(const struct tt_cost *c, const struct message *m)
{
	return c->model->overhead + (copied_by_processor(c) ? c->hop.beta * m->len : 0);
}

/* From when both ends could begin until it is received and combined. */
static double way(const struct tt_cost *c, const struct message *m)
{
	return lead(c, m) + c->hop.alpha + c->hop.beta * m->len + work_in(c, m);
}

/* The share of messages that leave their host. */
static double leaving(const struct tt_cost *c, const struct message *m)
{
	double per_host = c->model->ranks_per_host, n = c->args->nranks;

	if (c->hosts <= 1)
		return 0;
	return m->near ? 1 / per_host : (n - per_host) / (n - 1);
}

/* How long the messages of a round keep ports and processors busy. */
static struct tt_busy busy_of(const struct tt_cost *c, const struct message *m)
{
	double bytes = c->hop.beta * m->len, shared, messages = m->all * c->filled;
	double all;
	struct tt_busy busy = {.cpu = m->out * work_out(c, m) + m->in * work_in(c, m)};

	if (c->places > 0)
		messages *= c->places;
	all = messages * (work_out(c, m) + work_in(c, m));
	if (!copied_by_processor(c)) {
		shared = c->places > 0 ? 0 : messages * leaving(c, m) / (c->hosts * c->model->rails) * bytes;
		shared = c->model->ranks_per_host > 1 ? shared : 0;
		busy.out = larger(m->out * bytes, shared);
		busy.in = larger(m->in * bytes, shared);
	}
	if (c->model->cores)
		busy.host = all / (c->hosts * c->model->cores);
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

static struct message message_of(const struct tt_cost *c, double len, double out, double in,
				 double all, bool reduces, bool near)
{
	return (struct message){.len = len,
				.out = out,
				.in = in,
				.all = all,
				.reduces = reduces,
				.near = near,
				.waits = len > (double)c->model->eager};
}

static void count(struct tt_cost *c, double steps, double len, double out, double in, bool reduces)
{
	c->steps += steps;
	c->bytes += c->slices * len * larger(out, in);
	c->reduced += reduces ? c->slices * len * in : 0;
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

	if (r.n <= 0 || r.len <= 0 || !c->slices)
		return;
	pieces = larger(pieces, 1);
	m = message_of(c, r.len / pieces, r.out * pieces, r.in * pieces, r.all * pieces, r.reduces,
		       r.near);
	busy = busy_of(c, &m);
	most = larger(larger(m.out, m.in), 1); /* through one port, one after another */
	time = way(c, &m) + (most - 1) * (busiest(&busy) / most);
	time = larger(time, c->hop.alpha + busy.host);
	time = larger(time, lead(c, &m) + c->hop.alpha + larger(busy.in, busy.out) + work_in(c, &m));
	if (c->places > 1) /* ranks of a host that talk at once queue for what carries their messages */
		time += (c->places - 1) * c->model->overhead;
	extend(c, r.n * time, c->one_way && !m.waits ? 0 : r.n * time, &busy, r.n);
	c->tail = time - busiest(&busy);
	count(c, c->turns * r.n, r.len, r.n * r.out, r.n * r.in, r.reduces);
}

void tt_cost_flow(struct tt_cost *c, struct tt_flow f)
{
	struct message m = message_of(c, f.len, f.out, f.in, f.all, f.reduces, f.near);
	struct tt_busy busy;
	double path;

	if (f.len <= 0 || !c->slices)
		return;
	c->one_way = true;
	busy = busy_of(c, &m);
	path = f.hops * way(c, &m);
	if (f.early) /* only the first one has to wait for the news of a receive */
		path -= (f.hops - 1) * (lead(c, &m) - c->model->overhead);
	/* a lane goes on when its round is over; short messages have come by then */
	extend(c, path, m.waits ? f.waits * way(c, &m) : 0, &busy, 1);
	count(c, f.hops + (c->turns - 1) * larger(f.waits, 1), f.len, f.out, f.in, f.reduces);
}

void tt_cost_queue(struct tt_cost *c, double messages, double len, bool reduces)
{
	struct message m = message_of(c, len, 0, 1, 1, reduces, false);
	struct tt_busy busy = busy_of(c, &m);

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

/* time of the processor, of so many ranks at once */
static void work(struct tt_cost *c, double time, double ranks)
{
	struct tt_busy busy = {.cpu = time};

	if (c->model->cores)
		busy.host = time * ranks / (c->hosts * c->model->cores);
	time = larger(time, busy.host);
	extend(c, time, time, &busy, 1);
}

void tt_cost_work(struct tt_cost *c, double bytes, bool reduces, double ranks)
{
	work(c, bytes * (reduces ? c->model->gamma : c->model->copy), ranks);
	c->reduced += reduces ? c->slices * bytes : 0;
}

/* What a put does, without the notes and offers for each chunk. */
void tt_cost_pull(struct tt_cost *c, double bytes, double ranks)
{
	double copy = c->model->copy, beta = c->model->link[TT_LEVEL_HOST].beta;

	work(c, 0.9 * bytes * (beta > 0 && beta < copy ? beta : copy), ranks);
}

void tt_cost_signals(struct tt_cost *c, double times)
{
	c->path += times * tt_model_step(c->model);
	c->steps += times;
}

void tt_cost_across(struct tt_cost *c, tt_cost_fn *cost, const struct tt_plan_args *across,
		    int places)
{
	const struct tt_plan_args *args = c->args;
	struct tt_hop hop = c->hop;

	c->args = across;
	c->places = places;
	if (places > c->model->rails) /* each has its share of the ports */
		c->hop.beta *= (double)places / c->model->rails;
	cost(c, across);
	c->one_way = false; /* a lane does its slices one after the other, with work after what goes across */
	c->serial = larger(c->serial, c->path);
	c->hop = hop;
	c->args = args;
	c->places = 0;
}

int tt_cost_hosts(const struct tt_cost *c)
{
	return (int)c->hosts;
}

double tt_cost_num_slices(const struct tt_cost *c)
{
	return c->slices;
}

/*
 * Either lanes do their slices one after another, each lane a message behind the one before; or
 * something is busy all the time, but for the way of the last message. Slices that flow one way
 * need no turns if nobody waits: serial is 0.
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
	int n = args->nranks, per_host = model->ranks_per_host,
	    hosts = (n + per_host - 1) / per_host;
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
