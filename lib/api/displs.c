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
	bool sends;
	const size_t *counts, **displs;
	const void **buf;
};

/* Blocks without elements may have any displacement: it becomes 0. */
static int shift(const struct tutti_comm *comm, const struct tt_call *call, const struct side *s,
		 size_t *copy)
{
	const char *name = tt_coll_name(call->coll), *which = tt_displs_name(call->coll, s->sends);
	size_t elem = tutti_datatype_size(call->datatype), most = TT_SPACE_MAX / elem;
	ptrdiff_t lowest = 0, d;
	int i, rank = 0;

	for (i = 0; i < comm->size; i++) {
		d = (ptrdiff_t)(*s->displs)[i];
		if (!s->counts[i] || d >= lowest)
			continue;
		lowest = d;
		rank = i;
	}
	if (lowest < -(ptrdiff_t)most ||
	    (*s->buf && *s->buf != TUTTI_IN_PLACE && (uintptr_t)*s->buf < (size_t)-lowest * elem))
		return tt_fail(-EINVAL, "%s: %s[%d] is %td: the block begins before all memory",
			       name, which, rank, lowest);
	for (i = 0; i < comm->size; i++) {
		copy[i] = s->counts[i] ? (*s->displs)[i] - (size_t)lowest : 0;
		if (lowest < 0 && (copy[i] > most || s->counts[i] > most - copy[i]))
			return tt_fail(-EINVAL,
				       "%s: %s[%d] is %td: with %s[%d], which is %td, the blocks "
				       "do not fit in memory",
				       name, which, i, (ptrdiff_t)(*s->displs)[i], which, rank,
				       lowest);
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
	struct side recv = {false, call->rcounts, &call->rdispls, &recvbuf};
	struct side send = {true, call->scounts, &call->sdispls, &call->sendbuf};
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
