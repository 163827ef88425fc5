/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TT_MP_LATE_H
#define TT_MP_LATE_H

struct tt_wire;

/* The memory offered for a peer's message, where it may write now; NULL: none. */
char *late_offered(struct tt_wire *wire);

#endif
