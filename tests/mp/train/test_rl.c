/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of examples/rl: V-trace targets against the formula, the policy's gradient against
 * differences, and the queue: order, turns, full, closed, actors that are killed.
 */
#include "config.h"

#include "examples/random.h"
#include "examples/rl/rl.h"
#include "tests/mp/job.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define TOLERANT "TUTTI_TOLERANT=1 "
#define SHM TOLERANT "TUTTI_TRANSPORT=shm "

/* ---- V-trace ---- */

enum { STEPS = 40 };

static double least(double a, double b)
{
	return a < b ? a : b;
}

/*
 * v_s = V(x_s) + sum over t of (product over s <= i < t of gamma_i c_i) delta_t, with
 * c_i = lambda min(c, pi / mu) and delta_t = min(rho, pi / mu) (r_t + gamma_t V(x_t+1) - V(x_t)).
 */
static double naive(const struct vtrace_config *v, const struct vtrace_step *x, int n, double last,
		    int s)
{
	double sum = s < n ? x[s].value : last, product, delta;
	int t, i;

	for (t = s; t < n; t++) {
		for (product = 1, i = s; i < t; i++)
			product *= x[i].discount * v->lambda * least(v->c, x[i].pi / x[i].mu);
		delta = least(v->rho, x[t].pi / x[t].mu) *
			(x[t].reward + x[t].discount * (t + 1 < n ? x[t + 1].value : last) -
			 x[t].value);
		sum += product * delta;
	}
	return sum;
}

static void random_steps(struct vtrace_step *x, int n, uint64_t *r)
{
	int i;

	for (i = 0; i < n; i++)
		x[i] = (struct vtrace_step){.pi = 0.01 + 0.99 * random_uniform(r),
					    .mu = 0.01 + 0.99 * random_uniform(r),
					    .reward = 2 * random_uniform(r) - 1,
					    .discount = random_uniform(r) < 0.1 ? 0 : 0.99,
					    .value = 4 * random_uniform(r) - 2};
}

static void vtrace_formula(void)
{
	double target[STEPS], advantage[STEPS], last, rho, most = 0, d;
	struct vtrace_step x[STEPS];
	struct vtrace_config v;
	uint64_t r = 7;
	int i, n, s;

	for (i = 0; i < 2000; i++) {
		n = 1 + i % STEPS;
		v = (struct vtrace_config){.rho = 0.5 + random_uniform(&r),
					   .c = 0.5 + random_uniform(&r),
					   .lambda = i % 3 ? 1 : random_uniform(&r)};
		random_steps(x, n, &r);
		last = random_uniform(&r);
		vtrace(&v, x, n, last, target, advantage);
		for (s = 0; s < n; s++) {
			d = fabs(target[s] - naive(&v, x, n, last, s));
			most = d > most ? d : most;
			rho = least(v.rho, x[s].pi / x[s].mu);
			d = fabs(advantage[s] -
				 rho * (x[s].reward + x[s].discount * naive(&v, x, n, last, s + 1) -
					x[s].value));
			most = d > most ? d : most;
		}
	}
	if (getenv("TUTTI_TEST_VERBOSE"))
		printf("largest difference %g\n", most);
	TT_CHECK(most <= 1e-12);
}

/* pi = mu: the n-step returns, whatever the values are in between. */
static void vtrace_on_policy(void)
{
	static const struct vtrace_config v = {.rho = 1, .c = 1, .lambda = 1};
	double target[STEPS], advantage[STEPS], returns = 0.25;
	struct vtrace_step x[STEPS];
	uint64_t r = 9;
	int i;

	random_steps(x, STEPS, &r);
	for (i = 0; i < STEPS; i++)
		x[i].mu = x[i].pi;
	vtrace(&v, x, STEPS, returns, target, advantage);
	for (i = STEPS - 1; i >= 0; i--) {
		returns = x[i].reward + x[i].discount * returns;
		TT_CHECK(fabs(target[i] - returns) <= 1e-12);
		TT_CHECK(fabs(advantage[i] - (returns - x[i].value)) <= 1e-12);
	}
}

/* ---- the policy ---- */

static double loss_of(const double *w, const double *seen, const struct policy_loss *l)
{
	struct policy_out out;
	double entropy = 0;
	int i;

	policy_forward(w, seen, &out);
	for (i = 0; i < ACTIONS; i++)
		entropy -= out.p[i] * log(out.p[i]);
	return -l->advantage * log(out.p[l->action]) +
	       l->cost * (l->target - out.value) * (l->target - out.value) / 2 -
	       l->entropy * entropy;
}

static void policy_gradient(void)
{
	struct policy_loss l = {
		.action = 1, .advantage = 0.7, .target = 2, .cost = 0.5, .entropy = 0.3};
	double w[WEIGHTS], g[WEIGHTS] = {0}, seen[OBSERVED] = {0.3, -0.5, 0.2, 0.8}, d, keep;
	struct policy_out out;
	uint64_t r = 3;
	int i;

	policy_start(w, 5);
	for (i = 0; i < WEIGHTS; i++)
		w[i] += 0.2 * random_uniform(&r);
	policy_forward(w, seen, &out);
	TT_CHECK(fabs(out.p[0] + out.p[1] - 1) < 1e-15);
	policy_backward(w, seen, &out, &l, g);
	for (i = 0; i < WEIGHTS; i++) {
		keep = w[i];
		w[i] = keep + 1e-5;
		d = loss_of(w, seen, &l);
		w[i] = keep - 1e-5;
		d = (d - loss_of(w, seen, &l)) / 2e-5;
		w[i] = keep;
		TT_CHECK(fabs(g[i] - d) <= 1e-8 * (1 + fabs(d)));
	}
}

/* ---- the queue ---- */

enum { WORDS = 100 };

struct item {
	uint64_t word[WORDS];
};

static int put(struct mp_job *job, struct queue *q, uint64_t number, bool more)
{
	struct item *item;
	void *place;
	int i, closed = queue_begin(q, &place);

	if (closed)
		return closed;
	item = place;
	for (i = 0; i < WORDS; i++)
		item->word[i] = number * 1000 + (uint64_t)job->rank;
	return queue_send(q, more);
}

/* Checks that the item is the next of its rank, and whole. */
static int take(struct mp_job *job, struct queue *q, uint64_t *next, int *from)
{
	const struct item *item;
	const void *place;
	int i;

	MP_OK(queue_take(q, &place, from));
	item = place;
	for (i = 0; i < WORDS; i++)
		TT_EXPECT(item->word[i] == next[*from] * 1000 + (uint64_t)*from);
	next[*from]++;
	MP_OK(queue_done(q));
	return 0;
}

struct order {
	int slots, items;
	int group; /* so many items at once; 0: each alone */
};

static int order_body(struct mp_job *job)
{
	const struct order *o = job->arg;
	uint64_t next[MP_MAX] = {0};
	struct queue *q;
	int i, from;

	MP_OK(queue_create(job->world, sizeof(struct item), o->slots, &q));
	for (i = 0; job->rank && i < o->items; i++)
		MP_OK(put(job, q, (uint64_t)i, o->group && (i + 1) % o->group && i + 1 < o->items));
	for (i = 0; !job->rank && i < o->items * (job->n - 1); i++)
		TT_EXPECT(!take(job, q, next, &from));
	for (i = 1; !job->rank && i < job->n; i++)
		TT_EXPECT(next[i] == (uint64_t)o->items);
	MP_OK(queue_free(q));
	return 0;
}

static void order(void)
{
	struct order o = {.slots = 3, .items = 3000};

	TT_CHECK(!MP_RUN(.n = 4, .env = SHM, .fn = order_body, .arg = &o));
	o = (struct order){.slots = 1, .items = 500};
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = order_body, .arg = &o));
	/* groups end at the last place, and with as many items as an actor may hold back */
	o = (struct order){.slots = 13, .items = 3000, .group = 1000};
	TT_CHECK(!MP_RUN(.n = 4, .env = SHM, .fn = order_body, .arg = &o));
	o = (struct order){.slots = 9, .items = 3000, .group = 3};
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = order_body, .arg = &o));
	o = (struct order){.slots = 9, .items = 300, .group = 7};
	TT_CHECK(!MP_RUN(.n = 3, .fn = order_body, .arg = &o,
			 .env = TOLERANT
			 "TUTTI_TRANSPORT=fault:shm "
			 "TUTTI_FAULT=seed=3,delay=0.05:200,reorder=0.3,again=0.2"));
}

static void order_ofi(void)
{
	struct order o = {.slots = 8, .items = 300, .group = 5};

	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 3, .env = TOLERANT "TUTTI_TRANSPORT=ofi", .fn = order_body,
			 .arg = &o));
}

/* An actor sends as many items as it has places, then two whenever two more have been taken. */
static int full_body(struct mp_job *job)
{
	enum { SLOTS = 3, HALF = 2, ITEMS = 10 };
	atomic_int *sent = job->shared->word;
	uint64_t next[MP_MAX] = {0};
	int i, k, from, last = 0, err = 0;
	struct queue *q;

	MP_OK(queue_create(job->world, sizeof(struct item), SLOTS, &q));
	for (i = 0; job->rank && !err; i++) {
		err = put(job, q, (uint64_t)i, false);
		atomic_fetch_add(&sent[job->rank], !err);
	}
	for (i = 1; !job->rank && i < job->n; i++)
		TT_EXPECT(mp_await(&sent[i], SLOTS, MP_HANG_MS));
	for (i = 1; !job->rank && i <= ITEMS; i++) {
		mp_sleep_ms(2);
		for (k = 1; k < job->n; k++)
			TT_EXPECT(atomic_load(&sent[k]) == SLOTS + (int)next[k] / HALF * HALF);
		TT_EXPECT(!take(job, q, next, &from));
		TT_EXPECT(from != last); /* both have items, so they take turns */
		last = from;
		TT_EXPECT(mp_await(&sent[from], SLOTS + (int)next[from] / HALF * HALF, MP_HANG_MS));
	}
	if (!job->rank)
		MP_OK(queue_close(q));
	else
		TT_EXPECT(err == 1); /* closed, while it waited */
	MP_OK(queue_free(q));
	return 0;
}

static void full(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = full_body));
}

/* Items that others follow go in one put, once half of the places has some. */
static int held_body(struct mp_job *job)
{
	enum { SLOTS = 8, GROUP = 4 };
	struct tutti_stats a = {.size = sizeof(a)}, b = a;
	uint64_t next[MP_MAX] = {0}, n;
	struct queue *q;
	int i, from;

	MP_OK(queue_create(job->world, sizeof(struct item), SLOTS, &q));
	MP_OK(tutti_stats_get(job->ctx, &a));
	for (i = 0; job->rank && i < 2 * GROUP; i++) {
		MP_OK(put(job, q, (uint64_t)i, i < GROUP));
		MP_OK(tutti_stats_get(job->ctx, &b));
		/* whole places, each longer than its item; the library may send words of its own */
		n = (b.put_bytes - a.put_bytes) / sizeof(struct item);
		TT_EXPECT(n == (i < GROUP - 1 ? 0 : i == GROUP - 1 ? GROUP : 1));
		a = b;
	}
	for (i = 0; !job->rank && i < 2 * GROUP; i++)
		TT_EXPECT(!take(job, q, next, &from));
	MP_OK(queue_free(q));
	return 0;
}

static void held(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = held_body));
}

/* ---- actors die ---- */

static void *die(void *arg)
{
	usleep((unsigned)*(const int *)arg);
	kill(getpid(), SIGKILL);
	return NULL;
}

/* Rank 1 is killed; all items of the others come, in order. */
static int killed_body(struct mp_job *job)
{
	enum { ITEMS = 500 };
	uint64_t next[MP_MAX] = {0};
	pthread_t thread;
	struct queue *q;
	int i, from, slots = *(const int *)job->arg % 2 ? 2 : 8;

	MP_OK(queue_create(job->world, sizeof(struct item), slots, &q));
	mp_meet(job); /* all have it when rank 1 dies */
	if (job->rank == 1)
		TT_EXPECT(!pthread_create(&thread, NULL, die, job->arg));
	for (i = 0; job->rank == 1; i++)
		if (put(job, q, (uint64_t)i, i % 3))
			pause();
	for (i = 0; job->rank && i < ITEMS; i++)
		MP_OK(put(job, q, (uint64_t)i, i + 1 < ITEMS));
	while (!job->rank && (next[2] < ITEMS || next[3] < ITEMS))
		TT_EXPECT(!take(job, q, next, &from));
	if (!job->rank)
		MP_OK(queue_close(q));
	MP_OK(queue_free(q));
	return mp_leave_failed(job);
}

static void killed(void)
{
	int after, i;

	for (i = 0; i < 5; i++) {
		after = 200 + i * 7919 % 9000;
		TT_CHECK(!MP_RUN(.n = 4, .env = SHM, .fn = killed_body, .arg = &after,
				 .killed = 1u << 1));
	}
}

/* All actors die: the learner learns it, after what has come. */
static int alone_body(struct mp_job *job)
{
	uint64_t next[MP_MAX] = {0};
	const void *item;
	struct queue *q;
	int i, from;

	MP_OK(queue_create(job->world, sizeof(struct item), 2, &q));
	if (job->rank) {
		MP_OK(put(job, q, 0, false));
		MP_OK(put(job, q, 1, false));
		atomic_fetch_add(&job->shared->word[0], 1);
		TT_EXPECT(mp_await(&job->shared->word[1], 1, MP_HANG_MS));
		kill(getpid(), SIGKILL);
	}
	for (i = 0; i < 4; i++)
		TT_EXPECT(!take(job, q, next, &from));
	TT_EXPECT(mp_await(&job->shared->word[0], 2, MP_HANG_MS));
	atomic_store(&job->shared->word[1], 1);
	MP_ERR(queue_take(q, &item, &from), -TUTTI_EPEER);
	MP_OK(queue_free(q));
	return mp_leave_failed(job);
}

static void alone(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = alone_body, .killed = 6));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"vtrace_formula", vtrace_formula},
					       {"vtrace_on_policy", vtrace_on_policy},
					       {"policy_gradient", policy_gradient},
					       {"order", order},
					       {"order_ofi", order_ofi},
					       {"full", full},
					       {"held", held},
					       {"killed", killed},
					       {"alone", alone},
					       {NULL, NULL}};

	return tt_test_main("rl", tests, argc, argv);
}
