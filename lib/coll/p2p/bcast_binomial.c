/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broadcast down a binomial tree: few steps, so right for short messages.
 *
 * Ranks are numbered v = rank - root (mod n). v receives from v without its lowest set bit 2^k,
 * then sends to v + 2^(k-1), ..., v + 2, v + 1 (those below n), the largest subtree first; for the
 * root 2^k is the first power of two not below n. The message is cut into even pieces of at most
 * chunk bytes, distributed over the lanes; a lane sends its pieces one after the other.
 *
 * Cost: ceil(log2 n) steps a piece; N bytes received by every rank but the root, up to
 * ceil(log2 n) N sent; fan-in 1.
 *
 * Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH.
 * Int. J. High Perform. Comput. Appl. 19(1), 2005.
 */
#include "lib/plan/plan.h"

static void piece(struct tt_builder *b, size_t off, size_t len)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	int n = a->nranks, v = (a->rank - a->root + n) % n, bit = 1;

	while (bit < n && !(v & bit))
		bit <<= 1;
	if (v) {
		tt_round(b);
		tt_recv(b, (v - bit + a->root) % n, TT_RECVBUF(off), len);
	}
	for (bit >>= 1; bit; bit >>= 1) {
		if (v + bit >= n)
			continue;
		tt_round(b);
		tt_send(b, (v + bit + a->root) % n, TT_RECVBUF(off), len);
	}
}

void tt_bcast_binomial(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t fit = a->chunk / a->elem, pieces = a->count / fit + (a->count % fit > 0), i;
	size_t q = pieces ? a->count / pieces : 0, r = pieces ? a->count % pieces : 0, off = 0, len;

	for (i = 0; i < pieces; i++) {
		len = (q + (i < r)) * a->elem;
		tt_lane(b, (int)(i % (size_t)a->lanes));
		piece(b, off, len);
		off += len;
	}
}
