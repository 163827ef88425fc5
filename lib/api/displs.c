/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Negative displacements. They are values of size_t, so -4 is (size_t)-4. A call that has one gets
 * its buffer moved down to its lowest block, and the displacements up by as much: the rest of the
 * library knows none below 0.
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/api/api.h"

struct side {
	const char *which;
	const size_t *counts, **displs;
	const void **buf;
};

/* Blocks without elements may have any displacement: it becomes 0. */
static int shift(const struct tutti_comm *comm, const struct tt_call *call, const struct side *s,
		 size_t *copy)
{
	size_t elem = tutti_datatype_size(call->datatype);
	ptrdiff_t lowest = 0, d;
	int i, rank = 0;

	for (i = 0; i < comm->size; i++) {
		d = (ptrdiff_t)(*s->displs)[i];
		if (!s->counts[i] || d >= lowest)
			continue;
		lowest = d;
		rank = i;
	}
	if (lowest < -(PTRDIFF_MAX / (ptrdiff_t)elem) ||
	    (*s->buf && *s->buf != TUTTI_IN_PLACE && (uintptr_t)*s->buf < (size_t)-lowest * elem))
		return tt_fail(-EINVAL,
			       "%s: %s: displacement %td for rank %d begins before all memory",
			       tt_coll_name(call->coll), s->which, lowest, rank);
	for (i = 0; i < comm->size; i++) {
		copy[i] = s->counts[i] ? (*s->displs)[i] - (size_t)lowest : 0;
		if ((ptrdiff_t)copy[i] < 0)
			return tt_fail(-EINVAL,
				       "%s: %s: displacements %td for rank %d and %td for rank %d "
				       "do not fit in memory",
				       tt_coll_name(call->coll), s->which, lowest, rank,
				       (ptrdiff_t)(*s->displs)[i], i);
	}
	*s->displs = copy;
	if (*s->buf && *s->buf != TUTTI_IN_PLACE)
		*s->buf = (const void *)((uintptr_t)*s->buf - (size_t)-lowest * elem);
	return 0;
}

int tt_displs_shift(const struct tutti_comm *comm, struct tt_call *call, size_t **memory)
{
	const void *recvbuf = call->recvbuf;
	bool in_place = call->coll == TT_COLL_ALLTOALLV && call->sendbuf == TUTTI_IN_PLACE;
	struct side recv = {"recvcounts", call->rcounts, &call->rdispls, &recvbuf};
	struct side send = {"sendcounts", call->scounts, &call->sdispls, &call->sendbuf};
	size_t *copy = malloc(2 * (size_t)comm->size * sizeof(*copy));
	int err = 0;

	if (!copy)
		return tt_fail(-ENOMEM, "no memory for displacements");
	if (call->rdispls)
		err = shift(comm, call, &recv, copy);
	if (!err && call->sdispls && !in_place)
		err = shift(comm, call, &send, copy + comm->size);
	if (err) {
		free(copy);
		return err;
	}
	call->recvbuf = (void *)recvbuf;
	*memory = copy;
	return 0;
}
