/* SPDX-License-Identifier: BSD-3-Clause */
/* Environment variables of launchers other than tutti_run. */
#ifndef TT_LAUNCHER_H
#define TT_LAUNCHER_H

#include "lib/boot/boot.h"

struct tt_launcher;

/* The value of a variable that is not in tutti's table; NULL: not set, or empty. */
const char *tt_launcher_text(const char *name);
/* The same as an integer from lo to hi. */
int tt_launcher_number(const char *name, long lo, long hi, int *value);
/* The innermost launcher that has numbered this process; NULL: none. */
const struct tt_launcher *tt_launcher_find(void);
/* Fills in rank, size, local rank, whether all ranks are on this host, the job's name and space. */
int tt_launcher_fill(const struct tt_launcher *launcher, struct tt_boot_params *params);
/* Without a launcher: fails if a variable suggests that there are more processes. */
int tt_launcher_check_alone(void);

#endif
