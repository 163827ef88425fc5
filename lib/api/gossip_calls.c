/* SPDX-License-Identifier: BSD-3-Clause */
/* Averaging without a centre, and elastic averaging: checks arguments, then calls lib/gossip. */
#include <errno.h>
#include <stdlib.h>

#include "lib/api/api.h"
#include "lib/base/sized.h"
#include "lib/gossip/gossip.h"

static bool too_long(size_t count, enum tutti_datatype datatype, size_t times)
{
	size_t n;

	return __builtin_mul_overflow(count, tutti_datatype_size(datatype), &n) ||
	       __builtin_mul_overflow(n, times, &n) || n > (size_t)PTRDIFF_MAX / 4;
}

static bool is_float(int datatype)
{
	return datatype == TUTTI_FLOAT32 || datatype == TUTTI_FLOAT64;
}

/* ---- mailboxes ---- */

static int check_neighbors(const struct tutti_comm *comm, const char *call, const char *what, int n,
			   const int *ranks)
{
	bool *seen;
	int i, err = 0;

	if (n < 0 || n >= comm->size)
		return tt_fail(-EINVAL, "%s: n%s is %d; it must be 0 to %d", call, what, n,
			       comm->size - 1);
	if (n && !ranks)
		return tt_fail(-EINVAL, "%s: %s is NULL", call, what);
	seen = calloc((size_t)comm->size, sizeof(*seen));
	if (!seen)
		return tt_fail(-ENOMEM, "%s: no memory for %d ranks", call, comm->size);
	for (i = 0; i < n && !err; i++) {
		if (ranks[i] < 0 || ranks[i] >= comm->size || ranks[i] == comm->rank)
			err = tt_fail(-EINVAL,
				      "%s: %s[%d] is %d; it must be another rank of the "
				      "communicator (0 to %d)",
				      call, what, i, ranks[i], comm->size - 1);
		else if (seen[ranks[i]])
			err = tt_fail(-EINVAL, "%s: %s lists rank %d twice", call, what, ranks[i]);
		else
			seen[ranks[i]] = true;
	}
	free(seen);
	return err;
}

static int check_weights(const char *call, const struct tutti_gossip_config *c)
{
	double sum = 0;
	int i;

	for (i = 0; c->weights && i < c->nin; i++) {
		if (!(c->weights[i] >= 0 && c->weights[i] <= 1))
			return tt_fail(-EINVAL, "%s: weights[%d] is %g; it must be 0 to 1", call, i,
				       c->weights[i]);
		sum += c->weights[i];
	}
	return sum <= 1 + 1e-9
		       ? 0
		       : tt_fail(-EINVAL, "%s: the weights add up to %g; at most 1 is allowed",
				 call, sum);
}

static int check_config(const struct tutti_comm *comm, const char *call,
			const struct tutti_gossip_config *c)
{
	int err;

	if (!is_float(c->datatype))
		return tt_fail(-EINVAL, "%s: datatype is %s; it must be float32 or float64", call,
			       tt_datatype_name((enum tutti_datatype)c->datatype));
	err = check_neighbors(comm, call, "in", c->nin, c->in);
	if (!err)
		err = check_neighbors(comm, call, "out", c->nout, c->out);
	if (!err)
		err = check_weights(call, c);
	if (!err && too_long(c->count, TUTTI_FLOAT64, 2 * (size_t)comm->size))
		err = tt_fail(-EINVAL,
			      "%s: %zu elements for each of %d neighbours do not fit in "
			      "memory",
			      call, c->count, c->nin);
	return err;
}

int tutti_gossip_create(struct tutti_comm *comm, const struct tutti_gossip_config *config,
			struct tutti_gossip **gossip)
{
	static const struct tt_sized sized = TT_SIZED("config", tutti_gossip_config, weights);
	struct tutti_gossip_config own;
	int err = tt_check_waiting(__func__, comm);

	if (err)
		return err;
	config = tt_sized_read(&sized, __func__, config, &own);
	if (!config)
		err = -EINVAL;
	else if (!gossip)
		err = tt_fail(-EINVAL, "%s: gossip is NULL", __func__);
	else
		err = check_config(comm, __func__, config);
	return tt_gossip_new(comm, config, err, gossip);
}

static int check_gossip(const char *call, const struct tutti_gossip *g, const void *x)
{
	int err = tt_check_object(call, "gossip", g, g && g->magic == TT_GOSSIP_MAGIC, "mailbox");

	if (err)
		return err;
	if (!x)
		return tt_fail(-EINVAL, "%s: x is NULL", call);
	if (x == TUTTI_IN_PLACE)
		return tt_fail(-EINVAL, "%s: x is TUTTI_IN_PLACE, which this call does not take",
			       call);
	return tt_group_refuse(call);
}

int tutti_gossip_post(struct tutti_gossip *gossip, const void *x)
{
	int err = check_gossip(__func__, gossip, x);

	return err ? err : tt_gossip_post(gossip, x);
}

int tutti_gossip_mix(struct tutti_gossip *gossip, void *x)
{
	int err = check_gossip(__func__, gossip, x);

	return err ? err : tt_gossip_mix(gossip, x);
}

int tutti_gossip_flush(struct tutti_gossip *gossip)
{
	int err = check_gossip(__func__, gossip, "");

	return err ? err : tt_gossip_flush(gossip);
}

int tutti_gossip_versions(struct tutti_gossip *gossip, uint64_t *versions)
{
	int i, err = check_gossip(__func__, gossip, "");

	if (!err && !versions)
		err = tt_fail(-EINVAL, "%s: versions is NULL", __func__);
	if (err)
		return err;
	pthread_mutex_lock(&gossip->lock);
	for (i = 0; i < gossip->nin; i++)
		versions[i] = gossip->in[i].used;
	pthread_mutex_unlock(&gossip->lock);
	return 0;
}

int tutti_gossip_state(struct tutti_gossip *gossip, struct tutti_gossip_state *state)
{
	static const struct tt_sized sized = TT_SIZED("state", tutti_gossip_state, dead_out);
	struct tutti_gossip_state now;
	int i, err = check_gossip(__func__, gossip, "");

	if (err)
		return err;
	pthread_mutex_lock(&gossip->lock);
	now = gossip->state;
	for (i = 0; i < gossip->nin; i++)
		now.dead_in += tt_gossip_dead(&gossip->base, gossip->in[i].rank);
	for (i = 0; i < gossip->nout; i++)
		now.dead_out += tt_gossip_dead(&gossip->base, gossip->out[i].rank);
	pthread_mutex_unlock(&gossip->lock);
	return tt_sized_write(&sized, __func__, state, &now);
}

int tutti_gossip_free(struct tutti_gossip *gossip)
{
	int err = gossip ? check_gossip(__func__, gossip, "") : 0;

	return err || !gossip ? err : tt_gossip_free(gossip);
}

/* ---- pairs ---- */

int tutti_pair_create(struct tutti_comm *comm, size_t count, enum tutti_datatype datatype, void **x,
		      struct tutti_pair **pair)
{
	int err = tt_check_waiting(__func__, comm);

	if (err)
		return err;
	if (!is_float((int)datatype) && datatype != TUTTI_INT32 && datatype != TUTTI_INT64)
		err = tt_fail(-EINVAL,
			      "%s: datatype is %s; it must be int32, int64, float32 or float64",
			      __func__, tt_datatype_name(datatype));
	else if (!x || !pair)
		err = tt_fail(-EINVAL, "%s: %s is NULL", __func__, x ? "pair" : "x");
	else if (too_long(count, datatype, 2))
		err = tt_fail(-EINVAL, "%s: %zu elements do not fit in memory", __func__, count);
	err = tt_pair_new(comm, count, datatype, err, pair);
	if (!err)
		*x = (*pair)->base.mem + TT_GOSSIP_LINE;
	return err;
}

static int check_pair(const char *call, struct tutti_pair *pair)
{
	int err = tt_check_object(call, "pair", pair, pair && pair->magic == TT_PAIR_MAGIC,
				  "vector of pairs");

	return err ? err : tt_group_refuse(call);
}

static int check_rank(const char *call, const struct tutti_pair *pair, int rank, bool own)
{
	int n = pair->base.comm->size;

	if (rank >= 0 && rank < n && (own || rank != pair->base.comm->rank))
		return 0;
	return tt_fail(-EINVAL, "%s: rank is %d; it must be %s rank of the communicator (0 to %d)",
		       call, rank, own ? "a" : "another", n - 1);
}

int tutti_pair_average(struct tutti_pair *pair, int rank, int *partner)
{
	int err = check_pair(__func__, pair);

	if (!err && rank != TUTTI_PAIR_ANY)
		err = check_rank(__func__, pair, rank, false);
	if (!err && tt_pair_holds(pair))
		err = tt_fail(-EDEADLK,
			      "%s: this thread has the lock of rank %d's vector; call "
			      "tutti_pair_unlock first",
			      __func__, pair->held);
	return err ? err : tt_pair_average(pair, rank, partner);
}

int tutti_pair_lock(struct tutti_pair *pair, int rank)
{
	int err = check_pair(__func__, pair);

	if (!err)
		err = check_rank(__func__, pair, rank, true);
	if (!err && tt_pair_holds(pair))
		err = tt_fail(-EDEADLK,
			      "%s: this thread has the lock of rank %d's vector already; call "
			      "tutti_pair_unlock first",
			      __func__, pair->held);
	return err ? err : tt_pair_hold(pair, rank);
}

int tutti_pair_unlock(struct tutti_pair *pair)
{
	int err = check_pair(__func__, pair);

	if (!err && !tt_pair_holds(pair))
		err = tt_fail(-EPERM, "%s: this thread has no lock; call tutti_pair_lock first",
			      __func__);
	return err ? err : tt_pair_release(pair);
}

int tutti_pair_state(struct tutti_pair *pair, struct tutti_pair_state *state)
{
	static const struct tt_sized sized = TT_SIZED("state", tutti_pair_state, bytes);
	struct tutti_pair_state now;
	int err = check_pair(__func__, pair);

	if (err)
		return err;
	pthread_mutex_lock(&pair->lock);
	now = (struct tutti_pair_state){.averages = pair->averages,
					.waits = atomic_load(&pair->waits),
					.broken = atomic_load(&pair->broken),
					.bytes = 2 * pair->len * pair->averages};
	pthread_mutex_unlock(&pair->lock);
	return tt_sized_write(&sized, __func__, state, &now);
}

int tutti_pair_free(struct tutti_pair *pair)
{
	int err = pair ? check_pair(__func__, pair) : 0, held;

	held = pair && !err ? tt_pair_held(pair) : -1;
	if (held >= 0)
		err = tt_fail(-EBUSY,
			      "%s: %s thread has the lock of rank %d's vector; call "
			      "tutti_pair_unlock there first",
			      __func__, tt_pair_holds(pair) ? "this" : "another", held);
	return err || !pair ? err : tt_pair_free(pair);
}

/* ---- elastic averaging ---- */

static bool meet(const void *a, const void *b, size_t bytes)
{
	uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

	return bytes && (x < y ? y - x < bytes : x - y < bytes);
}

int tutti_elastic_average(void *x, void *center, void *work, size_t count,
			  enum tutti_datatype datatype, double alpha, struct tutti_comm *comm)
{
	int err = tt_check_waiting(__func__, comm);
	size_t bytes;

	if (err)
		return err;
	if (!is_float((int)datatype))
		return tt_fail(-EINVAL, "%s: datatype is %s; it must be float32 or float64",
			       __func__, tt_datatype_name(datatype));
	if (count && (!x || !center || !work))
		return tt_fail(-EINVAL, "%s: %s is NULL", __func__,
			       !x	 ? "x"
			       : !center ? "center"
					 : "work");
	if (x == TUTTI_IN_PLACE || center == TUTTI_IN_PLACE || work == TUTTI_IN_PLACE)
		return tt_fail(-EINVAL,
			       "%s: a vector is TUTTI_IN_PLACE, which this call does not take",
			       __func__);
	if (!(alpha >= 0 && alpha <= 1))
		return tt_fail(-EINVAL, "%s: alpha is %g; it must be 0 to 1", __func__, alpha);
	if (too_long(count, datatype, 1))
		return tt_fail(-EINVAL, "%s: a count of %zu does not fit in memory", __func__,
			       count);
	bytes = count * tutti_datatype_size(datatype);
	if (meet(x, center, bytes) || meet(x, work, bytes) || meet(center, work, bytes))
		return tt_fail(-EINVAL, "%s: x, center and work overlap", __func__);
	return tt_elastic_run(x, center, work, count, datatype, alpha, comm);
}
