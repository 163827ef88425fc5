/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of tt_boot_discover that have their own files. */
#ifndef TT_DISCOVER_H
#define TT_DISCOVER_H

#include "lib/boot/boot.h"

/* Loads the secret of TUTTI_SECRET_FD or TUTTI_SECRET_FILE, if one is set. */
int tt_secret_load(const struct tt_env *env, struct tt_boot_params *params);
/* Directory, name and secret of the gate. -EINVAL: no directory, or unreadable secret. */
int tt_boot_gate_params(const struct tt_env *env, struct tt_boot_params *params);
/* Makes an id whose socket listens on the address given by iface (may be ""). */
int tt_unique_id_make(const char *iface, struct tutti_unique_id *id);
/* Store, job and secret of an id; at rank 0 also the socket, which must be in this process. */
int tt_unique_id_use(const struct tutti_unique_id *id, struct tt_boot_params *params);
/* Drops an id made here: closes its socket. */
void tt_unique_id_drop(const struct tutti_unique_id *id);

#endif
