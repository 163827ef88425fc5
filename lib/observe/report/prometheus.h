/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes counters for Prometheus. */
#ifndef TT_PROMETHEUS_H
#define TT_PROMETHEUS_H

#include "lib/engine/engine.h"

/* Start writing, if TUTTI_PROMETHEUS says so; and end it. */
int tt_prom_start(struct tutti_context *ctx);
void tt_prom_stop(struct tutti_context *ctx);

#endif
