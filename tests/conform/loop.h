/* SPDX-License-Identifier: BSD-3-Clause */
/* A model transport for tests; see loop.c. */
#ifndef TT_TESTS_LOOP_H
#define TT_TESTS_LOOP_H

#include "lib/wire/transport.h"

extern const struct tt_tp_ops loop_transport;

#endif
