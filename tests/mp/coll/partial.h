/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the tests of partial all-reduces. */
#ifndef TEST_PARTIAL_H
#define TEST_PARTIAL_H

#include "tests/mp/job.h"

#define SHM "TUTTI_TRANSPORT=shm "
#define OFI "TUTTI_TRANSPORT=ofi TUTTI_IF=lo "

static inline struct tutti_partial_config config_of(int quorum, int cutoff_us,
						    enum tutti_partial_late late)
{
	return (struct tutti_partial_config){.size = sizeof(struct tutti_partial_config),
					     .quorum = quorum,
					     .cutoff_us = cutoff_us,
					     .late = late};
}

#endif
