/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs whose ranks die or are cut off: test_survive.c, test_cut_off.c, test_stopped.c. */
#ifndef TT_SURVIVE_H
#define TT_SURVIVE_H

#include "tests/mp/job.h"

#define WORDS 5000

/* Each rank contributes its world rank + 1, so the sum identifies the participants. */
int check_sum(struct mp_job *job, struct tutti_comm *comm, unsigned members);
/* All-reduces until one fails; that must be because of victim. */
int until_death(struct mp_job *job, struct tutti_comm *comm, int victim);
/* The victim is the only failed rank. */
int check_list(struct mp_job *job, struct tutti_comm *comm, int victim);
/* Of a thread: SIGKILL within 2 ms. */
void *die_soon(void *arg);

#endif
