/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors that children of this process must not have. */
#ifndef TT_FORK_H
#define TT_FORK_H

/* A child closes fd as it begins, until here tt_fork_close does. Any thread. */
void tt_fork_guard(int fd);
void tt_fork_close(int fd); /* guarded or not */

#endif
