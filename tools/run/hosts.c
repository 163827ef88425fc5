/* SPDX-License-Identifier: BSD-3-Clause */
/* Hosts and their slots, from -H or a hostfile, and the placement of ranks. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/number.h"
#include "tools/run/run.h"

#define MAX_SLOTS 65536

/* Prefix of an error: "FILE:LINE: " or "-H: ". */
struct where {
	const char *file;
	int line;
};

static int complain(const struct where *w, const char *what, const char *word)
{
	if (w->file)
		return fail("%s:%d: %s '%s'", w->file, w->line, what, word);
	return fail("-H: %s '%s'", what, word);
}

static bool is_local(const char *name)
{
	char own[HOST_NAME_MAX + 1] = "";

	gethostname(own, sizeof(own) - 1);
	if (!strcmp(name, "localhost") || !strcmp(name, "127.0.0.1") || !strcmp(name, "::1") ||
	    !strcmp(name, own))
		return true;
	own[strcspn(own, ".")] = 0;
	return own[0] && !strcmp(name, own);
}

static int parse_slots(const struct where *w, const char *text, int *slots)
{
	uint64_t n = 0;
	const char *end = tt_number_digits(text, &n);

	if (!end || *end || n < 1 || n > MAX_SLOTS)
		return complain(w, "slots must be a number from 1 to 65536, not", text);
	*slots = (int)n;
	return 0;
}

static int add(struct hosts *hosts, const struct where *w, const char *name, int slots)
{
	struct host *h;
	int i;

	/* A leading '-' would be an option to the remote shell. */
	if (!*name || *name == '-' || strpbrk(name, " \t'\"\\$;&|<>`()"))
		return complain(w, "not a host name:", name);
	for (i = 0; i < hosts->n; i++)
		if (!strcmp(hosts->v[i].name, name))
			return complain(w, "host given twice (add up its slots instead):", name);
	h = realloc(hosts->v, (size_t)(hosts->n + 1) * sizeof(*h));
	if (!h)
		return fail("no memory");
	hosts->v = h;
	h += hosts->n++;
	*h = (struct host){.name = must_strdup(name), .slots = slots, .local = is_local(name)};
	return 0;
}

/* HOST or HOST:SLOTS; an IPv6 address goes in brackets: [fe80::1]:4. */
static int parse_item(struct hosts *hosts, const struct where *w, char *item)
{
	char *name = item, *colon = strrchr(item, ':');
	int slots = 1;

	if (*item == '[') {
		char *end = strchr(item, ']');

		if (!end || (end[1] && end[1] != ':'))
			return complain(w, "not a host name:", item);
		colon = end[1] ? end + 1 : NULL;
		*end = 0;
		name = item + 1;
	}
	if (colon) {
		*colon = 0;
		if (parse_slots(w, colon + 1, &slots))
			return -1;
	}
	return add(hosts, w, name, slots);
}

int hosts_parse_list(struct hosts *hosts, const char *list)
{
	struct where w = {0};
	char *copy = must_strdup(list), *rest = copy, *item;
	int err = 0;

	while (!err && (item = strsep(&rest, ",")))
		err = parse_item(hosts, &w, item);
	free(copy);
	return err;
}

static int parse_line(struct hosts *hosts, const struct where *w, char *line)
{
	char *name, *word, *save;
	int slots = 1;

	line[strcspn(line, "#\r\n")] = 0;
	name = strtok_r(line, " \t", &save);
	if (!name)
		return 0;
	while ((word = strtok_r(NULL, " \t", &save))) {
		if (strncmp(word, "slots=", 6))
			return complain(w, "expected HOST [slots=N], found", word);
		if (parse_slots(w, word + 6, &slots))
			return -1;
	}
	return add(hosts, w, name, slots);
}

int hosts_parse_file(struct hosts *hosts, const char *path)
{
	struct where w = {.file = path};
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t cap = 0;
	int err = 0;

	if (!f)
		return fail("hostfile %s: %s", path, strerror(errno));
	errno = 0;
	while (!err && getline(&line, &cap, f) >= 0) {
		w.line++;
		err = parse_line(hosts, &w, line);
	}
	if (!err && ferror(f)) /* as of a directory */
		err = fail("hostfile %s: %s", path, strerror(errno));
	free(line);
	fclose(f);
	if (!err && !hosts->n)
		return fail("hostfile %s names no host", path);
	return err;
}

int hosts_place(struct hosts *hosts, int *nranks)
{
	struct where none = {0};
	int total = 0, next = 0, i;

	if (!hosts->n) {
		if (!*nranks)
			*nranks = 1;
		if (add(hosts, &none, "localhost", *nranks))
			return -1;
	}
	for (i = 0; i < hosts->n; i++)
		total += hosts->v[i].slots;
	if (!*nranks)
		*nranks = total;
	if (*nranks > total)
		return fail("%d ranks asked for, but the hosts have %d slots; give more with "
			    "HOST:SLOTS in -H or slots=N in the hostfile",
			    *nranks, total);
	for (i = 0; i < hosts->n && next < *nranks; i++) {
		struct host *h = &hosts->v[i];

		h->first = next;
		h->count = h->slots < *nranks - next ? h->slots : *nranks - next;
		next += h->count;
	}
	while (hosts->n > i)
		free(hosts->v[--hosts->n].name);
	return 0;
}

void hosts_free(struct hosts *hosts)
{
	while (hosts->n)
		free(hosts->v[--hosts->n].name);
	free(hosts->v);
	hosts->v = NULL;
}
