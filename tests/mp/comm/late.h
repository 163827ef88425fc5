/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TT_MP_LATE_H
#define TT_MP_LATE_H

struct tt_wire;

/* Where a peer may write now, as memory has been offered for its message; NULL: nowhere. */
char *late_offered(struct tt_wire *wire);

#endif
