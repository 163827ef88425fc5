/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A small GPT that learns a text byte by byte, on a grid of data x pipeline x tensor ranks.
 *
 *	gpt.c		main: the training loop, what it prints
 *	gpt_options.c	the command line
 *	grid.c		the grid of ranks, and who has which layers
 *	params.c	the parameters of this rank: slices of the model's
 *	math.c		matrix products, layer norm, attention, GELU; no communication
 *	layer.c		a transformer layer over the ranks of the tensor axis (Megatron)
 *	stage.c		the part of the model of a pipeline stage: embedding, layers, head
 *	gradients.c	sums of gradients over the data axis, beside the backward pass
 *	adamw.c		the optimizer, on every replica or divided among them (ZeRO)
 *	downpour.c	replicas on a parameter server instead (DistBelief)
 *	checkpoint.c	saves the model and restores it on any grid
 *	text.c		the text, and text that the model writes
 *
 * Read layer.c for tensor parallelism, stage.c for the pipeline, gradients.c for data parallelism.
 *
 * The rows of an activation are the first position of all sequences, then the second, and so on. So
 * a slice of the positions is a block of rows.
 *
 * Numbers are float, or double in gpt_double, in which all grids agree to ten digits.
 */
#ifndef GPT_H
#define GPT_H

#include <stdint.h>
#include <tutti/train.h>

#include "examples/seconds.h"

#ifdef GPT_DOUBLE
typedef double real;
#define REAL TUTTI_FLOAT64
#else
typedef float real;
#define REAL TUTTI_FLOAT32
#endif

#define VOCAB 256 /* a byte */

enum axis { DATA, PIPELINE, TENSOR, AXES };

struct options {
	int dims[AXES];
	int layers, hidden, heads, length; /* length: bytes of a sequence */
	int batch;			   /* sequences of a step, over all ranks */
	int micro;			   /* micro-batches of a step on each pipeline */
	int chunks;			   /* of each stage, interleaved only */
	int sequence_parallel, gather_again;
	int zero;     /* stage of ZeRO, 1 or 2; 0: every replica has all of the state */
	int downpour; /* --staleness: replicas push to servers */
	int servers, staleness, straggle; /* servers 0: replicas sum their gradients */
	int steps, seed, write;
	double rate, decay;
	enum tutti_pipeline_schedule schedule;
	const char *text, *codec, *save, *load;
	int digits; /* of the printed loss */
};
/* 0: train; 1: an option was --help or the like, exit 0; negative: wrong, a text was printed. */
int options_read(struct options *o, int argc, char **argv);

/* The parameters of a layer; of a slice, if tensor ranks share them. */
enum weight {
	LN1_GAIN,
	LN1_BIAS,
	QKV,
	QKV_BIAS,
	PROJECT,
	PROJECT_BIAS,
	LN2_GAIN,
	LN2_BIAS,
	FC,
	FC_BIAS,
	OUT,
	OUT_BIAS,
	LAYER_WEIGHTS
};

/*
 * A parameter of the model: blocks matrices of rows x cols. This rank has rows first_row ... and
 * columns first_col ... of each block.
 */
struct param {
	int blocks, rows, cols, first_row, nrows, first_col, ncols;
	size_t at;	/* where this rank's part is in value and grad */
	size_t file_at; /* where the whole is in a checkpoint */
	real fill;	/* initial value; 0 with spread: random */
	double spread;
};

/* The results of a norm that its backward pass needs. */
struct saved_norm {
	real *xhat, *rstd, *out;
};

/* Those of a layer, for one micro-batch. */
struct saved {
	struct saved_norm norm1, norm2;
	real *qkv, *att, *y, *h, *a;
};

/* Those of the final norm and the softmax. */
struct saved_head {
	struct saved_norm norm;
	real *prob;
};

/* A part of value and grad that is summed over the data axis at once. */
struct bucket {
	size_t first, count;
	struct tutti_codec *codec;
	struct tutti_feedback *feedback;
	struct tutti_request *request;
	size_t tensor; /* its number in the sharded optimizer */
};

struct gpt {
	struct options o;
	struct tutti_context *ctx;
	struct tutti_grid *grid;
	struct tutti_comm *all; /* ranks of the job; world: of the grid */
	struct tutti_comm *world, *comm[AXES];
	struct tutti_comm *replica; /* pipeline x tensor ranks */
	struct tutti_comm *tie;	    /* first and last stage, which share the embedding; or NULL */
	int at[AXES];		    /* this rank's place on each */
	double waited[AXES];	    /* seconds of this step in communication */
	const char *doing;	    /* for the text of an error */
	int told;		    /* an error's text has been printed */

	int parts;	 /* runs of layers: stages x chunks */
	int part_layers; /* of each */
	int nlayers;	 /* of this rank */
	int first, last; /* whether this stage has the embedding; the head */
	int sequences;	 /* of a micro-batch */
	int local;	 /* hidden / tensor ranks */
	int slices;	 /* tensor ranks if they divide the positions of a sequence, else 1 */
	int positions;	 /* length / slices: of each sequence, between the parts of a layer */

	struct param *params;
	int nparams, nslots;
	size_t count, file_count;
	real *value, *grad;
	size_t (*layer_at)[LAYER_WEIGHTS];
	size_t embed, position, gain, bias, head; /* places of the other parameters */
	struct bucket *buckets;			  /* of each layer, then of the rest */
	int nbuckets;
	real *shared; /* with a codec or servers: what tensor ranks have in common, packed */
	size_t nshared;

	/* the optimizer's state: the moments of AdamW here, or with zero, or with servers */
	real *m, *v;
	struct tutti_sharded *sharded;
	struct tutti_codec *codec; /* of sharded; or NULL */
	int serves;		   /* this rank is a server */
	struct tutti_ps *ps;
	struct tutti_ps_table *table; /* of this rank's part of the model */

	struct tutti_pipeline *pipeline;
	struct saved *saved; /* [layer][slot] */
	struct saved_head *saved_head;
	real *memory; /* of all below */
	real *x, *scratch[4];
	real *gathered;		   /* with gather_again: out of norm1 or norm2 of all saved */
	size_t kept, kept_outside; /* bytes of saved activations; outside the matrices */

	uint8_t *text;
	size_t text_len;
	int step;
	double loss; /* of this rank's sequences */
};

/* grid.c */
int grid_make(struct gpt *g);
void gpt_free(struct gpt *g); /* all but the context */

/* params.c */
int params_make(struct gpt *g);
/* Calls fn for each run of elements that are neighbours here and in the whole model. */
int params_each_run(struct gpt *g,
		    int (*fn)(struct gpt *g, const struct param *p, size_t at, size_t whole_at,
			      size_t n, void *arg),
		    void *arg);

/* layer.c: x and dx are replaced; they have sequences * positions rows */
int layer_forward(struct gpt *g, int layer, struct saved *s, real *x, int sequences);
int layer_backward(struct gpt *g, int layer, struct saved *s, real *dx, int sequences);

/* stage.c */
int stage_make(struct gpt *g);
int stage_run(struct gpt *g);
/* The logits that follow the n bytes of context, on the last stage; collective over a pipeline. */
int stage_infer(struct gpt *g, const uint8_t *context, int n, real *logits);

/* gradients.c */
int gradients_make(struct gpt *g);
/* Sums what slices of a sequence share in a layer; then its bucket is whole on this replica. */
int gradients_sum_layer(struct gpt *g, int layer);
int gradients_start(struct gpt *g, int bucket);
/* Sums what is shared by stages, and waits until all sums over the data axis are there. */
int gradients_finish(struct gpt *g);
/*
 * x has the length of value. What several ranks of a replica have becomes that of the first of
 * them: norms, biases, the embedding and the head.
 */
int gradients_agree(struct gpt *g, real *x);
/* How many vectors the codec of each bucket keeps for feedback; 0 if buckets have none. */
int gradients_states(const struct gpt *g);
/* Copies them to x, each with the length of value; back: from x, with which the next call begins.
 */
int gradients_residuals(struct gpt *g, real *x, int back);
void gradients_free(struct gpt *g);

/* adamw.c */
#define ADAMW_BETA1 0.9
#define ADAMW_BETA2 0.99
int adamw_make(struct gpt *g);
int adamw_step(struct gpt *g);
#define ALL_BUCKETS (-1)
/* The parameters of a bucket are used next. */
int adamw_wait(struct gpt *g, int bucket);

/* downpour.c */
int downpour_split(struct gpt *g);
/* Collective over all ranks of the job; failed: nonzero if this rank has failed before. */
int downpour_make(struct gpt *g, int failed);
int downpour_step(struct gpt *g);
int downpour_pull(struct gpt *g);
int downpour_close(struct gpt *g);

/* checkpoint.c */
int checkpoint_save(struct gpt *g, const char *path);
int checkpoint_load(struct gpt *g, const char *path);
/* After it, with servers: what they had. Collective over the workers. */
int checkpoint_load_servers(struct gpt *g, const char *path);

/* text.c */
int text_load(struct gpt *g);
/* length + 1 bytes: sequence i of the batch of this step. */
const uint8_t *text_sequence(const struct gpt *g, int i);
int text_write(struct gpt *g);
/* Random bits that depend on a and b alone. */
uint64_t text_mix(uint64_t a, uint64_t b);

#endif
