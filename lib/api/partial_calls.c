/* SPDX-License-Identifier: BSD-3-Clause */
/* Partial all-reduces. */
#include <errno.h>
#include <string.h>

#include "lib/api/api.h"
#include "lib/base/sized.h"
#include "lib/partial/partial.h"

static int check_config(const struct tutti_comm *comm, const struct tutti_partial_config *c)
{
	static const char call[] = "tutti_partial_create";

	if (c->quorum < TUTTI_PARTIAL_MAJORITY || c->quorum > comm->size)
		return tt_fail(-EINVAL,
			       "%s: quorum is %d; it must be 1 to %d (the ranks), 0 for all living "
			       "ranks or TUTTI_PARTIAL_MAJORITY",
			       call, c->quorum, comm->size);
	if (c->cutoff_us < 0)
		return tt_fail(-EINVAL, "%s: cutoff_us is %d; it must not be negative", call,
			       c->cutoff_us);
	if (c->late != TUTTI_PARTIAL_CARRY && c->late != TUTTI_PARTIAL_DROP)
		return tt_fail(-EINVAL,
			       "%s: late is %d; it must be TUTTI_PARTIAL_CARRY or "
			       "TUTTI_PARTIAL_DROP",
			       call, (int)c->late);
	if (c->divide != TUTTI_PARTIAL_BY_TAKING_PART && c->divide != TUTTI_PARTIAL_BY_SIZE)
		return tt_fail(-EINVAL,
			       "%s: divide is %d; it must be TUTTI_PARTIAL_BY_TAKING_PART or "
			       "TUTTI_PARTIAL_BY_SIZE",
			       call, (int)c->divide);
	return 0;
}

static int check_vector(const struct tutti_partial *like)
{
	static const char call[] = "tutti_partial_create";
	char here;
	int err = tt_check_data(call, &here, like->count, like->datatype);

	if (err)
		return err;
	if (!like->count)
		return tt_fail(-EINVAL, "%s: count is 0; a vector needs an element", call);
	if (like->op != TUTTI_SUM && like->op != TUTTI_AVG)
		return tt_fail(-EINVAL, "%s: op must be sum or avg", call);
	if (!tt_reduce_valid(like->datatype, like->op))
		return tt_fail(-EINVAL, "%s: %s is not defined for %s", call, tt_op_name(like->op),
			       tt_datatype_name(like->datatype));
	return 0;
}

int tutti_partial_create(struct tutti_comm *comm, size_t count, enum tutti_datatype datatype,
			 enum tutti_op op, const struct tutti_partial_config *config,
			 struct tutti_partial **partial)
{
	static const struct tt_sized sized = TT_SIZED("config", tutti_partial_config, divide);
	struct tutti_partial like;
	struct tutti_partial_config own;
	int err = tt_check_waiting(__func__, comm);

	if (err)
		return err;
	memset(&like, 0, sizeof(like));
	like.count = count;
	like.datatype = datatype;
	like.op = op;
	if (config) {
		config = tt_sized_read(&sized, __func__, config, &own);
		if (config)
			like.config = *config;
		else
			err = -EINVAL;
	}
	if (!err)
		err = check_config(comm, &like.config);
	if (!err)
		err = check_vector(&like);
	if (!err && !partial)
		err = tt_fail(-EINVAL, "%s: partial is NULL", __func__);
	return tt_partial_new(comm, &like, err, partial);
}

static int check_partial(const char *call, const struct tutti_partial *partial)
{
	return tt_check_object(call, "partial", partial,
			       partial && partial->magic == TT_PARTIAL_MAGIC, "partial all-reduce");
}

/* Keeps other calls away until release. */
static int hold(const char *call, struct tutti_partial *partial)
{
	int err = check_partial(call, partial);

	if (!err)
		err = tt_group_refuse(call);
	if (err)
		return err;
	if (!atomic_exchange(&partial->busy, true))
		return 0;
	return tt_fail(-EBUSY, "%s: another call uses this partial all-reduce; wait for that one",
		       call);
}

static void release(struct tutti_partial *partial)
{
	atomic_store(&partial->busy, false);
}

static int check_buffers(const char *call, const struct tutti_partial *p, const void *send,
			 const void *recv)
{
	uintptr_t a = (uintptr_t)send, b = (uintptr_t)recv;

	if (!send)
		return tt_fail(-EINVAL, "%s: sendbuf is NULL", call);
	if (!recv || recv == TUTTI_IN_PLACE)
		return tt_fail(-EINVAL, "%s: recvbuf is %s", call,
			       recv ? "TUTTI_IN_PLACE" : "NULL");
	if (send != TUTTI_IN_PLACE && a != b && a < b + p->bytes && b < a + p->bytes)
		return tt_fail(-EINVAL, "%s: sendbuf and recvbuf overlap", call);
	return 0;
}

int tutti_partial_allreduce(struct tutti_partial *partial, const void *sendbuf, void *recvbuf,
			    unsigned char *bitmap, uint64_t *first, uint64_t *last)
{
	int err = hold(__func__, partial);

	if (err)
		return err;
	err = check_buffers(__func__, partial, sendbuf, recvbuf);
	if (!err)
		err = tt_partial_allreduce(partial, sendbuf == TUTTI_IN_PLACE ? recvbuf : sendbuf,
					   recvbuf, bitmap, first, last);
	release(partial);
	return err;
}

int tutti_partial_drain(struct tutti_partial *partial, void *recvbuf, unsigned char *bitmap,
			uint64_t *first, uint64_t *last)
{
	int err = hold(__func__, partial);

	if (err)
		return err;
	err = check_buffers(__func__, partial, TUTTI_IN_PLACE, recvbuf);
	if (!err)
		err = tt_partial_drain(partial, recvbuf, bitmap, first, last);
	release(partial);
	return err;
}

int tutti_partial_result(struct tutti_partial *partial, uint64_t round, void *recvbuf,
			 unsigned char *bitmap)
{
	int err = hold(__func__, partial);

	if (err)
		return err;
	err = check_buffers(__func__, partial, TUTTI_IN_PLACE, recvbuf);
	if (!err)
		err = tt_partial_get_result(partial, round, recvbuf, bitmap);
	release(partial);
	return err;
}

int tutti_partial_resync(struct tutti_partial *partial, uint64_t *round)
{
	int err = hold(__func__, partial);

	if (err)
		return err;
	err = round ? tt_partial_resync(partial, round)
		    : tt_fail(-EINVAL, "%s: round is NULL", __func__);
	release(partial);
	return err;
}

int tutti_partial_stats_get(struct tutti_partial *partial, struct tutti_partial_stats *stats)
{
	static const struct tt_sized sized = TT_SIZED("stats", tutti_partial_stats, living);
	struct tutti_partial_stats own;
	int err = check_partial(__func__, partial);

	if (err)
		return err;
	tt_partial_stats_get(partial, &own);
	return tt_sized_write(&sized, __func__, stats, &own);
}

int tutti_partial_free(struct tutti_partial *partial)
{
	int err;

	if (!partial)
		return 0;
	err = hold(__func__, partial);
	if (err)
		return err;
	err = tt_partial_free(partial);
	if (err)
		release(partial);
	return err;
}
