/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks without memory, and ranks that hear late what others say. */
#ifndef TT_FAULT_LIMITS_H
#define TT_FAULT_LIMITS_H

#include "tests/mp/job.h"

/* Leaves this process so many bytes for new mappings; small allocations have room. */
bool limit_memory(long room);
bool unlimit_memory(void);

/* How this process's control thread reads what it is told, from now on. */
enum hears { AT_ONCE, LATE, NOTHING };
void hear(enum hears how);

/* The last error names this rank. */
bool names_rank(int rank);

#endif
