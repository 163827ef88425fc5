/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors that child processes must not inherit. */
#ifndef TT_FORK_H
#define TT_FORK_H

/* A forked child closes fd at once, until tt_fork_close is called here. Any thread. */
void tt_fork_guard(int fd);
void tt_fork_close(int fd); /* guarded or not */

#endif
