/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of each rank, for --watch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/ras/watch.h"

double seconds_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

const char *member_text(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

double member_real(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

double view_rate(const struct seen *s, const char *key)
{
	double dt;

	if (!s->fresh || !s->before)
		return -1;
	dt = member_real(s->now, "time") - member_real(s->before, "time");
	return dt > 0 ? (member_real(s->now, key) - member_real(s->before, key)) / dt : -1;
}

const char *view_host(const struct view *v, int rank)
{
	return rank >= 0 && rank < v->nranks ? member_text(v->seen[rank].now, "host") : "";
}

/* Whether the kernel says that the process is stopped. */
static bool is_stopped(int pid)
{
	char path[40], line[512], *end;
	bool stopped;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	end = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
	stopped = end && (end[1] == ' ') && (end[2] == 'T' || end[2] == 't');
	fclose(f);
	return stopped;
}

static int take_size(struct view *v, const struct answers *a)
{
	if (!a->nranks || v->nranks == a->nranks)
		return 0;
	view_free(v);
	v->seen = calloc((size_t)a->nranks, sizeof(*v->seen));
	if (!v->seen)
		return -1;
	v->nranks = a->nranks;
	return 0;
}

/* Takes an answer over. */
static void take_answer(struct seen *s, json_t **answer, double now)
{
	json_decref(s->before);
	s->before = s->now;
	s->now = *answer;
	*answer = NULL;
	s->answered = now;
	s->fresh = true;
	s->pid = (int)member_real(s->now, "pid");
}

static bool has_failed(const struct seen *s)
{
	const json_t *comms = json_object_get(s->now, "communicators");
	size_t i;

	for (i = 0; i < json_array_size(comms); i++)
		if (*member_text(json_array_get(comms, i), "error_text"))
			return true;
	return false;
}

static enum mood mood_of(const struct seen *s)
{
	if (s->gone)
		return GONE;
	if (s->stopped)
		return STOPPED;
	if (!s->now)
		return UNKNOWN;
	if (!s->fresh)
		return SILENT;
	return has_failed(s) ? FAILED : RUNNING;
}

int view_take(struct view *v, struct answers *a, const struct door *door, int ndoors)
{
	struct seen *s;
	int i;

	v->looked = seconds_now();
	if (take_size(v, a))
		return -1;
	for (i = 0; i < v->nranks; i++) {
		s = &v->seen[i];
		s->fresh = s->stopped = false;
		if (a->nranks && a->rank[i])
			take_answer(s, &a->rank[i], v->looked);
		s->gone |= a->nranks && a->gone[i] && !s->fresh;
	}
	for (i = 0; i < ndoors; i++) {
		s = door[i].rank < v->nranks ? &v->seen[door[i].rank] : NULL;
		if (!s)
			continue;
		s->pid = door[i].pid;
		s->stopped = is_stopped(door[i].pid);
	}
	for (i = 0; i < v->nranks; i++)
		v->seen[i].mood = mood_of(&v->seen[i]);
	return waits_find(v);
}

void view_free(struct view *v)
{
	int i;

	waits_free(v);
	for (i = 0; i < v->nranks; i++) {
		json_decref(v->seen[i].now);
		json_decref(v->seen[i].before);
	}
	free(v->seen);
	v->seen = NULL;
	v->nranks = 0;
}
