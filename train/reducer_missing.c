/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tensors that were not ready in a step, and how all ranks learn of them.
 *
 * All ranks compare two bits for each tensor in an all-reduce. If each tensor must be ready, they
 * do so only after a rank has told all others that it lacks some. This rank starts its last bucket
 * after the comparison, which ends when all ranks take part in it. So the last bucket of no rank
 * ends before, and a rank whose last bucket ends has missed nothing. A step in which all tensors
 * are ready sends the gradients alone. A rank posts a receive for what others tell only if its last
 * bucket takes long.
 *
 * A message that tells has the parity of its step as its tag. Its sender can be a step ahead: it
 * may have left the step before, while the receiver still waits there for its last bucket.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "train/train_fail.h"
#include "train/reducer_state.h"

#define SOON_NS 2000000

static uint64_t *ranks_of(const struct tutti_reducer *r)
{
	return r->words + 2 * r->tensor_words;
}

bool tt_reducer_set_words(struct tutti_reducer *r)
{
	uint64_t *missing = r->words + r->tensor_words, *ranks = ranks_of(r);
	int rank = tutti_comm_rank(r->comm);
	bool lacks = false;
	size_t i;

	memset(r->words, 0, r->nwords * sizeof(*r->words));
	for (i = 0; i < r->b.n; i++) {
		if (r->mark[i] == TT_READY || r->kept[i]) {
			r->words[i / 64] |= (uint64_t)1 << i % 64;
		} else {
			missing[i / 64] |= (uint64_t)1 << i % 64;
			lacks = true;
		}
	}
	if (lacks)
		ranks[rank / 64] |= (uint64_t)1 << rank % 64;
	return lacks;
}

static int tag_of(const struct tutti_reducer *r)
{
	return (int)(r->stats.steps % 2);
}

/* Takes the messages of all ranks that lack tensors but heard, whose message has been taken. */
static int compare(struct tutti_reducer *r, int heard)
{
	int rank, size = tutti_comm_size(r->comm), me = tutti_comm_rank(r->comm), err;

	err = tutti_allreduce(TUTTI_IN_PLACE, r->words, r->nwords, TUTTI_UINT64, TUTTI_BOR,
			      r->comm);
	for (rank = 0; !err && rank < size; rank++)
		if (rank != me && rank != heard && tt_reducer_has(ranks_of(r), (size_t)rank))
			err = tutti_recv(NULL, 0, TUTTI_UINT8, rank, tag_of(r), r->comm, NULL);
	return err;
}

int tt_reducer_tell(struct tutti_reducer *r)
{
	int rank, size = tutti_comm_size(r->comm), me = tutti_comm_rank(r->comm), err = 0, other;

	for (rank = 0; !err && rank < size; rank++)
		if (rank != me)
			err = tutti_isend(NULL, 0, TUTTI_UINT8, rank, tag_of(r), r->comm,
					  &r->told[rank]);
	if (!err)
		err = compare(r, me);
	other = tutti_waitall(size, r->told);
	return err ? err : other;
}

/* Whether a request ends soon; its result is for the wait. */
static bool ends_soon(struct tutti_request *request)
{
	uint64_t begin = tt_train_now();
	int done = 0;

	while (!tutti_request_get_status(request, &done) && !done) {
		if (tt_train_now() - begin > SOON_NS)
			return false;
		sched_yield();
	}
	return true;
}

/* A receive that is posted, waited for and cancelled costs a tenth of a short bucket. */
int tt_reducer_listen(struct tutti_reducer *r)
{
	struct tutti_request *two[] = {r->part[r->nparts - 1].request, NULL};
	struct tutti_status status;
	int index = -1, err;

	if (ends_soon(two[0]))
		return 0;
	err = tutti_irecv(NULL, 0, TUTTI_UINT8, TUTTI_ANY_SOURCE, tag_of(r), r->comm, &status,
			  &two[1]);
	if (err)
		return err;
	err = tutti_waitany(2, two, &index);
	if (!err && index == 1)
		return compare(r, status.source);
	if (two[1]) {
		tutti_cancel(two[1]);
		tutti_request_free(two[1]); /* a wait would replace the last error */
	}
	return err;
}

int tt_reducer_check_missing(const struct tutti_reducer *r)
{
	const uint64_t *missing = r->words + r->tensor_words, *ranks = ranks_of(r);
	size_t i, rank;

	if (r->flags & TUTTI_REDUCER_UNUSED)
		return 0;
	for (i = 0; i < r->b.n && !tt_reducer_has(missing, i); i++)
		;
	if (i == r->b.n)
		return 0;
	for (rank = 0; !tt_reducer_has(ranks, rank); rank++)
		;
	return tt_train_fail(-EINVAL,
			     "tutti_reducer_finish: tensor %zu was never ready in step %llu (rank "
			     "%zu lacks tensors) and counts as zeros; call tutti_reducer_ready for "
			     "it, or pass TUTTI_REDUCER_UNUSED",
			     i, (unsigned long long)(r->stats.steps + r->stats.accumulated + 1),
			     rank);
}
