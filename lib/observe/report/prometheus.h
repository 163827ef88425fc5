/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes counters for Prometheus. */
#ifndef TT_PROMETHEUS_H
#define TT_PROMETHEUS_H

#include "lib/engine/engine.h"

/* Starts writing if TUTTI_PROMETHEUS is set; ends writing. */
int tt_prom_start(struct tutti_context *ctx);
void tt_prom_stop(struct tutti_context *ctx);

#endif
