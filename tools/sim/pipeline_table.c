/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The steps of the stages: those of libtutti_train, or a file's, which has a line for each stage,
 * such as "F0 F1 B0 B1", with F0.1 for chunk 1, and comments from a #.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "tools/sim/pipeline.h"
#include "tools/values.h"

int pipe_name(const struct pipe_table *t, const struct tutti_pipeline_step *s, char name[PIPE_NAME])
{
	char kind = s->backward ? 'B' : 'F';

	return t->chunks > 1 ? snprintf(name, PIPE_NAME, "%c%d.%d", kind, s->micro, s->chunk)
			     : snprintf(name, PIPE_NAME, "%c%d", kind, s->micro);
}

int pipe_make(const struct pipe_options *opt, struct pipe_table *t)
{
	struct tutti_pipeline_config config = {.size = sizeof(config),
					       .schedule = opt->schedule,
					       .stages = opt->stages,
					       .micro_batches = opt->micros,
					       .chunks = opt->chunks};
	const struct tutti_pipeline_step *steps;
	struct tutti_pipeline *pipeline;
	int stage, n, err = tutti_pipeline_create(&config, &pipeline);

	if (err)
		return cli_fail("%s", tt_fail_text(err));
	*t = (struct pipe_table){.stages = opt->stages,
				 .micros = opt->micros,
				 .chunks = opt->chunks,
				 .n = 2 * opt->micros * opt->chunks};
	t->steps = calloc((size_t)t->stages * (size_t)t->n, sizeof(*t->steps));
	for (stage = 0; t->steps && stage < t->stages; stage++) {
		tutti_pipeline_steps(pipeline, stage, &steps, &n);
		memcpy(t->steps + (size_t)stage * (size_t)n, steps, (size_t)n * sizeof(*steps));
	}
	tutti_pipeline_free(pipeline);
	return t->steps ? 0 : cli_fail("no memory for %d stages", opt->stages);
}

/* ---- from a file ---- */

struct reader {
	const char *path;
	struct pipe_table *t;
	size_t have, cap;
	int line;
};

/* A whole number without a sign, below STEPS_MAX; NULL: it is none. */
static const char *number(const char *text, int *value)
{
	char *end;
	long v;

	if (!isdigit((unsigned char)*text))
		return NULL;
	v = strtol(text, &end, 10);
	*value = (int)v;
	return v < STEPS_MAX ? end : NULL;
}

static int add_step(struct reader *r, const char *word)
{
	struct tutti_pipeline_step s = {.backward = *word == 'B'};
	struct pipe_table *t = r->t;
	const char *rest = *word == 'F' || *word == 'B' ? number(word + 1, &s.micro) : NULL;
	void *more;

	if (rest && *rest == '.')
		rest = number(rest + 1, &s.chunk);
	if (!rest || *rest)
		return cli_fail("%s, line %d: a step such as F0, B0 or B0.1, not '%s'", r->path,
				r->line, word);
	if (r->have == STEPS_MAX)
		return cli_fail("%s: more than %d steps", r->path, STEPS_MAX);
	if (r->have == r->cap) {
		r->cap = r->cap ? 2 * r->cap : 1024;
		more = realloc(t->steps, r->cap * sizeof(s));
		if (!more)
			return cli_fail("no memory for %s", r->path);
		t->steps = more;
	}
	t->steps[r->have++] = s;
	t->micros = s.micro >= t->micros ? s.micro + 1 : t->micros;
	t->chunks = s.chunk >= t->chunks ? s.chunk + 1 : t->chunks;
	return 0;
}

/* A line is a stage, unless it is empty. */
static int add_line(struct reader *r, char *line)
{
	size_t before = r->have;
	char *word, *save = NULL;
	int err = 0;

	line[strcspn(line, "#")] = '\0';
	for (word = strtok_r(line, " \t\r\n", &save); word && !err;
	     word = strtok_r(NULL, " \t\r\n", &save))
		err = add_step(r, word);
	if (err || r->have == before)
		return err;
	if (r->t->stages == STAGES_MAX)
		return cli_fail("%s: more than %d stages", r->path, STAGES_MAX);
	if (!r->t->stages++)
		r->t->n = (int)r->have;
	if (r->have - before != (size_t)r->t->n)
		return cli_fail("%s, line %d: stage %d has %zu steps, and stage 0 has %d", r->path,
				r->line, r->t->stages - 1, r->have - before, r->t->n);
	return 0;
}

/*
 * The steps of a chunk go in order of micro-batches, as their messages do, and B after F. next: the
 * micro-batch of each chunk's next F and B. With n steps each is there once then.
 */
static int check_stage(const struct pipe_table *t, const char *path, int stage, int *next)
{
	const struct tutti_pipeline_step *s = t->steps + (size_t)stage * (size_t)t->n;
	struct tutti_pipeline_step due;
	char name[PIPE_NAME], first[PIPE_NAME];
	int i, *want;

	memset(next, 0, 2 * (size_t)t->chunks * sizeof(*next));
	for (i = 0; i < t->n; i++, s++) {
		want = &next[2 * s->chunk + s->backward];
		due = (struct tutti_pipeline_step){*want, s->chunk, s->backward};
		pipe_name(t, s, name);
		pipe_name(t, &due, first);
		if (s->micro < *want)
			return cli_fail("%s: stage %d has %s twice", path, stage, name);
		if (s->micro > *want)
			return cli_fail("%s: stage %d has %s where %s comes next: the steps of a "
					"chunk go in order of micro-batches",
					path, stage, name, first);
		if (s->backward && next[2 * s->chunk] <= s->micro)
			return cli_fail("%s: stage %d has %s before F%s", path, stage, name,
					name + 1);
		++*want;
	}
	return 0;
}

static int check_table(const struct pipe_table *t, const char *path)
{
	int *next, stage, err = 0;

	if (!t->stages)
		return cli_fail("%s: no stage; a line for each, such as F0 F1 B0 B1", path);
	if ((long long)t->n != 2ll * t->micros * t->chunks)
		return cli_fail("%s: stage 0 has %d steps, but %d micro-batches of %d chunks need "
				"%lld",
				path, t->n, t->micros, t->chunks, 2ll * t->micros * t->chunks);
	if (t->stages == 1 && t->chunks > 1)
		return cli_fail("%s: a single stage has one chunk, not %d", path, t->chunks);
	next = calloc(2 * (size_t)t->chunks, sizeof(int));
	if (!next)
		return cli_fail("no memory for %s", path);
	for (stage = 0; !err && stage < t->stages; stage++)
		err = check_stage(t, path, stage, next);
	free(next);
	return err;
}

int pipe_read(const char *path, struct pipe_table *t)
{
	struct reader r = {.path = path, .t = t};
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t cap = 0;
	ssize_t len;
	int err = 0;

	*t = (struct pipe_table){.chunks = 1};
	if (!f)
		return cli_fail("--read: cannot read %s: %s", path, strerror(errno));
	while (!err && (len = getline(&line, &cap, f)) >= 0) {
		r.line++;
		err = memchr(line, 0, (size_t)len) ? cli_fail("%s, line %d: a NUL byte; --read "
							      "takes text",
							      path, r.line)
						   : add_line(&r, line);
	}
	if (!err && ferror(f))
		err = cli_fail("--read: cannot read %s: %s", path, strerror(errno));
	free(line);
	fclose(f);
	err = err ? err : check_table(t, path);
	if (err)
		free(t->steps);
	return err;
}
