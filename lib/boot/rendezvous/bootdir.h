/* SPDX-License-Identifier: BSD-3-Clause */
/* TUTTI_BOOT_DIR: the file through which the ranks of a job find rank 0; see bootdir.c. */
#ifndef TT_BOOTDIR_H
#define TT_BOOTDIR_H

#include "lib/boot/boot.h"

/* Rank 0: writes params' store, job nonce and secret, and replaces an existing file. */
int tt_bootdir_write(const struct tt_boot_params *params);
/* Other ranks: read them into params. -ENOENT (not there yet), -EPERM, -EPROTO, with a text. */
int tt_bootdir_read(struct tt_boot_params *params);
/* Rank 0: whether the file is another process's; then who is "process PID on HOST". */
bool tt_bootdir_other(const struct tt_boot_params *params, char *who, size_t size);
/* Rank 0: removes the file if it is still this process's. */
void tt_bootdir_remove(const struct tt_boot_params *params);

#endif
