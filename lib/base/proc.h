/* SPDX-License-Identifier: BSD-3-Clause */
/* Other processes of this host: whether they are alive, and which files they have open. */
#ifndef TT_PROC_H
#define TT_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Whether a process writes nothing any more: it has ended, or is a zombie. */
bool tt_proc_gone(pid_t pid);
/* Whether it is gone, or exits: then its descriptors and memory refuse what they allowed before. */
bool tt_proc_exits(pid_t pid);
/* Whether a signal or a debugger has stopped it. */
bool tt_proc_stopped(pid_t pid);
/*
 * Open descriptor fd of process pid if it is what its link says it is (prefix, inode unless 0).
 * The new descriptor, or a negative code; -ESTALE: it is something else.
 */
int tt_proc_open_fd(pid_t pid, int fd, const char *prefix, uint64_t ino);
/* The parent of a process; 0: it is gone, or may not be looked at. */
pid_t tt_proc_parent(pid_t pid);
/* The value after an argument of a process's command line ("--port", "7"); false: none. */
bool tt_proc_option(pid_t pid, const char *option, char *value, size_t size);

#endif
