/* SPDX-License-Identifier: BSD-3-Clause */
/* What launchers other than tutti_run say of this process, by environment variables. */
#ifndef TT_LAUNCHER_H
#define TT_LAUNCHER_H

#include "lib/boot/boot.h"

struct tt_launcher;

/* The value of a variable that is not in tutti's table; NULL: not set, or empty. */
const char *tt_launcher_text(const char *name);
/* The same as a whole number from lo to hi. */
int tt_launcher_number(const char *name, long lo, long hi, int *value);
/* The launcher that has numbered this process, the innermost one; NULL: none. */
const struct tt_launcher *tt_launcher_find(void);
/* Rank, size, local rank, whether all ranks are on this host, and the name of the job. */
int tt_launcher_fill(const struct tt_launcher *launcher, struct tt_boot_params *params);
/* Without a launcher: fails if a variable says all the same that there may be more processes. */
int tt_launcher_check_alone(void);

#endif
