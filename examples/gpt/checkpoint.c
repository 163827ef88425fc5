/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checkpoints that fit every grid: a file has a header, then the values of the whole model and the
 * two moments of AdamW. A rank writes the slices that it has to their places, and reads those that
 * it needs; replicas of a slice are written once. A file is complete when it has its name.
 *
 * With --zero the moments are not in this file. The sharded optimizer of each pipeline stage and
 * tensor rank writes its own, FILE.zero-..., which any number of replicas restores. The name ends
 * with the step: those of the previous checkpoint stay until FILE is the new model, so an
 * interrupted save leaves the previous checkpoint complete.
 */
#define _POSIX_C_SOURCE 200809L
#include "examples/gpt/gpt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x3174706769747475ull
#define NO_STEP UINT64_MAX

struct header {
	uint64_t magic, elements, step;
	int32_t layers, hidden, heads, length, bytes, zero; /* zero: with --zero 1 or 2 */
};

struct file {
	int fd, write, array;
};

static struct header header_of(const struct gpt *g)
{
	return (struct header){.magic = MAGIC,
			       .elements = g->file_count,
			       .step = (uint64_t)g->step,
			       .layers = g->o.layers,
			       .hidden = g->o.hidden,
			       .heads = g->o.heads,
			       .length = g->o.length,
			       .bytes = sizeof(real),
			       .zero = g->o.zero > 0};
}

static int move_run(struct gpt *g, const struct param *p, size_t at, size_t whole_at, size_t n,
		    void *arg)
{
	const struct file *f = arg;
	real *const arrays[] = {g->value, g->m, g->v}, *x = arrays[f->array] + at;
	off_t place = (off_t)(sizeof(struct header) +
			      ((size_t)f->array * g->file_count + whole_at) * sizeof(real));
	char *next = (char *)x;
	size_t left = n * sizeof(real);
	ssize_t done;

	if (f->write && g->at[TENSOR] && p->nrows == p->rows && p->ncols == p->cols)
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
	int err = 0;

	for (f->array = 0; f->array < (g->sharded ? 1 : 3) && !err; f->array++)
		err = params_each_run(g, move_run, f);
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

static void name_shard(const struct gpt *g, const char *path, uint64_t step, char *name,
		       size_t size)
{
	const int *d = g->o.dims;

	snprintf(name, size, "%s.zero-%dx%d-%d-%d-step%llu", path, d[PIPELINE], d[TENSOR],
		 g->at[PIPELINE], g->at[TENSOR], (unsigned long long)step);
}

static int move_shards(struct gpt *g, const char *path, int write)
{
	char name[4096 + 96];

	if (!g->sharded)
		return 0;
	name_shard(g, path, (uint64_t)g->step, name, sizeof(name));
	return write ? tutti_sharded_save(g->sharded, name)
		     : tutti_sharded_restore(g->sharded, name);
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

/* Removes the optimizer's states of step `old`, unless they are those of step `kept`. */
static void drop_shards(const struct gpt *g, const char *path, uint64_t old, uint64_t kept)
{
	char name[4096 + 96];

	if (!g->sharded || g->at[DATA] || old == kept || old == NO_STEP)
		return;
	name_shard(g, path, old, name, sizeof(name));
	unlink(name);
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
	if (!err && !g->at[DATA])
		err = move_all(g, &f);
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
	uint64_t now = (uint64_t)g->step, old;
	char part[4096];

	g->doing = "saving the model";
	if (snprintf(part, sizeof(part), "%s.part", path) >= (int)sizeof(part))
		return -ENAMETOOLONG;
	err = agree(g, first ? check_place(g, path) : 0, path);
	if (err)
		return err;
	old = step_of(path);
	err = move_shards(g, path, 1);
	if (!err)
		err = agree(g, write_part(g, part), part);
	if (err) {
		if (first)
			unlink(part);
		drop_shards(g, path, now, old);
		return err;
	}
	err = agree(g, first && rename(part, path) ? -errno : 0, path);
	if (err)
		drop_shards(g, path, now, old);
	else
		drop_shards(g, path, old, now);
	return err;
}

static int check_header(struct gpt *g, const struct header *h, const char *path)
{
	struct header mine = header_of(g);

	mine.step = h->step;
	if (!memcmp(h, &mine, sizeof(mine)))
		return 0;
	g->told = 1;
	if (tutti_comm_rank(g->world))
		return -EINVAL;
	if (h->magic != MAGIC)
		fprintf(stderr, "gpt: %s is no checkpoint of gpt\n", path);
	else
		fprintf(stderr,
			"gpt: %s has another model: --layers %d --hidden %d --heads %d "
			"--length %d, %d bytes a number, %s --zero\n",
			path, h->layers, h->hidden, h->heads, h->length, h->bytes,
			h->zero ? "with" : "without");
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
	return err ? err : move_shards(g, path, 0);
}
