/* SPDX-License-Identifier: BSD-3-Clause */
/* Pipelines: the tables, and what a stage needs to run its own. */
#ifndef TT_PIPELINE_TABLES_H
#define TT_PIPELINE_TABLES_H

#include <tutti/pipeline.h>

#define TT_PIPELINE_MAGIC 0x54755069u

struct tt_pipe_stage; /* pipeline_run.c */

struct tutti_pipeline {
	volatile unsigned magic;	     /* also when it is freed */
	struct tutti_pipeline_config config; /* whole */
	int nsteps;			     /* of each stage */
	struct tutti_pipeline_step *steps;   /* nsteps of stage 0, then of stage 1, ... */
	struct tt_pipe_stage *attached;	     /* NULL: not yet */
};

int tt_pipeline_check(const char *call, const struct tutti_pipeline *pipeline);
/* Most forward steps without their backward step; chunk -1: of all chunks of the stage. */
int tt_pipeline_live(const struct tutti_pipeline *pipeline, int stage, int chunk);
void tt_pipeline_detach(struct tt_pipe_stage *stage);

#endif
