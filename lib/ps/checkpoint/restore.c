/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Restored values, read from a checkpoint or received from other servers. They lie beside the
 * current ones until all servers have theirs; then they take their place, which cannot fail.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ps/checkpoint/safetensors.h"
#include "lib/ps/server/server.h"

#define CHUNK 4096 /* rows read at once */

struct tt_ps_pending {
	char *values;
	void *state[2];
	uint32_t *steps;
	struct tt_map keys;
	uint64_t *key;
	uint32_t nrows;
};

void tt_ps_pending_free(struct tt_ps_store *s)
{
	struct tt_ps_pending *k = s->pending;

	if (!k)
		return;
	free(k->values);
	free(k->state[0]);
	free(k->state[1]);
	free(k->steps);
	tt_map_free(&k->keys);
	free(k->key);
	free(k);
	s->pending = NULL;
}

int tt_ps_pending_new(struct tt_ps_store *s)
{
	const struct tutti_ps_table *t = s->t;
	size_t n = (size_t)s->part->elems + 1;
	struct tt_ps_pending *k = calloc(1, sizeof(*k));
	int i, ok;

	s->pending = k;
	if (!k)
		return tt_fail(-ENOMEM, "no memory for the values of table '%s'", t->name);
	k->values = calloc(n, t->elem);
	k->steps =
		calloc((size_t)(t->rows ? tt_ps_units(s) : s->part->blocks) + 1, sizeof(*k->steps));
	ok = k->values && k->steps;
	for (i = 0; i < 2 && ok && s->state[i]; i++) {
		k->state[i] = calloc(n, tt_ps_state_size(t->datatype));
		ok = k->state[i] != NULL;
	}
	if (ok && t->rows) {
		k->key = calloc((size_t)tt_ps_units(s) + 1, sizeof(*k->key));
		ok = k->key != NULL;
	}
	return ok ? 0 : tt_ps_no_memory(t, s->part->elems * t->elem, 0);
}

/* A block's step count is the greatest of its parts. */
void tt_ps_pending_steps(struct tt_ps_store *s, uint64_t lo, uint64_t hi, uint64_t steps)
{
	uint64_t begin = s->part->begin, end = begin + s->part->elems, b;

	lo = lo > begin ? lo : begin;
	hi = hi < end ? hi : end;
	if (lo >= hi)
		return;
	for (b = (lo - begin) / s->t->block_elems; b <= (hi - 1 - begin) / s->t->block_elems; b++)
		if (s->pending->steps[b] < steps)
			s->pending->steps[b] = (uint32_t)steps;
}

void tt_ps_pending_dense(struct tt_ps_store *s, uint64_t first, uint64_t count,
			 const char *const *from)
{
	size_t size = tt_ps_state_size(s->t->datatype), elem = s->t->elem;
	uint64_t at = first - s->part->begin;
	int i;

	memcpy(s->pending->values + at * elem, from[0], count * elem);
	for (i = 0; i < 2 && s->pending->state[i]; i++)
		memcpy((char *)s->pending->state[i] + at * size, from[1 + i], count * size);
}

/* The greatest step count of the file's blocks that overlap a block here. */
static int read_steps(struct tt_ps_store *s, const struct tt_ps_file *file,
		      const struct tt_ps_tensor *tensor)
{
	uint64_t n = tensor->shape[0], i;
	uint64_t(*pair)[2] = calloc((size_t)n + 1, sizeof(*pair));
	int err;

	if (!pair)
		return tt_ps_no_memory(s->t, (n + 1) * sizeof(*pair), 0);
	err = tt_ps_file_read(file, pair, n * sizeof(*pair), tensor->at);
	pair[n][0] = s->t->count;
	for (i = 0; i < n && !err; i++) {
		if (pair[i][0] >= pair[i + 1][0] || pair[i][1] > UINT32_MAX) {
			err = tt_fail(-EBADMSG, "%s: line %llu of '%s' is not in order", file->path,
				      (unsigned long long)i, tensor->name);
			break;
		}
		tt_ps_pending_steps(s, pair[i][0], pair[i + 1][0], pair[i][1]);
	}
	free(pair);
	return err;
}

int tt_ps_pending_read_dense(struct tt_ps_store *s, const struct tt_ps_file *file,
			     const struct tt_ps_tensor *tensor)
{
	const struct tutti_ps_table *t = s->t;
	uint64_t elems = s->part->elems, begin = s->part->begin;
	size_t size = tt_ps_state_size(t->datatype);
	int i, err;

	err = tt_ps_file_read(file, s->pending->values, elems * t->elem,
			      tensor[TT_PS_VALUES].at + begin * t->elem);
	for (i = 0; i < 2 && !err && s->state[i]; i++)
		err = tt_ps_file_read(file, s->pending->state[i], elems * size,
				      tensor[TT_PS_STATE1 + i].at + begin * size);
	return err || !s->state[0] ? err : read_steps(s, file, &tensor[TT_PS_STEPS]);
}

/* Into the server's next place. */
int tt_ps_pending_row(struct tt_ps_store *s, uint64_t key, uint64_t step, const char *const *from)
{
	const struct tutti_ps_table *t = s->t;
	size_t row = t->width * t->elem, size = t->width * tt_ps_state_size(t->datatype);
	struct tt_ps_pending *k = s->pending;
	int j, err;

	if (tt_map_find(&k->keys, key) != TT_MAP_NONE)
		return tt_fail(-EBADMSG, "'%s.keys' contains key %llu twice", t->name,
			       (unsigned long long)key);
	if (k->nrows == tt_ps_units(s))
		return tt_fail(-ENOSPC, "a server has no room for its rows of table '%s'", t->name);
	err = tt_map_set(&k->keys, key, k->nrows);
	if (err)
		return tt_fail(err, "no memory for the keys of table '%s'", t->name);
	k->key[k->nrows] = key;
	memcpy(k->values + k->nrows * row, from[0], row);
	for (j = 0; j < 2 && k->state[j]; j++)
		memcpy((char *)k->state[j] + k->nrows * size, from[1 + j], size);
	if (k->state[0])
		k->steps[k->nrows] = (uint32_t)step;
	k->nrows++;
	return 0;
}

/* Take the rows of a chunk of the file that belong to this server. */
static int take_rows(struct tt_ps_store *s, const uint64_t *key, const uint64_t *step,
		     const char *const *from, uint64_t n)
{
	const struct tutti_ps_table *t = s->t;
	size_t row = t->width * t->elem, size = t->width * tt_ps_state_size(t->datatype);
	uint64_t i;
	int err = 0;

	for (i = 0; i < n && !err; i++) {
		const char *one[3] = {from[0] + i * row, from[1] + i * size, from[2] + i * size};

		if (tt_ps_server_of(t->ps, key[i]) == s->server)
			err = tt_ps_pending_row(s, key[i], s->pending->state[0] ? step[i] : 0, one);
	}
	return err;
}

static int read_chunk(struct tt_ps_store *s, const struct tt_ps_file *file,
		      const struct tt_ps_tensor *tensor, char *buf, uint64_t at, uint64_t n)
{
	size_t row = s->t->width * s->t->elem,
	       size = s->t->width * tt_ps_state_size(s->t->datatype);
	uint64_t key[CHUNK], step[CHUNK];
	const char *from[3] = {buf, buf + CHUNK * row, buf + CHUNK * (row + size)};
	int i, err;

	err = tt_ps_file_read(file, buf, n * row, tensor[TT_PS_VALUES].at + at * row);
	if (!err)
		err = tt_ps_file_read(file, key, n * sizeof(*key),
				      tensor[TT_PS_ROW_KEYS].at + at * sizeof(*key));
	for (i = 0; i < 2 && !err && s->state[i]; i++)
		err = tt_ps_file_read(file, (char *)from[1 + i], n * size,
				      tensor[TT_PS_STATE1 + i].at + at * size);
	if (!err && s->state[0])
		err = tt_ps_file_read(file, step, n * sizeof(*step),
				      tensor[TT_PS_STEPS].at + at * sizeof(*step));
	return err ? err : take_rows(s, key, step, from, n);
}

int tt_ps_pending_read_rows(struct tt_ps_store *s, const struct tt_ps_file *file,
			    const struct tt_ps_tensor *tensor)
{
	size_t row = s->t->width * s->t->elem,
	       size = s->t->width * tt_ps_state_size(s->t->datatype);
	uint64_t rows = tensor[TT_PS_ROW_KEYS].shape[0], at, n;
	char *buf = malloc(CHUNK * (row + 2 * size));
	int err = buf ? 0 : tt_ps_no_memory(s->t, CHUNK * (row + 2 * size), 0);

	for (at = 0; at < rows && !err; at += n) {
		n = rows - at < CHUNK ? rows - at : CHUNK;
		err = read_chunk(s, file, tensor, buf, at, n);
	}
	free(buf);
	return err;
}

#define SWAP(a, b)                                                                                 \
	do {                                                                                       \
		__typeof__(a) swap_ = (a);                                                         \
                                                                                                   \
		(a) = (b);                                                                         \
		(b) = swap_;                                                                       \
	} while (0)

/* Publish all blocks anew; earlier due publications are dropped. */
void tt_ps_pending_take(struct tt_ps_store *s)
{
	struct tt_ps_pending *k = s->pending;
	uint64_t b, blocks = s->part->blocks, per_block = s->t->block_elems / s->t->width;

	SWAP(s->values, k->values);
	SWAP(s->state[0], k->state[0]);
	SWAP(s->state[1], k->state[1]);
	SWAP(s->steps, k->steps);
	if (s->t->rows) {
		SWAP(s->keys, k->keys);
		SWAP(s->key, k->key);
		s->nrows = k->nrows;
		memset(s->shown, 0, blocks * sizeof(*s->shown));
		for (b = 0; b < s->nrows; b++)
			tt_ps_row_begin(s, b);
		blocks = (s->nrows + per_block - 1) / per_block;
	}
	s->is_set = true;
	memset(s->flags, 0, s->part->blocks);
	s->dirty.n = s->fresh.n = s->pass.n = 0;
	for (b = 0; b < blocks; b++)
		tt_ps_mark(s, &s->dirty, b);
	tt_ps_pending_free(s);
}
