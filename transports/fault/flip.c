/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flips bits in transit. A put carries a changed copy of the caller's bytes, which stay unchanged;
 * a get is changed where it landed, before its completion is reported. On a transport where
 * operations may outlive their endpoint (TT_CAP_LATE_WRITES), the copies of pending operations stay
 * until the inner transport is closed.
 */
#include "transports/fault/fault.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/hash.h"

static bool flip_put(struct fault_tp *f, struct fault_node *op, const struct tt_rma *rma, size_t at,
		     unsigned char bit)
{
	struct fault_copy *copy = malloc(sizeof(*copy) + rma->len);
	struct tt_mem mem = {.len = rma->len, .memfd = -1};

	if (!copy)
		return false;
	*copy = (struct fault_copy){0};
	mem.addr = copy->bytes;
	if (!(f->inner->caps & TT_CAP_LOCAL_ANY) &&
	    f->inner->ops->reg(f->inner, &mem, TT_ACCESS_LOCAL, &copy->mr)) {
		free(copy);
		return false;
	}
	memcpy(copy->bytes, rma->local, rma->len);
	copy->bytes[at] ^= bit;
	op->copy = copy;
	return true;
}

bool fault_flip(struct fault_tp *f, struct fault_node *op, const struct tt_rma *rma, bool get,
		uint64_t rng)
{
	size_t at = (size_t)(tt_random(&rng) % rma->len);
	unsigned char bit = (unsigned char)(1u << (tt_random(&rng) & 7));

	if (get) {
		op->flip = at < rma->head_len ? (unsigned char *)rma->head + at
					      : (unsigned char *)rma->local + (at - rma->head_len);
		op->flip_bit = bit;
	} else if (!flip_put(f, op, rma, at, bit)) {
		return false;
	}
	f->stats.flips++;
	tt_info("fault: operation %llu, a %s of %zu bytes, arrives with bit 0x%02x of byte %zu "
		"changed",
		(unsigned long long)f->stats.ops + 1, get ? "get" : "put", rma->len, bit, at);
	return true;
}

void fault_flip_arrived(struct fault_node *op)
{
	if (op->flip)
		*op->flip ^= op->flip_bit;
	op->flip = NULL;
}

static void deregister(struct fault_copy *copy)
{
	if (copy->mr)
		copy->mr->tp->ops->dereg(copy->mr);
}

void fault_flip_free(struct fault_node *op)
{
	if (op->copy)
		deregister(op->copy);
	free(op->copy);
	op->copy = NULL;
}

void fault_flip_keep(struct fault_tp *f, struct fault_node *op)
{
	if (!op->copy || !(f->inner->caps & TT_CAP_LATE_WRITES))
		return;
	op->copy->next = f->kept;
	f->kept = op->copy;
	op->copy = NULL;
}

void fault_close_inner(struct fault_tp *f)
{
	struct fault_copy *copy;

	for (copy = f->kept; copy; copy = copy->next)
		deregister(copy);
	f->inner->ops->close(f->inner);
	while ((copy = f->kept) != NULL) {
		f->kept = copy->next;
		free(copy);
	}
}
