/* SPDX-License-Identifier: BSD-3-Clause */
/* Findings: collected, printed, to and from JSON. */
#include "tools/doctor/doctor.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char *const levels[] = {"ok", "warn", "FAIL"};

static struct finding *add(struct findings *f)
{
	struct finding *v = realloc(f->v, (size_t)(f->n + 1) * sizeof(*v));

	if (!v) {
		fail("no memory");
		exit(3);
	}
	f->v = v;
	v += f->n++;
	memset(v, 0, sizeof(*v));
	snprintf(v->host, sizeof(v->host), "%s", f->host);
	return v;
}

void found(struct findings *f, const char *check, enum level level, const char *cost,
	   const char *mend, const char *fmt, ...)
{
	struct finding *v = add(f);
	va_list ap;

	snprintf(v->check, sizeof(v->check), "%s", check);
	v->level = level;
	snprintf(v->cost, sizeof(v->cost), "%s", cost);
	snprintf(v->mend, sizeof(v->mend), "%s", mend);
	va_start(ap, fmt);
	vsnprintf(v->what, sizeof(v->what), fmt, ap);
	va_end(ap);
}

void found_ok(struct findings *f, const char *check, const char *fmt, ...)
{
	struct finding *v = add(f);
	va_list ap;

	snprintf(v->check, sizeof(v->check), "%s", check);
	va_start(ap, fmt);
	vsnprintf(v->what, sizeof(v->what), fmt, ap);
	va_end(ap);
}

json_t *findings_json(const struct findings *f)
{
	json_t *array = json_array();
	const struct finding *v;

	for (v = f->v; v < f->v + f->n; v++)
		json_array_append_new(array,
				      json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "host", v->host,
						"check", v->check, "level", levels[v->level],
						"what", v->what, "cost", v->cost, "mend", v->mend));
	return array;
}

void findings_add_json(struct findings *f, json_t *array)
{
	const char *check, *level, *what, *cost, *mend;
	enum level l;
	size_t i;
	json_t *v;

	json_array_foreach(array, i, v)
	{
		if (json_unpack(v, "{s:s, s:s, s:s, s:s, s:s}", "check", &check, "level", &level,
				"what", &what, "cost", &cost, "mend", &mend))
			continue;
		for (l = LEVEL_OK; l < LEVEL_FAIL && strcmp(level, levels[l]); l++)
			;
		found(f, check, l, cost, mend, "%s", what);
	}
}

static void print_one(const struct finding *v)
{
	printf("  %-4s %-11s %s\n", levels[v->level], v->check, v->what);
	if (v->cost[0])
		printf("       %11s costs: %s\n", "", v->cost);
	if (v->mend[0])
		printf("       %11s mend:  %s\n", "", v->mend);
}

/* All findings of the host that number first is the first one of. */
static void print_host(const struct findings *f, int first, bool all)
{
	bool named = false;
	int i;

	for (i = 0; i < first; i++)
		if (!strcmp(f->v[i].host, f->v[first].host))
			return;
	for (i = first; i < f->n; i++) {
		if (strcmp(f->v[i].host, f->v[first].host) || (!all && !f->v[i].level))
			continue;
		if (!named)
			printf("%s\n", f->v[i].host);
		named = true;
		print_one(&f->v[i]);
	}
}

static void print_text(const struct findings *f, bool all)
{
	int count[3] = {0}, i;

	for (i = 0; i < f->n; i++) {
		count[f->v[i].level]++;
		print_host(f, i, all);
	}
	printf("%d ok, %d warnings, %d failures\n", count[0], count[1], count[2]);
}

void findings_print(const struct findings *f, bool json, bool all)
{
	json_t *array;

	if (!json) {
		print_text(f, all);
		return;
	}
	array = findings_json(f);
	json_dumpf(array, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(array);
}

enum level findings_worst(const struct findings *f)
{
	enum level worst = LEVEL_OK;
	int i;

	for (i = 0; i < f->n; i++)
		if (f->v[i].level > worst)
			worst = f->v[i].level;
	return worst;
}

void findings_free(struct findings *f)
{
	free(f->v);
	f->v = NULL;
	f->n = 0;
}

bool read_line_of(const char *path, char *line, size_t size)
{
	FILE *f = fopen(path, "re");
	bool read = f && fgets(line, (int)size, f);

	if (f)
		fclose(f);
	if (read)
		line[strcspn(line, "\n")] = 0;
	return read;
}
