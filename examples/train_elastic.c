/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Training that survives the loss of ranks: train_digits, whose ranks may be killed at any moment
 * and new ones join.
 *
 *	tutti_run -n 4 --replace 2 train_elastic --kill 1:40,0:90
 *
 * Every rank holds the whole state: the model and its progress. A step counts when its gradients
 * have been summed, so when a rank dies the others are at most one step apart. They agree that
 * something went wrong (tutti_comm_agree), go on without the dead rank (tutti_comm_shrink), take
 * over the most advanced state, and do the interrupted step with slices of another size. No sample
 * is lost or counted twice, and the result is that of an undisturbed run, except for rounding.
 *
 * With --codec each rank keeps its feedback from before the step, so that the interrupted step
 * begins again with that. The feedback of a dead rank is lost; a new one begins with none.
 *
 * At the end of an epoch new processes, if there are any, fill up the job (tutti_comm_grow). They,
 * too, begin by taking over the most advanced state.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "examples/trainer.h"

/* How far it has come; the model belongs to it. Broadcast as it is. */
struct state {
	int64_t step;		      /* done so far; -1: this rank knows nothing */
	int64_t tested;		      /* epochs over, test included */
	int64_t wanted;		      /* ranks */
	double loss;		      /* of this epoch so far */
	double last_loss, last_right; /* of the epoch before */
};

struct elastic {
	struct trainer t; /* comm: the live ranks */
	struct state s;
	int64_t printed; /* epochs */
	int steps;	 /* of an epoch */
};

/* ---- the same state for all ---- */

static int send_model(struct trainer *t, int root)
{
	struct layer *layer;
	int l, err = 0;

	for (l = 0; l < MLP_LAYERS && !err; l++) {
		layer = &t->net.layers[l];
		err = tutti_bcast(layer->weights, (size_t)layer->size, TUTTI_FLOAT64, root,
				  t->comm);
		if (!err)
			err = tutti_bcast(layer->velocity, (size_t)layer->size, TUTTI_FLOAT64, root,
					  t->comm);
	}
	return err;
}

/* The lowest of the most advanced ranks sends its state. */
static int catch_up(struct elastic *e)
{
	struct trainer *t = &e->t;
	int64_t mine = e->s.step + e->s.tested, best;
	struct state s;
	int root, err;

	t->doing = "catching up";
	best = mine * t->nranks + (t->nranks - 1 - t->rank);
	err = tutti_allreduce(TUTTI_IN_PLACE, &best, 1, TUTTI_INT64, TUTTI_MAX, t->comm);
	if (err)
		return err;
	if (best < 0)
		return fprintf(stderr, "train_elastic: no live rank has the model\n"), -ENODATA;
	root = t->nranks - 1 - (int)(best % t->nranks);
	s = e->s;
	err = tutti_bcast(&s, sizeof(s), TUTTI_UINT8, root, t->comm);
	if (err)
		return err;
	if (mine < s.step + s.tested) /* until it is here as a whole it is worth nothing */
		e->s = (struct state){.step = -1};
	err = send_model(t, root);
	if (!err)
		e->s = s;
	return err;
}

/* Whether all have come here without an error; negative: there is no way to go on. */
static int all_fine(struct elastic *e, int err)
{
	uint64_t fine = !err;
	int failed = tutti_comm_agree(e->t.comm, TUTTI_BAND, &fine);

	e->t.doing = "agreeing";
	if (err && err != -TUTTI_EPEER)
		return err;
	return failed ? failed : (int)fine;
}

static int shrink(struct elastic *e)
{
	struct trainer *t = &e->t;
	struct tutti_comm *next;
	int err, before = t->nranks;

	t->doing = "going on without the dead";
	trainer_settle(t);
	err = tutti_comm_shrink(t->comm, &next);
	if (err)
		return err;
	if (t->comm != tutti_world(t->ctx))
		tutti_comm_free(t->comm);
	trainer_use(t, next);
	err = trainer_move(t, t->ctx, next);
	if (err)
		return err;
	if (t->rank == 0)
		printf("step %lld: %d of %d ranks go on\n", (long long)e->s.step, t->nranks,
		       before);
	fflush(stdout);
	return 0;
}

/* After every change of ranks; err: the earlier error. */
static int together(struct elastic *e, int err)
{
	int fine = all_fine(e, err);

	while (!fine) {
		err = shrink(e);
		if (!err)
			err = catch_up(e);
		fine = all_fine(e, err);
	}
	return fine < 0 ? fine : 0;
}

/* ---- new ranks ---- */

/* The model moves to memory of the new context. */
static int move_model(struct trainer *t, struct tutti_context *ctx)
{
	struct tutti_context *old = t->ctx;
	double *weights[MLP_LAYERS], *gradient[MLP_LAYERS];
	struct layer *layer;
	int l, err;

	for (l = 0; l < MLP_LAYERS; l++) {
		weights[l] = t->net.layers[l].weights;
		gradient[l] = t->net.layers[l].gradient;
		t->net.layers[l].weights = t->net.layers[l].gradient = NULL;
	}
	t->ctx = ctx;
	err = trainer_alloc(t);
	for (l = 0; l < MLP_LAYERS; l++) {
		layer = &t->net.layers[l];
		if (!err)
			memcpy(layer->weights, weights[l], (size_t)layer->size * sizeof(double));
		tutti_free(weights[l]);
		tutti_free(gradient[l]);
	}
	if (!err)
		err = trainer_move(t, ctx, tutti_world(ctx));
	tutti_finalize(old);
	return err;
}

static int refill(struct elastic *e)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct trainer *t = &e->t;
	struct tutti_context *ctx;
	int err, before = t->nranks;

	t->doing = "taking in new ranks";
	err = tutti_comm_grow(t->comm, (int)e->s.wanted, t->opt.wait_ms, &ctx);
	if (err) { /* the live ranks go on; if one has died, the next call reports it */
		tutti_last_error(&info);
		if (t->rank == 0)
			printf("no new ranks: %s\n", info.text);
		fflush(stdout);
		return 0;
	}
	err = move_model(t, ctx);
	trainer_use(t, tutti_world(ctx));
	if (t->rank == 0)
		printf("step %lld: %d ranks instead of %d\n", (long long)e->s.step, t->nranks,
		       before);
	fflush(stdout);
	if (!err)
		err = catch_up(e);
	return together(e, err);
}

/* ---- training ---- */

/* --kill RANK:STEP,...: ranks are those of the start. */
static void die_if_told(const struct elastic *e)
{
	const char *p = e->t.opt.kill, *rank = getenv("TUTTI_RANK");
	int r, n, step;

	for (; p && rank && sscanf(p, "%d:%d%n", &r, &step, &n) == 2; p += n + (p[n] == ','))
		if (r == atoi(rank) && step == e->s.step)
			kill(getpid(), SIGKILL);
}

/* A step, or nothing at all. */
static int step(struct elastic *e)
{
	struct trainer *t = &e->t;
	int at = (int)(e->s.step % e->steps) * t->opt.batch, n = t->ntrain - at, err;
	double loss = 0;

	n = n < t->opt.batch ? n : t->opt.batch;
	die_if_told(e);
	err = trainer_keep(t);
	if (err)
		return err;
	err = trainer_gradient(t, t->order + at, n, &loss);
	if (!err)
		err = tutti_allreduce(TUTTI_IN_PLACE, &loss, 1, TUTTI_FLOAT64, TUTTI_SUM, t->comm);
	if (err)
		return err;
	mlp_step(&t->net, n, t->opt.rate, t->opt.momentum);
	e->s.loss += loss;
	e->s.step++;
	return 0;
}

/* From where it has come to the end of the epoch. */
static int run_epoch(struct elastic *e)
{
	struct trainer *t = &e->t;
	double right = 0;
	int err = 0;

	trainer_order(t, (int)e->s.tested + 1);
	while (!err && e->s.step < (e->s.tested + 1) * e->steps)
		err = step(e);
	if (err)
		return err;
	t->doing = "testing";
	trainer_test(t, &right);
	err = tutti_allreduce(TUTTI_IN_PLACE, &right, 1, TUTTI_FLOAT64, TUTTI_SUM, t->comm);
	if (err)
		return err;
	e->s.last_loss = e->s.loss / t->ntrain;
	e->s.last_right = right / t->ntest;
	e->s.loss = 0;
	e->s.tested++;
	return 0;
}

/* The current rank 0 reports. */
static int report(struct elastic *e)
{
	const struct train_options *opt = &e->t.opt;
	FILE *csv;

	if (e->printed == e->s.tested || e->t.rank) {
		e->printed = e->s.tested;
		return 0;
	}
	e->printed = e->s.tested;
	if (!opt->quiet || e->printed == opt->epochs)
		printf("epoch %3lld   loss %9.6f   test accuracy %6.2f %%   %d ranks\n",
		       (long long)e->printed, e->s.last_loss, 100 * e->s.last_right, e->t.nranks);
	fflush(stdout);
	if (!opt->csv)
		return 0;
	csv = fopen(opt->csv, e->printed > 1 ? "a" : "w");
	if (!csv)
		return perror(opt->csv), -errno;
	if (e->printed == 1)
		fputs("epoch,loss,accuracy\n", csv);
	fprintf(csv, "%lld,%.12g,%.6f\n", (long long)e->printed, e->s.last_loss, e->s.last_right);
	return fclose(csv) ? -EIO : 0;
}

/* Between two epochs, so that the live ranks do not wait in the middle of one. */
static int may_refill(const struct elastic *e)
{
	return e->t.nranks < e->s.wanted && e->s.tested < e->t.opt.epochs &&
	       e->s.step == e->s.tested * e->steps;
}

static int train(struct elastic *e)
{
	int err = together(e, catch_up(e));

	e->printed = e->s.tested;
	while (!err && e->s.tested < e->t.opt.epochs) {
		err = together(e, run_epoch(e));
		if (!err)
			err = report(e);
		if (!err && may_refill(e))
			err = refill(e);
	}
	return err;
}

/* Every process reads the data; a new one gets the rest from the others. */
static int prepare(struct elastic *e)
{
	const char *join = getenv("TUTTI_JOIN");
	struct trainer *t = &e->t;
	int n = digits_load(t->opt.data, &t->digits);
	int err = n < 0 ? -ENOENT : trainer_take(t, n);

	if (!err)
		err = trainer_model(t);
	if (!err)
		err = trainer_alloc(t);
	if (!err && t->opt.coding.codec)
		err = trainer_encode(t, &t->opt.coding);
	if (err)
		return err;
	e->steps = (t->ntrain + t->opt.batch - 1) / t->opt.batch;
	e->s = (struct state){.wanted = t->nranks};
	if (join && !strcmp(join, "1"))
		e->s.step = -1;
	mlp_random_weights(&t->net, t->opt.seed);
	return 0;
}

int main(int argc, char **argv)
{
	static struct elastic e;
	int err = train_options(&e.t.opt, &train_elastic_program, argc, argv);

	if (err)
		return err > 0 ? 0 : 2;
	err = tutti_init(NULL, &e.t.ctx);
	if (err)
		return 1; /* the library has said why */
	trainer_use(&e.t, tutti_world(e.t.ctx));
	err = prepare(&e);
	if (!err)
		err = train(&e);
	if (err) {
		tutti_comm_perror(e.t.comm, e.t.doing);
		tutti_comm_abort(e.t.comm, 1); /* the others need not wait for this rank */
	}
	trainer_settle(&e.t);
	trainer_drop(&e.t);
	trainer_free(&e.t);
	err |= train_flush(&train_elastic_program);
	return tutti_finalize(e.t.ctx) || err;
}
