/* SPDX-License-Identifier: BSD-3-Clause */
/* How requests start, and groups of calls; launch.c. */
#ifndef TT_LAUNCH_H
#define TT_LAUNCH_H

#include "lib/engine/engine.h"

/*
 * Every new non-persistent request goes through tt_request_launch, under the wire lock: it is
 * started, or joins the thread's open group; on failure it is freed. Blocking calls end with the
 * second function.
 */
int tt_request_launch(struct tutti_request *req);
int tt_request_finish(struct tutti_request **req);
bool tt_group_is_open(void); /* by this thread */
/* 0, or -EINVAL inside a group: for calls that wait. */
int tt_group_refuse(const char *name);
void tt_group_begin(void);
int tt_group_end(void); /* a group is open */

#endif
