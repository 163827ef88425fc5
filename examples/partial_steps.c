/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The method partial of train_decentralized: gradients go through a partial all-reduce, and each
 * rank makes the same steps, one for each round. A rank for which results are not kept any more
 * takes over the model of the rank that is furthest ahead.
 *
 * For that each rank shows its model in a window: a word, and two slots in turn. The word has the
 * number of its last round and the slot that has it. That slot is written again only after the
 * other one has been shown, so it is whole if the word is the same before and after it was read.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "examples/decentral.h"

#define HEAD 64	  /* bytes before the slots */
#define TRIES 100 /* to read a slot that is not being written */

struct partial_steps {
	struct tutti_partial *partial;
	struct tutti_win *win;
	char *shown;	 /* _Atomic uint64_t word, then the slots */
	uint64_t at;	 /* the slot shown last */
	double *fetched; /* a slot of another rank */
	size_t slot;	 /* bytes: weights, then velocities */
	uint64_t round;	 /* the last one whose result is in the weights */
};

/* Copies the velocities of all layers into flat, or from it. */
static void copy_velocities(struct decentral *d, double *flat, int into)
{
	size_t at = 0, n;
	int l;

	for (l = 0; l < MLP_LAYERS; l++, at += n) {
		n = (size_t)d->net.layers[l].size;
		if (into)
			memcpy(flat + at, d->net.layers[l].velocity, n * sizeof(double));
		else
			memcpy(d->net.layers[l].velocity, flat + at, n * sizeof(double));
	}
}

static void show(struct decentral *d)
{
	struct partial_steps *p = d->partial;
	char *slot;

	p->at ^= 1;
	slot = p->shown + HEAD + p->at * p->slot;
	memcpy(slot, d->weights, d->size * sizeof(double));
	copy_velocities(d, (double *)(void *)slot + d->size, 1);
	atomic_store_explicit((_Atomic uint64_t *)(void *)p->shown, p->round << 1 | p->at,
			      memory_order_release);
}

static int get(struct partial_steps *p, int rank, void *to, size_t len, uint64_t offset)
{
	int err = tutti_get(p->win, rank, to, len, offset);

	return err ? err : tutti_win_flush(p->win, rank);
}

/* The rank that is furthest ahead, and its word. */
static int find_ahead(struct decentral *d, int *rank, uint64_t *word)
{
	uint64_t its = 0;
	int r, err = 0;

	*rank = d->rank;
	*word = d->partial->round << 1;
	for (r = 0; !err && r < d->nranks; r++) {
		err = r == d->rank ? 0 : get(d->partial, r, &its, sizeof(its), 0);
		if (!err && its >> 1 > *word >> 1) {
			*rank = r;
			*word = its;
		}
	}
	return err;
}

static int take_over(struct decentral *d)
{
	struct partial_steps *p = d->partial;
	uint64_t word, after = 0;
	int rank, tries, err;

	d->doing = "taking over a model";
	for (tries = 0; tries < TRIES; tries++) {
		err = find_ahead(d, &rank, &word);
		if (!err && rank == d->rank)
			return -ESTALE;
		if (!err)
			err = get(p, rank, p->fetched, p->slot, HEAD + (word & 1) * p->slot);
		if (!err)
			err = get(p, rank, &after, sizeof(after), 0);
		if (err)
			return err;
		if (after != word)
			continue;
		memcpy(d->weights, p->fetched, d->size * sizeof(double));
		copy_velocities(d, p->fetched + d->size, 0);
		p->round = word >> 1;
		return 0;
	}
	return -ESTALE;
}

/* The steps of all rounds up to last that have not been made. */
static int make_steps(struct decentral *d, uint64_t last)
{
	struct partial_steps *p = d->partial;
	int err = 0;

	while (!err && p->round < last) {
		err = tutti_partial_result(p->partial, p->round + 1, d->gradient, NULL);
		if (err == -ESTALE) {
			err = take_over(d);
		} else if (!err) {
			mlp_step(&d->net, d->batch, d->rate, d->momentum);
			p->round++;
		}
	}
	show(d);
	return err;
}

int partial_begin(struct decentral *d)
{
	/* a step of few ranks is a short one: in the end all gradients weigh the same */
	struct tutti_partial_config config = {
		.size = sizeof(config), .quorum = d->quorum, .divide = TUTTI_PARTIAL_BY_SIZE};
	struct partial_steps *p = calloc(1, sizeof(*p));
	int err;

	d->doing = "making a partial all-reduce";
	d->partial = p;
	if (!p)
		return -ENOMEM;
	p->slot = 2 * d->size * sizeof(double);
	p->fetched = malloc(p->slot);
	err = p->fetched ? tutti_partial_create(d->comm, d->size, TUTTI_FLOAT64, TUTTI_AVG, &config,
						&p->partial)
			 : -ENOMEM;
	if (!err)
		err = tutti_win_allocate(d->comm, HEAD + 2 * p->slot, 0, (void **)&p->shown,
					 &p->win);
	return err ? err : tutti_barrier(d->comm);
}

int partial_step(struct decentral *d)
{
	struct partial_steps *p = d->partial;
	uint64_t last = 0;
	int err;

	d->doing = "adding up gradients";
	/* the decider, which is rank 0, sends and receives for all */
	d->bytes += (d->rank ? 2 : 2 * (uint64_t)(d->nranks - 1)) * d->size * sizeof(double);
	err = tutti_partial_allreduce(p->partial, d->gradient, d->work, NULL, NULL, &last);
	if (err == -ESTALE) /* the gradient is offered all the same */
		err = tutti_partial_resync(p->partial, &last);
	return err ? err : make_steps(d, last);
}

/* Each rank makes the steps of what was carried. */
int partial_result(struct decentral *d)
{
	struct partial_steps *p = d->partial;
	uint64_t last = 0;
	int err = tutti_partial_drain(p->partial, d->work, NULL, NULL, &last);

	if (err == -ESTALE)
		err = tutti_partial_resync(p->partial, &last);
	if (!err)
		err = make_steps(d, last);
	return err ? err : tutti_barrier(d->comm); /* models are shown until all have them */
}

int partial_end(struct decentral *d)
{
	struct partial_steps *p = d->partial;
	int err = tutti_win_free(p->win);

	if (!err)
		err = tutti_partial_free(p->partial);
	free(p->fetched);
	free(p);
	return err;
}
