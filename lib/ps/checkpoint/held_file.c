/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checkpoints of what workers hold back: a table with a codec or a filter has the tensor "held" in
 * the file, with the state of every worker, which each worker writes and reads itself. If their
 * number has changed, the w-th of n workers gets the sum of the states w, w + n and so on: no share
 * is lost, whatever n is. Workers of this parameter server that have left do not count.
 *
 * Of a table of rows, "held" has the rows of which a worker has a state, worker after worker, and
 * "held_keys" says whose and which they are. A worker that dies before it has written its rows
 * leaves zeros there, which belong to no worker.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "lib/ps/checkpoint/safetensors.h"
#include "lib/ps/worker/accumulate.h"

#define CHUNK 4096	      /* rows written or read at once, of at most */
#define CHUNK_BYTES (1 << 20) /* unless one row is longer */

bool tt_ps_held_any(const struct tutti_ps *ps)
{
	uint32_t i;

	for (i = 0; i < ps->ntables; i++)
		if (ps->table[i]->coder)
			return true;
	return false;
}

/* Bytes of a worker's state, or of a row's. */
static uint64_t state_bytes(const struct tutti_ps_table *t)
{
	return (t->rows ? t->width : t->count) * (uint64_t)tt_codec_states(t->coder) *
	       sizeof(float);
}

/* Rows on their way to or from the file. */
struct chunk {
	uint64_t most, key[CHUNK], mark[CHUNK][2]; /* mark: worker + 1, and key */
	float *state;
};

static int chunk_new(const struct tutti_ps_table *t, struct chunk **chunk)
{
	struct chunk *c = calloc(1, sizeof(*c));
	uint64_t len = state_bytes(t);

	*chunk = c;
	if (c) {
		c->most = CHUNK_BYTES / len < CHUNK ? CHUNK_BYTES / len : CHUNK;
		c->most += !c->most;
		c->state = malloc(c->most * len);
	}
	return c && c->state ? 0 : tt_ps_no_memory(t, CHUNK_BYTES, -ENOMEM);
}

static void chunk_free(struct chunk *c)
{
	if (c)
		free(c->state);
	free(c);
}

/* ---- writing ---- */

static int write_dense(const struct tutti_ps_table *t, const struct tt_ps_file *file,
		       const struct tt_ps_tensor *tensor)
{
	uint64_t len = state_bytes(t);

	return tt_ps_file_write(file, tt_ps_feedback_residuals(t), len,
				tensor[TT_PS_HELD].at + (uint64_t)t->ps->my_worker * len);
}

static int write_rows(const struct tutti_ps_table *t, const struct tt_ps_file *file,
		      const struct tt_ps_tensor *tensor, const struct tt_ps_held_rows *rows)
{
	uint64_t at = rows->before, len = state_bytes(t), n, i;
	uint32_t unit = 0;
	struct chunk *c;
	int err = chunk_new(t, &c);

	/* the leader counted at another time, so the places in the file may be others */
	if (!err && tensor[TT_PS_HELD].shape[0] != rows->all)
		err = tt_fail(-TUTTI_EPEER, "a worker has failed during the save of table '%s'",
			      t->name);
	while (!err && (n = tt_ps_feedback_states(t, &unit, c->most, c->key, c->state))) {
		for (i = 0; i < n; i++) {
			c->mark[i][0] = (uint64_t)t->ps->my_worker + 1;
			c->mark[i][1] = c->key[i];
		}
		err = tt_ps_file_write(file, c->mark, n * sizeof(*c->mark),
				       tensor[TT_PS_HELD_KEYS].at + at * sizeof(*c->mark));
		if (!err)
			err = tt_ps_file_write(file, c->state, n * len,
					       tensor[TT_PS_HELD].at + at * len);
		at += n;
	}
	chunk_free(c);
	return err;
}

int tt_ps_held_write(const struct tutti_ps *ps, const char *path,
		     const struct tt_ps_held_rows *rows)
{
	struct tt_ps_tensor tensor[TT_PS_TENSORS];
	struct tt_ps_file file;
	uint32_t i;
	int err = tt_ps_file_open(path, true, &file), end;

	if (err)
		return err;
	for (i = 0; i < ps->ntables && !err; i++) {
		const struct tutti_ps_table *t = ps->table[i];

		if (!t->coder)
			continue;
		err = tt_ps_file_find(&file, t, tensor);
		if (!err)
			err = t->rows ? write_rows(t, &file, tensor, &rows[i])
				      : write_dense(t, &file, tensor);
	}
	end = tt_ps_file_close(&file, !err);
	return err ? err : end;
}

/* ---- reading ---- */

void tt_ps_held_free(struct tt_ps_residuals *held, uint32_t tables)
{
	uint32_t i;

	for (i = 0; held && i < tables; i++)
		tt_ps_residuals_free(&held[i]);
	free(held);
}

/* This worker is the first-th of `of` that are here; saved: how many saved the file. */
struct share {
	uint64_t first, of, saved;
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
static int read_dense(const struct tutti_ps_table *t, struct share share,
		      const struct tt_ps_file *file, const struct tt_ps_tensor *tensor, float *sum)
{
	uint64_t len = state_bytes(t), row, i;
	float *one = malloc((size_t)len);
	int err = one ? 0 : tt_ps_no_memory(t, len, -ENOMEM);

	for (row = share.first; !err && row < tensor[TT_PS_HELD].shape[0]; row += share.of) {
		err = tt_ps_file_read(file, one, len, tensor[TT_PS_HELD].at + row * len);
		for (i = 0; i < len / sizeof(*one) && !err; i++)
			sum[i] += one[i];
	}
	free(one);
	return err;
}

static bool is_for(struct share share, const uint64_t *mark)
{
	return mark[0] && (mark[0] - 1) % share.of == share.first;
}

/* Workers of the save, or none, as of a row that a worker did not write before it died. */
static int check_marks(const struct tt_ps_file *file, const struct tt_ps_tensor *keys,
		       uint64_t (*mark)[2], uint64_t n, uint64_t workers)
{
	uint64_t i;

	for (i = 0; i < n; i++)
		if (mark[i][0] > workers)
			return tt_fail(
				-EBADMSG,
				"%s: '%s' names worker %" PRIu64 " for the row of key %" PRIu64
				", and the file is of workers 0 to %" PRIu64,
				file->path, keys->name, mark[i][0] - 1, mark[i][1], workers - 1);
	return 0;
}

/* Of n rows at `at`: read their states if one is for this worker, and add these. */
static int read_chunk(const struct tutti_ps_table *t, struct share share,
		      const struct tt_ps_file *file, uint64_t at, uint64_t n, struct chunk *c,
		      struct tt_ps_residuals *r)
{
	uint64_t len = state_bytes(t), i, mine = 0;
	int err = 0;

	for (i = 0; i < n; i++)
		mine += is_for(share, c->mark[i]);
	if (mine)
		err = tt_ps_file_read(file, c->state, n * len, at);
	for (i = 0; i < n && mine && !err; i++)
		if (is_for(share, c->mark[i]))
			err = tt_ps_residuals_add_row(t, r, c->mark[i][1],
						      c->state + i * (len / sizeof(float)));
	return err;
}

static int read_rows(const struct tutti_ps_table *t, struct share share,
		     const struct tt_ps_file *file, const struct tt_ps_tensor *tensor,
		     struct tt_ps_residuals *r)
{
	uint64_t rows = tensor[TT_PS_HELD].shape[0], at, n;
	struct chunk *c;
	int err = chunk_new(t, &c);

	for (at = 0; at < rows && !err; at += n) {
		n = rows - at < c->most ? rows - at : c->most;
		err = tt_ps_file_read(file, c->mark, n * sizeof(*c->mark),
				      tensor[TT_PS_HELD_KEYS].at + at * sizeof(*c->mark));
		if (!err)
			err = check_marks(file, &tensor[TT_PS_HELD_KEYS], c->mark, n, share.saved);
		if (!err)
			err = read_chunk(t, share, file,
					 tensor[TT_PS_HELD].at + at * state_bytes(t), n, c, r);
	}
	chunk_free(c);
	return err;
}

static int read_table(const struct tutti_ps_table *t, struct share share,
		      const struct tt_ps_file *file, struct tt_ps_residuals *r)
{
	struct tt_ps_tensor tensor[TT_PS_TENSORS];
	int err = tt_ps_file_find(file, t, tensor);

	if (!err)
		err = tt_ps_residuals_new(t, r);
	if (err)
		return err;
	return t->rows ? read_rows(t, share, file, tensor, r)
		       : read_dense(t, share, file, tensor, r->state);
}

int tt_ps_held_read(const struct tutti_ps *ps, const struct tt_ps_reply *met, const char *path,
		    struct tt_ps_residuals **out)
{
	struct tt_ps_residuals *held = calloc((size_t)ps->ntables + 1, sizeof(*held));
	struct tt_ps_file file;
	struct share share = share_of(ps, met);
	uint32_t i;
	int err;

	if (!held)
		return tt_fail(-ENOMEM, "no memory for a checkpoint");
	err = tt_ps_file_open(path, false, &file);
	if (err) {
		free(held);
		return err;
	}
	err = tt_ps_file_workers(&file, &share.saved);
	if (!share.saved) /* too many to list them */
		share.saved = INT32_MAX;
	for (i = 0; i < ps->ntables && !err; i++)
		if (ps->table[i]->coder)
			err = read_table(ps->table[i], share, &file, &held[i]);
	tt_ps_file_close(&file, false);
	if (err)
		tt_ps_held_free(held, ps->ntables);
	else
		*out = held;
	return err;
}
