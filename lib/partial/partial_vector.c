/* SPDX-License-Identifier: BSD-3-Clause */
/* The vectors of a partial all-reduce: counted references, and spare ones for the next rounds. */
#include <errno.h>
#include <stdlib.h>

#include "lib/partial/partial.h"

static struct tt_memory *memory_of(const struct tutti_partial *p)
{
	return tt_wire_memory(p->comm->ctx->wire);
}

struct tt_partial_vec *tt_partial_vec_get(struct tutti_partial *p)
{
	struct tt_partial_vec *vec;

	if (!tt_list_empty(&p->spare)) {
		vec = tt_container(p->spare.next, struct tt_partial_vec, link);
		tt_list_del(&vec->link);
		vec->refs = 1;
		return vec;
	}
	vec = calloc(1, sizeof(*vec));
	if (vec && tt_mem_alloc(memory_of(p), p->bytes, &vec->data, NULL)) {
		free(vec);
		vec = NULL;
	}
	if (!vec) {
		p->failed = p->failed ? p->failed : -ENOMEM;
		return NULL;
	}
	tt_list_init(&vec->link);
	vec->refs = 1;
	tt_wire_stats(p->comm->ctx->wire)->allocations++;
	return vec;
}

void tt_partial_vec_put(struct tutti_partial *p, struct tt_partial_vec *vec)
{
	if (vec && !--vec->refs)
		tt_list_add(&p->spare, &vec->link);
}

void tt_partial_vec_free_all(struct tutti_partial *p)
{
	struct tt_partial_vec *vec;

	while (!tt_list_empty(&p->spare)) {
		vec = tt_container(p->spare.next, struct tt_partial_vec, link);
		tt_list_del(&vec->link);
		tt_mem_free(memory_of(p), vec->data);
		free(vec);
	}
}

bool tt_partial_vec_add(struct tutti_partial *p, struct tt_partial_vec **sum,
			struct tt_partial_vec *vec)
{
	struct tt_partial_vec *to = *sum;
	const void *src[2];

	if (!to) {
		vec->refs++;
		*sum = vec;
		return true;
	}
	if (to->refs > 1) {
		to = tt_partial_vec_get(p);
		if (!to)
			return false;
	}
	src[0] = (*sum)->data;
	src[1] = vec->data;
	tt_reduce_multi(&to->data, 1, src, 2, p->count, p->datatype, TUTTI_SUM, 0, 0);
	tt_wire_stats(p->comm->ctx->wire)->reduced_bytes += p->bytes;
	if (to != *sum)
		tt_partial_vec_put(p, *sum);
	*sum = to;
	return true;
}
