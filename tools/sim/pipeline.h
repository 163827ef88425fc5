/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti_sim pipeline: the schedules of libtutti_train on modelled links. */
#ifndef TUTTI_SIM_PIPELINE_H
#define TUTTI_SIM_PIPELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <tutti/pipeline.h>

#include "lib/plan/model.h"

#define STAGES_MAX 4096
#define STEPS_MAX 10000000 /* of all stages */

struct pipe_options {
	enum tutti_pipeline_schedule schedule;
	const char *read; /* a file with the steps; NULL: by schedule */
	int stages, micros, chunks;
	double forward, backward; /* ns of a stage's steps of a micro-batch, all its chunks */
	size_t bytes;
	bool sized; /* -b was given; else messages take no time */
	int width;  /* of the drawing, 0: none */
	const char *csv, *json, *plot;
	struct tt_model model;
};

/* The steps of all stages: n of stage 0, then of stage 1, ... */
struct pipe_table {
	int stages, micros, chunks, n;
	struct tutti_pipeline_step *steps;
};

/* ns from the beginning. */
struct pipe_time {
	double start, end;
};

struct pipe_stage {
	double busy;	 /* ns */
	int held;	 /* most activations at any time: forward steps without their backward */
	int formula;	 /* the same by the literature, -1: there is none */
	long long sends; /* messages */
};

struct pipe_result {
	struct pipe_time *times;   /* by step, as the table's */
	struct pipe_stage *stages; /* by stage */
	double last;		   /* ns until all are done */
	double bubble, formula;	   /* shares of the time; formula -1: there is none */
	long long sends;
	char *deadlock; /* NULL, or how stages wait if every message waits for its receive */
};

static inline double pipe_duration(const struct pipe_options *opt, const struct pipe_table *t,
				   const struct tutti_pipeline_step *s)
{
	return (s->backward ? opt->backward : opt->forward) / t->chunks;
}

/* pipeline_options.c: 0, 1: done (help), or negative; complaints are on standard error. */
int pipe_parse(struct pipe_options *opt, int argc, char **argv);
/* By number: gpipe, 1f1b, interleaved. */
const char *pipe_schedule(const struct pipe_options *opt);

/* pipeline_table.c: 0, or negative and why is printed. */
int pipe_make(const struct pipe_options *opt, struct pipe_table *t);
int pipe_read(const char *path, struct pipe_table *t);

/*
 * pipeline_time.c: when each step begins and ends. Waiting: every message waits for its receive,
 * however short. *deadlock: NULL, or the stages that wait for each other, to be freed.
 */
int pipe_simulate(const struct pipe_options *opt, const struct pipe_table *t, bool waiting,
		  struct pipe_time *times, char **deadlock);

/* pipeline.c: the whole command. */
int sim_pipeline(int argc, char **argv);

/* pipeline_draw.c: text on standard output. */
int pipe_draw(const struct pipe_options *opt, const struct pipe_table *t,
	      const struct pipe_result *r);

/* pipeline_files.c */
int pipe_write_csv(const struct pipe_options *opt, const struct pipe_table *t,
		   const struct pipe_result *r);
int pipe_write_json(const struct pipe_options *opt, const struct pipe_table *t,
		    const struct pipe_result *r);
int pipe_plot(const struct pipe_options *opt, const struct pipe_table *t,
	      const struct pipe_result *r);

/* The step's name, such as F3, or B3.1 where stages have several chunks. Returns its length. */
#define PIPE_NAME 32
int pipe_name(const struct pipe_table *t, const struct tutti_pipeline_step *s,
	      char name[PIPE_NAME]);

#endif
