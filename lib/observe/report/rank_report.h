/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers the questions of tutti_ras. */
#ifndef TT_RANK_REPORT_H
#define TT_RANK_REPORT_H

#include "lib/engine/engine.h"

/* A handler of the control tree: reports the state of this rank. */
void tt_look_msg(void *ctx, int from, const void *ask, size_t len);

#endif
