/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs the table of one stage.
 *
 * Each chunk has four lines of messages: activations in and out, gradients in and out. A line is a
 * ring of buffers with a persistent request each; the messages of a line follow each other in order
 * of micro-batches on both ends. Receives start one step ahead, so they pass beside the
 * computation. A buffer of activations that came in is kept until its backward step is done: the
 * line has as many as the table has live, and one for the receive ahead. All other lines have two.
 *
 * A stage waits for nothing but its next input and, before it stores an output, for the message
 * that used the buffer two messages earlier. tests/mp/train/test_pipeline checks that no table
 * deadlocks even if a send ends no earlier than its receive starts.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "train/buckets.h"
#include "train/train_fail.h"
#include "train/pipeline_tables.h"

enum line { ACT_IN, ACT_OUT, GRAD_IN, GRAD_OUT, LINES };

struct ring {
	int slots; /* 0: an end of the model, nothing passes */
	char *data;
	size_t bytes; /* of a buffer */
	struct tutti_request **req;
};

struct tt_pipe_stage {
	struct tutti_comm *comm; /* our own */
	struct tutti_pipeline_work work;
	const struct tutti_pipeline_step *steps;
	int chunks, nsteps;
	int failed; /* a run has: messages of it may be under way */
	double waited;
	struct ring rings[]; /* LINES of each chunk */
};

static struct ring *ring_of(struct tt_pipe_stage *st, int chunk, enum line line)
{
	return &st->rings[chunk * LINES + (int)line];
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void *buffer(const struct ring *ring, int micro)
{
	return ring->slots ? ring->data + (size_t)(micro % ring->slots) * ring->bytes : NULL;
}

static int start(const struct ring *ring, int micro)
{
	return ring->slots ? tutti_start(ring->req[micro % ring->slots]) : 0;
}

/* Until the buffer's message is there, or has left. */
static int await(struct tt_pipe_stage *st, const struct ring *ring, int micro)
{
	double from;
	int err;

	if (!ring->slots)
		return 0;
	from = now();
	err = tutti_wait(&ring->req[micro % ring->slots]);
	st->waited += now() - from;
	return err;
}

static int start_input(struct tt_pipe_stage *st, int i)
{
	const struct tutti_pipeline_step *s = &st->steps[i];

	return i < st->nsteps
		       ? start(ring_of(st, s->chunk, s->backward ? GRAD_IN : ACT_IN), s->micro)
		       : 0;
}

static int run_step(struct tt_pipe_stage *st, int i)
{
	const struct tutti_pipeline_step *s = &st->steps[i];
	const struct tutti_pipeline_work *w = &st->work;
	struct ring *kept = ring_of(st, s->chunk, ACT_IN);
	struct ring *in = ring_of(st, s->chunk, s->backward ? GRAD_IN : ACT_IN);
	struct ring *out = ring_of(st, s->chunk, s->backward ? GRAD_OUT : ACT_OUT);
	int err = start_input(st, i + 1);

	if (!err)
		err = await(st, in, s->micro);
	if (!err)
		err = await(st, out, s->micro);
	if (err)
		return err;
	if (s->backward)
		err = w->backward(w->arg, s, buffer(kept, s->micro), buffer(in, s->micro),
				  buffer(out, s->micro));
	else
		err = w->forward(w->arg, s, buffer(in, s->micro), buffer(out, s->micro));
	if (err) {
		tt_train_fail(err < 0 ? err : -err,
			      "tutti_pipeline_run: the %s function of stage %d returned %d "
			      "for micro-batch %d of chunk %d",
			      s->backward ? "backward" : "forward", tutti_comm_rank(st->comm), err,
			      s->micro, s->chunk);
		tutti_comm_revoke(st->comm); /* the other stages wait for this one */
		return err;
	}
	return start(out, s->micro);
}

/* All messages that still leave. */
static int settle(struct tt_pipe_stage *st)
{
	double from = now();
	int i, err = 0;

	for (i = 0; i < st->chunks * LINES && !err; i++)
		if (i % LINES == ACT_OUT || i % LINES == GRAD_OUT)
			err = tutti_waitall(st->rings[i].slots, st->rings[i].req);
	st->waited += now() - from;
	return err;
}

int tutti_pipeline_run(struct tutti_pipeline *pipeline, double *waited)
{
	static const char call[] = "tutti_pipeline_run";
	struct tt_pipe_stage *st;
	int i, err = tt_pipeline_check(call, pipeline);

	if (err)
		return err;
	st = pipeline->attached;
	if (!st)
		return tt_train_fail(-EINVAL, "%s: the pipeline is attached to no communicator",
				     call);
	if (st->failed)
		return tt_train_fail(-EINVAL, "%s: a run has failed; free the pipeline", call);
	st->waited = 0;
	err = start_input(st, 0);
	for (i = 0; i < st->nsteps && !err; i++)
		err = run_step(st, i);
	if (!err)
		err = settle(st);
	if (!err && waited)
		*waited = st->waited;
	st->failed = err != 0;
	return err;
}

/* Where a line leads: the rank at the other end, and the chunk there that receives. */
static int make_request(struct tt_pipe_stage *st, int chunk, enum line line, void *buf,
			struct tutti_request **req)
{
	int p = tutti_comm_size(st->comm), stage = tutti_comm_rank(st->comm);
	int up = (stage + 1) % p, down = (stage + p - 1) % p;
	int above = chunk + (stage == p - 1), below = chunk - (stage == 0);
	const struct tutti_pipeline_work *w = &st->work;

	switch (line) {
	case ACT_IN:
		return tutti_recv_init(buf, w->count, w->datatype, down, 2 * chunk, st->comm, NULL,
				       req);
	case ACT_OUT:
		return tutti_send_init(buf, w->count, w->datatype, up, 2 * above, st->comm, req);
	case GRAD_IN:
		return tutti_recv_init(buf, w->count, w->datatype, up, 2 * chunk + 1, st->comm,
				       NULL, req);
	default:
		return tutti_send_init(buf, w->count, w->datatype, down, 2 * below + 1, st->comm,
				       req);
	}
}

static int make_ring(struct tt_pipe_stage *st, int chunk, enum line line, int slots)
{
	struct ring *ring = ring_of(st, chunk, line);
	int i, err;

	ring->bytes = (st->work.count * tutti_datatype_size(st->work.datatype) + 63) / 64 * 64;
	ring->req = calloc((size_t)slots, sizeof(struct tutti_request *));
	if (!ring->req)
		return tt_train_fail(-ENOMEM, "tutti_pipeline_attach: no memory for %d requests",
				     slots);
	err = tutti_alloc(tutti_comm_context(st->comm), (size_t)slots * ring->bytes,
			  (void **)&ring->data);
	ring->slots = slots;
	for (i = 0; i < slots && !err; i++)
		err = make_request(st, chunk, line, ring->data + (size_t)i * ring->bytes,
				   &ring->req[i]);
	return err;
}

static int make_chunk(const struct tutti_pipeline *p, struct tt_pipe_stage *st, int chunk)
{
	int stage = tutti_comm_rank(st->comm), err = 0;
	int first = !chunk && !stage;
	int last = chunk == p->config.chunks - 1 && stage == p->config.stages - 1;

	if (!first)
		err = make_ring(st, chunk, ACT_IN, tt_pipeline_live(p, stage, chunk) + 1);
	if (!first && !err)
		err = make_ring(st, chunk, GRAD_OUT, 2);
	if (!last && !err)
		err = make_ring(st, chunk, ACT_OUT, 2);
	if (!last && !err)
		err = make_ring(st, chunk, GRAD_IN, 2);
	return err;
}

/* Whether it has ended: after a failed run some are under way, and a receive can be taken back. */
static int end_request(struct tutti_request *req, enum line line)
{
	int done = 1;

	tutti_request_get_status(req, &done);
	if (!done && (line == ACT_IN || line == GRAD_IN)) {
		tutti_cancel(req);
		tutti_request_get_status(req, &done);
	}
	tutti_request_free(req);
	return done;
}

/* Buffers that a message still uses are left to tutti_finalize. */
static void free_ring(struct ring *ring, enum line line)
{
	int i, ended = 1;

	for (i = 0; i < ring->slots; i++)
		if (ring->req[i] && !end_request(ring->req[i], line))
			ended = 0;
	free(ring->req);
	if (ended)
		tutti_free(ring->data);
}

void tt_pipeline_detach(struct tt_pipe_stage *st)
{
	int i;

	if (!st)
		return;
	for (i = 0; i < st->chunks * LINES; i++)
		free_ring(&st->rings[i], i % LINES);
	tutti_comm_free(st->comm);
	free(st);
}

static int check_attach(const struct tutti_pipeline *pipeline, struct tutti_comm *comm,
			const struct tutti_pipeline_work *w)
{
	static const char call[] = "tutti_pipeline_attach";
	int n = tutti_comm_size(comm);

	if (n < 0)
		return n;
	if (pipeline->attached)
		return tt_train_fail(-EBUSY, "%s: the pipeline is attached already", call);
	if (n != pipeline->config.stages)
		return tt_train_fail(-EINVAL,
				     "%s: the communicator has %d ranks for %d stages; pass that "
				     "of the pipeline's axis",
				     call, n, pipeline->config.stages);
	if (!w->count || !tutti_datatype_size(w->datatype))
		return tt_train_fail(-EINVAL, "%s: %s", call,
				     w->count ? "datatype is none" : "count is 0");
	if (w->pad)
		return tt_train_fail(-EINVAL, "%s: work.pad is %d; it must be 0", call, w->pad);
	if (!w->forward || !w->backward)
		return tt_train_fail(-EINVAL, "%s: %s is NULL", call,
				     w->forward ? "backward" : "forward");
	return 0;
}

/* Collective; frees comm if the stages disagree. */
static int agree(const char *call, struct tutti_comm *comm, const struct tutti_pipeline_config *c,
		 const struct tutti_pipeline_work *w)
{
	const struct tt_same same[] = {TT_SAME_NUMBER("schedule", c->schedule),
				       TT_SAME_NUMBER("micro_batches", c->micro_batches),
				       TT_SAME_NUMBER("chunks", c->chunks),
				       TT_SAME_NUMBER("count", w->count),
				       TT_SAME_DATATYPE("datatype", w->datatype)};
	const struct tt_buckets none = {0};
	int err = tt_buckets_agree(comm, call, same, sizeof(same) / sizeof(same[0]), &none);

	if (err)
		tutti_comm_free(comm);
	return err;
}

int tutti_pipeline_attach(struct tutti_pipeline *pipeline, struct tutti_comm *comm,
			  const struct tutti_pipeline_work *work)
{
	static const char call[] = "tutti_pipeline_attach";
	static const struct tt_train_kind kind = {call, "an attached pipeline",
						  "tutti_pipeline_free"};
	struct tutti_pipeline_work w;
	struct tt_pipe_stage *st = NULL;
	struct tutti_comm *own;
	int i, chunks, err = tt_pipeline_check(call, pipeline);

	if (!err)
		err = tt_train_read_config(call, "work", work, sizeof(w), sizeof(w), &w);
	if (!err)
		err = check_attach(pipeline, comm, &w);
	chunks = err ? 0 : pipeline->config.chunks;
	if (!err)
		st = calloc(1, sizeof(*st) + (size_t)(chunks * LINES) * sizeof(st->rings[0]));
	if (!err && !st)
		err = tt_train_fail(-ENOMEM, "%s: no memory for %d chunks", call, chunks);
	err = tt_train_join(comm, &kind, err, &own);
	if (!err)
		err = agree(call, own, &pipeline->config, &w);
	if (err) {
		free(st);
		return err;
	}
	st->work = w;
	st->chunks = chunks;
	st->comm = own;
	err = tutti_pipeline_steps(pipeline, tutti_comm_rank(comm), &st->steps, &st->nsteps);
	for (i = 0; i < chunks && !err; i++)
		err = make_chunk(pipeline, st, i);
	err = tt_train_agree(st->comm, call, err);
	if (err)
		tt_pipeline_detach(st);
	else
		pipeline->attached = st;
	return err;
}
