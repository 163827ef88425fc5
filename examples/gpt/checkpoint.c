/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checkpoints that fit every grid: a file has a header, then the values of the whole model and the
 * two moments of AdamW. A rank writes the slices that it has to their places, and reads those that
 * it needs; replicas of a slice are written once. A file is complete when it has its name.
 *
 * With --zero or --staleness the moments are not in this file, but in others beside it. The sharded
 * optimizer of each pipeline stage and tensor rank writes its own, FILE.zero-...; the servers write
 * one together, FILE.servers-.... Any number of replicas and servers restores them. Their names end
 * with the step: those of the previous checkpoint stay until FILE is the new model, so an
 * interrupted save leaves the previous checkpoint complete.
 *
 * With --codec, what each replica's encodings have left out is in the files of the sharded
 * optimizer or of the servers, or else follows the moments: for each replica and each state of the
 * codec (tutti_codec_states) as many copies of the model as ranks can have of one parameter. Copy 0
 * has all slices, and what the first tensor rank and the first stage have of the rest; copy t what
 * tensor rank t has of it; as many follow for the head on the last stage. The rest of a copy is a
 * hole in the file. The same stages and tensor ranks read their own copies, others read copy 0:
 * that of the ranks whose gradients all have taken (gradients_agree). Each of n replicas adds up
 * the states of saved replicas r, r + n, ..., where r is its number, so that all have one taker.
 */
#define _POSIX_C_SOURCE 200809L
#include "examples/gpt/gpt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x3374706769747475ull
#define NO_STEP UINT64_MAX

enum moments { IN_FILE, IN_SHARDS, ON_SERVERS, ON_SERVERS_CODED, KINDS };

struct header {
	uint64_t magic, elements, step;
	int32_t layers, hidden, heads, length, bytes;
	int32_t moments;		/* where they are: enum moments */
	int32_t data, pipeline, tensor; /* the grid that saved it */
	int32_t states;			/* of its codec, for each replica; or 0 */
};

struct file {
	int fd, write;
	size_t array; /* the next to move: of the model, or its first copy */
	real *x;      /* between it and this */
	int copies;   /* its copies are for so many tensor ranks; 0: it has none but the first */
};

static enum moments moments_of(const struct gpt *g)
{
	if (g->o.servers)
		return g->o.codec ? ON_SERVERS_CODED : ON_SERVERS;
	return g->o.zero ? IN_SHARDS : IN_FILE;
}

static struct header header_of(const struct gpt *g)
{
	enum moments moments = moments_of(g);

	return (struct header){.magic = MAGIC,
			       .elements = g->file_count,
			       .step = (uint64_t)g->step,
			       .layers = g->o.layers,
			       .hidden = g->o.hidden,
			       .heads = g->o.heads,
			       .length = g->o.length,
			       .bytes = sizeof(real),
			       .moments = moments,
			       .data = g->o.dims[DATA],
			       .pipeline = g->o.dims[PIPELINE],
			       .tensor = g->o.dims[TENSOR],
			       .states = gradients_states(g)};
}

/* Without residuals. */
static size_t arrays(const struct gpt *g)
{
	return moments_of(g) == IN_FILE ? 3 : 1;
}

/* The first copy of a state of a replica. */
static size_t residual_array(const struct gpt *g, const struct header *h, int replica, int state)
{
	return arrays(g) +
	       ((size_t)replica * (size_t)h->states + (size_t)state) * 2 * (size_t)h->tensor;
}

/* Which of f->copies * 2 has what this rank knows of a parameter. */
static size_t copy_of(const struct gpt *g, const struct param *p, const struct file *f)
{
	size_t copy = p->nrows == p->rows && p->ncols == p->cols ? (size_t)g->at[TENSOR] : 0;

	if (!f->copies)
		return 0;
	return g->tie && g->last && p->at == g->head ? copy + (size_t)f->copies : copy;
}

static int move_run(struct gpt *g, const struct param *p, size_t at, size_t whole_at, size_t n,
		    void *arg)
{
	const struct file *f = arg;
	size_t array = f->array + copy_of(g, p, f), left = n * sizeof(real);
	off_t place =
		(off_t)(sizeof(struct header) + (array * g->file_count + whole_at) * sizeof(real));
	char *next = (char *)(f->x + at);
	ssize_t done;

	if (f->write && !f->copies && g->at[TENSOR] && p->nrows == p->rows && p->ncols == p->cols)
		return 0; /* whole on all ranks of the tensor axis */
	while (left) {	  /* a full disk takes a part, and says why it takes no more */
		done = f->write ? pwrite(f->fd, next, left, place)
				: pread(f->fd, next, left, place);
		if (done <= 0)
			return done ? -errno : -EIO;
		next += done;
		place += done;
		left -= (size_t)done;
	}
	return 0;
}

static int move_all(struct gpt *g, struct file *f)
{
	real *const from[] = {g->value, g->m, g->v};
	int err = 0;

	for (f->array = 0; f->array < arrays(g) && !err; f->array++) {
		f->x = from[f->array];
		err = params_each_run(g, move_run, f);
	}
	return err;
}

/* Those of this rank. */
static int write_residuals(struct gpt *g, struct file *f, const struct header *h)
{
	real *x = calloc(g->count * (size_t)h->states, sizeof(*x));
	int s, err = x ? gradients_residuals(g, x, 0) : -ENOMEM;

	f->copies = h->tensor;
	for (s = 0; s < h->states && !err; s++) {
		f->array = residual_array(g, h, g->at[DATA], s);
		f->x = x + (size_t)s * g->count;
		err = params_each_run(g, move_run, f);
	}
	free(x);
	return err;
}

/* The states of a saved replica, added to sum; those of another codec may be more or fewer. */
static int add_residuals(struct gpt *g, struct file *f, const struct header *h, int replica,
			 real *sum)
{
	int s, states = gradients_states(g) < h->states ? gradients_states(g) : h->states, err = 0;
	real *x = malloc(g->count * sizeof(*x));
	size_t i;

	if (!x)
		return -ENOMEM;
	f->x = x;
	for (s = 0; s < states && !err; s++, sum += g->count) {
		f->array = residual_array(g, h, replica, s);
		err = params_each_run(g, move_run, f);
		for (i = 0; i < g->count && !err; i++)
			sum[i] += x[i];
	}
	free(x);
	return err;
}

/* The file has all that the header promises. */
static int check_size(const struct gpt *g, const struct file *f, const struct header *h)
{
	struct stat st;

	if (h->states > 2 || h->tensor < 1 || h->data < 1)
		return -EIO;
	if (fstat(f->fd, &st))
		return -errno;
	return residual_array(g, h, h->data, 0) >
			       ((size_t)st.st_size - sizeof(*h)) / (g->file_count * sizeof(real))
		       ? -EIO
		       : 0;
}

static int read_residuals(struct gpt *g, struct file *f, const struct header *h)
{
	int err = check_size(g, f, h), states = gradients_states(g), replica = g->at[DATA];
	real *sum = err ? NULL : calloc(g->count * (size_t)states, sizeof(*sum));

	if (!sum)
		return err ? err : -ENOMEM;
	if (h->pipeline == g->o.dims[PIPELINE] && h->tensor == g->o.dims[TENSOR])
		f->copies = h->tensor;
	for (; replica < h->data && !err; replica += g->o.dims[DATA])
		err = add_residuals(g, f, h, replica, sum);
	if (!err)
		err = gradients_residuals(g, sum, 1);
	free(sum);
	return err;
}

/* All ranks fail if one does; the rank that failed says why. */
static int agree(struct gpt *g, int err, const char *path)
{
	int32_t worst = err;
	int lost;

	if (err && !g->told)
		fprintf(stderr, "gpt: %s: %s\n", path, strerror(-err));
	g->told |= err != 0;
	lost = tutti_allreduce(TUTTI_IN_PLACE, &worst, 1, TUTTI_INT32, TUTTI_MIN, g->world);
	return lost ? lost : worst;
}

struct name {
	char s[4096 + 96];
};

/* Of the file beside path with the moments of this rank's part of the model. */
static struct name name_moments(const struct gpt *g, const char *path, uint64_t step)
{
	const int *d = g->o.dims;
	struct name n;

	if (g->o.servers)
		snprintf(n.s, sizeof(n.s), "%s.servers-%dx%d-step%llu", path, d[PIPELINE],
			 d[TENSOR], (unsigned long long)step);
	else
		snprintf(n.s, sizeof(n.s), "%s.zero-%dx%d-%d-%d-step%llu", path, d[PIPELINE],
			 d[TENSOR], g->at[PIPELINE], g->at[TENSOR], (unsigned long long)step);
	return n;
}

/* All workers have failed: none ends the job before rank 0 knows why. */
static int fail_together(struct gpt *g, int err)
{
	if (err)
		tutti_barrier(g->world);
	return err;
}

/* With servers the values become those after the steps of all replicas. */
static int save_moments(struct gpt *g, const char *path)
{
	struct name n = name_moments(g, path, (uint64_t)g->step);
	int err;

	if (g->sharded)
		return tutti_sharded_save(g->sharded, n.s);
	if (!g->ps)
		return 0;
	err = fail_together(g, tutti_ps_save(g->ps, n.s));
	return err ? err : downpour_pull(g);
}

/* The step of the checkpoint there; NO_STEP if there is none. */
static uint64_t step_of(const char *path)
{
	struct header h = {0};
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? 0 : pread(fd, &h, sizeof(h), 0);

	if (fd >= 0)
		close(fd);
	return n == sizeof(h) && h.magic == MAGIC ? h.step : NO_STEP;
}

/* Removes the files of moments of step `old`, unless they are those of step `kept`. */
static void drop_moments(const struct gpt *g, const char *path, uint64_t old, uint64_t kept)
{
	if (moments_of(g) == IN_FILE || g->at[DATA] || old == kept || old == NO_STEP)
		return;
	unlink(name_moments(g, path, old).s);
}

static int write_part(struct gpt *g, const char *path)
{
	struct file f = {.fd = open(path, O_WRONLY | O_CREAT, 0666), .write = 1};
	struct header h = header_of(g);
	int err = 0;

	if (f.fd < 0)
		return -errno;
	if (!tutti_comm_rank(g->world) && pwrite(f.fd, &h, sizeof(h), 0) != sizeof(h))
		err = -EIO;
	if (!err && h.states &&
	    ftruncate(f.fd, (off_t)(sizeof(h) + residual_array(g, &h, h.data, 0) * g->file_count *
							sizeof(real))))
		err = -errno;
	if (!err && !g->at[DATA])
		err = move_all(g, &f);
	if (!err && h.states)
		err = write_residuals(g, &f, &h);
	if (!err && fsync(f.fd))
		err = -errno;
	return close(f.fd) && !err ? -errno : err;
}

/* A directory or a device would be replaced. */
static int check_place(struct gpt *g, const char *path)
{
	struct stat st;

	if (lstat(path, &st) || S_ISREG(st.st_mode))
		return 0;
	fprintf(stderr, "gpt: %s exists and is no regular file\n", path);
	g->told = 1;
	return -EINVAL;
}

int checkpoint_save(struct gpt *g, const char *path)
{
	int err, first = tutti_comm_rank(g->world) == 0;
	uint64_t step = (uint64_t)g->step, old;
	char part[4096];

	g->doing = "saving the model";
	if (snprintf(part, sizeof(part), "%s.part", path) >= (int)sizeof(part))
		return -ENAMETOOLONG;
	err = agree(g, first ? check_place(g, path) : 0, path);
	if (err)
		return err;
	old = step_of(path);
	err = save_moments(g, path);
	if (!err)
		err = agree(g, write_part(g, part), part);
	if (err) {
		if (first)
			unlink(part);
		drop_moments(g, path, step, old);
		return err;
	}
	err = agree(g, first && rename(part, path) ? -errno : 0, path);
	if (err)
		drop_moments(g, path, step, old);
	else
		drop_moments(g, path, old, step);
	return err;
}

static void tell_header(const struct header *h, const struct header *mine, const char *path)
{
	static const char *const saved[KINDS] = {
		[IN_FILE] = "without --zero and --staleness",
		[IN_SHARDS] = "with --zero",
		[ON_SERVERS] = "with --staleness and without --codec",
		[ON_SERVERS_CODED] = "with --staleness and --codec",
	};

	if (h->magic != MAGIC || h->moments < IN_FILE || h->moments >= KINDS)
		fprintf(stderr, "gpt: %s is no checkpoint of gpt\n", path);
	else if (h->layers != mine->layers || h->hidden != mine->hidden ||
		 h->heads != mine->heads || h->length != mine->length || h->bytes != mine->bytes)
		fprintf(stderr,
			"gpt: %s has another model: --layers %d --hidden %d --heads %d "
			"--length %d, %d bytes a number\n",
			path, h->layers, h->hidden, h->heads, h->length, h->bytes);
	else if (h->moments != mine->moments)
		fprintf(stderr, "gpt: %s was saved %s: load it so\n", path, saved[h->moments]);
	else
		fprintf(stderr,
			"gpt: %s was saved %s by --pipeline %d --tensor %d: only --data and "
			"--servers may change\n",
			path, saved[h->moments], h->pipeline, h->tensor);
}

static int check_header(struct gpt *g, const struct header *h, const char *path)
{
	struct header mine = header_of(g);

	mine.step = h->step;
	mine.data = h->data;
	mine.states = h->states;
	if (h->moments == IN_FILE) {
		mine.pipeline = h->pipeline;
		mine.tensor = h->tensor;
	}
	if (!memcmp(h, &mine, sizeof(mine)))
		return 0;
	g->told = 1;
	if (!tutti_comm_rank(g->world))
		tell_header(h, &mine, path);
	return -EINVAL;
}

static int read_part(struct gpt *g, const char *path)
{
	struct file f = {.fd = open(path, O_RDONLY)};
	struct header h = {0};
	int err;

	if (f.fd < 0)
		return -errno;
	err = pread(f.fd, &h, sizeof(h), 0) == sizeof(h) ? check_header(g, &h, path) : -EIO;
	if (!err)
		err = move_all(g, &f);
	if (!err && h.states && gradients_states(g))
		err = read_residuals(g, &f, &h);
	if (!err)
		g->step = (int)h.step;
	close(f.fd);
	return err;
}

int checkpoint_load(struct gpt *g, const char *path)
{
	int err;

	g->doing = "restoring the model";
	err = agree(g, read_part(g, path), path);
	if (err || !g->sharded)
		return err;
	return tutti_sharded_restore(g->sharded, name_moments(g, path, (uint64_t)g->step).s);
}

int checkpoint_load_servers(struct gpt *g, const char *path)
{
	g->doing = "restoring the servers";
	return fail_together(g,
			     tutti_ps_restore(g->ps, name_moments(g, path, (uint64_t)g->step).s));
}
