/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Push-sum: each rank keeps a vector x and a weight w, and sends shares of both along its edges.
 *
 *	share for rank j:  p x, p w	p = weight(j, i)
 *	kept:		   x - all shares sent, w - their weights
 *	estimate:	   z = x / w, which comes to the mean of all x
 *
 * No rank waits for another one. A push is a synchronous send, so it is over when its receiver has
 * taken it, and there is one at most for each pair of ranks. If the last one is still under way,
 * the receiver misses this exchange: the share stays here, and nothing is lost. A push to a rank
 * that dies comes back. So the sums of x and of w over living ranks and pushes under way stay.
 *
 * Kempe, Dobra, Gehrke: Gossip-based computation of aggregate information. FOCS 2003. Assran et
 * al.: Stochastic gradient push for distributed deep learning. ICML 2019.
 */
#include "lib/graph/push_sum.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/reduce/reduce.h"

#define TAG 1

static int post(struct tutti_push_sum *p)
{
	return tutti_irecv(p->in, 1 + p->count, TUTTI_FLOAT64, TUTTI_ANY_SOURCE, TAG, p->comm,
			   &p->from, &p->recv);
}

/* Deaths do not matter to receives from any rank. */
static int acknowledge(struct tutti_push_sum *p)
{
	struct tutti_failed *failed = calloc((size_t)p->n, sizeof(*failed));
	int n = 0, err;

	if (!failed)
		return tt_fail(-ENOMEM, "tutti_push_sum: no memory for %d ranks", p->n);
	err = tutti_comm_failed(p->comm, failed, p->n, &n);
	if (!err && n)
		err = tutti_comm_ack_failed(p->comm, failed, n < p->n ? n : p->n);
	free(failed);
	return err;
}

static void add(struct tutti_push_sum *p, const double *share, double times)
{
	const double weights[] = {1, times};
	const void *both[] = {p->x, share + 1};

	p->w += times * share[0];
	tt_reduce_weigh(p->x, both, weights, 2, p->count, TUTTI_FLOAT64);
}

static bool is_dead(int err)
{
	return err == -TUTTI_EPEER;
}

/* Adds what has come, at most n pushes, so that others cannot keep this rank busy for ever. */
static int take_in(struct tutti_push_sum *p)
{
	int done = 1, err = 0, again = 0, taken = 0;

	while (taken < p->n) {
		if (!p->recv)
			err = post(p);
		if (!err)
			err = tutti_test(&p->recv, &done);
		if (p->tolerant && is_dead(err) && again++ < p->n) {
			err = acknowledge(p);
			if (!err)
				continue;
		}
		if (err || !done)
			return err;
		add(p, p->in, 1);
		p->received[p->from.source]++;
		taken++;
	}
	return 0;
}

/* Whether nothing is under way to rank j any more. A share that came to nobody comes back. */
static int settle(struct tutti_push_sum *p, int j, int *done)
{
	struct tt_push *to = &p->to[j];
	int err = 0;

	*done = 1;
	if (to->request)
		err = tutti_test(&to->request, done);
	if (!is_dead(err))
		return err;
	add(p, to->share, 1);
	to->sent--;
	*done = 1;
	return p->tolerant ? 0 : err;
}

static int push(struct tutti_push_sum *p, int j, double part, const double *x, double w)
{
	struct tt_push *to = &p->to[j];
	const void *from = x;
	int err;

	err = to->share ? 0
			: tutti_alloc(tutti_comm_context(p->comm),
				      (1 + p->count) * sizeof(*to->share), (void **)&to->share);
	if (err)
		return err;
	to->share[0] = part * w;
	tt_reduce_weigh(to->share + 1, &from, &part, 1, p->count, TUTTI_FLOAT64);
	err = tutti_issend(to->share, 1 + p->count, TUTTI_FLOAT64, j, TAG, p->comm, &to->request);
	if (err)
		return p->tolerant && is_dead(err) ? 0 : err;
	to->sent++;
	add(p, to->share, -1);
	return tutti_request_set_timeout(to->request, TUTTI_NEVER); /* a slow rank may take long */
}

/* The weight of the edge. */
static double part_of(const struct tt_edges *edges, int from, int to)
{
	size_t i = edges->in_at[to];

	while (edges->in[i] != from)
		i++;
	return edges->weight[i];
}

/* A sender that gave away more than it has would have a negative weight. */
static int check_column(struct tutti_push_sum *p, const struct tt_edges *edges)
{
	double sum = edges->own[p->rank];
	size_t i;

	if (edges->hash == p->checked) /* as in the last step */
		return 0;
	for (i = edges->out_at[p->rank]; i < edges->out_at[p->rank + 1]; i++)
		sum += part_of(edges, p->rank, edges->out[i]);
	if (fabs(sum - 1) <= 1e-9) {
		p->checked = edges->hash;
		return 0;
	}
	return tt_fail(
		-EINVAL,
		"tutti_push_sum_step: the weights of what rank %d sends and keeps sum to %g, "
		"not 1; make a graph with TUTTI_GRAPH_COLUMNS, as TUTTI_WEIGHTS_OUT does",
		p->rank, sum);
}

/* before: w, then x, as they were, of which all shares are parts. */
static int push_all(struct tutti_push_sum *p, const struct tt_edges *edges, const double *before)
{
	size_t i;
	int done, err = 0;

	for (i = edges->out_at[p->rank]; i < edges->out_at[p->rank + 1] && !err; i++) {
		int j = edges->out[i];

		err = settle(p, j, &done);
		if (!err && !done)
			p->missed++;
		else if (!err)
			err = push(p, j, part_of(edges, p->rank, j), before + 1, before[0]);
	}
	return err;
}

int tt_push_sum_step(struct tutti_push_sum *p, const struct tt_edges *edges)
{
	int err = check_column(p, edges);
	double *before;

	if (err)
		return err;
	before = malloc((1 + p->count) * sizeof(*before));
	if (!before)
		return tt_fail(-ENOMEM, "tutti_push_sum_step: no memory for %zu elements",
			       p->count);
	err = take_in(p);
	if (!err) {
		before[0] = p->w;
		memcpy(before + 1, p->x, p->count * sizeof(*before));
		err = push_all(p, edges, before);
	}
	free(before);
	return err;
}

/* ---- drain ---- */

/* All of this rank's pushes are over. */
static int settle_all(struct tutti_push_sum *p, bool *over)
{
	int j, done, err = 0;

	for (*over = true, j = 0; j < p->n && !err; j++) {
		err = settle(p, j, &done);
		*over &= done;
	}
	return err;
}

static bool all_here(const struct tutti_push_sum *p, const uint64_t *from)
{
	int r;

	for (r = 0; r < p->n; r++)
		if (p->received[r] < from[r])
			return false;
	return true;
}

/* A push that a dead rank has told of, and which is not here, will not come. */
static int check_dead(const struct tutti_push_sum *p, const uint64_t *from)
{
	struct tutti_failed *failed;
	int i, n = 0, err = tutti_comm_failed(p->comm, NULL, 0, &n);

	if (err || !n)
		return err;
	failed = calloc((size_t)p->n, sizeof(*failed));
	if (!failed)
		return tt_fail(-ENOMEM, "tutti_push_sum_drain: no memory for %d ranks", p->n);
	err = tutti_comm_failed(p->comm, failed, p->n, &n);
	for (i = 0; i < n && !err; i++) {
		int r = failed[i].rank;

		if (p->received[r] < from[r])
			err = tt_fail(-TUTTI_EPEER,
				      "tutti_push_sum_drain: rank %d died before its pushes came: "
				      "%llu of %llu are here; go on with steps, or free the state",
				      failed[i].world_rank, (unsigned long long)p->received[r],
				      (unsigned long long)from[r]);
	}
	free(failed);
	return err;
}

/* Takes in until all ranks have told how many pushes they made to this one, and these are here. */
static int take_all(struct tutti_push_sum *p, struct tutti_request **told, const uint64_t *from)
{
	int done = 0, err = 0;
	bool over = false;

	while (!err && !(done && over && all_here(p, from))) {
		if (!done)
			err = tutti_test(told, &done);
		if (!err)
			err = take_in(p);
		if (!err)
			err = settle_all(p, &over);
		if (!err && done)
			err = check_dead(p, from);
		sched_yield();
	}
	return err;
}

/* Now all ranks are to take what is under way to them: the communicator's timeout holds. */
static void time_pushes(struct tutti_push_sum *p)
{
	int r;

	for (r = 0; r < p->n; r++)
		if (p->to[r].request)
			tutti_request_set_timeout(p->to[r].request, 0);
}

int tt_push_sum_drain(struct tutti_push_sum *p)
{
	uint64_t *count = calloc(2 * (size_t)p->n, sizeof(*count));
	struct tutti_request *told = NULL;
	int r, err;

	if (!count)
		return tt_fail(-ENOMEM, "tutti_push_sum_drain: no memory for %d ranks", p->n);
	for (r = 0; r < p->n; r++)
		count[r] = p->to[r].sent;
	time_pushes(p);
	err = tutti_ialltoall(count, count + p->n, 1, TUTTI_UINT64, p->comm, &told);
	if (!err)
		err = take_all(p, &told, count + p->n);
	if (told)
		tutti_wait(&told);
	free(count);
	return err;
}

/* ---- its life ---- */

void tt_push_sum_release(struct tutti_push_sum *p)
{
	int r;

	for (r = 0; p->to && r < p->n; r++)
		if (!p->to[r].request)
			tutti_free(p->to[r].share);
	free(p->to);
	free(p->received);
	free(p->x);
	free(p->in);
	p->magic = 0;
	free(p);
}

/* All ranks find out that a count differs. */
static int same_count(const struct tutti_push_sum *p)
{
	int64_t least[2] = {(int64_t)p->count, -(int64_t)p->count};
	int err = tutti_allreduce(TUTTI_IN_PLACE, least, 2, TUTTI_INT64, TUTTI_MIN, p->comm);

	if (err || least[0] == -least[1])
		return err;
	return tt_fail(-TUTTI_EMISMATCH,
		       "tutti_push_sum_create: the ranks pass counts from %lld to %lld; rank %d "
		       "passes %zu",
		       (long long)least[0], (long long)-least[1], p->rank, p->count);
}

int tt_push_sum_new(int n, int rank, size_t count, struct tutti_push_sum **out)
{
	struct tutti_push_sum *p = calloc(1, sizeof(*p));

	if (!p)
		return tt_fail(-ENOMEM, "tutti_push_sum_create: no memory");
	p->magic = TT_PUSH_SUM_MAGIC;
	p->n = n;
	p->rank = rank;
	p->count = count;
	p->w = 1;
	p->x = calloc(count + 1, sizeof(*p->x));
	p->in = calloc(count + 1, sizeof(*p->in));
	p->to = calloc((size_t)n, sizeof(*p->to));
	p->received = calloc((size_t)n, sizeof(*p->received));
	if (p->x && p->in && p->to && p->received) {
		*out = p;
		return 0;
	}
	tt_push_sum_release(p);
	return tt_fail(-ENOMEM, "tutti_push_sum_create: no memory for %zu elements", count);
}

int tt_push_sum_begin(struct tutti_push_sum *p, struct tutti_comm *comm)
{
	struct tutti_comm_state state = {.size = sizeof(state)};
	int err = tutti_comm_dup(comm, &p->comm);

	if (!err)
		err = same_count(p);
	if (!err)
		err = tutti_comm_set_owner(p->comm, "a push-sum", "tutti_push_sum_free");
	if (!err) {
		tutti_comm_state(p->comm, &state);
		p->tolerant = state.flags & TUTTI_COMM_TOLERANT;
	} else if (p->comm) {
		tutti_comm_free(p->comm);
	}
	return err;
}

static bool has_died(struct tutti_push_sum *p)
{
	struct tutti_failed failed;
	int n = 0;

	return !tutti_comm_failed(p->comm, &failed, 1, &n) && n;
}

/* How many pushes are under way. */
static int under_way(struct tutti_push_sum *p)
{
	int r, done, n = 0;

	for (r = 0; r < p->n; r++)
		if (!settle(p, r, &done) && !done)
			n++;
	return n;
}

/* Nothing is written to p->in any more. */
static int end_receive(struct tutti_push_sum *p)
{
	int err = p->recv ? tutti_cancel(p->recv) : 0;

	if (!err && p->recv)
		err = tutti_wait(&p->recv);
	return p->recv ? err : 0;
}

int tt_push_sum_free(struct tutti_push_sum *p)
{
	int r, err, n = under_way(p);

	if (n && !has_died(p))
		return tt_fail(-EBUSY,
			       "tutti_push_sum_free: %d pushes have not been taken; call "
			       "tutti_push_sum_drain on all ranks first",
			       n);
	err = end_receive(p);
	if (err)
		return err;
	for (r = 0; r < p->n; r++)
		if (p->to[r].request) /* it and its memory go with the context */
			tutti_request_free(p->to[r].request);
	tutti_comm_free(p->comm);
	tt_push_sum_release(p);
	return 0;
}
