/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the dumps of flight recorders. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/blame/blame.h"
#include "tools/plain.h"

#define RANKS_MAX (1 << 24)

int64_t num(const json_t *line, const char *key, int64_t none)
{
	const json_t *v = json_object_get(line, key);

	return json_is_integer(v) ? json_integer_value(v) : none;
}

const char *str(const json_t *line, const char *key)
{
	const char *s = json_string_value(json_object_get(line, key));

	return s ? s : "";
}

double real(const json_t *line, const char *key)
{
	return json_number_value(json_object_get(line, key));
}

static int bad(const char *path, unsigned long line, const char *why)
{
	fprintf(stderr, "tutti_blame: %s:%lu: %s\n", path, line, why);
	return 1;
}

static int append(json_t ***list, size_t *n, json_t *line)
{
	json_t **more;

	if (*n % 64 == 0) {
		more = realloc(*list, (*n + 64) * sizeof(*more));
		if (!more)
			return perror("tutti_blame"), 1;
		*list = more;
	}
	(*list)[(*n)++] = line;
	return 0;
}

/* Communicators come before operations: an operation gets its communicator's name. */
static void name_comm(const struct dump *d, json_t *op)
{
	const json_t *c = comm_of(d, str(op, "uid"));

	if (c && *str(c, "name"))
		json_object_set_new(op, "name", json_string(str(c, "name")));
}

/* Takes line. */
static int keep(struct dump *d, json_t *line, unsigned long number)
{
	int err;

	if (number == 1) {
		d->head = line;
		if (num(line, "tutti_dump", 0) == 1)
			return 0;
		return bad(d->path, number,
			   "not the dump of a flight recorder, or of another version");
	}
	if (json_object_get(line, "operation"))
		name_comm(d, line);
	if (json_object_get(line, "operation"))
		err = append(&d->op, &d->nops, line);
	else if (json_object_get(line, "communicator"))
		err = append(&d->comm, &d->ncomms, line);
	else
		err = bad(d->path, number, "neither a communicator nor an operation");
	if (err)
		json_decref(line);
	return err;
}

static void free_dump(struct dump *d)
{
	size_t i;

	for (i = 0; i < d->ncomms; i++)
		json_decref(d->comm[i]);
	for (i = 0; i < d->nops; i++)
		json_decref(d->op[i]);
	json_decref(d->head);
	free(d->comm);
	free(d->op);
	free(d);
}

/* Dumps of an earlier job, under the same prefix, would lead astray. */
static bool same_job(const struct dumps *all, const struct dump *d)
{
	int i;

	for (i = 0; i < all->nranks; i++)
		if (all->of[i])
			return !strcmp(str(all->of[i]->head, "job"), str(d->head, "job"));
	return true;
}

static int place(struct dumps *all, struct dump *d)
{
	int64_t rank = num(d->head, "rank", -1), n = num(d->head, "nranks", 0);

	if (n < 1 || n > RANKS_MAX || rank < 0 || rank >= n)
		return bad(d->path, 1, "invalid rank or number of ranks");
	if (!all->of) {
		all->of = calloc((size_t)n, sizeof(struct dump *));
		if (!all->of)
			return perror("tutti_blame"), 1;
		all->nranks = (int)n;
	}
	if (n != all->nranks || all->of[rank] || !same_job(all, d))
		return bad(d->path, 1, "the dump is of another job, or of a rank already read");
	d->rank = (int)rank;
	all->of[rank] = d;
	return 0;
}

static int read_lines(struct dump *d, FILE *f)
{
	unsigned long number = 0;
	json_error_t why;
	char line[4096];
	json_t *j;

	while (fgets(line, sizeof(line), f)) {
		j = json_loads(line, 0, &why);
		if (!json_is_object(j)) {
			json_decref(j);
			return bad(d->path, number + 1, "not a line of JSON");
		}
		plain(j);
		if (keep(d, j, ++number))
			return 1;
	}
	return d->head ? 0 : bad(d->path, 1, "the file is empty");
}

int read_dump(struct dumps *dumps, const char *path)
{
	struct dump *d = calloc(1, sizeof(*d));
	FILE *f = fopen(path, "r");
	int err;

	if (!f || !d) {
		fprintf(stderr, "tutti_blame: can't read %s: %s\n", path, strerror(errno));
		if (f)
			fclose(f);
		free(d);
		return 1;
	}
	d->path = path;
	err = read_lines(d, f);
	fclose(f);
	err = err || place(dumps, d);
	if (err)
		free_dump(d);
	return err;
}

void free_dumps(struct dumps *dumps)
{
	int i;

	for (i = 0; i < dumps->nranks; i++)
		if (dumps->of[i])
			free_dump(dumps->of[i]);
	free(dumps->of);
}

const json_t *comm_of(const struct dump *d, const char *uid)
{
	size_t i;

	for (i = 0; i < d->ncomms; i++)
		if (!strcmp(str(d->comm[i], "uid"), uid))
			return d->comm[i];
	return NULL;
}

bool pending(const json_t *op)
{
	return strcmp(str(op, "state"), "done") != 0;
}

bool in_message(const struct dump *d, const json_t *op)
{
	static const char *const calls[] = {"send", "ssend", "recv", "probe"};
	const json_t *last = d->op[d->nops - 1];
	size_t i;

	if (!pending(op))
		return false;
	if (strcmp(str(op, "state"), "running") &&
	    (num(op, "status", 0) == -ECANCELED || real(last, "start") > real(op, "end")))
		return false;
	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (!strcmp(str(op, "call"), calls[i]))
			return true;
	return false;
}

const json_t *current(const struct dump *d)
{
	const json_t *last = NULL, *message = NULL;
	size_t i;

	for (i = 0; i < d->nops; i++) {
		if (!num(d->op[i], "sequence", 0)) {
			if (!message && in_message(d, d->op[i]))
				message = d->op[i];
			continue;
		}
		last = d->op[i];
		if (pending(last))
			return last;
	}
	if (message)
		return message;
	return last || !d->nops ? last : d->op[d->nops - 1];
}
