/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of call_fields.c and refusal.c that only the late and mismatch protocol calls. */
#ifndef TT_STUCK_H
#define TT_STUCK_H

#include "lib/comm/comm.h"

#define TT_FORGOTTEN UINT32_MAX /* as collective: too many calls ago to know */

/* call_fields.c: the name of the first field that differs; NULL: none */
const char *tt_fields_differing(const struct tt_fields *a, const struct tt_fields *b);
/* "#5"; of a persistent operation "init #2, start #5". */
const char *tt_fields_number_text(const struct tt_fields *f, uint64_t seq, char *buf, size_t size);
/* Of enum tt_inner. */
const char *tt_inner_name(uint32_t inner);

/* refusal.c: of the call of this number; code 0: it was not refused here */
struct tt_refusal tt_refusal_of(const struct tutti_comm *comm, uint32_t init, uint64_t seq);
/* " (its allreduce failed: Invalid argument)"; or "". */
const char *tt_refusal_text(const struct tt_refusal *refused, char *buf, size_t size);
/*
 * This rank makes no further calls, as that of this number: true if it fails comm, which it does if
 * it has freed it, or if that call or one before it was refused.
 */
bool tt_refusal_tell(struct tutti_comm *comm, uint32_t init, uint64_t seq);

#endif
