/* SPDX-License-Identifier: BSD-3-Clause */
/* The rule about secrets: without a secret only loopback is used. */
#ifndef TT_SECURE_H
#define TT_SECURE_H

#include <sys/socket.h>

#include "lib/boot/boot.h"

/* 0, or -TUTTI_EAUTH if params would use sa without a secret and without TUTTI_INSECURE=1. */
int tt_boot_check_secret(const struct tt_boot_params *params, const struct sockaddr *sa);

#endif
