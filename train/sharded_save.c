/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Saves and restores the state of a sharded optimizer: rank 0 gathers or scatters one bucket after
 * the other, so that no rank holds the whole state, and the blocks of the file's ranks do not
 * matter. With a codec the residuals follow, of one bucket and rank after the other. Each of n
 * ranks gets the sum of those of saved ranks r, r + n, ..., where r is its number, so that all have
 * one taker.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "train/sharded_state.h"
#include "train/state_file.h"
#include "train/train_fail.h"

#define BUSY_TAG 1 /* residuals have 0 */

/* An error of rank 0 for all ranks; steps of rank 0, and whether its file has residuals. */
struct verdict {
	int32_t code, residuals;
	uint64_t steps;
	char text[400];
};

/* Collective: rank 0's err, with its text. */
static int share(struct tutti_sharded *s, int err, struct tt_state_file *f)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct verdict v = {.code = err, .residuals = f->residuals, .steps = f->steps};
	int other;

	if (s->rank == 0 && err && !tutti_last_error(&info) && info.code == err)
		memcpy(v.text, info.text, sizeof(v.text) - 1);
	other = tutti_bcast(&v, sizeof(v), TUTTI_UINT8, 0, s->comm);
	if (other)
		return other;
	f->steps = v.steps;
	f->residuals = v.residuals;
	if (!v.code)
		return 0;
	v.text[sizeof(v.text) - 1] = 0;
	return tt_train_fail(v.code, "%s", v.text[0] ? v.text : tutti_strerror(v.code));
}

static struct tt_state_file file_of(const struct tutti_sharded *s, const char *path)
{
	return (struct tt_state_file){.path = path,
				      .fd = -1,
				      .n = s->b.n,
				      .elem = s->b.elem,
				      .counts = s->b.counts,
				      .states = s->states,
				      .rule = s->rule.rule,
				      .residuals = s->codec ? tutti_codec_states(s->codec) : 0,
				      .ranks = s->ranks,
				      .datatype = s->datatype,
				      .steps = s->steps};
}

/* The tensors of a bucket between the file and room, which holds the bucket. */
static int move_tensors(struct tutti_sharded *s, struct tt_state_file *f, int v, int row, size_t k,
			char *room, bool save)
{
	const size_t *t = s->b.order + s->b.bucket[k].first, *end = t + s->b.bucket[k].n;
	int err = 0;

	for (; !err && t < end; t++) {
		char *at = room + s->b.offset[*t] * s->b.elem;

		err = save ? tt_state_file_write(f, v, row, *t, at)
			   : tt_state_file_read(f, v, row, *t, at);
	}
	return err;
}

/* All ranks go through all buckets, also after an error of the file, which is in *err. */
static int move_state(struct tutti_sharded *s, struct tt_state_file *f, char *room, bool save,
		      int *err)
{
	struct tt_shard *shard;
	int v, other = 0;
	size_t k, own;
	char *state;

	for (v = 0; v < s->states; v++)
		for (k = 0; !other && k < s->b.nbuckets; k++) {
			shard = &s->shard[k];
			own = shard->hi - shard->lo;
			state = s->state[v] + shard->at * s->b.elem;
			if (save)
				other = tutti_gatherv(state, own, room, shard->lens, shard->begins,
						      s->datatype, 0, s->comm);
			if (!other && s->rank == 0 && !*err)
				*err = move_tensors(s, f, v, 0, k, room, save);
			if (!other && !save)
				other = tutti_scatterv(room, shard->lens, shard->begins, state, own,
						       s->datatype, 0, s->comm);
		}
	return other;
}

/* ---- residuals ---- */

static size_t residual_count(const struct tutti_sharded *s, size_t k)
{
	return s->b.bucket[k].count * (size_t)tutti_codec_states(s->codec);
}

/*
 * State v of a rank's residual of bucket k, to one, where the elements lie in their order; or back,
 * added, times scale.
 */
static void sort_residual(const struct tutti_sharded *s, size_t k, int v, float *residual,
			  float *one, float scale, bool save)
{
	size_t states = (size_t)tutti_codec_states(s->codec), r, i;
	const struct tt_shard *shard = &s->shard[k];

	for (r = 0; r < (size_t)s->ranks; r++) {
		float *block = residual + shard->begins[r] * states + (size_t)v * shard->lens[r];

		for (i = 0; i < shard->lens[r]; i++)
			if (save)
				one[shard->begins[r] + i] = block[i];
			else
				block[i] += scale * one[shard->begins[r] + i];
	}
}

/* Residuals belong to a sum: an average of other ranks divides it by another number. */
static float scale_of(const struct tutti_sharded *s, const struct tt_state_file *f)
{
	if (s->flags & TUTTI_SHARDED_SUM || s->ranks == f->ranks)
		return 1;
	return (float)s->ranks / (float)f->ranks;
}

/* At rank 0: row of the file for bucket k, from residual or added to it. */
static int move_row(struct tutti_sharded *s, struct tt_state_file *f, size_t k, int row,
		    float *residual, char *room, bool save)
{
	int own = tutti_codec_states(s->codec), v, err = 0;

	for (v = 0; !err && v < own && v < f->residuals; v++) {
		if (save)
			sort_residual(s, k, v, residual, (float *)(void *)room, 1, true);
		err = move_tensors(s, f, f->states + v, row, k, room, save);
		if (!err && !save)
			sort_residual(s, k, v, residual, (float *)(void *)room, scale_of(s, f),
				      false);
	}
	return err;
}

/* Rank 0 takes rank r's residual of bucket k, or gives it; behind room there is place for one. */
static int move_residual(struct tutti_sharded *s, struct tt_state_file *f, size_t k, int r,
			 char *room, bool save, int *err)
{
	size_t count = residual_count(s, k);
	float *own = s->shard[k].residual, *residual;
	int row, other = 0;

	if (s->rank)
		return save ? tutti_send(own, count, TUTTI_FLOAT32, 0, 0, s->comm)
			    : tutti_recv(own, count, TUTTI_FLOAT32, 0, 0, s->comm, NULL);
	residual = r ? (float *)(void *)room + s->b.bucket[k].count : own;
	if (save) {
		if (r)
			other = tutti_recv(residual, count, TUTTI_FLOAT32, r, 0, s->comm, NULL);
		if (!other && !*err)
			*err = move_row(s, f, k, r, residual, room, true);
		return other;
	}
	memset(residual, 0, count * sizeof(*residual));
	for (row = r; !*err && row < f->ranks; row += s->ranks)
		*err = move_row(s, f, k, row, residual, room, false);
	return r ? tutti_send(residual, count, TUTTI_FLOAT32, r, 0, s->comm) : 0;
}

/* As move_state. */
static int move_residuals(struct tutti_sharded *s, struct tt_state_file *f, char *room, bool save,
			  int *err)
{
	int r, other = 0;
	size_t k;

	for (k = 0; s->codec && f->residuals && !other && k < s->b.nbuckets; k++)
		for (r = 0; !other && r < s->ranks; r++)
			if (s->b.bucket[k].count && (!s->rank || s->rank == r))
				other = move_residual(s, f, k, r, room, save, err);
	return other;
}

/* For a bucket, and with a codec for a residual. */
static char *room_of(const struct tutti_sharded *s)
{
	size_t k, most = 0, vectors = 1;

	if (s->codec)
		vectors += (size_t)tutti_codec_states(s->codec);
	for (k = 0; k < s->b.nbuckets; k++)
		most = s->b.bucket[k].count > most ? s->b.bucket[k].count : most;
	return calloc(most * vectors + 1, s->b.elem);
}

/* ---- ranks in the middle of a step ---- */

/* The lowest rank in the middle of a step, and its tensors that are ready; 0: there is none. */
struct busy {
	uint64_t rank, ready;
};

static int tell_busy(struct tutti_sharded *s, const struct busy *b)
{
	int r, err = 0;

	if (s->rank)
		return tutti_send(b, 2, TUTTI_UINT64, 0, BUSY_TAG, s->comm);
	for (r = 1; !err && r < s->ranks; r++)
		err = tutti_send(b, 2, TUTTI_UINT64, r, BUSY_TAG, s->comm);
	return err;
}

/* Takes the messages of earlier calls, which did not wait for them, and that of this one. */
static int hear_busy(struct tutti_sharded *s, int rank, struct busy *b)
{
	uint64_t i;
	int err = 0;

	for (i = 0; !err && i <= s->unheard; i++)
		err = tutti_recv(b, 2, TUTTI_UINT64, rank, BUSY_TAG, s->comm, NULL);
	return err;
}

/*
 * Collective: all ranks tell rank 0, which tells all. A rank in the middle of a step does not wait
 * for an answer, as others may wait for its step. So these are messages: collectives of this rank
 * may be under way that others have not started.
 */
static int find_busy(struct tutti_sharded *s, struct busy *b)
{
	struct busy other;
	int r, err = 0;

	if (b->ready) {
		s->unheard++;
		return tell_busy(s, b);
	}
	if (s->rank) {
		err = tell_busy(s, b);
		err = err ? err : hear_busy(s, 0, b);
	} else {
		for (r = 1; !err && r < s->ranks; r++) {
			err = hear_busy(s, r, &other);
			if (!err && other.ready && !b->ready)
				*b = other;
		}
		err = err ? err : tell_busy(s, b);
	}
	s->unheard = 0;
	return err;
}

static int check_busy(const char *call, struct tutti_sharded *s)
{
	struct busy b = {.rank = (uint64_t)s->rank, .ready = s->nready};
	int err = find_busy(s, &b);

	s->error = err;
	if (err || !b.ready)
		return err;
	return tt_train_fail(-EBUSY,
			     "%s: rank %llu: %llu tensors of a step are ready; call "
			     "tutti_sharded_step on all ranks first",
			     call, (unsigned long long)b.rank, (unsigned long long)b.ready);
}

static int begin(const char *call, const struct tutti_sharded *s, struct tt_state_file *f,
		 char **room, bool save)
{
	*room = NULL;
	if (s->rank)
		return 0;
	if (!f->path)
		return tt_train_fail(-EINVAL, "%s: path is NULL", call);
	*room = room_of(s);
	if (!*room)
		return tt_train_fail(-ENOMEM, "%s: no memory for a bucket", call);
	return save ? tt_state_file_create(f) : tt_state_file_open(f);
}

/* Restoring to the end did not succeed: the parts of the state no longer fit together. */
static void clear(struct tutti_sharded *s)
{
	int v;

	for (v = 0; v < s->states; v++)
		memset(s->state[v], 0, s->own * s->b.elem);
	tt_sharded_clear_residuals(s);
	s->steps = 0;
}

static int run(const char *call, struct tutti_sharded *s, const char *path, bool save)
{
	struct tt_state_file f = file_of(s, path);
	char *room;
	int err = begin(call, s, &f, &room, save), other = 0, closed = 0;
	bool moved;

	err = share(s, err, &f);
	moved = !err;
	if (moved && !save)
		tt_sharded_clear_residuals(s);
	if (moved)
		other = move_state(s, &f, room, save, &err);
	if (moved && !other)
		other = move_residuals(s, &f, room, save, &err);
	if (s->rank == 0 && f.path)
		closed = tt_state_file_close(&f, save && !err && !other);
	free(room);
	if (other || !moved) {
		s->error = other;
		return other ? other : err;
	}
	err = share(s, err ? err : closed, &f);
	if (!save && err)
		clear(s);
	else if (!save)
		s->steps = f.steps;
	return err;
}

static int call_run(const char *call, struct tutti_sharded *s, const char *path, bool save)
{
	int err;

	if (TT_TRAIN_CHECK(call, s, "sharded", TT_SHARDED_MAGIC))
		return -EINVAL;
	pthread_mutex_lock(&s->lock);
	err = tt_sharded_over(s, call);
	if (!err)
		err = check_busy(call, s);
	if (!err)
		err = run(call, s, path, save);
	pthread_mutex_unlock(&s->lock);
	return err;
}

int tutti_sharded_save(struct tutti_sharded *s, const char *path)
{
	return call_run("tutti_sharded_save", s, path, true);
}

int tutti_sharded_restore(struct tutti_sharded *s, const char *path)
{
	return call_run("tutti_sharded_restore", s, path, false);
}
