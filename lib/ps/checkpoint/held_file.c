/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checkpoints of what workers hold back: a table with a codec or a filter has the tensor "held" in
 * the file, with the state of every worker, which each worker writes and reads itself. If their
 * number has changed, the w-th of n workers gets the sum of the states w, w + n and so on: no share
 * is lost, whatever n is. Workers of this parameter server that have left do not count.
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/ps/checkpoint/safetensors.h"
#include "lib/ps/worker/accumulate.h"

bool tt_ps_held_any(const struct tutti_ps *ps)
{
	uint32_t i;

	for (i = 0; i < ps->ntables; i++)
		if (ps->table[i]->coder && !ps->table[i]->rows)
			return true;
	return false;
}

/* Elements of a worker's state. */
static uint64_t state_count(const struct tutti_ps_table *t)
{
	return t->count * (uint64_t)tt_codec_states(t->coder);
}

int tt_ps_held_write(const struct tutti_ps *ps, const char *path)
{
	struct tt_ps_tensor tensor[TT_PS_TENSORS];
	struct tt_ps_file file;
	uint32_t i;
	int err = tt_ps_file_open(path, true, &file), end;

	if (err)
		return err;
	for (i = 0; i < ps->ntables && !err; i++) {
		const struct tutti_ps_table *t = ps->table[i];
		uint64_t len = t->coder ? state_count(t) * sizeof(float) : 0;

		if (!t->coder || t->rows)
			continue;
		err = tt_ps_file_find(&file, t, tensor);
		if (!err)
			err = tt_ps_file_write(&file, tt_ps_feedback_residuals(t), len,
					       tensor[TT_PS_HELD].at +
						       (uint64_t)ps->my_worker * len);
	}
	end = tt_ps_file_close(&file, !err);
	return err ? err : end;
}

void tt_ps_held_free(float **held, uint32_t tables)
{
	uint32_t i;

	for (i = 0; held && i < tables; i++)
		free(held[i]);
	free(held);
}

/* This worker is the first-th of `of` that are here. */
struct share {
	uint64_t first, of;
};

static struct share share_of(const struct tutti_ps *ps, const struct tt_ps_reply *met)
{
	struct share s = {0};
	int w;

	for (w = 0; w < ps->nworkers; w++) {
		bool here = w == ps->my_worker || tt_ps_is_here(met, w);

		s.of += here;
		s.first += here && w < ps->my_worker;
	}
	return s;
}

/* Add the states of the file that are for this worker. */
static int read_table(const struct tutti_ps_table *t, struct share share,
		      const struct tt_ps_file *file, float *sum)
{
	struct tt_ps_tensor tensor[TT_PS_TENSORS];
	uint64_t n = state_count(t), row, i;
	float *one = malloc((size_t)n * sizeof(*one));
	int err = one ? tt_ps_file_find(file, t, tensor)
		      : tt_ps_no_memory(t, n * sizeof(*one), -ENOMEM);

	for (row = share.first; !err && row < tensor[TT_PS_HELD].shape[0]; row += share.of) {
		err = tt_ps_file_read(file, one, n * sizeof(*one),
				      tensor[TT_PS_HELD].at + row * n * sizeof(*one));
		for (i = 0; i < n && !err; i++)
			sum[i] += one[i];
	}
	free(one);
	return err;
}

int tt_ps_held_read(const struct tutti_ps *ps, const struct tt_ps_reply *met, const char *path,
		    float ***out)
{
	float **held = calloc((size_t)ps->ntables + 1, sizeof(*held));
	struct tt_ps_file file;
	uint32_t i;
	int err;

	if (!held)
		return tt_fail(-ENOMEM, "no memory for a checkpoint");
	err = tt_ps_file_open(path, false, &file);
	if (err) {
		free(held);
		return err;
	}
	for (i = 0; i < ps->ntables && !err; i++) {
		const struct tutti_ps_table *t = ps->table[i];

		if (!t->coder || t->rows)
			continue;
		held[i] = calloc((size_t)state_count(t), sizeof(float));
		err = held[i] ? read_table(t, share_of(ps, met), &file, held[i])
			      : tt_ps_no_memory(t, state_count(t) * sizeof(float), -ENOMEM);
	}
	tt_ps_file_close(&file, false);
	if (err)
		tt_ps_held_free(held, ps->ntables);
	else
		*out = held;
	return err;
}
