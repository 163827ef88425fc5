/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pipeline parallelism (libtutti_train): schedules of micro-batches over stages as tables, and a
 * call that runs this stage's table and moves activations and gradients between stages.
 */
#ifndef TUTTI_PIPELINE_H
#define TUTTI_PIPELINE_H

#include <tutti/tutti.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

/* With p stages, m micro-batches and v chunks of the model on each stage. */
enum tutti_pipeline_schedule {
	TUTTI_PIPELINE_GPIPE,	   /* all forward, then all backward */
	TUTTI_PIPELINE_1F1B,	   /* one forward, one backward in turn; m >= p */
	TUTTI_PIPELINE_INTERLEAVED /* 1F1B over v chunks, p >= 2, v >= 2, m a multiple of p */
};

/* Zero always means the default. */
struct tutti_pipeline_config {
	size_t size; /* sizeof(struct tutti_pipeline_config) */
	enum tutti_pipeline_schedule schedule;
	int stages, micro_batches;
	int chunks; /* interleaved: of each stage, at least 2; 0: 2. Else 1 */
};

/* Chunk c of stage s is part c * stages + s of the model. */
struct tutti_pipeline_step {
	int micro, chunk;
	int backward; /* 0: forward */
};

struct tutti_pipeline;

/** tutti_pipeline_create - make the tables of all stages. Local. */
int tutti_pipeline_create(const struct tutti_pipeline_config *config,
			  struct tutti_pipeline **pipeline);
/** tutti_pipeline_free - free a pipeline, before its context ends. Local. NULL is no error. */
int tutti_pipeline_free(struct tutti_pipeline *pipeline);

/** tutti_pipeline_steps - the steps of a stage, in order; valid until the pipeline is freed. */
int tutti_pipeline_steps(const struct tutti_pipeline *pipeline, int stage,
			 const struct tutti_pipeline_step **steps, int *n);

/* If every step takes one slot of time and messages take none. */
struct tutti_pipeline_counts {
	size_t size; /* sizeof(struct tutti_pipeline_counts) */
	int slots;   /* until the last stage is done */
	int busy;    /* slots in which the stage works; the bubble is the rest */
	int live;    /* most forward steps without their backward step at any time */
};
/** tutti_pipeline_count - simulate the schedule and count for a stage. Local. */
int tutti_pipeline_count(const struct tutti_pipeline *pipeline, int stage,
			 struct tutti_pipeline_counts *counts);

/*
 * The caller's part of the work. forward reads the activations of a micro-batch at in and stores
 * those of its chunk at out; in is NULL in the first chunk of the model, out in the last. backward
 * reads the gradient of the loss by out at out_grad and stores that by in at in_grad, with NULL in
 * the same places; in is as forward saw it. Both return 0 or a negative code.
 */
struct tutti_pipeline_work {
	size_t size;  /* sizeof(struct tutti_pipeline_work) */
	size_t count; /* elements of the activations of a micro-batch */
	enum tutti_datatype datatype;
	int pad; /* 0 */
	int (*forward)(void *arg, const struct tutti_pipeline_step *step, const void *in,
		       void *out);
	int (*backward)(void *arg, const struct tutti_pipeline_step *step, const void *in,
			const void *out_grad, void *in_grad);
	void *arg;
};

/**
 * tutti_pipeline_attach - allocate buffers and persistent requests for this rank's stage, which is
 * its rank in comm. Collective over comm, whose size is the number of stages. Once.
 */
int tutti_pipeline_attach(struct tutti_pipeline *pipeline, struct tutti_comm *comm,
			  const struct tutti_pipeline_work *work);
/**
 * tutti_pipeline_run - run all steps of this stage once. Collective over the ranks that attached.
 * waited: NULL, or the seconds spent in waits for other stages.
 */
int tutti_pipeline_run(struct tutti_pipeline *pipeline, double *waited);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
